/* SPDX-License-Identifier: Apache-2.0 */
/* What checks have in common: findings, facts, and what is above what. */
#include "command/doctor/doctor.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *doctor_severity_word(enum doctor_severity severity)
{
	static const char *const words[DOCTOR_SEVERITY_COUNT] = {
		[DOCTOR_SKIPPED] = "skipped", [DOCTOR_GOOD] = "good",       [DOCTOR_UNKNOWN] = "unknown",
		[DOCTOR_NOTE] = "note",       [DOCTOR_WARNING] = "warning", [DOCTOR_ERROR] = "error",
	};

	return words[severity];
}

/* Text from outside, for a terminal and for lines that are taken apart again. */
static void clean(char *text, bool spaces)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 127 || (*text == ' ' && !spaces))
			*text = spaces ? '?' : '_';
	}
}

void doctor_add(struct doctor *doctor, enum doctor_severity severity, const char *subject, const char *fmt, ...)
{
	struct doctor_report *report = &doctor->report;
	struct doctor_finding *finding;
	va_list args;

	if (doctor->result < 0)
		return;
	doctor->result = sys_grow(&report->at, report->count, 1, sizeof(*finding));
	if (doctor->result < 0)
		return;
	finding = &report->at[report->count++];
	memset(finding, 0, sizeof(*finding));
	finding->check = doctor->check;
	finding->severity = severity;
	finding->remedy = doctor->check->remedy;
	snprintf(finding->subject, sizeof(finding->subject), "%s", *subject ? subject : "machine");
	va_start(args, fmt);
	log_sentence_v(finding->evidence, sizeof(finding->evidence), fmt, args);
	va_end(args);
	clean(finding->subject, false);
	clean(finding->evidence, true);
}

/* ----------------------------------------------------------------------------------------------------------- facts */

bool doctor_has_facts(const struct doctor *doctor)
{
	const char *line = doctor->facts && doctor->facts->bytes ? doctor->facts->text : "";

	/* A file of hwloc's has those of NUMA nodes alone. */
	while (!strncmp(line, "numa ", 5) || !strncmp(line, "locality ", 9))
		line += strcspn(line, "\n") + 1;
	return *line;
}

bool doctor_next_fact(const struct doctor *doctor, struct doctor_fact *fact)
{
	const char *line = fact->next ? fact->next : doctor->facts ? doctor->facts->text : NULL;
	size_t what_bytes = strlen(fact->what), bytes;

	for (; line && *line; line += bytes + (line[bytes] == '\n')) {
		bytes = strcspn(line, "\n");
		if (bytes <= what_bytes || memcmp(line, fact->what, what_bytes) != 0 || line[what_bytes] != ' ' ||
		    bytes + 1 >= sizeof(fact->line))
			continue;
		memcpy(fact->line, line, bytes);
		fact->line[bytes] = fact->line[bytes + 1] = '\0'; /* a word is missing: it is "" */
		fact->bytes = bytes;
		fact->subject = fact->line + what_bytes + 1;
		fact->rest = line + what_bytes + 1 + strcspn(fact->subject, " ");
		fact->next = line + bytes + (line[bytes] == '\n');
		for (char *at = fact->line; (at = strchr(at, ' ')); at++)
			*at = '\0';
		return true;
	}
	return false;
}

bool doctor_find_fact(const struct doctor *doctor, const char *what, const char *subject, struct doctor_fact *ret)
{
	ret->what = what;
	ret->next = NULL;
	while (doctor_next_fact(doctor, ret))
		if (!subject || !strcmp(ret->subject, subject))
			return true;
	return false;
}

const char *doctor_fact_value(const struct doctor_fact *fact, const char *key)
{
	size_t bytes = strlen(key);

	for (const char *word = fact->line; word < fact->line + fact->bytes; word += strlen(word) + 1)
		if (!strncmp(word, key, bytes) && word[bytes] == '=')
			return word[bytes + 1] && strcmp(word + bytes + 1, "unknown") != 0 ? word + bytes + 1 : NULL;
	return NULL;
}

bool doctor_fact_is(const struct doctor_fact *fact, const char *key, const char *word)
{
	const char *value = doctor_fact_value(fact, key);

	return value && !strcmp(value, word);
}

bool doctor_fact_number(const struct doctor_fact *fact, const char *key, uint64_t *ret)
{
	const char *value = doctor_fact_value(fact, key);

	return value && !parse_u64(value, 0, UINT64_MAX, ret);
}

uint32_t doctor_above(const struct topology *topology, uint32_t vertex)
{
	uint32_t link = topology_uplink(topology, vertex);

	return link == TOPOLOGY_NONE ? TOPOLOGY_NONE : topology->links[link].upper;
}
