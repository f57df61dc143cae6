/*
 * Connections over the fake: what goes over the wire, and what becomes of traffic when queues, ports and devices fail. The
 * contract itself is in tests/conformance/transports_test.c.
 */
#include "base/clock.h"
#include "base/copy.h"
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/bed.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "support/parallel.h"

static const struct verbs_connection *sender_of(const struct verbs_bed *bed)
{
	return (const struct verbs_connection *)bed->link.sender;
}

static bool sender_has_offers(const struct verbs_bed *bed)
{
	struct verbs_connection *connection = (struct verbs_connection *)bed->link.sender;
	bool has;

	pthread_mutex_lock(&connection->lock);
	has = connection->s.offer_count > 0;
	pthread_mutex_unlock(&connection->lock);
	return has;
}

/* ---- what goes over the wire ---- */

/* One message of registered memory into a receive that is there first. */
static void exchange_registered(struct verbs_bed *bed, uint8_t *from, uint8_t *to, size_t bytes)
{
	const struct transport_ops *ops = &transport_verbs;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	void *registration = NULL, *out = NULL, *data = to;
	int tag = 5;

	assert_int_equal(ops->memory_register(bed->link.receiver, to, bytes, TRANSPORT_MEMORY_HOST, &registration), 0);
	assert_int_equal(ops->memory_register(bed->link.sender, from, bytes, TRANSPORT_MEMORY_HOST, &out), 0);
	assert_int_equal(ops->receive(bed->link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	assert_non_null(receive);
	while (!sender_has_offers(bed)) {
		enum transport_next next;

		assert_int_equal(ops->progress(bed->link.sender, &next), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(ops->send(bed->link.sender, from, bytes, tag, out, &send), 0);
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
	assert_int_equal(ops->memory_deregister(bed->link.receiver, registration), 0);
	assert_int_equal(ops->memory_deregister(bed->link.sender, out), 0);
}

/* Few bytes beside the payload, no copy, no receive missing; `more` requests beside two for each segment. */
static void count_costs(bool pace, unsigned more)
{
	static const size_t sizes[] = { 64 << 10, 1 << 20, 3 << 20 };
	uint8_t first[64], first_to[64] = { 0 };
	struct verbs_bed bed;
	uint64_t now_ns;

	verbs_bed_open_paced(&bed, (struct fake_verbs_options){ .devices = 1 }, 1, false, pace);
	/* Time stands still: credit is given by rates, in smaller pieces to who is slow on a busy machine. */
	now_ns = clock_now_ns();
	clock_set_fake(&now_ns);
	/* Not counted: on a busy machine a heartbeat may be due since the connection was made. */
	pattern_fill(first, sizeof(first), 0);
	exchange_registered(&bed, first, first_to, sizeof(first));
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint8_t *from = malloc(sizes[s]), *to = calloc(1, sizes[s]);
		uint64_t segments = (sizes[s] + bed.params.segment_bytes - 1) / bed.params.segment_bytes;
		uint64_t copied = atomic_load(&copy_counts.bytes);
		struct fake_verbs_counts before, after;

		pattern_fill(from, sizes[s], s);
		fake_verbs_counts(&before);
		exchange_registered(&bed, from, to, sizes[s]);
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
	verbs_bed_close(&bed);
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

/* What flows one way brings its own credit: no words but those of the receives, however long it goes on. */
static void many_messages_cost_two_requests_each(void **state)
{
	enum { MESSAGES = 400, BYTES = 64 << 10 };
	static const unsigned queues[] = { 1, 3 };
	uint8_t *from = malloc(BYTES), *to = calloc(1, BYTES);

	(void)state;
	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		struct fake_verbs_counts before, after;
		struct verbs_bed bed;

		verbs_bed_open_paced(&bed, (struct fake_verbs_options){ .devices = 1 }, queues[i], false, false);
		fake_verbs_counts(&before);
		for (unsigned k = 0; k < MESSAGES; k++) {
			pattern_fill(from, BYTES, k);
			exchange_registered(&bed, from, to, BYTES);
		}
		fake_verbs_counts(&after);
		print_message("%u queues: %u requests for %d messages\n", queues[i],
			      (unsigned)(after.requests - before.requests), MESSAGES);
		assert_true(after.requests - before.requests <= 2 * MESSAGES);
		verbs_bed_close(&bed);
	}
	free(from);
	free(to);
}

/* ---- failing over ---- */

/* Something bad now and then; all of it arrives, once, in order. */
static void survive(unsigned qps, bool join, void (*harm)(struct random *random), unsigned rounds)
{
	enum { HARMS = 12, HARM_MS = 5 };
	uint64_t failed_queues = 0;

	for (unsigned round = 0; round < rounds; round++) {
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
		struct random random;
		struct fake_verbs_counts counts;
		uint64_t harm_ns = runtime_deadline_ns(HARM_MS);
		unsigned harms = 0;
		struct verbs_bed bed;
		struct verbs_run run;

		random_init(&random, runtime_seed() + round);
		verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 2, .lazy = round % 2 }, qps, join);
		verbs_run_begin(&run, &bed, runtime_seed() + round);
		while (run.done != 3) {
			unsigned at = (unsigned)random_below(&random, 2);
			int r = verbs_run_step(&run, at);

			if (r < 0)
				fail_msg("round %u, the %s: %d", round, at ? "receiver" : "sender", r);
			if (harms < HARMS && runtime_past(harm_ns)) {
				harms++;
				harm(&random);
				harm_ns = runtime_deadline_ns(HARM_MS);
			} else if (harms == HARMS && runtime_past(harm_ns)) {
				harms++;
				fake_verbs_port(0, true);
				fake_verbs_port(1, true);
			}
			assert_false(runtime_past(deadline_ns));
		}
		fake_verbs_counts(&counts);
		failed_queues += counts.failed_queues;
		verbs_run_end(&run);
		verbs_bed_close(&bed);
	}
	print_message("%u rounds, %u queues failed\n", rounds, (unsigned)failed_queues);
	assert_true(failed_queues > rounds / 2);
}

static void lose_one(struct random *random)
{
	fake_verbs_lose((unsigned)random_below(random, 2),
			(enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

static void lose_one_of_the_first(struct random *random)
{
	fake_verbs_lose(0, (enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
}

static void break_or_mend_a_path(struct random *random)
{
	fake_verbs_path((unsigned)random_below(random, 2), random_below(random, 2));
}

static void ports_go_down_and_up(struct random *random)
{
	unsigned device = (unsigned)random_below(random, 2);

	fake_verbs_port(device, false);
	fake_verbs_port(1 - device, true);
}

static void a_lone_queue_that_fails_is_built_anew(void **state)
{
	(void)state;
	survive(1, false, lose_one_of_the_first, runtime_long() ? 60 : 12);
}

static void queues_that_fail_leave_their_bytes_to_others(void **state)
{
	(void)state;
	survive(4, false, lose_one_of_the_first, runtime_long() ? 60 : 12);
}

static void two_rails_lose_no_byte(void **state)
{
	(void)state;
	survive(2, true, lose_one, runtime_long() ? 60 : 12);
}

static void a_path_may_come_and_go(void **state)
{
	(void)state;
	survive(1, true, break_or_mend_a_path, runtime_long() ? 50 : 6);
}

static void a_port_that_goes_down_moves_its_traffic(void **state)
{
	(void)state;
	survive(1, true, ports_go_down_and_up, runtime_long() ? 50 : 6);
}

/*
 * The last message has arrived, and the queue fails before its sender hears of that. The receiver has all that it wanted and
 * calls nothing any more; the sender must learn of it all the same.
 */
static void a_peer_that_looks_away_takes_part(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	uint8_t *from = calloc(1, 300000), *to = calloc(1, 300000);
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *send = NULL, *receive = NULL;
	void *data = to, *registration = NULL;
	size_t bytes = 300000;
	bool done = false;
	struct verbs_bed bed;
	int tag = 2;

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	pattern_fill(from, bytes, 6);
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	assert_int_equal(ops->receive(bed.link.receiver, 1, &data, &bytes, &tag, &registration, &receive), 0);
	while (!sender_has_offers(&bed)) {
		enum transport_next next;

		assert_int_equal(ops->progress(bed.link.sender, &next), 0);
		assert_false(runtime_past(deadline_ns));
	}
	fake_verbs_lose(0, FAKE_VERBS_ARRIVES_WHOLE);
	fake_verbs_lose(1, FAKE_VERBS_ARRIVES_WHOLE);
	assert_int_equal(ops->send(bed.link.sender, from, bytes, tag, NULL, &send), 0);
	assert_non_null(send);
	while (!done) {
		assert_int_equal(ops->test(send, &done, NULL), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(link_finish(ops, receive, NULL), 0);
	assert_memory_equal(from, to, bytes);
	verbs_bed_close(&bed);
	free(from);
	free(to);
}

static void both_sides_fail(struct verbs_run *run)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	int r[2] = { 0, 0 };

	for (unsigned i = 0; !r[0] || !r[1]; i++) {
		if (!r[i % 2])
			r[i % 2] = verbs_run_step(run, i % 2);
		if (i % 64 == 0) /* it takes seconds: leave the core to others */
			usleep(100);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r[0], -EREMOTEIO);
	assert_int_equal(r[1], -EREMOTEIO);
}

/* With no path left both ends have their error in bounded time, not before the time-out. */
static void without_any_path_there_is_an_error(void **state)
{
	uint64_t began_ns;
	struct verbs_bed bed;
	struct verbs_run run;

	(void)state;
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 2 }, 2, true);
	verbs_run_begin(&run, &bed, runtime_seed());
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
	fake_verbs_path(0, false);
	fake_verbs_path(1, false);
	began_ns = runtime_now_ns();
	both_sides_fail(&run);
	assert_true(runtime_now_ns() - began_ns >= 2 * NS_PER_S);
	link_close(&bed.link);
	verbs_run_end(&run);
	verbs_bed_close(&bed);
}

/* It stands still for the time-out, then it is built anew. */
static void a_request_that_a_device_forgets_is_sent_again(void **state)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS), began_ns;
	struct verbs_bed bed;
	struct verbs_run run;

	(void)state;
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	verbs_run_begin(&run, &bed, runtime_seed());
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
	assert_int_not_equal(run.done, 3);
	fake_verbs_forget(0);
	began_ns = runtime_now_ns();
	for (unsigned i = 0; run.done != 3; i++) {
		if (i % 64 == 0)
			usleep(100);
		assert_int_equal(verbs_run_step(&run, i % 2), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_true(runtime_now_ns() - began_ns >= 2 * NS_PER_S);
	verbs_run_end(&run);
	verbs_bed_close(&bed);
}

/* Each message loses a queue. Nothing is counted up but what happens with no progress between. */
static void losses_have_no_limit_while_messages_arrive(void **state)
{
	enum { LOSSES = 40 };
	struct fake_verbs_counts counts;
	struct random random;
	struct verbs_bed bed;

	(void)state;
	random_init(&random, runtime_seed());
	for (unsigned qps = 1; qps < 3; qps++) {
		verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1 }, qps, false);
		for (unsigned i = 0; i < LOSSES; i++) {
			lose_one_of_the_first(&random);
			assert_int_equal(link_exchange(&bed.link, 1000 + (size_t)random_below(&random, 300000), i), 0);
		}
		for (unsigned i = 0; i < LOSSES; i++) {
			fake_verbs_lose(0, FAKE_VERBS_REFUSED);
			assert_int_equal(link_exchange(&bed.link, 1000 + (size_t)random_below(&random, 300000), i), 0);
		}
		fake_verbs_counts(&counts);
		assert_true(counts.failed_queues >= 2 * LOSSES);
		verbs_bed_close(&bed);
	}
}

/* Queues can be built, and carry short writes; but nothing gets on, whichever of several queues is live. */
static void a_path_for_short_writes_alone_is_an_error(void **state)
{
	(void)state;
	for (unsigned qps = 1; qps < 4; qps += 2) {
		struct verbs_bed bed;
		struct verbs_run run;

		verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1 }, qps, false);
		fake_verbs_lose_always(0, 2000, FAKE_VERBS_ARRIVES_NOT);
		verbs_run_begin(&run, &bed, runtime_seed());
		both_sides_fail(&run);
		link_close(&bed.link);
		verbs_run_end(&run);
		verbs_bed_close(&bed);
	}
}

/* Others arrive all the time, which must not hide it. */
static void a_message_that_is_always_refused_is_an_error(void **state)
{
	const struct transport_ops *ops = &transport_verbs;
	const size_t bytes = 100000;
	uint8_t *data = calloc(2, bytes);
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *refused[2] = { 0 }, *others[2] = { 0 };
	uint8_t small[2][100] = { { 0 } };
	unsigned arrived = 0;
	struct verbs_bed bed;
	int r = 0;

	(void)state;
	assert_non_null(data);
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	fake_verbs_lose_always(0, 2000, FAKE_VERBS_REFUSED);
	while (r == 0) {
		void *to[2] = { data, small[0] }, *registration = NULL;
		size_t rooms[2] = { bytes, sizeof(small[0]) };
		int tags[2] = { 1, 2 };
		bool done[2] = { false, false };

		assert_false(runtime_past(deadline_ns));
		if (!refused[0])
			r = ops->receive(bed.link.receiver, 1, &to[0], &rooms[0], &tags[0], &registration, &refused[0]);
		if (r == 0 && refused[0] && !refused[1])
			r = ops->send(bed.link.sender, data + bytes, bytes, tags[0], NULL, &refused[1]);
		if (r == 0 && !others[0])
			r = ops->receive(bed.link.receiver, 1, &to[1], &rooms[1], &tags[1], &registration, &others[0]);
		if (r == 0 && !others[1])
			r = ops->send(bed.link.sender, small[1], sizeof(small[1]), tags[1], NULL, &others[1]);
		for (unsigned i = 0; i < 2 && r == 0; i++) {
			if (others[i])
				r = ops->test(others[i], &done[i], NULL);
			if (done[i])
				others[i] = NULL;
		}
		arrived += done[0];
	}
	assert_int_equal(r, -EREMOTEIO);
	assert_true(arrived > 0);
	verbs_bed_close(&bed);
	free(data);
}

/* Some refused requests are survived, like all that a queue may meet (above); but not without end. */
static void requests_that_are_always_refused_are_an_error(void **state)
{
	struct verbs_bed bed;
	struct verbs_run run;

	(void)state;
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1 }, 8, false);
	verbs_run_begin(&run, &bed, runtime_seed());
	fake_verbs_lose_always(0, 0, FAKE_VERBS_REFUSED);
	both_sides_fail(&run);
	link_close(&bed.link);
	verbs_run_end(&run);
	verbs_bed_close(&bed);
}

/* ---- what cannot be had ---- */

static void fewer_queues_than_asked_for_will_do(void **state)
{
	struct verbs_bed bed;

	(void)state;
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1, .most_queues = 5 }, 4, false);
	assert_in_range(sender_of(&bed)->queue_count, 1, 4);
	assert_int_equal(sender_of(&bed)->queue_count,
			 ((const struct verbs_connection *)bed.link.receiver)->queue_count);
	assert_int_equal(link_exchange(&bed.link, 500000, 3), 0);
	verbs_bed_close(&bed);
}

static void a_device_with_nothing_inline_and_an_old_library_will_do(void **state)
{
	struct verbs_bed bed;

	(void)state;
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1, .max_inline = 1, .no_iova2 = true }, 1, false);
	for (size_t bytes = 0; bytes < 5000; bytes = bytes * 3 + 1)
		assert_int_equal(link_exchange(&bed.link, bytes, bytes), 0);
	verbs_bed_close(&bed);
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
		struct random random;
		unsigned harms = 6;
		struct verbs_bed bed;
		struct verbs_run run;

		random_init(&random, runtime_seed());
		verbs_bed_open_paced(
			&bed, (struct fake_verbs_options){ .devices = 1, .most_regions = regions, .lazy = regions % 2 },
			1 + regions % 2, false, regions & 2);
		verbs_run_begin(&run, &bed, runtime_seed());
		while (run.done != 3) {
			assert_int_equal(verbs_run_step(&run, (unsigned)random_below(&random, 2)), 0);
			if (harms && runtime_past(harm_ns)) {
				lose_one_of_the_first(&random);
				harm_ns = runtime_deadline_ns(5);
				harms--;
			}
			assert_false(runtime_past(deadline_ns));
		}
		assert_true(atomic_load(&copy_counts.bytes) > copied);
		assert_true(fake_verbs_regions() <= regions);
		verbs_run_end(&run);
		verbs_bed_close(&bed);
	}
}

/* Until both are done. */
static void finish_both(struct transport_request *send, struct transport_request *receive)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	for (bool done; send || receive;) {
		done = false;
		if (send)
			assert_int_equal(transport_verbs.test(send, &done, NULL), 0);
		send = done ? NULL : send;
		done = false;
		if (receive)
			assert_int_equal(transport_verbs.test(receive, &done, NULL), 0);
		receive = done ? NULL : receive;
		assert_false(runtime_past(deadline_ns));
	}
}

static struct transport_request *post(const struct verbs_bed *bed, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;

	assert_int_equal(transport_verbs.receive(bed->link.receiver, 1, &data, &bytes, &tag, &registration, &request),
			 0);
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
		struct verbs_bed bed;

		verbs_bed_open_paced(&bed,
				     (struct fake_verbs_options){ .devices = 1, .most_regions = 2, .lazy = i & 4 }, 1,
				     false, i & 2);
		pattern_fill(from, LONG, i);
		do {
			request = NULL;
			assert_int_equal(ops->send(bed.link.sender, from + sent, bytes, WAITING_TAG, NULL, &request),
					 0);
			if (request)
				assert_int_equal(link_finish(ops, request, NULL), 0);
			sent += request != NULL;
		} while (request && sent < most);
		assert_true(sent < MOST);
		while (!verbs_receiver_has_kept((struct verbs_connection *)bed.link.receiver)) {
			assert_int_equal(ops->progress(bed.link.receiver, &next), 0);
			assert_false(runtime_past(deadline_ns));
		}
		for (unsigned k = 0; k < 3; k++) {
			struct transport_request *receive;

			memset(to, 0, LONG);
			receive = post(&bed, to, LONG, TAG);
			for (request = NULL; !request;) {
				assert_int_equal(ops->send(bed.link.sender, from, LONG, TAG, NULL, &request), 0);
				assert_false(runtime_past(deadline_ns));
			}
			finish_both(request, receive);
			assert_memory_equal(from, to, LONG);
		}
		for (unsigned k = 0; k < sent; k++) {
			finish_both(NULL, post(&bed, to, bytes, WAITING_TAG));
			assert_memory_equal(from + k, to, bytes);
		}
		verbs_bed_close(&bed);
	}
	free(from);
	free(to);
}

static void memory_that_cannot_be_registered_is_no_error(void **state)
{
	uint8_t *data = calloc(1, 10000);
	void *registration = NULL;
	struct verbs_bed bed;

	(void)state;
	assert_non_null(data);
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 1, .most_regions = 2 }, 1, false);
	assert_int_equal(
		transport_verbs.memory_register(bed.link.sender, data, 10000, TRANSPORT_MEMORY_HOST, &registration), 0);
	assert_non_null(registration);
	assert_int_equal(transport_verbs.memory_deregister(bed.link.sender, registration), 0);
	verbs_bed_close(&bed);
	free(data);
}

/* Memory that stayed registered would be found again for other memory at the same address. */
static void closing_takes_back_what_was_registered(void **state)
{
	uint8_t *data = calloc(1, 10000);
	void *registration = NULL;
	struct verbs_bed bed;

	(void)state;
	assert_non_null(data);
	verbs_bed_open(&bed, (struct fake_verbs_options){ .devices = 2 }, 1, true);
	assert_int_equal(
		transport_verbs.memory_register(bed.link.sender, data, 10000, TRANSPORT_MEMORY_HOST, &registration), 0);
	assert_int_equal(
		transport_verbs.memory_register(bed.link.receiver, data, 100, TRANSPORT_MEMORY_HOST, &registration), 0);
	assert_true(fake_verbs_regions() > 0);
	link_close(&bed.link);
	assert_int_equal(fake_verbs_regions(), 0);
	verbs_bed_close(&bed);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_promised_message_costs_two_requests_a_segment_and_no_copy),
		cmocka_unit_test(a_paced_message_costs_two_requests_more),
		cmocka_unit_test(many_messages_cost_two_requests_each),
		cmocka_unit_test(a_lone_queue_that_fails_is_built_anew),
		cmocka_unit_test(queues_that_fail_leave_their_bytes_to_others),
		cmocka_unit_test(two_rails_lose_no_byte),
		cmocka_unit_test(a_path_may_come_and_go),
		cmocka_unit_test(a_port_that_goes_down_moves_its_traffic),
		cmocka_unit_test(a_peer_that_looks_away_takes_part),
		cmocka_unit_test(without_any_path_there_is_an_error),
		cmocka_unit_test(a_request_that_a_device_forgets_is_sent_again),
		cmocka_unit_test(losses_have_no_limit_while_messages_arrive),
		cmocka_unit_test(a_path_for_short_writes_alone_is_an_error),
		cmocka_unit_test(a_message_that_is_always_refused_is_an_error),
		cmocka_unit_test(requests_that_are_always_refused_are_an_error),
		cmocka_unit_test(closing_takes_back_what_was_registered),
		cmocka_unit_test(messages_are_copied_where_memory_cannot_be_registered),
		cmocka_unit_test(copied_messages_pass_eager_ones_that_wait),
		cmocka_unit_test(memory_that_cannot_be_registered_is_no_error),
		cmocka_unit_test(fewer_queues_than_asked_for_will_do),
		cmocka_unit_test(a_device_with_nothing_inline_and_an_old_library_will_do),
	};

	runtime_start("verbs_link_test", 200);
	return parallel_run_group_tests(tests, NULL, NULL);
}
