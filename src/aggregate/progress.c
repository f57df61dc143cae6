/* SPDX-License-Identifier: Apache-2.0 */
/* Polls a group: what was posted begins, what was received is taken, and what nothing is missing of goes on. */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"

#include <errno.h>
#include <string.h>

/* For the process's metrics. */
static void add_to_totals(struct group *group, const struct operation *operation)
{
	struct aggregate_totals *totals = group->engine->setup.totals;
	const struct aggregate_facts *facts = &group->facts;
	const uint64_t sent = atomic_load_explicit(&group->bytes_sent, memory_order_relaxed);
	/* 2 (H - 1) / H of all bytes at each of H hosts, whose members share it, and on every uplink. */
	const double ring = 2 * (double)operation->bytes * (double)(facts->hosts - 1);

	if (!totals || !atomic_load(&group->counts))
		return;
	group_add(&totals->operations, 1);
	group_add(&totals->bytes, operation->bytes);
	group_add(&totals->sent_bytes, sent - group->told_bytes);
	group->told_bytes = sent;
	group_add(&totals->ring_sent_bytes, (uint64_t)(ring / (double)facts->members));
	if (facts->leaves < 2)
		return;
	group_add(&totals->uplink_bytes, (uint64_t)(facts->uplink_share * (double)operation->bytes));
	group_add(&totals->ring_uplink_bytes, (uint64_t)(ring / (double)facts->hosts));
}

static void operation_finish(struct operation *operation)
{
	struct group *group = operation->group;

	group->under_way--;
	group->progressed = true;
	group_add(&group->operations_done, 1);
	add_to_totals(group, operation);
	atomic_store_explicit(&operation->state, OPERATION_DONE, memory_order_release);
}

static void operation_step(struct group *group, struct operation *operation)
{
	if (group->broken || operation->waits)
		return;
	switch (operation->phase) {
	case OPERATION_MOVING:
		if (operation->scheme == OPERATION_SEGMENTED && operation->segments_done < operation->segment_count)
			return;
		if (operation->scheme != OPERATION_SEGMENTED)
			small_end(group, operation);
		if (operation->commits) {
			operation->phase = OPERATION_COMMITTING;
			commit_drained(group);
			return;
		}
		break;
	case OPERATION_COMMITTING:
		commit_step(group, operation);
		return;
	case OPERATION_COMMITTED:
		break;
	case OPERATION_VERIFYING:
		operation_finish(operation);
		return;
	}
	if (!group->settings.verify) {
		operation_finish(operation);
		return;
	}
	operation->phase = OPERATION_VERIFYING;
	check_verify(group, operation);
}

static void operations_step(struct group *group)
{
	struct operation *operation;

	while ((operation = STAILQ_FIRST(&group->ready)) != NULL) {
		STAILQ_REMOVE_HEAD(&group->ready, ready_link);
		operation->ready = false;
		operation_step(group, operation);
	}
}

/* Alone in the group: its input is the result. */
static void take_alone(struct group *group, struct operation *operation)
{
	if (operation->recv != operation->send) {
		memmove(operation->recv, operation->send, operation->bytes);
		group_add(&group->bytes_copied, operation->bytes);
	}
	operation_finish(operation);
}

static void take(struct group *group, struct operation *operation)
{
	group->under_way++;
	group->progressed = true;
	operation->phase = OPERATION_MOVING;
	operation->waits = 0;
	operation->ready = operation->commits = operation->poisoned = false;
	operation->doubted = operation->doubted_with = 0;
	operation->next_segment = operation->segments_done = operation->segment_count = 0;
	operation->scheme = small_scheme(group, operation->bytes);
	if (operation->scheme == OPERATION_ALONE) {
		take_alone(group, operation);
		return;
	}
	operation->root = check_root(group, operation);
	operation->part_count = small_part_count(group, operation->bytes);
	check_init(operation);
	STAILQ_INSERT_TAIL(&group->small, operation, small_link);
	operation->check_apart = operation->scheme == OPERATION_SEGMENTED || small_checks_apart(group, operation);
	if (operation->check_apart)
		operation->waits = check_waits(group, operation);
	if (operation->scheme != OPERATION_SEGMENTED)
		return;
	operation->segmented_number = group->segmented_taken++;
	/* Where aggregators may be lost the schedule is known when the first segment is cut; till then, some. */
	operation->segment_count = group->commit ? 1 : group_segment_count(group, operation->bytes, operation->count);
	STAILQ_INSERT_TAIL(&group->segmented, operation, segmented_link);
}

static void queue_failed(struct group *group, size_t node, int error)
{
	if (node_is_aggregator(group, node))
		aggregators_suspect(group, aggregators_bit(node - group->count),
				    "its connection is closed, or was silent for too long");
	else if (error == -EMSGSIZE)
		group_break(group, -EREMOTEIO, "host %s posted an operation of another size", group_host(group, node));
	else
		group_break(group, error, "host %s is gone", group_host(group, node));
}

static void progress(struct group *group, struct queue *queue, size_t node)
{
	int r = queue_progress(group, queue);

	if (r < 0)
		queue_failed(group, node, r);
}

/* Those to so many nodes, of which the first has that queue. */
static void queues_progress(struct group *group, size_t first, size_t count)
{
	for (size_t i = 1; i < count && !group->broken; i++) { /* member r begins with r + 1 */
		size_t to = (group->self + i) % count, from = (group->self + count - i) % count;
		struct queue *out = &group->out[first + to], *in = &group->in[first + from];

		if (in->ready || in->added)
			progress(group, in, from);
		if ((out->ready || out->added) && !group->broken)
			progress(group, out, to);
	}
	operations_step(group);
}

/* True: something moved. */
static bool poll_all(struct group *group)
{
	uint64_t posted = atomic_load_explicit(&group->posted, memory_order_acquire);

	group->progressed = group->received = group->soon = group->now = false;
	if (atomic_load_explicit(&group->refused, memory_order_acquire)) {
		group_break(group, -ENOMEM, "there is no memory for an operation");
		return true;
	}
	while (group->taken != posted)
		take(group, &group->operations[group->ring[group->taken++ % AGGREGATE_MAX_REQUESTS]]);
	aggregators_carry_out(group);
	if (!group->under_way)
		return false;
	small_begin(group);
	segment_activate(group);
	queues_progress(group, 0, group->count); /* small ones first */
	queues_progress(group, group->count, group->node_count);
	if (!group->broken)
		aggregators_carry_out(group);
	return group->progressed;
}

/* Connections first: then nobody writes to the callers' buffers any more, or reads them. */
static void end(struct group *group)
{
	queue_close_all(group);
	aggregators_hang_up(group); /* what is known of them stays: a caller may be trying them */
	atomic_store_explicit(&group->error, group->broken, memory_order_release);
}

bool group_poll(struct group *group, uint64_t now_ns)
{
	bool moved = poll_all(group);

	departures_watch(group, now_ns);
	if (group->aggregators)
		aggregators_poll(group, now_ns);
	if (group->broken)
		end(group);
	return moved;
}

void group_stir(struct group *group, bool all)
{
	for (size_t i = 0; i < group_queues(group); i++) {
		group->in[i].ready |= group->in[i].soon || (all && !queue_is_empty(&group->in[i]));
		group->out[i].ready |= group->out[i].soon || (all && !queue_is_empty(&group->out[i]));
	}
}

bool group_is_idle(const struct group *group)
{
	return !group->under_way && group->taken == atomic_load_explicit(&group->posted, memory_order_acquire);
}
