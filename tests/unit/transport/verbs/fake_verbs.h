/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libibverbs and its hardware, in this process: devices, queue pairs, registered memory, completion queues and channels,
 * events; both ends of a connection are in the process. What is written goes straight into the peer's memory, at once or a
 * little later by a thread of its own, and is checked as a device would: keys, ranges, rights, states, receives that are
 * missing. Errors come on demand.
 *
 * Any thread. One fake at a time.
 */
#ifndef TESTS_UNIT_TRANSPORT_VERBS_FAKE_VERBS_H
#define TESTS_UNIT_TRANSPORT_VERBS_FAKE_VERBS_H

#include "transport/verbs/api.h"

#include <stdbool.h>
#include <stddef.h>

enum { FAKE_VERBS_DEVICES = 34, FAKE_VERBS_GIDS = 4, FAKE_VERBS_PKEYS = 2 };
enum { FAKE_VERBS_ECE = 8 }; /* options */

/* What becomes of a write whose path fails. */
enum fake_verbs_loss {
	FAKE_VERBS_ARRIVES_NOT,
	FAKE_VERBS_ARRIVES_HALF,  /* half of the bytes, and no notice */
	FAKE_VERBS_ARRIVES_WHOLE, /* the acknowledgement is lost */
	FAKE_VERBS_REFUSED,       /* the peer's device calls it invalid */
	FAKE_VERBS_NO_RECEIVE,    /* the peer has had no receive for it, as often as it was asked (RNR) */
	FAKE_VERBS_LOSS_COUNT
};

struct fake_verbs_options {
	unsigned devices; /* 0: none */
	uint64_t seed;
	bool lazy;                          /* some writes are left to the thread */
	bool no_iova2;                      /* an old library */
	int open_error;                     /* of every open_device */
	unsigned max_inline;                /* what queue pairs say they can; 0: 220 */
	unsigned gives_inline;              /* what they get, if it is more than they ask for */
	bool dmabuf;                        /* registers memory of GPUs by descriptors */
	bool no_dmabuf_call;                /* a library that does not know the call */
	bool peermem;                       /* registers memory of GPUs by its address */
	unsigned ports;                     /* of each device; 0: 1 */
	unsigned most_queues, most_regions; /* beyond these ENOMEM; 0: no limit */
	bool ece;                           /* queue pairs offer FAKE_VERBS_ECE, and take the half of an offer */
};

/* The table, and everything reset. */
const struct verbs_api *fake_verbs_start(const struct fake_verbs_options *options);
/* Objects that nobody gave back; the thread ends. */
unsigned fake_verbs_stop(void);

/* Every path of this device fails, or works again: writes time out after some milliseconds. */
void fake_verbs_path(unsigned device, bool works);
/* Queue pairs with themselves, which need no path. */
void fake_verbs_loops(unsigned device, bool work);
/* The next write of any queue pair of this device ends so, and with it the queue pair. */
void fake_verbs_lose(unsigned device, enum fake_verbs_loss how);
/* Every write of at least so many bytes ends so, from now on; SIZE_MAX: none. */
void fake_verbs_lose_always(unsigned device, size_t bytes, enum fake_verbs_loss how);
/* The next write of any queue pair of this device neither arrives nor fails, and what follows it neither. */
void fake_verbs_forget(unsigned device);
/* A port goes down or up: the event, and its paths with it. */
void fake_verbs_port(unsigned device, bool up);
/* The event of this port, for devices of several. */
void fake_verbs_port_of(unsigned device, unsigned port, bool up);
/* The device itself fails: the event, and it never does or says anything again. */
void fake_verbs_die(unsigned device);
/*
 * After so many more queue pairs of this device have been connected, each other takes so long and fails: nobody answers for the
 * address. UINT_MAX: as at first.
 */
void fake_verbs_unreached(unsigned device, unsigned after, uint64_t each_ns);
/* Each write of a queue pair of this device takes so long. */
void fake_verbs_slow(unsigned device, uint64_t each_ns);
/* Address rows and port of the device, before it is opened. */
void fake_verbs_set_gid(unsigned device, unsigned row, const uint8_t gid[static 16]);
/* The address moves to another row, or goes if `to` is none: the event. */
void fake_verbs_move_gid(unsigned device, unsigned from, unsigned to);
void fake_verbs_set_lid(unsigned device, uint16_t lid); /* and the event */
void fake_verbs_set_port(unsigned device, bool active, bool ethernet);
void fake_verbs_needs_grh(unsigned device); /* in the subnet, too */
void fake_verbs_set_transport(unsigned device, enum ibv_transport_type type);
/* Queue pairs that there may be from now on; 0: no limit. */
void fake_verbs_limit_queues(unsigned most);

/* The nth call of this kind from now fails; 0: none. Whether it came to that. */
enum fake_verbs_kind {
	FAKE_VERBS_CALL,
	FAKE_VERBS_POLL,  /* of a completion queue */
	FAKE_VERBS_EVENT, /* that is taken: it comes again */
	FAKE_VERBS_KIND_COUNT
};
void fake_verbs_fail(enum fake_verbs_kind kind, uint64_t nth);
static inline void fake_verbs_fail_call(uint64_t nth)
{
	fake_verbs_fail(FAKE_VERBS_CALL, nth);
}
bool fake_verbs_failed(void);

/*
 * Memory of a GPU: the address that the transport sees cannot be touched by the CPU at all, the view is the test's. What a
 * device writes there is seen in the view only when the same device has read from there, has reset a queue pair, or has ended.
 */
struct fake_verbs_gpu {
	uint8_t *address, *view;
	size_t bytes;
	int fd; /* its DMA-BUF */
};
struct fake_verbs_gpu fake_verbs_gpu_new(size_t bytes);
void fake_verbs_gpu_free(struct fake_verbs_gpu *gpu);

struct fake_verbs_counts {
	uint64_t requests, bytes;          /* work requests that were carried out, what they wrote */
	uint64_t data[FAKE_VERBS_DEVICES]; /* bytes written by each device's queue pairs */
	/* Of each device: requests with bytes that were posted, whatever became of them; queue pairs that were connected. */
	uint64_t posted[FAKE_VERBS_DEVICES], connected[FAKE_VERBS_DEVICES];
	uint64_t unreached[FAKE_VERBS_DEVICES]; /* that could not be */
	uint64_t connected_here;                /* of both, by the thread that started the fake; none with itself */
	uint64_t searches;                      /* under way */
	uint64_t missing_receives, overflows, wrong_calls;
	uint64_t failed_queues;
	uint64_t registrations; /* made so far */
	uint64_t ece_sets[2];   /* with the whole offer, with the half of it */
	uint64_t silent_writes; /* requests of a write without a notice */
	uint64_t reads;
};
void fake_verbs_counts(struct fake_verbs_counts *ret);
/* Of the queue pair of this device that was connected last. */
struct ibv_ah_attr fake_verbs_last_path(unsigned device);
uint16_t fake_verbs_last_pkey(unsigned device);            /* the row, of the queue pair that was made last */
struct ibv_qp_attr fake_verbs_last_ready(unsigned device); /* with which it was made ready to send */
unsigned fake_verbs_regions(void);                         /* registered now */
unsigned fake_verbs_access(const void *data);              /* with what this byte is registered; 0: it is not */

#endif
