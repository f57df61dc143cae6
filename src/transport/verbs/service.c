/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one thread of this transport. It ends connects that nobody finishes, gives the pace its beat, and moves what connections
 * have whose owners have not called for a while: a peer whose queue fails, or which hears nothing over TCP (life.h), needs our
 * part, and we may be done with all that we wanted.
 */
#include "base/clock.h"
#include "transport/verbs/handshake.h"

#include <poll.h>

enum { BEAT_MS = 200 };

static void *run(void *arg)
{
	struct verbs_transport *transport = arg;
	struct pollfd fd = { .fd = transport->service.wake_fd, .events = POLLIN };

	pthread_mutex_lock(&transport->lock);
	while (!transport->service.stop) {
		uint64_t now_ns = clock_now_ns();

		verbs_handshake_expire(transport, now_ns, false);
		for (struct verbs_connection *c = LIST_FIRST(&transport->connections); c; c = LIST_NEXT(c, link))
			verbs_connection_look(c, now_ns);
		transport_devices_tick(&transport->devices, now_ns);
		pthread_mutex_unlock(&transport->lock);
		poll(&fd, 1, BEAT_MS);
		pthread_mutex_lock(&transport->lock);
	}
	pthread_mutex_unlock(&transport->lock);
	return NULL;
}

int verbs_service_start(struct verbs_transport *transport)
{
	return transport_service_start(&transport->service, run, transport, "tributary-rdma");
}
