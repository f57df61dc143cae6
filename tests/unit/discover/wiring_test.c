/* What is cabled becomes a tree: leaves, levels, rates; what is no tree is made one, or refused. */
#include "discover/wiring.h"

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
#include <string.h>

enum { GBIT = 125000000 };

static struct wiring *wiring;

static int begin(void **state)
{
	(void)state;
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
		assert_int_equal(wiring_link(wiring, machine(from), machine(to), (uint64_t)rate * GBIT, "p"), 0);
}

static void check(const char *expected)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };
	char *text = NULL;
	size_t bytes;

	if (wiring_cluster(wiring, &cluster, &diag) < 0)
		fail_msg("refused: %s", diag.text);
	assert_int_equal(cluster_format(cluster, &text, &bytes), 0);
	assert_string_equal(text, expected);
	sys_free(text);
	cluster_free(cluster);
}

static void check_refused(const char *part)
{
	struct cluster *cluster = NULL;
	struct diag diag = { 0 };

	assert_int_equal(wiring_cluster(wiring, &cluster, &diag), -EINVAL);
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
	check("tributary-cluster 1\nswitch s\nswitch q1..q2 parent=s rate=50Gbit/s\nswitch r1..r2 parent=s "
	      "rate=200Gbit/s\n"
	      "host h9 leaf=q1..q2 rate=200Gbit/s\nhost h[1-2] leaf=r1..r2 rate=200Gbit/s\nhost h3 leaf=r1..r2 "
	      "rate=100Gbit/s\n");
}

static void slow_links_are_not_counted(void **state)
{
	(void)state;
	cable("h1 a 100, h1 m 1, h2 b 100, h2 m 1, h3 b 100, h3 m 10");
	check("tributary-cluster 1\nswitch a\nswitch b\nhost h1 leaf=a rate=100Gbit/s\nhost h[2-3] leaf=b "
	      "rate=100Gbit/s\n");
}

static void a_host_on_two_leaves_is_refused(void **state)
{
	(void)state;
	cable("h1 a 100, h1 m 100, h2 b 100, h2 m 100, h3 c 100, h3 m 100");
	check_refused("the host h1 is on the switches a and m");
}

static void pods_stay_pods(void **state)
{
	(void)state;
	cable("h1 a 10, h2 b 10, h3 c 10, h4 d 10, a p1 10, b p1 10, a p2 10, b p2 10, c q1 10, d q1 10, c q2 10, d q2 "
	      "10,"
	      "p1 k1 40, p2 k2 40, q1 k2 40, q2 k1 40");
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
	assert_int_equal(wiring_link(wiring, machine("h1"), a, GBIT, "p"), 0);
	assert_int_equal(wiring_link(wiring, machine("h2"), b, GBIT, "p"), 0);
	check("tributary-cluster 1\nswitch S-1\nswitch S-2\nhost h1 leaf=S-1 rate=1Gbit/s\nhost h2 leaf=S-2 "
	      "rate=1Gbit/s\n");
}

static void odd_letters_become_lines(void **state)
{
	uint32_t at;

	(void)state;
	assert_int_equal(wiring_machine(wiring, "x", "MF0;leaf 1/U1", WIRING_SWITCH, &at), 0);
	assert_int_equal(wiring_link(wiring, machine("h1"), at, GBIT, "p"), 0);
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
		cmocka_unit_test_setup_teardown(a_host_on_two_leaves_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(pods_stay_pods, begin, end),
		cmocka_unit_test_setup_teardown(leaves_back_to_back_have_a_link, begin, end),
		cmocka_unit_test_setup_teardown(switches_of_one_name_go_by_their_keys, begin, end),
		cmocka_unit_test_setup_teardown(odd_letters_become_lines, begin, end),
		cmocka_unit_test_setup_teardown(no_host_is_refused, begin, end),
	};

	return cmocka_run_group_tests_name("wiring", tests, NULL, NULL);
}
