/* SPDX-License-Identifier: Apache-2.0 */
/* What the collectives share: one job's flows being made. */
#ifndef TRIBUTARY_SIMULATE_JOB_INTERNAL_H
#define TRIBUTARY_SIMULATE_JOB_INTERNAL_H

#include "simulate/job.h"

/* A pipelined flow takes max(its time × part + fill_s, least_s): part is 1 unless fill_s covers some of its bytes. */
struct simulate_pipe {
	uint32_t flow;
	double part, fill_s, least_s;
};

/* A job's, kept until they have run. */
struct simulate_flows {
	size_t first_flow, end_flow;
	struct simulate_pipe *pipes;
	size_t pipe_count;
	double last_lag_s; /* of flows that are no pipes: from the last byte sent to its arrival */
	bool steps;        /* the form that is taken */
	bool bound;        /* what came of it is a lower bound */
};

struct simulate_build {
	const struct simulate_fabric *fabric;
	const struct simulate_settings *settings;
	const struct simulate_job *job;
	struct flow_network *network;
	const double *capacity_Bps;
	/* Of the flow that is being put together: its weight on each link, and the links on which it has any. */
	double *weight;
	uint32_t *links;
	size_t link_count;
	struct flow_crossing *way; /* room for all links */
	void *arrays;              /* the block of the last three */
	struct simulate_flows *flows;
	struct diag *diag;
};

/* Of aggregation on one rail. */
double simulate_operation_bytes(const struct simulate_build *build);
/* A NIC of the job's nth host. */
struct simulate_end simulate_nth(const struct simulate_build *build, size_t index, size_t rail);

/* Puts a flow together. */
void simulate_cross(struct simulate_build *build, uint32_t link, double weight);
void simulate_cross_way(struct simulate_build *build, struct simulate_end from, struct simulate_end to, double weight);
/* The switches between the leaves of two ends alone. */
void simulate_cross_between(struct simulate_build *build, struct simulate_end from, struct simulate_end to,
			    double weight);
void simulate_cross_rows(struct simulate_build *build, size_t host, enum simulate_pattern pattern, double weight);
/* The rate of these links if the flow that is being put together were alone; INFINITY: nothing bounds it. */
double simulate_alone_Bps(const struct simulate_build *build, struct simulate_end from, struct simulate_end to);
double simulate_all_alone_Bps(const struct simulate_build *build);
/* Adds it; begins the next one. pipe.flow is filled in. */
int simulate_add_pipe(struct simulate_build *build, double bytes, struct simulate_pipe pipe);

/* One message, a flow of its own. pattern: the rows of the sender too, SIMULATE_PATTERN_COUNT: none. */
int simulate_send(struct simulate_build *build, struct simulate_end from, struct simulate_end to,
		  enum simulate_pattern pattern, double bytes, uint32_t *ret);

/* How many flows the job is step by step; SIZE_MAX: it cannot be. */
size_t simulate_ring_steps(const struct simulate_build *build);
size_t simulate_tree_steps(const struct simulate_build *build);
size_t simulate_aggregation_steps(const struct simulate_build *build);
int simulate_ring(struct simulate_build *build);
int simulate_tree(struct simulate_build *build);
int simulate_aggregation(struct simulate_build *build);
int simulate_messages(struct simulate_build *build);

/* flow_run() of its network, which may be one of a few calls; -EDEADLK: the diagnosis names a link of no capacity. */
int simulate_flows(const struct simulate_build *build);

/* xorshift64*; *state is not 0. */
uint64_t simulate_draw(uint64_t *state, uint64_t below);
void simulate_shuffle(uint32_t *list, size_t count, uint64_t *state);

#endif
