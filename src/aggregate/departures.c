/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that have left. One that is through with everything may close its connections while others still wait, for each
 * other or for an aggregator, and these get what they wait for. But where members post different operations they may wait
 * for each other in a circle, which the one that found the difference has left; and where aggregators have all the work no
 * member waits for another, and an aggregator may be more patient than they. As long as something moves, nothing is wrong.
 */
#include "aggregate/group.h"
#include "base/clock.h"
#include "base/params.h"

/* What a thread with something to do sleeps at most, and what a busy machine adds. Longer: it was stopped. */
#define LOOKS_EVERY_NS NS_PER_S

/* All its connections with this one have ended. One alone may: a network that loses the packets of one connection. */
static bool has_left(const struct group *group, size_t member)
{
	return group->in[member].lost && group->out[member].lost && queue_large(group, group->in, member)->lost &&
	       queue_large(group, group->out, member)->lost;
}

static bool somebody_left(const struct group *group, size_t *ret_member)
{
	for (size_t i = 0; i < group->count; i++) {
		if (i == group->self || !has_left(group, i))
			continue;
		*ret_member = i;
		return true;
	}
	return false;
}

void departures_watch(struct group *group, uint64_t now_ns)
{
	const uint64_t timeout_ns = group->engine->setup.params->timeout_ns, patience_ns = timeout_ns / 10 * 9;
	size_t gone;

	group->moved_ns = clock_heard_ns(group->moved_ns, group->looked_ns, now_ns,
					 LOOKS_EVERY_NS < timeout_ns / 2 ? LOOKS_EVERY_NS : timeout_ns / 2);
	group->looked_ns = now_ns;
	if (group->progressed || !group->under_way) {
		group->moved_ns = now_ns;
		group->asked = false;
	}
	if (group->broken || clock_elapsed_ns(group->moved_ns, now_ns) < patience_ns)
		return;
	if (!group->asked) { /* an event may have been missed; the answers are here after the next poll */
		queue_stir_all(group);
		group->asked = true;
		return;
	}
	if (somebody_left(group, &gone))
		group_break(group, -EREMOTEIO, "host %s has left, and nothing has moved for %.1f s",
			    group_host(group, gone), (double)patience_ns / (double)NS_PER_S);
	group->moved_ns = now_ns - timeout_ns / 10 * 8; /* again soon: others may hear of it later */
	group->asked = false;
}
