/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages from a seed: what is sent, in which order, in which groups it is received. Both ends make the same plan from
 * the same seed, so they may be in one process or in two. An end is moved by steps, as NCCL's proxy moves it: post what
 * may be posted, test the oldest request. Everything received is checked: content, size, and that nothing beyond the
 * message was written.
 *
 * One thread for each end. The buffers belong to the end and are freed as soon as the request is done.
 */
#ifndef TESTS_SUPPORT_TRAFFIC_H
#define TESTS_SUPPORT_TRAFFIC_H

#include "support/runtime.h"
#include "transport/transport.h"

struct traffic_shape {
	const char *name;
	unsigned messages;
	size_t min_bytes, max_bytes;         /* small ones as likely as large ones */
	unsigned group_max;                  /* receives in a group: 1 to this; 0 is 1 */
	bool shuffled;                       /* sent in another order than the receives of the group have */
	bool across;                         /* sometimes a message of the next group goes first */
	unsigned window;                     /* requests outstanding at each end; 0: all that the transport takes */
	unsigned sender_late, receiver_late; /* steps before the first post */
	size_t extra_max;                    /* a receive has room for up to so many bytes more */
	bool any_tested;                     /* test every outstanding request, not just the oldest */
};

struct traffic_message {
	size_t bytes, room_bytes;
	int tag;
};

struct traffic_group {
	unsigned first, count;
};

struct traffic_plan {
	const struct traffic_shape *shape;
	uint64_t seed;
	unsigned message_count, group_count;
	struct traffic_message *messages;
	struct traffic_group *groups;
	unsigned *send_order; /* indices of messages */
};

/* max_recvs: of the device; no group is larger. -ENOMEM. */
int traffic_plan_init(const struct traffic_shape *shape, uint64_t seed, unsigned max_recvs, struct traffic_plan *plan);
void traffic_plan_fini(struct traffic_plan *plan);

/* One outstanding request: of a message, or of a group. */
struct traffic_slot {
	struct transport_request *request;
	unsigned index; /* in send_order or groups */
	void *data[TRANSPORT_MAX_RECVS], *registrations[TRANSPORT_MAX_RECVS];
};

struct traffic_end {
	const struct transport_ops *ops;
	struct transport_connection *connection; /* borrowed */
	const struct traffic_plan *plan;
	bool sends;
	unsigned total, posted, completed, refused, steps;
	struct traffic_slot slots[TRANSPORT_MAX_REQUESTS]; /* oldest first */
	unsigned outstanding;
	struct traffic_slot next; /* prepared, not taken yet */
	bool prepared;
	uint64_t bytes; /* of completed messages */
	struct transport_request *probe;
	uint8_t probe_byte;
};

void traffic_end_init(struct traffic_end *end, const struct transport_ops *ops, struct transport_connection *connection,
		      const struct traffic_plan *plan, bool sends);
/* After the connection was closed, or when nothing is outstanding. */
void traffic_end_fini(struct traffic_end *end);
/* 1: all is done. 0: not yet. Negative: the transport's error, or -EBADMSG after a line that says what was wrong. */
int traffic_step(struct traffic_end *end);

/* The same, and then one-byte messages without end: 0 until the transport gives an error. For peers that are gone. */
int traffic_step_until_error(struct traffic_end *end);

/* One end to its end, the other being elsewhere. -ETIMEDOUT. */
int traffic_run(struct traffic_end *end, unsigned milliseconds);
/* Both ends in turn, in an order taken from the seed. */
int traffic_run_both(struct traffic_end *sender, struct traffic_end *receiver, unsigned milliseconds);
/* Plan, both ends, all done, over an open link's two ends. */
int traffic_between(const struct traffic_shape *shape, uint64_t seed, unsigned max_recvs,
		    const struct transport_ops *ops, struct transport_connection *sender,
		    struct transport_connection *receiver);

/* The shapes that every transport must carry; ends with a NULL name. */
extern const struct traffic_shape traffic_shapes[];

#endif
