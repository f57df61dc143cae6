/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs over the fake, which the CPU cannot touch at all: who touches it ends this test. What a card writes there is
 * seen when the same card has read there, and not before.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/verbs/reserve.h"
#include "unit/transport/tcp/fake_sysfs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NIC "pci0000:80/0000:80:01.0/0000:81:00.1"

static const struct transport_ops *const ops = &transport_verbs;

/* ---- what devices say of themselves ---- */

static unsigned memory_with(struct fake_verbs_options options, const char *root)
{
	struct transport_properties properties;
	struct transport *transport;
	struct params params;

	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	params.gid_index = 1;
	options.devices = 1;
	verbs_transport_use(fake_verbs_start(&options), root);
	assert_int_equal(ops->open(&params, &transport), 0);
	assert_int_equal(ops->device_properties(transport, 0, &properties), 0);
	ops->close(transport);
	assert_int_equal(fake_verbs_stop(), 0);
	verbs_transport_use(NULL, NULL);
	return properties.memory;
}

static void devices_say_what_they_can_register(void **state)
{
	const unsigned host = TRANSPORT_MEMORY_HOST, dmabuf = TRANSPORT_MEMORY_DMABUF, cuda = TRANSPORT_MEMORY_CUDA;
	struct fake_sysfs *tree = *state;

	assert_int_equal(memory_with((struct fake_verbs_options){ 0 }, tree->tree.root), host);
	assert_int_equal(memory_with((struct fake_verbs_options){ .dmabuf = true }, tree->tree.root), host | dmabuf);
	assert_int_equal(
		memory_with((struct fake_verbs_options){ .dmabuf = true, .no_dmabuf_call = true }, tree->tree.root),
		host);
	/* The module is of use to a card alone. */
	tree_text(&tree->tree, "module/nvidia_peermem/version", "1\n");
	assert_int_equal(memory_with((struct fake_verbs_options){ 0 }, tree->tree.root), host);
	fake_interface(tree, "eth2", NIC, 3, "02:00:00:00:00:01", "100000");
	tree_link(&tree->tree, "class/infiniband/fake0/device", "../../../devices/" NIC);
	assert_int_equal(memory_with((struct fake_verbs_options){ 0 }, tree->tree.root), host | cuda);
	assert_int_equal(memory_with((struct fake_verbs_options){ .dmabuf = true }, tree->tree.root),
			 host | cuda | dmabuf);
}

static void what_a_device_cannot_register_is_refused(void **state)
{
	struct fake_verbs_gpu gpu = fake_verbs_gpu_new(8192);
	void *registration = NULL;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	assert_int_equal(
		ops->memory_register(harness.link.receiver, gpu.address, 100, TRANSPORT_MEMORY_CUDA, &registration),
		-EOPNOTSUPP);
	assert_int_equal(ops->memory_register_dmabuf(harness.link.receiver, gpu.address, 100, TRANSPORT_MEMORY_CUDA, 0,
						     gpu.fd, &registration),
			 -EOPNOTSUPP);
	assert_null(registration);
	verbs_link_harness_close(&harness);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .dmabuf = true }, 1, false);
	assert_int_equal(ops->memory_register_dmabuf(harness.link.sender, gpu.address, 100, TRANSPORT_MEMORY_CUDA, 4096,
						     gpu.fd, &registration),
			 -EINVAL); /* not where that descriptor has it */
	assert_int_equal(ops->memory_register_dmabuf(harness.link.sender, gpu.address, 100, TRANSPORT_MEMORY_HOST, 0,
						     gpu.fd, &registration),
			 -EOPNOTSUPP);
	assert_null(registration);
	verbs_link_harness_close(&harness);
	fake_verbs_gpu_free(&gpu);
}

/* ---- messages ---- */

enum { MESSAGES = 120, WINDOW = 6, ROOM = 300 << 10, HARM_AT = 30, HARM_EVERY = 4, ENOUGH = 8, ROUNDS_MOST = 100 };

/* One end: memory of a GPU, or of the host. */
struct end {
	struct transport_connection *connection;
	struct fake_verbs_gpu gpu;
	uint8_t *host;
	void *registration;
	struct transport_request *requests[WINDOW], *flushes[WINDOW];
	unsigned posted, done;
};

static void end_open(struct end *end, struct transport_connection *connection, bool gpu, bool by_address)
{
	memset(end, 0, sizeof(*end));
	end->connection = connection;
	if (!gpu) {
		end->host = malloc((size_t)WINDOW * ROOM);
		assert_non_null(end->host);
		assert_int_equal(ops->memory_register(connection, end->host, (size_t)WINDOW * ROOM,
						      TRANSPORT_MEMORY_HOST, &end->registration),
				 0);
		return;
	}
	end->gpu = fake_verbs_gpu_new((size_t)WINDOW * ROOM);
	if (by_address)
		assert_int_equal(ops->memory_register(connection, end->gpu.address, end->gpu.bytes,
						      TRANSPORT_MEMORY_CUDA, &end->registration),
				 0);
	else
		assert_int_equal(ops->memory_register_dmabuf(connection, end->gpu.address, end->gpu.bytes,
							     TRANSPORT_MEMORY_CUDA, 0, end->gpu.fd, &end->registration),
				 0);
}

static void end_close(struct end *end)
{
	if (end->gpu.address)
		fake_verbs_gpu_free(&end->gpu);
	free(end->host);
}

static uint8_t *view(const struct end *end, unsigned message)
{
	return (end->host ? end->host : end->gpu.view) + (size_t)(message % WINDOW) * ROOM;
}

static uint8_t *address(const struct end *end, unsigned message)
{
	return (end->host ? end->host : end->gpu.address) + (size_t)(message % WINDOW) * ROOM;
}

static size_t size_of(uint64_t seed, unsigned message)
{
	uint64_t random = seed + message;

	return random_below(&random, 3) ? random_below(&random, 20 << 10) : random_below(&random, ROOM);
}

static int send_step(struct end *end, uint64_t seed)
{
	bool done = false;
	int r = 0;

	if (end->posted < MESSAGES && end->posted - end->done < WINDOW) {
		size_t bytes = size_of(seed, end->posted);

		pattern_fill(view(end, end->posted), bytes, seed + end->posted);
		r = ops->send(end->connection, address(end, end->posted), bytes, 7, end->registration,
			      &end->requests[end->posted % WINDOW]);
		end->posted += r == 0 && end->requests[end->posted % WINDOW];
	}
	if (r == 0 && end->done < end->posted)
		r = ops->test(end->requests[end->done % WINDOW], &done, NULL);
	end->done += done;
	return r;
}

static void check(const struct end *end, uint64_t seed, size_t got)
{
	const size_t bytes = size_of(seed, end->done);

	assert_int_equal(got, bytes);
	if (pattern_wrong_at(view(end, end->done), bytes, seed + end->done) != SIZE_MAX)
		fail_msg("message %u of %zu bytes", end->done, bytes);
}

/* Received, flushed, then looked at. */
static int receive_step(struct end *end, uint64_t seed)
{
	static size_t sizes[WINDOW];
	const unsigned at = end->done % WINDOW;
	void *data = address(end, end->posted), *oldest = address(end, end->done);
	const size_t room = ROOM;
	const int tag = 7;
	bool done = false;
	int r = 0;

	if (end->posted < MESSAGES && end->posted - end->done < WINDOW) {
		memset(view(end, end->posted), 0x5c, ROOM);
		r = ops->receive(end->connection, 1, &data, &room, &tag, &end->registration,
				 &end->requests[end->posted % WINDOW]);
		end->posted += r == 0 && end->requests[end->posted % WINDOW];
	}
	if (r < 0 || end->done == end->posted)
		return r;
	if (end->requests[at]) {
		r = ops->test(end->requests[at], &done, &sizes[at]);
		if (!done)
			return r;
		end->requests[at] = NULL;
		r = ops->flush(end->connection, 1, &oldest, &sizes[at], &end->registration, &end->flushes[at]);
		if (r < 0)
			return r;
	}
	done = !end->flushes[at];
	if (!done)
		r = ops->test(end->flushes[at], &done, NULL);
	if (done) {
		check(end, seed, sizes[at]);
		end->done++;
	}
	return r;
}

enum harm { NO_HARM, LOSSES, MANY_LOSSES, PORTS, OWN_PORT };

static void do_harm(enum harm harm, uint64_t *random)
{
	unsigned device = (unsigned)random_below(random, 2);

	if (harm == OWN_PORT) {
		fake_verbs_port(0, false);
	} else if (harm != PORTS) {
		fake_verbs_lose(device, (enum fake_verbs_loss)random_below(random, FAKE_VERBS_REFUSED));
	} else {
		fake_verbs_port(device, false);
		fake_verbs_port(1 - device, true);
	}
}

static void run(struct verbs_link_harness *harness, bool from_gpu, bool to_gpu, bool by_address, enum harm harm)
{
	static uint64_t runs;
	const uint64_t deadline_ns = runtime_deadline_ns(30000), seed = runtime_seed() + runs++;
	unsigned harm_at = harm == NO_HARM ? MESSAGES : HARM_AT;
	struct end from, to;
	uint64_t random = seed;

	if (from_gpu) /* first: a GPU's memory must be registered */
		end_open(&from, harness->link.sender, true, by_address);
	end_open(&to, harness->link.receiver, to_gpu, by_address);
	if (!from_gpu)
		end_open(&from, harness->link.sender, false, by_address);
	while (to.done < MESSAGES || from.done < MESSAGES) {
		/* By messages, not by time, which is short on a fast machine. */
		if (to.done >= harm_at && to.done < MESSAGES) {
			harm_at = harm == MANY_LOSSES ? harm_at + HARM_EVERY : MESSAGES;
			do_harm(harm, &random);
		}
		if (random_below(&random, 2))
			assert_int_equal(send_step(&from, seed), 0);
		else
			assert_int_equal(receive_step(&to, seed), 0);
		assert_false(runtime_past(deadline_ns));
	}
	end_close(&from);
	end_close(&to);
}

/* Short ones that come before their receive, long ones, from and to host memory too: all seen after their flush. */
static void messages_come_and_go_without_the_cpu(void **state)
{
	struct fake_verbs_counts counts;
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned i = 1; i < 16; i++) {
		verbs_link_harness_open_paced(
			&harness, (struct fake_verbs_options){ .devices = 2, .dmabuf = true, .lazy = i & 4 }, 1, i & 8,
			i & 4);
		run(&harness, i & 1, i & 2, false, NO_HARM);
		fake_verbs_counts(&counts);
		if (i & 2)
			assert_true(counts.reads > 0);
		else
			assert_int_equal(counts.reads, 0);
		verbs_link_harness_close(&harness);
	}
}

/* The same by their addresses. */
static void peer_memory_serves_as_well(void **state)
{
	struct fake_sysfs *tree = *state;
	struct verbs_link_harness harness;

	tree_text(&tree->tree, "kernel/mm/memory_peers/nv_mem/version", "1\n");
	fake_interface(tree, "eth2", NIC, 3, "02:00:00:00:00:01", "100000");
	tree_link(&tree->tree, "class/infiniband/fake0/device", "../../../devices/" NIC);
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1, .peermem = true },
				 tree->tree.root);
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	run(&harness, true, true, true, NO_HARM);
	verbs_link_harness_close(&harness);
}

static void survive(enum harm harm)
{
	struct fake_verbs_counts counts;
	uint64_t failed = 0;
	struct verbs_link_harness harness;

	/* Not every stroke is felt by a queue. */
	for (unsigned round = 0; round < (runtime_long() ? 60 : 8) || (failed <= ENOUGH && round < ROUNDS_MOST);
	     round++) {
		verbs_link_harness_open(&harness,
					(struct fake_verbs_options){ .devices = 2, .dmabuf = true, .lazy = round % 2 },
					2, harm != OWN_PORT);
		run(&harness, round & 1, true, false, harm);
		fake_verbs_counts(&counts);
		failed += counts.failed_queues;
		verbs_link_harness_close(&harness);
	}
	assert_true(failed > ENOUGH);
}

/* Queue pairs fail amid all that, those with themselves too. */
static void loops_that_fail_are_made_anew(void **state)
{
	(void)state;
	survive(LOSSES);
}

/* However many: something arrives between them. */
static void many_failures_are_survived(void **state)
{
	(void)state;
	survive(MANY_LOSSES);
}

static void a_port_that_goes_down_stops_no_message(void **state)
{
	(void)state;
	survive(PORTS);
}

/* What it wrote may never be seen by the GPU, though other ports go on. */
static void a_dark_card_that_reads_nothing_back_ends_the_connection(void **state)
{
	const uint64_t deadline_ns = runtime_deadline_ns(60000), seed = runtime_seed();
	const int both[] = { 0, 1 };
	struct verbs_link_harness harness;
	struct end from, to;
	uint64_t moved_ns = clock_now_ns();
	unsigned done = 0;
	int r = 0;

	(void)state;
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 2, .dmabuf = true }, NULL);
	assert_int_equal(ops->device_join(harness.transport, 2, both, &harness.device), 0);
	assert_int_equal(link_open(ops, harness.transport, harness.device, &harness.link), 0);
	harness.params.timeout_ns = 30 * NS_PER_S;
	end_open(&to, harness.link.receiver, true, false);
	end_open(&from, harness.link.sender, false, false);
	while (r == 0) {
		if (to.done != done)
			moved_ns = clock_now_ns();
		done = to.done;
		if (done == HARM_AT)
			fake_verbs_loops(0, false);
		if (done >= HARM_AT && clock_now_ns() - moved_ns > NS_PER_S) /* it has something to read back */
			fake_verbs_port(0, false);
		if (from.done < MESSAGES)
			(void)send_step(&from, seed);
		r = receive_step(&to, seed);
		assert_true(to.done < MESSAGES);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r, -EIO);
	assert_non_null(strstr(((struct verbs_connection *)harness.link.receiver)->why, "read back"));
	assert_true(clock_now_ns() - moved_ns > 4 * NS_PER_S);
	end_close(&from);
	end_close(&to);
	verbs_link_harness_close(&harness);
}

/* With one port alone, another card, which stands by, writes into the GPU. */
static void a_reserve_writes_into_memory_of_gpus(void **state)
{
	(void)state;
	if (!verbs_reserve_may_lock())
		skip();
	survive(OWN_PORT);
}

/* It carries, and does not take that memory. */
static void a_reserve_that_refuses_it_is_left(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	if (!verbs_reserve_may_lock())
		skip();
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .dmabuf = true }, 1, false);
	fake_verbs_path(0, false);
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	fake_verbs_fail_call(2);
	fake_verbs_path(0, true);
	run(&harness, false, true, false, NO_HARM);
	verbs_link_harness_close(&harness);
}

/* One end is a GPU's, and the other's memory cannot be registered; a message whose receive comes last holds up none. */
static void copy_for_want_of_registration(bool from_gpu)
{
	uint8_t early[16], late[sizeof(early)];
	struct transport_request *request;
	void *data = late, *none = NULL;
	size_t bytes = sizeof(late);
	const int tag = 8;
	struct verbs_link_harness harness;

	for (unsigned i = 0; i < 8; i++) {
		verbs_link_harness_open_paced(
			&harness,
			(struct fake_verbs_options){ .devices = 1, .dmabuf = true, .most_regions = 3, .lazy = i & 1 },
			1 + i / 4, false, i & 2);
		pattern_fill(early, sizeof(early), i);
		assert_int_equal(ops->send(harness.link.sender, early, sizeof(early), tag, NULL, &request), 0);
		assert_non_null(request);
		assert_int_equal(link_finish(ops, request, NULL), 0);
		run(&harness, from_gpu, !from_gpu, false, i ? MANY_LOSSES : NO_HARM);
		assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &none, &request), 0);
		assert_non_null(request);
		assert_int_equal(link_finish(ops, request, NULL), 0);
		assert_memory_equal(early, late, sizeof(early));
		verbs_link_harness_close(&harness);
	}
}

/* From there by the card. */
static void what_is_copied_reaches_a_gpu_as_well(void **state)
{
	(void)state;
	copy_for_want_of_registration(false);
}

/* Into it by the card, each piece from its own place, also when it is sent again. */
static void what_is_copied_comes_out_of_a_gpu_as_well(void **state)
{
	(void)state;
	copy_for_want_of_registration(true);
}

/* ---- single things ---- */

static struct transport_request *post_receive(struct end *end, size_t bytes)
{
	struct transport_request *request = NULL;
	void *data = address(end, 0);
	const int tag = 7;

	assert_int_equal(ops->receive(end->connection, 1, &data, &bytes, &tag, &end->registration, &request), 0);
	assert_non_null(request);
	return request;
}

/* Nothing was written since: nothing is to be read. */
static void a_flush_is_a_read_only_where_something_was_written(void **state)
{
	struct fake_verbs_counts before, after;
	struct transport_request *request = NULL;
	struct end from, to;
	struct verbs_link_harness harness;
	size_t bytes = 100000;
	void *data;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .dmabuf = true }, 1, true);
	end_open(&from, harness.link.sender, true, false);
	end_open(&to, harness.link.receiver, true, false);
	data = address(&to, 0);
	assert_int_equal(ops->flush(to.connection, 1, &data, &bytes, &to.registration, &request), 0);
	assert_null(request);
	pattern_fill(view(&from, 0), bytes, 3);
	assert_int_equal(ops->send(from.connection, address(&from, 0), bytes, 7, from.registration, &request), 0);
	assert_int_equal(link_finish(ops, post_receive(&to, bytes), NULL), 0);
	assert_int_equal(link_finish(ops, request, NULL), 0);
	assert_true(pattern_wrong_at(view(&to, 0), bytes, 3) != SIZE_MAX); /* the fake's card has it still */
	fake_verbs_counts(&before);
	assert_int_equal(ops->flush(to.connection, 1, &data, &bytes, &to.registration, &request), 0);
	assert_non_null(request);
	assert_int_equal(link_finish(ops, request, NULL), 0);
	fake_verbs_counts(&after);
	assert_int_equal(after.reads, before.reads + 1); /* one rail carried it */
	assert_true(pattern_wrong_at(view(&to, 0), bytes, 3) == SIZE_MAX);
	assert_int_equal(ops->flush(to.connection, 1, &data, &bytes, &to.registration, &request), 0);
	assert_null(request);
	bytes = 0;
	assert_int_equal(ops->flush(to.connection, 1, &data, &bytes, &to.registration, &request), 0);
	assert_null(request);
	verbs_link_harness_close(&harness);
	end_close(&from);
	end_close(&to);
}

/* Its sender has gone by the time that the card is to put it where it belongs. */
static void an_eager_message_outlives_its_sender(void **state)
{
	struct transport_request *send = NULL, *receive;
	enum transport_next next;
	struct end from, to;
	struct verbs_link_harness harness;
	size_t bytes = 9000;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .dmabuf = true }, 1, false);
	end_open(&from, harness.link.sender, true, false);
	end_open(&to, harness.link.receiver, true, false);
	pattern_fill(view(&from, 0), bytes, 4);
	assert_int_equal(ops->send(from.connection, address(&from, 0), bytes, 7, from.registration, &send), 0);
	assert_int_equal(link_finish(ops, send, NULL), 0);
	while (!verbs_receiver_has_unexpected((struct verbs_connection *)to.connection))
		assert_int_equal(ops->progress(to.connection, &next), 0);
	receive = post_receive(&to, bytes);
	ops->close_connection(harness.link.sender);
	harness.link.sender = NULL;
	assert_int_equal(link_finish(ops, receive, NULL), 0);
	verbs_link_harness_close(&harness);
	assert_true(pattern_wrong_at(view(&to, 0), bytes, 4) == SIZE_MAX);
	end_close(&from);
	end_close(&to);
}

static void a_card_that_does_not_reach_the_gpu_is_an_error(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(20000);
	struct transport_request *request = NULL;
	struct end from, to;
	struct verbs_link_harness harness;
	size_t bytes = 100000;
	bool done = false;
	void *data;
	int r = 0;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .dmabuf = true }, 1, false);
	end_open(&from, harness.link.sender, true, false);
	end_open(&to, harness.link.receiver, true, false);
	data = address(&to, 0);
	assert_int_equal(ops->send(from.connection, address(&from, 0), bytes, 7, from.registration, &request), 0);
	assert_int_equal(link_finish(ops, post_receive(&to, bytes), NULL), 0);
	assert_int_equal(link_finish(ops, request, NULL), 0);
	fake_verbs_loops(0, false);
	assert_int_equal(ops->flush(to.connection, 1, &data, &bytes, &to.registration, &request), 0);
	assert_non_null(request);
	while (r == 0) {
		r = ops->test(request, &done, NULL);
		assert_false(done);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r, -EIO);
	verbs_link_harness_close(&harness);
	end_close(&from);
	end_close(&to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(devices_say_what_they_can_register, fake_sysfs_new, fake_sysfs_free),
		cmocka_unit_test(what_a_device_cannot_register_is_refused),
		cmocka_unit_test(messages_come_and_go_without_the_cpu),
		cmocka_unit_test_setup_teardown(peer_memory_serves_as_well, fake_sysfs_new, fake_sysfs_free),
		cmocka_unit_test(loops_that_fail_are_made_anew),
		cmocka_unit_test(many_failures_are_survived),
		cmocka_unit_test(a_port_that_goes_down_stops_no_message),
		cmocka_unit_test(a_dark_card_that_reads_nothing_back_ends_the_connection),
		cmocka_unit_test(a_reserve_writes_into_memory_of_gpus),
		cmocka_unit_test(a_reserve_that_refuses_it_is_left),
		cmocka_unit_test(what_is_copied_reaches_a_gpu_as_well),
		cmocka_unit_test(what_is_copied_comes_out_of_a_gpu_as_well),
		cmocka_unit_test(a_flush_is_a_read_only_where_something_was_written),
		cmocka_unit_test(an_eager_message_outlives_its_sender),
		cmocka_unit_test(a_card_that_does_not_reach_the_gpu_is_an_error),
	};

	runtime_start("verbs_gpu_test", 200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
