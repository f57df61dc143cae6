/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/reserve.h"

#include "base/log.h"

#include <linux/capability.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the reserve ---- */

static bool may_stand_by(const struct verbs_transport *transport, const struct transport_device *device,
			 const struct verbs_port *port)
{
	const struct verbs_port *first = &transport->cards.ports[device->members[0]];

	for (unsigned i = 0; i < device->rail_count; i++)
		if (transport->cards.ports[device->members[i]].card == port->card)
			return false;
	return !verbs_card_is_lost(port->card) && port->ethernet == first->ethernet &&
	       !(device->properties.memory & ~port->card->memory);
}

static bool is_better(const struct verbs_port *port, const struct verbs_port *than)
{
	if (verbs_port_is_down(port) != verbs_port_is_down(than))
		return verbs_port_is_down(than);
	return port->speed_Bps > than->speed_Bps;
}

/* The kernel does not count for those that may lock as they like. */
bool verbs_reserve_may_lock(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur >= VERBS_LOCKED_ENOUGH ||
	    (syscall(SYS_capget, &header, data) == 0 && data[0].effective >> CAP_IPC_LOCK & 1))
		return true;
	if (!atomic_flag_test_and_set(&said))
		log_info(
			LOG_NET,
			"no other RDMA card stands by: this process may lock %llu KiB of memory, and would lock twice as "
			"much (ulimit -l unlimited)",
			(unsigned long long)limit.rlim_cur / 1024);
	return false;
}

struct verbs_port *verbs_reserve_port(struct verbs_transport *transport, const struct transport_device *device)
{
	struct verbs_devices *cards = &transport->cards;
	struct verbs_port *best = NULL;

	if (!transport->params->rdma_reserve || device->rail_count == VERBS_WIRE_RAILS_MAX)
		return NULL;
	for (unsigned i = 1; i < cards->port_count; i++) {
		struct verbs_port *port = &cards->ports[((unsigned)device->members[0] + i) % cards->port_count];

		if (may_stand_by(transport, device, port) && (!best || is_better(port, best)))
			best = port;
	}
	return best && verbs_reserve_may_lock() ? best : NULL;
}

void verbs_reserve_off(struct verbs_connection *connection, int error)
{
	if (connection->reserve_off)
		return;
	connection->reserve_off = true;
	log_info(LOG_NET, "RDMA device %s does not stand by for the connection with host %s: %s",
		 connection->rails[connection->own_rail_count].port->name, connection->peer.host, strerror(-error));
	for (unsigned i = 0; i < connection->queue_count; i++)
		if (verbs_reserve_is(connection, connection->queues[i].rail))
			verbs_queue_lost(connection, &connection->queues[i], "its device refuses memory");
}

/* ---- the spare ---- */

/* Each other queue has its two rails for itself. */
static bool is_taken(const struct verbs_connection *connection, unsigned here, unsigned there)
{
	for (unsigned i = 0; i < connection->queue_count; i++) {
		const struct verbs_queue *queue = &connection->queues[i];

		if (!queue->spare && queue->rail == here && queue->peer_rail == there)
			return true;
	}
	return false;
}

static bool may_go(const struct verbs_connection *connection, unsigned here, unsigned there, uint64_t now_ns)
{
	const struct verbs_port *port = connection->rails[here].port;

	return !verbs_port_is_down(port) && !verbs_peer_is_down(connection, there, now_ns) &&
	       port->ethernet == connection->peer.rails[there].ethernet && !verbs_reserve_is_off(connection, here) &&
	       !is_taken(connection, here, there);
}

bool verbs_spare_has_way(const struct verbs_connection *connection, uint64_t now_ns)
{
	if (connection->queue_count == VERBS_WIRE_QUEUES_MAX && !connection->queues[VERBS_WIRE_QUEUES_MAX - 1].spare)
		return false; /* a peer has left no place for it */
	for (unsigned here = 0; here < connection->rail_count; here++)
		for (unsigned there = 0; there < connection->peer.rail_count; there++)
			if (may_go(connection, here, there, now_ns))
				return true;
	return false;
}

/* More where both addresses are of one network. */
static unsigned nearness(const struct verbs_path_ends *ends)
{
	return verbs_facts_gid_alike(ends->here->gid, ends->there.gid);
}

bool verbs_spare_choose(struct verbs_connection *connection, struct verbs_queue *spare, uint64_t now_ns)
{
	struct verbs_paths *paths = &connection->transport->paths;
	uint64_t best_ns = UINT64_MAX;
	unsigned best = 0;

	/* The last rail is the reserve, and of equal ways it is the better one: the own ports have just failed. */
	for (unsigned here = connection->rail_count; here-- > 0;)
		for (unsigned there = connection->peer.rail_count; there-- > 0;) {
			const struct verbs_path_ends ends = { connection->rails[here].port,
							      connection->peer.rails[there] };
			const uint64_t tried_ns = connection->tried_ns[here][there];

			if (tried_ns > best_ns || (tried_ns == best_ns && nearness(&ends) <= best) ||
			    !may_go(connection, here, there, now_ns) || !verbs_path_is_open(paths, &ends, true, now_ns))
				continue;
			best_ns = tried_ns;
			best = nearness(&ends);
			spare->rail = here;
			spare->peer_rail = there;
		}
	return best_ns != UINT64_MAX;
}

bool verbs_spare_is_over(const struct verbs_connection *connection)
{
	for (unsigned i = 0; i < connection->queue_count; i++) {
		const struct verbs_queue *queue = &connection->queues[i];

		if (!queue->spare && queue->state == VERBS_QUEUE_LIVE && queue->notices != VERBS_WIRE_FIRST_COUNT)
			return true;
	}
	return false;
}
