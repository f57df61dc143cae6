/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/interface.h"

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

static void fastest_come_first_then_names_in_natural_order(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth10", NULL, 2, "10000", "10.0.10.7");
	fake_nic(fake, "eth2", NULL, 3, "10000", "10.0.2.7");
	fake_nic(fake, "eth0", NULL, 4, "1000", "10.0.0.7");
	fake_nic(fake, "eth11", NULL, 5, "100000", "10.0.11.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth11 eth2 eth10 eth0");
}

static void container_bridges_and_tunnels_come_only_after_the_rest(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "docker0", NULL, 2, "10000", "172.17.0.1");
	fake_nic(fake, "br-0123456789ab", NULL, 3, "10000", "172.18.0.1");
	fake_nic(fake, "mybridge", NULL, 4, "10000", "172.19.0.1");
	fake_attribute(fake, "mybridge", "bridge/stp_state", "0\n");
	fake_nic(fake, "tun0", NULL, 5, "10", NULL);
	fake_attribute(fake, "tun0", "type", "65534\n");
	fake_address(fake, "tun0", FAKE_UP | IFF_POINTOPOINT, "10.8.0.2");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "br-0123456789ab docker0 mybridge tun0");
	fake_nic(fake, "eth0", NULL, 6, "1000", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	choice = fake_choose(fake, "docker0");
	fake_assert_chosen(&choice, "docker0");
}

static void every_container_name_is_known(void **state)
{
	static const char *const names[] = { "docker0", "docker_gwbridge", "virbr0",         "cni0",
					     "podman1", "flannel.1",       "br-0a1b2c3d4e5f" };
	static const char *const ordinary[] = { "br-lan", "br0", "veth1", "eth0", "br-0a1b2c3d4e5", "br-0A1B2C3D4E5F" };
	struct fake_sysfs *fake = *state;
	char expected[256] = "";
	struct fake_choice choice;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		fake_nic(fake, names[i], NULL, 10 + (int)i, "100000", "172.17.0.1");
	for (size_t i = 0; i < sizeof(ordinary) / sizeof(ordinary[0]); i++) {
		char speed[16];

		snprintf(speed, sizeof(speed), "%u", 5000 - (unsigned)i); /* fixes their order */
		fake_nic(fake, ordinary[i], NULL, 30 + (int)i, speed, "10.0.0.7");
		snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s%s", i ? " " : "",
			 ordinary[i]);
	}
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, expected);
}

static void a_veth_alone_is_chosen_like_a_card(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "veth3", NULL, 2, "10000", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "veth3");
	assert_string_equal(choice.at[0].why, "up, with an address");
}

static void loopback_is_chosen_when_there_is_nothing_else(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "lo");
	assert_int_equal(choice.at[0].speed_Bps, 10 * GBIT_BPS);
}

static void what_is_down_or_unplugged_is_left_out(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", NULL, 2, "1000", NULL);
	fake_nic(fake, "eth1", NULL, 3, "1000", NULL);
	fake_address(fake, "eth0", 0, "10.0.0.7");
	fake_address(fake, "eth1", IFF_UP, "10.0.1.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "lo");
	/* A link may come up later: who names the interface gets it. */
	choice = fake_choose(fake, "eth1");
	fake_assert_chosen(&choice, "eth1");
	choice = fake_choose(fake, "eth0");
	assert_int_equal(choice.result, -ENODEV);
	assert_non_null(strstr(choice.diag.text, "eth0 (down)"));
}

static void ipv6_alone_is_used_by_its_global_address(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "eth0", NULL, 2, "1000", "fe80::7%2");
	fake_address(fake, "eth0", FAKE_UP, "2001:db8::7");
	fake_nic(fake, "veth9", NULL, 3, "10000", "fe80::9%3"); /* a container's other end */
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	fake_assert_address(&choice.at[0], "2001:db8::7");
	choice = fake_choose_of(fake, "", FAMILY_IPV4, fake->tree.fd);
	assert_int_equal(choice.result, 0);
	assert_int_equal(choice.count, 0);
	assert_non_null(strstr(choice.diag.text, "IPv4"));
	assert_non_null(strstr(choice.diag.text, "eth0 (no IPv4 address)"));
}

static void link_local_alone_keeps_its_scope(void **state)
{
	struct fake_sysfs *fake = *state;
	const struct sockaddr_in6 *address;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", NULL, 2, "1000", "fe80::7%2");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	fake_assert_address(&choice.at[0], "fe80::7");
	address = (const void *)&choice.at[0].address;
	assert_int_equal(address->sin6_scope_id, 2);
}

static void family_decides_among_an_interface_s_addresses(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "eth0", NULL, 2, "1000", "2001:db8::7");
	fake_address(fake, "eth0", FAKE_UP, "169.254.3.3");
	fake_address(fake, "eth0", FAKE_UP, "10.0.0.7");
	fake_address(fake, "eth0:1", FAKE_UP, "10.0.0.8");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	fake_assert_address(&choice.at[0], "10.0.0.7");
	assert_int_equal(choice.at[0].prefix_bits, 24);
	choice = fake_choose_of(fake, "", FAMILY_IPV6, fake->tree.fd);
	fake_assert_chosen(&choice, "eth0");
	fake_assert_address(&choice.at[0], "2001:db8::7");
	assert_int_equal(choice.at[0].prefix_bits, 64);
}

static void a_bmc_s_link_local_ipv4_is_no_rail(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_nic(fake, "eth0", NULL, 2, "1000", "10.0.0.7");
	fake_nic(fake, "usb0", NULL, 3, "10000", "169.254.3.1");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
}

/* An interface of a kind that sysfs names, without a device. */
static void typed(struct fake_sysfs *fake, const char *name, const char *type, int index, const char *address)
{
	char text[64];

	fake_nic(fake, name, NULL, index, "100000", address);
	snprintf(text, sizeof(text), "INTERFACE=%s\nDEVTYPE=%s\nIFINDEX=%d\n", name, type, index);
	fake_attribute(fake, name, "uevent", text);
}

#define CARD_A "pci0000:80/0000:80:01.0/0000:81:00.0"
#define CARD_B "pci0000:80/0000:80:02.0/0000:82:00.0"
#define CARD_C "pci0000:80/0000:80:03.0/0000:83:00.0"

static void overlays_are_no_rails_beside_a_port(void **state)
{
	static const char *const types[] = { "vxlan", "geneve", "wireguard", "bareudp", "l2tpeth" };
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;
	char name[IFNAMSIZ];

	fake_loopback(fake);
	fake_nic(fake, "eno1", CARD_A, 2, "10000", "10.0.0.5");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		snprintf(name, sizeof(name), "net%zu", i); /* by its type, not by its name */
		typed(fake, name, types[i], 10 + (int)i, i % 2 ? "10.244.1.0" : "10.244.1.0/32");
		fake_lower(fake, name, "eno1");
	}
	fake_nic(fake, "cilium_host", NULL, 20, "10000", "10.0.1.23/32");
	fake_nic(fake, "cali12ab", NULL, 21, "10000", "fe80::5%21");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eno1");
	choice = fake_choose(fake, "^eno1");
	assert_int_equal(choice.count, 6); /* nothing else: then those */
	assert_non_null(strstr(choice.at[0].why, "overlay"));
}

/* As on a host whose ports sysfs does not tell from veths: what stands beside is known by name or type. */
static void overlays_are_no_rails_beside_a_virtual_port(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eno1", NULL, 2, "10000", "10.0.0.5");
	fake_nic(fake, "peer0", NULL, 3, "10000", "fe80::3%3");
	typed(fake, "vxlan.calico", "vxlan", 4, "10.233.99.64/32");
	fake_nic(fake, "cilium_host", NULL, 5, "10000", "10.0.1.23/32");
	fake_nic(fake, "some_cni", NULL, 6, "10000", "10.0.2.23/32");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eno1");
}

static void a_pod_s_only_port_is_used_whatever_it_is(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", NULL, 2, "10000", "10.244.3.9/32"); /* a veth, as Calico gives it */
	fake_attribute(fake, "eth0", "iflink", "77\n");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth0");
	/* A virtual address that a load balancer put on loopback does not lead to the other pods. */
	fake_address(fake, "lo", FAKE_UP | IFF_LOOPBACK, "203.0.113.9/32");
	fake_nic(fake, "net1", NULL, 3, "100000", "192.168.7.9");
	typed(fake, "net1", "macvlan", 3, NULL);
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "net1");
	fake_nic(fake, "vf0", CARD_A, 4, "200000", "192.168.8.9");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "vf0");
}

static void wireless_and_usb_are_no_rails_beside_a_port(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "wlP9s9", CARD_C, 4, "-1", "192.168.1.21");
	fake_attribute(fake, "wlP9s9", "uevent", "DEVTYPE=wlan\nINTERFACE=wlP9s9\n");
	fake_nic(fake, "home", CARD_B, 5, "-1", "192.168.1.22"); /* renamed, on a kernel that names no type */
	fake_attribute(fake, "home", "phy80211/index", "0\n");
	typed(fake, "home.7", "vlan", 6, "192.168.2.21");
	fake_lower(fake, "home.7", "home");
	fake_nic(fake, "enx0", "pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0", 7, "1000", "16.1.15.2");
	fake_nic(fake, "docker0", NULL, 8, "100000", "172.17.0.1");
	choice = fake_choose(fake, "");
	assert_int_equal(choice.count, 4); /* better than a bridge that leads nowhere */
	assert_non_null(strstr(choice.at[0].why, "wireless"));
	fake_nic(fake, "enP7s7", CARD_A, 2, "10000", "192.168.1.20");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "enP7s7");
	choice = fake_choose(fake, "=wlP9s9");
	fake_assert_chosen(&choice, "wlP9s9");
}

/* BGP to the host: the ports have link-local addresses, the host's own is on loopback. */
static void an_address_on_loopback_serves_ports_without_one(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_address(fake, "lo", FAKE_UP | IFF_LOOPBACK, "10.9.0.1/32");
	fake_address(fake, "lo", FAKE_UP | IFF_LOOPBACK, "::1");
	fake_nic(fake, "lan0", CARD_A, 2, "25000", "fe80::2%2");
	fake_nic(fake, "lan1", CARD_B, 3, "25000", "fe80::3%3");
	fake_nic(fake, "mgmt", CARD_C, 4, "1000", "fe80::4%4");
	fake_nic(fake, "docker0", NULL, 5, "100000", "172.17.0.1");
	fake_nic(fake, "br-fancy", NULL, 6, "100000", "172.18.0.1"); /* virtual, of no kind that is known */
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "lo");
	fake_assert_address(&choice.at[0], "10.9.0.1");
	assert_true(choice.at[0].address_only);
	/* Both of the fast ports carry its traffic. */
	assert_int_equal(choice.at[0].speed_Bps, 50 * GBIT_BPS);
	assert_int_equal(choice.at[0].path_count, 2);
	assert_non_null(strstr(choice.at[0].pci_path, "0000:81:00.0"));
	choice = fake_choose(fake, "=lo");
	fake_assert_chosen(&choice, "lo");
	fake_assert_address(&choice.at[0], "10.9.0.1");
	/* A port with an address of its own is better than that. */
	fake_nic(fake, "eth7", "pci0000:80/0000:80:04.0/0000:84:00.0", 7, "1000", "10.0.0.7");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "eth7");
}

static void an_address_on_loopback_is_used_without_a_device_below_the_ports(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_address(fake, "lo", FAKE_UP | IFF_LOOPBACK, "2001:db8::1/128");
	fake_nic(fake, "lan0", NULL, 2, "25000", "fe80::2%2");
	fake_nic(fake, "docker0", NULL, 5, "100000", "172.17.0.1");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "lo");
	fake_assert_address(&choice.at[0], "2001:db8::1");
	assert_int_equal(choice.at[0].speed_Bps, 25 * GBIT_BPS);
}

static void an_address_on_a_dummy_is_used_like_one_on_loopback(void **state)
{
	const unsigned flags = FAKE_UP | IFF_BROADCAST | IFF_NOARP;
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", CARD_A, 2, "25000", "fe80::2%2");
	fake_nic(fake, "host0", NULL, 3, "-1", NULL);
	fake_address(fake, "host0", flags, "10.9.0.1/32");
	fake_nic(fake, "kube-ipvs0", NULL, 4, "-1", NULL);
	fake_address(fake, "kube-ipvs0", flags, "10.96.0.1/32");
	choice = fake_choose(fake, "");
	fake_assert_chosen(&choice, "host0");
	assert_true(choice.at[0].address_only);
	assert_int_equal(choice.at[0].speed_Bps, 25 * GBIT_BPS);
}

static void positive_list_keeps_its_own_order(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "ib0", NULL, 2, "100000", "10.1.0.7");
	fake_nic(fake, "eth1", NULL, 3, "1000", "10.0.1.7");
	fake_nic(fake, "eth0", NULL, 4, "1000", "10.0.0.7");
	fake_nic(fake, "eth0b", NULL, 5, "1000", "10.0.2.7");
	choice = fake_choose(fake, "eth1,ib,eth");
	fake_assert_chosen(&choice, "eth1 ib0 eth0 eth0b");
	choice = fake_choose(fake, "=eth0,lo");
	fake_assert_chosen(&choice, "eth0 lo");
	choice = fake_choose(fake, "lo,=eth0");
	fake_assert_chosen(&choice, "lo eth0");
	choice = fake_choose(fake, "eth0,=eth0");
	fake_assert_chosen(&choice, "eth0 eth0b");
	assert_string_equal(choice.diag.text, "");
	choice = fake_choose(fake, ",,eth1:1234,");
	fake_assert_chosen(&choice, "eth1");
}

static void exclusion_takes_names_out_of_the_free_choice(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", NULL, 2, "1000", "10.0.0.7");
	fake_nic(fake, "eth1", NULL, 3, "1000", "10.0.1.7");
	fake_nic(fake, "eth10", NULL, 4, "1000", "10.0.2.7");
	choice = fake_choose(fake, "^eth1");
	fake_assert_chosen(&choice, "eth0");
	choice = fake_choose(fake, "^=eth1");
	fake_assert_chosen(&choice, "eth0 eth10");
	choice = fake_choose(fake, "^eth");
	fake_assert_chosen(&choice, "lo");
	choice = fake_choose(fake, "^");
	fake_assert_chosen(&choice, "eth0 eth1 eth10");
	choice = fake_choose(fake, "^eth,lo");
	assert_int_equal(choice.result, 0);
	assert_int_equal(choice.count, 0);
	assert_non_null(strstr(choice.diag.text, "^eth,lo"));
}

static void names_that_match_nothing_are_reported(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice;

	fake_loopback(fake);
	fake_nic(fake, "eth0", NULL, 2, "1000", "10.0.0.7");
	choice = fake_choose(fake, "eth0,ib0,mlx");
	fake_assert_chosen(&choice, "eth0");
	assert_non_null(strstr(choice.diag.text, "\"ib0\""));
	assert_int_equal(choice.diag.column, 6);
	assert_non_null(strstr(choice.diag.text, "lo, eth0"));
	choice = fake_choose(fake, "ib");
	assert_int_equal(choice.result, -ENODEV);
	assert_non_null(strstr(choice.diag.text, "\"ib\""));
	choice = fake_choose(fake, "^eth0,^docker"); /* one ^ at the beginning, and no other */
	fake_assert_chosen(&choice, "lo");
}

static void an_empty_host_has_none(void **state)
{
	struct fake_sysfs *fake = *state;
	struct fake_choice choice = fake_choose(fake, "");

	assert_int_equal(choice.result, 0);
	assert_int_equal(choice.count, 0);
	assert_non_null(strstr(choice.diag.text, "none at all"));
}

static void at_most_max_are_given_the_best_ones(void **state)
{
	struct fake_sysfs *fake = *state;
	struct tcp_interface_source source = { fake->tree.fd, &fake->addresses[0] };
	struct tcp_interface at[2];
	struct params params;
	struct diag diag;
	size_t count = 99;

	fake_nic(fake, "eth0", NULL, 2, "1000", "10.0.0.7");
	fake_nic(fake, "eth1", NULL, 3, "25000", "10.0.1.7");
	fake_nic(fake, "eth2", NULL, 4, "10000", "10.0.2.7");
	params_defaults(&params);
	assert_int_equal(tcp_interfaces_choose(&params, &source, at, 2, &count, &diag), 0);
	assert_int_equal(count, 2);
	assert_string_equal(at[0].name, "eth1");
	assert_string_equal(at[1].name, "eth2");
	assert_int_equal(tcp_interfaces_choose(&params, &source, at, 0, &count, &diag), 0);
	assert_int_equal(count, 0);
}

/* -------- the real system -------- */

static void this_host_can_be_asked(void **state)
{
	struct tcp_interface at[TCP_INTERFACE_MAX];
	struct params params;
	struct diag diag;
	size_t count = 99;

	(void)state;
	params_defaults(&params);
	errno = ENOTTY;
	assert_int_equal(tcp_interfaces_find(&params, at, TCP_INTERFACE_MAX, &count, &diag), 0);
	assert_int_equal(errno, ENOTTY);
	if (!count) {
		print_message("skipped: no interface is up here\n");
		skip();
	}
	for (size_t i = 0; i < count; i++) {
		assert_true(at[i].name[0] && at[i].guid && at[i].speed_Bps && at[i].mtu_bytes >= 68);
		assert_true(at[i].address.ss_family == AF_INET || at[i].address.ss_family == AF_INET6);
		assert_true(if_nametoindex(at[i].name) != 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_sysfs_new, fake_sysfs_free)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(fastest_come_first_then_names_in_natural_order),
		TEST(container_bridges_and_tunnels_come_only_after_the_rest),
		TEST(every_container_name_is_known),
		TEST(a_veth_alone_is_chosen_like_a_card),
		TEST(loopback_is_chosen_when_there_is_nothing_else),
		TEST(what_is_down_or_unplugged_is_left_out),
		TEST(ipv6_alone_is_used_by_its_global_address),
		TEST(link_local_alone_keeps_its_scope),
		TEST(family_decides_among_an_interface_s_addresses),
		TEST(a_bmc_s_link_local_ipv4_is_no_rail),
		TEST(overlays_are_no_rails_beside_a_port),
		TEST(overlays_are_no_rails_beside_a_virtual_port),
		TEST(a_pod_s_only_port_is_used_whatever_it_is),
		TEST(wireless_and_usb_are_no_rails_beside_a_port),
		TEST(an_address_on_loopback_serves_ports_without_one),
		TEST(an_address_on_loopback_is_used_without_a_device_below_the_ports),
		TEST(an_address_on_a_dummy_is_used_like_one_on_loopback),
		TEST(positive_list_keeps_its_own_order),
		TEST(exclusion_takes_names_out_of_the_free_choice),
		TEST(names_that_match_nothing_are_reported),
		TEST(an_empty_host_has_none),
		TEST(at_most_max_are_given_the_best_ones),
		cmocka_unit_test(this_host_can_be_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
