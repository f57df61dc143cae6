/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/group.h"

#include <errno.h>

_Static_assert(SCHEDULE_MEMBERS_MAX <= 1 << DISSEMINATION_STEPS, "steps");
_Static_assert((int)MEMBER_WIRE_COMMIT_BYTES <= (int)DISSEMINATION_BYTES &&
		       (int)MEMBER_WIRE_VERIFY_BYTES <= (int)DISSEMINATION_BYTES,
	       "bytes of a message");

static unsigned step_count(const struct group *group)
{
	unsigned steps = 0;

	while ((size_t)1 << steps < group->count)
		steps++;
	return steps;
}

static size_t heard_from(const struct group *group, unsigned step)
{
	return (group->self + group->count - ((size_t)1 << step)) % group->count;
}

static void add(struct queue *queue, struct dissemination *dissemination, struct transfer *transfer, uint8_t *bytes,
		void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = bytes,
		.bytes = dissemination->bytes,
		.tag = aggregate_tag(dissemination->tag, dissemination->number),
		.class = TRANSFER_URGENT,
		.done = done,
		.owner = dissemination,
	};
	dissemination->waits++;
	queue_add(queue, transfer);
}

static void through(struct group *group, struct dissemination *dissemination)
{
	if (--dissemination->waits == 0)
		dissemination->done(group, dissemination);
}

static void sent(struct group *group, struct transfer *transfer)
{
	through(group, transfer->owner);
}

static void send(struct group *group, struct dissemination *dissemination)
{
	unsigned step = dissemination->steps;

	if (step == step_count(group))
		return;
	dissemination->write(dissemination, dissemination->out[step]);
	add(&group->out[(group->self + ((size_t)1 << step)) % group->count], dissemination, &dissemination->sends[step],
	    dissemination->out[step], sent);
}

/* In the order of the steps, each of which makes the next message. */
static void received(struct group *group, struct transfer *transfer)
{
	struct dissemination *dissemination = transfer->owner;

	dissemination->heard |= 1U << (transfer - dissemination->receives);
	for (unsigned step = dissemination->steps; dissemination->heard & 1U << step;
	     step = ++dissemination->steps, send(group, dissemination))
		if (!dissemination->read(group, dissemination, heard_from(group, step), dissemination->in[step],
					 dissemination->receives[step].received))
			return;
	through(group, dissemination);
}

void dissemination_begin(struct group *group, struct dissemination *dissemination)
{
	for (unsigned step = 0; step < step_count(group); step++)
		add(&group->in[heard_from(group, step)], dissemination, &dissemination->receives[step],
		    dissemination->in[step], received);
	send(group, dissemination);
}
