/* What checks have in common: findings, facts, and where things are. */
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
	return doctor->facts && doctor->facts->bytes;
}

bool doctor_next_fact(const struct doctor *doctor, const char *what, const char **at, struct doctor_fact *ret)
{
	const char *line = *at ? *at : doctor->facts ? doctor->facts->text : NULL;
	size_t bytes = strlen(what);

	while (line && *line) {
		size_t length = strcspn(line, "\n");
		const char *next = line + length + (line[length] == '\n');

		if (length > bytes && !memcmp(line, what, bytes) && line[bytes] == ' ' && length < sizeof(ret->line)) {
			memcpy(ret->line, line, length);
			ret->line[length] = '\0';
			*at = next;
			return true;
		}
		line = next;
	}
	return false;
}

void doctor_fact_subject(const struct doctor_fact *fact, char *ret, size_t ret_bytes)
{
	const char *word = fact->line + strcspn(fact->line, " ");

	word += *word == ' ';
	snprintf(ret, ret_bytes, "%.*s", (int)strcspn(word, " "), word);
}

bool doctor_fact_value(const struct doctor_fact *fact, const char *key, char *ret, size_t ret_bytes)
{
	const char *rest = fact->line, *word;
	size_t bytes, key_bytes = strlen(key);

	ret[0] = '\0';
	while (parse_list_next(&rest, ' ', &word, &bytes)) {
		if (bytes > key_bytes && word[key_bytes] == '=' && !memcmp(word, key, key_bytes) &&
		    bytes - key_bytes <= ret_bytes)
			snprintf(ret, ret_bytes, "%.*s", (int)(bytes - key_bytes - 1), word + key_bytes + 1);
	}
	if (!strcmp(ret, "unknown"))
		ret[0] = '\0';
	return ret[0] != '\0';
}

bool doctor_fact_number(const struct doctor_fact *fact, const char *key, uint64_t *ret)
{
	char text[32];

	return doctor_fact_value(fact, key, text, sizeof(text)) && !parse_u64(text, 0, UINT64_MAX, ret);
}

bool doctor_sysctl(const struct doctor *doctor, const char *name, char *ret, size_t ret_bytes)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char subject[128];

	while (doctor_next_fact(doctor, "sysctl", &at, &fact)) {
		doctor_fact_subject(&fact, subject, sizeof(subject));
		if (!strcmp(subject, name))
			return doctor_fact_value(&fact, "value", ret, ret_bytes);
	}
	ret[0] = '\0';
	return false;
}

/* ----------------------------------------------------------------------------------------------------------- graph */

size_t doctor_count(const struct topology *topology, enum topology_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == kind;
	return count;
}

uint32_t doctor_above(const struct topology *topology, uint32_t vertex)
{
	uint32_t link = topology_uplink(topology, vertex);

	return link == TOPOLOGY_NONE ? TOPOLOGY_NONE : topology->links[link].upper;
}

bool doctor_is_above(const struct topology *topology, uint32_t above, uint32_t vertex)
{
	/* A graph from a file may be a ring where a tree is meant. */
	for (size_t steps = 0; vertex != TOPOLOGY_NONE && steps <= topology->vertex_count; steps++) {
		if (vertex == above)
			return true;
		vertex = doctor_above(topology, vertex);
	}
	return false;
}

static bool is_fast(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_NIC && (vertex->nic.rdma || vertex->nic.speed_Bps >= 1250000000);
}

bool doctor_is_fast_nic(const struct topology *topology, uint32_t vertex)
{
	if (is_fast(&topology->vertices[vertex]))
		return true;
	for (size_t i = 0; i < topology->vertex_count; i++) {
		if (is_fast(&topology->vertices[i]))
			return false;
	}
	return topology->vertices[vertex].kind == TOPOLOGY_NIC;
}

uint64_t doctor_rate(const struct topology *topology, uint32_t link, enum topology_direction direction)
{
	const struct topology_link *at = &topology->links[link];
	const struct topology_capacity *capacity = &at->capacity[direction];

	/* A lower bound is no reason to believe less than the nominal rate. */
	if (capacity->provenance == TOPOLOGY_AT_LEAST && at->nominal_Bps > capacity->rate_Bps)
		return at->nominal_Bps;
	return capacity->rate_Bps ? capacity->rate_Bps : at->nominal_Bps;
}
