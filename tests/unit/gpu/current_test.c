/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/current.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static struct {
	int device, device_result, bus_id_result;
	const char *bus_id;
} now;

static int current_device(int *ret)
{
	*ret = now.device;
	return now.device_result;
}

static int current_bus_id(char *ret, int bytes, int device)
{
	assert_int_equal(device, now.device);
	if (strlen(now.bus_id) >= (size_t)bytes) {
		memset(ret, 'x', (size_t)bytes); /* without its NUL */
		return now.bus_id_result;
	}
	memcpy(ret, now.bus_id, strlen(now.bus_id) + 1);
	return now.bus_id_result;
}

static const struct gpu_current_driver current_driver = { current_device, current_bus_id };

static void bus_ids_are_as_sysfs_has_them(void **state)
{
	static const char *const texts[][2] = {
		{ "0000:C1:00.0", "0000:c1:00.0" },
		{ "00000000:C1:00.0", "0000:c1:00.0" },
		{ "00010000:C1:00.0", "00010000:c1:00.0" },
		{ "0001:0a:00.0", "0001:0a:00.0" },
	};
	char bus_id[GPU_CURRENT_BUS_ID_BYTES];

	(void)state;
	now.device = 3;
	now.device_result = now.bus_id_result = 0;
	gpu_current_set_driver(&current_driver);
	errno = EXDEV;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		now.bus_id = texts[i][0];
		assert_int_equal(gpu_current_bus_id(bus_id, NULL), 0);
		assert_string_equal(bus_id, texts[i][1]);
	}
	assert_int_equal(errno, EXDEV);
	gpu_current_set_driver(NULL);
}

static void what_the_driver_refuses_is_an_error(void **state)
{
	char bus_id[GPU_CURRENT_BUS_ID_BYTES];
	struct diag diag = { .text = "" };

	(void)state;
	gpu_current_set_driver(&current_driver);
	now.bus_id = "0000:c1:00.0";
	now.device_result = 201;
	assert_int_equal(gpu_current_bus_id(bus_id, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "201"));
	now.device_result = 0;
	now.bus_id_result = 1;
	assert_int_equal(gpu_current_bus_id(bus_id, &diag), -ENOENT);
	now.bus_id_result = 0;
	now.bus_id = "0000:c1:00.0 and much more than that";
	assert_int_equal(gpu_current_bus_id(bus_id, &diag), -ENOENT);
	now.bus_id = "";
	assert_int_equal(gpu_current_bus_id(bus_id, &diag), -ENOENT);
	gpu_current_set_driver(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bus_ids_are_as_sysfs_has_them),
		cmocka_unit_test(what_the_driver_refuses_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
