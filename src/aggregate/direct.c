/*
 * Small operations: every member gets the inputs of all others and sums by itself, in the order in which the segments of
 * large operations do it. In one round everybody sends to all; where they are many, in two: with a width w, each member
 * sends its input to the w - 1 places after it, and then the w inputs it has to those w, 2w, ... places on.
 * And the words about operations: members that do not post the same ones must hear of it.
 */
#include "aggregate/group.h"
#include "base/crc.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* What an eager message takes of a connection's window, at most: its own bytes, a header, and no less than this. */
enum { PIECE_BYTES_LEAST = 4 << 10 };
/* With fewer members a second round saves little, and longer messages wait for those ahead of them. */
enum { RELAY_MEMBERS = 6, RELAY_BYTES = 8 << 10 };
enum { EAGER_PLACE_LEAST = 512, EAGER_PLACE_MORE = 24, EAGER_PLACE_ROUND = 64 };

size_t direct_place_bytes(size_t message_bytes)
{
	size_t bytes = (message_bytes + EAGER_PLACE_MORE + EAGER_PLACE_ROUND - 1) / EAGER_PLACE_ROUND *
		       EAGER_PLACE_ROUND;

	return bytes > EAGER_PLACE_LEAST ? bytes : EAGER_PLACE_LEAST;
}

static size_t payload_bytes(const struct operation *operation)
{
	return operation->direct && operation->kind == OPERATION_REDUCE ? operation->bytes : 0;
}

static struct aggregate_wire_operation word_of(const struct operation *operation)
{
	return (struct aggregate_wire_operation){
		.number = operation->number,
		.bytes = operation->bytes,
		.bytes_per_member = operation->bytes_per_member,
		.offset = operation->offset,
		.rank = (uint16_t)operation->rank,
		.kind = (uint8_t)operation->kind,
		.type = (uint8_t)operation->type,
		.operation = (uint8_t)operation->operation,
		.direct = operation->direct,
	};
}

/* What another member said of the operation must be what its caller said here. */
static bool agree(struct group *group, const struct operation *operation, const uint8_t *bytes, size_t received,
		  size_t from)
{
	static const char *const kinds[] = { "reduction", "gather", "reduce-scatter" };
	struct aggregate_wire_operation ours = word_of(operation), theirs;

	if (received < AGGREGATE_WIRE_OPERATION_BYTES || aggregate_wire_get_operation(bytes, &theirs) < 0) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return false;
	}
	if (theirs.number == ours.number && theirs.kind == ours.kind && theirs.type == ours.type &&
	    theirs.operation == ours.operation && theirs.bytes == ours.bytes && theirs.offset == ours.offset &&
	    theirs.bytes_per_member == ours.bytes_per_member && theirs.direct == ours.direct)
		return true;
	group_break(
		group, -EREMOTEIO,
		"hosts posted different operations: number %llu is a %s (%s of %s) of %llu bytes at host %s, a %s (%s "
		"of %s) of %llu bytes here",
		(unsigned long long)theirs.number, kinds[theirs.kind % 3],
		theirs.operation < REDUCE_OPERATION_COUNT ? reduce_operation_word(theirs.operation) : "?",
		theirs.type < REDUCE_TYPE_COUNT ? reduce_type_word(theirs.type) : "?", (unsigned long long)theirs.bytes,
		group_host(group, from), kinds[ours.kind], reduce_operation_word(operation->operation),
		reduce_type_word(operation->type), (unsigned long long)ours.bytes);
	return false;
}

static void add(struct lane *lane, struct transfer *transfer, struct operation *operation, void *data, size_t bytes,
		enum aggregate_tag kind, void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = data,
		.bytes = bytes,
		.tag = aggregate_tag(kind, operation->number),
		.class = kind == AGGREGATE_TAG_OPERATION ? TRANSFER_SMALL : TRANSFER_URGENT,
		.done = done,
		.owner = operation,
	};
	lane_add(lane, transfer);
}

static void sent(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;

	(void)group;
	operation->waits--;
	operation_step(operation);
}

/* How many inputs the messages of the second round have; with as many as there are members there is none. */
static size_t width_of(const struct group *group, const struct operation *operation)
{
	size_t payload = payload_bytes(operation);

	return payload && group->relay_width &&
			       AGGREGATE_WIRE_OPERATION_BYTES + group->relay_width * payload <= group->relay_bytes
		       ? group->relay_width
		       : group->count;
}

/* In a message from or to so many places away; 0: there is none. */
static size_t inputs_in(const struct group *group, size_t width, size_t places)
{
	if (places < width)
		return 1;
	if (places % width)
		return 0;
	return places + width > group->count ? group->count - places : width;
}

static void relay(struct group *group, struct operation *operation);

static void exchanged(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	size_t from = (size_t)(transfer - operation->exchange->receives);
	size_t places = places_before(group, from), width = width_of(group, operation);

	if (!agree(group, operation, transfer->data, transfer->received, from))
		return;
	if (transfer->received !=
	    AGGREGATE_WIRE_OPERATION_BYTES + inputs_in(group, width, places) * payload_bytes(operation)) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return;
	}
	if (places < width && --operation->exchange->unheard == 0)
		relay(group, operation);
	sent(group, transfer);
}

struct exchange *direct_take(struct group *group, struct operation *operation)
{
	struct exchange *exchange = group->exchanges_free;

	group->exchanges_free = exchange->next;
	operation->exchange = exchange;
	group->eager_bytes += operation->eager_bytes;
	return exchange;
}

static void send_to(struct group *group, struct operation *operation, size_t places, void *data, size_t inputs)
{
	size_t to = (group->self + places) % group->count;

	add(&group->out[to], &operation->exchange->sends[to], operation, data,
	    AGGREGATE_WIRE_OPERATION_BYTES + inputs * payload_bytes(operation), AGGREGATE_TAG_OPERATION, sent);
}

/* Where the input of the member so many places before this one is. */
static uint8_t *input_at(const struct group *group, const struct operation *operation, size_t places)
{
	const struct exchange *exchange = operation->exchange;
	size_t width = width_of(group, operation), first = places < width ? places : places / width * width;
	uint8_t *message = places ? exchange->in + first * group->exchange_bytes : exchange->out;

	return message + AGGREGATE_WIRE_OPERATION_BYTES + (places - first) * payload_bytes(operation);
}

/* The second round. */
static void relay(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	size_t width = width_of(group, operation), payload = payload_bytes(operation);

	if (width == group->count)
		return;
	memcpy(exchange->relay, exchange->out, AGGREGATE_WIRE_OPERATION_BYTES);
	for (size_t i = 0; i < width; i++)
		memcpy(exchange->relay + AGGREGATE_WIRE_OPERATION_BYTES + i * payload, input_at(group, operation, i),
		       payload);
	group_add(&group->bytes_copied, width * payload);
	for (size_t places = width; places < group->count; places += width)
		send_to(group, operation, places, exchange->relay, inputs_in(group, width, places));
}

static void exchange_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = direct_take(group, operation);
	struct aggregate_wire_operation word = word_of(operation);
	size_t payload = payload_bytes(operation), width = width_of(group, operation);

	aggregate_wire_put_operation(&word, exchange->out);
	if (payload)
		memcpy(exchange->out + AGGREGATE_WIRE_OPERATION_BYTES, operation->send, payload);
	group_add(&group->bytes_copied, payload);
	exchange->unheard = width - 1;
	operation->waits = 0;
	for (size_t i = 1; i < group->count; i++) { /* member r begins with r + 1: not all with the same */
		size_t from = (group->self + group->count - i) % group->count, inputs = inputs_in(group, width, i);

		if (!inputs)
			continue;
		operation->waits += 2; /* a message comes, and one goes */
		add(&group->in[from], &exchange->receives[from], operation, exchange_in(group, exchange, from),
		    inputs > 1 ? AGGREGATE_WIRE_OPERATION_BYTES + inputs * payload : group->exchange_bytes,
		    AGGREGATE_TAG_OPERATION, exchanged);
		if (i < width)
			send_to(group, operation, i, exchange->out, 1);
	}
	group->progressed = true;
}

void direct_release(struct group *group, struct operation *operation)
{
	group->eager_bytes -= operation->eager_bytes;
	operation->exchange->next = group->exchanges_free;
	group->exchanges_free = operation->exchange;
	operation->exchange = NULL;
}

void direct_end(struct group *group, struct operation *operation)
{
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = input_at(group, operation, places_before(group, i));
	if (operation->count)
		combine_all(group, operation, operation->recv, inputs, operation->count);
	direct_release(group, operation);
	group_add(&group->direct_done, 1);
}

/* ------------------------------------------------------------------------------------- words about large operations */

static void check_received(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;

	if (agree(group, operation, transfer->data, transfer->received,
		  (group->self + group->count - 1) % group->count))
		sent(group, transfer);
}

static void check_begin(struct group *group, struct operation *operation)
{
	struct aggregate_wire_operation word = word_of(operation);

	aggregate_wire_put_operation(&word, operation->check_out);
	add(&group->in[(group->self + group->count - 1) % group->count], &operation->receive_check, operation,
	    operation->check_in, sizeof(operation->check_in), AGGREGATE_TAG_OPERATION, check_received);
	add(&group->out[(group->self + 1) % group->count], &operation->send_check, operation, operation->check_out,
	    sizeof(operation->check_out), AGGREGATE_TAG_OPERATION, sent);
	group->progressed = true;
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
void direct_verify(struct group *group, struct operation *operation)
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
	size_t width = width_of(group, operation), inputs = width < group->count ? width : 1;

	if (operation->split)
		return direct_place_bytes(split_part_bytes(group, operation->bytes));
	return direct_place_bytes(AGGREGATE_WIRE_OPERATION_BYTES + inputs * payload_bytes(operation));
}

void direct_begin(struct group *group)
{
	while (group->small_first) {
		struct operation *operation = group->small_first;

		operation->eager_bytes = eager_bytes_of(group, operation);
		if ((operation->direct || operation->split) &&
		    (!group->exchanges_free ||
		     (group->eager_bytes && group->eager_bytes + operation->eager_bytes > GROUP_EAGER_BYTES / 2)))
			return;
		group->small_first = operation->next_small;
		if (!group->small_first)
			group->small_end = &group->small_first;
		if (operation->direct)
			exchange_begin(group, operation);
		else
			check_begin(group, operation);
		if (operation->split)
			split_begin(group, operation);
	}
}

/* All members decide alike: by what all know of all. */
static void relay_init(struct group *group)
{
	if (group->count < RELAY_MEMBERS)
		return;
	while (group->relay_width * group->relay_width < group->count)
		group->relay_width++;
	group->relay_bytes = group->unasked_bytes < RELAY_BYTES ? group->unasked_bytes : RELAY_BYTES;
}

int direct_init(struct group *group)
{
	size_t payload = (size_t)group->settings.direct_bytes;

	if (payload < PIECE_BYTES_LEAST)
		payload = PIECE_BYTES_LEAST;
	if (payload < split_part_bytes(group, group->split_bytes))
		payload = split_part_bytes(group, group->split_bytes);

	group->exchange_bytes = AGGREGATE_WIRE_OPERATION_BYTES + (payload + 63) / 64 * 64;
	relay_init(group);
	group->exchanges = sys_zalloc(GROUP_DIRECT_OPERATIONS * sizeof(*group->exchanges));
	if (!group->exchanges)
		return -ENOMEM;
	for (size_t i = 0; i < GROUP_DIRECT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		exchange->out = sys_zalloc(group->exchange_bytes);
		exchange->in = sys_zalloc(group->count * group->exchange_bytes);
		exchange->relay = group->relay_bytes ? sys_zalloc(group->relay_bytes) : NULL;
		exchange->sends = sys_zalloc(group->count * sizeof(*exchange->sends));
		exchange->receives = sys_zalloc(group->count * sizeof(*exchange->receives));
		exchange->result_sends = sys_zalloc(group->count * sizeof(*exchange->sends));
		exchange->result_receives = sys_zalloc(group->count * sizeof(*exchange->receives));
		exchange->ranks = sys_zalloc(group->count * sizeof(*exchange->ranks));
		exchange->sent = sys_zalloc(2 * group->count * sizeof(*exchange->sent));
		if (!exchange->out || !exchange->in || (group->relay_bytes && !exchange->relay) || !exchange->ranks ||
		    !exchange->sent || !exchange->sends || !exchange->receives || !exchange->result_sends ||
		    !exchange->result_receives)
			return -ENOMEM;
		exchange->here = exchange->sent + group->count;
		exchange->next = group->exchanges_free;
		group->exchanges_free = exchange;
	}
	return 0;
}

void direct_fini(struct group *group)
{
	for (size_t i = 0; group->exchanges && i < GROUP_DIRECT_OPERATIONS; i++) {
		struct exchange *exchange = &group->exchanges[i];

		sys_free(exchange->out);
		sys_free(exchange->in);
		sys_free(exchange->relay);
		sys_free(exchange->sends);
		sys_free(exchange->receives);
		sys_free(exchange->result_sends);
		sys_free(exchange->result_receives);
		sys_free(exchange->ranks);
		sys_free(exchange->sent);
	}
	sys_free(group->exchanges);
}
