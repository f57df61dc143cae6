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

struct phases {
	struct simulate_span all[SIMULATE_PHASE_COUNT], out[SIMULATE_PHASE_COUNT]; /* out: what the first host sends */
	double time_s;
};

/* Of 12 MB on two leaves of two hosts with 1 GB/s each, or one of four, without latency. */
static struct phases phases_of(const char *fabric_text, enum simulate_collective collective,
			       enum simulate_algorithm algorithm, enum simulate_detail detail)
{
	static const uint32_t hosts[] = { 0, 1, 2, 3 };
	struct simulate_job job = { .collective = collective,
				    .algorithm = algorithm,
				    .hosts = hosts,
				    .host_count = 4,
				    .gpus = 1,
				    .bytes = 12e6 };
	struct simulate_settings settings = simulate_defaults();
	struct simulate_fabric fabric = { 0 };
	struct simulate_result result = { 0 };
	struct diag diag = { 0 };
	struct phases phases;

	settings.latency_s = 0;
	settings.detail = detail;
	assert_int_equal(simulate_fabric_make(fabric_text, &fabric, &diag), 0);
	assert_int_equal(simulate_run(&fabric, &job, 1, &settings, NULL, 0, &result, &diag), 0);
	simulate_phases(&result, 0, SIMULATE_NONE, phases.all);
	simulate_phases(&result, 0, simulate_nic_link(&fabric, 0, 0, SIMULATE_UP), phases.out);
	phases.time_s = result.end_s;
	simulate_result_fini(&result);
	simulate_fabric_fini(&fabric);
	return phases;
}

static void assert_span(const struct simulate_span *span, double start_s, double end_s, double bytes, size_t messages)
{
	assert_int_equal(span->messages, messages);
	assert_true(fabs(span->bytes - bytes) < 1);
	assert_true(fabs(span->start_s - start_s) < 1e-9 && fabs(span->end_s - end_s) < 1e-9);
}

/* Three steps of 3 MB at 1 GB/s, in two pieces, sum; three more bring the sums to all. */
static void a_ring_first_sums_and_then_gathers(void **state)
{
	struct phases of = phases_of("leaf-spine:1x4,8Gbit/s", SIMULATE_ALLREDUCE, SIMULATE_RING, SIMULATE_STEPS);

	(void)state;
	assert_span(&of.all[SIMULATE_REDUCE_SCATTER], 0, 9e-3, 36e6, 24);
	assert_span(&of.all[SIMULATE_ALL_GATHER], 9e-3, 18e-3, 36e6, 24);
	assert_span(&of.out[SIMULATE_REDUCE_SCATTER], 0, 9e-3, 9e6, 6);
	assert_span(&of.out[SIMULATE_ALL_GATHER], 9e-3, 18e-3, 9e6, 6);
	of = phases_of("leaf-spine:1x4,8Gbit/s", SIMULATE_REDUCESCATTER, SIMULATE_RING, SIMULATE_STEPS);
	assert_span(&of.all[SIMULATE_REDUCE_SCATTER], 0, 9e-3, 36e6, 24);
	of = phases_of("leaf-spine:1x4,8Gbit/s", SIMULATE_ALLGATHER, SIMULATE_RING, SIMULATE_STEPS);
	assert_span(&of.all[SIMULATE_ALL_GATHER], 0, 9e-3, 36e6, 24);
	of = phases_of("leaf-spine:1x4,8Gbit/s", SIMULATE_ALLTOALL, SIMULATE_RING, SIMULATE_AUTO);
	assert_span(&of.all[SIMULATE_SEND], 0, 9e-3, 36e6, 12);
}

/* All bytes of each phase, whatever overlaps; what ends last ends the whole. */
static void phases_have_all_bytes(void **state)
{
	static const char two[] = "leaf-spine:2x2,8Gbit/s";
	struct phases of = phases_of(two, SIMULATE_ALLREDUCE, SIMULATE_TREE, SIMULATE_STEPS);
	const struct simulate_span *up = &of.all[SIMULATE_REDUCE], *down = &of.all[SIMULATE_BROADCAST];

	(void)state;
	assert_true(fabs(up->bytes - 36e6) < 1 && fabs(down->bytes - 36e6) < 1);
	assert_true(up->start_s == 0 && down->start_s > 0 && up->end_s < down->end_s && down->end_s == of.time_s);
	of = phases_of(two, SIMULATE_ALLREDUCE, SIMULATE_HIERARCHICAL, SIMULATE_STEPS);
	/* One host of each two sums, and one leaf of two. */
	for (int phase = SIMULATE_TO_LEAF; phase <= SIMULATE_FROM_LEAF; phase++) {
		bool leaf = phase == SIMULATE_TO_LEAF || phase == SIMULATE_FROM_LEAF;

		assert_true(fabs(of.all[phase].bytes - (leaf ? 24e6 : 12e6)) < 1);
		assert_true(phase == SIMULATE_TO_LEAF || of.all[phase].start_s > 0);
	}
	assert_true(of.all[SIMULATE_FROM_LEAF].end_s == of.time_s);
	of = phases_of(two, SIMULATE_ALLREDUCE, SIMULATE_RING, SIMULATE_PIPELINED);
	for (int phase = 0; phase < SIMULATE_PHASE_COUNT; phase++)
		assert_int_equal(of.all[phase].messages, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_as_long_as_nccls),
		cmocka_unit_test(with_aggregators_all_hosts_agree_on_a_call),
		cmocka_unit_test(a_ring_first_sums_and_then_gathers),
		cmocka_unit_test(phases_have_all_bytes),
	};

	return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
