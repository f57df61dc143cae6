/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct machine_spec spec = { .name = "two switches",
					  .gpus = 12,
					  .nics = 2,
					  .sockets = 2,
					  .switches = 2,
					  .p2p = MACHINE_P2P_SOCKET,
					  .gpu_rate = 240,
					  .uplink_rate = 240,
					  .socket_rate = 300 };
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

static void all_gpus_come_in_order_of_their_index_and_nics_of_their_name(void **state)
{
	(void)state;
	assert_int_equal(request.gpu_count, 12);
	for (int i = 0; i < 12; i++)
		assert_int_equal(topology.vertices[request.gpus[i]].gpu.index, i);
	assert_int_equal(request.nic_count, 2);
	assert_string_equal(topology.vertices[request.nics[1]].name, "nic1");
	assert_int_equal(request.hosts, 1);
	assert_int_equal(request.p2p_farthest, TOPOLOGY_CLASS_PXB);
}

static void two_gpus_on_amd_use_p2p_anywhere(void **state)
{
	uint32_t cpu = topology_cpu_of(&topology, request.gpus[0]);

	(void)state;
	snprintf(topology.vertices[cpu].cpu.architecture, sizeof(topology.vertices[cpu].cpu.architecture), "x86_64");
	snprintf(topology.vertices[cpu].cpu.vendor, sizeof(topology.vertices[cpu].cpu.vendor), "GenuineIntel");
	assert_int_equal(plan_p2p_default(&topology, request.gpus, 2), TOPOLOGY_CLASS_PXB);
	snprintf(topology.vertices[cpu].cpu.vendor, sizeof(topology.vertices[cpu].cpu.vendor), "AuthenticAMD");
	assert_int_equal(plan_p2p_default(&topology, request.gpus, 1), TOPOLOGY_CLASS_SYS);
	assert_int_equal(plan_p2p_default(&topology, request.gpus, 2), TOPOLOGY_CLASS_SYS);
	assert_int_equal(plan_p2p_default(&topology, request.gpus, 3), TOPOLOGY_CLASS_PXB);
}

static void gpus_without_an_index_come_last(void **state)
{
	(void)state;
	topology.vertices[request.gpus[0]].gpu.index = -1;
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_string_equal(topology.vertices[request.gpus[0]].name, "gpu1");
	assert_string_equal(topology.vertices[request.gpus[11]].name, "gpu0");
}

/* NCCL refuses a job with two of them. */
static void of_slices_of_one_gpu_one_is_taken(void **state)
{
	uint32_t first = topology_find(&topology, "gpu3"), second = topology_find(&topology, "gpu4");
	struct plan_request whole = request;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct topology_vertex *slice = &topology.vertices[i ? second : first];

		snprintf(slice->bus_id, sizeof(slice->bus_id), "0000:42:00.0");
		slice->gpu.index = 3;
		slice->gpu.mig = (int)i;
	}
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(request.gpu_count, whole.gpu_count - 1);
	for (size_t i = 0; i < request.gpu_count; i++)
		assert_int_not_equal(request.gpus[i], first < second ? second : first);
}

static void more_gpus_than_a_plan_holds_are_refused(void **state)
{
	char name[] = "more0";

	(void)state;
	for (; name[4] < '5'; name[4]++) {
		struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, name);

		assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), 0);
	}
	assert_int_equal(plan_request_all(&topology, &request), -EINVAL);
}

static enum topology_way way(unsigned from, unsigned to)
{
	return plan_way(&topology, &request, request.gpus[from], request.gpus[to]);
}

static void p2p_is_taken_only_as_far_as_nccl_takes_it(void **state)
{
	(void)state;
	assert_int_equal(way(0, 1), TOPOLOGY_WAY_DIRECT); /* PIX */
	request.p2p_farthest = TOPOLOGY_CLASS_LOC;
	assert_int_equal(way(0, 1), TOPOLOGY_WAY_HOST);
}

static void p2p_that_the_driver_refuses_is_not_taken(void **state)
{
	(void)state;
	request.p2p_farthest = TOPOLOGY_CLASS_SYS;
	assert_int_equal(way(0, 11), TOPOLOGY_WAY_HOST);
	assert_int_equal(way(0, 5), TOPOLOGY_WAY_DIRECT);
}

static void a_gpu_that_is_joined_to_nothing_has_no_way(void **state)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "lone");
	uint32_t lone;

	(void)state;
	assert_int_equal(topology_add_vertex(&topology, &vertex, &lone), 0);
	assert_int_equal(plan_way(&topology, &request, lone, request.gpus[0]), TOPOLOGY_WAY_NONE);
	assert_int_equal(plan_way(&topology, &request, request.gpus[0], lone), TOPOLOGY_WAY_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, build, take_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(all_gpus_come_in_order_of_their_index_and_nics_of_their_name),
		TEST(two_gpus_on_amd_use_p2p_anywhere),
		TEST(gpus_without_an_index_come_last),
		TEST(of_slices_of_one_gpu_one_is_taken),
		TEST(more_gpus_than_a_plan_holds_are_refused),
		TEST(p2p_is_taken_only_as_far_as_nccl_takes_it),
		TEST(p2p_that_the_driver_refuses_is_not_taken),
		TEST(a_gpu_that_is_joined_to_nothing_has_no_way),
	};

	return cmocka_run_group_tests_name("plan/request", tests, NULL, NULL);
}
