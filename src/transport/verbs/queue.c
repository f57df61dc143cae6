/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs: made, connected, written to, lost. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/verbs/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum {
	STRIPE_ITEMS =
		8, /* with several queues: what is on the way in one, so that progress decides and not patience */
};

/* ---- names of work requests: what completes may be of a queue that was replaced meanwhile ---- */

static uint64_t name_of(const struct verbs_queue *queue, bool receive, uint64_t item)
{
	return (uint64_t)receive << 63 | (uint64_t)queue->index << 56 | (uint64_t)(queue->epoch & 0xffffffU) << 32 |
	       (item & UINT32_MAX);
}

/* ---- making and connecting ---- */

int verbs_queue_post_receive(struct verbs_connection *connection, struct verbs_queue *queue)
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
	struct verbs_rail *rail = &connection->rails[queue->rail];
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

	rail->used = true;
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
	queue->try.result = 0;
	if (getrandom(&queue->psn, sizeof(queue->psn), 0) != (ssize_t)sizeof(queue->psn))
		queue->psn = queue->qp->qp_num;
	queue->psn &= 0xffffffU;
	r = verbs_pair_init(connection->transport->api, connection->rails[queue->rail].port, queue->qp,
			    IBV_ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; r == 0 && i < VERBS_QUEUE_RECEIVES; i++)
		r = verbs_queue_post_receive(connection, queue);
	if (r < 0) {
		verbs_queue_destroy(connection, queue);
		return r;
	}
	queue->state = VERBS_QUEUE_JOINING;
	return 0;
}

struct verbs_pair_options verbs_queue_options(const struct verbs_connection *connection)
{
	return (struct verbs_pair_options){ params_replace_ns(connection->transport->params->timeout_ns),
					    connection->service_level, connection->traffic_class,
					    &connection->transport->cards.fabric };
}

int verbs_queue_connect(struct verbs_connection *connection, struct verbs_queue *queue)
{
	int r;

	queue->try = (struct verbs_try){ .api = connection->transport->api,
					 .qp = queue->qp,
					 .psn = queue->psn,
					 .to = queue->peer,
					 .ends = verbs_queue_ends(connection, queue),
					 .options = verbs_queue_options(connection) };
	r = verbs_try_begin(&queue->try);
	if (r == 0)
		queue->state = VERBS_QUEUE_CONNECTING;
	return r;
}

bool verbs_queue_connected(struct verbs_queue *queue, int *ret_result)
{
	if (!verbs_try_is_done(&queue->try))
		return false;
	*ret_result = verbs_try_end(&queue->try);
	queue->state = VERBS_QUEUE_JOINING;
	return true;
}

struct verbs_wire_queue verbs_queue_itself(const struct verbs_connection *connection, const struct verbs_queue *queue)
{
	struct verbs_wire_queue wire = { .psn = queue->psn, .rail = (uint8_t)queue->rail };

	if (!queue->qp)
		return wire;
	wire.number = queue->qp->qp_num;
	/* The accepting side says what is left of what the other one can. */
	if (connection->transport->cards.fabric.ece && (connection->role == VERBS_SENDER || queue->peer.has_ece))
		verbs_pair_ece(connection->transport->api, queue->qp, &wire);
	return wire;
}

struct verbs_path_ends verbs_queue_ends(const struct verbs_connection *connection, const struct verbs_queue *queue)
{
	return (struct verbs_path_ends){ connection->rails[queue->rail].port,
					 connection->peer.rails[queue->peer_rail] };
}

int verbs_queue_to(struct verbs_connection *connection, struct verbs_queue *queue, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	return verbs_error(connection->transport->api->modify_qp(queue->qp, &attr, IBV_QP_STATE));
}

void verbs_queue_destroy(struct verbs_connection *connection, struct verbs_queue *queue)
{
	verbs_try_end(&queue->try);
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

/* As NCCL decides it. nccl: transport/net_ib/init.cc, p2p.cc */
static bool may_take_several_paths(const struct verbs_connection *connection, const struct verbs_queue *queue,
				   const struct verbs_request *request)
{
	const struct verbs_fabric *fabric = &connection->transport->cards.fabric;
	const bool adaptive = fabric->adaptive < 0 ? !connection->rails[queue->rail].port->ethernet : fabric->adaptive;

	return adaptive && request->size > fabric->adaptive_above;
}

/* The notice alone, with the number of bytes that have gone before. */
static struct ibv_send_wr length_of(const struct verbs_connection *connection, const struct verbs_queue *queue,
				    const struct ibv_send_wr *data, struct ibv_sge *length)
{
	const unsigned at = queue->index * VERBS_LENGTHS + queue->data_sent % VERBS_LENGTHS;
	struct ibv_send_wr wr = *data;

	wr.sg_list = length;
	wr.num_sge = 1;
	wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
	wr.imm_data = htonl(ntohl(data->imm_data) | VERBS_NOTICE_APART);
	wr.wr.rdma.remote_addr = connection->peer.window_address + VERBS_LENGTHS_AT + 4 * (uint64_t)at;
	wr.wr.rdma.rkey = connection->peer.rails[queue->peer_rail].rkey;
	return wr;
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
	uint8_t number[4];
	struct ibv_sge length = { (uintptr_t)number, sizeof(number), 0 };
	struct ibv_send_wr notice;
	int r;

	wr.wr.rdma.remote_addr = request->slot.address + offset;
	wr.wr.rdma.rkey = request->slot.rkeys[queue->peer_rail];
	if (bytes <= queue->inline_bytes && !(request->registration && request->registration->gpu))
		wr.send_flags |= IBV_SEND_INLINE;
	if (bytes && queue->inline_bytes >= sizeof(number) && may_take_several_paths(connection, queue, request)) {
		bytes_put(number, bytes, sizeof(number));
		notice = length_of(connection, queue, &wr, &length);
		wr.opcode = IBV_WR_RDMA_WRITE;
		wr.send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
		wr.next = &notice;
	}
	r = post(connection, queue, &wr, &item);
	if (r == 0) {
		queue->data_sent++;
		request->open_items++;
		verbs_ring_shown(connection, request->descriptor);
	}
	return r;
}

int verbs_queue_post_proof(struct verbs_connection *connection, struct verbs_queue *queue)
{
	struct ibv_send_wr wr = { .wr_id = name_of(queue, false, queue->tail),
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htonl(verbs_notice_make(VERBS_NOTICE_NONE, 0)) };
	const struct verbs_item item = { .kind = VERBS_ITEM_PROOF };

	wr.wr.rdma.remote_addr = connection->peer.ring_address;
	wr.wr.rdma.rkey = connection->peer.rails[queue->peer_rail].rkey;
	return post(connection, queue, &wr, &item);
}

void verbs_queue_proven(struct verbs_connection *connection, struct verbs_queue *queue)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	char text[VERBS_PATH_TEXT_BYTES];

	if (queue->state != VERBS_QUEUE_PROVING)
		return;
	queue->state = VERBS_QUEUE_LIVE;
	connection->live_count++;
	verbs_path_proven(&connection->transport->paths, &ends);
	if (queue->spare) {
		connection->tried_ns[queue->rail][queue->peer_rail] = 0;
		log_info(LOG_NET, "the connection with host %s goes on from %s", connection->peer.host,
			 verbs_path_text(&ends, text));
	} else if (queue->epoch)
		log_info(LOG_NET, "queue %u with host %s on %s is back", queue->index, connection->peer.host,
			 connection->rails[queue->rail].port->name);
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

/* ---- failing ---- */

void verbs_queue_failed(struct verbs_connection *connection, const struct verbs_queue *queue)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	char text[VERBS_PATH_TEXT_BYTES];

	if (queue->try.result == -ECANCELED || queue->try.result == -EAGAIN)
		return; /* it was not tried */
	if (verbs_path_failed(&connection->transport->paths, &ends, clock_now_ns()))
		log_info(LOG_NET, "RDMA from %s of host %s carries nothing (%s): it is tried again now and then",
			 verbs_path_text(&ends, text), connection->peer.host,
			 queue->try.result < 0 ? strerror(-queue->try.result) : "no write arrives");
}

void verbs_queue_lost(struct verbs_connection *connection, struct verbs_queue *queue, const char *why)
{
	const struct verbs_path_ends ends = verbs_queue_ends(connection, queue);
	const bool was_live = queue->state == VERBS_QUEUE_LIVE;

	if (!verbs_queue_stands(queue) || connection->error)
		return;
	if (was_live && !queue->spare) /* that is left when it is no longer needed */
		verbs_path_doubt(&connection->transport->paths, &ends, clock_now_ns());
	else if (!was_live && !queue->peer_stopped)
		verbs_queue_failed(connection, queue);
	connection->live_count -= was_live;
	if (was_live || queue->notices != VERBS_WIRE_FIRST_COUNT) /* it may have written what no notice told of */
		connection->rails[queue->rail].unflushed = true;
	queue->state = VERBS_QUEUE_STOPPING;
	queue->stopping_since_ns = clock_now_ns();
	queue->build_asked = false;
	if (!connection->stuck_since_ns)
		connection->stuck_since_ns = queue->stopping_since_ns;
	if (was_live && connection->primary == queue->index)
		connection->settled = false;
	if (!connection->peer_closed)
		log_info(LOG_NET, "queue %u with host %s on %s is lost: %s. %u others go on", queue->index,
			 connection->peer.host, connection->rails[queue->rail].port->name, why, connection->live_count);
	if (verbs_queue_to(connection, queue, IBV_QPS_ERR) < 0 &&
	    !verbs_card_is_lost(connection->rails[queue->rail].port->card))
		verbs_connection_fail(connection, -EREMOTEIO, "a queue that failed cannot be stopped");
}

/*
 * Something of a message arrived, here or there. Descriptors of credit do not count: each loss asks for one, so they would
 * go on for ever over a path that carries nothing else.
 */
void verbs_queue_moved(struct verbs_connection *connection)
{
	if (connection->stuck_since_ns)
		connection->stuck_since_ns = connection->live_count ? 0 : clock_now_ns();
}
