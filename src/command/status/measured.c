/* SPDX-License-Identifier: Apache-2.0 */
#include "command/status/measured.h"

#include "base/parse.h"
#include "base/sys.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/term.h"
#include "tributary/predict.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_SHOWN = 24, WORDS_BYTES = 64 };

void measured_fini(struct measured *measured)
{
	for (size_t i = 0; i < measured->row_count; i++)
		sys_free(measured->rows[i].ranks);
	sys_free(measured->rows);
	*measured = (struct measured){ .row_count = 0 };
}

bool measured_has_times(const struct job *job)
{
	for (size_t i = 0; i < job->operation_count; i++)
		if (job->operations[i].sampled)
			return true;
	return false;
}

/* ----------------------------------------------------------------------------------------------------------- evidence */

static bool has_word(const char *list, const char *word, size_t word_bytes)
{
	const char *item;
	size_t bytes;

	while (parse_list_next(&list, ',', &item, &bytes))
		if (bytes == word_bytes && !memcmp(item, word, bytes))
			return true;
	return false;
}

static size_t count_words(const char *list)
{
	const char *item;
	size_t bytes, count = 0;

	while (parse_list_next(&list, ',', &item, &bytes))
		count++;
	return count;
}

/* The communicators of a kind have an id of the last one only: else the one kind that has as many GPUs. */
static const struct job_comm *comm_of(const struct job *job, const struct operations_line *of)
{
	const struct job_comm *fits = NULL;
	size_t fit_count = 0;
	char id[17];

	snprintf(id, sizeof(id), "%016" PRIx64, of->comm_id);
	for (size_t i = 0; i < job->comm_count; i++) {
		const struct job_comm *comm = &job->comms[i];

		if (!strcmp(comm->last_id, id))
			return comm;
		if (of->node_count && count_words(comm->gpus) * of->node_count == of->rank_count) {
			fits = comm;
			fit_count++;
		}
	}
	return fit_count == 1 ? fits : NULL;
}

static bool shares_gpus(const struct job *job, const char *gpus)
{
	const char *item;
	size_t bytes;

	while (parse_list_next(&gpus, ',', &item, &bytes))
		for (size_t i = 0; i < job->comm_count; i++)
			if (has_word(job->comms[i].gpus, item, bytes))
				return true;
	return false;
}

static bool leaves_host(const struct job *job)
{
	for (size_t i = 0; i < job->operation_count; i++)
		if (job->operations[i].node_count > 1)
			return true;
	return false;
}

/* Another job of this host that ran at the same time on the same GPUs, or over the network as this one does. */
static const struct job *other_job(const struct job *job, const struct jobs *jobs, const struct measured_row *row)
{
	for (size_t i = 0; i < jobs->count; i++) {
		const struct job *other = &jobs->at[i];

		if (other == job || strcmp(other->process.host, job->process.host) != 0 ||
		    (!other->running && other->end_s < job->process.start_s) ||
		    (!job->running && job->end_s < other->process.start_s))
			continue;
		if ((row->of.node_count > 1 && leaves_host(other)) ||
		    (row->comm && shares_gpus(other, row->comm->gpus)))
			return other;
	}
	return NULL;
}

/* Of an operation whose time was sampled, or of any. */
static uint64_t mean_bytes(const struct measured_row *row)
{
	if (row->of.sampled)
		return row->of.sampled_bytes / row->of.sampled;
	return row->of.count ? row->of.bytes / row->of.count : 0;
}

static void compare_row(const struct job *job, const struct jobs *jobs, struct expect *expect, struct measured_row *row)
{
	const struct expect_comm comm = { .gpus = row->comm ? row->comm->gpus : "",
					  .rank_count = row->of.rank_count,
					  .node_count = row->of.node_count,
					  .planned = row->comm && row->comm->channels };
	const struct job *other = other_job(job, jobs, row);

	row->at = (struct compare_case){ .taken = { row->of.algorithm, row->of.protocol },
					 .ranks = row->ranks,
					 .rank_count = row->rank_count };
	/* A process that plans nothing tells of no GPUs: those of the machine, if they are as many. */
	if (row->comm || !job->comm_count) {
		expect_case(expect, &comm, row->of.collective, mean_bytes(row), &row->at);
		if (expect_link(expect, &comm, &row->link))
			row->at.link = &row->link;
	}
	if (other) {
		snprintf(row->other_job, sizeof(row->other_job), "%s (job %s)", other->process.command,
			 other->process.job);
		row->at.other_job = row->other_job;
	}
	row->cause = compare_explain(&row->at, row->why);
}

/* --------------------------------------------------------------------------------------------------------------- rows */

static bool is_same(const struct operations_line *a, const struct operations_line *b)
{
	return a->comm_id == b->comm_id && a->collective == b->collective && a->size_class == b->size_class &&
	       a->algorithm == b->algorithm && a->protocol == b->protocol && a->channels == b->channels;
}

static struct measured_row *row_of(struct measured *measured, const struct job *job, const struct operations_line *of)
{
	struct measured_row *row;

	for (size_t i = 0; i < measured->row_count; i++)
		if (is_same(&measured->rows[i].of, of))
			return &measured->rows[i];
	if (sys_grow(&measured->rows, measured->row_count, 1, sizeof(*row)) < 0)
		return NULL;
	row = &measured->rows[measured->row_count++];
	*row = (struct measured_row){ .of = *of, .comm = comm_of(job, of) };
	row->of.sampled = row->of.sampled_bytes = row->of.sampled_ns = 0;
	return row;
}

static int add(struct measured *measured, const struct job *job, const struct operations_line *of)
{
	struct measured_row *row = row_of(measured, job, of);
	struct compare_rank *rank;

	if (!row)
		return -ENOMEM;
	if (of->count > row->of.count) {
		row->of.count = of->count;
		row->of.bytes = of->bytes;
	}
	row->of.sampled += of->sampled;
	row->of.sampled_bytes += of->sampled_bytes;
	row->of.sampled_ns += of->sampled_ns;
	if (!of->sampled)
		return 0;
	if (sys_grow(&row->ranks, row->rank_count, 1, sizeof(*rank)) < 0)
		return -ENOMEM;
	rank = &row->ranks[row->rank_count++];
	rank->time_us = (double)of->sampled_ns / (double)of->sampled / 1e3;
	if (of->rank >= 0)
		snprintf(rank->name, sizeof(rank->name), "rank %d", of->rank);
	else
		snprintf(rank->name, sizeof(rank->name), "one rank");
	return 0;
}

static int by_comm(const void *left, const void *right)
{
	const struct operations_line *a = &((const struct measured_row *)left)->of;
	const struct operations_line *b = &((const struct measured_row *)right)->of;
	int order = (a->comm_id > b->comm_id) - (a->comm_id < b->comm_id);

	if (!order)
		order = (a->collective > b->collective) - (a->collective < b->collective);
	if (!order)
		order = (a->size_class > b->size_class) - (a->size_class < b->size_class);
	return order ? order : (a->count < b->count) - (a->count > b->count);
}

int measured_make(const struct job *job, const struct jobs *jobs, struct expect *expect, struct measured *ret)
{
	int r = 0;

	*ret = (struct measured){ .has_times = measured_has_times(job),
				  .times = job->operations_head.times,
				  .why_not = expect ? expect_why_not(expect)
						    : "it ran elsewhere, or this machine cannot be looked at" };
	for (size_t i = 0; i < job->operation_count && r == 0; i++)
		r = add(ret, job, &job->operations[i]);
	if (r < 0) {
		measured_fini(ret);
		return r;
	}
	if (ret->row_count)
		qsort(ret->rows, ret->row_count, sizeof(*ret->rows), by_comm);
	for (size_t i = 0; i < ret->row_count; i++)
		compare_row(job, jobs, expect, &ret->rows[i]);
	return 0;
}

const struct measured_row *measured_worst(const struct measured *measured)
{
	const struct measured_row *worst = NULL;
	double most_us = 0;

	for (size_t i = 0; i < measured->row_count; i++) {
		const struct measured_row *row = &measured->rows[i];
		double lost_us = (compare_measured_us(&row->at) - row->at.predicted_us) * (double)row->of.count;

		if (row->cause < COMPARE_CHOICE || lost_us <= most_us)
			continue;
		most_us = lost_us;
		worst = row;
	}
	return worst;
}

/* --------------------------------------------------------------------------------------------------------------- text */

static bool is_collective(const struct measured_row *row)
{
	return row->of.collective >= 0 && row->of.collective < PREDICT_COLLECTIVE_COUNT;
}

static const char *kind_of(const struct measured_row *row)
{
	return is_collective(row) ? predict_collective_word((enum predict_collective)row->of.collective)
				  : operations_collective_word(row->of.collective);
}

static double bytes_most(const struct measured_row *row)
{
	return ldexp(1, (int)row->of.size_class);
}

double measured_bus_bytes(const struct measured_row *row)
{
	if (!is_collective(row) || !row->of.rank_count)
		return 0;
	return predict_bus_factor((enum predict_collective)row->of.collective, row->of.rank_count) *
	       (double)mean_bytes(row);
}

/* busbw of what takes so long; 0: not known. */
static double rate_Bps(const struct measured_row *row, double time_us)
{
	return time_us > 0 ? measured_bus_bytes(row) / (time_us / 1e6) : 0;
}

static const char *rate_words(double rate_Bps, char text[static UNITS_BYTES])
{
	if (rate_Bps > 0)
		return units_rate(rate_Bps, text);
	snprintf(text, UNITS_BYTES, "-");
	return text;
}

static const char *algorithm_of(int algorithm)
{
	return algorithm < 0 || algorithm >= PREDICT_ALGORITHM_COUNT
		       ? "?"
		       : predict_algorithm_word((enum predict_algorithm)algorithm);
}

static const char *protocol_of(int protocol)
{
	return protocol < 0 || protocol >= PREDICT_PROTOCOL_COUNT
		       ? "?"
		       : predict_protocol_word((enum predict_protocol)protocol);
}

void measured_answer(const struct measured_row *row, struct answer *answer)
{
	char size[UNITS_BYTES], is[UNITS_BYTES], predicted[UNITS_BYTES];

	answer_add(answer, "%s of up to %s reaches %s where %s was predicted: %s", kind_of(row),
		   units_size(bytes_most(row), size), rate_words(rate_Bps(row, compare_measured_us(&row->at)), is),
		   rate_words(rate_Bps(row, row->at.predicted_us), predicted), row->why);
}

/* "Ring/LL128, 4 channels"; messages have no algorithm, and NCCL does not always tell the rest. */
static void taken_words(const struct operations_line *of, char text[static WORDS_BYTES])
{
	size_t used = 0;

	text[0] = '\0';
	if (of->algorithm >= 0)
		used = (size_t)snprintf(text, WORDS_BYTES, "%s", algorithm_of(of->algorithm));
	if (of->protocol >= 0)
		used += (size_t)snprintf(text + used, WORDS_BYTES - used, "/%s", protocol_of(of->protocol));
	if (of->channels)
		snprintf(text + used, WORDS_BYTES - used, "%s%u channel%s", used ? ", " : "", of->channels,
			 of->channels == 1 ? "" : "s");
}

static void print_row(const struct measured_row *row, FILE *rows)
{
	char size[UNITS_BYTES], is[UNITS_BYTES], predicted[UNITS_BYTES],
		gpus[JOB_GPUS_BYTES + 8] = "", taken[WORDS_BYTES], why[COMPARE_TEXT_BYTES];

	if (row->comm) {
		char list[JOB_GPUS_BYTES];

		term_clean(row->comm->gpus, list, sizeof(list));
		snprintf(gpus, sizeof(gpus), "GPU%s %s, ", strchr(list, ',') ? "s" : "", list);
	}
	term_clean(row->why, why, sizeof(why));
	taken_words(&row->of, taken);
	fprintf(rows, "    %s%u ranks\t%s\t%s\t%s\t%" PRIu64 "\t%s\t%s\n", gpus, row->of.rank_count, kind_of(row),
		units_size(bytes_most(row), size), taken, row->of.count,
		rate_words(rate_Bps(row, compare_measured_us(&row->at)), is),
		rate_words(rate_Bps(row, row->at.predicted_us), predicted));
	if (why[0])
		fprintf(rows, "      %s\n", why);
}

static const char *why_no_times(enum operations_times times)
{
	switch (times) {
	case OPERATIONS_TIMES_OFF:
		return "TRIBUTARY_PROFILER=time samples some";
	case OPERATIONS_TIMES_OLD:
		return "this NCCL does not say what CUDA graphs capture, so none may be timed";
	case OPERATIONS_TIMES_GRAPHS:
		return "a CUDA graph was captured, behind which none may be timed";
	default:
		return "no sample was taken yet";
	}
}

void measured_print(const struct measured *measured, FILE *out)
{
	struct table table;
	FILE *rows;

	if (!measured->row_count)
		return;
	rows = table_begin(&table, out);
	fputs("  collectives\t\tup to\tNCCL took\tcount\tmeasured\tpredicted (busbw)\n", rows);
	for (size_t i = 0; i < measured->row_count && i < ROWS_SHOWN; i++)
		print_row(&measured->rows[i], rows);
	table_end(&table, rows, "l  l  r  l  r  r  r");
	if (measured->row_count > ROWS_SHOWN)
		fprintf(out, "    and %zu more (--json)\n", measured->row_count - ROWS_SHOWN);
	if (!measured->has_times)
		fprintf(out, "    no times: %s\n", why_no_times(measured->times));
	else if (measured->why_not)
		fprintf(out, "    nothing is predicted: %s\n", measured->why_not);
}

/* --------------------------------------------------------------------------------------------------------------- JSON */

static json_t *known(double value)
{
	return value > 0 ? json_real(value) : json_null();
}

static json_t *way_json(struct compare_way way)
{
	if (way.algorithm < 0 || way.protocol < 0)
		return json_null();
	return json_pack("{ss ss}", "algorithm", algorithm_of(way.algorithm), "protocol", protocol_of(way.protocol));
}

json_t *measured_json(const struct measured *measured)
{
	json_t *list = json_array();

	for (size_t i = 0; i < measured->row_count; i++) {
		const struct measured_row *row = &measured->rows[i];
		double is_us = compare_measured_us(&row->at);
		char id[17];

		snprintf(id, sizeof(id), "%016" PRIx64, row->of.comm_id);
		json_array_append_new(
			list,
			json_pack("{so sI sI ss sI sI so sI sI so so so so so ss so}", "communicator", json_text(id),
				  "ranks", (json_int_t)row->of.rank_count, "hosts", (json_int_t)row->of.node_count,
				  "collective", kind_of(row), "bytes_most", (json_int_t)bytes_most(row), "count",
				  (json_int_t)row->of.count, "taken", way_json(row->at.taken), "channels",
				  (json_int_t)row->of.channels, "timed", (json_int_t)row->of.sampled, "measured_us",
				  known(is_us), "measured_GBps", known(rate_Bps(row, is_us) / 1e9), "predicted",
				  way_json(row->at.predicted), "predicted_us", known(row->at.predicted_us),
				  "predicted_GBps", known(rate_Bps(row, row->at.predicted_us) / 1e9), "cause",
				  compare_cause_word(row->cause), "why", json_known_text(row->why)));
	}
	return list;
}
