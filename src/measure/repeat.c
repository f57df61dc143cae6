/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/repeat.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	CLUSTER_LEAST = 2, /* repetitions that make a level */
	SIGMA_COUNT = 8,   /* repetitions that tell their own noise */
	DRIFT_LEAST = 2,   /* repetitions before and after */
	ROUNDS_APART = 2,  /* low repetitions of one series further apart than so many rounds are two accidents */
};

#define NORMAL_MAD   1.4826 /* standard deviation of a normal distribution over its median absolute deviation */
#define SIGMA_LEAST  0.002
#define SIGMA_GUESS  0.02 /* where too few repetitions tell */
#define FAR_SIGMAS   4.0  /* from the level: an outlier, or disturbed */
#define FAR_LEAST    0.03
#define USUAL_PART   0.7   /* of most series' noise: none is believed to have less, for how often to repeat it */
#define CLUSTER_PART 0.2   /* of the repetitions, in the highest level that is believed */
#define DRIFT        0.025 /* between what is before and what is after, over the rate */
#define FLOW_DRIFT   0.04
#define HARM         0.01 /* that it does to the mean; less is no matter */
#define DRIFT_ERRORS 4.5  /* standard errors of that difference */

/* ----------------------------------------------------------------------------------------------------------- series */

void measure_series_init(struct measure_series *series, size_t flow_count, double target)
{
	*series = (struct measure_series){ .flow_count = flow_count, .target = target };
}

void measure_series_fini(struct measure_series *series)
{
	free(series->at);
	free(series->rates);
	*series = (struct measure_series){ 0 };
}

int measure_series_add(struct measure_series *series, const double *rates, uint32_t turn)
{
	double total = 0;

	if (sys_grow(&series->rates, series->count * series->flow_count, series->flow_count, sizeof(*rates)) < 0 ||
	    sys_grow(&series->at, series->count, 1, sizeof(*series->at)) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < series->flow_count; i++)
		total += rates[i];
	memcpy(&series->rates[series->count * series->flow_count], rates, series->flow_count * sizeof(*rates));
	series->at[series->count++] = (struct measure_repetition){ total, turn, MEASURE_REPEAT_KEPT };
	return 0;
}

static double rate_of(const struct measure_series *series, size_t repetition, size_t flow)
{
	return flow == SIZE_MAX ? series->at[repetition].total : series->rates[repetition * series->flow_count + flow];
}

/* Of the kept repetitions; flow SIZE_MAX: the total. */
static double mean_of(const struct measure_series *series, size_t flow, double *ret_error)
{
	double sum = 0, squares = 0, mean;
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++)
		if (series->at[i].fate == MEASURE_REPEAT_KEPT) {
			sum += rate_of(series, i, flow);
			count++;
		}
	mean = count ? sum / (double)count : 0;
	for (size_t i = 0; i < series->count; i++)
		if (series->at[i].fate == MEASURE_REPEAT_KEPT) {
			double apart = rate_of(series, i, flow) - mean;

			squares += apart * apart;
		}
	*ret_error = count > 1 ? sqrt(squares / (double)(count - 1) / (double)count) : mean;
	return mean;
}

double measure_series_flow(const struct measure_series *series, size_t flow, double *ret_error_Bps)
{
	return mean_of(series, flow, ret_error_Bps);
}

double measure_repeat_student(size_t degrees)
{
	static const double few[] = { INFINITY, 12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228 };
	double n = (double)degrees;

	if (degrees < sizeof(few) / sizeof(few[0]))
		return few[degrees];
	/* Cornish and Fisher's expansion, to 0.001 from here on. */
	return 1.95996 + 2.37227 / n + 2.82250 / (n * n) + 2.55585 / (n * n * n);
}

/* ----------------------------------------------------------------------------------------------------------- levels */

static int compare_doubles(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return first < second ? -1 : first > second;
}

double measure_repeat_median(double *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* Standard deviation over the median, by the median absolute deviation. Overwrites the values. */
static double sigma_of(double *values, size_t count)
{
	double middle = measure_repeat_median(values, count);

	if (count < 3 || middle <= 0)
		return SIGMA_GUESS;
	for (size_t i = 0; i < count; i++)
		values[i] = fabs(values[i] - middle);
	/* Of few values it comes out low: on average by about 0.8 / count. */
	return NORMAL_MAD * measure_repeat_median(values, count) / middle / (1 - fmin(0.8 / (double)count, 0.25));
}

/* What is common to an analysis. */
struct analysis {
	struct measure_series *series;
	size_t count;
	double *scratch;
	double *levels; /* of each series: what it gets when nobody disturbs */
	double *sigmas;
	double usual_single, usual_set; /* noise of most series, of one flow and of several */
	struct span *spans;
	size_t span_count;
};

/* A time, in turns, in which a series was below its level. */
struct span {
	uint32_t from, to;
	uint32_t series;
};

/* The totals, in analysis->scratch. */
static double *totals_of(struct analysis *analysis, const struct measure_series *series)
{
	for (size_t i = 0; i < series->count; i++)
		analysis->scratch[i] = series->at[i].total;
	return analysis->scratch;
}

static double own_sigma(struct analysis *analysis, const struct measure_series *series)
{
	return sigma_of(totals_of(analysis, series), series->count);
}

/* The middle one of all series that have one flow, or several. */
static double usual_sigma(struct analysis *analysis, bool single, double *values)
{
	size_t count = 0;

	for (size_t i = 0; i < analysis->count; i++)
		if ((analysis->series[i].flow_count == 1) == single && analysis->series[i].count >= 3)
			values[count++] = analysis->sigmas[i];
	return count ? fmax(measure_repeat_median(values, count), SIGMA_LEAST) : SIGMA_GUESS;
}

static double far_from(double sigma)
{
	return fmax(FAR_SIGMAS * sigma, FAR_LEAST);
}

/*
 * The highest level that enough repetitions agree on. A neighbour only takes away: of two levels the upper one is the
 * machine's own, unless it is a single value that was misread.
 */
static double level_of(struct analysis *analysis, const struct measure_series *series, double sigma)
{
	double *values = totals_of(analysis, series), level, far = far_from(sigma);
	size_t least = (size_t)ceil(CLUSTER_PART * (double)series->count), first = 0, last = series->count;

	level = measure_repeat_median(values, series->count); /* ascending from here on */
	if (least < CLUSTER_LEAST)
		least = CLUSTER_LEAST;
	for (size_t top = series->count; top-- > 0;) {
		size_t from = top;

		while (from > 0 && values[from - 1] >= values[top] * (1 - far))
			from--;
		if (top - from + 1 >= least) {
			level = values[(from + top) / 2];
			break;
		}
	}
	/* The values around it, until they are the same. */
	for (unsigned round = 0; round < 8; round++) {
		size_t from = 0, to = series->count;

		while (from < to && values[from] < level * (1 - far))
			from++;
		while (to > from && values[to - 1] > level * (1 + far))
			to--;
		if (from == to || (from == first && to == last))
			break;
		first = from;
		last = to;
		level = (values[(from + to - 1) / 2] + values[(from + to) / 2]) / 2;
	}
	return level;
}

static bool is_low(const struct analysis *analysis, size_t series, size_t repetition)
{
	return analysis->series[series].at[repetition].total <
	       analysis->levels[series] * (1 - far_from(analysis->sigmas[series]));
}

static bool is_high(const struct analysis *analysis, size_t series, size_t repetition)
{
	return analysis->series[series].at[repetition].total >
	       analysis->levels[series] * (1 + far_from(analysis->sigmas[series]));
}

static void find_levels(struct analysis *analysis, double *values)
{
	for (size_t i = 0; i < analysis->count; i++)
		analysis->sigmas[i] = analysis->series[i].count ? own_sigma(analysis, &analysis->series[i]) : 0;
	analysis->usual_single = usual_sigma(analysis, true, values);
	analysis->usual_set = usual_sigma(analysis, false, values);
	for (size_t i = 0; i < analysis->count; i++) {
		double usual = analysis->series[i].flow_count == 1 ? analysis->usual_single : analysis->usual_set;

		/*
		 * A series in two halves has a large deviation of its own, which must not hide them; of few it is
		 * chance.
		 */
		analysis->sigmas[i] = analysis->series[i].count < SIGMA_COUNT
					      ? usual
					      : fmin(fmax(analysis->sigmas[i], usual), 2 * usual);
		if (analysis->series[i].count)
			analysis->levels[i] = level_of(analysis, &analysis->series[i], analysis->sigmas[i]);
	}
}

/* ---------------------------------------------------------------------------------------------------------- windows */

static int compare_spans(const void *a, const void *b)
{
	const struct span *first = a, *second = b;

	return first->from < second->from ? -1 : first->from > second->from;
}

/* Two or more low repetitions of a series, one after the other: accidents come alone. */
static void find_spans(struct analysis *analysis)
{
	uint32_t apart = (uint32_t)(ROUNDS_APART * analysis->count);

	analysis->span_count = 0;
	for (size_t i = 0; i < analysis->count; i++) {
		const struct measure_series *series = &analysis->series[i];

		for (size_t first = 0, last; first < series->count; first = last + 1) {
			last = first;
			if (!is_low(analysis, i, first))
				continue;
			while (last + 1 < series->count && is_low(analysis, i, last + 1) &&
			       series->at[last + 1].turn - series->at[last].turn <= apart)
				last++;
			if (last > first)
				analysis->spans[analysis->span_count++] = (struct span){
					.from = series->at[first].turn,
					.to = series->at[last].turn,
					.series = (uint32_t)i,
				};
		}
	}
	qsort(analysis->spans, analysis->span_count, sizeof(*analysis->spans), compare_spans);
}

static void set_aside(struct analysis *analysis, uint32_t from, uint32_t to)
{
	for (size_t i = 0; i < analysis->count; i++)
		for (size_t j = 0; j < analysis->series[i].count; j++)
			if (analysis->series[i].at[j].turn >= from && analysis->series[i].at[j].turn <= to)
				analysis->series[i].at[j].fate = MEASURE_REPEAT_ASIDE;
}

/*
 * The disturbance may have begun before the first low repetition and ended after the last one: at most where one of the
 * series that show it was last as usual, and was as usual again.
 */
static struct span widen(const struct analysis *analysis, size_t first, size_t last, struct span span)
{
	uint32_t round = (uint32_t)analysis->count;
	struct span wide = { .from = span.from > round ? span.from - round : 0, .to = span.to + round };

	for (size_t i = first; i <= last; i++) {
		const struct measure_series *series = &analysis->series[analysis->spans[i].series];

		for (size_t j = 0; j < series->count; j++) {
			if (series->at[j].turn < span.from && series->at[j].turn >= wide.from)
				wide.from = series->at[j].turn + 1;
			if (series->at[j].turn > span.to && series->at[j].turn <= wide.to)
				wide.to = series->at[j].turn - 1;
		}
	}
	return wide;
}

/* Spans of several series that overlap are one disturbance; all that ran in it is set aside. */
static void find_windows(struct analysis *analysis)
{
	for (size_t first = 0, last; first < analysis->span_count; first = last + 1) {
		struct span span = analysis->spans[first];
		bool several = false;

		for (last = first; last + 1 < analysis->span_count && analysis->spans[last + 1].from <= span.to;
		     last++) {
			if (analysis->spans[last + 1].to > span.to)
				span.to = analysis->spans[last + 1].to;
			several = several || analysis->spans[last + 1].series != span.series;
		}
		if (!several)
			continue;
		span = widen(analysis, first, last, span);
		set_aside(analysis, span.from, span.to);
	}
}

/* --------------------------------------------------------------------------------------------------------- results */

/* Repetitions in which the total, or one flow, is far from the middle one. */
static void drop_outliers(struct analysis *analysis, size_t index)
{
	struct measure_series *series = &analysis->series[index];

	for (size_t j = 0; j < series->count; j++)
		if (series->at[j].fate == MEASURE_REPEAT_KEPT &&
		    (is_low(analysis, index, j) || is_high(analysis, index, j)))
			series->at[j].fate = MEASURE_REPEAT_OUTLIER;
	for (size_t i = 0; series->flow_count > 1 && i < series->flow_count; i++) {
		double middle, far;
		size_t count = 0;

		for (size_t j = 0; j < series->count; j++)
			if (series->at[j].fate == MEASURE_REPEAT_KEPT)
				analysis->scratch[count++] = series->rates[j * series->flow_count + i];
		middle = measure_repeat_median(analysis->scratch, count);
		far = far_from(count < SIGMA_COUNT ? analysis->usual_single
						   : fmax(analysis->usual_single, sigma_of(analysis->scratch, count)));
		for (size_t j = 0; j < series->count; j++)
			if (series->at[j].fate == MEASURE_REPEAT_KEPT &&
			    fabs(series->rates[j * series->flow_count + i] - middle) > far * middle)
				series->at[j].fate = MEASURE_REPEAT_OUTLIER;
	}
}

/*
 * Whether what is kept says something else before some time than after it: the largest of Student's t over all times,
 * the deviation taken within the two parts, so that the step itself does not hide in it.
 */
static bool drifts(struct analysis *analysis, const struct measure_series *series, size_t flow, double part)
{
	double *values = analysis->scratch, sum = 0, squares = 0, before = 0, before_squares = 0;
	size_t count = 0;

	for (size_t i = 0; i < series->count; i++) {
		double value = rate_of(series, i, flow);

		if (series->at[i].fate != MEASURE_REPEAT_KEPT)
			continue;
		values[count++] = value;
		sum += value;
		squares += value * value;
	}
	for (size_t i = 0; i + DRIFT_LEAST < count; i++) {
		double n, rest, early, late, within;

		before += values[i];
		before_squares += values[i] * values[i];
		n = (double)(i + 1);
		rest = (double)count - n;
		if (i + 1 < DRIFT_LEAST)
			continue;
		early = before / n;
		late = (sum - before) / rest;
		within = before_squares - n * early * early + squares - before_squares - rest * late * late;
		within = sqrt(fmax(within, 0) / (n + rest - 2));
		within = fmax(within, USUAL_PART * analysis->usual_single * late);
		if (fabs(early - late) >
			    fmax(part * fmax(early, late), DRIFT_ERRORS * within * sqrt(1 / n + 1 / rest)) &&
		    fabs(early - late) * fmin(n, rest) / (n + rest) > HARM * fmax(early, late))
			return true;
	}
	return false;
}

static void conclude(struct analysis *analysis, size_t index)
{
	struct measure_series *series = &analysis->series[index];
	double error, usual = series->flow_count == 1 ? analysis->usual_single : analysis->usual_set;
	bool disturbed;

	series->kept = 0;
	for (size_t j = 0; j < series->count; j++)
		series->kept += series->at[j].fate == MEASURE_REPEAT_KEPT;
	series->mean_Bps = mean_of(series, SIZE_MAX, &error);
	series->error_least = series->kept ? usual / sqrt((double)series->kept) : 0;
	series->flow_error_least = series->kept ? analysis->usual_single / sqrt((double)series->kept) : 0;
	error = fmax(error, USUAL_PART * series->error_least * series->mean_Bps);
	series->half = series->mean_Bps > 0 && series->kept > 1
			       ? measure_repeat_student(series->kept - 1) * error / series->mean_Bps
			       : INFINITY;
	disturbed = series->kept < MEASURE_REPEAT_KEPT_LEAST || drifts(analysis, series, SIZE_MAX, DRIFT);
	for (size_t i = 0; series->flow_count > 1 && !disturbed && i < series->flow_count; i++)
		disturbed = drifts(analysis, series, i, FLOW_DRIFT);
	/* Above all before it: either misread, or the disturbance has just ended. One more tells. */
	if (series->count && is_high(analysis, index, series->count - 1))
		disturbed = true;
	series->state = series->count < MEASURE_REPEAT_KEPT_LEAST ? MEASURE_REPEAT_MORE
			: disturbed                               ? MEASURE_REPEAT_DISTURBED
			: series->half > series->target           ? MEASURE_REPEAT_MORE
								  : MEASURE_REPEAT_DONE;
}

int measure_repeat_analyse(struct measure_series *series, size_t count)
{
	struct analysis analysis = { .series = series, .count = count };
	size_t longest = 0, all = 0;
	double *values;
	void *arrays;

	for (size_t i = 0; i < count; i++) {
		all += series[i].count;
		if (series[i].count > longest)
			longest = series[i].count;
	}
	arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(values, count), SYS_ARRAY(analysis.scratch, longest),
							 SYS_ARRAY(analysis.levels, count),
							 SYS_ARRAY(analysis.sigmas, count),
							 SYS_ARRAY(analysis.spans, all) },
				   5);
	if (!arrays)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < series[i].count; j++)
			series[i].at[j].fate = MEASURE_REPEAT_KEPT;
	find_levels(&analysis, values);
	find_spans(&analysis);
	find_windows(&analysis);
	for (size_t i = 0; i < count; i++) {
		drop_outliers(&analysis, i);
		conclude(&analysis, i);
	}
	sys_free(arrays);
	return 0;
}
