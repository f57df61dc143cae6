/* SPDX-License-Identifier: Apache-2.0 */
/* The eager window at both ends, with reports that are late, lost, said twice or read in another order. */
#include "support/runtime.h"
#include "transport/tcp/window.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { FLIGHT = 1024, REPORTS = 16, UNIT = TCP_WIRE_EAGER_UNIT, LEAST = TCP_WIRE_EAGER_LEAST };

struct message {
	uint64_t sequence;
	unsigned unit;
	size_t bytes;
	int tag;
};

struct report {
	uint64_t sequence, words[TCP_WINDOW_HALVES];
};

struct pair {
	struct tcp_window sender, receiver;
	struct message flight[FLIGHT]; /* sent and not arrived, in order */
	unsigned head, tail;
	struct report reports[REPORTS]; /* made and not read */
	unsigned report_count, reports_made;
	uint64_t next_sequence, arrived_sequence;
};

static void pair_open(struct pair *pair)
{
	memset(pair, 0, sizeof(*pair));
	assert_int_equal(tcp_window_init(&pair->sender), 0);
	assert_int_equal(tcp_window_init(&pair->receiver), 0);
	pair->next_sequence = pair->arrived_sequence = TCP_WIRE_FIRST_SEQUENCE;
}

static void pair_close(struct pair *pair)
{
	tcp_window_fini(&pair->sender);
	tcp_window_fini(&pair->receiver);
}

static int pair_send(struct pair *pair, size_t bytes, int tag)
{
	int unit = tcp_window_find(&pair->sender, bytes, tag);

	if (unit < 0)
		return unit;
	assert_int_equal(tcp_window_take(&pair->sender, (uint64_t)unit, bytes, tag, pair->next_sequence), 0);
	assert_true(pair->tail - pair->head < FLIGHT);
	pair->flight[pair->tail++ % FLIGHT] = (struct message){ pair->next_sequence++, (unsigned)unit, bytes, tag };
	return 0;
}

/* What the sender takes for free must be free at the receiver: the point of all this. */
static unsigned arrive(struct pair *pair)
{
	const struct message *message = &pair->flight[pair->head++ % FLIGHT];

	assert_int_equal(
		tcp_window_take(&pair->receiver, message->unit, message->bytes, message->tag, message->sequence), 0);
	tcp_window_arrived(&pair->receiver, tcp_window_index(message->unit));
	pair->arrived_sequence = message->sequence + 1;
	return tcp_window_index(message->unit);
}

static void make_report(struct pair *pair)
{
	struct report *report = &pair->reports[pair->report_count++];

	report->sequence = pair->arrived_sequence;
	tcp_window_report(&pair->receiver, report->sequence, report->words);
	for (unsigned half = 0; half < TCP_WINDOW_HALVES; half++)
		tcp_window_reported(&pair->receiver, half, report->sequence, report->words[half]);
	pair->receiver.arrived_units = pair->receiver.freed_units = 0;
	pair->reports_made++;
}

static void read_report(struct pair *pair, unsigned at)
{
	const struct report report = pair->reports[at];

	pair->reports[at] = pair->reports[--pair->report_count];
	for (unsigned half = 0; half < TCP_WINDOW_HALVES; half++)
		tcp_window_reported(&pair->sender, half, report.sequence, report.words[half]);
}

static void match_one(struct pair *pair, uint64_t *random)
{
	unsigned index = (unsigned)random_below(random, TCP_WIRE_EAGER_MESSAGES);

	if (pair->receiver.entries[index].units)
		tcp_window_release(&pair->receiver, index);
}

/*
 * A sender that waits gets its report when all that it sent has arrived and the messages with its tag have been received,
 * whatever the receiver does with the others.
 */
static void check_waiting_ends(struct pair *pair, size_t bytes, int tag, uint64_t *random)
{
	while (pair->head != pair->tail) {
		arrive(pair);
		if (random_below(random, 2))
			match_one(pair, random);
	}
	for (unsigned i = 0; i < TCP_WIRE_EAGER_MESSAGES; i++)
		if (pair->receiver.entries[i].units && pair->receiver.entries[i].tag == tag)
			tcp_window_release(&pair->receiver, i);
	assert_true(pair->report_count || tcp_window_is_news(&pair->receiver));
	while (pair->report_count)
		read_report(pair, 0);
	if (tcp_window_is_news(&pair->receiver))
		make_report(pair);
	while (pair->report_count)
		read_report(pair, 0);
	assert_int_not_equal(tcp_window_find(&pair->sender, bytes, tag), -EAGAIN);
}

static void nothing_is_overwritten_whatever_reports_do(void **state)
{
	uint64_t random = runtime_seed();
	unsigned sent = 0, waited = 0, announced = 0;

	(void)state;
	for (unsigned run = 0; run < 300; run++) {
		const size_t longest = (size_t)1 << random_below(&random, 15);
		const uint64_t match_of = 1 + random_below(&random, 6);
		static struct pair pair;

		pair_open(&pair);
		for (unsigned step = 0; step < 2000; step++) {
			const size_t bytes = (size_t)random_below(&random, longest + 1);
			const int tag = (int)random_below(&random, 3);
			int r = pair_send(&pair, bytes, tag);

			sent += r == 0;
			waited += r == -EAGAIN;
			announced += r == -ENOBUFS;
			if (r == -EAGAIN)
				check_waiting_ends(&pair, bytes, tag, &random);
			if (pair.head != pair.tail && random_below(&random, 4))
				arrive(&pair);
			if (random_below(&random, match_of) == 0)
				match_one(&pair, &random);
			if (pair.report_count < REPORTS &&
			    (tcp_window_is_news(&pair.receiver) || random_below(&random, 50) == 0))
				make_report(&pair);
			if (pair.report_count && random_below(&random, 3) == 0)
				read_report(&pair, (unsigned)random_below(&random, pair.report_count));
			if (pair.report_count == REPORTS || (pair.report_count && random_below(&random, 20) == 0)) {
				pair.report_count = 0; /* a stream is lost with all of them: reported again */
				make_report(&pair);
			}
		}
		pair_close(&pair);
	}
	assert_true(sent > 10000 && waited > 100 && announced > 10);
}

static void what_nobody_receives_leaves_room_to_others(void **state)
{
	static struct pair pair;
	unsigned others = 0;

	(void)state;
	for (size_t bytes = 1; bytes <= TCP_EAGER_WINDOW / 4; bytes *= 2) {
		int r = 0;

		pair_open(&pair);
		(void)tcp_window_find(&pair.sender, bytes, 7); /* it is known that there is another tag */
		while (r != -EAGAIN || pair.head != pair.tail) {
			r = pair_send(&pair, bytes, 9);
			while (pair.head != pair.tail)
				arrive(&pair);
			if (tcp_window_is_news(&pair.receiver))
				make_report(&pair);
			while (pair.report_count)
				read_report(&pair, 0);
		}
		/* A tag that is received goes on, with all of the other's messages still there. */
		for (others = 0; others < 1000 && pair_send(&pair, 8, 7) == 0; others++) {
			tcp_window_release(&pair.receiver, arrive(&pair));
			if (tcp_window_is_news(&pair.receiver))
				make_report(&pair);
			while (pair.report_count)
				read_report(&pair, 0);
		}
		assert_int_equal(others, 1000);
		pair_close(&pair);
	}
}

/* Reports about a stream of messages of one size, each received as it comes. */
/* A report that only its own small message could bring would wait for the receiver's next beat. */
static void a_little_of_its_own_makes_no_tag_wait(void **state)
{
	static struct pair pair;

	(void)state;
	pair_open(&pair);
	assert_int_equal(pair_send(&pair, 1, 1), 0);
	while (pair_send(&pair, 100 * UNIT, 2) == 0)
		;
	while (pair.head != pair.tail)
		arrive(&pair);
	make_report(&pair);
	read_report(&pair, 0);
	tcp_window_release(&pair.receiver, 0);
	assert_false(tcp_window_is_news(&pair.receiver));
	assert_int_equal(pair_send(&pair, 200 * UNIT, 1), -ENOBUFS);
	pair_close(&pair);
}

static unsigned reports_for(size_t bytes, unsigned messages)
{
	static struct pair pair;
	unsigned made;

	pair_open(&pair);
	for (unsigned i = 0; i < messages; i++) {
		assert_int_equal(pair_send(&pair, bytes, 7), 0);
		tcp_window_release(&pair.receiver, arrive(&pair));
		if (tcp_window_is_news(&pair.receiver))
			make_report(&pair);
		while (pair.report_count)
			read_report(&pair, 0);
	}
	made = pair.reports_made;
	pair_close(&pair);
	return made;
}

static void a_sender_with_room_needs_no_report(void **state)
{
	(void)state;
	assert_int_equal(reports_for(8, 47), 0);
	assert_int_equal(reports_for(8, 48), 1);
	assert_int_equal(reports_for(8, 480), 10);
	assert_int_equal(reports_for(8 << 10, 30), 10);
	assert_int_equal(reports_for(16 << 10, 30), 15);
}

static void what_is_outside_or_taken_is_refused(void **state)
{
	struct tcp_window window = { 0 };

	(void)state;
	assert_int_equal(tcp_window_take(&window, TCP_WIRE_EAGER_UNITS, 1, 0, 0), -EPROTO);
	assert_int_equal(tcp_window_take(&window, UINT64_MAX / 2, 1, 0, 0), -EPROTO);
	assert_int_equal(tcp_window_take(&window, TCP_WIRE_EAGER_UNITS - LEAST + 1, 1, 0, 0), -EPROTO);
	assert_int_equal(tcp_window_take(&window, 0, TCP_EAGER_WINDOW, 0, 0), -EPROTO);
	assert_int_equal(tcp_window_take(&window, 0, UINT64_MAX, 0, 0), -EPROTO);
	assert_int_equal(tcp_window_take(&window, 2 * LEAST + 3, 20 * UNIT, 0, 0), 0);
	for (unsigned unit = 0; unit < 60; unit++) {
		bool free = unit < LEAST + 4 || unit > 2 * LEAST + 3 + 20;

		assert_int_equal(tcp_window_take(&window, unit, 1, 0, 1), free ? 0 : -EPROTO);
		if (free)
			tcp_window_release(&window, tcp_window_index(unit));
	}
	assert_int_equal(window.taken_units, 21);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_overwritten_whatever_reports_do),
		cmocka_unit_test(what_nobody_receives_leaves_room_to_others),
		cmocka_unit_test(a_little_of_its_own_makes_no_tag_wait),
		cmocka_unit_test(a_sender_with_room_needs_no_report),
		cmocka_unit_test(what_is_outside_or_taken_is_refused),
	};

	(void)argc;
	runtime_start(argv[0], 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
