/*
 * What a lost server should have made is made again, by the members alone: member m sums the m-th part of the operation.
 * Every member sends it its input of that part and gets the result. The order of sums is what it always is (combine.c), so
 * the bits are, too. It need not be fast. Messages are as long as the memory for them allows, so that they are few: they
 * overtake what others wait for (QUEUE_AHEAD).
 */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* Inputs that lie at one member at a time; larger operations take two rounds, and half of their length. */
#define REPAIR_BYTES ((size_t)64 << 20)
enum { ROUNDS_MOST = 2 };

enum { INPUT_OUT, INPUT_IN, RESULT_OUT, RESULT_IN, KIND_COUNT };

struct repair {
	struct operation *operation;
	size_t rounds, round, each; /* elements of a part */
	size_t missing;             /* inputs of the own part */
	unsigned waits;
	uint8_t *memory;                        /* [member] an input of the own part */
	struct transfer *transfers[KIND_COUNT]; /* [member] */
};

int repair_new(const struct group *group, struct repair **ret)
{
	struct repair *repair = sys_zalloc(sizeof(*repair));

	if (!repair)
		return -ENOMEM;
	repair->transfers[0] = sys_zalloc(KIND_COUNT * group->count * sizeof(**repair->transfers));
	if (!repair->transfers[0]) {
		sys_free(repair);
		return -ENOMEM;
	}
	for (size_t i = 1; i < KIND_COUNT; i++)
		repair->transfers[i] = repair->transfers[0] + i * group->count;
	*ret = repair;
	return 0;
}

void repair_free(struct repair *repair)
{
	if (!repair)
		return;
	sys_free(repair->memory);
	sys_free(repair->transfers[0]);
	sys_free(repair);
}

/* What a member sums in this round. */
struct part {
	size_t offset, bytes, count;
};
static struct part part_of(const struct group *group, const struct repair *repair, size_t member)
{
	size_t begin = (repair->round * group->count + member) * repair->each, end = begin + repair->each;
	size_t total = repair->operation->count, element = reduce_type_bytes(repair->operation->type);

	begin = begin < total ? begin : total;
	end = end < total ? end : total;
	return (struct part){ begin * element, (end - begin) * element, end - begin };
}

static size_t room_of(const struct repair *repair)
{
	return repair->each * reduce_type_bytes(repair->operation->type);
}

static void round_begin(struct group *group, struct repair *repair);

static void through(struct group *group, struct repair *repair)
{
	struct operation *operation = repair->operation;

	if (--repair->waits || group->error)
		return;
	if (++repair->round < repair->rounds) {
		round_begin(group, repair);
		return;
	}
	sys_free(repair->memory);
	repair->memory = NULL;
	repair->operation = NULL;
	commit_repaired(group, operation);
}

static void sent(struct group *group, struct transfer *transfer)
{
	through(group, transfer->owner);
}

static bool whole(struct group *group, const struct transfer *transfer)
{
	if (transfer->received == transfer->bytes)
		return true;
	group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, transfer->what));
	return false;
}

static void add(struct group *group, struct repair *repair, unsigned kind, size_t member, void *data, size_t bytes,
		void (*done)(struct group *, struct transfer *))
{
	bool input = kind == INPUT_OUT || kind == INPUT_IN, out = kind == INPUT_OUT || kind == RESULT_OUT;
	enum aggregate_tag tag = input ? AGGREGATE_TAG_REPAIR_INPUT : AGGREGATE_TAG_REPAIR_RESULT;
	struct transfer *transfer = &repair->transfers[kind][member];

	*transfer = (struct transfer){ .data = data,
				       .bytes = bytes,
				       .tag = aggregate_tag(tag, repair->operation->number),
				       .class = TRANSFER_URGENT,
				       .done = done,
				       .owner = repair,
				       .what = (unsigned)member };
	repair->waits++;
	queue_add(queue_large(group, out ? group->out : group->in, member), transfer);
}

/* All inputs of the own part are here. */
static void sum(struct group *group, struct repair *repair)
{
	struct operation *operation = repair->operation;
	struct part own = part_of(group, repair, group->self);
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = repair->memory + i * room_of(repair);
	inputs[group->self] = (uint8_t *)(uintptr_t)operation->send + own.offset; /* which is read alone */
	combine_all(group, operation, operation->recv + own.offset, inputs, own.count);
	for (size_t i = 1; i < group->count; i++)
		add(group, repair, RESULT_OUT, (group->self + i) % group->count, operation->recv + own.offset,
		    own.bytes, sent);
}

static void input_received(struct group *group, struct transfer *transfer)
{
	struct repair *repair = transfer->owner;

	if (!whole(group, transfer))
		return;
	if (--repair->missing == 0)
		sum(group, repair);
	through(group, repair);
}

static void result_received(struct group *group, struct transfer *transfer)
{
	if (whole(group, transfer))
		through(group, transfer->owner);
}

static void round_begin(struct group *group, struct repair *repair)
{
	struct operation *operation = repair->operation;
	struct part own = part_of(group, repair, group->self);

	repair->waits = 1; /* this function's own */
	repair->missing = group->count - 1;
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;
		struct part part = part_of(group, repair, to);

		if (own.bytes)
			add(group, repair, INPUT_IN, from, repair->memory + from * room_of(repair), own.bytes,
			    input_received);
		if (!part.bytes)
			continue;
		add(group, repair, INPUT_OUT, to, (uint8_t *)(uintptr_t)operation->send + part.offset, part.bytes,
		    sent);
		add(group, repair, RESULT_IN, to, operation->recv + part.offset, part.bytes, result_received);
	}
	through(group, repair);
}

void repair_begin(struct group *group, struct repair *repair, struct operation *operation)
{
	repair->operation = operation;
	repair->round = 0;
	repair->rounds = operation->bytes > REPAIR_BYTES ? ROUNDS_MOST : 1;
	repair->each = (operation->count + group->count * repair->rounds - 1) / (group->count * repair->rounds);
	repair->memory = sys_zalloc(group->count * room_of(repair));
	if (!repair->memory) {
		group_break(group, -ENOMEM, "there is no memory to make again what a lost aggregator should have made");
		return;
	}
	round_begin(group, repair);
}
