/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every level that this CPU has, against arithmetic that is slow and plain (slow.h), bit by bit. */
#include "reduce/reduce.h"

#include "elements.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
	COUNT_MAX = 130,
	ELEMENT_MAX = 8,
	ARRAY_BYTES = COUNT_MAX * ELEMENT_MAX,
	GUARD = 128, /* bytes before and after an array, more than the widest vector */
	ROOM = ARRAY_BYTES + 2 * GUARD,
	INPUTS = REDUCE_INPUTS_MAX,
};

static enum reduce_level levels[REDUCE_LEVEL_COUNT];
static unsigned level_count;
static uint64_t chance;

/* Arrays at a chosen distance from an aligned address, with guards around. */
static struct {
	_Alignas(64) unsigned char input[INPUTS][ROOM], to[ROOM], expected[ROOM], kept[INPUTS][ROOM];
	const void *inputs[INPUTS];
} memory;

static void say_where(enum reduce_level level, enum reduce_type type, enum reduce_operation operation, unsigned inputs,
		      size_t count)
{
	print_error("%s, %s of %u arrays of %zu %s\n", reduce_level_word(level), reduce_operation_word(operation),
		    inputs, count, reduce_type_word(type));
}

/* The kernels go another way where a result is NaN, so half of all inputs have none. */
static void fill_inputs(enum reduce_type type, unsigned inputs, size_t count, const size_t *shifts)
{
	bool finite = random_next(&chance) & 1;

	for (unsigned i = 0; i < inputs; i++) {
		pattern_fill(memory.input[i], ROOM, i);
		element_fill(type, finite, memory.input[i] + GUARD + shifts[i], count, &chance);
		memory.inputs[i] = memory.input[i] + GUARD + shifts[i];
	}
	memcpy(memory.kept, memory.input, sizeof(memory.kept));
}

/* What memory.to must be afterwards: the result, and its surroundings as they were. */
static void expect(enum reduce_type type, enum reduce_operation operation, unsigned inputs, size_t count,
		   const unsigned char *before, size_t shift)
{
	uint64_t operands[INPUTS];

	memcpy(memory.expected, before, ROOM);
	for (size_t i = 0; i < count; i++) {
		for (unsigned k = 0; k < inputs; k++)
			operands[k] = element_get(type, memory.inputs[k], i);
		element_set(type, memory.expected + GUARD + shift, i, slow_reduce(type, operation, operands, inputs));
	}
}

/* One reduction at every level, into an array of its own. */
static void compare(enum reduce_type type, enum reduce_operation operation, unsigned inputs, size_t count,
		    const size_t *shifts, size_t to_shift)
{
	unsigned char before[ROOM];

	fill_inputs(type, inputs, count, shifts);
	pattern_fill(before, ROOM, 77);
	expect(type, operation, inputs, count, before, to_shift);
	for (unsigned l = 0; l < level_count; l++) {
		memcpy(memory.to, before, ROOM);
		reduce_at(levels[l], type, operation)(memory.to + GUARD + to_shift, inputs, memory.inputs, count);
		if (memcmp(memory.to, memory.expected, ROOM))
			say_where(levels[l], type, operation, inputs, count);
		assert_memory_equal(memory.to, memory.expected, ROOM);
		assert_memory_equal(memory.input, memory.kept, inputs * sizeof(memory.input[0]));
	}
}

#define FOR_ALL(type, operation)                                          \
	for (enum reduce_type type = 0; type < REDUCE_TYPE_COUNT; type++) \
		for (enum reduce_operation operation = 0; operation < REDUCE_OPERATION_COUNT; operation++)

static void all_lengths_give_the_bits_of_plain_arithmetic(void **state)
{
	size_t none[INPUTS] = { 0 };

	(void)state;
	FOR_ALL(type, operation)
	for (size_t count = 0; count <= COUNT_MAX; count++)
		for (unsigned round = 0; round < 4; round++)
			compare(type, operation, 2 + (unsigned)(count % 3), count, none, 0);
}

static void any_number_of_inputs_is_one_reduction_in_their_order(void **state)
{
	size_t none[INPUTS] = { 0 };

	(void)state;
	FOR_ALL(type, operation)
	for (unsigned inputs = 1; inputs <= INPUTS; inputs++)
		for (unsigned round = 0; round < 4; round++)
			compare(type, operation, inputs, COUNT_MAX, none, 0);
}

static void any_alignment_will_do(void **state)
{
	size_t shifts[INPUTS];

	(void)state;
	FOR_ALL(type, operation)
	for (size_t shift = 0; shift < 64; shift++) {
		for (unsigned i = 0; i < INPUTS; i++)
			shifts[i] = (size_t)random_below(&chance, 64);
		/* Long enough for whole blocks after the head: the least element has one byte. */
		compare(type, operation, 3, COUNT_MAX, shifts, shift);
	}
}

static void result_may_lie_on_any_input(void **state)
{
	enum { FEW = 5, COUNT = 101 };
	size_t none[INPUTS] = { 0 };

	(void)state;
	FOR_ALL(type, operation)
	for (unsigned inputs = 1; inputs <= FEW; inputs++)
		for (unsigned on = 0; on < inputs; on++) {
			fill_inputs(type, inputs, COUNT, none);
			expect(type, operation, inputs, COUNT, memory.input[on], 0);
			for (unsigned l = 0; l < level_count; l++) {
				memcpy(memory.input, memory.kept, inputs * sizeof(memory.input[0]));
				reduce_at(levels[l], type, operation)(memory.input[on] + GUARD, inputs, memory.inputs,
								      COUNT);
				if (memcmp(memory.input[on], memory.expected, ROOM))
					say_where(levels[l], type, operation, inputs, COUNT);
				assert_memory_equal(memory.input[on], memory.expected, ROOM);
			}
		}
}

/* x + -0 is x, so every value goes through both conversions alone; NaN comes out as the one NaN. */
static void every_16_bit_float_survives_the_conversions(void **state)
{
	static const enum reduce_type types[] = { REDUCE_FLOAT16, REDUCE_BFLOAT16 };
	static uint16_t values[65536], nothing[65536], to[65536];
	const void *inputs[] = { values, nothing };

	(void)state;
	for (size_t i = 0; i < 65536; i++) {
		values[i] = (uint16_t)i;
		nothing[i] = 0x8000;
	}
	for (unsigned t = 0; t < 2; t++)
		for (unsigned l = 0; l < level_count; l++) {
			memset(to, 0x5a, sizeof(to));
			reduce_at(levels[l], types[t], REDUCE_SUM)(to, 2, inputs, 65536);
			for (size_t i = 0; i < 65536; i++) {
				uint64_t nan = types[t] == REDUCE_FLOAT16 ? 0x7c00 : 0x7f80;

				assert_int_equal(to[i], (i & 0x7fff) > nan ? 0x7fff : i);
			}
		}
}

/* Every value with many others: sums and products fall on, just above and just below the middle between two results. */
static void every_16_bit_float_is_rounded_to_nearest_even(void **state)
{
	static const enum reduce_type types[] = { REDUCE_FLOAT16, REDUCE_BFLOAT16 };
	static const enum reduce_operation operations[] = { REDUCE_SUM, REDUCE_PROD };
	static uint16_t values[65536], others[65536], to[65536], expected[65536];
	const void *inputs[] = { values, others };
	unsigned rounds = runtime_long() ? 200 : runtime_sanitized() ? 2 : 8;

	(void)state;
	for (size_t i = 0; i < 65536; i++)
		values[i] = (uint16_t)i;
	for (unsigned round = 0; round < rounds * 4; round++) {
		enum reduce_type type = types[round & 1];
		enum reduce_operation operation = operations[round >> 1 & 1]; /* and round & 4: finite */

		for (size_t i = 0; i < 65536; i++) {
			uint64_t operands[2] = { i, element_any(type, round & 4, &chance) };

			others[i] = (uint16_t)operands[1];
			expected[i] = (uint16_t)slow_reduce(type, operation, operands, 2);
		}
		for (unsigned l = 0; l < level_count; l++) {
			reduce_at(levels[l], type, operation)(to, 2, inputs, 65536);
			if (memcmp(to, expected, sizeof(to)))
				say_where(levels[l], type, operation, 2, 65536);
			assert_memory_equal(to, expected, sizeof(to));
		}
	}
}

/* Larger than what goes past the caches, and a little more than whole blocks; elements at both ends and between. */
static void large_arrays_are_whole_to_their_ends(void **state)
{
	enum { BYTES = (12 << 20) + 1001 * 8, EDGE = 64 };
	unsigned char *arrays[4];
	const void *inputs[3];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		arrays[i] = malloc(BYTES + 2 * EDGE);
		assert_non_null(arrays[i]);
		pattern_fill(arrays[i], BYTES + 2 * EDGE, 1 + i);
	}
	for (enum reduce_type type = 0; type < REDUCE_TYPE_COUNT; type++)
		for (unsigned l = 0; l < level_count; l++) {
			size_t shift = reduce_type_bytes(type) * 3, count = BYTES / reduce_type_bytes(type) - 3;
			uint64_t operands[3];

			for (unsigned i = 0; i < 3; i++)
				inputs[i] = arrays[i] + EDGE + i;
			pattern_fill(arrays[3], EDGE + shift, 4);
			pattern_fill(arrays[3] + EDGE + shift + count * reduce_type_bytes(type), EDGE, 5);
			reduce_at(levels[l], type, REDUCE_SUM)(arrays[3] + EDGE + shift, 3, inputs, count);
			for (size_t i = 0; i < count;
			     i += i < 200 || i + 200 > count ? 1 : 1 + random_below(&chance, 400)) {
				for (unsigned k = 0; k < 3; k++)
					operands[k] = element_get(type, inputs[k], i);
				assert_int_equal(element_get(type, arrays[3] + EDGE + shift, i),
						 slow_reduce(type, REDUCE_SUM, operands, 3));
			}
			assert_int_equal(pattern_wrong_at(arrays[3], EDGE + shift, 4), SIZE_MAX);
			assert_int_equal(
				pattern_wrong_at(arrays[3] + EDGE + shift + count * reduce_type_bytes(type), EDGE, 5),
				SIZE_MAX);
		}
	for (unsigned i = 0; i < 4; i++)
		free(arrays[i]);
}

static uint32_t one_of_floats(enum reduce_level level, enum reduce_operation operation, uint32_t a, uint32_t b)
{
	const void *inputs[] = { &a, &b };
	uint32_t to;

	reduce_at(level, REDUCE_FLOAT32, operation)(&to, 2, inputs, 1);
	return to;
}

/* The rules themselves, with no reference that could share a mistake. */
static void the_rules_of_nan_and_zero(void **state)
{
	enum { NAN_BITS = 0x7fffffff, QUIET = 0x7fc01234, SIGNALLING = 0x7f800001, ONE = 0x3f800000, INF = 0x7f800000 };
	const uint32_t negative = 0x80000000U;

	(void)state;
	for (unsigned l = 0; l < level_count; l++) {
		enum reduce_level at = levels[l];

		for (enum reduce_operation operation = REDUCE_MIN; operation <= REDUCE_MAX; operation++) {
			assert_int_equal(one_of_floats(at, operation, QUIET, ONE), ONE);
			assert_int_equal(one_of_floats(at, operation, ONE, QUIET), ONE);
			assert_int_equal(one_of_floats(at, operation, SIGNALLING, ONE), ONE);
			assert_int_equal(one_of_floats(at, operation, ONE, SIGNALLING | negative), ONE);
			assert_int_equal(one_of_floats(at, operation, SIGNALLING, QUIET | negative), NAN_BITS);
		}
		assert_int_equal(one_of_floats(at, REDUCE_MIN, 0, negative), negative);
		assert_int_equal(one_of_floats(at, REDUCE_MIN, negative, 0), negative);
		assert_int_equal(one_of_floats(at, REDUCE_MAX, 0, negative), 0);
		assert_int_equal(one_of_floats(at, REDUCE_MAX, negative, 0), 0);
		assert_int_equal(one_of_floats(at, REDUCE_MAX, negative, negative), negative);
		assert_int_equal(one_of_floats(at, REDUCE_SUM, INF, INF | negative), NAN_BITS);
		assert_int_equal(one_of_floats(at, REDUCE_SUM, QUIET | negative, ONE), NAN_BITS);
		assert_int_equal(one_of_floats(at, REDUCE_PROD, SIGNALLING, QUIET), NAN_BITS);
		assert_int_equal(one_of_floats(at, REDUCE_PROD, INF, negative), NAN_BITS);
		assert_int_equal(one_of_floats(at, REDUCE_SUM, 1, 2), 3); /* denormals stay */
		/* 1 + 2^-24 is a tie; so is the float above 1, and even is the other way. */
		assert_int_equal(one_of_floats(at, REDUCE_SUM, ONE, 0x33800000), ONE);
		assert_int_equal(one_of_floats(at, REDUCE_SUM, ONE + 1, 0x33800000), ONE + 2);
	}
}

/* 3 x 256 + 7 x 1: in bfloat16 each 1 is lost on the way, and here none is before the end. */
static void sixteen_bit_floats_are_rounded_once(void **state)
{
	uint16_t large = 0x4380, one = 0x3f80, to;
	const void *inputs[] = { &large, &one, &one, &one, &one, &one, &one, &one, &one };

	(void)state;
	for (unsigned l = 0; l < level_count; l++) {
		reduce_at(levels[l], REDUCE_BFLOAT16, REDUCE_SUM)(&to, 9, inputs, 1);
		assert_int_equal(to, 0x4384); /* 264 */
	}
}

/* Rounding, denormals and masks of the caller's thread are as they were. (Its flags say what happened, and may change.) */
static void floating_point_control_stays_as_it_is(void **state)
{
	(void)state;
#if defined(__x86_64__)
	enum { FLAGS = 0x3f };
	size_t none[INPUTS] = { 0 };
	unsigned before = _mm_getcsr() & ~(unsigned)FLAGS;

	FOR_ALL(type, operation)
	compare(type, operation, 3, COUNT_MAX, none, 0);
	assert_int_equal(_mm_getcsr() & ~(unsigned)FLAGS, before);
#else
	print_message("skipped: this looks at a register of x86\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_lengths_give_the_bits_of_plain_arithmetic),
		cmocka_unit_test(any_number_of_inputs_is_one_reduction_in_their_order),
		cmocka_unit_test(any_alignment_will_do),
		cmocka_unit_test(result_may_lie_on_any_input),
		cmocka_unit_test(every_16_bit_float_survives_the_conversions),
		cmocka_unit_test(every_16_bit_float_is_rounded_to_nearest_even),
		cmocka_unit_test(large_arrays_are_whole_to_their_ends),
		cmocka_unit_test(the_rules_of_nan_and_zero),
		cmocka_unit_test(sixteen_bit_floats_are_rounded_once),
		cmocka_unit_test(floating_point_control_stays_as_it_is),
	};

	runtime_start("kernels_test", 300);
	chance = runtime_seed();
	level_count = element_levels(levels);
	for (unsigned l = 0; l < level_count; l++)
		print_message("level %s\n", reduce_level_word(levels[l]));
	return cmocka_run_group_tests_name("reduce/kernels", tests, NULL, NULL);
}
