#include "clusterprobe/stream.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

enum { NAP_MS = 20 }; /* between two looks at `stop` */
/* Of an end that neither sends nor takes. */
#define SILENCE_NS (5 * NS_PER_S)

int clusterprobe_stream_wait(const struct clusterprobe_stream *stream, short events)
{
	uint64_t start_ns = clock_now_ns();
	struct pollfd ready = { stream->fd, events, 0 };

	do {
		if (atomic_load(stream->stop) || (stream->interrupt && *stream->interrupt))
			return -ECANCELED;
		if (poll(&ready, 1, NAP_MS) > 0)
			return 0; /* an error, too: the next call says which */
	} while (clock_elapsed_ns(start_ns, clock_now_ns()) < SILENCE_NS);
	return -ETIMEDOUT;
}

/* Some bytes; waits for the first. */
static ssize_t receive_some(struct clusterprobe_stream *stream, uint8_t *bytes, size_t count)
{
	for (;;) {
		ssize_t got = sys_recv(stream->fd, bytes, count, 0);
		int r;

		if (!got)
			return -ECONNRESET;
		if (got > 0 || (got != -EAGAIN && got != -EINTR))
			return got;
		r = clusterprobe_stream_wait(stream, POLLIN);
		if (r < 0)
			return r;
	}
}

static ssize_t send_some(struct clusterprobe_stream *stream, const uint8_t *bytes, size_t count)
{
	for (;;) {
		ssize_t sent = sys_send(stream->fd, bytes, count);
		int r;

		if (sent >= 0 || (sent != -EAGAIN && sent != -EINTR))
			return sent;
		r = clusterprobe_stream_wait(stream, POLLOUT);
		if (r < 0)
			return r;
	}
}

int clusterprobe_stream_send(struct clusterprobe_stream *stream, const uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t sent = send_some(stream, bytes, count);

		if (sent < 0)
			return (int)sent;
		bytes += sent;
		count -= (size_t)sent;
	}
	return 0;
}

int clusterprobe_stream_receive(struct clusterprobe_stream *stream, uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t got = receive_some(stream, bytes, count);

		if (got < 0)
			return (int)got;
		bytes += got;
		count -= (size_t)got;
	}
	return 0;
}

int clusterprobe_stream_take(struct clusterprobe_stream *stream, uint8_t *buffer)
{
	ssize_t got = 0;

	while (!atomic_load_explicit(stream->stop, memory_order_relaxed)) {
		got = receive_some(stream, buffer, PROBE_TCP_CHUNK_BYTES);
		if (got < 0)
			break;
		atomic_fetch_add_explicit(&stream->received_bytes, (uint64_t)got, memory_order_relaxed);
	}
	return got < 0 && got != -ECANCELED ? (int)got : 0;
}

int clusterprobe_stream_give(struct clusterprobe_stream *stream, const uint8_t *buffer)
{
	ssize_t sent = 0;

	while (sent >= 0 && !atomic_load_explicit(stream->stop, memory_order_relaxed))
		sent = send_some(stream, buffer, PROBE_TCP_CHUNK_BYTES);
	return sent < 0 && sent != -ECANCELED ? (int)sent : 0;
}

int clusterprobe_stream_echo(struct clusterprobe_stream *stream, uint8_t *buffer)
{
	int r = 0;

	while (!r && !atomic_load_explicit(stream->stop, memory_order_relaxed)) {
		ssize_t got = receive_some(stream, buffer, PROBE_TCP_CHUNK_BYTES);

		r = got < 0 ? (int)got : clusterprobe_stream_send(stream, buffer, (size_t)got);
	}
	return r == -ECANCELED ? 0 : r;
}
