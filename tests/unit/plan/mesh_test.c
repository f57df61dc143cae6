/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that are joined each to each: how many channels share no link is known. Of n GPUs each has n - 1 links, so no plan
 * has more than n ways from NIC to NIC, or n / 2 trees, each of which charges both directions.
 */
#include "machine_spec.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { LINK_BPS = 1000000000 };

/* NICs, if any, that never limit. */
static struct plan plan_of(unsigned gpus, unsigned nics, unsigned hosts, enum plan_pattern pattern)
{
	const struct machine_spec spec = { .name = "mesh",
					   .gpus = gpus,
					   .nics = nics,
					   .sockets = 1,
					   .gdr = true,
					   .nvlink_mesh = true,
					   .nvlink_rate = 10,
					   .gpu_rate = 40000,
					   .memory_rate = 60000,
					   .nic_rate = 40000,
					   .wire_rate = 40000 };
	struct plan_request request;
	struct topology topology;
	struct diag diag;
	struct plan plan;

	machine_spec_build(&spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = hosts;
	assert_int_equal(plan_make(&topology, &request, pattern, &plan), 0);
	if (plan_verify(&topology, &request, &plan, &diag) < 0)
		fail_msg("%u GPUs, %u hosts: %s", gpus, hosts, diag.text);
	topology_fini(&topology);
	return plan;
}

static void expect(unsigned gpus, unsigned nics, unsigned hosts, enum plan_pattern pattern, double links)
{
	struct plan plan = plan_of(gpus, nics, hosts, pattern);
	double total = (double)plan_total_Bps(&plan) / LINK_BPS;

	if (total < links - 1e-6)
		fail_msg("%u GPUs, %u hosts, pattern %d: %.3f links' worth of %.3f", gpus, hosts, pattern, total,
			 links);
	assert_true(total <= links + 1e-6);
}

static void half_as_many_trees_as_there_are_gpus(void **state)
{
	(void)state;
	for (unsigned gpus = 5; gpus <= PLAN_GPUS_MAX; gpus++)
		expect(gpus, 0, 1, PLAN_TREE, gpus / 2.0);
}

/* Of an odd number above seven so many are not known. */
static void as_many_ways_between_hosts_as_there_are_gpus(void **state)
{
	static const unsigned whole[] = { 5, 7, 8, 10, 12, 14, 16 };

	(void)state;
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		expect(whole[i], 1, 2, PLAN_RING, whole[i]);
}

/*
 * GPUs behind switches with a NIC each, some of which have no GPU of the request below them. What bounds: NICs and GPUs of
 * 24 GB/s. A ring that is sent by the NIC below which it ends may come in anywhere, but not two of them through one uplink.
 */
static void nics_that_are_near_no_gpu_are_used_too(void **state)
{
	static const struct machine_spec spec = { .name = "mesh",
						  .gpus = 16,
						  .nics = 8,
						  .sockets = 2,
						  .switches = 8,
						  .gdr = true,
						  .nvlink_mesh = true,
						  .nvlink_rate = 250,
						  .gpu_rate = 240,
						  .uplink_rate = 240,
						  .socket_rate = 500,
						  .memory_rate = 2000,
						  .nic_rate = 240,
						  .wire_rate = 240 };
	static const struct {
		unsigned mask;
		uint64_t total_Bps, bound_Bps;
	} subsets[] = {
		{ 0xa442, 120000000000, 120000000000 }, /* five, alone below their switches */
		{ 0xd330, 168000000000, 168000000000 }, /* seven, three pairs of them */
		{ 0x1778, 192000000000, 192000000000 }, /* eight, two pairs */
		{ 0x11b3, 168000000000, 168000000000 },
		{ 0xebf1, 180000000000, 192000000000 }, /* eleven, more than NICs */
	};
	struct plan_request all;
	struct topology topology;

	(void)state;
	machine_spec_build(&spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	for (size_t i = 0; i < sizeof(subsets) / sizeof(subsets[0]); i++) {
		struct plan_request request = machine_subset(&all, subsets[i].mask, 2);
		struct plan plan;

		assert_int_equal(plan_make(&topology, &request, PLAN_RING, &plan), 0);
		if (plan_total_Bps(&plan) < subsets[i].total_Bps || plan.bound_Bps > subsets[i].bound_Bps + 1)
			fail_msg("%#x: %zu of %llu, bound %llu", subsets[i].mask, plan.channel_count,
				 (unsigned long long)plan.rate_Bps, (unsigned long long)plan.bound_Bps);
	}
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_as_many_trees_as_there_are_gpus),
		cmocka_unit_test(as_many_ways_between_hosts_as_there_are_gpus),
		cmocka_unit_test(nics_that_are_near_no_gpu_are_used_too),
	};

	return cmocka_run_group_tests_name("plan/mesh", tests, NULL, NULL);
}
