/* Version 9 of NCCL's interface. Message sizes are size_t too; devices can be joined. */

#include "nccl/v9.h"

#include "plugin/net.h"
#include "plugin/versions/collnet_slots.h"
#include "plugin/versions/slots.h"

#define PROPERTIES  struct nccl_net_properties_v9
#define MEMBERS_MAX NCCL_VDEVICE_MEMBERS_V9
#define SET         PLUGIN_PROPERTIES_SET_V9
#include "plugin/versions/properties_template.h"

static enum nccl_result send_v9(void *send_comm, void *data, size_t size, int tag, void *mhandle, void **ret_request)
{
	return plugin_slot_send_10(send_comm, data, size, tag, mhandle, NULL, ret_request);
}

static enum nccl_result receive_v9(void *recv_comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
				   void **ret_request)
{
	return plugin_slot_receive_10(recv_comm, n, data, sizes, tags, mhandles, NULL, ret_request);
}

extern PLUGIN_EXPORT const struct nccl_net_v9 ncclNetPlugin_v9;
const struct nccl_net_v9 ncclNetPlugin_v9 = {
	.name = PLUGIN_NET_NAME,
	.init = plugin_slot_init_6_9,
	.devices = plugin_slot_devices,
	.getProperties = net_properties,
	.listen = plugin_slot_listen_6_10,
	.connect = plugin_slot_connect_7_9,
	.accept = plugin_slot_accept_7,
	.regMr = plugin_slot_register_8,
	.regMrDmaBuf = plugin_slot_register_dmabuf,
	.deregMr = plugin_slot_deregister,
	.isend = send_v9,
	.irecv = receive_v9,
	.iflush = plugin_slot_flush,
	.test = plugin_slot_test,
	.closeSend = plugin_slot_close_connection,
	.closeRecv = plugin_slot_close_connection,
	.closeListen = plugin_slot_close_listener,
	.getDeviceMr = plugin_slot_device_mr_7,
	.irecvConsumed = plugin_slot_consumed_7,
	.makeVDevice = plugin_slot_join_9_11,
};

extern PLUGIN_EXPORT const struct nccl_collnet_v9 ncclCollNetPlugin_v9;
const struct nccl_collnet_v9 ncclCollNetPlugin_v9 = {
	.name = PLUGIN_COLLNET_NAME,
	.init = plugin_collnet_slot_init_6_10,
	.devices = plugin_collnet_slot_devices,
	.getProperties = collnet_properties,
	.listen = plugin_collnet_slot_listen_6_10,
	.connect = plugin_collnet_slot_connect,
	.reduceSupport = plugin_collnet_slot_support,
	.regMr = plugin_collnet_slot_register_8,
	.regMrDmaBuf = plugin_collnet_slot_register_dmabuf,
	.deregMr = plugin_collnet_slot_deregister,
	.iallreduce = plugin_collnet_slot_reduce_all_9,
	.iflush = plugin_collnet_slot_flush,
	.test = plugin_collnet_slot_test,
	.closeColl = plugin_collnet_slot_close_group,
	.closeListen = plugin_collnet_slot_close_listener,
	.makeVDevice = plugin_slot_join_9_11,
};
