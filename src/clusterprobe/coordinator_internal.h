/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's state, which its two files share. */
#ifndef TRIBUTARY_CLUSTERPROBE_COORDINATOR_INTERNAL_H
#define TRIBUTARY_CLUSTERPROBE_COORDINATOR_INTERNAL_H

#include "clusterprobe/clusterprobe.h"

#include <pthread.h>

enum { COORDINATOR_UNAUTHENTICATED_MAX = 64, COORDINATOR_POLL_MS = 50 };

struct peer {
	struct clusterprobe_control control;
	uint64_t since_ns;
	bool here;   /* has said HELLO */
	bool placed; /* rank was known before: it came through a remote shell */
	uint32_t rank;
	uint64_t boot;
	char name[CLUSTERPROBE_NAME_BYTES];
	struct clusterprobe_address address;
};

struct coordinator {
	struct fabric_probe probe; /* first */
	const struct clusterprobe_setup *setup;
	const struct clusterprobe_options *options;
	struct diag *diag;
	int listener;
	void *arrays;       /* peers, hosts, awaited, polls */
	struct peer *peers; /* [size + COORDINATOR_UNAUTHENTICATED_MAX] */
	size_t peer_count, here_count;
	struct peer **hosts; /* [host_count], by rank */
	size_t host_count;
	bool *awaited; /* [host_count]: of the round at hand */
	struct pollfd *polls;
	struct clusterprobe_message in, out;
	uint8_t token[CLUSTERPROBE_TOKEN_BYTES];
	uint32_t round;
	struct {
		pthread_t thread;
		pthread_mutex_t lock; /* the thread says nothing while a round is run */
		atomic_bool over;
		_Atomic uint64_t last_ns;
		uint64_t every_ns;
	} keepalive; /* while the fabric is measured */
	pthread_t worker;
	bool has_worker;
	int worker_result; /* once it has ended */
	atomic_bool over, worker_ended;
	struct clusterprobe_setup worker_setup;
	struct diag worker_diag;
	bool loopback;                       /* is where rank 0 is said to be */
	struct clusterprobe_address reached; /* this host, as the first one of another came to it */
	bool is_reached;
	/* In a session one that fails is no failure of the others: this hears of it, before it is dropped. */
	void (*lost)(struct coordinator *coordinator, const struct peer *peer);
	void *lost_arg;
};

/* coordinator.c. Listens, and starts this host's own worker. */
int coordinator_start(struct coordinator *coordinator);
/* Tells each rank whether it is its host's first: coordinator->hosts. */
int coordinator_appoint(struct coordinator *coordinator);
/* Says END to all, with the reason for an error, and frees everything. */
void coordinator_end(struct coordinator *coordinator, int error);
/* Its arrays, for as many ranks as the launch has. */
int coordinator_allocate(struct coordinator *coordinator);

/* coordinator_join.c. -EINTR and the reason, once a signal has come. */
int coordinator_stopped(struct coordinator *coordinator);
int coordinator_listen(struct coordinator *coordinator);
/* Until all ranks are here and have said HELLO: coordinator->hosts, in the order of ranks. -errno with the reason. */
int coordinator_wait_for_workers(struct coordinator *coordinator);
bool coordinator_has_rank(const struct coordinator *coordinator, uint32_t rank);
/* On a socket that is connected; takes fd, which is closed on an error. */
int coordinator_add_peer(struct coordinator *coordinator, int fd);
void coordinator_drop_peer(struct coordinator *coordinator, struct peer *peer);
/* Where the others reach that peer. */
struct clusterprobe_address coordinator_address_of(const struct coordinator *coordinator, const struct peer *peer);

#endif
