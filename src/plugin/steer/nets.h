/* The network devices that NCCL will use, as steering sees them, and by what numbers NCCL knows them. Any thread. */
#ifndef TRIBUTARY_PLUGIN_STEER_NETS_H
#define TRIBUTARY_PLUGIN_STEER_NETS_H

#include "plugin/steer/machine.h"

void steer_nets_know(struct steer_nets *ret);
/* NCCL's number of each NIC of the request: the device's own, or that of the joined device that holds it. */
void steer_nets_devices(const struct steer_machine *machine, const struct steer_nets *nets,
			const struct plan_request *request, int ret[PLAN_NICS_MAX]);

#endif
