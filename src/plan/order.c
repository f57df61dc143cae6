/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/search.h"

#include <string.h>

static int compare_channels(const struct plan_channel *a, const struct plan_channel *b, size_t gpus)
{
	if (a->nic_in != b->nic_in)
		return a->nic_in < b->nic_in ? -1 : 1;
	if (a->nic_out != b->nic_out)
		return a->nic_out < b->nic_out ? -1 : 1;
	return memcmp(a->order, b->order, gpus);
}

/* A ring on one host begins at its first GPU. */
static struct plan_channel turned_channel(const struct plan_model *model, const struct plan_channel *channel)
{
	struct plan_channel turned = *channel;
	size_t first = 0;

	if (!model->closed)
		return turned;
	while (channel->order[first])
		first++;
	for (size_t i = 0; i < model->gpus; i++)
		turned.order[i] = channel->order[(first + i) % model->gpus];
	return turned;
}

/* How full the fullest row is with one more column. */
static double fullness(const struct plan_search *search, uint32_t column)
{
	const uint16_t *loads = plan_column_loads(&search->columns, column);
	double most = 0;

	for (size_t row = 0; row < search->model->rows; row++) {
		double full = (search->loads[row] + loads[row]) / search->capacities[row];

		most = loads[row] && full > most ? full : most;
	}
	return most;
}

struct nics {
	size_t all[PLAN_NICS_MAX], left[PLAN_NICS_MAX]; /* channels that come in by it */
};

static const struct plan_channel *channel_of(const struct plan_search *search, uint32_t column)
{
	return &search->columns.channels[column];
}

static struct nics count_nics(const struct plan_search *search, const struct plan_selection *selection)
{
	struct nics nics = { 0 };

	for (size_t i = 0; i < selection->count; i++)
		nics.all[channel_of(search, selection->columns[i])->nic_in]++;
	memcpy(nics.left, nics.all, sizeof(nics.left));
	return nics;
}

/* Of which the least part has had its turn; of several the first. */
static uint8_t next_nic(const struct nics *nics)
{
	size_t next = PLAN_NICS_MAX;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		if (nics->left[i] &&
		    (next == PLAN_NICS_MAX || nics->left[i] * nics->all[next] > nics->left[next] * nics->all[i]))
			next = i;
	return (uint8_t)next;
}

void plan_search_order(struct plan_search *search, const struct plan_selection *selection, struct plan *plan)
{
	struct nics nics = count_nics(search, selection);
	struct plan_selection left = *selection;

	memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
	while (left.count) {
		struct plan_channel best_channel = { 0 };
		uint8_t nic = next_nic(&nics);
		double least = 0;
		size_t best = left.count;

		for (size_t i = 0; i < left.count; i++) {
			struct plan_channel channel = turned_channel(search->model,
								     channel_of(search, left.columns[i]));
			double full = fullness(search, left.columns[i]);

			if (channel.nic_in != nic ||
			    (best < left.count &&
			     (full > least ||
			      (full >= least && compare_channels(&channel, &best_channel, search->model->gpus) >= 0))))
				continue;
			best = i;
			least = full;
			best_channel = channel;
		}
		nics.left[nic]--;
		plan_search_load(search, left.columns[best], true);
		plan->crossnic = plan->crossnic || best_channel.nic_in != best_channel.nic_out;
		plan->channels[plan->channel_count++] = best_channel;
		left.columns[best] = left.columns[--left.count];
	}
}

/* The farthest hops, in NCCL's sense. */
void plan_store_classes(const struct plan_model *model, struct plan *plan)
{
	for (size_t i = 0; i < plan->channel_count; i++) {
		uint32_t hops[PLAN_CHANNEL_HOPS_MAX];
		size_t count = plan_channel_hops(model, &plan->channels[i], hops);

		for (size_t j = 0; j < count; j++) {
			bool inner = plan_hop_is_inner(model, hops[j]);
			enum topology_class *farthest = inner ? &plan->intra_class : &plan->inter_class;

			if (model->path_class[hops[j]] > *farthest)
				*farthest = model->path_class[hops[j]];
		}
	}
}
