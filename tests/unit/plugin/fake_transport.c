/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plugin/fake_transport.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "plugin/steer.h"
#include "plugin/state.h"

enum { COPIED_BYTES_MAX = 1 << 20 }; /* of longer messages only the length is real */

struct transport {
	int unused;
};

struct transport_request {
	struct transport_connection *connection; /* NULL: free */
	int count;
	void *data[TRANSPORT_MAX_RECVS];
	size_t bytes[TRANSPORT_MAX_RECVS], got[TRANSPORT_MAX_RECVS];
	int tags[TRANSPORT_MAX_RECVS];
	bool arrived[TRANSPORT_MAX_RECVS];
	bool is_send;
};

struct transport_connection {
	struct transport_connection *peer; /* NULL once it is closed */
	struct transport_request requests[TRANSPORT_MAX_REQUESTS];
};

struct transport_listener {
	int slot;
	struct transport_connection *waiting; /* the connector's end, not accepted yet */
};

struct fake_transport fake_transport;
static struct transport the_transport;
static struct transport_listener *listeners[FAKE_LISTENERS_MAX];

void fake_transport_reset(void)
{
	memset(&fake_transport, 0, sizeof(fake_transport));
	memset(listeners, 0, sizeof(listeners));
	fake_transport.physical_count = FAKE_PHYSICAL;
	for (int i = 0; i < FAKE_PHYSICAL; i++) {
		fake_transport.devices[i] = (struct transport_properties){
			.name = i == 0 ? "fake0" : "fake1",
			.pci_path = i == 0 ? "/sys/devices/pci0000:00/0000:00:01.0" : NULL,
			.guid = 0x1000u + (unsigned)i,
			.memory = TRANSPORT_MEMORY_HOST,
			.registration_is_global = true,
			.speed_Bps = i == 0 ? 1250000000 : 312500000,
			.latency_ns = 12500,
			.port = i + 1,
			.max_connections = 1 << 16,
			.max_recvs = TRANSPORT_MAX_RECVS,
			.max_message_bytes = TRANSPORT_MAX_MESSAGE_BYTES,
			.rail = i,
			.plane = -1,
			.member_count = 1,
			.members = { i },
		};
	}
}

int fake_transport_setup(void **state)
{
	(void)state;
	fake_transport_reset();
	log_lines_start(NULL);
	setenv("TRIBUTARY_NET", "tcp", 1);
	setenv("TRIBUTARY_STEER", "off", 1);
	unsetenv("TRIBUTARY_DISABLE");
	steer_reset(NULL, NULL);
	plugin_state_reset(&fake_transport_ops, NULL);
	return 0;
}

int fake_transport_teardown(void **state)
{
	(void)state;
	steer_reset(NULL, NULL);
	plugin_state_reset(NULL, NULL);
	log_set_sink(NULL);
	return fake_transport.opens != fake_transport.closes || fake_transport.connections || fake_transport.listeners;
}

static int fake_open(const struct params *params, struct transport **ret)
{
	(void)params;
	errno = EXDEV;
	if (fake_transport.open_error < 0)
		return fake_transport.open_error;
	fake_transport.opens++;
	fake_transport.total_count = fake_transport.physical_count;
	*ret = &the_transport;
	return 0;
}

static void fake_close(struct transport *transport)
{
	(void)transport;
	fake_transport.closes++;
	errno = EXDEV;
}

static int fake_device_count(struct transport *transport)
{
	(void)transport;
	return fake_transport.total_count;
}

static int fake_device_properties(struct transport *transport, int device, struct transport_properties *ret)
{
	(void)transport;
	if (device < 0 || device >= fake_transport.total_count)
		return -EINVAL;
	*ret = fake_transport.devices[device];
	return 0;
}

static int fake_device_join(struct transport *transport, int count, const int *members, int *ret_device)
{
	struct transport_properties *joined = &fake_transport.devices[fake_transport.total_count];

	(void)transport;
	for (int i = fake_transport.physical_count; i < fake_transport.total_count; i++) {
		const struct transport_properties *old = &fake_transport.devices[i];

		if (old->member_count == count && memcmp(old->members, members, sizeof(int) * (size_t)count) == 0) {
			*ret_device = i;
			return 0;
		}
	}
	*joined = fake_transport.devices[members[0]];
	joined->name = "joined";
	joined->member_count = count;
	memset(joined->members, 0, sizeof(joined->members));
	memcpy(joined->members, members, sizeof(int) * (size_t)count);
	*ret_device = fake_transport.total_count++;
	return 0;
}

static int fake_listen(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
		       struct transport_listener **ret)
{
	struct transport_listener *listener;
	int slot = 0;

	(void)transport;
	errno = EXDEV;
	if (fake_transport.listen_error < 0)
		return fake_transport.listen_error;
	if (device < 0 || device >= fake_transport.total_count)
		return -EINVAL;
	while (slot < FAKE_LISTENERS_MAX && listeners[slot])
		slot++;
	listener = slot < FAKE_LISTENERS_MAX ? calloc(1, sizeof(*listener)) : NULL;
	if (!listener)
		return -ENOMEM;
	listener->slot = slot;
	listeners[slot] = listener;
	memset(handle, 0, TRANSPORT_HANDLE_BYTES);
	handle[0] = (uint8_t)slot;
	fake_transport.listeners++;
	*ret = listener;
	return 0;
}

/* The first step only leaves its mark in the handle. */
static int fake_connect(struct transport *transport, int device, int traffic_class,
			uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	struct transport_listener *listener = listeners[handle[0]];
	struct transport_connection *connection;

	(void)transport;
	errno = EXDEV;
	if (device < 0 || device >= fake_transport.total_count)
		return -EINVAL;
	fake_transport.last_traffic_class = traffic_class;
	*ret = NULL;
	if (!handle[1] || listener->waiting) {
		handle[1] = 1;
		return 0;
	}
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	fake_transport.connections++;
	listener->waiting = connection;
	*ret = connection;
	return 0;
}

static int fake_accept(struct transport_listener *listener, struct transport_connection **ret)
{
	struct transport_connection *connection;

	errno = EXDEV;
	*ret = NULL;
	if (!listener->waiting)
		return 0;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	fake_transport.connections++;
	connection->peer = listener->waiting;
	connection->peer->peer = connection;
	listener->waiting = NULL;
	*ret = connection;
	return 0;
}

static int fake_register(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			 void **ret_registration)
{
	(void)connection;
	fake_transport.last_registered_bytes = bytes;
	fake_transport.last_registered_memory = memory;
	if (memory != TRANSPORT_MEMORY_HOST)
		return -EOPNOTSUPP;
	*ret_registration = data;
	return 0;
}

static int fake_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
				uint64_t offset, int fd, void **ret_registration)
{
	(void)connection;
	(void)data;
	(void)bytes;
	(void)memory;
	(void)offset;
	(void)fd;
	(void)ret_registration;
	return -EOPNOTSUPP;
}

static int fake_deregister(struct transport_connection *connection, void *registration)
{
	(void)connection;
	(void)registration;
	return 0;
}

static struct transport_request *request_new(struct transport_connection *connection)
{
	for (int i = 0; i < TRANSPORT_MAX_REQUESTS; i++) {
		if (!connection->requests[i].connection) {
			memset(&connection->requests[i], 0, sizeof(connection->requests[i]));
			connection->requests[i].connection = connection;
			return &connection->requests[i];
		}
	}
	return NULL;
}

static int fake_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		     struct transport_request **ret)
{
	struct transport_request *request, *receive;

	(void)registration;
	errno = EXDEV;
	*ret = NULL;
	for (int i = 0; connection->peer && i < TRANSPORT_MAX_REQUESTS; i++) {
		receive = &connection->peer->requests[i];
		for (int k = 0; receive->connection && k < receive->count; k++) {
			if (receive->arrived[k] || receive->tags[k] != tag)
				continue;
			if (bytes > receive->bytes[k])
				return -EMSGSIZE;
			request = request_new(connection);
			if (!request)
				return 0;
			if (bytes <= COPIED_BYTES_MAX)
				memcpy(receive->data[k], data, bytes);
			receive->got[k] = bytes;
			receive->arrived[k] = true;
			request->is_send = true;
			request->count = 1;
			request->got[0] = bytes;
			request->arrived[0] = true;
			*ret = request;
			return 0;
		}
	}
	return connection->peer ? 0 : -EREMOTEIO;
}

static int fake_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			const int *tags, void *const *registrations, struct transport_request **ret)
{
	struct transport_request *request;

	(void)registrations;
	errno = EXDEV;
	if (!connection->peer)
		return -EREMOTEIO;
	request = request_new(connection);
	*ret = request;
	if (!request)
		return 0;
	request->count = count;
	for (int i = 0; i < count; i++) {
		request->data[i] = data[i];
		request->bytes[i] = bytes[i];
		request->tags[i] = tags[i];
	}
	return 0;
}

static int fake_flush(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		      void *const *registrations, struct transport_request **ret)
{
	(void)connection;
	(void)count;
	(void)data;
	(void)bytes;
	(void)registrations;
	*ret = NULL;
	return 0;
}

static int fake_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	bool is_done = true;

	errno = EXDEV;
	if (fake_transport.test_error < 0)
		return fake_transport.test_error;
	for (int i = 0; i < request->count; i++)
		is_done = is_done && request->arrived[i];
	*ret_done = is_done;
	if (!is_done)
		return 0;
	for (int i = 0; sizes && i < request->count; i++)
		sizes[i] = request->got[i];
	request->connection = NULL;
	return 0;
}

/* Nobody sleeps over it. */
static int fake_watch(struct transport_connection *connection, int epoll_fd, uint64_t key)
{
	(void)connection;
	(void)epoll_fd;
	(void)key;
	return 0;
}

static void fake_close_connection(struct transport_connection *connection)
{
	errno = EXDEV;
	if (!connection)
		return;
	for (int i = 0; i < FAKE_LISTENERS_MAX; i++) {
		if (listeners[i] && listeners[i]->waiting == connection)
			listeners[i]->waiting = NULL;
	}
	if (connection->peer)
		connection->peer->peer = NULL;
	free(connection);
	fake_transport.connections--;
}

static void fake_close_listener(struct transport_listener *listener)
{
	errno = EXDEV;
	listeners[listener->slot] = NULL;
	free(listener);
	fake_transport.listeners--;
}

const struct transport_ops fake_transport_ops = {
	.name = "fake",
	.open = fake_open,
	.close = fake_close,
	.device_count = fake_device_count,
	.device_properties = fake_device_properties,
	.device_join = fake_device_join,
	.listen = fake_listen,
	.connect = fake_connect,
	.accept = fake_accept,
	.memory_register = fake_register,
	.memory_register_dmabuf = fake_register_dmabuf,
	.memory_deregister = fake_deregister,
	.send = fake_send,
	.receive = fake_receive,
	.flush = fake_flush,
	.test = fake_test,
	.watch = fake_watch,
	.close_connection = fake_close_connection,
	.close_listener = fake_close_listener,
};
