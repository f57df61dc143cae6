/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregation, segment by segment, as the engine's own schedule has it: hosts send to their leaf's aggregator, these send
 * their sums to the root, and the result goes back the same way. A host begins a call when the one that many before it is
 * through (operations in flight): all of it is there, and with aggregators all hosts have said so to each other.
 */
#include "simulate/aggregation.h"

#include "aggregate/pipeline.h"
#include "aggregate/schedule.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

struct steps {
	struct simulate_build *build;
	const struct simulate_aggregation *aggregation;
	size_t host_count;
	struct schedule *schedule;
	void *arrays; /* the block of all of these */
	/* Of the segment: the flow of each host to its aggregator, SIMULATE_NONE where there is none. */
	uint32_t *inputs;  /* the one block of all of these but turns */
	uint32_t *sums;    /* and of each leaf to the root */
	uint32_t *through; /* [in_flight × host_count]: with whose end a call is through at a host, by turns */
	uint32_t *drained; /* [host_count]: a host has all of the call that is being added */
	uint32_t *words;   /* [2 × host_count]: for agree(), of two steps */
	uint32_t *sent;    /* [host_count × abreast]: what a host sent last, by turns */
	size_t *turns, abreast;
	size_t call, in_flight; /* its number */
	bool served;            /* some place is an aggregator */
	double operation_bytes, segment_bytes;
	double latency_s, word_s;
};

static double known_rate(double rate_Bps)
{
	return isinf(rate_Bps) ? 0 : rate_Bps;
}

void simulate_aggregation_group(const struct simulate_aggregation *aggregation, size_t host_count,
				struct schedule_group *ret)
{
	ret->member_count = host_count;
	ret->node_count = ret->host_count = aggregation->place_count;
	ret->leaf_count = aggregation->leaf_count;
	for (size_t i = 0; i < aggregation->place_count; i++)
		ret->nodes[i] =
			(struct schedule_node){ .host = (uint16_t)i,
						.leaf = (uint16_t)aggregation->places[i].leaf,
						.rate_Bps = (uint64_t)known_rate(aggregation->places[i].rate_Bps),
						.aggregator = aggregation->places[i].aggregator };
	for (size_t i = 0; i < aggregation->leaf_count; i++)
		ret->uplink_out_Bps[i] = ret->uplink_in_Bps[i] =
			(uint64_t)known_rate(aggregation->leaves[i].uplink_Bps);
}

static int make_schedule(struct steps *steps)
{
	struct schedule_group *group = sys_zalloc(sizeof(*group));
	int r;

	if (!group)
		return -ENOMEM;
	simulate_aggregation_group(steps->aggregation, steps->host_count, group);
	r = schedule_new(group, &steps->schedule);
	sys_free(group);
	return r;
}

static int pass_on(struct steps *steps, enum simulate_phase phase, size_t from, size_t to, double bytes, uint32_t *ret)
{
	flow_mark(steps->build->network, (uint8_t)phase);
	return simulate_send(steps->build, steps->aggregation->ends[from], steps->aggregation->ends[to],
			     SIMULATE_PATTERN_COUNT, bytes, ret);
}

/* A host sends its inputs oldest first, a few at once: the next one begins when one of these is sent. */
static int send_input(struct steps *steps, size_t from, size_t to, double bytes, uint32_t *ret)
{
	const size_t abreast = steps->abreast ? steps->abreast : 1; /* it is not 0, which analysers do not see */
	uint32_t *sent = &steps->sent[from * abreast + steps->turns[from]++ % abreast], before = *sent;
	int r = pass_on(steps, SIMULATE_TO_LEAF, from, to, bytes, ret);

	*sent = *ret;
	return r < 0 || before == SIMULATE_NONE ? r : flow_after(steps->build->network, *ret, before, 0);
}

static int after(struct steps *steps, uint32_t flow, uint32_t before)
{
	return before == SIMULATE_NONE ? 0 : flow_after(steps->build->network, flow, before, steps->latency_s);
}

/* Call by call, a flow of each host. */
static uint32_t *through(const struct steps *steps, size_t call)
{
	const size_t turns = steps->in_flight ? steps->in_flight : 1; /* it is not 0, which analysers do not see */

	return steps->through + call % turns * steps->host_count;
}

/* A host has begun the call that is being added. */
static int after_begin(struct steps *steps, size_t host, uint32_t flow)
{
	return steps->call < steps->in_flight
		       ? 0
		       : flow_after(steps->build->network, flow, through(steps, steps->call)[host], 0);
}

/* All that an aggregator adds up: what its leaf's hosts send, and its own. */
static int after_leaf(struct steps *steps, size_t leaf, uint32_t flow)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->host_count; i++) {
		if (steps->aggregation->places[i].leaf != leaf)
			continue;
		r = steps->inputs[i] == SIMULATE_NONE ? after_begin(steps, i, flow)
						      : after(steps, flow, steps->inputs[i]);
	}
	return r;
}

static int go_up(struct steps *steps, const struct schedule_segment *segment, double bytes)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->host_count; i++) {
		uint16_t to = segment->leaf_node[steps->aggregation->places[i].leaf];

		steps->inputs[i] = SIMULATE_NONE;
		if (to == i)
			continue;
		r = send_input(steps, i, to, bytes, &steps->inputs[i]);
		if (r == 0)
			r = after_begin(steps, i, steps->inputs[i]);
	}
	for (size_t leaf = 0; r == 0 && leaf < steps->aggregation->leaf_count; leaf++) {
		steps->sums[leaf] = SIMULATE_NONE;
		if (leaf == segment->root_leaf || segment->leaf_node[leaf] == SCHEDULE_NONE)
			continue;
		r = pass_on(steps, SIMULATE_TO_ROOT, segment->leaf_node[leaf], segment->root, bytes,
			    &steps->sums[leaf]);
		if (r == 0)
			r = after_leaf(steps, leaf, steps->sums[leaf]);
	}
	return r;
}

static int go_down(struct steps *steps, const struct schedule_segment *segment, double bytes)
{
	uint32_t root;
	/* No bytes and no way: it stands for the moment at which the root has the result. */
	int r = flow_add(steps->build->network, NULL, 0, 0, steps->build->job->start_s, &root);

	if (r == 0)
		r = after_leaf(steps, segment->root_leaf, root);
	for (size_t leaf = 0; r == 0 && leaf < steps->aggregation->leaf_count; leaf++)
		r = after(steps, root, steps->sums[leaf]);
	for (size_t leaf = 0; r == 0 && leaf < steps->aggregation->leaf_count; leaf++) {
		uint32_t result = root;

		if (segment->leaf_node[leaf] == SCHEDULE_NONE)
			continue;
		if (leaf != segment->root_leaf) {
			r = pass_on(steps, SIMULATE_FROM_ROOT, segment->root, segment->leaf_node[leaf], bytes, &result);
			if (r == 0)
				r = flow_after(steps->build->network, result, root, 0);
		}
		for (size_t i = 0; r == 0 && i < steps->host_count; i++) {
			uint32_t done = result;

			if (steps->aggregation->places[i].leaf != leaf)
				continue;
			if (segment->leaf_node[leaf] != i)
				r = pass_on(steps, SIMULATE_FROM_LEAF, segment->leaf_node[leaf], i, bytes, &done);
			if (r == 0 && done != result)
				r = flow_after(steps->build->network, done, result,
					       result == root ? 0 : steps->latency_s);
			if (r == 0)
				r = after(steps, steps->drained[i], done);
		}
	}
	return r;
}

static uint64_t slowest_Bps(const struct steps *steps)
{
	double rate_Bps = INFINITY;

	for (size_t i = 0; i < steps->host_count; i++)
		rate_Bps = fmin(rate_Bps, steps->aggregation->places[i].rate_Bps);
	return (uint64_t)known_rate(rate_Bps);
}

static size_t abreast_to_aggregators(const struct steps *steps)
{
	double in_flight = steps->operation_bytes / steps->segment_bytes * (double)steps->in_flight;

	return (size_t)fmax(1, round(in_flight / PIPELINE_ABREAST_PART));
}

static int steps_init(struct steps *steps)
{
	const struct simulate_build *build = steps->build;
	size_t hosts = steps->host_count;
	int r = make_schedule(steps);

	if (r < 0)
		return r;
	steps->operation_bytes = simulate_operation_bytes(build);
	steps->segment_bytes = (double)schedule_segment_bytes(steps->schedule, (size_t)fmax(1, steps->operation_bytes),
							      schedule_segment_least_bytes(slowest_Bps(steps)));
	steps->in_flight = build->settings->in_flight > 1 ? build->settings->in_flight : 1;
	steps->word_s = steps->latency_s +
			(slowest_Bps(steps) ? PIPELINE_COMMIT_BEHIND_BYTES / (double)slowest_Bps(steps) : 0);
	for (size_t i = 0; i < steps->aggregation->place_count; i++)
		steps->served |= steps->aggregation->places[i].aggregator;
	steps->abreast = steps->served ? abreast_to_aggregators(steps) : PIPELINE_ABREAST;
	steps->arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(steps->inputs, hosts),
				      SYS_ARRAY(steps->sums, steps->aggregation->leaf_count),
				      SYS_ARRAY(steps->through, steps->in_flight * hosts),
				      SYS_ARRAY(steps->drained, hosts), SYS_ARRAY(steps->words, 2 * hosts),
				      SYS_ARRAY(steps->sent, hosts * steps->abreast), SYS_ARRAY(steps->turns, hosts) },
		7);
	if (!steps->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < hosts * steps->abreast; i++)
		steps->sent[i] = SIMULATE_NONE;
	return 0;
}

static void steps_fini(struct steps *steps)
{
	schedule_free(steps->schedule);
	sys_free(steps->arrays);
}

/* A moment: no bytes and no way. */
static int add_moment(struct steps *steps, uint32_t *ret)
{
	return flow_add(steps->build->network, NULL, 0, 0, steps->build->job->start_s, ret);
}

/* A host looks at its calls in their order. */
static int begin_call(struct steps *steps)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->host_count; i++) {
		uint32_t before = steps->drained[i];

		r = add_moment(steps, &steps->drained[i]);
		if (r == 0 && steps->call)
			r = flow_after(steps->build->network, steps->drained[i], before, 0);
	}
	return r;
}

/*
 * With aggregators (commit.c): in step k every host tells the one 2^k places on that it has the call, and what it has
 * heard. A few agreements are open at a time, and they end in the order of calls.
 */
static int agree(struct steps *steps, uint32_t *words)
{
	struct flow_network *network = steps->build->network;
	size_t hosts = steps->host_count;
	int r = 0;

	memcpy(words, steps->drained, hosts * sizeof(*words));
	for (size_t places = 1; r == 0 && places < hosts; places *= 2) {
		uint32_t *before = words + hosts;

		memcpy(before, words, hosts * sizeof(*words));
		for (size_t i = 0; r == 0 && i < hosts; i++) {
			size_t from = (i + hosts - places) % hosts;

			r = add_moment(steps, &words[i]);
			if (r == 0)
				r = flow_after(network, words[i], before[i], 0);
			if (r == 0)
				r = flow_after(network, words[i], before[from], steps->word_s);
			if (r == 0 && places == 1 && steps->call >= PIPELINE_COMMITS &&
			    steps->in_flight >= PIPELINE_COMMITS)
				r = flow_after(network, words[i], through(steps, steps->call - PIPELINE_COMMITS)[from],
					       steps->word_s);
		}
	}
	for (size_t i = 0; r == 0 && steps->call && i < hosts; i++)
		r = flow_after(network, words[i], through(steps, steps->call - 1)[i], 0);
	return r;
}

static int end_call(struct steps *steps)
{
	uint32_t *now = through(steps, steps->call);
	int r = 0;

	if (steps->served && steps->host_count > 1) {
		r = agree(steps, steps->words);
		memcpy(now, steps->words, steps->host_count * sizeof(*now));
	} else {
		memcpy(now, steps->drained, steps->host_count * sizeof(*now));
	}
	steps->call++;
	return r;
}

/* One call; segments of a call have one length, but for its last. */
static int add_call(struct steps *steps, double bytes)
{
	int r = begin_call(steps);

	for (double left = bytes; r == 0 && left > 0.5; left -= steps->segment_bytes) {
		double segment_bytes = fmin(left, steps->segment_bytes);
		struct schedule_segment segment;

		schedule_next(steps->schedule, (size_t)segment_bytes, &segment);
		r = go_up(steps, &segment, segment_bytes);
		if (r == 0)
			r = go_down(steps, &segment, segment_bytes);
	}
	return r < 0 ? r : end_call(steps);
}

static int add_calls(struct steps *steps, double bytes)
{
	int r = 0;

	for (double left = bytes; r == 0 && left > 0.5; left -= steps->operation_bytes)
		r = add_call(steps, fmin(left, steps->operation_bytes));
	return r;
}

static struct steps steps_of(struct simulate_build *build, const struct simulate_aggregation *aggregation)
{
	return (struct steps){ .build = build,
			       .aggregation = aggregation,
			       .host_count = build->job->host_count,
			       .latency_s = build->settings->latency_s };
}

int simulate_aggregation_by_steps(struct simulate_build *build, const struct simulate_aggregation *aggregation)
{
	struct steps steps = steps_of(build, aggregation);
	int r = steps_init(&steps);

	if (r == 0)
		r = add_calls(&steps, build->job->bytes / (double)build->fabric->rail_count);
	steps_fini(&steps);
	return r;
}

/* --------------------------------------------------------------------------------------------------- a window of calls */

/*
 * The first calls fill the links and the last ones drain them; those between go at a steady rate, but for queues that come
 * and go over hundreds of calls. So as many as are affordable, and the first quarter counts as filling. At least sixteen
 * times those in flight, whatever it costs: of 70 calls and fewer, one of the test's 40 fabrics was wrong by a sixth.
 */
enum { FILLING = 4, LEAST = 16 };

struct window {
	size_t calls, filled, steady; /* all; up to here it fills; and up to here it is steady */
};

static struct window window_of(const struct steps *steps, double calls)
{
	const struct simulate_settings *settings = steps->build->settings;
	double flows = ceil(steps->operation_bytes / steps->segment_bytes) *
		       (2 * (double)steps->host_count + (double)steps->aggregation->leaf_count);
	double many = fmin(ceil(calls), fmax((double)settings->window_steps / flows, LEAST * settings->in_flight));
	struct window window = { .calls = (size_t)many };

	window.filled = window.calls / FILLING;
	window.steady = window.calls - settings->in_flight;
	return window;
}

/* When all calls before this one are through. */
static double calls_end_s(const struct simulate_build *build, const uint32_t *first_flows, size_t call)
{
	double end_s = 0;

	for (uint32_t i = 0; i < first_flows[call]; i++)
		end_s = fmax(end_s, flow_result(build->network, i).end_s);
	return end_s;
}

static int run_window(struct steps *steps, const struct window *window, double bytes, double *ret_s)
{
	struct simulate_build *build = steps->build;
	uint32_t *first_flows = sys_zalloc((window->calls + 1) * sizeof(*first_flows));
	double left = bytes, each_s = 0;
	int r = first_flows ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < window->calls; i++) {
		r = add_call(steps, fmin(left, steps->operation_bytes));
		first_flows[i + 1] = (uint32_t)flow_count(build->network);
		left -= steps->operation_bytes;
	}
	if (r == 0)
		r = simulate_flows(build);
	if (r == 0) {
		if (left > 0)
			each_s = (calls_end_s(build, first_flows, window->steady) -
				  calls_end_s(build, first_flows, window->filled)) /
				 (double)(window->steady - window->filled);
		*ret_s = flow_end_s(build->network) - build->job->start_s + build->settings->latency_s +
			 fmax(0, left) / steps->operation_bytes * each_s;
	}
	sys_free(first_flows);
	return r;
}

int simulate_aggregation_by_window(struct simulate_build *build, const struct simulate_aggregation *aggregation,
				   double *ret_s)
{
	struct steps steps = steps_of(build, aggregation);
	struct flow_network *network = build->network;
	int r = flow_network_new(build->capacity_Bps, simulate_link_count(build->fabric), &build->network);

	if (r == 0) {
		r = steps_init(&steps);
		if (r == 0) {
			double bytes = build->job->bytes / (double)build->fabric->rail_count;
			struct window window = window_of(&steps, bytes / steps.operation_bytes);

			r = run_window(&steps, &window, bytes, ret_s);
		}
		flow_network_free(build->network);
	}
	build->network = network;
	steps_fini(&steps);
	return r;
}
