/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster of a file that the user named. */
#ifndef TRIBUTARY_COMMAND_CLUSTER_OPEN_H
#define TRIBUTARY_COMMAND_CLUSTER_OPEN_H

#include "tributary/cluster.h"

/*
 * In any form that `cluster show` reads; exclude: of --exclude, or NULL. What was left out, and what is wrong, is said on
 * stderr. Returns an exit status.
 */
int command_cluster_open(const char *path, const char *exclude, struct cluster **ret);

struct command_call;
/*
 * That of an option's file, less what --exclude names. *ret is NULL where the option is not given, which --exclude must not be
 * either then.
 */
int command_cluster_of(const struct command_call *call, const char *option, struct cluster **ret);

#endif
