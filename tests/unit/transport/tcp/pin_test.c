/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which port carries the data of two hosts: network namespaces, joined by a bridge in the test's own. "a" dials "b".
 * What is not possible here (namespaces, iproute2) is skipped.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/private_net.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 3, PORTS_MAX = 3, DATA_BYTES = 4 << 20, LITTLE_BYTES = 64 << 10 };
/*
 * A way on which nothing is heard is left after a quarter of it, or of a third of a long one: soon, or later than a connect
 * ever takes. (A lost request for a neighbour alone is a second.)
 */
enum { SOON_MS = 4000, LATE_MS = 3600000 };
/* A peer that is held up longer than all tries of ways, and a time-out that is longer still. */
enum { HELD_MS = 6000, HELD_TIMEOUT_MS = 30000 };

/* What the test tells a host to do, and what comes back. */
struct order {
	char interface[16];
	bool listens;
	unsigned timeout_ms; /* HELD_TIMEOUT_MS: b is held up as a dials it */
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	char from[16], to[16]; /* not empty: only knock there from that address, and take another order */
};
struct answer {
	int result;
	bool left; /* a way on which nothing was heard */
	uint64_t out_bytes[PORTS_MAX], in_bytes[PORTS_MAX];
};

/* -------- a host -------- */

static atomic_bool left;

__attribute__((format(printf, 5, 6))) static void note_left(int level, unsigned long flags, const char *file, int line,
							    const char *fmt, ...)
{
	char text[512];
	va_list args;

	(void)level, (void)flags, (void)file, (void)line;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "%s\n", text);
	if (strstr(text, "did not answer through interface"))
		atomic_store(&left, true);
}

static void count(struct answer *answer)
{
	FILE *file = fopen("/proc/thread-self/net/dev", "r");
	unsigned long long in, out;
	char line[512];
	unsigned port;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, " eth%u: %llu %*u %*u %*u %*u %*u %*u %*u %llu", &port, &in, &out) == 3 &&
		    port < PORTS_MAX) {
			answer->in_bytes[port] = in;
			answer->out_bytes[port] = out;
		}
	}
	if (file)
		fclose(file);
}

static int transfer(int control, const struct order *order, struct transport *transport)
{
	static uint8_t data[DATA_BYTES];
	const struct transport_ops *ops = &transport_tcp;
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	size_t bytes = 0;
	int r;

	if (order->listens) {
		r = ops->listen(transport, 0, handle, &listener);
		if (r == 0)
			r = peer_write(control, handle, sizeof(handle));
		if (r == 0)
			r = link_accept(ops, listener, &connection);
		if (r == 0)
			r = link_receive(ops, connection, data, sizeof(data), 7, &bytes);
	} else {
		memcpy(handle, order->handle, sizeof(handle));
		r = link_connect(ops, transport, 0, handle, &connection);
		if (r == 0)
			r = link_send(ops, connection, data, sizeof(data), 7);
	}
	if (connection)
		ops->close_connection(connection);
	if (listener)
		ops->close_listener(listener);
	return r;
}

/* A connection as programs make it that choose an address alone; nobody listens. Both ends learn a neighbour. */
static int knock(const struct order *order)
{
	struct sockaddr_in from = { .sin_family = AF_INET }, to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), r = -1;

	inet_pton(AF_INET, order->from, &from.sin_addr);
	inet_pton(AF_INET, order->to, &to.sin_addr);
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&from, sizeof(from)) &&
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno == ECONNREFUSED)
		r = 0;
	close(fd);
	return r;
}

static int host(int control, const char *argument)
{
	struct answer answer = { 0 };
	struct transport *transport;
	struct params params;
	struct order order;

	(void)argument;
	if (unshare(CLONE_NEWNET))
		return 1;
	do {
		if (peer_write(control, "r", 1) || peer_read(control, &order, sizeof(order)))
			return 1;
	} while (order.from[0] && !knock(&order));
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "=%s", order.interface);
	params.timeout_ns = order.timeout_ms * NS_PER_MS * runtime_slow();
	log_set_sink(note_left);
	answer.result = transport_tcp.open(&params, &transport);
	if (answer.result == 0) {
		answer.result = transfer(control, &order, transport);
		transport_tcp.close(transport);
	}
	if (!log_drain(60000))
		return 1;
	log_set_sink(NULL);
	answer.left = atomic_load(&left);
	count(&answer);
	peer_write(control, &answer, sizeof(answer));
	return 0;
}

/* -------- the network -------- */

static struct peer hosts[HOSTS]; /* a, b, and a router */

static void run_inside(unsigned at, const char *what)
{
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "%s", (int)hosts[at].pid, what), 0);
}

/* ethN of a host, on the bridge of that name. */
static void port(unsigned at, unsigned number, const char *bridge, const char *address)
{
	static unsigned serial; /* those of earlier tests go with their namespaces, sooner or later */
	char name[16];

	snprintf(name, sizeof(name), "p%u", serial++);
	assert_int_equal(private_net_command("ip link add %s type veth peer name eth%u netns %d", name, number,
					     (int)hosts[at].pid),
			 0);
	assert_int_equal(private_net_command("ip link set %s master %s up", name, bridge), 0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip addr add %s dev eth%u", (int)hosts[at].pid, address, number),
			 0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip link set eth%u up", (int)hosts[at].pid, number), 0);
}

static int setup(void **state)
{
	char byte;

	(void)state;
	for (unsigned i = 0; i < HOSTS; i++) {
		assert_int_equal(peer_start("host", "", &hosts[i]), 0);
		assert_int_equal(peer_read(hosts[i].control, &byte, 1), 0);
		run_inside(i, "ip link set lo up");
	}
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(private_net_command("ip link add br%u type bridge", i), 0);
		assert_int_equal(private_net_command("ip link set br%u up", i), 0);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < HOSTS; i++)
		peer_stop(&hosts[i]);
	return private_net_command("for d in br0 br1; do ip link del $d; done");
}

/* b sends to each port of a what is for the other one, which refuses it: what a has connected before is half open. */
static void mislead(void)
{
	run_inside(1, "ip neigh replace 10.3.3.12 lladdr 02:00:00:00:00:0b dev eth0 nud permanent");
	run_inside(1, "ip neigh replace 10.3.3.12 lladdr 02:00:00:00:00:0b dev eth1 nud permanent");
	run_inside(1, "ip neigh replace 10.3.5.12 lladdr 02:00:00:00:00:0a dev eth0 nud permanent");
	run_inside(1, "ip neigh replace 10.3.5.12 lladdr 02:00:00:00:00:0a dev eth1 nud permanent");
}

static void (*while_held)(void);

/* Data from a to b, each with the interface that it was told to use. */
static void send_data(const char *of_a, const char *of_b, unsigned timeout_ms, struct answer *ret_a,
		      struct answer *ret_b)
{
	struct order order = { .listens = true, .timeout_ms = timeout_ms };

	snprintf(order.interface, sizeof(order.interface), "%s", of_b);
	assert_int_equal(peer_write(hosts[1].control, &order, sizeof(order)), 0);
	assert_int_equal(peer_read(hosts[1].control, order.handle, sizeof(order.handle)), 0);
	order.listens = false;
	snprintf(order.interface, sizeof(order.interface), "%s", of_a);
	if (timeout_ms == HELD_TIMEOUT_MS)
		assert_int_equal(kill(hosts[1].pid, SIGSTOP), 0);
	assert_int_equal(peer_write(hosts[0].control, &order, sizeof(order)), 0);
	if (timeout_ms == HELD_TIMEOUT_MS) {
		usleep(HELD_MS / 2 * 1000 * runtime_slow());
		if (while_held)
			while_held();
		usleep(HELD_MS / 2 * 1000 * runtime_slow());
		assert_int_equal(kill(hosts[1].pid, SIGCONT), 0);
	}
	assert_int_equal(peer_read(hosts[0].control, ret_a, sizeof(*ret_a)), 0);
	assert_int_equal(ret_a->result, 0);
	assert_int_equal(peer_read(hosts[1].control, ret_b, sizeof(*ret_b)), 0);
	assert_int_equal(ret_b->result, 0);
}

static void knock_from(unsigned at, const char *from, const char *to)
{
	struct order order = { .listens = false };
	char byte;

	snprintf(order.from, sizeof(order.from), "%s", from);
	snprintf(order.to, sizeof(order.to), "%s", to);
	assert_int_equal(peer_write(hosts[at].control, &order, sizeof(order)), 0);
	assert_int_equal(peer_read(hosts[at].control, &byte, 1), 0);
}

static void two_ports_in_one_subnet(void)
{
	port(0, 0, "br0", "10.3.3.12/20");
	port(0, 1, "br0", "10.3.5.12/20");
	port(1, 0, "br0", "10.3.3.15/20");
	port(1, 1, "br0", "10.3.5.15/20");
}

static void the_port_that_was_named_carries_the_data_at_both_ends(void **state)
{
	struct answer a, b;

	(void)state;
	two_ports_in_one_subnet();
	/* Each port answers for its own address only: else the peer's switch decides where data comes in. */
	run_inside(0, "sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
	run_inside(1, "sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
	send_data("eth1", "eth1", LATE_MS, &a, &b);
	assert_true(a.out_bytes[1] > DATA_BYTES && a.out_bytes[0] < LITTLE_BYTES);
	assert_true(b.in_bytes[1] > DATA_BYTES && b.in_bytes[0] < LITTLE_BYTES);
	assert_true(b.out_bytes[0] < LITTLE_BYTES && a.in_bytes[0] < LITTLE_BYTES);
}

static void a_peer_that_is_held_up_is_no_port_that_fails(void **state)
{
	struct answer a, b;

	(void)state;
	two_ports_in_one_subnet();
	run_inside(0, "sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
	run_inside(1, "sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
	send_data("eth1", "eth1", HELD_TIMEOUT_MS, &a, &b);
	assert_true(a.out_bytes[1] > DATA_BYTES && a.out_bytes[0] < LITTLE_BYTES);
	assert_false(a.left);
}

static void what_is_half_open_is_dialled_anew(void **state)
{
	struct answer a, b;

	(void)state;
	two_ports_in_one_subnet();
	run_inside(0, "ip link set eth0 address 02:00:00:00:00:0a");
	run_inside(0, "ip link set eth1 address 02:00:00:00:00:0b");
	while_held = mislead;
	send_data("eth1", "eth1", HELD_TIMEOUT_MS, &a, &b);
	while_held = NULL;
	assert_true(a.out_bytes[0] + a.out_bytes[1] > DATA_BYTES);
}

/* Every port answers for every address (the default), and the neighbours have learned the wrong ones. */
static void the_data_arrives_whichever_port_the_network_delivers_it_to(void **state)
{
	struct answer a, b;

	(void)state;
	two_ports_in_one_subnet();
	/* From the address of eth1, but through eth0, as sockets go that are not tied. */
	knock_from(0, "10.3.5.12", "10.3.5.15");
	knock_from(1, "10.3.5.15", "10.3.5.12");
	send_data("eth1", "eth1", SOON_MS, &a, &b);
	assert_true(a.out_bytes[1] > DATA_BYTES && a.out_bytes[0] < LITTLE_BYTES);
}

/* Answers come in by the other port: a socket that is not tied takes them. */
static void the_port_that_the_routes_prefer_needs_no_tie(void **state)
{
	struct answer a, b;

	(void)state;
	two_ports_in_one_subnet();
	run_inside(0, "ip link set eth1 address 02:00:00:00:00:0c");
	run_inside(1, "ip neigh replace 10.3.3.12 lladdr 02:00:00:00:00:0c dev eth0 nud permanent");
	send_data("eth0", "eth0", LATE_MS, &a, &b);
	assert_true(a.out_bytes[0] > DATA_BYTES && a.out_bytes[1] < LITTLE_BYTES);
	assert_false(a.left);
}

static void without_a_route_through_the_port_another_one_is_used_at_once(void **state)
{
	struct answer a, b;

	(void)state;
	port(0, 0, "br0", "10.3.0.12/24");
	port(0, 1, "br1", "10.4.0.12/24");
	port(1, 0, "br0", "10.3.0.15/24");
	send_data("eth1", "eth0", LATE_MS, &a, &b);
	assert_true(a.out_bytes[0] > DATA_BYTES);
	assert_false(a.left);
}

/* The route through it leads nowhere, and a rule of the system's knows better. */
static void a_port_that_does_not_reach_the_peer_is_left(void **state)
{
	struct answer a, b;

	(void)state;
	port(0, 0, "br0", "10.3.0.12/24");
	port(0, 1, "br1", "10.4.0.12/24");
	port(1, 0, "br0", "10.3.0.15/24");
	run_inside(0, "ip route add 10.3.0.0/16 via 10.4.0.1 dev eth1 onlink");
	send_data("eth1", "eth0", SOON_MS, &a, &b);
	assert_true(a.out_bytes[0] > DATA_BYTES);
	assert_true(a.left);
}

/* b's address is on the port that was named; its only way back leads through the other one. */
static void answers_may_go_another_way_than_the_data_comes(void **state)
{
	struct answer a, b;

	(void)state;
	port(0, 0, "br1", "10.4.0.12/24");
	port(1, 0, "br0", "10.3.3.15/20");
	port(1, 1, "br0", "10.3.5.15/20");
	port(2, 0, "br0", "10.3.3.1/20");
	port(2, 1, "br1", "10.4.0.1/24");
	run_inside(2, "sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'");
	run_inside(0, "ip route add default via 10.4.0.1");
	run_inside(1, "ip route add default via 10.3.3.1 dev eth0");
	run_inside(1, "sh -c 'echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore'");
	send_data("eth0", "eth1", SOON_MS, &a, &b);
	assert_true(b.in_bytes[0] + b.in_bytes[1] > DATA_BYTES);
}

static void an_address_on_loopback_goes_through_any_port(void **state)
{
	struct answer a, b;

	(void)state;
	port(0, 0, "br0", "169.254.0.12/24");
	port(1, 0, "br0", "169.254.0.15/24");
	run_inside(0, "ip addr add 10.9.0.1/32 dev lo");
	run_inside(1, "ip addr add 10.9.0.2/32 dev lo");
	run_inside(0, "ip route add 10.9.0.2/32 via 169.254.0.15");
	run_inside(1, "ip route add 10.9.0.1/32 via 169.254.0.12");
	send_data("lo", "lo", SOON_MS, &a, &b);
	assert_true(a.out_bytes[0] > DATA_BYTES);
}

/* -------- */

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "host", host }, { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		TEST(the_port_that_was_named_carries_the_data_at_both_ends),
		TEST(a_peer_that_is_held_up_is_no_port_that_fails),
		TEST(what_is_half_open_is_dialled_anew),
		TEST(the_data_arrives_whichever_port_the_network_delivers_it_to),
		TEST(the_port_that_the_routes_prefer_needs_no_tie),
		TEST(without_a_route_through_the_port_another_one_is_used_at_once),
		TEST(a_port_that_does_not_reach_the_peer_is_left),
		TEST(answers_may_go_another_way_than_the_data_comes),
		TEST(an_address_on_loopback_goes_through_any_port),
	};

	peer_main(argc, argv, roles, 120);
	runtime_start("pin_test", 120);
	if (!private_net_enter_with_hosts()) {
		printf("skipped: no network namespaces, or no iproute2 and nsenter\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
