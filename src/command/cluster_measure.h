/* SPDX-License-Identifier: Apache-2.0 */
/* The words of `tributary cluster measure`. Inner header of src/command. */
#ifndef TRIBUTARY_COMMAND_CLUSTER_MEASURE_H
#define TRIBUTARY_COMMAND_CLUSTER_MEASURE_H

#include "clusterprobe/clusterprobe.h"

#include <stdio.h>

struct cluster;

/* cluster_found.c, pure: a result as a cluster, its contradictions to another, and in words. */

/* Leaves are leaf1, leaf2, ...; rates of uplinks only where they are known. -EINVAL: a host's name is none; -ENOMEM. */
int cluster_found(const struct clusterprobe_result *result, struct cluster **ret, struct diag *diag);
/* A line for each thing on which the two differ, each after `indent`; how many. */
size_t cluster_contradictions(const struct clusterprobe_result *result, const struct cluster *declared,
			      const char *indent, FILE *out);
void cluster_found_print(const struct clusterprobe_result *result, FILE *out);

#endif
