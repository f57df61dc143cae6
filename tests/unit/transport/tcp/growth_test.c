/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that join and leave a connection of real sockets. */
#include "conversation.h"

#include "base/clock.h"
#include "base/log.h"
#include "support/random.h"
#include "support/runtime.h"
#include "transport/pace/arbiter.h"
#include "transport/tcp/dial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROWN = 6 };

/* Others are wanted, and others carry the data, as far as they are there. */
static unsigned change_streams(struct conversation *s)
{
	struct tcp_connection *connection = (struct tcp_connection *)s->link.sender;
	const uint32_t set = (uint32_t)random_below(&s->random, 1U << GROWN);
	uint64_t active = 1;
	bool changed;

	pthread_mutex_lock(&connection->lock);
	if (!random_below(&s->random, 4))
		tcp_growth_want(connection, set | 1, clock_now_ns());
	for (unsigned i = 1; i < connection->stream_count; i++)
		active |= connection->streams[i].was_live ? (uint64_t)(set >> (i - 1) & 1) << i : 0;
	if (active == 3) /* the controller has one stream with data, or two */
		active = 1;
	changed = active != connection->active && tcp_growth_use(connection, active, clock_now_ns());
	pthread_mutex_unlock(&connection->lock);
	return changed;
}

/* All are cut again and again meanwhile. */
static void streams_that_come_and_go_lose_nothing(void **state)
{
	(void)state;
	conversation_with_cuts(0, change_streams);
}

enum { HOST = 77 };

/* To a host of which nothing is known, on a slow port that is never full. */
static void growth_begin(struct link *link)
{
	struct tcp_connection *connection = (struct tcp_connection *)link->sender;

	pthread_mutex_lock(&connection->lock);
	connection->s.host = HOST;
	tcp_growth_init(connection);
	connection->s.growth.port_Bps = 0;
	pthread_mutex_unlock(&connection->lock);
	assert_non_null(connection->s.growth.way);
	link->ops->set(link->sender, TRANSPORT_SET_RATE_LIMIT, 40 << 20); /* so frames wait, however fast this machine is */
}

static bool changed; /* streams that were found carry data */

static unsigned find_streams(struct conversation *s)
{
	struct tcp_connection *connection = (struct tcp_connection *)s->link.sender;

	if (!connection->s.growth.way)
		growth_begin(&s->link);
	pthread_mutex_lock(&connection->lock);
	changed |= connection->active_count > 1;
	pthread_mutex_unlock(&connection->lock);
	return 1;
}

/* The same with those that are found by measuring, while movers are at work. Cuts end most trials. */
static void streams_that_are_found_lose_nothing(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 4 || !changed; round++) {
		assert_true(round < 40);
		runtime_set_streams(round);
		conversation_with_cuts(0, find_streams);
	}
	unsetenv("TRIBUTARY_STREAMS");
	unsetenv("TRIBUTARY_MOVERS");
}

static bool has_stream(struct transport_connection *opaque, unsigned index, unsigned within_ms)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;
	uint64_t deadline_ns = runtime_deadline_ns(within_ms);
	bool has = false;

	while (!has && !runtime_past(deadline_ns)) {
		pthread_mutex_lock(&connection->lock);
		has = index < connection->stream_count && connection->streams[index].live;
		pthread_mutex_unlock(&connection->lock);
		usleep(1000);
	}
	return has;
}

static void want(struct transport_connection *opaque, uint32_t set)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;

	pthread_mutex_lock(&connection->lock);
	tcp_growth_want(connection, set, clock_now_ns());
	pthread_mutex_unlock(&connection->lock);
}

/* Streams that may be spared leave half of the descriptors to the program, at either end. */
static void new_streams_leave_descriptors(void **state)
{
	struct transport *transport = conversation_transport(0);
	struct rlimit all, few;
	struct link link;
	int fd;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
	fd = ((struct tcp_connection *)link.sender)->streams[1].fd;
	for (int less = 0; less < 2; less++) { /* the receiver has none to spare, and the sender neither */
		few = all;
		few.rlim_cur = 2 * (rlim_t)(fd - less);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		want(link.sender, 3);
		assert_false(has_stream(link.sender, 2, 300));
		assert_int_equal(link_exchange(&link, 100000, 1), 0);
		want(link.sender, 1);
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	want(link.sender, 3);
	assert_true(has_stream(link.sender, 2, 20000));
	assert_int_equal(link_exchange(&link, 100000, 2), 0);
	link_close(&link);
	transport_tcp.close(transport);
}

/* Its dial waits for an answer: the receiver would report a stranger if it ended there. */
static void what_is_not_wanted_any_more_joins_all_the_same(void **state)
{
	struct transport *transport = conversation_transport(0);
	struct tcp_connection *connection;
	struct link link;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	connection = (struct tcp_connection *)link.sender;
	pthread_mutex_lock(&connection->transport->lock); /* its thread answers nothing meanwhile */
	pthread_mutex_lock(&connection->lock);
	tcp_growth_want(connection, 3, clock_now_ns());
	tcp_redial(connection, clock_now_ns());
	assert_true(connection->streams[2].dial->fd >= 0);
	tcp_growth_want(connection, 1, clock_now_ns());
	pthread_mutex_unlock(&connection->lock);
	pthread_mutex_unlock(&connection->transport->lock);
	assert_true(has_stream(link.sender, 2, 20000));
	assert_int_equal(link_exchange(&link, 100000, 3), 0);
	link_close(&link);
	transport_tcp.close(transport);
}

static bool use(struct transport_connection *opaque, uint64_t active)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;
	bool used;

	pthread_mutex_lock(&connection->lock);
	used = tcp_growth_use(connection, active, clock_now_ns());
	pthread_mutex_unlock(&connection->lock);
	return used;
}

/* For metrics: of both ends, the primary of several left out. */
static void streams_with_data_and_movers_are_counted(void **state)
{
	struct transport_counters counters;
	struct transport *transport;
	struct link link;
	uint64_t deadline_ns;

	(void)state;
	assert_int_equal(setenv("TRIBUTARY_MOVERS", "2", 1), 0);
	transport = conversation_transport(0);
	assert_int_equal(unsetenv("TRIBUTARY_MOVERS"), 0);
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	transport_tcp.device_counters(transport, 0, &counters);
	assert_int_equal(counters.streams, 2);
	assert_int_equal(counters.movers, 0);
	want(link.sender, 7);
	for (unsigned i = 1; i <= 3; i++)
		assert_true(has_stream(link.sender, i, 20000));
	assert_true(use(link.sender, 15));
	deadline_ns = runtime_deadline_ns(20000);
	do {
		assert_false(runtime_past(deadline_ns));
		assert_int_equal(link_exchange(&link, 2 << 20, 1), 0);
		transport_tcp.device_counters(transport, 0, &counters);
	} while (counters.streams != 6 || !counters.movers);
	assert_in_range(counters.movers, 1, 2);
	link_close(&link);
	do { /* as soon as the receiver has all */
		assert_false(runtime_past(deadline_ns));
		transport_tcp.device_counters(transport, 0, &counters);
	} while (counters.streams);
	assert_int_equal(counters.connections, 0);
	transport_tcp.close(transport);
}

static struct {
	_Atomic unsigned count;
	char text[256];
} lines;

static void note_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	va_list args;
	const char *text;

	(void)flags, (void)file, (void)line;
	va_start(args, fmt);
	text = va_arg(args, const char *);
	va_end(args);
	if (level != LOG_LEVEL_INFO || !strstr(text, "a connection to host"))
		return;
	snprintf(lines.text, sizeof(lines.text), "%s", text);
	lines.count++;
}

/* A trial has found so many; messages that nothing waits for begin none. */
static void find(struct link *link, unsigned streams, unsigned for_ms, unsigned until)
{
	struct tcp_connection *connection = (struct tcp_connection *)link->sender;
	struct tcp_growth_way *way = connection->s.growth.way;
	const uint64_t deadline_ns = runtime_deadline_ns(for_ms);

	pthread_mutex_lock(&connection->transport->ways.lock);
	way->way.found = streams;
	way->way.one_Bps = 25e6;
	way->way.all_Bps = 200e6;
	pthread_mutex_unlock(&connection->transport->ways.lock);
	while (lines.count < until && !runtime_past(deadline_ns))
		assert_int_equal(link_exchange(link, 1000, 1), 0);
}

static void a_number_that_lasts_is_said_once(void **state)
{
	struct transport *transport = conversation_transport(0);
	struct tcp_connection *connection;
	char expected[256];
	struct link link;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	connection = (struct tcp_connection *)link.sender;
	pthread_mutex_lock(&connection->lock);
	connection->s.host = HOST;
	connection->transport->interfaces[0].speed_Bps = 250000000;
	connection->transport->interfaces[0].speed_assumed = false;
	tcp_growth_init(connection);
	pthread_mutex_unlock(&connection->lock);
	log_set_sink(note_line);
	find(&link, 8, 20000, 1);
	find(&link, 8, 100, 2);
	log_drain(1000);
	assert_int_equal(lines.count, 1);
	snprintf(expected, sizeof(expected),
		 "%s: 8 streams a connection to host %s carry 1.6 Gbit/s, since one carries 0.2 of 2 Gbit/s",
		 connection->transport->interfaces[0].name, connection->peer_host);
	assert_string_equal(lines.text, expected);
	find(&link, 1, 20000, 2);
	log_drain(1000);
	assert_non_null(strstr(lines.text, ": 1 stream a connection to host "));
	assert_non_null(strstr(lines.text, " carries what 8 did"));
	log_set_sink(NULL);
	link_close(&link);
	transport_tcp.close(transport);
}

/* A step of the connection's that other processes see. */
static bool has_turn(struct link *link, struct pace_arbiter *other)
{
	struct tcp_connection *connection = (struct tcp_connection *)link->sender;
	const struct tcp_growth *growth = &connection->s.growth;
	bool tries;

	pthread_mutex_lock(&connection->lock);
	tries = growth->streams.state >= TCP_STREAMS_BASE;
	assert_true(!tries || growth->way->holder == connection->id);
	/* Before its lease ends. */
	assert_int_equal(tries && pace_arbiter_turn_take(other, HOST, 0, growth->way->until_ns), 0);
	pthread_mutex_unlock(&connection->lock);
	return tries;
}

static bool is_queued(struct link *link)
{
	struct tcp_connection *connection = (struct tcp_connection *)link->sender;
	enum tcp_streams_state state;

	pthread_mutex_lock(&connection->lock);
	state = connection->s.growth.streams.state;
	assert_in_range(state, TCP_STREAMS_SETTLED, TCP_STREAMS_QUEUED);
	pthread_mutex_unlock(&connection->lock);
	return state == TCP_STREAMS_QUEUED;
}

/* As soon as it tries nothing any more, and long before its lease ends. */
static bool has_left_turn(struct link *link, struct pace_arbiter *other)
{
	struct tcp_connection *connection = (struct tcp_connection *)link->sender;
	const struct tcp_growth *growth = &connection->s.growth;
	bool tries;

	pthread_mutex_lock(&connection->lock);
	tries = growth->answer.turn;
	assert_true(tries || pace_arbiter_turn_take(other, HOST, 0, growth->way->until_ns));
	pthread_mutex_unlock(&connection->lock);
	return !tries;
}

/* Its connection tries nothing while another process of the host does. */
static void another_process_s_turn_is_waited_for(void **state)
{
	char place[] = "/tmp/tributary-turn-XXXXXX"; /* other processes of the host do not come here */
	struct transport *transport;
	const struct tcp_transport *tcp;
	const uint64_t deadline_ns = runtime_deadline_ns(60000);
	struct pace_arbiter *other;
	unsigned queued = 0;
	struct link link;
	struct diag diag;

	(void)state;
	assert_non_null(mkdtemp(place));
	assert_int_equal(setenv("TRIBUTARY_SHARED_DIR", place, 1), 0);
	transport = conversation_transport(0);
	tcp = (const struct tcp_transport *)transport;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	growth_begin(&link);
	assert_int_equal(pace_arbiter_open(tcp->params->shared_dir, tcp->devices.list[0].name, &other, &diag), 0);
	while (queued < 5) {
		/* Its lease ends so late that no stall of this process lets it end. */
		assert_true(pace_arbiter_turn_take(other, HOST, 0, clock_now_ns() + 9 * NS_PER_S));
		assert_int_equal(link_exchange(&link, 2 << 20, queued), 0);
		queued += is_queued(&link);
		assert_false(runtime_past(deadline_ns));
	}
	pace_arbiter_turn_leave(other, HOST);
	while (!has_turn(&link, other)) {
		assert_int_equal(link_exchange(&link, 1 << 20, 1), 0);
		assert_false(runtime_past(deadline_ns));
	}
	while (!has_left_turn(&link, other)) {
		assert_int_equal(link_exchange(&link, 1 << 20, 2), 0);
		assert_false(runtime_past(deadline_ns));
	}
	pace_arbiter_close(other);
	link_close(&link);
	transport_tcp.close(transport);
	assert_int_equal(rmdir(place), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_that_come_and_go_lose_nothing),
		cmocka_unit_test(streams_that_are_found_lose_nothing),
		cmocka_unit_test(what_is_not_wanted_any_more_joins_all_the_same),
		cmocka_unit_test(a_number_that_lasts_is_said_once),
		cmocka_unit_test(streams_with_data_and_movers_are_counted),
		cmocka_unit_test(new_streams_leave_descriptors),
		cmocka_unit_test(another_process_s_turn_is_waited_for),
	};

	(void)argc;
	runtime_start(argv[0], 120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
