#include "daemon/options.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/parse.h"

#include <errno.h>
#include <string.h>

#ifndef TRIBUTARY_VERSION
#define TRIBUTARY_VERSION "unknown"
#endif

enum { HELP_COLUMNS = 78, HELP_INDENT = 22 };

struct option_row {
	const char *name;     /* without "--" */
	const char *argument; /* NULL: none */
	const char *standard; /* NULL: none */
	const char *help;
	/* Takes one value; -EINVAL with *diag. */
	int (*take)(const char *value, struct daemon_options *options, struct diag *diag);
};

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

static int take_allow(const char *value, struct daemon_options *options, struct diag *diag)
{
	return daemon_allow_parse(value, &options->allow, diag);
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

static int take_secret(const char *value, struct daemon_options *options, struct diag *diag)
{
	return take_text(value, options->secret, sizeof(options->secret), diag);
}

static int take_user(const char *value, struct daemon_options *options, struct diag *diag)
{
	return take_text(value, options->user, sizeof(options->user), diag);
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

static int take_groups_max(const char *value, struct daemon_options *options, struct diag *diag)
{
	return take_number(value, 256, &options->groups_max, diag);
}

static int take_threads(const char *value, struct daemon_options *options, struct diag *diag)
{
	return take_number(value, 64, &options->threads, diag);
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
	if (!daemon_address_is_loopback(&options->metrics_at.address)) {
		diag_set(diag, 0, 0,
			 "\"%.60s\" is not on the loopback interface: nobody proves anything there. Take 127.0.0.1 and "
			 "let an agent of this host collect",
			 value);
		return -EINVAL;
	}
	options->metrics = true;
	return 0;
}

static const struct option_row rows[] = {
	{ "listen", "ADDRESS:PORT,...", NULL,
	  "where coordinators of groups connect: addresses of this host, as 10.0.0.9:7471 or [fd00::9]:7471. The "
	  "data goes over other ports, see TRIBUTARY_IF and TRIBUTARY_PORTS",
	  take_listen },
	{ "secret", "FILE", NULL,
	  "the secret that members of groups must prove to have, and that is proved to them: 16 to 1024 bytes, in a "
	  "file that its owner alone can read",
	  take_secret },
	{ "allow", "NETWORKS", "private",
	  "who may connect at all: networks with their prefix (10.0.0.0/8,fd00::/8), private (what does not leave a "
	  "site), or any. Others are closed at once",
	  take_allow },
	{ "groups-max", "N", "16", "groups at a time; one more is refused", take_groups_max },
	{ "memory-max", "SIZE", "1G",
	  "memory for data under way, of all groups together. Each group that is let in has an equal part of it, so no "
	  "group can take another's",
	  take_memory_max },
	{ "threads", "N", "1", "threads that move and reduce; groups are spread over them", take_threads },
	{ "user", "NAME", NULL,
	  "become this user once the ports are open and the secret is read; only root can. No privilege can be had "
	  "again",
	  take_user },
	{ "metrics", "ADDRESS:PORT", NULL,
	  "answer GET /metrics there with counters in Prometheus' text form; on the loopback interface only",
	  take_metrics },
	{ "drain", "SECONDS", "10",
	  "after SIGTERM or SIGINT: how long groups have to finish what is running and to go on without this "
	  "aggregator. A second signal ends at once",
	  take_drain },
	{ "help", NULL, NULL, "print this", NULL },
	{ "version", NULL, NULL, "print the version", NULL },
	{ "man", NULL, NULL, "print the man page", NULL },
};
enum { ROW_COUNT = sizeof(rows) / sizeof(rows[0]) };

static const char about[] =
	"lends this host's cores and network card to jobs on other hosts. Named in their cluster file, it sums parts "
	"of "
	"their AllReduce: every member sends each byte once and receives the result once, half of what a ring moves.";

/* ------------------------------------------------------------------------------------------------------------- texts */

/* Words of text in lines, each after `indent` spaces but for the first, which begins at column `at`. */
static void print_words(FILE *out, const char *text, size_t indent, size_t at)
{
	bool first = true;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (!first && at + 1 + word > HELP_COLUMNS) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			fputc(' ', out);
			at++;
		}
		fprintf(out, "%.*s", (int)word, text);
		at += word;
		text += word;
		text += strspn(text, " ");
		first = false;
	}
	fputc('\n', out);
}

static void print_help(FILE *out)
{
	fputs("usage: tributaryd --listen ADDRESS:PORT --secret FILE [OPTIONS]\n\n", out);
	fputs("tributaryd ", out);
	print_words(out, about, 0, strlen("tributaryd "));
	fputc('\n', out);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		char left[64], help[512];
		int used = snprintf(left, sizeof(left), "  --%s %s", rows[i].name,
				    rows[i].argument ? rows[i].argument : "");

		snprintf(help, sizeof(help), "%s%s%s%s", rows[i].help, rows[i].standard ? " (default: " : "",
			 rows[i].standard ? rows[i].standard : "", rows[i].standard ? ")" : "");
		fputs(left, out);
		if (used >= HELP_INDENT)
			fprintf(out, "\n%*s", HELP_INDENT, "");
		else
			fprintf(out, "%*s", HELP_INDENT - used, "");
		print_words(out, help, HELP_INDENT, HELP_INDENT);
	}
	fputs("\nTRIBUTARY_* variables set the transport; `tributary params` lists them.\n", out);
}

/* troff takes a dash for a hyphen, and a dot or a quote at the start of a line for itself. */
static void print_roff(FILE *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		if (at == text && (*at == '.' || *at == '\''))
			fputs("\\&", out);
		if (*at == '-' || *at == '\\')
			fputc('\\', out);
		fputc(*at, out);
	}
}

static void print_man(FILE *out)
{
	fputs(".TH TRIBUTARYD 8 \"\" \"tributary\" \"System administration\"\n"
	      ".SH NAME\ntributaryd \\- an aggregator for collective communication\n"
	      ".SH SYNOPSIS\n.B tributaryd\n\\-\\-listen ADDRESS:PORT \\-\\-secret FILE [OPTIONS]\n"
	      ".SH DESCRIPTION\n.B tributaryd\n",
	      out);
	print_roff(out, about);
	fputs("\n.PP\nMembers find it by the cluster file that TRIBUTARY_CLUSTER names, and prove the secret of the "
	      "file "
	      "that TRIBUTARY_SECRET names. It runs in the foreground and logs to stderr; systemd is told when it is "
	      "ready.\n.SH OPTIONS\n",
	      out);
	for (size_t i = 0; i < ROW_COUNT; i++) {
		fprintf(out, ".TP\n.B \\-\\-");
		print_roff(out, rows[i].name);
		if (rows[i].argument)
			fprintf(out, " \\fI%s\\fR", rows[i].argument);
		fputc('\n', out);
		print_roff(out, rows[i].help);
		if (rows[i].standard)
			fprintf(out, ". Default: %s", rows[i].standard);
		fputs(".\n", out);
	}
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

/* ------------------------------------------------------------------------------------------------------------- parse */

static const struct option_row *find(const char *name, size_t bytes)
{
	for (size_t i = 0; i < ROW_COUNT; i++)
		if (strlen(rows[i].name) == bytes && !memcmp(rows[i].name, name, bytes))
			return &rows[i];
	return NULL;
}

static enum daemon_start wrong(FILE *complaints, const char *option, const char *what)
{
	fprintf(complaints, "tributaryd: %s%s (see `tributaryd --help`)\n", option, what);
	return DAEMON_WRONG;
}

/* All rows that have a standard value, before anything is given. */
static void set_standards(struct daemon_options *options)
{
	struct diag diag;

	memset(options, 0, sizeof(*options));
	for (size_t i = 0; i < ROW_COUNT; i++)
		if (rows[i].standard)
			(void)rows[i].take(rows[i].standard, options, &diag);
}

static enum daemon_start print_text(const struct option_row *row, FILE *out)
{
	if (!strcmp(row->name, "help"))
		print_help(out);
	else if (!strcmp(row->name, "version"))
		fputs("tributaryd " TRIBUTARY_VERSION "\n", out);
	else
		print_man(out);
	return DAEMON_DONE;
}

enum daemon_start daemon_options_parse(int argc, char **argv, struct daemon_options *ret, FILE *out, FILE *complaints)
{
	struct diag diag = { 0 };
	char what[sizeof(diag.text) + 2];

	set_standards(ret);
	for (int i = 1; i < argc; i++) {
		const char *text = argv[i], *equals, *value = NULL;
		const struct option_row *row;

		if (strncmp(text, "--", 2) != 0)
			return wrong(complaints, text, ": unexpected argument");
		equals = strchr(text, '=');
		row = find(text + 2, equals ? (size_t)(equals - text) - 2 : strlen(text + 2));
		if (!row)
			return wrong(complaints, text, ": unknown option");
		if (!row->argument)
			return equals ? wrong(complaints, text, ": takes no value") : print_text(row, out);
		value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : "";
		if (!*value)
			return wrong(complaints, text, ": a value is missing");
		if (row->take(value, ret, &diag) < 0) {
			snprintf(what, sizeof(what), ": %s", diag.text);
			return wrong(complaints, text, what);
		}
	}
	if (!ret->listen_count)
		return wrong(complaints, "--listen", " is missing");
	if (!ret->secret[0])
		return wrong(complaints, "--secret", " is missing");
	return DAEMON_START;
}
