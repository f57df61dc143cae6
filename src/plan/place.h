/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs of a machine, or hosts of a cluster, a job should have beside those that run. Both are places ("slots") below
 * switches whose uplinks carry less than all slots below them could. Pure, deterministic.
 *
 * A host-bound slot (it loads data, its weights are in host memory, it talks to storage) puts its rate on every uplink
 * above it. A peer-bound job (its slots talk to each other) puts one slot's rate on the uplinks between its slots, as a ring
 * does, and nothing on the others. docs/guide/cluster.md has the rule that follows, and its reason.
 */
#ifndef TRIBUTARY_PLAN_PLACE_H
#define TRIBUTARY_PLAN_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cluster;
struct topology;

enum { PLAN_PLACE_NAME_BYTES = 256 };
#define PLAN_PLACE_NONE UINT32_MAX

struct plan_place_node {
	const char *name;
	uint32_t parent;     /* before it; PLAN_PLACE_NONE: of a root */
	double capacity_Bps; /* of its uplink, the slower direction; INFINITY: not known */
};
struct plan_place_slot {
	const char *name;
	uint32_t node;
	uint32_t number; /* of the GPU, or of the host in the cluster */
	double rate_Bps; /* that it can have at most, more than 0 */
};
/* Names belong to what it was made of. plan_place_fini accepts a zeroed one. */
struct plan_place_tree {
	struct plan_place_node *nodes;
	struct plan_place_slot *slots;
	size_t node_count, slot_count;
};
/* GPUs below PCIe switches, bridges and sockets. -ENOENT: it has none; -ENOMEM. */
int plan_place_of_machine(const struct topology *topology, struct plan_place_tree *ret);
/* Hosts below switches. The same. */
int plan_place_of_cluster(const struct cluster *cluster, struct plan_place_tree *ret);
void plan_place_fini(struct plan_place_tree *tree);

enum plan_place_kind { PLAN_PLACE_HOST, PLAN_PLACE_PEER };
struct plan_place_job {
	enum plan_place_kind kind;
	double rate_Bps; /* of each slot; 0: all that it can have */
	const uint32_t *slots;
	size_t count;
};

/* What a job that was placed has. */
struct plan_place_result {
	size_t shared;    /* uplinks that it and others fill together: they slow each other down */
	uint32_t worst;   /* the fullest of its uplinks, or PLAN_PLACE_NONE */
	double share;     /* of its rate, that of its slots, on that; 1: all */
	double crossings; /* bytes/s over uplinks, all added up */
};
/*
 * busy[slot_count]: slots that may not be taken beside those of running jobs, or NULL. ret_slots[job->count], ascending;
 * job->slots is not looked at. -ENOSPC: fewer slots are free; -ENOMEM.
 */
int plan_place(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
	       const bool *busy, const struct plan_place_job *job, uint32_t *ret_slots, struct plan_place_result *ret);
/* The same; the best of several, at most `most`: ret_slots[most × job->count], ret[most]. */
int plan_place_best(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
		    const bool *busy, const struct plan_place_job *job, size_t most, uint32_t *ret_slots,
		    struct plan_place_result *ret, size_t *ret_count);
/* What the job sends or receives at a slot of this rate, with nobody beside it. */
double plan_place_rate(const struct plan_place_job *job, double slot_Bps);
/* The order in which jobs of a queue are placed: ret[count]. Peer-bound before host-bound, large before small. */
void plan_place_queue(const struct plan_place_job *jobs, size_t count, size_t *ret);

#endif
