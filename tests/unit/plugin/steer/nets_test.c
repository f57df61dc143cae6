/* By what numbers NCCL knows its network devices, where that can be known. */
#include "plugin/steer/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/state.h"
#include "unit/plugin/fake_transport.h"
#include "unit/transport/tcp/fake_sysfs.h"

static struct steer_nets know(const struct fake_sysfs *sysfs, const char *net)
{
	static char root[128]; /* kept by reference */
	struct steer_nets nets;

	snprintf(root, sizeof(root), "%s/class/infiniband", sysfs->root);
	setenv("TRIBUTARY_NET", net, 1);
	fake_transport_reset();
	plugin_state_reset(&fake_transport_ops, root);
	plugin_state_load();
	steer_nets_know(&nets);
	plugin_state_reset(NULL, NULL);
	return nets;
}

static void port(struct fake_sysfs *sysfs, const char *device, const char *state)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/state", device);
	fake_file(sysfs, path, state);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/link_layer", device);
	fake_file(sysfs, path, "InfiniBand\n");
}

static void our_devices_have_our_numbers(void **state)
{
	struct steer_nets nets = know(*state, "tcp");

	assert_true(nets.ours);
	assert_int_equal(nets.count, 2);
	assert_string_equal(nets.at[0].name, "fake0");
	assert_string_equal(nets.at[1].name, "fake1");
}

static void a_single_active_port_is_nccls_device_0(void **state)
{
	struct fake_sysfs *sysfs = *state;
	struct steer_nets nets;
	char path[128];

	port(sysfs, "mlx5_0", "1: DOWN\n");
	port(sysfs, "mlx5_1", "4: ACTIVE\n");
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_1/device", sysfs->root);
	assert_int_equal(symlink("../../../0000:41:00.0", path), 0);
	nets = know(sysfs, "auto");
	assert_false(nets.ours);
	assert_int_equal(nets.count, 1);
	assert_string_equal(nets.at[0].name, "mlx5_1");
	assert_string_equal(nets.at[0].bus_id, "0000:41:00.0");
	assert_string_equal(nets.why, "");
	assert_int_equal(nets.latency_us, 0); /* as NCCL has it over its own networks */
}

/* NCCL's order of several differs between its versions. */
static void several_ports_or_none_have_no_number_that_is_sure(void **state)
{
	struct fake_sysfs *sysfs = *state;
	struct steer_nets nets = know(sysfs, "off");

	assert_false(nets.ours);
	assert_true(nets.sockets != !!nets.why[0]); /* without ports NCCL takes its sockets */
	port(sysfs, "mlx5_0", "4: ACTIVE\n");
	port(sysfs, "mlx5_1", "4: ACTIVE\n");
	nets = know(sysfs, "auto");
	assert_int_equal(nets.count, 0);
	assert_string_not_equal(nets.why, "");
}

static void settings_that_hide_ports_leave_no_number_that_is_sure(void **state)
{
	static const char *const names[] = { "NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_MERGE_LEVEL" };
	struct fake_sysfs *sysfs = *state;

	port(sysfs, "mlx5_1", "4: ACTIVE\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct steer_nets nets;

		setenv(names[i], "1", 1);
		nets = know(sysfs, "auto");
		unsetenv(names[i]);
		assert_int_equal(nets.count, 0);
		assert_non_null(strstr(nets.why, names[i]));
	}
	assert_int_equal(know(sysfs, "auto").count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_sysfs_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(our_devices_have_our_numbers),
		TEST(a_single_active_port_is_nccls_device_0),
		TEST(several_ports_or_none_have_no_number_that_is_sure),
		TEST(settings_that_hide_ports_leave_no_number_that_is_sure),
	};

	return cmocka_run_group_tests_name("plugin/steer/nets", tests, NULL, NULL);
}
