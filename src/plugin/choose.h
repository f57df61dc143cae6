/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the transport of the process: TCP, RDMA, or NCCL's own. Decided once per process, from the parameters and from the
 * RDMA ports that NCCL's own transport would use. Any thread.
 */
#ifndef TRIBUTARY_PLUGIN_CHOOSE_H
#define TRIBUTARY_PLUGIN_CHOOSE_H

#include <stdbool.h>

struct diag;
struct params;
struct verbs_api;

enum { PLUGIN_PORTS_MAX = 16 };

/*
 * The ports that NCCL's own InfiniBand would use, by its steps: NCCL_IB_DISABLE, libibverbs, the devices that it lists and
 * opens, active ports, NCCL_IB_HCA. nccl: transport/net_ib/init.cc
 */
struct plugin_rdma {
	unsigned count; /* those beyond PLUGIN_PORTS_MAX, too */
	struct plugin_port {
		char device[64];
		char bus_id[24];   /* of the card; "": not known */
	} ports[PLUGIN_PORTS_MAX]; /* in libibverbs's order */
};

/* Where to look. */
struct plugin_rdma_source {
	const char *
		root; /* a folder laid out as /sys/class/infiniband; where it has no device nothing is loaded or opened */
	const struct verbs_api *(*open)(struct diag *diag); /* NULL from it: there is no such library */
};
extern const struct plugin_rdma_source plugin_rdma_here;

struct plugin_choice {
	bool ours;        /* false: every communicator is declined, so that NCCL uses its own transport */
	bool wants_verbs; /* ours, and RDMA was asked for by name */
	char reason[256]; /* in the log: why NCCL's own network is used, which RDMA port stays unused, or "" */
	bool looked;      /* rdma is known */
	struct plugin_rdma rdma;
};

/*
 * Reads NCCL_NET, NCCL_IB_DISABLE and NCCL_IB_HCA; an NCCL_NET that names this plugin leaves NCCL no other network. Devices are
 * opened only where that decides, and closed at once. Never fails.
 */
void plugin_choose(const struct params *params, const struct plugin_rdma_source *from, struct plugin_choice *ret);
void plugin_rdma_look(const struct plugin_rdma_source *from, struct plugin_rdma *ret);

#endif
