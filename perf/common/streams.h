/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory gives one core: plain loops that read several arrays and write one, in the ways that memory may like. Any
 * thread; pure.
 */
#ifndef TRIBUTARY_PERF_STREAMS_H
#define TRIBUTARY_PERF_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

enum streams_way {
	STREAMS_TOGETHER,             /* a few lines of each array in turn */
	STREAMS_TOGETHER_PAST_CACHES, /* the same, written with non-temporal stores */
	STREAMS_AHEAD,                /* together, with prefetches */
	STREAMS_AHEAD_PAST_CACHES,
	STREAMS_BY_PAGE, /* 4 KiB of each array in turn, gathered in a cache */
	STREAMS_BY_PAGE_PAST_CACHES,
	STREAMS_COUNT
};

const char *streams_word(enum streams_way way);
/* Past the caches: only where the CPU is known to have such stores. */
bool streams_here(enum streams_way way);
/* Arrays: aligned to 64 bytes; bytes: a multiple of 4096. to gets the exclusive or of all inputs. */
void streams_run(enum streams_way way, void *to, unsigned input_count, const void *const *inputs, size_t bytes);

#endif
