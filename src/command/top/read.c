/* SPDX-License-Identifier: Apache-2.0 */
/* Where metrics come from: a folder of files, or an address that answers GET /metrics. */
#include "command/top/top.h"

#include "base/log.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "plugin/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TEXT_BYTES_MAX = 16 << 20, HTTP_PATIENCE_S = 3 };

struct folder {
	const char *path;
	void (*each)(void *arg, const char *text);
	void *arg;
};

/* One that goes meanwhile, or that is not a file, is passed over. */
static int read_file(void *arg, const char *name)
{
	static const struct text_file kind = { .kind = "metrics", .limit_bytes = TEXT_BYTES_MAX };
	const struct folder *folder = arg;
	struct diag unused = { .text = "" };
	size_t length = strlen(name), bytes;
	char path[PATH_MAX], *text;

	if (length < 5 || strcmp(name + length - 5, ".prom") != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/%s", folder->path, name);
	if (text_file_read(&kind, path, TEXT_BYTES_MAX, &text, &bytes, &unused) == 0) {
		folder->each(folder->arg, text);
		sys_free(text);
	}
	return 0;
}

/* Blocking, with a time-out for each step. */
static int dial(const char *where, struct diag *why)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	const struct timeval patience = { .tv_sec = HTTP_PATIENCE_S };
	const char *colon = strrchr(where, ':'), *begin = where + (*where == '[');
	struct addrinfo *addresses = NULL;
	char host[NI_MAXHOST];
	int fd = -1, error;

	snprintf(host, sizeof(host), "%.*s", (int)(colon - begin - (*where == '[')), begin);
	error = getaddrinfo(host, colon + 1, &hints, &addresses);
	if (error) {
		diag_set(why, 0, 0, "%.100s: %s", where, gai_strerror(error));
		return -EINVAL;
	}
	for (const struct addrinfo *at = addresses; at && fd < 0; at = at->ai_next) {
		fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, 0);
		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		if (connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
			diag_set(why, 0, 0, "%.100s: %s", where, errno == EINPROGRESS ? "no answer" : strerror(errno));
			sys_close(&fd);
		}
	}
	freeaddrinfo(addresses);
	return fd < 0 ? -ECONNREFUSED : fd;
}

/* The whole answer, or why not. */
static int ask(int fd, char *text, const char *where, struct diag *why)
{
	/* 1.0: an answer in one piece. */
	static const char request[] = "GET /metrics HTTP/1.0\r\nHost: tributary\r\nConnection: close\r\n\r\n";
	size_t count = 0;
	ssize_t got = send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);

	while (got > 0 && count < TEXT_BYTES_MAX - 1) {
		got = recv(fd, text + count, TEXT_BYTES_MAX - 1 - count, 0);
		count += got > 0 ? (size_t)got : 0;
	}
	text[count] = '\0';
	if (got < 0)
		diag_set(why, 0, 0, "%.100s: %s", where, errno == EAGAIN ? "no answer" : strerror(errno));
	else if (strncmp(text, "HTTP/1.", 7) != 0 || strncmp(text + 8, " 200 ", 5) != 0)
		diag_set(why, 0, 0, "%.100s does not answer GET /metrics: %.*s", where, (int)strcspn(text, "\r\n"),
			 text);
	else
		return 0;
	return -EPROTO;
}

static int read_address(const char *where, void (*each)(void *arg, const char *text), void *arg, struct diag *why)
{
	int fd = dial(where, why), r = fd;
	char *text = fd < 0 ? NULL : malloc(TEXT_BYTES_MAX);

	if (fd >= 0)
		r = text ? ask(fd, text, where, why) : -ENOMEM;
	if (r == 0)
		each(arg, text);
	free(text);
	sys_close(&fd);
	return r;
}

int top_read(const char *where, void (*each)(void *arg, const char *text), void *arg, struct diag *why)
{
	struct folder folder = { .path = where, .each = each, .arg = arg };
	int fd, r;

	if (!strchr(where, '/') && strchr(where, ':'))
		return read_address(where, each, arg, why);
	fd = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = fd < 0 ? -errno : sys_each_name(fd, ".", PLUGIN_METRICS_PREFIX, read_file, &folder);
	if (r < 0)
		diag_set(why, 0, 0, "%.200s: %s", where, strerror(-r));
	sys_close(&fd);
	return r;
}
