/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups that measure their aggregators when they come together: one that is slower than it is said to be gets less work, or
 * none; one that is lost meanwhile is done without; a member that is lost meanwhile is an error at every other, with the
 * same reason. Sums are the same bits in all cases.
 */
#include "aggregate/aggregator_wire.h"
#include "base/clock.h"
#include "blow.h"
#include "host_harness.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/parallel.h"

enum { HOSTS = 2, COUNT = 150000, OPERATIONS = 4, ROUNDS = 3, ROUNDS_LONG = 40, ATTEMPTS = 5 };

/* ---------------------------------------------------------------------------------- a service with a narrow port */

/* Far below what hosts are said to do (GROUP_HARNESS_SLOW_HOST_BPS), and what they do here under any sanitizer and load. */
#define NARROW_BPS 1000000.0

static struct transport_ops narrow_ops;
static _Atomic uint64_t narrow_free_ns; /* the port is busy until then */

/* Large messages are asked for one after the other, each after the time of the one before. */
static int narrow_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			  const int *tags, void *const *registrations, struct transport_request **ret)
{
	uint64_t now_ns = clock_now_ns(), free_ns = atomic_load(&narrow_free_ns);

	*ret = NULL;
	if (bytes[0] > AGGREGATOR_WIRE_HEAD_BYTES) {
		if (now_ns < free_ns)
			return 0;
		atomic_store(&narrow_free_ns, now_ns + (uint64_t)((double)bytes[0] / NARROW_BPS * 1e9));
	}
	return transport_tcp.receive(connection, count, data, bytes, tags, registrations, ret);
}

static int narrow_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	int r = transport_tcp.progress(connection, ret_next);

	if (*ret_next == TRANSPORT_NEXT_EVENT)
		*ret_next = TRANSPORT_NEXT_SOON;
	return r;
}

/* ----------------------------------------------- a service that has to ask what its receives wait for (transport.h) */

static struct transport_ops told_ops;
static _Thread_local struct transport_connection *told_posted; /* on which a receive was posted, and nobody has asked */
static _Atomic unsigned told_posts, told_late;

static void told_elsewhere(const struct transport_connection *connection)
{
	if (told_posted && told_posted != connection)
		atomic_fetch_add(&told_late, 1);
}

static int told_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			const int *tags, void *const *registrations, struct transport_request **ret)
{
	int r = transport_tcp.receive(connection, count, data, bytes, tags, registrations, ret);

	if (r < 0 || !*ret || bytes[0] <= AGGREGATOR_WIRE_HEAD_BYTES) /* these come unasked */
		return r;
	told_elsewhere(connection);
	told_posted = connection;
	atomic_fetch_add(&told_posts, 1);
	return r;
}

static int told_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	told_elsewhere(connection);
	told_posted = NULL;
	return transport_tcp.progress(connection, ret_next);
}

/* -------------------------------------------------------------------------------------------- a member that falls */

static struct transport_ops fall_ops;
static _Atomic int64_t fall_left;

static bool fallen(void)
{
	return atomic_load(&fall_left) <= 0;
}

static int fall_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		     struct transport_request **ret)
{
	*ret = NULL;
	/* Nothing is as long before aggregators are tried. */
	if (bytes >= 16384)
		atomic_fetch_sub(&fall_left, 1);
	return fallen() ? -EREMOTEIO : transport_tcp.send(connection, data, bytes, tag, registration, ret);
}

static int fall_progress(struct transport_connection *connection, enum transport_next *ret_next)
{
	return fallen() ? -EREMOTEIO : transport_tcp.progress(connection, ret_next);
}

/* --------------------------------------------------------------------------------------------------------- scenes */

struct scene {
	size_t hosts;
	struct host_harness host[HOSTS];
	struct cluster_aggregator aggregators[HOSTS];
	struct harness harness;
};

static void scene_gather(struct scene *scene, const char *leaves, size_t hosts, const struct transport_ops *ops,
			 bool measures)
{
	struct params params;

	scene->hosts = hosts;
	for (size_t i = 0; i < hosts; i++) {
		host_harness_open_over(&scene->host[i], "", 60, i ? &transport_tcp : ops);
		scene->aggregators[i] = (struct cluster_aggregator){ .address = "127.0.0.1",
								     .port = scene->host[i].port,
								     .rate_Bps = UINT64_C(1220000000) };
	}
	group_harness_params(&params);
	params.aggregate_measure = measures;
	snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(&scene->harness, &params, leaves), 0);
	group_harness_slow_hosts(&scene->harness);
	scene->harness.cluster.aggregators = scene->aggregators;
	scene->harness.cluster.aggregator_count = hosts;
}

static void scene_close(struct scene *scene)
{
	group_harness_close(&scene->harness);
	for (size_t i = 0; i < scene->hosts; i++)
		host_harness_close(&scene->host[i]);
}

static void connect_all(struct scene *scene)
{
	int r = group_harness_connect(&scene->harness);

	for (size_t m = 0; m < scene->harness.count && r < 0; m++)
		print_message("member %zu: %s\n", m, scene->harness.members[m].reason);
	assert_int_equal(r, 0);
}

/* The same at all members. */
static struct aggregate_facts facts_of(const struct scene *scene)
{
	struct aggregate_facts facts, other;

	aggregate_facts(scene->harness.members[0].group, &facts);
	for (size_t m = 1; m < scene->harness.count; m++) {
		aggregate_facts(scene->harness.members[m].group, &other);
		assert_int_equal(other.aggregators, facts.aggregators);
		assert_true(other.host_share == facts.host_share && other.uplink_share == facts.uplink_share);
	}
	return facts;
}

/* Large operations, in place and not, and nothing of the measuring is counted as theirs. */
static void reduce_all(struct scene *scene)
{
	size_t members = scene->harness.count;
	float *send[GROUP_HARNESS_MAX], *recv[GROUP_HARNESS_MAX], *want = calloc(COUNT, sizeof(*want));
	struct aggregate_counters counters;

	assert_non_null(want);
	for (size_t m = 0; m < members; m++) {
		aggregate_counters(scene->harness.members[m].group, &counters);
		assert_int_equal(counters.operations, 0);
		assert_int_equal(counters.bytes_sent, 0);
		send[m] = malloc(COUNT * sizeof(float));
		recv[m] = malloc(COUNT * sizeof(float));
		assert_true(send[m] && recv[m]);
		for (size_t i = 0; i < COUNT; i++) {
			send[m][i] = (float)((i * (m + 3)) % 97);
			want[i] += send[m][i];
		}
	}
	for (unsigned k = 0; k < OPERATIONS; k++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

		for (size_t m = 0; m < members; m++) {
			memcpy(recv[m], send[m], COUNT * sizeof(float));
			assert_int_equal(group_harness_reduce(&scene->harness.members[m], k % 2 ? recv[m] : send[m],
							      recv[m], COUNT, REDUCE_FLOAT32, REDUCE_SUM, &requests[m]),
					 0);
		}
		assert_int_equal(group_harness_finish(&scene->harness, requests), 0);
		for (size_t m = 0; m < members; m++)
			assert_memory_equal(recv[m], want, COUNT * sizeof(float));
	}
	for (size_t m = 0; m < members; m++) {
		aggregate_counters(scene->harness.members[m].group, &counters);
		assert_int_equal(counters.operations, OPERATIONS);
		free(send[m]);
		free(recv[m]);
	}
	free(want);
}

static void until_it_has_no_group(const struct host_harness *host)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	static struct control_answer answer;

	do {
		assert_false(runtime_past(deadline_ns));
		runtime_nap();
		host_harness_state(host, &answer);
	} while (answer.state.group_count);
}

/* ---------------------------------------------------------------------------------------------------------- tests */

static void an_aggregator_that_is_slower_than_said_is_left_out(void **state)
{
	struct scene scene = { 0 };

	(void)state;
	scene_gather(&scene, "aaaa", 1, &narrow_ops, true);
	connect_all(&scene);
	assert_int_equal(facts_of(&scene).aggregators, 0);
	/* Its place there is free again, while the group lives. */
	until_it_has_no_group(&scene.host[0]);
	reduce_all(&scene);
	scene_close(&scene);
}

static void nobody_measures_if_one_member_does_not_want_it(void **state)
{
	struct scene scene = { 0 };

	(void)state;
	scene_gather(&scene, "aaaa", 1, &narrow_ops, true);
	scene.harness.members[2].params.aggregate_measure = false;
	connect_all(&scene);
	assert_int_equal(facts_of(&scene).aggregators, 1);
	scene_close(&scene);
}

/* The hosts' share where nobody measures, and where it is measured. */
static double host_share(bool measures)
{
	struct scene scene = { 0 };
	double share;

	scene_gather(&scene, "aaab", 1, &narrow_ops, measures);
	connect_all(&scene);
	share = facts_of(&scene).host_share;
	if (!facts_of(&scene).aggregators)
		until_it_has_no_group(&scene.host[0]);
	reduce_all(&scene);
	scene_close(&scene);
	return share;
}

/* Where members are in several leaves too: hosts have more of the work, or all of it. */
static void a_slow_aggregator_gets_less(void **state)
{
	double said = host_share(false), measured = said;
	uint64_t began_ns, stalled_ns;

	(void)state;
	for (unsigned i = 0; i < ATTEMPTS && measured <= said; i++) {
		began_ns = runtime_now_ns();
		stalled_ns = runtime_stalled_ns();
		measured = host_share(true);
		/* Where the machine stood still, hosts may have been as slow as the aggregator. */
		if (measured <= said && runtime_stalled_ns() - stalled_ns < (runtime_now_ns() - began_ns) / 20)
			break;
	}
	assert_true(measured > said);
}

/* What it does here is this machine's matter; the group is right in any case. */
static void a_group_that_has_measured_is_a_group_as_any(void **state)
{
	static const char *const leaves[] = { "aaaa", "aabb", "a2aa" };
	struct scene scene;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		memset(&scene, 0, sizeof(scene));
		scene_gather(&scene, leaves[i], 1 + i % HOSTS, &transport_tcp, true);
		connect_all(&scene);
		facts_of(&scene);
		reduce_all(&scene);
		scene_close(&scene);
	}
}

/* One that did not would wait for the next beat of a connection, half a second, if all members wait for grants. */
static void an_aggregator_asks_what_its_receives_wait_for(void **state)
{
	static const char *const leaves[] = { "aaaa", "aabb" };
	struct scene scene;

	(void)state;
	atomic_store(&told_posts, 0);
	atomic_store(&told_late, 0);
	for (unsigned i = 0; i < 2; i++) {
		memset(&scene, 0, sizeof(scene));
		scene_gather(&scene, leaves[i], 1, &told_ops, i > 0);
		connect_all(&scene);
		reduce_all(&scene);
		scene_close(&scene);
	}
	assert_true(atomic_load(&told_posts) > 0);
	assert_int_equal(atomic_load(&told_late), 0);
}

static void an_aggregator_that_is_lost_while_it_is_measured_is_done_without(void **state)
{
	static const char *const leaves[] = { "aaaa", "aab", "a2aa" };
	unsigned rounds = runtime_long() ? ROUNDS_LONG : ROUNDS, struck = 0;
	uint64_t random = runtime_seed();
	struct scene scene;

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		enum stroke stroke = round % 2 ? STROKE_DOWN : STROKE_INPUT;

		memset(&scene, 0, sizeof(scene));
		blow_set(STROKE_NONE, false, 0, 0);
		scene_gather(&scene, leaves[round % 3], 1 + random_below(&random, HOSTS), &blow_ops, true);
		blow_set(stroke, random_below(&random, 3) == 0, 1 + (int64_t)random_below(&random, 12), 0);
		connect_all(&scene);
		struck += blow_has_fallen();
		facts_of(&scene);
		reduce_all(&scene);
		scene_close(&scene);
	}
	print_message("%u of %u aggregators were struck\n", struck, rounds);
	assert_true(struck > 0);
}

static void a_member_that_is_lost_meanwhile_fails_all_with_one_reason(void **state)
{
	unsigned rounds = runtime_long() ? ROUNDS_LONG : ROUNDS;
	uint64_t random = runtime_seed() + 1;
	struct scene scene;

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		struct group_harness_member *victim;
		struct aggregate_setup setup;

		memset(&scene, 0, sizeof(scene));
		scene_gather(&scene, round % 2 ? "aaaa" : "aab", 1, &transport_tcp, true);
		victim = &scene.harness.members[random_below(&random, scene.harness.count)];
		aggregate_close_listener(victim->listener);
		aggregate_close(victim->engine);
		setup = group_harness_setup(&scene.harness, (size_t)(victim - scene.harness.members));
		setup.ops = &fall_ops;
		/* Fewer than any member sends in a round with members alone and one with the aggregator. */
		atomic_store(&fall_left, 1 + (int64_t)random_below(&random, 12));
		assert_int_equal(aggregate_open(&setup, &victim->engine), 0);
		assert_int_equal(aggregate_listen(victim->engine, 0, victim->handle, &victim->listener), 0);
		assert_int_equal(group_harness_connect(&scene.harness), -EREMOTEIO);
		for (size_t m = 0; m < scene.harness.count; m++) {
			assert_int_equal(scene.harness.members[m].error, -EREMOTEIO);
			assert_null(scene.harness.members[m].group);
			assert_string_equal(scene.harness.members[m].reason, scene.harness.members[0].reason);
		}
		assert_non_null(strstr(scene.harness.members[0].reason, "measured"));
		scene_close(&scene);
	}
}

static int begin(void **state)
{
	runtime_watch_stalls();
	blow_start();
	narrow_ops = fall_ops = told_ops = transport_tcp;
	narrow_ops.receive = narrow_receive;
	narrow_ops.progress = narrow_progress;
	told_ops.receive = told_receive;
	told_ops.progress = told_progress;
	fall_ops.send = fall_send;
	fall_ops.progress = fall_progress;
	return host_harness_secret_make(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_aggregator_that_is_slower_than_said_is_left_out),
		cmocka_unit_test(nobody_measures_if_one_member_does_not_want_it),
		cmocka_unit_test(a_slow_aggregator_gets_less),
		cmocka_unit_test(a_group_that_has_measured_is_a_group_as_any),
		cmocka_unit_test(an_aggregator_asks_what_its_receives_wait_for),
		cmocka_unit_test(an_aggregator_that_is_lost_while_it_is_measured_is_done_without),
		cmocka_unit_test(a_member_that_is_lost_meanwhile_fails_all_with_one_reason),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	if (runtime_long())
		runtime_watchdog(3600);
	return parallel_run_group_tests(tests, begin, host_harness_secret_remove);
}
