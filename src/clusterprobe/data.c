/* SPDX-License-Identifier: Apache-2.0 */
/* Data between the hosts of a clusterprobe: who takes it, who sends it, and echoes. Each connection is a thread, as a core is. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	PEERS_MAX = 512,
	BACKLOG = 512,
	NAP_MS = 20, /* between two looks at `stop` */
	ADMIT_NAPS = 250,
	ECHOES_MAX = 256,
	CHUNK_BYTES = 256 << 10,
};
/* Of an end that neither sends nor takes. */
#define SILENCE_NS (5 * NS_PER_S)

/* One connection at either end: it waits with a limit, and looks at a flag that ends it. */
struct stream {
	int fd; /* -1: none */
	atomic_bool *stop;
	const _Atomic bool *interrupt; /* of the user; NULL: none */
};

struct peer {
	struct stream stream;
	_Atomic uint64_t received_bytes;
	pthread_t thread;
	struct clusterprobe_receiver *port;
	bool taken;       /* of the acceptor's thread alone */
	atomic_bool over; /* its thread has ended, or is about to */
	bool known;       /* under the port's lock, with what follows */
	bool ended;       /* it is closed, and last is what came */
	struct clusterprobe_count last;
	struct clusterprobe_preamble preamble;
};

struct clusterprobe_receiver {
	struct stream listener;
	atomic_bool stop, admits;
	pthread_mutex_t lock;
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES]; /* once it admits */
	pthread_t thread;
	bool started;
	struct peer peers[PEERS_MAX];
};

/* ------------------------------------------------------------------------------------------------------------- streams */

static bool is_stopped(const struct stream *stream)
{
	return atomic_load_explicit(stream->stop, memory_order_relaxed) || (stream->interrupt && *stream->interrupt);
}

/* Until the descriptor is ready for `events` of poll: 0, -ECANCELED (stopped) or -ETIMEDOUT. */
static int stream_wait(const struct stream *stream, short events)
{
	uint64_t start_ns = clock_now_ns();
	struct pollfd ready = { stream->fd, events, 0 };

	do {
		if (is_stopped(stream))
			return -ECANCELED;
		if (poll(&ready, 1, NAP_MS) > 0)
			return 0; /* an error, too: the next call says which */
	} while (clock_elapsed_ns(start_ns, clock_now_ns()) < SILENCE_NS);
	return -ETIMEDOUT;
}

/* Receives (POLLIN) or sends (POLLOUT) some bytes; waits for the first. -ECONNRESET: the other end closed. */
static ssize_t stream_move(const struct stream *stream, short direction, uint8_t *bytes, size_t count)
{
	while (!is_stopped(stream)) {
		ssize_t moved = direction == POLLIN ? sys_recv(stream->fd, bytes, count, 0)
						    : sys_send(stream->fd, bytes, count);
		int r;

		if (!moved && direction == POLLIN)
			return -ECONNRESET;
		if (moved != -EAGAIN && moved != -EINTR)
			return moved;
		r = stream_wait(stream, direction);
		if (r < 0)
			return r;
	}
	return -ECANCELED;
}

static int stream_move_all(const struct stream *stream, short direction, uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t moved = stream_move(stream, direction, bytes, count);

		if (moved < 0)
			return (int)moved;
		bytes += moved;
		count -= (size_t)moved;
	}
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------ receiver */

static uint64_t between(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

uint64_t clusterprobe_receiver_moved(const struct clusterprobe_count *before, const struct clusterprobe_count *after)
{
	uint64_t in_order = between(before->in_order, after->in_order);
	uint64_t all = between(before->segments, after->segments) * after->segment_bytes;
	uint64_t beyond = between(before->out_of_order, after->out_of_order) * after->segment_bytes;

	if (all > in_order)
		return in_order + (all - in_order < beyond ? all - in_order : beyond);
	/* A gap was closed; or the kernel has joined segments, and their size says nothing. */
	return after->segments * after->segment_bytes >= after->in_order ? all : in_order;
}

/* As the kernel counts: a thread that waits for a core takes nothing, and then all at once. */
static struct clusterprobe_count received(const struct peer *peer)
{
	struct tcp_info info;
	socklen_t bytes = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(peer->stream.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0 || !info.tcpi_bytes_received)
		return (struct clusterprobe_count){ .in_order = atomic_load(&peer->received_bytes) };
	return (struct clusterprobe_count){
		.in_order = info.tcpi_bytes_received,
		.segments = info.tcpi_data_segs_in,
		.segment_bytes = info.tcpi_rcv_mss,
		/* Kernels before 5.4 do not count these: any may be. */
		.out_of_order = bytes >= offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof(info.tcpi_rcv_ooopack)
					? info.tcpi_rcv_ooopack
					: info.tcpi_data_segs_in,
	};
}

static void take(struct peer *peer, uint8_t *buffer)
{
	for (;;) {
		ssize_t got = stream_move(&peer->stream, POLLIN, buffer, CHUNK_BYTES);

		if (got < 0)
			return;
		atomic_fetch_add_explicit(&peer->received_bytes, (uint64_t)got, memory_order_relaxed);
		if (peer->preamble.echo && stream_move_all(&peer->stream, POLLOUT, buffer, (size_t)got) < 0)
			return;
	}
}

static void *serve(void *arg)
{
	struct peer *peer = arg;
	uint8_t *buffer = malloc(CHUNK_BYTES), bytes[CLUSTERPROBE_PREAMBLE_BYTES];
	struct clusterprobe_preamble preamble;

	/* Another host may know of this run before this one does. */
	for (unsigned i = 0; i < ADMIT_NAPS && !atomic_load(&peer->port->admits) && !atomic_load(&peer->port->stop);
	     i++)
		poll(NULL, 0, NAP_MS);
	if (buffer && atomic_load(&peer->port->admits) &&
	    !stream_move_all(&peer->stream, POLLIN, bytes, sizeof(bytes)) &&
	    !clusterprobe_preamble_codec(CODEC_FROM(bytes, CLUSTERPROBE_PREAMBLE_BYTES), &preamble) &&
	    !memcmp(preamble.token, peer->port->token, sizeof(preamble.token))) {
		pthread_mutex_lock(&peer->port->lock);
		peer->preamble = preamble;
		peer->known = true;
		pthread_mutex_unlock(&peer->port->lock);
		take(peer, buffer);
	}
	free(buffer);
	/* The sender's round may end before it is counted here: it is known until another takes its place. */
	pthread_mutex_lock(&peer->port->lock);
	peer->last = received(peer);
	peer->ended = true;
	sys_close(&peer->stream.fd);
	pthread_mutex_unlock(&peer->port->lock);
	atomic_store(&peer->over, true);
	return NULL;
}

static struct peer *peer_slot(struct clusterprobe_receiver *port)
{
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &port->peers[i];

		if (peer->taken && atomic_load(&peer->over)) {
			pthread_join(peer->thread, NULL);
			peer->taken = false;
		}
		if (!peer->taken)
			return peer;
	}
	return NULL;
}

static void peer_begin(struct clusterprobe_receiver *port, int fd)
{
	struct peer *peer = peer_slot(port);
	int on = 1;

	if (!peer) {
		sys_close(&fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pthread_mutex_lock(&port->lock);
	peer->known = peer->ended = false;
	pthread_mutex_unlock(&port->lock);
	atomic_store(&peer->over, false);
	atomic_store(&peer->received_bytes, 0);
	peer->stream.fd = fd;
	peer->stream.stop = &port->stop;
	peer->port = port;
	if (sys_thread_start(serve, peer, "take", &peer->thread) < 0)
		sys_close(&peer->stream.fd);
	else
		peer->taken = true;
}

static void *accept_peers(void *arg)
{
	struct clusterprobe_receiver *port = arg;

	while (!atomic_load(&port->stop)) {
		struct sockaddr_storage address;
		socklen_t bytes = sizeof(address);
		int fd;

		if (stream_wait(&port->listener, POLLIN) < 0)
			continue;
		fd = sys_accept(port->listener.fd, &address, &bytes);
		if (fd >= 0)
			peer_begin(port, fd);
		else if (fd != -EAGAIN)
			poll(NULL, 0, NAP_MS); /* no descriptor is left, and the peer still waits */
	}
	return NULL;
}

int clusterprobe_receiver_start(int fd, struct clusterprobe_receiver **ret)
{
	struct clusterprobe_receiver *port = sys_zalloc(sizeof(*port));
	int r;

	if (!port) {
		sys_close(&fd);
		return -ENOMEM;
	}
	pthread_mutex_init(&port->lock, NULL);
	port->listener = (struct stream){ .fd = fd, .stop = &port->stop };
	r = sys_thread_start(accept_peers, port, "listen", &port->thread);
	if (r < 0) {
		clusterprobe_receiver_close(port);
		return r;
	}
	port->started = true;
	*ret = port;
	return 0;
}

int clusterprobe_receiver_open(const struct sockaddr_storage *address, socklen_t bytes,
			       struct clusterprobe_receiver **ret, struct sockaddr_storage *ret_bound)
{
	socklen_t bound_bytes = sizeof(*ret_bound);
	int fd = sys_socket(address->ss_family, SOCK_STREAM, 0), r;

	if (fd < 0)
		return fd;
	r = sys_bind(fd, (const struct sockaddr *)address, bytes);
	if (r >= 0)
		r = sys_listen(fd, BACKLOG);
	if (r >= 0 && getsockname(fd, (struct sockaddr *)ret_bound, &bound_bytes) < 0)
		r = -errno;
	if (r >= 0)
		return clusterprobe_receiver_start(fd, ret);
	sys_close(&fd);
	return r;
}

void clusterprobe_receiver_close(struct clusterprobe_receiver *port)
{
	if (!port)
		return;
	atomic_store(&port->stop, true);
	if (port->started)
		pthread_join(port->thread, NULL);
	for (size_t i = 0; i < PEERS_MAX; i++)
		if (port->peers[i].taken)
			pthread_join(port->peers[i].thread, NULL);
	sys_close(&port->listener.fd);
	pthread_mutex_destroy(&port->lock);
	sys_free(port);
}

void clusterprobe_receiver_admit(struct clusterprobe_receiver *port,
				 const uint8_t token[static CLUSTERPROBE_TOKEN_BYTES])
{
	memcpy(port->token, token, CLUSTERPROBE_TOKEN_BYTES);
	atomic_store(&port->admits, true);
}

void clusterprobe_receiver_count(struct clusterprobe_receiver *port, uint32_t round, uint16_t flow,
				 struct clusterprobe_count *ret)
{
	struct clusterprobe_count sum = { 0 };

	pthread_mutex_lock(&port->lock);
	for (size_t i = 0; i < PEERS_MAX; i++) {
		struct peer *peer = &port->peers[i];
		struct clusterprobe_count one;

		if (!peer->known || peer->preamble.round != round || peer->preamble.flow != flow)
			continue;
		one = peer->ended ? peer->last : received(peer);
		sum.in_order += one.in_order;
		sum.segments += one.segments;
		sum.out_of_order += one.out_of_order;
		sum.segment_bytes = one.segment_bytes > sum.segment_bytes ? one.segment_bytes : sum.segment_bytes;
	}
	pthread_mutex_unlock(&port->lock);
	*ret = sum;
}

/* ------------------------------------------------------------------------------------------------------------- senders */

struct clusterprobe_sender {
	struct clusterprobe_sending what;
	struct stream stream;
	atomic_bool stop;
	pthread_t thread;
	bool started;
	int result;
};

static int preamble_at(struct stream *stream, const struct clusterprobe_sending *what)
{
	struct linger none = { .l_onoff = 1 }; /* what is not sent when the round ends is not wanted */
	struct clusterprobe_preamble preamble = what->preamble;
	uint8_t bytes[CLUSTERPROBE_PREAMBLE_BYTES];
	struct sockaddr_storage address;
	socklen_t address_bytes = clusterprobe_address_to(&what->to, &address), error_bytes = sizeof(int);
	int r = sys_socket(address.ss_family, SOCK_STREAM, 0), on = 1, error = 0;

	if (r < 0)
		return r;
	stream->fd = r;
	setsockopt(stream->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	/* Fills a link within a round, and shares it; what paces itself by its own measurements (bbr) may do neither. */
	setsockopt(stream->fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);
	/* What cannot be limited is not sent: somebody asked for it. */
	if (what->limit_Bps &&
	    setsockopt(stream->fd, SOL_SOCKET, SO_MAX_PACING_RATE, &what->limit_Bps, sizeof(what->limit_Bps)) < 0)
		return -errno;
	r = sys_connect(stream->fd, (struct sockaddr *)&address, address_bytes);
	if (r == -EINPROGRESS) {
		r = stream_wait(stream, POLLOUT);
		if (!r && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes))
			r = -errno;
		if (!r)
			r = -error;
	}
	if (r < 0)
		return r;
	clusterprobe_preamble_codec(CODEC_TO(bytes), &preamble);
	return stream_move_all(stream, POLLOUT, bytes, sizeof(bytes));
}

static void *send_all(void *arg)
{
	struct clusterprobe_sender *sender = arg;
	uint8_t *buffer = calloc(1, CHUNK_BYTES);
	ssize_t r = buffer ? preamble_at(&sender->stream, &sender->what) : -ENOMEM;

	while (r >= 0)
		r = stream_move(&sender->stream, POLLOUT, buffer, CHUNK_BYTES);
	sender->result = r == -ECANCELED ? 0 : (int)r;
	free(buffer);
	sys_close(&sender->stream.fd);
	return NULL;
}

int clusterprobe_sender_start(const struct clusterprobe_sending *what, struct clusterprobe_sender **ret)
{
	struct clusterprobe_sender *sender = sys_zalloc(sizeof(*sender));
	int r;

	if (!sender)
		return -ENOMEM;
	sender->what = *what;
	sender->stream = (struct stream){ .fd = -1, .stop = &sender->stop, .interrupt = what->stop };
	r = sys_thread_start(send_all, sender, "send", &sender->thread);
	if (r < 0) {
		sys_free(sender);
		return r;
	}
	*ret = sender;
	return 0;
}

int clusterprobe_sender_end(struct clusterprobe_sender *sender)
{
	int r;

	if (!sender)
		return 0;
	atomic_store(&sender->stop, true);
	pthread_join(sender->thread, NULL);
	r = sender->result;
	sys_free(sender);
	return r;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

int clusterprobe_ping(const struct clusterprobe_sending *what, unsigned count, uint64_t *ret_median_ns,
		      uint64_t *ret_least_ns)
{
	atomic_bool stop = false;
	struct stream stream = { .fd = -1, .stop = &stop, .interrupt = what->stop };
	uint64_t taken_ns[ECHOES_MAX] = { 0 };
	uint8_t byte = 0;
	int r = preamble_at(&stream, what);

	count = count < ECHOES_MAX ? count : ECHOES_MAX;
	for (unsigned i = 0; i < count && r == 0; i++) {
		uint64_t start_ns = clock_now_ns();

		r = stream_move_all(&stream, POLLOUT, &byte, 1);
		if (r == 0)
			r = stream_move_all(&stream, POLLIN, &byte, 1);
		taken_ns[i] = clock_elapsed_ns(start_ns, clock_now_ns());
	}
	sys_close(&stream.fd);
	if (r < 0)
		return r;
	qsort(taken_ns, count, sizeof(*taken_ns), compare);
	*ret_median_ns = taken_ns[count / 2];
	*ret_least_ns = taken_ns[0];
	return 0;
}
