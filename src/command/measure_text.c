/* SPDX-License-Identifier: Apache-2.0 */
#include "command/measure_text.h"

#include "command/answer.h"
#include "command/command.h"
#include "command/doctor/doctor.h"
#include "command/json.h"
#include "command/measure_others.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/show/view.h"
#include "command/term.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BAR_CELLS_LEAST = 5, BAR_CELLS_MOST = 30, WHAT_COLUMNS = 40, WHAT_BYTES = 256, USUAL_COLUMNS = 80 };

static const char *const finding_words[MEASURE_FINDING_KIND_COUNT] = {
	[MEASURE_DISTURBED] = "disturbed",
	[MEASURE_CONTRADICTION] = "contradiction",
	[MEASURE_NOT_MEASURABLE] = "not-measurable",
};

void measure_text_begin(FILE *out, struct measure_text *ret)
{
	const char *terminal = getenv("TERM");

	*ret = (struct measure_text){ .out = out,
				      .shown = isatty(fileno(out)) && terminal && strcmp(terminal, "dumb") };
}

/* One less than there are: in the last column a terminal may go on to the next line. It may have been resized. */
static size_t room_of(FILE *out)
{
	size_t columns = options_terminal_columns(out);

	return (columns ? columns : USUAL_COLUMNS) - 1;
}

static size_t draw_bar(FILE *out, size_t room, size_t done, size_t total)
{
	size_t cells = room / 3 < BAR_CELLS_MOST ? room / 3 : BAR_CELLS_MOST;
	size_t full = total ? done * cells / total : 0;

	if (cells < BAR_CELLS_LEAST)
		return 0;
	fputc('[', out);
	for (size_t i = 0; i < cells; i++)
		fputc(i < full ? '#' : '.', out);
	fputs("] ", out);
	return cells + 3;
}

void measure_text_progress(void *arg, size_t done, size_t total, const char *what)
{
	struct measure_text *text = arg;
	char counts[64], clean[WHAT_BYTES];
	size_t room, used;

	if (!text->shown)
		return;
	room = room_of(text->out);
	fputc('\r', text->out);
	used = draw_bar(text->out, room, done, total);
	snprintf(counts, sizeof(counts), "%zu of %zu  ", done, total);
	used += (size_t)fprintf(text->out, "%.*s", (int)(room - used), counts);
	term_clean(what ? what : "", clean, sizeof(clean));
	used += (size_t)fprintf(text->out, "%.*s", (int)(room - used < WHAT_COLUMNS ? room - used : WHAT_COLUMNS),
				clean);
	/* Over what is left of the last line. */
	if (used < text->drawn && text->drawn <= room)
		fprintf(text->out, "%*s", (int)(text->drawn - used), "");
	fflush(text->out);
	text->drawn = used;
}

void measure_text_end(struct measure_text *text)
{
	if (text->drawn)
		fprintf(text->out, "\r%*s\r", (int)text->drawn, "");
	fflush(text->out);
	text->drawn = 0;
}

/* ----------------------------------------------------------------------------------------------------------- table */

/* The measured limit that a directed link is one of the members of; NULL. */
static const struct topology_limit *limit_of(const struct topology *topology, uint32_t directed)
{
	for (size_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[i];

		for (size_t j = 0; j < limit->member_count && limit->capacity.provenance == TOPOLOGY_MEASURED; j++) {
			if (limit->members[j] == directed)
				return limit;
		}
	}
	return NULL;
}

static void limited_by(const struct topology *topology, uint32_t directed, char *text, size_t text_bytes)
{
	enum topology_provenance provenance = topology->links[directed / 2].capacity[directed % 2].provenance;
	const struct topology_limit *limit = limit_of(topology, directed);

	if (provenance == TOPOLOGY_MEASURED)
		snprintf(text, text_bytes, "itself");
	else if (provenance < TOPOLOGY_AT_LEAST)
		snprintf(text, text_bytes, "not measured");
	else if (limit)
		snprintf(text, text_bytes, "at least: %s was the limit", limit->name);
	else
		snprintf(text, text_bytes, "at least: something else was the limit");
}

static void print_row(const struct topology *topology, uint32_t directed, const struct term *term, FILE *rows)
{
	const struct topology_link *link = &topology->links[directed / 2];
	const struct topology_capacity *capacity = &link->capacity[directed % 2];
	char name[2 * TOPOLOGY_NAME_BYTES + 16] = "", rate[24], nominal[24], share[16] = "",
					    by[TOPOLOGY_NAME_BYTES + 40];
	bool measured = capacity->provenance >= TOPOLOGY_AT_LEAST;

	(void)topology_directed_name(topology, directed, name, sizeof(name));
	limited_by(topology, directed, by, sizeof(by));
	units_GBps(link->nominal_Bps, nominal);
	view_rate_of(capacity, term->utf8, rate, sizeof(rate));
	if (link->nominal_Bps && measured)
		snprintf(share, sizeof(share), "%.0f %%", 100 * (double)capacity->rate_Bps / (double)link->nominal_Bps);
	fprintf(rows, "%s\t%s\t%s\t%s\t%s\n", name, link->nominal_Bps ? nominal : "-", measured ? rate : "-", share,
		by);
}

static void print_links(const struct topology *topology, const struct term *term, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fprintf(rows, "%slink, GB/s\tnominal\tmeasured\tshare\tlimited by%s\n", term_on(term, TERM_BOLD),
		term_off(term));
	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		/* A host bridge's way to its CPU has no rate of its own to speak of, unless one was found. */
		if (topology->links[i / 2].kind != TOPOLOGY_LINK_INTERNAL ||
		    topology->links[i / 2].capacity[i % 2].rate_Bps)
			print_row(topology, i, term, rows);
	}
	table_end(&table, rows, "l  r  r  r  l");
}

static void print_limits(const struct topology *topology, FILE *out)
{
	bool any = false;
	char rate[24];

	for (size_t i = 0; i < topology->limit_count; i++) {
		const struct topology_limit *limit = &topology->limits[i];

		if (limit->capacity.provenance < TOPOLOGY_AT_LEAST)
			continue;
		view_rate_of(&limit->capacity, false, rate, sizeof(rate));
		fprintf(out, "%s%s  %s GB/s together\n", any ? "" : "\n", limit->name, rate);
		any = true;
	}
}

/* What was measured from one device to another, one pair at a time; NULL: it was not. */
static const struct topology_capacity *pair_rate(const struct topology *topology, uint32_t from, uint32_t to, bool host)
{
	for (size_t i = 0; i < topology->pair_count; i++) {
		const struct topology_pair *pair = &topology->pairs[i];
		const struct topology_capacity *capacity = host ? &pair->host : &pair->p2p;

		if (pair->from == from && pair->to == to && capacity->provenance >= TOPOLOGY_AT_LEAST)
			return capacity;
	}
	return NULL;
}

/* Whether a device is an end of any pair of the matrix. */
static bool has_rate(const struct topology *topology, uint32_t vertex, enum topology_kind other, bool is_row, bool host)
{
	for (uint32_t i = 0; i < topology->vertex_count; i++)
		if (topology->vertices[i].kind == other &&
		    pair_rate(topology, is_row ? vertex : i, is_row ? i : vertex, host))
			return true;
	return false;
}

struct matrix {
	const char *title;
	enum topology_kind from, to;
	bool host; /* through host memory */
};

/* As nvbandwidth prints them: rows send, columns receive. */
static void print_matrix(const struct topology *topology, const struct matrix *matrix, const struct term *term,
			 FILE *out)
{
	const struct topology_vertex *vertices = topology->vertices;
	struct table table;
	FILE *rows = table_begin(&table, out);
	bool begun = false;

	for (uint32_t from = 0; from < topology->vertex_count; from++) {
		if (vertices[from].kind != matrix->from || !has_rate(topology, from, matrix->to, true, matrix->host))
			continue;
		if (!begun)
			fprintf(rows, "\n%s%s%s", term_on(term, TERM_BOLD), matrix->title, term_off(term));
		for (uint32_t to = 0; !begun && to < topology->vertex_count; to++)
			if (vertices[to].kind == matrix->to &&
			    has_rate(topology, to, matrix->from, false, matrix->host))
				fprintf(rows, "\t%s", vertices[to].name);
		begun = true;
		fprintf(rows, "\n%s", vertices[from].name);
		for (uint32_t to = 0; to < topology->vertex_count; to++) {
			const struct topology_capacity *capacity = pair_rate(topology, from, to, matrix->host);
			char rate[24] = "N/A";

			if (vertices[to].kind != matrix->to ||
			    !has_rate(topology, to, matrix->from, false, matrix->host))
				continue;
			if (capacity)
				view_rate_of(capacity, term->utf8, rate, sizeof(rate));
			fprintf(rows, "\t%s", rate);
		}
	}
	if (begun)
		fputc('\n', rows);
	table_end(&table, rows, "l  r");
}

static void print_matrices(const struct topology *topology, const struct term *term, FILE *out)
{
	static const struct matrix matrices[] = {
		{ "GPU to GPU, P2P, GB/s", TOPOLOGY_GPU, TOPOLOGY_GPU, false },
		{ "GPU to GPU, host memory, GB/s", TOPOLOGY_GPU, TOPOLOGY_GPU, true },
		{ "memory to GPU, GB/s", TOPOLOGY_MEMORY, TOPOLOGY_GPU, false },
		{ "GPU to memory, GB/s", TOPOLOGY_GPU, TOPOLOGY_MEMORY, false },
	};

	for (size_t i = 0; i < sizeof(matrices) / sizeof(matrices[0]); i++)
		print_matrix(topology, &matrices[i], term, out);
}

static void print_findings(const struct measure_report *report, FILE *out)
{
	for (size_t i = 0; i < report->finding_count; i++)
		fprintf(out, "%s%s: %s: %s\n", i ? "" : "\n", finding_words[report->findings[i].kind],
			report->findings[i].subject, report->findings[i].text);
}

/* ---------------------------------------------------------------------------------------------------------- answer */

/* The directed links, and which of them carries least of its nominal rate. */
struct rates {
	size_t known, bounded, low;
	uint32_t worst;
	double worst_share;
};

static struct rates rates_of(const struct topology *topology)
{
	struct rates rates = { .worst_share = 2 };

	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		double share = doctor_measured_share(topology, i);

		rates.known += topology->links[i / 2].capacity[i % 2].provenance == TOPOLOGY_MEASURED;
		rates.bounded += topology->links[i / 2].capacity[i % 2].provenance == TOPOLOGY_AT_LEAST;
		rates.low += share >= 0 && share < DOCTOR_LOW_SHARE;
		if (share < 0 || share >= rates.worst_share)
			continue;
		rates.worst = i;
		rates.worst_share = share;
	}
	return rates;
}

static void answer_low(const struct topology *topology, const struct rates *rates, struct answer *ret)
{
	const struct topology_link *link = &topology->links[rates->worst / 2];
	char name[2 * TOPOLOGY_NAME_BYTES + 16] = "", rate[UNITS_BYTES], nominal[UNITS_BYTES];

	(void)topology_directed_name(topology, rates->worst, name, sizeof(name));
	answer_add(ret, "%zu of %zu measured links carr%s less than %.0f %% of the nominal rate: ", rates->low,
		   rates->known, rates->low == 1 ? "ies" : "y", 100 * DOCTOR_LOW_SHARE);
	answer_add(ret, "%s%s %s of %s GB/s, %.0f %%", rates->low > 1 ? "the worst is " : "", name,
		   units_GBps(link->capacity[rates->worst % 2].rate_Bps, rate), units_GBps(link->nominal_Bps, nominal),
		   100 * rates->worst_share);
}

static void answer_rates(const struct measure_result *result, const struct rates *rates, struct answer *ret)
{
	char text[48];

	if (rates->low)
		answer_low(result->topology, rates, ret);
	else if (rates->worst_share <= 1.5)
		answer_add(ret, "Nothing is wrong: %s measured, none below %.0f %% of its nominal rate",
			   answer_count(rates->known, "rate", text), 100 * rates->worst_share);
	else if (!rates->known)
		answer_add(ret, "No rate is known but as a lower bound");
	else
		answer_add(ret, "%s measured, none of a link whose nominal rate is known",
			   answer_count(rates->known, "rate", text));
	if (rates->bounded && !rates->low)
		answer_add(ret, "; %s", answer_count(rates->bounded, "lower bound", text));
}

static size_t findings_of(const struct measure_report *report, enum measure_finding_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		count += report->findings[i].kind == kind;
	return count;
}

static void answer(const struct measure_result *result, struct answer *ret)
{
	const struct measure_report *report = result->report;
	size_t disturbed = findings_of(report, MEASURE_DISTURBED),
	       contradictions = findings_of(report, MEASURE_CONTRADICTION);
	struct rates rates = rates_of(result->topology);
	char text[48], subjects[200];

	*ret = (struct answer){ .text = "" };
	if (!report->run_count) {
		answer_add(ret, "Nothing was measured.");
		return;
	}
	if (report->stopped || report->out_of_time)
		answer_add(ret, "%s before all was measured. ", report->stopped ? "Interrupted" : "Out of time");
	measure_others_subjects(result->others, subjects, sizeof(subjects));
	if (disturbed || *subjects)
		answer_add(ret, "%s used %s meanwhile", *subjects ? "Other processes" : "Something else",
			   *subjects ? subjects : "this machine");
	if (disturbed)
		answer_add(ret, ", %s could not be used", answer_count(disturbed, "measurement", text));
	if (disturbed || *subjects)
		answer_add(ret, ": measure again when it is idle. ");
	if (contradictions)
		answer_add(ret, "%s of rates in the list below cannot both be right. ",
			   answer_count(contradictions, "pair", text));
	answer_rates(result, &rates, ret);
	if (rates.low)
		answer_add(ret, "; `tributary doctor` looks for the cause.");
	else if (*result->no_gpu)
		answer_add(ret, "; without a GPU there was only memory to measure.");
	else if (*result->path && result->elsewhere)
		answer_add(ret, "; set TRIBUTARY_PROFILE=%s for the plugin to plan by this profile.", result->path);
	else if (*result->path)
		answer_add(ret, "; the plugin plans by this profile, no setting is needed.");
	else
		answer_add(ret, "; no profile is stored.");
}

int measure_print(const struct command_call *call, const struct measure_result *result, FILE *out)
{
	const struct measure_report *report = result->report;
	struct term term = term_of(call, out);
	struct answer first;

	answer(result, &first);
	answer_print(&first, out);
	print_links(result->topology, &term, out);
	print_limits(result->topology, out);
	print_matrices(result->topology, &term, out);
	print_findings(report, out);
	measure_others_print(result->others, out);
	fprintf(out, "\n%zu experiments, %zu runs, %zu repeated, %.1f s%s\n", report->experiment_count,
		report->run_count, report->repeat_count, (double)report->time_ns / 1e9,
		report->stopped       ? "; interrupted"
		: report->out_of_time ? "; out of time, the rest is not measured"
				      : "");
	if (*result->path)
		fprintf(out, "profile: %s\n", result->path);
	return COMMAND_OK;
}

int measure_print_json(const struct measure_result *result, FILE *out)
{
	json_t *value = json_object(), *topology = json_topology(result->topology), *findings = json_array();
	const struct measure_report *report = result->report;
	struct answer first;

	answer(result, &first);
	json_object_set_new(value, "answer", answer_json(&first));
	json_object_update(value, topology);
	json_decref(topology);
	for (size_t i = 0; i < report->finding_count; i++) {
		const struct measure_finding *at = &report->findings[i];

		json_array_append_new(findings, json_pack("{ss so so}", "kind", finding_words[at->kind], "subject",
							  json_text(at->subject), "text", json_text(at->text)));
	}
	json_object_set_new(value, "measurement",
			    json_pack("{sI sI sI sf sb sb so so}", "experiments", (json_int_t)report->experiment_count,
				      "runs", (json_int_t)report->run_count, "repeats",
				      (json_int_t)report->repeat_count, "seconds", (double)report->time_ns / 1e9,
				      "stopped", report->stopped, "out_of_time", report->out_of_time, "findings",
				      findings, "others", measure_others_json(result->others)));
	json_object_set_new(value, "profile", json_known_text(result->path));
	json_object_set_new(value, "no_gpu", json_known_text(result->no_gpu));
	return json_print("tributary-measure 1", value, out);
}
