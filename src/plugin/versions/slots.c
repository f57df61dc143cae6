/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/slots.h"

#include "base/log.h"
#include "plugin/net.h"
#include "plugin/result.h"
#include "transport/transport.h"

#include <errno.h>

enum nccl_result plugin_slot_init_11(void **ret_context, uint64_t comm_id, struct nccl_net_comm_config *config,
				     nccl_debug_logger *logger, nccl_profiler_callback *profiler)
{
	(void)profiler;
	return plugin_net_init(comm_id, config ? config->trafficClass : PLUGIN_NET_NO_TRAFFIC_CLASS, logger,
			       ret_context);
}

enum nccl_result plugin_slot_set_attr_11(void *context, struct nccl_net_attr *attr)
{
	(void)context;
	(void)attr;
	return plugin_net_check();
}

enum nccl_result plugin_slot_listen_11(void *context, int device, void *handle, void **ret_listen_comm)
{
	(void)context;
	return plugin_net_listen(device, handle, ret_listen_comm);
}

enum nccl_result plugin_slot_connect_7_9(int device, void *handle, void **ret_send_comm,
					 struct nccl_net_device_handle **ret_device_handle)
{
	(void)ret_device_handle;
	return plugin_net_connect(device, PLUGIN_NET_NO_TRAFFIC_CLASS, handle, ret_send_comm);
}

enum nccl_result plugin_slot_connect_11(void *context, int device, void *handle, void **ret_send_comm,
					struct nccl_net_device_handle **ret_device_handle)
{
	const struct plugin_net_context *communicator = context;

	(void)ret_device_handle;
	return plugin_net_connect(device, communicator ? communicator->traffic_class : PLUGIN_NET_NO_TRAFFIC_CLASS,
				  handle, ret_send_comm);
}

enum nccl_result plugin_slot_accept_7(void *listen_comm, void **ret_recv_comm,
				      struct nccl_net_device_handle **ret_device_handle)
{
	(void)ret_device_handle;
	return plugin_net_accept(listen_comm, ret_recv_comm);
}

/* A size that NCCL gives as int. Negative is what a longer one becomes when it is cut. */
static int size_from_int(int size, size_t *ret)
{
	if (size < 0) {
		log_warn("A size of %d bytes: NCCL's interface of this version holds sizes below 2 GiB only", size);
		return -EINVAL;
	}
	*ret = (size_t)size;
	return 0;
}

static int sizes_from_int(int n, const int *sizes, size_t ret[static TRANSPORT_MAX_RECVS])
{
	int r;

	if (n < 1 || n > TRANSPORT_MAX_RECVS) {
		log_warn("A group of %d receives, where 1 to %d are possible", n, TRANSPORT_MAX_RECVS);
		return -EINVAL;
	}
	for (int i = 0; i < n; i++) {
		r = size_from_int(sizes[i], &ret[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

enum nccl_result plugin_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle)
{
	size_t bytes;
	int r = size_from_int(size, &bytes);

	return r < 0 ? plugin_result(r) : plugin_net_register(comm, data, bytes, type, ret_mhandle);
}

enum nccl_result plugin_slot_send_6_8(void *send_comm, void *data, int size, int tag, void *mhandle, void **ret_request)
{
	size_t bytes;
	int r = size_from_int(size, &bytes);

	if (r < 0)
		return plugin_result(r);
	return plugin_net_send(send_comm, data, bytes, tag, mhandle, ret_request);
}

enum nccl_result plugin_slot_send_10(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				     void *profiler_handle, void **ret_request)
{
	(void)profiler_handle;
	return plugin_net_send(send_comm, data, size, tag, mhandle, ret_request);
}

enum nccl_result plugin_slot_receive_6_8(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
					 void **ret_request)
{
	size_t bytes[TRANSPORT_MAX_RECVS];
	int r = sizes_from_int(n, sizes, bytes);

	if (r < 0)
		return plugin_result(r);
	return plugin_net_receive(recv_comm, n, data, bytes, tags, mhandles, ret_request);
}

enum nccl_result plugin_slot_receive_10(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
					void **profiler_handles, void **ret_request)
{
	(void)profiler_handles;
	return plugin_net_receive(recv_comm, n, data, sizes, tags, mhandles, ret_request);
}

enum nccl_result plugin_slot_flush(void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **ret_request)
{
	size_t bytes[TRANSPORT_MAX_RECVS];
	int r = sizes_from_int(n, sizes, bytes);

	return r < 0 ? plugin_result(r) : plugin_net_flush(recv_comm, n, data, bytes, mhandles, ret_request);
}

enum nccl_result plugin_slot_device_mr_7(void *comm, void *mhandle, void **ret_device_mhandle)
{
	enum nccl_result r = plugin_net_check();

	(void)comm;
	(void)mhandle;
	(void)ret_device_mhandle;
	return r ? r : plugin_result(-EOPNOTSUPP);
}

enum nccl_result plugin_slot_consumed_7(void *recv_comm, int n, void *request)
{
	(void)recv_comm;
	(void)n;
	(void)request;
	return plugin_net_check();
}

enum nccl_result plugin_slot_join_9_11(int *ret_device, struct nccl_net_vdevice_v9 *members)
{
	if (members->ndevs > NCCL_VDEVICE_MEMBERS_V9) /* more than the struct can hold: do not read past it */
		return plugin_result(-EINVAL);
	return plugin_net_join(members->ndevs, members->devs, ret_device);
}
