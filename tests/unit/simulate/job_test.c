/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on fabrics: by hand, the two forms beside each other, the shares beside the engine's own. */
#include "simulate/job.h"

#include "aggregate/schedule.h"
#include "base/log.h"
#include "base/sys.h"
#include "simulate/aggregation.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GBITPS 125e6

enum { HOSTS = 64 };

static void check_close(double is, double expected, double relative, const char *what)
{
	if (fabs(is - expected) > relative * fabs(expected))
		fail_msg("%s is %.9g, expected %.9g", what, is, expected);
}

static struct simulate_fabric fabric_of(const char *text)
{
	struct simulate_fabric fabric;
	struct diag diag = { 0 };

	if (simulate_fabric_make(text, &fabric, &diag) < 0)
		fail_msg("%s: %s", text, diag.text);
	return fabric;
}

static void degrade(struct simulate_fabric *fabric, const char *text)
{
	struct diag diag = { 0 };

	if (simulate_fabric_degrade(fabric, text, &diag) < 0)
		fail_msg("%s: %s", text, diag.text);
}

struct tried {
	double time_s, most_bytes; /* on the busiest switch link */
	struct simulate_outcome outcome;
};

static struct tried try_job(const struct simulate_fabric *fabric, const struct simulate_job *job,
			    const struct simulate_settings *settings)
{
	struct simulate_result result = { 0 };
	struct tried tried = { 0 };
	struct diag diag = { 0 };
	int r = simulate_run(fabric, job, 1, settings, NULL, 0, &result, &diag);

	if (r < 0)
		fail_msg("%s (%d)", diag.text, r);
	tried.outcome = result.outcomes[0];
	tried.time_s = tried.outcome.time_s;
	for (size_t i = 0; i < fabric->switch_count; i++)
		for (int way = 0; way < 2; way++)
			tried.most_bytes = fmax(
				tried.most_bytes,
				flow_link(result.network, simulate_switch_link(fabric, i, (enum simulate_direction)way))
					.bytes);
	simulate_result_fini(&result);
	return tried;
}

static struct simulate_job job_of(enum simulate_algorithm algorithm, const uint32_t *hosts, size_t count, double bytes)
{
	return (struct simulate_job){ .collective = SIMULATE_ALLREDUCE,
				      .algorithm = algorithm,
				      .hosts = hosts,
				      .host_count = count,
				      .gpus = 1,
				      .bytes = bytes,
				      .seed = 1 };
}

/* ------------------------------------------------------------------------------------------------------------ fabrics */

static void generated_fabrics_have_the_links_they_say(void **state)
{
	static const struct {
		const char *text;
		size_t hosts, rails, switches;
		const char *uplink;
		double rate_Bps;
	} cases[] = {
		{ "leaf-spine:32x128,4:1,100Gbit/s", 4096, 1, 33, "leaf7", 128 * 100 * GBITPS / 4 },
		{ "leaf-spine:2x3,10Gbit/s", 6, 1, 3, "leaf2", 30 * GBITPS },
		{ "fat-tree:8,3:2,10Gbit/s", 128, 1, 32 + 8 + 1, "pod3", 16 * 10 * GBITPS / 1.5 },
		{ "fat-tree:8,10Gbit/s", 128, 1, 32 + 8 + 1, "pod8-leaf4", 4 * 10 * GBITPS },
		{ "rail-optimised:4x16x8,2:1,1Gbit/s", 64, 8, 33, "group2-rail5", 8 * GBITPS },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct simulate_fabric fabric = fabric_of(cases[i].text);
		bool found = false;

		assert_int_equal(fabric.host_count, cases[i].hosts);
		assert_int_equal(fabric.rail_count, cases[i].rails);
		assert_int_equal(fabric.switch_count, cases[i].switches);
		for (size_t j = 0; j < fabric.switch_count; j++) {
			if (strcmp(fabric.switches[j].name, cases[i].uplink) != 0)
				continue;
			found = true;
			check_close(fabric.switches[j].capacity_Bps[SIMULATE_UP], cases[i].rate_Bps, 1e-12, "uplink");
		}
		assert_true(found);
		simulate_fabric_fini(&fabric);
	}
}

static void wrong_texts_are_refused_with_a_reason(void **state)
{
	static const char *const makes[] = { "",
					     "ring:4",
					     "leaf-spine",
					     "leaf-spine:4,1Gbit/s",
					     "leaf-spine:4x4",
					     "leaf-spine:0x4,1Gbit/s",
					     "leaf-spine:4x4,4:0,1Gbit/s",
					     "leaf-spine:4x4,4:1,2:1,1Gbit/s",
					     "leaf-spine:4x4,4:1,fast",
					     "leaf-spine:4x4,1Gbit/s,1Gbit/s",
					     "leaf-spine:9000x9,1Gbit/s",
					     "leaf-spine:16384x16384,1Gbit/s",
					     "fat-tree:5,1Gbit/s",
					     "rail-optimised:2x2x17,1Gbit/s" };
	static const char *const degrades[] = { "",          "leaf1",    "leaf9=1Gbit/s", "leaf1=",
						"=1Gbit/s",  "leaf1=-1", "host1.up=fast", "host1.out=1Gbit/s",
						"leaf1=101%" };
	struct simulate_fabric fabric;

	(void)state;
	for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
		struct diag diag = { 0 };

		if (simulate_fabric_make(makes[i], &fabric, &diag) != -EINVAL || !diag.text[0])
			fail_msg("\"%s\" is taken, or refused without a reason", makes[i]);
	}
	fabric = fabric_of("leaf-spine:2x2,1Gbit/s");
	for (size_t i = 0; i < sizeof(degrades) / sizeof(degrades[0]); i++) {
		struct diag diag = { 0 };

		if (simulate_fabric_degrade(&fabric, degrades[i], &diag) != -EINVAL || !diag.text[0])
			fail_msg("\"%s\" is taken, or refused without a reason", degrades[i]);
	}
	degrade(&fabric, "leaf1.down=50%");
	degrade(&fabric, "host2=100Mbit/s");
	check_close(fabric.switches[0].capacity_Bps[SIMULATE_UP], 2 * GBITPS, 1e-12, "up");
	check_close(fabric.switches[0].capacity_Bps[SIMULATE_DOWN], GBITPS, 1e-12, "down");
	check_close(fabric.nics[1].capacity_Bps[SIMULATE_DOWN], GBITPS / 10, 1e-12, "NIC");
	simulate_fabric_fini(&fabric);
}

static void ways_go_up_as_far_as_they_must(void **state)
{
	struct simulate_fabric fabric = fabric_of("fat-tree:4,1Gbit/s");
	static const struct {
		uint32_t from, to;
		const char *names;
	} cases[] = {
		{ 0, 1, "host1 out, host2 in" },
		{ 0, 2, "host1 out, pod1-leaf1 up, pod1-leaf2 down, host3 in" },
		{ 3, 5, "host4 out, pod1-leaf2 up, pod1 up, pod2 down, pod2-leaf1 down, host6 in" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct simulate_end from = { cases[i].from, 0, 0 }, to = { cases[i].to, 0, 0 };
		struct flow_crossing way[SIMULATE_WAY_MAX];
		size_t count = simulate_way(&fabric, from, to, way);
		char text[512] = "", name[SIMULATE_NAME_BYTES + 16];

		for (size_t j = 0; j < count; j++) {
			simulate_link_name(&fabric, way[j].link, name, sizeof(name));
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", j ? ", " : "", name);
		}
		assert_string_equal(text, cases[i].names);
	}
	simulate_fabric_fini(&fabric);
}

/* What a file does not say bounds nothing; a host without a rate is like the others. */
static void a_cluster_file_is_a_fabric(void **state)
{
	static const char text[] = "tributary-cluster 1\nswitch spine\nswitch a parent=spine up=4kB/s down=2kB/s\n"
				   "switch b parent=spine\nhost h[1-2] leaf=a rate=1000B/s\nhost x leaf=b\n"
				   "aggregator agg:7471 leaf=a rate=8kB/s\n";
	struct simulate_fabric fabric;
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	uint32_t order[3];

	(void)state;
	assert_int_equal(cluster_read(text, strlen(text), &cluster, &diag), 0);
	assert_int_equal(simulate_fabric_of_cluster(cluster, &fabric, &diag), 0);
	assert_int_equal(fabric.host_count, 3);
	assert_int_equal(fabric.aggregator_count, 1);
	for (size_t i = 0; i < 3; i++)
		check_close(fabric.nics[i].capacity_Bps[SIMULATE_UP], 1000, 1e-12, "NIC");
	for (size_t i = 0; i < fabric.switch_count; i++) {
		bool a = !strcmp(fabric.switches[i].name, "a");

		if (a)
			check_close(fabric.switches[i].capacity_Bps[SIMULATE_DOWN], 2000, 1e-12, "a's uplink");
		else
			assert_true(isinf(fabric.switches[i].capacity_Bps[SIMULATE_DOWN]));
	}
	assert_int_equal(simulate_order_leaf(&fabric, order), 0);
	assert_int_equal(order[0] + order[1] + order[2], 3);
	simulate_fabric_fini(&fabric);
	cluster_free(cluster);
}

/* -------------------------------------------------------------------------------------------------------- by hand */

/*
 * 8 hosts of 1 GB/s in two leaves, uplinks of 1 GB/s (4:1). By leaf one edge crosses each uplink, and a ring takes
 * 2 × 7/8 × 0.8 GB = 1.4 s; interleaved each uplink carries four edges, 5.6 s.
 */
static void ring_order_decides_what_crosses_the_uplinks(void **state)
{
	static const uint32_t leaf[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, mixed[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,4:1,8Gbit/s");
	struct simulate_settings settings = simulate_defaults();

	(void)state;
	settings.latency_s = 0;
	for (int form = SIMULATE_STEPS; form <= SIMULATE_PIPELINED; form++) {
		struct simulate_job job = job_of(SIMULATE_RING, leaf, 8, 800e6);
		struct tried tried;

		settings.detail = (enum simulate_detail)form;
		tried = try_job(&fabric, &job, &settings);
		check_close(tried.time_s, 1.4, 1e-6, "by leaf");
		check_close(tried.outcome.algbw_Bps, 800e6 / 1.4, 1e-6, "algbw");
		check_close(tried.outcome.busbw_Bps, 1e9, 1e-6, "busbw");
		check_close(tried.most_bytes, 1.4e9, 1e-6, "bytes of an uplink");
		assert_int_equal(tried.outcome.steps, form == SIMULATE_STEPS);
		job.hosts = mixed;
		tried = try_job(&fabric, &job, &settings);
		check_close(tried.time_s, 5.6, 1e-6, "interleaved");
		check_close(tried.most_bytes, 5.6e9, 1e-6, "bytes of an uplink");
		job.hosts = leaf;
		job.collective = SIMULATE_ALLGATHER;
		check_close(try_job(&fabric, &job, &settings).time_s, 0.7, 1e-6, "AllGather");
	}
	simulate_fabric_fini(&fabric);
}

/*
 * The same leaves, with uplinks of 2 GB/s: a host's NIC carries 2 × 7/8, an uplink 1; with an aggregator of 8 GB/s in each
 * leaf, 1 on a NIC. And uplinks of 0.5 GB/s: the uplink's 1 takes 1.6 s.
 */
static void aggregation_takes_what_its_formulas_say(void **state)
{
	static const uint32_t hosts[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,2:1,8Gbit/s");
	struct simulate_job job = job_of(SIMULATE_HIERARCHICAL, hosts, 8, 800e6);
	struct simulate_settings settings = simulate_defaults();
	struct tried tried;

	(void)state;
	settings.latency_s = 0;
	settings.detail = SIMULATE_PIPELINED;
	settings.in_flight = 256; /* so that links seldom wait */
	tried = try_job(&fabric, &job, &settings);
	check_close(tried.time_s, 1.4, 0.12, "hosts alone");
	check_close(tried.most_bytes, 800e6, 1e-6, "bytes of an uplink");
	assert_int_equal(simulate_fabric_add_aggregators(&fabric, 1, 8e9), 0);
	job.algorithm = SIMULATE_AGGREGATORS;
	check_close(try_job(&fabric, &job, &settings).time_s, 0.8, 0.12, "with aggregators");
	degrade(&fabric, "leaf2=25%");
	check_close(try_job(&fabric, &job, &settings).time_s, 1.6, 0.12, "over a narrow uplink");
	simulate_fabric_fini(&fabric);
}

static void patterns_fill_the_links_they_must(void **state)
{
	static const uint32_t hosts[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,4:1,8Gbit/s");
	struct simulate_job job = job_of(SIMULATE_RING, hosts, 8, 800e6);
	struct simulate_settings settings = simulate_defaults();

	(void)state;
	settings.latency_s = 0;
	/* 16 parts of 0.1 GB cross each uplink. */
	job.collective = SIMULATE_ALLTOALL;
	check_close(try_job(&fabric, &job, &settings).time_s, 1.6, 1e-6, "all to all");
	job.collective = SIMULATE_INCAST;
	check_close(try_job(&fabric, &job, &settings).time_s, 5.6, 1e-6, "incast");
	job.collective = SIMULATE_PERMUTATION;
	for (job.seed = 1; job.seed < 20; job.seed++) {
		struct tried tried = try_job(&fabric, &job, &settings);

		/* As many come as go; each takes what the uplink gives it, but never more than its NIC. */
		check_close(tried.time_s, fmax(0.8, tried.most_bytes / 1e9), 1e-6, "permutation");
	}
	simulate_fabric_fini(&fabric);
}

/* Two jobs with two hosts in each of two leaves share the uplinks; a third inside a leaf shares nothing. */
static void jobs_share_what_they_share(void **state)
{
	static const uint32_t first[] = { 0, 4 }, second[] = { 1, 5 }, third[] = { 2, 3 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,4:1,8Gbit/s");
	struct simulate_job jobs[3] = { job_of(SIMULATE_RING, first, 2, 1e9), job_of(SIMULATE_RING, second, 2, 1e9),
					job_of(SIMULATE_RING, third, 2, 1e9) };
	struct simulate_settings settings = simulate_defaults();
	struct simulate_result result;
	struct diag diag = { 0 };

	(void)state;
	settings.latency_s = 0;
	settings.detail = SIMULATE_PIPELINED;
	jobs[1].start_s = 1;
	assert_int_equal(simulate_run(&fabric, jobs, 3, &settings, NULL, 0, &result, &diag), 0);
	/* The first has the uplinks alone for a second, and is done. */
	check_close(result.outcomes[0].time_s, 1, 1e-9, "the first");
	check_close(result.outcomes[1].time_s, 1, 1e-9, "the second");
	check_close(result.outcomes[2].time_s, 1, 1e-9, "the third");
	simulate_result_fini(&result);
	jobs[1].start_s = 0.5;
	assert_int_equal(simulate_run(&fabric, jobs, 3, &settings, NULL, 0, &result, &diag), 0);
	check_close(result.outcomes[0].time_s, 1.5, 1e-9, "the first");
	check_close(result.outcomes[1].time_s, 1.5, 1e-9, "the second");
	check_close(result.end_s, 2, 1e-9, "the end");
	simulate_result_fini(&result);
	simulate_fabric_fini(&fabric);
}

/*
 * Trees of several jobs over the same uplinks, pipelined: no link carries its bytes in less than these take, and what
 * fills a tree was timed as if the other jobs were not there.
 */
static void jobs_side_by_side_are_no_faster_than_their_links(void **state)
{
	static const uint32_t hosts[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,8:1,8Gbit/s");
	struct simulate_settings settings = simulate_defaults();
	struct simulate_job jobs[4];
	struct simulate_result result = { 0 };
	struct diag diag = { 0 };
	double least_s = 0;

	(void)state;
	settings.detail = SIMULATE_PIPELINED;
	settings.latency_s = 0;
	for (size_t i = 0; i < 4; i++)
		jobs[i] = job_of(SIMULATE_TREE, hosts + 2 * i, 2, 64 << 20);
	assert_int_equal(simulate_run(&fabric, jobs, 4, &settings, NULL, 0, &result, &diag), 0);
	for (uint32_t i = 0; i < simulate_link_count(&fabric); i++) {
		struct flow_link link = flow_link(result.network, i);

		if (link.capacity_Bps < INFINITY)
			least_s = fmax(least_s, link.bytes / link.capacity_Bps);
	}
	assert_true(least_s > 0);
	if (result.end_s < least_s * (1 - 1e-9))
		fail_msg("%.9g s, and a link needs %.9g s", result.end_s, least_s);
	check_close(result.end_s, least_s, 0.01, "the time");
	simulate_result_fini(&result);
	simulate_fabric_fini(&fabric);
}

static void what_is_inside_hosts_counts(void **state)
{
	static const uint32_t hosts[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	struct simulate_row row = { "memory0", 2e9, { 4, 2, 2 } };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,8Gbit/s");
	struct simulate_job job = job_of(SIMULATE_RING, hosts, 8, 800e6);
	struct simulate_settings settings = simulate_defaults();

	(void)state;
	settings.latency_s = 0;
	job.gpus = 4;
	assert_int_equal(simulate_fabric_set_rows(&fabric, &row, 1), 0);
	/* 2 × 31/32 of the bytes over each edge, four times over a memory of 2 GB/s. */
	check_close(try_job(&fabric, &job, &settings).time_s, 0.8 * 2 * 31 / 32 * 4 / 2, 1e-6, "four GPUs");
	job.gpus = 1;
	check_close(try_job(&fabric, &job, &settings).time_s, 0.8 * 2 * 7 / 8 * 4 / 2, 1e-6, "one GPU");
	simulate_fabric_fini(&fabric);
}

static void what_is_not_possible_is_refused(void **state)
{
	static const uint32_t twice[] = { 0, 0 }, beyond[] = { 0, 8 }, good[] = { 0, 1 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:2x4,8Gbit/s");
	struct simulate_settings settings = simulate_defaults();
	struct simulate_job jobs[] = {
		job_of(SIMULATE_RING, twice, 2, 1e9), job_of(SIMULATE_RING, beyond, 2, 1e9),
		job_of(SIMULATE_RING, good, 0, 1e9),  job_of(SIMULATE_RING, good, 2, 0),
		job_of(SIMULATE_RING, good, 2, NAN),  job_of(SIMULATE_AGGREGATORS, good, 2, 1e9),
		job_of(SIMULATE_TREE, good, 2, 1e9),
	};
	struct simulate_result result;

	(void)state;
	jobs[6].collective = SIMULATE_ALLGATHER;
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
		struct diag diag = { 0 };

		assert_int_equal(simulate_run(&fabric, &jobs[i], 1, &settings, NULL, 0, &result, &diag), -EINVAL);
		assert_true(diag.text[0]);
	}
	degrade(&fabric, "host2.down=0%");
	{
		struct simulate_job job = job_of(SIMULATE_RING, good, 2, 1e9);
		struct diag diag = { 0 };

		assert_int_equal(simulate_run(&fabric, &job, 1, &settings, NULL, 0, &result, &diag), -EDEADLK);
		assert_non_null(strstr(diag.text, "\"host2 in\""));
	}
	simulate_fabric_fini(&fabric);
}

/* ---------------------------------------------------------------------------------------------------- the two forms */

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (*seed >> 11) % below;
}

/*
 * Up to 64 hosts in up to 8 leaves, some uplinks and NICs slower than the others.  One draw a statement: compilers differ
 * in the order in which they evaluate arguments, and every build must get the same fabrics.
 */
static struct simulate_fabric draw_fabric(uint64_t *seed)
{
	unsigned leaves = (unsigned)(1 + draw(seed, 8)), each = (unsigned)(1 + draw(seed, HOSTS / leaves)),
		 over = (unsigned)(1 + draw(seed, 8)), gigabits = (unsigned)(1 + draw(seed, 100));
	struct simulate_fabric fabric;
	char text[80];

	each = leaves * each < 2 ? 2 : each;
	snprintf(text, sizeof(text), "leaf-spine:%ux%u,%u:1,%uGbit/s", leaves, each, over, gigabits);
	fabric = fabric_of(text);
	for (uint64_t i = draw(seed, 4); i > 0; i--) {
		unsigned host = (unsigned)(1 + draw(seed, fabric.host_count)),
			 percent = (unsigned)(30 + draw(seed, 70));

		snprintf(text, sizeof(text), "host%u=%u%%", host, percent);
		degrade(&fabric, text);
	}
	if (!draw(seed, 3)) {
		unsigned leaf = (unsigned)(1 + draw(seed, leaves));
		const char *way = draw(seed, 2) ? "up" : "down";
		unsigned percent = (unsigned)(30 + draw(seed, 70));

		snprintf(text, sizeof(text), "leaf%u.%s=%u%%", leaf, way, percent);
		degrade(&fabric, text);
	}
	return fabric;
}

/* The errors of the pipelined form over random fabrics, orders and latencies: none is outside low to high. */
static void compare_forms(enum simulate_algorithm algorithm, size_t cases, double most_bytes, double low, double high)
{
	double worst = 0, sum = 0;

	for (uint64_t number = 1; number <= cases; number++) {
		uint64_t seed = number * UINT64_C(0x9e3779b97f4a7c15) + 77;
		struct simulate_settings settings = simulate_defaults();
		struct simulate_fabric fabric = draw_fabric(&seed);
		uint32_t order[HOSTS];
		double bytes = most_bytes / (double)(1 << 2 * draw(&seed, algorithm < SIMULATE_HIERARCHICAL ? 4 : 2));
		struct simulate_job job = job_of(algorithm, order, fabric.host_count, bytes);
		double steps_s, pipe_s, error;

		if (algorithm == SIMULATE_AGGREGATORS)
			assert_int_equal(simulate_fabric_add_aggregators(&fabric, 1,
									 fabric.nics[0].capacity_Bps[0] *
										 (double)(1 + draw(&seed, 16))),
					 0);
		simulate_order_random(&fabric, seed, order);
		if (draw(&seed, 2))
			assert_int_equal(simulate_order_leaf(&fabric, order), 0);
		settings.latency_s = (double)draw(&seed, 40) * 1e-6;
		settings.steps_most = 1000000;
		if (algorithm >= SIMULATE_HIERARCHICAL && most_bytes < 1e9)
			settings.window_steps /= 20;
		settings.detail = SIMULATE_STEPS;
		steps_s = try_job(&fabric, &job, &settings).time_s;
		settings.detail = SIMULATE_PIPELINED;
		pipe_s = try_job(&fabric, &job, &settings).time_s;
		error = pipe_s / steps_s - 1;
		if (error < low || error > high)
			fail_msg("case %u, %zu hosts on %zu switches, %.0f MB, latency %.0f us: %.6f s step by "
				 "step, %.6f s pipelined",
				 (unsigned)number, fabric.host_count, fabric.switch_count, bytes * 1e-6,
				 settings.latency_s * 1e6, steps_s, pipe_s);
		sum += fabs(error);
		worst = fmax(worst, fabs(error));
		simulate_fabric_fini(&fabric);
	}
	print_message("pipelined against step by step, %zu fabrics: mean error %.2f %%, largest %.2f %%\n", cases,
		      sum / (double)cases * 100, worst * 100);
}

static void pipelined_rings_are_as_fast_as_step_by_step(void **state)
{
	(void)state;
	compare_forms(SIMULATE_RING, 30, 256e6, -0.02, 0.02);
}

static void pipelined_trees_are_as_fast_as_step_by_step(void **state)
{
	(void)state;
	compare_forms(SIMULATE_TREE, 20, 256e6, -0.02, 0.02);
}

/*
 * Queues come and go over hundreds of calls, so that a window of calls is a sample: the longer, the nearer. Here it is a
 * twentieth of the usual one, 128 calls at least; TRIBUTARY_TEST_LONG takes the usual one and compares it with 2 GB step
 * by step.
 */
static void pipelined_aggregation_is_as_fast_as_step_by_step(void **state)
{
	bool whole = getenv("TRIBUTARY_TEST_LONG") != NULL;

	(void)state;
	/* What is simulated is the same everywhere: as near as it is, and a little. */
	compare_forms(SIMULATE_HIERARCHICAL, whole ? 12 : 20, whole ? 2e9 : 96e6, whole ? -0.01 : -0.05,
		      whole ? 0.01 : 0.05);
	compare_forms(SIMULATE_AGGREGATORS, whole ? 12 : 20, whole ? 2e9 : 96e6, -0.01, 0.01);
}

/* With much in flight every link is busy all the time: 7 hosts, each on a leaf of its own, 2 × 6/7 of the bytes each. */
static void what_is_in_flight_bounds_aggregation(void **state)
{
	static const uint32_t hosts[] = { 0, 1, 2, 3, 4, 5, 6 };
	struct simulate_fabric fabric = fabric_of("leaf-spine:7x1,10Gbit/s");
	struct simulate_job job = job_of(SIMULATE_HIERARCHICAL, hosts, 7, 64e6);
	struct simulate_settings settings = simulate_defaults();
	double bound_s = 64e6 * 2 * 6 / 7 / 1.25e9, few_s, many_s;

	(void)state;
	settings.detail = SIMULATE_PIPELINED;
	few_s = try_job(&fabric, &job, &settings).time_s;
	settings.in_flight = 256;
	many_s = try_job(&fabric, &job, &settings).time_s;
	print_message("8 in flight %+.1f %%, 256 in flight %+.1f %%\n", (few_s / bound_s - 1) * 100,
		      (many_s / bound_s - 1) * 100);
	assert_true(few_s > bound_s * 1.1);
	check_close(many_s, bound_s, 0.04, "with 256 in flight");
	simulate_fabric_fini(&fabric);
}

/* ------------------------------------------------------------------------------------------------------------- shares */

static void shares_are_as_good_as_the_engines(void **state)
{
	enum { CASES = 200 };

	(void)state;
	for (uint64_t number = 1; number <= CASES; number++) {
		struct schedule_group *group = calloc(1, sizeof(*group));
		struct simulate_place places[96] = { 0 };
		struct simulate_leaf leaves[16] = { 0 };
		uint64_t seed = number * UINT64_C(0x9e3779b97f4a7c15) + 5;
		size_t hosts = 2 + draw(&seed, 60), leaf_count = 1 + draw(&seed, hosts < 10 ? hosts : 10),
		       aggregators = draw(&seed, 2) ? draw(&seed, 8) : 0;
		struct schedule *schedule = NULL;
		struct schedule_loads loads;
		double s_per_B, slowest = 0, roots = 0;

		assert_non_null(group);
		group->member_count = hosts;
		group->node_count = group->host_count = hosts + aggregators;
		group->leaf_count = leaf_count;
		for (size_t i = 0; i < leaf_count; i++) {
			group->uplink_out_Bps[i] = group->uplink_in_Bps[i] = 1000000 * (1 + draw(&seed, 3000));
			leaves[i].uplink_Bps = (double)group->uplink_out_Bps[i];
		}
		for (size_t i = 0; i < hosts + aggregators; i++) {
			uint16_t leaf = (uint16_t)(i < leaf_count ? i : draw(&seed, leaf_count));
			uint64_t rate_Bps = 1000000 * (1 + draw(&seed, i < hosts ? 100 : 4000));

			group->nodes[i] = (struct schedule_node){ (uint16_t)i, leaf, rate_Bps, i >= hosts, false };
			places[i] = (struct simulate_place){ .leaf = leaf,
							     .aggregator = i >= hosts,
							     .rate_Bps = (double)group->nodes[i].rate_Bps };
		}
		assert_int_equal(schedule_new(group, &schedule), 0);
		schedule_loads(schedule, &loads);
		assert_int_equal(simulate_aggregation_share(places, hosts + aggregators, leaves, leaf_count, &s_per_B),
				 0);
		check_close(s_per_B, loads.slowest_s_per_B, 1e-6, "the slowest link's time");
		/* What is put on the links takes that time, and no more. */
		for (size_t i = 0; i < hosts + aggregators; i++)
			slowest = fmax(slowest, places[i].rate_Bps > 0 ? places[i].load / places[i].rate_Bps : 0);
		for (size_t i = 0; i < leaf_count; i++) {
			slowest = fmax(slowest, leaf_count > 1 ? (1 + ((double)leaf_count - 2) * leaves[i].root) /
									 leaves[i].uplink_Bps
							       : 0);
			roots += leaves[i].root;
		}
		check_close(slowest, s_per_B, 1e-6, "the slowest link as loaded");
		check_close(roots, 1, 1e-9, "all roots");
		schedule_free(schedule);
		free(group);
	}
}

#ifdef TRIBUTARY_FAULTS
static int run_all(void)
{
	static const enum simulate_algorithm algorithms[] = { SIMULATE_RING, SIMULATE_TREE, SIMULATE_HIERARCHICAL,
							      SIMULATE_AGGREGATORS };
	struct simulate_settings settings = simulate_defaults();
	struct simulate_fabric fabric = { 0 };
	struct diag diag = { 0 };
	uint32_t order[8];
	int r = simulate_fabric_make("leaf-spine:2x4,4:1,8Gbit/s", &fabric, &diag);

	if (r == 0)
		r = simulate_fabric_add_aggregators(&fabric, 1, 1e9);
	if (r == 0)
		r = simulate_order_leaf(&fabric, order);
	for (size_t i = 0; r == 0 && i < 8; i++) {
		struct simulate_job job = job_of(algorithms[i / 2], order, 8, 2e6);
		struct simulate_result result = { 0 };

		settings.detail = i % 2 ? SIMULATE_STEPS : SIMULATE_PIPELINED;
		r = simulate_run(&fabric, &job, 1, &settings, NULL, 0, &result, &diag);
		simulate_result_fini(&result);
	}
	simulate_fabric_fini(&fabric);
	return r;
}

static void without_memory_there_is_no_result_and_no_leak(void **state)
{
	uint64_t calls;

	(void)state;
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
	assert_int_equal(run_all(), 0);
	calls = sys_fault_calls(SYS_FAULT_MEMORY);
	assert_true(calls > 50);
	for (uint64_t nth = 1; nth <= calls; nth++) {
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		assert_int_equal(run_all(), -ENOMEM);
	}
	sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
}
#endif

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(generated_fabrics_have_the_links_they_say),
		cmocka_unit_test(wrong_texts_are_refused_with_a_reason),
		cmocka_unit_test(ways_go_up_as_far_as_they_must),
		cmocka_unit_test(a_cluster_file_is_a_fabric),
		cmocka_unit_test(ring_order_decides_what_crosses_the_uplinks),
		cmocka_unit_test(aggregation_takes_what_its_formulas_say),
		cmocka_unit_test(patterns_fill_the_links_they_must),
		cmocka_unit_test(jobs_share_what_they_share),
		cmocka_unit_test(jobs_side_by_side_are_no_faster_than_their_links),
		cmocka_unit_test(what_is_inside_hosts_counts),
		cmocka_unit_test(what_is_not_possible_is_refused),
		cmocka_unit_test(pipelined_rings_are_as_fast_as_step_by_step),
		cmocka_unit_test(pipelined_trees_are_as_fast_as_step_by_step),
		cmocka_unit_test(pipelined_aggregation_is_as_fast_as_step_by_step),
		cmocka_unit_test(what_is_in_flight_bounds_aggregation),
		cmocka_unit_test(shares_are_as_good_as_the_engines),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(without_memory_there_is_no_result_and_no_leak),
#endif
	};

	return cmocka_run_group_tests_name("job", tests, NULL, NULL);
}
