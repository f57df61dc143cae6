/* SPDX-License-Identifier: Apache-2.0 */
/* What inside each host bounds a collective: channels on the call's machine. */
#ifndef TRIBUTARY_COMMAND_SIMULATE_MACHINE_H
#define TRIBUTARY_COMMAND_SIMULATE_MACHINE_H

struct command_call;
struct simulate_fabric;

enum simulation_channels {
	SIMULATION_PLANNED, /* the plugin's */
	SIMULATION_NCCLS,   /* what NCCL by itself would choose, estimated */
	SIMULATION_GIVEN,   /* those of --graph */
};
/* By --from and --profile; the first so many GPUs. Says on stderr what is wrong. Returns an exit status. */
int simulation_machine(const struct command_call *call, unsigned gpus, enum simulation_channels whose,
		       struct simulate_fabric *fabric);

#endif
