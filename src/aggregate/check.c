/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that do not post the same operations must hear of it. What each has posted goes ahead of its input of a small
 * operation, or in a message of its own where that is long, to one member: the root, which is the same for equal numbers,
 * so the messages meet however different the operations are. With TRIBUTARY_VERIFY the results are compared, too.
 */
#include "aggregate/group.h"
#include "base/crc.h"
#include "base/random.h"

#include <errno.h>
#include <string.h>

/*
 * Not by the number alone: what an application posts recurs, and its short operations may all have the same remainder. Each
 * bit of the number reaches all bits.
 */
size_t check_root(const struct group *group, const struct operation *operation)
{
	uint64_t state = operation->number * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)random_below(&state, group->count);
}

void check_init(struct operation *operation)
{
	struct member_wire_operation message = { .number = operation->number,
						 .bytes = operation->bytes,
						 .type = (uint8_t)operation->type,
						 .operation = (uint8_t)operation->operation,
						 .flat = operation->scheme == OPERATION_FLAT };

	member_wire_operation(CODEC_TO(operation->check_out), &message);
}

bool check_same(struct group *group, const struct operation *operation, const struct transfer *transfer, size_t from,
		size_t payload_bytes)
{
	struct member_wire_operation theirs;

	if (transfer->received == MEMBER_WIRE_OPERATION_BYTES + payload_bytes &&
	    memcmp(transfer->data, operation->check_out, sizeof(operation->check_out)) == 0)
		return true;
	if (transfer->received < MEMBER_WIRE_OPERATION_BYTES ||
	    member_wire_operation(CODEC_FROM(transfer->data, MEMBER_WIRE_OPERATION_BYTES), &theirs) < 0 ||
	    memcmp(transfer->data, operation->check_out, sizeof(operation->check_out)) == 0)
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
	else
		group_break(group, -EREMOTEIO,
			    "hosts posted different operations: number %llu is a %s of %s, %llu bytes, at host %s, and "
			    "a %s of %s, %llu bytes, here",
			    (unsigned long long)theirs.number,
			    theirs.operation < REDUCE_OPERATION_COUNT ? reduce_operation_word(theirs.operation) : "?",
			    theirs.type < REDUCE_TYPE_COUNT ? reduce_type_word(theirs.type) : "?",
			    (unsigned long long)theirs.bytes, group_host(group, from),
			    reduce_operation_word(operation->operation), reduce_type_word(operation->type),
			    (unsigned long long)operation->bytes);
	return false;
}

/* --------------------------------------------------------------------------------------------- in a message of its own */

unsigned check_waits(const struct group *group, const struct operation *operation)
{
	return operation->root == group->self ? (unsigned)(group->count - 1) : 1;
}

static void message_add(struct queue *queue, struct transfer *transfer, struct operation *operation, uint8_t *bytes,
			void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){ .data = bytes,
				       .bytes = MEMBER_WIRE_OPERATION_BYTES,
				       .tag = aggregate_tag(AGGREGATE_TAG_OPERATION, operation->number),
				       .class = TRANSFER_SMALL,
				       .done = done,
				       .owner = operation };
	queue_add(queue, transfer);
}

static void message_sent(struct group *group, struct transfer *transfer)
{
	(void)group;
	operation_transferred(transfer->owner);
}

static void message_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	/* The receive is the first member of its message. */
	size_t from = (size_t)((struct check_message *)transfer - operation->messages);

	if (check_same(group, operation, transfer, from, 0))
		operation_transferred(operation);
}

void check_begin(struct group *group, struct operation *operation)
{
	size_t root = operation->root;

	group->progressed = true;
	if (root != group->self) {
		message_add(&group->out[root], &operation->send_check, operation, operation->check_out, message_sent);
		return;
	}
	operation->messages = group->messages + (size_t)(operation - group->operations) * group->count;
	for (size_t i = 1; i < group->count; i++) {
		size_t from = (group->self + i) % group->count;

		message_add(&group->in[from], &operation->messages[from].receive, operation,
			    operation->messages[from].bytes, message_came);
	}
}

/* ----------------------------------------------------------------------------------------------------- of results */

static void verify_write(const struct dissemination *dissemination, uint8_t *bytes)
{
	const struct operation *operation = dissemination->owner;
	struct member_wire_verify message = { .number = operation->number, .checksum = operation->checksum };

	member_wire_verify(CODEC_TO(bytes), &message);
}

static bool verify_read(struct group *group, struct dissemination *dissemination, size_t from, const uint8_t *bytes,
			size_t count)
{
	const struct operation *operation = dissemination->owner;
	struct member_wire_verify theirs;

	if (member_wire_verify(CODEC_FROM(bytes, count), &theirs) < 0) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return false;
	}
	if (theirs.checksum == operation->checksum && theirs.number == operation->number)
		return true;
	group_break(group, -EREMOTEIO,
		    "the result of operation %llu (%zu bytes) has checksum %08x at host %s and %08x here "
		    "(TRIBUTARY_VERIFY): memory or network corrupts data",
		    (unsigned long long)operation->number, operation->bytes, theirs.checksum, group_host(group, from),
		    operation->checksum);
	return false;
}

static void verify_done(struct group *group, struct dissemination *dissemination)
{
	(void)group;
	operation_transferred(dissemination->owner);
}

/*
 * Whoever sends the message of a step has found those of all steps before it equal, so whoever has heard all of them has
 * heard of all members. With a message to the next member alone, some in the midst of a row of equal wrong results would
 * be through.
 */
void check_verify(struct group *group, struct operation *operation)
{
	operation->checksum = crc_ieee32(operation->recv, operation->bytes);
	operation->waits = 1;
	operation->verify = (struct dissemination){ .tag = AGGREGATE_TAG_VERIFY,
						    .number = operation->number,
						    .bytes = MEMBER_WIRE_VERIFY_BYTES,
						    .write = verify_write,
						    .read = verify_read,
						    .done = verify_done,
						    .owner = operation };
	dissemination_begin(group, &operation->verify);
}
