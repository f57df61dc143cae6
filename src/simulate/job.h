/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on a fabric, as flows that wait for each other. Pure.
 *
 * Two forms. Step by step: each message is a flow that starts when what it passes on has arrived. Pipelined: all edges of
 * a ring or a tree, and all links of an aggregation, are one flow that goes at the rate of the slowest; what it takes to
 * fill the pipeline is added to its time. unit/simulate/job says by how much they may differ.
 *
 * Bytes are those of one rank's buffer, as nccl-tests counts them. One thread at a time. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_SIMULATE_JOB_H
#define TRIBUTARY_SIMULATE_JOB_H

#include "simulate/fabric.h"
#include "simulate/flow.h"

#include <stdbool.h>

enum simulate_collective {
	SIMULATE_ALLREDUCE,
	SIMULATE_ALLGATHER,
	SIMULATE_REDUCESCATTER,
	SIMULATE_ALLTOALL,    /* each rank sends its part to each other one, all at once */
	SIMULATE_PERMUTATION, /* each host sends all to one other, drawn by seed */
	SIMULATE_INCAST,      /* all hosts send all to the first one */
	SIMULATE_COLLECTIVE_COUNT
};
/* How; of the last three there is one way only. */
enum simulate_algorithm {
	SIMULATE_RING,         /* one on each rail; host after host */
	SIMULATE_TREE,         /* NCCL's double binary tree over the hosts; AllReduce */
	SIMULATE_HIERARCHICAL, /* ours, by hosts alone; AllReduce */
	SIMULATE_AGGREGATORS,  /* ours, with the fabric's aggregators; AllReduce */
	SIMULATE_ALGORITHM_COUNT
};
enum simulate_detail { SIMULATE_AUTO, SIMULATE_STEPS, SIMULATE_PIPELINED };

struct simulate_settings {
	double latency_s;            /* from a message's last byte at the sender until the receiver can pass it on */
	unsigned pieces;             /* of what a ring's step sends, each passed on when it is there: NCCL's slices */
	double chunk_bytes;          /* a tree's */
	double operation_bytes;      /* of aggregation: one call of NCCL's; 0: simulate_call_bytes */
	unsigned in_flight;          /* of these at once */
	enum simulate_detail detail; /* SIMULATE_AUTO: by steps where these are at most steps_most */
	size_t steps_most;
	size_t window_steps; /* of aggregation's first calls, from which the pipelined form takes how fast it goes on */
};
/* NCCL's, and a latency of 10 µs. */
struct simulate_settings simulate_defaults(void);
/*
 * One call of CollNetChain for an AllReduce of so many bytes with two channels: two of NCCL's chunks, which it halves until
 * every channel has enough of them. Above 0.
 */
double simulate_call_bytes(double bytes);

struct simulate_job {
	enum simulate_collective collective;
	enum simulate_algorithm algorithm;
	const uint32_t *hosts; /* of the fabric, in the order of their ranks; each once; the caller's */
	size_t host_count;
	unsigned gpus; /* of each host, at least 1 */
	double bytes;
	double start_s;
	uint64_t seed;
};

struct simulate_outcome {
	double time_s; /* from start_s to the arrival of the last byte */
	double algbw_Bps, busbw_Bps;
	size_t first_flow, flows; /* of the network's */
	bool steps;               /* the form that was taken */
	bool bound;               /* no schedule is behind it: time_s is a lower bound */
};
struct simulate_result {
	struct flow_network *network; /* after flow_run: bytes and times of all links */
	struct simulate_outcome *outcomes;
	size_t outcome_count;
	double end_s; /* of the last job */
};
/*
 * All jobs at once. watch: links whose rates over time are kept. -EINVAL: a job that is not possible here; -EDEADLK:
 * something has to cross a link of no capacity; of both *diag says more; -ENOMEM. simulate_result_fini accepts an empty
 * one.
 */
int simulate_run(const struct simulate_fabric *fabric, const struct simulate_job *jobs, size_t job_count,
		 const struct simulate_settings *settings, const uint32_t *watch, size_t watch_count,
		 struct simulate_result *ret, struct diag *diag);
void simulate_result_fini(struct simulate_result *result);

/*
 * What aggregate/gain.h says of the job: the answer that the plugin goes by, beside what is simulated. by_leaf: NCCL's order is leaf by
 * leaf, else the job's. With algorithm SIMULATE_AGGREGATORS aggregators are in it. All 0: it is no AllReduce of so many bytes, the
 * fabric has rails, machines or rates above its leaves' uplinks, or there are more hosts than the engine takes. -ENOMEM.
 */
#define SIMULATE_GAIN_LEAST_BYTES (64 << 20)
struct gain;
int simulate_gain(const struct simulate_fabric *fabric, const struct simulate_job *job, bool by_leaf, struct gain *ret);

/* What a message is for, step by step; pipelined, bytes of all phases are on their way at once. */
enum simulate_phase {
	SIMULATE_NO_PHASE,       /* pipelined, or nothing is sent */
	SIMULATE_SEND,           /* all of a pattern of sends */
	SIMULATE_REDUCE_SCATTER, /* of a ring */
	SIMULATE_ALL_GATHER,
	SIMULATE_REDUCE, /* up a tree */
	SIMULATE_BROADCAST,
	SIMULATE_TO_LEAF, /* of aggregation: inputs, sums of leaves, results */
	SIMULATE_TO_ROOT,
	SIMULATE_FROM_ROOT,
	SIMULATE_FROM_LEAF,
	SIMULATE_PHASE_COUNT
};
/* From when its first message starts until its last one is sent. */
struct simulate_span {
	double start_s, end_s, bytes;
	size_t messages;
};
/* Of a job's phases, on a link (bytes as often as they cross it) or, with SIMULATE_NONE, all of each: messages 0: none. */
void simulate_phases(const struct simulate_result *result, size_t job, uint32_t link,
		     struct simulate_span ret[static SIMULATE_PHASE_COUNT]);

/* ------------------------------------------------------------------------------------------------------------- orders */

/* Orders of a fabric's hosts, ret[host_count]: as they are; by leaf, each leaf's hosts together; shuffled. */
void simulate_order_rank(const struct simulate_fabric *fabric, uint32_t *ret);
int simulate_order_leaf(const struct simulate_fabric *fabric, uint32_t *ret);
void simulate_order_random(const struct simulate_fabric *fabric, uint64_t seed, uint32_t *ret);

#endif
