/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of one machine, compared with what was looked at; and of machines that nobody would build. */
#include "command/json.h"
#include "command/show/page.h"
#include "command/show/view.h"

#include "base/log.h"
#include "support/machines.h"
#include "unit/command/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <expat.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is drawn, and how. */
enum picture { TREE_UTF8, TREE_ASCII, SVG, HTML };

static char *draw(const char *machine, enum picture picture)
{
	struct term term = { .utf8 = picture == TREE_UTF8 };
	struct topology topology;
	char *text = NULL;
	struct view view;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	machines_of_text(machine, &topology);
	assert_int_equal(view_make(&topology, &view), 0);
	if (picture == SVG)
		assert_int_equal(svg_print(&view, out), 0);
	else if (picture != HTML)
		assert_int_equal(tree_print(&view, &term, out), 0);
	if (picture == HTML) {
		page_begin(topology.name, out);
		assert_int_equal(svg_print(&view, out), 0);
		assert_int_equal(page_end("tributary-show 1", json_topology(&topology), out), 0);
	}
	view_free(&view);
	topology_fini(&topology);
	fclose(out);
	return text;
}

static void compare(enum picture picture, const char *golden)
{
	char *machine = program_source_text("tests/browser/machine.topology"), *text = draw(machine, picture);

	program_compare(text, golden);
	free(text);
	free(machine);
}

static void tree_is_as_it_was_looked_at(void **state)
{
	(void)state;
	compare(TREE_UTF8, "tests/unit/command/show/golden/tree.txt");
}

static void tree_without_utf8_is_plain_ascii(void **state)
{
	char *text;

	(void)state;
	compare(TREE_ASCII, "tests/unit/command/show/golden/tree-ascii.txt");
	text = program_source_text("tests/unit/command/show/golden/tree-ascii.txt");
	for (const char *at = text; *at; at++)
		assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
	free(text);
}

static void lines_of_the_tree_end_without_spaces(void **state)
{
	char *text = program_source_text("tests/unit/command/show/golden/tree.txt");

	(void)state;
	assert_null(strstr(text, " \n"));
	free(text);
}

/* ------------------------------------------------------------------------------------------------------------- SVG */

struct counts {
	size_t links, vertices, halos, texts;
	int depth;
};

static void XMLCALL begin(void *arg, const char *name, const char **attributes)
{
	struct counts *counts = arg;

	counts->depth++;
	counts->texts += !strcmp(name, "text");
	for (; *attributes; attributes += 2) {
		if (strcmp(attributes[0], "class") != 0)
			continue;
		counts->links += !strcmp(attributes[1], "link");
		counts->vertices += !strncmp(attributes[1], "vertex ", 7);
		counts->halos += !strcmp(attributes[1], "halo");
	}
}

static void XMLCALL end(void *arg, const char *name)
{
	struct counts *counts = arg;

	(void)name;
	counts->depth--;
}

static struct counts count_elements(const char *svg)
{
	XML_Parser parser = XML_ParserCreate("UTF-8");
	struct counts counts = { 0 };

	assert_non_null(parser);
	XML_SetUserData(parser, &counts);
	XML_SetElementHandler(parser, begin, end);
	if (XML_Parse(parser, svg, (int)strlen(svg), 1) != XML_STATUS_OK)
		fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser), XML_ErrorString(XML_GetErrorCode(parser)));
	XML_ParserFree(parser);
	assert_int_equal(counts.depth, 0);
	return counts;
}

static void svg_has_every_link_and_vertex_and_marks_the_bottleneck(void **state)
{
	char *machine = program_source_text("tests/browser/machine.topology"), *svg = draw(machine, SVG);
	struct counts counts = count_elements(svg);

	(void)state;
	assert_int_equal(counts.vertices, 24);
	assert_int_equal(counts.links, 25);
	assert_int_equal(counts.halos, 1);
	assert_non_null(strstr(svg, ">bottleneck</text>"));
	assert_non_null(strstr(svg, "x8 of x16"));
	/* What a program without styles would show: every lane has its colour as an attribute. */
	assert_non_null(strstr(svg, "stroke=\"#0072b2\""));
	assert_null(strstr(svg, "nan"));
	free(svg);
	free(machine);
}

/* -------------------------------------------------------------------------------------------------- colours and legend */

/* A link of every kind that a legend tells apart, and in its name what that is. */
static const char of_every_kind[] =
	"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex memory memory0 numa=0\n"
	"vertex gpu gpu0 bus=0000:10:00.0\nvertex gpu gpu1 bus=0000:11:00.0\nvertex gpu gpu2 bus=0000:12:00.0\n"
	"vertex gpu gpu3 bus=0000:13:00.0\nvertex gpu gpu4 bus=0000:14:00.0\n"
	"link memory memory0 cpu0\nlink pci gpu0 cpu0 nominal_Bps=20000000000\n"
	"link pci gpu1 cpu0 nominal_Bps=20000000000\nlink pci gpu2 cpu0 nominal_Bps=20000000000\n"
	"link pci gpu3 cpu0 nominal_Bps=20000000000\nlink pci gpu4 cpu0\n"
	"rate memory0>cpu0 150000000000 measured\nrate cpu0>memory0 150000000000 at_least\n"
	"rate gpu0>cpu0 19000000000 measured\nrate cpu0>gpu0 16000000000 measured\n"
	"rate gpu1>cpu0 13000000000 measured\nrate cpu0>gpu1 10000000000 measured\n"
	"rate gpu2>cpu0 2000000000 measured\nrate cpu0>gpu2 10000000000 at_least\n"
	"rate gpu3>cpu0 20000000000 nominal\nrate cpu0>gpu3 19000000000 at_least\n"
	"rate gpu4>cpu0 20000000000 assumed\n";

/* Said anew, of what the graph says. */
static const char *expected_words(const struct topology *topology, uint32_t directed)
{
	const struct topology_link *link = &topology->links[directed / 2];
	const struct topology_capacity *capacity = &link->capacity[directed % 2];
	uint64_t percent = link->nominal_Bps ? capacity->rate_Bps * 100 / link->nominal_Bps : 0;

	if (capacity->provenance != TOPOLOGY_MEASURED && capacity->provenance != TOPOLOGY_AT_LEAST)
		return "not measured";
	if (!link->nominal_Bps)
		return "measured, no nominal rate";
	if (percent >= 90)
		return "90 % or more";
	if (capacity->provenance == TOPOLOGY_AT_LEAST)
		return "lower bound";
	return percent >= 75   ? "75 to 90 %"
	       : percent >= 60 ? "60 to 75 %"
	       : percent >= 40 ? "40 to 60 %"
			       : "under 40 %";
}

enum { SEEN_MAX = 256 };

struct seen_colours {
	int link; /* whose group this is; -1: none's */
	struct {
		char look[32]; /* class or colour */
		char words[64];
	} legend[SEEN_MAX], lanes[SEEN_MAX];
	size_t legend_count, lane_count;
	bool by_class, in_words;
};

static void XMLCALL begin_colour(void *arg, const char *name, const char **attributes)
{
	struct seen_colours *seen = arg;
	const char *class = "", *colour = "", *link = NULL, *look;

	for (; *attributes; attributes += 2) {
		if (!strcmp(attributes[0], "class"))
			class = attributes[1];
		else if (!strcmp(attributes[0], "stroke"))
			colour = attributes[1];
		else if (!strcmp(attributes[0], "data-link"))
			link = attributes[1];
	}
	if (link)
		seen->link = atoi(link);
	else if (!strcmp(name, "g"))
		seen->link = -1;
	seen->in_words = !strcmp(name, "text") && seen->link < 0 && seen->legend_count &&
			 !seen->legend[seen->legend_count - 1].words[0];
	if (strncmp(class, "stream ", 7) != 0)
		return;
	look = seen->by_class ? class : colour;
	assert_true(seen->legend_count < SEEN_MAX && seen->lane_count < SEEN_MAX);
	if (seen->link < 0)
		snprintf(seen->legend[seen->legend_count++].look, 32, "%s", look);
	else
		snprintf(seen->lanes[seen->lane_count++].look, 32, "%s", look);
}

static void XMLCALL words_of_colour(void *arg, const char *text, int bytes)
{
	struct seen_colours *seen = arg;
	char *words = seen->legend_count ? seen->legend[seen->legend_count - 1].words : NULL;

	if (seen->in_words && words)
		snprintf(words + strlen(words), 64 - strlen(words), "%.*s", bytes, text);
}

static void XMLCALL end_colour(void *arg, const char *name)
{
	struct seen_colours *seen = arg;

	seen->in_words = false;
	if (!strcmp(name, "g"))
		seen->link = -1;
}

static void see_colours(const char *svg, size_t bytes, struct seen_colours *seen)
{
	XML_Parser parser = XML_ParserCreate("UTF-8");

	assert_non_null(parser);
	seen->link = -1;
	XML_SetUserData(parser, seen);
	XML_SetElementHandler(parser, begin_colour, end_colour);
	XML_SetCharacterDataHandler(parser, words_of_colour);
	assert_int_equal(XML_Parse(parser, svg, (int)bytes, 1), XML_STATUS_OK);
	XML_ParserFree(parser);
}

static const char *words_for(const struct seen_colours *seen, const char *look)
{
	const char *found = NULL;

	for (size_t i = 0; i < seen->legend_count; i++) {
		if (strcmp(seen->legend[i].look, look) != 0)
			continue;
		assert_null(found); /* one colour, one meaning */
		found = seen->legend[i].words;
	}
	if (!found)
		fail_msg("the legend does not have %s", look);
	return found;
}

static void compare_colours(const char *machine, const struct seen_colours *seen)
{
	struct topology topology;

	machines_of_text(machine, &topology);
	assert_int_equal(seen->lane_count, 2 * topology.link_count);
	for (uint32_t i = 0; i < 2 * topology.link_count; i++)
		assert_string_equal(words_for(seen, seen->lanes[i].look), expected_words(&topology, i));
	topology_fini(&topology);
}

static void colours_of_the_drawing_are_those_of_its_legend(void **state)
{
	char *browser = program_source_text("tests/browser/machine.topology");
	const char *machines[] = { of_every_kind, browser };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		char *svg = draw(machines[i], SVG);
		struct seen_colours seen = { 0 };

		see_colours(svg, strlen(svg), &seen);
		compare_colours(machines[i], &seen);
		if (i == 0)
			assert_int_equal(seen.legend_count, VIEW_BAND_COUNT);
		free(svg);
	}
	free(browser);
}

/* Of each theme: "--band-3: #e68a00" once, and no other band has that colour. */
static void check_themes(const char *html)
{
	const char *dark = strstr(html, ":root.dark"), *rest = strstr(html, "* { box-sizing"),
		   *begins[] = { html, dark };

	assert_true(dark && rest);
	for (size_t theme = 0; theme < 2; theme++) {
		char colours[VIEW_BAND_COUNT][16];

		for (int band = 0; band < VIEW_BAND_COUNT; band++) {
			char name[64];
			const char *at;

			snprintf(name, sizeof(name), "--band-%d: ", band);
			at = strstr(begins[theme], name);
			assert_true(at && at < (theme ? rest : dark));
			snprintf(colours[band], 16, "%.7s", at + strlen(name));
			for (int other = 0; other < band; other++)
				assert_string_not_equal(colours[band], colours[other]);
			snprintf(name, sizeof(name), ".band-%d { --band: var(--band-%d); }", band, band);
			assert_non_null(strstr(rest, name));
		}
	}
}

/* There the classes tell. */
static void colours_of_the_page_are_those_of_its_legend(void **state)
{
	char *html = draw(of_every_kind, HTML), *picture = strstr(html, "<svg "), *after = strstr(html, "</svg>");
	struct seen_colours seen = { .by_class = true };

	(void)state;
	assert_true(picture && after);
	check_themes(html);
	see_colours(picture, (size_t)(after - picture) + strlen("</svg>"), &seen);
	compare_colours(of_every_kind, &seen);
	assert_int_equal(seen.legend_count, VIEW_BAND_COUNT);
	free(html);
}

static const char hostile[] = "tributary-topology 1\n"
			      "name \"<script>alert(1)</script>&'\"\n"
			      "vertex cpu cpu0 numa=0 model=\"</script><script>alert(2)</script>\"\n"
			      "vertex nic nic:<img/src=x interface=\"<b>\\x1b[2J\" port=1\n"
			      "link pci nic:<img/src=x cpu0 nominal_Bps=1000000000\n";

static void hostile_names_stay_text(void **state)
{
	char *svg = draw(hostile, SVG), *html = draw(hostile, HTML), *tree = draw(hostile, TREE_UTF8);
	size_t scripts = 0;

	(void)state;
	(void)count_elements(svg);
	assert_null(strstr(svg, "<script"));
	for (const char *at = html; (at = strstr(at, "<script")); at++)
		scripts++;
	assert_int_equal(scripts, 2); /* the data and our own */
	assert_null(strstr(html, "<img"));
	assert_null(strstr(html, "<b>\033"));
	assert_null(strchr(tree, '\033'));
	free(tree);
	free(html);
	free(svg);
}

/* Rings where trees are meant, vertices without links, unknown rates, hosts without CPUs. */
static void odd_machines_are_drawn_all_the_same(void **state)
{
	static const char *const machines[] = {
		"tributary-topology 1\n",
		"tributary-topology 1\nvertex gpu gpu0\nvertex gpu gpu1\nvertex memory memory0\n",
		"tributary-topology 1\nvertex switch switch:a\nvertex switch switch:b\nvertex switch switch:c\n"
		"link pci switch:a switch:b\nlink pci switch:b switch:c\nlink pci switch:c switch:a\n",
		"tributary-topology 1\nvertex host host0\nvertex host host1\nvertex network leaf0\nvertex network "
		"spine0\n"
		"link network host0 leaf0 nominal_Bps=1250000000\nlink network host1 leaf0 nominal_Bps=1250000000\n"
		"link network leaf0 spine0\n",
		"tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex cpu cpu1 numa=1\nvertex cpu cpu2 numa=2\nvertex "
		"cpu cpu3 numa=3\n"
		"link socket cpu0 cpu3\nlink socket cpu1 cpu3\nlink socket cpu0 cpu1\nlink socket cpu3 cpu2\n",
		"tributary-topology 1\nvertex gpu gpu0\nvertex gpu gpu1\nvertex nvswitch nvswitch0\nvertex cpu cpu0 "
		"numa=0\n"
		"link pci gpu0 cpu0\nlink pci gpu1 cpu0\nlink nvlink gpu0 nvswitch0 count=6 nominal_Bps=120000000000\n"
		"link nvlink gpu1 nvswitch0 count=6 nominal_Bps=120000000000\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		for (int picture = TREE_UTF8; picture <= HTML; picture++) {
			char *text = draw(machines[i], (enum picture)picture);

			assert_true(strlen(text) > 0);
			if (picture == SVG) {
				(void)count_elements(text);
				assert_null(strstr(text, "nan"));
				assert_null(strstr(text, "inf "));
			}
			free(text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_is_as_it_was_looked_at),
		cmocka_unit_test(tree_without_utf8_is_plain_ascii),
		cmocka_unit_test(lines_of_the_tree_end_without_spaces),
		cmocka_unit_test(svg_has_every_link_and_vertex_and_marks_the_bottleneck),
		cmocka_unit_test(colours_of_the_drawing_are_those_of_its_legend),
		cmocka_unit_test(colours_of_the_page_are_those_of_its_legend),
		cmocka_unit_test(hostile_names_stay_text),
		cmocka_unit_test(odd_machines_are_drawn_all_the_same),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
