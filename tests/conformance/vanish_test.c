/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that vanish, in every state, in every way: killed, stopped, gone without closing, killed while a child holds
 * their sockets. The survivor has its error within TRIBUTARY_TIMEOUT. Moments are taken from the seed. With
 * TRIBUTARY_TEST_LONG each state is met 20 times in each way; else once in a way that the survivor's kernel reports, and
 * once in one that only silence shows. And peers that are only slow: they are left alone.
 */
#include "plugin_ops.h"
#include "support/link.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "support/traffic.h"
#include "support/victim.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/parallel.h"

#define ROUNDS     20 /* with TRIBUTARY_TEST_LONG */
#define AT_ONCE    14 /* more, on two cores, and a victim now and then gets no time slice for longer than the time-out */
#define TIMEOUT_MS 4000 /* TRIBUTARY_TIMEOUT: a busy machine may keep a live peer silent for two seconds */
#define TRIES      5    /* each with twice the time-out, where the machine stood still for a part of it */
#define SLACK_MS   3000 /* scheduling, with dozens of processes on few cores */

static unsigned timeout_factor = 1;

/* An emulated machine has a fraction of the speed for each of them. */
static unsigned timeout_ms(void)
{
	return (runtime_slow() > 1 ? TIMEOUT_MS / 2 * runtime_slow() : TIMEOUT_MS) * timeout_factor;
}

/* Of this process's next transport, and of peers that are started from now on. */
static void timeout_set(unsigned factor)
{
	char timeout_s[16];

	timeout_factor = factor;
	snprintf(timeout_s, sizeof(timeout_s), "%u", timeout_ms() / 1000);
	setenv("TRIBUTARY_TIMEOUT", timeout_s, 1);
}

static struct transport *opened(void)
{
	struct transport *transport;

	plugin_ops_choose(0);
	assert_int_equal(plugin_ops.open(NULL, &transport), 0);
	return transport;
}

/*
 * What is asked here, after what the machine did in the meantime: a case that had another end than it should is tried again
 * where processes were kept from running for a good part of the time-out. Peers that live may be given up then.
 */
static bool stalled_since(uint64_t stalled_ns)
{
	return runtime_stalled_ns() - stalled_ns > timeout_ms() * 1000000ULL / 5;
}

static unsigned at_once(void)
{
	return (AT_ONCE + runtime_slow() - 1) / runtime_slow();
}

/* What both processes of a case know. */
struct script {
	unsigned state, way, victim_sends;
	uint64_t seed;
};

static void script_write(const struct script *script, char *text, size_t bytes)
{
	snprintf(text, bytes, "%u %u %u %" PRIx64, script->state, script->way, script->victim_sends, script->seed);
}

/* ---- the victim ---- */

static int victim_connection(const struct script *script, struct transport *transport, int control,
			     struct transport_connection **ret)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	uint64_t random = script->seed;
	int r;

	if (script->victim_sends) {
		r = peer_read(control, handle, sizeof(handle));
		if (r == 0 && script->state != VICTIM_CONNECTING)
			return link_connect(&plugin_ops, transport, 0, handle, ret);
		for (uint64_t i = random_below(&random, 40); i > 0 && r == 0 && !*ret; i--)
			r = plugin_ops.connect(transport, 0, -1, handle, ret);
		return r;
	}
	r = plugin_ops.listen(transport, 0, handle, &listener);
	if (r == 0)
		r = peer_write(control, handle, sizeof(handle));
	return r < 0 || script->state == VICTIM_LISTENING ? r : link_accept(&plugin_ops, listener, ret);
}

static int victim_role(int control, const char *argument)
{
	struct transport_connection *connection = NULL;
	struct traffic_end *end = calloc(1, sizeof(*end));
	struct transport *transport;
	struct traffic_plan plan;
	struct script script;
	int r;

	if (!end ||
	    sscanf(argument, "%u %u %u %" SCNx64, &script.state, &script.way, &script.victim_sends, &script.seed) != 4)
		return 2;
	plugin_ops_choose(0);
	r = plugin_ops.open(NULL, &transport);
	if (r == 0)
		r = victim_connection(&script, transport, control, &connection);
	if (r == 0)
		r = traffic_plan_init(&victim_shape, script.seed, TRANSPORT_MAX_RECVS, &plan);
	if (r < 0)
		return runtime_complain(1, "%s: the victim cannot start: %d", victim_state_names[script.state], r);
	traffic_end_init(end, &plugin_ops, connection, &plan, script.victim_sends);
	victim_live(script.state, script.way, control, end);
}

/* ---- the survivor ---- */

struct survivor {
	struct script script;
	struct peer peer;
	pid_t holder;
	struct link link; /* only one end of it is here */
	struct traffic_plan plan;
	struct traffic_end end;
	uint64_t steps, struck_ns, struck_stalled_ns, over_ns;
	bool connecting;
};

static void survivor_start(struct survivor *survivor, struct transport *transport)
{
	struct script *script = &survivor->script;
	char text[64];

	if (script->state == VICTIM_LISTENING || script->state == VICTIM_RECEIVING)
		script->victim_sends = 0;
	else if (script->state == VICTIM_CONNECTING || script->state == VICTIM_SENDING ||
		 script->state == VICTIM_CLOSING)
		script->victim_sends = 1;
	else
		script->victim_sends = script->seed & 1;
	survivor->link.ops = &plugin_ops;
	script_write(script, text, sizeof(text));
	assert_int_equal(peer_start("victim", text, &survivor->peer), 0);
	if (script->victim_sends) {
		assert_int_equal(plugin_ops.listen(transport, 0, survivor->link.handle, &survivor->link.listener), 0);
		assert_int_equal(peer_write(survivor->peer.control, survivor->link.handle, TRANSPORT_HANDLE_BYTES), 0);
	}
}

/* Until the victim says that it is in its state. False: one of the two does not get there. */
static bool survivor_meet(struct survivor *survivor, struct transport *transport)
{
	const struct script *script = &survivor->script;
	struct transport_connection *connection = NULL;
	int r = 0;

	if (!script->victim_sends)
		r = peer_read(survivor->peer.control, survivor->link.handle, TRANSPORT_HANDLE_BYTES);
	survivor->connecting = script->state == VICTIM_LISTENING || script->state == VICTIM_CONNECTING;
	if (r == 0 && !survivor->connecting)
		r = script->victim_sends ? link_accept(&plugin_ops, survivor->link.listener, &connection)
					 : link_connect(&plugin_ops, transport, 0, survivor->link.handle, &connection);
	if (script->victim_sends)
		survivor->link.receiver = connection;
	else
		survivor->link.sender = connection;
	assert_int_equal(traffic_plan_init(&victim_shape, script->seed, TRANSPORT_MAX_RECVS, &survivor->plan), 0);
	traffic_end_init(&survivor->end, &plugin_ops, connection, &survivor->plan, !script->victim_sends);
	return r == 0 && peer_read(survivor->peer.control, &survivor->holder, sizeof(survivor->holder)) == 0;
}

static void survivor_strike(struct survivor *survivor)
{
	survivor->struck_stalled_ns = runtime_stalled_ns();
	victim_strike(survivor->script.way, &survivor->peer);
	survivor->struck_ns = runtime_now_ns();
}

/* One end of the connection that is being made; a victim that connects may never get as far as that. */
static int survivor_connects(struct survivor *survivor, struct transport *transport)
{
	bool slow = survivor->script.way == VICTIM_STOP || survivor->script.way == VICTIM_HELD;
	uint64_t wait_ns = (slow ? timeout_ms() : timeout_ms() / 10) * 1000000ULL;
	struct transport_connection **connection;
	int r;

	if (survivor->script.victim_sends) {
		connection = &survivor->link.receiver;
		r = plugin_ops.accept(survivor->link.listener, connection);
		/* Nothing tells that a peer will never come. */
		if (r == 0 && !*connection && survivor->struck_ns && runtime_now_ns() > survivor->struck_ns + wait_ns) {
			survivor->struck_ns = runtime_now_ns();
			r = -EREMOTEIO;
		}
	} else {
		connection = &survivor->link.sender;
		r = plugin_ops.connect(transport, 0, -1, survivor->link.handle, connection);
	}
	if (r == 0 && *connection) {
		survivor->end.connection = *connection;
		survivor->connecting = false;
	}
	return r;
}

/* False: an error before it was due. */
static bool survivor_step(struct survivor *survivor, struct transport *transport)
{
	unsigned state = survivor->script.state;
	bool waits = state == VICTIM_IDLE || state == VICTIM_SENDING || state == VICTIM_RECEIVING;
	int r;

	if (survivor->connecting)
		r = survivor_connects(survivor, transport);
	else if (waits && !survivor->struck_ns)
		r = 0;
	else
		r = traffic_step_until_error(&survivor->end);
	if (survivor->struck_ns && r == -EREMOTEIO) {
		survivor->over_ns = runtime_now_ns();
		return true;
	}
	/* It closed in good order before it was struck. */
	if (state == VICTIM_CLOSING && r == -EREMOTEIO) {
		survivor_strike(survivor);
		survivor->over_ns = survivor->struck_ns;
		return true;
	}
	if (r == -EREMOTEIO || r == -ETIMEDOUT)
		return false;
	if (r < 0)
		fail_msg("%s: %d", victim_state_names[state], r);
	if (!survivor->struck_ns && survivor->steps-- == 0)
		survivor_strike(survivor);
	return true;
}

enum { HANG_S = 60 };
#define HANG_NS (HANG_S * UINT64_C(1000000000))

/* The listener that a vanished peer came to serves the next one. */
static void survivor_listener_serves(struct survivor *survivor, struct transport *transport)
{
	struct link next = { .ops = &plugin_ops };
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);

	memcpy(next.handle, survivor->link.handle, sizeof(next.handle));
	while (!next.sender || !next.receiver) {
		if (!next.sender)
			assert_int_equal(plugin_ops.connect(transport, 0, -1, next.handle, &next.sender), 0);
		if (!next.receiver)
			assert_int_equal(plugin_ops.accept(survivor->link.listener, &next.receiver), 0);
		assert_false(runtime_past(deadline_ns));
	}
	assert_int_equal(link_exchange(&next, 100000, 1), 0);
	link_close(&next);
}

static void survivor_end(struct survivor *survivor, struct transport *transport, bool done)
{
	/* A stopped one is killed before its listener is asked: its half-made connection would be served first. */
	peer_stop(&survivor->peer);
	if (survivor->holder > 0)
		kill(survivor->holder, SIGKILL);
	if (done && survivor->script.state == VICTIM_CONNECTING && !survivor->link.receiver)
		survivor_listener_serves(survivor, transport);
	link_close(&survivor->link);
	traffic_end_fini(&survivor->end);
	traffic_plan_fini(&survivor->plan);
}

/* Until all have their errors. False: one had it before it was due, or another one. */
static bool batch_run(struct transport *transport, struct survivor *survivors, unsigned count)
{
	unsigned open = count;

	for (unsigned i = 0; i < count; i++)
		survivor_start(&survivors[i], transport);
	for (unsigned i = 0; i < count; i++)
		if (!survivor_meet(&survivors[i], transport))
			return false;
	while (open) {
		open = 0;
		for (unsigned i = 0; i < count; i++) {
			struct survivor *survivor = &survivors[i];

			if (!survivor->over_ns && !survivor_step(survivor, transport))
				return false;
			open += !survivor->over_ns;
			if (!survivor->over_ns && survivor->struck_ns &&
			    runtime_now_ns() > survivor->struck_ns + 3ULL * timeout_ms() * 1000000 + HANG_NS)
				fail_msg("%s: no error after %" PRIu64 " ms",
					 victim_state_names[survivor->script.state],
					 (runtime_now_ns() - survivor->struck_ns) / 1000000);
		}
		runtime_nap();
	}
	return true;
}

/* Up to AT_ONCE cases at once; what the slowest of them took, without what the machine did, goes to *worst_ms. */
static bool batch(struct transport *transport, struct survivor *survivors, unsigned count, uint64_t *worst_ms)
{
	uint64_t began_stalled_ns = runtime_stalled_ns(), now_stalled_ns;
	bool done = batch_run(transport, survivors, count);

	if (!done && !stalled_since(began_stalled_ns))
		fail_msg("a live peer was given up, or did not come into its state");
	now_stalled_ns = runtime_stalled_ns();
	for (unsigned i = 0; i < count && done; i++) {
		uint64_t took_ns = survivors[i].over_ns - survivors[i].struck_ns;
		uint64_t stalled_ns = now_stalled_ns - survivors[i].struck_stalled_ns;

		took_ns -= took_ns > stalled_ns ? stalled_ns : took_ns;
		if (took_ns / 1000000 > *worst_ms)
			*worst_ms = took_ns / 1000000;
	}
	for (unsigned i = 0; i < count; i++)
		survivor_end(&survivors[i], transport, done);
	return done;
}

/* Case `number` of a round: every state in each way; in the short form the seed chooses one of two ways. */
static struct script script_of(unsigned number, uint64_t *random)
{
	static const enum victim_way reported[] = { VICTIM_KILL, VICTIM_EXIT }, silent[] = { VICTIM_STOP, VICTIM_HELD };
	unsigned kind = number / VICTIM_STATE_COUNT, which = (unsigned)random_below(random, 2);

	if (runtime_long()) {
		which = kind / 2 % 2;
		kind %= 2;
	}
	return (struct script){
		.state = number % VICTIM_STATE_COUNT,
		.way = kind ? silent[which] : reported[which],
		.seed = random_next(random) >> 16,
	};
}

static void batch_make(struct survivor *survivors, unsigned first, unsigned count)
{
	uint64_t random = runtime_seed() + first * 100;

	memset(survivors, 0, AT_ONCE * sizeof(*survivors));
	for (unsigned i = 0; i < count; i++) {
		survivors[i].script = script_of((first + i) % (4 * VICTIM_STATE_COUNT), &random);
		survivors[i].steps = random_below(&random, 300);
	}
}

static void peers_that_vanish_are_found(void **state)
{
	struct survivor *survivors = calloc(AT_ONCE, sizeof(*survivors));
	unsigned total = VICTIM_STATE_COUNT * (runtime_long() ? 4 * (runtime_sanitized() ? 4 : ROUNDS) : 2), count;
	uint64_t worst_ms = 0;

	(void)state;
	assert_non_null(survivors);
	for (unsigned first = 0; first < total; first += count) {
		bool done = false;

		count = total - first < at_once() ? total - first : at_once();
		for (unsigned try = 0; !done; try++) {
			struct transport *transport;
			uint64_t took_ms = 0;

			assert_true(try < TRIES);
			timeout_set(1U << try);
			transport = opened();
			batch_make(survivors, first, count);
			done = batch(transport, survivors, count, &took_ms);
			plugin_ops.close(transport);
			assert_true(took_ms <=
				    timeout_ms() + SLACK_MS * runtime_slow() * (runtime_sanitized() ? 3 : 1));
			worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
		}
	}
	timeout_set(1);
	free(survivors);
	print_message("%u peers vanished; the slowest was found after %" PRIu64 " ms\n", total, worst_ms);
}

/* ---- peers that are only slow ---- */

static unsigned silence_ms(void)
{
	return runtime_long() ? timeout_ms() * 5 / 2 : timeout_ms() * 9 / 8;
}

/* Connects, and calls nothing for longer than the time-out; then sends. */
static int silent_role(int control, const char *argument)
{
	uint8_t handle[TRANSPORT_HANDLE_BYTES], *data = malloc(1000000);
	struct transport_connection *connection;
	struct transport *transport;
	char token = 0;

	(void)argument;
	transport = opened();
	assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&plugin_ops, transport, 0, handle, &connection), 0);
	usleep(silence_ms() * 1000);
	pattern_fill(data, 1000000, 4);
	assert_int_equal(link_send(&plugin_ops, connection, data, 1000000, 0), 0);
	assert_int_equal(peer_read(control, &token, 1), 0);
	plugin_ops.close_connection(connection);
	plugin_ops.close(transport);
	free(data);
	return 0;
}

static void a_live_peer_may_be_silent(void **state)
{
	struct transport_connection *connection;
	struct transport_listener *listener;
	uint8_t handle[TRANSPORT_HANDLE_BYTES], *data = malloc(1000000);
	struct transport *transport;
	struct peer peer;
	size_t bytes = 0;
	char token = 'x';

	(void)state;
	transport = opened();
	assert_int_equal(peer_start("silent", "", &peer), 0);
	assert_int_equal(plugin_ops.listen(transport, 0, handle, &listener), 0);
	assert_int_equal(peer_write(peer.control, handle, sizeof(handle)), 0);
	assert_int_equal(link_accept(&plugin_ops, listener, &connection), 0);
	/* This side polls all the while. */
	assert_int_equal(link_receive(&plugin_ops, connection, data, 1000000, 0, &bytes), 0);
	assert_int_equal(bytes, 1000000);
	assert_true(pattern_wrong_at(data, bytes, 4) == SIZE_MAX);
	/* And now neither calls anything. */
	usleep(silence_ms() * 1000);
	assert_int_equal(peer_write(peer.control, &token, 1), 0);
	assert_int_equal(peer_wait(&peer, 90000), 0);
	plugin_ops.close_connection(connection);
	plugin_ops.close_listener(listener);
	plugin_ops.close(transport);
	free(data);
}

/* Stopped for less than the time-out, in mid-transfer: nothing is lost. False: the machine made more of it. */
static bool stop_for_a_while(struct survivor *survivor, uint64_t seed)
{
	uint64_t stalled_ns = runtime_stalled_ns();
	struct transport *transport = opened();
	uint64_t random = seed;
	int r = 0;

	memset(survivor, 0, sizeof(*survivor));
	survivor->script = (struct script){ .state = VICTIM_TRANSFERRING, .way = VICTIM_KILL, .seed = seed };
	survivor_start(survivor, transport);
	if (!survivor_meet(survivor, transport))
		r = -ETIMEDOUT;
	for (uint64_t i = random_below(&random, 40); i > 0 && r == 0; i--)
		r = traffic_step(&survivor->end);
	kill(survivor->peer.pid, SIGSTOP);
	/* Not runtime_deadline_ns: a sanitizer makes patience longer, but not the time-out. */
	for (uint64_t end_ns = runtime_now_ns() + timeout_ms() / 3 * 1000000ULL; r == 0 && !runtime_past(end_ns);)
		r = traffic_step(&survivor->end);
	kill(survivor->peer.pid, SIGCONT);
	if (r == 0)
		r = traffic_run(&survivor->end, 60000);
	survivor_end(survivor, transport, r >= 0);
	plugin_ops.close(transport);
	if (r < 0 && !stalled_since(stalled_ns))
		fail_msg("stopped for a while, and the end is %d", r);
	return r >= 0;
}

static void a_peer_stopped_for_a_while_goes_on(void **state)
{
	struct survivor *survivor = calloc(1, sizeof(*survivor));
	uint64_t random = runtime_seed();

	(void)state;
	assert_non_null(survivor);
	for (unsigned round = 0; round < (runtime_long() ? 4 : 1); round++) {
		uint64_t seed = random_next(&random) >> 16;
		unsigned try = 0;

		timeout_set(1);
		while (!stop_for_a_while(survivor, seed)) {
			assert_true(++try < TRIES);
			timeout_set(1U << try);
		}
	}
	timeout_set(1);
	free(survivor);
}

static int begin(void **state)
{
	(void)state;
	runtime_watch_stalls();
	return 0;
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = {
		{ "victim", victim_role },
		{ "silent", silent_role },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers_that_vanish_are_found),
		cmocka_unit_test(a_live_peer_may_be_silent),
		cmocka_unit_test(a_peer_stopped_for_a_while_goes_on),
	};

	peer_main(argc, argv, roles, 270);
	runtime_start("vanish_test", runtime_long() ? 280 : 115);
	runtime_set_streams(0);
	timeout_set(1);
	return parallel_run_group_tests(tests, begin, NULL);
}
