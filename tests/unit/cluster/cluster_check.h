/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of cluster files share. */
#ifndef TESTS_UNIT_TOPOLOGY_CLUSTER_CHECK_H
#define TESTS_UNIT_TOPOLOGY_CLUSTER_CHECK_H

#include "tributary/cluster.h"

#define HEAD "tributary-cluster 1\n"

/* Fails where it is not read; the caller frees the cluster. */
struct cluster *read_good(const char *text);
/* In our own form; freed by the caller. */
char *written(const struct cluster *cluster);
/* Refused at that place, for a reason with this part. */
void check_bad(const char *text, int line, int column, const char *part);
int leaf_of(const struct cluster *cluster, const char *host);

#endif
