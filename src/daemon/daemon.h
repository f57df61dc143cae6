/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tributaryd's own structures, shared by the files of this folder and by nobody else. One thread: it listens, proves and
 * admits, answers, and sleeps in poll; the data is moved by the threads of aggregate/aggregator/aggregator.h.
 *
 * What a stranger can cost: one of DAEMON_UNPROVED_MAX slots for at most DAEMON_UNPROVED_NS, a kilobyte each. When all
 * are taken the oldest of the address that has the most makes room. Of the metrics' port: one of DAEMON_SCRAPES_MAX, until
 * the next one comes that finds none free, or for DAEMON_SCRAPE_NS.
 */
#ifndef TRIBUTARY_DAEMON_DAEMON_H
#define TRIBUTARY_DAEMON_DAEMON_H

#include "aggregate/control/channel.h"
#include "aggregate/aggregator/aggregator.h"
#include "base/metrics.h"
#include "base/params.h"
#include "daemon/options.h"

#include <poll.h>

struct text;

enum {
	DAEMON_UNPROVED_MAX = 64,
	DAEMON_IDLE_MAX = 32, /* proved, and without a group: who asks how we are */
	DAEMON_SCRAPES_MAX = 8,
	DAEMON_CONNECTIONS_MAX = DAEMON_UNPROVED_MAX + DAEMON_IDLE_MAX + CONTROL_GROUPS_MAX,
	DAEMON_POLL_MAX = DAEMON_CONNECTIONS_MAX + DAEMON_SCRAPES_MAX + DAEMON_LISTEN_MAX + 2,
	DAEMON_REQUEST_BYTES = 4096, /* of one that asks for the metrics, its headers too */
};
#define DAEMON_UNPROVED_NS           UINT64_C(5000000000)
#define DAEMON_SCRAPE_NS             UINT64_C(5000000000)
#define DAEMON_SAMPLE_NS             UINT64_C(1000000000)
#define DAEMON_OUT_OF_DESCRIPTORS_NS (50 * NS_PER_MS)

/* Counts that are sampled once a second, and how fast they grow, smoothed. */
struct daemon_rate {
	uint64_t last;
	double per_s;
};

struct daemon_group {
	uint8_t id[CONTROL_ID_BYTES];
	char name[CONTROL_NAME_BYTES];
	uint16_t member_count;
	uint64_t since_ns, timeout_ns;
	enum aggregator_state told; /* what its coordinator knows */
	struct aggregator_group *aggregator_group;
	struct daemon_rate in, out;
	struct aggregator_counters counters; /* as sampled last */
};

struct daemon_connection {
	int fd;
	struct sockaddr_storage peer;
	struct control_channel channel;
	uint64_t since_ns, heard_ns, looked_ns, spoke_ns;
	bool proved;
	struct daemon_group *group; /* NULL: none */
};

struct daemon_scrape {
	int fd;                   /* -1: free */
	uint64_t since_ns, order; /* of coming, from 1 */
	size_t bytes, sent, answer_bytes;
	char request[DAEMON_REQUEST_BYTES];
	char *answer; /* NULL: still reading */
};

struct daemon {
	const struct daemon_options *options;
	const struct params *params;
	const struct control_secret *secret;
	const struct transport_ops *ops;
	struct transport *transport;
	struct aggregator *aggregator;
	char name[CONTROL_NAME_BYTES];

	int listeners[DAEMON_LISTEN_MAX]; /* -1: closed */
	uint64_t accept_paused_until_ns;  /* out of descriptors */
	int metrics_fd, signal_fd;
	struct daemon_connection *connections[DAEMON_CONNECTIONS_MAX]; /* the first connection_count */
	size_t connection_count;
	struct daemon_scrape scrapes[DAEMON_SCRAPES_MAX];
	uint64_t scrape_count; /* since the start */

	bool draining, stopped;
	uint64_t started_ns, drain_until_ns, sampled_ns;
	uint64_t strangers, stranger_said_ns;
	uint64_t groups_served;
	/* Of groups that are gone, so that totals never shrink. */
	struct aggregator_counters past;
	struct daemon_rate in, out, cpu;
};

/* service.c */
struct daemon_setup {
	const struct daemon_options *options;
	const struct params *params;
	const struct control_secret *secret;
	const struct transport_ops *ops;
	struct transport *transport;
	int listeners[DAEMON_LISTEN_MAX]; /* -1: none; taken */
	int metrics_fd, signal_fd;        /* -1: none; taken */
};
int daemon_open(const struct daemon_setup *setup, struct daemon **ret);
void daemon_close(struct daemon *daemon);
/* Until it has been told to end, and has. */
void daemon_run(struct daemon *daemon);
/* Once round: sleeps at most wait_ms. */
void daemon_turn(struct daemon *daemon, int wait_ms);
int daemon_listen(const struct daemon_listen *at, int *ret_fd);

/* connection.c */
void daemon_connection_accept(struct daemon *daemon, int listener, uint64_t now_ns);
/* Moves bytes, answers frames, looks at its group and its times. False: it is over, and closed. */
bool daemon_connection_step(struct daemon *daemon, struct daemon_connection *connection, uint64_t now_ns);
void daemon_connection_close(struct daemon *daemon, struct daemon_connection *connection);
void daemon_connection_drain(struct daemon *daemon, struct daemon_connection *connection);
/* After what was heard or due: so long may be slept. */
bool daemon_connection_waits_for_group(const struct daemon_connection *connection);

/* groups.c */
/* Lets a group in and fills the offer, or fills the sentence that says why not. */
int daemon_group_begin(struct daemon *daemon, const struct daemon_connection *connection,
		       const struct control_request *request, struct daemon_group **ret,
		       struct control_offer *ret_offer, char sentence[static CONTROL_SENTENCE_BYTES]);
void daemon_group_end(struct daemon *daemon, struct daemon_group *group);

/* state.c */
size_t daemon_group_count(const struct daemon *daemon);
/* The rates, once a second. */
void daemon_sample(struct daemon *daemon, uint64_t now_ns);
void daemon_state(const struct daemon *daemon, uint64_t now_ns, struct control_state *ret,
		  struct control_group_state ret_groups[static CONTROL_GROUPS_MAX]);

/* metrics.c */
extern const struct metrics_table daemon_metrics_tables[];
/* Prometheus' text form. -ENOMEM: a part of it is missing. */
int daemon_metrics_print(const struct daemon *daemon, uint64_t now_ns, struct text *out);

/* scrape.c */
enum daemon_request {
	DAEMON_REQUEST_MORE, /* its end is not here yet */
	DAEMON_REQUEST_METRICS,
	DAEMON_REQUEST_ELSEWHERE,
	DAEMON_REQUEST_METHOD,
	DAEMON_REQUEST_WRONG,
	DAEMON_REQUEST_LONG,
};
/* What the first bytes of a connection ask for. Pure. */
enum daemon_request daemon_scrape_request(const char *text, size_t bytes);
void daemon_scrape_accept(struct daemon *daemon, uint64_t now_ns);
void daemon_scrape_step(struct daemon *daemon, struct daemon_scrape *scrape, uint64_t now_ns);

#endif
