/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of plain sends: all to all, a permutation, many to one. */
#include "simulate/job_internal.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>

enum { ALLTOALL_MOST = 1024 };

/* Each of a host's rails takes an equal part. */
static int send_parts(struct simulate_build *build, size_t from, size_t to, double bytes)
{
	int r = 0;

	for (size_t rail = 0; r == 0 && rail < build->fabric->rail_count; rail++) {
		uint32_t flow;

		r = simulate_send(build, simulate_nth(build, from, rail), simulate_nth(build, to, rail),
				  SIMULATE_PATTERN_COUNT, bytes / (double)build->fabric->rail_count, &flow);
	}
	return r;
}

/* A host's GPUs send to those of all others: gpus × gpus parts of 1/ranks each. Between its own, by no network. */
static int all_to_all(struct simulate_build *build)
{
	size_t hosts = build->job->host_count;
	double gpus = build->job->gpus, bytes = build->job->bytes * gpus / (double)hosts;
	int r = 0;

	if (hosts > ALLTOALL_MOST) {
		diag_set(build->diag, 0, 0, "all to all is simulated for at most %d hosts", ALLTOALL_MOST);
		return -EINVAL;
	}
	for (size_t distance = 1; distance < hosts; distance++)
		for (size_t i = 0; r == 0 && i < hosts; i++)
			r = send_parts(build, i, (i + distance) % hosts, bytes);
	return r;
}

/* A random cycle through all hosts: nobody sends to itself. */
static int permutation(struct simulate_build *build)
{
	size_t hosts = build->job->host_count;
	uint32_t *order = sys_zalloc((hosts + 1) * sizeof(*order));
	uint64_t state = build->job->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	int r = order ? 0 : -ENOMEM;

	for (uint32_t i = 0; r == 0 && i < hosts; i++)
		order[i] = i;
	if (r == 0)
		simulate_shuffle(order, hosts, &state);
	for (size_t i = 0; r == 0 && hosts > 1 && i < hosts; i++)
		r = send_parts(build, order[i], order[(i + 1) % hosts], build->job->bytes);
	sys_free(order);
	return r;
}

static int incast(struct simulate_build *build)
{
	int r = 0;

	for (size_t i = 1; r == 0 && i < build->job->host_count; i++)
		r = send_parts(build, i, 0, build->job->bytes);
	return r;
}

int simulate_messages(struct simulate_build *build)
{
	flow_mark(build->network, SIMULATE_SEND);
	switch (build->job->collective) {
	case SIMULATE_ALLTOALL:
		return all_to_all(build);
	case SIMULATE_PERMUTATION:
		return permutation(build);
	default:
		return incast(build);
	}
}
