#include "plugin/steer/nets.h"

#include "base/clock.h"
#include "plugin/state.h"
#include "transport/transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * NCCL numbers its own InfiniBand devices by an order that differs between its versions, so only a single active port has
 * a number that is sure: 0. Its settings can hide or rename ports.
 */
static void know_nccls(struct steer_nets *nets)
{
	static const char *const settings[] = { "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_MERGE_LEVEL" };
	const struct plugin_choice *choice = plugin_state_choice();

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (getenv(settings[i])) {
			snprintf(nets->why, sizeof(nets->why), "how NCCL numbers its devices under %s is not known: unset it",
				 settings[i]);
			return;
		}
	}
	if (choice->active_ports != 1) {
		snprintf(nets->why, sizeof(nets->why), "how NCCL numbers its own devices is not known");
		return;
	}
	snprintf(nets->at[0].name, sizeof(nets->at[0].name), "%.63s", choice->rdma_device);
	snprintf(nets->at[0].bus_id, sizeof(nets->at[0].bus_id), "%.23s", choice->rdma_bus_id);
	nets->count = 1;
}

void steer_nets_know(struct steer_nets *nets)
{
	int count = 0;

	*nets = (struct steer_nets){ .ours = plugin_state_choice()->ours };
	if (!nets->ours) {
		know_nccls(nets);
		return;
	}
	if (plugin_state_device_count(&count) < 0)
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

void steer_nets_devices(const struct steer_machine *machine, const struct steer_nets *nets,
			const struct plan_request *request, int ret[PLAN_NICS_MAX])
{
	int count = 0;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		ret[i] = 0;
	if (!nets->ours || plugin_state_device_count(&count) < 0)
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
			for (size_t k = 0; physical < 0 && k < nets->count; k++)
				if (!strncmp(nets->at[k].name, device.name, sizeof(nets->at[k].name) - 1) &&
				    steer_machine_nic(machine, nets, k) == request->nics[nic])
					ret[nic] = physical = i;
		}
	}
}
