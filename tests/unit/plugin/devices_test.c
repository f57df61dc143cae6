/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "unit/plugin/fake_transport.h"

static struct plugin_devices devices;
static struct transport *transport;

static int setup(void **state)
{
	fake_transport_setup(state);
	memset(&devices, 0, sizeof(devices));
	return fake_transport_ops.open(NULL, &transport);
}

static int teardown(void **state)
{
	plugin_devices_fini(&devices);
	fake_transport_ops.close(transport);
	return fake_transport_teardown(state);
}

static int refresh(void)
{
	return plugin_devices_refresh(&devices, &fake_transport_ops, transport);
}

static int join(int count, const int *members, int *ret)
{
	return plugin_devices_join(&devices, &fake_transport_ops, transport, count, members, ret);
}

static void reopen(void)
{
	fake_transport_ops.close(transport);
	assert_int_equal(fake_transport_ops.open(NULL, &transport), 0);
}

static void properties_are_the_transports(void **state)
{
	struct plugin_net_properties properties;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(devices.count, 2);
	assert_int_equal(plugin_devices_get(&devices, 1, &properties), 0);
	assert_string_equal(properties.name, "fake1");
	assert_null(properties.pci_path);
	assert_true(properties.guid == 0x1001);
	assert_true(properties.speed_Bps == 312500000);
	assert_int_equal(properties.port, 2);
	assert_int_equal(properties.rail, 1);
	assert_int_equal(properties.max_recvs, TRANSPORT_MAX_RECVS);
	assert_true(properties.max_p2p_bytes == TRANSPORT_MAX_MESSAGE_BYTES);
	assert_int_equal(plugin_devices_get(&devices, 0, &properties), 0);
	assert_string_equal(properties.pci_path, "/sys/devices/pci0000:00/0000:00:01.0");
	assert_int_equal(plugin_devices_get(&devices, 2, &properties), -EINVAL);
	assert_int_equal(plugin_devices_get(&devices, -1, &properties), -EINVAL);
}

static void text_outlives_the_transports_own(void **state)
{
	struct plugin_net_properties before, after;
	char name[] = "eth9";

	(void)state;
	fake_transport.devices[0].name = name;
	assert_int_equal(refresh(), 0);
	plugin_devices_get(&devices, 0, &before);
	assert_ptr_not_equal(before.name, name);
	fake_transport.devices[0].speed_Bps = 5000000000;
	reopen();
	assert_int_equal(refresh(), 0);
	plugin_devices_get(&devices, 0, &after);
	assert_ptr_equal(after.name, before.name);
	assert_true(after.speed_Bps == 5000000000);
}

static void joined_device_keeps_its_index_over_a_reopening(void **state)
{
	struct plugin_net_properties properties;
	int members[] = { 0, 1 }, joined, again;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, members, &joined), 0);
	assert_int_equal(joined, 2);
	assert_int_equal(join(2, members, &again), 0);
	assert_int_equal(again, joined);
	assert_int_equal(devices.count, 3);
	reopen();
	assert_int_equal(fake_transport.total_count, 2);
	assert_int_equal(refresh(), 0);
	assert_int_equal(fake_transport.total_count, 3);
	assert_int_equal(plugin_devices_get(&devices, joined, &properties), 0);
	assert_int_equal(properties.member_count, 2);
	assert_int_equal(properties.members[1], 1);
}

static void joining_what_does_not_exist_is_refused(void **state)
{
	int bad[] = { 0, 2 }, negative[] = { -1 }, joined_member[] = { 2 }, members[PLUGIN_MAX_JOIN + 1] = { 0 },
	    ret = 77;
	int good[] = { 0, 1 };

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, bad, &ret), -EINVAL);
	assert_int_equal(join(1, negative, &ret), -EINVAL);
	assert_int_equal(join(0, members, &ret), -EINVAL);
	assert_int_equal(join(PLUGIN_MAX_JOIN + 1, members, &ret), -EINVAL);
	assert_int_equal(ret, 77);
	assert_int_equal(join(2, good, &ret), 0);
	assert_int_equal(join(1, joined_member, &ret), -EINVAL);
}

static void another_device_under_an_index_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(refresh(), 0);
	fake_transport.devices[1].name = "other";
	reopen();
	assert_int_equal(refresh(), -ENODEV);
	assert_int_equal(log_lines()->warnings, 1);
	assert_non_null(strstr(log_lines()->warning, "other"));
}

static void a_device_that_has_gone_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(refresh(), 0);
	fake_transport.physical_count = 1;
	reopen();
	assert_int_equal(refresh(), -ENODEV);
	assert_non_null(strstr(log_lines()->warning, "fake1"));
}

static void a_new_device_moves_no_joined_one(void **state)
{
	int members[] = { 0, 1 }, joined;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, members, &joined), 0);
	fake_transport.devices[2] = fake_transport.devices[1];
	fake_transport.devices[2].name = "fake2";
	fake_transport.physical_count = 3;
	reopen();
	assert_int_equal(refresh(), -ENODEV);
	assert_int_equal(log_lines()->warnings, 1);
	assert_non_null(strstr(log_lines()->warning, "Joined"));
}

static void more_devices_than_places_are_cut_with_a_warning(void **state)
{
	int members[] = { 0, 1 }, joined;

	(void)state;
	for (int i = 2; i < FAKE_DEVICES_MAX; i++)
		fake_transport.devices[i] = fake_transport.devices[1];
	fake_transport.physical_count = PLUGIN_MAX_DEVICES + 1;
	reopen();
	assert_int_equal(refresh(), 0);
	assert_int_equal(devices.count, PLUGIN_MAX_DEVICES);
	assert_int_equal(log_lines()->warnings, 1);
	assert_int_equal(join(2, members, &joined), -ENOSPC);
}

static void too_long_text_is_never_cut(void **state)
{
	static char path[PLUGIN_DEVICE_PATH_BYTES + 1], name[PLUGIN_DEVICE_NAME_BYTES + 1];
	struct plugin_net_properties properties;

	(void)state;
	memset(path, 'p', sizeof(path) - 1);
	memset(name, 'n', sizeof(name) - 1);
	fake_transport.devices[0].pci_path = path;
	assert_int_equal(refresh(), 0);
	plugin_devices_get(&devices, 0, &properties);
	assert_null(properties.pci_path);
	plugin_devices_fini(&devices);
	fake_transport.devices[0].name = name;
	assert_int_equal(refresh(), -ENAMETOOLONG);
	assert_false(devices.known);
	assert_int_equal(devices.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(properties_are_the_transports),
		TEST(text_outlives_the_transports_own),
		TEST(joined_device_keeps_its_index_over_a_reopening),
		TEST(joining_what_does_not_exist_is_refused),
		TEST(another_device_under_an_index_is_an_error),
		TEST(a_device_that_has_gone_is_an_error),
		TEST(a_new_device_moves_no_joined_one),
		TEST(more_devices_than_places_are_cut_with_a_warning),
		TEST(too_long_text_is_never_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
