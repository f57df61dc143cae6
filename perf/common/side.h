/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One side of a comparison of AllReduces: an algorithm over a plugin or over plain TCP, a plugin's collnet, or another
 * program. All sides of a benchmark reduce the same floats (reduce.h), in turns.
 *
 * One thread. All ranks make the same calls in the same order. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_PERF_SIDE_H
#define TRIBUTARY_PERF_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chain.h"
#include "collective.h"
#include "peer.h"

enum side_kind {
	SIDE_RING,
	SIDE_TREE,
	SIDE_COLLNET, /* NCCL's staged calls */
	SIDE_WHOLE,   /* the collnet once more, one call for the whole operation */
	SIDE_PEER,
	SIDE_KIND_COUNT
};
const char *side_str(enum side_kind kind); /* "ring"; static text */

/* What moves the messages of a ring or tree: the plugin, plain TCP sockets, the plugin of --vs. */
enum side_over { OVER_PLUGIN, OVER_TCP, OVER_OTHER };

struct side {
	enum side_kind kind;
	enum side_over over;
	const char *what; /* the plugin's, the floor's or the program's name */
	struct collective collective;
	struct chain *chain; /* not owned: the staged and the whole calls share a comm */
	struct peer peer;
};

struct side_outcome {
	double seconds, cpu_s; /* of one run; cpu: the whole process's, all threads */
	uint64_t messages;     /* that the caller posted in one run */
};

struct side_work {
	float *input, *output;
	size_t count;
	int batch; /* runs back to back */
	struct poller *poller;
};

/* Clears the output; what a run needs but NCCL would not do in its time. */
void side_prepare(const struct side *side, const struct side_work *work);
/* The last of the runs leaves its result in work->output, but for a peer, which checks its own: wrong elements. */
int side_run(struct side *side, const struct side_work *work, struct side_outcome *ret_outcome, uint64_t *ret_wrong);
/* What a byte passes one after the other; 0: not to be seen from outside. */
int side_hops(const struct side *side);
void side_close(struct side *side); /* zeroed is fine */

#endif
