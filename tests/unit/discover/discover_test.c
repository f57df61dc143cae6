/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/discover.h"

#include "discover/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CAPTURE "tests/fixtures/discover/two-node.tar.gz"

static int look(const char *text, struct topology *topology, enum discover_source *source, struct diag *diag)
{
	memset(diag, 0, sizeof(*diag));
	return discover_bytes(text, strlen(text), topology, NULL, source, diag);
}

static void files_are_told_apart_by_what_is_in_them(void **state)
{
	static const char hwloc[] =
		"<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<!-- > a comment -->\n"
		"<topology version=\"2.0\"><object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\"/></topology>";
	static const char nccl[] = "<system version=\"1\">\n  <cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\" "
				   "vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"/>\n</system>\n";
	enum discover_source source;
	struct topology topology, again;
	struct diag diag;
	size_t bytes;
	char *text;

	(void)state;
	assert_int_equal(look(hwloc, &topology, &source, &diag), 0);
	assert_int_equal(source, DISCOVER_HWLOC_XML);
	assert_int_equal(topology_write(&topology, &text, &bytes), 0);
	topology_fini(&topology);
	assert_int_equal(look(text, &again, &source, &diag), 0);
	assert_int_equal(source, DISCOVER_TEXT);
	assert_int_not_equal(topology_find(&again, "cpu0"), TOPOLOGY_NONE);
	topology_fini(&again);
	free(text);
	assert_int_equal(look(nccl, &topology, &source, &diag), 0);
	assert_int_equal(source, DISCOVER_NCCL_XML);
	topology_fini(&topology);
}

static void what_is_no_topology_is_refused_by_name(void **state)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "<graphs version=\"1\"></graphs>", "graph file" },
		{ "tributary-profile 1\n", "--profile" },
		{ "<?xml version=\"1.0\"?><html><body/></html>", "<html>" },
		{ "nonsense\n", "" },
		{ "", "" },
		{ "<", "" },
		{ "<!-- never ends", "" },
		{ "\x1f\x8bnonsense", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum discover_source source = DISCOVER_SOURCE_COUNT;
		struct topology topology;
		struct diag diag;

		assert_int_equal(look(cases[i].text, &topology, &source, &diag), -EINVAL);
		assert_int_equal(source, DISCOVER_SOURCE_COUNT);
		assert_true(strlen(diag.text) > 10);
		assert_non_null(strstr(diag.text, cases[i].reason));
	}
}

static void a_file_that_is_not_there_or_no_machine_is_refused(void **state)
{
	enum discover_source source;
	struct topology topology;
	struct diag diag = { .text = "of before" };

	(void)state;
	assert_int_equal(discover("/nonexistent/machine.xml", &topology, NULL, &source, &diag), -ENOENT);
	assert_string_equal(diag.text, ""); /* who asked knows the path */
	assert_int_equal(discover("/proc", &topology, NULL, &source, &diag), -EINVAL);
	assert_non_null(
		strstr(diag.text, "neither an unpacked capture (tributary-capture) nor one with a machine.topology"));
}

static void facts_may_be_left_out_and_only_machines_have_them(void **state)
{
	static const char hwloc[] = "<topology/>";
	struct discover_facts facts = { (char *)(uintptr_t)1, 1 };
	enum discover_source source;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(discover_bytes(hwloc, strlen(hwloc), &topology, &facts, &source, &diag), 0);
	assert_null(facts.text);
	topology_fini(&topology);
	assert_int_equal(discover(CAPTURE, &topology, NULL, &source, &diag), 0);
	assert_int_equal(source, DISCOVER_CAPTURE);
	topology_fini(&topology);
	assert_int_equal(discover(CAPTURE, &topology, &facts, NULL, &diag), 0);
	assert_true(facts.bytes == strlen(facts.text) && facts.bytes > 100);
	topology_fini(&topology);
	discover_facts_fini(&facts);
}

static void this_machine_is_discovered_and_captured(void **state)
{
	struct discover_facts facts = { 0 }, again = { 0 };
	char path[] = "/tmp/tributary-discover-XXXXXX";
	enum discover_source source;
	struct topology topology;
	struct diag diag = { 0 };
	int fd = mkstemp(path);
	FILE *file;

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	if (discover(NULL, &topology, &facts, &source, &diag) < 0)
		fail_msg("%s", diag.text);
	assert_int_equal(source, DISCOVER_HERE);
	assert_int_not_equal(topology_find(&topology, "cpu0"), TOPOLOGY_NONE);
	topology_fini(&topology);
	file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(discover_capture(true, file, &diag), 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(discover(path, &topology, &again, &source, &diag), 0);
	assert_int_equal(source, DISCOVER_CAPTURE);
	assert_string_equal(facts.text, again.text);
	topology_fini(&topology);
	discover_facts_fini(&facts);
	discover_facts_fini(&again);
	unlink(path);
}

/* ---------------------------------------------------------------------------------------------- real machines' files */

static void open_foreign(const char *name, struct topology *topology)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	enum discover_source source;
	struct diag diag = { 0 };
	char path[512];
	int r;

	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES does not name a folder with hwloc's files\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	r = discover(path, topology, NULL, &source, &diag);
	if (r < 0)
		fail_msg("%s: %d: line %d: %s", path, r, diag.line, diag.text);
	assert_int_equal(source, DISCOVER_HWLOC_XML);
}

static size_t count(const struct topology *topology, enum topology_kind kind)
{
	size_t sum = 0;

	for (size_t i = 0; i < topology->vertex_count; i++)
		sum += topology->vertices[i].kind == kind;
	return sum;
}

static void assert_uplink(const struct topology *topology, const char *name, const char *upper, const char *port)
{
	uint32_t link = topology_uplink(topology, topology_find(topology, name));

	assert_int_not_equal(link, TOPOLOGY_NONE);
	assert_string_equal(topology->vertices[topology->links[link].upper].name, upper);
	assert_string_equal(topology->links[link].pci.port, port);
}

static void a_dgx2_has_sixteen_gpus_behind_two_levels_of_switches(void **state)
{
	static const char *const bus_ids[] = { "34", "36", "39", "3b", "57", "59", "5c", "5e",
					       "b7", "b9", "bc", "be", "e0", "e2", "e5", "e7" };
	struct topology topology;
	char name[32];

	(void)state;
	open_foreign("hwloc-nvidiaDGX2.xml", &topology);
	assert_int_equal(count(&topology, TOPOLOGY_GPU), 16);
	assert_int_equal(count(&topology, TOPOLOGY_CPU), 2);
	assert_int_equal(count(&topology, TOPOLOGY_BRIDGE), 4);
	assert_int_equal(count(&topology, TOPOLOGY_SWITCH), 12);
	assert_int_equal(count(&topology, TOPOLOGY_NIC), 0);
	for (unsigned i = 0; i < 16; i++) {
		uint32_t gpu, link;

		snprintf(name, sizeof(name), "gpu%u", i);
		gpu = topology_find(&topology, name);
		assert_int_not_equal(gpu, TOPOLOGY_NONE);
		assert_int_equal(topology.vertices[gpu].gpu.index, i);
		snprintf(name, sizeof(name), "0000:%s:00.0", bus_ids[i]);
		assert_string_equal(topology.vertices[gpu].bus_id, name);
		assert_string_equal(topology.vertices[gpu].model, "Tesla V100-SXM3-32GB-H");
		assert_int_equal(topology_cpu_of(&topology, gpu), topology_find(&topology, i < 8 ? "cpu0" : "cpu1"));
		link = topology_find_link(&topology, gpu, topology_find(&topology, "nvswitch0"));
		assert_int_equal(topology.links[link].count, 6);
		assert_int_equal(topology.links[topology_uplink(&topology, gpu)].nominal_Bps, 12000000000);
	}
	assert_uplink(&topology, "gpu1", "switch:0000:32:00.0", "0000:33:10.0");
	assert_uplink(&topology, "switch:0000:32:00.0", "switch:0000:2c:00.0", "0000:2d:04.0");
	assert_uplink(&topology, "switch:0000:2c:00.0", "bridge:0000:2b", "0000:2b:00.0");
	assert_uplink(&topology, "gpu15", "switch:0000:e3:00.0", "0000:e4:10.0");
	assert_uplink(&topology, "bridge:0000:d7", "cpu1", "");
	assert_int_equal(topology.vertices[topology_find(&topology, "memory0")].memory_bytes, 810234351616);
	topology_fini(&topology);
}

static void an_x3950_has_four_nodes_with_two_nics_each(void **state)
{
	static const char *const bridges[] = { "bridge:0000:00", "bridge:0000:30", "bridge:0000:60", "bridge:0000:90" };
	static const char *const ports[] = { "0000:00:1c.0", "0000:30:1c.0", "0000:60:1c.0", "0000:90:1c.0" };
	struct topology topology;
	char name[32];

	(void)state;
	open_foreign("hwloc-96em64t-pci.xml", &topology);
	assert_int_equal(count(&topology, TOPOLOGY_GPU), 0);
	assert_int_equal(count(&topology, TOPOLOGY_CPU), 4);
	assert_int_equal(count(&topology, TOPOLOGY_BRIDGE), 4);
	assert_int_equal(count(&topology, TOPOLOGY_SWITCH), 0);
	assert_int_equal(count(&topology, TOPOLOGY_NIC), 8);
	for (unsigned i = 0; i < 8; i++) {
		char cpu[16];

		snprintf(name, sizeof(name), "nic:eth%u", i);
		snprintf(cpu, sizeof(cpu), "cpu%u", i / 2);
		assert_uplink(&topology, name, bridges[i / 2], ports[i / 2]);
		assert_int_equal(topology_cpu_of(&topology, topology_find(&topology, name)),
				 topology_find(&topology, cpu));
	}
	assert_int_equal(topology.limit_count, 8);
	assert_string_equal(topology.vertices[topology_find(&topology, "cpu1")].cpu.affinity, "0000ffff,ff000000");
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_are_told_apart_by_what_is_in_them),
		cmocka_unit_test(what_is_no_topology_is_refused_by_name),
		cmocka_unit_test(a_file_that_is_not_there_or_no_machine_is_refused),
		cmocka_unit_test(facts_may_be_left_out_and_only_machines_have_them),
		cmocka_unit_test(this_machine_is_discovered_and_captured),
		cmocka_unit_test(a_dgx2_has_sixteen_gpus_behind_two_levels_of_switches),
		cmocka_unit_test(an_x3950_has_four_nodes_with_two_nics_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
