/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text form, from anybody: one pass, a fact a line, and whatever a line names stands above it. The text may
 * end anywhere.
 */
#include "topology/fields.h"
#include "topology/index.h"
#include "topology/internal.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/sys.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	TEXT_BYTES_MAX = 64 << 20,
	WORD_BYTES = TOPOLOGY_AFFINITY_BYTES, /* any word: a CPU mask is the longest */
	SHOWN_BYTES = 40,                     /* of a wrong word in a message */
};

struct reader {
	const char *text;
	size_t bytes, at, line_start;
	int line;
	struct topology *topology;
	struct topology_index index;
	bool *rate_seen;     /* of each directed link */
	uint32_t *member_of; /* of each directed link: the last limit that it was put into, and 1 */
	uint32_t *members;   /* of the limit that is being read */
	bool name_seen, driver_seen;
	struct diag *diag;
};

/* ------------------------------------------------------------------------------------------------------------ words */

__attribute__((format(printf, 3, 4))) static int fail_at(const struct reader *reader, size_t at, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	diag_set_v(reader->diag, reader->line, (int)(at - reader->line_start) + 1, fmt, args);
	va_end(args);
	return -EINVAL;
}

static char peek(const struct reader *reader)
{
	return reader->at < reader->bytes ? reader->text[reader->at] : '\n';
}

static bool is_word_byte(char c)
{
	return (unsigned char)c > ' ' && c != 0x7f;
}

static bool is_plain_byte(char c)
{
	return c > ' ' && c <= '~';
}

/* How much of the word at a place is shown in a message; bytes that a terminal would obey are not. */
static int shown_bytes(const struct reader *reader, size_t at)
{
	int count = 0;

	for (; at < reader->bytes && count < SHOWN_BYTES && is_plain_byte(reader->text[at]); at++)
		count++;
	return count;
}

/* "expected a rate, found x" */
static int fail_expected(const struct reader *reader, size_t at, const char *expected)
{
	int count = shown_bytes(reader, at);

	if (count)
		return fail_at(reader, at, "expected %s, found %.*s", expected, count, reader->text + at);
	if (at >= reader->bytes || reader->text[at] == '\n' || reader->text[at] == '\r')
		return fail_at(reader, at, "expected %s, the line ends here", expected);
	return fail_at(reader, at, "expected %s, found byte 0x%02x", expected, (unsigned char)reader->text[at]);
}

static void skip_blanks(struct reader *reader)
{
	while (peek(reader) == ' ' || peek(reader) == '\t')
		reader->at++;
}

/* The end of a line that another system wrote is "\r\n". */
static bool line_ends(const struct reader *reader)
{
	if (peek(reader) == '\n')
		return true;
	return peek(reader) == '\r' && (reader->at + 1 == reader->bytes || reader->text[reader->at + 1] == '\n');
}

static void next_line(struct reader *reader)
{
	while (reader->at < reader->bytes && reader->text[reader->at] != '\n')
		reader->at++;
	if (reader->at < reader->bytes)
		reader->at++;
	reader->line++;
	reader->line_start = reader->at;
}

/* The next word, up to a blank or `stop` (0: none). *ret_at is its place; what it should be is for the message. */
static int read_word(struct reader *reader, char stop, const char *expected, char *ret, size_t ret_bytes,
		     size_t *ret_at)
{
	size_t count = 0;

	*ret_at = reader->at;
	for (; is_word_byte(peek(reader)) && peek(reader) != stop; reader->at++) {
		if (count + 1 == ret_bytes)
			return fail_expected(reader, *ret_at, expected);
		ret[count++] = peek(reader);
	}
	ret[count] = '\0';
	return count ? 0 : fail_expected(reader, *ret_at, expected);
}

static int next_word(struct reader *reader, const char *expected, char *ret, size_t ret_bytes, size_t *ret_at)
{
	skip_blanks(reader);
	return read_word(reader, '\0', expected, ret, ret_bytes, ret_at);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The rest of an escape, behind its backslash: \" \\ \n \x07. */
static int read_escape(struct reader *reader, char *ret)
{
	size_t at = reader->at - 1;
	char c = peek(reader);
	int high, low;

	reader->at++;
	switch (c) {
	case '"':
	case '\\':
		*ret = c;
		return 0;
	case 'n':
		*ret = '\n';
		return 0;
	case 'x':
		high = hex_digit(peek(reader));
		if (high >= 0)
			reader->at++;
		low = high >= 0 ? hex_digit(peek(reader)) : -1;
		if (low < 0 || (!high && !low))
			break;
		reader->at++;
		*ret = (char)(16 * high + low);
		return 0;
	}
	return fail_at(reader, at, "expected one of \\\" \\\\ \\n \\x01 to \\xff");
}

/* A value, in quotes or without; a text that is too long is told by its caller's `expected`. */
static int read_value(struct reader *reader, const char *expected, char *ret, size_t ret_bytes, size_t *ret_at)
{
	size_t count = 0;

	*ret_at = reader->at;
	if (peek(reader) != '"')
		return read_word(reader, '\0', expected, ret, ret_bytes, ret_at);
	for (reader->at++; peek(reader) != '"';) {
		char c = peek(reader);
		int r = 0;

		if ((unsigned char)c < ' ' || c == 0x7f)
			return fail_expected(reader, reader->at, "the closing quote");
		reader->at++;
		if (c == '\\')
			r = read_escape(reader, &c);
		if (r < 0)
			return r;
		if (count + 1 == ret_bytes)
			return fail_expected(reader, *ret_at, expected);
		ret[count++] = c;
	}
	reader->at++;
	ret[count] = '\0';
	if (!line_ends(reader) && peek(reader) != ' ' && peek(reader) != '\t')
		return fail_expected(reader, reader->at, "a blank after the closing quote");
	return 0;
}

/* ----------------------------------------------------------------------------------------------------------- fields */

static const struct field *field_of(const struct field *fields, const char *key, enum topology_kind kind,
				    unsigned *ret_place)
{
	for (unsigned i = 0; fields[i].key; i++) {
		if (!strcmp(fields[i].key, key) && fields_of_kind(&fields[i], kind)) {
			*ret_place = i;
			return &fields[i];
		}
	}
	return NULL;
}

/* The key and its '=', which is passed over. */
static int read_key(struct reader *reader, char *ret, size_t ret_bytes, size_t *ret_at)
{
	int r = read_word(reader, '=', "key=value", ret, ret_bytes, ret_at);

	if (r < 0)
		return r;
	if (peek(reader) != '=')
		return fail_expected(reader, *ret_at, "key=value");
	reader->at++;
	return 0;
}

/*
 * key=value up to the end of the line, or up to the key `last`, whose value is left to the caller (*ret_last then).
 * kind: of the vertex; any for other tables.
 */
static int read_fields(struct reader *reader, const struct field *fields, enum topology_kind kind, const char *last,
		       void *object, bool *ret_last)
{
	char key[WORD_BYTES], value[WORD_BYTES], expected[96], text[160];
	uint32_t seen = 0;
	size_t at;
	int r;

	for (skip_blanks(reader); !line_ends(reader); skip_blanks(reader)) {
		const struct field *field;
		unsigned place = 0;

		r = read_key(reader, key, sizeof(key), &at);
		if (r < 0)
			return r;
		if (last && !strcmp(key, last)) {
			*ret_last = true;
			return 0;
		}
		field = field_of(fields, key, kind, &place);
		if (!field)
			return fail_expected(reader, at, "a key of this kind of line");
		if (seen & (1U << place))
			return fail_at(reader, at, "a second time in this line: %.180s", key);
		seen |= 1U << place;
		fields_expected(field, expected, sizeof(expected));
		snprintf(text, sizeof(text), "%s= with %s", field->key, expected);
		r = read_value(reader, text, value, sizeof(value), &at);
		if (r < 0)
			return r;
		if (fields_set(field, object, value) < 0)
			return fail_expected(reader, at, text);
	}
	return 0;
}

/* Rate and provenance, which are there together or not at all. */
static int read_capacity(struct reader *reader, const char *last, struct topology_capacity *ret, bool *ret_last)
{
	static const char rate_expected[] = "a rate in bytes/s";
	static const char provenance_expected[] = "unknown, assumed, nominal, at_least or measured";
	char word[WORD_BYTES];
	size_t at;
	int r = next_word(reader, rate_expected, word, sizeof(word), &at);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r;
	if (parse_u64(word, 0, FIELD_RATE_MOST, &ret->rate_Bps) < 0)
		return fail_expected(reader, at, rate_expected);
	r = next_word(reader, provenance_expected, word, sizeof(word), &at);
	if (r < 0)
		return r;
	if (!topology_provenance_of_word(word, &ret->provenance))
		return fail_expected(reader, at, provenance_expected);
	if (ret->provenance == TOPOLOGY_UNKNOWN && ret->rate_Bps)
		return fail_expected(reader, at, "a rate of 0 before unknown, or where the rate is from");
	if (ret->provenance != TOPOLOGY_UNKNOWN && !ret->rate_Bps)
		return fail_expected(reader, at, "unknown after a rate of 0");
	return read_fields(reader, topology_capacity_fields, TOPOLOGY_GPU, last, ret, ret_last);
}

/* The name of a vertex that stands above. */
static int read_vertex_of(struct reader *reader, const char *expected, uint32_t *ret)
{
	char name[WORD_BYTES];
	size_t at;
	int r = next_word(reader, expected, name, sizeof(name), &at);

	if (r < 0)
		return r;
	*ret = topology_index_find(&reader->index, reader->topology, name);
	return *ret == TOPOLOGY_NONE ? fail_at(reader, at, "no vertex line above has the name %.180s", name) : 0;
}

/* The name of a directed link whose line stands above, up to a blank or a comma. */
static int read_directed(struct reader *reader, uint32_t *ret, size_t *ret_at)
{
	char name[WORD_BYTES];
	int r = read_word(reader, ',', "LOWER>UPPER or UPPER>LOWER", name, sizeof(name), ret_at);

	if (r < 0)
		return r;
	*ret = topology_index_find_directed(&reader->index, reader->topology, name);
	return *ret == TOPOLOGY_NONE ? fail_at(reader, *ret_at, "no link line above joins %.180s", name) : 0;
}

static int fail_again(const struct reader *reader, size_t at)
{
	return fail_at(reader, at, "a line above has said this already");
}

/* What the graph said to a fact. expected: what makes it possible. */
static int fail_added(const struct reader *reader, size_t at, int error, const char *expected)
{
	switch (error) {
	case -EEXIST:
		return fail_again(reader, at);
	case -E2BIG:
		return fail_at(reader, at, "expected no more lines of this kind: it is more than any machine has");
	case -EINVAL:
		return fail_expected(reader, at, expected);
	default:
		return error;
	}
}

/* ------------------------------------------------------------------------------------------------------------ lines */

static int read_text_line(struct reader *reader, bool *seen, char *ret, size_t ret_bytes)
{
	char expected[48];
	size_t at;

	skip_blanks(reader);
	if (*seen)
		return fail_again(reader, reader->at);
	*seen = true;
	snprintf(expected, sizeof(expected), "a text of at most %zu bytes", ret_bytes - 1);
	return read_value(reader, expected, ret, ret_bytes, &at);
}

static int read_name(struct reader *reader)
{
	return read_text_line(reader, &reader->name_seen, reader->topology->name, sizeof(reader->topology->name));
}

static int read_driver(struct reader *reader)
{
	return read_text_line(reader, &reader->driver_seen, reader->topology->driver, sizeof(reader->topology->driver));
}

static int read_vertex(struct reader *reader)
{
	static const char kind_expected[] = "gpu, nic, switch, bridge, cpu, memory, nvswitch, network or host";
	char word[TOPOLOGY_NAME_BYTES];
	struct topology_vertex vertex;
	enum topology_kind kind;
	size_t at;
	int r = next_word(reader, kind_expected, word, sizeof(word), &at);

	if (r < 0)
		return r;
	if (!topology_kind_of_word(word, &kind))
		return fail_expected(reader, at, kind_expected);
	r = next_word(reader, "a name of at most 63 bytes", word, sizeof(word), &at);
	if (r < 0)
		return r;
	vertex = topology_vertex_of(kind, word);
	r = read_fields(reader, topology_vertex_fields, kind, NULL, &vertex, NULL);
	if (r < 0)
		return r;
	r = topology_add_vertex(reader->topology, &vertex, NULL);
	if (r < 0)
		return fail_added(reader, at, r, "a name without quotes, backslashes, '>', '#' and ','");
	topology_index_add_vertex(&reader->index, reader->topology);
	return 0;
}

static int read_link(struct reader *reader)
{
	static const char kind_expected[] = "pci, nvlink, c2c, socket, memory, internal or network";
	char word[TOPOLOGY_NAME_BYTES];
	enum topology_link_kind kind;
	struct topology_link link;
	uint32_t lower = 0, upper = 0;
	size_t at, ends_at;
	int r = next_word(reader, kind_expected, word, sizeof(word), &at);

	if (r < 0)
		return r;
	if (!topology_link_kind_of_word(word, &kind))
		return fail_expected(reader, at, kind_expected);
	skip_blanks(reader);
	ends_at = reader->at;
	r = read_vertex_of(reader, "the link's lower vertex", &lower);
	if (r == 0)
		r = read_vertex_of(reader, "the link's upper vertex", &upper);
	if (r < 0)
		return r;
	link = topology_link_of(kind, lower, upper);
	r = read_fields(reader, topology_link_fields, TOPOLOGY_GPU, NULL, &link, NULL);
	if (r < 0)
		return r;
	r = topology_add_link(reader->topology, &link, NULL);
	if (r < 0)
		return fail_added(reader, ends_at, r, "two different vertices");
	topology_index_add_link(&reader->index, reader->topology);
	return 0;
}

static int read_rate(struct reader *reader)
{
	uint32_t directed;
	size_t at;
	int r;

	skip_blanks(reader);
	r = read_directed(reader, &directed, &at);
	if (r < 0)
		return r;
	if (reader->rate_seen[directed])
		return fail_again(reader, at);
	reader->rate_seen[directed] = true;
	return read_capacity(reader, NULL, &reader->topology->links[directed / 2].capacity[directed % 2], NULL);
}

/* a>b,c>d, the last of its line. limit: its index to be. */
static int read_members(struct reader *reader, uint32_t limit, size_t *ret_count)
{
	size_t count = 0, at;
	uint32_t directed;
	int r;

	for (;;) {
		r = read_directed(reader, &directed, &at);
		if (r < 0)
			return r;
		if (reader->member_of[directed] == limit + 1)
			return fail_at(reader, at, "a member of this limit already");
		reader->member_of[directed] = limit + 1;
		reader->members[count++] = directed;
		if (peek(reader) != ',')
			break;
		reader->at++;
	}
	*ret_count = count;
	return 0;
}

static int read_limit(struct reader *reader)
{
	struct topology_capacity capacity;
	char name[TOPOLOGY_NAME_BYTES];
	bool has_members = false;
	size_t count = 0, at;
	int r = next_word(reader, "a name of at most 63 bytes", name, sizeof(name), &at);

	if (r == 0)
		r = read_capacity(reader, "members", &capacity, &has_members);
	if (r == 0 && has_members)
		r = read_members(reader, (uint32_t)reader->topology->limit_count, &count);
	if (r < 0)
		return r;
	r = topology_add_limit(reader->topology, name, &capacity, reader->members, count, NULL);
	return r < 0 ? fail_added(reader, at, r, "a name without quotes and backslashes") : 0;
}

static bool consistent(const struct topology_capacity *capacity)
{
	return (capacity->rate_Bps > 0) == (capacity->provenance != TOPOLOGY_UNKNOWN);
}

static int read_pair(struct reader *reader)
{
	struct topology_pair pair = { 0 };
	size_t ends_at, fields_at;
	int r;

	skip_blanks(reader);
	ends_at = reader->at;
	r = read_vertex_of(reader, "the vertex that data comes from", &pair.from);
	if (r == 0)
		r = read_vertex_of(reader, "the vertex that data goes to", &pair.to);
	if (r < 0)
		return r;
	skip_blanks(reader);
	fields_at = reader->at;
	if (reader->bytes - reader->at < 10 || memcmp(reader->text + reader->at, "p2p_works=", 10) != 0)
		return fail_expected(reader, fields_at, "p2p_works=0 or p2p_works=1");
	r = read_fields(reader, topology_pair_fields, TOPOLOGY_GPU, NULL, &pair, NULL);
	if (r < 0)
		return r;
	if (!consistent(&pair.p2p))
		return fail_at(reader, fields_at, "expected both p2p_Bps= and p2p_provenance=, or none of them");
	if (!consistent(&pair.host))
		return fail_at(reader, fields_at, "expected both host_Bps= and host_provenance=, or none of them");
	r = topology_add_pair(reader->topology, &pair, NULL);
	return r < 0 ? fail_added(reader, ends_at, r, "two different vertices") : 0;
}

static const struct {
	const char *keyword;
	int (*read)(struct reader *reader);
} lines[] = {
	{ "name", read_name }, { "driver", read_driver }, { "vertex", read_vertex }, { "link", read_link },
	{ "rate", read_rate }, { "limit", read_limit },   { "pair", read_pair },
};

static int read_line(struct reader *reader)
{
	static const char expected[] = "name, driver, vertex, link, rate, limit, pair or #";
	char keyword[16];
	size_t at;
	int r;

	skip_blanks(reader);
	if (line_ends(reader) || peek(reader) == '#')
		return 0;
	r = next_word(reader, expected, keyword, sizeof(keyword), &at);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (strcmp(keyword, lines[i].keyword) != 0)
			continue;
		r = lines[i].read(reader);
		if (r < 0)
			return r;
		skip_blanks(reader);
		return line_ends(reader) ? 0 : fail_expected(reader, reader->at, "the end of the line");
	}
	return fail_expected(reader, at, expected);
}

static int read_first_line(struct reader *reader)
{
	static const char expected[] = "tributary-topology 1";
	char word[32];
	size_t at;
	int r = next_word(reader, expected, word, sizeof(word), &at);

	if (r < 0)
		return r;
	if (strcmp(word, "tributary-topology") != 0)
		return fail_expected(reader, at, expected);
	r = next_word(reader, "version 1 of the form", word, sizeof(word), &at);
	if (r < 0)
		return r;
	if (strcmp(word, "1") != 0)
		return fail_expected(reader, at, "version 1 of the form");
	skip_blanks(reader);
	return line_ends(reader) ? 0 : fail_expected(reader, reader->at, "the end of the line");
}

static int read_lines(struct reader *reader)
{
	int r = read_first_line(reader);

	for (next_line(reader); r == 0 && reader->at < reader->bytes; next_line(reader))
		r = read_line(reader);
	return r;
}

int topology_read(const char *text, size_t bytes, struct topology *ret, struct diag *diag)
{
	struct reader reader = { .text = text, .bytes = bytes, .line = 1, .topology = ret, .diag = diag };
	int r;

	topology_init(ret);
	if (bytes > TEXT_BYTES_MAX)
		return fail_at(&reader, 0, "expected at most 64 MiB of text");
	r = topology_index_init(&reader.index);
	reader.rate_seen = sys_zalloc(2 * TOPOLOGY_LINKS_MAX * sizeof(*reader.rate_seen));
	reader.member_of = sys_zalloc(2 * TOPOLOGY_LINKS_MAX * sizeof(*reader.member_of));
	reader.members = sys_zalloc(2 * TOPOLOGY_LINKS_MAX * sizeof(*reader.members));
	if (!reader.rate_seen || !reader.member_of || !reader.members)
		r = -ENOMEM;
	if (r == 0)
		r = read_lines(&reader);
	if (r < 0)
		topology_fini(ret);
	sys_free(reader.index.arrays);
	sys_free(reader.rate_seen);
	sys_free(reader.member_of);
	sys_free(reader.members);
	return r;
}
