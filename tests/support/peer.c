/* SPDX-License-Identifier: Apache-2.0 */
#include "support/peer.h"

#include "support/runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PEER_FLAG        "--peer"
#define PEER_CONTROL_FD  3
#define PEER_PATIENCE_MS 120000 /* for a hang alone */

void peer_main(int argc, char **argv, const struct peer_role *roles, unsigned watchdog_s)
{
	const struct peer_role *role;

	if (argc != 4 || strcmp(argv[1], PEER_FLAG) != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	runtime_watchdog(watchdog_s);
	for (role = roles; role->name; role++)
		if (!strcmp(role->name, argv[2]))
			exit(role->run(PEER_CONTROL_FD, argv[3]));
	fprintf(stderr, "no such role: %s\n", argv[2]);
	exit(2);
}

int peer_start(const char *role, const char *argument, struct peer *ret)
{
	int pair[2], fd;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return -errno;
	}
	if (!pid) {
		fd = pair[1] == PEER_CONTROL_FD ? fcntl(pair[1], F_SETFD, 0) : dup2(pair[1], PEER_CONTROL_FD);
		if (fd >= 0)
			execl("/proc/self/exe", program_invocation_short_name, PEER_FLAG, role, argument, (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	ret->pid = pid;
	ret->control = pair[0];
	return 0;
}

static int control_ready(int control, short events, int timeout_ms)
{
	struct pollfd wait = { .fd = control, .events = events };
	int r;

	do {
		r = poll(&wait, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return r ? 0 : -ETIMEDOUT;
}

int peer_write(int control, const void *data, size_t bytes)
{
	const char *at = data;
	ssize_t n;
	int r;

	while (bytes) {
		r = control_ready(control, POLLOUT, PEER_PATIENCE_MS);
		if (r < 0)
			return r;
		n = send(control, at, bytes, MSG_NOSIGNAL);
		if (n < 0)
			return -errno;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int peer_read(int control, void *data, size_t bytes)
{
	char *at = data;
	ssize_t n;
	int r;

	while (bytes) {
		r = control_ready(control, POLLIN, PEER_PATIENCE_MS);
		if (r < 0)
			return r;
		n = recv(control, at, bytes, 0);
		if (n <= 0)
			return n ? -errno : -EPIPE;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

bool peer_readable(int control)
{
	return !control_ready(control, POLLIN, 0);
}

static void peer_forget(struct peer *peer)
{
	if (peer->control >= 0)
		close(peer->control);
	peer->control = -1;
	peer->pid = 0;
}

int peer_wait(struct peer *peer, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	int status;
	pid_t r;

	for (;;) {
		r = waitpid(peer->pid, &status, WNOHANG);
		if (r == peer->pid)
			break;
		if (r < 0)
			return -errno;
		if (runtime_past(deadline_ns))
			return -ETIMEDOUT;
		usleep(500);
	}
	peer_forget(peer);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void peer_stop(struct peer *peer)
{
	if (!peer)
		return;
	if (peer->pid > 0) {
		kill(peer->pid, SIGKILL);
		while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
			;
		peer_forget(peer);
	}
}

pid_t peer_fork_idle(void)
{
	pid_t child = fork();

	if (child == 0) {
		alarm(100);
		for (;;)
			pause();
	}
	return child;
}

void peer_end_idle(pid_t child)
{
	if (child <= 0)
		return;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
