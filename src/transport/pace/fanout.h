/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To how many hosts a process sent lately: a set of their hashes for the present 100 ms, and one for those before. Of many
 * hosts it counts a few less, as hashes meet. No lock; any thread.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_FANOUT_H
#define TRIBUTARY_TRANSPORT_PACE_FANOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define PACE_FANOUT_EPOCH_NS 100000000ULL

struct pace_fanout {
	/* Private; all zero to begin with. */
	_Atomic uint64_t epoch_ns, hosts, hosts_before;
};

void pace_fanout_note(struct pace_fanout *fanout, uint64_t host, uint64_t now_ns);
unsigned pace_fanout_count(struct pace_fanout *fanout);

#endif
