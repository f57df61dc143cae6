/* SPDX-License-Identifier: Apache-2.0 */
/* The call that makes a group, in the caller's thread. */
#include "aggregate/bootstrap.h"
#include "aggregate/calibration.h"
#include "aggregate/aggregators.h"
#include "base/clock.h"
#include "base/params.h"
#include "base/hash.h"
#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_handles(const void *a, const void *b)
{
	return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, BOOTSTRAP_HANDLE_BYTES);
}

static void make_hellos(struct bootstrap *bootstrap)
{
	struct member_wire_hello hello = { .from = (uint16_t)bootstrap->self,
					   .count = (uint16_t)bootstrap->count,
					   .group = bootstrap->group_hash };

	memcpy(hello.host, bootstrap->engine->host_name, sizeof(hello.host));
	for (size_t i = 0; i < BOOTSTRAP_KINDS * bootstrap->count; i++) {
		hello.large = i % BOOTSTRAP_KINDS == BOOTSTRAP_LARGE;
		member_wire_hello(CODEC_TO(bootstrap->peers[i / BOOTSTRAP_KINDS].ways[i % BOOTSTRAP_KINDS].hello_bytes),
				  &hello);
	}
}

static int bootstrap_sort(struct bootstrap *bootstrap, const uint8_t *const *handles)
{
	const uint8_t **sorted = sys_zalloc(bootstrap->count * sizeof(*sorted));
	size_t found = 0;
	int r = 0;

	if (!sorted)
		return bootstrap_out_of_memory(bootstrap);
	memcpy(sorted, handles, bootstrap->count * sizeof(*sorted));
	qsort(sorted, bootstrap->count, sizeof(*sorted), compare_handles);
	bootstrap->group_hash = HASH_START;
	for (size_t i = 0; i < bootstrap->count; i++) {
		for (unsigned k = 0; k < BOOTSTRAP_KINDS; k++)
			memcpy(bootstrap->peers[i].ways[k].handle, sorted[i], BOOTSTRAP_HANDLE_BYTES);
		bootstrap->group_hash = hash_bytes(bootstrap->group_hash, sorted[i], BOOTSTRAP_HANDLE_BYTES);
		if (memcmp(sorted[i], bootstrap->listener->handle, BOOTSTRAP_HANDLE_BYTES) == 0) {
			bootstrap->self = i;
			found++;
		}
		if (i && compare_handles(&sorted[i - 1], &sorted[i]) == 0)
			found = 2;
	}
	if (found != 1)
		r = bootstrap_fail(bootstrap, EINVAL,
				   "host %s is not exactly once among the %zu members that it was given",
				   bootstrap->engine->host_name, bootstrap->count);
	sys_free(sorted);
	make_hellos(bootstrap);
	return r;
}

static void bootstrap_fini(struct bootstrap *bootstrap)
{
	for (size_t i = 0; bootstrap->peers && i < BOOTSTRAP_KINDS * bootstrap->count; i++)
		bootstrap_hang_up(bootstrap, &bootstrap->peers[i / BOOTSTRAP_KINDS].ways[i % BOOTSTRAP_KINDS]);
	for (size_t i = 0; bootstrap->incoming && i < BOOTSTRAP_KINDS * bootstrap->count; i++)
		if (bootstrap->incoming[i].connection)
			bootstrap->ops->close_connection(bootstrap->incoming[i].connection);
	sys_free(bootstrap->peers);
	sys_free(bootstrap->incoming);
	sys_free(bootstrap->decision_bytes);
	aggregators_bootstrap_fini(bootstrap);
	group_free(bootstrap->group);
}

/* The connections become the group's, by position. */
static void bootstrap_hand_over(struct bootstrap *bootstrap)
{
	struct group *group = bootstrap->group;

	for (size_t i = 0; i < BOOTSTRAP_KINDS * group->count; i++) {
		size_t index = group->members[i % group->count].facts.index;
		struct bootstrap_way *way = &bootstrap->peers[index].ways[i / group->count];

		group->out[i].connection = way->out;
		group->in[i].connection = way->in;
		way->out = way->in = NULL;
	}
}

/* Each says what it knows: the others see a member that is gone. */
static int calibration_failed(struct bootstrap *bootstrap, int r)
{
	const char *host = bootstrap->engine->host_name;

	if (r == -ENOMEM)
		return bootstrap_out_of_memory(bootstrap);
	if (r == -ETIMEDOUT)
		return bootstrap_fail(bootstrap, EREMOTEIO,
				      "host %s waited for others too long while the group's aggregators were measured",
				      host);
	/* Who it was, the log says. */
	return bootstrap_fail(bootstrap, EREMOTEIO, "a member was lost while the group's aggregators were measured");
}

int aggregate_connect(struct aggregate_listener *listener, size_t count, const uint8_t *const *handles,
		      struct aggregate_group **ret, char reason[static AGGREGATE_REASON_BYTES])
{
	struct aggregate_engine *engine = listener->engine;
	struct bootstrap bootstrap = {
		.engine = engine, .listener = listener, .ops = engine->setup.ops, .count = count
	};
	struct group *group;
	int r;

	*ret = NULL;
	bootstrap.timeout_ns = engine->setup.params->timeout_ns;
	bootstrap.deadline_ns = clock_now_ns() + bootstrap.timeout_ns;
	if (!count || count > SCHEDULE_MEMBERS_MAX) {
		r = bootstrap_fail(&bootstrap, EINVAL, "a group has 1 to %d members, not %zu", SCHEDULE_MEMBERS_MAX,
				   count);
		goto fail;
	}
	bootstrap.decision_size = MEMBER_WIRE_DECISION_BYTES + count * MEMBER_WIRE_FACTS_BYTES +
				  MEMBER_WIRE_AGGREGATORS_BYTES;
	bootstrap.peers = sys_zalloc(count * sizeof(*bootstrap.peers));
	bootstrap.incoming = sys_zalloc(BOOTSTRAP_KINDS * count * sizeof(*bootstrap.incoming));
	bootstrap.decision_bytes = sys_zalloc(bootstrap.decision_size);
	if (!bootstrap.peers || !bootstrap.incoming || !bootstrap.decision_bytes) {
		r = bootstrap_out_of_memory(&bootstrap);
		goto fail;
	}
	r = bootstrap_sort(&bootstrap, handles);
	if (r == 0)
		r = bootstrap_agree(&bootstrap);
	if (r < 0)
		goto fail;
	bootstrap_hand_over(&bootstrap);
	group_register_own(bootstrap.group);
	engine_adopt(engine, bootstrap.group);
	/* It is the engine's now. */
	group = bootstrap.group;
	bootstrap.group = NULL;
	r = calibration_run(group);
	if (r < 0) {
		r = calibration_failed(&bootstrap, r);
		goto fail;
	}
	atomic_store(&group->counts, true);
	*ret = (struct aggregate_group *)group;
	reason[0] = '\0';
	bootstrap_fini(&bootstrap);
	return 0;
fail:
	memcpy(reason, bootstrap.reason, AGGREGATE_REASON_BYTES);
	bootstrap_fini(&bootstrap);
	return r;
}
