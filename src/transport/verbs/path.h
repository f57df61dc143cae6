/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths from a port of this host to a port of a peer, and how a queue pair is connected over one.
 *
 * Connecting may block: the kernel looks for the address, a second for each try where nobody answers. So each try has a
 * thread. A path that is in doubt is tried by one queue pair at a time for all connections of the process, at most six times
 * a minute, or four times a second for connections that carry nothing else. When something has arrived over it, or a port
 * of it is up again, it is as new.
 *
 * Any thread; the lock of the paths is the innermost.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_PATH_H
#define TRIBUTARY_TRANSPORT_VERBS_PATH_H

#include "transport/verbs/pair.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

struct verbs_paths {
	pthread_mutex_t lock;
	LIST_HEAD(, verbs_path) list; /* of those that are in doubt */
};

struct verbs_path_ends {
	const struct verbs_port *here;
	struct verbs_wire_rail there;
};

void verbs_paths_init(struct verbs_paths *paths);
void verbs_paths_free(struct verbs_paths *paths);
/* A queue that was live has failed on it. */
void verbs_path_doubt(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns);
/* A queue pair could not be connected over it, or carried nothing. True for the first one, which is worth a line. */
bool verbs_path_failed(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns);
/* Something has arrived. */
void verbs_path_proven(struct verbs_paths *paths, const struct verbs_path_ends *ends);
/* A port of it is up: what failed before says nothing. */
void verbs_path_is_up(struct verbs_paths *paths, const struct verbs_path_ends *ends, uint64_t now_ns);
/* Whether a queue pair may be connected over it now. lone: its connection has no other that carries. */
bool verbs_path_is_open(struct verbs_paths *paths, const struct verbs_path_ends *ends, bool lone, uint64_t now_ns);
/* The same; if so, this is the try, and others wait. */
bool verbs_path_take(struct verbs_paths *paths, const struct verbs_path_ends *ends, bool lone, uint64_t now_ns);
enum { VERBS_PATH_TEXT_BYTES = 200 };
/* "mlx5_0 (fe80::1) to 10.0.0.2". */
const char *verbs_path_text(const struct verbs_path_ends *ends, char text[static VERBS_PATH_TEXT_BYTES]);

/* A thread that connects one queue pair, and alone touches it until it is done. */
struct verbs_try {
	const struct verbs_api *api;
	struct ibv_qp *qp;
	uint32_t psn;
	struct verbs_wire_queue to;
	struct verbs_path_ends ends;
	struct verbs_pair_options options;
	int result; /* once it is done */
	/* The owner's. */
	bool runs;
	pthread_t thread;
	_Atomic bool done;
};

/* Everything above `result` is set. An error: there is no thread. */
int verbs_try_begin(struct verbs_try *try);
static inline bool verbs_try_is_done(const struct verbs_try *try)
{
	return atomic_load_explicit(&try->done, memory_order_acquire);
}
/* Waits until it is done; nothing if none runs. Returns its result. */
int verbs_try_end(struct verbs_try *try);

#endif
