/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For communicators of which nobody can tell whether they have one host or several: channels are verified on both at once.
 * The rows of both models, one after the other; inner hops charge both, NICs the network's, the way back the other's.
 */
#include "plan/model.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

static uint64_t part_of(uint64_t capacity_Bps, uint64_t best_Bps)
{
	unsigned __int128 part = (unsigned __int128)capacity_Bps * PLAN_JOINED_WHOLE / best_Bps;

	/* So that totals of all channels cannot overflow; and 0 would mean that nothing is known. */
	if (part >= PLAN_UNBOUNDED_BPS)
		return PLAN_UNBOUNDED_BPS - 1;
	return part ? (uint64_t)part : 1;
}

static void add_crossings(struct plan_model *model, const struct plan_model *from, size_t hop, size_t first_row)
{
	for (uint32_t i = from->first[hop]; i < from->first[hop + 1]; i++) {
		model->crossings[model->first[model->hops]++] = (struct plan_crossing){
			(uint32_t)first_row + from->crossings[i].row, from->crossings[i].count
		};
	}
}

struct side {
	const struct plan_model *model;
	bool compared;
	size_t first_row;
};

static void add_hop(struct plan_model *model, const struct side *sides, size_t side_count, size_t hop)
{
	model->first[model->hops + 1] = model->first[model->hops];
	model->hops++;
	for (size_t i = 0; i < side_count; i++)
		if (sides[i].compared)
			add_crossings(model, sides[i].model, hop, sides[i].first_row);
}

static void describe_hop(struct plan_model *model, size_t at, const struct plan_model *from, size_t hop)
{
	model->detour[at] = from->detour[hop];
	model->path_class[at] = from->path_class[hop];
}

static void add_rows(struct plan_model *model, struct side *side, uint64_t best_Bps)
{
	side->first_row = model->rows;
	side->compared = best_Bps && best_Bps < PLAN_UNBOUNDED_BPS;
	for (size_t row = 0; side->compared && row < side->model->rows; row++)
		model->capacity_Bps[model->rows++] = part_of(side->model->capacity_Bps[row], best_Bps);
}

static void add_hops(struct plan_model *model, const struct side sides[2])
{
	const struct plan_model *alone = sides[0].model, *network = sides[1].model;
	size_t inner = network->gpus * network->gpus;

	for (size_t hop = 0; hop < network->hops; hop++) {
		add_hop(model, &sides[hop < inner ? 0 : 1], hop < inner ? 2 : 1, hop);
		describe_hop(model, hop, network, hop);
	}
	for (size_t hop = 0; alone->closed && hop < inner; hop++) {
		describe_hop(model, model->hops, alone, hop);
		add_hop(model, sides, 1, hop);
	}
}

int plan_model_join(struct plan_model *model, const struct plan_model *alone, uint64_t alone_best_Bps,
		    const struct plan_model *network, uint64_t network_best_Bps)
{
	struct side sides[2] = { { .model = alone }, { .model = network } };
	/* The way back charges what the hops of one host do, once more. */
	size_t crossings = 2 * (size_t)alone->first[alone->hops] + network->first[network->hops];

	memset(model, 0, sizeof(*model));
	model->gpus = network->gpus;
	model->nics = network->nics;
	model->channels_max = network->channels_max;
	model->mirrored = network->mirrored;
	model->crossnic = network->crossnic;
	model->network = true;
	model->returns = alone->closed;
	model->capacity_Bps = sys_zalloc((alone->rows + network->rows + 1) * sizeof(*model->capacity_Bps));
	model->crossings = sys_zalloc((crossings + 1) * sizeof(*model->crossings));
	if (!model->capacity_Bps || !model->crossings) {
		plan_model_fini(model);
		return -ENOMEM;
	}
	add_rows(model, &sides[0], alone_best_Bps);
	add_rows(model, &sides[1], network_best_Bps);
	add_hops(model, sides);
	return 0;
}
