/*
 * Who moves the data: one of our transports, or NCCL's own. Decided once per process, from the parameters and from the
 * RDMA ports of the host. Reads sysfs; any thread.
 */
#ifndef TRIBUTARY_PLUGIN_CHOOSE_H
#define TRIBUTARY_PLUGIN_CHOOSE_H

#include <stdbool.h>

struct params;

#define PLUGIN_RDMA_ROOT "/sys/class/infiniband"

struct plugin_choice {
	bool ours;        /* false: report no devices, so that NCCL uses its own transport */
	bool wants_verbs; /* ours, and RDMA was asked for by name */
	char reason[256]; /* why it is left to NCCL, a clause; "" when ours */
};

/* rdma_root: a folder laid out as PLUGIN_RDMA_ROOT; one that does not exist means no RDMA. Never fails. */
void plugin_choose(const struct params *params, const char *rdma_root, struct plugin_choice *ret);

#endif
