/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "ncclxml/graph_xml.h"
#include "ncclxml/read/scan.h"
#include "unit/ncclxml/machine.h"

struct planned {
	struct topology topology;
	struct plan_request request;
	struct plan_set set;
	struct graph_xml_numbers numbers;
};

/* Two switches with two GPUs and a NIC each; the link between the sockets is the narrowest. */
static void plan_machine(enum plan_where where, struct planned *ret)
{
	machine_read(machine_text, &ret->topology);
	assert_int_equal(plan_request_all(&ret->topology, &ret->request), 0);
	assert_int_equal(plan_make_set(&ret->topology, &ret->request, where, &ret->set), 0);
	ret->numbers = (struct graph_xml_numbers){ .net_devices = { 10, 11 }, .inter_latency_us = 2.5 };
}

static char *write_planned(const struct planned *planned)
{
	struct diag diag = { .text = "" };
	struct graph_xml graphs;
	size_t bytes;
	char *text;

	if (graph_xml_of_set(&planned->topology, &planned->request, &planned->set, &planned->numbers, &graphs, &diag))
		fail_msg("%s", diag.text);
	if (graph_xml_write(&graphs, &text, &bytes, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(strlen(text), bytes);
	return text;
}

static void no_escape(void *arg, int line)
{
	(void)arg;
	fail_msg("an escape on line %d", line);
}

#define GPU(dev)            "      <gpu dev=\"" dev "\"/>\n"
#define CHANNEL(a, b, c, d) "    <channel>\n" GPU(a) GPU(b) GPU(c) GPU(d) "    </channel>\n"

/* clang-format off */
static const char one_host_text[] =
	"<graphs version=\"1\">\n"
	"  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\" speedintra=\"8\" speedinter=\"8\" "
	"latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"PIX\" samechannels=\"0\">\n"
	CHANNEL("0", "0x3", "0x2", "0x1")
	CHANNEL("0", "0x3", "0x2", "0x1")
	"  </graph>\n"
	"  <graph id=\"1\" pattern=\"1\" crossnic=\"0\" nchannels=\"2\" speedintra=\"16\" speedinter=\"16\" "
	"latencyinter=\"0\" typeintra=\"SYS\" typeinter=\"PIX\" samechannels=\"0\">\n"
	CHANNEL("0x1", "0", "0x3", "0x2")
	CHANNEL("0x3", "0x2", "0x1", "0")
	"  </graph>\n"
	"</graphs>\n";
/* clang-format on */

static void one_host_has_no_nets(void **state)
{
	struct planned planned;
	char *text;

	(void)state;
	plan_machine(PLAN_ONE_HOST, &planned);
	text = write_planned(&planned);
	assert_string_equal(text, one_host_text);
	free(text);
	topology_fini(&planned.topology);
}

/* Device 10 is 0xa: NCCL reads base 16 whatever it looks like. */
static void several_hosts_name_the_nics_by_their_devices_in_hexadecimal(void **state)
{
	struct planned planned;
	const char *reason;
	char *text;

	(void)state;
	plan_machine(PLAN_SEVERAL_HOSTS, &planned);
	text = write_planned(&planned);
	assert_non_null(strstr(text, "<net dev=\"0xa\"/>"));
	assert_non_null(strstr(text, "<net dev=\"0xb\"/>"));
	assert_null(strstr(text, "dev=\"10\""));
	assert_null(strstr(text, "rank="));
	assert_non_null(strstr(text, "latencyinter=\"2.5\""));
	/* Chains, and the heads that collnet needs for them. */
	assert_non_null(strstr(text, "<graph id=\"2\" pattern=\"3\""));
	assert_non_null(strstr(text, "<graph id=\"4\" pattern=\"6\""));
	assert_int_equal(ncclxml_scan(text, strlen(text), no_escape, NULL, &reason), 0);
	free(text);
	topology_fini(&planned.topology);
}

static void an_nvswitch_that_joins_some_leaves_chains_to_nccl(void **state)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_NVSWITCH, "nvswitch0");
	struct planned planned;
	char *text;

	(void)state;
	plan_machine(PLAN_SEVERAL_HOSTS, &planned);
	assert_int_equal(topology_add_vertex(&planned.topology, &vertex, NULL), 0);
	text = write_planned(&planned);
	assert_null(strstr(text, "<graph id=\"2\""));
	assert_null(strstr(text, "<graph id=\"4\""));
	free(text);
	topology_fini(&planned.topology);
}

static void what_cannot_be_written_is_refused_with_a_reason(void **state)
{
	struct diag diag = { .text = "" };
	struct planned planned, other;
	struct graph_xml graphs;

	(void)state;
	plan_machine(PLAN_EITHER, &planned);
	other = planned;
	other.numbers.net_devices[1] = -1;
	assert_int_equal(graph_xml_of_set(&other.topology, &other.request, &other.set, &other.numbers, &graphs, &diag),
			 -EINVAL);
	assert_non_null(strstr(diag.text, "eth1 is none of the plugin's devices"));
	other = planned;
	other.set.plans[PLAN_TREE].channel_count++;
	assert_int_equal(graph_xml_of_set(&other.topology, &other.request, &other.set, &other.numbers, &graphs, &diag),
			 -EINVAL);
	assert_non_null(strstr(diag.text, "the same number"));
	other = planned;
	other.set.plans[PLAN_RING].rate_Bps = PLAN_UNBOUNDED_BPS;
	assert_int_equal(graph_xml_of_set(&other.topology, &other.request, &other.set, &other.numbers, &graphs, &diag),
			 -EINVAL);
	assert_non_null(strstr(diag.text, "nothing is known"));
	other = planned;
	other.set.has[PLAN_TREE] = false;
	assert_int_equal(graph_xml_of_set(&other.topology, &other.request, &other.set, &other.numbers, &graphs, &diag),
			 -EINVAL);
	planned.topology.vertices[planned.request.gpus[2]].gpu.index = -1;
	assert_int_equal(
		graph_xml_of_set(&planned.topology, &planned.request, &planned.set, &planned.numbers, &graphs, &diag),
		-EINVAL);
	assert_non_null(strstr(diag.text, "gpu2 has no index"));
	topology_fini(&planned.topology);
}

static struct graph_xml one_graph(void)
{
	struct graph_xml graphs = { .graph_count = 1 };

	graphs.graphs[0] = (struct graph_xml_graph){ .id = GRAPH_XML_RING,
						     .pattern = GRAPH_XML_PATTERN_RING,
						     .intra_GBps = 1,
						     .inter_GBps = 1,
						     .channel_count = 1,
						     .channels = { { .gpus = { 0, 1 }, .gpu_count = 2 } } };
	return graphs;
}

static void refused(const struct graph_xml *graphs, const char *reason)
{
	struct diag diag = { .text = "" };
	size_t bytes = 77;
	char *text = NULL;

	assert_int_equal(graph_xml_write(graphs, &text, &bytes, &diag), -EINVAL);
	assert_null(text);
	assert_int_equal(bytes, 77);
	if (!strstr(diag.text, reason))
		fail_msg("\"%s\" instead of \"%s\"", diag.text, reason);
}

static void what_nccl_would_not_take_is_not_written(void **state)
{
	struct graph_xml graphs = one_graph();

	(void)state;
	graphs.graphs[0].channels[0].gpus[1] = 0;
	refused(&graphs, "twice in a channel");
	graphs = one_graph();
	graphs.graphs[0].channels[0].net_count = 1;
	refused(&graphs, "one net");
	graphs = one_graph();
	graphs.graphs[0].channel_count = GRAPH_XML_CHANNELS_MAX + 1;
	refused(&graphs, "more channels");
	graphs = one_graph();
	graphs.graphs[0].channel_count = 2;
	refused(&graphs, "no GPU");
	graphs = one_graph();
	graphs.graphs[0].channels[0].gpus[0] = -1;
	refused(&graphs, "without a number");
	graphs = one_graph();
	graphs.graphs[0].intra_GBps = -1;
	refused(&graphs, "rate");
	graphs = one_graph();
	graphs.graphs[0].inter_GBps = 0.0 / strtod("0", NULL);
	refused(&graphs, "rate");
	graphs = one_graph();
	graphs.graphs[0].pattern = GRAPH_XML_PATTERN_BALANCED_TREE;
	graphs.graphs[0].channels[0].gpu_count = 1;
	refused(&graphs, "second has a child");
	graphs = one_graph();
	graphs.graphs[1] = graphs.graphs[graphs.graph_count++ - 1];
	refused(&graphs, "twice");
	graphs.graph_count = GRAPH_XML_GRAPHS_MAX + 1;
	refused(&graphs, "graphs");
}

/* The largest that there can be is no more than NCCL reads. */
static void sixteen_channels_of_sixteen_gpus_in_four_graphs_fit(void **state)
{
	struct graph_xml graphs = one_graph();
	struct diag diag = { .text = "" };
	size_t bytes;
	char *text;

	(void)state;
	graphs.graphs[0].channel_count = PLAN_CHANNELS_MAX;
	for (int i = 0; i < PLAN_CHANNELS_MAX; i++) {
		struct graph_xml_channel *channel = &graphs.graphs[0].channels[i];

		*channel = (struct graph_xml_channel){ .gpu_count = 16, .nets = { i, 15 - i }, .net_count = 2 };
		for (int j = 0; j < 16; j++)
			channel->gpus[j] = j;
	}
	for (; graphs.graph_count < 4; graphs.graph_count++) {
		graphs.graphs[graphs.graph_count] = graphs.graphs[0];
		graphs.graphs[graphs.graph_count].id = (enum graph_xml_id)graphs.graph_count;
	}
	assert_int_equal(graph_xml_write(&graphs, &text, &bytes, &diag), 0);
	free(text);
}

static void rates_have_all_their_digits_in_any_locale(void **state)
{
	static const struct {
		double GBps;
		const char *text;
	} cases[] = {
		{ 0, "speedintra=\"0\"" },
		{ 12, "speedintra=\"12\"" },
		{ 10.2, "speedintra=\"10.2\"" },
		{ 13.333333333, "speedintra=\"13.333333\"" },
		{ 0.1, "speedintra=\"0.1\"" },
		{ 1e-9, "speedintra=\"0.000001\"" },
		{ 999999.999999, "speedintra=\"999999.999999\"" },
	};

	(void)state;
	/* With a decimal comma, if the machine has such a locale. */
	(void)setlocale(LC_NUMERIC, "de_DE.UTF-8");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct graph_xml graphs = one_graph();
		struct diag diag = { .text = "" };
		size_t bytes;
		char *text;

		graphs.graphs[0].intra_GBps = cases[i].GBps;
		assert_int_equal(graph_xml_write(&graphs, &text, &bytes, &diag), 0);
		if (!strstr(text, cases[i].text))
			fail_msg("%s: %s", cases[i].text, text);
		free(text);
	}
	(void)setlocale(LC_NUMERIC, "C");
}

static void classes_that_nccl_has_no_word_for_are_the_next_farther(void **state)
{
	static const struct {
		enum topology_class path_class;
		const char *text;
	} cases[] = {
		{ TOPOLOGY_CLASS_LOC, "typeintra=\"LOC\"" }, { TOPOLOGY_CLASS_NVL, "typeintra=\"NVL\"" },
		{ TOPOLOGY_CLASS_C2C, "typeintra=\"PIX\"" }, { TOPOLOGY_CLASS_PHB, "typeintra=\"PHB\"" },
		{ TOPOLOGY_CLASS_NET, "typeintra=\"SYS\"" }, { TOPOLOGY_CLASS_DIS, "typeintra=\"SYS\"" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct graph_xml graphs = one_graph();
		struct diag diag = { .text = "" };
		size_t bytes;
		char *text;

		graphs.graphs[0].intra_class = cases[i].path_class;
		assert_int_equal(graph_xml_write(&graphs, &text, &bytes, &diag), 0);
		assert_non_null(strstr(text, cases[i].text));
		free(text);
	}
}

static void a_file_may_have_no_graph(void **state)
{
	static const char text[] = "<graphs version=\"1\">\n</graphs>\n";
	struct diag diag = { .text = "" };
	struct graph_xml graphs;

	(void)state;
	assert_int_equal(graph_xml_read(text, strlen(text), &graphs, &diag), 0);
	assert_int_equal(graphs.graph_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_has_no_nets),
		cmocka_unit_test(several_hosts_name_the_nics_by_their_devices_in_hexadecimal),
		cmocka_unit_test(an_nvswitch_that_joins_some_leaves_chains_to_nccl),
		cmocka_unit_test(what_cannot_be_written_is_refused_with_a_reason),
		cmocka_unit_test(what_nccl_would_not_take_is_not_written),
		cmocka_unit_test(sixteen_channels_of_sixteen_gpus_in_four_graphs_fit),
		cmocka_unit_test(rates_have_all_their_digits_in_any_locale),
		cmocka_unit_test(classes_that_nccl_has_no_word_for_are_the_next_farther),
		cmocka_unit_test(a_file_may_have_no_graph),
	};

	return cmocka_run_group_tests_name("ncclxml/graph_write", tests, NULL, NULL);
}
