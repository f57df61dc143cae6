/* SPDX-License-Identifier: Apache-2.0 */
/* Version 5 of NCCL's tuner interface: the communicator's id, and the constants of NCCL's model, which stay as they are. */

#include "nccl/tuner_v5.h"

#include "plugin/versions/slots.h"
#include "plugin/versions/tuner_slots.h"

extern PLUGIN_EXPORT const struct nccl_tuner_v5 ncclTunerPlugin_v5;
const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {
	.name = PLUGIN_TUNER_NAME,
	.init = plugin_tuner_slot_init_5_6,
	.getCollInfo = plugin_tuner_slot_costs_4_6,
	.finalize = plugin_tuner_slot_finalize,
};
