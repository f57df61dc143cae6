/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A net plugin (version 10) that moves messages as NCCL's own sockets do, as far as its users can see: what a plugin is
 * compared with where NCCL itself cannot run. Its own code throughout. The facts that it follows:
 *   - a connection is one control socket, and as many data sockets as threads × sockets a thread (NCCL_SOCKET_NTHREADS,
 *     NCCL_NSOCKS_PERTHREAD; none unless they are set);
 *   - nothing moves but in test(), or in the threads;
 *   - the size goes first, on the control socket, with the data if these are at most 128 bytes; the rest follows on the control
 *     socket, or in pieces of at least 64 KiB on the data sockets in turn;
 *   - a thread takes as many pieces as it has sockets and polls these until the last is through, then the next ones: the
 *     slowest socket decides;
 *   - TCP_NODELAY, buffers as the kernel has them, one receive at a time (a group of one), tags are not looked at.
 * Left out: the choice of interfaces (the first that is up and not the loopback; that, if there is no other), IPv6, retries,
 * strangers, a connect and an accept that never block.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nccl/v10.h"

enum { MAX_THREADS = 16, MAX_SOCKETS = 64, INLINE_BYTES = 128, PIECE_BYTES = 64 << 10, BACKLOG = 4096 };

/* Bytes on their way through one socket. */
struct move {
	int fd;
	bool out;
	char *data;
	size_t bytes, moved;
};

struct piece {
	struct move move;
	_Atomic int state; /* 0: under way, 1: done, -errno */
	unsigned group;    /* of those that its thread moves together, each on a socket of its own */
	struct piece *next;
};

struct request {
	struct comm *comm;
	bool used, sized;
	char *data;
	size_t bytes;
	struct move move; /* the size and what is inline, then what goes by the control socket */
	char head[sizeof(uint32_t) + INLINE_BYTES];
	struct piece pieces[MAX_SOCKETS];
	int piece_count;
};

struct helper {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct piece *first, **last; /* the inbox */
	unsigned pieces;             /* so far; the caller's alone */
	bool stop;
};

struct comm {
	bool out;
	int control, fds[MAX_SOCKETS], socket_count, next_fd, thread_count;
	int connected; /* sockets that have been, while it is made */
	struct helper helpers[MAX_THREADS];
	struct request requests[NCCL_MAX_REQUESTS];
};

struct listener {
	int fd;
	struct comm *half; /* what accept() has collected so far */
};

struct handle {
	struct sockaddr_in address;
	uint32_t thread_count, socket_count;
};

_Static_assert(sizeof(struct handle) <= NCCL_HANDLE_BYTES, "a handle is what NCCL carries");

static nccl_debug_logger *logger;

static enum nccl_result failed(const char *call, int error)
{
	if (logger)
		logger(NCCL_LEVEL_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "sockets: %s: %s", call, strerror(error));
	return NCCL_SYSTEM_ERROR;
}

static uint32_t from_environment(const char *name, uint32_t most)
{
	const char *text = getenv(name);
	long value = text ? strtol(text, NULL, 10) : 0;

	return value < 0 ? 0 : value > (long)most ? most : (uint32_t)value;
}

/* ---- moving bytes ---- */

/* As much as the kernel takes or has. 0, or -errno. */
static int move_on(struct move *m)
{
	ssize_t n;

	while (m->moved < m->bytes) {
		n = m->out ? send(m->fd, m->data + m->moved, m->bytes - m->moved, MSG_DONTWAIT | MSG_NOSIGNAL)
			   : recv(m->fd, m->data + m->moved, m->bytes - m->moved, MSG_DONTWAIT);
		if (n == 0)
			return -ECONNRESET;
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		m->moved += (size_t)n;
	}
	return 0;
}

/*
 * Moves the pieces of the oldest group on in turn; new ones come through the inbox, in order. No later one is touched: it may
 * be for the same socket.
 */
static void *help(void *arg)
{
	struct helper *h = arg;
	struct piece *first = NULL, **at, *piece;
	unsigned group;

	for (;;) {
		pthread_mutex_lock(&h->lock);
		while (!first && !h->first && !h->stop)
			pthread_cond_wait(&h->wake, &h->lock);
		for (at = &first; *at; at = &(*at)->next)
			;
		*at = h->first;
		h->first = NULL;
		h->last = &h->first;
		if (h->stop)
			break;
		pthread_mutex_unlock(&h->lock);
		group = first->group;
		for (at = &first; (piece = *at) && piece->group == group;) {
			int r = move_on(&piece->move);

			if (r == 0 && piece->move.moved < piece->move.bytes) {
				at = &piece->next;
				continue;
			}
			*at = piece->next;
			atomic_store(&piece->state, r < 0 ? r : 1); /* the request's owner may use it again */
		}
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

static void hand_over(struct helper *h, struct piece *piece, unsigned together)
{
	piece->next = NULL;
	piece->group = h->pieces++ / together;
	atomic_store(&piece->state, 0);
	pthread_mutex_lock(&h->lock);
	*h->last = piece;
	h->last = &piece->next;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
}

/* ---- requests ---- */

static enum nccl_result start(struct comm *comm, bool out, void *data, size_t bytes, void **ret_request)
{
	struct request *r;
	size_t i;

	*ret_request = NULL;
	for (i = 0; i < NCCL_MAX_REQUESTS && comm->requests[i].used; i++)
		;
	if (i == NCCL_MAX_REQUESTS)
		return NCCL_SUCCESS;
	r = &comm->requests[i];
	r->used = true;
	r->sized = false;
	r->comm = comm;
	r->data = data;
	r->bytes = bytes;
	r->piece_count = 0;
	r->move = (struct move){ .fd = comm->control, .out = out, .data = r->head, .bytes = sizeof(uint32_t) };
	if (out) {
		uint32_t size = (uint32_t)bytes;

		memcpy(r->head, &size, sizeof(size));
		if (bytes <= INLINE_BYTES) {
			memcpy(r->head + sizeof(size), data, bytes);
			r->move.bytes += bytes;
		}
	}
	*ret_request = r;
	return NCCL_SUCCESS;
}

/* The head is through: what follows goes by the control socket, or in pieces by the others. */
static enum nccl_result follow(struct request *r)
{
	struct comm *comm = r->comm;
	size_t from = 0, least;
	uint32_t size;

	memcpy(&size, r->head, sizeof(size));
	if (size > r->bytes) {
		failed("a message is longer than its receive", EMSGSIZE);
		return NCCL_INVALID_USAGE;
	}
	r->bytes = size;
	r->sized = true;
	if (r->move.out && size <= INLINE_BYTES)
		from = size;
	r->move = (struct move){ .fd = comm->control, .out = comm->out, .data = r->data, .bytes = size, .moved = from };
	if (comm->socket_count == 0 || size <= INLINE_BYTES)
		return NCCL_SUCCESS;
	least = (size + (size_t)comm->socket_count - 1) / (size_t)comm->socket_count;
	least = least < PIECE_BYTES ? PIECE_BYTES : least;
	for (; from < size; from += least) {
		struct piece *piece = &r->pieces[r->piece_count++];
		int at = comm->next_fd;

		comm->next_fd = (at + 1) % comm->socket_count;
		piece->move = (struct move){ .fd = comm->fds[at],
					     .out = comm->out,
					     .data = r->data + from,
					     .bytes = size - from < least ? size - from : least };
		hand_over(&comm->helpers[at % comm->thread_count], piece,
			  (unsigned)(comm->socket_count / comm->thread_count));
	}
	r->move.moved = size;
	return NCCL_SUCCESS;
}

static enum nccl_result test(void *request, int *ret_done, int *ret_sizes)
{
	struct request *r = request;
	enum nccl_result result;
	int e = move_on(&r->move), i;

	*ret_done = 0;
	if (e == 0 && !r->sized) {
		if (r->move.moved < r->move.bytes)
			return NCCL_SUCCESS;
		result = follow(r);
		if (result != NCCL_SUCCESS)
			return result;
		e = move_on(&r->move);
	}
	for (i = 0; i < r->piece_count && e == 0; i++) {
		int state = atomic_load(&r->pieces[i].state);

		if (state == 0)
			return NCCL_SUCCESS;
		e = state < 0 ? state : 0;
	}
	if (e < 0) {
		failed(r->move.out ? "send" : "recv", -e);
		return NCCL_REMOTE_ERROR;
	}
	if (r->move.moved < r->move.bytes)
		return NCCL_SUCCESS;
	if (ret_sizes)
		*ret_sizes = (int)r->bytes;
	*ret_done = 1;
	r->used = false;
	return NCCL_SUCCESS;
}

static enum nccl_result isend(void *comm, void *data, size_t size, int tag, void *mhandle, void *profiler_handle,
			      void **ret_request)
{
	(void)tag, (void)mhandle, (void)profiler_handle;
	return start(comm, true, data, size, ret_request);
}

static enum nccl_result irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
			      void **profiler_handles, void **ret_request)
{
	(void)tags, (void)mhandles, (void)profiler_handles;
	return n == 1 ? start(comm, false, data[0], sizes[0], ret_request) : NCCL_INVALID_USAGE;
}

/* ---- connections ---- */

static void comm_free(struct comm *comm)
{
	int i;

	if (!comm)
		return;
	for (i = 0; i < comm->thread_count; i++) {
		struct helper *h = &comm->helpers[i];

		pthread_mutex_lock(&h->lock);
		h->stop = true;
		pthread_cond_signal(&h->wake);
		pthread_mutex_unlock(&h->lock);
		pthread_join(h->thread, NULL);
	}
	for (i = 0; i < comm->socket_count; i++)
		if (comm->fds[i] >= 0)
			close(comm->fds[i]);
	if (comm->control >= 0)
		close(comm->control);
	free(comm);
}

static struct comm *comm_new(bool out, int socket_count)
{
	struct comm *comm = calloc(1, sizeof(*comm));
	int i;

	if (!comm)
		return NULL;
	comm->out = out;
	comm->control = -1;
	comm->socket_count = socket_count;
	for (i = 0; i < MAX_SOCKETS; i++)
		comm->fds[i] = -1;
	return comm;
}

/* All sockets are there. */
static enum nccl_result comm_begin(struct comm *comm, int thread_count)
{
	int r;

	while (comm->thread_count < thread_count) {
		struct helper *h = &comm->helpers[comm->thread_count];

		pthread_mutex_init(&h->lock, NULL);
		pthread_cond_init(&h->wake, NULL);
		h->last = &h->first;
		r = pthread_create(&h->thread, NULL, help, h);
		if (r)
			return failed("pthread_create", r);
		comm->thread_count++;
	}
	return NCCL_SUCCESS;
}

static struct sockaddr_in own_address(char *ret_name)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifaddrs *all, *i;

	snprintf(ret_name, IFNAMSIZ, "lo");
	if (getifaddrs(&all))
		return address;
	for (i = all; i; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP &&
		    !(i->ifa_flags & IFF_LOOPBACK)) {
			memcpy(&address, i->ifa_addr, sizeof(address));
			snprintf(ret_name, IFNAMSIZ, "%s", i->ifa_name);
			break;
		}
	address.sin_port = 0;
	freeifaddrs(all);
	return address;
}

static enum nccl_result listen_on(int device, void *handle, void **ret_listen_comm)
{
	char name[IFNAMSIZ] = "";
	struct handle h = { .address = own_address(name),
			    .thread_count = from_environment("NCCL_SOCKET_NTHREADS", MAX_THREADS) };
	struct listener *listener = calloc(1, sizeof(*listener));
	socklen_t length = sizeof(h.address);

	(void)device;
	if (!listener)
		return failed("listen", ENOMEM);
	if (h.thread_count)
		h.socket_count = h.thread_count *
				 from_environment("NCCL_NSOCKS_PERTHREAD", MAX_SOCKETS / h.thread_count);
	if (h.socket_count == 0)
		h.thread_count = 0;
	listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0 || bind(listener->fd, (struct sockaddr *)&h.address, sizeof(h.address)) ||
	    listen(listener->fd, BACKLOG) || getsockname(listener->fd, (struct sockaddr *)&h.address, &length)) {
		int error = errno;

		if (listener->fd >= 0)
			close(listener->fd);
		free(listener);
		return failed("listen", error);
	}
	memset(handle, 0, NCCL_HANDLE_BYTES);
	memcpy(handle, &h, sizeof(h));
	*ret_listen_comm = listener;
	return NCCL_SUCCESS;
}

/* Which socket this is, and how the sender divides messages: the first bytes on each. */
struct hello {
	uint32_t which, thread_count, socket_count;
};

/* Blocks for a round trip: the peer listens already. */
static int dial(const struct handle *h, uint32_t which)
{
	struct hello hello = { which, h->thread_count, h->socket_count };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, error;

	if (fd < 0)
		return -errno;
	if (!connect(fd, (const struct sockaddr *)&h->address, sizeof(h->address)) &&
	    !setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) &&
	    send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello))
		return fd;
	error = errno;
	close(fd);
	return -error;
}

static enum nccl_result connect_to(int device, struct nccl_net_comm_config *config, void *handle, void **ret_send_comm,
				   struct nccl_net_device_handle **ret_device_handle)
{
	struct handle h;
	struct comm *comm;
	enum nccl_result result;
	uint32_t i;
	int fd = 0;

	(void)device, (void)config, (void)ret_device_handle;
	memcpy(&h, handle, sizeof(h));
	*ret_send_comm = NULL;
	comm = comm_new(true, (int)h.socket_count);
	if (!comm)
		return failed("connect", ENOMEM);
	for (i = 0; i <= h.socket_count; i++) {
		fd = dial(&h, i);
		if (fd < 0)
			break;
		*(i < h.socket_count ? &comm->fds[i] : &comm->control) = fd;
	}
	result = fd < 0 ? failed("connect", -fd) : comm_begin(comm, (int)h.thread_count);
	if (result != NCCL_SUCCESS) {
		comm_free(comm);
		return result;
	}
	*ret_send_comm = comm;
	return NCCL_SUCCESS;
}

static enum nccl_result accept_from(void *listen_comm, void **ret_recv_comm,
				    struct nccl_net_device_handle **ret_device_handle)
{
	struct listener *listener = listen_comm;
	struct hello hello;
	int one = 1, fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	enum nccl_result result;
	struct comm *comm;

	(void)ret_device_handle;
	*ret_recv_comm = NULL;
	if (fd < 0)
		return errno == EAGAIN || errno == EINTR ? NCCL_SUCCESS : failed("accept", errno);
	if (recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello) || hello.socket_count > MAX_SOCKETS ||
	    hello.thread_count > MAX_THREADS || !hello.thread_count != !hello.socket_count ||
	    (hello.thread_count && hello.socket_count % hello.thread_count) || hello.which > hello.socket_count) {
		close(fd);
		return failed("accept", EPROTO);
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	comm = listener->half = listener->half ? listener->half : comm_new(false, (int)hello.socket_count);
	if (!comm) {
		close(fd);
		return failed("accept", ENOMEM);
	}
	*(hello.which < hello.socket_count ? &comm->fds[hello.which] : &comm->control) = fd;
	if (++comm->connected <= comm->socket_count)
		return NCCL_SUCCESS;
	listener->half = NULL;
	result = comm_begin(comm, (int)hello.thread_count);
	if (result != NCCL_SUCCESS) {
		comm_free(comm);
		return result;
	}
	*ret_recv_comm = comm;
	return NCCL_SUCCESS;
}

static enum nccl_result close_comm(void *comm)
{
	comm_free(comm);
	return NCCL_SUCCESS;
}

static enum nccl_result close_listen(void *listen_comm)
{
	struct listener *listener = listen_comm;

	comm_free(listener->half);
	close(listener->fd);
	free(listener);
	return NCCL_SUCCESS;
}

/* ---- what has nothing to do ---- */

static enum nccl_result init(nccl_debug_logger *log, nccl_profiler_callback *profiler)
{
	(void)profiler;
	logger = log;
	return NCCL_SUCCESS;
}

static enum nccl_result devices(int *ret_count)
{
	*ret_count = 1;
	return NCCL_SUCCESS;
}

static enum nccl_result properties(int device, struct nccl_net_properties_v10 *ret_properties)
{
	static char name[IFNAMSIZ];

	own_address(name);
	*ret_properties = (struct nccl_net_properties_v10){ .name = name,
							    .guid = (uint64_t)device,
							    .ptrSupport = NCCL_POINTER_HOST,
							    .speed = 10000,
							    .port = 1,
							    .maxComms = 65536,
							    .maxRecvs = 1,
							    .maxP2pBytes = INT32_MAX,
							    .maxCollBytes = INT32_MAX };
	return NCCL_SUCCESS;
}

static enum nccl_result reg(void *comm, void *data, size_t size, int type, void **ret_mhandle)
{
	(void)comm, (void)data, (void)size;
	*ret_mhandle = NULL;
	return type == NCCL_POINTER_HOST ? NCCL_SUCCESS : NCCL_INTERNAL_ERROR;
}

static enum nccl_result dereg(void *comm, void *mhandle)
{
	(void)comm, (void)mhandle;
	return NCCL_SUCCESS;
}

static enum nccl_result iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **ret_request)
{
	(void)comm, (void)n, (void)data, (void)sizes, (void)mhandles;
	*ret_request = NULL;
	return NCCL_INTERNAL_ERROR; /* host memory needs none */
}

__attribute__((visibility("default"))) const struct nccl_net_v10 ncclNetPlugin_v10 = {
	.name = "sockets",
	.init = init,
	.devices = devices,
	.getProperties = properties,
	.listen = listen_on,
	.connect = connect_to,
	.accept = accept_from,
	.regMr = reg,
	.deregMr = dereg,
	.isend = isend,
	.irecv = irecv,
	.iflush = iflush,
	.test = test,
	.closeSend = close_comm,
	.closeRecv = close_comm,
	.closeListen = close_listen,
};
