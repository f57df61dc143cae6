/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect(const uint8_t got[static SHA256_BYTES], const char *hex)
{
	char text[2 * SHA256_BYTES + 1];

	for (size_t i = 0; i < SHA256_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", got[i]);
	assert_string_equal(text, hex);
}

static void hash(const void *data, size_t bytes, uint8_t ret[static SHA256_BYTES])
{
	struct sha256 sha;

	sha256_init(&sha);
	sha256_add(&sha, data, bytes);
	sha256_end(&sha, ret);
}

/* FIPS 180-4's examples, and those of NIST's test suite for the empty message and a million times "a". */
static void published_hashes_come_out(void **state)
{
	static const struct {
		const char *text, *hex;
	} cases[] = {
		{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
		{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
		{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
		  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
		{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnop"
		  "qrstnopqrstu",
		  "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
	};
	uint8_t got[SHA256_BYTES], many[1000];
	struct sha256 sha;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		hash(cases[i].text, strlen(cases[i].text), got);
		expect(got, cases[i].hex);
	}
	memset(many, 'a', sizeof(many));
	sha256_init(&sha);
	for (unsigned i = 0; i < 1000; i++)
		sha256_add(&sha, many, sizeof(many));
	sha256_end(&sha, got);
	expect(got, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* RFC 4231, cases 1 to 4, 6 and 7 (5 is about a truncated result). */
static void published_macs_come_out(void **state)
{
	uint8_t key_1[20], key_3[20], data_3[50], key_4[25], data_4[50], key_6[131], got[SHA256_BYTES];
	const char *data_6 = "Test Using Larger Than Block-Size Key - Hash Key First";
	const char *data_7 = "This is a test using a larger than block-size key and a larger than block-size data. "
			     "The key needs to be hashed before being used by the HMAC algorithm.";
	const struct {
		const void *key;
		size_t key_bytes;
		const void *data;
		size_t bytes;
		const char *hex;
	} cases[] = {
		{ key_1, sizeof(key_1), "Hi There", 8,
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ "Jefe", 4, "what do ya want for nothing?", 28,
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ key_3, sizeof(key_3), data_3, sizeof(data_3),
		  "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
		{ key_4, sizeof(key_4), data_4, sizeof(data_4),
		  "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
		{ key_6, sizeof(key_6), data_6, strlen(data_6),
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
		{ key_6, sizeof(key_6), data_7, strlen(data_7),
		  "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
	};

	(void)state;
	memset(key_1, 0x0b, sizeof(key_1));
	memset(key_3, 0xaa, sizeof(key_3));
	memset(data_3, 0xdd, sizeof(data_3));
	for (size_t i = 0; i < sizeof(key_4); i++)
		key_4[i] = (uint8_t)(i + 1);
	memset(data_4, 0xcd, sizeof(data_4));
	memset(key_6, 0xaa, sizeof(key_6));
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct hmac_sha256 hmac;

		hmac_sha256_init(&hmac, cases[i].key, cases[i].key_bytes);
		hmac_sha256_add(&hmac, cases[i].data, cases[i].bytes);
		hmac_sha256_end(&hmac, got);
		expect(got, cases[i].hex);
	}
}

/* Wherever a text is cut in pieces, and for every length about the blocks' bounds. */
static void pieces_give_what_the_whole_gives(void **state)
{
	uint8_t data[200], whole[SHA256_BYTES], pieces[SHA256_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 131);
	for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
		hash(data, bytes, whole);
		for (size_t cut = 0; cut <= bytes; cut += 7) {
			struct sha256 sha;

			sha256_init(&sha);
			sha256_add(&sha, data, cut);
			sha256_add(&sha, data + cut, bytes - cut);
			sha256_end(&sha, pieces);
			assert_memory_equal(whole, pieces, SHA256_BYTES);
		}
	}
}

static void one_wrong_bit_makes_them_unequal(void **state)
{
	uint8_t a[SHA256_BYTES], b[SHA256_BYTES];

	(void)state;
	hash("abc", 3, a);
	memcpy(b, a, sizeof(b));
	assert_true(sha256_equal(a, b));
	for (size_t i = 0; i < 8 * sizeof(b); i++) {
		b[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_false(sha256_equal(a, b));
		b[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_hashes_come_out),
		cmocka_unit_test(published_macs_come_out),
		cmocka_unit_test(pieces_give_what_the_whole_gives),
		cmocka_unit_test(one_wrong_bit_makes_them_unequal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
