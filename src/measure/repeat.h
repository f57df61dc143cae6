/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repetitions of experiments, and which of them to believe. Experiments take turns, so that the repetitions of each
 * are spread over the whole measurement; somebody who uses the machine for a while then shows as repetitions that
 * contradict others, and all that ran in that time is set aside. docs/design/measuring.md has the rules. Pure.
 */
#ifndef TRIBUTARY_MEASURE_REPEAT_H
#define TRIBUTARY_MEASURE_REPEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEASURE_REPEAT_KEPT_LEAST = 5 }; /* repetitions that must be left for a series to be of use */

enum measure_repeat_state {
	MEASURE_REPEAT_MORE,      /* not precise enough yet */
	MEASURE_REPEAT_DISTURBED, /* the repetitions contradict each other: of no use, unless more of them settle it */
	MEASURE_REPEAT_DONE,
	MEASURE_REPEAT_STATE_COUNT
};

enum measure_repeat_fate {
	MEASURE_REPEAT_KEPT,
	MEASURE_REPEAT_OUTLIER, /* far from the others, alone in its time */
	MEASURE_REPEAT_ASIDE,   /* somebody used the machine */
	MEASURE_REPEAT_FATE_COUNT
};

struct measure_repetition {
	double total;
	uint32_t turn; /* how many runs, of any experiment, came before it */
	enum measure_repeat_fate fate;
};

/* The repetitions of one experiment. */
struct measure_series {
	size_t flow_count, count;
	struct measure_repetition *at;
	double *rates; /* flow_count for each repetition */
	double target; /* the 95 % interval's half that is small enough, over the rate */
	/* By measure_repeat_analyse, of the total over the repetitions that count: */
	enum measure_repeat_state state;
	size_t kept;
	double mean_Bps, half; /* half: of the 95 % interval, over the rate */
	/*
	 * Standard errors over the rate that no mean is believed to be below, as few repetitions may agree by chance.
	 */
	double error_least, flow_error_least; /* of the total; of one flow */
};

void measure_series_init(struct measure_series *series, size_t flow_count, double target);
void measure_series_fini(struct measure_series *series);
/* rates: of all flows. Turns never decrease. -ENOMEM. */
int measure_series_add(struct measure_series *series, const double *rates, uint32_t turn);
/* Mean of a flow over the repetitions that count, and its standard error; 0 when there are none. */
double measure_series_flow(const struct measure_series *series, size_t flow, double *ret_error_Bps);

/* Analyses all together: what was disturbed is found in their common time. -ENOMEM. */
int measure_repeat_analyse(struct measure_series *series, size_t count);

/* Sorts the values; 0 of none. */
double measure_repeat_median(double *values, size_t count);
/* Two-sided 95 % quantile of Student's t. */
double measure_repeat_student(size_t degrees);

#endif
