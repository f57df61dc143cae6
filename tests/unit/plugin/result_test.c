/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/result.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>

static void errors_become_nccls_results(void **state)
{
	static const struct {
		int error;
		enum nccl_result result;
	} map[] = {
		{ 0, NCCL_SUCCESS },
		{ EREMOTEIO, NCCL_REMOTE_ERROR },
		{ EINVAL, NCCL_INVALID_ARGUMENT },
		{ EPROTO, NCCL_INVALID_USAGE },
		{ EMSGSIZE, NCCL_INVALID_USAGE },
		{ ECHILD, NCCL_INVALID_USAGE },
		{ EOPNOTSUPP, NCCL_INTERNAL_ERROR },
		{ ENOMEM, NCCL_SYSTEM_ERROR },
		{ EMFILE, NCCL_SYSTEM_ERROR },
		{ ECONNREFUSED, NCCL_SYSTEM_ERROR },
		{ ENODEV, NCCL_SYSTEM_ERROR },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		assert_int_equal(plugin_result(-map[i].error), map[i].result);
}

static void what_is_no_errno_is_an_internal_error(void **state)
{
	(void)state;
	assert_int_equal(plugin_result(1), NCCL_INTERNAL_ERROR);
	assert_int_equal(plugin_result(EINVAL), NCCL_INTERNAL_ERROR);
	assert_int_equal(plugin_result(-4096), NCCL_INTERNAL_ERROR);
	assert_int_equal(plugin_result(INT_MIN), NCCL_INTERNAL_ERROR);
	assert_int_equal(plugin_result(INT_MAX), NCCL_INTERNAL_ERROR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_become_nccls_results),
		cmocka_unit_test(what_is_no_errno_is_an_internal_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
