/* SPDX-License-Identifier: Apache-2.0 */
/* Version 3 of NCCL's tuner interface: a table of costs. */

#include "nccl/tuner_v3.h"

#include "plugin/versions/slots.h"
#include "plugin/versions/tuner_slots.h"

static enum nccl_result costs_v3(void *context, enum nccl_func func, size_t bytes, int num_pipe_ops, float **cost_table,
				 int num_algo, int num_proto, int *ret_nchannels)
{
	return plugin_tuner_slot_costs_4_6(context, func, bytes, num_pipe_ops, cost_table, num_algo, num_proto, 0,
					   ret_nchannels);
}

extern PLUGIN_EXPORT const struct nccl_tuner_v3 ncclTunerPlugin_v3;
const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {
	.name = PLUGIN_TUNER_NAME,
	.init = plugin_tuner_slot_init_2_4,
	.getCollInfo = costs_v3,
	.destroy = plugin_tuner_slot_finalize,
};
