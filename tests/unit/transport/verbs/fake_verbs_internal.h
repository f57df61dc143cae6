/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake share; everything under its lock. */
#ifndef TESTS_UNIT_TRANSPORT_VERBS_FAKE_VERBS_INTERNAL_H
#define TESTS_UNIT_TRANSPORT_VERBS_FAKE_VERBS_INTERNAL_H

#include "unit/transport/verbs/fake_verbs.h"

#include <pthread.h>

enum { FAKE_SQ_MOST = 512, FAKE_INLINE_MOST = 1024, FAKE_EVENTS = 16 };

struct fake_wr {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t inlined[FAKE_INLINE_MOST];
};

struct fake_qp {
	struct ibv_qp ibv;
	struct fake_qp *next;
	struct fake_device *device;
	struct ibv_qp_cap cap;
	uint32_t dest;
	bool forgotten;          /* stands still until it is put into another state */
	uint64_t stuck_since_ns; /* its first write finds no way; 0: it does */
	uint64_t begun_ns;       /* its first write, on a slow device */
	struct fake_wr *sq;
	unsigned sq_head, sq_tail;
	uint64_t *rq;
	unsigned rq_head, rq_tail;
	struct ibv_ece ece;
};

struct fake_cq {
	struct ibv_cq ibv;
	struct ibv_wc *entries;
	unsigned head, tail;
	bool armed;
};

struct fake_channel {
	struct ibv_comp_channel ibv;
	struct fake_cq *cqs[64];
	unsigned head, tail;
};

struct fake_mr {
	struct ibv_mr ibv;
	struct fake_mr *next;
	unsigned access;
};

/* Written by a device, not seen by the GPU yet. */
struct fake_late {
	struct fake_late *next;
	const struct fake_device *device;
	uint8_t *to;
	uint32_t bytes;
	uint8_t data[];
};

struct fake_device {
	struct ibv_device ibv;
	unsigned index;
	bool active, ethernet, path_works, loops_fail;
	bool loses, forgets, needs_grh;
	bool dead;        /* says nothing, does nothing */
	unsigned reaches; /* so many more queue pairs find their peers */
	uint16_t lid, last_pkey;
	uint64_t search_ns; /* the others fail after so long */
	uint64_t each_ns; /* that a write takes; 0: none */
	enum fake_verbs_loss how, always;
	size_t lost_bytes; /* of at least so many it always loses a write */
	uint8_t gids[FAKE_VERBS_GIDS][16];
	struct ibv_ah_attr last_path;
	struct ibv_qp_attr last_rts;
	struct fake_context *contexts;
};

/* A device as one of those who have opened it has it: each hears of every event. */
struct fake_context {
	struct ibv_context ibv;
	struct fake_context *next;
	struct fake_device *device;
	struct ibv_async_event events[FAKE_EVENTS];
	unsigned event_head, event_tail;
};

struct fake_state {
	struct fake_verbs_options options;
	struct fake_device devices[FAKE_VERBS_DEVICES];
	struct ibv_device *list[FAKE_VERBS_DEVICES + 1];
	struct fake_qp *qps;
	struct fake_mr *mrs;
	struct fake_late *late, **late_end;
	uint32_t next_qp, next_key;
	uint64_t fail_in[FAKE_VERBS_KIND_COUNT];
	bool failed;
	uint64_t random;
	unsigned objects, queue_count, region_count;
	struct fake_verbs_counts counts;
	pthread_t thread, starter;
	pthread_cond_t wake;
	bool runs, stop;
};

extern pthread_mutex_t fake_lock;
extern struct fake_state fake;

struct fake_device *fake_device_of(struct ibv_context *context);
/* True: this call is to fail. */
bool fake_call_fails(enum fake_verbs_kind kind);
uint64_t fake_random(void);

/* fake_verbs_gpu.c */
bool fake_gpu_has(const void *data, size_t bytes, int fd, uint64_t offset); /* fd -1: whatever its descriptor */
/* As a device writes and reads, at an address of a GPU or any other. */
void fake_write(const struct fake_device *device, uint64_t to, const void *from, uint32_t bytes);
void fake_read(const struct fake_device *device, void *to, uint64_t from, uint32_t bytes);
void fake_catch_up(const struct fake_device *device); /* NULL: all */

/* fake_verbs_wire.c */
void fake_complete(struct fake_qp *qp, bool receive, uint64_t wr_id, enum ibv_wc_status status, uint32_t bytes,
		   uint32_t imm);
/* Into the error state: what is posted comes back. */
void fake_qp_error(struct fake_qp *qp);
/* Carries out what can be. */
void fake_pump(void);
void *fake_thread(void *arg);
int fake_post_send(struct ibv_qp *ibv, struct ibv_send_wr *list, struct ibv_send_wr **ret_bad);
int fake_query_ece(struct ibv_qp *ibv, struct ibv_ece *ret);
int fake_set_ece(struct ibv_qp *ibv, struct ibv_ece *ece);
int fake_post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *list, struct ibv_recv_wr **ret_bad);

#endif
