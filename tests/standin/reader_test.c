/*
 * The stand-in's readers: what NCCL 2.28.9 and 2.30.7 accept and refuse of topology and graph files, fact by fact. Each of
 * these was read in NCCL's behaviour; a reader that is milder would let the plugin pass with what NCCL does not take.
 */
#include "model.h"
#include "nxml.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool takes(enum nxml_kind kind, const char *text)
{
	struct nxml nxml;
	int r = nxml_read(kind, text, strlen(text), &nxml);

	nxml_free(&nxml);
	return r == 0;
}

static void texts_that_are_taken(void **state)
{
	static const char *const texts[] = {
		"<graphs version=\"1\"></graphs>",
		"<graphs version=\"1\"/>",
		"\n\r <graphs version='1'>\n</graphs>\n",
		"<!-- a <comment> --><graphs version=\"1\"></graphs>",
		"<graphs version=\"1\" ></graphs>",
		"<graphs version=\"1\"  name=\"x\"></graphs>", /* two blanks are an attribute without a name */
		"<graphs version=\"1\"><what><ever/></what><graph id=\"0\"/></graphs>",
		"<graphs version=\"0x1\"></graphs>",
		"<other><graphs version=\"9\"></graphs></other>", /* graphs in there do not count */
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!takes(NXML_GRAPH, texts[i]))
			fail_msg("refused: %s", texts[i]);
}

static void texts_that_are_refused(void **state)
{
	static const char *const texts[] = {
		"<?xml version=\"1.0\"?><graphs version=\"1\"></graphs>",
		"\t<graphs version=\"1\"></graphs>",
		"<graphs\tversion=\"1\"></graphs>",
		"<graphs\nversion=\"1\"></graphs>",
		"<graphs version=\"1\"\nname=\"x\"></graphs>",
		"<graphs version=1></graphs>",
		"<graphs version=\"2\"></graphs>",
		"<graphs></graphs>",
		"<graphs version=\"1\">text</graphs>",
		"<graphs version=\"1\">",
		"<graphs version=\"1\"></graph>",
		"<graphs version=\"1\"><graph id=\"0\"></graphs>",
		"<graphs version=\"1\"></graphs>x",
		"<graphs version=\"1\"><!-- no end</graphs>",
		"<graphs version=\"1\"",
		"<graphs version=\"1",
		"< graphs version=\"1\"></graphs>x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (takes(NXML_GRAPH, texts[i]))
			fail_msg("taken: %s", texts[i]);
}

/* count elements of one kind, one after the other. */
static char *many(const char *head, const char *each, unsigned count, const char *tail)
{
	char *text = malloc(strlen(head) + count * strlen(each) + strlen(tail) + 1), *at = text;

	assert_non_null(text);
	at = stpcpy(at, head);
	for (unsigned i = 0; i < count; i++)
		at = stpcpy(at, each);
	stpcpy(at, tail);
	return text;
}

static bool takes_many(enum nxml_kind kind, const char *head, const char *each, unsigned count, const char *tail)
{
	char *text = many(head, each, count, tail);
	bool taken = takes(kind, text);

	free(text);
	return taken;
}

static void limits_are_nccls(void **state)
{
	static const char cpus[] = "<system version=\"1\"><cpu numaid=\"0\">", end[] = "</cpu></system>";

	(void)state;
	/* 128 children; 256 elements in a topology, and nothing may come after the last. */
	assert_true(takes_many(NXML_TOPOLOGY, cpus, "<pci busid=\"0\"/>", 128, end));
	assert_false(takes_many(NXML_TOPOLOGY, cpus, "<pci busid=\"0\"/>", 129, end));
	assert_true(takes_many(NXML_TOPOLOGY, "<system version=\"1\">", "<cpu><pci/></cpu>", 127, "</system>"));
	assert_false(takes_many(NXML_TOPOLOGY, "<system version=\"1\">", "<cpu><pci/><nic/></cpu>", 85, "</system>"));
	/* What does not count is not counted. */
	assert_true(takes_many(NXML_TOPOLOGY, cpus, "<what/>", 1000, end));
	/* Names and values of 253 characters; attributes above 16 are dropped. */
	assert_true(takes_many(NXML_GRAPH, "<graphs version=\"1\" name=\"", "x", 253, "\"></graphs>"));
	assert_false(takes_many(NXML_GRAPH, "<graphs version=\"1\" name=\"", "x", 254, "\"></graphs>"));
	assert_true(takes_many(NXML_GRAPH, "<graphs version=\"1\"", " a=\"b\"", 40, "></graphs>"));
	assert_false(takes_many(NXML_GRAPH, "<graphs", " a=\"b\"", 16, " version=\"1\"></graphs>"));
}

/* ---- graphs ---- */

static const struct model_host host = {
	.rank_of = { 4, 5, 6 },
	.dev_of = { 0, 2, 10 },
	.gpu_count = 3,
	.search_latency_us = 3,
};

#define GRAPH(attributes, channels) "<graphs version=\"1\"><graph id=\"0\" " attributes ">" channels "</graph></graphs>"
#define USUAL                                                                                                    \
	"pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"20.5\" speedinter=\"10\" latencyinter=\"2\" " \
	"typeintra=\"PHB\" typeinter=\"PIX\" samechannels=\"1\""
#define CHANNEL \
	"<channel><net dev=\"0\"/><gpu dev=\"0xa\"/><gpu dev=\"2\"/><gpu dev=\"0\"/><net dev=\"0xb\"/></channel>"

static int read_ring(const char *text, int cross_nic, struct model_graph *graph)
{
	char why[MODEL_WHY_BYTES];

	return model_read(MODEL_RING, text, strlen(text), &host, cross_nic, graph, why);
}

static void a_graph_is_read_as_nccl_reads_it(void **state)
{
	struct model_graph graph;

	(void)state;
	assert_int_equal(read_ring(GRAPH(USUAL, CHANNEL), 2, &graph), 0);
	assert_true(graph.from_file);
	assert_int_equal(graph.channel_count, 1);
	assert_int_equal(graph.intra[0][0], 6); /* dev is hexadecimal, whatever it looks like */
	assert_int_equal(graph.intra[0][1], 5);
	assert_int_equal(graph.intra[0][2], 4);
	assert_int_equal(graph.inter[0][0], 0);
	assert_int_equal(graph.inter[0][1], 11);
	assert_true(graph.intra_GBps > 20.4F && graph.intra_GBps < 20.6F);
	assert_int_equal(graph.intra_class, MODEL_PHB);
	assert_int_equal(graph.inter_class, MODEL_PIX);
	assert_true(graph.inter_latency_us == 2);
}

static void what_is_not_in_the_file_is_searched(void **state)
{
	static const char *const texts[] = {
		"<graphs version=\"1\"></graphs>",
		"<graphs version=\"1\"><graph id=\"1\" " USUAL ">" CHANNEL "</graph></graphs>",
		GRAPH("pattern=\"4\" crossnic=\"0\" nchannels=\"0\" speedintra=\"1\" speedinter=\"1\" "
		      "typeintra=\"PHB\" "
		      "typeinter=\"PHB\" samechannels=\"1\"",
		      ""),
	};
	struct model_graph graph;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(read_ring(texts[i], 2, &graph), 0);
		assert_false(graph.from_file);
		assert_true(graph.inter_latency_us == 3);
		assert_int_equal(graph.intra[0][0], 4);
	}
}

static void crossnic_needs_to_be_allowed(void **state)
{
	static const char text[] =
		GRAPH("pattern=\"4\" crossnic=\"1\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" "
		      "typeintra=\"PHB\" typeinter=\"PHB\" samechannels=\"1\"",
		      CHANNEL);
	struct model_graph graph;

	(void)state;
	assert_int_equal(read_ring(text, 0, &graph), 0);
	assert_false(graph.from_file);
	assert_int_equal(read_ring(text, 2, &graph), 0);
	assert_true(graph.from_file);
}

static void words_of_classes_go_by_their_beginning(void **state)
{
	static const char *const words[] = { "PIXEL", "NVLINK", "C2C", "NET", "sys" };
	static const enum model_class classes[] = { MODEL_PIX, MODEL_NVL, MODEL_LOC, MODEL_LOC, MODEL_LOC };
	struct model_graph graph;
	char text[800];

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		snprintf(text, sizeof(text),
			 GRAPH("pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" "
			       "typeintra=\"%s\" typeinter=\"PHB\" samechannels=\"1\"",
			       CHANNEL),
			 words[i]);
		assert_int_equal(read_ring(text, 2, &graph), 0);
		assert_int_equal(graph.intra_class, classes[i]);
	}
}

static void graphs_that_make_init_fail(void **state)
{
	static const char *const texts[] = {
		GRAPH(USUAL, "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/><gpu dev=\"2\"/></channel>"), /* a foreign GPU */
		GRAPH(USUAL, "<channel><gpu dev=\"10\"/><gpu dev=\"0\"/><gpu dev=\"2\"/></channel>"), /* 16 */
		GRAPH(USUAL, "<channel><gpu/><gpu dev=\"0\"/><gpu dev=\"2\"/></channel>"),
		GRAPH(USUAL, "<channel><gpu dev=\"0\"/><gpu dev=\"0xa\"/><gpu dev=\"2\"/><gpu dev=\"0\"/></channel>"),
		GRAPH(USUAL, "<channel><gpu dev=\"0\" rank=\"4\"/><gpu dev=\"0xa\"/><gpu dev=\"2\"/></channel>"),
		GRAPH("crossnic=\"0\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" typeintra=\"PHB\" "
		      "typeinter=\"PHB\" samechannels=\"1\"",
		      CHANNEL),
		GRAPH("pattern=\"4\" crossnic=\"0\" nchannels=\"1\" speedintra=\"1\" speedinter=\"1\" "
		      "typeinter=\"PHB\" samechannels=\"1\"",
		      CHANNEL),
		GRAPH("pattern=\"4\" crossnic=\"0\" nchannels=\"33\" speedintra=\"1\" speedinter=\"1\" "
		      "typeintra=\"PHB\" "
		      "typeinter=\"PHB\" samechannels=\"1\"",
		      CHANNEL),
		"",
	};
	struct model_graph graph;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (read_ring(texts[i], 2, &graph) == 0)
			fail_msg("taken: %s", texts[i]);
}

/* ---- agreement ---- */

/* Three ranks on one host, two on another; graphs that a test may bend. */
static struct model_graph graphs[5][2];
static struct model_rank ranks[5];

static void everybody_searches(void)
{
	static const struct model_host hosts[2] = {
		{ .rank_of = { 0, 2, 4 }, .dev_of = { 0, 1, 2 }, .gpu_count = 3 },
		{ .rank_of = { 1, 3 }, .dev_of = { 0, 1 }, .gpu_count = 2 },
	};

	for (int r = 0; r < 5; r++) {
		model_search(MODEL_RING, &hosts[r % 2], &graphs[r][0]);
		model_search(MODEL_TREE, &hosts[r % 2], &graphs[r][1]);
		ranks[r] = (struct model_rank){ .host = r % 2,
						.local_count = hosts[r % 2].gpu_count,
						.ring = &graphs[r][0],
						.tree = &graphs[r][1] };
	}
}

static void expect_agreement(bool wanted, const char *what)
{
	char why[MODEL_WHY_BYTES] = "";

	if ((model_agree(ranks, 5, 1, why) == 0) != wanted)
		fail_msg("%s: %s", what, wanted ? why : "not noticed");
}

static void swap(int *list, int a, int b)
{
	int value = list[a];

	list[a] = list[b];
	list[b] = value;
}

static void ranks_must_see_one_ring(void **state)
{
	(void)state;
	everybody_searches();
	expect_agreement(true, "all search");
	for (int r = 0; r < 5; r += 2)
		swap(graphs[r][0].intra[1], 0, 2);
	expect_agreement(true, "one host orders its GPUs in another way");
	everybody_searches();
	swap(graphs[2][0].intra[1], 0, 2);
	expect_agreement(false, "one rank orders them in another way");
	everybody_searches();
	swap(graphs[2][0].intra[0], 0, 2);
	expect_agreement(false, "one rank begins with another GPU");
	everybody_searches();
	swap(graphs[3][1].intra[0], 0, 1);
	expect_agreement(false, "one rank has another tree");
	everybody_searches();
	graphs[4][0].intra[0][1] = 0;
	expect_agreement(false, "a GPU is there twice");
	everybody_searches();
	graphs[1][0].channel_count = graphs[3][0].channel_count = 1;
	expect_agreement(true, "the smaller number of channels counts");
	everybody_searches();
	graphs[1][0].inter_latency_us = graphs[3][0].inter_latency_us = 1;
	expect_agreement(false, "hosts with another latency");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_that_are_taken),
		cmocka_unit_test(texts_that_are_refused),
		cmocka_unit_test(limits_are_nccls),
		cmocka_unit_test(a_graph_is_read_as_nccl_reads_it),
		cmocka_unit_test(what_is_not_in_the_file_is_searched),
		cmocka_unit_test(crossnic_needs_to_be_allowed),
		cmocka_unit_test(words_of_classes_go_by_their_beginning),
		cmocka_unit_test(graphs_that_make_init_fail),
		cmocka_unit_test(ranks_must_see_one_ring),
	};

	runtime_start("standin/reader_test", 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
