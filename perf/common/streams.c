/* SPDX-License-Identifier: Apache-2.0 */
#include "streams.h"

#include <stdint.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx2")))
#else
#define TARGET
#endif

enum { PAGE_BYTES = 4096, AHEAD_BYTES = 4096, WORDS = 4 };

#define INLINE static inline __attribute__((always_inline))

typedef uint64_t words __attribute__((vector_size(32)));

enum { PAGE_WORDS = PAGE_BYTES / sizeof(words) };

const char *streams_word(enum streams_way way)
{
	static const char *const texts[STREAMS_COUNT] = {
		[STREAMS_TOGETHER] = "together", [STREAMS_TOGETHER_PAST_CACHES] = "together, past caches",
		[STREAMS_AHEAD] = "ahead",       [STREAMS_AHEAD_PAST_CACHES] = "ahead, past caches",
		[STREAMS_BY_PAGE] = "by page",   [STREAMS_BY_PAGE_PAST_CACHES] = "by page, past caches",
	};

	return texts[way];
}

bool streams_here(enum streams_way way)
{
#if defined(__x86_64__)
	(void)way;
	return __builtin_cpu_supports("avx2");
#else
	return way == STREAMS_TOGETHER || way == STREAMS_AHEAD || way == STREAMS_BY_PAGE;
#endif
}

TARGET INLINE void put(words *to, const words *value, bool past_caches)
{
#if defined(__x86_64__)
	if (past_caches) {
		_mm256_stream_si256((__m256i *)to, (__m256i)*value);
		return;
	}
#endif
	(void)past_caches;
	*to = *value;
}

/* The two lines that WORDS of them are. */
INLINE void ask_for(const words *from)
{
	__builtin_prefetch((const char *)from + AHEAD_BYTES);
	__builtin_prefetch((const char *)from + AHEAD_BYTES + 64);
}

TARGET INLINE void together(words *to, unsigned input_count, const void *const *inputs, size_t count, bool ahead,
			    bool past_caches)
{
	for (size_t i = 0; i < count; i += WORDS) {
		const words *from = inputs[0];
		if (ahead)
			ask_for(from + i);
		words a = from[i], b = from[i + 1], c = from[i + 2], d = from[i + 3];

		for (unsigned k = 1; k < input_count; k++) {
			from = inputs[k];
			if (ahead)
				ask_for(from + i);
			a ^= from[i];
			b ^= from[i + 1];
			c ^= from[i + 2];
			d ^= from[i + 3];
		}
		put(to + i, &a, past_caches);
		put(to + i + 1, &b, past_caches);
		put(to + i + 2, &c, past_caches);
		put(to + i + 3, &d, past_caches);
	}
}

TARGET INLINE void by_page(words *to, unsigned input_count, const void *const *inputs, size_t count, bool past_caches)
{
	words page[PAGE_WORDS];

	for (size_t i = 0; i < count; i += PAGE_WORDS) {
		const words *from = (const words *)inputs[0] + i;

		for (size_t j = 0; j < PAGE_WORDS; j++)
			page[j] = from[j];
		for (unsigned k = 1; k < input_count; k++) {
			from = (const words *)inputs[k] + i;
			for (size_t j = 0; j < PAGE_WORDS; j++)
				page[j] ^= from[j];
		}
		for (size_t j = 0; j < PAGE_WORDS; j++)
			put(to + i + j, &page[j], past_caches);
	}
}

TARGET void streams_run(enum streams_way way, void *to, unsigned input_count, const void *const *inputs, size_t bytes)
{
	size_t count = bytes / sizeof(words);

	switch (way) {
	case STREAMS_TOGETHER:
		together(to, input_count, inputs, count, false, false);
		break;
	case STREAMS_TOGETHER_PAST_CACHES:
		together(to, input_count, inputs, count, false, true);
		break;
	case STREAMS_AHEAD:
		together(to, input_count, inputs, count, true, false);
		break;
	case STREAMS_AHEAD_PAST_CACHES:
		together(to, input_count, inputs, count, true, true);
		break;
	case STREAMS_BY_PAGE:
		by_page(to, input_count, inputs, count, false);
		break;
	default:
		by_page(to, input_count, inputs, count, true);
		break;
	}
#if defined(__x86_64__)
	_mm_sfence();
#endif
}
