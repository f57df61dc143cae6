/*
 * Owners who sleep (transport.h, watch): the completion channels and the control connections join their epoll set. Before
 * each look at the queues their channels are armed, so what comes after the look is told.
 */
#include "base/sys.h"
#include "transport/verbs/verbs.h"
#include "transport/watch.h"

#include <errno.h>
#include <sys/epoll.h>

void verbs_watch_ring(const struct verbs_connection *connection)
{
	if (connection->watched)
		transport_watch_ring(connection->doorbell_fd);
}

void verbs_unwatch(struct verbs_connection *connection)
{
	if (!connection->watched)
		return;
	for (unsigned i = 0; i < connection->rail_count; i++)
		transport_watch_remove(connection->watch_fd, connection->rails[i].channel->fd);
	transport_watch_remove(connection->watch_fd, connection->doorbell_fd);
	sys_close(&connection->doorbell_fd);
	connection->watched = false;
}

int verbs_connection_watch(struct verbs_connection *connection, int epoll_fd, uint64_t key)
{
	int r;

	if (connection->watched)
		return -EBUSY;
	r = transport_watch_doorbell(&connection->doorbell_fd);
	if (r < 0)
		return r;
	connection->watched = true;
	connection->watch_fd = epoll_fd;
	r = transport_watch_add(epoll_fd, connection->doorbell_fd, EPOLLIN, key);
	for (unsigned i = 0; i < connection->rail_count && r == 0; i++)
		r = transport_watch_add(epoll_fd, connection->rails[i].channel->fd, EPOLLIN, key);
	if (r == 0)
		r = transport_tcp.watch(connection->control.in, epoll_fd, key);
	if (r == 0)
		r = transport_tcp.watch(connection->control.out, epoll_fd, key);
	if (r < 0)
		verbs_unwatch(connection);
	else
		verbs_watch_ring(connection); /* the first look is what arms the channels */
	return r;
}

int verbs_watch_arm(struct verbs_connection *connection)
{
	const struct verbs_api *api = connection->transport->api;

	for (unsigned i = 0; connection->watched && i < connection->rail_count; i++) {
		struct verbs_rail *rail = &connection->rails[i];
		struct ibv_cq *cq;
		void *context;

		while (api->get_cq_event(rail->channel, &cq, &context) == 0)
			rail->events++;
		if (api->req_notify_cq(rail->cq, 0) != 0)
			return -EIO;
	}
	return 0;
}
