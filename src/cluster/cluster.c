/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster's own text form, and finding a host in it. */
#include "tributary/cluster.h"

#include "base/parse.h"
#include "base/sys.h"
#include "cluster/text.h"
#include "topology/internal.h"

#include <errno.h>
#include <string.h>

#define FIRST_WORD "tributary-cluster"

enum key { PARENT, LEAF, RATE, UP, DOWN, KEY_COUNT };

static const char *const key_words[KEY_COUNT] = { "parent", "leaf", "rate", "up", "down" };

/* The rest of a line: key=value, each key once. */
struct values {
	struct cluster_word at[KEY_COUNT]; /* .at NULL: not there */
};

struct reader {
	struct cluster_text *text;
	struct cluster_draft *draft;
};

static struct cluster_word next_word(struct cluster_text *text, const char *stops)
{
	cluster_text_skip_blanks(text);
	return cluster_text_word(text, stops);
}

/* allowed: bits of the keys that this kind of line has. expected: the same in words. */
static int read_values(struct cluster_text *text, unsigned allowed, const char *expected, struct values *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (;;) {
		struct cluster_word key = next_word(text, "=");
		int which = 0;

		if (!key.bytes && cluster_text_line_ends(text))
			return 0;
		while (which < KEY_COUNT && !(allowed & 1U << which && cluster_word_is(&key, key_words[which], false)))
			which++;
		if (which == KEY_COUNT || cluster_text_peek(text) != '=')
			return cluster_fail_expected(text->diag, &key, expected);
		if (ret->at[which].at)
			return cluster_fail(text->diag, &key, "%s= stands in this line already", key_words[which]);
		text->at++;
		ret->at[which] = cluster_text_word(text, "");
	}
}

static int rate_of(const struct reader *reader, const struct cluster_word *word, uint64_t *ret)
{
	return word->at ? cluster_word_rate(word, reader->text->diag, ret) : 0;
}

/* The switch that a value names, whose line stands above. */
static int switch_of(const struct reader *reader, const struct cluster_word *word, int *ret)
{
	int r = cluster_word_name(word, "a switch", reader->text->diag);

	if (r < 0)
		return r;
	*ret = cluster_draft_find_switch(reader->draft, word->at, word->bytes);
	if (*ret != CLUSTER_NONE)
		return 0;
	return cluster_fail(reader->text->diag, word, "no line above has the switch %.*s: put its line before this one",
			    (int)(word->bytes < 60 ? word->bytes : 60), word->at);
}

static int leaf_of(const struct reader *reader, const struct values *values, const struct cluster_word *subject,
		   int *ret)
{
	if (!values->at[LEAF].at)
		return cluster_fail(reader->text->diag, subject, "leaf=SWITCH is missing in this line");
	return switch_of(reader, &values->at[LEAF], ret);
}

/* switch NAME [parent=SWITCH] [rate=RATE | up=RATE down=RATE] */
static int read_switch(struct reader *reader)
{
	struct cluster_word name = next_word(reader->text, "=");
	struct draft_switch *at;
	struct values values = { 0 };
	int parent, index = 0, r;

	r = cluster_draft_switch(reader->draft, &name, &index);
	if (r == 0)
		r = read_values(reader->text, 1 << PARENT | 1 << RATE | 1 << UP | 1 << DOWN,
				"parent=SWITCH, rate=RATE, up=RATE or down=RATE", &values);
	if (r < 0)
		return r;
	at = &reader->draft->switches[index];
	if (values.at[RATE].at && (values.at[UP].at || values.at[DOWN].at))
		return cluster_fail(reader->text->diag, &values.at[RATE],
				    "rate= is both directions: leave it out, or up= and down=");
	r = rate_of(reader, &values.at[values.at[RATE].at ? RATE : UP], &at->up_rate_Bps);
	if (r == 0)
		r = rate_of(reader, &values.at[values.at[RATE].at ? RATE : DOWN], &at->down_rate_Bps);
	if (r < 0 || !values.at[PARENT].at)
		return r;
	r = switch_of(reader, &values.at[PARENT], &parent);
	if (r == 0 && parent == index)
		return cluster_fail(reader->text->diag, &values.at[PARENT], "the switch %.*s would be below itself",
				    (int)name.bytes, name.at);
	if (r == 0)
		at->parent = parent;
	return r;
}

/* host LIST leaf=SWITCH [rate=RATE] */
static int read_host(struct reader *reader)
{
	struct cluster_word list = next_word(reader->text, "=");
	uint64_t rate_Bps = 0;
	struct values values;
	int leaf = 0, r;

	r = read_values(reader->text, 1 << LEAF | 1 << RATE, "leaf=SWITCH or rate=RATE", &values);
	if (r == 0)
		r = leaf_of(reader, &values, &list, &leaf);
	if (r == 0)
		r = rate_of(reader, &values.at[RATE], &rate_Bps);
	return r < 0 ? r : cluster_draft_hosts(reader->draft, &list, leaf, rate_Bps);
}

/* A name, an IPv4 address, or an IPv6 address in brackets, then a colon and a port. */
static int read_address(const struct cluster_word *word, struct diag *diag, struct cluster_word *ret,
			uint16_t *ret_port)
{
	static const char expected[] = "ADDRESS:PORT, an IPv6 address in brackets";
	const char *colon = word->bytes ? memrchr(word->at, ':', word->bytes) : NULL;
	uint64_t port = 0;
	char digits[8];
	size_t bytes;
	bool v6;

	if (!colon || colon == word->at)
		return cluster_fail_expected(diag, word, expected);
	*ret = *word;
	ret->bytes = (size_t)(colon - word->at);
	bytes = word->bytes - ret->bytes - 1;
	if (bytes >= sizeof(digits))
		return cluster_fail_expected(diag, word, expected);
	memcpy(digits, colon + 1, bytes);
	digits[bytes] = '\0';
	if (strlen(digits) != bytes || parse_u64(digits, 1, UINT16_MAX, &port) < 0)
		return cluster_fail_expected(diag, word, "ADDRESS:PORT with a port from 1 to 65535");
	*ret_port = (uint16_t)port;
	v6 = ret->at[0] == '[' && ret->bytes > 2 && ret->at[ret->bytes - 1] == ']';
	if (!v6)
		return cluster_word_name(ret, "an aggregator's host", diag);
	ret->at++;
	ret->bytes -= 2;
	for (size_t i = 0; i < ret->bytes; i++)
		if (!ret->at[i] || !strchr("0123456789abcdefABCDEF:.", ret->at[i]) || ret->bytes > 45)
			return cluster_fail_expected(diag, word, expected);
	return 0;
}

/* aggregator ADDRESS:PORT leaf=SWITCH [rate=RATE] */
static int read_aggregator(struct reader *reader)
{
	struct cluster_word word = next_word(reader->text, "="), address;
	uint64_t rate_Bps = 0;
	struct values values;
	uint16_t port = 0;
	int leaf = 0, r;

	r = read_address(&word, reader->text->diag, &address, &port);
	if (r == 0)
		r = read_values(reader->text, 1 << LEAF | 1 << RATE, "leaf=SWITCH or rate=RATE", &values);
	if (r == 0)
		r = leaf_of(reader, &values, &word, &leaf);
	if (r == 0)
		r = rate_of(reader, &values.at[RATE], &rate_Bps);
	return r < 0 ? r : cluster_draft_aggregator(reader->draft, &word, &address, port, leaf, rate_Bps);
}

/* rates measured|declared */
static int read_rates(struct reader *reader)
{
	struct cluster_word word = next_word(reader->text, "");
	bool measured = cluster_word_is(&word, "measured", false);

	if (!measured && !cluster_word_is(&word, "declared", false))
		return cluster_fail_expected(reader->text->diag, &word, "measured or declared");
	word = next_word(reader->text, "");
	if (word.bytes)
		return cluster_fail_expected(reader->text->diag, &word, "the end of the line");
	reader->draft->measured = measured;
	return 0;
}

static const struct {
	const char *keyword;
	int (*read)(struct reader *reader);
} lines[] = {
	{ "switch", read_switch }, { "host", read_host }, { "aggregator", read_aggregator }, { "rates", read_rates }
};

static int read_line(struct reader *reader)
{
	struct cluster_word keyword = next_word(reader->text, "=");

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (cluster_word_is(&keyword, lines[i].keyword, false))
			return lines[i].read(reader);
	return cluster_fail_expected(reader->text->diag, &keyword, "switch, host, aggregator, rates or #");
}

/* Our own form, behind its first word. */
static int read_own(struct reader *reader)
{
	struct cluster_word version = next_word(reader->text, "");
	int r = 0;

	if (!cluster_word_is(&version, "1", false))
		return cluster_fail_expected(reader->text->diag, &version,
					     "version 1 of the form, which is the newest that this program reads");
	version = next_word(reader->text, "");
	if (version.bytes)
		return cluster_fail_expected(reader->text->diag, &version, "the end of the line");
	cluster_text_next_line(reader->text);
	for (; r == 0 && reader->text->at < reader->text->bytes; cluster_text_next_line(reader->text)) {
		cluster_text_skip_blanks(reader->text);
		if (!cluster_text_line_ends(reader->text))
			r = read_line(reader);
	}
	return r;
}

/* What the command converts and the plugin does not read: JSON, and how ibnetdiscover's output begins. */
static bool is_wiring(const struct cluster_word *first)
{
	static const char *const words[] = { "vendid", "Switch", "Ca" };

	if (first->bytes && (first->at[0] == '{' || first->at[0] == '['))
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (cluster_word_is(first, words[i], false))
			return true;
	return false;
}

/* Which form it is, is told by the first word that is not a comment. */
static int read_any(struct reader *reader)
{
	struct cluster_text *text = reader->text, start;
	struct cluster_word word;

	for (;; cluster_text_next_line(text)) {
		cluster_text_skip_blanks(text);
		if (!cluster_text_line_ends(text) || text->at >= text->bytes)
			break;
	}
	start = *text;
	word = cluster_text_word(text, "=");
	if (!word.bytes && text->at >= text->bytes)
		return cluster_fail(text->diag, &word, "the file is empty%s: expected %s",
				    text->bytes ? " but for blank lines and comments" : "", CLUSTER_FORMS);
	if (cluster_word_is(&word, FIRST_WORD, false))
		return read_own(reader);
	if (cluster_is_yaml(&word)) {
		*text = start;
		return cluster_read_yaml(text, reader->draft);
	}
	if (is_wiring(&word))
		return cluster_fail(
			text->diag, &word,
			"this looks like what LLDP or InfiniBand says of cables: `tributary cluster show FILE "
			"--text` makes a cluster file of it");
	cluster_text_skip_blanks(text);
	if (!word.bytes || (cluster_text_peek(text) != '=' && !cluster_word_is(&word, "Include", true)))
		return cluster_fail_expected(text->diag, &word, CLUSTER_FORMS);
	*text = start;
	return cluster_read_slurm(text, reader->draft);
}

int cluster_read(const char *text, size_t bytes, struct cluster **ret, struct diag *diag)
{
	struct cluster_text words = { .text = text, .bytes = bytes, .line = 1, .diag = diag };
	struct cluster_draft draft;
	struct reader reader = { &words, &draft };
	int r;

	if (bytes > CLUSTER_TEXT_BYTES_MAX) {
		diag_set(diag, 1, 1, "expected at most %d MiB of text", CLUSTER_TEXT_BYTES_MAX >> 20);
		return -EINVAL;
	}
	r = cluster_draft_init(&draft, diag);
	if (r == 0)
		r = read_any(&reader);
	if (r == 0)
		r = cluster_draft_finish(&draft, ret);
	cluster_draft_fini(&draft);
	return r;
}

void cluster_free(struct cluster *cluster)
{
	sys_free(cluster);
}

/* -------------------------------------------------------------------------------------------------------------- find */

static const struct cluster_host *find_name(const struct cluster *cluster, const char *name)
{
	size_t low = 0, high = cluster->host_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = topology_compare_names(name, cluster->hosts[middle].name);

		if (!order)
			return &cluster->hosts[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* A file with domains, a host that does not say its own: the one whose name begins so, if it is one. */
static const struct cluster_host *find_short(const struct cluster *cluster, const char *name)
{
	const struct cluster_host *found = NULL;
	size_t bytes = strlen(name);

	for (size_t i = 0; i < cluster->host_count; i++) {
		const char *other = cluster->hosts[i].name;

		if (strncmp(other, name, bytes) != 0 || other[bytes] != '.')
			continue;
		if (found)
			return NULL;
		found = &cluster->hosts[i];
	}
	return found;
}

const struct cluster_host *cluster_find(const struct cluster *cluster, const char *host)
{
	const struct cluster_host *found = find_name(cluster, host);
	const char *dot = strchr(host, '.');
	char first[CLUSTER_NAME_MAX + 1];

	if (found)
		return found;
	if (!dot)
		return find_short(cluster, host);
	if ((size_t)(dot - host) >= sizeof(first))
		return NULL;
	memcpy(first, host, (size_t)(dot - host));
	first[dot - host] = '\0';
	return find_name(cluster, first);
}
