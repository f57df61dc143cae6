/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/nets.h"

#include "base/clock.h"
#include "base/parse.h"
#include "plugin/state.h"
#include "transport/transport.h"
#include "transport/verbs/api.h"
#include "transport/verbs/facts.h"

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

/* Those that NCCL_IB_HCA leaves, in no order. False: more than can be told apart here. */
static bool take_ports(const struct plugin_choice *choice, struct steer_nets *nets)
{
	const char *hca = getenv("NCCL_IB_HCA");

	if (choice->active_ports > PLUGIN_PORTS_MAX)
		return false;
	for (unsigned i = 0; i < choice->active_ports; i++) {
		const struct plugin_port *port = &choice->ports[i];

		if (!parse_list_wants(hca ? hca : "", port->device, port->number))
			continue;
		snprintf(nets->at[nets->count].name, sizeof(nets->at[0].name), "%.63s", port->device);
		snprintf(nets->at[nets->count].bus_id, sizeof(nets->at[0].bus_id), "%.23s", port->bus_id);
		nets->count++;
	}
	return true;
}

/* What libibverbs lists, in its order, and this process may open. */
static size_t list_devices(char (*ret)[TOPOLOGY_NAME_BYTES], size_t room)
{
	struct diag diag;
	const struct verbs_api *api = verbs_api_open(&diag);
	struct ibv_device **list = api ? api->get_device_list(NULL) : NULL;
	size_t count = 0;

	for (size_t i = 0; list && list[i] && count < room; i++) {
		char path[64 + sizeof(list[i]->dev_name)];

		snprintf(path, sizeof(path), "/dev/infiniband/%s", list[i]->dev_name);
		if (access(path, R_OK | W_OK) == 0)
			snprintf(ret[count++], sizeof(ret[0]), "%.63s", api->get_device_name(list[i]));
	}
	if (list)
		api->free_device_list(list);
	return count;
}

/* NCCL joins what is on one bus: ports of one card, and virtual functions. */
static bool is_behind(const char *bus_id, const char *before)
{
	const char *device = strrchr(bus_id, ':');

	return device && strcmp(bus_id, before) > 0 && strncmp(bus_id, before, (size_t)(device - bus_id)) != 0;
}

const char *steer_nets_order(const char (*listed)[TOPOLOGY_NAME_BYTES], size_t listed_count, struct steer_nets *nets)
{
	size_t done = 0;

	for (size_t i = 0; i < listed_count; i++)
		for (size_t k = done; k < nets->count; k++) {
			const struct steer_net kept = nets->at[k];

			if (strcmp(kept.name, listed[i]) != 0)
				continue;
			if (!kept.bus_id[0] || (done && !is_behind(kept.bus_id, nets->at[done - 1].bus_id)))
				return "how NCCL numbers its own devices is not known";
			nets->at[k] = nets->at[done];
			nets->at[done++] = kept;
		}
	return done == nets->count ? NULL : "not all of the active RDMA ports can be opened here";
}

/*
 * NCCL's own InfiniBand numbers its devices in the order of libibverbs's list (2.28) or of their PCI addresses (2.29.7 and
 * later). Where these are the same, and no two ports would be joined, so are the numbers.
 * nccl: transport/net_ib.cc, transport/net_ib/init.cc
 */
static void know_rdma(const struct plugin_choice *choice, struct steer_nets *nets)
{
	_Static_assert((int)PLUGIN_PORTS_MAX == (int)PLAN_NICS_MAX, "each has a place in nets");
	char listed[2 * PLAN_NICS_MAX][TOPOLOGY_NAME_BYTES];
	const char *why = NULL;

	if (!take_ports(choice, nets))
		why = "how NCCL numbers its own devices is not known";
	else if (!nets->count)
		know_sockets(nets);
	else if (nets->count > 1)
		why = steer_nets_order(listed, list_devices(listed, 2 * PLAN_NICS_MAX), nets);
	if (!why)
		return;
	nets->count = 0;
	say_why(nets, why);
}

/* Names and ports alone; NCCL 2.30 takes rails and planes there, too. */
static bool is_plain(const char *hca)
{
	for (const char *colon = strchr(hca, ':'); colon; colon = strchr(colon + 1, ':'))
		if (colon[1 + strcspn(colon + 1, ":,")] == ':')
			return false;
	return true;
}

/* Its settings can hide or join devices. */
static void know_nccls(struct steer_nets *nets)
{
	static const char *const settings[] = { "NCCL_IB_DISABLE",      "NCCL_NET",
						"NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE",
						"NCCL_IB_DATA_DIRECT",  "NCCL_IB_HCA" };
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
		const char *value = getenv(settings[i]);

		if (!value || (!strcmp(settings[i], "NCCL_IB_HCA") && is_plain(value)))
			continue;
		snprintf(nets->why, sizeof(nets->why), "how NCCL numbers its devices under %s is not known: unset it",
			 settings[i]);
		return;
	}
	know_rdma(choice, nets);
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
