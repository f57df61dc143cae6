/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments at an aggregator: from the first HEAD to the last result that went out.
 *
 * Every slot that a segment needs is given to it at once, and segments get theirs in the order of their numbers, which
 * the HEADs' `previous` makes known even when a later one is heard of first. So the oldest segment has what it needs at
 * every node, and no two nodes wait for each other.
 */
#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- slots */

static void *slot_get(struct aggregator_group *group)
{
	void *slot;

	if (group->slots_free)
		return group->slots[--group->slots_free];
	slot = sys_map_pages(AGGREGATOR_WIRE_SEGMENT_BYTES_MAX);
	if (slot)
		group->slots_made++;
	return slot;
}

static void slot_put(struct aggregator_group *group, void *slot)
{
	if (slot)
		group->slots[group->slots_free++] = slot;
}

static size_t slots_left(const struct aggregator_group *group)
{
	return group->slot_count - group->slots_made + group->slots_free;
}

/* Those that come from other nodes: all of a leaf, and at the root the other leaves'. */
static bool from_elsewhere(const struct aggregator_segment *segment, enum aggregator_stage stage, size_t index)
{
	return stage == AGGREGATOR_STAGE_LEAF || index != segment->head.own_index;
}

static size_t slots_of(const struct aggregator_segment *segment)
{
	size_t roots = segment->levels[AGGREGATOR_STAGE_ROOT].count;

	return segment->levels[AGGREGATOR_STAGE_LEAF].count + (roots ? roots - 1 : 0);
}

static void slots_put_back(struct aggregator_group *group, struct aggregator_segment *segment,
			   enum aggregator_stage stage, const void *but)
{
	struct aggregator_level *level = &segment->levels[stage];

	for (size_t i = 0; i < level->count; i++) {
		if (level->inputs[i].slot != but)
			slot_put(group, level->inputs[i].slot);
		level->inputs[i].slot = NULL;
	}
}

static int slots_take(struct aggregator_group *group, struct aggregator_segment *segment)
{
	for (enum aggregator_stage stage = 0; stage < AGGREGATOR_STAGE_COUNT; stage++) {
		struct aggregator_level *level = &segment->levels[stage];

		for (size_t i = 0; i < level->count; i++) {
			if (!from_elsewhere(segment, stage, i))
				continue;
			level->inputs[i].slot = slot_get(group);
			if (!level->inputs[i].slot)
				return -ENOMEM; /* the group is over: what it took goes with it */
		}
	}
	segment->has_slots = true;
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- segments */

static void segment_free(struct aggregator_group *group, struct aggregator_segment *segment)
{
	for (enum aggregator_stage stage = 0; stage < AGGREGATOR_STAGE_COUNT; stage++) {
		if (segment->levels[stage].inputs)
			slots_put_back(group, segment, stage, NULL);
		sys_free(segment->levels[stage].inputs);
		sys_free(segment->levels[stage].data);
	}
	while (segment->early) {
		struct aggregator_early *next = segment->early->next;

		sys_free(segment->early);
		segment->early = next;
	}
	slot_put(group, segment->sum);
	if (segment->share_bytes)
		aggregator_share_end(&group->user, segment->share_bytes);
	sys_free(segment);
}

void aggregator_segments_free(struct aggregator_group *group)
{
	while (group->segments_first) {
		struct aggregator_segment *next = group->segments_first->next;

		segment_free(group, group->segments_first);
		group->segments_first = next;
	}
	group->segment_count = 0;
}

static struct aggregator_segment *segment_find(struct aggregator_group *group, uint64_t number)
{
	struct aggregator_segment **link = &group->segments_first, *segment;

	while (*link && (*link)->head.number < number)
		link = &(*link)->next;
	segment = *link;
	if (segment && segment->head.number == number)
		return segment;
	if (group->segment_count >= AGGREGATOR_WIRE_WINDOW)
		return NULL;
	segment = sys_zalloc(sizeof(*segment));
	if (!segment)
		return NULL;
	segment->group = group;
	segment->head.number = number;
	segment->next = *link;
	*link = segment;
	group->segment_count++;
	return segment;
}

static int level_init(struct aggregator_level *level, size_t count)
{
	level->count = level->missing = count;
	if (!count)
		return 0;
	level->inputs = sys_zalloc(count * sizeof(*level->inputs));
	level->data = sys_zalloc(count * sizeof(*level->data));
	return level->inputs && level->data ? 0 : -ENOMEM;
}

/* Whatever says something about the segment must say the same. */
static bool heads_agree(const struct aggregator_wire_head *a, const struct aggregator_wire_head *b)
{
	return a->bytes == b->bytes && a->type == b->type && a->operation == b->operation &&
	       (!b->leaf_inputs ||
		(a->previous == b->previous && a->aggregators == b->aggregators && a->leaf_inputs == b->leaf_inputs &&
		 a->root_inputs == b->root_inputs && a->own_index == b->own_index && a->root == b->root));
}

static void input_receive(struct aggregator_segment *segment, enum aggregator_stage stage, size_t index)
{
	static const enum aggregate_tag tags[AGGREGATOR_STAGE_COUNT] = { AGGREGATE_TAG_UP_LEAF, AGGREGATE_TAG_UP_ROOT };
	struct aggregator_input *input = &segment->levels[stage].inputs[index];

	input->transfer = (struct aggregator_transfer){
		.segment = segment,
		.kind = AGGREGATOR_INPUT,
		.stage = stage,
		.index = (uint16_t)index,
		.node = input->node,
		.data = input->slot,
		.bytes = segment->head.bytes,
		.tag = aggregate_tag(tags[stage], segment->head.number),
	};
	aggregator_peer_add(&segment->group->peers[input->node], &input->transfer, false);
}

static int input_announce(struct aggregator_segment *segment, uint16_t node, const struct aggregator_wire_head *head)
{
	struct aggregator_level *level = &segment->levels[head->stage];

	if (!heads_agree(&segment->head, head) || head->index >= level->count ||
	    !from_elsewhere(segment, head->stage, head->index) || level->inputs[head->index].announced)
		return -EBADMSG;
	level->inputs[head->index].announced = true;
	level->inputs[head->index].node = node;
	level->announced++;
	if (segment->begun)
		input_receive(segment, head->stage, head->index);
	return 0;
}

static bool segment_miss(struct aggregator_group *group, struct aggregator_segment *segment);
static uint32_t own_bit(const struct aggregator_group *group);
static void has_result(struct aggregator_segment *segment);

/* The first HEAD of a member. */
static int segment_learn(struct aggregator_segment *segment, const struct aggregator_wire_head *head)
{
	int r;

	if (head->root_inputs && head->root != segment->group->self)
		return -EBADMSG;
	segment->head = *head;
	segment->root = head->root == segment->group->self;
	r = level_init(&segment->levels[AGGREGATOR_STAGE_LEAF], head->leaf_inputs);
	if (r == 0)
		r = level_init(&segment->levels[AGGREGATOR_STAGE_ROOT], head->root_inputs);
	if (r < 0)
		return r;
	/* More than the group may ever have would wait for ever. */
	if (slots_of(segment) > segment->group->slot_count || (segment->root && !head->root_inputs))
		return -EBADMSG;
	segment->known = true;
	segment_miss(segment->group, segment);
	while (segment->early && r == 0) {
		struct aggregator_early *early = segment->early;

		segment->early = early->next;
		r = input_announce(segment, early->node, &early->head);
		sys_free(early);
	}
	return r;
}

static int head_keep(struct aggregator_segment *segment, uint16_t node, const struct aggregator_wire_head *head)
{
	struct aggregator_early *early = sys_zalloc(sizeof(*early));

	if (!early)
		return -ENOMEM;
	*early = (struct aggregator_early){ .next = segment->early, .node = node, .head = *head };
	segment->early = early;
	return 0;
}

int aggregator_segment_head(struct aggregator_group *group, uint16_t node, const struct aggregator_wire_head *head)
{
	struct aggregator_segment *segment = segment_find(group, head->number);
	int r = 0;

	if (!segment)
		return group->segment_count >= AGGREGATOR_WIRE_WINDOW ? -EBADMSG : -ENOMEM;
	/* Only aggregators say less than all, and only members know all. */
	if ((node >= group->member_count) != (head->leaf_inputs == 0))
		return -EBADMSG;
	if (!segment->known && !head->leaf_inputs)
		return head_keep(segment, node, head);
	if (!segment->known)
		r = segment_learn(segment, head);
	return r < 0 ? r : input_announce(segment, node, head);
}

/* ------------------------------------------------------------------------------------------------- aggregators that are lost */

static uint32_t own_bit(const struct aggregator_group *group)
{
	return UINT32_C(1) << (group->self - group->member_count);
}

static bool has_announced(const struct aggregator_segment *segment, size_t node)
{
	const struct aggregator_level *level = &segment->levels[AGGREGATOR_STAGE_ROOT];

	for (size_t i = 0; i < level->count; i++)
		if (level->inputs[i].announced && level->inputs[i].node == node)
			return true;
	for (const struct aggregator_early *early = segment->early; early; early = early->next)
		if (early->node == node)
			return true;
	return false;
}

/* At the root every other aggregator of a segment has one input, the sum of its leaf. True: it waited for nothing else. */
static bool segment_miss(struct aggregator_group *group, struct aggregator_segment *segment)
{
	struct aggregator_level *level = &segment->levels[AGGREGATOR_STAGE_ROOT];

	for (size_t node = group->member_count; segment->root && node < group->node_count; node++) {
		uint32_t bit = UINT32_C(1) << (node - group->member_count);

		if (!group->peers[node].lost || !(segment->head.aggregators & bit & ~own_bit(group)) ||
		    segment->absent & bit || has_announced(segment, node))
			continue;
		segment->absent |= bit;
		segment->poisoned = true;
		if (level->missing && --level->missing == 0)
			return true;
	}
	return false;
}

void aggregator_segments_miss(struct aggregator_group *group)
{
	for (struct aggregator_segment *segment = group->segments_first; segment; segment = segment->next)
		if (segment->known && segment_miss(group, segment))
			has_result(segment);
}

/* ------------------------------------------------------------------------------------------------------------- begin */

/* As long as the next of the chain is known and there is room for it. */
static int give_slots(struct aggregator_group *group)
{
	struct aggregator_segment *segment = group->segments_first;

	while (segment) {
		int r;

		if (!segment->known || segment->has_slots || segment->head.previous != group->chain) {
			segment = segment->next;
			continue;
		}
		if (slots_of(segment) > slots_left(group))
			return 0;
		r = slots_take(group, segment);
		if (r < 0)
			return r;
		group->chain = segment->head.number;
		group->progressed = true;
		segment = segment->next;
	}
	return 0;
}

static void segment_begin(struct aggregator_segment *segment, uint64_t now_ns)
{
	segment->begun = true;
	segment->begun_ns = now_ns;
	segment->group->progressed = true;
	for (enum aggregator_stage stage = 0; stage < AGGREGATOR_STAGE_COUNT; stage++)
		for (size_t i = 0; i < segment->levels[stage].count; i++)
			if (segment->levels[stage].inputs[i].announced)
				input_receive(segment, stage, i);
}

static void look_for_stalled(struct aggregator_group *group, struct aggregator_segment *segment, uint64_t now_ns)
{
	if (!segment->share_bytes || clock_elapsed_ns(segment->begun_ns, now_ns) < AGGREGATOR_SHARE_STALL_NS)
		return;
	aggregator_share_end(&group->user, segment->share_bytes);
	segment->share_bytes = 0;
}

int aggregator_segments_begin(struct aggregator_group *group, uint64_t now_ns)
{
	bool waits = false;
	int r = give_slots(group);

	for (struct aggregator_segment *segment = group->segments_first; r == 0 && segment; segment = segment->next) {
		struct aggregator_level *leaf = &segment->levels[AGGREGATOR_STAGE_LEAF];
		uint64_t bytes = (uint64_t)leaf->count * segment->head.bytes;

		look_for_stalled(group, segment, now_ns);
		/* All its leaf's hosts have it: what is asked for now comes. */
		if (waits || segment->begun || !segment->has_slots || leaf->announced < leaf->count)
			continue;
		if (!aggregator_share_begin(&group->user, bytes)) {
			waits = true; /* those behind it may have stalled, too, and have what it waits for */
			continue;
		}
		segment->share_bytes = bytes;
		segment_begin(segment, now_ns);
	}
	if (!waits)
		aggregator_share_rest(&group->user);
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- sums */

/* More inputs than the kernels take go in parts, cut as members cut them (combine.c): the same roundings, the same bits. */
static void *level_sum(const struct aggregator_group *group, const struct aggregator_segment *segment,
		       struct aggregator_level *level)
{
	const struct aggregator_wire_head *head = &segment->head;
	reduce_function *reduce = reduce_at(group->aggregator->level, (enum reduce_type)head->type,
					    (enum reduce_operation)head->operation);
	size_t count = head->bytes / reduce_type_bytes((enum reduce_type)head->type), done;
	void *to = (void *)(uintptr_t)level->data[0];
	const void *some[REDUCE_INPUTS_MAX];

	if (level->count == 1)
		return to;
	done = level->count < REDUCE_INPUTS_MAX ? level->count : REDUCE_INPUTS_MAX;
	reduce(to, (unsigned)done, level->data, count);
	while (done < level->count) {
		size_t more = level->count - done < REDUCE_INPUTS_MAX - 1 ? level->count - done : REDUCE_INPUTS_MAX - 1;

		some[0] = to;
		memcpy(some + 1, level->data + done, more * sizeof(*some));
		done += more;
		reduce(to, (unsigned)more + 1, some, count);
	}
	return to;
}

static void send_down(struct aggregator_segment *segment, struct aggregator_input *input)
{
	input->down = (struct aggregator_transfer){ .segment = segment,
						    .kind = AGGREGATOR_RESULT_OUT,
						    .node = input->node,
						    .data = segment->poisoned ? segment->head_bytes : segment->sum,
						    .bytes = segment->poisoned ? 0 : segment->head.bytes,
						    .tag = aggregate_tag(AGGREGATE_TAG_DOWN, segment->head.number) };
	aggregator_peer_add(&segment->group->peers[input->node], &input->down, true);
}

static void has_result(struct aggregator_segment *segment)
{
	segment->has_result = true;
	for (enum aggregator_stage stage = 0; stage < AGGREGATOR_STAGE_COUNT; stage++)
		for (size_t i = 0; i < segment->levels[stage].count; i++)
			if (segment->levels[stage].inputs[i].announced)
				send_down(segment, &segment->levels[stage].inputs[i]);
}

/* Up to the root, and its result comes into the same slot afterwards. */
static void partial_up(struct aggregator_group *group, struct aggregator_segment *segment)
{
	struct aggregator_peer *peer = &group->peers[segment->head.root];
	struct aggregator_wire_head head = { .number = segment->head.number,
					     .previous = AGGREGATOR_WIRE_NONE,
					     .bytes = segment->head.bytes,
					     .type = segment->head.type,
					     .operation = segment->head.operation,
					     .stage = AGGREGATOR_STAGE_ROOT,
					     .index = segment->head.own_index,
					     .root = segment->head.root };

	if (segment->head.root >= group->member_count) {
		aggregator_wire_head(CODEC_TO(segment->head_bytes), &head);
		segment->head_out = (struct aggregator_transfer){ .segment = segment,
								  .kind = AGGREGATOR_HEAD_OUT,
								  .data = segment->head_bytes,
								  .bytes = sizeof(segment->head_bytes),
								  .tag = aggregate_tag(AGGREGATE_TAG_HEAD, 0) };
		aggregator_peer_add(peer, &segment->head_out, true);
	}
	segment->partial_out =
		(struct aggregator_transfer){ .segment = segment,
					      .kind = AGGREGATOR_PARTIAL_OUT,
					      .data = segment->sum,
					      .bytes = segment->head.bytes,
					      .tag = aggregate_tag(AGGREGATE_TAG_UP_ROOT, segment->head.number) };
	aggregator_peer_add(peer, &segment->partial_out, true);
}

static void result_receive(struct aggregator_group *group, struct aggregator_segment *segment)
{
	segment->result_in =
		(struct aggregator_transfer){ .segment = segment,
					      .kind = AGGREGATOR_RESULT_IN,
					      .data = segment->sum,
					      .bytes = segment->head.bytes,
					      .tag = aggregate_tag(AGGREGATE_TAG_DOWN, segment->head.number) };
	aggregator_peer_add(&group->peers[segment->head.root], &segment->result_in, false);
}

static void input_add(struct aggregator_group *group, struct aggregator_segment *segment, enum aggregator_stage stage,
		      size_t index, const void *data)
{
	struct aggregator_level *level = &segment->levels[stage];

	level->data[index] = data;
	if (--level->missing)
		return;
	if (stage == AGGREGATOR_STAGE_ROOT && segment->poisoned) { /* slots go back with the segment */
		has_result(segment);
		return;
	}
	segment->sum = level_sum(group, segment, level);
	slots_put_back(group, segment, stage, segment->sum);
	if (stage == AGGREGATOR_STAGE_LEAF && segment->share_bytes) {
		aggregator_share_end(&group->user, segment->share_bytes);
		segment->share_bytes = 0;
	}
	if (stage == AGGREGATOR_STAGE_ROOT) {
		has_result(segment);
	} else if (segment->root) {
		void *sum = segment->sum;

		/* The own leaf's sum is an input of the root like the others, with a slot that goes back like theirs. */
		segment->sum = NULL;
		segment->levels[AGGREGATOR_STAGE_ROOT].inputs[segment->head.own_index].slot = sum;
		input_add(group, segment, AGGREGATOR_STAGE_ROOT, segment->head.own_index, sum);
	} else {
		partial_up(group, segment);
	}
}

static void look_whether_through(struct aggregator_group *group, struct aggregator_segment *segment)
{
	struct aggregator_segment **link = &group->segments_first;

	if (!segment->has_result || segment->open)
		return;
	while (*link != segment)
		link = &(*link)->next;
	*link = segment->next;
	group->segment_count--;
	atomic_fetch_add(&group->segments, 1);
	segment_free(group, segment);
}

/* Of a lost aggregator; or a root that is not lost says that there is no result. */
static bool came_nothing(const struct aggregator_group *group, struct aggregator_transfer *transfer)
{
	struct aggregator_segment *segment = transfer->segment;
	uint16_t from = transfer->kind == AGGREGATOR_INPUT ? transfer->node : segment->head.root;

	if (transfer->kind == AGGREGATOR_RESULT_IN ? !(segment->head.aggregators & ~own_bit(group))
						   : !group->peers[from].lost)
		return false;
	segment->poisoned = true;
	return true;
}

int aggregator_segment_done(struct aggregator_group *group, struct aggregator_transfer *transfer, size_t bytes)
{
	struct aggregator_segment *segment = transfer->segment;

	if (bytes != transfer->bytes && !(bytes == 0 && came_nothing(group, transfer)))
		return -EREMOTEIO;
	switch (transfer->kind) {
	case AGGREGATOR_INPUT:
		input_add(group, segment, transfer->stage, transfer->index, transfer->data);
		break;
	case AGGREGATOR_PARTIAL_OUT:
		result_receive(group, segment);
		break;
	case AGGREGATOR_RESULT_IN:
		has_result(segment);
		break;
	case AGGREGATOR_HEAD_OUT:
	case AGGREGATOR_RESULT_OUT:
		break;
	}
	look_whether_through(group, segment);
	return 0;
}
