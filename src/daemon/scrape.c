/* Who asks for the metrics: just enough of HTTP for `GET /metrics`, a few at a time, each for a few seconds. */
#include "base/clock.h"
#include "base/sys.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void drop(struct daemon_scrape *scrape)
{
	sys_close_socket(&scrape->fd);
	sys_free(scrape->answer);
	scrape->answer = NULL;
	scrape->bytes = scrape->sent = scrape->answer_bytes = 0;
}

void daemon_scrape_accept(struct daemon *daemon, uint64_t now_ns)
{
	for (size_t i = 0; i < DAEMON_SCRAPES_MAX; i++) {
		struct daemon_scrape *scrape = &daemon->scrapes[i];
		int fd;

		if (scrape->fd >= 0)
			continue;
		fd = sys_accept(daemon->metrics_fd, NULL, NULL);
		if (fd < 0)
			return;
		scrape->fd = fd;
		scrape->since_ns = now_ns;
	}
}

/* What is asked for, or why not. NULL: no memory; freed by free(). */
static char *make_body(const struct daemon *daemon, const char *request, uint64_t now_ns, const char **ret_status)
{
	struct control_group_state *groups = sys_zalloc(CONTROL_GROUPS_MAX * sizeof(*groups));
	struct control_state state;
	char *body = NULL;
	size_t bytes;
	FILE *out = groups ? open_memstream(&body, &bytes) : NULL;

	if (out && strncmp(request, "GET ", 4) != 0) {
		*ret_status = "405 Method Not Allowed";
		fputs("only GET\n", out);
	} else if (out && strncmp(request + 4, "/metrics ", 9) != 0) {
		*ret_status = "404 Not Found";
		fputs("only /metrics\n", out);
	} else if (out) {
		*ret_status = "200 OK";
		daemon_state(daemon, now_ns, &state, groups);
		daemon_metrics_print(&state, groups, out);
	}
	sys_free(groups);
	if (out && fclose(out) == 0)
		return body;
	free(body);
	return NULL;
}

static int make_answer(const struct daemon *daemon, struct daemon_scrape *scrape, uint64_t now_ns)
{
	enum { HEAD_BYTES = 256 };
	const char *status;
	char *body = make_body(daemon, scrape->request, now_ns, &status);
	size_t most = HEAD_BYTES + (body ? strlen(body) : 0);

	scrape->answer = body ? sys_zalloc(most) : NULL;
	if (scrape->answer)
		scrape->answer_bytes = (size_t)snprintf(scrape->answer, most,
							"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
							"Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
							status, strlen(body), body);
	free(body);
	return scrape->answer ? 0 : -ENOMEM;
}

/* 0: wait for more; 1: the request is whole; -errno. */
static int read_request(struct daemon_scrape *scrape)
{
	for (;;) {
		size_t room = sizeof(scrape->request) - 1 - scrape->bytes;
		ssize_t got = room ? sys_recv(scrape->fd, scrape->request + scrape->bytes, room, MSG_DONTWAIT)
				   : -EMSGSIZE;

		if (got == -EAGAIN)
			return 0;
		if (got == -EINTR)
			continue;
		if (got <= 0)
			return got ? (int)got : -EPIPE;
		scrape->bytes += (size_t)got;
		scrape->request[scrape->bytes] = '\0';
		if (strstr(scrape->request, "\r\n\r\n") || strstr(scrape->request, "\n\n"))
			return 1;
	}
}

static int write_answer(struct daemon_scrape *scrape)
{
	while (scrape->sent < scrape->answer_bytes) {
		ssize_t sent = sys_send(scrape->fd, scrape->answer + scrape->sent, scrape->answer_bytes - scrape->sent);

		if (sent == -EAGAIN)
			return 0;
		if (sent == -EINTR)
			continue;
		if (sent < 0)
			return (int)sent;
		scrape->sent += (size_t)sent;
	}
	return 1;
}

void daemon_scrape_step(struct daemon *daemon, struct daemon_scrape *scrape, uint64_t now_ns)
{
	int r = scrape->answer ? 1 : read_request(scrape);

	if (r > 0 && !scrape->answer)
		r = make_answer(daemon, scrape, now_ns) < 0 ? -ENOMEM : 1;
	if (r > 0)
		r = write_answer(scrape) ? -ESHUTDOWN : 0;
	if (r < 0 || clock_elapsed_ns(scrape->since_ns, now_ns) > DAEMON_SCRAPE_NS)
		drop(scrape);
}
