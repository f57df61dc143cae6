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

/* Tests only: from now on clock_now_ns() returns *now_ns. NULL restores the real clock. */
void clock_set_fake(const uint64_t *now_ns);

#endif
