/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RDMA devices that are open (cards), their ports, and memory registered with them.
 *
 * Threads: opening and closing by one thread; memory and port states from any thread at once.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_DEVICE_H
#define TRIBUTARY_TRANSPORT_VERBS_DEVICE_H

#include "transport/transport.h"
#include "transport/verbs/api.h"
#include "transport/verbs/facts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

struct diag;
struct params;

enum { VERBS_CARDS_MAX = 32, VERBS_PORTS_MAX = 32, VERBS_CARD_PORTS_MAX = 8, VERBS_NAME_BYTES = 72 };

/* A range of pages, registered once for all who want it. */
struct verbs_memory {
	LIST_ENTRY(verbs_memory) link;
	uint64_t begin, end;
	unsigned holders;
	unsigned stays; /* holders for whom all of its pages stay mapped until they put it */
	bool gpu;       /* a GPU's: the CPU never touches it */
	bool stale;     /* they have put it; who still holds it needs a part alone: it is not found again */
	struct ibv_mr *mr;
};

struct verbs_card {
	const struct verbs_api *api;
	const char *root; /* of sysfs; the caller's */
	const struct verbs_fabric *fabric;
	struct ibv_context *context;
	struct ibv_pd *pd;
	char name[64];
	struct ibv_device_attr attr;
	unsigned memory;      /* what it can register: enum transport_memory */
	pthread_mutex_t lock; /* guards memories, and is held while one is registered */
	LIST_HEAD(, verbs_memory) memories;
	bool refused, said_copied; /* it did not register some memory of the host, and that was said */
	/* Ports that an event has called down; bit n: port n. What the event says, not what a port is. */
	_Atomic unsigned down_ports;
	_Atomic unsigned addressless_ports; /* the same, of those whose address is gone */
	_Atomic bool lost;                  /* the device itself has failed: nothing on it works again */
};

struct verbs_port {
	struct verbs_card *card;
	uint8_t number;
	bool ethernet;
	char name[VERBS_NAME_BYTES]; /* "mlx5_0", or "mlx5_0:2" for a port that is not the only one */
	char netdev[IFNAMSIZ];       /* of the address; "" on InfiniBand */
	struct verbs_place place;
	int rail, plane; /* as the user gave them, "mlx5_0:1:RAIL:PLANE"; or -1 */
	uint64_t guid, speed_Bps;
	uint16_t pkey_index;
	bool needs_grh; /* InfiniBand: packets carry whole addresses, within the subnet, too */
	enum ibv_mtu mtu;
	_Atomic uint16_t lid;
	_Atomic uint8_t gid_index;
	enum verbs_gid_type gid_type;
	uint8_t gid[VERBS_GID_BYTES];
};

struct verbs_devices {
	struct verbs_fabric fabric;
	struct verbs_card *cards[VERBS_CARDS_MAX];
	unsigned card_count;
	struct verbs_port ports[VERBS_PORTS_MAX];
	unsigned port_count;
	unsigned left_out;   /* devices and ports beyond these */
	atomic_flag listens; /* a thread is in verbs_devices_listen() */
};

/*
 * Opens every device of the library and takes its active ports that the parameters want. 0 with no ports: *diag says why,
 * in one clause. Memory and the like: -errno.
 */
int verbs_devices_open(const struct verbs_api *api, const char *root, const struct params *params,
		       struct verbs_devices *ret, struct diag *diag);
void verbs_devices_close(struct verbs_devices *devices);
/* Takes what the devices have to tell: ports down and up, addresses. Never blocks; cheap when there is nothing. */
void verbs_devices_listen(struct verbs_devices *devices);
static inline bool verbs_card_is_lost(const struct verbs_card *card)
{
	return atomic_load_explicit(&card->lost, memory_order_relaxed);
}
/* Also if its card is lost, or its address is gone. */
static inline bool verbs_port_is_down(const struct verbs_port *port)
{
	const struct verbs_card *card = port->card;
	const unsigned down = atomic_load_explicit(&card->down_ports, memory_order_relaxed) |
			      atomic_load_explicit(&card->addressless_ports, memory_order_relaxed);

	return verbs_card_is_lost(card) || down >> port->number & 1;
}

/* What to register. */
struct verbs_range {
	void *data;
	size_t bytes;
	bool stays;      /* until it is put, with the same, all of it stays mapped */
	unsigned memory; /* HOST; CUDA: by its address, through nvidia-peermem; DMABUF: by this descriptor */
	int fd;
	uint64_t offset; /* of data in what the descriptor stands for */
	bool optional;   /* who asks can do without it: a refusal is not worth a line */
};

/*
 * A registration of [data, data + bytes) for local use and writes by the peer. One of the same pages is shared, and one of
 * more pages while somebody holds it who stays. -EOPNOTSUPP: the device cannot, for this memory. Another error is logged,
 * with the limit if it is that.
 */
int verbs_memory_get(struct verbs_card *card, const struct verbs_range *range, struct verbs_memory **ret);
/* That what it does not register is copied; once. */
void verbs_memory_say_copied(struct verbs_card *card);
void verbs_memory_put(struct verbs_card *card, struct verbs_memory *memory, bool stays);

#endif
