/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of traffic whose owner sleeps in epoll and never polls (transport.h, watch). A wait that finds nothing for a tenth
 * of a second, with work left, is looked at closely: when progress() then moves something that no event told of, an event
 * was lost, and the run ends with -ENOMSG.
 */
#ifndef TESTS_SUPPORT_SLEEPER_H
#define TESTS_SUPPORT_SLEEPER_H

#include "support/traffic.h"

enum { SLEEPER_ENDS = 8 };

struct sleeper {
	const struct transport_ops *ops;
	struct traffic_end *ends[SLEEPER_ENDS];
	enum transport_next next[SLEEPER_ENDS];
	bool done[SLEEPER_ENDS];
	unsigned count, silences;
	bool alone; /* both ends of everything are here, and no other thread moves them: silence means something */
	int epoll_fd;
};

int sleeper_open(struct sleeper *sleeper, const struct transport_ops *ops);
/* Watches its connection. At most SLEEPER_ENDS. */
int sleeper_add(struct sleeper *sleeper, struct traffic_end *end);
/* 0 when all its ends are through, or the first error. */
int sleeper_run(struct sleeper *sleeper);
void sleeper_close(struct sleeper *sleeper); /* after its connections */

#endif
