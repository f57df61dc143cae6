/* SPDX-License-Identifier: Apache-2.0 */
/* NEON, which every 64-bit ARM has. */
#include "reduce/kernels.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>

#define VECTOR_BYTES 16
#include "reduce/vector.h"

#define HARDWARE_HALF
INLINE void widen_half(vector raw, vector to[2])
{
	float16x8_t halves = (float16x8_t)raw;

	to[0] = (vector)vcvt_f32_f16(vget_low_f16(halves));
	to[1] = (vector)vcvt_high_f32_f16(halves);
}

INLINE vector narrow_half(vector low, vector high)
{
	return (vector)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)low), (float32x4_t)high);
}

#include "reduce/template.h"

const struct reduce_kernels *const reduce_kernels_neon = &kernels;
#else
const struct reduce_kernels *const reduce_kernels_neon = NULL;
#endif
