/* SPDX-License-Identifier: Apache-2.0 */
/* Random clusters: leaves of unequal size, unequal uplinks, two or three tiers, in half of them hosts of half rate. One thread. */
#ifndef TRIBUTARY_PERF_COMMON_CLUSTERS_H
#define TRIBUTARY_PERF_COMMON_CLUSTERS_H

#include "tributary/cluster.h"

#include <stdint.h>

#define CLUSTERS_HOST_BPS 3e9

struct diag;

unsigned clusters_number(uint64_t *state, unsigned low, unsigned high); /* both may be drawn */
/* size: a fourth of the hosts of a leaf, at most; above 3 leaves are many. -errno. */
int clusters_draw(uint64_t *state, unsigned size, struct cluster **ret, struct diag *diag);

#endif
