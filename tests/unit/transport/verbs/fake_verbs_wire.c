/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/transport/verbs/fake_verbs_internal.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GIVE_UP_NS (2 * NS_PER_MS) /* what retries take */

static struct fake_qp *find_qp(uint32_t number)
{
	for (struct fake_qp *qp = fake.qps; qp; qp = qp->next)
		if (qp->ibv.qp_num == number)
			return qp;
	return NULL;
}

static const struct fake_mr *find_mr(uint32_t key, const struct ibv_pd *pd, uint64_t address, uint64_t bytes)
{
	for (const struct fake_mr *mr = fake.mrs; mr; mr = mr->next) {
		uint64_t begin = (uintptr_t)mr->ibv.addr;

		if (mr->ibv.lkey == key && mr->ibv.pd == pd && address >= begin && bytes <= mr->ibv.length &&
		    address - begin <= mr->ibv.length - bytes)
			return mr;
	}
	return NULL;
}

static void ring(struct fake_cq *cq)
{
	struct fake_channel *channel = (struct fake_channel *)cq->ibv.channel;
	uint64_t one = 1;

	if (!cq->armed || !channel)
		return;
	cq->armed = false;
	channel->cqs[channel->tail++ % 64] = cq;
	if (write(channel->ibv.fd, &one, sizeof(one)) < 0)
		fake.counts.wrong_calls++;
}

void fake_complete(struct fake_qp *qp, bool receive, uint64_t wr_id, enum ibv_wc_status status, uint32_t bytes,
		   uint32_t imm)
{
	struct fake_cq *cq = (struct fake_cq *)(receive ? qp->ibv.recv_cq : qp->ibv.send_cq);
	struct ibv_wc *wc;

	if (cq->tail - cq->head == (unsigned)cq->ibv.cqe) {
		fake.counts.overflows++;
		return;
	}
	wc = &cq->entries[cq->tail++ % (unsigned)cq->ibv.cqe];
	memset(wc, status == IBV_WC_SUCCESS ? 0 : 0x5a, sizeof(*wc)); /* on an error little of it means anything */
	wc->wr_id = wr_id;
	wc->status = status;
	wc->qp_num = qp->ibv.qp_num;
	if (status == IBV_WC_SUCCESS) {
		wc->opcode = receive ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RDMA_WRITE;
		wc->byte_len = bytes;
		wc->imm_data = imm;
		wc->wc_flags = receive ? IBV_WC_WITH_IMM : 0;
	}
	ring(cq);
}

void fake_qp_error(struct fake_qp *qp)
{
	if (qp->ibv.state != IBV_QPS_ERR)
		fake.counts.failed_queues++;
	qp->ibv.state = IBV_QPS_ERR;
	for (; qp->sq_head != qp->sq_tail; qp->sq_head++)
		fake_complete(qp, false, qp->sq[qp->sq_head % qp->cap.max_send_wr].wr.wr_id, IBV_WC_WR_FLUSH_ERR, 0, 0);
	for (; qp->rq_head != qp->rq_tail; qp->rq_head++)
		fake_complete(qp, true, qp->rq[qp->rq_head % qp->cap.max_recv_wr], IBV_WC_WR_FLUSH_ERR, 0, 0);
}

static void fail_first(struct fake_qp *qp, enum ibv_wc_status status)
{
	fake_complete(qp, false, qp->sq[qp->sq_head % qp->cap.max_send_wr].wr.wr_id, status, 0, 0);
	qp->sq_head++;
	fake_qp_error(qp);
}

static void write_there(const struct fake_qp *qp, const struct fake_qp *peer, const struct fake_wr *out, uint32_t bytes)
{
	uint8_t *data;

	if (out->wr.send_flags & IBV_SEND_INLINE) {
		fake_write(peer->device, out->wr.wr.rdma.remote_addr, out->inlined, bytes);
		return;
	}
	data = malloc(bytes + 1);
	if (!data)
		abort();
	fake_read(qp->device, data, out->sge.addr, bytes);
	fake_write(peer->device, out->wr.wr.rdma.remote_addr, data, bytes);
	free(data);
}

/* Of the peer's memory into ours. */
static enum ibv_wc_status carry_out_read(struct fake_qp *qp, struct fake_qp *peer, struct fake_wr *out)
{
	const struct fake_mr *from = find_mr(out->wr.wr.rdma.rkey, peer->ibv.pd, out->wr.wr.rdma.remote_addr,
					     out->sge.length);
	const struct fake_mr *to = find_mr(out->sge.lkey, qp->ibv.pd, out->sge.addr, out->sge.length);

	if (!to || !(to->access & IBV_ACCESS_LOCAL_WRITE))
		return IBV_WC_LOC_PROT_ERR;
	if (!from || !(from->access & IBV_ACCESS_REMOTE_READ)) {
		fake_qp_error(peer);
		return IBV_WC_REM_ACCESS_ERR;
	}
	fake_read(peer->device, (void *)(uintptr_t)out->sge.addr, out->wr.wr.rdma.remote_addr, out->sge.length);
	fake.counts.reads++;
	return IBV_WC_SUCCESS;
}

/* What the write does at the other end. */
static enum ibv_wc_status carry_out(struct fake_qp *qp, struct fake_qp *peer, struct fake_wr *out, bool half)
{
	const bool with_imm = out->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint32_t bytes = out->wr.num_sge ? out->sge.length : 0;

	if (out->wr.opcode == IBV_WR_RDMA_READ)
		return half ? IBV_WC_SUCCESS : carry_out_read(qp, peer, out);
	if (bytes && !(out->wr.send_flags & IBV_SEND_INLINE) &&
	    !find_mr(out->sge.lkey, qp->ibv.pd, out->sge.addr, bytes))
		return IBV_WC_LOC_PROT_ERR;
	if (bytes) {
		const struct fake_mr *mr = find_mr(out->wr.wr.rdma.rkey, peer->ibv.pd, out->wr.wr.rdma.remote_addr,
						   bytes);

		if (!mr || !(mr->access & IBV_ACCESS_REMOTE_WRITE)) {
			fake_qp_error(peer);
			return IBV_WC_REM_ACCESS_ERR;
		}
		write_there(qp, peer, out, half ? bytes / 2 : bytes);
	}
	if (half)
		return IBV_WC_SUCCESS;
	fake.counts.requests++;
	fake.counts.silent_writes += out->wr.opcode == IBV_WR_RDMA_WRITE;
	fake.counts.bytes += bytes;
	fake.counts.data[qp->device->index] += bytes;
	if (with_imm) {
		uint64_t wr_id = peer->rq[peer->rq_head++ % peer->cap.max_recv_wr];

		fake_complete(peer, true, wr_id, IBV_WC_SUCCESS, bytes, out->wr.imm_data);
	}
	return IBV_WC_SUCCESS;
}

/* It waits for a path or a receive; in the end its retries are over. True: that has come. */
static bool stays_stuck(struct fake_qp *qp, enum ibv_wc_status status)
{
	uint64_t now_ns = clock_now_ns();

	if (!qp->stuck_since_ns)
		qp->stuck_since_ns = now_ns;
	if (now_ns - qp->stuck_since_ns < GIVE_UP_NS)
		return false;
	fail_first(qp, status);
	return true;
}

static bool lose(struct fake_qp *qp, struct fake_qp *peer, struct fake_wr *out, enum fake_verbs_loss how)
{
	if (how == FAKE_VERBS_ARRIVES_HALF || how == FAKE_VERBS_ARRIVES_WHOLE)
		carry_out(qp, peer, out, how == FAKE_VERBS_ARRIVES_HALF);
	fail_first(qp, how == FAKE_VERBS_REFUSED      ? IBV_WC_REM_INV_REQ_ERR
		       : how == FAKE_VERBS_NO_RECEIVE ? IBV_WC_RNR_RETRY_EXC_ERR
						      : IBV_WC_RETRY_EXC_ERR);
	return true;
}

static bool is_always_lost(const struct fake_device *device, const struct fake_wr *out)
{
	return (out->wr.num_sge ? out->sge.length : 0) >= device->lost_bytes;
}

/* Its first write is still on its way. */
static bool is_slow(struct fake_qp *qp)
{
	uint64_t now_ns;

	if (!qp->device->each_ns)
		return false;
	now_ns = clock_now_ns();
	if (!qp->begun_ns)
		qp->begun_ns = now_ns;
	if (now_ns - qp->begun_ns < qp->device->each_ns)
		return true;
	qp->begun_ns = 0;
	return false;
}

/* A queue pair with itself needs no network. */
static bool has_path(const struct fake_qp *qp, const struct fake_qp *peer)
{
	return qp == peer ? !qp->device->loops_fail : qp->device->path_works && peer->device->path_works;
}

/* True: something was done. */
static bool pump_one(struct fake_qp *qp)
{
	struct fake_wr *out = &qp->sq[qp->sq_head % qp->cap.max_send_wr];
	struct fake_qp *peer;
	enum ibv_wc_status status;

	if (qp->sq_head == qp->sq_tail || qp->ibv.state != IBV_QPS_RTS || qp->forgotten || qp->device->dead)
		return false;
	if (is_slow(qp))
		return false;
	if (qp->device->forgets) {
		qp->device->forgets = false;
		qp->forgotten = true;
		return false;
	}
	peer = find_qp(qp->dest);
	if (!peer || (peer->ibv.state != IBV_QPS_RTR && peer->ibv.state != IBV_QPS_RTS) ||
	    peer->dest != qp->ibv.qp_num || peer->device->dead || !has_path(qp, peer))
		return stays_stuck(qp, IBV_WC_RETRY_EXC_ERR);
	if (out->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && peer->rq_head == peer->rq_tail) {
		if (!qp->stuck_since_ns)
			fake.counts.missing_receives++;
		return stays_stuck(qp, IBV_WC_RNR_RETRY_EXC_ERR);
	}
	qp->stuck_since_ns = 0;
	if (qp->device->loses) {
		qp->device->loses = false;
		return lose(qp, peer, out, qp->device->how);
	}
	if (is_always_lost(qp->device, out))
		return lose(qp, peer, out, qp->device->always);
	status = carry_out(qp, peer, out, false);
	if (status != IBV_WC_SUCCESS) {
		fail_first(qp, status);
		return true;
	}
	qp->sq_head++;
	if (out->wr.send_flags & IBV_SEND_SIGNALED)
		fake_complete(qp, false, out->wr.wr_id, IBV_WC_SUCCESS, 0, 0);
	return true;
}

void fake_pump(void)
{
	for (struct fake_qp *qp = fake.qps; qp; qp = qp->next)
		while (pump_one(qp))
			;
}

void *fake_thread(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&fake_lock);
	while (!fake.stop) {
		struct timespec until;

		fake_pump();
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&fake.wake, &fake_lock, &until);
	}
	pthread_mutex_unlock(&fake_lock);
	return NULL;
}

static int take_wr(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct fake_wr *out = &qp->sq[qp->sq_tail % qp->cap.max_send_wr];

	if (qp->sq_tail - qp->sq_head == qp->cap.max_send_wr)
		return ENOMEM;
	if (wr->num_sge > 1 || (wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM &&
				(wr->opcode != IBV_WR_RDMA_READ || wr->send_flags & IBV_SEND_INLINE)))
		return EINVAL;
	out->wr = *wr;
	if (wr->num_sge)
		out->sge = wr->sg_list[0];
	if (wr->num_sge && (wr->send_flags & IBV_SEND_INLINE)) {
		if (out->sge.length > qp->cap.max_inline_data || out->sge.length > FAKE_INLINE_MOST)
			return EINVAL;
		memcpy(out->inlined, (const void *)(uintptr_t)out->sge.addr, out->sge.length);
	}
	qp->sq_tail++;
	return 0;
}

int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int r = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_call_fails(FAKE_VERBS_CALL))
		r = ENOMEM;
	if (ibv->state != IBV_QPS_RTS && ibv->state != IBV_QPS_ERR) {
		fake.counts.wrong_calls++;
		r = EINVAL;
	}
	for (; list && r == 0; list = list->next) {
		fake.counts.posted[qp->device->index] += list->num_sge > 0;
		if (ibv->state == IBV_QPS_ERR)
			fake_complete(qp, false, list->wr_id, IBV_WC_WR_FLUSH_ERR, 0, 0);
		else
			r = take_wr(qp, list);
		if (r == EINVAL)
			fake.counts.wrong_calls++;
	}
	*ret_bad = list;
	if (!fake.options.lazy || fake_random() % 4)
		fake_pump();
	pthread_mutex_unlock(&fake_lock);
	return r;
}

int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int r = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_call_fails(FAKE_VERBS_CALL))
		r = ENOMEM;
	if (ibv->state == IBV_QPS_RESET) {
		fake.counts.wrong_calls++;
		r = EINVAL;
	}
	for (; list && r == 0; list = list->next) {
		if (ibv->state == IBV_QPS_ERR)
			fake_complete(qp, true, list->wr_id, IBV_WC_WR_FLUSH_ERR, 0, 0);
		else if (qp->rq_tail - qp->rq_head == qp->cap.max_recv_wr)
			r = ENOMEM;
		else
			qp->rq[qp->rq_tail++ % qp->cap.max_recv_wr] = list->wr_id;
	}
	*ret_bad = list;
	pthread_mutex_unlock(&fake_lock);
	return r;
}
