/*
 * The loops of the memory probe: what a core does with a piece of memory. Inner header.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_MEMORY_STREAMS_H
#define TRIBUTARY_MEASURE_PROBE_MEMORY_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum probe_memory_kind { PROBE_MEMORY_COPY, PROBE_MEMORY_READ, PROBE_MEMORY_WRITE };

/* The words of a piece of memory, combined. */
uint64_t probe_memory_stream_read(const void *from, size_t bytes);

/* Stores do not go through the caches. */
extern const bool probe_memory_stores_pass_caches;

/*
 * `bytes` is a multiple of 64, both addresses too; the one that a kind does not use may be NULL. What it returns the caller
 * keeps, so that no load is optimised away.
 */
uint64_t probe_memory_stream(enum probe_memory_kind kind, void *to, const void *from, size_t bytes);

/*
 * Makes a chain of `lines` cache lines spread over a piece of memory, in an order that no prefetcher guesses; it ends where
 * it begins. Returns its first line. bytes is at least 64 × lines; seed: any.
 */
const void *probe_memory_chain_make(void *memory, size_t bytes, size_t lines, uint64_t seed);
/* Follows so many links of it; returns where it ended. */
const void *probe_memory_chain_follow(const void *line, size_t links);

#endif
