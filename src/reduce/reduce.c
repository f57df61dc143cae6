/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce/reduce.h"

#include "base/log.h"
#include "reduce/cpu.h"
#include "reduce/kernels.h"

static const struct {
	const char *word;
	size_t bytes;
} types[REDUCE_TYPE_COUNT] = {
	[REDUCE_INT8] = { "int8", 1 },         [REDUCE_UINT8] = { "uint8", 1 },     [REDUCE_INT32] = { "int32", 4 },
	[REDUCE_UINT32] = { "uint32", 4 },     [REDUCE_INT64] = { "int64", 8 },     [REDUCE_UINT64] = { "uint64", 8 },
	[REDUCE_FLOAT16] = { "float16", 2 },   [REDUCE_FLOAT32] = { "float32", 4 }, [REDUCE_FLOAT64] = { "float64", 8 },
	[REDUCE_BFLOAT16] = { "bfloat16", 2 },
};

static const char *const operation_words[REDUCE_OPERATION_COUNT] = {
	[REDUCE_SUM] = "sum",
	[REDUCE_PROD] = "prod",
	[REDUCE_MIN] = "min",
	[REDUCE_MAX] = "max",
};

static const char *const level_words[REDUCE_LEVEL_COUNT] = {
	[REDUCE_SCALAR] = "scalar",
	[REDUCE_AVX2] = "avx2",
	[REDUCE_AVX512] = "avx512",
	[REDUCE_NEON] = "neon",
};

size_t reduce_type_bytes(enum reduce_type type)
{
	return types[type].bytes;
}

const char *reduce_type_word(enum reduce_type type)
{
	return types[type].word;
}

const char *reduce_operation_word(enum reduce_operation operation)
{
	return operation_words[operation];
}

const char *reduce_level_word(enum reduce_level level)
{
	return level_words[level];
}

static const struct reduce_kernels *kernels_of(enum reduce_level level)
{
	switch (level) {
	case REDUCE_SCALAR:
		return reduce_kernels_scalar;
	case REDUCE_AVX2:
		return reduce_kernels_avx2;
	case REDUCE_AVX512:
		return reduce_kernels_avx512;
	case REDUCE_NEON:
		return reduce_kernels_neon;
	default:
		return NULL;
	}
}

static bool here(const struct reduce_cpu *cpu, enum reduce_level level)
{
	/* Every CPU that NEON is built for has it. */
	return kernels_of(level) && (level == REDUCE_NEON || reduce_cpu_can(cpu, level));
}

bool reduce_level_here(enum reduce_level level)
{
	struct reduce_cpu cpu = reduce_cpu_ask();

	return here(&cpu, level);
}

enum reduce_level reduce_level_best(void)
{
	static const enum reduce_level best_first[] = { REDUCE_AVX512, REDUCE_AVX2, REDUCE_NEON };
	struct reduce_cpu cpu = reduce_cpu_ask();

	for (size_t i = 0; i < sizeof(best_first) / sizeof(best_first[0]); i++)
		if (here(&cpu, best_first[i]))
			return best_first[i];
	return REDUCE_SCALAR;
}

static const enum reduce_level asked_for[SIMD_COUNT] = {
	[SIMD_SCALAR] = REDUCE_SCALAR,
	[SIMD_AVX2] = REDUCE_AVX2,
	[SIMD_AVX512] = REDUCE_AVX512,
	[SIMD_NEON] = REDUCE_NEON,
};

bool reduce_level_choose(enum simd_choice wanted, enum reduce_level *ret)
{
	if (wanted != SIMD_AUTO && reduce_level_here(asked_for[wanted])) {
		*ret = asked_for[wanted];
		return true;
	}
	*ret = reduce_level_best();
	return wanted == SIMD_AUTO;
}

enum reduce_level reduce_level_start(enum simd_choice wanted)
{
	enum reduce_level level;

	if (!reduce_level_choose(wanted, &level))
		log_warn("TRIBUTARY_SIMD=%s: this CPU has no such instructions; sums are taken with those of %s.",
			 level_words[asked_for[wanted]], level_words[level]);
	return level;
}

/* To nearest, denormals as they are, no traps: what a process starts with. The low bits of x86's say what has happened. */
#if defined(__x86_64__)
enum { ENVIRONMENT = 0x1f80, ENVIRONMENT_FLAGS = 0x3f };

static uint64_t environment_get(void)
{
	return __builtin_ia32_stmxcsr() & ~(unsigned)ENVIRONMENT_FLAGS;
}

static void environment_set(uint64_t environment)
{
	__builtin_ia32_ldmxcsr((unsigned)environment);
}
#elif defined(__aarch64__)
enum { ENVIRONMENT = 0 };

static uint64_t environment_get(void)
{
	uint64_t environment;

	__asm__ volatile("mrs %0, fpcr" : "=r"(environment));
	return environment;
}

static void environment_set(uint64_t environment)
{
	__asm__ volatile("msr fpcr, %0" ::"r"(environment));
}
#else
enum { ENVIRONMENT = 0 };

static uint64_t environment_get(void)
{
	return ENVIRONMENT;
}

static void environment_set(uint64_t environment)
{
	(void)environment;
}
#endif

uint64_t reduce_begin(void)
{
	uint64_t was = environment_get();

	if (was != ENVIRONMENT)
		environment_set(ENVIRONMENT);
	return was;
}

void reduce_end(uint64_t was)
{
	if (was != ENVIRONMENT)
		environment_set(was);
}

reduce_function *reduce_at(enum reduce_level level, enum reduce_type type, enum reduce_operation operation)
{
	const struct reduce_kernels *kernels = kernels_of(level);

	return kernels ? kernels->of[type][operation] : NULL;
}
