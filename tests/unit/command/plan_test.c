/* SPDX-License-Identifier: Apache-2.0 */
/* The built program's `plan` and `explain`: what they say, what they refuse, and that scripts can read it. */
#include "command/command.h"

#include "program.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static char text[1 << 20], other[1 << 20];

static int run_on(const char *command, const char *machine, const char *options, const char *what, char *ret)
{
	char call[1800];

	snprintf(call, sizeof(call), "%s --from '%s' %s", command, machine, options);
	return program_run(call, what, ret, sizeof(text));
}

/* Two sockets with four GPUs and a NIC each, one of them with a slow slot. */
static const char *usual(void)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s/tests/browser/machine.topology", program_source());
	return path;
}

static json_t *json_on(const char *command, const char *machine, const char *options)
{
	char with_json[800];
	json_error_t error;
	json_t *value;

	snprintf(with_json, sizeof(with_json), "--json %s", options);
	assert_int_equal(run_on(command, machine, with_json, PROGRAM_STDOUT, text), COMMAND_OK);
	value = json_loads(text, 0, &error);
	if (!value)
		fail_msg("%s: line %d: %s", options, error.line, error.text);
	return value;
}

/* ------------------------------------------------------------------------------------------------------------- plan */

static void channels_bound_and_full_links_are_printed(void **state)
{
	(void)state;
	assert_int_equal(run_on("plan", usual(), "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "8 GPUs on one host"));
	assert_non_null(strstr(text, "\nring: "));
	assert_non_null(strstr(text, "\ntree: "));
	assert_null(strstr(text, "\nchain: ")); /* of several hosts */
	assert_non_null(strstr(text, "optimal"));
	assert_non_null(strstr(text, "full"));
	for (char name[] = "gpu0"; name[3] < '8'; name[3]++)
		assert_non_null(strstr(text, name));
	assert_null(strstr(text, " \n"));
	assert_int_equal(run_on("plan", usual(), "--hosts 2", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "8 GPUs on each of 2 hosts"));
	assert_non_null(strstr(text, "\nchain: "));
	assert_non_null(strstr(text, "mlx5_0"));
}

static void gpus_are_known_by_number_name_and_place(void **state)
{
	static const char *const same[] = { "--gpus 5,0-2", "--gpus gpu0,gpu1,gpu2,gpu5" };
	char call[700], *place;

	(void)state;
	/* The place of the third GPU, whatever it is in that file. */
	assert_int_equal(run_on("discover", usual(), "", PROGRAM_STDOUT, other), COMMAND_OK);
	place = strstr(other, "vertex gpu gpu2 bus=");
	assert_non_null(place);
	place += strlen("vertex gpu gpu2 bus=");
	place[strcspn(place, " \n")] = '\0';
	snprintf(call, sizeof(call), "--gpus=1,%s,gpu0,5", place);
	assert_int_equal(run_on("plan", usual(), same[0], PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "4 of 8 GPUs (0-2,5)"));
	assert_null(strstr(text, "gpu7"));
	assert_int_equal(run_on("plan", usual(), call, PROGRAM_STDOUT, other), COMMAND_OK);
	assert_string_equal(other, text);
	assert_int_equal(run_on("plan", usual(), same[1], PROGRAM_STDOUT, other), COMMAND_OK);
	assert_string_equal(other, text);
}

static void what_cannot_be_planned_is_said_in_one_line(void **state)
{
	static const struct {
		const char *options;
		int status;
		const char *says;
	} calls[] = {
		{ "--gpus 9", COMMAND_FAILED, "there is no GPU \"9\"; the machine has the GPUs gpu0, gpu1" },
		{ "--gpus 6-9", COMMAND_FAILED, "there is no GPU \"8\"" },
		{ "--gpus gpu0,nothing", COMMAND_FAILED, "there is no GPU \"nothing\"" },
		{ "--gpus 0,gpu0", COMMAND_USAGE, "named twice" },
		{ "--gpus ,", COMMAND_USAGE, "the list of devices is empty" },
		{ "--nets eth9 --hosts 2", COMMAND_FAILED, "there is no NIC \"eth9\"; the machine has the NICs" },
		{ "--hosts 0", COMMAND_USAGE, "expected 1 to" },
		{ "--hosts several", COMMAND_USAGE, "or either" },
		{ "--json --nccl-graph", COMMAND_USAGE, "only one of" },
		{ "--svg - --json", COMMAND_USAGE, "only one of" },
		{ "--output x", COMMAND_USAGE, "--output is where" },
		{ "--pattern star", COMMAND_USAGE, "expected ring|tree|chain" },
		{ "--pattern chain --svg -", COMMAND_USAGE, "chains are for several hosts" },
		{ "--compare /nonexistent/dump", COMMAND_FAILED, "No such file" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		assert_int_equal(run_on("plan", usual(), calls[i].options, PROGRAM_STDERR, text), calls[i].status);
		if (!strstr(text, calls[i].says))
			fail_msg("%s: %s", calls[i].options, text);
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
		(void)run_on("plan", usual(), calls[i].options, PROGRAM_STDOUT, text);
		assert_string_equal(text, "");
	}
}

static void machines_without_gpus_or_nics_are_said_to_be(void **state)
{
	const char *path = program_put("bare.topology", "tributary-topology 1\nvertex cpu cpu0 numa=0\n");

	(void)state;
	assert_int_equal(run_on("plan", path, "", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "the machine has no GPU"));
	assert_int_equal(run_on("explain", path, "", PROGRAM_STDERR, text), COMMAND_FAILED);
	path = program_put("two.topology", "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex gpu gpu0 index=0\n"
					   "vertex gpu gpu1 index=1\nlink pci gpu0 cpu0\nlink pci gpu1 cpu0\n"
					   "rate gpu0>cpu0 12000000000 nominal\nrate cpu0>gpu0 12000000000 nominal\n");
	assert_int_equal(run_on("plan", path, "--hosts 2", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "the machine has no NIC"));
	/* One GPU has nobody to talk to: no limit, and no crash. */
	assert_int_equal(run_on("plan", path, "--gpus 0", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "nothing known limits"));
	path = program_put("apart.topology",
			   "tributary-topology 1\nvertex gpu gpu0 index=0\nvertex gpu gpu1 index=1\n");
	assert_int_equal(run_on("plan", path, "", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "no data can pass"));
}

/* Slices of one GPU have one bus id, and NCCL refuses a job with two ranks on one. */
static void a_plan_has_one_slice_of_a_gpu_and_says_why(void **state)
{
	const char *machine = program_put(
		"sliced.topology",
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
		"vertex switch switch:a\nvertex gpu gpu0.0 bus=0000:01:00.0 index=0 mig=0\n"
		"vertex gpu gpu0.1 bus=0000:01:00.0 index=0 mig=1\nvertex gpu gpu1 bus=0000:02:00.0 index=1\n"
		"link memory memory0 cpu0\nlink pci switch:a cpu0 nominal_Bps=24000000000\n"
		"link pci gpu0.0 switch:a nominal_Bps=24000000000\nlink pci gpu0.1 switch:a "
		"nominal_Bps=24000000000\nlink pci gpu1 switch:a nominal_Bps=24000000000\n");

	(void)state;
	assert_int_equal(run_on("plan", machine, "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "2 of 3 GPUs"));
	assert_null(strstr(text, "gpu0.1"));
	assert_int_equal(run_on("plan", machine, "", PROGRAM_STDERR, text), COMMAND_OK);
	assert_non_null(strstr(text, "NCCL refuses two ranks on one GPU"));
	assert_int_equal(run_on("plan", machine, "--gpus gpu0.1,gpu1", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "gpu0.1"));
	assert_int_equal(run_on("plan", machine, "--gpus gpu0.1,gpu1", PROGRAM_STDERR, text), COMMAND_OK);
	assert_null(strstr(text, "NCCL refuses"));
	assert_int_equal(run_on("plan", machine, "--gpus gpu1,gpu0.0,gpu0.1", PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "name one of gpu0.0 and gpu0.1"));
}

static void more_gpus_than_a_plan_holds_must_be_chosen(void **state)
{
	char machine[4096] = "tributary-topology 1\nvertex cpu cpu0 numa=0\n", line[64];

	(void)state;
	for (int i = 0; i < 18; i++) {
		snprintf(line, sizeof(line), "vertex gpu gpu%d index=%d\nlink pci gpu%d cpu0\n", i, i, i);
		strcat(machine, line);
	}
	assert_int_equal(run_on("plan", program_put("many.topology", machine), "", PROGRAM_STDERR, text),
			 COMMAND_FAILED);
	assert_non_null(strstr(text, "choose with --gpus"));
	assert_int_equal(run_on("plan", program_put("many.topology", machine), "--gpus 2-17", PROGRAM_STDOUT, text),
			 COMMAND_OK);
	assert_non_null(strstr(text, "16 of 18 GPUs (2-17)"));
}

static void json_says_what_the_text_says(void **state)
{
	json_t *value = json_on("plan", usual(), "--hosts 2"), *ring = json_object_get(value, "ring"), *channel;
	size_t index;

	(void)state;
	assert_int_equal(json_array_size(json_object_get(value, "gpus")), 8);
	assert_true(json_is_true(json_object_get(value, "verified")));
	assert_true(program_number(ring, "total_Bps") <= program_number(ring, "bound_Bps"));
	assert_true(program_number(ring, "share_of_bound") > 0.5 && program_number(ring, "share_of_bound") <= 1);
	assert_int_equal((int)program_number(ring, "channel_count"),
			 json_array_size(json_object_get(ring, "channels")));
	assert_true(program_number(ring, "rate_Bps") * program_number(ring, "channel_count") ==
		    program_number(ring, "total_Bps"));
	json_array_foreach(json_object_get(ring, "channels"), index, channel)
	{
		assert_int_equal(json_array_size(json_object_get(channel, "gpus")), 8);
		assert_int_equal(json_array_size(json_object_get(channel, "hops")), 9); /* NICs included */
		assert_true(json_is_string(json_object_get(channel, "nic_in")));
	}
	assert_true(program_number(json_array_get(json_object_get(ring, "loads"), 0), "share") > 0.999);
	json_decref(value);
	value = json_on("plan", usual(), "");
	assert_true(json_is_null(json_object_get(value, "chain")));
	assert_true(json_is_null(json_object_get(value, "compared")));
	json_decref(value);
}

/* ------------------------------------------------------------------------------------------------------- NCCL's file */

static void graph_file_reads_back_as_the_same_channels(void **state)
{
	static const char *const cases[] = { "", "--hosts 2", "--gpus 0-2,5", "--gpus 3,4 --hosts 3" };
	char options[700], path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/graph.xml", program_folder());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *value, *mine, *theirs;

		snprintf(options, sizeof(options), "%s --nccl-graph --output %s", cases[i], path);
		assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_OK);
		assert_non_null(strstr(text, "communicators that have exactly these GPUs"));
		snprintf(options, sizeof(options), "%s --compare %s", cases[i], path);
		value = json_on("plan", usual(), options);
		for (int tree = 0; tree < 2; tree++) {
			mine = json_object_get(value, tree ? "tree" : "ring");
			theirs = json_object_get(json_object_get(value, "compared"), tree ? "tree" : "ring");
			assert_true(program_number(mine, "channel_count") == program_number(theirs, "channel_count"));
			/* Whole bytes/s for each channel, whichever way the channels are counted. */
			assert_true(program_number(theirs, "total_Bps") >= program_number(mine, "total_Bps") - 64 &&
				    program_number(theirs, "total_Bps") <= program_number(mine, "total_Bps") + 64);
		}
		json_decref(value);
	}
}

static void graphs_of_other_gpus_or_hosts_are_refused(void **state)
{
	char options[700], path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/other.xml", program_folder());
	snprintf(options, sizeof(options), "--gpus 0-3 --nccl-graph --output %s", path);
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_OK);
	snprintf(options, sizeof(options), "--gpus 0-4 --compare %s", path);
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "no graph for these GPUs"));
	snprintf(options, sizeof(options), "--gpus 1-4 --compare %s", path);
	assert_int_equal(run_on("explain", usual(), options, PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "no graph for these GPUs"));
	snprintf(options, sizeof(options), "--gpus 0-3 --hosts 2 --compare %s", path);
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "is of one host"));
	snprintf(options, sizeof(options), "--compare %s", usual());
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_FAILED);
	assert_non_null(strstr(text, "no graph file"));
}

/* What NCCL writes: ranks, hexadecimal numbers, the graphs that it did not find. */
static void dump_of_nccl_is_judged_beside_ours(void **state)
{
	static const char dump[] =
		"<graphs version=\"1\">\n"
		"  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"10\" speedinter=\"10\" "
		"latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"PIX\" samechannels=\"1\">\n"
		"    <channel>\n"
		"      <gpu dev=\"0\" rank=\"3\"/><gpu dev=\"0x4\" rank=\"1\"/><gpu dev=\"0x1\" rank=\"2\"/>\n"
		"      <gpu dev=\"0x5\" rank=\"0\"/>\n"
		"    </channel>\n"
		"  </graph>\n"
		"  <graph id=\"2\" pattern=\"3\" crossnic=\"0\" nchannels=\"0\" speedintra=\"0\" speedinter=\"0\" "
		"latencyinter=\"0\" typeintra=\"LOC\" typeinter=\"LOC\" samechannels=\"0\"/>\n"
		"</graphs>\n";
	char path[128], options[700];
	json_t *value, *theirs;

	(void)state;
	snprintf(path, sizeof(path), "%s/dump.xml", program_folder());
	tree_put(path, dump);
	snprintf(options, sizeof(options), "--gpus 0,1,4,5 --compare %s", path);
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "channels by NCCL (dump.xml)"));
	assert_non_null(strstr(text, "NCCL believes 10.0 each"));
	/* Four crossings of the sockets where two do. */
	assert_non_null(strstr(text, "times what NCCL's do"));
	value = json_on("plan", usual(), options);
	theirs = json_object_get(json_object_get(value, "compared"), "ring");
	assert_true(program_number(theirs, "believed_Bps") == 1e10);
	assert_true(program_number(theirs, "total_Bps") < program_number(json_object_get(value, "ring"), "total_Bps"));
	assert_true(json_is_null(json_object_get(json_object_get(value, "compared"), "tree")));
	assert_true(json_is_null(json_object_get(theirs, "bound_Bps")));
	json_decref(value);
	value = json_on("explain", usual(), options);
	assert_true(json_is_true(json_object_get(value, "exact")));
	json_decref(value);
}

/* What NCCL 2.28.9 really dumped for machines of which others published the topology files. */
static void no_real_dump_moves_more_than_ours(void **state)
{
	static const struct {
		const char *machine, *dump, *options;
	} cases[] = {
		{ "ncv4-topo", "azure-ncv4-1n", "" },
		{ "ncv4-topo", "azure-ncv4-2n", "--hosts 2" },
		{ "ncv4-topo", "azure-ncv4-graph-1n", "" },
		{ "oci-h100-topo", "oci-h100-2n", "--hosts 2" },
		{ "rccl-3p_pcie", "rccl-3p_pcie-2n", "--hosts 2" },
		{ "rccl-4p2h_2nic", "rccl-4p2h_2nic-2n", "--hosts 2" },
		{ "rccl-8p_pcie", "rccl-8p_pcie-1n", "" },
		{ "rccl-8p_pcie_2nic", "rccl-8p_pcie_2nic-2n", "--hosts 2" },
		{ "rccl-8p_rome", "rccl-8p_rome-1n", "" },
		{ "rccl-8p_rome", "rccl-8p_rome-2n", "--hosts 2" },
		{ "rccl-8p_rome_pcie", "rccl-8p_rome_pcie-2n", "--hosts 2" },
	};
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	char machine[700], options[700];

	(void)state;
	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder\n");
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *value;

		snprintf(machine, sizeof(machine), "%s/%s.xml", folder, cases[i].machine);
		snprintf(options, sizeof(options), "%s --compare '%s/nccl-chose/%s.graph.xml'", cases[i].options,
			 folder, cases[i].dump);
		value = json_on("plan", machine, options);
		for (int tree = 0; tree < 2; tree++) {
			json_t *ours = json_object_get(value, tree ? "tree" : "ring");
			json_t *theirs = json_object_get(json_object_get(value, "compared"), tree ? "tree" : "ring");

			print_message("%-22s %s: %6.2f GB/s, ours %6.2f\n", cases[i].dump, tree ? "tree" : "ring",
				      program_number(theirs, "total_Bps") / 1e9,
				      program_number(ours, "total_Bps") / 1e9);
			assert_true(program_number(ours, "total_Bps") >= 0.98 * program_number(theirs, "total_Bps"));
		}
		json_decref(value);
	}
}

/* --------------------------------------------------------------------------------------------------------- pictures */

static void pictures_go_where_they_are_asked_to(void **state)
{
	size_t drawings = 0;
	char options[700];

	(void)state;
	assert_int_equal(run_on("plan", usual(), "--svg -", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_int_equal(strncmp(text, "<svg", 4), 0);
	assert_int_equal(run_on("plan", usual(), "--svg - --pattern tree", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "Tree: "));
	assert_int_equal(run_on("plan", usual(), "--html - --hosts 2", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_int_equal(strncmp(text, "<!DOCTYPE html>", 15), 0);
	for (const char *at = text; (at = strstr(at, "\n<svg ")); at++)
		drawings++;
	assert_int_equal(drawings, 3); /* ring, tree, chain */
	snprintf(options, sizeof(options), "--svg %s/a.svg --html %s/a.html --json", program_folder(),
		 program_folder());
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDOUT, text), COMMAND_OK);
	assert_int_equal(text[0], '{');
	snprintf(options, sizeof(options), "--svg %s/no/folder", program_folder());
	assert_int_equal(run_on("plan", usual(), options, PROGRAM_STDERR, text), COMMAND_FAILED);
}

/* ---------------------------------------------------------------------------------------------------------- explain */

static void explanation_has_both_sides_and_says_what_it_is(void **state)
{
	json_t *value, *size, *sizes;
	size_t index;

	(void)state;
	assert_int_equal(run_on("explain", usual(), "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "busbw, GB/s\n"));
	assert_non_null(strstr(text, "NCCL (estimate)"));
	assert_non_null(strstr(text, "Tributary"));
	assert_non_null(strstr(text, "is an estimate"));
	assert_non_null(strstr(text, "NCCL_GRAPH_DUMP_FILE"));
	assert_non_null(strstr(text, "AllReduce"));
	assert_non_null(strstr(text, "1 GiB"));
	value = json_on("explain", usual(), "--hosts 2 --collective allgather");
	assert_string_equal(json_string_value(json_object_get(value, "collective")), "AllGather");
	assert_true(json_is_false(json_object_get(value, "exact")));
	sizes = json_object_get(value, "sizes");
	assert_true(json_array_size(sizes) >= 8);
	json_array_foreach(sizes, index, size)
	{
		json_t *nccl = json_object_get(size, "nccl"), *ours = json_object_get(size, "tributary");

		assert_true(program_number(nccl, "time_us") > 0 && program_number(ours, "time_us") > 0);
		assert_true(json_is_string(json_object_get(ours, "algorithm")));
	}
	assert_true(program_number(json_object_get(json_object_get(value, "tributary"), "ring"), "total_Bps") >=
		    program_number(json_object_get(json_object_get(value, "nccl"), "ring"), "total_Bps"));
	json_decref(value);
	assert_int_equal(run_on("explain", usual(), "--collective all", PROGRAM_STDERR, text), COMMAND_USAGE);
}

/* Which pairs the topology file joins by P2P, and what that gains; NCCL's side stays what NCCL does by itself. */
static void explanation_names_the_pairs_that_gain_by_p2p(void **state)
{
	static const char machine[] =
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
		"vertex gpu gpu0 bus=0000:23:00.0 class=0x030200 index=0 sm=86\n"
		"vertex gpu gpu1 bus=0000:24:00.0 class=0x030200 index=1 sm=86\n"
		"link memory memory0 cpu0\nlink pci gpu0 cpu0 nominal_Bps=24000000000\n"
		"link pci gpu1 cpu0 nominal_Bps=24000000000\n"
		"pair gpu0 gpu1 p2p_works=1 p2p_Bps=%s p2p_provenance=measured host_Bps=10000000000 "
		"host_provenance=measured\n"
		"pair gpu1 gpu0 p2p_works=1 p2p_Bps=20000000000 p2p_provenance=measured host_Bps=10000000000 "
		"host_provenance=measured\n";
	char content[sizeof(machine) + 16];
	const char *path;
	json_t *value, *pair;

	(void)state;
	snprintf(content, sizeof(content), machine, "15000000000");
	path = program_put("pairs.topology", content);
	assert_int_equal(run_on("explain", path, "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "gpu0 > gpu1 PHB"));
	assert_non_null(strstr(text, "1.50 times as much\n"));
	assert_non_null(strstr(text, "2.00 times as much\n"));
	value = json_on("explain", path, "");
	assert_int_equal(json_array_size(json_object_get(value, "p2p")), 2);
	pair = json_array_get(json_object_get(value, "p2p"), 0);
	assert_string_equal(json_string_value(json_object_get(pair, "class")), "PHB");
	assert_int_equal(program_number(pair, "p2p_Bps"), 15000000000);
	assert_int_equal(program_number(pair, "host_Bps"), 10000000000);
	assert_true(program_number(json_object_get(json_object_get(value, "tributary"), "ring"), "total_Bps") >
		    program_number(json_object_get(json_object_get(value, "nccl"), "ring"), "total_Bps"));
	json_decref(value);
	assert_int_equal(run_on("export", path, "", PROGRAM_STDERR, text), COMMAND_OK);
	assert_non_null(strstr(text, "gpu0-gpu1 PHB->PXB"));
	assert_int_equal(run_on("export", path, "--sockets cpus", PROGRAM_STDERR, text), COMMAND_OK);
	assert_null(strstr(text, "PHB->PXB"));
	snprintf(content, sizeof(content), machine, "9000000000");
	value = json_on("explain", program_put("pairs.topology", content), "");
	assert_int_equal(json_array_size(json_object_get(value, "p2p")), 0);
	json_decref(value);
}

/* Every reference machine, from one GPU on, one host and several. */
/* Without a measurement nobody knows what links really carry. */
static void nominal_rates_are_not_called_real(void **state)
{
	const char *path =
		program_put("nominal.topology",
			    "tributary-topology 1\nvertex cpu cpu0 numa=0\n"
			    "vertex gpu gpu0 bus=0000:23:00.0 class=0x030200 index=0 sm=86\n"
			    "vertex gpu gpu1 bus=0000:24:00.0 class=0x030200 index=1 sm=86\n"
			    "link pci gpu0 cpu0 nominal_Bps=24000000000\nlink pci gpu1 cpu0 nominal_Bps=24000000000\n"
			    "rate gpu0>cpu0 24000000000 nominal\nrate cpu0>gpu0 24000000000 nominal\n"
			    "rate gpu1>cpu0 24000000000 nominal\nrate cpu0>gpu1 24000000000 nominal\n");

	(void)state;
	assert_int_equal(run_on("explain", path, "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_null(strstr(text, "really, GB/s"));
	assert_null(strstr(text, "at the real rates"));
	assert_non_null(strstr(text, "by nominal rates, GB/s"));
	assert_non_null(strstr(text, "No link was measured"));
	assert_int_equal(run_on("explain", usual(), "", PROGRAM_STDOUT, text), COMMAND_OK);
	assert_non_null(strstr(text, "really, GB/s"));
	assert_null(strstr(text, "No link was measured"));
}

/*
 * Alike or not, channels take as many steps. Where NCCL's rings leave by the other NIC and go back on the next host, which no
 * plan does, the answer has to say what to do.
 */
static void check_no_size_is_slower(const char *path, const char *options)
{
	json_t *value = json_on("explain", path, options), *size;
	size_t i;

	if (strstr(path, "degraded-uplink") && strstr(options, "--hosts")) {
		assert_true(program_number(json_object_get(json_object_get(value, "nccl"), "ring"), "total_Bps") >
			    program_number(json_object_get(json_object_get(value, "tributary"), "ring"), "total_Bps"));
		assert_non_null(
			strstr(json_string_value(json_object_get(value, "answer")), "TRIBUTARY_STEER=topology"));
		json_decref(value);
		return;
	}

	json_array_foreach(json_object_get(value, "sizes"), i, size)
	{
		double ours_us = program_number(json_object_get(size, "tributary"), "time_us");
		double nccl_us = program_number(json_object_get(size, "nccl"), "time_us");

		if (ours_us > nccl_us * 1.001)
			fail_msg("%s %s: %.2f us, NCCL's %.2f", path, options, ours_us, nccl_us);
	}
	json_decref(value);
}

/* As NCCL 2.30.7 does on these machines as TCP hosts with nominal rates: 12.5 GB/s of a NIC below a switch over 10 between sockets. */
static void hosts_that_nccl_splits_are_named(void **state)
{
	static const struct {
		const char *machine;
		bool is_split;
	} cases[] = {
		{ "degraded-uplink-4gpu", true },  { "dual-root-8gpu", true },     { "four-switch-16gpu", true },
		{ "two-switch-8gpu-sm120", true }, { "asymmetric-6gpu", false },   { "cascade-8gpu", false },
		{ "four-domains-8gpu", false },    { "nvlink-pairs-4gpu", false }, { "p2p-off-4gpu", false },
		{ "single-root-4gpu", false },     { "two-level-8gpu", false },    { "workstation-2gpu", false }
	};
	char path[700];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *value, *splits;
		const char *answer;

		snprintf(path, sizeof(path), "%s/topo/%s/machine.topology", program_source(), cases[i].machine);
		value = json_on("explain", path, "--no-rdma");
		splits = json_object_get(value, "net_inside_host");
		answer = json_string_value(json_object_get(value, "answer"));
		if (json_is_true(json_object_get(splits, "nccl")) != cases[i].is_split ||
		    (strstr(answer, "NCCL_NET_DISABLE_INTRA=1") != NULL) != cases[i].is_split)
			fail_msg("%s: %s", cases[i].machine, answer);
		json_decref(value);
	}
}

static void every_reference_machine_is_explained(void **state)
{
	static const char *const machines[] = { "workstation-2gpu",      "single-root-4gpu", "dual-root-8gpu",
						"cascade-8gpu",          "two-level-8gpu",   "degraded-uplink-4gpu",
						"p2p-off-4gpu",          "asymmetric-6gpu",  "nvlink-pairs-4gpu",
						"two-switch-8gpu-sm120", "four-domains-8gpu" };
	static const char *const options[] = { "", "--gpus 0-1", "--hosts 2", "--gpus 1 --hosts 2", "--hosts 4" };
	static const char *const rooted[] = { "--collective broadcast", "--hosts 8 --collective reduce" };
	char path[700];

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
			snprintf(path, sizeof(path), "%s/topo/%s/machine.topology", program_source(), machines[i]);
			json_decref(json_on("explain", path, options[k]));
		}
		for (size_t k = 0; k < sizeof(rooted) / sizeof(rooted[0]); k++)
			check_no_size_is_slower(path, rooted[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels_bound_and_full_links_are_printed),
		cmocka_unit_test(gpus_are_known_by_number_name_and_place),
		cmocka_unit_test(what_cannot_be_planned_is_said_in_one_line),
		cmocka_unit_test(machines_without_gpus_or_nics_are_said_to_be),
		cmocka_unit_test(a_plan_has_one_slice_of_a_gpu_and_says_why),
		cmocka_unit_test(more_gpus_than_a_plan_holds_must_be_chosen),
		cmocka_unit_test(json_says_what_the_text_says),
		cmocka_unit_test(graph_file_reads_back_as_the_same_channels),
		cmocka_unit_test(graphs_of_other_gpus_or_hosts_are_refused),
		cmocka_unit_test(dump_of_nccl_is_judged_beside_ours),
		cmocka_unit_test(no_real_dump_moves_more_than_ours),
		cmocka_unit_test(pictures_go_where_they_are_asked_to),
		cmocka_unit_test(explanation_has_both_sides_and_says_what_it_is),
		cmocka_unit_test(explanation_names_the_pairs_that_gain_by_p2p),
		cmocka_unit_test(nominal_rates_are_not_called_real),
		cmocka_unit_test(hosts_that_nccl_splits_are_named),
		cmocka_unit_test(every_reference_machine_is_explained),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
