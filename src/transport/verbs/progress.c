/* SPDX-License-Identifier: Apache-2.0 */
/* What both roles share: moving the data of a connection, for its owner or the service thread. */
#include "base/clock.h"
#include "transport/verbs/verbs.h"

#include <errno.h>

/* At the control connections, by callers who poll: while all is well, and while a queue is being replaced. */
#define LOOK_EVERY_NS   (NS_PER_MS / 2)
#define LOOK_OFTEN_NS   (NS_PER_MS / 20)
#define UNATTENDED_NS   (100 * NS_PER_MS)
#define LISTEN_EVERY_NS (20 * NS_PER_MS) /* to what the devices have to tell */
enum { POLL_MOST = 64, LAST_LOOKS = 64, FRAMES_AT_ONCE = 16 };

static bool is_whole(const struct verbs_connection *connection)
{
	const struct verbs_queue *last = &connection->queues[connection->queue_count - 1];

	return connection->live_count == connection->own_queue_count &&
	       !(last->spare && last->state == VERBS_QUEUE_LIVE);
}

/* Takes the events that have come, and asks for the next; nothing for who is not watched. */
static int arm(struct verbs_connection *connection)
{
	const struct verbs_api *api = connection->transport->api;

	for (unsigned i = 0; connection->watch.on && i < connection->rail_count; i++) {
		struct verbs_rail *rail = &connection->rails[i];
		struct ibv_cq *cq;
		void *context;

		if (!rail->used)
			continue;
		while (api->get_cq_event(rail->channel, &cq, &context) == 0)
			rail->events++;
		if (api->req_notify_cq(rail->cq, 0) != 0)
			return -EIO;
	}
	return 0;
}

/* One round over what has come. */
static void move(struct verbs_connection *connection, bool *ret_more)
{
	int r;

	verbs_completion_poll(connection, POLL_MOST, ret_more);
	r = connection->error ? 0 : verbs_completion_take(connection);
	if (r < 0)
		verbs_connection_fail(connection, r == -EPROTO ? -EREMOTEIO : r, "it broke the protocol");
	if (connection->error)
		return;
	if (connection->role == VERBS_SENDER)
		verbs_sender_pump(connection);
	else
		verbs_receiver_tell(connection);
	if (connection->role == VERBS_RECEIVER && connection->r.turn_count)
		verbs_loop_step(connection);
	if (connection->error)
		return;
	verbs_ring_credit(connection);
	verbs_ring_flush(connection);
}

/* The peer's end is known: what it had sent before is here. */
static void ends(struct verbs_connection *connection)
{
	char why[sizeof(connection->why)];
	bool more = true;

	for (unsigned i = 0; i < LAST_LOOKS && more && !connection->error; i++)
		move(connection, &more);
	if (connection->role == VERBS_RECEIVER && connection->r.turn_count)
		return; /* what the card still has to put in its place */
	verbs_connection_fail(connection, -EREMOTEIO, verbs_control_why(connection, why, sizeof(why)));
}

static void listen_to_devices(struct verbs_transport *transport, uint64_t now_ns)
{
	uint64_t last_ns = atomic_load_explicit(&transport->listened_ns, memory_order_relaxed);

	if (clock_elapsed_ns(last_ns, now_ns) > LISTEN_EVERY_NS &&
	    atomic_compare_exchange_strong(&transport->listened_ns, &last_ns, now_ns))
		verbs_devices_listen(&transport->cards);
}

static int take_frame(struct verbs_connection *connection)
{
	struct verbs_wire_frame frame;
	int r = verbs_wire_get_frame(connection->control.received, &frame);

	if (r < 0)
		return -EREMOTEIO;
	if (frame.type == VERBS_FRAME_BYE) {
		connection->peer_closed = true;
		return -EREMOTEIO;
	}
	if (frame.type == VERBS_FRAME_TRUNCATED)
		return verbs_connection_fail(connection, -EMSGSIZE, VERBS_TOO_LONG);
	verbs_failover_frame(connection, &frame);
	return connection->error;
}

static int control_step(struct verbs_connection *connection)
{
	struct verbs_control *control = &connection->control;
	enum transport_next next;
	int r = 0;

	if (connection->watch.on) {
		r = transport_tcp.progress(control->out, &next);
		control->unread = next != TRANSPORT_NEXT_EVENT;
		if (r == 0)
			transport_tcp.progress(control->in, &next); /* its error comes after what had come before */
		control->unread |= next != TRANSPORT_NEXT_EVENT;
	}
	if (r == 0)
		r = verbs_control_push(connection);
	for (unsigned i = 0; i < FRAMES_AT_ONCE && r == 0; i++) {
		int got = verbs_control_receive_bytes(control->in, control->received, &control->receiving);

		if (got == 0)
			return 0;
		r = got < 0 ? got : take_frame(connection);
	}
	return r;
}

static void look(struct verbs_connection *connection, uint64_t now_ns)
{
	int r;

	connection->looked_ns = now_ns;
	listen_to_devices(connection->transport, now_ns);
	verbs_failover_step(connection, now_ns);
	r = connection->error ? 0 : control_step(connection);
	if (r == 0 && !connection->error && !connection->peer_closed)
		r = verbs_life_step(connection, now_ns);
	if ((r < 0 || connection->peer_closed) && !connection->error)
		ends(connection);
}

int verbs_connection_progress(struct verbs_connection *connection, enum transport_next *ret_next)
{
	bool more = false, whole;
	uint64_t now_ns;

	*ret_next = TRANSPORT_NEXT_EVENT;
	if (connection->error)
		return connection->error;
	if (arm(connection) < 0)
		verbs_connection_fail(connection, -EIO, "its completion channel cannot be armed");
	move(connection, &more);
	now_ns = connection->progressed_ns = clock_now_ns();
	whole = is_whole(connection);
	if (!connection->error && (connection->watch.on || clock_elapsed_ns(connection->looked_ns, now_ns) >
								   (whole ? LOOK_EVERY_NS : LOOK_OFTEN_NS)))
		look(connection, now_ns);
	if (more || connection->control.unread)
		*ret_next = TRANSPORT_NEXT_NOW;
	else if (!is_whole(connection) ||
		 (connection->role == VERBS_RECEIVER && (connection->r.paced_count || connection->r.turn_count)))
		*ret_next = TRANSPORT_NEXT_SOON;
	return connection->error;
}

void verbs_connection_look(struct verbs_connection *connection, uint64_t now_ns)
{
	enum transport_next next;
	unsigned ready, live;

	if (pthread_mutex_trylock(&connection->lock) != 0)
		return; /* its owner is at it */
	if (!connection->error && clock_elapsed_ns(connection->progressed_ns, now_ns) > UNATTENDED_NS) {
		ready = connection->ready;
		live = connection->live_count;
		verbs_connection_progress(connection, &next);
		/* The events that told of it are gone. */
		if (next != TRANSPORT_NEXT_EVENT || ready != connection->ready || live != connection->live_count)
			transport_watch_ring(&connection->watch);
	}
	verbs_connection_end(connection);
	pthread_mutex_unlock(&connection->lock);
}

int verbs_connection_test(struct verbs_request *request, bool *ret_done, size_t *sizes)
{
	struct verbs_connection *connection = request->connection;
	enum transport_next next;
	int r = connection->error;

	*ret_done = false;
	if (!request->done && !connection->watch.on)
		r = verbs_connection_progress(connection, &next);
	if (!request->done)
		return r;
	verbs_request_put(request, sizes);
	*ret_done = true;
	return 0;
}
