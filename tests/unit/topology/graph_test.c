/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include "base/sys.h"
#include "topology/internal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct topology_capacity some_rate = { .rate_Bps = 5, .provenance = TOPOLOGY_NOMINAL };

static void unknown_is_what_new_vertices_and_links_are(void **state)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_NIC, "mlx5_0");
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_PCI, 3, 4);

	(void)state;
	assert_int_equal(vertex.kind, TOPOLOGY_NIC);
	assert_string_equal(vertex.name, "mlx5_0");
	assert_true(vertex.gpu.index == -1 && vertex.gpu.mig == -1 && !vertex.gpu.sm);
	assert_true(vertex.cpu.numa == -1 && vertex.cpu.family == -1 && vertex.cpu.model == -1);
	assert_true(!vertex.nic.port && !vertex.nic.speed_Bps && !*vertex.nic.interface);
	assert_true(link.lower == 3 && link.upper == 4 && link.count == 1 && !link.nominal_Bps);
	assert_int_equal(link.capacity[0].provenance, TOPOLOGY_UNKNOWN);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = { "", "a b", "a\tb", "a\nb", "a>b", "a#2", "a,b", "a\"b", "a\\b", "a\x7f" };
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu0");
	struct topology topology;
	char long_name[2 * TOPOLOGY_NAME_BYTES];

	(void)state;
	topology_init(&topology);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		vertex = topology_vertex_of(TOPOLOGY_GPU, bad[i]);
		assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), -EINVAL);
	}
	memset(long_name, 'x', sizeof(long_name));
	long_name[TOPOLOGY_NAME_BYTES] = '\0';
	vertex = topology_vertex_of(TOPOLOGY_GPU, long_name);
	assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), -EINVAL);
	assert_int_equal(topology_add_limit(&topology, long_name, &some_rate, NULL, 0, NULL), -EINVAL);
	memset(vertex.name, 'x', sizeof(vertex.name)); /* without a NUL */
	assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), -EINVAL);
	long_name[TOPOLOGY_NAME_BYTES - 1] = '\0';
	vertex = topology_vertex_of(TOPOLOGY_GPU, long_name);
	assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), 0);
	assert_int_equal(topology_add_limit(&topology, "a b", &some_rate, NULL, 0, NULL), -EINVAL);
	assert_int_equal(topology_add_limit(&topology, "", &some_rate, NULL, 0, NULL), -EINVAL);
	assert_int_equal(topology_add_limit(&topology, "gpu0>gpu1", &some_rate, NULL, 0, NULL), 0);
	assert_true(topology.vertex_count == 1 && topology.limit_count == 1);
	topology_fini(&topology);
}

static void what_cannot_be_is_refused(void **state)
{
	struct topology topology;
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu0");
	struct topology_pair pair = { .from = 0, .to = 1 };
	struct topology_link link;
	uint32_t index = 77, members[3] = { 1, 0, 1 };

	(void)state;
	topology_init(&topology);
	assert_int_equal(topology_add_vertex(&topology, &vertex, &index), 0);
	assert_int_equal(index, 0);
	index = 77;
	assert_int_equal(topology_add_vertex(&topology, &vertex, &index), -EEXIST);
	vertex.kind = TOPOLOGY_KIND_COUNT;
	assert_int_equal(topology_add_vertex(&topology, &vertex, &index), -EINVAL);
	machine_vertex(&topology, TOPOLOGY_CPU, "cpu0");
	link = topology_link_of(TOPOLOGY_LINK_PCI, 0, 2);
	assert_int_equal(topology_add_link(&topology, &link, &index), -EINVAL);
	link = topology_link_of(TOPOLOGY_LINK_PCI, 1, 1);
	assert_int_equal(topology_add_link(&topology, &link, &index), -EINVAL);
	link = topology_link_of(TOPOLOGY_LINK_KIND_COUNT, 0, 1);
	assert_int_equal(topology_add_link(&topology, &link, &index), -EINVAL);
	link = topology_link_of(TOPOLOGY_LINK_PCI, 0, 1);
	link.count = 0;
	assert_int_equal(topology_add_link(&topology, &link, &index), -EINVAL);
	assert_int_equal(topology_add_limit(&topology, "x", &some_rate, members, 3, &index), -EINVAL);
	assert_int_equal(index, 77);
	machine_link(&topology, TOPOLOGY_LINK_PCI, 0, 1);
	assert_int_equal(topology_add_limit(&topology, "x", &some_rate, members, 3, &index), 0);
	assert_int_equal(topology_add_limit(&topology, "x", &some_rate, members, 3, &index), -EEXIST);
	/* A set: ascending, each once. */
	assert_int_equal(topology.limits[0].member_count, 2);
	assert_true(topology.limits[0].members[0] == 0 && topology.limits[0].members[1] == 1);
	assert_int_equal(topology_add_pair(&topology, &pair, &index), 0);
	assert_int_equal(topology_add_pair(&topology, &pair, &index), -EEXIST);
	pair.to = 2;
	assert_int_equal(topology_add_pair(&topology, &pair, &index), -EINVAL);
	pair.to = 0;
	assert_int_equal(topology_add_pair(&topology, &pair, &index), -EINVAL);
	topology_fini(&topology);
}

static void there_is_an_end_to_what_a_graph_holds(void **state)
{
	struct topology_vertex vertex;
	struct topology_link link;
	struct topology topology;
	char name[TOPOLOGY_NAME_BYTES];

	(void)state;
	topology_init(&topology);
	for (unsigned i = 0; i < TOPOLOGY_VERTICES_MAX; i++) {
		snprintf(name, sizeof(name), "gpu%u", i);
		machine_vertex(&topology, TOPOLOGY_GPU, name);
	}
	vertex = topology_vertex_of(TOPOLOGY_GPU, "one.more");
	assert_int_equal(topology_add_vertex(&topology, &vertex, NULL), -E2BIG);
	link = topology_link_of(TOPOLOGY_LINK_NVLINK, 0, 1);
	for (unsigned i = 0; i < TOPOLOGY_LINKS_MAX; i++)
		assert_int_equal(topology_add_link(&topology, &link, NULL), 0);
	assert_int_equal(topology_add_link(&topology, &link, NULL), -E2BIG);
	assert_int_equal(topology.link_count, TOPOLOGY_LINKS_MAX);
	topology_fini(&topology);
}

static void a_copy_shares_nothing_with_its_original(void **state)
{
	struct topology first, second;
	char *before, *after;

	(void)state;
	for (uint64_t seed = 1; seed <= 100; seed++) {
		uint64_t random = seed;

		machine_random(&random, &first);
		before = machine_text(&first);
		assert_int_equal(topology_copy(&first, &second), 0);
		for (size_t i = 0; i < first.limit_count; i++)
			for (size_t j = 0; j < first.limits[i].member_count; j++)
				first.limits[i].members[j] = UINT32_MAX;
		topology_fini(&first);
		assert_true(!first.vertices && !first.vertex_count && !first.limits && !first.pair_count);
		after = machine_text(&second);
		assert_string_equal(before, after);
		(void)machine_vertex(&second, TOPOLOGY_HOST, "one.more"); /* it can grow */
		topology_fini(&second);
		free(before);
		free(after);
	}
}

static void pci_rates_are_those_of_nccl(void **state)
{
	(void)state;
	assert_int_equal(topology_pci_Bps(1, 16), 3000000000);
	assert_int_equal(topology_pci_Bps(2, 1), 375000000);
	assert_int_equal(topology_pci_Bps(3, 16), 12000000000);
	assert_int_equal(topology_pci_Bps(4, 8), 12000000000);
	assert_int_equal(topology_pci_Bps(5, 16), 48000000000);
	assert_int_equal(topology_pci_Bps(6, 16), 96000000000);
	assert_int_equal(topology_pci_Bps(0, 16), 0);
	assert_int_equal(topology_pci_Bps(4, 0), 0);
	assert_int_equal(topology_pci_Bps(200, 16), 0);
	assert_int_equal(topology_pci_Bps(4, UINT32_MAX), 0);
}

#ifdef TRIBUTARY_FAULTS

/* One of everything, and each of the functions that ask for memory. */
static int build_all(struct topology *topology)
{
	struct topology_vertex vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu0");
	struct topology_link link = topology_link_of(TOPOLOGY_LINK_NVLINK, 0, 1);
	struct topology_pair pair = { .from = 0, .to = 1, .p2p_works = true };
	uint32_t member = 1;
	int r;

	r = topology_add_vertex(topology, &vertex, NULL);
	vertex = topology_vertex_of(TOPOLOGY_GPU, "gpu1");
	if (r == 0)
		r = topology_add_vertex(topology, &vertex, NULL);
	if (r == 0)
		r = topology_add_link(topology, &link, NULL);
	if (r == 0)
		r = topology_add_limit(topology, "limit", &some_rate, &member, 1, NULL);
	if (r == 0)
		r = topology_add_pair(topology, &pair, NULL);
	return r;
}

static int use_all(const struct topology *topology, uint64_t *rate_Bps)
{
	const struct topology_flow flow = { 0, 1, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE };
	struct topology_route route;
	struct topology copy, read;
	char *text = NULL;
	size_t bytes = 0;
	int r = topology_copy(topology, &copy);

	if (r < 0)
		return r;
	topology_fini(&copy);
	r = topology_route(topology, &flow, &route);
	if (r == 0)
		r = topology_share(topology, &flow, 1, rate_Bps);
	if (r == 0)
		r = topology_write(topology, &text, &bytes);
	if (r == 0)
		r = topology_read(text, bytes, &read, NULL);
	if (r == 0)
		topology_fini(&read);
	free(text);
	return r;
}

static void without_memory_there_is_an_error_and_the_graph_stays(void **state)
{
	struct topology topology, whole;
	char *wanted, *got;
	uint64_t rate = 0;
	unsigned failures = 0;
	int r;

	(void)state;
	topology_init(&whole);
	assert_int_equal(build_all(&whole), 0);
	wanted = machine_text(&whole);
	for (uint64_t nth = 1; nth < 1000; nth++) {
		topology_init(&topology);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = build_all(&topology);
		sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
		if (r < 0) {
			assert_int_equal(r, -ENOMEM);
			got = machine_text(&topology); /* what was added before is there, and nothing else */
			assert_true(strlen(got) < strlen(wanted));
			free(got);
		}
		topology_fini(&topology);
		sys_fault_set(SYS_FAULT_MEMORY, nth, ENOMEM);
		r = use_all(&whole, &rate);
		sys_fault_set(SYS_FAULT_MEMORY, 0, 0);
		got = machine_text(&whole);
		assert_string_equal(wanted, got);
		free(got);
		if (r == 0)
			break;
		assert_int_equal(r, -ENOMEM);
		failures++;
	}
	assert_int_equal(r, 0);
	assert_true(failures > 20);
	free(wanted);
	topology_fini(&whole);
}

#else

static void without_memory_there_is_an_error_and_the_graph_stays(void **state)
{
	(void)state;
	print_message("skipped: needs a build with FAULTS=1\n");
	skip();
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unknown_is_what_new_vertices_and_links_are),
		cmocka_unit_test(names_are_checked),
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(there_is_an_end_to_what_a_graph_holds),
		cmocka_unit_test(a_copy_shares_nothing_with_its_original),
		cmocka_unit_test(pci_rates_are_those_of_nccl),
		cmocka_unit_test(without_memory_there_is_an_error_and_the_graph_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
