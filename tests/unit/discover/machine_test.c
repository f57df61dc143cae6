/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole machine, live and from its capture. TRIBUTARY_TEST_WRITE_FIXTURES=1 writes the expected graph and the recorded
 * capture anew, from the machine that fake_machine.c makes; what has changed in them is then to be looked at.
 */
#include "discover/build.h"

#include "discover/archive.h"
#include "support/tree.h"
#include "unit/discover/fact.h"
#include "unit/discover/fake_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIXTURES "tests/fixtures/discover/"

static char *look_at(struct discover_root *root)
{
	struct discover_facts facts = { 0 };
	struct topology topology;
	struct diag diag = { 0 };
	char *text;
	int r = discover_machine(root, &topology, &facts, &diag);

	if (r < 0)
		fail_msg("%d: %s", r, diag.text);
	text = fact_text(&topology, &facts);
	topology_fini(&topology);
	discover_facts_fini(&facts);
	return text;
}

static struct discover_root *open_fake(const struct tree *machine)
{
	struct discover_root *root;

	assert_int_equal(discover_root_open(machine->root, true, &root), 0);
	return root;
}

static void the_graph_of_a_two_node_machine_is_as_expected(void **state)
{
	struct discover_root *root = open_fake(*state);
	char *text = look_at(root), *expected;
	size_t bytes;

	if (getenv("TRIBUTARY_TEST_WRITE_FIXTURES")) {
		tree_put(FIXTURES "two-node.txt", text);
		assert_int_equal(fact_archive_write(FIXTURES "two-node.tar.gz", root), 0);
	}
	expected = tree_read(FIXTURES "two-node.txt", &bytes);
	assert_string_equal(text, expected);
	free(expected);
	free(text);
	discover_root_close(root);
}

/* Memory of a GPU or of CXL, as the kernel shows it: hwloc gives it the cores that are nearest. */
static void a_node_of_memory_alone_is_a_fact(void **state)
{
	struct tree *machine = *state;
	struct discover_root *root;
	char *text;

	tree_text(machine, "sys/devices/system/node/online", "0-2\n");
	tree_text(machine, "sys/devices/system/node/possible", "0-2\n");
	tree_text(machine, "sys/devices/system/node/node0/distance", "10 21 30\n");
	tree_text(machine, "sys/devices/system/node/node1/distance", "21 10 20\n");
	tree_text(machine, "sys/devices/system/node/node2/distance", "30 20 10\n");
	tree_text(machine, "sys/devices/system/node/node2/cpumap", "0\n");
	tree_text(machine, "sys/devices/system/node/node2/meminfo", "Node 2 MemTotal:       8388608 kB\n");
	root = open_fake(machine);
	text = look_at(root);
	assert_non_null(strstr(text, "\nvertex cpu cpu1 "));
	assert_null(strstr(text, "cpu2"));
	assert_null(strstr(text, "memory2"));
	assert_non_null(strstr(text, "\nnuma 2 cpus=none memory_bytes=8589934592\n"));
	free(text);
	discover_root_close(root);
}

static void the_recorded_capture_gives_the_same(void **state)
{
	size_t bytes;
	char *expected = tree_read(FIXTURES "two-node.txt", &bytes);
	char *text = fact_capture_text(FIXTURES "two-node.tar.gz");

	(void)state;
	assert_string_equal(text, expected);
	free(expected);
	free(text);
}

static void a_capture_gives_what_the_folder_gave(void **state)
{
	struct discover_root *root = open_fake(*state);
	char path[128], *first = look_at(root), *second;

	snprintf(path, sizeof(path), "%s/capture.tar.gz", ((struct tree *)*state)->root);
	assert_int_equal(fact_archive_write(path, root), 0);
	second = fact_capture_text(path);
	assert_string_equal(first, second);
	free(first);
	free(second);
	discover_root_close(root);
}

static void a_capture_of_a_capture_is_the_same_capture(void **state)
{
	struct discover_root *root = open_fake(*state), *again;
	const struct discover_entry *first, *second;
	size_t first_count, second_count, bytes;
	char *text = look_at(root), *data, path[128];
	struct diag diag;

	snprintf(path, sizeof(path), "%s/capture.tar.gz", ((struct tree *)*state)->root);
	assert_int_equal(fact_archive_write(path, root), 0);
	data = tree_read(path, &bytes);
	assert_int_equal(discover_archive_read(data, bytes, &again, &diag), 0);
	first = discover_root_entries(root, &first_count);
	second = discover_root_entries(again, &second_count);
	assert_int_equal(first_count + 1, second_count); /* and its version */
	for (size_t i = 0, j = 0; i < first_count; i++, j++) {
		if (!strcmp(second[j].path, "tributary-capture"))
			j++;
		assert_string_equal(first[i].path, second[j].path);
		assert_int_equal(first[i].kind, second[j].kind);
		assert_int_equal(first[i].bytes, second[j].bytes);
		if (first[i].bytes)
			assert_memory_equal(first[i].data, second[j].data, first[i].bytes);
	}
	free(text);
	free(data);
	discover_root_close(root);
	discover_root_close(again);
}

static bool holds(const char *data, size_t bytes, const char *word)
{
	return memmem(data, bytes, word, strlen(word)) != NULL;
}

/* It is on an interface whose name is an address, which must not get out. */
static void a_software_device_is_the_nic_of_its_interface(void **state)
{
	struct tree *machine = *state;
	const struct discover_entry *entries;
	struct discover_root *root;
	char path[128], *first, *second;
	size_t count;

	tree_text(machine, "sys/class/infiniband/rxe0/parent", "enx0011223344ff\n");
	tree_text(machine, "sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
	tree_text(machine, "sys/class/infiniband/rxe0/ports/1/link_layer", "Ethernet\n");
	tree_text(machine, "sys/class/infiniband/rxe0/ports/1/gids/0", "fe80:0000:0000:0000:0a1b:2cff:fe3d:4e5f\n");
	tree_text(machine, "sys/class/infiniband/rxe0/ports/1/gid_attrs/types/0", "RoCE v2\n");
	root = open_fake(machine);
	first = look_at(root);
	assert_null(strstr(first, "nic:enxmac1 "));
	assert_non_null(strstr(first, "\nvertex nic nic:rxe0 bus=0000:1b:00.1 "));
	assert_non_null(strstr(first, " interface=enxmac1 port=1 "));
	assert_non_null(strstr(first, "\nrdma nic:rxe0 device=rxe0 port=1 soft=1 state=ACTIVE "));
	assert_non_null(strstr(first, "\ngids nic:rxe0 v1=0 v2=1 ipv4=none\n"));
	assert_non_null(strstr(first, "\nroce enxmac1 pfc="));
	entries = discover_root_entries(root, &count);
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; fake_machine_secrets[j] && entries[i].data; j++)
			assert_null(strstr(entries[i].data, fake_machine_secrets[j]));
	snprintf(path, sizeof(path), "%s/soft.tar.gz", machine->root);
	assert_int_equal(fact_archive_write(path, root), 0);
	second = fact_capture_text(path);
	assert_string_equal(first, second);
	free(first);
	free(second);
	discover_root_close(root);
}

static void no_entry_holds_a_secret(void **state)
{
	static const char serial[] = "\x0a\x1b\x2c\x3d\x4e\x5f", address[] = "\xde\xc0\xed\xfe";
	struct discover_root *root = open_fake(*state);
	const struct discover_entry *entries;
	char *text = look_at(root);
	size_t count;

	entries = discover_root_entries(root, &count);
	assert_true(count > 100);
	for (size_t i = 0; i < count; i++) {
		for (size_t j = 0; fake_machine_secrets[j]; j++) {
			if (holds(entries[i].path, strlen(entries[i].path), fake_machine_secrets[j]) ||
			    (entries[i].data && holds(entries[i].data, entries[i].bytes, fake_machine_secrets[j])))
				fail_msg("%s holds %s", entries[i].path, fake_machine_secrets[j]);
			assert_false(holds(text, strlen(text), fake_machine_secrets[j]));
		}
		if (entries[i].data && (holds(entries[i].data, entries[i].bytes, serial) ||
					holds(entries[i].data, entries[i].bytes, address)))
			fail_msg("%s holds a serial number or an address", entries[i].path);
		/* Files that are nothing but secrets. */
		assert_null(strstr(entries[i].path, "/address"));
		assert_null(strstr(entries[i].path, "/vpd"));
		if (strstr(entries[i].path, "/gids/") && strcmp(entries[i].data, "ipv4") != 0 &&
		    strcmp(entries[i].data, "link-local") != 0 && strcmp(entries[i].data, "none") != 0)
			fail_msg("%s holds %s", entries[i].path, entries[i].data);
		assert_null(strstr(entries[i].path, "dmi"));
		assert_null(strstr(entries[i].path, "hostname"));
	}
	free(text);
	discover_root_close(root);
}

static void this_machine_and_its_capture_give_the_same(void **state)
{
	char path[128], *first, *second;
	struct discover_root *root;

	assert_int_equal(discover_root_open("", true, &root), 0);
	first = look_at(root);
	snprintf(path, sizeof(path), "%s/here.tar.gz", ((struct tree *)*state)->root);
	assert_int_equal(fact_archive_write(path, root), 0);
	second = fact_capture_text(path);
	assert_string_equal(first, second);
	free(first);
	free(second);
	discover_root_close(root);
}

/* The text of a small file of this machine, "" if there is none. */
static void secret_of(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, " \n")] = '\0';
}

static void this_machines_capture_holds_none_of_its_addresses(void **state)
{
	struct discover_root *root;
	const struct discover_entry *entries;
	struct discover_names names;
	char path[300], secret[128], *text;
	size_t count;

	(void)state;
	assert_int_equal(discover_root_open("", true, &root), 0);
	text = look_at(root);
	entries = discover_root_entries(root, &count);
	for (size_t i = 0; i < count; i++) {
		if (strncmp(entries[i].path, "sys/class/net/", 14) != 0 || strchr(entries[i].path + 14, '/'))
			continue;
		snprintf(path, sizeof(path), "/%.200s/address", entries[i].path);
		secret_of(path, secret, sizeof(secret));
		for (size_t j = 0; j < count && strlen(secret) == 17; j++)
			assert_false(entries[j].data && holds(entries[j].data, entries[j].bytes, secret));
	}
	secret_of("/etc/machine-id", secret, sizeof(secret));
	for (size_t j = 0; j < count && strlen(secret) == 32; j++)
		assert_false(entries[j].data && holds(entries[j].data, entries[j].bytes, secret));
	free(text);
	discover_root_list(root, &names, "sys/class/net");
	discover_names_fini(&names);
	discover_root_close(root);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_machine_new, tree_free)
	const struct CMUnitTest tests[] = {
		TEST(the_graph_of_a_two_node_machine_is_as_expected),
		TEST(a_node_of_memory_alone_is_a_fact),
		TEST(the_recorded_capture_gives_the_same),
		TEST(a_capture_gives_what_the_folder_gave),
		TEST(a_capture_of_a_capture_is_the_same_capture),
		TEST(a_software_device_is_the_nic_of_its_interface),
		TEST(no_entry_holds_a_secret),
		TEST(this_machine_and_its_capture_give_the_same),
		TEST(this_machines_capture_holds_none_of_its_addresses),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
