/* SPDX-License-Identifier: Apache-2.0 */
/* What the random programs are worth: a transport with each of these faults fails them, and without it does not. */
#include "base/log.h"
#include "base/params.h"
#include "support/contract_program.h"
#include "support/log_lines.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Once in so many calls: a fault that shows at once is easy to find. */
enum { EVERY = 150, OPERATIONS = 3000, STALL_MS = 100 };

enum fault {
	FAULT_NONE,
	FAULT_OTHER_TAG,      /* a message goes out with the tag of another */
	FAULT_WRONG_BYTE,     /* of a message, at its sender */
	FAULT_WRONG_SIZE,     /* that a receive says */
	FAULT_BEYOND,         /* a byte beyond a receive is written */
	FAULT_DONE_TOO_EARLY, /* a receive says that it is complete */
	FAULT_ERROR,
	FAULT_DROPPED,  /* a receive that the transport has taken and forgets */
	FAULT_REFUSES,  /* after some time no send is taken any more */
	FAULT_CONFUSED, /* after a message with one tag none with another one is taken */
	FAULT_COUNT
};

static struct faulty {
	enum fault fault;
	_Atomic unsigned calls, sends;
	int tag; /* of the last send that was taken */
	uint8_t wrong[CONTRACT_MAX_BYTES];
} faulty;

static bool is_now(enum fault fault)
{
	return faulty.fault == fault && atomic_fetch_add(&faulty.calls, 1) % EVERY == EVERY - 1;
}

static int faulty_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
		       struct transport_request **ret)
{
	const unsigned sends = atomic_fetch_add(&faulty.sends, 1);
	const int before = faulty.tag;
	int r;

	*ret = NULL;
	if (is_now(FAULT_ERROR))
		return -EIO;
	if ((faulty.fault == FAULT_REFUSES && sends > EVERY) ||
	    (faulty.fault == FAULT_CONFUSED && sends > EVERY && tag < before))
		return 0;
	if (is_now(FAULT_OTHER_TAG))
		tag = before;
	if (bytes && is_now(FAULT_WRONG_BYTE)) {
		memcpy(faulty.wrong, data, bytes);
		faulty.wrong[bytes / 2] ^= 1;
		data = faulty.wrong;
	}
	r = transport_tcp.send(connection, data, bytes, tag, registration, ret);
	if (*ret)
		faulty.tag = tag;
	return r;
}

static int faulty_receive(struct transport_connection *connection, int count, void *const *data, const size_t *bytes,
			  const int *tags, void *const *registrations, struct transport_request **ret)
{
	struct transport_request *forgotten;
	int r;

	if (is_now(FAULT_DROPPED)) {
		static uint8_t elsewhere[2 * CONTRACT_MAX_BYTES];
		void *to[TRANSPORT_MAX_RECVS];

		for (int i = 0; i < count; i++)
			to[i] = elsewhere;
		transport_tcp.receive(connection, count, to, bytes, tags, registrations, &forgotten);
	}
	r = transport_tcp.receive(connection, count, data, bytes, tags, registrations, ret);
	if (*ret && is_now(FAULT_BEYOND))
		((uint8_t *)data[0])[bytes[0]] ^= 1;
	return r;
}

static int faulty_test(struct transport_request *request, bool *ret_done, size_t *sizes)
{
	int r = transport_tcp.test(request, ret_done, sizes);

	if (r < 0 || !sizes)
		return r;
	if (*ret_done && is_now(FAULT_WRONG_SIZE))
		sizes[0]++;
	if (!*ret_done && is_now(FAULT_DONE_TOO_EARLY))
		*ret_done = true;
	return r;
}

static unsigned run(enum fault fault, struct contract_counts *counts)
{
	struct transport_ops ops = transport_tcp;
	struct contract_mover mover = { .label = "faulty", .ops = &ops, .max_recvs = 8 };
	struct params params;
	unsigned failed;

	if (fault >= FAULT_DROPPED) /* else a stall would be a fault of ours, or of a busy machine */
		mover.stall_ms = STALL_MS;
	ops.send = faulty_send;
	ops.receive = faulty_receive;
	ops.test = faulty_test;
	faulty.fault = fault;
	atomic_store(&faulty.calls, 0);
	atomic_store(&faulty.sends, 0);
	mover.first_seed = contract_first_seed(0);
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	assert_int_equal(transport_tcp.open(&params, &mover.transport), 0);
	failed = contract_programs_run(&mover, OPERATIONS, counts);
	transport_tcp.close(mover.transport);
	return failed;
}

static void each_fault_is_found(void **state)
{
	(void)state;
	for (enum fault fault = FAULT_NONE; fault < FAULT_COUNT; fault++) {
		struct contract_counts counts = { 0 };
		const unsigned failed = run(fault, &counts);

		print_message("fault %u: %u differences, %u stalls\n", (unsigned)fault, (unsigned)counts.differences,
			      (unsigned)counts.stalls);
		assert_int_equal(failed != 0, fault != FAULT_NONE);
		if (fault == FAULT_REFUSES || fault == FAULT_CONFUSED)
			assert_true(counts.stalls > 0);
		else if (fault != FAULT_NONE)
			assert_true(counts.differences + counts.stalls > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_fault_is_found) };

	runtime_start("programs_find_test", 60);
	log_set_sink(log_lines_ignore);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
