/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
static const uint32_t constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t value, unsigned by)
{
	return value >> by | value << (32 - by);
}

static uint32_t get_be32(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void put_be32(uint8_t *at, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Keys and what is made of them do not stay behind; a compiler may not leave this away. */
static void forget(void *memory, size_t bytes)
{
	memset(memory, 0, bytes);
	__asm__ __volatile__("" : : "r"(memory) : "memory");
}

static void schedule_make(const uint8_t block[static SHA256_BLOCK_BYTES], uint32_t ret[static 64])
{
	for (unsigned i = 0; i < 16; i++)
		ret[i] = get_be32(block + 4 * i);
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = ret[i - 15], b = ret[i - 2];

		ret[i] = (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10) + ret[i - 7] +
			 (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + ret[i - 16];
	}
}

/* Eight working variables, named a to h in the standard: v[0] to v[7]. */
static void compress(uint32_t state[static 8], const uint8_t block[static SHA256_BLOCK_BYTES])
{
	uint32_t words[64], v[8];

	schedule_make(block, words);
	memcpy(v, state, sizeof(v));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
		uint32_t first = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choose +
				 constants[i] + words[i];
		uint32_t second = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += first;
		v[0] = first + second;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += v[i];
	forget(words, sizeof(words));
	forget(v, sizeof(v));
}

void sha256_init(struct sha256 *sha)
{
	/* The same of the square roots of the first eight primes. */
	*sha = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
					   0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *sha, const void *data, size_t bytes)
{
	const uint8_t *from = data;

	while (bytes) {
		size_t held = sha->bytes % SHA256_BLOCK_BYTES, part = SHA256_BLOCK_BYTES - held;

		if (part > bytes)
			part = bytes;
		memcpy(sha->block + held, from, part);
		sha->bytes += part;
		from += part;
		bytes -= part;
		if (held + part == SHA256_BLOCK_BYTES)
			compress(sha->state, sha->block);
	}
}

void sha256_end(struct sha256 *sha, uint8_t ret[static SHA256_BYTES])
{
	static const uint8_t padding[SHA256_BLOCK_BYTES] = { 0x80 };
	uint64_t bits = sha->bytes * 8;
	size_t held = sha->bytes % SHA256_BLOCK_BYTES;
	uint8_t length[8];

	put_be32(length, (uint32_t)(bits >> 32));
	put_be32(length + 4, (uint32_t)bits);
	sha256_add(sha, padding, (held < 56 ? 56 : 120) - held);
	sha256_add(sha, length, sizeof(length));
	for (unsigned i = 0; i < 8; i++)
		put_be32(ret + 4 * i, sha->state[i]);
	forget(sha, sizeof(*sha));
}

void hmac_sha256_init(struct hmac_sha256 *hmac, const void *key, size_t key_bytes)
{
	uint8_t block[SHA256_BLOCK_BYTES] = { 0 };

	if (key_bytes > sizeof(block)) {
		sha256_init(&hmac->inner);
		sha256_add(&hmac->inner, key, key_bytes);
		sha256_end(&hmac->inner, block);
	} else if (key_bytes) {
		memcpy(block, key, key_bytes);
	}
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36;
	sha256_init(&hmac->inner);
	sha256_add(&hmac->inner, block, sizeof(block));
	for (size_t i = 0; i < sizeof(block); i++)
		block[i] ^= 0x36 ^ 0x5c;
	sha256_init(&hmac->outer);
	sha256_add(&hmac->outer, block, sizeof(block));
	forget(block, sizeof(block));
}

void hmac_sha256_add(struct hmac_sha256 *hmac, const void *data, size_t bytes)
{
	sha256_add(&hmac->inner, data, bytes);
}

void hmac_sha256_end(struct hmac_sha256 *hmac, uint8_t ret[static SHA256_BYTES])
{
	uint8_t inner[SHA256_BYTES];

	sha256_end(&hmac->inner, inner);
	sha256_add(&hmac->outer, inner, sizeof(inner));
	sha256_end(&hmac->outer, ret);
	forget(inner, sizeof(inner));
}

bool sha256_equal(const uint8_t a[static SHA256_BYTES], const uint8_t b[static SHA256_BYTES])
{
	uint8_t difference = 0;

	for (size_t i = 0; i < SHA256_BYTES; i++)
		difference |= (uint8_t)(a[i] ^ b[i]);
	return difference == 0;
}
