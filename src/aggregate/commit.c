/*
 * Groups with aggregators: no large operation is done before all members agree that it is (docs/design/aggregation.md, Losing an
 * aggregator). Until then every member has its input, so whatever a lost aggregator should have made can be made again.
 *
 * The agreement of an operation is a dissemination in log2 N steps: in step i each member sends what it knows to the one
 * 2^i places on, and hears as much from the one 2^i places back. What a member knows of itself is fixed when it begins; so
 * all end with the same: the OR of all. Agreements begin and are acted upon in the order of operations.
 */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"
#include "base/sys.h"

#include <errno.h>

/* One operation's, on its way. */
struct agreement {
	struct operation *operation;
	struct member_wire_commit known; /* own, and of the steps that are through */
	unsigned heard;                  /* bit i: the word of step i is here */
	unsigned steps;                  /* through, in order */
	unsigned waits;                  /* transfers */
	struct transfer sends[SPREAD_STEPS], receives[SPREAD_STEPS];
	uint8_t out[SPREAD_STEPS][MEMBER_WIRE_COMMIT_BYTES], in[SPREAD_STEPS][MEMBER_WIRE_COMMIT_BYTES];
};

struct group_commit {
	unsigned step_count;
	/* Those that are not acted upon, in order; the first that has not begun its agreement. */
	struct operation *first, **end, *next;
	uint64_t begun, agreed; /* so many agreements; operations: the number of the first without one */
	struct agreement open[COMMIT_OPEN];
	struct operation *recomputing; /* NULL: none */
	struct recompute *recompute;
	/* Aggregators that are gone, as agreed with each of the last operations; what the schedule goes by. */
	uint32_t gone, gone_at[COMMIT_WINDOW], planned;
	bool stale; /* ... is not any more */
	bool over;  /* the schedule has no aggregators any more */
};
_Static_assert(SCHEDULE_MEMBERS_MAX <= 1 << SPREAD_STEPS, "steps");

static void advance(struct group *group);

int commit_init(struct group *group)
{
	struct group_commit *commit = sys_zalloc(sizeof(*commit));
	int r;

	if (!commit)
		return -ENOMEM;
	group->commit = commit;
	commit->end = &commit->first;
	commit->step_count = spread_steps(group);
	r = recompute_new(group, &commit->recompute);
	atomic_store_explicit(&group->retains, r == 0, memory_order_relaxed);
	return r;
}

void commit_fini(struct group *group)
{
	if (!group->commit)
		return;
	recompute_free(group->commit->recompute);
	sys_free(group->commit);
	group->commit = NULL;
}

/* ------------------------------------------------------------------------------------------------------- the schedule */

/*
 * The schedule changes at the same operation everywhere: COMMIT_WINDOW after the one with which the loss was agreed on,
 * because nobody begins an operation before the one that is so many before it was agreed on.
 */
static bool plan_for(struct group *group, const struct operation *operation)
{
	struct group_commit *commit = group->commit;
	uint64_t number = operation->segmented_number;
	uint32_t gone = number < COMMIT_WINDOW ? 0 : commit->gone_at[number % COMMIT_WINDOW];
	int r;

	if ((gone | operation->without) == commit->planned && !commit->stale)
		return true;
	commit->planned = gone | operation->without;
	commit->stale = false;
	aggregators_exclude(group, gone, number);
	r = group_plan(group, operation->without);
	if (r < 0) {
		group_break(group, r, "it is out of memory");
		return false;
	}
	commit->over = !aggregators_usable(group);
	/* An operation that is posted from now on comes after this one. */
	if (commit->over)
		atomic_store_explicit(&group->retains, false, memory_order_relaxed);
	return true;
}

void commit_replan(struct group *group)
{
	struct group_commit *commit = group->commit;

	commit->stale = true;
	commit->over = !aggregators_usable(group);
	if (commit->over)
		atomic_store_explicit(&group->retains, false, memory_order_relaxed);
}

bool commit_begin(struct group *group, struct operation *operation)
{
	struct group_commit *commit = group->commit;

	if (!commit)
		return true;
	if (!commit->over) {
		if (operation->segmented_number >= commit->agreed + COMMIT_WINDOW || !plan_for(group, operation))
			return false;
	}
	operation->segment_count = group_segment_count(group, operation->bytes, operation->count);
	operation->commits = !commit->over;
	if (!operation->commits)
		return true;
	operation->next_commit = NULL;
	*commit->end = operation;
	commit->end = &operation->next_commit;
	if (!commit->next)
		commit->next = operation;
	return true;
}

/* ------------------------------------------------------------------------------------------------------ the agreement */

static void add(struct queue *queue, struct transfer *transfer, struct agreement *agreement, uint8_t *bytes,
		void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = bytes,
		.bytes = MEMBER_WIRE_COMMIT_BYTES,
		.tag = aggregate_tag(AGGREGATE_TAG_AGREE, agreement->operation->number),
		.class = TRANSFER_URGENT,
		.done = done,
		.owner = agreement,
	};
	agreement->waits++;
	queue_add(queue, transfer);
}

static void word_sent(struct group *group, struct transfer *transfer)
{
	struct agreement *agreement = transfer->owner;

	agreement->waits--;
	advance(group);
}

static void word_send(struct group *group, struct agreement *agreement)
{
	unsigned step = agreement->steps;

	if (step == group->commit->step_count)
		return;
	member_wire_commit(CODEC_TO(agreement->out[step]), &agreement->known);
	add(&group->out[spread_to(group, step)], &agreement->sends[step], agreement, agreement->out[step], word_sent);
}

/* The words of the steps in order, each of which makes the next one's. */
static void words_take(struct group *group, struct agreement *agreement)
{
	struct member_wire_commit word;

	while (agreement->steps < group->commit->step_count && agreement->heard & 1U << agreement->steps) {
		if (member_wire_commit(CODEC_FROM(agreement->in[agreement->steps], MEMBER_WIRE_COMMIT_BYTES), &word) <
			    0 ||
		    word.number != agreement->operation->number ||
		    (word.lost | word.leaves) & ~group->aggregators->used) {
			group_break(group, -EREMOTEIO, "host %s broke the protocol",
				    group_host(group, spread_from(group, agreement->steps)));
			return;
		}
		agreement->known.lost |= word.lost;
		agreement->known.leaves |= word.leaves;
		agreement->known.poisoned |= word.poisoned;
		aggregators_suspect(group, word.lost, "another host has lost it");
		agreement->steps++;
		word_send(group, agreement);
	}
}

static void word_received(struct group *group, struct transfer *transfer)
{
	struct agreement *agreement = transfer->owner;
	unsigned step = (unsigned)(transfer - agreement->receives);

	if (transfer->received != MEMBER_WIRE_COMMIT_BYTES) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol",
			    group_host(group, spread_from(group, step)));
		return;
	}
	agreement->waits--;
	agreement->heard |= 1U << step;
	words_take(group, agreement);
	if (!group->broken)
		advance(group);
}

static void agreement_begin(struct group *group, struct operation *operation)
{
	struct group_commit *commit = group->commit;
	struct agreement *agreement = &commit->open[commit->begun++ % COMMIT_OPEN];

	*agreement = (struct agreement){ .operation = operation };
	agreement->known = (struct member_wire_commit){ .number = operation->number,
							.lost = group->aggregators->suspected &
								~group->aggregators->dismissed,
							.leaves = group->aggregators->leaving,
							.poisoned = operation->poisoned };
	for (unsigned step = 0; step < commit->step_count; step++)
		add(&group->in[spread_from(group, step)], &agreement->receives[step], agreement, agreement->in[step],
		    word_received);
	word_send(group, agreement);
}

/* -------------------------------------------------------------------------------------------------------- what follows */

static void act_upon(struct group *group, const struct agreement *agreement)
{
	struct group_commit *commit = group->commit;
	struct operation *operation = agreement->operation;
	bool poisoned = agreement->known.poisoned;

	commit->first = operation->next_commit;
	if (!commit->first)
		commit->end = &commit->first;
	commit->gone |= agreement->known.lost | agreement->known.leaves;
	commit->gone_at[operation->segmented_number % COMMIT_WINDOW] = commit->gone;
	commit->agreed = operation->segmented_number + 1;
	group->aggregators->draining |= agreement->known.leaves;
	aggregators_dismiss(group, commit->agreed);
	group->progressed = true;
	if (poisoned) {
		commit->recomputing = operation;
		recompute_begin(group, commit->recompute, operation);
	} else {
		operation->phase = OPERATION_COMMITTED;
		operation_ready(operation);
	}
}

/* Begins agreements and acts upon those that are through. Both in the order of operations. */
static void advance(struct group *group)
{
	struct group_commit *commit = group->commit;

	for (bool moved = true; moved && !group->broken;) {
		struct agreement *oldest = commit->first ? &commit->open[commit->agreed % COMMIT_OPEN] : NULL;

		moved = false;
		if (commit->next && commit->next->phase == OPERATION_COMMITTING &&
		    commit->begun - commit->agreed < COMMIT_OPEN) {
			struct operation *operation = commit->next;

			commit->next = operation->next_commit;
			agreement_begin(group, operation);
			moved = true;
		} else if (oldest && !commit->recomputing && commit->agreed < commit->begun &&
			   oldest->steps == commit->step_count && !oldest->waits) {
			act_upon(group, oldest);
			moved = true;
		}
	}
}

void commit_drained(struct group *group)
{
	advance(group);
}

void commit_step(struct group *group, struct operation *operation)
{
	struct group_commit *commit = group->commit;

	if (commit->recomputing != operation || !recompute_is_done(commit->recompute))
		return;
	commit->recomputing = NULL;
	operation->phase = OPERATION_COMMITTED;
	operation_ready(operation);
	advance(group);
}
