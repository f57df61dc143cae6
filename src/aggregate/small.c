/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small operations, in one of two schemes (exchange.c). Flat: each member sends its input to all others and sums by itself.
 * In parts: one member, or several from the root on, sum a part each of all members' inputs and send it to all: with one
 * part a reduce-to-root, with more a reduce-scatter and an all-gather. All is eager, so each step is one message; the order of
 * sums is that of the segments of large operations. What a member has posted goes ahead of its input, in a flat operation
 * to all, in one in parts to the root (check.c); in a message of its own where both are too long for an eager one.
 */
#include "aggregate/group.h"
#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum {
	HEADER_BYTES = MEMBER_WIRE_OPERATION_BYTES,
	/* With fewer members a message to everybody, in one step, is as good as one part. */
	ROOTED_MEMBERS = 6,
	ROOTED_PART = 4,
	/* Between leaves every member would send to all others, n times what segments do: only for what is short. */
	PARTS_BYTES_BETWEEN_LEAVES = 32 << 10,
	PART_BYTES_MOST = 14 << 10,
	PART_NS = 12000,
	ELEMENT_BYTES_MOST = 8,
	/* What an eager message takes of a connection's window, at most: its own bytes, a header, and no less than this. */
	EAGER_PLACE_LEAST = 512,
	EAGER_PLACE_MORE = 24,
	EAGER_PLACE_ROUND = 64,
};

/* ------------------------------------------------------------------------------- which scheme, from what all know */

size_t small_part_count(const struct group *group, size_t bytes)
{
	size_t parts = group->part_bytes && bytes ? (bytes + group->part_bytes - 1) / group->part_bytes : group->count;

	if (bytes <= group->rooted_bytes)
		return 1;
	return parts < group->count ? parts : group->count;
}

/* The longest part of an operation of so many bytes. */
static size_t part_bytes_of(const struct group *group, size_t bytes)
{
	size_t least = ELEMENT_BYTES_MOST * small_part_count(group, bytes);

	return (bytes + least - 1) / least * ELEMENT_BYTES_MOST;
}

enum operation_scheme small_scheme(const struct group *group, size_t bytes)
{
	if (group->count == 1)
		return OPERATION_ALONE;
	if (bytes && bytes <= group->rooted_bytes)
		return OPERATION_PARTS;
	return bytes <= group->settings.flat_bytes ? OPERATION_FLAT
	       : bytes <= group->parts_bytes       ? OPERATION_PARTS
						   : OPERATION_SEGMENTED;
}

bool small_checks_apart(const struct group *group, const struct operation *operation)
{
	return operation->scheme == OPERATION_PARTS &&
	       HEADER_BYTES + part_bytes_of(group, operation->bytes) > group->eager_most;
}

/*
 * Twice as many parts are twice as many messages. A message is taken to cost its two hosts 12 us, so parts are worth it only
 * while they are as long as a card moves in that time. The longest is within half of GROUP_EAGER_BYTES, like all that is
 * under way.
 */
static size_t choose_part_bytes(const struct group *group)
{
	uint64_t rate_Bps = UINT64_MAX, bytes;

	for (size_t i = 0; i < group->count; i++)
		if (group->members[i].facts.rate_Bps < rate_Bps)
			rate_Bps = group->members[i].facts.rate_Bps;
	bytes = rate_Bps / NS_PER_S * PART_NS + rate_Bps % NS_PER_S * PART_NS / NS_PER_S;
	return bytes < PART_BYTES_MOST ? (size_t)bytes / ELEMENT_BYTES_MOST * ELEMENT_BYTES_MOST : PART_BYTES_MOST;
}

void small_settle(struct group *group)
{
	size_t eager = GROUP_EAGER_BYTES, part,
	       most = group->leaf_count > 1 ? PARTS_BYTES_BETWEEN_LEAVES : AGGREGATE_ALONE_BYTES;

	for (size_t i = 0; i < group->count; i++) {
		const struct member_wire_facts *facts = &group->members[i].facts;

		group->segments_chosen |= facts->segment_bytes != 0;
		eager = facts->eager_bytes < eager ? (size_t)facts->eager_bytes : eager;
	}
	part = eager / ELEMENT_BYTES_MOST * ELEMENT_BYTES_MOST;
	if (group->segments_chosen)
		most = 0; /* somebody wants segments, and says how long */
	if (most > group->count * part)
		most = group->count * part;
	group->eager_most = eager;
	group->small_unasked = group->settings.flat_bytes + HEADER_BYTES <= eager;
	group->parts_bytes = most;
	group->part_bytes = choose_part_bytes(group);
	if (group->part_bytes > part)
		group->part_bytes = 0;
	/* In and out of one network card, then, is half of what is in at everybody's with the longest that goes to all. */
	group->rooted_bytes = group->count < ROOTED_MEMBERS ? 0 : (size_t)group->settings.flat_bytes / ROOTED_PART;
}

/* ------------------------------------------------------------------------------------------------------- buffers */

int small_init(struct group *group)
{
	size_t payload = (size_t)group->settings.flat_bytes;

	if (payload < part_bytes_of(group, group->parts_bytes))
		payload = part_bytes_of(group, group->parts_bytes);
	if (payload < group->part_bytes && group->parts_bytes)
		payload = group->part_bytes;
	group->exchange_bytes = HEADER_BYTES + (payload + 63) / 64 * 64;
	group->messages = sys_zalloc(AGGREGATE_MAX_REQUESTS * group->count * sizeof(*group->messages));
	group->exchanges = sys_zalloc(GROUP_FLAT_OPERATIONS * sizeof(*group->exchanges));
	if (!group->messages || !group->exchanges)
		return -ENOMEM;
	for (size_t i = 0; i < GROUP_FLAT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		exchange->in_bytes = group->exchange_bytes;
		exchange->out = sys_zalloc(group->exchange_bytes);
		exchange->in = sys_zalloc(group->count * group->exchange_bytes);
		if (exchange_init(exchange, group->count) < 0 || !exchange->out || !exchange->in)
			return -ENOMEM;
		exchange->next = group->exchanges_free;
		group->exchanges_free = exchange;
	}
	return 0;
}

void small_fini(struct group *group)
{
	for (size_t i = 0; group->exchanges && i < GROUP_FLAT_OPERATIONS; i++)
		exchange_fini(&group->exchanges[i]);
	sys_free(group->exchanges);
	sys_free(group->messages);
}

/* What a message takes of a connection's window of unasked messages, at most. */
static size_t eager_bytes_of(const struct group *group, const struct operation *operation)
{
	size_t payload = operation->scheme == OPERATION_FLAT ? operation->bytes
							     : part_bytes_of(group, operation->bytes);
	size_t header = operation->check_apart ? EAGER_PLACE_LEAST : HEADER_BYTES;
	size_t bytes = (header + payload + EAGER_PLACE_MORE + EAGER_PLACE_ROUND - 1) / EAGER_PLACE_ROUND *
		       EAGER_PLACE_ROUND;

	return bytes > EAGER_PLACE_LEAST ? bytes : EAGER_PLACE_LEAST;
}

/* False: it waits until others are through. */
static bool exchange_take(struct group *group, struct operation *operation)
{
	struct exchange *exchange = group->exchanges_free;
	size_t bytes = eager_bytes_of(group, operation);

	if (!exchange || (group->eager_bytes && group->eager_bytes + bytes > GROUP_EAGER_BYTES / 2))
		return false;
	group->exchanges_free = exchange->next;
	operation->exchange = exchange;
	exchange->operation = operation;
	operation->eager_bytes = bytes;
	group->eager_bytes += bytes;
	return true;
}

void small_begin(struct group *group)
{
	struct operation *operation;

	while ((operation = STAILQ_FIRST(&group->small)) != NULL) {
		if (operation->scheme != OPERATION_SEGMENTED && !exchange_take(group, operation))
			return;
		STAILQ_REMOVE_HEAD(&group->small, small_link);
		if (operation->check_apart)
			check_begin(group, operation);
		if (operation->scheme != OPERATION_SEGMENTED)
			exchange_begin(group, operation->exchange);
		group->progressed = true;
	}
}

void small_end(struct group *group, struct operation *operation)
{
	group_add(operation->part_count > 1 && operation->scheme == OPERATION_PARTS ? &group->parts_done
										    : &group->flat_done,
		  1);
	group->eager_bytes -= operation->eager_bytes;
	operation->exchange->next = group->exchanges_free;
	group->exchanges_free = operation->exchange;
	operation->exchange = NULL;
}
