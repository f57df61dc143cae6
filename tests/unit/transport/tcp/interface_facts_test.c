/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/interface_facts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "unit/transport/tcp/fake_sysfs.h"

#define GBIT_BPS UINT64_C(125000000)
#define PORT_0   "pci0000:80/0000:80:01.0/0000:81:00.0"
#define PORT_1   "pci0000:80/0000:80:01.0/0000:81:00.1"
#define OTHER    "pci0000:00/0000:00:1c.0/0000:02:00.0"

static void plain_nic_has_place_speed_and_address(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", PORT_0, 2, "100000", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	assert_string_equal(choice.diag.text, "");
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" PORT_0);
	assert_int_equal(choice.at[0].speed_Bps, 100 * GBIT_BPS);
	assert_false(choice.at[0].speed_assumed);
	assert_int_equal(choice.at[0].port, 1);
	assert_int_equal(choice.at[0].path_count, 1);
	assert_int_equal(choice.at[0].mtu_bytes, 9000);
	fake_assert_address(&choice.at[0], "10.0.0.7");
}

static void virtio_nic_sits_at_the_pci_function_above_it(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "ens3", "pci0000:00/0000:00:03.0/virtio1", 2, "-1", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "ens3");
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/pci0000:00/0000:00:03.0");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_true(choice.at[0].speed_assumed);
}

static void ports_of_a_card_share_its_guid_and_differ_in_port(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "p0", PORT_0, 2, "25000", "10.0.0.7");
	fake_nic(fake, "p1", PORT_1, 3, "25000", "10.0.1.7");
	fake_nic(fake, "q0", OTHER, 4, "25000", "10.0.2.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "p0 p1 q0");
	assert_int_equal(choice.at[0].guid, choice.at[1].guid);
	assert_int_not_equal(choice.at[0].guid, choice.at[2].guid);
	assert_int_equal(choice.at[0].port, 1);
	assert_int_equal(choice.at[1].port, 2);
	assert_int_equal(choice.at[2].port, 1);
}

static void one_function_with_two_ports_counts_them_by_dev_port(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "p0", PORT_0, 2, "40000", "10.0.0.7");
	fake_nic(fake, "p1", PORT_0, 3, "40000", "10.0.1.7");
	fake_attribute(fake, "p1", "dev_port", "1\n");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "p0 p1");
	assert_int_equal(choice.at[0].guid, choice.at[1].guid);
	assert_int_equal(choice.at[0].port, 1);
	assert_int_equal(choice.at[1].port, 2);
}

static void virtual_function_is_on_the_wire_of_its_physical_one(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "p1", PORT_1, 2, "25000", "10.0.0.7");
	fake_nic(fake, "v0", "pci0000:80/0000:80:01.0/0000:81:02.3", 3, "25000", "10.0.1.7");
	tree_link(&fake->tree, "devices/pci0000:80/0000:80:01.0/0000:81:02.3/physfn", "../0000:81:00.1");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "p1 v0");
	assert_string_equal(choice.at[1].pci_path, "/sys/devices/pci0000:80/0000:80:01.0/0000:81:02.3");
	assert_int_equal(choice.at[0].guid, choice.at[1].guid);
	assert_int_equal(choice.at[0].port, 2);
	assert_int_equal(choice.at[1].port, 2);
}

static void add_bond(struct fake_sysfs *fake, const char *mode)
{
	fake_nic(fake, "p0", PORT_0, 2, "25000", NULL);
	fake_nic(fake, "q0", OTHER, 3, "10000", NULL);
	fake_attribute(fake, "p0", "bonding_slave/mii_status", "up\n");
	fake_attribute(fake, "q0", "bonding_slave/mii_status", "up\n");
	fake_interface(fake, "bond0", NULL, 5, "02:00:00:00:00:02", "35000");
	fake_attribute(fake, "bond0", "bonding/slaves", "p0 q0\n");
	fake_attribute(fake, "bond0", "bonding/mode", mode);
	fake_lower(fake, "bond0", "p0");
	fake_lower(fake, "bond0", "q0");
	fake_address(fake, "bond0", FAKE_UP, "10.0.0.7");
}

static void lacp_bond_is_the_sum_of_its_live_members(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	add_bond(fake, "802.3ad 4\n");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "bond0");
	assert_int_equal(choice.at[0].speed_Bps, 35 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 2);
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" PORT_0);
	/* The first member's link is lost. */
	fake_attribute(fake, "p0", "bonding_slave/mii_status", "down\n");
	choice = fake_choose(fake, "");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 1);
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" OTHER);
	/* It is back, but its switch port speaks no LACP. */
	fake_attribute(fake, "p0", "bonding_slave/mii_status", "up\n");
	fake_attribute(fake, "bond0", "bonding/ad_aggregator", "2\n");
	fake_attribute(fake, "p0", "bonding_slave/ad_aggregator_id", "1\n");
	fake_attribute(fake, "q0", "bonding_slave/ad_aggregator_id", "2\n");
	choice = fake_choose(fake, "");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 1);
}

static void active_backup_bond_is_its_active_member(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	add_bond(fake, "active-backup 1\n");
	fake_attribute(fake, "bond0", "bonding/active_slave", "q0\n");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "bond0");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 1);
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" OTHER);
}

static void vlan_on_a_bond_takes_everything_from_below(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	add_bond(fake, "802.3ad 4\n");
	fake_interface(fake, "bond0.100", NULL, 6, "02:00:00:00:00:02", "10000");
	fake_lower(fake, "bond0.100", "bond0");
	fake_address(fake, "bond0.100", FAKE_UP, "10.1.0.7");
	choice = fake_choose(fake, "=bond0.100");
	fake_assert_chosen(&choice, "bond0.100");
	assert_int_equal(choice.at[0].speed_Bps, 35 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 2);
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" PORT_0);
	choice = fake_choose(fake, "bond0");
	fake_assert_chosen(&choice, "bond0 bond0.100");
	assert_int_equal(choice.at[0].guid, choice.at[1].guid); /* one wire */
	assert_int_equal(choice.at[0].port, choice.at[1].port);
}

static void bonded_ports_keep_their_permanent_address(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice before, after;

	fake_nic(fake, "p0", PORT_0, 2, "25000", "10.0.0.7");
	before = fake_choose(fake, "");
	fake_attribute(fake, "p0", "address", "02:00:00:00:00:99\n");
	after = fake_choose(fake, "");
	assert_int_not_equal(before.at[0].guid, after.at[0].guid);
	fake_attribute(fake, "p0", "bonding_slave/perm_hwaddr", "02:00:00:00:00:02\n");
	after = fake_choose(fake, "");
	assert_int_equal(before.at[0].guid, after.at[0].guid);
}

static void bridge_with_a_card_in_it_is_that_card(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "p0", PORT_0, 2, "40000", NULL);
	fake_nic(fake, "tap7", NULL, 3, "100000", NULL);
	fake_attribute(fake, "tap7", "tun_flags", "0x1002\n");
	fake_interface(fake, "br0", NULL, 4, "02:00:00:00:00:02", "10000");
	fake_attribute(fake, "br0", "bridge/stp_state", "0\n");
	fake_attribute(fake, "br0", "brif/p0/state", "3\n");
	fake_attribute(fake, "br0", "brif/tap7/state", "3\n");
	fake_address(fake, "br0", FAKE_UP, "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "br0");
	assert_int_equal(choice.at[0].speed_Bps, 40 * GBIT_BPS);
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" PORT_0);
}

static void values_that_cannot_be_read_whole_are_unknown(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;
	char text[64];

	memset(text, '1', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	fake_nic(fake, "eth0", PORT_0, 2, "1000", "10.0.0.7");
	fake_attribute(fake, "eth0", "speed", text);
	fake_attribute(fake, "eth0", "mtu", "fifteen hundred\n");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_int_equal(choice.at[0].mtu_bytes, 1500);
	fake_attribute(fake, "eth0", "speed", "4294967295\n"); /* -1 on old kernels */
	choice = fake_choose(fake, "");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	fake_attribute(fake, "eth0", "speed", "0\n");
	choice = fake_choose(fake, "");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
}

static void members_in_a_circle_end_the_search(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "a", NULL, 2, "1000", "10.0.0.7");
	fake_nic(fake, "b", NULL, 3, "2000", NULL);
	fake_lower(fake, "a", "b");
	fake_lower(fake, "b", "a");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "a");
}

static void without_sysfs_there_are_defaults(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice, again;

	fake_packet(fake, "eth0", FAKE_UP, 2, "02:00:00:00:00:02");
	fake_packet(fake, "eth1", FAKE_UP, 3, "02:00:00:00:00:03");
	fake_address(fake, "eth0", FAKE_UP, "10.0.0.7");
	fake_address(fake, "eth1", FAKE_UP, "10.0.1.7");
	choice = fake_choose_of(fake, "", FAMILY_AUTO, -1);
	fake_assert_chosen(&choice, "eth0 eth1");
	assert_string_equal(choice.at[0].pci_path, "");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
	assert_int_equal(choice.at[0].mtu_bytes, 1500);
	assert_int_equal(choice.at[0].port, 1);
	assert_int_not_equal(choice.at[0].guid, choice.at[1].guid);
	again = fake_choose_of(fake, "", FAMILY_AUTO, -1);
	assert_int_equal(choice.at[0].guid, again.at[0].guid);
}

/* /sys of a container may still show the host's interfaces. */
static void sysfs_of_another_namespace_is_not_believed(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_packet(fake, "eth0", FAKE_UP, 7, "02:00:00:00:00:02");
	fake_nic(fake, "eth0", PORT_0, 2, "100000", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	assert_string_equal(choice.at[0].pci_path, ""); /* another index */
	fake_attribute(fake, "eth0", "ifindex", "7\n");
	choice = fake_choose(fake, "");
	assert_string_equal(choice.at[0].pci_path, "/sys/devices/" PORT_0);
	fake_attribute(fake, "eth0", "address", "02:00:00:00:00:77\n");
	choice = fake_choose(fake, "");
	assert_string_equal(choice.at[0].pci_path, ""); /* another address */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_sysfs_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(plain_nic_has_place_speed_and_address),
		TEST(virtio_nic_sits_at_the_pci_function_above_it),
		TEST(ports_of_a_card_share_its_guid_and_differ_in_port),
		TEST(one_function_with_two_ports_counts_them_by_dev_port),
		TEST(virtual_function_is_on_the_wire_of_its_physical_one),
		TEST(lacp_bond_is_the_sum_of_its_live_members),
		TEST(active_backup_bond_is_its_active_member),
		TEST(vlan_on_a_bond_takes_everything_from_below),
		TEST(bonded_ports_keep_their_permanent_address),
		TEST(bridge_with_a_card_in_it_is_that_card),
		TEST(values_that_cannot_be_read_whole_are_unknown),
		TEST(members_in_a_circle_end_the_search),
		TEST(without_sysfs_there_are_defaults),
		TEST(sysfs_of_another_namespace_is_not_believed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
