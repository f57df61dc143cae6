/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/steer/decide.h"
#include "plugin/steer/report.h"
#include "unit/plugin/steer/host.h"

static const struct steer_settings plain = { .crossnic = true, .p2p_level = STEER_P2P_DEFAULT };

static struct steer_nets two_nets(void)
{
	struct steer_nets nets = { .ours = true, .count = 2 };

	snprintf(nets.at[0].name, sizeof(nets.at[0].name), "fake0");
	snprintf(nets.at[1].name, sizeof(nets.at[1].name), "fake1");
	return nets;
}

static struct plan_request request_of_gpus(const struct steer_machine *machine, const struct steer_settings *of,
					   unsigned gpus)
{
	char bus_ids[PLAN_GPUS_MAX][STEER_BUS_ID_BYTES];
	struct steer_nets nets = two_nets();
	struct plan_request request;
	size_t count = 0;

	for (unsigned i = PLAN_GPUS_MAX; i-- > 0;) /* in any order */
		if (gpus & 1u << i)
			snprintf(bus_ids[count++], STEER_BUS_ID_BYTES, "0000:%02x:00.0", 0x10 + i);
	assert_int_equal(
		steer_machine_request(machine, &nets, of, (const char(*)[STEER_BUS_ID_BYTES])bus_ids, count, &request),
		0);
	return request;
}

static void a_request_has_gpus_in_order_and_nics_as_the_plugin_has_them(void **state)
{
	struct steer_machine machine = { .loaded = true };
	struct steer_nets nets = two_nets();
	char nobody[1][STEER_BUS_ID_BYTES] = { "0000:99:00.0" };
	struct steer_settings level = plain;
	struct plan_request request;

	(void)state;
	host_machine(&host_spec, &machine.topology);
	request = request_of_gpus(&machine, &plain, 0x91);
	assert_int_equal(request.gpu_count, 3);
	assert_int_equal(machine.topology.vertices[request.gpus[0]].gpu.index, 0);
	assert_int_equal(machine.topology.vertices[request.gpus[2]].gpu.index, 7);
	assert_int_equal(request.nic_count, 2);
	assert_int_equal(request.p2p_farthest, TOPOLOGY_CLASS_PXB);
	assert_int_equal(request_of_gpus(&machine, &plain, 0x11).p2p_farthest, TOPOLOGY_CLASS_SYS); /* two on AMD */
	level.p2p_level = TOPOLOGY_CLASS_LOC;
	assert_int_equal(request_of_gpus(&machine, &level, 0x11).p2p_farthest, TOPOLOGY_CLASS_LOC);
	assert_int_equal(
		steer_machine_request(&machine, &nets, &plain, (const char(*)[STEER_BUS_ID_BYTES])nobody, 1, &request),
		-ENOENT);
	/* A device that only its place is known of, and one that the machine has not got. */
	snprintf(nets.at[0].name, sizeof(nets.at[0].name), "eth9");
	snprintf(nets.at[0].bus_id, sizeof(nets.at[0].bus_id), "0000:41:00.0");
	snprintf(nets.at[1].name, sizeof(nets.at[1].name), "docker0");
	assert_int_equal(steer_machine_nic(&machine, &nets, 0), topology_find(&machine.topology, "nic1"));
	assert_int_equal(steer_machine_nic(&machine, &nets, 1), TOPOLOGY_NONE);
	topology_fini(&machine.topology);
}

static bool splits(const struct machine_spec *spec, unsigned gpus, uint64_t speed_Bps)
{
	struct steer_machine machine = { .loaded = true };
	struct steer_nets nets = two_nets();
	struct diag diag = { .text = "" };
	struct plan_request request;
	bool ret;

	nets.at[0].speed_Bps = nets.at[1].speed_Bps = speed_Bps;
	host_machine(spec, &machine.topology);
	request = request_of_gpus(&machine, &plain, gpus);
	ret = steer_machine_splits(&machine, &nets, &request, &diag);
	assert_true(ret == (diag.text[0] != '\0'));
	topology_fini(&machine.topology);
	return ret;
}

/* nccl: graph/paths.cc, ncclTopoCheckNet */
static void a_network_that_is_faster_than_what_is_between_gpus_splits_the_host(void **state)
{
	struct machine_spec spec = host_spec;

	(void)state;
	assert_false(splits(&spec, 0xff, 0)); /* 6 GB/s of wire against 16 between sockets */
	spec.nic_rate = spec.wire_rate = 230;
	assert_true(splits(&spec, 0x11, 0));
	assert_false(splits(&spec, 0x0f, 0)); /* one switch: 24 */
	assert_true(splits(&spec, 0x1f, 0));
	spec.wire_rate = 0; /* then the plugin's word counts, and without one it may be anything */
	assert_true(splits(&spec, 0x11, 0));
	assert_true(splits(&spec, 0x11, 23000000000));
	assert_false(splits(&spec, 0x11, 12500000000));
	spec.wire_rate = 230;
	spec.switches = 0; /* each device on a root port of its own: no NIC is near */
	assert_false(splits(&spec, 0x11, 0));
	spec = host_spec;
	spec.gpu_rate = 0; /* not known: nothing is taken for faster than it is */
	assert_true(splits(&spec, 0x11, 0));
}

/* Graphs that were read from NCCL's own files have no host bridges. */
static void what_meets_at_a_cpu_alone_is_not_near(void **state)
{
	struct steer_machine machine = { .loaded = true };
	struct steer_nets nets = two_nets();
	struct topology *topology = &machine.topology;
	struct topology_vertex vertex;
	struct topology_link link;
	struct plan_request request;
	uint32_t cpu, at;
	struct diag diag;

	(void)state;
	topology_init(topology);
	vertex = topology_vertex_of(TOPOLOGY_CPU, "cpu0");
	assert_int_equal(topology_add_vertex(topology, &vertex, &cpu), 0);
	for (int i = 0; i < 4; i++) {
		char name[16];

		snprintf(name, sizeof(name), i < 2 ? "gpu%d" : "nic%d", i % 2);
		vertex = topology_vertex_of(i < 2 ? TOPOLOGY_GPU : TOPOLOGY_NIC, name);
		snprintf(vertex.bus_id, sizeof(vertex.bus_id), "0000:%02x:00.0", 0x10 + i);
		if (i < 2)
			vertex.gpu.index = i;
		else
			snprintf(vertex.nic.interface, sizeof(vertex.nic.interface), "fake%d", i % 2);
		vertex.nic.speed_Bps = i < 2 ? 0 : 50000000000;
		assert_int_equal(topology_add_vertex(topology, &vertex, &at), 0);
		link = topology_link_of(TOPOLOGY_LINK_PCI, at, cpu);
		link.pci = (struct topology_pci_link){ 4, 16, 4, 16, "" };
		link.nominal_Bps = topology_pci_Bps(4, i < 2 ? 8 : 16);
		assert_int_equal(topology_add_link(topology, &link, NULL), 0);
	}
	request = request_of_gpus(&machine, &plain, 3);
	assert_int_equal(request.nic_count, 2);
	assert_false(steer_machine_splits(&machine, &nets, &request, &diag));
	topology_fini(topology);
}

static void nothing_computes(struct steer_compute *ret)
{
	*ret = (struct steer_compute){ .why = "there is no NVML" };
}

static const struct steer_elsewhere nobody_elsewhere = { .fd = -1, .own = "@nobody.", .job = "@nobody." };

/* Ranks on these GPUs of the machine, each a process; a job of so many processes in all. */
static void take_snapshot(unsigned gpus, uint32_t world_size, struct steer_snapshot *snapshot)
{
	uint32_t count = 0;

	for (uint32_t gpu = 0; gpu < 8; gpu++) {
		struct steer_member *member = &snapshot->members[count];

		if (!(gpus & 1u << gpu))
			continue;
		member->process = (struct steer_process){ .job_key = 1, .world_size = world_size, .local_rank = count };
		member->process.identity.pid = count + 1;
		member->record = (struct steer_record){ .machine = 9, .serial = 3 };
		snprintf(member->record.bus_id, sizeof(member->record.bus_id), "0000:%02x:00.0", 0x10 + gpu);
		count++;
	}
	for (uint32_t i = 0; i < count; i++) {
		snapshot->members[i].process.local_size = count;
		memcpy(&snapshot->processes[i], &snapshot->members[i].process, sizeof(snapshot->processes[i]));
	}
	snapshot->process_count = snapshot->member_count = count;
}

/*
 * What the planner's tests and `tributary plan` verifier is plan_make_set() of the request: what NCCL is given is the same set,
 * and of as many channels.
 */
static void what_is_decided_is_the_planners_own_set(void **state)
{
	struct steer_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct steer_decision *decision = calloc(1, sizeof(*decision));
	struct steer_machine machine = { .loaded = true, .hash = 9 };
	struct steer_nets nets = two_nets();
	const struct steer_planner planner = { .machine = &machine,
					       .nets = &nets,
					       .settings = &plain,
					       .elsewhere = &nobody_elsewhere,
					       .compute = nothing_computes };
	size_t most = 0;

	(void)state;
	assert_true(snapshot && decision);
	host_machine(&host_spec, &machine.topology);
	for (unsigned gpus = 3; gpus < 256; gpus += 36) {
		struct plan_request request = request_of_gpus(&machine, &plain, gpus);

		for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
			struct plan_set set;

			if (where == PLAN_SEVERAL_HOSTS) /* steering is not told of that */
				continue;
			take_snapshot(gpus, where == PLAN_ONE_HOST ? (uint32_t)request.gpu_count : 64, snapshot);
			steer_decide(&planner, snapshot, decision);
			assert_int_equal(decision->result, STEER_PLAN);
			assert_int_equal(plan_make_set(&machine.topology, &request, (enum plan_where)where, &set), 0);
			assert_int_equal(decision->set.where, where);
			assert_int_equal(decision->set.channel_count, set.channel_count);
			assert_memory_equal(decision->set.intra_Bps, set.intra_Bps, sizeof(set.intra_Bps));
			assert_memory_equal(decision->set.inter_Bps, set.inter_Bps, sizeof(set.inter_Bps));
			for (int pattern = PLAN_RING; pattern <= PLAN_TREE; pattern++)
				assert_memory_equal(decision->set.plans[pattern].channels, set.plans[pattern].channels,
						    sizeof(set.plans[pattern].channels));
			most = set.channel_count > most ? set.channel_count : most;
		}
	}
	assert_true(most > 4); /* else the machine says little */
	topology_fini(&machine.topology);
	free(decision);
	free(snapshot);
}

static void eight_gpus_are_decided_for_and_told(void **state)
{
	struct steer_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	struct steer_decision *decision = calloc(1, sizeof(*decision));
	struct steer_machine machine = { .loaded = true, .hash = 9 };
	struct steer_nets nets = two_nets();
	const struct steer_planner planner = { .machine = &machine,
					       .nets = &nets,
					       .settings = &plain,
					       .elsewhere = &nobody_elsewhere,
					       .compute = nothing_computes };
	char text[PLUGIN_REPORT_BYTES];

	(void)state;
	assert_true(snapshot && decision);
	host_machine(&host_spec, &machine.topology);
	take_snapshot(0xff, 8, snapshot);
	for (uint32_t i = 0; i < 8; i++) /* in any order */
		snprintf(snapshot->members[i].record.bus_id, sizeof(snapshot->members[i].record.bus_id),
			 "0000:%02x:00.0", 0x17 - i);
	steer_decide(&planner, snapshot, decision);
	assert_int_equal(decision->result, STEER_PLAN);
	assert_int_equal(decision->set.where, PLAN_ONE_HOST);
	assert_string_equal(decision->members[7].bus_id, "0000:17:00.0");
	for (uint32_t i = 0; i < 8; i++) {
		const struct steer_member *member = &snapshot->members[i];
		struct steer_record other = member->record;
		uint64_t process = steer_process_hash(&member->process);

		assert_true(steer_decision_names(decision, process, &member->record));
		assert_false(steer_decision_names(decision, process + 1, &member->record));
		other.serial++; /* a later communicator with the same id */
		assert_false(steer_decision_names(decision, process, &other));
		other = member->record;
		other.machine++;
		assert_false(steer_decision_names(decision, process, &other));
		other = member->record;
		memcpy(other.bus_id, snapshot->members[(i + 1) % 8].record.bus_id, sizeof(other.bus_id));
		assert_false(steer_decision_names(decision, process, &other));
	}
	steer_report_line(&machine.topology, decision, text);
	assert_non_null(strstr(text, "GPUs 0,1,2,3,4,5,6,7: "));
	assert_non_null(strstr(text, "; AllReduce of 256 MiB should reach "));
	assert_non_null(strstr(text, " GB/s (busbw)"));
	assert_null(strstr(text, "between two"));
	memcpy(snapshot->members[7].record.bus_id, snapshot->members[6].record.bus_id, STEER_BUS_ID_BYTES);
	steer_decide(&planner, snapshot, decision);
	assert_int_equal(decision->result, STEER_NCCL_SEARCHES);
	assert_string_equal(decision->reason,
			    "two ranks have the same GPU, or the same id was used twice: each needs its own");
	steer_report_line(&machine.topology, decision, text);
	assert_string_equal(
		text,
		"NCCL searches its channels itself: two ranks have the same GPU, or the same id was used twice: each "
		"needs its own");
	topology_fini(&machine.topology);
	free(decision);
	free(snapshot);
}

/* What NCCL's own cost model makes of the channels; on one host and between two where nobody knows which it is. */
static void the_line_says_what_the_channels_should_bring(void **state)
{
	struct steer_decision *decision = calloc(1, sizeof(*decision));
	struct steer_machine machine = { .loaded = true };
	char text[PLUGIN_REPORT_BYTES];

	(void)state;
	assert_non_null(decision);
	host_machine(&host_spec, &machine.topology);
	decision->request = request_of_gpus(&machine, &plain, 0xff);
	decision->result = STEER_PLAN;
	assert_int_equal(plan_make_set(&machine.topology, &decision->request, PLAN_ONE_HOST, &decision->set), 0);
	steer_report_line(&machine.topology, decision, text);
	/* Rings of eight move 16 * 4 / 7 GB/s of data over the sockets' 16 each way, and trees, which cross them once, 13.7. */
	assert_non_null(strstr(text, "; ring 16.0 GB/s, tree 13.7 GB/s in all"));
	assert_non_null(strstr(text, "; AllReduce of 256 MiB should reach 19.8 GB/s (busbw)"));
	assert_int_equal(plan_make_set(&machine.topology, &decision->request, PLAN_EITHER, &decision->set), 0);
	steer_report_line(&machine.topology, decision, text);
	assert_non_null(strstr(text, "; AllReduce of 256 MiB should reach 1"));
	assert_non_null(strstr(text, " GB/s on one host and "));
	assert_non_null(strstr(text, " GB/s between two (busbw)"));
	topology_fini(&machine.topology);
	free(decision);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_has_gpus_in_order_and_nics_as_the_plugin_has_them),
		cmocka_unit_test(a_network_that_is_faster_than_what_is_between_gpus_splits_the_host),
		cmocka_unit_test(what_meets_at_a_cpu_alone_is_not_near),
		cmocka_unit_test(what_is_decided_is_the_planners_own_set),
		cmocka_unit_test(eight_gpus_are_decided_for_and_told),
		cmocka_unit_test(the_line_says_what_the_channels_should_bring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
