/* SPDX-License-Identifier: Apache-2.0 */
/* The port's turn, of which one connection of competing hosts tries more streams (port.h). */
#include "transport/pace/internal.h"

void pace_turn_look(struct pace *pace)
{
	const struct pace_sender *holder = pace_port_turn(&pace->port, pace->event_ns);

	atomic_store_explicit(&pace->turn, holder, memory_order_relaxed);
	atomic_store_explicit(&pace->full, pace_port_is_full(&pace->port), memory_order_relaxed);
}

void pace_want_turn(struct pace *pace, struct pace_sender *sender, bool wants, unsigned streams, uint64_t now_ns)
{
	pthread_mutex_lock(&pace->lock);
	pace->event_ns = now_ns > pace->event_ns ? now_ns : pace->event_ns;
	pace_port_want(&pace->port, sender, wants, streams, pace->event_ns);
	pace_turn_look(pace);
	pthread_mutex_unlock(&pace->lock);
}

bool pace_has_turn(struct pace *pace, const struct pace_sender *sender)
{
	return atomic_load_explicit(&pace->turn, memory_order_relaxed) == sender;
}

bool pace_is_full(struct pace *pace)
{
	return atomic_load_explicit(&pace->full, memory_order_relaxed);
}

struct pace_port_others pace_others(struct pace *pace, uint64_t now_ns)
{
	struct pace_port_others ret;

	pthread_mutex_lock(&pace->lock);
	ret = pace_port_others(&pace->port, now_ns > pace->event_ns ? now_ns : pace->event_ns);
	pthread_mutex_unlock(&pace->lock);
	return ret;
}
