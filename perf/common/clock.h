/* SPDX-License-Identifier: Apache-2.0 */
/* Time and waiting for the benchmarks. Any thread. */
#ifndef TRIBUTARY_PERF_CLOCK_H
#define TRIBUTARY_PERF_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

uint64_t perf_now_ns(void); /* CLOCK_MONOTONIC */
double perf_cpu_s(void);    /* user and system time of this process, all threads, so far */
void perf_sleep_ns(uint64_t ns);

/*
 * How a polling caller waits. NCCL's proxy thread never blocks: after a round in which nothing moved it yields. With
 * nap_ns it sleeps instead, as a caller that shares its cores does.
 */
struct poller {
	uint64_t nap_ns;     /* 0: sched_yield */
	bool spin;           /* neither nap nor yield */
	uint64_t timeout_ns; /* without any progress */
	uint64_t idle_since_ns;
	unsigned rounds;
};

void poller_init(struct poller *poller, uint64_t nap_ns, bool spin, uint64_t timeout_ns);
static inline void poller_moved(struct poller *poller)
{
	poller->rounds = 0;
}
/* After a round without progress. False when nothing has moved for the whole time-out. */
bool poller_idle(struct poller *poller);

#endif
