/* SPDX-License-Identifier: Apache-2.0 */
#include "command/status/compare.h"

#include "command/print/units.h"
#include "tributary/predict.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * All ranks of a collective are done at the same time, so who came last has the shortest time in it: by this much less
 * than the others' median.
 */
#define LAST_PART (1 - COMPARE_TOLERANCE)

const char *compare_cause_word(enum compare_cause cause)
{
	static const char *const words[COMPARE_CAUSE_COUNT] = {
		[COMPARE_NOT_MEASURED] = "not-measured", [COMPARE_AGREES] = "agrees",       [COMPARE_FASTER] = "faster",
		[COMPARE_CHOICE] = "other-choice",       [COMPARE_SLOW_RANK] = "slow-rank", [COMPARE_LINK] = "link",
		[COMPARE_OTHER_JOB] = "other-job",       [COMPARE_NOT_KNOWN] = "not-known",
	};

	return words[cause];
}

static int by_time(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Of all ranks but one (NULL: of all). */
static double median_us(const struct compare_case *at, const struct compare_rank *but)
{
	double *times = calloc(at->rank_count + 1, sizeof(*times)), median = 0;
	size_t count = 0;

	for (size_t i = 0; times && i < at->rank_count; i++)
		if (&at->ranks[i] != but)
			times[count++] = at->ranks[i].time_us;
	if (count) {
		qsort(times, count, sizeof(*times), by_time);
		median = (times[(count - 1) / 2] + times[count / 2]) / 2;
	}
	free(times);
	return median;
}

double compare_measured_us(const struct compare_case *at)
{
	return median_us(at, NULL);
}

static bool is_near(double time_us, double expected_us)
{
	return time_us <= (1 + COMPARE_TOLERANCE) * expected_us && time_us >= (1 - COMPARE_TOLERANCE) * expected_us;
}

/* The rank that the others wait for, and without whose delay the prediction holds; NULL: there is none. */
static const struct compare_rank *last_rank(const struct compare_case *at, double *ret_others_us)
{
	const struct compare_rank *last = at->ranks;

	for (size_t i = 1; i < at->rank_count; i++)
		last = at->ranks[i].time_us < last->time_us ? &at->ranks[i] : last;
	if (at->rank_count < 2)
		return NULL;
	*ret_others_us = median_us(at, last);
	return last->time_us < LAST_PART * *ret_others_us && last->time_us <= (1 + COMPARE_TOLERANCE) * at->predicted_us
		       ? last
		       : NULL;
}

static void way_words(struct compare_way way, char text[static 32])
{
	snprintf(text, 32, "%s/%s",
		 way.algorithm < 0 || way.algorithm >= PREDICT_ALGORITHM_COUNT
			 ? "?"
			 : predict_algorithm_word((enum predict_algorithm)way.algorithm),
		 way.protocol < 0 || way.protocol >= PREDICT_PROTOCOL_COUNT
			 ? "?"
			 : predict_protocol_word((enum predict_protocol)way.protocol));
}

static bool is_same(struct compare_way a, struct compare_way b)
{
	return a.algorithm == b.algorithm && a.protocol == b.protocol;
}

/* What the times themselves show. */
static enum compare_cause explain_by_times(const struct compare_case *at, double measured_us,
					   char ret_text[static COMPARE_TEXT_BYTES])
{
	char taken[32], predicted[32], own[UNITS_BYTES], others[UNITS_BYTES];
	const struct compare_rank *last;
	double others_us;

	if (!is_same(at->taken, at->predicted) && at->taken_us > 0 && is_near(measured_us, at->taken_us) &&
	    !is_near(at->taken_us, at->predicted_us)) {
		way_words(at->taken, taken);
		way_words(at->predicted, predicted);
		snprintf(ret_text, COMPARE_TEXT_BYTES,
			 "NCCL took %s, for which the model says as much, and not %s: `tributary tune --measure` finds "
			 "what is faster",
			 taken, predicted);
		return COMPARE_CHOICE;
	}
	last = last_rank(at, &others_us);
	if (!last)
		return COMPARE_NOT_KNOWN;
	snprintf(
		ret_text, COMPARE_TEXT_BYTES,
		"the others wait for %s, which takes %s where they take %s: look at its input, its CPU and its GPU's clock",
		last->name, units_time(last->time_us / 1e6, own), units_time(others_us / 1e6, others));
	return COMPARE_SLOW_RANK;
}

/* What else is known. A link explains no more than what it lacks. */
static enum compare_cause explain_by_machine(const struct compare_case *at, double slower,
					     char ret_text[static COMPARE_TEXT_BYTES])
{
	const struct compare_link *link = at->link;
	char now[UNITS_BYTES], expected[UNITS_BYTES];

	if (link && link->now_Bps > 0 && slower <= (1 + COMPARE_TOLERANCE) * link->expected_Bps / link->now_Bps) {
		snprintf(ret_text, COMPARE_TEXT_BYTES,
			 "%s now carries %s, and the profile says %s: `tributary doctor` says more", link->name,
			 units_rate(link->now_Bps, now), units_rate(link->expected_Bps, expected));
		return COMPARE_LINK;
	}
	if (at->other_job) {
		snprintf(ret_text, COMPARE_TEXT_BYTES,
			 "%s ran meanwhile and shares its links: compare when it has ended", at->other_job);
		return COMPARE_OTHER_JOB;
	}
	return COMPARE_NOT_KNOWN;
}

enum compare_cause compare_explain(const struct compare_case *at, char ret_text[static COMPARE_TEXT_BYTES])
{
	double measured_us = compare_measured_us(at);
	enum compare_cause cause;

	ret_text[0] = '\0';
	if (measured_us <= 0 || at->predicted_us <= 0)
		return COMPARE_NOT_MEASURED;
	if (is_near(measured_us, at->predicted_us) ||
	    (at->taken_us > 0 && (at->is_tuned || at->taken_us < at->predicted_us) &&
	     is_near(measured_us, at->taken_us)))
		return COMPARE_AGREES;
	if (measured_us < at->predicted_us) {
		snprintf(
			ret_text, COMPARE_TEXT_BYTES,
			"faster than predicted: the profile is too low, `tributary measure` on an idle host makes it anew");
		return COMPARE_FASTER;
	}
	cause = explain_by_times(at, measured_us, ret_text);
	if (cause == COMPARE_NOT_KNOWN)
		cause = explain_by_machine(at, measured_us / at->predicted_us, ret_text);
	if (cause == COMPARE_NOT_KNOWN)
		snprintf(
			ret_text, COMPARE_TEXT_BYTES,
			"cause not known: `tributary doctor`, `tributary measure` on an idle host, and `tributary cluster "
			"measure` for the network tell more");
	return cause;
}
