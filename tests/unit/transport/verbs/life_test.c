/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a connection over the fake when nothing is heard over its control connections any more. */
#include "transport/verbs/life.h"

#include "base/clock.h"
#include "support/runtime.h"
#include "transport/tcp/tcp.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/parallel.h"

enum { LIMIT_MS = 30000, NAP_US = 20000 };

static const struct transport_ops *const ops = &transport_verbs;

/* ---- the rule ---- */

#define FACTS(out, in, rdma, unsettled)                                                              \
	&(struct verbs_life_facts)                                                                   \
	{                                                                                            \
		.timeout_ns = 100, .beat_ns = 10, .out_ns = (out), .in_ns = (in), .rdma_ns = (rdma), \
		.unsettled_ns = (unsettled)                                                          \
	}

static void what_is_heard_of_a_peer_decides(void **state)
{
	(void)state;
	assert_int_equal(verbs_life_result_of(FACTS(33, 33, 1000, 1000)), VERBS_LIFE_FINE);
	assert_int_equal(verbs_life_result_of(FACTS(34, 0, 1000, 0)), VERBS_LIFE_ASK); /* the peer may hear nothing */
	assert_int_equal(verbs_life_result_of(FACTS(0, 34, 1000, 0)), VERBS_LIFE_ASK);
	assert_int_equal(verbs_life_result_of(FACTS(101, 101, 100, 0)), VERBS_LIFE_ASK);
	assert_int_equal(verbs_life_result_of(FACTS(101, 101, 101, 0)), VERBS_LIFE_GONE);
	assert_int_equal(verbs_life_result_of(FACTS(101, 100, 101, 0)), VERBS_LIFE_ASK);
	assert_int_equal(verbs_life_result_of(FACTS(101, 0, 0, 100)), VERBS_LIFE_ASK);
	assert_int_equal(verbs_life_result_of(FACTS(101, 0, 0, 101)), VERBS_LIFE_UNSETTLED);
	assert_int_equal(verbs_life_result_of(FACTS(100, 0, 0, 101)), VERBS_LIFE_ASK);
}

/* ---- connections ---- */

/* Far ends of what their sockets lead to now: nobody reads there, and nothing comes. */
static int darkness[64];
static unsigned dark_count;

static void darken(struct transport_connection *opaque)
{
	struct tcp_connection *control = (struct tcp_connection *)opaque;

	pthread_mutex_lock(&control->lock);
	for (unsigned i = 0; i < control->stream_count; i++) {
		int ends[2];

		if (!control->streams[i].live)
			continue;
		assert_true(dark_count < sizeof(darkness) / sizeof(darkness[0]));
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
		assert_true(dup2(ends[0], control->streams[i].fd) >= 0);
		close(ends[0]);
		darkness[dark_count++] = ends[1];
	}
	pthread_mutex_unlock(&control->lock);
}

/* As if the network between the control connections had gone. */
static void go_dark(struct verbs_link_harness *harness)
{
	struct verbs_connection *ends[] = { (struct verbs_connection *)harness->link.sender,
					    (struct verbs_connection *)harness->link.receiver };

	dark_count = 0;
	for (unsigned i = 0; i < 2; i++) {
		darken(ends[i]->control.out);
		darken(ends[i]->control.in);
	}
	assert_true(dark_count >= 4);
}

static void close_dark(struct verbs_link_harness *harness)
{
	verbs_link_harness_close(harness);
	while (dark_count)
		close(darkness[--dark_count]);
}

static uint64_t control_silent_ns(const struct verbs_link_harness *harness)
{
	return transport_tcp.silent_ns(((struct verbs_connection *)harness->link.sender)->control.in);
}

static void messages_go_on(void **state)
{
	struct verbs_link_harness harness;
	const uint64_t deadline_ns = runtime_deadline_ns(LIMIT_MS);

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	go_dark(&harness);
	while (control_silent_ns(&harness) < 2 * harness.params.timeout_ns) {
		assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
		usleep(NAP_US);
		assert_false(runtime_past(deadline_ns));
	}
	close_dark(&harness);
}

/* Nobody calls, and nothing is sent: the two service threads tell each other. */
static void a_connection_without_traffic_stays(void **state)
{
	struct verbs_link_harness harness;
	const uint64_t deadline_ns = runtime_deadline_ns(LIMIT_MS);

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	go_dark(&harness);
	while (control_silent_ns(&harness) < 2 * harness.params.timeout_ns) {
		usleep(NAP_US);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	close_dark(&harness);
}

/* Its card still takes what is written there. */
static void a_process_that_does_not_answer_is_gone(void **state)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LIMIT_MS);

	(void)state;
	for (unsigned stops = 0; stops < 2; stops++) {
		struct verbs_link_harness harness;
		struct verbs_connection *stopped, *other;
		enum transport_next next;
		uint64_t begin_ns;
		int r = 0;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
		stopped = (struct verbs_connection *)(stops ? harness.link.receiver : harness.link.sender);
		other = (struct verbs_connection *)(stops ? harness.link.sender : harness.link.receiver);
		pthread_mutex_lock(&stopped->lock);
		go_dark(&harness);
		begin_ns = clock_now_ns();
		while (r == 0) {
			r = ops->progress((struct transport_connection *)other, &next);
			usleep(NAP_US);
			assert_false(runtime_past(deadline_ns));
		}
		assert_int_equal(r, -EREMOTEIO);
		assert_non_null(strstr(other->why, "over TCP or RDMA"));
		assert_true(clock_now_ns() - begin_ns > harness.params.timeout_ns / 2);
		pthread_mutex_unlock(&stopped->lock);
		close_dark(&harness);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_heard_of_a_peer_decides),
		cmocka_unit_test(messages_go_on),
		cmocka_unit_test(a_connection_without_traffic_stays),
		cmocka_unit_test(a_process_that_does_not_answer_is_gone),
	};

	runtime_start("verbs_life_test", 120);
	return parallel_run_group_tests(tests, NULL, NULL);
}
