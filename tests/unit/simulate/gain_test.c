/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one answer on aggregation's gain (aggregate/gain.h) beside the flow simulator, over clusters that are drawn: leaves, hosts, rates,
 * oversubscription, leaves of different width, aggregators, orders of ranks.
 */
#include "aggregate/gain.h"

#include "base/log.h"
#include "simulate/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES ((double)(128 << 20))
#define GBIT  125e6

enum { DRAWN = 60, SEEDS = 6, FIRST_DRAWS = 20, HOSTS_MOST = 64, SLOW_HOSTS = 8, FAST_HOSTS = 16 };

static uint64_t state;

static double draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (double)(state >> 11) / (double)(UINT64_C(1) << 53);
}

static void begin_draws(uint64_t seed)
{
	state = UINT64_C(0x9e3779b97f4a7c15) ^ seed * UINT64_C(0xd1b54a32d192ed03);
	for (int i = 0; i < FIRST_DRAWS; i++)
		(void)draw();
}

static unsigned draw_of(unsigned least, unsigned most)
{
	return least + (unsigned)(draw() * (most - least + 1));
}

struct drawn {
	char text[128];
	unsigned leaves, each;
	struct simulate_fabric fabric;
	struct simulate_job job;
	uint32_t order[HOSTS_MOST];
};

static void must(int r, const struct diag *diag, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s (%d)", what, diag->text, r);
}

/* Rates and oversubscription are spread evenly over their logarithms: 0.05 to 200 Gbit/s, 1:1 to 32:1. */
static void draw_cluster(struct drawn *ret)
{
	double rate = 0.05 * pow(4000, draw());
	unsigned tenths = (unsigned)(10 * pow(32, draw())), aggregators = draw_of(0, 2);
	bool is_interleaved = draw_of(0, 1), is_uneven = !draw_of(0, 3);
	struct diag diag = { .text = "" };
	char degraded[32];

	*ret = (struct drawn){ .leaves = draw_of(2, 4) };
	ret->each = draw_of(2, rate < 2 ? SLOW_HOSTS : FAST_HOSTS); /* a slow one has more segments, which takes long */
	snprintf(ret->text, sizeof(ret->text), "leaf-spine:%ux%u,%u:10,%.3fGbit/s", ret->leaves, ret->each, tenths,
		 rate);
	must(simulate_fabric_make(ret->text, &ret->fabric, &diag), &diag, ret->text);
	snprintf(degraded, sizeof(degraded), "leaf1=%u%%", draw_of(30, 90));
	if (is_uneven)
		must(simulate_fabric_degrade(&ret->fabric, degraded, &diag), &diag, degraded);
	if (aggregators)
		must(simulate_fabric_add_aggregators(&ret->fabric, aggregators,
						     rate * GBIT * (draw_of(0, 1) ? ret->each : 1)),
		     &diag, "aggregators");
	for (unsigned i = 0; i < ret->leaves * ret->each; i++)
		ret->order[i] = is_interleaved ? i % ret->leaves * ret->each + i / ret->leaves : i;
	ret->job = (struct simulate_job){ .collective = SIMULATE_ALLREDUCE,
					  .algorithm = aggregators ? SIMULATE_AGGREGATORS : SIMULATE_HIERARCHICAL,
					  .hosts = ret->order,
					  .host_count = (size_t)ret->leaves * ret->each,
					  .gpus = 1,
					  .bytes = BYTES };
}

static double simulated_s(const struct drawn *drawn, enum simulate_algorithm algorithm, double latency_s)
{
	struct simulate_settings settings = simulate_defaults();
	struct simulate_job job = drawn->job;
	struct simulate_result result;
	struct diag diag = { .text = "" };
	double time_s;

	settings.latency_s = latency_s;
	settings.window_steps = 1;
	job.algorithm = algorithm;
	must(simulate_run(&drawn->fabric, &job, 1, &settings, NULL, 0, &result, &diag), &diag, drawn->text);
	time_s = result.outcomes[0].time_s;
	simulate_result_fini(&result);
	return time_s;
}

static bool is_close(double is, double to)
{
	return is >= 0.9 * to && is <= 1.1 * to;
}

struct tally {
	unsigned close;
	double worst;
};

static void compare_one(struct drawn *drawn, struct tally *tally)
{
	double latency_s = simulate_defaults().latency_s, ring_s = simulated_s(drawn, SIMULATE_RING, latency_s),
	       tree_s = simulated_s(drawn, SIMULATE_TREE, latency_s),
	       ours_s = simulated_s(drawn, drawn->job.algorithm, latency_s), answer_s;
	struct gain gain;

	assert_int_equal(simulate_gain(&drawn->fabric, &drawn->job, false, &gain), 0);
	answer_s = gain.aggregation_s_per_B * BYTES;
	if (!is_close(gain.ring_s_per_B * BYTES, ring_s) ||
	    !is_close(fmin(gain.ring_s_per_B, gain.tree_s_per_B) * BYTES, fmin(ring_s, tree_s)))
		fail_msg("%s: ring %.4g s, tree %.4g, simulated %.4g and %.4g", drawn->text, gain.ring_s_per_B * BYTES,
			 gain.tree_s_per_B * BYTES, ring_s, tree_s);
	if (!is_close(answer_s, ours_s))
		print_message("%s: aggregation takes %.4g s, simulated %.4g\n", drawn->text, answer_s, ours_s);
	tally->close += is_close(answer_s, ours_s);
	tally->worst = fmax(tally->worst, fabs(log(answer_s / ours_s)));
}

static void compare_drawn(uint64_t seed, struct tally *tally)
{
	begin_draws(seed);
	for (unsigned i = 0; i < DRAWN; i++) {
		struct drawn drawn;

		draw_cluster(&drawn);
		compare_one(&drawn, tally);
		simulate_fabric_fini(&drawn.fabric);
	}
}

static void all_answers_are_within_a_tenth_of_the_simulator(void **unused)
{
	struct tally tally = { 0 };

	(void)unused;
	compare_drawn(1, &tally);
	assert_int_equal(tally.close, DRAWN);
}

/*
 * Rings and trees are always within a tenth. Of aggregation a few clusters are further off: the simulator moves by some
 * per cent with the latency, and most of the rest is an error of the recurrence.
 */
static void six_seeds_have_few_that_are_further_off(void **unused)
{
	struct tally tally = { 0 };

	(void)unused;
	if (!getenv("TRIBUTARY_TEST_LONG"))
		skip();
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		compare_drawn(seed, &tally);
	print_message("%u of %u within 10 %%, the worst %.0f %% off\n", tally.close, SEEDS * DRAWN,
		      100 * (exp(tally.worst) - 1));
	assert_true(tally.close >= SEEDS * DRAWN * 92 / 100);
	assert_true(tally.worst < log(1.4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_answers_are_within_a_tenth_of_the_simulator),
		cmocka_unit_test(six_seeds_have_few_that_are_further_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
