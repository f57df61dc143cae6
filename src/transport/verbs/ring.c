/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors: each side writes them into a ring in the other's memory, in order, over one queue (the primary). An entry is used
 * again when the peer is known to have taken it; every descriptor says how many of the other ring were taken.
 */
#include "base/bytes.h"
#include "transport/verbs/verbs.h"

#include <string.h>

bool verbs_ring_has_room(const struct verbs_connection *connection)
{
	return connection->out.written - connection->out.taken < VERBS_WIRE_DESCRIPTORS - VERBS_RING_RESERVE;
}

/* Receives that are told of bring the credit of one queue, in turn, so that what flows one way needs no descriptors for it. */
static void put_credit(struct verbs_connection *connection, struct verbs_descriptor *descriptor)
{
	struct verbs_queue *queue = &connection->queues[descriptor->sequence % connection->queue_count];

	descriptor->size = queue->index;
	descriptor->slot = (uint32_t)queue->data_taken;
	queue->data_told = queue->data_taken;
}

uint64_t verbs_ring_put(struct verbs_connection *connection, struct verbs_descriptor *descriptor, const void *extra,
			size_t extra_bytes)
{
	struct verbs_ring_out *out = &connection->out;
	const unsigned at = out->written % VERBS_WIRE_DESCRIPTORS;
	uint8_t *entry = out->copy + (size_t)at * VERBS_WIRE_DESCRIPTOR_BYTES;

	descriptor->sequence = ++out->written;
	descriptor->taken = connection->in.taken;
	connection->in.told = connection->in.taken;
	if (connection->role == VERBS_RECEIVER) {
		descriptor->value = connection->r.window_free;
		connection->r.window_told = connection->r.window_free;
		descriptor->pieces = (uint8_t)connection->r.pieces_free;
		connection->r.pieces_told = connection->r.pieces_free;
	}
	if (descriptor->type == VERBS_DESCRIPTOR_SLOTS)
		put_credit(connection, descriptor);
	verbs_wire_put_descriptor(descriptor, entry);
	if (extra_bytes)
		memcpy(entry + VERBS_WIRE_HEAD_BYTES, extra, extra_bytes);
	out->bytes[at] = (uint16_t)(VERBS_WIRE_HEAD_BYTES + extra_bytes);
	out->requests[at] = NULL;
	out->payload[at] = 0;
	out->offsets[at] = 0;
	out->staged[at] = false;
	out->credit[at] = descriptor->type == VERBS_DESCRIPTOR_CREDIT;
	return descriptor->sequence;
}

/* Queues of ports that are down are for want of others only. */
static struct verbs_queue *choose_primary(struct verbs_connection *connection)
{
	struct verbs_queue *primary = &connection->queues[connection->primary], *second = NULL;

	if (primary->state == VERBS_QUEUE_LIVE)
		return primary;
	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];

		if (queue->state != VERBS_QUEUE_LIVE)
			continue;
		second = queue;
		if (!verbs_port_is_down(connection->rails[queue->rail].port))
			break;
	}
	if (second)
		connection->primary = second->index;
	return second;
}

void verbs_ring_flush(struct verbs_connection *connection)
{
	struct verbs_ring_out *out = &connection->out;

	/* After a stop nothing goes before it is known which descriptors had arrived: they arrive in order. */
	while (connection->settled && out->posted != out->written && !connection->error) {
		struct verbs_queue *primary = choose_primary(connection);

		if (!primary || !verbs_queue_has_room(primary))
			return;
		if (verbs_queue_post_descriptor(connection, primary, out->posted + 1) < 0)
			verbs_queue_lost(connection, primary, "a descriptor could not be posted");
		else
			out->posted++;
	}
}

static bool credit_is_due(const struct verbs_connection *connection)
{
	if (connection->in.taken - connection->in.told >= VERBS_WIRE_DESCRIPTORS / 2)
		return true;
	/* Unasked: whoever waits for a place has filled all of them. */
	if (connection->role == VERBS_RECEIVER &&
	    connection->r.pieces_free - connection->r.pieces_told >= VERBS_PIECES / 2)
		return true;
	for (unsigned i = 0; i < connection->queue_count; i++)
		if (connection->queues[i].data_taken - connection->queues[i].data_told >= VERBS_DATA_CREDIT / 2)
			return true;
	return false;
}

static void put_all_credit(struct verbs_connection *connection, bool asks)
{
	struct verbs_descriptor descriptor = { .type = VERBS_DESCRIPTOR_CREDIT,
					       .count = (uint8_t)connection->queue_count,
					       .size = asks };
	uint8_t extra[4 * VERBS_WIRE_QUEUES_MAX];

	for (unsigned i = 0; i < connection->queue_count; i++) {
		struct verbs_queue *queue = &connection->queues[i];

		queue->data_told = queue->data_taken;
		bytes_put(extra + 4 * (size_t)i, queue->data_taken & UINT32_MAX, 4);
	}
	verbs_ring_put(connection, &descriptor, extra, 4 * (size_t)connection->queue_count);
}

void verbs_ring_credit(struct verbs_connection *connection)
{
	if (credit_is_due(connection) && connection->out.written - connection->out.taken < VERBS_WIRE_DESCRIPTORS)
		put_all_credit(connection, false);
}

bool verbs_ring_beat(struct verbs_connection *connection, bool asks)
{
	if (!verbs_ring_has_room(connection))
		return false;
	put_all_credit(connection, asks);
	verbs_ring_flush(connection);
	return true;
}
