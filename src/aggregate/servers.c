/* The servers of a group that works: what their control connections say, and what they have a part in. */
#include "aggregate/servers.h"

#include "base/clock.h"
#include "base/params.h"
#include "base/sys.h"

#define LOOKS 20 /* at control connections, in each time-out */

void servers_turn(struct group *group, uint64_t now_ns)
{
	struct group_servers *servers = group->servers;

	if (group->broken ||
	    clock_elapsed_ns(servers->looked_ns, now_ns) < params_replace_ns(group->engine->setup.params) / LOOKS)
		return;
	servers->looked_ns = now_ns;
	for (size_t i = 0; i < servers->count; i++) {
		struct group_server *server = &servers->servers[i];

		if (!server->client)
			continue;
		switch (control_client_step(server->client, &servers->answer)) {
		case CONTROL_EVENT_LOST:
		case CONTROL_EVENT_FAILURE:
			servers_suspect(group, i, servers->answer.sentence);
			break;
		case CONTROL_EVENT_DRAIN:
			server->leaves = true;
			break;
		default:
			break;
		}
	}
	servers_carry_out(group);
}

void servers_hang_up(struct group *group)
{
	for (size_t i = 0; group->servers && i < group->servers->count; i++) {
		control_client_close(group->servers->servers[i].client);
		group->servers->servers[i].client = NULL;
	}
}

void servers_close(struct group *group)
{
	servers_hang_up(group);
	sys_free(group->servers);
	group->servers = NULL;
}

/* Which servers have a part in a segment: the root, and the leaders of the leaves. */
static void note(struct group *group, uint16_t node, struct segment *segment)
{
	if (node == SCHEDULE_NONE || !node_is_server(group, node))
		return;
	group->servers->servers[node - group->count].previous = segment->number;
	segment->servers |= UINT32_C(1) << (node - group->count);
}

static uint64_t previous_of(const struct group *group, uint16_t node)
{
	return node_is_server(group, node) ? group->servers->servers[node - group->count].previous : SERVER_WIRE_NONE;
}

void servers_note_segment(struct group *group, const struct schedule_segment *plan, struct segment *segment)
{
	uint16_t leaf_node;

	segment->servers = 0;
	if (!group->servers)
		return;
	leaf_node = plan->leaf_node[group->members[group->self].leaf];
	segment->root_leaf = plan->root_leaf;
	segment->leaf_previous = previous_of(group, leaf_node);
	segment->root_previous = previous_of(group, plan->root);
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++)
		note(group, plan->leaf_node[leaf], segment);
	note(group, plan->root, segment);
}

static size_t hosts_of(const struct group *group, size_t leaf)
{
	return (size_t)group->leaf_begin[leaf + 1] - group->leaf_begin[leaf];
}

bool servers_head(const struct group *group, const struct segment *segment, struct server_wire_head *ret,
		  uint16_t *ret_node)
{
	uint16_t leaf = group->members[group->self].leaf, host = group->members[group->self].host, index = 0;
	bool root_is_server = node_is_server(group, segment->root_node);

	if (!group->servers)
		return false;
	*ret = (struct server_wire_head){ .number = segment->number,
					  .bytes = (uint32_t)segment->bytes,
					  .type = (uint8_t)segment->operation->type,
					  .operation = (uint8_t)segment->operation->operation,
					  .root = segment->root_node,
					  .servers = segment->servers };
	if (segment->stages[STAGE_HOST].mine && node_is_server(group, segment->leaf_node)) {
		while (group->leaf_hosts[group->leaf_begin[leaf] + index] != host)
			index++;
		ret->previous = segment->leaf_previous;
		ret->stage = SERVER_STAGE_LEAF;
		ret->index = index;
		ret->leaf_inputs = (uint16_t)hosts_of(group, leaf);
		ret->root_inputs = segment->leaf_node == segment->root_node ? (uint16_t)group->leaf_count : 0;
		ret->own_index = leaf;
		*ret_node = segment->leaf_node;
		return true;
	}
	if (!segment->stages[STAGE_LEAF].mine || !root_is_server)
		return false;
	ret->previous = segment->root_previous;
	ret->stage = SERVER_STAGE_ROOT;
	ret->index = leaf;
	ret->leaf_inputs = (uint16_t)hosts_of(group, segment->root_leaf);
	ret->root_inputs = (uint16_t)group->leaf_count;
	ret->own_index = segment->root_leaf;
	*ret_node = segment->root_node;
	return true;
}
