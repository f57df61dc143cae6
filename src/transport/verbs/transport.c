/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, listeners, and the table of operations that the layers above use. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/process.h"
#include "base/sys.h"
#include "transport/verbs/handshake.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NEVER_NS (UINT64_MAX / 4)
enum { CONTROL_EAGER_BYTES = 16 << 10 };

static const struct transport_ops *const tcp = &transport_tcp;

static struct {
	const struct verbs_api *api; /* a test's; NULL: the library */
	const char *root;
} use = { .root = "/sys" };

void verbs_transport_use(const struct verbs_api *api, const char *sysfs_root)
{
	use.api = api;
	use.root = sysfs_root ? sysfs_root : "/sys";
}

/* ---- devices ---- */

/* The network interface of each rail, if TCP has it: then the control connections have the rails' redundancy, too. */
static int control_device(struct verbs_transport *transport, const struct transport_device *device)
{
	int members[TRANSPORT_MAX_MEMBERS] = { 0 }, count = 0, joined, devices = tcp->device_count(transport->control);
	struct transport_properties properties;

	for (unsigned i = 0; i < device->rail_count; i++) {
		const char *netdev = transport->cards.ports[device->members[i]].netdev;

		for (int k = 0; k < devices; k++) {
			bool known = false;

			if (tcp->device_properties(transport->control, k, &properties) < 0 ||
			    strcmp(properties.name, netdev) != 0)
				continue;
			for (int m = 0; m < count; m++)
				known |= members[m] == k;
			if (!known)
				members[count++] = k;
			break;
		}
	}
	if (count > 1 && tcp->device_join(transport->control, count, members, &joined) == 0)
		return joined;
	return members[0];
}

static void describe(struct transport *opaque, int index)
{
	struct verbs_transport *transport = (struct verbs_transport *)opaque;
	struct transport_device *device = &transport->devices.list[index];
	const struct verbs_port *first = &transport->cards.ports[device->members[0]];
	struct transport_properties *p = &device->properties;
	int queues = (int)transport->params->qps * (int)device->rail_count;

	*p = (struct transport_properties){
		.name = device->name,
		.pci_path = first->place.pci_path[0] ? first->place.pci_path : NULL,
		.guid = first->guid,
		.memory = TRANSPORT_MEMORY_HOST | TRANSPORT_MEMORY_CUDA | TRANSPORT_MEMORY_DMABUF,
		.registration_is_global = false,
		.port = first->number + first->place.function,
		.max_connections = first->card->attr.max_qp > queues ? first->card->attr.max_qp / queues : 1,
		.max_recvs = TRANSPORT_MAX_RECVS,
		.max_message_bytes = TRANSPORT_MAX_MESSAGE_BYTES,
		.rail = first->rail >= 0                                             ? first->rail
			: device->rail_count == 1 && transport->cards.port_count > 1 ? device->members[0]
										     : -1,
		.plane = first->plane,
		.member_count = (int)device->rail_count,
	};
	for (unsigned i = 0; i < device->rail_count; i++) {
		p->speed_Bps += transport->cards.ports[device->members[i]].speed_Bps;
		p->members[i] = device->members[i];
		p->memory &= transport->cards.ports[device->members[i]].card->memory;
	}
	transport->control_devices[index] = control_device(transport, device);
}

static void verbs_close(struct transport *opaque)
{
	struct verbs_transport *transport = (struct verbs_transport *)opaque;

	if (!transport)
		return;
	transport_service_stop(&transport->service);
	verbs_handshake_expire(transport, 0, true);
	transport_devices_fini(&transport->devices);
	if (transport->control)
		tcp->close(transport->control);
	verbs_devices_close(&transport->cards);
	verbs_paths_free(&transport->paths);
	pthread_mutex_destroy(&transport->lock);
	sys_free(transport);
}

/* The TCP transport below carries a few descriptors: nothing in it is a matter of speed. */
static void set_control_params(struct verbs_transport *transport, const struct params *params)
{
	transport->control_params = *params;
	transport->control_params.streams = 1;
	transport->control_params.pace = false;
	transport->control_params.eager_bytes = CONTROL_EAGER_BYTES;
	transport->control_params.report_after_ns = NEVER_NS; /* a control connection waits all its life */
	transport->control_params.quiet = true;
}

static int open_control(struct verbs_transport *transport, struct diag *diag)
{
	int r = tcp->open(&transport->control_params, &transport->control);

	if (r == 0 && tcp->device_count(transport->control) == 0) {
		verbs_devices_close(&transport->cards);
		diag_set(diag, 0, 0, "no network interface is there for the connections beside RDMA's");
	}
	return r;
}

static int open_all(const struct params *params, struct verbs_transport **ret, struct diag *diag)
{
	struct verbs_transport *transport = sys_zalloc(sizeof(*transport));
	struct process_identity self = { 0 };
	int r = 0;

	if (!transport)
		return -ENOMEM;
	transport->params = params;
	TAILQ_INIT(&transport->connectors);
	pthread_mutex_init(&transport->lock, NULL);
	verbs_paths_init(&transport->paths);
	transport_service_init(&transport->service, &transport->lock);
	transport_devices_init(&transport->devices, &transport->lock, describe);
	set_control_params(transport, params);
	if (gethostname(transport->host, sizeof(transport->host)) < 0)
		snprintf(transport->host, sizeof(transport->host), "?");
	transport->host[sizeof(transport->host) - 1] = '\0';
	process_identity(&self); /* without /proc all hosts look alike to the pace */
	transport->host_id = hash_bytes(HASH_START, &self.boot, sizeof(self.boot));
	transport->api = use.api ? use.api : verbs_api_open(diag);
	if (transport->api) {
		/* Before anything is registered; where the kernel copies for forked children by itself it does nothing. */
		if (transport->api->fork_init() != 0)
			log_info(LOG_INIT, "RDMA: forked children may disturb this process (ibv_fork_init failed)");
		r = verbs_devices_open(transport->api, use.root, params, &transport->cards, diag);
	}
	if (r == 0 && transport->cards.port_count)
		r = open_control(transport, diag);
	if (r < 0) {
		verbs_close((struct transport *)transport);
		return r;
	}
	for (unsigned i = 0; i < transport->cards.port_count; i++)
		transport_devices_add(&transport->devices, transport->cards.ports[i].name);
	*ret = transport;
	return 0;
}

/* Of a connection: completion channels of its device's port and of the one that stands by, and two sockets. */
static void say_descriptors(void)
{
	enum { EACH = 4, ENOUGH = 4096 };
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < ENOUGH)
		log_info(
			LOG_INIT,
			"RDMA takes %d descriptors for a connection, and this process may have %llu, which is enough for "
			"few ranks (ulimit -n)",
			EACH, (unsigned long long)limit.rlim_cur);
}

static int verbs_open(const struct params *params, struct transport **ret)
{
	struct verbs_transport *transport;
	struct diag diag = { 0 };
	char unread[256];
	int r = open_all(params, &transport, &diag);

	if (r < 0)
		return r;
	if (!transport->devices.count)
		log_info(LOG_INIT, "no RDMA: %s", diag.text);
	else if (*verbs_fabric_unread(unread, sizeof(unread)))
		log_info(LOG_INIT, "without effect on Tributary's RDMA: %s", unread);
	if (transport->devices.count)
		say_descriptors();
	*ret = (struct transport *)transport;
	return 0;
}

bool transport_verbs_is_there(const struct params *params, struct diag *diag)
{
	struct verbs_transport *transport;
	int r = open_all(params, &transport, diag);
	bool is_there;

	if (r < 0) {
		diag_set(diag, 0, 0, "RDMA cannot be used: %s", strerror(-r));
		return false;
	}
	is_there = transport->devices.count > 0;
	verbs_close((struct transport *)transport);
	return is_there;
}

/* ---- listening and connecting ---- */

static void verbs_close_listener(struct transport_listener *opaque)
{
	struct verbs_listener *listener = (struct verbs_listener *)opaque;

	if (!listener)
		return;
	verbs_handshake_end(listener);
	if (listener->control)
		tcp->close_listener(listener->control);
	sys_free(listener);
}

static int verbs_listen(struct transport *opaque, int index, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
			struct transport_listener **ret)
{
	struct verbs_transport *transport = (struct verbs_transport *)opaque;
	struct verbs_listener *listener;
	int r;

	if (index < 0 || index >= transport_devices_count(opaque))
		return -EINVAL;
	listener = sys_zalloc(sizeof(*listener));
	if (!listener)
		return -ENOMEM;
	listener->transport = transport;
	listener->device = index;
	TAILQ_INIT(&listener->pending);
	r = transport_devices_pace(&transport->devices, index, transport->params, false);
	if (r == 0)
		r = tcp->listen(transport->control, transport->control_devices[index], handle, &listener->control);
	if (r == 0) {
		pthread_mutex_lock(&transport->lock);
		r = verbs_service_start(transport);
		pthread_mutex_unlock(&transport->lock);
	}
	if (r < 0) {
		verbs_close_listener((struct transport_listener *)listener);
		return r;
	}
	verbs_wire_mark_handle(handle);
	*ret = (struct transport_listener *)listener;
	return 0;
}

static int verbs_connect(struct transport *opaque, int device, int traffic_class,
			 uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	struct verbs_transport *transport = (struct verbs_transport *)opaque;
	struct verbs_connection *connection = NULL;
	int r;

	*ret = NULL;
	if (device < 0 || device >= transport_devices_count(opaque))
		return -EINVAL;
	pthread_mutex_lock(&transport->lock);
	r = verbs_handshake_connect(transport, device, traffic_class, handle, &connection);
	if (r == 0) /* only now: a handle that is none starts nothing */
		r = verbs_service_start(transport);
	pthread_mutex_unlock(&transport->lock);
	if (r < 0 && connection)
		verbs_connection_close(connection);
	*ret = r < 0 ? NULL : (struct transport_connection *)connection;
	return r;
}

static int verbs_accept(struct transport_listener *opaque, struct transport_connection **ret)
{
	struct verbs_connection *connection = NULL;
	int r = verbs_handshake_accept((struct verbs_listener *)opaque, &connection);

	*ret = (struct transport_connection *)connection;
	return r;
}

/* ---- memory and messages: under the connection's lock, for the service thread may be at it ---- */

static struct verbs_connection *locked(struct transport_connection *opaque)
{
	struct verbs_connection *connection = (struct verbs_connection *)opaque;

	pthread_mutex_lock(&connection->lock);
	return connection;
}

static int unlocked(struct verbs_connection *connection, int r)
{
	verbs_connection_end(connection);
	pthread_mutex_unlock(&connection->lock);
	return r;
}

static int register_range(struct transport_connection *opaque, const struct verbs_range *range, void **ret)
{
	struct verbs_connection *connection = locked(opaque);
	struct verbs_registration *registration = NULL;
	int r = verbs_registration_new(connection, range, &registration);

	if (r == 0 && registration->gpu && connection->role == VERBS_RECEIVER)
		r = verbs_loop_open(connection);
	if (r == 0)
		*ret = registration;
	else
		verbs_registration_free(connection, registration);
	return unlocked(connection, r);
}

static int verbs_memory_register(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
				 void **ret_registration)
{
	const struct verbs_range range = { data, bytes, .stays = true, .memory = memory };

	if (memory != TRANSPORT_MEMORY_HOST && memory != TRANSPORT_MEMORY_CUDA)
		return -EOPNOTSUPP;
	return register_range(connection, &range, ret_registration);
}

static int verbs_memory_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes,
					unsigned memory, uint64_t offset, int fd, void **ret_registration)
{
	const struct verbs_range range = { data, bytes, true, TRANSPORT_MEMORY_DMABUF, fd, offset, false };

	if (memory == TRANSPORT_MEMORY_HOST)
		return -EOPNOTSUPP;
	return register_range(connection, &range, ret_registration);
}

static int verbs_memory_deregister(struct transport_connection *opaque, void *registration)
{
	struct verbs_connection *connection = locked(opaque);

	/* As an abort of NCCL's does, which frees the memory before it closes the connection. */
	if (verbs_request_uses(connection, registration)) {
		(void)verbs_connection_fail(connection, -EINVAL, "the memory of a message under way was taken back");
		verbs_connection_end(connection);
	}
	verbs_registration_free(connection, registration);
	return unlocked(connection, 0);
}

static int verbs_send(struct transport_connection *opaque, void *data, size_t bytes, int tag, void *registration,
		      struct transport_request **ret)
{
	struct verbs_connection *connection = locked(opaque);
	struct verbs_request *request = NULL;
	enum transport_next next;
	int r = connection->error;

	*ret = NULL;
	if (connection->role != VERBS_SENDER || bytes > TRANSPORT_MAX_MESSAGE_BYTES)
		return unlocked(connection, -EINVAL);
	if (r == 0)
		r = verbs_sender_send(connection, data, bytes, tag, registration, &request);
	if (r == 0 && !request && !connection->watch.on) /* what makes room comes from the peer */
		r = verbs_connection_progress(connection, &next);
	*ret = r == 0 ? (struct transport_request *)request : NULL;
	return unlocked(connection, r);
}

static void verbs_set(struct transport_connection *opaque, enum transport_setting setting, uint64_t value)
{
	struct verbs_connection *connection = locked(opaque);

	if (setting == TRANSPORT_SET_EAGER_LIMIT)
		connection->s.eager_bytes = min_u64(value, verbs_eager_most(connection->transport));
	else if (setting == TRANSPORT_SET_SPREAD)
		connection->r.sender.spread = (unsigned)value;
	unlocked(connection, 0);
}

static bool any_gpu(int count, void *const *registrations)
{
	for (int i = 0; registrations && i < count; i++)
		if (registrations[i] && ((const struct verbs_registration *)registrations[i])->gpu)
			return true;
	return false;
}

static int verbs_receive(struct transport_connection *opaque, int count, void *const *data, const size_t *bytes,
			 const int *tags, void *const *registrations, struct transport_request **ret)
{
	struct verbs_connection *connection = locked(opaque);
	struct verbs_request *request = NULL;
	enum transport_next next;
	int r;

	*ret = NULL;
	if (connection->role != VERBS_RECEIVER || count < 1 || count > TRANSPORT_MAX_RECVS)
		return unlocked(connection, -EINVAL);
	/* After the peer's end, what it had sent before is still here to be received; by what the CPU can write. */
	r = connection->error && verbs_receiver_has_unexpected(connection) && !any_gpu(count, registrations)
		    ? 0
		    : connection->error;
	if (r == 0)
		r = verbs_receiver_receive(connection, count, data, bytes, tags, registrations, &request);
	if (r == 0 && !request && !connection->watch.on)
		r = verbs_connection_progress(connection, &next);
	*ret = r == 0 ? (struct transport_request *)request : NULL;
	return unlocked(connection, r);
}

/* One read is enough: what a card writes before it, wherever, is written before it. */
static int verbs_flush(struct transport_connection *opaque, int count, void *const *data, const size_t *bytes,
		       void *const *registrations, struct transport_request **ret)
{
	struct verbs_connection *connection = locked(opaque);
	const struct verbs_registration *registration = NULL;
	struct verbs_request *request = NULL;
	int r = connection->error, last = -1;

	*ret = NULL;
	for (int i = 0; registrations && i < count; i++) {
		registration = registrations[i];
		if (registration && registration->gpu && bytes[i])
			last = i;
	}
	if (r == 0 && last >= 0)
		r = connection->role == VERBS_RECEIVER
			    ? verbs_loop_flush(connection, data[last], registrations[last], &request)
			    : -EINVAL;
	*ret = r == 0 ? (struct transport_request *)request : NULL;
	return unlocked(connection, r);
}

static int verbs_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	struct verbs_connection *connection = ((struct verbs_request *)request)->connection;

	pthread_mutex_lock(&connection->lock);
	return unlocked(connection, verbs_connection_test((struct verbs_request *)request, ret_done, sizes));
}

static int verbs_watch(struct transport_connection *opaque, int epoll_fd, uint64_t key)
{
	struct verbs_connection *connection = locked(opaque);

	return unlocked(connection, verbs_connection_watch(connection, epoll_fd, key));
}

static int verbs_progress(struct transport_connection *opaque, enum transport_next *ret_next)
{
	struct verbs_connection *connection = locked(opaque);

	return unlocked(connection, verbs_connection_progress(connection, ret_next));
}

static void verbs_close_connection(struct transport_connection *connection)
{
	verbs_connection_close((struct verbs_connection *)connection);
}

const struct transport_ops transport_verbs = {
	.name = "verbs",
	.open = verbs_open,
	.close = verbs_close,
	.device_count = transport_devices_count,
	.device_properties = transport_devices_properties,
	.device_join = transport_devices_join,
	.listen = verbs_listen,
	.connect = verbs_connect,
	.accept = verbs_accept,
	.memory_register = verbs_memory_register,
	.memory_register_dmabuf = verbs_memory_register_dmabuf,
	.memory_deregister = verbs_memory_deregister,
	.send = verbs_send,
	.set = verbs_set,
	.receive = verbs_receive,
	.flush = verbs_flush,
	.test = verbs_test,
	.watch = verbs_watch,
	.progress = verbs_progress,
	.close_connection = verbs_close_connection,
	.close_listener = verbs_close_listener,
};
