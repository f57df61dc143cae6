/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a random program over the contract (contract_program.h): what it posts, and what it checks when that
 * completes. What a message looks like follows from its tag and number alone, so both ends know it without asking.
 *
 * An end belongs to one thread. The model is shared; its lock is held across each post, so that a receive never completes
 * before the model knows of its message.
 */
#ifndef TESTS_SUPPORT_CONTRACT_END_H
#define TESTS_SUPPORT_CONTRACT_END_H

#include "support/contract_model.h"
#include "support/runtime.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CONTRACT_CLASSES = 18, CONTRACT_LEAST_BUFFER = 256, CONTRACT_MAX_BYTES = 4 << 20 };

enum contract_tag_use { CONTRACT_USED_BY_BOTH, CONTRACT_SENT_ALONE, CONTRACT_POSTED_ALONE };

/* All that a program does follows from these and the seed. */
struct contract_style {
	uint64_t seed;
	unsigned operations, tag_count, group_max;
	int tags[CONTRACT_TAGS];
	enum contract_tag_use uses[CONTRACT_TAGS];
	size_t max_bytes, more_room; /* of a message; what a receive may have beyond it */
	unsigned unmet_most;         /* requests of an end that have not met, beyond which it posts only what is due */
	unsigned stall_most;         /* operations for which an end may look at nothing */
	bool two_threads, watched, own_buffers, registers, cancels, disturbed;
	bool truncates; /* the receive for this message is one byte too short */
	unsigned short_tag;
	uint64_t short_number;
	unsigned hints; /* which of the transport's hints are given */
};

size_t contract_message_bytes(const struct contract_style *style, unsigned tag, uint64_t number);

struct contract_shared {
	struct contract_style style;
	pthread_mutex_t lock;
	struct contract_model model;
	bool broken; /* a message met a receive that is too short: the connection must end */
	_Atomic uint64_t moved_ns, operations;
	_Atomic bool stop;
	_Atomic unsigned posting, due[2];
};

struct contract_buffer {
	struct contract_buffer *next; /* not in the data, which a faulty transport may still write */
	uint8_t data[];
};

struct contract_pending {
	struct transport_request *request;
	struct contract_request what;
	uint8_t *data[TRANSPORT_MAX_RECVS];
	size_t bytes[TRANSPORT_MAX_RECVS]; /* of the message, or the room of the receive */
	void *registrations[TRANSPORT_MAX_RECVS];
};

struct contract_end {
	const struct transport_ops *ops;
	struct transport_connection *connection;
	struct contract_shared *shared;
	bool sends;
	uint64_t random;
	struct contract_pending pending[TRANSPORT_MAX_REQUESTS]; /* oldest first */
	unsigned pending_count;
	struct contract_request wanted; /* refused, although the model says that it would be due; count 0: none */
	unsigned idle_polls;            /* since the last that found something */
	int epoll_fd;
	enum transport_next next;
	struct contract_buffer *buffers[CONTRACT_CLASSES]; /* free ones, kept from program to program */
};

/* A connection of its own, not used yet. 0 or the transport's error. */
int contract_end_begin(struct contract_end *end, struct contract_shared *shared, const struct transport_ops *ops,
		       struct transport_connection *connection, bool sends);
/* After the connection was closed. -EBADMSG: something was written beyond a receive. */
int contract_end_finish(struct contract_end *end);
void contract_end_free(struct contract_end *end);

/*
 * Posts what is wanted, else a request of its choice. 1: it was taken; 0: not, and end->wanted says whether it must be in
 * time; negative: an error.
 */
int contract_end_post(struct contract_end *end);
/* Tests some of what is outstanding. The number of requests that completed; -EBADMSG after a line; the transport's error. */
int contract_end_poll(struct contract_end *end, bool all);
/* Requests that the model says must complete, and the refused one. */
unsigned contract_end_due(struct contract_end *end);

#endif
