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

static void add(struct queue *queue, struct dissemination *spread, struct transfer *transfer, uint8_t *bytes,
		void (*done)(struct group *, struct transfer *))
{
	*transfer = (struct transfer){
		.data = bytes,
		.bytes = spread->bytes,
		.tag = aggregate_tag(spread->tag, spread->number),
		.class = TRANSFER_URGENT,
		.done = done,
		.owner = spread,
	};
	spread->waits++;
	queue_add(queue, transfer);
}

static void through(struct group *group, struct dissemination *spread)
{
	if (--spread->waits == 0)
		spread->done(group, spread);
}

static void sent(struct group *group, struct transfer *transfer)
{
	through(group, transfer->owner);
}

static void send(struct group *group, struct dissemination *spread)
{
	unsigned step = spread->steps;

	if (step == step_count(group))
		return;
	spread->write(spread, spread->out[step]);
	add(&group->out[(group->self + ((size_t)1 << step)) % group->count], spread, &spread->sends[step],
	    spread->out[step], sent);
}

/* In the order of the steps, each of which makes the next message. */
static void received(struct group *group, struct transfer *transfer)
{
	struct dissemination *spread = transfer->owner;

	spread->heard |= 1U << (transfer - spread->receives);
	for (unsigned step = spread->steps; spread->heard & 1U << step; step = ++spread->steps, send(group, spread))
		if (!spread->read(group, spread, heard_from(group, step), spread->in[step],
				  spread->receives[step].received))
			return;
	through(group, spread);
}

void dissemination_begin(struct group *group, struct dissemination *spread)
{
	for (unsigned step = 0; step < step_count(group); step++)
		add(&group->in[heard_from(group, step)], spread, &spread->receives[step], spread->in[step], received);
	send(group, spread);
}
