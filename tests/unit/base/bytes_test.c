/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#define NUMBER UINT64_C(0x8877665544332211)

static void the_lowest_byte_comes_first_and_nothing_beside_it_is_touched(void **state)
{
	(void)state;
	for (unsigned count = 1; count <= 8; count++) {
		for (size_t at = 1; at < 9; at++) { /* every alignment */
			uint8_t bytes[18];

			memset(bytes, 0xee, sizeof(bytes));
			bytes_put(bytes + at, NUMBER, count);
			for (size_t i = 0; i < sizeof(bytes); i++)
				assert_int_equal(bytes[i], i >= at && i < at + count ? 0x11 * (int)(i - at + 1) : 0xee);
		}
	}
}

static void what_was_put_is_got_and_what_lies_beside_it_is_not(void **state)
{
	uint8_t bytes[18];

	(void)state;
	for (unsigned count = 1; count <= 8; count++) {
		uint64_t kept = count == 8 ? NUMBER : NUMBER & ((UINT64_C(1) << 8 * count) - 1);

		for (size_t at = 1; at < 9; at++) {
			memset(bytes, 0xee, sizeof(bytes));
			bytes_put(bytes + at, NUMBER, count);
			assert_true(bytes_get(bytes + at, count) == kept);
		}
	}
}

/* From the authors' own list of test vectors. */
static void published_checksums_come_out(void **state)
{
	(void)state;
	assert_int_equal(bytes_checksum((const uint8_t *)"", 0), 0x811c9dc5);
	assert_int_equal(bytes_checksum((const uint8_t *)"a", 1), 0xe40c292c);
	assert_int_equal(bytes_checksum((const uint8_t *)"foobar", 6), 0xbf9cf968);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lowest_byte_comes_first_and_nothing_beside_it_is_touched),
		cmocka_unit_test(what_was_put_is_got_and_what_lies_beside_it_is_not),
		cmocka_unit_test(published_checksums_come_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
