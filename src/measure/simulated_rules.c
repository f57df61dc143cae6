/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/simulated_probe.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 8, LINE_BYTES = 256 };

/* Rates, parts and times are written with decimals; base/parse.h reads those as seconds, exactly. */
#define BILLION 1e9

void simulated_rules_init(struct probe_rules *rules)
{
	*rules = (struct probe_rules){
		.kernel = 1, .p2p_root = 1, .p2p_socket = 1, .staged = 1, .p2p = PROBE_RULES_P2P_ALL
	};
	for (size_t i = 0; i < TOPOLOGY_LINK_KIND_COUNT; i++)
		rules->both[i] = 1;
	for (size_t i = 0; i < TOPOLOGY_KIND_COUNT; i++)
		rules->engine_out[i] = rules->engine_in[i] = rules->device[i] = 1;
}

/* A line, in words. */
struct words {
	char text[LINE_BYTES];
	const char *word[WORDS_MAX];
	size_t count;
};

static int split(const char *line, size_t bytes, struct words *ret)
{
	const char *comment = memchr(line, '#', bytes);
	char *at = ret->text;

	/* A '#' inside a word is the number of a parallel link. */
	while (comment && comment > line && comment[-1] != ' ' && comment[-1] != '\t')
		comment = memchr(comment + 1, '#', bytes - (size_t)(comment + 1 - line));
	if (comment)
		bytes = (size_t)(comment - line);
	if (bytes >= sizeof(ret->text))
		return -EINVAL;
	memcpy(ret->text, line, bytes);
	ret->text[bytes] = '\0';
	ret->count = 0;
	for (;;) {
		at += strspn(at, " \t\r");
		if (!*at)
			return 0;
		if (ret->count == WORDS_MAX)
			return -EINVAL;
		ret->word[ret->count++] = at;
		at += strcspn(at, " \t\r");
		if (*at)
			*at++ = '\0';
	}
}

/* A decimal number from 0 to max, in units of which a billion are nine decimals. */
static int decimal(const char *text, double max, double *ret)
{
	uint64_t value;
	int r = parse_seconds(text, 0, (uint64_t)(max * BILLION), &value);

	if (r == 0)
		*ret = (double)value / BILLION;
	return r;
}

static int nanoseconds(const char *text, uint64_t *ret)
{
	return parse_u64(text, 0, (uint64_t)1 << 62, ret);
}

static int link_kind(const char *word, size_t *ret)
{
	for (size_t i = 0; i < TOPOLOGY_LINK_KIND_COUNT; i++)
		if (strcmp(word, topology_link_kind_word((enum topology_link_kind)i)) == 0) {
			*ret = i;
			return 0;
		}
	return -EINVAL;
}

static int device_kind(const char *word, size_t *ret)
{
	static const enum topology_kind devices[] = { TOPOLOGY_GPU, TOPOLOGY_NIC };

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		if (strcmp(word, topology_kind_word(devices[i])) == 0) {
			*ret = devices[i];
			return 0;
		}
	return -EINVAL;
}

static int read_name(const char *word, char *ret, size_t ret_bytes)
{
	if (strlen(word) >= ret_bytes)
		return -EINVAL;
	memcpy(ret, word, strlen(word) + 1);
	return 0;
}

static int read_pair(struct probe_rules *rules, const struct words *words)
{
	struct probe_rules_pair *pair = &rules->pairs[rules->pair_count];
	int r = 0;

	if (words->count != 4 || rules->pair_count == PROBE_RULES_PAIRS_MAX)
		return -EINVAL;
	r = read_name(words->word[1], pair->from, sizeof(pair->from));
	if (r == 0)
		r = read_name(words->word[2], pair->to, sizeof(pair->to));
	if (r == 0)
		r = decimal(words->word[3], 1, &pair->part);
	if (r == 0)
		rules->pair_count++;
	return r;
}

static int read_neighbour(struct probe_rules *rules, const struct words *words)
{
	struct probe_rules_neighbour *neighbour = &rules->neighbours[rules->neighbour_count];
	int r;

	if (words->count != 5 || rules->neighbour_count == PROBE_RULES_NEIGHBOURS_MAX)
		return -EINVAL;
	r = read_name(words->word[1], neighbour->link, sizeof(neighbour->link));
	if (r == 0)
		r = decimal(words->word[2], 0.99, &neighbour->part);
	if (r == 0)
		r = nanoseconds(words->word[3], &neighbour->from_ns);
	if (r == 0)
		r = nanoseconds(words->word[4], &neighbour->to_ns);
	if (r == 0)
		rules->neighbour_count++;
	return r;
}

/* "both pci 0.9", "engine-in gpu 0.95", "device gpu 0.9": a part for a kind. 1: not such a rule. */
static int read_kind_rule(struct probe_rules *rules, const struct words *words)
{
	static const char *const names[] = { "both", "engine-out", "engine-in", "device", NULL };
	double *const tables[] = { rules->both, rules->engine_out, rules->engine_in, rules->device };
	size_t table = 0, kind = 0;
	double part = 0;

	if (parse_choice(words->word[0], names, &table) < 0)
		return 1;
	if (words->count != 3 || (table ? device_kind : link_kind)(words->word[1], &kind) < 0 ||
	    decimal(words->word[2], 1, &part) < 0 || part <= 0)
		return -EINVAL;
	tables[table][kind] = part;
	return 0;
}

static int read_value_rule(struct probe_rules *rules, const struct words *words)
{
	static const char *const extents[] = { "none", "switch", "socket", "all", NULL };
	const struct {
		const char *name;
		double *value;
		double max;
	} parts[] = {
		{ "kernel", &rules->kernel, 2 },         { "p2p-root", &rules->p2p_root, 1 },
		{ "p2p-socket", &rules->p2p_socket, 1 }, { "staged", &rules->staged, 1 },
		{ "noise", &rules->noise, 0.5 },         { "outliers", &rules->outliers, 0.5 },
	};
	const struct {
		const char *name;
		uint64_t *value;
	} times[] = {
		{ "ramp-ns", &rules->ramp_ns },
		{ "overhead-ns", &rules->overhead_ns },
		{ "latency-ns", &rules->latency_ns },
	};
	size_t extent;
	int r;

	if (words->count != 2)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(words->word[0], parts[i].name) == 0)
			return decimal(words->word[1], parts[i].max, parts[i].value);
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
		if (strcmp(words->word[0], times[i].name) == 0)
			return nanoseconds(words->word[1], times[i].value);
	if (strcmp(words->word[0], "cores-GBps") == 0) {
		r = decimal(words->word[1], 1e6, &rules->cores_Bps);
		rules->cores_Bps *= BILLION;
		return r;
	}
	if (strcmp(words->word[0], "p2p") != 0 || parse_choice(words->word[1], extents, &extent) < 0)
		return -EINVAL;
	rules->p2p = (enum probe_rules_p2p)extent;
	return 0;
}

static int read_line(struct probe_rules *rules, const struct words *words)
{
	int r;

	if (!words->count)
		return 0;
	if (strcmp(words->word[0], "pair") == 0)
		return read_pair(rules, words);
	if (strcmp(words->word[0], "neighbour") == 0)
		return read_neighbour(rules, words);
	r = read_kind_rule(rules, words);
	return r == 1 ? read_value_rule(rules, words) : r;
}

int simulated_rules_read(const char *text, size_t bytes, struct probe_rules *ret, struct diag *diag)
{
	struct probe_rules rules;
	const char *end = text + bytes;

	simulated_rules_init(&rules);
	for (int line = 1; text < end; line++) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t line_bytes = (size_t)((newline ? newline : end) - text);
		struct words words = { .count = 0 };

		if (split(text, line_bytes, &words) < 0 || read_line(&rules, &words) < 0) {
			diag_set(diag, line, 0, "not a rule of a simulated machine, or a value out of its range");
			return -EINVAL;
		}
		text += line_bytes + (newline ? 1 : 0);
	}
	*ret = rules;
	return 0;
}
