/*
 * The devices of the net plugin, as the session sees them, and by what numbers NCCL knows them.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_NETS_H
#define TRIBUTARY_PLUGIN_SESSION_NETS_H

#include "plugin/session/setup.h"

void session_nets_know(struct session_nets *ret);
/* By what number NCCL knows each NIC of the request: its own, or that of the joined device that holds it. */
void session_nets_devices(const struct session_setup *setup, const struct plan_request *request,
			  int ret[PLAN_NICS_MAX]);
/*
 * How often NCCL may ask for device 0 in one phase: once; once more when it makes its virtual devices, which it does once
 * for the process; for each virtual device that holds it, once up to 2.28 and twice from 2.30 on.
 */
unsigned session_nets_zeros(const struct session_nets *nets, bool joined_before);

#endif
