/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/streams_measure.h"

#include "base/clock.h"

#include <math.h>

#define EMPTIED_NS (60 * NS_PER_MS)
#define FAIR       1.15
#define FAIR_LOST  1.25

static double rate_Bps(uint64_t bytes, uint64_t time_ns)
{
	return time_ns ? (double)bytes * 1e9 / (double)time_ns : 0;
}

static void end_period(struct tcp_streams_measure *measure)
{
	double rate = rate_Bps(measure->period_bytes, measure->period_ns);

	measure->least_Bps = measure->periods ? fmin(measure->least_Bps, rate) : rate;
	measure->most_Bps = fmax(measure->most_Bps, rate);
	measure->periods++;
	measure->period_ns = measure->period_bytes = 0;
}

void tcp_streams_measure_add(struct tcp_streams_measure *measure, const struct tcp_streams_sample *sample)
{
	measure->elapsed_ns += sample->elapsed_ns;
	measure->acknowledged_bytes += sample->acknowledged_bytes;
	measure->port_bytes += sample->port_bytes;
	measure->flight_bytes += sample->flight_bytes;
	measure->flight_count += sample->flight_bytes != 0;
	measure->competes |= sample->competes;
	measure->others = sample->others;
	measure->waited_ns += sample->waited_ns;
	measure->period_ns += sample->waited_ns;
	for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX; i++) {
		measure->waited_bytes[i] += sample->waited_bytes[i];
		measure->period_bytes += sample->waited_bytes[i];
	}
	if (measure->period_ns >= TCP_STREAMS_PERIOD_NS)
		end_period(measure);
}

double tcp_streams_measure_rate(const struct tcp_streams_measure *measure, uint32_t set)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX; i++)
		bytes += set >> i & 1 ? measure->waited_bytes[i] : 0;
	return rate_Bps(bytes, measure->waited_ns);
}

double tcp_streams_measure_mean(const struct tcp_streams_measure *measure)
{
	return rate_Bps(measure->acknowledged_bytes, measure->elapsed_ns);
}

double tcp_streams_measure_port(const struct tcp_streams_measure *measure)
{
	/* Some drivers read their counters once a second: then it is as if nobody else used the port. */
	return rate_Bps(measure->port_bytes < measure->acknowledged_bytes / 2 ? measure->acknowledged_bytes : measure->port_bytes,
			measure->elapsed_ns);
}

double tcp_streams_measure_spread(const struct tcp_streams_measure *measure)
{
	double rate = tcp_streams_measure_rate(measure, TCP_STREAMS_ALL);

	return rate > 0 ? (measure->most_Bps - measure->least_Bps) / rate : 0;
}

uint32_t tcp_streams_measure_fastest(const struct tcp_streams_measure *measure, uint32_t set, unsigned count)
{
	while (tcp_streams_count(set) > count) {
		uint32_t slowest = 0;

		for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX; i++)
			if (set >> i & 1 &&
			    (!slowest || measure->waited_bytes[i] <= measure->waited_bytes[__builtin_ctz(slowest)]))
				slowest = 1U << i;
		set &= ~slowest;
	}
	return set;
}

static bool hardly_waits(const struct tcp_streams_measure *after)
{
	return after->elapsed_ns >= EMPTIED_NS && after->waited_ns < after->elapsed_ns / 8;
}

bool tcp_streams_measure_emptied(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after)
{
	return hardly_waits(after) && before->waited_ns >= before->elapsed_ns / 2 &&
	       tcp_streams_measure_mean(after) > TCP_STREAMS_KEPT * tcp_streams_measure_mean(before);
}

bool tcp_streams_measure_starved(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after)
{
	return hardly_waits(after) &&
	       tcp_streams_measure_mean(after) <= TCP_STREAMS_KEPT * tcp_streams_measure_mean(before);
}

bool tcp_streams_measure_port_gained(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after)
{
	double spread = fmax(tcp_streams_measure_spread(before), tcp_streams_measure_spread(after));
	double own = tcp_streams_measure_mean(before), port = tcp_streams_measure_port(before);
	double gain = tcp_streams_measure_mean(after) - own;
	/* Of what others send, which may be far larger than the gain: three standard errors. */
	double noise = fmax(port - own, 0) * spread / sqrt(after->periods + 1.0);

	return gain < own / 16 || tcp_streams_measure_port(after) - port >= gain / 2 + noise;
}

static double gain_of(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after)
{
	return tcp_streams_measure_rate(after, TCP_STREAMS_ALL) - tcp_streams_measure_rate(before, TCP_STREAMS_ALL);
}

bool tcp_streams_measure_is_fair(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after)
{
	const struct tcp_streams_others *others = &after->others;

	return after->competes && others->measured &&
	       tcp_streams_measure_rate(after, TCP_STREAMS_ALL) <= FAIR * others->each_Bps &&
	       others->lost_Bps <= FAIR_LOST * gain_of(before, after);
}

bool tcp_streams_measure_others_kept(const struct tcp_streams_measure *before, const struct tcp_streams_measure *after,
				     double margin)
{
	const struct tcp_streams_others *others = &after->others;

	if ((!before->competes && !after->competes) || tcp_streams_measure_is_fair(before, after))
		return true;
	return others->measured && others->kept >= TCP_STREAMS_KEPT + margin &&
	       others->lost_Bps <= fmax(gain_of(before, after), 0) / 2;
}

uint32_t tcp_streams_measure_sufficient(const struct tcp_streams_measure *before, uint32_t old_set,
					const struct tcp_streams_measure *after, uint32_t new_set)
{
	double left = tcp_streams_measure_rate(after, TCP_STREAMS_ALL) -
		      tcp_streams_measure_rate(before, TCP_STREAMS_ALL);
	double slowed_from = 0, slowed_to = 0, slowed = 0;
	uint32_t set = old_set;

	for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX; i++) {
		double from = tcp_streams_measure_rate(before, old_set & 1U << i),
		       to = tcp_streams_measure_rate(after, 1U << i);

		if (to < TCP_STREAMS_KEPT * from) {
			slowed_from += from;
			slowed_to += to;
			slowed++;
		}
	}
	while (new_set) {
		uint32_t next = tcp_streams_measure_fastest(after, new_set, 1);
		double rate = tcp_streams_measure_rate(after, next);

		if (rate * slowed < 1.25 * slowed_to && rate * slowed > 0.8 * slowed_to)
			rate *= slowed_from / slowed_to;
		if (rate <= 0 || rate / 2 > left) /* rounded */
			break;
		left -= rate;
		set |= next;
		new_set &= ~next;
	}
	return set;
}
