/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call of the library fails once: a whole life (open, connect, traffic, close) is run again and again, with the
 * first, second, third … call failing, until none is left to fail; in host memory and into memory of GPUs. Each run ends, moves
 * what it should or has an error, and leaves nothing behind.
 */
#include "base/clock.h"
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/fake_verbs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CALLS_MOST = 1000000, ALL_UP_TO = 700, RUN_MS = 60000 };

static const struct traffic_shape mixture = {
	.name = "mixture", .messages = 10, .max_bytes = 300000, .group_max = 3, .window = 4, .shuffled = true
};

enum life_kind { LIFE_HOST, LIFE_WATCHED, LIFE_GPU };

static int timed_out(uint64_t deadline_ns)
{
	return runtime_past(deadline_ns) ? -ETIMEDOUT : 0;
}

/* A mixture of messages in host memory; watched: moved as those do who sleep over the connections' events. */
static int exchange(struct link *link, uint64_t seed, bool watched)
{
	uint64_t deadline_ns = runtime_deadline_ns(RUN_MS);
	struct traffic_end *ends = calloc(2, sizeof(*ends));
	int r = 0, epoll_fd = watched ? epoll_create1(EPOLL_CLOEXEC) : -1;
	struct traffic_plan plan;
	unsigned done = 0;

	assert_non_null(ends);
	assert_int_equal(traffic_plan_init(&mixture, seed, TRANSPORT_MAX_RECVS, &plan), 0);
	traffic_end_init(&ends[0], link->ops, link->sender, &plan, true);
	traffic_end_init(&ends[1], link->ops, link->receiver, &plan, false);
	if (watched)
		r = link->ops->watch(link->sender, epoll_fd, 1);
	if (watched && r == 0)
		r = link->ops->watch(link->receiver, epoll_fd, 2);
	for (unsigned i = 0; r >= 0 && done != 3; i++) {
		enum transport_next next;

		if (watched)
			r = link->ops->progress(i % 2 ? link->receiver : link->sender, &next);
		if (r >= 0 && !(done & 1U << i % 2))
			r = traffic_step(&ends[i % 2]);
		done |= r > 0 ? 1U << i % 2 : 0;
		if (r >= 0)
			r = timed_out(deadline_ns);
	}
	if (watched) { /* before its epoll set is closed */
		link->ops->close_connection(link->sender);
		link->ops->close_connection(link->receiver);
		link->sender = link->receiver = NULL;
		close(epoll_fd);
	}
	traffic_end_fini(&ends[0]);
	traffic_end_fini(&ends[1]);
	traffic_plan_fini(&plan);
	free(ends);
	return r < 0 ? r : 0;
}

static int end_of(const struct transport_ops *ops, struct transport_request *request, uint64_t deadline_ns)
{
	bool done = !request;
	int r = 0;

	while (!done && r == 0) {
		r = ops->test(request, &done, NULL);
		if (r == 0)
			r = timed_out(deadline_ns);
	}
	return r;
}

/* One message of the host's into a GPU's memory, and the flush after which the GPU sees it. */
static int into_gpu(const struct link *link, const struct fake_verbs_gpu *gpu, void *registration, uint8_t *from,
		    size_t bytes)
{
	uint64_t deadline_ns = runtime_deadline_ns(RUN_MS);
	struct transport_request *send = NULL, *receive = NULL, *flush = NULL;
	const struct transport_ops *ops = link->ops;
	void *to = gpu->address;
	bool sent = false, received = false;
	int tag = 7, r = 0;

	pattern_fill(from, bytes, bytes);
	while (r == 0 && !(sent && received)) {
		if (!receive)
			r = ops->receive(link->receiver, 1, &to, &bytes, &tag, &registration, &receive);
		if (r == 0 && !send)
			r = ops->send(link->sender, from, bytes, tag, NULL, &send);
		if (r == 0 && send && !sent)
			r = ops->test(send, &sent, NULL);
		if (r == 0 && receive && !received)
			r = ops->test(receive, &received, NULL);
		if (r == 0)
			r = timed_out(deadline_ns);
	}
	if (r == 0)
		r = ops->flush(link->receiver, 1, &to, &bytes, &registration, &flush);
	if (r == 0)
		r = end_of(ops, flush, deadline_ns);
	return r == 0 && pattern_wrong_at(gpu->view, bytes, bytes) != SIZE_MAX ? -EBADMSG : r;
}

static int fill_gpu(const struct link *link)
{
	static const size_t sizes[] = { 100, 9000, 200000, 40, 70000 };
	struct fake_verbs_gpu gpu = fake_verbs_gpu_new(200000);
	uint8_t *from = malloc(200000);
	void *registration = NULL;
	int r;

	assert_non_null(from);
	r = link->ops->memory_register_dmabuf(link->receiver, gpu.address, gpu.bytes, TRANSPORT_MEMORY_CUDA, 0, gpu.fd,
					      &registration);
	for (size_t i = 0; r == 0 && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		r = into_gpu(link, &gpu, registration, from, sizes[i]);
	link->ops->close_connection(link->receiver); /* what it may still write there ends with it */
	((struct link *)link)->receiver = NULL;
	free(from);
	fake_verbs_gpu_free(&gpu);
	return r;
}

/* 0, or an error; -ETIMEDOUT and -EBADMSG are what must not be. */
static int life(const struct params *params, uint64_t seed, enum life_kind kind)
{
	struct transport *transport;
	struct link link = { 0 };
	int r;

	r = transport_verbs.open(params, &transport);
	if (r == 0) {
		fake_verbs_port(0, true); /* an event to be taken */
		r = transport_verbs.device_count(transport) > 0 ? link_open(&transport_verbs, transport, 0, &link)
								: -ENODEV;
		if (r == 0)
			r = kind == LIFE_GPU ? fill_gpu(&link) : exchange(&link, seed, kind == LIFE_WATCHED);
		link_close(&link);
		transport_verbs.close(transport);
	}
	return r;
}

/* First all of them, then ever fewer. */
static uint64_t step_after(uint64_t nth, enum fake_verbs_kind kind)
{
	if (kind == FAKE_VERBS_POLL)
		return nth < 20 ? 1 : nth / (runtime_long() ? 20 : 3);
	return nth < ALL_UP_TO || runtime_long() ? 1 : nth / 20;
}

static void each_fails_once(enum fake_verbs_kind kind, enum life_kind of)
{
	const struct fake_verbs_options options = { .devices = 1, .seed = runtime_seed(), .dmabuf = of == LIFE_GPU };
	unsigned errors = 0, recovered = 0, fds = 0, misses = 0;
	uint64_t nth = 1, step = 1;
	struct params params;
	bool met = true;

	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	params.timeout_ns = 2 * NS_PER_S;
	params.gid_index = 1;
	params.qps = 2;
	for (; met && nth < CALLS_MOST; nth += step) {
		int r;

		step = step_after(nth, kind);
		verbs_transport_use(fake_verbs_start(&options), NULL);
		fake_verbs_fail(kind, nth);
		r = life(&params, runtime_seed() + nth, of);
		met = fake_verbs_failed();
		if (fake_verbs_stop())
			fail_msg("call %u fails: objects are left", (unsigned)nth);
		if (r == -ETIMEDOUT || r == -EBADMSG)
			fail_msg("call %u fails: %d", (unsigned)nth, r);
		/* The time-out is short: a busy machine may miss it. */
		if (!met && r < 0 && misses++ < 3) {
			met = true;
			step = 0;
		} else if (!met && r < 0) {
			fail_msg("no call fails: %d", r);
		}
		if (nth == 1)
			fds = runtime_fd_count();
		if (runtime_fd_count() != fds)
			fail_msg("call %u fails: %u descriptors before, %u after", (unsigned)nth, fds,
				 runtime_fd_count());
		errors += r < 0;
		recovered += met && r == 0;
	}
	verbs_transport_use(NULL, NULL);
	print_message("%u errors, %u recovered, up to call %u\n", errors, recovered, (unsigned)nth);
	assert_false(met);
	/* A queue of completions that cannot be read is the end; an event that cannot is taken later. */
	if (kind != FAKE_VERBS_EVENT)
		assert_true(errors > 0);
	/* Without watching, a life may be over before anybody has looked for an event. */
	if (kind == FAKE_VERBS_CALL || of == LIFE_WATCHED)
		assert_true(recovered > 0);
}

static void every_call_may_fail(void **state)
{
	(void)state;
	each_fails_once(FAKE_VERBS_CALL, LIFE_HOST);
}

/* Those of the loops, the flushes and DMA-BUFs among them. */
static void every_call_for_memory_of_gpus_may_fail(void **state)
{
	(void)state;
	each_fails_once(FAKE_VERBS_CALL, LIFE_GPU);
}

static void every_look_at_completions_may_fail(void **state)
{
	(void)state;
	each_fails_once(FAKE_VERBS_POLL, LIFE_HOST);
	each_fails_once(FAKE_VERBS_POLL, LIFE_GPU);
}

static void every_look_at_an_event_may_fail(void **state)
{
	(void)state;
	each_fails_once(FAKE_VERBS_EVENT, LIFE_HOST);
	each_fails_once(FAKE_VERBS_EVENT, LIFE_WATCHED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(every_call_for_memory_of_gpus_may_fail),
		cmocka_unit_test(every_look_at_completions_may_fail),
		cmocka_unit_test(every_look_at_an_event_may_fail),
	};

	runtime_start("verbs_calls_test", 400);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
