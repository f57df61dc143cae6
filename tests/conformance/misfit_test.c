/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that do not fit: another version of the protocol, no plugin at all. One error, soon, and it names both hosts.
 */
#include "plugin_ops.h"
#include "raw_peer.h"
#include "support/link.h"
#include "support/runtime.h"
#include "transport/verbs/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static unsigned times_in(const char *text, const char *word)
{
	unsigned times = 0;

	for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
		times++;
	return times;
}

static void host_name(char *name, size_t bytes)
{
	assert_int_equal(gethostname(name, bytes), 0);
	name[bytes - 1] = '\0';
}

/* A listener that is not the plugin's, and a handle that leads to it. */
static int fake_listener(uint8_t *handle_bytes, const char *host)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(address);
	struct tcp_wire_handle handle = { .address = { .family = 4 }, .rail_count = 1, .listener_id = 1 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const char *net = getenv("TRIBUTARY_NET");

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 16), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	handle.address.port = ntohs(address.sin_port);
	memcpy(handle.address.bytes, &address.sin_addr, 4);
	snprintf(handle.host, sizeof(handle.host), "%s", host);
	tcp_wire_handle(CODEC_TO(handle_bytes), &handle);
	if (net && !strcmp(net, "verbs"))
		verbs_wire_mark_handle(handle_bytes);
	return fd;
}

/* What the fake answers to each greeting; NULL: it closes without a word. */
static int connect_to_fake(struct transport *transport, const void *answer, size_t bytes, const char *host)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	uint8_t handle[TRANSPORT_HANDLE_BYTES], greeting[TCP_WIRE_HELLO_BYTES];
	struct transport_connection *sender = NULL;
	int fd = fake_listener(handle, host), got = -1, r = 0;

	while (r == 0) {
		r = plugin_ops.connect(transport, 0, -1, handle, &sender);
		assert_null(sender);
		got = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (got >= 0) {
			/* Its greeting is on the way at the latest after two more steps. */
			for (unsigned i = 0; i < 2 && r == 0; i++)
				r = plugin_ops.connect(transport, 0, -1, handle, &sender);
			(void)!recv(got, greeting, sizeof(greeting), MSG_DONTWAIT);
			if (answer)
				raw_put(got, answer, bytes);
			close(got);
		}
		if (runtime_past(deadline_ns))
			r = -ETIMEDOUT;
	}
	close(fd);
	return r;
}

static void one_error_names_both_hosts(const struct plugin_ops_log *log, const char *other)
{
	char own[64];

	host_name(own, sizeof(own));
	assert_int_equal(log->warnings, 1);
	if (!strstr(log->last_warning, own) || !strstr(log->last_warning, other))
		fail_msg("does not name %s and %s: %s", own, other, log->last_warning);
}

static void a_listener_of_another_version(void **state)
{
	struct transport *transport = raw_opened();
	struct tcp_wire_challenge challenge = { 0 };
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];
	struct plugin_ops_log log;
	int r;

	(void)state;
	tcp_wire_challenge(CODEC_TO(bytes), &challenge);
	bytes[4] = TCP_WIRE_VERSION + 1;
	r = connect_to_fake(transport, bytes, sizeof(bytes), "newer-host");
	assert_true(r < 0 && r != -ETIMEDOUT);
	plugin_ops_log_take(&log);
	one_error_names_both_hosts(&log, "newer-host");
	plugin_ops.close(transport);
}

static void a_handle_of_another_version(void **state)
{
	struct transport *transport = raw_opened();
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_connection *sender = NULL;
	struct plugin_ops_log log;
	int fd = fake_listener(handle, "older-host"), r;

	(void)state;
	handle[4] = (uint8_t)(TCP_WIRE_VERSION + 7);
	r = link_connect(&plugin_ops, transport, 0, handle, &sender);
	assert_true(r < 0 && r != -ETIMEDOUT);
	plugin_ops_log_take(&log);
	one_error_names_both_hosts(&log, "older-host");
	close(fd);
	plugin_ops.close(transport);
}

/* Something else listens there: another plugin's handle, a port used again. */
static void a_listener_that_is_no_plugin(void **state)
{
	static const char nonsense[TCP_WIRE_WELCOME_BYTES] = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n";
	const char *const answers[] = { nonsense, NULL };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct transport *transport = raw_opened();
		struct plugin_ops_log log;
		int r = connect_to_fake(transport, answers[i], sizeof(nonsense), "plain-host");

		assert_true(r < 0 && r != -ETIMEDOUT);
		plugin_ops_log_take(&log);
		one_error_names_both_hosts(&log, "plain-host");
		plugin_ops.close(transport);
	}
}

/* A peer of another version connects: it is told, one line is said here, and the real peer is served. */
static void a_greeting_of_another_version(void **state)
{
	struct transport *transport = raw_opened();
	struct link link = { .ops = &plugin_ops };
	struct timeval patience = { .tv_sec = 5 };
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	struct plugin_ops_log log;
	struct tcp_wire_handle handle;
	struct tcp_wire_hello hello;
	struct sockaddr_in address;
	uint64_t random = runtime_seed();
	char own[64];
	int fd;

	(void)state;
	host_name(own, sizeof(own));
	assert_int_equal(plugin_ops.listen(transport, 0, link.handle, &link.listener), 0);
	address = raw_address(link.handle, &handle);
	hello = raw_hello(&handle, &random);
	fd = raw_connect(&address, true);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	tcp_wire_hello(CODEC_TO(bytes), &hello);
	bytes[4] = (uint8_t)(TCP_WIRE_VERSION + 1);
	raw_put(fd, bytes, TCP_WIRE_HELLO_BYTES);
	assert_int_equal(recv(fd, bytes, TCP_WIRE_CHALLENGE_BYTES, MSG_WAITALL), TCP_WIRE_CHALLENGE_BYTES);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	close(fd);
	raw_real_peer_is_served(transport, &link);
	link_close(&link);
	plugin_ops_log_take(&log);
	assert_int_equal(log.warnings, 1);
	assert_true(times_in(log.last_warning, own) >= 1);
	if (!strstr(log.last_warning, "127.0.0.1") && !strstr(log.last_warning, hello.host))
		fail_msg("does not say who: %s", log.last_warning);
	plugin_ops.close(transport);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_listener_of_another_version),
		cmocka_unit_test(a_handle_of_another_version),
		cmocka_unit_test(a_listener_that_is_no_plugin),
		cmocka_unit_test(a_greeting_of_another_version),
	};
	const char *filter;

	runtime_start("misfit_test", 60);
	runtime_set_streams(0);
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
