/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that are played to the controller of streams (transport/tcp/streams.h): a fluid model in steps of 1 ms. Flows share
 * links max-min fairly under a cap each; a connection keeps 1 to 4 MiB open, as NCCL does, or is a hop of a ring that sends what
 * the one before has delivered. The seed decides all.
 */
#ifndef TESTS_UNIT_TRANSPORT_TCP_STREAMS_NETWORK_H
#define TESTS_UNIT_TRANSPORT_TCP_STREAMS_NETWORK_H

#include "transport/pace/port.h"
#include "transport/tcp/growth_memory.h"

enum {
	CONNECTIONS_MOST = 12,
	FOREIGN_MOST = 16,
	FLOWS_MOST = CONNECTIONS_MOST * TCP_STREAMS_RAIL_MAX + FOREIGN_MOST,
	PATHS = 4,
	/* Links: own ports, receivers' ports, what all connections share, paths. */
	LINK_RECEIVERS = CONNECTIONS_MOST,
	LINK_SHARED = 2 * CONNECTIONS_MOST,
	LINK_PATHS,
	LINKS = LINK_PATHS + PATHS,
	SECONDS_MOST = 40,
	BUCKETS = SECONDS_MOST * 100,
};
#define PORT_BPS 250e6

/* Whose ports a connection has. Pairs: each its own. */
enum pattern { PATTERN_PAIRS, PATTERN_INCAST, PATTERN_ALLTOALL, PATTERN_TREES };
enum caps { CAPS_NONE, CAPS_EQUAL, CAPS_UNEQUAL };

struct scenario {
	const char *name;
	unsigned connections; /* 0: 1 */
	bool ring;            /* connection i + 1 sends what i delivered */
	bool one_way;         /* all connections have one pair of ports */
	enum pattern pattern; /* INCAST: to one host; ALLTOALL, TREES of NCCL: twelve connections of four hosts */
	double receiver_hint; /* the speed that receivers' kernels say, in ports; 0: not known */
	double round_mib;     /* each sends so much, and then all wait for the last; 0: always */
	bool one_capped;      /* the cap is that of connection 0 */
	enum caps caps;
	double cap;              /* of a flow, in ports */
	double hint;             /* the speed that the kernel says, in ports; 0: not known */
	double shared;           /* capacity of a link that all share, in ports; 0: none */
	unsigned foreign;        /* flows of others on it */
	bool paths;              /* four links of a quarter of the port */
	double receiver;         /* takes so much, in ports; 0: as it comes */
	double noise;
	unsigned remembered, most;
	double most_from_s, most_until_s; /* other hosts send meanwhile */
	double cap_from_s, cap_until_s;   /* 0, 0: always */
	double round_trip_s;
	double open_mib; /* 0: 2 */
	double alone_from_s; /* from then on only connection 0 sends; 0: all do */
	double burst_s;  /* opens them each so many seconds, and then rests; 0: always */
	unsigned answered; /* streams that come to be: more dials have no answer; 0: all */
	double seconds;  /* 0: 10 */
	/* What is asked of it: */
	double share;     /* of what 32 streams carry, at the end; 0: no stream more than one */
	double settled_s; /* reached after so much time */
	double foreign_kept;
	unsigned failed_most; /* trials */
	unsigned changes_most; /* in the last 5 s */
	double restart_s;     /* settled_s counts from here; what is carried before does not count */
	unsigned streams_least;
	bool shrinks;   /* one stream at the end */
	bool untouched; /* no stream dialled; one connection alone needs no system call for it */
};

struct connection {
	struct tcp_streams streams;
	struct tcp_streams_answer answer;
	struct tcp_streams_sample sample;
	unsigned port, receiver; /* whose ports */
	struct pace_sender sender;
	double sent;
	double open_bytes, unconsumed; /* granted and not acknowledged; what the receiver has not consumed */
	uint32_t ready, dialling;
	double dialled_s[TCP_STREAMS_RAIL_MAX];
	double cap[TCP_STREAMS_RAIL_MAX];
	unsigned path[TCP_STREAMS_RAIL_MAX];
	double moved[TCP_STREAMS_RAIL_MAX]; /* in this step */
	double port_seen;                   /* counter at the last tick */
	unsigned settled_count;
	enum tcp_streams_state state_before;
	uint32_t trial_from;
};

struct flow {
	struct connection *connection; /* NULL: foreign */
	unsigned stream;
	int link[4];
	double cap, rate;
	bool fixed;
};

struct network {
	const struct scenario *scenario;
	uint64_t random;
	double now_s;
	unsigned connection_count;
	struct connection connections[CONNECTIONS_MOST];
	struct tcp_streams_way ways[CONNECTIONS_MOST];
	int turn[CONNECTIONS_MOST];
	struct tcp_growth_memory *memory; /* NULL: as the scenario says, as soon as it is asked for */
	struct tcp_growth_recall recall[CONNECTIONS_MOST];
	double port_bytes[CONNECTIONS_MOST];
	struct pace_port receivers[CONNECTIONS_MOST];
	double link_noise[LINKS];
	double stream_noise[CONNECTIONS_MOST][TCP_STREAMS_RAIL_MAX];
	struct flow flows[FLOWS_MOST];
	unsigned flow_count;
	double carried[BUCKETS], foreign_bytes[BUCKETS];
	/* What became of it. */
	unsigned failed, failed_late, changes_late, open_most_late, dialled, detailed;
	unsigned fixed; /* streams of a run without controller */
};

double network_seconds(const struct scenario *scenario);
/* fixed: so many streams, without a controller; 0: what the controller finds. */
void network_make(struct network *network, const struct scenario *scenario, uint64_t seed, unsigned fixed);
void network_play(struct network *network, double seconds);

#endif
