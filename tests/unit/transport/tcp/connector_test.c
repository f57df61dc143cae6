/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a connection's streams are dialled, seen by the host they come to, which the test plays: the others connect while the
 * first one waits for WELCOME, and prove nothing before it; one that WELCOME sends elsewhere goes there. The first has a second
 * for its WELCOME: a play in which the test itself took longer is begun anew.
 */
#include "base/clock.h"
#include "base/params.h"
#include "support/link.h"
#include "support/log_lines.h"
#include "support/peer.h"
#include "support/private_net.h"
#include "support/runtime.h"
#include "transport/tcp/wire.h"
#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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
static int result, failed_line;
static uint64_t greeted_ns; /* when the first one said HELLO; 0: not yet */

#define EXPECT(what) \
	if (!(what)) \
	return (failed_line = __LINE__, false)

/* There: is a network namespace until it is told to end. */
static int host(int control, const char *argument)
{
	uint8_t byte;

	(void)argument;
	if (unshare(CLONE_NEWNET) || peer_write(control, "r", 1))
		return 1;
	while (peer_read(control, &byte, 1) == -ETIMEDOUT)
		;
	return 0;
}

static struct peer there;

static void enter(pid_t process)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(setns(fd, CLONE_NEWNET), 0);
	close(fd);
}

static int setup(void **state)
{
	uint8_t byte;

	(void)state;
	assert_int_equal(peer_start("host", "", &there), 0);
	assert_int_equal(peer_read(there.control, &byte, 1), 0);
	assert_int_equal(private_net_command("ip link set lo up && ip link add eth0 type veth peer name eth0 netns %d "
					     "&& ip addr add 10.9.0.1/24 dev eth0",
					     (int)there.pid),
			 0);
	for (unsigned i = 2; i < 4; i++)
		assert_int_equal(
			private_net_command(PRIVATE_NET_INSIDE "ip addr add 10.9.0.%u/24 dev eth0", (int)there.pid, i),
			0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip link set eth0 up", (int)there.pid), 0);
	assert_true(private_net_up("eth0"));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	peer_stop(&there);
	return 0;
}

/* There, at 10.9.0.NUMBER. port 0: any. */
static void open_place(struct place *place, unsigned number, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(port),
				       .sin_addr = { htonl(0x0a090000U + number) } };
	socklen_t bytes = sizeof(address);
	const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	assert_true(own >= 0);
	enter(there.pid);
	place->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(place->fd >= 0);
	assert_int_equal(bind(place->fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(place->fd, 16), 0);
	assert_int_equal(getsockname(place->fd, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(setns(own, CLONE_NEWNET), 0);
	close(own);
	place->address = (struct tcp_wire_address){ .family = 4, .prefix_bits = 24, .port = ntohs(address.sin_port) };
	memcpy(place->address.bytes, &address.sin_addr, 4);
}

static void begin(void)
{
	static struct params params;

	params_defaults(&params);
	params.timeout_ns = 3600 * NS_PER_S;
	assert_int_equal(transport_tcp.open(&params, &transport), 0);
	connection = NULL;
	result = 0;
	greeted_ns = 0;
	open_place(&places[0], 2, 0);
	open_place(&places[1], 3, places[0].address.port);
	handle = (struct tcp_wire_handle){ .address = places[0].address, .rail_count = 1, .listener_id = 1 };
	memset(handle.secret, 7, sizeof(handle.secret));
	snprintf(handle.host, sizeof(handle.host), "played");
	tcp_wire_handle(CODEC_TO(handle_bytes), &handle);
	log_lines_start(NULL);
}

static void end(void)
{
	if (connection)
		transport_tcp.close_connection(connection);
	transport_tcp.close(transport);
	for (unsigned i = 0; i < 2; i++)
		close(places[i].fd);
	log_set_sink(NULL);
}

static void hang_up(const struct caller *callers, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (callers[i].fd >= 0)
			close(callers[i].fd);
}

static void play(bool (*one)(struct caller callers[static 3]))
{
	enum { LATE_MS = 300, TRIES = 50 };
	bool right = false, late = true;

	for (unsigned i = 0; i < TRIES && late && !right; i++) {
		struct caller callers[3] = { { .fd = -1 }, { .fd = -1 }, { .fd = -1 } };

		begin();
		right = one(callers);
		late = greeted_ns && clock_elapsed_ns(greeted_ns, clock_now_ns()) > LATE_MS * NS_PER_MS;
		hang_up(callers, 3);
		end();
	}
	if (!right)
		fail_msg("line %d", failed_line);
}

static void step(void)
{
	if (result == 0 && !connection)
		result = transport_tcp.connect(transport, 0, -1, handle_bytes, &connection);
}

/* False: it is closed. */
static bool take(const struct caller *caller, void *ret, size_t bytes)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	ssize_t got;

	while ((got = recv(caller->fd, ret, bytes, MSG_PEEK | MSG_DONTWAIT)) != (ssize_t)bytes) {
		if (!got || (got < 0 && errno != EAGAIN) || runtime_past(deadline_ns))
			return false;
		step();
	}
	return recv(caller->fd, ret, bytes, 0) == (ssize_t)bytes;
}

static bool is_open(const struct caller *caller)
{
	uint8_t byte;

	return recv(caller->fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* One that stays comes, and is challenged: those that the first one left behind in the race are closed by now. */
static bool accept_from(const struct place *place, struct caller *caller)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct tcp_wire_challenge challenge = { .nonce = { 9 } };
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];

	while ((caller->fd = accept4(place->fd, NULL, NULL, SOCK_CLOEXEC)) < 0 || !is_open(caller)) {
		if (caller->fd >= 0)
			close(caller->fd);
		if (runtime_past(deadline_ns))
			return false;
		step();
	}
	memcpy(caller->nonces.accepting, challenge.nonce, sizeof(challenge.nonce));
	tcp_wire_challenge(CODEC_TO(bytes), &challenge);
	return send(caller->fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes);
}

static bool take_hello(struct caller *caller)
{
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];

	EXPECT(take(caller, bytes, sizeof(bytes)));
	EXPECT(tcp_wire_hello(CODEC_FROM(bytes, sizeof(bytes)), &caller->hello) == 0);
	memcpy(caller->nonces.connecting, caller->hello.nonce, sizeof(caller->hello.nonce));
	if (!greeted_ns)
		greeted_ns = clock_now_ns();
	return tcp_wire_is_proven(TCP_WIRE_CONNECTING, handle.secret, &caller->nonces, bytes, sizeof(bytes));
}

/* The host has a device of so many ports, of which each place is one. */
static bool give_welcome(const struct caller *caller, unsigned rails)
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
	return send(caller->fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes);
}

static bool says_nothing(const struct caller *caller)
{
	for (unsigned i = 0; i < 10; i++) {
		step();
		EXPECT(is_open(caller));
	}
	return true;
}

static bool is_closed(const struct caller *caller)
{
	uint8_t byte;

	return !take(caller, &byte, 1);
}

static bool stands(void)
{
	const uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	while (!connection && result == 0 && !runtime_past(deadline_ns))
		step();
	return connection && log_lines()->warnings == 0;
}

static bool others_before_welcome(struct caller callers[static 3])
{
	EXPECT(accept_from(&places[0], &callers[0]) && take_hello(&callers[0]));
	EXPECT(accept_from(&places[0], &callers[1]) && says_nothing(&callers[1]));
	EXPECT(give_welcome(&callers[0], 1) && take_hello(&callers[1]));
	EXPECT(callers[0].hello.stream == 0 && callers[1].hello.stream == 1);
	EXPECT(give_welcome(&callers[1], 1));
	return stands();
}

static bool sent_elsewhere(struct caller callers[static 3])
{
	EXPECT(accept_from(&places[0], &callers[0]) && take_hello(&callers[0]));
	EXPECT(accept_from(&places[0], &callers[1]) && says_nothing(&callers[1]));
	EXPECT(give_welcome(&callers[0], 2));
	EXPECT(accept_from(&places[1], &callers[2]) && is_closed(&callers[1]));
	EXPECT(take_hello(&callers[2]) && callers[2].hello.stream == 1);
	EXPECT(give_welcome(&callers[2], 2));
	return stands();
}

/* The handle has an address in the subnet of that rail's own port. */
static bool another_rail(struct caller callers[static 3])
{
	handle.rail_count = 2;
	handle.way_count = 1;
	handle.ways[0] = places[1].address;
	tcp_wire_handle(CODEC_TO(handle_bytes), &handle);
	EXPECT(accept_from(&places[0], &callers[0]) && take_hello(&callers[0]));
	EXPECT(accept_from(&places[1], &callers[1]) && says_nothing(&callers[1]));
	EXPECT(accept_from(&places[0], &callers[2]) && says_nothing(&callers[2]));
	EXPECT(give_welcome(&callers[0], 2));
	for (unsigned i = 1; i < 3; i++)
		EXPECT(take_hello(&callers[i]) && callers[i].hello.stream == i && give_welcome(&callers[i], 2));
	return stands();
}

/* Its answer proves nothing: a stranger. */
static bool others_go(struct caller callers[static 3])
{
	EXPECT(accept_from(&places[0], &callers[0]) && take_hello(&callers[0]));
	EXPECT(accept_from(&places[0], &callers[1]));
	handle.secret[0] ^= 1;
	return give_welcome(&callers[0], 1) && is_closed(&callers[1]) && !connection;
}

static void the_others_connect_before_welcome(void **state)
{
	(void)state;
	play(others_before_welcome);
}

static void welcome_sends_one_elsewhere(void **state)
{
	(void)state;
	play(sent_elsewhere);
}

static void another_rail_connects_before_welcome(void **state)
{
	(void)state;
	play(another_rail);
}

static void the_others_go_with_the_first(void **state)
{
	(void)state;
	play(others_go);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "host", host }, { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_others_connect_before_welcome),
		cmocka_unit_test(welcome_sends_one_elsewhere),
		cmocka_unit_test(another_rail_connects_before_welcome),
		cmocka_unit_test(the_others_go_with_the_first),
	};

	peer_main(argc, argv, roles, 120);
	runtime_start("connector_test", 120);
	if (!private_net_enter_with_hosts()) {
		printf("skipped: no network namespaces, or no iproute2 and nsenter\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
