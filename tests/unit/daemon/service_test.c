/* SPDX-License-Identifier: Apache-2.0 */
/* The service as its clients and as strangers see it, over the loopback interface. */
#include "aggregate/aggregator_wire.h"
#include "base/clock.h"
#include "daemon/daemon.h"

#include "host_harness.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLOOD            10000
#define FLOOD_AT_ONCE    250
#define MAX_GROWTH_BYTES (16 << 20)

static struct control_answer answer; /* large */

/* A request of `members` members that nobody will connect to before it goes. */
static struct control_request request_of(uint16_t members, uint8_t id)
{
	static uint8_t handles[CONTROL_MEMBERS_MAX * TRANSPORT_HANDLE_BYTES];
	struct control_request request = { .data_version = AGGREGATOR_WIRE_VERSION,
					   .types = 0x3ff,
					   .operations = 0xf,
					   .name = "test job",
					   .timeout_ms = 60000,
					   .member_count = members,
					   .handles = handles };

	memset(request.id, id, sizeof(request.id));
	return request;
}

static void it_tells_how_it_is(void **state)
{
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "--groups-max 7 --threads 2 --memory-max 64M", 30);
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.groups_max, 7);
	assert_int_equal(answer.state.thread_count, 2);
	assert_int_equal(answer.state.memory_max_bytes, 64 << 20);
	assert_int_equal(answer.state.group_count, 0);
	assert_false(answer.state.draining);
	assert_true(answer.state.nic_Bps > 0);
	assert_true(answer.state.version[0] && answer.state.name[0]);
	host_harness_close(&host);
}

static void a_group_is_offered_listed_and_gone_when_its_coordinator_leaves(void **state)
{
	struct control_request request = request_of(3, 1);
	struct control_client *client;
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "", 30);
	client = host_harness_client(&host, "node01");
	assert_int_equal(control_client_request(client, &request), 0);
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_OFFER);
	assert_int_equal(answer.offer.group_count, 1);
	assert_int_equal(answer.offer.window_bytes, (64 << 20));
	assert_true(answer.offer.rate_Bps > 0);
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.group_count, 1);
	assert_string_equal(answer.groups[0].name, "test job");
	assert_int_equal(answer.groups[0].member_count, 3);
	assert_false(answer.groups[0].ready);
	control_client_close(client);
	for (uint64_t deadline_ns = runtime_deadline_ns(90000); answer.state.group_count;) {
		assert_false(runtime_past(deadline_ns));
		host_harness_state(&host, &answer);
	}
	assert_int_equal(answer.state.groups_served, 1);
	host_harness_close(&host);
}

static enum control_event ask_for_group(const struct host_harness *host, struct control_request *request,
					struct control_client **ret)
{
	*ret = host_harness_client(host, "node01");
	assert_int_equal(control_client_request(*ret, request), 0);
	return host_harness_wait(*ret, &answer);
}

static void one_group_too_many_is_refused_with_a_sentence(void **state)
{
	struct control_request first = request_of(2, 1), second = request_of(2, 2), third = request_of(2, 3);
	struct control_client *clients[3];
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "--groups-max 2", 30);
	assert_int_equal(ask_for_group(&host, &first, &clients[0]), CONTROL_EVENT_OFFER);
	assert_int_equal(ask_for_group(&host, &second, &clients[1]), CONTROL_EVENT_OFFER);
	assert_int_equal(ask_for_group(&host, &third, &clients[2]), CONTROL_EVENT_REFUSAL);
	assert_non_null(strstr(answer.sentence, "--groups-max"));
	assert_non_null(strstr(answer.sentence, "aggregator 127.0.0.1:"));
	for (size_t i = 0; i < 3; i++)
		control_client_close(clients[i]);
	host_harness_close(&host);
}

static void what_does_not_fit_is_refused_with_a_sentence(void **state)
{
	struct control_request version = request_of(2, 1), many = request_of(200, 2), twin = request_of(2, 3);
	struct control_client *client, *other;
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "--groups-max 16 --memory-max 256M", 30);
	version.data_version++;
	assert_int_equal(ask_for_group(&host, &version, &client), CONTROL_EVENT_REFUSAL);
	assert_non_null(strstr(answer.sentence, "same version"));
	control_client_close(client);
	assert_int_equal(ask_for_group(&host, &many, &client), CONTROL_EVENT_REFUSAL);
	assert_non_null(strstr(answer.sentence, "--memory-max"));
	control_client_close(client);
	assert_int_equal(ask_for_group(&host, &twin, &client), CONTROL_EVENT_OFFER);
	assert_int_equal(ask_for_group(&host, &twin, &other), CONTROL_EVENT_REFUSAL);
	assert_non_null(strstr(answer.sentence, "already"));
	control_client_close(client);
	control_client_close(other);
	host_harness_close(&host);
}

static void another_secret_is_turned_away_and_told(void **state)
{
	struct host_harness host, thief;
	struct control_client *client;

	(void)state;
	host_harness_open(&host, "", 30);
	thief = host;
	thief.secret.bytes[31] ^= 1;
	client = host_harness_client(&thief, "thief");
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_LOST);
	assert_non_null(strstr(answer.sentence, "another secret"));
	control_client_close(client);
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.strangers, 1);
	host_harness_close(&host);
}

static void networks_that_are_not_allowed_get_no_word(void **state)
{
	struct control_client *client;
	struct host_harness host;
	char byte;
	int fd;

	(void)state;
	host_harness_open(&host, "--allow 10.99.0.0/16", 1);
	fd = host_harness_dial(host.port);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	client = host_harness_client(&host, "node01");
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_LOST);
	control_client_close(client);
	host_harness_close(&host);
}

/* ---- strangers ---- */

static void throw_bytes(int fd, uint64_t *random)
{
	uint8_t bytes[512];
	size_t count = random_below(random, sizeof(bytes));

	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)random_next(random);
	/* Some begin as if they knew the protocol. */
	if (count > 16 && random_below(random, 2))
		memcpy(bytes, "TribCtl\x9d\1\0\0\0\0\0\0\0", 16);
	if (count)
		(void)!send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* So many in all, and always some hundred at a time, half of them silent; all the while a client is served. */
static void ten_thousand_strangers_disturb_nobody(void **state)
{
	struct control_request request = request_of(2, 9);
	static int fds[FLOOD_AT_ONCE];
	struct control_client *client;
	struct host_harness host;
	uint64_t random = runtime_seed();
	size_t before, after;
	unsigned open_fds;

	(void)state;
	host_harness_open(&host, "", 30);
	assert_int_equal(ask_for_group(&host, &request, &client), CONTROL_EVENT_OFFER);
	for (size_t i = 0; i < FLOOD_AT_ONCE; i++)
		fds[i] = -1;
	before = runtime_resident_bytes();
	for (unsigned i = 0; i < FLOOD; i++) {
		int *fd = &fds[i % FLOOD_AT_ONCE];

		if (*fd >= 0)
			close(*fd);
		*fd = host_harness_dial(host.port);
		if (random_below(&random, 2))
			throw_bytes(*fd, &random);
		if (i % 2000 == 0) {
			host_harness_state(&host, &answer);
			assert_int_equal(answer.state.group_count, 1);
		}
		if (i % 200 == 0)
			assert_int_equal(control_client_step(client, &answer), CONTROL_EVENT_NONE);
	}
	host_harness_state(&host, &answer);
	assert_true(answer.state.strangers > FLOOD / 2);
	assert_int_equal(answer.state.group_count, 1);
	after = runtime_resident_bytes();
	open_fds = runtime_fd_count();
	print_message("%u strangers: %llu turned away, memory %zd KiB more, %u descriptors\n", FLOOD,
		      (unsigned long long)answer.state.strangers, ((ssize_t)after - (ssize_t)before) / 1024, open_fds);
	if (!runtime_sanitized())
		assert_true(after < before + MAX_GROWTH_BYTES);
	assert_true(open_fds < FLOOD_AT_ONCE + DAEMON_UNPROVED_MAX + 40);
	for (size_t i = 0; i < FLOOD_AT_ONCE; i++)
		close(fds[i]);
	control_client_close(client);
	host_harness_close(&host);
}

/* Strangers hold every slot and say nothing: the next one takes the place of the oldest of them. */
static void silent_strangers_do_not_keep_a_client_out(void **state)
{
	static int fds[2 * DAEMON_UNPROVED_MAX];
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "", 30);
	for (size_t i = 0; i < 2 * DAEMON_UNPROVED_MAX; i++)
		fds[i] = host_harness_dial(host.port);
	host_harness_state(&host, &answer);
	for (size_t i = 0; i < 2 * DAEMON_UNPROVED_MAX; i++)
		close(fds[i]);
	host_harness_close(&host);
}

/* Who has the secret may still break the protocol: that costs its own connection and its own group. */
static void a_client_that_breaks_the_protocol_loses_its_own_group_alone(void **state)
{
	struct control_request one = request_of(2, 1), two = request_of(2, 2);
	struct control_go go = { .aggregator_count = 1 };
	struct control_client *good, *bad;
	uint8_t handle[TRANSPORT_HANDLE_BYTES] = { 0 };
	struct host_harness host;

	(void)state;
	host_harness_open(&host, "", 30);
	assert_int_equal(ask_for_group(&host, &one, &good), CONTROL_EVENT_OFFER);
	assert_int_equal(ask_for_group(&host, &two, &bad), CONTROL_EVENT_OFFER);
	go.handles = handle;
	assert_int_equal(control_client_go(bad, &go), 0);
	assert_int_equal(control_client_go(bad, &go), 0); /* twice */
	while (control_client_step(bad, &answer) != CONTROL_EVENT_LOST)
		usleep(1000);
	control_client_close(bad);
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.group_count, 1);
	assert_int_equal(answer.groups[0].id[0], 1);
	control_client_close(good);
	host_harness_close(&host);
}

/* Members that are nowhere: the group fails within its time-out, with a sentence, and only that group. */
static void a_group_whose_members_do_not_come_fails(void **state)
{
	struct control_request request = request_of(2, 5);
	uint8_t handles[TRANSPORT_HANDLE_BYTES] = { 0 };
	struct control_go go = { .aggregator_count = 1, .handles = handles };
	struct control_client *client;
	struct host_harness host;

	(void)state;
	request.timeout_ms = 2000;
	host_harness_open(&host, "", 30);
	assert_int_equal(ask_for_group(&host, &request, &client), CONTROL_EVENT_OFFER);
	assert_int_equal(control_client_go(client, &go), 0);
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_FAILURE);
	assert_true(strlen(answer.sentence) > 20);
	control_client_close(client);
	host_harness_close(&host);
}

static void a_coordinator_that_falls_silent_is_given_up(void **state)
{
	struct control_request request = request_of(2, 6);
	struct control_client *client;
	struct host_harness host;
	uint64_t deadline_ns;

	(void)state;
	request.timeout_ms = 500;
	host_harness_open(&host, "", 30);
	assert_int_equal(ask_for_group(&host, &request, &client), CONTROL_EVENT_OFFER);
	deadline_ns = runtime_deadline_ns(90000); /* not stepped any more: a process that was stopped */
	do {
		host_harness_state(&host, &answer);
		assert_false(runtime_past(deadline_ns));
	} while (answer.state.group_count);
	control_client_close(client);
	host_harness_close(&host);
}

/* The machine stood still for ten minutes, and all processes on it: neither side takes that for the other's end. */
static void time_that_passed_for_nobody_ends_nothing(void **state)
{
	struct control_request request = request_of(2, 7);
	static uint64_t now_ns;
	struct control_client *client;
	struct host_harness host;
	int newcomer;

	(void)state;
	now_ns = clock_now_ns();
	clock_set_fake(&now_ns);
	host_harness_open(&host, "", 30);
	newcomer = host_harness_dial(host.port); /* let in before the next one, and still about to prove the secret */
	assert_int_equal(ask_for_group(&host, &request, &client), CONTROL_EVENT_OFFER);
	__atomic_store_n(&now_ns, now_ns + 600 * NS_PER_S, __ATOMIC_RELAXED);
	host_harness_state(&host, &answer); /* it has looked at all its clients since */
	assert_int_equal(answer.state.group_count, 1);
	assert_int_equal(answer.state.strangers, 0);
	close(newcomer);
	assert_int_equal(control_client_step(client, &answer), CONTROL_EVENT_NONE);
	clock_set_fake(NULL);
	control_client_close(client);
	host_harness_close(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_tells_how_it_is),
		cmocka_unit_test(a_group_is_offered_listed_and_gone_when_its_coordinator_leaves),
		cmocka_unit_test(one_group_too_many_is_refused_with_a_sentence),
		cmocka_unit_test(what_does_not_fit_is_refused_with_a_sentence),
		cmocka_unit_test(another_secret_is_turned_away_and_told),
		cmocka_unit_test(networks_that_are_not_allowed_get_no_word),
		cmocka_unit_test(ten_thousand_strangers_disturb_nobody),
		cmocka_unit_test(silent_strangers_do_not_keep_a_client_out),
		cmocka_unit_test(a_client_that_breaks_the_protocol_loses_its_own_group_alone),
		cmocka_unit_test(a_group_whose_members_do_not_come_fails),
		cmocka_unit_test(a_coordinator_that_falls_silent_is_given_up),
		cmocka_unit_test(time_that_passed_for_nobody_ends_nothing),
	};

	runtime_start("service_test", 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
