/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/pair.h"

#include <string.h>

enum {
	RETRIES = 6,     /* 7 means without end on some devices */
	RNR_RETRIES = 6, /* there is a receive for everything that is sent, so this is for a broken peer */
	RNR_TIMER = 12,  /* 0.64 ms */
	ACK_TIMEOUT_LEAST = 8,
	ACK_TIMEOUT_MOST = 18, /* 4 µs × 2^n: 1 ms to 1 s */
	SUBNET_AT = 6,
	SUBNET_BYTES = 2, /* of an InfiniBand address */
};

/*
 * The whole of the device's retries shall end well within the time-out, also the shortest that there may be: the standard lets
 * each take four times as long. A device may have a longest or least value of its own: what then stands still for the
 * time-out is given up without it (failover.c).
 */
static uint8_t ack_timeout(uint64_t timeout_ns)
{
	uint8_t n = ACK_TIMEOUT_LEAST;

	while (n < ACK_TIMEOUT_MOST && (UINT64_C(4096) << (n + 1)) * (RETRIES + 1) * 4 <= timeout_ns / 2)
		n++;
	return n;
}

int verbs_pair_init(const struct verbs_api *api, const struct verbs_port *port, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .pkey_index = port->pkey_index,
				    .port_num = port->number,
				    .qp_access_flags = access };

	return verbs_error(
		api->modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void set_path(const struct verbs_port *port, const struct verbs_wire_rail *at,
		     const struct verbs_pair_options *options, struct ibv_ah_attr *path)
{
	/* InfiniBand's, as NCCL has them. nccl: transport/net_ib/connect.cc, ncclIbQpRtr() */
	const bool same_subnet = memcmp(port->gid + SUBNET_AT, at->gid + SUBNET_AT, SUBNET_BYTES) == 0;

	path->port_num = port->number;
	path->sl = options->service_level;
	if (!port->ethernet)
		path->dlid = !same_subnet && verbs_facts_gid_flid(at->gid) ? verbs_facts_gid_flid(at->gid) : at->lid;
	if (!port->ethernet && same_subnet && !port->needs_grh)
		return;
	path->is_global = 1;
	memcpy(path->grh.dgid.raw, at->gid, sizeof(path->grh.dgid.raw));
	path->grh.sgid_index = port->gid_index;
	path->grh.hop_limit = 255;
	path->grh.traffic_class = port->ethernet ? options->traffic_class : 0;
}

int verbs_pair_connect(const struct verbs_api *api, const struct verbs_port *port, struct ibv_qp *qp, uint32_t psn,
		       const struct verbs_wire_queue *to, const struct verbs_wire_rail *at,
		       const struct verbs_pair_options *options)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR,
				    .path_mtu = at->mtu < (uint8_t)port->mtu ? (enum ibv_mtu)at->mtu : port->mtu,
				    .dest_qp_num = to->number,
				    .rq_psn = to->psn,
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = RNR_TIMER };
	const struct verbs_fabric *asked = options->asked;
	struct ibv_ece ece = { .vendor_id = to->ece.vendor, .options = to->ece.options, .comp_mask = to->ece.mask };
	int r;

	/* nccl: transport/net_ib/connect.cc. One whose peer can is told so first. */
	r = to->has_ece && api->set_ece ? api->set_ece(qp, &ece) : 0;
	if (r != 0 && verbs_error(r) != -EOPNOTSUPP)
		return verbs_error(r);
	set_path(port, at, options, &attr.ah_attr);
	r = api->modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (r != 0)
		return verbs_error(r);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		.timeout = asked && asked->timeout >= 0 ? (uint8_t)asked->timeout : ack_timeout(options->timeout_ns),
		.retry_cnt = asked && asked->retry_count >= 0 ? (uint8_t)asked->retry_count : RETRIES,
		.rnr_retry = RNR_RETRIES,
		.sq_psn = psn,
		.max_rd_atomic = 1
	};
	return verbs_error(api->modify_qp(qp, &attr,
					  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
						  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

void verbs_pair_ece(const struct verbs_api *api, struct ibv_qp *qp, struct verbs_wire_queue *queue)
{
	struct ibv_ece ece = { 0 };

	queue->has_ece = api->query_ece && api->query_ece(qp, &ece) == 0;
	if (queue->has_ece)
		queue->ece = (struct verbs_wire_ece){ ece.vendor_id, ece.options, ece.comp_mask };
}

void verbs_pair_rail(const struct verbs_port *port, struct verbs_wire_rail *ret)
{
	*ret = (struct verbs_wire_rail){ .lid = port->lid, .mtu = (uint8_t)port->mtu, .ethernet = port->ethernet };
	memcpy(ret->gid, port->gid, sizeof(ret->gid));
}
