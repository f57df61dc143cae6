/* SPDX-License-Identifier: Apache-2.0 */
/* Version 2 of NCCL's tuner interface. */

#include "nccl/tuner_v2.h"

#include "plugin/versions/slots.h"
#include "plugin/versions/tuner_slots.h"

/*
 * This version names an algorithm and a protocol, and is not told which ones the user or the hardware rule out: naming
 * none leaves the choice to NCCL, which knows. (The NCCLs that ask in this version call no init for each communicator of
 * the net plugin either, so that no plan was published.)
 */
static enum nccl_result costs_v2(void *context, enum nccl_func func, size_t bytes, int collnet_supported,
				 int nvls_supported, int num_pipe_ops, int *ret_algorithm, int *ret_protocol,
				 int *ret_nchannels)
{
	(void)context;
	(void)func;
	(void)bytes;
	(void)collnet_supported;
	(void)nvls_supported;
	(void)num_pipe_ops;
	(void)ret_algorithm;
	(void)ret_protocol;
	(void)ret_nchannels;
	return NCCL_SUCCESS;
}

extern PLUGIN_EXPORT const struct nccl_tuner_v2 ncclTunerPlugin_v2;
const struct nccl_tuner_v2 ncclTunerPlugin_v2 = {
	.name = PLUGIN_TUNER_NAME,
	.init = plugin_tuner_slot_init_2_4,
	.getCollInfo = costs_v2,
	.destroy = plugin_tuner_slot_finalize,
};
