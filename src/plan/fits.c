/* SPDX-License-Identifier: Apache-2.0 */
#include "tributary/plan.h"

/* One that holds neither 0 nor 1 must not be read as bool. */
static bool is_bool(const bool *at)
{
	return *(const unsigned char *)at <= 1;
}

static bool bools_are_bools(const struct plan_request *request, const struct plan_set *set)
{
	bool ok = is_bool(&request->crossnic) && is_bool(&set->tree_balanced);

	for (size_t i = 0; i < PLAN_PATTERN_COUNT; i++)
		ok = ok && is_bool(&set->has[i]) && is_bool(&set->plans[i].exact) && is_bool(&set->plans[i].crossnic);
	return ok;
}

static bool is_order(const uint8_t *order, size_t count)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < count; i++) {
		if (order[i] >= count || seen & 1u << order[i])
			return false;
		seen |= 1u << order[i];
	}
	return true;
}

/* Rings, trees and chains are as many as the set says; heads as many as there are, each another GPU. */
static bool count_fits(const struct plan *plan, const struct plan_request *request, size_t channel_count)
{
	uint32_t seen = 0;

	if (plan->pattern != PLAN_DIRECT)
		return plan->channel_count == channel_count;
	if (!plan->channel_count || plan->channel_count > request->gpu_count)
		return false;
	for (size_t i = 0; i < plan->channel_count; i++) {
		uint8_t head = plan->channels[i].order[0];

		if (head >= request->gpu_count || seen >> head & 1U)
			return false;
		seen |= 1U << head;
	}
	return true;
}

static bool plan_fits(const struct plan *plan, const struct plan_request *request, size_t channel_count, size_t pattern)
{
	if ((size_t)plan->pattern != pattern || plan->gpu_count != request->gpu_count ||
	    !count_fits(plan, request, channel_count) || (unsigned)plan->intra_class >= TOPOLOGY_CLASS_COUNT ||
	    (unsigned)plan->inter_class >= TOPOLOGY_CLASS_COUNT)
		return false;
	for (size_t i = 0; i < plan->channel_count; i++) {
		const struct plan_channel *channel = &plan->channels[i];

		if (!is_order(channel->order, request->gpu_count) ||
		    (request->nic_count &&
		     (channel->nic_in >= request->nic_count || channel->nic_out >= request->nic_count)))
			return false;
	}
	return true;
}

bool plan_set_fits(const struct plan_request *request, const struct plan_set *set)
{
	if (!bools_are_bools(request, set) || request->gpu_count < 1 || request->gpu_count > PLAN_GPUS_MAX ||
	    request->nic_count > PLAN_NICS_MAX || (unsigned)set->where >= PLAN_WHERE_COUNT || set->channel_count < 1 ||
	    set->channel_count > PLAN_CHANNELS_MAX || !set->has[PLAN_RING] || !set->has[PLAN_TREE])
		return false;
	for (size_t i = 0; i < PLAN_PATTERN_COUNT; i++)
		if (set->has[i] && !plan_fits(&set->plans[i], request, set->channel_count, i))
			return false;
	return true;
}
