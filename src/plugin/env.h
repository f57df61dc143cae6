/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment plugin: NCCL asks it for every variable. What the user has set always wins. Besides what steering
 * answers (steer.h), NCCL_ENV_PLUGIN=tributary alone loads the net plugin as well:
 *
 *   NCCL_NET_PLUGIN            the path of this library, unless NCCL would find another libnccl-net.so, which stays
 *   NCCL_NET_PLUGIN_REF_COUNT  high: at 0 NCCL unloads the plugin with the first communicator that it declines, and
 *                              tells it of no other; NCCL 2.28 also with the last one that it served, and then takes
 *                              its own network for all that follow
 *   NCCL_COLLNET_ENABLE        1 where the cluster file promises a gain to some communicator of this host and the network
 *                              is ours: asked before the communicator is known, so answered once for the process. Unlike
 *                              answers are safe, as NCCL uses collnet only where all ranks have it
 *   NCCL_IGNORE_COLLNET_MISMATCH  1 where the network is ours: from NCCL 2.30 on rank 0 fails, and the others wait, where
 *                              hosts have unlike numbers of collnet devices. It alone is asked, so it does not matter
 *                              whether its own host has collnet
 *
 * Nothing is opened before the process's first communicator, as NCCL may load the plugin before a fork. Any thread. No
 * call fails; errno is kept.
 */
#ifndef TRIBUTARY_PLUGIN_ENV_H
#define TRIBUTARY_PLUGIN_ENV_H

#include "base/log.h"

#include <stdbool.h>

/* Before plugin_env_init. */
void plugin_env_log(log_sink *logger);
/* version: NCCL's, 22809. */
void plugin_env_init(unsigned version);
const char *plugin_env_get(const char *name);
/* What NCCL knows of NCCL_COLLNET_ENABLE, the user's or this half's answer, is a number and not 0. */
bool plugin_env_wants_collnet(void);

#endif
