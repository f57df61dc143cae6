/* SPDX-License-Identifier: Apache-2.0 */
/* With a device it is tried in a VM (tests/vm). */
#include "discover/ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

static void a_device_that_is_not_there_says_nothing(void **state)
{
	char name[] = "none-such", *text = name;
	size_t bytes = 1;

	(void)state;
	assert_int_equal(discover_verbs_ask(name, &text, &bytes), -ENOENT);
	assert_ptr_equal(text, name);
	assert_int_equal(bytes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_is_not_there_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
