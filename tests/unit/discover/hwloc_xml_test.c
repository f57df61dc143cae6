/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/hwloc_xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
#define PCI                                                                                                          \
	"<object type=\"PCIDev\" gp_index=\"9\" pci_busid=\"0000:34:00.0\" pci_type=\"0302 [10de:1db8] [10de:131d] " \
	"a1\" "                                                                                                      \
	"pci_link_speed=\"15.753846\">"

static int read_text(const char *text, struct discover_tree *tree, struct diag *diag)
{
	memset(diag, 0, sizeof(*diag));
	return discover_hwloc_read(text, strlen(text), tree, diag);
}

static void objects_keep_their_places(void **state)
{
	static const char text[] = HEAD
		"<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"0x00000003\">"
		"<info name=\"Architecture\" value=\"x86_64\"/>"
		"<object type=\"Package\" nodeset=\"0x00000002\"><info name=\"CPUVendor\" value=\"GenuineIntel\"/>"
		"<info name=\"CPUFamilyNumber\" value=\"6\"/><info name=\"CPUModelNumber\" value=\"85\"/>"
		"<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x000000ff,0xffff0000,0x0\" nodeset=\"0x00000002\" "
		"local_memory=\"1024\"/>"
		"<object type=\"L3Cache\"><object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[2b-3b]\">" PCI
		"<object type=\"OSDev\" name=\"nvml3\" osdev_type=\"5\"><info name=\"GPUModel\" value=\"V100\"/>"
		"</object></object></object></object></object>"
		"<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[00-00]\"/></object></topology>";
	struct discover_tree tree;
	struct diag diag;

	(void)state;
	assert_int_equal(read_text(text, &tree, &diag), 0);
	assert_string_equal(tree.architecture, "x86_64");
	assert_int_equal(tree.count, 6);
	assert_string_equal(tree.at[0].vendor, "GenuineIntel");
	assert_int_equal(tree.at[0].cpu_model, 85);
	assert_int_equal(tree.at[1].parent, 0);
	assert_int_equal(tree.at[1].os_index, 1);
	assert_int_equal(tree.at[1].memory_bytes, 1024);
	assert_string_equal(tree.at[1].cpus, "000000ff,ffff0000,00000000");
	assert_true(tree.at[2].host_bridge);
	assert_int_equal(tree.at[2].secondary, 0x2b);
	assert_int_equal(tree.at[2].node, 1);
	assert_false(tree.at[2].several_nodes);
	assert_string_equal(tree.at[3].bus_id, "0000:34:00.0");
	assert_int_equal(tree.at[3].pci.class_code, 0x030200);
	assert_int_equal(tree.at[3].pci.device, 0x1db8);
	assert_int_equal(tree.at[3].pci.subsystem_device, 0x131d);
	assert_int_equal(tree.at[4].device, HWLOC_XML_NVML);
	assert_string_equal(tree.at[4].model, "V100");
	assert_int_equal(tree.at[5].node, 0);
	assert_true(tree.at[5].several_nodes);
	discover_tree_fini(&tree);
}

static void devices_are_known_in_every_version(void **state)
{
	static const struct {
		const char *version, *name, *type;
		enum hwloc_xml_device device;
	} cases[] = {
		{ "", "x", "2", HWLOC_XML_NETWORK },
		{ " version=\"2.0\"", "x", "2", HWLOC_XML_NETWORK },
		{ " version=\"2.0\"", "x", "3", HWLOC_XML_RDMA },
		{ " version=\"2.0\"", "x", "48", HWLOC_XML_OTHER_DEVICE },
		{ " version=\"2.0\"", "bxi0", "3", HWLOC_XML_FABRIC },
		{ " version=\"2.0\"", "cxi0", "2", HWLOC_XML_FABRIC },
		{ " version=\"2.0\"", "nvml0", "1", HWLOC_XML_NVML },
		{ " version=\"3.0\"", "x", "16", HWLOC_XML_NETWORK },
		{ " version=\"3.0\"", "x", "32", HWLOC_XML_RDMA },
		{ " version=\"3.0\"", "x", "48", HWLOC_XML_RDMA },         /* network and OpenFabrics */
		{ " version=\"3.0\"", "x", "3", HWLOC_XML_OTHER_DEVICE },  /* storage and memory */
		{ " version=\"3.0\"", "x", "12", HWLOC_XML_OTHER_DEVICE }, /* GPU and co-processor */
		{ " version=\"3.0\"", "x", "64", HWLOC_XML_OTHER_DEVICE }, /* DMA engine */
		{ " version=\"3.0\"", "x", "0", HWLOC_XML_OTHER_DEVICE },
		{ " version=\"3.0\"", "x", "nonsense", HWLOC_XML_OTHER_DEVICE },
		{ " version=\"3.0\"", "bxi0", "16", HWLOC_XML_FABRIC },
		{ " version=\"3.0\"", "cxi1", "16", HWLOC_XML_FABRIC },
		{ " version=\"3.0\"", "cxix", "16", HWLOC_XML_NETWORK },
		{ " version=\"3.0\"", "nvml11", "12", HWLOC_XML_NVML },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct discover_tree tree;
		struct diag diag;
		char text[512];

		snprintf(text, sizeof(text),
			 "<topology%s><object type=\"OSDev\" name=\"%s\" osdev_type=\"%s\"/></topology>",
			 cases[i].version, cases[i].name, cases[i].type);
		assert_int_equal(read_text(text, &tree, &diag), 0);
		if (tree.at[0].device != cases[i].device)
			fail_msg("%s of type %s is a %d", cases[i].name, cases[i].type, tree.at[0].device);
		discover_tree_fini(&tree);
	}
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
	static const struct {
		const char *text, *reason;
		int line;
	} cases[] = {
		{ "", "no element", 1 },
		{ "<system>\n</system>", "another element", 1 },
		{ "<topology>\n<object/></topology>", "without a type", 2 },
		{ "<topology>\n\n<object type=\"PCIDev\"/></topology>", "without a bus id", 3 },
		{ "<topology><object type=\"PCIDev\" pci_busid=\"0000:00:20.0\"/></topology>", "without a bus id", 1 },
		{ "<topology><object type=\"NUMANode\"/></topology>", "without a number", 1 },
		{ "<topology><object type=\"Bridge\" bridge_type=\"0-1\"/></topology>", "without its buses", 1 },
		{ "<topology><object type=\"OSDev\"/></topology>", "without a name", 1 },
		{ "<topology>\n<object type=\"Machine\">\n</topology>", "mismatched", 3 },
		{ "<topology/>\n<topology/>\n", "another machine's, give the file of one alone", 2 },
		{ "<!DOCTYPE topology [<!ENTITY a \"aaaa\">]>\n<topology/>", "entity", 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct discover_tree tree;
		struct diag diag;

		assert_int_equal(read_text(cases[i].text, &tree, &diag), -EINVAL);
		if (!strstr(diag.text, cases[i].reason))
			fail_msg("\"%s\" does not say \"%s\"", diag.text, cases[i].reason);
		assert_int_equal(diag.line, cases[i].line);
		assert_int_equal(tree.count, 0);
	}
}

static void deep_and_large_files_are_refused(void **state)
{
	size_t room = 64 * (HWLOC_OBJECTS_MOST + 16), used;
	char *text = malloc(room);
	struct discover_tree tree;
	struct diag diag;

	(void)state;
	assert_non_null(text);
	used = (size_t)snprintf(text, room, "<topology>");
	for (int i = 0; i < HWLOC_DEPTH_MOST; i++)
		used += (size_t)snprintf(text + used, room - used, "<object type=\"Group\">");
	assert_int_equal(read_text(text, &tree, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "nested"));
	used = (size_t)snprintf(text, room, "<topology>");
	for (int i = 0; i <= HWLOC_OBJECTS_MOST; i++)
		used += (size_t)snprintf(text + used, room - used, "<object type=\"Package\"/>");
	snprintf(text + used, room - used, "</topology>");
	assert_int_equal(read_text(text, &tree, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "more objects"));
	free(text);
}

static void a_matrix_of_nvlinks_is_read_and_one_cut_short_is_not(void **state)
{
	static const char format[] =
		"<topology version=\"2.0\">" PCI "<object type=\"OSDev\" gp_index=\"4\" name=\"nvml0\"/></object>"
		"<object type=\"PCIDev\" gp_index=\"5\" pci_busid=\"0000:35:00.0\"/>"
		"<distances2hetero nbobjs=\"2\" name=\"NVLinkBandwidth\"><indexes length=\"8\">OSDev:4 PCIDev:5 "
		"</indexes>"
		"<u64values length=\"4\">0 25000 </u64values><u64values length=\"4\">%s</u64values></distances2hetero>"
		"</topology>";
	struct discover_tree tree;
	struct diag diag;
	char text[1024];

	(void)state;
	snprintf(text, sizeof(text), format, "50000 0 ");
	assert_int_equal(read_text(text, &tree, &diag), 0);
	assert_int_equal(tree.nvlink_count, 2);
	assert_int_equal(tree.nvlink_ends[0], 1);
	assert_int_equal(tree.nvlink_ends[1], 2);
	assert_int_equal(tree.nvlink_MBps[1], 25000);
	assert_int_equal(tree.nvlink_MBps[2], 50000);
	discover_tree_fini(&tree);
	snprintf(text, sizeof(text), format, "50000");
	assert_int_equal(read_text(text, &tree, &diag), 0);
	assert_int_equal(tree.nvlink_count, 0);
	discover_tree_fini(&tree);
}

static const char *shown(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "enx0011223344ff") ? name : "enxmac1";
}

static void the_filter_drops_what_identifies_and_keeps_what_is_read(void **state)
{
	static const char text[] = HEAD
		"<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\">"
		"<info name=\"HostName\" value=\"secret\"/><info name=\"DMIProductUUID\" value=\"secret\"/>"
		"<object type=\"Misc\" name=\"secret\"><info name=\"CPUModel\" value=\"secret\"/></object>" PCI
		"<object type=\"OSDev\" name=\"enx0011223344ff\" osdev_type=\"2\">"
		"<info name=\"Address\" value=\"secret\"/></object>"
		"<object type=\"OSDev\" name=\"nvml0\" osdev_type=\"5\"><info name=\"NVIDIASerial\" value=\"secret\"/>"
		"<info name=\"NVIDIAUUID\" value=\"secret\"/><info name=\"GPUModel\" value=\"A &amp; &quot;B&quot;\"/>"
		"</object></object></object><userdata name=\"x\">secret</userdata>"
		"<cpukind cpuset=\"0x1\"><info name=\"x\" value=\"secret\"/></cpukind></topology>";
	struct discover_tree before, after;
	struct diag diag;
	char *filtered;
	size_t bytes;

	(void)state;
	assert_int_equal(discover_hwloc_filter(text, strlen(text), shown, NULL, &filtered, &bytes, &diag), 0);
	assert_int_equal(strlen(filtered), bytes);
	assert_null(strstr(filtered, "secret"));
	assert_null(strstr(filtered, "0011223344ff"));
	assert_int_equal(read_text(text, &before, &diag), 0);
	assert_int_equal(read_text(filtered, &after, &diag), 0);
	assert_int_equal(before.count, after.count);
	assert_string_equal(after.at[1].name, "enxmac1");
	for (uint32_t i = 0; i < before.count; i++) {
		assert_int_equal(before.at[i].type, after.at[i].type);
		assert_int_equal(before.at[i].parent, after.at[i].parent);
		assert_int_equal(before.at[i].pci.device, after.at[i].pci.device);
		assert_string_equal(before.at[i].bus_id, after.at[i].bus_id);
		assert_string_equal(before.at[i].model, after.at[i].model);
	}
	assert_string_equal(after.at[2].model, "A & \"B\"");
	free(filtered);
	discover_tree_fini(&before);
	discover_tree_fini(&after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_keep_their_places),
		cmocka_unit_test(devices_are_known_in_every_version),
		cmocka_unit_test(what_is_wrong_is_said_with_its_line),
		cmocka_unit_test(deep_and_large_files_are_refused),
		cmocka_unit_test(a_matrix_of_nvlinks_is_read_and_one_cut_short_is_not),
		cmocka_unit_test(the_filter_drops_what_identifies_and_keeps_what_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
