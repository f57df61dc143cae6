/* SPDX-License-Identifier: Apache-2.0 */
/* Version 10 of NCCL's interface. connect gets a traffic class; the profiler's callback and handles are not used. */

#include "nccl/v10.h"

#include "plugin/net.h"
#include "plugin/versions/collnet_slots.h"
#include "plugin/versions/slots.h"

#define PROPERTIES  struct nccl_net_properties_v10
#define MEMBERS_MAX NCCL_VDEVICE_MEMBERS_V9
#define SET         PLUGIN_PROPERTIES_SET_V10
#include "plugin/versions/properties_template.h"

static enum nccl_result init_v10(nccl_debug_logger *logger, nccl_profiler_callback *profiler)
{
	(void)profiler;
	return plugin_net_init_process(logger);
}

static enum nccl_result connect_v10(int device, struct nccl_net_comm_config *config, void *handle, void **ret_send_comm,
				    struct nccl_net_device_handle **ret_device_handle)
{
	(void)ret_device_handle;
	return plugin_net_connect(device, config ? config->trafficClass : PLUGIN_NET_NO_TRAFFIC_CLASS, handle,
				  ret_send_comm);
}

extern PLUGIN_EXPORT const struct nccl_net_v10 ncclNetPlugin_v10;
const struct nccl_net_v10 ncclNetPlugin_v10 = {
	.name = PLUGIN_NET_NAME,
	.init = init_v10,
	.devices = plugin_net_devices,
	.getProperties = net_properties,
	.listen = plugin_net_listen,
	.connect = connect_v10,
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
};

extern PLUGIN_EXPORT const struct nccl_collnet_v10 ncclCollNetPlugin_v10;
const struct nccl_collnet_v10 ncclCollNetPlugin_v10 = {
	.name = PLUGIN_COLLNET_NAME,
	.init = plugin_collnet_init_process,
	.devices = plugin_collnet_devices,
	.getProperties = collnet_properties,
	.listen = plugin_collnet_slot_listen_6_10,
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
};
