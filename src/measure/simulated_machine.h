/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the simulated machine share: its parts, the constraints of a set of flows, and their solution. */
#ifndef TRIBUTARY_MEASURE_SIMULATED_MACHINE_H
#define TRIBUTARY_MEASURE_SIMULATED_MACHINE_H

#include "measure/experiments.h"
#include "measure/simulated_probe.h"

struct simulated_machine {
	struct topology truth;
	struct probe_rules rules;
	void *arrays;                  /* all that follow */
	uint32_t *own;                 /* of each vertex, its PCIe or C2C link upwards; TOPOLOGY_NONE */
	uint32_t *neighbour;           /* of each rule of that kind, the directed link */
	uint32_t *pair_from, *pair_to; /* of each rule of that kind, the vertices */
};

int simulated_machine_init(struct simulated_machine *machine, const struct topology *truth,
			   const struct probe_rules *rules);
void simulated_machine_fini(struct simulated_machine *machine);

bool simulated_machine_can(const struct simulated_machine *machine, const struct probe_flow *flow);
/* neighbours: a bit for each rule of that kind that holds now. */
int simulated_rows_of(const struct simulated_machine *machine, const struct probe_flow *flows, size_t count,
		      unsigned neighbours, struct probe_simulated_rows *ret);
/* The rates of the flows of `rows`. -ENOMEM; -EINVAL: nothing bounds a flow. */
int simulated_solve(const struct probe_simulated_rows *rows, double *ret_Bps);

#endif
