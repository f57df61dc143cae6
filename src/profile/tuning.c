/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/tuning.h"

#include "base/hash.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST "tributary tuning 1"

enum { LINE_BYTES = 256, RANKS_MAX = 1 << 20, CHOICE_WORDS = 9 };

static const char *const collectives[] = {
	[PREDICT_BROADCAST] = "broadcast",         [PREDICT_REDUCE] = "reduce",       [PREDICT_ALLGATHER] = "allgather",
	[PREDICT_REDUCESCATTER] = "reducescatter", [PREDICT_ALLREDUCE] = "allreduce", [PREDICT_COLLECTIVE_COUNT] = NULL,
};
static const char *const algorithms[] = {
	[PREDICT_TREE] = "tree",
	[PREDICT_RING] = "ring",
	[PREDICT_COLLNET_DIRECT] = "collnet-direct",
	[PREDICT_COLLNET_CHAIN] = "collnet-chain",
	[PREDICT_NVLS] = "nvls",
	[PREDICT_NVLS_TREE] = "nvls-tree",
	[PREDICT_PAT] = "pat",
	[PREDICT_ALGORITHM_COUNT] = NULL,
};
static const char *const protocols[] = {
	[PREDICT_LL] = "ll",
	[PREDICT_LL128] = "ll128",
	[PREDICT_SIMPLE] = "simple",
	[PREDICT_PROTOCOL_COUNT] = NULL,
};

const char *tuning_collective_word(int collective)
{
	return collective >= 0 && collective < PREDICT_COLLECTIVE_COUNT ? collectives[collective] : NULL;
}

const char *tuning_algorithm_word(int algorithm)
{
	if (algorithm == -1)
		return "-";
	return algorithm >= 0 && algorithm < PREDICT_ALGORITHM_COUNT ? algorithms[algorithm] : NULL;
}

const char *tuning_protocol_word(int protocol)
{
	if (protocol == -1)
		return "-";
	return protocol >= 0 && protocol < PREDICT_PROTOCOL_COUNT ? protocols[protocol] : NULL;
}

/* -------- finding -------- */

size_t tuning_size_class(uint64_t bytes)
{
	return bytes > 1 ? 64 - (size_t)__builtin_clzll(bytes - 1) : 0;
}

const struct tuning_choice *tuning_find(const struct tuning_table *table, int collective, uint64_t bytes)
{
	const size_t size = tuning_size_class(bytes);
	const struct tuning_choice *choice;

	if (collective < 0 || collective >= PREDICT_COLLECTIVE_COUNT || size >= TUNING_SIZES)
		return NULL;
	choice = &table->choices[collective][size];
	return choice->bytes_max ? choice : NULL;
}

/* -------- the hash -------- */

uint64_t tuning_hash(const char *text, size_t bytes)
{
	return hash_bytes(HASH_START, text, bytes);
}

void tuning_hash_format(uint64_t hash, char text[static TUNING_HASH_BYTES])
{
	snprintf(text, TUNING_HASH_BYTES, "%016" PRIx64, hash);
}

/* -------- reading -------- */

struct reader {
	const char *at, *end;
	char line[LINE_BYTES];
	int number; /* of that line */
	struct diag *diag;
};

static int fail(const struct reader *reader, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int fail(const struct reader *reader, const char *fmt, ...)
{
	char reason[256];
	va_list args;

	va_start(args, fmt);
	log_sentence_v(reason, sizeof(reason), fmt, args);
	va_end(args);
	diag_set(reader->diag, reader->number, 0, "%s; `tributary tune --measure` makes tables", reason);
	return -EINVAL;
}

/* 1: a line, printable and without comments; 0: the end. */
static int next_line(struct reader *reader)
{
	while (reader->at < reader->end) {
		const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
		size_t bytes = (size_t)((newline ? newline : reader->end) - reader->at);

		reader->number++;
		if (!newline)
			return fail(reader, "it is cut off in this line");
		if (bytes >= LINE_BYTES)
			return fail(reader, "the line is longer than %d characters", LINE_BYTES - 1);
		memcpy(reader->line, reader->at, bytes);
		reader->line[bytes] = '\0';
		for (size_t i = 0; i < bytes; i++)
			if (reader->line[i] < ' ' || reader->line[i] > '~')
				return fail(reader, "there is a character that is not printable ASCII");
		reader->at = newline + 1;
		if (reader->line[0] != '#')
			return 1;
	}
	return 0;
}

/* "NAME VALUE" is the next line. */
static int head(struct reader *reader, const char *name, const char **ret)
{
	size_t bytes = strlen(name);
	int r = next_line(reader);

	if (r < 0)
		return r;
	if (r == 0 || strncmp(reader->line, name, bytes) != 0 || reader->line[bytes] != ' ' ||
	    !reader->line[bytes + 1] || reader->line[bytes + 1] == ' ')
		return fail(reader, "expected \"%s\" and its value", name);
	*ret = reader->line + bytes + 1;
	return 0;
}

static int head_number(struct reader *reader, const char *name, size_t *ret)
{
	const char *text = "";
	uint64_t value;
	int r = head(reader, name, &text);

	if (r < 0)
		return r;
	if (parse_u64(text, 1, RANKS_MAX, &value) < 0)
		return fail(reader, "\"%s\" is a number from 1 to %d", name, RANKS_MAX);
	*ret = (size_t)value;
	return 0;
}

static int head_text(struct reader *reader, const char *name, char *ret, size_t ret_bytes)
{
	const char *text = "";
	int r = head(reader, name, &text);

	if (r < 0)
		return r;
	if (strlen(text) >= ret_bytes)
		return fail(reader, "\"%s\" has more than %zu characters", name, ret_bytes - 1);
	memcpy(ret, text, strlen(text) + 1);
	return 0;
}

static int version_parse(const char *text, unsigned *ret)
{
	uint64_t part[3];
	char number[8];

	for (size_t i = 0; i < 3; i++) {
		size_t bytes = strcspn(text, ".");

		if (bytes >= sizeof(number) || text[bytes] != (i < 2 ? '.' : '\0'))
			return -EINVAL;
		memcpy(number, text, bytes);
		number[bytes] = '\0';
		if (parse_u64(number, i ? 0 : 1, 99, &part[i]) < 0)
			return -EINVAL;
		text += bytes + 1;
	}
	*ret = (unsigned)(part[0] * 10000 + part[1] * 100 + part[2]);
	return 0;
}

static bool is_date(const char *text)
{
	static const char form[] = "0000-00-00T00:00:00Z";

	for (size_t i = 0; i < sizeof(form); i++)
		if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	return true;
}

static int head_read(struct reader *reader, struct tuning_table *ret)
{
	const char *text = "";
	int r = next_line(reader);

	if (r < 0)
		return r;
	if (r == 0 || strcmp(reader->line, FIRST) != 0)
		return fail(reader, "it is no tuning table, or one of a newer Tributary: its first line is not \"%s\"",
			    FIRST);
	r = head(reader, "nccl", &text);
	if (r == 0 && version_parse(text, &ret->nccl_version) < 0)
		r = fail(reader, "\"nccl\" is a version like 2.28.9");
	if (r == 0)
		r = head_number(reader, "ranks", &ret->rank_count);
	if (r == 0)
		r = head_number(reader, "hosts", &ret->host_count);
	if (r == 0 && ret->host_count > ret->rank_count)
		r = fail(reader, "there are more hosts than ranks");
	if (r == 0)
		r = head_text(reader, "gpus", ret->gpus, sizeof(ret->gpus));
	if (r == 0)
		r = head_text(reader, "network", ret->network, sizeof(ret->network));
	if (r == 0)
		r = head_text(reader, "measured", ret->measured, sizeof(ret->measured));
	if (r == 0 && !is_date(ret->measured))
		r = fail(reader, "\"measured\" is a time like 2026-11-27T18:30:00Z");
	return r;
}

/* Replaces spaces by NULs. One space between two words. The number of words, at most CHOICE_WORDS + 1. */
static size_t split(char *line, char *words[static CHOICE_WORDS + 1])
{
	size_t count = 0;

	for (char *at = line, *next; at && count <= CHOICE_WORDS; at = next) {
		next = strchr(at, ' ');
		if (next)
			*next++ = '\0';
		words[count++] = at;
	}
	return count;
}

static int word_find(const char *word, const char *const *words, int *ret)
{
	for (int i = 0; words[i]; i++) {
		if (!strcmp(word, words[i])) {
			*ret = i;
			return 0;
		}
	}
	return -EINVAL;
}

static int choice_read(const struct reader *reader, char *const *words, struct tuning_choice *choice)
{
	uint64_t channels, chunk_bytes;

	choice->algorithm = choice->protocol = -1;
	if (strcmp(words[3], "-") != 0 && word_find(words[3], algorithms, &choice->algorithm) < 0)
		return fail(reader, "there is no algorithm \"%.40s\"", words[3]);
	if (strcmp(words[4], "-") != 0 && word_find(words[4], protocols, &choice->protocol) < 0)
		return fail(reader, "there is no protocol \"%.40s\"", words[4]);
	if ((choice->algorithm < 0) != (choice->protocol < 0))
		return fail(reader, "algorithm and protocol are both named, or both \"-\"");
	if (parse_u64(words[5], 0, TUNING_CHANNELS_MAX, &channels) < 0)
		return fail(reader, "channels are a number from 0 to %d", TUNING_CHANNELS_MAX);
	if (parse_u64(words[6], 0, TUNING_CHUNK_MAX, &chunk_bytes) < 0 ||
	    (chunk_bytes && chunk_bytes < TUNING_CHUNK_MIN))
		return fail(reader, "chunks have 0, or %zu to %zu bytes", TUNING_CHUNK_MIN, TUNING_CHUNK_MAX);
	if (choice->algorithm < 0 && (channels || chunk_bytes))
		return fail(reader, "channels and chunks are those of a named algorithm: without one both are 0");
	if (parse_u64(words[7], 0, UINT64_MAX, &choice->time_ns) < 0 ||
	    parse_u64(words[8], 0, UINT64_MAX, &choice->untuned_ns) < 0)
		return fail(reader, "times are whole nanoseconds");
	choice->channels = (size_t)channels;
	choice->chunk_bytes = (size_t)chunk_bytes;
	return 0;
}

/* Sorted by collective's number and size, so one table has one text. */
static int line_read(struct reader *reader, size_t *last, struct tuning_table *ret)
{
	char *words[CHOICE_WORDS + 1];
	struct tuning_choice choice;
	int collective = 0, r;
	uint64_t bytes;
	size_t index;

	if (split(reader->line, words) != CHOICE_WORDS || strcmp(words[0], "choice") != 0)
		return fail(reader,
			    "expected \"choice\" with collective, bytes, algorithm, protocol, channels, bytes of "
			    "a chunk and two times");
	if (word_find(words[1], collectives, &collective) < 0)
		return fail(reader, "there is no collective \"%.40s\"", words[1]);
	if (parse_u64(words[2], 1, UINT64_C(1) << (TUNING_SIZES - 1), &bytes) < 0 || bytes & (bytes - 1))
		return fail(reader, "\"%.40s\" is no power of two up to 2^%d", words[2], TUNING_SIZES - 1);
	r = choice_read(reader, words, &choice);
	if (r < 0)
		return r;
	choice.bytes_max = (size_t)bytes;
	index = (size_t)collective * TUNING_SIZES + tuning_size_class(bytes) + 1;
	if (index <= *last)
		return fail(reader,
			    "it is not behind the line before it in the order of collectives (%s, %s, %s, %s, %s) "
			    "and sizes",
			    collectives[0], collectives[1], collectives[2], collectives[3], collectives[4]);
	*last = index;
	ret->choices[collective][tuning_size_class(bytes)] = choice;
	return 0;
}

int tuning_parse(const char *text, size_t bytes, struct tuning_table *ret, struct diag *diag)
{
	struct reader reader = { .at = text, .end = text + bytes, .diag = diag };
	size_t last = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	r = head_read(&reader, ret);
	while (r == 0) {
		r = next_line(&reader);
		if (r <= 0)
			break;
		r = line_read(&reader, &last, ret);
	}
	return r;
}

/* -------- writing -------- */

int tuning_print(const struct tuning_table *table, char **ret, size_t *ret_bytes)
{
	const unsigned version = table->nccl_version;
	struct tuning_table again;
	struct text text = { 0 };
	int r;

	text_put(&text, FIRST "\nnccl %u.%u.%u\nranks %zu\nhosts %zu\ngpus %s\nnetwork %s\nmeasured %s\n",
		 version / 10000, version / 100 % 100, version % 100, table->rank_count, table->host_count, table->gpus,
		 table->network, table->measured);
	text_put(&text, "# collective up-to-bytes algorithm protocol channels chunk-bytes time-ns untuned-ns\n");
	for (int c = 0; c < PREDICT_COLLECTIVE_COUNT; c++) {
		for (size_t s = 0; s < TUNING_SIZES; s++) {
			const struct tuning_choice *choice = &table->choices[c][s];
			const char *algorithm = tuning_algorithm_word(choice->algorithm);
			const char *protocol = tuning_protocol_word(choice->protocol);

			if (choice->bytes_max)
				text_put(&text, "choice %s %zu %s %s %zu %zu %" PRIu64 " %" PRIu64 "\n", collectives[c],
					 (size_t)1 << s, algorithm ? algorithm : "?", protocol ? protocol : "?",
					 choice->channels, choice->chunk_bytes, choice->time_ns, choice->untuned_ns);
		}
	}
	/* What could not be read back is not written. */
	r = text.error ? text.error : tuning_parse(text.at, text.bytes, &again, NULL);
	if (r < 0) {
		sys_free(text.at);
		return r;
	}
	return text_take(&text, ret, ret_bytes);
}
