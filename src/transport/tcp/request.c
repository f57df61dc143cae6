/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a connection, and its failure, which ends them all. */
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/tcp.h"

struct tcp_request *tcp_request_get(struct tcp_connection *connection, enum tcp_request_kind kind, uint64_t now_ns)
{
	if (connection->request_count == TRANSPORT_MAX_REQUESTS)
		return NULL;
	if (connection->leaves_movers && !connection->request_count && !connection->closing)
		tcp_movers_resume(connection);
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++) {
		struct tcp_request *request = &connection->requests[i];

		if (request->used)
			continue;
		request->used = true;
		request->done = false;
		request->kind = kind;
		request->posted_ns = now_ns;
		connection->request_count++;
		return request;
	}
	return NULL;
}

void tcp_request_release(struct tcp_request *request)
{
	request->used = false;
	request->connection->request_count--;
}

struct tcp_stream *tcp_connection_primary(struct tcp_connection *connection)
{
	struct tcp_stream *hot = &connection->streams[connection->hot];

	if (hot->live)
		return hot;
	for (unsigned i = 0; i < connection->stream_count; i++)
		if (connection->streams[i].live)
			return &connection->streams[i];
	return NULL;
}

void tcp_receiver_failed(struct tcp_connection *connection)
{
	struct tcp_receiver *r = &connection->r;

	for (unsigned i = 0; r->messages && i < TRANSPORT_MAX_REQUESTS; i++)
		if (r->coming >> i & 1)
			pace_remove(r->pace, &r->messages[i].pace);
	r->coming = 0;
}

void tcp_connection_fail(struct tcp_connection *connection, int error, const char *why)
{
	if (connection->error)
		return;
	connection->error = error;
	if (why != connection->lost_why)
		snprintf(connection->lost_why, sizeof(connection->lost_why), "%s", why);
	/* The end of a peer that nobody waits for is no news: it is how every job ends. */
	if (!connection->closing && tcp_request_awaited(connection) && !connection->transport->params->quiet)
		log_warn("connection %s host %s is lost: %s", connection->role == TCP_SENDER ? "to" : "from",
			 connection->peer_host, why);
	else if (!connection->closing && !connection->peer_closed)
		log_info(LOG_NET, "idle connection %s host %s is lost: %s",
			 connection->role == TCP_SENDER ? "to" : "from", connection->peer_host, why);
	connection->counted.connections_failed += !connection->closing && !connection->peer_closed;
	transport_watch_ring(&connection->watch);
	for (unsigned i = 0; i < connection->stream_count; i++) {
		struct tcp_stream *stream = &connection->streams[i];

		tcp_count_lost(connection, stream);
		transport_watch_remove(&connection->watch, stream->fd);
		if (stream->move == TCP_MOVE_CALL)
			shutdown(stream->fd, SHUT_RDWR); /* its mover closes it */
		else
			sys_close_socket(&stream->fd);
		stream->live = stream->awaits_dead = false;
	}
	connection->live_count = 0;
	connection->s.awaiting = 0;
	if (connection->role == TCP_RECEIVER)
		tcp_receiver_failed(connection);
}
