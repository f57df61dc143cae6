/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The captures of topo/captures: each NAME.tar.gz gives the graph and the facts of NAME.txt. TRIBUTARY_TEST_WRITE_FIXTURES=1
 * writes the texts anew; what has changed in them is then to be looked at.
 */
#include "support/tree.h"
#include "unit/discover/fact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "topo/captures"

static void each_capture_gives_the_machine_that_it_is_of(void **state)
{
	struct dirent **entries;
	int count = scandir(FOLDER, &entries, NULL, alphasort), captures = 0;

	(void)state;
	if (count < 0)
		fail_msg(FOLDER " cannot be read: run this from the repository's root");
	for (int i = 0; i < count; i++) {
		char *end = strstr(entries[i]->d_name, ".tar.gz"), path[512], expected_path[512], *text, *expected;

		if (end) {
			snprintf(path, sizeof(path), FOLDER "/%s", entries[i]->d_name);
			snprintf(expected_path, sizeof(expected_path), FOLDER "/%.*s.txt",
				 (int)(end - entries[i]->d_name), entries[i]->d_name);
			text = fact_capture_text(path);
			if (getenv("TRIBUTARY_TEST_WRITE_FIXTURES"))
				tree_put(expected_path, text);
			expected = tree_read(expected_path, NULL);
			assert_non_null(expected);
			assert_string_equal(text, expected);
			captures++;
			free(text);
			free(expected);
		}
		free(entries[i]);
	}
	free(entries);
	assert_true(captures >= 1);
}

/* What is said above of any capture, of one that is known: two sockets, a switch on each, two cards on each switch. */
static void the_vms_switches_are_on_their_sockets(void **state)
{
	struct discover_facts facts = { 0 };
	struct topology topology;
	struct diag diag = { 0 };
	uint32_t link;

	(void)state;
	if (discover(FOLDER "/vm-two-switches.tar.gz", &topology, &facts, NULL, &diag) < 0)
		fail_msg("%s", diag.text);
	for (unsigned node = 0; node < 2; node++) {
		char name[16], expected[16];
		uint32_t at;

		snprintf(name, sizeof(name), "nic:rxe%u", node);
		snprintf(expected, sizeof(expected), "cpu%u", node);
		at = topology_find(&topology, name);
		assert_int_not_equal(at, TOPOLOGY_NONE);
		assert_true(topology.vertices[at].nic.rdma);
		assert_false(topology.vertices[at].nic.gdr);
		link = topology_uplink(&topology, at);
		assert_int_equal(topology.vertices[topology.links[link].upper].kind, TOPOLOGY_SWITCH);
		for (unsigned steps = 0; steps < 8 && topology.vertices[at].kind != TOPOLOGY_CPU; steps++)
			at = topology.links[topology_uplink(&topology, at)].upper;
		assert_string_equal(topology.vertices[at].name, expected);
	}
	/* An MTU of 1500 on the one, of 4200 on the other. */
	fact_assert(&facts, "rdma nic:rxe0", "packet_bytes", "1024");
	fact_assert(&facts, "rdma nic:rxe1", "packet_bytes", "4096");
	fact_assert(&facts, "gids nic:rxe1", "ipv4", "1");
	topology_fini(&topology);
	discover_facts_fini(&facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_capture_gives_the_machine_that_it_is_of),
		cmocka_unit_test(the_vms_switches_are_on_their_sockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
