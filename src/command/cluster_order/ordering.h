/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tributary cluster order` works with: a fabric, a layout of ranks, the order of hosts that there was and the one that
 * was found, and what each costs. One thread.
 */
#ifndef TRIBUTARY_COMMAND_CLUSTER_ORDER_ORDERING_H
#define TRIBUTARY_COMMAND_CLUSTER_ORDER_ORDERING_H

#include "simulate/ranks.h"

#include <jansson.h>
#include <stdio.h>

struct command_call;

struct ordering_side {
	uint32_t *order; /* ranks_hosts */
	struct ranks_cost costs[RANKS_PHASE_COUNT];
	double *load_B;                   /* [phase × links], for a byte of each rank */
	double time_s[RANKS_PHASE_COUNT]; /* simulated, of `bytes`; pipelines: of the slowest link; 0: inside hosts */
};

struct ordering {
	struct simulate_fabric fabric;
	struct ranks_layout layout;
	struct ranks_search search;
	uint32_t *hosts; /* that may be used, in the order that they were given in */
	size_t host_count, used;
	double bytes;
	char title[200];
	bool given;     /* hosts were named */
	bool known;     /* the rates of hosts are; without them there are no times */
	uint64_t slots; /* ranks of a host, as the hosts file says; 0: it does not */
	struct ordering_side before, after;
};

/* Finds the order and works out both sides. Says what went wrong; an exit status. */
int ordering_run(struct ordering *ordering);
/* In words, or as the file of a launcher: by --format. */
void ordering_print(const struct ordering *ordering, const char *format, FILE *out);
json_t *ordering_json(const struct ordering *ordering);

#endif
