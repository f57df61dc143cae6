/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/calibration.h"

#include "aggregate/schedule_rates.h"
#include "aggregate/aggregators.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"

#include <errno.h>
#include <time.h>

/*
 * Of the time-out: until an aggregator that does not get through is given up; until a member that does not is. But rounds have
 * a length of their own, whatever the time-out is.
 */
#define AGGREGATOR_TENTHS   3
#define AGGREGATOR_LEAST_NS (NS_PER_S / 2)
#define MEMBERS_TENTHS      15
#define MEMBERS_LEAST_NS    (3 * NS_PER_S)
#define NAP_NS              (20 * NS_PER_US)
/* Before an aggregator that seemed slow is tried again: what disturbed it may be over. */
#define PAUSE_NS            (10 * NS_PER_MS)

/* What all members agree on after a round: the greatest of each. */
struct measurement {
	uint64_t time_ns, disturbed;
};

struct calibration {
	struct group *group;
	struct measurement own, all;
	uint8_t *memory; /* an input, then results: what is in them matters to nobody */
	uint64_t timeout_ns;
	uint64_t spent_ns; /* as agreed */
	uint32_t lowered;  /* aggregators whose rate is less than was said */
	bool disturbed;    /* an aggregator was lost: what has been measured since says nothing */
	struct schedule_rates_calibration without;
};

static void lock(struct group *group)
{
	atomic_store(&group->wanted, true);
	pthread_mutex_lock(&group->lock);
}

static void unlock(struct group *group)
{
	atomic_store(&group->wanted, false);
	pthread_mutex_unlock(&group->lock);
	engine_wake(group->engine);
}

static uint64_t aggregator_limit_ns(const struct calibration *calibration)
{
	uint64_t limit_ns = calibration->timeout_ns / 10 * AGGREGATOR_TENTHS;

	return limit_ns > AGGREGATOR_LEAST_NS ? limit_ns : AGGREGATOR_LEAST_NS;
}

static uint64_t departures_limit_ns(const struct calibration *calibration)
{
	uint64_t limit_ns = calibration->timeout_ns / 10 * MEMBERS_TENTHS;

	return limit_ns > MEMBERS_LEAST_NS ? limit_ns : MEMBERS_LEAST_NS;
}

static void nap(uint64_t ns)
{
	struct timespec time = { .tv_nsec = (long)ns };

	nanosleep(&time, NULL);
}

/* Until it is done. suspects: the aggregators that are lost if it takes too long. */
static int finish(struct calibration *calibration, struct operation *operation, uint64_t began_ns, uint32_t suspects)
{
	struct group *group = calibration->group;

	for (;;) {
		uint64_t now_ns;
		bool done = false;
		int r = aggregate_test((struct aggregate_request *)operation, &done, NULL);

		if (r < 0 || done)
			return r;
		now_ns = clock_now_ns();
		if (clock_elapsed_ns(began_ns, now_ns) > departures_limit_ns(calibration))
			return -ETIMEDOUT;
		if (suspects && clock_elapsed_ns(began_ns, now_ns) > aggregator_limit_ns(calibration)) {
			lock(group);
			aggregators_suspect(group, suspects,
					    "it did not get through while it was measured, or a host stood still");
			unlock(group);
			suspects = 0;
		}
		nap(NAP_NS);
	}
}

/* calibration.own of all members becomes calibration.all. */
static int agree(struct calibration *calibration)
{
	struct operation *operation;
	int r = group_reduce(calibration->group, &calibration->own, &calibration->all,
			     sizeof(calibration->own) / sizeof(uint64_t), REDUCE_UINT64, REDUCE_MAX, 0, &operation);

	return r < 0 ? r : finish(calibration, operation, clock_now_ns(), 0);
}

/* Operations of so many bytes, all posted at once: how long they took, and whether an aggregator was lost meanwhile. */
static int operations_time(struct calibration *calibration, size_t bytes, uint32_t with)
{
	struct operation *operations[SCHEDULE_RATES_OPERATIONS];
	uint64_t began_ns = clock_now_ns();
	int r = 0;

	calibration->own = (struct measurement){ 0 };
	for (size_t i = 0; i < SCHEDULE_RATES_OPERATIONS && r == 0; i++)
		r = group_reduce(calibration->group, calibration->memory,
				 calibration->memory + (i + 1) * SCHEDULE_RATES_MOST_BYTES, bytes, REDUCE_UINT8,
				 REDUCE_MAX, ~with, &operations[i]);
	for (size_t i = 0; i < SCHEDULE_RATES_OPERATIONS && r == 0; i++) {
		r = finish(calibration, operations[i], began_ns, with);
		calibration->own.disturbed |= r == 0 && operations[i]->poisoned;
	}
	calibration->own.time_ns = clock_elapsed_ns(began_ns, clock_now_ns());
	return r;
}

/* One round. *ret_counts: it was long enough. */
static int run_round(struct calibration *calibration, struct schedule_rates_calibration *of, uint32_t with,
		     bool *ret_counts)
{
	int r = operations_time(calibration, of->bytes, with);

	if (r == 0)
		r = agree(calibration);
	if (r < 0)
		return r;
	calibration->spent_ns += calibration->all.time_ns;
	calibration->disturbed = calibration->all.disturbed != 0;
	*ret_counts = schedule_rates_round(of, calibration->all.time_ns);
	return 0;
}

static int run_rounds(struct calibration *calibration, struct schedule_rates_calibration *of, uint32_t with)
{
	bool counts = false;
	int r = 0;

	while (r == 0 && !counts && !calibration->disturbed)
		r = run_round(calibration, of, with, &counts);
	return r;
}

/* Well within the time after which an aggregator would be given up. */
static void again(const struct calibration *calibration, struct schedule_rates_calibration *of)
{
	if (of->time_ns < aggregator_limit_ns(calibration) / 8)
		schedule_rates_again(of);
}

/*
 * How much slower than the schedule says operations with these aggregators are, if it is beyond the limit, else 1. Both kinds
 * are tried close to each other, and what seems slow again: others may have been at the same ports, or cores.
 */
static int compare(struct calibration *calibration, uint32_t with, double expected_s_per_B, double limit,
		   double *ret_slower)
{
	struct schedule_rates_decision decision = { .limit = limit };
	struct schedule_rates_calibration of;
	bool enough = false;
	int r = 0;

	schedule_rates_begin(&of, expected_s_per_B, calibration->without.least_bytes);
	/* One comparison says nothing by itself, so there is a second one, however long the first took. */
	while (!enough && (decision.heard == 1 || calibration->spent_ns < SCHEDULE_RATES_ENOUGH_NS)) {
		if (decision.heard > 1) {
			nap(PAUSE_NS * decision.heard);
			again(calibration, &calibration->without);
			again(calibration, &of);
			r = run_rounds(calibration, &calibration->without, 0);
		}
		if (r == 0)
			r = run_rounds(calibration, &of, with);
		if (r < 0 || calibration->disturbed)
			break;
		enough = schedule_rates_hear(&decision, schedule_rates_compare(&of, &calibration->without));
	}
	*ret_slower = schedule_rates_slower(&decision);
	return r;
}

static void take_rate(struct calibration *calibration, size_t index, uint64_t rate_Bps)
{
	struct group *group = calibration->group;
	struct group_aggregator *aggregator = &group->aggregators->aggregators[index];
	uint64_t said_Bps = aggregator->rate_Bps;
	char name[128];

	lock(group);
	aggregator->rate_Bps = rate_Bps;
	unlock(group);
	if (rate_Bps != said_Bps)
		calibration->lowered |= aggregators_bit(index);
	aggregators_name(group, index, name, sizeof(name));
	if (group->self == 0 && rate_Bps != said_Bps)
		log_info(LOG_INIT,
			 "aggregator %s counts with the %.0f Mbit/s that it was measured to do for %zu hosts, not with "
			 "the %.0f that its card or the cluster file says",
			 name, (double)rate_Bps * 8e-6, group->host_count, (double)said_Bps * 8e-6);
}

/* One aggregator alone, or all that are left together, where they may be in each other's way. */
static int try_set(struct calibration *calibration, uint32_t with)
{
	struct group *group = calibration->group;
	struct schedule_loads loads;
	double slower, limit;
	bool alone = !(with & (with - 1));
	int r = group_expect(group, ~with, &loads);

	/* One that has no part anyway has nothing to lose. */
	if (r < 0 || loads.aggregator <= 0)
		return r;
	limit = schedule_rates_limit(loads.slowest_s_per_B, calibration->without.expected_s_per_B);
	r = compare(calibration, with, loads.slowest_s_per_B, limit, &slower);
	if (r < 0 || calibration->disturbed || slower <= 1)
		return r;
	for (size_t i = 0; i < group->aggregators->count; i++) {
		uint64_t said_Bps = group->aggregators->aggregators[i].rate_Bps;

		if (!(with & aggregators_bit(i)))
			continue;
		if (alone)
			take_rate(calibration, i,
				  schedule_rates_aggregator(said_Bps, loads.aggregator, loads.slowest_s_per_B, slower));
		else if (said_Bps)
			take_rate(calibration, i, schedule_rates_aggregator(said_Bps, (double)said_Bps, 1, slower));
	}
	return 0;
}

static int try_all(struct calibration *calibration)
{
	struct group *group = calibration->group;
	struct schedule_loads loads;
	uint32_t set = aggregators_usable(group);
	int r = group_expect(group, UINT32_MAX, &loads);

	if (r < 0 || loads.slowest_s_per_B <= 0) /* nobody knows what to expect of anybody */
		return r;
	schedule_rates_begin(&calibration->without, loads.slowest_s_per_B,
			     schedule_rates_least_bytes(group->host_count, (size_t)group->settings.segment_bytes));
	r = agree(calibration); /* all are here */
	if (r == 0)
		r = run_rounds(calibration, &calibration->without, 0);
	if (r == 0) /* again, as the first was on connections that had carried nothing yet */
		r = run_rounds(calibration, &calibration->without, 0);
	for (size_t i = 0; i < group->aggregators->count && r == 0; i++)
		if (set & aggregators_bit(i) && !calibration->disturbed &&
		    calibration->spent_ns < SCHEDULE_RATES_ENOUGH_NS)
			r = try_set(calibration, aggregators_bit(i));
	if (r == 0 && set & (set - 1) && !calibration->disturbed && calibration->spent_ns < SCHEDULE_RATES_ENOUGH_NS)
		r = try_set(calibration, set);
	return r;
}

static void leave(struct group *group, uint32_t set)
{
	aggregators_exclude(group, set, 0);
	group->aggregators->dismissed |= set;
	group->aggregators->logged |= set;
}

/* One that is as said stays: it may have a part when another is lost. */
static uint32_t without_part(const struct calibration *calibration)
{
	const struct group *group = calibration->group;
	uint32_t set = 0;

	for (size_t i = 0; i < group->aggregators->count; i++)
		if (aggregators_usable(group) & calibration->lowered & aggregators_bit(i) &&
		    schedule_node_share(group->schedule, (unsigned)(group->count + i)) <= 0)
			set |= aggregators_bit(i);
	return set;
}

/*
 * The schedule by what was found. An aggregator that is not used then must not be missed by anybody: each member notes that
 * first, and closes its connections when all have.
 */
static int settle(struct calibration *calibration)
{
	struct group *group = calibration->group;
	uint32_t left = 0;
	int r;

	lock(group);
	r = group_choose(group, &left);
	leave(group, left);
	if (r == 0)
		r = group_plan(group, 0);
	/* Too slow to have a part even so: each operation would wait for an agreement for nothing. */
	if (r == 0 && without_part(calibration)) {
		left |= without_part(calibration);
		leave(group, left);
		r = group_plan(group, 0);
	}
	if (r == 0) {
		group_find_facts(group);
		commit_replan(group);
	}
	unlock(group);
	aggregators_log_slow(group, left, "as it was measured, ");
	if (r == 0)
		r = agree(calibration);
	if (r < 0)
		return r;
	lock(group);
	aggregators_dismiss(group, 0);
	/* Nobody's operations. */
	group->operations_done = group->segments_done = group->flat_done = group->parts_done = 0;
	group->bytes_sent = group->bytes_received = group->bytes_copied = 0;
	group->messages_sent = 0;
	unlock(group);
	return 0;
}

int calibration_run(struct group *group)
{
	struct calibration calibration = { .group = group,
					   .timeout_ns = params_replace_ns(group->engine->setup.params->timeout_ns) };
	int r;

	if (!group->aggregators || !group->commit || !group->settings.measures || !aggregators_usable(group))
		return 0;
	calibration.memory = sys_zalloc((1 + SCHEDULE_RATES_OPERATIONS) * (size_t)SCHEDULE_RATES_MOST_BYTES);
	r = calibration.memory ? try_all(&calibration) : -ENOMEM;
	if (r == 0)
		r = settle(&calibration);
	/* Nothing may move into that memory any more. */
	if (r < 0)
		aggregate_close_group((struct aggregate_group *)group);
	sys_free(calibration.memory);
	return r;
}
