/*
 * Segments at a server: from the first HEAD to the last result that went out.
 *
 * Every slot that a segment needs is given to it at once, and segments get theirs in the order of their numbers, which
 * the HEADs' `previous` makes known even when a later one is heard of first. So the oldest segment has what it needs at
 * every node, and no two nodes wait for each other.
 */
#include "aggregate/aggregator/server_internal.h"
#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- slots */

static void *slot_get(struct server_group *group)
{
	void *slot;

	if (group->slots_free)
		return group->slots[--group->slots_free];
	slot = sys_map_pages(SERVER_WIRE_SEGMENT_BYTES_MAX);
	if (slot)
		group->slots_made++;
	return slot;
}

static void slot_put(struct server_group *group, void *slot)
{
	if (slot)
		group->slots[group->slots_free++] = slot;
}

static size_t slots_left(const struct server_group *group)
{
	return group->slot_count - group->slots_made + group->slots_free;
}

/* Those that come from other nodes: all of a leaf, and at the root the other leaves'. */
static bool from_elsewhere(const struct server_segment *segment, enum server_stage stage, size_t index)
{
	return stage == SERVER_STAGE_LEAF || index != segment->head.own_index;
}

static size_t slots_of(const struct server_segment *segment)
{
	size_t roots = segment->levels[SERVER_STAGE_ROOT].count;

	return segment->levels[SERVER_STAGE_LEAF].count + (roots ? roots - 1 : 0);
}

static void slots_put_back(struct server_group *group, struct server_segment *segment, enum server_stage stage,
			   const void *but)
{
	struct server_level *level = &segment->levels[stage];

	for (size_t i = 0; i < level->count; i++) {
		if (level->inputs[i].slot != but)
			slot_put(group, level->inputs[i].slot);
		level->inputs[i].slot = NULL;
	}
}

static int slots_take(struct server_group *group, struct server_segment *segment)
{
	for (enum server_stage stage = 0; stage < SERVER_STAGE_COUNT; stage++) {
		struct server_level *level = &segment->levels[stage];

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

static void segment_free(struct server_group *group, struct server_segment *segment)
{
	for (enum server_stage stage = 0; stage < SERVER_STAGE_COUNT; stage++) {
		if (segment->levels[stage].inputs)
			slots_put_back(group, segment, stage, NULL);
		sys_free(segment->levels[stage].inputs);
		sys_free(segment->levels[stage].data);
	}
	while (segment->early) {
		struct server_early *next = segment->early->next;

		sys_free(segment->early);
		segment->early = next;
	}
	slot_put(group, segment->sum);
	if (segment->share_bytes)
		server_share_end(&group->user, segment->share_bytes);
	sys_free(segment);
}

void server_segments_free(struct server_group *group)
{
	while (group->segments_first) {
		struct server_segment *next = group->segments_first->next;

		segment_free(group, group->segments_first);
		group->segments_first = next;
	}
	group->segment_count = 0;
}

static struct server_segment *segment_find(struct server_group *group, uint64_t number)
{
	struct server_segment **link = &group->segments_first, *segment;

	while (*link && (*link)->head.number < number)
		link = &(*link)->next;
	segment = *link;
	if (segment && segment->head.number == number)
		return segment;
	if (group->segment_count >= SERVER_WIRE_WINDOW)
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

static int level_init(struct server_level *level, size_t count)
{
	level->count = level->missing = count;
	if (!count)
		return 0;
	level->inputs = sys_zalloc(count * sizeof(*level->inputs));
	level->data = sys_zalloc(count * sizeof(*level->data));
	return level->inputs && level->data ? 0 : -ENOMEM;
}

/* Whatever says something about the segment must say the same. */
static bool heads_agree(const struct server_wire_head *a, const struct server_wire_head *b)
{
	return a->bytes == b->bytes && a->type == b->type && a->operation == b->operation &&
	       (!b->leaf_inputs ||
		(a->previous == b->previous && a->servers == b->servers && a->leaf_inputs == b->leaf_inputs &&
		 a->root_inputs == b->root_inputs && a->own_index == b->own_index && a->root == b->root));
}

static void input_receive(struct server_segment *segment, enum server_stage stage, size_t index)
{
	static const enum server_tag tags[SERVER_STAGE_COUNT] = { SERVER_TAG_UP_LEAF, SERVER_TAG_UP_ROOT };
	struct server_input *input = &segment->levels[stage].inputs[index];

	input->transfer = (struct server_transfer){
		.segment = segment,
		.kind = SERVER_INPUT,
		.stage = stage,
		.index = (uint16_t)index,
		.node = input->node,
		.data = input->slot,
		.bytes = segment->head.bytes,
		.tag = server_tag(tags[stage], segment->head.number),
	};
	server_peer_add(&segment->group->peers[input->node], &input->transfer, false);
}

static int input_announce(struct server_segment *segment, uint16_t node, const struct server_wire_head *head)
{
	struct server_level *level = &segment->levels[head->stage];

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

static bool segment_miss(struct server_group *group, struct server_segment *segment);
static uint32_t own_bit(const struct server_group *group);
static void has_result(struct server_segment *segment);

/* The first HEAD of a member. */
static int segment_learn(struct server_segment *segment, const struct server_wire_head *head)
{
	int r;

	if (head->root_inputs && head->root != segment->group->self)
		return -EBADMSG;
	segment->head = *head;
	segment->root = head->root == segment->group->self;
	r = level_init(&segment->levels[SERVER_STAGE_LEAF], head->leaf_inputs);
	if (r == 0)
		r = level_init(&segment->levels[SERVER_STAGE_ROOT], head->root_inputs);
	if (r < 0)
		return r;
	/* More than the group may ever have would wait for ever. */
	if (slots_of(segment) > segment->group->slot_count || (segment->root && !head->root_inputs))
		return -EBADMSG;
	segment->known = true;
	segment_miss(segment->group, segment);
	while (segment->early && r == 0) {
		struct server_early *early = segment->early;

		segment->early = early->next;
		r = input_announce(segment, early->node, &early->head);
		sys_free(early);
	}
	return r;
}

static int head_keep(struct server_segment *segment, uint16_t node, const struct server_wire_head *head)
{
	struct server_early *early = sys_zalloc(sizeof(*early));

	if (!early)
		return -ENOMEM;
	*early = (struct server_early){ .next = segment->early, .node = node, .head = *head };
	segment->early = early;
	return 0;
}

int server_segment_head(struct server_group *group, uint16_t node, const struct server_wire_head *head)
{
	struct server_segment *segment = segment_find(group, head->number);
	int r = 0;

	if (!segment)
		return group->segment_count >= SERVER_WIRE_WINDOW ? -EBADMSG : -ENOMEM;
	/* Only servers say less than all, and only members know all. */
	if ((node >= group->member_count) != (head->leaf_inputs == 0))
		return -EBADMSG;
	if (!segment->known && !head->leaf_inputs)
		return head_keep(segment, node, head);
	if (!segment->known)
		r = segment_learn(segment, head);
	return r < 0 ? r : input_announce(segment, node, head);
}

/* ------------------------------------------------------------------------------------------------- servers that are lost */

static uint32_t own_bit(const struct server_group *group)
{
	return UINT32_C(1) << (group->self - group->member_count);
}

static bool has_announced(const struct server_segment *segment, size_t node)
{
	const struct server_level *level = &segment->levels[SERVER_STAGE_ROOT];

	for (size_t i = 0; i < level->count; i++)
		if (level->inputs[i].announced && level->inputs[i].node == node)
			return true;
	for (const struct server_early *early = segment->early; early; early = early->next)
		if (early->node == node)
			return true;
	return false;
}

/* At the root every other server of a segment has one input, the sum of its leaf. True: it waited for nothing else. */
static bool segment_miss(struct server_group *group, struct server_segment *segment)
{
	struct server_level *level = &segment->levels[SERVER_STAGE_ROOT];

	for (size_t node = group->member_count; segment->root && node < group->node_count; node++) {
		uint32_t bit = UINT32_C(1) << (node - group->member_count);

		if (!group->peers[node].lost || !(segment->head.servers & bit & ~own_bit(group)) ||
		    segment->absent & bit || has_announced(segment, node))
			continue;
		segment->absent |= bit;
		segment->poisoned = true;
		if (level->missing && --level->missing == 0)
			return true;
	}
	return false;
}

void server_segments_miss(struct server_group *group)
{
	for (struct server_segment *segment = group->segments_first; segment; segment = segment->next)
		if (segment->known && segment_miss(group, segment))
			has_result(segment);
}

/* ------------------------------------------------------------------------------------------------------------- begin */

/* As long as the next of the chain is known and there is room for it. */
static int give_slots(struct server_group *group)
{
	struct server_segment *segment = group->segments_first;

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

static void segment_begin(struct server_segment *segment, uint64_t now_ns)
{
	segment->begun = true;
	segment->begun_ns = now_ns;
	segment->group->progressed = true;
	for (enum server_stage stage = 0; stage < SERVER_STAGE_COUNT; stage++)
		for (size_t i = 0; i < segment->levels[stage].count; i++)
			if (segment->levels[stage].inputs[i].announced)
				input_receive(segment, stage, i);
}

static void look_for_stalled(struct server_group *group, struct server_segment *segment, uint64_t now_ns)
{
	if (!segment->share_bytes || clock_elapsed_ns(segment->begun_ns, now_ns) < SERVER_SHARE_STALL_NS)
		return;
	server_share_end(&group->user, segment->share_bytes);
	segment->share_bytes = 0;
}

int server_segments_begin(struct server_group *group, uint64_t now_ns)
{
	bool waits = false;
	int r = give_slots(group);

	for (struct server_segment *segment = group->segments_first; r == 0 && segment; segment = segment->next) {
		struct server_level *leaf = &segment->levels[SERVER_STAGE_LEAF];
		uint64_t bytes = (uint64_t)leaf->count * segment->head.bytes;

		look_for_stalled(group, segment, now_ns);
		/* All its leaf's hosts have it: what is asked for now comes. */
		if (segment->begun || !segment->has_slots || leaf->announced < leaf->count)
			continue;
		if (!server_share_begin(&group->user, bytes)) {
			waits = true;
			break;
		}
		segment->share_bytes = bytes;
		segment_begin(segment, now_ns);
	}
	if (!waits)
		server_share_rest(&group->user);
	return r;
}

/* -------------------------------------------------------------------------------------------------------------- sums */

/* More inputs than the kernels take go in parts, cut as members cut them (combine.c): the same roundings, the same bits. */
static void *level_sum(const struct server_group *group, const struct server_segment *segment,
		       struct server_level *level)
{
	const struct server_wire_head *head = &segment->head;
	reduce_function *reduce = reduce_at(group->server->level, (enum reduce_type)head->type,
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

static void send_down(struct server_segment *segment, struct server_input *input)
{
	input->down = (struct server_transfer){ .segment = segment,
						.kind = SERVER_RESULT_OUT,
						.node = input->node,
						.data = segment->poisoned ? segment->head_bytes : segment->sum,
						.bytes = segment->poisoned ? 0 : segment->head.bytes,
						.tag = server_tag(SERVER_TAG_DOWN, segment->head.number) };
	server_peer_add(&segment->group->peers[input->node], &input->down, true);
}

static void has_result(struct server_segment *segment)
{
	segment->has_result = true;
	for (enum server_stage stage = 0; stage < SERVER_STAGE_COUNT; stage++)
		for (size_t i = 0; i < segment->levels[stage].count; i++)
			if (segment->levels[stage].inputs[i].announced)
				send_down(segment, &segment->levels[stage].inputs[i]);
}

/* Up to the root, and its result comes into the same slot afterwards. */
static void partial_up(struct server_group *group, struct server_segment *segment)
{
	struct server_peer *peer = &group->peers[segment->head.root];
	struct server_wire_head head = { .number = segment->head.number,
					 .previous = SERVER_WIRE_NONE,
					 .bytes = segment->head.bytes,
					 .type = segment->head.type,
					 .operation = segment->head.operation,
					 .stage = SERVER_STAGE_ROOT,
					 .index = segment->head.own_index,
					 .root = segment->head.root };

	if (segment->head.root >= group->member_count) {
		server_wire_put_head(&head, segment->head_bytes);
		segment->head_out = (struct server_transfer){ .segment = segment,
							      .kind = SERVER_HEAD_OUT,
							      .data = segment->head_bytes,
							      .bytes = sizeof(segment->head_bytes),
							      .tag = server_tag(SERVER_TAG_HEAD, 0) };
		server_peer_add(peer, &segment->head_out, true);
	}
	segment->partial_out = (struct server_transfer){ .segment = segment,
							 .kind = SERVER_PARTIAL_OUT,
							 .data = segment->sum,
							 .bytes = segment->head.bytes,
							 .tag = server_tag(SERVER_TAG_UP_ROOT, segment->head.number) };
	server_peer_add(peer, &segment->partial_out, true);
}

static void result_receive(struct server_group *group, struct server_segment *segment)
{
	segment->result_in = (struct server_transfer){ .segment = segment,
						       .kind = SERVER_RESULT_IN,
						       .data = segment->sum,
						       .bytes = segment->head.bytes,
						       .tag = server_tag(SERVER_TAG_DOWN, segment->head.number) };
	server_peer_add(&group->peers[segment->head.root], &segment->result_in, false);
}

static void input_add(struct server_group *group, struct server_segment *segment, enum server_stage stage, size_t index,
		      const void *data)
{
	struct server_level *level = &segment->levels[stage];

	level->data[index] = data;
	if (--level->missing)
		return;
	if (stage == SERVER_STAGE_ROOT && segment->poisoned) { /* slots go back with the segment */
		has_result(segment);
		return;
	}
	segment->sum = level_sum(group, segment, level);
	slots_put_back(group, segment, stage, segment->sum);
	if (stage == SERVER_STAGE_LEAF && segment->share_bytes) {
		server_share_end(&group->user, segment->share_bytes);
		segment->share_bytes = 0;
	}
	if (stage == SERVER_STAGE_ROOT) {
		has_result(segment);
	} else if (segment->root) {
		void *sum = segment->sum;

		/* The own leaf's sum is an input of the root like the others, with a slot that goes back like theirs. */
		segment->sum = NULL;
		segment->levels[SERVER_STAGE_ROOT].inputs[segment->head.own_index].slot = sum;
		input_add(group, segment, SERVER_STAGE_ROOT, segment->head.own_index, sum);
	} else {
		partial_up(group, segment);
	}
}

static void look_whether_through(struct server_group *group, struct server_segment *segment)
{
	struct server_segment **link = &group->segments_first;

	if (!segment->has_result || segment->open)
		return;
	while (*link != segment)
		link = &(*link)->next;
	*link = segment->next;
	group->segment_count--;
	atomic_fetch_add(&group->segments, 1);
	segment_free(group, segment);
}

/* Of a lost server; or a root that is not lost says that there is no result. */
static bool came_nothing(const struct server_group *group, struct server_transfer *transfer)
{
	struct server_segment *segment = transfer->segment;
	uint16_t from = transfer->kind == SERVER_INPUT ? transfer->node : segment->head.root;

	if (transfer->kind == SERVER_RESULT_IN ? !(segment->head.servers & ~own_bit(group)) : !group->peers[from].lost)
		return false;
	segment->poisoned = true;
	return true;
}

int server_segment_done(struct server_group *group, struct server_transfer *transfer, size_t bytes)
{
	struct server_segment *segment = transfer->segment;

	if (bytes != transfer->bytes && !(bytes == 0 && came_nothing(group, transfer)))
		return -EREMOTEIO;
	switch (transfer->kind) {
	case SERVER_INPUT:
		input_add(group, segment, transfer->stage, transfer->index, transfer->data);
		break;
	case SERVER_PARTIAL_OUT:
		result_receive(group, segment);
		break;
	case SERVER_RESULT_IN:
		has_result(segment);
		break;
	case SERVER_HEAD_OUT:
	case SERVER_RESULT_OUT:
		break;
	}
	look_whether_through(group, segment);
	return 0;
}
