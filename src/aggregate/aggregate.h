/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregation engine: groups of processes that reduce together in host memory, over transports. Knows nothing of NCCL.
 *
 * One engine for each process, with a thread of its own; that thread, or a caller that asks for the end of an operation,
 * moves what all groups' connections have and does all reductions. A group has one member for each node and NIC; all
 * members post the same operations, with the same counts, types and operations, in the same order. docs/design/aggregation.md: protocol, schedule, memory, failure.
 *
 * Threads: engine functions from any; one group by one thread at a time; different groups at once.
 * Errors: -errno as in transport.h, and -EAGAIN never; -EREMOTEIO: a member is gone, or members disagree: every later call on
 * that group returns it; -ETIMEDOUT (connect alone): not all members came.
 * Blocking: aggregate_connect alone, within params.timeout_ns; and where a group measures its aggregators, for that as well
 * (docs/design/aggregation.md, Measured rates).
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATE_H
#define TRIBUTARY_AGGREGATE_AGGREGATE_H

#include "reduce/reduce.h"
#include "transport/transport.h"
#include "tributary/cluster.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;
struct aggregate_engine;
struct aggregate_listener;
struct aggregate_group;
struct aggregate_request;
struct aggregate_memory;

enum {
	AGGREGATE_HANDLE_BYTES = TRANSPORT_HANDLE_BYTES,
	AGGREGATE_MAX_REQUESTS = 32, /* outstanding in one group; one more is "come again" */
	AGGREGATE_REASON_BYTES = 256,
};
#define AGGREGATE_MAX_BYTES (1ULL << 30) /* of one operation */

/*
 * Of the operations of all groups of a process, when they have ended, those by which aggregators are measured left out. They only
 * grow. The figures of a ring are those of one whose hosts are in the order of their leaves.
 */
struct aggregate_totals {
	_Atomic uint64_t operations, bytes;           /* bytes: of the operations */
	_Atomic uint64_t sent_bytes, ring_sent_bytes; /* by this member; by it in a ring */
	/* Each direction, on the busiest uplink, as the schedule has them; in a ring. */
	_Atomic uint64_t uplink_bytes, ring_uplink_bytes;
};

struct aggregate_setup {
	const struct params *params;
	const struct transport_ops *ops; /* open, with its devices known */
	struct transport *transport;
	const struct cluster *cluster;   /* NULL: all in one leaf */
	const char *host_name;           /* to find oneself in it; NULL: gethostname() */
	struct aggregate_totals *totals; /* to be added to; NULL: nobody asks */
};

/* All that setup points to must outlive the engine. Starts no thread before the first group. */
int aggregate_open(const struct aggregate_setup *setup, struct aggregate_engine **ret);
/* Every group and listener must be closed before. */
void aggregate_close(struct aggregate_engine *engine);

int aggregate_listen(struct aggregate_engine *engine, int device, uint8_t handle[static AGGREGATE_HANDLE_BYTES],
		     struct aggregate_listener **ret);
/*
 * handles: of all members, one's own among them, in any order, which may differ between members: they are
 * numbered by what the handles hold. Ends in an agreement: every member gets a group, or every member an error, with the
 * same `reason` (a sentence that names the hosts). The listener stays the caller's.
 */
int aggregate_connect(struct aggregate_listener *listener, size_t count, const uint8_t *const *handles,
		      struct aggregate_group **ret, char reason[static AGGREGATE_REASON_BYTES]);

/*
 * What a group that comes together agrees on for others, of whom the engine knows nothing but their number. `tell` is
 * called before any member has its group, and an error of it at one member is one for all. So where a group stands, all
 * members have told theirs, and the same; who knows how many there are to be told knows by rank_count whether all were.
 */
struct aggregate_facts;
struct aggregate_terms {
	size_t rank_count; /* whom this member tells; 0: not all that it should */
	uint64_t tuning; /* the tuning tables that all of them have, as a number; 0: they have not the same, or none */
	uint64_t wiring; /* how the host joins GPUs and cards, as a number; 0: not known. No group of hosts of which two differ */
	/* 0 or -errno. */
	int (*tell)(void *arg, const struct aggregate_facts *agreed);
	void *arg;
};
/* Before connect. Without it rank_count is 0. */
void aggregate_set_terms(struct aggregate_listener *listener, const struct aggregate_terms *terms);

/* Of a group, after connect: for the log line and the cost model. */
struct aggregate_facts {
	size_t members, hosts, leaves, aggregators;
	uint64_t rate_Bps;      /* what a host's NIC moves one way, as it or the cluster file says; 0: not known */
	uint64_t uplink_Bps;    /* the narrowest; 0: not known */
	unsigned gain_permille; /* gain.h: agreed */
	size_t rank_count;      /* of the terms of all members: agreed */
	uint64_t tuning;        /* of the terms of all members if they are equal, else 0: agreed */
	double host_share, uplink_share; /* bytes each direction over the operation's bytes, the busiest of each */
	const char *unknown_host;        /* the first host that the cluster file does not name, or NULL */
};
void aggregate_facts(const struct aggregate_group *group, struct aggregate_facts *ret);

/*
 * Posts an operation; *ret NULL with success: 32 are outstanding, come again. send and recv may be the same memory; they
 * stay untouched until the request is done; send too, as it may be needed again. Where aggregators are used an input that the
 * result overwrites is copied. -ENOMEM, here and below: the group has ended, as all other members wait for that operation.
 * count 0 is fine.
 */
int aggregate_reduce_all(struct aggregate_group *group, const void *send, void *recv, size_t count,
			 enum reduce_type type, enum reduce_operation operation, struct aggregate_request **ret);

/*
 * Memory that will be posted often, and stays where it is until it is taken back: a transport that needs registrations
 * has it ready. What is not registered may be posted, too. Taken back before the group is closed.
 */
int aggregate_register(struct aggregate_group *group, void *data, size_t bytes, struct aggregate_memory **ret);
void aggregate_deregister(struct aggregate_group *group, struct aggregate_memory *memory);

/*
 * When *ret_done becomes true the request is gone. In any order. While it is not done the call may work for all groups of
 * the engine, for the time of some sums.
 */
int aggregate_test(struct aggregate_request *request, bool *ret_done, size_t *ret_bytes);

/* Whatever is outstanding; other members' operations then fail. Does not block. NULL is fine. */
void aggregate_close_group(struct aggregate_group *group);
void aggregate_close_listener(struct aggregate_listener *listener);

/* Counters since the group began, for tests and benchmarks. */
struct aggregate_counters {
	uint64_t operations, segments, flat_operations, part_operations;
	uint64_t bytes_sent, bytes_received; /* payload */
	uint64_t bytes_copied; /* by the engine on the host path, apart from reductions; not by transports */
	uint64_t messages_sent;
};
void aggregate_counters(const struct aggregate_group *group, struct aggregate_counters *ret);

#endif
