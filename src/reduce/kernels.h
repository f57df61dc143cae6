/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/reduce: the table of each instruction set, one object each. Those of other architectures are NULL.
 * Threads: any; all constant.
 */
#ifndef TRIBUTARY_REDUCE_KERNELS_H
#define TRIBUTARY_REDUCE_KERNELS_H

#include "reduce/reduce.h"

struct reduce_kernels {
	reduce_function *of[REDUCE_TYPE_COUNT][REDUCE_OPERATION_COUNT];
};

extern const struct reduce_kernels *const reduce_kernels_scalar;
extern const struct reduce_kernels *const reduce_kernels_avx2;
extern const struct reduce_kernels *const reduce_kernels_avx512;
extern const struct reduce_kernels *const reduce_kernels_neon;

#endif
