/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What several hosts that send to one port may try. More streams of one of them may take from the
 * others, which only the receiver sees: so one connection at a time has the port's turn to try
 * something, and its sender is told what becomes of the others meanwhile. A port that is full needs
 * no more streams. Pure: values in, values out; one thread at a time. Senders are the caller's.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_PORT_H
#define TRIBUTARY_TRANSPORT_PACE_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* What came of a sender, and how long its messages came: while the holder's did. */
struct pace_port_measure {
	uint64_t bytes, ns;
};

/* One sender: a connection's other end. Zeroed but for its host; it outlives its messages. */
struct pace_sender {
	uint64_t host;   /* set by the caller before pace_join; 0: not known */
	unsigned spread; /* set by the caller: hosts among which it takes turns, as aggregation does; 0, 1: not known */
	unsigned
		hosts; /* the same: that it sends to by its own word, as in an AlltoAll; counts where `spread` does not */
	unsigned place;        /* private: of its host, among PACE_HOSTS_MAX */
	unsigned coming_count; /* private: its messages that were added and not removed */
	uint64_t held_bytes;   /* private: what it was granted and has not delivered */
	/* Private, of port.c. */
	LIST_ENTRY(pace_sender) link;
	TAILQ_ENTRY(pace_sender) asks; /* for the turn */
	bool wants;                    /* asks, or has it */
	unsigned streams;
	uint64_t coming_ns; /* up to when the time of its messages is in `now` */
	struct pace_port_measure usual, now;
};

#define PACE_PORT_TURN_NS (2000ULL * 1000 * 1000) /* four times a trial's deadline: then it is another's, if one asks */

struct pace_port {
	bool sends; /* set by the caller: so does this host */
	/* Private. */
	uint64_t payload_Bps; /* nominally; 0: not known */
	struct pace_port_measure all; /* while anything was granted that had not come */
	bool known, full;
	bool tried, took; /* the holder has had other streams; they took from others */
	LIST_HEAD(, pace_sender) senders;
	TAILQ_HEAD(, pace_sender) asking;
	struct pace_sender *holder; /* NULL: nobody has the turn */
	unsigned streams;           /* of the holder when it got the turn */
	unsigned failed;            /* turns in a row that left nothing */
	uint64_t until_ns, after_ns;
	uint64_t settles_ns; /* what comes until then is not of the present streams; 0: it is */
};

/* Of the turn's holder with other streams than it had first. */
struct pace_port_others {
	uint64_t measured_ns; /* while its messages came; 0: it has the streams that it had first */
	double kept;          /* of what others sent before, each while its messages came */
	double lost_Bps;      /* the rest, in the holder's time */
	double each_Bps;      /* of one of them, on average */
};

/* port_Bps: on the wire; 0: not known. */
void pace_port_init(struct pace_port *port, uint64_t port_Bps);
void pace_port_join(struct pace_port *port, struct pace_sender *sender);
void pace_port_leave(struct pace_port *port, struct pace_sender *sender, uint64_t now_ns);
/* Time has passed, in which something that was granted had not come. */
void pace_port_pass(struct pace_port *port, uint64_t passed_ns);
/* Before its coming_count changes to or from 0. */
void pace_port_turns(struct pace_port *port, struct pace_sender *sender, uint64_t now_ns);
/* Of that sender; NULL: of another process. */
void pace_port_came(struct pace_port *port, struct pace_sender *sender, uint64_t bytes, uint64_t now_ns);
/* Of all senders 0.93 of the nominal payload came. A port that takes more than that is faster than is known. */
bool pace_port_is_full(const struct pace_port *port);
/*
 * The sender asks for the turn, or does so no more, or has so many streams now. A turn that left as
 * many as before is followed by a hold for all senders, longer each time.
 */
void pace_port_want(struct pace_port *port, struct pace_sender *sender, bool wants, unsigned streams, uint64_t now_ns);
/* Who has the turn now; NULL: nobody. */
struct pace_sender *pace_port_turn(struct pace_port *port, uint64_t now_ns);
struct pace_port_others pace_port_others(struct pace_port *port, uint64_t now_ns);

#endif
