/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pace/port.h"

#include "base/clock.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SENDERS = 3 };
#define WIRE_BPS    UINT64_C(125000000)
#define PAYLOAD_BPS (0.94 * WIRE_BPS)

struct rig {
	struct pace_port port;
	struct pace_sender senders[SENDERS];
	uint64_t now_ns;
};

/* Of senders that have messages coming. */
static void play(struct rig *rig, unsigned ms, const double *rates_Bps)
{
	for (unsigned k = 0; k < SENDERS; k++) {
		pace_port_turns(&rig->port, &rig->senders[k], rig->now_ns);
		rig->senders[k].coming_count = rates_Bps[k] > 0;
	}
	for (unsigned i = 0; i < ms; i++) {
		rig->now_ns += NS_PER_MS;
		for (unsigned k = 0; k < SENDERS; k++)
			pace_port_came(&rig->port, &rig->senders[k], (uint64_t)(rates_Bps[k] / 1000), rig->now_ns);
		pace_port_pass(&rig->port, NS_PER_MS);
	}
}

static void rig_make(struct rig *rig, uint64_t port_Bps)
{
	*rig = (struct rig){ .now_ns = NS_PER_S };
	pace_port_init(&rig->port, port_Bps);
	for (unsigned i = 0; i < SENDERS; i++)
		pace_port_join(&rig->port, &rig->senders[i]);
}

static void want(struct rig *rig, unsigned sender, bool wants, unsigned streams)
{
	pace_port_want(&rig->port, &rig->senders[sender], wants, streams, rig->now_ns);
}

static int holder(struct rig *rig)
{
	const struct pace_sender *sender = pace_port_turn(&rig->port, rig->now_ns);

	return sender ? (int)(sender - rig->senders) : -1;
}

static const double even[SENDERS] = { 10e6, 10e6, 10e6 };

static void the_turn_goes_round(void **state)
{
	struct rig rig;

	(void)state;
	rig_make(&rig, 0);
	want(&rig, 1, true, 1);
	assert_int_equal(holder(&rig), -1); /* how full the port is shows first */
	play(&rig, 20, even);
	assert_int_equal(holder(&rig), 1);
	want(&rig, 0, true, 1);
	want(&rig, 2, true, 1);
	want(&rig, 2, false, 1);
	want(&rig, 2, true, 1);
	assert_int_equal(holder(&rig), 1);
	want(&rig, 1, true, 2); /* a gain: the next one at once */
	want(&rig, 1, false, 2);
	assert_int_equal(holder(&rig), 0);
	want(&rig, 0, false, 1); /* tried nothing */
	assert_int_equal(holder(&rig), 2);
	want(&rig, 1, true, 2);
	rig.now_ns += PACE_PORT_TURN_NS - 1;
	assert_int_equal(holder(&rig), 2);
	rig.now_ns++; /* does not give it back */
	assert_int_equal(holder(&rig), 1);
	pace_port_leave(&rig.port, &rig.senders[1], rig.now_ns);
	assert_int_equal(holder(&rig), 2);
	rig.now_ns += 10 * PACE_PORT_TURN_NS; /* nobody else asks */
	assert_int_equal(holder(&rig), 2);
	pace_port_leave(&rig.port, &rig.senders[2], rig.now_ns);
	assert_int_equal(holder(&rig), -1);
}

/* Tries two streams, in which all have these rates, and goes back to one. */
static void try_in_vain(struct rig *rig, unsigned sender, const double *rates_Bps)
{
	want(rig, sender, true, 1);
	while (holder(rig) != (int)sender)
		rig->now_ns += NS_PER_MS;
	play(rig, 30, even);
	want(rig, sender, true, 2);
	play(rig, 40, rates_Bps);
	want(rig, sender, true, 1);
	want(rig, sender, false, 1);
}

/* By the sum of them nobody tries twice as often where many send. */
static void what_brings_nothing_is_followed_by_a_longer_hold(void **state)
{
	const double taken[SENDERS] = { 14e6, 8e6, 8e6 };
	struct rig rig;
	uint64_t last_ns = 0;

	(void)state;
	rig_make(&rig, 0);
	play(&rig, 20, even);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t from_ns, hold_ns;

		try_in_vain(&rig, i % SENDERS, even);
		want(&rig, 0, true, 1);
		from_ns = rig.now_ns;
		while (holder(&rig) < 0)
			rig.now_ns += NS_PER_MS;
		hold_ns = rig.now_ns - from_ns;
		assert_in_range(hold_ns, 40 * NS_PER_MS, 30 * NS_PER_S);
		assert_true(hold_ns == 30 * NS_PER_S || hold_ns >= 2 * last_ns);
		last_ns = hold_ns;
		want(&rig, 0, false, 1);
	}
	assert_int_equal(last_ns, 30 * NS_PER_S);
	/* What it gained the others lost: the port is full, unless they depend on what they get. */
	for (unsigned sends = 0; sends < 2; sends++) {
		const uint64_t hold_ns = sends ? 100 * NS_PER_MS : 6400 * NS_PER_MS;

		rig_make(&rig, 0);
		rig.port.sends = sends;
		play(&rig, 20, even);
		try_in_vain(&rig, 0, taken);
		want(&rig, 0, true, 1);
		rig.now_ns += hold_ns - NS_PER_MS;
		assert_int_equal(holder(&rig), -1);
		rig.now_ns += NS_PER_MS;
		assert_int_equal(holder(&rig), 0);
	}
}

static void a_port_is_full_by_its_speed(void **state)
{
	static const struct {
		uint64_t port_Bps;
		double part;
		bool full;
	} cases[] = {
		{ WIRE_BPS, 0.94, true },  { WIRE_BPS, 0.92, false }, { WIRE_BPS, 1.04, true },
		{ WIRE_BPS, 1.06, false }, /* faster than is known */
		{ 0, 0.94, false },        { 10 * WIRE_BPS, 0.94, false },
	};
	struct rig rig;

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const double each = cases[i].part * PAYLOAD_BPS / SENDERS, rates[SENDERS] = { each, each, each };

		rig_make(&rig, cases[i].port_Bps);
		play(&rig, 19, rates);
		assert_false(pace_port_is_full(&rig.port));
		play(&rig, 1, rates);
		assert_int_equal(pace_port_is_full(&rig.port), cases[i].full);
	}
	/* What wavers at the bound is no news. */
	for (unsigned i = 0; i < 2; i++) {
		const double each = (i ? 0.89 : 0.91) * PAYLOAD_BPS / SENDERS, rates[SENDERS] = { each, each, each };

		rig_make(&rig, WIRE_BPS);
		play(&rig, 20, (double[]){ 0.95 * PAYLOAD_BPS, 0, 0 });
		play(&rig, 1000, rates);
		assert_int_equal(pace_port_is_full(&rig.port), !i);
	}
	/* Another process of the host has its share. */
	rig_make(&rig, WIRE_BPS);
	pace_port_came(&rig.port, NULL, (uint64_t)(0.02 * 0.1 * PAYLOAD_BPS), rig.now_ns);
	play(&rig, 20, (double[]){ 0.85 * PAYLOAD_BPS, 0, 0 });
	assert_true(pace_port_is_full(&rig.port));
}

static void near_to(double value, double wanted)
{
	assert_true(value > 0.98 * wanted && value < 1.02 * wanted);
}

/* What comes soon after a change is of the streams before. */
static void settle(struct rig *rig)
{
	play(rig, 9, (double[]){ 15e6, 1e6, 1e6 });
	rig->now_ns += NS_PER_MS;
	assert_int_equal(pace_port_others(&rig->port, rig->now_ns).measured_ns, 0);
}

/* Rounds end, and then only the slowest sends: that is no loss of the others. */
static void others_count_while_their_messages_come(void **state)
{
	struct pace_port_others others;
	struct rig rig;

	(void)state;
	rig_make(&rig, 0);
	play(&rig, 20, even);
	want(&rig, 0, true, 1);
	assert_int_equal(holder(&rig), 0);
	play(&rig, 30, (double[]){ 10e6, 10e6, 30e6 });
	assert_int_equal(pace_port_others(&rig.port, rig.now_ns).measured_ns, 0); /* it has tried nothing yet */
	want(&rig, 0, true, 2);
	settle(&rig);
	play(&rig, 20, (double[]){ 15e6, 10e6, 30e6 });
	play(&rig, 20, (double[]){ 15e6, 10e6, 0 });
	others = pace_port_others(&rig.port, rig.now_ns);
	assert_in_range(others.measured_ns, 38 * NS_PER_MS, 41 * NS_PER_MS);
	near_to(others.kept, 1);
	assert_true(others.lost_Bps < 1e6);
	near_to(others.each_Bps, (40 * 10e6 + 20 * 30e6) / 60);
	/* While the holder rests it is not its doing. */
	play(&rig, 50, (double[]){ 0, 1e6, 1e6 });
	near_to(pace_port_others(&rig.port, rig.now_ns).kept, 1);
	/* Fewer streams or more: a new trial. */
	want(&rig, 0, true, 3);
	assert_int_equal(pace_port_others(&rig.port, rig.now_ns).measured_ns, 0);
	settle(&rig);
	play(&rig, 40, (double[]){ 20e6, 8e6, 24e6 });
	others = pace_port_others(&rig.port, rig.now_ns);
	near_to(others.kept, 0.8);
	near_to(others.lost_Bps, 8e6);
	near_to(others.each_Bps, 16e6);
	/* As it was: what the others send is usual again. */
	want(&rig, 0, true, 1);
	assert_int_equal(pace_port_others(&rig.port, rig.now_ns).measured_ns, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_turn_goes_round),
		cmocka_unit_test(what_brings_nothing_is_followed_by_a_longer_hold),
		cmocka_unit_test(a_port_is_full_by_its_speed),
		cmocka_unit_test(others_count_while_their_messages_come),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
