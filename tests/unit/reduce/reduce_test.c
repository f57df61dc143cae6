/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce/reduce.h"

#include "base/log.h"
#include "reduce/cpu.h"
#include "support/log_lines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void every_type_operation_and_level_has_a_word_of_its_own(void **state)
{
	static const char *const types[] = { "int8",   "uint8",   "int32",   "uint32",  "int64",
					     "uint64", "float16", "float32", "float64", "bfloat16" };
	static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
	static const char *const operations[] = { "sum", "prod", "min", "max" };
	static const char *const level_words[] = { "scalar", "avx2", "avx512", "neon" };

	(void)state;
	for (unsigned i = 0; i < REDUCE_TYPE_COUNT; i++) {
		assert_string_equal(reduce_type_word(i), types[i]);
		assert_int_equal(reduce_type_bytes(i), bytes[i]);
	}
	for (unsigned i = 0; i < REDUCE_OPERATION_COUNT; i++)
		assert_string_equal(reduce_operation_word(i), operations[i]);
	for (unsigned i = 0; i < REDUCE_LEVEL_COUNT; i++)
		assert_string_equal(reduce_level_word(i), level_words[i]);
}

static void tables_are_whole_where_a_level_is_here(void **state)
{
	(void)state;
	assert_true(reduce_level_here(REDUCE_SCALAR));
	assert_true(reduce_level_here(reduce_level_best()));
	for (unsigned level = 0; level < REDUCE_LEVEL_COUNT; level++)
		for (unsigned type = 0; type < REDUCE_TYPE_COUNT; type++)
			for (unsigned operation = 0; operation < REDUCE_OPERATION_COUNT; operation++)
				if (reduce_level_here(level))
					assert_non_null(reduce_at(level, type, operation));
#if defined(__x86_64__)
	assert_false(reduce_level_here(REDUCE_NEON));
	assert_null(reduce_at(REDUCE_NEON, REDUCE_INT8, REDUCE_SUM));
	assert_non_null(reduce_at(REDUCE_AVX512, REDUCE_INT8, REDUCE_SUM));
#endif
}

static void a_level_that_is_not_here_gives_way_to_the_best(void **state)
{
	static const struct {
		enum simd_choice wanted;
		enum reduce_level level;
	} cases[] = {
		{ SIMD_SCALAR, REDUCE_SCALAR },
		{ SIMD_AVX2, REDUCE_AVX2 },
		{ SIMD_AVX512, REDUCE_AVX512 },
		{ SIMD_NEON, REDUCE_NEON },
	};
	enum reduce_level level = REDUCE_LEVEL_COUNT;

	(void)state;
	assert_true(reduce_level_choose(SIMD_AUTO, &level));
	assert_int_equal(level, reduce_level_best());
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool here = reduce_level_here(cases[i].level);

		assert_int_equal(reduce_level_choose(cases[i].wanted, &level), here);
		assert_int_equal(level, here ? cases[i].level : reduce_level_best());
	}
}

static void what_is_asked_for_and_not_here_is_one_warning(void **state)
{
	/* The other architecture's. */
	bool arm = reduce_level_here(REDUCE_NEON);
	char expected[256];

	(void)state;
	log_lines_start(NULL);
	assert_int_equal(reduce_level_start(SIMD_AUTO), reduce_level_best());
	assert_int_equal(reduce_level_start(SIMD_SCALAR), REDUCE_SCALAR);
	assert_int_equal(log_lines()->warnings + log_lines()->infos, 0);
	assert_int_equal(reduce_level_start(arm ? SIMD_AVX2 : SIMD_NEON), reduce_level_best());
	log_set_sink(NULL);
	assert_int_equal(log_lines()->warnings, 1);
	assert_int_equal(log_lines()->infos, 0);
	snprintf(expected, sizeof(expected),
		 "TRIBUTARY_SIMD=%s: this CPU has no such instructions; sums are taken with those of %s.",
		 arm ? "avx2" : "neon", reduce_level_word(reduce_level_best()));
	assert_string_equal(log_lines()->warning, expected);
}

/* What CPUs say: bits of CPUID leaf 1 ECX, leaf 7 EBX, and XCR0. */
static void an_instruction_set_needs_the_cpu_and_the_system(void **state)
{
	enum { NONE = 0, AVX = 1 << REDUCE_AVX2, BOTH = AVX | 1 << REDUCE_AVX512 };
	static const struct {
		struct reduce_cpu cpu;
		unsigned levels;
	} cases[] = {
		{ { 0, 0, 0 }, NONE },
		{ { 0x38000000, 0x00000020, 0x07 }, AVX },  /* Haswell, Zen */
		{ { 0x38000000, 0xd0030020, 0xe7 }, BOTH }, /* Skylake-SP, Zen 4 */
		{ { 0x38000000, 0xd0030020, 0x07 }, AVX },  /* a system that does not save the new registers */
		{ { 0x38000000, 0xd0030020, 0xc7 }, AVX },  /* nor the masks */
		{ { 0x38000000, 0xd0030020, 0x67 }, AVX },  /* nor registers 16 to 31 */
		{ { 0x38000000, 0xd0030020, 0x03 }, NONE }, /* not even AVX's */
		{ { 0x30000000, 0xd0030020, 0xe7 }, NONE }, /* no OSXSAVE */
		{ { 0x18000000, 0xd0030020, 0xe7 }, NONE }, /* no F16C */
		{ { 0x28000000, 0xd0030020, 0xe7 }, NONE }, /* no AVX */
		{ { 0x38000000, 0xd0030000, 0xe7 }, NONE }, /* no AVX2 */
		{ { 0x38000000, 0x10010020, 0xe7 }, AVX },  /* F and CD alone (Xeon Phi) */
		{ { 0x38000000, 0x50030020, 0xe7 }, AVX },  /* without VL */
		{ { 0x38000000, 0x90030020, 0xe7 }, AVX },  /* without BW */
		{ { 0x38000000, 0xd0010020, 0xe7 }, AVX },  /* without DQ */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(reduce_cpu_can(&cases[i].cpu, REDUCE_SCALAR));
		assert_false(reduce_cpu_can(&cases[i].cpu, REDUCE_NEON));
		for (enum reduce_level level = REDUCE_AVX2; level <= REDUCE_AVX512; level++)
			assert_int_equal(reduce_cpu_can(&cases[i].cpu, level), cases[i].levels >> level & 1);
	}
}

/* The compiler's own run-time asks the same CPU. */
static void the_compiler_finds_the_same(void **state)
{
	(void)state;
#if defined(__x86_64__)
	__builtin_cpu_init();
	assert_int_equal(reduce_level_here(REDUCE_AVX2), !!__builtin_cpu_supports("avx2"));
	assert_int_equal(reduce_level_here(REDUCE_AVX512), __builtin_cpu_supports("avx512bw") &&
								   __builtin_cpu_supports("avx512dq") &&
								   __builtin_cpu_supports("avx512vl"));
#else
	print_message("skipped: this asks a CPU of x86\n");
	skip();
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_operation_and_level_has_a_word_of_its_own),
		cmocka_unit_test(tables_are_whole_where_a_level_is_here),
		cmocka_unit_test(a_level_that_is_not_here_gives_way_to_the_best),
		cmocka_unit_test(what_is_asked_for_and_not_here_is_one_warning),
		cmocka_unit_test(an_instruction_set_needs_the_cpu_and_the_system),
		cmocka_unit_test(the_compiler_finds_the_same),
	};

	return cmocka_run_group_tests_name("reduce", tests, NULL, NULL);
}
