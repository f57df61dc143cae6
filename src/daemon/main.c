/* SPDX-License-Identifier: Apache-2.0 */
/* tributaryd: from the command line to a service that runs, and back. */
#include "base/log.h"
#include "base/process.h"
#include "base/sys.h"
#include "daemon/daemon.h"
#include "daemon/privileges.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { STATUS_OK = 0, STATUS_FAILED = 1, STATUS_USAGE = 2, DRAIN_MS = 1000 };

/* What there is to put back when it ends, or could not begin. */
struct start {
	struct daemon_options options;
	struct params params;
	struct control_secret secret;
	struct daemon_setup setup;
	struct daemon *daemon;
};

/* The journal takes "<4>" at the start of a line for the level; a terminal shows plain lines. */
static bool journal;

__attribute__((format(printf, 5, 6))) static void to_stderr(int level, unsigned long flags, const char *file, int line,
							    const char *fmt, ...)
{
	char text[1024];
	va_list args;

	(void)flags, (void)file, (void)line;
	if (level > LOG_LEVEL_INFO)
		return;
	va_start(args, fmt);
	log_sentence_v(text, sizeof(text), fmt, args);
	va_end(args);
	if (journal)
		fprintf(stderr, "<%d>%s\n", level == LOG_LEVEL_WARN ? 4 : 6, text);
	else
		fprintf(stderr, "tributaryd: %s\n", text);
}

static void complain(void *arg, const char *sentence)
{
	(void)arg;
	fprintf(stderr, "tributaryd: %s\n", sentence);
}

static int failed(const char *what, int error, const struct diag *diag)
{
	fprintf(stderr, "tributaryd: %s%s%s\n", what, *what ? ": " : "", diag ? diag->text : strerror(-error));
	return STATUS_FAILED;
}

/* In all threads, which inherit it; the service reads them from a descriptor. */
static int catch_signals(int *ret_fd)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int open_ports(struct start *start)
{
	char text[DAEMON_ADDRESS_TEXT];
	int r;

	for (size_t i = 0; i < start->options.listen_count; i++) {
		r = daemon_listen(&start->options.listen[i], &start->setup.listeners[i]);
		if (r < 0)
			return failed(daemon_address_text(&start->options.listen[i].address, text), r, NULL);
	}
	if (start->options.metrics) {
		r = daemon_listen(&start->options.metrics_at, &start->setup.metrics_fd);
		if (r < 0)
			return failed(daemon_address_text(&start->options.metrics_at.address, text), r, NULL);
	}
	return STATUS_OK;
}

/* The file may be root's, who starts us, or that of the user who we become. */
static int read_secret_and_drop(struct start *start)
{
	struct diag diag = { 0 };
	int r = control_secret_read(start->options.secret, &start->secret, &diag), d;

	if (r < 0 && (r != -EPERM || !start->options.user[0]))
		return failed("the secret", r, &diag);
	d = daemon_privileges_drop(start->options.user, &diag);
	if (d < 0)
		return failed("", d, &diag);
	if (r < 0)
		r = control_secret_read(start->options.secret, &start->secret, &diag);
	return r < 0 ? failed("the secret", r, &diag) : STATUS_OK;
}

static int open_transport(struct start *start)
{
	int r = transport_tcp.open(&start->params, &start->setup.transport);

	if (r < 0)
		return failed("the TCP transport", r, NULL);
	start->setup.ops = &transport_tcp;
	if (transport_tcp.device_count(start->setup.transport) > 0)
		return STATUS_OK;
	fprintf(stderr, "tributaryd: no usable interface: name one in TRIBUTARY_IF\n");
	return STATUS_FAILED;
}

static int begin(struct start *start)
{
	struct params_source source = params_from_environment();
	int status, r = catch_signals(&start->setup.signal_fd);

	if (r < 0)
		return failed("signals", r, NULL);
	params_load(&source, complain, NULL, &start->params);
	/* It waits for members at any time, for as long as they do something else. They say who of them is late. */
	start->params.report_after_ns = UINT64_MAX;
	status = open_ports(start);
	if (status == STATUS_OK)
		status = read_secret_and_drop(start);
	if (status == STATUS_OK)
		status = open_transport(start);
	if (status != STATUS_OK)
		return status;
	r = daemon_open(&start->setup, &start->daemon);
	return r < 0 ? failed("it cannot start", r, NULL) : STATUS_OK;
}

static void end(struct start *start)
{
	if (start->daemon) {
		daemon_close(start->daemon);
	} else {
		for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
			sys_close(&start->setup.listeners[i]);
		sys_close(&start->setup.metrics_fd);
		sys_close(&start->setup.signal_fd);
	}
	if (start->setup.transport)
		transport_tcp.close(start->setup.transport);
	control_secret_forget(&start->secret);
}

/* One datagram to systemd, or whoever set NOTIFY_SOCKET (sd_notify(3)): a path, or '@' and a name without a file. */
static int notify(const char *socket, const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = socket ? strlen(socket) : 0;
	int fd;
	ssize_t sent;

	if (!length)
		return 0;
	if ((socket[0] != '/' && socket[0] != '@') || length >= sizeof(address.sun_path))
		return -EINVAL;
	memcpy(address.sun_path, socket, length);
	if (socket[0] == '@')
		address.sun_path[0] = '\0';
	fd = sys_socket(AF_UNIX, SOCK_DGRAM, 0);
	if (fd < 0)
		return fd;
	sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	if (sent < 0)
		sent = -errno;
	sys_close(&fd);
	return sent < 0 ? (int)sent : 0;
}

static void run(struct start *start)
{
	const char *socket = getenv("NOTIFY_SOCKET");
	char text[DAEMON_ADDRESS_TEXT];
	int r = notify(socket, "READY=1\nSTATUS=waits for groups");

	/* Root of a user namespace, as in a rootless container, is another user outside. */
	if (!start->options.user[0] && process_user() == 0)
		log_warn("it runs as root and needs none of root's rights: give --user NAME, or start it as another "
			 "user");
	for (size_t i = 0; i < start->options.listen_count; i++)
		log_info(LOG_NET, "listens on %s", daemon_address_text(&start->options.listen[i].address, text));
	if (r < 0)
		log_warn("systemd cannot be told that the service is ready: %s", strerror(-r));
	daemon_run(start->daemon);
	(void)notify(socket, "STOPPING=1");
}

int main(int argc, char **argv)
{
	struct start start = { .setup = { .metrics_fd = -1, .signal_fd = -1 } };
	int status;

	for (size_t i = 0; i < DAEMON_LISTEN_MAX; i++)
		start.setup.listeners[i] = -1;
	switch (daemon_options_parse(argc, argv, &start.options, stdout, stderr)) {
	case DAEMON_WRONG:
		return STATUS_USAGE;
	case DAEMON_DONE:
		return fflush(stdout) ? STATUS_FAILED : STATUS_OK;
	default:
		break;
	}
	journal = getenv("JOURNAL_STREAM") != NULL;
	log_set_sink(to_stderr);
	start.setup.options = &start.options;
	start.setup.params = &start.params;
	start.setup.secret = &start.secret;
	status = begin(&start);
	if (status == STATUS_OK)
		run(&start);
	end(&start);
	(void)log_drain(DRAIN_MS);
	return status;
}
