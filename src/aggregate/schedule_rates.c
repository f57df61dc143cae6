/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/schedule_rates.h"

/* A round is to last so long, and counts if it lasted half of it. The first one is chosen by what is expected. */
#define ROUND_NS      20000000.0
#define COUNTS_NS     10000000.0
/* So short a one is twice as long the next time. */
#define DOUBLES_NS    150000000.0
#define FIRST_NS      5000000.0
#define GROWTH_MOST   8.0
#define SEGMENTS_EACH 2.0
/*
 * Comparisons but the first: so many if they stay the same, so many at most. One lost packet that TCP finds after 200 ms makes
 * a round five times as long as it should be; several in a row are not unheard of.
 */
#define HEARD         6
#define HEARD_MOST    10
#define BETTER        0.8
/* Fewer of them, because time was over, must say that much more. */
#define FEWER         2.0
/* Rounds are short: good aggregators seem slower in them than they are. */
#define FITS          2.0
#define GAINS         0.9
#define NS_IN_S       1e9
#define ALIGN_BYTES   4096

static size_t within(double bytes, size_t least_bytes)
{
	if (!(bytes > (double)least_bytes))
		return least_bytes;
	if (bytes > SCHEDULE_RATES_MOST_BYTES)
		return SCHEDULE_RATES_MOST_BYTES;
	return (size_t)bytes / ALIGN_BYTES * ALIGN_BYTES;
}

size_t schedule_rates_least_bytes(size_t host_count, size_t segment_bytes)
{
	double bytes = SEGMENTS_EACH * (double)host_count * (double)segment_bytes / SCHEDULE_RATES_OPERATIONS;

	return within(bytes, SCHEDULE_RATES_LEAST_BYTES);
}

void schedule_rates_begin(struct schedule_rates_calibration *calibration, double expected_s_per_B, size_t least_bytes)
{
	*calibration = (struct schedule_rates_calibration){
		.expected_s_per_B = expected_s_per_B,
		.least_bytes = least_bytes,
		.bytes = within(FIRST_NS / NS_IN_S / SCHEDULE_RATES_OPERATIONS / expected_s_per_B, least_bytes),
		.slower = 1,
	};
}

bool schedule_rates_round(struct schedule_rates_calibration *calibration, uint64_t time_ns)
{
	double growth;

	calibration->time_ns = time_ns ? time_ns : 1;
	calibration->slower = (double)calibration->time_ns / NS_IN_S /
			      ((double)calibration->bytes * SCHEDULE_RATES_OPERATIONS) / calibration->expected_s_per_B;
	if ((double)calibration->time_ns >= COUNTS_NS || calibration->bytes >= SCHEDULE_RATES_MOST_BYTES)
		return true;
	growth = ROUND_NS / (double)calibration->time_ns;
	calibration->bytes = within((double)calibration->bytes * (growth < GROWTH_MOST ? growth : GROWTH_MOST),
				    calibration->least_bytes);
	return false;
}

void schedule_rates_again(struct schedule_rates_calibration *calibration)
{
	if ((double)calibration->time_ns < DOUBLES_NS)
		calibration->bytes = within((double)calibration->bytes * 2, calibration->least_bytes);
}

double schedule_rates_compare(const struct schedule_rates_calibration *with,
			      const struct schedule_rates_calibration *without)
{
	return with->slower / (without->slower > 1 ? without->slower : 1);
}

double schedule_rates_limit(double expected_s_per_B, double without_s_per_B)
{
	double gains = expected_s_per_B > 0 ? GAINS * without_s_per_B / expected_s_per_B : 0;

	return gains > FITS ? gains : FITS;
}

bool schedule_rates_hear(struct schedule_rates_decision *decision, double slower)
{
	bool better = slower < decision->last * BETTER;

	decision->last = slower;
	if (++decision->heard == 1)
		return false;
	if (decision->heard == 2 || slower < decision->slower)
		decision->slower = slower;
	decision->enough = slower <= decision->limit || decision->heard > HEARD_MOST ||
			   (!better && decision->heard > HEARD);
	return decision->enough;
}

double schedule_rates_slower(const struct schedule_rates_decision *decision)
{
	double limit = decision->enough ? decision->limit : decision->limit * FEWER;

	return decision->heard > 1 && decision->slower > limit ? decision->slower : 1;
}

uint64_t schedule_rates_aggregator(uint64_t said_Bps, double load, double expected_s_per_B, double slower)
{
	double rate_Bps = load / expected_s_per_B / slower;

	if (said_Bps && rate_Bps >= (double)said_Bps)
		return said_Bps;
	return rate_Bps > 1 ? (uint64_t)rate_Bps : 1;
}
