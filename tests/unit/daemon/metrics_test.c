/* SPDX-License-Identifier: Apache-2.0 */
/* GET /metrics: what it gives, who gets it, and clients that are slow, many, or no clients of HTTP at all. */
#include "aggregate/aggregator_wire.h"
#include "daemon/daemon.h"

#include "host_harness.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CONNECTIONS = 1000 };
#define ASKS "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

static struct control_answer answer; /* large */
static char text[160 << 10];

static void say(int fd, const char *request)
{
	assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
}

static const char *hear(int fd)
{
	size_t count = 0;
	ssize_t got;

	while (count < sizeof(text) - 1 && (got = recv(fd, text + count, sizeof(text) - 1 - count, 0)) > 0)
		count += (size_t)got;
	text[count] = '\0';
	close(fd);
	return text;
}

static const char *get(uint16_t port, const char *request)
{
	int fd = host_harness_dial(port);

	say(fd, request);
	return hear(fd);
}

static void it_is_the_text_of_prometheus(void **state)
{
	static uint8_t handles[4 * TRANSPORT_HANDLE_BYTES];
	struct control_request request = { .data_version = AGGREGATOR_WIRE_VERSION,
					   .types = 0x3ff,
					   .operations = 0xf,
					   .name = "a \"b\\",
					   .timeout_ms = 60000,
					   .member_count = 4,
					   .handles = handles };
	struct control_client *client;
	struct host_harness host;

	(void)state;
	memset(request.id, 8, sizeof(request.id));
	host_harness_open(&host, "--metrics 127.0.0.1:0", 30);
	client = host_harness_client(&host, "node01");
	assert_int_equal(control_client_request(client, &request), 0);
	assert_int_equal(host_harness_wait(client, &answer), CONTROL_EVENT_OFFER);
	assert_memory_equal(get(host.metrics_port, ASKS), "HTTP/1.1 200 OK\r\n", 17);
	assert_non_null(strstr(text, "\ntributaryd_groups 1\n"));
	assert_non_null(strstr(text, "\ntributaryd_group_members{group=\"a \\\"b\\\\\",id=\"08080808\"} 4\n"));
	assert_non_null(strstr(text, "\n# TYPE tributaryd_received_bytes_total counter\n"));
	assert_non_null(strstr(text, "\ntributary_sent_bytes_total{device=\"lo\"} "));
	for (const char *line = strstr(text, "\r\n\r\n") + 4; *line; line += strcspn(line, "\n") + 1)
		assert_true(!strncmp(line, "# ", 2) || !strncmp(line, "tributary", 9));
	control_client_close(client);
	host_harness_close(&host);
}

static void what_it_does_not_give_has_a_status(void **state)
{
	static const struct {
		const char *request;
		enum daemon_request is;
	} cases[] = {
		{ "", DAEMON_REQUEST_MORE },
		{ "GET /metrics HTTP/1.1\r\n", DAEMON_REQUEST_MORE },
		{ ASKS, DAEMON_REQUEST_METRICS },
		{ "GET /metrics HTTP/1.0\n\n", DAEMON_REQUEST_METRICS },
		{ "GET /metrics HTTP/1.1\r\n\r\nGET /", DAEMON_REQUEST_METRICS },
		{ "GET / HTTP/1.1\r\n\r\n", DAEMON_REQUEST_ELSEWHERE },
		{ "GET /metrics/x HTTP/1.1\r\n\r\n", DAEMON_REQUEST_ELSEWHERE },
		{ "GET /m HTTP/1.1\r\n\r\n", DAEMON_REQUEST_ELSEWHERE },
		{ "POST /metrics HTTP/1.1\r\n\r\n", DAEMON_REQUEST_METHOD },
		{ "GETS /metrics HTTP/1.1\r\n\r\n", DAEMON_REQUEST_METHOD },
		{ "GET /metrics\r\n\r\n", DAEMON_REQUEST_WRONG },
		{ "GET /metrics HTTP/2\r\n\r\n", DAEMON_REQUEST_WRONG },
		{ "GET /metrics HTTPZ1.1 HTTP/1.1\r\n\r\n", DAEMON_REQUEST_WRONG },
		{ "GET /metrics HTTP/1.10\r\n\r\n", DAEMON_REQUEST_WRONG },
		{ "\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", DAEMON_REQUEST_WRONG },
		{ "\x16\x03\x01\r\n\r\n", DAEMON_REQUEST_WRONG },
	};
	static char huge[2 * DAEMON_REQUEST_BYTES];
	struct host_harness host;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (daemon_scrape_request(cases[i].request, strlen(cases[i].request)) != cases[i].is)
			fail_msg("case %zu: %s", i, cases[i].request);
	assert_int_equal(daemon_scrape_request("GET /\0 HTTP/1.1\r\n\r\n", 19), DAEMON_REQUEST_WRONG);
	host_harness_open(&host, "--metrics 127.0.0.1:0", 30);
	assert_memory_equal(get(host.metrics_port, cases[5].request), "HTTP/1.1 404", 12);
	assert_memory_equal(get(host.metrics_port, cases[8].request), "HTTP/1.1 405", 12);
	assert_memory_equal(get(host.metrics_port, cases[10].request), "HTTP/1.1 400", 12);
	memset(huge, 'a', DAEMON_REQUEST_BYTES);
	assert_memory_equal(get(host.metrics_port, huge), "HTTP/1.1 431", 12);
	host_harness_close(&host);
}

static void who_is_not_allowed_gets_no_word(void **state)
{
	struct host_harness host;
	int fd;

	(void)state;
	host_harness_open(&host, "--metrics 127.0.0.1:0 --metrics-allow 10.0.0.0/8", 30);
	fd = host_harness_dial(host.metrics_port);
	assert_string_equal(hear(fd), "");
	host_harness_state(&host, &answer);
	assert_int_equal(answer.state.strangers, 1);
	host_harness_close(&host);
}

/* A thousand that begin a request and say no more: others are answered all the same, here and at the control port. */
static void slow_clients_keep_nobody_out(void **state)
{
	struct rlimit limit;
	struct host_harness host;
	int *slow = calloc(CONNECTIONS, sizeof(*slow));

	(void)state;
	assert_non_null(slow);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max < 2 * CONNECTIONS || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
		print_message("skipped: a process may have no %d descriptors here\n", 2 * CONNECTIONS);
		free(slow);
		skip();
	}
	host_harness_open(&host, "--metrics 127.0.0.1:0", 30);
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		slow[i] = host_harness_dial(host.metrics_port);
		if (send(slow[i], "GET /met", 8, MSG_NOSIGNAL) < 0) /* it may be out already */
			continue;
		if (i % 100 == 99) {
			assert_memory_equal(get(host.metrics_port, ASKS), "HTTP/1.1 200", 12);
			host_harness_state(&host, &answer);
		}
	}
	assert_int_equal(answer.state.strangers, 0);
	/* And no more than a few of them are held. */
	assert_true(runtime_fd_count() < CONNECTIONS + 100);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close(slow[i]);
	free(slow);
	host_harness_close(&host);
}

/* One alone, whose time is over; and one that does not take its answer. */
static void the_time_of_a_client_is_bounded(void **state)
{
	struct host_harness host;
	int slow, fd;

	(void)state;
	host_harness_open(&host, "--metrics 127.0.0.1:0", 30);
	slow = host_harness_dial(host.metrics_port);
	say(slow, "GET /metrics HTT");
	assert_memory_equal(get(host.metrics_port, ASKS), "HTTP/1.1 200", 12);
	fd = host_harness_dial(host.metrics_port);
	say(fd, ASKS);
	close(fd);
	assert_string_equal(hear(slow), ""); /* waits for its end, 5 s */
	host_harness_close(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_the_text_of_prometheus),    cmocka_unit_test(what_it_does_not_give_has_a_status),
		cmocka_unit_test(who_is_not_allowed_gets_no_word), cmocka_unit_test(slow_clients_keep_nobody_out),
		cmocka_unit_test(the_time_of_a_client_is_bounded),
	};

	runtime_start("metrics_test", 110);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
