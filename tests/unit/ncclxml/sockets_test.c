/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "machine.h"
#include "ncclxml/sockets.h"

#define GBPS(x) ((uint64_t)(x)*1000000000ULL)

/* AMD: NCCL's constant is 16 GB/s. */
static bool as_switches(struct topology *topology, uint64_t rate_Bps, enum topology_provenance provenance)
{
	struct ncclxml_sockets sockets;
	struct diag diag;

	machine_set(topology, "cpu0", "cpu1", rate_Bps, provenance);
	assert_int_equal(ncclxml_sockets_decide(topology,
						&(struct topology_xml_shape){ .sockets = TOPOLOGY_XML_SOCKETS_AUTO },
						&sockets, &diag),
			 0);
	assert_int_equal(sockets.cpu_count, 2);
	return sockets.as_switches;
}

static void only_a_measurement_far_from_the_constant_makes_switches(void **state)
{
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	machine_pairs(&topology, 2);
	assert_false(as_switches(&topology, GBPS(16), TOPOLOGY_MEASURED));
	assert_false(as_switches(&topology, GBPS(20), TOPOLOGY_MEASURED));
	assert_true(as_switches(&topology, GBPS(21), TOPOLOGY_MEASURED));
	assert_false(as_switches(&topology, GBPS(13), TOPOLOGY_MEASURED));
	assert_true(as_switches(&topology, GBPS(40), TOPOLOGY_AT_LEAST));
	assert_false(as_switches(&topology, GBPS(5), TOPOLOGY_AT_LEAST));
	assert_false(as_switches(&topology, GBPS(40), TOPOLOGY_ASSUMED));
	assert_false(as_switches(&topology, GBPS(40), TOPOLOGY_NOMINAL));
	topology_fini(&topology);
}

/* By how many GB/s NCCL's constant is off, where the file leaves it to that. */
static double missed(struct topology *topology, enum topology_xml_sockets asked, uint64_t rate_Bps,
		     enum topology_provenance provenance)
{
	struct ncclxml_sockets sockets;
	uint64_t is_Bps, nccl_Bps;
	struct diag diag;

	machine_set(topology, "cpu0", "cpu1", rate_Bps, provenance);
	assert_int_equal(
		ncclxml_sockets_decide(topology, &(struct topology_xml_shape){ .sockets = asked }, &sockets, &diag), 0);
	ncclxml_sockets_missed(topology, &sockets, &is_Bps, &nccl_Bps);
	return ((double)is_Bps - (double)nccl_Bps) / 1e9;
}

static void assert_GBps(double is, double expected)
{
	assert_true(is > expected - 0.01 && is < expected + 0.01);
}

static void what_the_file_cannot_say_of_sockets_is_known(void **state)
{
	const enum topology_xml_sockets cpus = TOPOLOGY_XML_SOCKETS_CPUS;
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	machine_pairs(&topology, 2);
	assert_GBps(missed(&topology, cpus, GBPS(40), TOPOLOGY_MEASURED), 24);
	assert_GBps(missed(&topology, cpus, GBPS(10), TOPOLOGY_MEASURED), -6);
	assert_GBps(missed(&topology, cpus, GBPS(10), TOPOLOGY_AT_LEAST), 0);
	assert_GBps(missed(&topology, cpus, GBPS(16), TOPOLOGY_MEASURED), 0);
	assert_GBps(missed(&topology, TOPOLOGY_XML_SOCKETS_SWITCHES, GBPS(40), TOPOLOGY_MEASURED), 0);
	topology_fini(&topology);
}

static void p2p_across_sockets_must_work_or_none_at_all(void **state)
{
	(void)state;
	for (unsigned p2p = 0; p2p < 4; p2p++) {
		struct topology topology;

		machine_read(machine_text, &topology);
		if (p2p < 3)
			machine_pairs(&topology, p2p); /* else: nothing is known */
		assert_int_equal(as_switches(&topology, GBPS(40), TOPOLOGY_MEASURED), p2p == 0 || p2p == 2);
		topology_fini(&topology);
	}
}

static void a_slow_rate_may_not_be_charged_to_host_memory_of_one_socket(void **state)
{
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	machine_pairs(&topology, 0);
	assert_false(as_switches(&topology, GBPS(8), TOPOLOGY_MEASURED));
	assert_true(as_switches(&topology, GBPS(24), TOPOLOGY_MEASURED));
	topology_fini(&topology);
}

static void a_rate_below_that_of_near_nics_would_send_over_them(void **state)
{
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology); /* NICs of 12.5 GB/s */
	machine_pairs(&topology, 2);
	assert_false(as_switches(&topology, GBPS(11), TOPOLOGY_MEASURED));
	machine_set(&topology, "nic:eth1", "net:0x84/1", GBPS(5), TOPOLOGY_MEASURED);
	assert_true(as_switches(&topology, GBPS(11), TOPOLOGY_MEASURED));
	assert_false(as_switches(&topology, GBPS(4), TOPOLOGY_MEASURED));
	topology_fini(&topology);
}

static void a_nic_behind_another_port_must_stay_nearer_than_one_on_another_socket(void **state)
{
	static const char text[] = "<system version=\"1\">\n" MACHINE_CPU(
		"0", "0000ffff", MACHINE_SWITCH("01", MACHINE_GPU("02", "0")) MACHINE_NIC("04", "eth0"))
		MACHINE_CPU("1", "ffff0000",
			    MACHINE_SWITCH("81", MACHINE_GPU("82", "2") MACHINE_NIC("84", "eth1"))) "</system>\n";
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	machine_pairs(&topology, 2);
	assert_false(as_switches(&topology, GBPS(40), TOPOLOGY_MEASURED));
	topology_fini(&topology);
}

static void a_mask_that_is_not_known_keeps_the_cpus(void **state)
{
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	machine_pairs(&topology, 2);
	topology.vertices[topology_find(&topology, "cpu1")].cpu.affinity[0] = '\0';
	assert_false(as_switches(&topology, GBPS(40), TOPOLOGY_MEASURED));
	topology_fini(&topology);
}

static void set_mask(struct topology *topology, const char *mask)
{
	struct topology_cpu *cpu = &topology->vertices[topology_find(topology, "cpu1")].cpu;

	snprintf(cpu->affinity, sizeof(cpu->affinity), "%s", mask);
}

static void the_masks_of_all_cpus_are_joined(void **state)
{
	struct ncclxml_sockets sockets;
	struct topology topology;
	char text[64];
	struct diag diag;

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(ncclxml_sockets_decide(&topology,
						&(struct topology_xml_shape){ .sockets = TOPOLOGY_XML_SOCKETS_CPUS },
						&sockets, &diag),
			 0);
	assert_false(sockets.as_switches);
	assert_true(ncclxml_sockets_affinity(&topology, &sockets, text, sizeof(text)));
	assert_string_equal(text, "ffffffff");
	set_mask(&topology, "f,00000000,1");
	assert_true(ncclxml_sockets_affinity(&topology, &sockets, text, sizeof(text)));
	assert_string_equal(text, "0000000f,00000000,0000ffff");
	for (unsigned i = 0; i < 4; i++) {
		static const char *const wrong[] = { "f,", "-1", "123456789", "f g" };

		set_mask(&topology, wrong[i]);
		assert_false(ncclxml_sockets_affinity(&topology, &sockets, text, sizeof(text)));
	}
	topology_fini(&topology);
}

static void what_changes_is_said(void **state)
{
	struct topology topology;
	char text[232], small[40];

	(void)state;
	machine_read(machine_text, &topology);
	ncclxml_sockets_changes(&topology, true, TOPOLOGY_CLASS_PXB, text, sizeof(text));
	assert_string_equal(text, "gpu0-gpu2 SYS->PHB, gpu0-gpu3 SYS->PHB, gpu0-nic:eth1 SYS->PHB, gpu1-gpu2 SYS->PHB, "
				  "gpu1-gpu3 SYS->PHB, gpu1-nic:eth1 SYS->PHB, gpu2-nic:eth0 SYS->PHB, "
				  "gpu3-nic:eth0 SYS->PHB");
	ncclxml_sockets_changes(&topology, true, TOPOLOGY_CLASS_PXB, small, sizeof(small));
	assert_string_equal(small, "gpu0-gpu2 SYS->PHB, ...");
	topology_fini(&topology);
}

static void asked_for_without_a_rate_is_an_error(void **state)
{
	struct ncclxml_sockets sockets;
	struct topology topology;
	struct diag diag = { .text = "" };

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(ncclxml_sockets_decide(
				 &topology, &(struct topology_xml_shape){ .sockets = TOPOLOGY_XML_SOCKETS_SWITCHES },
				 &sockets, &diag),
			 0);
	assert_true(sockets.as_switches);
	assert_int_equal(sockets.rate_Bps[0], GBPS(16));
	machine_set(&topology, "cpu0", "cpu1", 0, TOPOLOGY_UNKNOWN);
	topology.vertices[topology_find(&topology, "cpu0")].cpu.vendor[0] = '\0';
	assert_int_equal(ncclxml_sockets_decide(
				 &topology, &(struct topology_xml_shape){ .sockets = TOPOLOGY_XML_SOCKETS_SWITCHES },
				 &sockets, &diag),
			 -EINVAL);
	assert_non_null(strstr(diag.text, "cpu0"));
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_measurement_far_from_the_constant_makes_switches),
		cmocka_unit_test(what_the_file_cannot_say_of_sockets_is_known),
		cmocka_unit_test(p2p_across_sockets_must_work_or_none_at_all),
		cmocka_unit_test(a_slow_rate_may_not_be_charged_to_host_memory_of_one_socket),
		cmocka_unit_test(a_rate_below_that_of_near_nics_would_send_over_them),
		cmocka_unit_test(a_nic_behind_another_port_must_stay_nearer_than_one_on_another_socket),
		cmocka_unit_test(a_mask_that_is_not_known_keeps_the_cpus),
		cmocka_unit_test(the_masks_of_all_cpus_are_joined),
		cmocka_unit_test(what_changes_is_said),
		cmocka_unit_test(asked_for_without_a_rate_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
