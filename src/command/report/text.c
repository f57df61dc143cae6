/* SPDX-License-Identifier: Apache-2.0 */
/* A report for people, and as JSON. */
#include "command/report/report.h"

#include "command/answer.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/term.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where one collective is so much of what is exposed, it stands for all; where a rank computes so much longer, that is why. */
#define MOST_PART   0.9
#define LONGER_PART 1.03
/* Less is not worth a second look. */
#define WORTH_PART  0.02

static double part(double of, double whole)
{
	return whole > 0 ? of / whole : 0;
}

static const char *time_words(double time_ns, char text[static UNITS_BYTES])
{
	return units_time(time_ns / 1e9, text);
}

static double algbw_Bps(const struct report_row *row)
{
	return row->bytes && row->time_ns > 0 ? (double)row->bytes / ((double)row->time_ns / 1e9) : NAN;
}

static double busbw_Bps(const struct report_row *row)
{
	double factor = report_bus_factor(row->collective, row->ranks);

	return factor > 0 ? factor * algbw_Bps(row) : NAN;
}

/* -------------------------------------------------------------------------------------------------------------- answer */

static const struct report_rank *rank_named(const struct report *report, const char *name)
{
	for (size_t i = 0; i < report->rank_count; i++)
		if (!strcmp(report->ranks[i].name, name))
			return &report->ranks[i];
	return NULL;
}

/* Of the time of the traces, what is spent computing. */
static double computing_part(const struct report_rank *rank)
{
	return part((double)rank->computing_ns, (double)(rank->end_ns - rank->begin_ns));
}

static void answer_slow(const struct report *report, struct answer *answer)
{
	const struct report_member *slow = report->slow;
	const struct report_rank *rank;
	char own[UNITS_BYTES], others[UNITS_BYTES];
	double most = 0;

	if (!slow)
		return;
	answer_add(
		answer,
		" The other ranks wait for %s%s%s, which spends %s in a collective of %s where they spend %s (median).",
		slow->name, *slow->host ? " on " : "", slow->host, time_words(report->slow_ns, own),
		report->groups[slow->group].name, time_words(report->others_ns, others));
	rank = rank_named(report, slow->name);
	for (size_t i = 0; i < report->rank_count; i++)
		if (&report->ranks[i] != rank && computing_part(&report->ranks[i]) > most)
			most = computing_part(&report->ranks[i]);
	if (rank && computing_part(rank) > LONGER_PART * most)
		answer_add(answer, " It computes longest.");
	else if (rank)
		answer_add(answer, " It does not compute longer than all others: its input or its CPU is late.");
}

static void answer_trace(const struct report *report, struct answer *answer)
{
	struct report_total total = report_total(report);
	double share = part((double)total.exposed_ns, (double)total.time_ns);
	size_t times = total.step_count ? total.step_count : report->rank_count, most = 0;
	char exposed[UNITS_BYTES], time[UNITS_BYTES], ranks[48], mean[64] = "";
	bool is_one;

	answer_count(report->rank_count, "rank", ranks);
	if (!total.communication_ns) {
		answer_add(answer, "There is no communication: no kernel of NCCL runs in the trace%s of %s.",
			   report->rank_count == 1 ? "" : "s", ranks);
		return;
	}
	for (size_t i = 1; i < REPORT_COLLECTIVE_COUNT; i++)
		most = total.exposed_by[i] > total.exposed_by[most] ? i : most;
	is_one = (double)total.exposed_by[most] >= MOST_PART * (double)total.exposed_ns && total.exposed_ns;
	if (report->rank_count > 1)
		snprintf(mean, sizeof(mean), ", mean of %s", ranks);
	answer_add(answer, "%s is exposed for %.1f %% of the %s: %s of %s%s",
		   is_one ? report_collective_word((enum report_collective)most) : "Communication", 100 * share,
		   total.step_count ? "step" : "trace", time_words((double)total.exposed_ns / (double)times, exposed),
		   time_words((double)total.time_ns / (double)times, time), mean);
	if (!is_one && total.exposed_ns)
		answer_add(answer, "; most of it is %s (%.1f %%)", report_collective_word((enum report_collective)most),
			   100 * part((double)total.exposed_by[most], (double)total.time_ns));
	answer_add(answer, ". Computing hides %.0f %% of communication.",
		   100 * (1 - part((double)total.exposed_ns, (double)total.communication_ns)));
	if (share >= WORTH_PART)
		answer_add(answer, " A faster network can gain no more than that; `tributary explain` and `tributary "
				   "simulate` predict how much.");
	answer_slow(report, answer);
}

static void answer_inspector(const struct report *report, struct answer *answer)
{
	const struct report_row *most = &report->rows[0];
	char size[UNITS_BYTES], rate[UNITS_BYTES], time[UNITS_BYTES];
	int64_t all_ns = 0;
	uint64_t count = 0;

	for (size_t i = 0; i < report->row_count; i++) {
		all_ns += report->rows[i].time_ns;
		count += report->rows[i].count;
		most = report->rows[i].time_ns > most->time_ns ? &report->rows[i] : most;
	}
	if (!all_ns) {
		answer_add(answer,
			   "None of %" PRIu64 " collectives has a time of the GPU's clock, so nothing is known of "
			   "their rates.",
			   count);
		return;
	}
	answer_add(answer, "%s of up to %s takes %.0f %% of the time in collectives, %s each, and reaches %s (busbw).",
		   report_collective_word(most->collective), units_size((double)most->bytes_most, size),
		   100 * part((double)most->time_ns, (double)all_ns),
		   time_words(part((double)most->time_ns, (double)most->timed), time),
		   units_rate(busbw_Bps(most), rate));
	answer_slow(report, answer);
	if (report->not_by_gpu)
		answer_add(answer, " %" PRIu64 " of %" PRIu64 " have no time of the GPU's clock and are only counted.",
			   report->not_by_gpu, count);
}

/* What was gained since the steps of --before. */
static void answer_gain(const struct report *report, struct answer *answer)
{
	double was_ns = report_step_ns(report->before), is_ns = report_step_ns(report), gain = was_ns / is_ns;
	char was[UNITS_BYTES], is[UNITS_BYTES];

	if (answer_differs(gain))
		answer_add(answer, "Steps %s %.2f times as %s as before: ", gain > 1 ? "run" : "take",
			   gain > 1 ? gain : 1 / gain, gain > 1 ? "fast" : "long");
	else
		answer_add(answer, "The same: steps take as long as before, ");
	answer_add(answer, "%s, before %s; ", time_words(is_ns, is), time_words(was_ns, was));
	answer_add(answer, "exposed communication takes %s of a step, before %s. ",
		   time_words(report_exposed_ns(report), is), time_words(report_exposed_ns(report->before), was));
}

static void make_answer(const struct report *report, struct answer *ret)
{
	*ret = (struct answer){ .text = "" };
	if (report->before)
		answer_gain(report, ret);
	if (report->has_traces)
		answer_trace(report, ret);
	else
		answer_inspector(report, ret);
}

/* -------------------------------------------------------------------------------------------------------------- tables */

static void print_ranks(const struct report *report, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs("rank\tsteps\tstep\tcomputing\tcommunication\texposed\tof the time\n", rows);
	for (size_t i = 0; i < report->rank_count; i++) {
		const struct report_rank *rank = &report->ranks[i];
		int64_t time_ns = rank->end_ns - rank->begin_ns;
		double times = rank->step_count ? (double)rank->step_count : 1;
		char name[REPORT_NAME_BYTES], step[UNITS_BYTES] = "-", computing[UNITS_BYTES], all[UNITS_BYTES],
					      exposed[UNITS_BYTES];

		term_clean(rank->name, name, sizeof(name));
		if (rank->step_count)
			time_words((double)rank->step_median_ns, step);
		fprintf(rows, "%s\t%zu\t%s\t%s\t%s\t%s\t%.1f %%\n", name, rank->step_count, step,
			time_words((double)rank->computing_ns / times, computing),
			time_words((double)rank->communication_ns / times, all),
			time_words((double)rank->exposed_ns / times, exposed),
			100 * part((double)rank->exposed_ns, (double)time_ns));
	}
	table_end(&table, rows, "l  r  r  r  r  r  r");
	fputs("Times are means of a step, without steps those of the trace; a step is the median.\n", out);
}

static void print_exposed(const struct report *report, FILE *out)
{
	struct report_total total = report_total(report);
	double times = (double)(total.step_count ? total.step_count : report->rank_count);
	struct table table;
	FILE *rows = table_begin(&table, out);

	fputs("\ncollective\texposed\tof the time\tof all exposed\n", rows);
	for (size_t i = 0; i < REPORT_COLLECTIVE_COUNT; i++) {
		char time[UNITS_BYTES];

		if (total.exposed_by[i])
			fprintf(rows, "%s\t%s\t%.1f %%\t%.0f %%\n", report_collective_word((enum report_collective)i),
				time_words((double)total.exposed_by[i] / times, time),
				100 * part((double)total.exposed_by[i], (double)total.time_ns),
				100 * part((double)total.exposed_by[i], (double)total.exposed_ns));
	}
	table_end(&table, rows, "l  r  r  r");
	fputc('\n', out);
}

static void print_collectives(const struct report *report, FILE *out)
{
	struct table table;
	FILE *rows = table_begin(&table, out);

	fprintf(rows, "collective\tup to\tranks\tcount\ttime\talgbw\tbusbw%s\n", report->has_traces ? "\texposed" : "");
	for (size_t i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];
		char size[UNITS_BYTES] = "?", ranks[16] = "?", time[UNITS_BYTES], algbw[UNITS_BYTES],
		     busbw[UNITS_BYTES];

		if (!row->count)
			continue; /* the end of one that began before the first step */
		if (row->bytes_most)
			units_size((double)row->bytes_most, size);
		snprintf(time, sizeof(time), "-");
		if (row->timed)
			time_words((double)row->time_ns / (double)row->timed, time);
		if (row->ranks)
			snprintf(ranks, sizeof(ranks), "%u", row->ranks);
		fprintf(rows, "%s\t%s\t%s\t%" PRIu64 "\t%s\t%s\t%s", report_collective_word(row->collective), size,
			ranks, row->count, time, units_rate(algbw_Bps(row), algbw), units_rate(busbw_Bps(row), busbw));
		if (report->has_traces)
			fprintf(rows, "\t%.0f %%", 100 * part((double)row->exposed_ns, (double)row->time_ns));
		fputc('\n', rows);
	}
	table_end(&table, rows, "l  r  r  r  r  r  r  r");
	fputs("A collective's time begins when its rank is there, and so includes waiting for others.\n", out);
}

/* Of the group in which somebody is waited for. */
static void print_members(const struct report *report, FILE *out)
{
	char name[REPORT_NAME_BYTES];
	struct table table;
	FILE *rows;

	if (!report->slow)
		return;
	term_clean(report->groups[report->slow->group].name, name, sizeof(name));
	fprintf(out, "\nThe rank that comes last has the shortest time in a collective; %s:\n", name);
	rows = table_begin(&table, out);
	for (size_t i = 0; i < report->member_count; i++) {
		const struct report_member *member = &report->members[i];
		char time[UNITS_BYTES], host[REPORT_NAME_BYTES];

		if (member->group != report->slow->group)
			continue;
		term_clean(member->name, name, sizeof(name));
		term_clean(member->host, host, sizeof(host));
		fprintf(rows, "  %s\t%s\t%" PRIu64 "\t%s\n", name, host, member->count,
			time_words(part((double)member->time_ns, (double)member->count), time));
	}
	table_end(&table, rows, "l  l  r  r");
}

void report_print(const struct report *report, FILE *out)
{
	struct answer first;

	make_answer(report, &first);
	answer_print(&first, out);
	if (report->has_traces) {
		fputs("Exposed: a kernel of NCCL runs on the GPU, and on none of its streams one that computes "
		      "(MAD-Max).\n\n",
		      out);
		print_ranks(report, out);
		if (report->row_count)
			print_exposed(report, out);
	}
	if (report->row_count)
		print_collectives(report, out);
	print_members(report, out);
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static json_t *seconds(int64_t time_ns)
{
	return json_real((double)time_ns / 1e9);
}

static json_t *real_or_null(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

static json_t *ranks_json(const struct report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->rank_count; i++) {
		const struct report_rank *rank = &report->ranks[i];
		bool steps = rank->step_count > 0;

		json_array_append_new(list,
				      json_pack("{so so sI so so so so so so so sI}", "name", json_text(rank->name),
						"rank", rank->number >= 0 ? json_integer(rank->number) : json_null(),
						"steps", (json_int_t)rank->step_count, "step_least_s",
						steps ? seconds(rank->step_least_ns) : json_null(), "step_median_s",
						steps ? seconds(rank->step_median_ns) : json_null(), "step_most_s",
						steps ? seconds(rank->step_most_ns) : json_null(), "time_s",
						seconds(rank->end_ns - rank->begin_ns), "computing_s",
						seconds(rank->computing_ns), "communication_s",
						seconds(rank->communication_ns), "exposed_s", seconds(rank->exposed_ns),
						"collectives", (json_int_t)rank->count));
	}
	return list;
}

static json_t *exposed_json(const struct report *report)
{
	struct report_total total = report_total(report);
	json_t *list = json_array();

	for (size_t i = 0; i < REPORT_COLLECTIVE_COUNT; i++)
		if (total.exposed_by[i])
			json_array_append_new(list,
					      json_pack("{ss so sf}", "collective",
							report_collective_word((enum report_collective)i), "exposed_s",
							seconds(total.exposed_by[i]), "of_time",
							part((double)total.exposed_by[i], (double)total.time_ns)));
	return json_pack("{so so so sf so}", "time_s", seconds(total.time_ns), "communication_s",
			 seconds(total.communication_ns), "exposed_s", seconds(total.exposed_ns), "of_time",
			 part((double)total.exposed_ns, (double)total.time_ns), "by_collective", list);
}

static json_t *collectives_json(const struct report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->row_count; i++) {
		const struct report_row *row = &report->rows[i];

		if (row->count)
			json_array_append_new(
				list,
				json_pack("{ss so so sI so so so so}", "collective",
					  report_collective_word(row->collective), "bytes_most",
					  json_known(row->bytes_most), "ranks", json_known(row->ranks), "count",
					  (json_int_t)row->count, "time_s", seconds(row->time_ns), "algbw_Bps",
					  real_or_null(algbw_Bps(row)), "busbw_Bps", real_or_null(busbw_Bps(row)),
					  "exposed_s", report->has_traces ? seconds(row->exposed_ns) : json_null()));
	}
	return list;
}

static json_t *members_json(const struct report *report)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->member_count; i++) {
		const struct report_member *member = &report->members[i];

		json_array_append_new(
			list, json_pack("{so so so sI so}", "group", json_text(report->groups[member->group].name),
					"name", json_text(member->name), "host", json_known_text(member->host), "count",
					(json_int_t)member->count, "time_s", seconds(member->time_ns)));
	}
	return list;
}

json_t *report_json(const struct report *report)
{
	const struct report_member *slow = report->slow;
	struct answer first;

	make_answer(report, &first);
	return json_pack("{so so ss so so so so so sI}", "before",
			 report->before ? report_json(report->before) : json_null(), "answer", answer_json(&first),
			 "source", report->has_traces ? "pytorch" : "inspector", "ranks", ranks_json(report), "exposed",
			 report->has_traces ? exposed_json(report) : json_null(), "collectives",
			 collectives_json(report), "members", members_json(report), "slowest",
			 slow ? json_pack("{so so so sf sf}", "group", json_text(report->groups[slow->group].name),
					  "name", json_text(slow->name), "host", json_known_text(slow->host), "time_s",
					  report->slow_ns / 1e9, "others_time_s", report->others_ns / 1e9)
			      : json_null(),
			 "not_by_gpu", (json_int_t)report->not_by_gpu);
}
