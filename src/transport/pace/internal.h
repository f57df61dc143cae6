/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of struct pace share; nobody else includes it. Threads: pace.h. */
#ifndef TRIBUTARY_TRANSPORT_PACE_INTERNAL_H
#define TRIBUTARY_TRANSPORT_PACE_INTERNAL_H

#include "transport/pace/arbiter.h"
#include "transport/pace/estimator.h"
#include "transport/pace/fanout.h"
#include "transport/pace/flight.h"
#include "transport/pace/pace.h"

#include <pthread.h>

struct pace {
	pthread_mutex_t lock;
	bool enabled;
	uint64_t fixed_budget_bytes, most_budget_bytes, port_Bps;
	uint64_t path_ns; /* the least that a kernel has measured; 0: none */
	struct pace_granter granter;
	struct pace_estimator estimator;
	struct pace_arbiter *arbiter; /* NULL: none */
	struct pace_window window;
	uint64_t limited_ns;       /* as the window's, since the beginning */
	uint64_t event_ns;         /* the last time the pool was looked at */
	uint64_t source, mixed_ns; /* whose the last message was; when it was last another's than the one before */
	struct pace_arbiter_others others; /* as they were when the pool was last looked at */
	uint64_t message_ns;               /* when the last message came or ended */
	unsigned senders;                  /* that have messages coming */
	unsigned spread;                   /* of the last message's sender whose was more than one */
	bool spread_by_turns;              /* that was its `spread`, not its `hosts` */
	uint64_t spread_ns;
	struct pace_flight flight;
	/* Free where there is no connection. Who comes when none is free shares the last one. */
	struct {
		uint64_t id;
		unsigned connections, sending; /* sending: connections with messages coming */
	} hosts[PACE_HOSTS_MAX];
	unsigned hosts_connected, hosts_sending;
	unsigned hosts_most, hosts_most_before; /* that were sending at a time: in this epoch, in the last */
	uint64_t messages, hosts_epoch_ns, hosts_epoch_messages; /* in all; when the epoch began, and after how many */
	_Atomic uint64_t unscheduled_bytes;                      /* read without the lock */
	_Atomic uint64_t alone_host;                             /* the same; 0: there is none */
	_Atomic uint64_t poll_due_ns, flight_bytes;              /* the same */
	_Atomic bool flight_lasts, one_sender;                   /* the same */
	_Atomic bool compete;                                    /* the same: several hosts sent lately */
	_Atomic unsigned flight_spread;                          /* of senders whose own is not known; the same */
	_Atomic uint64_t sends_ns; /* when this process last sent a long message; the same */
	struct pace_fanout fanout;
	struct pace_port port;
	_Atomic(const struct pace_sender *) turn; /* whose it is; read without the lock */
	_Atomic bool full;                        /* the same: the port */
};

/* turn.c: says who has the port's turn; lock held. */
void pace_turn_look(struct pace *pace);

#endif
