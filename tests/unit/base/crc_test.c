/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* The check value of CRC-32/ISO-HDLC in every catalogue, and the values of the empty text and of one zero byte. */
static void published_values_come_out(void **state)
{
	(void)state;
	assert_int_equal(crc_ieee32("123456789", 9), 0xcbf43926);
	assert_int_equal(crc_ieee32("", 0), 0);
	assert_int_equal(crc_ieee32("", 1), 0xd202ef8d);
	assert_int_equal(crc_ieee32("The quick brown fox jumps over the lazy dog", 43), 0x414fa339);
}

/* The definition itself: bit by bit, with the polynomial alone. */
static uint32_t by_bits(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < bytes * 8; i++) {
		uint32_t bit = (crc ^ (uint32_t)(data[i / 8] >> i % 8)) & 1;

		crc = crc >> 1 ^ (bit ? 0xedb88320 : 0);
	}
	return ~crc;
}

static void every_byte_value_agrees_with_the_definition(void **state)
{
	uint8_t data[256];

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(data); i++)
		assert_int_equal(crc_ieee32(data + i, sizeof(data) - i), by_bits(data + i, sizeof(data) - i));
}

static void any_single_wrong_bit_shows(void **state)
{
	uint8_t data[64];
	uint32_t right;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 37);
	right = crc_ieee32(data, sizeof(data));
	for (size_t i = 0; i < sizeof(data) * 8; i++) {
		data[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_not_equal(crc_ieee32(data, sizeof(data)), right);
		data[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_values_come_out),
		cmocka_unit_test(every_byte_value_agrees_with_the_definition),
		cmocka_unit_test(any_single_wrong_bit_shows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
