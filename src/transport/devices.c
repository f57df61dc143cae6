/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/devices.h"

#include "base/params.h"
#include "transport/pace/pace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PACE_QUANTUM = 32 << 10 };

void transport_devices_init(struct transport_devices *devices, pthread_mutex_t *lock,
			    void (*describe)(struct transport *transport, int index))
{
	devices->lock = lock;
	devices->describe = describe;
	pthread_mutex_init(&devices->pace_lock, NULL);
}

void transport_devices_add(struct transport_devices *devices, const char *name)
{
	int index = devices->count;
	struct transport_device *device = &devices->list[index];

	snprintf(device->name, sizeof(device->name), "%s", name);
	device->rail_count = 1;
	device->members[0] = index;
	devices->describe((struct transport *)devices, index);
	devices->count = devices->physical_count = index + 1;
}

static struct transport_devices *devices_of(struct transport *transport)
{
	return (struct transport_devices *)transport;
}

int transport_devices_count(struct transport *transport)
{
	struct transport_devices *devices = devices_of(transport);
	int count;

	pthread_mutex_lock(devices->lock);
	count = devices->count;
	pthread_mutex_unlock(devices->lock);
	return count;
}

int transport_devices_properties(struct transport *transport, int index, struct transport_properties *ret)
{
	if (index < 0 || index >= transport_devices_count(transport))
		return -EINVAL;
	*ret = devices_of(transport)->list[index].properties;
	return 0;
}

static bool same_members(const struct transport_device *device, int count, const int *members)
{
	if (device->rail_count != (unsigned)count)
		return false;
	for (int i = 0; i < count; i++)
		if (device->members[i] != members[i])
			return false;
	return true;
}

static bool are_members(const struct transport_devices *devices, int count, const int *members)
{
	for (int i = 0; i < count; i++) {
		if (members[i] < 0 || members[i] >= devices->physical_count)
			return false;
		for (int k = 0; k < i; k++)
			if (members[k] == members[i])
				return false;
	}
	return true;
}

/* False: too long. */
static bool put_name(const struct transport_devices *devices, struct transport_device *device)
{
	size_t used = 0;

	for (unsigned i = 0; i < device->rail_count; i++) {
		const char *name = devices->list[device->members[i]].name;
		size_t bytes = strlen(name), plus = i > 0;

		if (used + plus + bytes >= sizeof(device->name))
			return false;
		memcpy(device->name + used, "+", plus);
		memcpy(device->name + used + plus, name, bytes + 1);
		used += plus + bytes;
	}
	return true;
}

static int join_locked(struct transport_devices *devices, int count, const int *members, int *ret_index)
{
	struct transport_device *device;

	if (!are_members(devices, count, members))
		return -EINVAL;
	for (int i = 0; i < devices->count; i++)
		if (same_members(&devices->list[i], count, members)) {
			*ret_index = i;
			return 0;
		}
	if (devices->count == TRANSPORT_DEVICES_MAX)
		return -ENOSPC;
	device = &devices->list[devices->count];
	memset(device, 0, sizeof(*device));
	device->rail_count = (unsigned)count;
	memcpy(device->members, members, (size_t)count * sizeof(members[0]));
	if (!put_name(devices, device))
		return -EINVAL;
	devices->describe((struct transport *)devices, devices->count);
	*ret_index = devices->count++;
	return 0;
}

int transport_devices_join(struct transport *transport, int count, const int *members, int *ret_index)
{
	struct transport_devices *devices = devices_of(transport);
	int r;

	if (count < 1 || count > TRANSPORT_MAX_MEMBERS)
		return -EINVAL;
	pthread_mutex_lock(devices->lock);
	r = join_locked(devices, count, members, ret_index);
	pthread_mutex_unlock(devices->lock);
	return r;
}

static int make_pace(const struct transport_device *device, const struct params *params, bool in_flight_is_bounded,
		     struct pace **ret)
{
	struct pace_options options = {
		.speed_Bps = device->properties.speed_Bps,
		.port_Bps = device->properties.port_Bps,
		.most_budget_bytes = in_flight_is_bounded ? 0 : PACE_ALONE_BYTES,
		.fixed_budget_bytes = params->pace_budget_bytes,
		.quantum_bytes = PACE_QUANTUM,
		.enabled = params->pace,
		.device_name = device->name,
		.arbiter_directory = params->shared_dir,
	};

	return pace_new(&options, ret);
}

int transport_devices_pace(struct transport_devices *devices, int index, const struct params *params,
			   bool in_flight_is_bounded)
{
	struct transport_device *device = &devices->list[index];
	struct pace *pace;
	int r = 0;

	pthread_mutex_lock(&devices->pace_lock);
	pthread_mutex_lock(devices->lock);
	pace = device->pace;
	pthread_mutex_unlock(devices->lock);
	if (!pace) {
		r = make_pace(device, params, in_flight_is_bounded, &pace);
		pthread_mutex_lock(devices->lock);
		if (r == 0)
			device->pace = pace;
		pthread_mutex_unlock(devices->lock);
	}
	pthread_mutex_unlock(&devices->pace_lock);
	return r;
}

void transport_devices_tick(struct transport_devices *devices, uint64_t now_ns)
{
	for (int i = 0; i < devices->count; i++)
		if (devices->list[i].pace)
			pace_tick(devices->list[i].pace, now_ns);
}

void transport_devices_fini(struct transport_devices *devices)
{
	for (int i = 0; i < devices->count; i++)
		pace_free(devices->list[i].pace);
	pthread_mutex_destroy(&devices->pace_lock);
}
