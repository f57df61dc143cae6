#include "plugin/versions/slots.h"

#include "base/log.h"
#include "plugin/net.h"
#include "plugin/result.h"
#include "transport/transport.h"

#include <errno.h>
#include <stdbool.h>

/*
 * NCCL's void ** and our pointers to objects have the same representation, but not the same type, and writing through
 * the wrong one would break C's aliasing rules: so each output has a variable of its own type.
 */

enum nccl_result plugin_slot_devices(int *ret_count)
{
	return plugin_result(plugin_net_devices(ret_count));
}

enum nccl_result plugin_slot_init_6_9(nccl_debug_logger *logger)
{
	return plugin_result(plugin_net_init_process(logger));
}

enum nccl_result plugin_slot_init_11(void **ret_context, uint64_t comm_id, struct nccl_net_comm_config *config,
				     nccl_debug_logger *logger, nccl_profiler_callback *profiler)
{
	int traffic_class = config ? config->trafficClass : PLUGIN_NET_NO_TRAFFIC_CLASS;
	struct plugin_net_context *context;
	int r;

	(void)profiler;
	r = plugin_net_init(comm_id, traffic_class, logger, &context);
	if (r == 0)
		*ret_context = context;
	return plugin_result(r);
}

enum nccl_result plugin_slot_finalize_11(void *context)
{
	return plugin_result(plugin_net_finalize(context));
}

enum nccl_result plugin_slot_set_attr_11(void *context, struct nccl_net_attr *attr)
{
	(void)context;
	(void)attr;
	return plugin_result(plugin_net_check());
}

enum nccl_result plugin_slot_listen_6_10(int device, void *handle, void **ret_listen_comm)
{
	struct transport_listener *listener;
	int r;

	r = plugin_net_listen(device, handle, &listener);
	if (r == 0)
		*ret_listen_comm = listener;
	return plugin_result(r);
}

enum nccl_result plugin_slot_listen_11(void *context, int device, void *handle, void **ret_listen_comm)
{
	(void)context;
	return plugin_slot_listen_6_10(device, handle, ret_listen_comm);
}

enum nccl_result plugin_slot_connect_to(int device, int traffic_class, void *handle, void **ret_send_comm)
{
	struct transport_connection *connection;
	int r;

	r = plugin_net_connect(device, traffic_class, handle, &connection);
	if (r == 0)
		*ret_send_comm = connection;
	return plugin_result(r);
}

enum nccl_result plugin_slot_connect_7_9(int device, void *handle, void **ret_send_comm,
					 struct nccl_net_device_handle **ret_device_handle)
{
	(void)ret_device_handle;
	return plugin_slot_connect_to(device, PLUGIN_NET_NO_TRAFFIC_CLASS, handle, ret_send_comm);
}

enum nccl_result plugin_slot_connect_11(void *context, int device, void *handle, void **ret_send_comm,
					struct nccl_net_device_handle **ret_device_handle)
{
	const struct plugin_net_context *communicator = context;
	int traffic_class = communicator ? communicator->traffic_class : PLUGIN_NET_NO_TRAFFIC_CLASS;

	(void)ret_device_handle;
	return plugin_slot_connect_to(device, traffic_class, handle, ret_send_comm);
}

enum nccl_result plugin_slot_accept_7(void *listen_comm, void **ret_recv_comm,
				      struct nccl_net_device_handle **ret_device_handle)
{
	struct transport_connection *connection;
	int r;

	(void)ret_device_handle;
	r = plugin_net_accept(listen_comm, &connection);
	if (r == 0)
		*ret_recv_comm = connection;
	return plugin_result(r);
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

	return r < 0 ? plugin_result(r) : plugin_slot_register_8(comm, data, bytes, type, ret_mhandle);
}

enum nccl_result plugin_slot_register_8(void *comm, void *data, size_t size, int type, void **ret_mhandle)
{
	return plugin_result(plugin_net_register(comm, data, size, type, ret_mhandle));
}

enum nccl_result plugin_slot_register_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd,
					     void **ret_mhandle)
{
	return plugin_result(plugin_net_register_dmabuf(comm, data, size, type, offset, fd, ret_mhandle));
}

enum nccl_result plugin_slot_deregister(void *comm, void *mhandle)
{
	return plugin_result(plugin_net_deregister(comm, mhandle));
}

enum nccl_result plugin_slot_send_6_8(void *send_comm, void *data, int size, int tag, void *mhandle, void **ret_request)
{
	size_t bytes;
	int r = size_from_int(size, &bytes);

	if (r < 0)
		return plugin_result(r);
	return plugin_slot_send_10(send_comm, data, bytes, tag, mhandle, NULL, ret_request);
}

enum nccl_result plugin_slot_send_10(void *send_comm, void *data, size_t size, int tag, void *mhandle,
				     void *profiler_handle, void **ret_request)
{
	struct transport_request *request;
	int r;

	(void)profiler_handle;
	r = plugin_net_send(send_comm, data, size, tag, mhandle, &request);
	if (r == 0)
		*ret_request = request;
	return plugin_result(r);
}

enum nccl_result plugin_slot_receive_6_8(void *recv_comm, int n, void **data, int *sizes, int *tags, void **mhandles,
					 void **ret_request)
{
	size_t bytes[TRANSPORT_MAX_RECVS];
	int r = sizes_from_int(n, sizes, bytes);

	if (r < 0)
		return plugin_result(r);
	return plugin_slot_receive_10(recv_comm, n, data, bytes, tags, mhandles, NULL, ret_request);
}

enum nccl_result plugin_slot_receive_10(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
					void **profiler_handles, void **ret_request)
{
	struct transport_request *request;
	int r;

	(void)profiler_handles;
	r = plugin_net_receive(recv_comm, n, data, sizes, tags, mhandles, &request);
	if (r == 0)
		*ret_request = request;
	return plugin_result(r);
}

enum nccl_result plugin_slot_flush(void *recv_comm, int n, void **data, int *sizes, void **mhandles, void **ret_request)
{
	struct transport_request *request;
	size_t bytes[TRANSPORT_MAX_RECVS];
	int r;

	r = sizes_from_int(n, sizes, bytes);
	if (r == 0)
		r = plugin_net_flush(recv_comm, n, data, bytes, mhandles, &request);
	if (r == 0)
		*ret_request = request;
	return plugin_result(r);
}

enum nccl_result plugin_slot_test(void *request, int *ret_done, int *ret_sizes)
{
	return plugin_result(plugin_net_test(request, ret_done, ret_sizes));
}

enum nccl_result plugin_slot_close_connection(void *comm)
{
	return plugin_result(plugin_net_close_connection(comm));
}

enum nccl_result plugin_slot_close_listener(void *listen_comm)
{
	return plugin_result(plugin_net_close_listener(listen_comm));
}

enum nccl_result plugin_slot_device_mr_7(void *comm, void *mhandle, void **ret_device_mhandle)
{
	int r = plugin_net_check();

	(void)comm;
	(void)mhandle;
	(void)ret_device_mhandle;
	return plugin_result(r < 0 ? r : -EOPNOTSUPP);
}

enum nccl_result plugin_slot_consumed_7(void *recv_comm, int n, void *request)
{
	(void)recv_comm;
	(void)n;
	(void)request;
	return plugin_result(plugin_net_check());
}

enum nccl_result plugin_slot_join_9_11(int *ret_device, struct nccl_net_vdevice_v9 *members)
{
	if (members->ndevs > NCCL_VDEVICE_MEMBERS_V9) /* more than the struct can hold: do not read past it */
		return plugin_result(-EINVAL);
	return plugin_result(plugin_net_join(members->ndevs, members->devs, ret_device));
}
