/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asking end of control connections: a group's coordinator keeps one to each aggregator service for as long as the
 * group lives, and `tributary aggregators` asks how they are. Nothing blocks, not for the address of a name either
 * (lookup.h).
 *
 * One thread at a time for each client. All it needs is to be stepped: at least four times in each timeout while a
 * group is there, for the heartbeat.
 */
#ifndef TRIBUTARY_AGGREGATE_CONTROL_CLIENT_H
#define TRIBUTARY_AGGREGATE_CONTROL_CLIENT_H

#include "aggregate/control/channel.h"

struct control_client;

struct control_client_setup {
	const char *address; /* numeric, or a name */
	uint16_t port;
	const struct control_secret *secret; /* borrowed for the client's life */
	const char *name;                    /* own, for people: the host's or the job's */
	uint64_t timeout_ns; /* for the way from here to a proved connection, and for silence afterwards */
};

enum control_event {
	CONTROL_EVENT_NONE,
	CONTROL_EVENT_PROVED, /* once: what was asked before goes out now */
	CONTROL_EVENT_OFFER,
	CONTROL_EVENT_REFUSAL, /* sentence */
	CONTROL_EVENT_READY,
	CONTROL_EVENT_FAILURE, /* sentence */
	CONTROL_EVENT_STATE,
	CONTROL_EVENT_DRAIN,
	CONTROL_EVENT_LOST, /* sentence; the client is dead, and every later step says so again */
	CONTROL_EVENT_COUNT
};
struct control_answer {
	struct control_offer offer;
	char sentence[CONTROL_SENTENCE_BYTES]; /* names the aggregator */
	struct control_state state;
	struct control_group_state groups[CONTROL_GROUPS_MAX];
};

/* -ENOMEM, -EAGAIN, -EIO; an address that is none, or leads nowhere, shows at the first step. */
int control_client_open(const struct control_client_setup *setup, struct control_client **ret);
/* Says LEAVE when it can at once. NULL is fine. */
void control_client_close(struct control_client *client);

/* One event at a time; what belongs to it is in *answer. */
enum control_event control_client_step(struct control_client *client, struct control_answer *answer);
const char *control_client_peer(const struct control_client *client); /* "address:port (name)" */

/* Before EVENT_PROVED they wait. -EBUSY: the same is waiting already; -ENOBUFS, -ENOMEM. */
int control_client_request(struct control_client *client, struct control_request *request);
int control_client_ask(struct control_client *client);
/* After EVENT_OFFER. -ENOTCONN. */
int control_client_go(struct control_client *client, struct control_go *go);

#endif
