/* SPDX-License-Identifier: Apache-2.0 */
#include "netplugin_table.h"

#include <string.h>

#include "nccl/v10.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "nccl/v6.h"
#include "nccl/v7.h"
#include "nccl/v8.h"
#include "nccl/v9.h"

/* The slots whose types are the same in every version. */
#define ADOPT_COMMON(p, t)                            \
	do {                                          \
		(p)->name = (t)->name;                \
		(p)->devices = (t)->devices;          \
		(p)->reg_dmabuf = (t)->regMrDmaBuf;   \
		(p)->dereg = (t)->deregMr;            \
		(p)->flush = (t)->iflush;             \
		(p)->test = (t)->test;                \
		(p)->close_send = (t)->closeSend;     \
		(p)->close_recv = (t)->closeRecv;     \
		(p)->close_listen = (t)->closeListen; \
	} while (0)

static void adopt_v6(struct netplugin *p, const struct nccl_net_v6 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->connect_v6 = t->connect;
	p->accept_v6 = t->accept;
	p->reg_v6 = t->regMr;
	p->send_v6 = t->isend;
	p->receive_v6 = t->irecv;
}

static void adopt_v7(struct netplugin *p, const struct nccl_net_v7 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->connect_v7 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v6 = t->regMr;
	p->send_v6 = t->isend;
	p->receive_v6 = t->irecv;
}

static void adopt_v8(struct netplugin *p, const struct nccl_net_v8 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->connect_v7 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v8 = t->regMr;
	p->send_v6 = t->isend;
	p->receive_v6 = t->irecv;
}

static void adopt_v9(struct netplugin *p, const struct nccl_net_v9 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v6 = t->init;
	p->listen_v6 = t->listen;
	p->connect_v7 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v8 = t->regMr;
	p->send_v9 = t->isend;
	p->receive_v9 = t->irecv;
	p->make_vdevice_v9 = t->makeVDevice;
}

static void adopt_v10(struct netplugin *p, const struct nccl_net_v10 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v10 = t->init;
	p->listen_v6 = t->listen;
	p->connect_v10 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v8 = t->regMr;
	p->send_v10 = t->isend;
	p->receive_v10 = t->irecv;
	p->make_vdevice_v9 = t->makeVDevice;
}

static void adopt_v11(struct netplugin *p, const struct nccl_net_v11 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v11 = t->init;
	p->listen_v11 = t->listen;
	p->connect_v11 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v8 = t->regMr;
	p->send_v10 = t->isend;
	p->receive_v10 = t->irecv;
	p->make_vdevice_v9 = t->makeVDevice;
	p->finalize = t->finalize;
}

static void adopt_v12(struct netplugin *p, const struct nccl_net_v12 *t)
{
	ADOPT_COMMON(p, t);
	p->init_v11 = t->init;
	p->listen_v11 = t->listen;
	p->connect_v11 = t->connect;
	p->accept_v7 = t->accept;
	p->reg_v8 = t->regMr;
	p->send_v10 = t->isend;
	p->receive_v10 = t->irecv;
	p->make_vdevice_v12 = t->makeVDevice;
	p->finalize = t->finalize;
}

void netplugin_table_adopt(struct netplugin *plugin, int version, const void *table)
{
	plugin->version = version;
	plugin->table = table;
	switch (version) {
	case 6:
		adopt_v6(plugin, table);
		break;
	case 7:
		adopt_v7(plugin, table);
		break;
	case 8:
		adopt_v8(plugin, table);
		break;
	case 9:
		adopt_v9(plugin, table);
		break;
	case 10:
		adopt_v10(plugin, table);
		break;
	case 11:
		adopt_v11(plugin, table);
		break;
	default:
		adopt_v12(plugin, table);
		break;
	}
}

/* ---- properties: each group of fields is in all versions from the first that has it ---- */

#define COPY_V6(to, from)                               \
	do {                                            \
		(to)->name = (from)->name;              \
		(to)->pci_path = (from)->pciPath;       \
		(to)->guid = (from)->guid;              \
		(to)->ptr_support = (from)->ptrSupport; \
		(to)->speed_Mbps = (from)->speed;       \
		(to)->port = (from)->port;              \
		(to)->latency_us = (from)->latency;     \
		(to)->max_comms = (from)->maxComms;     \
		(to)->max_recvs = (from)->maxRecvs;     \
	} while (0)

#define COPY_V7(to, from)                                        \
	do {                                                     \
		COPY_V6(to, from);                               \
		(to)->device_type = (int)(from)->netDeviceType;  \
		(to)->device_version = (from)->netDeviceVersion; \
	} while (0)

#define COPY_V8(to, from)                                           \
	do {                                                        \
		COPY_V7(to, from);                                  \
		(to)->registration_is_global = (from)->regIsGlobal; \
	} while (0)

#define COPY_V9(to, from)                                                                \
	do {                                                                             \
		COPY_V8(to, from);                                                       \
		(to)->force_flush = (from)->forceFlush;                                  \
		(to)->member_count = (from)->vProps.ndevs;                               \
		memcpy((to)->members, (from)->vProps.devs, sizeof((from)->vProps.devs)); \
		(to)->max_p2p_bytes = (from)->maxP2pBytes;                               \
		(to)->max_coll_bytes = (from)->maxCollBytes;                             \
	} while (0)

#define COPY_V11(to, from)                                                  \
	do {                                                                \
		COPY_V9(to, from);                                          \
		(to)->max_multi_request_size = (from)->maxMultiRequestSize; \
	} while (0)

union any_properties {
	struct nccl_net_properties_v6 v6;
	struct nccl_net_properties_v7 v7;
	struct nccl_net_properties_v8 v8;
	struct nccl_net_properties_v9 v9;
	struct nccl_net_properties_v10 v10;
	struct nccl_net_properties_v11 v11;
	struct nccl_net_properties_v12 v12;
};

static int call_properties(struct netplugin *plugin, int device, union any_properties *any)
{
	switch (plugin->version) {
	case 6:
		return (int)((const struct nccl_net_v6 *)plugin->table)->getProperties(device, &any->v6);
	case 7:
		return (int)((const struct nccl_net_v7 *)plugin->table)->getProperties(device, &any->v7);
	case 8:
		return (int)((const struct nccl_net_v8 *)plugin->table)->getProperties(device, &any->v8);
	case 9:
		return (int)((const struct nccl_net_v9 *)plugin->table)->getProperties(device, &any->v9);
	case 10:
		return (int)((const struct nccl_net_v10 *)plugin->table)->getProperties(device, &any->v10);
	case 11:
		return (int)((const struct nccl_net_v11 *)plugin->table)->getProperties(device, &any->v11);
	default:
		return (int)((const struct nccl_net_v12 *)plugin->table)->getProperties(device, &any->v12);
	}
}

int netplugin_table_properties(struct netplugin *plugin, int device, struct netplugin_properties *ret_properties)
{
	struct netplugin_properties to = { .rail = NCCL_RAIL_NONE, .plane = NCCL_RAIL_NONE };
	union any_properties any;
	int r;

	memset(&any, 0xa5, sizeof(any)); /* NCCL's own struct is not initialised either: what is not set shows */
	r = call_properties(plugin, device, &any);
	if (r != NCCL_SUCCESS)
		return r;
	switch (plugin->version) {
	case 6:
		COPY_V6(&to, &any.v6);
		break;
	case 7:
		COPY_V7(&to, &any.v7);
		break;
	case 8:
		COPY_V8(&to, &any.v8);
		break;
	case 9:
		COPY_V9(&to, &any.v9);
		break;
	case 10:
		COPY_V9(&to, &any.v10);
		break;
	case 11:
		COPY_V11(&to, &any.v11);
		break;
	default:
		COPY_V11(&to, &any.v12);
		to.rail = any.v12.railId;
		to.plane = any.v12.planeId;
		break;
	}
	*ret_properties = to;
	return NCCL_SUCCESS;
}
