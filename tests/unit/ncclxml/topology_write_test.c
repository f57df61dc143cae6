/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "machine.h"
#include "ncclmodel/limits.h"
#include "ncclxml/lint.h"
#include "base/random.h"

#define GBPS(x) ((uint64_t)(x)*1000000000ULL)
enum { HALF_STEP_BPS = 187500000 / 2 };

static const struct topology_xml_shape as_found = { .sockets = TOPOLOGY_XML_SOCKETS_CPUS,
						    .p2p_farthest = TOPOLOGY_CLASS_PXB };

static char *written(const struct topology *topology, enum topology_xml_sockets sockets,
		     struct topology_xml_report *ret_report)
{
	const struct topology_xml_shape shape = {
		.sockets = sockets,
		.bridges = true,
		.p2p_farthest = sockets == TOPOLOGY_XML_SOCKETS_AUTO ? topology_xml_p2p(topology) : TOPOLOGY_CLASS_PXB,
	};
	struct diag diag = { .text = "" };
	size_t bytes;
	char *text;

	if (topology_xml_write(topology, &shape, &text, &bytes, ret_report, &diag) != 0)
		fail_msg("%s", diag.text);
	assert_int_equal(strlen(text), bytes);
	return text;
}

static void no_finding(const char *text, const struct topology *measured)
{
	struct lint_findings findings;
	struct diag diag;

	assert_int_equal(lint_topology_xml(text, strlen(text), measured, &findings, &diag), 0);
	if (findings.count)
		fail_msg("line %d: %s: %s", findings.at[0].line, findings.at[0].check, findings.at[0].text);
	lint_findings_fini(&findings);
}

static void assert_same(const struct topology *a, const struct topology *b)
{
	char *a_text, *b_text;
	size_t bytes;

	assert_int_equal(topology_write(a, &a_text, &bytes), 0);
	assert_int_equal(topology_write(b, &b_text, &bytes), 0);
	assert_string_equal(a_text, b_text);
	free(a_text);
	free(b_text);
}

static void what_was_read_is_written_and_read_again(void **state)
{
	struct topology first, second;
	struct topology_xml_report report;
	char *text;

	(void)state;
	machine_read(machine_text, &first);
	text = written(&first, TOPOLOGY_XML_SOCKETS_AUTO, &report);
	no_finding(text, &first);
	machine_read(text, &second);
	for (size_t i = 0; i < first.vertex_count; i++) /* it is not written: NCCL tries it */
		first.vertices[i].gpu.gdr = first.vertices[i].nic.gdr = false;
	assert_same(&first, &second);
	assert_int_equal(report.node_count, 19);
	assert_false(report.sockets_as_switches);
	assert_string_equal(report.changed_classes, "");
	assert_true(report.worst_error_Bps == 0);
	topology_fini(&first);
	topology_fini(&second);
	free(text);
}

static void what_nccl_fills_in_itself_is_left_out(void **state)
{
	static const char *const never[] = {
		"rank=", "keep=", "host_hash=", " dev=\"0\" speed", "gdr=", "\t", "<?xml"
	};
	struct topology topology;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	assert_non_null(strstr(machine_text, "gdr=\"1\""));
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_null(strstr(text, never[i]));
	topology_fini(&topology);
	free(text);
}

static void what_is_not_known_of_a_cpu_is_left_out(void **state)
{
	struct topology topology;
	struct topology_cpu *cpu;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	cpu = &topology.vertices[topology_find(&topology, "cpu0")].cpu;
	snprintf(cpu->vendor, sizeof(cpu->vendor), "X");
	cpu->architecture[0] = '\0';
	cpu->model = -1;
	text = written(&topology, TOPOLOGY_XML_SOCKETS_CPUS, NULL);
	assert_non_null(strstr(text, "<cpu numaid=\"0\" affinity=\"0000ffff\" vendor=\"X\">"));
	topology_fini(&topology);
	free(text);
}

static uint64_t smaller(const struct topology_link *link)
{
	return link->capacity[0].rate_Bps < link->capacity[1].rate_Bps ? link->capacity[0].rate_Bps
								       : link->capacity[1].rate_Bps;
}

static void nccl_computes_every_measured_link_within_half_a_step(void **state)
{
	unsigned rounds = getenv("TRIBUTARY_TEST_LONG") ? 1000 : 50;
	double worst_Bps = 0;
	uint64_t random = 11;
	size_t links = 0;

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		struct topology_xml_report report;
		struct topology first, second;
		char *text;

		machine_read(machine_text, &first);
		for (size_t i = 0; i < first.link_count; i++) {
			enum topology_link_kind kind = first.links[i].kind;

			for (unsigned k = 0; k < 2 && (kind == TOPOLOGY_LINK_PCI || kind == TOPOLOGY_LINK_NETWORK);
			     k++) {
				first.links[i].capacity[k].rate_Bps = GBPS(1) + random_below(&random, GBPS(60));
				first.links[i].capacity[k].provenance = TOPOLOGY_MEASURED;
			}
		}
		text = written(&first, TOPOLOGY_XML_SOCKETS_CPUS, &report);
		no_finding(text, &first);
		machine_read(text, &second);
		assert_int_equal(first.link_count, second.link_count);
		for (size_t i = 0; i < second.link_count; i++) {
			const struct topology_link *link = &second.links[i], *wanted;
			double off_Bps;

			if (link->kind != TOPOLOGY_LINK_PCI && link->kind != TOPOLOGY_LINK_NETWORK)
				continue;
			wanted = &first.links[topology_find_link(
				&first, topology_find(&first, second.vertices[link->lower].name),
				topology_find(&first, second.vertices[link->upper].name))];
			off_Bps = (double)link->nominal_Bps - (double)smaller(wanted);
			assert_true(off_Bps <= HALF_STEP_BPS && off_Bps >= -HALF_STEP_BPS);
			worst_Bps = fmax(worst_Bps, fabs(off_Bps));
			links++;
		}
		assert_true(report.worst_error_Bps > 0 && report.worst_error_Bps <= HALF_STEP_BPS);
		topology_fini(&first);
		topology_fini(&second);
		free(text);
	}
	if (getenv("TRIBUTARY_TEST_TABLE"))
		print_message("%u files, %zu links: NCCL's value is off by %.4f GB/s at most\n", rounds, links,
			      worst_Bps / 1e9);
}

static void encoded_widths_say_so_in_a_comment_before_them(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	machine_set(&topology, "switch:0000:01:00.0", "cpu0", 23400000000, TOPOLOGY_MEASURED);
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	assert_non_null(strstr(text, "    <!-- tributary: 0000:01:00.0 measured 23.400 GB/s -->\n"
				     "    <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s PCIe\" "
				     "link_width=\"125\">\n"));
	topology_fini(&topology);
	free(text);
}

static void sockets_become_switches_under_one_cpu(void **state)
{
	struct topology first, second;
	struct topology_xml_report report;
	uint32_t link, gpu0, gpu2;
	char *text;

	(void)state;
	machine_read(machine_text, &first);
	machine_pairs(&first, 2);
	machine_set(&first, "cpu0", "cpu1", GBPS(40), TOPOLOGY_MEASURED);
	text = written(&first, TOPOLOGY_XML_SOCKETS_AUTO, &report);
	assert_true(report.sockets_as_switches);
	assert_non_null(strstr(report.changed_classes, "gpu0-gpu2 SYS->PHB"));
	assert_non_null(strstr(text, "affinity=\"ffffffff\""));
	assert_non_null(strstr(text, "<!-- tributary: cpu0 measured 40.000 GB/s -->"));
	no_finding(text, &first);
	machine_read(text, &second);
	assert_int_equal(topology_find(&second, "cpu1"), TOPOLOGY_NONE);
	link = topology_uplink(&second, topology_find(&second, "switch:ffff:ff:00.0"));
	assert_int_not_equal(link, TOPOLOGY_NONE);
	assert_in_range(second.links[link].nominal_Bps, GBPS(40) - HALF_STEP_BPS, GBPS(40) + HALF_STEP_BPS);
	gpu0 = topology_find(&second, "gpu0");
	gpu2 = topology_find(&second, "gpu2");
	assert_int_equal(topology_class_of(&second, gpu0, gpu2), TOPOLOGY_CLASS_PHB);
	free(text);
	text = written(&first, TOPOLOGY_XML_SOCKETS_CPUS, &report);
	assert_false(report.sockets_as_switches);
	assert_null(strstr(text, "ffff:ff:"));
	topology_fini(&first);
	topology_fini(&second);
	free(text);
}

static void a_made_up_bus_id_is_no_one_elses(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	memcpy(topology.vertices[topology_find(&topology, "gpu0")].bus_id, "ffff:ff:00.0", sizeof("ffff:ff:00.0"));
	text = written(&topology, TOPOLOGY_XML_SOCKETS_SWITCHES, NULL);
	no_finding(text, NULL);
	topology_fini(&topology);
	free(text);
}

/* A virtual machine may show none. */
static void a_switch_without_a_bus_id_gets_one_that_is_made_up(void **state)
{
	const char *gpu, *pci;
	struct topology topology;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	topology.vertices[topology_find(&topology, "switch:0000:01:00.0")].bus_id[0] = '\0';
	text = written(&topology, TOPOLOGY_XML_SOCKETS_CPUS, NULL);
	no_finding(text, NULL);
	pci = strstr(text, "<pci busid=\"ffff:ff:00.0\" class=\"0x060400\"");
	gpu = strstr(text, "busid=\"0000:02:00.0\"");
	assert_true(pci && gpu && pci < gpu);
	topology_fini(&topology);
	free(text);
}

/* ---------------------------------------------------------------------------------------------------------- bridges */

static void add_bridge(struct topology *topology, const char *children[2], uint64_t rate_Bps)
{
	struct topology_vertex bridge = topology_vertex_of(TOPOLOGY_BRIDGE, "bridge:0000:00");
	uint32_t cpu = topology_find(topology, "cpu0"), index, at;
	struct topology_link link;

	assert_int_equal(topology_add_vertex(topology, &bridge, &index), 0);
	link = topology_link_of(TOPOLOGY_LINK_INTERNAL, index, cpu);
	assert_int_equal(topology_add_link(topology, &link, &at), 0);
	machine_set(topology, "bridge:0000:00", "cpu0", rate_Bps, TOPOLOGY_MEASURED);
	for (unsigned i = 0; i < 2 && children[i]; i++)
		topology->links[topology_uplink(topology, topology_find(topology, children[i]))].upper = index;
}

static const char two_ports[] = "<system version=\"1\">\n" MACHINE_CPU(
	"0", "ff",
	MACHINE_SWITCH("01", MACHINE_GPU("02", "0")) MACHINE_SWITCH("05", MACHINE_GPU("06", "1"))) "</system>\n";

static void a_narrow_bridge_becomes_a_switch_where_p2p_is_faster_through_it(void **state)
{
	const char *children[] = { "switch:0000:01:00.0", "switch:0000:05:00.0" };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		bool works = i > 0, faster = i == 3, measured = i > 1;
		struct topology topology;
		char *text;

		machine_read(two_ports, &topology);
		machine_pairs(&topology, works ? 2 : 0);
		add_bridge(&topology, children, GBPS(30));
		if (measured)
			machine_pair_rates(&topology, TOPOLOGY_CLASS_PHB, faster ? GBPS(20) : GBPS(10), GBPS(15));
		text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
		assert_int_equal(strstr(text, "<!-- tributary: bridge:0000:00 measured 30.000 GB/s -->") != NULL,
				 faster);
		no_finding(text, &topology);
		topology_fini(&topology);
		free(text);
	}
}

static void a_wide_bridge_is_not_written(void **state)
{
	const char *children[] = { "switch:0000:01:00.0", "switch:0000:05:00.0" };
	struct topology topology;
	char *text;

	(void)state;
	machine_read(two_ports, &topology);
	machine_pairs(&topology, 2);
	add_bridge(&topology, children, GBPS(48));
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	assert_null(strstr(text, "tributary:"));
	topology_fini(&topology);
	free(text);
}

static void the_only_port_of_a_narrow_bridge_gets_its_rate(void **state)
{
	const char *children[] = { "switch:0000:01:00.0", NULL };
	struct topology topology;
	char *text;

	(void)state;
	machine_read(two_ports, &topology);
	add_bridge(&topology, children, GBPS(12));
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	assert_non_null(strstr(text, "    <!-- tributary: bridge:0000:00 measured 12.000 GB/s -->\n"
				     "    <pci busid=\"0000:01:00.0\""));
	no_finding(text, &topology);
	topology_fini(&topology);
	free(text);
}

/*
 * ----------------------------------------------------------------------------------------------------------- switches
 */

#define BROADCOM(bus, sub, inside)                                                                 \
	"<pci busid=\"0000:" bus ":00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" " \
	"subsystem_vendor=\"0x1000\" subsystem_device=\"" sub                                      \
	"\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" inside "</pci>\n"

static void a_narrow_link_between_two_broadcom_levels_is_kept_from_being_forgotten(void **state)
{
	static const char text[] = "<system version=\"1\">\n" MACHINE_CPU(
		"0", "ff",
		BROADCOM("01", "0xa001",
			 BROADCOM("02", "0xa002", MACHINE_GPU("03", "0") MACHINE_GPU("04", "1")))) "</system>\n";

	(void)state;
	for (unsigned narrow = 0; narrow < 2; narrow++) {
		struct topology topology;
		char *out;

		machine_read(text, &topology);
		if (narrow)
			machine_set(&topology, "switch:0000:02:00.0", "switch:0000:01:00.0", GBPS(24),
				    TOPOLOGY_MEASURED);
		out = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
		assert_non_null(strstr(out, "subsystem_device=\"0xa001\""));
		assert_int_equal(strstr(out, "subsystem_device=\"0xa002\"") == NULL, narrow);
		topology_fini(&topology);
		free(out);
	}
}

/*
 * ------------------------------------------------------------------------------------------------------------- errors
 */

static void a_gpu_without_a_bus_id_cannot_be_written(void **state)
{
	struct diag diag = { .text = "" };
	struct topology topology;
	size_t bytes;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	topology.vertices[topology_find(&topology, "gpu2")].bus_id[0] = '\0';
	assert_int_equal(topology_xml_write(&topology, &as_found, &text, &bytes, NULL, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "gpu2"));
	topology_fini(&topology);
}

static void a_gpu_below_no_cpu_cannot_be_written(void **state)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu9");
	struct diag diag = { .text = "" };
	struct topology topology;
	uint32_t index;
	size_t bytes;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	memcpy(vertex.bus_id, "0000:99:00.0", sizeof("0000:99:00.0"));
	assert_int_equal(topology_add_vertex(&topology, &vertex, &index), 0);
	assert_int_equal(topology_xml_write(&topology, &as_found, &text, &bytes, NULL, &diag), -EINVAL);
	assert_string_equal(diag.text, "1 of 5 GPUs are below no CPU");
	topology_fini(&topology);
}

static void more_than_nccl_reads_is_refused(void **state)
{
	struct diag diag = { .text = "" };
	struct topology topology;
	size_t bytes;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	for (unsigned i = 0; i < 240; i++) {
		struct topology_vertex vertex;
		struct topology_link link;
		char name[32];
		uint32_t index;

		snprintf(name, sizeof(name), "switch:0001:%02x:00.0", i);
		vertex = topology_vertex_of(TOPOLOGY_SWITCH, name);
		snprintf(vertex.bus_id, sizeof(vertex.bus_id), "0001:%02x:00.0", i);
		assert_int_equal(topology_add_vertex(&topology, &vertex, &index), 0);
		link = topology_link_of(TOPOLOGY_LINK_PCI, index, topology_find(&topology, i % 2 ? "cpu0" : "cpu1"));
		assert_int_equal(topology_add_link(&topology, &link, &index), 0);
	}
	assert_int_equal(topology_xml_write(&topology, &as_found, &text, &bytes, NULL, &diag), -E2BIG);
	assert_string_equal(diag.text, "the file would have more elements than NCCL reads");
	topology_fini(&topology);
}

static void slices_of_one_gpu_leave_the_gpu_to_nccl(void **state)
{
	struct topology topology;
	char *text;

	(void)state;
	machine_read(machine_text, &topology);
	topology.vertices[topology_find(&topology, "gpu0")].gpu.mig = 0;
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	assert_null(strstr(text, "dev=\"0\""));
	assert_non_null(strstr(text, "busid=\"0000:02:00.0\""));
	topology_fini(&topology);
	free(text);
}

/* Of two GPUs with one bus id below one switch, NCCL would find the first. */
static void a_bus_id_that_is_there_twice_is_written_once(void **state)
{
	static const char twice[] =
		"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"1\" "
		"sm=\"80\"/></pci><pci busid=\"0000:01:00.0\" class=\"0x030200\"><gpu dev=\"0\" sm=\"80\"/></pci>"
		"<pci busid=\"0000:02:00.0\" class=\"0x020000\"><nic/></pci><pci busid=\"0000:02:00.0\" "
		"class=\"0x020000\"><nic/></pci></cpu></system>";
	struct topology topology;
	char *text, *found;

	(void)state;
	machine_read(twice, &topology);
	text = written(&topology, TOPOLOGY_XML_SOCKETS_AUTO, NULL);
	found = strstr(text, "<gpu ");
	assert_non_null(found);
	assert_non_null(strstr(found, "dev=\"1\""));
	assert_null(strstr(found + 1, "<gpu "));
	assert_null(strstr(text, "~"));
	topology_fini(&topology);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_read_is_written_and_read_again),
		cmocka_unit_test(what_nccl_fills_in_itself_is_left_out),
		cmocka_unit_test(what_is_not_known_of_a_cpu_is_left_out),
		cmocka_unit_test(nccl_computes_every_measured_link_within_half_a_step),
		cmocka_unit_test(encoded_widths_say_so_in_a_comment_before_them),
		cmocka_unit_test(sockets_become_switches_under_one_cpu),
		cmocka_unit_test(a_made_up_bus_id_is_no_one_elses),
		cmocka_unit_test(a_switch_without_a_bus_id_gets_one_that_is_made_up),
		cmocka_unit_test(a_narrow_bridge_becomes_a_switch_where_p2p_is_faster_through_it),
		cmocka_unit_test(a_wide_bridge_is_not_written),
		cmocka_unit_test(the_only_port_of_a_narrow_bridge_gets_its_rate),
		cmocka_unit_test(a_narrow_link_between_two_broadcom_levels_is_kept_from_being_forgotten),
		cmocka_unit_test(a_gpu_without_a_bus_id_cannot_be_written),
		cmocka_unit_test(a_gpu_below_no_cpu_cannot_be_written),
		cmocka_unit_test(more_than_nccl_reads_is_refused),
		cmocka_unit_test(slices_of_one_gpu_leave_the_gpu_to_nccl),
		cmocka_unit_test(a_bus_id_that_is_there_twice_is_written_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
