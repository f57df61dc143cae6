/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the peer lives while nothing is heard over its control connection, whose network may be another than RDMA's: a
 * CREDIT descriptor asks the peer's process to send one back. A card answers for no process.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_LIFE_H
#define TRIBUTARY_TRANSPORT_VERBS_LIFE_H

#include <stdbool.h>
#include <stdint.h>

struct verbs_connection;

/* Of a connection; under its lock. */
struct verbs_life {
	unsigned came, seen; /* notices that came, and as many of them as a step has seen */
	uint64_t heard_ns;   /* a step saw more of them then */
	uint64_t looked_ns, asked_ns;
	uint64_t asked; /* the descriptor that asked last */
	bool answer;    /* the peer has asked */
};

struct verbs_life_facts {
	uint64_t timeout_ns, beat_ns;
	uint64_t out_ns, in_ns; /* so long each control connection has been silent (transport_ops.silent_ns) */
	uint64_t rdma_ns;       /* nothing has come over RDMA for so long */
	uint64_t unsettled_ns;  /* a stopped queue has waited so long for the peer's word; 0: none does */
};

enum verbs_life_result { VERBS_LIFE_FINE, VERBS_LIFE_ASK, VERBS_LIFE_UNSETTLED, VERBS_LIFE_GONE };

/* Pure. */
enum verbs_life_result verbs_life_result_of(const struct verbs_life_facts *facts);

/* From now on time-outs do not end the control connections. */
void verbs_life_begin(struct verbs_connection *connection, uint64_t now_ns);
/* Now and then. -errno: the peer's host says that its process is gone. The connection may have failed. */
int verbs_life_step(struct verbs_connection *connection, uint64_t now_ns);

#endif
