/*
 * Small operations: each member sends its input to all others and sums by itself, in the order in which the segments of
 * large operations do it; of six members and more what is short goes to one of them, which sends all the sum.
 * And the words about operations: members that do not post the same ones must hear of it. Each tells one of them, the one
 * that would sum the operation if it were short, so they meet however different the operations are.
 */
#include "aggregate/group.h"
#include "base/crc.h"
#include "base/random.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* With fewer members a message to everybody, in one step, is as good. */
enum { ROOTED_MEMBERS = 6, ROOTED_PART = 4 };
/* What an eager message takes of a connection's window, at most: its own bytes, a header, and no less than this. */
enum { EAGER_PLACE_LEAST = 512, EAGER_PLACE_MORE = 24, EAGER_PLACE_ROUND = 64 };

/* What a message takes of a connection's window of unasked messages, at most. */
static size_t flat_place_bytes(size_t message_bytes)
{
	size_t bytes = (message_bytes + EAGER_PLACE_MORE + EAGER_PLACE_ROUND - 1) / EAGER_PLACE_ROUND *
		       EAGER_PLACE_ROUND;

	return bytes > EAGER_PLACE_LEAST ? bytes : EAGER_PLACE_LEAST;
}

static size_t payload_bytes(const struct operation *operation)
{
	return operation->flat ? operation->bytes : 0;
}

static struct aggregate_wire_operation word_of(const struct operation *operation)
{
	return (struct aggregate_wire_operation){
		.number = operation->number,
		.bytes = operation->bytes,
		.type = (uint8_t)operation->type,
		.operation = (uint8_t)operation->operation,
		.flat = operation->flat,
	};
}

/* What another member said of the operation must be what its caller said here. */
static bool agree(struct group *group, const struct operation *operation, const uint8_t *bytes, size_t received,
		  size_t from)
{
	struct aggregate_wire_operation ours = word_of(operation), theirs;

	if (received < AGGREGATE_WIRE_OPERATION_BYTES || aggregate_wire_get_operation(bytes, &theirs) < 0) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return false;
	}
	if (theirs.number == ours.number && theirs.type == ours.type && theirs.operation == ours.operation &&
	    theirs.bytes == ours.bytes && theirs.flat == ours.flat)
		return true;
	group_break(
		group, -EREMOTEIO,
		"hosts posted different operations: number %llu is a %s of %s, %llu bytes, at host %s, and a %s of %s, "
		"%llu bytes, here",
		(unsigned long long)theirs.number,
		theirs.operation < REDUCE_OPERATION_COUNT ? reduce_operation_word(theirs.operation) : "?",
		theirs.type < REDUCE_TYPE_COUNT ? reduce_type_word(theirs.type) : "?", (unsigned long long)theirs.bytes,
		group_host(group, from), reduce_operation_word(operation->operation), reduce_type_word(operation->type),
		(unsigned long long)ours.bytes);
	return false;
}

static void add(struct queue *queue, struct transfer *transfer, struct operation *operation, void *data, size_t bytes,
		enum aggregate_tag kind, void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = data,
		.bytes = bytes,
		.tag = aggregate_tag(kind, operation->number),
		.class = kind == AGGREGATE_TAG_VERIFY || (kind == AGGREGATE_TAG_DOWN && queue->sends) ? TRANSFER_URGENT
												      : TRANSFER_SMALL,
		.done = done,
		.owner = operation,
	};
	queue_add(queue, transfer);
}

static void sent(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;

	(void)group;
	operation->waits--;
	group_operation_step(operation);
}

static void exchanged(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	size_t from = (size_t)(transfer - operation->exchange->receives);

	if (!agree(group, operation, transfer->data, transfer->received, from))
		return;
	if (transfer->received != AGGREGATE_WIRE_OPERATION_BYTES + payload_bytes(operation)) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return;
	}
	sent(group, transfer);
}

struct exchange *flat_take(struct group *group, struct operation *operation)
{
	struct exchange *exchange = group->exchanges_free;

	group->exchanges_free = exchange->next;
	operation->exchange = exchange;
	group->eager_bytes += operation->eager_bytes;
	return exchange;
}

static void exchange_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = flat_take(group, operation);
	struct aggregate_wire_operation word = word_of(operation);
	size_t payload = payload_bytes(operation);

	aggregate_wire_put_operation(&word, exchange->out);
	if (payload)
		memcpy(exchange->out + AGGREGATE_WIRE_OPERATION_BYTES, operation->send, payload);
	group_add(&group->bytes_copied, payload);
	operation->waits = 2 * (unsigned)(group->count - 1);
	for (size_t i = 1; i < group->count; i++) { /* member r begins with r + 1: not all with the same */
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;

		add(&group->in[from], &exchange->receives[from], operation, exchange->in + from * group->exchange_bytes,
		    group->exchange_bytes, AGGREGATE_TAG_OPERATION, exchanged);
		add(&group->out[to], &exchange->sends[to], operation, exchange->out,
		    AGGREGATE_WIRE_OPERATION_BYTES + payload, AGGREGATE_TAG_OPERATION, sent);
	}
	group->progressed = true;
}

void flat_release(struct group *group, struct operation *operation)
{
	group->eager_bytes -= operation->eager_bytes;
	operation->exchange->next = group->exchanges_free;
	group->exchanges_free = operation->exchange;
	operation->exchange = NULL;
}

void flat_end(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = (i == group->self ? exchange->out : exchange->in + i * group->exchange_bytes) +
			    AGGREGATE_WIRE_OPERATION_BYTES;
	if (operation->count)
		combine_all(group, operation, operation->recv, inputs, operation->count);
	flat_release(group, operation);
	group_add(&group->flat_done, 1);
}

/* ------------------------------------------------------------------------------------------ one member sums for all */

/*
 * Not by the number alone: what an application posts recurs, and its short operations may all have the same remainder. Each
 * bit of the number reaches all bits.
 */
size_t flat_root_of(const struct group *group, const struct operation *operation)
{
	uint64_t state = operation->number * UINT64_C(0x9e3779b97f4a7c15);

	return (size_t)random_below(&state, group->count);
}

static void result_came(struct group *group, struct transfer *transfer)
{
	if (group_transfer_came_whole(group, transfer, flat_root_of(group, transfer->owner)))
		sent(group, transfer);
}

static void rooted_sum(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = i == group->self ? (uint8_t *)(uintptr_t)operation->send
					     : exchange_in(group, exchange, i) + AGGREGATE_WIRE_OPERATION_BYTES;
	combine_all(group, operation, operation->recv, inputs, operation->count);
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count;

		add(&group->out[to], &exchange->result_sends[to], operation, operation->recv, operation->bytes,
		    AGGREGATE_TAG_DOWN, sent);
	}
}

static void input_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	struct exchange *exchange = operation->exchange;
	size_t from = (size_t)(transfer - exchange->receives);

	if (!agree(group, operation, transfer->data, transfer->received, from))
		return;
	if (transfer->received != AGGREGATE_WIRE_OPERATION_BYTES + operation->bytes) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return;
	}
	if (--exchange->missing == 0)
		rooted_sum(group, operation);
	sent(group, transfer);
}

static void rooted_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = flat_take(group, operation);
	struct aggregate_wire_operation word = word_of(operation);
	size_t root = flat_root_of(group, operation);

	group->progressed = true;
	if (root == group->self) {
		exchange->missing = group->count - 1;
		operation->waits = 2 * (unsigned)(group->count - 1);
		for (size_t i = 1; i < group->count; i++) {
			size_t from = (group->self + i) % group->count;

			add(&group->in[from], &exchange->receives[from], operation, exchange_in(group, exchange, from),
			    group->exchange_bytes, AGGREGATE_TAG_OPERATION, input_came);
		}
		return;
	}
	aggregate_wire_put_operation(&word, exchange->out);
	memcpy(exchange->out + AGGREGATE_WIRE_OPERATION_BYTES, operation->send, operation->bytes);
	group_add(&group->bytes_copied, operation->bytes);
	operation->waits = 2;
	add(&group->in[root], &exchange->result_receives[root], operation, operation->recv, operation->bytes,
	    AGGREGATE_TAG_DOWN, result_came);
	add(&group->out[root], &exchange->sends[root], operation, exchange->out,
	    AGGREGATE_WIRE_OPERATION_BYTES + operation->bytes, AGGREGATE_TAG_OPERATION, sent);
}

void flat_rooted_end(struct group *group, struct operation *operation)
{
	flat_release(group, operation);
	group_add(&group->flat_done, 1);
}

/* ------------------------------------------------------------------------------------- words about large operations */

unsigned flat_words(const struct group *group, const struct operation *operation)
{
	return flat_root_of(group, operation) == group->self ? (unsigned)(group->count - 1) : 1;
}

static void word_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	/* The receive is the first member of its word. */
	size_t from = (size_t)((struct heard_word *)transfer - operation->words);

	if (agree(group, operation, transfer->data, transfer->received, from))
		sent(group, transfer);
}

static void check_begin(struct group *group, struct operation *operation)
{
	struct aggregate_wire_operation word = word_of(operation);
	size_t root = flat_root_of(group, operation);

	group->progressed = true;
	if (root != group->self) {
		aggregate_wire_put_operation(&word, operation->check_out);
		add(&group->out[root], &operation->send_check, operation, operation->check_out,
		    sizeof(operation->check_out), AGGREGATE_TAG_OPERATION, sent);
		return;
	}
	operation->words = group->words + (size_t)(operation - group->operations) * group->count;
	for (size_t i = 1; i < group->count; i++) {
		size_t from = (group->self + i) % group->count;

		add(&group->in[from], &operation->words[from].receive, operation, operation->words[from].bytes,
		    sizeof(operation->words[from].bytes), AGGREGATE_TAG_OPERATION, word_came);
	}
}

static void verify_send(struct group *group, struct operation *operation)
{
	unsigned step = operation->verify_steps;

	if (step < spread_steps(group))
		add(&group->out[spread_to(group, step)], &operation->send_verify[step], operation,
		    operation->verify_out, sizeof(operation->verify_out), AGGREGATE_TAG_VERIFY, sent);
}

static void verify_received(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	unsigned step = (unsigned)(transfer - operation->receive_verify);
	size_t from = spread_from(group, step);
	struct aggregate_wire_verify ours, theirs;

	if (transfer->received != AGGREGATE_WIRE_VERIFY_BYTES) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return;
	}
	aggregate_wire_get_verify(transfer->data, &theirs);
	aggregate_wire_get_verify(operation->verify_out, &ours);
	if (theirs.checksum != ours.checksum || theirs.number != ours.number) {
		group_break(group, -EREMOTEIO,
			    "the result of operation %llu (%zu bytes) has checksum %08x at host %s and %08x here "
			    "(TRIBUTARY_VERIFY): memory or network corrupts data",
			    (unsigned long long)operation->number, operation->bytes, theirs.checksum,
			    group_host(group, from), ours.checksum);
		return;
	}
	operation->verify_heard |= 1U << step;
	while (operation->verify_heard & 1U << operation->verify_steps) {
		operation->verify_steps++;
		verify_send(group, operation);
	}
	sent(group, transfer);
}

/*
 * Who has sent the word of a step has found those of all steps before it equal. So whoever has heard all of them has heard
 * of all members; with a word to the next one alone, some in the midst of a row of equal wrong results would be through.
 */
void flat_verify(struct group *group, struct operation *operation)
{
	struct aggregate_wire_verify word = { .number = operation->number,
					      .checksum = crc_ieee32(operation->recv, operation->bytes) };
	unsigned steps = spread_steps(group);

	aggregate_wire_put_verify(&word, operation->verify_out);
	operation->verify_heard = operation->verify_steps = 0;
	operation->waits = 2 * steps;
	for (unsigned step = 0; step < steps; step++)
		add(&group->in[spread_from(group, step)], &operation->receive_verify[step], operation,
		    operation->verify_in[step], sizeof(operation->verify_in[step]), AGGREGATE_TAG_VERIFY,
		    verify_received);
	verify_send(group, operation);
}

static size_t eager_bytes_of(const struct group *group, const struct operation *operation)
{
	if (operation->split)
		return flat_place_bytes(split_part_bytes(group, operation->bytes));
	return flat_place_bytes(AGGREGATE_WIRE_OPERATION_BYTES +
				(operation->rooted ? operation->bytes : payload_bytes(operation)));
}

void flat_begin(struct group *group)
{
	while (group->small_first) {
		struct operation *operation = group->small_first;

		operation->eager_bytes = eager_bytes_of(group, operation);
		if ((operation->flat || operation->rooted || operation->split) &&
		    (!group->exchanges_free ||
		     (group->eager_bytes && group->eager_bytes + operation->eager_bytes > GROUP_EAGER_BYTES / 2)))
			return;
		group->small_first = operation->next_small;
		if (!group->small_first)
			group->small_end = &group->small_first;
		if (operation->flat)
			exchange_begin(group, operation);
		else if (operation->rooted)
			rooted_begin(group, operation);
		else
			check_begin(group, operation);
		if (operation->split)
			split_begin(group, operation);
	}
}

int flat_init(struct group *group)
{
	size_t payload = (size_t)group->settings.flat_bytes;

	if (payload < split_part_bytes(group, group->split_bytes))
		payload = split_part_bytes(group, group->split_bytes);
	if (payload < group->part_bytes && group->split_bytes)
		payload = group->part_bytes;

	group->exchange_bytes = AGGREGATE_WIRE_OPERATION_BYTES + (payload + 63) / 64 * 64;
	/* In and out of one network card, then, is half of what is in at everybody's with the longest that goes to all. */
	group->rooted_bytes = group->count < ROOTED_MEMBERS ? 0 : (size_t)group->settings.flat_bytes / ROOTED_PART;
	group->words = sys_zalloc(AGGREGATE_MAX_REQUESTS * group->count * sizeof(*group->words));
	group->exchanges = sys_zalloc(GROUP_FLAT_OPERATIONS * sizeof(*group->exchanges));
	if (!group->words || !group->exchanges)
		return -ENOMEM;
	for (size_t i = 0; i < GROUP_FLAT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		exchange->out = sys_zalloc(group->exchange_bytes);
		exchange->in = sys_zalloc(group->count * group->exchange_bytes);
		exchange->sends = sys_zalloc(group->count * sizeof(*exchange->sends));
		exchange->receives = sys_zalloc(group->count * sizeof(*exchange->receives));
		exchange->result_sends = sys_zalloc(group->count * sizeof(*exchange->sends));
		exchange->result_receives = sys_zalloc(group->count * sizeof(*exchange->receives));
		if (!exchange->out || !exchange->in || !exchange->sends || !exchange->receives ||
		    !exchange->result_sends || !exchange->result_receives)
			return -ENOMEM;
		exchange->next = group->exchanges_free;
		group->exchanges_free = exchange;
	}
	return 0;
}

void flat_fini(struct group *group)
{
	for (size_t i = 0; group->exchanges && i < GROUP_FLAT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		sys_free(exchange->out);
		sys_free(exchange->in);
		sys_free(exchange->sends);
		sys_free(exchange->receives);
		sys_free(exchange->result_sends);
		sys_free(exchange->result_receives);
	}
	sys_free(group->exchanges);
	sys_free(group->words);
}
