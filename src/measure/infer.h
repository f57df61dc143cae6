/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each link, and each set of links, carries, from all experiments together. docs/design/measuring.md says how, and what
 * cannot be told apart. Pure.
 */
#ifndef TRIBUTARY_MEASURE_INFER_H
#define TRIBUTARY_MEASURE_INFER_H

#include "measure/measure.h"
#include "measure/resources.h"

struct measure_figure {
	double rate_Bps; /* 0: nothing crossed it */
	double spread;   /* half of the 95 % interval over the rate */
	bool limiting;   /* it was the bottleneck of some experiment; otherwise the rate is the most that was seen */
	bool suspected;  /* it, or another that cannot be told from it, was the bottleneck */
};

/* ret has a place for each resource. -ENOMEM. */
int measure_infer(const struct measure_resources *resources, struct measure_figure *ret);

/* ------------------------------------------------------------------------------------------------------- conclude.c */

/*
 * Writes capacities and limits of what was inferred, and pairs of what single flows got. complete: every experiment was
 * run; otherwise a lower bound does not take the place of a larger nominal rate, as more was to come.
 */
int measure_conclude(struct topology *topology, const struct measure_resources *resources,
		     const struct measure_figure *figures, bool complete, int64_t date_s);
/* Findings: experiments that got much less than the graph now says, links that nothing could load. */
int measure_conclude_check(const struct topology *topology, const struct measure_resources *resources,
			   const struct measure_figure *figures, struct measure_report *report);
/* -ENOMEM. */
int measure_conclude_find(struct measure_report *report, enum measure_finding_kind kind, const char *subject,
			  const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
