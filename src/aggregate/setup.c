/* SPDX-License-Identifier: Apache-2.0 */
/* Groups are made and unmade: memory, and who is where. */
#include "aggregate/group.h"
#include "aggregate/aggregators.h"
#include "base/sys.h"

#include <errno.h>

int group_new(struct aggregate_engine *engine, int device, size_t count, struct group **ret)
{
	size_t queues = 2 * count + AGGREGATORS_MAX;
	struct group *group = sys_zalloc(sizeof(*group));

	if (!group)
		return -ENOMEM;
	pthread_mutex_init(&group->lock, NULL);
	group->engine = engine;
	group->device = device;
	group->count = group->node_count = count;
	STAILQ_INIT(&group->small);
	STAILQ_INIT(&group->segmented);
	STAILQ_INIT(&group->ready);
	group->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(group->members, count),
								SYS_ARRAY(group->out, queues),
								SYS_ARRAY(group->in, queues) },
					  3);
	if (!group->arrays) {
		group_free(group);
		return -ENOMEM;
	}
	for (size_t i = 0; i < queues; i++) {
		queue_init(&group->out[i], engine->setup.ops, true);
		queue_init(&group->in[i], engine->setup.ops, false);
	}
	*ret = group;
	return 0;
}

void group_close(struct group *group)
{
	queue_close_all(group);
	aggregators_close(group);
}

void group_free(struct group *group)
{
	if (!group)
		return;
	group_close(group);
	for (size_t i = 0; i < AGGREGATE_MAX_REQUESTS; i++)
		sys_free(group->operations[i].kept);
	commit_fini(group);
	segment_fini(group);
	small_fini(group);
	schedule_free(group->schedule);
	sys_free(group->places);
	sys_free(group->arrays);
	pthread_mutex_destroy(&group->lock);
	sys_free(group);
}

static bool same_leaf(const struct member_wire_facts *a, const struct member_wire_facts *b)
{
	/* A host that the cluster file does not name is a leaf of its own. */
	return a->host_id == b->host_id || (a->leaf == b->leaf && a->leaf != AGGREGATE_LEAF_UNKNOWN);
}

/* Hosts and leaves, numbered by first appearance. */
static void number_members(struct group *group)
{
	for (size_t i = 0; i < group->count; i++) {
		struct group_member *member = &group->members[i];
		size_t k;

		for (k = 0; k < i && group->members[k].facts.host_id != member->facts.host_id;)
			k++;
		member->host = k < i ? group->members[k].host : (uint16_t)group->host_count++;
		for (k = 0; k < i && !same_leaf(&group->members[k].facts, &member->facts);)
			k++;
		member->leaf = k < i ? group->members[k].leaf : (uint16_t)group->leaf_count++;
	}
}

static int list_members(struct group *group)
{
	size_t used = 0;

	group->places = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(group->host_members, group->count),
								SYS_ARRAY(group->leaf_hosts, group->count),
								SYS_ARRAY(group->host_begin, group->host_count + 1),
								SYS_ARRAY(group->leaf_begin, group->leaf_count + 1) },
					  4);
	if (!group->places)
		return -ENOMEM;
	for (size_t host = 0; host < group->host_count; host++) {
		group->host_begin[host] = (uint16_t)used;
		for (size_t i = 0; i < group->count; i++)
			if (group->members[i].host == host)
				group->host_members[used++] = (uint16_t)i;
	}
	group->host_begin[group->host_count] = (uint16_t)used;
	used = 0;
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++) {
		group->leaf_begin[leaf] = (uint16_t)used;
		for (size_t host = 0; host < group->host_count; host++)
			if (group->members[group->host_members[group->host_begin[host]]].leaf == leaf)
				group->leaf_hosts[used++] = (uint16_t)host;
	}
	group->leaf_begin[group->leaf_count] = (uint16_t)used;
	return 0;
}

int group_settle(struct group *group)
{
	int r;

	number_members(group);
	r = list_members(group);
	small_settle(group);
	if (r == 0)
		r = group_plan(group, 0);
	if (r == 0)
		r = segment_init(group);
	if (r == 0)
		r = small_init(group);
	if (r == 0)
		group_find_facts(group);
	return r;
}
