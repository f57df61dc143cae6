/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster that this process takes itself to be in: what TRIBUTARY_CLUSTER names, else what the machine's profile
 * says, else nothing, which means one leaf. Reads files; any thread. All heads of a group compare what they have.
 */
#ifndef TRIBUTARY_PLUGIN_CLUSTER_H
#define TRIBUTARY_PLUGIN_CLUSTER_H

struct cluster;
struct params;

/* NULL: nothing is said, or it cannot be read, after a warning. Freed by cluster_free. */
struct cluster *plugin_cluster_load(const struct params *params);

#endif
