/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/devices.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Takes everything over but the text, which stays where NCCL has seen it. */
static void take_numbers(struct plugin_device *device, const struct transport_properties *from)
{
	struct plugin_net_properties *to = &device->properties;

	to->guid = from->guid;
	to->memory = from->memory;
	to->registration_is_global = from->registration_is_global;
	to->force_flush = from->force_flush;
	to->speed_Bps = from->speed_Bps;
	to->latency_ns = from->latency_ns;
	to->port = from->port;
	to->max_connections = from->max_connections;
	to->max_recvs = from->max_recvs;
	to->max_p2p_bytes = from->max_message_bytes;
	to->max_collective_bytes = from->max_message_bytes;
	to->max_multi_request = 1;
	to->rail = from->rail;
	to->plane = from->plane;
	to->member_count = from->member_count;
	memcpy(to->members, from->members, sizeof(to->members));
}

/* The path is a help to NCCL's topology, not a need: one that is too long counts as none. */
static const char *fitting_path(const char *path)
{
	return path && strlen(path) < PLUGIN_DEVICE_PATH_BYTES ? path : NULL;
}

static int device_new(const struct transport_properties *from, struct plugin_device **ret)
{
	const char *path = fitting_path(from->pci_path);
	struct plugin_device *device;

	if (strlen(from->name) >= sizeof(device->name)) {
		log_warn("Device name %s is longer than %zu bytes", from->name, sizeof(device->name) - 1);
		return -ENAMETOOLONG;
	}
	if (from->member_count < 1 || from->member_count > PLUGIN_MAX_JOIN)
		return -EINVAL;
	device = sys_zalloc(sizeof(*device));
	if (!device)
		return -ENOMEM;
	snprintf(device->name, sizeof(device->name), "%s", from->name);
	device->properties.name = device->name;
	if (path) {
		snprintf(device->pci_path, sizeof(device->pci_path), "%s", path);
		device->properties.pci_path = device->pci_path;
	}
	take_numbers(device, from);
	*ret = device;
	return 0;
}

static int add(struct plugin_devices *devices, const struct transport_properties *from)
{
	struct plugin_device *device;
	int r;

	r = device_new(from, &device);
	if (r < 0)
		return r;
	devices->list[devices->count++] = device;
	return 0;
}

static int learn(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport)
{
	int found = ops->device_count(transport), count = found, r;

	if (count > PLUGIN_MAX_DEVICES) {
		log_warn("%d network devices found, only the first %d are used", found, PLUGIN_MAX_DEVICES);
		count = PLUGIN_MAX_DEVICES;
	}
	for (int i = 0; i < count; i++) {
		struct transport_properties properties;

		r = ops->device_properties(transport, i, &properties);
		if (r == 0)
			r = add(devices, &properties);
		if (r < 0)
			goto fail;
	}
	devices->physical_count = devices->count;
	devices->known = true;
	return 0;
fail:
	plugin_devices_fini(devices);
	return r;
}

/* Is the device of that index still the one that NCCL knows under it? */
static int check(struct plugin_device *device, const struct transport_ops *ops, struct transport *transport, int index)
{
	struct transport_properties now;
	int r;

	if (index >= ops->device_count(transport)) {
		log_warn("Network device %s has gone since NCCL was told of it", device->name);
		return -ENODEV;
	}
	r = ops->device_properties(transport, index, &now);
	if (r < 0)
		return r;
	if (strcmp(now.name, device->name) != 0) {
		log_warn("Network device %d was %s when NCCL was told of it and is %s now", index, device->name,
			 now.name);
		return -ENODEV;
	}
	take_numbers(device, &now);
	return 0;
}

static int join_again(struct plugin_device *device, const struct transport_ops *ops, struct transport *transport,
		      int index)
{
	const struct plugin_net_properties *known = &device->properties;
	int again, r;

	r = ops->device_join(transport, known->member_count, known->members, &again);
	if (r < 0)
		return r;
	if (again != index) {
		log_warn("Joined network device %s was device %d and is %d now", device->name, index, again);
		return -ENODEV;
	}
	return 0;
}

int plugin_devices_refresh(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport)
{
	int r;

	if (!devices->known)
		return learn(devices, ops, transport);
	for (int i = 0; i < devices->count; i++) {
		r = i < devices->physical_count ? 0 : join_again(devices->list[i], ops, transport, i);
		if (r == 0)
			r = check(devices->list[i], ops, transport, i);
		if (r < 0)
			return r;
	}
	return 0;
}

int plugin_devices_join(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport,
			int count, const int *members, int *ret_device)
{
	struct transport_properties properties;
	int device, r;

	if (count < 1 || count > PLUGIN_MAX_JOIN)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		if (members[i] < 0 || members[i] >= devices->physical_count)
			return -EINVAL;
	}
	/* Asked first: the transport cannot take a joined device back. */
	if (devices->count == PLUGIN_MAX_DEVICES)
		return -ENOSPC;
	r = ops->device_join(transport, count, members, &device);
	if (r < 0)
		return r;
	if (device == devices->count) {
		r = ops->device_properties(transport, device, &properties);
		if (r == 0)
			r = add(devices, &properties);
		if (r < 0)
			return r;
	}
	if (device < 0 || device >= devices->count)
		return -ENOSPC; /* beyond what NCCL is shown */
	*ret_device = device;
	return 0;
}

int plugin_devices_get(const struct plugin_devices *devices, int device, struct plugin_net_properties *ret)
{
	if (device < 0 || device >= devices->count)
		return -EINVAL;
	*ret = devices->list[device]->properties;
	return 0;
}

void plugin_devices_fini(struct plugin_devices *devices)
{
	for (int i = 0; i < devices->count; i++)
		sys_free(devices->list[i]);
	*devices = (struct plugin_devices){ .known = false };
}
