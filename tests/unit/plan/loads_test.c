/* SPDX-License-Identifier: Apache-2.0 */
/* What the verifier says is charged: by hand on a small machine, and against its own rate on many. */
#include "tributary/plan.h"

#include "base/log.h"
#include "base/sys.h"
#include "support/machines.h"
#include "unit/plan/machine_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two GPUs below a switch, a third at the CPU, P2P below the switch alone. */
static const char three[] = "tributary-topology 1\n"
			    "vertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
			    "vertex switch switch:a\nvertex gpu gpu0 index=0\nvertex gpu gpu1 index=1\n"
			    "vertex gpu gpu2 index=2\nvertex nic eth0 speed_Bps=5000000000\n"
			    "link memory memory0 cpu0\nlink pci switch:a cpu0\nlink pci gpu0 switch:a\n"
			    "link pci gpu1 switch:a\nlink pci gpu2 cpu0\nlink pci eth0 cpu0\n"
			    "rate gpu0>switch:a 12000000000 measured\nrate switch:a>gpu0 12000000000 measured\n"
			    "rate gpu1>switch:a 12000000000 measured\nrate switch:a>gpu1 12000000000 measured\n"
			    "rate gpu2>cpu0 10000000000 measured\nrate cpu0>gpu2 10000000000 measured\n"
			    "rate switch:a>cpu0 6000000000 measured\nrate cpu0>switch:a 7000000000 measured\n"
			    "limit both 16000000000 measured members=switch:a>cpu0,cpu0>switch:a\n"
			    "pair gpu0 gpu1 p2p_works=1 p2p_Bps=9000000000 p2p_provenance=measured\n"
			    "pair gpu2 gpu0 p2p_works=0 host_Bps=8000000000 host_provenance=measured\n";

static void read_three(struct topology *topology, struct plan_request *request)
{
	machines_of_text(three, topology);
	assert_int_equal(plan_request_all(topology, request), 0);
}

static const struct plan_load *find_load(const struct topology *topology, const struct plan_load *loads, size_t count,
					 enum plan_load_kind kind, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t index = kind == PLAN_LOAD_LINK    ? topology_find_directed(topology, name)
				 : kind == PLAN_LOAD_LIMIT ? topology_find_limit(topology, name)
							   : topology_find(topology, name);

		if (loads[i].kind == kind && loads[i].index == index)
			return &loads[i];
	}
	return NULL;
}

static void assert_load(const struct topology *topology, const struct plan_load *loads, size_t count,
			enum plan_load_kind kind, const char *name, uint64_t crossings, uint64_t capacity_Bps)
{
	const struct plan_load *load = find_load(topology, loads, count, kind, name);

	if (!load)
		fail_msg("%s is not charged", name);
	assert_int_equal(load->crossings, crossings);
	assert_int_equal(load->capacity_Bps, capacity_Bps);
}

static void every_crossing_of_a_ring_is_listed(void **state)
{
	struct plan plan = { .pattern = PLAN_RING, .gpu_count = 3, .channel_count = 2 };
	struct plan_request request;
	struct topology topology;
	struct plan_load *loads;
	struct diag diag;
	size_t count;

	(void)state;
	read_three(&topology, &request);
	for (uint8_t i = 0; i < 3; i++)
		plan.channels[0].order[i] = plan.channels[1].order[i] = i;
	assert_int_equal(plan_verify_loads(&topology, &request, &plan, &loads, &count, &diag), 0);
	/* gpu0 to gpu1 by P2P; gpu1 to gpu2 and gpu2 to gpu0 through the memory. */
	assert_load(&topology, loads, count, PLAN_LOAD_LINK, "gpu0>switch:a", 2, 12000000000);
	assert_load(&topology, loads, count, PLAN_LOAD_LINK, "gpu1>switch:a", 2, 12000000000);
	assert_load(&topology, loads, count, PLAN_LOAD_LINK, "switch:a>cpu0", 2, 6000000000);
	assert_load(&topology, loads, count, PLAN_LOAD_LINK, "cpu0>switch:a", 2, 7000000000);
	assert_load(&topology, loads, count, PLAN_LOAD_LINK, "cpu0>memory0", 4, 0);
	assert_load(&topology, loads, count, PLAN_LOAD_LIMIT, "both", 4, 16000000000);
	for (size_t i = 0; i < count; i++) {
		if (loads[i].kind == PLAN_LOAD_P2P)
			assert_int_equal(loads[i].capacity_Bps, 9000000000);
		if (loads[i].kind == PLAN_LOAD_HOST)
			assert_int_equal(loads[i].capacity_Bps, 8000000000);
	}
	/* The fullest first, what has no capacity last. */
	assert_int_equal(loads[0].kind, PLAN_LOAD_LINK);
	assert_int_equal(loads[0].index, topology_find_directed(&topology, "switch:a>cpu0"));
	assert_int_equal(loads[count - 1].capacity_Bps, 0);
	free(loads);
	topology_fini(&topology);
}

static void nics_own_speed_counts_where_its_wire_is_no_link(void **state)
{
	struct plan plan = { .pattern = PLAN_TREE, .gpu_count = 3, .channel_count = 1 };
	struct plan_request request;
	struct topology topology;
	struct plan_load *loads;
	struct diag diag;
	size_t count;

	(void)state;
	read_three(&topology, &request);
	request.hosts = 3;
	for (uint8_t i = 0; i < 3; i++)
		plan.channels[0].order[i] = i;
	assert_int_equal(plan_verify_loads(&topology, &request, &plan, &loads, &count, &diag), 0);
	assert_load(&topology, loads, count, PLAN_LOAD_NIC_IN, "eth0", 2, 5000000000);
	assert_load(&topology, loads, count, PLAN_LOAD_NIC_OUT, "eth0", 2, 5000000000);
	free(loads);
	plan.channels[0].order[1] = 0;
	assert_true(plan_verify_loads(&topology, &request, &plan, &loads, &count, &diag) < 0);
	topology_fini(&topology);
}

/* On all machines: the rate is that of the first load, and they are in order. */
static void loads_say_the_same_as_the_rate(void **state)
{
	unsigned plans = 0;

	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct topology topology;
		struct plan_request request;

		machine_spec_build(&machine_specs[i], 7 + i, &topology);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		for (request.hosts = 1; request.hosts <= (request.nic_count ? 3U : 1U); request.hosts++) {
			for (int pattern = 0; pattern < PLAN_PATTERN_COUNT && request.gpu_count <= 8; pattern++) {
				struct plan_load *loads;
				uint64_t rate_Bps;
				struct plan plan;
				struct diag diag;
				size_t count;

				assert_int_equal(plan_make(&topology, &request, (enum plan_pattern)pattern, &plan), 0);
				assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
				assert_int_equal(plan_verify_loads(&topology, &request, &plan, &loads, &count, &diag),
						 0);
				if (rate_Bps < PLAN_UNBOUNDED_BPS)
					assert_int_equal(loads[0].capacity_Bps / loads[0].crossings, rate_Bps);
				else
					assert_true(!count || !loads[0].capacity_Bps);
				for (size_t k = 1; k < count && loads[k].capacity_Bps; k++)
					assert_true(loads[k].capacity_Bps / loads[k].crossings >=
						    loads[k - 1].capacity_Bps / loads[k - 1].crossings);
				free(loads);
				plans++;
			}
		}
		topology_fini(&topology);
	}
	print_message("%u plans\n", plans);
	assert_true(plans > 100);
}

#ifdef TRIBUTARY_FAULTS
static void no_memory_is_said_and_nothing_is_lost(void **state)
{
	struct plan plan = { .pattern = PLAN_RING, .gpu_count = 3, .channel_count = 1 };
	struct plan_request request;
	struct topology topology;
	struct plan_load *loads;
	struct diag diag;
	unsigned failed = 0;
	size_t count;

	(void)state;
	read_three(&topology, &request);
	for (uint8_t i = 0; i < 3; i++)
		plan.channels[0].order[i] = i;
	for (uint64_t nth = 1;; nth++) {
		int r;

		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = plan_verify_loads(&topology, &request, &plan, &loads, &count, &diag);
		if (r == 0)
			break;
		assert_int_equal(r, -ENOMEM);
		failed++;
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(failed, 2); /* the loads, and the rest in one */
	free(loads);
	topology_fini(&topology);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_crossing_of_a_ring_is_listed),
		cmocka_unit_test(nics_own_speed_counts_where_its_wire_is_no_link),
		cmocka_unit_test(loads_say_the_same_as_the_rate),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(no_memory_is_said_and_nothing_is_lost),
#endif
	};

	return cmocka_run_group_tests_name("plan/loads", tests, NULL, NULL);
}
