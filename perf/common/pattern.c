/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include <string.h>

/* Each word depends on its place and on the seed, so swapped, doubled and shifted pieces all show. */
static uint64_t word(uint64_t seed, size_t at)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ULL + (uint64_t)at * 0xd1342543de82ef95ULL;

	return x ^ (x >> 29);
}

void pattern_fill(void *data, size_t bytes, uint64_t seed)
{
	unsigned char *to = data;
	size_t i, whole = bytes / 8;
	uint64_t w;

	for (i = 0; i < whole; i++) {
		w = word(seed, i);
		memcpy(to + i * 8, &w, 8);
	}
	w = word(seed, whole);
	memcpy(to + whole * 8, &w, bytes % 8);
}

static int64_t first_difference(const unsigned char *data, uint64_t expected, size_t at, size_t bytes)
{
	unsigned char good[8];
	size_t i;

	memcpy(good, &expected, 8);
	for (i = 0; i < bytes; i++)
		if (data[at + i] != good[i])
			return (int64_t)(at + i);
	return -1;
}

int64_t pattern_check(const void *data, size_t bytes, uint64_t seed)
{
	const unsigned char *from = data;
	size_t i, whole = bytes / 8;
	uint64_t w;

	for (i = 0; i < whole; i++) {
		memcpy(&w, from + i * 8, 8);
		if (w != word(seed, i))
			return first_difference(from, word(seed, i), i * 8, 8);
	}
	return first_difference(from, word(seed, whole), whole * 8, bytes % 8);
}
