/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that are late, in groups with aggregators. What the others' newer operations sent ahead must not keep out what an
 * older one needs: whoever waits for that one before it posts the newer would wait for ever.
 */
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
#include <unistd.h>

enum { OPERATIONS = 24, FIRST = 4, AHEAD_MS = 150 };

struct kind {
	const char *leaves;
	int aggregator_leaf; /* -1: there is no aggregator */
	size_t segment_bytes, count;
	bool verify;
};

struct flight {
	struct harness harness;
	struct cluster_aggregator aggregator;
	struct aggregate_request *requests[OPERATIONS][GROUP_HARNESS_MAX];
	float *send, *recv[OPERATIONS][GROUP_HARNESS_MAX];
	size_t count;
};

static void flight_open(struct flight *flight, const struct host_harness *host, const struct kind *kind)
{
	struct aggregate_facts facts;
	struct params params;

	memset(flight, 0, sizeof(*flight));
	group_harness_params(&params);
	params.aggregate_segment_bytes = kind->segment_bytes;
	params.verify = kind->verify;
	flight->count = kind->count;
	snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(&flight->harness, &params, kind->leaves), 0);
	flight->aggregator = (struct cluster_aggregator){ .address = "127.0.0.1",
							  .port = host->port,
							  .leaf = kind->aggregator_leaf,
							  .rate_Bps = UINT64_C(1250000000) };
	group_harness_slow_hosts(&flight->harness);
	flight->harness.cluster.aggregators = &flight->aggregator;
	flight->harness.cluster.aggregator_count = kind->aggregator_leaf >= 0;
	assert_int_equal(group_harness_connect(&flight->harness), 0);
	aggregate_facts(flight->harness.members[0].group, &facts);
	assert_int_equal(facts.aggregators, kind->aggregator_leaf >= 0);
	flight->send = calloc(flight->count, sizeof(float));
	assert_non_null(flight->send);
	for (size_t i = 0; i < flight->count; i++)
		flight->send[i] = (float)(i % 1000);
}

static void post(struct flight *flight, size_t member, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++) {
		flight->recv[i][member] = calloc(flight->count, sizeof(float));
		assert_non_null(flight->recv[i][member]);
		assert_int_equal(group_harness_reduce(&flight->harness.members[member], flight->send,
						      flight->recv[i][member], flight->count, REDUCE_FLOAT32,
						      REDUCE_SUM, &flight->requests[i][member]),
				 0);
	}
}

static void let_time_pass(struct flight *flight)
{
	uint64_t deadline_ns = runtime_deadline_ns(AHEAD_MS);

	while (!runtime_past(deadline_ns)) {
		bool done = false;

		for (size_t m = 0; m < flight->harness.count; m++)
			if (flight->requests[0][m]) {
				assert_int_equal(aggregate_test(flight->requests[0][m], &done, NULL), 0);
				assert_false(done);
			}
		runtime_nap();
	}
}

/* All but one post all operations; that one comes later, and posts the next only when it is through with those before. */
static void one_is_late(const struct kind *kind, size_t late)
{
	struct flight flight;
	struct host_harness host;

	host_harness_open(&host, "", 60);
	flight_open(&flight, &host, kind);
	for (size_t m = 0; m < flight.harness.count; m++)
		if (m != late)
			post(&flight, m, 0, OPERATIONS);
	let_time_pass(&flight);
	post(&flight, late, 0, FIRST);
	for (size_t i = 0; i < FIRST; i++)
		assert_int_equal(group_harness_finish(&flight.harness, flight.requests[i]), 0);
	post(&flight, late, FIRST, OPERATIONS);
	for (size_t i = FIRST; i < OPERATIONS; i++)
		assert_int_equal(group_harness_finish(&flight.harness, flight.requests[i]), 0);
	for (size_t i = 0; i < OPERATIONS; i++)
		for (size_t m = 0; m < flight.harness.count; m++) {
			for (size_t k = 0; k < kind->count; k++)
				assert_true(flight.recv[i][m][k] == (float)(flight.harness.count * (k % 1000)));
			free(flight.recv[i][m]);
		}
	free(flight.send);
	group_harness_close(&flight.harness);
	host_harness_close(&host);
}

static void each_is_late(const char *leaves, int aggregator_leaf, size_t segment_bytes, size_t count, bool verify)
{
	const struct kind kind = { leaves, aggregator_leaf, segment_bytes, count, verify };
	size_t members = 0;

	for (const char *at = leaves; *at; at++)
		members += *at >= '1' && *at <= '9' ? (size_t)(*at - '1') : 1;
	for (size_t late = 0; late < members; late++)
		one_is_late(&kind, late);
}

static void segments_as_they_are_chosen(void **state)
{
	(void)state;
	each_is_late("aabb", 1, 0, 16 << 10, false);
	each_is_late("aaaa", 0, 0, 16 << 10, true);
}

static void short_segments(void **state)
{
	(void)state;
	each_is_late("ab", 1, 4096, 16 << 10, true);
	each_is_late("a2b", 1, 4096, 16 << 10, false);
}

static void without_an_aggregator(void **state)
{
	static const size_t counts[] = { 100, 4000, 16 << 10, 40000 };

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		each_is_late("aab", -1, 0, counts[i], i % 2 == 0);
		each_is_late("aaa", -1, 0, counts[i], i % 2 == 1);
	}
	each_is_late("a2b", -1, 0, 16 << 10, true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_as_they_are_chosen),
		cmocka_unit_test(short_segments),
		cmocka_unit_test(without_an_aggregator),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, host_harness_secret_make, host_harness_secret_remove);
}
