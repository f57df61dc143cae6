/* SPDX-License-Identifier: Apache-2.0 */
/* Groups that work: sums are exact, the same at every member, whatever the layout, the size and the order. */
#include "aggregate/group.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Small whole numbers: every type holds their sums exactly, in whatever order they are taken. */
static float small_number(size_t member, size_t i)
{
	return (float)((member * 7 + i * 3) % 11) - 5.0f;
}

static void sums_are_exact(const char *leaves, size_t count, bool in_place)
{
	struct params params;
	struct harness harness;
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
	float *send[GROUP_HARNESS_MAX], *recv[GROUP_HARNESS_MAX];

	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, leaves), 0);
	for (size_t m = 0; m < harness.count; m++) {
		send[m] = malloc((count + 1) * sizeof(float));
		recv[m] = in_place ? send[m] : malloc((count + 1) * sizeof(float));
		assert_non_null(send[m]);
		assert_non_null(recv[m]);
		recv[m][count] = 4711;
		for (size_t i = 0; i < count; i++)
			send[m][i] = small_number(m, i);
		assert_int_equal(group_harness_reduce(&harness.members[m], send[m], recv[m], count, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	}
	assert_int_equal(group_harness_finish(&harness, requests), 0);
	for (size_t i = 0; i < count; i++) {
		float want = 0;

		for (size_t m = 0; m < harness.count; m++)
			want += small_number(m, i);
		for (size_t m = 0; m < harness.count; m++)
			if (recv[m][i] != want)
				fail_msg("%s: member %zu, element %zu of %zu: %g, not %g", leaves, m, i, count,
					 (double)recv[m][i], (double)want);
	}
	for (size_t m = 0; m < harness.count; m++) {
		assert_true(recv[m][count] == 4711 || in_place);
		if (!in_place)
			free(recv[m]);
		free(send[m]);
	}
	group_harness_close(&harness);
}

static void one_member_alone(void **state)
{
	(void)state;
	sums_are_exact("-", 1000, false);
	sums_are_exact("-", 100000, true);
}

static void small_operations_are_exchanged(void **state)
{
	(void)state;
	sums_are_exact("--", 1, false);
	sums_are_exact("---", 100, true);
	sums_are_exact("aabbb", 1000, false);
	sums_are_exact("a2b3", 0, false);
}

/* From six members on one member sums short ones for all, up to a quarter of what would be exchanged. */
static void small_operations_of_many_have_a_root(void **state)
{
	static const char row[] = "-------------------";
	/* Floats. Unasked go 16 KiB, with a header of 64 bytes; the last of these are exchanged. */
	static const size_t counts[] = { 1, 256, (16384 - 64) / 4 / 4, (16384 - 64) / 4 / 4 + 1 };

	(void)state;
	for (size_t members = 5; members <= (runtime_long() ? 19 : 11); members++)
		for (size_t i = 0; i < (runtime_long() ? 4 : 1); i++)
			sums_are_exact(row + sizeof(row) - 1 - members, counts[(members + i) % 4], members & 1);
	for (size_t i = 0; i < 4; i++)
		sums_are_exact("abcabcb2", counts[i], false);
}

enum { MEMBERS_MOST = 16, FLOATS_MOST = 32 << 10 };

/* What each member sends for one sum. */
static void messages_for(struct harness *harness, size_t count, uint64_t *ret)
{
	static float send[FLOATS_MOST], recv[MEMBERS_MOST][FLOATS_MOST];
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
	struct aggregate_counters counters;

	assert_true(count <= FLOATS_MOST && harness->count <= MEMBERS_MOST);
	for (size_t m = 0; m < harness->count; m++) {
		aggregate_counters(harness->members[m].group, &counters);
		ret[m] = counters.messages_sent;
	}
	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], send, recv[m], count, REDUCE_FLOAT32,
						      REDUCE_SUM, &requests[m]),
				 0);
	assert_int_equal(group_harness_finish(harness, requests), 0);
	for (size_t m = 0; m < harness->count; m++) {
		aggregate_counters(harness->members[m].group, &counters);
		ret[m] = counters.messages_sent - ret[m];
	}
}

static uint64_t messages_of_all_for(struct harness *harness, size_t count)
{
	uint64_t each[MEMBERS_MOST], all = 0;

	messages_for(harness, count, each);
	for (size_t m = 0; m < harness->count; m++)
		all += each[m];
	return all;
}

/* An input and a result for each member but the root; or one from each to all others. */
static void a_root_takes_few_messages(void **state)
{
	static const char *const cases[] = { "-----", "------", "--------", "aaabbbcc", "---------" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t members = strlen(cases[i]), all = members * (members - 1);
		struct params params;
		struct harness harness;

		group_harness_params(&params);
		params.aggregate_flat_bytes = 8000;
		params.streams = 1; /* all members are in one process, which may have 1,024 descriptors */
		assert_int_equal(group_harness_open(&harness, &params, cases[i]), 0);
		assert_int_equal(messages_of_all_for(&harness, 500), members < 6 ? all : 2 * (members - 1));
		assert_int_equal(messages_of_all_for(&harness, 501), all);
		group_harness_close(&harness);
	}
}

/* However many operations lie between two of them: what a program posts comes again after so many. */
static void roots_are_spread_whatever_the_stride(void **state)
{
	enum { EACH = 60 };
	struct group *group = calloc(1, sizeof(*group));
	struct operation operation = { .group = group };

	(void)state;
	assert_non_null(group);
	for (group->count = 2; group->count <= MEMBERS_MOST; group->count++)
		for (uint64_t stride = 1; stride <= 64; stride++) {
			unsigned roots[MEMBERS_MOST] = { 0 };

			for (operation.number = 0; operation.number < EACH * group->count * stride;
			     operation.number += stride)
				roots[check_root(group, &operation)]++;
			for (size_t m = 0; m < group->count; m++)
				assert_in_range(roots[m], EACH / 2, EACH * 2);
		}
	free(group);
}

/* However often something else is posted between two of them. */
static void all_members_take_turns_as_root(void **state)
{
	enum { MEMBERS = 6, ROUNDS = 20 * MEMBERS };

	(void)state;
	for (unsigned period = 1; period <= 3; period++) {
		unsigned roots[MEMBERS] = { 0 };
		struct params params;
		struct harness harness;

		group_harness_params(&params);
		assert_int_equal(group_harness_open(&harness, &params, "------"), 0);
		for (unsigned i = 0; i < ROUNDS; i++) {
			uint64_t each[MEMBERS_MOST];

			messages_for(&harness, 10, each);
			for (size_t m = 0; m < MEMBERS; m++)
				roots[m] += each[m] == MEMBERS - 1;
			for (unsigned k = 1; k < period; k++)
				messages_for(&harness, 0, each);
		}
		for (size_t m = 0; m < MEMBERS; m++)
			assert_in_range(roots[m], ROUNDS / MEMBERS / 2, ROUNDS / MEMBERS * 2);
		group_harness_close(&harness);
	}
}

/*
 * Operations are split into parts that a card is worth a message for: of 12 us, 14 KiB at most; one a member where cards are
 * slower or not known. For each part an input and a result for all others.
 */
static void parts_are_worth_their_messages(void **state)
{
	enum { MEMBERS = 8, A_PART = 2 * (MEMBERS - 1) };
	static const struct {
		uint64_t rate_Bps;
		size_t count, parts, checks;
	} cases[] = {
		{ 125000000, 16384, 8, 0 },
		{ 1250000000, 16384, 5, 0 },
		{ 12500000000, 16384, 5, 0 },
		{ 625000000, 5000, 3, 0 },
		{ 1250000000, 5000, 2, 0 },
		/* As long as a card takes unasked: what was posted has no room ahead of it. */
		{ 1250000000, 32768, 8, MEMBERS - 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t each[MEMBERS_MOST], first[MEMBERS_MOST];
		struct params params;
		struct harness harness;

		group_harness_params(&params);
		params.aggregate_flat_bytes = 512;
		assert_int_equal(group_harness_gather(&harness, &params, "aaaaaaaa"), 0);
		for (size_t host = 0; host < MEMBERS; host++)
			harness.hosts[host].rate_Bps = cases[i].rate_Bps;
		assert_int_equal(group_harness_connect(&harness), 0);
		assert_int_equal(messages_of_all_for(&harness, cases[i].count),
				 cases[i].parts * A_PART + cases[i].checks);
		/* The next ones have other members' parts. */
		messages_for(&harness, cases[i].count, first);
		messages_for(&harness, cases[i].count, each);
		if (cases[i].parts < MEMBERS)
			assert_memory_not_equal(first, each, MEMBERS * sizeof(each[0]));
		group_harness_close(&harness);
	}
}

/*
 * Words lie in a window until their operation is posted. So a large operation begins only when its word has gone out, which
 * it does when no more small ones are under way before it than fit in there.
 */
static void large_operations_wait_for_their_words(void **state)
{
	enum { SMALL = GROUP_FLAT_OPERATIONS + 1, MANY = SMALL + 1, COUNT = 200000 };
	static float send[COUNT], recv[2][MANY][COUNT];
	struct aggregate_request *requests[MANY][GROUP_HARNESS_MAX] = { 0 };
	uint64_t deadline_ns = runtime_deadline_ns(GROUP_HARNESS_PATIENCE_MS);
	struct aggregate_counters counters;
	struct params params;
	struct harness harness;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "--"), 0);
	for (size_t m = 0; m < 2; m++) {
		for (size_t i = 0; i < MANY; i++)
			assert_int_equal(group_harness_reduce(&harness.members[m], send, recv[m][i],
							      i < SMALL ? 1 : COUNT, REDUCE_FLOAT32, REDUCE_SUM,
							      &requests[i][m]),
					 0);
		if (m == 1)
			break;
		/* Once as many are out as may be, nothing more comes. */
		for (unsigned looks = 0; looks < 50; looks += counters.messages_sent >= GROUP_FLAT_OPERATIONS) {
			bool done = false;

			assert_int_equal(aggregate_test(requests[MANY - 1][0], &done, NULL), 0);
			assert_false(done);
			assert_false(runtime_past(deadline_ns));
			runtime_nap();
			aggregate_counters(harness.members[0].group, &counters);
		}
		assert_int_equal(counters.messages_sent, GROUP_FLAT_OPERATIONS);
	}
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(group_harness_finish(&harness, requests[i]), 0);
	group_harness_close(&harness);
}

static void large_operations_are_segmented_in_one_leaf(void **state)
{
	(void)state;
	sums_are_exact("--", 100001, false);
	sums_are_exact("--------", 1 << 20, false);
	sums_are_exact("----", 123457, true);
}

static void large_operations_are_segmented_over_leaves_and_hosts(void **state)
{
	(void)state;
	sums_are_exact("aabb", 300007, false);
	sums_are_exact("abab", 300007, true);
	sums_are_exact("a3", 65537, false);
	sums_are_exact("a2a1b3c", 500009, false);
	sums_are_exact("aaaaaab", 1000003, true);
	sums_are_exact("abcd", 200003, false);
}

static void the_longest_operation(void **state)
{
	(void)state;
	if (!runtime_long()) {
		print_message("skipped: only with TRIBUTARY_TEST_LONG=1\n");
		skip();
	}
	sums_are_exact("ab", AGGREGATE_MAX_BYTES / sizeof(float), true);
}

/* Two leaves of two: each byte crosses an uplink once, where a ring's crosses it 1.5 times; cards move the same. */
static void totals_say_what_a_ring_would_have_sent(void **state)
{
	enum { COUNT = 250000, BYTES = COUNT * sizeof(float), MEMBERS = 4 };
	static struct aggregate_totals totals[MEMBERS];
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
	struct params params;
	struct harness harness;
	float *memory = calloc(MEMBERS, BYTES);
	uint64_t sent = 0;

	(void)state;
	assert_non_null(memory);
	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, "aabb"), 0);
	for (size_t m = 0; m < MEMBERS; m++) {
		harness.members[m].engine->setup.totals = &totals[m];
		assert_int_equal(group_harness_reduce(&harness.members[m], memory + m * COUNT, memory + m * COUNT,
						      COUNT, REDUCE_FLOAT32, REDUCE_SUM, &requests[m]),
				 0);
	}
	assert_int_equal(group_harness_finish(&harness, requests), 0);
	group_harness_close(&harness);
	for (size_t m = 0; m < MEMBERS; m++) {
		assert_int_equal(totals[m].operations, 1);
		assert_int_equal(totals[m].bytes, BYTES);
		assert_int_equal(totals[m].ring_sent_bytes, BYTES * 3 / 2);
		assert_int_equal(totals[m].ring_uplink_bytes, BYTES * 3 / 2);
		assert_int_equal(totals[m].uplink_bytes, BYTES);
		sent += totals[m].sent_bytes;
	}
	assert_in_range(sent, 5 * BYTES,
			7 * BYTES); /* 2 (n - 1) + 1 = 3 operations from each leaf, in whole segments */
	free(memory);
}

static int connected_with(const uint64_t *wirings, size_t count, char reason[static AGGREGATE_REASON_BYTES])
{
	static struct harness harness;
	struct params params;
	int r;

	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, "aabb"), 0);
	for (size_t i = 0; i < count; i++) {
		const struct aggregate_terms terms = { .wiring = wirings[i] };

		aggregate_set_terms(harness.members[i].listener, &terms);
	}
	r = group_harness_connect(&harness);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(harness.members[i].error, r);
	memcpy(reason, harness.members[count - 1].reason, AGGREGATE_REASON_BYTES);
	group_harness_close(&harness);
	return r;
}

/* NCCL's chains would hang: all have the same answer. One that does not know agrees with all. */
static void hosts_that_are_wired_differently_have_no_group(void **state)
{
	static const uint64_t alike[] = { 9, 0, 9, 9 }, unlike[] = { 0, 9, 9, 8 };
	char reason[AGGREGATE_REASON_BYTES];

	(void)state;
	assert_int_equal(connected_with(alike, 4, reason), 0);
	assert_int_equal(connected_with(unlike, 4, reason), -EPROTO);
	assert_non_null(strstr(reason, "hosts host01 and host03 have different numbers of GPUs"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_that_are_wired_differently_have_no_group),
		cmocka_unit_test(totals_say_what_a_ring_would_have_sent),
		cmocka_unit_test(one_member_alone),
		cmocka_unit_test(small_operations_are_exchanged),
		cmocka_unit_test(small_operations_of_many_have_a_root),
		cmocka_unit_test(a_root_takes_few_messages),
		cmocka_unit_test(roots_are_spread_whatever_the_stride),
		cmocka_unit_test(all_members_take_turns_as_root),
		cmocka_unit_test(parts_are_worth_their_messages),
		cmocka_unit_test(large_operations_wait_for_their_words),
		cmocka_unit_test(large_operations_are_segmented_in_one_leaf),
		cmocka_unit_test(large_operations_are_segmented_over_leaves_and_hosts),
		cmocka_unit_test(the_longest_operation),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
