/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/estimator.h"

#include "base/clock.h"
#include "base/minmax.h"

#include <string.h>

enum {
	LOOPS_IN_WINDOW = 8, /* a window's ends, where bytes of the neighbours count, stay small beside it */
	BACKLOGS_IN_WINDOW = 8,
};
#define WINDOW_LEAST_NS (2 * NS_PER_MS)

static uint64_t clamp(uint64_t value, uint64_t low, uint64_t high)
{
	return max_u64(low, min_u64(value, high)); /* low wins: two bursts, whatever the limit is */
}

static uint64_t bytes_in(uint64_t rate_Bps, uint64_t time_ns)
{
	return (uint64_t)((double)rate_Bps * (double)time_ns * 1e-9);
}

static uint64_t rate_of(uint64_t bytes, uint64_t time_ns)
{
	return (uint64_t)((double)bytes * 1e9 / (double)time_ns);
}

static uint64_t least_budget(const struct pace_estimator *estimator)
{
	return 2 * estimator->quantum_bytes;
}

void pace_estimator_init(struct pace_estimator *estimator, uint64_t nominal_Bps, uint64_t quantum_bytes)
{
	memset(estimator, 0, sizeof(*estimator));
	estimator->nominal_Bps = nominal_Bps;
	estimator->quantum_bytes = quantum_bytes;
	estimator->path_ns = PACE_NOMINAL_LOOP_NS / 2;
	estimator->wake_ns = PACE_NOMINAL_LOOP_NS / 2;
	estimator->usual_ns = PACE_NOMINAL_LOOP_NS / 2;
	estimator->budget_bytes = clamp(bytes_in(nominal_Bps, PACE_NOMINAL_LOOP_NS), least_budget(estimator),
					PACE_BUDGET_MAX_BYTES);
}

uint64_t pace_estimator_rate(const struct pace_estimator *estimator)
{
	uint64_t peak = max_u64(estimator->peak_Bps[0], estimator->peak_Bps[1]);

	return peak ? peak : estimator->nominal_Bps;
}

uint64_t pace_estimator_round_trip(const struct pace_estimator *estimator)
{
	return estimator->path_ns + estimator->wake_ns;
}

void pace_estimator_loop(struct pace_estimator *estimator, uint64_t loop_ns)
{
	estimator->loop_ns[estimator->loop_next] = loop_ns;
	estimator->loop_next = (estimator->loop_next + 1) % PACE_LOOP_SAMPLES;
	if (estimator->loop_count < PACE_LOOP_SAMPLES)
		estimator->loop_count++;
	estimator->loop_changed = true;
}

/* Insertion sort: 64 values, once in some milliseconds. */
static void loop_update(struct pace_estimator *estimator)
{
	uint64_t sorted[PACE_LOOP_SAMPLES] = { 0 };

	if (!estimator->loop_changed || estimator->loop_count < PACE_LOOP_LEAST)
		return;
	for (size_t i = 0; i < estimator->loop_count; i++) {
		uint64_t value = estimator->loop_ns[i];
		size_t k = i;

		for (; k && sorted[k - 1] > value; k--)
			sorted[k] = sorted[k - 1];
		sorted[k] = value;
	}
	estimator->path_ns = sorted[0];
	estimator->wake_ns = sorted[estimator->loop_count / 2] - sorted[0];
	estimator->usual_ns = sorted[estimator->loop_count / 4];
	estimator->loop_changed = false;
}

/*
 * The quartile, not the median: on a machine with more threads than cores half of the loops may wait for a time slice, and
 * more bytes on the way would not make that shorter; where every loop is slow, a longer one is right. More than this would
 * only lengthen the queue at a slow port: 0.6 ms at 1 Gbit/s is what a small switch holds for one.
 */
static uint64_t measured_budget(const struct pace_estimator *estimator)
{
	return clamp(bytes_in(pace_estimator_rate(estimator),
			      estimator->usual_ns + estimator->usual_ns / 4 + PACE_WAKE_MAX_NS),
		     least_budget(estimator), PACE_BUDGET_MAX_BYTES);
}

static void peak_update(struct pace_estimator *estimator, uint64_t rate_Bps, bool limited)
{
	if (limited && ++estimator->peak_windows > PACE_PEAK_WINDOWS) {
		estimator->peak_windows = 0;
		estimator->peak_Bps[1] = estimator->peak_Bps[0];
		estimator->peak_Bps[0] = 0;
	}
	estimator->peak_Bps[0] = max_u64(estimator->peak_Bps[0], rate_Bps);
}

/* limited: flows waited for the budget during most of it. */
static void count(struct pace_estimator *estimator, uint64_t bytes, uint64_t window_ns, bool limited)
{
	uint64_t rate_Bps;

	if (!window_ns)
		return;
	rate_Bps = rate_of(bytes, window_ns);
	loop_update(estimator);
	/* A window that the senders limited says only that the link can do at least this. */
	if (!limited && !(estimator->measured && rate_Bps > pace_estimator_rate(estimator)))
		return;
	peak_update(estimator, rate_Bps, limited);
	/* The nominal speed may be far from the truth (a virtual device, a shaped port): it goes at once. */
	estimator->measured = true;
	estimator->budget_bytes = measured_budget(estimator);
}

bool pace_window_is_over(const struct pace_window *window, uint64_t round_trip_ns)
{
	/* A late reader finds a backlog, which no link brought within the window in which it is read. */
	return window->busy_ns >= max_u64(WINDOW_LEAST_NS, LOOPS_IN_WINDOW * round_trip_ns) &&
	       window->bytes >= BACKLOGS_IN_WINDOW * window->backlog_bytes;
}

void pace_estimator_take(struct pace_estimator *estimator, const struct pace_window *window, uint64_t now_ns,
			 bool shared, uint64_t host_bytes)
{
	uint64_t bytes = window->bytes, time_ns = window->busy_ns;
	bool limited = window->limited_ns >= window->busy_ns / 2;

	if (window->shared || shared) {
		uint64_t passed_ns = now_ns - window->start_ns;

		/*
		 * The budget is the host's, so the rate must be. It is known only where we were busy all the while;
		 * otherwise our own part says no more than that the link can do at least this.
		 */
		if (host_bytes > window->host_bytes && window->busy_ns >= passed_ns - passed_ns / 4) {
			bytes = host_bytes - window->host_bytes;
			time_ns = passed_ns;
		} else {
			limited = false;
		}
	}
	count(estimator, bytes, time_ns, limited);
}
