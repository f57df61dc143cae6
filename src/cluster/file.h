/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the cluster's description: the file that TRIBUTARY_CLUSTER names, else what the profile has. For the plugin and the
 * daemon; cluster.c tells the forms apart and reads them.
 */
#ifndef TRIBUTARY_CLUSTER_FILE_H
#define TRIBUTARY_CLUSTER_FILE_H

#include "base/log.h"
#include "tributary/cluster.h"

struct params;
struct profile;

/*
 * -EINVAL: a line is wrong; -EFBIG, -ENOENT and others as the system said. *why is one sentence that names the file, and
 * line and column where there are any. *ret is freed by cluster_free.
 */
int cluster_file_load(const char *path, struct cluster **ret, struct diag *why);

/*
 * Of this process: *ret NULL with success where nothing says anything, which means that all hosts are on one leaf. profile
 * may be NULL; what it says of the cluster is taken out of it. Errors: those of cluster_file_load.
 */
int cluster_file_find(const struct params *params, struct profile *profile, struct cluster **ret, struct diag *why);

#endif
