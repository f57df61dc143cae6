/* SPDX-License-Identifier: Apache-2.0 */
/* Which stream the next bytes go to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/params.h"
#include "transport/tcp/tcp.h"

enum { PRIMARY, FAST, NEW, STREAMS };

static struct params params;
static struct tcp_transport transport = { .params = &params };
static struct tcp_stream streams[STREAMS];
static struct tcp_connection connection;

/* 10 GB/s with 2 MB on its way, beside a stream that was dialled anew. */
static int begin(void **state)
{
	(void)state;
	params_defaults(&params);
	memset(streams, 0, sizeof(streams));
	memset(&connection, 0, sizeof(connection));
	connection.transport = &transport;
	connection.streams = streams;
	connection.stream_count = STREAMS;
	connection.s.open_bytes = 4 << 20;
	for (unsigned i = 0; i < STREAMS; i++)
		streams[i] = (struct tcp_stream){ .connection = &connection, .index = (uint8_t)i, .live = true };
	tcp_connection_use(&connection, 7);
	streams[FAST].rate_Bps = 10000000000;
	streams[FAST].tx_queued = 2000000;
	return 0;
}

static void a_stream_that_was_not_measured_yet_gets_something(void **state)
{
	(void)state;
	assert_ptr_equal(tcp_stripe_pick(&connection), &streams[NEW]);
	assert_ptr_equal(tcp_stripe_least(&connection), &streams[NEW]);
}

static void it_does_not_get_much_before_it_is_measured(void **state)
{
	uint64_t bytes = 0;

	(void)state;
	while (tcp_stripe_pick(&connection) == &streams[NEW]) {
		streams[NEW].tx_queued += tcp_stripe_segment(&connection);
		bytes += tcp_stripe_segment(&connection);
		assert_true(bytes <= 1 << 20);
	}
	assert_ptr_equal(tcp_stripe_pick(&connection), &streams[FAST]);
}

static void a_slow_one_has_as_little_on_its_way(void **state)
{
	(void)state;
	streams[NEW].rate_Bps = 100000000;
	assert_ptr_equal(tcp_stripe_pick(&connection), &streams[FAST]);
	streams[FAST].tx_queued = 39000000; /* 3.9 ms */
	assert_ptr_equal(tcp_stripe_pick(&connection), &streams[NEW]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_stream_that_was_not_measured_yet_gets_something, begin),
		cmocka_unit_test_setup(it_does_not_get_much_before_it_is_measured, begin),
		cmocka_unit_test_setup(a_slow_one_has_as_little_on_its_way, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
