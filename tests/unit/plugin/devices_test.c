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

/* What serves NCCL's devices, by the transport's numbers; -1 ends it. */
static void expect_served(const int *served)
{
	int i;

	for (i = 0; served[i] != -1; i++)
		assert_int_equal(plugin_devices_served(&devices, i), served[i]);
	assert_int_equal(plugin_devices_served(&devices, i), -EINVAL);
	assert_int_equal(devices.count, i);
	assert_int_equal(plugin_devices_served(&devices, -1), -EINVAL);
}

static void expect_name(int device, const char *name)
{
	struct plugin_net_properties properties;

	assert_int_equal(plugin_devices_get(&devices, device, &properties), 0);
	assert_string_equal(properties.name, name);
}

static void a_new_device_changes_no_number(void **state)
{
	struct plugin_net_properties properties;
	int members[] = { 0, 1 }, joined;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, members, &joined), 0);
	expect_served((int[]){ 0, 1, 2, -1 });
	/* The fastest comes first. */
	fake_transport.devices[2] = fake_transport.devices[1];
	fake_transport.devices[1] = fake_transport.devices[0];
	fake_transport.devices[0].name = "new";
	fake_transport.devices[0].guid = 7;
	fake_transport.devices[2].speed_Bps = 5;
	fake_transport.devices[2].rail = 2;
	fake_transport.physical_count = 3;
	reopen();
	assert_int_equal(refresh(), 0);
	assert_int_equal(log_lines()->warnings, 0);
	expect_served((int[]){ 1, 2, 3, -1 });
	expect_name(0, "fake0");
	expect_name(1, "fake1");
	assert_int_equal(plugin_devices_get(&devices, 1, &properties), 0);
	assert_true(properties.speed_Bps == 5);
	assert_int_equal(properties.rail, 1);
	assert_int_equal(properties.members[0], 1);
	assert_int_equal(plugin_devices_get(&devices, joined, &properties), 0);
	assert_int_equal(properties.members[0], 0);
	assert_int_equal(properties.members[1], 1);
	/* And one more of them, now: of the same devices. */
	assert_int_equal(join(2, (int[]){ 1, 0 }, &joined), 0);
	assert_int_equal(joined, 3);
	expect_served((int[]){ 1, 2, 3, 4, -1 });
	assert_int_equal(plugin_devices_get(&devices, joined, &properties), 0);
	assert_int_equal(properties.members[0], 1);
}

static void a_renamed_device_is_the_same(void **state)
{
	(void)state;
	assert_int_equal(refresh(), 0);
	fake_transport.devices[1].name = "a";
	fake_transport.devices[2] = fake_transport.devices[0];
	fake_transport.devices[0] = fake_transport.devices[1];
	fake_transport.devices[1] = fake_transport.devices[2];
	reopen();
	assert_int_equal(refresh(), 0);
	expect_served((int[]){ 1, 0, -1 });
	expect_name(1, "fake1"); /* NCCL keeps the text */
	assert_int_equal(log_lines()->warnings, 0);
}

static void a_device_that_has_gone_is_served_by_another(void **state)
{
	const struct transport_properties first = fake_transport.devices[0], gone = fake_transport.devices[1];
	int members[] = { 0, 1 }, joined;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, members, &joined), 0);
	fake_transport.physical_count = 1;
	for (int i = 0; i < 2; i++) {
		reopen();
		assert_int_equal(refresh(), 0);
		expect_served((int[]){ 0, 0, 0, -1 });
		assert_int_equal(log_lines()->warnings, 1); /* once */
	}
	assert_non_null(strstr(log_lines()->warning, "network device fake1 has gone since NCCL was told of it: fake0"));
	assert_int_equal(join(2, (int[]){ 1, 0 }, &joined), -EOPNOTSUPP);
	/* The network of a new one may lead elsewhere: where there is no other it is better than nothing. */
	fake_transport.devices[1] = gone;
	fake_transport.devices[1].name = "new";
	fake_transport.devices[1].guid = 7;
	fake_transport.physical_count = 2;
	reopen();
	assert_int_equal(refresh(), 0);
	expect_served((int[]){ 0, 0, 0, -1 });
	fake_transport.devices[0] = fake_transport.devices[1];
	fake_transport.physical_count = 1;
	reopen();
	assert_int_equal(refresh(), 0);
	expect_served((int[]){ 0, 0, 0, -1 });
	/* And back. */
	fake_transport.devices[0] = first;
	fake_transport.devices[1] = gone;
	fake_transport.physical_count = 2;
	reopen();
	assert_int_equal(refresh(), 0);
	expect_served((int[]){ 0, 1, 2, -1 });
	assert_non_null(strstr(log_lines()->info, "network device fake1 is there again, by the name fake1"));
}

static void without_any_device_left_nothing_is_served(void **state)
{
	int joined;

	(void)state;
	assert_int_equal(refresh(), 0);
	assert_int_equal(join(2, (int[]){ 0, 1 }, &joined), 0);
	fake_transport.physical_count = 0;
	reopen();
	assert_int_equal(refresh(), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(plugin_devices_served(&devices, i), -ENETDOWN);
	assert_int_equal(log_lines()->warnings, 2);
	fake_transport.physical_count = 2;
	reopen();
	assert_int_equal(refresh(), 0);
	expect_served((int[]){ 0, 1, 2, -1 });
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
		TEST(a_new_device_changes_no_number),
		TEST(a_renamed_device_is_the_same),
		TEST(a_device_that_has_gone_is_served_by_another),
		TEST(without_any_device_left_nothing_is_served),
		TEST(more_devices_than_places_are_cut_with_a_warning),
		TEST(too_long_text_is_never_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
