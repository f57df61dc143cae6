/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

uint64_t perf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double perf_cpu_s(void)
{
	struct rusage use;

	getrusage(RUSAGE_SELF, &use);
	return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
	       (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

void perf_sleep_ns(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&t, NULL);
}

void poller_init(struct poller *poller, uint64_t nap_ns, bool spin, uint64_t timeout_ns)
{
	*poller = (struct poller){ .nap_ns = nap_ns, .spin = spin, .timeout_ns = timeout_ns };
}

bool poller_idle(struct poller *poller)
{
	/* The clock is read once in 256 rounds when polling, and in every round when napping. */
	if (poller->rounds == 0)
		poller->idle_since_ns = perf_now_ns();
	poller->rounds++;
	if (poller->rounds == 0)
		poller->rounds = 1;
	if ((poller->nap_ns || !(poller->rounds & 255)) && perf_now_ns() - poller->idle_since_ns > poller->timeout_ns)
		return false;
	if (poller->nap_ns)
		perf_sleep_ns(poller->nap_ns);
	else if (!poller->spin)
		sched_yield();
	return true;
}
