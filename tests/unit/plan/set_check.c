/* SPDX-License-Identifier: Apache-2.0 */
#include "set_check.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* As the verifier wants it: on one host no NIC is named. */
static struct plan without_nics(const struct plan *plan)
{
	struct plan copy = *plan;

	for (size_t i = 0; i < copy.channel_count; i++)
		copy.channels[i].nic_in = copy.channels[i].nic_out = 0;
	return copy;
}

/* The verifier's rate on so many hosts is what the set says of it, and the plan holds there. Returns the total. */
static double judged_total(const char *name, const struct topology *topology, const struct plan_request *request,
			   unsigned hosts, const struct plan *plan, uint64_t said_Bps)
{
	struct plan_request here = *request;
	struct plan there = hosts > 1 ? *plan : without_nics(plan);
	struct diag diag = { .text = "" };
	uint64_t rate_Bps = 0;

	here.hosts = hosts;
	if (plan_verify(topology, &here, &there, &diag) < 0 ||
	    plan_verify_rate(topology, &here, &there, &rate_Bps, &diag) < 0)
		fail_msg("%s, %zu GPUs, %u hosts: %s", name, plan->gpu_count, hosts, diag.text);
	assert_true(said_Bps <= rate_Bps + 1 && rate_Bps <= said_Bps + 1);
	return (double)said_Bps * (double)plan->channel_count;
}

/* The part of the best plan of one pattern on so many hosts. */
static double part_of_best(const char *name, const struct topology *topology, const struct plan_request *request,
			   const struct plan_set *set, enum plan_pattern pattern, unsigned hosts)
{
	uint64_t said_Bps = hosts > 1 ? set->inter_Bps[pattern] : set->intra_Bps[pattern];
	double total_Bps = judged_total(name, topology, request, hosts, &set->plans[pattern], said_Bps);
	struct plan_request here = *request;
	struct plan best;

	here.hosts = hosts;
	assert_int_equal(plan_make(topology, &here, pattern, &best), 0);
	if (best.rate_Bps == PLAN_UNBOUNDED_BPS)
		return 1;
	return total_Bps / (double)plan_total_Bps(&best);
}

double set_check_part(const char *name, const struct topology *topology, const struct plan_request *request,
		      const struct plan_set *set, enum plan_pattern pattern)
{
	double alone = 1, network = 1;

	if (set->where != PLAN_SEVERAL_HOSTS)
		alone = part_of_best(name, topology, request, set, pattern, 1);
	if (set->where != PLAN_ONE_HOST)
		network = part_of_best(name, topology, request, set, pattern, request->hosts > 2 ? request->hosts : 2);
	return alone < network ? alone : network;
}

/* Each channel comes in by the NIC of which the least part has had its turn; of several by the first. */
static void check_turns(const char *name, const struct plan *plan)
{
	size_t all[PLAN_NICS_MAX] = { 0 }, had[PLAN_NICS_MAX] = { 0 };

	for (size_t i = 0; i < plan->channel_count; i++)
		all[plan->channels[i].nic_in]++;
	for (size_t i = 0; i < plan->channel_count; i++) {
		uint8_t nic = plan->channels[i].nic_in;

		for (uint8_t other = 0; other < PLAN_NICS_MAX; other++)
			if (all[other] && (had[other] * all[nic] < had[nic] * all[other] ||
					   (had[other] * all[nic] == had[nic] * all[other] && other < nic)))
				fail_msg("%s: channel %zu comes in by NIC %u before NIC %u has its turn", name, i, nic,
					 other);
		had[nic]++;
	}
}

void set_check(const char *name, const struct topology *topology, const struct plan_request *request,
	       const struct plan_set *set, double *ret_ring, double *ret_tree)
{
	*ret_ring = set_check_part(name, topology, request, set, PLAN_RING);
	*ret_tree = set_check_part(name, topology, request, set, PLAN_TREE);
	assert_true(set->channel_count >= 2 && set->channel_count <= PLAN_CHANNELS_MAX);
	for (int pattern = 0; pattern < PLAN_PATTERN_COUNT; pattern++) {
		if (pattern != PLAN_DIRECT)
			assert_int_equal(set->has[pattern], pattern != PLAN_CHAIN || set->where != PLAN_ONE_HOST);
		if (set->has[pattern] && pattern != PLAN_DIRECT)
			assert_int_equal(set->plans[pattern].channel_count, set->channel_count);
	}
	check_turns(name, &set->plans[PLAN_RING]);
	check_turns(name, &set->plans[PLAN_TREE]);
	if (set->has[PLAN_CHAIN])
		(void)set_check_part(name, topology, request, set, PLAN_CHAIN);
}
