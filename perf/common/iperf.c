/* SPDX-License-Identifier: Apache-2.0 */
#include "iperf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "oob.h"

static const char port[] = "5299";

bool iperf_installed(void)
{
	const char *path = getenv("PATH");
	char file[512];

	while (path && *path) {
		size_t length = strcspn(path, ":");

		if (snprintf(file, sizeof(file), "%.*s/iperf3", (int)length, path) < (int)sizeof(file) &&
		    !access(file, X_OK))
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

/* Starts iperf3; its output goes to *out when that is not NULL, else nowhere. */
static pid_t start(char *const *argv, int *out)
{
	int pipe_fds[2] = { -1, -1 };
	pid_t pid;

	if (out && pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -1;
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		dup2(null, STDERR_FILENO);
		dup2(out ? pipe_fds[1] : null, STDOUT_FILENO);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (out) {
		close(pipe_fds[1]);
		if (pid < 0)
			close(pipe_fds[0]);
		else
			*out = pipe_fds[0];
	}
	return pid;
}

static size_t read_all(int fd, char *text, size_t room)
{
	size_t have = 0;
	ssize_t n;

	while (have + 1 < room && (n = read(fd, text + have, room - 1 - have)) > 0)
		have += (size_t)n;
	text[have] = 0;
	close(fd);
	return have;
}

/* The number after "bits_per_second" in the summary of what was received. */
static double parse(const char *json)
{
	static const char key[] = "\"bits_per_second\":";
	const char *at = strstr(json, "\"sum_received\"");
	char *end = NULL;
	double value;

	at = at ? strstr(at, key) : NULL;
	if (!at)
		return 0;
	value = strtod(at + sizeof(key) - 1, &end);
	return end == at + sizeof(key) - 1 ? 0 : value;
}

static double client(struct oob *oob, int seconds)
{
	char host[NI_MAXHOST], time_text[16];
	char json[65536];
	struct sockaddr_storage peer;
	socklen_t bytes = sizeof(peer);
	double bps = 0;
	int attempt, fd = -1, status;

	if (getpeername(oob->fds[1], (struct sockaddr *)&peer, &bytes) < 0 ||
	    getnameinfo((struct sockaddr *)&peer, bytes, host, sizeof(host), NULL, 0, NI_NUMERICHOST))
		return 0;
	snprintf(time_text, sizeof(time_text), "%d", seconds);
	for (attempt = 0; attempt < 40 && bps <= 0; attempt++) { /* the server may not listen yet */
		char *argv[] = { (char *)(uintptr_t) "iperf3",
				 (char *)(uintptr_t) "-c",
				 host,
				 (char *)(uintptr_t) "-p",
				 (char *)(uintptr_t)port,
				 (char *)(uintptr_t) "-t",
				 time_text,
				 (char *)(uintptr_t) "-J",
				 NULL };
		pid_t pid = start(argv, &fd);

		if (pid < 0)
			return 0;
		read_all(fd, json, sizeof(json));
		waitpid(pid, &status, 0);
		bps = parse(json);
		if (bps <= 0)
			perf_sleep_ns(50000000);
	}
	return bps;
}

int iperf_run(struct oob *oob, int seconds, double *ret_bps)
{
	char *argv[] = { (char *)(uintptr_t) "iperf3", (char *)(uintptr_t) "-s", (char *)(uintptr_t) "-1",
			 (char *)(uintptr_t) "-p",     (char *)(uintptr_t)port,  NULL };
	pid_t server = oob->rank == 1 ? start(argv, NULL) : -1;
	double bps = 0;
	int r = oob_barrier(oob);

	if (r == 0 && oob->rank == 0)
		bps = client(oob, seconds);
	if (r == 0)
		r = oob_barrier(oob);
	if (server > 0) {
		kill(server, SIGTERM); /* it ended by itself unless no client came */
		waitpid(server, NULL, 0);
	}
	if (r == 0)
		*ret_bps = bps;
	return r;
}
