/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/discover.h"

#include "discover/build.h"
#include "unit/discover/fact.h"
#include "unit/discover/fake_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void read_facts(const struct tree *machine, struct discover_facts *ret)
{
	struct discover_root *root;
	struct topology topology;
	struct diag diag = { 0 };

	assert_int_equal(discover_root_open(machine->root, false, &root), 0);
	if (discover_machine(root, &topology, ret, &diag) < 0)
		fail_msg("%s", diag.text);
	topology_fini(&topology);
	discover_root_close(root);
}

static void a_machine_says_what_doctor_asks(void **state)
{
	static const struct {
		const char *what, *key, *value;
	} cases[] = {
		{ "acs 0000:18:01.0", "state", "known" },
		{ "acs 0000:18:01.0", "ReqRedir", "1" },
		{ "acs 0000:18:01.0", "DirectTrans", "0" },
		{ "acs 0000:16:01.0", "ReqRedir", "0" },
		{ "bar1 gpu2", "bytes", "68719476736" },
		{ "device 0000:19:00.0", "iommu", "DMA-FQ" },
		{ "device 0000:9a:00.0", "iommu", "identity" },
		{ "device 0000:1b:00.0", "driver", "mlx5_core" },
		{ "device 0000:1b:00.0", "name", "nic:mlx5_0" },
		{ "device 0000:1b:00.0", "relaxed_ordering", "1" },
		{ "device 0000:1b:00.0", "payload", "256" },
		{ "device 0000:1b:00.0", "read_request", "4096" },
		{ "governor powersave", "policies", "2" },
		{ "interface ens5", "speed_Mbps", "25000" },
		{ "interface ens5", "most_Mbps", "100000" },
		{ "interface ens5", "mtu", "9000" },
		{ "interface ens5", "pause_tx", "on" },
		{ "interface docker0", "nic", "none" },
		{ "iommu", "state", "mixed" },
		{ "memlock", "soft", "65536" },
		{ "memlock", "hard", "unlimited" },
		{ "nvml", "gpus", "4" },
		{ "p2p gpu0 gpu2", "status", "bridges" },
		{ "p2p gpu2 gpu3", "status", "works" },
		{ "rdma nic:mlx5_0", "state", "ACTIVE" },
		{ "rdma nic:mlx5_0", "rate_Gbps", "200" },
		{ "rdma nic:mlx5_0", "soft", "0" },
		{ "rdma nic:mlx5_0", "packet_bytes", "4096" },
		{ "rdma nic:mlx5_0", "max_qp", "131072" },
		{ "gids nic:mlx5_0", "v1", "2" },
		{ "gids nic:mlx5_0", "v2", "2" },
		{ "gids nic:mlx5_0", "ipv4", "3" },
		{ "roce ens1f0np0", "trust", "dscp" },
		{ "roce ens1f0np0", "dscp", "26:3" },
		{ "roce ens1f0np0", "cnp_dscp", "48" },
		{ "roce ens1f0np0", "pfc", "00010000" },
		{ "roce ens1f0np0", "ecn_notify", "00010000" },
		{ "roce ens1f0np0", "ecn_react", "00000000" },
		{ "sysctl net.ipv4.tcp_rmem", "value", "4096,131072,6291456" },
		{ "sysctl net.core.wmem_max", "value", "unknown" },
		{ "sysctl kernel.numa_balancing", "value", "1" },
	};
	struct discover_facts facts;

	read_facts(*state, &facts);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		fact_assert(&facts, cases[i].what, cases[i].key, cases[i].value);
	discover_facts_fini(&facts);
}

static void lines_are_sorted_and_end(void **state)
{
	struct discover_facts facts;
	char before[512] = "", line[512];

	read_facts(*state, &facts);
	assert_int_equal(facts.bytes, strlen(facts.text));
	for (const char *at = facts.text; *at; at += strcspn(at, "\n") + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
		assert_true(strcmp(before, line) < 0);
		memcpy(before, line, sizeof(line));
	}
	discover_facts_fini(&facts);
}

static void a_gpu_that_nobody_can_use_says_why(void **state)
{
	struct tree *machine = *state;
	struct discover_facts facts;

	/* Of the machine's GPUs the driver shows two, the second of which has no slice. */
	tree_text(machine, "nvml.txt",
		  "nvml 1\ngpu 0 bus=0000:19:00.0 device=0x20f110de subsystem=0x10de sm=80 generation=4 lanes=16 "
		  "most_generation=4 most_lanes=16 memory=1024 bar1=256 mig=0 name=A\n"
		  "gpu 1 bus=0000:1a:00.0 device=0x20f110de subsystem=0x10de sm=80 generation=4 lanes=16 "
		  "most_generation=4 most_lanes=16 memory=1024 bar1=256 mig=1 name=A\n");
	read_facts(machine, &facts);
	fact_assert(&facts, "hidden-gpu 0000:1a:00.0", "reason", "no-slices");
	fact_assert(&facts, "hidden-gpu 0000:9a:00.0", "reason", "driver");
	discover_facts_fini(&facts);
}

static void without_roots_rights_acs_is_unknown(void **state)
{
	struct discover_facts facts;
	char header[64] = { 0 };

	/* What the kernel gives of configuration space to others: the header of a downstream port. */
	memcpy(header, "\x00\x10\x30\xc0\x47\x01\x10\x00\x00\x00\x04\x06\x00\x00\x01", 15);
	memcpy(header + 0x18, "\x18\x1a\x1a", 3);
	tree_write(((struct tree *)*state)->fd, "sys/bus/pci/devices/0000:18:01.0/config", header, sizeof(header));
	read_facts(*state, &facts);
	fact_assert(&facts, "acs 0000:18:01.0", "state", "unknown");
	fact_assert(&facts, "device 0000:18:01.0", "relaxed_ordering", "unknown");
	assert_null(fact_value(&facts, "acs 0000:18:01.0", "ReqRedir"));
	fact_assert(&facts, "acs 0000:18:00.0", "ReqRedir", "1");
	discover_facts_fini(&facts);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_machine_new, tree_free)
	const struct CMUnitTest tests[] = {
		TEST(a_machine_says_what_doctor_asks),
		TEST(lines_are_sorted_and_end),
		TEST(a_gpu_that_nobody_can_use_says_why),
		TEST(without_roots_rights_acs_is_unknown),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
