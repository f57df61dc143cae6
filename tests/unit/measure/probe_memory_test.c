/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "measure/probe_memory_streams.h"
#include "measure/probe_numa.h"

#include <stdlib.h>
#include <string.h>

/* A machine of two domains, of which the second is not there: cpu0 memory0 cpu900 memory900, and a GPU. */
enum { CPU, MEMORY, LOST_CPU, LOST_MEMORY, GPU, VERTICES };

static struct topology_vertex vertices[VERTICES] = {
	[CPU] = { .kind = TOPOLOGY_CPU, .name = "cpu0", .cpu = { .numa = 0 } },
	[MEMORY] = { .kind = TOPOLOGY_MEMORY, .name = "memory0", .cpu = { .numa = 0 } },
	[LOST_CPU] = { .kind = TOPOLOGY_CPU, .name = "cpu900", .cpu = { .numa = 900 } },
	[LOST_MEMORY] = { .kind = TOPOLOGY_MEMORY, .name = "memory900", .cpu = { .numa = 900 } },
	[GPU] = { .kind = TOPOLOGY_GPU, .name = "gpu0" },
};
static const struct topology machine = { .vertices = vertices, .vertex_count = VERTICES };
static const struct probe_memory_options tiny = { .buffer_bytes = 1 << 20, .threads_max = 2 };

enum { DURATION_NS = 4 * 1000 * 1000 };

static struct probe_flow flow_of(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
}

static int open_probe(void **state)
{
	struct diag diag;

	return probe_memory_open(&machine, NULL, &tiny, (struct probe **)state, &diag);
}

static int close_probe(void **state)
{
	struct probe *probe = *state;

	probe->ops->close(probe);
	return 0;
}

static void copies_reads_and_writes_have_rates(void **state)
{
	struct probe *probe = *state;
	const struct probe_flow flows[] = { flow_of(MEMORY, MEMORY), flow_of(MEMORY, CPU), flow_of(CPU, MEMORY) };

	for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		double rate_Bps = 0;
		struct probe_rates rates = { &rate_Bps, 0 };
		struct diag diag = { .text = "" };

		assert_true(probe->ops->can(probe, &flows[i]));
		assert_int_equal(probe->ops->run(probe, &flows[i], 1, DURATION_NS, &rates, &diag), 0);
		assert_true(rate_Bps > 0);
		assert_true(rates.time_ns >= DURATION_NS);
	}
}

static void flows_that_run_at_once_all_have_rates(void **state)
{
	struct probe *probe = *state;
	/* More flows than a small machine has cores: they share. */
	const struct probe_flow flows[] = { flow_of(MEMORY, MEMORY), flow_of(MEMORY, CPU), flow_of(CPU, MEMORY),
					    flow_of(MEMORY, MEMORY), flow_of(MEMORY, CPU) };
	double rate_Bps[5] = { 0 };
	struct probe_rates rates = { rate_Bps, 0 };
	struct diag diag = { .text = "" };

	assert_int_equal(probe->ops->run(probe, flows, 5, 5 * DURATION_NS, &rates, &diag), 0);
	for (size_t i = 0; i < 5; i++)
		assert_true(rate_Bps[i] > 0);
}

static void what_is_not_on_this_machine_is_not_supported(void **state)
{
	struct probe *probe = *state;
	struct probe_flow host = flow_of(MEMORY, MEMORY), kernel = flow_of(MEMORY, MEMORY);
	struct probe_flow flows[10];
	size_t count = 0;

	host.flow.way = TOPOLOGY_WAY_HOST;
	kernel.engine = PROBE_ENGINE_KERNEL;
	flows[count++] = flow_of(MEMORY, LOST_MEMORY);
	flows[count++] = flow_of(LOST_MEMORY, MEMORY);
	flows[count++] = flow_of(LOST_MEMORY, LOST_CPU);
	flows[count++] = flow_of(LOST_CPU, MEMORY);
	flows[count++] = flow_of(CPU, CPU);
	flows[count++] = flow_of(MEMORY, GPU);
	flows[count++] = flow_of(GPU, MEMORY);
	flows[count++] = flow_of(MEMORY, VERTICES);
	flows[count++] = host;
	flows[count++] = kernel;
	for (size_t i = 0; i < count; i++) {
		double rate_Bps = -1;
		struct probe_rates rates = { &rate_Bps, 0 };
		struct diag diag = { .text = "" };

		assert_false(probe->ops->can(probe, &flows[i]));
		assert_int_equal(probe->ops->run(probe, &flows[i], 1, DURATION_NS, &rates, &diag), -ENOTSUP);
		assert_true(diag.text[0]);
		assert_true(rate_Bps < 0);
	}
}

static void a_stop_that_is_set_ends_a_run_at_once(void **state)
{
	_Atomic bool stop = true;
	struct probe *probe;
	struct probe_flow flow = flow_of(MEMORY, MEMORY);
	struct diag diag = { .text = "" };
	double rate_Bps = -1;
	struct probe_rates rates = { &rate_Bps, 0 };

	(void)state;
	assert_int_equal(probe_memory_open(&machine, &stop, &tiny, &probe, &diag), 0);
	/* Would it wait for the end, the test's time limit would end it. */
	assert_int_equal(probe->ops->run(probe, &flow, 1, 3600 * NS_PER_S, &rates, &diag), -EINTR);
	assert_string_equal(diag.text, "stopped");
	assert_true(rate_Bps < 0);
	probe->ops->close(probe);
}

static void a_machine_without_memories_can_nothing(void **state)
{
	const struct topology empty = { .vertex_count = 0 };
	struct probe_flow flow = flow_of(0, 0);
	struct probe *probe;
	struct diag diag;

	(void)state;
	assert_int_equal(probe_memory_open(&empty, NULL, NULL, &probe, &diag), 0);
	assert_string_equal(probe->ops->name, "memory");
	assert_false(probe->ops->can(probe, &flow));
	probe->ops->close(probe);
}

static void a_stream_copies_every_byte(void **state)
{
	static _Alignas(64) unsigned char from[4096], to[4096 + 64];

	(void)state;
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 251);
	probe_memory_stream(PROBE_MEMORY_COPY, to, from, sizeof(from));
	assert_memory_equal(to, from, sizeof(from));
	for (size_t i = sizeof(from); i < sizeof(to); i++)
		assert_int_equal(to[i], 0);
	probe_memory_stream(PROBE_MEMORY_WRITE, to, NULL, 64);
	for (size_t i = 0; i < 64; i++)
		assert_int_equal(to[i], 0x5a);
	assert_int_equal(to[64], from[64]);
}

static void a_read_looks_at_every_word(void **state)
{
	static _Alignas(64) uint64_t words[1024];
	uint64_t expected = 0;

	(void)state;
	for (size_t i = 0; i < 1024; i++) {
		words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
		expected ^= words[i];
	}
	assert_true(probe_memory_stream(PROBE_MEMORY_READ, NULL, words, sizeof(words)) == expected);
}

static void lists_of_cpus_are_read_as_the_kernel_writes_them(void **state)
{
	struct probe_numa_cpus *cpus = calloc(1, sizeof(*cpus));
	static const char *const wrong[] = { "x", "1-", "3-1", "1,1", "5,4", "-1", "0x3", "0-3,2", "1 2" };

	(void)state;
	assert_int_equal(probe_numa_parse_list("0-2,8,10-11", cpus), 0);
	assert_int_equal(cpus->count, 6);
	assert_int_equal(cpus->cpu[2], 2);
	assert_int_equal(cpus->cpu[3], 8);
	assert_int_equal(cpus->cpu[5], 11);
	assert_int_equal(probe_numa_parse_list("", cpus), 0); /* a memory without cores */
	assert_int_equal(cpus->count, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(probe_numa_parse_list(wrong[i], cpus), -EINVAL);
	assert_int_equal(probe_numa_parse_list("0-8192", cpus), -ERANGE);
	free(cpus);
}

static void the_cores_of_node_0_are_ours(void **state)
{
	struct probe_numa_cpus *cpus = calloc(1, sizeof(*cpus));
	cpu_set_t before, now;
	size_t all;

	(void)state;
	assert_int_equal(probe_numa_cpus(0, cpus), 0);
	assert_int_equal(probe_numa_cpus(900, cpus), -ENOTSUP);
	assert_int_equal(probe_numa_cpus(-1, cpus), -ENOTSUP);
	all = cpus->count;
	probe_numa_cores_only(cpus);
	assert_in_range(cpus->count, all ? 1 : 0, all);
	if (all) {
		assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
		assert_int_equal(probe_numa_pin(cpus->cpu[0]), 0);
		assert_int_equal(sched_getaffinity(0, sizeof(now), &now), 0);
		assert_int_equal(CPU_COUNT(&now), 1);
		assert_true(CPU_ISSET(cpus->cpu[0], &now));
		assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	}
	assert_int_equal(probe_numa_pin(PROBE_NUMA_CPUS_MAX), -EINVAL);
	free(cpus);
}

static void memory_of_a_node_is_there_and_zero(void **state)
{
	struct diag diag = { .text = "" };
	unsigned char *memory;
	void *pages = NULL;

	(void)state;
	assert_int_equal(probe_numa_alloc(0, 100000, &pages, &diag), 0);
	memory = pages;
	assert_int_equal(memory[0], 0);
	assert_int_equal(memory[99999], 0);
	memory[99999] = 1;
	probe_numa_free(pages, 100000);
	pages = NULL;
	assert_int_equal(probe_numa_alloc(900, 4096, &pages, &diag), -ENOTSUP);
	assert_string_equal(diag.text, "this machine has no NUMA node 900");
	assert_null(pages);
	assert_int_equal(probe_numa_alloc(0, SIZE_MAX / 4, &pages, &diag), -ENOMEM);
	probe_numa_free(NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copies_reads_and_writes_have_rates, open_probe, close_probe),
		cmocka_unit_test_setup_teardown(flows_that_run_at_once_all_have_rates, open_probe, close_probe),
		cmocka_unit_test_setup_teardown(what_is_not_on_this_machine_is_not_supported, open_probe, close_probe),
		cmocka_unit_test(a_stop_that_is_set_ends_a_run_at_once),
		cmocka_unit_test(a_machine_without_memories_can_nothing),
		cmocka_unit_test(a_stream_copies_every_byte),
		cmocka_unit_test(a_read_looks_at_every_word),
		cmocka_unit_test(lists_of_cpus_are_read_as_the_kernel_writes_them),
		cmocka_unit_test(the_cores_of_node_0_are_ours),
		cmocka_unit_test(memory_of_a_node_is_there_and_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
