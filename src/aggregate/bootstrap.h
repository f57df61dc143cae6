/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The set-up of a group: connections from each member to each other one, then an agreement led by the coordinator, the
 * member with the least handle. reach.c makes connections, agree.c says what is said over them. One thread.
 */
#ifndef TRIBUTARY_AGGREGATE_BOOTSTRAP_H
#define TRIBUTARY_AGGREGATE_BOOTSTRAP_H

#include "aggregate/control/secret.h"
#include "aggregate/group.h"

enum {
	/* What of a handle says whose it is: the transport uses the last bytes while it connects. */
	BOOTSTRAP_HANDLE_BYTES = AGGREGATE_HANDLE_BYTES - 8,
	/* Connections to each member: for small operations and the agreement, and for large ones. */
	BOOTSTRAP_SMALL = 0,
	BOOTSTRAP_LARGE = 1,
	BOOTSTRAP_KINDS = 2,
};

enum bootstrap_message_state { MESSAGE_NONE, MESSAGE_WAITS, MESSAGE_POSTED, MESSAGE_DONE };
/* One message of the agreement. */
struct bootstrap_message {
	enum bootstrap_message_state state;
	struct transport_connection *connection;
	bool sends;
	uint8_t *data;
	size_t bytes, received;
	struct transport_request *request;
};

/* Both directions to a member, or an aggregator. */
struct bootstrap_way {
	uint8_t handle[AGGREGATE_HANDLE_BYTES];
	struct transport_connection *out, *in;
	struct bootstrap_message hello;
	uint8_t hello_bytes[MEMBER_WIRE_HELLO_BYTES];
};

struct bootstrap_peer {
	char host[MEMBER_WIRE_NAME_BYTES]; /* "" until it has said so */
	struct bootstrap_way ways[BOOTSTRAP_KINDS];
	/* At the coordinator: what this member reports. */
	struct bootstrap_message report_in, decision_out;
	uint8_t report_bytes[MEMBER_WIRE_REPORT_BYTES];
	struct member_wire_facts facts;
	bool reported, ready;
	bool ended, lost; /* it was told the end; it cannot be */
	bool known;       /* its facts are in the coordinator's list */
	bool reached;     /* every connection to and from it stands */
};

/* A connection that came and has not said from whom. */
struct bootstrap_incoming {
	struct transport_connection *connection;
	struct bootstrap_message hello;
	uint8_t bytes[MEMBER_WIRE_HELLO_BYTES];
};

struct bootstrap {
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	const struct transport_ops *ops;
	size_t count, self; /* in the ascending order of handles; 0 is the coordinator */
	struct bootstrap_peer *peers;
	struct bootstrap_incoming *incoming; /* [BOOTSTRAP_KINDS * count] */
	uint64_t group_hash, deadline_ns, timeout_ns;
	uint64_t late_ns; /* a member: not to be waited for any longer */
	bool progressed;
	bool said_no; /* the coordinator */
	/* A member's messages with the coordinator. */
	struct bootstrap_message report_out, decision_in;
	uint8_t report_bytes[MEMBER_WIRE_REPORT_BYTES];
	uint8_t *decision_bytes; /* decision and facts of all */
	size_t decision_size;
	struct member_wire_decision decision;
	struct group *group;                       /* once the members are known */
	struct bootstrap_aggregators *aggregators; /* NULL: there are none */
	struct group_aggregators *asked;           /* the coordinator, until there is a group to hold them */
	struct control_secret secret;              /* while they are asked */
	uint32_t aggregators_standing;             /* the coordinator: as everybody sees it */
	char reason[AGGREGATE_REASON_BYTES];
};

/* bootstrap.c */
/* Sets the reason, if there is none yet, and returns -error. */
int bootstrap_fail(struct bootstrap *bootstrap, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int bootstrap_out_of_memory(struct bootstrap *bootstrap);
int bootstrap_broken_by(struct bootstrap *bootstrap, size_t peer); /* it broke the protocol */
const char *bootstrap_host(const struct bootstrap *bootstrap, size_t peer);
void bootstrap_send(struct bootstrap_message *message, struct transport_connection *connection, void *data,
		    size_t bytes);
void bootstrap_receive(struct bootstrap_message *message, struct transport_connection *connection, void *data,
		       size_t bytes);
int bootstrap_step(struct bootstrap *bootstrap, struct bootstrap_message *message);
/* Waits a little if nothing moved. -ETIMEDOUT after the deadline. */
int bootstrap_pause(struct bootstrap *bootstrap);

/* One step towards a way out, and its hello, of so many hello_bytes. eager_bytes: SIZE_MAX: as the transport has it. */
int bootstrap_dial(struct bootstrap *bootstrap, struct bootstrap_way *way, size_t hello_bytes, size_t eager_bytes);
void bootstrap_hang_up(const struct bootstrap *bootstrap, struct bootstrap_way *way);
/* reach.c */
/* One step towards the connections with that peer. 1: they stand; 0: not yet. */
int bootstrap_reach(struct bootstrap *bootstrap, size_t peer);
/* Takes those who come. */
int bootstrap_receive_incoming(struct bootstrap *bootstrap);

/* agree.c */
/* The whole agreement: bootstrap.group then has its members in order, and every connection stands. */
int bootstrap_agree(struct bootstrap *bootstrap);

#endif
