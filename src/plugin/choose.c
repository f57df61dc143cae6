#include "plugin/choose.h"

#include "base/params.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ATTRIBUTE_BYTES = 64 };

/* The text of a small file of sysfs, without its newline. */
static bool read_attribute(const char *folder, const char *name, char text[static ATTRIBUTE_BYTES])
{
	char path[PATH_MAX];
	int bytes = snprintf(path, sizeof(path), "%s/%s", folder, name);
	ssize_t got;
	int fd;

	if (bytes < 0 || (size_t)bytes >= sizeof(path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, ATTRIBUTE_BYTES - 1);
	close(fd);
	if (got < 0)
		return false;
	text[got] = '\0';
	parse_trim(text);
	return true;
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

/* The first entry of a folder for which `wanted` says yes. */
static bool find_entry(const char *folder, bool (*wanted)(const char *path), char found[static NAME_MAX + 1])
{
	DIR *dir = opendir(folder); /* close-on-exec by itself */
	struct dirent *entry;
	bool is_found = false;

	if (!dir)
		return false;
	while (!is_found && (entry = readdir(dir))) {
		char path[PATH_MAX];
		int bytes = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

		if (entry->d_name[0] == '.' || bytes < 0 || (size_t)bytes >= sizeof(path) || !wanted(path))
			continue;
		snprintf(found, NAME_MAX + 1, "%s", entry->d_name);
		is_found = true;
	}
	closedir(dir);
	return is_found;
}

static bool device_has_active_port(const char *device)
{
	char ports[PATH_MAX], port[NAME_MAX + 1];
	int bytes = snprintf(ports, sizeof(ports), "%s/ports", device);

	return bytes > 0 && (size_t)bytes < sizeof(ports) && find_entry(ports, port_is_active, port);
}

void plugin_choose(const struct params *params, const char *rdma_root, struct plugin_choice *ret)
{
	struct plugin_choice choice = { .ours = false };
	char device[NAME_MAX + 1];
	int saved_errno = errno;

	if (params->disable) {
		snprintf(choice.reason, sizeof(choice.reason), "TRIBUTARY_DISABLE switches the plugin off");
	} else if (params->net == NET_CHOICE_OFF) {
		snprintf(choice.reason, sizeof(choice.reason), "TRIBUTARY_NET=off leaves the network to NCCL");
	} else if (params->net == NET_CHOICE_AUTO && find_entry(rdma_root, device_has_active_port, device)) {
		snprintf(choice.reason, sizeof(choice.reason),
			 "RDMA device %.64s is active, so the network is left to NCCL (TRIBUTARY_NET=tcp takes it)",
			 device);
	} else {
		choice.ours = true;
		choice.wants_verbs = params->net == NET_CHOICE_VERBS;
	}
	errno = saved_errno;
	*ret = choice;
}
