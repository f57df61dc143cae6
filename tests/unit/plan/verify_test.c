/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_spec.h"

#include "base/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Two sockets with two GPUs and a NIC each, on bridges of their own; 10 GB/s everywhere but between the sockets: 4. */
static const struct machine_spec spec = { .name = "four",
					  .gpus = 4,
					  .nics = 2,
					  .sockets = 2,
					  .gpu_rate = 100,
					  .socket_rate = 40,
					  .memory_rate = 300,
					  .nic_rate = 100,
					  .wire_rate = 100 };
static struct topology topology;
static struct plan_request request;

static int build(void **state)
{
	(void)state;
	machine_spec_build(&spec, 1, &topology);
	return plan_request_all(&topology, &request);
}

static int take_down(void **state)
{
	(void)state;
	topology_fini(&topology);
	return 0;
}

static struct plan planned(enum plan_pattern pattern, unsigned hosts)
{
	struct plan plan;
	struct diag diag;

	request.hosts = hosts;
	assert_int_equal(plan_make(&topology, &request, pattern, &plan), 0);
	assert_int_equal(plan_verify(&topology, &request, &plan, &diag), 0);
	return plan;
}

static void assert_refused(const struct plan *plan, const char *reason)
{
	struct diag diag = { 0 };

	assert_int_equal(plan_verify(&topology, &request, plan, &diag), -EINVAL);
	if (!strstr(diag.text, reason))
		fail_msg("expected \"%s\", found \"%s\"", reason, diag.text);
}

static void a_gpu_that_is_there_twice_is_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	plan.channels[0].order[1] = plan.channels[0].order[2];
	assert_refused(&plan, "in it twice");
}

static void a_gpu_that_does_not_exist_is_refused(void **state)
{
	struct plan plan = planned(PLAN_TREE, 1);

	(void)state;
	plan.channels[0].order[3] = 4;
	assert_refused(&plan, "there is no GPU 4");
}

static void a_plan_for_other_gpus_is_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	request.gpu_count = 3;
	assert_refused(&plan, "a plan for 4 GPUs, asked for 3");
}

static void no_channels_and_too_many_are_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	plan.channel_count = 0;
	assert_refused(&plan, "0 channels");
	plan.channel_count = PLAN_CHANNELS_MAX + 1;
	assert_refused(&plan, "17 channels");
	plan.channel_count = 3;
	request.channels_max = 2;
	assert_refused(&plan, "3 channels");
}

static void a_nic_that_does_not_exist_is_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 2);

	(void)state;
	plan.channels[0].nic_out = 2;
	assert_refused(&plan, "there is no NIC 2");
}

static void another_nic_on_the_way_out_is_refused_unless_asked_for(void **state)
{
	struct plan plan = planned(PLAN_RING, 2);
	struct diag diag;

	(void)state;
	plan.channels[0].nic_out = !plan.channels[0].nic_in;
	assert_refused(&plan, "in by one NIC and out by another");
	request.crossnic = true;
	plan.rate_Bps = 1;
	assert_int_equal(plan_verify(&topology, &request, &plan, &diag), 0);
	plan = planned(PLAN_TREE, 2);
	plan.channels[0].nic_out = !plan.channels[0].nic_in;
	assert_refused(&plan, "in by one NIC and out by another");
}

static void a_nic_on_a_lone_host_is_refused(void **state)
{
	struct plan plan = planned(PLAN_CHAIN, 1);

	(void)state;
	plan.channels[0].nic_in = 1;
	assert_refused(&plan, "a NIC, with one host");
}

static void a_rate_that_a_link_does_not_carry_is_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	plan.rate_Bps += 2;
	plan.bound_Bps = UINT64_MAX;
	assert_refused(&plan, "cpu0>cpu1 is over its capacity");
}

static void a_limit_counts_all_its_members(void **state)
{
	struct topology_capacity capacity = { .rate_Bps = 5000000000, .provenance = TOPOLOGY_MEASURED };
	struct plan plan = planned(PLAN_RING, 1);
	uint32_t members[2] = { topology_find_directed(&topology, "cpu0>cpu1"),
				topology_find_directed(&topology, "cpu1>cpu0") };

	(void)state;
	/* 4 GB/s each way is 8 together. */
	assert_int_equal(topology_add_limit(&topology, "sockets", &capacity, members, 2, NULL), 0);
	assert_refused(&plan, "sockets is over its capacity");
}

static void a_pair_is_charged_by_the_way_its_data_goes(void **state)
{
	struct topology_pair pair = { .from = request.gpus[0], .to = request.gpus[1], .p2p_works = true };
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	plan.channel_count = 1;
	memcpy(plan.channels[0].order, (uint8_t[]){ 0, 1, 2, 3 }, 4);
	pair.p2p = (struct topology_capacity){ .rate_Bps = 5, .provenance = TOPOLOGY_MEASURED };
	pair.host = (struct topology_capacity){ .rate_Bps = 7, .provenance = TOPOLOGY_MEASURED };
	assert_int_equal(topology_add_pair(&topology, &pair, NULL), 0);
	plan.rate_Bps = 9;
	assert_refused(&plan, "gpu0 to gpu1 by the host is over its capacity"); /* PHB: farther than PXB */
	request.p2p_farthest = TOPOLOGY_CLASS_PHB;
	assert_refused(&plan, "gpu0 to gpu1 by P2P is over its capacity");
}

static void a_way_that_does_not_exist_is_refused(void **state)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu9");
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	assert_int_equal(topology_add_vertex(&topology, &vertex, &request.gpus[1]), 0);
	assert_refused(&plan, "gpu9");
}

static void a_total_above_its_bound_is_refused(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);

	(void)state;
	plan.bound_Bps = plan_total_Bps(&plan) - 1;
	assert_refused(&plan, "its bound is");
}

/* gpu0 -> gpu1 -> gpu2 -> gpu3 -> gpu0: 0 to 1 and 2 to 3 by their memories, the others over the socket link: 4 GB/s. */
static void the_verified_rate_is_that_of_the_narrowest_link(void **state)
{
	struct plan plan = planned(PLAN_RING, 1);
	struct diag diag;
	uint64_t rate_Bps;

	(void)state;
	plan.channel_count = 1;
	memcpy(plan.channels[0].order, (uint8_t[]){ 0, 1, 2, 3 }, 4);
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, 4000000000);
	/* 0 -> 2 -> 1 -> 3 -> 0 crosses it twice each way. */
	memcpy(plan.channels[0].order, (uint8_t[]){ 0, 2, 1, 3 }, 4);
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, 2000000000);
}

/* A tree's NIC moves the rate once each way between two hosts, twice between more; a chain's always once. */
static void trees_of_many_hosts_charge_their_nic_twice(void **state)
{
	struct plan plan = planned(PLAN_TREE, 2);
	struct diag diag;
	uint64_t two_Bps, three_Bps;

	(void)state;
	request.gpu_count = plan.gpu_count = 1;
	plan.channel_count = 1;
	plan.channels[0] = (struct plan_channel){ 0 };
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &two_Bps, &diag), 0);
	request.hosts = 3;
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &three_Bps, &diag), 0);
	assert_int_equal(two_Bps, 10000000000);
	assert_int_equal(three_Bps, 5000000000);
	plan.pattern = PLAN_CHAIN;
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &three_Bps, &diag), 0);
	assert_int_equal(three_Bps, 10000000000);
}

/*
 * A ring over two GPUs on sockets of their own, in and out by the NIC of the first. Without NVLink it crosses the sockets
 * once each way; with NVLink the second GPU sends by way of the first (PXN), and nothing crosses them.
 */
static void a_far_nic_is_sent_to_by_a_gpu_that_is_near_it(void **state)
{
	struct topology_link nvlink = topology_link_of(TOPOLOGY_LINK_NVLINK, request.gpus[0], request.gpus[2]);
	struct topology_link slot = topology_link_of(TOPOLOGY_LINK_PCI, request.nics[0], 0);
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_SWITCH, "switch0");
	struct plan plan = {
		.pattern = PLAN_RING, .gpu_count = 2, .channel_count = 1, .channels = { { .order = { 0, 1 } } }
	};
	struct diag diag;
	uint64_t rate_Bps;

	(void)state;
	/* The first GPU and the NIC on one switch. */
	assert_int_equal(topology_add_vertex(&topology, &vertex, &slot.upper), 0);
	assert_int_equal(topology_add_link(&topology, &slot, NULL), 0);
	slot.lower = request.gpus[0];
	assert_int_equal(topology_add_link(&topology, &slot, NULL), 0);
	request.gpus[1] = request.gpus[2];
	request.gpu_count = 2;
	request.hosts = 2;
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, 4000000000);
	assert_int_equal(topology_add_link(&topology, &nvlink, NULL), 0);
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, 10000000000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, build, take_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_gpu_that_is_there_twice_is_refused),
		TEST(a_gpu_that_does_not_exist_is_refused),
		TEST(a_plan_for_other_gpus_is_refused),
		TEST(no_channels_and_too_many_are_refused),
		TEST(a_nic_that_does_not_exist_is_refused),
		TEST(another_nic_on_the_way_out_is_refused_unless_asked_for),
		TEST(a_nic_on_a_lone_host_is_refused),
		TEST(a_rate_that_a_link_does_not_carry_is_refused),
		TEST(a_limit_counts_all_its_members),
		TEST(a_pair_is_charged_by_the_way_its_data_goes),
		TEST(a_way_that_does_not_exist_is_refused),
		TEST(a_total_above_its_bound_is_refused),
		TEST(the_verified_rate_is_that_of_the_narrowest_link),
		TEST(trees_of_many_hosts_charge_their_nic_twice),
		TEST(a_far_nic_is_sent_to_by_a_gpu_that_is_near_it),
	};

	return cmocka_run_group_tests_name("plan/verify", tests, NULL, NULL);
}
