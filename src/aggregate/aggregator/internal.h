/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the aggregator share, and nobody else (aggregator.h says what it is).
 *
 * A group belongs to one of the aggregator's threads from the moment it goes until it has been closed there; what others may
 * touch is atomic, or under `lock`. A thread sleeps in epoll over its groups' connections and its own eventfd.
 *
 * A segment lives in these steps: some child's HEAD makes it known; in the order of the chain that the HEADs give it gets
 * slots for all its inputs; when the HEADs of all its leaf's hosts are there, the group's share lets it begin, and
 * receives are posted; sums; the partial goes up, or the result down.
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATOR_INTERNAL_H
#define TRIBUTARY_AGGREGATE_AGGREGATOR_INTERNAL_H

#include "aggregate/aggregator/aggregator.h"
#include "aggregate/aggregator/share.h"
#include "aggregate/aggregator_wire.h"
#include "aggregate/tags.h"
#include "reduce/reduce.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	AGGREGATOR_HEADS = 4,     /* receives for HEADs on each connection */
	AGGREGATOR_REQUESTS = 20, /* other requests on each, and so many more for the oldest segment */
	AGGREGATOR_OLDEST_REQUESTS = 4,
	AGGREGATOR_NODES_MAX = AGGREGATOR_MEMBERS_MAX + 32,
};

_Static_assert(AGGREGATOR_HEADS + AGGREGATOR_REQUESTS + AGGREGATOR_OLDEST_REQUESTS <= TRANSPORT_MAX_REQUESTS,
	       "of a connection");

struct aggregator_group;
struct aggregator_segment;

enum aggregator_transfer_kind {
	AGGREGATOR_INPUT,
	AGGREGATOR_RESULT_IN,
	AGGREGATOR_PARTIAL_OUT,
	AGGREGATOR_HEAD_OUT,
	AGGREGATOR_RESULT_OUT
};

/* One message under way or waiting to be posted. In its segment. */
struct aggregator_transfer {
	struct aggregator_transfer *next;
	struct aggregator_segment *segment;
	enum aggregator_transfer_kind kind;
	enum aggregator_stage stage; /* of an input */
	uint16_t index;
	uint16_t node;
	void *data;
	size_t bytes;
	int tag;
	struct transport_request *request;
};

/* Both directions to a node. */
struct aggregator_peer {
	struct transport_connection *in, *out;
	uint8_t handle[TRANSPORT_HANDLE_BYTES]; /* connect keeps its place in it */
	uint8_t hello_bytes[AGGREGATOR_WIRE_HELLO_BYTES];
	struct transport_request *hello;
	bool said_hello;
	uint64_t rate_Bps; /* of the member's network card; 0: it did not say */
	uint8_t heads[AGGREGATOR_HEADS][AGGREGATOR_WIRE_HEAD_BYTES];
	struct transport_request *head_requests[AGGREGATOR_HEADS];
	unsigned head_next;                           /* oldest of them */
	struct aggregator_transfer *receives, *sends; /* posted and waiting, in order */
	unsigned receive_count, send_count;           /* posted */
	bool lost;          /* another aggregator: whatever is here, or comes, is through at once, and brings nothing */
	uint64_t last_head; /* number of the last HEAD, AGGREGATOR_WIRE_NONE before the first */
	bool ready;         /* to be polled */
	bool asks;          /* a receive was posted now */
};

/* A connection that came and has not said who it is. */
struct aggregator_incoming {
	struct transport_connection *connection;
	uint8_t bytes[AGGREGATOR_WIRE_HELLO_BYTES + 1]; /* one more: a longer message shows */
	struct transport_request *request;
};

struct aggregator_input {
	uint16_t node; /* that sends it */
	bool announced;
	void *slot;
	struct aggregator_transfer transfer, down;
};
/* An aggregator's HEAD that came before the first of a member. */
struct aggregator_early {
	struct aggregator_early *next;
	uint16_t node;
	struct aggregator_wire_head head;
};
struct aggregator_level {
	size_t count, announced, missing;
	struct aggregator_input *inputs;
	const void **data;
};
struct aggregator_segment {
	struct aggregator_segment *next; /* in order of numbers */
	struct aggregator_group *group;
	struct aggregator_wire_head head; /* the first that came; its stage and index mean nothing */
	struct aggregator_level levels[AGGREGATOR_STAGE_COUNT];
	struct aggregator_early *early;
	bool known, has_slots, begun, has_result, root;
	bool poisoned;                  /* it lacks what a lost aggregator should have made: there is no result */
	uint32_t absent;                /* bit i: aggregator i was lost before it said that it had an input */
	uint64_t begun_ns, share_bytes; /* what counts as under way in the group's share */
	unsigned open;                  /* transfers posted or waiting */
	void *sum;                      /* slot that holds the partial or the result */
	uint8_t head_bytes[AGGREGATOR_WIRE_HEAD_BYTES];
	struct aggregator_transfer head_out, partial_out, result_in;
};

struct aggregator_group {
	struct aggregator *aggregator;
	struct aggregator_thread *thread;
	struct aggregator_group *next; /* in the thread's list */
	_Atomic int state;             /* enum aggregator_state */
	_Atomic bool ended;
	_Atomic uint64_t bytes_in, bytes_out, segments;
	pthread_mutex_t lock; /* the sentence */
	char sentence[AGGREGATOR_SENTENCE_BYTES];

	uint8_t id[AGGREGATOR_WIRE_ID_BYTES];
	int device;
	uint64_t timeout_ns, since_ns, looked_ns; /* clock_waited_ns() of the bootstrap */
	struct transport_listener *listener;
	size_t member_count, node_count, self;
	struct aggregator_peer *peers; /* [node_count] */
	struct aggregator_incoming *incoming;
	size_t incoming_count;

	struct aggregator_share_user user;
	struct aggregator_segment *segments_first; /* known ones, by number */
	size_t segment_count;
	uint64_t chain; /* number of the last that got slots; AGGREGATOR_WIRE_NONE */
	void **slots;   /* free ones */
	size_t slot_count, slots_made, slots_free;
	bool progressed, soon, now;
};

struct aggregator_thread {
	struct aggregator *aggregator;
	pthread_t thread;
	bool runs;
	int epoll_fd, wake_fd;
	pthread_mutex_t lock;
	struct aggregator_group *arriving; /* gone to it, not taken yet */
	struct aggregator_group *groups;   /* its own */
	_Atomic bool stop;
	_Atomic unsigned load; /* members of its groups */
};

struct aggregator {
	struct aggregator_setup setup;
	enum reduce_level level;
	struct aggregator_share share;
	pthread_mutex_t lock;
	size_t group_count;
	struct aggregator_thread *threads; /* [setup.thread_count] */
};

/* group.c */
void aggregator_fail(struct aggregator_group *group, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void aggregator_peer_add(struct aggregator_peer *peer, struct aggregator_transfer *transfer, bool sends);

/* bootstrap.c: 1: all connections stand; 0: not yet; the group has failed otherwise. */
int aggregator_bootstrap(struct aggregator_group *group, uint64_t now_ns);
void aggregator_bootstrap_end(struct aggregator_group *group);

/* flow.c */
void aggregator_flow_begin(struct aggregator_group *group);
/* Moves what can be moved. */
void aggregator_flow(struct aggregator_group *group, uint64_t now_ns);
void aggregator_flow_end(struct aggregator_group *group);

/* segment.c */
int aggregator_segment_head(struct aggregator_group *group, uint16_t node, const struct aggregator_wire_head *head);
/* Slots in the order of the chain, and the begin of those that may. */
int aggregator_segments_begin(struct aggregator_group *group, uint64_t now_ns);
/* A transfer is through, or a lost aggregator's and will never be. -EREMOTEIO: it was not what it should have been. */
int aggregator_segment_done(struct aggregator_group *group, struct aggregator_transfer *transfer, size_t bytes);
/* Another aggregator is lost: what it would have announced does not come. */
void aggregator_segments_miss(struct aggregator_group *group);
void aggregator_segments_free(struct aggregator_group *group);

#endif
