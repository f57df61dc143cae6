/*
 * Small operations, in one of two schemes. Flat: each member sends its input to all others and sums by itself. In parts:
 * one member, or several from the root on, sum a part each of all members' inputs and send it to all: with one part a
 * reduce-to-root, with more a reduce-scatter and an all-gather. All is unasked, so each step is one message; the order of
 * sums is that of the segments of large operations. What a member has posted goes ahead of its input, in a flat operation
 * to all, in one in parts to the root (check.c).
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
	part = eager < HEADER_BYTES ? 0 : (eager - HEADER_BYTES) / ELEMENT_BYTES_MOST * ELEMENT_BYTES_MOST;
	if (group->segments_chosen)
		most = 0; /* somebody wants segments, and says how long */
	if (most > group->count * part)
		most = group->count * part;
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

		exchange->out = sys_zalloc(group->exchange_bytes);
		exchange->in = sys_zalloc(group->count * group->exchange_bytes);
		exchange->sends = sys_zalloc(EXCHANGE_TRANSFERS * group->count * sizeof(*exchange->sends));
		if (!exchange->out || !exchange->in || !exchange->sends)
			return -ENOMEM;
		exchange->receives = exchange->sends + group->count;
		exchange->result_sends = exchange->receives + group->count;
		exchange->result_receives = exchange->result_sends + group->count;
		exchange->next = group->exchanges_free;
		group->exchanges_free = exchange;
	}
	return 0;
}

void small_fini(struct group *group)
{
	for (size_t i = 0; group->exchanges && i < GROUP_FLAT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		sys_free(exchange->out);
		sys_free(exchange->in);
		sys_free(exchange->sends);
	}
	sys_free(group->exchanges);
	sys_free(group->messages);
}

/* Where that member's message is received. */
static uint8_t *exchange_in(const struct group *group, const struct exchange *exchange, size_t member)
{
	return exchange->in + member * group->exchange_bytes;
}

/* What a message takes of a connection's window of unasked messages, at most. */
static size_t eager_bytes_of(const struct group *group, const struct operation *operation)
{
	size_t payload = operation->scheme == OPERATION_FLAT ? operation->bytes
							     : part_bytes_of(group, operation->bytes);
	size_t bytes = (HEADER_BYTES + payload + EAGER_PLACE_MORE + EAGER_PLACE_ROUND - 1) / EAGER_PLACE_ROUND *
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
	operation->eager_bytes = bytes;
	group->eager_bytes += bytes;
	return true;
}

/* The own input, or `bytes` of it from there on, behind the message about the operation. */
static void input_put(struct group *group, struct operation *operation, const uint8_t *from, size_t bytes)
{
	memcpy(operation->exchange->out, operation->check_out, HEADER_BYTES);
	if (bytes)
		memcpy(operation->exchange->out + HEADER_BYTES, from, bytes);
	group_add(&group->bytes_copied, bytes);
}

/* ---------------------------------------------------------------------------------------------------------- flat */

static void flat_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	size_t from = (size_t)(transfer - operation->exchange->receives);

	if (check_same(group, operation, transfer, from, operation->bytes))
		operation_transferred(operation);
}

static void flat_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;

	input_put(group, operation, operation->send, operation->bytes);
	operation->waits = 2 * (unsigned)(group->count - 1);
	for (size_t i = 1; i < group->count; i++) { /* member r begins with r + 1: not all with the same */
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;

		operation_add(&group->in[from], &exchange->receives[from], operation,
			      exchange_in(group, exchange, from), group->exchange_bytes, AGGREGATE_TAG_OPERATION,
			      flat_came);
		operation_add(&group->out[to], &exchange->sends[to], operation, exchange->out,
			      HEADER_BYTES + operation->bytes, AGGREGATE_TAG_OPERATION, operation_sent);
	}
}

static void flat_sum(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = (i == group->self ? exchange->out : exchange_in(group, exchange, i)) + HEADER_BYTES;
	if (operation->count)
		combine_all(group, operation, operation->recv, inputs, operation->count);
}

/* ------------------------------------------------------------------------------------------------------- in parts */

/* The part that the member there sums: its bytes, and where it begins. */
static size_t part_of(const struct group *group, const struct operation *operation, size_t position, size_t *ret_offset)
{
	size_t root = operation->root, parts = operation->part_count;
	size_t part = position < root ? position + group->count - root : position - root;
	size_t each = operation->count / parts, longer = operation->count % parts;
	size_t element = reduce_type_bytes(operation->type);

	*ret_offset = (each * part + (part < longer ? part : longer)) * element;
	return part < parts ? (each + (part < longer)) * element : 0;
}

static void result_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	size_t from = (size_t)(transfer - operation->exchange->result_receives);

	if (group_transfer_came_whole(group, transfer, from))
		operation_transferred(operation);
}

static void part_sum(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	size_t header = operation->root == group->self ? HEADER_BYTES : 0;
	size_t offset, bytes = part_of(group, operation, group->self, &offset);
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX], *result = operation->recv + offset;

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = i == group->self ? (uint8_t *)(uintptr_t)operation->send + offset
					     : exchange_in(group, exchange, i) + header;
	combine_all(group, operation, result, inputs, bytes / reduce_type_bytes(operation->type));
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count;

		operation_add(&group->out[to], &exchange->result_sends[to], operation, result, bytes,
			      AGGREGATE_TAG_DOWN, operation_sent);
	}
}

static void input_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	struct exchange *exchange = operation->exchange;
	size_t from = (size_t)(transfer - exchange->receives), offset;
	size_t own = part_of(group, operation, group->self, &offset);

	if (operation->root == group->self ? !check_same(group, operation, transfer, from, own)
					   : !group_transfer_came_whole(group, transfer, from))
		return;
	if (--exchange->missing == 0)
		part_sum(group, operation);
	operation_transferred(operation);
}

static void input_send(struct group *group, struct operation *operation, size_t to, size_t offset, size_t bytes)
{
	struct transfer *transfer = &operation->exchange->sends[to];

	if (to == operation->root) {
		input_put(group, operation, operation->send + offset, bytes);
		operation_add(&group->out[to], transfer, operation, operation->exchange->out, HEADER_BYTES + bytes,
			      AGGREGATE_TAG_OPERATION, operation_sent);
	} else {
		operation_add(&group->out[to], transfer, operation, operation->send + offset, bytes,
			      AGGREGATE_TAG_UP_ROOT, operation_sent);
	}
	operation->waits++;
}

/*
 * The receives of results are posted with those of the inputs, in the order of operations. Nothing comes for them before
 * this member's own input of that part has gone, so in place they harm nothing.
 */
static void parts_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	bool root = operation->root == group->self;
	size_t offset, own = part_of(group, operation, group->self, &offset);

	exchange->missing = own ? group->count - 1 : 0;
	operation->waits = 2 * (unsigned)exchange->missing; /* inputs, and the result to all */
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;
		size_t bytes = part_of(group, operation, from, &offset);

		if (own)
			operation_add(&group->in[from], &exchange->receives[from], operation,
				      exchange_in(group, exchange, from), root ? group->exchange_bytes : own,
				      root ? AGGREGATE_TAG_OPERATION : AGGREGATE_TAG_UP_ROOT, input_came);
		operation->waits += bytes != 0;
		if (bytes)
			operation_add(&group->in[from], &exchange->result_receives[from], operation,
				      operation->recv + offset, bytes, AGGREGATE_TAG_DOWN, result_came);
		bytes = part_of(group, operation, to, &offset);
		if (bytes)
			input_send(group, operation, to, offset, bytes);
	}
}

/* --------------------------------------------------------------------------------------------------------- both */

void small_begin(struct group *group)
{
	while (group->small_first) {
		struct operation *operation = group->small_first;

		if (operation->scheme != OPERATION_SEGMENTED && !exchange_take(group, operation))
			return;
		group->small_first = operation->next_small;
		if (!group->small_first)
			group->small_end = &group->small_first;
		if (operation->scheme == OPERATION_FLAT)
			flat_begin(group, operation);
		else if (operation->scheme == OPERATION_PARTS)
			parts_begin(group, operation);
		else
			check_begin(group, operation);
		group->progressed = true;
	}
}

void small_end(struct group *group, struct operation *operation)
{
	if (operation->scheme == OPERATION_FLAT)
		flat_sum(group, operation);
	group_add(operation->part_count > 1 && operation->scheme == OPERATION_PARTS ? &group->parts_done
										    : &group->flat_done,
		  1);
	group->eager_bytes -= operation->eager_bytes;
	operation->exchange->next = group->exchanges_free;
	group->exchanges_free = operation->exchange;
	operation->exchange = NULL;
}
