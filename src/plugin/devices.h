/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices as NCCL was told of them. NCCL asks for their number once per process and keeps the indices and the text,
 * so they stay as they are when the transport is closed after the last communicator and opened again for the next:
 * devices that were joined are joined anew, a device that is new is not shown, and one that has gone is served by another.
 *
 * Threads: under the lock of the owner (state.c), but for plugin_devices_served. Text lives until plugin_devices_fini().
 */
#ifndef TRIBUTARY_PLUGIN_DEVICES_H
#define TRIBUTARY_PLUGIN_DEVICES_H

#include "transport/transport.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PLUGIN_MAX_DEVICES = 64,        /* physical and joined; more are not shown to NCCL */
	PLUGIN_DEVICE_NAME_BYTES = 160, /* of a joined device too: up to 8 interface names of 15 and what is between */
	PLUGIN_DEVICE_PATH_BYTES = 512,
	PLUGIN_MAX_JOIN = TRANSPORT_MAX_MEMBERS,
};

/* What NCCL can want to know about a device, in whatever version. */
struct plugin_net_properties {
	const char *name;
	const char *pci_path; /* NULL when there is none */
	uint64_t guid;
	unsigned memory; /* set of enum nccl_pointer */
	bool registration_is_global, force_flush;
	uint64_t speed_Bps;
	uint64_t latency_ns;
	int port;
	int max_connections;
	int max_recvs;
	size_t max_p2p_bytes, max_collective_bytes;
	int max_multi_request; /* buffers in one request */
	int rail, plane;       /* -1: undefined */
	int member_count;
	int members[PLUGIN_MAX_JOIN];
};

struct plugin_device {
	struct plugin_net_properties properties;
	char name[PLUGIN_DEVICE_NAME_BYTES];
	char pci_path[PLUGIN_DEVICE_PATH_BYTES];
	char carrier[PLUGIN_DEVICE_NAME_BYTES]; /* of a physical one, the transport's that serves it; "": none does */
};

struct plugin_devices {
	bool known; /* the transport has been asked */
	int count, physical_count;
	struct plugin_device *list[PLUGIN_MAX_DEVICES]; /* never moved: NCCL keeps the text */
	/* The transport's index + 1; 0: no such device; negative: nothing serves it. */
	_Atomic int served[PLUGIN_MAX_DEVICES];
};

/*
 * After each opening of the transport. The first time it learns the devices, later it looks for them, takes over the
 * numbers that may have changed (speed), and joins again. A line says what has gone.
 */
int plugin_devices_refresh(struct plugin_devices *devices, const struct transport_ops *ops,
			   struct transport *transport);
int plugin_devices_join(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport,
			int count, const int *members, int *ret_device);
/* -EINVAL: no such device. */
int plugin_devices_get(const struct plugin_devices *devices, int device, struct plugin_net_properties *ret);
/* The transport's device that serves one of NCCL's. -EINVAL: no such device; -ENETDOWN: nothing does. */
int plugin_devices_served(const struct plugin_devices *devices, int device);
void plugin_devices_fini(struct plugin_devices *devices);

#endif
