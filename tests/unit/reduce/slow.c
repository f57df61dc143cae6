/* SPDX-License-Identifier: Apache-2.0 */
#include "slow.h"

#include <math.h>

/* Enough bits that rounding twice, to these and then to double's 53, is rounding once. */
#if defined(__x86_64__)
__extension__ typedef __float128 wide_float;
#else
typedef long double wide_float;
#endif
__extension__ typedef unsigned __int128 wide_unsigned;
__extension__ typedef __int128 wide_signed;

static const struct slow_format half = { 5, 10 }, bfloat = { 8, 7 }, single = { 8, 23 }, twofold = { 11, 52 };

const struct slow_format *slow_format_of(enum reduce_type type)
{
	switch (type) {
	case REDUCE_FLOAT16:
		return &half;
	case REDUCE_BFLOAT16:
		return &bfloat;
	case REDUCE_FLOAT32:
		return &single;
	case REDUCE_FLOAT64:
		return &twofold;
	default:
		return NULL;
	}
}

static int bias_of(const struct slow_format *format)
{
	return (1 << (format->exponent_bits - 1)) - 1;
}

double slow_value(const struct slow_format *format, uint64_t bits)
{
	uint64_t fraction = bits & ((UINT64_C(1) << format->fraction_bits) - 1);
	int exponent = (int)(bits >> format->fraction_bits & ((1U << format->exponent_bits) - 1));
	bool negative = bits >> (format->fraction_bits + format->exponent_bits) & 1;
	double value;

	if (exponent == (1 << format->exponent_bits) - 1)
		value = fraction ? NAN : INFINITY;
	else if (exponent)
		value = ldexp((double)(fraction | UINT64_C(1) << format->fraction_bits),
			      exponent - bias_of(format) - (int)format->fraction_bits);
	else
		value = ldexp((double)fraction, 1 - bias_of(format) - (int)format->fraction_bits);
	return negative ? -value : value;
}

uint64_t slow_round(const struct slow_format *format, double value)
{
	unsigned sign_at = format->fraction_bits + format->exponent_bits;
	uint64_t sign = signbit(value) ? UINT64_C(1) << sign_at : 0,
		 infinite = ((UINT64_C(1) << format->exponent_bits) - 1) << format->fraction_bits;
	int exponent;
	double units;

	if (isnan(value))
		return (UINT64_C(1) << sign_at) - 1;
	if (isinf(value))
		return sign | infinite;
	value = fabs(value);
	exponent = value > 0 ? ilogb(value) : -10000;
	if (exponent < 1 - bias_of(format))
		exponent = 1 - bias_of(format);
	/* In units of the last place, which is what is rounded: below 2^fraction_bits that is a denormal. */
	units = ldexp(value, (int)format->fraction_bits - exponent);
	units = nearbyint(units);
	/* One exponent more is one step of the whole encoding more: a carry needs no case of its own. */
	uint64_t bits = (uint64_t)units + ((uint64_t)(exponent + bias_of(format) - 1) << format->fraction_bits);
	return sign | (bits < infinite ? bits : infinite);
}

/* The rules of reduce.h in words: NaN only if both are; -0 below +0. */
static bool goes_before(double a, double b)
{
	return a < b || (a == b && signbit(a) && !signbit(b));
}

static double lesser(double a, double b)
{
	if (isnan(a))
		return b;
	if (isnan(b))
		return a;
	return goes_before(a, b) ? a : b;
}

static double greater(double a, double b)
{
	if (isnan(a))
		return b;
	if (isnan(b))
		return a;
	return goes_before(a, b) ? b : a;
}

/* One step, exact or in `wide_float`; rounded to double. */
static double step(enum reduce_operation operation, double a, double b)
{
	switch (operation) {
	case REDUCE_SUM:
		return (double)((wide_float)a + (wide_float)b);
	case REDUCE_PROD:
		return (double)((wide_float)a * (wide_float)b);
	case REDUCE_MIN:
		return lesser(a, b);
	default:
		return greater(a, b);
	}
}

static uint64_t reduce_floats(const struct slow_format *format, enum reduce_operation operation,
			      const uint64_t *operands, unsigned count)
{
	/* double for double, and float for all that is narrower, after each step. */
	const struct slow_format *between = format == &twofold ? &twofold : &single;
	double sum = slow_value(format, operands[0]);

	for (unsigned i = 1; i < count; i++)
		sum = slow_value(between, slow_round(between, step(operation, sum, slow_value(format, operands[i]))));
	return slow_round(format, sum);
}

static wide_signed as_number(enum reduce_type type, uint64_t bits)
{
	switch (type) {
	case REDUCE_INT8:
		return (int8_t)bits;
	case REDUCE_INT32:
		return (int32_t)bits;
	case REDUCE_INT64:
		return (int64_t)bits;
	default:
		return bits;
	}
}

static uint64_t reduce_integers(enum reduce_type type, enum reduce_operation operation, const uint64_t *operands,
				unsigned count)
{
	unsigned bits = (unsigned)reduce_type_bytes(type) * 8;
	wide_unsigned modulus = (wide_unsigned)1 << bits, sum = operands[0];

	for (unsigned i = 1; i < count; i++) {
		uint64_t next = operands[i];
		bool first = as_number(type, (uint64_t)sum) < as_number(type, next);

		if (operation == REDUCE_SUM)
			sum = (sum + next) % modulus;
		else if (operation == REDUCE_PROD)
			sum = sum * next % modulus;
		else if (first != (operation == REDUCE_MIN))
			sum = next;
	}
	return (uint64_t)sum;
}

uint64_t slow_reduce(enum reduce_type type, enum reduce_operation operation, const uint64_t *operands, unsigned count)
{
	const struct slow_format *format = slow_format_of(type);

	if (count == 1)
		return operands[0];
	return format ? reduce_floats(format, operation, operands, count)
		      : reduce_integers(type, operation, operands, count);
}
