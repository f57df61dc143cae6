/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a queue fails. Both sides stop it for good before anything that it carried goes elsewhere: it is put into the error
 * state, in which nothing is written any more, and then all that it had received is taken, which ends with the last of its
 * posted receives. Then it is reset, and the other side is told how many notices came over it: what is beyond that was
 * not delivered. No late packet can write into a buffer that was given back.
 *
 *   state      here                                          what ends it
 *   live       carries descriptors and data                        an error, the peer's STOPPED, its port going down
 *   stopping   error state, its receives are being taken     none is left: reset, STOPPED is said
 *   stopped    nothing                                       the peer's STOPPED: what was not delivered is given back
 *   resting    no queue pair                                 connecting side: after a while a new one, BUILD;
 *                                                            accepting side: BUILD
 *   connecting a new queue pair, which a thread connects     it is connected: BUILT, or READY by the connecting side
 *   joining    a new queue pair                              connecting side: BUILT; accepting side: READY
 *   proving    one write of no bytes                         it is delivered: live; an error
 *
 * A queue that is connected may carry nothing, so no part of a message goes over it before that write has arrived, also
 * when the connection is made. No queue is built over a port that is down at either end: each end says PORT when one of
 * its ports goes down or up. The spare has no rails of its own, and is built when no other queue is live (reserve.h).
 *
 * A card that has failed says nothing more of its queues: they are stopped as they stand, and are not built anew.
 *
 * Losses have no limit as long as something of a message arrives between them. When nothing does, the connection waits for
 * a queue that carries something: for TRIBUTARY_TIMEOUT, twice that while one is live. A stopped queue waits for the peer's
 * word as long as the control connection is heard, and TRIBUTARY_TIMEOUT beyond (life.c).
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "transport/verbs/reserve.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define BUILD_FIRST_NS (100 * NS_PER_MS)
#define BUILD_MOST_NS  (5 * NS_PER_S)
#define ASK_AGAIN_NS   (20 * NS_PER_MS)

enum {
	CARRIES_WELL = VERBS_ITEMS, /* items that arrived: the failures before are forgotten */
	LONE_PARTS = 8,             /* of TRIBUTARY_TIMEOUT: one is the longest wait with no other queue */
};

static void say(struct verbs_connection *connection, enum verbs_frame_type type, const struct verbs_queue *queue)
{
	struct verbs_wire_frame frame = {
		.type = type, .queue = (uint8_t)queue->index, .epoch = queue->epoch, .count = (uint32_t)queue->notices
	};

	frame.there = (uint8_t)queue->peer_rail;
	if (type == VERBS_FRAME_BUILD || type == VERBS_FRAME_BUILT)
		frame.made = verbs_queue_itself(connection, queue);
	verbs_control_say(connection, &frame);
}

static void protocol_error(struct verbs_connection *connection)
{
	verbs_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
}

/* ---- stopping ---- */

static bool is_lost(const struct verbs_connection *connection, const struct verbs_queue *queue)
{
	return verbs_card_is_lost(connection->rails[queue->rail].port->card);
}

static void wait_to_build(struct verbs_queue *queue)
{
	queue->build_at_ns = queue->rested_ns + queue->build_wait_ns;
	queue->build_wait_ns = queue->build_wait_ns ? 2 * queue->build_wait_ns : BUILD_FIRST_NS;
	if (queue->build_wait_ns > BUILD_MOST_NS)
		queue->build_wait_ns = BUILD_MOST_NS;
}

/*
 * A new one is tried later after each failure, for what a bad path carries is held up by it, and others go on. With no other
 * the wait is short, and there is none if the queue has carried something: that path works. path.c has a wait for the path.
 */
static void plan_build(struct verbs_connection *connection, struct verbs_queue *queue)
{
	const uint64_t delivered = queue->peer_notices - VERBS_WIRE_FIRST_COUNT;
	const bool carried = delivered || queue->notices != VERBS_WIRE_FIRST_COUNT;

	if (delivered >= CARRIES_WELL)
		queue->build_wait_ns = 0;
	queue->rested_ns = clock_now_ns();
	queue->lone_wait_ns = carried || queue->spare
				      ? 0
				      : params_replace_ns(connection->transport->params->timeout_ns) / LONE_PARTS;
	wait_to_build(queue);
}

static bool build_is_due(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t now_ns)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	const bool lone = !connection->live_count;

	if (now_ns < queue->build_at_ns && !(lone && clock_elapsed_ns(queue->rested_ns, now_ns) >= queue->lone_wait_ns))
		return false;
	if (clock_elapsed_ns(queue->path_asked_ns, now_ns) < ASK_AGAIN_NS)
		return false;
	queue->path_asked_ns = now_ns;
	if (queue->spare)
		return lone && connection->stuck_since_ns && verbs_spare_choose(connection, queue, now_ns);
	return !verbs_port_is_down(ends.here) && !verbs_peer_is_down(connection, queue->peer_rail, now_ns) &&
	       verbs_path_is_open(&connection->transport->paths, &ends, lone, now_ns);
}

/* Both sides have stopped it. */
static void settle(struct verbs_connection *connection, struct verbs_queue *queue)
{
	if (queue->state != VERBS_QUEUE_STOPPED || !queue->peer_stopped)
		return;
	if (queue->peer_notices < queue->head || queue->peer_notices > queue->tail) {
		protocol_error(connection);
		return;
	}
	for (; queue->head != queue->tail; queue->head++) {
		struct verbs_item item = queue->items[queue->head % VERBS_ITEMS];

		if (queue->peer_notices > queue->head) {
			verbs_completion_delivered(connection, &item);
			continue;
		}
		queue->data_sent -= item.kind == VERBS_ITEM_DATA;
		if (item.kind != VERBS_ITEM_PROOF)
			verbs_sender_lost(connection, &item);
	}
	verbs_queue_destroy(connection, queue);
	queue->state = VERBS_QUEUE_RESTING;
	queue->peer_stopped = false;
	plan_build(connection, queue);
	if (connection->primary == queue->index)
		connection->settled = true;
}

static void stop(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t now_ns)
{
	const bool lost = is_lost(connection, queue);
	bool more;

	if (lost && queue->receives) { /* nothing gives them back; what had arrived is still there */
		verbs_completion_poll(connection, UINT_MAX, &more);
		if (connection->error || queue->state != VERBS_QUEUE_STOPPING)
			return;
	} else if (queue->receives) {
		if (clock_elapsed_ns(queue->stopping_since_ns, now_ns) > connection->transport->params->timeout_ns)
			verbs_connection_fail(connection, -EREMOTEIO, "a queue that failed does not end");
		return;
	}
	if (verbs_queue_to(connection, queue, IBV_QPS_RESET) < 0 && !lost) {
		verbs_connection_fail(connection, -EREMOTEIO, "a queue that failed cannot be reset");
		return;
	}
	queue->state = VERBS_QUEUE_STOPPED;
	say(connection, VERBS_FRAME_STOPPED, queue);
	settle(connection, queue);
}

/* The peer has stopped the queue. */
static void stop_too(struct verbs_connection *connection, struct verbs_queue *queue)
{
	if (queue->state == VERBS_QUEUE_CONNECTING)
		return;                            /* when that has ended */
	if (queue->state == VERBS_QUEUE_RESTING) { /* it never stood here in this epoch */
		queue->peer_stopped = false;
		if (connection->role == VERBS_RECEIVER)
			say(connection, VERBS_FRAME_STOPPED, queue);
		return;
	}
	verbs_queue_lost(connection, queue, "the peer has stopped it");
	settle(connection, queue);
}

static void stopped_there(struct verbs_connection *connection, struct verbs_queue *queue,
			  const struct verbs_wire_frame *frame)
{
	queue->peer_stopped = true;
	queue->peer_notices = verbs_wire_count(queue->head, frame->count);
	stop_too(connection, queue);
}

/* ---- building anew ---- */

static void proves(struct verbs_connection *connection, struct verbs_queue *queue)
{
	queue->state = VERBS_QUEUE_PROVING;
	if (verbs_queue_post_proof(connection, queue) < 0)
		verbs_queue_lost(connection, queue, "it takes no write");
}

/* It could not be built, here or there: as after a failure. */
static void rest(struct verbs_connection *connection, struct verbs_queue *queue)
{
	verbs_queue_destroy(connection, queue);
	queue->state = VERBS_QUEUE_RESTING;
	queue->notices = VERBS_WIRE_FIRST_COUNT;
	queue->build_asked = false;
	queue->rested_ns = clock_now_ns();
	queue->lone_wait_ns = BUILD_FIRST_NS;
	wait_to_build(queue);
}

static void build(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t now_ns)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	int r;

	if (queue->spare)
		connection->tried_ns[queue->rail][queue->peer_rail] = now_ns;
	queue->epoch++;
	r = verbs_queue_create(connection, queue);
	if (r < 0 && verbs_reserve_is(connection, queue->rail))
		verbs_reserve_off(connection, r);
	if (r < 0 || !verbs_path_take(&connection->transport->paths, &ends, !connection->live_count, now_ns)) {
		rest(connection, queue);
		return;
	}
	queue->build_asked = true;
	say(connection, VERBS_FRAME_BUILD, queue);
}

static void asked_to_build(struct verbs_connection *connection, struct verbs_queue *queue,
			   const struct verbs_wire_frame *frame)
{
	struct verbs_path_ends ends;

	if (queue->state != VERBS_QUEUE_RESTING || frame->epoch <= queue->epoch ||
	    frame->made.rail >= connection->peer.rail_count ||
	    (queue->spare ? frame->there >= connection->rail_count : frame->there != queue->rail)) {
		protocol_error(connection);
		return;
	}
	queue->epoch = frame->epoch;
	queue->rail = frame->there;
	queue->peer = frame->made;
	queue->peer_rail = frame->made.rail;
	ends = verbs_queue_ends(connection, queue);
	(void)verbs_path_take(&connection->transport->paths, &ends, false, clock_now_ns()); /* the peer's try is ours */
	if (!verbs_port_is_down(ends.here) && !verbs_reserve_is_off(connection, queue->rail) &&
	    verbs_queue_create(connection, queue) == 0 && verbs_queue_connect(connection, queue) == 0)
		return;
	rest(connection, queue);
	say(connection, VERBS_FRAME_BUILT, queue);
}

static void built_there(struct verbs_connection *connection, struct verbs_queue *queue,
			const struct verbs_wire_frame *frame)
{
	if (queue->state != VERBS_QUEUE_JOINING || !queue->build_asked)
		return; /* it has failed meanwhile, and STOPPED says so */
	queue->build_asked = false;
	if (!frame->made.number || frame->made.rail >= connection->peer.rail_count) {
		if (connection->peer_down_ns[queue->peer_rail])
			connection->peer_down_ns[queue->peer_rail] = clock_now_ns(); /* it still is */
		else
			verbs_queue_failed(connection, queue); /* there, most likely for the path */
		rest(connection, queue);
		return;
	}
	queue->peer = frame->made;
	queue->peer_rail = frame->made.rail;
	if (verbs_queue_connect(connection, queue) < 0)
		verbs_queue_lost(connection, queue, "it could not be connected");
}

static void connected(struct verbs_connection *connection, struct verbs_queue *queue, int result)
{
	if (connection->role == VERBS_RECEIVER) {
		if (result < 0) {
			verbs_queue_failed(connection, queue);
			rest(connection, queue);
		}
		say(connection, VERBS_FRAME_BUILT, queue);
	} else if (result < 0) {
		verbs_queue_lost(connection, queue, "it could not be connected");
	} else {
		say(connection, VERBS_FRAME_READY, queue);
		proves(connection, queue);
	}
	if (queue->peer_stopped)
		stop_too(connection, queue);
}

void verbs_failover_begin(struct verbs_connection *connection)
{
	unsigned proving = 0;

	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];

		if (!queue->qp)
			rest(connection, queue);
		else if (queue->try.result < 0)
			verbs_queue_lost(connection, queue, "it could not be connected");
		else
			proves(connection, queue);
		proving += queue->state == VERBS_QUEUE_PROVING;
	}
	if (!proving && !connection->stuck_since_ns)
		connection->stuck_since_ns = clock_now_ns();
}

/* ---- */

/* What failed before a port was up again says nothing of it. */
static void build_at_once(struct verbs_connection *connection, struct verbs_queue *queue)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);

	queue->build_at_ns = queue->build_wait_ns = queue->path_asked_ns = 0;
	verbs_path_is_up(&connection->transport->paths, &ends, clock_now_ns());
}

static void port_there(struct verbs_connection *connection, const struct verbs_wire_frame *frame)
{
	const unsigned rail = frame->made.rail;

	if (rail >= connection->peer.rail_count) {
		protocol_error(connection);
		return;
	}
	connection->peer_down_ns[rail] = frame->count ? 0 : clock_now_ns();
	for (unsigned i = 0; frame->count && i < connection->queue_count; i++)
		if (connection->queues[i].peer_rail == rail)
			build_at_once(connection, &connection->queues[i]);
}

static void tell_ports(struct verbs_connection *connection)
{
	for (unsigned i = 0; i < connection->rail_count && !connection->error; i++) {
		struct verbs_rail *rail = &connection->rails[i];
		const bool down = verbs_port_is_down(rail->port) || verbs_reserve_is_off(connection, i);
		const struct verbs_wire_frame frame = { .type = VERBS_FRAME_PORT,
							.count = !down,
							.made.rail = (uint8_t)i };

		if (down == rail->told_down)
			continue;
		rail->told_down = down;
		verbs_control_say(connection, &frame);
		for (unsigned k = 0; !down && k < connection->queue_count; k++)
			if (connection->queues[k].rail == i)
				build_at_once(connection, &connection->queues[k]);
	}
}

void verbs_failover_frame(struct verbs_connection *connection, const struct verbs_wire_frame *frame)
{
	struct verbs_queue *queue = &connection->queues[frame->queue];
	const bool sends = connection->role == VERBS_SENDER;

	if (frame->queue >= connection->queue_count) {
		protocol_error(connection);
		return;
	}
	if (frame->type == VERBS_FRAME_PORT) {
		port_there(connection, frame);
		return;
	}
	if (frame->type == VERBS_FRAME_BUILD && !sends) {
		asked_to_build(connection, queue, frame);
		return;
	}
	if (frame->epoch != queue->epoch)
		return; /* of a queue that is no more */
	if (frame->type == VERBS_FRAME_STOPPED)
		stopped_there(connection, queue, frame);
	else if (frame->type == VERBS_FRAME_BUILT && sends)
		built_there(connection, queue, frame);
	else if (frame->type != VERBS_FRAME_READY || sends)
		protocol_error(connection);
	else if (queue->state == VERBS_QUEUE_JOINING)
		proves(connection, queue);
}

/* Another one must be there to take what it carries, or a way for the spare. */
static bool should_leave(const struct verbs_connection *connection, const struct verbs_queue *queue, uint64_t now_ns)
{
	if (!verbs_port_is_down(connection->rails[queue->rail].port))
		return false;
	for (unsigned i = 0; i < connection->queue_count; i++)
		if (connection->queues[i].state == VERBS_QUEUE_LIVE &&
		    !verbs_port_is_down(connection->rails[connection->queues[i].rail].port))
			return true;
	return verbs_spare_has_way(connection, now_ns);
}

/*
 * All of its cards have failed; where it receives into memory of GPUs, one that may have written there. To read back
 * through the card is the only way to know that the GPU sees what it wrote.
 */
static bool is_without_cards(const struct verbs_connection *connection)
{
	const bool gpu = connection->role == VERBS_RECEIVER && connection->r.has_loops;
	bool writes_are_lost = false;
	unsigned lost = 0;

	for (unsigned i = 0; i < connection->rail_count; i++) {
		const bool is_lost = verbs_card_is_lost(connection->rails[i].port->card);

		lost += is_lost || verbs_reserve_is_off(connection, i);
		writes_are_lost |= is_lost && (!verbs_reserve_is(connection, i) || connection->rails[i].unflushed);
	}
	return (gpu && writes_are_lost) || lost == connection->rail_count;
}

/* A device gives up within half of the time-out. One that neither delivers nor says so has lost the request. */
static bool stands_still(const struct verbs_connection *connection, struct verbs_queue *queue, uint64_t now_ns)
{
	if (queue->head == queue->tail || queue->head != queue->waits_for || !queue->waits_since_ns) {
		queue->waits_for = queue->head;
		queue->waits_since_ns = now_ns;
	}
	return clock_elapsed_ns(queue->waits_since_ns, now_ns) >
	       params_replace_ns(connection->transport->params->timeout_ns);
}

/* A queue is live, and there is nothing that it could show its worth with. */
static bool is_idle(const struct verbs_connection *connection)
{
	for (unsigned i = 0; i < connection->queue_count; i++)
		if (connection->queues[i].head != connection->queues[i].tail)
			return false;
	return connection->live_count > 0;
}

static bool retries_are_longer(const struct verbs_connection *connection)
{
	return verbs_fabric_retries_ns(&connection->transport->cards.fabric) >
	       connection->transport->params->timeout_ns;
}

/* A queue that is live may go on trying; but of several one or the other is live all the time. */
static bool is_stuck(const struct verbs_connection *connection, uint64_t now_ns)
{
	const struct verbs_transport *transport = connection->transport;
	const uint64_t timeout_ns = max_u64(transport->params->timeout_ns,
					    verbs_fabric_retries_ns(&transport->cards.fabric));

	return connection->stuck_since_ns && clock_elapsed_ns(connection->stuck_since_ns, now_ns) >
						     (connection->live_count ? 2 * timeout_ns : timeout_ns);
}

/* Why it should not stay; NULL: it may. */
static const char *reason_to_stop(const struct verbs_connection *connection, struct verbs_queue *queue, uint64_t now_ns)
{
	const bool live = queue->state == VERBS_QUEUE_LIVE;

	if (is_lost(connection, queue))
		return "its device has failed";
	if (verbs_reserve_is_off(connection, queue->rail))
		return "its device refuses memory";
	if (live && should_leave(connection, queue, now_ns))
		return "its port is down";
	if (live && queue->spare && connection->role == VERBS_SENDER && verbs_spare_is_over(connection))
		return "one on the device's own port carries again";
	if ((live || queue->state == VERBS_QUEUE_PROVING) && stands_still(connection, queue, now_ns))
		return "its device neither delivers nor fails";
	return NULL;
}

static void fail_stuck(struct verbs_connection *connection)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, &connection->queues[0]);
	char path[VERBS_PATH_TEXT_BYTES], why[2 * sizeof(path)];

	snprintf(why, sizeof(why), "no queue has carried anything for the time of %s (%s)",
		 retries_are_longer(connection) ? "NCCL_IB_TIMEOUT" : "TRIBUTARY_TIMEOUT",
		 verbs_path_text(&ends, path));
	verbs_connection_fail(connection, -EREMOTEIO, verbs_control_ports(connection, why, sizeof(why)));
}

void verbs_failover_step(struct verbs_connection *connection, uint64_t now_ns)
{
	if (is_without_cards(connection)) {
		verbs_connection_fail(connection, -EIO, "its RDMA device has failed");
		return;
	}
	tell_ports(connection);
	/* All that can be posted is: what is given back below waits for the next turn, and is not nothing. */
	if (is_idle(connection))
		connection->stuck_since_ns = 0;
	for (unsigned i = 0; i < connection->queue_count && !connection->error; i++) {
		struct verbs_queue *queue = &connection->queues[i];
		const char *reason;
		int result;

		if (queue->state == VERBS_QUEUE_CONNECTING && verbs_queue_connected(queue, &result))
			connected(connection, queue, result);
		reason = reason_to_stop(connection, queue, now_ns);
		if (reason)
			verbs_queue_lost(connection, queue, reason);
		if (queue->state == VERBS_QUEUE_STOPPING)
			stop(connection, queue, now_ns);
		if (queue->state == VERBS_QUEUE_RESTING && connection->role == VERBS_SENDER &&
		    build_is_due(connection, queue, now_ns))
			build(connection, queue, now_ns);
	}
	if (!connection->error && is_stuck(connection, now_ns))
		fail_stuck(connection);
}
