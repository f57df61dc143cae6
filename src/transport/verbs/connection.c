/* SPDX-License-Identifier: Apache-2.0 */
/* What both roles share: making and unmaking a connection, and its end. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/sys.h"
#include "transport/verbs/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SCRATCH_BYTES = 64, SERVICE_LEVEL_MASK = 15 };

/* ---- making ---- */

/* queues: how many of the device's own begin there; the spare may come. 0: it is the reserve. */
static int rail_open(struct verbs_connection *connection, struct verbs_rail *rail, unsigned queues)
{
	const struct verbs_api *api = connection->transport->api;
	struct ibv_context *context = rail->port->card->context;
	const struct verbs_range block = { connection->block, connection->block_bytes, .stays = true,
					   .memory = TRANSPORT_MEMORY_HOST, .optional = !queues };
	int entries = (int)((queues + 1) * (VERBS_QUEUE_SENDS + VERBS_QUEUE_RECEIVES)) +
		      (connection->role == VERBS_RECEIVER ? VERBS_LOOP_SENDS : 0);
	int flags;

	errno = 0;
	rail->channel = api->create_comp_channel(context);
	if (!rail->channel)
		return errno ? -errno : -ENOMEM;
	flags = fcntl(rail->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(rail->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	errno = 0;
	rail->cq = api->create_cq(context, entries, connection, rail->channel, 0);
	if (!rail->cq)
		return errno ? -errno : -ENOMEM;
	return verbs_memory_get(rail->port->card, &block, &rail->block);
}

static void rail_close(const struct verbs_connection *connection, struct verbs_rail *rail)
{
	const struct verbs_api *api = connection->transport->api;

	if (rail->cq) {
		if (rail->events)
			api->ack_cq_events(rail->cq, rail->events);
		api->destroy_cq(rail->cq);
	}
	if (rail->channel)
		api->destroy_comp_channel(rail->channel);
	verbs_memory_put(rail->port->card, rail->block, true);
}

static struct verbs_queue *add_queue(struct verbs_connection *connection)
{
	struct verbs_queue *queue = &connection->queues[connection->queue_count];

	queue->index = connection->queue_count++;
	queue->data_sent = queue->data_known = queue->data_taken = queue->data_told = VERBS_WIRE_FIRST_COUNT;
	return queue;
}

static int make_queues(struct verbs_connection *connection, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct verbs_queue *queue = add_queue(connection);
		int r;

		queue->rail = i % connection->own_rail_count;
		r = verbs_queue_create(connection, queue);
		if (r == 0)
			continue;
		connection->queue_count = i;
		log_warn("RDMA device %s gives a connection %u queues of %u (TRIBUTARY_QPS): %s",
			 connection->rails[queue->rail].port->name, i, count, strerror(-r));
		return i ? 0 : r;
	}
	return 0;
}

static int make_block(struct verbs_connection *connection)
{
	const size_t ring_bytes = (size_t)VERBS_WIRE_DESCRIPTORS * VERBS_WIRE_DESCRIPTOR_BYTES;
	const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	const bool receives = connection->role == VERBS_RECEIVER;

	/*
	 * Whole pages, for so they are registered: the peer's key reaches nothing else, and what forked children lack (older
	 * kernels take registered pages from them) is nothing of others.
	 */
	connection->block_bytes = 2 * ring_bytes + VERBS_PLACES_BYTES + (receives ? SCRATCH_BYTES : 0);
	connection->block_bytes = (connection->block_bytes + page_bytes - 1) / page_bytes * page_bytes;
	connection->block = sys_zalloc_aligned(page_bytes, connection->block_bytes);
	if (!connection->block)
		return -ENOMEM;
	connection->out.copy = connection->block;
	connection->in.memory = connection->block + ring_bytes;
	if (receives) {
		connection->r.window = connection->block + 2 * ring_bytes;
		connection->r.scratch = connection->r.window + VERBS_PLACES_BYTES;
	} else {
		connection->s.stage = connection->block + 2 * ring_bytes;
	}
	return 0;
}

/* A card that is lost is none; of those that are left, -EIO when there is none: its loss was said. */
static int make_rails(struct verbs_connection *connection, const struct transport_device *from, unsigned queues)
{
	struct verbs_port *ports[VERBS_WIRE_RAILS_MAX];
	unsigned count = 0;
	int r = 0;

	for (unsigned i = 0; i < from->rail_count; i++) {
		struct verbs_port *port = &connection->transport->cards.ports[from->members[i]];

		if (!verbs_card_is_lost(port->card))
			ports[count++] = port;
	}
	for (unsigned i = 0; r == 0 && i < count; i++) {
		connection->rails[i].port = ports[i];
		connection->rail_count = connection->own_rail_count = i + 1;
		r = rail_open(connection, &connection->rails[i], (queues + count - 1) / count);
	}
	return count ? r : -EIO;
}

static void make_reserve(struct verbs_connection *connection, const struct transport_device *from)
{
	struct verbs_rail *rail = &connection->rails[connection->rail_count];
	int r;

	rail->port = verbs_reserve_port(connection->transport, from);
	if (!rail->port)
		return;
	r = rail_open(connection, rail, 0);
	if (r == 0) {
		connection->rail_count++;
		return;
	}
	log_info(LOG_NET, "RDMA device %s does not stand by for a connection: %s", rail->port->name, strerror(-r));
	rail_close(connection, rail);
	memset(rail, 0, sizeof(*rail));
}

static void begin_to_count(struct verbs_connection *connection)
{
	const uint64_t first = VERBS_WIRE_FIRST_COUNT;

	connection->out.written = connection->out.posted = connection->out.taken = first;
	connection->in.taken = connection->in.told = first;
	if (connection->role == VERBS_SENDER)
		connection->s.eager_number = (uint32_t)first;
	else
		connection->r.unexpected_head = connection->r.unexpected_tail = (uint32_t)first;
}

size_t verbs_eager_most(const struct verbs_transport *transport)
{
	return min_u64(transport->params->eager_bytes, VERBS_WINDOW_BYTES / 4);
}

/* The sender's, for both ends: what the user has set, or what NCCL wants for the communicator. */
static void choose_class(struct verbs_connection *connection, int traffic_class)
{
	const struct params *params = connection->transport->params;
	const int wanted = traffic_class >= 0 ? traffic_class : 0;

	connection->traffic_class = (uint8_t)(params->traffic_class >= 0 ? params->traffic_class : wanted);
	connection->service_level = (params->service_level >= 0 ? params->service_level : wanted) & SERVICE_LEVEL_MASK;
}

int verbs_connection_new(struct verbs_transport *transport, enum verbs_role role, int device, int traffic_class,
			 unsigned queues, struct verbs_connection **ret)
{
	const struct transport_device *from = &transport->devices.list[device];
	struct verbs_connection *connection = sys_zalloc(sizeof(*connection));
	int r;

	if (!connection)
		return -ENOMEM;
	pthread_mutex_init(&connection->lock, NULL); /* a plain mutex: glibc's cannot fail */
	connection->transport = transport;
	connection->role = role;
	connection->settled = true;
	TAILQ_INIT(&connection->open);
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS + VERBS_FLUSHES; i++)
		connection->requests[i].connection = connection;
	begin_to_count(connection);
	if (role == VERBS_SENDER) {
		connection->s.eager_bytes = verbs_eager_most(transport);
		choose_class(connection, traffic_class);
	} else {
		connection->r.pace = from->pace;
	}
	r = make_block(connection);
	if (r == 0)
		r = make_rails(connection, from, queues);
	if (r == 0)
		make_reserve(connection, from);
	if (r == 0)
		r = make_queues(connection, queues);
	if (r < 0) {
		verbs_connection_close(connection);
		return r;
	}
	*ret = connection;
	return 0;
}

void verbs_connection_hello(const struct verbs_connection *connection, struct verbs_wire_hello *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->rail_count = connection->rail_count;
	ret->own_count = connection->own_rail_count;
	ret->queue_count = connection->queue_count;
	for (unsigned i = 0; i < connection->rail_count; i++) {
		const struct verbs_rail *rail = &connection->rails[i];

		verbs_pair_rail(rail->port, &ret->rails[i]);
		ret->rails[i].rkey = rail->block->mr->rkey;
	}
	for (unsigned i = 0; i < connection->queue_count; i++)
		ret->queues[i] = verbs_queue_itself(connection, &connection->queues[i]);
	ret->ring_address = (uintptr_t)connection->in.memory;
	if (connection->role == VERBS_RECEIVER) {
		ret->window_address = (uintptr_t)connection->r.window;
		ret->window_bytes = VERBS_PLACES_BYTES;
	}
	ret->service_level = connection->service_level;
	ret->traffic_class = connection->traffic_class;
	ret->host_id = connection->transport->host_id;
	memcpy(ret->host, connection->transport->host, sizeof(ret->host));
}

static bool may_connect(const struct verbs_connection *connection, const struct verbs_queue *queue, uint64_t now_ns)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);

	return queue->peer.number && !verbs_port_is_down(ends.here) &&
	       verbs_path_take(&connection->transport->paths, &ends, false, now_ns);
}

/* Leaves out queues that the peer lacks and, if there are others, those whose port is down or path in doubt. */
static void connect_queues(struct verbs_connection *connection)
{
	const uint64_t now_ns = clock_now_ns();
	unsigned may = 0; /* a set */

	for (unsigned i = 0; i < connection->queue_count; i++)
		may |= (unsigned)may_connect(connection, &connection->queues[i], now_ns) << i;
	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];
		int r = may && !(may >> i & 1) ? -ECANCELED : 0;

		if (!queue->peer.number) {
			verbs_queue_destroy(connection, queue);
			continue;
		}
		if (r == 0)
			r = verbs_queue_connect(connection, queue);
		if (r < 0)
			queue->try.result = r;
	}
}

int verbs_connection_take_hello(struct verbs_connection *connection, const struct verbs_wire_hello *hello)
{
	if (hello->queue_count > connection->queue_count ||
	    (connection->role == VERBS_SENDER && hello->window_bytes != VERBS_PLACES_BYTES))
		return -EREMOTEIO;
	connection->peer = *hello;
	if (connection->role == VERBS_RECEIVER) {
		const int own = connection->transport->cards.fabric.receivers_class;

		connection->service_level = hello->service_level & SERVICE_LEVEL_MASK;
		connection->traffic_class = own >= 0 ? (uint8_t)own : hello->traffic_class;
	}
	while (connection->queue_count > hello->queue_count)
		verbs_queue_destroy(connection, &connection->queues[--connection->queue_count]);
	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];

		queue->peer = hello->queues[i];
		queue->peer_rail = hello->queues[i].rail;
		if (hello->rails[queue->peer_rail].ethernet != connection->rails[queue->rail].port->ethernet) {
			log_warn("RDMA device %s and that of host %s are not of one kind (Ethernet and InfiniBand)",
				 connection->rails[queue->rail].port->name, hello->host);
			return -EPROTO;
		}
	}
	connect_queues(connection);
	return 0;
}

/* Once for each path: until it works the connection lacks a rail. */
static void say_failed(struct verbs_connection *connection, const struct verbs_queue *queue)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	char text[VERBS_PATH_TEXT_BYTES];

	if (verbs_path_failed(&connection->transport->paths, &ends, clock_now_ns()))
		log_warn("RDMA cannot get from %s of host %s: %s (TRIBUTARY_GID_INDEX)", verbs_path_text(&ends, text),
			 connection->peer.host, strerror(-queue->try.result));
}

int verbs_connection_connected(struct verbs_connection *connection)
{
	bool some = false; /* are connected, or left out and built later */
	int result, failed = -EREMOTEIO;

	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];

		if (queue->state == VERBS_QUEUE_CONNECTING) {
			if (!verbs_queue_connected(queue, &result))
				return 0;
			if (result < 0)
				say_failed(connection, queue);
		}
		some |= !queue->qp || queue->try.result == 0 || queue->try.result == -ECANCELED;
		if (queue->try.result < 0)
			failed = queue->try.result;
	}
	for (unsigned i = 0; connection->role == VERBS_RECEIVER && i < connection->queue_count; i++)
		if (connection->queues[i].try.result < 0) /* the peer is told that there is none */
			verbs_queue_destroy(connection, &connection->queues[i]);
	/* The spare may find a way that they do not. */
	return some || verbs_spare_has_way(connection, clock_now_ns()) ? 1 : failed;
}

void verbs_connection_start(struct verbs_connection *connection, struct transport_connection *out,
			    struct transport_connection *in)
{
	connection->control.out = out;
	connection->control.in = in;
	connection->looked_ns = connection->progressed_ns = clock_now_ns();
	verbs_life_begin(connection, connection->looked_ns);
	LIST_INSERT_HEAD(&connection->transport->connections, connection, link);
	connection->state = VERBS_CONNECTION_STANDS;
	connection->own_queue_count = connection->queue_count;
	if (connection->queue_count < VERBS_WIRE_QUEUES_MAX)
		add_queue(connection)->spare = true;
	verbs_failover_begin(connection);
}

/* ---- ending ---- */

/* A queue that a thread connects has carried nothing, and may stay until the connection is closed, which waits. */
static void destroy_queues(struct verbs_connection *connection, bool wait)
{
	for (unsigned i = 0; i < connection->queue_count; i++)
		if (wait || connection->queues[i].state != VERBS_QUEUE_CONNECTING)
			verbs_queue_destroy(connection, &connection->queues[i]);
	if (connection->role == VERBS_RECEIVER)
		verbs_loop_close(connection);
	connection->live_count = 0;
}

void verbs_connection_end(struct verbs_connection *connection)
{
	const struct verbs_wire_frame bye = { .type = VERBS_FRAME_BYE };

	if (!connection->error || connection->state != VERBS_CONNECTION_STANDS)
		return;
	connection->state = VERBS_CONNECTION_ENDED;
	/* From here on the buffers of its requests are neither written nor read. */
	destroy_queues(connection, false);
	for (unsigned i = 0; i < TRANSPORT_MAX_REQUESTS; i++)
		if (connection->requests[i].used)
			verbs_request_release(&connection->requests[i]);
	if (connection->role == VERBS_RECEIVER)
		verbs_receiver_end(connection);
	if (!connection->peer_closed)
		verbs_control_say(connection, &bye);
	/* The end of a peer that nobody waits for is no news: it is how every job ends. */
	if (TAILQ_FIRST(&connection->open))
		log_warn("connection %s host %s is lost: %s", connection->role == VERBS_SENDER ? "to" : "from",
			 connection->peer.host, connection->peer_closed ? "the peer closed it" : connection->why);
	transport_watch_ring(&connection->watch);
}

static void unwatch(struct verbs_connection *connection)
{
	for (unsigned i = 0; i < connection->rail_count; i++)
		if (connection->rails[i].channel)
			transport_watch_remove(&connection->watch, connection->rails[i].channel->fd);
	transport_watch_end(&connection->watch);
}

/* Before each look at the queues their channels are armed (progress.c), so what comes after the look is told. */
int verbs_connection_watch(struct verbs_connection *connection, int epoll_fd, uint64_t key)
{
	int r = transport_watch_begin(&connection->watch, epoll_fd, key);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < connection->rail_count && r == 0; i++)
		r = transport_watch_add(&connection->watch, connection->rails[i].channel->fd, EPOLLIN);
	if (r == 0)
		r = transport_tcp.watch(connection->control.in, epoll_fd, key);
	if (r == 0)
		r = transport_tcp.watch(connection->control.out, epoll_fd, key);
	if (r < 0)
		unwatch(connection);
	else
		transport_watch_ring(&connection->watch); /* the first look is what arms the channels */
	return r;
}

void verbs_connection_close(struct verbs_connection *connection)
{
	if (!connection)
		return;
	if (connection->control.out) { /* it has stood; the state is the service's to change until it is taken out */
		pthread_mutex_lock(&connection->transport->lock);
		LIST_REMOVE(connection, link);
		pthread_mutex_unlock(&connection->transport->lock);
	}
	unwatch(connection);
	destroy_queues(connection, true);
	if (connection->role == VERBS_RECEIVER)
		verbs_receiver_end(connection);
	verbs_control_close(connection);
	/*
	 * Those of its requests, and what its user did not take back. One that stayed would be found again for other
	 * memory at the same address.
	 */
	while (!LIST_EMPTY(&connection->registrations))
		verbs_registration_free(connection, LIST_FIRST(&connection->registrations));
	for (unsigned i = 0; i < connection->rail_count; i++)
		rail_close(connection, &connection->rails[i]);
	sys_free(connection->block);
	pthread_mutex_destroy(&connection->lock);
	sys_free(connection);
}
