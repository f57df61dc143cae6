#include "plugin/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "unit/transport/tcp/fake_sysfs.h"

static struct plugin_choice choose(struct fake_sysfs *fake, enum net_choice net, bool disable)
{
	struct plugin_choice choice;
	struct params params;
	char root[128];

	params_defaults(&params);
	params.net = net;
	params.disable = disable;
	snprintf(root, sizeof(root), "%s/class/infiniband", fake->root);
	errno = EXDEV;
	plugin_choose(&params, root, &choice);
	assert_int_equal(errno, EXDEV);
	return choice;
}

static void rdma_port(struct fake_sysfs *fake, const char *device, int port, const char *port_state, const char *layer)
{
	char path[128];

	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%d/state", device, port);
	fake_file(fake, path, port_state);
	snprintf(path, sizeof(path), "class/infiniband/%s/ports/%d/link_layer", device, port);
	fake_file(fake, path, layer);
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
	fake_file(*state, "class/infiniband/broken_0/ports/1/state", "");
	fake_file(*state, "class/infiniband/broken_1/node_type", "1: CA\n");
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
