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
	group->servers->ready = true;
	group->progressed = true; /* the next turn is soon */
	log_sentence(server->why, sizeof(server->why), "%s", why);
}

void servers_suspect_all(struct group *group, uint32_t set, const char *why)
{
	for (size_t i = 0; i < group->servers->count; i++)
		if (set & UINT32_C(1) << i)
			servers_suspect(group, i, why);
}

void servers_let_go(struct group *group, uint32_t set)
{
	for (size_t i = 0; i < group->servers->count; i++)
		group->servers->servers[i].going |= (set & UINT32_C(1) << i) != 0;
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
		group->servers->ready = true;
	}
}

void servers_name(const struct group *group, const struct group_server *server, char *text, size_t room)
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

	servers_name(group, server, name, sizeof(name));
	/* Another member may be through with it sooner, and it ends then. */
	if (server->dismissed || server->going)
		log_info(LOG_NET, "aggregation over %zu hosts does without aggregator %s from now on: it ends",
			 group->host_count, name);
	else
		log_warn("aggregation over %zu hosts goes on without aggregator %s: %s", group->host_count, name,
			 server->why);
}

static void lose(struct group *group, size_t index)
{
	struct group_server *server = &group->servers->servers[index];

	server->lost = true;
	queue_lose(queue_large(group, group->out, group->count + index));
	queue_lose(queue_large(group, group->in, group->count + index));
	control_client_close(server->client);
	server->client = NULL;
	group->progressed = true;
}

/* Bit i: server i is lost, and is not one that has done its part and goes. */
static uint32_t losses(const struct group *group)
{
	uint32_t set = 0;

	for (size_t i = 0; i < group->servers->count; i++)
		set |= (uint32_t)(group->servers->servers[i].lost && !group->servers->servers[i].dismissed) << i;
	return set;
}

static void told(struct group *group, struct transfer *transfer);

/*
 * Those that stay hear of it: one may wait for another that is only silent, for a time of its own that is longer than
 * the members'.
 */
static void tell(struct group *group, struct group_server *to)
{
	uint32_t set = losses(group);

	if (!to->used || to->suspected || to->telling || !(set & ~to->told))
		return;
	to->telling = true;
	to->told = set;
	server_wire_put_lost(set, to->word_bytes);
	to->word = (struct transfer){ .data = to->word_bytes,
				      .bytes = SERVER_WIRE_LOST_BYTES,
				      .tag = server_tag(SERVER_TAG_HEAD, 0),
				      .class = TRANSFER_SMALL,
				      .done = told,
				      .owner = to };
	queue_add(queue_large(group, group->out, group->count + (size_t)(to - group->servers->servers)), &to->word);
}

static void told(struct group *group, struct transfer *transfer)
{
	struct group_server *to = transfer->owner;

	to->telling = false;
	tell(group, to);
}

void servers_carry_out(struct group *group)
{
	struct group_servers *servers = group->servers;

	if (!servers || !servers->ready)
		return;
	servers->ready = false;
	for (size_t i = 0; i < servers->count; i++) {
		struct group_server *server = &servers->servers[i];

		if (server->suspected && !server->lost)
			lose(group, i);
		if (!server->lost || server->said)
			continue;
		/* At the end of a job members close the group one after the other, and servers go with the first. */
		server->said = group->under_way || server->dismissed || server->going;
		if (server->said)
			say(group, server);
		servers->ready |= !server->said;
	}
	for (size_t i = 0; i < servers->count; i++)
		tell(group, &servers->servers[i]);
}
