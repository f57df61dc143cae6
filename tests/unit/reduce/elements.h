/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of elements of any type, and values that are likely to go wrong. Any thread. */
#ifndef TESTS_UNIT_REDUCE_ELEMENTS_H
#define TESTS_UNIT_REDUCE_ELEMENTS_H

#include "reduce/reduce.h"
#include "support/runtime.h"

uint64_t element_get(enum reduce_type type, const void *array, size_t index);
void element_set(enum reduce_type type, void *array, size_t index, uint64_t bits);

/* Zeros, infinities, NaNs of both kinds, denormals, the largest and smallest; or whole numbers at the ends of a range. */
uint64_t element_special(enum reduce_type type, uint64_t *random);
/*
 * One in four special, one in four any bits at all, the rest numbers of ordinary size. finite: no infinity, no NaN.
 */
uint64_t element_any(enum reduce_type type, bool finite, uint64_t *random);
void element_fill(enum reduce_type type, bool finite, void *array, size_t count, uint64_t *random);

/* The levels that this CPU has, best last; the first is REDUCE_SCALAR. Returns how many. */
unsigned element_levels(enum reduce_level ret[REDUCE_LEVEL_COUNT]);

#endif
