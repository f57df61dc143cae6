/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks for the metrics: just enough of HTTP for `GET /metrics`, a few at a time, each for a few seconds. */
#include "base/clock.h"
#include "base/sys.h"
#include "base/text.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <string.h>

enum { ACCEPTS_AT_ONCE = DAEMON_SCRAPES_MAX };

static void drop(struct daemon_scrape *scrape)
{
	sys_close_socket(&scrape->fd);
	sys_free(scrape->answer);
	scrape->answer = NULL;
	scrape->bytes = scrape->sent = scrape->answer_bytes = 0;
}

/* A free one, or the oldest: who asks in earnest is through within a round trip, whoever comes meanwhile. */
static struct daemon_scrape *make_room(struct daemon *daemon)
{
	struct daemon_scrape *oldest = &daemon->scrapes[0];

	for (size_t i = 0; i < DAEMON_SCRAPES_MAX; i++) {
		struct daemon_scrape *scrape = &daemon->scrapes[i];

		if (scrape->fd < 0)
			return scrape;
		if (scrape->order < oldest->order)
			oldest = scrape;
	}
	drop(oldest);
	return oldest;
}

void daemon_scrape_accept(struct daemon *daemon, uint64_t now_ns)
{
	for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
		struct sockaddr_storage peer;
		socklen_t length = sizeof(peer);
		int fd = sys_accept(daemon->metrics_fd, &peer, &length);
		struct daemon_scrape *scrape;

		if (fd < 0) {
			if (fd == -EMFILE || fd == -ENFILE)
				daemon->accept_paused_until_ns = now_ns + DAEMON_OUT_OF_DESCRIPTORS_NS;
			return;
		}
		if (!daemon_allow_has(&daemon->options->metrics_allow, &peer)) {
			daemon->strangers++;
			sys_close_socket(&fd);
			continue;
		}
		scrape = make_room(daemon);
		scrape->fd = fd;
		scrape->since_ns = now_ns;
		scrape->order = ++daemon->scrape_count;
	}
}

enum daemon_request daemon_scrape_request(const char *text, size_t bytes)
{
	static const char method[] = "GET", path[] = "/metrics", version[] = "HTTP/1.";
	const char *end = memchr(text, '\n', bytes), *target, *last;

	if (memchr(text, '\0', bytes))
		return DAEMON_REQUEST_WRONG;
	if (!memmem(text, bytes, "\r\n\r\n", 4) && !memmem(text, bytes, "\n\n", 2))
		return bytes < DAEMON_REQUEST_BYTES ? DAEMON_REQUEST_MORE : DAEMON_REQUEST_LONG;
	end -= end > text && end[-1] == '\r';
	target = memchr(text, ' ', (size_t)(end - text));
	last = target ? memchr(target + 1, ' ', (size_t)(end - target - 1)) : NULL;
	/* A digit more. */
	if (!last || (size_t)(end - last - 1) != sizeof(version) || memcmp(last + 1, version, sizeof(version) - 1) != 0)
		return DAEMON_REQUEST_WRONG;
	if ((size_t)(target - text) != sizeof(method) - 1 || memcmp(text, method, sizeof(method) - 1) != 0)
		return DAEMON_REQUEST_METHOD;
	if ((size_t)(last - target) != sizeof(path) || memcmp(target + 1, path, sizeof(path) - 1) != 0)
		return DAEMON_REQUEST_ELSEWHERE;
	return DAEMON_REQUEST_METRICS;
}

/* What is asked for, or why not. */
static int put_body(const struct daemon *daemon, enum daemon_request request, uint64_t now_ns, struct text *body)
{
	static const char *const reasons[] = {
		[DAEMON_REQUEST_ELSEWHERE] = "only /metrics\n",
		[DAEMON_REQUEST_METHOD] = "only GET\n",
		[DAEMON_REQUEST_WRONG] = "no request of HTTP/1\n",
		[DAEMON_REQUEST_LONG] = "the request is too long\n",
	};

	if (request == DAEMON_REQUEST_METRICS)
		return daemon_metrics_print(daemon, now_ns, body);
	text_put(body, "%s", reasons[request]);
	return 0;
}

static int make_answer(const struct daemon *daemon, struct daemon_scrape *scrape, enum daemon_request request,
		       uint64_t now_ns)
{
	static const char *const statuses[] = {
		[DAEMON_REQUEST_METRICS] = "200 OK",
		[DAEMON_REQUEST_ELSEWHERE] = "404 Not Found",
		[DAEMON_REQUEST_METHOD] = "405 Method Not Allowed",
		[DAEMON_REQUEST_WRONG] = "400 Bad Request",
		[DAEMON_REQUEST_LONG] = "431 Request Header Fields Too Large",
	};
	struct text body = { .bytes = 0 }, answer = { .bytes = 0 };
	char *whole = NULL;
	size_t bytes = 0;
	int r = put_body(daemon, request, now_ns, &body), t = text_take(&body, &whole, &bytes);

	if (r == 0 && t == 0) {
		text_put(&answer,
			 "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
			 "Connection: close\r\n\r\n%s",
			 statuses[request], bytes, whole);
		t = text_take(&answer, &scrape->answer, &scrape->answer_bytes);
	}
	sys_free(whole);
	return r < 0 ? r : t;
}

/* 0: wait for more; 1: *ret_request is what is asked for; -errno. */
static int read_request(struct daemon_scrape *scrape, enum daemon_request *ret_request)
{
	for (;;) {
		ssize_t got = sys_recv(scrape->fd, scrape->request + scrape->bytes,
				       sizeof(scrape->request) - scrape->bytes, MSG_DONTWAIT);

		if (got == -EAGAIN)
			return 0;
		if (got == -EINTR)
			continue;
		if (got <= 0)
			return got ? (int)got : -EPIPE;
		scrape->bytes += (size_t)got;
		*ret_request = daemon_scrape_request(scrape->request, scrape->bytes);
		if (*ret_request != DAEMON_REQUEST_MORE)
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
	enum daemon_request request = DAEMON_REQUEST_MORE;
	int r = scrape->answer ? 1 : read_request(scrape, &request);

	if (r > 0 && !scrape->answer)
		r = make_answer(daemon, scrape, request, now_ns) < 0 ? -ENOMEM : 1;
	if (r > 0)
		r = write_answer(scrape) ? -ESHUTDOWN : 0;
	if (r < 0 || clock_elapsed_ns(scrape->since_ns, now_ns) > DAEMON_SCRAPE_NS)
		drop(scrape);
}
