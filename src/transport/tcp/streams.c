/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docs/design/streams.md has the states and rules, the terms, and what the controller cannot see.
 * All rates are those of the time in which frames waited.
 */
#include "transport/tcp/streams.h"

#include "base/clock.h"
#include "base/minmax.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* In periods of waiting. With 20 % of noise the mean of 4 is off by 6 % (one standard error), of 20 by 3 %. */
enum {
	PERIODS_WANTED = 2, /* of a settled connection, before it asks for the turn */
	PERIODS_BASE = 3,   /* of steady rates; with 20 % of noise PERIODS_BY_SPREAD makes it 10 */
	PERIODS_BY_SPREAD = 20,
	PERIODS_RESULT = 4,  /* before a trial fails */
	PERIODS_AGAIN = 3,   /* the base has shown more, and both must agree */
	PERIODS_SHARED = 12, /* the same where the noise of what others send may hide one connection's gain */
	PERIODS_FEWER = 10,  /* 0.97 is to be told from 0.9 */
	PERIODS_USUAL = 20,  /* longer than another's trial lasts */
	PERIODS_MOST = 20,
	TRIMS_MOST = 4,
	MANY = 4,        /* times as many streams */
	BESIDE_MOST = 3, /* the same, at once beside other hosts */
	FAILED_AFTER_LOOK = 2, /* trials, by which the hold is a fifth of a second */
};
/* Waited so long, of the last NEED_SPAN_NS or so: a tenth, below which streams hardly shorten anything. */
#define NEED_NS       (20 * NS_PER_MS)
#define NEED_SPAN_NS  (200 * NS_PER_MS)
#define SETTLE_NS     (10 * NS_PER_MS)  /* of a new set of streams, at least: what was on its way is not theirs */
#define TRIAL_MOST_NS (500 * NS_PER_MS) /* what brings nothing is gone within a second, dials and all */
/* Holds, which double with each failure: a dozen trials of 0.1 s in the first minutes of a job, one in five minutes later. */
#define MORE_NS       (50 * NS_PER_MS)
#define FEWER_NS      (15 * NS_PER_S) /* half of the streams for 40 ms: 0.3 % of the time at first */
#define HOLD_MOST_NS  (300 * NS_PER_S)
#define LOOK_NS       (1000 * NS_PER_MS) /* of 30 ms, in which nothing changes */
#define SOON_NS       (300 * NS_PER_MS)
#define IDLE_NS       (600 * NS_PER_MS)
#define CHANGES_NS    (10 * NS_PER_S) /* a neighbour that comes and goes does not cause a trial each time */
/* Rates, as parts of those before. 1 / SAME to GAIN is what changes nothing, so sets do not swing. */
#define GAIN          1.125
#define GAIN_TO_TRIM  1.06 /* of all new streams; some of them may be worth it */
#define GAIN_TO_FULL  1.03 /* from just below FULL */
#define DOUBLED       1.75
#define FULL          0.93
#define HINT_MOST     1.05 /* headers may be counted otherwise */
#define KEPT          TCP_STREAMS_KEPT
#define KEPT_WELL     0.95 /* counts as 1: errors of many trials must not add up */
#define SAME          0.97
#define LOSS_CLEAR    0.7  /* no noise makes KEPT of it */
#define STEADY        0.05 /* a spread */
#define CHANGED_DOWN  0.7  /* beyond what another's trial does to a mean of PERIODS_USUAL */
#define CHANGED_UP    1.4
#define LESS          0.9 /* of what the port sent: the rest is others', or there is room now */

enum result { RESULT_NONE, RESULT_BETTER, RESULT_TRIM, RESULT_WORSE };

static double rate(const struct tcp_streams_measure *measure)
{
	return tcp_streams_measure_rate(measure, TCP_STREAMS_ALL);
}

static uint32_t enlarged(uint32_t set, uint64_t count)
{
	for (unsigned i = 0; i < TCP_STREAMS_RAIL_MAX && tcp_streams_count(set) < count; i++)
		set |= 1U << i;
	return set;
}

/* By a speed that may be wrong: a port that sends more is faster than that. */
static bool is_full(double rate_Bps, const struct tcp_streams_sample *sample)
{
	double port_Bps = (double)sample->port_Bps;

	return port_Bps > 0 && rate_Bps >= FULL * port_Bps && rate_Bps <= HINT_MOST * port_Bps;
}

static uint64_t hold_ns(uint64_t first_ns, uint32_t failed)
{
	return min_u64(first_ns << min_u64(failed, 20), HOLD_MOST_NS);
}

/* Varied, or hosts that failed together would try together for ever. */
static void hold_more(struct tcp_streams_way *way, bool failed, uint64_t now_ns)
{
	uint64_t hold = hold_ns(MORE_NS, way->failed_more);

	way->more_after_ns = now_ns + hold + random_below(&way->random, hold / 2);
	way->failed_more += failed;
}

/* Where others sent a good part of what the port did: they may rest soon. */
static void note_held(struct tcp_streams_way *way, const struct tcp_streams_measure *base)
{
	const double port_Bps = tcp_streams_measure_port(base);

	way->held_Bps = tcp_streams_measure_mean(base) < LESS * port_Bps ? port_Bps : 0;
}

static void hold_fewer(struct tcp_streams_way *way, uint64_t now_ns)
{
	way->fewer_after_ns = now_ns + hold_ns(FEWER_NS, way->failed_fewer);
}

static void enter(struct tcp_streams *streams, enum tcp_streams_state state, uint64_t now_ns)
{
	streams->state = state;
	streams->since_ns = now_ns;
	memset(&streams->now, 0, sizeof(streams->now));
}

/* To the set with which the trial began. */
static void put_back(struct tcp_streams *streams, uint64_t now_ns)
{
	streams->open = streams->active = streams->before;
	enter(streams, TCP_STREAMS_SETTLED, now_ns);
}

static void keep(struct tcp_streams *streams, uint32_t set, uint64_t now_ns)
{
	streams->before = set;
	streams->usual_Bps = 0;
	put_back(streams, now_ns);
}

static unsigned most_streams(const struct tcp_streams_sample *sample)
{
	return sample->most && sample->most < TCP_STREAMS_RAIL_MAX ? sample->most : TCP_STREAMS_RAIL_MAX;
}

static bool wants_more(const struct tcp_streams *streams, const struct tcp_streams_way *way,
		       const struct tcp_streams_sample *sample)
{
	return streams->need_ns >= NEED_NS && sample->now_ns >= way->more_after_ns && !sample->receiver_full &&
	       tcp_streams_count(streams->active) < most_streams(sample);
}

/* Others filled the port, so more brought nothing: do they still? */
static bool wants_look(const struct tcp_streams *streams, const struct tcp_streams_way *way,
		       const struct tcp_streams_sample *sample)
{
	return streams->need_ns >= NEED_NS && way->held_Bps > 0 && sample->now_ns < way->more_after_ns &&
	       sample->now_ns >= way->look_after_ns && !sample->competes &&
	       tcp_streams_count(streams->active) < most_streams(sample);
}

static bool wants_fewer(const struct tcp_streams *streams, const struct tcp_streams_way *way,
			const struct tcp_streams_sample *sample)
{
	const unsigned count = tcp_streams_count(streams->active);

	return (streams->idle || (streams->need_ns >= NEED_NS && sample->now_ns >= way->fewer_after_ns)) && count > 1 &&
	       (count + 1) / 2 >= sample->least && count <= most_streams(sample);
}

/* Threads that have shown a gain share out what several streams carry; without them these are no one's find. */
static uint32_t with_least(struct tcp_streams *streams, const struct tcp_streams_sample *sample, uint32_t found)
{
	if (sample->least && !sample->competes) {
		const uint32_t least = (uint32_t)min_u64(sample->least, most_streams(sample));

		streams->given = true;
		return found || least > tcp_streams_count(streams->open) ? (uint32_t)max_u64(found, least) : 0;
	}
	if (!sample->least && streams->given) {
		streams->given = false;
		return (uint32_t)max_u64(found, 1);
	}
	return found;
}

/* What another connection of the way has found. */
static void adopt(struct tcp_streams *streams, const struct tcp_streams_way *way,
		  const struct tcp_streams_sample *sample)
{
	uint32_t found = with_least(streams, sample, way->found), active;

	if (found > tcp_streams_count(streams->open) && sample->receiver_full)
		found = 0;
	if (found > tcp_streams_count(streams->open) && streams->need_ns >= NEED_NS / 2)
		streams->open = enlarged(streams->open, found);
	else if (found)
		streams->open = tcp_streams_measure_fastest(&streams->now, streams->open, found);
	active = streams->open & (sample->ready | streams->active);
	if (!active) { /* all of these are lost */
		streams->open = streams->active;
	} else if (active != streams->active) {
		streams->active = active;
		streams->usual_Bps = 0;
		enter(streams, TCP_STREAMS_SETTLED, sample->now_ns);
	}
}

/* Does the network still carry what it did? If not, a trial that failed may be worth another one. */
static void note_usual(struct tcp_streams *streams, struct tcp_streams_way *way, uint64_t now_ns)
{
	const double was_Bps = streams->usual_Bps;

	if (streams->now.periods < PERIODS_USUAL)
		return;
	streams->usual_Bps = rate(&streams->now);
	enter(streams, TCP_STREAMS_SETTLED, now_ns);
	if (was_Bps <= 0 || (way->changed_ns && now_ns < way->changed_ns + CHANGES_NS) || way->limit)
		return;
	if (streams->usual_Bps < CHANGED_DOWN * was_Bps) {
		way->failed_more = 0;
		way->more_after_ns = way->changed_ns = now_ns;
		streams->usual_Bps = 0; /* in part it is from before the change */
	} else if (streams->usual_Bps > CHANGED_UP * was_Bps) {
		way->failed_fewer = 0;
		way->fewer_after_ns = min_u64(way->fewer_after_ns, now_ns + SOON_NS);
		way->changed_ns = now_ns;
	}
}

static void step_settled(struct tcp_streams *streams, struct tcp_streams_way *way,
			 const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *now = &streams->now;
	bool measured;

	if (streams->state == TCP_STREAMS_SETTLED)
		note_usual(streams, way, sample->now_ns);
	if (streams->state == TCP_STREAMS_SETTLED || sample->least || streams->given)
		adopt(streams, way, sample);
	streams->idle = streams->need_ns < NEED_NS / 4 && sample->now_ns - streams->since_ns >= IDLE_NS &&
			!way->failed_fewer && sample->acknowledged_bytes;
	measured = now->periods >= PERIODS_WANTED || streams->usual_Bps > 0 || streams->idle;
	if (!measured || streams->open != streams->active || way->limit ||
	    !((wants_more(streams, way, sample) && !is_full(now->periods ? rate(now) : streams->usual_Bps, sample)) ||
	      wants_fewer(streams, way, sample) || wants_look(streams, way, sample))) {
		streams->state = TCP_STREAMS_SETTLED;
	} else if (streams->state == TCP_STREAMS_SETTLED) {
		streams->state = TCP_STREAMS_QUEUED;
	} else if (sample->turn) {
		streams->before = streams->active;
		streams->looks = !wants_more(streams, way, sample) && !wants_fewer(streams, way, sample);
		if (streams->looks)
			way->look_after_ns = sample->now_ns + LOOK_NS;
		enter(streams, TCP_STREAMS_BASE, sample->now_ns);
	}
}

/* By an earlier job, or by the threads that send. Beside other hosts none gets far ahead by what was right without them. */
static uint64_t hinted(const struct tcp_streams_way *way, const struct tcp_streams_sample *sample, unsigned count)
{
	const uint64_t hint = max_u64(way->remembered, way->failed_more % 2 ? 0 : sample->threads);

	return sample->competes ? min_u64(hint, (uint64_t)BESIDE_MOST * count) : hint;
}

/* Steady rates are known soon; and of many streams that an earlier job kept the gain is larger than noise. */
static bool is_measured(const struct tcp_streams *streams, const struct tcp_streams_way *way,
			const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *base = &streams->now;
	const unsigned count = tcp_streams_count(streams->before);

	if (hinted(way, sample, count) >= (uint64_t)MANY * count)
		return base->periods >= PERIODS_BASE;
	return base->periods >= PERIODS_MOST ||
	       base->periods >= PERIODS_BASE + PERIODS_BY_SPREAD * tcp_streams_measure_spread(base);
}

static void begin(struct tcp_streams *streams, enum tcp_streams_state state, uint32_t active, uint64_t now_ns)
{
	streams->base = streams->now;
	streams->active = active;
	streams->trims = 0;
	enter(streams, state, now_ns);
}

static uint64_t count_to_try(const struct tcp_streams *streams, const struct tcp_streams_way *way,
			     const struct tcp_streams_sample *sample)
{
	unsigned count = tcp_streams_count(streams->before);
	unsigned try = count * (streams->doubled ? 4 : way->failed_more % 2 ? 3 : 2);

	if (sample->competes) /* so that none gets ahead of the others, and the port is soon full */
		try = count + (count + 1) / 2;
	if (hinted(way, sample, count) > count)
		try = (unsigned)hinted(way, sample, count);
	return min_u64(try, most_streams(sample));
}

static void step_base(struct tcp_streams *streams, struct tcp_streams_way *way, const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *base = &streams->now;
	const uint64_t now_ns = sample->now_ns;

	if (now_ns - streams->since_ns > TRIAL_MOST_NS) {
		if (!streams->looks) {
			way->remembered = 0;
			hold_more(way, streams->open != streams->before, now_ns); /* the peer may not answer */
		}
		put_back(streams, now_ns);
	} else if (!base->periods && !streams->idle) {
		if (sample->competes && streams->need_ns < NEED_NS / 2) /* others want the turn */
			put_back(streams, now_ns);
	} else if (streams->looks) {
		if (!is_measured(streams, way, sample))
			return;
		streams->looks = false;
		if (tcp_streams_measure_port(base) < LESS * way->held_Bps) {
			way->more_after_ns = now_ns; /* for one trial, and a few more where that fails by chance */
			way->failed_more = (uint32_t)min_u64(way->failed_more, FAILED_AFTER_LOOK);
		} else {
			put_back(streams, now_ns);
		}
	} else if (base->periods && rate(base) <= 0) {
		return; /* where nothing passes at all, anything would be a gain */
	} else if (wants_more(streams, way, sample) && !is_full(tcp_streams_measure_port(base), sample)) {
		streams->open = enlarged(streams->before, count_to_try(streams, way, sample));
		if (is_measured(streams, way, sample) && !(streams->open & ~sample->ready))
			begin(streams, TCP_STREAMS_MORE, streams->open, now_ns);
	} else if (wants_fewer(streams, way, sample)) {
		unsigned half = (tcp_streams_count(streams->before) + 1) / 2;

		streams->open = streams->before;
		if (!streams->idle && !is_measured(streams, way, sample))
			return;
		begin(streams, TCP_STREAMS_FEWER, tcp_streams_measure_fastest(base, streams->before, half), now_ns);
	} else {
		if (sample->now_ns >= way->more_after_ns) { /* else another one failed meanwhile, not this one */
			note_held(way, base);
			hold_more(way, true, now_ns);
		}
		put_back(streams, now_ns);
	}
}

struct comparison {
	double gain, old; /* of the connection, of the streams that were there before: new rate by old */
	double least;     /* gain that is wanted */
};

static struct comparison compare(const struct tcp_streams *streams, const struct tcp_streams_measure *base,
				 const struct tcp_streams_measure *now, const struct tcp_streams_sample *sample)
{
	double base_Bps = fmax(rate(base), 1), count = tcp_streams_count(streams->before);
	struct comparison result;

	result.gain = rate(now) / base_Bps;
	result.old = tcp_streams_measure_rate(now, streams->before) / base_Bps;
	result.least = fmin(now->competes ? DOUBLED : GAIN,
			    fmax(GAIN_TO_FULL, 1 + (tcp_streams_count(streams->open) - count) / count / 2));
	if (is_full(tcp_streams_measure_port(now), sample))
		result.least = GAIN_TO_FULL;
	if (tcp_streams_measure_is_fair(base, now))
		result.old = 1;
	return result;
}

/* Of the rate of the streams that were there first. Where rates differ anyway it would be noise that adds up. */
static double kept_in_all(const struct tcp_streams *streams, double old)
{
	return tcp_streams_measure_spread(&streams->base) < STEADY ? streams->kept * (old > KEPT_WELL ? 1 : old) : 1;
}

/* What is clear is decided soon: the margin falls as periods go by. */
static enum result result_of_more(const struct tcp_streams *streams, const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *base = &streams->base, *now = &streams->now;
	const struct comparison found = compare(streams, base, now, sample);
	const uint64_t past_ns = sample->now_ns - streams->since_ns;
	const bool last = now->periods >= PERIODS_MOST || past_ns > TRIAL_MOST_NS;
	const double margin = last ? 0 : 1.0 / (3 * now->periods + 1);
	const bool kept = kept_in_all(streams, found.old) >= KEPT;
	const bool others_lose = !tcp_streams_measure_others_kept(base, now, -margin);

	if (tcp_streams_measure_emptied(base, now) && tcp_streams_measure_others_kept(base, now, 0) &&
	    (now->waited_ns < TCP_STREAMS_PERIOD_NS / 4 || (found.gain >= found.least && found.old >= KEPT)))
		return RESULT_BETTER;
	if (now->periods >= 2 && found.gain >= found.least + margin && found.old >= KEPT + margin && kept &&
	    (now->competes ? tcp_streams_measure_others_kept(base, now, margin)
			   : tcp_streams_measure_port_gained(base, now)))
		return RESULT_BETTER;
	if (tcp_streams_measure_starved(base, now))
		return RESULT_WORSE;
	if (now->periods < PERIODS_RESULT || past_ns < 12 * sample->path_ns)
		return past_ns > TRIAL_MOST_NS + 12 * sample->path_ns ? RESULT_WORSE : RESULT_NONE;
	if (found.gain + margin < fmin(found.least, GAIN_TO_TRIM))
		return RESULT_WORSE;
	if (found.gain >= GAIN_TO_TRIM &&
	    (found.gain + margin < found.least || found.old + margin < KEPT || (last && !kept) || others_lose))
		return RESULT_TRIM;
	return last ? RESULT_WORSE : RESULT_NONE;
}

static void fail_more(struct tcp_streams *streams, struct tcp_streams_way *way, uint64_t now_ns)
{
	way->remembered = 0;
	streams->doubled = false;
	note_held(way, &streams->base);
	put_back(streams, now_ns);
	hold_more(way, true, now_ns);
}

/* A small gain ends no hold: noise may look like one. */
static void keep_more(struct tcp_streams *streams, struct tcp_streams_way *way, uint32_t set, double gain,
		      uint64_t now_ns)
{
	if (tcp_streams_count(streams->before) == 1 || way->one_Bps <= 0)
		way->one_Bps = rate(&streams->base) / tcp_streams_count(streams->before);
	way->all_Bps = streams->trial.periods ? rate(&streams->trial) : tcp_streams_measure_mean(&streams->trial);
	keep(streams, set, now_ns);
	way->found = (uint32_t)max_u64(way->found, tcp_streams_count(set));
	way->held_Bps = 0;
	if (gain >= GAIN)
		way->failed_more = 0;
	else
		hold_more(way, false, now_ns);
	way->failed_fewer = 0;
	hold_fewer(way, now_ns);
}

static void step_more(struct tcp_streams *streams, struct tcp_streams_way *way, const struct tcp_streams_sample *sample)
{
	const enum result result = result_of_more(streams, sample);
	const uint32_t old = streams->before, new = streams->active & ~old;
	uint32_t set = old;

	if (result == RESULT_NONE)
		return;
	if (result == RESULT_TRIM)
		set = tcp_streams_measure_sufficient(&streams->base, old, &streams->now, new);
	if (set == streams->active)
		set = old | tcp_streams_measure_fastest(&streams->now, new, tcp_streams_count(new) - 1);
	if (set != old && ++streams->trims <= TRIMS_MOST) {
		streams->active = streams->open = set;
		enter(streams, TCP_STREAMS_MORE, sample->now_ns);
	} else if (result == RESULT_BETTER &&
		   !streams->now.periods) { /* no more than twice: a ring goes on hop by hop */
		set = old | tcp_streams_measure_fastest(&streams->now, new, tcp_streams_count(old));
		streams->trial = streams->now;
		keep_more(streams, way, set, GAIN, sample->now_ns);
	} else if (result == RESULT_BETTER) {
		streams->trial = streams->now;
		streams->active = old;
		enter(streams, TCP_STREAMS_AGAIN, sample->now_ns);
	} else {
		fail_more(streams, way, sample->now_ns);
	}
}

/* What the old streams would have lost on a full port that is shared equally is little, as others have most of it. */
static bool noise_may_hide_loss(const struct tcp_streams *streams)
{
	const double share = rate(&streams->base) / fmax(tcp_streams_measure_port(&streams->base), 1);
	const double old = tcp_streams_count(streams->before), new = tcp_streams_count(streams->open) - old;

	return !streams->trial.competes && share < 0.5 && old > LOSS_CLEAR * (old + share * new);
}

/* Without the new streams all is as before: so it was they, and not others that rested meanwhile. */
static void step_again(struct tcp_streams *streams, struct tcp_streams_way *way,
		       const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *now = &streams->now;
	const double slack = tcp_streams_measure_spread(now) / (2 * sqrt(now->periods + 1.0));
	const bool competes = streams->trial.competes;
	struct comparison found;

	if (now->periods < (noise_may_hide_loss(streams) ? PERIODS_SHARED : PERIODS_AGAIN)) {
		if (sample->now_ns - streams->since_ns > TRIAL_MOST_NS)
			fail_more(streams, way, sample->now_ns);
		return;
	}
	found = compare(streams, now, &streams->trial, sample);
	if (found.gain + slack < found.least || kept_in_all(streams, found.old) < KEPT - slack ||
	    found.old < KEPT - slack || (!competes && !tcp_streams_measure_port_gained(now, &streams->trial))) {
		fail_more(streams, way, sample->now_ns);
		return;
	}
	streams->doubled = found.gain >= DOUBLED;
	streams->kept = fmin(streams->kept, kept_in_all(streams, found.old));
	keep_more(streams, way, streams->open, found.gain, sample->now_ns);
}

/* RESULT_BETTER: half of the streams carry all that all of them did. */
static enum result result_of_fewer(const struct tcp_streams *streams, const struct tcp_streams_sample *sample)
{
	const struct tcp_streams_measure *base = &streams->base, *now = &streams->now;
	const bool late = sample->now_ns - streams->since_ns > TRIAL_MOST_NS;
	const double margin = now->periods ? 1.0 / (3 * now->periods + 1) : 1;
	double same = fmin(rate(now) / fmax(rate(base), 1),
			   tcp_streams_measure_port(now) / fmax(tcp_streams_measure_port(base), 1));

	if (streams->idle)
		return now->waited_ns >= 2 * TCP_STREAMS_PERIOD_NS ? RESULT_WORSE : late ? RESULT_BETTER : RESULT_NONE;
	if (same + margin < SAME || late)
		return RESULT_WORSE;
	return now->periods < PERIODS_FEWER ? RESULT_NONE : same >= SAME ? RESULT_BETTER : RESULT_WORSE;
}

static void step_fewer(struct tcp_streams *streams, struct tcp_streams_way *way,
		       const struct tcp_streams_sample *sample)
{
	const enum result result = result_of_fewer(streams, sample);
	const uint64_t now_ns = sample->now_ns;

	if (result == RESULT_NONE)
		return;
	if (result == RESULT_WORSE) {
		put_back(streams, now_ns);
		way->failed_fewer++;
		hold_fewer(way, now_ns);
		return;
	}
	keep(streams, streams->active, now_ns);
	if (tcp_streams_count(streams->active) == 1)
		streams->kept = 1;
	if (!streams->idle)
		way->found = tcp_streams_count(streams->active);
	way->failed_fewer = 0;
	way->fewer_after_ns = now_ns + SOON_NS;
	way->more_after_ns = max_u64(way->more_after_ns, now_ns + 3 * SOON_NS);
}

void tcp_streams_init(struct tcp_streams *streams)
{
	memset(streams, 0, sizeof(*streams));
	streams->open = streams->active = streams->before = 1;
	streams->kept = 1;
}

static void note_sample(struct tcp_streams *streams, const struct tcp_streams_sample *sample)
{
	uint64_t past_ns = streams->need_ns * min_u64(sample->elapsed_ns, NEED_SPAN_NS) / NEED_SPAN_NS;

	/* A job that computes sends nothing for a while, from which nothing follows. */
	streams->since_ns = min_u64(streams->since_ns + sample->rested_ns, sample->now_ns);
	streams->need_ns = min_u64(streams->need_ns - past_ns + min_u64(sample->waited_ns, NEED_SPAN_NS), NEED_SPAN_NS);
	streams->need_ns -= min_u64(streams->need_ns, sample->unwaited_ns);
	tcp_streams_measure_add(&streams->now, sample);
	if (streams->state >= TCP_STREAMS_BASE &&
	    sample->now_ns - streams->since_ns <= max_u64(SETTLE_NS, 4 * sample->path_ns))
		memset(&streams->now, 0, sizeof(streams->now));
}

void tcp_streams_step(struct tcp_streams *streams, struct tcp_streams_way *way, const struct tcp_streams_sample *sample,
		      struct tcp_streams_answer *ret)
{
	static void (*const steps[TCP_STREAMS_STATE_COUNT])(struct tcp_streams *, struct tcp_streams_way *,
							    const struct tcp_streams_sample *) = {
		[TCP_STREAMS_SETTLED] = step_settled, [TCP_STREAMS_QUEUED] = step_settled,
		[TCP_STREAMS_BASE] = step_base,       [TCP_STREAMS_MORE] = step_more,
		[TCP_STREAMS_AGAIN] = step_again,     [TCP_STREAMS_FEWER] = step_fewer,
	};
	const struct tcp_streams_measure *base = &streams->base;
	unsigned limit = most_streams(sample);

	if (sample->now_ns > way->limit_until_ns)
		way->limit = 0;
	note_sample(streams, sample);
	/* The trial measures nothing any more: the turn or a stream is lost, or the receiver allows fewer. */
	if (streams->state >= TCP_STREAMS_BASE &&
	    (!sample->turn || streams->active & ~sample->ready || tcp_streams_count(streams->active) > limit)) {
		put_back(streams, sample->now_ns);
		if (!streams->looks)
			hold_more(way, false, sample->now_ns);
		streams->looks = false;
	}
	steps[streams->state](streams, way, sample);
	if (streams->state == TCP_STREAMS_FEWER && !streams->idle) {
		way->limit = tcp_streams_count(streams->active);
		way->limit_until_ns = sample->now_ns + SOON_NS; /* it ends by itself where this process does */
	} else if (streams->state == TCP_STREAMS_SETTLED && sample->turn) {
		way->limit = 0;
	}
	ret->open = streams->open;
	ret->active = tcp_streams_measure_fastest(&streams->now, streams->active,
						  way->limit && way->limit < limit ? way->limit : limit);
	ret->detailed = streams->state >= TCP_STREAMS_BASE;
	ret->turn = streams->state >= TCP_STREAMS_QUEUED;
	ret->waits_above_bytes = streams->state >= TCP_STREAMS_MORE && base->flight_count
					 ? base->flight_bytes / base->flight_count
					 : 0;
}
