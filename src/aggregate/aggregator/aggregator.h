/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregator of tributaryd: it receives the inputs of groups on other hosts, sums them and returns the results, and
 * has no input of its own. It learns everything from what the members send and knows no schedule
 * (docs/format/aggregation-protocol.md).
 *
 * Threads: the functions here from one thread; the work is done by threads of its own, each of which owns the connections
 * of some groups. Memory: a group gets an equal part of the whole when it is let in, and never more; what one group does
 * not use is not lent to another, so no group waits for another's memory. Groups share the network card by bytes.
 *
 * Errors: -errno as in transport.h.
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATOR_AGGREGATOR_H
#define TRIBUTARY_AGGREGATE_AGGREGATOR_AGGREGATOR_H

#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;
struct aggregator;
struct aggregator_group;

enum {
	AGGREGATOR_GROUPS_MAX = 256,
	AGGREGATOR_MEMBERS_MAX = 256,
	AGGREGATOR_SENTENCE_BYTES = 200,
};

struct aggregator_setup {
	const struct params *params;
	const struct transport_ops *ops; /* open, with its devices known */
	struct transport *transport;
	unsigned thread_count;     /* 1 to 64 */
	unsigned groups_max;       /* 1 to AGGREGATOR_GROUPS_MAX */
	uint64_t memory_max_bytes; /* of all groups together */
};

/* All that setup points to must outlive the aggregator. */
int aggregator_open(const struct aggregator_setup *setup, struct aggregator **ret);
/* Every group must have been ended. Waits for its threads. NULL is fine. */
void aggregator_close(struct aggregator *aggregator);

struct aggregator_request {
	uint8_t id[16]; /* of the group, in the first message of each of its connections */
	int device;
	uint64_t timeout_ns; /* for the members' connections to stand, after aggregator_go */
	size_t member_count;
	const uint8_t *handles; /* member_count × TRANSPORT_HANDLE_BYTES, copied */
};
/*
 * A group that listens at *handle. -ENOSPC: as many as there may be; -EDQUOT: its part of the memory is too small for so many
 * members; -EINVAL: its numbers; -ENOMEM.
 */
int aggregator_begin(struct aggregator *aggregator, const struct aggregator_request *request,
		     uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct aggregator_group **ret);
/*
 * The members know the handle: connects to them and to the other aggregators of the group, and waits for them. position: which
 * of the aggregators it is; handles: of all of them, TRANSPORT_HANDLE_BYTES each, copied. -EINVAL.
 */
int aggregator_go(struct aggregator_group *group, unsigned position, size_t aggregator_count, const uint8_t *handles);

enum aggregator_state {
	AGGREGATOR_OFFERED,
	AGGREGATOR_CONNECTING,
	AGGREGATOR_READY,
	AGGREGATOR_FAILED,
	AGGREGATOR_STATE_COUNT
};
struct aggregator_counters {
	uint64_t bytes_in, bytes_out; /* payload */
	uint64_t segments;
};
struct aggregator_status {
	enum aggregator_state state;
	char sentence[AGGREGATOR_SENTENCE_BYTES]; /* of FAILED */
	struct aggregator_counters counters;
	uint64_t window_bytes; /* its part of the memory */
};
void aggregator_status(struct aggregator_group *group, struct aggregator_status *ret);

/* Whatever it is at; members see their connections close. Does not block. NULL is fine. */
void aggregator_end(struct aggregator_group *group);

#endif
