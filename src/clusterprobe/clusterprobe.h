/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tributary cluster measure`: one process on each host, which somebody's launcher started. Rank 0 is the coordinator: all others
 * connect to it, prove that they have the secret (aggregate/control/channel.h), and do what it says: send to these hosts,
 * receive from those, for so long, and report. Data goes straight between hosts, over connections that show a token of
 * this run. docs/design/measuring.md.
 *
 * `tributary check` has the same coordinator and workers, or workers at the other end of a remote shell: it asks them
 * questions in words of its own.
 */
#ifndef TRIBUTARY_CLUSTERPROBE_CLUSTERPROBE_H
#define TRIBUTARY_CLUSTERPROBE_CLUSTERPROBE_H

#include "aggregate/control/channel.h"
#include "clusterprobe/fabric.h"

#include "base/log.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	CLUSTERPROBE_RANKS_MAX = 8192,
	CLUSTERPROBE_NAME_BYTES = 64,
	CLUSTERPROBE_TOKEN_BYTES = 16,
	CLUSTERPROBE_ADDRESS_TEXT_BYTES = 256,
	CLUSTERPROBE_PORT_DEFAULT = 29471,
	CLUSTERPROBE_STREAMS_MAX = 16,
	CLUSTERPROBE_TEXT_BYTES = CONTROL_PAYLOAD_MAX - 8,
	CLUSTERPROBE_VERSION = 3, /* of the messages; 1 had none in its HELLO, 2 no ASK */
};

/* ------------------------------------------------------------------------------------------------------- launch.c, pure */

/* Where this process is in the job, from what its launcher says in the environment. */
struct clusterprobe_launch {
	uint32_t rank, size;
	char address[CLUSTERPROBE_ADDRESS_TEXT_BYTES]; /* where rank 0 listens; "": nobody says */
	uint16_t port;
};
/* get: as getenv. master: ADDRESS or ADDRESS:PORT or [ADDRESS]:PORT, in place of what the environment says; may be NULL. */
int clusterprobe_launch_find(const char *(*get)(const char *name), const char *master, struct clusterprobe_launch *ret,
			     struct diag *diag);

/* -------------------------------------------------------------------------------------------------------- wire.c, pure */

/* An address and port, IPv4 in IPv6's form. */
struct clusterprobe_address {
	uint8_t ip[16];
	uint16_t port;
};
void clusterprobe_address_of(const struct sockaddr_storage *from, struct clusterprobe_address *ret);
socklen_t clusterprobe_address_to(const struct clusterprobe_address *from, struct sockaddr_storage *ret);
/* Of a host for itself. */
bool clusterprobe_address_is_loopback(const struct clusterprobe_address *address);
/*
 * Whether what rank 0's address, as the user gives it, means here is a loopback address. Where a name means that (Debian's
 * 127.0.1.1 for a host's own name) others know it as another one: *address, to listen at, becomes all addresses.
 */
bool clusterprobe_address_widen(const char *given, struct sockaddr_storage *address);

enum clusterprobe_kind {
	CLUSTERPROBE_NONE,
	/* REPORTs */
	CLUSTERPROBE_HELLO,     /* rank, boot, address, name; after the version */
	CLUSTERPROBE_RATES,     /* round, flows with rates: of those received */
	CLUSTERPROBE_LATENCIES, /* round, median_ns, least_ns */
	CLUSTERPROBE_ANSWER,    /* round, text */
	CLUSTERPROBE_TROUBLE,   /* sentence */
	/* TELLs */
	CLUSTERPROBE_WELCOME, /* index or CLUSTERPROBE_IDLE, token, limit_Bps, streams */
	CLUSTERPROBE_PEERS,   /* first, addresses */
	CLUSTERPROBE_ROUND, /* round, duration_ms, flows: of this host, sends and receives; none: it is idle, and answers */
	CLUSTERPROBE_PING, /* round, peer */
	CLUSTERPROBE_ASK,  /* round, text */
	CLUSTERPROBE_END,  /* sentence; "": all is well */
	CLUSTERPROBE_HERE, /* nothing: the coordinator thinks */
	CLUSTERPROBE_KIND_COUNT
};
enum { CLUSTERPROBE_IDLE = UINT16_MAX };
struct clusterprobe_task {
	uint16_t flow; /* number in the round */
	uint16_t peer; /* CLUSTERPROBE_ROUND: the host to send to, or CLUSTERPROBE_IDLE: it is received */
	uint64_t rate_Bps;
};
enum { CLUSTERPROBE_TASKS_MAX = FABRIC_HOSTS_MAX + 64, CLUSTERPROBE_PEERS_MAX = 512 };
struct clusterprobe_message {
	enum clusterprobe_kind kind;
	uint32_t rank, round, duration_ms, streams;
	uint16_t index, peer, first, version, task_count, peer_count, text_bytes;
	uint64_t boot;
	uint64_t limit_Bps, median_ns, least_ns;
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
	char name[CLUSTERPROBE_NAME_BYTES];
	char sentence[CONTROL_SENTENCE_BYTES];
	struct clusterprobe_address address;
	struct clusterprobe_task tasks[CLUSTERPROBE_TASKS_MAX];
	struct clusterprobe_address peers[CLUSTERPROBE_PEERS_MAX];
	char text[CLUSTERPROBE_TEXT_BYTES + 1]; /* with a NUL behind it */
};
/* Bytes; payload has CONTROL_PAYLOAD_MAX. */
size_t clusterprobe_message_put(struct clusterprobe_message *message, uint8_t *payload);
/* -EBADMSG; -EPROTO: a HELLO of another version, ret->version. Of *ret only what belongs to the kind is written. */
int clusterprobe_message_get(const uint8_t *payload, size_t bytes, bool from_worker, struct clusterprobe_message *ret);

/* The first bytes of a connection for data. */
enum { CLUSTERPROBE_PREAMBLE_BYTES = 32 };
struct clusterprobe_preamble {
	bool echo; /* each byte comes back; else they are taken and counted */
	uint16_t flow;
	uint32_t round;
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
};
int clusterprobe_preamble_codec(struct codec *codec, struct clusterprobe_preamble *preamble);

/* -------------------------------------------------------------------------------------------------------------- control.c */

/* The standard input and output of a process that a remote shell started. */
struct clusterprobe_pipe {
	int in, out; /* non-blocking */
};
/* A control connection; blocks with a limit and looks at a flag. */
struct clusterprobe_control {
	int fd;
	const struct clusterprobe_pipe *pipe; /* in place of a socket; fd is its input */
	struct control_channel channel;
};
/* As control_channel_move. */
int clusterprobe_control_move(struct clusterprobe_control *control);
/* Sends a message, as far as the socket takes it; clusterprobe_control_step sends the rest. -errno: the connection is dead. */
int clusterprobe_control_say(struct clusterprobe_control *control, struct clusterprobe_message *message);
/* 1: *ret is there; 0: not yet; -errno: dead, control->channel.why. */
int clusterprobe_control_step(struct clusterprobe_control *control, struct clusterprobe_message *ret);
short clusterprobe_control_events(const struct clusterprobe_control *control);
void clusterprobe_control_fini(struct clusterprobe_control *control);

/* -------------------------------------------------------------------------------------------------------------- data.c */

/* Takes data of this run, in threads of its own. */
struct clusterprobe_receiver;
int clusterprobe_receiver_open(const struct sockaddr_storage *address, socklen_t bytes,
			       struct clusterprobe_receiver **ret, struct sockaddr_storage *ret_bound);
/* On a socket that listens; takes fd, which is closed on an error. */
int clusterprobe_receiver_start(int fd, struct clusterprobe_receiver **ret);
void clusterprobe_receiver_close(struct clusterprobe_receiver *port); /* NULL is fine */
void clusterprobe_receiver_admit(struct clusterprobe_receiver *port,
				 const uint8_t token[static CLUSTERPROBE_TOKEN_BYTES]);
/*
 * What the kernel says of a flow's connections: bytes without a gap, segments with data, how many of them came before
 * others that were due, and the size of the largest.
 */
struct clusterprobe_count {
	uint64_t in_order, segments, out_of_order;
	uint32_t segment_bytes;
};
/*
 * Bytes that came between two counts, those behind a gap too: where the first burst of a connection was lost in part, what
 * has come since waits for the gap, and then counts all at once, which was a fifth too much over a slow uplink. No more of
 * what waits than came out of order meanwhile (segments need not be full, and over the loopback interface few are), and of
 * what a gap had held back no more than there were segments. From the counts' difference alone: what a sender repeated for
 * nothing before the first one was added at the second, a quarter too much.
 */
uint64_t clusterprobe_receiver_moved(const struct clusterprobe_count *before, const struct clusterprobe_count *after);
/* Of that flow so far, over all of its connections. */
void clusterprobe_receiver_count(struct clusterprobe_receiver *port, uint32_t round, uint16_t flow,
				 struct clusterprobe_count *ret);

/* Sends until stopped. */
struct clusterprobe_sender;
struct clusterprobe_sending {
	struct clusterprobe_address to;
	struct clusterprobe_preamble preamble;
	uint64_t limit_Bps; /* 0: none */
	const _Atomic bool *stop;
};
int clusterprobe_sender_start(const struct clusterprobe_sending *what, struct clusterprobe_sender **ret);
/* What became of it: 0 or -errno. */
int clusterprobe_sender_end(struct clusterprobe_sender *sender);
/* Of `count` echoes of one byte. */
int clusterprobe_ping(const struct clusterprobe_sending *what, unsigned count, uint64_t *ret_median_ns,
		      uint64_t *ret_least_ns);

/* --------------------------------------------------------------------------------------------- worker.c, coordinator.c */

struct clusterprobe_setup {
	struct clusterprobe_launch launch;
	const struct control_secret *secret;
	char name[CLUSTERPROBE_NAME_BYTES]; /* of this host */
	uint64_t boot;                      /* of its kernel, to tell it from another of that name; 0: not known */
	uint64_t timeout_ns;
	const _Atomic bool *stop; /* set by a signal */
	const atomic_bool *over;  /* set by the coordinator of the same process; NULL: it is in another */
	/* A worker of `tributary check`; NULL: one that measures. -errno, or the bytes of its answer. */
	int (*answer)(void *arg, const char *question, char ret[static CLUSTERPROBE_TEXT_BYTES]);
	void *answer_arg;
	const struct clusterprobe_pipe *pipe; /* of a worker: to the coordinator; NULL: it dials launch.address */
};
/* Until the coordinator says END: 0, or -errno with the reason. */
int clusterprobe_worker_run(const struct clusterprobe_setup *setup, struct diag *diag);

struct clusterprobe_latency {
	uint16_t from, to;
	uint64_t median_ns, least_ns;
};
/* What one flow carries, and several of the same two hosts. */
struct clusterprobe_flows {
	uint16_t from, to;
	unsigned count; /* 0: not measured, as each flow has several connections anyway */
	double one_Bps, all_Bps;
};
struct clusterprobe_options {
	uint32_t round_ms, streams;
	uint64_t limit_Bps, seed;
	void (*progress)(size_t round, size_t of, void *arg);
	void *progress_arg;
};
struct clusterprobe_result {
	size_t host_count, latency_count;
	char (*names)[CLUSTERPROBE_NAME_BYTES]; /* [host_count] */
	struct fabric fabric;
	struct clusterprobe_latency *latencies;
	struct clusterprobe_flows flows;
	double seconds;
};
/* Rank 0: waits for all, measures, sends them home. Its own host's worker runs in a thread. */
int clusterprobe_coordinator_run(const struct clusterprobe_setup *setup, const struct clusterprobe_options *options,
				 struct clusterprobe_result *ret, struct diag *diag);
void clusterprobe_result_fini(struct clusterprobe_result *result);

/* ------------------------------------------------------------------------------------------------------------ session.c */

struct clusterprobe_member {
	char name[CLUSTERPROBE_NAME_BYTES];
	char why[CONTROL_SENTENCE_BYTES]; /* it does not answer, a clause; "": it does */
	const char *question;             /* the caller's; NULL: none */
	char *answer;                     /* to the last question, with a NUL behind it; NULL: none came */
	uint64_t sent_ns, came_ns;
	int fd; /* the caller's: of a remote shell, a socket; -1: it could not be started */
};
/* The hosts that are asked. One that fails leaves the others alone: its `why` is set. */
struct clusterprobe_session;
/*
 * Rank 0, with setup->answer for its own host; waits for the others until setup->timeout_ns. Or, with members, which are then
 * the caller's and stay: one for each remote shell. -errno with the reason.
 */
int clusterprobe_session_open(const struct clusterprobe_setup *setup, struct clusterprobe_member *shells,
			      size_t shell_count, struct clusterprobe_session **ret, struct diag *diag);
struct clusterprobe_member *clusterprobe_session_members(struct clusterprobe_session *session, size_t *ret_count);
/* Puts its question to each, and waits so long for all answers. Only a signal is an error. */
int clusterprobe_session_ask(struct clusterprobe_session *session, uint64_t timeout_ns);
void clusterprobe_session_close(struct clusterprobe_session *session); /* NULL is fine */

#endif
