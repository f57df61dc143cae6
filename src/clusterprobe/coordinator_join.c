/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0: the others come, prove that they have the secret and say who they are. */
#include "clusterprobe/coordinator_internal.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

enum { BACKLOG = 1024, MISSING_MAX = 8 };
#define UNAUTHENTICATED_NS (5 * NS_PER_S)

int coordinator_stopped(struct coordinator *coordinator)
{
	if (!*coordinator->setup->stop)
		return 0;
	diag_set(coordinator->diag, 0, 0, "interrupted");
	return -EINTR;
}

/* This host's own part, which nobody tells to end before all have come. */
static int worker_failed(struct coordinator *coordinator)
{
	/* An interrupted one is the coordinator's to notice, too. */
	if (!atomic_load(&coordinator->worker_ended) || coordinator->worker_result == -EINTR)
		return 0;
	diag_set(coordinator->diag, 0, 0, "%s",
		 coordinator->worker_diag.text[0] ? coordinator->worker_diag.text
						  : strerror(-coordinator->worker_result));
	return coordinator->worker_result;
}

int coordinator_listen(struct coordinator *coordinator)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
	const struct clusterprobe_launch *launch = &coordinator->setup->launch;
	struct sockaddr_storage address = { 0 };
	char port[8];
	int r, on = 1;

	snprintf(port, sizeof(port), "%u", launch->port);
	r = getaddrinfo(launch->address, port, &hints, &found);
	if (r) {
		diag_set(coordinator->diag, 0, 0, "MASTER_ADDR \"%.60s\" is not known: %s", launch->address,
			 gai_strerror(r));
		return -EINVAL;
	}
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	coordinator->loopback = clusterprobe_address_widen(launch->address, &address);
	r = sys_socket(found->ai_family, SOCK_STREAM, 0);
	if (r >= 0) {
		coordinator->listener = r;
		setsockopt(r, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		r = sys_bind(coordinator->listener, (struct sockaddr *)&address, found->ai_addrlen);
	}
	if (r >= 0)
		r = sys_listen(coordinator->listener, BACKLOG);
	freeaddrinfo(found);
	if (r < 0)
		diag_set(coordinator->diag, 0, 0, "rank 0 cannot listen at %.60s port %u: %s%s", launch->address,
			 launch->port, strerror(-r),
			 r == -EADDRNOTAVAIL ? ": MASTER_ADDR must be an address of this host"
			 : r == -EADDRINUSE  ? ": set MASTER_PORT to a free one"
					     : "");
	return r;
}

void coordinator_drop_peer(struct coordinator *coordinator, struct peer *peer)
{
	clusterprobe_control_fini(&peer->control);
	*peer = coordinator->peers[--coordinator->peer_count];
}

int coordinator_add_peer(struct coordinator *coordinator, int fd)
{
	struct peer *peer = &coordinator->peers[coordinator->peer_count];
	int r;

	*peer = (struct peer){ .control.fd = fd, .since_ns = clock_now_ns() };
	r = control_channel_init(&peer->control.channel, CONTROL_SERVER, coordinator->setup->secret,
				 coordinator->setup->name);
	if (r < 0)
		clusterprobe_control_fini(&peer->control);
	else
		coordinator->peer_count++;
	return r;
}

/* -EMFILE, -ENFILE: nobody else can come, and who waits at the door keeps the listener ready. */
static int take_peers(struct coordinator *coordinator)
{
	struct pollfd door = { coordinator->listener, POLLIN, 0 };

	while (coordinator->listener >= 0) {
		size_t room = coordinator->setup->launch.size + COORDINATOR_UNAUTHENTICATED_MAX;
		struct sockaddr_storage address;
		socklen_t bytes = sizeof(address);
		int fd = sys_accept(coordinator->listener, &address, &bytes), on = 1;

		/* So it is without anybody, too. */
		if ((fd == -EMFILE || fd == -ENFILE) && poll(&door, 1, 0) == 1) {
			diag_set(coordinator->diag, 0, 0,
				 "no descriptor is left for the next of %u ranks: raise the limit (ulimit -n)",
				 coordinator->setup->launch.size);
			return fd;
		}
		if (fd < 0)
			return 0;
		if (coordinator->peer_count == room) {
			sys_close(&fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void)coordinator_add_peer(coordinator, fd);
	}
	return 0;
}

/* Whoever is on this host comes by its loopback address where its name means that; others say which address it has. */
static void note_own_address(struct coordinator *coordinator, const struct peer *peer)
{
	struct sockaddr_storage own = { 0 };
	struct clusterprobe_address address;
	socklen_t bytes = sizeof(own);

	if (coordinator->is_reached || getsockname(peer->control.fd, (struct sockaddr *)&own, &bytes) < 0)
		return;
	clusterprobe_address_of(&own, &address);
	coordinator->is_reached = !clusterprobe_address_is_loopback(&address);
	coordinator->reached = address;
}

struct clusterprobe_address coordinator_address_of(const struct coordinator *coordinator, const struct peer *peer)
{
	struct clusterprobe_address address = peer->address;

	if (coordinator->is_reached && clusterprobe_address_is_loopback(&address))
		memcpy(address.ip, coordinator->reached.ip, sizeof(address.ip));
	return address;
}

/* -EPROTO: two say that they are the same. */
static int greet(struct coordinator *coordinator, struct peer *peer)
{
	if (coordinator->in.kind != CLUSTERPROBE_HELLO ||
	    (peer->placed ? coordinator->in.rank != peer->rank
			  : coordinator->in.rank >= coordinator->setup->launch.size))
		return -EBADMSG;
	for (size_t i = 0; i < coordinator->peer_count; i++)
		if (coordinator->peers[i].here && coordinator->peers[i].rank == coordinator->in.rank) {
			diag_set(coordinator->diag, 0, 0,
				 "\"%s\" and \"%s\" both say that they are rank %u: is the launcher's environment "
				 "mixed?",
				 coordinator->peers[i].name, coordinator->in.name, coordinator->in.rank);
			return -EPROTO;
		}
	peer->here = true;
	peer->rank = coordinator->in.rank;
	peer->boot = coordinator->in.boot;
	peer->address = coordinator->in.address;
	memcpy(peer->name, coordinator->in.name, sizeof(peer->name));
	note_own_address(coordinator, peer);
	coordinator->here_count++;
	return 0;
}

static int step_peers(struct coordinator *coordinator)
{
	for (size_t i = coordinator->peer_count; i-- > 0;) {
		struct peer *peer = &coordinator->peers[i];
		int r = clusterprobe_control_step(&peer->control, &coordinator->in);

		/* One of this run, as it has the secret. */
		if (r == -EPROTO && !coordinator->lost && !peer->here && control_channel_proved(&peer->control.channel))
			diag_set(coordinator->diag, 0, 0, "\"%s\": %.120s", peer->control.channel.peer_name,
				 peer->control.channel.why);
		if (r > 0 && !peer->here)
			r = greet(coordinator, peer);
		if (r == -EPROTO && coordinator->diag->text[0])
			return r;
		if (r < 0 && coordinator->lost) {
			coordinator->here_count -= peer->here;
			coordinator->lost(coordinator, peer);
		} else if (r < 0 && peer->here) {
			diag_set(coordinator->diag, 0, 0, "rank %u on \"%s\" went away: %.120s", peer->rank, peer->name,
				 peer->control.channel.why);
			return -EREMOTEIO;
		}
		if (r < 0 || (!peer->here && !peer->placed &&
			      clock_elapsed_ns(peer->since_ns, clock_now_ns()) > UNAUTHENTICATED_NS))
			coordinator_drop_peer(coordinator, peer);
	}
	return 0;
}

static void wait_for_any(struct coordinator *coordinator)
{
	size_t count = 0;

	for (size_t i = 0; i < coordinator->peer_count; i++)
		coordinator->polls[count++] = (struct pollfd){
			coordinator->peers[i].control.fd, clusterprobe_control_events(&coordinator->peers[i].control), 0
		};
	coordinator->polls[count++] = (struct pollfd){ coordinator->listener, POLLIN, 0 };
	poll(coordinator->polls, count, COORDINATOR_POLL_MS);
}

static int compare_peers(const void *a, const void *b)
{
	const struct peer *first = a, *second = b;

	return (first->rank > second->rank) - (first->rank < second->rank);
}

bool coordinator_has_rank(const struct coordinator *coordinator, uint32_t rank)
{
	for (size_t i = 0; i < coordinator->peer_count; i++)
		if (coordinator->peers[i].here && coordinator->peers[i].rank == rank)
			return true;
	return false;
}

static void name_missing(struct coordinator *coordinator)
{
	char why[160] = "have they the same MASTER_ADDR and secret, and may they reach it?", list[120] = "";
	size_t missing = 0;

	for (uint32_t rank = 0; rank < coordinator->setup->launch.size; rank++) {
		if (!coordinator_has_rank(coordinator, rank) && missing++ < MISSING_MAX)
			snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%u", list[0] ? ", " : "", rank);
	}
	if (coordinator->loopback)
		snprintf(why, sizeof(why),
			 "MASTER_ADDR \"%.60s\" is a loopback address on this host: give an address of its network",
			 coordinator->setup->launch.address);
	diag_set(coordinator->diag, 0, 0, "%zu of %u ranks did not come within %.0f s (%s%s): %s", missing,
		 coordinator->setup->launch.size, 1e-9 * (double)coordinator->setup->timeout_ns, list,
		 missing > MISSING_MAX ? ", ..." : "", why);
}

int coordinator_wait_for_workers(struct coordinator *coordinator)
{
	uint64_t deadline_ns = clock_now_ns() + coordinator->setup->timeout_ns;

	while (coordinator->here_count < coordinator->setup->launch.size &&
	       (coordinator->listener >= 0 || coordinator->here_count < coordinator->peer_count)) {
		int r = coordinator_stopped(coordinator);

		if (r == 0)
			r = worker_failed(coordinator);
		if (r == 0)
			r = step_peers(coordinator);
		if (r < 0)
			return r;
		if (clock_now_ns() > deadline_ns && coordinator->lost)
			break;
		if (clock_now_ns() > deadline_ns) {
			name_missing(coordinator);
			return -ETIMEDOUT;
		}
		if (coordinator->here_count < coordinator->setup->launch.size)
			wait_for_any(coordinator);
		r = take_peers(coordinator);
		if (r < 0)
			return r;
	}
	for (size_t i = coordinator->peer_count; i-- > 0;)
		if (!coordinator->peers[i].here)
			coordinator_drop_peer(coordinator, &coordinator->peers[i]);
	qsort(coordinator->peers, coordinator->peer_count, sizeof(*coordinator->peers), compare_peers);
	return 0;
}
