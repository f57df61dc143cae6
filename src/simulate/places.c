/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree's uplinks as links of a network, each as wide as its slower direction. A host-bound job has a flow for each slot, up
 * to the root; a peer-bound one is one flow over all uplinks between its slots, as a ring.
 */
#include "simulate/places.h"

#include "base/sys.h"
#include "simulate/flow.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { VERIFIED = 20, FLOWS_MOST = 4096 /* more would take seconds for each job of a queue */ };
#define ENDLESS_B 1e18
#define GAIN      1.05
#define SAME      (1 - 1e-6)

struct network {
	struct flow_network *flows;
	const struct plan_place_tree *tree;
	struct flow_crossing *way;
	uint32_t *below; /* slots of a job, of each node and all below it */
	double *capacity_Bps;
	uint32_t links;
};

static double slowest_slot_Bps(const struct plan_place_tree *tree, const struct plan_place_job *job)
{
	double rate_Bps = INFINITY;

	for (size_t i = 0; i < job->count; i++)
		rate_Bps = fmin(rate_Bps, plan_place_rate(job, tree->slots[job->slots[i]].rate_Bps));
	return rate_Bps;
}

static size_t flows_of(const struct plan_place_job *job)
{
	return job->kind == PLAN_PLACE_HOST ? job->count : 1;
}

/* Behind the uplinks each flow has a link of its own, as wide as its slots are fast. */
static void add_own_links(struct network *network, const struct plan_place_job *job)
{
	const struct plan_place_tree *tree = network->tree;

	for (size_t i = 0; i < flows_of(job); i++)
		network->capacity_Bps[network->links++] =
			job->kind == PLAN_PLACE_HOST ? plan_place_rate(job, tree->slots[job->slots[i]].rate_Bps)
						     : slowest_slot_Bps(tree, job);
}

static int add_flow(struct network *network, size_t count)
{
	uint32_t flow;

	network->way[count++] = (struct flow_crossing){ network->links++, 1 };
	return flow_add(network->flows, network->way, count, ENDLESS_B, 0, &flow);
}

static int add_job(struct network *network, const struct plan_place_job *job)
{
	const struct plan_place_tree *tree = network->tree;
	size_t count = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && job->kind == PLAN_PLACE_HOST && i < job->count; i++) {
		uint32_t node = tree->slots[job->slots[i]].node;

		for (count = 0; tree->nodes[node].parent != PLAN_PLACE_NONE; node = tree->nodes[node].parent)
			network->way[count++] = (struct flow_crossing){ node, 1 };
		r = add_flow(network, count);
	}
	if (job->kind == PLAN_PLACE_HOST)
		return r;
	memset(network->below, 0, tree->node_count * sizeof(*network->below));
	for (size_t i = 0; i < job->count; i++)
		network->below[tree->slots[job->slots[i]].node]++;
	for (uint32_t node = (uint32_t)tree->node_count; node-- > 0;) { /* a parent stands before its children */
		if (tree->nodes[node].parent != PLAN_PLACE_NONE)
			network->below[tree->nodes[node].parent] += network->below[node];
		if (network->below[node] && network->below[node] < job->count)
			network->way[count++] = (struct flow_crossing){ node, 1 };
	}
	return add_flow(network, count);
}

int places_rates(const struct plan_place_tree *tree, const struct plan_place_job *jobs, size_t job_count,
		 double *ret_Bps)
{
	struct network network = { .tree = tree, .links = (uint32_t)tree->node_count };
	size_t links = tree->node_count;
	uint32_t flow = 0;
	void *arrays;
	int r;

	for (size_t i = 0; i < job_count; i++)
		links += flows_of(&jobs[i]);
	arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(network.way, tree->node_count + 1),
							 SYS_ARRAY(network.below, tree->node_count + 1),
							 SYS_ARRAY(network.capacity_Bps, links) },
				   3);
	if (!arrays)
		return -ENOMEM;
	for (size_t i = 0; i < tree->node_count; i++)
		network.capacity_Bps[i] = tree->nodes[i].capacity_Bps;
	for (size_t i = 0; i < job_count; i++)
		add_own_links(&network, &jobs[i]);
	r = flow_network_new(network.capacity_Bps, links, &network.flows);
	network.links = (uint32_t)tree->node_count;
	for (size_t i = 0; r == 0 && i < job_count; i++)
		r = add_job(&network, &jobs[i]);
	if (r == 0)
		r = flow_step(network.flows); /* all start */
	for (size_t i = 0; r >= 0 && i < job_count; i++) {
		ret_Bps[i] = INFINITY;
		for (size_t j = 0; j < flows_of(&jobs[i]); j++)
			ret_Bps[i] = fmin(ret_Bps[i], flow_rate_Bps(network.flows, flow++));
	}
	flow_network_free(network.flows);
	sys_free(arrays);
	return r < 0 ? r : 0;
}

/* ------------------------------------------------------------------------------------------------------------- places */

struct found {
	double rate_Bps;
	double others; /* the least part that another job keeps of its rate */
	bool shared;   /* it or another has less than by itself */
};

struct verified {
	const struct plan_place_tree *tree;
	struct plan_place_job *jobs; /* those that run, then the one that is placed */
	size_t running;
	double *before_Bps, *after_Bps;
};

static int try_it(struct verified *verified, const uint32_t *slots, struct found *ret)
{
	struct plan_place_job *job = &verified->jobs[verified->running];
	double alone_Bps = 0;
	int r;

	job->slots = slots;
	r = places_rates(verified->tree, job, 1, &alone_Bps);
	if (r == 0)
		r = places_rates(verified->tree, verified->jobs, verified->running + 1, verified->after_Bps);
	*ret = (struct found){ .rate_Bps = verified->after_Bps[verified->running], .others = 1 };
	for (size_t i = 0; i < verified->running; i++)
		ret->others = fmin(ret->others, verified->after_Bps[i] / verified->before_Bps[i]);
	ret->shared = ret->others < SAME || ret->rate_Bps < SAME * alone_Bps;
	return r;
}

/* A job that would wait gains nothing. */
static bool is_better(const struct found *a, const struct found *b)
{
	return a->shared <= b->shared && a->rate_Bps >= SAME * b->rate_Bps && a->others >= SAME * b->others &&
	       (a->rate_Bps >= GAIN * b->rate_Bps || a->others >= GAIN * b->others);
}

/* Which of them; and what it has. */
static int choose(struct verified *verified, const uint32_t *slots, const struct plan_place_result *results,
		  size_t count, size_t *ret, struct found *ret_found)
{
	int r = places_rates(verified->tree, verified->jobs, verified->running, verified->before_Bps);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct found found;

		r = try_it(verified, slots + i * verified->jobs[verified->running].count, &found);
		if (!i)
			found.shared = results[0].shared > 0;
		if (r == 0 && (!i || is_better(&found, ret_found))) {
			*ret = i;
			*ret_found = found;
		}
	}
	return r;
}

/* With nobody beside it the closed form is exact. */
static size_t most_of(const struct plan_place_job *running, size_t running_count, const struct plan_place_job *job)
{
	size_t flows = job->count;

	for (size_t i = 0; i < running_count; i++)
		flows += flows_of(&running[i]);
	return running_count && flows <= FLOWS_MOST ? VERIFIED : 1;
}

int places_find(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
		const bool *busy, const struct plan_place_job *job, uint32_t *ret_slots, struct plan_place_result *ret)
{
	struct verified verified = { .tree = tree, .running = running_count };
	struct plan_place_result *results;
	uint32_t *slots;
	size_t count = 0, at = 0, most = most_of(running, running_count, job);
	struct found found = { 0 };
	void *arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(verified.jobs, running_count + 1),
							       SYS_ARRAY(verified.before_Bps, running_count + 1),
							       SYS_ARRAY(verified.after_Bps, running_count + 1),
							       SYS_ARRAY(results, most),
							       SYS_ARRAY(slots, most * (job->count + 1)) },
					 5);
	int r = arrays ? 0 : -ENOMEM;

	if (r == 0)
		r = plan_place_best(tree, running, running_count, busy, job, most, slots, results, &count);
	if (r == 0 && count > 1) {
		memcpy(verified.jobs, running, running_count * sizeof(*running));
		verified.jobs[running_count] = *job;
		r = choose(&verified, slots, results, count, &at, &found);
	}
	if (r == 0 && at) {
		verified.jobs[running_count].slots = slots + at * job->count;
		results[at].shared = found.shared ? results[at].shared + !results[at].shared : 0;
		results[at].share = fmin(1, found.rate_Bps / slowest_slot_Bps(tree, &verified.jobs[running_count]));
	}
	if (r == 0) {
		memcpy(ret_slots, slots + at * job->count, job->count * sizeof(*slots));
		*ret = results[at];
	}
	sys_free(arrays);
	return r;
}
