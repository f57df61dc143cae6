/*
 * How a group comes together: connections from everybody to everybody, and an agreement over those of the coordinator,
 * the member with the least handle. connect.c makes connections, agree.c says what is said over them. One thread.
 */
#ifndef TRIBUTARY_AGGREGATE_MEETING_H
#define TRIBUTARY_AGGREGATE_MEETING_H

#include "aggregate/group.h"

enum {
	/* What of a handle says whose it is: in the rest the connecting side keeps its place. */
	MEETING_HANDLE_BYTES = AGGREGATE_HANDLE_BYTES - 8,
	/* Connections to each member: for small operations and the agreement, and for large ones. */
	MEETING_SMALL = 0,
	MEETING_LARGE = 1,
	MEETING_KINDS = 2,
};

enum mail_state { MAIL_NONE, MAIL_WAITS, MAIL_POSTED, MAIL_DONE };
/* One message of the agreement. */
struct mail {
	enum mail_state state;
	struct transport_connection *connection;
	bool sends;
	uint8_t *data;
	size_t bytes, received;
	struct transport_request *request;
};

struct meeting_peer {
	char host[AGGREGATE_WIRE_NAME_BYTES]; /* "" until it has said so */
	struct meeting_way {
		uint8_t handle[AGGREGATE_HANDLE_BYTES];
		struct transport_connection *out, *in;
		struct mail hello;
		uint8_t hello_bytes[AGGREGATE_WIRE_HELLO_BYTES];
	} ways[MEETING_KINDS];
	/* At the coordinator: what this member reports. */
	struct mail report_in, verdict_out;
	uint8_t report_bytes[AGGREGATE_WIRE_REPORT_BYTES];
	struct aggregate_wire_facts facts;
	bool reported, ready;
	bool ended, lost; /* it was told the end; it cannot be */
	bool known;       /* its facts are in the coordinator's list */
	bool reached;     /* every connection to and from it stands */
};

/* A connection that came and has not said from whom. */
struct meeting_visitor {
	struct transport_connection *connection;
	struct mail hello;
	uint8_t bytes[AGGREGATE_WIRE_HELLO_BYTES];
};

struct meeting {
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	const struct transport_ops *ops;
	size_t count, self; /* in the ascending order of handles; 0 is the coordinator */
	struct meeting_peer *peers;
	struct meeting_visitor *visitors; /* [MEETING_KINDS * count] */
	uint64_t group_hash, deadline_ns, timeout_ns;
	uint64_t late_ns; /* a member: not to be waited for any longer */
	bool progressed;
	bool said_no; /* the coordinator */
	/* A member's words with the coordinator. */
	struct mail report_out, verdict_in;
	uint8_t report_bytes[AGGREGATE_WIRE_REPORT_BYTES];
	uint8_t *verdict_bytes; /* verdict and facts of all */
	size_t verdict_size;
	struct aggregate_wire_verdict verdict;
	struct group *group;             /* once the members are known */
	struct meeting_servers *servers; /* NULL: there are none */
	struct group_servers *asked;     /* the coordinator, until there is a group to hold them */
	uint32_t servers_standing;       /* the coordinator: as everybody sees it */
	char reason[AGGREGATE_REASON_BYTES];
};

/* connect.c */
/* Sets the reason, if there is none yet, and returns -error. */
int meeting_fail(struct meeting *meeting, int error, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *meeting_host(const struct meeting *meeting, size_t peer);
/* One step towards the connections with that peer. 1: they stand; 0: not yet. */
int meeting_reach(struct meeting *meeting, size_t peer);
/* Takes those who come. */
int meeting_receive_visitors(struct meeting *meeting);
void mail_send(struct mail *mail, struct transport_connection *connection, void *data, size_t bytes);
void mail_receive(struct mail *mail, struct transport_connection *connection, void *data, size_t bytes);
int mail_step(struct meeting *meeting, struct mail *mail);
/* Waits a little if nothing moved. -ETIMEDOUT after the deadline. */
int meeting_pause(struct meeting *meeting);

/* agree.c */
/* The whole agreement: meeting.group then has its members in order, and every connection stands. */
int meeting_agree(struct meeting *meeting);

#endif
