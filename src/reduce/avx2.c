/* SPDX-License-Identifier: Apache-2.0 */
/* AVX2 and F16C. The Makefile compiles this file for them where the architecture has them. */
#include "reduce/kernels.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>

#define VECTOR_BYTES 32
#include "reduce/vector.h"

#define HARDWARE_HALF
INLINE void widen_half(vector raw, vector to[2])
{
	to[0] = (vector)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)raw));
	to[1] = (vector)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)raw, 1));
}

INLINE vector narrow_half(vector low, vector high)
{
	enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

	return (vector)_mm256_set_m128i(_mm256_cvtps_ph((__m256)high, NEAREST), _mm256_cvtps_ph((__m256)low, NEAREST));
}

#define HARDWARE_NAN
INLINE unsigned any_nan_float(const vector of[4])
{
	__m256 a = _mm256_cmp_ps((__m256)of[0], (__m256)of[1], _CMP_UNORD_Q),
	       b = _mm256_cmp_ps((__m256)of[2], (__m256)of[3], _CMP_UNORD_Q);

	return (unsigned)_mm256_movemask_ps(_mm256_or_ps(a, b));
}

INLINE unsigned any_nan_double(const vector of[4])
{
	__m256d a = _mm256_cmp_pd((__m256d)of[0], (__m256d)of[1], _CMP_UNORD_Q),
		b = _mm256_cmp_pd((__m256d)of[2], (__m256d)of[3], _CMP_UNORD_Q);

	return (unsigned)_mm256_movemask_pd(_mm256_or_pd(a, b));
}

#define HARDWARE_STREAM
INLINE void store_past_caches(unsigned char *to, vector value)
{
	_mm256_stream_si256((__m256i *)(void *)to, (__m256i)value);
}

INLINE void end_stream(void)
{
	_mm_sfence();
}

#include "reduce/template.h"

const struct reduce_kernels *const reduce_kernels_avx2 = &kernels;
#else
const struct reduce_kernels *const reduce_kernels_avx2 = NULL;
#endif
