/* SPDX-License-Identifier: Apache-2.0 */
/* The service itself: one thread that sleeps in poll. */
#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { IDLE_MS = 250, CONNECTING_MS = 5 };

int daemon_listen(const struct daemon_listen *at, int *ret_fd)
{
	int fd = sys_socket(at->address.ss_family, SOCK_STREAM, 0), on = 1, r;

	if (fd < 0)
		return fd;
	/* A restart finds connections of the one before in TIME_WAIT. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (at->address.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	r = sys_bind(fd, (const struct sockaddr *)&at->address, at->bytes);
	if (!r)
		r = sys_listen(fd, SOMAXCONN);
	if (r < 0) {
		sys_close(&fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

int daemon_open(const struct daemon_setup *setup, struct daemon **ret)
{
	struct daemon *daemon = sys_zalloc(sizeof(*daemon));
	struct aggregator_setup aggregator = { .params = setup->params,
					       .ops = setup->ops,
					       .transport = setup->transport,
					       .thread_count = setup->options->threads,
					       .groups_max = setup->options->groups_max,
					       .memory_max_bytes = setup->options->memory_max_bytes };
	int r;

	if (!daemon)
		return -ENOMEM;
	daemon->options = setup->options;
	daemon->params = setup->params;
	daemon->secret = setup->secret;
	daemon->ops = setup->ops;
	daemon->transport = setup->transport;
	memcpy(daemon->listeners, setup->listeners, sizeof(daemon->listeners));
	daemon->metrics_fd = setup->metrics_fd;
	daemon->signal_fd = setup->signal_fd;
	for (size_t i = 0; i < DAEMON_SCRAPES_MAX; i++)
		daemon->scrapes[i].fd = -1;
	if (gethostname(daemon->name, sizeof(daemon->name) - 1) < 0)
		daemon->name[0] = '\0';
	r = aggregator_open(&aggregator, &daemon->aggregator);
	if (r < 0) {
		daemon_close(daemon);
		return r;
	}
	daemon->started_ns = daemon->sampled_ns = clock_now_ns();
	*ret = daemon;
	return 0;
}

void daemon_close(struct daemon *daemon)
{
	if (!daemon)
		return;
	while (daemon->connection_count)
		daemon_connection_close(daemon, daemon->connections[0]);
	for (size_t i = 0; i < DAEMON_SCRAPES_MAX; i++) {
		sys_close(&daemon->scrapes[i].fd);
		sys_free(daemon->scrapes[i].answer);
	}
	for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
		sys_close(&daemon->listeners[i]);
	sys_close(&daemon->metrics_fd);
	sys_close(&daemon->signal_fd);
	aggregator_close(daemon->aggregator);
	sys_free(daemon);
}

/* --------------------------------------------------------------------------------------------------------------- end */

static void drain_begin(struct daemon *daemon, uint64_t now_ns)
{
	size_t i = 0;

	log_info(LOG_NET, "told to end: %zu groups have %llu ms to go on without this aggregator",
		 daemon_group_count(daemon), (unsigned long long)(daemon->options->drain_ns / NS_PER_MS));
	daemon->draining = true;
	daemon->drain_until_ns = now_ns + daemon->options->drain_ns;
	for (size_t k = 0; k < DAEMON_LISTEN_MAX; k++)
		sys_close(&daemon->listeners[k]);
	/* Closing one puts another in its place. */
	while (i < daemon->connection_count) {
		struct daemon_connection *connection = daemon->connections[i];

		daemon_connection_drain(daemon, connection);
		if (i < daemon->connection_count && daemon->connections[i] == connection)
			i++;
	}
}

static void take_signals(struct daemon *daemon, uint64_t now_ns)
{
	struct signalfd_siginfo info;

	while (daemon->signal_fd >= 0 && read(daemon->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (daemon->draining)
			daemon->stopped = true; /* again: at once */
		else
			drain_begin(daemon, now_ns);
	}
}

static void look_whether_drained(struct daemon *daemon, uint64_t now_ns)
{
	if (!daemon->draining)
		return;
	if (!daemon_group_count(daemon) || now_ns >= daemon->drain_until_ns)
		daemon->stopped = true;
}

/* -------------------------------------------------------------------------------------------------------------- turn */

static nfds_t gather(const struct daemon *daemon, struct pollfd *fds, uint64_t now_ns)
{
	const uint8_t *at;
	nfds_t count = 0;

	fds[count++] = (struct pollfd){ .fd = daemon->signal_fd, .events = POLLIN };
	fds[count++] = (struct pollfd){ .fd = now_ns >= daemon->accept_paused_until_ns ? daemon->metrics_fd : -1,
					.events = POLLIN };
	for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
		if (daemon->listeners[i] >= 0 && now_ns >= daemon->accept_paused_until_ns)
			fds[count++] = (struct pollfd){ .fd = daemon->listeners[i], .events = POLLIN };
	for (size_t i = 0; i < daemon->connection_count; i++) {
		const struct daemon_connection *connection = daemon->connections[i];
		bool out = control_channel_pending(&connection->channel, &at) > 0;

		fds[count++] = (struct pollfd){ .fd = connection->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0)) };
	}
	for (size_t i = 0; i < DAEMON_SCRAPES_MAX; i++)
		if (daemon->scrapes[i].fd >= 0)
			fds[count++] = (struct pollfd){ .fd = daemon->scrapes[i].fd,
							.events = daemon->scrapes[i].answer ? POLLOUT : POLLIN };
	return count;
}

static int sleep_ms(const struct daemon *daemon, int wait_ms)
{
	for (size_t i = 0; i < daemon->connection_count; i++)
		if (daemon_connection_waits_for_group(daemon->connections[i]) && wait_ms > CONNECTING_MS)
			return CONNECTING_MS;
	return wait_ms;
}

void daemon_turn(struct daemon *daemon, int wait_ms)
{
	struct pollfd fds[DAEMON_POLL_MAX];
	nfds_t count = gather(daemon, fds, clock_now_ns());
	uint64_t now_ns;
	size_t i = 0;

	/* What is ready shows by itself below: everything is non-blocking and bounded in number. */
	if (poll(fds, count, sleep_ms(daemon, wait_ms)) < 0 && errno != EINTR)
		return;
	now_ns = clock_now_ns();
	take_signals(daemon, now_ns);
	/* Those who are here before those who come: what they have said may keep their place. */
	while (i < daemon->connection_count)
		if (daemon_connection_step(daemon, daemon->connections[i], now_ns))
			i++;
	for (i = 0; i < DAEMON_LISTEN_MAX; i++)
		if (daemon->listeners[i] >= 0 && now_ns >= daemon->accept_paused_until_ns)
			daemon_connection_accept(daemon, daemon->listeners[i], now_ns);
	if (daemon->metrics_fd >= 0)
		daemon_scrape_accept(daemon, now_ns);
	for (i = 0; i < DAEMON_SCRAPES_MAX; i++)
		if (daemon->scrapes[i].fd >= 0)
			daemon_scrape_step(daemon, &daemon->scrapes[i], now_ns);
	daemon_sample(daemon, now_ns);
	look_whether_drained(daemon, now_ns);
}

void daemon_run(struct daemon *daemon)
{
	while (!daemon->stopped)
		daemon_turn(daemon, IDLE_MS);
}
