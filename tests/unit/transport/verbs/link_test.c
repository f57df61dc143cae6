/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections over the fake: what goes over the wire, and what they do without what a device may lack. The contract itself is
 * in tests/conformance/transports_test.c.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/parallel.h"

static const struct verbs_connection *sender_of(const struct verbs_link_harness *harness)
{
	return (const struct verbs_connection *)harness->link.sender;
}

/* ---- what goes over the wire ---- */

/* One message of registered memory into a receive that is there first. */
static void exchange_registered(struct verbs_link_harness *harness, uint8_t *from, uint8_t *to, size_t bytes)
{
	const struct transport_ops *ops = &transport_verbs;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	void *registration = NULL, *out = NULL, *data = to;
	int tag = 5;

	assert_int_equal(ops->memory_register(harness->link.receiver, to, bytes, TRANSPORT_MEMORY_HOST, &registration),
			 0);
	assert_int_equal(ops->memory_register(harness->link.sender, from, bytes, TRANSPORT_MEMORY_HOST, &out), 0);
	assert_int_equal(ops->receive(harness->link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	assert_non_null(receive);
	while (!verbs_link_harness_sender_has_offers(harness)) {
		enum transport_next next;

		assert_int_equal(ops->progress(harness->link.sender, &next), 0);
		assert_int_equal(ops->progress(harness->link.receiver, &next), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(ops->send(harness->link.sender, from, bytes, tag, out, &send), 0);
	assert_non_null(send);
	while (send || receive) {
		bool done = false;

		if (send)
			assert_int_equal(ops->test(send, &done, NULL), 0);
		if (done)
			send = NULL;
		done = false;
		if (receive)
			assert_int_equal(ops->test(receive, &done, NULL), 0);
		if (done)
			receive = NULL;
		assert_false(runtime_past(deadline_ns));
	}
	assert_memory_equal(from, to, bytes);
	assert_int_equal(ops->memory_deregister(harness->link.receiver, registration), 0);
	assert_int_equal(ops->memory_deregister(harness->link.sender, out), 0);
}

/* Few bytes beside the payload, no copy, no receive missing; `more` requests beside two for each segment. */
static void count_costs(bool pace, unsigned more)
{
	static const size_t sizes[] = { 64 << 10, 1 << 20, 3 << 20 };
	uint8_t first[64], first_to[64] = { 0 };
	struct verbs_link_harness harness;
	static uint64_t now_ns;

	verbs_link_harness_open_paced(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false, pace);
	/* Time stands still: credit is given by rates, in smaller pieces to who is slow on a busy machine. */
	now_ns = clock_now_ns();
	clock_set_fake(&now_ns);
	/* Not counted: on a busy machine a heartbeat may be due since the connection was made. */
	pattern_fill(first, sizeof(first), 0);
	exchange_registered(&harness, first, first_to, sizeof(first));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint8_t *from = malloc(sizes[s]), *to = calloc(1, sizes[s]);
		uint64_t segments = (sizes[s] + harness.params.segment_bytes - 1) / harness.params.segment_bytes;
		uint64_t copied = atomic_load(&copy_counts.bytes);
		struct fake_verbs_counts before, after;

		pattern_fill(from, sizes[s], s);
		fake_verbs_counts(&before);
		exchange_registered(&harness, from, to, sizes[s]);
		fake_verbs_counts(&after);
		print_message("%zu bytes: %u requests, %u bytes beside the payload\n", sizes[s],
			      (unsigned)(after.requests - before.requests),
			      (unsigned)(after.bytes - before.bytes - sizes[s]));
		assert_true(after.requests - before.requests <= 2 * segments + more);
		assert_true(after.bytes - before.bytes <= sizes[s] + sizes[s] * 3 / 100);
		assert_int_equal(atomic_load(&copy_counts.bytes), copied);
		free(from);
		free(to);
	}
	clock_set_fake(NULL);
	verbs_link_harness_close(&harness);
}

/* After a failure, too. */
static int let_time_pass(void **state)
{
	(void)state;
	clock_set_fake(NULL);
	return 0;
}

/* Both directions together: the receive's announcement, the message's if it is of several segments, and the segments. */
static void a_promised_message_costs_two_requests_a_segment_and_no_copy(void **state)
{
	(void)state;
	count_costs(false, 0);
}

/* With the pace it is announced and granted. */
static void a_paced_message_costs_two_requests_more(void **state)
{
	(void)state;
	count_costs(true, 2);
}

/* What flows one way brings its own credit: no descriptors but those of the receives, however long it goes on. */
static void many_messages_cost_two_requests_each(void **state)
{
	enum { MESSAGES = 400, BYTES = 64 << 10 };
	static const unsigned queues[] = { 1, 3 };
	uint8_t *from = malloc(BYTES), *to = calloc(1, BYTES);

	(void)state;
	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		struct fake_verbs_counts before, after;
		struct verbs_link_harness harness;

		verbs_link_harness_open_paced(&harness, (struct fake_verbs_options){ .devices = 1 }, queues[i], false,
					      false);
		fake_verbs_counts(&before);
		for (unsigned k = 0; k < MESSAGES; k++) {
			pattern_fill(from, BYTES, k);
			exchange_registered(&harness, from, to, BYTES);
		}
		fake_verbs_counts(&after);
		print_message("%u queues: %u requests for %d messages\n", queues[i],
			      (unsigned)(after.requests - before.requests), MESSAGES);
		assert_true(after.requests - before.requests <= 2 * MESSAGES);
		verbs_link_harness_close(&harness);
	}
	free(from);
	free(to);
}

/* ---- what cannot be had ---- */

static void fewer_queues_than_asked_for_will_do(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .most_queues = 5 }, 4, false);
	assert_in_range(sender_of(&harness)->queue_count, 1, 4);
	assert_int_equal(sender_of(&harness)->queue_count,
			 ((const struct verbs_connection *)harness.link.receiver)->queue_count);
	assert_int_equal(link_exchange(&harness.link, 500000, 3), 0);
	verbs_link_harness_close(&harness);
}

static void a_device_with_nothing_inline_and_an_old_library_will_do(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(
		&harness, (struct fake_verbs_options){ .devices = 1, .max_inline = 1, .no_iova2 = true }, 1, false);
	for (size_t bytes = 0; bytes < 5000; bytes = bytes * 3 + 1)
		assert_int_equal(link_exchange(&harness.link, bytes, bytes), 0);
	verbs_link_harness_close(&harness);
}

/*
 * Nothing but the connection's own memory can be registered, at both ends (2), or little more: a message whose memory is not
 * goes in pieces. All of it arrives, also amid failing queues.
 */
static void messages_are_copied_where_memory_cannot_be_registered(void **state)
{
	(void)state;
	for (unsigned regions = 2; regions < 6; regions++) {
		uint64_t deadline_ns = runtime_deadline_ns(30000), harm_ns = runtime_deadline_ns(5);
		uint64_t copied = atomic_load(&copy_counts.bytes);
		uint64_t random = runtime_seed();
		unsigned harms = 6;
		struct verbs_link_harness harness;
		struct verbs_run run;

		verbs_link_harness_open_paced(
			&harness,
			(struct fake_verbs_options){ .devices = 1, .most_regions = regions, .lazy = regions % 2 },
			1 + regions % 2, false, regions & 2);
		verbs_run_begin(&run, &harness, runtime_seed());
		while (run.done != 3) {
			assert_int_equal(verbs_run_step(&run, (unsigned)random_below(&random, 2)), 0);
			if (harms && runtime_past(harm_ns)) {
				verbs_link_harness_lose_one_of_the_first(&random);
				harm_ns = runtime_deadline_ns(5);
				harms--;
			}
			assert_false(runtime_past(deadline_ns));
		}
		assert_true(atomic_load(&copy_counts.bytes) > copied);
		assert_true(fake_verbs_regions() <= regions);
		verbs_run_end(&run);
		verbs_link_harness_close(&harness);
	}
}

static struct transport_request *post(const struct verbs_link_harness *harness, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;

	assert_int_equal(
		transport_verbs.receive(harness->link.receiver, 1, &data, &bytes, &tag, &registration, &request), 0);
	assert_non_null(request);
	return request;
}

/* Messages that wait for their receives, few and short (or all that there is room for), hold up none that is copied. */
static void copied_messages_pass_eager_ones_that_wait(void **state)
{
	enum { LONG = 1 << 20, SHORT = 16, MOST = 200, WAITING_TAG = 2, TAG = 1 };
	const struct transport_ops *ops = &transport_verbs;
	uint8_t *from = malloc(LONG), *to = calloc(1, LONG);

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	for (unsigned i = 0; i < 8; i++) {
		const size_t bytes = i & 1 ? VERBS_WINDOW_BYTES / 4 : SHORT;
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		struct transport_request *request = NULL;
		unsigned sent = 0, most = i & 1 ? MOST : 1;
		enum transport_next next;
		struct verbs_link_harness harness;

		verbs_link_harness_open_paced(
			&harness, (struct fake_verbs_options){ .devices = 1, .most_regions = 2, .lazy = i & 4 }, 1,
			false, i & 2);
		pattern_fill(from, LONG, i);
		do {
			request = NULL;
			assert_int_equal(
				ops->send(harness.link.sender, from + sent, bytes, WAITING_TAG, NULL, &request), 0);
			if (request)
				assert_int_equal(link_finish(ops, request, NULL), 0);
			sent += request != NULL;
		} while (request && sent < most);
		assert_true(sent < MOST);
		while (!verbs_receiver_has_unexpected((struct verbs_connection *)harness.link.receiver)) {
			assert_int_equal(ops->progress(harness.link.receiver, &next), 0);
			assert_false(runtime_past(deadline_ns));
		}
		for (unsigned k = 0; k < 3; k++) {
			struct transport_request *receive;

			memset(to, 0, LONG);
			receive = post(&harness, to, LONG, TAG);
			for (request = NULL; !request;) {
				assert_int_equal(ops->send(harness.link.sender, from, LONG, TAG, NULL, &request), 0);
				assert_false(runtime_past(deadline_ns));
			}
			assert_int_equal(link_finish_both(&transport_verbs, request, receive), 0);
			assert_memory_equal(from, to, LONG);
		}
		for (unsigned k = 0; k < sent; k++) {
			assert_int_equal(
				link_finish_both(&transport_verbs, NULL, post(&harness, to, bytes, WAITING_TAG)), 0);
			assert_memory_equal(from + k, to, bytes);
		}
		verbs_link_harness_close(&harness);
	}
	free(from);
	free(to);
}

static void memory_that_cannot_be_registered_is_no_error(void **state)
{
	uint8_t *data = calloc(1, 10000);
	void *registration = NULL;
	struct verbs_link_harness harness;

	(void)state;
	assert_non_null(data);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1, .most_regions = 2 }, 1, false);
	assert_int_equal(
		transport_verbs.memory_register(harness.link.sender, data, 10000, TRANSPORT_MEMORY_HOST, &registration),
		0);
	assert_non_null(registration);
	assert_int_equal(transport_verbs.memory_deregister(harness.link.sender, registration), 0);
	verbs_link_harness_close(&harness);
	free(data);
}

/* An abort: nothing may be read from it or written to it any more, and both ends hear of it. */
static void memory_that_is_taken_back_ends_its_messages(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	const size_t size = 8 << 20;
	uint8_t *from = calloc(1, size), *to = calloc(1, size);

	(void)state;
	assert_true(from && to);
	for (unsigned side = 0; side < 2; side++) {
		struct transport_request *send = NULL, *receive = NULL;
		void *out = NULL, *in = NULL, *data = to;
		struct verbs_link_harness harness;
		size_t bytes = size;
		bool done;
		int tag = 1, r = 0;

		verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
		assert_int_equal(ops->memory_register(harness.link.sender, from, size, TRANSPORT_MEMORY_HOST, &out), 0);
		assert_int_equal(ops->memory_register(harness.link.receiver, to, size, TRANSPORT_MEMORY_HOST, &in), 0);
		assert_int_equal(ops->receive(harness.link.receiver, 1, &data, &bytes, &tag, &in, &receive), 0);
		while (!verbs_link_harness_sender_has_offers(&harness))
			assert_int_equal(ops->test(receive, &done, NULL), 0);
		assert_int_equal(ops->send(harness.link.sender, from, size, tag, out, &send), 0);
		assert_non_null(send);
		if (side == 0)
			assert_int_equal(ops->memory_deregister(harness.link.sender, out), 0);
		else
			assert_int_equal(ops->memory_deregister(harness.link.receiver, in), 0);
		while (r == 0)
			r = side ? ops->test(receive, &done, NULL) : ops->test(send, &done, NULL);
		assert_int_equal(r, -EINVAL);
		for (r = 0; r == 0;)
			r = side ? ops->test(send, &done, NULL) : ops->test(receive, &done, NULL);
		assert_int_equal(r, -EREMOTEIO);
		verbs_link_harness_close(&harness);
	}
	free(from);
	free(to);
}

/* Memory that stayed registered would be found again for other memory at the same address. */
static void closing_takes_back_what_was_registered(void **state)
{
	uint8_t *data = calloc(1, 10000);
	void *registration = NULL;
	struct verbs_link_harness harness;

	(void)state;
	assert_non_null(data);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	assert_int_equal(
		transport_verbs.memory_register(harness.link.sender, data, 10000, TRANSPORT_MEMORY_HOST, &registration),
		0);
	assert_int_equal(
		transport_verbs.memory_register(harness.link.receiver, data, 100, TRANSPORT_MEMORY_HOST, &registration),
		0);
	assert_true(fake_verbs_regions() > 0);
	link_close(&harness.link);
	assert_int_equal(fake_verbs_regions(), 0);
	verbs_link_harness_close(&harness);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_promised_message_costs_two_requests_a_segment_and_no_copy, let_time_pass),
		cmocka_unit_test_teardown(a_paced_message_costs_two_requests_more, let_time_pass),
		cmocka_unit_test(many_messages_cost_two_requests_each),
		cmocka_unit_test(closing_takes_back_what_was_registered),
		cmocka_unit_test(messages_are_copied_where_memory_cannot_be_registered),
		cmocka_unit_test(copied_messages_pass_eager_ones_that_wait),
		cmocka_unit_test(memory_that_cannot_be_registered_is_no_error),
		cmocka_unit_test(memory_that_is_taken_back_ends_its_messages),
		cmocka_unit_test(fewer_queues_than_asked_for_will_do),
		cmocka_unit_test(a_device_with_nothing_inline_and_an_old_library_will_do),
	};

	runtime_start("verbs_link_test", 200);
	return parallel_run_group_tests(tests, NULL, NULL);
}
