/* Listeners, connecting and accepting, and the table of operations. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REJECTED_SAY_NS (60 * NS_PER_S)

#define ASSUMED_SPEED_Bps 8000000000ULL /* one copy by one core; nothing is decided by it */
#define GUID              0x7368617265640001ULL
enum { ACCEPTS_AT_ONCE = 16, LATENCY_NS = 1000 };

static int shm_open(const struct params *params, struct transport **ret)
{
	struct shm_transport *transport = sys_zalloc(sizeof(*transport));

	if (!transport)
		return -ENOMEM;
	transport->host_id = shm_host_id();
	transport->timeout_ns = params->timeout_ns;
	transport->eager_bytes = params->eager_bytes < SHM_EAGER_WINDOW / 4 ? params->eager_bytes
									    : SHM_EAGER_WINDOW / 4;
	*ret = (struct transport *)transport;
	return 0;
}

static void shm_close(struct transport *transport)
{
	sys_free(transport);
}

static int shm_device_count(struct transport *transport)
{
	(void)transport;
	return 1;
}

static int shm_device_properties(struct transport *transport, int device, struct transport_properties *ret)
{
	(void)transport;
	if (device != 0)
		return -EINVAL;
	*ret = (struct transport_properties){
		.name = "shm",
		.guid = GUID,
		.memory = TRANSPORT_MEMORY_HOST,
		.registration_is_global = true,
		.speed_Bps = ASSUMED_SPEED_Bps,
		.latency_ns = LATENCY_NS,
		.port = 1,
		.max_connections = 65536,
		.max_recvs = TRANSPORT_MAX_RECVS,
		.max_message_bytes = TRANSPORT_MAX_MESSAGE_BYTES,
		.rail = -1,
		.plane = -1,
		.member_count = 1,
	};
	return 0;
}

static int shm_device_join(struct transport *transport, int count, const int *members, int *ret_device)
{
	(void)transport;
	if (count != 1 || members[0] != 0)
		return -EINVAL;
	*ret_device = 0;
	return 0;
}

/* An abstract name: it lies in no directory, belongs to the network namespace, and goes with its socket. */
static socklen_t address_of(const uint8_t name[static SHM_WIRE_NAME_BYTES], struct sockaddr_un *ret)
{
	int count;

	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	count = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "tributary-");
	for (unsigned i = 0; i < SHM_WIRE_NAME_BYTES; i++)
		count += snprintf(ret->sun_path + 1 + count, sizeof(ret->sun_path) - 1 - (size_t)count, "%02x",
				  name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)count);
}

/* ---- listening ---- */

static int listener_open(struct shm_listener *listener, const struct shm_wire_handle *handle)
{
	struct sockaddr_un address;
	socklen_t bytes = address_of(handle->name, &address);
	int r;

	listener->fd = sys_socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (listener->fd < 0)
		return listener->fd;
	r = sys_bind(listener->fd, (const struct sockaddr *)&address, bytes);
	if (r == 0)
		r = sys_listen(listener->fd, SOMAXCONN);
	return r;
}

static void shm_close_listener(struct transport_listener *opaque)
{
	struct shm_listener *listener = (struct shm_listener *)opaque;

	if (!listener)
		return;
	for (unsigned i = 0; i < listener->pending_count; i++)
		sys_close_socket(&listener->pending[i].fd);
	sys_close_socket(&listener->fd);
	sys_free(listener);
}

static int shm_listen(struct transport *opaque, int device, uint8_t bytes[static TRANSPORT_HANDLE_BYTES],
		      struct transport_listener **ret)
{
	struct shm_transport *transport = (struct shm_transport *)opaque;
	struct shm_wire_handle handle = { .host_id = transport->host_id, .pid = (uint32_t)getpid() };
	struct shm_listener *listener;
	int r;

	if (device != 0)
		return -EINVAL;
	listener = sys_zalloc(sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	listener->transport = transport;
	listener->fd = -1;
	r = shm_random(handle.name, sizeof(handle.name));
	if (r == 0)
		r = shm_random(handle.secret, sizeof(handle.secret));
	if (r == 0)
		r = listener_open(listener, &handle);
	if (r < 0) {
		shm_close_listener((struct transport_listener *)listener);
		return r;
	}
	memcpy(listener->secret, handle.secret, sizeof(listener->secret));
	shm_wire_put_handle(&handle, bytes);
	*ret = (struct transport_listener *)listener;
	return 0;
}

/* ---- connecting ---- */

static int make_bells(struct shm_connection *connection)
{
	connection->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	connection->peer_bell_fd = connection->bell_fd < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return connection->peer_bell_fd < 0 ? -errno : 0;
}

static int say_hello(struct shm_connection *connection, const struct shm_wire_handle *handle, int segment_fd)
{
	const int descriptors[SHM_WIRE_DESCRIPTORS] = { segment_fd, connection->peer_bell_fd, connection->bell_fd };
	struct shm_wire_hello hello = { .nonce_address = (uint64_t)(uintptr_t)connection->s.nonce };
	uint8_t bytes[SHM_WIRE_HELLO_BYTES];
	ssize_t sent;

	memcpy(hello.secret, handle->secret, sizeof(hello.secret));
	memcpy(hello.nonce, connection->s.nonce, sizeof(hello.nonce));
	shm_wire_put_hello(&hello, bytes);
	sent = sys_send_descriptors(connection->peer.socket_fd, bytes, sizeof(bytes), descriptors,
				    SHM_WIRE_DESCRIPTORS);
	return sent == (ssize_t)sizeof(bytes) ? 0 : sent < 0 ? (int)sent : -EREMOTEIO;
}

/* Everything but the socket. The descriptor of the segment is needed once more, for the hello. */
static int connection_prepare(struct shm_connection *connection, int *ret_segment_fd)
{
	int segment_fd = -1, r = shm_random(connection->s.nonce, sizeof(connection->s.nonce));

	if (r == 0)
		r = make_bells(connection);
	if (r == 0)
		r = shm_segment_create(&segment_fd);
	if (r == 0)
		r = shm_segment_map(segment_fd, &connection->segment);
	if (r == 0) {
		atomic_store(&connection->segment->forward.tail, SHM_FIRST_COUNT);
		atomic_store(&connection->segment->backward.tail, SHM_FIRST_COUNT);
	}
	if (r < 0)
		sys_close(&segment_fd);
	else
		*ret_segment_fd = segment_fd;
	return r;
}

/* 1: it stands; 0: not yet. */
static int dial(struct shm_transport *transport, const struct shm_wire_handle *handle, struct shm_connection **ret)
{
	struct shm_connection *connection = NULL;
	struct sockaddr_un address;
	socklen_t bytes = address_of(handle->name, &address);
	int r, segment_fd = -1, fd = sys_socket(AF_UNIX, SOCK_SEQPACKET, 0);

	if (fd < 0)
		return fd;
	r = sys_connect(fd, (const struct sockaddr *)&address, bytes);
	if (r == 0)
		r = shm_connection_new(transport, SHM_SENDER, &connection);
	if (r == 0)
		r = shm_peer_open(fd, &connection->peer);
	if (r == 0) {
		fd = -1; /* the connection's now */
		r = connection_prepare(connection, &segment_fd);
	}
	if (r == 0)
		r = say_hello(connection, handle, segment_fd);
	sys_close(&segment_fd);
	sys_close(&fd);
	if (r < 0) {
		shm_connection_close(connection);
		return r == -EAGAIN ? 0 : r;
	}
	*ret = connection;
	return 1;
}

static int shm_connect(struct transport *opaque, int device, int traffic_class,
		       uint8_t bytes[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	struct shm_transport *transport = (struct shm_transport *)opaque;
	struct shm_connection *connection = NULL;
	uint64_t now_ns = clock_now_ns(), began_ns = shm_wire_get_cookie(bytes);
	struct shm_wire_handle handle;
	int r;

	(void)traffic_class;
	*ret = NULL;
	if (device != 0)
		return -EINVAL;
	r = shm_wire_get_handle(bytes, &handle);
	if (r < 0)
		return r == -EPROTO ? r : -EINVAL;
	if (handle.host_id != transport->host_id)
		return -EHOSTUNREACH;
	r = dial(transport, &handle, &connection);
	if (r == 0) { /* a full backlog: its listener has much to do */
		if (!began_ns)
			shm_wire_put_cookie(bytes, now_ns);
		else if (clock_elapsed_ns(began_ns, now_ns) > transport->timeout_ns)
			r = -ETIMEDOUT;
	}
	if (r != 0)
		shm_wire_put_cookie(bytes, 0);
	if (r < 0) {
		log_info(LOG_NET, "cannot connect to process %u of this host through shared memory: %s", handle.pid,
			 strerror(-r));
		return r == -ECONNREFUSED || r == -ETIMEDOUT || r == -EPIPE || r == -ECONNRESET ? -EREMOTEIO : r;
	}
	*ret = (struct transport_connection *)connection;
	return 0;
}

/* ---- accepting ---- */

static bool is_bell(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && (flags & O_NONBLOCK); /* ringing must not block */
}

/* By trying: whether it is allowed depends on the system, on containers, and on how the other program was started. */
static bool try_to_pull(struct shm_connection *connection)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	uint8_t nonce[SHM_WIRE_NONCE_BYTES];
	int r = shm_pull_is_allowed() ? shm_peer_read(connection, connection->r.nonce_address, nonce, sizeof(nonce))
				      : -EPERM;

	if (log_once(&said))
		log_info(LOG_INIT, "shared memory: messages of process %d are copied %s", (int)connection->peer.pid,
			 r == 0 ? "once (process_vm_readv)" : "twice: its memory cannot be read from here");
	if (r < 0)
		log_trace("process %d cannot be read: %s", (int)connection->peer.pid, strerror(-r));
	return r == 0;
}

static int take_descriptors(struct shm_connection *connection, int *descriptors)
{
	int r;

	for (unsigned i = 0; i < SHM_WIRE_DESCRIPTORS; i++)
		if (descriptors[i] < 0)
			return descriptors[i] == SYS_DESCRIPTOR_NO_ROOM ? -EMFILE : -EPROTO;
	if (!is_bell(descriptors[1]) || !is_bell(descriptors[2]))
		return -EPROTO;
	r = shm_segment_map(descriptors[0], &connection->segment);
	if (r < 0)
		return r;
	connection->bell_fd = descriptors[1];
	connection->peer_bell_fd = descriptors[2];
	descriptors[1] = descriptors[2] = -1;
	return 0;
}

/* Takes fd in any case. */
static int welcome(struct shm_listener *listener, int fd, const struct shm_wire_hello *hello, int *descriptors,
		   struct shm_connection **ret)
{
	struct shm_connection *connection;
	int r = shm_connection_new(listener->transport, SHM_RECEIVER, &connection);

	if (r < 0) {
		sys_close(&fd);
		return r;
	}
	r = shm_peer_open(fd, &connection->peer);
	if (r < 0)
		sys_close(&fd);
	if (r == 0)
		r = take_descriptors(connection, descriptors);
	if (r < 0) {
		shm_connection_close(connection);
		return r;
	}
	connection->r.nonce_address = hello->nonce_address;
	memcpy(connection->r.nonce, hello->nonce, sizeof(hello->nonce));
	connection->r.pulls = try_to_pull(connection);
	*ret = connection;
	return 0;
}

/* 1: it is through, as a connection or as a stranger. 0: it has said nothing yet. */
static int pending_step(struct shm_listener *listener, struct shm_pending *pending, uint64_t now_ns,
			struct shm_connection **ret)
{
	int descriptors[SHM_WIRE_DESCRIPTORS];
	uint8_t bytes[SHM_WIRE_HELLO_BYTES];
	struct shm_wire_hello hello;
	ssize_t got = sys_receive_descriptors(pending->fd, bytes, sizeof(bytes), descriptors, SHM_WIRE_DESCRIPTORS);
	int r = -EBADMSG;

	if (got == -EAGAIN || got == -EINTR)
		return clock_elapsed_ns(pending->since_ns, now_ns) > listener->transport->timeout_ns ? -ETIMEDOUT : 0;
	if (got < 0)
		r = (int)got;
	if (got == (ssize_t)sizeof(bytes))
		r = shm_wire_get_hello(bytes, &hello);
	if (r == 0 && !shm_equal(hello.secret, listener->secret, sizeof(hello.secret)))
		r = -EACCES;
	if (r == 0) {
		r = welcome(listener, pending->fd, &hello, descriptors, ret);
		pending->fd = -1;
	}
	for (unsigned i = 0; i < SHM_WIRE_DESCRIPTORS; i++)
		sys_close(&descriptors[i]);
	return r < 0 ? r : 1;
}

static void pending_drop(struct shm_listener *listener, unsigned index)
{
	sys_close_socket(&listener->pending[index].fd);
	listener->pending_count--;
	memmove(&listener->pending[index], &listener->pending[index + 1],
		(listener->pending_count - index) * sizeof(listener->pending[0]));
}

/* Strangers are closed without a word to them, and never disturb the listener. */
static int admit(struct shm_listener *listener, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		int fd = sys_accept(listener->fd, NULL, NULL);

		if (fd == -EAGAIN || fd == -EINTR)
			return 0;
		if (fd == -ECONNABORTED)
			continue;
		if (fd < 0)
			return fd;
		if (listener->pending_count == SHM_PENDING_MAX)
			pending_drop(listener, 0);
		listener->pending[listener->pending_count++] = (struct shm_pending){ .fd = fd, .since_ns = now_ns };
	}
	return 0;
}

/* The other end's doing. Whatever else goes wrong is said to the caller: a peer may have been turned away. */
static bool is_strange(int error)
{
	return error == -EBADMSG || error == -EPROTO || error == -EACCES || error == -EPERM || error == -EMSGSIZE ||
	       error == -ETIMEDOUT || error == -ECONNRESET || error == -EOPNOTSUPP;
}

/* One line a minute: any process of this network namespace may connect. */
static void reject(struct shm_listener *listener, int error, uint64_t now_ns)
{
	listener->rejected_unsaid++;
	if (listener->rejected_said_ns && clock_elapsed_ns(listener->rejected_said_ns, now_ns) < REJECTED_SAY_NS)
		return;
	log_info(LOG_NET, "closed %llu shared-memory connections, the last one: %s",
		 (unsigned long long)listener->rejected_unsaid, strerror(-error));
	listener->rejected_said_ns = now_ns;
	listener->rejected_unsaid = 0;
}

static int shm_accept(struct transport_listener *opaque, struct transport_connection **ret)
{
	struct shm_listener *listener = (struct shm_listener *)opaque;
	struct shm_connection *connection = NULL;
	uint64_t now_ns = clock_now_ns();
	int error = admit(listener, now_ns);

	*ret = NULL;
	for (unsigned i = 0; i < listener->pending_count && !connection;) {
		int r = pending_step(listener, &listener->pending[i], now_ns, &connection);

		if (r < 0 && !is_strange(r))
			error = r;
		else if (r < 0)
			reject(listener, r, now_ns);
		if (r == 0)
			i++;
		else
			pending_drop(listener, i);
	}
	*ret = (struct transport_connection *)connection;
	return connection ? 0 : error;
}

/* ---- the rest of the table ---- */

static int shm_memory_register(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			       void **ret_registration)
{
	(void)data, (void)bytes;
	if (memory != TRANSPORT_MEMORY_HOST)
		return -EOPNOTSUPP;
	*ret_registration = connection; /* none is needed; never NULL, which callers may take for "not registered" */
	return 0;
}

static int shm_memory_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes,
				      unsigned memory, uint64_t offset, int fd, void **ret_registration)
{
	(void)connection, (void)data, (void)bytes, (void)memory, (void)offset, (void)fd, (void)ret_registration;
	return -EOPNOTSUPP;
}

static int shm_memory_deregister(struct transport_connection *connection, void *registration)
{
	(void)connection, (void)registration;
	return 0;
}

static int shm_send(struct transport_connection *opaque, void *data, size_t bytes, int tag, void *registration,
		    struct transport_request **ret)
{
	struct shm_connection *connection = (struct shm_connection *)opaque;
	enum transport_next next;
	struct shm_request *request = NULL;
	int r = connection->error;

	(void)registration;
	*ret = NULL;
	if (connection->role != SHM_SENDER || bytes > TRANSPORT_MAX_MESSAGE_BYTES)
		return -EINVAL;
	if (r == 0)
		r = shm_sender_send(connection, data, bytes, tag, &request);
	if (r == 0 && !request && !connection->watched) /* what makes room comes from the peer */
		r = shm_connection_progress(connection, &next);
	*ret = (struct transport_request *)request;
	return r;
}

static void shm_limit_eager(struct transport_connection *opaque, size_t bytes)
{
	struct shm_connection *connection = (struct shm_connection *)opaque;
	size_t most = connection->transport->eager_bytes;

	connection->eager_bytes = bytes < most ? bytes : most;
}

static int shm_receive(struct transport_connection *opaque, int count, void *const *data, const size_t *bytes,
		       const int *tags, void *const *registrations, struct transport_request **ret)
{
	struct shm_connection *connection = (struct shm_connection *)opaque;
	struct shm_request *request = NULL;
	int r;

	(void)registrations;
	*ret = NULL;
	if (connection->role != SHM_RECEIVER || count < 1 || count > TRANSPORT_MAX_RECVS)
		return -EINVAL;
	/* After the peer's end, what it had sent before is still here to be received. */
	r = connection->error && shm_receiver_has_kept(connection) ? 0 : connection->error;
	if (r == 0)
		r = shm_receiver_receive(connection, count, data, bytes, tags, &request);
	if (connection->watched && connection->r.coming.first) /* no event will come for what can be moved by now */
		shm_ring_bell(connection->bell_fd);
	*ret = (struct transport_request *)request;
	return r;
}

static int shm_flush(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		     void *const *registrations, struct transport_request **ret)
{
	(void)connection, (void)count, (void)data, (void)bytes, (void)registrations;
	*ret = NULL; /* host memory: what was received is there */
	return 0;
}

static int shm_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	return shm_connection_test((struct shm_request *)request, ret_done, sizes);
}

static int shm_watch(struct transport_connection *connection, int epoll_fd, uint64_t key)
{
	return shm_connection_watch((struct shm_connection *)connection, epoll_fd, key);
}

static int shm_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	return shm_connection_progress((struct shm_connection *)connection, ret_next);
}

static void shm_close_connection(struct transport_connection *connection)
{
	shm_connection_close((struct shm_connection *)connection);
}

bool transport_shm_reaches(const uint8_t handle[static TRANSPORT_HANDLE_BYTES])
{
	struct shm_wire_handle wire;

	return shm_wire_get_handle(handle, &wire) == 0 && wire.host_id == shm_host_id();
}

const struct transport_ops transport_shm = {
	.name = "shm",
	.open = shm_open,
	.close = shm_close,
	.device_count = shm_device_count,
	.device_properties = shm_device_properties,
	.device_join = shm_device_join,
	.listen = shm_listen,
	.connect = shm_connect,
	.accept = shm_accept,
	.memory_register = shm_memory_register,
	.memory_register_dmabuf = shm_memory_register_dmabuf,
	.memory_deregister = shm_memory_deregister,
	.send = shm_send,
	.limit_eager = shm_limit_eager,
	.receive = shm_receive,
	.flush = shm_flush,
	.test = shm_test,
	.watch = shm_watch,
	.progress = shm_progress,
	.close_connection = shm_close_connection,
	.close_listener = shm_close_listener,
};
