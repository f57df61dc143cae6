#include "plugin/versions/collnet_slots.h"

#include "base/log.h"
#include "plugin/collnet.h"
#include "plugin/fork.h"
#include "plugin/result.h"

#include <errno.h>

/* Each output has a variable of its own type: slots.c says why. */

enum nccl_result plugin_collnet_slot_devices(int *ret_count)
{
	return plugin_result(plugin_collnet_devices(ret_count));
}

enum nccl_result plugin_collnet_slot_init_6_10(nccl_debug_logger *logger)
{
	return plugin_result(plugin_collnet_init_process(logger));
}

enum nccl_result plugin_collnet_slot_init_11(void **ret_context, uint64_t comm_id, nccl_debug_logger *logger)
{
	struct plugin_collnet_context *context;
	int r;

	r = plugin_collnet_init(comm_id, logger, &context);
	if (r == 0)
		*ret_context = context;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_slot_finalize_11(void *context)
{
	return plugin_result(plugin_collnet_finalize(context));
}

enum nccl_result plugin_collnet_slot_listen_11(void *context, int device, void *handle, void **ret_listen_comm)
{
	struct plugin_collnet_listener *listener;
	int r;

	r = plugin_collnet_listen(context, device, handle, &listener);
	if (r == 0)
		*ret_listen_comm = listener;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_slot_listen_6_10(int device, void *handle, void **ret_listen_comm)
{
	return plugin_collnet_slot_listen_11(NULL, device, handle, ret_listen_comm);
}

enum nccl_result plugin_collnet_slot_connect(void **handles, int nranks, int rank, void *listen_comm,
					     void **ret_coll_comm)
{
	struct aggregate_group *group;
	int r;

	r = plugin_collnet_connect(listen_comm, nranks, rank, handles, &group);
	if (r == 0)
		*ret_coll_comm = group;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_slot_support(enum nccl_datatype type, enum nccl_redop op, int *ret_supported)
{
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	*ret_supported = plugin_collnet_supports(type, op);
	return NCCL_SUCCESS;
}

static int count_from_int(int count, size_t *ret)
{
	if (count < 0) {
		log_warn("A count of %d: NCCL's interface of this version holds counts below 2^31 only", count);
		return -EINVAL;
	}
	*ret = (size_t)count;
	return 0;
}

enum nccl_result plugin_collnet_slot_register_8(void *comm, void *data, size_t size, int type, void **ret_mhandle)
{
	return plugin_result(plugin_collnet_register(comm, data, size, type, ret_mhandle));
}

enum nccl_result plugin_collnet_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle)
{
	size_t bytes;
	int r = count_from_int(size, &bytes);

	return r < 0 ? plugin_result(r) : plugin_collnet_slot_register_8(comm, data, bytes, type, ret_mhandle);
}

enum nccl_result plugin_collnet_slot_register_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset,
						     int fd, void **ret_mhandle)
{
	(void)comm;
	(void)data;
	(void)size;
	(void)type;
	(void)offset;
	(void)fd;
	(void)ret_mhandle;
	return plugin_result(plugin_is_forked() ? -ECHILD : -EOPNOTSUPP); /* as the properties say */
}

enum nccl_result plugin_collnet_slot_deregister(void *comm, void *mhandle)
{
	return plugin_result(plugin_collnet_deregister(comm, mhandle));
}

enum nccl_result plugin_collnet_slot_reduce_all_9(void *coll_comm, void *send, void *recv, size_t count,
						  enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						  void *recv_mhandle, void **ret_request)
{
	struct aggregate_request *request;
	int r;

	(void)send_mhandle;
	(void)recv_mhandle;
	r = plugin_collnet_reduce_all(coll_comm, send, recv, count, type, op, &request);
	if (r == 0)
		*ret_request = request;
	return plugin_result(r);
}

enum nccl_result plugin_collnet_slot_reduce_all_6_8(void *coll_comm, void *send, void *recv, int count,
						    enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						    void *recv_mhandle, void **ret_request)
{
	size_t elements;
	int r = count_from_int(count, &elements);

	if (r < 0)
		return plugin_result(r);
	return plugin_collnet_slot_reduce_all_9(coll_comm, send, recv, elements, type, op, send_mhandle, recv_mhandle,
						ret_request);
}

enum nccl_result plugin_collnet_slot_flush(void *coll_comm, void *data, int size, void *mhandle, void **ret_request)
{
	(void)coll_comm;
	(void)data;
	(void)size;
	(void)mhandle;
	if (plugin_is_forked())
		return plugin_result(-ECHILD);
	*ret_request = NULL;
	return NCCL_SUCCESS;
}

enum nccl_result plugin_collnet_slot_test(void *request, int *ret_done, int *ret_sizes)
{
	return plugin_result(plugin_collnet_test(request, ret_done, ret_sizes));
}

enum nccl_result plugin_collnet_slot_close_group(void *coll_comm)
{
	return plugin_result(plugin_collnet_close_group(coll_comm));
}

enum nccl_result plugin_collnet_slot_close_listener(void *listen_comm)
{
	return plugin_result(plugin_collnet_close_listener(listen_comm));
}
