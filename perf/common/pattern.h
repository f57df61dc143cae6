/* SPDX-License-Identifier: Apache-2.0 */
/* Recognisable bytes: what a message must hold, from its seed alone. Pure; any thread. */
#ifndef TRIBUTARY_PERF_PATTERN_H
#define TRIBUTARY_PERF_PATTERN_H

#include <stddef.h>
#include <stdint.h>

void pattern_fill(void *data, size_t bytes, uint64_t seed);
/* The offset of the first wrong byte, or -1. */
int64_t pattern_check(const void *data, size_t bytes, uint64_t seed);

#endif
