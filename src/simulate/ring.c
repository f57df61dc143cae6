/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings, one on each rail. With n ranks a step sends 1/n of the bytes from every rank to the next, and there are 2 (n-1)
 * of them (AllGather, ReduceScatter: n-1). A step's part goes in pieces, each of which is passed on as soon as it is
 * there and the piece before it has been sent. GPUs of one host follow each other; what passes between them is in the
 * rows of its machine and takes no step's time of its own.
 */
#include "simulate/job_internal.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>

static double ranks_of(const struct simulate_build *build)
{
	return (double)build->job->host_count * build->job->gpus;
}

static double steps_of(const struct simulate_build *build)
{
	return (build->job->collective == SIMULATE_ALLREDUCE ? 2 : 1) * (ranks_of(build) - 1);
}

size_t simulate_ring_steps(const struct simulate_build *build)
{
	double count = steps_of(build) * (double)build->job->host_count * build->settings->pieces *
		       (double)build->fabric->rail_count;

	/* With several GPUs most hops are inside hosts. */
	if (build->job->gpus > 1 || count > 1e9)
		return SIZE_MAX;
	return (size_t)count;
}

static int add_steps(struct simulate_build *build, size_t rail)
{
	size_t hosts = build->job->host_count, pieces = build->settings->pieces, steps = (size_t)steps_of(build);
	double bytes = build->job->bytes / (double)build->fabric->rail_count / (double)hosts / (double)pieces;
	size_t first = flow_count(build->network);
	int r = 0;

	for (size_t step = 0; step < steps; step++) {
		/* The sums are there after as many steps as there are other hosts. */
		flow_mark(build->network,
			  build->job->collective == SIMULATE_REDUCESCATTER ||
					  (build->job->collective == SIMULATE_ALLREDUCE && step + 1 < hosts)
				  ? SIMULATE_REDUCE_SCATTER
				  : SIMULATE_ALL_GATHER);
		for (size_t host = 0; host < hosts; host++)
			for (size_t piece = 0; r == 0 && piece < pieces; piece++) {
				size_t from = (host + hosts - 1) % hosts;
				size_t arrives = first + ((step - 1) * hosts + from) * pieces + piece;
				size_t before = first + (step * hosts + host) * pieces + piece - 1;
				uint32_t flow;

				if (!piece)
					before = first + ((step - 1) * hosts + host) * pieces + pieces - 1;
				r = simulate_send(build, simulate_nth(build, host, rail),
						  simulate_nth(build, (host + 1) % hosts, rail), SIMULATE_RINGS, bytes,
						  &flow);
				if (r == 0 && step)
					r = flow_after(build->network, flow, (uint32_t)arrives,
						       build->settings->latency_s);
				if (r == 0 && (step || piece))
					r = flow_after(build->network, flow, (uint32_t)before, 0);
			}
	}
	return r;
}

/*
 * All edges at one rate. If the way round, piece by piece, takes longer than the slowest edge needs for all its pieces,
 * that is the time.
 */
static int add_pipe(struct simulate_build *build, size_t rail)
{
	size_t hosts = build->job->host_count, edges = hosts > 1 ? hosts : 0;
	double steps = steps_of(build), ranks = ranks_of(build), pieces = build->settings->pieces;
	double bytes = build->job->bytes / (double)build->fabric->rail_count;
	double part_bytes = bytes / ranks, round_s = 0, latency_s = hosts > 1 ? build->settings->latency_s : 0;
	double slowest_Bps;

	for (size_t i = 0; i < edges; i++)
		simulate_cross_way(build, simulate_nth(build, i, rail), simulate_nth(build, (i + 1) % hosts, rail), 1);
	for (size_t i = 0; i < hosts; i++)
		simulate_cross_rows(build, build->job->hosts[i], SIMULATE_RINGS, 1);
	for (size_t i = 0; i < edges; i++)
		round_s += latency_s + part_bytes / pieces /
					       simulate_alone_Bps(build, simulate_nth(build, i, rail),
								  simulate_nth(build, (i + 1) % hosts, rail));
	slowest_Bps = simulate_all_alone_Bps(build);
	return simulate_add_pipe(build, part_bytes * steps,
				 (struct simulate_pipe){ .part = 1,
							 .fill_s = latency_s,
							 .least_s = steps * round_s / ranks +
								    part_bytes * (pieces - 1) / pieces / slowest_Bps });
}

int simulate_ring(struct simulate_build *build)
{
	int r = 0;

	for (size_t rail = 0; r == 0 && rail < build->fabric->rail_count; rail++)
		r = build->flows->steps && build->job->host_count > 1 ? add_steps(build, rail) : add_pipe(build, rail);
	return r;
}
