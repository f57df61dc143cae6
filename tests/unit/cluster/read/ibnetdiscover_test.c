/* SPDX-License-Identifier: Apache-2.0 */
/* An InfiniBand fabric as ibnetdiscover prints it. */
#include "declared.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char two_adapters[] =
	"# Topology file: generated on Sun Nov 22 09:00:00 2026\n"
	"\n"
	"vendid=0x2c9\n"
	"switchguid=0x1(1)\n"
	"Switch\t40 \"S-1\"\t\t# \"leaf1\" enhanced port 0 lid 1 lmc 0\n"
	"[1]\t\"H-a\"[1](a) \t\t# \"node1 mlx5_0\" lid 10 4xNDR\n"
	"[2]\t\"H-b\"[1](b) \t\t# \"node1 mlx5_1\" lid 11 4xNDR\n"
	"[3]\t\"H-c\"[1](c) \t\t# \"MT4123 ConnectX6   Mellanox Technologies\" lid 12 4xFDR10\n"
	"[4]\t\"H-gone\"[1](d) \t\t# \"node9 mlx5_0\" lid 13 4xEDR\n"
	"Ca\t1 \"H-a\"\t\t# \"node1 mlx5_0\"\n"
	"[1](a) \t\"S-1\"[1]\t\t# lid 10 lmc 0 \"leaf1\" lid 1 4xNDR\n"
	"Ca\t1 \"H-b\"\t\t# \"node1 mlx5_1\"\n"
	"[1](b) \t\"S-1\"[2]\t\t# lid 11 lmc 0 \"leaf1\" lid 1 4xNDR\r\n"
	"Ca\t1 \"H-c\"\t\t# \"MT4123 ConnectX6   Mellanox Technologies\"\n"
	"[1](c) \t\"S-1\"[3]\t\t# lid 12 lmc 0 \"leaf1\" lid 1 4xFDR10\n"
	"Rt\t1 \"R-1\"\t\t# \"router\"\n"
	"[1](e) \t\"S-1\"[9]\t\t# lid 20\n";

static void adapters_of_a_host_are_one_host(void **state)
{
	(void)state;
	declared_leaves_out(two_adapters, NULL,
			    "tributary-cluster 1\nswitch leaf1\nhost node1 leaf=leaf1 rate=800Gbit/s\n",
			    "1 adapter names no host and is left out (H-c).  The service rdma-ndd");
}

/* With -g there are headings, with --full there is more behind the rate. */
static void headings_and_full_information_are_read(void **state)
{
	(void)state;
	declared_means(
		"# Topology file: generated on Sun Nov 22 09:00:00 2026\n\nChassis 1 (guid 0x5)\n\n# Spine Nodes\n"
		"# Line Nodes\nvendid=0x2c9\nsysimgguid=0x1\t\t# Chassis 1\nswitchguid=0x1(1)\t# ISR Line 1 Chip 1\n"
		"Switch\t40 \"S-1\"\t\t# \"ib-a\" enhanced port 0 lid 1 lmc 0\n"
		"[1][ext 7]\t\"H-a\"[1](a) \t\t# \"x1 mlx5_0\" lid 10 4xNDR s=128 w=2 v=4\n"
		"\nNon-Chassis Nodes\n\nvendid=0x2c9\n"
		"Ca\t1 \"H-a\"\t\t# \"x1 mlx5_0\" (scp)\n"
		"[1](a) \t\"S-1\"[1][ext 7]\t\t# lid 10 lmc 0 \"ib-a\" lid 1 4xNDR s=128 w=2 v=4\n",
		NULL, "tributary-cluster 1\nswitch ib-a\nhost x1 leaf=ib-a rate=400Gbit/s\n");
	declared_means(
		"Non-Chassis Nodes\n\nSwitch\t40 \"S-1\"\t\t# \"ib-a\" lid 1\n[1]\t\"H-a\"[1](a) # \"x1\" 4xEDR\n"
		"Ca\t1 \"H-a\"\t\t# \"x1 HCA-1\"\n[1](a) \"S-1\"[1] # lid 10 4xEDR\n",
		NULL, "tributary-cluster 1\nswitch ib-a\nhost x1 leaf=ib-a rate=100Gbit/s\n");
}

/* Named before the host had a name: they would else be one host on all leaves. */
/* Each host's dump is of the whole fabric. A host's two adapters have a port 1 each. */
static void dumps_of_several_hosts_are_of_one_fabric(void **state)
{
#define FABRIC                                                                                           \
	"Switch\t4 \"S-1\"\t\t# \"leaf1\" base port 0 lid 1\n[1]\t\"H-a\"[1](a) # \"n1 mlx5_0\" 4xEDR\n" \
	"[2]\t\"H-b\"[1](b) # \"n1 mlx5_1\" 4xEDR\n[3]\t\"H-c\"[1](c) # \"n2 mlx5_0\" 4xEDR\n"           \
	"Ca\t1 \"H-a\"\t\t# \"n1 mlx5_0\"\n[1](a)\t\"S-1\"[1]\t\t# lid 2 lmc 0 \"leaf1\" lid 1 4xEDR\n"  \
	"Ca\t1 \"H-b\"\t\t# \"n1 mlx5_1\"\n[1](b)\t\"S-1\"[2]\t\t# lid 3 lmc 0 \"leaf1\" lid 1 4xEDR\n"  \
	"Ca\t1 \"H-c\"\t\t# \"n2 mlx5_0\"\n[1](c)\t\"S-1\"[3]\t\t# lid 4 lmc 0 \"leaf1\" lid 1 4xEDR\n"
	static const char means[] = "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1 rate=200Gbit/s\n"
				    "host n2 leaf=leaf1 rate=100Gbit/s\n";

	(void)state;
	declared_means(FABRIC, NULL, means);
	declared_means(FABRIC FABRIC "# of n2\n" FABRIC, NULL, means);
#undef FABRIC
}

static void localhost_is_no_host(void **state)
{
	(void)state;
	declared_leaves_out(
		"Switch\t40 \"S-1\"\t\t# \"ib-a\" lid 1\n[1]\t\"H-a\"[1](a) # \"x1\" 4xEDR\n"
		"[2]\t\"H-b\"[1](b) # \"localhost mlx5_0\" 4xEDR\n[3]\t\"H-c\"[1](c) # \"(none) mlx5_0\" 4xEDR\n"
		"Ca\t1 \"H-a\"\t\t# \"x1 HCA-1\"\nCa\t1 \"H-b\"\t\t# \"localhost mlx5_0\"\n"
		"Ca\t1 \"H-c\"\t\t# \"(none) mlx5_0\"\n",
		NULL, "tributary-cluster 1\nswitch ib-a\nhost x1 leaf=ib-a rate=100Gbit/s\n",
		"2 adapters name no host");
}

static void a_link_without_a_rate_has_none(void **state)
{
	(void)state;
	declared_means("Switch\t40 \"S-1\"\t\t# \"leaf1\" lid 1\n[1]\t\"H-a\"[1](a) # \"n1 HCA-1\" lid 10\n"
		       "Ca\t1 \"H-a\"\t\t# \"n1 HCA-1\"\n[1](a) \"S-1\"[1] # lid 10 4xWDR\n",
		       NULL, "tributary-cluster 1\nswitch leaf1\nhost n1 leaf=leaf1\n");
}

static void aggregation_in_switches_is_no_host(void **state)
{
	(void)state;
	declared_is_refused("Switch\t40 \"S-1\"\t\t# \"leaf1\" lid 1\n[1]\t\"H-a\"[1](a) # \"x\" lid 10\n"
			    "Ca\t1 \"H-a\"\t\t# \"Mellanox Technologies Aggregation Node\"\n",
			    NULL, 0, "which host is on which switch");
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
	(void)state;
	declared_is_refused("vendid=0x2c9\nSwitch\t40 S-1\n", NULL, 2, "expected Switch");
	declared_is_refused("Ca\t: 0x7cfe900300a ports 1 \"x1 mlx5_0\"\n", NULL, 1, "without options");
	declared_is_refused("vendid=0x2c9\nSwitch\t40 \"S-1\"\nwhat is this\n", NULL, 3, "expected a line of");
	declared_is_refused("vendid=0x2c9\nSwitch\t40 \"S-1\"\n[1 \"H-a\"\n", NULL, 3, "expected [PORT]");
	declared_is_refused("vendid=0x2c9\nSwitch\t40 \"S-1\"\n[1]\n", NULL, 3, "the other end");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(adapters_of_a_host_are_one_host),
		cmocka_unit_test(headings_and_full_information_are_read),
		cmocka_unit_test(dumps_of_several_hosts_are_of_one_fabric),
		cmocka_unit_test(localhost_is_no_host),
		cmocka_unit_test(a_link_without_a_rate_has_none),
		cmocka_unit_test(aggregation_in_switches_is_no_host),
		cmocka_unit_test(what_is_wrong_is_named_with_its_place),
	};

	return cmocka_run_group_tests_name("ibnetdiscover", tests, NULL, NULL);
}
