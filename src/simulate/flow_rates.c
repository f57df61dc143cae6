/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fair rates, worked out anew for as few flows as possible.
 *
 * Some flows are open: those that start, and those that were held back by a link that a flow has left. All others keep
 * their rates, and water is filled into what these leave: the link with the lowest level holds back its open flows,
 * then the next. Then every link that an open flow crosses is looked at. A flow that is not open has to be opened too if
 *
 *   - the link that holds it back is no longer full, or carries a flow of a higher rate; or
 *   - it passes by a link that now holds back others at a lower rate than its own.
 *
 * If there is none, rates are fair: every flow has a full link on which none is faster. Else it is done over with these
 * open as well; as flows are only ever added, that ends.
 */
#include "simulate/flow_internal.h"

#include <math.h>

/* Relative; rates that differ by less are equal. Sums drift by far less. */
#define SAME 1e-9
/* A flow over so many links opens whoever these hold back at once: one link after the other would take as many rounds. */
enum { WIDE = 16 };

static void unlink_step(struct flow_network *network, uint32_t index)
{
	struct flow_step *step = &network->steps[index];
	struct flow_line *line = &network->lines[step->link];

	if (step->previous == FLOW_NONE)
		line->lists[step->list] = step->next;
	else
		network->steps[step->previous].next = step->next;
	if (step->next != FLOW_NONE)
		network->steps[step->next].previous = step->previous;
}

static void link_step(struct flow_network *network, uint32_t index, enum flow_list list)
{
	struct flow_step *step = &network->steps[index];
	struct flow_line *line = &network->lines[step->link];

	step->list = (uint8_t)list;
	step->previous = FLOW_NONE;
	step->next = line->lists[list];
	if (step->next != FLOW_NONE)
		network->steps[step->next].previous = index;
	line->lists[list] = index;
}

static bool is_empty(const struct flow_line *line)
{
	return line->lists[FLOW_HELD] == FLOW_NONE && line->lists[FLOW_PASSING] == FLOW_NONE;
}

static void touch(struct flow_network *network, uint32_t link)
{
	struct flow_line *line = &network->lines[link];

	if (line->touched)
		return;
	line->touched = true;
	line->before_Bps = line->lists[FLOW_HELD] == FLOW_NONE ? -1 : line->level_Bps;
	line->round_Bps = 0;
	line->round_level_Bps = -1;
	line->round_held = 0;
	network->touched[network->touched_count++] = link;
}

/* Out of a list of those with a rate; the sum of none is 0, whatever rounding left. */
static void take_off(struct flow_network *network, uint32_t index, double rate_Bps)
{
	struct flow_step *step = &network->steps[index];
	struct flow_line *line = &network->lines[step->link];

	unlink_step(network, index);
	line->used_Bps -= (double)step->weight * rate_Bps;
	if (line->used_Bps < 0 || is_empty(line))
		line->used_Bps = 0;
}

static void list_open(struct flow_network *network, uint32_t flow)
{
	network->flows[flow].open = true;
	network->open[network->open_count++] = flow;
}

/* Begins to work out a flow's rate; it and what it was are taken from its links. */
static void flow_open(struct flow_network *network, uint32_t flow)
{
	struct flow_one *one = &network->flows[flow];

	if (one->open)
		return;
	for (uint32_t i = one->first_step; i < one->first_step + one->step_count; i++) {
		struct flow_step *step = &network->steps[i];
		struct flow_line *line = &network->lines[step->link];

		touch(network, step->link);
		line->settled -= step->list == FLOW_HELD;
		take_off(network, i, one->rate_Bps);
		line->open_weight += (double)step->weight;
		link_step(network, i, FLOW_OPEN);
	}
	one->left_bytes = fmax(0, one->left_bytes - one->rate_Bps * (network->now_s - one->updated_s));
	one->updated_s = network->now_s;
	one->rate_before_Bps = one->rate_Bps;
	one->rate_Bps = 0;
	one->fixed = false;
	list_open(network, flow);
}

/* All flows that a link holds back. */
static void flow_open_held(struct flow_network *network, uint32_t link)
{
	const struct flow_line *line = &network->lines[link];
	uint32_t next;

	if (!line->settled)
		return;
	for (uint32_t at = line->lists[FLOW_HELD]; at != FLOW_NONE; at = next) {
		next = network->steps[at].next;
		flow_open(network, network->steps[at].flow);
	}
}

void flow_enter(struct flow_network *network, uint32_t flow)
{
	struct flow_one *one = &network->flows[flow];

	for (uint32_t i = one->first_step; i < one->first_step + one->step_count; i++) {
		uint32_t link = network->steps[i].link;

		touch(network, link);
		if (one->step_count > WIDE)
			flow_open_held(network, link);
		network->lines[link].open_weight += (double)network->steps[i].weight;
		link_step(network, i, FLOW_OPEN);
	}
	one->rate_before_Bps = 0;
	one->fixed = false;
	list_open(network, flow);
}

void flow_leave(struct flow_network *network, uint32_t flow)
{
	struct flow_one *one = &network->flows[flow];
	bool was_open = one->open;

	one->open = false; /* flow_share passes over it */
	for (uint32_t i = one->first_step; i < one->first_step + one->step_count; i++) {
		struct flow_line *line = &network->lines[network->steps[i].link];

		if (was_open) {
			unlink_step(network, i);
			line->open_weight -= (double)network->steps[i].weight;
			if (line->lists[FLOW_OPEN] == FLOW_NONE)
				line->open_weight = 0;
		} else {
			line->settled -= network->steps[i].list == FLOW_HELD;
			take_off(network, i, one->rate_Bps);
		}
		flow_open_held(network, network->steps[i].link);
	}
	one->rate_Bps = 0;
}

/* ------------------------------------------------------------------------------------------------------------ filling */

static double level_of(const struct flow_line *line)
{
	return fmax(0, line->capacity_Bps - line->used_Bps) / line->open_weight;
}

static bool is_lower(const struct flow_level *a, const struct flow_level *b)
{
	return a->level_Bps < b->level_Bps || (a->level_Bps == b->level_Bps && a->link < b->link);
}

static void push_level(struct flow_network *network, struct flow_level level)
{
	size_t at = network->level_count++;

	for (; at > 0 && is_lower(&level, &network->levels[(at - 1) / 2]); at = (at - 1) / 2)
		network->levels[at] = network->levels[(at - 1) / 2];
	network->levels[at] = level;
}

static struct flow_level pop_level(struct flow_network *network)
{
	struct flow_level least = network->levels[0], last = network->levels[--network->level_count];
	size_t at = 0;

	for (;;) {
		size_t child = 2 * at + 1;

		if (child >= network->level_count)
			break;
		if (child + 1 < network->level_count && is_lower(&network->levels[child + 1], &network->levels[child]))
			child++;
		if (!is_lower(&network->levels[child], &last))
			break;
		network->levels[at] = network->levels[child];
		at = child;
	}
	network->levels[at] = last;
	return least;
}

/* A flow's rate for this round; by is the link that holds it back. */
static void fix(struct flow_network *network, uint32_t flow, uint32_t by, double rate_Bps)
{
	struct flow_one *one = &network->flows[flow];

	one->rate_Bps = rate_Bps;
	one->fixed = true;
	network->work.rates++;
	for (uint32_t i = one->first_step; i < one->first_step + one->step_count; i++) {
		struct flow_step *step = &network->steps[i];
		struct flow_line *line = &network->lines[step->link];

		unlink_step(network, i);
		line->open_weight -= (double)step->weight;
		if (line->lists[FLOW_OPEN] == FLOW_NONE)
			line->open_weight = 0;
		line->used_Bps += (double)step->weight * rate_Bps;
		line->round_Bps = fmax(line->round_Bps, rate_Bps);
		line->round_held += step->link == by;
		link_step(network, i, step->link == by ? FLOW_HELD : FLOW_PASSING);
	}
}

static void fill(struct flow_network *network)
{
	for (size_t i = 0; i < network->touched_count; i++) {
		uint32_t link = network->touched[i];
		const struct flow_line *line = &network->lines[link];

		if (line->lists[FLOW_OPEN] != FLOW_NONE)
			push_level(network, (struct flow_level){ level_of(line), link });
	}
	while (network->level_count) {
		struct flow_level least = pop_level(network);
		struct flow_line *line = &network->lines[least.link];
		double level_Bps;

		if (line->lists[FLOW_OPEN] == FLOW_NONE)
			continue;
		/* Levels only rise, as those that are fixed took less than their share of this link. */
		level_Bps = level_of(line);
		if (level_Bps > least.level_Bps * (1 + 1e-14)) {
			push_level(network, (struct flow_level){ level_Bps, least.link });
			continue;
		}
		line->round_level_Bps = level_Bps;
		while (line->lists[FLOW_OPEN] != FLOW_NONE)
			fix(network, network->steps[line->lists[FLOW_OPEN]].flow, least.link, level_Bps);
	}
}

/* ----------------------------------------------------------------------------------------------------------- checking */

static void open_faster_passing(struct flow_network *network, uint32_t link, double than_Bps)
{
	uint32_t next;

	for (uint32_t at = network->lines[link].lists[FLOW_PASSING]; at != FLOW_NONE; at = next) {
		uint32_t flow = network->steps[at].flow;

		next = network->steps[at].next;
		if (!network->flows[flow].open && network->flows[flow].rate_Bps > than_Bps)
			flow_open(network, flow);
	}
}

/* Opens whoever this round was unfair to or too good to. Links that are touched meanwhile are looked at in the next one. */
static void check(struct flow_network *network)
{
	size_t count = network->touched_count;

	for (size_t i = 0; i < count; i++) {
		uint32_t link = network->touched[i];
		const struct flow_line *line = &network->lines[link];
		double level_Bps = line->round_level_Bps;

		if (line->settled && (line->used_Bps < line->capacity_Bps * (1 - SAME) ||
				      line->round_Bps > line->level_Bps * (1 + SAME) ||
				      (level_Bps >= 0 && level_Bps < line->level_Bps * (1 - SAME))))
			flow_open_held(network, link);
		/* None that passed by was faster than those that it held back, so these matter only if its level falls. */
		if (level_Bps >= 0 && (line->before_Bps < 0 || level_Bps < line->before_Bps * (1 - SAME)))
			open_faster_passing(network, link, level_Bps * (1 + SAME));
	}
}

/* What the last round fixed is open again. */
static void reopen(struct flow_network *network)
{
	for (size_t i = 0; i < network->open_count; i++) {
		struct flow_one *one = &network->flows[network->open[i]];

		for (uint32_t j = one->first_step; one->fixed && j < one->first_step + one->step_count; j++) {
			take_off(network, j, one->rate_Bps);
			network->lines[network->steps[j].link].open_weight += (double)network->steps[j].weight;
			link_step(network, j, FLOW_OPEN);
		}
		one->fixed = false;
		one->rate_Bps = 0;
	}
	for (size_t i = 0; i < network->touched_count; i++) {
		struct flow_line *line = &network->lines[network->touched[i]];

		line->round_Bps = 0;
		line->round_level_Bps = -1;
		line->round_held = 0;
	}
}

static void forget_ended(struct flow_network *network)
{
	size_t count = 0;

	for (size_t i = 0; i < network->open_count; i++)
		if (network->flows[network->open[i]].open)
			network->open[count++] = network->open[i];
	network->open_count = count;
}

void flow_share(struct flow_network *network)
{
	forget_ended(network);
	for (;;) {
		size_t count = network->open_count;

		fill(network);
		check(network);
		if (network->open_count == count)
			break;
		reopen(network);
	}
	for (size_t i = 0; i < network->touched_count; i++) {
		struct flow_line *line = &network->lines[network->touched[i]];

		line->touched = false;
		if (line->round_held && !line->settled)
			line->level_Bps = line->round_level_Bps;
		line->settled += line->round_held;
	}
	network->touched_count = 0;
	for (size_t i = 0; i < network->open_count; i++)
		network->flows[network->open[i]].open = false;
}
