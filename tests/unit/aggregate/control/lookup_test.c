/* SPDX-License-Identifier: Apache-2.0 */
/* Names of aggregators, with a resolver that answers, and with one that never does (in namespaces of the test's own). */
#include "aggregate/control/client.h"
#include "aggregate/control/lookup.h"
#include "base/clock.h"
#include "support/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PORT = 29431, NOT_POSSIBLE = 77, RESOLVER_S = 30, AT_ONCE_S = 20 };

#define SENTENCE "aggregator aggregator.example.org:29431: it does not answer (its name is still being looked up)"

/* Until it has ended; as control_lookup_result. */
static int result(struct control_lookup *lookup, struct sockaddr_storage *address, const char **ret_why)
{
	uint64_t deadline_ns = runtime_deadline_ns(60000);
	socklen_t bytes;
	int r = 0;

	while (r == 0 && !runtime_past(deadline_ns)) {
		r = control_lookup_result(lookup, address, &bytes, ret_why);
		usleep(500);
	}
	return r;
}

static void addresses_and_names_are_found(void **state)
{
	static const struct {
		const char *name;
		int family;
	} cases[] = { { "127.0.0.1", AF_INET }, { "::1", AF_INET6 }, { "localhost", AF_UNSPEC } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct control_lookup *lookup;
		struct sockaddr_storage address;
		const char *why = "";

		assert_int_equal(control_lookup_start(cases[i].name, PORT, &lookup), 0);
		assert_int_equal(result(lookup, &address, &why), 1);
		if (cases[i].family != AF_UNSPEC)
			assert_int_equal(address.ss_family, cases[i].family);
		assert_int_equal(ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
								     : ((struct sockaddr_in *)&address)->sin_port),
				 PORT);
		control_lookup_end(lookup);
	}
}

static void what_is_no_name_says_so(void **state)
{
	struct control_lookup *lookup;
	struct sockaddr_storage address;
	const char *why = "";

	(void)state;
	assert_int_equal(control_lookup_start("no host has a blank", PORT, &lookup), 0);
	assert_int_equal(result(lookup, &address, &why), -EIO);
	assert_true(strlen(why) > 0);
	control_lookup_end(lookup);
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (file) {
		fputs(text, file);
		fclose(file);
	}
}

/* A network without a way out, and in it a name aggregator that takes questions and keeps silent. */
static int silent_resolver(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(53) };
	struct ifreq loopback = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	char path[] = "/tmp/tributary-resolver-XXXXXX", text[96], map[32];
	int fd, file;

	snprintf(map, sizeof(map), "0 %u 1", (unsigned)getuid());
	if (unshare(CLONE_NEWNET | CLONE_NEWNS)) {
		if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUSER))
			return -1;
		put("/proc/self/setgroups", "deny");
		put("/proc/self/uid_map", map);
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	file = mkstemp(path);
	if (fd < 0 || file < 0 || ioctl(fd, SIOCSIFFLAGS, &loopback) ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return -1;
	snprintf(text, sizeof(text), "nameaggregator 127.0.0.1\noptions timeout:%d attempts:1\n", RESOLVER_S);
	put(path, text);
	close(file);
	file = mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL);
	unlink(path);
	return file;
}

static int within_silence(void)
{
	static const struct control_secret secret = { .count = 32 };
	static struct control_answer answer;
	struct control_client_setup setup = { .address = "aggregator.example.org",
					      .port = PORT,
					      .secret = &secret,
					      .name = "test",
					      .timeout_ns = 200 * NS_PER_MS };
	struct control_client *client;
	uint64_t start_ns = clock_now_ns();
	enum control_event event;

	if (silent_resolver())
		return NOT_POSSIBLE;
	if (control_client_open(&setup, &client))
		return 1;
	do {
		usleep(1000);
		event = control_client_step(client, &answer);
	} while (event == CONTROL_EVENT_NONE);
	control_client_close(client);
	if (event != CONTROL_EVENT_LOST || strcmp(answer.sentence, SENTENCE) != 0) {
		fprintf(stderr, "%s\n", answer.sentence);
		return 2;
	}
	return clock_now_ns() - start_ns < AT_ONCE_S * NS_PER_S ? 0 : 3; /* the resolver itself gives up later */
}

static void a_resolver_that_is_silent_holds_nobody_up(void **state)
{
	int status = 0;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(within_silence());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_POSSIBLE) {
		print_message("skipped: no namespaces of network and mounts\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_and_names_are_found),
		cmocka_unit_test(what_is_no_name_says_so),
		cmocka_unit_test(a_resolver_that_is_silent_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
