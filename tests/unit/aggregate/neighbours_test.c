/*
 * Members that share a host: what they send each other stays in the host's memory, copied once; and where that cannot be
 * had, at whatever step of coming together, they reach each other over the network, and the sums are the same.
 */
#include "base/copy.h"
#include "support/runtime.h"
#include "transport/shm/shm.h"
#include "unit/aggregate/party.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LARGE = 300007, SMALL = 1000 };

/* Everybody reduces so many floats once; the sum is checked. */
static void reduce_once(struct party *party, size_t count)
{
	struct aggregate_request *requests[PARTY_MAX] = { 0 };
	float *send[PARTY_MAX], *recv[PARTY_MAX];

	for (size_t m = 0; m < party->count; m++) {
		send[m] = malloc(count * sizeof(float));
		recv[m] = calloc(count, sizeof(float));
		assert_non_null(send[m]);
		assert_non_null(recv[m]);
		for (size_t i = 0; i < count; i++)
			send[m][i] = (float)((m + 1) * (i % 1000));
		assert_int_equal(party_reduce(&party->members[m], send[m], recv[m], count, REDUCE_FLOAT32, REDUCE_SUM,
					      &requests[m]),
				 0);
	}
	assert_int_equal(party_finish(party, requests), 0);
	for (size_t m = 0; m < party->count; m++) {
		for (size_t i = 0; i < count; i++) {
			float want = (float)(party->count * (party->count + 1) / 2 * (i % 1000));

			if (recv[m][i] != want)
				fail_msg("member %zu, element %zu: %g, not %g", m, i, (double)recv[m][i], (double)want);
		}
		free(send[m]);
		free(recv[m]);
	}
}

static struct aggregate_counters all_counters(const struct party *party)
{
	struct aggregate_counters all = { 0 };

	for (size_t m = 0; m < party->count; m++) {
		struct aggregate_counters one;

		aggregate_counters(party->members[m].group, &one);
		all.bytes_sent += one.bytes_sent;
		all.bytes_received += one.bytes_received;
		all.host_bytes_sent += one.host_bytes_sent;
		all.bytes_copied += one.bytes_copied;
	}
	return all;
}

static size_t neighbours_of(const struct party *party, size_t member)
{
	struct aggregate_facts facts;

	aggregate_facts(party->members[member].group, &facts);
	return facts.neighbours;
}

static void open_party(struct party *party, const char *leaves)
{
	struct params params;

	party_params(&params);
	assert_int_equal(party_open(party, &params, leaves), 0);
}

/* ---- what goes where ---- */

static void what_stays_on_a_host_is_not_on_the_network(void **state)
{
	struct aggregate_counters counters;
	struct party party;

	(void)state;
	open_party(&party, "a4");
	for (size_t m = 0; m < party.count; m++)
		assert_int_equal(neighbours_of(&party, m), 3);
	reduce_once(&party, LARGE);
	reduce_once(&party, SMALL);
	counters = all_counters(&party);
	assert_int_equal(counters.bytes_sent, 0);
	assert_int_equal(counters.bytes_received, 0);
	/* Up and down; three inputs to each of four; three words about the large one. */
	assert_int_equal(counters.host_bytes_sent, 2 * 3 * LARGE * 4 + 4 * 3 * (SMALL * 4 + 64) + 3 * 64);
	party_close(&party);
}

static void other_hosts_are_reached_over_the_network(void **state)
{
	struct aggregate_counters counters;
	struct party party;

	(void)state;
	open_party(&party, "a3b1a2");
	for (size_t m = 0; m < party.count; m++)
		assert_int_equal(neighbours_of(&party, m), m < 3 ? 2 : m == 3 ? 0 : 1);
	reduce_once(&party, LARGE);
	counters = all_counters(&party);
	/* Three hosts: every one but the root's sends its sum and is sent the result. The rest: six words of 64 bytes. */
	assert_in_range(counters.bytes_sent, 2 * 2 * LARGE * 4, 2 * 2 * LARGE * 4 + 6 * 64);
	assert_in_range(counters.host_bytes_sent, 2 * 3 * LARGE * 4, 2 * 3 * LARGE * 4 + 6 * 64);
	party_close(&party);
}

static void large_operations_are_copied_once_and_small_ones_thrice(void **state)
{
	struct aggregate_counters before, counters;
	struct party party;
	uint64_t copied;

	(void)state;
	open_party(&party, "a4");
	copied = atomic_load(&copy_counts.bytes);
	reduce_once(&party, LARGE);
	counters = all_counters(&party);
	/* Read out of the sender's memory into its place, by the system; nothing else. */
	assert_int_equal(counters.bytes_copied, 0);
	assert_int_equal(atomic_load(&copy_counts.bytes), copied);
	before = counters;
	reduce_once(&party, SMALL);
	counters = all_counters(&party);
	/* Once behind its header, by each member; into the window and out of it, for each of three others. */
	assert_int_equal(counters.bytes_copied, 4 * SMALL * 4);
	assert_int_equal(counters.host_bytes_sent - before.host_bytes_sent, 4 * 3 * (SMALL * 4 + 64));
	assert_int_equal(atomic_load(&copy_counts.bytes) - copied, 2 * 4 * 3 * (SMALL * 4 + 64));
	party_close(&party);
}

/* kernel.yama.ptrace_scope, a container: the transport goes on through pieces, two copies in all, still off the network. */
static void memory_that_may_not_be_read_is_copied_twice(void **state)
{
	struct aggregate_counters counters;
	struct party party;
	uint64_t copied;

	(void)state;
	shm_set_pull(false);
	open_party(&party, "a3");
	shm_set_pull(true);
	assert_int_equal(neighbours_of(&party, 0), 2);
	copied = atomic_load(&copy_counts.bytes);
	reduce_once(&party, LARGE);
	counters = all_counters(&party);
	assert_int_equal(counters.bytes_sent, 0);
	assert_int_equal(atomic_load(&copy_counts.bytes) - copied, 2 * 2 * 2 * LARGE * 4);
	party_close(&party);
}

/* ---- where it cannot be had ---- */

static void switched_off_everywhere(void **state)
{
	struct params params;
	struct party party;

	(void)state;
	party_params(&params);
	params.aggregate_shm = false;
	assert_int_equal(party_open(&party, &params, "a3"), 0);
	reduce_once(&party, LARGE);
	for (size_t m = 0; m < party.count; m++)
		assert_int_equal(neighbours_of(&party, m), 0);
	assert_int_equal(all_counters(&party).host_bytes_sent, 0);
	party_close(&party);
}

/* Its own table in place of shared memory's, which fails where it is told to. */
enum broken_call {
	BROKEN_NONE,
	BROKEN_LISTEN,
	BROKEN_CONNECT,
	BROKEN_ACCEPT, /* an error, and what waits is lost */
	BROKEN_DROP,   /* it is turned away without one */
	BROKEN_SEND,
	BROKEN_RECEIVE,
	BROKEN_RECEIVED, /* test */
	BROKEN_CALL_COUNT
};
static const char *const call_names[BROKEN_CALL_COUNT] = { "none",         "listen", "connect", "accept",
							   "accept, drop", "send",   "receive", "test" };
static struct {
	enum broken_call call;
	_Atomic int64_t left;    /* the call that fails; not positive: none */
	_Atomic uint64_t failed; /* so often */
} broken_host;

static bool host_fails(enum broken_call call)
{
	bool fails = broken_host.call == call && atomic_fetch_sub(&broken_host.left, 1) == 1;

	atomic_fetch_add(&broken_host.failed, fails);
	return fails;
}

static int host_listen(struct transport *transport, int device, uint8_t handle[static TRANSPORT_HANDLE_BYTES],
		       struct transport_listener **ret)
{
	return host_fails(BROKEN_LISTEN) ? -EMFILE : transport_shm.listen(transport, device, handle, ret);
}

static int host_connect(struct transport *transport, int device, int traffic_class,
			uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct transport_connection **ret)
{
	return host_fails(BROKEN_CONNECT) ? -EPERM
					  : transport_shm.connect(transport, device, traffic_class, handle, ret);
}

static int host_accept_broken(struct transport_listener *listener, struct transport_connection **ret)
{
	int r = transport_shm.accept(listener, ret);

	if (r < 0 || !*ret)
		return r;
	if (host_fails(BROKEN_ACCEPT))
		r = -EMFILE;
	else if (!host_fails(BROKEN_DROP))
		return 0;
	transport_shm.close_connection(*ret);
	*ret = NULL;
	return r;
}

static int host_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		     struct transport_request **ret)
{
	return host_fails(BROKEN_SEND) ? -EREMOTEIO
				       : transport_shm.send(connection, data, bytes, tag, registration, ret);
}

static int host_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			const int *tags, void *const *registrations, struct transport_request **ret)
{
	return host_fails(BROKEN_RECEIVE)
		       ? -EREMOTEIO
		       : transport_shm.receive(connection, count, data, bytes, tags, registrations, ret);
}

/* Of receives that are not done: a send fails only where the receiver has closed the connection without having it. */
static int host_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	bool receives = ((const struct shm_request *)request)->kind != SHM_REQUEST_SEND;
	int r = transport_shm.test(request, ret_done, sizes);

	return receives && r == 0 && !*ret_done && host_fails(BROKEN_RECEIVED) ? -EREMOTEIO : r;
}

static struct transport_ops broken_table;

/* A party whose member of that index errs at that call while it comes together. */
static void come_together(size_t member, enum broken_call call, int64_t which)
{
	struct aggregate_setup setup;
	struct params params;
	struct party party;
	size_t on_host = 0;

	party_params(&params);
	broken_table = transport_shm;
	broken_table.listen = host_listen;
	broken_table.connect = host_connect;
	broken_table.accept = host_accept_broken;
	broken_table.send = host_send;
	broken_table.receive = host_receive;
	broken_table.test = host_test;
	broken_host.call = call;
	atomic_store(&broken_host.left, which);
	atomic_store(&broken_host.failed, 0);
	assert_int_equal(party_gather(&party, &params, "a3b"), 0);
	setup = party_setup(&party, member);
	setup.host_ops = &broken_table;
	aggregate_close_listener(party.members[member].listener);
	aggregate_close(party.members[member].engine);
	assert_int_equal(aggregate_open(&setup, &party.members[member].engine), 0);
	assert_int_equal(aggregate_listen(party.members[member].engine, 0, party.members[member].handle,
					  &party.members[member].listener),
			 0);
	if (party_connect(&party) != 0)
		fail_msg("%s %d of member %zu: %s", call_names[call], (int)which, member, party.members[0].reason);
	atomic_store(&broken_host.left, 0);
	for (size_t m = 0; m < party.count; m++)
		on_host += neighbours_of(&party, m);
	if (atomic_load(&broken_host.failed))
		assert_true(on_host < 6);
	else
		assert_int_equal(on_host, 6);
	reduce_once(&party, LARGE);
	reduce_once(&party, SMALL);
	party_close(&party);
}

static void at_any_step_the_network_takes_its_place(void **state)
{
	unsigned fds = runtime_fd_count();

	(void)state;
	come_together(0, BROKEN_NONE, 0);
	for (enum broken_call call = BROKEN_LISTEN; call < BROKEN_CALL_COUNT; call++)
		for (int64_t which = 1; which <= (call == BROKEN_LISTEN ? 1 : 4); which++)
			come_together((size_t)which % 3, call, which);
	assert_int_equal(runtime_fd_count(), fds);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_stays_on_a_host_is_not_on_the_network),
		cmocka_unit_test(other_hosts_are_reached_over_the_network),
		cmocka_unit_test(large_operations_are_copied_once_and_small_ones_thrice),
		cmocka_unit_test(memory_that_may_not_be_read_is_copied_twice),
		cmocka_unit_test(switched_off_everywhere),
		cmocka_unit_test(at_any_step_the_network_takes_its_place),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
