/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands by for the rails of a device. A connection has two things more than those:
 *
 * - the reserve: a port of another card of this host, in its last rail. All memory is registered with it from the
 *   beginning. When a cable is pulled it is too late: the peer has the keys of the receives that are posted, and NCCL has
 *   closed the descriptors of GPUs' memory. It carries nothing, and does not count in the device's speed.
 * - the spare: a queue without a queue pair. When no other queue is live, the connecting side builds it over any two
 *   rails whose ports are up. It is stopped when another queue is live again.
 *
 * Under the connection's lock.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_RESERVE_H
#define TRIBUTARY_TRANSPORT_VERBS_RESERVE_H

#include "base/clock.h"
#include "transport/verbs/verbs.h"

#include <sys/resource.h>

#define VERBS_LOCKED_ENOUGH ((rlim_t)1 << 30) /* bytes */

/* All memory is locked once more for the reserve: false where the device's own ports would soon lack it. */
bool verbs_reserve_may_lock(void);
/* The port that stands by for this device: of those that are up the fastest. NULL: there is none, or memory is scarce. */
struct verbs_port *verbs_reserve_port(struct verbs_transport *transport, const struct transport_device *device);
/* It has refused what the device's own ports take, with this error: it carries nothing more of this connection. */
void verbs_reserve_off(struct verbs_connection *connection, int error);
static inline bool verbs_reserve_is(const struct verbs_connection *connection, unsigned rail)
{
	return rail >= connection->own_rail_count;
}
/* This rail is a reserve that is off. */
static inline bool verbs_reserve_is_off(const struct verbs_connection *connection, unsigned rail)
{
	return connection->reserve_off && verbs_reserve_is(connection, rail);
}

/* The peer has said so less than this ago; later the port is tried all the same. */
#define VERBS_PEER_DOWN_NS (60 * NS_PER_S)
static inline bool verbs_peer_is_down(const struct verbs_connection *connection, unsigned rail, uint64_t now_ns)
{
	const uint64_t down_ns = connection->peer_down_ns[rail];

	return down_ns && clock_elapsed_ns(down_ns, now_ns) < VERBS_PEER_DOWN_NS;
}

/* Whether there are two rails for the spare. */
bool verbs_spare_has_way(const struct verbs_connection *connection, uint64_t now_ns);
/* Gives the spare two rails to try now: those tried longest ago, of these the ones with the nearest addresses. */
bool verbs_spare_choose(struct verbs_connection *connection, struct verbs_queue *spare, uint64_t now_ns);
/* Another queue is live, in both directions. */
bool verbs_spare_is_over(const struct verbs_connection *connection);

#endif
