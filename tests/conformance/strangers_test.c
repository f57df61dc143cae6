/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strangers at a listener's port: the real peer is served, what the process holds stays bounded, few lines are logged.
 */
#include "plugin_ops.h"
#include "raw_peer.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "transport/tcp/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define STRANGERS        50
#define FLOOD_OF_A_KIND  500
#define FLOOD            10000
#define FLOOD_AT_ONCE    200
#define LIMIT_FDS        1024                 /* of the listening process */
#define MAX_FDS          (LIMIT_FDS / 4 + 96) /* that it has, whoever connects: a quarter is for strangers */
#define IDLE_PEERS       5
#define IDLE_ROUNDS      3
#define IDLE_DELAY_MS    900 /* of one, on the average of a round */
#define MAX_GROWTH_BYTES (32 << 20)
#define MAX_WARNINGS     5

/* ---- what a stranger does after it connected ---- */

static void says_nothing(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	(void)fd, (void)handle, (void)random;
}

static void says_anything(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	uint8_t bytes[4096];
	size_t count = 1 + random_below(random, sizeof(bytes));

	(void)handle;
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)random_next(random);
	raw_put(fd, bytes, count);
}

static void says_http(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: scanner\r\nAccept: */*\r\n"
				   "Connection: keep-alive\r\nCache-Control: no-cache\r\nPragma: no-cache\r\n\r\n";

	(void)handle, (void)random;
	raw_put(fd, text, sizeof(text) - 1);
}

static void has_the_wrong_secret(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = raw_hello(handle, random);

	uint8_t secret[TCP_WIRE_SECRET_BYTES];

	memcpy(secret, handle->secret, sizeof(secret));
	secret[random_below(random, sizeof(secret))] ^= (uint8_t)(1 + random_below(random, 255));
	raw_put_hello(fd, &hello, secret, TCP_WIRE_HELLO_BYTES);
}

static void wants_another_listener(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = raw_hello(handle, random);

	hello.listener_id += 1 + (uint32_t)random_below(random, 1000);
	raw_put_hello(fd, &hello, handle->secret, TCP_WIRE_HELLO_BYTES);
}

static void speaks_another_version(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = raw_hello(handle, random);
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];

	tcp_wire_hello(CODEC_TO(bytes), &hello);
	bytes[4] ^= 0x40; /* the version */
	raw_put(fd, bytes, sizeof(bytes));
}

/* What an honest peer said to another socket, which it saw: the challenge there was another one. */
static void replays_a_greeting(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	static uint8_t overheard[TCP_WIRE_HELLO_BYTES];
	struct tcp_wire_hello hello = raw_hello(handle, random);
	uint8_t own[TCP_WIRE_HELLO_BYTES];

	if (!raw_prove_hello(fd, &hello, handle->secret, own))
		return;
	raw_put(fd, overheard, sizeof(overheard)); /* the first time: nothing at all */
	memcpy(overheard, own, sizeof(own));
}

/* A challenge as the answer to a challenge. */
static void returns_what_it_was_sent(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	uint8_t bytes[TCP_WIRE_HELLO_BYTES] = { 0 };

	(void)handle, (void)random;
	if (recv(fd, bytes, TCP_WIRE_CHALLENGE_BYTES, MSG_WAITALL) == TCP_WIRE_CHALLENGE_BYTES)
		raw_put(fd, bytes, sizeof(bytes));
}

static void stops_in_its_greeting(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = raw_hello(handle, random);

	raw_put_hello(fd, &hello, handle->secret, 1 + random_below(random, TCP_WIRE_HELLO_BYTES - 1));
}

/* It knows the secret; of its two streams only one ever comes. */
static void stops_after_one_stream(int fd, const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = raw_hello(handle, random);

	raw_put_hello(fd, &hello, handle->secret, TCP_WIRE_HELLO_BYTES);
}

struct stranger_kind {
	const char *name;
	void (*acts)(int fd, const struct tcp_wire_handle *handle, uint64_t *random);
	bool stays; /* with its socket open; STRANGERS of them, else FLOOD_OF_A_KIND */
};

static const struct stranger_kind kinds[] = {
	{ "port scan", says_nothing, false },
	{ "another version", speaks_another_version, false },
	{ "another version, stays", speaks_another_version, true },
	{ "half-open", says_nothing, true },
	{ "random bytes", says_anything, false },
	{ "random bytes, stays", says_anything, true },
	{ "http", says_http, true },
	{ "wrong secret", has_the_wrong_secret, true },
	{ "another listener", wants_another_listener, true },
	{ "stops in its greeting", stops_in_its_greeting, true },
	{ "replays a greeting", replays_a_greeting, true },
	{ "returns what it was sent", returns_what_it_was_sent, true },
	{ "wrong secret, leaves", has_the_wrong_secret, false },
	{ "another listener, leaves", wants_another_listener, false },
	{ "leaves in its greeting", stops_in_its_greeting, false },
	{ "stops after one stream", stops_after_one_stream, true },
};

static void strangers_do_not_keep_the_peer_out(void **state)
{
	const struct stranger_kind *kind = *state;
	struct transport *transport = raw_opened();
	struct link link = { .ops = &plugin_ops };
	struct plugin_ops_log log;
	struct tcp_wire_handle handle;
	struct sockaddr_in address;
	uint64_t random = runtime_seed();
	const unsigned count = kind->stays ? STRANGERS : FLOOD_OF_A_KIND;
	size_t resident_bytes = runtime_resident_bytes();
	uint64_t begin_ns = runtime_now_ns();
	int fds[FLOOD_OF_A_KIND];

	assert_int_equal(plugin_ops.listen(transport, 0, link.handle, &link.listener), 0);
	address = raw_address(link.handle, &handle);
	for (unsigned i = 0; i < count; i++) {
		fds[i] = raw_connect(&address, true);
		assert_true(fds[i] >= 0);
		kind->acts(fds[i], &handle, &random);
		if (!kind->stays) {
			close(fds[i]);
			fds[i] = -1;
		}
		assert_int_equal(plugin_ops.accept(link.listener, &link.receiver), 0);
		assert_null(link.receiver);
	}
	raw_real_peer_is_served(transport, &link);
	for (unsigned i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	if (!runtime_sanitized())
		assert_in_range(runtime_resident_bytes(), 0, resident_bytes + MAX_GROWTH_BYTES);
	link_close(&link);
	plugin_ops.close(transport); /* which waits for lines that are queued */
	plugin_ops_log_take(&log);
	/* One at once, and one more for each minute. */
	assert_in_range(log.warnings, 0, 1 + (runtime_now_ns() - begin_ns) / 60000000000u);
}

/* ---- ten thousand ---- */

static int flood_role(int control, const char *argument)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fds[FLOOD_AT_ONCE];
	uint64_t random = 1;
	char token = 'd';
	unsigned made = 0;

	address.sin_port = htons((uint16_t)strtoul(argument, NULL, 10));
	for (unsigned i = 0; i < FLOOD_AT_ONCE; i++)
		fds[i] = -1;
	while (made < FLOOD) {
		unsigned at = made % FLOOD_AT_ONCE;

		if (fds[at] >= 0)
			close(fds[at]);
		fds[at] = raw_connect(&address, false);
		if (fds[at] < 0) {
			usleep(100);
			continue;
		}
		if (made % 3 == 0)
			says_anything(fds[at], NULL, &random);
		made++;
	}
	return peer_write(control, &token, 1) < 0;
}

static int real_role(int control, const char *argument)
{
	struct transport *transport = raw_opened();
	struct transport_connection *sender;
	uint8_t handle[TRANSPORT_HANDLE_BYTES], data[1000];

	(void)argument;
	assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&plugin_ops, transport, 0, handle, &sender), 0);
	pattern_fill(data, sizeof(data), 8);
	assert_int_equal(link_send(&plugin_ops, sender, data, sizeof(data), 0), 0);
	assert_int_equal(peer_read(control, handle, 1), 0);
	plugin_ops.close_connection(sender);
	plugin_ops.close(transport);
	return 0;
}

/* The flood runs while real peers come, one after the other. */
static void peers_during_the_flood(struct transport *transport, struct link *link, struct peer *flood,
				   size_t resident_bytes)
{
	unsigned served = 0, most_fds = 0;
	uint8_t data[1000];
	size_t bytes;

	(void)transport;
	while (!peer_readable(flood->control) || served < 3) {
		struct transport_connection *receiver;
		struct peer real;

		assert_int_equal(peer_start("real", "", &real), 0);
		assert_int_equal(peer_write(real.control, link->handle, sizeof(link->handle)), 0);
		assert_int_equal(link_accept(&plugin_ops, link->listener, &receiver), 0);
		assert_int_equal(link_receive(&plugin_ops, receiver, data, sizeof(data), 0, &bytes), 0);
		assert_int_equal(bytes, sizeof(data));
		assert_true(pattern_wrong_at(data, bytes, 8) == SIZE_MAX);
		most_fds = runtime_fd_count() > most_fds ? runtime_fd_count() : most_fds;
		assert_int_equal(peer_write(real.control, "x", 1), 0);
		assert_int_equal(peer_wait(&real, 90000), 0);
		plugin_ops.close_connection(receiver);
		served++;
	}
	print_message("%u peers served during the flood, at most %u descriptors\n", served, most_fds);
	assert_in_range(most_fds, 0, MAX_FDS);
	if (!runtime_sanitized())
		assert_in_range(runtime_resident_bytes(), 0, resident_bytes + MAX_GROWTH_BYTES);
}

static void ten_thousand_strangers(void **state)
{
	struct transport *transport = raw_opened();
	struct link link = { .ops = &plugin_ops };
	size_t resident_bytes = runtime_resident_bytes();
	struct tcp_wire_handle handle;
	struct plugin_ops_log log;
	struct peer flood;
	char port[16];

	(void)state;
	assert_int_equal(plugin_ops.listen(transport, 0, link.handle, &link.listener), 0);
	snprintf(port, sizeof(port), "%u", ntohs(raw_address(link.handle, &handle).sin_port));
	assert_int_equal(peer_start("flood", port, &flood), 0);
	peers_during_the_flood(transport, &link, &flood, resident_bytes);
	assert_int_equal(peer_wait(&flood, 90000), 0);
	link_close(&link);
	plugin_ops.close(transport);
	plugin_ops_log_take(&log);
	assert_in_range(log.warnings, 0, MAX_WARNINGS);
}

/* ---- strangers that say nothing, and come again when they are dropped ---- */

static int idle_connect(const struct sockaddr_in *address)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK + 1) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && (bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0) &&
	    (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EINPROGRESS))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Its argument: port and count. Until its parent writes or ends. */
static int idle_role(int control, const char *argument)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	struct rlimit limit;
	struct pollfd *fds;
	unsigned port, count;
	char bytes[64];

	if (sscanf(argument, "%u %u", &port, &count) != 2 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	limit.rlim_cur = limit.rlim_max;
	fds = calloc(count + 1, sizeof(*fds));
	if (!fds || setrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 1;
	address.sin_port = htons((uint16_t)port);
	for (unsigned i = 0; i < count; i++)
		fds[i] = (struct pollfd){ .fd = idle_connect(&address), .events = POLLIN };
	fds[count] = (struct pollfd){ .fd = control, .events = POLLIN };
	if (peer_write(control, "x", 1) < 0)
		return 1;
	while (poll(fds, count + 1, 20) >= 0 && !fds[count].revents)
		for (unsigned i = 0; i < count; i++) {
			if (fds[i].fd >= 0 && fds[i].revents && recv(fds[i].fd, bytes, sizeof(bytes), 0) <= 0) {
				close(fds[i].fd);
				fds[i].fd = -1;
			}
			if (fds[i].fd < 0)
				fds[i].fd = idle_connect(&address);
		}
	free(fds);
	return 0;
}

/* Milliseconds, on the average of some. */
static unsigned served_after_ms(struct transport *transport, struct transport_listener *listener,
				const uint8_t handle[static TRANSPORT_HANDLE_BYTES])
{
	const uint64_t begin_ns = runtime_now_ns();

	for (unsigned i = 0; i < IDLE_PEERS; i++) {
		struct link link = { .ops = &plugin_ops, .listener = listener };

		memcpy(link.handle, handle, sizeof(link.handle));
		raw_real_peer_is_served(transport, &link);
		plugin_ops.close_connection(link.sender);
		plugin_ops.close_connection(link.receiver);
	}
	return (unsigned)((runtime_now_ns() - begin_ns) / IDLE_PEERS / 1000000);
}

static void idle_strangers_do_not_delay_the_peer(void **state)
{
	const unsigned *count = *state;
	struct transport *transport = raw_opened();
	struct transport_listener *listener;
	uint8_t handle_bytes[TRANSPORT_HANDLE_BYTES];
	struct tcp_wire_handle handle;
	unsigned took_ms = UINT_MAX;
	struct peer idle;
	char argument[32], token;

	assert_int_equal(plugin_ops.listen(transport, 0, handle_bytes, &listener), 0);
	snprintf(argument, sizeof(argument), "%u %u", ntohs(raw_address(handle_bytes, &handle).sin_port), *count);
	assert_int_equal(peer_start("idle", argument, &idle), 0);
	assert_int_equal(peer_read(idle.control, &token, 1), 0);
	/* Strangers delay every round, other programs of a busy machine not. */
	for (unsigned i = 0; i < IDLE_ROUNDS && took_ms > IDLE_DELAY_MS; i++) {
		took_ms = served_after_ms(transport, listener, handle_bytes);
		print_message("%u idle strangers: a peer is served after %u ms\n", *count, took_ms);
	}
	if (!runtime_sanitized())
		assert_in_range(took_ms, 0, IDLE_DELAY_MS);
	assert_int_equal(peer_write(idle.control, "x", 1), 0);
	assert_int_equal(peer_wait(&idle, 90000), 0);
	plugin_ops.close_listener(listener);
	plugin_ops.close(transport);
}

/* ---- peers that know the secret and then talk nonsense ---- */

/* A frame that decodes, with fields near and beyond every limit. */
static void random_frame(uint64_t *random, uint8_t *bytes)
{
	static const uint64_t values[] = {
		0,          1,         511, 512, 4096, 65535, 65536, 1 << 20, 1ULL << 32, 1ULL << 40, (1ULL << 40) + 1,
		1ULL << 63, UINT64_MAX
	};
	struct tcp_frame frame = {
		.type = (uint8_t)random_below(random, TCP_FRAME_TYPE_COUNT + 1),
		.stream = (uint8_t)random_below(random, 4),
		.epoch = (uint16_t)random_below(random, 3),
		.message = random_below(random, 4) ? (uint32_t)random_below(random, 4) : (uint32_t)random_next(random),
		.value = values[random_below(random, sizeof(values) / sizeof(values[0]))],
		.position = values[random_below(random, sizeof(values) / sizeof(values[0]))],
		.payload_bytes = (uint32_t)values[random_below(random, 9)],
		.tag = (int32_t)random_below(random, 3),
	};

	tcp_wire_put_frame(&frame, bytes);
}

/* Whatever it says, the process lives, the receive ends or waits, and its neighbours are not disturbed. */
static void nonsense_harms_nobody_else(void **state)
{
	struct transport *transport = raw_opened();
	struct link link = { .ops = &plugin_ops };
	struct tcp_wire_handle handle;
	struct sockaddr_in address;
	uint64_t random = runtime_seed();
	uint8_t *buffer = malloc(1 << 20);

	(void)state;
	assert_int_equal(link_open(&plugin_ops, transport, 0, &link), 0);
	address = raw_address(link.handle, &handle);
	for (unsigned round = 0; round < 200; round++) {
		struct tcp_wire_hello hello = raw_hello(&handle, &random);
		struct transport_connection *receiver;
		struct transport_request *request = NULL;
		uint8_t frame[TCP_WIRE_FRAME_BYTES];
		void *data = buffer, *registration = NULL;
		size_t bytes = 1 + random_below(&random, 1 << 20);
		int fds[2], tag = 0, r = 0;

		for (unsigned i = 0; i < 2; i++) {
			hello.stream = (uint8_t)i;
			fds[i] = raw_stream(&address, &hello, handle.secret);
		}
		assert_int_equal(link_accept(&plugin_ops, link.listener, &receiver), 0);
		r = plugin_ops.receive(receiver, 1, &data, &bytes, &tag, &registration, &request);
		for (uint64_t i = 1 + random_below(&random, 12); i > 0; i--) {
			random_frame(&random, frame);
			raw_put(fds[random_below(&random, 2)], frame, sizeof(frame));
			for (unsigned k = 0; k < 3 && r == 0 && request; k++) {
				bool done = false;

				r = plugin_ops.test(request, &done, NULL);
				request = done ? NULL : request;
			}
		}
		assert_true(r == 0 || r == -EREMOTEIO || r == -ENOTRECOVERABLE || r == -EIO || r == -EINVAL);
		close(fds[0]);
		close(fds[1]);
		plugin_ops.close_connection(receiver);
		if (round % 20 == 0)
			assert_int_equal(link_exchange(&link, 100000, round), 0);
	}
	assert_int_equal(link_exchange(&link, 1000000, 7), 0);
	link_close(&link);
	plugin_ops.close(transport);
	free(buffer);
}

int main(int argc, char **argv)
{
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	static const struct peer_role roles[] = {
		{ "flood", flood_role },
		{ "real", real_role },
		{ "idle", idle_role },
		{ NULL, NULL },
	};
	static unsigned few = 500, many = 5000;
	const struct CMUnitTest others[] = {
		cmocka_unit_test(ten_thousand_strangers),
		cmocka_unit_test_prestate(idle_strangers_do_not_delay_the_peer, &few),
		cmocka_unit_test_prestate(idle_strangers_do_not_delay_the_peer, &many),
		cmocka_unit_test(nonsense_harms_nobody_else),
	};
	static struct stranger_kind states[KINDS];
	struct CMUnitTest tests[KINDS];
	const char *filter;
	struct rlimit limit;
	int failed;

	peer_main(argc, argv, roles, 60);
	runtime_start("strangers_test", 110);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = LIMIT_FDS;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	runtime_set_streams(0);
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	for (unsigned i = 0; i < KINDS; i++) {
		states[i] = kinds[i];
		tests[i] = (struct CMUnitTest){ .name = kinds[i].name,
						.test_func = strangers_do_not_keep_the_peer_out,
						.initial_state = &states[i] };
	}
	failed = _cmocka_run_group_tests("strangers", tests, KINDS, NULL, NULL);
	return failed + cmocka_run_group_tests(others, NULL, NULL);
}
