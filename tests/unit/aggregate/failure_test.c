/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes wrong: members that leave, that never come, that fail at any step of the agreement; and data that is
 * corrupted. Everybody hears of it, soon, with the same reason; and nobody touches a buffer afterwards. Members that post
 * different operations: differ_test.c.
 */
#include "base/log.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/parallel.h"

/* What a busy machine adds to a time-out. */
#define SLACK_NS 6000000000

/* ------------------------------------------------------------------------------------------- a transport that errs */

/* One member's; everything else goes on to TCP. */
static struct {
	_Atomic int64_t calls_left; /* the call that fails; not positive: none */
	_Atomic uint64_t calls;
	_Atomic bool corrupt; /* the first long message that comes is changed */
} broken;

static bool fails_now(void)
{
	atomic_fetch_add(&broken.calls, 1);
	return atomic_fetch_sub(&broken.calls_left, 1) == 1;
}

static int broken_connect(struct transport *transport, int device, int traffic_class, uint8_t *handle,
			  struct transport_connection **ret)
{
	struct transport_connection *before = *ret;
	int r = transport_tcp.connect(transport, device, traffic_class, handle, ret);

	/* Steps that lead nowhere are not counted: their number is chance. */
	if (r == 0 && *ret && *ret != before && fails_now()) {
		transport_tcp.close_connection(*ret);
		*ret = NULL;
		return -ENOMEM;
	}
	return r;
}

static int broken_accept(struct transport_listener *listener, struct transport_connection **ret)
{
	int r = transport_tcp.accept(listener, ret);

	if (r == 0 && *ret && fails_now()) {
		transport_tcp.close_connection(*ret);
		*ret = NULL;
		return -EMFILE;
	}
	return r;
}

static int broken_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		       struct transport_request **ret)
{
	*ret = NULL;
	return fails_now() ? -EREMOTEIO : transport_tcp.send(connection, data, bytes, tag, registration, ret);
}

static struct {
	struct transport_request *request;
	uint8_t *data;
} victim;

static int broken_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			  const int *tags, void *const *registrations, struct transport_request **ret)
{
	int r;

	*ret = NULL;
	if (fails_now())
		return -EREMOTEIO;
	r = transport_tcp.receive(connection, count, data, bytes, tags, registrations, ret);
	if (r == 0 && *ret && bytes[0] > 20000 && atomic_exchange(&broken.corrupt, false)) {
		victim.request = *ret;
		victim.data = data[0];
	}
	return r;
}

static int broken_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	int r = transport_tcp.test(request, ret_done, sizes);

	if (r == 0 && *ret_done && request == victim.request) {
		victim.data[1234] ^= 0x10;
		victim.request = NULL;
	}
	return r;
}

static struct transport_ops broken_ops;

/* The last member of a harness gets it. */
static void break_last(struct harness *harness, int64_t call)
{
	struct group_harness_member *member = &harness->members[harness->count - 1];
	struct aggregate_setup setup = { .params = &member->params,
					 .ops = &broken_ops,
					 .transport = harness->transport,
					 .cluster = &harness->cluster,
					 .host_name = member->host };

	broken_ops = transport_tcp;
	broken_ops.connect = broken_connect;
	broken_ops.accept = broken_accept;
	broken_ops.send = broken_send;
	broken_ops.receive = broken_receive;
	broken_ops.test = broken_test;
	atomic_store(&broken.calls, 0);
	atomic_store(&broken.calls_left, call);
	aggregate_close_listener(member->listener);
	aggregate_close(member->engine);
	assert_int_equal(aggregate_open(&setup, &member->engine), 0);
	assert_int_equal(aggregate_listen(member->engine, 0, member->handle, &member->listener), 0);
}

/* ---------------------------------------------------------------------------------------------------- the agreement */

static void all_failed_alike(struct harness *harness, size_t but)
{
	for (size_t m = 0; m < harness->count; m++) {
		if (m == but)
			continue;
		assert_true(harness->members[m].error < 0);
		assert_null(harness->members[m].group);
		assert_true(strlen(harness->members[m].reason) > 10);
		assert_string_equal(harness->members[m].reason, harness->members[but == 0].reason);
		assert_int_equal(harness->members[m].error, harness->members[but == 0].error);
	}
}

/* Within the time-out, but for what the machine adds to it. */
static void ends_in_time(const struct params *params, uint64_t begin_ns, uint64_t stalled_ns)
{
	assert_true(runtime_now_ns() - begin_ns < params->timeout_ns + SLACK_NS + runtime_stalled_ns() - stalled_ns);
}

enum step { STEP_FAILED, STEP_WITHOUT_HARM, STEP_OVER, STEP_STALLED };

/* Members that come together, of which one fails at that call. Alone where time ran out for some, they may not agree. */
static enum step fail_at(int64_t call, uint64_t timeout_ns)
{
	uint64_t begin_ns, stalled_ns = runtime_stalled_ns();
	struct params params;
	struct harness harness;
	size_t errors = 0, count;
	bool over;

	group_harness_params(&params);
	params.timeout_ns = timeout_ns;
	assert_int_equal(group_harness_gather(&harness, &params, "aabb"), 0);
	break_last(&harness, call);
	begin_ns = runtime_now_ns();
	group_harness_connect(&harness);
	ends_in_time(&params, begin_ns, stalled_ns);
	for (size_t m = 0; m < harness.count; m++)
		errors += harness.members[m].error < 0;
	over = (int64_t)atomic_load(&broken.calls) < call;
	count = harness.count;
	group_harness_close(&harness);
	if (errors == 0) /* not over: a step on which nothing depends, as a incoming comes again */
		return over ? STEP_OVER : STEP_WITHOUT_HARM;
	/* A coordinator that cannot tell the others leaves them their own reasons; but they all fail. */
	if ((errors != count || over) && runtime_stalled_ns() - stalled_ns > timeout_ns / 20)
		return STEP_STALLED;
	assert_int_equal(errors, count);
	assert_false(over); /* none was made to fail, and yet they did */
	return STEP_FAILED;
}

/* Every fourth step, from the first, second, third or fourth on: nearly all their time is waited for. */
enum { PARTS = 4 };
static unsigned parts[PARTS] = { 1, 2, 3, 4 };

static void a_member_fails_at_every_step(void **state)
{
	const uint64_t least_ns = runtime_sanitized() ? 8000000000 : 3000000000;
	const unsigned *first = *state;
	unsigned failed = 0, steps = *first;
	enum step step;

	for (;; steps += PARTS) {
		uint64_t timeout_ns = least_ns;

		while ((step = fail_at(steps, timeout_ns)) == STEP_STALLED) {
			timeout_ns *= 2;
			assert_true(timeout_ns <= 16 * least_ns);
		}
		if (step == STEP_OVER)
			break;
		failed += step == STEP_FAILED;
		assert_true(steps < 200);
	}
	print_message("step %u and every fourth after it: %u of %u failed\n", *first, failed, steps / PARTS);
	assert_true(failed >= 2);
}

static void a_member_never_comes(void **state)
{
	for (size_t missing = 0; missing < 3; missing++) {
		uint64_t begin_ns, stalled_ns = runtime_stalled_ns();
		struct params params;
		struct harness harness;

		(void)state;
		group_harness_params(&params);
		params.timeout_ns = 1500000000;
		assert_int_equal(group_harness_gather(&harness, &params, "aab"), 0);
		aggregate_close_listener(harness.members[missing].listener);
		harness.members[missing].listener = NULL;
		begin_ns = runtime_now_ns();
		assert_true(group_harness_connect(&harness) < 0);
		ends_in_time(&params, begin_ns, stalled_ns);
		for (size_t m = 0; m < harness.count; m++)
			assert_true(m == missing || (harness.members[m].error < 0 && harness.members[m].reason[0]));
		group_harness_close(&harness);
	}
}

static void cluster_files_differ(void **state)
{
	struct aggregate_setup setup;
	struct params params;
	struct harness harness;
	struct cluster other;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, "aabb"), 0);
	other = harness.cluster;
	other.fingerprint++;
	aggregate_close_listener(harness.members[2].listener);
	aggregate_close(harness.members[2].engine);
	setup = (struct aggregate_setup){ .params = &harness.members[2].params,
					  .ops = harness.ops,
					  .transport = harness.transport,
					  .cluster = &other,
					  .host_name = harness.members[2].host };
	assert_int_equal(aggregate_open(&setup, &harness.members[2].engine), 0);
	assert_int_equal(
		aggregate_listen(harness.members[2].engine, 0, harness.members[2].handle, &harness.members[2].listener),
		0);
	assert_int_equal(group_harness_connect(&harness), -EPROTO);
	all_failed_alike(&harness, SIZE_MAX);
	assert_non_null(strstr(harness.members[0].reason, "host02"));
	group_harness_close(&harness);
}

static void a_member_that_is_not_in_the_list(void **state)
{
	struct params params;
	struct harness harness;
	struct aggregate_group *group;
	const uint8_t *handles[2];
	char reason[AGGREGATE_REASON_BYTES];

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, "aaa"), 0);
	handles[0] = harness.members[1].handle;
	handles[1] = harness.members[2].handle;
	assert_int_equal(aggregate_connect(harness.members[0].listener, 2, handles, &group, reason), -EINVAL);
	assert_non_null(strstr(reason, "host00"));
	handles[0] = handles[1] = harness.members[0].handle;
	assert_int_equal(aggregate_connect(harness.members[0].listener, 2, handles, &group, reason), -EINVAL);
	group_harness_close(&harness);
}

/* ---------------------------------------------------------------------------------------------------- operations */

/* What the log said: of the end of a group, which host was named. */
static struct {
	_Atomic unsigned lines, nameless;
} logged;

__attribute__((format(printf, 5, 6))) static void log_to_test(int level, unsigned long flags, const char *file,
							      int line, const char *fmt, ...)
{
	char text[512];
	const char *at;
	va_list args;

	(void)flags, (void)file, (void)line;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	at = level == LOG_LEVEL_WARN ? strstr(text, " ends at host host") : NULL;
	if (!at)
		return;
	atomic_fetch_add(&logged.lines, 1);
	at = strchr(at, ':');
	if (at && strstr(at, "host0"))
		return;
	atomic_fetch_add(&logged.nameless, 1);
	print_message("names no host: %s\n", text);
}

/* Of every test. */
static int log_names_hosts(void **state)
{
	(void)state;
	assert_int_equal(atomic_load(&logged.nameless), 0);
	return 0;
}

static void corruption_is_found_when_asked(void **state)
{
	enum { COUNT = 100000 };
	float *send = calloc(COUNT, sizeof(float)), *recv[GROUP_HARNESS_MAX];

	(void)state;
	for (size_t m = 0; m < 3; m++)
		recv[m] = malloc(COUNT * sizeof(float));
	for (unsigned verify = 0; verify < 2; verify++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
		struct params params;
		struct harness harness;
		bool same = true;
		int r = 0;

		group_harness_params(&params);
		params.verify = verify;
		assert_int_equal(group_harness_gather(&harness, &params, "aaa"), 0);
		break_last(&harness, 0);
		assert_int_equal(group_harness_connect(&harness), 0);
		/* Some rounds: what is changed may be an input, and then everybody has the same wrong sum. */
		for (unsigned round = 0; round < 40 && r == 0 && same; round++) {
			atomic_store(&broken.corrupt, true);
			for (size_t m = 0; m < 3 && r == 0; m++)
				r = group_harness_reduce(&harness.members[m], send, recv[m], COUNT, REDUCE_FLOAT32,
							 REDUCE_SUM, &requests[m]);
			if (r == 0)
				r = group_harness_finish(&harness, requests);
			same = r < 0 || (!memcmp(recv[0], recv[1], COUNT * sizeof(float)) &&
					 !memcmp(recv[0], recv[2], COUNT * sizeof(float)));
		}
		if (verify)
			assert_int_equal(r, -EREMOTEIO);
		else
			assert_true(r == 0 && !same); /* so there was something to find */
		group_harness_close(&harness);
	}
	for (size_t m = 0; m < 3; m++)
		free(recv[m]);
	free(send);
}

/* One operation of all four members, in which something is changed on its way. True: somebody has found out. */
static bool changed_operation_fails(struct harness *harness, const float *send, float *const *recv, size_t count)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	size_t left = harness->count;
	bool failed = false;

	atomic_store(&broken.corrupt, true);
	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], send, recv[m], count, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	for (; left; runtime_nap()) {
		assert_false(runtime_past(deadline_ns));
		for (size_t m = harness->count; m-- > 0;) {
			bool done = false;
			int r = requests[m] ? aggregate_test(requests[m], &done, NULL) : 0;

			assert_true(r == 0 || r == -EREMOTEIO);
			for (size_t k = 0; done && k < harness->count; k++)
				assert_memory_equal(recv[k], recv[m], count * sizeof(float));
			failed |= r < 0;
			left -= done || r < 0;
			requests[m] = done || r < 0 ? NULL : requests[m];
		}
	}
	return failed;
}

/*
 * A result that is changed on its way to a leaf's aggregator is the same wrong one in all of the leaf: neighbours there have
 * the same checksum, and still none of them may be through. What is changed may also be an input: then everybody has the
 * same wrong sum.
 */
static void no_member_is_through_with_what_others_do_not_have(void **state)
{
	enum { COUNT = 100000, MEMBERS = 4, OPERATIONS = 40 };
	float *send = calloc(COUNT, sizeof(float)), *recv[MEMBERS];
	struct params params;
	struct harness harness;

	(void)state;
	for (size_t m = 0; m < MEMBERS; m++)
		recv[m] = malloc(COUNT * sizeof(float));
	group_harness_params(&params);
	params.verify = true;
	for (unsigned round = 0; round < 8; round++) {
		unsigned i = 0;

		assert_int_equal(group_harness_gather(&harness, &params, "aabb"), 0);
		break_last(&harness, 0);
		assert_int_equal(group_harness_connect(&harness), 0);
		while (i < OPERATIONS && !changed_operation_fails(&harness, send, recv, COUNT))
			i++;
		assert_true(i < OPERATIONS); /* so there was something to find */
		group_harness_close(&harness);
	}
	assert_true(atomic_load(&logged.lines) > 20); /* log_names_hosts has something to look at */
	for (size_t m = 0; m < MEMBERS; m++)
		free(recv[m]);
	free(send);
}

/* ---------------------------------------------------------------------------------------------------- leaving */

enum { LEAVE_OPERATIONS = 6 };

struct leaver {
	struct aggregate_request *requests[LEAVE_OPERATIONS];
	uint8_t *send, *recv;
};

static void member_leaves(uint64_t seed)
{
	static const char *const leaves[] = { "aaa", "aabb", "a2b2", "ab" };
	struct leaver members[GROUP_HARNESS_MAX] = { 0 };
	size_t counts[LEAVE_OPERATIONS], total = 0, gone, at;
	uint64_t deadline_ns, strike_ns;
	struct params params;
	struct harness harness;
	uint64_t random = seed;
	int32_t want = 0;

	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, leaves[random_below(&random, 4)]), 0);
	gone = random_below(&random, harness.count);
	for (size_t i = 0; i < LEAVE_OPERATIONS; i++) {
		counts[i] = 1 + random_below(&random, random_below(&random, 2) ? 1000 : 400000);
		total += counts[i];
	}
	for (size_t m = 0; m < harness.count; m++) {
		members[m].send = malloc(total * 4);
		members[m].recv = malloc(total * 4);
		for (size_t i = 0; i < total; i++)
			((int32_t *)members[m].send)[i] = (int32_t)m + 1;
		want += (int32_t)m + 1;
		at = 0;
		for (size_t i = 0; i < LEAVE_OPERATIONS; i++) {
			/* It may leave before it has posted all, and the others wait for it then. */
			if (m != gone || random_below(&random, 8))
				assert_int_equal(group_harness_reduce(&harness.members[m], members[m].send + at * 4,
								      members[m].recv + at * 4, counts[i], REDUCE_INT32,
								      REDUCE_SUM, &members[m].requests[i]),
						 0);
			else
				break;
			at += counts[i];
		}
	}
	strike_ns = runtime_now_ns() + random_below(&random, 8000000);
	while (runtime_now_ns() < strike_ns)
		runtime_nap();
	aggregate_close_group(harness.members[gone].group);
	harness.members[gone].group = NULL;
	memset(members[gone].send, 0xdd, total * 4); /* nobody may notice */
	memset(members[gone].recv, 0xee, total * 4);
	deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	for (size_t m = 0; m < harness.count; m++) {
		int error = 0;

		at = 0;
		for (size_t i = 0; i < LEAVE_OPERATIONS && m != gone; at += counts[i++]) {
			bool done = false;
			int r = 0;

			while (!done && r == 0) {
				r = aggregate_test(members[m].requests[i], &done, NULL);
				/* All may be through here, while the one that left had nothing to do with the rest. */
				if (runtime_past(deadline_ns))
					fail_msg("seed %llx: member %zu waits for operation %zu",
						 (unsigned long long)seed, m, i);
				runtime_nap();
			}
			error = r < 0 ? r : error;
			for (size_t k = 0; done && k < counts[i]; k++)
				assert_int_equal(((int32_t *)members[m].recv)[at + k], want);
		}
		if (error) {
			assert_int_equal(error, -EREMOTEIO);
			memset(members[m].recv, 0xee, total * 4);
		}
	}
	for (size_t i = 0; i < total * 4; i++)
		assert_int_equal(members[gone].recv[i], 0xee);
	group_harness_close(&harness); /* and forgets how many there were */
	for (size_t m = 0; m < GROUP_HARNESS_MAX; m++) {
		free(members[m].send);
		free(members[m].recv);
	}
}

static void members_leave_with_everything_in_flight(void **state)
{
	(void)state;
	for (unsigned i = 0; i < (runtime_long() ? 500U : 20U); i++)
		member_leaves(runtime_seed() + i);
}

/* Its own operations are through: nobody needs it any more, and what it still had to say has gone out. */
static void members_may_leave_when_they_are_through(void **state)
{
	enum { COUNT = 60000, MEMBERS = 7 };
	int32_t *data[GROUP_HARNESS_MAX];

	(void)state;
	for (size_t m = 0; m < MEMBERS; m++)
		data[m] = malloc(COUNT * 4);
	for (unsigned round = 0; round < (runtime_long() ? 300U : 12U); round++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
		size_t count = round % 3 ? COUNT - round : 1 + round, members = round / 2 % 2 ? MEMBERS : 4,
		       left = members;
		struct params params;
		struct harness harness;

		group_harness_params(&params);
		params.verify = round % 4 == 3;
		assert_int_equal(group_harness_open(&harness, &params,
						    members == 4 ? round % 2 ? "aabb" : "aaaa"
						    : round % 2  ? "aabbcab"
								 : "aaaaaaa"),
				 0);
		for (size_t m = 0; m < members; m++) {
			for (size_t i = 0; i < count; i++)
				data[m][i] = (int32_t)(m + i);
			assert_int_equal(group_harness_reduce(&harness.members[m], data[m], data[m], count,
							      REDUCE_INT32, REDUCE_SUM, &requests[m]),
					 0);
		}
		while (left) {
			for (size_t m = 0; m < members; m++) {
				bool done = false;

				if (requests[m])
					assert_int_equal(aggregate_test(requests[m], &done, NULL), 0);
				if (!done)
					continue;
				requests[m] = NULL;
				aggregate_close_group(harness.members[m].group);
				harness.members[m].group = NULL;
				left--;
			}
			runtime_nap();
		}
		for (size_t m = 0; m < members; m++)
			for (size_t i = 0; i < count; i++)
				assert_int_equal(data[m][i], (int32_t)(members * (members - 1) / 2 + members * i));
		group_harness_close(&harness);
	}
	for (size_t m = 0; m < MEMBERS; m++)
		free(data[m]);
}

static void the_end_of_one_is_everybodys(void **state)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 }, *more;
	struct params params;
	struct harness harness;
	float number[3] = { 0 };

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "abc"), 0);
	for (size_t m = 0; m < 2; m++)
		assert_int_equal(group_harness_reduce(&harness.members[m], &number[m], &number[m], 1, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	aggregate_close_group(harness.members[2].group);
	harness.members[2].group = NULL;
	assert_int_equal(group_harness_all_fail(&harness, 2, requests), 0);
	assert_int_equal(aggregate_reduce_all(harness.members[0].group, &number[0], &number[0], 1, REDUCE_FLOAT32,
					      REDUCE_SUM, &more),
			 -EREMOTEIO);
	group_harness_close(&harness);
}

static int begin(void **state)
{
	(void)state;
	runtime_watch_stalls();
	log_set_sink(log_to_test);
	return 0;
}

#define STEPS_TEST(part)                                                                                     \
	{                                                                                                    \
		"a_member_fails_at_every_step: " #part, a_member_fails_at_every_step, NULL, log_names_hosts, \
			&parts[part]                                                                         \
	}
#define LOGGED_TEST(name) cmocka_unit_test_teardown(name, log_names_hosts)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STEPS_TEST(0),
		STEPS_TEST(1),
		STEPS_TEST(2),
		STEPS_TEST(3),
		LOGGED_TEST(a_member_never_comes),
		LOGGED_TEST(cluster_files_differ),
		LOGGED_TEST(a_member_that_is_not_in_the_list),
		LOGGED_TEST(corruption_is_found_when_asked),
		LOGGED_TEST(no_member_is_through_with_what_others_do_not_have),
		LOGGED_TEST(members_may_leave_when_they_are_through),
		LOGGED_TEST(the_end_of_one_is_everybodys),
		LOGGED_TEST(members_leave_with_everything_in_flight),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return parallel_run_group_tests(tests, begin, NULL);
}
