/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/parse.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

static int take_listen(const char *value, struct daemon_options *options, struct diag *diag)
{
	const char *item;
	size_t bytes;

	while (parse_list_next(&value, ',', &item, &bytes)) {
		struct daemon_listen *at = &options->listen[options->listen_count];
		char text[128];
		int r;

		if (options->listen_count == DAEMON_LISTEN_MAX) {
			diag_set(diag, 0, 0, "more than %d addresses", DAEMON_LISTEN_MAX);
			return -EINVAL;
		}
		snprintf(text, sizeof(text), "%.*s", (int)(bytes < 120 ? bytes : 120), item);
		r = daemon_address_parse(text, &at->address, &at->bytes, diag);
		if (r < 0)
			return r;
		options->listen_count++;
	}
	return 0;
}

static int take_text(const char *value, char *ret, size_t bytes, struct diag *diag)
{
	if (strlen(value) >= bytes) {
		diag_set(diag, 0, 0, "\"%.60s...\" is longer than %zu characters", value, bytes - 1);
		return -EINVAL;
	}
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

static int take_number(const char *value, unsigned most, unsigned *ret, struct diag *diag)
{
	uint64_t number;

	if (parse_u64(value, 1, most, &number) < 0) {
		diag_set(diag, 0, 0, "\"%.40s\" is not a number from 1 to %u", value, most);
		return -EINVAL;
	}
	*ret = (unsigned)number;
	return 0;
}

static int take_memory_max(const char *value, struct daemon_options *options, struct diag *diag)
{
	if (parse_size(value, UINT64_C(16) << 20, UINT64_C(1) << 40, &options->memory_max_bytes) < 0) {
		diag_set(diag, 0, 0, "\"%.40s\" is not a size from 16M to 1024G", value);
		return -EINVAL;
	}
	return 0;
}

static int take_drain(const char *value, struct daemon_options *options, struct diag *diag)
{
	if (parse_seconds(value, 0, 3600 * NS_PER_S, &options->drain_ns) < 0) {
		diag_set(diag, 0, 0, "\"%.40s\" is not seconds from 0 to 3600", value);
		return -EINVAL;
	}
	return 0;
}

static int take_metrics(const char *value, struct daemon_options *options, struct diag *diag)
{
	int r = daemon_address_parse(value, &options->metrics_at.address, &options->metrics_at.bytes, diag);

	if (r < 0)
		return r;
	options->metrics = true;
	return 0;
}

enum row {
	LISTEN,
	SECRET,
	ALLOW,
	GROUPS_MAX,
	MEMORY_MAX,
	THREADS,
	USER,
	METRICS,
	METRICS_ALLOW,
	DRAIN,
	VERSION,
	MAN,
	COMPLETION,
	ROW_COUNT
};

static const struct options_row rows[ROW_COUNT + 1] = {
	[LISTEN] = { "listen", "ADDRESS:PORT,...",
		     "where coordinators of groups connect: addresses of this host, as 10.0.0.9:7471 or "
		     "[fd00::9]:7471. The data goes over other ports, see TRIBUTARY_IF and TRIBUTARY_PORTS",
		     NULL },
	[SECRET] = { "secret", "FILE",
		     "the secret that members of groups must prove to have, and that is proved to them: 16 to 1024 "
		     "bytes, in a file that its owner alone can read",
		     NULL },
	[ALLOW] = { "allow", "NETWORKS",
		    "who may connect at all: networks with their prefix (10.0.0.0/8,fd00::/8), private (what does not "
		    "leave a site), or any. Others are closed at once",
		    "private" },
	[GROUPS_MAX] = { "groups-max", "N", "groups at a time; one more is refused", "16" },
	[MEMORY_MAX] = { "memory-max", "SIZE",
			 "memory for data under way, of all groups together. Each group that is let in has an equal "
			 "part of it, so no group can take another's",
			 "1G" },
	[THREADS] = { "threads", "N", "threads that move and reduce; groups are spread over them", "1" },
	[USER] = { "user", "NAME",
		   "become this user once the ports are open and the secret is read; only root can. No privilege can "
		   "be had again",
		   NULL },
	[METRICS] = { "metrics", "ADDRESS:PORT",
		      "answer GET /metrics there with counters in Prometheus' text form. Nobody proves anything there: on "
		      "another address than the loopback interface's it needs --metrics-allow",
		      NULL },
	[METRICS_ALLOW] = { "metrics-allow", "NETWORKS",
			    "who may ask for the metrics, as for --allow; without it this host alone", NULL },
	[DRAIN] = { "drain", "SECONDS",
		    "after SIGTERM or SIGINT: how long groups have to finish what is running and to go on without "
		    "this aggregator. A second signal ends at once",
		    "10" },
	[VERSION] = { "version", NULL, "print the version", NULL },
	[MAN] = { "man", NULL, "print the man page", NULL },
	[COMPLETION] = { "completion", "bash", "print the completion for a shell", NULL },
};

static int take(enum row row, const char *value, struct daemon_options *options, struct diag *diag)
{
	switch (row) {
	case LISTEN:
		return take_listen(value, options, diag);
	case SECRET:
		return take_text(value, options->secret, sizeof(options->secret), diag);
	case ALLOW:
		return daemon_allow_parse(value, &options->allow, diag);
	case GROUPS_MAX:
		return take_number(value, 256, &options->groups_max, diag);
	case MEMORY_MAX:
		return take_memory_max(value, options, diag);
	case THREADS:
		return take_number(value, 64, &options->threads, diag);
	case USER:
		return take_text(value, options->user, sizeof(options->user), diag);
	case METRICS:
		return take_metrics(value, options, diag);
	case METRICS_ALLOW:
		return daemon_allow_parse(value, &options->metrics_allow, diag);
	default:
		return take_drain(value, options, diag);
	}
}

/* ------------------------------------------------------------------------------------------------------------- texts */

static const char about[] =
	"tributaryd lends this host's cores and network card to jobs on other hosts. Named in their cluster file, it "
	"sums parts of their AllReduce: every member sends each byte once and receives the result once, half of what a "
	"ring moves.\n"
	"Members find it by the cluster file that TRIBUTARY_CLUSTER names, and prove the secret of the file that "
	"TRIBUTARY_SECRET names. It runs in the foreground and logs to stderr; systemd is told when it is ready.";

static void print_help(FILE *out)
{
	fputs("usage: tributaryd --listen ADDRESS:PORT --secret FILE [OPTION ...]\n", out);
	options_print_paragraphs(about, out);
	options_print_help(rows, out);
	fputs("\nTRIBUTARY_* variables set the transport; `tributary params` lists them.\n", out);
}

static void print_man(FILE *out)
{
	fputs(".TH TRIBUTARYD 8 \"\" \"tributary\" \"System administration\"\n"
	      ".SH NAME\ntributaryd \\- an aggregator for collective communication\n"
	      ".SH SYNOPSIS\n.B tributaryd\n\\-\\-listen ADDRESS:PORT \\-\\-secret FILE [OPTIONS]\n"
	      ".SH DESCRIPTION\n",
	      out);
	options_print_man_paragraphs(about, out);
	fputs(".SH OPTIONS\n", out);
	options_print_man(rows, out);
	fputs(".TP\n.B \\-\\-help\nprint the options.\n", out);
	options_print_man_metrics(daemon_metrics_tables, out);
	fputs(".SH ENVIRONMENT\nThe variables of the TCP transport, see\n.BR tributary (1):\n"
	      "TRIBUTARY_IF, TRIBUTARY_FAMILY, TRIBUTARY_PORTS, TRIBUTARY_STREAMS, TRIBUTARY_TIMEOUT, TRIBUTARY_PACE "
	      "and others.\n"
	      ".SH SIGNALS\n.TP\nSIGTERM, SIGINT\ntakes no more groups, tells those that are there to go on without "
	      "it, "
	      "and ends when they have, at the latest after \\-\\-drain.\n"
	      ".SH EXIT STATUS\n0: ended by a signal. 1: it could not start or go on. 2: the command line is wrong.\n"
	      ".SH SEE ALSO\n.BR tributary (1)\n",
	      out);
}

static void print_completion(FILE *out)
{
	fputs("# Completion of `tributaryd` for bash. Generated by `tributaryd --completion bash`.\n"
	      "_tributaryd()\n{\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options= words= kind=\n"
	      "\tCOMPREPLY=()\n",
	      out);
	options_print_bash_equals(out);
	fputs("\tcase $prev in\n", out);
	options_print_bash_values(rows, "", options_value_of, out);
	fputs("\t*) options='", out);
	options_print_bash_names(rows, out);
	fputs("' ;;\n\tesac\n", out);
	options_print_bash_reply(out);
	fputs("complete -F _tributaryd tributaryd\n", out);
}

static enum daemon_start print_text(enum row row, FILE *out)
{
	if (row == VERSION)
		fputs("tributaryd " TRIBUTARY_VERSION "\n", out);
	else if (row == MAN)
		print_man(out);
	else
		print_completion(out);
	return DAEMON_DONE;
}

/* ------------------------------------------------------------------------------------------------------------- parse */

__attribute__((format(printf, 2, 3))) static enum daemon_start wrong(FILE *complaints, const char *fmt, ...)
{
	va_list args;

	fputs("tributaryd: ", complaints);
	va_start(args, fmt);
	vfprintf(complaints, fmt, args);
	va_end(args);
	fputs(" (see `tributaryd --help`)\n", complaints);
	return DAEMON_WRONG;
}

/* All rows that have a standard value, before anything is given. */
static void set_standards(struct daemon_options *options)
{
	struct diag diag;

	memset(options, 0, sizeof(*options));
	for (enum row row = 0; row < ROW_COUNT; row++)
		if (rows[row].standard)
			(void)take(row, rows[row].standard, options, &diag);
}

enum daemon_start daemon_options_parse(int argc, char **argv, struct daemon_options *ret, FILE *out, FILE *complaints)
{
	struct options_line line = { .argc = argc, .argv = argv };
	enum options_step step;
	struct diag diag = { 0 };
	const char *text;
	size_t row;

	if (options_ask_help(argc, argv)) {
		print_help(out);
		return DAEMON_DONE;
	}
	set_standards(ret);
	while ((step = options_next(rows, &line, &row, &text, &diag)) != OPTIONS_END) {
		if (step == OPTIONS_WRONG)
			return wrong(complaints, "%s", diag.text);
		if (step == OPTIONS_OPERAND)
			return wrong(complaints, "unexpected argument \"%s\"", text);
		if (row >= VERSION)
			return print_text((enum row)row, out);
		if (take((enum row)row, text, ret, &diag) < 0)
			return wrong(complaints, "--%s: %s", rows[row].name, diag.text);
	}
	if (!ret->listen_count)
		return wrong(complaints, "--listen is missing");
	if (!ret->secret[0])
		return wrong(complaints, "--secret is missing");
	if (ret->metrics && !ret->metrics_allow.count && !daemon_address_is_loopback(&ret->metrics_at.address))
		return wrong(complaints,
			     "--metrics: nobody proves anything there, so an address that is not on the loopback "
			     "interface needs --metrics-allow NETWORKS");
	if (!ret->metrics_allow.count)
		(void)daemon_allow_parse("127.0.0.0/8,::1/128", &ret->metrics_allow, &diag);
	return DAEMON_START;
}
