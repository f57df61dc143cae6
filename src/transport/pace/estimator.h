/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many granted, undelivered bytes keep a link busy. Pure: values in, values out; docs/design/transport.md has the formulae.
 *
 * Two kinds of measurement come in. A loop sample is the time from telling a grant to the arrival of its first byte
 * while nothing else was on its way (round trip and wake-ups, without the queue that the budget itself makes). A window
 * is some milliseconds of the link: bytes delivered, time, and whether the budget was what held the senders back; only
 * then its rate says what this budget brings. A low rate alone never lowers it. What the budget has beside this estimate
 * (pace.c) lets the rate rise where the loop under load is longer than the samples.
 */
#ifndef TRIBUTARY_TRANSPORT_PACE_ESTIMATOR_H
#define TRIBUTARY_TRANSPORT_PACE_ESTIMATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PACE_LOOP_SAMPLES = 64,
	PACE_LOOP_LEAST = 8,    /* samples, before the formula is used */
	PACE_PEAK_WINDOWS = 64, /* limited windows a peak is kept for, once more at most */
};
#define PACE_BUDGET_MAX_BYTES (256ULL << 20)
#define PACE_NOMINAL_LOOP_NS  200000ULL /* assumed before anything is measured */
#define PACE_WAKE_MAX_NS      500000ULL /* more delay than this on top of the usual is not worth a longer queue */

struct pace_estimator {
	uint64_t budget_bytes; /* the answer */
	uint64_t quantum_bytes, nominal_Bps;
	/* Private. */
	uint64_t peak_Bps[2];                /* of this and the previous PACE_PEAK_WINDOWS */
	uint64_t loop_ns[PACE_LOOP_SAMPLES]; /* a ring */
	uint64_t path_ns, wake_ns;           /* least loop; how far the median is above it */
	uint64_t usual_ns;                   /* first quartile */
	size_t loop_count, loop_next;
	unsigned peak_windows;
	bool measured, loop_changed;
};

/* Time of the pool since the window began; see docs/design/transport.md, "Windows". */
struct pace_window {
	uint64_t start_ns, busy_ns, limited_ns, bytes, host_bytes;
	uint64_t backlog_bytes; /* at most so much was here already when it began, unread */
	bool shared;            /* with other processes of the host; host_bytes: what had come to all of them */
};

/* nominal_Bps 0: not known. */
void pace_estimator_init(struct pace_estimator *estimator, uint64_t nominal_Bps, uint64_t quantum_bytes);
void pace_estimator_loop(struct pace_estimator *estimator, uint64_t loop_ns);
bool pace_window_is_over(const struct pace_window *window, uint64_t round_trip_ns);
/* A window is over: shared, host_bytes as in it, now. Windows of 0 ns are ignored. */
void pace_estimator_take(struct pace_estimator *estimator, const struct pace_window *window, uint64_t now_ns,
			 bool shared, uint64_t host_bytes);
/* The highest rate seen lately; the nominal one before anything was measured. */
uint64_t pace_estimator_rate(const struct pace_estimator *estimator);
/* Path and wake-up together; the assumption before enough samples. */
uint64_t pace_estimator_round_trip(const struct pace_estimator *estimator);

#endif
