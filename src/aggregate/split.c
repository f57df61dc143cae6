/*
 * Operations of middling size: some members, who take turns, sum a part of them each, of all members' inputs, and send it to
 * all. Two steps; everything is unasked, so each step is one message. The order of sums is that of the other ways.
 */
#include "aggregate/group.h"
#include "base/clock.h"

/* Between leaves every member would send to all others, n times what segments do: only for what is short. */
enum { SPLIT_BYTES_BETWEEN_LEAVES = 32 << 10, ELEMENT_BYTES_MOST = 8, PART_BYTES_MOST = 14 << 10, PART_NS = 12000 };

size_t split_part_count(const struct group *group, size_t bytes)
{
	size_t parts = group->part_bytes && bytes ? (bytes + group->part_bytes - 1) / group->part_bytes : group->count;

	return parts < group->count ? parts : group->count;
}

size_t split_part_bytes(const struct group *group, size_t bytes)
{
	size_t least = ELEMENT_BYTES_MOST * split_part_count(group, bytes);

	return (bytes + least - 1) / least * ELEMENT_BYTES_MOST;
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

void split_settle(struct group *group)
{
	size_t eager = GROUP_EAGER_BYTES,
	       most = group->leaf_count > 1 ? SPLIT_BYTES_BETWEEN_LEAVES : AGGREGATE_ALONE_BYTES;

	for (size_t i = 0; i < group->count; i++) {
		const struct aggregate_wire_facts *facts = &group->members[i].facts;

		group->segments_chosen |= facts->segment_bytes != 0;
		eager = facts->eager_bytes < eager ? (size_t)facts->eager_bytes : eager;
	}
	if (group->segments_chosen)
		most = 0; /* somebody wants segments, and says how long */
	if (most > group->count * (eager / ELEMENT_BYTES_MOST * ELEMENT_BYTES_MOST))
		most = group->count * (eager / ELEMENT_BYTES_MOST * ELEMENT_BYTES_MOST);
	group->small_unasked = group->settings.flat_bytes + AGGREGATE_WIRE_OPERATION_BYTES <= eager;
	group->split_bytes = most;
	group->part_bytes = choose_part_bytes(group);
	if (group->part_bytes > eager)
		group->part_bytes = 0;
}

/* The part that the member there sums: its bytes, and where it begins. */
static size_t part_of(const struct group *group, const struct operation *operation, size_t position, size_t *ret_offset)
{
	size_t parts = operation->split_parts, part = (position + group->count - operation->split_first) % group->count;
	size_t each = operation->count / parts, longer = operation->count % parts;
	size_t element = reduce_type_bytes(operation->type);

	*ret_offset = (each * part + (part < longer ? part : longer)) * element;
	return part < parts ? (each + (part < longer)) * element : 0;
}

static void add(struct queue *queue, struct transfer *transfer, struct operation *operation, const void *data,
		size_t bytes, enum aggregate_tag kind, enum transfer_class class,
		void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = (uint8_t *)(uintptr_t)data,
		.bytes = bytes,
		.tag = aggregate_tag(kind, operation->number),
		.class = class,
		.done = done,
		.owner = operation,
	};
	queue_add(queue, transfer);
}

static void through(struct operation *operation)
{
	operation->waits--;
	group_operation_step(operation);
}

static void sent(struct group *group, struct transfer *transfer)
{
	(void)group;
	through(transfer->owner);
}

static void result_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;

	if (group_transfer_came_whole(group, transfer, (size_t)(transfer - operation->exchange->result_receives)))
		through(operation);
}

static void sum(struct group *group, struct operation *operation)
{
	struct exchange *exchange = operation->exchange;
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX], *result;
	size_t offset, bytes = part_of(group, operation, group->self, &offset);

	result = operation->recv + offset;
	for (size_t i = 0; i < group->count; i++)
		inputs[i] = i == group->self ? (uint8_t *)(uintptr_t)operation->send + offset
					     : exchange_in(group, exchange, i);
	combine_all(group, operation, result, inputs, bytes / reduce_type_bytes(operation->type));
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count;

		/* All members are at it: that everybody's input came says so. */
		add(&group->out[to], &exchange->result_sends[to], operation, result, bytes, AGGREGATE_TAG_DOWN,
		    TRANSFER_URGENT, sent);
	}
}

static void input_came(struct group *group, struct transfer *transfer)
{
	struct operation *operation = transfer->owner;
	struct exchange *exchange = operation->exchange;

	if (!group_transfer_came_whole(group, transfer, (size_t)(transfer - exchange->receives)))
		return;
	if (--exchange->missing == 0)
		sum(group, operation);
	through(operation);
}

/*
 * The receives of results are posted with those of the inputs, in the order of operations. Nothing comes for them before
 * this member's own input of that part has gone, so in place they harm nothing.
 */
void split_begin(struct group *group, struct operation *operation)
{
	struct exchange *exchange = flat_take(group, operation);
	size_t own_offset, own = part_of(group, operation, group->self, &own_offset);

	exchange->missing = own ? group->count - 1 : 0;
	operation->waits += 2 * (unsigned)exchange->missing; /* inputs, and the result to all */
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;
		size_t offset, bytes;

		if (own)
			add(&group->in[from], &exchange->receives[from], operation, exchange_in(group, exchange, from),
			    own, AGGREGATE_TAG_UP_ROOT, TRANSFER_SMALL, input_came);
		bytes = part_of(group, operation, from, &offset);
		operation->waits += bytes != 0;
		if (bytes)
			add(&group->in[from], &exchange->result_receives[from], operation, operation->recv + offset,
			    bytes, AGGREGATE_TAG_DOWN, TRANSFER_SMALL, result_came);
		bytes = part_of(group, operation, to, &offset);
		operation->waits += bytes != 0;
		if (bytes)
			add(&group->out[to], &exchange->sends[to], operation, operation->send + offset, bytes,
			    AGGREGATE_TAG_UP_ROOT, TRANSFER_SMALL, sent);
	}
	group->progressed = true;
}

void split_end(struct group *group, struct operation *operation)
{
	flat_release(group, operation);
	group_add(&group->split_done, 1);
}
