/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "ncclxml/graph_xml.h"
#include "unit/ncclxml/machine.h"
#include "base/random.h"
#include "support/tree.h"

#define FACTS                                                                                          \
	"speedintra=\"12\" speedinter=\"2.4\" latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"PXN\" " \
	"samechannels=\"0\""
#define GRAPH(id, channels, inside)                                                                             \
	"<graph id=\"" id "\" pattern=\"4\" crossnic=\"0\" nchannels=\"" channels "\" " FACTS ">\n" inside "</" \
	"graph>\n"
#define FILE_OF(inside) "<graphs version=\"1\">\n" inside "</graphs>\n"
#define CHANNEL(inside) "<channel>" inside "</channel>\n"
#define GPU(dev)        "<gpu dev=\"" dev "\"/>"
#define NET(dev)        "<net dev=\"" dev "\"/>"
#define ONE_CHANNEL     CHANNEL(NET("0x1") GPU("0x10") GPU("0xa") GPU("0") NET("0x2"))
#define ONE_RING        GRAPH("0", "1", ONE_CHANNEL)

static void read_graphs_text(const char *text, struct graph_xml *ret)
{
	struct diag diag = { .text = "" };

	if (graph_xml_read(text, strlen(text), ret, &diag) != 0)
		fail_msg("line %d: %s", diag.line, diag.text);
}

static void a_graph_is_read_as_nccl_reads_it(void **state)
{
	struct graph_xml graphs;
	const struct graph_xml_graph *ring = &graphs.graphs[0];

	(void)state;
	read_graphs_text(FILE_OF(ONE_RING), &graphs);
	assert_int_equal(graphs.graph_count, 1);
	assert_int_equal(ring->id, GRAPH_XML_RING);
	assert_int_equal(ring->pattern, GRAPH_XML_PATTERN_RING);
	assert_true(ring->intra_GBps > 11.999 && ring->intra_GBps < 12.001);
	assert_true(ring->inter_GBps > 2.399 && ring->inter_GBps < 2.401);
	assert_int_equal(ring->intra_class, TOPOLOGY_CLASS_SYS);
	assert_int_equal(ring->inter_class, TOPOLOGY_CLASS_PXN);
	assert_false(ring->same_channels);
	assert_int_equal(ring->channel_count, 1);
	assert_int_equal(ring->channels[0].gpu_count, 3);
	assert_int_equal(ring->channels[0].gpus[0], 16);
	assert_int_equal(ring->channels[0].gpus[1], 10);
	assert_int_equal(ring->channels[0].gpus[2], 0);
	assert_int_equal(ring->channels[0].net_count, 2);
	assert_int_equal(ring->channels[0].nets[1], 2);
	/* Not "0x": the base is 16 all the same, as for NCCL. */
	read_graphs_text(FILE_OF(GRAPH("1", "1", CHANNEL(GPU("10") GPU("a")))), &graphs);
	assert_int_equal(graphs.graphs[0].channels[0].gpus[0], 16);
	assert_int_equal(graphs.graphs[0].channels[0].gpus[1], 10);
}

static void what_newer_nccls_write_besides_is_ignored(void **state)
{
	struct graph_xml graphs;

	(void)state;
	read_graphs_text(
		FILE_OF(GRAPH("0", "1", CHANNEL("<gpu dev=\"0x1\" rank=\"0\"/>" GPU("0") "<new/>")) "<other/>"),
		&graphs);
	assert_int_equal(graphs.graphs[0].channels[0].gpu_count, 2);
	assert_int_equal(graphs.graphs[0].channels[0].gpus[0], 1);
	/* Nothing was found, as for collnet in most dumps. */
	read_graphs_text(FILE_OF("<graph id=\"4\" pattern=\"6\" crossnic=\"0\" nchannels=\"0\" speedintra=\"0\" "
				 "speedinter=\"0\" typeintra=\"LOC\" typeinter=\"LOC\" samechannels=\"0\"/>\n"),
			 &graphs);
	assert_int_equal(graphs.graphs[0].channel_count, 0);
	/* Each channel with its first GPU alone. */
	read_graphs_text(FILE_OF(GRAPH("3", "2", CHANNEL(GPU("0")) CHANNEL(GPU("1")))), &graphs);
	assert_int_equal(graphs.graphs[0].channel_count, 2);
}

static void what_nccl_would_refuse_or_misread_is_refused_with_line_and_reason(void **state)
{
	static const struct {
		const char *text;
		int line;
		const char *reason;
	} cases[] = {
		{ "", 1, "not XML" },
		{ "<graphs version=\"1\">\n", 2, "not XML" },
		{ "<system version=\"1\"/>", 1, "topology" },
		{ "<other/>", 1, "begins with <graphs>" },
		{ "<graphs/>", 1, "without version" },
		{ "<graphs version=\"2\"/>", 1, "version \"2\"" },
		{ "<?xml version=\"1.0\"?>\n<graphs version=\"1\"/>", 1, "NCCL cannot read it" },
		{ "<graphs version=\"1\">\n\t<graph/>\n</graphs>", 2, "without id" },
		{ FILE_OF("\t" ONE_RING), 2, "a tab between elements" },
		{ FILE_OF(ONE_RING ONE_RING), 5, "there twice" },
		{ FILE_OF(GRAPH("5", "1", ONE_CHANNEL)), 2, "id \"5\"" },
		{ FILE_OF(GRAPH("x", "1", ONE_CHANNEL)), 2, "id \"x\"" },
		/* What is missing would be rank 0, what is too much is not used. */
		{ FILE_OF(GRAPH("0", "2", ONE_CHANNEL)), 2, "nchannels is 2 and there are 1" },
		{ FILE_OF(GRAPH("0", "0", ONE_CHANNEL)), 2, "nchannels is 0 and there are 1" },
		{ FILE_OF(GRAPH("0", "65", ONE_CHANNEL)), 2, "nchannels \"65\"" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(NET("0") NET("0")))), 3, "without GPUs" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(NET("0") GPU("0")))), 3, "one net" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(NET("0") NET("0") NET("0") GPU("0")))), 3, "more than two nets" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(GPU("0") GPU("0x0")))), 3, "twice in its channel" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL("<gpu/>"))), 3, "without dev" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(GPU("gpu0")))), 3, "no hexadecimal number" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(GPU("-1")))), 3, "no hexadecimal number" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(GPU("")))), 3, "no hexadecimal number" },
		{ FILE_OF(GRAPH("0", "1", CHANNEL(GPU("0x1g")))), 3, "no hexadecimal number" },
		{ FILE_OF(GRAPH("0", "2", CHANNEL(GPU("0") GPU("1")) CHANNEL(GPU("0") GPU("2")))), 4, "other GPUs" },
		{ FILE_OF(GRAPH("0", "2", CHANNEL(GPU("0") GPU("1")) CHANNEL(GPU("0")))), 4, "other GPUs" },
		{ FILE_OF("<graph id=\"0\" crossnic=\"0\" nchannels=\"0\" " FACTS "/>"), 2, "without pattern" },
		{ FILE_OF("<graph id=\"0\" pattern=\"7\" crossnic=\"0\" nchannels=\"0\" " FACTS "/>"), 2,
		  "pattern \"7\"" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" nchannels=\"0\" " FACTS "/>"), 2, "without crossnic" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" " FACTS "/>"), 2, "without nchannels" },
		{ FILE_OF("<graph id=\"1\" pattern=\"1\" crossnic=\"0\" nchannels=\"1\" " FACTS
			  ">" CHANNEL(GPU("0")) "</graph>"),
		  2, "second one" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1,5\" "
			  "speedinter=\"1\" typeintra=\"SYS\" typeinter=\"SYS\" samechannels=\"0\"/>"),
		  2, "speedintra \"1,5\"" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1\" "
			  "speedinter=\"1e400\" typeintra=\"SYS\" typeinter=\"SYS\" samechannels=\"0\"/>"),
		  2, "speedinter \"1e400\"" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1\" "
			  "speedinter=\"1\" typeintra=\"C2C\" typeinter=\"SYS\" samechannels=\"0\"/>"),
		  2, "takes it for LOC" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1\" "
			  "speedinter=\"1\" typeintra=\"SYS\" samechannels=\"0\"/>"),
		  2, "without typeinter" },
		{ FILE_OF("<graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1\" "
			  "speedinter=\"1\" typeintra=\"SYS\" typeinter=\"SYS\"/>"),
		  2, "without samechannels" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct diag diag = { .text = "" };
		struct graph_xml graphs;

		assert_int_equal(graph_xml_read(cases[i].text, strlen(cases[i].text), &graphs, &diag), -EINVAL);
		assert_int_equal(graphs.graph_count, 0);
		if (diag.line != cases[i].line || !strstr(diag.text, cases[i].reason))
			fail_msg("case %zu: line %d: \"%s\" instead of line %d: \"%s\"", i, diag.line, diag.text,
				 cases[i].line, cases[i].reason);
	}
}

/* ------------------------------------------------------------------------------------------------------- round trip */

static bool same_number(double a, double b)
{
	return a - b < 1e-6 && b - a < 1e-6;
}

static void assert_same_graph(const struct graph_xml_graph *a, const struct graph_xml_graph *b)
{
	assert_int_equal(a->id, b->id);
	assert_int_equal(a->pattern, b->pattern);
	assert_int_equal(a->crossnic, b->crossnic);
	assert_int_equal(a->same_channels, b->same_channels);
	assert_true(same_number(a->intra_GBps, b->intra_GBps) && same_number(a->inter_GBps, b->inter_GBps));
	assert_true(same_number(a->inter_latency_us, b->inter_latency_us));
	assert_int_equal(a->intra_class, b->intra_class);
	assert_int_equal(a->inter_class, b->inter_class);
	assert_int_equal(a->channel_count, b->channel_count);
	for (size_t i = 0; i < a->channel_count; i++) {
		assert_int_equal(a->channels[i].gpu_count, b->channels[i].gpu_count);
		assert_int_equal(a->channels[i].net_count, b->channels[i].net_count);
		assert_memory_equal(a->channels[i].gpus, b->channels[i].gpus, sizeof(a->channels[i].gpus));
		assert_memory_equal(a->channels[i].nets, b->channels[i].nets, sizeof(a->channels[i].nets));
	}
}

static struct graph_xml_channel random_channel(uint64_t *seed, size_t gpus, bool nets)
{
	struct graph_xml_channel channel = { .gpu_count = gpus, .net_count = nets ? 2 : 0 };

	for (size_t i = 0; i < gpus; i++) {
		size_t place = random_below(seed, i + 1);

		channel.gpus[i] = channel.gpus[place];
		channel.gpus[place] = (int)(i * 3);
	}
	for (size_t i = 0; i < channel.net_count; i++)
		channel.nets[i] = (int)random_below(seed, 20);
	return channel;
}

static struct graph_xml random_graphs(uint64_t *seed)
{
	static const enum topology_class classes[] = { TOPOLOGY_CLASS_LOC, TOPOLOGY_CLASS_NVL, TOPOLOGY_CLASS_PIX,
						       TOPOLOGY_CLASS_PXN, TOPOLOGY_CLASS_PHB, TOPOLOGY_CLASS_SYS };
	struct graph_xml graphs = { .graph_count = 1 + random_below(seed, GRAPH_XML_GRAPHS_MAX) };
	size_t gpus = 2 + random_below(seed, GRAPH_XML_GPUS_MAX - 1);
	bool nets = random_below(seed, 2);

	for (size_t i = 0; i < graphs.graph_count; i++) {
		struct graph_xml_graph *graph = &graphs.graphs[i];

		*graph = (struct graph_xml_graph){
			.id = (enum graph_xml_id)i,
			.pattern = (enum graph_xml_pattern)(1 + random_below(seed, 6)),
			.crossnic = (int)random_below(seed, 3),
			.same_channels = random_below(seed, 2),
			.intra_GBps = (double)random_below(seed, 400000000) / 1e6,
			.inter_GBps = (double)random_below(seed, 400000) / 1e6,
			.inter_latency_us = (double)random_below(seed, 40) / 4,
			.intra_class = classes[random_below(seed, 6)],
			.inter_class = classes[random_below(seed, 6)],
			.channel_count = random_below(seed, 33),
		};
		for (size_t j = 0; j < graph->channel_count; j++)
			graph->channels[j] = random_channel(seed, i == GRAPH_XML_NVLS ? 1 : gpus, nets);
		if (i == GRAPH_XML_NVLS)
			graph->pattern = GRAPH_XML_PATTERN_NVLS;
	}
	return graphs;
}

static void what_is_written_is_read_back(void **state)
{
	uint64_t seed = 4;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct graph_xml graphs = random_graphs(&seed), back;
		struct diag diag = { .text = "" };
		size_t bytes;
		char *text;

		if (graph_xml_write(&graphs, &text, &bytes, &diag) != 0)
			fail_msg("%s", diag.text);
		if (graph_xml_read(text, bytes, &back, &diag) != 0)
			fail_msg("line %d: %s\n%s", diag.line, diag.text, text);
		assert_int_equal(back.graph_count, graphs.graph_count);
		for (size_t i = 0; i < graphs.graph_count; i++)
			assert_same_graph(&graphs.graphs[i], &back.graphs[i]);
		free(text);
	}
}

static const enum plan_pattern pattern_of[] = { PLAN_RING, PLAN_TREE, PLAN_CHAIN };

/* A set's graphs are its plans again, and the verifier accepts them at the rate that they name. */
static void a_set_comes_back_as_the_plans_that_it_was(void **state)
{
	struct graph_xml_numbers numbers = { .net_devices = { 10, 3 }, .inter_latency_us = 1 };
	struct diag diag = { .text = "" };
	struct plan_request request;
	struct topology topology;
	struct graph_xml graphs;
	struct plan_set set;

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	assert_int_equal(plan_make_set(&topology, &request, PLAN_EITHER, &set), 0);
	assert_int_equal(graph_xml_of_set(&topology, &request, &set, &numbers, &graphs, &diag), 0);
	request.hosts = 2;
	for (size_t i = 0; i < 3; i++) {
		const struct plan *plan = &set.plans[pattern_of[i]];
		struct plan back;

		assert_int_equal(graph_xml_to_plan(&topology, &request, &numbers, &graphs.graphs[i], &back, &diag), 0);
		assert_int_equal(back.pattern, plan->pattern);
		assert_int_equal(back.channel_count, plan->channel_count);
		assert_memory_equal(back.channels, plan->channels, sizeof(plan->channels));
		back.bound_Bps = plan_total_Bps(&back);
		if (plan_verify(&topology, &request, &back, &diag) < 0)
			fail_msg("%s", diag.text);
	}
	topology_fini(&topology);
}

static void graphs_of_other_machines_are_no_plans(void **state)
{
	struct graph_xml_numbers numbers = { .net_devices = { 0, 1 } };
	static const struct {
		const char *text;
		int error;
		const char *reason;
	} cases[] = {
		{ GRAPH("0", "1", CHANNEL(GPU("0") GPU("1") GPU("2") GPU("4"))), -ENOENT, "names GPU 4" },
		{ GRAPH("0", "1", CHANNEL(GPU("0") GPU("1") GPU("2") GPU("3") GPU("4"))), -ENOENT, "5 GPUs" },
		{ GRAPH("0", "1", CHANNEL(GPU("0") GPU("1") GPU("2"))), -EINVAL, "3 GPUs" },
		{ GRAPH("0", "1", CHANNEL(NET("2") GPU("0") GPU("1") GPU("2") GPU("3") NET("0"))), -ENOENT,
		  "net device 2" },
		{ GRAPH("3", "1", CHANNEL(GPU("0") GPU("1") GPU("2") GPU("3"))), -EINVAL, "neither" },
		{ GRAPH("0", "0", ""), -EINVAL, "no channels" },
	};
	struct plan_request request;
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct diag diag = { .text = "" };
		struct graph_xml graphs;
		struct plan plan;
		char text[2048];

		snprintf(text, sizeof(text), "<graphs version=\"1\">\n%s</graphs>\n", cases[i].text);
		read_graphs_text(text, &graphs);
		assert_int_equal(graph_xml_to_plan(&topology, &request, &numbers, &graphs.graphs[0], &plan, &diag),
				 cases[i].error);
		if (!strstr(diag.text, cases[i].reason))
			fail_msg("case %zu: %s", i, diag.text);
	}
	topology_fini(&topology);
}

/* Where no nets are listed NCCL uses device 0; of a tree the first GPU's, which is the first. */
static void nets_are_those_that_nccl_would_use(void **state)
{
	struct graph_xml_numbers numbers = { .net_devices = { 5, 0 } };
	struct diag diag = { .text = "" };
	struct plan_request request;
	struct topology topology;
	struct graph_xml graphs;
	struct plan plan;

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(plan_request_all(&topology, &request), 0);
	request.hosts = 2;
	read_graphs_text(FILE_OF(GRAPH("0", "1", CHANNEL(GPU("0") GPU("1") GPU("2") GPU("3")))
					 GRAPH("1", "1", CHANNEL(NET("5") GPU("0") GPU("1") GPU("2") GPU("3") NET("0")))
						 GRAPH("2", "1",
						       CHANNEL(NET("5") GPU("0") GPU("1") GPU("2") GPU("3") NET("0")))),
			 &graphs);
	assert_int_equal(graph_xml_to_plan(&topology, &request, &numbers, &graphs.graphs[0], &plan, &diag), 0);
	assert_int_equal(plan.channels[0].nic_in, 1);
	assert_int_equal(plan.channels[0].nic_out, 1);
	assert_int_equal(graph_xml_to_plan(&topology, &request, &numbers, &graphs.graphs[1], &plan, &diag), 0);
	assert_int_equal(plan.channels[0].nic_in, 0);
	assert_int_equal(plan.channels[0].nic_out, 0);
	assert_int_equal(plan.pattern, PLAN_TREE);
	request.hosts = 1;
	assert_int_equal(graph_xml_to_plan(&topology, &request, &numbers, &graphs.graphs[2], &plan, &diag), 0);
	assert_int_equal(plan.channels[0].nic_in, 0);
	assert_int_equal(plan.pattern, PLAN_CHAIN);
	topology_fini(&topology);
}

/* ------------------------------------------------------------------------------------------------------ real files */

static bool read_real(const char *path)
{
	struct diag diag = { .text = "" };
	struct graph_xml graphs;
	size_t bytes;
	char *text = tree_read(path, &bytes);

	if (!text)
		return false;
	if (graph_xml_read(text, bytes, &graphs, &diag) != 0)
		fail_msg("%s:%d: %s", path, diag.line, diag.text);
	free(text);
	assert_true(graphs.graph_count > 0);
	for (size_t i = 0; i < graphs.graph_count; i++)
		if (graphs.graphs[i].id == GRAPH_XML_RING)
			assert_true(graphs.graphs[i].channel_count > 0 && graphs.graphs[i].intra_GBps > 0);
	return true;
}

static void what_nccl_and_others_wrote_is_read(void **state)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	struct dirent *entry;
	unsigned count = 0;
	char path[1024];
	DIR *chosen;

	(void)state;
	snprintf(path, sizeof(path), "%s/nccl-chose", folder ? folder : "");
	chosen = folder ? opendir(path) : NULL;
	if (!chosen) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder with NCCL's files\n");
		skip();
	}
	while ((entry = readdir(chosen))) {
		snprintf(path, sizeof(path), "%s/nccl-chose/%s", folder, entry->d_name);
		count += strstr(entry->d_name, ".xml") && read_real(path);
	}
	closedir(chosen);
	snprintf(path, sizeof(path), "%s/ncv4-graph.xml", folder);
	count += read_real(path);
	print_message("%u files\n", count);
	assert_true(count > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_graph_is_read_as_nccl_reads_it),
		cmocka_unit_test(what_newer_nccls_write_besides_is_ignored),
		cmocka_unit_test(what_nccl_would_refuse_or_misread_is_refused_with_line_and_reason),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(a_set_comes_back_as_the_plans_that_it_was),
		cmocka_unit_test(graphs_of_other_machines_are_no_plans),
		cmocka_unit_test(nets_are_those_that_nccl_would_use),
		cmocka_unit_test(what_nccl_and_others_wrote_is_read),
	};

	return cmocka_run_group_tests_name("ncclxml/read/graph_read", tests, NULL, NULL);
}
