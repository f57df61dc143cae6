/* Data between the hosts of a fleet: who takes it, who sends it, and echoes. Each connection is a thread, as a core is. */
#include "command/fleet/fleet.h"

#include "base/clock.h"
#include "base/sys.h"
#include "measure/probe_tcp_stream.h"

#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { GUESTS_MAX = 512, BACKLOG = 512, NAP_MS = 20, ADMIT_NAPS = 250, ECHOES_MAX = 256 };

struct guest {
	struct probe_tcp_stream stream;
	pthread_t thread;
	struct fleet_port *port;
	bool taken;       /* of the acceptor's thread alone */
	atomic_bool over; /* its thread has ended, or is about to */
	bool known;       /* under the port's lock, with what follows */
	bool ended;       /* it is closed, and last is what came */
	struct fleet_count last;
	struct fleet_knock knock;
};

struct fleet_port {
	struct probe_tcp_stream listener;
	atomic_bool stop, admits;
	pthread_mutex_t lock;
	uint8_t token[FLEET_TOKEN_BYTES]; /* once it admits */
	pthread_t thread;
	bool started;
	struct guest guests[GUESTS_MAX];
};

static uint64_t between(uint64_t before, uint64_t after)
{
	return after > before ? after - before : 0;
}

uint64_t fleet_port_moved(const struct fleet_count *before, const struct fleet_count *after)
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
static struct fleet_count received(const struct guest *guest)
{
	struct tcp_info info;
	socklen_t bytes = sizeof(info);

	memset(&info, 0, sizeof(info));
	if (getsockopt(guest->stream.fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0 || !info.tcpi_bytes_received)
		return (struct fleet_count){ .in_order = atomic_load(&guest->stream.received_bytes) };
	return (struct fleet_count){
		.in_order = info.tcpi_bytes_received,
		.segments = info.tcpi_data_segs_in,
		.segment_bytes = info.tcpi_rcv_mss,
		/* Kernels before 5.4 do not count these: any may be. */
		.out_of_order = bytes >= offsetof(struct tcp_info, tcpi_rcv_ooopack) + sizeof(info.tcpi_rcv_ooopack)
					? info.tcpi_rcv_ooopack
					: info.tcpi_data_segs_in,
	};
}

static void *serve(void *arg)
{
	struct guest *guest = arg;
	uint8_t *buffer = malloc(PROBE_TCP_CHUNK_BYTES), bytes[FLEET_KNOCK_BYTES];
	struct fleet_knock knock;

	/* Another host may know of this run before this one does. */
	for (unsigned i = 0; i < ADMIT_NAPS && !atomic_load(&guest->port->admits) && !atomic_load(&guest->port->stop);
	     i++)
		poll(NULL, 0, NAP_MS);
	if (buffer && atomic_load(&guest->port->admits) &&
	    !probe_tcp_stream_receive(&guest->stream, bytes, sizeof(bytes)) && !fleet_knock_get(bytes, &knock) &&
	    !memcmp(knock.token, guest->port->token, sizeof(knock.token))) {
		pthread_mutex_lock(&guest->port->lock);
		guest->knock = knock;
		guest->known = true;
		pthread_mutex_unlock(&guest->port->lock);
		if (knock.echo)
			probe_tcp_stream_echo(&guest->stream, buffer);
		else
			probe_tcp_stream_take(&guest->stream, buffer);
	}
	free(buffer);
	/* The sender's round may end before it is counted here: it is known until another takes its place. */
	pthread_mutex_lock(&guest->port->lock);
	guest->last = received(guest);
	guest->ended = true;
	sys_close(&guest->stream.fd);
	pthread_mutex_unlock(&guest->port->lock);
	atomic_store(&guest->over, true);
	return NULL;
}

static struct guest *guest_place(struct fleet_port *port)
{
	for (size_t i = 0; i < GUESTS_MAX; i++) {
		struct guest *guest = &port->guests[i];

		if (guest->taken && atomic_load(&guest->over)) {
			pthread_join(guest->thread, NULL);
			guest->taken = false;
		}
		if (!guest->taken)
			return guest;
	}
	return NULL;
}

static void guest_begin(struct fleet_port *port, int fd)
{
	struct guest *guest = guest_place(port);
	int on = 1;

	if (!guest) {
		sys_close(&fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	pthread_mutex_lock(&port->lock);
	guest->known = guest->ended = false;
	pthread_mutex_unlock(&port->lock);
	atomic_store(&guest->over, false);
	atomic_store(&guest->stream.received_bytes, 0);
	guest->stream.fd = fd;
	guest->stream.stop = &port->stop;
	guest->port = port;
	if (sys_thread_start(serve, guest, "take", &guest->thread) < 0)
		sys_close(&guest->stream.fd);
	else
		guest->taken = true;
}

static void *accept_guests(void *arg)
{
	struct fleet_port *port = arg;

	while (!atomic_load(&port->stop)) {
		struct sockaddr_storage address;
		socklen_t bytes = sizeof(address);
		int fd;

		if (probe_tcp_stream_wait(&port->listener, POLLIN) < 0)
			continue;
		fd = sys_accept(port->listener.fd, &address, &bytes);
		if (fd >= 0)
			guest_begin(port, fd);
		else if (fd != -EAGAIN)
			poll(NULL, 0, NAP_MS); /* no descriptor is left, and the guest still waits */
	}
	return NULL;
}

int fleet_port_open(const struct sockaddr_storage *address, socklen_t bytes, struct fleet_port **ret,
		    struct sockaddr_storage *ret_bound)
{
	struct fleet_port *port = sys_zalloc(sizeof(*port));
	socklen_t bound_bytes = sizeof(*ret_bound);
	int r;

	if (!port)
		return -ENOMEM;
	pthread_mutex_init(&port->lock, NULL);
	port->listener = (struct probe_tcp_stream){ .fd = -1, .stop = &port->stop };
	r = sys_socket(address->ss_family, SOCK_STREAM, 0);
	if (r >= 0) {
		port->listener.fd = r;
		r = sys_bind(port->listener.fd, (const struct sockaddr *)address, bytes);
	}
	if (r >= 0)
		r = sys_listen(port->listener.fd, BACKLOG);
	if (r >= 0 && getsockname(port->listener.fd, (struct sockaddr *)ret_bound, &bound_bytes) < 0)
		r = -errno;
	if (r >= 0)
		r = sys_thread_start(accept_guests, port, "listen", &port->thread);
	if (r < 0) {
		fleet_port_close(port);
		return r;
	}
	port->started = true;
	*ret = port;
	return 0;
}

void fleet_port_close(struct fleet_port *port)
{
	if (!port)
		return;
	atomic_store(&port->stop, true);
	if (port->started)
		pthread_join(port->thread, NULL);
	for (size_t i = 0; i < GUESTS_MAX; i++)
		if (port->guests[i].taken)
			pthread_join(port->guests[i].thread, NULL);
	sys_close(&port->listener.fd);
	pthread_mutex_destroy(&port->lock);
	sys_free(port);
}

void fleet_port_admit(struct fleet_port *port, const uint8_t token[static FLEET_TOKEN_BYTES])
{
	memcpy(port->token, token, FLEET_TOKEN_BYTES);
	atomic_store(&port->admits, true);
}

void fleet_port_count(struct fleet_port *port, uint32_t round, uint16_t flow, struct fleet_count *ret)
{
	struct fleet_count sum = { 0 };

	pthread_mutex_lock(&port->lock);
	for (size_t i = 0; i < GUESTS_MAX; i++) {
		struct guest *guest = &port->guests[i];
		struct fleet_count one;

		if (!guest->known || guest->knock.round != round || guest->knock.flow != flow)
			continue;
		one = guest->ended ? guest->last : received(guest);
		sum.in_order += one.in_order;
		sum.segments += one.segments;
		sum.out_of_order += one.out_of_order;
		sum.segment_bytes = one.segment_bytes > sum.segment_bytes ? one.segment_bytes : sum.segment_bytes;
	}
	pthread_mutex_unlock(&port->lock);
	*ret = sum;
}

/* ------------------------------------------------------------------------------------------------------------- senders */

struct fleet_sender {
	struct fleet_sending what;
	struct fleet_address to;
	struct probe_tcp_stream stream;
	atomic_bool stop;
	pthread_t thread;
	bool started;
	int result;
};

static int knock_at(struct probe_tcp_stream *stream, const struct fleet_sending *what)
{
	struct linger none = { .l_onoff = 1 }; /* what is not sent when the round ends is not wanted */
	uint8_t bytes[FLEET_KNOCK_BYTES];
	struct sockaddr_storage address;
	socklen_t address_bytes = fleet_address_to(what->to, &address), error_bytes = sizeof(int);
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
		r = probe_tcp_stream_wait(stream, POLLOUT);
		if (!r && getsockopt(stream->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes))
			r = -errno;
		if (!r)
			r = -error;
	}
	if (r < 0)
		return r;
	fleet_knock_put(&what->knock, bytes);
	return probe_tcp_stream_send(stream, bytes, sizeof(bytes));
}

static void *send_all(void *arg)
{
	struct fleet_sender *sender = arg;
	uint8_t *buffer = calloc(1, PROBE_TCP_CHUNK_BYTES);
	int r = buffer ? knock_at(&sender->stream, &sender->what) : -ENOMEM;

	if (r == 0)
		r = probe_tcp_stream_give(&sender->stream, buffer);
	sender->result = r == -ECANCELED ? 0 : r;
	free(buffer);
	sys_close(&sender->stream.fd);
	return NULL;
}

int fleet_sender_start(const struct fleet_sending *what, struct fleet_sender **ret)
{
	struct fleet_sender *sender = sys_zalloc(sizeof(*sender));
	int r;

	if (!sender)
		return -ENOMEM;
	sender->what = *what;
	sender->to = *what->to;
	sender->what.to = &sender->to;
	sender->stream = (struct probe_tcp_stream){ .fd = -1, .stop = &sender->stop, .interrupt = what->stop };
	r = sys_thread_start(send_all, sender, "send", &sender->thread);
	if (r < 0) {
		sys_free(sender);
		return r;
	}
	*ret = sender;
	return 0;
}

int fleet_sender_end(struct fleet_sender *sender)
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

int fleet_ping(const struct fleet_sending *what, unsigned count, uint64_t *ret_median_ns, uint64_t *ret_least_ns)
{
	atomic_bool stop = false;
	struct probe_tcp_stream stream = { .fd = -1, .stop = &stop, .interrupt = what->stop };
	uint64_t taken_ns[ECHOES_MAX] = { 0 };
	uint8_t byte = 0;
	int r = knock_at(&stream, what);

	count = count < ECHOES_MAX ? count : ECHOES_MAX;
	for (unsigned i = 0; i < count && r == 0; i++) {
		uint64_t start_ns = clock_now_ns();

		r = probe_tcp_stream_send(&stream, &byte, 1);
		if (r == 0)
			r = probe_tcp_stream_receive(&stream, &byte, 1);
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
