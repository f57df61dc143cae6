/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monotonic clock, replaceable by tests. Any thread.
 */
#ifndef TRIBUTARY_BASE_CLOCK_H
#define TRIBUTARY_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Nanoseconds of CLOCK_MONOTONIC (same origin in every process of the host), or of the test's clock. */
uint64_t clock_now_ns(void);

/* Time from then to now; 0 if another thread's clock reading was the later one. */
static inline uint64_t clock_elapsed_ns(uint64_t then_ns, uint64_t now_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

/*
 * A peer was last heard at heard_ns: returns the time from which its silence counts. This process
 * looks every often_ns and last did at looked_ns. If more time has passed, this process was stopped
 * or had no CPU, as a peer on this machine perhaps was, so the rest of that time does not count.
 * Before the call, read what the peer has sent.
 */
static inline uint64_t clock_heard_ns(uint64_t heard_ns, uint64_t looked_ns, uint64_t now_ns, uint64_t often_ns)
{
	uint64_t away_ns = clock_elapsed_ns(looked_ns, now_ns);

	if (away_ns <= often_ns)
		return heard_ns;
	heard_ns += away_ns - often_ns;
	return heard_ns < now_ns ? heard_ns : now_ns;
}

/*
 * How long this process has waited since *since_ns, without the times in which it did not run: of a
 * pause between two calls a second counts. *looked_ns: the last call, at first *since_ns.
 */
static inline uint64_t clock_waited_ns(uint64_t *since_ns, uint64_t *looked_ns, uint64_t now_ns)
{
	*since_ns = clock_heard_ns(*since_ns, *looked_ns, now_ns, NS_PER_S);
	*looked_ns = now_ns;
	return clock_elapsed_ns(*since_ns, now_ns);
}

/* Tests only: from now on clock_now_ns() returns *now_ns. NULL restores the real clock. */
void clock_set_fake(const uint64_t *now_ns);

#endif
