/* SPDX-License-Identifier: Apache-2.0 */
#include "tcploop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "oob.h"

struct place {
	struct sockaddr_storage address;
	socklen_t bytes;
	int error;
};

static int listen_here(struct oob *oob, struct place *ret_place)
{
	struct place place = { .address = oob->master, .bytes = oob->master_bytes };
	int fd = -1;

	if (oob->rank != 0) {
		place.bytes = sizeof(place.address);
		if (getsockname(oob->fds[0], (struct sockaddr *)&place.address, &place.bytes) < 0)
			goto fail;
	}
	if (place.address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&place.address)->sin6_port = 0;
	else
		((struct sockaddr_in *)&place.address)->sin_port = 0;
	fd = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&place.address, place.bytes) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&place.address, &place.bytes) < 0)
		goto fail;
	*ret_place = place;
	return fd;
fail:
	ret_place->error = errno;
	if (fd >= 0)
		close(fd);
	return -ret_place->error;
}

static int take(struct oob *oob, int listener)
{
	struct timeval t = { .tv_sec = (time_t)oob->timeout_s };
	int fd;

	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int go_to(const struct place *place)
{
	int fd = socket(place->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&place->address, place->bytes) < 0 ||
	    fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int tcploop_pair(struct oob *oob, int server, int client, int *ret_fd)
{
	struct place mine = { .error = 0 }, *all = calloc((size_t)oob->size, sizeof(*all));
	int listener = -1, fd = -1, one = 1, r;

	if (!all)
		return -ENOMEM;
	if (oob->rank == server)
		listener = listen_here(oob, &mine);
	r = oob_allgather(oob, &mine, sizeof(mine), all);
	if (r == 0 && all[server].error)
		r = -all[server].error;
	if (r < 0)
		goto out;
	if (oob->rank == server)
		fd = r = take(oob, listener);
	else if (oob->rank == client)
		fd = r = go_to(&all[server]);
	if (r < 0)
		goto out;
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	*ret_fd = fd;
	r = 0;
out:
	if (listener >= 0)
		close(listener);
	free(all);
	return r;
}

int tcploop_send(int fd, const void *data, size_t bytes, struct poller *poller)
{
	const char *at = data;

	while (bytes > 0) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
			poller_moved(poller);
			continue;
		}
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (!poller_idle(poller))
			return -ETIMEDOUT;
	}
	return 0;
}

int tcploop_receive(int fd, void *data, size_t bytes, struct poller *poller)
{
	char *at = data;

	while (bytes > 0) {
		ssize_t n = recv(fd, at, bytes, 0);

		if (n > 0) {
			at += n;
			bytes -= (size_t)n;
			poller_moved(poller);
			continue;
		}
		if (n == 0)
			return -ECONNRESET;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		if (!poller_idle(poller))
			return -ETIMEDOUT;
	}
	return 0;
}
