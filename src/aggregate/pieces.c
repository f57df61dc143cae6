/*
 * Gather and reduce-scatter. Each begins like a small operation, with a word to and from every member that says what is
 * asked for and which rank it has; then every two members exchange what they owe each other, in pieces, one on its way at
 * a time. One such operation at a time, in the order of posting: they are rare and need not be fast.
 */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct range {
	size_t begin, end; /* within the window */
};

/* What of a rank's slice is in the window. */
static struct range slice_of(const struct operation *operation, size_t rank)
{
	size_t begin = rank * operation->bytes_per_member, end = begin + operation->bytes_per_member;
	size_t window_end = operation->offset + operation->bytes;

	begin = begin > operation->offset ? begin : operation->offset;
	end = end < window_end ? end : window_end;
	return begin < end ? (struct range){ begin - operation->offset, end - operation->offset } : (struct range){ 0 };
}

static size_t piece_bytes(const struct group *group)
{
	return group->exchange_bytes - AGGREGATE_WIRE_OPERATION_BYTES;
}

static size_t piece_count(const struct group *group, struct range range)
{
	return (range.end - range.begin + piece_bytes(group) - 1) / piece_bytes(group);
}

static struct range piece_of(const struct group *group, struct range range, size_t index)
{
	size_t begin = range.begin + index * piece_bytes(group), end = begin + piece_bytes(group);

	return (struct range){ begin, end < range.end ? end : range.end };
}

/* The range in the caller's parts, if it lies in one of them; else NULL. */
static uint8_t *parts_whole(const struct operation *operation, struct range range)
{
	size_t at = 0;

	for (size_t i = 0; i < operation->part_count; i++) {
		const struct aggregate_part *part = &operation->parts[i];

		if (range.begin >= at && range.end <= at + part->bytes)
			return (uint8_t *)part->data + (range.begin - at);
		at += part->bytes;
	}
	return NULL;
}

static void parts_copy(struct group *group, const struct operation *operation, struct range range, uint8_t *data,
		       bool to_parts)
{
	size_t at = 0;

	group_add(&group->bytes_copied, range.end - range.begin);
	for (size_t i = 0; i < operation->part_count; i++) {
		const struct aggregate_part *part = &operation->parts[i];
		size_t begin = range.begin > at ? range.begin : at;
		size_t end = range.end < at + part->bytes ? range.end : at + part->bytes;

		if (begin < end && to_parts)
			memmove((uint8_t *)part->data + (begin - at), data + (begin - range.begin), end - begin);
		else if (begin < end)
			memmove(data + (begin - range.begin), (uint8_t *)part->data + (begin - at), end - begin);
		at += part->bytes;
	}
}

static uint8_t *bounce_in(const struct group *group, const struct operation *operation, size_t peer)
{
	return exchange_in(group, operation->exchange, peer) + AGGREGATE_WIRE_OPERATION_BYTES;
}

static struct range range_out(const struct operation *operation, size_t peer)
{
	return slice_of(operation,
			operation->kind == OPERATION_GATHER ? operation->rank : operation->exchange->ranks[peer]);
}

static struct range range_in(const struct operation *operation, size_t peer)
{
	return slice_of(operation,
			operation->kind == OPERATION_GATHER ? operation->exchange->ranks[peer] : operation->rank);
}

static void send_next(struct group *group, struct operation *operation, size_t peer);
static void receive_next(struct group *group, struct operation *operation, size_t peer);

static void piece_through(struct group *group, struct operation *operation)
{
	if (--operation->waits == 0 && !group->error)
		pieces_end(group, operation);
}

static void piece_sent(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	size_t peer = (size_t)(transfer - operation->exchange->sends);

	operation->exchange->sent[peer]++;
	send_next(group, operation, peer);
	piece_through(group, operation);
}

static void transfer_set(struct transfer *transfer, struct operation *operation, void *data, size_t bytes,
			 void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){ .data = data,
				       .bytes = bytes,
				       .tag = aggregate_tag(AGGREGATE_TAG_PIECE, operation->number),
				       .class = TRANSFER_URGENT,
				       .done = done,
				       .owner = operation };
}

static void send_next(struct group *group, struct operation *operation, size_t peer)
{
	struct exchange *exchange = operation->exchange;
	struct range range = range_out(operation, peer), piece;
	uint8_t *data;

	if (exchange->sent[peer] == piece_count(group, range))
		return;
	piece = piece_of(group, range, exchange->sent[peer]);
	if (operation->kind == OPERATION_GATHER) {
		data = (uint8_t *)(uintptr_t)operation->send + (piece.begin - range.begin);
	} else {
		data = parts_whole(operation, piece);
		if (!data) {
			data = group->piece_out + peer * piece_bytes(group);
			parts_copy(group, operation, piece, data, false);
		}
	}
	transfer_set(&exchange->sends[peer], operation, data, piece.end - piece.begin, piece_sent);
	lane_add(lane_large(group, group->out, peer), &exchange->sends[peer]);
}

/* A reduce-scatter goes on with the next piece when this one is here from everybody. */
static void scatter_step(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	struct range range = slice_of(operation, operation->rank), piece;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		if (i != group->self && exchange->here[i] == exchange->summed)
			return;
	piece = piece_of(group, range, exchange->summed);
	for (size_t i = 0; i < group->count; i++)
		inputs[i] = bounce_in(group, operation, i);
	inputs[group->self] = parts_whole(operation, piece);
	if (!inputs[group->self]) {
		inputs[group->self] = bounce_in(group, operation, group->self);
		parts_copy(group, operation, piece, inputs[group->self], false);
	}
	combine_all(group, operation, operation->recv + (piece.begin - range.begin), inputs,
		    (piece.end - piece.begin) / reduce_type_bytes(operation->type));
	exchange->summed++;
	for (size_t i = 0; i < group->count; i++)
		if (i != group->self)
			receive_next(group, operation, i);
}

static void piece_received(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	struct exchange *exchange = operation->exchange;
	size_t peer = (size_t)(transfer - exchange->receives);
	struct range piece = piece_of(group, range_in(operation, peer), exchange->here[peer]);

	if (transfer->received != piece.end - piece.begin) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, peer));
		return;
	}
	exchange->here[peer]++;
	if (operation->kind == OPERATION_SCATTER) {
		scatter_step(group, operation);
	} else {
		if (!parts_whole(operation, piece))
			parts_copy(group, operation, piece, transfer->data, true);
		receive_next(group, operation, peer);
	}
	piece_through(group, operation);
}

static void receive_next(struct group *group, struct operation *operation, size_t peer)
{
	struct exchange *exchange = operation->exchange;
	struct range range = range_in(operation, peer), piece;
	uint8_t *data = NULL;

	if (exchange->here[peer] == piece_count(group, range))
		return;
	piece = piece_of(group, range, exchange->here[peer]);
	if (operation->kind == OPERATION_GATHER)
		data = parts_whole(operation, piece);
	if (!data)
		data = bounce_in(group, operation, peer);
	transfer_set(&exchange->receives[peer], operation, data, piece.end - piece.begin, piece_received);
	lane_add(lane_large(group, group->in, peer), &exchange->receives[peer]);
}

static bool note_ranks(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	struct aggregate_wire_operation word;
	bool taken[SCHEDULE_MEMBERS_MAX] = { false };

	taken[operation->rank] = true;
	for (size_t i = 0; i < group->count; i++) {
		exchange->ranks[i] = (uint16_t)operation->rank;
		exchange->sent[i] = exchange->here[i] = 0;
		if (i == group->self)
			continue;
		if (aggregate_wire_get_operation(exchange_in(group, exchange, i), &word) < 0 ||
		    word.rank >= group->count) {
			group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, i));
			return false;
		}
		if (taken[word.rank]) {
			group_break(group, -EREMOTEIO, "host %s says that it has rank %u, which another host has",
				    group_host(group, i), word.rank);
			return false;
		}
		taken[word.rank] = true;
		exchange->ranks[i] = word.rank;
	}
	exchange->summed = 0;
	return true;
}

static void copy_own(struct group *group, struct operation *operation)
{
	struct range range = slice_of(operation, operation->rank);

	if (operation->kind == OPERATION_GATHER) {
		if (range.end > range.begin && parts_whole(operation, range) != operation->send)
			parts_copy(group, operation, range, (uint8_t *)(uintptr_t)operation->send, true);
	} else if (group->count == 1 && range.end > range.begin && parts_whole(operation, range) != operation->recv) {
		parts_copy(group, operation, range, operation->recv, false);
	}
}

void pieces_begin(struct group *group)
{
	struct operation *operation = group->pieces_first;

	if (!operation || !operation->introduced || operation->summed || !note_ranks(group, operation))
		return;
	operation->summed = true;
	copy_own(group, operation);
	operation->waits = 1; /* this function's own */
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;

		operation->waits += (unsigned)(piece_count(group, range_out(operation, to)) +
					       piece_count(group, range_in(operation, from)));
		receive_next(group, operation, from);
		send_next(group, operation, to);
	}
	piece_through(group, operation);
}

void pieces_add(struct group *group, struct operation *operation)
{
	struct operation **link = &group->pieces_first;

	while (*link)
		link = &(*link)->next_staged;
	*link = operation;
}

void pieces_end(struct group *group, struct operation *operation)
{
	group->pieces_first = operation->next_staged;
	direct_release(group, operation);
	operation_finish(operation);
	pieces_begin(group);
}

void pieces_alone(struct group *group, struct operation *operation)
{
	copy_own(group, operation);
	operation_finish(operation);
}

int pieces_init(struct group *group)
{
	group->piece_out = sys_zalloc(group->count * piece_bytes(group));
	return group->piece_out ? 0 : -ENOMEM;
}

/* ----------------------------------------------------------------------------------------------------------- callers */

static int check_window(const struct group *group, size_t rank, size_t part_count, const struct aggregate_part *parts,
			size_t bytes_per_member, size_t offset, size_t bytes)
{
	size_t total = 0;

	if (rank >= group->count || bytes > AGGREGATE_MAX_BYTES || bytes_per_member > SIZE_MAX / group->count ||
	    offset > bytes_per_member * group->count || bytes > bytes_per_member * group->count - offset)
		return -EINVAL;
	for (size_t i = 0; i < part_count; i++) {
		if (parts[i].bytes > bytes - total || (parts[i].bytes && !parts[i].data))
			return -EINVAL;
		total += parts[i].bytes;
	}
	return total == bytes ? 0 : -EINVAL;
}

/* Takes an operation with the parts copied into it. *ret NULL: come again. */
static int operation_of_parts(struct group *group, size_t rank, size_t part_count, const struct aggregate_part *parts,
			      size_t bytes_per_member, size_t offset, size_t bytes, struct operation **ret)
{
	int r = group_end_of(group);
	struct operation *operation;

	*ret = NULL;
	if (r == 0)
		r = check_window(group, rank, part_count, parts, bytes_per_member, offset, bytes);
	if (r < 0)
		return r;
	operation = operation_get(group);
	if (!operation)
		return 0;
	sys_free(operation->parts);
	operation->parts = sys_zalloc((part_count + 1) * sizeof(*operation->parts));
	if (!operation->parts)
		return operation_refuse(group);
	memcpy(operation->parts, parts, part_count * sizeof(*operation->parts));
	operation->part_count = part_count;
	operation->rank = rank;
	operation->bytes_per_member = bytes_per_member;
	operation->offset = offset;
	operation->bytes = bytes;
	operation->count = bytes;
	*ret = operation;
	return 0;
}

int aggregate_gather_all(struct aggregate_group *opaque, size_t rank, const void *send, size_t part_count,
			 const struct aggregate_part *recv, size_t bytes_per_member, size_t offset, size_t bytes,
			 struct aggregate_request **ret)
{
	struct group *group = (struct group *)opaque;
	struct operation *operation;
	int r = operation_of_parts(group, rank, part_count, recv, bytes_per_member, offset, bytes, &operation);

	*ret = NULL;
	if (r < 0 || !operation)
		return r;
	operation->kind = OPERATION_GATHER;
	operation->type = REDUCE_UINT8;
	operation->operation = REDUCE_SUM;
	operation->send = send;
	operation->recv = NULL;
	operation_post(group, operation);
	*ret = (struct aggregate_request *)operation;
	return 0;
}

int aggregate_reduce_scatter(struct aggregate_group *opaque, size_t rank, size_t part_count,
			     const struct aggregate_part *send, void *recv, size_t bytes_per_member, size_t offset,
			     size_t bytes, enum reduce_type type, enum reduce_operation kind,
			     struct aggregate_request **ret)
{
	struct group *group = (struct group *)opaque;
	struct operation *operation;
	size_t element;
	int r;

	*ret = NULL;
	if (type >= REDUCE_TYPE_COUNT || kind >= REDUCE_OPERATION_COUNT)
		return -EINVAL;
	element = reduce_type_bytes(type);
	if (bytes_per_member % element || offset % element || bytes % element)
		return -EINVAL;
	r = operation_of_parts(group, rank, part_count, send, bytes_per_member, offset, bytes, &operation);
	if (r < 0 || !operation)
		return r;
	operation->kind = OPERATION_SCATTER;
	operation->type = type;
	operation->operation = kind;
	operation->send = NULL;
	operation->recv = recv;
	operation_post(group, operation);
	*ret = (struct aggregate_request *)operation;
	return 0;
}
