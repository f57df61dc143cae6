/* The machine for graphviz: dot -Tsvg. */
#include "command/show/dot.h"
#include "command/show/pictures.h"

#include <math.h>
#include <string.h>

void dot_quoted(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? '?' : *text, out);
	}
	fputc('"', out);
}

static void print_vertex(const struct topology_vertex *vertex, FILE *out)
{
	static const char *const fills[TOPOLOGY_KIND_COUNT] = {
		[TOPOLOGY_GPU] = "#e3f3ec",      [TOPOLOGY_NIC] = "#efe6f5",     [TOPOLOGY_SWITCH] = "#d5dbe3",
		[TOPOLOGY_BRIDGE] = "#e8ebef",   [TOPOLOGY_CPU] = "#c4ccd8",     [TOPOLOGY_MEMORY] = "#f3eede",
		[TOPOLOGY_NVSWITCH] = "#d5dbe3", [TOPOLOGY_NETWORK] = "#efe6f5", [TOPOLOGY_HOST] = "#c4ccd8",
	};
	char words[TOPOLOGY_TEXT_BYTES + 80], label[TOPOLOGY_NAME_BYTES + TOPOLOGY_TEXT_BYTES + 96];

	view_vertex_words(vertex, words, sizeof(words));
	snprintf(label, sizeof(label), "%s%s%s", vertex->name, *words ? "; " : "", words);
	fputs("  ", out);
	dot_quoted(vertex->name, out);
	fputs(" [label=", out);
	dot_quoted(label, out);
	fprintf(out, ", fillcolor=\"%s\"];\n", fills[vertex->kind]);
}

static void print_link(const struct view *view, uint32_t index, FILE *out)
{
	const struct topology_link *link = &view->topology->links[index];
	const struct view_lane *lane = &view->lanes[2 * index], *other = lane + 1;
	char up[24], down[24], words[32], label[128];

	view_rate_of(&link->capacity[TOPOLOGY_UP], true, up, sizeof(up));
	view_rate_of(&link->capacity[TOPOLOGY_DOWN], true, down, sizeof(down));
	view_link_words(view->topology, link, words, sizeof(words));
	snprintf(label, sizeof(label), "%s: ↑%s ↓%s", words, up, down);
	if (other->share >= 0 && (lane->share < 0 || other->share < lane->share))
		lane = other;
	fputs("  ", out);
	dot_quoted(view->topology->vertices[link->upper].name, out);
	fputs(" -> ", out);
	dot_quoted(view->topology->vertices[link->lower].name, out);
	fputs(" [label=", out);
	dot_quoted(label, out);
	fprintf(out, ", color=\"%s\", penwidth=%.1f%s%s];\n", view_band_colour(lane->band),
		1 + sqrt((double)lane->rate_Bps / 1e9), lane->bottleneck ? ", fontname=\"Helvetica-Bold\"" : "",
		view_is_tree_link(view, index) ? "" : ", constraint=false");
}

void dot_begin(const struct topology *topology, FILE *out)
{
	fputs("digraph ", out);
	dot_quoted(topology->name[0] ? topology->name : "machine", out);
	fputs(" {\n  graph [rankdir=TB, nodesep=0.4, ranksep=0.8, fontname=\"Helvetica\"];\n"
	      "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];\n"
	      "  edge [dir=none, fontname=\"Helvetica\", fontsize=9];\n",
	      out);
	for (size_t i = 0; i < topology->vertex_count; i++)
		print_vertex(&topology->vertices[i], out);
}

void dot_print(const struct view *view, FILE *out)
{
	dot_begin(view->topology, out);
	for (uint32_t i = 0; i < view->topology->link_count; i++)
		print_link(view, i, out);
	fputs("}\n", out);
}
