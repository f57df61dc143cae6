/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, listeners, and the table of operations that the layers above use. */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/process.h"
#include "base/sys.h"
#include "transport/tcp/confined.h"
#include "transport/tcp/dial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define BEAT_MOST_NS  (500 * NS_PER_MS)
#define BEAT_LEAST_NS (20 * NS_PER_MS)
#define EMPTYING_NS   NS_PER_S /* what close waits at most for the last bytes of closed connections */

_Static_assert((int)TCP_INTERFACE_MAX <= (int)TRANSPORT_PHYSICAL_MAX, "each is a device");

static void describe(struct transport *opaque, int index)
{
	struct tcp_transport *transport = (struct tcp_transport *)opaque;
	struct transport_device *device = &transport->devices.list[index];
	const struct tcp_interface *first = &transport->interfaces[device->members[0]];
	struct transport_properties *p = &device->properties;

	*p = (struct transport_properties){
		.name = device->name,
		.pci_path = first->pci_path[0] ? first->pci_path : NULL,
		.guid = first->guid,
		.memory = TRANSPORT_MEMORY_HOST,
		.registration_is_global = true,
		.port = first->port,
		.max_connections = 65536,
		/* With more NCCL would let ranks share a connection, which has not been found to gain anything. */
		.max_recvs = 1,
		.max_message_bytes = TRANSPORT_MAX_MESSAGE_BYTES,
		.rail = device->rail_count == 1 ? first->rail : -1,
		.plane = -1,
		.member_count = (int)device->rail_count,
	};
	for (unsigned i = 0; i < device->rail_count; i++) {
		const struct tcp_interface *interface = &transport->interfaces[device->members[i]];

		p->speed_Bps += interface->speed_Bps;
		if (device->rail_count == 1 && interface->path_count == 1 && interface->pci_path[0] &&
		    !interface->speed_assumed)
			p->port_Bps = interface->speed_Bps;
		p->members[i] = device->members[i];
	}
}

static void tcp_close(struct transport *opaque)
{
	struct tcp_transport *transport = (struct tcp_transport *)opaque;
	uint64_t end_ns = clock_now_ns() + EMPTYING_NS;
	bool empty = false;

	if (!transport)
		return;
	while (!empty && transport->service.runs && clock_now_ns() < end_ns) {
		pthread_mutex_lock(&transport->lock);
		empty = LIST_EMPTY(&transport->connections) && LIST_EMPTY(&transport->lingering);
		pthread_mutex_unlock(&transport->lock);
		if (!empty) {
			transport_service_wake(&transport->service);
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
	}
	transport_service_stop(&transport->service);
	tcp_movers_fini(&transport->movers);
	while (!LIST_EMPTY(&transport->connections))
		tcp_connection_remove(LIST_FIRST(&transport->connections));
	tcp_connector_expire(transport, 0, true);
	tcp_linger_step(transport, 0, true);
	tcp_acceptors_free(transport);
	transport_devices_fini(&transport->devices);
	tcp_growth_memory_free(transport->ways.memory);
	pthread_mutex_destroy(&transport->mtu.lock);
	pthread_mutex_destroy(&transport->ways.lock);
	pthread_mutex_destroy(&transport->lock);
	sys_free(transport);
}

static void set_times(struct tcp_transport *transport)
{
	transport->timeout_ns = transport->params->timeout_ns;
	transport->beat_ns = transport->timeout_ns / 10;
	if (transport->beat_ns > BEAT_MOST_NS)
		transport->beat_ns = BEAT_MOST_NS;
	if (transport->beat_ns < BEAT_LEAST_NS)
		transport->beat_ns = BEAT_LEAST_NS;
	transport->silence_ns = transport->timeout_ns - 2 * transport->beat_ns;
	transport->stream_timeout_ns = params_replace_ns(transport->params->timeout_ns) * 2 / 5;
}

static void say_confined(const struct tcp_transport *transport)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char text[TCP_CONFINED_BYTES];

	if (!transport->params->quiet &&
	    tcp_confined(transport->params, transport->interfaces, transport->interface_count, text) && log_once(&said))
		log_info(LOG_INIT, "Tributary: %s: " TCP_CONFINED_REMEDY, text);
}

static int tcp_open(const struct params *params, struct transport **ret)
{
	struct tcp_transport *transport = sys_zalloc(sizeof(*transport));
	struct diag diag = { 0 };
	struct utsname kernel;
	int r;

	if (!transport)
		return -ENOMEM;
	transport->params = params;
	pthread_mutex_init(&transport->lock, NULL);
	pthread_mutex_init(&transport->ways.lock, NULL);
	pthread_mutex_init(&transport->mtu.lock, NULL);
	transport->ways.memory = tcp_growth_memory_new(params);
	tcp_movers_init(transport, tcp_move);
	transport_service_init(&transport->service, &transport->lock);
	transport_devices_init(&transport->devices, &transport->lock, describe);
	set_times(transport);
	if (gethostname(transport->host, sizeof(transport->host)) < 0)
		snprintf(transport->host, sizeof(transport->host), "?");
	transport->host[sizeof(transport->host) - 1] = '\0';
	transport->host_id = process_host();
	transport->bounds_windows = uname(&kernel) == 0 && tcp_kernel_bounds_windows(kernel.release);
	r = tcp_interfaces_find(params, transport->interfaces, TCP_INTERFACE_MAX, &transport->interface_count, &diag);
	if (diag.text[0])
		log_warn("%s", diag.text);
	if (r == -ENODEV) /* nothing to use: said above, and the layers above go on without */
		r = 0;
	if (r < 0)
		goto fail;
	say_confined(transport);
	for (size_t i = 0; i < transport->interface_count; i++)
		transport_devices_add(&transport->devices, transport->interfaces[i].name);
	*ret = (struct transport *)transport;
	return 0;
fail:
	tcp_close((struct transport *)transport);
	return r;
}

static bool in_subnet_of_one(const struct tcp_wire_address *way, const struct tcp_wire_handle *handle)
{
	for (unsigned i = 0; i < handle->way_count; i++)
		if (tcp_way_in_one_subnet(way, &handle->ways[i]))
			return true;
	return tcp_way_in_one_subnet(way, &handle->address);
}

static bool is_listed(const struct tcp_wire_address *way, const struct tcp_wire_handle *handle)
{
	for (unsigned i = 0; i < handle->way_count; i++)
		if (!memcmp(way->bytes, handle->ways[i].bytes, sizeof(way->bytes)))
			return true;
	return false;
}

/*
 * First one address a subnet, then the others; IPv4, which takes less room, before IPv6; each in the
 * order given. WELCOME tells the peer of those at another port.
 */
static void put_ways(struct tcp_wire_handle *handle, const struct tcp_wire_address *ways, unsigned count)
{
	handle->address = ways[0];
	for (unsigned pass = 0; pass < 4; pass++)
		for (unsigned i = 1; i < count; i++)
			if (ways[i].family == (pass % 2 ? 6 : 4) && ways[i].port == handle->address.port &&
			    !is_listed(&ways[i], handle) && (pass > 1 || !in_subnet_of_one(&ways[i], handle)))
				(void)tcp_wire_add_way(handle, &ways[i]);
}

static int listen_locked(struct tcp_transport *transport, int index, struct tcp_wire_handle *handle,
			 struct tcp_listener **ret)
{
	struct tcp_wire_address ways[TCP_WIRE_WAYS_MAX];
	struct tcp_listener *listener;
	unsigned own;
	int r = tcp_acceptor_listen(transport, index);

	if (r < 0)
		return r;
	listener = sys_zalloc(sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	r = tcp_socket_random(listener->secret, sizeof(listener->secret));
	if (r == 0)
		r = tcp_service_start(transport);
	if (r < 0) {
		sys_free(listener);
		return r;
	}
	listener->transport = transport;
	listener->id = ++transport->next_listener_id;
	listener->device = index;
	STAILQ_INIT(&listener->ready);
	LIST_INSERT_HEAD(&transport->listeners, listener, link);
	handle->rail_count = (uint8_t)transport->devices.list[index].rail_count;
	put_ways(handle, ways, tcp_acceptor_ways(transport, index, ways, &own));
	handle->listener_id = listener->id;
	memcpy(handle->secret, listener->secret, sizeof(handle->secret));
	*ret = listener;
	return 0;
}

static int tcp_listen(struct transport *opaque, int device, uint8_t bytes[static TRANSPORT_HANDLE_BYTES],
		      struct transport_listener **ret)
{
	struct tcp_transport *transport = (struct tcp_transport *)opaque;
	struct tcp_wire_handle handle = { .host_id = transport->host_id, .tuning = transport->params->tuning_told };
	struct tcp_listener *listener = NULL;
	int r;

	if (device < 0 || device >= transport_devices_count(opaque))
		return -EINVAL;
	memcpy(handle.host, transport->host, sizeof(handle.host));
	r = transport_devices_pace(&transport->devices, device, transport->params, true);
	/* Also of ports that may carry the device's connections. */
	for (int i = 0; r == 0 && i < transport->devices.physical_count; i++)
		r = transport_devices_pace(&transport->devices, i, transport->params, true);
	if (r < 0)
		return r;
	pthread_mutex_lock(&transport->lock);
	r = listen_locked(transport, device, &handle, &listener);
	pthread_mutex_unlock(&transport->lock);
	if (r < 0)
		return r;
	transport_service_wake(&transport->service); /* it polls the sockets it knew */
	tcp_wire_handle(CODEC_TO(bytes), &handle);
	*ret = (struct transport_listener *)listener;
	return 0;
}

static int tcp_connect(struct transport *opaque, int device, int traffic_class,
		       uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	struct tcp_transport *transport = (struct tcp_transport *)opaque;
	struct tcp_connection *connection = NULL;
	int r;

	*ret = NULL;
	if (atomic_load(&transport->service_waits))
		return 0;
	if (device < 0 || device >= transport_devices_count(opaque))
		return -EINVAL;
	pthread_mutex_lock(&transport->lock);
	r = tcp_connector_step(transport, device, traffic_class, handle, &connection);
	if (r == 0) /* only now: a handle that is none starts nothing */
		r = tcp_service_start(transport);
	pthread_mutex_unlock(&transport->lock);
	if (r < 0 && connection)
		tcp_connection_close(connection);
	*ret = r < 0 ? NULL : (struct transport_connection *)connection;
	return r;
}

static int tcp_accept(struct transport_listener *opaque, struct transport_connection **ret)
{
	struct tcp_listener *listener = (struct tcp_listener *)opaque;
	struct tcp_transport *transport = listener->transport;
	struct tcp_connection *connection;

	*ret = NULL;
	if (atomic_load(&transport->service_waits))
		return 0;
	pthread_mutex_lock(&transport->lock);
	connection = STAILQ_FIRST(&listener->ready);
	if (connection) {
		STAILQ_REMOVE_HEAD(&listener->ready, ready_link);
		connection->listener = NULL;
	}
	pthread_mutex_unlock(&transport->lock);
	*ret = (struct transport_connection *)connection;
	return 0;
}

static void tcp_close_listener(struct transport_listener *opaque)
{
	struct tcp_listener *listener = (struct tcp_listener *)opaque;
	struct tcp_transport *transport;
	struct tcp_connection *connection, *next;

	if (!listener)
		return;
	transport = listener->transport;
	pthread_mutex_lock(&transport->lock);
	for (connection = LIST_FIRST(&transport->connections); connection; connection = next) {
		next = LIST_NEXT(connection, link);
		if (connection->listener == listener)
			tcp_connection_remove(connection);
	}
	LIST_REMOVE(listener, link);
	pthread_mutex_unlock(&transport->lock);
	sys_free(listener);
}

static struct tcp_connection *locked(struct transport_connection *opaque)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;

	pthread_mutex_lock(&connection->lock);
	return connection;
}

static int unlocked(struct tcp_connection *connection, int r)
{
	pthread_mutex_unlock(&connection->lock);
	return r;
}

static int tcp_memory_register(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			       void **ret_registration)
{
	(void)data, (void)bytes;
	if (memory != TRANSPORT_MEMORY_HOST)
		return -EOPNOTSUPP;
	*ret_registration = connection; /* TCP needs none; never NULL, which callers may take for "not registered" */
	return 0;
}

static int tcp_memory_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes,
				      unsigned memory, uint64_t offset, int fd, void **ret_registration)
{
	(void)connection, (void)data, (void)bytes, (void)memory, (void)offset, (void)fd, (void)ret_registration;
	return -EOPNOTSUPP;
}

static int tcp_memory_deregister(struct transport_connection *connection, void *registration)
{
	(void)registration;
	tcp_movers_pause((struct tcp_connection *)connection); /* after an abort requests are open for ever */
	return 0;
}

static int tcp_send(struct transport_connection *opaque, void *data, size_t bytes, int tag, void *registration,
		    struct transport_request **ret)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;
	struct tcp_request *request = NULL;
	uint64_t now_ns;
	int r;

	(void)registration;
	*ret = NULL;
	if (connection->role != TCP_SENDER || bytes > TRANSPORT_MAX_MESSAGE_BYTES)
		return -EINVAL;
	pthread_mutex_lock(&connection->lock);
	now_ns = connection->now_ns = clock_now_ns();
	connection->ready = true;
	atomic_fetch_add_explicit(&connection->transport->sends, 1, memory_order_relaxed);
	if (connection->s.buffered && !connection->watch.on &&
	    !connection->error) /* its FIN may lie there, and makes room */
		tcp_connection_progress(connection);
	r = tcp_connection_error(connection);
	if (!connection->error)
		r = tcp_sender_send(connection, data, bytes, tag, now_ns, &request);
	if (r == 0 && !request && !connection->watch.on &&
	    !connection->error) { /* what makes room comes from the peer */
		connection->ready = true;
		tcp_connection_poll(connection);
		r = tcp_connection_error(connection);
	}
	pthread_mutex_unlock(&connection->lock);
	*ret = (struct transport_request *)request;
	return r;
}

static void tcp_set(struct transport_connection *opaque, enum transport_setting setting, uint64_t value)
{
	struct tcp_connection *connection = locked(opaque);

	switch (setting) {
	case TRANSPORT_SET_EAGER_LIMIT:
		connection->eager_limit = value;
		connection->eager_bytes = min_u64(value, tcp_eager_most(connection->transport));
		break;
	case TRANSPORT_SET_SPREAD:
		connection->r.sender.spread = (unsigned)value;
		break;
	case TRANSPORT_SET_RATE_LIMIT:
		for (unsigned i = 0; i < connection->stream_count; i++)
			tcp_stream_limit_rate(&connection->streams[i], value);
		break;
	case TRANSPORT_SET_UNPACED:
		connection->r.unpaced = true;
		break;
	case TRANSPORT_SET_OUTLIVES_SILENCE:
		connection->outlives_silence = value;
		break;
	}
	unlocked(connection, 0);
}

static int tcp_receive(struct transport_connection *opaque, int count, void *const *data, const size_t *bytes,
		       const int *tags, void *const *registrations, struct transport_request **ret)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;
	struct tcp_request *request = NULL;
	int r;

	(void)registrations;
	*ret = NULL;
	if (connection->role != TCP_RECEIVER || count < 1 || count > TRANSPORT_MAX_RECVS)
		return -EINVAL;
	pthread_mutex_lock(&connection->lock);
	/* After the peer's end, what it had sent before is still here to be received. */
	connection->ready = true;
	connection->now_ns = clock_now_ns();
	if (connection->error && (connection->error == -EMSGSIZE || TAILQ_EMPTY(&connection->r.unexpected)))
		r = tcp_connection_error(connection);
	else
		r = tcp_receiver_receive(connection, count, data, bytes, tags, connection->now_ns, &request);
	if (r < 0 && connection->error)
		r = tcp_connection_error(connection);
	pthread_mutex_unlock(&connection->lock);
	*ret = (struct transport_request *)request;
	return r;
}

static int tcp_flush(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		     void *const *registrations, struct transport_request **ret)
{
	(void)connection, (void)count, (void)data, (void)bytes, (void)registrations;
	*ret = NULL; /* host memory: what recv wrote is there */
	return 0;
}

static int tcp_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	return tcp_connection_test((struct tcp_request *)request, ret_done, sizes);
}

static int tcp_watch(struct transport_connection *opaque, int epoll_fd, uint64_t key)
{
	struct tcp_connection *connection = locked(opaque);

	return unlocked(connection, tcp_connection_watch(connection, epoll_fd, key));
}

static int tcp_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	return tcp_watch_progress((struct tcp_connection *)connection, ret_next);
}

static void tcp_why(struct transport_connection *opaque, char *ret, size_t bytes)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;

	pthread_mutex_lock(&connection->lock);
	snprintf(ret, bytes, "%s", connection->error ? connection->lost_why : "");
	pthread_mutex_unlock(&connection->lock);
}

static uint64_t tcp_silent_ns(struct transport_connection *opaque)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;
	uint64_t now_ns, heard_ns;

	pthread_mutex_lock(&connection->lock);
	now_ns = clock_now_ns();
	heard_ns = connection->last_rx_ns;
	if (connection->role == TCP_SENDER)
		heard_ns = min_u64(heard_ns, connection->s.mtu.moved_ns);
	heard_ns = clock_heard_ns(heard_ns, connection->last_tick_ns, now_ns, 2 * connection->transport->beat_ns);
	pthread_mutex_unlock(&connection->lock);
	return clock_elapsed_ns(heard_ns, now_ns);
}

static void tcp_close_connection(struct transport_connection *connection)
{
	if (connection)
		tcp_connection_close((struct tcp_connection *)connection);
}

const struct transport_ops transport_tcp = {
	.name = "tcp",
	.open = tcp_open,
	.close = tcp_close,
	.device_count = transport_devices_count,
	.device_properties = transport_devices_properties,
	.device_join = transport_devices_join,
	.device_counters = tcp_count_device,
	.listen = tcp_listen,
	.connect = tcp_connect,
	.accept = tcp_accept,
	.memory_register = tcp_memory_register,
	.memory_register_dmabuf = tcp_memory_register_dmabuf,
	.memory_deregister = tcp_memory_deregister,
	.send = tcp_send,
	.set = tcp_set,
	.receive = tcp_receive,
	.flush = tcp_flush,
	.test = tcp_test,
	.watch = tcp_watch,
	.progress = tcp_progress,
	.why = tcp_why,
	.silent_ns = tcp_silent_ns,
	.close_connection = tcp_close_connection,
	.close_listener = tcp_close_listener,
};
