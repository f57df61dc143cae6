/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/choose.h"

#include "base/params.h"
#include "base/parse.h"
#include "base/text_file.h"
#include "plugin/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { ATTRIBUTE_BYTES = 64 };

/* The text of a small file of sysfs, without its newline. */
static bool read_attribute(const char *folder, const char *name, char text[static ATTRIBUTE_BYTES])
{
	char path[PATH_MAX];
	int bytes = snprintf(path, sizeof(path), "%s/%s", folder, name);

	return bytes > 0 && (size_t)bytes < sizeof(path) && text_file_value(AT_FDCWD, path, text, ATTRIBUTE_BYTES) == 0;
}

static bool port_is_active(const char *port)
{
	char state[ATTRIBUTE_BYTES], layer[ATTRIBUTE_BYTES];

	/* "4: ACTIVE"; "5: ACTIVE_DEFER" is a link that has just failed. */
	if (!read_attribute(port, "state", state) || strcmp(state, "4: ACTIVE") != 0)
		return false;
	return read_attribute(port, "link_layer", layer) &&
	       (strcmp(layer, "Ethernet") == 0 || strcmp(layer, "InfiniBand") == 0);
}

static void note_port(const char *device, const char *name, const char *number, struct plugin_choice *ret)
{
	struct plugin_port *port;
	char link[PATH_MAX], target[PATH_MAX], *place;
	uint64_t value = 0;
	ssize_t bytes;

	if (ret->active_ports++ >= PLUGIN_PORTS_MAX || parse_u64(number, 0, UINT_MAX, &value) < 0)
		return;
	port = &ret->ports[ret->active_ports - 1];
	snprintf(port->device, sizeof(port->device), "%.63s", name);
	port->number = (unsigned)value;
	snprintf(link, sizeof(link), "%.4000s/device", device);
	bytes = readlink(link, target, sizeof(target) - 1);
	target[bytes > 0 ? bytes : 0] = '\0';
	place = strrchr(target, '/');
	snprintf(port->bus_id, sizeof(port->bus_id), "%.23s", place ? place + 1 : "");
}

static void look_for_ports(const char *device, const char *name, struct plugin_choice *ret)
{
	char ports[PATH_MAX], port[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(ports, sizeof(ports), "%.4000s/ports", device);
	dir = opendir(ports); /* close-on-exec by itself */
	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    snprintf(port, sizeof(port), "%s/%s", ports, entry->d_name) < (int)sizeof(port) &&
		    port_is_active(port))
			note_port(device, name, entry->d_name, ret);
	closedir(dir);
}

static void look_for_rdma(const char *root, struct plugin_choice *ret)
{
	DIR *dir = opendir(root);
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		char path[PATH_MAX];

		if (entry->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", root, entry->d_name) < (int)sizeof(path))
			look_for_ports(path, entry->d_name, ret);
	}
	closedir(dir);
}

void plugin_choose(const struct params *params, const char *nccl_net, const char *rdma_root, struct plugin_choice *ret)
{
	const bool is_named = nccl_net && !strcasecmp(nccl_net, PLUGIN_NET_NAME);
	struct plugin_choice choice = { .ours = false };
	int saved_errno = errno;

	if (!params->disable)
		look_for_rdma(rdma_root, &choice);
	if (params->disable) {
		snprintf(choice.reason, sizeof(choice.reason), "TRIBUTARY_DISABLE switches the plugin off");
	} else if (params->net == NET_CHOICE_OFF && !is_named) {
		snprintf(choice.reason, sizeof(choice.reason), "TRIBUTARY_NET=off leaves the network to NCCL");
	} else if (params->net == NET_CHOICE_AUTO && choice.active_ports && !is_named) {
		snprintf(choice.reason, sizeof(choice.reason),
			 "RDMA device %.64s is active, so the network is left to NCCL (TRIBUTARY_NET=tcp takes it)",
			 choice.ports[0].device);
	} else {
		choice.ours = true;
		choice.wants_verbs = params->net == NET_CHOICE_VERBS;
	}
	errno = saved_errno;
	*ret = choice;
}
