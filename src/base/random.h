/* SPDX-License-Identifier: Apache-2.0 */
/* A small generator whose sequence depends on the seed alone, the same everywhere. Not against an attacker. All hosts of
 * a job depend on these exact values (aggregate/check.c).
 */
#ifndef TRIBUTARY_BASE_RANDOM_H
#define TRIBUTARY_BASE_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Any seed. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t *state, uint64_t limit)
{
	return random_next(state) % limit;
}

#endif
