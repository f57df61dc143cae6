/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of this folder. */
#ifndef TRIBUTARY_COMMAND_PLAN_INTERNAL_H
#define TRIBUTARY_COMMAND_PLAN_INTERNAL_H

#include "command/plan/channels.h"

void channels_begin(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		    const char *maker, struct channels *ret);
/* What NCCL believes of each channel, as it counts. */
void channels_believe(struct channels *channels, enum plan_pattern pattern, double intra_GBps, double inter_GBps);
/* Verifies channels that are not ours; has[] is set. -errno with the reason in *diag. */
int channels_verify_other(struct channels *channels, enum plan_pattern pattern, struct diag *diag);

#endif
