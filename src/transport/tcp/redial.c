/* SPDX-License-Identifier: Apache-2.0 */
/* The dead streams of a connection that stands are dialled anew. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>

#define REDIAL_LIMIT_NS (2 * NS_PER_S)
enum { LAST_REFUSED_MAX = 3 }; /* of a peer whose last stream was lost: its process has ended */

/* False: the connection has failed. */
static bool redial_failed(struct tcp_connection *connection, struct tcp_stream *stream, int error, uint64_t now_ns)
{
	/* The peer's process has ended, or has forgotten the connection. */
	if (!connection->live_count && error == -ECONNREFUSED && !tcp_detour_may_help(connection)) {
		tcp_connection_fail(connection, -EREMOTEIO, connection->lost_why);
		return false;
	}
	sys_close_socket(&stream->dial->fd);
	stream->dial->state = TCP_DIAL_START;
	stream->dial->refused = 0;
	stream->dial->retry_at_ns = 0;
	stream->redial_at_ns = now_ns + stream->redial_wait_ns;
	if (stream->redial_wait_ns < REDIAL_LIMIT_NS)
		stream->redial_wait_ns *= 2;
	return true;
}

static bool is_to_be_dialled(const struct tcp_connection *connection, const struct tcp_stream *stream, uint64_t now_ns)
{
	const struct tcp_dial *dial = stream->dial;

	if (stream->live || !dial || now_ns < stream->redial_at_ns)
		return false;
	/* A dial that has begun is finished: the peer would log a socket that closes without HELLO. */
	if (!tcp_stream_is_wanted(connection, stream->index) && dial->state == TCP_DIAL_START)
		return false;
	/* How far the receiver got it is asked over another one, if there is one. */
	return !stream->awaits_dead || !connection->live_count || dial->state != TCP_DIAL_START;
}

void tcp_redial(struct tcp_connection *connection, uint64_t now_ns)
{
	for (unsigned i = 0; i < connection->stream_count && !connection->error; i++) {
		struct tcp_stream *stream = &connection->streams[i];
		struct tcp_dial *dial = stream->dial;
		int r;

		if (!is_to_be_dialled(connection, stream, now_ns))
			continue;
		if (dial->state == TCP_DIAL_START && dial->fd < 0 && !dial->retry_at_ns) {
			dial->deadline_ns = now_ns + connection->transport->timeout_ns;
			dial->next_pin_ns = now_ns + params_replace_ns(connection->transport->params->timeout_ns) /
							     TCP_PIN_TRIES;
			dial->pin = dial->interface < 0 ? TCP_PIN_NONE : TCP_PIN_BOTH;
			dial->gave_up = false;
		}
		/* As long as another stream lives this one waits for its own interface to come back. */
		dial->may_unpin = !connection->live_count;
		if (dial->hello.epoch <= stream->epoch)
			dial->hello.epoch = stream->epoch + 1;
		r = tcp_dial_step(connection->transport, dial, now_ns);
		if (r == 0 && !connection->live_count && dial->refused >= LAST_REFUSED_MAX)
			r = -ECONNREFUSED;
		if (r < 0) {
			if (!redial_failed(connection, stream, r, now_ns))
				return;
		} else if (dial->state == TCP_DIAL_READY) {
			const bool was_live = stream->was_live;
			int fd = dial->fd;

			dial->fd = -1;
			dial->state = TCP_DIAL_START;
			dial->retry_at_ns = 0;
			tcp_failover_attach(connection, stream, fd, dial->hello.epoch, now_ns);
			tcp_detour_note_ways(connection, &dial->welcome, now_ns);
			if (was_live)
				log_info(LOG_NET, "stream %u with host %s is back", i, connection->peer_host);
			tcp_failover_watch_stream(connection, stream, now_ns);
		}
	}
}
