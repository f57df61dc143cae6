/* SPDX-License-Identifier: Apache-2.0 */
/* What is cabled becomes a tree: leaves, levels, rates; what is no tree is made one, or refused. */
#include "cluster/read/wiring.h"

#include "base/log.h"
#include "base/sys.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GBIT = 125000000 };

static struct wiring *wiring;
static const char *exclude;

static int begin(void **state)
{
	(void)state;
	exclude = NULL;
	return wiring_new(&wiring);
}

static int end(void **state)
{
	(void)state;
	wiring_free(wiring);
	return 0;
}

static uint32_t machine(const char *name)
{
	uint32_t ret;

	assert_int_equal(wiring_machine(wiring, name, name, *name == 'h' ? WIRING_HOST : WIRING_SWITCH, &ret), 0);
	return ret;
}

/* "h1 leaf1 100, leaf1 spine 400" in Gbit/s; names with h are hosts. */
static void cable(const char *text)
{
	char from[32], to[32];
	unsigned rate;
	int bytes;

	for (; sscanf(text, "%31s %31s %u%n", from, to, &rate, &bytes) == 3; text += bytes + (text[bytes] == ','))
		assert_int_equal(wiring_link(wiring, machine(from), machine(to), (uint64_t)rate * GBIT, "p", ""), 0);
}

/* part: of what is said of what was left out; NULL: nothing is. */
static void check_with(const char *expected, const char *part)
{
	struct wiring_options options = { .exclude = exclude };
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *text = NULL, *notes;
	size_t bytes;

	if (wiring_cluster(wiring, &options, &cluster, &diag) < 0)
		fail_msg("refused: %s", diag.text);
	assert_int_equal(cluster_format(cluster, &text, &bytes), 0);
	assert_string_equal(text, expected);
	notes = wiring_take_notes(wiring);
	assert_non_null(notes);
	if (part ? !strstr(notes, part) : *notes)
		fail_msg("expected ...%s..., got %s", part ? part : "no note", notes);
	free(notes);
	sys_free(text);
	cluster_free(cluster);
}

static void check(const char *expected)
{
	check_with(expected, NULL);
}

static void check_refused(const char *part)
{
	struct wiring_options options = { .exclude = exclude };
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	assert_int_equal(wiring_cluster(wiring, &options, &cluster, &diag), -EINVAL);
	if (!strstr(diag.text, part))
		fail_msg("%s", diag.text);
}

static void spines_are_one_and_their_links_add_up(void **state)
{
	(void)state;
	cable("h1 a 100, h2 a 100, h3 b 100, a s1 100, a s2 100, b s1 100, b s2 50");
	check("tributary-cluster 1\nswitch s1..s2\nswitch a parent=s1..s2 rate=200Gbit/s\n"
	      "switch b parent=s1..s2 rate=150Gbit/s\nhost h[1-2] leaf=a rate=100Gbit/s\nhost h3 leaf=b "
	      "rate=100Gbit/s\n");
}

static void what_both_ends_say_counts_once(void **state)
{
	(void)state;
	cable("h1 a 100, a h1 100, h2 b 100, a s 40, a s 40, s a 40, s a 40, b s 40, s b 40, s b 40");
	check("tributary-cluster 1\nswitch s\nswitch a parent=s rate=80Gbit/s\nswitch b parent=s rate=80Gbit/s\n"
	      "host h1 leaf=a rate=100Gbit/s\nhost h2 leaf=b rate=100Gbit/s\n");
}

static void a_rate_that_is_not_known_hides_the_sum(void **state)
{
	(void)state;
	cable("h1 a 100, h1 a 0, h2 a 100, a s 100, a s 0, h3 b 0, b s 10");
	check("tributary-cluster 1\nswitch s\nswitch a parent=s\nswitch b parent=s rate=10Gbit/s\nhost h1 leaf=a\n"
	      "host h2 leaf=a rate=100Gbit/s\nhost h3 leaf=b\n");
}

static void rails_of_one_group_are_one_leaf(void **state)
{
	(void)state;
	/* h3 has lost a cable. */
	cable("h1 r1 100, h1 r2 100, h2 r1 100, h2 r2 100, h3 r1 100, r1 s 100, r2 s 100, h9 q1 100, h9 q2 100, q1 s "
	      "50");
	check_with("tributary-cluster 1\nswitch s\nswitch q1..q2 parent=s rate=50Gbit/s\nswitch r1..r2 parent=s "
		   "rate=200Gbit/s\n"
		   "host h9 leaf=q1..q2 rate=200Gbit/s\nhost h[1-2] leaf=r1..r2 rate=200Gbit/s\nhost h3 leaf=r1..r2 "
		   "rate=100Gbit/s\n",
		   "h3: on r1, where other hosts of the leaf are on more switches.  A cable");
}

static void slow_links_are_not_counted(void **state)
{
	(void)state;
	cable("h1 a 100, h1 m 1, h2 b 100, h2 m 1, h3 b 100, h3 m 10");
	check("tributary-cluster 1\nswitch a\nswitch b\nhost h1 leaf=a rate=100Gbit/s\nhost h[2-3] leaf=b "
	      "rate=100Gbit/s\n");
}

/* Two networks that part the hosts in different ways: neither is one for all. */
#define CROSSING "h1 a 100, h2 a 100, h3 b 100, h4 b 100, h1 m 100, h3 m 100, h2 n 100, h4 n 100"

/* What is known to be 1 Gbit/s is not counted beside what is not known; what is not known is named beside what is. */
static void what_is_not_known_may_be_for_management(void **state)
{
	(void)state;
	cable("h1 a 0, h2 a 0, h1 m 1, h2 m 1");
	check_with("tributary-cluster 1\nswitch a\nhost h[1-2] leaf=a\n", NULL);
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 100, h2 a 100, h1 m 0, h2 m 0");
	check_with("tributary-cluster 1\nswitch a..m\nhost h[1-2] leaf=a..m\n",
		   "m: counted with the switches beside, but no rate");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 100, h2 b 100, a s 100, b s 100, a x 0, b x 0");
	check_with("tributary-cluster 1\nswitch s..x\nswitch a parent=s..x\nswitch b parent=s..x\n"
		   "host h1 leaf=a rate=100Gbit/s\nhost h2 leaf=b rate=100Gbit/s\n",
		   "x: counted with the switches beside");
}

static void a_host_on_two_leaves_is_refused(void **state)
{
	(void)state;
	cable(CROSSING);
	check_refused("the host h1 is on the switches a and m");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* A switch in each host is no leaf. */
	cable("h1 a 100, h1 m 100, h2 b 100, h2 m 100, h3 c 100, h3 m 100");
	check_refused("the host h1 is on the switches a and m");
}

static void the_refusal_says_what_to_do_however_long_the_names(void **state)
{
	static char name[4][160];
	uint32_t at[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(name[i], sizeof(name[i]), "a-switch-with-a-name-%0120zu", i);
		at[i] = machine(name[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		char host[8] = { 'h', (char)('1' + i) };

		assert_int_equal(wiring_link(wiring, machine(host), at[i / 2], GBIT, "p", ""), 0);
		assert_int_equal(wiring_link(wiring, machine(host), at[2 + i % 2], GBIT, "p", ""), 0);
	}
	check_refused("(and so are 3 more)");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable(CROSSING);
	check_refused("--exclude NAME[,NAME], be it a switch");
}

static void what_is_excluded_is_not_there(void **state)
{
	(void)state;
	cable(CROSSING ", h5 a 100, h51 b 100, a s 400, b s 400, m s 100, n s 100");
	exclude = "m,n,h5";
	check("tributary-cluster 1\nswitch s\nswitch a parent=s rate=400Gbit/s\nswitch b parent=s rate=400Gbit/s\n"
	      "host h[1-2] leaf=a rate=100Gbit/s\nhost h[3-4,51] leaf=b rate=100Gbit/s\n");
}

static void exclude_takes_globs_names_without_a_domain_and_identifiers(void **state)
{
	uint32_t host, at;

	(void)state;
	cable("h1 leaf1 100, h2 leaf1 100, hnas1.x.org leaf1 100, hnas2.x.org leaf1 100, h1 m1 100, h2 m2 100");
	assert_int_equal(wiring_machine(wiring, "S-7", "odd", WIRING_SWITCH, &at), 0);
	assert_int_equal(wiring_machine(wiring, "h1", "h1", WIRING_HOST, &host), 0);
	assert_int_equal(wiring_link(wiring, host, at, GBIT, "p", ""), 0);
	exclude = "hnas?,m[12],S-7,nobody";
	check_with("tributary-cluster 1\nswitch leaf1\nhost h[1-2] leaf=leaf1 rate=100Gbit/s\n",
		   "--exclude nobody: no");
}

/* ------------------------------------------------------------------------------------- what is not for training */

#define TWO_LEAVES                                                                                            \
	"tributary-cluster 1\nswitch s\nswitch a parent=s rate=400Gbit/s\nswitch b parent=s rate=400Gbit/s\n" \
	"host h[1-3] leaf=a rate=100Gbit/s\nhost h[4-6] leaf=b rate=100Gbit/s\n"
#define TWO_LEAVES_CABLES "h1 a 100, h2 a 100, h3 a 100, h4 b 100, h5 b 100, h6 b 100, a s 400, b s 400"

/* Of one size or not, one switch or a pair, with servers of its own or without. */
static void a_network_across_the_leaves_is_left_out(void **state)
{
	(void)state;
	cable(TWO_LEAVES_CABLES ", h1 m 100, h2 m 100, h3 m 100, h4 m 100, h5 m 100, h6 m 100, hfiler m 100, m s 100");
	check_with(TWO_LEAVES,
		   "the switch m is left out: its hosts are on other switches too, and those have no hosts in "
		   "common");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 100, h2 a 100, h3 a 100, h4 a 100, h5 a 100, h6 b 100, a s 100, b s 100, h1 m 100, h2 m 100,"
	      "h3 m 100, h4 m 100, h5 m 100, h6 m 100, h1 n 100, h2 n 100, h3 n 100, h4 n 100, h5 n 100, h6 n 100, "
	      "hfiler n 100, m s 100, n s "
	      "100");
	check_with("tributary-cluster 1\nswitch s\nswitch a parent=s rate=100Gbit/s\nswitch b parent=s rate=100Gbit/s\n"
		   "host h[1-5] leaf=a rate=100Gbit/s\nhost h6 leaf=b rate=100Gbit/s\n",
		   "the switch m is left out");
}

/* A switch for all hosts, faster than those that part them. */
static void the_faster_network_stays(void **state)
{
	(void)state;
	cable("h1 a 100, h2 a 100, h3 b 100, h4 b 100, a s 100, b s 100, h1 m 400, h2 m 400, h3 m 400, h4 m 400");
	check_with("tributary-cluster 1\nswitch m\nhost h[1-4] leaf=m rate=400Gbit/s\n", "faster links to another");
}

static void a_switch_named_for_other_work_is_left_out(void **state)
{
	static const char *const names[] = { "oob-sw1", "rack2-mgmt", "MF0_IB-Storage-1_U1", "nas-leaf", "ipmi1" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[400];

		snprintf(text, sizeof(text), "h1 a 0, h2 a 0, h1 %s 0, h2 %s 0, a s 0, %s s 0", names[i], names[i],
			 names[i]);
		cable(text);
		check_with("tributary-cluster 1\nswitch s\nswitch a parent=s\nhost h[1-2] leaf=a\n", names[i]);
		wiring_free(wiring);
		assert_int_equal(wiring_new(&wiring), 0);
	}
}

/* A name is no reason where there is no other way. */
static void a_name_alone_leaves_nothing_out(void **state)
{
	(void)state;
	cable("h1 storage-leaf1 10, h2 storage-leaf1 10, h3 storage-leaf2 10, storage-leaf1 s 10, storage-leaf2 s 10, "
	      "h4 nassau 10, h5 nassau 10, nassau s 10");
	check("tributary-cluster 1\nswitch s\nswitch nassau parent=s rate=10Gbit/s\nswitch storage-leaf1 parent=s "
	      "rate=10Gbit/s\nswitch storage-leaf2 parent=s rate=10Gbit/s\nhost h[4-5] leaf=nassau rate=10Gbit/s\n"
	      "host h[1-2] leaf=storage-leaf1 rate=10Gbit/s\nhost h3 leaf=storage-leaf2 rate=10Gbit/s\n");
}

static void a_switch_with_storage_servers_is_left_out(void **state)
{
	(void)state;
	cable("h1 a 100, h2 a 100, h1 b 100, h2 b 100, h-nas1 b 100, h-nas2 b 100, a s 100, b s 100");
	check_with(
		"tributary-cluster 1\nswitch s\nswitch a parent=s rate=100Gbit/s\nhost h[1-2] leaf=a rate=100Gbit/s\n",
		"h-nas1, h-nas2: left out, on no switch that counts");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* Where its hosts have no other, it is their leaf, and the user says what is to be left out. */
	cable("h1 a 100, h2 a 100, h-nas1 a 100");
	check_with(
		"tributary-cluster 1\nswitch a\nhost h-nas1 leaf=a rate=100Gbit/s\nhost h[1-2] leaf=a rate=100Gbit/s\n",
		"h-nas1: by their names servers for storage, counted as hosts: --exclude");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 100, h2 a 100, h-nas1 a 100");
	exclude = "h-nas*";
	check("tributary-cluster 1\nswitch a\nhost h[1-2] leaf=a rate=100Gbit/s\n");
}

static void hosts_without_a_name_are_counted(void **state)
{
	char name[8];
	uint32_t at;

	(void)state;
	cable(TWO_LEAVES_CABLES);
	wiring->nameless_what = "adapter";
	wiring->nameless_remedy = "Name it";
	for (int i = 0; i < 7; i++) {
		snprintf(name, sizeof(name), "H-%d", i);
		assert_int_equal(wiring_machine(wiring, name, name, WIRING_NAMELESS, &at), 0);
		assert_int_equal(wiring_link(wiring, machine(i % 2 ? "a" : "b"), at, GBIT, "p", ""), 0);
	}
	check_with(TWO_LEAVES, "7 adapters name no host and are left out (H-0, H-1, H-2, H-3 and 3 more).  Name it");
}

static void add_nameless(const char *at, int count)
{
	char name[32];
	uint32_t adapter;

	wiring->nameless_what = "adapter";
	wiring->nameless_remedy = "Name it";
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "H-%s-%d", at, i);
		assert_int_equal(wiring_machine(wiring, name, name, WIRING_NAMELESS, &adapter), 0);
		assert_int_equal(wiring_link(wiring, adapter, machine(at), 10 * GBIT, "p", ""), 0);
	}
}

/*
 * Units of hosts with a rail in each of four switches, of which any adapter may name no host: hosts that have a name are in
 * their unit, and no unit is split.
 */
static void units_stay_units_whatever_has_no_name(void **state)
{
	enum { UNITS = 6, RAILS = 4, HOSTS = 12 };
	unsigned seed = 1;

	(void)state;
	for (unsigned round = 0; round < 60; round++) {
		struct wiring_options options = { .exclude = NULL };
		struct cluster *cluster = NULL;
		struct diag diag = { 0 };
		uint32_t at, adapter;
		char name[32], leaf[32];

		wiring->nameless_what = "adapter";
		wiring->nameless_remedy = "Name it";
		for (int i = 0; i < UNITS * RAILS * HOSTS; i++) {
			int unit = i / (RAILS * HOSTS), rail = i / HOSTS % RAILS, host = i % HOSTS;

			seed = seed * 1103515245 + 12345;
			snprintf(leaf, sizeof(leaf), "u%d-rail%d", unit, rail);
			snprintf(name, sizeof(name), "h%d-%d", unit, host);
			at = machine(leaf);
			assert_int_equal(wiring_link(wiring, at, machine("spine"), 4 * GBIT, "up", ""), 0);
			/* In odd rounds all adapters of a host have no name, or all have. */
			if (round % 2 ? (unit * 31 + host * 17 + (int)round) % 100 < (int)round
				      : (seed >> 16) % 100 < round / 2) {
				snprintf(name, sizeof(name), "H-%d", i);
				assert_int_equal(wiring_machine(wiring, name, name, WIRING_NAMELESS, &adapter), 0);
			} else {
				adapter = machine(name);
			}
			assert_int_equal(wiring_link(wiring, at, adapter, GBIT, "p", ""), 0);
			assert_int_equal(wiring_link(wiring, adapter, at, GBIT, "p", ""), 0);
		}
		if (wiring_cluster(wiring, &options, &cluster, &diag) < 0)
			fail_msg("round %u: %s", round, diag.text);
		assert_int_equal(cluster->switch_count, UNITS + 1);
		for (size_t i = 0; i < cluster->host_count; i++)
			assert_memory_equal(cluster->hosts[i].name + 1,
					    cluster->switches[cluster->hosts[i].leaf].name + 1, 1);
		cluster_free(cluster);
		wiring_free(wiring);
		assert_int_equal(wiring_new(&wiring), 0);
	}
	/* Of one rail more adapters have no name than have. */
	cable("h1 a 10, h2 a 10, h1 b 10, h2 b 10");
	add_nameless("b", 9);
	check_with("tributary-cluster 1\nswitch a..b\nhost h[1-2] leaf=a..b rate=20Gbit/s\n",
		   "9 adapters name no host");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* Of both, as many as have, and not of the same hosts. */
	cable("h1 a 10, h2 a 10, h3 a 10, h1 b 10, h2 b 10, h4 b 10");
	add_nameless("a", 3);
	add_nameless("b", 3);
	check_with("tributary-cluster 1\nswitch a..b\nhost h[1-2] leaf=a..b rate=20Gbit/s\nhost h[3-4] leaf=a..b "
		   "rate=10Gbit/s\n",
		   "h3, h4: on few switches");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* Two rails that half of the hosts do not name. */
	cable("h1 a 10, h2 a 10, h3 a 10, h4 a 10, h1 b 10, h2 b 10, h3 c 10, h4 c 10, a s 10, b s 10, c s 10");
	add_nameless("b", 2);
	add_nameless("c", 2);
	check_with("tributary-cluster 1\nswitch s\nswitch a..c parent=s rate=30Gbit/s\nhost h[1-4] leaf=a..c "
		   "rate=20Gbit/s\n",
		   "4 adapters name no host");
}

static void link_ports(const char *from, const char *to, const char *port, const char *far_port, unsigned rate)
{
	assert_int_equal(wiring_link(wiring, machine(from), machine(to), (uint64_t)rate * GBIT, port, far_port), 0);
}

/* By the names of either end's port, of whatever rate. A switch's eth0 is for data where it has eth1. */
static void management_ports_are_not_counted(void **state)
{
	static const char *const ports[] = { "eth0", "mgmt0", "Management1", "oob", "fxp0", "ma1", "re0:mgmt-0" };
	char note[160];

	(void)state;
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		cable("a s 400, b s 400");
		for (char host[] = "h1"; host[1] <= '6'; host[1]++) {
			link_ports(host, host[1] <= '3' ? "a" : "b", "eth0", "Ethernet1", 100);
			link_ports(host, "x", "mgmt0", "Gi1/1", 0);
		}
		link_ports("a", "x", ports[i], "Gi1/0/1", 0);
		link_ports("x", "b", "Gi1/0/2", ports[i], 0);
		link_ports("b", "x", ports[i], "Gi1/0/2", 0);
		snprintf(note, sizeof(note),
			 "8 links of management ports are left out (%s of a, %s of b, mgmt0 of h1, mgmt0 of h2 and 4 "
			 "more)\n",
			 ports[i], ports[i]);
		check_with(TWO_LEAVES, note);
		wiring_free(wiring);
		assert_int_equal(wiring_new(&wiring), 0);
	}
	link_ports("a", "h1", "eth1", "", 100);
	link_ports("a", "s", "eth0", "eth4", 100);
	link_ports("b", "h2", "em2p1", "eth1", 100);
	link_ports("b", "s", "eth0", "eth5", 100);
	link_ports("b", "s", "eth2", "eth6", 100);
	check("tributary-cluster 1\nswitch s\nswitch a parent=s rate=100Gbit/s\nswitch b parent=s rate=200Gbit/s\n"
	      "host h1 leaf=a rate=100Gbit/s\nhost h2 leaf=b rate=100Gbit/s\n");
}

static void begin_again(void)
{
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
}

static void two_rates(const char *host, unsigned eth0, unsigned ens9)
{
	link_ports(host, "near", "eth0", "1", eth0);
	link_ports(host, "big", "ens9", "2", ens9);
}

/* Beside ports that are called by their position, eth0 is for management only if more than its name says so. */
static void eth0_of_a_host_may_be_for_data(void **state)
{
	(void)state;
	/* Access switch on the other port, and no rate: the leaves are those of eth0. */
	for (char host[] = "h1"; host[1] <= '4'; host[1]++) {
		link_ports(host, host[1] <= '2' ? "tor1" : "tor2", "eth0", "1", 0);
		link_ports(host, "access1", "eno1", "2", 0);
	}
	check_with("tributary-cluster 1\nswitch tor1\nswitch tor2\nhost h[1-2] leaf=tor1\nhost h[3-4] leaf=tor2\n",
		   "the switch access1 is left out");
	begin_again();
	/* Half as fast as the other. */
	link_ports("h1", "big", "eth0", "1", 100);
	link_ports("h1", "big", "ens9", "2", 200);
	check("tributary-cluster 1\nswitch big\nhost h1 leaf=big rate=300Gbit/s\n");
	begin_again();
	/* An eighth, and less than that. */
	two_rates("h1", 25, 200);
	two_rates("h2", 25, 200);
	check("tributary-cluster 1\nswitch big..near\nhost h[1-2] leaf=big..near rate=225Gbit/s\n");
	begin_again();
	two_rates("h1", 10, 200);
	two_rates("h2", 10, 200);
	check_with("tributary-cluster 1\nswitch big\nhost h[1-2] leaf=big rate=200Gbit/s\n",
		   "2 links of management ports are left out (eth0 of h1, eth0 of h2)\n");
	begin_again();
	/* By the name of its switch, though most hosts have nothing else. */
	link_ports("h1", "a", "ens9", "1", 100);
	link_ports("h1", "mgmt-1", "eth0", "1", 0);
	link_ports("h2", "mgmt-1", "eth0", "2", 0);
	link_ports("h3", "mgmt-1", "eth0", "3", 0);
	check_with("tributary-cluster 1\nswitch a\nswitch mgmt-1\nhost h1 leaf=a rate=100Gbit/s\n"
		   "host h[2-3] leaf=mgmt-1\n",
		   "1 link of management ports is left out (eth0 of h1)\n");
}

static void what_exclude_leaves_is_what_counts(void **state)
{
	(void)state;
	two_rates("h1", 10, 200);
	two_rates("h2", 10, 200);
	exclude = "big";
	check("tributary-cluster 1\nswitch near\nhost h[1-2] leaf=near rate=10Gbit/s\n");
	begin_again();
	cable("h1 near 10, h1 big 200, h2 near 10, h2 big 200");
	check("tributary-cluster 1\nswitch near\nhost h[1-2] leaf=near rate=10Gbit/s\n");
	begin_again();
	two_rates("h1", 10, 200);
	link_ports("h1", "x", "mgmt0", "1", 1);
	exclude = "big,near";
	check_refused("--exclude leaves no host on a switch");
	begin_again();
	two_rates("h1", 10, 200);
	exclude = "h*";
	check_refused("--exclude leaves no host on a switch");
	begin_again();
	/* Not because of --exclude. */
	cable("a b 10");
	exclude = "b";
	check_refused("which host is on which switch");
}

/* A switch for management, on a port that does not say so, above the leaves, the spines, or both. */
static void slow_cables_upwards_are_not_counted(void **state)
{
	(void)state;
	cable(TWO_LEAVES_CABLES ", a x 1, b x 1, s x 1");
	check(TWO_LEAVES);
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* But not where it is the way from a pod to the core, slower as it may be than what the core has elsewhere. */
	cable("h1 a 10, h2 b 10, a p 10, b q 10, p k 10, q k 400");
	check("tributary-cluster 1\nswitch k\nswitch p parent=k rate=10Gbit/s\nswitch q parent=k rate=400Gbit/s\n"
	      "switch a parent=p rate=10Gbit/s\nswitch b parent=q rate=10Gbit/s\nhost h1 leaf=a rate=10Gbit/s\n"
	      "host h2 leaf=b rate=10Gbit/s\n");
}

/* A subnet manager, say: the uplinks still lead to all spines. But where leaves are cabled to each other, they are leaves. */
static void a_spine_may_have_hosts(void **state)
{
	(void)state;
	cable(TWO_LEAVES_CABLES ", hman s 100, a s2 400, b s2 400, hman s2 100");
	check("tributary-cluster 1\nswitch s..s2\nswitch a parent=s..s2 rate=800Gbit/s\nswitch b parent=s..s2 "
	      "rate=800Gbit/s\nhost hman leaf=s..s2 rate=200Gbit/s\nhost h[1-3] leaf=a rate=100Gbit/s\n"
	      "host h[4-6] leaf=b rate=100Gbit/s\n");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* One that is on two spines, of which one has another host. */
	cable(TWO_LEAVES_CABLES ", hman s 100, hman s2 100, hx s2 100, a s2 400, b s2 400");
	check("tributary-cluster 1\nswitch s..s2\nswitch a parent=s..s2 rate=800Gbit/s\nswitch b parent=s..s2 "
	      "rate=800Gbit/s\nhost hman leaf=s..s2 rate=200Gbit/s\nhost hx leaf=s..s2 rate=100Gbit/s\n"
	      "host h[1-3] leaf=a rate=100Gbit/s\nhost h[4-6] leaf=b rate=100Gbit/s\n");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 10, h2 a 10, h3 b 10, h4 b 10, hn s 10, a s 40, b s 40");
	check("tributary-cluster 1\nswitch s\nswitch a parent=s rate=40Gbit/s\nswitch b parent=s rate=40Gbit/s\n"
	      "host hn leaf=s rate=10Gbit/s\nhost h[1-2] leaf=a rate=10Gbit/s\nhost h[3-4] leaf=b rate=10Gbit/s\n");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable(TWO_LEAVES_CABLES ", hman s 100, a b 400");
	check("tributary-cluster 1\nswitch between\nswitch a parent=between rate=800Gbit/s\nswitch b parent=between "
	      "rate=800Gbit/s\nswitch s parent=between rate=800Gbit/s\nhost h[1-3] leaf=a rate=100Gbit/s\n"
	      "host h[4-6] leaf=b rate=100Gbit/s\nhost hman leaf=s rate=100Gbit/s\n");
}

/* Leaves without hosts, routers, a core above one pod: neither a level nor a part of one. */
static void what_leads_nowhere_is_not_counted(void **state)
{
	(void)state;
	cable(TWO_LEAVES_CABLES ", s empty 400, s2 a 0, empty k 400, b router 100");
	check(TWO_LEAVES);
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	cable("h1 a 10, h2 b 10, a p 10, b q 10, p k 40, q k 40, p empty 40, q far 40, far farther 40");
	check("tributary-cluster 1\nswitch k\nswitch p parent=k rate=40Gbit/s\nswitch q parent=k rate=40Gbit/s\n"
	      "switch a parent=p rate=10Gbit/s\nswitch b parent=q rate=10Gbit/s\nhost h1 leaf=a rate=10Gbit/s\n"
	      "host h2 leaf=b rate=10Gbit/s\n");
	wiring_free(wiring);
	assert_int_equal(wiring_new(&wiring), 0);
	/* All that a single leaf has above it. */
	cable("h1 a 10, a p 10, a q 10");
	check("tributary-cluster 1\nswitch p..q\nswitch a parent=p..q rate=20Gbit/s\nhost h1 leaf=a rate=10Gbit/s\n");
}

static void pods_stay_pods(void **state)
{
	(void)state;
	cable("h1 a 10, h2 b 10, h3 c 10, h4 d 10, a p1 10, b p1 10, a p2 10, b p2 10, c q1 10, d q1 10, c q2 10, "
	      "d q2 10,p1 k1 40, p2 k2 40, q1 k2 40, q2 k1 40");
	check("tributary-cluster 1\nswitch k1..k2\nswitch p1..p2 parent=k1..k2 rate=80Gbit/s\n"
	      "switch q1..q2 parent=k1..k2 rate=80Gbit/s\nswitch a parent=p1..p2 rate=20Gbit/s\n"
	      "switch b parent=p1..p2 rate=20Gbit/s\nswitch c parent=q1..q2 rate=20Gbit/s\n"
	      "switch d parent=q1..q2 rate=20Gbit/s\nhost h1 leaf=a rate=10Gbit/s\nhost h2 leaf=b rate=10Gbit/s\n"
	      "host h3 leaf=c rate=10Gbit/s\nhost h4 leaf=d rate=10Gbit/s\n");
}

static void leaves_back_to_back_have_a_link(void **state)
{
	(void)state;
	cable("h1 a 10, h2 b 10, a b 40, a b 40");
	check("tributary-cluster 1\nswitch between\nswitch a parent=between rate=80Gbit/s\n"
	      "switch b parent=between rate=80Gbit/s\nhost h1 leaf=a rate=10Gbit/s\nhost h2 leaf=b rate=10Gbit/s\n");
}

static void switches_of_one_name_go_by_their_keys(void **state)
{
	uint32_t a, b;

	(void)state;
	assert_int_equal(wiring_machine(wiring, "S-1", "Quantum Technologies", WIRING_SWITCH, &a), 0);
	assert_int_equal(wiring_machine(wiring, "S-2", "Quantum Technologies", WIRING_SWITCH, &b), 0);
	assert_int_equal(wiring_link(wiring, machine("h1"), a, GBIT, "p", ""), 0);
	assert_int_equal(wiring_link(wiring, machine("h2"), b, GBIT, "p", ""), 0);
	check("tributary-cluster 1\nswitch S-1\nswitch S-2\nhost h1 leaf=S-1 rate=1Gbit/s\nhost h2 leaf=S-2 "
	      "rate=1Gbit/s\n");
}

static void odd_letters_become_lines(void **state)
{
	uint32_t at;

	(void)state;
	assert_int_equal(wiring_machine(wiring, "x", "MF0;leaf 1/U1", WIRING_SWITCH, &at), 0);
	assert_int_equal(wiring_link(wiring, machine("h1"), at, GBIT, "p", ""), 0);
	check("tributary-cluster 1\nswitch MF0_leaf_1_U1\nhost h1 leaf=MF0_leaf_1_U1 rate=1Gbit/s\n");
}

static void no_host_is_refused(void **state)
{
	(void)state;
	cable("a b 10");
	check_refused("which host is on which switch");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(spines_are_one_and_their_links_add_up, begin, end),
		cmocka_unit_test_setup_teardown(what_both_ends_say_counts_once, begin, end),
		cmocka_unit_test_setup_teardown(a_rate_that_is_not_known_hides_the_sum, begin, end),
		cmocka_unit_test_setup_teardown(rails_of_one_group_are_one_leaf, begin, end),
		cmocka_unit_test_setup_teardown(slow_links_are_not_counted, begin, end),
		cmocka_unit_test_setup_teardown(what_is_not_known_may_be_for_management, begin, end),
		cmocka_unit_test_setup_teardown(a_host_on_two_leaves_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(the_refusal_says_what_to_do_however_long_the_names, begin, end),
		cmocka_unit_test_setup_teardown(what_is_excluded_is_not_there, begin, end),
		cmocka_unit_test_setup_teardown(exclude_takes_globs_names_without_a_domain_and_identifiers, begin, end),
		cmocka_unit_test_setup_teardown(a_network_across_the_leaves_is_left_out, begin, end),
		cmocka_unit_test_setup_teardown(the_faster_network_stays, begin, end),
		cmocka_unit_test_setup_teardown(a_switch_named_for_other_work_is_left_out, begin, end),
		cmocka_unit_test_setup_teardown(a_name_alone_leaves_nothing_out, begin, end),
		cmocka_unit_test_setup_teardown(a_switch_with_storage_servers_is_left_out, begin, end),
		cmocka_unit_test_setup_teardown(hosts_without_a_name_are_counted, begin, end),
		cmocka_unit_test_setup_teardown(units_stay_units_whatever_has_no_name, begin, end),
		cmocka_unit_test_setup_teardown(management_ports_are_not_counted, begin, end),
		cmocka_unit_test_setup_teardown(eth0_of_a_host_may_be_for_data, begin, end),
		cmocka_unit_test_setup_teardown(what_exclude_leaves_is_what_counts, begin, end),
		cmocka_unit_test_setup_teardown(slow_cables_upwards_are_not_counted, begin, end),
		cmocka_unit_test_setup_teardown(a_spine_may_have_hosts, begin, end),
		cmocka_unit_test_setup_teardown(what_leads_nowhere_is_not_counted, begin, end),
		cmocka_unit_test_setup_teardown(pods_stay_pods, begin, end),
		cmocka_unit_test_setup_teardown(leaves_back_to_back_have_a_link, begin, end),
		cmocka_unit_test_setup_teardown(switches_of_one_name_go_by_their_keys, begin, end),
		cmocka_unit_test_setup_teardown(odd_letters_become_lines, begin, end),
		cmocka_unit_test_setup_teardown(no_host_is_refused, begin, end),
	};

	return cmocka_run_group_tests_name("wiring", tests, NULL, NULL);
}
