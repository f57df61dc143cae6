/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "unit/gpu/fake_cuda.h"

/* cpu0 with its memory, three GPUs below it, a memory that is not there, and a GPU that CUDA does not show. */
enum { CPU, MEMORY, LOST_MEMORY, GPU0, GPU1, GPU2, HIDDEN_GPU, VERTICES };

static struct topology_vertex vertices[VERTICES] = {
	[CPU] = { .kind = TOPOLOGY_CPU, .name = "cpu0" },
	[MEMORY] = { .kind = TOPOLOGY_MEMORY, .name = "memory0" },
	[LOST_MEMORY] = { .kind = TOPOLOGY_MEMORY, .name = "memory900", .cpu = { .numa = 900 } },
	[GPU0] = { .kind = TOPOLOGY_GPU, .name = "gpu0", .bus_id = "0000:10:00.0" },
	[GPU1] = { .kind = TOPOLOGY_GPU, .name = "gpu1", .bus_id = "0000:20:00.0" },
	[GPU2] = { .kind = TOPOLOGY_GPU, .name = "gpu2", .bus_id = "0000:30:00.0" },
	[HIDDEN_GPU] = { .kind = TOPOLOGY_GPU, .name = "gpu9", .bus_id = "0000:a0:00.0" },
};
static const struct topology machine = { .vertices = vertices, .vertex_count = VERTICES };
static const struct probe_cuda_options tiny = { .buffer_bytes = 64 << 10 };

enum { DURATION_NS = 5 * 1000 * 1000 };

static struct probe_flow flow_of(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
}

static struct probe_flow flow_by_host(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_HOST, MEMORY } };
}

static struct probe *open_probe(const _Atomic bool *stop)
{
	struct probe *probe = NULL;
	struct diag diag = { .text = "" };

	assert_int_equal(probe_cuda_open(&machine, stop, &tiny, &probe, &diag), 0);
	return probe;
}

static int set_up(void **state)
{
	(void)state;
	fake_cuda_reset(3);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_cuda_remove();
	if (fake_cuda.misuses)
		fprintf(stderr, "misuse of CUDA: %s\n", fake_cuda.misuse);
	return fake_cuda.misuses || fake_cuda_alive() ? -1 : 0;
}

/* Every flow alone gets what a stream of the fake driver carries. */
static void assert_full_rate(struct probe *probe, const struct probe_flow *flows, size_t count)
{
	double rate_Bps[8] = { 0 };
	struct probe_rates rates = { rate_Bps, 0 };
	struct diag diag = { .text = "" };

	for (size_t i = 0; i < count; i++)
		assert_true(probe->ops->can(probe, &flows[i]));
	assert_int_equal(probe->ops->run(probe, flows, count, DURATION_NS, &rates, &diag), 0);
	assert_true(rates.time_ns > DURATION_NS / 2);
	for (size_t i = 0; i < count; i++)
		assert_in_range(rate_Bps[i], fake_cuda.rate_Bps / 100 * 98, fake_cuda.rate_Bps / 100 * 102);
}

static void flows_between_host_and_gpu_have_the_rate_of_their_stream(void **state)
{
	struct probe *probe = open_probe(NULL);
	const struct probe_flow flows[] = { flow_of(MEMORY, GPU0), flow_of(GPU0, MEMORY), flow_of(GPU2, MEMORY) };

	(void)state;
	assert_full_rate(probe, &flows[0], 1);
	assert_full_rate(probe, &flows[1], 1);
	assert_full_rate(probe, flows, 3);
	assert_int_equal(fake_cuda.kernel_copies, 0);
	assert_int_equal(fake_cuda.peer_copies, 0);
	probe->ops->close(probe);
}

static void flows_between_gpus_go_by_p2p(void **state)
{
	struct probe *probe = open_probe(NULL);
	struct probe_flow flows[] = { flow_of(GPU0, GPU1), flow_of(GPU1, GPU0) };

	(void)state;
	assert_full_rate(probe, flows, 2);
	assert_true(fake_cuda.peer_copies > 0);
	assert_int_equal(fake_cuda.copies, fake_cuda.peer_copies);
	probe->ops->close(probe);
}

static void a_way_through_host_memory_keeps_both_legs_busy(void **state)
{
	struct probe *probe = open_probe(NULL);
	const struct probe_flow flow = flow_by_host(GPU0, GPU1);

	(void)state;
	/* Did the legs take turns, it would be half the rate. */
	assert_full_rate(probe, &flow, 1);
	assert_int_equal(fake_cuda.peer_copies, 0);
	probe->ops->close(probe);
}

static void kernels_move_all_kinds_of_flows(void **state)
{
	struct probe *probe = open_probe(NULL);
	struct probe_flow flows[] = { flow_of(MEMORY, GPU0), flow_of(GPU1, MEMORY), flow_of(GPU1, GPU2),
				      flow_by_host(GPU2, GPU0) };

	(void)state;
	for (size_t i = 0; i < 4; i++)
		flows[i].engine = PROBE_ENGINE_KERNEL;
	assert_full_rate(probe, flows, 4);
	assert_true(fake_cuda.kernel_copies > 0);
	assert_int_equal(fake_cuda.copies, fake_cuda.kernel_copies);
	probe->ops->close(probe);
}

static void pinned_memory_comes_from_the_driver_where_ours_cannot_be_pinned(void **state)
{
	struct probe *probe;
	const struct probe_flow flow = flow_of(MEMORY, GPU0);

	(void)state;
	fake_cuda.cannot_register = true;
	probe = open_probe(NULL);
	assert_full_rate(probe, &flow, 1);
	assert_int_equal(fake_cuda.host_memories, 1);
	assert_int_equal(fake_cuda.registered, 0);
	probe->ops->close(probe);
}

static void buffers_are_used_again_in_the_next_run(void **state)
{
	struct probe *probe = open_probe(NULL);
	const struct probe_flow flows[] = { flow_of(MEMORY, GPU0), flow_of(MEMORY, GPU0) };

	(void)state;
	assert_full_rate(probe, flows, 2);
	assert_int_equal(fake_cuda.memories, 2);
	assert_int_equal(fake_cuda.registered, 2);
	assert_full_rate(probe, flows, 2);
	assert_full_rate(probe, flows, 1);
	assert_int_equal(fake_cuda.memories, 2);
	assert_int_equal(fake_cuda.registered, 2);
	assert_int_equal(fake_cuda.streams, 0);
	assert_int_equal(fake_cuda.events, 0);
	probe->ops->close(probe);
}

static void peers_make_room_for_those_that_a_run_needs(void **state)
{
	struct probe *probe;
	struct probe_flow flow;

	(void)state;
	fake_cuda.peers_max = 1;
	probe = open_probe(NULL);
	flow = flow_of(GPU0, GPU1);
	assert_full_rate(probe, &flow, 1);
	flow = flow_of(GPU0, GPU2);
	assert_full_rate(probe, &flow, 1);
	flow = flow_of(GPU1, GPU2);
	assert_full_rate(probe, &flow, 1);
	probe->ops->close(probe);
}

static void latency_is_that_of_a_dependent_load(void **state)
{
	struct probe *probe = open_probe(NULL);
	const struct probe_flow read[] = { flow_of(GPU2, GPU0), flow_of(GPU1, GPU0) };
	const struct probe_flow none[] = { flow_of(MEMORY, GPU0), flow_of(GPU0, MEMORY), flow_by_host(GPU1, GPU0) };
	struct diag diag = { .text = "" };
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		ns = 0;
		assert_int_equal(probe->ops->latency(probe, &read[i], &ns, &diag), 0);
		assert_in_range(ns, FAKE_CUDA_LINK_NS - 2, FAKE_CUDA_LINK_NS + 2);
	}
	for (size_t i = 0; i < 3; i++) {
		ns = 7;
		assert_int_equal(probe->ops->latency(probe, &none[i], &ns, &diag), 0);
		assert_int_equal(ns, 0);
	}
	probe->ops->close(probe);
}

static void what_the_gpus_cannot_move_is_not_supported(void **state)
{
	struct probe *probe;
	struct probe_flow flows[16];
	size_t count = 0;

	(void)state;
	fake_cuda.p2p_one_way = true;
	probe = open_probe(NULL);
	flows[count++] = flow_of(MEMORY, MEMORY);
	flows[count++] = flow_of(GPU0, GPU0);
	flows[count++] = flow_of(GPU1, GPU0); /* no P2P in this direction */
	flows[count++] = flow_of(LOST_MEMORY, GPU0);
	flows[count++] = flow_of(GPU0, LOST_MEMORY);
	flows[count++] = flow_of(CPU, GPU0);
	flows[count++] = flow_of(HIDDEN_GPU, MEMORY);
	flows[count++] = flow_of(MEMORY, VERTICES);
	flows[count++] = flow_by_host(MEMORY, GPU0);
	flows[count++] = flow_by_host(GPU0, GPU0);
	flows[count] = flow_by_host(GPU0, GPU1);
	flows[count++].flow.via = LOST_MEMORY;
	flows[count] = flow_of(GPU0, GPU1);
	flows[count++].flow.way = TOPOLOGY_WAY_NONE;
	for (size_t i = 0; i < count; i++) {
		double rate_Bps = -1;
		struct probe_rates rates = { &rate_Bps, 0 };
		struct diag diag = { .text = "" };
		uint64_t ns = 7;

		assert_false(probe->ops->can(probe, &flows[i]));
		assert_int_equal(probe->ops->run(probe, &flows[i], 1, DURATION_NS, &rates, &diag), -ENOTSUP);
		assert_true(diag.text[0]);
		assert_int_equal(probe->ops->latency(probe, &flows[i], &ns, &diag), -ENOTSUP);
		assert_true(rate_Bps < 0);
		assert_int_equal(ns, 7);
	}
	flows[0] = flow_of(GPU0, GPU1);
	assert_full_rate(probe, flows, 1);
	probe->ops->close(probe);
}

static void without_a_gpu_there_is_a_reason(void **state)
{
	static const struct {
		int gpus, init_result;
		const char *text;
	} cases[] = {
		{ 0, 0, "the CUDA driver finds no GPU" },
		{ 3, GPU_CUDA_NO_DEVICE, "the CUDA driver finds no GPU (CUDA_ERROR_NO_DEVICE)" },
	};
	const struct topology other = { .vertices = &vertices[HIDDEN_GPU], .vertex_count = 1 };
	struct probe *probe = NULL;
	struct diag diag = { .text = "" };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake_cuda_reset(cases[i].gpus);
		fake_cuda.init_result = cases[i].init_result;
		assert_int_equal(probe_cuda_open(&machine, NULL, NULL, &probe, &diag), -ENODEV);
		assert_string_equal(diag.text, cases[i].text);
	}
	fake_cuda_reset(3);
	assert_int_equal(probe_cuda_open(&other, NULL, NULL, &probe, &diag), -ENODEV);
	assert_string_equal(diag.text, "none of the 3 GPUs that the CUDA driver shows is in the graph");
	assert_null(probe);
}

static void a_stop_that_is_set_ends_a_run_at_once(void **state)
{
	_Atomic bool stop = true;
	struct probe *probe = open_probe(&stop);
	const struct probe_flow flow = flow_of(GPU1, GPU0);
	double rate_Bps = -1;
	struct probe_rates rates = { &rate_Bps, 0 };
	struct diag diag = { .text = "" };
	uint64_t ns = 7;

	(void)state;
	assert_int_equal(probe->ops->run(probe, &flow, 1, 3600 * NS_PER_S, &rates, &diag), -EINTR);
	assert_string_equal(diag.text, "stopped");
	assert_int_equal(probe->ops->latency(probe, &flow, &ns, &diag), -EINTR);
	assert_true(rate_Bps < 0);
	assert_int_equal(ns, 7);
	assert_int_equal(fake_cuda.streams, 0);
	probe->ops->close(probe);
}

static void bytes_that_arrive_changed_are_an_error(void **state)
{
	const struct probe_flow flows[] = { flow_of(GPU0, MEMORY), flow_of(GPU0, GPU1), flow_by_host(GPU0, GPU1) };
	struct probe *probe;

	(void)state;
	fake_cuda.corrupts = true;
	probe = open_probe(NULL);
	for (size_t i = 0; i < 3; i++) {
		double rate_Bps = -1;
		struct probe_rates rates = { &rate_Bps, 0 };
		struct diag diag = { .text = "" };

		assert_int_equal(probe->ops->run(probe, &flows[i], 1, DURATION_NS, &rates, &diag), -EIO);
		assert_non_null(strstr(diag.text, ": other bytes arrive than were sent"));
		assert_true(rate_Bps < 0);
	}
	probe->ops->close(probe);
}

/* The time of the fake clock goes by a millisecond a look, so this takes no time. */
static void copies_that_never_end_are_given_up(void **state)
{
	struct probe *probe = open_probe(NULL);
	const struct probe_flow flow = flow_of(GPU0, GPU1);
	double rate_Bps = -1;
	struct probe_rates rates = { &rate_Bps, 0 };
	struct diag diag = { .text = "" };
	uint64_t ns;

	(void)state;
	fake_cuda.hangs = true;
	assert_int_equal(probe->ops->run(probe, &flow, 1, DURATION_NS, &rates, &diag), -EIO);
	assert_string_equal(diag.text, "gpu0>gpu1: copies do not end");
	assert_true(rate_Bps < 0);
	/* Their memory is still written to: nothing is freed, nothing is used any more. */
	assert_true(fake_cuda.memories > 0);
	assert_int_equal(probe->ops->run(probe, &flow, 1, DURATION_NS, &rates, &diag), -EIO);
	assert_int_equal(probe->ops->latency(probe, &flow, &ns, &diag), -EIO);
	probe->ops->close(probe);
	assert_int_equal(fake_cuda.memories, 2);
}

static int tear_down_lost(void **state)
{
	(void)state;
	fake_cuda_remove();
	return fake_cuda.misuses ? -1 : 0;
}

/* Opens, runs, asks for latencies, closes. The first error, or 0. */
static int scenario(struct diag *diag)
{
	struct probe_flow flows[] = { flow_of(MEMORY, GPU0), flow_of(GPU0, GPU1), flow_by_host(GPU1, GPU2),
				      flow_of(GPU2, MEMORY) };
	double rate_Bps[4] = { -1, -1, -1, -1 };
	struct probe_rates rates = { rate_Bps, 0 };
	struct probe *probe = NULL;
	uint64_t ns;
	int r = probe_cuda_open(&machine, NULL, &tiny, &probe, diag);

	/* So slow that the first batches are large enough, and few are looked at: each call is made to fail once. */
	fake_cuda.rate_Bps = 4000000;
	fake_cuda.look_ns = 200 * NS_PER_US;
	flows[3].engine = PROBE_ENGINE_KERNEL;
	if (r < 0) {
		assert_null(probe);
		return r;
	}
	r = probe->ops->run(probe, flows, 4, NS_PER_MS / 10, &rates, diag);
	if (r < 0)
		assert_true(rate_Bps[0] < 0);
	if (!r)
		r = probe->ops->latency(probe, &flows[1], &ns, diag);
	probe->ops->close(probe);
	return r;
}

static void whichever_call_fails_nothing_is_left_behind(void **state)
{
	struct diag diag = { .text = "" };
	uint64_t calls, failed = 0;

	(void)state;
	assert_int_equal(scenario(&diag), 0);
	calls = fake_cuda.calls;
	assert_int_equal(fake_cuda_alive(), 0);
	for (uint64_t n = 1; n <= calls; n++) {
		int r;

		fake_cuda_reset(3);
		fake_cuda.fail_at = n;
		diag.text[0] = '\0';
		r = scenario(&diag);
		if (fake_cuda_alive() || fake_cuda.misuses)
			fprintf(stderr, "call %lu of %lu, %s: %d alive, misuse: %s\n", (unsigned long)n,
				(unsigned long)calls, fake_cuda.failed, fake_cuda_alive(),
				fake_cuda.misuses ? fake_cuda.misuse : "none");
		assert_int_equal(fake_cuda_alive(), 0);
		assert_int_equal(fake_cuda.misuses, 0);
		assert_true(r == 0 || r == -EIO || r == -ENODEV || r == -ENOTSUP);
		assert_true(!r == !diag.text[0]);
		if (r == -EIO) {
			assert_non_null(strstr(diag.text, "CUDA_ERROR_LAUNCH_FAILED"));
			failed++;
		}
	}
	/* Only what gives things back, and what asks whether P2P is possible, may fail without an error. */
	assert_true(failed > calls / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flows_between_host_and_gpu_have_the_rate_of_their_stream, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(flows_between_gpus_go_by_p2p, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_way_through_host_memory_keeps_both_legs_busy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kernels_move_all_kinds_of_flows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pinned_memory_comes_from_the_driver_where_ours_cannot_be_pinned, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(buffers_are_used_again_in_the_next_run, set_up, tear_down),
		cmocka_unit_test_setup_teardown(peers_make_room_for_those_that_a_run_needs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(latency_is_that_of_a_dependent_load, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_the_gpus_cannot_move_is_not_supported, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_a_gpu_there_is_a_reason, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_stop_that_is_set_ends_a_run_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bytes_that_arrive_changed_are_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(copies_that_never_end_are_given_up, set_up, tear_down_lost),
		cmocka_unit_test_setup_teardown(whichever_call_fails_nothing_is_left_behind, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
