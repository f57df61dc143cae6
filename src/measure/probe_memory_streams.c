/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_memory_streams.h"

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LINE_BYTES = 64, WORDS = LINE_BYTES / sizeof(uint64_t) };

uint64_t probe_memory_stream_read(const void *from, size_t bytes)
{
	const uint64_t *words = from;
	uint64_t sum[WORDS] = { 0 }, all = 0;

	for (size_t at = 0; at < bytes / sizeof(*words); at += WORDS)
		for (size_t i = 0; i < WORDS; i++)
			sum[i] ^= words[at + i];
	for (size_t i = 0; i < WORDS; i++)
		all ^= sum[i];
	return all;
}

#if defined(__SSE2__)

const bool probe_memory_stores_pass_caches = true;

static void stream_write(void *to, size_t bytes)
{
	__m128i value = _mm_set1_epi32(0x5a5a5a5a), *lines = to;

	for (size_t at = 0; at < bytes / sizeof(*lines); at += 4) {
		_mm_stream_si128(lines + at, value);
		_mm_stream_si128(lines + at + 1, value);
		_mm_stream_si128(lines + at + 2, value);
		_mm_stream_si128(lines + at + 3, value);
	}
	_mm_sfence(); /* what is counted as moved has left the core */
}

static void stream_copy(void *to, const void *from, size_t bytes)
{
	const __m128i *read = from;
	__m128i *lines = to;

	for (size_t at = 0; at < bytes / sizeof(*lines); at += 4) {
		__m128i a = _mm_load_si128(read + at), b = _mm_load_si128(read + at + 1);
		__m128i c = _mm_load_si128(read + at + 2), d = _mm_load_si128(read + at + 3);

		_mm_stream_si128(lines + at, a);
		_mm_stream_si128(lines + at + 1, b);
		_mm_stream_si128(lines + at + 2, c);
		_mm_stream_si128(lines + at + 3, d);
	}
	_mm_sfence();
}

#else

const bool probe_memory_stores_pass_caches = false;

static void stream_write(void *to, size_t bytes)
{
	memset(to, 0x5a, bytes);
}

static void stream_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

#endif

uint64_t probe_memory_stream(enum probe_memory_kind kind, void *to, const void *from, size_t bytes)
{
	switch (kind) {
	case PROBE_MEMORY_READ:
		return probe_memory_stream_read(from, bytes);
	case PROBE_MEMORY_COPY:
		stream_copy(to, from, bytes);
		return 0;
	case PROBE_MEMORY_WRITE:
		stream_write(to, bytes);
		return 0;
	}
	return 0;
}
