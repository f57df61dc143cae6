/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/measure.h"

#include "base/clock.h"
#include "base/sys.h"
#include "measure/experiments.h"
#include "measure/infer.h"
#include "measure/repeat.h"
#include "measure/resources.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROUNDS_LEAST = 8,     /* of all experiments, before anything is judged */
	ROUNDS_EXPECTED = 12, /* on average, with what precision takes */
	REPEATS_MAX = 40,
	CALIBRATION_FLOWS = 3,
	CALIBRATION_REPEATS = 7,
};

#define SECOND_NS         1000000000.0
#define BUDGET_S          60.0
#define QUICK_BUDGET_S    10.0
#define BUDGET_PART       0.85 /* of the budget is planned; the rest is for what must be repeated */
#define SHORT_NS          2e6  /* of the two durations that show how rates rise */
#define LONG_NS           16e6
#define DURATION_MIN_NS   2e6
#define DURATION_LEAST_NS 5e6 /* where there is time */
#define DURATION_MOST_NS  40e6
#define RAMPS             200.0 /* as many times the ramp: 0.5 % are lost, of which most is corrected */
#define CORRECTION_MOST   0.05
#define TARGET            0.01
#define PAIR_TARGET       0.02

/* How long to run flows of one probe, and what a run takes beside that. */
struct pacing {
	struct probe *probe;
	double duration_ns, overhead_ns, ramp_ns;
};

struct measurement {
	const struct topology *topology;
	const struct measure_options *options;
	struct measure_plan plan;
	void *arrays;                  /* series, refused, pacings, rates */
	struct measure_series *series; /* of each experiment */
	bool *refused;
	struct pacing *pacings;
	size_t pacing_count;
	double *rates; /* of one run */
	uint32_t turn;
	size_t expected_runs;
	double budget_ns, time_ns;
	struct measure_report report;
};

static void measurement_fini(struct measurement *measurement)
{
	for (size_t i = 0; measurement->series && i < measurement->plan.count; i++)
		measure_series_fini(&measurement->series[i]);
	sys_free(measurement->arrays);
	measure_experiments_fini(&measurement->plan);
}

static bool stopped(struct measurement *measurement)
{
	if (measurement->options->stop && *measurement->options->stop)
		measurement->report.stopped = true;
	return measurement->report.stopped;
}

static struct pacing *pacing_of(struct measurement *measurement, size_t index)
{
	size_t i = 0;

	while (measurement->pacings[i].probe != measurement->plan.items[index].probe)
		i++;
	return &measurement->pacings[i];
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static double cost_of(struct measurement *measurement, size_t index)
{
	const struct pacing *pacing = pacing_of(measurement, index);

	return pacing->duration_ns + pacing->overhead_ns;
}

/* 0; 1: this experiment cannot be run; -EINTR: enough; -ENOMEM. */
static int run_probe(struct measurement *measurement, size_t index, double duration_ns, double *ret_time_ns)
{
	const struct measure_experiment *experiment = &measurement->plan.items[index];
	struct probe_rates rates = { .rate_Bps = measurement->rates };
	uint64_t start_ns = clock_now_ns(), elapsed_ns;
	struct diag diag = { 0 };
	int r = experiment->probe->ops->run(experiment->probe, experiment->flows, experiment->count,
					    (uint64_t)duration_ns, &rates, &diag);

	elapsed_ns = clock_now_ns() - start_ns;
	/* Warm-up and buffers count; a simulated machine's time passes faster than ours. */
	if (elapsed_ns > rates.time_ns)
		rates.time_ns = elapsed_ns;
	measurement->time_ns += (double)rates.time_ns;
	if (r == -EINTR)
		measurement->report.stopped = true;
	if (r == 0 || r == -EINTR || r == -ENOMEM) {
		*ret_time_ns = (double)rates.time_ns;
		return r;
	}
	measurement->refused[index] = true;
	/* A pair that has no P2P after all is a result, not a failure. */
	if (r == -ENOTSUP && experiment->pair)
		return 1;
	r = measure_conclude_find(&measurement->report, MEASURE_NOT_MEASURABLE, experiment->what, "%s",
				  diag.text[0] ? diag.text : "the probe cannot move these flows");
	return r < 0 ? r : 1;
}

/* For what is lost while rates rise. A probe that would need a large one is not believed to rise that way. */
static double correction_of(const struct pacing *pacing)
{
	return 1 / (1 - fmin(pacing->ramp_ns / pacing->duration_ns, CORRECTION_MOST));
}

static int repeat(struct measurement *measurement, size_t index)
{
	double time_ns;
	int r;

	if (measurement->refused[index])
		return 0;
	if (stopped(measurement))
		return -EINTR;
	if (measurement->time_ns + cost_of(measurement, index) > measurement->budget_ns) {
		measurement->report.out_of_time = true;
		return -ETIME;
	}
	if (measurement->options->progress)
		measurement->options->progress(measurement->options->progress_arg, measurement->report.run_count,
					       measurement->expected_runs, measurement->plan.items[index].what);
	r = run_probe(measurement, index, pacing_of(measurement, index)->duration_ns, &time_ns);
	if (r)
		return r < 0 ? r : 0;
	measurement->report.run_count++;
	for (size_t i = 0; i < measurement->plan.items[index].count; i++)
		measurement->rates[i] *= correction_of(pacing_of(measurement, index));
	return measure_series_add(&measurement->series[index], measurement->rates, measurement->turn++);
}

/* ------------------------------------------------------------------------------------------------------ calibration */

/* Median rate of a single flow; 0: it cannot be run. */
static int median_rate(struct measurement *measurement, size_t index, double duration_ns, double *overhead_ns,
		       double *ret_Bps)
{
	double rates[CALIBRATION_REPEATS];

	*ret_Bps = 0;
	for (size_t i = 0; i < CALIBRATION_REPEATS; i++) {
		double time_ns;
		int r = stopped(measurement) ? -EINTR : run_probe(measurement, index, duration_ns, &time_ns);

		if (r)
			return r < 0 ? r : 0;
		if (time_ns - duration_ns > *overhead_ns)
			*overhead_ns = time_ns - duration_ns;
		rates[i] = measurement->rates[0];
	}
	*ret_Bps = measure_repeat_median(rates, CALIBRATION_REPEATS);
	return 0;
}

/*
 * A rate that rises as 1 - exp(-t / ramp) reads low by ramp / duration on average. Two durations, one much longer than
 * the other, show the ramp.
 */
static int calibrate(struct measurement *measurement, struct pacing *pacing)
{
	double ramp_ns = 0, longest_ns = 0;
	size_t flows = 0;

	for (size_t i = 0; i < measurement->plan.count && flows < CALIBRATION_FLOWS; i++) {
		double first_ns = 0, quick = 0, slow = 0;
		int r;

		if (measurement->plan.items[i].probe != pacing->probe || measurement->plan.items[i].count > 1)
			continue;
		/* The first run allocates: it is not counted. */
		r = median_rate(measurement, i, SHORT_NS, &first_ns, &quick);
		if (r == 0)
			r = median_rate(measurement, i, LONG_NS, &longest_ns, &slow);
		if (r < 0)
			return r;
		if (quick <= 0 || slow <= 0)
			continue;
		ramp_ns += (1 - quick / slow) / (1 / SHORT_NS - 1 / LONG_NS);
		flows++;
	}
	pacing->ramp_ns = flows ? fmax(ramp_ns / (double)flows, 0) : 0;
	pacing->overhead_ns = longest_ns;
	pacing->duration_ns = fmin(fmax(RAMPS * pacing->ramp_ns, DURATION_LEAST_NS), DURATION_MOST_NS);
	return 0;
}

/* Time that so many rounds of the first `count` experiments take. */
static double time_of(struct measurement *measurement, size_t count, double rounds)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += measurement->refused[i] ? 0 : rounds * cost_of(measurement, i);
	return sum;
}

/* Shortens runs until the plan fits, and if that does not help, the plan. Returns how many experiments are left. */
static size_t fit(struct measurement *measurement)
{
	double left_ns = BUDGET_PART * measurement->budget_ns - measurement->time_ns;
	size_t count = measurement->plan.count;

	for (unsigned step = 0; step < 64 && time_of(measurement, count, ROUNDS_EXPECTED) > left_ns; step++)
		for (size_t i = 0; i < measurement->pacing_count; i++)
			measurement->pacings[i].duration_ns = fmax(0.95 * measurement->pacings[i].duration_ns,
								   DURATION_MIN_NS);
	while (count > 0 && time_of(measurement, count, ROUNDS_LEAST + 1) > left_ns)
		count--;
	return count;
}

/* ---------------------------------------------------------------------------------------------------------- repeats */

static int run_rounds(struct measurement *measurement, size_t count, unsigned rounds)
{
	int r = 0;

	for (unsigned round = 0; r == 0 && round < rounds; round++)
		for (size_t i = 0; r == 0 && i < count; i++)
			r = repeat(measurement, i);
	return r;
}

/* Whether an experiment is to be run again: not for precision alone if that takes the time of the last look. */
static bool wants_more(struct measurement *measurement, size_t index, double reserve_ns)
{
	const struct measure_series *series = &measurement->series[index];

	if (measurement->refused[index] || series->state == MEASURE_REPEAT_DONE || series->count >= REPEATS_MAX)
		return false;
	return series->state == MEASURE_REPEAT_DISTURBED ||
	       measurement->time_ns + cost_of(measurement, index) + reserve_ns <= measurement->budget_ns;
}

/* How many runs there will be is a guess before; what is sure to come is more than that at times. */
static void expect_runs(struct measurement *measurement, size_t coming)
{
	if (measurement->expected_runs < measurement->report.run_count + coming)
		measurement->expected_runs = measurement->report.run_count + coming;
}

/* Runs of the next pass, and of the last look at all. */
static size_t count_coming(struct measurement *measurement, size_t count, double reserve_ns, bool looked)
{
	size_t coming = 0;

	for (size_t i = 0; i < count; i++) {
		coming += wants_more(measurement, i, reserve_ns);
		coming += !looked && !measurement->refused[i];
	}
	return coming;
}

/* Until all are precise and of one mind, or no time is left. A last look at all shows a disturbance that came late. */
static int refine(struct measurement *measurement, size_t count)
{
	bool looked = false;
	int r = measure_repeat_analyse(measurement->series, count);

	while (r == 0) {
		double reserve_ns = looked ? 0 : time_of(measurement, count, 1);
		bool more = false;

		expect_runs(measurement, count_coming(measurement, count, reserve_ns, looked));
		for (size_t i = 0; r == 0 && i < count; i++)
			if (wants_more(measurement, i, reserve_ns)) {
				r = repeat(measurement, i);
				more = true;
			}
		if (r == 0 && !more) {
			if (looked)
				break;
			looked = true;
			r = run_rounds(measurement, count, 1);
		}
		if (r == 0 || r == -ETIME) {
			int judged = measure_repeat_analyse(measurement->series, count);

			r = judged < 0 ? judged : r;
		}
	}
	return r;
}

static int measurement_run(struct measurement *measurement, size_t *ret_count)
{
	size_t count;
	int r = 0;

	for (size_t i = 0; r == 0 && i < measurement->pacing_count; i++)
		r = calibrate(measurement, &measurement->pacings[i]);
	count = fit(measurement);
	if (count < measurement->plan.count)
		measurement->report.out_of_time = true;
	measurement->report.experiment_count = count;
	measurement->expected_runs = count * ROUNDS_EXPECTED;
	*ret_count = count;
	if (r == 0)
		r = run_rounds(measurement, count, ROUNDS_LEAST);
	if (r == 0)
		r = refine(measurement, count);
	/* Interrupted or out of time: what there is counts. */
	if (r == -EINTR || r == -ETIME)
		r = measure_repeat_analyse(measurement->series, count);
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- results */

static int measurement_results(struct measurement *measurement, struct measure_result *results, size_t count,
			       bool *ret_complete)
{
	*ret_complete = count == measurement->plan.count && !measurement->report.stopped;
	for (size_t i = 0; i < count; i++) {
		const struct measure_experiment *experiment = &measurement->plan.items[i];
		const struct measure_series *series = &measurement->series[i];
		struct diag diag = { 0 };
		int r = 0;

		results[i] = (struct measure_result){
			.experiment = experiment,
			.series = series,
			.refused = measurement->refused[i],
			.usable = !measurement->refused[i] && series->kept >= MEASURE_REPEAT_KEPT_LEAST &&
				  series->state != MEASURE_REPEAT_DISTURBED,
		};
		measurement->report.repeat_count += series->count - series->kept;
		if (results[i].usable) {
			if (experiment->pair && !stopped(measurement) && experiment->probe->ops->latency &&
			    experiment->probe->ops->latency(experiment->probe, experiment->flows,
							    &results[i].latency_ns, &diag) < 0)
				results[i].latency_ns = 0;
			continue;
		}
		if (series->count >= MEASURE_REPEAT_KEPT_LEAST && series->state == MEASURE_REPEAT_DISTURBED)
			r = measure_conclude_find(
				&measurement->report, MEASURE_DISTURBED, experiment->what,
				"%zu repetitions settle on no rate, with %zu of them set aside: something else "
				"uses the machine, and this is not used",
				series->count, series->count - series->kept);
		if (r < 0)
			return r;
		if (!measurement->refused[i] && series->count < MEASURE_REPEAT_KEPT_LEAST)
			*ret_complete = false;
	}
	return 0;
}

/* Pairs of GPUs that no probe moves directly have no P2P, if a probe moves their bytes at all. */
static int write_no_p2p(struct topology *topology, struct probe *const *probes, size_t probe_count)
{
	uint32_t *gpus;
	size_t count;
	int r = topology_list(topology, TOPOLOGY_GPU, &gpus, &count);

	for (size_t i = 0; r == 0 && i < count * count; i++) {
		struct probe_flow direct = { .flow = { gpus[i / count], gpus[i % count], TOPOLOGY_WAY_DIRECT,
						       TOPOLOGY_NONE } };
		struct probe_flow host = direct;
		bool can_direct = false, can_host = false;
		uint32_t pair;

		host.flow.way = TOPOLOGY_WAY_HOST;
		for (size_t j = 0; j < probe_count; j++) {
			can_direct = can_direct || probes[j]->ops->can(probes[j], &direct);
			can_host = can_host || probes[j]->ops->can(probes[j], &host);
		}
		pair = topology_find_pair(topology, direct.flow.from, direct.flow.to);
		if (direct.flow.from == direct.flow.to || can_direct || !can_host)
			continue;
		if (pair == TOPOLOGY_NONE) {
			struct topology_pair none = { .from = direct.flow.from, .to = direct.flow.to };

			r = topology_add_pair(topology, &none, &pair);
		} else {
			topology->pairs[pair].p2p_works = false;
			topology->pairs[pair].p2p = (struct topology_capacity){ 0 };
		}
	}
	if (r == 0)
		free(gpus);
	return r;
}

static int conclude(struct measurement *measurement, struct topology *topology, size_t count)
{
	struct measure_result *results = sys_zalloc((count + 1) * sizeof(*results));
	struct measure_resources resources = { 0 };
	struct measure_figure *figures = NULL;
	bool complete = false;
	int r = results ? measurement_results(measurement, results, count, &complete) : -ENOMEM;

	if (r == 0)
		r = measure_resources_init(&resources, measurement->topology, results, count);
	if (r < 0)
		goto out;
	figures = sys_zalloc((resources.count + 1) * sizeof(*figures));
	r = figures ? measure_infer(&resources, figures) : -ENOMEM;
	if (r == 0)
		r = measure_conclude(topology, &resources, figures, complete, measurement->options->date_s);
	if (r == 0)
		r = measure_conclude_check(topology, &resources, figures, &measurement->report);
out:
	sys_free(figures);
	measure_resources_fini(&resources);
	sys_free(results);
	return r;
}

/* A pair's own rate may be coarse, unless it is all that is ever known of the NVLink between the two. */
static double target_of(const struct topology *topology, const struct measure_experiment *experiment)
{
	struct topology_route route;

	if (!experiment->pair)
		return TARGET;
	if (measure_experiments_route(topology, &experiment->flows->flow, &route) < 0 || !route.count)
		return PAIR_TARGET;
	return topology->links[route.links[0] / 2].kind == TOPOLOGY_LINK_NVLINK ? TARGET : PAIR_TARGET;
}

static int measurement_init(struct measurement *measurement, const struct topology *topology,
			    struct probe *const *probes, size_t probe_count, const struct measure_options *options)
{
	size_t most = 1, count;
	int r;

	*measurement = (struct measurement){ .topology = topology, .options = options, .pacing_count = probe_count };
	measurement->budget_ns = options->budget_ns ? (double)options->budget_ns
						    : (options->quick ? QUICK_BUDGET_S : BUDGET_S) * SECOND_NS;
	r = measure_experiments_plan(topology, probes, probe_count, options->quick, &measurement->plan);
	if (r < 0)
		return r;
	count = measurement->plan.count;
	for (size_t i = 0; i < count; i++)
		if (measurement->plan.items[i].count > most)
			most = measurement->plan.items[i].count;
	measurement->arrays = sys_zalloc_arrays((struct sys_array[]){ SYS_ARRAY(measurement->series, count),
								      SYS_ARRAY(measurement->refused, count),
								      SYS_ARRAY(measurement->pacings, probe_count),
								      SYS_ARRAY(measurement->rates, most) },
						4);
	if (!measurement->arrays)
		return -ENOMEM;
	for (size_t i = 0; i < probe_count; i++)
		measurement->pacings[i] = (struct pacing){ .probe = probes[i], .duration_ns = DURATION_LEAST_NS };
	for (size_t i = 0; i < count; i++)
		measure_series_init(&measurement->series[i], measurement->plan.items[i].count,
				    target_of(topology, &measurement->plan.items[i]));
	return 0;
}

int measure_run(struct topology *topology, struct probe *const *probes, size_t probe_count,
		const struct measure_options *options, struct measure_report *ret)
{
	struct measurement measurement;
	size_t count = 0;
	int r;

	if (!probe_count)
		return -EINVAL;
	r = measurement_init(&measurement, topology, probes, probe_count, options);
	if (r == 0)
		r = measurement_run(&measurement, &count);
	if (r == 0)
		r = conclude(&measurement, topology, count);
	if (r == 0 && !measurement.report.stopped)
		r = write_no_p2p(topology, probes, probe_count);
	measurement.report.time_ns = (uint64_t)measurement.time_ns;
	measurement_fini(&measurement);
	if (r < 0) {
		measure_report_fini(&measurement.report);
		return r;
	}
	*ret = measurement.report;
	return 0;
}
