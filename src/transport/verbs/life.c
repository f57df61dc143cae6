/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/life.h"

#include "base/clock.h"
#include "base/minmax.h"
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>

#define BEAT_MOST_NS (NS_PER_S / 2)
enum {
	BEATS_LEAST = 10, /* in TRIBUTARY_TIMEOUT */
	SILENT_BEATS = 3, /* more is no delay of the peer's heartbeat */
	LOOKS = 4,        /* a beat */
	ASK_PART = 3,     /* of the time-out: after so much of it without a word the peer is asked over RDMA */
};

static const struct transport_ops *const tcp = &transport_tcp;

enum verbs_life_result verbs_life_result_of(const struct verbs_life_facts *facts)
{
	const uint64_t control_ns = max_u64(facts->out_ns, facts->in_ns); /* words go by each one way alone */

	/* Not at once: of a path that is dark for a while an idle connection knows nothing. */
	if (control_ns <= facts->timeout_ns / ASK_PART)
		return VERBS_LIFE_FINE;
	if (min_u64(min_u64(facts->out_ns, facts->in_ns), facts->rdma_ns) > facts->timeout_ns)
		return VERBS_LIFE_GONE;
	return min_u64(control_ns, facts->unsettled_ns) > facts->timeout_ns ? VERBS_LIFE_UNSETTLED : VERBS_LIFE_ASK;
}

void verbs_life_begin(struct verbs_connection *connection, uint64_t now_ns)
{
	connection->life = (struct verbs_life){ .heard_ns = now_ns, .looked_ns = now_ns };
	tcp->set(connection->control.out, TRANSPORT_SET_OUTLIVES_SILENCE, 1);
	tcp->set(connection->control.in, TRANSPORT_SET_OUTLIVES_SILENCE, 1);
}

static uint64_t unsettled_ns(const struct verbs_connection *connection, uint64_t now_ns)
{
	uint64_t longest_ns = 0;

	for (unsigned i = 0; i < connection->queue_count; i++)
		if (connection->queues[i].state == VERBS_QUEUE_STOPPED)
			longest_ns = max_u64(longest_ns,
					     clock_elapsed_ns(connection->queues[i].stopping_since_ns, now_ns));
	return longest_ns;
}

static void fail(struct verbs_connection *connection, enum verbs_life_result result,
		 const struct verbs_life_facts *facts)
{
	char why[sizeof(connection->why)];

	if (result == VERBS_LIFE_GONE)
		snprintf(why, sizeof(why), "nothing was heard of it for %.1f s, over TCP or RDMA (TRIBUTARY_TIMEOUT)",
			 (double)min_u64(min_u64(facts->out_ns, facts->in_ns), facts->rdma_ns) / NS_PER_S);
	else
		snprintf(why, sizeof(why),
			 "a queue failed %.1f s ago, and since then no TCP connection has told how far it had come "
			 "(TRIBUTARY_TIMEOUT)",
			 (double)facts->unsettled_ns / NS_PER_S);
	verbs_connection_fail(connection, -EREMOTEIO, verbs_control_ports(connection, why, sizeof(why)));
}

/* One at a time is on its way. */
static void ask(struct verbs_connection *connection, uint64_t beat_ns, uint64_t now_ns)
{
	struct verbs_life *life = &connection->life;

	if (clock_elapsed_ns(life->asked_ns, now_ns) < beat_ns || connection->out.taken < life->asked)
		return;
	life->asked_ns = now_ns;
	if (verbs_ring_beat(connection, true))
		life->asked = connection->out.written;
}

int verbs_life_step(struct verbs_connection *connection, uint64_t now_ns)
{
	const uint64_t timeout_ns = connection->transport->params->timeout_ns;
	struct verbs_life_facts facts = { .beat_ns = min_u64(timeout_ns / BEATS_LEAST, BEAT_MOST_NS) };
	struct verbs_life *life = &connection->life;
	enum verbs_life_result result;
	enum transport_next next;

	if (life->answer && verbs_ring_beat(connection, false))
		life->answer = false;
	if (clock_elapsed_ns(life->looked_ns, now_ns) < facts.beat_ns / LOOKS)
		return 0;
	life->heard_ns = clock_heard_ns(life->heard_ns, life->looked_ns, now_ns, 2 * facts.beat_ns);
	life->looked_ns = now_ns;
	if (life->seen != life->came)
		life->heard_ns = now_ns;
	life->seen = life->came;
	facts.timeout_ns = timeout_ns - 2 * facts.beat_ns; /* it is seen late */
	facts.out_ns = tcp->silent_ns(connection->control.out);
	facts.in_ns = tcp->silent_ns(connection->control.in);
	facts.rdma_ns = clock_elapsed_ns(life->heard_ns, now_ns);
	facts.unsettled_ns = unsettled_ns(connection, now_ns);
	result = verbs_life_result_of(&facts);
	if (result == VERBS_LIFE_ASK)
		ask(connection, facts.beat_ns, now_ns);
	else if (result != VERBS_LIFE_FINE)
		fail(connection, result, &facts);
	/* Nobody else asks how a connection stands over which nothing is said. */
	return max_u64(facts.out_ns, facts.in_ns) > SILENT_BEATS * facts.beat_ns
		       ? tcp->progress(connection->control.out, &next)
		       : 0;
}
