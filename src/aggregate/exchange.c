/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members sum parts of an operation themselves: each sends every other its input of that one's part, sums its own part when
 * all inputs are here, and sends the result to all. Flat: everybody's part is the whole operation, and no result is sent.
 */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

enum { HEADER_BYTES = MEMBER_WIRE_OPERATION_BYTES };

struct part {
	size_t offset, bytes, count;
};

static struct part part_of(const struct group *group, const struct exchange *exchange, size_t member)
{
	const struct operation *operation = exchange->operation;
	size_t root = operation->root, parts = operation->part_count, begin = 0, end = operation->count;
	size_t element = reduce_type_bytes(operation->type);

	if (exchange->recomputes) {
		begin = (exchange->round * group->count + member) * exchange->each;
		end = begin + exchange->each;
		begin = begin < operation->count ? begin : operation->count;
		end = end < operation->count ? end : operation->count;
	} else if (operation->scheme == OPERATION_PARTS) {
		size_t part = member < root ? member + group->count - root : member - root;
		size_t each = operation->count / parts, longer = operation->count % parts;

		begin = each * part + (part < longer ? part : longer);
		end = part < parts ? begin + each + (part < longer) : begin;
	}
	return (struct part){ begin * element, (end - begin) * element, end - begin };
}

/* What a member has posted goes ahead of its input to that one. */
static bool has_header(const struct exchange *exchange, size_t to)
{
	const struct operation *operation = exchange->operation;

	return !exchange->recomputes && !operation->check_apart &&
	       (operation->scheme == OPERATION_FLAT || operation->root == to);
}

static bool sends_results(const struct exchange *exchange)
{
	return exchange->recomputes || exchange->operation->scheme == OPERATION_PARTS;
}

/* Where that member's input is received. */
static uint8_t *input_of(const struct exchange *exchange, size_t member)
{
	return exchange->in + member * exchange->in_bytes;
}

static void add(struct group *group, struct exchange *exchange, struct transfer *transfer, struct queue *queues,
		size_t member, const void *data, size_t bytes, enum aggregate_tag tag,
		void (*done)(struct group *, struct transfer *))
{
	bool result_out = tag == AGGREGATE_TAG_DOWN && queues == group->out;

	*transfer = (struct transfer){ .data = (uint8_t *)(uintptr_t)data,
				       .bytes = bytes,
				       .tag = aggregate_tag(tag, exchange->operation->number),
				       .class = exchange->recomputes || result_out ? TRANSFER_URGENT : TRANSFER_SMALL,
				       .done = done,
				       .owner = exchange };
	queue_add(exchange->recomputes ? queue_large(group, queues, member) : &queues[member], transfer);
}

static void sent(struct group *group, struct transfer *transfer)
{
	const struct exchange *exchange = transfer->owner;

	(void)group;
	operation_transferred(exchange->operation);
}

static void result_came(struct group *group, struct transfer *transfer)
{
	const struct exchange *exchange = transfer->owner;

	if (group_transfer_came_whole(group, transfer, (size_t)(transfer - exchange->result_receives)))
		operation_transferred(exchange->operation);
}

static void sum(struct group *group, struct exchange *exchange)
{
	struct operation *operation = exchange->operation;
	struct part own = part_of(group, exchange, group->self);
	size_t header = has_header(exchange, group->self) ? HEADER_BYTES : 0;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX], *result = operation->recv + own.offset;

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = input_of(exchange, i) + header;
	inputs[group->self] = (uint8_t *)(uintptr_t)operation->send + own.offset; /* which is only read */
	if (own.count)
		combine_all(group, operation, result, inputs, own.count);
	for (size_t i = 1; i < group->count && sends_results(exchange); i++) {
		size_t to = (group->self + i) % group->count;

		add(group, exchange, &exchange->result_sends[to], group->out, to, result, own.bytes,
		    exchange->recomputes ? AGGREGATE_TAG_RECOMPUTE_RESULT : AGGREGATE_TAG_DOWN, sent);
	}
}

static void input_came(struct group *group, struct transfer *transfer)
{
	struct exchange *exchange = transfer->owner;
	size_t from = (size_t)(transfer - exchange->receives);

	if (has_header(exchange, group->self) ? !check_same(group, exchange->operation, transfer, from,
							    part_of(group, exchange, group->self).bytes)
					      : !group_transfer_came_whole(group, transfer, from))
		return;
	if (--exchange->missing == 0)
		sum(group, exchange);
	operation_transferred(exchange->operation);
}

/* The own input for those that get a header: all of them get the same, as it is the root alone or a flat operation. */
static void headed_put(struct group *group, struct exchange *exchange)
{
	struct operation *operation = exchange->operation;
	struct part part = part_of(group, exchange, operation->root);

	memcpy(exchange->out, operation->check_out, HEADER_BYTES);
	if (part.bytes)
		memcpy(exchange->out + HEADER_BYTES, operation->send + part.offset, part.bytes);
	group_add(&group->bytes_copied, part.bytes);
}

static void input_send(struct group *group, struct exchange *exchange, size_t to)
{
	const struct operation *operation = exchange->operation;
	struct part part = part_of(group, exchange, to);

	if (has_header(exchange, to))
		add(group, exchange, &exchange->sends[to], group->out, to, exchange->out, HEADER_BYTES + part.bytes,
		    AGGREGATE_TAG_OPERATION, sent);
	else
		add(group, exchange, &exchange->sends[to], group->out, to, operation->send + part.offset, part.bytes,
		    exchange->recomputes ? AGGREGATE_TAG_RECOMPUTE_INPUT : AGGREGATE_TAG_UP_ROOT, sent);
}

static void input_receive(struct group *group, struct exchange *exchange, size_t from, size_t bytes)
{
	bool header = has_header(exchange, group->self);

	add(group, exchange, &exchange->receives[from], group->in, from, input_of(exchange, from),
	    header ? exchange->in_bytes : bytes,
	    header                 ? AGGREGATE_TAG_OPERATION
	    : exchange->recomputes ? AGGREGATE_TAG_RECOMPUTE_INPUT
				   : AGGREGATE_TAG_UP_ROOT,
	    input_came);
}

/*
 * The receives of results are posted with those of the inputs, in the order of operations. Nothing comes for them before
 * this member's own input of that part has gone, so in place they harm nothing.
 */
void exchange_begin(struct group *group, struct exchange *exchange)
{
	struct operation *operation = exchange->operation;
	bool flat = !sends_results(exchange);
	struct part own = part_of(group, exchange, group->self);

	exchange->missing = own.bytes || flat ? group->count - 1 : 0;
	operation->waits += (unsigned)exchange->missing * (flat ? 1 : 2); /* inputs, and the result to all */
	if (flat || (has_header(exchange, operation->root) && operation->root != group->self))
		headed_put(group, exchange);
	for (size_t i = 1; i < group->count; i++) { /* member r begins with r + 1: not all with the same */
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;
		struct part theirs = part_of(group, exchange, from);

		if (exchange->missing)
			input_receive(group, exchange, from, own.bytes);
		if (theirs.bytes && !flat) {
			operation->waits++;
			add(group, exchange, &exchange->result_receives[from], group->in, from,
			    operation->recv + theirs.offset, theirs.bytes,
			    exchange->recomputes ? AGGREGATE_TAG_RECOMPUTE_RESULT : AGGREGATE_TAG_DOWN, result_came);
		}
		if (part_of(group, exchange, to).bytes || flat) {
			operation->waits++;
			input_send(group, exchange, to);
		}
	}
}

int exchange_init(struct exchange *exchange, size_t count)
{
	exchange->sends = sys_zalloc(EXCHANGE_TRANSFERS * count * sizeof(*exchange->sends));
	if (!exchange->sends)
		return -ENOMEM;
	exchange->receives = exchange->sends + count;
	exchange->result_sends = exchange->receives + count;
	exchange->result_receives = exchange->result_sends + count;
	return 0;
}

void exchange_fini(struct exchange *exchange)
{
	sys_free(exchange->out);
	sys_free(exchange->in);
	sys_free(exchange->sends);
}
