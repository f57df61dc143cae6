/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's double binary tree over the hosts: two trees, each for half of the bytes, in which (but for few) a host that
 * passes on in one has no children in the other. Bytes go up in chunks, are summed, and come down again.
 */
#include "simulate/job_internal.h"

#include "aggregate/gain_nccl.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>

enum { FIRST_CHUNKS = 8 }; /* until the pipeline is full */
/* Of more hosts, in larger steps of time, and fewer chunks: it is a small part of the whole. */
enum { MANY_HOSTS = 256, FIRST_FLOWS = 16384 };
#define COARSE 2e-3

struct tree {
	size_t count;
	uint32_t *parent; /* the one block of all of these; GAIN_NCCL_NO_PARENT: the root */
	uint32_t *order;  /* every node after its parent */
	uint32_t *first_child, *next_child;
	uint32_t *up, *down; /* last flows to the parent, and from it */
};

static uint32_t depth_of(const struct tree *tree, uint32_t node)
{
	uint32_t depth = 0;

	while (tree->parent[node] != GAIN_NCCL_NO_PARENT) {
		node = tree->parent[node];
		depth++;
	}
	return depth;
}

/* Depths are at most 32: a pass for each is cheap. */
static void put_in_order(struct tree *tree)
{
	size_t placed = 0;

	for (uint32_t depth = 0; placed < tree->count; depth++)
		for (uint32_t i = 0; i < tree->count; i++)
			if (depth_of(tree, i) == depth)
				tree->order[placed++] = i;
}

static int tree_init(struct tree *tree, size_t count, bool second)
{
	*tree = (struct tree){ .count = count, .parent = sys_zalloc((6 * count + 1) * sizeof(*tree->parent)) };
	if (!tree->parent)
		return -ENOMEM;
	tree->order = tree->parent + count;
	tree->first_child = tree->order + count;
	tree->next_child = tree->first_child + count;
	tree->up = tree->next_child + count;
	tree->down = tree->up + count;
	for (uint32_t i = 0; i < count; i++) {
		tree->parent[i] = gain_nccl_tree_parent(i, (uint32_t)count, second);
		tree->first_child[i] = SIMULATE_NONE;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t parent = tree->parent[i];

		if (parent == GAIN_NCCL_NO_PARENT)
			continue;
		tree->next_child[i] = tree->first_child[parent];
		tree->first_child[parent] = i;
	}
	put_in_order(tree);
	return 0;
}

static double tree_bytes(const struct simulate_build *build)
{
	return build->job->bytes / 2 / (double)build->fabric->rail_count;
}

static double chunks_of(const struct simulate_build *build)
{
	return ceil(tree_bytes(build) / build->settings->chunk_bytes);
}

size_t simulate_tree_steps(const struct simulate_build *build)
{
	double count = chunks_of(build) * 4 * (double)build->job->host_count * (double)build->fabric->rail_count;

	/* What is inside hosts is known as a whole, not for each message. */
	return build->fabric->row_count || count > 1e9 ? SIZE_MAX : (size_t)count;
}

/* ------------------------------------------------------------------------------------------------------- step by step */

/* One message between a node and its parent, behind the one before it on this edge. */
static int pass_on(struct simulate_build *build, size_t rail, uint32_t from, uint32_t to, double bytes, bool first,
		   uint32_t *flow)
{
	uint32_t before = *flow;
	int r = simulate_send(build, simulate_nth(build, from, rail), simulate_nth(build, to, rail),
			      SIMULATE_PATTERN_COUNT, bytes, flow);

	return r < 0 || first ? r : flow_after(build->network, *flow, before, 0);
}

/* All inputs of a node's chunk have arrived. */
static int after_children(struct simulate_build *build, const struct tree *tree, uint32_t node, uint32_t flow)
{
	int r = 0;

	for (uint32_t i = tree->first_child[node]; r == 0 && i != SIMULATE_NONE; i = tree->next_child[i])
		r = flow_after(build->network, flow, tree->up[i], build->settings->latency_s);
	return r;
}

static int add_chunk(struct simulate_build *build, size_t rail, struct tree *tree, double bytes, bool first)
{
	int r = 0;

	flow_mark(build->network, SIMULATE_REDUCE);
	for (size_t i = tree->count; r == 0 && i-- > 1;) {
		uint32_t node = tree->order[i];

		r = pass_on(build, rail, node, tree->parent[node], bytes, first, &tree->up[node]);
		if (r == 0)
			r = after_children(build, tree, node, tree->up[node]);
	}
	flow_mark(build->network, SIMULATE_BROADCAST);
	for (size_t i = 1; r == 0 && i < tree->count; i++) {
		uint32_t node = tree->order[i], parent = tree->parent[node];

		r = pass_on(build, rail, parent, node, bytes, first, &tree->down[node]);
		if (r == 0 && tree->parent[parent] == GAIN_NCCL_NO_PARENT)
			r = after_children(build, tree, parent, tree->down[node]);
		else if (r == 0)
			r = flow_after(build->network, tree->down[node], tree->down[parent],
				       build->settings->latency_s);
	}
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- pipelined */

/* What so many chunks of each tree take, step by step, with nothing else on the links. */
static int first_chunks(struct simulate_build *build, size_t rail, struct tree *trees, double count, double bytes,
			double *ret_s)
{
	struct flow_network *network = build->network;
	int r = flow_network_new(build->capacity_Bps, simulate_link_count(build->fabric), &build->network);

	if (r == 0) {
		for (size_t i = 0; i < (size_t)count; i++)
			for (int second = 0; r == 0 && second < 2; second++)
				r = add_chunk(build, rail, &trees[second], bytes, !i);
		if (r == 0 && trees->count > MANY_HOSTS)
			r = flow_coarsen(build->network, COARSE);
		if (r == 0)
			r = simulate_flows(build);
		if (r == 0)
			*ret_s = flow_end_s(build->network) - build->job->start_s + build->settings->latency_s;
		flow_network_free(build->network);
	}
	build->network = network;
	return r;
}

/* Behind the first chunks, which are taken step by step, all others come at the rate of the slowest link. */
static int add_pipes(struct simulate_build *build, size_t rail, struct tree *trees)
{
	double bytes = tree_bytes(build), chunks = chunks_of(build), first_s = 0;
	double many = fmax(1, floor(FIRST_FLOWS / 4.0 / (double)trees[0].count));
	double first = fmin(chunks, fmin(FIRST_CHUNKS, many));
	double part = trees[0].count > 1 ? 1 - first / chunks : 1;
	int r = trees[0].count > 1 ? first_chunks(build, rail, trees, first, bytes / chunks, &first_s) : 0;

	for (int second = 0; r == 0 && second < 2; second++) {
		const struct tree *tree = &trees[second];

		for (uint32_t i = 0; i < tree->count; i++) {
			struct simulate_end node = simulate_nth(build, i, rail), parent;

			simulate_cross_rows(build, build->job->hosts[i], SIMULATE_TREES, 1);
			if (tree->parent[i] == GAIN_NCCL_NO_PARENT)
				continue;
			parent = simulate_nth(build, tree->parent[i], rail);
			simulate_cross_way(build, node, parent, 1);
			simulate_cross_way(build, parent, node, 1);
		}
		r = simulate_add_pipe(build, bytes, (struct simulate_pipe){ .part = part, .fill_s = first_s });
	}
	return r;
}

static int add_steps(struct simulate_build *build, size_t rail, struct tree *trees)
{
	double chunks = chunks_of(build);
	int r = 0;

	for (size_t i = 0; i < (size_t)chunks; i++)
		for (int second = 0; r == 0 && second < 2; second++)
			r = add_chunk(build, rail, &trees[second], tree_bytes(build) / chunks, !i);
	return r;
}

int simulate_tree(struct simulate_build *build)
{
	struct tree trees[2] = { { .count = 0 }, { .count = 0 } };
	int r = tree_init(&trees[0], build->job->host_count, false);

	if (r == 0)
		r = tree_init(&trees[1], build->job->host_count, true);
	for (size_t rail = 0; r == 0 && rail < build->fabric->rail_count; rail++)
		r = build->flows->steps && build->job->host_count > 1 ? add_steps(build, rail, trees)
								      : add_pipes(build, rail, trees);
	sys_free(trees[0].parent);
	sys_free(trees[1].parent);
	return r;
}
