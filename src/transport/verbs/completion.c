/* SPDX-License-Identifier: Apache-2.0 */
/* What has come: completions of the queue pairs, and the descriptors that they tell of. Handed to the roles. */
#include "base/bytes.h"
#include "transport/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	REFUSALS_MOST = 12, /* of one message, with nothing of it delivered between */
	POLL_AT_ONCE = 16,
};

/* ---- completions ---- */

/* Which item it was. False: one that completed before. */
static bool item_of(const struct verbs_queue *queue, uint64_t name, uint64_t *ret_item)
{
	*ret_item = verbs_wire_count(queue->head, name);
	return *ret_item >= queue->head && *ret_item < queue->tail;
}

static unsigned *refusals_of(struct verbs_connection *connection, const struct verbs_item *item)
{
	return item->request ? &item->request->refusals : &connection->refusals;
}

void verbs_completion_delivered(struct verbs_connection *connection, const struct verbs_item *item)
{
	*refusals_of(connection, item) = 0;
	if (item->kind == VERBS_ITEM_PROOF)
		return;
	if (item->kind == VERBS_ITEM_DATA || !connection->out.credit[(item->descriptor - 1) % VERBS_WIRE_DESCRIPTORS])
		verbs_queue_moved(connection);
	verbs_sender_delivered(connection, item);
}

static void sent(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t name)
{
	uint64_t item;

	if (!item_of(queue, name, &item))
		return;
	while (queue->head != item + 1) { /* in the order of posting, always */
		struct verbs_item done = queue->items[queue->head % VERBS_ITEMS];

		queue->head++;
		verbs_completion_delivered(connection, &done);
		if (done.kind == VERBS_ITEM_PROOF)
			verbs_queue_proven(connection, queue);
	}
}

static uint32_t data_bytes(const struct verbs_connection *connection, const struct verbs_queue *queue,
			   const struct ibv_wc *wc)
{
	const unsigned at = queue->index * VERBS_LENGTHS + queue->data_taken % VERBS_LENGTHS;

	if (!(ntohl(wc->imm_data) & VERBS_NOTICE_APART))
		return wc->byte_len;
	return (uint32_t)bytes_get(connection->r.window + VERBS_LENGTHS_AT + 4 * (size_t)at, 4);
}

static void received(struct verbs_connection *connection, struct verbs_queue *queue, const struct ibv_wc *wc)
{
	uint32_t notice = ntohl(wc->imm_data);
	int r = 0;

	queue->receives--;
	queue->notices++;
	connection->life.came++;
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
		verbs_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
		return;
	}
	if (verbs_notice_kind(notice) == VERBS_NOTICE_DESCRIPTOR) {
		connection->in.notices++;
	} else if (verbs_notice_kind(notice) != VERBS_NOTICE_NONE) {
		verbs_queue_moved(connection);
		connection->rails[queue->rail].unflushed = true;
		r = connection->role == VERBS_RECEIVER
			    ? verbs_receiver_data(connection, notice, data_bytes(connection, queue, wc))
			    : -EPROTO;
		queue->data_taken++;
	}
	if (r < 0) {
		verbs_connection_fail(connection, r == -EPROTO ? -EREMOTEIO : r, "it broke the protocol");
		return;
	}
	if (verbs_queue_stands(queue) && verbs_queue_post_receive(connection, queue) < 0)
		verbs_queue_lost(connection, queue, "a receive could not be posted");
}

/* What another queue would meet, too. */
static bool is_final(struct verbs_connection *connection, const struct verbs_queue *queue, const struct ibv_wc *wc)
{
	const enum ibv_wc_status status = wc->status;
	uint64_t item;

	if (status == IBV_WC_LOC_LEN_ERR || status == IBV_WC_LOC_QP_OP_ERR || status == IBV_WC_LOC_PROT_ERR ||
	    status == IBV_WC_REM_ACCESS_ERR)
		return true;
	if (status != IBV_WC_REM_INV_REQ_ERR || !item_of(queue, wc->wr_id, &item))
		return false;
	/* The packets are the devices' affair, and rxe's have been found invalid after lost ones; but not without end. */
	return ++*refusals_of(connection, &queue->items[item % VERBS_ITEMS]) > REFUSALS_MOST;
}

static void failed(struct verbs_connection *connection, struct verbs_queue *queue, const struct ibv_wc *wc)
{
	const char *why = connection->transport->api->wc_status_str(wc->status);
	char text[128];

	/* What a card says after its end says nothing of the request. */
	if (!verbs_card_is_lost(connection->rails[queue->rail].port->card) && is_final(connection, queue, wc)) {
		snprintf(text, sizeof(text), "queue %u: %s", queue->index, why);
		verbs_connection_fail(connection, -EREMOTEIO, text);
		return;
	}
	verbs_queue_lost(connection, queue, why);
}

static void take(struct verbs_connection *connection, const struct ibv_wc *wc)
{
	const bool receive = wc->wr_id >> 63;
	const unsigned index = wc->wr_id >> 56 & 0x7f;
	struct verbs_queue *queue;
	struct verbs_turn turn;

	if (index >= VERBS_LOOP_FIRST) {
		if (connection->role == VERBS_RECEIVER && index - VERBS_LOOP_FIRST < connection->rail_count &&
		    verbs_loop_completed(connection, index - VERBS_LOOP_FIRST, wc, &turn))
			verbs_receiver_moved(connection, &turn);
		return;
	}
	if (index >= connection->queue_count)
		return;
	queue = &connection->queues[index];
	if ((wc->wr_id >> 32 & 0xffffffU) != (queue->epoch & 0xffffffU) || !queue->qp)
		return; /* of a queue that is no more */
	connection->ready++;
	if (wc->status == IBV_WC_SUCCESS && receive)
		received(connection, queue, wc);
	else if (wc->status == IBV_WC_SUCCESS)
		sent(connection, queue, wc->wr_id);
	else {
		if (receive)
			queue->receives--;
		failed(connection, queue, wc);
	}
}

void verbs_completion_poll(struct verbs_connection *connection, unsigned most, bool *ret_more)
{
	const struct verbs_api *api = connection->transport->api;
	struct ibv_wc completions[POLL_AT_ONCE];

	*ret_more = false;
	for (unsigned i = 0; i < connection->rail_count; i++) {
		unsigned taken = 0;
		int count = POLL_AT_ONCE;

		if (!connection->rails[i].used)
			continue;
		while (count == POLL_AT_ONCE && taken < most && !connection->error) {
			count = api->poll_cq(connection->rails[i].cq, POLL_AT_ONCE, completions);
			if (count < 0) {
				verbs_connection_fail(connection, -EIO, "its completion queue cannot be read");
				return;
			}
			for (int k = 0; k < count && !connection->error; k++)
				take(connection, &completions[k]);
			taken += (unsigned)count;
		}
		*ret_more |= count == POLL_AT_ONCE;
	}
}

/* ---- descriptors ---- */

static void take_credit(struct verbs_connection *connection, unsigned index, uint32_t known)
{
	struct verbs_queue *queue = &connection->queues[index];
	uint64_t count;

	if (index >= connection->queue_count)
		return;
	count = verbs_wire_count(queue->data_known, known);
	if (count > queue->data_known)
		queue->data_known = count;
}

static void take_credits(struct verbs_connection *connection, const struct verbs_descriptor *descriptor,
			 const uint8_t *extra)
{
	if (descriptor->type == VERBS_DESCRIPTOR_SLOTS)
		take_credit(connection, (unsigned)descriptor->size, descriptor->slot);
	for (unsigned i = 0; descriptor->type == VERBS_DESCRIPTOR_CREDIT && i < descriptor->count; i++)
		take_credit(connection, i, (uint32_t)bytes_get(extra + 4 * (size_t)i, 4));
}

static int take_one(struct verbs_connection *connection)
{
	struct verbs_ring_in *in = &connection->in;
	struct verbs_ring_out *out = &connection->out;
	uint8_t entry[VERBS_WIRE_DESCRIPTOR_BYTES];
	struct verbs_descriptor descriptor;
	int r;

	/* Once: whatever the peer writes from now on is not what is looked at. */
	memcpy(entry, in->memory + (size_t)(in->taken % VERBS_WIRE_DESCRIPTORS) * VERBS_WIRE_DESCRIPTOR_BYTES,
	       sizeof(entry));
	r = verbs_wire_get_descriptor(entry, &descriptor);
	if (r < 0)
		return -EPROTO;
	descriptor.sequence = verbs_wire_count(in->taken, descriptor.sequence);
	descriptor.taken = verbs_wire_count(out->written, descriptor.taken);
	/* It may know of less than data that was sent after it and came before it, over another queue. */
	if (descriptor.sequence != in->taken + 1 || descriptor.taken > out->written)
		return -EPROTO;
	in->taken++;
	if (descriptor.type != VERBS_DESCRIPTOR_CREDIT)
		verbs_queue_moved(connection);
	else
		connection->life.answer |= descriptor.size != 0;
	verbs_ring_seen(connection, descriptor.taken);
	take_credits(connection, &descriptor, entry + VERBS_WIRE_HEAD_BYTES);
	return connection->role == VERBS_SENDER
		       ? verbs_sender_descriptor(connection, &descriptor, entry + VERBS_WIRE_HEAD_BYTES)
		       : verbs_receiver_descriptor(connection, &descriptor, entry + VERBS_WIRE_HEAD_BYTES);
}

int verbs_completion_take(struct verbs_connection *connection)
{
	int r = 0;

	while (connection->in.notices && r == 0 && !connection->error) {
		connection->in.notices--;
		r = take_one(connection);
	}
	return r;
}
