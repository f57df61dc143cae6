/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pace of one device in this process: a granter, an estimate of the budget (measured rate × usual loop, at least two
 * bursts, and 8 ms of the rate or more for late hosts), and this process's place in the host's arbiter (arbiter.h).
 * Any thread; one mutex inside, held for some hundred nanoseconds.
 *
 * The receiver of a connection embeds a struct pace_message in each incoming message, tells what arrives, and from time
 * to time asks what it may grant. Grants given to a message of another connection are found there by its own next call
 * of pace_granted(): nothing is ever sent from here.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_PACE_H
#define TRIBUTARY_TRANSPORT_PACE_PACE_H

#include "transport/pace/granter.h"
#include "transport/pace/port.h"

#include <stdatomic.h>

#define PACE_UNSCHEDULED_BYTES       (256ULL << 10)
/*
 * A slice of NCCL's rings and trees, so that none of them waits for a grant. A grant's way back is as long as what this host
 * has to send: 20 ms of 1 MB at 400 Mbit/s.
 */
#define PACE_UNSCHEDULED_ALONE_BYTES (1ULL << 20)
/* What may be granted to one host alone; to several, where no kernel bounds what is in the network. */
#define PACE_ALONE_BYTES             (8ULL << 20)

enum { PACE_HOSTS_MAX = 64 }; /* that are told apart */

struct pace;

struct pace_message {
	struct pace_flow flow;          /* under the pace's mutex; first, so that a flow is its message */
	_Atomic uint64_t granted_bytes; /* copy of flow.granted_bytes, read without the mutex */
	struct pace_sender *sender;     /* set by the caller; NULL: not known */
	uint64_t unscheduled_bytes;     /* the same: sent before any grant */
	uint64_t came_bytes;            /* the same: of them, here before pace_add */
	uint64_t told_bytes;            /* of them the sender knows */
	uint64_t grant_sent_ns;         /* of the round-trip sample under way; 0: none */
	uint64_t sample_offset_bytes;   /* the sample ends when more than this has arrived */
};

struct pace_options {
	uint64_t speed_Bps;          /* nominal, the first estimate of the rate; 0: not known */
	uint64_t port_Bps;           /* what the switch's port carries, as far as a card can know it; 0: not known */
	uint64_t fixed_budget_bytes; /* 0: measured; otherwise taken as it is, also below two bursts */
	uint64_t most_budget_bytes;  /* of a measured budget; 0: PACE_BUDGET_MAX_BYTES */
	uint64_t quantum_bytes;      /* a burst; a measured budget is at least two; 0: 32 KiB */
	bool enabled;                /* false: everything is granted at once */
	const char *device_name; /* of the arbiter; network namespaces and users never share one. NULL: no arbiter */
	const char *arbiter_directory; /* where the processes of the host meet */
};

/*
 * -ENOMEM. An arbiter that cannot be had is one INFO line, not an error: a measured budget is a fair part by itself,
 * because it follows what this process receives.
 */
int pace_new(const struct pace_options *options, struct pace **ret);
void pace_free(struct pace *pace);
/* For pace_arbiter_turn_take and pace_arbiter_turn_leave alone. NULL: there is none; of NULL, too. */
struct pace_arbiter *pace_arbiter_of(struct pace *pace);

/* Both sides have posted this message (zeroed before, but for its sender): grants what is possible, to it or to older ones. */
void pace_add(struct pace *pace, struct pace_message *message, uint64_t total_bytes, uint64_t now_ns);
/* It was added and not removed. For whoever adds and removes it. */
static inline bool pace_holds(const struct pace_message *message)
{
	return message->flow.listed;
}
/* A message that was removed from another pace, over whose port it came, before it was complete: what was granted is charged. */
void pace_add_again(struct pace *pace, struct pace_message *message, uint64_t now_ns);
/* Bytes of it landed in their final buffer. Runs the granter. */
void pace_delivered(struct pace *pace, struct pace_message *message, uint64_t bytes, uint64_t now_ns);
/* Bytes of a message that is not added yet have come: the port carried them, beside what was granted. */
void pace_came(struct pace *pace, uint64_t bytes, uint64_t now_ns);
/* Complete, failed or closed. A message that was never added (all zero), or was removed: nothing happens. */
void pace_remove(struct pace *pace, struct pace_message *message);
/* Highest byte that may be sent, cumulative. Cheap, no lock. */
static inline uint64_t pace_granted(struct pace_message *message)
{
	return atomic_load_explicit(&message->granted_bytes, memory_order_acquire);
}
/*
 * This process sends a long message over the device. Whoever sends to many has its own port to share, and those that send to
 * it most likely do the same: then more may be granted ahead where wake-ups are late. NULL is fine. Cheap, no lock.
 */
void pace_note_send(struct pace *pace, uint64_t host, uint64_t now_ns);
/* How many hosts that was lately (fanout.h). NULL: 1. Cheap, no lock. */
unsigned pace_hosts_sent_to(struct pace *pace);
/* Nobody competes for this device: one host alone sends to it, and only to this process. Cheap, no lock. */
bool pace_has_one_sender(struct pace *pace);
/* Several hosts have sent messages at a time lately. Cheap, no lock. */
bool pace_hosts_compete(struct pace *pace);
/*
 * A sender of those that compete asks for the port's turn, or does so no more, or has so many
 * streams now. Who has it is told what becomes of the others. Between pace_join and pace_leave.
 */
void pace_want_turn(struct pace *pace, struct pace_sender *sender, bool wants, unsigned streams, uint64_t now_ns);
bool pace_has_turn(struct pace *pace, const struct pace_sender *sender); /* cheap, no lock */
bool pace_is_full(struct pace *pace);                                    /* the port; cheap, no lock */
struct pace_port_others pace_others(struct pace *pace, uint64_t now_ns);
/* A connection from that sender is there, until pace_leave. For transports that ask for pace_unscheduled. */
void pace_join(struct pace *pace, struct pace_sender *sender);
void pace_leave(struct pace *pace, struct pace_sender *sender);
/* A round trip to a peer as our kernel measured it, without wake-ups; 0: none. The least counts. */
void pace_note_path(struct pace *pace, uint64_t round_trip_ns);
/*
 * What a sender may send of its messages before it is granted anything, so that medium messages cost no round trip. The
 * hosts that may do so at a time share what the switch holds for our port (flight.h), each at most PACE_UNSCHEDULED_BYTES,
 * which a caller whose kernel bounds what is on its way may give to each of them while nobody waits for a grant. The one that
 * is known to be alone has PACE_UNSCHEDULED_ALONE_BYTES; others that are connected beside it have not. sender: NULL: none
 * that could be. 0: below two segments. Cheap, no lock.
 */
uint64_t pace_unscheduled(struct pace *pace, const struct pace_sender *sender);
/* A message waits for a grant. Cheap, no lock. */
bool pace_has_waiting(struct pace *pace);
/*
 * What each sender's kernel may have on its way at a time, because several compete for this device; 0: as much as it
 * likes. The caller tells its own kernel, which advertises no more. One that sends to several hosts may have as many times
 * more, without turns four times that; one that is not known to counts twice where we send, too. Cheap, no lock.
 */
uint64_t pace_flight(struct pace *pace, const struct pace_sender *sender);
/*
 * The bytes of all senders together last for PACE_FLIGHT_LEAST_NS (flight.h), which reads are soon enough for; not, where the
 * port may be faster than is known. Cheap, no lock.
 */
bool pace_flight_lasts(struct pace *pace);
/* The caller has just told the sender about a grant up to granted_bytes: starts a round-trip sample if none runs. */
void pace_grant_sent(struct pace *pace, struct pace_message *message, uint64_t granted_bytes, uint64_t now_ns);
/*
 * For a receiver that has messages waiting for grants and found nothing to read: forgives stalled senders and takes what
 * other processes gave back, without waiting for the next tick. Cheap, no lock, unless something is due.
 */
void pace_poll(struct pace *pace, uint64_t now_ns);
/* A few times a second, from the service thread: forgives stalled senders, reclaims crashed processes, runs the granter. */
void pace_tick(struct pace *pace, uint64_t now_ns);
/* For dumps, metrics and tests. */
struct pace_state {
	uint64_t budget_bytes, outstanding_bytes, rate_Bps, round_trip_ns;
	uint64_t limited_ns; /* time in which a message waited for a grant, since the beginning */
	size_t waiting_count;
	unsigned sharing_processes;
};
void pace_state(struct pace *pace, struct pace_state *ret);

#endif
