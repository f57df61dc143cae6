/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether long packets are lost on a stream's way where short ones arrive: a switch with a smaller MTU drops them and says
 * nothing (docs/design/transport.md). Pure: no clock, socket or allocation.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_MTU_RULE_H
#define TRIBUTARY_TRANSPORT_TCP_MTU_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	TCP_MTU_LEAST = 1280, /* what every network of IPv6 carries */
	TCP_MTU_REPEATS = 3,  /* 1.4 s with Linux's shortest time-out */
	/* Short frames that arrive, and so many more for each that is repeated: delayed acknowledgements repeat some in vain, and a
	 * way that loses short packets, too, has another fault. */
	TCP_MTU_SHORTS = 8,
	TCP_MTU_HEARD_NS = 20000000, /* times closer together are one: the kernel's clock is coarse */
};

/* What the kernel says of a stream that lacks acknowledgements, and of another one on the same way. */
struct tcp_mtu_sample {
	unsigned repeats;       /* by the retransmission timer, since something was acknowledged last */
	unsigned waiting_bytes; /* the longest packet of what is not acknowledged, with its headers */
	bool peer_silent;       /* it was not heard lately over this way: it is stopped, or cut off */
	uint64_t heard_ns;      /* when data last came over the way; exact to TCP_MTU_HEARD_NS / 2 */
	uint64_t gap_ns;        /* words that are further apart say nothing of what was sent between them */
	uint64_t stalled_ns;    /* for so long nothing was acknowledged */
	unsigned enough;        /* repetitions, where there is other proof; 0: there is none */
	uint64_t other;         /* names it: one that the timer does not repeat anything of; 0: there is none */
	uint64_t other_acknowledged, other_repeated; /* bytes; segments */
};

enum tcp_mtu_result {
	TCP_MTU_FINE,
	TCP_MTU_UNCLEAR, /* short frames on the other one, soon, would tell */
	TCP_MTU_SUSPECT, /* some of these have arrived, and no long packet: to be looked at soon */
	TCP_MTU_LOST,    /* long packets are lost */
};

/* All zero to begin with. */
struct tcp_mtu_rule {
	/* Private: the other one at the first look since something was acknowledged last. */
	uint64_t other, acknowledged, repeated;
	/* Repetitions: looked at; since the peer was heard last, which was then; in vain while it was heard, before and after. */
	unsigned seen, pending, counted;
	uint64_t heard_ns;
};

enum tcp_mtu_result tcp_mtu_step(struct tcp_mtu_rule *rule, const struct tcp_mtu_sample *sample);
/* The next smaller size to try; 0: there is none. */
unsigned tcp_mtu_next(unsigned packet_bytes);

#endif
