/* SPDX-License-Identifier: Apache-2.0 */
#include "stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 5000, RESAMPLES_OF_MANY = 500, MANY = 200 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double of_sorted(const double *sorted, size_t count, double quantile)
{
	double at = quantile * (double)(count - 1);
	size_t below = (size_t)at;
	size_t above = below + 1 < count ? below + 1 : below;

	return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

double stats_quantile(const double *values, size_t count, double quantile)
{
	double *sorted, r;

	if (count == 0)
		return NAN;
	sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		return NAN;
	memcpy(sorted, values, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), ascending);
	r = of_sorted(sorted, count, quantile);
	free(sorted);
	return r;
}

double stats_median(const double *values, size_t count)
{
	return stats_quantile(values, count, 0.5);
}

double stats_max(const double *values, size_t count)
{
	return stats_quantile(values, count, 1.0);
}

static uint64_t next_random(uint64_t *state) /* xorshift64* */
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

struct stats_interval stats_bootstrap_quantile(const double *values, size_t count, double quantile)
{
	double middle = stats_quantile(values, count, quantile);
	struct stats_interval r = { middle, middle, middle };
	size_t i, k, resamples = count > MANY ? RESAMPLES_OF_MANY : RESAMPLES;
	double *found = NULL, *sample = NULL;
	uint64_t state = 88172645463325252ULL;

	if (count < 2)
		return r;
	found = malloc(resamples * sizeof(*found));
	sample = malloc(count * sizeof(*sample));
	if (!found || !sample)
		goto out;
	for (i = 0; i < resamples; i++) {
		for (k = 0; k < count; k++)
			sample[k] = values[(size_t)((next_random(&state) >> 11) % count)];
		qsort(sample, count, sizeof(*sample), ascending);
		found[i] = of_sorted(sample, count, quantile);
	}
	qsort(found, resamples, sizeof(*found), ascending);
	r.low = of_sorted(found, resamples, 0.025);
	r.high = of_sorted(found, resamples, 0.975);
out:
	free(found);
	free(sample);
	return r;
}

struct stats_interval stats_bootstrap(const double *values, size_t count)
{
	return stats_bootstrap_quantile(values, count, 0.5);
}
