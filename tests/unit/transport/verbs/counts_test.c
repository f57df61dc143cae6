/* SPDX-License-Identifier: Apache-2.0 */
/* Counts that pass 32 bits, receives that wait for very long, and messages that nobody waits for: others go as ever. */
#include "support/runtime.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct transport_request *post(struct verbs_link_harness *harness, bool sends, void *data, size_t bytes, int tag)
{
	struct transport_request *request = NULL;
	void *registration = NULL;
	int r = sends ? transport_verbs.send(harness->link.sender, data, bytes, tag, NULL, &request)
		      : transport_verbs.receive(harness->link.receiver, 1, &data, &bytes, &tag, &registration,
						&request);

	assert_int_equal(r, 0);
	assert_non_null(request);
	return request;
}

static bool is_done(struct transport_request *request)
{
	bool done = false;

	assert_int_equal(transport_verbs.test(request, &done, NULL), 0);
	return done;
}

static void progress_both(struct verbs_link_harness *harness)
{
	enum transport_next next;

	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(transport_verbs.progress(harness->link.sender, &next), 0);
		assert_int_equal(transport_verbs.progress(harness->link.receiver, &next), 0);
	}
}

/* All begin just below 2^32, those of a queue pair with each new one. */
static void every_count_passes_32_bits(void **state)
{
	const struct verbs_connection *sender, *receiver;
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	sender = (const struct verbs_connection *)harness.link.sender;
	receiver = (const struct verbs_connection *)harness.link.receiver;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 300; i++)
			assert_int_equal(link_exchange(&harness.link, i % 2 ? 100 : 70000, i), 0);
		if (round < 2)
			fake_verbs_lose(0, round ? FAKE_VERBS_ARRIVES_WHOLE : FAKE_VERBS_ARRIVES_NOT);
	}
	assert_true(sender->out.written > UINT32_MAX && sender->in.taken > UINT32_MAX);
	assert_true(receiver->out.written > UINT32_MAX && receiver->in.taken > UINT32_MAX);
	assert_true(sender->queues[0].data_sent > UINT32_MAX && receiver->queues[0].data_taken > UINT32_MAX);
	assert_true(sender->queues[0].head > UINT32_MAX || sender->queues[1].head > UINT32_MAX);
	assert_true(sender->s.eager_number < UINT32_MAX / 2);
	verbs_link_harness_close(&harness);
}

/* As if so many descriptors had gone over the receiver's ring meanwhile. */
static void pass_descriptors(struct verbs_link_harness *harness, uint64_t count)
{
	struct verbs_connection *sender = (struct verbs_connection *)harness->link.sender;
	struct verbs_connection *receiver = (struct verbs_connection *)harness->link.receiver;

	receiver->out.written += count;
	receiver->out.posted += count;
	receiver->out.taken += count;
	sender->in.taken += count;
	sender->in.told += count;
}

/*
 * The first receive was told of long ago, for a message that is on its way over another queue pair; what is sent after that
 * belongs to the second one. 2^31 descriptors later the first must not look like one that the sender has not seen.
 */
static void a_receive_that_waits_for_very_long_is_still_the_older_one(void **state)
{
	struct transport_request *first, *second, *send;
	struct verbs_connection *sender;
	char message[] = "the later one", to[2][sizeof(message)];
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 1, false);
	sender = (struct verbs_connection *)harness.link.sender;
	first = post(&harness, false, to[0], sizeof(message), 3);
	progress_both(&harness);
	assert_int_equal(sender->s.offer_count, 1);
	sender->s.offer_count = 0; /* the message for it */
	pass_descriptors(&harness, ((uint64_t)1 << 31) + VERBS_WIRE_DESCRIPTORS);
	send = post(&harness, true, message, sizeof(message), 3);
	while (!is_done(send))
		progress_both(&harness);
	progress_both(&harness);
	assert_false(is_done(first));
	second = post(&harness, false, to[1], sizeof(message), 3);
	while (!is_done(second))
		progress_both(&harness);
	assert_string_equal(to[1], message);
	assert_false(is_done(first));
	verbs_link_harness_close(&harness);
}

/* Short ones as long as they are taken, then a long one, none of them received. */
static void unmatched_messages_delay_their_own_tag_alone(void **state)
{
	enum { SHORT_BYTES = 1000, LONG_BYTES = 100000, MOST = 2 * VERBS_WINDOW_BYTES / SHORT_BYTES };
	uint8_t *from = malloc(MOST * SHORT_BYTES), to[SHORT_BYTES], *large_to = malloc(LONG_BYTES);
	struct transport_request *send, *receive, *large;
	struct verbs_link_harness harness;
	unsigned count = 0;

	(void)state;
	assert_non_null(from);
	assert_non_null(large_to);
	pattern_fill(from, MOST * SHORT_BYTES, 5);
	verbs_link_harness_open(&harness, (struct fake_verbs_options){ .devices = 1 }, 2, false);
	for (; count < MOST; count++) {
		send = NULL;
		assert_int_equal(transport_verbs.send(harness.link.sender, from + (size_t)count * SHORT_BYTES,
						      SHORT_BYTES, 1, NULL, &send),
				 0);
		if (!send)
			break;
		while (!is_done(send))
			progress_both(&harness);
	}
	assert_true(count > VERBS_WINDOW_BYTES / SHORT_BYTES / 2 && count < MOST);
	large = post(&harness, true, from, LONG_BYTES, 3);
	for (unsigned i = 0; i < 600; i++)
		assert_int_equal(link_exchange(&harness.link, i % 3 ? i % 3 * 20000 - 20000 + i : 0, i), 0);
	for (unsigned i = 0; i < count; i++) {
		receive = post(&harness, false, to, SHORT_BYTES, 1);
		while (!is_done(receive))
			progress_both(&harness);
		assert_memory_equal(to, from + (size_t)i * SHORT_BYTES, SHORT_BYTES);
	}
	receive = post(&harness, false, large_to, LONG_BYTES, 3);
	while (!is_done(receive))
		progress_both(&harness);
	assert_memory_equal(large_to, from, LONG_BYTES);
	while (!is_done(large))
		progress_both(&harness);
	verbs_link_harness_close(&harness);
	free(from);
	free(large_to);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_count_passes_32_bits),
		cmocka_unit_test(a_receive_that_waits_for_very_long_is_still_the_older_one),
		cmocka_unit_test(unmatched_messages_delay_their_own_tag_alone),
	};

	runtime_start("verbs_counts_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
