/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/choose.h"

#include "base/log.h"
#include "base/params.h"
#include "base/parse.h"
#include "plugin/net.h"
#include "transport/verbs/api.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const struct plugin_rdma_source plugin_rdma_here = { .root = "/sys/class/infiniband", .open = verbs_api_open };

static bool has_entries(const char *folder)
{
	DIR *dir = opendir(folder); /* close-on-exec by itself */
	struct dirent *entry = NULL;

	if (!dir)
		return false;
	do
		entry = readdir(dir);
	while (entry && entry->d_name[0] == '.');
	closedir(dir);
	return entry;
}

/* As NCCL reads a number; one that is too large is none. nccl: misc/param.cc */
static bool is_switched_off(const char *text)
{
	long long value;

	if (!text || !text[0])
		return false;
	errno = 0;
	value = strtoll(text, NULL, 0);
	return !errno && value;
}

static void note_port(const char *root, const char *device, struct plugin_rdma *ret)
{
	char link[PATH_MAX], target[PATH_MAX], *place;
	struct plugin_port *port;
	ssize_t bytes;

	if (ret->count++ >= PLUGIN_PORTS_MAX)
		return;
	port = &ret->ports[ret->count - 1];
	snprintf(port->device, sizeof(port->device), "%s", device);
	snprintf(link, sizeof(link), "%.2000s/%s/device", root, device);
	bytes = readlink(link, target, sizeof(target) - 1);
	target[bytes > 0 ? bytes : 0] = '\0';
	place = strrchr(target, '/');
	snprintf(port->bus_id, sizeof(port->bus_id), "%.23s", place ? place + 1 : "");
}

static void look_at(const struct verbs_api *api, const char *root, struct ibv_device *device, const char *hca,
		    struct plugin_rdma *ret)
{
	struct ibv_context *context = api->open_device(device);
	const char *name = api->get_device_name(device);
	struct ibv_device_attr attr = { 0 };

	if (!context)
		return;
	if (api->query_device(context, &attr) != 0)
		attr.phys_port_cnt = 0;
	for (unsigned number = 1; number <= attr.phys_port_cnt; number++) {
		struct ibv_port_attr port = { 0 };

		if (api->query_port(context, (uint8_t)number, &port) == 0 && port.state == IBV_PORT_ACTIVE &&
		    (port.link_layer == IBV_LINK_LAYER_INFINIBAND || port.link_layer == IBV_LINK_LAYER_ETHERNET) &&
		    parse_list_wants(hca ? hca : "", name, number))
			note_port(root, name, ret);
	}
	api->close_device(context);
}

void plugin_rdma_look(const struct plugin_rdma_source *from, struct plugin_rdma *ret)
{
	const struct verbs_api *api = NULL;
	struct ibv_device **list;
	int saved_errno = errno;
	struct diag unused;

	memset(ret, 0, sizeof(*ret));
	if (!is_switched_off(getenv("NCCL_IB_DISABLE")) && has_entries(from->root))
		api = from->open(&unused);
	list = api ? api->get_device_list(NULL) : NULL;
	for (size_t i = 0; list && list[i]; i++)
		look_at(api, from->root, list[i], getenv("NCCL_IB_HCA"), ret);
	if (list)
		api->free_device_list(list);
	errno = saved_errno;
}

void plugin_choose(const struct params *params, const struct plugin_rdma_source *from, struct plugin_choice *ret)
{
	const char *nccl_net = getenv("NCCL_NET");
	const bool is_named = nccl_net && !strcasecmp(nccl_net, PLUGIN_NET_NAME);

	memset(ret, 0, sizeof(*ret));
	if (params->disable) {
		snprintf(ret->reason, sizeof(ret->reason), "TRIBUTARY_DISABLE switches the plugin off");
		return;
	}
	if (params->net == NET_CHOICE_OFF && !is_named) {
		snprintf(ret->reason, sizeof(ret->reason), "TRIBUTARY_NET=off leaves the network to NCCL");
		return;
	}
	if (params->net == NET_CHOICE_AUTO) {
		plugin_rdma_look(from, &ret->rdma);
		ret->looked = true;
	}
	ret->ours = is_named || !ret->rdma.count;
	ret->wants_verbs = params->net == NET_CHOICE_VERBS;
	if (!ret->rdma.count)
		return;
	if (is_named)
		snprintf(ret->reason, sizeof(ret->reason),
			 "NCCL_NET=%.20s takes TCP and leaves RDMA device %.63s unused (TRIBUTARY_NET=verbs takes it)",
			 nccl_net, ret->rdma.ports[0].device);
	else
		snprintf(
			ret->reason, sizeof(ret->reason),
			"RDMA device %.63s is active, so the network is left to NCCL (TRIBUTARY_NET=tcp on all hosts takes it)",
			ret->rdma.ports[0].device);
}
