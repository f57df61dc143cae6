#include "plugin/session/nets.h"

#include "base/clock.h"
#include "plugin/state.h"
#include "transport/transport.h"

#include <stdio.h>
#include <string.h>

void session_nets_know(struct session_nets *nets)
{
	int count = 0;

	*nets = (struct session_nets){ .ours = plugin_state_choice()->ours };
	if (!nets->ours || plugin_state_device_count(&count) < 0)
		return;
	for (int i = 0; i < count && nets->count < PLAN_NICS_MAX; i++) {
		struct plugin_net_properties device;
		const char *place;

		if (plugin_state_device(i, &device) < 0 || device.member_count > 1)
			continue;
		place = device.pci_path ? strrchr(device.pci_path, '/') : NULL;
		snprintf(nets->at[nets->count].name, sizeof(nets->at[0].name), "%.63s", device.name);
		snprintf(nets->at[nets->count].bus_id, sizeof(nets->at[0].bus_id), "%.23s", place ? place + 1 : "");
		nets->at[nets->count].speed_Bps = device.speed_Bps;
		if (device.latency_ns / NS_PER_US > nets->latency_us)
			nets->latency_us = (unsigned)(device.latency_ns / NS_PER_US);
		nets->reaches_gpu = nets->reaches_gpu ||
				    (device.memory & (TRANSPORT_MEMORY_CUDA | TRANSPORT_MEMORY_DMABUF)) != 0;
		nets->count++;
	}
}

void session_nets_devices(const struct session_setup *setup, const struct plan_request *request, int ret[PLAN_NICS_MAX])
{
	int count = 0;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		ret[i] = 0;
	if (plugin_state_device_count(&count) < 0)
		return;
	for (size_t nic = 0; nic < request->nic_count; nic++) {
		int physical = -1;

		for (int i = 0; i < count; i++) {
			struct plugin_net_properties device;

			if (plugin_state_device(i, &device) < 0)
				continue;
			if (device.member_count > 1) {
				for (int k = 0; physical >= 0 && k < device.member_count; k++)
					if (device.members[k] == physical)
						ret[nic] = i;
				continue;
			}
			for (size_t k = 0; physical < 0 && k < setup->nets.count; k++)
				if (!strncmp(setup->nets.at[k].name, device.name, sizeof(setup->nets.at[k].name) - 1) &&
				    session_machine_nic(&setup->machine, &setup->nets, k) == request->nics[nic])
					ret[nic] = physical = i;
		}
	}
}

unsigned session_nets_zeros(const struct session_nets *nets, bool joined_before)
{
	unsigned allowed = joined_before ? 1 : 2;
	int count = 0;

	if (plugin_state_device_count(&count) < 0)
		count = 0;
	for (int i = (int)nets->count; i < count; i++) {
		struct plugin_net_properties device;

		if (plugin_state_device(i, &device) < 0 || device.member_count < 2)
			continue;
		for (int k = 0; k < device.member_count; k++)
			allowed += device.members[k] == 0 ? 2 : 0;
	}
	return allowed;
}
