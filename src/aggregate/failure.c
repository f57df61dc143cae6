/*
 * An aggregator that is lost, or is told to end (docs/design/aggregation.md, Losing an aggregator). Losses are noted wherever they show, also
 * in the midst of a connection's turn, and carried out between turns: only then are connections closed.
 */
#include "aggregate/aggregators.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

bool aggregators_any(const struct group *group)
{
	for (size_t i = 0; group->aggregators && i < group->aggregators->count; i++)
		if (group->aggregators->aggregators[i].used && !group->aggregators->aggregators[i].excluded)
			return true;
	return false;
}

uint32_t aggregators_used(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->aggregators->count; i++)
		set |= (uint32_t)group->aggregators->aggregators[i].used << i;
	return set;
}

uint32_t aggregators_lost(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->aggregators->count; i++)
		set |= (uint32_t)(group->aggregators->aggregators[i].suspected &&
				  !group->aggregators->aggregators[i].dismissed)
		       << i;
	return set;
}

uint32_t aggregators_leaving(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->aggregators->count; i++)
		set |= (uint32_t)group->aggregators->aggregators[i].leaves << i;
	return set;
}

void aggregators_suspect(struct group *group, size_t index, const char *why)
{
	struct group_aggregator *aggregator = &group->aggregators->aggregators[index];

	if (aggregator->suspected || !aggregator->used)
		return;
	aggregator->suspected = true;
	group->aggregators->ready = true;
	group->progressed = true; /* the next turn is soon */
	log_sentence(aggregator->why, sizeof(aggregator->why), "%s", why);
}

void aggregators_suspect_all(struct group *group, uint32_t set, const char *why)
{
	for (size_t i = 0; i < group->aggregators->count; i++)
		if (set & UINT32_C(1) << i)
			aggregators_suspect(group, i, why);
}

void aggregators_let_go(struct group *group, uint32_t set)
{
	for (size_t i = 0; i < group->aggregators->count; i++)
		group->aggregators->aggregators[i].going |= (set & UINT32_C(1) << i) != 0;
}

void aggregators_exclude(struct group *group, uint32_t set, uint64_t number)
{
	for (size_t i = 0; i < group->aggregators->count; i++) {
		struct group_aggregator *aggregator = &group->aggregators->aggregators[i];

		if (!(set & UINT32_C(1) << i) || aggregator->excluded)
			continue;
		aggregator->excluded = true;
		aggregator->excluded_at = number;
	}
}

void aggregators_dismiss(struct group *group, uint64_t number)
{
	for (size_t i = 0; i < group->aggregators->count; i++) {
		struct group_aggregator *aggregator = &group->aggregators->aggregators[i];

		if (!aggregator->excluded || aggregator->excluded_at > number || aggregator->suspected)
			continue;
		aggregator->suspected = aggregator->dismissed = true;
		group->aggregators->ready = true;
	}
}

void aggregators_name(const struct group *group, const struct group_aggregator *aggregator, char *text, size_t room)
{
	const struct cluster *cluster = group->engine->setup.cluster;

	if (cluster && aggregator->listed < cluster->aggregator_count)
		snprintf(text, room, "%s:%u", cluster->aggregators[aggregator->listed].address,
			 cluster->aggregators[aggregator->listed].port);
	else
		snprintf(text, room, "number %zu", (size_t)(aggregator - group->aggregators->aggregators));
}

static void say(const struct group *group, const struct group_aggregator *aggregator)
{
	char name[128];

	aggregators_name(group, aggregator, name, sizeof(name));
	/* Another member may be through with it sooner, and it ends then. */
	if (aggregator->dismissed || aggregator->going)
		log_info(LOG_NET, "aggregation over %zu hosts does without aggregator %s from now on: it ends",
			 group->host_count, name);
	else
		log_warn("aggregation over %zu hosts goes on without aggregator %s: %s", group->host_count, name,
			 aggregator->why);
}

static void lose(struct group *group, size_t index)
{
	struct group_aggregator *aggregator = &group->aggregators->aggregators[index];

	aggregator->lost = true;
	queue_lose(queue_large(group, group->out, group->count + index));
	queue_lose(queue_large(group, group->in, group->count + index));
	control_client_close(aggregator->client);
	aggregator->client = NULL;
	group->progressed = true;
}

/* Bit i: aggregator i is lost, and is not one that has done its part and goes. */
static uint32_t losses(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->aggregators->count; i++)
		set |= (uint32_t)(group->aggregators->aggregators[i].lost &&
				  !group->aggregators->aggregators[i].dismissed)
		       << i;
	return set;
}

static void told(struct group *group, struct transfer *transfer);

/*
 * Those that stay hear of it: one may wait for another that is only silent, for a time of its own that is longer than
 * the members'.
 */
static void tell(struct group *group, struct group_aggregator *to)
{
	uint32_t set = losses(group);

	if (!to->used || to->suspected || to->telling || !(set & ~to->told))
		return;
	to->telling = true;
	to->told = set;
	aggregator_wire_lost(CODEC_TO(to->word_bytes), &set);
	to->word = (struct transfer){ .data = to->word_bytes,
				      .bytes = AGGREGATOR_WIRE_LOST_BYTES,
				      .tag = aggregate_tag(AGGREGATE_TAG_HEAD, 0),
				      .class = TRANSFER_SMALL,
				      .done = told,
				      .owner = to };
	queue_add(queue_large(group, group->out, group->count + (size_t)(to - group->aggregators->aggregators)),
		  &to->word);
}

static void told(struct group *group, struct transfer *transfer)
{
	struct group_aggregator *to = transfer->owner;

	to->telling = false;
	tell(group, to);
}

void aggregators_carry_out(struct group *group)
{
	struct group_aggregators *aggregators = group->aggregators;

	if (!aggregators || !aggregators->ready)
		return;
	aggregators->ready = false;
	for (size_t i = 0; i < aggregators->count; i++) {
		struct group_aggregator *aggregator = &aggregators->aggregators[i];

		if (aggregator->suspected && !aggregator->lost)
			lose(group, i);
		if (!aggregator->lost || aggregator->said)
			continue;
		/* At the end of a job members close the group one after the other, and aggregators go with the first. */
		aggregator->said = group->under_way || aggregator->dismissed || aggregator->going;
		if (aggregator->said)
			say(group, aggregator);
		aggregators->ready |= !aggregator->said;
	}
	for (size_t i = 0; i < aggregators->count; i++)
		tell(group, &aggregators->aggregators[i]);
}
