/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with another release of the plugin: everybody fails alike, soon, and is told what to do, whichever of that host's
 * words is the first to be read.
 */
#include "aggregate/member_wire.h"
#include "base/bytes.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

enum { VERSION_AT = 4, VERSION_BYTES = 2 };

/* How long the words are that say another version, and how many did. */
static struct {
	size_t bytes;
	atomic_uint count;
} stranger;

static int stranger_send(struct transport_connection *connection, void *data, size_t bytes, int tag, void *registration,
			 struct transport_request **ret)
{
	if (bytes == stranger.bytes && bytes_get((uint8_t *)data + VERSION_AT, VERSION_BYTES) == MEMBER_WIRE_VERSION) {
		bytes_put((uint8_t *)data + VERSION_AT, MEMBER_WIRE_VERSION + 1, VERSION_BYTES);
		atomic_fetch_add(&stranger.count, 1);
	}
	return transport_tcp.send(connection, data, bytes, tag, registration, ret);
}

static void become_stranger(struct harness *harness, size_t m, size_t bytes)
{
	static struct transport_ops ops;
	struct group_harness_member *member = &harness->members[m];
	struct aggregate_setup setup = { .params = &member->params,
					 .ops = &ops,
					 .transport = harness->transport,
					 .cluster = &harness->cluster,
					 .host_name = member->host };

	ops = transport_tcp;
	ops.send = stranger_send;
	stranger.bytes = bytes;
	atomic_store(&stranger.count, 0);
	aggregate_close_listener(member->listener);
	aggregate_close(member->engine);
	assert_int_equal(aggregate_open(&setup, &member->engine), 0);
	assert_int_equal(aggregate_listen(member->engine, 0, member->handle, &member->listener), 0);
}

/* The coordinator, who makes no report, has the least handle. */
static bool is_coordinator(const struct harness *harness, size_t member)
{
	for (size_t m = 0; m < harness->count; m++)
		if (memcmp(harness->members[m].handle, harness->members[member].handle, AGGREGATE_HANDLE_BYTES) < 0)
			return false;
	return true;
}

static void ends_alike(const char *leaves, size_t bytes)
{
	struct params params;
	struct harness harness;
	uint64_t begin_ns = runtime_now_ns();

	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, leaves), 0);
	/* Each listener gets another handle. */
	do
		become_stranger(&harness, 0, bytes);
	while (is_coordinator(&harness, 0));
	assert_true(group_harness_connect(&harness) < 0);
	assert_true(atomic_load(&stranger.count) > 0);
	for (size_t m = 0; m < harness.count; m++) {
		assert_true(harness.members[m].error < 0);
		assert_null(harness.members[m].group);
		assert_string_equal(harness.members[m].reason, harness.members[0].reason);
		assert_non_null(
			strstr(harness.members[m].reason, "another version of Tributary's aggregation protocol"));
		assert_non_null(strstr(harness.members[m].reason, "install the same release on all hosts"));
	}
	group_harness_close(&harness);
	assert_true(runtime_now_ns() - begin_ns < params.timeout_ns); /* nobody waited for it to run out */
}

static void a_greeting_of_another_version(void **state)
{
	(void)state;
	ends_alike("aab", MEMBER_WIRE_HELLO_BYTES);
	ends_alike("ab", MEMBER_WIRE_HELLO_BYTES);
}

static void a_report_of_another_version(void **state)
{
	(void)state;
	ends_alike("aab", MEMBER_WIRE_REPORT_BYTES);
	ends_alike("ab", MEMBER_WIRE_REPORT_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_of_another_version),
		cmocka_unit_test(a_report_of_another_version),
	};

	runtime_start("version_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
