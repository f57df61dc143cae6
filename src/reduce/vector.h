/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of VECTOR_BYTES, which the including file defines: types of the compiler, cast into each other without any
 * instruction. The rest of the kernels is in template.h.
 */
#ifndef TRIBUTARY_REDUCE_VECTOR_H
#define TRIBUTARY_REDUCE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kinds and operations are constants where these are called: all of a kernel is one function. */
#define INLINE static inline __attribute__((always_inline))

#define VECTOR __attribute__((vector_size(VECTOR_BYTES)))
typedef uint32_t vector VECTOR; /* of anything */
typedef vector vector_anywhere __attribute__((aligned(1), may_alias));
typedef int8_t vector_int8 VECTOR;
typedef uint8_t vector_uint8 VECTOR;
typedef int32_t vector_int32 VECTOR;
typedef int64_t vector_int64 VECTOR;
typedef uint64_t vector_uint64 VECTOR;
typedef float vector_float VECTOR;
typedef double vector_double VECTOR;

#endif
