/*
 * A server that is lost, or is told to end (docs/aggregation.md, Losing a server). Losses are noted wherever they show, also
 * in the midst of a connection's turn, and carried out between turns: only then are connections closed.
 */
#include "aggregate/servers.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

bool servers_any(const struct group *group)
{
	for (size_t i = 0; group->servers && i < group->servers->count; i++)
		if (group->servers->servers[i].used && !group->servers->servers[i].excluded)
			return true;
	return false;
}

uint32_t servers_used(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->servers->count; i++)
		set |= (uint32_t)group->servers->servers[i].used << i;
	return set;
}

uint32_t servers_lost(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->servers->count; i++)
		set |= (uint32_t)(group->servers->servers[i].suspected && !group->servers->servers[i].dismissed) << i;
	return set;
}

uint32_t servers_leaving(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->servers->count; i++)
		set |= (uint32_t)group->servers->servers[i].leaves << i;
	return set;
}

void servers_suspect(struct group *group, size_t index, const char *why)
{
	struct group_server *server = &group->servers->servers[index];

	if (server->suspected || !server->used)
		return;
	server->suspected = true;
	group->servers->stirred = true;
	group->progressed = true; /* the next turn is soon */
	snprintf(server->why, sizeof(server->why), "%s", why);
}

void servers_suspect_all(struct group *group, uint32_t set, const char *why)
{
	for (size_t i = 0; i < group->servers->count; i++)
		if (set & UINT32_C(1) << i)
			servers_suspect(group, i, why);
}

void servers_exclude(struct group *group, uint32_t set, uint64_t number)
{
	for (size_t i = 0; i < group->servers->count; i++) {
		struct group_server *server = &group->servers->servers[i];

		if (!(set & UINT32_C(1) << i) || server->excluded)
			continue;
		server->excluded = true;
		server->excluded_at = number;
	}
}

void servers_dismiss(struct group *group, uint64_t number)
{
	for (size_t i = 0; i < group->servers->count; i++) {
		struct group_server *server = &group->servers->servers[i];

		if (!server->excluded || server->excluded_at > number || server->suspected)
			continue;
		server->suspected = server->dismissed = true;
		group->servers->stirred = true;
	}
}

/* As the cluster file calls it. */
static void name_of(const struct group *group, const struct group_server *server, char *text, size_t room)
{
	const struct cluster *cluster = group->engine->setup.cluster;

	if (cluster && server->aggregator < cluster->aggregator_count)
		snprintf(text, room, "%s:%u", cluster->aggregators[server->aggregator].address,
			 cluster->aggregators[server->aggregator].port);
	else
		snprintf(text, room, "number %zu", (size_t)(server - group->servers->servers));
}

static void say(const struct group *group, const struct group_server *server)
{
	char name[128];

	name_of(group, server, name, sizeof(name));
	if (server->dismissed)
		log_info(LOG_NET, "aggregation over %zu hosts does without aggregator %s from now on: it ends",
			 group->host_count, name);
	else
		log_warn("aggregation over %zu hosts goes on without aggregator %s: %s", group->host_count, name,
			 server->why);
}

void servers_carry_out(struct group *group)
{
	struct group_servers *servers = group->servers;

	if (!servers || !servers->stirred)
		return;
	servers->stirred = false;
	for (size_t i = 0; i < servers->count; i++) {
		struct group_server *server = &servers->servers[i];

		if (!server->suspected || server->lost)
			continue;
		server->lost = true;
		say(group, server);
		lane_lose(lane_large(group, group->out, group->count + i));
		lane_lose(lane_large(group, group->in, group->count + i));
		control_client_close(server->client);
		server->client = NULL;
	}
	group->progressed = true;
}
