/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the benchmark cuts an AllReduce for collnet, against what NCCL itself was seen to do: the sizes and numbers of
 * iallreduce calls of NCCL 2.28.9 and 2.30.7, CollNetChain, one GPU a node, 4 nodes, two channels.
 */
#include "common/chain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct seen {
	size_t kib, calls, call_kib;
};

static const struct seen seen[] = {
	{ 16, 1, 32 },       { 32, 1, 32 },      { 40, 2, 32 },      { 60, 2, 32 },      { 64, 1, 64 },
	{ 100, 2, 64 },      { 128, 2, 64 },     { 192, 3, 64 },     { 256, 4, 64 },     { 320, 5, 64 },
	{ 384, 6, 64 },      { 448, 7, 64 },     { 512, 8, 64 },     { 576, 9, 64 },     { 640, 5, 128 },
	{ 704, 6, 128 },     { 768, 6, 128 },    { 900, 8, 128 },    { 1024, 8, 128 },   { 1280, 10, 128 },
	{ 1536, 12, 128 },   { 1792, 14, 128 },  { 1920, 15, 128 },  { 2048, 8, 256 },   { 4096, 16, 256 },
	{ 8192, 32, 256 },   { 15360, 60, 256 }, { 16384, 64, 256 }, { 24576, 96, 256 }, { 32768, 64, 512 },
	{ 65536, 128, 512 },
};

static void calls_are_those_that_nccl_makes(void **state)
{
	struct chain_shape shape;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(seen) / sizeof(seen[0]); i++) {
		chain_shape(seen[i].kib << 10, 2, &shape);
		assert_int_equal((size_t)shape.channels * shape.chunk_bytes, seen[i].call_kib << 10);
		assert_int_equal(shape.steps, seen[i].calls);
	}
	chain_shape(4, 2, &shape);
	assert_int_equal(shape.channels, 1);
	assert_int_equal(shape.chunk_bytes, 32 << 10);
}

/* The channels' parts cover the data, and the steps each part. */
static void shapes_cover_every_size(void **state)
{
	size_t bytes;
	int channels;

	(void)state;
	for (channels = 1; channels <= CHAIN_MAX_CHANNELS; channels++) {
		for (bytes = 4; bytes < (size_t)200 << 20; bytes += bytes / 7 / 4 * 4 + 4) {
			struct chain_shape shape;

			chain_shape(bytes, channels, &shape);
			assert_in_range(shape.channels, 1, channels);
			assert_in_range(shape.chunk_bytes, CHAIN_MIN_CHUNK_BYTES, CHAIN_MAX_CHUNK_BYTES);
			assert_true(shape.part_bytes * (size_t)shape.channels >= bytes);
			assert_true(shape.steps * shape.chunk_bytes >= shape.part_bytes);
			assert_true((shape.steps - 1) * shape.chunk_bytes < shape.part_bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_those_that_nccl_makes),
		cmocka_unit_test(shapes_cover_every_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
