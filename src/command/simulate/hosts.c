/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts by name, as lists and hosts files have them. */
#include "command/simulate/simulation.h"

#include "base/log.h"
#include "base/parse.h"
#include "cluster/text.h"
#include "command/command.h"
#include "command/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTFILE_BYTES = 4 << 20 };

struct taking {
	struct simulate_fabric *fabric;
	uint32_t *hosts;
	size_t count;
	bool *used;
	const char *where;
	unsigned line; /* of a file; 0: there are none */
	int status;
};

static int refuse(struct taking *taking, const char *what, const char *name, size_t bytes, const char *more)
{
	char line[16] = "";

	if (taking->line)
		snprintf(line, sizeof(line), ":%u", taking->line);
	taking->status = command_failed(NULL, 0, "%.100s%s: %s %.*s%s", taking->where, line, what,
					(int)(bytes < 100 ? bytes : 100), name, more);
	return -ECANCELED;
}

static const char *host_name(const void *fabric, size_t index)
{
	return ((const struct simulate_fabric *)fabric)->host_names[index];
}

static int take(void *arg, const char *name, size_t bytes)
{
	struct taking *taking = arg;
	size_t host = command_find_host(name, bytes, host_name, taking->fabric, taking->fabric->host_count);

	if (host == taking->fabric->host_count)
		return refuse(taking, "there is no host", name, bytes, " in this cluster");
	/* A line for each rank names a host several times. */
	if (taking->count && taking->hosts[taking->count - 1] == host)
		return 0;
	if (taking->used[host])
		return refuse(taking, "the host", name, bytes,
			      " is named in two places; a host's ranks have to follow each other");
	/* What is printed is for the launcher that calls it so. */
	snprintf(taking->fabric->host_names[host], sizeof(taking->fabric->host_names[host]), "%.*s", (int)bytes, name);
	taking->used[host] = true;
	taking->hosts[taking->count++] = (uint32_t)host;
	return 0;
}

static int begin(struct taking *taking, struct simulate_fabric *fabric, uint32_t *hosts, const char *where)
{
	*taking = (struct taking){
		.fabric = fabric, .hosts = hosts, .used = calloc(fabric->host_count + 1, sizeof(bool)), .where = where
	};
	return taking->used ? COMMAND_OK : command_failed(NULL, ENOMEM, "the hosts cannot be read");
}

static int end(struct taking *taking, size_t *ret_count)
{
	if (taking->status == COMMAND_OK && !taking->count)
		taking->status = command_failed(NULL, 0, "%.100s names no host", taking->where);
	free(taking->used);
	*ret_count = taking->count;
	return taking->status;
}

int simulation_hosts_of_list(const char *list, struct simulate_fabric *fabric, uint32_t *ret, size_t *ret_count)
{
	struct cluster_word word = { list, strlen(list), 1, 1 };
	struct diag diag = { 0 };
	struct taking taking;

	if (begin(&taking, fabric, ret, "the list of hosts") != COMMAND_OK)
		return COMMAND_FAILED;
	if (cluster_expand(&word, "a host", &diag, take, &taking) == -EINVAL)
		taking.status = command_failed(&diag, 0, "the list of hosts is wrong");
	return end(&taking, ret_count);
}

/* The ranks of a host that its line says, "node1 slots=8" or "node1:8"; 0: it does not. */
static uint64_t slots_of(const char *line)
{
	const char *slots = strstr(line, "slots="), *colon = strchr(line, ':');
	uint64_t number;
	size_t bytes = strcspn(line, "#"); /* behind it is a comment */
	char text[16];

	if (slots && slots > line + bytes)
		slots = NULL;
	if (!slots && (!colon || colon > line + bytes))
		return 0;
	slots = slots ? slots + strlen("slots=") : colon + 1;
	snprintf(text, sizeof(text), "%.*s", (int)strspn(slots, "0123456789"), slots);
	return parse_u64(text, 1, 65536, &number) == 0 ? number : 0;
}

/* "node1 slots=8", "node1:8", or a line for each rank; '#' begins a comment. */
int simulation_hosts_of_file(const char *path, const char *hint, struct simulate_fabric *fabric, uint32_t *ret,
			     size_t *ret_count, uint64_t *ret_slots)
{
	uint64_t slots = 0;
	size_t bytes;
	char *text, *rest;
	struct taking taking;
	int status = file_load(path, HOSTFILE_BYTES, hint, &text, &bytes);

	if (status != COMMAND_OK)
		return status;
	if (begin(&taking, fabric, ret, path) != COMMAND_OK) {
		free(text);
		return COMMAND_FAILED;
	}
	rest = text;
	for (char *line; taking.status == COMMAND_OK && (line = strsep(&rest, "\n"));) {
		taking.line++;
		slots = slots ? slots : slots_of(line);
		line += strspn(line, " \t");
		line[strcspn(line, " \t\r:#")] = '\0';
		if (*line)
			take(&taking, line, strlen(line));
	}
	free(text);
	*ret_slots = slots;
	return end(&taking, ret_count);
}
