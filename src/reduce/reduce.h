/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions in host memory: several inputs, one output, one pass over memory. One source is compiled once for each
 * instruction set; every level gives the same bits, those of REDUCE_SCALAR.
 *
 * Order. The result is ((i0 ∘ i1) ∘ i2) ∘ … in the order given. 16-bit floats are widened to float, combined in float,
 * and rounded to nearest even once, at the end; float and double are combined as they are; integers wrap around.
 * Minimum and maximum: an operand that is NaN counts only if both are, and -0 is less than +0, as in NCCL's kernels. A
 * result that is NaN has all bits set but the sign, whatever NaNs went in. docs/design/aggregation.md says why.
 *
 * Threads: any; all functions but two are pure. The same bits at every level need the calling thread to round to nearest and to
 * keep denormals, as every thread does that nobody told otherwise (a new one inherits that of its maker): kernels do not
 * change it, who calls them from a thread that is somebody else's does (reduce_begin). Nothing here fails: what cannot be
 * is excluded by the types.
 */
#ifndef TRIBUTARY_REDUCE_REDUCE_H
#define TRIBUTARY_REDUCE_REDUCE_H

#include "base/params.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* These numbers, and those of the operations, are sent to aggregators: a new one comes last, and raises AGGREGATOR_WIRE_VERSION. */
enum reduce_type {
	REDUCE_INT8,
	REDUCE_UINT8,
	REDUCE_INT32,
	REDUCE_UINT32,
	REDUCE_INT64,
	REDUCE_UINT64,
	REDUCE_FLOAT16,
	REDUCE_FLOAT32,
	REDUCE_FLOAT64,
	REDUCE_BFLOAT16,
	REDUCE_TYPE_COUNT
};
enum reduce_operation { REDUCE_SUM, REDUCE_PROD, REDUCE_MIN, REDUCE_MAX, REDUCE_OPERATION_COUNT };
enum reduce_level { REDUCE_SCALAR, REDUCE_AVX2, REDUCE_AVX512, REDUCE_NEON, REDUCE_LEVEL_COUNT };

enum { REDUCE_INPUTS_MAX = 64 };

/*
 * to: count elements, which may be one of the inputs itself (same address) and overlaps none otherwise. inputs: 1 to
 * REDUCE_INPUTS_MAX arrays of count elements. Any alignment; any count, 0 included. One input: a copy.
 */
typedef void reduce_function(void *to, unsigned input_count, const void *const *inputs, size_t count);

size_t reduce_type_bytes(enum reduce_type type);
const char *reduce_type_word(enum reduce_type type);
const char *reduce_operation_word(enum reduce_operation operation);
const char *reduce_level_word(enum reduce_level level);

/*
 * What this CPU (and the system: saved registers) can do. REDUCE_SCALAR: always. To be asked once, not for every
 * operation: in a virtual machine the instruction that tells costs tens of microseconds.
 */
bool reduce_level_here(enum reduce_level level);
/* The best level here. */
enum reduce_level reduce_level_best(void);
/*
 * For TRIBUTARY_SIMD. True: *ret is the level asked for, the best one for SIMD_AUTO. False: it is not here, *ret is the
 * best one, and a warning is due.
 */
bool reduce_level_choose(enum simd_choice wanted, enum reduce_level *ret);
/* The same for who starts to reduce: it gives that warning, and returns the level. All else here is pure. */
enum reduce_level reduce_level_start(enum simd_choice wanted);

/*
 * Around calls of kernels, in one thread: the floating-point environment that they need, and the thread's own again. Minimum
 * and maximum of numbers that the CPU takes for zero would be neither of them.
 */
uint64_t reduce_begin(void);
void reduce_end(uint64_t was);

/* NULL for a level of another architecture. May only be called where reduce_level_here says so. */
reduce_function *reduce_at(enum reduce_level level, enum reduce_type type, enum reduce_operation operation);

#endif
