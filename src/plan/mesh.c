/*
 * GPUs that are joined each to each, without a switch. There very many channels cost the same, and what matters is that
 * no two of them use the same link. Zigzags over the GPUs in a circle, begun at each in turn, do not (Walecki, 1892):
 *
 *     0, 1, n-1, 2, n-2, ...        n ways over n GPUs; n even: each link once in each direction
 *     one GPU in the middle of n - 1 in a circle: rings, n odd: each link once in each direction
 *     the same, and one more GPU between the first two: rings, n even: n - 2 of the n - 1 that there could be
 */
#include "plan/search.h"

/* As many rows as there are pairs, and NVLink alone. */
static bool joined_each_to_each(const struct plan_model *model)
{
	if (model->gpus < 5 || model->rows < model->gpus * (model->gpus - 1) / 2)
		return false;
	for (size_t a = 0; a < model->gpus; a++)
		for (size_t b = 0; b < model->gpus; b++)
			if (a != b && model->path_class[plan_hop(model, a, b)] != TOPOLOGY_CLASS_NVL)
				return false;
	return true;
}

static uint8_t zigzag(size_t place, size_t count, size_t turn)
{
	size_t steps = (place + 1) / 2;

	return (uint8_t)((turn + (place % 2 ? steps : count - steps)) % count);
}

static void open_zigzag(size_t gpus, size_t turn, uint8_t *ret_order)
{
	for (size_t i = 0; i < gpus; i++)
		ret_order[i] = zigzag(i, gpus, turn);
}

static void closed_zigzag(size_t gpus, size_t turn, uint8_t *ret_order)
{
	size_t circle = gpus % 2 ? gpus - 1 : gpus - 2, place = 0;

	ret_order[place++] = (uint8_t)(gpus - 1);
	for (size_t i = 0; i < circle; i++) {
		ret_order[place++] = zigzag(i, circle, turn);
		if (!i && circle == gpus - 2)
			ret_order[place++] = (uint8_t)(gpus - 2);
	}
}

void plan_search_seed_mesh(struct plan_search *search)
{
	const struct plan_model *model = search->model;

	if (!joined_each_to_each(model))
		return;
	for (size_t turn = 0; turn < model->gpus; turn++) {
		struct plan_channel channel = { 0 };
		uint32_t column;

		if (model->closed)
			closed_zigzag(model->gpus, turn, channel.order);
		else
			open_zigzag(model->gpus, turn, channel.order);
		for (size_t nic = 0; nic < model->nics; nic++) {
			channel.nic_in = channel.nic_out = (uint8_t)nic;
			(void)plan_columns_add(&search->columns, &channel, &column);
		}
	}
}
