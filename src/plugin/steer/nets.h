/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's numbers of the machine's NICs, and which of them NCCL will use. It chooses none: src/plan does. Any thread. */
#ifndef TRIBUTARY_PLUGIN_STEER_NETS_H
#define TRIBUTARY_PLUGIN_STEER_NETS_H

#include "base/params.h"
#include "plugin/steer/machine.h"

#include <net/if.h>

struct ifaddrs;

void steer_nets_know(struct steer_nets *ret);
/* NCCL's number of each NIC of the request: the device's own, or that of the joined device that holds it. */
void steer_nets_devices(const struct steer_machine *machine, const struct steer_nets *nets,
			const struct plan_request *request, int ret[PLAN_NICS_MAX]);
/* Why the order of these RDMA ports, libibverbs's, need not be that of NCCL's numbers, a clause; NULL: it is. Pure. */
const char *steer_nets_order(const struct steer_nets *nets);
/*
 * The interfaces that NCCL's own sockets have as devices 0 and on; else why they are not known, a clause. list: getifaddrs'.
 * ret: PLAN_NICS_MAX of them. Pure.
 */
const char *steer_nets_sockets(const struct ifaddrs *list, const struct params_source *source, char (*ret)[IFNAMSIZ],
			       size_t *ret_count);

#endif
