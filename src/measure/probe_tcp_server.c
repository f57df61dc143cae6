#include "measure/probe_tcp.h"

#include "base/sys.h"
#include "measure/probe_tcp_stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ACCEPT_NAP_MS = 20 };

struct guest {
	struct probe_tcp_stream stream;
	uint8_t *buffer;
	pthread_t thread;
	bool taken;       /* of the acceptor's thread alone: there is a thread to join */
	atomic_bool over; /* the thread has ended or is about to */
};

struct probe_tcp_server {
	struct probe_tcp_stream listener; /* its fd and `stop` alone */
	atomic_bool stop;
	pthread_t thread;
	bool started;
	struct guest guests[PROBE_TCP_CONNECTIONS_MAX];
};

/* A guest that says anything else is closed without an answer. */
static int hello(struct guest *guest, enum probe_tcp_task *ret)
{
	uint8_t bytes[PROBE_TCP_HELLO_BYTES];
	int r = probe_tcp_stream_receive(&guest->stream, bytes, sizeof(bytes));

	if (!r)
		r = probe_tcp_hello_decode(bytes, ret);
	return r < 0 ? r : probe_tcp_stream_send(&guest->stream, bytes, sizeof(bytes));
}

static void *serve(void *arg)
{
	struct guest *guest = arg;
	enum probe_tcp_task task;

	if (!hello(guest, &task)) {
		switch (task) {
		case PROBE_TCP_TAKE:
			probe_tcp_stream_take(&guest->stream, guest->buffer);
			break;
		case PROBE_TCP_GIVE:
			probe_tcp_stream_give(&guest->stream, guest->buffer);
			break;
		case PROBE_TCP_ECHO:
			probe_tcp_stream_echo(&guest->stream, guest->buffer);
			break;
		}
	}
	/* At once, so that the other end sees it; the acceptor joins the thread when it needs the place. */
	sys_close(&guest->stream.fd);
	atomic_store(&guest->over, true);
	return NULL;
}

static void guest_end(struct guest *guest)
{
	if (!guest->taken)
		return;
	pthread_join(guest->thread, NULL);
	guest->taken = false;
	free(guest->buffer);
	guest->buffer = NULL;
}

static struct guest *guest_place(struct probe_tcp_server *server)
{
	for (size_t i = 0; i < PROBE_TCP_CONNECTIONS_MAX; i++) {
		struct guest *guest = &server->guests[i];

		if (guest->taken && atomic_load(&guest->over))
			guest_end(guest);
		if (!guest->taken)
			return guest;
	}
	return NULL;
}

/* Takes over fd. A guest without a place or a thread sees its connection closed. */
static void guest_begin(struct probe_tcp_server *server, int fd)
{
	struct guest *guest = guest_place(server);
	int on = 1;

	if (!guest)
		goto fail;
	guest->buffer = calloc(1, PROBE_TCP_CHUNK_BYTES);
	if (!guest->buffer)
		goto fail;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	guest->stream.fd = fd;
	guest->stream.stop = &server->stop;
	atomic_store(&guest->over, false);
	if (sys_thread_start(serve, guest, "serve", &guest->thread)) {
		free(guest->buffer);
		guest->buffer = NULL;
		goto fail;
	}
	guest->taken = true;
	return;
fail:
	sys_close(&fd);
}

static void *accept_guests(void *arg)
{
	struct probe_tcp_server *server = arg;

	while (!atomic_load(&server->stop)) {
		int r = probe_tcp_stream_wait(&server->listener, POLLIN), fd;
		struct sockaddr_storage address;
		socklen_t bytes = sizeof(address);

		if (r < 0)
			continue; /* stopped, or nobody came for a while */
		fd = sys_accept(server->listener.fd, &address, &bytes);
		if (fd >= 0)
			guest_begin(server, fd);
		else if (fd != -EAGAIN)
			poll(NULL, 0, ACCEPT_NAP_MS); /* no descriptor is left, and the guest still waits */
	}
	return NULL;
}

int probe_tcp_server_start(const struct sockaddr *address, socklen_t address_bytes, struct probe_tcp_server **ret,
			   struct sockaddr_storage *ret_bound, struct diag *diag)
{
	struct probe_tcp_server *server = calloc(1, sizeof(*server));
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof(bound);
	int r = -ENOMEM, on = 1;

	if (!server)
		return r;
	server->listener = (struct probe_tcp_stream){ .fd = -1, .stop = &server->stop };
	r = sys_socket(address->sa_family, SOCK_STREAM, 0);
	if (r < 0)
		goto fail;
	server->listener.fd = r;
	setsockopt(server->listener.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	r = sys_bind(server->listener.fd, address, address_bytes);
	if (!r)
		r = sys_listen(server->listener.fd, PROBE_TCP_CONNECTIONS_MAX);
	if (!r && getsockname(server->listener.fd, (struct sockaddr *)&bound, &bytes))
		r = -errno;
	if (!r)
		r = sys_thread_start(accept_guests, server, "listen", &server->thread);
	if (r < 0)
		goto fail;
	server->started = true;
	*ret = server;
	if (ret_bound)
		*ret_bound = bound;
	return 0;
fail:
	diag_set(diag, 0, 0, "cannot listen for measurements: %s", strerror(-r));
	probe_tcp_server_stop(server);
	return r;
}

void probe_tcp_server_stop(struct probe_tcp_server *server)
{
	if (!server)
		return;
	atomic_store(&server->stop, true);
	if (server->started)
		pthread_join(server->thread, NULL);
	for (size_t i = 0; i < PROBE_TCP_CONNECTIONS_MAX; i++)
		guest_end(&server->guests[i]);
	sys_close(&server->listener.fd);
	free(server);
}
