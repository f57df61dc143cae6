/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a cluster file for the command, of any form, which its content tells: those that the plugin reads
 * (cluster/cluster.c), and what LLDP or an InfiniBand subnet says. The plugin takes none of the latter: `tributary cluster show
 * FILE --text` writes them in our own form. Forms that say the same and are not read are named, with the one that is.
 */
#ifndef TRIBUTARY_CLUSTER_READ_ANY_H
#define TRIBUTARY_CLUSTER_READ_ANY_H

#include "base/log.h"
#include "cluster/read/wiring.h"
#include "tributary/cluster.h"

#include <stddef.h>

enum { CLUSTER_ANY_BYTES_MAX = 256 << 20 };

/*
 * As cluster_read. Pure. *diag's line is 0 where there is no place to name. *ret_notes: as wiring_take_notes, of a refused
 * text, too; NULL where there are none.
 */
int cluster_any_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		     char **ret_notes, struct diag *diag);
/* As cluster_file_load. exclude as in struct wiring_options: -EINVAL for a file that does not say what is cabled. */
int cluster_any_load(const char *path, const char *exclude, struct cluster **ret, char **ret_notes, struct diag *why);

#endif
