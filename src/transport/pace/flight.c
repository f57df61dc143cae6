/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/flight.h"

#include <stdbool.h>

enum { SPREAD_MOST = 16, FANOUT_DEPTH = 4 };

static unsigned most_of(unsigned a, unsigned b)
{
	return a > b ? a : b;
}

unsigned pace_flight_spread(unsigned turns, unsigned hosts)
{
	unsigned spread = turns > 1 ? turns : hosts > PACE_FLIGHT_TREE_HOSTS ? hosts : 1;

	return spread < SPREAD_MOST ? spread : SPREAD_MOST;
}

unsigned pace_flight_depth(unsigned turns, unsigned hosts)
{
	unsigned spread = pace_flight_spread(turns, hosts);

	return turns > 1 || hosts <= PACE_FLIGHT_TREES_HOSTS ? spread : FANOUT_DEPTH * spread;
}

uint64_t pace_flight_port_bytes(uint64_t rate_Bps)
{
	double bytes = (double)rate_Bps * (double)PACE_FLIGHT_LEAST_NS * 1e-9;

	return bytes > (double)PACE_FLIGHT_LEAST_BYTES ? (uint64_t)bytes : PACE_FLIGHT_LEAST_BYTES;
}

void pace_flight_note(struct pace_flight *flight, unsigned senders, uint64_t now_ns)
{
	if (!senders)
		return;
	if (now_ns >= flight->epoch_ns + PACE_FLIGHT_EPOCH_NS) {
		flight->most_before = flight->most;
		flight->most = 0;
		flight->epoch_ns = now_ns;
	}
	flight->most = most_of(flight->most, senders);
}

uint64_t pace_flight_bytes(const struct pace_flight *flight, uint64_t port_bytes, uint64_t rate_Bps, uint64_t path_ns)
{
	unsigned senders = most_of(flight->most, flight->most_before);
	double bytes = 2.0 * (double)rate_Bps * (double)path_ns * 1e-9; /* a full path, and as much again in queues */

	if (senders < 2)
		return 0;
	return (bytes > (double)port_bytes ? (uint64_t)bytes : port_bytes) / senders;
}

uint64_t pace_flight_tell_bytes(uint64_t bound_bytes, uint64_t told_bytes, uint64_t grain_bytes, uint64_t read_bytes)
{
	const bool late = read_bytes > bound_bytes - bound_bytes / 8; /* the sender was about to wait for this read */

	if (late || told_bytes > bound_bytes || told_bytes < bound_bytes - bound_bytes / 4 + grain_bytes)
		return bound_bytes;
	return told_bytes - grain_bytes;
}
