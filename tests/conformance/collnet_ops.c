/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet_ops.h"

#include "plugin_ops.h"
#include "support/runtime.h"

#include "nccl/v10.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "nccl/v6.h"
#include "nccl/v7.h"
#include "nccl/v8.h"
#include "nccl/v9.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ERRNO_MARK 3333 /* no errno has this value */

static int checked(int result)
{
	if (errno != ERRNO_MARK) {
		runtime_complain(EIO, "collnet changed errno to %d (%s)", errno, strerror(errno));
		_exit(1);
	}
	return result;
}

#define MARKED(call) checked((errno = ERRNO_MARK, (int)(call)))

#define TABLE(n) ((const struct nccl_collnet_v##n *)ops->table)
/* A slot of the same type in all versions. */
#define EACH(slot, ...)                                            \
	MARKED(ops->version == 6    ? TABLE(6)->slot(__VA_ARGS__)  \
	       : ops->version == 7  ? TABLE(7)->slot(__VA_ARGS__)  \
	       : ops->version == 8  ? TABLE(8)->slot(__VA_ARGS__)  \
	       : ops->version == 9  ? TABLE(9)->slot(__VA_ARGS__)  \
	       : ops->version == 10 ? TABLE(10)->slot(__VA_ARGS__) \
	       : ops->version == 11 ? TABLE(11)->slot(__VA_ARGS__) \
				    : TABLE(12)->slot(__VA_ARGS__))

static void give_up(const char *what)
{
	runtime_complain(EIO, "%s", what);
	_exit(1);
}

static int init_collnet(struct collnet_ops *ops, uint64_t comm_id)
{
	if (ops->version == 12)
		return MARKED(TABLE(12)->init(&ops->context, comm_id, netplugin_log));
	if (ops->version == 11)
		return MARKED(TABLE(11)->init(&ops->context, comm_id, netplugin_log));
	return ops->version == 6   ? MARKED(TABLE(6)->init(netplugin_log))
	       : ops->version == 7 ? MARKED(TABLE(7)->init(netplugin_log))
	       : ops->version == 8 ? MARKED(TABLE(8)->init(netplugin_log))
	       : ops->version == 9 ? MARKED(TABLE(9)->init(netplugin_log))
				   : MARKED(TABLE(10)->init(netplugin_log));
}

void collnet_ops_open(int version, uint64_t comm_id, struct collnet_ops *ret)
{
	struct collnet_ops ops = { .version = version ? version : COLLNET_NEWEST };
	char symbol[64];
	void *library;

	setenv("NCCL_COLLNET_ENABLE", "1", 0); /* there are no devices without it */
	if (netplugin_open(plugin_ops_path(), ops.version, &ops.net) < 0)
		give_up("the library cannot be loaded");
	library = dlopen(plugin_ops_path(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	snprintf(symbol, sizeof(symbol), "ncclCollNetPlugin_v%d", ops.version);
	ops.table = library ? dlsym(library, symbol) : NULL;
	if (!ops.table)
		give_up(symbol);
	dlclose(library); /* the net plugin holds it */
	if (netplugin_init(ops.net, comm_id, -1, netplugin_log, &ops.net_context) != NCCL_SUCCESS ||
	    init_collnet(&ops, comm_id) != NCCL_SUCCESS)
		give_up("init failed");
	*ret = ops;
}

int collnet_ops_finalize(const struct collnet_ops *ops, void *context)
{
	if (ops->version == 12)
		return MARKED(TABLE(12)->finalize(context));
	if (ops->version == 11)
		return MARKED(TABLE(11)->finalize(context));
	return NCCL_SUCCESS;
}

void collnet_ops_close(struct collnet_ops *ops)
{
	if (collnet_ops_finalize(ops, ops->context) != NCCL_SUCCESS ||
	    netplugin_finalize(ops->net_context) != NCCL_SUCCESS)
		give_up("finalize failed");
	netplugin_close(ops->net);
	memset(ops, 0, sizeof(*ops));
}

const char *collnet_ops_name(const struct collnet_ops *ops)
{
	return *(const char *const *)ops->table; /* the first member in all versions */
}

int collnet_ops_devices(const struct collnet_ops *ops, int *ret_count)
{
	return EACH(devices, ret_count);
}

#define COPY_V6(p)                                 \
	do {                                       \
		ret->name = (p).name;              \
		ret->pci_path = (p).pciPath;       \
		ret->guid = (p).guid;              \
		ret->ptr_support = (p).ptrSupport; \
		ret->speed_Mbps = (p).speed;       \
		ret->port = (p).port;              \
		ret->latency_us = (p).latency;     \
		ret->max_comms = (p).maxComms;     \
		ret->max_recvs = (p).maxRecvs;     \
	} while (0)
#define COPY_V9(p)                                            \
	do {                                                  \
		COPY_V6(p);                                   \
		ret->member_count = (p).vProps.ndevs;         \
		for (int m = 0; m < (p).vProps.ndevs; m++)    \
			ret->members[m] = (p).vProps.devs[m]; \
		ret->max_p2p_bytes = (p).maxP2pBytes;         \
		ret->max_coll_bytes = (p).maxCollBytes;       \
	} while (0)
#define PROPERTIES_OF(n, copy)                                                \
	do {                                                                  \
		struct nccl_net_properties_v##n properties;                   \
		int r = MARKED(TABLE(n)->getProperties(device, &properties)); \
                                                                              \
		if (r == NCCL_SUCCESS)                                        \
			copy(properties);                                     \
		return r;                                                     \
	} while (0)

static int newest_properties(const struct collnet_ops *ops, int device, struct netplugin_properties *ret)
{
	struct nccl_net_properties_v12 properties;
	int r = MARKED(TABLE(12)->getProperties(device, &properties));

	if (r != NCCL_SUCCESS)
		return r;
	COPY_V9(properties);
	ret->max_multi_request_size = properties.maxMultiRequestSize;
	ret->rail = properties.railId;
	ret->plane = properties.planeId;
	return r;
}

int collnet_ops_properties(const struct collnet_ops *ops, int device, struct netplugin_properties *ret)
{
	*ret = (struct netplugin_properties){ .rail = -1, .plane = -1 };
	switch (ops->version) {
	case 6:
		PROPERTIES_OF(6, COPY_V6);
	case 7:
		PROPERTIES_OF(7, COPY_V6);
	case 8:
		PROPERTIES_OF(8, COPY_V6);
	case 9:
		PROPERTIES_OF(9, COPY_V9);
	case 10:
		PROPERTIES_OF(10, COPY_V9);
	case 11:
		PROPERTIES_OF(11, COPY_V9);
	default:
		return newest_properties(ops, device, ret);
	}
}

int collnet_ops_join(const struct collnet_ops *ops, int count, const int *members, int *ret_device)
{
	struct nccl_net_vdevice_v9 old = { .ndevs = count };
	struct nccl_net_vdevice_v12 new = { .ndevs = count };

	for (int i = 0; i < count; i++)
		old.devs[i] = new.devs[i] = members[i];
	switch (ops->version) {
	case 9:
		return MARKED(TABLE(9)->makeVDevice(ret_device, &old));
	case 10:
		return MARKED(TABLE(10)->makeVDevice(ret_device, &old));
	case 11:
		return MARKED(TABLE(11)->makeVDevice(ret_device, &old));
	case 12:
		return MARKED(TABLE(12)->makeVDevice(ret_device, &new));
	default:
		return NCCL_INVALID_USAGE;
	}
}

int collnet_ops_listen(const struct collnet_ops *ops, int device, void *handle, void **ret_listener)
{
	switch (ops->version) {
	case 6:
		return MARKED(TABLE(6)->listen(device, handle, ret_listener));
	case 7:
		return MARKED(TABLE(7)->listen(device, handle, ret_listener));
	case 8:
		return MARKED(TABLE(8)->listen(device, handle, ret_listener));
	case 9:
		return MARKED(TABLE(9)->listen(device, handle, ret_listener));
	case 10:
		return MARKED(TABLE(10)->listen(device, handle, ret_listener));
	case 11:
		return MARKED(TABLE(11)->listen(ops->context, device, handle, ret_listener));
	default:
		return MARKED(TABLE(12)->listen(ops->context, device, handle, ret_listener));
	}
}

int collnet_ops_connect(const struct collnet_ops *ops, void **handles, int nranks, int rank, void *listener,
			void **ret_group)
{
	return EACH(connect, handles, nranks, rank, listener, ret_group);
}

int collnet_ops_support(const struct collnet_ops *ops, int type, int operation, int *ret_supported)
{
	return EACH(reduceSupport, (enum nccl_datatype)type, (enum nccl_redop)operation, ret_supported);
}

int collnet_ops_register(const struct collnet_ops *ops, void *group, void *data, size_t bytes, int memory, void **ret)
{
	if (ops->version < 8 && bytes > INT_MAX)
		return NCCL_INVALID_ARGUMENT;
	switch (ops->version) {
	case 6:
		return MARKED(TABLE(6)->regMr(group, data, (int)bytes, memory, ret));
	case 7:
		return MARKED(TABLE(7)->regMr(group, data, (int)bytes, memory, ret));
	case 8:
		return MARKED(TABLE(8)->regMr(group, data, bytes, memory, ret));
	case 9:
		return MARKED(TABLE(9)->regMr(group, data, bytes, memory, ret));
	case 10:
		return MARKED(TABLE(10)->regMr(group, data, bytes, memory, ret));
	case 11:
		return MARKED(TABLE(11)->regMr(group, data, bytes, memory, ret));
	default:
		return MARKED(TABLE(12)->regMr(group, data, bytes, memory, ret));
	}
}

int collnet_ops_register_dmabuf(const struct collnet_ops *ops, void *group, void *data, size_t bytes, void **ret)
{
	return EACH(regMrDmaBuf, group, data, bytes, NCCL_POINTER_CUDA, 0, -1, ret);
}

int collnet_ops_deregister(const struct collnet_ops *ops, void *group, void *registration)
{
	return EACH(deregMr, group, registration);
}

int collnet_ops_reduce(const struct collnet_ops *ops, void *group, void *send, void *recv, size_t count, int type,
		       int operation, void *registration, void **ret_request)
{
	enum nccl_datatype t = (enum nccl_datatype)type;
	enum nccl_redop o = (enum nccl_redop)operation;

	*ret_request = NULL;
	switch (ops->version) {
	case 6:
		return MARKED(TABLE(6)->iallreduce(group, send, recv, (int)count, t, o, registration, registration,
						   ret_request));
	case 7:
		return MARKED(TABLE(7)->iallreduce(group, send, recv, (int)count, t, o, registration, registration,
						   ret_request));
	case 8:
		return MARKED(TABLE(8)->iallreduce(group, send, recv, (int)count, t, o, registration, registration,
						   ret_request));
	case 9:
		return MARKED(
			TABLE(9)->iallreduce(group, send, recv, count, t, o, registration, registration, ret_request));
	case 10:
		return MARKED(
			TABLE(10)->iallreduce(group, send, recv, count, t, o, registration, registration, ret_request));
	case 11:
		return MARKED(
			TABLE(11)->iallreduce(group, send, recv, count, t, o, registration, registration, ret_request));
	default:
		return MARKED(
			TABLE(12)->iallreduce(group, send, recv, count, t, o, registration, registration, ret_request));
	}
}

bool collnet_ops_only_reduces(const struct collnet_ops *ops)
{
	switch (ops->version) {
	case 8:
		return !TABLE(8)->iallgather && !TABLE(8)->ireducescatter;
	case 9:
		return !TABLE(9)->iallgather && !TABLE(9)->ireducescatter;
	case 10:
		return !TABLE(10)->iallgather && !TABLE(10)->ireducescatter;
	case 11:
		return !TABLE(11)->iallgather && !TABLE(11)->ireducescatter;
	case 12:
		return !TABLE(12)->iallgather && !TABLE(12)->ireducescatter;
	default:
		return ops->version < 8;
	}
}

int collnet_ops_flush(const struct collnet_ops *ops, void *group, void *data, int bytes, void *registration,
		      void **ret_request)
{
	return EACH(iflush, group, data, bytes, registration, ret_request);
}

int collnet_ops_test(const struct collnet_ops *ops, void *request, int *ret_done, int *ret_bytes)
{
	return EACH(test, request, ret_done, ret_bytes);
}

int collnet_ops_close_group(const struct collnet_ops *ops, void *group)
{
	return EACH(closeColl, group);
}

int collnet_ops_close_listener(const struct collnet_ops *ops, void *listener)
{
	return EACH(closeListen, listener);
}
