/* SPDX-License-Identifier: Apache-2.0 */
/* Version 4 of NCCL's tuner interface: also whether buffers are registered. */

#include "nccl/tuner_v4.h"

#include "plugin/versions/slots.h"
#include "plugin/versions/tuner_slots.h"

extern PLUGIN_EXPORT const struct nccl_tuner_v4 ncclTunerPlugin_v4;
const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {
	.name = PLUGIN_TUNER_NAME,
	.init = plugin_tuner_slot_init_2_4,
	.getCollInfo = plugin_tuner_slot_costs_4_6,
	.destroy = plugin_tuner_slot_finalize,
};
