/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs at the receiving end. No CPU may touch it, so what peers' cards do not do themselves our own does, by a queue
 * pair with itself on each rail: an eager message goes by a write from the window into its receive; and a flush is a read, which
 * comes back when everything that the card has written before is where the GPU sees it.
 *
 * A loop that fails is made anew and its turns are done again, for the time of TRIBUTARY_TIMEOUT, reads over a port that is down
 * for 5 s.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "transport/verbs/reserve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BUILD_AGAIN_NS (20 * NS_PER_MS)
#define DARK_NS        (5 * NS_PER_S)

/* ---- queue pairs ---- */

static void destroy(struct verbs_connection *connection, struct verbs_loop *loop)
{
	if (loop->qp)
		connection->transport->api->destroy_qp(loop->qp);
	loop->qp = NULL;
	loop->posted = 0;
}

static int make(struct verbs_connection *connection, struct verbs_rail *rail)
{
	const struct verbs_port *port = rail->port;
	struct ibv_qp_init_attr attr = {
		.send_cq = rail->cq,
		.recv_cq = rail->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = VERBS_LOOP_SENDS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct verbs_pair_options options = verbs_queue_options(connection);
	const struct verbs_api *api = connection->transport->api;
	struct verbs_wire_rail here;
	struct verbs_wire_queue itself = { 0 };
	int r;

	options.asked = NULL; /* it fails soon or not at all: no fabric is in between */
	verbs_pair_rail(port, &here);
	errno = 0;
	rail->loop.qp = api->create_qp(port->card->pd, &attr);
	if (!rail->loop.qp)
		return errno ? -errno : -ENOMEM;
	itself.number = rail->loop.qp->qp_num;
	r = verbs_pair_init(api, port, rail->loop.qp, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (r == 0)
		r = verbs_pair_connect(api, port, rail->loop.qp, 0, &itself, &here, &options);
	if (r < 0)
		destroy(connection, &rail->loop);
	else
		rail->loop.epoch++;
	return r;
}

int verbs_loop_open(struct verbs_connection *connection)
{
	int r = connection->error;

	if (connection->r.has_loops || r < 0)
		return r;
	for (unsigned i = 0; i < connection->rail_count; i++) {
		if (verbs_reserve_is_off(connection, i))
			break;
		r = make(connection, &connection->rails[i]);
		if (r < 0 && verbs_reserve_is(connection, i)) {
			verbs_reserve_off(connection, r);
		} else if (r < 0) {
			log_warn("RDMA device %s gives no queue for memory of GPUs: %s. NCCL_NET_GDR_LEVEL=LOC keeps "
				 "it to host memory",
				 connection->rails[i].port->name, strerror(-r));
			verbs_loop_close(connection);
			return r;
		}
	}
	for (unsigned i = 0; i < connection->rail_count; i++)
		connection->rails[i].unflushed = false; /* what was written so far is the host's */
	connection->r.has_loops = true;
	return 0;
}

void verbs_loop_close(struct verbs_connection *connection)
{
	for (unsigned i = 0; i < connection->rail_count; i++)
		destroy(connection, &connection->rails[i].loop);
	connection->r.turn_count = 0;
}

/* ---- turns ---- */

/* A rail whose port is up; `but` if there is no other. */
static unsigned rail_that_is_up(const struct verbs_connection *connection, unsigned but)
{
	for (unsigned i = 0; i < connection->rail_count; i++)
		if (i != but && !verbs_port_is_down(connection->rails[i].port) && !verbs_reserve_is_off(connection, i))
			return i;
	return but;
}

static struct verbs_turn *add(struct verbs_connection *connection, struct verbs_request *request, unsigned rail)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_turn *turn = &r->turns[r->turn_count++];

	*turn = (struct verbs_turn){ .id = ++r->turn_id, .rail = rail, .since_ns = clock_now_ns(), .request = request };
	return turn;
}

static void take_keys(const struct verbs_connection *connection, struct verbs_turn *turn,
		      const struct verbs_registration *registration)
{
	for (unsigned i = 0; i < connection->rail_count; i++)
		turn->keys[i] = verbs_registration_rkey(registration, i);
}

void verbs_loop_move(struct verbs_connection *connection, struct verbs_request *request, struct verbs_slot *slot,
		     struct verbs_unexpected *unexpected)
{
	unsigned rail = verbs_port_is_down(connection->rails[0].port) ? rail_that_is_up(connection, 0) : 0;
	struct verbs_turn *turn = add(connection, request, rail);

	turn->slot = slot;
	turn->unexpected = unexpected;
	turn->address = (uintptr_t)slot->data + slot->placed;
	turn->bytes = (uint32_t)unexpected->size;
	turn->place = unexpected->place;
	take_keys(connection, turn, slot->registration);
}

/* Also one whose read is on its way for another request: this one must not be done before it. */
static bool wants_read(const struct verbs_connection *connection, unsigned rail)
{
	for (unsigned i = 0; i < connection->r.turn_count; i++)
		if (connection->r.turns[i].rail == rail)
			return true;
	return connection->rails[rail].unflushed;
}

int verbs_loop_flush(struct verbs_connection *connection, const void *data,
		     const struct verbs_registration *registration, struct verbs_request **ret)
{
	struct verbs_request *request = verbs_request_get(connection, VERBS_REQUEST_FLUSH);

	*ret = NULL;
	if (!request)
		return -ENOBUFS; /* NCCL has eight steps at once */
	for (unsigned i = 0; i < connection->rail_count; i++) {
		struct verbs_turn *turn;

		/* A reserve that has refused this memory, or a loop, has written none of it. */
		if (!wants_read(connection, i) || !verbs_registration_rkey(registration, i) ||
		    (verbs_reserve_is_off(connection, i) && !connection->rails[i].loop.epoch))
			continue;
		connection->rails[i].unflushed = false;
		turn = add(connection, request, i);
		turn->address = (uintptr_t)data;
		take_keys(connection, turn, registration);
		request->open_items++;
	}
	if (!request->open_items) {
		verbs_request_put(request, NULL);
		return 0;
	}
	request->told = true; /* the peer hears nothing of it */
	TAILQ_INSERT_TAIL(&connection->open, request, link);
	verbs_loop_step(connection);
	*ret = request;
	return connection->error;
}

static int post(struct verbs_connection *connection, struct verbs_rail *rail, struct verbs_turn *turn)
{
	const uint8_t *here = turn->slot ? connection->r.window + turn->place : connection->r.scratch;
	struct ibv_sge sge = { (uintptr_t)here, turn->slot ? turn->bytes : 1, rail->block->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = (uint64_t)(VERBS_LOOP_FIRST + turn->rail) << 56 |
					   (uint64_t)(rail->loop.epoch & 0xffffffU) << 32 | turn->id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = turn->slot ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	int r;

	wr.wr.rdma.remote_addr = turn->address;
	wr.wr.rdma.rkey = turn->keys[turn->rail];
	r = connection->transport->api->post_send(rail->loop.qp, &wr, &bad);
	if (r != 0)
		return verbs_error(r);
	turn->posted = rail->used = true;
	rail->unflushed |= turn->slot != NULL;
	rail->loop.posted++;
	return 0;
}

static struct verbs_turn remove_turn(struct verbs_receiver *r, unsigned at)
{
	const struct verbs_turn turn = r->turns[at];

	r->turn_count--;
	memmove(&r->turns[at], &r->turns[at + 1], (r->turn_count - at) * sizeof(r->turns[0]));
	return turn;
}

/* The read of a rail, for a flush. */
static void read_done(struct verbs_connection *connection, struct verbs_request *request)
{
	if (--request->open_items == 0)
		verbs_request_finish(connection, request);
}

/* Nothing that came over it is still being written. */
static bool has_stopped(const struct verbs_connection *connection, unsigned rail)
{
	for (unsigned i = 0; i < connection->queue_count; i++) {
		const struct verbs_queue *queue = &connection->queues[i];

		if (queue->rail == rail && (verbs_queue_stands(queue) || queue->state == VERBS_QUEUE_STOPPING))
			return false;
	}
	return true;
}

/*
 * All that was on its way is to be done again: writes by another rail where the port is down, but no other card can show that
 * the GPU sees what this one wrote.
 */
static void failed(struct verbs_connection *connection, unsigned index, const char *why)
{
	struct verbs_rail *rail = &connection->rails[index];
	const bool leave = verbs_port_is_down(rail->port) && has_stopped(connection, index);
	const unsigned other = leave ? rail_that_is_up(connection, index) : index;

	log_info(LOG_NET, "the queue for memory of GPUs on %s is lost: %s", rail->port->name, why);
	destroy(connection, &rail->loop);
	rail->loop.build_at_ns = clock_now_ns() + BUILD_AGAIN_NS;
	for (unsigned i = 0; i < connection->r.turn_count; i++) {
		struct verbs_turn *turn = &connection->r.turns[i];

		if (turn->rail != index)
			continue;
		turn->posted = false;
		turn->rail = turn->slot ? other : index;
	}
}

/* Other rails would wait for it, so it ends sooner than by TRIBUTARY_TIMEOUT. */
static void fail_if_dark(struct verbs_connection *connection, const struct verbs_turn *turn, uint64_t now_ns)
{
	struct verbs_loop *loop = &connection->rails[turn->rail].loop;
	const struct verbs_port *port = connection->rails[turn->rail].port;
	char why[sizeof(connection->why)];

	if (!verbs_port_is_down(port))
		loop->dark_since_ns = now_ns;
	if (turn->slot || clock_elapsed_ns(max_u64(loop->dark_since_ns, turn->since_ns), now_ns) <= DARK_NS ||
	    !verbs_port_is_down(port))
		return;
	snprintf(why, sizeof(why), "port %s is down and does not read back what it wrote into a GPU's memory",
		 port->name);
	verbs_connection_fail(connection, -EIO, why);
}

void verbs_loop_step(struct verbs_connection *connection)
{
	struct verbs_receiver *r = &connection->r;
	uint64_t now_ns = clock_now_ns();

	if (r->turn_count &&
	    clock_elapsed_ns(r->turns[0].since_ns, now_ns) > connection->transport->params->timeout_ns) {
		verbs_connection_fail(connection, -EIO, "the RDMA device does not reach the GPU's memory");
		return;
	}
	for (unsigned i = 0; i < r->turn_count; i++) {
		struct verbs_turn *turn = &r->turns[i];
		struct verbs_rail *rail = &connection->rails[turn->rail];

		fail_if_dark(connection, turn, now_ns);
		if (connection->error)
			return;
		if (turn->posted || rail->loop.posted == VERBS_LOOP_SENDS)
			continue;
		if (!rail->loop.qp && now_ns >= rail->loop.build_at_ns && make(connection, rail) < 0)
			rail->loop.build_at_ns = now_ns + BUILD_AGAIN_NS;
		if (rail->loop.qp && post(connection, rail, turn) < 0)
			failed(connection, turn->rail, "it takes no request");
	}
}

bool verbs_loop_completed(struct verbs_connection *connection, unsigned index, const struct ibv_wc *wc,
			  struct verbs_turn *ret)
{
	struct verbs_receiver *r = &connection->r;
	struct verbs_loop *loop = &connection->rails[index].loop;
	unsigned at = 0;

	if (!loop->qp || (wc->wr_id >> 32 & 0xffffffU) != (loop->epoch & 0xffffffU))
		return false; /* of one that is no more */
	connection->ready++;
	if (wc->status == IBV_WC_LOC_PROT_ERR || wc->status == IBV_WC_REM_ACCESS_ERR) {
		verbs_connection_fail(connection, -EIO, "the RDMA device may not access the GPU's memory");
		return false;
	}
	if (wc->status != IBV_WC_SUCCESS) {
		failed(connection, index, connection->transport->api->wc_status_str(wc->status));
		return false;
	}
	loop->posted--;
	while (at < r->turn_count && r->turns[at].id != (uint32_t)wc->wr_id)
		at++;
	if (at == r->turn_count)
		return false;
	*ret = remove_turn(r, at);
	if (!ret->slot)
		read_done(connection, ret->request);
	return ret->slot != NULL;
}
