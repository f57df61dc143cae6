/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large operations, cut in segments: up through the leaders of host and leaf to the root, and the result down the
 * same way (docs/design/aggregation.md). Segments begin in the order of their numbers, each with all the slots that it needs at
 * this node, and only then the next: so the oldest one everywhere has what it needs, and nobody waits in a circle.
 */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- the pool */

static void pool_fini(struct pool *pool)
{
	sys_unmap_pages(pool->memory, pool->count * pool->slot_bytes);
	sys_free(pool->free);
	*pool = (struct pool){ 0 };
}

static int pool_init(struct pool *pool, size_t slot_bytes, size_t least, size_t most)
{
	pool->slot_bytes = (slot_bytes + 63) / 64 * 64;
	pool->count = GROUP_BUFFER_BYTES / pool->slot_bytes;
	if (pool->count > most)
		pool->count = most;
	if (pool->count < least)
		pool->count = least;
	if (!pool->count)
		return 0;
	pool->memory = sys_map_pages(pool->count * pool->slot_bytes);
	pool->free = sys_zalloc(pool->count * sizeof(*pool->free));
	if (!pool->memory || !pool->free)
		return -ENOMEM;
	while (pool->free_count < pool->count) {
		pool->free[pool->free_count] = pool->memory + pool->free_count * pool->slot_bytes;
		pool->free_count++;
	}
	return 0;
}

static bool pool_has(const struct pool *pool, const void *data)
{
	const uint8_t *at = data;

	return pool->memory && at >= pool->memory && at < pool->memory + pool->count * pool->slot_bytes;
}

static void slots_give_back(struct group *group, struct segment *segment, size_t begin, size_t end, const void *but)
{
	for (size_t i = begin; i < end; i++)
		if (segment->slots[i] && segment->slots[i] != but) {
			group->pool.free[group->pool.free_count++] = segment->slots[i];
			segment->slots[i] = NULL;
		}
}

/* ------------------------------------------------------------------------------------------------- the way of one */

static size_t hosts_in_leaf(const struct group *group, size_t leaf)
{
	return (size_t)group->leaf_begin[leaf + 1] - group->leaf_begin[leaf];
}

static uint16_t own_host(const struct group *group)
{
	return group->members[group->self].host;
}

static uint16_t own_leaf(const struct group *group)
{
	return group->members[group->self].leaf;
}

static void segment_step(struct group *group, struct segment *segment);
static void segment_has_result(struct group *group, struct segment *segment);
static void stage_add(struct group *group, struct segment *segment, enum stage stage, size_t index, const void *data);

static void add_transfer(struct segment *segment, struct queue *queue, struct transfer *transfer, const void *data,
			 enum aggregate_tag kind, void (*done)(struct group *, struct transfer *))
{
	transfer->data = (uint8_t *)(uintptr_t)data;
	transfer->bytes = segment->bytes;
	transfer->tag = aggregate_tag(kind, segment->number);
	transfer->class = TRANSFER_SEGMENTED;
	transfer->number = segment->number;
	transfer->done = done;
	transfer->owner = segment;
	queue_add(queue, transfer);
}

/*
 * Of a segment in which a lost aggregator had a part a node above may send zero bytes: there is no result. It goes to those
 * alone who have begun the segment, as it is only said when all inputs are there, or never come. Upwards only an aggregator is
 * missed, as aggregators have inputs of members alone, but for those that the root gets.
 */
static bool came_nothing(struct group *group, struct segment *segment, const struct transfer *transfer, size_t from,
			 bool up)
{
	bool aggregator = node_is_aggregator(group, from);
	size_t root = segment->stages[STAGE_ROOT].node;

	if (!segment->aggregators || transfer->received == transfer->bytes ||
	    (!aggregator && (up || transfer->received)))
		return false;
	segment->poisoned = true;
	if (!aggregator || queue_large(group, group->in, from)->over)
		return true;
	if (up || transfer->received)
		aggregators_suspect(group, aggregators_bit(from - group->count), "it breaks the protocol");
	else if (from != root && node_is_aggregator(group, root)) {
		segment->operation->doubted |= aggregators_bit(root - group->count);
		segment->operation->doubted_with |= segment->aggregators;
	}
	return true;
}

/* The first of the own host's, leaf's and root node that is not this one itself. */
static uint16_t parent_of(const struct segment *segment)
{
	enum stage stage = STAGE_HOST;

	while (stage < STAGE_ROOT && segment->stages[stage].mine)
		stage++;
	return segment->stages[stage].node;
}

static void down_done(struct group *group, struct transfer *transfer)
{
	struct segment *segment = transfer->owner;

	if (!came_nothing(group, segment, transfer, parent_of(segment), false) &&
	    !group_transfer_came_whole(group, transfer, parent_of(segment)))
		return;
	segment->waits--;
	/* From an aggregator that is lost it comes at once: inputs may still be on their way into slots here. */
	if (segment->poisoned && segment->ups)
		segment->passes_on = true;
	else
		segment_has_result(group, segment);
}

static void down_receive(struct group *group, struct segment *segment)
{
	add_transfer(segment, queue_large(group, group->in, parent_of(segment)), &segment->down, segment->result,
		     AGGREGATE_TAG_DOWN, down_done);
}

/* In place, nothing may land before one's own input is gone. */
static bool receives_late(const struct segment *segment)
{
	return segment->input == segment->result;
}

static void up_done(struct group *group, struct transfer *transfer)
{
	struct segment *segment = transfer->owner;

	if (transfer == &segment->up_partial) {
		slots_give_back(group, segment, 0, segment->slot_count, NULL);
		segment->partial = NULL;
	}
	segment->waits--;
	if (--segment->ups == 0 && receives_late(segment) && !segment->stages[STAGE_ROOT].mine)
		down_receive(group, segment);
	if (segment->ups == 0 && segment->passes_on) {
		segment_has_result(group, segment);
		return;
	}
	segment_step(group, segment);
}

static void transferred(struct group *group, struct transfer *transfer)
{
	struct segment *segment = transfer->owner;

	segment->waits--;
	segment_step(group, segment);
}

static void send_down(struct group *group, struct segment *segment, uint16_t node)
{
	struct transfer *transfer = &segment->sends[segment->send_count++];

	segment->waits++;
	add_transfer(segment, queue_large(group, group->out, node), transfer, segment->result, AGGREGATE_TAG_DOWN,
		     transferred);
	if (segment->poisoned)
		transfer->bytes = 0;
}

static void segment_has_result(struct group *group, struct segment *segment)
{
	segment->has_result = true;
	slots_give_back(group, segment, 0, segment->slot_count, segment->ups ? segment->partial : NULL);
	for (enum stage stage = STAGE_COUNT; stage-- > STAGE_HOST;) {
		const struct segment_stage *at = &segment->stages[stage];

		for (size_t i = 0; at->mine && i < at->count; i++) /* the leaf's node has it from above */
			if (at->nodes[i] != group->self &&
			    (stage != STAGE_HOST || at->nodes[i] != segment->stages[STAGE_LEAF].node))
				send_down(group, segment, at->nodes[i]);
	}
	segment_step(group, segment);
}

/* The last sum of all is written where the result belongs. */
static bool stage_is_last(const struct segment *segment, enum stage stage)
{
	for (unsigned i = (unsigned)stage + 1; i < STAGE_COUNT; i++)
		if (!segment->stages[i].mine || segment->stages[i].count != 1)
			return false;
	return true;
}

static const void *stage_sum(struct group *group, struct segment *segment, enum stage stage)
{
	struct segment_stage *at = &segment->stages[stage];
	void *to = stage_is_last(segment, stage) ? segment->result : at->scratch;

	if (at->count == 1)
		return at->inputs[0];
	combine(group, segment->operation, to, at->scratch, at->count, at->inputs, segment->count);
	return to;
}

static void stage_through(struct group *group, struct segment *segment, enum stage stage)
{
	struct segment_stage *at = &segment->stages[stage];
	const void *sum;
	enum aggregate_tag tag = stage == STAGE_HOST ? AGGREGATE_TAG_UP_LEAF : AGGREGATE_TAG_UP_ROOT;

	group->progressed = true;
	if (stage == STAGE_ROOT && segment->poisoned) {
		segment_has_result(group, segment);
		return;
	}
	sum = stage_sum(group, segment, stage);
	slots_give_back(group, segment, 0, at->slot_end, sum); /* those of the stages below, too */
	segment->partial = pool_has(&group->pool, sum) ? (uint8_t *)(uintptr_t)sum : NULL;
	if (stage == STAGE_ROOT) {
		if (sum != segment->result) { /* a group of one */
			memmove(segment->result, sum, segment->bytes);
			group_add(&group->bytes_copied, segment->bytes);
		}
		segment_has_result(group, segment);
	} else if (segment->stages[stage + 1].mine) {
		stage_add(group, segment, stage + 1, segment->stages[stage + 1].own, sum);
	} else {
		add_transfer(segment, queue_large(group, group->out, segment->stages[stage + 1].node),
			     &segment->up_partial, sum, tag, up_done);
	}
}

static void stage_add(struct group *group, struct segment *segment, enum stage stage, size_t index, const void *data)
{
	struct segment_stage *at = &segment->stages[stage];

	at->inputs[index] = data;
	if (--at->missing == 0)
		stage_through(group, segment, stage);
}

static void oldest_advance(struct group *group)
{
	while (group->segment_oldest != group->segment_next &&
	       group->segments[group->segment_oldest % GROUP_SEGMENTS].done)
		group->segment_oldest++;
	for (size_t i = group->count; i < group_queues(group);
	     i++) { /* the oldest may use requests that others may not */
		group->out[i].added |= !TAILQ_EMPTY(&group->out[i].segmented);
		group->in[i].added |= !TAILQ_EMPTY(&group->in[i].segmented);
	}
}

static void segment_step(struct group *group, struct segment *segment)
{
	struct operation *operation = segment->operation;

	if (!segment->has_result || segment->waits || segment->done || group->broken)
		return;
	segment->done = true;
	segment->active = false;
	group->progressed = true;
	group_add(&group->segments_done, 1);
	operation->segments_done++;
	operation->poisoned |= segment->poisoned;
	if (segment->number == group->segment_oldest)
		oldest_advance(group);
	operation_ready(operation);
}

/* ------------------------------------------------------------------------------------------------------ beginning */

static void up_received(struct group *group, struct transfer *transfer)
{
	struct segment *segment = transfer->owner;
	enum stage stage = (enum stage)(transfer->what >> 16);
	size_t index = transfer->what & 0xffff, from = segment->stages[stage].nodes[index];

	if (!came_nothing(group, segment, transfer, from, true) && !group_transfer_came_whole(group, transfer, from))
		return;
	segment->waits--;
	stage_add(group, segment, stage, index, transfer->data);
}

/* Inputs that come from other nodes: so many slots. */
static size_t stage_set(const struct group *group, struct segment *segment, enum stage stage)
{
	struct segment_stage *at = &segment->stages[stage];
	size_t others = 0;

	at->mine = at->node == group->self;
	at->missing = at->own = at->count;
	at->scratch = NULL;
	for (size_t i = 0; at->mine && i < at->count; i++) {
		if (at->nodes[i] == group->self)
			at->own = i;
		else
			others++;
	}
	return others;
}

/* The next segment of the oldest operation that is not wholly cut. */
static void segment_draw(struct group *group, struct segment *segment)
{
	struct operation *operation = STAILQ_FIRST(&group->segmented);
	size_t i = operation->next_segment++, each = operation->count / operation->segment_count;
	size_t longer = operation->count % operation->segment_count, leaf = own_leaf(group);
	size_t element = reduce_type_bytes(operation->type), offset = (each * i + (i < longer ? i : longer)) * element;
	struct schedule_segment plan;

	segment->number = group->segment_next;
	segment->operation = operation;
	segment->input = operation->send + offset;
	segment->result = operation->recv + offset;
	segment->count = each + (i < longer);
	segment->bytes = segment->count * element;
	segment->done = segment->has_result = segment->active = false;
	segment->poisoned = segment->passes_on = false;
	segment->waits = 0;
	segment->send_count = 0;
	segment->partial = NULL;
	schedule_next(group->schedule, segment->bytes, &plan);
	aggregators_of_segment(group, &plan, segment);
	memcpy(segment->leaf_nodes, plan.leaf_node, group->leaf_count * sizeof(*segment->leaf_nodes));
	for (size_t k = 0; k < hosts_in_leaf(group, leaf); k++)
		segment->host_nodes[k] = plan.host_node[group->leaf_hosts[group->leaf_begin[leaf] + k]];
	segment->stages[STAGE_HOST].node = plan.host_node[own_host(group)];
	segment->stages[STAGE_LEAF].node = segment->leaf_nodes[leaf];
	segment->stages[STAGE_ROOT].node = plan.root;
	segment->slot_count = 0;
	for (enum stage stage = STAGE_HOST; stage < STAGE_COUNT; stage++) {
		segment->stages[stage].slot_begin = segment->slot_count;
		segment->slot_count += stage_set(group, segment, stage);
		segment->stages[stage].slot_end = segment->slot_count;
	}
	if (operation->next_segment == operation->segment_count)
		STAILQ_REMOVE_HEAD(&group->segmented, segmented_link);
}

static void stage_receive(struct group *group, struct segment *segment, enum stage stage)
{
	static const enum aggregate_tag tags[STAGE_COUNT] = { AGGREGATE_TAG_UP_HOST, AGGREGATE_TAG_UP_LEAF,
							      AGGREGATE_TAG_UP_ROOT };
	struct segment_stage *at = &segment->stages[stage];
	size_t slot = at->slot_begin;

	for (size_t i = 0; at->mine && i < at->count; i++) {
		struct transfer *transfer = &segment->receives[slot];

		if (i == at->own)
			continue;
		segment->slots[slot] = group->pool.free[--group->pool.free_count];
		if (!at->scratch)
			at->scratch = segment->slots[slot];
		segment->waits++;
		transfer->what = (unsigned)stage << 16 | (unsigned)i;
		add_transfer(segment, queue_large(group, group->in, at->nodes[i]), transfer, segment->slots[slot],
			     tags[stage], up_received);
		slot++;
	}
}

/* To the aggregator that aggregates the leaf, or to that at the root, ahead of the data. */
static void head_send(struct group *group, struct segment *segment)
{
	struct aggregator_wire_head head;
	uint16_t node;

	if (!aggregators_head(group, segment, &head, &node))
		return;
	aggregator_wire_head(CODEC_TO(segment->head_bytes), &head);
	segment->head = (struct transfer){ .data = segment->head_bytes,
					   .bytes = AGGREGATOR_WIRE_HEAD_BYTES,
					   .tag = aggregate_tag(AGGREGATE_TAG_HEAD, 0),
					   .class = TRANSFER_SMALL,
					   .number = segment->number,
					   .done = transferred,
					   .owner = segment };
	segment->waits++;
	queue_add(queue_large(group, group->out, node), &segment->head);
}

static void segment_begin(struct group *group, struct segment *segment)
{
	const struct segment_stage *stages = segment->stages;
	bool partial = (stages[STAGE_HOST].mine || stages[STAGE_LEAF].mine) && !stages[STAGE_ROOT].mine;
	bool receives = !stages[STAGE_ROOT].mine;

	segment->active = true;
	group->progressed = true;
	segment->ups = !stages[STAGE_HOST].mine + (unsigned)partial;
	segment->waits += segment->ups + receives;
	head_send(group, segment);
	for (enum stage stage = STAGE_HOST; stage < STAGE_COUNT; stage++)
		stage_receive(group, segment, stage);
	if (receives && !receives_late(segment))
		down_receive(group, segment);
	if (stages[STAGE_HOST].mine)
		stage_add(group, segment, STAGE_HOST, stages[STAGE_HOST].own, segment->input);
	else
		add_transfer(segment, queue_large(group, group->out, stages[STAGE_HOST].node), &segment->up_input,
			     segment->input, AGGREGATE_TAG_UP_HOST, up_done);
}

/*
 * An operation does not begin here before its message has gone out, which waits while many small operations are under way
 * that others have not posted: what a connection holds of messages is of operations that are open at both its ends, then.
 */
static bool waits_for_message(const struct group *group, const struct operation *operation)
{
	const struct operation *first = STAILQ_FIRST(&group->small);

	return first && first->number <= operation->number;
}

void segment_activate(struct group *group)
{
	for (;;) {
		struct segment *segment = &group->segments[group->segment_next % GROUP_SEGMENTS];
		struct operation *operation = STAILQ_FIRST(&group->segmented);

		if (!group->segment_drawn) {
			if (!operation || group->segment_next - group->segment_oldest == GROUP_SEGMENTS)
				return;
			if (!operation->next_segment &&
			    (waits_for_message(group, operation) || !commit_begin(group, operation)))
				return;
			segment_draw(group, segment);
			group->segment_drawn = true;
		}
		if (segment->slot_count > group->pool.free_count)
			return;
		group->segment_drawn = false;
		group->segment_next++;
		segment_begin(group, segment);
	}
}

int segment_init(struct group *group)
{
	size_t hosts = hosts_in_leaf(group, own_leaf(group)), host = own_host(group);
	size_t members = (size_t)group->host_begin[host + 1] - group->host_begin[host];
	size_t inputs = members + hosts + group->leaf_count, least;

	group->fan = inputs;
	least = members - 1 + hosts + group->leaf_count - 1; /* a leaf's leader may be none of its host */
	for (size_t i = 0; i < GROUP_SEGMENTS; i++) {
		struct segment *segment = &group->segments[i];
		const void **area = sys_zalloc(inputs * sizeof(*area));

		segment->stages[STAGE_HOST].inputs = area;
		segment->leaf_nodes = sys_zalloc((group->leaf_count + hosts) * sizeof(*segment->leaf_nodes));
		segment->receives = sys_zalloc(2 * inputs * sizeof(*segment->receives));
		segment->slots = sys_zalloc(inputs * sizeof(*segment->slots));
		if (!area || !segment->leaf_nodes || !segment->receives || !segment->slots)
			return -ENOMEM;
		segment->host_nodes = segment->leaf_nodes + group->leaf_count;
		segment->stages[STAGE_HOST] = (struct segment_stage){
			.nodes = group->host_members + group->host_begin[host], .count = members, .inputs = area
		};
		segment->stages[STAGE_LEAF] = (struct segment_stage){ .nodes = segment->host_nodes,
								      .count = hosts,
								      .inputs = area + members };
		segment->stages[STAGE_ROOT] = (struct segment_stage){ .nodes = segment->leaf_nodes,
								      .count = group->leaf_count,
								      .inputs = area + members + hosts };
		segment->sends = segment->receives + inputs;
		segment->done = true;
	}
	if (group->count == 1)
		return 0;
	return pool_init(&group->pool, AGGREGATE_SEGMENT_BYTES_MAX, least, least * GROUP_SEGMENTS_OF_SLOTS);
}

void segment_fini(struct group *group)
{
	for (size_t i = 0; i < GROUP_SEGMENTS; i++) {
		struct segment *segment = &group->segments[i];

		sys_free(segment->stages[STAGE_HOST].inputs);
		sys_free(segment->leaf_nodes);
		sys_free(segment->receives);
		sys_free(segment->slots);
	}
	pool_fini(&group->pool);
}
