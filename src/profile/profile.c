/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile as text:
 *
 *     tributary-profile 1
 *     measured 1753900000 by "tributary 0.1.0"
 *     fingerprint 0123456789abcdef
 *     machine card 0000:19:00.0 kind=gpu ...
 *     tributary-topology 1
 *     ...
 *     tributary-cluster 1                   (version 2)
 *     ...
 *     checksum crc32 89abcdef
 *
 * The first line is read first, then the checksum of everything before the last line, and only then anything else.
 */
#include "profile/profile_text.h"

#include "base/crc.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text.h"
#include "profile/fingerprint_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIRST    "tributary-profile "
#define MACHINE  "machine "
#define CLUSTER  "tributary-cluster "
#define CHECKSUM "checksum crc32 "

enum { CHECKSUM_LINE_BYTES = sizeof(CHECKSUM) - 1 + 8 + 1 };

struct reader {
	struct fingerprint_span rest;
	int line; /* number of the line last taken */
	struct diag *diag;
};

void profile_init(struct profile *profile)
{
	memset(profile, 0, sizeof(*profile));
	topology_init(&profile->topology);
}

void profile_fini(struct profile *profile)
{
	topology_fini(&profile->topology);
	fingerprint_fini(&profile->fingerprint);
	cluster_free(profile->cluster);
	profile_init(profile);
}

/* -------- writing -------- */

/* A name that stands between quotes: printable, and without what would end it. */
static bool is_quotable(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
			return false;
	return true;
}

int profile_write(const struct profile *profile, char **ret, size_t *ret_bytes)
{
	struct fingerprint_span rest = { profile->fingerprint.text, profile->fingerprint.bytes }, line;
	struct fingerprint again = { 0 };
	size_t graph_bytes = 0, cluster_bytes = 0;
	char *graph = NULL, *cluster = NULL;
	struct text text = { 0 };
	int r;

	if (!is_quotable(profile->measured_by))
		return -EINVAL;
	/* What could not be read back is not written. */
	r = fingerprint_of_text(rest.at, rest.bytes, &again);
	if (r < 0)
		return r;
	r = topology_write(&profile->topology, &graph, &graph_bytes);
	if (r == 0 && profile->cluster)
		r = cluster_format(profile->cluster, &cluster, &cluster_bytes);
	if (r < 0)
		goto out;
	text_put(&text, FIRST "%d\nmeasured %" PRId64 " by \"%s\"\nfingerprint %s\n", cluster ? PROFILE_VERSION : 1,
		 profile->date_s, profile->measured_by, again.id);
	while (fingerprint_next_line(&rest, &line))
		text_put(&text, MACHINE "%.*s\n", (int)line.bytes, line.at);
	text_put(&text, "%s%s", graph, cluster ? cluster : "");
	text_put(&text, CHECKSUM "%08" PRIx32 "\n", crc_ieee32(text.at, text.bytes));
	if (!text.error && text.bytes > PROFILE_MOST_BYTES) {
		sys_free(text.at);
		r = -EFBIG;
	} else {
		r = text_take(&text, ret, ret_bytes);
	}
out:
	sys_free(graph);
	sys_free(cluster);
	fingerprint_fini(&again);
	return r;
}

/* -------- whole and of this version -------- */

/* What of a text may be the beginning of this one, which was cut off. */
static bool is_beginning_of(const char *text, size_t bytes, const char *whole)
{
	return bytes <= strlen(whole) && !memcmp(text, whole, bytes);
}

/* The number of the version, which ends with a space or the line: a newer version may say more in its first line. */
static int check_version(const char *text, size_t bytes, uint64_t *ret, struct diag *diag)
{
	size_t prefix = strlen(FIRST), digits = 0;
	char number[24];
	uint64_t version = 0;
	int r;

	if (is_beginning_of(text, bytes, FIRST)) {
		diag_set(diag, 1, 0, bytes ? "it is cut off in its first line" : "it is empty");
		return -EBADMSG;
	}
	if (bytes < prefix || memcmp(text, FIRST, prefix)) {
		diag_set(diag, 1, 0, "it is not a profile: the first line is not \"%s1\"", FIRST);
		return -EINVAL;
	}
	while (prefix + digits < bytes && text[prefix + digits] >= '0' && text[prefix + digits] <= '9')
		digits++;
	if (prefix + digits == bytes) {
		diag_set(diag, 1, 0, "it is cut off in its first line");
		return -EBADMSG;
	}
	snprintf(number, sizeof(number), "%.*s", (int)(digits < sizeof(number) ? digits : sizeof(number) - 1),
		 text + prefix);
	r = parse_u64(number, 1, UINT64_MAX, &version);
	if ((text[prefix + digits] != '\n' && text[prefix + digits] != ' ') || r == -EINVAL || number[0] == '0') {
		diag_set(diag, 1, (int)prefix + 1, "it is not a profile: its first line has no version");
		return -EINVAL;
	}
	if (r == -ERANGE || version > PROFILE_VERSION) {
		diag_set(diag, 1, (int)prefix + 1, "it is of version %s, and this program reads versions up to %d",
			 number, PROFILE_VERSION);
		return -EPROTONOSUPPORT;
	}
	if (text[prefix + digits] != '\n') {
		diag_set(diag, 1, (int)(prefix + digits) + 1, "the first line has more than the version");
		return -EINVAL;
	}
	*ret = version;
	return 0;
}

static int check_sum(const char *text, size_t bytes, struct diag *diag)
{
	size_t before = bytes < CHECKSUM_LINE_BYTES ? 0 : bytes - CHECKSUM_LINE_BYTES;
	const char *last = text + before;
	char digits[9];
	uint32_t is;
	uint64_t said = 0;

	if (!before || text[before - 1] != '\n' || text[bytes - 1] != '\n' ||
	    memcmp(last, CHECKSUM, sizeof(CHECKSUM) - 1)) {
		diag_set(diag, 0, 0, "it is cut off: the last line is not its checksum");
		return -EBADMSG;
	}
	memcpy(digits, last + sizeof(CHECKSUM) - 1, 8);
	digits[8] = '\0';
	is = crc_ieee32(text, before);
	if (strspn(digits, "0123456789abcdef") != 8 || parse_hex64(digits, &said) < 0 || said != is) {
		diag_set(diag, 0, 0, "it is damaged: its checksum is %08" PRIx32 ", not the one in its last line", is);
		return -EBADMSG;
	}
	return 0;
}

/* -------- line by line -------- */

static bool next_line(struct reader *reader, struct fingerprint_span *ret)
{
	reader->line++;
	return fingerprint_next_line(&reader->rest, ret);
}

static bool starts_with(struct fingerprint_span line, const char *word)
{
	return line.bytes >= strlen(word) && !memcmp(line.at, word, strlen(word));
}

static int wrong(const struct reader *reader, int column, const char *reason)
{
	diag_set(reader->diag, reader->line, column, "%s", reason);
	return -EINVAL;
}

/* measured 1753900000 by "tributary 0.1.0" */
static int read_measured(struct reader *reader, struct profile *profile)
{
	static const char expected[] = "a line 'measured SECONDS by \"PROGRAM\"' was expected";
	static const char keyword[] = "measured ", by[] = " by \"";
	struct fingerprint_span line;
	size_t digits, name_bytes;
	char number[24];
	const char *at, *end;

	if (!next_line(reader, &line) || !starts_with(line, keyword))
		return wrong(reader, 1, expected);
	at = line.at + sizeof(keyword) - 1;
	end = line.at + line.bytes;
	for (digits = 0; at + digits < end && at[digits] != ' '; digits++)
		if (digits + 1 >= sizeof(number))
			return wrong(reader, (int)sizeof(keyword), "the date is not a number of seconds since 1970");
	memcpy(number, at, digits);
	number[digits] = '\0';
	if (strlen(number) != digits || parse_i64(number, INT64_MIN, INT64_MAX, &profile->date_s) < 0)
		return wrong(reader, (int)sizeof(keyword), "the date is not a number of seconds since 1970");
	at += digits;
	if ((size_t)(end - at) < sizeof(by) || memcmp(at, by, sizeof(by) - 1) || end[-1] != '"')
		return wrong(reader, (int)(at - line.at) + 1, expected);
	at += sizeof(by) - 1;
	name_bytes = (size_t)(end - 1 - at);
	if (name_bytes >= sizeof(profile->measured_by))
		return wrong(reader, (int)(at - line.at) + 1, "the name of the program is too long");
	memcpy(profile->measured_by, at, name_bytes);
	profile->measured_by[name_bytes] = '\0';
	if (strlen(profile->measured_by) != name_bytes || !is_quotable(profile->measured_by))
		return wrong(reader, (int)(at - line.at) + 1,
			     "the name of the program has a character that is not allowed");
	return 0;
}

/* The lines "machine ...", as long as there are any, to a text without that word. */
static int read_machine(struct reader *reader, struct fingerprint *ret)
{
	struct fingerprint_span rest = reader->rest, line, before = { rest.at, 0 };
	size_t bytes = 0, count = 0;
	const char *fault = NULL;
	char *text;
	int r = 0;

	for (; fingerprint_next_line(&rest, &line) && starts_with(line, MACHINE); count++)
		bytes += line.bytes + 1 - strlen(MACHINE);
	text = sys_zalloc(bytes + 1);
	if (!text)
		return -ENOMEM;
	bytes = 0;
	for (size_t i = 0; i < count && !fault && next_line(reader, &line); i++) {
		line.at += strlen(MACHINE);
		line.bytes -= strlen(MACHINE);
		fault = i == FINGERPRINT_MOST_LINES ? "the machine has too many lines"
						    : fingerprint_fault(before, line);
		memcpy(text + bytes, line.at, line.bytes);
		text[bytes + line.bytes] = '\n';
		bytes += line.bytes + 1;
		before = line;
	}
	r = fault ? wrong(reader, (int)strlen(MACHINE) + 1, fault) : fingerprint_of_text(text, bytes, ret);
	if (r == -EINVAL && !fault)
		wrong(reader, 0, "the lines of the machine are too long together");
	sys_free(text);
	return r;
}

static int read_fingerprint(struct reader *reader, struct fingerprint *ret)
{
	static const char keyword[] = "fingerprint ";
	struct fingerprint_span line, id;
	int r, line_of_id;

	if (!next_line(reader, &line) || !starts_with(line, keyword))
		return wrong(reader, 1, "a line \"fingerprint ID\" was expected");
	line_of_id = reader->line;
	id = (struct fingerprint_span){ line.at + sizeof(keyword) - 1, line.bytes - (sizeof(keyword) - 1) };
	r = read_machine(reader, ret);
	if (r < 0)
		return r;
	if (!fingerprint_span_is(id, (struct fingerprint_span){ ret->id, strlen(ret->id) })) {
		diag_set(reader->diag, line_of_id, (int)sizeof(keyword),
			 "the lines of the machine give the fingerprint %s", ret->id);
		fingerprint_fini(ret);
		return -EINVAL;
	}
	return 0;
}

/* Line numbers of a part count from its own first line. */
static int end_part(struct reader *reader, int r)
{
	if (r < 0 && reader->diag && reader->diag->line > 0)
		reader->diag->line += reader->line;
	return r;
}

/* The graph's text, up to the line with which the cluster begins. */
static struct fingerprint_span graph_of(const struct reader *reader)
{
	struct fingerprint_span rest = reader->rest, line;

	while (fingerprint_next_line(&rest, &line))
		if (starts_with(line, CLUSTER))
			return (struct fingerprint_span){ reader->rest.at, (size_t)(line.at - reader->rest.at) };
	return reader->rest;
}

static size_t count_lines(struct fingerprint_span text)
{
	struct fingerprint_span line;
	size_t count = 0;

	while (fingerprint_next_line(&text, &line))
		count++;
	return count;
}

static int read_topology(struct reader *reader, uint64_t version, struct profile *profile)
{
	struct fingerprint_span graph = version > 1 ? graph_of(reader) : reader->rest;
	int r = end_part(reader, topology_read(graph.at, graph.bytes, &profile->topology, reader->diag));

	if (r < 0)
		return r;
	reader->line += (int)count_lines(graph);
	reader->rest.at += graph.bytes;
	reader->rest.bytes -= graph.bytes;
	if (version < 2)
		return 0;
	return end_part(reader, cluster_read(reader->rest.at, reader->rest.bytes, &profile->cluster, reader->diag));
}

static int read_head(struct reader *reader, struct profile *profile)
{
	struct fingerprint_span first;
	int r = next_line(reader, &first) ? read_measured(reader, profile) : -EINVAL;

	return r < 0 ? r : read_fingerprint(reader, &profile->fingerprint);
}

int profile_read(const char *text, size_t bytes, struct profile *ret, struct diag *diag)
{
	struct reader reader = { { text, bytes - (bytes < CHECKSUM_LINE_BYTES ? 0 : CHECKSUM_LINE_BYTES) }, 0, diag };
	struct profile profile;
	uint64_t version = 0;
	int r;

	profile_init(ret);
	profile_init(&profile);
	if (bytes > PROFILE_MOST_BYTES) {
		diag_set(diag, 0, 0, "it is longer than %d MiB", PROFILE_MOST_BYTES >> 20);
		return -EINVAL;
	}
	r = check_version(text, bytes, &version, diag);
	if (!r)
		r = check_sum(text, bytes, diag);
	if (!r)
		r = read_head(&reader, &profile);
	if (!r)
		r = read_topology(&reader, version, &profile);
	if (r < 0) {
		profile_fini(&profile);
		return r;
	}
	*ret = profile;
	return 0;
}

int profile_read_head(const char *text, size_t bytes, struct fingerprint *ret, int64_t *ret_date_s)
{
	struct reader reader = { { text, bytes }, 0, NULL };
	struct profile profile;
	uint64_t version;
	int r;

	profile_init(&profile);
	r = check_version(text, bytes, &version, NULL);
	if (!r)
		r = read_head(&reader, &profile);
	if (!r) {
		*ret = profile.fingerprint;
		*ret_date_s = profile.date_s;
		memset(&profile.fingerprint, 0, sizeof(profile.fingerprint));
	}
	profile_fini(&profile);
	return r;
}
