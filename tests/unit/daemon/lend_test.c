/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups whose members use aggregators: the same bits as without them, whatever the leaves, types and sizes; one that is
 * not there, refuses or has another secret is gone without; and several jobs share one.
 */
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

#include "support/parallel.h"

enum { HOSTS_MAX = 3, JOBS = 3 };

static struct control_answer answer;

struct lend {
	struct harness harness;
	struct cluster_aggregator aggregators[HOSTS_MAX];
};

/* aggregator_leaves: "ab": one on leaf a, one on leaf b; NULL: the job has no secret and uses none. */
static void lend_open(struct lend *lend, const char *leaves, struct host_harness *hosts, const char *aggregator_leaves)
{
	struct params params;

	group_harness_params(&params);
	/* A fifth of it is for the aggregators, on a busy machine too. */
	params.timeout_ns = (runtime_sanitized() ? 60 : 30) * UINT64_C(1000000000);
	if (aggregator_leaves)
		snprintf(params.secret, sizeof(params.secret), "%s", host_harness_secret_path);
	assert_int_equal(group_harness_gather(&lend->harness, &params, leaves), 0);
	for (size_t i = 0; aggregator_leaves && aggregator_leaves[i]; i++)
		lend->aggregators[i] = (struct cluster_aggregator){ .address = "127.0.0.1",
								    .port = hosts[i].port,
								    .leaf = aggregator_leaves[i] - 'a',
								    .rate_Bps = UINT64_C(1250000000) };
	group_harness_slow_hosts(&lend->harness);
	lend->harness.cluster.aggregators = lend->aggregators;
	lend->harness.cluster.aggregator_count = aggregator_leaves ? strlen(aggregator_leaves) : 0;
	assert_int_equal(group_harness_connect(&lend->harness), 0);
}

static size_t aggregators_of(const struct lend *lend)
{
	struct aggregate_facts facts;

	aggregate_facts(lend->harness.members[0].group, &facts);
	for (size_t i = 1; i < lend->harness.count; i++) {
		struct aggregate_facts others;

		aggregate_facts(lend->harness.members[i].group, &others);
		assert_int_equal(facts.aggregators, others.aggregators);
	}
	return facts.aggregators;
}

static void reduce_everywhere(struct harness *harness, void *const *send, void *const *recv, size_t count,
			      enum reduce_type type, enum reduce_operation operation)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], send[m], recv[m], count, type, operation,
						      &requests[m]),
				 0);
	assert_int_equal(group_harness_finish(harness, requests), 0);
}

static void compare(struct harness *with, struct harness *without, enum reduce_type type,
		    enum reduce_operation operation, size_t count, uint64_t *random)
{
	size_t bytes = count * reduce_type_bytes(type);
	void *send[GROUP_HARNESS_MAX], *one[GROUP_HARNESS_MAX], *other[GROUP_HARNESS_MAX];

	for (size_t m = 0; m < with->count; m++) {
		send[m] = malloc(bytes);
		one[m] = malloc(bytes);
		other[m] = malloc(bytes);
		assert_true(send[m] && one[m] && other[m]);
		element_fill(type, false, send[m], count, random);
	}
	reduce_everywhere(with, send, one, count, type, operation);
	reduce_everywhere(without, send, other, count, type, operation);
	for (size_t m = 0; m < with->count; m++) {
		assert_memory_equal(one[m], other[0], bytes);
		memcpy(one[m], send[m], bytes);
	}
	reduce_everywhere(with, one, one, count, type, operation); /* in place */
	for (size_t m = 0; m < with->count; m++)
		assert_memory_equal(one[m], other[0], bytes);
	for (size_t m = 0; m < with->count; m++) {
		free(send[m]);
		free(one[m]);
		free(other[m]);
	}
}

static void same_bits(const char *leaves, const char *aggregator_leaves)
{
	struct host_harness hosts[HOSTS_MAX];
	size_t host_harness_count = strlen(aggregator_leaves);
	struct lend with, without;
	uint64_t random = runtime_seed();

	for (size_t i = 0; i < host_harness_count; i++)
		host_harness_open(&hosts[i], "--threads 2", 60);
	lend_open(&with, leaves, hosts, aggregator_leaves);
	lend_open(&without, leaves, hosts, NULL);
	assert_int_equal(aggregators_of(&with), host_harness_count);
	assert_int_equal(aggregators_of(&without), 0);
	for (unsigned type = 0; type < REDUCE_TYPE_COUNT; type++) {
		enum reduce_operation operation = (enum reduce_operation)(type % REDUCE_OPERATION_COUNT);

		compare(&with.harness, &without.harness, (enum reduce_type)type, operation,
			1 + random_below(&random, 1000), &random);
		compare(&with.harness, &without.harness, (enum reduce_type)type, REDUCE_SUM,
			300000 + random_below(&random, 100000), &random);
	}
	for (size_t i = 0; i < host_harness_count; i++) {
		host_harness_state(&hosts[i], &answer);
		assert_int_equal(answer.state.group_count, 1);
		assert_true(answer.groups[0].ready);
		print_message("%s, %s: aggregator %zu had %llu segments, %llu bytes in, %llu out\n", leaves,
			      aggregator_leaves, i, (unsigned long long)answer.state.segments,
			      (unsigned long long)answer.state.bytes_in, (unsigned long long)answer.state.bytes_out);
		assert_true(answer.state.segments > 10);
	}
	group_harness_close(&with.harness);
	group_harness_close(&without.harness);
	for (size_t i = 0; i < host_harness_count; i++)
		host_harness_close(&hosts[i]);
}

static void one_leaf_with_an_aggregator(void **state)
{
	(void)state;
	same_bits("aaaa", "a");
}

static void one_leaf_with_two(void **state)
{
	(void)state;
	same_bits("aaaaa", "aa");
}

static void two_leaves_with_one(void **state)
{
	(void)state;
	same_bits("aabb", "a");
}

static void two_leaves_with_one_each(void **state)
{
	(void)state;
	same_bits("abab", "ab");
}

static void uneven_leaves_and_hosts_with_three(void **state)
{
	(void)state;
	same_bits("a2abba", "abb");
}

/* ---- those that cannot be had ---- */

static void reduces(struct lend *lend)
{
	size_t count = 200000;
	float *send[GROUP_HARNESS_MAX], *recv[GROUP_HARNESS_MAX];

	for (size_t m = 0; m < lend->harness.count; m++) {
		send[m] = malloc(count * sizeof(float));
		recv[m] = malloc(count * sizeof(float));
		for (size_t i = 0; i < count; i++)
			send[m][i] = (float)(m + i % 1000);
	}
	reduce_everywhere(&lend->harness, (void **)send, (void **)recv, count, REDUCE_FLOAT32, REDUCE_SUM);
	for (size_t m = 0; m < lend->harness.count; m++) {
		size_t n = lend->harness.count;

		for (size_t i = 0; i < count; i++)
			assert_true(recv[m][i] == (float)(n * (n - 1) / 2 + n * (i % 1000)));
		free(send[m]);
		free(recv[m]);
	}
}

static void one_that_is_not_there_is_gone_without(void **state)
{
	struct host_harness hosts[2];
	struct lend lend;

	(void)state;
	host_harness_open(&hosts[0], "", 60);
	hosts[1].port = 1; /* nobody listens */
	lend_open(&lend, "aaa", hosts, "aa");
	assert_int_equal(aggregators_of(&lend), 1);
	reduces(&lend);
	group_harness_close(&lend.harness);
	host_harness_close(&hosts[0]);
}

static void one_that_is_full_is_gone_without(void **state)
{
	struct lend first, second;
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "--groups-max 1", 60);
	lend_open(&first, "aaa", &host, "a");
	lend_open(&second, "aaa", &host, "a");
	assert_int_equal(aggregators_of(&first), 1);
	assert_int_equal(aggregators_of(&second), 0);
	reduces(&first);
	reduces(&second);
	group_harness_close(&first.harness);
	group_harness_close(&second.harness);
	host_harness_close(&host);
}

static void one_with_another_secret_is_gone_without(void **state)
{
	struct host_harness host;
	struct lend lend;

	(void)state;
	host_harness_open(&host, "", 60);
	host.secret.bytes[3] ^= 1;
	lend_open(&lend, "aaa", &host, "a");
	assert_int_equal(aggregators_of(&lend), 0);
	reduces(&lend);
	group_harness_close(&lend.harness);
	host_harness_close(&host);
}

/* ---- several jobs ---- */

struct job {
	struct lend lend;
	pthread_t thread;
	size_t bytes;
	_Atomic bool *stop;
	_Atomic bool dies; /* its last member, in mid-run */
	_Atomic unsigned rounds;
	int result;
};

static void member_close(struct group_harness_member *member)
{
	aggregate_close_group(member->group);
	member->group = NULL;
}

/* Eight operations in flight, as NCCL has them. */
static void *job_run(void *arg)
{
	enum { FLIGHT = 8 };
	struct job *job = arg;
	struct harness *harness = &job->lend.harness;
	struct aggregate_request *requests[FLIGHT][GROUP_HARNESS_MAX];
	size_t count = job->bytes / sizeof(float);
	float *send = calloc(count, sizeof(float)), *recv[FLIGHT][GROUP_HARNESS_MAX];

	for (unsigned f = 0; f < FLIGHT; f++)
		for (size_t m = 0; m < harness->count; m++) {
			recv[f][m] = malloc(job->bytes);
			requests[f][m] = NULL;
		}
	while (!atomic_load(job->stop) && job->result == 0) {
		for (unsigned f = 0; f < FLIGHT; f++)
			for (size_t m = 0; m < harness->count && job->result == 0; m++)
				if (harness->members[m].group)
					job->result = group_harness_reduce(&harness->members[m], send, recv[f][m],
									   count, REDUCE_FLOAT32, REDUCE_SUM,
									   &requests[f][m]);
		if (atomic_load(&job->dies)) {
			member_close(&harness->members[harness->count - 1]);
			for (unsigned f = 0; f < FLIGHT; f++)
				requests[f][harness->count - 1] = NULL;
		}
		for (unsigned f = 0; f < FLIGHT && job->result == 0; f++)
			job->result = group_harness_finish(harness, requests[f]);
		atomic_fetch_add(&job->rounds, 1);
	}
	/* One member's error comes before another's: only then is nothing in use any more. */
	for (size_t m = 0; job->result < 0 && m < harness->count; m++)
		member_close(&harness->members[m]);
	for (unsigned f = 0; f < FLIGHT; f++)
		for (size_t m = 0; m < harness->count; m++)
			free(recv[f][m]);
	free(send);
	return NULL;
}

/* Until it has gone on so many times. */
static void await_rounds(struct job *job, unsigned more)
{
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	unsigned before = atomic_load(&job->rounds);

	while (atomic_load(&job->rounds) < before + more) {
		assert_false(runtime_past(deadline_ns));
		usleep(1000);
	}
}

static void jobs_share_one(void **state)
{
	static struct job jobs[JOBS];
	_Atomic bool stop = false;
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "--threads 2", 60);
	for (size_t i = 0; i < JOBS; i++) {
		memset(&jobs[i], 0, sizeof(jobs[i]));
		lend_open(&jobs[i].lend, "aaa", &host, "a");
		assert_int_equal(aggregators_of(&jobs[i].lend), 1);
		jobs[i].bytes = i ? 200 << 10 : 2000 << 10;
		jobs[i].stop = &stop;
		assert_int_equal(pthread_create(&jobs[i].thread, NULL, job_run, &jobs[i]), 0);
	}
	for (size_t i = 0; i < JOBS; i++)
		await_rounds(&jobs[i], 5);
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.group_count, JOBS);
	atomic_store(&stop, true);
	for (size_t i = 0; i < JOBS; i++) {
		pthread_join(jobs[i].thread, NULL);
		assert_int_equal(jobs[i].result, 0);
		assert_true(jobs[i].rounds > 0);
		print_message("job %zu: %llu bytes in\n", i, (unsigned long long)answer.groups[i].bytes_in);
		group_harness_close(&jobs[i].lend.harness);
	}
	host_harness_close(&host);
}

/* One job's member dies in mid-run: its job ends everywhere, the others never notice. */
static void a_dead_member_of_one_job_stalls_no_other(void **state)
{
	static struct job jobs[2];
	_Atomic bool stop = false, stop_first = false;
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "", 60);
	for (size_t i = 0; i < 2; i++) {
		memset(&jobs[i], 0, sizeof(jobs[i]));
		lend_open(&jobs[i].lend, "aaa", &host, "a");
		jobs[i].bytes = 500 << 10;
		jobs[i].stop = i ? &stop : &stop_first;
		assert_int_equal(pthread_create(&jobs[i].thread, NULL, job_run, &jobs[i]), 0);
	}
	for (size_t i = 0; i < 2; i++)
		await_rounds(&jobs[i], 1);
	atomic_store(&jobs[0].dies, true);
	pthread_join(jobs[0].thread, NULL);
	assert_true(jobs[0].result < 0);
	await_rounds(&jobs[1], 3);
	atomic_store(&stop, true);
	pthread_join(jobs[1].thread, NULL);
	assert_int_equal(jobs[1].result, 0);
	group_harness_close(&jobs[0].lend.harness);
	group_harness_close(&jobs[1].lend.harness);
	host_harness_close(&host);
}

static struct transport_ops hearing;
static _Atomic unsigned heard[16], limits, other_limits;

static void hear(struct transport_connection *connection, enum transport_setting setting, uint64_t value)
{
	if (setting == TRANSPORT_SET_SPREAD)
		atomic_fetch_add(&heard[value < 15 ? value : 15], 1);
	if (setting == TRANSPORT_SET_RATE_LIMIT)
		atomic_fetch_add(value == GROUP_HARNESS_SLOW_HOST_BPS ? &limits : &other_limits, 1);
	transport_tcp.set(connection, setting, value);
}

/* Of the three members and each other, whatever their rates are. */
static void aggregators_hear(size_t count, unsigned hosts)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);
	unsigned connections = (unsigned)(count * (3 + count - 1));
	struct host_harness aggregators[2];
	struct lend lend;

	for (size_t i = 0; i < 16; i++)
		atomic_store(&heard[i], 0);
	atomic_store(&limits, 0);
	for (size_t i = 0; i < count; i++)
		host_harness_open_over(&aggregators[i], "", 60, &hearing);
	lend_open(&lend, "aaa", aggregators, count == 1 ? "a" : "aa");
	assert_int_equal(aggregators_of(&lend), count);
	while (atomic_load(&heard[hosts]) < connections && !runtime_past(deadline_ns))
		runtime_nap();
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(atomic_load(&heard[i]), i == hosts ? connections : 0);
	while (atomic_load(&limits) < 3 * count && !runtime_past(deadline_ns))
		runtime_nap();
	assert_int_equal(atomic_load(&limits), 3 * count); /* members said what their cards take */
	assert_int_equal(atomic_load(&other_limits), 0);
	group_harness_close(&lend.harness);
	for (size_t i = 0; i < count; i++)
		host_harness_close(&aggregators[i]);
}

static void connections_to_a_aggregator_count_the_members(void **state)
{
	(void)state;
	hearing = transport_tcp;
	hearing.set = hear;
	aggregators_hear(1, 6);
	aggregators_hear(2, 3);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_leaf_with_an_aggregator),
		cmocka_unit_test(one_leaf_with_two),
		cmocka_unit_test(two_leaves_with_one),
		cmocka_unit_test(two_leaves_with_one_each),
		cmocka_unit_test(uneven_leaves_and_hosts_with_three),
		cmocka_unit_test(connections_to_a_aggregator_count_the_members),
		cmocka_unit_test(one_that_is_not_there_is_gone_without),
		cmocka_unit_test(one_that_is_full_is_gone_without),
		cmocka_unit_test(one_with_another_secret_is_gone_without),
		cmocka_unit_test(jobs_share_one),
		cmocka_unit_test(a_dead_member_of_one_job_stalls_no_other),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return parallel_run_group_tests(tests, host_harness_secret_make, host_harness_secret_remove);
}
