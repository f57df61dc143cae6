/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured machine as this process's NCCL gets to see it: the profile's graph with the NICs as the net plugin in use
 * names them, its topology file, and for a set of GPUs what to ask the planner.
 *
 * Threads: reading from any; nothing changes after steer_machine_load.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_MACHINE_H
#define TRIBUTARY_PLUGIN_STEER_MACHINE_H

#include "base/log.h"
#include "ncclxml/topology_xml.h"
#include "plugin/steer/evidence.h"
#include "plugin/steer/registry.h"
#include "plugin/steer/settings.h"
#include "tributary/plan.h"
#include "tributary/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params;

struct steer_machine {
	bool loaded;
	struct topology topology;
	char *topology_text; /* malloc'ed: NCCL's topology file, in the shape that NCCL finds by itself */
	/*
	 * malloc'ed: the same in another shape, by measurement. A rank that has it beside one that has not loses P2P, so it is
	 * only for all. NULL: it would be the same.
	 */
	char *shaped_text;
	struct topology_xml_shape shape; /* of what communicators with a plan get */
	int64_t date_s;                  /* of the measurement */
	struct steer_gpus gpus;
	uint64_t hash; /* of all that plans depend on but the communicator */
};

struct steer_net {
	char name[TOPOLOGY_NAME_BYTES];
	char bus_id[TOPOLOGY_BUS_ID_BYTES]; /* "" not known */
	uint64_t speed_Bps;                 /* that NCCL takes where the file has none; 0: not known */
	int device;                         /* of ours: its number */
};

/* What of the net plugin matters here. */
struct steer_nets {
	bool ours;        /* NCCL knows the NICs by our names; else by those of its own network */
	bool sockets;     /* that is its sockets: it knows the NICs by their interfaces, and has no GPUDirect RDMA */
	bool reaches_gpu; /* GPUDirect RDMA */
	/*
	 * As NCCL takes it over from the plugin, in whole microseconds, where no file says otherwise. It goes into the
	 * ranks' choices unchecked, so hosts with a plan must say what those without one find.
	 */
	unsigned latency_us;
	char why[128]; /* there are no devices below, a clause */
	size_t count;
	struct steer_net at[PLAN_NICS_MAX]; /* by NCCL's numbers, if they are not ours */
};

/*
 * root: "" for this machine. nccl_version: 22809, or 0. Errors as store_find's, -EINVAL and -E2BIG as topology_xml_write's; why in *diag.
 */
int steer_machine_load(const struct params *params, const char *root, const struct steer_nets *nets,
		       const struct steer_settings *settings, unsigned nccl_version, struct steer_machine *ret,
		       struct diag *diag);
void steer_machine_fini(struct steer_machine *machine);

/* The NIC's vertex for each net device; TOPOLOGY_NONE: the graph has none. */
uint32_t steer_machine_nic(const struct steer_machine *machine, const struct steer_nets *nets, size_t net);

/* -ENOENT: a bus id that the graph has not got. GPUs in the order of NVML's numbers. */
int steer_machine_request(const struct steer_machine *machine, const struct steer_nets *nets,
			  const struct steer_settings *settings, const char (*bus_ids)[STEER_BUS_ID_BYTES],
			  size_t count, struct plan_request *ret);

/*
 * Whether NCCL, by the values of the topology file, finds its network faster than what is between two of these GPUs:
 * then it counts them as different nodes, and a graph file for all of them would fail. Which in *diag.
 */
bool steer_machine_splits(const struct steer_machine *machine, const struct steer_nets *nets,
			  const struct plan_request *request, struct diag *diag);

#endif
