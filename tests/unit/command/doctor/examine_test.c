/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sound machine, of which every check has only good to say; and for each check something broken in it, which that
 * check finds and no other.
 */
#include "command/doctor/doctor.h"
#include "support/machines.h"
#include "support/tree.h"
#include "unit/command/doctor/fixtures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A copy with the changes; a change from "" replaces all. A change whose text is not there is a mistake of the
 * fixture.
 */
static char *changed(const char *text, const struct change *changes, size_t count)
{
	char *now = strdup(text), *next;

	assert_non_null(now);
	for (size_t i = 0; i < count && changes[i].from; i++) {
		const char *at = strstr(now, changes[i].from);
		size_t rest = strlen(changes[i].from);

		if (!at)
			fail_msg("\"%s\" is not there", changes[i].from);
		if (!rest)
			rest = strlen(now);
		assert_return_code(asprintf(&next, "%.*s%s%s", (int)(at - now), now, changes[i].to, at + rest), 0);
		free(now);
		now = next;
	}
	return now;
}

static void examine_as(bool from_file, const char *machine, const char *facts_text, struct doctor_report *ret)
{
	struct discover_facts facts = { 0 };
	struct topology topology;

	machines_of_text(machine, &topology);
	facts.text = strdup(facts_text);
	facts.bytes = strlen(facts_text);
	assert_int_equal(doctor_examine(&topology, &facts, from_file, ret), 0);
	free(facts.text);
	topology_fini(&topology);
}

static void examine(const char *machine, const char *facts_text, struct doctor_report *ret)
{
	examine_as(false, machine, facts_text, ret);
}

static const struct doctor_finding *find(const struct doctor_report *report, const struct fixture *fixture)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *at = &report->at[i];

		if (!strcmp(at->check->word, fixture->check) && at->severity == fixture->severity &&
		    !strcmp(at->subject, fixture->subject) && strstr(at->evidence, fixture->evidence))
			return at;
	}
	return NULL;
}

static void print(const struct doctor_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		if (report->at[i].severity > DOCTOR_GOOD)
			print_message("%s %s %s %s\n", report->at[i].check->word,
				      doctor_severity_word(report->at[i].severity), report->at[i].subject,
				      report->at[i].evidence);
	}
}

static void sound_machine_is_good_in_every_check(void **state)
{
	struct doctor_report report;
	size_t checks = 0;

	(void)state;
	examine(sound_machine, sound_facts, &report);
	for (const struct doctor_check *check = doctor_checks; check->word; check++)
		checks++;
	print(&report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	assert_int_equal(report.count, checks);
	doctor_report_fini(&report);
}

/* Across sockets NCCL goes through host memory by itself: where P2P is slower there, nothing is wrong. */
static void slow_p2p_that_nccl_does_not_take_is_no_fault(void **state)
{
	static const struct change across = { "pair gpu0 gpu1", ALL_ACROSS("5000000000") "pair gpu0 gpu1" };
	char *machine = changed(sound_machine, &across, 1);
	struct doctor_report report;

	(void)state;
	examine(machine, sound_facts, &report);
	print(&report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	doctor_report_fini(&report);
	free(machine);
}

static void each_fault_is_found_by_its_check_and_by_no_other(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIXTURE_COUNT; i++) {
		const struct fixture *fixture = &fixtures[i];
		char *machine = changed(sound_machine, fixture->machine, 3),
		     *facts = changed(sound_facts, fixture->facts, 2);
		struct doctor_report report;

		examine(machine, facts, &report);
		if (!find(&report, fixture)) {
			print(&report);
			fail_msg("fixture %zu: no %s %s: %s", i, fixture->check, fixture->subject, fixture->evidence);
		}
		for (size_t j = 0; j < report.count; j++) {
			const char *word = report.at[j].check->word;
			bool meant = !strcmp(word, fixture->check) ||
				     (fixture->also && (!strcmp(fixture->also, "*") || !strcmp(word, fixture->also)));

			if (report.at[j].severity > DOCTOR_GOOD && !meant)
				fail_msg("fixture %zu, of %s: %s says %s", i, fixture->check, word,
					 report.at[j].evidence);
		}
		doctor_report_fini(&report);
		free(machine);
		free(facts);
	}
}

static void every_check_has_a_fault_that_it_finds(void **state)
{
	(void)state;
	for (const struct doctor_check *check = doctor_checks; check->word; check++) {
		bool found = false;

		for (size_t i = 0; i < FIXTURE_COUNT; i++)
			found |= !strcmp(fixtures[i].check, check->word) && fixtures[i].severity >= DOCTOR_NOTE;
		if (!found)
			fail_msg("no fixture for %s", check->word);
	}
}

static void a_device_made_of_software_has_no_ordering_on_pcie(void **state)
{
	struct change changes[] = { { "relaxed_ordering=1", "relaxed_ordering=0" }, { "soft=0", "soft=1" } };
	char *facts = changed(sound_facts, changes, 2);
	struct doctor_report report;

	(void)state;
	examine(sound_machine, facts, &report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	doctor_report_fini(&report);
	free(facts);
}

static void idle_gpu_link_is_no_fault_once_it_was_measured(void **state)
{
	struct change change = { "link pci gpu0 switch:0000:21:00.0 generation=4",
				 "link pci gpu0 switch:0000:21:00.0 generation=1" };
	char *machine = changed(sound_machine, &change, 1);
	struct doctor_report report;

	(void)state;
	examine(machine, sound_facts, &report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	doctor_report_fini(&report);
	free(machine);
}

/* Of its first finding. */
static const char *evidence_of(const struct doctor_report *report, const char *check)
{
	for (size_t i = 0; i < report->count; i++)
		if (!strcmp(report->at[i].check->word, check))
			return report->at[i].evidence;
	return "";
}

/* A fault of something else is not why the link is slow. */
static void slow_link_is_explained_by_a_fault_of_its_own_end_alone(void **state)
{
	static const struct change changes[] = {
		{ "rate gpu0>switch:0000:21:00.0 23000000000", "rate gpu0>switch:0000:21:00.0 11500000000" },
		{ "link pci gpu1 switch:0000:21:00.0 generation=4 lanes=16",
		  "link pci gpu1 switch:0000:21:00.0 generation=4 lanes=8" },
	};
	char *machine = changed(sound_machine, changes, 2);
	struct doctor_report report;

	(void)state;
	examine(machine, sound_facts, &report);
	assert_non_null(strstr(evidence_of(&report, "link-width"), "x8 of x16"));
	assert_non_null(strstr(evidence_of(&report, "measured-low"), "no known cause"));
	doctor_report_fini(&report);
	free(machine);
}

static enum doctor_severity severity_of(const struct doctor_report *report, const char *check)
{
	enum doctor_severity worst = DOCTOR_SKIPPED;

	for (size_t i = 0; i < report->count; i++)
		if (!strcmp(report->at[i].check->word, check) && report->at[i].severity > worst)
			worst = report->at[i].severity;
	return worst;
}

/* Ports matter by what they are between. */
static void acs_is_looked_at_where_it_decides(void **state)
{
#define VERTICES(gpus) \
	"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex switch switch:a\nvertex switch switch:b\n" gpus
#define UP            "link pci switch:a cpu0 port=0000:00:01.0\nlink pci switch:b cpu0 port=0000:00:02.0\n"
#define GPU_A         "vertex gpu gpu0 bus=0000:0a:00.0\nlink pci gpu0 switch:a port=0000:0b:00.0\n"
#define GPU_B         "vertex gpu gpu1 bus=0000:1a:00.0\nlink pci gpu1 switch:b port=0000:1b:00.0\n"
#define ACS(port, on) "acs " port " state=known ReqRedir=" #on " CmpltRedir=" #on "\n"
#define IOMMU(of_a, of_b)                                                                                          \
	"device 0000:0a:00.0 name=gpu0 iommu=" of_a "\ndevice 0000:1a:00.0 name=gpu1 iommu=" of_b "\niommu state=" \
	"mixed translated=1 identity=1 unknown=0\n"
	static const struct {
		const char *machine, *facts;
		enum doctor_severity severity;
	} cases[] = {
		/* Each alone below its switch: the switches' ports decide nothing. */
		{ VERTICES(GPU_A GPU_B UP), ACS("0000:0b:00.0", 1) ACS("0000:1b:00.0", 1) "iommu state=off\n",
		  DOCTOR_GOOD },
		{ VERTICES(GPU_A GPU_B UP), ACS("0000:00:01.0", 1) "iommu state=identity\n", DOCTOR_GOOD },
		{ VERTICES(GPU_A GPU_B UP), ACS("0000:00:01.0", 1) IOMMU("DMA-FQ", "identity"), DOCTOR_WARNING },
		{ VERTICES(GPU_A GPU_B UP), ACS("0000:00:01.0", 1) IOMMU("identity", "DMA"), DOCTOR_GOOD },
		{ VERTICES(GPU_A GPU_B UP), ACS("0000:00:01.0", 0) IOMMU("DMA-FQ", "DMA"), DOCTOR_GOOD },
		/* Both below one root port, which they do not cross. */
		{ VERTICES(GPU_A "vertex gpu gpu2 bus=0000:0c:00.0\nlink pci gpu2 switch:a port=0000:0b:01.0\n" UP),
		  ACS("0000:00:01.0", 1) "iommu state=translated\n", DOCTOR_GOOD },
		/* A GPU and a NIC: with RDMA alone is there P2P. */
		{ VERTICES(GPU_A "vertex nic nic:n bus=0000:0d:00.0 rdma=1\nlink pci nic:n switch:a "
				 "port=0000:0b:02.0\n" UP),
		  ACS("0000:0b:02.0", 1), DOCTOR_WARNING },
		{ VERTICES(GPU_A "vertex nic nic:n bus=0000:0d:00.0\nlink pci nic:n switch:a port=0000:0b:02.0\n" UP),
		  ACS("0000:0b:02.0", 1), DOCTOR_SKIPPED },
		/* Slices, and GPUs on an NVSwitch, have none with other GPUs. */
		{ VERTICES(GPU_A "vertex gpu gpu2.0 bus=0000:0c:00.0 mig=0\nlink pci gpu2.0 switch:a "
				 "port=0000:0b:01.0\n" UP),
		  ACS("0000:0b:00.0", 1), DOCTOR_GOOD },
		{ VERTICES(GPU_A
			   "vertex nvswitch nvswitch0\nlink nvlink gpu0 nvswitch0 count=12\nvertex gpu gpu2 "
			   "bus=0000:0c:00.0\nlink pci gpu2 switch:a port=0000:0b:01.0\nlink nvlink gpu2 nvswitch0 "
			   "count=12\n" UP),
		  ACS("0000:0b:00.0", 1), DOCTOR_GOOD },
		/* A file that knows no port; a guest that has none. */
		{ VERTICES(GPU_A GPU_B UP), "", DOCTOR_UNKNOWN },
		{ VERTICES(GPU_A GPU_B UP), "iommu state=off\n", DOCTOR_GOOD },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor_report report;

		examine(cases[i].machine, cases[i].facts, &report);
		if (severity_of(&report, "acs") != cases[i].severity) {
			print(&report);
			fail_msg("case %zu: acs is %s", i, doctor_severity_word(severity_of(&report, "acs")));
		}
		doctor_report_fini(&report);
	}
}

/* The first card in MIG mode with three slices, idle, each socket with two cards. */
static void slices_are_one_card_to_every_check(void **state)
{
#define SLICE(n)                                                                                                      \
	"vertex gpu gpu0." #n " bus=0000:23:00.0 index=0 mig=" #n " bar1_bytes=34359738368 memory_bytes=8589934592\n" \
	"link pci gpu0." #n " switch:0000:21:00.0 generation=1 lanes=8 most_generation=4 most_lanes=16 "              \
	"port=0000:22:00.0 nominal_Bps=24000000000\n"
	struct change changes[] = {
		{ "vertex gpu gpu0 bus=0000:23:00.0 bar1_bytes=34359738368 memory_bytes=25769803776\n",
		  SLICE(0) SLICE(1) SLICE(2) },
		{ "link pci gpu0 switch:0000:21:00.0 generation=4 lanes=16 most_generation=4 most_lanes=16 "
		  "port=0000:22:00.0 nominal_Bps=24000000000\n",
		  "" },
		{ "rate gpu0>switch:0000:21:00.0 23000000000 measured\n", "" },
		{ "rate switch:0000:21:00.0>gpu0 23000000000 measured\n", "" },
		{ "pair gpu0 gpu1 p2p_works=1 p2p_Bps=22000000000 p2p_provenance=measured "
		  "host_Bps=11000000000 host_provenance=measured\n",
		  "pair gpu0.0 gpu0.1 p2p_works=0\npair gpu0.0 gpu1 p2p_works=0\n" },
	};
	char *machine = changed(sound_machine, changes, 5);
	size_t widths = 0, speeds = 0, refused = 0;
	struct doctor_report report;

	(void)state;
	examine(machine, sound_facts, &report);
	for (size_t i = 0; i < report.count; i++) {
		const struct doctor_finding *at = &report.at[i];

		if (at->severity <= DOCTOR_GOOD)
			continue;
		if (!strcmp(at->check->word, "link-width") && at->severity == DOCTOR_WARNING)
			widths++;
		else if (!strcmp(at->check->word, "link-speed") && at->severity == DOCTOR_NOTE)
			speeds++;
		else if (!strcmp(at->check->word, "p2p-refused") && at->severity == DOCTOR_NOTE)
			refused += strstr(at->evidence, "in 2 pairs a GPU is a slice") != NULL;
		else
			fail_msg("%s %s", at->check->word, at->evidence);
	}
	assert_int_equal(widths, 1);
	assert_int_equal(speeds, 1);
	assert_int_equal(refused, 1);
	doctor_report_fini(&report);
	free(machine);
}

static void empty_machine_is_not_good_and_crashes_nothing(void **state)
{
	struct doctor_report report;

	(void)state;
	examine_as(true, "tributary-topology 1\n", "", &report);
	assert_int_equal(doctor_worst(&report), DOCTOR_WARNING);
	assert_non_null(strstr(report.at[0].evidence, "no GPU and no NIC was found in the file"));
	/* The file was given: it is no help to be told of it. */
	assert_null(strstr(report.at[0].remedy, "--from"));
	assert_non_null(strstr(report.at[0].remedy, "the file"));
	for (size_t i = 0; i < report.count; i++) {
		if (report.at[i].severity == DOCTOR_GOOD)
			fail_msg("%s is good: %s", report.at[i].check->word, report.at[i].evidence);
	}
	assert_string_equal(evidence_of(&report, "link-width"), "there is no PCIe link");
	assert_string_equal(evidence_of(&report, "link-speed"), "there is no PCIe link");
	assert_string_equal(evidence_of(&report, "measured-low"), "nothing was measured: there is no link");
	assert_string_equal(evidence_of(&report, "hidden-gpu"), "there is no GPU");
	doctor_report_fini(&report);
	examine_as(false, "tributary-topology 1\n", "", &report);
	assert_non_null(strstr(report.at[0].remedy, "--from"));
	doctor_report_fini(&report);
}

/* What a check is about may lack where the machine has much else. */
static void nothing_is_good_that_was_not_looked_at(void **state)
{
	static const struct {
		const char *machine, *facts, *check;
		enum doctor_severity severity;
	} cases[] = {
		{ "vertex cpu cpu0 numa=0\n", "sysctl kernel.numa_balancing value=1\n", "numa-balancing",
		  DOCTOR_SKIPPED },
		{ "vertex cpu cpu0 numa=0\n", "memlock soft=unlimited hard=unlimited\n", "memlock", DOCTOR_SKIPPED },
		{ "vertex gpu gpu0\nvertex cpu cpu0 numa=0\n", "memlock soft=unlimited\n", "asymmetric",
		  DOCTOR_SKIPPED },
		{ "vertex nic nic:a\nvertex nic nic:b\n", "", "shared-uplink", DOCTOR_SKIPPED },
		{ "vertex switch switch:a\nvertex gpu gpu0\n", "", "oversubscribed-uplink", DOCTOR_SKIPPED },
		{ "vertex gpu gpu0\n", "", "hidden-gpu", DOCTOR_UNKNOWN },
		{ "vertex nic nic:a rdma=1\n", "", "roce", DOCTOR_UNKNOWN },
		{ "vertex nic nic:a rdma=1\n", "rdma nic:a link_layer=InfiniBand\n", "roce", DOCTOR_SKIPPED },
		{ "vertex nic nic:a rdma=1\n", "", "relaxed-ordering", DOCTOR_UNKNOWN },
		{ "vertex nic nic:a rdma=1\n", "rdma nic:a soft=1\n", "relaxed-ordering", DOCTOR_SKIPPED },
		{ "vertex gpu gpu0\n", "memlock soft=unlimited\n", "hidden-gpu", DOCTOR_GOOD },
		{ "vertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\nlink memory memory0 cpu0 "
		  "nominal_Bps=200000000000\nrate memory0>cpu0 100000000000 measured\n",
		  "", "measured-low", DOCTOR_UNKNOWN },
	};
	char machine[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor_report report;

		snprintf(machine, sizeof(machine), "tributary-topology 1\n%s", cases[i].machine);
		examine(machine, cases[i].facts, &report);
		if (severity_of(&report, cases[i].check) != cases[i].severity) {
			print(&report);
			fail_msg("case %zu: %s is %s", i, cases[i].check,
				 doctor_severity_word(severity_of(&report, cases[i].check)));
		}
		doctor_report_fini(&report);
	}
}

#define SLOT(gpu, upper, lanes, rate) \
	"vertex gpu " gpu "\nlink pci " gpu " " upper " lanes=" lanes " nominal_Bps=" rate "000000\n"

/* Slots of which each can do no more: no fault, but the pace of every ring. */
static void a_gpu_in_a_narrow_slot_is_named(void **state)
{
	static const struct {
		const char *links;
		enum doctor_severity severity;
		const char *subject, *evidence; /* of the first finding */
	} cases[] = {
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "16", "24000")
			  SLOT("gpu2", "cpu0", "4", "6000") SLOT("gpu3", "cpu0", "8", "12000"),
		  DOCTOR_NOTE, "gpu2",
		  "the link from gpu2 to cpu0 (x4) carries 6.00 GB/s, 25 % of the 24.0 GB/s of other GPUs, and sets the "
		  "pace of every ring" },
		/* As many lanes, of an older generation. */
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "16", "24000")
			  SLOT("gpu2", "cpu0", "16 generation=3", "12000"),
		  DOCTOR_NOTE, "gpu2", "the link from gpu2 to cpu0 (Gen3 x16) carries 12.0 GB/s" },
		/* Behind the chipset: its own slot is as wide as the other. */
		{ "vertex switch switch:a\nlink pci switch:a cpu0 lanes=4 nominal_Bps=6000000000\n" SLOT(
			  "gpu0", "cpu0", "16", "24000") SLOT("gpu1", "switch:a", "16", "24000"),
		  DOCTOR_NOTE, "gpu1", "the link from switch:a to cpu0 (x4) carries 6.00 GB/s, 25 % of the 24.0" },
		/* Measured, in one direction, far below what the slot can: measured-low tells. */
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "16", "24000")
			  SLOT("gpu2", "cpu0", "16",
			       "24000") "rate gpu0>cpu0 22000000000 measured\n"
					"rate cpu0>gpu1 11000000000 measured\nrate gpu2>cpu0 3000000000 at_least\n",
		  DOCTOR_SKIPPED, "gpu1", "is told above" },
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "16", "20000"), DOCTOR_GOOD, "machine", "" },
		/* What NCCL makes up where a file tells no speed is narrow only by chance. */
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT(
			  "gpu1", "cpu0", "16",
			  "24000") "vertex gpu gpu2\nlink pci gpu2 "
				   "cpu0\nrate gpu2>cpu0 12000000000 assumed\nrate cpu0>gpu2 12000000000 assumed\n",
		  DOCTOR_GOOD, "machine", "" },
		/* More narrow ones than wide ones. */
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "4", "6000")
			  SLOT("gpu2", "cpu0", "4", "6000"),
		  DOCTOR_GOOD, "machine", "" },
		{ SLOT("gpu0", "cpu0", "16", "24000") SLOT("gpu1", "cpu0", "4", "6000") "link nvlink gpu0 gpu1\n",
		  DOCTOR_SKIPPED, "machine", "NVLink joins them" },
		{ "vertex gpu gpu0\nvertex gpu gpu1\nlink pci gpu0 cpu0\nlink pci gpu1 cpu0\n", DOCTOR_SKIPPED,
		  "machine", "no rates" },
	};
	char machine[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor_report report;
		size_t at = 0;

		snprintf(machine, sizeof(machine), "tributary-topology 1\nvertex cpu cpu0 numa=0\n%s", cases[i].links);
		examine(machine, "", &report);
		while (at < report.count && strcmp(report.at[at].check->word, "unlike-links") != 0)
			at++;
		if (at == report.count || report.at[at].severity != cases[i].severity ||
		    strcmp(report.at[at].subject, cases[i].subject) != 0 ||
		    !strstr(report.at[at].evidence, cases[i].evidence)) {
			print(&report);
			fail_msg("case %zu", i);
		}
		doctor_report_fini(&report);
	}
}

/* A host without GPUs, whose NIC has no peer to measure with: what a Slurm prolog greps for must not stay for good. */
static void lower_bounds_need_no_further_measurement(void **state)
{
	static const char machine[] = "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
				      "link memory memory0 cpu0 nominal_Bps=200000000000\n%s";
	struct doctor_report report;
	char text[512];

	(void)state;
	snprintf(text, sizeof(text), machine, "");
	examine(text, "", &report);
	assert_string_equal(evidence_of(&report, "measured-low"), "nothing was measured: run `tributary measure`");
	doctor_report_fini(&report);
	snprintf(text, sizeof(text), machine, "rate memory0>cpu0 100000000000 at_least\n");
	examine(text, "", &report);
	assert_string_equal(evidence_of(&report, "measured-low"), "of no link is more known than a lower bound");
	doctor_report_fini(&report);
}

static void check_of_what_is_not_there_is_skipped_and_not_good(void **state)
{
	static const char *const about_gpus[] = { "gpu-nic-distance", "acs",  "iommu",     "p2p-refused",
						  "p2p-slow",         "bar1", "hidden-gpu" };
	struct doctor_report report;
	size_t found = 0;

	(void)state;
	examine("tributary-topology 1\nvertex nic eth0\n", "", &report);
	for (size_t i = 0; i < report.count; i++) {
		for (size_t j = 0; j < sizeof(about_gpus) / sizeof(about_gpus[0]); j++) {
			if (strcmp(report.at[i].check->word, about_gpus[j]) != 0)
				continue;
			assert_int_equal(report.at[i].severity, DOCTOR_SKIPPED);
			assert_string_equal(report.at[i].evidence, "there is no GPU");
			found++;
		}
	}
	assert_int_equal(found, sizeof(about_gpus) / sizeof(about_gpus[0]));
	doctor_report_fini(&report);
}

static void facts_with_control_characters_do_not_reach_the_terminal(void **state)
{
	struct doctor_report report;

	(void)state;
	examine(sound_machine, "governor \033[2Jx policies=3\n", &report);
	for (size_t i = 0; i < report.count; i++) {
		assert_null(strchr(report.at[i].subject, '\033'));
		assert_null(strchr(report.at[i].evidence, '\033'));
		assert_null(strchr(report.at[i].subject, ' '));
	}
	doctor_report_fini(&report);
}

/* A check that nobody can look up is of little help. */
static void every_check_is_documented(void **state)
{
	const char *source = getenv("TRIBUTARY_SOURCE");
	char path[512], heading[128], *text;

	(void)state;
	if (!source) {
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/docs/guide/doctor.md", source);
	text = tree_read(path, NULL);
	assert_non_null(text);
	for (const struct doctor_check *check = doctor_checks; check->word; check++) {
		snprintf(heading, sizeof(heading), "\n## %s\n", check->word);
		if (!strstr(text, heading))
			fail_msg("docs/guide/doctor.md has no section %s", check->word);
		assert_true(check->cost[0] && check->remedy[0]);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound_machine_is_good_in_every_check),
		cmocka_unit_test(slow_p2p_that_nccl_does_not_take_is_no_fault),
		cmocka_unit_test(each_fault_is_found_by_its_check_and_by_no_other),
		cmocka_unit_test(every_check_has_a_fault_that_it_finds),
		cmocka_unit_test(a_device_made_of_software_has_no_ordering_on_pcie),
		cmocka_unit_test(idle_gpu_link_is_no_fault_once_it_was_measured),
		cmocka_unit_test(slow_link_is_explained_by_a_fault_of_its_own_end_alone),
		cmocka_unit_test(acs_is_looked_at_where_it_decides),
		cmocka_unit_test(slices_are_one_card_to_every_check),
		cmocka_unit_test(empty_machine_is_not_good_and_crashes_nothing),
		cmocka_unit_test(a_gpu_in_a_narrow_slot_is_named),
		cmocka_unit_test(lower_bounds_need_no_further_measurement),
		cmocka_unit_test(check_of_what_is_not_there_is_skipped_and_not_good),
		cmocka_unit_test(nothing_is_good_that_was_not_looked_at),
		cmocka_unit_test(facts_with_control_characters_do_not_reach_the_terminal),
		cmocka_unit_test(every_check_is_documented),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
