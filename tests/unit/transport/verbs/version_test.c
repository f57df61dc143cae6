/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of another release: which of them are told, and what. */
#include "base/log.h"
#include "support/log_lines.h"
#include "support/runtime.h"
#include "transport/verbs/verbs.h"
#include "unit/transport/verbs/link_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MARK_AT = 3, VERSION_AT = 4 };

static const struct transport_ops *const ops = &transport_verbs;
static const struct transport_ops *const tcp = &transport_tcp;

struct meeting {
	struct verbs_link_harness harness;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
};

static void meeting_open(struct meeting *meeting)
{
	memset(meeting, 0, sizeof(*meeting));
	verbs_link_harness_begin(&meeting->harness, (struct fake_verbs_options){ .devices = 1 }, NULL);
	meeting->harness.link.ops = ops;
	assert_int_equal(ops->listen(meeting->harness.transport, 0, meeting->handle, &meeting->listener), 0);
	log_lines_start(NULL);
}

static void meeting_close(struct meeting *meeting)
{
	log_set_sink(NULL);
	ops->close_listener(meeting->listener);
	verbs_link_harness_close(&meeting->harness);
}

/* The connecting side knows both versions before it dials. */
static void a_handle_of_another_version_is_not_dialled(void **state)
{
	struct transport_connection *connection = NULL;
	struct meeting meeting;
	char expected[80];

	(void)state;
	for (int by = -1; by <= 1; by += 2) {
		meeting_open(&meeting);
		meeting.handle[MARK_AT] = (uint8_t)(meeting.handle[MARK_AT] + by);
		assert_int_equal(ops->connect(meeting.harness.transport, 0, -1, meeting.handle, &connection), -EPROTO);
		assert_null(connection);
		snprintf(expected, sizeof(expected),
			 "speaks version %d of Tributary's RDMA protocol, this host %d:", VERBS_WIRE_VERSION + by,
			 VERBS_WIRE_VERSION);
		assert_true(log_drain(10000));
		assert_non_null(strstr(log_lines()->warning, expected));
		meeting_close(&meeting);
	}
}

/* One that dialled all the same is turned away, and the accepting side says why. */
static void a_hello_of_another_version_is_turned_away(void **state)
{
	const struct verbs_wire_hello hello = {
		.rail_count = 1, .own_count = 1, .queue_count = 1, .queues = { { .number = 1 } }
	};
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_connection *dialled = NULL, *accepted = NULL;
	struct transport_request *request = NULL;
	const struct verbs_transport *transport;
	uint8_t frame[VERBS_WIRE_FRAME_BYTES];
	struct meeting meeting;
	enum transport_next next;
	char expected[80];
	unsigned version;
	int sent = 0;

	(void)state;
	meeting_open(&meeting);
	transport = (const struct verbs_transport *)meeting.harness.transport;
	assert_int_equal(verbs_wire_unmark_handle(meeting.handle, &version), 0);
	verbs_wire_put_cookie(meeting.handle, 0);
	verbs_wire_put_hello(VERBS_FRAME_HELLO, &hello, frame);
	frame[VERSION_AT] = VERBS_WIRE_VERSION - 1;
	for (int r = 0; r == 0;) {
		if (!dialled)
			r = tcp->connect(transport->control, transport->control_devices[0], -1, meeting.handle,
					 &dialled);
		else if (!sent)
			r = sent = verbs_control_send_bytes(dialled, frame, &request);
		else
			r = tcp->progress(dialled, &next);
		if (r > 0)
			r = 0;
		assert_int_equal(ops->accept(meeting.listener, &accepted), 0);
		assert_null(accepted);
		assert_false(runtime_past(deadline_ns));
	}
	snprintf(expected, sizeof(expected), ", which speaks %d: install", VERBS_WIRE_VERSION);
	assert_true(log_drain(10000));
	assert_non_null(strstr(log_lines()->warning, "another version of Tributary's RDMA protocol"));
	assert_non_null(strstr(log_lines()->warning, expected));
	tcp->close_connection(dialled);
	meeting_close(&meeting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_of_another_version_is_not_dialled),
		cmocka_unit_test(a_hello_of_another_version_is_turned_away),
	};

	runtime_start("verbs_version_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
