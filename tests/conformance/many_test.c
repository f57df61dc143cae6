/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many at once: connections in one thread, threads, communicators, and rings in which everybody waits for a neighbour.
 * Through the newest table, and where it matters the oldest.
 */
#include "plugin_ops.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/traffic.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONNECTIONS 64
#define THREADS     4

static struct transport *transport_of(int version)
{
	struct transport *transport = NULL;

	plugin_ops_choose(version);
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	return transport;
}

/* ---- 64 connections, one thread ---- */

struct pair {
	struct link link;
	struct traffic_plan plan;
	struct traffic_end sender, receiver;
	int sent, received;
};

static void pairs_run(struct pair *pairs, unsigned count)
{
	uint64_t deadline_ns = runtime_deadline_ns(120000);
	unsigned open = count;

	while (open) {
		open = 0;
		for (unsigned i = 0; i < count; i++) {
			struct pair *pair = &pairs[i];

			if (!pair->sent)
				pair->sent = traffic_step(&pair->sender);
			if (!pair->received)
				pair->received = traffic_step(&pair->receiver);
			assert_true(pair->sent >= 0 && pair->received >= 0);
			open += !pair->sent || !pair->received;
		}
		assert_false(runtime_past(deadline_ns));
	}
}

static void sixty_four_connections_work_at_once(void **state)
{
	static const struct traffic_shape shape = {
		.name = "one of many",
		.messages = 40,
		.max_bytes = 400 * 1024,
		.window = 8,
		.group_max = 4,
	};
	struct pair *pairs = calloc(CONNECTIONS, sizeof(*pairs));
	struct transport *transport;
	unsigned threads = 0;

	(void)state;
	assert_non_null(pairs);
	transport = transport_of(0);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		struct pair *pair = &pairs[i];

		assert_int_equal(link_open(&plugin_ops, transport, 0, &pair->link), 0);
		assert_int_equal(traffic_plan_init(&shape, runtime_seed() + i, 8, &pair->plan), 0);
		traffic_end_init(&pair->sender, &plugin_ops, pair->link.sender, &pair->plan, true);
		traffic_end_init(&pair->receiver, &plugin_ops, pair->link.receiver, &pair->plan, false);
		if (i == 0)
			threads = runtime_thread_count();
	}
	/* The bound on threads is the process's, not the connection's. */
	assert_int_equal(runtime_thread_count(), threads);
	pairs_run(pairs, CONNECTIONS);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		link_close(&pairs[i].link);
		traffic_plan_fini(&pairs[i].plan);
	}
	plugin_ops.close(transport);
	free(pairs);
}

/* ---- threads, each with its own connections ---- */

struct worker {
	pthread_t thread;
	struct transport *transport;
	uint64_t seed;
	int result;
};

static void *work(void *arg)
{
	static const struct traffic_shape shape = {
		.name = "one thread's",
		.messages = 120,
		.max_bytes = 500 * 1024,
		.window = 8,
		.group_max = 8,
		.shuffled = true,
	};
	struct worker *worker = arg;
	struct link link;

	for (unsigned i = 0; i < 3 && worker->result == 0; i++) {
		worker->result = link_open(&plugin_ops, worker->transport, 0, &link);
		if (worker->result == 0)
			worker->result = traffic_between(&shape, worker->seed + i, 8, &plugin_ops, link.sender,
							 link.receiver);
		link_close(&link);
	}
	return NULL;
}

static void threads_with_their_own_connections(void **state)
{
	struct transport *transport = transport_of(*(const int *)*state);
	struct worker workers[THREADS] = { 0 };

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].transport = transport;
		workers[i].seed = runtime_seed() + 100 * i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(workers[i].result, 0);
	plugin_ops.close(transport);
}

/* NCCL's main thread connects and posts nothing; the proxy thread polls. Both ends in different threads. */
struct half {
	pthread_t thread;
	struct traffic_end end;
	int result;
};

static void *run_half(void *arg)
{
	struct half *half = arg;

	half->result = traffic_run(&half->end, 40000);
	return NULL;
}

static void the_two_ends_in_two_threads(void **state)
{
	static const struct traffic_shape shape = {
		.name = "two threads",
		.messages = 400,
		.max_bytes = 1 << 20,
		.window = 16,
		.group_max = 3,
	};
	struct transport *transport = transport_of(*(const int *)*state);
	struct half *halves = calloc(2, sizeof(*halves));
	struct traffic_plan plan;
	struct link link;

	assert_non_null(halves);
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	assert_int_equal(traffic_plan_init(&shape, runtime_seed(), 8, &plan), 0);
	for (unsigned i = 0; i < 2; i++) {
		traffic_end_init(&halves[i].end, &plugin_ops, i ? link.receiver : link.sender, &plan, i == 0);
		assert_int_equal(pthread_create(&halves[i].thread, NULL, run_half, &halves[i]), 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(halves[i].thread, NULL);
		assert_int_equal(halves[i].result, 0);
	}
	link_close(&link);
	traffic_plan_fini(&plan);
	free(halves);
	plugin_ops.close(transport);
}

/* ---- communicators ---- */

static void communicators_do_not_disturb_each_other(void **state)
{
	struct transport *transports[3];
	struct link links[3];

	for (unsigned i = 0; i < 3; i++) {
		transports[i] = transport_of(*(const int *)*state);
		assert_int_equal(link_open(&plugin_ops, transports[i], 0, &links[i]), 0);
	}
	for (unsigned gone = 0; gone < 3; gone++) {
		for (unsigned i = gone; i < 3; i++)
			assert_int_equal(link_exchange(&links[i], 300000, runtime_seed() + i), 0);
		link_close(&links[gone]);
		plugin_ops.close(transports[gone]);
	}
}

/* ---- rings ---- */

struct ring_node {
	struct transport_connection *to_next, *from_previous;
	struct transport_request *send, *receive;
	bool send_posted, receive_posted;
	uint8_t *chunks[2]; /* sent and received, changing places each step */
	unsigned step;
};

struct ring {
	unsigned count, steps;
	size_t chunk_bytes;
	int direction; /* 1 or -1: whom node i sends to */
	struct ring_node *nodes;
	struct link *links; /* links[i] leaves node i */
};

static unsigned ring_at(const struct ring *ring, unsigned node, int distance)
{
	return (unsigned)((int)node + distance * ring->direction + (int)ring->count * 1000) % ring->count;
}

static void ring_open(struct ring *ring, struct transport *transport)
{
	ring->nodes = calloc(ring->count, sizeof(*ring->nodes));
	ring->links = calloc(ring->count, sizeof(*ring->links));
	assert_non_null(ring->nodes);
	assert_non_null(ring->links);
	for (unsigned i = 0; i < ring->count; i++) {
		assert_int_equal(link_open(&plugin_ops, transport, 0, &ring->links[i]), 0);
		ring->nodes[i].to_next = ring->links[i].sender;
		ring->nodes[ring_at(ring, i, 1)].from_previous = ring->links[i].receiver;
		for (unsigned k = 0; k < 2; k++) {
			ring->nodes[i].chunks[k] = malloc(ring->chunk_bytes);
			assert_non_null(ring->nodes[i].chunks[k]);
		}
		pattern_fill(ring->nodes[i].chunks[0], ring->chunk_bytes, i);
	}
}

static void ring_close(struct ring *ring)
{
	for (unsigned i = 0; i < ring->count; i++) {
		link_close(&ring->links[i]);
		free(ring->nodes[i].chunks[0]);
		free(ring->nodes[i].chunks[1]);
	}
	free(ring->nodes);
	free(ring->links);
}

/* Sends what it has, receives what the one before it had, and passes that on in the next step. */
static void ring_node_step(struct ring *ring, unsigned at)
{
	struct ring_node *node = &ring->nodes[at];
	void *from = node->chunks[node->step % 2], *to = node->chunks[(node->step + 1) % 2], *registration = NULL;
	bool done = false;
	int tag = 0;

	if (!node->receive_posted) {
		assert_int_equal(plugin_ops.receive(node->from_previous, 1, &to, &ring->chunk_bytes, &tag,
						    &registration, &node->receive),
				 0);
		node->receive_posted = node->receive != NULL;
	}
	if (!node->send_posted) {
		assert_int_equal(plugin_ops.send(node->to_next, from, ring->chunk_bytes, tag, NULL, &node->send), 0);
		node->send_posted = node->send != NULL;
	}
	if (node->send) {
		assert_int_equal(plugin_ops.test(node->send, &done, NULL), 0);
		node->send = done ? NULL : node->send;
	}
	done = false;
	if (node->receive) {
		assert_int_equal(plugin_ops.test(node->receive, &done, NULL), 0);
		node->receive = done ? NULL : node->receive;
	}
	if (!node->send_posted || !node->receive_posted || node->send || node->receive)
		return;
	node->step++;
	node->send_posted = node->receive_posted = false;
	assert_true(pattern_wrong_at(to, ring->chunk_bytes, ring_at(ring, at, -(int)node->step)) == SIZE_MAX);
}

static void rings_run(struct ring *rings, unsigned count)
{
	uint64_t deadline_ns = runtime_deadline_ns(120000);
	unsigned open = 1;

	while (open) {
		open = 0;
		for (unsigned r = 0; r < count; r++) {
			for (unsigned i = 0; i < rings[r].count; i++) {
				if (rings[r].nodes[i].step == rings[r].steps)
					continue;
				ring_node_step(&rings[r], i);
				open++;
			}
		}
		assert_false(runtime_past(deadline_ns));
	}
}

static void rings_in_both_directions(void **state)
{
	struct transport *transport = transport_of(*(const int *)*state);
	struct ring rings[2] = {
		{ .count = 8, .steps = 20, .chunk_bytes = 700001, .direction = 1 },
		{ .count = 8, .steps = 20, .chunk_bytes = 700001, .direction = -1 },
	};

	for (unsigned r = 0; r < 2; r++)
		ring_open(&rings[r], transport);
	rings_run(rings, 2);
	for (unsigned r = 0; r < 2; r++)
		ring_close(&rings[r]);
	plugin_ops.close(transport);
}

/* In a process of its own, because the budget is read once. */
static int small_budget_role(int control, const char *argument)
{
	struct ring ring = { .count = 64, .steps = 8, .chunk_bytes = 300001, .direction = 1 };
	struct transport *transport;

	(void)control;
	setenv("TRIBUTARY_PACE_BUDGET", argument, 1);
	transport = transport_of(0);
	ring_open(&ring, transport);
	rings_run(&ring, 1);
	ring_close(&ring);
	plugin_ops.close(transport);
	return 0;
}

/* A cycle of 64 connections, each waiting for the one before it, while one segment may be on its way in all. */
static void a_cycle_of_64_completes_under_a_budget_of_one_segment(void **state)
{
	struct peer peer;

	(void)state;
	assert_int_equal(peer_start("small budget", "65536", &peer), 0);
	assert_int_equal(peer_wait(&peer, 150000), 0);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "small budget", small_budget_role }, { NULL, NULL } };
	static int newest = 0, oldest = NETPLUGIN_OLDEST;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_four_connections_work_at_once),
		cmocka_unit_test_prestate(threads_with_their_own_connections, &newest),
		cmocka_unit_test_prestate(threads_with_their_own_connections, &oldest),
		cmocka_unit_test_prestate(the_two_ends_in_two_threads, &newest),
		cmocka_unit_test_prestate(the_two_ends_in_two_threads, &oldest),
		cmocka_unit_test_prestate(communicators_do_not_disturb_each_other, &newest),
		cmocka_unit_test_prestate(communicators_do_not_disturb_each_other, &oldest),
		cmocka_unit_test_prestate(rings_in_both_directions, &newest),
		cmocka_unit_test(a_cycle_of_64_completes_under_a_budget_of_one_segment),
	};

	peer_main(argc, argv, roles, 100);
	runtime_start("many_test", 110);
	runtime_set_streams(0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
