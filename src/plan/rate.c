/* SPDX-License-Identifier: Apache-2.0 */
/* Hops, what crosses them, and the rate that the fullest row allows. */
#include "plan/search.h"

#include "base/minmax.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

size_t plan_channel_hops(const struct plan_model *model, const struct plan_channel *channel,
			 uint32_t ret[PLAN_CHANNEL_HOPS_MAX])
{
	const uint8_t *order = channel->order;
	size_t last = model->gpus - 1, count = 0;

	for (size_t i = 0; i < last; i++)
		ret[count++] = (uint32_t)plan_hop(model, order[model->star ? 0 : i], order[i + 1]);
	if (model->closed && last)
		ret[count++] = (uint32_t)plan_hop(model, order[last], order[0]);
	if (model->returns && last)
		ret[count++] = (uint32_t)plan_hop_back(model, order[last], order[0]);
	if (model->closed)
		return count;
	ret[count++] = (uint32_t)plan_hop_in(model, channel->nic_in, order[0]);
	ret[count++] = (uint32_t)plan_hop_out(model, channel->nic_out, order[last]);
	return count;
}

double plan_hop_price(const struct plan_model *model, size_t hop, const double *prices)
{
	double price = 0;

	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		price += prices[model->crossings[i].row] * model->crossings[i].count;
	return price;
}

void plan_hop_load(const struct plan_model *model, size_t hop, uint32_t times, uint32_t *loads)
{
	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		loads[model->crossings[i].row] += times * model->crossings[i].count;
}

struct plan_fraction plan_model_rate(const struct plan_model *model, const uint32_t *loads)
{
	struct plan_fraction rate = { PLAN_UNBOUNDED_BPS, 0 };

	for (size_t row = 0; row < model->rows; row++)
		if (loads[row] && (!rate.load || (unsigned __int128)model->capacity_Bps[row] * rate.load <
							 (unsigned __int128)rate.capacity_Bps * loads[row]))
			rate = (struct plan_fraction){ model->capacity_Bps[row], loads[row] };
	rate.load += !rate.load;
	return rate;
}

int plan_channels_rate(const struct plan_model *model, const struct plan *plan, uint64_t *ret_rate_Bps)
{
	uint32_t *loads = sys_zalloc((model->rows + 1) * sizeof(*loads));
	struct plan_fraction rate;

	if (!loads)
		return -ENOMEM;
	for (size_t i = 0; i < plan->channel_count; i++) {
		uint32_t hops[PLAN_CHANNEL_HOPS_MAX];
		size_t count = plan_channel_hops(model, &plan->channels[i], hops);

		for (size_t j = 0; j < count; j++)
			plan_hop_load(model, hops[j], 1, loads);
	}
	rate = plan_model_rate(model, loads);
	*ret_rate_Bps = rate.capacity_Bps / rate.load;
	sys_free(loads);
	return 0;
}

int plan_rate_at(const struct topology *topology, const struct plan_request *request, unsigned hosts,
		 const struct plan *plan, uint64_t *ret_rate_Bps)
{
	struct plan_model model = { 0 };
	int r = plan_model_at(&model, topology, request, plan->pattern, hosts);

	if (r == 0)
		r = plan_channels_rate(&model, plan, ret_rate_Bps);
	plan_model_fini(&model);
	return r;
}

/* ----------------------------------------------------------------------------------------------- crossed in other ways */

/* A model, and room for loads. weighed_fini is due after an error, too. */
struct weighed {
	struct plan_model model;
	uint32_t *loads;
};

static int weighed_init(struct weighed *ret, const struct topology *topology, const struct plan_request *request,
			enum plan_pattern pattern, unsigned hosts)
{
	int r;

	*ret = (struct weighed){ .loads = NULL };
	r = plan_model_at(&ret->model, topology, request, pattern, hosts);
	if (r < 0)
		return r;
	ret->loads = sys_zalloc((ret->model.rows + 1) * sizeof(*ret->loads));
	return ret->loads ? 0 : -ENOMEM;
}

static void weighed_fini(struct weighed *weighed)
{
	sys_free(weighed->loads);
	plan_model_fini(&weighed->model);
}

/* If a load counts 1/parts of the rate. The loads begin anew. */
static uint64_t take_rate(struct weighed *weighed, uint64_t parts)
{
	struct plan_fraction rate = plan_model_rate(&weighed->model, weighed->loads);

	memset(weighed->loads, 0, weighed->model.rows * sizeof(*weighed->loads));
	return parts * rate.capacity_Bps / rate.load;
}

/* By halves of an edge to another host, at each channel's first and second GPU. */
static uint64_t tree_rate(struct weighed *weighed, const struct plan *plan, uint32_t first_halves,
			  uint32_t second_halves)
{
	const struct plan_model *model = &weighed->model;

	for (size_t i = 0; i < plan->channel_count; i++) {
		const uint8_t *order = plan->channels[i].order, nic = plan->channels[i].nic_in;

		for (size_t j = 1; j < model->gpus; j++)
			plan_hop_load(model, plan_hop(model, order[j - 1], order[j]), 2, weighed->loads);
		plan_hop_load(model, plan_hop_in(model, nic, order[0]), first_halves, weighed->loads);
		plan_hop_load(model, plan_hop_in(model, nic, order[1]), second_halves, weighed->loads);
	}
	return take_rate(weighed, 2);
}

int plan_tree_balanced(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		       bool *ret)
{
	struct weighed weighed;
	int r = weighed_init(&weighed, topology, request, PLAN_TREE, 2);

	if (r == 0)
		*ret = tree_rate(&weighed, plan, 3, 1) >= tree_rate(&weighed, plan, 4, 0);
	weighed_fini(&weighed);
	return r;
}

int plan_one_way_rate(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		      uint64_t *ret_rate_Bps)
{
	struct weighed weighed;
	uint64_t rate_Bps = PLAN_UNBOUNDED_BPS;
	int r = weighed_init(&weighed, topology, request, PLAN_RING, 1);

	for (size_t back = 0; r == 0 && back < 2; back++) {
		for (size_t i = 0; i < plan->channel_count; i++)
			for (size_t j = 1; j < weighed.model.gpus; j++) {
				const uint8_t *at = &plan->channels[i].order[j - 1];

				plan_hop_load(&weighed.model, plan_hop(&weighed.model, at[back], at[1 - back]), 1,
					      weighed.loads);
			}
		rate_Bps = min_u64(rate_Bps, take_rate(&weighed, 1));
	}
	if (r == 0)
		*ret_rate_Bps = rate_Bps;
	weighed_fini(&weighed);
	return r;
}
