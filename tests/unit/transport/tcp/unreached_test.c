/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the log says of a host that is not reached: two network namespaces, joined by a pair of ports. The host there listens;
 * what its handle says of it is changed. Other versions, and answers that are no answers: tests/conformance/misfit_test.c.
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
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "support/parallel.h"

enum { TIMEOUT_MS = 2500 };

static void set_params(struct params *ret)
{
	params_defaults(ret);
	ret->timeout_ns = TIMEOUT_MS * NS_PER_MS * runtime_slow();
}

/* There: listens until it is told to end. */
static int host(int control, const char *argument)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES], byte;
	struct transport_listener *listener;
	struct transport *transport;
	struct params params;
	int r;

	(void)argument;
	if (unshare(CLONE_NEWNET) || peer_write(control, "r", 1) || peer_read(control, &byte, 1))
		return 1;
	set_params(&params);
	log_set_sink(log_lines_ignore);
	r = transport_tcp.open(&params, &transport);
	if (r == 0)
		r = transport_tcp.listen(transport, 0, handle, &listener);
	if (r < 0 || peer_write(control, handle, sizeof(handle)))
		return 1;
	while (peer_read(control, &byte, 1) == -ETIMEDOUT)
		;
	transport_tcp.close_listener(listener);
	transport_tcp.close(transport);
	return 0;
}

static struct peer there;
static struct tcp_wire_handle handle;
static struct transport *transport;

static int setup(void **state)
{
	uint8_t bytes[TRANSPORT_HANDLE_BYTES];
	static struct params params;

	(void)state;
	assert_true(private_net_enter());
	assert_int_equal(peer_start("host", "", &there), 0);
	assert_int_equal(peer_read(there.control, bytes, 1), 0);
	assert_int_equal(
		private_net_command("ip link set lo up && ip link add eth0 type veth peer name eth0 netns %d && "
				    "ip addr add 10.9.0.1/24 dev eth0",
				    (int)there.pid),
		0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip addr add 10.9.0.2/24 dev eth0", (int)there.pid), 0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip link set eth0 up", (int)there.pid), 0);
	assert_true(private_net_up("eth0"));
	/* That nobody answers for an address the kernel says after three requests. */
	assert_int_equal(private_net_command("ip ntable change name arp_cache dev eth0 retrans 100"), 0);
	/* What is sent there vanishes. */
	assert_int_equal(private_net_command("ip neigh add 10.9.0.98 lladdr 02:00:00:00:00:98 dev eth0"), 0);
	assert_int_equal(peer_write(there.control, "l", 1), 0);
	assert_int_equal(peer_read(there.control, bytes, sizeof(bytes)), 0);
	assert_int_equal(tcp_wire_handle(CODEC_FROM(bytes, TCP_WIRE_HANDLE_BYTES), &handle), 0);
	set_params(&params);
	log_lines_start(NULL);
	return transport_tcp.open(&params, &transport);
}

static int teardown(void **state)
{
	(void)state;
	transport_tcp.close(transport);
	log_set_sink(NULL);
	peer_stop(&there);
	return 0;
}

/* One line says that, and nothing of a firewall where none can be at fault. */
static void expect(const char *reason, const char *remedy, bool may_be_a_firewall)
{
	struct transport_connection *connection;
	uint8_t bytes[TRANSPORT_HANDLE_BYTES];

	tcp_wire_handle(CODEC_TO(bytes), &handle);
	log_lines_forget();
	assert_int_not_equal(link_connect(&transport_tcp, transport, 0, bytes, &connection), 0);
	assert_int_equal(log_lines()->warnings, 1);
	if (!strstr(log_lines()->text, reason) || !strstr(log_lines()->text, remedy))
		fail_msg("%s, not %s", log_lines()->text, reason);
	assert_int_equal(strstr(log_lines()->text, "firewall") != NULL, may_be_a_firewall);
}

static void go_to(struct tcp_wire_address *address, uint8_t network, uint8_t host)
{
	address->bytes[2] = network;
	address->bytes[3] = host;
}

static void no_route_leads_there(void **state)
{
	(void)state;
	go_to(&handle.address, 77, 2);
	expect("at 10.9.77.2:",
	       "no route leads there (Network is unreachable). Give the hosts addresses in one network", false);
}

static void nobody_has_the_address(void **state)
{
	(void)state;
	go_to(&handle.address, 0, 99);
	expect("nobody has that address there", "Look at cable, VLAN and switch port", true);
}

static void nothing_answers(void **state)
{
	(void)state;
	go_to(&handle.address, 0, 98);
	expect("at 10.9.0.98:",
	       "nothing answers, as a firewall drops packets or the host is down. Open TCP ports 1024-65535", true);
}

/* Of several ways the one that tells most is said: that there is no route to one of them is no fault. */
static void the_way_that_tells_most_is_said(void **state)
{
	(void)state;
	handle.way_count = 1;
	handle.ways[0] = handle.address;
	go_to(&handle.address, 77, 2);
	go_to(&handle.ways[0], 0, 98);
	expect("at 10.9.0.98:", "nothing answers", true);
}

static void it_is_refused(void **state)
{
	(void)state;
	handle.address.port = 1;
	handle.address.tied_port = 0;
	expect("at 10.9.0.2:1", "it is refused, as the process there has ended or a firewall rejects the port", true);
}

static void it_has_another_secret(void **state)
{
	(void)state;
	handle.secret[0] ^= 1;
	expect("at 10.9.0.2:", "what answers there does not know the secret", false);
}

static void it_is_stopped(void **state)
{
	siginfo_t stopped;

	(void)state;
	assert_int_equal(kill(there.pid, SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)there.pid, &stopped, WSTOPPED | WNOWAIT), 0);
	expect("at 10.9.0.2:", "the connection stands, but its process does not answer", false);
	assert_int_equal(kill(there.pid, SIGCONT), 0);
}

/* As NCCL's own networks make them. */
static void it_has_left_the_network_to_nccl(void **state)
{
	static const struct {
		uint8_t begin[32];
		int32_t sockets;
		const char *said;
	} cases[] = {
		{ { AF_INET, 0, 0x9c, 0x40, 10, 1, 2, 3 }, 0, "host 10.1.2.3 uses NCCL's own RDMA" },
		{ { AF_INET6, 0, 0x9c, 0x40, [8] = 0xfd, [23] = 7 }, 0, "set TRIBUTARY_NET=tcp on all" },
		{ { AF_INET, 0, 0x9c, 0x40, 10, 1, 2, 3 }, 2, "host 10.1.2.3 uses NCCL's own sockets" },
		{ { AF_UNIX }, 0, "a handle that is not Tributary's" },
	};
	static const uint64_t magic = UINT64_C(0x564ab9f2fc4b9d6c);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct transport_connection *connection = NULL;
		uint8_t bytes[TRANSPORT_HANDLE_BYTES] = { 0 };

		memcpy(bytes, cases[i].begin, 32);
		memcpy(bytes + 32, &magic, sizeof(magic));
		memcpy(bytes + 40, &cases[i].sockets, 4);
		log_lines_forget();
		assert_int_equal(link_connect(&transport_tcp, transport, 0, bytes, &connection), -EPROTO);
		assert_int_equal(log_lines()->warnings, 1);
		if (!strstr(log_lines()->warning, cases[i].said))
			fail_msg("\"%s\" is not in \"%s\"", cases[i].said, log_lines()->warning);
	}
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "host", host }, { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_route_leads_there), cmocka_unit_test(nobody_has_the_address),
		cmocka_unit_test(nothing_answers),      cmocka_unit_test(the_way_that_tells_most_is_said),
		cmocka_unit_test(it_is_refused),        cmocka_unit_test(it_has_another_secret),
		cmocka_unit_test(it_is_stopped),        cmocka_unit_test(it_has_left_the_network_to_nccl),
	};

	peer_main(argc, argv, roles, 120);
	runtime_start("unreached_test", 120);
	if (!private_net_enter_with_hosts()) {
		printf("skipped: no network namespaces, or no iproute2 and nsenter\n");
		return 77;
	}
	return parallel_run_group_tests(tests, setup, teardown);
}
