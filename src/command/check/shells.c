/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of `tributary check` at the other end of remote shells: how they are started, and how they greet. */
#include "command/check/check.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/sys.h"
#include "command/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	WORDS_MAX = 24,
	START_BYTES = 64 << 10,        /* of the secret and the settings */
	NOISE_BYTES = 64 << 10,        /* that a login script may write before the greeting */
	MESSAGES_BYTES_MAX = 16 << 20, /* that a remote shell may write to standard error */
	MESSAGE_BYTES = 120,
	NAP_MS = 20,
	END_NAPS = 100,
};
/* A login script may have written the beginning of a line, such as a terminal's title. */
static const char greeting[] = "\ntributary-check\n";

void check_hex(const uint8_t *bytes, size_t count, char *ret)
{
	for (size_t i = 0; i < count; i++)
		snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

int check_random_key(char ret[static CHECK_HEX_BYTES])
{
	uint8_t bytes[SHA256_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	check_hex(bytes, sizeof(bytes), ret);
	return 0;
}

bool check_is_setting(const char *entry)
{
	return (!strncmp(entry, "TRIBUTARY_", 10) || !strncmp(entry, "NCCL_", 5)) && strchr(entry, '=');
}

/* --------------------------------------------------------------------------------------------------------------- start */

/* "KEY RANK", settings, an empty line. Bytes; 0: they do not fit. */
static size_t write_start(const struct control_secret *secret, size_t rank, char text[static START_BYTES])
{
	const struct params_source source = params_from_environment();
	size_t used = (size_t)snprintf(text, START_BYTES, "%.*s %zu\n", (int)secret->count, (const char *)secret->bytes,
				       rank);

	for (char *const *at = source.environ_list; *at; at++) {
		if (!check_is_setting(*at) || strchr(*at, '\n'))
			continue;
		used += (size_t)snprintf(text + used, START_BYTES - used, "%s\n", *at);
		if (used + 2 > START_BYTES)
			return 0;
	}
	text[used++] = '\n';
	return used;
}

/* In the child. The host's name stands where rsh has {}, else behind it. */
static void become(const char *rsh, const char *host, const char *program, int connection, int messages)
{
	const struct rlimit messages_limit = { MESSAGES_BYTES_MAX, MESSAGES_BYTES_MAX };
	char words[1024], *list[WORDS_MAX + 8], *rest = words, *name = (char *)(uintptr_t)host;
	size_t count = 0, places = 0;

	snprintf(words, sizeof(words), "%s", rsh);
	for (char *word; count < WORDS_MAX && (word = strtok_r(NULL, " ", &rest));) {
		places += !strcmp(word, "{}");
		list[count++] = strcmp(word, "{}") != 0 ? word : name;
	}
	if (!places)
		list[count++] = name;
	list[count++] = (char *)(uintptr_t)program;
	list[count++] = (char[]){ "check" };
	list[count++] = (char[]){ "--worker" };
	list[count] = NULL;
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_FSIZE, &messages_limit); /* it fails where a lower one is in force */
	if (dup2(connection, STDIN_FILENO) < 0 || dup2(connection, STDOUT_FILENO) < 0 ||
	    dup2(messages, STDERR_FILENO) < 0)
		_exit(127);
	execvp(list[0], list);
	dprintf(STDERR_FILENO, "%s: %s\n", list[0], strerror(errno));
	_exit(127);
}

static int start_one(const char *rsh, const char *program, const struct control_secret *secret, size_t rank,
		     struct clusterprobe_member *member, struct check_shell *shell)
{
	char *text = malloc(START_BYTES);
	int fds[2] = { -1, -1 }, r = text ? 0 : -ENOMEM;
	size_t bytes = text ? write_start(secret, rank, text) : 0;

	*shell = (struct check_shell){ .messages = -1 };
	if (r == 0 && !bytes)
		r = -E2BIG;
	if (r == 0)
		r = shell->messages = sys_memory_file("messages");
	if (r >= 0)
		r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ? -errno : 0;
	if (r == 0)
		r = shell->process = fork();
	if (r == 0)
		become(rsh, member->name, program, fds[1], shell->messages);
	sys_close(&fds[1]);
	/* sys_send never waits: the buffer holds it all, or the other end is gone, and its standard error tells more. */
	if (r > 0)
		(void)sys_send(fds[0], text, bytes);
	else
		sys_close(&fds[0]);
	if (text)
		memset(text, 0, START_BYTES);
	free(text);
	member->fd = fds[0];
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ greeting */

/* Byte by byte: what follows the greeting is not ours. Whether no more is to be waited for. */
static bool hear(struct check_shell *shell, struct clusterprobe_member *member)
{
	const size_t all = sizeof(greeting) - 1;
	ssize_t got = 1;
	char byte;

	while (shell->matched < all && shell->noise_bytes < NOISE_BYTES &&
	       (got = sys_recv(member->fd, &byte, 1, MSG_DONTWAIT)) == 1) {
		shell->matched = byte == greeting[shell->matched] ? shell->matched + 1 : byte == greeting[0];
		shell->noise_bytes++;
	}
	if (shell->matched == all)
		return true;
	if (got == -EAGAIN || got == -EINTR)
		return false;
	sys_close(&member->fd);
	snprintf(member->why, sizeof(member->why), "%s",
		 got == 1 ? "it writes much, and no greeting" : "the remote shell ended");
	return true;
}

static void hear_greetings(struct clusterprobe_member *members, struct check_shell *shells, size_t count,
			   const struct clusterprobe_setup *setup)
{
	uint64_t deadline_ns = clock_now_ns() + setup->timeout_ns;

	for (size_t waiting = 1; waiting && !*setup->stop;) {
		bool late = clock_now_ns() > deadline_ns;

		waiting = 0;
		for (size_t i = 0; i < count; i++) {
			if (members[i].fd < 0 || hear(&shells[i], &members[i]))
				continue;
			waiting++;
			if (!late)
				continue;
			sys_close(&members[i].fd);
			snprintf(members[i].why, sizeof(members[i].why), "it did not answer within %.0f s",
				 1e-9 * (double)setup->timeout_ns);
		}
		if (waiting)
			poll(NULL, 0, NAP_MS);
	}
}

void check_shells_start(const char *rsh, const char *program, const struct clusterprobe_setup *setup,
			struct clusterprobe_member *members, struct check_shell *shells, size_t count)
{
	char with_ssh[96];

	if (!rsh) {
		snprintf(with_ssh, sizeof(with_ssh), "ssh -T -o BatchMode=yes -o ConnectTimeout=%.0f",
			 1 + 0.5e-9 * (double)setup->timeout_ns); /* it says more than we could */
		rsh = with_ssh;
	}
	for (size_t i = 0; i < count; i++) {
		int r = start_one(rsh, program, setup->secret, i, &members[i], &shells[i]);

		if (r < 0)
			snprintf(members[i].why, sizeof(members[i].why), "it cannot be started: %s", strerror(-r));
	}
	hear_greetings(members, shells, count, setup);
}

/* ----------------------------------------------------------------------------------------------------------------- end */

/* All at once: of those that do not end by themselves there may be many. One that hangs in the kernel is left. */
static void reap(struct check_shell *shells, size_t count)
{
	size_t running = count;

	for (unsigned naps = 0; running && naps <= 3 * END_NAPS; naps++) {
		running = 0;
		for (size_t i = 0; i < count; i++) {
			if (shells[i].process <= 0 || waitpid(shells[i].process, NULL, WNOHANG) != 0) {
				shells[i].process = 0;
				continue;
			}
			if (naps == END_NAPS || naps == 2 * END_NAPS)
				kill(shells[i].process, naps == END_NAPS ? SIGTERM : SIGKILL);
			running++;
		}
		if (running)
			poll(NULL, 0, NAP_MS);
	}
}

/* The last line that is not empty. */
static void add_message(struct clusterprobe_member *member, int messages)
{
	char text[1024] = "", *end, *line;
	off_t bytes = lseek(messages, 0, SEEK_END), from = bytes > 1023 ? bytes - 1023 : 0;
	size_t used = strlen(member->why);

	if (bytes <= 0 || sys_pread_whole(messages, text, (size_t)(bytes - from), (uint64_t)from) < 0)
		return;
	for (end = text + (bytes - from); end > text && strchr("\n\r .", end[-1]);)
		*--end = '\0';
	line = strrchr(text, '\n');
	term_clean(line ? line + 1 : text, text, sizeof(text));
	if (*text)
		snprintf(member->why + used, sizeof(member->why) - used, ": %.*s", MESSAGE_BYTES, text);
}

void check_shells_end(struct clusterprobe_member *members, struct check_shell *shells, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sys_close(&members[i].fd);
	reap(shells, count);
	for (size_t i = 0; i < count; i++) {
		if (members[i].why[0] && shells[i].messages >= 0)
			add_message(&members[i], shells[i].messages);
		sys_close(&shells[i].messages);
	}
}

/* -------------------------------------------------------------------------------------------------------------- worker */

/* A line of standard input, which may be a terminal by mistake. */
static int read_line(char *line, size_t room)
{
	size_t used = 0;
	char byte;

	while (used + 1 < room && read(STDIN_FILENO, &byte, 1) == 1) {
		if (byte == '\n') {
			line[used] = '\0';
			return 0;
		}
		line[used++] = byte;
	}
	return -EINVAL;
}

static int read_settings(void)
{
	char line[4096];
	size_t bytes = 0;

	while (bytes < START_BYTES && read_line(line, sizeof(line)) == 0) {
		if (!*line)
			return 0;
		if (!check_is_setting(line))
			return -EINVAL;
		bytes += strlen(line) + 1;
		*strchr(line, '=') = '\0';
		if (setenv(line, line + strlen(line) + 1, 1) < 0)
			return -errno;
	}
	return -EINVAL;
}

int check_shell_answer(struct control_secret *ret_secret, uint32_t *ret_rank, struct clusterprobe_pipe *ret_pipe,
		       struct diag *diag)
{
	const size_t key_bytes = CHECK_HEX_BYTES - 1;
	char line[CHECK_HEX_BYTES + 16] = "";
	uint64_t rank;
	int r = read_line(line, sizeof(line));

	if (r < 0 || line[strcspn(line, " ")] != ' ' || strcspn(line, " ") != key_bytes ||
	    parse_u64(line + key_bytes + 1, 0, CHECK_HOSTS_MAX, &rank) < 0 || read_settings() < 0) {
		diag_set(diag, 0, 0, "--worker is for `tributary check` itself, which starts it on each host");
		return -EINVAL;
	}
	memcpy(ret_secret->bytes, line, key_bytes);
	memset(line, 0, sizeof(line));
	ret_secret->count = key_bytes;
	*ret_rank = (uint32_t)rank;
	/* What a library prints must not get among the messages. */
	ret_pipe->in = dup(STDIN_FILENO);
	ret_pipe->out = dup(STDOUT_FILENO);
	if (ret_pipe->in < 0 || ret_pipe->out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return -errno;
	dprintf(ret_pipe->out, "%s", greeting);
	if (fcntl(ret_pipe->in, F_SETFL, O_NONBLOCK) < 0 || fcntl(ret_pipe->out, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}
