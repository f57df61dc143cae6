/* SPDX-License-Identifier: Apache-2.0 */
/* The network, its flows, and time. */
#include "simulate/flow.h"

#include "base/sys.h"
#include "simulate/flow_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is so near in time, relative to all that has passed, happens at once: equal flows end together. */
#define AT_ONCE   1e-12
/* A rate that rounding changed is the same. */
#define SAME_RATE 1e-13

/* Room for one more element: no number may be FLOW_NONE. */
static int grow(void *array, size_t count, size_t element_bytes)
{
	return count < FLOW_NONE - 1 ? sys_grow(array, count, 1, element_bytes) : -EINVAL;
}

void flow_network_free(struct flow_network *network)
{
	if (!network)
		return;
	for (size_t i = 0; i < network->watch_count; i++)
		sys_free(network->watches[i].points);
	sys_free(network->lines);
	sys_free(network->flows);
	sys_free(network->steps);
	sys_free(network->afters);
	sys_free(network->watches);
	sys_free(network->arrays);
	sys_free(network);
}

int flow_network_new(const double *capacity_Bps, size_t link_count, struct flow_network **ret)
{
	struct flow_network *network;

	for (size_t i = 0; i < link_count; i++)
		if (!(capacity_Bps[i] >= 0))
			return -EINVAL;
	network = sys_zalloc(sizeof(*network));
	if (!network)
		return -ENOMEM;
	network->line_count = link_count;
	network->at_once = AT_ONCE;
	network->lines = sys_zalloc((link_count + 1) * sizeof(*network->lines));
	if (!network->lines) {
		flow_network_free(network);
		return -ENOMEM;
	}
	for (size_t i = 0; i < link_count; i++) {
		struct flow_line *line = &network->lines[i];

		line->capacity_Bps = capacity_Bps[i];
		line->watch = FLOW_NONE;
		for (int list = 0; list < FLOW_LIST_COUNT; list++)
			line->lists[list] = FLOW_NONE;
	}
	*ret = network;
	return 0;
}

int flow_coarsen(struct flow_network *network, double part)
{
	if (network->running || !(part >= 0 && part <= 0.1))
		return -EINVAL;
	network->at_once = fmax(part, AT_ONCE);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------------- the flows */

/* Links that bound nothing come last; they are counted, and no more. */
static int compare_steps(const void *a, const void *b)
{
	const struct flow_step *first = a, *second = b;

	if (first->list != second->list)
		return first->list - second->list;
	return (first->link > second->link) - (first->link < second->link);
}

static int add_steps(struct flow_network *network, const struct flow_crossing *way, size_t way_count,
		     struct flow_one *one)
{
	size_t first = network->step_count, last = first;

	for (size_t i = 0; i < way_count; i++) {
		int r = grow(&network->steps, first + i, sizeof(*network->steps));

		if (r < 0)
			return r;
		network->steps[first + i] = (struct flow_step){
			.link = way[i].link,
			.weight = way[i].weight,
			.list = (uint8_t)(isinf(network->lines[way[i].link].capacity_Bps) != 0),
			.flow = (uint32_t)network->flow_count,
		};
	}
	one->first_step = (uint32_t)first;
	if (!way_count)
		return 0;
	qsort(network->steps + first, way_count, sizeof(*network->steps), compare_steps);
	for (size_t i = first + 1; i < first + way_count; i++) {
		if (network->steps[i].link == network->steps[last].link)
			network->steps[last].weight += network->steps[i].weight;
		else
			network->steps[++last] = network->steps[i];
	}
	network->step_count = last + 1;
	for (size_t i = first; i <= last; i++)
		*(network->steps[i].list ? &one->free_count : &one->step_count) += 1;
	return 0;
}

int flow_add(struct flow_network *network, const struct flow_crossing *way, size_t way_count, double bytes,
	     double start_s, uint32_t *ret)
{
	struct flow_one one = { .first_after = FLOW_NONE,
				.place = FLOW_NONE,
				.mark = network->mark,
				.bytes = bytes,
				.left_bytes = bytes,
				.start_s = start_s,
				.end_s = INFINITY };
	int r;

	if (network->running || !(bytes >= 0 && bytes < INFINITY) || !(start_s >= 0 && start_s < INFINITY))
		return -EINVAL;
	for (size_t i = 0; i < way_count; i++)
		if (way[i].link >= network->line_count || !(way[i].weight > 0))
			return -EINVAL;
	r = grow(&network->flows, network->flow_count, sizeof(*network->flows));
	if (r == 0)
		r = add_steps(network, way, way_count, &one);
	if (r < 0)
		return r;
	*ret = (uint32_t)network->flow_count;
	network->flows[network->flow_count++] = one;
	return 0;
}

void flow_mark(struct flow_network *network, uint8_t mark)
{
	network->mark = mark;
}

int flow_after(struct flow_network *network, uint32_t flow, uint32_t before, double lag_s)
{
	int r;

	if (network->running || flow >= network->flow_count || before >= network->flow_count ||
	    !(lag_s >= 0 && lag_s < INFINITY))
		return -EINVAL;
	r = grow(&network->afters, network->after_count, sizeof(*network->afters));
	if (r < 0)
		return r;
	network->afters[network->after_count] =
		(struct flow_after){ .flow = flow, .next = network->flows[before].first_after, .lag_s = lag_s };
	network->flows[before].first_after = (uint32_t)network->after_count++;
	network->flows[flow].waits++;
	return 0;
}

int flow_watch(struct flow_network *network, uint32_t link)
{
	int r;

	if (network->running || link >= network->line_count)
		return -EINVAL;
	if (network->lines[link].watch != FLOW_NONE)
		return 0;
	r = grow(&network->watches, network->watch_count, sizeof(*network->watches));
	if (r < 0)
		return r;
	network->lines[link].watch = (uint32_t)network->watch_count;
	network->watches[network->watch_count++] = (struct flow_watch){ .link = link };
	return 0;
}

/* --------------------------------------------------------------------------------------- the heap of what comes next */

static bool is_sooner(const struct flow_network *network, uint32_t a, uint32_t b)
{
	double first_s = network->flows[a].key_s, second_s = network->flows[b].key_s;

	return first_s < second_s || (first_s == second_s && a < b);
}

static void put(struct flow_network *network, size_t place, uint32_t flow)
{
	network->heap[place] = flow;
	network->flows[flow].place = (uint32_t)place;
}

static void sift(struct flow_network *network, size_t at, uint32_t flow)
{
	for (; at > 0 && is_sooner(network, flow, network->heap[(at - 1) / 2]); at = (at - 1) / 2)
		put(network, at, network->heap[(at - 1) / 2]);
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < network->heap_count &&
		    is_sooner(network, network->heap[child + 1], network->heap[child]))
			child++;
		if (child >= network->heap_count || !is_sooner(network, network->heap[child], flow))
			break;
		put(network, at, network->heap[child]);
		at = child;
	}
	put(network, at, flow);
}

static void schedule(struct flow_network *network, uint32_t flow, double key_s)
{
	struct flow_one *one = &network->flows[flow];

	one->key_s = key_s;
	if (one->place == FLOW_NONE)
		one->place = (uint32_t)network->heap_count++;
	sift(network, one->place, flow);
}

static uint32_t pop(struct flow_network *network)
{
	uint32_t flow = network->heap[0], last = network->heap[--network->heap_count];

	network->flows[flow].place = FLOW_NONE;
	if (network->heap_count)
		sift(network, 0, last);
	return flow;
}

/* ------------------------------------------------------------------------------------------------------------- events */

static void count_busy(struct flow_network *network, const struct flow_one *one, bool begins)
{
	for (uint32_t i = one->first_step; i < one->first_step + one->step_count + one->free_count; i++) {
		struct flow_line *line = &network->lines[network->steps[i].link];

		if (begins) {
			if (!line->active++)
				line->busy_since_s = network->now_s;
			continue;
		}
		if (!--line->active)
			line->busy_s += network->now_s - line->busy_since_s;
		line->bytes += (double)network->steps[i].weight * one->bytes;
	}
}

static void release(struct flow_network *network, uint32_t flow)
{
	for (uint32_t at = network->flows[flow].first_after; at != FLOW_NONE; at = network->afters[at].next) {
		struct flow_one *next = &network->flows[network->afters[at].flow];

		next->start_s = fmax(next->start_s, network->now_s + network->afters[at].lag_s);
		if (--next->waits)
			continue;
		next->state = FLOW_DUE;
		schedule(network, network->afters[at].flow, next->start_s);
	}
}

static void end(struct flow_network *network, uint32_t flow)
{
	struct flow_one *one = &network->flows[flow];

	count_busy(network, one, false);
	one->state = FLOW_DONE;
	one->left_bytes = 0;
	one->end_s = network->now_s;
	network->end_s = fmax(network->end_s, network->now_s);
	release(network, flow);
}

static void start(struct flow_network *network, uint32_t flow)
{
	struct flow_one *one = &network->flows[flow];

	one->state = FLOW_RUNNING;
	one->start_s = one->updated_s = network->now_s;
	count_busy(network, one, true);
	if (one->bytes > 0 && one->step_count)
		flow_enter(network, flow);
	else
		end(network, flow); /* nothing to move, or nothing in the way */
}

/* Flows whose rates changed end at another time. */
static void reschedule(struct flow_network *network)
{
	for (size_t i = 0; i < network->open_count; i++) {
		uint32_t flow = network->open[i];
		struct flow_one *one = &network->flows[flow];

		if (one->place != FLOW_NONE && one->rate_before_Bps > 0 &&
		    fabs(one->rate_Bps - one->rate_before_Bps) <= SAME_RATE * one->rate_before_Bps)
			continue;
		schedule(network, flow,
			 one->rate_Bps > 0 ? network->now_s + one->left_bytes / one->rate_Bps : INFINITY);
	}
	network->open_count = 0;
}

static int keep_watched(struct flow_network *network)
{
	for (size_t i = 0; i < network->watch_count; i++) {
		struct flow_watch *watch = &network->watches[i];
		double rate_Bps = network->lines[watch->link].used_Bps;
		int r;

		if (watch->count && watch->points[watch->count - 1].rate_Bps == rate_Bps)
			continue;
		r = grow(&watch->points, watch->count, sizeof(*watch->points));
		if (r < 0)
			return r;
		watch->points[watch->count++] = (struct flow_point){ network->now_s, rate_Bps };
	}
	return 0;
}

static int prepare(struct flow_network *network)
{
	network->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(network->heap, network->flow_count),
								  SYS_ARRAY(network->open, network->flow_count),
								  SYS_ARRAY(network->touched, network->line_count),
								  SYS_ARRAY(network->levels, network->line_count) },
					    4);
	network->running = true;
	if (!network->arrays)
		return -ENOMEM;
	for (uint32_t i = 0; i < network->flow_count; i++) {
		if (network->flows[i].waits)
			continue;
		network->flows[i].state = FLOW_DUE;
		schedule(network, i, network->flows[i].start_s);
	}
	return 0;
}

int flow_step(struct flow_network *network)
{
	double until_s;
	int r;

	if (!network->running) {
		r = prepare(network);
		if (r < 0)
			return r;
	}
	if (!network->heap_count || isinf(network->flows[network->heap[0]].key_s))
		return 0;
	network->now_s = network->flows[network->heap[0]].key_s;
	until_s = network->now_s * (1 + network->at_once);
	network->work.events++;
	while (network->heap_count && network->flows[network->heap[0]].key_s <= until_s) {
		uint32_t flow = pop(network);

		if (network->flows[flow].state == FLOW_DUE) {
			start(network, flow);
		} else {
			flow_leave(network, flow);
			end(network, flow);
		}
	}
	flow_share(network);
	reschedule(network);
	r = keep_watched(network);
	return r < 0 ? r : 1;
}

int flow_run(struct flow_network *network)
{
	int r;

	if (network->running)
		return -EINVAL;
	do {
		r = flow_step(network);
	} while (r > 0);
	for (size_t i = 0; r == 0 && i < network->flow_count; i++)
		if (network->flows[i].state != FLOW_DONE)
			r = -EDEADLK;
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ results */

struct flow_result flow_result(const struct flow_network *network, uint32_t flow)
{
	const struct flow_one *one = &network->flows[flow];
	bool started = one->state == FLOW_RUNNING || one->state == FLOW_DONE;

	return (struct flow_result){ started ? one->start_s : INFINITY, one->end_s };
}

double flow_bytes(const struct flow_network *network, uint32_t flow)
{
	return network->flows[flow].bytes;
}

bool flow_crosses(const struct flow_network *network, uint32_t flow, size_t nth, struct flow_crossing *ret)
{
	const struct flow_one *one = &network->flows[flow];
	const struct flow_step *step = &network->steps[one->first_step + nth];

	if (nth >= one->step_count + one->free_count)
		return false;
	*ret = (struct flow_crossing){ step->link, step->weight };
	return true;
}

bool flow_is_awaited(const struct flow_network *network, uint32_t flow, size_t nth, uint32_t *ret, double *ret_lag_s)
{
	uint32_t after = network->flows[flow].first_after;

	while (after != FLOW_NONE && nth--)
		after = network->afters[after].next;
	if (after == FLOW_NONE)
		return false;
	*ret = network->afters[after].flow;
	*ret_lag_s = network->afters[after].lag_s;
	return true;
}

size_t flow_count(const struct flow_network *network)
{
	return network->flow_count;
}

uint8_t flow_marked(const struct flow_network *network, uint32_t flow)
{
	return network->flows[flow].mark;
}

double flow_end_s(const struct flow_network *network)
{
	return network->end_s;
}

struct flow_link flow_link(const struct flow_network *network, uint32_t link)
{
	const struct flow_line *line = &network->lines[link];

	return (struct flow_link){ line->bytes, line->busy_s, line->capacity_Bps };
}

const struct flow_point *flow_watched(const struct flow_network *network, uint32_t link, size_t *ret_count)
{
	uint32_t watch = network->lines[link].watch;

	*ret_count = watch == FLOW_NONE ? 0 : network->watches[watch].count;
	return watch == FLOW_NONE ? NULL : network->watches[watch].points;
}

struct flow_work flow_work(const struct flow_network *network)
{
	return network->work;
}

double flow_rate_Bps(const struct flow_network *network, uint32_t flow)
{
	return network->flows[flow].rate_Bps;
}
