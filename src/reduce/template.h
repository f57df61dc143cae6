/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels, for whichever instruction set the including file is compiled for. That file defines VECTOR_BYTES, includes
 * vector.h, and may define, where the hardware has them:
 *
 *   HARDWARE_HALF    with widen_half(vector, vector[2]) and vector narrow_half(vector, vector): 16-bit IEEE floats to and
 *                    from two vectors of float, in any order that is the same both ways
 *   HARDWARE_NAN     with unsigned any_nan_float(const vector[4]) and any_nan_double: not 0 if one lane is NaN
 *   HARDWARE_STREAM  with store_past_caches(unsigned char *, vector), for aligned addresses, and end_stream(void)
 *
 * It gets one table, `kernels`. Everything here is static: an inline function that the linker shared between objects
 * could bring instructions that the CPU lacks into the scalar path.
 *
 * Vectors are the compiler's own (vector_size), which gcc and clang map to the instruction set, or to plain instructions
 * where there is none. So the arithmetic is written once, and only conversions and stores differ.
 *
 * The same bits at every level need three things. No contraction to fused multiply-add and no -ffast-math (Makefile). The
 * floating-point environment that a thread has by itself: to nearest, with denormals. And one NaN: which of two NaN
 * operands an addition passes on, and the sign of inf - inf, depend on the CPU and on the order in which a compiler puts
 * operands, so a result that is NaN is made one with all bits set but the sign. That is also what NVIDIA's GPUs give for
 * float and the 16-bit types (0x7fffffff in the CUDA programming guide): a NaN that passed through a host looks as if it
 * had not.
 *
 * Minimum and maximum are those of NCCL's kernels, that is of CUDA's fminf, fmin and __hmin (CUDA Math API): if one operand
 * is NaN the other is the result; if both are, NaN; -0 is less than +0. (IEEE 754-2019: minimumNumber, maximumNumber.)
 *
 * The bf16 conversion instruction of AVX-512 takes denormals for zero, whatever the thread's environment says, and so is
 * not used: rounding with integers takes seven instructions, once for each result, and memory is slower than that.
 */
#include "reduce/kernels.h"

#include <float.h>

#ifdef __FAST_MATH__
#error "The kernels need IEEE arithmetic: build src/reduce without -ffast-math."
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "float must be computed as float");

enum {
	BLOCK_VECTORS = 4, /* accumulators: 4 for plain types, 8 for widened ones, which 16 registers hold */
	BLOCK_BYTES = BLOCK_VECTORS * VECTOR_BYTES,
	LINE_BYTES = 64,
	/*
	 * How far ahead lines are asked for. The CPU's own guess ends at each page, and work on what is here leaves less
	 * room for loads of what is not: bf16 and fp16 were at 0.73 to 0.88 of the plain loops without, 0.88 to 1.02 with
	 * this; 512, 1024 and 8192 are no better.
	 */
	AHEAD_BYTES = 4096,
};

/*
 * Of inputs and result together, from which on the result goes past the caches. Faster than a store through them as soon as
 * it is not in the core's own cache (2 MiB where it was measured), by a third to a half with two inputs; but up to here
 * whoever sends it finds it in a cache.
 */
#define STREAM_BYTES ((size_t)16 << 20)

#define NAN_OF_FLOAT  0x7fffffffU
#define NAN_OF_DOUBLE UINT64_C(0x7fffffffffffffff)
/* As a float, that of bfloat16; rounding adds less than one in its last place, and so leaves it as it is. */
#define NAN_OF_BFLOAT 0x7fff0000U

/* ---- one vector ------------------------------------------------------------------------------------------------- */

INLINE vector choose(vector mask, vector yes, vector no)
{
	return (mask & yes) | (~mask & no);
}

/* NaN alone is not equal to itself. */

INLINE vector is_nan_float(vector bits)
{
	vector_float x = (vector_float)bits, same = x;

	return (vector)(x != same);
}

INLINE vector is_nan_double(vector bits)
{
	vector_double x = (vector_double)bits, same = x;

	return (vector)(x != same);
}

/* Sums and products of signed integers are those of unsigned ones, which wrap: only the order differs. */
#define INTEGER(name, type_of_order, type_of_sum)                                           \
	INLINE vector combine_##name(enum reduce_operation operation, vector a, vector b)   \
	{                                                                                   \
		switch (operation) {                                                        \
		case REDUCE_SUM:                                                            \
			return (vector)((type_of_sum)a + (type_of_sum)b);                   \
		case REDUCE_PROD:                                                           \
			return (vector)((type_of_sum)a * (type_of_sum)b);                   \
		case REDUCE_MIN:                                                            \
			return choose((vector)((type_of_order)a < (type_of_order)b), a, b); \
		default:                                                                    \
			return choose((vector)((type_of_order)a > (type_of_order)b), a, b); \
		}                                                                           \
	}
INTEGER(int8, vector_int8, vector_uint8)
INTEGER(uint8, vector_uint8, vector_uint8)
INTEGER(int32, vector_int32, vector)
INTEGER(uint32, vector, vector)
INTEGER(int64, vector_int64, vector_uint64)
INTEGER(uint64, vector_uint64, vector_uint64)

/* Equal operands have equal bits but for zeros, of which min takes the sign that either has and max the one both have. */
#define FLOATING(name, type)                                                                   \
	INLINE vector combine_##name(enum reduce_operation operation, vector a, vector b)      \
	{                                                                                      \
		type x = (type)a, y = (type)b;                                                 \
		vector equal = (vector)(x == y), y_is_nan = is_nan_##name(b);                  \
                                                                                               \
		switch (operation) {                                                           \
		case REDUCE_SUM:                                                               \
			return (vector)(x + y);                                                \
		case REDUCE_PROD:                                                              \
			return (vector)(x * y);                                                \
		case REDUCE_MIN:                                                               \
			return choose(equal, a | b, choose((vector)(x < y) | y_is_nan, a, b)); \
		default:                                                                       \
			return choose(equal, a & b, choose((vector)(x > y) | y_is_nan, a, b)); \
		}                                                                              \
	}
FLOATING(float, vector_float)
FLOATING(double, vector_double)

INLINE vector one_nan_float(vector bits, uint32_t nan)
{
	vector zero = { 0 };

	return choose(is_nan_float(bits), zero + nan, bits);
}

INLINE vector one_nan_double(vector bits)
{
	vector_uint64 zero = { 0 };

	return choose(is_nan_double(bits), (vector)(zero + NAN_OF_DOUBLE), bits);
}

#ifndef HARDWARE_NAN
INLINE unsigned any(vector mask)
{
	vector_uint64 words = (vector_uint64)mask;
	uint64_t found = 0;

	for (size_t i = 0; i < VECTOR_BYTES / sizeof(words[0]); i++)
		found |= words[i];
	return found != 0;
}

INLINE unsigned any_nan_float(const vector of[4])
{
	return any(is_nan_float(of[0]) | is_nan_float(of[1]) | is_nan_float(of[2]) | is_nan_float(of[3]));
}

INLINE unsigned any_nan_double(const vector of[4])
{
	return any(is_nan_double(of[0]) | is_nan_double(of[1]) | is_nan_double(of[2]) | is_nan_double(of[3]));
}
#endif

/* ---- 16-bit floats ---------------------------------------------------------------------------------------------- */

/* Even and odd elements apart: the two halves of each 32-bit word, so nothing is moved across lanes. */

INLINE void widen_bfloat(vector raw, vector to[2])
{
	to[0] = raw << 16;
	to[1] = raw & 0xffff0000U;
}

/* Its upper half is the result: to nearest, ties to even; an overflow carries into the exponent and becomes infinite. */
INLINE vector round_bfloat(vector bits)
{
	return bits + 0x7fffU + ((bits >> 16) & 1U);
}

INLINE vector narrow_bfloat(vector even, vector odd)
{
	return round_bfloat(even) >> 16 | (round_bfloat(odd) & 0xffff0000U);
}

#ifndef HARDWARE_HALF
/* A half has 5 bits of exponent with bias 15 and 10 of fraction; a float 8 with bias 127, and 23. */
#define HALF_SHIFT           13
#define HALF_INFINITE        0x7c00U
#define HALF_SMALLEST_NORMAL 0x400U
#define HALF_NAN             0x7fffU
#define BIAS_CHANGE          (112U << 23)

INLINE vector half_to_float(vector half)
{
	vector magnitude = half & 0x7fffU, sign = (half & 0x8000U) << 16, zero = { 0 };
	vector normal = (magnitude << HALF_SHIFT) + BIAS_CHANGE;
	/* As the fraction of a number that begins with 2^-14, which is then taken away: both are exact. */
	vector_float smallest = (vector_float)(zero + (BIAS_CHANGE + (1U << 23)));
	vector denormal = (vector)((vector_float)(normal + (1U << 23)) - smallest);
	vector wide = choose((vector)(magnitude < HALF_SMALLEST_NORMAL), denormal, normal);

	/* The exponent of infinity and NaN is all ones again. */
	return sign | (wide + ((vector)(magnitude >= HALF_INFINITE) & BIAS_CHANGE));
}

INLINE vector float_to_half(vector bits)
{
	vector magnitude = bits & 0x7fffffffU, sign = (bits & 0x80000000U) >> 16, zero = { 0 };
	vector even = (magnitude >> HALF_SHIFT) & 1U;
	vector normal = (magnitude + (0xfffU - BIAS_CHANGE) + even) >> HALF_SHIFT;
	/* Added to 0.5, whose last bit is worth 2^-24 as that of a denormal half: the addition rounds. */
	vector_float half_of_one = (vector_float)(zero + 0x3f000000U);
	vector denormal = (vector)((vector_float)magnitude + half_of_one) - 0x3f000000U;
	vector finite = choose((vector)(magnitude < 0x38800000U), denormal, normal);

	/* 65520 lies between the largest half and what would be the next one, and goes to even. */
	finite = sign | choose((vector)(magnitude >= 0x477ff000U), zero + HALF_INFINITE, finite);
	return choose((vector)(magnitude > 0x7f800000U), zero + HALF_NAN, finite);
}

INLINE void widen_half(vector raw, vector to[2])
{
	to[0] = half_to_float(raw & 0xffffU);
	to[1] = half_to_float(raw >> 16);
}

INLINE vector narrow_half(vector even, vector odd)
{
	return float_to_half(even) | float_to_half(odd) << 16;
}
#endif

/* ---- what is accumulated: a vector of the type, or two of float for the 16-bit types ------------------------------ */

struct sum {
	vector part[2];
};

INLINE struct sum take(enum reduce_type type, vector raw)
{
	struct sum sum = { { raw, raw } };

	if (type == REDUCE_FLOAT16)
		widen_half(raw, sum.part);
	else if (type == REDUCE_BFLOAT16)
		widen_bfloat(raw, sum.part);
	return sum;
}

INLINE struct sum combine(enum reduce_type type, enum reduce_operation operation, struct sum a, vector raw)
{
	struct sum b = take(type, raw);

	switch (type) {
	case REDUCE_INT8:
		return (struct sum){ { combine_int8(operation, a.part[0], raw), raw } };
	case REDUCE_UINT8:
		return (struct sum){ { combine_uint8(operation, a.part[0], raw), raw } };
	case REDUCE_INT32:
		return (struct sum){ { combine_int32(operation, a.part[0], raw), raw } };
	case REDUCE_UINT32:
		return (struct sum){ { combine_uint32(operation, a.part[0], raw), raw } };
	case REDUCE_INT64:
		return (struct sum){ { combine_int64(operation, a.part[0], raw), raw } };
	case REDUCE_UINT64:
		return (struct sum){ { combine_uint64(operation, a.part[0], raw), raw } };
	case REDUCE_FLOAT64:
		return (struct sum){ { combine_double(operation, a.part[0], raw), raw } };
	case REDUCE_FLOAT32:
		return (struct sum){ { combine_float(operation, a.part[0], raw), raw } };
	default:
		return (struct sum){ { combine_float(operation, a.part[0], b.part[0]),
				       combine_float(operation, a.part[1], b.part[1]) } };
	}
}

INLINE struct sum one_nan(enum reduce_type type, struct sum sum)
{
	switch (type) {
	case REDUCE_FLOAT16:
	case REDUCE_FLOAT32:
		return (struct sum){ { one_nan_float(sum.part[0], NAN_OF_FLOAT),
				       one_nan_float(sum.part[1], NAN_OF_FLOAT) } };
	case REDUCE_BFLOAT16:
		return (struct sum){ { one_nan_float(sum.part[0], NAN_OF_BFLOAT),
				       one_nan_float(sum.part[1], NAN_OF_BFLOAT) } };
	case REDUCE_FLOAT64:
		return (struct sum){ { one_nan_double(sum.part[0]), sum.part[1] } };
	default:
		return sum;
	}
}

INLINE bool has_nan(enum reduce_type type, const struct sum of[4])
{
	vector first[4] = { of[0].part[0], of[1].part[0], of[2].part[0], of[3].part[0] };
	vector second[4] = { of[0].part[1], of[1].part[1], of[2].part[1], of[3].part[1] };

	switch (type) {
	case REDUCE_FLOAT16:
	case REDUCE_BFLOAT16:
		return (any_nan_float(first) | any_nan_float(second)) != 0;
	case REDUCE_FLOAT32:
		return any_nan_float(first) != 0;
	case REDUCE_FLOAT64:
		return any_nan_double(first) != 0;
	default:
		return false;
	}
}

/* What is NaN must be the one NaN. */
INLINE vector result(enum reduce_type type, struct sum sum)
{
	switch (type) {
	case REDUCE_FLOAT16:
		return narrow_half(sum.part[0], sum.part[1]);
	case REDUCE_BFLOAT16:
		return narrow_bfloat(sum.part[0], sum.part[1]);
	default:
		return sum.part[0];
	}
}

/* ---- all of it ---------------------------------------------------------------------------------------------------- */

struct job {
	unsigned char *to;
	unsigned input_count;
	const void *const *inputs;
};

INLINE vector load(const struct job *job, unsigned input, size_t offset)
{
	return *(const vector_anywhere *)((const unsigned char *)job->inputs[input] + offset);
}

INLINE void store(unsigned char *to, vector value, bool stream)
{
#ifdef HARDWARE_STREAM
	if (stream) {
		store_past_caches(to, value);
		return;
	}
#endif
	(void)stream;
	*(vector_anywhere *)to = value;
}

/* Fewer bytes than a vector has; nothing beyond them is read or written. */
INLINE void reduce_part(enum reduce_type type, enum reduce_operation operation, const struct job *job, size_t offset,
			size_t bytes)
{
	vector raw = { 0 };
	struct sum sum;

	memcpy(&raw, (const unsigned char *)job->inputs[0] + offset, bytes);
	sum = take(type, raw);
	for (unsigned i = 1; i < job->input_count; i++) {
		memcpy(&raw, (const unsigned char *)job->inputs[i] + offset, bytes);
		sum = combine(type, operation, sum, raw);
	}
	raw = result(type, one_nan(type, sum));
	memcpy(job->to + offset, &raw, bytes);
}

INLINE void reduce_few(enum reduce_type type, enum reduce_operation operation, const struct job *job, size_t offset,
		       size_t bytes)
{
	for (; bytes >= VECTOR_BYTES; offset += VECTOR_BYTES, bytes -= VECTOR_BYTES) {
		struct sum sum = take(type, load(job, 0, offset));

		for (unsigned i = 1; i < job->input_count; i++)
			sum = combine(type, operation, sum, load(job, i, offset));
		store(job->to + offset, result(type, one_nan(type, sum)), false);
	}
	if (bytes)
		reduce_part(type, operation, job, offset, bytes);
}

INLINE void ahead(const struct job *job, unsigned input, size_t offset)
{
	uintptr_t line = (uintptr_t)job->inputs[input] + offset + AHEAD_BYTES;

	/* No harm beyond the array: what cannot be read is not. */
	for (size_t i = 0; i < BLOCK_BYTES; i += LINE_BYTES)
		__builtin_prefetch((const void *)(line + i));
}

/*
 * BLOCK_BYTES with each input's address looked up once; written out, as not every compiler unrolls at -O2. False, and
 * nothing is stored, where a result is NaN: looking once costs less than making every result the one NaN.
 */
INLINE bool reduce_block(enum reduce_type type, enum reduce_operation operation, const struct job *job, size_t offset,
			 bool stream)
{
	struct sum sum[BLOCK_VECTORS] = { take(type, load(job, 0, offset)),
					  take(type, load(job, 0, offset + VECTOR_BYTES)),
					  take(type, load(job, 0, offset + 2 * VECTOR_BYTES)),
					  take(type, load(job, 0, offset + 3 * VECTOR_BYTES)) };
	unsigned char *to = job->to + offset;

	ahead(job, 0, offset);
	for (unsigned i = 1; i < job->input_count; i++) {
		ahead(job, i, offset);
		sum[0] = combine(type, operation, sum[0], load(job, i, offset));
		sum[1] = combine(type, operation, sum[1], load(job, i, offset + VECTOR_BYTES));
		sum[2] = combine(type, operation, sum[2], load(job, i, offset + 2 * VECTOR_BYTES));
		sum[3] = combine(type, operation, sum[3], load(job, i, offset + 3 * VECTOR_BYTES));
	}
	if (has_nan(type, sum))
		return false;
	store(to, result(type, sum[0]), stream);
	store(to + VECTOR_BYTES, result(type, sum[1]), stream);
	store(to + 2 * VECTOR_BYTES, result(type, sum[2]), stream);
	store(to + 3 * VECTOR_BYTES, result(type, sum[3]), stream);
	return true;
}

/* Results that nobody reads soon: they would only push other things out, and a line to be overwritten would be read first. */
INLINE bool past_caches(const struct job *job, size_t offset, size_t bytes)
{
#ifdef HARDWARE_STREAM
	if (bytes / LINE_BYTES < STREAM_BYTES / LINE_BYTES / (job->input_count + 1) ||
	    ((uintptr_t)job->to + offset) % LINE_BYTES)
		return false;
	for (unsigned i = 0; i < job->input_count; i++)
		if (job->inputs[i] == job->to) /* its lines are being read as it is */
			return false;
	return true;
#else
	(void)job;
	(void)offset;
	(void)bytes;
	return false;
#endif
}

typedef void reduce_some(const struct job *job, size_t offset, size_t bytes);

INLINE void reduce(enum reduce_type type, enum reduce_operation operation, reduce_some *few, const struct job *job,
		   size_t element_bytes, size_t count)
{
	size_t bytes = count * element_bytes, offset = 0;
	/* To where the result's first whole cache line begins, if an element begins there. */
	size_t head = -(uintptr_t)job->to % LINE_BYTES;
	bool stream;

	if (!bytes)
		return;
	if (job->input_count == 1) {
		if (job->to != job->inputs[0])
			memcpy(job->to, job->inputs[0], bytes);
		return;
	}
	if (head && head % element_bytes == 0 && head < bytes) {
		few(job, 0, head);
		offset = head;
	}
	stream = past_caches(job, offset, bytes - offset);
	for (; bytes - offset >= BLOCK_BYTES; offset += BLOCK_BYTES)
		if (!reduce_block(type, operation, job, offset, stream))
			few(job, offset, BLOCK_BYTES);
#ifdef HARDWARE_STREAM
	if (stream)
		end_stream();
#endif
	few(job, offset, bytes - offset);
}

#define KERNEL(word, type, element, suffix, operation)                                                       \
	static __attribute__((noinline)) void few_##word##_##suffix(const struct job *job, size_t offset,    \
								    size_t bytes)                            \
	{                                                                                                    \
		reduce_few(type, operation, job, offset, bytes);                                             \
	}                                                                                                    \
	static void word##_##suffix(void *to, unsigned input_count, const void *const *inputs, size_t count) \
	{                                                                                                    \
		struct job job = { to, input_count, inputs };                                                \
                                                                                                             \
		reduce(type, operation, few_##word##_##suffix, &job, sizeof(element), count);                \
	}
#define KERNELS_THAT_ADD(word, type, element)        \
	KERNEL(word, type, element, sum, REDUCE_SUM) \
	KERNEL(word, type, element, prod, REDUCE_PROD)
#define KERNELS_THAT_COMPARE(word, type, element)    \
	KERNEL(word, type, element, min, REDUCE_MIN) \
	KERNEL(word, type, element, max, REDUCE_MAX)
#define ROW(type, adds, compares)              \
	[type] = {                             \
		[REDUCE_SUM] = adds##_sum,     \
		[REDUCE_PROD] = adds##_prod,   \
		[REDUCE_MIN] = compares##_min, \
		[REDUCE_MAX] = compares##_max, \
	}

KERNELS_THAT_ADD(uint8, REDUCE_UINT8, uint8_t)
KERNELS_THAT_ADD(uint32, REDUCE_UINT32, uint32_t)
KERNELS_THAT_ADD(uint64, REDUCE_UINT64, uint64_t)
KERNELS_THAT_ADD(float16, REDUCE_FLOAT16, uint16_t)
KERNELS_THAT_ADD(float32, REDUCE_FLOAT32, float)
KERNELS_THAT_ADD(float64, REDUCE_FLOAT64, double)
KERNELS_THAT_ADD(bfloat16, REDUCE_BFLOAT16, uint16_t)
KERNELS_THAT_COMPARE(int8, REDUCE_INT8, int8_t)
KERNELS_THAT_COMPARE(uint8, REDUCE_UINT8, uint8_t)
KERNELS_THAT_COMPARE(int32, REDUCE_INT32, int32_t)
KERNELS_THAT_COMPARE(uint32, REDUCE_UINT32, uint32_t)
KERNELS_THAT_COMPARE(int64, REDUCE_INT64, int64_t)
KERNELS_THAT_COMPARE(uint64, REDUCE_UINT64, uint64_t)
KERNELS_THAT_COMPARE(float16, REDUCE_FLOAT16, uint16_t)
KERNELS_THAT_COMPARE(float32, REDUCE_FLOAT32, float)
KERNELS_THAT_COMPARE(float64, REDUCE_FLOAT64, double)
KERNELS_THAT_COMPARE(bfloat16, REDUCE_BFLOAT16, uint16_t)

static const struct reduce_kernels kernels = { {
	ROW(REDUCE_INT8, uint8, int8),
	ROW(REDUCE_UINT8, uint8, uint8),
	ROW(REDUCE_INT32, uint32, int32),
	ROW(REDUCE_UINT32, uint32, uint32),
	ROW(REDUCE_INT64, uint64, int64),
	ROW(REDUCE_UINT64, uint64, uint64),
	ROW(REDUCE_FLOAT16, float16, float16),
	ROW(REDUCE_FLOAT32, float32, float32),
	ROW(REDUCE_FLOAT64, float64, float64),
	ROW(REDUCE_BFLOAT16, bfloat16, bfloat16),
} };
