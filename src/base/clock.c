/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

static _Atomic(const uint64_t *) fake_now_ns;

uint64_t clock_now_ns(void)
{
	const uint64_t *fake = atomic_load_explicit(&fake_now_ns, memory_order_acquire);
	struct timespec now;

	/* The test may move its clock while other threads read it. */
	if (fake)
		return __atomic_load_n(fake, __ATOMIC_RELAXED);
	clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock */
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_set_fake(const uint64_t *now_ns)
{
	/* Threads that run already see what the test has set its clock to. */
	atomic_store_explicit(&fake_now_ns, now_ns, memory_order_release);
}
