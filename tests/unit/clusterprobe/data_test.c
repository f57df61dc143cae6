/* SPDX-License-Identifier: Apache-2.0 */
/* What a port counts of real connections, to the byte, and what it makes of the kernel's counts. No times: it waits. */
#include "clusterprobe/clusterprobe.h"

#include "base/sys.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROUND = 3, FLOW = 7, SMALL = 100, LARGE = 200000, MESSAGES = 64, WAITS_MOST = 60000 };

static const uint8_t token[CLUSTERPROBE_TOKEN_BYTES] = "fifteen letters";

struct caller {
	struct clusterprobe_receiver *port;
	int fd;
};

static void send_bytes(const struct caller *caller, const uint8_t *bytes, size_t count)
{
	while (count) {
		struct pollfd ready = { caller->fd, POLLOUT, 0 };
		ssize_t sent;

		assert_int_equal(poll(&ready, 1, WAITS_MOST), 1);
		sent = sys_send(caller->fd, bytes, count);
		assert_true(sent > 0);
		bytes += sent;
		count -= (size_t)sent;
	}
}

/* A connection that has sent its preamble. */
static struct caller call(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct clusterprobe_preamble preamble = { .flow = FLOW, .round = ROUND };
	uint8_t bytes[CLUSTERPROBE_PREAMBLE_BYTES];
	struct sockaddr_storage bound;
	struct caller caller;
	int on = 1;

	assert_int_equal(clusterprobe_receiver_open((struct sockaddr_storage *)(void *)&address, sizeof(address),
						    &caller.port, &bound),
			 0);
	clusterprobe_receiver_admit(caller.port, token);
	caller.fd = sys_socket(AF_INET, SOCK_STREAM, 0);
	assert_true(caller.fd >= 0);
	assert_int_equal(setsockopt(caller.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	(void)sys_connect(caller.fd, (struct sockaddr *)&bound, sizeof(address));
	memcpy(preamble.token, token, sizeof(token));
	clusterprobe_preamble_codec(CODEC_TO(bytes), &preamble);
	send_bytes(&caller, bytes, sizeof(bytes));
	return caller;
}

static void hang_up(struct caller *caller)
{
	sys_close(&caller->fd);
	clusterprobe_receiver_close(caller->port);
}

static uint64_t taken(struct clusterprobe_receiver *port, uint32_t round, uint16_t flow)
{
	static const struct clusterprobe_count none;
	struct clusterprobe_count count;

	clusterprobe_receiver_count(port, round, flow, &count);
	return clusterprobe_receiver_moved(&none, &count);
}

static uint64_t count_until(const struct caller *caller, uint64_t expected)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < WAITS_MOST; i++) {
		count = taken(caller->port, ROUND, FLOW);
		if (count >= expected)
			break;
		poll(NULL, 0, 1);
	}
	return count;
}

/* One by one, so that each is a segment of its own: segments are not all as large as the largest. */
static void bytes_are_counted_once_whatever_the_segments(void **state)
{
	static const uint8_t bytes[LARGE];
	uint64_t sent = CLUSTERPROBE_PREAMBLE_BYTES + LARGE;
	struct caller caller = call();

	(void)state;
	send_bytes(&caller, bytes, LARGE);
	assert_int_equal(count_until(&caller, sent), sent);
	for (unsigned i = 0; i < MESSAGES; i++) {
		send_bytes(&caller, bytes, SMALL);
		sent += SMALL;
		assert_int_equal(count_until(&caller, sent), sent);
	}
	assert_int_equal(taken(caller.port, ROUND, FLOW + 1), 0);
	assert_int_equal(taken(caller.port, ROUND + 1, FLOW), 0);
	hang_up(&caller);
}

/* A sender whose round is over first must not take back what it sent: a difference of counts would be below zero. */
static void what_came_is_counted_after_the_sender_has_gone(void **state)
{
	static const uint8_t bytes[SMALL];
	const uint64_t sent = CLUSTERPROBE_PREAMBLE_BYTES + SMALL;
	struct caller caller = call();
	struct pollfd closed = { .fd = caller.fd, .events = POLLIN };
	uint8_t none;

	(void)state;
	send_bytes(&caller, bytes, SMALL);
	assert_int_equal(count_until(&caller, sent), sent);
	assert_int_equal(shutdown(caller.fd, SHUT_WR), 0);
	/* The port closes when it has seen it. */
	assert_int_equal(poll(&closed, 1, WAITS_MOST), 1);
	assert_int_equal(sys_recv(caller.fd, &none, 1, 0), 0);
	/* Its end has a number in TCP as a byte has. */
	assert_in_range(taken(caller.port, ROUND, FLOW), sent, sent + 1);
	hang_up(&caller);
}

static void what_waits_for_a_gap_has_come(void **state)
{
	/* In order, segments, of them out of order, bytes of one. */
	static const struct {
		struct clusterprobe_count before, after;
		uint64_t moved;
	} cases[] = {
		{ { 0, 0, 0, 536 }, { 0, 0, 0, 536 }, 0 },
		/* All full, none missing. */
		{ { 0 }, { 10000, 10, 0, 1000 }, 10000 },
		/* The second of ten is missing. */
		{ { 0 }, { 1000, 9, 8, 1000 }, 9000 },
		/* The gap is full again. */
		{ { 0 }, { 10000, 10, 8, 1000 }, 10000 },
		{ { 1000, 9, 8, 1000 }, { 10000, 10, 8, 1000 }, 1000 },
		{ { 1000, 9, 8, 1000 }, { 15000, 15, 8, 1000 }, 6000 },
		/* Half full, in order; and two of them behind a gap. */
		{ { 0 }, { 5000, 10, 0, 1000 }, 5000 },
		{ { 0 }, { 4000, 10, 2, 1000 }, 6000 },
		/* Joined on the way, and counted as one. */
		{ { 0 }, { 64000, 10, 3, 1000 }, 64000 },
		{ { 64000, 10, 3, 1000 }, { 128000, 20, 3, 1000 }, 64000 },
		/* Ten had come twice before; of what came since, half was out of order, and has its place by now. */
		{ { 10000, 20, 0, 1000 }, { 30000, 40, 10, 1000 }, 20000 },
		/* A connection that has made way for another. */
		{ { 10000, 10, 0, 1000 }, { 0, 0, 0, 0 }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (clusterprobe_receiver_moved(&cases[i].before, &cases[i].after) != cases[i].moved)
			fail_msg("case %zu: %llu", i,
				 (unsigned long long)clusterprobe_receiver_moved(&cases[i].before, &cases[i].after));
}

#ifdef TRIBUTARY_FAULTS
/* Nothing is left behind: that is the sanitizer's to see. */
static void a_port_that_cannot_open_says_so(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_SOCKET, SYS_FAULT_BIND,
						     SYS_FAULT_THREAD };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage bound;
	struct clusterprobe_receiver *port = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		sys_fault_set(kinds[i], 1, ENOMEM);
		assert_int_equal(clusterprobe_receiver_open((struct sockaddr_storage *)(void *)&address,
							    sizeof(address), &port, &bound),
				 -ENOMEM);
		assert_null(port);
		sys_fault_set(kinds[i], 0, 0);
	}
}

static void a_sender_that_cannot_send_says_so(void **state)
{
	static const enum sys_fault_kind kinds[] = { SYS_FAULT_MEMORY, SYS_FAULT_THREAD, SYS_FAULT_SOCKET,
						     SYS_FAULT_CONNECT, SYS_FAULT_WRITE };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	static const _Atomic bool never = false;
	struct sockaddr_storage bound;
	struct clusterprobe_receiver *port;
	struct clusterprobe_address to;

	(void)state;
	assert_int_equal(
		clusterprobe_receiver_open((struct sockaddr_storage *)(void *)&address, sizeof(address), &port, &bound),
		0);
	clusterprobe_receiver_admit(port, token);
	clusterprobe_address_of(&bound, &to);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct clusterprobe_sending what = { .to = to,
						     .preamble = { .echo = true, .round = ROUND },
						     .stop = &never };
		uint64_t median_ns, least_ns;
		struct clusterprobe_sender *sender;

		memcpy(what.preamble.token, token, sizeof(token));
		sys_fault_set(kinds[i], 1, ENOMEM);
		if (i < 2)
			assert_int_equal(clusterprobe_sender_start(&what, &sender), -ENOMEM);
		else
			assert_int_equal(clusterprobe_ping(&what, 3, &median_ns, &least_ns), -ENOMEM);
		sys_fault_set(kinds[i], 0, 0);
	}
	clusterprobe_receiver_close(port);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_counted_once_whatever_the_segments),
		cmocka_unit_test(what_came_is_counted_after_the_sender_has_gone),
		cmocka_unit_test(what_waits_for_a_gap_has_come),
#ifdef TRIBUTARY_FAULTS
		cmocka_unit_test(a_port_that_cannot_open_says_so),
		cmocka_unit_test(a_sender_that_cannot_send_says_so),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
