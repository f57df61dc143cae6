/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection's streams are dialled, seen by the host they come to, which the test plays: the others connect while the
 * first one waits for WELCOME, and prove nothing before it; one that WELCOME sends elsewhere goes there.
 */
#include "conversation.h"

#include "support/log_lines.h"
#include "support/runtime.h"
#include "transport/tcp/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of the host that the test plays. */
struct place {
	int fd;
	struct tcp_wire_address address;
};

/* A stream there. */
struct caller {
	int fd;
	struct tcp_wire_nonces nonces;
	struct tcp_wire_hello hello;
};

static struct transport *transport;
static struct transport_connection *connection;
static struct tcp_wire_handle handle;
static uint8_t handle_bytes[TRANSPORT_HANDLE_BYTES];
static struct place places[2];
static int result;

static void open_place(struct place *place)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(address);

	place->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(place->fd >= 0);
	assert_int_equal(bind(place->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(place->fd, 16), 0);
	assert_int_equal(getsockname(place->fd, (struct sockaddr *)&address, &bytes), 0);
	place->address = (struct tcp_wire_address){ .family = 4, .prefix_bits = 8, .port = ntohs(address.sin_port) };
	memcpy(place->address.bytes, &address.sin_addr, 4);
}

static int setup(void **state)
{
	(void)state;
	transport = conversation_transport_for_an_hour(0);
	connection = NULL;
	result = 0;
	for (unsigned i = 0; i < 2; i++)
		open_place(&places[i]);
	handle = (struct tcp_wire_handle){ .address = places[0].address, .rail_count = 1, .listener_id = 1 };
	memset(handle.secret, 7, sizeof(handle.secret));
	snprintf(handle.host, sizeof(handle.host), "played");
	tcp_wire_handle(CODEC_TO(handle_bytes), &handle);
	log_lines_start(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (connection)
		transport_tcp.close_connection(connection);
	transport_tcp.close(transport);
	for (unsigned i = 0; i < 2; i++)
		close(places[i].fd);
	log_set_sink(NULL);
	return 0;
}

static void step(void)
{
	if (result == 0 && !connection)
		result = transport_tcp.connect(transport, 0, -1, handle_bytes, &connection);
}

static void take(int fd, void *ret, size_t bytes)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	while (recv(fd, ret, bytes, MSG_PEEK | MSG_DONTWAIT) < (ssize_t)bytes) {
		assert_false(runtime_past(deadline_ns));
		step();
	}
	assert_int_equal(recv(fd, ret, bytes, 0), bytes);
}

/* Comes, and is challenged. */
static void accept_from(const struct place *place, struct caller *caller)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct tcp_wire_challenge challenge = { .nonce = { 9 } };
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];

	while ((caller->fd = accept4(place->fd, NULL, NULL, SOCK_CLOEXEC)) < 0) {
		assert_false(runtime_past(deadline_ns));
		step();
	}
	memcpy(caller->nonces.accepting, challenge.nonce, sizeof(challenge.nonce));
	tcp_wire_challenge(CODEC_TO(bytes), &challenge);
	assert_int_equal(send(caller->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

/* Those that the first one left behind in the race are closed by now. */
static void accept_that_stays(const struct place *place, struct caller *caller)
{
	uint8_t byte;

	accept_from(place, caller);
	while (recv(caller->fd, &byte, 1, MSG_DONTWAIT) == 0) {
		close(caller->fd);
		accept_from(place, caller);
	}
}

static void take_hello(struct caller *caller)
{
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];

	take(caller->fd, bytes, sizeof(bytes));
	assert_int_equal(tcp_wire_hello(CODEC_FROM(bytes, sizeof(bytes)), &caller->hello), 0);
	memcpy(caller->nonces.connecting, caller->hello.nonce, sizeof(caller->hello.nonce));
	assert_true(tcp_wire_is_proven(TCP_WIRE_CONNECTING, handle.secret, &caller->nonces, bytes, sizeof(bytes)));
}

/* The host has a device of so many ports, of which each place is one. */
static void give_welcome(const struct caller *caller, unsigned rails)
{
	struct tcp_wire_welcome welcome = { .rail_count = (uint8_t)rails,
					    .own_count = (uint8_t)rails,
					    .way_count = (uint8_t)rails,
					    .connection_id = caller->hello.connection_id,
					    .eager_window_bytes = 65536,
					    .host = "played" };
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];

	for (unsigned i = 0; i < rails; i++)
		welcome.ways[i] = places[i].address;
	tcp_wire_welcome(CODEC_TO(bytes), &welcome);
	tcp_wire_prove(TCP_WIRE_ACCEPTING, handle.secret, &caller->nonces, bytes, sizeof(bytes));
	assert_int_equal(send(caller->fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
}

static void expect_nothing_from(const struct caller *caller)
{
	uint8_t byte;

	for (unsigned i = 0; i < 100; i++) {
		step();
		assert_int_equal(recv(caller->fd, &byte, 1, MSG_DONTWAIT), -1);
		assert_true(errno == EAGAIN || errno == EWOULDBLOCK);
	}
}

static void expect_closed(const struct caller *caller)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	ssize_t got;
	uint8_t byte;

	while ((got = recv(caller->fd, &byte, 1, MSG_DONTWAIT)) < 0 && errno == EAGAIN) {
		assert_false(runtime_past(deadline_ns));
		step();
	}
	assert_true(got <= 0);
}

static void expect_connection(void)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	while (!connection) {
		assert_false(runtime_past(deadline_ns));
		step();
		assert_int_equal(result, 0);
	}
	assert_int_equal(log_lines()->warnings, 0);
}

static void the_others_connect_before_welcome(void **state)
{
	struct caller first, second;

	(void)state;
	accept_from(&places[0], &first);
	take_hello(&first);
	accept_from(&places[0], &second);
	expect_nothing_from(&second);
	give_welcome(&first, 1);
	take_hello(&second);
	assert_int_equal(first.hello.stream, 0);
	assert_int_equal(second.hello.stream, 1);
	give_welcome(&second, 1);
	expect_connection();
	close(first.fd);
	close(second.fd);
}

static void welcome_sends_one_elsewhere(void **state)
{
	struct caller first, second, moved;

	(void)state;
	accept_from(&places[0], &first);
	take_hello(&first);
	accept_from(&places[0], &second);
	expect_nothing_from(&second);
	give_welcome(&first, 2);
	accept_from(&places[1], &moved);
	expect_closed(&second);
	take_hello(&moved);
	assert_int_equal(moved.hello.stream, 1);
	give_welcome(&moved, 2);
	expect_connection();
	close(first.fd);
	close(second.fd);
	close(moved.fd);
}

/* The handle has the other rail's way, so that stream need not wait for WELCOME, either. */
static void another_rail_connects_before_welcome(void **state)
{
	struct caller first, second, third;

	(void)state;
	handle.rail_count = 2;
	handle.way_count = 1;
	handle.ways[0] = places[1].address;
	handle.ways[0].port = handle.address.port;
	tcp_wire_handle(CODEC_TO(handle_bytes), &handle);
	accept_from(&places[0], &first);
	take_hello(&first);
	accept_that_stays(&places[0], &second);
	accept_that_stays(&places[0], &third);
	expect_nothing_from(&second);
	expect_nothing_from(&third);
	close(first.fd);
	expect_closed(&second);
	close(second.fd);
	close(third.fd);
}

/* Its answer proves nothing: a stranger. */
static void the_others_go_with_the_first(void **state)
{
	struct caller first, second;

	(void)state;
	accept_from(&places[0], &first);
	take_hello(&first);
	accept_from(&places[0], &second);
	handle.secret[0] ^= 1;
	give_welcome(&first, 1);
	expect_closed(&second);
	while (result == 0)
		step();
	assert_null(connection);
	assert_int_equal(log_lines()->warnings, 1);
	close(first.fd);
	close(second.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_others_connect_before_welcome, setup, teardown),
		cmocka_unit_test_setup_teardown(welcome_sends_one_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(another_rail_connects_before_welcome, setup, teardown),
		cmocka_unit_test_setup_teardown(the_others_go_with_the_first, setup, teardown),
	};

	runtime_start("connector_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
