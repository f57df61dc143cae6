/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How channels are printed and drawn, from plans that are written down here and so do not change when the planner finds
 * others. The texts are compared with what was looked at; the pictures are taken apart.
 */
#include "command/plan/internal.h"
#include "command/plan/flows.h"

#include "base/log.h"
#include "command/show/page.h"
#include "support/machines.h"
#include "unit/command/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

struct made {
	struct topology topology;
	struct channels channels;
};

static void give_orders(struct plan *plan, enum plan_pattern pattern, const char *const *orders)
{
	*plan = (struct plan){ .pattern = pattern, .gpu_count = strlen(orders[0]) };
	for (; *orders; orders++) {
		struct plan_channel *channel = &plan->channels[plan->channel_count++];

		for (size_t i = 0; i < plan->gpu_count; i++)
			channel->order[i] = (uint8_t)((*orders)[i] - '0');
	}
}

/* Two rings, one of them twice, and a tree. */
static void make(const char *machine, unsigned hosts, struct made *ret)
{
	static const char *const rings[] = { "01234567", "01234567", "13205764", NULL }, *const trees[] = { "01234567",
													    NULL };
	struct plan_request request;
	struct diag diag = { 0 };

	machines_of_text(machine, &ret->topology);
	assert_int_equal(plan_request_all(&ret->topology, &request), 0);
	request.hosts = hosts;
	channels_begin(&ret->topology, &request, hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST, "Tributary",
		       &ret->channels);
	give_orders(&ret->channels.graphs[PLAN_RING].plan, PLAN_RING, rings);
	give_orders(&ret->channels.graphs[PLAN_TREE].plan, PLAN_TREE, trees);
	ret->channels.graphs[PLAN_RING].copies = 1;
	ret->channels.graphs[PLAN_TREE].copies = 2;
	for (int i = 0; i < 2; i++)
		if (channels_verify_other(&ret->channels, (enum plan_pattern)i, &diag) < 0)
			fail_msg("%s", diag.text);
}

static void make_usual(unsigned hosts, struct made *ret)
{
	char *machine = program_source_text("tests/browser/machine.topology");

	make(machine, hosts, ret);
	free(machine);
}

static void unmake(struct made *made)
{
	channels_fini(&made->channels);
	topology_fini(&made->topology);
}

/* ------------------------------------------------------------------------------------------------------------- text */

static char *print(const struct channels *channels, const struct channels *other, bool utf8)
{
	struct term term = { .utf8 = utf8 };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	channels_print(channels, other, &term, out);
	fclose(out);
	return text;
}

static void text_is_as_it_was_looked_at(void **state)
{
	struct channels_graph *ring;
	struct made made, other;
	char *text;

	(void)state;
	make_usual(2, &made);
	make_usual(2, &other);
	/* One that is at 80 % of its bound, and one that NCCL fell back to. */
	ring = &made.channels.graphs[PLAN_RING];
	ring->plan.bound_Bps = channels_total_Bps(ring) * 5 / 4;
	ring = &made.channels.graphs[PLAN_TREE];
	ring->plan.bound_Bps = channels_total_Bps(ring);
	snprintf(other.channels.maker, sizeof(other.channels.maker), "NCCL (estimate)");
	other.channels.graphs[PLAN_RING].fallback = true;
	channels_believe(&other.channels, PLAN_TREE, 10, 10);
	text = print(&made.channels, &other.channels, true);
	program_compare(text, "tests/unit/command/plan/golden/plan.txt");
	assert_null(strstr(text, " \n"));
	free(text);
	text = print(&made.channels, NULL, false);
	program_compare(text, "tests/unit/command/plan/golden/plan-ascii.txt");
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
	free(text);
	unmake(&other);
	unmake(&made);
}

static void promise_is_never_rounded_up(void **state)
{
	struct channels_graph graph = { .copies = 1, .rate_Bps = 9999 };
	char words[64];

	(void)state;
	graph.plan.channel_count = 1000;
	graph.plan.bound_Bps = 10001000;
	channels_share_words(&graph, words, sizeof(words));
	assert_string_equal(words, "at least 99.9 % of optimal");
	graph.plan.bound_Bps = 9999 * 1000 + 900; /* less than a byte/s for each channel */
	channels_share_words(&graph, words, sizeof(words));
	assert_string_equal(words, "optimal");
	graph.plan.bound_Bps = 0;
	channels_share_words(&graph, words, sizeof(words));
	assert_string_equal(words, "");
}

/* --------------------------------------------------------------------------------------------------------- pictures */

struct found {
	size_t links, flows, halos, circles;
	int depth;
};

static void XMLCALL begin(void *arg, const char *name, const char **attributes)
{
	struct found *found = arg;

	found->depth++;
	found->circles += !strcmp(name, "circle");
	for (; *attributes; attributes += 2) {
		if (strcmp(attributes[0], "class") != 0)
			continue;
		found->links += !strcmp(attributes[1], "link");
		found->flows += !strcmp(name, "path") && !strncmp(attributes[1], "flow ", 5);
		found->halos += !strcmp(attributes[1], "halo");
	}
}

static void XMLCALL end(void *arg, const char *name)
{
	struct found *found = arg;

	(void)name;
	found->depth--;
}

static struct found take_apart(const char *svg)
{
	XML_Parser parser = XML_ParserCreate("UTF-8");
	struct found found = { 0 };

	assert_non_null(parser);
	XML_SetUserData(parser, &found);
	XML_SetElementHandler(parser, begin, end);
	if (XML_Parse(parser, svg, (int)strlen(svg), 1) != XML_STATUS_OK)
		fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser), XML_ErrorString(XML_GetErrorCode(parser)));
	XML_ParserFree(parser);
	assert_int_equal(found.depth, 0);
	assert_null(strstr(svg, "nan"));
	assert_null(strstr(svg, "inf\""));
	return found;
}

enum drawn { DRAWN_SVG, DRAWN_PAGE };

static char *draw(const struct channels *channels, enum plan_pattern pattern, enum drawn drawn)
{
	struct channels_flows flows;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(channels_flows_make(channels, pattern, &flows), 0);
	if (drawn == DRAWN_PAGE)
		page_begin(channels->topology->name, out);
	assert_int_equal(channels_svg(&flows, out), 0);
	if (drawn == DRAWN_PAGE)
		assert_int_equal(page_end("tributary-plan 1", channels_json(channels), out), 0);
	channels_flows_free(&flows);
	fclose(out);
	return text;
}

static void channels_that_are_alike_are_one_flow(void **state)
{
	struct channels_flows flows;
	uint32_t up, down;
	struct made made;
	char words[256];

	(void)state;
	make_usual(1, &made);
	assert_int_equal(channels_flows_make(&made.channels, PLAN_RING, &flows), 0);
	assert_int_equal(flows.count, 2);
	assert_int_equal(flows.flows[0].count, 2);
	assert_int_equal(flows.flows[1].count, 1);
	channels_flow_words(&flows, 1, words, sizeof(words));
	assert_string_equal(words, "gpu1 → gpu3 → gpu2 → gpu0 → gpu5 → gpu7 → gpu6 → gpu4 → gpu1");
	/* Every ring goes out of each GPU once, and in once. */
	up = topology_find_directed(&made.topology, "gpu3>switch:0000:41:00.0");
	down = topology_find_directed(&made.topology, "switch:0000:41:00.0>gpu3");
	assert_int_equal(flows.flows[0].crossings[up], 1);
	assert_int_equal(flows.flows[1].crossings[down], 1);
	assert_true(flows.load_Bps[up] == 3.0 * (double)made.channels.graphs[PLAN_RING].rate_Bps);
	channels_flows_free(&flows);
	assert_int_equal(channels_flows_make(&made.channels, PLAN_TREE, &flows), 0);
	assert_int_equal(flows.count, 1);
	assert_int_equal(flows.flows[0].count, 2);
	channels_flows_free(&flows);
	unmake(&made);
}

static void picture_has_a_stripe_for_each_flow_in_each_lane(void **state)
{
	struct channels_flows flows;
	size_t stripes = 0;
	struct found found;
	struct made made;
	char *svg;

	(void)state;
	make_usual(1, &made);
	assert_int_equal(channels_flows_make(&made.channels, PLAN_RING, &flows), 0);
	for (size_t i = 0; i < flows.count; i++)
		for (size_t k = 0; k < 2 * made.topology.link_count; k++)
			stripes += flows.flows[i].crossings[k] > 0;
	channels_flows_free(&flows);
	svg = draw(&made.channels, PLAN_RING, DRAWN_SVG);
	found = take_apart(svg);
	assert_int_equal(found.links, made.topology.link_count);
	assert_int_equal(found.flows, stripes + 2); /* the legend has each once */
	assert_int_equal(found.circles, 2 * 8);     /* the places of the GPUs in each */
	/* The slow slot is full, and nothing but it stands out. */
	assert_int_equal(found.halos, 1);
	assert_non_null(strstr(svg, ">full</text>"));
	assert_non_null(strstr(svg, "2 ×  gpu0 → gpu1"));
	free(svg);
	unmake(&made);
}

static const char hostile[] =
	"tributary-topology 1\nname \"</script><script>alert(1)</script>\"\n"
	"vertex cpu cpu0 numa=0\n"
	"vertex gpu gpu0 index=0\nvertex gpu gpu1 index=1\nvertex gpu gpu2 index=2\nvertex gpu gpu3 index=3\n"
	"vertex gpu gpu4 index=4\nvertex gpu gpu5 index=5\nvertex gpu gpu6 index=6\nvertex gpu gpu7 index=7\n"
	"vertex nic <img/src=x\n"
	"link pci gpu0 cpu0\nlink pci gpu1 cpu0\nlink pci gpu2 cpu0\nlink pci gpu3 cpu0\nlink pci gpu4 cpu0\n"
	"link pci gpu5 cpu0\nlink pci gpu6 cpu0\nlink pci gpu7 cpu0\nlink pci <img/src=x cpu0\n";

/* And rates of which nothing is known. */
static void hostile_names_and_unknown_rates_are_drawn_all_the_same(void **state)
{
	char *svg, *page, *text;
	size_t scripts = 0;
	struct made made;

	(void)state;
	make(hostile, 2, &made);
	svg = draw(&made.channels, PLAN_RING, DRAWN_SVG);
	(void)take_apart(svg);
	assert_null(strstr(svg, "<img"));
	page = draw(&made.channels, PLAN_RING, DRAWN_PAGE);
	for (const char *at = page; (at = strstr(at, "<script")); at++)
		scripts++;
	assert_int_equal(scripts, 2);
	assert_null(strstr(page, "<img"));
	text = print(&made.channels, NULL, true);
	assert_non_null(strstr(text, "nothing known limits"));
	free(text);
	free(page);
	free(svg);
	unmake(&made);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_as_it_was_looked_at),
		cmocka_unit_test(promise_is_never_rounded_up),
		cmocka_unit_test(channels_that_are_alike_are_one_flow),
		cmocka_unit_test(picture_has_a_stripe_for_each_flow_in_each_lane),
		cmocka_unit_test(hostile_names_and_unknown_rates_are_drawn_all_the_same),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
