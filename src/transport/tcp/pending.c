/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slots of accepted sockets that have not said who they are. When all are taken the oldest of the address that has the
 * most makes room: unauthenticated peers cannot keep the real one out. It gets the time that a real peer needs first,
 * for a real one may dial more streams at once than there are slots.
 */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <sys/resource.h>

/* What a peer has for its greeting while others wait for its slot, beside two round trips. */
#define SILENT_NS      (10 * NS_PER_MS)
#define SILENT_MOST_NS (100 * NS_PER_MS)
enum { PENDING_LEAST = 16 };

/* A quarter of the descriptors that the process may have. */
int tcp_pending_make(struct tcp_transport *transport)
{
	unsigned most = TCP_PENDING_MAX;
	struct rlimit limit;

	if (transport->pending)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < most)
		most = limit.rlim_cur / 4 > PENDING_LEAST ? (unsigned)(limit.rlim_cur / 4) : PENDING_LEAST;
	transport->pending = sys_zalloc(most * sizeof(transport->pending[0]));
	transport->pending_most = transport->pending ? most : 0;
	return transport->pending ? 0 : -ENOMEM;
}

static void same_add(struct tcp_transport *transport, struct tcp_pending *pending, int added)
{
	pending->same = 0;
	for (unsigned i = 0; i < transport->pending_count; i++) {
		struct tcp_pending *other = &transport->pending[i];

		if (other == pending || !tcp_socket_same_address(&other->peer, &pending->peer))
			continue;
		other->same += (unsigned)added;
		pending->same = other->same;
	}
	pending->same += !pending->same;
}

struct tcp_pending *tcp_pending_add(struct tcp_transport *transport, const struct tcp_acceptor *acceptor, int fd,
				    const struct sockaddr_storage *peer, uint64_t now_ns)
{
	struct tcp_pending *pending = &transport->pending[transport->pending_count++];

	*pending = (struct tcp_pending){ .acceptor = acceptor, .fd = fd, .since_ns = now_ns, .peer = *peer };
	same_add(transport, pending, 1);
	return pending;
}

void tcp_pending_drop(struct tcp_transport *transport, struct tcp_pending *pending)
{
	same_add(transport, pending, -1);
	sys_close_socket(&pending->fd);
	*pending = transport->pending[--transport->pending_count];
}

struct tcp_pending *tcp_pending_victim(const struct tcp_transport *transport)
{
	struct tcp_pending *victim = transport->pending;

	for (unsigned i = 1; i < transport->pending_count; i++) {
		struct tcp_pending *pending = &transport->pending[i];

		if (pending->same > victim->same ||
		    (pending->same == victim->same && pending->since_ns < victim->since_ns))
			victim = pending;
	}
	return victim;
}

bool tcp_pending_has_room(const struct tcp_transport *transport, uint64_t now_ns)
{
	const struct tcp_pending *victim;
	uint64_t silent_ns;

	if (!transport->pending || transport->pending_count < transport->pending_most)
		return true; /* the service thread of a process that does not listen asks, too */
	victim = tcp_pending_victim(transport);
	silent_ns = clock_elapsed_ns(victim->since_ns, now_ns);
	return silent_ns >= SILENT_MOST_NS ||
	       (silent_ns >= SILENT_NS && silent_ns >= SILENT_NS + 2 * tcp_socket_path_ns(victim->fd));
}
