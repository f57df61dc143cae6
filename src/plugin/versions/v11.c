/* SPDX-License-Identifier: Apache-2.0 */
/* Version 11 of NCCL's interface. One init, and one context, for each communicator. */

#include "nccl/v11.h"

#include "plugin/net.h"
#include "plugin/versions/collnet_slots.h"
#include "plugin/versions/slots.h"

#define PROPERTIES  struct nccl_net_properties_v11
#define MEMBERS_MAX NCCL_VDEVICE_MEMBERS_V9
#define SET         PLUGIN_PROPERTIES_SET_V11
#include "plugin/versions/properties_template.h"

extern PLUGIN_EXPORT const struct nccl_net_v11 ncclNetPlugin_v11;
const struct nccl_net_v11 ncclNetPlugin_v11 = {
	.name = PLUGIN_NET_NAME,
	.init = plugin_slot_init_11,
	.devices = plugin_net_devices,
	.getProperties = net_properties,
	.listen = plugin_slot_listen_11,
	.connect = plugin_slot_connect_11,
	.accept = plugin_slot_accept_7,
	.regMr = plugin_net_register,
	.regMrDmaBuf = plugin_net_register_dmabuf,
	.deregMr = plugin_net_deregister,
	.isend = plugin_slot_send_10,
	.irecv = plugin_slot_receive_10,
	.iflush = plugin_slot_flush,
	.test = plugin_net_test,
	.closeSend = plugin_net_close_connection,
	.closeRecv = plugin_net_close_connection,
	.closeListen = plugin_net_close_listener,
	.getDeviceMr = plugin_slot_device_mr_7,
	.irecvConsumed = plugin_slot_consumed_7,
	.makeVDevice = plugin_slot_join_9_11,
	.finalize = plugin_net_finalize,
	.setNetAttr = plugin_slot_set_attr_11,
};

extern PLUGIN_EXPORT const struct nccl_collnet_v11 ncclCollNetPlugin_v11;
const struct nccl_collnet_v11 ncclCollNetPlugin_v11 = {
	.name = PLUGIN_COLLNET_NAME,
	.init = plugin_collnet_init,
	.devices = plugin_collnet_devices,
	.getProperties = collnet_properties,
	.listen = plugin_collnet_listen,
	.connect = plugin_collnet_connect,
	.reduceSupport = plugin_collnet_support,
	.regMr = plugin_collnet_register,
	.regMrDmaBuf = plugin_collnet_register_dmabuf,
	.deregMr = plugin_collnet_deregister,
	.iallreduce = plugin_collnet_reduce_all,
	.iflush = plugin_collnet_flush,
	.test = plugin_collnet_test,
	.closeColl = plugin_collnet_close_group,
	.closeListen = plugin_collnet_close_listener,
	.makeVDevice = plugin_slot_join_9_11,
	.finalize = plugin_collnet_finalize,
};
