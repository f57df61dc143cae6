/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP transport linked in, without the plugin around it: the same suite, and how often payload was copied. A long
 * message lands in its final buffer, but for the first bytes of one that nobody expects; only a small one may be copied
 * wholly, into the eager window and out of it.
 */
#include "base/copy.h"
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "support/transport_suite.h"
#include "transport/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB ((size_t)1024 * 1024)

static struct params params;

static void params_complain(void *arg, const char *sentence)
{
	(void)arg;
	runtime_complain(EINVAL, "%s", sentence);
}

static void params_read(void)
{
	struct params_source source = params_from_environment();

	params_load(&source, params_complain, NULL, &params);
}

static struct transport *opened(void)
{
	struct transport *transport;

	assert_int_equal(transport_tcp.open(&params, &transport), 0);
	return transport;
}

static void counts_reset(void)
{
	atomic_store(&copy_counts.calls, 0);
	atomic_store(&copy_counts.bytes, 0);
}

/* Posts the receive first, as NCCL's receiver mostly does; then as many messages as asked for. */
static void transfer(struct transport *transport, size_t bytes, unsigned messages, unsigned window, bool receiver_late)
{
	struct traffic_shape shape = { .name = "copies",
				       .messages = messages,
				       .min_bytes = bytes,
				       .window = window,
				       .receiver_late = receiver_late ? 50 : 0,
				       .sender_late = receiver_late ? 0 : 50 };
	struct link link;

	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	counts_reset();
	assert_int_equal(traffic_between(&shape, runtime_seed(), 1, &transport_tcp, link.sender, link.receiver), 0);
	link_close(&link);
}

/*
 * Of one that nobody expects: what a read takes beyond its RTS, and the unscheduled bytes, if they came before their
 * receive.
 */
enum { MESSAGES = 24, COPIED_MOST = (256 + 32) << 10 };

static void of_long_messages_little_is_copied(void **state)
{
	static const size_t sizes[] = { 4 * MIB, 8 * MIB + 1 };
	struct transport *transport = opened();

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (unsigned late = 0; late <= 1; late++) {
			transfer(transport, sizes[i], MESSAGES, 8, late);
			assert_true(atomic_load(&copy_counts.bytes) <= MESSAGES * COPIED_MOST);
		}
	transport_tcp.close(transport);
}

/* Shows that the count counts: an eager message is copied into its sender's window. */
static void an_eager_message_is_copied_and_counted(void **state)
{
	const size_t bytes = params.eager_bytes / 2; /* of more one is only where it cannot go unscheduled */
	struct transport *transport = opened();

	(void)state;
	assert_true(bytes > COPY_UNCOUNTED_BYTES);
	transfer(transport, bytes, 50, 8, true);
	assert_true(atomic_load(&copy_counts.calls) >= 50);
	assert_true(atomic_load(&copy_counts.bytes) >= 50 * bytes);
	/* Into the window of the sender, out of the socket into that of the receiver, and out of it. */
	assert_true(atomic_load(&copy_counts.bytes) <= 3 * 50 * bytes);
	transport_tcp.close(transport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_long_messages_little_is_copied),
		cmocka_unit_test(an_eager_message_is_copied_and_counted),
	};
	const char *filter;
	int failed;

	runtime_start("copies_test", 100);
	runtime_set_streams(0);
	params_read();
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return failed + transport_suite_run(&transport_tcp, &params, "tcp",
					    TRANSPORT_SUITE_ROUNDS / (runtime_long() ? 5U : 20U));
}
