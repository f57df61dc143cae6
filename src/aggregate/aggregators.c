/* The aggregators of a group that works: what their control connections say, and what they have a part in. */
#include "aggregate/aggregators.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/sys.h"

#define LOOKS 20 /* at control connections, in each time-out */

void aggregators_turn(struct group *group, uint64_t now_ns)
{
	struct group_aggregators *aggregators = group->aggregators;

	if (group->broken ||
	    clock_elapsed_ns(aggregators->looked_ns, now_ns) < params_replace_ns(group->engine->setup.params) / LOOKS)
		return;
	aggregators->looked_ns = now_ns;
	for (size_t i = 0; i < aggregators->count; i++) {
		struct group_aggregator *aggregator = &aggregators->aggregators[i];

		if (!aggregator->client)
			continue;
		switch (control_client_step(aggregator->client, &aggregators->answer)) {
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			aggregators_suspect(group, i, aggregators->answer.sentence);
			break;
		case CONTROL_EVENT_DRAIN:
			aggregator->leaves = true;
			break;
		default:
			break;
		}
	}
	aggregators_carry_out(group);
}

void aggregators_hang_up(struct group *group)
{
	for (size_t i = 0; group->aggregators && i < group->aggregators->count; i++) {
		control_client_close(group->aggregators->aggregators[i].client);
		group->aggregators->aggregators[i].client = NULL;
	}
}

void aggregators_close(struct group *group)
{
	aggregators_hang_up(group);
	sys_free(group->aggregators);
	group->aggregators = NULL;
}

/* Which aggregators have a part in a segment: the root, and the leaders of the leaves. */
static void note(struct group *group, uint16_t node, struct segment *segment)
{
	if (node == SCHEDULE_NONE || !node_is_aggregator(group, node))
		return;
	group->aggregators->aggregators[node - group->count].previous = segment->number;
	segment->aggregators |= UINT32_C(1) << (node - group->count);
}

static uint64_t previous_of(const struct group *group, uint16_t node)
{
	return node_is_aggregator(group, node) ? group->aggregators->aggregators[node - group->count].previous
					       : AGGREGATOR_WIRE_NONE;
}

void aggregators_note_segment(struct group *group, const struct schedule_segment *plan, struct segment *segment)
{
	uint16_t leaf_node;

	segment->aggregators = 0;
	if (!group->aggregators)
		return;
	leaf_node = plan->leaf_node[group->members[group->self].leaf];
	segment->root_leaf = plan->root_leaf;
	segment->leaf_previous = previous_of(group, leaf_node);
	segment->root_previous = previous_of(group, plan->root);
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++)
		note(group, plan->leaf_node[leaf], segment);
	note(group, plan->root, segment);
}

static size_t hosts_of(const struct group *group, size_t leaf)
{
	return (size_t)group->leaf_begin[leaf + 1] - group->leaf_begin[leaf];
}

bool aggregators_head(const struct group *group, const struct segment *segment, struct aggregator_wire_head *ret,
		      uint16_t *ret_node)
{
	uint16_t leaf = group->members[group->self].leaf, host = group->members[group->self].host, index = 0;
	bool root_is_aggregator = node_is_aggregator(group, segment->root_node);

	if (!group->aggregators)
		return false;
	*ret = (struct aggregator_wire_head){ .number = segment->number,
					      .bytes = (uint32_t)segment->bytes,
					      .type = (uint8_t)segment->operation->type,
					      .operation = (uint8_t)segment->operation->operation,
					      .root = segment->root_node,
					      .aggregators = segment->aggregators };
	if (segment->stages[STAGE_HOST].mine && node_is_aggregator(group, segment->leaf_node)) {
		while (group->leaf_hosts[group->leaf_begin[leaf] + index] != host)
			index++;
		ret->previous = segment->leaf_previous;
		ret->stage = AGGREGATOR_STAGE_LEAF;
		ret->index = index;
		ret->leaf_inputs = (uint16_t)hosts_of(group, leaf);
		ret->root_inputs = segment->leaf_node == segment->root_node ? (uint16_t)group->leaf_count : 0;
		ret->own_index = leaf;
		*ret_node = segment->leaf_node;
		return true;
	}
	if (!segment->stages[STAGE_LEAF].mine || !root_is_aggregator)
		return false;
	ret->previous = segment->root_previous;
	ret->stage = AGGREGATOR_STAGE_ROOT;
	ret->index = leaf;
	ret->leaf_inputs = (uint16_t)hosts_of(group, segment->root_leaf);
	ret->root_inputs = (uint16_t)group->leaf_count;
	ret->own_index = segment->root_leaf;
	*ret_node = segment->root_node;
	return true;
}
