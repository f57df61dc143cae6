/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 as servers have had it since 2017: F, BW, DQ, VL. The Makefile compiles this file for them on x86-64. */
#include "reduce/kernels.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

#define VECTOR_BYTES 64
#include "reduce/vector.h"

/* Without optimisation gcc's header makes macros of the conversions, with a mask of -1 that is no unsigned number. */
#pragma GCC diagnostic ignored "-Wsign-conversion"

#define HARDWARE_HALF
INLINE void widen_half(vector raw, vector to[2])
{
	to[0] = (vector)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)raw));
	to[1] = (vector)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)raw, 1));
}

INLINE vector narrow_half(vector low, vector high)
{
	enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
	__m256i first = _mm512_cvtps_ph((__m512)low, NEAREST), second = _mm512_cvtps_ph((__m512)high, NEAREST);

	return (vector)_mm512_inserti64x4(_mm512_castsi256_si512(first), second, 1);
}

#define HARDWARE_NAN
INLINE unsigned any_nan_float(const vector of[4])
{
	return (unsigned)_mm512_cmp_ps_mask((__m512)of[0], (__m512)of[1], _CMP_UNORD_Q) |
	       (unsigned)_mm512_cmp_ps_mask((__m512)of[2], (__m512)of[3], _CMP_UNORD_Q);
}

INLINE unsigned any_nan_double(const vector of[4])
{
	return (unsigned)_mm512_cmp_pd_mask((__m512d)of[0], (__m512d)of[1], _CMP_UNORD_Q) |
	       (unsigned)_mm512_cmp_pd_mask((__m512d)of[2], (__m512d)of[3], _CMP_UNORD_Q);
}

#define HARDWARE_STREAM
INLINE void store_past_caches(unsigned char *to, vector value)
{
	_mm512_stream_si512((void *)to, (__m512i)value);
}

INLINE void end_stream(void)
{
	_mm_sfence();
}

#include "reduce/template.h"

const struct reduce_kernels *const reduce_kernels_avx512 = &kernels;
#else
const struct reduce_kernels *const reduce_kernels_avx512 = NULL;
#endif
