/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer.h"

/*
 * nccl: init.cc, bitops.h. A child's id is a hash of its parent's id, of the number of splits before it and of its
 * colour; ncclCommShrink leaves both numbers 0. The hash takes its words one after the other, each with its length.
 */
static void take_word(uint64_t state[2], uint64_t word, uint64_t bytes)
{
	const uint64_t sum = (state[0] ^ bytes) + state[1];

	state[1] ^= sum;
	state[1] = (state[1] ^ state[1] >> 32) * UINT64_C(0x485cd6311b599e79);
	state[0] = (sum ^ sum >> 31) * UINT64_C(0x9de62bbc8cef3ce3) + word;
}

uint64_t steer_shrink_id(uint64_t parent_id)
{
	uint64_t state[2] = { 1, 1 }, id;

	take_word(state, parent_id, sizeof(uint64_t));
	take_word(state, 0, sizeof(int)); /* the number of splits */
	take_word(state, 0, sizeof(int)); /* the colour */
	id = (state[0] ^ state[0] >> 31) * UINT64_C(0xbac3bd562846de6b) + state[1];
	return (id ^ id >> 32) * UINT64_C(0x995a187a14e7b445);
}
