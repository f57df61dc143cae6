/* What both roles share: making and unmaking a connection, progress, requests, the end. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "transport/shm/shm.h"
#include "transport/watch.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOOK_EVERY_NS (5 * NS_PER_MS) /* at the peer's process, by callers who poll */
enum { LOOK_POLLS = 4, LAST_LOOKS = 3 };

int shm_connection_new(struct shm_transport *transport, enum shm_role role, struct shm_connection **ret)
{
	struct shm_connection *connection = sys_zalloc(sizeof(*connection));

	if (!connection)
		return -ENOMEM;
	connection->transport = transport;
	connection->role = role;
	connection->eager_bytes = transport->eager_bytes;
	connection->bell_fd = connection->peer_bell_fd = connection->watch_fd = -1;
	connection->peer.pid_fd = connection->peer.socket_fd = -1;
	connection->put = connection->taken = SHM_FIRST_COUNT;
	if (role == SHM_SENDER)
		connection->s.next_sequence = SHM_FIRST_COUNT;
	else
		connection->r.next_sequence = SHM_FIRST_COUNT;
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		connection->requests[i].connection = connection;
	*ret = connection;
	return 0;
}

/* From now on the peer may not believe that what it finds here is what it was told of. */
static void say_closed(struct shm_connection *connection)
{
	struct shm_segment *segment = connection->segment;

	atomic_store(connection->role == SHM_SENDER ? &segment->sender_closed : &segment->receiver_closed, 1);
	shm_wake(connection); /* its load also keeps the caller's later writes behind the word */
}

static void unwatch(struct shm_connection *connection)
{
	if (!connection->watched)
		return;
	transport_watch_remove(connection->watch_fd, connection->bell_fd);
	transport_watch_remove(connection->watch_fd, connection->peer.socket_fd);
	transport_watch_remove(connection->watch_fd, connection->peer.pid_fd);
	connection->watched = false;
}

void shm_connection_close(struct shm_connection *connection)
{
	if (!connection)
		return;
	unwatch(connection);
	if (connection->segment && connection->peer_bell_fd >= 0)
		say_closed(connection);
	if (connection->role == SHM_SENDER)
		explicit_bzero(connection->s.nonce, sizeof(connection->s.nonce));
	shm_segment_unmap(connection->segment);
	shm_peer_close(&connection->peer);
	sys_close(&connection->bell_fd);
	sys_close(&connection->peer_bell_fd);
	sys_free(connection);
}

int shm_connection_fail(struct shm_connection *connection, int error, const char *why)
{
	if (connection->error)
		return connection->error;
	connection->error = error;
	/*
	 * The end of a peer that nobody waits for is no news: it is how every job ends. Nor is that of one that has never
	 * said a word: it has turned us away, and whoever connected looks for another way.
	 */
	if (shm_request_first(connection) && connection->taken != SHM_FIRST_COUNT)
		log_warn("connection %s process %d of this host is lost: %s",
			 connection->role == SHM_SENDER ? "to" : "from", (int)connection->peer.pid, why);
	say_closed(connection);
	return error;
}

/* ---- requests ---- */

struct shm_request *shm_request_get(struct shm_connection *connection, enum shm_request_kind kind)
{
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++) {
		struct shm_request *request = &connection->requests[i];

		if (request->used)
			continue;
		request->used = true;
		request->done = false;
		request->kind = kind;
		connection->request_count++;
		return request;
	}
	return NULL;
}

void shm_request_append(struct shm_connection *connection, struct shm_request *request)
{
	transport_open_append(&connection->open, &request->open);
}

void shm_request_finish(struct shm_connection *connection, struct shm_request *request)
{
	transport_open_remove(&connection->open, &request->open);
	request->done = true;
}

static void request_put(struct shm_request *request, size_t *sizes)
{
	if (sizes && request->kind == SHM_REQUEST_SEND)
		sizes[0] = request->size;
	for (unsigned i = 0; sizes && request->kind == SHM_REQUEST_RECEIVE && i < request->count; i++)
		sizes[i] = request->slots[i].received;
	request->used = false;
	request->connection->request_count--;
}

/* ---- progress ---- */

/* Takes what has come. 1: something has. */
static int drain(struct shm_connection *connection)
{
	struct shm_entry entry;
	int r, taken = 0;

	while ((r = shm_take(connection, &entry)) > 0) {
		taken = 1;
		r = connection->role == SHM_SENDER ? shm_sender_entry(connection, &entry)
						   : shm_receiver_entry(connection, &entry);
		if (r < 0)
			break;
	}
	if (connection->error)
		return connection->error;
	if (r == -EMSGSIZE)
		return shm_connection_fail(connection, r, "a message was longer than the receive that it matched");
	if (r < 0)
		return shm_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
	return taken;
}

/* Before what has come is taken, so that nothing comes after the look. NULL: all is well. */
static const char *look_at_peer(struct shm_connection *connection)
{
	uint64_t now_ns = clock_now_ns();

	if (!connection->watched && clock_elapsed_ns(connection->peer.looked_ns, now_ns) < LOOK_EVERY_NS)
		return NULL;
	connection->peer.looked_ns = now_ns;
	if (shm_peer_is_gone(&connection->peer))
		return "its process is gone";
	if (shm_request_first(connection) &&
	    shm_peer_is_stopped(&connection->peer, connection->transport->timeout_ns, now_ns))
		return "its process was stopped for the time of TRIBUTARY_TIMEOUT";
	return NULL;
}

/* One round. 1: something was moved. */
static int move(struct shm_connection *connection, bool *ret_more)
{
	bool closed = shm_peer_closed(connection);
	const char *gone = connection->watched || connection->polls++ % LOOK_POLLS == 0 ? look_at_peer(connection)
											: NULL;
	int r = drain(connection);

	*ret_more = false;
	if (r < 0)
		return r;
	if (r > 0)
		connection->peer.stopped_since_ns = 0;
	if (closed || gone)
		return shm_connection_fail(connection, -EREMOTEIO,
					   shm_peer_closed(connection) ? "the peer closed it" : gone);
	if (connection->role == SHM_RECEIVER && connection->r.coming.first) {
		int error = shm_receiver_move(connection, ret_more);

		if (error < 0)
			return error;
	}
	return r;
}

static int progress(struct shm_connection *connection, enum transport_next *ret_next)
{
	bool more = false;
	int r = 0;

	*ret_next = TRANSPORT_NEXT_EVENT;
	if (connection->error)
		return connection->error;
	/* What comes while we fall asleep is looked for once more, but a busy peer does not keep us here. */
	for (unsigned i = 0; i < LAST_LOOKS; i++) {
		r = move(connection, &more);
		if (r < 0 || more || !connection->watched || shm_may_sleep(connection))
			break;
		more = i + 1 == LAST_LOOKS;
	}
	if (more)
		*ret_next = TRANSPORT_NEXT_NOW;
	return r < 0 ? r : 0;
}

int shm_connection_progress(struct shm_connection *connection, enum transport_next *ret_next)
{
	return progress(connection, ret_next);
}

int shm_connection_test(struct shm_request *request, bool *ret_done, size_t *sizes)
{
	struct shm_connection *connection = request->connection;
	enum transport_next next;
	int r = connection->error;

	*ret_done = false;
	if (!request->done && !connection->watched)
		r = progress(connection, &next);
	if (!request->done)
		return r;
	request_put(request, sizes);
	*ret_done = true;
	return 0;
}

/* ---- watching ---- */

int shm_connection_watch(struct shm_connection *connection, int epoll_fd, uint64_t key)
{
	int r;

	if (connection->watched)
		return -EBUSY;
	connection->watched = true;
	connection->watch_fd = epoll_fd;
	r = transport_watch_add(epoll_fd, connection->bell_fd, EPOLLIN, key);
	if (r == 0)
		r = transport_watch_add(epoll_fd, connection->peer.socket_fd, EPOLLRDHUP, key);
	if (r == 0)
		r = transport_watch_add(epoll_fd, connection->peer.pid_fd, EPOLLIN, key);
	if (r < 0)
		unwatch(connection);
	else
		shm_ring_bell(connection->bell_fd); /* whatever has come, or happened, or is still to be moved */
	return r;
}
