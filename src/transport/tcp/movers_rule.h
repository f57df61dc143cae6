/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When movers are at work (docs/design/streams.md). Pure: no clock, thread or allocation. Each thread that polls connections
 * reports what it measured over some 20 ms of work; one such thread at a time is judged.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_MOVERS_RULE_H
#define TRIBUTARY_TRANSPORT_TCP_MOVERS_RULE_H

#include <stdbool.h>
#include <stdint.h>

#define TCP_MOVERS_WINDOW_NS (20ULL * 1000 * 1000)

/* Of long messages: time in send and receive, of the thread itself and of movers in its place, and bytes both ways. */
struct tcp_movers_time {
	uint64_t calls_ns, movers_ns, bytes;
};

struct tcp_movers_window {
	uintptr_t thread; /* whose; any number but 0 */
	uint64_t now_ns;
	uint64_t polled_ns; /* in which it polled for requests that were not done */
	struct tcp_movers_time time;
};

enum tcp_movers_state {
	TCP_MOVERS_OFF,
	TCP_MOVERS_TRIAL, /* at work, and have to show a gain */
	TCP_MOVERS_CHECK, /* not at work for a moment: it was they who brought it */
	TCP_MOVERS_ON,
	TCP_MOVERS_STATE_COUNT
};

/* All zero to begin with. */
struct tcp_movers_rule {
	enum tcp_movers_state state;
	double without, with; /* bytes a nanosecond: before the trial, and last with movers; 0: not known */
	/* Private. */
	uintptr_t thread;           /* the one that is judged; 0: none */
	uint64_t seen_ns, after_ns; /* its last window; no trial before */
	unsigned windows, failures;
	unsigned checks;             /* passed, since the trial */
	uint64_t polled_ns, bytes;   /* of so many windows */
	uint64_t since_ns, check_ns; /* polled in this state; time of the next check */
	uint64_t relieved_ns;        /* how long there was little to do */
};

/* True: movers are to be at work. */
bool tcp_movers_step(struct tcp_movers_rule *rule, const struct tcp_movers_window *window);
/* None could be started: as a trial that failed. */
void tcp_movers_rule_fail(struct tcp_movers_rule *rule, uint64_t now_ns);

#endif
