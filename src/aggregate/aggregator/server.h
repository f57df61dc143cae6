/*
 * An aggregator without data of its own: groups of members elsewhere send it their contributions, it sums them and sends
 * the results back. It learns everything from what the members send and knows no schedule (docs/aggregation.md,
 * Servers).
 *
 * Threads: the functions here from one thread; the work is done by threads of its own, each of which owns the connections
 * of some groups. Memory: a group gets an equal part of the whole when it is let in, and never more; what one group does
 * not use is not lent to another, so no group waits for another's memory. Groups share the network card by bytes.
 *
 * Errors: -errno as in transport.h.
 */
#ifndef TRIBUTARY_AGGREGATE_SERVER_H
#define TRIBUTARY_AGGREGATE_SERVER_H

#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;
struct aggregate_server;
struct aggregate_server_group;

enum {
	AGGREGATE_SERVER_GROUPS_MAX = 256,
	AGGREGATE_SERVER_MEMBERS_MAX = 256,
	AGGREGATE_SERVER_SENTENCE_BYTES = 200,
};

struct aggregate_server_setup {
	const struct params *params;
	const struct transport_ops *ops; /* open, with its devices known */
	struct transport *transport;
	unsigned thread_count;     /* 1 to 64 */
	unsigned groups_max;       /* 1 to AGGREGATE_SERVER_GROUPS_MAX */
	uint64_t memory_max_bytes; /* of all groups together */
};

/* All that setup points to must outlive the server. */
int aggregate_server_open(const struct aggregate_server_setup *setup, struct aggregate_server **ret);
/* Every group must have been ended. Waits for its threads. NULL is fine. */
void aggregate_server_close(struct aggregate_server *server);

struct aggregate_server_request {
	uint8_t id[16]; /* of the group, in the first message of each of its connections */
	int device;
	uint64_t timeout_ns; /* for the members' connections to stand, after aggregate_server_go */
	size_t member_count;
	const uint8_t *handles; /* member_count × TRANSPORT_HANDLE_BYTES, copied */
};
/*
 * A group that listens at *handle. -ENOSPC: as many as there may be; -EDQUOT: its part of the memory is too small for so many
 * members; -EINVAL: its numbers; -ENOMEM.
 */
int aggregate_server_begin(struct aggregate_server *server, const struct aggregate_server_request *request,
			   uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct aggregate_server_group **ret);
/*
 * The members know the handle: connects to them and to the other servers of the group, and waits for them. position: which
 * of the servers it is; handles: of all of them, TRANSPORT_HANDLE_BYTES each, copied. -EINVAL.
 */
int aggregate_server_go(struct aggregate_server_group *group, unsigned position, size_t server_count,
			const uint8_t *handles);

enum aggregate_server_state {
	AGGREGATE_SERVER_OFFERED,
	AGGREGATE_SERVER_CONNECTING,
	AGGREGATE_SERVER_READY,
	AGGREGATE_SERVER_FAILED,
	AGGREGATE_SERVER_STATE_COUNT
};
struct aggregate_server_counters {
	uint64_t bytes_in, bytes_out; /* payload */
	uint64_t segments;
};
struct aggregate_server_look {
	enum aggregate_server_state state;
	char sentence[AGGREGATE_SERVER_SENTENCE_BYTES]; /* of FAILED */
	struct aggregate_server_counters counters;
	uint64_t window_bytes; /* its part of the memory */
};
void aggregate_server_look(struct aggregate_server_group *group, struct aggregate_server_look *ret);

/* Whatever it is at; members see their connections close. Does not block. NULL is fine. */
void aggregate_server_end(struct aggregate_server_group *group);

#endif
