/* SPDX-License-Identifier: Apache-2.0 */
#include "pace_rig.h"

static void disabled_pace_grants_everything_at_once(void **state)
{
	struct pace_options options = plain;
	struct pace_message message = { 0 };
	struct pace *pace;

	(void)state;
	options.enabled = false;
	options.device_name = "eth0";
	options.arbiter_directory = "/nonexistent";
	assert_int_equal(pace_new(&options, &pace), 0);
	pace_add(pace, &message, 1ULL << 40, 1);
	assert_true(pace_granted(&message) == 1ULL << 40);
	pace_grant_sent(pace, &message, 1ULL << 40, 1);
	pace_delivered(pace, &message, 100, 2);
	pace_poll(pace, 3);
	pace_tick(pace, 3);
	pace_remove(pace, &message);
	assert_int_equal(state_of(pace).outstanding_bytes, 0);
	pace_free(pace);
	pace_free(NULL);
}

static void deliveries_of_one_message_let_another_go_on(void **state)
{
	struct pace_message first = { 0 }, second = { 0 };
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&plain, &pace), 0);
	pace_add(pace, &first, 2 * QUANTUM, 1);
	assert_int_equal(pace_granted(&first), 2 * QUANTUM);
	pace_add(pace, &second, 4 * QUANTUM, 2);
	assert_int_equal(pace_granted(&second), 0);
	assert_int_equal(state_of(pace).waiting_count, 1);
	pace_delivered(pace, &first, QUANTUM, 3);
	assert_int_equal(pace_granted(&second), QUANTUM);
	pace_remove(pace, &first);
	assert_int_equal(pace_granted(&second), 2 * QUANTUM);
	assert_int_equal(state_of(pace).outstanding_bytes, 2 * QUANTUM);
	pace_remove(pace, &second);
	pace_remove(pace, &second);
	assert_int_equal(state_of(pace).outstanding_bytes, 0);
	pace_free(pace);
}

static void a_message_that_was_never_added_may_be_removed(void **state)
{
	struct pace_message never = { 0 }, empty = { 0 };
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&plain, &pace), 0);
	pace_remove(pace, &never);
	pace_add(pace, &empty, 0, 1);
	assert_int_equal(state_of(pace).waiting_count, 0);
	pace_remove(pace, &empty);
	pace_free(pace);
}

static void polls_and_ticks_forgive_a_stalled_sender(void **state)
{
	for (unsigned by_tick = 0; by_tick < 2; by_tick++) {
		struct pace_message dead = { 0 }, alive = { 0 };
		struct pace *pace;

		(void)state;
		assert_int_equal(pace_new(&plain, &pace), 0);
		pace_add(pace, &dead, 10 * QUANTUM, NS_PER_MS);
		pace_add(pace, &alive, 10 * QUANTUM, NS_PER_MS);
		assert_int_equal(pace_granted(&dead), 2 * QUANTUM);
		for (uint64_t now_ms = 2; now_ms <= 20; now_ms++) {
			(by_tick ? pace_tick : pace_poll)(pace, now_ms * NS_PER_MS);
			assert_int_equal(pace_granted(&alive), 0);
		}
		for (uint64_t now_ms = 21; now_ms <= 23; now_ms++)
			(by_tick ? pace_tick : pace_poll)(pace, now_ms * NS_PER_MS);
		assert_int_equal(pace_granted(&dead), 2 * QUANTUM);
		assert_int_equal(pace_granted(&alive), 2 * QUANTUM);
		pace_remove(pace, &dead);
		pace_remove(pace, &alive);
		assert_int_equal(state_of(pace).outstanding_bytes, 0);
		pace_free(pace);
	}
}

/*
 * One receiver and senders behind a link: bytes arrive in the order of the grants, at the rate, a loop after them. The
 * receiver may be late: of every 20 ms it sleeps so many, and then reads what has come.
 */
static uint64_t simulated_sleep_ns;
static uint64_t simulated_early_bytes; /* behind every packet, so much of a message that comes before its receive */

static uint64_t read_at(uint64_t now_ns, uint64_t ready_ns)
{
	now_ns = ready_ns > now_ns ? ready_ns : now_ns + 1000; /* it was waiting: as fast as memory */
	return now_ns % (20 * NS_PER_MS) < simulated_sleep_ns ? now_ns - now_ns % (20 * NS_PER_MS) + simulated_sleep_ns
							      : now_ns;
}

struct sender {
	struct pace_message message;
	struct pace_sender from;
	uint64_t total_bytes, taken_bytes; /* grants taken from it so far */
};

/* All but 500 bytes of it, and then its receive is posted. */
static void comes_early(struct pace *pace, uint64_t now_ns)
{
	struct pace_message early = { .unscheduled_bytes = simulated_early_bytes, .came_bytes = simulated_early_bytes };
	uint64_t before_bytes;

	pace_came(pace, simulated_early_bytes, now_ns);
	before_bytes = state_of(pace).outstanding_bytes;
	early.unscheduled_bytes += 500; /* of which the rest is on its way */
	pace_add(pace, &early, early.unscheduled_bytes, now_ns);
	assert_in_range(state_of(pace).outstanding_bytes, before_bytes + 500, before_bytes + simulated_early_bytes);
	assert_true(pace_granted(&early) == simulated_early_bytes + 500);
	pace_remove(pace, &early);
}

static void simulate(struct pace *pace, struct sender *senders, size_t count, uint64_t rate_Bps, uint64_t loop_ns,
		     uint64_t *now_ns, uint64_t until_ns)
{
	enum { PIPE = 4096 };
	static struct {
		struct sender *sender;
		uint64_t bytes, ready_ns;
	} pipe_of[PIPE];
	size_t head = 0, tail = 0;
	uint64_t free_ns = *now_ns;

	while (*now_ns < until_ns) {
		for (size_t i = 0; i < count; i++) {
			struct sender *sender = &senders[i];
			uint64_t granted;

			if (!sender->message.flow.listed) {
				memset(&sender->message, 0, sizeof(sender->message));
				sender->message.sender = &sender->from;
				sender->taken_bytes = 0;
				pace_add(pace, &sender->message, sender->total_bytes, *now_ns);
			}
			granted = pace_granted(&sender->message);
			if (granted == sender->taken_bytes)
				continue;
			pace_grant_sent(pace, &sender->message, granted, *now_ns);
			/* In packets, as they come. */
			while (sender->taken_bytes < granted) {
				uint64_t bytes = granted - sender->taken_bytes < 9000 ? granted - sender->taken_bytes
										      : 9000;
				uint64_t start_ns = *now_ns + loop_ns > free_ns ? *now_ns + loop_ns : free_ns;

				assert_true(tail - head < PIPE);
				free_ns = start_ns + bytes * NS_PER_S / rate_Bps;
				pipe_of[tail % PIPE].sender = sender;
				pipe_of[tail % PIPE].bytes = bytes;
				pipe_of[tail++ % PIPE].ready_ns = free_ns;
				sender->taken_bytes += bytes;
			}
		}
		assert_true(head < tail);
		*now_ns = read_at(*now_ns, pipe_of[head % PIPE].ready_ns);
		pace_delivered(pace, &pipe_of[head % PIPE].sender->message, pipe_of[head % PIPE].bytes, *now_ns);
		if (pipe_of[head % PIPE].sender->message.flow.delivered_bytes ==
		    pipe_of[head % PIPE].sender->total_bytes)
			pace_remove(pace, &pipe_of[head % PIPE].sender->message);
		head++;
		if (simulated_early_bytes) {
			uint64_t takes_ns = simulated_early_bytes * NS_PER_S / rate_Bps;

			*now_ns += takes_ns;
			free_ns += takes_ns;
			for (size_t i = head; i < tail; i++)
				pipe_of[i % PIPE].ready_ns += takes_ns;
			comes_early(pace, *now_ns);
		}
	}
	for (size_t i = 0; i < count; i++) {
		pace_remove(pace, &senders[i].message);
		memset(&senders[i].message, 0, sizeof(senders[i].message));
	}
}

static void measured_budget_fits_the_link(void **state)
{
	static const struct {
		uint64_t nominal_Bps, rate_Bps, loop_ns, low_bytes, high_bytes;
	} links[] = {
		/* Two bursts or what the loop needs, and 8 ms of the rate on top. */
		{ 1250000000, 119600000, 80000, 950000, 1200000 }, /* a shaped port that says it is ten times as fast */
		{ 125000000, 119600000, 80000, 950000, 1200000 },
		{ 1250000000, 1190000000, 100000, 9500000, 12000000 },
		{ 1250000000, 12000000000, 60000, 96000000, 120000000 }, /* faster than it says */
		{ 0, 60000000, 300000, 480000, 700000 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		struct pace_options options = plain;
		struct sender senders[7];
		struct pace *pace;
		struct pace_state end;
		uint64_t now_ns = NS_PER_S;

		memset(senders, 0, sizeof(senders));
		for (size_t k = 0; k < 7; k++)
			senders[k].total_bytes = 512 << 10;
		options.speed_Bps = links[i].nominal_Bps;
		options.fixed_budget_bytes = 0;
		assert_int_equal(pace_new(&options, &pace), 0);
		/* Bursts with rests between, in which the pool is empty and loops can be measured; then without end. */
		for (unsigned burst = 0; burst < 40; burst++)
			simulate(pace, senders, 7, links[i].rate_Bps, links[i].loop_ns, &now_ns,
				 now_ns + 10 * NS_PER_MS);
		simulate(pace, senders, 7, links[i].rate_Bps, links[i].loop_ns, &now_ns, now_ns + NS_PER_S);
		end = state_of(pace);
		assert_in_range(end.budget_bytes, links[i].low_bytes, links[i].high_bytes);
		assert_in_range(pace_flight(pace, NULL), pace_flight_port_bytes(end.rate_Bps) / 7,
				pace_flight_port_bytes(end.rate_Bps) / 7 * 2);
		assert_in_range(end.rate_Bps, links[i].rate_Bps / 10 * 9, links[i].rate_Bps / 10 * 13);
		assert_in_range(end.round_trip_ns, links[i].loop_ns, links[i].loop_ns + 150000);
		pace_free(pace);
	}
}

/* A pace that measures its budget, and whom it may grant to. speed_Bps 0: that of the others. */
static struct pace *four_senders(struct sender senders[static 4], uint64_t speed_Bps)
{
	struct pace_options options = plain;
	struct pace *pace;

	memset(senders, 0, 4 * sizeof(*senders));
	for (size_t k = 0; k < 4; k++)
		senders[k].total_bytes = 512 << 10;
	options.fixed_budget_bytes = 0;
	if (speed_Bps)
		options.speed_Bps = speed_Bps;
	assert_int_equal(pace_new(&options, &pace), 0);
	return pace;
}

/*
 * On hosts with more threads than cores a grant is looked at late. Where everybody sends and receives, so many more bytes are
 * granted ahead; not where many only send to one, whose port would overflow.
 */
static void late_wake_ups_raise_the_budget(void **state)
{
	const uint64_t rate_Bps = 119600000, loop_ns = 80000;
	uint64_t now_ns = NS_PER_S, before_bytes;
	struct sender senders[4];
	struct pace *pace;

	(void)state;
	pace = four_senders(senders, 0);
	for (unsigned burst = 0; burst < 40; burst++)
		simulate(pace, senders, 4, rate_Bps, loop_ns, &now_ns, now_ns + 10 * NS_PER_MS);
	before_bytes = state_of(pace).budget_bytes;
	for (unsigned i = 0; i < 64; i++) {
		struct pace_message message = { .sender = NULL };

		now_ns += NS_PER_MS;
		pace_add(pace, &message, 1000, now_ns);
		pace_grant_sent(pace, &message, pace_granted(&message), now_ns);
		now_ns += i % 4 ? 2 * NS_PER_MS : loop_ns;
		pace_delivered(pace, &message, 1000, now_ns);
		pace_remove(pace, &message);
	}
	simulate(pace, senders, 4, rate_Bps, loop_ns, &now_ns, now_ns + 100 * NS_PER_MS);
	assert_in_range(state_of(pace).budget_bytes, before_bytes / 2, before_bytes + 500000);
	pace_note_send(pace, 1, now_ns);
	/* 16 times 1.9 ms. */
	assert_in_range(state_of(pace).budget_bytes, before_bytes + 3200000, before_bytes + 4200000);
	pace_note_send(NULL, 1, now_ns);
	pace_free(pace);
}

static void a_late_reader_does_not_take_its_backlog_for_the_rate(void **state)
{
	struct sender senders[4];
	uint64_t now_ns = NS_PER_S;
	struct pace *pace;

	(void)state;
	pace = four_senders(senders, 1250000000);
	simulated_sleep_ns = 12 * NS_PER_MS;
	simulate(pace, senders, 4, 119600000, 100000, &now_ns, now_ns + 2 * NS_PER_S);
	simulated_sleep_ns = 0;
	assert_in_range(state_of(pace).rate_Bps, 60000000, 145000000);
	pace_free(pace);
}

/* The port carried it while others were granted; what comes alone says nothing. */
static void what_comes_before_its_receive_is_part_of_the_rate(void **state)
{
	const uint64_t rate_Bps = 119600000;
	struct sender senders[4];
	uint64_t now_ns = NS_PER_S, measured_Bps;
	struct pace *pace;

	(void)state;
	pace = four_senders(senders, 1250000000);
	simulated_early_bytes = 9000;
	simulate(pace, senders, 4, rate_Bps, 100000, &now_ns, now_ns + 2 * NS_PER_S);
	simulated_early_bytes = 0;
	measured_Bps = state_of(pace).rate_Bps;
	assert_in_range(measured_Bps, rate_Bps * 9 / 10, rate_Bps * 11 / 10);
	assert_int_equal(state_of(pace).outstanding_bytes, 0);
	for (unsigned i = 0; i < 1000; i++)
		pace_came(pace, 1 << 20, now_ns += 1000);
	simulate(pace, senders, 4, rate_Bps, 100000, &now_ns, now_ns + 100 * NS_PER_MS);
	assert_in_range(state_of(pace).rate_Bps, rate_Bps * 9 / 10, rate_Bps * 11 / 10);
	pace_free(pace);
}

static void who_sends_to_several_hosts_may_have_more(void **state)
{
	struct pace_sender here = { .host = 1, .spread = 1 }, everywhere = { .host = 2, .spread = 5 };
	struct pace_message messages[3] = { { .sender = &here }, { .sender = &everywhere }, { .sender = &here } };
	struct sender senders[4];
	uint64_t now_ns = NS_PER_S, before_bytes;
	struct pace *pace;

	(void)state;
	pace = four_senders(senders, 0);
	simulate(pace, senders, 4, 119600000, 100000, &now_ns, now_ns + NS_PER_S);
	pace_add(pace, &messages[0], QUANTUM, ++now_ns);
	before_bytes = state_of(pace).budget_bytes;
	pace_add(pace, &messages[1], QUANTUM, ++now_ns);
	assert_in_range(state_of(pace).budget_bytes, 4 * before_bytes, 5 * before_bytes);
	/* For as long as such messages come. */
	pace_remove(pace, &messages[1]);
	now_ns += NS_PER_S;
	pace_add(pace, &messages[2], QUANTUM, now_ns);
	everywhere.spread = 0;
	messages[1] = (struct pace_message){ .sender = &everywhere };
	pace_add(pace, &messages[1], QUANTUM, ++now_ns);
	assert_in_range(state_of(pace).budget_bytes, before_bytes / 2, before_bytes * 3 / 2);
	/* By its own word, of the 64 ms of a host that takes no turns. */
	pace_remove(pace, &messages[1]);
	everywhere.hosts = 4;
	messages[1] = (struct pace_message){ .sender = &everywhere };
	pace_add(pace, &messages[1], QUANTUM, ++now_ns);
	assert_in_range(state_of(pace).budget_bytes, 4 * 64 * 100000, 4 * 64 * 150000);
	for (size_t i = 0; i < 3; i++)
		pace_remove(pace, &messages[i]);
	pace_free(pace);
}

static void senders_that_compete_are_bounded_in_flight(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[4] = { { .host = 1 }, { .host = 2 }, { .host = 3 }, { .host = 4 } };
	struct pace_message messages[4] = { 0 }, more = { .sender = &senders[0] };
	uint64_t now_ns = NS_PER_S;
	struct pace *pace;

	(void)state;
	options.speed_Bps = 125000000;
	assert_int_equal(pace_new(&options, &pace), 0);
	assert_int_equal(pace_flight(pace, NULL), 0);
	for (size_t i = 0; i < 4; i++) {
		messages[i].sender = &senders[i];
		pace_add(pace, &messages[i], QUANTUM, ++now_ns);
	}
	assert_int_equal(pace_flight(pace, NULL), (80 << 10) / 4);
	assert_int_equal(pace_flight(pace, NULL), (80 << 10) / 4);
	assert_int_equal(pace_flight(pace, &(struct pace_sender){ .spread = 3 }),
			 3 * (80 << 10) / 4); /* the others of its bytes go elsewhere */
	assert_int_equal(pace_flight(pace, &(struct pace_sender){ .spread = 100 }), 16 * (80 << 10) / 4);
	/* Who sends, too, keeps acknowledgements waiting. */
	pace_note_send(pace, 1, now_ns - 50 * NS_PER_MS);
	pace_tick(pace, ++now_ns);
	assert_int_equal(pace_flight(pace, NULL), 2 * (80 << 10) / 4);
	assert_int_equal(pace_flight(pace, NULL), 2 * (80 << 10) / 4);
	assert_int_equal(pace_flight(pace, &(struct pace_sender){ .spread = 3 }), 3 * (80 << 10) / 4);
	pace_tick(pace, now_ns += 60 * NS_PER_MS);
	assert_int_equal(pace_flight(pace, NULL), (80 << 10) / 4);
	pace_add(pace, &more, QUANTUM, ++now_ns); /* a second message of one sender: still four */
	assert_int_equal(pace_flight(pace, NULL), (80 << 10) / 4);
	for (size_t i = 0; i < 4; i++)
		pace_remove(pace, &messages[i]);
	/* What is left comes from one host, which is alone when that has lasted. */
	now_ns += NS_PER_S;
	pace_delivered(pace, &more, 1, now_ns);
	assert_int_equal(pace_flight(pace, NULL), 0);
	pace_remove(pace, &more);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(senders[i].coming_count, 0);
	pace_free(pace);
}

/* Of the only host that is connected nobody has to wait and see that it is alone. */
static void the_only_host_is_alone_from_the_first_message_on(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[3] = { { .host = 1 }, { .host = 1 }, { .host = 2 } };
	struct pace_message messages[3] = { 0 };
	struct pace *pace;

	(void)state;
	options.speed_Bps = 125000000;
	assert_int_equal(pace_new(&options, &pace), 0);
	for (unsigned i = 0; i < 3; i++) {
		messages[i].sender = &senders[i];
		pace_join(pace, &senders[i]);
		pace_add(pace, &messages[i], QUANTUM, NS_PER_S + i);
		assert_int_equal(pace_flight(pace, NULL), i < 2 ? 0 : (80 << 10) / 3);
	}
	for (unsigned i = 3; i--;) {
		pace_remove(pace, &messages[i]);
		pace_leave(pace, &senders[i]);
	}
	pace_free(pace);
}

/* A grant's loop holds what others have in the port's queue, and wake-ups; a kernel's measurement does not. */
static void a_long_path_holds_more(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2] = { { .host = 1 }, { .host = 2 } };
	struct pace_message messages[2] = { { .sender = &senders[0] }, { .sender = &senders[1] } };
	struct pace *pace;

	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		options.speed_Bps = 1250000000;
		options.port_Bps = known ? options.speed_Bps : 0;
		assert_int_equal(pace_new(&options, &pace), 0);
		pace_add(pace, &messages[0], QUANTUM, NS_PER_S);
		pace_note_path(pace, 0);
		pace_note_path(pace, NS_PER_MS);
		pace_add(pace, &messages[1], QUANTUM, NS_PER_S + 1);
		assert_int_equal(pace_flight(pace, NULL), 1250000);
		pace_remove(pace, &messages[0]);
		pace_note_path(pace, 20000);
		pace_note_path(pace, NS_PER_MS);
		pace_remove(pace, &messages[1]);
		assert_int_equal(pace_flight(pace, NULL), known ? 125000 : (80 << 10) / 2);
		assert_int_equal(pace_flight_lasts(pace), known);
		pace_free(pace);
		memset(&messages[0].flow, 0, sizeof(messages[0].flow));
		memset(&messages[1].flow, 0, sizeof(messages[1].flow));
	}
}

/* Rounds of several senders with rests between: the first of a round opens no window for itself. One alone later does. */
static void who_competed_before_a_rest_competes_after_it(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2] = { { .host = 1 }, { .host = 2 } };
	struct pace_message messages[2] = { 0 };
	uint64_t now_ns = NS_PER_S;
	struct pace *pace;

	(void)state;
	options.speed_Bps = 125000000;
	assert_int_equal(pace_new(&options, &pace), 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 2; i++) {
			memset(&messages[i], 0, sizeof(messages[i]));
			messages[i].sender = &senders[i];
			pace_add(pace, &messages[i], QUANTUM, ++now_ns);
			assert_int_equal(pace_flight(pace, NULL), round || i ? (80 << 10) / 2 : 0);
		}
		pace_remove(pace, &messages[1]);
		pace_remove(pace, &messages[0]); /* the last is the first of the next round */
		for (unsigned i = 0; i < 10; i++)
			pace_tick(pace, now_ns += NS_PER_S);
	}
	for (unsigned i = 0; i < 4; i++) {
		memset(&messages[0], 0, sizeof(messages[0]));
		messages[0].sender = &senders[0];
		pace_add(pace, &messages[0], QUANTUM, now_ns += 60 * NS_PER_MS);
		assert_int_equal(pace_flight(pace, NULL), i < 2 ? (80 << 10) / 2 : 0);
		pace_remove(pace, &messages[0]);
	}
	pace_free(pace);
}

enum { HOSTS = 5 };

/* First all that are connected, then those that send; from one host two connections are one. A rest changes nothing. */
static void hosts_share_what_may_come_unscheduled(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2 * HOSTS] = { 0 };
	uint64_t now_ns = NS_PER_S;
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&options, &pace), 0);
	assert_int_equal(pace_unscheduled(pace, NULL), PACE_UNSCHEDULED_BYTES);
	for (unsigned i = 0; i < 2 * HOSTS; i++) {
		senders[i].host = 1 + i % HOSTS;
		pace_join(pace, &senders[i]);
		assert_int_equal(pace_unscheduled(pace, NULL),
				 i ? PACE_FLIGHT_LEAST_BYTES / (i < HOSTS ? i + 1 : HOSTS) : PACE_UNSCHEDULED_BYTES);
	}
	/* Two at a time, of two hosts; then one. */
	receive_from(pace, senders, 2, &now_ns);
	assert_int_equal(pace_unscheduled(pace, NULL), PACE_FLIGHT_LEAST_BYTES / 2);
	now_ns += 60 * NS_PER_S;
	pace_tick(pace, now_ns);
	now_ns += 60 * NS_PER_S;
	pace_tick(pace, now_ns);
	assert_int_equal(pace_unscheduled(pace, NULL), PACE_FLIGHT_LEAST_BYTES / 2);
	for (unsigned i = 0; i < 3; i++) {
		receive_from(pace, senders, 1, &now_ns);
		now_ns += 6 * NS_PER_S;
		pace_tick(pace, now_ns);
	}
	assert_int_equal(pace_unscheduled(pace, &senders[0]), PACE_UNSCHEDULED_ALONE_BYTES);
	/* Not of those that are connected beside it: were they to begin, too, they would be many. */
	assert_int_equal(pace_unscheduled(pace, &senders[1]), PACE_UNSCHEDULED_BYTES);
	assert_int_equal(pace_unscheduled(pace, NULL), PACE_UNSCHEDULED_BYTES);
	assert_int_equal(state_of(pace).outstanding_bytes, 0);
	for (unsigned i = 0; i < 2 * HOSTS; i++)
		pace_leave(pace, &senders[i]);
	pace_free(pace);
}

/* After an exchange of all with all, a ring: one host goes on, and grants to it would wait behind what we send ourselves. */
static void the_only_sender_begins_more_until_it_rests(void **state)
{
	struct pace_sender senders[2] = { { .host = 1 }, { .host = 2 } };
	struct pace_message message = { .sender = &senders[0] };
	uint64_t now_ns = NS_PER_S;
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&plain, &pace), 0);
	for (unsigned i = 0; i < 2; i++)
		pace_join(pace, &senders[i]);
	receive_from(pace, senders, 2, &now_ns);
	for (unsigned ms = 0; ms <= 120; ms += 20) {
		receive_from(pace, senders, 1, &now_ns);
		assert_int_equal(pace_unscheduled(pace, &senders[0]),
				 ms < 100 ? PACE_FLIGHT_LEAST_BYTES / 2 : PACE_UNSCHEDULED_ALONE_BYTES);
		assert_int_equal(pace_unscheduled(pace, &senders[1]), PACE_FLIGHT_LEAST_BYTES / 2);
		now_ns += 20 * NS_PER_MS;
	}
	pace_add(pace, &message, 8ULL * QUANTUM, now_ns);
	for (unsigned i = 0; i < 8; i++) { /* one message, for longer than a rest */
		pace_delivered(pace, &message, QUANTUM, now_ns += 60 * NS_PER_MS);
		assert_int_equal(pace_unscheduled(pace, &senders[0]), PACE_UNSCHEDULED_ALONE_BYTES);
	}
	pace_remove(pace, &message);
	pace_tick(pace, now_ns + 200 * NS_PER_MS);
	assert_int_equal(pace_unscheduled(pace, &senders[0]), PACE_FLIGHT_LEAST_BYTES / 2);
	for (unsigned i = 0; i < 2; i++)
		pace_leave(pace, &senders[i]);
	pace_free(pace);
}

/* Also before anything is measured; but never more than the transport allows. */
static void one_host_alone_is_granted_at_least_8_MiB(void **state)
{
	struct pace_options options = plain;
	struct pace_sender sender = { .host = 1 };

	(void)state;
	options.fixed_budget_bytes = 0;
	for (unsigned bounded = 0; bounded < 2; bounded++) {
		uint64_t now_ns = NS_PER_S;
		struct pace *pace;

		options.most_budget_bytes = bounded ? 4 * QUANTUM : 0;
		assert_int_equal(pace_new(&options, &pace), 0);
		receive_from(pace, &sender, 1, &now_ns);
		assert_true(state_of(pace).budget_bytes < PACE_ALONE_BYTES);
		now_ns += NS_PER_S;
		receive_from(pace, &sender, 1, &now_ns);
		assert_int_equal(state_of(pace).budget_bytes, bounded ? 4 * QUANTUM : PACE_ALONE_BYTES);
		pace_free(pace);
	}
}

/* A fast port's switch holds more: what a card knows counts until the rate is measured; what else is said does not. */
static void at_a_fast_port_more_may_come_unscheduled(void **state)
{
	struct pace_options options = plain;
	struct pace_sender senders[2] = { { .host = 1 }, { .host = 2 } };

	(void)state;
	options.speed_Bps = 1250000000;
	for (unsigned certain = 0; certain < 2; certain++) {
		const uint64_t bytes = certain ? options.speed_Bps / 10000 * 2 : PACE_FLIGHT_LEAST_BYTES;
		struct pace_message messages[2] = { { .sender = &senders[0] }, { .sender = &senders[1] } };
		uint64_t now_ns = NS_PER_S;
		struct pace *pace;

		options.port_Bps = certain ? options.speed_Bps : 0;
		assert_int_equal(pace_new(&options, &pace), 0);
		for (unsigned i = 0; i < 2; i++) {
			pace_join(pace, &senders[i]);
			pace_add(pace, &messages[i], QUANTUM, now_ns);
		}
		assert_int_equal(pace_unscheduled(pace, NULL), bytes / 2);
		for (unsigned i = 0; i < 2; i++) {
			pace_remove(pace, &messages[i]);
			pace_leave(pace, &senders[i]);
		}
		pace_free(pace);
	}
}

/* More than the table holds share its last place; and below two segments nothing is worth it. */
static void of_very_many_hosts_none_begins(void **state)
{
	enum { MANY = PACE_HOSTS_MAX + 10 };
	struct pace_sender senders[MANY] = { 0 };
	struct pace *pace;

	(void)state;
	assert_int_equal(pace_new(&plain, &pace), 0);
	for (unsigned i = 0; i < MANY; i++) {
		senders[i].host = i + 1;
		pace_join(pace, &senders[i]);
	}
	assert_int_equal(pace_unscheduled(pace, NULL), 0);
	for (unsigned i = 1; i < MANY; i++)
		pace_leave(pace, &senders[i]);
	assert_int_equal(pace_unscheduled(pace, NULL), PACE_UNSCHEDULED_BYTES);
	pace_leave(pace, &senders[0]);
	pace_free(pace);
}

static void larger_budgets_are_granted_in_larger_pieces(void **state)
{
	struct pace_options options = plain;
	struct pace_message message = { 0 };
	struct pace *pace;

	(void)state;
	options.fixed_budget_bytes = 4 << 20;
	assert_int_equal(pace_new(&options, &pace), 0);
	pace_add(pace, &message, 100 << 20, 1);
	assert_int_equal(pace_granted(&message), 4 << 20);
	pace_delivered(pace, &message, (1 << 20) - 1, 2);
	assert_int_equal(pace_granted(&message), 4 << 20);
	pace_delivered(pace, &message, 1, 2);
	assert_int_equal(pace_granted(&message), 5 << 20);
	pace_remove(pace, &message);
	pace_free(pace);
}

static void many_flows_get_pieces_that_are_worth_a_message(void **state)
{
	struct pace_options options = plain;
	struct pace_message messages[32] = { 0 };
	struct pace *pace;

	(void)state;
	options.fixed_budget_bytes = 1 << 20;
	assert_int_equal(pace_new(&options, &pace), 0);
	for (size_t i = 0; i < 32; i++)
		pace_add(pace, &messages[i], 512 << 10, i + 1);
	pace_delivered(pace, &messages[0], 512 << 10, 40);
	pace_remove(pace, &messages[0]);
	for (size_t i = 1; i < 32; i++) /* all or nothing, or an eighth of the budget and more */
		assert_true(!pace_granted(&messages[i]) || pace_granted(&messages[i]) >= 128 << 10);
	for (size_t i = 1; i < 32; i++)
		pace_remove(pace, &messages[i]);
	pace_free(pace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disabled_pace_grants_everything_at_once),
		cmocka_unit_test(deliveries_of_one_message_let_another_go_on),
		cmocka_unit_test(a_message_that_was_never_added_may_be_removed),
		cmocka_unit_test(polls_and_ticks_forgive_a_stalled_sender),
		cmocka_unit_test(measured_budget_fits_the_link),
		cmocka_unit_test(late_wake_ups_raise_the_budget),
		cmocka_unit_test(a_late_reader_does_not_take_its_backlog_for_the_rate),
		cmocka_unit_test(what_comes_before_its_receive_is_part_of_the_rate),
		cmocka_unit_test(who_sends_to_several_hosts_may_have_more),
		cmocka_unit_test(senders_that_compete_are_bounded_in_flight),
		cmocka_unit_test(the_only_host_is_alone_from_the_first_message_on),
		cmocka_unit_test(a_long_path_holds_more),
		cmocka_unit_test(who_competed_before_a_rest_competes_after_it),
		cmocka_unit_test(hosts_share_what_may_come_unscheduled),
		cmocka_unit_test(the_only_sender_begins_more_until_it_rests),
		cmocka_unit_test(one_host_alone_is_granted_at_least_8_MiB),
		cmocka_unit_test(at_a_fast_port_more_may_come_unscheduled),
		cmocka_unit_test(of_very_many_hosts_none_begins),
		cmocka_unit_test(larger_budgets_are_granted_in_larger_pieces),
		cmocka_unit_test(many_flows_get_pieces_that_are_worth_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
