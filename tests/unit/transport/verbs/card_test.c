/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cards and ports over the fake: what is asked of them, and what becomes of traffic when one fails for good, comes back, is
 * slow, has no receive for us, or when a child of ours holds what we have.
 */
#include "base/clock.h"
#include "base/log.h"
#include "support/log_lines.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/tcp/tcp.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const struct transport_ops *const ops = &transport_verbs;

static void finish(struct verbs_run *run)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	for (unsigned i = 0; run->done != 3; i++) {
		assert_int_equal(verbs_run_step(run, i % 2), 0);
		assert_false(runtime_past(deadline_ns));
	}
}

static void some_steps(struct verbs_run *run)
{
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(verbs_run_step(run, i % 2), 0);
	assert_int_not_equal(run->done, 3);
}

/* ---- a card that has failed ---- */

/* It takes no command, completes nothing, and gives back none of its receives. */
static void a_card_that_fails_leaves_its_traffic_to_the_other(void **state)
{
	(void)state;
	for (unsigned round = 0; round < (runtime_long() ? 40 : 8); round++) {
		struct fake_verbs_counts before, after;
		struct verbs_link_harness harness;
		struct verbs_run run;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .lazy = round & 2 },
					1 + round % 3, true);
		verbs_run_begin(&run, &harness, runtime_seed() + round);
		some_steps(&run);
		fake_verbs_die(round & 1);
		finish(&run);
		verbs_run_end(&run);
		/* Memory of the host is registered with the other alone, and nothing is copied for want of the one. */
		fake_verbs_counts(&before);
		assert_int_equal(link_exchange(&harness.link, 3 << 20, round), 0);
		fake_verbs_counts(&after);
		assert_int_equal(after.data[round & 1], before.data[round & 1]);
		assert_true(after.data[!(round & 1)] - before.data[!(round & 1)] >= 3 << 20);
		assert_true(after.requests - before.requests < 3 << 20 >> 14); /* in pieces: 16 KiB at a time */
		/* A connection that is made now has one rail. */
		link_close(&harness.link);
		assert_int_equal(link_open(ops, harness.transport, harness.device, &harness.link), 0);
		assert_int_equal(link_exchange(&harness.link, 1 << 20, round), 0);
		verbs_link_harness_close(&harness);
	}
}

/* No time-out is waited for. */
static void without_a_card_there_is_an_error_at_once(void **state)
{
	int r[2] = { 0, 0 };
	struct verbs_link_harness harness;
	struct verbs_run run;
	uint64_t deadline_ns;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	harness.params.timeout_ns = 3600 * NS_PER_S;
	verbs_run_begin(&run, &harness, runtime_seed());
	some_steps(&run);
	fake_verbs_die(0);
	deadline_ns = runtime_deadline_ns(20000);
	for (unsigned i = 0; !r[0] || !r[1]; i++) {
		if (!r[i % 2])
			r[i % 2] = verbs_run_step(&run, i % 2);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r[0], -EIO);
	assert_int_equal(r[1], -EIO);
	link_close(&harness.link);
	assert_true(link_open(ops, harness.transport, 0, &harness.link) < 0);
	verbs_run_end(&run);
	verbs_link_harness_close(&harness);
}

/* What it wrote into memory of a GPU cannot be read back: nobody knows when the GPU sees it. */
static void a_card_that_fails_ends_who_receives_into_memory_of_gpus(void **state)
{
	struct fake_verbs_gpu gpu = fake_verbs_gpu_new(8192);
	uint64_t deadline_ns = runtime_deadline_ns(20000);
	void *registration = NULL;
	enum transport_next next;
	struct verbs_link_harness harness;
	int r = 0;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .dmabuf = true }, 1, true);
	assert_int_equal(ops->memory_register_dmabuf(harness.link.receiver, gpu.address, gpu.bytes,
						     TRANSPORT_MEMORY_CUDA, 0, gpu.fd, &registration),
			 0);
	fake_verbs_die(1);
	while (r == 0) {
		r = ops->progress(harness.link.receiver, &next);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r, -EIO);
	verbs_link_harness_close(&harness);
	fake_verbs_gpu_free(&gpu);
}

/* ---- ports ---- */

static uint64_t written_by(unsigned device)
{
	struct fake_verbs_counts counts;

	fake_verbs_counts(&counts);
	return counts.data[device];
}

/* The service thread may find one lost, too. */
static unsigned live_queues(struct verbs_link_harness *harness)
{
	struct verbs_connection *connection = (struct verbs_connection *)harness->link.sender;
	unsigned count;

	pthread_mutex_lock(&connection->lock);
	count = connection->live_count;
	pthread_mutex_unlock(&connection->lock);
	return count;
}

static void a_port_that_comes_back_carries_traffic_again(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS), before;
	struct verbs_link_harness harness;
	unsigned i = 0;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	assert_int_equal(link_exchange(&harness.link, 8 << 20, i++), 0);
	assert_true(written_by(0) > 1 << 20 && written_by(1) > 1 << 20);
	fake_verbs_port(1, false);
	while (live_queues(&harness) == 2) {
		assert_int_equal(link_exchange(&harness.link, 1 << 20, i++), 0);
		assert_false(runtime_past(deadline_ns));
	}
	before = written_by(1);
	for (unsigned k = 0; k < 10; k++)
		assert_int_equal(link_exchange(&harness.link, 8 << 20, i++), 0);
	assert_int_equal(written_by(1), before);
	fake_verbs_port(1, true);
	while (written_by(1) < before + (4 << 20)) {
		assert_int_equal(link_exchange(&harness.link, 8 << 20, i++), 0);
		assert_false(runtime_past(deadline_ns));
	}
	verbs_link_harness_close(&harness);
}

/* Pieces go to whichever queue pair has room. */
static void a_slower_rail_gets_fewer(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned slow = 0; slow < 2; slow++) {
		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
		fake_verbs_slow(slow, 20 * NS_PER_MS); /* far more than a busy machine makes of the other one */
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(link_exchange(&harness.link, 24 << 20, i), 0);
		print_message("rail %u takes 20 ms a write: %u MiB over it, %u over the other\n", slow,
			      (unsigned)(written_by(slow) >> 20), (unsigned)(written_by(!slow) >> 20));
		assert_true(written_by(slow) < written_by(!slow) / 2);
		verbs_link_harness_close(&harness);
	}
}

/* Both ports of one card are devices, told apart by name, address and event, and known to be of one card. */
static void a_card_with_two_ports_is_two_devices(void **state)
{
	struct transport_properties first, second;
	const int members[] = { 0, 1 };
	const struct verbs_transport *transport;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1, .ports = 2 }, NULL);
	transport = (const struct verbs_transport *)harness.transport;
	assert_int_equal(ops->device_count(harness.transport), 2);
	assert_int_equal(ops->device_properties(harness.transport, 0, &first), 0);
	assert_int_equal(ops->device_properties(harness.transport, 1, &second), 0);
	assert_string_equal(first.name, "fake0:1");
	assert_string_equal(second.name, "fake0:2");
	assert_int_equal(first.guid, second.guid);
	assert_int_equal(first.port + 1, second.port);
	assert_memory_not_equal(transport->cards.ports[0].gid, transport->cards.ports[1].gid, 16);
	assert_int_equal(ops->device_join(harness.transport, 2, members, &harness.device), 0);
	assert_int_equal(link_open(ops, harness.transport, harness.device, &harness.link), 0);
	assert_int_equal(((const struct verbs_connection *)harness.link.sender)->queues[1].rail, 1);
	assert_int_equal(link_exchange(&harness.link, 8 << 20, 1), 0);
	fake_verbs_port_of(0, 2, false);
	verbs_devices_listen((struct verbs_devices *)&transport->cards);
	assert_false(verbs_port_is_down(&transport->cards.ports[0]));
	assert_true(verbs_port_is_down(&transport->cards.ports[1]));
	verbs_link_harness_close(&harness);
}

static void a_port_is_taken_by_its_number(void **state)
{
	struct transport_properties properties;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	ops->close(harness.transport);
	snprintf(harness.params.hca, sizeof(harness.params.hca), "fake0:2");
	assert_int_equal(fake_verbs_stop(), 0);
	verbs_transport_use(fake_verbs_start(&(struct fake_verbs_options){ .devices = 1, .ports = 2 }), NULL);
	assert_int_equal(ops->open(&harness.params, &harness.transport), 0);
	assert_int_equal(ops->device_count(harness.transport), 1);
	assert_int_equal(ops->device_properties(harness.transport, 0, &properties), 0);
	assert_string_equal(properties.name, "fake0:2");
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	assert_int_equal(fake_verbs_last_path(0).port_num, 2);
	verbs_link_harness_close(&harness);
}

/* ---- what is asked of a device ---- */

static void the_traffic_class_and_level_that_were_asked_for_are_set(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	harness.params.traffic_class = 104;
	harness.params.service_level = 3;
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	assert_int_equal(fake_verbs_last_path(0).grh.traffic_class, 104);
	assert_int_equal(fake_verbs_last_path(0).sl, 3);
	assert_int_equal(fake_verbs_last_path(0).is_global, 1);
	verbs_link_harness_close(&harness);
}

/* NCCL's communicator wants `wanted`; what both ends have then, the last that was connected being the sender's. */
static void connect_with_class(int set, int receivers, int wanted, const int *class_and_level)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	const struct verbs_connection *receiver;
	struct verbs_link_harness harness;

	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	((struct verbs_transport *)harness.transport)->cards.fabric.receivers_class = receivers;
	harness.params.traffic_class = set;
	harness.link.ops = ops;
	assert_int_equal(ops->listen(harness.transport, 0, harness.link.handle, &harness.link.listener), 0);
	while (!harness.link.sender || !harness.link.receiver) {
		if (!harness.link.sender)
			assert_int_equal(
				ops->connect(harness.transport, 0, wanted, harness.link.handle, &harness.link.sender),
				0);
		if (!harness.link.receiver)
			assert_int_equal(ops->accept(harness.link.listener, &harness.link.receiver), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(fake_verbs_last_path(0).grh.traffic_class, class_and_level[0]);
	assert_int_equal(fake_verbs_last_path(0).sl, class_and_level[1]);
	receiver = (const struct verbs_connection *)harness.link.receiver;
	assert_int_equal(receiver->traffic_class, receivers >= 0 ? receivers : class_and_level[0]);
	assert_int_equal(receiver->service_level, class_and_level[1]);
	verbs_link_harness_close(&harness);
}

/* What the user has set counts before the communicator's, of which the level has four bits; the sender's is the receiver's. */
static void both_ends_have_the_class_and_level_of_the_sender(void **state)
{
	(void)state;
	connect_with_class(-1, -1, -1, (const int[]){ 0, 0 });
	connect_with_class(-1, -1, 33, (const int[]){ 33, 1 });
	connect_with_class(104, -1, 33, (const int[]){ 104, 1 });
	connect_with_class(0, -1, 33, (const int[]){ 0, 1 });
	connect_with_class(104, 7, -1, (const int[]){ 104, 0 });
}

/* The standard lets each try take four times as long as it is asked to. */
static void a_device_gives_up_within_half_of_the_time_out(void **state)
{
	static const uint64_t timeouts_ns[] = { NS_PER_S / 10, NS_PER_S / 4, NS_PER_S, 10 * NS_PER_S, 3600 * NS_PER_S };

	(void)state;
	for (size_t i = 0; i < sizeof(timeouts_ns) / sizeof(timeouts_ns[0]); i++) {
		const struct verbs_api *api = fake_verbs_start(&(struct fake_verbs_options){ .devices = 1 });
		const struct verbs_pair_options options = { .timeout_ns = timeouts_ns[i] };
		struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
		struct ibv_device **list;
		struct verbs_port port = { .number = 1, .ethernet = true, .mtu = IBV_MTU_1024 };
		struct verbs_wire_queue to = { .number = 1 };
		struct verbs_wire_rail at = { .mtu = IBV_MTU_4096 };
		struct ibv_context *context;
		struct ibv_qp_attr ready;
		struct ibv_pd *pd;
		struct ibv_qp *qp;
		int count;

		list = api->get_device_list(&count);
		context = api->open_device(list[0]);
		api->free_device_list(list);
		pd = api->alloc_pd(context);
		attr.send_cq = attr.recv_cq = api->create_cq(context, 4, NULL, NULL, 0);
		qp = api->create_qp(pd, &attr);
		assert_int_equal(verbs_pair_init(api, &port, qp, 0), 0);
		assert_int_equal(verbs_pair_connect(api, &port, qp, 0, &to, &at, &options), 0);
		ready = fake_verbs_last_ready(0);
		assert_true((UINT64_C(4096) << ready.timeout) * (ready.retry_cnt + 1U) * 4 <= timeouts_ns[i] / 2);
		assert_true((UINT64_C(4096) << ready.timeout) * (ready.retry_cnt + 1U) * 16 > timeouts_ns[i] / 2 ||
			    UINT64_C(4096) << ready.timeout > NS_PER_S); /* and not without need */
		assert_in_range(ready.retry_cnt, 1, 6);
		assert_in_range(ready.rnr_retry, 1, 6);
		api->destroy_qp(qp);
		api->destroy_cq(attr.send_cq);
		api->dealloc_pd(pd);
		api->close_device(context);
		assert_int_equal(fake_verbs_stop(), 0);
	}
}

static void ordering_is_relaxed_where_the_library_knows_it(void **state)
{
	uint8_t *data = aligned_alloc(4096, 8192);

	(void)state;
	assert_non_null(data);
	for (unsigned old = 0; old < 2; old++) {
		void *registration = NULL;
		struct verbs_link_harness harness;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .no_iova2 = old }, 1,
					false);
		assert_int_equal(
			ops->memory_register(harness.link.receiver, data, 8192, TRANSPORT_MEMORY_HOST, &registration),
			0);
		assert_int_equal(fake_verbs_access(data) & IBV_ACCESS_RELAXED_ORDERING,
				 old ? 0 : IBV_ACCESS_RELAXED_ORDERING);
		assert_int_equal(fake_verbs_access(data) & IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_WRITE);
		verbs_link_harness_close(&harness); /* also: an old library was not asked for it */
	}
	free(data);
}

/* A peer's device that has no receive, as often as it was asked: the queue is lost, no byte is. */
static void a_queue_that_finds_no_receive_is_built_anew(void **state)
{
	struct fake_verbs_counts counts;

	(void)state;
	for (unsigned qps = 1; qps < 3; qps++) {
		struct verbs_link_harness harness;
		struct verbs_run run;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, qps, false);
		verbs_run_begin(&run, &harness, runtime_seed());
		some_steps(&run);
		fake_verbs_lose(0, FAKE_VERBS_NO_RECEIVE);
		finish(&run);
		fake_verbs_counts(&counts);
		assert_true(counts.failed_queues >= 2); /* at both ends */
		verbs_run_end(&run);
		verbs_link_harness_close(&harness);
	}
}

/* The other end cannot build its queue, again and again: each time the wait is longer, and the other queue goes on. */
static void a_queue_that_cannot_be_built_is_tried_less_and_less_often(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS), wait_ns = 0, longest_ns = 0;
	struct verbs_connection *connection;
	uint32_t epoch = 0;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	connection = (struct verbs_connection *)harness.link.sender;
	fake_verbs_limit_queues(3); /* both have one, and the sender's new one */
	fake_verbs_lose(0, FAKE_VERBS_ARRIVES_NOT);
	for (unsigned i = 0; epoch < 4; i++) {
		assert_int_equal(link_exchange(&harness.link, 1000, i), 0);
		pthread_mutex_lock(&connection->lock);
		for (unsigned k = 0; k < 2; k++) {
			const struct verbs_queue *queue = &connection->queues[k];

			if (queue->state != VERBS_QUEUE_RESTING || queue->epoch == epoch)
				continue;
			epoch = queue->epoch;
			wait_ns = queue->build_at_ns - queue->rested_ns;
		}
		pthread_mutex_unlock(&connection->lock);
		longest_ns = wait_ns > longest_ns ? wait_ns : longest_ns;
		assert_false(runtime_past(deadline_ns));
	}
	assert_true(longest_ns >= 8 * NS_PER_S / 10 && longest_ns <= 5 * NS_PER_S);
	fake_verbs_limit_queues(0);
	for (unsigned i = 0; connection->live_count < 2; i++) {
		assert_int_equal(link_exchange(&harness.link, 1000, i), 0);
		assert_false(runtime_past(deadline_ns));
	}
	verbs_link_harness_close(&harness);
}

/* ---- what is a connection's own ---- */

/* The pages that are registered hold nothing else: a peer can write there, and a forked child may lack them. */
static void the_registered_memory_of_a_connection_is_its_own(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	for (unsigned end = 0; end < 2; end++) {
		const struct verbs_connection *connection =
			(const struct verbs_connection *)(end ? harness.link.receiver : harness.link.sender);

		assert_int_equal(connection->block_bytes % (size_t)sysconf(_SC_PAGESIZE), 0);
		for (unsigned i = 0; i < connection->rail_count; i++) {
			assert_int_equal(connection->rails[i].block->begin, (uintptr_t)connection->block);
			assert_int_equal(connection->rails[i].block->end,
					 (uintptr_t)connection->block + connection->block_bytes);
		}
	}
	verbs_link_harness_close(&harness);
}

/* A device gives its queues more inline than they ask for; descriptors are no longer for that. */
static void a_device_that_writes_much_of_itself_will_do(void **state)
{
	static const size_t sizes[] = { 100, 188, 189, 480, 481, 700, 950 };
	static uint8_t from[1000], to[1000];
	void *out = NULL, *in = NULL, *data = to;
	struct verbs_link_harness harness;
	const int tag = 3;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .gives_inline = 1000 }, 1, false);
	assert_int_equal(ops->memory_register(harness.link.sender, from, sizeof(from), TRANSPORT_MEMORY_HOST, &out), 0);
	assert_int_equal(ops->memory_register(harness.link.receiver, to, sizeof(to), TRANSPORT_MEMORY_HOST, &in), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct transport_request *request = NULL;
		size_t bytes = sizes[i];

		pattern_fill(from, bytes, i);
		assert_int_equal(ops->send(harness.link.sender, from, bytes, tag, out, &request), 0);
		assert_non_null(request);
		assert_int_equal(link_finish(ops, request, NULL), 0);
		assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &in, &request), 0);
		assert_non_null(request);
		assert_int_equal(link_finish(ops, request, NULL), 0);
		assert_memory_equal(from, to, bytes);
	}
	verbs_link_harness_close(&harness);
}

/* ---- what is said ---- */

static void too_little_locked_memory_is_said_with_the_remedy(void **state)
{
	uint8_t *data = calloc(1, 10000);
	struct rlimit limit, low;
	void *registration = NULL;
	struct verbs_link_harness harness;

	(void)state;
	assert_non_null(data);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	low = limit;
	low.rlim_cur = 64 << 10;
	if (limit.rlim_max < low.rlim_cur) {
		print_message("skipped: this process may not lock 64 KiB\n");
		skip();
	}
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .most_regions = 2 }, 1, false);
	log_lines_start("cannot register ");
	for (unsigned i = 0; i < 2; i++) /* the second time nothing is said */
		assert_int_equal(
			ops->memory_register(harness.link.sender, data, 10000, TRANSPORT_MEMORY_HOST, &registration),
			0);
	log_set_sink(NULL);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_non_null(strstr(log_lines()->text, "RDMA device fake0 cannot register "));
	assert_non_null(
		strstr(log_lines()->text, "This process may lock 64 KiB of memory: raise that (ulimit -l unlimited)"));
	assert_non_null(
		strstr(log_lines()->text, "messages in memory that RDMA device fake0 does not register are copied"));
	assert_int_equal(log_lines()->found, 1);
	verbs_link_harness_close(&harness);
	free(data);
}

/* ---- forked children: they have copies of all descriptors, and none of the threads ---- */

static void a_child_amid_traffic_breaks_nothing(void **state)
{
	enum { CHILDREN = 4 };
	pid_t children[CHILDREN];
	struct verbs_link_harness harness;
	struct verbs_run run;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2, .lazy = true }, 1, true);
	verbs_run_begin(&run, &harness, runtime_seed());
	for (unsigned i = 0; i < CHILDREN; i++) {
		some_steps(&run);
		children[i] = peer_fork_idle();
		assert_true(children[i] > 0);
		if (i == CHILDREN / 2)
			fake_verbs_lose(0, FAKE_VERBS_ARRIVES_HALF);
	}
	finish(&run);
	for (unsigned i = 0; i < CHILDREN; i++)
		peer_end_idle(children[i]);
	verbs_run_end(&run);
	verbs_link_harness_close(&harness);
}

/* The child still holds the sockets by which the peer's life is seen. */
static void an_end_that_closes_is_missed_though_a_child_lives(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request = NULL;
	void *registration = NULL;
	static uint8_t to[100000];
	size_t bytes = sizeof(to);
	struct verbs_link_harness harness;
	void *data = to;
	int tag = 1, r;
	pid_t child;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	assert_int_equal(link_exchange(&harness.link, 1000, 1), 0);
	child = peer_fork_idle();
	assert_true(child > 0);
	assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &registration, &request), 0);
	assert_non_null(request);
	ops->close_connection(harness.link.sender);
	harness.link.sender = NULL;
	do {
		bool done;

		r = ops->test(request, &done, NULL);
		assert_false(runtime_past(deadline_ns));
	} while (r == 0);
	assert_int_equal(r, -EREMOTEIO);
	peer_end_idle(child);
	verbs_link_harness_close(&harness);
}

/* What the control connection knows, and which port is down. */
static void the_line_of_a_lost_connection_says_what_is_known(void **state)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *request = NULL;
	struct verbs_link_harness harness;
	struct tcp_connection *control;
	void *registration = NULL;
	static uint8_t to[1000];
	size_t bytes = sizeof(to);
	void *data = to;
	int tag = 1, r;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	log_lines_start(NULL);
	assert_int_equal(link_exchange(&harness.link, 1000, 1), 0);
	assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &registration, &request), 0);
	fake_verbs_port(1, false);
	control = (struct tcp_connection *)((struct verbs_connection *)harness.link.receiver)->control.in;
	pthread_mutex_lock(&control->lock);
	tcp_connection_fail(control, -EREMOTEIO, "nothing was heard of it for 29.4 s (TRIBUTARY_TIMEOUT)");
	pthread_mutex_unlock(&control->lock);
	do {
		bool done;

		r = ops->test(request, &done, NULL);
		assert_false(runtime_past(deadline_ns));
	} while (r == 0);
	assert_int_equal(r, -EREMOTEIO);
	assert_non_null(strstr(log_lines()->text, "is lost: nothing was heard of it for 29.4 s (TRIBUTARY_TIMEOUT); "
						  "port fake1 is down"));
	verbs_link_harness_close(&harness);
	log_set_sink(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_card_that_fails_leaves_its_traffic_to_the_other),
		cmocka_unit_test(without_a_card_there_is_an_error_at_once),
		cmocka_unit_test(a_card_that_fails_ends_who_receives_into_memory_of_gpus),
		cmocka_unit_test(a_port_that_comes_back_carries_traffic_again),
		cmocka_unit_test(a_slower_rail_gets_fewer),
		cmocka_unit_test(a_card_with_two_ports_is_two_devices),
		cmocka_unit_test(a_port_is_taken_by_its_number),
		cmocka_unit_test(the_traffic_class_and_level_that_were_asked_for_are_set),
		cmocka_unit_test(both_ends_have_the_class_and_level_of_the_sender),
		cmocka_unit_test(a_device_gives_up_within_half_of_the_time_out),
		cmocka_unit_test(ordering_is_relaxed_where_the_library_knows_it),
		cmocka_unit_test(a_queue_that_finds_no_receive_is_built_anew),
		cmocka_unit_test(a_queue_that_cannot_be_built_is_tried_less_and_less_often),
		cmocka_unit_test(the_registered_memory_of_a_connection_is_its_own),
		cmocka_unit_test(a_device_that_writes_much_of_itself_will_do),
		cmocka_unit_test(too_little_locked_memory_is_said_with_the_remedy),
		cmocka_unit_test(a_child_amid_traffic_breaks_nothing),
		cmocka_unit_test(an_end_that_closes_is_missed_though_a_child_lives),
		cmocka_unit_test(the_line_of_a_lost_connection_says_what_is_known),
	};

	runtime_start("verbs_card_test", 200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
