/* SPDX-License-Identifier: Apache-2.0 */
/* Version 6 of NCCL's interface. Sizes are int, and there are no device handles. */

#include "nccl/v6.h"

#include "plugin/net.h"
#include "plugin/versions/collnet_slots.h"
#include "plugin/versions/slots.h"

#define PROPERTIES  struct nccl_net_properties_v6
#define MEMBERS_MAX 0
#define SET         PLUGIN_PROPERTIES_SET_V6
#include "plugin/versions/properties_template.h"

static enum nccl_result connect_v6(int device, void *handle, void **ret_send_comm)
{
	return plugin_slot_connect_7_9(device, handle, ret_send_comm, NULL);
}

extern PLUGIN_EXPORT const struct nccl_net_v6 ncclNetPlugin_v6;
const struct nccl_net_v6 ncclNetPlugin_v6 = {
	.name = PLUGIN_NET_NAME,
	.init = plugin_net_init_process,
	.devices = plugin_net_devices,
	.getProperties = net_properties,
	.listen = plugin_net_listen,
	.connect = connect_v6,
	.accept = plugin_net_accept,
	.regMr = plugin_slot_register_6_7,
	.regMrDmaBuf = plugin_net_register_dmabuf,
	.deregMr = plugin_net_deregister,
	.isend = plugin_slot_send_6_8,
	.irecv = plugin_slot_receive_6_8,
	.iflush = plugin_slot_flush,
	.test = plugin_net_test,
	.closeSend = plugin_net_close_connection,
	.closeRecv = plugin_net_close_connection,
	.closeListen = plugin_net_close_listener,
};

extern PLUGIN_EXPORT const struct nccl_collnet_v6 ncclCollNetPlugin_v6;
const struct nccl_collnet_v6 ncclCollNetPlugin_v6 = {
	.name = PLUGIN_COLLNET_NAME,
	.init = plugin_collnet_init_process,
	.devices = plugin_collnet_devices,
	.getProperties = collnet_properties,
	.listen = plugin_collnet_slot_listen_6_10,
	.connect = plugin_collnet_connect,
	.reduceSupport = plugin_collnet_support,
	.regMr = plugin_collnet_slot_register_6_7,
	.regMrDmaBuf = plugin_collnet_register_dmabuf,
	.deregMr = plugin_collnet_deregister,
	.iallreduce = plugin_collnet_slot_reduce_all_6_8,
	.iflush = plugin_collnet_flush,
	.test = plugin_collnet_test,
	.closeColl = plugin_collnet_close_group,
	.closeListen = plugin_collnet_close_listener,
};
