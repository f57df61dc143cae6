/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups with aggregators: no large operation is done before all members agree that it is (docs/design/aggregation.md, Losing an
 * aggregator). Until then every member has its input, so whatever a lost aggregator should have made can be made again.
 *
 * The agreement of an operation is a dissemination (dissemination.c). What a member knows of itself is fixed when it begins; so
 * all end with the same: the OR of all. Agreements begin and are acted upon in the order of operations.
 */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"
#include "aggregate/pipeline.h"
#include "base/sys.h"

#include <errno.h>

_Static_assert((int)PIPELINE_COMMITS == (int)COMMIT_OPEN, "the pipeline commits as many calls at a time");

/* One operation's, on its way. */
struct agreement {
	struct operation *operation;
	struct member_wire_commit known; /* own, and of the steps that are through */
	struct dissemination dissemination;
};

struct group_commit {
	struct operation_list operations; /* that are not acted upon, in order */
	struct operation *next;           /* of them the first that has not begun its agreement, or NULL */
	uint64_t begun, agreed;           /* so many agreements; operations: the number of the first without one */
	struct agreement open[COMMIT_OPEN];
	struct operation *recomputing; /* NULL: none */
	struct exchange recompute;
	/* Aggregators that are gone, as agreed with each of the last operations; what the schedule goes by. */
	uint32_t gone, gone_at[COMMIT_WINDOW], planned;
	bool stale; /* ... is not any more */
	bool over;  /* the schedule has no aggregators any more */
};

static void advance(struct group *group);

int commit_init(struct group *group)
{
	struct group_commit *commit = sys_zalloc(sizeof(*commit));
	int r;

	if (!commit)
		return -ENOMEM;
	group->commit = commit;
	STAILQ_INIT(&commit->operations);
	r = exchange_init(&commit->recompute, group->count);
	atomic_store_explicit(&group->retains, r == 0, memory_order_relaxed);
	return r;
}

void commit_fini(struct group *group)
{
	if (!group->commit)
		return;
	exchange_fini(&group->commit->recompute);
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
	aggregators_dismiss(group, commit->agreed); /* where it is the last, no commit follows */
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
	STAILQ_INSERT_TAIL(&commit->operations, operation, commit_link);
	if (!commit->next)
		commit->next = operation;
	return true;
}

/* ------------------------------------------------------------------------------------------------------ the agreement */

static void agreement_write(const struct dissemination *dissemination, uint8_t *bytes)
{
	struct agreement *agreement = dissemination->owner;

	member_wire_commit(CODEC_TO(bytes), &agreement->known);
}

static bool agreement_read(struct group *group, struct dissemination *dissemination, size_t from, const uint8_t *bytes,
			   size_t count)
{
	struct agreement *agreement = dissemination->owner;
	struct member_wire_commit heard;

	if (member_wire_commit(CODEC_FROM(bytes, count), &heard) < 0 || heard.number != agreement->operation->number ||
	    (heard.lost | heard.leaves) & ~group->aggregators->used) {
		group_break(group, -EREMOTEIO, "host %s broke the protocol", group_host(group, from));
		return false;
	}
	agreement->known.lost |= heard.lost;
	agreement->known.leaves |= heard.leaves;
	agreement->known.poisoned |= heard.poisoned;
	aggregators_suspect(group, heard.lost, "another host has lost it");
	return true;
}

static void agreement_done(struct group *group, struct dissemination *dissemination)
{
	(void)dissemination;
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
	agreement->dissemination = (struct dissemination){ .tag = AGGREGATE_TAG_AGREE,
							   .number = operation->number,
							   .bytes = MEMBER_WIRE_COMMIT_BYTES,
							   .write = agreement_write,
							   .read = agreement_read,
							   .done = agreement_done,
							   .owner = agreement };
	dissemination_begin(group, &agreement->dissemination);
}

/* -------------------------------------------------------------------------------------------------------- what follows */

static void act_upon(struct group *group, const struct agreement *agreement)
{
	struct group_commit *commit = group->commit;
	struct operation *operation = agreement->operation;
	bool poisoned = agreement->known.poisoned;

	/* A root that brought nothing may have lacked what a lost one should have made. Where none is lost, another lost it. */
	if (!(agreement->known.lost & operation->doubted_with))
		aggregators_suspect(group, operation->doubted, "another aggregator has lost it");
	STAILQ_REMOVE_HEAD(&commit->operations, commit_link);
	commit->gone |= agreement->known.lost | agreement->known.leaves;
	commit->gone_at[operation->segmented_number % COMMIT_WINDOW] = commit->gone;
	commit->agreed = operation->segmented_number + 1;
	group->aggregators->draining |= agreement->known.leaves;
	aggregators_dismiss(group, commit->agreed);
	group->progressed = true;
	if (poisoned) {
		commit->recomputing = operation;
		recompute_begin(group, &commit->recompute, operation);
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
		struct agreement *oldest = &commit->open[commit->agreed % COMMIT_OPEN];

		moved = false;
		if (commit->next && commit->next->phase == OPERATION_COMMITTING &&
		    commit->begun - commit->agreed < COMMIT_OPEN) {
			struct operation *operation = commit->next;

			commit->next = STAILQ_NEXT(operation, commit_link);
			agreement_begin(group, operation);
			moved = true;
		} else if (!commit->recomputing && commit->agreed < commit->begun && !oldest->dissemination.waits) {
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

	if (commit->recomputing != operation || !recompute_step(group, &commit->recompute))
		return;
	commit->recomputing = NULL;
	operation->phase = OPERATION_COMMITTED;
	operation_ready(operation);
	advance(group);
}
