/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/tcp/tcp.h"

enum { SEGMENT_BYTES = 1400, CHUNK_BYTES = 64 << 10, CHUNKS = 64 };

/* A connected pair over loopback, with segments as small as Ethernet's. */
static void pair_open(int fds[static 2])
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), segment_bytes = SEGMENT_BYTES;

	fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(listener >= 0 && fds[0] >= 0);
	setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
	setsockopt(fds[0], IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&address, sizeof(address)), 0);
	fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fds[1] >= 0);
	close(listener);
}

/* Some megabytes through it, in chunks that are read as they come. */
static void pair_use(const int fds[static 2])
{
	char *chunk = calloc(1, CHUNK_BYTES);

	assert_non_null(chunk);
	for (unsigned i = 0; i < CHUNKS; i++) {
		ssize_t sent = send(fds[0], chunk, CHUNK_BYTES, MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(sent > 0);
		assert_int_equal(recv(fds[1], chunk, (size_t)sent, MSG_WAITALL), sent);
	}
	free(chunk);
}

/* What fds[1] advertises, as fds[0] knows it; skips where the kernel does not tell. */
static unsigned window_of(const int fds[static 2])
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	assert_int_equal(getsockopt(fds[0], IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	if (bytes < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(info.tcpi_snd_wnd)) {
		print_message("skipped: this kernel does not tell the peer's window\n");
		skip();
	}
	return info.tcpi_snd_wnd;
}

static void the_peer_is_told_of_a_bound_and_of_its_end(void **state)
{
	unsigned before, bounded;
	int fds[2];

	(void)state;
	pair_open(fds);
	pair_use(fds);
	before = window_of(fds);
	assert_true(before > 40000);
	tcp_socket_window(fds[1], 20000);
	pair_use(fds);
	bounded = window_of(fds);
	if (bounded == before) {
		print_message("skipped: kernels before 5.15 do not bound a window in mid-stream\n");
		skip();
	}
	/* The receiver's own tuning lifts it, which is why it is set again for every window of bytes. */
	tcp_socket_window(fds[1], 20000);
	tcp_socket_window(fds[1], 0);
	pair_use(fds);
	assert_true(window_of(fds) > 40000);
	close(fds[0]);
	close(fds[1]);
}

static void the_kernel_has_measured_the_path(void **state)
{
	int fds[2];

	(void)state;
	pair_open(fds);
	for (unsigned i = 0; i < 2; i++) {
		assert_in_range(tcp_socket_path_ns(fds[i]), 1, NS_PER_S);
		close(fds[i]);
		assert_int_equal(tcp_socket_path_ns(fds[i]), 0);
	}
}

static void kernels_that_bound_windows_are_known(void **state)
{
	(void)state;
	assert_true(tcp_kernel_bounds_windows("5.15.0-91-generic"));
	assert_true(tcp_kernel_bounds_windows("6.1.0"));
	assert_false(tcp_kernel_bounds_windows("5.14.0-427.el9.x86_64"));
	assert_false(tcp_kernel_bounds_windows("4.18.0-553.el8_10.x86_64"));
	assert_false(tcp_kernel_bounds_windows("what"));
}

static void a_bound_leaves_two_segments(void **state)
{
	socklen_t length = sizeof(int);
	int fds[2], segment_bytes;

	(void)state;
	pair_open(fds);
	assert_int_equal(getsockopt(fds[1], IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, &length), 0);
	assert_int_equal(tcp_socket_window(fds[1], 1), 2 * segment_bytes);
	assert_in_range(tcp_socket_window_offered(fds[1]), 2 * SEGMENT_BYTES - 1024, 64 << 10);
	pair_use(fds);
	assert_true(window_of(fds) >= 2 * SEGMENT_BYTES - 1024); /* of which the window's scale rounds a little off */
	close(fds[0]);
	close(fds[1]);
}

static uint64_t pace_of(int fd)
{
	uint64_t rate_Bps = 0;
	socklen_t bytes = sizeof(rate_Bps);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate_Bps, &bytes), 0);
	return bytes == sizeof(rate_Bps) ? rate_Bps : (uint32_t)rate_Bps;
}

/* Rates of 34 Gbit/s and more have more than 32 bits: what an old kernel would keep of them is no limit instead. */
static void a_socket_is_paced_as_told(void **state)
{
	int fds[2];
	uint64_t none;

	(void)state;
	pair_open(fds);
	none = pace_of(fds[0]);
	tcp_socket_pace(fds[0], 25000000);
	assert_int_equal(pace_of(fds[0]), 25000000);
	tcp_socket_pace(fds[0], UINT64_C(25000000000));
	assert_true(pace_of(fds[0]) == UINT64_C(25000000000) || pace_of(fds[0]) == none);
	tcp_socket_pace(fds[0], 0);
	assert_int_equal(pace_of(fds[0]), none);
	pair_use(fds);
	close(fds[0]);
	close(fds[1]);
}

static void a_stream_keeps_its_limit_with_another_socket(void **state)
{
	struct tcp_stream stream;
	int one[2], other[2];
	uint64_t none;

	(void)state;
	memset(&stream, 0, sizeof(stream));
	pair_open(one);
	pair_open(other);
	none = pace_of(one[0]);
	tcp_stream_attach(&stream, one[0], 1, 1);
	assert_int_equal(pace_of(one[0]), none);
	tcp_stream_limit_rate(&stream, 5000000);
	assert_int_equal(pace_of(one[0]), 5000000);
	stream.live = false;
	tcp_stream_limit_rate(&stream, 6000000); /* nothing to set it on now */
	assert_int_equal(pace_of(one[0]), 5000000);
	tcp_stream_attach(&stream, other[0], 2, 2);
	assert_int_equal(pace_of(other[0]), 6000000);
	for (size_t i = 0; i < 2; i++) {
		close(one[i]);
		close(other[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_peer_is_told_of_a_bound_and_of_its_end),
		cmocka_unit_test(the_kernel_has_measured_the_path),
		cmocka_unit_test(kernels_that_bound_windows_are_known),
		cmocka_unit_test(a_bound_leaves_two_segments),
		cmocka_unit_test(a_socket_is_paced_as_told),
		cmocka_unit_test(a_stream_keeps_its_limit_with_another_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
