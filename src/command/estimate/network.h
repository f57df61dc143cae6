/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one case of an estimate communicates. What a collective takes is what the simulator says of this cluster and, inside hosts,
 * what the system's links carry: whichever is longer. One thread.
 */
#ifndef TRIBUTARY_COMMAND_ESTIMATE_NETWORK_H
#define TRIBUTARY_COMMAND_ESTIMATE_NETWORK_H

#include "command/estimate/estimation.h"

enum { NETWORK_KNOWN_MAX = 32 };

struct network_known {
	enum simulate_collective collective;
	unsigned gpus;
	double bytes, time_s;
};
struct network {
	const struct estimation *estimation;
	const struct simulate_fabric *fabric;
	enum simulate_algorithm algorithm; /* of AllReduce */
	const uint32_t *order;
	struct network_known known[NETWORK_KNOWN_MAX];
	size_t known_count;
	bool bound; /* some of the times are lower bounds */
	int status; /* an exit status; what went wrong was said */
};

/* Until the last of these jobs, which begin together, is through; 0 after an error. */
double network_jobs_s(struct network *network, const struct simulate_job *jobs, size_t count);
/* One collective of all hosts, so many of each one's devices. */
double network_time_s(struct network *network, enum simulate_collective collective, unsigned gpus, double bytes);
/* Of one host's devices, each of which sends to the next or to all: what stays inside. */
double network_inside_s(const struct network *network, enum simulate_collective collective, double ranks, double gpus,
			double bytes);

/*
 * pipeline.c. The step with the model's stages, each on as many hosts after each other in the order of the case. layers: their
 * computing for the whole batch; changed. replicas: of a host's devices that have the same layers. An exit status.
 */
int estimation_pipeline(struct network *network, unsigned replicas, struct step_layers *layers, struct step_times *ret);

#endif
