/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer that vanishes: a process (support/peer.h) that brings a connection into a state, says so, goes on, and is struck
 * in it. Whoever struck it looks what becomes of its own end.
 */
#ifndef TESTS_SUPPORT_VICTIM_H
#define TESTS_SUPPORT_VICTIM_H

#include "support/peer.h"
#include "support/traffic.h"

enum victim_state {
	VICTIM_LISTENING,  /* it never accepts */
	VICTIM_CONNECTING, /* after some steps of connect */
	VICTIM_IDLE,
	VICTIM_SENDING,   /* sends outstanding, nobody receives */
	VICTIM_RECEIVING, /* receives outstanding, nobody sends */
	VICTIM_TRANSFERRING,
	VICTIM_CLOSING, /* it has just closed, with sends outstanding */
	VICTIM_STATE_COUNT
};
enum victim_way {
	VICTIM_KILL,
	VICTIM_STOP,
	VICTIM_EXIT, /* without closing anything */
	VICTIM_HELD, /* killed while a child of it holds copies of its descriptors, as data loaders do */
	VICTIM_EXEC, /* another program in the same process */
	VICTIM_WAY_COUNT
};
extern const char *const victim_state_names[VICTIM_STATE_COUNT], *const victim_way_names[VICTIM_WAY_COUNT];

/* What both ends exchange: more than goes through until the victim is struck. */
extern const struct traffic_shape victim_shape;

/*
 * In the victim, whose end is connected as far as its state asks for: goes into the state, writes the process id of its
 * child (0: none) to `control`, goes on until it is struck or told to end, and never returns.
 */
void victim_live(enum victim_state state, enum victim_way way, int control, struct traffic_end *end)
	__attribute__((noreturn));
/* In the test, after that word. What is left of a stopped victim, and its child, are the caller's to end. */
void victim_strike(enum victim_way way, const struct peer *victim);

#endif
