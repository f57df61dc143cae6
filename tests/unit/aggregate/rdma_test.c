/* SPDX-License-Identifier: Apache-2.0 */
/* Groups over queue pairs of the fake: the same operations, and nothing is registered while they go on. */
#include "base/log.h"
#include "support/log_lines.h"
#include "support/port.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"
#include "unit/aggregate/tasks.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MEMBERS = 3, COUNT = 100000 };

static void gather_beside(struct harness *harness, const char *leaves, struct cluster_aggregator *aggregator)
{
	const struct fake_verbs_options options = { .devices = 1, .seed = runtime_seed() };
	struct params params;

	group_harness_params(&params);
	params.net = NET_CHOICE_VERBS;
	params.gid_index = 1;
	if (aggregator)
		snprintf(params.secret, sizeof(params.secret), "/nowhere/secret");
	verbs_transport_use(fake_verbs_start(&options), NULL);
	assert_int_equal(group_harness_gather(harness, &params, leaves), 0);
	harness->cluster.aggregators = aggregator;
	harness->cluster.aggregator_count = aggregator != NULL;
	assert_int_equal(group_harness_connect(harness), 0);
}

static void gather(struct harness *harness, const char *leaves)
{
	gather_beside(harness, leaves, NULL);
}

static void leave(struct harness *harness)
{
	struct fake_verbs_counts counts;

	group_harness_close(harness);
	fake_verbs_counts(&counts);
	assert_int_equal(fake_verbs_stop(), 0);
	verbs_transport_use(NULL, NULL);
	assert_int_equal(counts.missing_receives + counts.overflows + counts.wrong_calls + counts.failed_queues, 0);
}

static void every_operation_is_right(void **state)
{
	struct task tasks[40];
	uint64_t random = runtime_seed();
	struct harness harness;

	(void)state;
	gather(&harness, "aab");
	for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++)
		task_any(&tasks[i], &random);
	tasks_run(&harness, tasks, sizeof(tasks) / sizeof(tasks[0]), &random);
	leave(&harness);
}

static void reduce(struct harness *harness, float *const *data, size_t count)
{
	struct aggregate_request *requests[MEMBERS];

	for (size_t m = 0; m < MEMBERS; m++) {
		for (size_t i = 0; i < count; i++)
			data[m][i] = (float)(i % 1000 + m);
		assert_int_equal(group_harness_reduce(&harness->members[m], data[m], data[m], count, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	}
	assert_int_equal(group_harness_finish(harness, requests), 0);
	for (size_t m = 0; m < MEMBERS; m++)
		for (size_t i = 0; i < count; i++)
			if (data[m][i] != (float)(3 * (i % 1000) + 3))
				fail_msg("element %zu at member %zu is %g", i, m, (double)data[m][i]);
}

static uint64_t registrations(void)
{
	struct fake_verbs_counts counts;

	fake_verbs_counts(&counts);
	return counts.registrations;
}

static void registered_memory_is_not_registered_again(void **state)
{
	struct aggregate_memory *memory[MEMBERS];
	struct harness harness;
	float *data[MEMBERS];
	uint64_t before;

	(void)state;
	gather(&harness, "aab");
	for (size_t m = 0; m < MEMBERS; m++) {
		data[m] = aligned_alloc(4096, (COUNT * sizeof(float) + 4095) / 4096 * 4096);
		assert_non_null(data[m]);
	}
	before = registrations();
	reduce(&harness, data, COUNT);
	assert_true(registrations() > before); /* else what follows would show nothing */
	for (size_t m = 0; m < MEMBERS; m++)
		assert_int_equal(
			aggregate_register(harness.members[m].group, data[m], COUNT * sizeof(float), &memory[m]), 0);
	before = registrations();
	for (size_t count = 1; count <= COUNT; count = count * 10) {
		reduce(&harness, data, count);
		if (registrations() != before)
			fail_msg("%u registrations for %zu elements", (unsigned)(registrations() - before), count);
	}
	for (size_t m = 0; m < MEMBERS; m++)
		aggregate_deregister(harness.members[m].group, memory[m]);
	reduce(&harness, data, COUNT);
	assert_true(registrations() > before);
	leave(&harness);
	for (size_t m = 0; m < MEMBERS; m++)
		free(data[m]);
}

/* A group that has ended has no connection any more. */
static void memory_of_a_group_that_has_ended_is_taken_back(void **state)
{
	struct aggregate_memory *memory;
	struct aggregate_request *request = NULL;
	struct harness harness;
	float *data = calloc(COUNT, sizeof(*data));
	bool done = false;
	int r = 0;

	(void)state;
	assert_non_null(data);
	gather(&harness, "--");
	assert_int_equal(aggregate_register(harness.members[0].group, data, COUNT * sizeof(float), &memory), 0);
	aggregate_close_group(harness.members[1].group);
	harness.members[1].group = NULL;
	assert_int_equal(
		group_harness_reduce(&harness.members[0], data, data, COUNT, REDUCE_FLOAT32, REDUCE_SUM, &request), 0);
	while (r == 0 && !done)
		r = aggregate_test(request, &done, NULL);
	assert_true(r < 0);
	aggregate_deregister(harness.members[0].group, memory);
	leave(&harness);
	free(data);
}

/* tributaryd serves TCP alone: it is not even asked, and that is said once. */
static void aggregators_are_left_out_and_that_is_said_once(void **state)
{
	struct cluster_aggregator aggregator = { .address = "127.0.0.1", .leaf = 0, .rate_Bps = UINT64_C(10000000000) };
	struct aggregate_facts facts;
	float *data[MEMBERS];
	struct harness harness;
	int end = port_bind(&aggregator.port);

	(void)state;
	assert_int_equal(listen(end, 8), 0);
	for (size_t m = 0; m < MEMBERS; m++)
		data[m] = malloc(COUNT * sizeof(float));
	log_lines_start(NULL);
	for (unsigned i = 0; i < 2; i++) {
		gather_beside(&harness, "aab", &aggregator);
		aggregate_facts(harness.members[0].group, &facts);
		assert_int_equal(facts.aggregators, 0);
		reduce(&harness, data, COUNT);
		leave(&harness);
	}
	log_set_sink(NULL);
	assert_int_equal(log_lines()->warnings, 1);
	assert_string_equal(
		log_lines()->warning,
		"aggregators are not used, because tributaryd serves TCP alone and this job goes over verbs "
		"(TRIBUTARY_NET)");
	assert_true(accept(end, NULL, NULL) < 0); /* nobody came */
	for (size_t m = 0; m < MEMBERS; m++)
		free(data[m]);
	close(end);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_is_right),
		cmocka_unit_test(registered_memory_is_not_registered_again),
		cmocka_unit_test(memory_of_a_group_that_has_ended_is_taken_back),
		cmocka_unit_test(aggregators_are_left_out_and_that_is_said_once),
	};

	runtime_start("rdma_test", 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
