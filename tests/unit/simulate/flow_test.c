/* SPDX-License-Identifier: Apache-2.0 */
/* Flows at fair rates: by hand, and after every event against plain water-filling over all flows. */
#include "simulate/flow.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LINKS_MAX = 40, FLOWS_MAX = 120, WAY_MAX = 24 };

static void check_close(double is, double expected, double relative, const char *what)
{
	if (isinf(expected) ? is == expected : fabs(is - expected) <= relative * fmax(fabs(expected), 1e-9))
		return;
	fail_msg("%s is %.15g, expected %.15g", what, is, expected);
}

static uint32_t add(struct flow_network *network, const struct flow_crossing *way, size_t count, double bytes,
		    double start_s)
{
	uint32_t flow = UINT32_MAX;

	assert_int_equal(flow_add(network, way, count, bytes, start_s, &flow), 0);
	return flow;
}

/* --------------------------------------------------------------------------------------------------------- by hand */

/*
 * Links of 10 and 4. a and b share the first, b and c the second: b and c get 2, a the 8 that are left. c has 2 bytes
 * and is done after a second; then b gets 4 and a 6.
 */
static void what_one_leaves_goes_to_the_others(void **state)
{
	static const double capacity[] = { 10, 4 };
	static const struct flow_crossing first[] = { { 0, 1 } }, both[] = { { 0, 1 }, { 1, 1 } },
					  second[] = { { 1, 1 } };
	struct flow_network *network = NULL;
	uint32_t a, b, c;

	(void)state;
	assert_int_equal(flow_network_new(capacity, 2, &network), 0);
	a = add(network, first, 1, 20, 0);
	b = add(network, both, 2, 6, 0);
	c = add(network, second, 1, 2, 0);
	assert_int_equal(flow_watch(network, 1), 0);
	assert_int_equal(flow_step(network), 1);
	check_close(flow_rate_Bps(network, a), 8, 1e-12, "a");
	check_close(flow_rate_Bps(network, b), 2, 1e-12, "b");
	check_close(flow_rate_Bps(network, c), 2, 1e-12, "c");
	while (flow_step(network) == 1)
		;
	check_close(flow_result(network, c).end_s, 1, 1e-12, "end of c");
	check_close(flow_result(network, b).end_s, 2, 1e-12, "end of b");
	/* 8 in the first second, 6 in the next, and 6 more at 10 */
	check_close(flow_result(network, a).end_s, 2.6, 1e-12, "end of a");
	check_close(flow_link(network, 0).bytes, 26, 1e-12, "bytes of the first link");
	check_close(flow_link(network, 1).busy_s, 2, 1e-12, "time of the second link");
	{
		size_t count;
		const struct flow_point *points = flow_watched(network, 1, &count);

		assert_int_equal(count, 2);
		check_close(points[0].rate_Bps, 4, 1e-12, "the second link, full");
		check_close(points[1].rate_Bps, 0, 0, "the second link, left");
		check_close(points[1].time_s, 2, 1e-12, "when it is left");
	}
	flow_network_free(network);
}

/* A pipeline over three links, of which it crosses one twice, beside a plain flow on that one: 2x + x = 9. */
static void a_pipeline_goes_at_the_pace_of_its_slowest_edge(void **state)
{
	static const double capacity[] = { 100, 9, 100, INFINITY };
	static const struct flow_crossing ring[] = { { 0, 1 }, { 1, 1 }, { 2, 1 }, { 1, 1 }, { 3, 5 } },
					  plain[] = { { 1, 1 } };
	struct flow_network *network = NULL;

	(void)state;
	assert_int_equal(flow_network_new(capacity, 4, &network), 0);
	add(network, ring, 5, 30, 0);
	add(network, plain, 1, 30, 0);
	assert_int_equal(flow_step(network), 1);
	check_close(flow_rate_Bps(network, 0), 3, 1e-12, "the pipeline");
	check_close(flow_rate_Bps(network, 1), 3, 1e-12, "the plain flow");
	while (flow_step(network) == 1)
		;
	check_close(flow_end_s(network), 10, 1e-12, "the end");
	check_close(flow_link(network, 1).bytes, 90, 1e-12, "bytes of the narrow link");
	check_close(flow_link(network, 3).bytes, 150, 1e-12, "bytes of the unbounded link");
	flow_network_free(network);
}

static void flows_wait_for_those_before_them(void **state)
{
	static const double capacity[] = { 10 };
	static const struct flow_crossing way[] = { { 0, 1 } };
	struct flow_network *network = NULL;
	uint32_t a, b, c;

	(void)state;
	assert_int_equal(flow_network_new(capacity, 1, &network), 0);
	a = add(network, way, 1, 10, 1);
	b = add(network, way, 1, 20, 0);
	c = add(network, way, 1, 0, 0);
	assert_int_equal(flow_after(network, b, a, 0.5), 0);
	assert_int_equal(flow_after(network, c, b, 0), 0);
	assert_int_equal(flow_after(network, c, a, 9), 0);
	assert_int_equal(flow_run(network), 0);
	check_close(flow_result(network, b).start_s, 2.5, 1e-12, "start of b");
	check_close(flow_result(network, b).end_s, 4.5, 1e-12, "end of b");
	check_close(flow_result(network, c).start_s, 11, 1e-12, "start of c");
	check_close(flow_end_s(network), 11, 1e-12, "the end");
	check_close(flow_link(network, 0).busy_s, 3, 1e-12, "busy");
	assert_int_equal(flow_run(network), -EINVAL);
	flow_network_free(network);
}

static void what_cannot_be_is_refused(void **state)
{
	static const double negative[] = { 1, -1 }, no_number[] = { NAN }, capacity[] = { 10, 0 };
	static const struct flow_crossing none[] = { { 2, 1 } }, weightless[] = { { 0, 0 } }, closed[] = { { 1, 1 } },
					  open[] = { { 0, 1 } };
	struct flow_network *network = NULL;
	uint32_t flow, other;

	(void)state;
	assert_int_equal(flow_network_new(negative, 2, &network), -EINVAL);
	assert_int_equal(flow_network_new(no_number, 1, &network), -EINVAL);
	assert_int_equal(flow_network_new(NULL, 0, &network), 0);
	assert_int_equal(flow_run(network), 0);
	flow_network_free(network);
	flow_network_free(NULL);
	assert_int_equal(flow_network_new(capacity, 2, &network), 0);
	assert_int_equal(flow_add(network, none, 1, 1, 0, &flow), -EINVAL);
	assert_int_equal(flow_add(network, weightless, 1, 1, 0, &flow), -EINVAL);
	assert_int_equal(flow_add(network, open, 1, -1, 0, &flow), -EINVAL);
	assert_int_equal(flow_add(network, open, 1, INFINITY, 0, &flow), -EINVAL);
	assert_int_equal(flow_add(network, open, 1, 1, NAN, &flow), -EINVAL);
	assert_int_equal(flow_watch(network, 2), -EINVAL);
	/* No way: at its destination at once. */
	flow = add(network, NULL, 0, 1e12, 3);
	/* No capacity: never; but what has nothing to move over it is fine. */
	other = add(network, closed, 1, 5, 0);
	add(network, closed, 1, 0, 0);
	assert_int_equal(flow_after(network, 17, flow, 0), -EINVAL);
	assert_int_equal(flow_after(network, flow, other + 9, 0), -EINVAL);
	assert_int_equal(flow_after(network, flow, flow, -1), -EINVAL);
	add(network, open, 1, 10, 0);
	assert_int_equal(flow_run(network), -EDEADLK);
	assert_int_equal(flow_add(network, open, 1, 1, 0, &flow), -EINVAL);
	check_close(flow_result(network, flow).end_s, 3, 0, "end of what has no way");
	assert_true(isinf(flow_result(network, other).end_s));
	check_close(flow_end_s(network), 3, 0, "the end");
	flow_network_free(network);
	/* Each waits for the other. */
	assert_int_equal(flow_network_new(capacity, 2, &network), 0);
	flow = add(network, open, 1, 1, 0);
	other = add(network, open, 1, 1, 0);
	assert_int_equal(flow_after(network, flow, other, 0), 0);
	assert_int_equal(flow_after(network, other, flow, 0), 0);
	assert_int_equal(flow_run(network), -EDEADLK);
	assert_true(isinf(flow_result(network, flow).start_s));
	flow_network_free(network);
}

/* ---------------------------------------------------------------------------------------------------- random networks */

struct random_flow {
	size_t way_count;
	struct flow_crossing way[WAY_MAX];
	double bytes, start_s;
};

struct random_case {
	size_t link_count, flow_count;
	double capacity[LINKS_MAX];
	struct random_flow flows[FLOWS_MAX];
	uint64_t seed;
};

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (*seed >> 11) % below;
}

/* Of a few capacities and sizes, or of many: what is equal must stay equal, and what is not must be told apart. */
static void draw_case(struct random_case *one, uint64_t number)
{
	uint64_t *seed = &one->seed;
	bool equal;

	*seed = number * UINT64_C(0x9e3779b97f4a7c15) + 1;
	draw(seed, 2);
	equal = draw(seed, 2);
	one->link_count = 1 + draw(seed, LINKS_MAX);
	one->flow_count = 1 + draw(seed, FLOWS_MAX);
	for (size_t i = 0; i < one->link_count; i++) {
		one->capacity[i] = 1e9 * (double)(1 + draw(seed, equal ? 3 : 100000)) / (equal ? 1 : 1000);
		if (!draw(seed, 30))
			one->capacity[i] = INFINITY;
	}
	for (size_t i = 0; i < one->flow_count; i++) {
		struct random_flow *flow = &one->flows[i];

		flow->way_count = draw(seed, draw(seed, 10) ? 7 : WAY_MAX + 1);
		for (size_t j = 0; j < flow->way_count; j++)
			flow->way[j] = (struct flow_crossing){ (uint32_t)draw(seed, one->link_count),
							       (float)(1 + draw(seed, 2)) };
		flow->bytes = 1e6 * (double)draw(seed, equal ? 4 : 1000);
		flow->start_s = equal ? (double)draw(seed, 3) * 1e-3 : (double)draw(seed, 1000000) * 1e-8;
	}
}

static struct flow_network *make(struct random_case *one)
{
	struct flow_network *network = NULL;

	assert_int_equal(flow_network_new(one->capacity, one->link_count, &network), 0);
	for (size_t i = 0; i < one->flow_count; i++)
		add(network, one->flows[i].way, one->flows[i].way_count, one->flows[i].bytes, one->flows[i].start_s);
	for (size_t i = 1; i < one->flow_count; i++)
		if (!draw(&one->seed, 3))
			assert_int_equal(flow_after(network, (uint32_t)i, (uint32_t)draw(&one->seed, i),
						    (double)draw(&one->seed, 2) * 1e-4),
					 0);
	return network;
}

static double weight_on(const struct random_flow *flow, size_t link)
{
	double weight = 0;

	for (size_t i = 0; i < flow->way_count; i++)
		weight += flow->way[i].link == link ? (double)flow->way[i].weight : 0;
	return weight;
}

/* Plain: fill all links at one pace, hold back who crosses the first that is full, go on with the others. */
static void fill_with_water(const struct random_case *one, const bool *runs, double *ret_rates)
{
	double left[LINKS_MAX];
	bool open[FLOWS_MAX];

	memcpy(left, one->capacity, sizeof(left));
	memcpy(open, runs, sizeof(open));
	for (;;) {
		double least = INFINITY;
		size_t which = 0;

		for (size_t link = 0; link < one->link_count; link++) {
			double weight = 0;

			for (size_t i = 0; i < one->flow_count; i++)
				weight += open[i] ? weight_on(&one->flows[i], link) : 0;
			if (weight > 0 && left[link] / weight < least) {
				least = left[link] / weight;
				which = link;
			}
		}
		if (isinf(least))
			return;
		for (size_t i = 0; i < one->flow_count; i++) {
			if (!open[i] || weight_on(&one->flows[i], which) <= 0)
				continue;
			open[i] = false;
			ret_rates[i] = least;
			for (size_t link = 0; link < one->link_count; link++)
				left[link] = fmax(0, left[link] - least * weight_on(&one->flows[i], link));
		}
	}
}

static void check_rates(const struct random_case *one, const struct flow_network *network)
{
	double rates[FLOWS_MAX] = { 0 };
	bool runs[FLOWS_MAX];

	for (size_t i = 0; i < one->flow_count; i++) {
		struct flow_result result = flow_result(network, (uint32_t)i);

		runs[i] = !isinf(result.start_s) && isinf(result.end_s);
	}
	fill_with_water(one, runs, rates);
	for (size_t i = 0; i < one->flow_count; i++)
		if (runs[i])
			check_close(flow_rate_Bps(network, (uint32_t)i), rates[i], 1e-7, "a rate");
}

static void rates_are_those_of_water_filling(void **state)
{
	struct random_case *one = calloc(1, sizeof(*one));
	uint64_t rates = 0, alive = 0;

	(void)state;
	assert_non_null(one);
	for (uint64_t number = 1; number <= 300; number++) {
		struct flow_network *network;
		int r;

		draw_case(one, number);
		network = make(one);
		while ((r = flow_step(network)) == 1) {
			check_rates(one, network);
			for (size_t i = 0; i < one->flow_count; i++) {
				struct flow_result result = flow_result(network, (uint32_t)i);

				alive += !isinf(result.start_s) && isinf(result.end_s);
			}
		}
		assert_int_equal(r, 0);
		rates += flow_work(network).rates;
		flow_network_free(network);
	}
	print_message("rates worked out: %.0f; flows alive at all events: %.0f\n", (double)rates, (double)alive);
	free(one);
}

static void every_byte_arrives_and_no_link_is_overfull(void **state)
{
	struct random_case *one = calloc(1, sizeof(*one));

	(void)state;
	assert_non_null(one);
	for (uint64_t number = 1001; number <= 1100; number++) {
		struct flow_network *network, *again;
		uint64_t seed;

		draw_case(one, number);
		seed = one->seed;
		network = make(one);
		for (uint32_t i = 0; i < one->link_count; i++)
			assert_int_equal(flow_watch(network, i), 0);
		assert_int_equal(flow_run(network), 0);
		for (uint32_t link = 0; link < one->link_count; link++) {
			struct flow_link is = flow_link(network, link);
			double bytes = 0, moved = 0;
			size_t count;
			const struct flow_point *points = flow_watched(network, link, &count);

			for (size_t i = 0; i < one->flow_count; i++)
				bytes += weight_on(&one->flows[i], link) * one->flows[i].bytes;
			check_close(is.bytes, bytes, 1e-9, "a link's bytes");
			if (isinf(is.capacity_Bps))
				continue;
			assert_true(is.busy_s <= flow_end_s(network) * (1 + 1e-9));
			assert_true(is.bytes <= is.busy_s * is.capacity_Bps * (1 + 1e-9) + 1);
			for (size_t i = 0; i < count; i++) {
				assert_true(points[i].rate_Bps <= is.capacity_Bps * (1 + 1e-9));
				moved += i + 1 < count ? points[i].rate_Bps * (points[i + 1].time_s - points[i].time_s)
						       : 0;
			}
			check_close(moved, bytes, 1e-6, "a link's rate over time");
		}
		/* The same again, to the last bit. */
		one->seed = seed;
		again = make(one);
		assert_int_equal(flow_run(again), 0);
		for (uint32_t i = 0; i < one->flow_count; i++)
			assert_true(flow_result(network, i).end_s == flow_result(again, i).end_s);
		flow_network_free(network);
		flow_network_free(again);
	}
	free(one);
}

/* 400 pairs on links of their own, each flow of another size: no event concerns any other pair. */
static void what_is_far_away_costs_nothing(void **state)
{
	enum { PAIRS = 400 };
	double capacity[PAIRS];
	struct flow_network *network = NULL;

	(void)state;
	for (size_t i = 0; i < PAIRS; i++)
		capacity[i] = 1e9;
	assert_int_equal(flow_network_new(capacity, PAIRS, &network), 0);
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct flow_crossing way = { i, 1 };

		add(network, &way, 1, 1e6 + 1000.0 * i, 0);
		add(network, &way, 1, 3e6 + 1000.0 * i, 0);
	}
	assert_int_equal(flow_run(network), 0);
	assert_int_equal(flow_work(network).events, 2 * PAIRS + 1);
	/* two at the start, and one when the shorter one has ended */
	assert_int_equal(flow_work(network).rates, 3 * PAIRS);
	flow_network_free(network);
}

#ifdef TRIBUTARY_FAULTS
static int run_once(struct random_case *one)
{
	struct flow_network *network = NULL;
	uint32_t flow;
	int r = flow_network_new(one->capacity, one->link_count, &network);

	for (size_t i = 0; r == 0 && i < one->flow_count; i++)
		r = flow_add(network, one->flows[i].way, one->flows[i].way_count, one->flows[i].bytes,
			     one->flows[i].start_s, &flow);
	for (uint32_t i = 1; r == 0 && i < one->flow_count; i++)
		r = flow_after(network, i, i - 1, 0);
	if (r == 0)
		r = flow_watch(network, 0);
	if (r == 0)
		r = flow_run(network);
	flow_network_free(network);
	return r;
}

static void without_memory_nothing_is_lost(void **state)
{
	struct random_case *one = calloc(1, sizeof(*one));
	uint64_t calls;

	(void)state;
	assert_non_null(one);
	draw_case(one, 7);
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(run_once(one), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	assert_true(calls > 8);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(run_once(one), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	free(one);
}
#endif

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_leaves_goes_to_the_others),
		cmocka_unit_test(a_pipeline_goes_at_the_pace_of_its_slowest_edge),
		cmocka_unit_test(flows_wait_for_those_before_them),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(rates_are_those_of_water_filling),
		cmocka_unit_test(every_byte_arrives_and_no_link_is_overfull),
		cmocka_unit_test(what_is_far_away_costs_nothing),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(without_memory_nothing_is_lost),
#endif
	};

	return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
