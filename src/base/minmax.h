/* SPDX-License-Identifier: Apache-2.0 */
/* The smaller and the larger of two numbers. */
#ifndef TRIBUTARY_BASE_MINMAX_H
#define TRIBUTARY_BASE_MINMAX_H

#include <stdint.h>

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}
static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}
static inline int64_t min_i64(int64_t a, int64_t b)
{
	return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b)
{
	return a > b ? a : b;
}
/* a less b, not below 0. */
static inline uint64_t less_u64(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}
/* The smaller one that is known: not 0. */
static inline uint64_t min_known_u64(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

#endif
