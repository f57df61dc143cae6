/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes out is what the group's order of summing says, bit by bit: level by level, rounded after each, the same at
 * every member, for every type and operation and any bits that go in, whether exchanged directly or segmented.
 */
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"
#include "unit/reduce/elements.h"
#include "unit/reduce/slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Of harnesses with one member a host: leaves by first appearance, hosts in the order of their names. */
static uint64_t want(const char *leaves, enum reduce_type type, enum reduce_operation operation, void *const *send,
		     size_t index)
{
	uint64_t partial[GROUP_HARNESS_MAX], members[GROUP_HARNESS_MAX];
	unsigned leaf_count = 0;

	for (size_t first = 0; leaves[first]; first++) {
		unsigned n = 0;

		if (strchr(leaves, leaves[first]) != leaves + first)
			continue;
		for (size_t i = first; leaves[i]; i++)
			if (leaves[i] == leaves[first])
				members[n++] = element_get(type, send[i], index);
		partial[leaf_count++] = n == 1 ? members[0] : slow_reduce(type, operation, members, n);
	}
	return leaf_count == 1 ? partial[0] : slow_reduce(type, operation, partial, leaf_count);
}

static void one_reduction(struct harness *harness, const char *leaves, enum reduce_type type,
			  enum reduce_operation operation, size_t count, uint64_t *random)
{
	struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };
	size_t bytes = count * reduce_type_bytes(type);
	void *send[GROUP_HARNESS_MAX], *recv[GROUP_HARNESS_MAX];
	bool in_place = random_below(random, 2);

	for (size_t m = 0; m < harness->count; m++) {
		send[m] = malloc(bytes + 1);
		recv[m] = malloc(bytes + 1);
		assert_true(send[m] && recv[m]);
		element_fill(type, false, send[m], count, random);
		memcpy(recv[m], send[m], bytes);
	}
	for (size_t m = 0; m < harness->count; m++)
		assert_int_equal(group_harness_reduce(&harness->members[m], in_place ? recv[m] : send[m], recv[m],
						      count, type, operation, &requests[m]),
				 0);
	assert_int_equal(group_harness_finish(harness, requests), 0);
	for (size_t m = 1; m < harness->count; m++)
		assert_memory_equal(recv[m], recv[0], bytes);
	for (size_t i = 0; i < count; i += 1 + count / 5000) {
		uint64_t have = element_get(type, recv[0], i), should = want(leaves, type, operation, send, i);

		if (have != should)
			fail_msg("%s: %s of %s, element %zu of %zu: %llx, not %llx", leaves,
				 reduce_operation_word(operation), reduce_type_word(type), i, count,
				 (unsigned long long)have, (unsigned long long)should);
	}
	for (size_t m = 0; m < harness->count; m++) {
		free(send[m]);
		free(recv[m]);
	}
}

static void every_type_and_operation(const char *leaves)
{
	struct params params;
	struct harness harness;
	uint64_t random = runtime_seed();

	group_harness_params(&params);
	assert_int_equal(group_harness_open(&harness, &params, leaves), 0);
	for (unsigned type = 0; type < REDUCE_TYPE_COUNT; type++)
		for (unsigned operation = 0; operation < REDUCE_OPERATION_COUNT; operation++) {
			size_t element = reduce_type_bytes(type);

			one_reduction(&harness, leaves, type, operation, 1 + random_below(&random, 700), &random);
			one_reduction(&harness, leaves, type, operation,
				      (16 << 10) / element + 1 + random_below(&random, 20000), &random);
		}
	group_harness_close(&harness);
}

static void one_leaf(void **state)
{
	(void)state;
	every_type_and_operation("aaaaa");
}

static void leaves_of_one_size(void **state)
{
	(void)state;
	every_type_and_operation("abab");
}

static void uneven_leaves(void **state)
{
	(void)state;
	every_type_and_operation("aabaaca");
}

struct way {
	const char *leaves;
	size_t count; /* floats */
	bool split;   /* unless segments of a certain length were asked for */
};

static void reduce_with(const struct way *way, size_t segment_bytes, void *const *send, void **recv, void *first,
			bool is_first)
{
	size_t bytes = way->count * sizeof(float);
	struct aggregate_counters counters;
	struct params params;
	struct harness harness;

	group_harness_params(&params);
	params.aggregate_segment_bytes = segment_bytes;
	assert_int_equal(group_harness_open(&harness, &params, way->leaves), 0);
	for (size_t round = 0; round < 3; round++) {
		struct aggregate_request *requests[GROUP_HARNESS_MAX] = { 0 };

		for (size_t m = 0; m < harness.count; m++)
			assert_int_equal(group_harness_reduce(&harness.members[m], send[m], recv[m], way->count,
							      REDUCE_FLOAT32, REDUCE_SUM, &requests[m]),
					 0);
		assert_int_equal(group_harness_finish(&harness, requests), 0);
		if (is_first && round == 0)
			memcpy(first, recv[0], bytes);
		for (size_t m = 0; m < harness.count; m++)
			assert_memory_equal(recv[m], first, bytes);
	}
	aggregate_counters(harness.members[0].group, &counters);
	assert_int_equal(counters.part_operations, way->split && !segment_bytes ? 3 : 0);
	assert_int_equal(counters.flat_operations, 0);
	assert_int_equal(counters.segments > 0, !way->split || segment_bytes);
	group_harness_close(&harness);
}

/* The association belongs to the group: the way, the segments and the aggregators do not show in the bits. */
static void the_schedule_does_not_show(void **state)
{
	static const size_t segments[] = { 0, 20000, 100000, 512 << 10 };
	static const struct way ways[] = {
		{ "aaabbbcb", 300001, false }, { "aaabbbcb", 8192, true }, { "aaabbbcb", 8193, false },
		{ "aaaaaaa", 28001, true },    { "a2aa3a", 24999, true },  { "-----", 5000, true },
	};
	size_t bytes = 300001 * sizeof(float);
	void *first = malloc(bytes), *send[8], *recv[8];
	uint64_t random = runtime_seed();

	(void)state;
	for (size_t m = 0; m < 8; m++) {
		send[m] = malloc(bytes);
		recv[m] = malloc(bytes);
		element_fill(REDUCE_FLOAT32, false, send[m], 300001, &random);
	}
	for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
		for (size_t k = 0; k < sizeof(segments) / sizeof(segments[0]); k++)
			reduce_with(&ways[w], segments[k], send, recv, first, k == 0);
	for (size_t m = 0; m < 8; m++) {
		free(send[m]);
		free(recv[m]);
	}
	free(first);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_leaf),
		cmocka_unit_test(leaves_of_one_size),
		cmocka_unit_test(uneven_leaves),
		cmocka_unit_test(the_schedule_does_not_show),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
