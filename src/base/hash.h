/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a, 64 bits: not against an attacker. `so_far` is HASH_START, or the hash of what came before. Pure, any thread. */
#ifndef TRIBUTARY_BASE_HASH_H
#define TRIBUTARY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

/* One step: a whole number in place of a byte. */
static inline uint64_t hash_step(uint64_t so_far, uint64_t value)
{
	return (so_far ^ value) * UINT64_C(0x00000100000001b3);
}

static inline uint64_t hash_bytes(uint64_t so_far, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < bytes; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): it does not see a number's bytes */
		so_far = hash_step(so_far, at[i]);
	return so_far;
}

static inline uint64_t hash_text(uint64_t so_far, const char *text)
{
	return hash_bytes(so_far, text, strlen(text));
}

#endif
