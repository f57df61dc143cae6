/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of a group: what the engine moves itself, and what callers will post again and again. */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>

/* On the connection of the queue; the transport finds it for every other connection of the device. */
struct aggregate_memory {
	struct queue *queue;
	void *registration;
};

/* NULL: there is no other member. */
static struct queue *first_queue(struct group *group)
{
	for (size_t i = 0; i < 2 * group->count; i++)
		if (group->out[i].connection)
			return &group->out[i];
	return NULL;
}

static int register_at(struct queue *queue, void *data, size_t bytes, void **ret)
{
	return queue->ops->memory_register(queue->connection, data, bytes, TRANSPORT_MEMORY_HOST, ret);
}

void group_register_own(struct group *group)
{
	const size_t in_bytes = group->count * group->exchange_bytes;
	struct queue *queue = first_queue(group);
	void *registration; /* taken back with the connection */

	if (!queue)
		return;
	/* What fails here was said, and is tried again for each message. Words that go out are in the group itself. */
	(void)register_at(queue, group, sizeof(*group), &registration);
	if (group->messages)
		(void)register_at(queue, group->messages,
				  AGGREGATE_MAX_REQUESTS * group->count * sizeof(*group->messages), &registration);
	if (group->pool.memory)
		(void)register_at(queue, group->pool.memory, group->pool.count * group->pool.slot_bytes, &registration);
	for (size_t i = 0; group->exchanges && i < GROUP_FLAT_OPERATIONS; i++) {
		(void)register_at(queue, group->exchanges[i].out, group->exchange_bytes, &registration);
		(void)register_at(queue, group->exchanges[i].in, in_bytes, &registration);
	}
}

int aggregate_register(struct aggregate_group *opaque, void *data, size_t bytes, struct aggregate_memory **ret)
{
	struct group *group = (struct group *)opaque;
	struct aggregate_memory *memory = sys_zalloc(sizeof(*memory));
	int r = 0;

	if (!memory)
		return -ENOMEM;
	pthread_mutex_lock(&group->engine->drive);
	memory->queue = first_queue(group);
	if (memory->queue)
		r = register_at(memory->queue, data, bytes, &memory->registration);
	pthread_mutex_unlock(&group->engine->drive);
	if (r < 0) {
		sys_free(memory);
		return r;
	}
	*ret = memory;
	return 0;
}

void aggregate_deregister(struct aggregate_group *opaque, struct aggregate_memory *memory)
{
	struct group *group = (struct group *)opaque;

	if (!memory)
		return;
	pthread_mutex_lock(&group->engine->drive);
	/* A connection that has been closed has taken its registrations with it. */
	if (memory->queue && memory->queue->connection)
		memory->queue->ops->memory_deregister(memory->queue->connection, memory->registration);
	pthread_mutex_unlock(&group->engine->drive);
	sys_free(memory);
}
