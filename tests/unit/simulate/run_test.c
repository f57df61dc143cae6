/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of aggregation: how long, and when they are through. */
#include "simulate/job.h"

#include "base/log.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The sizes of iallreduce calls of NCCL 2.28.9 and 2.30.7, CollNetChain, one GPU a node, two channels, in KiB. */
static void calls_are_as_long_as_nccls(void **state)
{
	static const struct {
		size_t kib, call_kib;
	} seen[] = { { 16, 32 },    { 32, 32 },    { 40, 32 },     { 60, 32 },     { 64, 64 },     { 100, 64 },
		     { 128, 64 },   { 192, 64 },   { 256, 64 },    { 320, 64 },    { 384, 64 },    { 448, 64 },
		     { 512, 64 },   { 576, 64 },   { 640, 128 },   { 704, 128 },   { 768, 128 },   { 900, 128 },
		     { 1024, 128 }, { 1280, 128 }, { 1536, 128 },  { 1792, 128 },  { 1920, 128 },  { 2048, 256 },
		     { 4096, 256 }, { 8192, 256 }, { 15360, 256 }, { 16384, 256 }, { 24576, 256 }, { 32768, 512 },
		     { 65536, 512 } };

	(void)state;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		double bytes = simulate_call_bytes((double)(seen[i].kib << 10));

		if (bytes != (double)(seen[i].call_kib << 10))
			fail_msg("%zu KiB in calls of %.0f bytes, seen: %zu KiB", seen[i].kib, bytes, seen[i].call_kib);
	}
	assert_true(simulate_call_bytes(1) == 32 << 10);
}

static double aggregate_s(double aggregator_Bps, unsigned in_flight)
{
	static const uint32_t hosts[] = { 0, 1, 2 };
	struct simulate_job job = { .algorithm = SIMULATE_AGGREGATORS, .hosts = hosts, .host_count = 3, .gpus = 1 };
	struct simulate_settings settings = simulate_defaults();
	struct simulate_fabric fabric = { 0 };
	struct simulate_result result = { 0 };
	struct diag diag = { 0 };
	double end_s;

	settings.latency_s = 0;
	settings.detail = SIMULATE_STEPS;
	settings.operation_bytes = 256 << 10;
	settings.in_flight = in_flight;
	job.bytes = 10 * settings.operation_bytes;
	assert_int_equal(simulate_fabric_make("leaf-spine:1x3,8Gbit/s", &fabric, &diag), 0);
	if (aggregator_Bps <= 0)
		job.algorithm = SIMULATE_HIERARCHICAL;
	else
		assert_int_equal(simulate_fabric_add_aggregators(&fabric, 1, aggregator_Bps), 0);
	assert_int_equal(simulate_run(&fabric, &job, 1, &settings, NULL, 0, &result, &diag), 0);
	end_s = result.end_s;
	simulate_result_fini(&result);
	simulate_fabric_fini(&fabric);
	return end_s;
}

/*
 * Three hosts of 1 GB/s, an aggregator of 100 GB/s, ten calls of one segment of 256 KiB, one at a time: up, down, and two words
 * that wait 160 KiB each. By hosts alone no words: of two inputs at a host each comes in half the time that both take.
 */
static void with_aggregators_all_hosts_agree_on_a_call(void **state)
{
	double way_s = 262144 / 1e9, word_s = 163840 / 1e9, one_s = 10 * (2 * way_s + 2 * word_s);

	(void)state;
	assert_true(fabs(aggregate_s(100e9, 1) - one_s) < 1e-9);
	assert_true(fabs(aggregate_s(0, 1) - 10 * 4 * way_s) < 1e-9);
	/* Eight at a time: twice eight ways and what is left, of two calls; the words of each only once. */
	assert_true(aggregate_s(100e9, 8) < 20 * way_s + 4 * word_s + 1e-9);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_as_long_as_nccls),
		cmocka_unit_test(with_aggregators_all_hosts_agree_on_a_call),
	};

	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
