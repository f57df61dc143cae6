/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"
#include "base/random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct machine machine;

static int build(void **state)
{
	(void)state;
	machine_build(&machine);
	return 0;
}

static int take_down(void **state)
{
	(void)state;
	topology_fini(&machine.topology);
	return 0;
}

static struct topology_flow direct(unsigned from, unsigned to)
{
	return (struct topology_flow){ machine.gpu[from], machine.gpu[to], TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
}

static struct topology_flow by_host(unsigned from, unsigned to)
{
	return (struct topology_flow){ machine.gpu[from], machine.gpu[to], TOPOLOGY_WAY_HOST, TOPOLOGY_NONE };
}

static void limit(const char *name, uint64_t rate_Bps, const char *first, const char *second)
{
	struct topology_capacity capacity = { .rate_Bps = rate_Bps, .provenance = TOPOLOGY_MEASURED };
	uint32_t members[2] = { machine_directed(&machine.topology, first),
				machine_directed(&machine.topology, second) };

	assert_int_equal(topology_add_limit(&machine.topology, name, &capacity, members, 2, NULL), 0);
}

static const char uplink[] = "switch:0000:18:00.0>switch:0000:17:00.0";

/*
 * a: gpu0 -> gpu2, b: gpu1 -> gpu3, both over the uplink U.
 *
 *     a + b <= U = 12    a = b    so a = b = 6
 */
static void flows_on_one_link_get_the_same(void **state)
{
	const struct topology_flow flows[] = { direct(0, 2), direct(1, 3) };
	uint64_t rates[2];

	(void)state;
	machine_rate(&machine.topology, uplink, 12);
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 6);
	assert_int_equal(rates[1], 6);
}

/*
 * a: gpu0 -> gpu2, b: gpu1 -> gpu3, c: gpu1 -> gpu0. a is held back by its own link, b and c by gpu1's.
 *
 *     a <= 2                  a = 2
 *     a + b <= 12             b + c <= 8    b = c    so b = c = 4, and the uplink is not full
 */
static void what_one_flow_cannot_use_the_others_get(void **state)
{
	const struct topology_flow flows[] = { direct(0, 2), direct(1, 3), direct(1, 0) };
	uint64_t rates[3];

	(void)state;
	machine_rate(&machine.topology, uplink, 12);
	machine_rate(&machine.topology, "gpu0>switch:0000:18:00.0", 2);
	machine_rate(&machine.topology, "gpu1>switch:0000:18:00.0", 8);
	assert_int_equal(topology_share(&machine.topology, flows, 3, rates), 0);
	assert_int_equal(rates[0], 2);
	assert_int_equal(rates[1], 4);
	assert_int_equal(rates[2], 4);
	/*
	 * With an uplink of 5:    a = 2    a + b = 5, so b = 3    b + c = 8, so c = 5
	 */
	machine_rate(&machine.topology, uplink, 5);
	assert_int_equal(topology_share(&machine.topology, flows, 3, rates), 0);
	assert_int_equal(rates[0], 2);
	assert_int_equal(rates[1], 3);
	assert_int_equal(rates[2], 5);
}

/* The two directions of a link are two capacities:  a <= 10 (up)  b <= 7 (down). */
static void directions_are_apart(void **state)
{
	const struct topology_flow flows[] = { direct(0, 2), direct(2, 0) };
	uint64_t rates[2];

	(void)state;
	machine_rate(&machine.topology, uplink, 10);
	machine_rate(&machine.topology, "switch:0000:17:00.0>switch:0000:18:00.0", 7);
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 10);
	assert_int_equal(rates[1], 7);
}

/*
 * Both directions of gpu0's slot together carry 15, each alone 10.
 *
 *     a <= 10    b <= 10    a + b <= 15    a = b    so a = b = 7 (7.5, whole bytes)
 *
 * and with b held back to 3 elsewhere:    b = 3    a + 3 <= 15, a <= 10    so a = 10
 */
static void a_limit_binds_its_members_together(void **state)
{
	const struct topology_flow flows[] = { direct(0, 2), direct(2, 0) };
	uint64_t rates[2];

	(void)state;
	machine_rate(&machine.topology, "gpu0>switch:0000:18:00.0", 10);
	machine_rate(&machine.topology, "switch:0000:18:00.0>gpu0", 10);
	limit("gpu0.both", 15, "gpu0>switch:0000:18:00.0", "switch:0000:18:00.0>gpu0");
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 7);
	assert_int_equal(rates[1], 7);
	machine_rate(&machine.topology, "gpu2>switch:0000:1c:00.0", 3);
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 10);
	assert_int_equal(rates[1], 3);
}

/*
 * a: gpu0 -> memory0 -> gpu1 writes and reads the memory, whose limit M counts both.
 *
 *     2 a <= M = 20    so a = 10
 *
 * with b: gpu2 -> memory0 as well    2 a + b <= 20    a = b    so a = b = 6
 */
static void a_flow_that_crosses_two_members_counts_twice(void **state)
{
	const struct topology_flow flows[] = {
		by_host(0, 1), { machine.gpu[2], machine.memory[0], TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE }
	};
	uint64_t rates[2];

	(void)state;
	limit("memory0", 20, "cpu0>memory0", "memory0>cpu0");
	assert_int_equal(topology_share(&machine.topology, flows, 1, rates), 0);
	assert_int_equal(rates[0], 10);
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 6);
	assert_int_equal(rates[1], 6);
}

/*
 * a: gpu0 -> memory1 -> gpu4 crosses cpu0>cpu1 once. b: gpu4 -> memory0 -> gpu5 crosses cpu1>cpu0, and cpu0>cpu1 on its
 * way back.
 *
 *     a + b <= 12 (cpu0>cpu1)    a = b                  so a = b = 6
 *     a + 2 b <= 8 (the socket, both ways together)     so a = b = 2 (2.67)
 */
static void a_way_that_turns_back_loads_both_directions(void **state)
{
	const struct topology_flow twice = { machine.gpu[4], machine.gpu[5], TOPOLOGY_WAY_HOST, machine.memory[0] };
	const struct topology_flow flows[] = { { machine.gpu[0], machine.gpu[4], TOPOLOGY_WAY_HOST, machine.memory[1] },
					       twice };
	uint64_t rates[2];

	(void)state;
	machine_rate(&machine.topology, "cpu0>cpu1", 12);
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 6);
	assert_int_equal(rates[1], 6);
	limit("socket", 8, "cpu0>cpu1", "cpu1>cpu0");
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_int_equal(rates[0], 2);
	assert_int_equal(rates[1], 2);
}

/*
 * What the pair gets, whatever the links could:  P2P 5, by the host 3; two flows of one pair share it.
 *
 *     a <= 5    b + c <= 3, b = c
 */
static void a_pair_has_a_rate_of_its_own_for_each_way(void **state)
{
	const struct topology_flow flows[] = { direct(0, 1), by_host(0, 1), by_host(0, 1), direct(1, 0) };
	struct topology_pair pair = { .from = machine.gpu[0],
				      .to = machine.gpu[1],
				      .p2p_works = true,
				      .p2p = { .rate_Bps = 5, .provenance = TOPOLOGY_MEASURED },
				      .host = { .rate_Bps = 3, .provenance = TOPOLOGY_MEASURED } };
	uint64_t rates[4];

	(void)state;
	assert_int_equal(topology_add_pair(&machine.topology, &pair, NULL), 0);
	assert_int_equal(topology_share(&machine.topology, flows, 4, rates), 0);
	assert_int_equal(rates[0], 5);
	assert_int_equal(rates[1], 1); /* 1.5 */
	assert_int_equal(rates[2], 1);
	assert_true(rates[3] == UINT64_MAX); /* the other way nothing is known */
}

static void what_is_not_known_bounds_nothing(void **state)
{
	const struct topology_flow flows[] = { direct(0, 1), direct(2, 2) };
	uint32_t up = machine_directed(&machine.topology, "gpu0>switch:0000:18:00.0");
	uint64_t rates[2];

	(void)state;
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), 0);
	assert_true(rates[0] == UINT64_MAX && rates[1] == UINT64_MAX);
	machine.topology.links[up / 2].capacity[up % 2].rate_Bps = 7; /* but provenance unknown */
	assert_int_equal(topology_share(&machine.topology, flows, 1, rates), 0);
	assert_true(rates[0] == UINT64_MAX);
	/* A lower bound is the best that is known. */
	machine.topology.links[up / 2].capacity[up % 2].provenance = TOPOLOGY_AT_LEAST;
	assert_int_equal(topology_share(&machine.topology, flows, 1, rates), 0);
	assert_int_equal(rates[0], 7);
	assert_int_equal(topology_share(&machine.topology, NULL, 0, rates), 0);
}

static void a_flow_without_a_way_is_an_error_and_nothing_is_written(void **state)
{
	struct topology_flow flows[] = { direct(0, 1), direct(0, 1) };
	uint64_t rates[2] = { 41, 42 };

	(void)state;
	flows[1].way = TOPOLOGY_WAY_NONE;
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), -ENOENT);
	flows[1].to = 999;
	assert_int_equal(topology_share(&machine.topology, flows, 2, rates), -EINVAL);
	assert_true(rates[0] == 41 && rates[1] == 42);
}

/* Real rates: three flows on 25 GB/s get a third each, rounded down, and not one byte/s is lost on the way. */
static void rates_of_gigabytes_are_exact(void **state)
{
	const struct topology_flow flows[] = { direct(0, 2), direct(1, 3), direct(0, 3) };
	uint64_t rates[3];

	(void)state;
	machine_rate(&machine.topology, uplink, 25000000001);
	assert_int_equal(topology_share(&machine.topology, flows, 3, rates), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rates[i], 8333333333);
}

/* ------------------------------------------------------------------------------------------------------ random sets */

enum { FLOWS_MOST = 12 };

/* Of one constraint: all that flows put on it, and whether flow f crosses it. Counted from the routes alone. */
struct load {
	unsigned __int128 total;
	uint64_t most_Bps; /* of the flows on it */
	unsigned crossings[FLOWS_MOST];
};

static struct load load_of(const struct topology *topology, const struct topology_flow *flows, const uint64_t *rates,
			   size_t count, const uint32_t *members, size_t member_count)
{
	struct load load = { 0 };

	for (size_t f = 0; f < count; f++) {
		struct topology_route route;

		assert_int_equal(topology_route(topology, &flows[f], &route), 0);
		for (size_t i = 0; i < route.count; i++)
			for (size_t j = 0; j < member_count; j++)
				load.crossings[f] += route.links[i] == members[j];
		load.total += (unsigned __int128)load.crossings[f] * rates[f];
		if (load.crossings[f] && rates[f] > load.most_Bps)
			load.most_Bps = rates[f];
	}
	return load;
}

/* A flow is max-min fair if something on its way is full and gives no other flow more. */
static void check_constraint(const struct load *load, uint64_t rate_Bps, size_t count, const uint64_t *rates,
			     bool *satisfied)
{
	unsigned crossings = 0;

	assert_true(load->total <= rate_Bps);
	for (size_t f = 0; f < count; f++)
		crossings += load->crossings[f];
	for (size_t f = 0; f < count; f++)
		if (load->crossings[f] && rates[f] == load->most_Bps && rate_Bps - (uint64_t)load->total < crossings)
			satisfied[f] = true;
}

static void random_flow_sets_are_max_min_fair(void **state)
{
	struct topology *topology = &machine.topology;
	uint64_t seed = 4;

	(void)state;
	limit("gpu0.both", 1, "gpu0>switch:0000:18:00.0", "switch:0000:18:00.0>gpu0");
	limit("memory0", 1, "cpu0>memory0", "memory0>cpu0");
	limit("socket", 1, "cpu0>cpu1", "cpu1>cpu0");
	for (unsigned round = 0; round < 400; round++) {
		struct topology_flow flows[FLOWS_MOST];
		bool satisfied[FLOWS_MOST] = { 0 };
		uint64_t rates[FLOWS_MOST];
		size_t count = 1 + random_below(&seed, FLOWS_MOST);

		for (size_t i = 0; i < 2 * topology->link_count; i++)
			topology->links[i / 2].capacity[i % 2] = (struct topology_capacity){
				.rate_Bps = 1000 + random_below(&seed, 50000), .provenance = TOPOLOGY_MEASURED
			};
		for (size_t i = 0; i < topology->limit_count; i++)
			topology->limits[i].capacity.rate_Bps = 1000 + random_below(&seed, 80000);
		for (size_t f = 0; f < count; f++) {
			unsigned from = (unsigned)random_below(&seed, 8);
			unsigned to = (from + 1 + (unsigned)random_below(&seed, 7)) % 8;

			flows[f] = random_below(&seed, 2) ? direct(from, to) : by_host(from, to);
		}
		assert_int_equal(topology_share(topology, flows, count, rates), 0);
		for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
			struct load load = load_of(topology, flows, rates, count, &i, 1);

			check_constraint(&load, topology->links[i / 2].capacity[i % 2].rate_Bps, count, rates,
					 satisfied);
		}
		for (size_t i = 0; i < topology->limit_count; i++) {
			const struct topology_limit *one = &topology->limits[i];
			struct load load = load_of(topology, flows, rates, count, one->members, one->member_count);

			check_constraint(&load, one->capacity.rate_Bps, count, rates, satisfied);
		}
		for (size_t f = 0; f < count; f++)
			assert_true(satisfied[f]);
	}
}

#define with_machine(test) cmocka_unit_test_setup_teardown(test, build, take_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_machine(flows_on_one_link_get_the_same),
		with_machine(what_one_flow_cannot_use_the_others_get),
		with_machine(directions_are_apart),
		with_machine(a_limit_binds_its_members_together),
		with_machine(a_flow_that_crosses_two_members_counts_twice),
		with_machine(a_way_that_turns_back_loads_both_directions),
		with_machine(a_pair_has_a_rate_of_its_own_for_each_way),
		with_machine(what_is_not_known_bounds_nothing),
		with_machine(a_flow_without_a_way_is_an_error_and_nothing_is_written),
		with_machine(rates_of_gigabytes_are_exact),
		with_machine(random_flow_sets_are_max_min_fair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
