/* What a group leaves behind that has failed and that nobody has ended yet: nothing that others wait for. */
#include "aggregate/aggregator/server_internal.h"
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

static void open_all(struct params *params, struct transport **ret_transport, struct aggregate_server **ret)
{
	struct aggregate_server_setup setup = { .params = params,
						.ops = &transport_tcp,
						.thread_count = 1,
						.groups_max = 2,
						.memory_max_bytes = 64 << 20 };

	params_defaults(params);
	params->net = NET_CHOICE_TCP;
	params->timeout_ns = 5 * NS_PER_S;
	snprintf(params->interfaces, sizeof(params->interfaces), "lo");
	assert_int_equal(transport_tcp.open(params, &setup.transport), 0);
	assert_int_equal(aggregate_server_open(&setup, ret), 0);
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
	struct aggregate_server_request request = { .timeout_ns = NS_PER_S / 2,
						    .member_count = MEMBERS,
						    .handles = handles };
	struct aggregate_server_group *opaque;
	struct aggregate_server_look look;
	struct aggregate_server *server;
	struct server_share_user other;
	struct server_group *group;
	struct transport *transport;
	struct params params;
	uint64_t most, deadline_ns = runtime_deadline_ns(PATIENCE_MS);

	(void)state;
	open_all(&params, &transport, &server);
	handles_of_nobody(transport, handles);
	assert_int_equal(aggregate_server_begin(server, &request, handle, &opaque), 0);
	group = (struct server_group *)opaque;
	most = server->share.most_bytes;
	server_share_join(&server->share, &other, nobody, NULL);
	/* Another group has all that there is, and this one waits. */
	assert_true(server_share_begin(&other, most));
	assert_false(server_share_begin(&group->user, 4096));
	assert_int_equal(aggregate_server_go(opaque, 0, 1, handle), 0);
	do {
		runtime_nap();
		aggregate_server_look(opaque, &look);
	} while (look.state != AGGREGATE_SERVER_FAILED && !runtime_past(deadline_ns));
	assert_int_equal(look.state, AGGREGATE_SERVER_FAILED);
	/* Its coordinator may be silent for as long as it likes: the other goes on. */
	server_share_end(&other, most);
	while (!server_share_begin(&other, most)) {
		assert_false(runtime_past(deadline_ns));
		runtime_nap();
	}
	server_share_end(&other, most);
	server_share_leave(&other);
	aggregate_server_end(opaque);
	aggregate_server_close(server);
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
