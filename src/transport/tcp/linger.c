/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/sys.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#define LINGER_NS NS_PER_S
enum { LINGERING_MAX = 256, READS_AT_ONCE = 16 };

void tcp_linger(struct tcp_connection *connection, uint64_t now_ns)
{
	struct tcp_transport *transport = connection->transport;

	/* First the one that said the last words; streams without data have none that count. */
	for (unsigned k = 0; k < connection->stream_count; k++) {
		const unsigned i = (connection->hot + k) % connection->stream_count;
		struct tcp_stream *stream = &connection->streams[i];
		struct tcp_lingering *lingering;

		if (!stream->live || stream->fd < 0 || !tcp_stream_is_wanted(connection, i) ||
		    transport->lingering_count >= LINGERING_MAX)
			continue;
		lingering = sys_zalloc(sizeof(*lingering));
		if (!lingering)
			continue;
		shutdown(stream->fd, SHUT_WR);
		*lingering = (struct tcp_lingering){ .fd = stream->fd, .until_ns = now_ns + LINGER_NS };
		LIST_INSERT_HEAD(&transport->lingering, lingering, link);
		transport->lingering_count++;
		stream->fd = -1;
	}
}

/* The peer's kernel has all of it, or is gone. */
static bool is_through(int fd)
{
	uint8_t unused[4096];
	ssize_t got = 1;
	int left = 0;

	for (unsigned i = 0; i < READS_AT_ONCE && got > 0; i++)
		got = sys_recv(fd, unused, sizeof(unused), 0);
	if (got == 0 || (got < 0 && got != -EAGAIN && got != -EINTR))
		return true;
	return ioctl(fd, SIOCOUTQ, &left) < 0 || left == 0;
}

bool tcp_linger_step(struct tcp_transport *transport, uint64_t now_ns, bool all)
{
	struct tcp_lingering *lingering, *next;

	for (lingering = LIST_FIRST(&transport->lingering); lingering; lingering = next) {
		next = LIST_NEXT(lingering, link);
		if (!all && now_ns < lingering->until_ns && !is_through(lingering->fd))
			continue;
		LIST_REMOVE(lingering, link);
		transport->lingering_count--;
		sys_close_socket(&lingering->fd);
		sys_free(lingering);
	}
	return !LIST_EMPTY(&transport->lingering);
}
