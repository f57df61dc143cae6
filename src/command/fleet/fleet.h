/*
 * `tributary cluster measure`: one process on each host, which somebody's launcher started. Rank 0 is the chief: all others
 * connect to it, prove that they have the secret (aggregate/control/channel.h), and do what it says: send to these hosts,
 * receive from those, for so long, and report. Data goes straight between hosts, over connections that show a token of
 * this run. docs/cluster.md. Inner header of src/command.
 */
#ifndef TRIBUTARY_COMMAND_FLEET_FLEET_H
#define TRIBUTARY_COMMAND_FLEET_FLEET_H

#include "aggregate/control/channel.h"
#include "measure/fabric.h"

#include "base/log.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	FLEET_RANKS_MAX = 8192,
	FLEET_NAME_BYTES = 64,
	FLEET_TOKEN_BYTES = 16,
	FLEET_ADDRESS_TEXT_BYTES = 256,
	FLEET_PORT_DEFAULT = 29471,
	FLEET_STREAMS_MAX = 16,
	FLEET_VERSION = 2, /* of the messages; 1 had none in its HELLO */
};

/* ------------------------------------------------------------------------------------------------------- place.c, pure */

/* Where this process is in the job, from what its launcher says in the environment. */
struct fleet_place {
	uint32_t rank, size;
	char address[FLEET_ADDRESS_TEXT_BYTES]; /* where rank 0 listens; "": nobody says */
	uint16_t port;
};
/* get: as getenv. master: ADDRESS or ADDRESS:PORT or [ADDRESS]:PORT, in place of what the environment says; may be NULL. */
int fleet_place_find(const char *(*get)(const char *name), const char *master, struct fleet_place *ret,
		     struct diag *diag);

/* -------------------------------------------------------------------------------------------------------- wire.c, pure */

/* An address and port, IPv4 in IPv6's form. */
struct fleet_address {
	uint8_t ip[16];
	uint16_t port;
};
void fleet_address_of(const struct sockaddr_storage *from, struct fleet_address *ret);
socklen_t fleet_address_to(const struct fleet_address *from, struct sockaddr_storage *ret);
/* Of a host for itself. */
bool fleet_address_is_loopback(const struct fleet_address *address);
/*
 * Whether what rank 0's address, as the user gives it, means here is a loopback address. Where a name means that (Debian's
 * 127.0.1.1 for a host's own name) others know it as another one: *address, to listen at, becomes all addresses.
 */
bool fleet_address_widen(const char *given, struct sockaddr_storage *address);

enum fleet_kind {
	FLEET_NONE,
	/* REPORTs */
	FLEET_HELLO,     /* rank, boot, address, name; after the version */
	FLEET_RATES,     /* round, flows with rates: of those received */
	FLEET_LATENCIES, /* round, median_ns, least_ns */
	FLEET_TROUBLE,   /* sentence */
	/* TELLs */
	FLEET_WELCOME, /* index or FLEET_IDLE, token, limit_Bps, streams */
	FLEET_PEERS,   /* first, addresses */
	FLEET_ROUND,   /* round, duration_ms, flows: of this host, sends and receives; none: it is idle, and answers */
	FLEET_PING,    /* round, peer */
	FLEET_END,     /* sentence; "": all is well */
	FLEET_HERE,    /* nothing: the chief thinks */
	FLEET_KIND_COUNT
};
enum { FLEET_IDLE = UINT16_MAX };
struct fleet_task {
	uint16_t flow; /* number in the round */
	uint16_t peer; /* FLEET_ROUND: the host to send to, or FLEET_IDLE: it is received */
	uint64_t rate_Bps;
};
enum { FLEET_TASKS_MAX = FABRIC_HOSTS_MAX + 64, FLEET_PEERS_MAX = 512 };
struct fleet_message {
	enum fleet_kind kind;
	uint32_t rank, round, duration_ms, streams;
	uint16_t index, peer, first, version;
	uint64_t boot;
	uint64_t limit_Bps, median_ns, least_ns;
	uint8_t token[FLEET_TOKEN_BYTES];
	char name[FLEET_NAME_BYTES];
	char sentence[CONTROL_SENTENCE_BYTES];
	struct fleet_address address;
	size_t task_count, peer_count;
	struct fleet_task tasks[FLEET_TASKS_MAX];
	struct fleet_address peers[FLEET_PEERS_MAX];
};
/* Bytes; payload has CONTROL_PAYLOAD_MAX. */
size_t fleet_message_put(const struct fleet_message *message, uint8_t *payload);
/* -EBADMSG; -EPROTO: a HELLO of another version, ret->version. Of *ret only what belongs to the kind is written. */
int fleet_message_get(const uint8_t *payload, size_t bytes, bool from_member, struct fleet_message *ret);

/* The first bytes of a connection for data. */
enum { FLEET_KNOCK_BYTES = 32 };
struct fleet_knock {
	bool echo; /* each byte comes back; else they are taken and counted */
	uint16_t flow;
	uint32_t round;
	uint8_t token[FLEET_TOKEN_BYTES];
};
void fleet_knock_put(const struct fleet_knock *knock, uint8_t bytes[static FLEET_KNOCK_BYTES]);
int fleet_knock_get(const uint8_t bytes[static FLEET_KNOCK_BYTES], struct fleet_knock *ret);

/* -------------------------------------------------------------------------------------------------------------- line.c */

/* A control connection; blocks with a limit and looks at a flag. */
struct fleet_line {
	int fd;
	struct control_channel channel;
};
/* Sends a message, as far as the socket takes it; fleet_line_step sends the rest. -errno: the line is dead. */
int fleet_line_say(struct fleet_line *line, const struct fleet_message *message);
/* 1: *ret is there; 0: not yet; -errno: dead, line->channel.why. */
int fleet_line_step(struct fleet_line *line, struct fleet_message *ret);
short fleet_line_events(const struct fleet_line *line);
void fleet_line_fini(struct fleet_line *line);

/* -------------------------------------------------------------------------------------------------------------- port.c */

/* Takes data of this run, in threads of its own. */
struct fleet_port;
int fleet_port_open(const struct sockaddr_storage *address, socklen_t bytes, struct fleet_port **ret,
		    struct sockaddr_storage *ret_bound);
void fleet_port_close(struct fleet_port *port); /* NULL is fine */
void fleet_port_admit(struct fleet_port *port, const uint8_t token[static FLEET_TOKEN_BYTES]);
/*
 * What the kernel says of a flow's connections: bytes without a gap, segments with data, how many of them came before
 * others that were due, and the size of the largest.
 */
struct fleet_count {
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
uint64_t fleet_port_moved(const struct fleet_count *before, const struct fleet_count *after);
/* Of that flow so far, over all of its connections. */
void fleet_port_count(struct fleet_port *port, uint32_t round, uint16_t flow, struct fleet_count *ret);

/* Sends until stopped. */
struct fleet_sender;
struct fleet_sending {
	const struct fleet_address *to;
	struct fleet_knock knock;
	uint64_t limit_Bps; /* 0: none */
	const _Atomic bool *stop;
};
int fleet_sender_start(const struct fleet_sending *what, struct fleet_sender **ret);
/* What became of it: 0 or -errno. */
int fleet_sender_end(struct fleet_sender *sender);
/* Of `count` echoes of one byte. */
int fleet_ping(const struct fleet_sending *what, unsigned count, uint64_t *ret_median_ns, uint64_t *ret_least_ns);

/* ------------------------------------------------------------------------------------------------------------ herald.c */

/* A thread that calls `say` every so often, but for when it is hushed. All zeros but while it runs. */
struct fleet_herald {
	pthread_mutex_t lock;
	pthread_t thread;
	atomic_bool over;
	_Atomic uint64_t last_ns;
	uint64_t every_ns;
	void (*say)(void *arg);
	void *arg;
};
int fleet_herald_start(struct fleet_herald *at, uint64_t every_ns, void (*say)(void *arg), void *arg);
/* Between the two it does not call, and time begins anew. */
void fleet_herald_hush(struct fleet_herald *at);
void fleet_herald_resume(struct fleet_herald *at);
void fleet_herald_end(struct fleet_herald *at);

/* --------------------------------------------------------------------------------------------- member.c, chief.c */

struct fleet_setup {
	struct fleet_place place;
	const struct control_secret *secret;
	char name[FLEET_NAME_BYTES]; /* of this host */
	uint64_t boot;               /* of its kernel, to tell it from another of that name; 0: not known */
	uint64_t timeout_ns;
	const _Atomic bool *stop; /* set by a signal */
	const atomic_bool *over;  /* set by the chief of the same process; NULL: it is in another */
};
/* Until the chief says END: 0, or -errno with the reason. */
int fleet_member_run(const struct fleet_setup *setup, struct diag *diag);

struct fleet_latency {
	uint16_t from, to;
	uint64_t median_ns, least_ns;
};
struct fleet_options {
	uint32_t round_ms, streams;
	uint64_t limit_Bps, seed;
	void (*progress)(size_t round, size_t of, void *arg);
	void *progress_arg;
};
struct fleet_result {
	size_t host_count, latency_count;
	char (*names)[FLEET_NAME_BYTES]; /* [host_count] */
	struct fabric fabric;
	struct fleet_latency *latencies;
	double seconds;
};
/* Rank 0: waits for all, measures, sends them home. Its own host's member runs in a thread. */
int fleet_chief_run(const struct fleet_setup *setup, const struct fleet_options *options, struct fleet_result *ret,
		    struct diag *diag);
void fleet_result_fini(struct fleet_result *result);

#endif
