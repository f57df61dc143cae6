/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/operations.h"

#include "base/sys.h"
#include "profile/tuning.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct operations_row) == 64, "one row, one line of the cache");
_Static_assert(OPERATIONS_COMMS <= UINT8_MAX && (int)PREDICT_COLLECTIVE_COUNT <= (int)OPERATIONS_SEND,
	       "the fields of a key");

/* Fields of a key, from its low end; the highest bit says that it is one. */
enum { KEY_COLLECTIVE = 8, KEY_ALGORITHM = 16, KEY_PROTOCOL = 24, KEY_SIZE = 32, KEY_CHANNELS = 40 };
#define KEY_USED (UINT64_C(1) << 63)

static const char *const times_words[] = {
	[OPERATIONS_TIMES_OFF] = "off",       [OPERATIONS_TIMES_ON] = "on",    [OPERATIONS_TIMES_OLD] = "old-nccl",
	[OPERATIONS_TIMES_GRAPHS] = "graphs", [OPERATIONS_TIMES_COUNT] = NULL,
};

const char *operations_times_word(enum operations_times times)
{
	return times < OPERATIONS_TIMES_COUNT ? times_words[times] : NULL;
}

const char *operations_collective_word(int collective)
{
	switch (collective) {
	case OPERATIONS_SEND:
		return "send";
	case OPERATIONS_RECV:
		return "recv";
	case OPERATIONS_OTHER:
		return "other";
	default:
		return tuning_collective_word(collective);
	}
}

uint64_t operations_key(size_t comm, const struct operations_line *line)
{
	const unsigned channels = line->channels < UINT16_MAX ? line->channels : UINT16_MAX;

	return KEY_USED | comm | (uint64_t)line->collective << KEY_COLLECTIVE |
	       (uint64_t)(line->algorithm + 1) << KEY_ALGORITHM | (uint64_t)(line->protocol + 1) << KEY_PROTOCOL |
	       (uint64_t)line->size_class << KEY_SIZE | (uint64_t)channels << KEY_CHANNELS;
}

static uint8_t field(uint64_t key, unsigned at)
{
	return (uint8_t)(key >> at);
}

/* False: free, or another version's. */
static bool line_of(const struct operations *operations, const struct operations_row *row, struct operations_line *ret)
{
	const uint64_t key = atomic_load_explicit(&row->key, memory_order_acquire);
	const struct operations_comm *comm;

	if (!(key & KEY_USED) || field(key, 0) >= OPERATIONS_COMMS || field(key, KEY_SIZE) > 64 ||
	    !operations_collective_word(field(key, KEY_COLLECTIVE)) ||
	    !tuning_algorithm_word(field(key, KEY_ALGORITHM) - 1) ||
	    !tuning_protocol_word(field(key, KEY_PROTOCOL) - 1))
		return false;
	comm = &operations->comms[field(key, 0)];
	*ret = (struct operations_line){ .collective = field(key, KEY_COLLECTIVE),
					 .algorithm = field(key, KEY_ALGORITHM) - 1,
					 .protocol = field(key, KEY_PROTOCOL) - 1,
					 .size_class = field(key, KEY_SIZE),
					 .channels = (uint16_t)(key >> KEY_CHANNELS),
					 .comm_id = comm->last_id,
					 .communicators = comm->communicators,
					 .rank_count = comm->rank_count,
					 .node_count = comm->node_count,
					 .rank = comm->rank,
					 .count = row->count,
					 .bytes = row->bytes,
					 .sampled = row->sampled,
					 .sampled_bytes = row->sampled_bytes,
					 .sampled_ns = row->sampled_ns,
					 .least_ns = row->least_ns,
					 .most_ns = row->most_ns };
	return ret->count != 0; /* its first operation is being added */
}

bool operations_is_whole(const struct operations *operations, size_t bytes)
{
	return bytes == sizeof(*operations) &&
	       atomic_load_explicit(&operations->magic, memory_order_acquire) == OPERATIONS_MAGIC;
}

bool operations_any(const struct operations *operations)
{
	return operations && (operations->row_count || operations->captured || operations->lost);
}

void operations_head(const struct operations *operations, struct operations_head *ret)
{
	const uint64_t times = operations->times;

	*ret = (struct operations_head){ .times = times < OPERATIONS_TIMES_COUNT ? (enum operations_times)times
										 : OPERATIONS_TIMES_OFF,
					 .lost = operations->lost,
					 .captured = operations->captured };
}

void operations_each(const struct operations *operations, void (*each)(void *arg, const struct operations_line *line),
		     void *arg)
{
	struct operations_line line;

	for (size_t i = 0; i < OPERATIONS_ROWS; i++)
		if (line_of(operations, &operations->rows[i], &line))
			each(arg, &line);
}

/* -------- text -------- */

struct list {
	struct operations_line *at;
	size_t count;
};

static void take(void *arg, const struct operations_line *line)
{
	struct list *list = arg;

	list->at[list->count++] = *line;
}

static int most_bytes_first(const void *left, const void *right)
{
	const struct operations_line *a = left, *b = right;

	if (a->bytes != b->bytes)
		return (a->bytes < b->bytes) - (a->bytes > b->bytes);
	return (a->count < b->count) - (a->count > b->count);
}

static uint64_t bytes_max(const struct operations_line *line)
{
	return line->size_class < 64 ? UINT64_C(1) << line->size_class : UINT64_MAX;
}

static size_t print_line(const struct operations_line *line, char text[static OPERATIONS_LINE_BYTES])
{
	return (size_t)snprintf(
		text, OPERATIONS_LINE_BYTES,
		"operation %s to %" PRIu64 " algorithm %s protocol %s channels %u of %016" PRIx64
		" communicators %" PRIu64 " ranks %u nodes %u rank %d count %" PRIu64 " bytes %" PRIu64
		" sampled %" PRIu64 " sampled_bytes %" PRIu64 " ns %" PRIu64 " least %" PRIu64 " most %" PRIu64 "\n",
		operations_collective_word(line->collective), bytes_max(line), tuning_algorithm_word(line->algorithm),
		tuning_protocol_word(line->protocol), line->channels, line->comm_id, line->communicators,
		line->rank_count, line->node_count, line->rank, line->count, line->bytes, line->sampled,
		line->sampled_bytes, line->sampled_ns, line->least_ns, line->most_ns);
}

size_t operations_print(const struct operations *operations, char text[static OPERATIONS_TEXT_BYTES])
{
	struct list list = { .at = NULL };
	struct operations_head head;
	size_t used;

	text[0] = '\0';
	if (!operations_any(operations))
		return 0;
	list.at = sys_zalloc(OPERATIONS_ROWS * sizeof(*list.at)); /* without it only the first line is written */
	operations_head(operations, &head);
	if (list.at)
		operations_each(operations, take, &list);
	if (list.count)
		qsort(list.at, list.count, sizeof(*list.at), most_bytes_first);
	for (size_t i = OPERATIONS_LINES; i < list.count; i++)
		head.lost += list.at[i].count;
	used = (size_t)snprintf(text, OPERATIONS_LINE_BYTES,
				"operations times %s lost %" PRIu64 " captured %" PRIu64 "\n",
				operations_times_word(head.times), head.lost, head.captured);
	for (size_t i = 0; i < list.count && i < OPERATIONS_LINES; i++)
		used += print_line(&list.at[i], text + used);
	sys_free(list.at);
	return used;
}

/* The number from `first` to below `end` whose word it is. */
static bool number_of(const char *word, const char *(*word_of)(int number), int first, int end, int *ret)
{
	for (int i = first; i < end; i++) {
		const char *known = word_of(i);

		*ret = i;
		if (known && !strcmp(known, word))
			return true;
	}
	return false;
}

bool operations_read_line(const char *line, struct operations_line *ret)
{
	char words[3][OPERATIONS_WORD_BYTES + 1];
	struct operations_line read = { .count = 0 };
	uint64_t bytes;

	if (sscanf(line,
		   "operation %16s to %" SCNu64 " algorithm %16s protocol %16s channels %u of %" SCNx64
		   " communicators %" SCNu64 " ranks %u nodes %u rank %d count %" SCNu64 " bytes %" SCNu64
		   " sampled %" SCNu64 " sampled_bytes %" SCNu64 " ns %" SCNu64 " least %" SCNu64 " most %" SCNu64,
		   words[0], &bytes, words[1], words[2], &read.channels, &read.comm_id, &read.communicators,
		   &read.rank_count, &read.node_count, &read.rank, &read.count, &read.bytes, &read.sampled,
		   &read.sampled_bytes, &read.sampled_ns, &read.least_ns, &read.most_ns) != 17)
		return false;
	read.size_class = (unsigned)tuning_size_class(bytes);
	if (!number_of(words[0], operations_collective_word, 0, OPERATIONS_KINDS, &read.collective) ||
	    !number_of(words[1], tuning_algorithm_word, -1, PREDICT_ALGORITHM_COUNT, &read.algorithm) ||
	    !number_of(words[2], tuning_protocol_word, -1, PREDICT_PROTOCOL_COUNT, &read.protocol))
		return false;
	*ret = read;
	return true;
}

bool operations_read_head(const char *line, struct operations_head *ret)
{
	char word[OPERATIONS_WORD_BYTES + 1];
	struct operations_head read = { .lost = 0 };

	if (sscanf(line, "operations times %16s lost %" SCNu64 " captured %" SCNu64, word, &read.lost,
		   &read.captured) != 3)
		return false;
	for (int i = 0; i < OPERATIONS_TIMES_COUNT; i++)
		if (!strcmp(word, times_words[i])) {
			read.times = (enum operations_times)i;
			*ret = read;
			return true;
		}
	return false;
}
