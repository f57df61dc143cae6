/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ncclmodel/limits.h"
#include "ncclxml/lint.h"
#include "unit/ncclxml/machine.h"

#define CPU(inside)   "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\">\n" inside "</cpu>\n</system>\n"
#define MODEL(words)  "<system version=\"1\">\n<cpu numaid=\"0\" " words "/>\n</system>\n"
#define PCI(link)     "<pci busid=\"0000:01:00.0\" class=\"0x060400\" " link "/>\n"
#define GPU(bus, gpu) "<pci busid=\"0000:" bus ":00.0\" class=\"0x030200\">\n" gpu "\n</pci>\n"
#define NET(net)      "<pci busid=\"0000:09:00.0\" class=\"0x020000\">\n<nic>\n<net " net "/>\n</nic>\n</pci>\n"

/* Each check: a text in which it finds one thing, on that line, and its neighbour in which nothing at all is found. */
static const struct {
	const char *check;
	enum lint_severity severity;
	int line;
	const char *bad, *good;
} cases[] = {
	{ "gen3-fallback", LINT_WARNING, 3, CPU(PCI("link_speed=\"16.0 GT/s\" link_width=\"16\"")),
	  CPU(PCI("link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"")) },
	{ "gen3-fallback", LINT_WARNING, 3, CPU(PCI("link_speed=\"\" link_width=\"0\"")), CPU(PCI("")) },
	{ "fake-link", LINT_WARNING, 3, CPU(PCI("link_speed=\"2.5 GT/s PCIe\" link_width=\"1\"")),
	  CPU(PCI("link_speed=\"2.5 GT/s PCIe\" link_width=\"16\"")) },
	{ "impossible-width", LINT_WARNING, 3, CPU(PCI("link_speed=\"8 GT/s\" link_width=\"37\"")),
	  CPU("<!-- tributary: 0000:01:00.0 measured 27.750 GB/s -->\n" PCI(
		  "link_speed=\"8 GT/s\" link_width=\"37\"")) },
	{ "impossible-width", LINT_WARNING, 3, CPU(PCI("link_speed=\"8 GT/s\" link_width=\"-1\"")),
	  CPU(PCI("link_speed=\"8 GT/s\" link_width=\"12\"")) },
	{ "encoded-width", LINT_WARNING, 4,
	  CPU("<!-- tributary: 0000:01:00.0 measured 23.400 GB/s -->\n" PCI(
		  "link_speed=\"2.5 GT/s\" link_width=\"124\"")),
	  CPU("<!-- tributary: 0000:01:00.0 measured 23.400 GB/s -->\n" PCI(
		  "link_speed=\"2.5 GT/s\" link_width=\"125\"")) },
	{ "stale-gpu", LINT_WARNING, 7, CPU(GPU("01", "<gpu dev=\"1\"/>") GPU("02", "<gpu dev=\"0x1\"/>")),
	  CPU(GPU("01", "<gpu dev=\"1\"/>") GPU("02", "<gpu dev=\"2\"/>")) },
	{ "keep-on-gpu", LINT_WARNING, 4, CPU(GPU("01", "<gpu dev=\"0\" keep=\"1\"/>")),
	  CPU(GPU("01", "<gpu dev=\"0\" rank=\"1\"/>")) },
	{ "incomplete-cpu", LINT_WARNING, 2, MODEL(""), MODEL("arch=\"ppc64\"") },
	{ "incomplete-cpu", LINT_WARNING, 2, MODEL("arch=\"aarch64\""), MODEL("arch=\"arm64\"") },
	{ "incomplete-cpu", LINT_WARNING, 2, MODEL("arch=\"x86_64\""),
	  MODEL("arch=\"x86_64\" vendor=\"AuthenticAMD\"") },
	{ "incomplete-cpu", LINT_WARNING, 2, MODEL("arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\""),
	  MODEL("arch=\"x86_64\" vendor=\"GenuineIntel\" modelid=\"143\" familyid=\"6\"") },
	{ "incomplete-cpu", LINT_WARNING, 2, MODEL("arch=\"x86_64\" vendor=\"  Shanghai  \""),
	  MODEL("arch=\"x86_64\" vendor=\"Other\"") },
	{ "incomplete-cpu", LINT_WARNING, 3,
	  "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\"/>\n<cpu numaid=\"1\"/>\n</system>\n",
	  "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\"/>\n<cpu numaid=\"1\" arch=\"arm64\"/>\n</system>\n" },
	{ "bad-version", LINT_ERROR, 1, "<system version=\"2\"/>\n", "<system version=\"1\"/>\n" },
	{ "bad-version", LINT_ERROR, 2, "<!-- a -->\n<system/>\n", "<!-- a -->\n<system version=\"0x1\"/>\n" },
	{ "duplicate-busid", LINT_ERROR, 4, CPU(PCI("") "<pci busid=\"0000:01:00.0\"/>\n"),
	  CPU(PCI("") "<pci busid=\"0000:01:00.1\"/>\n") },
	{ "net-without-speed", LINT_WARNING, 5, CPU(NET("name=\"a\" speed=\"-1\"")),
	  CPU(NET("name=\"a\" speed=\"1\"")) },
	{ "net-without-speed", LINT_WARNING, 5, CPU(NET("name=\"a\" speed=\"\"")), CPU(NET("name=\"a\"")) },
	{ "missing-attribute", LINT_ERROR, 5, CPU(NET("speed=\"1\"")), CPU(NET("name=\"a\" speed=\"1\"")) },
	{ "missing-attribute", LINT_ERROR, 3, CPU("<pci class=\"0x060400\"/>\n"), CPU(PCI("")) },
	{ "missing-attribute", LINT_ERROR, 2, "<system version=\"1\">\n<cpu arch=\"arm64\"/>\n</system>\n", CPU("") },
	{ "missing-attribute", LINT_ERROR, 4, CPU(GPU("01", "<gpu dev=\"0\"><c2c bw=\"1\"/></gpu>")),
	  CPU(GPU("01", "<gpu dev=\"0\"><c2c bw=\"1\" count=\"1\"/></gpu>")) },
	{ "nvlink-nowhere", LINT_WARNING, 4,
	  CPU(GPU("01", "<gpu dev=\"0\"><nvlink target=\"0000:01:00.0\" count=\"1\" tclass=\"0x030200\"/></gpu>")),
	  CPU(GPU("01", "<gpu dev=\"0\"><nvlink target=\"0000:02:00.0\" count=\"1\" tclass=\"0x030200\"/></gpu>")
		      GPU("02", "<gpu dev=\"1\"/>")) },
	{ "nvlink-nowhere", LINT_WARNING, 4,
	  CPU(GPU("01", "<gpu dev=\"0\"><nvlink target=\"0000:02:00.0\" count=\"1\" "
			"tclass=\"0x030200\"/></gpu>") "<pci busid=\"0000:02:00.0\"/>\n"),
	  CPU(GPU("01", "<gpu dev=\"0\"><nvlink target=\"0000:02:00.0\" count=\"1\" tclass=\"0x068000\"/></gpu>")) },
	{ "unknown-element", LINT_WARNING, 3, CPU("<gpu dev=\"0\"/>\n"), CPU(GPU("01", "<gpu dev=\"0\"/>")) },
	{ "unknown-element", LINT_WARNING, 3, CPU("<xgmi>\n<pci/>\n</xgmi>\n"), CPU("<nic/>\n") },
	{ "unescaped", LINT_WARNING, 5, CPU(NET("name=\"a&amp;b\"")), CPU(NET("name=\"a b\"")) },
	{ "nccl-parser", LINT_ERROR, 1, "<?xml version=\"1.0\"?>\n<system version=\"1\"/>\n",
	  "<system version='1' />" },
	{ "nccl-parser", LINT_ERROR, 3, CPU("\t" PCI("")), CPU("    " PCI("")) },
	{ "not-a-topology", LINT_ERROR, 1, "<graphs version=\"1\">\t</graphs>", "<system version=\"1\"></system>" },
	{ "not-a-topology", LINT_ERROR, 3,
	  "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology/>",
	  "<system version=\"1\"/>" },
};

static void lint(const char *text, const struct topology *measured, struct lint_findings *ret)
{
	struct diag diag = { .text = "" };

	if (lint_topology_xml(text, strlen(text), measured, ret, &diag) != 0)
		fail_msg("line %d: %s", diag.line, diag.text);
}

static void expect(const char *text, const struct topology *measured, const char *check, int line)
{
	struct lint_findings findings;

	lint(text, measured, &findings);
	if (!check && findings.count)
		fail_msg("%s:%d: %s", findings.at[0].check, findings.at[0].line, findings.at[0].text);
	assert_int_equal(findings.count, check ? 1 : 0);
	if (check) {
		assert_string_equal(findings.at[0].check, check);
		assert_int_equal(findings.at[0].line, line);
	}
	lint_findings_fini(&findings);
}

static void each_check_finds_its_text_and_not_the_neighbour(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lint_findings findings;

		lint(cases[i].bad, NULL, &findings);
		if (findings.count != 1 || strcmp(findings.at[0].check, cases[i].check) != 0)
			fail_msg("case %zu: %zu findings, %s", i, findings.count,
				 findings.count ? findings.at[0].check : "");
		assert_int_equal(findings.at[0].line, cases[i].line);
		assert_int_equal(findings.at[0].severity, cases[i].severity);
		assert_true(strlen(findings.at[0].text) > 10 && strlen(findings.at[0].remedy) > 10);
		assert_true(findings.at[0].remedy[strlen(findings.at[0].remedy) - 1] == '.'); /* not cut off */
		lint_findings_fini(&findings);
		lint(cases[i].good, NULL, &findings);
		if (findings.count)
			fail_msg("case %zu, good: %s: %s", i, findings.at[0].check, findings.at[0].text);
		lint_findings_fini(&findings);
	}
}

/* A <cpu> with so many devices, in groups below switches so that no element has too many children. */
static char *crowd(unsigned groups, unsigned each)
{
	size_t room = 1 << 20, used;
	char *text = malloc(room);

	assert_non_null(text);
	used = (size_t)snprintf(text, room, "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\">\n");
	for (unsigned i = 0; i < groups; i++) {
		used += (size_t)snprintf(text + used, room - used, "<pci busid=\"0001:%02x:00.0\">\n", i);
		for (unsigned k = 0; k < each; k++)
			used += (size_t)snprintf(text + used, room - used, "<pci busid=\"0002:%02x:%02x.0\"/>\n", i, k);
		used += (size_t)snprintf(text + used, room - used, "</pci>\n");
	}
	snprintf(text + used, room - used, "</cpu>\n</system>\n");
	return text;
}

static void too_many_elements_and_children_are_counted_as_nccl_counts(void **state)
{
	char *text;

	(void)state;
	text = crowd(11, 22); /* 2 + 11 × 23 = 255 */
	expect(text, NULL, NULL, 0);
	free(text);
	text = crowd(2, 127); /* 258 */
	expect(text, NULL, "too-many-nodes", 2 + 1 + 127 + 1 + 1 + 125);
	free(text);
	text = crowd(1, 128);
	expect(text, NULL, NULL, 0);
	free(text);
	text = crowd(1, 129);
	expect(text, NULL, "too-many-children", 3 + 129);
	free(text);
}

static void attributes_are_counted_and_measured(void **state)
{
	char text[2048], value[300];
	struct lint_findings findings;
	size_t used;

	(void)state;
	for (unsigned count = 16; count <= 17; count++) {
		used = (size_t)snprintf(text, sizeof(text), "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\"");
		for (unsigned i = 2; i < count; i++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, " a%u=\"1\"", i);
		snprintf(text + used, sizeof(text) - used, "/>\n</system>\n");
		expect(text, NULL, count > NCCLMODEL_ATTRIBUTE_MAX ? "too-many-attributes" : NULL, 2);
	}
	for (unsigned length = 253; length <= 254; length++) {
		memset(value, 'f', length);
		value[length] = '\0';
		snprintf(text, sizeof(text),
			 "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\" affinity=\"%s\"/>\n</system>\n",
			 value);
		lint(text, NULL, &findings);
		/* The check and the parser both say it. */
		assert_int_equal(findings.count, length > NCCLMODEL_VALUE_MAX ? 2 : 0);
		if (findings.count) {
			assert_string_equal(findings.at[0].check, "long-value");
			assert_int_equal(findings.at[0].line, 2);
			assert_string_equal(findings.at[1].check, "nccl-parser");
			assert_int_equal(findings.at[1].line, 2);
		}
		lint_findings_fini(&findings);
	}
}

static void encoded_widths_are_held_against_the_profile(void **state)
{
	static const char text[] = "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\">\n"
				   "<!-- tributary: 0000:01:00.0 measured 23.400 GB/s -->\n"
				   "<pci busid=\"0000:01:00.0\" link_speed=\"2.5 GT/s PCIe\" link_width=\"125\"/>\n"
				   "<!-- tributary: cpu0 measured 40.000 GB/s -->\n"
				   "<pci busid=\"ffff:ff:00.0\" class=\"0x060400\" link_speed=\"2.5 GT/s\" "
				   "link_width=\"213\"/>\n</cpu>\n</system>\n";
	struct topology measured;

	(void)state;
	machine_read(machine_text, &measured);
	machine_set(&measured, "switch:0000:01:00.0", "cpu0", 23450000000, TOPOLOGY_MEASURED);
	machine_set(&measured, "cpu0", "cpu1", 40000000000, TOPOLOGY_MEASURED);
	expect(text, &measured, NULL, 0);
	machine_set(&measured, "switch:0000:01:00.0", "cpu0", 23600000000, TOPOLOGY_MEASURED);
	expect(text, &measured, "encoded-width", 4);
	machine_set(&measured, "switch:0000:01:00.0", "cpu0", 23400000000, TOPOLOGY_MEASURED);
	machine_set(&measured, "cpu0", "cpu1", 30000000000, TOPOLOGY_MEASURED);
	expect(text, &measured, "encoded-width", 6);
	topology_fini(&measured);
	machine_read(CPU(PCI("")), &measured);
	expect("<system version=\"1\">\n<cpu numaid=\"0\" arch=\"arm64\">\n<!-- tributary: 0000:77:00.0 measured 23.400 GB/s -->\n"
	       "<pci busid=\"0000:77:00.0\" link_speed=\"2.5 GT/s PCIe\" link_width=\"125\"/>\n</cpu>\n</system>\n",
	       &measured, "encoded-width", 4);
	topology_fini(&measured);
}

static void a_gpu_that_the_machine_does_not_have_is_stale(void **state)
{
	struct topology measured;

	(void)state;
	machine_read(machine_text, &measured);
	expect(CPU(GPU("02", "<gpu dev=\"0\"/>")), &measured, NULL, 0);
	expect(CPU(GPU("77", "<gpu dev=\"0\"/>")), &measured, "stale-gpu", 4);
	expect(CPU(GPU("04", "<gpu dev=\"0\"/>")), &measured, "stale-gpu", 4); /* a NIC now */
	topology_fini(&measured);
}

static void findings_come_by_line(void **state)
{
	struct lint_findings findings;

	(void)state;
	lint(CPU(GPU("01", "<gpu dev=\"0\" keep=\"1\"/>") GPU("01", "<gpu dev=\"0\" keep=\"0\"/>") "<x/>\n"), NULL,
	     &findings);
	assert_int_equal(findings.count, 5);
	for (size_t i = 1; i < findings.count; i++)
		assert_true(findings.at[i].line >= findings.at[i - 1].line);
	assert_string_equal(findings.at[0].check, "keep-on-gpu");
	assert_string_equal(findings.at[1].check, "duplicate-busid");
	assert_string_equal(findings.at[4].check, "unknown-element");
	lint_findings_fini(&findings);
}

static void what_is_not_xml_is_an_error(void **state)
{
	struct lint_findings findings;
	struct diag diag = { .text = "" };

	(void)state;
	assert_int_equal(lint_topology_xml("<system\n", 8, NULL, &findings, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "not XML"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_check_finds_its_text_and_not_the_neighbour),
		cmocka_unit_test(too_many_elements_and_children_are_counted_as_nccl_counts),
		cmocka_unit_test(attributes_are_counted_and_measured),
		cmocka_unit_test(encoded_widths_are_held_against_the_profile),
		cmocka_unit_test(a_gpu_that_the_machine_does_not_have_is_stale),
		cmocka_unit_test(findings_come_by_line),
		cmocka_unit_test(what_is_not_xml_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
