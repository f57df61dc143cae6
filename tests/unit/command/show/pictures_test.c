/* The pictures of one machine, compared with what was looked at; and of machines that nobody would build. */
#include "command/show/pictures.h"

#include "base/log.h"
#include "unit/command/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <expat.h>
#include <stdlib.h>
#include <string.h>

/* What is drawn, and how. */
enum picture { TREE_UTF8, TREE_ASCII, DOT, SVG, HTML };

static char *draw(const char *machine, enum picture picture)
{
	struct term term = { .utf8 = picture == TREE_UTF8 };
	struct topology topology;
	struct diag diag = { 0 };
	char *text = NULL;
	struct view view;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	if (topology_read(machine, strlen(machine), &topology, &diag) < 0)
		fail_msg("line %d: %s", diag.line, diag.text);
	assert_int_equal(view_make(&topology, &view), 0);
	if (picture == DOT)
		dot_print(&view, out);
	else if (picture == SVG)
		assert_int_equal(svg_print(&view, false, out), 0);
	else if (picture == HTML)
		assert_int_equal(html_print(&view, out), 0);
	else
		assert_int_equal(tree_print(&view, &term, out), 0);
	view_free(&view);
	topology_fini(&topology);
	fclose(out);
	return text;
}

/* TRIBUTARY_TEST_UPDATE=1 writes the file anew, to be looked at before it is committed. */
static void compare(enum picture picture, const char *golden)
{
	char *machine = program_source_text("tests/browser/machine.topology"), *text = draw(machine, picture),
	     path[1024], *wanted;

	if (getenv("TRIBUTARY_TEST_UPDATE")) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", program_source(), golden);
		file = fopen(path, "we");
		assert_non_null(file);
		fputs(text, file);
		assert_int_equal(fclose(file), 0);
	}
	wanted = program_source_text(golden);
	assert_string_equal(text, wanted);
	free(wanted);
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

static void dot_is_as_it_was_looked_at(void **state)
{
	(void)state;
	compare(DOT, "tests/unit/command/show/golden/machine.dot");
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
		cmocka_unit_test(dot_is_as_it_was_looked_at),
		cmocka_unit_test(lines_of_the_tree_end_without_spaces),
		cmocka_unit_test(svg_has_every_link_and_vertex_and_marks_the_bottleneck),
		cmocka_unit_test(hostile_names_stay_text),
		cmocka_unit_test(odd_machines_are_drawn_all_the_same),
	};

	return cmocka_run_group_tests(tests, program_find, NULL);
}
