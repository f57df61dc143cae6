/* SPDX-License-Identifier: Apache-2.0 */
#include "elements.h"

#include "slow.h"

#include <math.h>
#include <string.h>

/* Little-endian, as every machine that NCCL runs on. */
uint64_t element_get(enum reduce_type type, const void *array, size_t index)
{
	size_t bytes = reduce_type_bytes(type);
	uint64_t bits = 0;

	memcpy(&bits, (const char *)array + index * bytes, bytes);
	return bits;
}

void element_set(enum reduce_type type, void *array, size_t index, uint64_t bits)
{
	size_t bytes = reduce_type_bytes(type);

	memcpy((char *)array + index * bytes, &bits, bytes);
}

static uint64_t mask_of(enum reduce_type type)
{
	return UINT64_MAX >> (64 - 8 * reduce_type_bytes(type));
}

uint64_t element_special(enum reduce_type type, uint64_t *random)
{
	const struct slow_format *format = slow_format_of(type);
	uint64_t mask = mask_of(type), sign = mask ^ mask >> 1, one, infinite, pick = random_below(random, 10);

	if (!format) {
		uint64_t integers[] = { 0, 1, mask, sign, sign - 1, 2, mask - 1, sign + 1, 3, sign >> 1 };

		return integers[pick];
	}
	one = UINT64_C(1) << format->fraction_bits; /* of the exponent: the smallest normal number */
	infinite = ((UINT64_C(1) << format->exponent_bits) - 1) * one;
	uint64_t floats[] = {
		0,                            /* zero */
		infinite,                     /* infinity */
		infinite | 1,                 /* a signalling NaN */
		infinite | one >> 1 | 5,      /* a quiet one */
		1,                            /* the smallest denormal */
		one - 1,                      /* the largest */
		one,                          /* the smallest normal */
		infinite - 1,                 /* the largest */
		(infinite >> 1 & ~(one - 1)), /* about 1 */
		random_next(random) % one,    /* any denormal */
	};

	return floats[pick] | (random_next(random) & sign);
}

static uint64_t anything(enum reduce_type type, uint64_t *random)
{
	const struct slow_format *format = slow_format_of(type);
	uint64_t any = random_next(random) & mask_of(type);

	switch (random_below(random, 4)) {
	case 0:
		return element_special(type, random);
	case 1:
		return any;
	default:
		if (!format)
			return random_below(random, 40) & mask_of(type);
		/* 16 exponents about 1. */
		return slow_round(format, ((double)random_below(random, 1 << 20) / (1 << 19) - 1) *
						  (double)(1U << random_below(random, 8)));
	}
}

uint64_t element_any(enum reduce_type type, bool finite, uint64_t *random)
{
	const struct slow_format *format = slow_format_of(type);
	uint64_t bits;

	do
		bits = anything(type, random);
	while (finite && format && !isfinite(slow_value(format, bits)));
	return bits;
}

void element_fill(enum reduce_type type, bool finite, void *array, size_t count, uint64_t *random)
{
	for (size_t i = 0; i < count; i++)
		element_set(type, array, i, element_any(type, finite, random));
}

unsigned element_levels(enum reduce_level ret[REDUCE_LEVEL_COUNT])
{
	unsigned count = 0;

	for (enum reduce_level level = 0; level < REDUCE_LEVEL_COUNT; level++)
		if (reduce_level_here(level))
			ret[count++] = level;
	return count;
}
