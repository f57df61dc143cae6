/* `tributary doctor`: what is wrong with the machine. */
#include "command/command.h"

#include "command/doctor/doctor.h"
#include "command/json.h"
#include "command/obstacles.h"
#include "command/source.h"
#include "command/term.h"

#include <stdlib.h>

static int status_of(enum doctor_severity worst)
{
	if (worst == DOCTOR_ERROR)
		return COMMAND_ERRORS;
	return worst == DOCTOR_WARNING ? COMMAND_WARNINGS : COMMAND_OK;
}

static int print_json(const struct doctor_report *report, FILE *out)
{
	json_t *list = json_array();

	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *at = &report->at[i];

		json_array_append_new(list, json_pack("{ss ss so so ss ss}", "check", at->check->word, "verdict",
						      doctor_severity_word(at->severity), "subject",
						      json_text(at->subject), "evidence", json_text(at->evidence),
						      "cost", at->check->cost, "remedy", at->remedy));
	}
	return json_print("tributary-doctor 1",
			  json_pack("{ss so}", "worst", doctor_severity_word(doctor_worst(report)), "findings", list),
			  out);
}

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

static void print_text(const struct doctor_report *report, const struct term *term, FILE *out)
{
	size_t counts[DOCTOR_SEVERITY_COUNT] = { 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *at = &report->at[i];
		/* Several findings of one check are explained once, after the last of them. */
		bool more = i + 1 < report->count && report->at[i + 1].check == at->check &&
			    report->at[i + 1].severity >= DOCTOR_NOTE;

		print_finding(at, more, term, out);
		counts[at->severity]++;
	}
	fprintf(out, "summary %s machine %zu errors, %zu warnings, %zu notes, %zu unknown, %zu good, %zu skipped\n",
		doctor_severity_word(doctor_worst(report)), counts[DOCTOR_ERROR], counts[DOCTOR_WARNING],
		counts[DOCTOR_NOTE], counts[DOCTOR_UNKNOWN], counts[DOCTOR_GOOD], counts[DOCTOR_SKIPPED]);
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
		fprintf(stderr, "tributary: rates are nominal: %s\n", source.no_profile.text);
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
	.operands = "",
	.help = "what is wrong with the machine, what it costs, what helps",
	.about =
		"One line for each finding: check, verdict, subject, evidence, with one space between; lines that "
		"begin with spaces explain. Verdicts: skipped, good, unknown, note, warning, error. docs/guide/doctor.md "
		"lists the checks.\n"
		"Exit status 3: the worst finding is a warning; 4: it is an error.",
	.options = { COMMAND_OPTION_FROM, COMMAND_OPTION_PROFILE, COMMAND_OPTION_JSON, COMMAND_OPTION_COLOR },
	.run = run,
};
