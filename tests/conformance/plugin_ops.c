/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin_ops.h"

#include "support/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct transport {
	struct netplugin *plugin;
	struct netplugin_context *context;
};

struct transport_listener {
	struct netplugin *plugin;
	void *listener;
};

struct transport_connection {
	struct netplugin *plugin;
	void *comm;
	bool sends;
};

static int chosen_version;
static struct netplugin *plugin_now; /* a request does not lead to its plugin; the tables of all opens are the same */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct plugin_ops_log log_now;
static unsigned lines_written;
#define LINES_WRITTEN 30

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	unsigned written;
	int saved = errno;
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&log_lock);
	log_now.lines++;
	if (level <= 2) {
		log_now.warnings++;
		memcpy(log_now.last_warning, text, sizeof(text));
	}
	written = ++lines_written;
	pthread_mutex_unlock(&log_lock);
	if (written > LINES_WRITTEN)
		goto out; /* hundreds of connections are broken on purpose */
	netplugin_log(level, flags, file, line, "%s%s", text,
		      written == LINES_WRITTEN ? " (and no more lines here)" : "");
out:
	errno = saved;
}

void plugin_ops_log_take(struct plugin_ops_log *ret)
{
	pthread_mutex_lock(&log_lock);
	*ret = log_now;
	memset(&log_now, 0, sizeof(log_now));
	pthread_mutex_unlock(&log_lock);
}

const char *plugin_ops_path(void)
{
	const char *path = runtime_setting("PLUGIN");

	return path ? path : "build/lib/libnccl-net-tributary.so";
}

void plugin_ops_choose(int version)
{
	chosen_version = version;
}

bool plugin_ops_has(int version)
{
	struct netplugin *plugin;
	bool has;

	if (netplugin_open(plugin_ops_path(), 0, &plugin) < 0)
		return false;
	has = netplugin_has(plugin, version);
	netplugin_close(plugin);
	return has;
}

struct netplugin *plugin_ops_plugin(struct transport *transport)
{
	return transport->plugin;
}

void *plugin_ops_comm(struct transport_connection *connection)
{
	return connection->comm;
}

#define ERRNO_MARK 3333 /* no errno has this value */

static void mark_errno(void)
{
	errno = ERRNO_MARK;
}

/* The plugin lives in a process of others: no call may change errno. Ends the program, whichever case it was. */
static int errno_of(int result)
{
	if (errno != ERRNO_MARK) {
		runtime_complain(EIO, "the plugin changed errno to %d (%s)", errno, strerror(errno));
		_exit(1);
	}
	switch (result) {
	case NCCL_SUCCESS:
		return 0;
	case NCCL_REMOTE_ERROR:
		return -EREMOTEIO;
	case NCCL_INVALID_ARGUMENT:
	case NCCL_INVALID_USAGE:
		return -EINVAL;
	case NCCL_SYSTEM_ERROR:
		return -EIO;
	default:
		return -ENOTRECOVERABLE;
	}
}

static void ops_close(struct transport *transport)
{
	if (!transport)
		return;
	if (transport->context && netplugin_finalize(transport->context) != NCCL_SUCCESS)
		runtime_complain(EIO, "finalize failed");
	netplugin_close(transport->plugin);
	free(transport);
}

static int ops_open(const struct params *params, struct transport **ret)
{
	struct transport *transport = calloc(1, sizeof(*transport));
	int r;

	(void)params; /* the plugin reads its environment */
	if (!transport)
		return -ENOMEM;
	r = netplugin_open(plugin_ops_path(), chosen_version, &transport->plugin);
	if (r == 0)
		r = errno_of(
			(mark_errno(), netplugin_init(transport->plugin, 0x1234, -1, log_line, &transport->context)));
	if (r < 0) {
		ops_close(transport);
		return r;
	}
	plugin_now = transport->plugin;
	*ret = transport;
	return 0;
}

static int ops_device_count(struct transport *transport)
{
	int count = 0, r = errno_of((mark_errno(), netplugin_devices(transport->plugin, &count)));

	return r < 0 ? r : count;
}

static int ops_device_properties(struct transport *transport, int device, struct transport_properties *ret)
{
	struct netplugin_properties properties;
	int r = errno_of((mark_errno(), netplugin_properties(transport->plugin, device, &properties)));

	if (r < 0)
		return r;
	*ret = (struct transport_properties){
		.name = properties.name,
		.pci_path = properties.pci_path,
		.guid = properties.guid,
		.memory = (unsigned)properties.ptr_support,
		.registration_is_global = properties.registration_is_global,
		.force_flush = properties.force_flush,
		.speed_Bps = (uint64_t)properties.speed_Mbps * 125000,
		.latency_ns = (uint64_t)((double)properties.latency_us * 1000.0),
		.port = properties.port,
		.max_connections = properties.max_comms,
		.max_recvs = properties.max_recvs,
		.max_message_bytes = properties.max_p2p_bytes ? properties.max_p2p_bytes : INT32_MAX,
		.rail = properties.rail,
		.plane = properties.plane,
		.member_count = properties.member_count ? properties.member_count : 1,
	};
	return 0;
}

static int ops_device_join(struct transport *transport, int count, const int *members, int *ret_device)
{
	return errno_of((mark_errno(), netplugin_make_vdevice(transport->plugin, count, members, ret_device)));
}

static int ops_listen(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
		      struct transport_listener **ret)
{
	struct transport_listener *listener = calloc(1, sizeof(*listener));
	int r;

	if (!listener)
		return -ENOMEM;
	listener->plugin = transport->plugin;
	r = errno_of((mark_errno(), netplugin_listen(transport->context, device, handle, &listener->listener)));
	if (r < 0) {
		free(listener);
		return r;
	}
	*ret = listener;
	return 0;
}

static int wrap(struct netplugin *plugin, void *comm, bool sends, struct transport_connection **ret)
{
	struct transport_connection *connection;

	if (!comm)
		return 0;
	connection = calloc(1, sizeof(*connection));
	if (!connection)
		return -ENOMEM;
	connection->plugin = plugin;
	connection->comm = comm;
	connection->sends = sends;
	*ret = connection;
	return 0;
}

static int ops_connect(struct transport *transport, int device, int traffic_class,
		       uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	void *comm = NULL;
	int r = errno_of((mark_errno(), netplugin_connect(transport->context, device, handle, &comm)));

	(void)traffic_class; /* of the context */
	return r < 0 ? r : wrap(transport->plugin, comm, true, ret);
}

static int ops_accept(struct transport_listener *listener, struct transport_connection **ret)
{
	void *comm = NULL;
	int r = errno_of((mark_errno(), netplugin_accept(listener->plugin, listener->listener, &comm)));

	return r < 0 ? r : wrap(listener->plugin, comm, false, ret);
}

static int ops_register(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			void **ret_registration)
{
	return errno_of((mark_errno(), netplugin_reg(connection->plugin, connection->comm, data, bytes, (int)memory,
						     ret_registration)));
}

static int ops_register_dmabuf(struct transport_connection *connection, void *data, size_t bytes, unsigned memory,
			       uint64_t offset, int fd, void **ret_registration)
{
	return errno_of((mark_errno(), netplugin_reg_dmabuf(connection->plugin, connection->comm, data, bytes,
							    (int)memory, offset, fd, ret_registration)));
}

static int ops_deregister(struct transport_connection *connection, void *registration)
{
	return errno_of((mark_errno(), netplugin_dereg(connection->plugin, connection->comm, registration)));
}

static int ops_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		    struct transport_request **ret)
{
	void *request = NULL;
	int r = errno_of((mark_errno(), netplugin_send(connection->plugin, connection->comm, data, bytes, tag,
						       registration, &request)));

	if (r == 0)
		*ret = request;
	return r;
}

static int ops_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		       const int *tags, void *const *registrations, struct transport_request **ret)
{
	void *request = NULL;
	int r = errno_of((mark_errno(), netplugin_receive(connection->plugin, connection->comm, count, data, bytes,
							  tags, registrations, &request)));

	if (r == 0)
		*ret = request;
	return r;
}

static int ops_flush(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
		     void *const *registrations, struct transport_request **ret)
{
	void *request = NULL;
	int r = errno_of((mark_errno(), netplugin_flush(connection->plugin, connection->comm, count, data, bytes,
							registrations, &request)));

	if (r == 0)
		*ret = request;
	return r;
}

static int ops_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	int narrow[TRANSPORT_MAX_RECVS] = { 0 }, done = 0;
	int r = errno_of((mark_errno(), netplugin_test(plugin_now, request, &done, narrow)));

	if (r < 0)
		return r;
	if (done && sizes)
		for (int i = 0; i < TRANSPORT_MAX_RECVS; i++)
			sizes[i] = (size_t)narrow[i];
	*ret_done = done;
	return 0;
}

static void ops_close_connection(struct transport_connection *connection)
{
	int r;

	if (!connection)
		return;
	if (connection->sends)
		r = netplugin_close_send(connection->plugin, connection->comm);
	else
		r = netplugin_close_recv(connection->plugin, connection->comm);
	if (r != NCCL_SUCCESS)
		runtime_complain(EIO, "close gives %d", r);
	free(connection);
}

static void ops_close_listener(struct transport_listener *listener)
{
	if (!listener)
		return;
	if (netplugin_close_listen(listener->plugin, listener->listener) != NCCL_SUCCESS)
		runtime_complain(EIO, "closing the listener failed");
	free(listener);
}

const struct transport_ops plugin_ops = {
	.name = "plugin",
	.open = ops_open,
	.close = ops_close,
	.device_count = ops_device_count,
	.device_properties = ops_device_properties,
	.device_join = ops_device_join,
	.listen = ops_listen,
	.connect = ops_connect,
	.accept = ops_accept,
	.memory_register = ops_register,
	.memory_register_dmabuf = ops_register_dmabuf,
	.memory_deregister = ops_deregister,
	.send = ops_send,
	.receive = ops_receive,
	.flush = ops_flush,
	.test = ops_test,
	.close_connection = ops_close_connection,
	.close_listener = ops_close_listener,
};
