/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL is told of devices while interfaces come, go and change between communicators: the plugin over the real TCP, in a
 * network namespace of the test's own.
 */
#include "plugin/net.h"

#include "base/clock.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "unit/plugin/fake_rdma.h"
#include "support/log_lines.h"
#include "support/private_net.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_MS = 20000 };

static const char *const told[] = { "eth0", "eth1" };

static void run(const char *command)
{
	if (private_net_command("%s", command))
		fail_msg("%s", command);
}

static void up(const char *name)
{
	if (!private_net_up(name))
		fail_msg("%s has no link", name);
}

/* As two communicators of one process: what is sent from a device to itself takes the loopback, but by the device's address. */
static void connect_over(int device, bool is_possible)
{
	uint8_t handle[NCCL_HANDLE_BYTES];
	void *listener = NULL, *sender = NULL, *receiver = NULL;
	uint64_t end_ns = clock_now_ns() + CONNECT_MS * NS_PER_MS * runtime_slow();
	enum nccl_result result = plugin_net_listen(device, handle, &listener);

	if (!is_possible) {
		assert_int_equal(result, NCCL_SYSTEM_ERROR);
		return;
	}
	assert_int_equal(result, NCCL_SUCCESS);
	while ((!sender || !receiver) && clock_now_ns() < end_ns) {
		if (!sender)
			assert_int_equal(plugin_net_connect(device, -1, handle, &sender), NCCL_SUCCESS);
		if (!receiver)
			assert_int_equal(plugin_net_accept(listener, &receiver), NCCL_SUCCESS);
	}
	assert_true(sender && receiver);
	plugin_net_close_connection(sender);
	plugin_net_close_connection(receiver);
	plugin_net_close_listener(listener);
}

/* A communicator: the same devices as ever, and each connects. */
static void communicator(bool is_possible)
{
	struct plugin_net_properties properties;
	void *context = NULL;
	int count = -1;

	assert_int_equal(plugin_net_init(1, -1, log_lines_sink, &context), NCCL_SUCCESS);
	assert_int_equal(plugin_net_devices(&count), NCCL_SUCCESS);
	assert_int_equal(count, 2);
	for (int i = 0; i < count; i++) {
		assert_int_equal(plugin_net_properties(i, &properties), 0);
		assert_string_equal(properties.name, told[i]);
		connect_over(i, is_possible);
	}
	assert_int_equal(plugin_net_finalize(context), NCCL_SUCCESS);
	assert_int_equal(plugin_state_holders(), 0);
}

static int setup(void **state)
{
	(void)state;
	log_lines_start(NULL);
	setenv("TRIBUTARY_NET", "tcp", 1);
	setenv("TRIBUTARY_STEER", "off", 1);
	unsetenv("TRIBUTARY_IF");
	unsetenv("NCCL_SOCKET_IFNAME");
	steer_reset(NULL, NULL);
	plugin_state_reset(NULL, &fake_rdma_none);
	run("ip link set lo up");
	/* The other ends have no address, and are no devices. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(
			private_net_command("ip link add %s type veth peer name far%d && ip link set far%d up && "
					    "ip addr add 10.9.%d.1/24 dev %s",
					    told[i], i, i, i, told[i]),
			0);
		up(told[i]);
	}
	communicator(true);
	assert_int_equal(log_lines()->warnings, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)private_net_command("for i in eth0 eth1 ebb zzz; do ip link del $i 2>/dev/null; done");
	steer_reset(NULL, NULL);
	plugin_state_reset(NULL, NULL);
	log_set_sink(NULL);
	return 0;
}

static void a_new_interface_is_no_new_device(void **state)
{
	(void)state;
	/* As fast, and ahead by its name. */
	run("ip link add ebb type veth peer name far && ip link set far up && ip addr add 10.9.8.1/24 dev ebb");
	up("ebb");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 0);
}

static void an_interface_that_goes_down_keeps_its_number(void **state)
{
	(void)state;
	run("ip link set eth0 down");
	communicator(true);
	assert_non_null(
		strstr(log_lines()->warning, "network device eth0 has gone since NCCL was told of it: eth1 carries"));
	communicator(true);
	assert_int_equal(log_lines()->warnings, 1);
	up("eth0");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 1);
	run("ip link del eth1");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 2);
}

static void a_renamed_interface_keeps_its_number(void **state)
{
	(void)state;
	run("ip link set eth0 down && ip link set eth0 name zzz"); /* it is the last by its name */
	up("zzz");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 0);
}

static void an_interface_may_have_another_address(void **state)
{
	(void)state;
	run("ip addr flush dev eth1 && ip addr add 10.9.7.1/24 dev eth1");
	communicator(true);
	run("ip addr flush dev eth1");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 1);
	run("ip addr add 10.9.1.1/24 dev eth1");
	communicator(true);
	assert_int_equal(log_lines()->warnings, 1);
}

static void without_any_interface_init_succeeds_and_connections_fail(void **state)
{
	(void)state;
	run("ip link set eth0 down && ip link set eth1 down && ip link set lo down");
	communicator(false);
	run("ip link set lo up");
	up("eth0");
	up("eth1");
	communicator(true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_interface_is_no_new_device),
		TEST(an_interface_that_goes_down_keeps_its_number),
		TEST(a_renamed_interface_keeps_its_number),
		TEST(an_interface_may_have_another_address),
		TEST(without_any_interface_init_succeeds_and_connections_fail),
	};

	runtime_start("interfaces_test", 120);
	if (!private_net_enter() ||
	    private_net_command("ip link add p0 type veth peer name p1 2>/dev/null && ip link del p0")) {
		printf("skipped: no network namespace of its own, or no iproute2\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
