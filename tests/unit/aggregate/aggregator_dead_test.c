/* SPDX-License-Identifier: Apache-2.0 */
/* What a group leaves behind that has failed and that nobody has ended yet: nothing that others wait for. */
#include "aggregate/aggregator/internal.h"
#include "base/clock.h"
#include "base/params.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { PATIENCE_MS = 90000, MEMBERS = 2 };

static void nobody(void *arg)
{
	(void)arg;
}

static void open_all(struct params *params, struct transport **ret_transport, struct aggregator **ret)
{
	struct aggregator_setup setup = { .params = params,
					  .ops = &transport_tcp,
					  .thread_count = 1,
					  .groups_max = 2,
					  .memory_max_bytes = 64 << 20 };

	params_defaults(params);
	params->net = NET_CHOICE_TCP;
	params->timeout_ns = 5 * NS_PER_S;
	snprintf(params->interfaces, sizeof(params->interfaces), "lo");
	assert_int_equal(transport_tcp.open(params, &setup.transport), 0);
	assert_int_equal(aggregator_open(&setup, ret), 0);
	*ret_transport = setup.transport;
}

/* A member that is gone before the group stands: its listener is closed. */
static void handles_of_nobody(struct transport *transport, uint8_t *handles)
{
	struct transport_listener *listener;

	for (size_t i = 0; i < MEMBERS; i++) {
		assert_int_equal(transport_tcp.listen(transport, 0, handles + i * TRANSPORT_HANDLE_BYTES, &listener),
				 0);
		transport_tcp.close_listener(listener);
	}
}

static void a_failed_group_does_not_wait_for_its_turn(void **state)
{
	uint8_t handles[MEMBERS * TRANSPORT_HANDLE_BYTES], handle[TRANSPORT_HANDLE_BYTES];
	struct aggregator_request request = { .timeout_ns = NS_PER_S / 2, .member_count = MEMBERS, .handles = handles };
	struct aggregator_group *opaque;
	struct aggregator_status status;
	struct aggregator *aggregator;
	struct aggregator_share_user other;
	struct aggregator_group *group;
	struct transport *transport;
	struct params params;
	uint64_t most, deadline_ns = runtime_deadline_ns(PATIENCE_MS);

	(void)state;
	open_all(&params, &transport, &aggregator);
	handles_of_nobody(transport, handles);
	assert_int_equal(aggregator_begin(aggregator, &request, handle, &opaque), 0);
	group = (struct aggregator_group *)opaque;
	most = aggregator->share.most_bytes;
	aggregator_share_join(&aggregator->share, &other, nobody, NULL);
	/* Another group has all that there is, and this one waits. */
	assert_true(aggregator_share_begin(&other, most));
	assert_false(aggregator_share_begin(&group->user, 4096));
	assert_int_equal(aggregator_go(opaque, 0, 1, handle), 0);
	do {
		runtime_nap();
		aggregator_status(opaque, &status);
	} while (status.state != AGGREGATOR_FAILED && !runtime_past(deadline_ns));
	assert_int_equal(status.state, AGGREGATOR_FAILED);
	/* Its coordinator may be silent for as long as it likes: the other goes on. */
	aggregator_share_end(&other, most);
	while (!aggregator_share_begin(&other, most)) {
		assert_false(runtime_past(deadline_ns));
		runtime_nap();
	}
	aggregator_share_end(&other, most);
	aggregator_share_leave(&other);
	aggregator_end(opaque);
	aggregator_close(aggregator);
	transport_tcp.close(transport);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_group_does_not_wait_for_its_turn),
	};

	(void)argc;
	runtime_start(argv[0], 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
