/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a host is not reached, and what to do: one line for each reason, of connections (connector.c) and of `tributary check`.
 * Pure, but for errno, which is kept.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_REACH_H
#define TRIBUTARY_TRANSPORT_TCP_REACH_H

#include <stdbool.h>
#include <stddef.h>

/* Of several ways that failed the last of these tells most. */
enum tcp_reach {
	TCP_REACH_OTHER,    /* none of the others: the system's own words */
	TCP_REACH_NO_ROUTE, /* this host does not know where to send */
	TCP_REACH_NO_HOST,  /* the network says that nobody is there */
	TCP_REACH_SILENT,   /* no answer to the TCP connection */
	TCP_REACH_REFUSED,
	TCP_REACH_CLOSED,  /* it closed the connection without an answer */
	TCP_REACH_STOPPED, /* the connection stands, and nothing answers */
	TCP_REACH_FOREIGN, /* the answer is none of Tributary's */
	TCP_REACH_SECRET,  /* another process, or host, than was meant */
	TCP_REACH_MTU,     /* short packets pass, and long ones vanish */
	TCP_REACH_VERSION,
	TCP_REACH_COUNT
};

struct tcp_reach_facts {
	int error;                           /* -errno: OTHER, NO_ROUTE, NO_HOST */
	const char *ports;                   /* TRIBUTARY_PORTS, "20000-20999"; NULL: any */
	unsigned packet_bytes, passes_bytes; /* MTU: that vanish; that pass, 0: not known */
	unsigned peers_version, own_version; /* VERSION: of the protocol */
	const char *own_host, *host, *at;    /* for the line: from, to, "10.0.0.2:41234" */
	const char *interface;               /* out of which; NULL: as the system routes it */
};

enum { TCP_REACH_REASON_BYTES = 192, TCP_REACH_REMEDY_BYTES = 256, TCP_REACH_LINE_BYTES = 768 };

/* error: -errno of what was tried last. connected: the TCP connection stood. */
enum tcp_reach tcp_reach_of(int error, bool connected);
/* A clause. */
void tcp_reach_reason(enum tcp_reach reach, const struct tcp_reach_facts *facts,
		      char reason[static TCP_REACH_REASON_BYTES]);
/* A sentence without its full stop. */
void tcp_reach_remedy(enum tcp_reach reach, const struct tcp_reach_facts *facts,
		      char remedy[static TCP_REACH_REMEDY_BYTES]);
/* Both, with the place. */
void tcp_reach_line(enum tcp_reach reach, const struct tcp_reach_facts *facts, char line[static TCP_REACH_LINE_BYTES]);

#endif
