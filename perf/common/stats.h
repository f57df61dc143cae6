/* SPDX-License-Identifier: Apache-2.0 */
/* Order statistics, and how sure a median of ratios is. Pure; any thread. */
#ifndef TRIBUTARY_PERF_STATS_H
#define TRIBUTARY_PERF_STATS_H

#include <stddef.h>

/* NaN for count 0 or when memory runs out. quantile: 0 to 1, interpolated between neighbours. */
double stats_quantile(const double *values, size_t count, double quantile);
double stats_median(const double *values, size_t count);
double stats_max(const double *values, size_t count);

struct stats_interval {
	double median, low, high;
};

/*
 * The median (or in its place another quantile) and its 95 % interval: percentile bootstrap, 5,000 resamples (500 of more
 * than 200 values) from a generator with a fixed seed, so the same values give the same interval. Under two values low
 * and high are the median itself.
 */
struct stats_interval stats_bootstrap(const double *values, size_t count);
struct stats_interval stats_bootstrap_quantile(const double *values, size_t count, double quantile);

#endif
