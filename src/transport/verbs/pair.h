/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue pair from made to connected, whoever uses it. Any thread. What these give is 0 or -errno.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_PAIR_H
#define TRIBUTARY_TRANSPORT_VERBS_PAIR_H

#include "transport/verbs/device.h"
#include "transport/verbs/wire.h"

struct verbs_pair_options {
	uint64_t timeout_ns; /* all retries end within half of it, unless others were asked for */
	uint8_t service_level, traffic_class;
	const struct verbs_fabric *asked; /* for other retries; NULL: nothing */
};

/* What its peer may do: access, of IBV_ACCESS_…. From now on receives may be posted. */
int verbs_pair_init(const struct verbs_api *api, const struct verbs_port *port, struct ibv_qp *qp, unsigned access);
/* Its peer is queue `to` at `at`. From now on it can write, read, and be written to. */
int verbs_pair_connect(const struct verbs_api *api, const struct verbs_port *port, struct ibv_qp *qp, uint32_t psn,
		       const struct verbs_wire_queue *to, const struct verbs_wire_rail *at,
		       const struct verbs_pair_options *options);
/* Adds what the card can beyond the standard, at the accepting side, once connected, of what the peer's can. */
void verbs_pair_ece(const struct verbs_api *api, struct ibv_qp *qp, struct verbs_wire_queue *queue);
/* What a peer must know of a port; no key. */
void verbs_pair_rail(const struct verbs_port *port, struct verbs_wire_rail *ret);

#endif
