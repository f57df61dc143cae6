/* SPDX-License-Identifier: Apache-2.0 */
/* Who carries: NCCL over RDMA where it would, else Tributary. */
#include "plugin/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/params.h"
#include "unit/plugin/fake_rdma.h"

enum { INFINIBAND = IBV_LINK_LAYER_INFINIBAND, ETHERNET = IBV_LINK_LAYER_ETHERNET };

static struct plugin_choice choose_with(enum net_choice net, bool disable, const char *nccl_net)
{
	struct plugin_choice choice;
	struct params params;

	params_defaults(&params);
	params.net = net;
	params.disable = disable;
	if (nccl_net)
		setenv("NCCL_NET", nccl_net, 1);
	errno = EXDEV;
	plugin_choose(&params, fake_rdma(), &choice);
	assert_int_equal(errno, EXDEV);
	unsetenv("NCCL_NET");
	return choice;
}

static struct plugin_choice choose(enum net_choice net)
{
	return choose_with(net, false, NULL);
}

static bool is_ours_with(const char *variable, const char *value)
{
	struct plugin_choice choice;

	setenv(variable, value, 1);
	choice = choose(NET_CHOICE_AUTO);
	unsetenv(variable);
	return choice.ours;
}

static void auto_is_ours_without_rdma(void **state)
{
	struct plugin_choice choice = choose(NET_CHOICE_AUTO);

	(void)state;
	assert_true(choice.ours && !choice.wants_verbs);
	assert_string_equal(choice.reason, "");
}

static void auto_is_ours_where_no_port_is_active(void **state)
{
	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_DOWN, ETHERNET);
	fake_rdma_port(*state, "mlx5_1", 1, IBV_PORT_ACTIVE_DEFER, INFINIBAND);
	fake_rdma_port(*state, "usnic_0", 1, IBV_PORT_ACTIVE, IBV_LINK_LAYER_UNSPECIFIED);
	assert_true(choose(NET_CHOICE_AUTO).ours);
	assert_int_equal(fake_rdma_opened(), 3);
}

static void auto_leaves_active_ports_to_nccl(void **state)
{
	struct plugin_choice choice;

	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_DOWN, ETHERNET);
	fake_rdma_port(*state, "mlx5_3", 2, IBV_PORT_ACTIVE, ETHERNET);
	choice = choose(NET_CHOICE_AUTO);
	assert_false(choice.ours);
	assert_non_null(strstr(choice.reason, "mlx5_3"));
	assert_non_null(strstr(choice.reason, "TRIBUTARY_NET=tcp"));
}

/* It would take its sockets then. */
static void rdma_that_nccl_cannot_use_is_none(void **state)
{
	static const char *const off[] = { "1", "2", "-1", " 1", "0x1", "01", "1st", "+1" };
	static const char *const on[] = { "", "0", "0x0", "false", "yes", "on", "0 1", "99999999999999999999999" };

	fake_rdma_port(*state, "ibp1s0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	assert_false(choose(NET_CHOICE_AUTO).ours);
	for (unsigned i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
		const unsigned opened = fake_rdma_opened();

		assert_true(is_ours_with("NCCL_IB_DISABLE", off[i]));
		assert_int_equal(fake_rdma_opened(), opened);
	}
	for (unsigned i = 0; i < sizeof(on) / sizeof(on[0]); i++)
		assert_false(is_ours_with("NCCL_IB_DISABLE", on[i]));
	assert_true(is_ours_with("NCCL_IB_HCA", "^ibp"));
	assert_true(is_ours_with("NCCL_IB_HCA", "ibp1s0:2"));
	assert_true(is_ours_with("NCCL_IB_HCA", "^"));
	assert_false(is_ours_with("NCCL_IB_HCA", "=ibp1s0:1:0:1"));
	assert_false(is_ours_with("NCCL_IB_HCA", ""));
	fake_rdma_close("ibp1s0");
	assert_true(choose(NET_CHOICE_AUTO).ours);
	fake_rdma_port(*state, "ibp2s0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	assert_false(choose(NET_CHOICE_AUTO).ours);
	fake_rdma_lose_library();
	assert_true(choose(NET_CHOICE_AUTO).ours);
}

static void where_a_name_decides_nothing_is_opened(void **state)
{
	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	assert_true(choose(NET_CHOICE_TCP).ours);
	assert_false(choose(NET_CHOICE_TCP).wants_verbs);
	assert_true(choose(NET_CHOICE_VERBS).ours);
	assert_true(choose(NET_CHOICE_VERBS).wants_verbs);
	assert_false(choose(NET_CHOICE_OFF).ours);
	assert_false(choose_with(NET_CHOICE_AUTO, true, NULL).ours);
	assert_int_equal(fake_rdma_opened(), 0);
}

static void off_and_disable_leave_the_network_to_nccl(void **state)
{
	struct plugin_choice choice = choose(NET_CHOICE_OFF);

	(void)state;
	assert_false(choice.ours);
	assert_non_null(strstr(choice.reason, "TRIBUTARY_NET=off"));
	for (int net = 0; net < NET_CHOICE_COUNT; net++) {
		choice = choose_with((enum net_choice)net, true, NULL);
		assert_false(choice.ours);
		assert_non_null(strstr(choice.reason, "TRIBUTARY_DISABLE"));
		assert_false(choice.wants_verbs);
	}
}

/* Declining would leave NCCL without a network then. */
static void what_nccl_is_told_to_use_is_ours(void **state)
{
	struct plugin_choice choice;

	assert_string_equal(choose_with(NET_CHOICE_AUTO, false, "Tributary").reason, "");
	fake_rdma_port(*state, "mlx5_0", 1, IBV_PORT_ACTIVE, INFINIBAND);
	choice = choose_with(NET_CHOICE_AUTO, false, "tributary");
	assert_true(choice.ours && !choice.wants_verbs);
	assert_non_null(strstr(choice.reason, "NCCL_NET=tributary"));
	assert_non_null(strstr(choice.reason, "mlx5_0"));
	assert_non_null(strstr(choice.reason, "TRIBUTARY_NET=verbs"));
	assert_true(choose_with(NET_CHOICE_OFF, false, "Tributary").ours);
	assert_string_equal(choose_with(NET_CHOICE_TCP, false, "Tributary").reason, "");
	assert_false(choose_with(NET_CHOICE_AUTO, false, "IB").ours);
	assert_false(choose_with(NET_CHOICE_AUTO, false, "").ours);
	assert_false(choose_with(NET_CHOICE_AUTO, true, "Tributary").ours);
}

static void ports_are_in_the_order_of_the_library(void **state)
{
	struct plugin_rdma rdma;
	char name[32];

	fake_rdma_port(*state, "mlx5_3", 1, IBV_PORT_ACTIVE, ETHERNET);
	fake_rdma_port(*state, "mlx5_1", 1, IBV_PORT_ACTIVE, ETHERNET);
	fake_rdma_port(*state, "mlx5_1", 2, IBV_PORT_ACTIVE, ETHERNET);
	fake_rdma_place(*state, "mlx5_3", "0000:40:00.0");
	plugin_rdma_look(fake_rdma(), &rdma);
	assert_int_equal(rdma.count, 3);
	assert_string_equal(rdma.ports[0].device, "mlx5_3");
	assert_string_equal(rdma.ports[0].bus_id, "0000:40:00.0");
	assert_string_equal(rdma.ports[1].device, "mlx5_1");
	assert_string_equal(rdma.ports[1].bus_id, "");
	assert_string_equal(rdma.ports[2].device, "mlx5_1");
	for (unsigned i = 0; i < PLUGIN_PORTS_MAX; i++) {
		snprintf(name, sizeof(name), "more_%u", i);
		fake_rdma_port(*state, name, 1, IBV_PORT_ACTIVE, ETHERNET);
	}
	plugin_rdma_look(fake_rdma(), &rdma);
	assert_int_equal(rdma.count, PLUGIN_PORTS_MAX + 3);
	(void)fake_rdma_opened();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_rdma_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(auto_is_ours_without_rdma),
		TEST(auto_is_ours_where_no_port_is_active),
		TEST(auto_leaves_active_ports_to_nccl),
		TEST(rdma_that_nccl_cannot_use_is_none),
		TEST(where_a_name_decides_nothing_is_opened),
		TEST(off_and_disable_leave_the_network_to_nccl),
		TEST(what_nccl_is_told_to_use_is_ours),
		TEST(ports_are_in_the_order_of_the_library),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
