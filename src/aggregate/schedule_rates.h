/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What aggregators are worth, from how long operations took with them and without (docs/design/aggregation.md, Measured rates). Pure.
 *
 * A calibration is operations over one schedule, several in flight, in rounds that are as long as it takes to say something. All
 * members go by the same times and must come to the same rates, to the last bit: double arithmetic as in
 * schedule_shares.h.
 */
#ifndef TRIBUTARY_AGGREGATE_SCHEDULE_RATES_H
#define TRIBUTARY_AGGREGATE_SCHEDULE_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCHEDULE_RATES_OPERATIONS = 4,          /* of a round, at the same time */
	SCHEDULE_RATES_LEAST_BYTES = 192 << 10, /* of an operation, however few the hosts */
	SCHEDULE_RATES_MOST_BYTES = 4 << 20,
};
/* After so much in all there are no more calibrations. */
#define SCHEDULE_RATES_ENOUGH_NS UINT64_C(5000000000)

struct schedule_rates_calibration {
	double expected_s_per_B;   /* above 0: as the schedule has it */
	size_t bytes, least_bytes; /* of each operation of the next round */
	uint64_t time_ns;          /* of the last round */
	double slower;             /* than expected, in the last round */
};
void schedule_rates_begin(struct schedule_rates_calibration *calibration, double expected_s_per_B, size_t least_bytes);
/*
 * Of an operation, so that each host sums two segments in a round: with fewer than one some hosts only wait for others, which
 * the schedule's time for a byte does not know. With more than 64 hosts of 2 Gbit/s and more even the longest is too short.
 */
size_t schedule_rates_least_bytes(size_t host_count, size_t segment_bytes);
/* How long a round took. False: too short; the next one is longer. */
bool schedule_rates_round(struct schedule_rates_calibration *calibration, uint64_t time_ns);
/* For the next one: longer, if there is time, as the beginning and the end of a round count less in a longer one. */
void schedule_rates_again(struct schedule_rates_calibration *calibration);
/* With an aggregator against without, and no better than expected. */
double schedule_rates_compare(const struct schedule_rates_calibration *with,
			      const struct schedule_rates_calibration *without);
/*
 * Up to so much slower than expected an aggregator's rate stays as it was said: a port's own overheads and some noise, or as long as
 * it is still better than members alone, whose expected time is the second.
 */
double schedule_rates_limit(double expected_s_per_B, double without_s_per_B);
/*
 * The comparisons of one aggregator (or all), in order; zeros but for the limit. The first is of connections that have carried
 * nothing yet: it says nothing by itself.
 */
struct schedule_rates_decision {
	double limit;
	unsigned heard;
	bool enough;         /* heard as often as it takes */
	double last, slower; /* slower: the least but the first */
};
/* True: that is enough. Who seems slow is heard again, and again while it gets better. */
bool schedule_rates_hear(struct schedule_rates_decision *decision, double slower);
/*
 * What they say in the end: 1, as expected, or how much slower, beyond the limit. What ended before it was enough must say
 * more.
 */
double schedule_rates_slower(const struct schedule_rates_decision *decision);
/*
 * Of an aggregator beyond the limit, for which the schedule reckoned with load bytes for each of an operation; never more than
 * said_Bps (0: nobody said).
 */
uint64_t schedule_rates_aggregator(uint64_t said_Bps, double load, double expected_s_per_B, double slower);

#endif
