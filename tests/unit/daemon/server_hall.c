#include "server_hall.h"

#include "base/clock.h"
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

char server_hall_secret_path[] = "/tmp/tributary-secret-XXXXXX";

int server_hall_secret_make(void **state)
{
	char text[SECRET_BYTES];
	int fd = mkstemp(server_hall_secret_path);
	ssize_t written;

	(void)state;
	if (fd < 0)
		return -1;
	memset(text, SECRET_BYTE, sizeof(text));
	written = write(fd, text, sizeof(text));
	close(fd);
	return written == (ssize_t)sizeof(text) ? 0 : -1;
}

int server_hall_secret_remove(void **state)
{
	(void)state;
	return unlink(server_hall_secret_path);
}

enum { WAIT_MS = 90000 };

static uint16_t port_of(int fd)
{
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	return ntohs(address.sin_port);
}

static void *serve(void *arg)
{
	struct server_hall *hall = arg;

	while (!atomic_load(&hall->stop) && !hall->daemon->stopped)
		daemon_turn(hall->daemon, 2);
	atomic_store(&hall->ended, true);
	return NULL;
}

void server_hall_open(struct server_hall *hall, const char *options, double timeout_s)
{
	server_hall_open_over(hall, options, timeout_s, &transport_tcp);
}

void server_hall_open_over(struct server_hall *hall, const char *options, double timeout_s,
			   const struct transport_ops *ops)
{
	char line[512], program[] = "tributaryd", *argv[32] = { program }, *rest = NULL;
	struct daemon_setup setup = { .signal_fd = -1, .metrics_fd = -1 };
	int argc = 1, pipes[2];

	memset(hall, 0, sizeof(*hall));
	snprintf(line, sizeof(line), "--listen 127.0.0.1:0 --secret x %s", options);
	for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		argv[argc++] = word;
	assert_int_equal(daemon_options_parse(argc, argv, &hall->options, stdout, stderr), DAEMON_START);
	params_defaults(&hall->params);
	hall->params.timeout_ns = (uint64_t)(timeout_s * (double)NS_PER_S);
	hall->params.net = NET_CHOICE_TCP;
	memcpy(hall->params.interfaces, "lo", 3);
	hall->secret.count = 32;
	memset(hall->secret.bytes, SECRET_BYTE, SECRET_BYTES);
	hall->ops = ops;
	assert_int_equal(ops->open(&hall->params, &hall->transport), 0);
	setup.options = &hall->options;
	setup.params = &hall->params;
	setup.secret = &hall->secret;
	setup.ops = ops;
	setup.transport = hall->transport;
	for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
		setup.listeners[i] = -1;
	assert_int_equal(daemon_listen(&hall->options.listen[0], &setup.listeners[0]), 0);
	hall->port = port_of(setup.listeners[0]);
	if (hall->options.metrics) {
		assert_int_equal(daemon_listen(&hall->options.metrics_at, &setup.metrics_fd), 0);
		hall->metrics_port = port_of(setup.metrics_fd);
	}
	assert_int_equal(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
	setup.signal_fd = pipes[0];
	hall->end_fd = pipes[1];
	assert_int_equal(daemon_open(&setup, &hall->daemon), 0);
	assert_int_equal(pthread_create(&hall->thread, NULL, serve, hall), 0);
}

void server_hall_close(struct server_hall *hall)
{
	atomic_store(&hall->stop, true);
	pthread_join(hall->thread, NULL);
	daemon_close(hall->daemon);
	close(hall->end_fd);
	hall->ops->close(hall->transport);
}

void server_hall_tell_to_end(struct server_hall *hall)
{
	struct signalfd_siginfo info = { .ssi_signo = SIGTERM };

	assert_int_equal(write(hall->end_fd, &info, sizeof(info)), sizeof(info));
}

bool server_hall_has_ended(const struct server_hall *hall)
{
	return atomic_load(&hall->ended);
}

struct control_client *server_hall_client(const struct server_hall *hall, const char *name)
{
	struct control_client_setup setup = { .address = "127.0.0.1",
					      .port = hall->port,
					      .secret = &hall->secret,
					      .name = name,
					      .timeout_ns = hall->params.timeout_ns };
	struct control_client *client = NULL;

	assert_int_equal(control_client_open(&setup, &client), 0);
	return client;
}

enum control_event server_hall_wait(struct control_client *client, struct control_answer *answer)
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

int server_hall_dial(uint16_t port)
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

void server_hall_state(const struct server_hall *hall, struct control_answer *answer)
{
	struct control_client *client = server_hall_client(hall, "asker");

	assert_int_equal(control_client_ask(client), 0);
	assert_int_equal(server_hall_wait(client, answer), CONTROL_EVENT_STATE);
	control_client_close(client);
}
