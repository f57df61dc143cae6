/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator and workers whose other ends follow a script: what each is told, and what it makes of words that nobody should say. */
#include "clusterprobe/clusterprobe.h"

#include "base/clock.h"
#include "base/sys.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/parallel.h"
#include "support/port.h"

enum { NAP_MS = 20, WAITS_MOST = 4000, RATE_BPS = 10000000, ACTORS = 4, FLOWS_ROUNDS = 6 };

static const struct control_secret secret = { .bytes = "0123456789abcdef", .count = 16 };
static _Atomic bool never;
static const struct clusterprobe_options options = { .round_ms = 1, .streams = 1, .limit_Bps = 50000000, .seed = 1 };

static struct clusterprobe_setup setup_of(uint32_t rank, uint32_t size, uint16_t port)
{
	struct clusterprobe_setup setup = {
		.launch = { .rank = rank, .size = size, .address = "127.0.0.1", .port = port },
		.secret = &secret,
		.timeout_ns = 80 * NS_PER_S,
		.stop = &never
	};

	snprintf(setup.name, sizeof(setup.name), "host%u", rank);
	return setup;
}

/* ------------------------------------------------------------------------------------------------------ the other end */

static int wait_for(struct clusterprobe_control *control, struct clusterprobe_message *ret)
{
	for (unsigned i = 0; i < WAITS_MOST; i++) {
		struct pollfd ready = { control->fd, 0, 0 };
		int r = ret ? clusterprobe_control_step(control, ret)
			    : control_channel_move(&control->channel, control->fd);

		if (r != 0)
			return r < 0 ? r : 0;
		if (!ret && control_channel_proved(&control->channel))
			return 0;
		ready.events = clusterprobe_control_events(control);
		poll(&ready, 1, NAP_MS);
	}
	return -ETIMEDOUT;
}

/* A worker that measures nothing: all that it says it has made up. */
struct actor {
	struct clusterprobe_setup setup;
	uint16_t latency_from_nowhere;     /* in place of the host that it should talk to */
	struct in_addr to;                 /* where rank 0 is */
	struct clusterprobe_address first; /* of rank 0's host, as it is told */
	pthread_t thread;
	struct clusterprobe_control control;
	struct clusterprobe_receiver *port;
	atomic_uint here;
	uint32_t heard;              /* the last round */
	unsigned rounds, idle, gaps; /* rounds that it should have heard of, and did not */
	struct clusterprobe_message in, out;
	int result;
};

static int dial(struct actor *actor)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(actor->setup.launch.port),
				       .sin_addr = actor->to };

	for (unsigned i = 0; i < WAITS_MOST; i++) {
		struct pollfd ready = { .events = POLLOUT };
		socklen_t bytes = sizeof(int);
		int error = -1;

		actor->control.fd = ready.fd = sys_socket(AF_INET, SOCK_STREAM, 0);
		(void)sys_connect(ready.fd, (struct sockaddr *)&address, sizeof(address));
		if (poll(&ready, 1, NAP_MS) == 1)
			getsockopt(ready.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
		if (error == 0)
			return control_channel_init(&actor->control.channel, CONTROL_CLIENT, actor->setup.secret,
						    actor->setup.name);
		sys_close(&actor->control.fd);
		poll(NULL, 0, NAP_MS);
	}
	return -ETIMEDOUT;
}

static int say_hello(struct actor *actor)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = actor->to };
	struct sockaddr_storage bound;
	int r = clusterprobe_receiver_open((struct sockaddr_storage *)(void *)&address, sizeof(address), &actor->port,
					   &bound);

	if (r < 0)
		return r;
	actor->out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_HELLO, .rank = actor->setup.launch.rank };
	memcpy(actor->out.name, actor->setup.name, sizeof(actor->out.name));
	clusterprobe_address_of(&bound, &actor->out.address);
	return clusterprobe_control_say(&actor->control, &actor->out);
}

static int answer(struct actor *actor)
{
	const struct clusterprobe_message *in = &actor->in;
	struct clusterprobe_message *out = &actor->out;

	*out = (struct clusterprobe_message){ .kind = CLUSTERPROBE_RATES, .round = in->round };
	if (in->kind == CLUSTERPROBE_PING) {
		out->kind = CLUSTERPROBE_LATENCIES;
		out->peer = actor->latency_from_nowhere ? actor->latency_from_nowhere : in->peer;
		out->median_ns = out->least_ns = 1000;
	}
	for (size_t i = 0; in->kind == CLUSTERPROBE_ROUND && i < in->task_count; i++)
		if (in->tasks[i].peer == CLUSTERPROBE_IDLE)
			out->tasks[out->task_count++] = (struct clusterprobe_task){ in->tasks[i].flow,
										    CLUSTERPROBE_IDLE, RATE_BPS };
	actor->gaps += in->round - actor->heard - 1;
	actor->heard = in->round;
	actor->rounds++;
	actor->idle += in->kind == CLUSTERPROBE_ROUND && !in->task_count;
	return clusterprobe_control_say(&actor->control, out);
}

static void *act(void *arg)
{
	struct actor *actor = arg;
	int r = dial(actor);

	if (r == 0)
		r = wait_for(&actor->control, NULL);
	if (r == 0)
		r = say_hello(actor);
	while (r == 0) {
		r = wait_for(&actor->control, &actor->in);
		if (r < 0 || actor->in.kind == CLUSTERPROBE_END)
			break;
		if (actor->in.kind == CLUSTERPROBE_WELCOME)
			clusterprobe_receiver_admit(actor->port, actor->in.token);
		else if (actor->in.kind == CLUSTERPROBE_HERE)
			atomic_fetch_add(&actor->here, 1);
		else if (actor->in.kind == CLUSTERPROBE_PEERS)
			actor->first = actor->in.peers[0];
		else if (actor->in.kind == CLUSTERPROBE_ROUND || actor->in.kind == CLUSTERPROBE_PING)
			r = answer(actor);
	}
	actor->result = r;
	clusterprobe_control_fini(&actor->control);
	clusterprobe_receiver_close(actor->port);
	return NULL;
}

static void start(struct actor *actor, uint32_t rank, uint32_t size, uint16_t port)
{
	actor->setup = setup_of(rank, size, port);
	actor->control.fd = -1;
	if (!actor->to.s_addr)
		actor->to.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(sys_thread_start(act, actor, "actor", &actor->thread), 0);
}

/* ---------------------------------------------------------------------------------------------------------------- tests */

/* Some have nothing to do for a host: of many hosts, so many of them that a host is idle for longer than the time-out. */
static void every_host_hears_of_every_round(void **state)
{
	static struct actor actors[ACTORS];
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 1 + ACTORS, port);
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };
	unsigned idle = 0;

	(void)state;
	for (uint32_t i = 0; i < ACTORS; i++)
		start(&actors[i], i + 1, 1 + ACTORS, port);
	if (clusterprobe_coordinator_run(&setup, &options, &result, &diag) < 0)
		fail_msg("%s", diag.text);
	for (size_t i = 0; i < ACTORS; i++) {
		pthread_join(actors[i].thread, NULL);
		assert_int_equal(actors[i].result, 0);
		assert_int_equal(actors[i].gaps, 0);
		assert_int_equal(actors[i].rounds,
				 result.fabric.round_count + result.latency_count / (1 + ACTORS) + FLOWS_ROUNDS);
		idle += actors[i].idle;
	}
	assert_true(idle > 0);
	/* Each flow has the rate that the receiver has made up. */
	assert_int_equal(result.flows.count, FABRIC_FLOWS_EACH);
	assert_true(result.flows.one_Bps == RATE_BPS);
	assert_true(result.flows.all_Bps == FABRIC_FLOWS_EACH * (double)RATE_BPS);
	clusterprobe_result_fini(&result);
}

/* As long as it takes to think about the last round, and if that is longer than the time-out. */
static void think(size_t round, size_t of, void *arg)
{
	const struct actor *actor = arg;

	(void)of;
	for (unsigned i = 0; i < WAITS_MOST && round == 1 && !atomic_load(&actor->here); i++)
		poll(NULL, 0, NAP_MS);
}

static void a_coordinator_that_thinks_says_that_it_is_there(void **state)
{
	static struct actor actor;
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port);
	struct clusterprobe_options thoughtful = options;
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	thoughtful.progress = think;
	thoughtful.progress_arg = &actor;
	start(&actor, 1, 2, port);
	if (clusterprobe_coordinator_run(&setup, &thoughtful, &result, &diag) < 0)
		fail_msg("%s", diag.text);
	pthread_join(actor.thread, NULL);
	assert_int_equal(actor.result, 0);
	assert_true(atomic_load(&actor.here) > 0);
	clusterprobe_result_fini(&result);
}

static void a_latency_to_nobody_is_refused(void **state)
{
	static struct actor actor = { .latency_from_nowhere = 2 };
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port);
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	start(&actor, 1, 2, port);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -EBADMSG);
	pthread_join(actor.thread, NULL);
	assert_string_equal(diag.text, "host \"host1\" breaks the protocol");
}

/* Whichever of the two comes first. */
static void two_of_one_rank_are_named(void **state)
{
	static struct actor actor;
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port);
	struct clusterprobe_result result = { 0 };
	struct diag diag = { 0 };

	(void)state;
	start(&actor, 0, 2, port);
	assert_int_equal(clusterprobe_coordinator_run(&setup, &options, &result, &diag), -EPROTO);
	pthread_join(actor.thread, NULL);
	assert_non_null(strstr(diag.text, "both say that they are rank 0: is the launcher's environment mixed?"));
}

/* An address of this machine that is none of its loopback addresses. */
static bool find_address(struct in_addr *ret)
{
	struct ifaddrs *list, *at;
	bool found = false;

	if (getifaddrs(&list) < 0)
		return false;
	for (at = list; at && !found; at = at->ifa_next) {
		const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)at->ifa_addr;

		found = address && address->sin_family == AF_INET && ntohl(address->sin_addr.s_addr) >> 24 != 127;
		if (found)
			*ret = address->sin_addr;
	}
	freeifaddrs(list);
	return found;
}

/* As where /etc/hosts gives a host's name to its loopback address, and others know it as another. */
static void rank_0_may_know_itself_by_a_loopback_address(void **state)
{
	static struct actor actor;
	uint16_t port = port_free();
	struct clusterprobe_setup setup = setup_of(0, 2, port);
	struct clusterprobe_result result = { 0 };
	struct addrinfo *found = NULL;
	struct diag diag = { 0 };

	(void)state;
	if (!find_address(&actor.to) || getaddrinfo("localhost", NULL, NULL, &found) != 0) {
		print_message("skipped: no address but the loopback interface's, or no name for that\n");
		skip();
	}
	freeaddrinfo(found);
	strcpy(setup.launch.address, "localhost");
	start(&actor, 1, 2, port);
	if (clusterprobe_coordinator_run(&setup, &options, &result, &diag) < 0)
		fail_msg("%s", diag.text);
	pthread_join(actor.thread, NULL);
	assert_int_equal(actor.result, 0);
	assert_memory_equal(actor.first.ip + 12, &actor.to, 4);
	assert_true(actor.first.port > 0);
	clusterprobe_result_fini(&result);
}

struct real {
	struct clusterprobe_setup setup;
	struct diag diag;
	int result;
};

static void *run_worker(void *arg)
{
	struct real *real = arg;

	real->result = clusterprobe_worker_run(&real->setup, &real->diag);
	return NULL;
}

/* Before it knows how many connections a flow has, or whom it could send to. */
static void a_round_before_the_welcome_is_answered(void **state)
{
	static struct clusterprobe_message message;
	struct clusterprobe_control control = { .fd = -1 };
	struct real real = { 0 };
	struct pollfd ready = { .events = POLLIN };
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);
	uint16_t port;
	pthread_t thread;
	int listener = port_bind(&port);

	(void)state;
	assert_int_equal(sys_listen(listener, 1), 0);
	real.setup = setup_of(1, 2, port);
	assert_int_equal(sys_thread_start(run_worker, &real, "real", &thread), 0);
	ready.fd = listener;
	assert_int_equal(poll(&ready, 1, WAITS_MOST * NAP_MS), 1);
	control.fd = sys_accept(listener, &address, &bytes);
	assert_true(control.fd >= 0);
	assert_int_equal(control_channel_init(&control.channel, CONTROL_SERVER, &secret, "coordinator"), 0);
	assert_int_equal(wait_for(&control, NULL), 0);
	assert_int_equal(wait_for(&control, &message), 0);
	assert_int_equal(message.kind, CLUSTERPROBE_HELLO);
	message = (struct clusterprobe_message){
		.kind = CLUSTERPROBE_ROUND, .round = 1, .duration_ms = 50, .task_count = 1, .tasks = { { 0, 0, 0 } }
	};
	assert_int_equal(clusterprobe_control_say(&control, &message), 0);
	assert_int_equal(wait_for(&control, &message), 0);
	assert_int_equal(message.kind, CLUSTERPROBE_TROUBLE);
	message = (struct clusterprobe_message){ .kind = CLUSTERPROBE_END };
	assert_int_equal(clusterprobe_control_say(&control, &message), 0);
	pthread_join(thread, NULL);
	assert_int_equal(real.result, 0);
	clusterprobe_control_fini(&control);
	sys_close(&listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_host_hears_of_every_round),
		cmocka_unit_test(a_coordinator_that_thinks_says_that_it_is_there),
		cmocka_unit_test(a_latency_to_nobody_is_refused),
		cmocka_unit_test(two_of_one_rank_are_named),
		cmocka_unit_test(rank_0_may_know_itself_by_a_loopback_address),
		cmocka_unit_test(a_round_before_the_welcome_is_answered),
	};

	return parallel_run_group_tests(tests, NULL, NULL);
}
