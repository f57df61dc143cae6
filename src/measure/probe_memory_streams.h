/* SPDX-License-Identifier: Apache-2.0 */
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

#endif
