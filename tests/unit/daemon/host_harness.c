/* SPDX-License-Identifier: Apache-2.0 */
#include "host_harness.h"

#include "base/clock.h"
#include "support/port.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { SECRET_BYTE = 0x5a, SECRET_BYTES = 32 };

char host_harness_secret_path[] = "/tmp/tributary-secret-XXXXXX";

int host_harness_secret_make(void **state)
{
	char text[SECRET_BYTES];
	int fd = mkstemp(host_harness_secret_path);
	ssize_t written;

	(void)state;
	if (fd < 0)
		return -1;
	memset(text, SECRET_BYTE, sizeof(text));
	written = write(fd, text, sizeof(text));
	close(fd);
	return written == (ssize_t)sizeof(text) ? 0 : -1;
}

int host_harness_secret_remove(void **state)
{
	(void)state;
	return unlink(host_harness_secret_path);
}

enum { WAIT_MS = 90000 };

static void *serve(void *arg)
{
	struct host_harness *host = arg;

	while (!atomic_load(&host->stop) && !host->daemon->stopped)
		daemon_turn(host->daemon, 2);
	atomic_store(&host->ended, true);
	return NULL;
}

void host_harness_open(struct host_harness *host, const char *options, double timeout_s)
{
	host_harness_open_over(host, options, timeout_s, &transport_tcp);
}

void host_harness_open_over(struct host_harness *host, const char *options, double timeout_s,
			    const struct transport_ops *ops)
{
	char line[512], program[] = "tributaryd", *argv[32] = { program }, *rest = NULL;
	struct daemon_setup setup = { .signal_fd = -1, .metrics_fd = -1 };
	int argc = 1, pipes[2];

	memset(host, 0, sizeof(*host));
	snprintf(line, sizeof(line), "--listen 127.0.0.1:0 --secret x %s", options);
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	assert_int_equal(daemon_options_parse(argc, argv, &host->options, stdout, stderr), DAEMON_START);
	params_defaults(&host->params);
	host->params.timeout_ns = (uint64_t)(timeout_s * (double)NS_PER_S);
	host->params.net = NET_CHOICE_TCP;
	memcpy(host->params.interfaces, "lo", 3);
	host->secret.count = 32;
	memset(host->secret.bytes, SECRET_BYTE, SECRET_BYTES);
	host->ops = ops;
	assert_int_equal(ops->open(&host->params, &host->transport), 0);
	setup.options = &host->options;
	setup.params = &host->params;
	setup.secret = &host->secret;
	setup.ops = ops;
	setup.transport = host->transport;
	for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
		setup.listeners[i] = -1;
	assert_int_equal(daemon_listen(&host->options.listen[0], &setup.listeners[0]), 0);
	host->port = port_of(setup.listeners[0]);
	if (host->options.metrics) {
		assert_int_equal(daemon_listen(&host->options.metrics_at, &setup.metrics_fd), 0);
		host->metrics_port = port_of(setup.metrics_fd);
	}
	assert_int_equal(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
	setup.signal_fd = pipes[0];
	host->end_fd = pipes[1];
	assert_int_equal(daemon_open(&setup, &host->daemon), 0);
	assert_int_equal(pthread_create(&host->thread, NULL, serve, host), 0);
}

void host_harness_close(struct host_harness *host)
{
	atomic_store(&host->stop, true);
	pthread_join(host->thread, NULL);
	daemon_close(host->daemon);
	close(host->end_fd);
	host->ops->close(host->transport);
}

void host_harness_tell_to_end(struct host_harness *host)
{
	struct signalfd_siginfo info = { .ssi_signo = SIGTERM };

	assert_int_equal(write(host->end_fd, &info, sizeof(info)), sizeof(info));
}

bool host_harness_has_ended(const struct host_harness *host)
{
	return atomic_load(&host->ended);
}

struct control_client *host_harness_client(const struct host_harness *host, const char *name)
{
	struct control_client_setup setup = { .address = "127.0.0.1",
					      .port = host->port,
					      .secret = &host->secret,
					      .name = name,
					      .timeout_ns = host->params.timeout_ns };
	struct control_client *client = NULL;

	assert_int_equal(control_client_open(&setup, &client), 0);
	return client;
}

enum control_event host_harness_wait(struct control_client *client, struct control_answer *answer)
{
	uint64_t deadline_ns = runtime_deadline_ns(WAIT_MS);

	while (!runtime_past(deadline_ns)) {
		enum control_event event = control_client_step(client, answer);

		if (event != CONTROL_EVENT_NONE && event != CONTROL_EVENT_PROVED)
			return event;
		if (event == CONTROL_EVENT_NONE)
			usleep(500);
	}
	fail_msg("nothing came");
	return CONTROL_EVENT_LOST;
}

int host_harness_dial(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct timeval timeout = { .tv_sec = 60 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

void host_harness_state(const struct host_harness *host, struct control_answer *answer)
{
	struct control_client *client = host_harness_client(host, "asker");

	assert_int_equal(control_client_ask(client), 0);
	assert_int_equal(host_harness_wait(client, answer), CONTROL_EVENT_STATE);
	control_client_close(client);
}
