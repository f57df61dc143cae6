/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary lint`: what bites in an NCCL topology file. */
#include "command/command.h"

#include "base/sys.h"
#include "base/text_file.h"
#include "command/json.h"
#include "command/source.h"
#include "command/term.h"
#include "ncclxml/lint.h"

#include <stdlib.h>
#include <string.h>

enum { XML_BYTES_MAX = 16 << 20 };

static const char *const severity_words[LINT_SEVERITY_COUNT] = {
	[LINT_NOTE] = "note",
	[LINT_WARNING] = "warning",
	[LINT_ERROR] = "error",
};

static int status_of(const struct lint_findings *findings)
{
	int status = COMMAND_OK;

	for (size_t i = 0; i < findings->count; i++) {
		if (findings->at[i].severity == LINT_ERROR)
			return COMMAND_ERRORS;
		if (findings->at[i].severity == LINT_WARNING)
			status = COMMAND_WARNINGS;
	}
	return status;
}

static int print_json(const struct lint_findings *findings, const char *path, FILE *out)
{
	json_t *list = json_array();

	for (size_t i = 0; i < findings->count; i++) {
		const struct lint_finding *at = &findings->at[i];

		json_array_append_new(list, json_pack("{ss ss si so so}", "severity", severity_words[at->severity],
						      "check", at->check, "line", at->line, "text", json_text(at->text),
						      "remedy", json_text(at->remedy)));
	}
	return json_print("tributary-lint 1", json_pack("{so so}", "file", json_text(path), "findings", list), out);
}

static void print_text(const struct lint_findings *findings, const char *path, const struct term *term, FILE *out)
{
	static const enum term_colour colours[LINT_SEVERITY_COUNT] = { TERM_BLUE, TERM_YELLOW, TERM_RED };
	char text[256];

	for (size_t i = 0; i < findings->count; i++) {
		const struct lint_finding *at = &findings->at[i];

		term_clean(at->text, text, sizeof(text));
		fprintf(out, "%s:%d: %s%s%s: %s [%s]\n", path, at->line, term_on(term, colours[at->severity]),
			severity_words[at->severity], term_off(term), text, at->check);
		if (at->remedy[0])
			fprintf(out, "    remedy: %s\n", at->remedy);
	}
	if (!findings->count)
		fprintf(out, "%s: nothing found\n", path);
}

static int lint(const struct command_call *call, const char *text, size_t bytes, const struct topology *measured,
		FILE *out)
{
	const char *path = call->operands[0];
	struct lint_findings findings = { 0 };
	struct diag diag = { 0 };
	struct term term = term_of(call, out);
	int status, r;

	r = lint_topology_xml(text, bytes, measured, &findings, &diag);
	if (r < 0)
		return command_failed(&diag, r, "\"%s\" cannot be read as XML", path);
	if (command_given(call, "json")) {
		status = print_json(&findings, path, out);
	} else {
		print_text(&findings, path, &term, out);
		status = COMMAND_OK;
	}
	if (status == COMMAND_OK)
		status = status_of(&findings);
	lint_findings_fini(&findings);
	return status;
}

static int run(const struct command_call *call, FILE *out)
{
	static const struct text_file kind = { .limit_bytes = XML_BYTES_MAX, .stream = true, .as_is = true };
	const char *profile = command_value(call, "profile");
	struct diag why = { .text = "" };
	struct source source;
	size_t bytes;
	char *text;
	int status;

	if (text_file_read(&kind, call->operands[0], XML_BYTES_MAX, &text, &bytes, &why) < 0)
		return command_failed(NULL, 0, "%s", why.text);
	if (!profile) {
		status = lint(call, text, bytes, NULL, out);
	} else {
		status = source_profile(profile, &source);
		if (status == COMMAND_OK) {
			status = lint(call, text, bytes, &source.topology, out);
			source_fini(&source);
		}
	}
	free(text);
	return status;
}

const struct command command_lint = {
	.name = "lint",
	.group = COMMAND_FILES,
	.operands = "FILE",
	.help = "what bites in an NCCL topology file",
	.about = "Exit status 3: warnings, 4: errors. docs/format/nccl-files.md has each check.",
	.options = { { "profile", "FILE", "check the widths that tributary wrote against this profile", NULL },
		     COMMAND_OPTION_JSON,
		     COMMAND_OPTION_COLOR },
	.example = "tributary lint topology.xml",
	.run = run,
};
