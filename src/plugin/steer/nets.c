#include "plugin/steer/nets.h"

#include "base/clock.h"
#include "plugin/state.h"
#include "transport/transport.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say_why(struct steer_nets *nets, const char *why)
{
	snprintf(nets->why, sizeof(nets->why), "%s", why);
}

/* NCCL takes its sockets where it finds no RDMA port. */
static void know_sockets(struct steer_nets *nets)
{
	const struct params_source environment = params_from_environment();
	struct ifaddrs *list = NULL;
	char names[PLAN_NICS_MAX][IFNAMSIZ];
	const char *why;
	size_t count;

	if (getifaddrs(&list) < 0) {
		say_why(nets, "the interfaces of this host cannot be listed");
		return;
	}
	why = steer_nets_sockets(list, &environment, names, &count);
	freeifaddrs(list);
	if (why) {
		say_why(nets, why);
		return;
	}
	nets->sockets = true;
	nets->count = count;
	for (size_t i = 0; i < count; i++)
		memcpy(nets->at[i].name, names[i], IFNAMSIZ);
}

/*
 * NCCL numbers its own InfiniBand devices by an order that differs between its versions, so only a single active port has
 * a number that is sure: 0. Its settings can hide or rename ports.
 */
static void know_nccls(struct steer_nets *nets)
{
	static const char *const settings[] = { "NCCL_IB_HCA", "NCCL_IB_DISABLE", "NCCL_NET", "NCCL_NET_MERGE_LEVEL" };
	const char *plugins = getenv("NCCL_NET_PLUGIN"), *no_ib = getenv("NCCL_IB_DISABLE");
	const struct plugin_choice *choice = plugin_state_choice();

	if (plugins && strchr(plugins, ',')) {
		say_why(nets, "which of the NCCL_NET_PLUGINs NCCL takes is not known");
		return;
	}
	if (!getenv("NCCL_NET") && (!choice->active_ports || (no_ib && !strcmp(no_ib, "1")))) {
		know_sockets(nets);
		return;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (getenv(settings[i])) {
			snprintf(nets->why, sizeof(nets->why),
				 "how NCCL numbers its devices under %s is not known: unset it", settings[i]);
			return;
		}
	}
	if (choice->active_ports != 1) {
		say_why(nets, "how NCCL numbers its own devices is not known");
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

/* One of ours: the device's own number, or that of the joined device that holds it. */
static int device_of_ours(const struct steer_machine *machine, const struct steer_nets *nets, uint32_t nic, int count)
{
	int physical = -1, ret = 0;

	for (int i = 0; i < count; i++) {
		struct plugin_net_properties device;

		if (plugin_state_device(i, &device) < 0)
			continue;
		if (device.member_count > 1) {
			for (int k = 0; physical >= 0 && k < device.member_count; k++)
				if (device.members[k] == physical)
					ret = i;
			continue;
		}
		for (size_t k = 0; physical < 0 && k < nets->count; k++)
			if (!strncmp(nets->at[k].name, device.name, sizeof(nets->at[k].name) - 1) &&
			    steer_machine_nic(machine, nets, k) == nic)
				ret = physical = i;
	}
	return ret;
}

void steer_nets_devices(const struct steer_machine *machine, const struct steer_nets *nets,
			const struct plan_request *request, int ret[PLAN_NICS_MAX])
{
	int count = 0;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		ret[i] = 0;
	if (nets->ours && plugin_state_device_count(&count) < 0)
		return;
	for (size_t nic = 0; nic < request->nic_count; nic++) {
		if (nets->ours)
			ret[nic] = device_of_ours(machine, nets, request->nics[nic], count);
		for (size_t k = 0; !nets->ours && k < nets->count; k++)
			if (steer_machine_nic(machine, nets, k) == request->nics[nic])
				ret[nic] = (int)k;
	}
}
