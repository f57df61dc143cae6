/* SPDX-License-Identifier: Apache-2.0 */
/* What to do for one communicator on this host: a plan for exactly its GPUs, or none and why. */
#ifndef TRIBUTARY_PLUGIN_STEER_DECIDE_H
#define TRIBUTARY_PLUGIN_STEER_DECIDE_H

#include "plugin/steer/elsewhere.h"
#include "plugin/steer/evidence.h"
#include "plugin/steer/machine.h"
#include "plugin/steer/registry.h"

struct steer_planner {
	const struct steer_machine *machine;
	const struct steer_nets *nets;
	const struct steer_settings *settings;
	unsigned chain_gain_permille; /* struct plan_set */
	const struct steer_elsewhere *elsewhere;
	void (*compute)(struct steer_compute *ret); /* steer_compute_ask: only where the other proofs fail */
};

/* comm_id: filled in by the caller. All of *ret is written but its checksum. What fails means no plan. */
void steer_decide(const struct steer_planner *planner, const struct steer_snapshot *snapshot,
		  struct steer_decision *ret);

/* The decision is that NCCL searches, for that reason; the other fields stay. */
void steer_decide_against(struct steer_decision *decision, const struct diag *why);

/*
 * Whether a decision is for this record of this process, rather than for an earlier communicator with the same id or for
 * one of other GPUs.
 */
bool steer_decision_names(const struct steer_decision *decision, uint64_t process, const struct steer_record *record);

/* The graph file of a plan. devices: NCCL's number of each NIC of the request. *ret is malloc'ed. */
int steer_decision_write(const struct steer_machine *machine, const struct steer_decision *decision, const int *devices,
			 unsigned latency_us, char **ret, size_t *ret_bytes, struct diag *diag);

#endif
