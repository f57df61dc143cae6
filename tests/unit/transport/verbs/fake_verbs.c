/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/transport/verbs/fake_verbs.h"

#include "unit/transport/verbs/fake_verbs_internal.h"

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_state fake;

struct fake_device *fake_device_of(struct ibv_context *context)
{
	return ((struct fake_context *)context)->device;
}

bool fake_call_fails(enum fake_verbs_kind kind)
{
	if (!fake.fail_in[kind] || --fake.fail_in[kind])
		return false;
	fake.failed = true;
	return true;
}

uint64_t fake_random(void)
{
	fake.random = fake.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return fake.random >> 33;
}

/* Locks; true and errno: the call is to fail. */
static bool enter(int error)
{
	pthread_mutex_lock(&fake_lock);
	if (!fake_call_fails(FAKE_VERBS_CALL))
		return false;
	pthread_mutex_unlock(&fake_lock);
	errno = error;
	return true;
}

/* A device that has failed answers nothing any more: the kernel does. */
static bool is_dead(struct ibv_context *context)
{
	if (fake_device_of(context)->dead)
		errno = EIO;
	return fake_device_of(context)->dead;
}

static void leave(void)
{
	pthread_mutex_unlock(&fake_lock);
}

/* An object, counted; NULL is never given. */
static void *object(size_t bytes)
{
	void *made = calloc(1, bytes);

	if (!made)
		abort();
	fake.objects++;
	return made;
}

static void drop(void *made)
{
	free(made);
	fake.objects--;
}

/* ---- devices ---- */

static struct ibv_device **get_device_list(int *count)
{
	if (enter(ENOSYS))
		return NULL;
	*count = (int)fake.options.devices;
	for (unsigned i = 0; i < fake.options.devices; i++)
		fake.list[i] = &fake.devices[i].ibv;
	fake.list[fake.options.devices] = NULL;
	fake.objects++;
	leave();
	return fake.list;
}

static void free_device_list(struct ibv_device **list)
{
	(void)list;
	pthread_mutex_lock(&fake_lock);
	fake.objects--;
	leave();
}

static const char *get_device_name(struct ibv_device *device)
{
	return device->name;
}

static struct ibv_context *open_device(struct ibv_device *ibv)
{
	struct fake_device *device = (struct fake_device *)ibv;
	struct fake_context *context = NULL;

	if (enter(ENOMEM))
		return NULL;
	if (fake.options.open_error) {
		errno = fake.options.open_error;
	} else {
		context = object(sizeof(*context));
		context->ibv.device = ibv;
		context->ibv.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
		context->device = device;
		context->next = device->contexts;
		device->contexts = context;
	}
	leave();
	return context ? &context->ibv : NULL;
}

/* A descriptor that somebody else has closed may be another file's by now. */
static void close_own(int fd)
{
	if (close(fd) < 0)
		fake.counts.wrong_calls++;
}

static int close_device(struct ibv_context *context)
{
	struct fake_context **link;

	pthread_mutex_lock(&fake_lock);
	close_own(context->async_fd);
	link = &fake_device_of(context)->contexts;
	while (&(*link)->ibv != context)
		link = &(*link)->next;
	*link = (*link)->next;
	drop(context);
	leave();
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *ret)
{
	if (enter(ENOMEM))
		return ENOMEM;
	memset(ret, 0, sizeof(*ret));
	ret->node_guid = htobe64(0x1000U + fake_device_of(context)->index);
	ret->sys_image_guid = htobe64(0x2000U + fake_device_of(context)->index);
	ret->phys_port_cnt = (uint8_t)(fake.options.ports ? fake.options.ports : 1);
	ret->max_qp = 1000;
	ret->max_cqe = 32767;
	leave();
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *ret)
{
	struct fake_device *device = fake_device_of(context);

	if (!port || port > (fake.options.ports ? fake.options.ports : 1) || enter(EINVAL))
		return EINVAL;
	memset(ret, 0, sizeof(*ret));
	ret->state = device->active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	ret->active_mtu = IBV_MTU_4096;
	ret->gid_tbl_len = FAKE_VERBS_GIDS;
	ret->pkey_tbl_len = FAKE_VERBS_PKEYS;
	ret->flags = device->needs_grh;
	ret->lid = device->lid;
	ret->active_width = 2; /* four lanes of 25 Gbit/s */
	ret->active_speed = 32;
	ret->link_layer = device->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	leave();
	return 0;
}

static int query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *ret)
{
	if (!port || port > (fake.options.ports ? fake.options.ports : 1) || index < 0 || index >= FAKE_VERBS_GIDS ||
	    enter(EINVAL))
		return EINVAL;
	memcpy(ret->raw, fake_device_of(context)->gids[index], sizeof(ret->raw));
	if (ret->raw[15])
		ret->raw[15] = (uint8_t)(ret->raw[15] + port - 1); /* each port has its own */
	leave();
	return 0;
}

/* The first is full, the others are limited. */
static int query_pkey(struct ibv_context *context, uint8_t port, int index, uint16_t *ret)
{
	(void)context;
	if (!port || port > (fake.options.ports ? fake.options.ports : 1) || index < 0 || index >= FAKE_VERBS_PKEYS)
		return EINVAL;
	*ret = htobe16(index ? (uint16_t)index : 0xffff);
	return 0;
}

static int get_async_event(struct ibv_context *ibv, struct ibv_async_event *ret)
{
	struct fake_context *context = (struct fake_context *)ibv;
	uint64_t got;

	if (read(ibv->async_fd, &got, sizeof(got)) != (ssize_t)sizeof(got))
		return -1;
	pthread_mutex_lock(&fake_lock);
	if (fake_call_fails(FAKE_VERBS_EVENT)) { /* it is not lost: it comes the next time */
		got = 1;
		if (write(ibv->async_fd, &got, sizeof(got)) < 0)
			fake.counts.wrong_calls++;
		leave();
		errno = EIO;
		return -1;
	}
	*ret = context->events[context->event_head++ % FAKE_EVENTS];
	fake.objects++;
	leave();
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	pthread_mutex_lock(&fake_lock);
	fake.objects--;
	leave();
}

static int fork_init(void)
{
	if (enter(ENOMEM))
		return ENOMEM;
	leave();
	return 0;
}

static const char *wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "fake error";
}

/* ---- memory ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd;

	if (enter(ENOMEM))
		return NULL;
	pd = object(sizeof(*pd));
	pd->context = context;
	leave();
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	pthread_mutex_lock(&fake_lock);
	drop(pd);
	leave();
	return 0;
}

static struct ibv_mr *region(struct ibv_pd *pd, void *data, size_t bytes, unsigned access)
{
	struct fake_mr *mr = NULL;

	if (is_dead(pd->context)) {
		mr = NULL;
	} else if (fake.options.most_regions && fake.region_count >= fake.options.most_regions) {
		errno = ENOMEM;
	} else {
		mr = object(sizeof(*mr));
		mr->ibv.context = pd->context;
		mr->ibv.pd = pd;
		mr->ibv.addr = data;
		mr->ibv.length = bytes;
		mr->ibv.lkey = mr->ibv.rkey = ++fake.next_key;
		mr->access = access;
		mr->next = fake.mrs;
		fake.mrs = mr;
		fake.region_count++;
		fake.counts.registrations++;
	}
	return mr ? &mr->ibv : NULL;
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *data, size_t bytes, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = NULL;

	(void)iova;
	if (enter(ENOMEM))
		return NULL;
	if (fake_gpu_has(data, 1, -1, 0) && !fake.options.peermem)
		errno = EFAULT;
	else
		mr = region(pd, data, bytes, access);
	leave();
	return mr;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd, int access)
{
	void *data = (void *)(uintptr_t)iova;
	struct ibv_mr *mr = NULL;

	if (enter(ENOMEM))
		return NULL;
	if (!fake.options.dmabuf)
		errno = EOPNOTSUPP;
	else if (fd < 0)
		errno = EBADF;
	else if (!fake_gpu_has(data, bytes, fd, offset))
		errno = EINVAL;
	else
		mr = region(pd, data, bytes, (unsigned)access);
	leave();
	return mr;
}

/* Without the newer call a flag is an order: one that the device does not know is an error. */
static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *data, size_t bytes, int access)
{
	if ((unsigned)access & IBV_ACCESS_RELAXED_ORDERING) {
		pthread_mutex_lock(&fake_lock);
		fake.counts.wrong_calls++;
		leave();
	}
	return reg_mr_iova2(pd, data, bytes, (uintptr_t)data, (unsigned)access);
}

static int dereg_mr(struct ibv_mr *ibv)
{
	struct fake_mr **link = &fake.mrs;

	pthread_mutex_lock(&fake_lock);
	while (&(*link)->ibv != ibv)
		link = &(*link)->next;
	*link = (*link)->next;
	fake.region_count--;
	drop(ibv);
	leave();
	return 0;
}

/* ---- completions ---- */

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel;

	if (enter(EMFILE))
		return NULL;
	channel = object(sizeof(*channel));
	channel->ibv.context = context;
	channel->ibv.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	leave();
	return &channel->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
	pthread_mutex_lock(&fake_lock);
	close_own(channel->fd);
	drop(channel);
	leave();
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
				struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq;

	(void)vector;
	if (entries < 1 || entries > 32767 || enter(ENOMEM))
		return NULL;
	cq = object(sizeof(*cq));
	cq->ibv.context = context;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = cq_context;
	cq->ibv.cqe = entries;
	cq->entries = calloc((size_t)entries, sizeof(*cq->entries));
	leave();
	return &cq->ibv;
}

static int destroy_cq(struct ibv_cq *ibv)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;

	pthread_mutex_lock(&fake_lock);
	if (ibv->comp_events_completed) /* the real one waits for ever */
		fake.counts.wrong_calls++;
	free(cq->entries);
	drop(cq);
	leave();
	return 0;
}

static int get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **ret, void **ret_context)
{
	struct fake_channel *channel = (struct fake_channel *)ibv;
	uint64_t got;

	if (read(ibv->fd, &got, sizeof(got)) != (ssize_t)sizeof(got))
		return -1;
	pthread_mutex_lock(&fake_lock);
	if (fake_call_fails(FAKE_VERBS_EVENT)) {
		got = 1;
		if (write(ibv->fd, &got, sizeof(got)) < 0)
			fake.counts.wrong_calls++;
		leave();
		errno = EIO;
		return -1;
	}
	*ret = &channel->cqs[channel->head++ % 64]->ibv;
	*ret_context = (*ret)->cq_context;
	(*ret)->comp_events_completed++; /* here: not acknowledged yet */
	leave();
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	pthread_mutex_lock(&fake_lock);
	cq->comp_events_completed -= count;
	leave();
}

static int poll_cq(struct ibv_cq *ibv, int most, struct ibv_wc *ret)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	int count = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_call_fails(FAKE_VERBS_POLL)) {
		leave();
		return -1;
	}
	if (!fake.options.lazy || fake_random() % 4)
		fake_pump();
	for (; count < most && cq->head != cq->tail; cq->head++)
		ret[count++] = cq->entries[cq->head % (unsigned)ibv->cqe];
	leave();
	return count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	if (solicited_only || enter(ENOMEM))
		return ENOMEM;
	((struct fake_cq *)cq)->armed = true;
	leave();
	return 0;
}

/* ---- queue pairs ---- */

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	unsigned most = fake.options.max_inline ? fake.options.max_inline : 220;
	struct fake_qp *qp;

	if (enter(ENOMEM))
		return NULL;
	if (attr->cap.max_inline_data > most || attr->qp_type != IBV_QPT_RC) {
		leave();
		errno = EINVAL;
		return NULL;
	}
	if (fake.options.most_queues && fake.queue_count >= fake.options.most_queues) {
		leave();
		errno = ENOMEM;
		return NULL;
	}
	if (is_dead(pd->context)) {
		leave();
		return NULL;
	}
	qp = object(sizeof(*qp));
	qp->device = fake_device_of(pd->context);
	qp->ibv.context = pd->context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_num = ++fake.next_qp;
	qp->ibv.state = IBV_QPS_RESET;
	if (attr->cap.max_inline_data && attr->cap.max_inline_data < fake.options.gives_inline)
		attr->cap.max_inline_data = fake.options.gives_inline;
	qp->cap = attr->cap;
	qp->sq = calloc(attr->cap.max_send_wr, sizeof(*qp->sq));
	qp->rq = calloc(attr->cap.max_recv_wr, sizeof(*qp->rq));
	qp->next = fake.qps;
	fake.qps = qp;
	fake.queue_count++;
	leave();
	return &qp->ibv;
}

/* What a completion queue holds of a queue pair goes with it. */
static void forget(struct fake_qp *qp)
{
	struct fake_cq *cq = (struct fake_cq *)qp->ibv.recv_cq;
	unsigned to = cq->head;

	for (unsigned at = cq->head; at != cq->tail; at++) {
		struct ibv_wc wc = cq->entries[at % (unsigned)cq->ibv.cqe];

		if (wc.qp_num != qp->ibv.qp_num)
			cq->entries[to++ % (unsigned)cq->ibv.cqe] = wc;
	}
	cq->tail = to;
	qp->sq_head = qp->sq_tail;
	qp->rq_head = qp->rq_tail;
}

static bool may_go(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_RESET:
	case IBV_QPS_ERR:
		return true;
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR;
	default:
		return false;
	}
}

/* Lock held; not while it looks for the peer. */
static int reach(struct fake_qp *qp, const struct ibv_qp_attr *attr)
{
	struct fake_device *device = qp->device;
	const struct timespec search = { .tv_nsec = (long)device->search_ns };
	const bool found = device->reaches > 0 || attr->dest_qp_num == qp->ibv.qp_num;

	if (attr->dest_qp_num != qp->ibv.qp_num) {
		fake.counts.connected_here += pthread_equal(pthread_self(), fake.starter) != 0;
		device->reaches -= device->reaches > 0 && device->reaches < UINT_MAX;
	}
	if (!found) {
		fake.counts.unreached[device->index]++;
		fake.counts.searches++;
		pthread_mutex_unlock(&fake_lock);
		nanosleep(&search, NULL);
		pthread_mutex_lock(&fake_lock);
		fake.counts.searches--;
		return ETIMEDOUT;
	}
	qp->dest = attr->dest_qp_num;
	device->last_path = attr->ah_attr;
	fake.counts.connected[device->index]++;
	return 0;
}

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;
	int r = 0;

	if (enter(ENOMEM))
		return ENOMEM;
	if (is_dead(ibv->context)) {
		r = EIO;
	} else if (!(mask & IBV_QP_STATE) || !may_go(ibv->state, attr->qp_state)) {
		fake.counts.wrong_calls++;
		r = EINVAL;
	} else if (attr->qp_state == IBV_QPS_ERR) {
		fake_qp_error(qp);
	} else {
		if (attr->qp_state == IBV_QPS_RESET) {
			forget(qp);
			fake_catch_up(qp->device); /* it answers when what it wrote is where it belongs */
		}
		if (attr->qp_state == IBV_QPS_INIT)
			qp->device->last_pkey = attr->pkey_index;
		if (attr->qp_state == IBV_QPS_RTR)
			r = reach(qp, attr);
		if (attr->qp_state == IBV_QPS_RTS)
			qp->device->last_rts = *attr;
		if (attr->qp_state == IBV_QPS_RTS && (attr->retry_cnt > 6 || attr->rnr_retry > 6))
			fake.counts.wrong_calls++; /* without end on some devices */
		if (r == 0)
			ibv->state = attr->qp_state;
	}
	leave();
	return r;
}

static int destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)ibv, **link = &fake.qps;

	pthread_mutex_lock(&fake_lock);
	forget(qp);
	while (*link != qp)
		link = &(*link)->next;
	*link = qp->next;
	fake.queue_count--;
	free(qp->sq);
	free(qp->rq);
	drop(qp);
	leave();
	return 0;
}

/* ---- the test's side ---- */

static struct verbs_api fake_api = {
	.get_device_list = get_device_list,
	.free_device_list = free_device_list,
	.get_device_name = get_device_name,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_port = query_port,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.alloc_pd = alloc_pd,
	.dealloc_pd = dealloc_pd,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	.create_comp_channel = create_comp_channel,
	.destroy_comp_channel = destroy_comp_channel,
	.create_cq = create_cq,
	.destroy_cq = destroy_cq,
	.get_cq_event = get_cq_event,
	.ack_cq_events = ack_cq_events,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
	.query_ece = fake_query_ece,
	.set_ece = fake_set_ece,
	.get_async_event = get_async_event,
	.ack_async_event = ack_async_event,
	.fork_init = fork_init,
	.wc_status_str = wc_status_str,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.poll_cq = poll_cq,
	.req_notify_cq = req_notify_cq,
};

const struct verbs_api *fake_verbs_start(const struct fake_verbs_options *options)
{
	static const uint8_t local[16] = { 0xfe, 0x80, [15] = 1 }, mapped[16] = { [10] = 0xff, 0xff, 10, 9, 2, 1 };

	if (fake.runs) /* of a test that failed */
		fake_verbs_stop();
	memset(&fake, 0, sizeof(fake));
	fake.options = *options;
	fake.random = options->seed;
	fake.starter = pthread_self();
	for (unsigned i = 0; i < FAKE_VERBS_DEVICES; i++) {
		struct fake_device *device = &fake.devices[i];

		device->index = i;
		device->active = device->ethernet = device->path_works = true;
		device->lost_bytes = SIZE_MAX;
		device->reaches = UINT_MAX;
		device->lid = (uint16_t)(7 + i);
		snprintf(device->ibv.name, sizeof(device->ibv.name), "fake%u", i);
		memcpy(device->gids[0], local, sizeof(local));
		memcpy(device->gids[1], mapped, sizeof(mapped));
		device->gids[1][14] = (uint8_t)(2 + i);
	}
	fake.late_end = &fake.late;
	fake_api.reg_dmabuf_mr = options->no_dmabuf_call ? NULL : reg_dmabuf_mr;
	fake_api.reg_mr_iova2 = options->no_iova2 ? NULL : reg_mr_iova2;
	pthread_cond_init(&fake.wake, NULL);
	fake.runs = pthread_create(&fake.thread, NULL, fake_thread, NULL) == 0;
	return &fake_api;
}

unsigned fake_verbs_stop(void)
{
	pthread_mutex_lock(&fake_lock);
	fake.stop = true;
	pthread_cond_signal(&fake.wake);
	leave();
	if (fake.runs)
		pthread_join(fake.thread, NULL);
	fake.runs = false;
	fake_catch_up(NULL);
	pthread_cond_destroy(&fake.wake);
	return fake.objects;
}
