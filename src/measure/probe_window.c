/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_window.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <time.h>

/* Between two looks at `stop`. */
#define NAP_NS           (2 * NS_PER_MS)
/* Nothing that works needs longer to move its first bytes. */
#define SILENCE_NS       (5 * NS_PER_S)
/* For caches, clocks of cores and windows of connections; a fifth of the duration costs little and suffices for most. */
#define WARM_UP_LEAST_NS NS_PER_MS

uint64_t probe_window_warm_up_ns(uint64_t duration_ns)
{
	return duration_ns / 5 > WARM_UP_LEAST_NS ? duration_ns / 5 : WARM_UP_LEAST_NS;
}

static int state_of(const struct probe_window *window)
{
	int r = window->failed ? window->failed(window->arg) : 0;

	return r < 0 ? r : probe_stopped(window->probe) ? -EINTR : 0;
}

static int wait_until(const struct probe_window *window, uint64_t until_ns)
{
	for (;;) {
		uint64_t now_ns = clock_now_ns(), left_ns = clock_elapsed_ns(now_ns, until_ns);
		struct timespec nap = { .tv_nsec = (long)(left_ns < NAP_NS ? left_ns : NAP_NS) };
		int r = state_of(window);

		if (r < 0 || !left_ns)
			return r;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
}

/* Every flow has moved something since `before` was read. */
static bool all_move(const struct probe_window *window, const uint64_t *before)
{
	for (size_t i = 0; i < window->flow_count; i++)
		if (window->moved(window->arg, i) == before[i])
			return false;
	return true;
}

/* At least that long, and until all flows have moved: on a busy machine one may not have had its turn yet. */
static int wait_for_all(const struct probe_window *window, const uint64_t *before, uint64_t least_ns)
{
	uint64_t start_ns = clock_now_ns();
	int r = wait_until(window, start_ns + least_ns);

	while (!r && !all_move(window, before)) {
		if (clock_elapsed_ns(start_ns, clock_now_ns()) > least_ns + SILENCE_NS)
			return -ETIMEDOUT;
		r = wait_until(window, clock_now_ns() + NAP_NS);
	}
	return r;
}

int probe_window_measure(const struct probe_window *window, uint64_t duration_ns, struct probe_rates *ret)
{
	uint64_t start_ns, now_ns, *before = sys_zalloc(window->flow_count * sizeof(*before));
	int r = before ? wait_for_all(window, before, probe_window_warm_up_ns(duration_ns)) : -ENOMEM;

	if (r < 0)
		goto out;
	start_ns = clock_now_ns();
	for (size_t i = 0; i < window->flow_count; i++)
		before[i] = window->moved(window->arg, i);
	r = wait_for_all(window, before, duration_ns);
	if (r < 0)
		goto out;
	now_ns = clock_now_ns();
	if (now_ns <= start_ns)
		now_ns = start_ns + 1; /* asked for no time at all */
	for (size_t i = 0; i < window->flow_count; i++)
		ret->rate_Bps[i] = (double)(window->moved(window->arg, i) - before[i]) * 1e9 /
				   (double)(now_ns - start_ns);
	ret->time_ns = now_ns - start_ns;
out:
	sys_free(before);
	return r;
}
