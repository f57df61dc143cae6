/* SPDX-License-Identifier: Apache-2.0 */
#include "command/plan/flows.h"

#include "command/print/table.h"
#include "command/print/units.h"
#include "command/show/view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOADS_SHOWN = 4, LABEL_COLUMNS = 6, BAR_CELLS = 20, COLUMNS = 100, LEAST_COLUMNS = 60, STEP_BYTES = 160 };

struct printer {
	const struct channels *channels;
	const struct term *term;
	FILE *out;
	size_t columns;
	bool any_host; /* a hop through host memory was printed */
};

/* " -PIX> gpu1", and a star for a hop through host memory. A tree goes both ways. */
/* aside: from where the step before it was from, too. */
static void step_words(struct printer *printer, const struct channels_hop *hop, bool both, bool aside, char *text,
		       size_t text_bytes)
{
	const char *name = printer->channels->topology->vertices[hop->to].name;
	const char *line = printer->term->utf8 ? "─" : "-", *arrow = printer->term->utf8 ? "→" : ">";
	const char *back = printer->term->utf8 ? "←" : "<";

	printer->any_host |= hop->host;
	if (aside) {
		snprintf(text, text_bytes, ", %s%s %s", topology_class_word(hop->path_class), hop->host ? "*" : "",
			 name);
		return;
	}
	snprintf(text, text_bytes, " %s%s%s%s %s", both ? back : line, topology_class_word(hop->path_class),
		 hop->host ? "*" : "", both && !printer->term->utf8 ? ">" : arrow, name);
}

/* How many channels from this one on are the same. */
static size_t run_of(const struct plan *plan, size_t channel)
{
	size_t count = 1;

	while (channel + count < plan->channel_count && channels_are_alike(plan, channel, channel + count))
		count++;
	return count;
}

/* The GPUs of a channel in order, broken between hops; returns how many channels that are alike it stands for. */
static size_t print_channel(struct printer *printer, enum plan_pattern pattern, size_t channel)
{
	const struct channels *channels = printer->channels;
	const struct channels_graph *graph = &channels->graphs[pattern];
	size_t run = run_of(&graph->plan, channel), last = (channel + run) * graph->copies - 1, count, column;
	struct channels_hop hops[CHANNELS_HOPS_MAX];
	char text[STEP_BYTES], label[48];
	uint32_t first;

	count = channels_hops(channels, pattern, channel, hops);
	first = count ? hops[0].from : channels->request.gpus[graph->plan.channels[channel].order[0]];
	if (last > channel * graph->copies)
		snprintf(label, sizeof(label), "%zu-%zu", channel * graph->copies, last);
	else
		snprintf(label, sizeof(label), "%zu", channel);
	snprintf(text, sizeof(text), "%s", channels->topology->vertices[first].name);
	fprintf(printer->out, "%*s  %s", LABEL_COLUMNS, label, text);
	column = LABEL_COLUMNS + 2 + strlen(text);
	for (size_t i = 0; i < count; i++) {
		bool aside = i && hops[i].from == hops[i - 1].from;

		step_words(printer, &hops[i], pattern != PLAN_RING, aside, text, sizeof(text));
		if (column + term_width(text) > printer->columns) {
			fprintf(printer->out, "%s\n%*s", aside ? "," : "", LABEL_COLUMNS + 2, "");
			column = LABEL_COLUMNS + 1;
			fputs(text + 1 + aside, printer->out);
		} else {
			fputs(text, printer->out);
		}
		column += term_width(text);
	}
	fputc('\n', printer->out);
	return run;
}

static void print_load(const struct printer *printer, const struct channels_graph *graph, const struct plan_load *load,
		       FILE *rows)
{
	bool full = channels_load_is_full(graph, load);
	double share = channels_load_share(graph, load);
	char name[3 * TOPOLOGY_NAME_BYTES], rate[UNITS_BYTES], most[24];
	const struct term *term = printer->term;

	plan_load_name(printer->channels->topology, load, name, sizeof(name));
	channels_capacity_words(printer->channels->topology, load, term->utf8, most, sizeof(most));
	fprintf(rows, "%s\t%s of\t%s\t%d %%\t", name, units_GBps((uint64_t)channels_load_Bps(graph, load), rate), most,
		(int)(share * 100 + 0.01));
	/* Only what is full fills it. */
	term_bar(term, full ? 1 : fmin(share, 1 - 1.0 / BAR_CELLS), BAR_CELLS, full ? TERM_ORANGE : TERM_BLUE, rows);
	if (full)
		fprintf(rows, "  %s%s full%s", term_on(term, TERM_BOLD), term->utf8 ? "◀" : "<", term_off(term));
	fputc('\n', rows);
}

static void print_loads(const struct printer *printer, const struct channels_graph *graph)
{
	size_t known = 0, full = 0, shown;
	struct table table;
	FILE *rows;

	for (size_t i = 0; i < graph->load_count; i++) {
		known += graph->loads[i].capacity_Bps != 0;
		full += graph->loads[i].capacity_Bps && channels_load_is_full(graph, &graph->loads[i]);
	}
	if (!known || graph->rate_Bps >= PLAN_UNBOUNDED_BPS)
		return;
	shown = known < LOADS_SHOWN ? known : LOADS_SHOWN;
	rows = table_begin(&table, printer->out);
	for (size_t i = 0; i < shown; i++)
		print_load(printer, graph, &graph->loads[i], rows);
	table_end(&table, rows, "      l  r r  r  l");
	if (full > shown)
		fprintf(printer->out, "      and %zu more that are full\n", full - shown);
}

static void print_result(const struct printer *printer, const struct channels_graph *graph)
{
	char bound[24], share[40];

	channels_share_words(graph, share, sizeof(share));
	units_GBps(graph->plan.bound_Bps, bound);
	if (*share && channels_is_optimal(graph))
		fprintf(printer->out, ", optimal");
	else if (*share)
		fprintf(printer->out, ", %s (no channels can move more than %s)", share, bound);
}

/* Where nobody can tell how many hosts there are: what the same channels move on one and on several. */
static void print_where(const struct printer *printer, enum plan_pattern pattern)
{
	const struct channels *channels = printer->channels;
	size_t count = channels_count(&channels->graphs[pattern]);
	char one[24], several[24];

	if (channels->where != PLAN_EITHER || !channels->set.has[pattern])
		return;
	units_GBps(channels->set.intra_Bps[pattern] * count, one);
	units_GBps(channels->set.inter_Bps[pattern] * count, several);
	fprintf(printer->out, "      on one host %s GB/s, on several %s\n", one, several);
}

static void print_graph(struct printer *printer, enum plan_pattern pattern)
{
	const struct channels_graph *graph = &printer->channels->graphs[pattern];
	char sum[96];

	channels_sum_words(graph, printer->term->utf8, sum, sizeof(sum));
	fprintf(printer->out, "\n%s%s%s: %s", term_on(printer->term, TERM_BOLD), channels_pattern_word(pattern),
		term_off(printer->term), sum);
	if (graph->plan.bound_Bps)
		print_result(printer, graph);
	if (graph->fallback)
		fputs("; NCCL finds no channels and takes the GPUs in order, believing 0.1 GB/s", printer->out);
	else if (!graph->plan.bound_Bps && graph->plan.rate_Bps) {
		char believed[24];

		units_GBps(graph->plan.rate_Bps, believed);
		fprintf(printer->out, "; NCCL believes %s each", believed);
	}
	fputc('\n', printer->out);
	print_where(printer, pattern);
	for (size_t i = 0; i < graph->plan.channel_count;)
		i += print_channel(printer, pattern, i);
	print_loads(printer, graph);
}

static void print_gain(const struct printer *printer, const struct channels *other)
{
	const struct channels *ours = printer->channels;

	fputc('\n', printer->out);
	for (int i = 0; i < PLAN_PATTERN_COUNT; i++) {
		double mine, theirs;

		if (!ours->has[i] || !other->has[i])
			continue;
		mine = (double)channels_total_Bps(&ours->graphs[i]);
		theirs = (double)channels_total_Bps(&other->graphs[i]);
		fprintf(printer->out, "%s%s%s: Tributary's channels move %.2f times what NCCL's do\n",
			term_on(printer->term, TERM_BOLD), channels_pattern_word((enum plan_pattern)i),
			term_off(printer->term), theirs > 0 ? mine / theirs : 0);
	}
}

static void print_graphs(struct printer *printer)
{
	char words[160];

	term_title(printer->term, printer->channels->topology->name, printer->out);
	channels_request_words(printer->channels, words, sizeof(words));
	fprintf(printer->out, "%s, channels by %s\n", words, printer->channels->maker);
	for (int i = 0; i < PLAN_PATTERN_COUNT; i++)
		if (printer->channels->has[i])
			print_graph(printer, (enum plan_pattern)i);
}

void channels_print(const struct channels *channels, const struct channels *other, const struct term *term, FILE *out)
{
	struct printer printer = { .channels = channels, .term = term, .out = out, .columns = COLUMNS };

	if (term->columns > LEAST_COLUMNS)
		printer.columns = term->columns;
	print_graphs(&printer);
	if (other) {
		printer.channels = other;
		fputc('\n', out);
		print_graphs(&printer);
		printer.channels = channels;
		print_gain(&printer, other);
	}
	fprintf(out, "\n%sGB/s: (12.0) nominal, ~12.0 assumed, %s12.0 at least. Each plan was verified.%s%s\n",
		term_on(term, TERM_DIM), term->utf8 ? "≥" : ">=", printer.any_host ? " *: through host memory." : "",
		term_off(term));
}
