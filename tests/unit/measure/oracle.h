/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What measuring could find out at best about a simulated machine, by linear programs over the machine's own
 * constraints: the most that any flows together bring through each directed link. Shares nothing with the inference.
 */
#ifndef TRIBUTARY_TESTS_UNIT_MEASURE_ORACLE_H
#define TRIBUTARY_TESTS_UNIT_MEASURE_ORACLE_H

#include "measure/simulated_probe.h"

struct oracle_link {
	bool crossed;  /* some flow crosses it */
	bool loadable; /* flows can fill it, or the engines of the device at its end, which is the same from outside */
	double true_Bps;   /* of a loadable link */
	double most_Bps;   /* that flows can bring through it */
	double engine_Bps; /* that copy engines can, without kernels beside them */
	double over;       /* what flows could bring if it were unbounded, over true_Bps; 1: it is just filled */
};

/* All flows that the probe can move directly, except between a memory and itself. *ret is malloc'ed. */
size_t oracle_flows(const struct topology *truth, struct probe *probe, struct probe_flow **ret);
/* ret has a place for each directed link. */
void oracle_links(const struct topology *truth, struct probe *probe, struct oracle_link *ret);

/* Largest sum of gain × x with x >= 0 and sum of weight × x <= bound for each of `rows` rows; all bounds > 0. */
double oracle_maximise(const double *weight, const double *bound, const double *gain, size_t rows, size_t columns);

#endif
