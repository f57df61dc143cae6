/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions one element at a time, in wider arithmetic and with explicit rounding: what the kernels are compared with.
 * Shares nothing with them but the enums. Elements are bits, in the low bytes of a uint64_t. Pure; any thread.
 */
#ifndef TESTS_UNIT_REDUCE_SLOW_H
#define TESTS_UNIT_REDUCE_SLOW_H

#include "reduce/reduce.h"

/* A binary floating-point format of at most 64 bits, IEEE 754's way. */
struct slow_format {
	unsigned exponent_bits, fraction_bits;
};
/* NULL for integers. */
const struct slow_format *slow_format_of(enum reduce_type type);

/* Exact; NaN for NaN. The value must fit double. */
double slow_value(const struct slow_format *format, uint64_t bits);
/* To nearest, ties to even; NaN gives all bits but the sign. */
uint64_t slow_round(const struct slow_format *format, double value);

uint64_t slow_reduce(enum reduce_type type, enum reduce_operation operation, const uint64_t *operands, unsigned count);

#endif
