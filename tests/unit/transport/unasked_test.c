/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever TRIBUTARY_EAGER_BYTES says, messages of all lengths follow each other: none waits for room that never comes. */
#include "base/params.h"
#include "support/link.h"
#include "support/runtime.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void lengths_follow_each_other(const struct transport_ops *ops, size_t eager_bytes)
{
	struct transport *transport;
	struct params params;
	uint64_t random = runtime_seed();
	struct link link;

	params_defaults(&params);
	params.net = NET_CHOICE_TCP;
	params.eager_bytes = eager_bytes;
	snprintf(params.interfaces, sizeof(params.interfaces), "lo");
	assert_int_equal(ops->open(&params, &transport), 0);
	assert_int_equal(link_open(ops, transport, 0, &link), 0);
	/* The second neither fits behind the first nor before it. */
	assert_int_equal(link_exchange(&link, 20 << 10, 1), 0);
	assert_int_equal(link_exchange(&link, 48 << 10, 2), 0);
	assert_int_equal(link_exchange(&link, 64 << 10, 3), 0);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(link_exchange(&link, random_below(&random, eager_bytes + 1), i), 0);
	link_close(&link);
	ops->close(transport);
}

static void over_tcp(void **state)
{
	(void)state;
	lengths_follow_each_other(&transport_tcp, 64 << 10);
	lengths_follow_each_other(&transport_tcp, 33 << 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_tcp),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
