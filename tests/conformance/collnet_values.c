/* SPDX-License-Identifier: Apache-2.0 */
#include "collnet_values.h"

#include "nccl/types.h"

#include <string.h>

size_t collnet_type_bytes(int type)
{
	static const size_t bytes[COLLNET_TYPES] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };

	return bytes[type];
}

static int64_t value_of(int operation, unsigned rank, uint64_t seed, size_t index)
{
	uint64_t hash = (seed + rank * UINT64_C(0x9e3779b97f4a7c15) + index) * UINT64_C(0xd6e8feb86659fd93);

	hash ^= hash >> 32;
	return operation == NCCL_PROD ? 1 + (int64_t)(hash % 2) : (int64_t)(hash % 8);
}

static int64_t combine(int operation, int64_t a, int64_t b)
{
	switch (operation) {
	case NCCL_SUM:
		return a + b;
	case NCCL_PROD:
		return a * b;
	case NCCL_MAX:
		return a > b ? a : b;
	default:
		return a < b ? a : b;
	}
}

/* Of a whole number that has an exact half: at most 11 significant bits, at most 2^15. */
static uint16_t half_of(int64_t value)
{
	unsigned exponent = 0;

	if (!value)
		return 0;
	while (value >> (exponent + 1))
		exponent++;
	return (uint16_t)((exponent + 15) << 10 | ((uint64_t)value << 10 >> exponent & 0x3ff));
}

static void put(void *at, int type, int64_t value)
{
	const float single = (float)value;
	const double twice = (double)value;
	const uint16_t half = half_of(value);
	uint32_t bits;
	uint16_t brain;

	memcpy(&bits, &single, sizeof(bits));
	brain = (uint16_t)(bits >> 16);
	switch (type) {
	case NCCL_FLOAT16:
		memcpy(at, &half, sizeof(half));
		break;
	case NCCL_BFLOAT16:
		memcpy(at, &brain, sizeof(brain));
		break;
	case NCCL_FLOAT32:
		memcpy(at, &single, sizeof(single));
		break;
	case NCCL_FLOAT64:
		memcpy(at, &twice, sizeof(twice));
		break;
	default: /* little-endian, and whole numbers wrap around */
		memcpy(at, &value, collnet_type_bytes(type));
	}
}

void collnet_values_fill(void *data, int type, int operation, unsigned rank, uint64_t seed, size_t first, size_t count)
{
	size_t bytes = collnet_type_bytes(type);

	for (size_t i = 0; i < count; i++)
		put((uint8_t *)data + i * bytes, type, value_of(operation, rank, seed, first + i));
}

size_t collnet_values_wrong_at(const void *data, int type, int operation, unsigned members, uint64_t seed, size_t first,
			       size_t count)
{
	size_t bytes = collnet_type_bytes(type);

	for (size_t i = 0; i < count; i++) {
		int64_t value = value_of(operation, 0, seed, first + i);
		uint8_t expected[8];

		for (unsigned rank = 1; rank < members; rank++)
			value = combine(operation, value, value_of(operation, rank, seed, first + i));
		put(expected, type, value);
		if (memcmp((const uint8_t *)data + i * bytes, expected, bytes) != 0)
			return i;
	}
	return SIZE_MAX;
}
