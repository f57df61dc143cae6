/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a tree of text. */
#include "command/show/view.h"

#include "command/print/table.h"
#include "command/print/units.h"

#include <stdlib.h>
#include <string.h>

enum { BAR_CELLS = 10, PREFIX_BYTES = 256, PAIRS_MAX = 16 };

struct tree {
	const struct view *view;
	const struct term *term;
	FILE *out, *rows; /* rows: name, link, up, down, bar, per cent, what is wrong */
};

static const enum term_colour colours[VIEW_BAND_COUNT] = {
	[VIEW_FULL] = TERM_BLUE, [VIEW_GOOD] = TERM_CYAN, [VIEW_FAIR] = TERM_YELLOW,    [VIEW_POOR] = TERM_ORANGE,
	[VIEW_BAD] = TERM_RED,   [VIEW_BOUND] = TERM_DIM, [VIEW_NO_NOMINAL] = TERM_DIM, [VIEW_UNMEASURED] = TERM_DIM,
};

static void print_link(const struct tree *tree, uint32_t index)
{
	const struct view *view = tree->view;
	const struct topology_link *link = &view->topology->links[index];
	char words[32], up[24], down[24], degraded[80];
	const struct term *term = tree->term;
	enum topology_direction worse = view_worse(view, index);
	const struct view_lane *lane = &view->lanes[topology_directed(index, worse)];
	bool bound = link->capacity[worse].provenance == TOPOLOGY_AT_LEAST;

	view_link_words(view->topology, link, words, sizeof(words));
	view_rate_of(&link->capacity[TOPOLOGY_UP], term->utf8, up, sizeof(up));
	view_rate_of(&link->capacity[TOPOLOGY_DOWN], term->utf8, down, sizeof(down));
	view_degraded(view->topology, link, degraded, sizeof(degraded));
	fprintf(tree->rows, "\t%s\t%s\t%s\t", words, up, down);
	if (lane->share >= 0)
		term_bar(term, lane->share, BAR_CELLS, colours[lane->band], tree->rows);
	fputc('\t', tree->rows);
	if (lane->share >= 0)
		fprintf(tree->rows, "%s%.0f %%", !bound ? "" : term->utf8 ? "≥" : ">=", lane->share * 100);
	if (degraded[0])
		fprintf(tree->rows, "\t%s%s%s", term_on(term, TERM_RED), degraded, term_off(term));
	if (view->lanes[2 * index].bottleneck || view->lanes[2 * index + 1].bottleneck)
		fprintf(tree->rows, "%s%s%s bottleneck%s", degraded[0] ? "  " : "\t", term_on(term, TERM_BOLD),
			term->utf8 ? "◀" : "<", term_off(term));
	fputc('\n', tree->rows);
}

static void print_vertex(const struct tree *tree, uint32_t vertex, const char *prefix)
{
	const struct topology_vertex *at = &tree->view->topology->vertices[vertex];
	bool is_root = tree->view->parent[vertex] == TOPOLOGY_NONE;
	char words[TOPOLOGY_TEXT_BYTES + 80], clean[TOPOLOGY_TEXT_BYTES + 80];

	view_vertex_words(at, words, sizeof(words));
	term_clean(words, clean, sizeof(clean));
	fprintf(tree->rows, "%s%s%s%s%s%s", is_root ? term_on(tree->term, TERM_BOLD) : "", prefix, at->name,
		*clean ? "  " : "", clean, is_root ? term_off(tree->term) : "");
	if (is_root)
		fputc('\n', tree->rows);
	else
		print_link(tree, tree->view->up[vertex]);
}

/* The lines before a child's name, and before the names of its own children. */
static void grow_prefix(const struct term *term, const char *prefix, bool last, bool below, char *ret, size_t ret_bytes)
{
	const char *utf8 = below ? last ? "   " : "│  " : last ? "└─ " : "├─ ";
	const char *plain = below ? last ? "   " : "|  " : last ? "`- " : "|- ";

	snprintf(ret, ret_bytes, "%s%s", prefix, term->utf8 ? utf8 : plain);
}

/* Depth is bounded by the prefix. */
static void walk(const struct tree *tree, uint32_t vertex, const char *own, const char *below)
{
	char child_own[PREFIX_BYTES], child_below[PREFIX_BYTES];
	const struct view *view = tree->view;

	print_vertex(tree, vertex, own);
	for (uint32_t child = view->first_child[vertex]; child != TOPOLOGY_NONE; child = view->next_sibling[child]) {
		bool last = view->next_sibling[child] == TOPOLOGY_NONE;

		grow_prefix(tree->term, below, last, false, child_own, sizeof(child_own));
		grow_prefix(tree->term, below, last, true, child_below, sizeof(child_below));
		walk(tree, child, child_own, child_below);
	}
}

static void print_other_links(const struct tree *tree)
{
	const struct topology *topology = tree->view->topology;
	bool any = false;

	for (uint32_t i = 0; i < topology->link_count; i++) {
		const char *lower = topology->vertices[topology->links[i].lower].name;
		const char *upper = topology->vertices[topology->links[i].upper].name;

		if (view_is_tree_link(tree->view, i))
			continue;
		fprintf(tree->rows, "%s%s %s %s", any ? "" : "\n", lower, tree->term->utf8 ? "↔" : "--", upper);
		print_link(tree, i);
		any = true;
	}
}

/* What cannot be had all at once, as far as it was measured. */
static void print_limits(const struct tree *tree)
{
	const struct topology *topology = tree->view->topology;
	char name[2 * TOPOLOGY_NAME_BYTES + 16], rate[24];
	bool any = false;

	for (size_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[i];

		if (limit->capacity.provenance < TOPOLOGY_AT_LEAST)
			continue;
		view_rate_of(&limit->capacity, tree->term->utf8, rate, sizeof(rate));
		fprintf(tree->out, "%s%s: %s GB/s together:", any ? "" : "\n", limit->name, rate);
		any = true;
		for (size_t j = 0; j < limit->member_count; j++)
			if (!topology_directed_name(topology, limit->members[j], name, sizeof(name)))
				fprintf(tree->out, " %s", name);
		fputc('\n', tree->out);
	}
}

/* What a pair of GPUs gets, the better of its two ways; the class alone where nothing was measured. */
static void pair_text(const struct topology *topology, uint32_t from, uint32_t to, char *text, size_t text_bytes)
{
	const char *word = topology_class_word(topology_class_of(topology, from, to));
	uint32_t index = topology_find_pair(topology, from, to);
	const struct topology_pair *pair = index != TOPOLOGY_NONE ? &topology->pairs[index] : NULL;
	bool host = pair && (!pair->p2p_works || pair->host.rate_Bps > pair->p2p.rate_Bps);
	char rate[24];

	if (from == to) {
		snprintf(text, text_bytes, "-");
	} else if (pair && (pair->p2p.rate_Bps || pair->host.rate_Bps)) {
		units_GBps(host ? pair->host.rate_Bps : pair->p2p.rate_Bps, rate);
		snprintf(text, text_bytes, "%s%s %s", word, host ? "*" : "", rate);
	} else {
		snprintf(text, text_bytes, "%s%s", word, pair && !pair->p2p_works ? "*" : "");
	}
}

static int print_pairs(const struct tree *tree)
{
	const struct topology *topology = tree->view->topology;
	char text[40];
	struct table table;
	bool host = false;
	FILE *rows;
	uint32_t *gpus;
	size_t count;
	int r = topology_list(topology, TOPOLOGY_GPU, &gpus, &count);

	if (r < 0)
		return r;
	if (count > 1 && count <= PAIRS_MAX) {
		rows = table_begin(&table, tree->out);
		fputs("\nfrom \\ to", rows);
		for (size_t i = 0; i < count; i++)
			fprintf(rows, "\t%s", topology->vertices[gpus[i]].name);
		for (size_t i = 0; i < count; i++) {
			fprintf(rows, "\n%s", topology->vertices[gpus[i]].name);
			for (size_t j = 0; j < count; j++) {
				pair_text(topology, gpus[i], gpus[j], text, sizeof(text));
				host |= strchr(text, '*') != NULL;
				fprintf(rows, "\t%s", text);
			}
		}
		fprintf(rows, "\n%s", host ? "* through host memory\n" : "");
		table_end(&table, rows, "l  r");
	}
	free(gpus);
	return 0;
}

static void print_head(const struct tree *tree)
{
	const struct topology *topology = tree->view->topology;
	char summary[240];

	view_summary(tree->view, summary, sizeof(summary));
	term_title(tree->term, topology->name, tree->out);
	fprintf(tree->out, "%s\n\n", summary);
	fputs("\tlink\tup\tdown GB/s\tof nominal\t\n", tree->rows);
}

static void print_foot(const struct tree *tree)
{
	char text[512];

	view_bottleneck(tree->view, tree->term->utf8, text, sizeof(text));
	if (*text)
		fprintf(tree->out, "\n%s%s%s.\n", term_on(tree->term, TERM_BOLD), text, term_off(tree->term));
	fprintf(tree->out,
		"\n%sup: towards the CPU. (12.0): nominal. ~12.0: assumed. %s12.0: at least, something else was the "
		"limit.%s\n",
		term_on(tree->term, TERM_DIM), tree->term->utf8 ? "≥" : ">=", term_off(tree->term));
}

int tree_print(const struct view *view, const struct term *term, FILE *out)
{
	struct tree tree = { .view = view, .term = term, .out = out };
	struct table table;
	int r;

	tree.rows = table_begin(&table, out);
	print_head(&tree);
	for (uint32_t root = view->first_root; root != TOPOLOGY_NONE; root = view->next_sibling[root])
		walk(&tree, root, "", "");
	print_other_links(&tree);
	table_end(&table, tree.rows, "l  l  r  r  l r  l");
	print_limits(&tree);
	r = print_pairs(&tree);
	print_foot(&tree);
	return r;
}
