/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real sockets that are cut while both processes live: all streams of a connection at once, with one to four of them, at
 * random points of a conversation, again and again. Nothing is lost, nothing comes twice, the order is kept. And what has
 * ended for good ends at once, not when the time-out is over.
 */
#include "conversation.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "support/link.h"
#include "support/log_lines.h"
#include "support/peer.h"
#include "support/runtime.h"
#include "transport/tcp/dial.h"
#include "transport/transport.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { BYTES_MOST = 300000 };

static void one_stream(void **state)
{
	(void)state;
	conversation_with_cuts(1, NULL);
}

static void two_streams(void **state)
{
	(void)state;
	conversation_with_cuts(2, NULL);
}

static void three_streams(void **state)
{
	(void)state;
	conversation_with_cuts(3, NULL);
}

static void four_streams(void **state)
{
	(void)state;
	conversation_with_cuts(4, NULL);
}

static void idle_streams(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(0);
	struct link link = { 0 };

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	assert_true(conversation_cut_all() > 0); /* also before anything came over them, and seen by nobody but the service */
	usleep(1200000);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(link_exchange(&link, 1000 + i * 1000, i), 0);
		assert_true(conversation_cut_all() > 0);
	}
	link_close(&link);
	transport_tcp.close(transport);
}

/* ---- the end of a process, and of a connection ---- */

static int victim_role(int control, const char *argument)
{
	struct transport *transport = conversation_transport(0);
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_listener *listener;
	struct transport_connection *sender, *receiver;

	(void)argument;
	assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &sender), 0);
	assert_int_equal(transport_tcp.listen(transport, 0, handle, &listener), 0);
	assert_int_equal(peer_write(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_accept(&transport_tcp, listener, &receiver), 0);
	assert_int_equal(peer_write(control, "r", 1), 0);
	(void)peer_read(control, handle, 1);
	return 0;
}

/* Of a killed process on this host both its sender and its receiver hear long before the time-out. */
static void killed_process_is_noticed_before_the_time_out(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(0);
	struct link link = { .ops = &transport_tcp };
	struct transport_request *requests[2] = { NULL };
	uint8_t handle[TRANSPORT_HANDLE_BYTES], *data = calloc(1, BYTES_MOST);
	void *at = data, *registration = NULL;
	size_t bytes = BYTES_MOST;
	struct peer peer;
	int tag = 0;

	(void)state;
	assert_int_equal(peer_start("victim", "", &peer), 0);
	assert_int_equal(transport_tcp.listen(transport, 0, link.handle, &link.listener), 0);
	assert_int_equal(peer_write(peer.control, link.handle, sizeof(link.handle)), 0);
	assert_int_equal(link_accept(&transport_tcp, link.listener, &link.receiver), 0);
	assert_int_equal(peer_read(peer.control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &link.sender), 0);
	assert_int_equal(peer_read(peer.control, handle, 1), 0);
	assert_int_equal(transport_tcp.receive(link.receiver, 1, &at, &bytes, &tag, &registration, &requests[0]), 0);
	assert_int_equal(transport_tcp.send(link.sender, data, BYTES_MOST, 0, NULL, &requests[1]), 0);
	kill(peer.pid, SIGKILL);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(link_finish(&transport_tcp, requests[i], NULL), -EREMOTEIO);
	peer_stop(&peer);
	link_close(&link);
	transport_tcp.close(transport);
	free(data);
}

/* The sender's user gives it up with a send under way: the receiver need not wait for streams that never come back. */
static void abandoned_sender_is_noticed_before_the_time_out(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(0);
	struct link link = { 0 };
	struct transport_request *receive = NULL, *send = NULL;
	uint8_t *data = calloc(1, BYTES_MOST), *other = calloc(1, BYTES_MOST);
	void *at = data, *registration = NULL;
	size_t bytes = BYTES_MOST;
	int tag = 0;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	assert_int_equal(transport_tcp.receive(link.receiver, 1, &at, &bytes, &tag, &registration, &receive), 0);
	assert_int_equal(transport_tcp.send(link.sender, other, BYTES_MOST, 1, NULL, &send), 0); /* another tag's */
	transport_tcp.close_connection(link.sender);
	link.sender = NULL;
	assert_int_equal(link_finish(&transport_tcp, receive, NULL), -EREMOTEIO);
	link_close(&link);
	transport_tcp.close(transport);
	free(data);
	free(other);
}

/* What it has said last has arrived, and the receiver says so: there is nothing to dial anew for. */
static void a_close_in_good_order_dials_nothing_anew(void **state)
{
	static const unsigned streams[] = { 0, 1, 3 };

	(void)state;
	log_lines_start("They are dialled anew");
	for (unsigned i = 0; i < 3 * sizeof(streams) / sizeof(streams[0]); i++) {
		struct transport *transport = conversation_transport(streams[i / 3]);
		uint8_t sent = 7, *data = calloc(1, BYTES_MOST);
		struct transport_request *receive = NULL;
		void *at = data, *registration = NULL;
		size_t bytes = BYTES_MOST;
		struct link link = { 0 };
		int tag = 0;

		assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
		assert_int_equal(link_exchange(&link, BYTES_MOST, i), 0);
		assert_int_equal(link_send(&transport_tcp, link.sender, &sent, 1, 5), 0);
		transport_tcp.close_connection(link.sender);
		link.sender = NULL;
		assert_int_equal(transport_tcp.receive(link.receiver, 1, &at, &bytes, &tag, &registration, &receive),
				 0);
		assert_int_equal(link_finish(&transport_tcp, receive, NULL), -EREMOTEIO);
		link_close(&link);
		transport_tcp.close(transport); /* when the sender is through */
		free(data);
	}
	log_set_sink(NULL);
	assert_int_equal(log_lines()->found, 0);
}

/* A receiver says that it closes over one stream; its sender reads the end of another first. */
static void a_receiver_that_closes_loses_no_stream(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 12; i++) {
		struct transport *transport = conversation_transport_for_an_hour(2 + i % 3);
		struct transport_counters counters;
		struct link link = { 0 };
		uint8_t byte = 7;

		assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
		for (unsigned k = 0; k < i; k++)
			assert_int_equal(link_exchange(&link, BYTES_MOST, k), 0);
		transport_tcp.close_connection(link.receiver);
		link.receiver = NULL;
		while (!link_send(&transport_tcp, link.sender, &byte, 1, 5))
			runtime_nap();
		transport_tcp.device_counters(transport, 0, &counters);
		assert_int_equal(counters.totals.streams_lost, 0);
		link_close(&link);
		transport_tcp.close(transport);
	}
}

static void take_for_primary(struct transport_connection *opaque, uint8_t index)
{
	struct tcp_connection *connection = (struct tcp_connection *)opaque;

	pthread_mutex_lock(&connection->lock);
	if (connection->role == TCP_SENDER)
		connection->s.primary = index;
	else
		connection->hot = index;
	connection->poll_count = 0; /* the next look is at all streams, in their order */
	pthread_mutex_unlock(&connection->lock);
}

/* DONE goes out over the second stream, BYE over the first, which is read first. Every byte had arrived. */
static void what_is_done_comes_before_the_receiver_closes(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(2);
	uint8_t *out = calloc(1, BYTES_MOST), *in = calloc(1, BYTES_MOST);

	(void)state;
	assert_true(out && in);
	for (unsigned i = 0; i < 20; i++) {
		struct transport_request *send = NULL, *receive = NULL;
		void *at = in, *registration = NULL;
		size_t bytes = BYTES_MOST;
		struct link link = { 0 };
		bool done = false;
		int tag = 0;

		assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
		take_for_primary(link.sender, 1);
		while (!send)
			assert_int_equal(transport_tcp.send(link.sender, out, BYTES_MOST, 0, NULL, &send), 0);
		assert_int_equal(transport_tcp.receive(link.receiver, 1, &at, &bytes, &tag, &registration, &receive),
				 0);
		while (!done) {
			bool ignored;

			assert_int_equal(transport_tcp.test(receive, &done, &bytes), 0);
			if (!done)
				assert_int_equal(transport_tcp.test(send, &ignored, NULL), 0);
		}
		take_for_primary(link.receiver, 0);
		take_for_primary(link.sender, 1);
		transport_tcp.close_connection(link.receiver);
		link.receiver = NULL;
		assert_int_equal(link_finish(&transport_tcp, send, NULL), 0);
		link_close(&link);
	}
	transport_tcp.close(transport);
	free(out);
	free(in);
}

/* No firewall is blamed for a limit. */
static void without_descriptors_the_limit_is_named(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(1);
	struct tcp_transport *tcp = (struct tcp_transport *)transport;
	struct transport_connection *sender = NULL;
	struct rlimit limit, none;
	struct link link;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = (struct rlimit){ 0, limit.rlim_max };
	log_lines_start("Raise the limit (ulimit -n)");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	/* As the service thread does at any time: nobody connects, so nothing is said. */
	pthread_mutex_lock(&tcp->lock);
	tcp_acceptors_progress(tcp, clock_now_ns());
	pthread_mutex_unlock(&tcp->lock);
	assert_int_equal(log_lines()->found, 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, link.handle, &sender), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(log_lines()->found, 1);
	assert_null(strstr(log_lines()->text, "firewall"));
	log_set_sink(NULL);
	link_close(&link);
	transport_tcp.close(transport);
}

/* ---- forked children, and the last word ---- */

/* It holds copies of all sockets of its parent, as a data loader does. Ended by closing the write end. */
static pid_t child_with_copies(int *ret_end)
{
	int ends[2];
	pid_t child;
	char unused;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], &unused, 1) == 0 ? 0 : 1);
	}
	close(ends[0]);
	*ret_end = ends[1];
	return child;
}

static int parent_role(int control, const char *argument)
{
	struct transport *transport = conversation_transport(0);
	uint8_t handle[TRANSPORT_HANDLE_BYTES];
	struct transport_connection *sender, *receiver;
	struct transport_listener *listener;
	int end;

	(void)argument;
	assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &sender), 0);
	assert_int_equal(transport_tcp.listen(transport, 0, handle, &listener), 0);
	assert_int_equal(peer_write(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_accept(&transport_tcp, listener, &receiver), 0);
	assert_true(child_with_copies(&end) > 0);
	transport_tcp.close_connection(sender);
	transport_tcp.close_connection(receiver);
	transport_tcp.close_listener(listener);
	transport_tcp.close(transport);
	assert_int_equal(peer_write(control, handle, sizeof(handle)), 0); /* whose process listens no more */
	(void)peer_read(control, handle, 1);
	close(end);
	return 0;
}

/* Its child has copies of all that it closes: of connections and of what listens. */
static void end_beside_a_forked_child_is_noticed_before_the_time_out(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(0);
	struct link link = { .ops = &transport_tcp };
	struct transport_request *receive = NULL;
	struct transport_connection *late = NULL;
	uint8_t handle[TRANSPORT_HANDLE_BYTES], byte;
	void *at = &byte, *registration = NULL;
	size_t bytes = 1;
	struct peer peer;
	int tag = 0;

	(void)state;
	assert_int_equal(peer_start("parent", "", &peer), 0);
	assert_int_equal(transport_tcp.listen(transport, 0, link.handle, &link.listener), 0);
	assert_int_equal(peer_write(peer.control, link.handle, sizeof(link.handle)), 0);
	assert_int_equal(link_accept(&transport_tcp, link.listener, &link.receiver), 0);
	assert_int_equal(transport_tcp.receive(link.receiver, 1, &at, &bytes, &tag, &registration, &receive), 0);
	assert_int_equal(peer_read(peer.control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &link.sender), 0);
	assert_int_equal(peer_read(peer.control, handle, sizeof(handle)), 0);
	assert_int_equal(link_finish(&transport_tcp, receive, NULL), -EREMOTEIO);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &late), -EREMOTEIO);
	assert_int_equal(peer_write(peer.control, "e", 1), 0);
	assert_int_equal(peer_wait(&peer, 60000), 0);
	link_close(&link);
	transport_tcp.close(transport);
}

/* So few that the receiver has nothing to report of its window: a word that is unread could cost the last of them. */
enum { LAST_WORDS = 12, LAST_WORDS_BEFORE = 8 };

static int last_word_role(int control, const char *argument)
{
	struct transport *transport = conversation_transport(0);
	struct transport_connection *sender;
	struct transport_request *request;
	uint8_t handle[TRANSPORT_HANDLE_BYTES], data[1000];

	(void)argument;
	assert_int_equal(peer_read(control, handle, sizeof(handle)), 0);
	assert_int_equal(link_connect(&transport_tcp, transport, 0, handle, &sender), 0);
	pattern_fill(data, sizeof(data), 4);
	for (unsigned i = 0; i + 1 < LAST_WORDS; i++)
		assert_int_equal(link_send(&transport_tcp, sender, data, sizeof(data), 0), 0);
	assert_int_equal(transport_tcp.send(sender, data, sizeof(data), 0, NULL, &request), 0);
	_exit(request != NULL ? 0 : 1); /* nothing is closed */
}

static void last_small_sends_of_a_process_arrive(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 5; round++) {
		struct transport *transport = conversation_transport(0);
		struct link link = { .ops = &transport_tcp };
		uint8_t data[1000];
		struct peer peer;
		size_t bytes;

		assert_int_equal(peer_start("last_word", "", &peer), 0);
		assert_int_equal(transport_tcp.listen(transport, 0, link.handle, &link.listener), 0);
		assert_int_equal(peer_write(peer.control, link.handle, sizeof(link.handle)), 0);
		assert_int_equal(link_accept(&transport_tcp, link.listener, &link.receiver), 0);
		for (unsigned i = 0; i < LAST_WORDS; i++) {
			if (i == LAST_WORDS_BEFORE) /* the rest is received when the process has ended */
				assert_int_equal(peer_wait(&peer, 60000), 0);
			assert_int_equal(link_receive(&transport_tcp, link.receiver, data, sizeof(data), 0, &bytes), 0);
			assert_int_equal(bytes, sizeof(data));
			assert_true(pattern_wrong_at(data, bytes, 4) == SIZE_MAX);
		}
		assert_int_equal(link_receive(&transport_tcp, link.receiver, data, sizeof(data), 0, &bytes),
				 -EREMOTEIO);
		link_close(&link);
		transport_tcp.close(transport);
	}
}

/*
 * While another stream lives, its interface is known to reach the peer: the dial may not leave it. Then it keeps its socket for
 * the next share of the time-out, too, or no connect would live for a round trip.
 */
static void a_dial_that_may_not_leave_its_interface_has_its_time(void **state)
{
	const uint64_t timeout_ns = 10 * NS_PER_S, now_ns = 7 * NS_PER_S;
	struct tcp_dial dial = { .pin = TCP_PIN_BOTH, .next_pin_ns = now_ns - 1 };

	(void)state;
	assert_false(tcp_pin_give_up(&dial, -ETIMEDOUT, timeout_ns, now_ns));
	assert_true(dial.next_pin_ns >= now_ns + timeout_ns / 8);
	assert_int_equal(dial.pin, TCP_PIN_BOTH);
	dial.may_unpin = true;
	assert_true(tcp_pin_give_up(&dial, -ETIMEDOUT, timeout_ns, dial.next_pin_ns));
	assert_int_equal(dial.pin, TCP_PIN_NONE);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Both ends are of one device. Again until all is seen: a connection that somebody uses is counted as it was before. */
static struct transport_counters counted(struct transport *transport, uint64_t messages, uint64_t bytes,
					 uint64_t streams)
{
	uint64_t deadline_ns = runtime_deadline_ns(LINK_PATIENCE_MS);
	struct transport_counters counters;

	do {
		assert_false(runtime_past(deadline_ns));
		transport_tcp.device_counters(transport, 0, &counters);
	} while (least(counters.totals.sent_messages, counters.totals.received_messages) < messages ||
		 least(counters.totals.sent_bytes, counters.totals.received_bytes) < bytes ||
		 least(counters.totals.streams_lost, counters.totals.streams_redialled) < streams);
	assert_int_equal(counters.totals.sent_messages, messages);
	assert_int_equal(counters.totals.received_messages, messages);
	assert_int_equal(counters.totals.connections_opened, 2);
	assert_int_equal(counters.totals.connections_failed, 0);
	return counters;
}

/* For metrics: nothing is lost with a socket or a connection, and nothing counts twice. */
static void what_is_counted_outlives_sockets_and_connections(void **state)
{
	struct transport *transport = conversation_transport_for_an_hour(2);
	struct transport_counters counters;
	struct link link;

	(void)state;
	assert_int_equal(link_open(&transport_tcp, transport, 0, &link), 0);
	for (uint64_t i = 0; i < 10; i++)
		assert_int_equal(link_exchange(&link, BYTES_MOST, i), 0);
	counters = counted(transport, 10, 10 * BYTES_MOST, 0);
	assert_true(counters.totals.sent_bytes < 11 * BYTES_MOST);
	assert_int_equal(counters.totals.streams_lost, 0);
	assert_int_equal(counters.connections, 2);
	assert_true(conversation_cut_all() >= 4);
	assert_int_equal(link_exchange(&link, BYTES_MOST, 11), 0);
	counters = counted(transport, 11, 11 * BYTES_MOST, 2);
	link_close(&link);
	assert_true(counted(transport, 11, 11 * BYTES_MOST, 2).totals.sent_bytes >= counters.totals.sent_bytes);
	transport_tcp.close(transport);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = {
		{ "victim", victim_role }, { "parent", parent_role }, { "last_word", last_word_role }, { NULL, NULL }
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_counted_outlives_sockets_and_connections),
		cmocka_unit_test(a_dial_that_may_not_leave_its_interface_has_its_time),
		cmocka_unit_test(one_stream),
		cmocka_unit_test(two_streams),
		cmocka_unit_test(three_streams),
		cmocka_unit_test(four_streams),
		cmocka_unit_test(idle_streams),
		cmocka_unit_test(killed_process_is_noticed_before_the_time_out),
		cmocka_unit_test(abandoned_sender_is_noticed_before_the_time_out),
		cmocka_unit_test(a_close_in_good_order_dials_nothing_anew),
		cmocka_unit_test(a_receiver_that_closes_loses_no_stream),
		cmocka_unit_test(what_is_done_comes_before_the_receiver_closes),
		cmocka_unit_test(without_descriptors_the_limit_is_named),
		cmocka_unit_test(end_beside_a_forked_child_is_noticed_before_the_time_out),
		cmocka_unit_test(last_small_sends_of_a_process_arrive),
	};

	peer_main(argc, argv, roles, 60);
	runtime_start("redial_test", 60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
