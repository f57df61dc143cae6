/*
 * What a lost aggregator should have made is made again, by the members alone: member m sums the m-th part of the operation.
 * Every member sends it its input of that part and gets the result. The order of sums is what it always is (combine.c), so
 * the bits are, too. It need not be fast. Messages are as long as the memory for them allows, so that they are few: they
 * overtake what others wait for (QUEUE_AHEAD).
 */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* Inputs that lie at one member at a time; larger operations take two rounds, and half of their length. */
#define RECOMPUTE_BYTES ((size_t)64 << 20)
enum { ROUNDS_MOST = 2 };

enum { INPUT_OUT, INPUT_IN, RESULT_OUT, RESULT_IN, KIND_COUNT };

struct recompute {
	struct operation *operation;
	size_t rounds, round, each; /* elements of a part */
	size_t missing;             /* inputs of the own part */
	unsigned waits;
	uint8_t *memory;                        /* [member] an input of the own part */
	struct transfer *transfers[KIND_COUNT]; /* [member] */
};

int recompute_new(const struct group *group, struct recompute **ret)
{
	struct recompute *recompute = sys_zalloc(sizeof(*recompute));

	if (!recompute)
		return -ENOMEM;
	recompute->transfers[0] = sys_zalloc(KIND_COUNT * group->count * sizeof(**recompute->transfers));
	if (!recompute->transfers[0]) {
		sys_free(recompute);
		return -ENOMEM;
	}
	for (size_t i = 1; i < KIND_COUNT; i++)
		recompute->transfers[i] = recompute->transfers[0] + i * group->count;
	*ret = recompute;
	return 0;
}

void recompute_free(struct recompute *recompute)
{
	if (!recompute)
		return;
	sys_free(recompute->memory);
	sys_free(recompute->transfers[0]);
	sys_free(recompute);
}

/* What a member sums in this round. */
struct part {
	size_t offset, bytes, count;
};
static struct part part_of(const struct group *group, const struct recompute *recompute, size_t member)
{
	size_t begin = (recompute->round * group->count + member) * recompute->each, end = begin + recompute->each;
	size_t total = recompute->operation->count, element = reduce_type_bytes(recompute->operation->type);

	begin = begin < total ? begin : total;
	end = end < total ? end : total;
	return (struct part){ begin * element, (end - begin) * element, end - begin };
}

static size_t room_of(const struct recompute *recompute)
{
	return recompute->each * reduce_type_bytes(recompute->operation->type);
}

static void round_begin(struct group *group, struct recompute *recompute);

static void through(struct group *group, struct recompute *recompute)
{
	struct operation *operation = recompute->operation;

	if (--recompute->waits || group->broken)
		return;
	if (++recompute->round < recompute->rounds) {
		round_begin(group, recompute);
		return;
	}
	sys_free(recompute->memory);
	recompute->memory = NULL;
	recompute->operation = NULL;
	operation_ready(operation);
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

static void add(struct group *group, struct recompute *recompute, unsigned kind, size_t member, void *data,
		size_t bytes, void (*done)(struct group *, struct transfer *))
{
	bool input = kind == INPUT_OUT || kind == INPUT_IN, out = kind == INPUT_OUT || kind == RESULT_OUT;
	enum aggregate_tag tag = input ? AGGREGATE_TAG_RECOMPUTE_INPUT : AGGREGATE_TAG_RECOMPUTE_RESULT;
	struct transfer *transfer = &recompute->transfers[kind][member];

	*transfer = (struct transfer){ .data = data,
				       .bytes = bytes,
				       .tag = aggregate_tag(tag, recompute->operation->number),
				       .class = TRANSFER_URGENT,
				       .done = done,
				       .owner = recompute,
				       .what = (unsigned)member };
	recompute->waits++;
	queue_add(queue_large(group, out ? group->out : group->in, member), transfer);
}

/* All inputs of the own part are here. */
static void sum(struct group *group, struct recompute *recompute)
{
	struct operation *operation = recompute->operation;
	struct part own = part_of(group, recompute, group->self);
	uint8_t *inputs[SCHEDULE_MEMBERS_MAX];

	for (size_t i = 0; i < group->count; i++)
		inputs[i] = recompute->memory + i * room_of(recompute);
	inputs[group->self] = (uint8_t *)(uintptr_t)operation->send + own.offset; /* which is read alone */
	combine_all(group, operation, operation->recv + own.offset, inputs, own.count);
	for (size_t i = 1; i < group->count; i++)
		add(group, recompute, RESULT_OUT, (group->self + i) % group->count, operation->recv + own.offset,
		    own.bytes, sent);
}

static void input_received(struct group *group, struct transfer *transfer)
{
	struct recompute *recompute = transfer->owner;

	if (!whole(group, transfer))
		return;
	if (--recompute->missing == 0)
		sum(group, recompute);
	through(group, recompute);
}

static void result_received(struct group *group, struct transfer *transfer)
{
	if (whole(group, transfer))
		through(group, transfer->owner);
}

static void round_begin(struct group *group, struct recompute *recompute)
{
	struct operation *operation = recompute->operation;
	struct part own = part_of(group, recompute, group->self);

	recompute->waits = 1; /* this function's own */
	recompute->missing = group->count - 1;
	for (size_t i = 1; i < group->count; i++) {
		size_t to = (group->self + i) % group->count, from = (group->self + group->count - i) % group->count;
		struct part part = part_of(group, recompute, to);

		if (own.bytes)
			add(group, recompute, INPUT_IN, from, recompute->memory + from * room_of(recompute), own.bytes,
			    input_received);
		if (!part.bytes)
			continue;
		add(group, recompute, INPUT_OUT, to, (uint8_t *)(uintptr_t)operation->send + part.offset, part.bytes,
		    sent);
		add(group, recompute, RESULT_IN, to, operation->recv + part.offset, part.bytes, result_received);
	}
	through(group, recompute);
}

void recompute_begin(struct group *group, struct recompute *recompute, struct operation *operation)
{
	recompute->operation = operation;
	recompute->round = 0;
	recompute->rounds = operation->bytes > RECOMPUTE_BYTES ? ROUNDS_MOST : 1;
	recompute->each = (operation->count + group->count * recompute->rounds - 1) /
			  (group->count * recompute->rounds);
	recompute->memory = sys_zalloc(group->count * room_of(recompute));
	if (!recompute->memory) {
		group_break(group, -ENOMEM, "there is no memory to make again what a lost aggregator should have made");
		return;
	}
	round_begin(group, recompute);
}

bool recompute_is_done(const struct recompute *recompute)
{
	return !recompute->operation;
}
