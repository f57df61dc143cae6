/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of TCP that move less than they were asked to: one of a whole life (life.h), for every length, as far as
 * that can be sampled; and all of random programs over the contract. Nothing may come of it but more calls.
 *
 * Needs a build with FAULTS=1.
 */
#include "base/log.h"
#include "base/params.h"
#include "life.h"
#include "support/contract_program.h"
#include "support/log_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#ifdef TRIBUTARY_FAULTS

#define TIMEOUT_NS UINT64_C(10000000000)

enum {
	ALL_UP_TO = 40,      /* each of the first calls; then fewer and fewer */
	ALL_BYTES_UP_TO = 8, /* each of the first lengths, and of the last */
	BYTES_SAMPLED = 4,   /* between them */
	OPERATIONS = 3000,
	OPERATIONS_LONG = 100000,
};

static struct params params;

static void set_params(void)
{
	params_defaults(&params);
	params.net = NET_CHOICE_TCP;
	params.timeout_ns = TIMEOUT_NS;
	runtime_draw_streams(0, &params.streams, &params.movers);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
}

static void cut_once(enum sys_fault_kind kind, uint64_t nth, size_t bytes, size_t *ret_whole)
{
	int r;

	sys_fault_cut(kind, nth, bytes);
	r = life_of(&transport_tcp, &params, runtime_seed() + nth);
	*ret_whole = sys_fault_whole_bytes(kind);
	sys_fault_cut(kind, 0, 0);
	if (r < 0)
		fail_msg("%s %" PRIu64 " of %zu bytes moves %zu: %d", kind == SYS_FAULT_READ ? "read" : "write", nth,
			 *ret_whole, bytes, r);
}

/* The lengths of a call differ from run to run, so the last ones are counted from what the run before had. */
static void any_length_is_enough(enum sys_fault_kind kind)
{
	size_t whole = 1, before;
	uint64_t random = runtime_seed();
	unsigned runs = 0;

	for (uint64_t nth = 1; whole; nth += nth < ALL_UP_TO || runtime_long() ? 1 : nth / 4) {
		cut_once(kind, nth, 1, &whole);
		before = whole;
		for (size_t bytes = 2; whole && bytes < ALL_BYTES_UP_TO && bytes < before; bytes++, runs++)
			cut_once(kind, nth, bytes, &whole);
		for (size_t less = 1; whole && less < ALL_BYTES_UP_TO && less < before; less++, runs++)
			cut_once(kind, nth, before - less, &whole);
		for (unsigned i = 0; whole && i < BYTES_SAMPLED; i++, runs++)
			cut_once(kind, nth, 1 + random_below(&random, before), &whole);
	}
	print_message("%u runs\n", runs);
	assert_true(runs > 100);
}

static void a_read_may_bring_less(void **state)
{
	(void)state;
	any_length_is_enough(SYS_FAULT_READ);
}

static void a_write_may_take_less(void **state)
{
	(void)state;
	any_length_is_enough(SYS_FAULT_WRITE);
}

static unsigned ends_that_stand;

static void cut_all(bool cuts)
{
	sys_fault_cut(SYS_FAULT_READ, 0, cuts ? SIZE_MAX : 0);
	sys_fault_cut(SYS_FAULT_WRITE, 0, cuts ? SIZE_MAX : 0);
}

/* Not while it connects: the first bytes into an empty socket are taken whole, or it is broken (acceptor.c). */
static int cut_listen(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
		      struct transport_listener **ret)
{
	cut_all(false);
	ends_that_stand = 0;
	return transport_tcp.listen(transport, device, handle, ret);
}

static void count_end(bool stands)
{
	ends_that_stand += stands;
	if (stands && ends_that_stand == 2)
		cut_all(true);
}

static int cut_connect(struct transport *transport, int device, int traffic_class,
		       uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	int r = transport_tcp.connect(transport, device, traffic_class, handle, ret);

	count_end(r == 0 && *ret);
	return r;
}

static int cut_accept(struct transport_listener *listener, struct transport_connection **ret)
{
	int r = transport_tcp.accept(listener, ret);

	count_end(r == 0 && *ret);
	return r;
}

static void all_may_move_less(void **state)
{
	struct transport_ops ops = transport_tcp;
	struct contract_mover mover = { .label = "tcp, short reads and writes",
					.ops = &ops,
					.max_recvs = TRANSPORT_MAX_RECVS,
					.first_seed = contract_first_seed(0) };
	struct contract_counts counts = { 0 };
	unsigned failed;

	(void)state;
	ops.listen = cut_listen;
	ops.connect = cut_connect;
	ops.accept = cut_accept;
	params.streams = 1; /* others are dialled later */
	assert_int_equal(transport_tcp.open(&params, &mover.transport), 0);
	failed = contract_programs_run(&mover, runtime_long() ? OPERATIONS_LONG : OPERATIONS, &counts);
	cut_all(false);
	transport_tcp.close(mover.transport);
	contract_counts_print(mover.label, &counts);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_may_bring_less),
		cmocka_unit_test(a_write_may_take_less),
		cmocka_unit_test(all_may_move_less),
	};
	const char *filter;

	runtime_start("tcp_short_test", 280);
	set_params();
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	log_set_sink(log_lines_ignore);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return life_skipped();
}

#endif
