/* SPDX-License-Identifier: Apache-2.0 */
/* Whether long packets are lost: the rule is played ways that lose them, ways that lose all alike, and peers that are stopped. */
#include "transport/tcp/mtu_rule.h"

#include "base/clock.h"
#include "support/random.h"
#include "support/runtime.h"
#include "transport/tcp/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TIMER_NS (200 * NS_PER_MS)
#define SHORT_NS (60 * NS_PER_MS)
#define LOOK_NS  (5 * NS_PER_MS)
#define BEAT_NS  (500 * NS_PER_MS)
#define GAP_NS   (2 * BEAT_NS)
#define ALL      1000000

/* A long packet that waits, and a short one every now and then. What is lost: in a million. */
struct played {
	uint64_t random;
	unsigned long_lost, short_lost;
	unsigned waiting_bytes;
	unsigned enough;
	bool peer_stops, alone;
	struct tcp_mtu_rule rule;
};

static bool is_lost(struct played *p, unsigned in_a_million)
{
	return random_below(&p->random, ALL) < in_a_million;
}

/* The time in which the rule found out; 0: the packet arrived before, or it did not within 20 s. */
static uint64_t stall(struct played *p)
{
	struct tcp_mtu_sample sample = {
		.heard_ns = NS_PER_S, .waiting_bytes = p->waiting_bytes, .enough = p->enough, .other = p->alone ? 0 : 7
	};
	uint64_t timer_ns = TIMER_NS, wait_ns = TIMER_NS, short_ns = SHORT_NS;

	for (uint64_t now_ns = 0; now_ns < 20 * NS_PER_S; now_ns += LOOK_NS) {
		if (now_ns >= timer_ns) {
			sample.repeats++;
			wait_ns *= 2;
			timer_ns += wait_ns;
			if (!is_lost(p, p->long_lost))
				return 0;
		}
		if (now_ns >= short_ns) {
			short_ns += SHORT_NS;
			if (!is_lost(p, p->short_lost))
				sample.other_acknowledged += TCP_WIRE_FRAME_BYTES;
			else if (p->short_lost != ALL && !is_lost(p, p->short_lost)) {
				sample.other_acknowledged += TCP_WIRE_FRAME_BYTES;
				sample.other_repeated++;
			}
		}
		sample.stalled_ns = now_ns + 1;
		sample.gap_ns = GAP_NS;
		if (!p->peer_stops)
			sample.heard_ns = NS_PER_S + now_ns / SHORT_NS * SHORT_NS;
		sample.peer_silent = p->peer_stops && now_ns > 2 * NS_PER_S;
		if (tcp_mtu_step(&p->rule, &sample) == TCP_MTU_LOST)
			return now_ns + 1;
	}
	return 0;
}

static struct played played(unsigned long_lost, unsigned short_lost)
{
	return (struct played){
		.random = runtime_seed(), .long_lost = long_lost, .short_lost = short_lost, .waiting_bytes = 9000
	};
}

static void a_way_that_loses_long_packets_alone_is_found_after_the_third_repetition(void **state)
{
	struct played p = played(ALL, 0);
	const uint64_t took_ns = stall(&p);

	(void)state;
	assert_true(took_ns >= 7 * TIMER_NS && took_ns < 8 * TIMER_NS);
}

static void with_other_proof_so_many_repetitions_are_enough(void **state)
{
	struct played p = played(ALL, 0);
	uint64_t took_ns;

	(void)state;
	p.alone = true;
	assert_int_equal(stall(&p), 0);
	p.enough = 1;
	took_ns = stall(&p);
	assert_true(took_ns >= TIMER_NS && took_ns < 2 * TIMER_NS);
	p.enough = 2;
	took_ns = stall(&p);
	assert_true(took_ns >= 3 * TIMER_NS && took_ns < 4 * TIMER_NS);
}

/* A port that goes down again and again leaves such proof behind, too. */
static void no_proof_counts_where_the_way_is_silent(void **state)
{
	struct played p = played(ALL, ALL);

	(void)state;
	p.peer_stops = true;
	for (p.enough = 1; p.enough < 4; p.enough++)
		assert_int_equal(stall(&p), 0);
}

/* All are lost while the port is down, none while it is up. */
static bool is_called_lost_though_the_port_was_down(uint64_t *random, unsigned enough)
{
	struct tcp_mtu_sample sample = {
		.waiting_bytes = 1500, .enough = enough, .other = enough ? 0 : 7, .gap_ns = GAP_NS
	};
	const uint64_t first_ns = NS_PER_S + random_below(random, 2 * NS_PER_S),
		       before_ns = random_below(random, first_ns);
	uint64_t timer_ns = TIMER_NS, wait_ns = TIMER_NS, change_ns = first_ns - before_ns, beat_ns = 0;
	uint64_t heard_ns = 4 * NS_PER_S - before_ns - random_below(random, BEAT_NS);
	struct tcp_mtu_rule rule = { 0 };
	bool up = false; /* since before_ns */

	for (uint64_t now_ns = 0; now_ns < 20 * NS_PER_S; now_ns += LOOK_NS) {
		if (now_ns >= change_ns) {
			up = !up;
			change_ns += NS_PER_S + random_below(random, 2 * NS_PER_S);
			beat_ns = now_ns +
				  random_below(random,
					       BEAT_NS); /* what was held back comes with a repetition of its own */
		}
		if (now_ns >= timer_ns) {
			sample.repeats++;
			wait_ns *= 2;
			timer_ns += wait_ns;
			if (up)
				return false;
		}
		if (up && now_ns >= beat_ns) {
			heard_ns = 4 * NS_PER_S + now_ns;
			sample.other_acknowledged += (uint64_t)TCP_MTU_SHORTS * TCP_WIRE_FRAME_BYTES;
			beat_ns += BEAT_NS;
		}
		sample.heard_ns = heard_ns - random_below(random, TCP_MTU_HEARD_NS / 2); /* the kernel's clock */
		sample.stalled_ns = now_ns + 1;
		sample.peer_silent = 4 * NS_PER_S + now_ns - sample.heard_ns > 2 * NS_PER_S;
		if (tcp_mtu_step(&rule, &sample) == TCP_MTU_LOST)
			return true;
	}
	return false;
}

static void a_port_that_goes_down_again_and_again_is_no_such_way(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned i = 0; i < 30000; i++)
		assert_false(is_called_lost_though_the_port_was_down(&random, i % 3));
}

/* Of so many packets, each of which is lost like any other. */
static unsigned found_by_mistake(unsigned lost, unsigned packets)
{
	struct played p = played(lost, lost);
	unsigned found = 0;

	for (unsigned i = 0; i < packets; i++)
		found += is_lost(&p, lost) && is_lost(&p, lost) && stall(&p) > 0; /* also as it was repeated at once */
	return found;
}

static void plain_loss_is_no_such_way(void **state)
{
	(void)state;
	assert_int_equal(found_by_mistake(10000, 10 * ALL), 0);      /* one in a hundred */
	assert_in_range(found_by_mistake(100000, ALL), 0, 60);       /* one in ten: about ten */
	assert_in_range(found_by_mistake(500000, ALL / 10), 0, 200); /* a half */
}

static void a_way_that_carries_nothing_is_none(void **state)
{
	struct played p = played(ALL, ALL);

	(void)state;
	assert_int_equal(stall(&p), 0);
}

/* Its kernel takes short frames for a while, and drops long ones where it has no memory for them. */
static void a_peer_that_is_stopped_has_none(void **state)
{
	struct played p = played(ALL, 0);

	(void)state;
	p.peer_stops = true;
	assert_int_equal(stall(&p), 0);
}

/* A receiver that takes nothing for now is asked for room; nothing is repeated. */
static void a_window_of_zero_is_none(void **state)
{
	struct tcp_mtu_rule rule = { 0 };
	struct tcp_mtu_sample sample = { .waiting_bytes = 9000, .heard_ns = NS_PER_S, .other = 7 };

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		sample.other_acknowledged += TCP_WIRE_FRAME_BYTES;
		assert_int_equal(tcp_mtu_step(&rule, &sample), TCP_MTU_FINE);
	}
}

static void a_packet_that_every_network_carries_is_none(void **state)
{
	struct played p = played(ALL, 0);

	(void)state;
	p.waiting_bytes = TCP_MTU_LEAST;
	assert_int_equal(stall(&p), 0);
	p.enough = 1;
	assert_int_equal(stall(&p), 0);
}

static void sizes_get_smaller_down_to_the_least(void **state)
{
	(void)state;
	assert_int_equal(tcp_mtu_next(65535), 8800);
	assert_int_equal(tcp_mtu_next(9000), 8800);
	assert_int_equal(tcp_mtu_next(8800), 4000);
	assert_int_equal(tcp_mtu_next(4000), 1500);
	assert_int_equal(tcp_mtu_next(1501), 1500);
	assert_int_equal(tcp_mtu_next(1500), TCP_MTU_LEAST);
	assert_int_equal(tcp_mtu_next(TCP_MTU_LEAST), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_way_that_loses_long_packets_alone_is_found_after_the_third_repetition),
		cmocka_unit_test(with_other_proof_so_many_repetitions_are_enough),
		cmocka_unit_test(no_proof_counts_where_the_way_is_silent),
		cmocka_unit_test(a_port_that_goes_down_again_and_again_is_no_such_way),
		cmocka_unit_test(plain_loss_is_no_such_way),
		cmocka_unit_test(a_way_that_carries_nothing_is_none),
		cmocka_unit_test(a_peer_that_is_stopped_has_none),
		cmocka_unit_test(a_window_of_zero_is_none),
		cmocka_unit_test(a_packet_that_every_network_carries_is_none),
		cmocka_unit_test(sizes_get_smaller_down_to_the_least),
	};

	runtime_start("mtu_rule_test", 20);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
