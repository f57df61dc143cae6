/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that moves messages between two ranks: a plugin, or the plain TCP loop. Rank 0 streams to rank 1, or the two
 * play ping-pong. Both kinds use the same buffers in the same order, and the same poller.
 *
 * One thread a rank. Errors: 0 or -errno; the plugin's are said on stderr.
 */
#ifndef TRIBUTARY_PERF_CONTENDER_H
#define TRIBUTARY_PERF_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "endpoint.h"

struct oob;

enum { CONTENDER_MAX_WINDOW = NCCL_MAX_REQUESTS, PING_DEPTH = 4, SERIES_MAX = 4096 };

/* Bytes that arrived in each interval since the start. */
struct series {
	uint64_t interval_ns, start_ns;
	size_t count;
	double bytes[SERIES_MAX];
};

struct load {
	size_t bytes;   /* of a message */
	uint64_t count; /* messages, or round trips */
	int window;     /* messages in flight */
	bool verify;    /* fill and check every message */
	char *memory;   /* (window + PING_DEPTH) × stride; the last ones are for what ping-pong receives */
	size_t stride;
	struct poller poller;
	struct series *series; /* receiver only; NULL: none */
	uint64_t wrong;        /* out: messages that did not hold what they should */
};

struct contender {
	const char *name;
	const struct contender_ops *ops;
	uint64_t sequence; /* messages so far, the seed of the next one's pattern; the same at both ends */
	struct endpoint endpoint;
	void *send_comm, *receive_comm, *send_mhandle, *receive_mhandle;
	uint64_t register_ns; /* of all memory, for one of the two connections */
	int fd;
};

struct contender_ops {
	int (*stream_out)(struct contender *contender, struct load *load);
	int (*stream_in)(struct contender *contender, struct load *load);
	/* load->count round trips; ping writes the time of each one, in seconds. */
	int (*ping)(struct contender *contender, struct load *load, double *ret_round_trips_s);
	int (*pong)(struct contender *contender, struct load *load);
	void (*close)(struct contender *contender);
};

/* Ranks 0 and 1 of the oob call these together. memory as in struct load. */
int contender_open_plugin(struct contender *contender, struct oob *oob, const struct endpoint_options *options,
			  void *memory, size_t bytes);
int contender_open_floor(struct contender *contender, struct oob *oob);
void contender_close(struct contender *contender); /* zeroed or half-built is fine */

/* Adds bytes that are here now; NULL is fine. */
void series_add(struct series *series, size_t bytes);

#endif
