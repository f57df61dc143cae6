/* Queue pairs: made, connected, written to, polled, stopped. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	REFUSALS_MOST = 12, /* of one message, with nothing of it delivered between */
	POLL_AT_ONCE = 16,
	STRIPE_ITEMS =
		8, /* with several queues: what is on the way in one, so that progress decides and not patience */
};

/* ---- names of work requests: what completes may be of a queue that was replaced meanwhile ---- */

static uint64_t name_of(const struct verbs_queue *queue, bool receive, uint64_t item)
{
	return (uint64_t)receive << 63 | (uint64_t)queue->index << 56 | (uint64_t)(queue->epoch & 0xffffffU) << 32 |
	       (item & UINT32_MAX);
}

/* Which item it was. False: one that completed before. */
static bool item_of(const struct verbs_queue *queue, uint64_t name, uint64_t *ret_item)
{
	*ret_item = verbs_wire_count(queue->head, name);
	return *ret_item >= queue->head && *ret_item < queue->tail;
}

/* ---- making and connecting ---- */

static int post_receive(struct verbs_connection *connection, struct verbs_queue *queue)
{
	struct ibv_recv_wr wr = { .wr_id = name_of(queue, true, 0) }, *bad;
	int r = connection->transport->api->post_recv(queue->qp, &wr, &bad);

	if (r != 0)
		return verbs_error(r);
	queue->receives++;
	return 0;
}

static void make(struct verbs_connection *connection, struct verbs_queue *queue)
{
	const struct verbs_rail *rail = &connection->rails[queue->rail];
	struct ibv_qp_init_attr attr = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = VERBS_QUEUE_SENDS,
			 .max_recv_wr = VERBS_QUEUE_RECEIVES,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = VERBS_INLINE_BYTES },
	};

	queue->qp = connection->transport->api->create_qp(rail->port->card->pd, &attr);
	if (!queue->qp && errno == EINVAL) { /* this device writes less of itself */
		attr.cap.max_inline_data = 0;
		queue->qp = connection->transport->api->create_qp(rail->port->card->pd, &attr);
	}
	/* It may give more than it was asked for; a descriptor has room for no more than this. */
	queue->inline_bytes = attr.cap.max_inline_data < VERBS_INLINE_BYTES ? attr.cap.max_inline_data
									    : VERBS_INLINE_BYTES;
}

int verbs_queue_create(struct verbs_connection *connection, struct verbs_queue *queue)
{
	int r;

	errno = 0;
	make(connection, queue);
	if (!queue->qp)
		return errno ? -errno : -ENOMEM;
	queue->head = queue->tail = queue->notices = VERBS_WIRE_FIRST_COUNT;
	queue->receives = 0;
	queue->waits_since_ns = 0;
	queue->peer_stopped = false;
	if (getrandom(&queue->psn, sizeof(queue->psn), 0) != (ssize_t)sizeof(queue->psn))
		queue->psn = queue->qp->qp_num;
	queue->psn &= 0xffffffU;
	r = verbs_pair_init(connection->transport->api, connection->rails[queue->rail].port, queue->qp,
			    IBV_ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; r == 0 && i < VERBS_QUEUE_RECEIVES; i++)
		r = post_receive(connection, queue);
	if (r < 0) {
		verbs_queue_destroy(connection, queue);
		return r;
	}
	queue->state = VERBS_QUEUE_JOINING;
	return 0;
}

struct verbs_pair_options verbs_queue_options(const struct verbs_connection *connection)
{
	const struct params *params = connection->transport->params;

	return (struct verbs_pair_options){ .timeout_ns = params_replace_ns(params),
					    .service_level = (int)params->service_level,
					    .traffic_class = connection->traffic_class >= 0 ? connection->traffic_class
											    : params->traffic_class };
}

int verbs_queue_connect(struct verbs_connection *connection, struct verbs_queue *queue)
{
	const struct verbs_pair_options options = verbs_queue_options(connection);

	return verbs_pair_connect(connection->transport->api, connection->rails[queue->rail].port, queue->qp,
				  queue->psn, &queue->peer, &connection->peer.rails[queue->peer_rail], &options);
}

int verbs_queue_to(struct verbs_connection *connection, struct verbs_queue *queue, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return verbs_error(connection->transport->api->modify_qp(queue->qp, &attr, IBV_QP_STATE));
}

void verbs_queue_destroy(struct verbs_connection *connection, struct verbs_queue *queue)
{
	if (queue->qp)
		connection->transport->api->destroy_qp(queue->qp);
	queue->qp = NULL;
	queue->receives = 0;
	queue->state = VERBS_QUEUE_NONE;
}

/* ---- posting ---- */

static int post(struct verbs_connection *connection, struct verbs_queue *queue, struct ibv_send_wr *wr,
		const struct verbs_item *item)
{
	struct ibv_send_wr *bad;
	int r = connection->transport->api->post_send(queue->qp, wr, &bad);

	if (r != 0)
		return verbs_error(r);
	queue->items[queue->tail % VERBS_ITEMS] = *item;
	queue->tail++;
	return 0;
}

static uint32_t local_key(const struct verbs_queue *queue, const struct verbs_request *request)
{
	const struct verbs_registration *registration = request->registration;

	return registration && registration->memories[queue->rail] ? registration->memories[queue->rail]->mr->lkey : 0;
}

int verbs_queue_post_descriptor(struct verbs_connection *connection, struct verbs_queue *queue, uint64_t descriptor)
{
	const struct verbs_wire_rail *peer = &connection->peer.rails[queue->peer_rail];
	const uint64_t at = (descriptor - 1) % VERBS_WIRE_DESCRIPTORS;
	struct verbs_ring_out *out = &connection->out;
	struct verbs_request *request = out->requests[at];
	struct ibv_sge entry = { (uintptr_t)(out->copy + (size_t)at * VERBS_WIRE_DESCRIPTOR_BYTES), out->bytes[at],
				 connection->rails[queue->rail].block->mr->lkey };
	struct ibv_send_wr descriptor_wr = { .wr_id = name_of(queue, false, queue->tail),
					     .sg_list = &entry,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					     .send_flags = IBV_SEND_SIGNALED,
					     .imm_data = htonl(verbs_notice_make(VERBS_NOTICE_DESCRIPTOR, 0)) };
	struct ibv_sge payload;
	struct ibv_send_wr payload_wr;
	struct verbs_item item = { .kind = VERBS_ITEM_DESCRIPTOR, .descriptor = descriptor, .request = request };

	descriptor_wr.wr.rdma.remote_addr = connection->peer.ring_address + (uint64_t)at * VERBS_WIRE_DESCRIPTOR_BYTES;
	descriptor_wr.wr.rdma.rkey = peer->rkey;
	if (entry.length <= queue->inline_bytes)
		descriptor_wr.send_flags |= IBV_SEND_INLINE;
	if (!out->payload[at])
		return post(connection, queue, &descriptor_wr, &item);
	payload = (struct ibv_sge){ (uintptr_t)request->data + out->offsets[at], out->payload[at],
				    local_key(queue, request) };
	if (out->staged[at]) {
		payload.addr = (uintptr_t)(connection->s.stage + out->places[at]);
		payload.lkey = entry.lkey;
	}
	payload_wr = (struct ibv_send_wr){ .wr_id = descriptor_wr.wr_id,
					   .next = &descriptor_wr,
					   .sg_list = &payload,
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_WRITE };
	payload_wr.wr.rdma.remote_addr = connection->peer.window_address + out->places[at];
	payload_wr.wr.rdma.rkey = peer->rkey;
	return post(connection, queue, &payload_wr, &item);
}

int verbs_queue_post_data(struct verbs_connection *connection, struct verbs_queue *queue, struct verbs_request *request,
			  uint64_t offset, uint32_t bytes, bool whole)
{
	enum verbs_notice kind = whole ? VERBS_NOTICE_WHOLE : VERBS_NOTICE_PART;
	struct ibv_sge sge = { (uintptr_t)(request->data + offset), bytes, local_key(queue, request) };
	struct ibv_send_wr wr = { .wr_id = name_of(queue, false, queue->tail),
				  .sg_list = &sge,
				  .num_sge = bytes > 0,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(verbs_notice_make(kind, request->slot.id)) };
	struct verbs_item item = {
		.kind = VERBS_ITEM_DATA, .request = request, .offset = offset, .bytes = bytes, .whole = whole
	};
	int r;

	wr.wr.rdma.remote_addr = request->slot.address + offset;
	wr.wr.rdma.rkey = request->slot.rkeys[queue->peer_rail];
	if (bytes <= queue->inline_bytes && !(request->registration && request->registration->gpu))
		wr.send_flags |= IBV_SEND_INLINE;
	r = post(connection, queue, &wr, &item);
	if (r == 0) {
		queue->data_sent++;
		request->open_items++;
		verbs_ring_shown(connection, request->descriptor);
	}
	return r;
}

struct verbs_queue *verbs_queue_for_data(struct verbs_connection *connection)
{
	const uint32_t most = connection->live_count > 1 ? STRIPE_ITEMS : VERBS_ITEMS_OF_DATA;

	for (unsigned i = 0; i < connection->queue_count; i++) {
		unsigned index = (connection->next_queue + i) % connection->queue_count;
		struct verbs_queue *queue = &connection->queues[index];

		if (queue->state != VERBS_QUEUE_LIVE || queue->tail - queue->head >= most ||
		    queue->data_sent - queue->data_known >= VERBS_DATA_CREDIT)
			continue;
		connection->next_queue = index + 1;
		return queue;
	}
	return NULL;
}

/* ---- what completes ---- */

static unsigned *refusals_of(struct verbs_connection *connection, const struct verbs_item *item)
{
	return item->request ? &item->request->refusals : &connection->refusals;
}

void verbs_queue_delivered(struct verbs_connection *connection, const struct verbs_item *item)
{
	*refusals_of(connection, item) = 0;
	if (item->kind == VERBS_ITEM_DATA || !connection->out.credit[(item->descriptor - 1) % VERBS_WIRE_DESCRIPTORS])
		verbs_failover_moved(connection);
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
		verbs_queue_delivered(connection, &done);
	}
}

static void received(struct verbs_connection *connection, struct verbs_queue *queue, const struct ibv_wc *wc)
{
	uint32_t notice = ntohl(wc->imm_data);
	int r = 0;

	queue->receives--;
	queue->notices++;
	if (wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
		verbs_connection_fail(connection, -EREMOTEIO, "it broke the protocol");
		return;
	}
	if (verbs_notice_kind(notice) == VERBS_NOTICE_DESCRIPTOR) {
		connection->in.notices++;
	} else {
		verbs_failover_moved(connection);
		queue->data_taken++;
		connection->rails[queue->rail].unflushed = true;
		r = connection->role == VERBS_RECEIVER ? verbs_receiver_data(connection, notice, wc->byte_len)
						       : -EPROTO;
	}
	if (r < 0) {
		verbs_connection_fail(connection, r == -EPROTO ? -EREMOTEIO : r, "it broke the protocol");
		return;
	}
	if ((queue->state == VERBS_QUEUE_LIVE || queue->state == VERBS_QUEUE_JOINING) &&
	    post_receive(connection, queue) < 0)
		verbs_failover_lost(connection, queue, "a receive could not be posted");
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
	if (queue->state == VERBS_QUEUE_LIVE || queue->state == VERBS_QUEUE_JOINING)
		verbs_failover_lost(connection, queue, why);
}

static void take(struct verbs_connection *connection, const struct ibv_wc *wc)
{
	const bool receive = wc->wr_id >> 63;
	const unsigned index = wc->wr_id >> 56 & 0x7f;
	struct verbs_queue *queue;

	if (index >= VERBS_LOOP_FIRST) {
		if (connection->role == VERBS_RECEIVER && index - VERBS_LOOP_FIRST < connection->rail_count)
			verbs_loop_completed(connection, index - VERBS_LOOP_FIRST, wc);
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

void verbs_queue_poll(struct verbs_connection *connection, unsigned most, bool *ret_more)
{
	const struct verbs_api *api = connection->transport->api;
	struct ibv_wc completions[POLL_AT_ONCE];

	*ret_more = false;
	for (unsigned i = 0; i < connection->rail_count; i++) {
		unsigned taken = 0;
		int count = POLL_AT_ONCE;

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
