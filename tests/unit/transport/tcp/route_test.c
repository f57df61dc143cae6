/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel says of the way of a connection of this machine to itself. */
#include "transport/tcp/route.h"

#include "base/sys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static socklen_t loopback(int family, struct sockaddr_storage *ret)
{
	struct sockaddr_in *four = (struct sockaddr_in *)(void *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)ret;

	memset(ret, 0, sizeof(*ret));
	if (family == AF_INET6) {
		*six = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
		return sizeof(*six);
	}
	*four = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	return sizeof(*four);
}

static void a_connection_came_through_its_interface(void **state)
{
	int index = (int)if_nametoindex("lo");

	(void)state;
	assert_true(index > 0);
	for (unsigned turn = 0; turn < 2; turn++) {
		int family = turn ? AF_INET6 : AF_INET, listener = sys_socket(family, SOCK_STREAM, 0), ends[2], on = -1;
		struct sockaddr_storage address, peer;
		socklen_t bytes = loopback(family, &address);

		if (turn && (listener < 0 || bind(listener, (struct sockaddr *)&address, bytes) < 0)) {
			sys_close(&listener); /* no IPv6 here */
			continue;
		}
		if (!turn)
			assert_int_equal(bind(listener, (struct sockaddr *)&address, bytes), 0);
		assert_int_equal(listen(listener, 1), 0);
		assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
		ends[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(ends[0], (struct sockaddr *)&address, bytes), 0);
		bytes = sizeof(peer);
		ends[1] = accept4(listener, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC);
		assert_true(ends[1] >= 0);
		errno = 77;
		assert_int_equal(tcp_route_came_through(ends[1], family), index);
		assert_int_equal(errno, 77);
		bytes = sizeof(on);
		if (!turn)
			assert_int_equal(getsockopt(ends[1], IPPROTO_IP, IP_PKTINFO, &on, &bytes), 0);
		if (!turn)
			assert_int_equal(on, 0);
		sys_close(&ends[0]);
		sys_close(&ends[1]);
		sys_close(&listener);
		assert_true(tcp_route_came_through(-1, family) < 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_came_through_its_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
