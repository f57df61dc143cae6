/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs as a table: the library opened at run time, or what a test puts in its place. Nothing else in the transport
 * calls an ibv_ function, not even the inline ones of <infiniband/verbs.h>, of which only types and constants are used.
 *
 * Every function is as its namesake ibv_…: what returns int gives 0 or an errno value (or -1 with errno set), what returns
 * a pointer gives NULL with errno set.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_API_H
#define TRIBUTARY_TRANSPORT_VERBS_API_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct diag;

struct verbs_api {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *ret);
	/* The caller zeroes *ret: older libraries write the first part of it alone. */
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *ret);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *ret);
	int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, uint16_t *ret); /* big-endian */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *data, size_t bytes, int access);
	/* NULL: the library is too old. Flags that a device may ignore (relaxed ordering) go through here alone. */
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *data, size_t bytes, uint64_t iova, unsigned access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova, int fd,
					int access); /* NULL: too old */
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **ret, void **ret_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	/* NULL: too old. A device that knows nothing of it gives EOPNOTSUPP. */
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ret);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *ret);
	void (*ack_async_event)(struct ibv_async_event *event);
	int (*fork_init)(void);
	const char *(*wc_status_str)(enum ibv_wc_status status);
	/* Of the device's driver: verbs.h has them as inline functions that go through the context. */
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad);
	int (*poll_cq)(struct ibv_cq *cq, int most, struct ibv_wc *ret);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
};

/* What an int function gave, as -errno. */
static inline int verbs_error(int r)
{
	if (r == 0)
		return 0;
	if (r > 0)
		return -r;
	return errno > 0 ? -errno : -EIO;
}

#define VERBS_LIBRARY "libibverbs.so.1"

/*
 * The library of this machine, opened once and never closed (its drivers do not survive that). NULL: it is not there or
 * misses something, and *diag says what in one clause.
 */
const struct verbs_api *verbs_api_open(struct diag *diag);
/* The same from a file of this name: for tests of what is said when it cannot be used. */
int verbs_api_load(const char *file, struct verbs_api *ret, struct diag *diag);

#endif
