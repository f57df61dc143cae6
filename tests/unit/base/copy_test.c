/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void copies_over_64_bytes_are_counted(void **state)
{
	static const size_t lengths[] = { 0, 1, 63, 64, 65, 4096 };
	uint8_t from[4096], to[4096];
	uint64_t calls = 0, bytes = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 31);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		memset(to, 0xee, sizeof(to));
		copy_bytes(to, from, lengths[i]);
		assert_memory_equal(to, from, lengths[i]);
		if (lengths[i] < sizeof(to))
			assert_int_equal(to[lengths[i]], 0xee);
		if (lengths[i] > COPY_UNCOUNTED_BYTES) {
			calls++;
			bytes += lengths[i];
		}
		assert_int_equal(copy_counts.calls, calls);
		assert_int_equal(copy_counts.bytes, bytes);
	}
	assert_int_equal(calls, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(copies_over_64_bytes_are_counted) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
