/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of the network one of several competing senders may fill at a time. The budget bounds what hosts may send
 * within milliseconds, because hosts are late; the queue of a switch overflows in microseconds, and only the kernels
 * answer as fast. So the receiver's kernel is told to advertise no more than a part of what the path and a small buffer
 * hold: docs/design/transport.md, "In flight". Pure: values in, values out; one thread at a time.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_FLIGHT_H
#define TRIBUTARY_TRANSPORT_PACE_FLIGHT_H

#include <stdint.h>

/*
 * What we take every switch to hold for a port, of all senders together: so many bytes, for less makes segments too small, and
 * so much time where the port is known to be fast, for switches with faster ports hold more.
 */
#define PACE_FLIGHT_LEAST_BYTES (80ULL << 10)
#define PACE_FLIGHT_LEAST_NS    200000ULL
/*
 * The most senders of the present and the last such time count: a round's stragglers do not open the window again. Nor does a
 * rest: who sent together before it begins together after it.
 */
#define PACE_FLIGHT_EPOCH_NS    100000000ULL

struct pace_flight {
	/* Private; all zero to begin with. */
	unsigned most, most_before;
	uint64_t epoch_ns; /* when the present epoch began */
};

/* To so many a host sends at a time in a tree, and in NCCL's two trees together. More of them are an AlltoAll's. */
#define PACE_FLIGHT_TREE_HOSTS  3
#define PACE_FLIGHT_TREES_HOSTS 4
/*
 * To how many hosts a sender sends at a time: 1 to 16. turns: hosts among which it takes turns, as aggregation does; 0, 1: not
 * known. hosts: that it sends to by its own word, of which more than a tree's count.
 */
unsigned pace_flight_spread(unsigned turns, unsigned hosts);
/*
 * How many times as much it may have on its way as one that sends to us alone: four times its hosts, where they are more than
 * those of two trees. Without turns it is chance whose packets its port sends next, and ours idles while all senders have
 * others': the longer their queues, the less often.
 */
unsigned pace_flight_depth(unsigned turns, unsigned hosts);

/* rate_Bps: the port's; 0: not known. */
uint64_t pace_flight_port_bytes(uint64_t rate_Bps);
/* `senders` have messages coming now; 0: a rest, which is no time. Times may go back a little. */
void pace_flight_note(struct pace_flight *flight, unsigned senders, uint64_t now_ns);
/*
 * The bytes that each of the senders noted lately may have on its way; 0: no bound, there was at most one. port_bytes: what the
 * switch holds for our port, of pace_flight_port_bytes.
 */
uint64_t pace_flight_bytes(const struct pace_flight *flight, uint64_t port_bytes, uint64_t rate_Bps, uint64_t path_ns);
/*
 * What to advertise of a bound after a read of `read_bytes`, so that the kernel leaves acknowledging to the reads as long
 * as these come soon enough: docs/design/transport.md, "In flight". `bound_bytes` and `told_bytes`, the last answer or the bound, are
 * not 0; `grain_bytes` is the least difference that a window can show, not 0. From 3/4 of the bound to all of it.
 */
uint64_t pace_flight_tell_bytes(uint64_t bound_bytes, uint64_t told_bytes, uint64_t grain_bytes, uint64_t read_bytes);

#endif
