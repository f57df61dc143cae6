/* SPDX-License-Identifier: Apache-2.0 */
#include "support/transport_suite.h"

#include "support/link.h"
#include "support/runtime.h"
#include "support/transport_suite_internal.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- devices ---- */

static void devices_describe_themselves(void **state)
{
	const struct transport_suite *suite = *state;
	int count = suite->ops->device_count(suite->transport);

	assert_true(count > 0);
	for (int device = 0; device < count; device++) {
		struct transport_properties properties, again;

		assert_int_equal(suite->ops->device_properties(suite->transport, device, &properties), 0);
		assert_non_null(properties.name);
		assert_true(properties.name[0] != '\0');
		assert_true(properties.memory & TRANSPORT_MEMORY_HOST);
		assert_true(properties.speed_Bps > 0);
		assert_true(properties.max_connections > 0);
		assert_in_range(properties.max_recvs, 1, TRANSPORT_MAX_RECVS);
		assert_true(properties.max_message_bytes > 0 &&
			    properties.max_message_bytes <= TRANSPORT_MAX_MESSAGE_BYTES);
		assert_int_equal(suite->ops->device_properties(suite->transport, device, &again), 0);
		assert_string_equal(properties.name, again.name);
		assert_true(properties.guid == again.guid && properties.port == again.port);
	}
}

static void no_such_device_is_an_error(void **state)
{
	const struct transport_suite *suite = *state;
	int count = suite->ops->device_count(suite->transport), devices[] = { -1, count, count + 1000, INT32_MAX };
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = { 0 };

	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		struct transport_listener *listener = NULL;
		struct transport_properties properties;

		assert_true(suite->ops->device_properties(suite->transport, devices[i], &properties) < 0);
		assert_true(suite->ops->listen(suite->transport, devices[i], handle, &listener) < 0);
		assert_null(listener);
	}
}

/* ---- connecting ---- */

static void accept_without_a_peer_gives_nothing(void **state)
{
	const struct transport_suite *suite = *state;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	struct transport_connection *receiver = NULL;

	assert_int_equal(suite->ops->listen(suite->transport, suite->device, handle, &listener), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(suite->ops->accept(listener, &receiver), 0);
		assert_null(receiver);
	}
	suite->ops->close_listener(listener);
}

static void a_handle_that_is_none_is_an_error(void **state)
{
	const struct transport_suite *suite = *state;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_connection *sender = NULL;
	uint64_t random = suite->seed;
	int r;

	memset(handle, 0, sizeof(handle));
	r = link_connect(suite->ops, suite->transport, suite->device, handle, &sender);
	assert_true(r < 0 && r != -ETIMEDOUT);
	for (size_t i = 0; i < sizeof(handle); i++)
		handle[i] = (uint8_t)random_next(&random);
	r = link_connect(suite->ops, suite->transport, suite->device, handle, &sender);
	assert_true(r < 0 && r != -ETIMEDOUT);
	assert_null(sender);
}

static unsigned count_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned count = 0;

	assert_non_null(tasks);
	while (readdir(tasks))
		count++;
	closedir(tasks);
	return count;
}

static void a_handle_that_is_none_starts_no_thread(void **state)
{
	const struct transport_suite *suite = *state;
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = { 0 };
	struct transport_connection *sender = NULL;
	struct transport *transport;
	unsigned before;

	if (!suite->ops->watch) /* NCCL's interface over this one: it counts who uses it */
		skip();
	assert_int_equal(suite->ops->open(suite->params, &transport), 0);
	before = count_threads();
	assert_true(suite->ops->connect(transport, 0, -1, handle, &sender) < 0);
	assert_int_equal(count_threads(), before);
	suite->ops->close(transport);
}

/* Its listener closed before the connect began: an error within the time-out, not an endless "come again". */
static void connecting_to_a_closed_listener_ends(void **state)
{
	const struct transport_suite *suite = *state;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	struct transport_connection *sender = NULL;
	int r;

	assert_int_equal(suite->ops->listen(suite->transport, suite->device, handle, &listener), 0);
	suite->ops->close_listener(listener);
	r = link_connect(suite->ops, suite->transport, suite->device, handle, &sender);
	assert_true(r < 0 && r != -ETIMEDOUT);
	assert_null(sender);
}

#define AT_ONCE 12

/* Each listener with its own peer, all polled in turn. */
static void many_connect_at_once(void **state)
{
	const struct transport_suite *suite = *state;
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct link links[AT_ONCE];
	unsigned missing = 2 * AT_ONCE;

	memset(links, 0, sizeof(links));
	for (unsigned i = 0; i < AT_ONCE; i++) {
		links[i].ops = suite->ops;
		assert_int_equal(
			suite->ops->listen(suite->transport, suite->device, links[i].handle, &links[i].listener), 0);
	}
	while (missing) {
		missing = 0;
		for (unsigned i = 0; i < AT_ONCE; i++) {
			if (!links[i].sender)
				assert_int_equal(suite->ops->connect(suite->transport, suite->device, -1,
								     links[i].handle, &links[i].sender),
						 0);
			if (!links[i].receiver)
				assert_int_equal(suite->ops->accept(links[i].listener, &links[i].receiver), 0);
			missing += (links[i].sender ? 0u : 1u) + (links[i].receiver ? 0u : 1u);
		}
		assert_false(missing && runtime_past(deadline_ns));
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		assert_int_equal(link_exchange(&links[i], 5000 + i, suite->seed + i), 0);
	for (unsigned i = 0; i < AT_ONCE; i++)
		link_close(&links[i]);
}

struct crowd {
	struct transport_connection *senders[AT_ONCE], *receivers[AT_ONCE];
	uint8_t handles[AT_ONCE][TRANSPORT_HANDLE_BYTES];
	unsigned accepted;
};

static void crowd_connect(const struct transport_suite *suite, struct transport_listener *listener, struct crowd *crowd)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	unsigned connected = 0;

	while (connected < AT_ONCE || crowd->accepted < AT_ONCE) {
		for (unsigned i = 0; i < AT_ONCE; i++) {
			if (crowd->senders[i])
				continue;
			assert_int_equal(suite->ops->connect(suite->transport, suite->device, -1, crowd->handles[i],
							     &crowd->senders[i]),
					 0);
			connected += crowd->senders[i] != NULL;
		}
		if (crowd->accepted < AT_ONCE) {
			assert_int_equal(suite->ops->accept(listener, &crowd->receivers[crowd->accepted]), 0);
			crowd->accepted += crowd->receivers[crowd->accepted] != NULL;
		}
		assert_false(runtime_past(deadline_ns));
	}
}

/* Every sender tells its number; every number arrives once, wherever. */
static void crowd_count(const struct transport_suite *suite, struct crowd *crowd)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_request *sends[AT_ONCE] = { NULL }, *receives[AT_ONCE] = { NULL };
	unsigned numbers[AT_ONCE], heard[AT_ONCE], open = 2 * AT_ONCE, seen = 0;
	bool sent[AT_ONCE] = { false }, received[AT_ONCE] = { false };
	size_t bytes = sizeof(unsigned);
	void *registration = NULL;
	int tag = 1;

	for (unsigned i = 0; open; i = (i + 1) % AT_ONCE) {
		void *to = &heard[i];
		bool done = false;

		numbers[i] = i;
		if (!sends[i] && !sent[i])
			assert_int_equal(suite->ops->send(crowd->senders[i], &numbers[i], bytes, tag, NULL, &sends[i]),
					 0);
		if (!receives[i] && !received[i])
			assert_int_equal(suite->ops->receive(crowd->receivers[i], 1, &to, &bytes, &tag, &registration,
							     &receives[i]),
					 0);
		if (sends[i] && !sent[i]) {
			assert_int_equal(suite->ops->test(sends[i], &sent[i], NULL), 0);
			open -= sent[i];
		}
		if (receives[i] && !received[i]) {
			assert_int_equal(suite->ops->test(receives[i], &done, NULL), 0);
			received[i] = done;
			open -= done;
		}
		assert_false(runtime_past(deadline_ns));
	}
	for (unsigned i = 0; i < AT_ONCE; i++) {
		assert_true(heard[i] < AT_ONCE);
		seen |= 1u << heard[i];
	}
	assert_int_equal(seen, (1u << AT_ONCE) - 1);
}

/* One listener, several peers with copies of its handle: each gets a connection of its own. */
static void one_listener_serves_many(void **state)
{
	const struct transport_suite *suite = *state;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	struct crowd crowd;

	memset(&crowd, 0, sizeof(crowd));
	assert_int_equal(suite->ops->listen(suite->transport, suite->device, handle, &listener), 0);
	for (unsigned i = 0; i < AT_ONCE; i++)
		memcpy(crowd.handles[i], handle, sizeof(handle));
	crowd_connect(suite, listener, &crowd);
	suite->ops->close_listener(listener); /* what stands goes on without it */
	crowd_count(suite, &crowd);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		suite->ops->close_connection(crowd.senders[i]);
		suite->ops->close_connection(crowd.receivers[i]);
	}
}

/* NCCL connects first and accepts much later, or the other way round. */
static void either_side_may_be_late(void **state)
{
	const struct transport_suite *suite = *state;

	for (unsigned late = 0; late < 2; late++) {
		struct link link = { .ops = suite->ops };
		uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

		assert_int_equal(suite->ops->listen(suite->transport, suite->device, link.handle, &link.listener), 0);
		for (unsigned i = 0; !link.sender || !link.receiver; i++) {
			if (!link.sender && (late == 1 || i > 2000))
				assert_int_equal(suite->ops->connect(suite->transport, suite->device, -1, link.handle,
								     &link.sender),
						 0);
			if (!link.receiver && (late == 0 || i > 2000))
				assert_int_equal(suite->ops->accept(link.listener, &link.receiver), 0);
			assert_false(runtime_past(deadline_ns));
		}
		assert_int_equal(link_exchange(&link, 100000, suite->seed), 0);
		link_close(&link);
	}
}

static void a_virtual_device_works_like_any(void **state)
{
	const struct transport_suite *suite = *state;
	int count = suite->ops->device_count(suite->transport), members[2] = { 0, 1 }, joined = -1, again = -1;
	struct transport_properties properties;
	struct link link;

	if (count < 2) {
		print_message("skipped: one device only, nothing to join\n");
		skip();
	}
	if (suite->ops->device_join(suite->transport, 2, members, &joined) < 0) {
		print_message("skipped: no virtual devices here\n");
		skip();
	}
	/* A new one, or that of an earlier run of this test through another table: devices outlive a finalize. */
	assert_true(joined >= 2 && joined < suite->ops->device_count(suite->transport));
	assert_int_equal(suite->ops->device_properties(suite->transport, joined, &properties), 0);
	assert_int_equal(properties.member_count, 2);
	assert_int_equal(suite->ops->device_join(suite->transport, 2, members, &again), 0);
	assert_int_equal(again, joined);
	assert_int_equal(link_open(suite->ops, suite->transport, joined, &link), 0);
	assert_int_equal(link_exchange(&link, 3000001, suite->seed), 0);
	link_close(&link);
}

const struct transport_suite_case transport_suite_connect_cases[] = {
	{ "devices describe themselves", devices_describe_themselves },
	{ "no such device is an error", no_such_device_is_an_error },
	{ "accept without a peer gives nothing", accept_without_a_peer_gives_nothing },
	{ "a handle that is none is an error", a_handle_that_is_none_is_an_error },
	{ "a handle that is none starts no thread", a_handle_that_is_none_starts_no_thread },
	{ "connecting to a closed listener ends", connecting_to_a_closed_listener_ends },
	{ "many connect at once", many_connect_at_once },
	{ "one listener serves many", one_listener_serves_many },
	{ "either side may be late", either_side_may_be_late },
	{ "a virtual device works like any", a_virtual_device_works_like_any },
	{ NULL, NULL },
};
