/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controllers of streams keep for later jobs, in the file "streams" of the state directory
 * (streams_memory.h has its form), and what they take of it. A file that is not a plain one of this
 * user with mode 0600 and one link is left alone, which one line says; a damaged one counts as
 * empty. It is replaced by rename, under a lock that others need not respect.
 *
 * Threads: all calls under the lock of the way's owner, but for new and free. They read and write no
 * file: the log's queue does (log_run), for as long as the file system takes, also after free.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_GROWTH_MEMORY_H
#define TRIBUTARY_TRANSPORT_TCP_GROWTH_MEMORY_H

#include "transport/tcp/streams.h"
#include "transport/tcp/streams_memory.h"

struct params;
struct tcp_growth_memory;
struct tcp_growth_slot;

/* Of a way; all zero to begin with. */
struct tcp_growth_recall {
	struct tcp_growth_slot *slot; /* NULL: not asked for yet */
	bool recalled;
	uint32_t remembered, found; /* tcp_streams_way's, as they were last */
};

/* NULL: nothing is kept. With TRIBUTARY_STREAMS, without a place for it, or without memory. */
struct tcp_growth_memory *tcp_growth_memory_new(const struct params *params);
/* What was noted before is written all the same. NULL is fine. */
void tcp_growth_memory_free(struct tcp_growth_memory *memory);

/* A trial is about to begin. What was kept is there with a later step. */
void tcp_growth_memory_ask(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			   const struct tcp_interface *interface, const struct sockaddr_storage *peer);
/* Before a step of the controller, and after it. */
void tcp_growth_memory_recall(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			      struct tcp_streams_way *way);
void tcp_growth_memory_note(struct tcp_growth_memory *memory, struct tcp_growth_recall *recall,
			    const struct tcp_streams_way *way);

#endif
