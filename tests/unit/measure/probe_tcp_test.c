#include "measure/probe_tcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "measure/probe_tcp_wire.h"
#include "support/runtime.h"

enum { HERE, PEER, OTHER, VERTICES };
enum { DURATION_NS = 10 * 1000 * 1000 };

static struct topology_vertex vertices[VERTICES] = {
	[HERE] = { .kind = TOPOLOGY_HOST, .name = "host0" },
	[PEER] = { .kind = TOPOLOGY_HOST, .name = "host1" },
	[OTHER] = { .kind = TOPOLOGY_HOST, .name = "host2" },
};
static const struct topology cluster = { .vertices = vertices, .vertex_count = VERTICES };
static const struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr = { .s_addr = 0x0100007f } };

struct pair {
	struct probe_tcp_server *server;
	struct sockaddr_storage address;
	struct probe *probe;
};

static struct probe_flow flow_of(uint32_t from, uint32_t to)
{
	return (struct probe_flow){ .flow = { from, to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
}

static struct probe *probe_to(const struct sockaddr_storage *address, const _Atomic bool *stop)
{
	struct probe_tcp_options options = { HERE, PEER, 2, *address, sizeof(struct sockaddr_in) };
	struct probe *probe = NULL;
	struct diag diag;

	assert_int_equal(probe_tcp_open(&cluster, stop, &options, &probe, &diag), 0);
	return probe;
}

static int open_pair(void **state)
{
	static struct pair pair;
	struct diag diag;

	if (probe_tcp_server_start((const struct sockaddr *)&loopback, sizeof(loopback), &pair.server, &pair.address,
				   &diag))
		return -1;
	pair.probe = probe_to(&pair.address, NULL);
	*state = &pair;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *pair = *state;

	pair->probe->ops->close(pair->probe);
	probe_tcp_server_stop(pair->server);
	return 0;
}

static void each_direction_and_both_at_once_have_rates(void **state)
{
	struct pair *pair = *state;
	const struct probe_flow flows[] = { flow_of(HERE, PEER), flow_of(PEER, HERE) };
	double rate_Bps[2] = { 0, 0 };
	struct probe_rates rates = { rate_Bps, 0 };
	struct diag diag = { .text = "" };

	for (size_t i = 0; i < 2; i++) {
		assert_true(pair->probe->ops->can(pair->probe, &flows[i]));
		rate_Bps[0] = 0;
		assert_int_equal(pair->probe->ops->run(pair->probe, &flows[i], 1, DURATION_NS, &rates, &diag), 0);
		assert_true(rate_Bps[0] > 0);
		assert_true(rates.time_ns >= DURATION_NS);
	}
	rate_Bps[0] = 0;
	assert_int_equal(pair->probe->ops->run(pair->probe, flows, 2, DURATION_NS, &rates, &diag), 0);
	assert_true(rate_Bps[0] > 0);
	assert_true(rate_Bps[1] > 0);
}

static void a_message_there_and_back_takes_time(void **state)
{
	struct pair *pair = *state;
	const struct probe_flow flow = flow_of(HERE, PEER);
	struct diag diag = { .text = "" };
	uint64_t ns = 0;

	assert_int_equal(pair->probe->ops->latency(pair->probe, &flow, &ns, &diag), 0);
	assert_in_range(ns, 1, 600 * NS_PER_S); /* in nanoseconds, however slow */
}

static void flows_of_other_hosts_are_not_supported(void **state)
{
	struct pair *pair = *state;
	struct probe_flow flows[] = { flow_of(HERE, OTHER), flow_of(OTHER, PEER), flow_of(HERE, HERE),
				      flow_of(HERE, PEER), flow_of(HERE, PEER) };

	flows[3].engine = PROBE_ENGINE_KERNEL;
	flows[4].flow.way = TOPOLOGY_WAY_HOST;
	for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		double rate_Bps = -1;
		struct probe_rates rates = { &rate_Bps, 0 };
		struct diag diag = { .text = "" };
		uint64_t ns = 7;

		assert_false(pair->probe->ops->can(pair->probe, &flows[i]));
		assert_int_equal(pair->probe->ops->run(pair->probe, &flows[i], 1, DURATION_NS, &rates, &diag),
				 -ENOTSUP);
		assert_int_equal(pair->probe->ops->latency(pair->probe, &flows[i], &ns, &diag), -ENOTSUP);
		assert_true(diag.text[0]);
		assert_true(rate_Bps < 0);
		assert_int_equal(ns, 7);
	}
}

static void a_peer_that_is_gone_is_an_error_with_a_reason(void **state)
{
	struct pair pair;
	const struct probe_flow flow = flow_of(HERE, PEER);
	double rate_Bps = -1;
	struct probe_rates rates = { &rate_Bps, 0 };
	struct diag diag = { .text = "" };
	uint64_t ns;

	(void)state;
	assert_int_equal(probe_tcp_server_start((const struct sockaddr *)&loopback, sizeof(loopback), &pair.server,
						&pair.address, &diag),
			 0);
	probe_tcp_server_stop(pair.server);
	pair.probe = probe_to(&pair.address, NULL);
	assert_int_equal(pair.probe->ops->run(pair.probe, &flow, 1, DURATION_NS, &rates, &diag), -EIO);
	assert_string_equal(diag.text, "the peer: Connection refused");
	assert_int_equal(pair.probe->ops->latency(pair.probe, &flow, &ns, &diag), -EIO);
	assert_true(rate_Bps < 0);
	pair.probe->ops->close(pair.probe);
}

static void a_stop_that_is_set_ends_a_run_at_once(void **state)
{
	struct pair *pair = *state;
	_Atomic bool stop = true;
	struct probe *probe = probe_to(&pair->address, &stop);
	const struct probe_flow flow = flow_of(PEER, HERE);
	double rate_Bps = -1;
	struct probe_rates rates = { &rate_Bps, 0 };
	struct diag diag = { .text = "" };
	uint64_t ns;

	assert_int_equal(probe->ops->run(probe, &flow, 1, 3600 * NS_PER_S, &rates, &diag), -EINTR);
	assert_string_equal(diag.text, "stopped");
	assert_int_equal(probe->ops->latency(probe, &flow, &ns, &diag), -EINTR);
	assert_true(rate_Bps < 0);
	probe->ops->close(probe);
}

/* A connection to the server, made by hand. */
static int connect_raw(const struct pair *pair)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&pair->address, sizeof(struct sockaddr_in)), 0);
	return fd;
}

static void the_server_closes_a_stranger_and_serves_the_next(void **state)
{
	struct pair *pair = *state;
	const struct probe_flow flow = flow_of(HERE, PEER);
	struct diag diag;
	uint64_t ns = 0;
	char byte;
	int fd = connect_raw(pair);

	assert_int_equal(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL), 18);
	assert_true(recv(fd, &byte, 1, 0) <= 0); /* closed or reset, without a byte */
	sys_close(&fd);
	assert_int_equal(pair->probe->ops->latency(pair->probe, &flow, &ns, &diag), 0);
}

static void the_server_takes_so_many_guests_and_no_more(void **state)
{
	struct pair *pair = *state;
	int fds[PROBE_TCP_CONNECTIONS_MAX], more;
	uint8_t hello[PROBE_TCP_HELLO_BYTES], answer[PROBE_TCP_HELLO_BYTES];

	probe_tcp_hello_encode(PROBE_TCP_ECHO, hello);
	for (size_t i = 0; i < PROBE_TCP_CONNECTIONS_MAX; i++) {
		fds[i] = connect_raw(pair);
		assert_int_equal(send(fds[i], hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
		assert_int_equal(recv(fds[i], answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
		assert_memory_equal(answer, hello, sizeof(hello));
	}
	more = connect_raw(pair);
	assert_true(recv(more, answer, 1, 0) <= 0);
	sys_close(&more);
	for (size_t i = 0; i < PROBE_TCP_CONNECTIONS_MAX; i++)
		sys_close(&fds[i]);
	/* Their places become free again as soon as the server has seen them go. */
	for (uint64_t deadline_ns = runtime_deadline_ns(60000);;) {
		const struct probe_flow flow = flow_of(HERE, PEER);
		struct diag diag;
		uint64_t ns;

		if (!pair->probe->ops->latency(pair->probe, &flow, &ns, &diag))
			break;
		assert_false(runtime_past(deadline_ns));
		runtime_nap();
	}
}

static void only_our_hello_is_understood(void **state)
{
	uint8_t bytes[PROBE_TCP_HELLO_BYTES], wrong[PROBE_TCP_HELLO_BYTES];
	enum probe_tcp_task task = PROBE_TCP_TAKE;

	(void)state;
	probe_tcp_hello_encode(PROBE_TCP_GIVE, bytes);
	assert_int_equal(probe_tcp_hello_decode(bytes, &task), 0);
	assert_int_equal(task, PROBE_TCP_GIVE);
	/* Any change of any byte is refused, but for the task, which has two more values. */
	for (size_t i = 0; i < sizeof(bytes); i++) {
		for (unsigned value = 0; value < 256; value++) {
			bool other_task = i == 5 && value >= PROBE_TCP_TAKE && value <= PROBE_TCP_ECHO;

			memcpy(wrong, bytes, sizeof(bytes));
			wrong[i] = (uint8_t)value;
			if (value != bytes[i] && !other_task)
				assert_int_equal(probe_tcp_hello_decode(wrong, &task), i == 4 ? -EPROTO : -EBADMSG);
		}
	}
}

static void addresses_are_read_and_checked(void **state)
{
	static const char *const wrong[] = {
		"",        "10.0.0.1",  "10.0.0.1:", "10.0.0.1:0",    "10.0.0.1:65536", "::1:7000",
		"[::1]",   "[::1:7000", "host:7000", "[10.0.0.1]:70", "10.0.0.1:7x",    ":7000",
		"[]:7000", "]:7000",    "[:7000"
	};
	struct sockaddr_storage address;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	socklen_t bytes;

	(void)state;
	assert_int_equal(probe_tcp_parse_address("10.1.2.3:7000", &address, &bytes), 0);
	assert_int_equal(bytes, sizeof(v4));
	memcpy(&v4, &address, sizeof(v4));
	assert_int_equal(v4.sin_family, AF_INET);
	assert_int_equal(ntohl(v4.sin_addr.s_addr), 0x0a010203);
	assert_int_equal(ntohs(v4.sin_port), 7000);
	assert_int_equal(probe_tcp_parse_address("[::1]:65535", &address, &bytes), 0);
	assert_int_equal(bytes, sizeof(v6));
	memcpy(&v6, &address, sizeof(v6));
	assert_int_equal(v6.sin6_family, AF_INET6);
	assert_int_equal(v6.sin6_addr.s6_addr[15], 1);
	assert_int_equal(ntohs(v6.sin6_port), 65535);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(probe_tcp_parse_address(wrong[i], &address, &bytes), -EINVAL);
}

static void here_and_peer_must_be_two_vertices(void **state)
{
	struct probe_tcp_options options = { HERE, HERE, 0, { 0 }, 0 };
	struct probe *probe = NULL;
	struct diag diag;

	(void)state;
	assert_int_equal(probe_tcp_open(&cluster, NULL, &options, &probe, &diag), -EINVAL);
	options.peer = VERTICES;
	assert_int_equal(probe_tcp_open(&cluster, NULL, &options, &probe, &diag), -EINVAL);
	assert_null(probe);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_direction_and_both_at_once_have_rates, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(a_message_there_and_back_takes_time, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(flows_of_other_hosts_are_not_supported, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(a_stop_that_is_set_ends_a_run_at_once, open_pair, close_pair),
		cmocka_unit_test_setup_teardown(the_server_closes_a_stranger_and_serves_the_next, open_pair,
						close_pair),
		cmocka_unit_test_setup_teardown(the_server_takes_so_many_guests_and_no_more, open_pair, close_pair),
		cmocka_unit_test(a_peer_that_is_gone_is_an_error_with_a_reason),
		cmocka_unit_test(only_our_hello_is_understood),
		cmocka_unit_test(addresses_are_read_and_checked),
		cmocka_unit_test(here_and_peer_must_be_two_vertices),
	};

	runtime_start("probe_tcp_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
