/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/library.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

struct table {
	double (*cosine)(double);
	int (*missing)(void);
};

static const struct gpu_library_symbol symbols[] = {
	{ "cos", offsetof(struct table, cosine), true },
	{ "tributary_has_no_such_function", offsetof(struct table, missing), false },
};

static void a_file_that_is_not_there_is_said_to_be_not_there(void **state)
{
	struct table table = { NULL, NULL };
	struct diag diag = { .text = "" };

	(void)state;
	assert_int_equal(gpu_library_open("libtributary-none.so.1", "no GPU", symbols, 2, &table, &diag), -ENODEV);
	assert_string_equal(diag.text, "libtributary-none.so.1 is not there: no GPU");
	assert_null(table.cosine);
	/* Who does not want the reason gets none. */
	assert_int_equal(gpu_library_open("libtributary-none.so.1", "no GPU", symbols, 2, &table, NULL), -ENODEV);
}

static void a_file_that_is_no_library_is_said_to_be_there(void **state)
{
	char path[] = "/tmp/library_testXXXXXX";
	struct table table = { NULL, NULL };
	struct diag diag = { .text = "" };
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
	errno = 77;
	assert_int_equal(gpu_library_open(path, "no GPU", symbols, 2, &table, &diag), -ENODEV);
	assert_int_equal(errno, 77);
	unlink(path);
	assert_non_null(strstr(diag.text, " cannot be loaded: "));
}

static void what_may_be_missing_is_null_and_what_must_not_is_an_error(void **state)
{
	static const struct gpu_library_symbol strict[] = {
		{ "cos", offsetof(struct table, cosine), true },
		{ "tributary_has_no_such_function", offsetof(struct table, missing), true },
	};
	struct table table = { NULL, (int (*)(void))abort };
	struct diag diag = { .text = "" };

	(void)state;
	assert_int_equal(gpu_library_open("libm.so.6", "no mathematics", symbols, 2, &table, &diag), 0);
	assert_true(table.cosine(0) > 0.999);
	assert_null(table.missing);
	assert_int_equal(gpu_library_open("libm.so.6", "no mathematics", strict, 2, &table, &diag), -ENOSYS);
	assert_string_equal(diag.text, "libm.so.6 has no tributary_has_no_such_function: the driver is too old");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_that_is_not_there_is_said_to_be_not_there),
		cmocka_unit_test(a_file_that_is_no_library_is_said_to_be_there),
		cmocka_unit_test(what_may_be_missing_is_null_and_what_must_not_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
