/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/params.h"
#include "unit/transport/tcp/fake_sysfs.h"

static struct plugin_choice choose_with(struct fake_sysfs *fake, enum net_choice net, bool disable,
					const char *nccl_net)
{
	struct plugin_choice choice;
	struct params params;
	char root[128];

	params_defaults(&params);
	params.net = net;
	params.disable = disable;
	snprintf(root, sizeof(root), "%s/class/infiniband", fake->tree.root);
	errno = EXDEV;
	plugin_choose(&params, nccl_net, root, &choice);
	assert_int_equal(errno, EXDEV);
	return choice;
}

static struct plugin_choice choose(struct fake_sysfs *fake, enum net_choice net, bool disable)
{
	return choose_with(fake, net, disable, NULL);
}

static void rdma_port(struct fake_sysfs *fake, const char *device, int port, const char *port_state, const char *layer)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%d/state", device, port);
	tree_text(&fake->tree, path, port_state);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%d/link_layer", device, port);
	tree_text(&fake->tree, path, layer);
}

static void auto_is_ours_without_rdma(void **state)
{
	struct plugin_choice choice = choose(*state, NET_CHOICE_AUTO, false);

	assert_true(choice.ours);
	assert_false(choice.wants_verbs);
	assert_string_equal(choice.reason, "");
}

static void auto_is_ours_where_no_port_is_active(void **state)
{
	rdma_port(*state, "mlx5_0", 1, "1: DOWN\n", "Ethernet\n");
	rdma_port(*state, "mlx5_1", 1, "5: ACTIVE_DEFER\n", "InfiniBand\n");
	rdma_port(*state, "usnic_0", 1, "4: ACTIVE\n", "Unspecified\n");
	tree_text(&((struct fake_sysfs *)*state)->tree, "class/infiniband/broken_0/ports/1/state", "");
	tree_text(&((struct fake_sysfs *)*state)->tree, "class/infiniband/broken_1/node_type", "1: CA\n");
	assert_true(choose(*state, NET_CHOICE_AUTO, false).ours);
}

static void auto_leaves_active_ports_to_nccl(void **state)
{
	struct plugin_choice choice;

	rdma_port(*state, "mlx5_0", 1, "1: DOWN\n", "Ethernet\n");
	rdma_port(*state, "mlx5_3", 1, "1: DOWN\n", "Ethernet\n");
	rdma_port(*state, "mlx5_3", 2, "4: ACTIVE\n", "Ethernet\n");
	choice = choose(*state, NET_CHOICE_AUTO, false);
	assert_false(choice.ours);
	assert_non_null(strstr(choice.reason, "mlx5_3"));
	assert_non_null(strstr(choice.reason, "TRIBUTARY_NET=tcp"));
}

static void infiniband_counts_as_ethernet_does(void **state)
{
	rdma_port(*state, "ibp1s0", 1, "4: ACTIVE\n", "InfiniBand\n");
	assert_false(choose(*state, NET_CHOICE_AUTO, false).ours);
}

static void a_choice_by_name_does_not_look_at_ports(void **state)
{
	rdma_port(*state, "mlx5_0", 1, "4: ACTIVE\n", "InfiniBand\n");
	assert_true(choose(*state, NET_CHOICE_TCP, false).ours);
	assert_false(choose(*state, NET_CHOICE_TCP, false).wants_verbs);
	assert_true(choose(*state, NET_CHOICE_VERBS, false).ours);
	assert_true(choose(*state, NET_CHOICE_VERBS, false).wants_verbs);
}

static void off_and_disable_leave_the_network_to_nccl(void **state)
{
	struct plugin_choice choice = choose(*state, NET_CHOICE_OFF, false);

	assert_false(choice.ours);
	assert_non_null(strstr(choice.reason, "TRIBUTARY_NET=off"));
	for (int net = 0; net < NET_CHOICE_COUNT; net++) {
		choice = choose(*state, (enum net_choice)net, true);
		assert_false(choice.ours);
		assert_non_null(strstr(choice.reason, "TRIBUTARY_DISABLE"));
		assert_false(choice.wants_verbs);
	}
}

/* Declining would leave NCCL without a network then. */
static void what_nccl_is_told_to_use_is_ours(void **state)
{
	struct plugin_choice choice;

	rdma_port(*state, "mlx5_0", 1, "4: ACTIVE\n", "InfiniBand\n");
	choice = choose_with(*state, NET_CHOICE_AUTO, false, "tributary");
	assert_true(choice.ours && !choice.wants_verbs);
	assert_true(choose_with(*state, NET_CHOICE_OFF, false, "Tributary").ours);
	assert_false(choose_with(*state, NET_CHOICE_AUTO, false, "IB").ours);
	assert_false(choose_with(*state, NET_CHOICE_AUTO, false, "").ours);
	assert_false(choose_with(*state, NET_CHOICE_AUTO, true, "Tributary").ours);
}

/* Only a single active port has a number in NCCL's own InfiniBand that is sure. */
static void active_ports_are_counted_and_the_first_is_named(void **state)
{
	struct fake_sysfs *fake = *state;
	struct plugin_choice choice = choose(fake, NET_CHOICE_AUTO, false);
	char path[128];

	assert_int_equal(choice.active_ports, 0);
	assert_string_equal(choice.ports[0].device, "");
	rdma_port(fake, "mlx5_3", 1, "4: ACTIVE\n", "Ethernet\n");
	rdma_port(fake, "mlx5_4", 1, "1: DOWN\n", "Ethernet\n");
	snprintf(path, sizeof(path), "%s/class/infiniband/mlx5_3/device", fake->tree.root);
	assert_int_equal(symlink("../../../0000:40:00.0", path), 0);
	for (int net = 0; net < NET_CHOICE_COUNT; net++) {
		choice = choose(fake, (enum net_choice)net, false);
		assert_int_equal(choice.active_ports, 1);
		assert_string_equal(choice.ports[0].device, "mlx5_3");
		assert_string_equal(choice.ports[0].bus_id, "0000:40:00.0");
	}
	assert_int_equal(choose(fake, NET_CHOICE_AUTO, true).active_ports, 0); /* nobody looked */
	rdma_port(fake, "mlx5_3", 2, "4: ACTIVE\n", "Ethernet\n");
	assert_int_equal(choose(fake, NET_CHOICE_AUTO, false).active_ports, 2); /* of one card */
	rdma_port(fake, "mlx5_5", 1, "4: ACTIVE\n", "Ethernet\n");
	assert_int_equal(choose(fake, NET_CHOICE_AUTO, false).active_ports, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_sysfs_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(auto_is_ours_without_rdma),
		TEST(auto_is_ours_where_no_port_is_active),
		TEST(auto_leaves_active_ports_to_nccl),
		TEST(infiniband_counts_as_ethernet_does),
		TEST(a_choice_by_name_does_not_look_at_ports),
		TEST(off_and_disable_leave_the_network_to_nccl),
		TEST(what_nccl_is_told_to_use_is_ours),
		TEST(active_ports_are_counted_and_the_first_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
