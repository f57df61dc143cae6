/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured, and the parts that hosts are put in for now. */
#include "clusterprobe/fabric_internal.h"

#include "base/random.h"
#include "base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TOP_EACH = 24 }; /* of so many rounds one may be too high */

int fabric_work_init(struct fabric_work *work)
{
	size_t n = work->n;
	const struct sys_array arrays[] = {
		SYS_ARRAY(work->top, 2 * FABRIC_TOP * n),
		SYS_ARRAY(work->seen, 2 * n),
		SYS_ARRAY(work->part, n),
		SYS_ARRAY(work->margin, n),
		SYS_ARRAY(work->other, n),
		SYS_ARRAY(work->order, 2 * n),
		SYS_ARRAY(work->evidence, n * n),
		SYS_ARRAY(work->between, n * n),
		SYS_ARRAY(work->scratch, FABRIC_SCRATCH * n),
		SYS_ARRAY(work->flows, FABRIC_FLOWS_EACH * n),
		SYS_ARRAY(work->rates, FABRIC_FLOWS_EACH * n),
		SYS_ARRAY(work->nic_Bps[0], n),
		SYS_ARRAY(work->nic_Bps[1], n),
		SYS_ARRAY(work->crossing[0], n),
		SYS_ARRAY(work->crossing[1], n),
	};

	work->arrays = sys_zalloc_arrays(arrays, sizeof(arrays) / sizeof(arrays[0]));
	return work->arrays ? 0 : -ENOMEM;
}

void fabric_work_fini(struct fabric_work *work)
{
	sys_free(work->samples);
	sys_free(work->rounds);
	sys_free(work->arrays);
}

uint64_t fabric_random(struct fabric_work *work, uint64_t below)
{
	return random_below(&work->random, below);
}

void fabric_shuffle(struct fabric_work *work, uint16_t *items, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = fabric_random(work, i);
		uint16_t item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

static int compare(const void *a, const void *b)
{
	const double *first = a, *second = b;

	return (*first > *second) - (*first < *second);
}

double fabric_quantile(double *values, size_t count, double part)
{
	qsort(values, count, sizeof(*values), compare);
	return values[(size_t)(part * (double)(count - 1) + 0.5)];
}

void fabric_keep_top(double *top, size_t count, double value)
{
	for (size_t i = 0; i < count; i++)
		if (value > top[i]) {
			double other = top[i];

			top[i] = value;
			value = other;
		}
}

/*
 * A host's NIC carries the most that it moved in any round, but for the very best of many: a sample may be too high, as a
 * clock was read too late.
 */
static void learn_nic(struct fabric_work *work, size_t way, size_t host, double sum)
{
	double *top = work->top + FABRIC_TOP * (way * work->n + host);
	unsigned *seen = &work->seen[way * work->n + host], skip;

	fabric_keep_top(top, FABRIC_TOP, sum);
	skip = ++*seen / TOP_EACH;
	work->nic_Bps[way][host] = top[skip < FABRIC_TOP ? skip : FABRIC_TOP - 1];
}

static void learn_nics(struct fabric_work *work, const struct fabric_sample *samples, size_t count)
{
	double *sum = work->scratch;

	memset(sum, 0, 2 * work->n * sizeof(*sum));
	for (size_t i = 0; i < count; i++) {
		sum[samples[i].flow.from] += (double)samples[i].rate_Bps;
		sum[work->n + samples[i].flow.to] += (double)samples[i].rate_Bps;
	}
	for (size_t i = 0; i < 2 * work->n; i++)
		if (sum[i] > 0)
			learn_nic(work, i / work->n, i % work->n, sum[i]);
}

int fabric_run(struct fabric_work *work, size_t count, size_t single, enum fabric_purpose purpose)
{
	struct fabric_round *round;
	int r = sys_grow(&work->samples, work->sample_count, count, sizeof(*work->samples));

	if (r == 0)
		r = sys_grow(&work->rounds, work->round_count, 1, sizeof(*work->rounds));
	if (r == 0)
		r = work->probe->ops->run(work->probe, work->flows, count, work->round_count,
					  work->expected > work->round_count ? work->expected : work->round_count + 1,
					  work->rates, work->diag);
	if (r < 0)
		return r;
	round = &work->rounds[work->round_count++];
	*round = (struct fabric_round){ work->sample_count, count, single, purpose };
	for (size_t i = 0; i < count; i++)
		work->samples[work->sample_count++] = (struct fabric_sample){ work->flows[i], (float)work->rates[i] };
	learn_nics(work, &work->samples[round->first], count);
	return 0;
}

void fabric_number(struct fabric_work *work)
{
	uint16_t *number = work->order;
	size_t count = 0;

	for (size_t i = 0; i < work->n; i++)
		number[i] = UINT16_MAX;
	for (size_t i = 0; i < work->n; i++) {
		uint16_t *at = &number[work->part[i]];

		if (*at == UINT16_MAX)
			*at = (uint16_t)count++;
		work->part[i] = *at;
	}
	work->part_count = count;
}
