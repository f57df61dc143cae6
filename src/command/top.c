/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary top`: what jobs and aggregators do, each second, from their metrics. */
#include "command/command.h"

#include "base/log.h"
#include "base/params.h"
#include "base/parse.h"
#include "base/sys.h"
#include "command/json.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/term.h"
#include "command/top/top.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { STEP_MS = 1000, ONCE_STEPS = 8, ENDED_S = 60, WHERE_BYTES = 512 };

/* What grows, and its growth in a second. */
struct top_rates {
	double sent, received, retransmitted, grant_wait, aggregated;
};

/* A device of a process or of tributaryd. */
struct row {
	char where[WHERE_BYTES];
	struct top_subject of;
	bool seen;
	double time_s; /* by its own clock, when it was counted; NAN: never */
	struct top_rates counted, per_s;
	char host[TOP_LABEL_BYTES], command[TOP_LABEL_BYTES], pid[TOP_LABEL_BYTES], local_rank[TOP_LABEL_BYTES];
	/* NAN: not said */
	double speed_Bps, connections, streams, movers, oldest_wait_s, sends_waiting, planned, unplanned;
	double groups, busy_cores; /* of tributaryd alone */
};

struct top {
	struct row *rows;
	size_t count, ended; /* ended: in files that no process writes any more */
	const char *where;   /* that is being read */
	char why[WHERE_BYTES];
	bool failed, no_memory;
};

/* ------------------------------------------------------------------------------------------------------------- reading */

static struct row *row_of(struct top *top, const struct top_subject *of)
{
	struct row row = { .of = *of, .time_s = NAN };

	snprintf(row.where, sizeof(row.where), "%s", top->where);
	for (size_t i = 0; i < top->count; i++)
		if (!strcmp(top->rows[i].where, row.where) && !strcmp(top->rows[i].of.process, of->process) &&
		    !strcmp(top->rows[i].of.device, of->device))
			return &top->rows[i];
	row.per_s = (struct top_rates){ NAN, NAN, NAN, NAN, NAN };
	if (sys_grow(&top->rows, top->count, 1, sizeof(row)) < 0) {
		top->no_memory = true;
		return NULL;
	}
	top->rows[top->count] = row;
	return &top->rows[top->count++];
}

/* NAN, too, where the counter is another one than before: the process is new. */
static double rate(double was, double is, double seconds)
{
	return is >= was ? (is - was) / seconds : NAN;
}

static void take_rates(struct row *row, double time_s, const struct top_rates *is)
{
	const struct top_rates *was = &row->counted;
	double seconds = time_s - row->time_s;

	if (seconds == 0)
		return; /* the same file as before: what it came to stays */
	if (seconds > 0)
		row->per_s = (struct top_rates){ rate(was->sent, is->sent, seconds),
						 rate(was->received, is->received, seconds),
						 rate(was->retransmitted, is->retransmitted, seconds),
						 rate(was->grant_wait, is->grant_wait, seconds),
						 rate(was->aggregated, is->aggregated, seconds) };
	row->counted = *is;
	row->time_s = time_s;
}

static void take_info(struct row *row, const char *text, const struct top_subject *process)
{
	const char *info = *process->process ? "tributary_info" : "tributaryd_info";

	top_label(text, info, process, "host", row->host);
	if (!top_label(text, info, process, "command", row->command))
		snprintf(row->command, sizeof(row->command), "tributaryd");
	top_label(text, info, process, "pid", row->pid);
	top_label(text, info, process, "local_rank", row->local_rank);
	row->planned = top_value(text, "tributary_communicators_total", process, "planned");
	row->unplanned = top_value(text, "tributary_communicators_total", process, "nccl");
	row->groups = row->busy_cores = NAN;
	if (*process->process)
		return;
	row->groups = top_value(text, "tributaryd_groups", process, NULL);
	row->busy_cores = top_value(text, "tributaryd_busy_cores", process, NULL);
}

static void take_device(struct row *row, const char *text, const struct top_subject *process, double time_s)
{
	const struct top_rates counted = {
		.sent = top_value(text, "tributary_sent_bytes_total", &row->of, NULL),
		.received = top_value(text, "tributary_received_bytes_total", &row->of, NULL),
		.retransmitted = top_value(text, "tributary_retransmitted_segments_total", &row->of, NULL),
		.grant_wait = top_value(text, "tributary_grant_wait_seconds_total", &row->of, NULL),
		.aggregated = top_value(text, "tributary_collnet_bytes_total", process, NULL),
	};

	row->seen = true;
	take_rates(row, time_s, &counted);
	take_info(row, text, process);
	row->speed_Bps = top_value(text, "tributary_device_bytes_per_second", &row->of, NULL);
	row->connections = top_value(text, "tributary_connections", &row->of, NULL);
	row->streams = top_value(text, "tributary_streams", &row->of, NULL);
	row->movers = top_value(text, "tributary_movers", &row->of, NULL);
	row->oldest_wait_s = top_value(text, "tributary_oldest_wait_seconds", &row->of, NULL);
	row->sends_waiting = top_value(text, "tributary_sends_waiting", &row->of, NULL);
}

static void take_text(void *arg, const char *text)
{
	struct top *top = arg;
	struct top_subject of;

	for (const char *at = text; top_next_subject(&at, &of);) {
		struct top_subject process = of;
		struct row *row;
		double time_s;

		process.device[0] = '\0';
		time_s = top_value(text, "tributary_updated_timestamp_seconds", &process, NULL);
		if ((double)time(NULL) - time_s > ENDED_S) {
			top->ended++;
			continue;
		}
		if (isnan(time_s))
			time_s = top_value(text, "tributaryd_uptime_seconds", &process, NULL);
		row = row_of(top, &of);
		if (row)
			take_device(row, text, &process, time_s);
	}
}

/* Of a host, then by rank, then as they are named. */
static int by_place(const void *left, const void *right)
{
	const struct row *a = left, *b = right;
	int order = strcmp(a->host, b->host);

	if (!order)
		order = (int)strlen(a->local_rank) - (int)strlen(b->local_rank); /* 9 is before 10 */
	if (!order)
		order = strcmp(a->local_rank, b->local_rank);
	if (!order)
		order = strcmp(a->of.process, b->of.process);
	return order ? order : strcmp(a->of.device, b->of.device);
}

/* All places once. What is gone has no row any more. */
static void read_all(struct top *top, const char *places)
{
	size_t bytes, kept = 0;
	const char *item;

	top->ended = 0;
	top->failed = false;
	for (size_t i = 0; i < top->count; i++)
		top->rows[i].seen = false;
	while (parse_list_next(&places, ',', &item, &bytes)) {
		char where[WHERE_BYTES];
		struct diag why = { .text = "" };

		snprintf(where, sizeof(where), "%.*s", (int)bytes, item);
		top->where = where;
		if (top_read(where, take_text, top, &why) < 0) {
			top->failed = true;
			term_clean(why.text, top->why, sizeof(top->why));
		}
	}
	for (size_t i = 0; i < top->count; i++)
		if (top->rows[i].seen)
			top->rows[kept++] = top->rows[i];
	top->count = kept;
	if (kept)
		qsort(top->rows, kept, sizeof(*top->rows), by_place);
}

/* -------------------------------------------------------------------------------------------------------------- text */

static const char *number(double value, const char *format, char text[static UNITS_BYTES])
{
	if (isnan(value))
		snprintf(text, UNITS_BYTES, "-");
	else if (*format == '%')
		snprintf(text, UNITS_BYTES, "%.0f%%", value * 100);
	else
		snprintf(text, UNITS_BYTES, "%.*f", *format - '0', value);
	return text;
}

static void print_row(const struct row *row, FILE *rows)
{
	char host[TOP_LABEL_BYTES], command[TOP_LABEL_BYTES], device[TOP_LABEL_BYTES], text[11][UNITS_BYTES],
		of[UNITS_BYTES];

	term_clean(row->host, host, sizeof(host));
	term_clean(row->command, command, sizeof(command));
	term_clean(row->of.device, device, sizeof(device));
	fprintf(rows, "%.20s\t%.10s\t%.6s\t%.16s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s/%s\t%.15s\n", host,
		row->pid, *row->local_rank ? row->local_rank : "-", device, number(row->per_s.sent * 8 / 1e9, "2", text[0]),
		number(row->per_s.received * 8 / 1e9, "2", text[1]), number(row->speed_Bps * 8 / 1e9, "0", of),
		number(row->oldest_wait_s, "1", text[2]), number(row->per_s.grant_wait, "%", text[3]),
		number(row->per_s.retransmitted, "0", text[4]), number(row->connections, "0", text[5]),
		number(row->streams, "0", text[6]), number(row->movers, "0", text[7]),
		number(row->per_s.aggregated * 8 / 1e9, "2", text[8]), number(row->planned, "0", text[9]),
		number(row->unplanned, "0", text[10]), command);
}

/* In lines that fit: a wrapped one would move all that follows. columns, lines: 0: no bound. */
static void print_cut(const char *text, size_t columns, size_t lines, FILE *out)
{
	for (size_t line = 1; *text && (!lines || line < lines); line++) {
		size_t bytes = strcspn(text, "\n");

		fprintf(out, "%.*s\n", (int)(columns && bytes > columns ? columns : bytes), text);
		text += bytes + (text[bytes] == '\n');
	}
}

static void print_text(const struct top *top, size_t columns, size_t lines, FILE *out)
{
	char *text = NULL;
	size_t bytes;
	FILE *memory = open_memstream(&text, &bytes);
	struct table table;
	FILE *rows;

	if (!memory)
		return;
	if (top->failed)
		fprintf(memory, "%s\n", top->why);
	if (top->ended)
		fprintf(memory, "%zu device%s of processes that have ended left out\n", top->ended,
			top->ended == 1 ? "" : "s");
	if (!top->count)
		fputs("no process writes metrics there (TRIBUTARY_METRICS)\n", memory);
	rows = table_begin(&table, memory);
	if (top->count)
		fputs("HOST\tPID\tRANK\tDEVICE\tSEND\tRECEIVE\tGbit/s\tOLDEST s\tNO CREDIT\tRETRANS/s\tCONN\tSTREAMS"
		      "\tMOVERS\tAGGREGATED\tPLANNED/NCCL\tCOMMAND\n",
		      rows);
	for (size_t i = 0; i < top->count; i++)
		print_row(&top->rows[i], rows);
	table_end(&table, rows, "l  r  r  l  r  r  r  r  r  r  r  r  r  r  r  l");
	for (size_t i = 0; i < top->count; i++)
		if (!isnan(top->rows[i].groups))
			fprintf(memory, "tributaryd on %.64s: %.0f groups, %.2f cores busy\n", top->rows[i].host,
				top->rows[i].groups, top->rows[i].busy_cores);
	if (fclose(memory) == 0)
		print_cut(text, columns, lines, out);
	free(text);
}

/* -------------------------------------------------------------------------------------------------------------- JSON */

static json_t *known(double value)
{
	return isnan(value) ? json_null() : json_real(value);
}

static json_t *row_json(const struct row *row)
{
	return json_pack(
		"{so so so so so so so so so so so so so so so so so so so so}", "where", json_text(row->where), "host",
		json_text(row->host), "command", json_text(row->command), "pid", json_known_text(row->pid),
		"local_rank", json_known_text(row->local_rank), "device", json_text(row->of.device), "send_Bps",
		known(row->per_s.sent), "receive_Bps", known(row->per_s.received), "speed_Bps", known(row->speed_Bps),
		"aggregated_Bps", known(row->per_s.aggregated), "retransmitted_per_s", known(row->per_s.retransmitted),
		"connections", known(row->connections), "streams", known(row->streams), "movers", known(row->movers),
		"oldest_wait_s", known(row->oldest_wait_s), "no_credit_part", known(row->per_s.grant_wait),
		"communicators_planned", known(row->planned), "communicators_nccl", known(row->unplanned), "groups",
		known(row->groups), "busy_cores", known(row->busy_cores));
}

static int print_json(const struct top *top, FILE *out)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < top->count; i++)
		json_array_append_new(rows, row_json(&top->rows[i]));
	return json_print("tributary-top 1", json_pack("{so}", "rows", rows), out);
}

/* -------------------------------------------------------------------------------------------------------------- run */

static bool has_all_rates(const struct top *top)
{
	for (size_t i = 0; i < top->count; i++)
		if (isnan(top->rows[i].per_s.sent))
			return false;
	return true;
}

/* Processes write every five seconds, so rates take as long. */
static int run_once(const struct command_call *call, struct top *top, const char *places, FILE *out)
{
	int status = COMMAND_OK;

	read_all(top, places);
	for (unsigned i = 0; i < ONCE_STEPS && !has_all_rates(top); i++) {
		poll(NULL, 0, STEP_MS);
		read_all(top, places);
	}
	if (command_given(call, "json"))
		status = print_json(top, out);
	else if (!top->failed || top->count)
		print_text(&(struct top){ .rows = top->rows, .count = top->count, .ended = top->ended }, 0, 0, out);
	return top->failed ? command_failed(NULL, 0, "%s", top->why) : status;
}

static void run_on(struct top *top, const char *places, FILE *out)
{
	while (!top->no_memory) {
		struct winsize size = { .ws_row = 0 };

		(void)ioctl(fileno(out), TIOCGWINSZ, &size);
		read_all(top, places);
		fputs("\033[H\033[J", out); /* to the first line, and clear what is below */
		print_text(top, size.ws_col, size.ws_row, out);
		if (fflush(out) != 0)
			return;
		poll(NULL, 0, STEP_MS);
	}
}

static int run(const struct command_call *call, FILE *out)
{
	const char *places = call->operand_count ? call->operands[0] : NULL;
	struct top top = { .count = 0 };
	struct params params;
	int status = COMMAND_OK;

	command_load_params(&params);
	if (!places)
		places = params.metrics;
	if (!*places)
		return command_failed(NULL, 0,
				      "nothing says where metrics are: name the folder of TRIBUTARY_METRICS, or "
				      "ADDRESS:PORT of a tributaryd --metrics");
	if (command_given(call, "once") || command_given(call, "json") || !isatty(fileno(out)))
		status = run_once(call, &top, places, out);
	else
		run_on(&top, places, out);
	if (top.no_memory)
		status = command_failed(NULL, ENOMEM, "top");
	sys_free(top.rows);
	return status;
}

const struct command command_top = {
	.name = "top",
	.group = COMMAND_JOBS,
	.operands = "[WHERE]",
	.help = "what ranks and aggregators move and wait for, each second",
	.about =
		"Reads the metrics of docs/guide/metrics.md. WHERE: the folder of TRIBUTARY_METRICS, which it is without an "
		"argument, or ADDRESS:PORT of a tributaryd --metrics or of a node exporter; several with commas. Processes "
		"write every five seconds. NO CREDIT: the part of the time in which a message for the process waited for "
		"credit. STREAMS: those that carry data, more than CONN where one carries less than the network. MOVERS: "
		"threads that send and receive for the process. PLANNED/NCCL: communicators with planned channels and "
		"without, counted once a host. Written elsewhere than to a terminal, it is printed once.",
	.options = { { "once", NULL, "print once, when rates are known", NULL }, COMMAND_OPTION_JSON },
	.example = "tributary top --once metrics",
	.run = run,
};
