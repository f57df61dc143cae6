/* SPDX-License-Identifier: Apache-2.0 */
#include "reduce.h"

#include <sys/mman.h>

void reduce_add(float *to, const float *a, const float *b, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		to[i] = a[i] + b[i];
}

float *reduce_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* 0 to 1023, by place. */
static uint32_t base(size_t at)
{
	uint32_t x = (uint32_t)at * 2654435761u;

	return x >> 22;
}

static uint32_t weight(size_t at)
{
	return 1 + (uint32_t)(at % 5);
}

void reduce_fill(float *to, size_t count, int rank)
{
	size_t i;

	for (i = 0; i < count; i++)
		to[i] = (float)(base(i) + weight(i) * (uint32_t)rank);
}

uint64_t reduce_wrong(const float *data, size_t first, size_t count, int size)
{
	uint32_t ranks = (uint32_t)size, all = ranks * (ranks - 1) / 2;
	uint64_t wrong = 0;
	size_t i;

	for (i = 0; i < count; i++)
		wrong += data[i] != (float)(base(first + i) * ranks + weight(first + i) * all);
	return wrong;
}

uint64_t reduce_wrong_moved(const float *data, size_t first, size_t count, int rank)
{
	uint64_t wrong = 0;
	size_t i;

	for (i = 0; i < count; i++)
		wrong += data[i] != (float)(base(first + i) + weight(first + i) * (uint32_t)rank);
	return wrong;
}
