/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long aggregation takes for each byte of a large AllReduce once its calls are under way: the bytes of the busiest link, or
 * longer where too few segments are in flight to keep it busy. docs/design/aggregation.md, Gain, derives it. Pure.
 *
 * A recurrence in steps of equal length: what each link carries in a step is divided evenly among the segments on it, and a
 * segment goes on in the step after. The number of steps is bounded. Bytes are integers; the length of a step follows from the
 * schedule's doubles (schedule_shares.h), so every member comes to the same result to the last bit.
 */
#ifndef TRIBUTARY_AGGREGATE_PIPELINE_H
#define TRIBUTARY_AGGREGATE_PIPELINE_H

#include <stddef.h>
#include <stdint.h>

struct schedule_group;

enum {
	/* NCCL's calls of CollNetChain for a large AllReduce: two channels, a chunk each, and as many requests. */
	PIPELINE_CALL_BYTES = 512 << 10,
	PIPELINE_CALLS = 8,
	/* A host's inputs on their way at once: so many or, to aggregators, this part of its segments in flight. */
	PIPELINE_ABREAST = 16,
	PIPELINE_ABREAST_PART = 4,
	/* With aggregators: calls committed at a time (COMMIT_OPEN); bytes that a commit's message waits behind. */
	PIPELINE_COMMITS = 4,
	PIPELINE_COMMIT_BEHIND_BYTES = 160 << 10,
	PIPELINE_LATENCY_NS = 10000, /* from a message's last byte until it is passed on */
};

/* What the engine brings; all but the last above 0. */
struct pipeline_engine {
	size_t call_bytes, calls; /* NCCL's, and how many are in flight */
	uint64_t latency_ns;
	uint64_t rate_Bps; /* of the bytes that a host's engine moves, each direction, as a NIC would; 0: no bound */
};
struct pipeline_engine pipeline_engine_today(void);

/*
 * The group has at least two hosts, those of members numbered first, and at least one link with a
 * rate; else -EINVAL. Members of one host count as one. -ENOMEM.
 */
int pipeline_find(const struct schedule_group *group, const struct pipeline_engine *engine, double *ret_s_per_B);

#endif
