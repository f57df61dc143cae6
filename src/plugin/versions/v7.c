/* Version 7 of NCCL's interface. Adds device handles to connect and accept. */

#include "nccl/v7.h"

#include "plugin/net.h"
#include "plugin/versions/collnet_slots.h"
#include "plugin/versions/properties.h"
#include "plugin/versions/slots.h"

static enum nccl_result properties_of(enum plugin_family family, int device,
				      struct nccl_net_properties_v7 *ret_properties)
{
	struct plugin_properties from;
	enum nccl_result r = plugin_properties_get(family, device, 0, &from);

	if (r == NCCL_SUCCESS)
		PLUGIN_PROPERTIES_SET_V7(ret_properties, &from);
	return r;
}

static enum nccl_result properties_v7(int device, struct nccl_net_properties_v7 *ret_properties)
{
	return properties_of(PLUGIN_NET, device, ret_properties);
}

static enum nccl_result collnet_properties_v7(int device, struct nccl_net_properties_v7 *ret_properties)
{
	return properties_of(PLUGIN_COLLNET, device, ret_properties);
}

extern PLUGIN_EXPORT const struct nccl_net_v7 ncclNetPlugin_v7;
const struct nccl_net_v7 ncclNetPlugin_v7 = {
	.name = PLUGIN_NET_NAME,
	.init = plugin_slot_init_6_9,
	.devices = plugin_slot_devices,
	.getProperties = properties_v7,
	.listen = plugin_slot_listen_6_10,
	.connect = plugin_slot_connect_7_9,
	.accept = plugin_slot_accept_7,
	.regMr = plugin_slot_register_6_7,
	.regMrDmaBuf = plugin_slot_register_dmabuf,
	.deregMr = plugin_slot_deregister,
	.isend = plugin_slot_send_6_8,
	.irecv = plugin_slot_receive_6_8,
	.iflush = plugin_slot_flush,
	.test = plugin_slot_test,
	.closeSend = plugin_slot_close_connection,
	.closeRecv = plugin_slot_close_connection,
	.closeListen = plugin_slot_close_listener,
	.getDeviceMr = plugin_slot_device_mr_7,
	.irecvConsumed = plugin_slot_consumed_7,
};

extern PLUGIN_EXPORT const struct nccl_collnet_v7 ncclCollNetPlugin_v7;
const struct nccl_collnet_v7 ncclCollNetPlugin_v7 = {
	.name = PLUGIN_COLLNET_NAME,
	.init = plugin_collnet_slot_init_6_10,
	.devices = plugin_collnet_slot_devices,
	.getProperties = collnet_properties_v7,
	.listen = plugin_collnet_slot_listen_6_10,
	.connect = plugin_collnet_slot_connect,
	.reduceSupport = plugin_collnet_slot_support,
	.regMr = plugin_collnet_slot_register_6_7,
	.regMrDmaBuf = plugin_collnet_slot_register_dmabuf,
	.deregMr = plugin_collnet_slot_deregister,
	.iallreduce = plugin_collnet_slot_reduce_all_6_8,
	.iflush = plugin_collnet_slot_flush,
	.test = plugin_collnet_slot_test,
	.closeColl = plugin_collnet_slot_close_group,
	.closeListen = plugin_collnet_slot_close_listener,
};
