/* Groups that work: sums are exact, the same at every member, whatever the layout, the size and the order. */
#include "support/runtime.h"
#include "unit/aggregate/party.h"

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
	struct party party;
	struct aggregate_request *requests[PARTY_MAX] = { 0 };
	float *send[PARTY_MAX], *recv[PARTY_MAX];

	party_params(&params);
	assert_int_equal(party_open(&party, &params, leaves), 0);
	for (size_t m = 0; m < party.count; m++) {
		send[m] = malloc((count + 1) * sizeof(float));
		recv[m] = in_place ? send[m] : malloc((count + 1) * sizeof(float));
		assert_non_null(send[m]);
		assert_non_null(recv[m]);
		recv[m][count] = 4711;
		for (size_t i = 0; i < count; i++)
			send[m][i] = small_number(m, i);
		assert_int_equal(party_reduce(&party.members[m], send[m], recv[m], count, REDUCE_FLOAT32, REDUCE_SUM,
					      &requests[m]),
				 0);
	}
	assert_int_equal(party_finish(&party, requests), 0);
	for (size_t i = 0; i < count; i++) {
		float want = 0;

		for (size_t m = 0; m < party.count; m++)
			want += small_number(m, i);
		for (size_t m = 0; m < party.count; m++)
			if (recv[m][i] != want)
				fail_msg("%s: member %zu, element %zu of %zu: %g, not %g", leaves, m, i, count,
					 (double)recv[m][i], (double)want);
	}
	for (size_t m = 0; m < party.count; m++) {
		assert_true(recv[m][count] == 4711 || in_place);
		if (!in_place)
			free(recv[m]);
		free(send[m]);
	}
	party_close(&party);
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

/* From six members on short inputs go in two rounds, longer ones in one: whatever the last row of the second lacks. */
static void small_operations_of_many_take_two_rounds(void **state)
{
	static const char row[] = "-------------------";
	/* Floats: of three inputs in a message so many are 8 KiB with its header, and one more. */
	static const size_t counts[] = { 1, 256, (8192 - 64) / 3 / 4, (8192 - 64) / 3 / 4 + 1 };

	(void)state;
	for (size_t members = 5; members <= (runtime_long() ? 19 : 11); members++)
		for (size_t i = 0; i < (runtime_long() ? 4 : 1); i++)
			sums_are_exact(row + sizeof(row) - 1 - members, counts[(members + i) % 4], members & 1);
	for (size_t i = 0; i < 4; i++)
		sums_are_exact("abcabcb2", counts[i], false);
}

/* The square root of the members in each, less one: two and two of eight, two and one of six, all others of five. */
static void two_rounds_are_few_messages(void **state)
{
	static const struct {
		const char *leaves;
		uint64_t small, longer;
	} cases[] = { { "-----", 4, 4 }, { "------", 3, 5 }, { "--------", 4, 7 }, { "----------------", 6, 15 } };
	float send[2000] = { 0 }, recv[16][2000];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t longer = 0; longer < 2; longer++) {
			struct aggregate_request *requests[PARTY_MAX] = { 0 };
			struct aggregate_counters before[16], after;
			struct params params;
			struct party party;

			party_params(&params);
			params.aggregate_direct_bytes = sizeof(send);
			assert_int_equal(party_open(&party, &params, cases[i].leaves), 0);
			for (size_t m = 0; m < party.count; m++)
				aggregate_counters(party.members[m].group, &before[m]);
			for (size_t m = 0; m < party.count; m++)
				assert_int_equal(party_reduce(&party.members[m], send, recv[m], longer ? 2000 : 100,
							      REDUCE_FLOAT32, REDUCE_SUM, &requests[m]),
						 0);
			assert_int_equal(party_finish(&party, requests), 0);
			for (size_t m = 0; m < party.count; m++) {
				aggregate_counters(party.members[m].group, &after);
				assert_int_equal(after.messages_sent - before[m].messages_sent,
						 longer ? cases[i].longer : cases[i].small);
			}
			party_close(&party);
		}
}

static void large_operations_are_staged_in_one_leaf(void **state)
{
	(void)state;
	sums_are_exact("--", 100001, false);
	sums_are_exact("--------", 1 << 20, false);
	sums_are_exact("----", 123457, true);
}

static void large_operations_are_staged_over_leaves_and_hosts(void **state)
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_member_alone),
		cmocka_unit_test(small_operations_are_exchanged),
		cmocka_unit_test(small_operations_of_many_take_two_rounds),
		cmocka_unit_test(two_rounds_are_few_messages),
		cmocka_unit_test(large_operations_are_staged_in_one_leaf),
		cmocka_unit_test(large_operations_are_staged_over_leaves_and_hosts),
		cmocka_unit_test(the_longest_operation),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
