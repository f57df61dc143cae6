/* SPDX-License-Identifier: Apache-2.0 */
#include "raw_peer.h"

#include "plugin_ops.h"
#include "support/link.h"
#include "support/runtime.h"
#include "transport/verbs/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct sockaddr_in raw_address(const uint8_t *handle_bytes, struct tcp_wire_handle *handle)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	uint8_t bytes[TRANSPORT_HANDLE_BYTES];
	unsigned version;

	memcpy(bytes, handle_bytes, sizeof(bytes));
	(void)verbs_wire_unmark_handle(bytes,
				       &version); /* RDMA's is that of a TCP listener, marked; TCP's stays as it is */
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), handle), 0);
	assert_int_equal(handle->address.family, 4);
	address.sin_port = htons(handle->address.port);
	memcpy(&address.sin_addr, handle->address.bytes, 4);
	return address;
}

int raw_connect(const struct sockaddr_in *address, bool wait)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
	int one = 1;

	assert_true(fd >= 0);
	/* Else the second of two small writes waits for the acknowledgement of the first. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 && errno != EINPROGRESS) {
		close(fd);
		return -1;
	}
	return fd;
}

struct tcp_wire_hello raw_hello(const struct tcp_wire_handle *handle, uint64_t *random)
{
	struct tcp_wire_hello hello = {
		.stream_count = 2,
		.active_count = 2,
		.listener_id = handle->listener_id,
		.process_id = (uint32_t)getpid(),
		.connection_id = random_next(random),
		.eager_window_bytes = 65536,
		.timeout_ms = 2000,
		.host = "stranger",
	};

	return hello;
}

void raw_put(int fd, const void *bytes, size_t count)
{
	ssize_t ignored = send(fd, bytes, count, MSG_NOSIGNAL);

	(void)ignored; /* it may be closed already: that is what is asked for */
}

bool raw_prove_hello(int fd, const struct tcp_wire_hello *hello, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		     uint8_t ret[static TCP_WIRE_HELLO_BYTES])
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	uint8_t bytes[TCP_WIRE_CHALLENGE_BYTES];
	struct tcp_wire_hello copy = *hello;
	struct tcp_wire_challenge challenge;
	struct tcp_wire_nonces nonces;

	if (poll(&readable, 1, 20000) != 1 || recv(fd, bytes, sizeof(bytes), MSG_WAITALL) != (ssize_t)sizeof(bytes))
		return false;
	assert_int_equal(tcp_wire_challenge(CODEC_FROM(bytes, sizeof(bytes)), &challenge), 0);
	memset(nonces.connecting, 5, sizeof(nonces.connecting));
	memcpy(nonces.accepting, challenge.nonce, sizeof(nonces.accepting));
	memcpy(copy.nonce, nonces.connecting, sizeof(copy.nonce));
	tcp_wire_hello(CODEC_TO(ret), &copy);
	tcp_wire_prove(TCP_WIRE_CONNECTING, secret, &nonces, ret, TCP_WIRE_HELLO_BYTES);
	return true;
}

void raw_put_hello(int fd, const struct tcp_wire_hello *hello, const uint8_t secret[static TCP_WIRE_SECRET_BYTES],
		   size_t count)
{
	uint8_t bytes[TCP_WIRE_HELLO_BYTES];

	if (raw_prove_hello(fd, hello, secret, bytes))
		raw_put(fd, bytes, count);
}

int raw_stream(const struct sockaddr_in *address, const struct tcp_wire_hello *hello,
	       const uint8_t secret[static TCP_WIRE_SECRET_BYTES])
{
	struct timeval patience = { .tv_sec = 20 };
	uint8_t bytes[TCP_WIRE_WELCOME_BYTES];
	struct tcp_wire_welcome welcome;
	int fd = raw_connect(address, true);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	raw_put_hello(fd, hello, secret, TCP_WIRE_HELLO_BYTES);
	assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
	assert_int_equal(tcp_wire_welcome(CODEC_FROM(bytes, TCP_WIRE_WELCOME_BYTES), &welcome), 0);
	assert_int_equal(welcome.status, TCP_WELCOME_OK);
	return fd;
}

struct transport *raw_opened(void)
{
	struct plugin_ops_log ignored;
	struct transport *transport;

	plugin_ops_choose(0);
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	plugin_ops_log_take(&ignored);
	return transport;
}

void raw_real_peer_is_served(struct transport *transport, struct link *link)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	while (!link->sender || !link->receiver) {
		if (!link->sender)
			assert_int_equal(plugin_ops.connect(transport, 0, -1, link->handle, &link->sender), 0);
		if (!link->receiver)
			assert_int_equal(plugin_ops.accept(link->listener, &link->receiver), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(link_exchange(link, 300000, runtime_seed()), 0);
}
