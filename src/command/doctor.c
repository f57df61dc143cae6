/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary doctor`: what is wrong with the machine. */
#include "command/command.h"

#include "command/answer.h"
#include "command/doctor/doctor.h"
#include "command/json.h"
#include "command/obstacles.h"
#include "command/source.h"
#include "command/term.h"

#include <stdlib.h>
#include <string.h>

static int status_of(enum doctor_severity worst)
{
	if (worst == DOCTOR_ERROR)
		return COMMAND_ERRORS;
	return worst == DOCTOR_WARNING ? COMMAND_WARNINGS : COMMAND_OK;
}

/* ----------------------------------------------------------------------------------------------------------- answer */

static void count(const struct doctor_report *report, size_t ret[static DOCTOR_SEVERITY_COUNT])
{
	memset(ret, 0, DOCTOR_SEVERITY_COUNT * sizeof(ret[0]));
	for (size_t i = 0; i < report->count; i++)
		ret[report->at[i].severity]++;
}

/* How many of the worst, and which that is; what could not be seen is no good news. */
static void answer(const struct doctor_report *report, struct answer *ret)
{
	const struct doctor_finding *worst = &report->at[0];
	size_t counts[DOCTOR_SEVERITY_COUNT];
	const char *separator = "";
	bool is_machine = !strcmp(worst->subject, "machine");
	char text[48];

	count(report, counts);
	*ret = (struct answer){ .text = "" };
	if (!counts[DOCTOR_ERROR] && !counts[DOCTOR_WARNING]) {
		answer_add(ret, counts[DOCTOR_GOOD] ? "Nothing is wrong in what could be seen"
						    : "Nothing could be seen that is wrong or right");
		separator = ": ";
	}
	for (enum doctor_severity i = DOCTOR_ERROR; i >= DOCTOR_NOTE; i--) {
		if (!counts[i])
			continue;
		answer_add(ret, "%s%s", separator, answer_count(counts[i], doctor_severity_word(i), text));
		separator = ", ";
	}
	answer_add(ret, "%s%zu good, %zu not known.", *separator ? separator : ": ", counts[DOCTOR_GOOD],
		   counts[DOCTOR_UNKNOWN]);
	if (worst->severity >= DOCTOR_NOTE)
		answer_add(ret, " %s%s: %s%s%s.",
			   report->count > 1 && report->at[1].severity >= DOCTOR_NOTE ? "First, " : "",
			   worst->check->word, is_machine ? "" : worst->subject, is_machine ? "" : ": ",
			   worst->evidence);
}

static int print_json(const struct doctor_report *report, FILE *out)
{
	json_t *list = json_array();
	struct answer first;

	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *at = &report->at[i];

		json_array_append_new(list, json_pack("{ss ss so so ss ss}", "check", at->check->word, "verdict",
						      doctor_severity_word(at->severity), "subject",
						      json_text(at->subject), "evidence", json_text(at->evidence),
						      "cost", at->check->cost, "remedy", at->remedy));
	}
	answer(report, &first);
	return json_print("tributary-doctor 1",
			  json_pack("{so ss so}", "answer", answer_json(&first), "worst",
				    doctor_severity_word(doctor_worst(report)), "findings", list),
			  out);
}

/* ------------------------------------------------------------------------------------------------------------- text */

static void print_finding(const struct doctor_finding *at, bool explained, const struct term *term, FILE *out)
{
	static const enum term_colour colours[DOCTOR_SEVERITY_COUNT] = {
		[DOCTOR_SKIPPED] = TERM_DIM, [DOCTOR_GOOD] = TERM_GREEN,     [DOCTOR_UNKNOWN] = TERM_DIM,
		[DOCTOR_NOTE] = TERM_BLUE,   [DOCTOR_WARNING] = TERM_YELLOW, [DOCTOR_ERROR] = TERM_RED,
	};

	fprintf(out, "%s %s%s%s %s %s\n", at->check->word, term_on(term, colours[at->severity]),
		doctor_severity_word(at->severity), term_off(term), at->subject, at->evidence);
	if (at->severity < DOCTOR_NOTE || explained)
		return;
	fprintf(out, "    %scost:%s %s\n", term_on(term, TERM_DIM), term_off(term), at->check->cost);
	fprintf(out, "    %sremedy:%s %s\n", term_on(term, TERM_DIM), term_off(term), at->remedy);
}

/* In one line, by what the machine lacks: these findings are the last of all. */
static void print_skipped(const struct doctor_report *report, size_t from, FILE *out)
{
	if (from == report->count)
		return;
	fprintf(out, "skipped: ");
	for (size_t i = from; i < report->count; i++) {
		const char *evidence = report->at[i].evidence, *separator = "";
		size_t j = from;

		while (strcmp(report->at[j].evidence, evidence) != 0)
			j++;
		if (j < i)
			continue;
		fprintf(out, "%s%s (", i > from ? "; " : "", evidence);
		for (; j < report->count; j++) {
			if (strcmp(report->at[j].evidence, evidence) != 0)
				continue;
			fprintf(out, "%s%s", separator, report->at[j].check->word);
			separator = ", ";
		}
		fputc(')', out);
	}
	fputc('\n', out);
}

static void print_text(const struct doctor_report *report, const struct term *term, FILE *out)
{
	struct answer first;
	size_t i = 0;

	answer(report, &first);
	answer_print(&first, out);
	for (; i < report->count && report->at[i].severity > DOCTOR_SKIPPED; i++) {
		const struct doctor_finding *at = &report->at[i];
		/* Several findings of one check are explained once, after the last of them. */
		bool more = i + 1 < report->count && report->at[i + 1].check == at->check &&
			    report->at[i + 1].severity >= DOCTOR_NOTE;

		print_finding(at, more, term, out);
	}
	print_skipped(report, i, out);
}

/* What stands in the way of plans, as more facts. For want of memory it is not known. */
static void add_obstacles(struct discover_facts *facts)
{
	enum { LINE_BYTES = OBSTACLE_TEXT_BYTES + 64 };
	struct obstacle list[OBSTACLES_MAX];
	size_t count = obstacles_find(list, NULL);
	char *text = realloc(facts->text, facts->bytes + (count + 1) * LINE_BYTES + 1), *end;

	if (!text)
		return;
	end = text + facts->bytes;
	end += snprintf(end, LINE_BYTES, "obstacle none\n");
	for (size_t i = 0; i < count; i++)
		end += snprintf(end, LINE_BYTES, "obstacle %s %s %s\n", list[i].name,
				list[i].is_set ? "warning" : "note", list[i].text);
	facts->text = text;
	facts->bytes = (size_t)(end - text);
}

static int run(const struct command_call *call, FILE *out)
{
	struct term term = term_of(call, out);
	struct doctor_report report;
	struct source source;
	int status, r;

	status = source_load(call, SOURCE_PROFILE_HERE, &source);
	if (status != COMMAND_OK)
		return status;
	if (source.no_profile.text[0])
		command_say("rates are nominal: %s", source.no_profile.text);
	if (!command_given(call, "from"))
		add_obstacles(&source.facts);
	r = doctor_examine(&source.topology, &source.facts, command_given(call, "from"), &report);
	source_fini(&source);
	if (r < 0)
		return command_failed(NULL, r, "the machine cannot be examined");
	if (command_given(call, "json"))
		status = print_json(&report, out);
	else
		print_text(&report, &term, out);
	if (status == COMMAND_OK)
		status = status_of(doctor_worst(&report));
	doctor_report_fini(&report);
	return status;
}

const struct command command_doctor = {
	.name = "doctor",
	.group = COMMAND_SEE,
	.operands = "",
	.help = "what is wrong with the machine, what it costs, what helps",
	.about =
		"One line for each finding, the worst first: check, verdict, subject, evidence, with one space between; "
		"lines that begin with spaces explain. Verdicts: good, unknown, note, warning, error. The last line names "
		"the checks that were skipped, as the machine has nothing of the kind. docs/guide/doctor.md lists the checks.\n"
		"Exit status 3: the worst finding is a warning; 4: it is an error.",
	.options = { COMMAND_OPTION_FROM, COMMAND_OPTION_PROFILE, COMMAND_OPTION_JSON, COMMAND_OPTION_COLOR },
	.example = "tributary doctor",
	.run = run,
};
