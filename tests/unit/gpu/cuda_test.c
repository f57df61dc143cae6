/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "unit/gpu/fake_cuda.h"

static int remove_fake(void **state)
{
	(void)state;
	fake_cuda_remove();
	return 0;
}

static void a_driver_that_does_not_start_says_why(void **state)
{
	static const struct {
		int result;
		const char *text;
	} cases[] = {
		{ GPU_CUDA_NO_DEVICE, "the CUDA driver finds no GPU (CUDA_ERROR_NO_DEVICE)" },
		{ GPU_CUDA_DRIVER_MISMATCH, "libcuda.so.1 and the kernel's NVIDIA driver are of different versions "
					    "(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)" },
		{ FAKE_CUDA_ERROR, "the CUDA driver does not start: CUDA_ERROR_LAUNCH_FAILED (719)" },
		{ 12345, "the CUDA driver does not start: a CUDA error without a name (12345)" },
	};
	const struct gpu_cuda *table = NULL;
	struct diag diag = { .text = "" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_cuda_reset(1);
		fake_cuda.init_result = cases[i].result;
		assert_int_equal(gpu_cuda_open(&table, &diag), -ENODEV);
		assert_string_equal(diag.text, cases[i].text);
		assert_int_equal(gpu_cuda_open(&table, NULL), -ENODEV);
		assert_null(table);
	}
}

static void the_table_of_a_test_takes_the_place_of_the_driver(void **state)
{
	const struct gpu_cuda *table = NULL;
	int count = 0;

	(void)state;
	fake_cuda_reset(5);
	assert_int_equal(gpu_cuda_open(&table, NULL), 0);
	assert_ptr_equal(table, fake_cuda_table());
	assert_int_equal(table->device_get_count(&count), 0);
	assert_int_equal(count, 5);
}

static void the_fake_driver_has_every_function(void **state)
{
	(void)state;
#define HAS(member, symbol, arguments) assert_non_null(fake_cuda_table()->member);
	GPU_CUDA_SYMBOLS(HAS)
#undef HAS
}

struct opened {
	const struct gpu_cuda *table;
	struct diag diag;
	int result;
};

static void *open_in_thread(void *arg)
{
	struct opened *opened = arg;

	opened->result = gpu_cuda_open(&opened->table, &opened->diag);
	return NULL;
}

/* The real driver, or its real absence. */
static void all_threads_that_open_at_once_get_the_same(void **state)
{
	enum { THREADS = 8 };
	struct opened opened[THREADS] = { { .table = NULL } };
	pthread_t threads[THREADS];

	(void)state;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_in_thread, &opened[i]), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < THREADS; i++) {
		assert_int_equal(opened[i].result, opened[0].result);
		assert_ptr_equal(opened[i].table, opened[0].table);
		assert_string_equal(opened[i].diag.text, opened[0].diag.text);
		assert_true(opened[i].result ? opened[i].diag.text[0] && !opened[i].table : opened[i].table != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_driver_that_does_not_start_says_why, remove_fake),
		cmocka_unit_test_teardown(the_table_of_a_test_takes_the_place_of_the_driver, remove_fake),
		cmocka_unit_test(the_fake_driver_has_every_function),
		cmocka_unit_test(all_threads_that_open_at_once_get_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
