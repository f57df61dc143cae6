/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/nets.h"

#include "base/clock.h"
#include "plugin/state.h"
#include "transport/transport.h"

#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* NCCL joins what is on one bus: ports of one card, and virtual functions. */
static bool is_behind(const char *bus_id, const char *before)
{
	const char *device = strrchr(bus_id, ':');

	return device && strcmp(bus_id, before) > 0 && strncmp(bus_id, before, (size_t)(device - bus_id)) != 0;
}

const char *steer_nets_order(const struct steer_nets *nets)
{
	for (size_t i = 1; i < nets->count; i++)
		if (!nets->at[0].bus_id[0] || !is_behind(nets->at[i].bus_id, nets->at[i - 1].bus_id))
			return "how NCCL numbers its own devices is not known";
	return NULL;
}

/*
 * NCCL's own InfiniBand numbers its devices in the order of libibverbs's list (2.28) or of their PCI addresses (2.29.7 and
 * later). Where these are the same, and no two ports would be joined, so are the numbers.
 * nccl: transport/net_ib.cc, transport/net_ib/init.cc
 */
static void know_rdma(const struct plugin_rdma *rdma, struct steer_nets *nets)
{
	_Static_assert((int)PLUGIN_PORTS_MAX == (int)PLAN_NICS_MAX, "each has a place in nets");
	const char *why = rdma->count > PLUGIN_PORTS_MAX ? "this host has too many RDMA ports" : NULL;

	for (unsigned i = 0; !why && i < rdma->count; i++) {
		snprintf(nets->at[i].name, sizeof(nets->at[0].name), "%s", rdma->ports[i].device);
		snprintf(nets->at[i].bus_id, sizeof(nets->at[0].bus_id), "%s", rdma->ports[i].bus_id);
		nets->count++;
	}
	if (!why)
		why = steer_nets_order(nets);
	if (!why)
		return;
	nets->count = 0;
	say_why(nets, why);
}

/* Its settings can hide or join devices. */
static void know_nccls(struct steer_nets *nets)
{
	static const char *const settings[] = { "NCCL_NET", "NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE",
						"NCCL_IB_DATA_DIRECT" };
	const char *plugins = getenv("NCCL_NET_PLUGIN");
	const struct plugin_rdma *rdma;

	if (plugins && strchr(plugins, ',')) {
		say_why(nets, "which of the NCCL_NET_PLUGINs NCCL takes is not known");
		return;
	}
	rdma = plugin_state_rdma();
	if (!getenv("NCCL_NET") && !rdma->count) {
		know_sockets(nets);
		return;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (!getenv(settings[i]))
			continue;
		snprintf(nets->why, sizeof(nets->why), "how NCCL numbers its devices under %s is not known: unset it",
			 settings[i]);
		return;
	}
	know_rdma(rdma, nets);
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
		nets->at[nets->count].device = i;
		if (device.latency_ns / NS_PER_US > nets->latency_us)
			nets->latency_us = (unsigned)(device.latency_ns / NS_PER_US);
		nets->reaches_gpu = nets->reaches_gpu ||
				    (device.memory & (TRANSPORT_MEMORY_CUDA | TRANSPORT_MEMORY_DMABUF)) != 0;
		nets->count++;
	}
}

/* What NCCL has joined it to, which it does behind the first init; or itself. */
static int joined(int physical)
{
	struct plugin_net_properties device;
	int count = 0, ret = physical;

	(void)plugin_state_device_count(&count);
	for (int i = 0; i < count; i++)
		if (plugin_state_device(i, &device) == 0 && device.member_count > 1)
			for (int k = 0; k < device.member_count; k++)
				ret = device.members[k] == physical ? i : ret;
	return ret;
}

void steer_nets_devices(const struct steer_machine *machine, const struct steer_nets *nets,
			const struct plan_request *request, int ret[PLAN_NICS_MAX])
{
	memset(ret, 0, PLAN_NICS_MAX * sizeof(ret[0]));
	for (size_t nic = 0; nic < request->nic_count; nic++)
		for (size_t k = 0; k < nets->count; k++)
			if (steer_machine_nic(machine, nets, k) == request->nics[nic])
				ret[nic] = nets->ours ? joined(nets->at[k].device) : (int)k;
}
