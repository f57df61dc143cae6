/* SPDX-License-Identifier: Apache-2.0 */
#include "processes.h"

#include "aggregate/control/client.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "support/port.h"
#include "support/runtime.h"
#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KINDS = 24, OPEN = 16, ELEMENTS = 400000, SECRET_BYTES = 32, END_MS = 120000 };
static const char secret_text[SECRET_BYTES + 1] = "0123456789abcdef0123456789abcdef";

struct script {
	unsigned rank, count, daemon_count, leaves;
	uint16_t ports[PROCESSES_DAEMONS_MOST];
	double timeout_s;
	char secret[64];
	bool has_expected;
	uint32_t expected[KINDS]; /* checksums of results */
};

/* ------------------------------------------------------------------------------------------------------- a member */

struct life {
	struct script script;
	int control;
	struct params params;
	struct transport *transport;
	struct aggregate_engine *engine;
	struct aggregate_listener *listener;
	struct aggregate_group *group;
	struct cluster cluster;
	struct cluster_host hosts[PROCESSES_MEMBERS_MOST];
	struct cluster_switch switches[PROCESSES_MEMBERS_MOST];
	struct cluster_aggregator aggregators[PROCESSES_DAEMONS_MOST];
	char names[PROCESSES_MEMBERS_MOST][16];
	uint32_t *inputs; /* read from different places */
	bool stop;
};

struct flight {
	struct aggregate_request *request;
	uint64_t number;
	void *recv;
	uint32_t word, words;
};

/* Odd ones say whether the last has come: one word each. Even ones are of KINDS kinds. */
struct kind {
	enum reduce_type type;
	size_t count;
	bool in_place;
};
static struct kind kind_of(uint64_t number)
{
	static const enum reduce_type types[] = { REDUCE_FLOAT32, REDUCE_BFLOAT16, REDUCE_INT32 };
	uint64_t random = 977 + number / 2 % KINDS;
	struct kind kind;
	size_t bytes;

	kind.type = types[random_below(&random, 3)];
	kind.in_place = random_below(&random, 3) == 0;
	bytes = random_below(&random, 6) ? 5000 + random_below(&random, 120000)
					 : 100000 + random_below(&random, ELEMENTS * 4 - 100000);
	kind.count = bytes / reduce_type_bytes(kind.type);
	return kind;
}

static int flight_begin(struct life *life, struct flight *flight, uint64_t number)
{
	struct kind kind = kind_of(number);
	const void *send = life->inputs + number / 2 % KINDS * 64;
	int r;

	flight->number = number;
	if (number & 1) {
		flight->word = life->script.rank == 0 && life->stop;
		return aggregate_reduce_all(life->group, &flight->word, &flight->words, 1, REDUCE_UINT32, REDUCE_SUM,
					    &flight->request);
	}
	flight->recv = malloc(kind.count * reduce_type_bytes(kind.type));
	if (!flight->recv)
		return -ENOMEM;
	if (kind.in_place)
		send = memcpy(flight->recv, send, kind.count * reduce_type_bytes(kind.type));
	r = aggregate_reduce_all(life->group, send, flight->recv, kind.count, kind.type, REDUCE_SUM, &flight->request);
	return r;
}

/* False: it is not what others have, or what it was before. */
static bool flight_end(struct life *life, struct flight *flight, uint64_t *last)
{
	struct kind kind = kind_of(flight->number);
	size_t which = flight->number / 2 % KINDS;
	uint32_t checksum;

	if (flight->number & 1) {
		if (flight->words &&
		    *last == UINT64_MAX) /* everybody has posted so many more, and nobody posts others */
			*last = flight->number + OPEN;
		return flight->words <= 1;
	}
	checksum = crc_ieee32(flight->recv, kind.count * reduce_type_bytes(kind.type));
	free(flight->recv);
	flight->recv = NULL;
	if (!life->script.has_expected && flight->number / 2 < KINDS)
		life->script.expected[which] = checksum;
	return checksum == life->script.expected[which];
}

static int life_goes_on(struct life *life)
{
	struct flight flights[OPEN] = { 0 };
	uint64_t posted = 0, done = 0, last = UINT64_MAX;

	while (done < last) {
		struct flight *oldest = &flights[done % OPEN];
		bool ended = false;
		int r = 0;

		if (life->script.rank == 0 && !life->stop && posted >= 2 * KINDS)
			life->stop = peer_readable(life->control);
		if (posted < last && posted - done < OPEN) {
			r = flight_begin(life, &flights[posted % OPEN], posted);
			if (r == 0 && !flights[posted % OPEN].request)
				return PROCESSES_BROKEN;
			posted++;
		}
		if (r == 0 && posted > done)
			r = aggregate_test(oldest->request, &ended, NULL);
		if (r < 0)
			return r == -EREMOTEIO ? PROCESSES_SAW_ERROR : PROCESSES_BROKEN;
		if (ended && !flight_end(life, oldest, &last))
			return PROCESSES_WRONG;
		done += ended;
		if (!ended && posted - done == OPEN)
			usleep(100);
	}
	return PROCESSES_ALL_DONE;
}

static void life_cluster(struct life *life)
{
	const struct script *script = &life->script;

	for (unsigned i = 0; i < script->count; i++) {
		snprintf(life->names[i], sizeof(life->names[i]), "host%u", i);
		life->hosts[i] = (struct cluster_host){ .name = life->names[i],
							.leaf = (int)(i % script->leaves),
							.rate_Bps = GROUP_HARNESS_SLOW_HOST_BPS };
	}
	for (unsigned i = 0; i < script->leaves; i++)
		life->switches[i] = (struct cluster_switch){ .name = "leaf", .parent = CLUSTER_NONE };
	for (unsigned i = 0; i < script->daemon_count; i++)
		life->aggregators[i] = (struct cluster_aggregator){ .address = "127.0.0.1",
								    .port = script->ports[i],
								    .leaf = (int)(i % script->leaves),
								    .rate_Bps = UINT64_C(1250000000) };
	life->cluster = (struct cluster){ .switch_count = script->leaves,
					  .host_count = script->count,
					  .switches = life->switches,
					  .hosts = life->hosts,
					  .aggregators = life->aggregators,
					  .aggregator_count = script->daemon_count,
					  .fingerprint = 4711 };
}

static int life_meet(struct life *life)
{
	struct aggregate_setup setup = { .params = &life->params,
					 .ops = &transport_tcp,
					 .cluster = &life->cluster,
					 .host_name = life->names[life->script.rank] };
	uint8_t all[PROCESSES_MEMBERS_MOST][AGGREGATE_HANDLE_BYTES], handle[AGGREGATE_HANDLE_BYTES], aggregators;
	const uint8_t *handles[PROCESSES_MEMBERS_MOST];
	char reason[AGGREGATE_REASON_BYTES];
	struct aggregate_facts facts;
	int r = transport_tcp.open(&life->params, &life->transport);

	setup.transport = life->transport;
	if (r == 0)
		r = aggregate_open(&setup, &life->engine);
	if (r == 0)
		r = aggregate_listen(life->engine, 0, handle, &life->listener);
	if (r == 0)
		r = peer_write(life->control, handle, sizeof(handle));
	if (r == 0)
		r = peer_read(life->control, all, life->script.count * AGGREGATE_HANDLE_BYTES);
	if (r < 0)
		return PROCESSES_BROKEN;
	for (size_t i = 0; i < life->script.count; i++)
		handles[i] = all[i];
	if (aggregate_connect(life->listener, life->script.count, handles, &life->group, reason) < 0)
		return PROCESSES_NO_GROUP;
	aggregate_facts(life->group, &facts);
	aggregators = (uint8_t)facts.aggregators;
	peer_write(life->control, &aggregators, 1);
	return 0;
}

int processes_member(int control, const char *argument)
{
	struct life *life = calloc(1, sizeof(*life));
	uint64_t random;
	char order;
	int r;

	(void)argument;
	if (!life || peer_read(control, &life->script, sizeof(life->script)) < 0)
		return PROCESSES_BROKEN;
	life->control = control;
	group_harness_params(&life->params);
	life->params.timeout_ns = (uint64_t)(life->script.timeout_s * (double)NS_PER_S);
	life->params.aggregate_flat_bytes = 4096;
	life->params.aggregate_segment_bytes = 16 << 10; /* and so nothing is split */
	snprintf(life->params.secret, sizeof(life->params.secret), "%s", life->script.secret);
	life_cluster(life);
	life->inputs = malloc((ELEMENTS + KINDS * 64) * sizeof(*life->inputs));
	random = 31 + life->script.rank;
	for (size_t i = 0; life->inputs && i < ELEMENTS + KINDS * 64; i++) { /* two bf16 or one float, not too large */
		uint32_t bits = (uint32_t)random_next(&random);

		life->inputs[i] = (bits & 0x807f807f) | 0x3f003f00 | (bits >> 3 & 0x00800080);
	}
	r = life->inputs ? life_meet(life) : PROCESSES_BROKEN;
	if (r == 0)
		r = life_goes_on(life);
	if (r == PROCESSES_ALL_DONE && peer_write(control, life->script.expected, sizeof(life->script.expected)) < 0)
		r = PROCESSES_BROKEN;
	/* The others may be in the last step of an operation that is done here: they need us until they are through. */
	if (r == PROCESSES_ALL_DONE)
		(void)peer_read(control, &order, 1);
	_exit(r);
}

/* ------------------------------------------------------------------------------------------------------- tributaryd */

static char folder[] = "/tmp/tributary-kills-XXXXXX", secret_path[64], program_path[600];
struct processes_daemon processes_daemons[PROCESSES_DAEMONS_MOST];
unsigned processes_daemon_timeout_s = PROCESSES_TIMEOUT_S;
static uint32_t expected[2][PROCESSES_MEMBERS_MOST + 1][KINDS];
static bool has_expected[2][PROCESSES_MEMBERS_MOST + 1];

int processes_make(void **state)
{
	const char *build = runtime_setting("BUILD");
	int fd;

	(void)state;
	snprintf(program_path, sizeof(program_path), "%s/tributaryd", build ? build : "build");
	if (!mkdtemp(folder))
		return -1;
	snprintf(secret_path, sizeof(secret_path), "%s/secret", folder);
	fd = open(secret_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, secret_text, SECRET_BYTES) != SECRET_BYTES)
		return -1;
	close(fd);
	return 0;
}

void processes_daemon_kill(struct processes_daemon *daemon)
{
	if (!daemon->pid)
		return;
	kill(daemon->pid, SIGKILL);
	waitpid(daemon->pid, NULL, 0);
	close(daemon->err);
	daemon->pid = 0;
}

int processes_remove(void **state)
{
	(void)state;
	for (size_t i = 0; i < PROCESSES_DAEMONS_MOST; i++)
		processes_daemon_kill(&processes_daemons[i]);
	unlink(secret_path);
	return rmdir(folder);
}

void processes_skip_without_program(void)
{
	if (access(program_path, X_OK) == 0)
		return;
	print_message("skipped: tributaryd is not built, or TRIBUTARY_BUILD does not say where\n");
	skip();
}

/* True: it says that it listens. */
static bool daemon_start(struct processes_daemon *daemon)
{
	char listen[32], text[4096] = "", timeout[16], listen_option[] = "--listen", secret_option[] = "--secret";
	char *argv[] = { program_path, listen_option, listen, secret_option, secret_path, NULL };
	uint64_t deadline_ns = runtime_deadline_ns(90000);
	size_t length = 0;
	int pipes[2];

	if (!daemon->port)
		daemon->port = port_free();
	snprintf(listen, sizeof(listen), "127.0.0.1:%u", daemon->port);
	snprintf(timeout, sizeof(timeout), "%u", processes_daemon_timeout_s);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	daemon->pid = fork();
	if (daemon->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDERR_FILENO);
		unsetenv("JOURNAL_STREAM");
		unsetenv("NOTIFY_SOCKET");
		setenv("TRIBUTARY_TIMEOUT", timeout, 1);
		execv(program_path, argv);
		_exit(127);
	}
	close(pipes[1]);
	daemon->err = pipes[0];
	while (!strstr(text, "listens on") && length < sizeof(text) - 1 && !runtime_past(deadline_ns)) {
		struct pollfd fd = { .fd = daemon->err, .events = POLLIN };
		ssize_t got = poll(&fd, 1, 100) > 0 ? read(daemon->err, text + length, sizeof(text) - 1 - length) : 0;

		if (got == 0 && fd.revents)
			break;
		if (got > 0)
			text[length += (size_t)got] = '\0';
	}
	fcntl(daemon->err, F_SETFL, O_NONBLOCK);
	if (strstr(text, "listens on"))
		return true;
	processes_daemon_kill(daemon);
	if (!strstr(text, "already in use"))
		fail_msg("tributaryd does not start; it said: %s", text);
	daemon->port = 0; /* somebody else's by now */
	return false;
}

void processes_daemons_ready(size_t count)
{
	char text[4096];

	for (size_t i = 0; i < count; i++) {
		for (unsigned tries = 0; !processes_daemons[i].pid && tries < 5; tries++)
			(void)daemon_start(&processes_daemons[i]);
		assert_true(processes_daemons[i].pid > 0);
		while (read(processes_daemons[i].err, text, sizeof(text)) > 0)
			; /* it must not wait for a reader */
	}
}

uint64_t processes_daemon_segments(const struct processes_daemon *daemon)
{
	struct control_answer *answer = calloc(1, sizeof(*answer));
	struct control_secret secret = { .count = SECRET_BYTES };
	struct control_client_setup setup = { .address = "127.0.0.1",
					      .port = daemon->port,
					      .secret = &secret,
					      .name = "asker",
					      .timeout_ns = PROCESSES_TIMEOUT_S * NS_PER_S };
	struct control_client *client = NULL;
	uint64_t segments, deadline_ns = runtime_deadline_ns(END_MS);

	assert_non_null(answer);
	memcpy(secret.bytes, secret_text, SECRET_BYTES);
	assert_int_equal(control_client_open(&setup, &client), 0);
	assert_int_equal(control_client_ask(client), 0);
	while (control_client_step(client, answer) != CONTROL_EVENT_STATE && !runtime_past(deadline_ns))
		runtime_nap();
	assert_false(runtime_past(deadline_ns));
	segments = answer->state.segments;
	control_client_close(client);
	free(answer);
	return segments;
}

/* ---------------------------------------------------------------------------------------------------------- a group */

static uint32_t *expected_of(const struct processes_scene *scene)
{
	return expected[scene->leaves - 1][scene->members];
}

void processes_open(struct processes_scene *scene, double timeout_s)
{
	uint8_t handles[PROCESSES_MEMBERS_MOST][AGGREGATE_HANDLE_BYTES], aggregators;

	for (size_t i = 0; i < scene->members; i++) {
		struct script script = { .rank = (unsigned)i,
					 .count = (unsigned)scene->members,
					 .daemon_count = (unsigned)scene->daemons,
					 .leaves = (unsigned)scene->leaves,
					 .timeout_s = timeout_s,
					 .has_expected = has_expected[scene->leaves - 1][scene->members] };

		for (size_t k = 0; k < scene->daemons; k++)
			script.ports[k] = processes_daemons[k].port;
		if (scene->daemons)
			memcpy(script.secret, secret_path, sizeof(script.secret));
		memcpy(script.expected, expected_of(scene), sizeof(script.expected));
		assert_int_equal(peer_start("member", "", &scene->peers[i]), 0);
		assert_int_equal(peer_write(scene->peers[i].control, &script, sizeof(script)), 0);
	}
	for (size_t i = 0; i < scene->members; i++)
		assert_int_equal(peer_read(scene->peers[i].control, handles[i], sizeof(handles[i])), 0);
	for (size_t i = 0; i < scene->members; i++)
		assert_int_equal(peer_write(scene->peers[i].control, handles, scene->members * sizeof(handles[0])), 0);
	for (size_t i = 0; i < scene->members; i++) {
		if (peer_read(scene->peers[i].control, &aggregators, 1) < 0)
			fail_msg("seed %" PRIx64 ": member %zu has no group", scene->seed, i);
		assert_true(i == 0 || aggregators == scene->aggregators);
		scene->aggregators = aggregators;
	}
}

void processes_drop(struct processes_scene *scene)
{
	for (size_t i = 0; i < scene->members; i++)
		peer_stop(&scene->peers[i]);
}

/* Longer than peer_read does: an aggregator may be silent, and the machine busy. */
static bool has_ended(const struct peer *peer)
{
	uint64_t deadline_ns = runtime_deadline_ns(END_MS);

	while (!peer_readable(peer->control) && !runtime_past(deadline_ns))
		usleep(1000);
	return !runtime_past(deadline_ns);
}

int processes_end(struct processes_scene *scene)
{
	uint32_t got[KINDS];
	int wrong = 0;

	assert_int_equal(peer_write(scene->peers[0].control, "q", 1), 0);
	for (size_t i = 0; i < scene->members && !wrong; i++) {
		if (!has_ended(&scene->peers[i]) || peer_read(scene->peers[i].control, got, sizeof(got)) < 0) {
			wrong = peer_wait(&scene->peers[i], 1);
			break;
		}
		if (!has_expected[scene->leaves - 1][scene->members] && i == 0)
			memcpy(expected_of(scene), got, sizeof(got));
		if (memcmp(expected_of(scene), got, sizeof(got)) != 0)
			wrong = PROCESSES_WRONG;
	}
	for (size_t i = 0; i < scene->members && !wrong; i++)
		peer_write(scene->peers[i].control, "e", 1);
	processes_drop(scene);
	return wrong;
}

void processes_expect(size_t members, size_t leaves)
{
	struct processes_scene scene = { .members = members, .leaves = leaves };

	if (has_expected[leaves - 1][members])
		return;
	processes_open(&scene, PROCESSES_TIMEOUT_S);
	assert_int_equal(processes_end(&scene), 0);
	has_expected[leaves - 1][members] = true;
}
