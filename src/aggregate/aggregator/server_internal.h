/*
 * What the files of the server share, and nobody else (server.h says what it is).
 *
 * A group belongs to one of the server's threads from the moment it goes until it has been closed there; what others may
 * touch is atomic, or under `lock`. A thread sleeps in epoll over its groups' connections and its own eventfd.
 *
 * A segment lives in these steps: some child's HEAD makes it known; in the order of the chain that the HEADs give it gets
 * slots for all its inputs; when the HEADs of all its leaf's hosts are there, the group's share lets it begin, and
 * receives are posted; sums; the partial goes up, or the result down.
 */
#ifndef TRIBUTARY_AGGREGATE_SERVER_INTERNAL_H
#define TRIBUTARY_AGGREGATE_SERVER_INTERNAL_H

#include "aggregate/aggregator/server.h"
#include "aggregate/aggregator/server_share.h"
#include "aggregate/server_wire.h"
#include "reduce/reduce.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
	SERVER_HEADS = 4,     /* receives for HEADs on each connection */
	SERVER_REQUESTS = 20, /* other requests on each, and so many more for the oldest segment */
	SERVER_OLDEST_REQUESTS = 4,
	SERVER_NODES_MAX = AGGREGATE_SERVER_MEMBERS_MAX + 32,
};

_Static_assert(SERVER_HEADS + SERVER_REQUESTS + SERVER_OLDEST_REQUESTS <= TRANSPORT_MAX_REQUESTS, "of a connection");

struct server_group;
struct server_segment;

enum server_transfer_kind { SERVER_INPUT, SERVER_RESULT_IN, SERVER_PARTIAL_OUT, SERVER_HEAD_OUT, SERVER_RESULT_OUT };

/* One message under way or waiting for room on its connection. In its segment. */
struct server_transfer {
	struct server_transfer *next;
	struct server_segment *segment;
	enum server_transfer_kind kind;
	enum server_stage stage; /* of an input */
	uint16_t index;
	uint16_t node;
	void *data;
	size_t bytes;
	int tag;
	struct transport_request *request;
};

/* Both directions to a node. */
struct server_peer {
	struct transport_connection *in, *out;
	uint8_t handle[TRANSPORT_HANDLE_BYTES]; /* connect keeps its place in it */
	uint8_t hello_bytes[SERVER_WIRE_HELLO_BYTES];
	struct transport_request *hello;
	bool said_hello;
	uint64_t rate_Bps; /* of the member's network card; 0: it did not say */
	uint8_t heads[SERVER_HEADS][SERVER_WIRE_HEAD_BYTES];
	struct transport_request *head_requests[SERVER_HEADS];
	unsigned head_next;                       /* oldest of them */
	struct server_transfer *receives, *sends; /* posted and waiting, in order */
	unsigned receive_count, send_count;       /* posted */
	bool lost;          /* another server: whatever is here, or comes, is through at once, and brings nothing */
	uint64_t last_head; /* number of the last HEAD, SERVER_WIRE_NONE before the first */
	bool ready;         /* worth a look */
	bool asks;          /* a receive was posted now */
};

/* A connection that came and has not said who it is. */
struct server_incoming {
	struct transport_connection *connection;
	uint8_t bytes[SERVER_WIRE_HELLO_BYTES + 1]; /* one more: a longer message shows */
	struct transport_request *request;
};

struct server_input {
	uint16_t node; /* that sends it */
	bool announced;
	void *slot;
	struct server_transfer transfer, down;
};
/* A server's HEAD that came before the first of a member. */
struct server_early {
	struct server_early *next;
	uint16_t node;
	struct server_wire_head head;
};
struct server_level {
	size_t count, announced, missing;
	struct server_input *inputs;
	const void **data;
};
struct server_segment {
	struct server_segment *next; /* in order of numbers */
	struct server_group *group;
	struct server_wire_head head; /* the first that came; its stage and index mean nothing */
	struct server_level levels[SERVER_STAGE_COUNT];
	struct server_early *early;
	bool known, has_slots, begun, has_result, root;
	bool poisoned;                  /* it lacks what a lost server should have made: there is no result */
	uint32_t absent;                /* bit i: server i was lost before it said that it had an input */
	uint64_t begun_ns, share_bytes; /* what counts as under way in the group's share */
	unsigned open;                  /* transfers posted or waiting */
	void *sum;                      /* slot that holds the partial or the result */
	uint8_t head_bytes[SERVER_WIRE_HEAD_BYTES];
	struct server_transfer head_out, partial_out, result_in;
};

struct server_group {
	struct aggregate_server *server;
	struct server_thread *thread;
	struct server_group *next; /* in the thread's list */
	_Atomic int state;         /* enum aggregate_server_state */
	_Atomic bool ended;
	_Atomic uint64_t bytes_in, bytes_out, segments;
	pthread_mutex_t lock; /* the sentence */
	char sentence[AGGREGATE_SERVER_SENTENCE_BYTES];

	uint8_t id[SERVER_WIRE_ID_BYTES];
	int device;
	uint64_t timeout_ns, deadline_ns;
	struct transport_listener *listener;
	size_t member_count, node_count, self;
	struct server_peer *peers; /* [node_count] */
	struct server_incoming *incoming;
	size_t incoming_count;

	struct server_share_user user;
	struct server_segment *segments_first; /* known ones, by number */
	size_t segment_count;
	uint64_t chain; /* number of the last that got slots; SERVER_WIRE_NONE */
	void **slots;   /* free ones */
	size_t slot_count, slots_made, slots_free;
	bool progressed, soon, now;
};

struct server_thread {
	struct aggregate_server *server;
	pthread_t thread;
	bool runs;
	int epoll_fd, wake_fd;
	pthread_mutex_t lock;
	struct server_group *arriving; /* gone to it, not taken yet */
	struct server_group *groups;   /* its own */
	_Atomic bool stop;
	_Atomic unsigned load; /* members of its groups */
};

struct aggregate_server {
	struct aggregate_server_setup setup;
	enum reduce_level level;
	struct server_share share;
	pthread_mutex_t lock;
	size_t group_count;
	struct server_thread *threads; /* [setup.thread_count] */
};

/* server_group.c */
void server_fail(struct server_group *group, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void server_peer_add(struct server_peer *peer, struct server_transfer *transfer, bool sends);

/* server_bootstrap.c: 1: all connections stand; 0: not yet; the group has failed otherwise. */
int server_bootstrap(struct server_group *group, uint64_t now_ns);
void server_bootstrap_end(struct server_group *group);

/* server_flow.c */
void server_flow_begin(struct server_group *group);
/* Moves what can be moved. */
void server_flow(struct server_group *group, uint64_t now_ns);
void server_flow_end(struct server_group *group);

/* server_segment.c */
int server_segment_head(struct server_group *group, uint16_t node, const struct server_wire_head *head);
/* Slots in the order of the chain, and the begin of those that may. */
int server_segments_begin(struct server_group *group, uint64_t now_ns);
/* A transfer is through, or a lost server's and will never be. -EREMOTEIO: it was not what it should have been. */
int server_segment_done(struct server_group *group, struct server_transfer *transfer, size_t bytes);
/* Another server is lost: what it would have announced does not come. */
void server_segments_miss(struct server_group *group);
void server_segments_free(struct server_group *group);

#endif
