/*
 * Shared memory between two processes: every shape of traffic, asleep and awake, with one copy and with two; peers that
 * vanish in every state and every way; peers that are slow or silent and are left alone; strangers at the listener.
 */
#include "base/params.h"
#include "base/sys.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/sleeper.h"
#include "support/traffic.h"
#include "support/victim.h"
#include "transport/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PEER_MS = 150000,
	NEWS_MS = 60000, /* of the end of a process: for a hang alone */
	ROUNDS = 20,     /* of each way, with TRIBUTARY_TEST_LONG; else a few, 20 of each state in all */
	ROUNDS_FEW = 5,
	STOPPED_ROUNDS = 2, /* each takes the time-out; else one of each state */
};

static struct params params;

/* That of a peer that is stopped. One that is merely slow is waited for, so it may be short. */
static unsigned timeout_ms(void)
{
	return runtime_long() ? 1000 : 400;
}

static void set_params(void)
{
	params_defaults(&params);
	params.timeout_ns = timeout_ms() * 1000000ULL;
}

/* ---- traffic ---- */

static int connection_open(struct transport *transport, int control, bool sends,
			   struct transport_connection **ret_connection, struct transport_listener **ret_listener)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	int r;

	if (sends) {
		r = peer_read(control, handle, sizeof(handle));
		return r < 0 ? r : link_connect(&transport_shm, transport, 0, handle, ret_connection);
	}
	r = transport_shm.listen(transport, 0, handle, ret_listener);
	if (r == 0)
		r = peer_write(control, handle, sizeof(handle));
	return r < 0 ? r : link_accept(&transport_shm, *ret_listener, ret_connection);
}

static int one_shape(struct transport *transport, int control, const struct traffic_shape *shape, bool sends,
		     bool sleeps, uint64_t seed)
{
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	struct traffic_end *end = calloc(1, sizeof(*end));
	struct sleeper sleeper = { .epoll_fd = -1 };
	struct traffic_plan plan = { 0 };
	char token = 'x';
	int r = end ? connection_open(transport, control, sends, &connection, &listener) : -ENOMEM;

	if (r == 0)
		r = traffic_plan_init(shape, seed, TRANSPORT_MAX_RECVS, &plan);
	if (r == 0)
		traffic_end_init(end, &transport_shm, connection, &plan, sends);
	if (r == 0 && sleeps) {
		r = sleeper_open(&sleeper, &transport_shm);
		sleeper.alone = false;
		if (r == 0)
			r = sleeper_add(&sleeper, end);
		if (r == 0)
			r = sleeper_run(&sleeper);
	} else if (r == 0) {
		r = traffic_run(end, PEER_MS / 2);
	}
	if (r == 0)
		r = peer_write(control, &token, 1);
	if (r == 0)
		r = peer_read(control, &token, 1);
	transport_shm.close_connection(connection);
	transport_shm.close_listener(listener);
	sleeper_close(&sleeper);
	traffic_plan_fini(&plan);
	free(end);
	return r;
}

static int every_shape(int control, bool sends, bool sleeps, uint64_t seed)
{
	struct transport *transport;
	int r = transport_shm.open(&params, &transport);

	if (r < 0)
		return r;
	for (const struct traffic_shape *shape = traffic_shapes; shape->name && r == 0; shape++)
		r = one_shape(transport, control, shape, sends, sleeps, seed);
	transport_shm.close(transport);
	return r;
}

static int traffic_role(int control, const char *argument)
{
	unsigned sends, sleeps, pulls;
	uint64_t seed;

	if (sscanf(argument, "%u %u %u %" SCNx64, &sends, &sleeps, &pulls, &seed) != 4)
		return 2;
	set_params();
	shm_set_pull(pulls);
	return every_shape(control, sends, sleeps, seed) < 0;
}

static void two_processes_exchange_every_shape(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 12; variant++) {
		bool sends = variant & 1, pulls = variant & 2;
		bool sleeps = variant / 4 > 0, peer_sleeps = variant / 4 > 1;
		struct peer peer;
		char argument[64];
		int r;

		snprintf(argument, sizeof(argument), "%d %d %d %" PRIx64, !sends, peer_sleeps, pulls, runtime_seed());
		assert_int_equal(peer_start("traffic", argument, &peer), 0);
		shm_set_pull(pulls);
		r = every_shape(peer.control, sends, sleeps, runtime_seed());
		shm_set_pull(true);
		if (r < 0)
			peer_stop(&peer);
		assert_int_equal(r, 0);
		assert_int_equal(peer_wait(&peer, PEER_MS), 0);
	}
}

/* ---- peers that vanish ---- */

struct script {
	unsigned state, way, pulls;
	uint64_t seed;
};

static bool victim_sends(const struct script *script)
{
	return script->state == VICTIM_SENDING || script->state == VICTIM_CLOSING ||
	       (script->state != VICTIM_LISTENING && script->state != VICTIM_RECEIVING && (script->seed & 1));
}

static int victim_role(int control, const char *argument)
{
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	struct traffic_end *end = calloc(1, sizeof(*end));
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport *transport;
	struct traffic_plan plan;
	struct script script;
	int r;

	if (!end || sscanf(argument, "%u %u %u %" SCNx64, &script.state, &script.way, &script.pulls, &script.seed) != 4)
		return 2;
	set_params();
	shm_set_pull(script.pulls);
	r = transport_shm.open(&params, &transport);
	if (r == 0 && script.state == VICTIM_LISTENING) {
		r = transport_shm.listen(transport, 0, handle, &listener);
		if (r == 0)
			r = peer_write(control, handle, sizeof(handle));
	} else if (r == 0) {
		r = connection_open(transport, control, victim_sends(&script), &connection, &listener);
	}
	if (r == 0)
		r = traffic_plan_init(&victim_shape, script.seed, TRANSPORT_MAX_RECVS, &plan);
	if (r < 0)
		return 2;
	traffic_end_init(end, &transport_shm, connection, &plan, victim_sends(&script));
	victim_live(script.state, script.way, control, end);
}

/* The survivor goes on, awake or asleep, until it has its error. */
static int until_error(struct traffic_end *end, int epoll_fd, unsigned milliseconds, int look_ms)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);
	enum transport_next next = TRANSPORT_NEXT_EVENT;
	struct epoll_event event;
	int r = 0;

	while (r == 0 && !runtime_past(deadline_ns)) {
		unsigned completed = end->completed;

		r = traffic_step_until_error(end);
		if (r < 0 || epoll_fd < 0 || completed != end->completed)
			continue;
		/* An event tells of one that died; a look now and then of one that was stopped, as the transport asks. */
		epoll_wait(epoll_fd, &event, 1, next == TRANSPORT_NEXT_EVENT ? look_ms : 0);
		r = transport_shm.progress(end->connection, &next);
	}
	return r;
}

static void vanish_once(const struct script *script, bool sleeps)
{
	unsigned patience_ms = script->way == VICTIM_STOP ? timeout_ms() * 2 + NEWS_MS : NEWS_MS;
	struct traffic_end *end = calloc(1, sizeof(*end));
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	int r, epoll_fd = sleeps ? epoll_create1(EPOLL_CLOEXEC) : -1;
	struct transport *transport;
	struct traffic_plan plan;
	struct random random;
	uint64_t began_ns;
	struct peer peer;
	char argument[64];
	pid_t holder = 0;

	assert_non_null(end);
	random_init(&random, script->seed);
	snprintf(argument, sizeof(argument), "%u %u %u %" PRIx64, script->state, script->way, script->pulls,
		 script->seed);
	assert_int_equal(peer_start("victim", argument, &peer), 0);
	assert_int_equal(transport_shm.open(&params, &transport), 0);
	assert_int_equal(connection_open(transport, peer.control, !victim_sends(script), &connection, &listener), 0);
	assert_int_equal(traffic_plan_init(&victim_shape, script->seed, TRANSPORT_MAX_RECVS, &plan), 0);
	traffic_end_init(end, &transport_shm, connection, &plan, !victim_sends(script));
	if (sleeps)
		assert_int_equal(transport_shm.watch(connection, epoll_fd, 1), 0);
	assert_int_equal(peer_read(peer.control, &holder, sizeof(holder)), 0);
	if (script->state == VICTIM_TRANSFERRING) {
		enum transport_next next;

		for (uint64_t i = random_below(&random, 200); i > 0; i--) {
			assert_true(traffic_step(end) >= 0);
			if (sleeps)
				assert_int_equal(transport_shm.progress(connection, &next), 0);
		}
	}
	began_ns = runtime_now_ns();
	victim_strike(script->way, &peer);
	r = until_error(end, epoll_fd, patience_ms, (int)(script->way == VICTIM_STOP ? timeout_ms() / 4 : patience_ms));
	if (r != -EREMOTEIO)
		fail_msg("%s while %s: the %s survivor has %d after %" PRIu64 " ms", victim_way_names[script->way],
			 victim_state_names[script->state], sleeps ? "sleeping" : "polling", r,
			 (runtime_now_ns() - began_ns) / 1000000);
	/* Not before it is due, either. */
	if (script->way == VICTIM_STOP && script->state != VICTIM_CLOSING)
		assert_true(runtime_now_ns() - began_ns > timeout_ms() * 900000ULL);
	peer_stop(&peer);
	if (holder > 0)
		kill(holder, SIGKILL);
	transport_shm.close_connection(connection);
	transport_shm.close_listener(listener);
	transport_shm.close(transport);
	traffic_end_fini(end);
	traffic_plan_fini(&plan);
	if (epoll_fd >= 0)
		close(epoll_fd);
	free(end);
}

static void peers_that_vanish_are_noticed(void **state)
{
	const unsigned rounds = runtime_long() ? ROUNDS : ROUNDS_FEW, stopped = runtime_long() ? STOPPED_ROUNDS : 1;
	unsigned fds = runtime_fd_count();
	struct random random;

	(void)state;
	random_init(&random, runtime_seed() ^ 0x7a15);
	for (unsigned at = 0; at < VICTIM_STATE_COUNT; at++)
		for (unsigned way = 0; way < VICTIM_WAY_COUNT && at != VICTIM_CONNECTING; way++) /* it stands at once */
			for (unsigned i = 0; i < (way == VICTIM_STOP ? stopped : rounds); i++) {
				struct script script = {
					.state = at, .way = way, .pulls = i / 2 % 2, .seed = random_next(&random)
				};

				vanish_once(&script, (at + i) % 2);
			}
	assert_int_equal(runtime_fd_count(), fds);
}

/* ---- peers that are left alone ---- */

/*
 * It starts late, by three time-outs, and is stopped for half of one amid the traffic. False: it was given up, and the
 * machine had made nearly the whole time-out of a stop.
 */
static bool slow_peer_is_waited_for(unsigned stop_ms)
{
	struct traffic_end *end = calloc(1, sizeof(*end));
	struct transport_connection *connection = NULL;
	struct transport_listener *listener = NULL;
	const struct script script = { .state = VICTIM_TRANSFERRING, .pulls = 1, .seed = 1 };
	struct transport *transport;
	struct traffic_plan plan;
	struct peer peer;
	uint64_t stopped_ns, longest_ns = 0;
	char argument[64];
	pid_t holder;
	int r = 0;

	assert_non_null(end);
	params.timeout_ns = stop_ms * 1000000ULL;
	snprintf(argument, sizeof(argument), "%u %u %u %" PRIx64, script.state, script.way, script.pulls, script.seed);
	assert_int_equal(peer_start("victim", argument, &peer), 0);
	assert_int_equal(transport_shm.open(&params, &transport), 0);
	assert_int_equal(connection_open(transport, peer.control, false, &connection, &listener), 0);
	assert_int_equal(traffic_plan_init(&victim_shape, script.seed, TRANSPORT_MAX_RECVS, &plan), 0);
	traffic_end_init(end, &transport_shm, connection, &plan, false);
	assert_int_equal(peer_read(peer.control, &holder, sizeof(holder)), 0);
	for (unsigned round = 0; round < 3 && r >= 0; round++) {
		stopped_ns = runtime_now_ns();
		kill(peer.pid, SIGSTOP);
		while (runtime_now_ns() < stopped_ns + params.timeout_ns / 2 && r >= 0) {
			if (end->completed < end->total)
				r = traffic_step(end);
			usleep(200);
		}
		kill(peer.pid, SIGCONT);
		stopped_ns = runtime_now_ns() - stopped_ns;
		longest_ns = stopped_ns > longest_ns ? stopped_ns : longest_ns;
		/* A little of the traffic, so that there is more the next time. */
		for (unsigned i = 0; i < 8 && r >= 0; i++) {
			if (end->completed < end->total)
				r = traffic_step(end);
			usleep(timeout_ms() * 30);
		}
	}
	if (r >= 0) {
		usleep(3 * stop_ms * 1000);
		r = traffic_run(end, PEER_MS / 4);
	}
	peer_stop(&peer);
	transport_shm.close_connection(connection);
	transport_shm.close_listener(listener);
	transport_shm.close(transport);
	traffic_end_fini(end);
	traffic_plan_fini(&plan);
	free(end);
	set_params();
	if (r < 0 && longest_ns < stop_ms * UINT64_C(900000))
		fail_msg("%d, and it was stopped for %u ms at most", r, (unsigned)(longest_ns / 1000000));
	return r >= 0;
}

static void slow_peers_are_waited_for(void **state)
{
	unsigned stop_ms = timeout_ms();

	(void)state;
	for (; !slow_peer_is_waited_for(stop_ms); stop_ms *= 2)
		assert_true(stop_ms < 32000);
}

/* ---- strangers ---- */

static int dial_raw(const uint8_t handle[static TRANSPORT_HANDLE_BYTES])
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct shm_wire_handle wire;
	size_t count;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(shm_wire_get_handle(handle, &wire), 0);
	count = (size_t)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "tributary-");
	for (unsigned i = 0; i < sizeof(wire.name); i++)
		count += (size_t)snprintf(address.sun_path + 1 + count, sizeof(address.sun_path) - 1 - count, "%02x",
					  wire.name[i]);
	assert_int_equal(connect(fd, (struct sockaddr *)&address,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + count)),
			 0);
	return fd;
}

enum stranger {
	STRANGER_SILENT,
	STRANGER_LEAVES,
	STRANGER_GARBAGE,
	STRANGER_LONG,         /* more than a hello */
	STRANGER_NO_SECRET,    /* a hello with another secret */
	STRANGER_NOTHING,      /* a right hello without descriptors */
	STRANGER_NOT_A_SEAL,   /* a segment that can be cut short */
	STRANGER_SMALL,        /* a sealed one that is too small */
	STRANGER_BLOCKING,     /* bells that would block */
	STRANGER_TOO_MANY_FDS, /* more than three */
	STRANGER_COUNT
};

/* Returns the socket, which the silent one keeps open. */
static int strange(enum stranger kind, const uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct random *random)
{
	uint8_t bytes[2 * SHM_WIRE_HELLO_BYTES];
	struct shm_wire_handle wire;
	struct shm_wire_hello hello = { .nonce_address = 8 };
	size_t size = sizeof(struct shm_segment);
	int fds[4] = { -1, -1, -1, -1 }, fd = dial_raw(handle), pipes[2];
	ssize_t count = SHM_WIRE_HELLO_BYTES;

	assert_int_equal(shm_wire_get_handle(handle, &wire), 0);
	memcpy(hello.secret, wire.secret, sizeof(hello.secret));
	if (kind == STRANGER_SILENT)
		return fd;
	if (kind == STRANGER_NO_SECRET)
		hello.secret[3] ^= 1;
	memset(bytes, 0, sizeof(bytes));
	shm_wire_put_hello(&hello, bytes);
	if (kind == STRANGER_GARBAGE)
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random_next(random);
	if (kind == STRANGER_LONG)
		count *= 2;
	fds[0] = sys_memory_file("test", kind == STRANGER_SMALL ? size / 2 : size,
				 kind == STRANGER_NOT_A_SEAL ? 0 : F_SEAL_SHRINK);
	assert_int_equal(pipe2(pipes, kind == STRANGER_BLOCKING ? O_CLOEXEC : O_CLOEXEC | O_NONBLOCK), 0);
	fds[1] = pipes[0];
	fds[2] = fds[3] = pipes[1];
	if (kind != STRANGER_LEAVES) {
		unsigned with = kind == STRANGER_NOTHING ? 0 : kind == STRANGER_TOO_MANY_FDS ? 4 : 3;

		if (with)
			assert_int_equal(sys_send_descriptors(fd, bytes, (size_t)count, fds, with), count);
		else
			assert_int_equal(send(fd, bytes, (size_t)count, 0), count);
	}
	close(fds[0]);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
	return -1;
}

static void strangers_do_not_disturb(void **state)
{
	struct transport *transport;
	struct random random;
	unsigned fds;

	(void)state;
	random_init(&random, runtime_seed() ^ 0x57a);
	assert_int_equal(transport_shm.open(&params, &transport), 0);
	fds = runtime_fd_count();
	for (unsigned kind = 0; kind < STRANGER_COUNT; kind++) {
		struct link link = { .ops = &transport_shm };
		unsigned many = kind == STRANGER_SILENT ? SHM_PENDING_MAX + 9 : 3;
		int silent[SHM_PENDING_MAX + 9];

		assert_int_equal(transport_shm.listen(transport, 0, link.handle, &link.listener), 0);
		for (unsigned i = 0; i < many; i++) {
			silent[i] = strange(kind, link.handle, &random);
			assert_int_equal(transport_shm.accept(link.listener, &link.receiver), 0);
			/* One that is like a peer in all but its descriptors' number may be taken for one. */
			if (kind == STRANGER_TOO_MANY_FDS)
				transport_shm.close_connection(link.receiver);
			else
				assert_null(link.receiver);
			link.receiver = NULL;
		}
		assert_int_equal(link_connect(&transport_shm, transport, 0, link.handle, &link.sender), 0);
		assert_int_equal(link_accept(&transport_shm, link.listener, &link.receiver), 0);
		assert_int_equal(link_exchange(&link, 100000, kind), 0);
		link_close(&link);
		for (unsigned i = 0; i < many; i++)
			if (silent[i] >= 0)
				close(silent[i]);
		assert_int_equal(runtime_fd_count(), fds);
	}
	transport_shm.close(transport);
}

/* Nobody can have it who was not given its handle: not a listener of another host, and not a secret that is guessed. */
static void a_handle_of_another_host_is_refused(void **state)
{
	struct transport_connection *sender = NULL;
	struct link link = { .ops = &transport_shm };
	struct shm_wire_handle wire;
	struct transport *transport;

	(void)state;
	assert_int_equal(transport_shm.open(&params, &transport), 0);
	assert_int_equal(transport_shm.listen(transport, 0, link.handle, &link.listener), 0);
	assert_true(transport_shm_reaches(link.handle));
	assert_int_equal(shm_wire_get_handle(link.handle, &wire), 0);
	wire.host_id++;
	shm_wire_put_handle(&wire, link.handle);
	assert_false(transport_shm_reaches(link.handle));
	assert_int_equal(transport_shm.connect(transport, 0, -1, link.handle, &sender), -EHOSTUNREACH);
	assert_null(sender);
	link_close(&link);
	transport_shm.close(transport);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = { { "traffic", traffic_role },
						  { "victim", victim_role },
						  { NULL, NULL } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_processes_exchange_every_shape),  cmocka_unit_test(peers_that_vanish_are_noticed),
		cmocka_unit_test(slow_peers_are_waited_for),           cmocka_unit_test(strangers_do_not_disturb),
		cmocka_unit_test(a_handle_of_another_host_is_refused),
	};
	const char *filter;

	peer_main(argc, argv, roles, 90);
	runtime_start("shm_test", 110);
	set_params();
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
