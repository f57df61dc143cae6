/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/versions/tuner_slots.h"

#include "plugin/result.h"
#include "plugin/tuner.h"

#include <string.h>

static void constants_from(const struct nccl_tuner_constants_v5 *from, struct predict_constants *ret)
{
	_Static_assert(sizeof(ret->base_latency_us) == sizeof(from->baseLatencies), "base latencies");
	_Static_assert(sizeof(ret->wire_latency_us) == sizeof(from->hwLatencies), "latencies of the wires");
	_Static_assert(sizeof(ret->ll_most_GBps) == sizeof(from->llMaxBws), "caps");
	memcpy(ret->base_latency_us, from->baseLatencies, sizeof(ret->base_latency_us));
	memcpy(ret->wire_latency_us, from->hwLatencies, sizeof(ret->wire_latency_us));
	memcpy(ret->ll_most_GBps, from->llMaxBws, sizeof(ret->ll_most_GBps));
	memcpy(ret->ring_ll128_channel_most_GBps, from->perChMaxRingLL128Bws,
	       sizeof(ret->ring_ll128_channel_most_GBps));
	memcpy(ret->tree_ll128_channel_most_GBps, from->perChMaxTreeLL128Bws,
	       sizeof(ret->tree_ll128_channel_most_GBps));
	memcpy(ret->tree_channel_most_GBps, from->perChMaxTreeBws, sizeof(ret->tree_channel_most_GBps));
}

enum nccl_result plugin_tuner_slot_init_2_4(size_t nranks, size_t nnodes, nccl_debug_logger *logger, void **ret_context)
{
	struct plugin_tuner *tuner;
	int r = plugin_tuner_init(0, nranks, nnodes, NULL, logger, &tuner);

	*ret_context = tuner;
	return plugin_result(r);
}

enum nccl_result plugin_tuner_slot_init_5_6(void **ret_context, uint64_t comm_id, size_t nranks, size_t nnodes,
					    nccl_debug_logger *logger, struct nccl_tuner_nvl_domain_v5 *nvl_domain,
					    struct nccl_tuner_constants_v5 *constants)
{
	struct predict_constants known;
	struct plugin_tuner *tuner;
	int r;

	(void)nvl_domain;
	if (constants)
		constants_from(constants, &known);
	r = plugin_tuner_init(comm_id, nranks, nnodes, constants ? &known : NULL, logger, &tuner);
	*ret_context = tuner;
	return plugin_result(r);
}

enum nccl_result plugin_tuner_slot_costs_4_6(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops,
					     float **cost_table, int num_algo, int num_proto, int reg_buff,
					     int *ret_nchannels)
{
	/* NCCL says float **, and means the address of the first of num_algo x num_proto floats. */
	struct predict_table table = { (float *)(void *)cost_table, num_algo, num_proto };

	(void)reg_buff;
	plugin_tuner_edit(context, (int)func, bytes, num_pipe_ops, &table, ret_nchannels);
	return NCCL_SUCCESS;
}

enum nccl_result plugin_tuner_slot_finalize(void *context)
{
	plugin_tuner_fini(context);
	return NCCL_SUCCESS;
}
