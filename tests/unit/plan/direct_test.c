/* SPDX-License-Identifier: Apache-2.0 */
/* Direct heads: against every set of heads with every NIC, verified one by one; what a set has of them; what is refused. */
#include "machine_spec.h"
#include "set_check.h"

#include "base/log.h"
#include "base/sys.h"
#include "ncclxml/graph_xml.h"
#include "tributary/predict.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct machine_spec switched = { .name = "NVSwitch, a NIC for two GPUs",
					      .gpus = 8,
					      .nics = 4,
					      .sockets = 2,
					      .switches = 4,
					      .gdr = true,
					      .nvswitch_rate = 2400,
					      .gpu_rate = 240,
					      .uplink_rate = 240,
					      .socket_rate = 300,
					      .memory_rate = 1000,
					      .nic_rate = 240,
					      .wire_rate = 120 };

static struct plan_channel channel_from(const struct plan_request *request, size_t head, size_t nic)
{
	struct plan_channel channel = { .order = { (uint8_t)head }, .nic_in = (uint8_t)nic, .nic_out = (uint8_t)nic };
	size_t count = 1;

	for (size_t i = 0; i < request->gpu_count; i++)
		if (i != head)
			channel.order[count++] = (uint8_t)i;
	return channel;
}

/* The best total of all heads from `gpu` on, each left out or by each NIC. */
static uint64_t best_of_all(const struct topology *topology, const struct plan_request *request, struct plan *plan,
			    size_t gpu)
{
	size_t nics = request->hosts > 1 ? request->nic_count : 1;
	uint64_t best_Bps, rate_Bps;
	struct diag diag;

	if (gpu == request->gpu_count) {
		if (!plan->channel_count)
			return 0;
		assert_int_equal(plan_verify_rate(topology, request, plan, &rate_Bps, &diag), 0);
		return rate_Bps * plan->channel_count;
	}
	best_Bps = best_of_all(topology, request, plan, gpu + 1);
	for (size_t nic = 0; nic < nics; nic++) {
		uint64_t total_Bps;

		plan->channels[plan->channel_count++] = channel_from(request, gpu, nic);
		total_Bps = best_of_all(topology, request, plan, gpu + 1);
		plan->channel_count--;
		best_Bps = total_Bps > best_Bps ? total_Bps : best_Bps;
	}
	return best_Bps;
}

static void compare_with_all(const struct machine_spec *spec, unsigned mask, unsigned hosts)
{
	struct plan_request all, request;
	struct topology topology;
	struct diag diag;
	struct plan plan;
	uint64_t best_Bps;

	machine_spec_build(spec, 11, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	request = machine_subset(&all, mask, hosts);
	if (request.nic_count > 4)
		request.nic_count = 4;
	assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
	if (plan_verify(&topology, &request, &plan, &diag) < 0)
		fail_msg("%s %#x: %s", spec->name, mask, diag.text);
	best_Bps = best_of_all(&topology, &request,
			       &(struct plan){ .pattern = PLAN_DIRECT, .gpu_count = plan.gpu_count }, 0);
	if (plan_total_Bps(&plan) + PLAN_CHANNELS_MAX < best_Bps || plan.bound_Bps < best_Bps || !plan.exact)
		fail_msg("%s %#x, %u hosts: %zu x %llu, the best is %llu, bound %llu, exact %d", spec->name, mask,
			 hosts, plan.channel_count, (unsigned long long)plan.rate_Bps, (unsigned long long)best_Bps,
			 (unsigned long long)plan.bound_Bps, plan.exact);
	topology_fini(&topology);
}

static void no_other_heads_move_more(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++)
		for (unsigned mask = 1; mask < 1U << machine_specs[i].gpus && mask < 256; mask += 6)
			for (unsigned hosts = 1; hosts <= 2; hosts++)
				if (__builtin_popcount(mask) <= 4)
					compare_with_all(&machine_specs[i], mask, hosts);
	for (unsigned mask = 1; mask < 256; mask += 5)
		if (__builtin_popcount(mask) <= 5)
			compare_with_all(&switched, mask, 2);
}

/* Four NICs of 12 GB/s: four heads, each with the NIC below its own switch. */
static void every_nic_has_a_head_that_is_near(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan plan;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 4;
	assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
	assert_int_equal(plan.channel_count, 4);
	assert_int_equal(plan_total_Bps(&plan), 48000000000);
	assert_int_equal(plan.bound_Bps, 48000000000);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(plan.channels[i].order[0] / 2, plan.channels[i].nic_in);
		assert_int_equal(plan.channels[i].nic_out, plan.channels[i].nic_in);
	}
	assert_int_equal(plan.intra_class, TOPOLOGY_CLASS_NVL);
	topology_fini(&topology);
}

/* What each head takes in is seven times its part. */
static void a_slow_switch_wants_more_heads_than_nics(void **state)
{
	struct machine_spec spec = switched;
	struct plan_request request;
	struct topology topology;
	struct plan plan;

	(void)state;
	spec.nvswitch_rate = 700;
	spec.wire_rate = 240;
	machine_spec_build(&spec, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
	/* Each GPU sends its part to seven heads and, as one, the sum to seven: 14 of 5 GB/s. */
	assert_int_equal(plan.channel_count, 8);
	assert_int_equal(plan.rate_Bps, 5000000000);
	topology_fini(&topology);
}

static void little_work_still_gives_heads(void **state)
{
	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct plan_request request;
		struct topology topology;
		struct diag diag;
		struct plan plan;

		machine_spec_build(&machine_specs[i], 1, &topology);
		assert_int_equal(plan_request_all(&topology, &request), 0);
		for (request.hosts = 1; request.hosts <= 2; request.hosts++) {
			request.work_limit = 1;
			assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
			assert_true(plan.channel_count && plan_verify(&topology, &request, &plan, &diag) == 0);
		}
		topology_fini(&topology);
	}
}

static void the_verifier_refuses_a_head_twice(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct diag diag = { .text = "" };
	struct plan plan;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
	assert_int_equal(plan_verify(&topology, &request, &plan, &diag), 0);
	plan.channels[1] = plan.channels[0];
	assert_int_equal(plan_verify(&topology, &request, &plan, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "is the head of channel 0 too"));
	topology_fini(&topology);
}

/* One way of a head's NVLink carries what six others hand it and what it hands to the other heads. */
static void the_verifier_charges_what_a_head_takes_in(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct diag diag;
	struct plan plan = { .pattern = PLAN_DIRECT, .gpu_count = 8, .channel_count = 2 };
	uint64_t rate_Bps;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	plan.channels[0] = channel_from(&request, 0, 0);
	plan.channels[1] = channel_from(&request, 5, 0);
	assert_int_equal(plan_verify_rate(&topology, &request, &plan, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, 240000000000 / 8);
	topology_fini(&topology);
}

static unsigned mask_of_heads(const struct plan *plan)
{
	unsigned mask = 0;

	for (size_t i = 0; i < plan->channel_count; i++)
		mask |= 1U << plan->channels[i].order[0];
	return mask;
}

static void a_set_has_heads_where_a_switch_joins_all(void **state)
{
	struct machine_spec unswitched = switched;
	struct plan_request all;
	struct topology topology;
	struct plan_set set;
	double ring, tree;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	for (unsigned mask = 1; mask < 256; mask += 14) {
		for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
			struct plan_request request = machine_subset(&all, mask, 2);
			int r = plan_make_set(&topology, &request, (enum plan_where)where, &set);

			if (r == -ENODATA)
				continue;
			assert_int_equal(r, 0);
			set_check("NVSwitch", &topology, &request, &set, &ring, &tree);
			assert_int_equal(set.has[PLAN_DIRECT], where != PLAN_ONE_HOST && request.gpu_count > 1);
			if (!set.has[PLAN_DIRECT])
				continue;
			assert_true(set_check_part("heads", &topology, &request, &set, PLAN_DIRECT) > 0.999 ||
				    where == PLAN_EITHER);
			/* NCCL 2.30 runs a chain only from a head. */
			assert_int_equal(
				mask_of_heads(&set.plans[PLAN_CHAIN]) & ~mask_of_heads(&set.plans[PLAN_DIRECT]), 0);
		}
	}
	topology_fini(&topology);
	unswitched.nvswitch_rate = 0;
	machine_spec_build(&unswitched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &all), 0);
	assert_int_equal(plan_make_set(&topology, &all, PLAN_SEVERAL_HOSTS, &set), 0);
	assert_false(set.has[PLAN_DIRECT]);
	topology_fini(&topology);
}

/*
 * As NCCL counts (seen: two heads of four GPUs, 2.4 GB/s each, come to 1.6 GB/s): channels × speed / 2, divided by half of
 * one more than the GPUs of a head. It is to find the 64th part of what the heads move, by half where nothing is gained.
 */
static void nccl_counts_what_the_heads_move(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	for (unsigned gain = 500; gain <= 2000; gain += 500) {
		const struct plan *plan = &set.plans[PLAN_DIRECT];
		struct predict_speeds speeds;
		double counted_GBps;

		set.chain_gain_permille = gain;
		predict_speeds_of_set(&set, PLAN_DIRECT, 80, &speeds);
		counted_GBps = (double)plan->channel_count * speeds.inter_GBps / 2 /
			       (((double)plan->gpu_count / (double)plan->channel_count + 1) / 2);
		assert_true(counted_GBps * PREDICT_CHAIN_VEIL > 47.99 * gain / 2000);
		assert_true(counted_GBps * PREDICT_CHAIN_VEIL < 48.01 * gain / 2000);
	}
	topology_fini(&topology);
}

static void a_graph_file_has_them_with_the_chains(void **state)
{
	struct graph_xml_numbers numbers = { .net_devices = { 0, 1, 2, 3 } };
	struct plan_request request;
	struct topology topology;
	struct graph_xml graphs;
	struct diag diag = { .text = "" };
	struct plan_set set;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	assert_int_equal(graph_xml_of_set(&topology, &request, &set, &numbers, &graphs, &diag), 0);
	assert_int_equal(graphs.graph_count, 4);
	assert_int_equal(graphs.graphs[2].id, GRAPH_XML_CHAIN);
	assert_int_equal(graphs.graphs[3].id, GRAPH_XML_DIRECT);
	assert_int_equal(graphs.graphs[3].pattern, GRAPH_XML_PATTERN_DIRECT);
	assert_int_equal(graphs.graphs[3].channel_count, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct graph_xml_channel *channel = &graphs.graphs[3].channels[i];

		assert_int_equal(channel->gpu_count, 8);
		assert_int_equal(channel->gpus[0] / 2, channel->nets[0]);
		assert_int_equal(channel->nets[0], channel->nets[1]);
	}
	topology_fini(&topology);
}

#ifdef TRIBUTARY_FAULTS
static void without_memory_there_are_no_heads_and_no_leak(void **state)
{
	struct plan_request request;
	struct topology topology;
	struct plan_set set;
	struct plan plan;
	uint64_t calls;

	(void)state;
	machine_spec_build(&switched, 1, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(plan_make(&topology, &request, PLAN_DIRECT, &plan), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	for (uint64_t nth = calls > 80 ? calls - 80 : 1; nth <= calls; nth++) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(plan_make_set(&topology, &request, PLAN_SEVERAL_HOSTS, &set), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	topology_fini(&topology);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_other_heads_move_more),
		cmocka_unit_test(every_nic_has_a_head_that_is_near),
		cmocka_unit_test(a_slow_switch_wants_more_heads_than_nics),
		cmocka_unit_test(little_work_still_gives_heads),
		cmocka_unit_test(the_verifier_refuses_a_head_twice),
		cmocka_unit_test(the_verifier_charges_what_a_head_takes_in),
		cmocka_unit_test(a_set_has_heads_where_a_switch_joins_all),
		cmocka_unit_test(nccl_counts_what_the_heads_move),
		cmocka_unit_test(a_graph_file_has_them_with_the_chains),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(without_memory_there_are_no_heads_and_no_leak),
#endif
	};

	return cmocka_run_group_tests_name("plan/direct", tests, NULL, NULL);
}
