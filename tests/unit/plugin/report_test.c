/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void line_names_devices_and_speeds(void **state)
{
	const struct plugin_net_properties devices[] = {
		{ .name = "eth0", .speed_Bps = 1250000000, .member_count = 1 },
		{ .name = "eth1", .speed_Bps = 312500000, .member_count = 1 },
		{ .name = "slow", .speed_Bps = 12500000, .member_count = 1 },
		{ .name = "mystery", .member_count = 1 },
		{ .name = "eth0+eth1", .speed_Bps = 1562500000, .member_count = 2 },
	};
	char text[PLUGIN_REPORT_BYTES];
	struct params params;

	(void)state;
	params_defaults(&params);
	plugin_report_line("tcp", &params, 5, devices, text);
	assert_string_equal(text, "Tributary " TRIBUTARY_VERSION
				  ": net tcp over eth0 10 Gbit/s, eth1 2.5 Gbit/s, slow 100 Mbit/s, mystery");
}

static void line_names_settings_that_are_not_the_default(void **state)
{
	const struct plugin_net_properties device = { .name = "eth0", .speed_Bps = 1250000000, .member_count = 1 };
	char text[PLUGIN_REPORT_BYTES];
	struct params params;

	(void)state;
	params_defaults(&params);
	params.streams = 3;
	params.timeout_ns = 5000000000;
	plugin_report_line("tcp", &params, 1, &device, text);
	assert_non_null(strstr(text, "eth0 10 Gbit/s; TRIBUTARY_"));
	assert_non_null(strstr(text, "TRIBUTARY_STREAMS=3"));
	assert_non_null(strstr(text, "TRIBUTARY_TIMEOUT=5"));
	assert_non_null(strstr(text, ", TRIBUTARY_"));
	assert_null(strstr(text, "TRIBUTARY_NET"));
}

static void no_device_is_said(void **state)
{
	char text[PLUGIN_REPORT_BYTES];
	struct params params;

	(void)state;
	params_defaults(&params);
	plugin_report_line("tcp", &params, 0, NULL, text);
	assert_non_null(strstr(text, "no usable interface"));
}

static void reason_is_given_when_it_is_left_to_nccl(void **state)
{
	struct plugin_choice choice = { .ours = false };
	char text[PLUGIN_REPORT_BYTES];

	(void)state;
	snprintf(choice.reason, sizeof(choice.reason), "because");
	plugin_report_reason(&choice, text);
	assert_string_equal(text, "Tributary " TRIBUTARY_VERSION ": because");
}

static void too_long_a_line_ends_in_dots(void **state)
{
	struct plugin_net_properties devices[PLUGIN_MAX_DEVICES];
	char text[PLUGIN_REPORT_BYTES];
	struct params params;

	(void)state;
	params_defaults(&params);
	params.streams = 3;
	for (int i = 0; i < PLUGIN_MAX_DEVICES; i++)
		devices[i] = (struct plugin_net_properties){ .name = "interface-15char", .member_count = 1 };
	plugin_report_line("tcp", &params, PLUGIN_MAX_DEVICES, devices, text);
	assert_true(strlen(text) < PLUGIN_REPORT_BYTES && strlen(text) > PLUGIN_REPORT_BYTES - 24);
	assert_string_equal(text + strlen(text) - 5, ", ..."); /* no name is cut */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_names_devices_and_speeds),
		cmocka_unit_test(line_names_settings_that_are_not_the_default),
		cmocka_unit_test(no_device_is_said),
		cmocka_unit_test(reason_is_given_when_it_is_left_to_nccl),
		cmocka_unit_test(too_long_a_line_ends_in_dots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
