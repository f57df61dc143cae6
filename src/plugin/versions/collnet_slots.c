/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/collnet_slots.h"

#include "base/log.h"
#include "plugin/collnet.h"
#include "plugin/result.h"

#include <errno.h>

enum nccl_result plugin_collnet_slot_listen_6_10(int device, void *handle, void **ret_listen_comm)
{
	return plugin_collnet_listen(NULL, device, handle, ret_listen_comm);
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

enum nccl_result plugin_collnet_slot_register_6_7(void *comm, void *data, int size, int type, void **ret_mhandle)
{
	size_t bytes;
	int r = count_from_int(size, &bytes);

	return r < 0 ? plugin_result(r) : plugin_collnet_register(comm, data, bytes, type, ret_mhandle);
}

enum nccl_result plugin_collnet_slot_reduce_all_6_8(void *coll_comm, void *send, void *recv, int count,
						    enum nccl_datatype type, enum nccl_redop op, void *send_mhandle,
						    void *recv_mhandle, void **ret_request)
{
	size_t elements;
	int r = count_from_int(count, &elements);

	if (r < 0)
		return plugin_result(r);
	return plugin_collnet_reduce_all(coll_comm, send, recv, elements, type, op, send_mhandle, recv_mhandle,
					 ret_request);
}
