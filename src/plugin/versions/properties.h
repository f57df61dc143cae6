/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner properties of a device in the form of each version of NCCL's interface. The conversion is written once: what
 * can fail is done and checked in plugin_properties_convert(), the rest is assignment in groups of fields, where each
 * version's group is the one before it and what the version added.
 *
 * What does not fit NCCL's type is an error, never cut. Pure but for the warning; any thread.
 */
#ifndef TRIBUTARY_PLUGIN_VERSIONS_PROPERTIES_H
#define TRIBUTARY_PLUGIN_VERSIONS_PROPERTIES_H

#include "nccl/types.h"
#include "plugin/devices.h"

/* NCCL's units and types; the rest is taken from the inner form as it is. */
struct plugin_properties {
	struct plugin_net_properties inner;
	int ptr_support;
	int speed_Mbps;
	float latency_us;
	int16_t rail, plane;
};

/* greatest_members: how many members the version's vProps has room for; 0 for versions without vProps. */
int plugin_properties_convert(const struct plugin_net_properties *inner, int greatest_members,
			      struct plugin_properties *ret);

/* Whose properties: the two tables of a version share their struct. */
enum plugin_family { PLUGIN_NET, PLUGIN_COLLNET };

/* plugin_net_properties() or plugin_collnet_properties(), and the conversion. */
enum nccl_result plugin_properties_get(enum plugin_family family, int device, int greatest_members,
				       struct plugin_properties *ret);

/* devs has `room` places; the conversion has seen to it that there are enough. */
void plugin_properties_members(const struct plugin_net_properties *inner, int room, int *devs);

/* All fields. to: struct nccl_net_properties_vN *; from: const struct plugin_properties *. */
#define PLUGIN_PROPERTIES_SET_V6(to, from)                      \
	do {                                                    \
		(to)->name = (from)->inner.name;                \
		(to)->pciPath = (from)->inner.pci_path;         \
		(to)->guid = (from)->inner.guid;                \
		(to)->ptrSupport = (from)->ptr_support;         \
		(to)->speed = (from)->speed_Mbps;               \
		(to)->port = (from)->inner.port;                \
		(to)->latency = (from)->latency_us;             \
		(to)->maxComms = (from)->inner.max_connections; \
		(to)->maxRecvs = (from)->inner.max_recvs;       \
	} while (0)

#define PLUGIN_PROPERTIES_SET_V7(to, from)                  \
	do {                                                \
		PLUGIN_PROPERTIES_SET_V6(to, from);         \
		(to)->netDeviceType = NCCL_NET_DEVICE_HOST; \
		(to)->netDeviceVersion = 0;                 \
	} while (0)

#define PLUGIN_PROPERTIES_SET_V8(to, from)                                \
	do {                                                              \
		PLUGIN_PROPERTIES_SET_V7(to, from);                       \
		(to)->regIsGlobal = (from)->inner.registration_is_global; \
	} while (0)

#define PLUGIN_PROPERTIES_SET_V9(to, from)                                                                          \
	do {                                                                                                        \
		PLUGIN_PROPERTIES_SET_V8(to, from);                                                                 \
		(to)->forceFlush = (from)->inner.force_flush;                                                       \
		(to)->vProps.ndevs = (from)->inner.member_count;                                                    \
		plugin_properties_members(&(from)->inner, sizeof((to)->vProps.devs) / sizeof((to)->vProps.devs[0]), \
					  (to)->vProps.devs);                                                       \
		(to)->maxP2pBytes = (from)->inner.max_p2p_bytes;                                                    \
		(to)->maxCollBytes = (from)->inner.max_collective_bytes;                                            \
	} while (0)

#define PLUGIN_PROPERTIES_SET_V10(to, from) PLUGIN_PROPERTIES_SET_V9(to, from)

#define PLUGIN_PROPERTIES_SET_V11(to, from)                                  \
	do {                                                                 \
		PLUGIN_PROPERTIES_SET_V10(to, from);                         \
		(to)->maxMultiRequestSize = (from)->inner.max_multi_request; \
	} while (0)

#define PLUGIN_PROPERTIES_SET_V12(to, from)          \
	do {                                         \
		PLUGIN_PROPERTIES_SET_V11(to, from); \
		(to)->railId = (from)->rail;         \
		(to)->planeId = (from)->plane;       \
	} while (0)

#endif
