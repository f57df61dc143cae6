/* SPDX-License-Identifier: Apache-2.0 */
#include "oob.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "args.h"
#include "clock.h"

struct hello {
	uint32_t magic, rank;
};
static const uint32_t magic = 0x70657266;

struct spawned {
	int count;
	pid_t pids[256];
};
static struct spawned children; /* of this process, for part() */

/* timeout_s: for a word from the other program. Its host has half of it to answer. */
static void set_options(int fd, double timeout_s)
{
	struct timeval t = { .tv_sec = (time_t)timeout_s,
			     .tv_usec = (suseconds_t)((timeout_s - (double)(time_t)timeout_s) * 1e6) };
	int one = 1, probe_s = 1 + (int)(timeout_s / 8), probes = 3, unanswered_ms = (int)(timeout_s * 500);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* A host that is switched off says nothing; its kernel would answer for a program that is slow. */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe_s, sizeof(probe_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &probe_s, sizeof(probe_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
}

static int move(int fd, void *data, size_t bytes, int sending)
{
	char *at = data;

	while (bytes > 0) {
		ssize_t n = sending ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);

		if (n == 0 && !sending)
			return -ECONNRESET;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int fd_of(const struct oob *oob, int peer)
{
	return oob->rank == 0 ? oob->fds[peer] : oob->fds[0];
}

int oob_send(struct oob *oob, int peer, const void *data, size_t bytes)
{
	return move(fd_of(oob, peer), (void *)(uintptr_t)data, bytes, 1);
}

int oob_receive(struct oob *oob, int peer, void *data, size_t bytes)
{
	return move(fd_of(oob, peer), data, bytes, 0);
}

static struct oob *oob_new(int rank, int size, double timeout_s)
{
	struct oob *oob = calloc(1, sizeof(*oob));
	int i;

	if (!oob)
		return NULL;
	oob->rank = rank;
	oob->size = size;
	oob->timeout_s = timeout_s;
	oob->fds = malloc((size_t)size * sizeof(*oob->fds));
	if (!oob->fds) {
		free(oob);
		return NULL;
	}
	for (i = 0; i < size; i++)
		oob->fds[i] = -1;
	return oob;
}

static void oob_free(struct oob *oob)
{
	int i;

	if (!oob)
		return;
	for (i = 0; i < oob->size; i++)
		if (oob->fds[i] >= 0)
			close(oob->fds[i]);
	free(oob->fds);
	free(oob);
}

/* Rank 0: takes every other rank in, whatever their order; strangers are dropped. */
static int gather_ranks(struct oob *oob, int listener)
{
	int missing = oob->size - 1;

	set_options(listener, oob->timeout_s);
	while (missing > 0) {
		struct hello hello = { 0 };
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		set_options(fd, oob->timeout_s);
		if (move(fd, &hello, sizeof(hello), 0) < 0 || hello.magic != magic || hello.rank == 0 ||
		    hello.rank >= (uint32_t)oob->size || oob->fds[hello.rank] >= 0) {
			close(fd);
			continue;
		}
		oob->fds[hello.rank] = fd;
		missing--;
	}
	return 0;
}

static int join_rank0(struct oob *oob)
{
	struct hello hello = { magic, (uint32_t)oob->rank };
	uint64_t end_ns = perf_now_ns() + (uint64_t)(oob->timeout_s * 1e9);
	int fd, r;

	for (;;) {
		fd = socket(oob->master.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return -errno;
		set_options(fd, oob->timeout_s);
		if (connect(fd, (struct sockaddr *)&oob->master, oob->master_bytes) == 0)
			break;
		r = -errno;
		close(fd);
		if (perf_now_ns() > end_ns)
			return r;
		perf_sleep_ns(20000000); /* rank 0 may not be there yet */
	}
	oob->fds[0] = fd;
	return move(fd, &hello, sizeof(hello), 1);
}

static int open_listener(struct oob *oob)
{
	int one = 1, r, fd = socket(oob->master.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&oob->master, oob->master_bytes) < 0 || listen(fd, 256) < 0 ||
	    getsockname(fd, (struct sockaddr *)&oob->master, &oob->master_bytes) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int from_environment(const char *name, int fallback)
{
	const char *text = getenv(name);
	int value;

	if (!text || !*text)
		return fallback;
	return args_int(text, &value) < 0 ? -EINVAL : value;
}

static int resolve(struct oob *oob)
{
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found = NULL;

	if (getaddrinfo(host ? host : "127.0.0.1", port ? port : "29500", &hints, &found) || !found)
		return -EHOSTUNREACH;
	memcpy(&oob->master, found->ai_addr, found->ai_addrlen);
	oob->master_bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int find_ranks(double timeout_s, struct oob **ret_oob)
{
	int rank = from_environment("RANK", 0), size = from_environment("WORLD_SIZE", 1), r, listener = -1;
	struct oob *oob = NULL;

	r = -EINVAL;
	if (rank < 0 || size < 1 || rank >= size)
		goto fail;
	r = -ENOMEM;
	oob = oob_new(rank, size, timeout_s);
	if (!oob)
		goto fail;
	r = resolve(oob);
	if (r < 0)
		goto fail;
	if (rank == 0) {
		listener = r = open_listener(oob);
		if (r >= 0)
			r = gather_ranks(oob, listener);
		if (listener >= 0)
			close(listener);
	} else {
		r = join_rank0(oob);
	}
	if (r < 0)
		goto fail;
	*ret_oob = oob;
	return 0;
fail:
	fprintf(stderr, "rank %d of %d: the ranks did not find each other at %s:%s: %s\n", rank, size,
		getenv("MASTER_ADDR") ? getenv("MASTER_ADDR") : "127.0.0.1",
		getenv("MASTER_PORT") ? getenv("MASTER_PORT") : "29500", strerror(-r));
	oob_free(oob);
	return r;
}

static int fork_children(struct oob *oob, int count)
{
	pid_t parent = getpid(), pid;
	int i;

	children.count = 0;
	for (i = 1; i < count; i++) {
		fflush(NULL);
		pid = fork();
		if (pid < 0)
			return -errno;
		if (pid == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(1);
			children.count = 0;
			oob->rank = i;
			return 0;
		}
		children.pids[children.count++] = pid;
	}
	return 0;
}

static int spawn_ranks(int count, double timeout_s, struct oob **ret_oob)
{
	struct sockaddr_in loopback = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct oob *oob = NULL;
	int r = -EINVAL, listener = -1;

	if (count < 1 || count > (int)(sizeof(children.pids) / sizeof(children.pids[0])))
		goto fail;
	r = -ENOMEM;
	oob = oob_new(0, count, timeout_s);
	if (!oob)
		goto fail;
	memcpy(&oob->master, &loopback, sizeof(loopback));
	oob->master_bytes = sizeof(loopback);
	listener = r = open_listener(oob);
	if (r < 0)
		goto fail;
	r = fork_children(oob, count);
	if (r == 0)
		r = oob->rank == 0 ? gather_ranks(oob, listener) : join_rank0(oob);
	if (r < 0)
		goto fail;
	close(listener);
	*ret_oob = oob;
	return 0;
fail:
	if (listener >= 0)
		close(listener);
	fprintf(stderr, "cannot start %d ranks: %s\n", count, strerror(-r));
	oob_free(oob);
	return r;
}

/* The first exit status of a child that is not 0. */
static int part(struct oob *oob)
{
	int i, status, first = 0;

	oob_free(oob);
	for (i = 0; i < children.count; i++) {
		if (waitpid(children.pids[i], &status, 0) < 0)
			continue;
		if (!first)
			first = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
	children.count = 0;
	return first;
}

int oob_run(int spawn, double timeout_s, int (*run)(struct oob *oob, void *arg), void *arg)
{
	struct oob *oob = NULL;
	int r = spawn ? spawn_ranks(spawn, 2 * timeout_s + 30, &oob) : find_ranks(2 * timeout_s + 30, &oob);

	if (r < 0 || !oob)
		return 1;
	r = run(oob, arg);
	if (r < 0)
		fprintf(stderr, "%s: rank %d: %s\n", program_invocation_short_name, oob->rank, strerror(-r));
	return part(oob) || r ? 1 : 0;
}

int oob_allgather(struct oob *oob, const void *mine, size_t bytes, void *all)
{
	char *to = all;
	int i, r;

	if (oob->rank != 0) {
		r = oob_send(oob, 0, mine, bytes);
		return r < 0 ? r : oob_receive(oob, 0, all, bytes * (size_t)oob->size);
	}
	memcpy(to, mine, bytes);
	for (i = 1; i < oob->size; i++) {
		r = oob_receive(oob, i, to + (size_t)i * bytes, bytes);
		if (r < 0)
			return r;
	}
	return oob_broadcast(oob, all, bytes * (size_t)oob->size);
}

int oob_broadcast(struct oob *oob, void *data, size_t bytes)
{
	int i, r;

	if (oob->rank != 0)
		return oob_receive(oob, 0, data, bytes);
	for (i = 1; i < oob->size; i++) {
		r = oob_send(oob, i, data, bytes);
		if (r < 0)
			return r;
	}
	return 0;
}

int oob_barrier(struct oob *oob)
{
	char byte = 0, all[1024];

	if (oob->size > (int)sizeof(all))
		return -EINVAL;
	return oob_allgather(oob, &byte, 1, all);
}
