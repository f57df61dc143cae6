/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of a connection over socket pairs, with the test between them: it decides how many bytes a stream carries
 * before it dies. One thread moves everything, on a fake clock, so a run depends on nothing but its arguments.
 */
#ifndef TESTS_UNIT_TRANSPORT_TCP_HARNESS_H
#define TESTS_UNIT_TRANSPORT_TCP_HARNESS_H

#include "transport/tcp/tcp.h"

enum {
	HARNESS_STREAMS = 3, /* all active, one of them the primary; or one, and the others stand by */
	HARNESS_NEXT_ACTIVE = HARNESS_STREAMS - 1,
	HARNESS_MESSAGES = 16,
	HARNESS_BYTES = 8192, /* of the longest message of a program */
	HARNESS_EAGER = 256,
	HARNESS_SEGMENT = 1024,
	HARNESS_STEPS_MAX = 20000,
	HARNESS_WHOLE = 1 << 30,
	HARNESS_PASS_MOST = 4096,
	HARNESS_MOVERS = 4,
};

enum harness_death { HARNESS_CLOSED, HARNESS_SILENT };

struct harness_message {
	int tag;
	size_t bytes;
};

/* What is sent, in this order, and the tags that are received, in that order: of one tag the n-th meets the n-th. */
struct harness_program {
	const char *name;
	unsigned count;
	struct harness_message sends[HARNESS_MESSAGES];
	int receives[HARNESS_MESSAGES];
	unsigned group;        /* receives in a request; 0: one */
	unsigned late;         /* so many of the last receives are posted when all other messages are done */
	bool receives_primary; /* a send follows its receive with some distance */
	unsigned unscheduled;  /* bytes */
	bool paced;            /* small grants */
	bool buffers;          /* one send after another, and a medium one does not wait for FIN */
};

/* Between the two sockets of a stream. */
struct harness_middle {
	int sender, receiver; /* -1 when cut */
	size_t left;          /* bytes of the sender's that still pass */
	size_t passed;
	enum harness_death death;
};

struct harness {
	struct params params;
	struct tcp_transport transport;
	struct tcp_connection *sender, *receiver;
	struct harness_middle middles[HARNESS_STREAMS];
	uint64_t now_ns, step_ns;
	const struct harness_program *program;
	uint8_t out[HARNESS_MESSAGES][HARNESS_BYTES], in[HARNESS_MESSAGES][HARNESS_BYTES];
	struct tcp_request *sends[HARNESS_MESSAGES], *receives[HARNESS_MESSAGES]; /* NULL again when done */
	size_t received[HARNESS_MESSAGES];
	bool sent_done[HARNESS_MESSAGES], received_done[HARNESS_MESSAGES];
	unsigned sent, posted, came_unscheduled, buffered;
	bool early; /* a message was announced before its turn */
	unsigned changes; /* harness_run_random: of the active streams */
	/* harness_run_random: movers with calls that others overtake; an unused one has no stream. */
	struct tcp_move moves[HARNESS_MOVERS];
	bool called[HARNESS_MOVERS];
	unsigned moved;
	bool rejoin; /* lost streams come back */
	unsigned rejoins;
	unsigned cut_all_at, cuts_left; /* the step in which all are cut, and how often from then on */
	/* When the first lost stream has come back, this one is cut after so many bytes more. */
	bool second;
	unsigned second_index;
	size_t second_left;
};

/* Of a test of cmocka: *state is a harness that is not open. */
int harness_setup(void **state);
int harness_teardown(void **state);
void harness_open(struct harness *harness, const struct harness_program *program, unsigned active_count);
void harness_close(struct harness *harness);
/* What is worth it goes through movers; the test makes their calls. */
void harness_use_movers(struct harness *harness);
/* One step of a mover: takes a stream of the queue, makes its call, or says what that has brought. */
void harness_move(struct harness *harness, unsigned index);
/* Some bytes through one stream, both ways. */
void harness_pass(struct harness_middle *middle);
void harness_pass_some(struct harness_middle *middle, size_t most);
void harness_cut_all(struct harness *harness);
/* Lost streams come back. */
void harness_rejoin(struct harness *harness);
/* True: the program is through, and every byte is right. False: the connection failed at both ends. */
bool harness_run(struct harness *harness);
/* The same in random order, with so many cuts of one stream; the test fails if the program does not come through. */
void harness_run_random(struct harness *harness, uint64_t *random, unsigned cuts);
/* Both ends and all streams in turn, a few times. */
void harness_step(struct harness *harness, unsigned rounds);

/* One message from hand to hand, within few steps; the receive first or last. Fails the test. */
void harness_exchange(struct harness *harness, int tag, size_t bytes, bool receive_first);
/* NULL: no room now. */
struct tcp_request *harness_send(struct harness *harness, const void *data, size_t bytes, int tag);
struct tcp_request *harness_receive(struct harness *harness, void *data, size_t bytes, int tag);
/* Until it is done; the received or sent bytes. */
size_t harness_finish(struct harness *harness, struct tcp_request *request);

extern const struct harness_program harness_programs[]; /* ends with a NULL name */
const struct harness_program *harness_program(const char *name);

#endif
