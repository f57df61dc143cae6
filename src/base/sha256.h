/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for proving a shared secret and for sealing short messages: plain
 * C, some 200 MB/s, no lookup that depends on the data. Pure, any thread.
 */
#ifndef TRIBUTARY_BASE_SHA256_H
#define TRIBUTARY_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64 };

struct sha256 {
	uint32_t state[8];
	uint64_t bytes; /* so far */
	uint8_t block[SHA256_BLOCK_BYTES];
};
void sha256_init(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t bytes);
/* *sha is cleared. */
void sha256_end(struct sha256 *sha, uint8_t ret[static SHA256_BYTES]);

struct hmac_sha256 {
	struct sha256 inner, outer;
};
/* A key of any length. */
void hmac_sha256_init(struct hmac_sha256 *hmac, const void *key, size_t key_bytes);
void hmac_sha256_add(struct hmac_sha256 *hmac, const void *data, size_t bytes);
/* *hmac is cleared. */
void hmac_sha256_end(struct hmac_sha256 *hmac, uint8_t ret[static SHA256_BYTES]);

/* Takes as long wherever they differ. */
bool sha256_equal(const uint8_t a[static SHA256_BYTES], const uint8_t b[static SHA256_BYTES]);

#endif
