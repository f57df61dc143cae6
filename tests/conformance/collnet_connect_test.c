/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How groups come to be, and how they do not: one head fails at each step of the way, in every manner, and all others must
 * come to the same end, in time. NCCL compares results inside a node only: a head that succeeds alone waits for ever.
 */
#include "collnet_crew.h"
#include "raw_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/parallel.h"

enum { HEADS = 4, KILLS = 6, KILLS_LONG = 100, KILL_SPREAD_MS = 150 };
/*
 * Where it has to pass, and where nobody may wait for it: then an end within half of it says that nobody did, on a machine
 * that is busy, too.
 */
enum { TIMEOUT_S = 3, TIMEOUT_MOST_S = 48, TIMEOUT_LONG_S = 60, SLACK_MS = 5000 };

static const struct collnet_shape few = {
	.name = "few", .operations = 20, .max_bytes = 50000, .window = 8, .type = -1
};

/* What a head says of its connect. */
struct outcome {
	int result;
	uint32_t took_ms;
};

struct misfit {
	char kind[32];
	unsigned who;
};

static struct misfit misfit_of(const char *words)
{
	struct misfit misfit = { .who = UINT32_MAX };

	sscanf(words, "%31[a-z]@%u", misfit.kind, &misfit.who);
	return misfit;
}

/* Takes a port and leaves the plugin no other. */
static void take_the_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[32];

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &bytes) < 0)
		_exit(3);
	snprintf(text, sizeof(text), "%u-%u", ntohs(address.sin_port), ntohs(address.sin_port));
	setenv("TRIBUTARY_PORTS", text, 1);
}

/* Another idea of the cluster than the others have, who know of none. */
static void take_a_cluster(void)
{
	char path[] = "/tmp/tributary-connect-test-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || dprintf(fd, "tributary-cluster 1\nswitch a\nhost somebody leaf=a\n") < 0)
		_exit(3);
	close(fd);
	setenv("TRIBUTARY_CLUSTER", path, 1);
}

/* In place of connect. Returns when the others have had their time. */
static int misbehave(struct collnet_member *member, const char *kind)
{
	uint8_t byte;

	if (!strcmp(kind, "dies"))
		raise(SIGKILL);
	if (!strcmp(kind, "closes"))
		(void)collnet_ops_close_listener(&member->ops, member->listener);
	(void)peer_read(member->control, &byte, 1);
	_exit(0);
}

static int head_role(int control, const char *argument)
{
	struct collnet_member member;
	struct misfit misfit;
	struct outcome outcome;
	unsigned index = 0;
	char words[COLLNET_WORDS_BYTES] = "";
	uint64_t start_ns;
	uint8_t byte;

	sscanf(argument, "%u %*u %*d %*x %63s", &index, words);
	misfit = misfit_of(words);
	if (misfit.who == index && !strcmp(misfit.kind, "noport"))
		take_the_port();
	if (misfit.who == index && !strcmp(misfit.kind, "cluster"))
		take_a_cluster();
	collnet_member_open(control, argument, &member);
	collnet_member_meet(&member);
	if (misfit.who == index && !strcmp(misfit.kind, "cluster"))
		unlink(getenv("TRIBUTARY_CLUSTER"));
	if (misfit.who == index && strcmp(misfit.kind, "cluster") && strcmp(misfit.kind, "noport") &&
	    strcmp(misfit.kind, "corrupt") && strcmp(misfit.kind, "late"))
		return misbehave(&member, misfit.kind);
	if (misfit.who == index && !strcmp(misfit.kind, "corrupt"))
		member.handles[0][40] ^= 0x10; /* in the secret, or in its own handle */
	if (misfit.who == index && !strcmp(misfit.kind, "late"))
		usleep(700 * 1000);
	start_ns = runtime_now_ns();
	outcome.result = collnet_member_connect(&member);
	outcome.took_ms = (uint32_t)((runtime_now_ns() - start_ns) / 1000000);
	if (peer_write(control, &outcome, sizeof(outcome)) < 0 || peer_read(control, &byte, 1) < 0)
		return 4;
	if (outcome.result == NCCL_SUCCESS && collnet_member_run(&member, &few, 90000) && strcmp(misfit.kind, "killed"))
		return 5;
	collnet_member_close(&member);
	return 0;
}

/* Of the heads that are started from now on. */
static void set_timeout(unsigned timeout_s)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", timeout_s);
	setenv("TRIBUTARY_TIMEOUT", text, 1);
}

/*
 * Reads the outcomes of all heads but one, which must be the same; gives it. -1: they are not, and the machine stood still
 * for a part of their time-out: nobody can promise one end for all then.
 */
static int common_outcome(struct collnet_crew *crew, unsigned but, unsigned timeout_s, unsigned most_ms,
			  uint64_t stalled_ns)
{
	struct outcome outcomes[HEADS] = { 0 };
	unsigned stalled_ms;
	int common = -1;
	bool same = true;

	for (unsigned i = 0; i < crew->count; i++)
		if (i != but)
			assert_int_equal(peer_read(crew->peers[i].control, &outcomes[i], sizeof(outcomes[i])), 0);
	stalled_ms = (unsigned)((runtime_stalled_ns() - stalled_ns) / 1000000);
	for (unsigned i = 0; i < crew->count; i++) {
		if (i == but)
			continue;
		if (common < 0)
			common = outcomes[i].result;
		same &= (common == NCCL_SUCCESS) == (outcomes[i].result == NCCL_SUCCESS);
		if (!same && stalled_ms < timeout_s * 1000 / 20)
			fail_msg("head %u says %d where another said %d", i, outcomes[i].result, common);
		if (outcomes[i].took_ms > most_ms + stalled_ms)
			fail_msg("head %u took %u ms, at most %u and %u of a stall are allowed", i, outcomes[i].took_ms,
				 most_ms, stalled_ms);
	}
	return same ? common : -1;
}

static void let_go(struct collnet_crew *crew, unsigned but)
{
	for (unsigned i = 0; i < crew->count; i++)
		if (i != but)
			assert_int_equal(peer_write(crew->peers[i].control, "", 1), 0);
}

/* The outcome of all others; most_ms: until it is there. */
static int try_misfit(const char *kind, unsigned who, unsigned timeout_s, unsigned most_ms)
{
	uint64_t seed = runtime_seed() + who * 31u + (unsigned char)kind[0], stalled_ns = runtime_stalled_ns();
	bool is_silent = !strcmp(kind, "absent") || !strcmp(kind, "dies") || !strcmp(kind, "closes");
	struct collnet_crew crew;
	char words[64];
	int common;

	set_timeout(timeout_s);
	snprintf(words, sizeof(words), "%s@%u", kind, who);
	collnet_crew_start("head", HEADS, 0, seed, words, &crew);
	collnet_crew_introduce(&crew, seed);
	common = common_outcome(&crew, is_silent ? who : HEADS, timeout_s, most_ms, stalled_ns);
	let_go(&crew, strcmp(kind, "dies") ? HEADS : who);
	for (unsigned i = 0; i < HEADS; i++)
		if (strcmp(kind, "dies") || i != who)
			assert_int_equal(peer_wait(&crew.peers[i], 100000), 0);
	collnet_crew_stop(&crew);
	assert_true(common >= 0);
	return common;
}

static void nobody_connects_without_a_head(const char *kind)
{
	for (unsigned who = 0; who < HEADS; who += runtime_long() ? 1 : HEADS - 1)
		assert_int_not_equal(try_misfit(kind, who, TIMEOUT_S, TIMEOUT_S * 1000 + SLACK_MS), NCCL_SUCCESS);
}

static void nobody_connects_without_a_head_that_is_absent(void **state)
{
	(void)state;
	nobody_connects_without_a_head("absent");
}

static void nobody_connects_without_a_head_that_dies(void **state)
{
	(void)state;
	nobody_connects_without_a_head("dies");
}

static void nobody_connects_without_a_head_that_closes(void **state)
{
	(void)state;
	nobody_connects_without_a_head("closes");
}

static void nobody_connects_with_a_corrupt_handle(void **state)
{
	(void)state;
	nobody_connects_without_a_head("corrupt");
}

/* It says so in its handle, and nobody waits at all. */
static void a_head_that_cannot_listen_fails_all_at_once(void **state)
{
	(void)state;
	assert_int_not_equal(try_misfit("noport", 1, TIMEOUT_LONG_S, TIMEOUT_LONG_S * 500), NCCL_SUCCESS);
}

static void heads_with_different_clusters_do_not_connect(void **state)
{
	(void)state;
	assert_int_not_equal(try_misfit("cluster", 0, TIMEOUT_LONG_S, TIMEOUT_LONG_S * 500), NCCL_SUCCESS);
	assert_int_not_equal(try_misfit("cluster", 3, TIMEOUT_LONG_S, TIMEOUT_LONG_S * 500), NCCL_SUCCESS);
}

static void a_late_head_is_waited_for(void **state)
{
	(void)state;
	assert_int_equal(try_misfit("late", 2, TIMEOUT_LONG_S, TIMEOUT_LONG_S * 500), NCCL_SUCCESS);
}

/* The outcome of those that are left, or -1 as above. */
static int kill_one(uint64_t *random, unsigned timeout_s)
{
	uint64_t seed = random_next(random) >> 8, stalled_ns = runtime_stalled_ns();
	unsigned who = (unsigned)random_below(random, HEADS);
	struct collnet_crew crew;
	int common, status;

	set_timeout(timeout_s);
	collnet_crew_start("head", HEADS, 0, seed, "killed@99", &crew);
	collnet_crew_introduce(&crew, seed);
	usleep((useconds_t)random_below(random, KILL_SPREAD_MS * 1000));
	kill(crew.peers[who].pid, SIGKILL);
	common = common_outcome(&crew, who, timeout_s, timeout_s * 1000 + SLACK_MS, stalled_ns);
	let_go(&crew, who);
	for (unsigned i = 0; i < HEADS; i++) {
		status = i != who ? peer_wait(&crew.peers[i], 100000) : 0;
		if (common >= 0)
			assert_int_equal(status, 0);
	}
	collnet_crew_stop(&crew);
	return common;
}

/* At any moment of connecting: those that are left agree, whichever way. */
static void killed_while_connecting(void **state)
{
	unsigned rounds = runtime_long() ? KILLS_LONG : KILLS, connected = 0;
	uint64_t random = runtime_seed();

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		unsigned timeout_s = TIMEOUT_S;
		int common = -1;

		for (; common < 0 && timeout_s <= TIMEOUT_MOST_S; timeout_s *= 2)
			common = kill_one(&random, timeout_s);
		assert_true(common >= 0);
		connected += common == NCCL_SUCCESS;
	}
	print_message("%u of %u groups stood before the kill\n", connected, rounds);
}

/* Who does not know the secret, or speaks nonsense, changes nothing. */
static void strangers_on_the_listeners_do_no_harm(void **state)
{
	enum { STRANGERS = 6 };
	int sockets[HEADS][STRANGERS];
	uint64_t stalled_ns = runtime_stalled_ns();
	struct collnet_crew crew;
	uint8_t nonsense[512];

	(void)state;
	set_timeout(TIMEOUT_LONG_S);
	for (unsigned i = 0; i < sizeof(nonsense); i++)
		nonsense[i] = (uint8_t)(i * 37 + 11);
	collnet_crew_start("head", HEADS, 0, runtime_seed(), "none@99", &crew);
	for (unsigned i = 0; i < HEADS; i++) {
		struct tcp_wire_handle handle;
		struct sockaddr_in address;

		assert_int_equal(peer_read(crew.peers[i].control, crew.handles[i], NCCL_HANDLE_BYTES), 0);
		address = raw_address(crew.handles[i], &handle);
		for (unsigned k = 0; k < STRANGERS; k++) {
			sockets[i][k] = raw_connect(&address, true);
			assert_true(sockets[i][k] >= 0);
			/* Silent, or a part of something, or too much of it. */
			raw_put(sockets[i][k], nonsense, k * 80);
		}
	}
	for (unsigned i = 0; i < HEADS; i++)
		for (unsigned k = 0; k < HEADS; k++)
			assert_int_equal(
				peer_write(crew.peers[i].control, crew.handles[(k + 1) % HEADS], NCCL_HANDLE_BYTES), 0);
	assert_int_equal(common_outcome(&crew, HEADS, TIMEOUT_LONG_S, TIMEOUT_LONG_S * 500, stalled_ns), NCCL_SUCCESS);
	let_go(&crew, HEADS);
	assert_int_equal(collnet_crew_wait(&crew, 100000), 0);
	for (unsigned i = 0; i < HEADS; i++)
		for (unsigned k = 0; k < STRANGERS; k++)
			close(sockets[i][k]);
}

static int begin(void **state)
{
	(void)state;
	runtime_watch_stalls();
	return 0;
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "head", head_role }, { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head_that_cannot_listen_fails_all_at_once),
		cmocka_unit_test(heads_with_different_clusters_do_not_connect),
		cmocka_unit_test(a_late_head_is_waited_for),
		cmocka_unit_test(strangers_on_the_listeners_do_no_harm),
		cmocka_unit_test(nobody_connects_without_a_head_that_is_absent),
		cmocka_unit_test(nobody_connects_without_a_head_that_dies),
		cmocka_unit_test(nobody_connects_without_a_head_that_closes),
		cmocka_unit_test(nobody_connects_with_a_corrupt_handle),
		cmocka_unit_test(killed_while_connecting),
	};

	peer_main(argc, argv, roles, 110);
	runtime_start("collnet_connect_test", runtime_long() ? 1100 : 115);
	runtime_set_streams(0);
	return parallel_run_group_tests(tests, begin, NULL);
}
