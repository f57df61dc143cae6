/* SPDX-License-Identifier: Apache-2.0 */
#include "netplugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netplugin_table.h"

/* ---- log ---- */

static int log_threshold(void)
{
	const char *text = getenv("NETPLUGIN_DEBUG");

	if (text && !strcmp(text, "TRACE"))
		return NCCL_LEVEL_TRACE;
	if (text && !strcmp(text, "INFO"))
		return NCCL_LEVEL_INFO;
	return NCCL_LEVEL_WARN;
}

void netplugin_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	char text[1024];
	int saved = errno, at, more;
	va_list args;

	(void)flags;
	if (level > log_threshold() || level <= NCCL_LEVEL_NONE)
		goto out;
	at = snprintf(text, sizeof(text), "[%d] %s ", (int)getpid(), level <= NCCL_LEVEL_WARN ? "WARN" : "INFO");
	va_start(args, fmt);
	more = vsnprintf(text + at, sizeof(text) - (size_t)at - 1, fmt, args);
	va_end(args);
	if (more < 0)
		goto out;
	at = (int)strlen(text);
	if (level <= NCCL_LEVEL_WARN && file)
		at += snprintf(text + at, sizeof(text) - (size_t)at, " (%s:%d)", file, line);
	if (at > (int)sizeof(text) - 2)
		at = (int)sizeof(text) - 2;
	text[at] = '\n'; /* one write for a line, so that lines of several processes do not mix */
	if (write(STDERR_FILENO, text, (size_t)at + 1) < 0)
		errno = 0;
out:
	errno = saved;
}

/* ---- open, close ---- */

static bool is_path(const char *name)
{
	size_t length = strlen(name);

	return strchr(name, '/') || (length > 3 && !strcmp(name + length - 3, ".so"));
}

static const void *find_table(void *library, int version)
{
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
	return dlsym(library, symbol);
}

static int choose_table(struct netplugin *plugin, int version)
{
	int from = version ? version : NETPLUGIN_NEWEST, to = version ? version : NETPLUGIN_OLDEST, v;

	for (v = from; v >= to; v--) {
		const void *table = find_table(plugin->library, v);

		if (table) {
			netplugin_table_adopt(plugin, v, table);
			return 0;
		}
	}
	return -ENOENT;
}

int netplugin_open(const char *name, int version, struct netplugin **ret_plugin)
{
	struct netplugin *plugin;
	char file[PATH_MAX];
	int r;

	if (!name || !*name || (version && (version < NETPLUGIN_OLDEST || version > NETPLUGIN_NEWEST))) {
		fprintf(stderr, "a net plugin has a name and a version from %d to %d\n", NETPLUGIN_OLDEST,
			NETPLUGIN_NEWEST);
		return -EINVAL;
	}
	plugin = calloc(1, sizeof(*plugin));
	if (!plugin)
		return -ENOMEM;
	r = snprintf(file, sizeof(file), is_path(name) ? "%s" : "libnccl-net-%s.so", name);
	if (r < 0 || (size_t)r >= sizeof(file)) {
		r = -ENAMETOOLONG;
		goto fail;
	}
	plugin->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!plugin->library) {
		fprintf(stderr, "cannot load %s: %s\n", file, dlerror());
		r = -ENOENT;
		goto fail;
	}
	r = choose_table(plugin, version);
	if (r < 0) {
		if (version)
			fprintf(stderr, "%s has no ncclNetPlugin_v%d\n", file, version);
		else
			fprintf(stderr, "%s has no ncclNetPlugin_v%d to _v%d\n", file, NETPLUGIN_OLDEST,
				NETPLUGIN_NEWEST);
		goto fail;
	}
	*ret_plugin = plugin;
	return 0;
fail:
	netplugin_close(plugin);
	return r;
}

void netplugin_close(struct netplugin *plugin)
{
	if (!plugin)
		return;
	if (plugin->library)
		dlclose(plugin->library);
	free(plugin);
}

int netplugin_version(const struct netplugin *plugin)
{
	return plugin->version;
}

const char *netplugin_name(const struct netplugin *plugin)
{
	return plugin->name;
}

const void *netplugin_table(const struct netplugin *plugin)
{
	return plugin->table;
}

bool netplugin_has(const struct netplugin *plugin, int version)
{
	return version >= NETPLUGIN_OLDEST && version <= NETPLUGIN_NEWEST && find_table(plugin->library, version);
}

/* ---- contexts ---- */

static int call_init(struct netplugin *plugin, struct netplugin_context *context, uint64_t comm_id,
		     nccl_debug_logger *logger)
{
	int r = NCCL_SUCCESS;

	if (plugin->init_v11)
		return (int)plugin->init_v11(&context->inner, comm_id, &context->config, logger, NULL);
	if (plugin->initialised)
		return NCCL_SUCCESS;
	r = plugin->init_v10 ? (int)plugin->init_v10(logger, NULL) : (int)plugin->init_v6(logger);
	plugin->initialised = r == NCCL_SUCCESS;
	return r;
}

int netplugin_init(struct netplugin *plugin, uint64_t comm_id, int traffic_class, nccl_debug_logger *logger,
		   struct netplugin_context **ret_context)
{
	struct netplugin_context *context = calloc(1, sizeof(*context));
	int r;

	if (!context)
		return NCCL_SYSTEM_ERROR;
	context->plugin = plugin;
	context->config.trafficClass = traffic_class;
	r = call_init(plugin, context, comm_id, logger ? logger : netplugin_log);
	if (r != NCCL_SUCCESS) {
		free(context);
		return r;
	}
	*ret_context = context;
	return NCCL_SUCCESS;
}

int netplugin_finalize(struct netplugin_context *context)
{
	int r = NCCL_SUCCESS;

	if (!context)
		return NCCL_SUCCESS;
	if (context->plugin->finalize)
		r = (int)context->plugin->finalize(context->inner);
	free(context);
	return r;
}

/* ---- devices ---- */

int netplugin_devices(struct netplugin *plugin, int *ret_count)
{
	return (int)plugin->devices(ret_count);
}

int netplugin_properties(struct netplugin *plugin, int device, struct netplugin_properties *ret_properties)
{
	return netplugin_table_properties(plugin, device, ret_properties);
}

int netplugin_make_vdevice(struct netplugin *plugin, int count, const int *members, int *ret_device)
{
	struct nccl_net_vdevice_v9 few = { .ndevs = count };
	struct nccl_net_vdevice_v12 many = { .ndevs = count };

	if (count < 0)
		return NCCL_INVALID_ARGUMENT;
	if (plugin->make_vdevice_v12 && count <= NCCL_VDEVICE_MEMBERS_V12) {
		memcpy(many.devs, members, (size_t)count * sizeof(*members));
		return (int)plugin->make_vdevice_v12(ret_device, &many);
	}
	if (plugin->make_vdevice_v9 && count <= NCCL_VDEVICE_MEMBERS_V9) {
		memcpy(few.devs, members, (size_t)count * sizeof(*members));
		return (int)plugin->make_vdevice_v9(ret_device, &few);
	}
	return NCCL_INVALID_USAGE;
}

/* ---- connections ---- */

int netplugin_listen(struct netplugin_context *context, int device, void *handle, void **ret_listener)
{
	struct netplugin *plugin = context->plugin;

	if (plugin->listen_v11)
		return (int)plugin->listen_v11(context->inner, device, handle, ret_listener);
	return (int)plugin->listen_v6(device, handle, ret_listener);
}

int netplugin_connect(struct netplugin_context *context, int device, void *handle, void **ret_comm)
{
	struct netplugin *plugin = context->plugin;
	struct nccl_net_device_handle *device_handle = NULL;
	void *comm = NULL;
	int r;

	if (plugin->connect_v11)
		r = (int)plugin->connect_v11(context->inner, device, handle, &comm, &device_handle);
	else if (plugin->connect_v10)
		r = (int)plugin->connect_v10(device, &context->config, handle, &comm, &device_handle);
	else if (plugin->connect_v7)
		r = (int)plugin->connect_v7(device, handle, &comm, &device_handle);
	else
		r = (int)plugin->connect_v6(device, handle, &comm);
	if (r == NCCL_SUCCESS)
		*ret_comm = comm;
	return r;
}

int netplugin_accept(struct netplugin *plugin, void *listener, void **ret_comm)
{
	struct nccl_net_device_handle *device_handle = NULL;
	void *comm = NULL;
	int r;

	if (plugin->accept_v7)
		r = (int)plugin->accept_v7(listener, &comm, &device_handle);
	else
		r = (int)plugin->accept_v6(listener, &comm);
	if (r == NCCL_SUCCESS)
		*ret_comm = comm;
	return r;
}

/* ---- memory ---- */

static int too_large(const struct netplugin *plugin, const char *what, size_t bytes)
{
	netplugin_log(NCCL_LEVEL_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "%s of %zu bytes: version %d has only int",
		      what, bytes, plugin->version);
	return NCCL_INVALID_ARGUMENT;
}

int netplugin_reg(struct netplugin *plugin, void *comm, void *data, size_t bytes, int type, void **ret_mhandle)
{
	if (plugin->reg_v8)
		return (int)plugin->reg_v8(comm, data, bytes, type, ret_mhandle);
	if (bytes > INT_MAX)
		return too_large(plugin, "registration", bytes);
	return (int)plugin->reg_v6(comm, data, (int)bytes, type, ret_mhandle);
}

int netplugin_reg_dmabuf(struct netplugin *plugin, void *comm, void *data, size_t bytes, int type, uint64_t offset,
			 int fd, void **ret_mhandle)
{
	if (!plugin->reg_dmabuf)
		return NCCL_INVALID_USAGE;
	return (int)plugin->reg_dmabuf(comm, data, bytes, type, offset, fd, ret_mhandle);
}

int netplugin_dereg(struct netplugin *plugin, void *comm, void *mhandle)
{
	return (int)plugin->dereg(comm, mhandle);
}

/* ---- data ---- */

int netplugin_send(struct netplugin *plugin, void *comm, void *data, size_t bytes, int tag, void *mhandle,
		   void **ret_request)
{
	void *request = NULL;
	int r;

	if (plugin->send_v10) {
		r = (int)plugin->send_v10(comm, data, bytes, tag, mhandle, NULL, &request);
	} else if (plugin->send_v9) {
		r = (int)plugin->send_v9(comm, data, bytes, tag, mhandle, &request);
	} else {
		if (bytes > INT_MAX)
			return too_large(plugin, "send", bytes);
		r = (int)plugin->send_v6(comm, data, (int)bytes, tag, mhandle, &request);
	}
	if (r == NCCL_SUCCESS)
		*ret_request = request;
	return r;
}

static int receive_sized(struct netplugin *plugin, void *comm, int count, void **data, const size_t *bytes, int *tags,
			 void **mhandles, void **request)
{
	void *profiler[NETPLUGIN_MAX_RECVS] = { NULL };
	size_t sizes[NETPLUGIN_MAX_RECVS] = { 0 };

	memcpy(sizes, bytes, (size_t)count * sizeof(*bytes));
	if (plugin->receive_v10)
		return (int)plugin->receive_v10(comm, count, data, sizes, tags, mhandles, profiler, request);
	return (int)plugin->receive_v9(comm, count, data, sizes, tags, mhandles, request);
}

int netplugin_receive(struct netplugin *plugin, void *comm, int count, void *const *data, const size_t *bytes,
		      const int *tags, void *const *mhandles, void **ret_request)
{
	void *pointers[NETPLUGIN_MAX_RECVS] = { NULL }, *handles[NETPLUGIN_MAX_RECVS] = { NULL };
	int small[NETPLUGIN_MAX_RECVS] = { 0 }, marks[NETPLUGIN_MAX_RECVS] = { 0 }, i, r;
	void *request = NULL;

	if (count < 0 || count > NETPLUGIN_MAX_RECVS)
		return NCCL_INVALID_ARGUMENT;
	for (i = 0; i < count; i++) { /* NCCL's own arrays are not const */
		pointers[i] = data[i];
		handles[i] = mhandles[i];
		marks[i] = tags[i];
	}
	if (!plugin->receive_v6) {
		r = receive_sized(plugin, comm, count, pointers, bytes, marks, handles, &request);
	} else {
		for (i = 0; i < count; i++) {
			if (bytes[i] > INT_MAX)
				return too_large(plugin, "receive", bytes[i]);
			small[i] = (int)bytes[i];
		}
		r = (int)plugin->receive_v6(comm, count, pointers, small, marks, handles, &request);
	}
	if (r == NCCL_SUCCESS)
		*ret_request = request;
	return r;
}

int netplugin_flush(struct netplugin *plugin, void *comm, int count, void *const *data, const size_t *bytes,
		    void *const *mhandles, void **ret_request)
{
	void *pointers[NETPLUGIN_MAX_RECVS] = { NULL }, *handles[NETPLUGIN_MAX_RECVS] = { NULL };
	int small[NETPLUGIN_MAX_RECVS] = { 0 }, i, r;
	void *request = NULL;

	if (count < 0 || count > NETPLUGIN_MAX_RECVS)
		return NCCL_INVALID_ARGUMENT;
	for (i = 0; i < count; i++) {
		pointers[i] = data[i];
		handles[i] = mhandles[i];
		small[i] = bytes[i] > INT_MAX ? INT_MAX : (int)bytes[i];
	}
	r = (int)plugin->flush(comm, count, pointers, small, handles, &request);
	if (r == NCCL_SUCCESS)
		*ret_request = request;
	return r;
}

int netplugin_test(struct netplugin *plugin, void *request, int *ret_done, int *sizes)
{
	return (int)plugin->test(request, ret_done, sizes);
}

int netplugin_close_send(struct netplugin *plugin, void *comm)
{
	return (int)plugin->close_send(comm);
}

int netplugin_close_recv(struct netplugin *plugin, void *comm)
{
	return (int)plugin->close_recv(comm);
}

int netplugin_close_listen(struct netplugin *plugin, void *listener)
{
	return (int)plugin->close_listen(listener);
}
