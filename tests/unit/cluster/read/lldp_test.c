/* SPDX-License-Identifier: Apache-2.0 */
/* LLDP's neighbours in both of lldpctl's JSON forms, of one host and of many. */
#include "declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FORWARDS "\"capability\":[{\"type\":\"Bridge\",\"enabled\":true},{\"type\":\"Wlan\",\"enabled\":false}]"
/* What a port hears, as "json" has it. */
#define HEARS(port, chassis, current)                                                                                 \
	"\"" port "\":{\"via\":\"LLDP\",\"chassis\":{\"" chassis                                                      \
	"\":{\"id\":{\"type\":\"mac\",\"value\":\"02:00:00:00:00:01\"}," FORWARDS "}},"                               \
	"\"port\":{\"id\":{\"type\":\"ifname\",\"value\":\"Ethernet1\"},\"auto-negotiation\":{\"current\":\"" current \
	"\"}}}"
/* The same, of a port with this identifier. */
#define HEARS_AT(port, chassis, kind, far, current)                                                     \
	"\"" port "\":{\"chassis\":{\"" chassis "\":{" FORWARDS "}},\"port\":{\"id\":{\"type\":\"" kind \
	"\",\"value\":\"" far "\"},\"descr\":\"to hosts\",\"auto-negotiation\":{\"current\":\"" current "\"}}}"
#define FAST "100GbaseSR4 - four lanes"

static void one_host_is_this_one(void **state)
{
	(void)state;
	declared_means("{\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}", "here",
		       "tributary-cluster 1\nswitch leaf1\nhost here leaf=leaf1 rate=100Gbit/s\n");
	declared_is_refused("{\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}", NULL, 0, "which host");
}

/* One interface is an object, several are an array. */
static void hosts_may_be_named_around(void **state)
{
	(void)state;
	declared_means(
		"{\"n1\":{\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}},\"n2\":{\"lldp\":{\"interface\":[{" HEARS(
			"eth0", "leaf2", FAST) "},{" HEARS("eth1", "leaf2", "10GigBaseX - over fiber") "}]}}}",
		NULL,
		"tributary-cluster 1\nswitch leaf1\nswitch leaf2\nhost n1 leaf=leaf1 rate=100Gbit/s\n"
		"host n2 leaf=leaf2 rate=100Gbit/s\n");
}

static void hosts_may_be_named_within_in_an_array(void **state)
{
	(void)state;
	declared_leaves_out(
		"[{\"host\":\"n1\",\"lldp\":{\"interface\":{" HEARS(
			"eth0", "leaf1",
			"unknown") "}}},{\"host\":\"n2\",\"lldp\":{}},{\"host\":\"n3\",\"lldp\":{\"interface\":{" HEARS("eth0",
															"leaf1",
															"2500BaseX") "}}}]",
		NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1\nhost n3 leaf=leaf1 rate=2500Mbit/s\n",
		"n2: left out, on no switch that counts");
}

/* What lldpcli prints for each of several hosts, one after the other. */
static void the_chassis_before_it_names_the_host(void **state)
{
	(void)state;
	declared_means(
		"{\"local-chassis\":{\"chassis\":{\"n1\":{\"id\":{\"type\":\"mac\",\"value\":\"02::\"}}}}}\n"
		"{\"lldp\":{\"interface\":{" HEARS(
			"eth0", "leaf1", FAST) "}}}\n"
					       "{\"local-chassis\":[{\"chassis\":[{\"name\":[{\"value\":\"n2\"}]}]}]}\n"
					       "{\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}\n",
		NULL, "tributary-cluster 1\nswitch leaf1\nhost n[1-2] leaf=leaf1 rate=100Gbit/s\n");
}

static void json0_is_all_arrays(void **state)
{
	(void)state;
	declared_means(
		"{\"host\":\"n1\",\"lldp\":[{\"interface\":[{\"name\":\"eth0\",\"via\":\"LLDP\",\"chassis\":[{\"id\":[{"
		"\"type\":\"mac\",\"value\":\"02::\"}],\"name\":[{\"value\":\"leaf1\"}]," FORWARDS
		"}],\"port\":[{\"id\":[{"
		"\"type\":\"ifname\",\"value\":\"e1\"}],\"auto-negotiation\":[{\"current\":[{\"value\":\"10GbaseT\"}]}]"
		"}]}]}]}",
		NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=10Gbit/s\n");
}

static void a_switch_without_a_name_has_its_identifier(void **state)
{
	(void)state;
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":{\"eth0\":{\"chassis\":{\"id\":{\"type\":\"mac\","
		       "\"value\":\"02:00:01\"}}}}}}",
		       NULL, "tributary-cluster 1\nswitch 02_00_01\nhost n1 leaf=02_00_01\n");
}

/* Switches tell of those above them, and of hosts that nobody asked. */
static void switches_may_tell_too(void **state)
{
	(void)state;
	declared_means(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}{\"switch\":\"leaf1\",\"lldp\":{\"interface\":[{" HEARS(
			"e1", "n1",
			FAST) "},{" HEARS("e9", "spine",
					  FAST) "},{\"e2\":{\"chassis\":{\"n2\":{\"capability\":{\"type\":\"Station\","
						"\"enabled\":true}}}}}]}}",
		NULL,
		"tributary-cluster 1\nswitch spine\nswitch leaf1 parent=spine rate=100Gbit/s\n"
		"host n1 leaf=leaf1 rate=100Gbit/s\nhost n2 leaf=leaf1\n");
}

/* A switch's neighbour on a port, of which it hears a name and the name of its port. */
#define SWITCH_HEARS(port, chassis, far, capability)                                           \
	"{\"" port "\":{\"chassis\":{\"" chassis "\":{\"capability\":[{\"type\":\"" capability \
	"\",\"enabled\":true}]}},\"port\":{\"id\":{\"type\":\"ifname\",\"value\":\"" far "\"},\"descr\":\"x\"}}}"
#define LEAF(leaf, first, second, up)                                                                                 \
	"{\"switch\":\"" leaf                                                                                         \
	"\",\"lldp\":{\"interface\":[" SWITCH_HEARS("eth0", "core-9", "Gi1/7", "Bridge") "," SWITCH_HEARS(            \
		"Ethernet0", first, "ens1", "Station") "," SWITCH_HEARS("Ethernet8", second, "ens1",                  \
									"Station") "," SWITCH_HEARS("Ethernet64", up, \
												    "Ethernet4",      \
												    "Router") "]}}\n"

/* What all switches hear on the port for their management joins no pods, though nothing says a rate. */
static void the_management_switch_is_above_nothing(void **state)
{
	(void)state;
	declared_leaves_out(
		LEAF("east1", "t1", "t2", "top-e") LEAF("east2", "t3", "t4", "top-e") LEAF("west1", "t5", "t6", "top-w")
			LEAF("west2", "t7", "t8", "top-w"),
		NULL,
		"tributary-cluster 1\nswitch top-e\nswitch top-w\nswitch east1 parent=top-e\n"
		"switch east2 parent=top-e\nswitch west1 parent=top-w\nswitch west2 parent=top-w\n"
		"host t[1-2] leaf=east1\nhost t[3-4] leaf=east2\nhost t[5-6] leaf=west1\nhost t[7-8] leaf=west2\n",
		"4 links of management ports are left out (eth0 of east1, eth0 of east2, eth0 of west1, eth0 of "
		"west2)\n");
	/* And where it is the other end that tells: it hears their eth0. */
	declared_leaves_out(
		LEAF("east1", "t1", "t2", "top-e") "{\"switch\":\"core-9\",\"lldp\":{\"interface\":[" SWITCH_HEARS(
			"e1", "east1", "eth0", "Bridge") "," SWITCH_HEARS("e2", "top-e", "eth0", "Bridge") "]}}",
		NULL, "tributary-cluster 1\nswitch top-e\nswitch east1 parent=top-e\nhost t[1-2] leaf=east1\n",
		"2 links of management ports are left out (eth0 of east1, eth0 of top-e)\n");
}

/* Adapters speak LLDP by themselves, on the port of their host. */
static void a_neighbour_without_a_name_is_no_host(void **state)
{
	static const char nameless[] =
		"{\"switch\":\"leaf1\",\"lldp\":{\"interface\":["
		"{\"e1\":{\"chassis\":{\"id\":{\"type\":\"mac\",\"value\":\"02:00:00:00:00:07\"}},\"port\":{}}}"
		"," SWITCH_HEARS("e1", "n1", "ens1",
				 "Station") ",{\"e2\":{\"chassis\":{\"id\":{\"type\":\"mac\",\"value\":"
					    "\"02:00:00:00:00:08\"},\"name\":\"\"}}}]}}";

	(void)state;
	declared_leaves_out(nameless, NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1\n",
			    "2 neighbours name no host and are left out (02_00_00_00_00_07, 02_00_00_00_00_08)");
}

/* A host with containers routes for them, and says so. What its ports are called tells that it is a host. */
static void a_host_that_routes_is_a_host(void **state)
{
	(void)state;
	declared_means(
		"{\"switch\":\"leaf1\",\"lldp\":{\"interface\":[" SWITCH_HEARS("e1", "n1", "enp65s0f0np0", "Router") ",{\"e2\":{\"chassis\":{\"n2\":{\"capability\":[{\"type\":\"Bridge\",\"enabled\":true}]}},\"port\":{\"id\":{\"type\":\"mac\",\"value\":\"02:00:00:00:00:01\"},\"descr\":\"ens2\"}}}," SWITCH_HEARS(
			"e9", "spine", "ens", "Router") "]}}",
		NULL, "tributary-cluster 1\nswitch spine\nswitch leaf1 parent=spine\nhost n[1-2] leaf=leaf1\n");
}

/* lldpd lists what it heard by LLDP and what it heard by CDP. */
static void a_neighbour_of_two_protocols_is_one(void **state)
{
	(void)state;
	declared_means(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS("eth0", "leaf1", FAST) "},{" HEARS(
			"eth0", "leaf1", FAST) "},{" HEARS_AT("eth1", "leaf1", "ifname", "Ethernet2", FAST) "}]}}",
		NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n");
}

/* A bond, a bridge or a VLAN hears what its port hears: one cable for each port of the switch. */
static void a_port_that_is_heard_twice_is_one_cable(void **state)
{
	(void)state;
	declared_means(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS_AT(
			"eth0", "leaf1", "ifname", "swp1",
			FAST) "},{" HEARS_AT("eth1", "leaf1", "ifname", "swp2",
					     FAST) "},{" HEARS_AT("bond0", "leaf1", "ifname", "swp1", "unknown") "}]}}",
		NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n");
	/* A file to which everything was written twice. */
#define TOLD "{\"host\":\"n1\",\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}"
	declared_means(TOLD TOLD, NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=100Gbit/s\n");
#undef TOLD
	/* Heard first without its rate; numbers for names. */
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS_AT(
			       "br0", "leaf1", "local", "513", "unknown") "},{" HEARS_AT("eth0", "leaf1", "local",
											 "513", FAST) "}]}}",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=100Gbit/s\n");
	/* Two leaves below one bond, as MLAG has it. */
	declared_means(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS_AT(
			"eth0", "leaf1", "ifname", "swp1",
			FAST) "},{" HEARS_AT("eth1", "leaf2", "ifname", "swp1",
					     FAST) "},{" HEARS_AT("bond0", "leaf1", "ifname", "swp1", FAST) "}]}}",
		NULL, "tributary-cluster 1\nswitch leaf1..leaf2\nhost n1 leaf=leaf1..leaf2 rate=200Gbit/s\n");
	/* Ports by their addresses, which are not the chassis's. */
#define ADDRESS(port, address)                                                                           \
	"{\"" port "\":{\"chassis\":{\"leaf1\":{\"id\":{\"type\":\"mac\",\"value\":\"02:00\"}," FORWARDS \
	"}},\"port\":{\"id\":{\"type\":\"mac\",\"value\":\"" address                                     \
	"\"},\"descr\":\"to hosts\",\"auto-negotiation\":{\"current\":\"" FAST "\"}}}}"
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":[" ADDRESS("bond0", "02:11") "," ADDRESS(
			       "eth0", "02:11") "," ADDRESS("eth1", "02:12") "]}}",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n");
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":[" ADDRESS("eth0", "02:00") "," ADDRESS("eth1",
													 "02:00") "]}}",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n");
#undef ADDRESS
	/* A switch whose ports have one address and one description: two cables. */
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS_AT(
			       "eth0", "leaf1", "mac", "02::", FAST) "},{" HEARS_AT("eth1", "leaf1", "mac",
										    "02::", FAST) "}]}}",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n");
}

static void what_is_excluded_is_left_out(void **state)
{
	(void)state;
	declared_leaves_out(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS("eth0", "leaf1", FAST) "},{" HEARS(
			"eth1", "other",
			FAST) "}]}}{\"host\":\"n2\",\"lldp\":{\"interface\":[{" HEARS("eth0", "leaf2",
										      FAST) "},{" HEARS("eth1", "other",
													FAST) "}]}}",
		"oth*",
		"tributary-cluster 1\nswitch leaf1\nswitch leaf2\nhost n1 leaf=leaf1 rate=100Gbit/s\n"
		"host n2 leaf=leaf2 rate=100Gbit/s\n",
		"");
}

/* A host that bridges for its containers says that it forwards, but it has told as a host. */
static void hosts_are_no_switches(void **state)
{
	(void)state;
	declared_means("{\"host\":\"n1\",\"lldp\":{\"interface\":[{" HEARS("eth0", "leaf1", FAST) "},{" HEARS(
			       "eth1", "n2", FAST) "},{\"eth2\":{\"chassis\":{\"phone\":{\"capability\":[]}}}}]}}"
						   "{\"host\":\"n2\",\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1",
												      FAST) "}}}",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n[1-2] leaf=leaf1 rate=100Gbit/s\n");
}

/* Who gathers documents says "n1", lldpd what the host calls itself; and the other way round. */
static void names_fit_with_and_without_a_domain(void **state)
{
	(void)state;
	declared_means(
		"{\"host\":\"n1\",\"lldp\":{\"interface\":{" HEARS(
			"eth0", "leaf1.example.com",
			FAST) "}}}{\"switch\":\"leaf1\",\"lldp\":{\"interface\":[{" HEARS("e1", "n1.example.com",
											  FAST) "},{" HEARS("e2", "n2",
													    FAST) "}]}}{\"host\":\"n2.example.com\",\"lldp\":{}}",
		NULL,
		"tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=100Gbit/s\n"
		"host n2.example.com leaf=leaf1 rate=100Gbit/s\n");
	/* Which one it is cannot be told; two domains are two hosts. */
	declared_means(
		"{\"host\":\"n1.a\",\"lldp\":{\"interface\":{" HEARS("eth0", "leaf1", FAST) "}}}{\"host\":\"n1.b\",\"lldp\":{\"interface\":{" HEARS(
			"eth0", "leaf1",
			FAST) "}}}{\"switch\":\"leaf1\",\"lldp\":{\"interface\":[{\"e1\":{\"chassis\":{\"n1\":{\"capability\":{\"type\":\"Station\",\"enabled\":true}}}}}]}}",
		NULL,
		"tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1\nhost n1.a leaf=leaf1 rate=100Gbit/s\n"
		"host n1.b leaf=leaf1 rate=100Gbit/s\n");
}

static void what_is_wrong_is_said(void **state)
{
	(void)state;
	declared_is_refused("{\"n1\":\n{\"lldp\":}}", NULL, 2, "no JSON");
	declared_is_refused("{\"host\":\"n1\",\"lldp\":{}}\n\n{\"x", NULL, 3, "no JSON");
	declared_is_refused("{\"interface\":{}}", NULL, 0, "expected what `lldpctl -f json` prints");
	declared_is_refused("[1]", NULL, 0, "expected an array of what");
	declared_is_refused("{\"lldp\":{}}{\"lldp\":{}}", "here", 0, "whose each part is");
	declared_is_refused("{\"lldp\":{}}", "here", 0, "which host is on which switch");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_host_is_this_one),
		cmocka_unit_test(hosts_may_be_named_around),
		cmocka_unit_test(hosts_may_be_named_within_in_an_array),
		cmocka_unit_test(the_chassis_before_it_names_the_host),
		cmocka_unit_test(json0_is_all_arrays),
		cmocka_unit_test(a_switch_without_a_name_has_its_identifier),
		cmocka_unit_test(switches_may_tell_too),
		cmocka_unit_test(the_management_switch_is_above_nothing),
		cmocka_unit_test(a_neighbour_without_a_name_is_no_host),
		cmocka_unit_test(a_host_that_routes_is_a_host),
		cmocka_unit_test(a_neighbour_of_two_protocols_is_one),
		cmocka_unit_test(a_port_that_is_heard_twice_is_one_cable),
		cmocka_unit_test(what_is_excluded_is_left_out),
		cmocka_unit_test(hosts_are_no_switches),
		cmocka_unit_test(names_fit_with_and_without_a_domain),
		cmocka_unit_test(what_is_wrong_is_said),
	};

	return cmocka_run_group_tests_name("lldp", tests, NULL, NULL);
}
