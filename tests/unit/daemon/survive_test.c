/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aggregators that are lost: at every step of what they do, two at once, seen by one member alone, by each other alone,
 * while what is missing is made again, together with a member; and ones that are told to end. All operations go through with
 * the bits that a group without aggregators has, and later ones too. The moment is taken from the seed.
 */
#include "aggregate/group.h"
#include "base/log.h"
#include "blow.h"
#include "host_harness.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"
#include "unit/reduce/elements.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/log_lines.h"
#include "support/parallel.h"

enum {
	HOSTS_MAX = 3,
	SPECS = 40,
	OPEN = 12,
	ROUNDS_LONG = 20,
	LONGEST_BYTES = 66 << 20, /* more than is made again at a time (aggregate/recompute.c) */
	DIRECT_BYTES = 4096,
	STILL_MS = 120000
};

/* ------------------------------------------------------------------------------------------------------ operations */

struct spec {
	enum reduce_type type;
	enum reduce_operation operation;
	size_t count;
	bool in_place;
};

static struct spec specs[SPECS];
static uint8_t *pools[REDUCE_TYPE_COUNT];
static const enum reduce_type spec_types[] = { REDUCE_FLOAT32, REDUCE_BFLOAT16, REDUCE_INT32 };

static size_t pool_bytes(void)
{
	return runtime_long() ? LONGEST_BYTES + (1 << 20) : (size_t)10 << 20;
}

static size_t spec_bytes(const struct spec *spec)
{
	return spec->count * reduce_type_bytes(spec->type);
}

static void specs_make(uint64_t *random)
{
	size_t most = runtime_long() ? (size_t)8 << 20 : (size_t)2 << 20;

	for (size_t i = 0; i < SPECS; i++) {
		struct spec *spec = &specs[i];
		size_t element, bytes;

		spec->type = spec_types[random_below(random, 3)];
		element = reduce_type_bytes(spec->type);
		spec->operation = random_below(random, 3) ? REDUCE_SUM : REDUCE_MAX;
		switch (random_below(random, 8)) {
		case 0:
		case 1:
			bytes = 1 + random_below(random, DIRECT_BYTES);
			break;
		case 2:
			bytes = random_below(random, most);
			break;
		default:
			bytes = DIRECT_BYTES + random_below(random, 200000);
		}
		spec->count = bytes / element + 1;
		spec->in_place = random_below(random, 3) == 0;
	}
	specs[3] = (struct spec){ REDUCE_FLOAT32, REDUCE_SUM, most / 4, false };
	specs[7] = (struct spec){ REDUCE_FLOAT32, REDUCE_SUM, most / 4, true };
	specs[11] = (struct spec){ REDUCE_FLOAT32, REDUCE_SUM, 1, false };
	specs[12] = (struct spec){ REDUCE_INT8, REDUCE_SUM, DIRECT_BYTES + 1, true };
}

static const uint8_t *spec_input(size_t spec, size_t member)
{
	return pools[specs[spec].type] + (spec * 17 + member * 29) % 512 * 64;
}

/* What groups without aggregators make of them; by leaves. */
static struct expected {
	const char *leaves;
	uint8_t *results[SPECS];
} expected[8];

/* ---- a run: every member posts all of them, each at its own pace ---- */

struct flight {
	struct aggregate_request *request;
	uint8_t *recv;
	size_t spec;
};
struct pace {
	struct flight flights[OPEN];
	size_t posted, done, open;
	unsigned laziness; /* of its turns so many of ten come to nothing */
	int error;
};
struct run {
	struct harness *harness;
	const struct expected *expected; /* NULL: only that they end */
	struct pace paces[GROUP_HARNESS_MAX];
	size_t specs, gone; /* gone: that member is dead from then on; GROUP_HARNESS_MAX: none */
	size_t wrong;
};

static void flight_post(struct run *run, struct pace *pace, size_t member)
{
	size_t spec = pace->posted % SPECS;
	struct flight *flight = NULL;
	const uint8_t *send = spec_input(spec, member);

	for (size_t i = 0; i < OPEN; i++)
		if (!pace->flights[i].request)
			flight = &pace->flights[i];
	flight->spec = spec;
	flight->recv = malloc(spec_bytes(&specs[spec]));
	assert_non_null(flight->recv);
	if (specs[spec].in_place) {
		memcpy(flight->recv, send, spec_bytes(&specs[spec]));
		send = flight->recv;
	}
	pace->error = aggregate_reduce_all(run->harness->members[member].group, send, flight->recv, specs[spec].count,
					   specs[spec].type, specs[spec].operation, &flight->request);
	if (pace->error < 0 || !flight->request) {
		flight->request = NULL;
		free(flight->recv);
		return;
	}
	pace->posted++;
	pace->open++;
}

static void flight_look(struct run *run, struct pace *pace, struct flight *flight)
{
	bool done = false;
	int r = aggregate_test(flight->request, &done, NULL);

	if (r < 0)
		pace->error = r;
	if (!done)
		return;
	if (run->expected &&
	    memcmp(flight->recv, run->expected->results[flight->spec], spec_bytes(&specs[flight->spec])) != 0) {
		run->wrong++;
		print_message("operation %zu is wrong: type %d, %zu elements, in place %d\n", pace->done,
			      (int)specs[flight->spec].type, specs[flight->spec].count, specs[flight->spec].in_place);
	}
	free(flight->recv);
	flight->request = NULL;
	pace->open--;
	pace->done++;
}

/* True: it moved. */
static bool pace_step(struct run *run, size_t member, uint64_t *random)
{
	struct pace *pace = &run->paces[member];
	size_t before = pace->posted + pace->done;

	if (pace->error < 0 || random_below(random, 10) < pace->laziness)
		return false;
	if (pace->open < OPEN && pace->posted < run->specs)
		flight_post(run, pace, member);
	for (size_t i = 0; i < OPEN && pace->error == 0; i++)
		if (pace->flights[i].request)
			flight_look(run, pace, &pace->flights[i]);
	return pace->posted + pace->done != before;
}

/* 0, the first error of a member that lives, or -ETIMEDOUT. */
static int run_all(struct run *run, uint64_t *random)
{
	uint64_t deadline_ns = runtime_deadline_ns(STILL_MS);
	int r = 0;

	for (size_t m = 0; m < run->harness->count; m++)
		run->paces[m].laziness = (unsigned)random_below(random, 8);
	for (;;) {
		bool over = true, moved = false;

		for (size_t i = 0; i < run->harness->count; i++) {
			size_t m = (size_t)random_below(random, run->harness->count);

			moved |= m != run->gone && pace_step(run, m, random);
		}
		for (size_t m = 0; m < run->harness->count; m++)
			over &= m == run->gone || run->paces[m].error < 0 || run->paces[m].done == run->specs;
		if (over)
			break;
		if (moved)
			deadline_ns = runtime_deadline_ns(STILL_MS); /* slow is not hung */
		else if (runtime_past(deadline_ns))
			return -ETIMEDOUT;
		else
			usleep(200);
	}
	for (size_t m = 0; m < run->harness->count && r == 0; m++)
		r = m == run->gone ? 0 : run->paces[m].error;
	return r;
}

static void run_end(struct run *run)
{
	for (size_t m = 0; m < run->harness->count; m++)
		for (size_t i = 0; i < OPEN; i++)
			if (run->paces[m].flights[i].request)
				free(run->paces[m].flights[i].recv);
	free(run);
}

static struct run *run_new(struct harness *harness, const struct expected *results)
{
	struct run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->harness = harness;
	run->expected = results;
	run->specs = SPECS;
	run->gone = GROUP_HARNESS_MAX;
	return run;
}

/* --------------------------------------------------------------------------------------------------------- scenes */

struct scene {
	const char *leaves, *aggregator_leaves;
	size_t struck; /* so many of the aggregators use the transport that errs; the first ones */
	bool verify;
	struct harness harness;
	struct cluster_aggregator aggregators[HOSTS_MAX];
	struct host_harness hosts[HOSTS_MAX];
	uint64_t random;
};

static void members_open(struct scene *scene)
{
	struct params params;

	group_harness_params(&params);
	params.aggregate_flat_bytes = DIRECT_BYTES;
	params.aggregate_segment_bytes = 16 << 10; /* and so nothing is split */
	params.verify = scene->verify;
	if (scene->aggregator_leaves)
		snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(&scene->harness, &params, scene->leaves), 0);
	for (size_t i = 0; scene->aggregator_leaves && scene->aggregator_leaves[i]; i++)
		scene->aggregators[i] = (struct cluster_aggregator){ .address = "127.0.0.1",
								     .port = scene->hosts[i].port,
								     .leaf = scene->aggregator_leaves[i] - 'a',
								     .rate_Bps = UINT64_C(1250000000) };
	group_harness_slow_hosts(&scene->harness);
	scene->harness.cluster.aggregators = scene->aggregators;
	scene->harness.cluster.aggregator_count = scene->aggregator_leaves ? strlen(scene->aggregator_leaves) : 0;
}

static void scene_open(struct scene *scene, uint64_t seed)
{
	scene->random = seed;
	for (size_t i = 0; scene->aggregator_leaves && scene->aggregator_leaves[i]; i++)
		host_harness_open_over(&scene->hosts[i], "--drain 60", 60,
				       i < scene->struck ? &blow_ops : &transport_tcp);
	members_open(scene);
}

static size_t aggregators_of(const struct scene *scene)
{
	struct aggregate_facts facts;

	aggregate_facts(scene->harness.members[0].group, &facts);
	return facts.aggregators;
}

static void scene_close(struct scene *scene)
{
	group_harness_close(&scene->harness);
	for (size_t i = 0; scene->aggregator_leaves && scene->aggregator_leaves[i]; i++)
		host_harness_close(&scene->hosts[i]);
}

static const struct expected *expect(const char *leaves)
{
	struct scene scene = { .leaves = leaves };
	struct expected *at = expected;
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

	while (at->leaves && strcmp(at->leaves, leaves))
		at++;
	if (at->leaves)
		return at;
	at->leaves = leaves;
	scene_open(&scene, 1);
	assert_int_equal(group_harness_connect(&scene.harness), 0);
	for (size_t spec = 0; spec < SPECS; spec++) {
		uint8_t *recv[GROUP_HARNESS_MAX];

		for (size_t m = 0; m < scene.harness.count; m++) {
			recv[m] = malloc(spec_bytes(&specs[spec]));
			assert_int_equal(group_harness_reduce(&scene.harness.members[m], spec_input(spec, m), recv[m],
							      specs[spec].count, specs[spec].type,
							      specs[spec].operation, &requests[m]),
					 0);
		}
		assert_int_equal(group_harness_finish(&scene.harness, requests), 0);
		at->results[spec] = recv[0];
		for (size_t m = 1; m < scene.harness.count; m++)
			free(recv[m]);
	}
	scene_close(&scene);
	return at;
}

/* All operations, and all of them again, with the right bits; then none of those that were struck is used. */
static void goes_through(struct scene *scene, const char *what, uint64_t seed)
{
	const struct expected *results = expect(scene->leaves);
	uint64_t began_ns = runtime_now_ns();

	for (unsigned again = 0; again < 2; again++) {
		struct run *run = run_new(&scene->harness, results);
		int r = run_all(run, &scene->random);

		if (r < 0 || run->wrong)
			fail_msg("%s, %s with %s, seed %llu: %s, %zu wrong results", what, scene->leaves,
				 scene->aggregator_leaves, (unsigned long long)seed, strerror(-r), run->wrong);
		run_end(run);
	}
	print_message("%s, %s with %s, seed %llu: %llu ms%s\n", what, scene->leaves, scene->aggregator_leaves,
		      (unsigned long long)seed, (unsigned long long)((runtime_now_ns() - began_ns) / 1000000),
		      blow_has_fallen() ? "" : ", not struck");
}

static const struct {
	const char *leaves, *aggregators;
} layouts[] = { { "aaaa", "a" }, { "abab", "ab" }, { "aab", "aa" }, { "a2abbc", "abc" }, { "aaaaab", "bb" } };
enum { LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };

static unsigned rounds(unsigned few)
{
	return runtime_long() ? ROUNDS_LONG : few;
}

static void strike(enum stroke stroke, size_t layout, size_t struck, bool one_way, bool verify, uint64_t seed)
{
	struct scene scene = { .leaves = layouts[layout].leaves,
			       .aggregator_leaves = layouts[layout].aggregators,
			       .struck = struck,
			       .verify = verify };

	(void)expect(scene.leaves);
	blow_set(STROKE_NONE, false, 0, 0);
	scene_open(&scene, seed);
	assert_int_equal(group_harness_connect(&scene.harness), 0);
	assert_true(aggregators_of(&scene) > 0);
	blow_set(stroke, one_way,
		 1 + (int64_t)random_below(&scene.random, stroke == STROKE_ANY                              ? 400
							  : stroke >= STROKE_PARTIAL && stroke <= STROKE_UP ? 8
													    : 60),
		 (int64_t)random_below(&scene.random, 2) ? 0 : (int64_t)random_below(&scene.random, 60));
	goes_through(&scene, blow_names[stroke], seed);
	scene_close(&scene);
}

static void one_is_lost_at_every_step(void **state)
{
	(void)state;
	for (unsigned round = 0; round < rounds(1); round++)
		for (unsigned stroke = STROKE_HEAD; stroke < STROKE_COUNT; stroke++) {
			uint64_t seed = runtime_seed() + round * 100 + stroke;
			/* Sums go from aggregator to aggregator only where there are several leaves. */
			size_t layout = stroke == STROKE_PARTIAL || stroke == STROKE_RESULT || stroke == STROKE_UP
						? (round & 1 ? 3 : 1)
						: (round + stroke) % LAYOUTS;

			strike(stroke, layout, 1, false, seed & 1, seed);
		}
}

static void expected_forget(void)
{
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		for (size_t spec = 0; spec < SPECS; spec++)
			free(expected[i].results[spec]);
	memset(expected, 0, sizeof(expected));
}

static void the_longest_is_made_again_in_two_rounds(void **state)
{
	const size_t long_one = 3, count = specs[long_one].count;

	(void)state;
	if (!runtime_long()) {
		print_message("skipped: only with TRIBUTARY_TEST_LONG=1\n");
		skip();
	}
	expected_forget();
	specs[long_one].count = LONGEST_BYTES / sizeof(float);
	for (unsigned stroke = STROKE_HEAD; stroke < STROKE_COUNT; stroke++)
		strike(stroke, 1, 1, false, false, runtime_seed() + 4000 + stroke);
	specs[long_one].count = count;
	expected_forget();
}

static void several_are_lost_at_once(void **state)
{
	(void)state;
	for (unsigned round = 0; round < rounds(3); round++) {
		size_t layout = 1 + round % (LAYOUTS - 1);

		strike(STROKE_ANY, layout, strlen(layouts[layout].aggregators), false, round & 1,
		       runtime_seed() + 5000 + round);
	}
}

/* A connection of one of them breaks: with a member, or with another aggregator, and nobody else sees it. */
static void one_connection_breaks(void **state)
{
	static const enum stroke strokes[] = { STROKE_UP, STROKE_DOWN, STROKE_INPUT, STROKE_RESULT, STROKE_PARTIAL };

	(void)state;
	for (unsigned round = 0; round < rounds(3); round++)
		strike(strokes[round % 5], round & 1 ? 1 : 3, 1, true, false, runtime_seed() + 6000 + round);
}

/* One after the other, at any time: also while the group gets over the one before. */
struct reaper {
	struct scene *scene;
	uint64_t random;
	pthread_t thread;
};

static void *reap(void *arg)
{
	struct reaper *reaper = arg;

	for (size_t i = 0; i < strlen(reaper->scene->aggregator_leaves); i++) {
		usleep((useconds_t)random_below(&reaper->random, 20000));
		host_harness_close(
			&reaper->scene->hosts[i]); /* as sudden as the end of a process: nothing is drained */
	}
	return NULL;
}

/* With the last aggregator goes what there is to lose: nothing is agreed on any more, and no input is kept for it. */
static bool all_keep_inputs(const struct harness *harness, bool kept)
{
	for (size_t m = 0; m < harness->count; m++)
		if (atomic_load(&((const struct group *)(const void *)harness->members[m].group)->retains) != kept)
			return false;
	return true;
}

static void one_after_the_other_is_lost(void **state)
{
	(void)state;
	for (unsigned round = 0; round < rounds(3); round++) {
		uint64_t seed = runtime_seed() + 7000 + round;
		struct scene scene = { .leaves = "aabb", .aggregator_leaves = round & 1 ? "aab" : "abb" };
		struct reaper reaper = { .scene = &scene };
		const struct expected *results = expect(scene.leaves);
		struct run *run;
		int r = 0;

		scene_open(&scene, seed);
		assert_int_equal(group_harness_connect(&scene.harness), 0);
		assert_int_equal(aggregators_of(&scene), 3);
		assert_true(all_keep_inputs(&scene.harness, true));
		reaper.random = seed;
		run = run_new(&scene.harness, results);
		assert_int_equal(pthread_create(&reaper.thread, NULL, reap, &reaper), 0);
		for (unsigned i = 0; i < 4 && r == 0; i++) {
			run->specs = (i + 1) * SPECS;
			r = run_all(run, &scene.random);
		}
		pthread_join(reaper.thread, NULL);
		/* An agreement reaches as many operations ahead as may be open. */
		for (unsigned i = 4; i < 6 && r == 0; i++) {
			run->specs = (i + 1) * SPECS;
			r = run_all(run, &scene.random);
		}
		if (r < 0 || run->wrong)
			fail_msg("seed %llu: %s, %zu wrong results", (unsigned long long)seed, strerror(-r),
				 run->wrong);
		assert_true(all_keep_inputs(&scene.harness, false));
		run_end(run);
		group_harness_close(&scene.harness);
	}
}

/* ---- one that is told to end ---- */

/* It ends in good time, by itself, while the group works; nothing is lost with it. The other one stays. */
static void one_that_is_told_to_end_is_done_without(void **state)
{
	struct scene scene = { .leaves = "abab", .aggregator_leaves = "ab" };
	const struct expected *results = expect(scene.leaves);
	uint64_t deadline_ns = runtime_deadline_ns(60000), segments;
	struct control_answer *answer = calloc(1, sizeof(*answer));
	struct run *run;

	(void)state;
	assert_non_null(answer);
	scene_open(&scene, runtime_seed());
	assert_int_equal(group_harness_connect(&scene.harness), 0);
	assert_int_equal(aggregators_of(&scene), 2);
	log_lines_start("goes on without aggregator");
	run = run_new(&scene.harness, results);
	run->specs = 10;
	assert_int_equal(run_all(run, &scene.random), 0);
	host_harness_tell_to_end(&scene.hosts[0]);
	while (!host_harness_has_ended(&scene.hosts[0]) && !runtime_past(deadline_ns)) {
		run->specs += 10;
		assert_int_equal(run_all(run, &scene.random), 0);
	}
	log_set_sink(NULL);
	assert_true(host_harness_has_ended(&scene.hosts[0]));
	host_harness_state(&scene.hosts[1], answer);
	segments = answer->state.segments;
	run->specs += SPECS;
	assert_int_equal(run_all(run, &scene.random), 0);
	host_harness_state(&scene.hosts[1], answer);
	assert_int_equal(run->wrong, 0);
	assert_int_equal(log_lines()->found, 0);
	assert_true(answer->state.segments > segments);
	run_end(run);
	scene_close(&scene);
	free(answer);
}

/*
 * At the end of a job members close the group one after the other, and with the first of them aggregators end it: that is
 * no loss, and nobody warns of it. Either way round, as only the coordinator hears of it while it has nothing to do.
 */
static void nothing_is_lost_at_the_end_of_a_group(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		struct scene scene = { .leaves = "aab", .aggregator_leaves = "ab" };
		const struct expected *results = expect(scene.leaves);
		struct run *run;

		scene_open(&scene, runtime_seed());
		assert_int_equal(group_harness_connect(&scene.harness), 0);
		assert_int_equal(aggregators_of(&scene), 2);
		log_lines_start("goes on without aggregator");
		run = run_new(&scene.harness, results);
		assert_int_equal(run_all(run, &scene.random), 0);
		for (size_t i = 0; i < 3; i++) {
			struct group_harness_member *member = &scene.harness.members[round ? 2 - i : i];

			aggregate_close_group(member->group);
			member->group = NULL;
			usleep(1100000); /* twice the time after which the coordinator looks */
		}
		log_set_sink(NULL);
		assert_int_equal(log_lines()->found, 0);
		run_end(run);
		scene_close(&scene);
	}
}

static void while_a_group_comes_together(void **state)
{
	(void)state;
	for (unsigned round = 0; round < rounds(3); round++) {
		uint64_t seed = runtime_seed() + 8000 + round;
		struct scene scene = { .leaves = "abab", .aggregator_leaves = "ab", .struck = 1 };

		(void)expect(scene.leaves);
		scene.random = seed;
		blow_set(STROKE_ANY, false, 1, (int64_t)random_below(&scene.random, 12));
		scene_open(&scene, seed);
		assert_int_equal(group_harness_connect(&scene.harness), 0);
		print_message("%zu aggregators of 2; ", aggregators_of(&scene));
		goes_through(&scene, "coming together", seed);
		scene_close(&scene);
	}
}

static void with_a_member_it_is_an_error_everywhere(void **state)
{
	(void)state;
	for (unsigned round = 0; round < rounds(2); round++) {
		uint64_t seed = runtime_seed() + 9000 + round;
		struct scene scene = { .leaves = "aabb", .aggregator_leaves = "ab", .struck = 2 };
		const struct expected *results = expect(scene.leaves);
		struct run *run;
		int r;

		blow_set(STROKE_NONE, false, 0, 0);
		scene_open(&scene, seed);
		assert_int_equal(group_harness_connect(&scene.harness), 0);
		run = run_new(&scene.harness, results);
		run->specs = 1 + random_below(&scene.random, 20);
		assert_int_equal(run_all(run, &scene.random), 0);
		blow_set(STROKE_ANY, false, 1 + (int64_t)random_below(&scene.random, 20), 0);
		run->gone = random_below(&scene.random, 4);
		aggregate_close_group(scene.harness.members[run->gone].group);
		scene.harness.members[run->gone].group = NULL;
		run->specs = 2 * SPECS;
		r = run_all(run, &scene.random);
		for (size_t m = 0; m < 4; m++)
			assert_int_equal(m == run->gone ? -EREMOTEIO : run->paces[m].error, -EREMOTEIO);
		assert_int_equal(r, -EREMOTEIO);
		assert_int_equal(run->wrong, 0);
		run_end(run);
		scene_close(&scene);
	}
}

/* ----------------------------------------------------------------------------------------------------------- the host */

static uint8_t *pool_make(enum reduce_type type, uint64_t *random)
{
	enum { PERIOD = 61 * 4096 };
	uint8_t *pool = malloc(pool_bytes());

	if (!pool)
		return NULL;
	element_fill(type, true, pool, PERIOD / reduce_type_bytes(type), random);
	for (size_t at = PERIOD; at < pool_bytes(); at += PERIOD)
		memcpy(pool + at, pool, pool_bytes() - at < PERIOD ? pool_bytes() - at : PERIOD);
	return pool;
}

static int host_harness_set_up(void **state)
{
	uint64_t random = runtime_seed();

	if (host_harness_secret_make(state) < 0)
		return -1;
	for (size_t i = 0; i < 3; i++)
		pools[spec_types[i]] = pool_make(spec_types[i], &random);
	pools[REDUCE_INT8] = pool_make(REDUCE_INT8, &random);
	specs_make(&random);
	blow_start();
	return 0;
}

static int host_harness_clear_up(void **state)
{
	for (size_t i = 0; i < REDUCE_TYPE_COUNT; i++)
		free(pools[i]);
	expected_forget();
	return host_harness_secret_remove(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_is_lost_at_every_step),
		cmocka_unit_test(the_longest_is_made_again_in_two_rounds),
		cmocka_unit_test(several_are_lost_at_once),
		cmocka_unit_test(one_connection_breaks),
		cmocka_unit_test(one_after_the_other_is_lost),
		cmocka_unit_test(one_that_is_told_to_end_is_done_without),
		cmocka_unit_test(nothing_is_lost_at_the_end_of_a_group),
		cmocka_unit_test(while_a_group_comes_together),
		cmocka_unit_test(with_a_member_it_is_an_error_everywhere),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	if (runtime_long())
		runtime_watchdog(3600);
	return parallel_run_group_tests(tests, host_harness_set_up, host_harness_clear_up);
}
