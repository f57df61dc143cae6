/* SPDX-License-Identifier: Apache-2.0 */
/* What `tributary check` prints: the answer, one finding after the other, and which interface reaches which. */
#include "command/check/check.h"

#include "command/answer.h"
#include "command/command.h"
#include "command/print/table.h"
#include "command/print/units.h"
#include "command/term.h"

#include <string.h>

enum { COLUMNS_MAX = 8 }; /* of hosts; more do not fit a terminal */

static enum doctor_severity worst(const struct check_report *report)
{
	return report->count ? report->at[0].severity : DOCTOR_GOOD;
}

static bool ends_sentence(const char *text)
{
	size_t length = strlen(text);

	return length && text[length - 1] == '.';
}

static void answer(const json_t *hosts, const struct check_report *report, struct answer *ret)
{
	const struct check_finding *first = report->at;
	size_t counts[DOCTOR_SEVERITY_COUNT] = { 0 }, count = json_array_size(hosts);
	const char *separator = "";
	char text[48];

	*ret = (struct answer){ .text = "" };
	answer_add(ret, "A job over %s will %swork with Tributary: ", answer_count(count, "host", text),
		   worst(report) == DOCTOR_ERROR ? "not " : "");
	for (size_t i = 0; i < report->count; i++)
		counts[report->at[i].severity]++;
	if (worst(report) < DOCTOR_WARNING)
		answer_add(ret, "nothing is wrong%s.", report->count ? "" : " in what was checked");
	for (enum doctor_severity i = DOCTOR_ERROR; i >= DOCTOR_WARNING; i--) {
		if (!counts[i])
			continue;
		answer_add(ret, "%s%s", separator, answer_count(counts[i], doctor_severity_word(i), text));
		separator = ", ";
	}
	if (worst(report) >= DOCTOR_WARNING)
		answer_add(ret, ". %s%s: %s: %s%s", report->count > 1 ? "First, " : "", first->check, first->subject,
			   first->evidence, ends_sentence(first->evidence) ? "" : ".");
}

/* ---------------------------------------------------------------------------------------------------------------- JSON */

static const char *interface_name(const json_t *host, int number)
{
	return json_text_of(
		json_array_get(json_object_get(json_object_get(host, "facts"), "interfaces"), (size_t)number), "name");
}

static json_t *reaches_json(const json_t *hosts, const json_t *host)
{
	json_t *list = json_array();
	struct check_attempt at;

	for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
		const json_t *other;

		if (!check_attempt(hosts, host, k, &at))
			continue;
		other = json_array_get(hosts, (size_t)at.host);
		json_array_append_new(list,
				      json_pack("{so so so so so}", "from",
						json_known_text(at.from < 0 ? "" : interface_name(host, at.from)),
						"host", json_text(json_text_of(other, "name")), "to",
						json_text(interface_name(other, at.to)), "error",
						json_known_text(at.error ? strerror(at.error) : ""), "packet_bytes",
						json_known((uint64_t)(at.packet > 1 ? at.packet : 0))));
	}
	return list;
}

static json_t *host_json(const json_t *hosts, const json_t *host)
{
	const json_t *facts = json_object_get(host, "facts"), *list = json_object_get(facts, "interfaces");
	const json_t *offset = json_object_get(host, "offset_ns");
	json_t *interfaces = json_array();

	for (size_t k = 0; k < json_array_size(list); k++) {
		const json_t *at = json_array_get(list, k);
		json_int_t port = json_integer_value(json_object_get(at, "port"));
		json_int_t mtu_bytes = json_integer_value(json_object_get(at, "mtu_bytes"));

		json_array_append_new(interfaces,
				      json_pack("{so so sI sI sf}", "name", json_text(json_text_of(at, "name")),
						"address", json_text(json_text_of(at, "address")), "port", port,
						"mtu_bytes", mtu_bytes, "speed_Bps",
						json_number_value(json_object_get(at, "speed_Bps"))));
	}
	return json_pack("{so sb so so so so so}", "name", json_text(json_text_of(host, "name")), "answers",
			 facts != NULL, "version", json_known_text(json_text_of(facts, "version")), "plugin",
			 json_known_text(json_text_of(json_object_get(facts, "plugin"), "file")), "clock_s",
			 json_is_number(offset) ? json_real(1e-9 * json_number_value(offset)) : json_null(),
			 "interfaces", interfaces, "reaches", reaches_json(hosts, host));
}

static int print_json(const json_t *hosts, const struct check_report *report, FILE *out)
{
	json_t *findings = json_array(), *list = json_array();
	struct answer first;

	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *at = &report->at[i];

		json_array_append_new(findings,
				      json_pack("{ss ss so so so}", "check", at->check, "verdict",
						doctor_severity_word(at->severity), "subject", json_text(at->subject),
						"evidence", json_text(at->evidence), "remedy", json_text(at->remedy)));
	}
	for (size_t i = 0; i < json_array_size(hosts); i++)
		json_array_append_new(list, host_json(hosts, json_array_get(hosts, i)));
	answer(hosts, report, &first);
	return json_print("tributary-check 1",
			  json_pack("{so ss so so}", "answer", answer_json(&first), "worst",
				    doctor_severity_word(worst(report)), "findings", findings, "hosts", list),
			  out);
}

/* ---------------------------------------------------------------------------------------------------------------- text */

/* What hosts say of themselves may have any character in it. */
static void print_cell(const char *before, const char *text, FILE *rows)
{
	char clean[160];

	term_clean(text, clean, sizeof(clean));
	fprintf(rows, "%s%s", before, clean);
}

/* The interfaces of host `to` that interface `from` of that host reaches. */
static void print_reached(const json_t *hosts, const json_t *host, size_t from, size_t to, FILE *rows)
{
	char text[160] = "-";
	const char *separator = "";
	struct check_attempt at;

	for (size_t k = 0; k < json_array_size(json_object_get(host, "reach")); k++) {
		size_t used = *separator ? strlen(text) : 0;

		if (!check_attempt(hosts, host, k, &at) || at.host != (int)to || at.from != (int)from)
			continue;
		if (at.error && !used)
			snprintf(text, sizeof(text), "none");
		if (at.error)
			continue;
		snprintf(text + used, sizeof(text) - used, "%s%s%s", separator,
			 interface_name(json_array_get(hosts, to), at.to), at.packet ? "(short packets)" : "");
		separator = ",";
	}
	print_cell("\t", text, rows);
}

static void print_matrix(const json_t *hosts, const struct check_report *report, FILE *out)
{
	size_t count = json_array_size(hosts), answering = 0, i, k;
	json_t *host, *at;
	struct table table;
	FILE *rows;

	json_array_foreach(hosts, i, host) answering += json_object_get(host, "facts") != NULL;
	if (count < 2 || !answering)
		return;
	if (count > COLUMNS_MAX) {
		fprintf(out, "\n--json shows which interface reaches which.\n");
		return;
	}
	if (report->count)
		fputc('\n', out);
	rows = table_begin(&table, out);
	fputs("HOST\tINTERFACE\tADDRESS\tMTU\tSPEED", rows);
	json_array_foreach(hosts, i, host) fprintf(rows, "\tREACHES %s", json_text_of(host, "name"));
	fputc('\n', rows);
	json_array_foreach(hosts, i, host)
		json_array_foreach(json_object_get(json_object_get(host, "facts"), "interfaces"), k, at)
	{
		char rate[UNITS_BYTES];

		print_cell("", json_text_of(host, "name"), rows);
		print_cell("\t", json_text_of(at, "name"), rows);
		print_cell("\t", json_text_of(at, "address"), rows);
		fprintf(rows, "\t%d\t%s", (int)json_integer_value(json_object_get(at, "mtu_bytes")),
			units_bits(json_number_value(json_object_get(at, "speed_Bps")), rate));
		for (size_t to = 0; to < count; to++)
			print_reached(hosts, host, k, to, rows);
		fputc('\n', rows);
	}
	table_end(&table, rows, "l  l  l  r  r  l");
}

static void print_text(const json_t *hosts, const struct check_report *report, const struct term *term, FILE *out)
{
	static const enum term_colour colours[DOCTOR_SEVERITY_COUNT] = {
		[DOCTOR_NOTE] = TERM_BLUE, [DOCTOR_WARNING] = TERM_YELLOW, [DOCTOR_ERROR] = TERM_RED
	};
	struct answer first;

	answer(hosts, report, &first);
	answer_print(&first, out);
	for (size_t i = 0; i < report->count; i++) {
		const struct check_finding *at = &report->at[i];
		char evidence[sizeof(at->evidence)], remedy[sizeof(at->remedy)];

		term_clean(at->evidence, evidence, sizeof(evidence));
		term_clean(at->remedy, remedy, sizeof(remedy));
		fprintf(out, "%s %s%s%s %s %s\n    %sremedy:%s %s\n", at->check, term_on(term, colours[at->severity]),
			doctor_severity_word(at->severity), term_off(term), at->subject, evidence,
			term_on(term, TERM_DIM), term_off(term), remedy);
	}
	print_matrix(hosts, report, out);
}

int check_print(const struct command_call *call, const json_t *hosts, const struct check_report *report, FILE *out)
{
	struct term term = term_of(call, out);
	int status = COMMAND_OK;

	if (command_given(call, "json"))
		status = print_json(hosts, report, out);
	else
		print_text(hosts, report, &term, out);
	if (status != COMMAND_OK)
		return status;
	return worst(report) == DOCTOR_ERROR     ? COMMAND_ERRORS
	       : worst(report) == DOCTOR_WARNING ? COMMAND_WARNINGS
						 : COMMAND_OK;
}
