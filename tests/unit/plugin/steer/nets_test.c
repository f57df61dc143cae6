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

#include "plugin/state.h"
#include "unit/plugin/fake_rdma.h"
#include "unit/plugin/fake_transport.h"

enum { INFINIBAND = IBV_LINK_LAYER_INFINIBAND };

static struct steer_nets know(const char *net)
{
	struct steer_nets nets;

	setenv("TRIBUTARY_NET", net, 1);
	fake_transport_reset();
	plugin_state_reset(&fake_transport_ops, fake_rdma());
	plugin_state_load();
	steer_nets_know(&nets);
	plugin_state_reset(NULL, NULL);
	(void)fake_rdma_opened();
	return nets;
}

static void our_devices_have_our_numbers(void **state)
{
	struct steer_nets nets = know("tcp");

	(void)state;
	assert_true(nets.ours);
	assert_int_equal(nets.count, 2);
	assert_string_equal(nets.at[0].name, "fake0");
	assert_string_equal(nets.at[1].name, "fake1");
}

static void a_single_active_port_is_nccls_device_0(void **state)
{
	struct steer_nets nets;

	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_DOWN, INFINIBAND);
	fake_rdma_port(*state, "mlx5_1", 1, IBV_PORT_ACTIVE, INFINIBAND);
	fake_rdma_place(*state, "mlx5_1", "0000:41:00.0");
	nets = know("auto");
	assert_false(nets.ours);
	assert_int_equal(nets.count, 1);
	assert_string_equal(nets.at[0].name, "mlx5_1");
	assert_string_equal(nets.at[0].bus_id, "0000:41:00.0");
	assert_string_equal(nets.why, "");
	assert_int_equal(nets.latency_us, 0); /* as NCCL has it over its own networks */
}

/* Also where the choice did not need to look. */
static void ports_have_numbers_though_the_network_is_switched_off(void **state)
{
	struct steer_nets nets = know("off");

	assert_false(nets.ours);
	assert_true(nets.sockets != !!nets.why[0]); /* without ports NCCL takes its sockets */
	fake_rdma_port(*state, "mlx5_1", 1, IBV_PORT_ACTIVE, INFINIBAND);
	nets = know("off");
	assert_string_equal(nets.at[0].name, "mlx5_1");
	assert_int_equal(fake_rdma_opened(), 1);
}

static void ports_that_nccl_leaves_out_have_no_number(void **state)
{
	static const struct {
		const char *hca, *name;
	} cases[] = { { "absent_1", "absent_1" },
		      { "=absent_0:1", "absent_0" },
		      { "^absent_0", "absent_1" },
		      { "absent_1:1:0", "absent_1" } };
	struct steer_nets nets;

	fake_rdma_port(*state, "absent_0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	fake_rdma_port(*state, "absent_1", 1, IBV_PORT_ACTIVE, INFINIBAND);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("NCCL_IB_HCA", cases[i].hca, 1);
		nets = know("auto");
		assert_int_equal(nets.count, 1);
		assert_string_equal(nets.at[0].name, cases[i].name);
		assert_string_equal(nets.why, "");
	}
	setenv("NCCL_IB_HCA", "bnxt", 1);
	nets = know("auto");
	unsetenv("NCCL_IB_HCA");
	assert_true(nets.ours);
}

/* NCCL's order of several differs between its versions, unless both are the same. */
static void ports_have_numbers_where_both_orders_are_one(void **state)
{
	static const struct {
		const char *ports; /* in the library's order, a digit: mlx5_N, and its bus, a letter; '-' not known */
		bool known;
	} cases[] = {
		{ "0a1b2c3d", true }, /* as most machines have it */
		{ "3a0b1c2d", true }, /* the names say nothing */
		{ "0a2c", true },     /* others are down, or left out */
		{ "0b1a", false },    /* listed otherwise than by PCI address */
		{ "0a1a", false },    /* of one bus: they would be joined */
		{ "0a0a", false },    /* two ports of one device */
		{ "0a1-", false },    { "0-1b", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct steer_nets nets = { .count = strlen(cases[i].ports) / 2 };

		for (size_t k = 0; k < nets.count; k++) {
			char bus = cases[i].ports[2 * k + 1];

			snprintf(nets.at[k].name, sizeof(nets.at[k].name), "mlx5_%c", cases[i].ports[2 * k]);
			if (bus != '-')
				snprintf(nets.at[k].bus_id, sizeof(nets.at[k].bus_id), "0000:%c1:00.%u", bus,
					 (unsigned)k);
		}
		assert_int_equal(steer_nets_order(&nets) == NULL, cases[i].known);
	}
	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	fake_rdma_port(*state, "mlx5_0", 2, IBV_PORT_ACTIVE, INFINIBAND);
	assert_int_equal(know("auto").count, 0);
}

static void settings_that_hide_ports_leave_no_number_that_is_sure(void **state)
{
	static const char *const names[] = { "NCCL_NET", "NCCL_NET_MERGE_LEVEL", "NCCL_NET_FORCE_MERGE",
					     "NCCL_IB_DATA_DIRECT" };
	fake_rdma_port(*state, "mlx5_1", 1, IBV_PORT_ACTIVE, INFINIBAND);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct steer_nets nets;

		setenv(names[i], "1", 1);
		nets = know("auto");
		unsetenv(names[i]);
		assert_int_equal(nets.count, 0);
		assert_non_null(strstr(nets.why, names[i]));
	}
	assert_int_equal(know("auto").count, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_rdma_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(our_devices_have_our_numbers),
		TEST(a_single_active_port_is_nccls_device_0),
		TEST(ports_have_numbers_though_the_network_is_switched_off),
		TEST(ports_that_nccl_leaves_out_have_no_number),
		TEST(ports_have_numbers_where_both_orders_are_one),
		TEST(settings_that_hide_ports_leave_no_number_that_is_sure),
	};

	return cmocka_run_group_tests_name("plugin/steer/nets", tests, NULL, NULL);
}
