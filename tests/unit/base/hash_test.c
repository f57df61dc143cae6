/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void hashes_differ(void **state)
{
	uint64_t a = hash_text(HASH_START, "ab"), b = hash_text(HASH_START, "ba");

	(void)state;
	assert_true(a != b);
	assert_true(hash_bytes(hash_bytes(HASH_START, "a", 1), "b", 1) == a);
	assert_true(hash_text(HASH_START, "a") == UINT64_C(0xaf63dc4c8601ec8c)); /* FNV-1a's own example */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
