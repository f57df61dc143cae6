/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks that drop long packets and say nothing: "a" sends to "b", both in network namespaces. A cable joins them, and what b
 * drops as it comes in is what a switch between them would; in the long tests a bridge does, whose port has the smaller MTU.
 * Segmentation is the sockets' own, as offloads of veth would hide it all. What is not possible here (namespaces, iproute2,
 * iptables) is skipped.
 */
#include "base/clock.h"
#include "base/minmax.h"
#include "base/params.h"
#include "support/link.h"
#include "support/log_lines.h"
#include "support/peer.h"
#include "support/private_net.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/parallel.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	JUMBO = 9000,
	MESSAGE_BYTES = 256 << 10,
	SHORT_BYTES = 2048, /* eager */
	PAUSE_US = 2000,
	TIMEOUT_MS = 30000,
	MESSAGES = 20,   /* before something happens, and after it */
	SOON_MS = 10000, /* in which a connection goes on; on an idle machine 1.3 to 3.5 s */
};

struct order {
	bool listens, ipv6, two_ports, without_pause;
	bool expects_line; /* messages go on until it is there */
	unsigned timeout_ms, message_bytes;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
};
struct answer {
	int result;
	unsigned messages, longest_ms; /* longest: of one */
	double Bps;
	int warnings, left; /* left: streams, as long packets are lost */
	char warning[4096];
};

/* -------- a host -------- */

static int set_up_port(const char *name)
{
	static const uint32_t offloads[] = { ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (unsigned i = 0; i < sizeof(offloads) / sizeof(offloads[0]); i++) {
		struct ethtool_value value = { .cmd = offloads[i] };
		struct ifreq request = { .ifr_data = (void *)&value };

		snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
		if (ioctl(fd, SIOCETHTOOL, &request) < 0)
			perror("ethtool");
	}
	close(fd);
	return private_net_up(name) ? 0 : -ENETDOWN;
}

/* Messages until a byte comes; says so after each MESSAGES of them. The last message is of one byte. */
static int send_all(int control, const struct order *order, struct transport_connection *connection,
		    struct answer *answer)
{
	static uint8_t data[MESSAGE_BYTES];
	const uint64_t begin_ns = runtime_now_ns(), end_ns = runtime_deadline_ns(15000);
	int r = 0;
	char byte;

	while (r == 0 &&
	       (!peer_readable(control) || (order->expects_line && !log_lines()->warnings && !runtime_past(end_ns)))) {
		const uint64_t now_ns = runtime_now_ns(), stalled_ns = runtime_stalled_ns();
		unsigned took_ms;

		pattern_fill(data, order->message_bytes, answer->messages);
		r = link_send(&transport_tcp, connection, data, order->message_bytes, 7);
		took_ms =
			(unsigned)(less_u64(runtime_now_ns() - now_ns, runtime_stalled_ns() - stalled_ns) / NS_PER_MS);
		if (took_ms > answer->longest_ms)
			answer->longest_ms = took_ms;
		if (r == 0 && ++answer->messages % MESSAGES == 0)
			r = peer_write(control, "m", 1);
		if (!order->without_pause)
			usleep(PAUSE_US);
	}
	answer->Bps = (double)answer->messages * order->message_bytes * 1e9 / (double)(runtime_now_ns() - begin_ns);
	if (r == 0)
		r = peer_read(control, &byte, 1);
	return r == 0 ? link_send(&transport_tcp, connection, data, 1, 7) : r;
}

static int receive_all(struct transport_connection *connection, struct answer *answer)
{
	static uint8_t data[MESSAGE_BYTES];
	size_t bytes = 0;
	int r;

	while ((r = link_receive(&transport_tcp, connection, data, sizeof(data), 7, &bytes)) == 0 && bytes > 1)
		if (pattern_wrong_at(data, bytes, answer->messages++) != SIZE_MAX)
			return -EBADMSG;
	return r;
}

static int talk(int control, const struct order *order, struct transport *transport, struct answer *answer)
{
	static const int ports[] = { 0, 1 };
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	int device = 0, r = order->two_ports ? transport_tcp.device_join(transport, 2, ports, &device) : 0;

	if (r == 0 && order->listens) {
		r = transport_tcp.listen(transport, device, handle, &listener);
		if (r == 0)
			r = peer_write(control, handle, sizeof(handle));
		if (r == 0)
			r = link_accept(&transport_tcp, listener, &connection);
		if (r == 0)
			r = receive_all(connection, answer);
	} else if (r == 0) {
		memcpy(handle, order->handle, sizeof(handle));
		r = link_connect(&transport_tcp, transport, device, handle, &connection);
		if (r == 0)
			r = send_all(control, order, connection, answer);
	}
	if (connection)
		transport_tcp.close_connection(connection);
	if (listener)
		transport_tcp.close_listener(listener);
	return r;
}

static int host(int control, const char *argument)
{
	struct transport *transport = NULL;
	struct params params;
	struct order order;

	(void)argument;
	if (unshare(CLONE_NEWNET) || peer_write(control, "r", 1))
		return 1;
	runtime_watch_stalls();
	log_lines_start("long packets are lost on its way");
	while (!peer_read(control, &order, sizeof(order))) {
		struct answer answer = { 0 };

		if (!transport) {
			for (unsigned i = 0; i < (order.two_ports ? 2 : 1) && answer.result == 0; i++)
				answer.result = set_up_port(i ? "eth1" : "eth0");
			params_defaults(&params);
			snprintf(params.interfaces, sizeof(params.interfaces),
				 order.two_ports ? "=eth0,eth1" : "=eth0");
			params.family = order.ipv6 ? FAMILY_IPV6 : FAMILY_IPV4;
			params.timeout_ns = order.timeout_ms * NS_PER_MS * runtime_slow();
			if (answer.result == 0)
				answer.result = transport_tcp.open(&params, &transport);
		}
		if (answer.result == 0)
			answer.result = talk(control, &order, transport, &answer);
		answer.warnings = log_lines()->warnings;
		answer.left = log_lines()->found;
		snprintf(answer.warning, sizeof(answer.warning), "%s", log_lines()->text);
		log_lines_forget();
		if (peer_write(control, "a", 1) || peer_write(control, &answer, sizeof(answer)))
			break;
	}
	if (transport)
		transport_tcp.close(transport);
	log_set_sink(NULL);
	return 0;
}

/* -------- the network -------- */

static struct peer hosts[2]; /* a, b */

static bool has_switch;

/* Of what comes to that host. */
static void drop(unsigned at, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void drop(unsigned at, const char *format, ...)
{
	char which[128];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(which, sizeof(which), format, arguments);
	va_end(arguments);
	if (private_net_command(PRIVATE_NET_INSIDE "iptables -w -A INPUT %s -j DROP", (int)hosts[at].pid, which))
		skip();
}

static void drop_nothing(unsigned at)
{
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "iptables -w -F INPUT", (int)hosts[at].pid), 0);
}

/* On the way to b's port of that number. */
static void drop_longer(unsigned number, unsigned mtu)
{
	if (has_switch)
		assert_int_equal(private_net_command("ip link set p%u1 mtu %u", number, mtu), 0);
	else
		drop(1, "-i eth%u -m length --length %u:65535", number, mtu + 1);
}

static void set_up_port_of(unsigned host, unsigned number)
{
	const int pid = (int)hosts[host].pid;

	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip addr add 10.4.%u.%u/24 dev eth%u", pid, number + 1,
					     host + 1, number),
			 0);
	assert_int_equal(private_net_command(PRIVATE_NET_INSIDE "ip link set eth%u up", pid, number), 0);
}

static void add_cable(unsigned number)
{
	assert_int_equal(
		private_net_command("ip link add eth%u netns %d mtu %u type veth peer name eth%u netns %d mtu %u",
				    number, (int)hosts[0].pid, JUMBO, number, (int)hosts[1].pid, JUMBO),
		0);
	for (unsigned i = 0; i < 2; i++)
		set_up_port_of(i, number);
}

static void add_switch(unsigned number, unsigned host_mtu)
{
	char name[16];

	assert_int_equal(private_net_command("ip link add br%u type bridge mcast_snooping 0", number), 0);
	for (unsigned i = 0; i < 2; i++) {
		const int pid = (int)hosts[i].pid;

		snprintf(name, sizeof(name), "p%u%u", number, i);
		assert_int_equal(private_net_command("ip link add %s mtu %u type veth peer name eth%u mtu %u netns %d",
						     name, JUMBO, number, host_mtu, pid),
				 0);
		assert_int_equal(private_net_command("ip link set %s master br%u", name, number), 0);
		set_up_port_of(i, number);
		assert_true(private_net_up(name));
	}
	assert_int_equal(private_net_command("ip link set br%u up", number), 0);
}

static void add_hosts(void)
{
	char byte;

	assert_int_equal(unshare(CLONE_NEWNET), 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(peer_start("host", "", &hosts[i]), 0);
		assert_int_equal(peer_read(hosts[i].control, &byte, 1), 0);
	}
}

static int setup(void **state)
{
	(void)state;
	add_hosts();
	add_cable(0);
	return 0;
}

static int setup_with_switch(void **state)
{
	(void)state;
	has_switch = true;
	add_hosts();
	add_switch(0, JUMBO);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		peer_stop(&hosts[i]);
	return 0;
}

static void begin(struct order order)
{
	order.timeout_ms = order.timeout_ms ? order.timeout_ms : TIMEOUT_MS;
	order.message_bytes = order.message_bytes ? order.message_bytes : MESSAGE_BYTES;
	order.listens = true;
	assert_int_equal(peer_write(hosts[1].control, &order, sizeof(order)), 0);
	assert_int_equal(peer_read(hosts[1].control, order.handle, sizeof(order.handle)), 0);
	order.listens = false;
	assert_int_equal(peer_write(hosts[0].control, &order, sizeof(order)), 0);
}

/* So many MESSAGES. */
static void messages_pass(unsigned times)
{
	char byte;

	for (unsigned i = 0; i < times; i++) {
		assert_int_equal(peer_read(hosts[0].control, &byte, 1), 0);
		assert_int_equal(byte, 'm');
	}
}

static void read_answer(unsigned at, struct answer *ret)
{
	char byte;

	do
		assert_int_equal(peer_read(hosts[at].control, &byte, 1), 0);
	while (byte == 'm');
	assert_int_equal(peer_read(hosts[at].control, ret, sizeof(*ret)), 0);
}

static void end(struct answer *ret_a, int expected)
{
	struct answer b;

	if (!expected)
		peer_write(hosts[0].control, "e", 1);
	read_answer(0, ret_a);
	printf("a: %d, %u messages, the longest took %u ms, %.3g MB/s, %d streams left, %s\n", ret_a->result,
	       ret_a->messages, ret_a->longest_ms, ret_a->Bps / 1e6, ret_a->left, ret_a->warning);
	assert_int_equal(ret_a->result, expected);
	read_answer(1, &b);
	if (expected)
		return;
	assert_int_equal(b.result, 0);
	assert_int_equal(b.messages, ret_a->messages);
}

static void expect_works(const struct answer *a, unsigned works)
{
	char line[128];

	snprintf(line, sizeof(line), "are lost on the way, those of %u bytes arrive: ", works);
	assert_non_null(strstr(a->warning, line));
	assert_int_equal(a->warnings, 1);
	assert_in_range(a->longest_ms, 0, SOON_MS * runtime_slow());
}

static void expect_line(const struct answer *a, const char *port, unsigned lost, unsigned works)
{
	char line[128];

	snprintf(line, sizeof(line), "packets of %u bytes from interface %s to host", lost, port);
	assert_non_null(strstr(a->warning, line));
	expect_works(a, works);
}

static void expect_none(const struct answer *a)
{
	assert_int_equal(a->left, 0);
	assert_int_equal(a->warnings, 0);
}

/* -------- black holes -------- */

static void from_the_start(unsigned mtu, bool ipv6, unsigned lost, unsigned works)
{
	struct answer a;

	drop_longer(0, mtu);
	begin((struct order){ .ipv6 = ipv6, .expects_line = true });
	messages_pass(2);
	end(&a, 0);
	expect_line(&a, "eth0", lost, works);
	assert_true(a.left > 0);
	/* Whatever comes later begins with what works. */
	begin((struct order){ .ipv6 = ipv6 });
	messages_pass(1);
	end(&a, 0);
	expect_none(&a);
}

static void in_mid_job(unsigned mtu, unsigned lost, unsigned works)
{
	struct answer a;

	begin((struct order){ .expects_line = true });
	messages_pass(1);
	drop_longer(0, mtu);
	messages_pass(3);
	end(&a, 0);
	expect_line(&a, "eth0", lost, works);
}

static void at_8900_from_the_start(void **state)
{
	(void)state;
	from_the_start(8900, false, 9000, 8800);
}

static void at_4000_from_the_start(void **state)
{
	(void)state;
	from_the_start(4000, false, 8800, 4000);
}

static void at_1500_from_the_start(void **state)
{
	(void)state;
	from_the_start(1500, false, 4000, 1500);
}

static void at_1280_from_the_start(void **state)
{
	(void)state;
	from_the_start(1280, false, 1500, 1280);
}

static void at_1280_from_the_start_over_ipv6(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++)
		if (private_net_command(PRIVATE_NET_INSIDE "ip addr add fd00:4::%u/64 dev eth0 nodad",
					(int)hosts[i].pid, i + 1))
			skip();          /* a kernel without IPv6 */
	for (unsigned i = 0; i < 2; i++) /* until the kernel uses it */
		assert_int_equal(private_net_command("timeout 15 " PRIVATE_NET_INSIDE
						     "sh -c 'while ip -6 addr show dev eth0 tentative "
						     "| grep -q .; do sleep 0.01; done'",
						     (int)hosts[i].pid),
				 0);
	from_the_start(1280, true, 1500, 1280);
}

static void at_8900_in_mid_job(void **state)
{
	(void)state;
	in_mid_job(8900, 9000, 8800);
}

static void at_4000_in_mid_job(void **state)
{
	(void)state;
	in_mid_job(4000, 8800, 4000);
}

static void at_1500_in_mid_job(void **state)
{
	(void)state;
	in_mid_job(1500, 4000, 1500);
}

static void at_1280_in_mid_job(void **state)
{
	(void)state;
	in_mid_job(1280, 1500, 1280);
}

/* Short messages are done as they are sent, so nobody polls the connection while they are stuck. */
static void for_short_messages(void **state)
{
	struct answer a;

	(void)state;
	drop_longer(0, 1500);
	begin((struct order){ .message_bytes = SHORT_BYTES, .expects_line = true });
	messages_pass(10);
	end(&a, 0);
	expect_works(&a, 1500);
}

/* It is the own port that takes no long packet, and the kernel knows: nothing is on its way, and nothing repeated. */
static void at_the_own_port(void **state)
{
	struct answer a;

	(void)state;
	assert_int_equal(private_net_command("ip link set p00 mtu 1500"), 0);
	begin((struct order){ .message_bytes = SHORT_BYTES, .expects_line = true });
	messages_pass(10);
	end(&a, 0);
	expect_works(&a, 1500);
}

/* A stream that is alone on its way: the one that is dialled in its place, by short packets, tells. */
static void on_one_of_two_ports(void **state)
{
	struct answer a;

	(void)state;
	add_cable(1);
	begin((struct order){ .two_ports = true, .expects_line = true });
	messages_pass(1);
	drop_longer(1, 1500);
	messages_pass(3);
	end(&a, 0);
	expect_line(&a, "eth1", 4000, 1500);
}

static double rate_of(unsigned host_mtu, unsigned switch_mtu)
{
	const bool expects_line = host_mtu > switch_mtu;
	struct answer a;

	for (unsigned i = 0; i < 2; i++)
		peer_stop(&hosts[i]);
	add_hosts();
	add_switch(0, host_mtu);
	drop_longer(0, switch_mtu);
	if (private_net_command(
		    "for p in p00 p01; do tc qdisc add dev $p root tbf rate 200mbit burst 64k latency 20ms; done"))
		skip();
	begin((struct order){ .expects_line = expects_line });
	messages_pass(1);
	end(&a, 0);
	assert_int_equal(a.warnings, expects_line);
	begin((struct order){ .without_pause = true });
	messages_pass(20);
	end(&a, 0);
	expect_none(&a);
	return a.Bps;
}

/* Beside hosts whose own MTU is that of the switch, at 200 Mbit/s, in turns. */
static void the_rate_is_that_of_the_smaller_mtu(void **state)
{
	static const unsigned sizes[] = { 8900, 4000, 1500, 1280 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const double with = rate_of(JUMBO, sizes[i]), without = rate_of(sizes[i], JUMBO);

		printf("at %u: %.3f of the rate of hosts with that MTU\n", sizes[i], with / without);
		assert_true(with >= 0.9 * without);
	}
}

/* No size gets through, and yet the peer is heard over streams that are dialled anew without end. */
static void below_all_sizes_the_connection_ends_and_says_what_was_tried(void **state)
{
	struct answer a;

	(void)state;
	drop_longer(0, 1000);
	begin((struct order){ .timeout_ms = 15000 }); /* four sizes, tried one after another */
	end(&a, -EREMOTEIO);
	assert_non_null(strstr(a.warning, "nothing sent to it has arrived for"));
	assert_non_null(strstr(a.warning, "(TRIBUTARY_TIMEOUT), though it was heard"));
	assert_non_null(strstr(a.warning, ", with packets of 9000 to 1280 bytes"));
	assert_int_equal(a.warnings, 1);
}

/* -------- what is none -------- */

static void a_peer_that_is_stopped_is_none(void **state)
{
	struct answer a;

	(void)state;
	begin((struct order){ 0 });
	messages_pass(1);
	assert_int_equal(kill(hosts[1].pid, SIGSTOP), 0);
	usleep(4000000);
	assert_int_equal(kill(hosts[1].pid, SIGCONT), 0);
	messages_pass(3);
	end(&a, 0);
	expect_none(&a);
}

static void one_that_is_stopped_for_good_ends_as_any_other(void **state)
{
	struct answer a;

	(void)state;
	begin((struct order){ .timeout_ms = 4000 });
	messages_pass(1);
	assert_int_equal(kill(hosts[1].pid, SIGSTOP), 0);
	read_answer(0, &a);
	assert_int_equal(a.result, -EREMOTEIO);
	assert_int_equal(a.left, 0);
	assert_non_null(strstr(a.warning, "nothing was heard of it for"));
}

static void plain_loss_is_none(void **state)
{
	struct answer a;

	(void)state;
	drop(1, "-m statistic --mode random --probability 0.05");
	begin((struct order){ 0 });
	messages_pass(3);
	end(&a, 0);
	expect_none(&a);
}

static void loses_all_for_a_while(bool back, bool forth)
{
	struct answer a;

	begin((struct order){ 0 });
	messages_pass(1);
	for (unsigned i = 0; i < 2; i++)
		if (i ? forth : back)
			drop(i, "-i eth0");
	usleep(3000000);
	for (unsigned i = 0; i < 2; i++)
		drop_nothing(i);
	messages_pass(3);
	end(&a, 0);
	expect_none(&a);
}

static void a_way_that_loses_all_in_one_direction_for_a_while_is_none(void **state)
{
	(void)state;
	loses_all_for_a_while(false, true);
}

static void a_way_that_loses_all_for_a_while_is_none(void **state)
{
	(void)state;
	loses_all_for_a_while(true, true);
}

static void a_link_that_is_down_for_a_while_is_none(void **state)
{
	struct answer a;

	(void)state;
	begin((struct order){ 0 });
	messages_pass(1);
	assert_int_equal(private_net_command("ip link set p01 down"), 0);
	usleep(3000000);
	assert_true(private_net_up("p01"));
	messages_pass(3);
	end(&a, 0);
	expect_none(&a);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "host", host }, { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_8900_in_mid_job),
		cmocka_unit_test(at_4000_from_the_start),
		cmocka_unit_test(at_1500_in_mid_job),
		cmocka_unit_test(at_1280_from_the_start),
		cmocka_unit_test(for_short_messages),
		cmocka_unit_test(on_one_of_two_ports),
		cmocka_unit_test(below_all_sizes_the_connection_ends_and_says_what_was_tried),
		cmocka_unit_test(a_peer_that_is_stopped_is_none),
		cmocka_unit_test(one_that_is_stopped_for_good_ends_as_any_other),
		cmocka_unit_test(plain_loss_is_none),
		cmocka_unit_test(a_way_that_loses_all_in_one_direction_for_a_while_is_none),
		cmocka_unit_test(a_way_that_loses_all_for_a_while_is_none),
	};
	/* Also what the kernel takes its time for on a busy machine: links that come up, addresses of IPv6. */
	const struct CMUnitTest long_tests[] = {
		cmocka_unit_test(at_8900_from_the_start),
		cmocka_unit_test(at_1500_from_the_start),
		cmocka_unit_test(at_1280_from_the_start_over_ipv6),
		cmocka_unit_test(at_4000_in_mid_job),
		cmocka_unit_test(at_1280_in_mid_job),
		cmocka_unit_test(at_the_own_port),
		cmocka_unit_test(a_link_that_is_down_for_a_while_is_none),
		cmocka_unit_test(the_rate_is_that_of_the_smaller_mtu),
	};
	int failed;

	peer_main(argc, argv, roles, 120);
	runtime_start("mtu_test", 60);
	if (!private_net_enter_with_hosts()) {
		printf("skipped: no network namespaces, or no iproute2 and nsenter\n");
		return 77;
	}
	failed = parallel_run_group_tests(tests, setup, teardown);
	return failed + (runtime_long() ? parallel_run_group_tests(long_tests, setup_with_switch, teardown) : 0);
}
