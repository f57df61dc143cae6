/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregators of a group that works: what their control connections say, what they have a part in, and what follows when
 * one is lost or told to end (docs/design/aggregation.md, Losing an aggregator). Losses are noted wherever they show, also
 * while a connection is polled, and carried out between polls: only then are connections closed.
 */
#include "aggregate/aggregators.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"

#include <stdio.h>

#define LOOKS 20 /* at control connections, in each time-out */

void aggregators_poll(struct group *group, uint64_t now_ns)
{
	struct group_aggregators *aggregators = group->aggregators;

	if (group->broken ||
	    clock_elapsed_ns(aggregators->looked_ns, now_ns) < params_replace_ns(group->engine->setup.params->timeout_ns) / LOOKS)
		return;
	aggregators->looked_ns = now_ns;
	for (size_t i = 0; i < aggregators->count; i++) {
		struct group_aggregator *aggregator = &aggregators->aggregators[i];

		if (!aggregator->client)
			continue;
		switch (control_client_step(aggregator->client, &aggregators->answer)) {
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			aggregators_suspect(group, aggregators_bit(i), aggregators->answer.sentence);
			break;
		case CONTROL_EVENT_DRAIN:
			aggregators->leaving |= aggregators_bit(i);
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
	segment->aggregators |= aggregators_bit(node - group->count);
}

static uint64_t previous_of(const struct group *group, uint16_t node)
{
	return node_is_aggregator(group, node) ? group->aggregators->aggregators[node - group->count].previous
					       : AGGREGATOR_WIRE_NONE;
}

void aggregators_of_segment(struct group *group, const struct schedule_segment *plan, struct segment *segment)
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
	bool root_is_aggregator = node_is_aggregator(group, segment->stages[STAGE_ROOT].node);

	if (!group->aggregators)
		return false;
	*ret = (struct aggregator_wire_head){ .number = segment->number,
					      .bytes = (uint32_t)segment->bytes,
					      .type = (uint8_t)segment->operation->type,
					      .operation = (uint8_t)segment->operation->operation,
					      .root = segment->stages[STAGE_ROOT].node,
					      .aggregators = segment->aggregators };
	if (segment->stages[STAGE_HOST].mine && node_is_aggregator(group, segment->stages[STAGE_LEAF].node)) {
		while (group->leaf_hosts[group->leaf_begin[leaf] + index] != host)
			index++;
		ret->previous = segment->leaf_previous;
		ret->stage = AGGREGATOR_STAGE_LEAF;
		ret->index = index;
		ret->leaf_inputs = (uint16_t)hosts_of(group, leaf);
		ret->root_inputs = segment->stages[STAGE_LEAF].node == segment->stages[STAGE_ROOT].node
					   ? (uint16_t)group->leaf_count
					   : 0;
		ret->own_index = leaf;
		*ret_node = segment->stages[STAGE_LEAF].node;
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
	*ret_node = segment->stages[STAGE_ROOT].node;
	return true;
}

/* ------------------------------------------------------------------------------------------------------------- losses */

void aggregators_suspect(struct group *group, uint32_t set, const char *why)
{
	struct group_aggregators *aggregators = group->aggregators;

	set &= aggregators->used & ~aggregators->suspected;
	if (!set)
		return;
	for (size_t i = 0; i < aggregators->count; i++)
		if (set & aggregators_bit(i))
			log_sentence(aggregators->aggregators[i].why, sizeof(aggregators->aggregators[i].why), "%s",
				     why);
	aggregators->suspected |= set;
	aggregators->ready = true;
	group->progressed = true; /* the next poll is soon */
}

void aggregators_exclude(struct group *group, uint32_t set, uint64_t number)
{
	struct group_aggregators *aggregators = group->aggregators;

	for (size_t i = 0; i < aggregators->count; i++)
		if (set & ~aggregators->excluded & aggregators_bit(i))
			aggregators->aggregators[i].excluded_at = number;
	aggregators->excluded |= set;
}

void aggregators_dismiss(struct group *group, uint64_t number)
{
	struct group_aggregators *aggregators = group->aggregators;
	uint32_t set = 0;

	for (size_t i = 0; i < aggregators->count; i++)
		if (aggregators->aggregators[i].excluded_at <= number)
			set |= aggregators->excluded & ~aggregators->suspected & aggregators_bit(i);
	aggregators->dismissed |= set;
	aggregators->suspected |= set;
	aggregators->ready |= set != 0;
}

void aggregators_name(const struct group *group, size_t index, char *text, size_t bytes)
{
	const struct cluster *cluster = group->engine->setup.cluster;
	uint32_t listed = group->aggregators->aggregators[index].listed;

	if (cluster && listed < cluster->aggregator_count)
		snprintf(text, bytes, "%s:%u", cluster->aggregators[listed].address, cluster->aggregators[listed].port);
	else
		snprintf(text, bytes, "number %zu", index);
}

void aggregators_log_slow(const struct group *group, uint32_t set, const char *how_known)
{
	char name[128];

	for (size_t i = 0; group->self == 0 && i < group->aggregators->count; i++) {
		if (!(set & aggregators_bit(i)))
			continue;
		aggregators_name(group, i, name, sizeof(name));
		log_info(LOG_INIT, "aggregator %s is not used: %sit is too slow for %zu hosts to gain by it", name,
			 how_known, group->host_count);
	}
}

static void log_failure(const struct group *group, size_t index)
{
	const struct group_aggregators *aggregators = group->aggregators;
	char name[128];

	aggregators_name(group, index, name, sizeof(name));
	/* Another member may be through with it sooner, and it ends then. */
	if ((aggregators->dismissed | aggregators->draining) & aggregators_bit(index))
		log_info(LOG_NET, "aggregation over %zu hosts does without aggregator %s from now on: it ends",
			 group->host_count, name);
	else
		log_warn("aggregation over %zu hosts goes on without aggregator %s: %s", group->host_count, name,
			 aggregators->aggregators[index].why);
}

static void lose(struct group *group, size_t index)
{
	struct group_aggregator *aggregator = &group->aggregators->aggregators[index];

	group->aggregators->lost |= aggregators_bit(index);
	queue_lose(queue_large(group, group->out, group->count + index));
	queue_lose(queue_large(group, group->in, group->count + index));
	control_client_close(aggregator->client);
	aggregator->client = NULL;
	group->progressed = true;
}

static void told(struct group *group, struct transfer *transfer);

/*
 * Those that stay hear of it: one may wait for another that is only silent, for a time of its own that is longer than
 * the members'.
 */
static void tell(struct group *group, size_t index)
{
	struct group_aggregators *aggregators = group->aggregators;
	struct group_aggregator *to = &aggregators->aggregators[index];
	uint32_t set = aggregators->lost & ~aggregators->dismissed; /* one that has done its part and goes is no loss */

	if (!(aggregators->used & ~aggregators->suspected & aggregators_bit(index)) || to->telling ||
	    !(set & ~to->told))
		return;
	to->telling = true;
	to->told = set;
	aggregator_wire_lost(CODEC_TO(to->message_bytes), &set);
	to->message = (struct transfer){ .data = to->message_bytes,
					 .bytes = AGGREGATOR_WIRE_LOST_BYTES,
					 .tag = aggregate_tag(AGGREGATE_TAG_HEAD, 0),
					 .class = TRANSFER_SMALL,
					 .done = told,
					 .owner = to };
	queue_add(queue_large(group, group->out, group->count + index), &to->message);
}

static void told(struct group *group, struct transfer *transfer)
{
	struct group_aggregator *to = transfer->owner;

	to->telling = false;
	tell(group, (size_t)(to - group->aggregators->aggregators));
}

void aggregators_carry_out(struct group *group)
{
	struct group_aggregators *aggregators = group->aggregators;
	uint32_t matters;

	if (!aggregators || !aggregators->ready)
		return;
	for (size_t i = 0; i < aggregators->count; i++)
		if (aggregators->suspected & ~aggregators->lost & aggregators_bit(i))
			lose(group, i);
	/* At the end of a job members close the group one after the other, and aggregators go with the first. */
	matters = group->under_way ? UINT32_MAX : aggregators->dismissed | aggregators->draining;
	for (size_t i = 0; i < aggregators->count; i++)
		if (aggregators->lost & ~aggregators->logged & matters & aggregators_bit(i))
			log_failure(group, i);
	aggregators->logged |= aggregators->lost & matters;
	aggregators->ready = (aggregators->lost & ~aggregators->logged) != 0;
	for (size_t i = 0; i < aggregators->count; i++)
		tell(group, i);
}
