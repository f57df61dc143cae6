/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as bytes, little-endian, wherever they lie: how everything that leaves a process is written. And a checksum for
 * short blocks. Pure, any thread.
 */
#ifndef TRIBUTARY_BASE_BYTES_H
#define TRIBUTARY_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* count: 1 to 8. What does not fit is cut off. With a constant count this is one store. */
static inline void bytes_put(uint8_t *at, uint64_t value, unsigned count)
{
#pragma GCC unroll 8
	for (unsigned i = 0; i < count; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

static inline uint64_t bytes_get(const uint8_t *at, unsigned count)
{
	uint64_t value = 0;

#pragma GCC unroll 8
	for (unsigned i = 0; i < count; i++)
		value |= (uint64_t)at[i] << 8 * i;
	return value;
}

/* FNV-1a. Not against an attacker, but against a block that is damaged, or somebody else's. Of payload: base/crc.h. */
static inline uint32_t bytes_checksum(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 2166136261U;

	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * 16777619U;
	return sum;
}

#endif
