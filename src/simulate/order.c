/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of hosts. */
#include "simulate/job_internal.h"

uint64_t simulate_draw(uint64_t *state, uint64_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * UINT64_C(0x2545f4914f6cdd1d) >> 11) % below;
}

void simulate_order_rank(const struct simulate_fabric *fabric, uint32_t *ret)
{
	for (uint32_t i = 0; i < fabric->host_count; i++)
		ret[i] = i;
}

void simulate_shuffle(uint32_t *list, size_t count, uint64_t *state)
{
	for (size_t i = count; i > 1; i--) {
		size_t other = simulate_draw(state, i);
		uint32_t last = list[i - 1];

		list[i - 1] = list[other];
		list[other] = last;
	}
}

void simulate_order_random(const struct simulate_fabric *fabric, uint64_t seed, uint32_t *ret)
{
	uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);

	state = state ? state : 1;
	simulate_order_rank(fabric, ret);
	simulate_shuffle(ret, fabric->host_count, &state);
}
