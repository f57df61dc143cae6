/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/port.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <string.h>

#define PAYLOAD      0.94 /* of the wire's rate, with packets of 1500 bytes */
#define FULL         0.93
#define FULL_STILL   0.9
#define HINT_MOST    1.05 /* headers may be counted otherwise */
/* Whether it is full: by a mean of so much time and the double; at first of a fifth, before the first turn. */
#define MEAN_NS      (50 * NS_PER_MS)
#define FIRST_NS     (10 * NS_PER_MS)
#define SETTLE_NS    (10 * NS_PER_MS)
#define MEASURED_NS  (20 * NS_PER_MS)
#define USUAL_NS     (4 * NS_PER_MS) /* what came in less says nothing of a rate */
#define TOOK         0.05
#define HOLD_NS      (50 * NS_PER_MS)
#define HOLD_MOST_NS (30 * NS_PER_S) /* a trial of 0.1 s slows a round in 300, and a change is seen soon */

/*
 * Such a trial counts for so many. In a collective, where this host sends, too, others may send less
 * for what comes to them.
 */
enum { TOOK_COUNTS = 8, TOOK_OF_COLLECTIVE = 2 };

void pace_port_init(struct pace_port *port, uint64_t port_Bps)
{
	memset(port, 0, sizeof(*port));
	port->payload_Bps = (uint64_t)(PAYLOAD * (double)port_Bps);
	LIST_INIT(&port->senders);
	TAILQ_INIT(&port->asking);
}

void pace_port_join(struct pace_port *port, struct pace_sender *sender)
{
	LIST_INSERT_HEAD(&port->senders, sender, link);
}

void pace_port_leave(struct pace_port *port, struct pace_sender *sender, uint64_t now_ns)
{
	pace_port_want(port, sender, false, sender->streams, now_ns);
	LIST_REMOVE(sender, link);
}

void pace_port_pass(struct pace_port *port, uint64_t passed_ns)
{
	double full_bytes;

	port->all.ns += passed_ns;
	if (port->all.ns < 2 * (port->known ? MEAN_NS : FIRST_NS))
		return;
	full_bytes = (double)port->payload_Bps * (double)port->all.ns * 1e-9;
	port->known = true;
	port->full = (double)port->all.bytes >= (port->full ? FULL_STILL : FULL) * full_bytes &&
		     (double)port->all.bytes <= HINT_MOST * full_bytes;
	port->all.ns /= 2;
	port->all.bytes /= 2;
}

/* While the holder's messages come. */
static void count_time(const struct pace_port *port, struct pace_sender *sender, uint64_t now_ns)
{
	if (sender->coming_count && port->holder->coming_count)
		sender->now.ns += clock_elapsed_ns(sender->coming_ns, now_ns);
	sender->coming_ns = now_ns;
}

void pace_port_turns(struct pace_port *port, struct pace_sender *sender, uint64_t now_ns)
{
	struct pace_sender *each;

	if (!port->holder)
		return;
	if (sender != port->holder) {
		count_time(port, sender, now_ns);
		return;
	}
	LIST_FOREACH(each, &port->senders, link)
		if (each != sender)
			count_time(port, each, now_ns);
	count_time(port, sender, now_ns);
}

/* What came so far belongs to the streams that the holder had first, or, in a trial, to nothing. */
static void begin(struct pace_port *port, bool usual, uint64_t now_ns)
{
	struct pace_sender *sender;

	pace_port_turns(port, port->holder, now_ns);
	LIST_FOREACH(sender, &port->senders, link) {
		if (usual)
			sender->usual = sender->now;
		memset(&sender->now, 0, sizeof(sender->now));
	}
}

static void settle(struct pace_port *port, uint64_t now_ns)
{
	if (!port->holder || !port->settles_ns || now_ns < port->settles_ns)
		return;
	port->settles_ns = 0;
	begin(port, false, now_ns);
}

void pace_port_came(struct pace_port *port, struct pace_sender *sender, uint64_t bytes, uint64_t now_ns)
{
	port->all.bytes += bytes;
	settle(port, now_ns);
	if (sender && port->holder && port->holder->coming_count)
		sender->now.bytes += bytes;
}

bool pace_port_is_full(const struct pace_port *port)
{
	return port->full;
}

struct pace_port_others pace_port_others(struct pace_port *port, uint64_t now_ns)
{
	struct pace_port_others ret = { .kept = 1 };
	double expected = 0, actual = 0, bytes = 0, ns = 0;
	struct pace_sender *sender;

	settle(port, now_ns);
	if (!port->holder || port->holder->streams == port->streams || port->settles_ns)
		return ret;
	pace_port_turns(port, port->holder, now_ns);
	LIST_FOREACH(sender, &port->senders, link) {
		const struct pace_port_measure *now = &sender->now, *usual = &sender->usual;

		if (sender == port->holder)
			continue;
		bytes += (double)now->bytes;
		ns += (double)now->ns;
		if (usual->ns >= USUAL_NS) {
			actual += (double)now->bytes;
			expected += (double)usual->bytes * (double)now->ns / (double)usual->ns;
		}
	}
	ret.measured_ns = port->holder->now.ns;
	if (!ret.measured_ns)
		return ret;
	ret.kept = expected > 0 ? actual / expected : 1;
	ret.lost_Bps = expected > actual ? (expected - actual) * 1e9 / (double)ret.measured_ns : 0;
	ret.each_Bps = ns > 0 ? bytes * 1e9 / ns : 0;
	return ret;
}

/* The holder gained no more than others lost, which was something: the port carries no more. */
static bool took(struct pace_port *port, uint64_t now_ns)
{
	const struct pace_port_others others = pace_port_others(port, now_ns);
	const struct pace_port_measure *now = &port->holder->now, *usual = &port->holder->usual;
	double was_Bps, is_Bps, expected_Bps;

	if (others.measured_ns < MEASURED_NS || !usual->ns)
		return false;
	was_Bps = (double)usual->bytes * 1e9 / (double)usual->ns;
	is_Bps = (double)now->bytes * 1e9 / (double)now->ns;
	expected_Bps = others.kept < 1 ? others.lost_Bps / (1 - others.kept) : 0;
	return others.lost_Bps > TOOK * expected_Bps && others.lost_Bps >= is_Bps - was_Bps - TOOK * (was_Bps + expected_Bps);
}

static void end_turn(struct pace_port *port, uint64_t now_ns)
{
	port->after_ns = now_ns;
	if (port->holder->streams != port->streams) {
		port->failed = 0;
	} else if (port->tried) {
		port->failed += !port->took ? 1 : port->sends ? TOOK_OF_COLLECTIVE : TOOK_COUNTS;
		port->after_ns += min_u64(HOLD_NS << min_u64(port->failed - 1, 20), HOLD_MOST_NS);
	}
	port->holder = NULL;
}

void pace_port_want(struct pace_port *port, struct pace_sender *sender, bool wants, unsigned streams, uint64_t now_ns)
{
	const bool wanted = sender->wants;

	if (sender == port->holder && streams != sender->streams) {
		port->took = took(port, now_ns);
		begin(port, sender->streams == port->streams && !port->settles_ns, now_ns);
		port->settles_ns = now_ns + SETTLE_NS;
		port->tried = true;
	}
	sender->wants = wants;
	sender->streams = streams;
	if (wants && !wanted) {
		TAILQ_INSERT_TAIL(&port->asking, sender, asks);
	} else if (wanted && !wants) {
		if (sender == port->holder)
			end_turn(port, now_ns);
		else
			TAILQ_REMOVE(&port->asking, sender, asks);
	}
}

struct pace_sender *pace_port_turn(struct pace_port *port, uint64_t now_ns)
{
	struct pace_sender *holder = port->holder, *first = TAILQ_FIRST(&port->asking);

	if (holder && first && now_ns >= port->until_ns) {
		end_turn(port, now_ns);
		TAILQ_INSERT_TAIL(&port->asking, holder, asks);
	}
	if (!port->holder && first && port->known && now_ns >= port->after_ns) {
		TAILQ_REMOVE(&port->asking, first, asks);
		port->holder = first;
		port->streams = first->streams;
		port->until_ns = now_ns + PACE_PORT_TURN_NS;
		port->settles_ns = 0;
		port->tried = port->took = false;
		LIST_FOREACH(holder, &port->senders, link)
			holder->coming_ns = now_ns;
		begin(port, false, now_ns);
	}
	return port->holder;
}
