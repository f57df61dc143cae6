/* SPDX-License-Identifier: Apache-2.0 */
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

	snprintf(root, sizeof(root), "%s/class/infiniband", sysfs->tree.root);
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
	tree_text(&sysfs->tree, path, state);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/1/link_layer", device);
	tree_text(&sysfs->tree, path, "InfiniBand\n");
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
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_1/device", sysfs->tree.root);
	assert_int_equal(symlink("../../../0000:41:00.0", path), 0);
	nets = know(sysfs, "auto");
	assert_false(nets.ours);
	assert_int_equal(nets.count, 1);
	assert_string_equal(nets.at[0].name, "mlx5_1");
	assert_string_equal(nets.at[0].bus_id, "0000:41:00.0");
	assert_string_equal(nets.why, "");
	assert_int_equal(nets.latency_us, 0); /* as NCCL has it over its own networks */
}

/* What a process cannot open NCCL leaves out; no machine has devices of these names. */
static void several_ports_that_cannot_be_opened_have_no_number_that_is_sure(void **state)
{
	struct fake_sysfs *sysfs = *state;
	struct steer_nets nets = know(sysfs, "off");

	assert_false(nets.ours);
	assert_true(nets.sockets != !!nets.why[0]); /* without ports NCCL takes its sockets */
	port(sysfs, "absent_0", "4: ACTIVE\n");
	port(sysfs, "absent_1", "4: ACTIVE\n");
	nets = know(sysfs, "auto");
	assert_int_equal(nets.count, 0);
	assert_string_equal(nets.why, "not all of the active RDMA ports can be opened here");
}

static void ports_that_the_user_leaves_out_have_no_number(void **state)
{
	static const struct {
		const char *hca, *name;
	} cases[] = { { "absent_1", "absent_1" },
		      { "=absent_0:1", "absent_0" },
		      { "^absent_0", "absent_1" },
		      { "absent_1:1:0", "" } };
	struct fake_sysfs *sysfs = *state;
	struct steer_nets nets;

	port(sysfs, "absent_0", "4: ACTIVE\n");
	port(sysfs, "absent_1", "4: ACTIVE\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("NCCL_IB_HCA", cases[i].hca, 1);
		nets = know(sysfs, "auto");
		assert_int_equal(nets.count, cases[i].name[0] != '\0');
		assert_string_equal(nets.at[0].name, cases[i].name);
		assert_int_equal(nets.why[0] == '\0', nets.count);
	}
	setenv("NCCL_IB_HCA", "bnxt", 1);
	nets = know(sysfs, "auto");
	unsetenv("NCCL_IB_HCA");
	assert_true(nets.sockets != !!nets.why[0]); /* without ports NCCL takes its sockets */
}

/* NCCL's order of several differs between its versions, unless both are the same. */
static void ports_have_numbers_where_both_orders_are_one(void **state)
{
	static const struct {
		const char *listed, *ports; /* a digit: mlx5_N; of a port also its bus, a letter, '-' not known */
		const char *numbers;        /* NULL: not known */
	} cases[] = {
		{ "0123", "0a1b2c3d", "0123" }, /* as most machines have it */
		{ "3012", "0b1c2d3a", "3012" }, /* the names say nothing */
		{ "0123", "2c0a", "02" },       /* others are down, or left out */
		{ "0123", "0b1a", NULL },       /* listed otherwise than by PCI address */
		{ "01", "0a1a", NULL },         /* of one bus: they would be joined */
		{ "01", "0a0a", NULL },         /* two ports of one device */
		{ "01", "0a1-", NULL },         { "01", "0-1b", NULL },
		{ "0", "0a1b", NULL }, /* one cannot be opened */
		{ "", "0a1b", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char listed[8][TOPOLOGY_NAME_BYTES];
		struct steer_nets nets = { .count = strlen(cases[i].ports) / 2 };
		size_t count = strlen(cases[i].listed);

		for (size_t k = 0; k < count; k++)
			snprintf(listed[k], sizeof(listed[k]), "mlx5_%c", cases[i].listed[k]);
		for (size_t k = 0; k < nets.count; k++) {
			char bus = cases[i].ports[2 * k + 1];

			snprintf(nets.at[k].name, sizeof(nets.at[k].name), "mlx5_%c", cases[i].ports[2 * k]);
			if (bus != '-')
				snprintf(nets.at[k].bus_id, sizeof(nets.at[k].bus_id), "0000:%c1:00.%u", bus,
					 (unsigned)k);
		}
		assert_int_equal(steer_nets_order((const char(*)[TOPOLOGY_NAME_BYTES])listed, count, &nets) == NULL,
				 cases[i].numbers != NULL);
		for (size_t k = 0; cases[i].numbers && k < nets.count; k++)
			assert_int_equal(nets.at[k].name[5], cases[i].numbers[k]);
	}
}

static void settings_that_hide_ports_leave_no_number_that_is_sure(void **state)
{
	static const char *const names[] = { "NCCL_NET", "NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE",
					     "NCCL_IB_DATA_DIRECT" };
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
		TEST(several_ports_that_cannot_be_opened_have_no_number_that_is_sure),
		TEST(ports_that_the_user_leaves_out_have_no_number),
		TEST(ports_have_numbers_where_both_orders_are_one),
		TEST(settings_that_hide_ports_leave_no_number_that_is_sure),
	};

	return cmocka_run_group_tests_name("plugin/steer/nets", tests, NULL, NULL);
}
