/* SPDX-License-Identifier: Apache-2.0 */
/* Each reason why a host is not reached has a line and a remedy of its own. */
#include "transport/tcp/reach.h"

#include "base/clock.h"
#include "base/params.h"
#include "transport/tcp/dial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct tcp_reach_facts place = {
	.ports = "20000-20999",
	.packet_bytes = 9000,
	.passes_bytes = 1500,
	.peers_version = 6,
	.own_version = 7,
	.own_host = "a",
	.host = "b",
	.at = "10.0.0.2:41234",
	.interface = "eth1",
};

static void what_the_system_says_is_told_apart(void **state)
{
	static const struct {
		int error;
		enum tcp_reach before, after; /* the TCP connection stood */
	} cases[] = {
		{ -ENETUNREACH, TCP_REACH_NO_ROUTE, TCP_REACH_NO_ROUTE },
		{ -ENETDOWN, TCP_REACH_NO_ROUTE, TCP_REACH_NO_ROUTE },
		{ -EADDRNOTAVAIL, TCP_REACH_NO_ROUTE, TCP_REACH_NO_ROUTE },
		{ -EHOSTUNREACH, TCP_REACH_NO_HOST, TCP_REACH_NO_HOST },
		{ -ETIMEDOUT, TCP_REACH_SILENT, TCP_REACH_STOPPED },
		{ -ECONNREFUSED, TCP_REACH_REFUSED, TCP_REACH_REFUSED },
		{ -ECONNRESET, TCP_REACH_CLOSED, TCP_REACH_CLOSED },
		{ -EPIPE, TCP_REACH_CLOSED, TCP_REACH_CLOSED },
		{ -EACCES, TCP_REACH_OTHER, TCP_REACH_OTHER },
		{ 0, TCP_REACH_OTHER, TCP_REACH_OTHER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(tcp_reach_of(cases[i].error, false), cases[i].before);
		assert_int_equal(tcp_reach_of(cases[i].error, true), cases[i].after);
	}
}

#define FROM_TO "cannot connect from host a to host b at 10.0.0.2:41234 through eth1: "

static void each_has_its_line_with_place_and_remedy(void **state)
{
	static const struct {
		enum tcp_reach reach;
		int error;
		const char *line;
	} cases[] = {
		{ TCP_REACH_NO_ROUTE, -ENETUNREACH,
		  FROM_TO
		  "no route leads there (Network is unreachable). Give the hosts addresses in one network, or add a "
		  "route" },
		{ TCP_REACH_NO_HOST, -EHOSTUNREACH,
		  FROM_TO
		  "nobody has that address there, or a router rejects it (No route to host). Look at cable, VLAN and "
		  "switch port, and at the peer's address and firewall" },
		{ TCP_REACH_SILENT, -ETIMEDOUT,
		  FROM_TO
		  "nothing answers, as a firewall drops packets or the host is down. Open TCP ports 20000-20999 between "
		  "the hosts in both directions" },
		{ TCP_REACH_REFUSED, -ECONNREFUSED,
		  FROM_TO
		  "it is refused, as the process there has ended or a firewall rejects the port. See the log of the "
		  "process there. Open TCP ports 20000-20999 between the hosts in both directions" },
		{ TCP_REACH_CLOSED, -ECONNRESET,
		  FROM_TO
		  "it is closed without an answer, as a proxy does or a process that ends. See the log of the process "
		  "there" },
		{ TCP_REACH_STOPPED, -ETIMEDOUT,
		  FROM_TO
		  "the connection stands, but its process does not answer. See whether the process there is stopped, "
		  "and its log" },
		{ TCP_REACH_FOREIGN, 0,
		  FROM_TO
		  "what answers there does not speak Tributary's protocol. Remove the proxy, or let TRIBUTARY_PORTS name "
		  "free ports" },
		{ TCP_REACH_SECRET, 0,
		  FROM_TO
		  "what answers there does not know the secret: another process, or another host with that address. Let "
		  "TRIBUTARY_IF leave out an address that two hosts have, or see the log of the listening process" },
		{ TCP_REACH_MTU, 0,
		  FROM_TO
		  "packets of 9000 bytes vanish on the way, those of 1500 pass. Set the MTU of the switches on the way to "
		  "9000 or more, or that of all hosts' interfaces to 1500" },
		{ TCP_REACH_VERSION, 0,
		  FROM_TO
		  "it speaks version 6 of Tributary's protocol, this host 7. Install the same release on both" },
		{ TCP_REACH_OTHER, -EACCES, FROM_TO "Permission denied. `tributary check` looks for the cause" },
	};
	bool seen[TCP_REACH_COUNT] = { false };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tcp_reach_facts facts = place;
		char line[TCP_REACH_LINE_BYTES];

		facts.error = cases[i].error;
		errno = EDOM;
		tcp_reach_line(cases[i].reach, &facts, line);
		assert_int_equal(errno, EDOM);
		assert_string_equal(line, cases[i].line);
		assert_true(strlen(line) < TCP_REACH_LINE_BYTES - 1);
		seen[cases[i].reach] = true;
	}
	for (size_t i = 0; i < TCP_REACH_COUNT; i++)
		assert_true(seen[i]);
}

/* A missing route is no firewall's doing. */
static void what_is_not_known_is_left_out(void **state)
{
	struct tcp_reach_facts facts = place;
	char line[TCP_REACH_LINE_BYTES];

	(void)state;
	facts.interface = NULL;
	facts.error = -ENETUNREACH;
	tcp_reach_line(TCP_REACH_NO_ROUTE, &facts, line);
	assert_non_null(strstr(line, "at 10.0.0.2:41234: no route"));
	assert_null(strstr(line, "firewall"));
	facts.ports = NULL;
	tcp_reach_line(TCP_REACH_SILENT, &facts, line);
	assert_non_null(strstr(line, "Open TCP ports 1024-65535 between the hosts in both directions, or set "
				     "TRIBUTARY_PORTS=LOW-HIGH and open those"));
	facts.passes_bytes = 0;
	tcp_reach_line(TCP_REACH_MTU, &facts, line);
	assert_non_null(strstr(line, "packets of 9000 bytes vanish on the way, short ones pass"));
	assert_non_null(strstr(line, "interfaces to what passes"));
}

/* Of a stream that is not raced: what it said last, unless it came further since. */
static void a_dial_that_runs_out_of_time_tells_how_far_it_came(void **state)
{
	static struct tcp_transport transport;
	static const int before[] = { 0, -ECONNRESET };
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	for (size_t i = 0; i < 2; i++) {
		static struct tcp_dial dial;

		dial = (struct tcp_dial){
			.state = TCP_DIAL_CHALLENGE, .fd = ends[0], .deadline_ns = 1, .last_error = before[i]
		};
		assert_int_equal(tcp_dial_step(&transport, &dial, 2), -ETIMEDOUT);
		assert_int_equal(tcp_dial_reach(&dial), TCP_REACH_STOPPED);
		dial = (struct tcp_dial){ .fd = -1, .retry_at_ns = 3, .deadline_ns = 1, .last_error = before[i] };
		assert_int_equal(tcp_dial_step(&transport, &dial, 2), -ETIMEDOUT);
		assert_int_equal(tcp_dial_reach(&dial), before[i] ? TCP_REACH_CLOSED : TCP_REACH_SILENT);
	}
	close(ends[0]);
	close(ends[1]);
}

/* Of a stream that is not raced: who accepts and says nothing may have forgotten it. It is no reason to take another way. */
static void what_is_half_open_is_dialled_anew(void **state)
{
	const struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const uint64_t replace_ns = params_replace_ns(30 * NS_PER_S);
	const struct params params = { .timeout_ns = 30 * NS_PER_S };
	static struct tcp_transport transport;
	static struct tcp_dial dial;
	struct sockaddr_in at;
	socklen_t bytes = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ends[2];
	char byte;

	(void)state;
	assert_int_equal(bind(listener, (const struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(listener, 2), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
	transport.params = &params;
	dial = (struct tcp_dial){
		.fd = -1, .port = ntohs(at.sin_port), .interface = -1, .pin = TCP_PIN_NONE, .deadline_ns = UINT64_MAX
	};
	dial.peer_bytes = sizeof(at);
	memcpy(&dial.peer, &at, sizeof(at));
	for (uint64_t i = 0; i < 2; i++) {
		const uint64_t begin_ns = i * 2 * replace_ns;

		for (unsigned tries = 0; dial.state != TCP_DIAL_CHALLENGE && tries < 10000; tries++, usleep(100))
			assert_int_equal(tcp_dial_step(&transport, &dial, begin_ns), 0);
		assert_int_equal(dial.state, TCP_DIAL_CHALLENGE);
		ends[i] = accept(listener, NULL, NULL);
		assert_true(ends[i] >= 0);
		assert_int_equal(tcp_dial_step(&transport, &dial, begin_ns + replace_ns), 0);
		assert_int_equal(dial.state, TCP_DIAL_CHALLENGE);
		assert_int_equal(tcp_dial_step(&transport, &dial, begin_ns + replace_ns + 1), 0);
		assert_int_equal(dial.state, TCP_DIAL_START);
		assert_int_equal(recv(ends[i], &byte, 1, 0), 0);
		close(ends[i]);
	}
	assert_false(dial.gave_up);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_system_says_is_told_apart),
		cmocka_unit_test(each_has_its_line_with_place_and_remedy),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(a_dial_that_runs_out_of_time_tells_how_far_it_came),
		cmocka_unit_test(what_is_half_open_is_dialled_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
