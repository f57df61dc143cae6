/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the transport of the process: TCP, RDMA, or NCCL's own. Decided once per process, from the parameters and from the
 * RDMA ports of the host. Reads sysfs; any thread.
 */
#ifndef TRIBUTARY_PLUGIN_CHOOSE_H
#define TRIBUTARY_PLUGIN_CHOOSE_H

#include <stdbool.h>

struct params;

enum { PLUGIN_PORTS_MAX = 16 };

#define PLUGIN_RDMA_ROOT "/sys/class/infiniband"

struct plugin_choice {
	bool ours;             /* false: every communicator is declined, so that NCCL uses its own transport */
	bool wants_verbs;      /* ours, and RDMA was asked for by name */
	char reason[256];      /* why it is left to NCCL, a clause; "" when ours */
	unsigned active_ports; /* RDMA ports of the host; 0 also if nobody looked */
	struct plugin_port {
		char device[64];
		unsigned number;
		char bus_id[24];   /* of the card; "": not known */
	} ports[PLUGIN_PORTS_MAX]; /* the first of them, in no order */
};

/*
 * nccl_net: the user's NCCL_NET, or NULL; one that names this plugin leaves NCCL no other network. rdma_root: a folder laid
 * out as PLUGIN_RDMA_ROOT; one that does not exist means no RDMA. Never fails.
 */
void plugin_choose(const struct params *params, const char *nccl_net, const char *rdma_root, struct plugin_choice *ret);

#endif
