/* SPDX-License-Identifier: Apache-2.0 */
/* What callers do with a group: they post operations, ask for them, and close it. They wait for no lock but in closing. */
#include "aggregate/group.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>

/* Of a copied input: more is given back when its operation is done. */
#define KEPT_FOR_GOOD_BYTES ((size_t)8 << 20)

static struct group *group_of(struct aggregate_group *group)
{
	return (struct group *)group;
}

static struct operation *operation_get(struct group *group)
{
	for (unsigned i = 0; i < AGGREGATE_MAX_REQUESTS; i++) {
		struct operation *operation = &group->operations[i];

		if (atomic_load_explicit(&operation->state, memory_order_acquire) == OPERATION_FREE)
			return operation;
	}
	return NULL;
}

static void operation_post(struct group *group, struct operation *operation)
{
	uint64_t posted = atomic_load_explicit(&group->posted, memory_order_relaxed);

	operation->group = group;
	operation->number = posted;
	atomic_store_explicit(&operation->state, OPERATION_POSTED, memory_order_relaxed);
	group->ring[posted % AGGREGATE_MAX_REQUESTS] = (unsigned)(operation - group->operations);
	atomic_store_explicit(&group->posted, posted + 1, memory_order_release);
	engine_wake(group->engine);
}

/*
 * There is no memory for one that the other members post, too, and then wait for: the group ends, here and so everywhere.
 * Returns -ENOMEM.
 */
static int operation_refuse(struct group *group)
{
	atomic_store_explicit(&group->refused, true, memory_order_release);
	engine_wake(group->engine);
	return -ENOMEM;
}

/*
 * What an aggregator is to make may have to be made again, from the inputs: one that the result overwrites is copied. -ENOMEM.
 */
static int keep_input(struct group *group, struct operation *operation)
{
	const uint8_t *send = operation->send, *recv = operation->recv;
	size_t bytes = operation->bytes;

	if (bytes <= group->settings.flat_bytes || bytes <= group->parts_bytes || send + bytes <= recv ||
	    recv + bytes <= send || !atomic_load_explicit(&group->retains, memory_order_relaxed))
		return 0;
	if (operation->kept_bytes < bytes) {
		sys_free(operation->kept);
		operation->kept_bytes = 0;
		operation->kept = sys_zalloc(bytes);
		if (!operation->kept)
			return operation_refuse(group);
		operation->kept_bytes = bytes;
	}
	memcpy(operation->kept, send, bytes);
	operation->send = operation->kept;
	group_add(&group->bytes_copied, bytes);
	return 0;
}

/* Small ones are used again. */
static void let_input_go(struct operation *operation)
{
	if (operation->kept_bytes <= KEPT_FOR_GOOD_BYTES)
		return;
	sys_free(operation->kept);
	operation->kept = NULL;
	operation->kept_bytes = 0;
}

int group_reduce(struct group *group, const void *send, void *recv, size_t count, enum reduce_type type,
		 enum reduce_operation operation, uint32_t without, struct operation **ret)
{
	struct operation *posted;
	int error = group_end_of(group);

	*ret = NULL;
	if (error)
		return error;
	if (type >= REDUCE_TYPE_COUNT || operation >= REDUCE_OPERATION_COUNT ||
	    count > AGGREGATE_MAX_BYTES / reduce_type_bytes(type) || (count && (!send || !recv)))
		return -EINVAL;
	posted = operation_get(group);
	if (!posted)
		return 0;
	posted->type = type;
	posted->operation = operation;
	posted->send = send;
	posted->recv = recv;
	posted->count = count;
	posted->bytes = count * reduce_type_bytes(type);
	posted->without = without;
	error = keep_input(group, posted);
	if (error < 0)
		return error;
	operation_post(group, posted);
	*ret = posted;
	return 0;
}

int aggregate_reduce_all(struct aggregate_group *opaque, const void *send, void *recv, size_t count,
			 enum reduce_type type, enum reduce_operation operation, struct aggregate_request **ret)
{
	struct operation *posted;
	int r = group_reduce(group_of(opaque), send, recv, count, type, operation, 0, &posted);

	*ret = (struct aggregate_request *)posted;
	return r;
}

int aggregate_test(struct aggregate_request *request, bool *ret_done, size_t *ret_bytes)
{
	struct operation *operation = (struct operation *)request;

	*ret_done = false;
	if (atomic_load_explicit(&operation->state, memory_order_acquire) != OPERATION_DONE)
		engine_help(operation->group->engine);
	if (atomic_load_explicit(&operation->state, memory_order_acquire) != OPERATION_DONE)
		return atomic_load_explicit(&operation->group->error, memory_order_acquire);
	if (ret_bytes)
		*ret_bytes = operation->bytes;
	*ret_done = true;
	let_input_go(operation);
	atomic_store_explicit(&operation->state, OPERATION_FREE, memory_order_release);
	return 0;
}

void aggregate_close_group(struct aggregate_group *opaque)
{
	struct group *group = group_of(opaque);

	if (!group)
		return;
	atomic_store(&group->wanted, true);
	pthread_mutex_lock(&group->lock);
	group_close(group);
	group->closed = true;
	pthread_mutex_unlock(&group->lock);
	engine_forget(group->engine, group);
}

void aggregate_facts(const struct aggregate_group *opaque, struct aggregate_facts *ret)
{
	const struct group *group = (const struct group *)opaque;

	*ret = group->facts;
}

void aggregate_counters(const struct aggregate_group *opaque, struct aggregate_counters *ret)
{
	const struct group *group = (const struct group *)opaque;

	ret->operations = atomic_load_explicit(&group->operations_done, memory_order_relaxed);
	ret->segments = atomic_load_explicit(&group->segments_done, memory_order_relaxed);
	ret->flat_operations = atomic_load_explicit(&group->flat_done, memory_order_relaxed);
	ret->part_operations = atomic_load_explicit(&group->parts_done, memory_order_relaxed);
	ret->bytes_sent = atomic_load_explicit(&group->bytes_sent, memory_order_relaxed);
	ret->bytes_received = atomic_load_explicit(&group->bytes_received, memory_order_relaxed);
	ret->bytes_copied = atomic_load_explicit(&group->bytes_copied, memory_order_relaxed);
	ret->messages_sent = atomic_load_explicit(&group->messages_sent, memory_order_relaxed);
}
