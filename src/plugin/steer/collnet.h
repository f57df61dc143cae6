/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster file says of collnet for this process: whether NCCL is to offer it, and what it would bring. */
#ifndef TRIBUTARY_PLUGIN_STEER_COLLNET_H
#define TRIBUTARY_PLUGIN_STEER_COLLNET_H

#include "plugin/steer/setup.h"

/* The network is ours, and neither collnet nor the tuner that decides on it is switched off. */
bool steer_collnet_is_possible(void);
/*
 * Whether NCCL_COLLNET_ENABLE is to be answered by 1: the cluster file promises a gain, for all of its hosts or for as many
 * as the job has, and nothing is lost by it, as GPUDirect RDMA would be.
 */
bool steer_collnet_is_offered(const struct params_source *source);

/* Whether NCCL may come to use collnet: it is offered, or the user asks for it. */
bool steer_collnet_may_come(const struct params_source *source);

/* gain_permille() of this job on this process's cluster; 0 where it is not enough, or the network is NCCL's own. */
unsigned steer_collnet_gain(const struct steer_setup *setup);

/* Once for the process, after the setup: a line of the log where collnet would gain and NCCL is not to use it. */
void steer_collnet_advise(const struct steer_setup *setup);

#endif
