/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/devices.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* What may change. The rest stays as NCCL has seen it. */
static void take_numbers(struct plugin_device *device, const struct transport_properties *from)
{
	struct plugin_net_properties *to = &device->properties;

	to->memory = from->memory;
	to->registration_is_global = from->registration_is_global;
	to->force_flush = from->force_flush;
	to->speed_Bps = from->speed_Bps;
	to->latency_ns = from->latency_ns;
	to->max_connections = from->max_connections;
	to->max_recvs = from->max_recvs;
	to->max_p2p_bytes = from->max_message_bytes;
	to->max_collective_bytes = from->max_message_bytes;
	to->max_multi_request = 1;
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
	snprintf(device->carrier, sizeof(device->carrier), "%s", from->name);
	device->properties = (struct plugin_net_properties){ .name = device->name,
							     .guid = from->guid,
							     .port = from->port,
							     .rail = from->rail,
							     .plane = from->plane,
							     .member_count = from->member_count };
	memcpy(device->properties.members, from->members, sizeof(from->members));
	if (path) {
		snprintf(device->pci_path, sizeof(device->pci_path), "%s", path);
		device->properties.pci_path = device->pci_path;
	}
	take_numbers(device, from);
	*ret = device;
	return 0;
}

/* index: the transport's. */
static void serve(struct plugin_devices *devices, int device, int index)
{
	atomic_store(&devices->served[device], index < 0 ? index : index + 1);
}

static int add(struct plugin_devices *devices, const struct transport_properties *from, int index)
{
	struct plugin_device *device;
	int r;

	r = device_new(from, &device);
	if (r < 0)
		return r;
	serve(devices, devices->count, index);
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
			r = add(devices, &properties, i);
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

/* ---------------------------------------------------------------------------------------------------- opened once more */

struct carriers {
	struct transport_properties at[PLUGIN_MAX_DEVICES];
	unsigned used[PLUGIN_MAX_DEVICES]; /* how many devices it carries */
	int count;
};

static int read_carriers(const struct transport_ops *ops, struct transport *transport, struct carriers *ret)
{
	int found = ops->device_count(transport), r = 0;

	ret->count = found < PLUGIN_MAX_DEVICES ? found : PLUGIN_MAX_DEVICES;
	for (int i = 0; i < ret->count && r == 0; i++) {
		ret->used[i] = 0;
		r = ops->device_properties(transport, i, &ret->at[i]);
	}
	return r;
}

/* By its name, else, renamed, by its card and port, as long as no other device has that. */
static int same_carrier(const struct plugin_device *device, const struct carriers *carriers, bool by_name)
{
	for (int i = 0; i < carriers->count; i++) {
		const struct transport_properties *at = &carriers->at[i];

		if (by_name ? !strcmp(at->name, device->name)
			    : !carriers->used[i] && at->guid == device->properties.guid &&
				      at->port == device->properties.port)
			return i;
	}
	return -1;
}

/*
 * In place of a device that has gone: of those that NCCL knows one that fewest use; a new one, whose network may lead
 * elsewhere, only where no other is left. -1: there is none.
 */
static int other_carrier(const struct carriers *carriers)
{
	int best = carriers->count - 1;

	for (int i = carriers->count - 2; i >= 0; i--)
		if (!carriers->used[best] || (carriers->used[i] && carriers->used[i] <= carriers->used[best]))
			best = i;
	return best;
}

static void say_carrier(struct plugin_device *device, const char *name, bool is_same)
{
	if (!strcmp(device->carrier, name))
		return;
	if (is_same)
		log_info(LOG_INIT, "Tributary: network device %s is there again, by the name %s", device->name, name);
	else
		log_warn("network device %s has gone since NCCL was told of it: %s%s carries its traffic", device->name,
			 *name ? "" : "nothing", name);
	snprintf(device->carrier, sizeof(device->carrier), "%s", name);
}

static void serve_physical(struct plugin_devices *devices, struct carriers *carriers)
{
	int carrier[PLUGIN_MAX_DEVICES];

	for (int i = 0; i < PLUGIN_MAX_DEVICES; i++)
		carrier[i] = -1;
	for (int by_name = 1; by_name >= 0; by_name--)
		for (int i = 0; i < devices->physical_count; i++) {
			if (carrier[i] >= 0)
				continue;
			carrier[i] = same_carrier(devices->list[i], carriers, by_name);
			if (carrier[i] >= 0)
				carriers->used[carrier[i]]++;
		}
	for (int i = 0; i < devices->physical_count; i++) {
		const bool is_same = carrier[i] >= 0;

		if (is_same)
			take_numbers(devices->list[i], &carriers->at[carrier[i]]);
		else
			carrier[i] = other_carrier(carriers);
		if (!is_same && carrier[i] >= 0)
			carriers->used[carrier[i]]++;
		say_carrier(devices->list[i], carrier[i] < 0 ? "" : carriers->at[carrier[i]].name, is_same);
		serve(devices, i, carrier[i] < 0 ? -ENETDOWN : carrier[i]);
	}
}

/* Which of the transport's devices the members are, each once. */
static int members_now(const struct plugin_devices *devices, int count, const int *members, int *ret)
{
	int now = 0;

	for (int i = 0; i < count; i++) {
		int index = plugin_devices_served(devices, members[i]), k = 0;

		while (k < now && ret[k] != index)
			k++;
		if (index >= 0 && k == now)
			ret[now++] = index;
	}
	return now;
}

static int join_again(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport,
		      int i)
{
	struct plugin_device *device = devices->list[i];
	int members[PLUGIN_MAX_JOIN], index, r = 0;
	int count = members_now(devices, device->properties.member_count, device->properties.members, members);
	struct transport_properties now = { .name = NULL };

	if (count > 1)
		r = ops->device_join(transport, count, members, &index);
	else
		index = count ? members[0] : -ENETDOWN;
	if (r == 0 && count == device->properties.member_count)
		r = ops->device_properties(transport, index, &now);
	if (r < 0)
		return r;
	if (count == device->properties.member_count)
		take_numbers(device, &now);
	serve(devices, i, index);
	return 0;
}

int plugin_devices_refresh(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport)
{
	struct carriers carriers = { .count = 0 };
	int r;

	if (!devices->known)
		return learn(devices, ops, transport);
	r = read_carriers(ops, transport, &carriers);
	if (r == 0)
		serve_physical(devices, &carriers);
	for (int i = devices->physical_count; i < devices->count && r == 0; i++)
		r = join_again(devices, ops, transport, i);
	return r;
}

static int find_joined(const struct plugin_devices *devices, int count, const int *members)
{
	for (int i = 0; i < devices->count; i++) {
		const struct plugin_net_properties *at = &devices->list[i]->properties;

		if (at->member_count == count && !memcmp(at->members, members, (size_t)count * sizeof(*members)))
			return i;
	}
	return -1;
}

int plugin_devices_join(struct plugin_devices *devices, const struct transport_ops *ops, struct transport *transport,
			int count, const int *members, int *ret_device)
{
	struct transport_properties properties;
	int device, index, now[PLUGIN_MAX_JOIN], r;

	if (count < 1 || count > PLUGIN_MAX_JOIN)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		if (members[i] < 0 || members[i] >= devices->physical_count)
			return -EINVAL;
	}
	device = find_joined(devices, count, members);
	if (device < 0) {
		/* Asked first: the transport cannot take a joined device back. */
		if (devices->count == PLUGIN_MAX_DEVICES)
			return -ENOSPC;
		if (members_now(devices, count, members, now) != count) /* some have gone */
			return -EOPNOTSUPP;
		r = ops->device_join(transport, count, now, &index);
		if (r == 0)
			r = ops->device_properties(transport, index, &properties);
		if (r == 0) {
			memcpy(properties.members, members, (size_t)count * sizeof(*members));
			device = devices->count;
			r = add(devices, &properties, index);
		}
		if (r < 0)
			return r;
	}
	*ret_device = device;
	return 0;
}

int plugin_devices_served(const struct plugin_devices *devices, int device)
{
	int served = device < 0 || device >= PLUGIN_MAX_DEVICES ? 0 : atomic_load(&devices->served[device]);

	return served > 0 ? served - 1 : served < 0 ? served : -EINVAL;
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
