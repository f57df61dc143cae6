/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "clock.h"

static void become(const char *command, int in, int out)
{
	const char *port = getenv("MASTER_PORT");
	int number = 29500;
	char text[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (port)
		args_int(port, &number);
	snprintf(text, sizeof(text), "%d", number + 1);
	setenv("MASTER_PORT", text, 1);
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(127);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* One line, without its end. */
static int hear(struct peer *peer)
{
	uint64_t end_ns = perf_now_ns() + (uint64_t)(peer->timeout_s * 1e9);
	struct pollfd poll_fd = { .fd = peer->from, .events = POLLIN };
	size_t length = 0;

	for (;;) {
		uint64_t now_ns = perf_now_ns();
		ssize_t n;

		if (now_ns >= end_ns || poll(&poll_fd, 1, (int)((end_ns - now_ns) / 1000000) + 1) == 0)
			return -ETIMEDOUT;
		n = read(peer->from, peer->line + length, 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ECONNRESET;
		if (peer->line[length] == '\n')
			break;
		if (length + 2 < sizeof(peer->line))
			length++;
	}
	peer->line[length] = 0;
	return 0;
}

int peer_open(struct peer *peer, const char *command, double timeout_s)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, r;

	*peer = (struct peer){ .to = -1, .from = -1, .timeout_s = timeout_s };
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		r = -errno;
		goto out;
	}
	fflush(NULL);
	peer->pid = fork();
	if (peer->pid == 0)
		become(command, in[0], out[1]);
	if (peer->pid < 0) {
		r = -errno;
		peer->pid = 0;
		goto out;
	}
	peer->to = in[1];
	peer->from = out[0];
	in[1] = out[0] = -1;
	r = hear(peer);
	if (r == 0 && !strncmp(peer->line, "skipped", 7))
		r = -ENODATA;
	else if (r == 0 && sscanf(peer->line, "ready %31[^\n]", peer->name) != 1)
		r = -EPROTO;
out:
	for (int i = 0; i < 2; i++) {
		if (in[i] >= 0)
			close(in[i]);
		if (out[i] >= 0)
			close(out[i]);
	}
	return r;
}

void peer_close(struct peer *peer)
{
	int i;

	if (!peer->pid)
		return;
	if (peer->to >= 0)
		close(peer->to);
	if (peer->from >= 0)
		close(peer->from);
	for (i = 0; i < 500 && waitpid(peer->pid, NULL, WNOHANG) == 0; i++)
		perf_sleep_ns(10000000);
	if (i == 500) {
		kill(peer->pid, SIGKILL);
		waitpid(peer->pid, NULL, 0);
	}
	*peer = (struct peer){ .to = -1, .from = -1 };
}

int peer_run(struct peer *peer, size_t count, int batch, double *ret_seconds, double *ret_cpu_s, uint64_t *ret_wrong)
{
	char text[64];
	unsigned long long wrong;
	double seconds, cpu_s;
	int length = snprintf(text, sizeof(text), "run %zu %d\n", count, batch), r;

	if (write(peer->to, text, (size_t)length) != length)
		return -EPIPE;
	r = hear(peer);
	if (r < 0)
		return r;
	if (sscanf(peer->line, "done %lf %lf %llu", &seconds, &cpu_s, &wrong) != 3)
		return -EPROTO;
	*ret_seconds = seconds;
	*ret_cpu_s = cpu_s;
	*ret_wrong = wrong;
	return 0;
}
