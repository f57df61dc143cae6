/* SPDX-License-Identifier: Apache-2.0 */
/* Sums in the order that belongs to the group: by host, by leaf, over the leaves. */
#include "aggregate/group.h"

#include <string.h>

static void combine_runs(const struct group *group, const struct operation *operation, void *to, void *scratch,
			 size_t input_count, const void *const *inputs, size_t count)
{
	reduce_function *reduce = reduce_at(group->engine->level, operation->type, operation->operation);
	const void *some[REDUCE_INPUTS_MAX];
	size_t done = REDUCE_INPUTS_MAX;

	if (input_count <= REDUCE_INPUTS_MAX) {
		reduce(to, (unsigned)input_count, inputs, count);
		return;
	}
	reduce(scratch, REDUCE_INPUTS_MAX, inputs, count);
	while (done < input_count) {
		size_t more = input_count - done < REDUCE_INPUTS_MAX - 1 ? input_count - done : REDUCE_INPUTS_MAX - 1;

		some[0] = scratch;
		memcpy(some + 1, inputs + done, more * sizeof(*some));
		done += more;
		reduce(done == input_count ? to : scratch, (unsigned)more + 1, some, count);
	}
}

/* Callers' threads do it, too, which may flush denormals or trap (torch.set_flush_denormal), and the engine's inherits that. */
void combine(const struct group *group, const struct operation *operation, void *to, void *scratch, size_t input_count,
	     const void *const *inputs, size_t count)
{
	uint64_t environment = reduce_begin();

	combine_runs(group, operation, to, scratch, input_count, inputs, count);
	reduce_end(environment);
}

/* The first of the inputs that may be written over. Of several inputs at most one is the member's own. */
static void *scratch_of(const void *const *inputs, size_t input_count, const void *own)
{
	for (size_t i = 0; i < input_count && i < 2; i++)
		if (inputs[i] != own)
			return (void *)inputs[i];
	return NULL;
}

static const void *level(const struct group *group, const struct operation *operation, void *to, bool last,
			 size_t input_count, const void *const *inputs, const void *own, size_t count)
{
	void *scratch = scratch_of(inputs, input_count, own);

	if (input_count == 1)
		return inputs[0];
	combine(group, operation, last ? to : scratch, scratch, input_count, inputs, count);
	return last ? to : scratch;
}

void combine_all(const struct group *group, const struct operation *operation, void *to, uint8_t **inputs, size_t count)
{
	const uint8_t *own = inputs[group->self];
	const void *hosts[SCHEDULE_MEMBERS_MAX], *leaves[SCHEDULE_MEMBERS_MAX], *members[SCHEDULE_MEMBERS_MAX];
	const void *result;

	for (size_t host = 0; host < group->host_count; host++) {
		size_t begin = group->host_begin[host], n = group->host_begin[host + 1] - begin;

		for (size_t i = 0; i < n; i++)
			members[i] = inputs[group->host_members[begin + i]];
		hosts[host] = level(group, operation, to, group->host_count == 1, n, members, own, count);
	}
	for (size_t leaf = 0; leaf < group->leaf_count; leaf++) {
		size_t begin = group->leaf_begin[leaf], n = group->leaf_begin[leaf + 1] - begin;

		for (size_t i = 0; i < n; i++)
			/* cppcheck-suppress uninitvar ; every group has a host, and every host its partial sum */
			members[i] = hosts[group->leaf_hosts[begin + i]];
		leaves[leaf] = level(group, operation, to, group->leaf_count == 1, n, members, own, count);
	}
	result = level(group, operation, to, true, group->leaf_count, leaves, own, count);
	if (result != to)
		memmove(to, result, count * reduce_type_bytes(operation->type));
}
