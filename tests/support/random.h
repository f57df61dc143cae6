/* SPDX-License-Identifier: Apache-2.0 */
/* What tests draw beyond base/random.h. */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include "base/random.h"

/* low to high, which it is not. */
static inline double random_between(uint64_t *state, double low, double high)
{
	return low + (high - low) * (double)(random_next(state) >> 11) / 9007199254740992.0;
}

#endif
