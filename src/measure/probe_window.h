/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of flows that run at once, by counting: after a warm-up in which every flow has moved something, all counters are
 * read, and once more after the duration. All flows ran all of that time, so no flow's start or end is in it. Inner header
 * of the probes.
 *
 * The window is longer than asked for if a flow has not moved in it: no rate is 0.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_WINDOW_H
#define TRIBUTARY_MEASURE_PROBE_WINDOW_H

#include "measure/probe.h"

struct probe_window {
	const struct probe *probe;
	/* Bytes that flow has moved since it began. */
	uint64_t (*moved)(void *arg, size_t flow);
	/* What ended a flow, -errno; 0 while all run. NULL: none can end. */
	int (*failed)(void *arg);
	void *arg;
	size_t flow_count;
};

/*
 * ret->rate_Bps has flow_count places. -EINTR: stopped; -ETIMEDOUT: a flow does not move at all; -ENOMEM; otherwise what
 * `failed` says. *ret is written on success only.
 */
int probe_window_measure(const struct probe_window *window, uint64_t duration_ns, struct probe_rates *ret);

/* How long the warm-up of such a measurement lasts at least. */
uint64_t probe_window_warm_up_ns(uint64_t duration_ns);

#endif
