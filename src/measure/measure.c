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

struct session {
	const struct topology *topology;
	const struct measure_options *options;
	struct measure_plan plan;
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

static void session_fini(struct session *session)
{
	for (size_t i = 0; session->series && i < session->plan.count; i++)
		measure_series_fini(&session->series[i]);
	sys_free(session->series);
	sys_free(session->refused);
	sys_free(session->pacings);
	sys_free(session->rates);
	measure_experiments_fini(&session->plan);
}

static bool stopped(struct session *session)
{
	if (session->options->stop && *session->options->stop)
		session->report.stopped = true;
	return session->report.stopped;
}

static struct pacing *pacing_of(struct session *session, size_t index)
{
	size_t i = 0;

	while (session->pacings[i].probe != session->plan.items[index].probe)
		i++;
	return &session->pacings[i];
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static double cost_of(struct session *session, size_t index)
{
	const struct pacing *pacing = pacing_of(session, index);

	return pacing->duration_ns + pacing->overhead_ns;
}

/* 0; 1: this experiment cannot be run; -EINTR: enough; -ENOMEM. */
static int run_probe(struct session *session, size_t index, double duration_ns, double *ret_time_ns)
{
	const struct measure_experiment *experiment = &session->plan.items[index];
	struct probe_rates rates = { .rate_Bps = session->rates };
	uint64_t start_ns = clock_now_ns(), elapsed_ns;
	struct diag diag = { 0 };
	int r = experiment->probe->ops->run(experiment->probe, experiment->flows, experiment->count,
					    (uint64_t)duration_ns, &rates, &diag);

	elapsed_ns = clock_now_ns() - start_ns;
	/* Warm-up and buffers count; a simulated machine's time passes faster than ours. */
	if (elapsed_ns > rates.time_ns)
		rates.time_ns = elapsed_ns;
	session->time_ns += (double)rates.time_ns;
	if (r == -EINTR)
		session->report.stopped = true;
	if (r == 0 || r == -EINTR || r == -ENOMEM) {
		*ret_time_ns = (double)rates.time_ns;
		return r;
	}
	session->refused[index] = true;
	/* A pair that has no P2P after all is a result, not a failure. */
	if (r == -ENOTSUP && experiment->pair)
		return 1;
	r = measure_conclude_find(&session->report, MEASURE_NOT_MEASURABLE, experiment->what, "%s",
				  diag.text[0] ? diag.text : "the probe cannot move these flows");
	return r < 0 ? r : 1;
}

/* For what is lost while rates rise. A probe that would need a large one is not believed to rise that way. */
static double correction_of(const struct pacing *pacing)
{
	return 1 / (1 - fmin(pacing->ramp_ns / pacing->duration_ns, CORRECTION_MOST));
}

static int repeat(struct session *session, size_t index)
{
	double time_ns;
	int r;

	if (session->refused[index])
		return 0;
	if (stopped(session))
		return -EINTR;
	if (session->time_ns + cost_of(session, index) > session->budget_ns) {
		session->report.out_of_time = true;
		return -ETIME;
	}
	if (session->options->progress)
		session->options->progress(session->options->progress_arg, session->report.run_count,
					   session->expected_runs, session->plan.items[index].what);
	r = run_probe(session, index, pacing_of(session, index)->duration_ns, &time_ns);
	if (r)
		return r < 0 ? r : 0;
	session->report.run_count++;
	for (size_t i = 0; i < session->plan.items[index].count; i++)
		session->rates[i] *= correction_of(pacing_of(session, index));
	return measure_series_add(&session->series[index], session->rates, session->turn++);
}

/* ------------------------------------------------------------------------------------------------------ calibration */

static int compare_doubles(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return first < second ? -1 : first > second;
}

/* Median rate of a single flow; 0: it cannot be run. */
static int median_rate(struct session *session, size_t index, double duration_ns, double *overhead_ns, double *ret_Bps)
{
	double rates[CALIBRATION_REPEATS];

	*ret_Bps = 0;
	for (size_t i = 0; i < CALIBRATION_REPEATS; i++) {
		double time_ns;
		int r = stopped(session) ? -EINTR : run_probe(session, index, duration_ns, &time_ns);

		if (r)
			return r < 0 ? r : 0;
		if (time_ns - duration_ns > *overhead_ns)
			*overhead_ns = time_ns - duration_ns;
		rates[i] = session->rates[0];
	}
	qsort(rates, CALIBRATION_REPEATS, sizeof(rates[0]), compare_doubles);
	*ret_Bps = rates[CALIBRATION_REPEATS / 2];
	return 0;
}

/*
 * A rate that rises as 1 - exp(-t / ramp) reads low by ramp / duration on average. Two durations, one much longer than
 * the other, show the ramp.
 */
static int calibrate(struct session *session, struct pacing *pacing)
{
	double ramp_ns = 0, longest_ns = 0;
	size_t flows = 0;

	for (size_t i = 0; i < session->plan.count && flows < CALIBRATION_FLOWS; i++) {
		double first_ns = 0, quick, slow;
		int r;

		if (session->plan.items[i].probe != pacing->probe || session->plan.items[i].count > 1)
			continue;
		/* The first run allocates: it is not counted. */
		r = median_rate(session, i, SHORT_NS, &first_ns, &quick);
		if (r == 0)
			r = median_rate(session, i, LONG_NS, &longest_ns, &slow);
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
static double time_of(struct session *session, size_t count, double rounds)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += session->refused[i] ? 0 : rounds * cost_of(session, i);
	return sum;
}

/* Shortens runs until the plan fits, and if that does not help, the plan. Returns how many experiments are left. */
static size_t fit(struct session *session)
{
	double left_ns = BUDGET_PART * session->budget_ns - session->time_ns;
	size_t count = session->plan.count;

	for (unsigned step = 0; step < 64 && time_of(session, count, ROUNDS_EXPECTED) > left_ns; step++)
		for (size_t i = 0; i < session->pacing_count; i++)
			session->pacings[i].duration_ns = fmax(0.95 * session->pacings[i].duration_ns, DURATION_MIN_NS);
	while (count > 0 && time_of(session, count, ROUNDS_LEAST + 1) > left_ns)
		count--;
	return count;
}

/* ---------------------------------------------------------------------------------------------------------- repeats */

static int run_rounds(struct session *session, size_t count, unsigned rounds)
{
	int r = 0;

	for (unsigned round = 0; r == 0 && round < rounds; round++)
		for (size_t i = 0; r == 0 && i < count; i++)
			r = repeat(session, i);
	return r;
}

/* Whether an experiment is to be run again: not for precision alone if that takes the time of the last look. */
static bool wants_more(struct session *session, size_t index, double reserve_ns)
{
	const struct measure_series *series = &session->series[index];

	if (session->refused[index] || series->state == MEASURE_REPEAT_DONE || series->count >= REPEATS_MAX)
		return false;
	return series->state == MEASURE_REPEAT_DISTURBED ||
	       session->time_ns + cost_of(session, index) + reserve_ns <= session->budget_ns;
}

/* How many runs there will be is a guess before; what is sure to come is more than that at times. */
static void expect_runs(struct session *session, size_t coming)
{
	if (session->expected_runs < session->report.run_count + coming)
		session->expected_runs = session->report.run_count + coming;
}

/* Runs of the next pass, and of the last look at all. */
static size_t count_coming(struct session *session, size_t count, double reserve_ns, bool looked)
{
	size_t coming = 0;

	for (size_t i = 0; i < count; i++) {
		coming += wants_more(session, i, reserve_ns);
		coming += !looked && !session->refused[i];
	}
	return coming;
}

/* Until all are precise and of one mind, or no time is left. A last look at all shows a disturbance that came late. */
static int refine(struct session *session, size_t count)
{
	bool looked = false;
	int r = measure_repeat_analyse(session->series, count);

	while (r == 0) {
		double reserve_ns = looked ? 0 : time_of(session, count, 1);
		bool more = false;

		expect_runs(session, count_coming(session, count, reserve_ns, looked));
		for (size_t i = 0; r == 0 && i < count; i++)
			if (wants_more(session, i, reserve_ns)) {
				r = repeat(session, i);
				more = true;
			}
		if (r == 0 && !more) {
			if (looked)
				break;
			looked = true;
			r = run_rounds(session, count, 1);
		}
		if (r == 0 || r == -ETIME) {
			int judged = measure_repeat_analyse(session->series, count);

			r = judged < 0 ? judged : r;
		}
	}
	return r;
}

static int session_run(struct session *session, size_t *ret_count)
{
	size_t count;
	int r = 0;

	for (size_t i = 0; r == 0 && i < session->pacing_count; i++)
		r = calibrate(session, &session->pacings[i]);
	count = fit(session);
	if (count < session->plan.count)
		session->report.out_of_time = true;
	session->report.experiment_count = count;
	session->expected_runs = count * ROUNDS_EXPECTED;
	*ret_count = count;
	if (r == 0)
		r = run_rounds(session, count, ROUNDS_LEAST);
	if (r == 0)
		r = refine(session, count);
	/* Interrupted or out of time: what there is counts. */
	if (r == -EINTR || r == -ETIME)
		r = measure_repeat_analyse(session->series, count);
	return r;
}

/* ---------------------------------------------------------------------------------------------------------- results */

static int session_results(struct session *session, struct measure_result *results, size_t count, bool *ret_complete)
{
	*ret_complete = count == session->plan.count && !session->report.stopped;
	for (size_t i = 0; i < count; i++) {
		const struct measure_experiment *experiment = &session->plan.items[i];
		const struct measure_series *series = &session->series[i];
		struct diag diag = { 0 };
		int r = 0;

		results[i] = (struct measure_result){
			.experiment = experiment,
			.series = series,
			.refused = session->refused[i],
			.usable = !session->refused[i] && series->kept >= MEASURE_REPEAT_KEPT_LEAST &&
				  series->state != MEASURE_REPEAT_DISTURBED,
		};
		session->report.repeat_count += series->count - series->kept;
		if (results[i].usable) {
			if (experiment->pair && !stopped(session) &&
			    experiment->probe->ops->latency(experiment->probe, experiment->flows,
							    &results[i].latency_ns, &diag) < 0)
				results[i].latency_ns = 0;
			continue;
		}
		if (series->count >= MEASURE_REPEAT_KEPT_LEAST && series->state == MEASURE_REPEAT_DISTURBED)
			r = measure_conclude_find(
				&session->report, MEASURE_DISTURBED, experiment->what,
				"%zu repetitions contradict each other (%zu of them agree): something else "
				"uses the machine, and this is not used",
				series->count, series->kept);
		if (r < 0)
			return r;
		if (!session->refused[i] && series->count < MEASURE_REPEAT_KEPT_LEAST)
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

static int conclude(struct session *session, struct topology *topology, size_t count)
{
	struct measure_result *results = sys_zalloc((count + 1) * sizeof(*results));
	struct measure_resources resources = { 0 };
	struct measure_figure *figures = NULL;
	bool complete = false;
	int r = results ? session_results(session, results, count, &complete) : -ENOMEM;

	if (r == 0)
		r = measure_resources_init(&resources, session->topology, results, count);
	if (r < 0)
		goto out;
	figures = sys_zalloc((resources.count + 1) * sizeof(*figures));
	r = figures ? measure_infer(&resources, figures) : -ENOMEM;
	if (r == 0)
		r = measure_conclude(topology, &resources, figures, complete, session->options->date_s);
	if (r == 0)
		r = measure_conclude_check(topology, &resources, figures, &session->report);
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

static int session_init(struct session *session, const struct topology *topology, struct probe *const *probes,
			size_t probe_count, const struct measure_options *options)
{
	size_t most = 1;
	int r;

	*session = (struct session){ .topology = topology, .options = options, .pacing_count = probe_count };
	session->budget_ns = options->budget_ns ? (double)options->budget_ns
						: (options->quick ? QUICK_BUDGET_S : BUDGET_S) * SECOND_NS;
	r = measure_experiments_plan(topology, probes, probe_count, options->quick, &session->plan);
	if (r < 0)
		return r;
	for (size_t i = 0; i < session->plan.count; i++)
		if (session->plan.items[i].count > most)
			most = session->plan.items[i].count;
	session->series = sys_zalloc((session->plan.count + 1) * sizeof(*session->series));
	session->refused = sys_zalloc(session->plan.count + 1);
	session->pacings = sys_zalloc(probe_count * sizeof(*session->pacings));
	session->rates = sys_zalloc(most * sizeof(*session->rates));
	if (!session->series || !session->refused || !session->pacings || !session->rates)
		return -ENOMEM;
	for (size_t i = 0; i < probe_count; i++)
		session->pacings[i] = (struct pacing){ .probe = probes[i], .duration_ns = DURATION_LEAST_NS };
	for (size_t i = 0; i < session->plan.count; i++)
		measure_series_init(&session->series[i], session->plan.items[i].count,
				    target_of(topology, &session->plan.items[i]));
	return 0;
}

int measure_run(struct topology *topology, struct probe *const *probes, size_t probe_count,
		const struct measure_options *options, struct measure_report *ret)
{
	struct session session;
	size_t count = 0;
	int r;

	if (!probe_count)
		return -EINVAL;
	r = session_init(&session, topology, probes, probe_count, options);
	if (r == 0)
		r = session_run(&session, &count);
	if (r == 0)
		r = conclude(&session, topology, count);
	if (r == 0 && !session.report.stopped)
		r = write_no_p2p(topology, probes, probe_count);
	session.report.time_ns = (uint64_t)session.time_ns;
	session_fini(&session);
	if (r < 0) {
		measure_report_fini(&session.report);
		return r;
	}
	*ret = session.report;
	return 0;
}
