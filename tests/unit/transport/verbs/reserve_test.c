/* SPDX-License-Identifier: Apache-2.0 */
/* Two cards over the fake, a device each: what the one carries for the other, and when. */
#include "transport/verbs/reserve.h"

#include "base/clock.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/parallel.h"

static const struct transport_ops *const ops = &transport_verbs;

static const struct fake_verbs_options two = { .devices = 2 };

static uint64_t written_by(unsigned device)
{
	struct fake_verbs_counts counts;

	fake_verbs_counts(&counts);
	return counts.data[device];
}

/* Messages until one of them has gone by this device alone. */
static void exchange_until_by(struct verbs_link_harness *harness, unsigned device)
{
	enum { BYTES = 1 << 20 };
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	uint64_t before, other;
	unsigned tag = 0;

	do {
		assert_false(runtime_past(deadline_ns));
		before = written_by(device);
		other = written_by(1 - device);
		assert_int_equal(link_exchange(&harness->link, BYTES, tag++), 0);
	} while (written_by(1 - device) != other || written_by(device) < before + BYTES);
}

/* ---- who carries ---- */

static void port_down(void)
{
	fake_verbs_port(0, false);
}

static void port_up(void)
{
	fake_verbs_port(0, true);
}

/* Nothing says so. */
static void path_lost(void)
{
	fake_verbs_path(0, false);
}

static void path_back(void)
{
	fake_verbs_path(0, true);
}

static void peer_not_reached(void)
{
	fake_verbs_path(0, false);
	fake_verbs_unreached(0, 0, 20 * NS_PER_MS);
}

static void peer_reached(void)
{
	fake_verbs_path(0, true);
	fake_verbs_unreached(0, UINT_MAX, 0);
}

static const struct {
	void (*lose)(void);
	void (*mend)(void);
} outages[] = { { port_down, port_up }, { path_lost, path_back }, { peer_not_reached, peer_reached } };

enum { OUTAGES = sizeof(outages) / sizeof(outages[0]) };

static void the_other_card_carries_while_the_own_one_cannot(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned i = 0; i < 2 * OUTAGES; i++) {
		verbs_link_harness_open(&harness, two, 1 + i / OUTAGES, false);
		assert_int_equal(link_exchange(&harness.link, 8 << 20, 1), 0);
		assert_int_equal(written_by(1), 0);
		for (unsigned k = 0; k < 2; k++) {
			outages[i % OUTAGES].lose();
			exchange_until_by(&harness, 1);
			outages[i % OUTAGES].mend();
			exchange_until_by(&harness, 0);
		}
		verbs_link_harness_close(&harness);
	}
}

static void a_card_that_fails_leaves_its_connections_to_the_other(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_open(&harness, two, 2, false);
	assert_int_equal(link_exchange(&harness.link, 1 << 20, 1), 0);
	fake_verbs_die(0);
	exchange_until_by(&harness, 1);
	verbs_link_harness_close(&harness);
}

/* The accepting side's queue pairs are connected first: none of them, or only its own, finds the peer. */
static void a_connection_is_made_where_the_own_card_reaches_nobody(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	for (unsigned after = 0; after < 2; after++) {
		verbs_link_harness_begin(&harness, two, NULL);
		fake_verbs_unreached(0, after, 20 * NS_PER_MS);
		fake_verbs_path(0, false);
		assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
		exchange_until_by(&harness, 1);
		peer_reached();
		exchange_until_by(&harness, 0);
		verbs_link_harness_close(&harness);
	}
}

static void port_of_the_own_card(uint64_t *random)
{
	fake_verbs_port(0, random_below(random, 2));
}

static void path_of_the_own_card(uint64_t *random)
{
	fake_verbs_path(0, random_below(random, 2));
}

/* Not both at once for long, for the time-out is short. */
static void losses_of_both(uint64_t *random)
{
	fake_verbs_lose((unsigned)random_below(random, 2),
			(enum fake_verbs_loss)random_below(random, FAKE_VERBS_LOSS_COUNT));
	fake_verbs_path(0, random_below(random, 2));
}

static void nothing_is_lost_as_the_own_port_comes_and_goes(void **state)
{
	(void)state;
	verbs_survive(1, false, port_of_the_own_card, runtime_long() ? 60 : 8);
	verbs_survive(3, false, port_of_the_own_card, runtime_long() ? 60 : 8);
}

static void nothing_is_lost_as_the_own_path_comes_and_goes(void **state)
{
	(void)state;
	verbs_survive(1, false, path_of_the_own_card, runtime_long() ? 60 : 8);
	verbs_survive(2, false, losses_of_both, runtime_long() ? 60 : 8);
}

/* ---- where it does not ---- */

static void fails(struct verbs_link_harness *harness)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct fake_verbs_counts counts;
	enum transport_next next;
	int r = 0;

	port_down();
	while (r == 0) {
		r = link_exchange(&harness->link, 100000, 1);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(r, -EREMOTEIO);
	(void)ops->progress(harness->link.receiver, &next);
	fake_verbs_counts(&counts);
	assert_int_equal(counts.posted[1], 0);
	link_close(&harness->link);
}

static void it_can_be_switched_off(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, two, NULL);
	harness.params.rdma_reserve = false;
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	assert_int_equal(((const struct verbs_connection *)harness.link.sender)->rail_count, 1);
	fails(&harness);
	verbs_link_harness_close(&harness);
}

/* The own one takes the memory: nothing is copied, and nothing goes over the other. */
static void a_card_that_refuses_memory_does_not_carry(void **state)
{
	static uint8_t memory[2][1 << 16];
	struct verbs_link_harness harness;
	void *registrations[2];

	(void)state;
	verbs_link_harness_open(&harness, two, 1, false);
	for (unsigned i = 0; i < 2; i++) {
		struct transport_connection *end = i ? harness.link.receiver : harness.link.sender;

		fake_verbs_fail_call(2);
		assert_int_equal(ops->memory_register(end, memory[i], sizeof(memory[i]), TRANSPORT_MEMORY_HOST,
						      &registrations[i]),
				 0);
		assert_true(fake_verbs_failed());
		assert_false(((const struct verbs_registration *)registrations[i])->copied);
		assert_true(((const struct verbs_connection *)end)->reserve_off);
	}
	assert_int_equal(link_exchange(&harness.link, 8 << 20, 1), 0);
	fails(&harness);
	verbs_link_harness_close(&harness);
}

/* While it carries: it is left at once. */
static void a_card_that_refuses_memory_later_carries_no_more(void **state)
{
	static uint8_t memory[1 << 16];
	struct verbs_link_harness harness;
	void *registration;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		verbs_link_harness_open(&harness, two, 1, false);
		path_lost();
		exchange_until_by(&harness, 1);
		fake_verbs_fail_call(2);
		assert_int_equal(ops->memory_register(i ? harness.link.receiver : harness.link.sender, memory,
						      sizeof(memory), TRANSPORT_MEMORY_HOST, &registration),
				 0);
		assert_true(fake_verbs_failed());
		path_back();
		exchange_until_by(&harness, 0);
		verbs_link_harness_close(&harness);
	}
}

/* ---- which port ---- */

static const char *reserve_of(const struct verbs_link_harness *harness, int device)
{
	struct verbs_transport *transport = (struct verbs_transport *)harness->transport;
	const struct verbs_port *port;

	verbs_devices_listen(&transport->cards);
	port = verbs_reserve_port(transport, &transport->devices.list[device]);
	return port ? port->name : "";
}

static void it_is_a_port_of_another_card(void **state)
{
	const int first[] = { 0, 1 }, both[] = { 0, 2 };
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, (struct fake_verbs_options){ .devices = 2, .ports = 2 }, NULL);
	assert_string_equal(reserve_of(&harness, 0), "fake1:1");
	assert_string_equal(reserve_of(&harness, 1), "fake1:1");
	assert_string_equal(reserve_of(&harness, 3), "fake0:1");
	fake_verbs_port_of(1, 1, false);
	assert_string_equal(reserve_of(&harness, 0), "fake1:2");
	fake_verbs_port_of(1, 2, false);
	assert_string_equal(reserve_of(&harness, 0), "fake1:1");
	assert_int_equal(ops->device_join(harness.transport, 2, first, &harness.device), 0);
	assert_string_equal(reserve_of(&harness, harness.device), "fake1:1");
	assert_int_equal(ops->device_join(harness.transport, 2, both, &harness.device), 0);
	assert_string_equal(reserve_of(&harness, harness.device), "");
	fake_verbs_die(1);
	assert_string_equal(reserve_of(&harness, 0), "");
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	verbs_link_harness_close(&harness);
}

/* In the calling thread alone. */
static void set_may_lock(bool may)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	assert_int_equal(syscall(SYS_capget, &header, data), 0);
	if (may)
		data[0].effective |= data[0].permitted & 1U << CAP_IPC_LOCK;
	else
		data[0].effective &= ~(1U << CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* What is registered twice would lock what the own port needs. */
static void it_leaves_scarce_memory_to_the_own_port(void **state)
{
	struct verbs_link_harness harness;
	struct rlimit before, limit;

	(void)state;
	verbs_link_harness_begin(&harness, two, NULL);
	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
	limit = before;
	set_may_lock(false);
	limit.rlim_cur = before.rlim_max < VERBS_LOCKED_ENOUGH / 1024 ? before.rlim_max : VERBS_LOCKED_ENOUGH / 1024;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	assert_string_equal(reserve_of(&harness, 0), "");
	limit.rlim_cur = VERBS_LOCKED_ENOUGH;
	if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		assert_string_equal(reserve_of(&harness, 0), "fake1");
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
	set_may_lock(true);
	assert_string_equal(reserve_of(&harness, 0), "fake1");
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	verbs_link_harness_close(&harness);
}

static void it_is_of_the_same_kind(void **state)
{
	struct verbs_link_harness harness;

	(void)state;
	verbs_link_harness_begin(&harness, two, NULL);
	assert_string_equal(reserve_of(&harness, 0), "fake1");
	ops->close(harness.transport);
	fake_verbs_set_port(1, true, false);
	assert_int_equal(ops->open(&harness.params, &harness.transport), 0);
	assert_string_equal(reserve_of(&harness, 0), "");
	assert_int_equal(link_open(ops, harness.transport, 0, &harness.link), 0);
	verbs_link_harness_close(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_other_card_carries_while_the_own_one_cannot),
		cmocka_unit_test(a_card_that_fails_leaves_its_connections_to_the_other),
		cmocka_unit_test(a_connection_is_made_where_the_own_card_reaches_nobody),
		cmocka_unit_test(nothing_is_lost_as_the_own_port_comes_and_goes),
		cmocka_unit_test(nothing_is_lost_as_the_own_path_comes_and_goes),
		cmocka_unit_test(it_can_be_switched_off),
		cmocka_unit_test(a_card_that_refuses_memory_does_not_carry),
		cmocka_unit_test(a_card_that_refuses_memory_later_carries_no_more),
		cmocka_unit_test(it_is_a_port_of_another_card),
		cmocka_unit_test(it_leaves_scarce_memory_to_the_own_port),
		cmocka_unit_test(it_is_of_the_same_kind),
	};

	if (!verbs_reserve_may_lock()) {
		fputs("skipped: without CAP_IPC_LOCK, and with so low a limit (ulimit -l), no card stands by\n", stderr);
		return 77 /* skipped, to run-tests */;
	}
	runtime_start("verbs_reserve_test", 200);
	return parallel_run_group_tests(tests, NULL, NULL);
}
