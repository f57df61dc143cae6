/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How well measuring knows simulated machines: those of topo/, and random ones. The bars are those of docs/design/measuring.md.
 * TRIBUTARY_TEST_TABLE=1 prints the errors; TRIBUTARY_TEST_LONG=1 takes 1,000 random machines.
 */
#include "measure/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ground_truth.h"
#include "oracle.h"
#include "support/random.h"

enum { RANDOM_FEW = 60, RANDOM_MANY = 1000, NEIGHBOURS_FEW = 24, NEIGHBOURS_MANY = 300, SETS = 30, FLOWS_MOST = 12 };
enum { ONCE_WRONG = 261 }; /* two bounds for what one explains */

#define ERROR_BAR   0.03
#define MEDIAN_BAR  0.01
#define PREDICT_BAR 0.05
#define LOADABLE    1.05 /* flows could bring this times what the link carries */
#define CLAIMED     0.9  /* of the links that can be loaded well are claimed as measured */

struct errors {
	const char *name;
	double *values;
	size_t count, room;
};

/* Whether the machine at hand has shown something beyond a bar. */
static bool is_beyond;

#define beyond(...)                         \
	do {                                \
		print_message(__VA_ARGS__); \
		print_message("\n");        \
		is_beyond = true;           \
	} while (0)

/* Of one kind of machines. */
struct tally {
	struct errors links[TOPOLOGY_LINK_KIND_COUNT], all, sets, flows;
	size_t machines, loadable, claimed, bounded, beyond; /* beyond: machines */
	double longest_s;
};

static bool want_table(void)
{
	return getenv("TRIBUTARY_TEST_TABLE") != NULL;
}

static bool want_long(void)
{
	return getenv("TRIBUTARY_TEST_LONG") != NULL;
}

/* ----------------------------------------------------------------------------------------------------------- errors */

static void errors_add(struct errors *errors, double value)
{
	if (errors->count == errors->room) {
		errors->room = errors->room ? 2 * errors->room : 256;
		errors->values = realloc(errors->values, errors->room * sizeof(*errors->values));
		assert_non_null(errors->values);
	}
	errors->values[errors->count++] = fabs(value);
}

static int compare_doubles(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return first < second ? -1 : first > second;
}

static double quantile(struct errors *errors, double part)
{
	if (!errors->count)
		return 0;
	qsort(errors->values, errors->count, sizeof(*errors->values), compare_doubles);
	return errors->values[(size_t)(part * (double)(errors->count - 1))];
}

static void print_row(struct errors *errors, const char *name)
{
	if (errors->count)
		printf("  %-28s %7zu  %6.2f %6.2f %6.2f\n", name, errors->count, 100 * quantile(errors, 0.5),
		       100 * quantile(errors, 0.95), 100 * quantile(errors, 1));
}

static void tally_print(struct tally *tally, const char *title)
{
	char name[64];

	if (!want_table())
		return;
	printf("%s: %zu machines, %zu with a value beyond its bar; the longest measured for %.1f s of its own time\n",
	       title, tally->machines, tally->beyond, tally->longest_s);
	printf("  %-28s %7s  %6s %6s %6s\n", "error in %", "count", "median", "95 %", "worst");
	for (size_t i = 0; i < TOPOLOGY_LINK_KIND_COUNT; i++) {
		snprintf(name, sizeof(name), "links: %s", topology_link_kind_word((enum topology_link_kind)i));
		print_row(&tally->links[i], name);
	}
	print_row(&tally->all, "links: all");
	print_row(&tally->sets, "unseen sets: their total");
	print_row(&tally->flows, "unseen sets: each flow");
	printf("  of %zu directed links that can be loaded %zu are claimed as measured; %zu others have a lower "
	       "bound\n",
	       tally->loadable, tally->claimed, tally->bounded);
}

static void tally_fini(struct tally *tally)
{
	for (size_t i = 0; i < TOPOLOGY_LINK_KIND_COUNT; i++)
		free(tally->links[i].values);
	free(tally->all.values);
	free(tally->sets.values);
	free(tally->flows.values);
}

/* ------------------------------------------------------------------------------------------------------------ links */

static const struct topology_capacity *capacity_of(const struct topology *topology, uint32_t directed)
{
	return &topology->links[directed / 2].capacity[directed % 2];
}

static void link_beyond(const char *machine, const struct topology *topology, uint32_t directed, double rate,
			double expected, const char *why)
{
	char name[2 * TOPOLOGY_NAME_BYTES] = "";

	topology_directed_name(topology, directed, name, sizeof(name));
	beyond("%s, %s: %.2f GB/s for %.2f: %s", machine, name, rate / 1e9, expected / 1e9, why);
}

/* Every link that can be loaded is right, and only such a link is claimed as measured. */
static void check_links(const char *machine, const struct topology *truth, const struct topology *seen,
			const struct oracle_link *oracle, struct tally *tally)
{
	for (uint32_t i = 0; i < 2 * truth->link_count; i++) {
		double rate = (double)capacity_of(seen, i)->rate_Bps, own = (double)capacity_of(truth, i)->rate_Bps;
		bool claimed = capacity_of(seen, i)->provenance == TOPOLOGY_MEASURED;
		double error = rate / oracle[i].true_Bps - 1;

		if (!oracle[i].crossed)
			continue;
		if (rate > own * (1 + ERROR_BAR))
			link_beyond(machine, seen, i, rate, own, "more than it carries");
		if (claimed && !oracle[i].loadable && rate < own * (1 - ERROR_BAR))
			link_beyond(machine, seen, i, rate, own, "claimed as measured, but nothing can load it");
		if (claimed && oracle[i].loadable && fabs(error) > ERROR_BAR)
			link_beyond(machine, seen, i, rate, oracle[i].true_Bps, "claimed as measured");
		tally->bounded += !claimed;
		if (!oracle[i].loadable || oracle[i].over < LOADABLE)
			continue;
		if (fabs(error) > ERROR_BAR)
			link_beyond(machine, seen, i, rate, oracle[i].true_Bps, "it could be loaded");
		errors_add(&tally->all, error);
		errors_add(&tally->links[truth->links[i / 2].kind], error);
		tally->loadable++;
		tally->claimed += claimed;
	}
}

/* ------------------------------------------------------------------------------------------------------- prediction */

static bool is_device(const struct topology *topology, uint32_t vertex)
{
	return topology->vertices[vertex].kind == TOPOLOGY_GPU || topology->vertices[vertex].kind == TOPOLOGY_NIC;
}

/* As collectives do it: no device sends two flows of a set, or receives two. */
static bool fits(const struct topology *topology, const struct probe_flow *set, size_t count,
		 const struct probe_flow *flow)
{
	for (size_t i = 0; i < count; i++)
		if ((is_device(topology, flow->flow.from) && set[i].flow.from == flow->flow.from) ||
		    (is_device(topology, flow->flow.to) && set[i].flow.to == flow->flow.to))
			return false;
	return true;
}

/* Between GPUs by copy engine or kernel, whichever is faster: the table of pairs has the better of the two. */
static void choose_engine(const struct topology *truth, struct probe *probe, struct probe_flow *flow)
{
	struct probe_flow kernel = *flow;
	double by_engine, by_kernel;

	kernel.engine = PROBE_ENGINE_KERNEL;
	if (truth->vertices[flow->flow.from].kind != TOPOLOGY_GPU ||
	    truth->vertices[flow->flow.to].kind != TOPOLOGY_GPU || !probe->ops->can(probe, &kernel))
		return;
	assert_int_equal(simulated_probe_solve(probe, flow, 1, &by_engine), 0);
	assert_int_equal(simulated_probe_solve(probe, &kernel, 1, &by_kernel), 0);
	if (by_kernel > by_engine)
		*flow = kernel;
}

static struct probe_flow random_flow(const struct topology *truth, struct probe *probe, uint64_t *random)
{
	for (;;) {
		/* One draw a statement: every compiler gets the same flows. */
		uint32_t from = (uint32_t)random_below(random, truth->vertex_count),
			 to = (uint32_t)random_below(random, truth->vertex_count);
		enum topology_way way = random_below(random, 3) ? TOPOLOGY_WAY_DIRECT : TOPOLOGY_WAY_HOST;
		struct probe_flow flow = { .flow = { from, to, way, TOPOLOGY_NONE } };

		if (flow.flow.from == flow.flow.to ||
		    (!is_device(truth, flow.flow.from) && !is_device(truth, flow.flow.to)) ||
		    !probe->ops->can(probe, &flow))
			continue;
		choose_engine(truth, probe, &flow);
		return flow;
	}
}

static void check_predictions(const char *machine, const struct topology *truth, const struct topology *seen,
			      struct probe *probe, uint64_t random, struct tally *tally)
{
	for (size_t i = 0; i < SETS; i++) {
		size_t want = 1 + random_below(&random, FLOWS_MOST), count = 0;
		struct probe_flow set[FLOWS_MOST];
		struct topology_flow flows[FLOWS_MOST];
		uint64_t rates[FLOWS_MOST];
		double truths[FLOWS_MOST], predicted = 0, real = 0;

		for (size_t attempt = 0; attempt < 4 * FLOWS_MOST && count < want; attempt++) {
			struct probe_flow flow = random_flow(truth, probe, &random);

			if (!fits(truth, set, count, &flow))
				continue;
			flows[count] = flow.flow;
			set[count++] = flow;
		}
		assert_int_equal(simulated_probe_solve(probe, set, count, truths), 0);
		assert_int_equal(topology_share(seen, flows, count, rates), 0);
		for (size_t j = 0; j < count; j++) {
			predicted += (double)rates[j];
			real += truths[j];
			errors_add(&tally->flows, (double)rates[j] / truths[j] - 1);
		}
		errors_add(&tally->sets, predicted / real - 1);
		if (fabs(predicted / real - 1) > PREDICT_BAR)
			beyond("%s: a set of %zu flows from %s is predicted to get %.1f GB/s and gets %.1f", machine,
			       count, truth->vertices[flows[0].from].name, predicted / 1e9, real / 1e9);
	}
}

/*
 * -----------------------------------------------------------------------------------------------------------
 * machines
 */

static void measure(struct topology *seen, struct probe *probe, bool quick, struct measure_report *ret)
{
	struct measure_options options = { .date_s = 1, .quick = quick };

	assert_int_equal(measure_run(seen, &probe, 1, &options, ret), 0);
	assert_true(ret->time_ns <= (quick ? 10 : 60) * UINT64_C(1000000000));
}

static void check_machine(const char *name, const struct topology *truth, const struct probe_rules *rules,
			  uint64_t seed, struct tally *tally)
{
	struct oracle_link *oracle = calloc(2 * truth->link_count, sizeof(*oracle));
	struct measure_report report;
	struct topology seen;
	struct probe *probe;

	assert_non_null(oracle);
	assert_int_equal(simulated_probe_open(truth, rules, seed, &probe), 0);
	assert_int_equal(simulated_probe_hide(truth, &seen), 0);
	measure(&seen, probe, false, &report);
	oracle_links(truth, probe, oracle);
	check_links(name, truth, &seen, oracle, tally);
	check_predictions(name, truth, &seen, probe, seed, tally);
	tally->machines++;
	tally->longest_s = fmax(tally->longest_s, (double)report.time_ns / 1e9);
	measure_report_fini(&report);
	topology_fini(&seen);
	probe->ops->close(probe);
	free(oracle);
}

static void check_bars(struct tally *tally)
{
	assert_true(tally->loadable > 0);
	assert_true(quantile(&tally->all, 0.5) <= MEDIAN_BAR);
	assert_true((double)tally->claimed >= CLAIMED * (double)tally->loadable);
}

typedef void machine_check(const char *name, const struct topology *truth, const struct probe_rules *rules,
			   uint64_t seed, struct tally *tally);

static void each_of_topo(machine_check *check, struct tally *tally)
{
	const char *root = getenv("TRIBUTARY_SOURCE");
	struct dirent **entries;
	char folder[4096];
	int count;

	snprintf(folder, sizeof(folder), "%s/topo", root ? root : ".");
	count = scandir(folder, &entries, NULL, alphasort);
	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		struct topology truth;
		struct probe_rules rules;
		struct diag diag = { 0 };

		/* not README.md, nor what is no machine */
		if (!strchr(entries[i]->d_name, '.') && strcmp(entries[i]->d_name, "clusters") != 0 &&
		    strcmp(entries[i]->d_name, "captures") != 0) {
			snprintf(folder, sizeof(folder), "%s/topo/%s", root ? root : ".", entries[i]->d_name);
			if (simulated_probe_read(folder, &truth, &rules, &diag) < 0)
				fail_msg("%s: line %d: %s", folder, diag.line, diag.text);
			is_beyond = false;
			check(entries[i]->d_name, &truth, &rules, (uint64_t)i, tally);
			assert_false(is_beyond);
			topology_fini(&truth);
		}
		free(entries[i]);
	}
	free(entries);
}

static void check_random(machine_check *check, size_t i, struct tally *tally)
{
	struct topology truth;
	struct probe_rules rules;
	char name[32];

	snprintf(name, sizeof(name), "random machine %zu", i);
	truth_random(1000 + i, &truth, &rules);
	is_beyond = false;
	check(name, &truth, &rules, i, tally);
	tally->beyond += is_beyond;
	topology_fini(&truth);
}

static void each_random(machine_check *check, size_t count, struct tally *tally)
{
	for (size_t i = 0; i < count; i++)
		check_random(check, i, tally);
	/* Repetitions scatter, and of so many machines one or another is unlucky. */
	assert_true(tally->beyond * 100 <= count);
}

static void described_machines_are_known_within_the_bars(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	each_of_topo(check_machine, &tally);
	assert_true(tally.machines >= 12);
	tally_print(&tally, "topo/");
	check_bars(&tally);
	tally_fini(&tally);
}

static void random_machines_are_known_within_the_bars(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	each_random(check_machine, want_long() ? RANDOM_MANY : RANDOM_FEW, &tally);
	check_random(check_machine, ONCE_WRONG, &tally);
	assert_false(is_beyond);
	tally_print(&tally, "random");
	check_bars(&tally);
	tally_fini(&tally);
}

/*
 * ---------------------------------------------------------------------------------------------------------
 * neighbours
 */

/*
 * Nothing wrong is claimed: what a copy engine brings counts as the slot's where the experiments with kernels were
 * lost. A lower bound that is too low says so among the findings.
 */
static void check_disturbed(const char *name, const struct topology *truth, const struct topology *seen,
			    const struct oracle_link *oracle, const struct measure_report *report, struct tally *tally)
{
	for (uint32_t i = 0; i < 2 * truth->link_count; i++) {
		double rate = (double)capacity_of(seen, i)->rate_Bps, own = (double)capacity_of(truth, i)->rate_Bps;
		double least = fmin(oracle[i].true_Bps, oracle[i].engine_Bps);
		bool claimed = capacity_of(seen, i)->provenance == TOPOLOGY_MEASURED;

		if (!oracle[i].crossed)
			continue;
		if (rate > own * (1 + 1.5 * ERROR_BAR))
			link_beyond(name, seen, i, rate, own, "more than it carries, with a neighbour");
		if (!oracle[i].loadable) {
			if (claimed && rate < own * (1 - ERROR_BAR))
				link_beyond(name, seen, i, rate, own, "claimed as measured, with a neighbour");
			continue;
		}
		tally->loadable++;
		tally->claimed += claimed;
		if (claimed && rate < least * (1 - ERROR_BAR))
			link_beyond(name, seen, i, rate, least, "claimed as measured, with a neighbour");
		if (oracle[i].over >= LOADABLE && rate < least * (1 - ERROR_BAR) && !report->finding_count &&
		    !report->out_of_time)
			link_beyond(name, seen, i, rate, least, "too low without a finding, with a neighbour");
	}
}

/* Half-way a neighbour takes 40 % of some link for a while. */
static void check_neighbour(const char *name, const struct topology *truth, const struct probe_rules *rules,
			    uint64_t seed, struct tally *tally)
{
	struct oracle_link *oracle = calloc(2 * truth->link_count, sizeof(*oracle));
	struct probe_rules disturbed = *rules;
	uint64_t random = seed * 77 + 5;
	struct topology undisturbed, seen;
	struct measure_report report;
	struct probe *probe;
	double time_ns, begin, length;

	assert_non_null(oracle);
	assert_int_equal(simulated_probe_open(truth, rules, seed, &probe), 0);
	assert_int_equal(simulated_probe_hide(truth, &undisturbed), 0);
	measure(&undisturbed, probe, false, &report);
	time_ns = (double)report.time_ns;
	oracle_links(truth, probe, oracle);
	probe->ops->close(probe);
	measure_report_fini(&report);
	topology_fini(&undisturbed);

	begin = random_between(&random, 0, 0.7);
	length = random_between(&random, 0.1, 0.5);
	disturbed.neighbour_count = 1;
	disturbed.neighbours[0] = (struct probe_rules_neighbour){
		.part = 0.4,
		.from_ns = (uint64_t)(begin * time_ns),
		.to_ns = (uint64_t)((begin + length) * time_ns),
	};
	topology_directed_name(truth, (uint32_t)random_below(&random, 2 * truth->link_count),
			       disturbed.neighbours[0].link, sizeof(disturbed.neighbours[0].link));
	assert_int_equal(simulated_probe_open(truth, &disturbed, seed, &probe), 0);
	assert_int_equal(simulated_probe_hide(truth, &seen), 0);
	measure(&seen, probe, false, &report);
	check_disturbed(name, truth, &seen, oracle, &report, tally);
	tally->machines++;
	measure_report_fini(&report);
	topology_fini(&seen);
	probe->ops->close(probe);
	free(oracle);
}

static void neighbour_makes_no_capacity_wrong(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	each_of_topo(check_neighbour, &tally);
	each_random(check_neighbour, want_long() ? NEIGHBOURS_MANY : NEIGHBOURS_FEW, &tally);
	if (want_table())
		printf("with a neighbour: %zu machines, %zu with a wrong capacity; of %zu directed links that can be "
		       "loaded %zu are claimed as measured\n",
		       tally.machines, tally.beyond, tally.loadable, tally.claimed);
	assert_true(tally.claimed * 2 > tally.loadable);
}

/*
 * --------------------------------------------------------------------------------------------------------------
 * quick
 */

static void check_quick(const char *name, const struct topology *truth, const struct probe_rules *rules, uint64_t seed,
			struct tally *tally)
{
	struct oracle_link *oracle = calloc(2 * truth->link_count, sizeof(*oracle));
	struct measure_report report;
	struct topology seen;
	struct probe *probe;

	assert_non_null(oracle);
	assert_int_equal(simulated_probe_open(truth, rules, seed, &probe), 0);
	assert_int_equal(simulated_probe_hide(truth, &seen), 0);
	measure(&seen, probe, true, &report);
	oracle_links(truth, probe, oracle);
	for (uint32_t i = 0; i < 2 * truth->link_count; i++) {
		double rate = (double)capacity_of(&seen, i)->rate_Bps, own = (double)capacity_of(truth, i)->rate_Bps;
		double least = fmin(oracle[i].loadable ? oracle[i].true_Bps : own, oracle[i].engine_Bps);

		if (capacity_of(&seen, i)->provenance != TOPOLOGY_MEASURED)
			continue;
		if (rate > own * (1 + 1.5 * ERROR_BAR) || rate < least * (1 - 1.5 * ERROR_BAR))
			link_beyond(name, &seen, i, rate, least, "claimed as measured, quickly");
		if (oracle[i].loadable)
			errors_add(&tally->all, fmin(rate / least - 1, 0));
	}
	tally->machines++;
	measure_report_fini(&report);
	topology_fini(&seen);
	probe->ops->close(probe);
	free(oracle);
}

static void quick_measurement_claims_nothing_wrong(void **state)
{
	struct tally tally = { 0 };

	(void)state;
	each_of_topo(check_quick, &tally);
	assert_true(tally.all.count > 0);
	assert_true(quantile(&tally.all, 0.5) <= MEDIAN_BAR);
	tally_fini(&tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(described_machines_are_known_within_the_bars),
		cmocka_unit_test(random_machines_are_known_within_the_bars),
		cmocka_unit_test(neighbour_makes_no_capacity_wrong),
		cmocka_unit_test(quick_measurement_claims_nothing_wrong),
	};

	return cmocka_run_group_tests(tests, truth_hold_clock, truth_release_clock);
}
