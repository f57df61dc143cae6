/* SPDX-License-Identifier: Apache-2.0 */
/* Several aggregators, of which one is lost, and several groups, one after another: who stays, and who gets a place. */
#include "aggregate/aggregators.h"
#include "aggregate/group.h"
#include "blow.h"
#include "host_harness.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREE = 3, OPERATIONS = 40, BLOW_AT = 5, COUNT = 200000, TIMEOUT_S = 60 };

static struct host_harness hosts[THREE];

/* Over the aggregators, one on each of the first leaves. */
static void open_group(struct harness *harness, const char *leaves, size_t aggregator_count)
{
	static struct cluster_aggregator aggregators[THREE];
	struct params params;

	memset(harness, 0, sizeof(*harness));
	group_harness_params(&params);
	params.aggregate_measure = false;
	snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(harness, &params, leaves), 0);
	for (size_t i = 0; i < aggregator_count; i++)
		aggregators[i] = (struct cluster_aggregator){
			.address = "127.0.0.1", .port = hosts[i].port, .leaf = (int)i, .rate_Bps = UINT64_C(1250000000)
		};
	group_harness_slow_hosts(harness);
	harness->cluster.aggregators = aggregators;
	harness->cluster.aggregator_count = aggregator_count;
	assert_int_equal(group_harness_connect(harness), 0);
}

static size_t aggregators_of(const struct harness *harness)
{
	struct aggregate_facts facts;

	aggregate_facts(harness->members[0].group, &facts);
	return facts.aggregators;
}

/* Sums of ones on all members, to the end. */
static void reduce(struct harness *harness, const float *ones, float *const *results)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], ones, results[m], COUNT, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	assert_int_equal(group_harness_finish(harness, requests), 0);
	for (size_t m = 0; m < harness->count; m++)
		for (size_t i = 0; i < COUNT; i++)
			assert_true(results[m][i] == (float)harness->count);
}

/* After so many calls of a kind the first aggregator is gone. */
static void lose_the_first(enum stroke stroke, int64_t calls)
{
	static struct harness harness;
	float *ones = calloc(COUNT, sizeof(*ones)), *results[GROUP_HARNESS_MAX] = { NULL };

	blow_set(STROKE_NONE, false, 0, 0);
	for (size_t i = 0; i < THREE; i++)
		host_harness_open_over(&hosts[i], "", TIMEOUT_S, i ? &transport_tcp : &blow_ops);
	open_group(&harness, "aabbcc", THREE);
	assert_int_equal(aggregators_of(&harness), THREE);
	assert_non_null(ones);
	for (size_t i = 0; i < COUNT; i++)
		ones[i] = 1;
	for (size_t m = 0; m < harness.count; m++)
		assert_non_null(results[m] = calloc(COUNT, sizeof(**results)));
	for (unsigned k = 0; k < OPERATIONS; k++) {
		if (k == BLOW_AT)
			blow_set(stroke, false, calls, 0);
		reduce(&harness, ones, results);
	}
	assert_true(blow_has_fallen());
	for (size_t m = 0; m < harness.count; m++) {
		const struct group_aggregators *known = ((struct group *)harness.members[m].group)->aggregators;

		for (size_t i = 1; i < THREE; i++)
			if (known->lost >> i & 1)
				fail_msg("after %s, %d calls: aggregator %zu, which runs, is lost at member %zu: %s",
					 blow_names[stroke], (int)calls, i, m, known->aggregators[i].why);
		assert_true(known->lost & 1);
		free(results[m]);
	}
	group_harness_close(&harness);
	for (size_t i = 0; i < THREE; i++)
		host_harness_close(&hosts[i]);
	free(ones);
}

static void one_that_is_lost_takes_no_other_with_it(void **state)
{
	(void)state;
	for (int64_t calls = 1; calls < (runtime_long() ? 9 : 3); calls++) {
		lose_the_first(STROKE_INPUT, calls);
		lose_the_first(STROKE_UP, calls);
	}
}

static void the_last_place_is_free_when_its_group_has_ended(void **state)
{
	static struct harness harness;

	(void)state;
	host_harness_open(&hosts[0], "--groups-max 1", TIMEOUT_S);
	for (unsigned i = 0; i < 60; i++) {
		open_group(&harness, "aaa", 1);
		assert_int_equal(aggregators_of(&harness), 1);
		group_harness_close(&harness);
	}
	host_harness_close(&hosts[0]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_is_lost_takes_no_other_with_it),
		cmocka_unit_test(the_last_place_is_free_when_its_group_has_ended),
	};

	(void)argc;
	runtime_start(argv[0], 300);
	blow_start();
	return cmocka_run_group_tests(tests, host_harness_secret_make, host_harness_secret_remove);
}
