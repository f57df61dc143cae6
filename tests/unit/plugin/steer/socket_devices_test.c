/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces NCCL's own sockets have as devices, by NCCL's rules. */
#include "plugin/steer/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { ENTRIES = 8 };

static const char *names, *family, *id; /* the user's settings; NULL: not set */

static const char *setting(const char *name)
{
	if (!strcmp(name, "NCCL_SOCKET_IFNAME"))
		return names;
	if (!strcmp(name, "NCCL_SOCKET_FAMILY"))
		return family;
	return !strcmp(name, "NCCL_COMM_ID") ? id : NULL;
}

/*
 * Interfaces as getifaddrs lists them, "eth0 eth0/6 eth1/down lo": with an address of version 4, or 6; or it is not running.
 * "eth0 eth1": the devices in their order; "" when they are not known.
 */
static const char *devices(const char *interfaces)
{
	static char ret[PLAN_NICS_MAX * (IFNAMSIZ + 2)];
	char found[PLAN_NICS_MAX][IFNAMSIZ];
	const struct params_source source = { .get = setting };
	struct sockaddr_in6 addresses[ENTRIES];
	struct ifaddrs list[ENTRIES];
	char text[128], *rest = text, *word;
	const char *why;
	size_t count = 0, device_count;

	memset(addresses, 0, sizeof(addresses));
	memset(list, 0, sizeof(list));
	snprintf(text, sizeof(text), "%s", interfaces);
	while ((word = strsep(&rest, " "))) {
		char *slash = strchr(word, '/');

		assert_true(count < ENTRIES);
		addresses[count].sin6_family = slash && slash[1] == '6' ? AF_INET6 : AF_INET;
		addresses[count].sin6_addr.s6_addr[0] = 0xfd;
		list[count].ifa_addr = (void *)&addresses[count];
		list[count].ifa_flags = slash && slash[1] == 'd' ? 0 : IFF_RUNNING;
		if (slash)
			*slash = '\0';
		list[count].ifa_name = word;
		if (count)
			list[count - 1].ifa_next = &list[count];
		count++;
	}
	why = steer_nets_sockets(list, &source, found, &device_count);
	assert_true(!why || why[0]);
	ret[0] = '\0';
	for (size_t i = 0; !why && i < device_count; i++)
		snprintf(ret + strlen(ret), sizeof(ret) - strlen(ret), "%s%s", i ? " " : "", found[i]);
	return ret;
}

static void a_single_interface_is_device_0(void **state)
{
	(void)state;
	assert_string_equal(devices("lo eth0 lo/6 eth0/6"), "eth0");
	assert_string_equal(devices("lo eth0 docker0 virbr0 eth1/down"), "eth0");
	assert_string_equal(devices("lo docker0"), "docker0");
	assert_string_equal(devices("lo"), "lo");
	assert_string_equal(devices("lo virbr0"), "lo");
	assert_string_equal(devices("lo eth0 ib0 eth1"), "ib0"); /* those of InfiniBand come first */
}

static void several_are_numbered_in_the_kernels_order(void **state)
{
	(void)state;
	assert_string_equal(devices("lo eth1 eth0 eth1/6 eth2/6"), "eth1 eth0 eth2");
	assert_string_equal(devices("eth0 ib1 ib0"), "ib1 ib0");
	assert_string_equal(devices("eth0/down"), "");
}

static void what_a_subnet_decides_is_not_known(void **state)
{
	(void)state;
	id = "10.0.0.1:2000";
	assert_string_equal(devices("lo eth0"), "");
	assert_string_equal(devices("lo ib0"), "ib0");
	names = "eth0";
	assert_string_equal(devices("lo eth0"), "eth0");
	names = id = NULL;
}

static void the_users_names_count(void **state)
{
	static const struct {
		const char *names, *interfaces, *device;
	} cases[] = {
		{ "eth1", "lo eth0 eth1", "eth1" },
		{ "eth", "lo eth0 eth1", "eth0 eth1" },
		{ "eth1", "lo eth0 eth1 eth10", "eth1 eth10" },
		{ "=eth1", "lo eth0 eth1 eth10", "eth1" },
		{ "^eth0", "lo eth0 eth1", "lo eth1" },
		{ "^eth0,lo", "lo eth0 eth1", "eth1" },
		{ "^=eth1,lo", "lo eth1 eth10", "eth10" },
		{ "eth1:2", "lo eth0 eth1", "eth1" },
		{ "wlan0,eth1", "lo eth0 eth1", "eth1" },
		{ "lo", "lo eth0", "lo" },
		{ "wlan0", "lo eth0", "" },
		{ "", "lo eth0", "eth0" },
		{ "e", "lo eth0", "eth0" }, /* NCCL takes a name of one letter for none */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		names = cases[i].names;
		assert_string_equal(devices(cases[i].interfaces), cases[i].device);
	}
	names = NULL;
}

static void the_users_family_counts(void **state)
{
	(void)state;
	family = "AF_INET";
	assert_string_equal(devices("lo eth0/6 eth1"), "eth1");
	family = "AF_INET6";
	assert_string_equal(devices("lo eth0/6 eth1"), "eth0");
	family = NULL;
}

/* An interface that the profile has not got counts, too. */
static void a_plan_names_nics_by_their_numbers(void **state)
{
	struct steer_nets nets = { .sockets = true,
				   .count = 3,
				   .at = { { .name = "lo" }, { .name = "eth1" }, { .name = "eth0" } } };
	struct topology_vertex nic = topology_vertex_of(TOPOLOGY_NIC, "mlx5_0");
	struct steer_machine machine = { .loaded = true };
	struct plan_request request = { .nic_count = 2 };
	int numbers[PLAN_NICS_MAX];

	(void)state;
	topology_init(&machine.topology);
	snprintf(nic.nic.interface, sizeof(nic.nic.interface), "eth0");
	assert_int_equal(topology_add_vertex(&machine.topology, &nic, &request.nics[0]), 0);
	nic = topology_vertex_of(TOPOLOGY_NIC, "nic:eth1");
	assert_int_equal(topology_add_vertex(&machine.topology, &nic, &request.nics[1]), 0);
	steer_nets_devices(&machine, &nets, &request, numbers);
	assert_int_equal(numbers[0], 2);
	assert_int_equal(numbers[1], 1);
	topology_fini(&machine.topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_single_interface_is_device_0),
		cmocka_unit_test(several_are_numbered_in_the_kernels_order),
		cmocka_unit_test(what_a_subnet_decides_is_not_known),
		cmocka_unit_test(the_users_names_count),
		cmocka_unit_test(the_users_family_counts),
		cmocka_unit_test(a_plan_names_nics_by_their_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
