/*
 * A cluster file for the command: of any form that the plugin reads (profile/cluster_file.h), and what LLDP or an
 * InfiniBand subnet says, which are told by their content. The plugin takes none of the latter: `tributary cluster show
 * FILE --text` writes them in our own form.
 */
#ifndef TRIBUTARY_DISCOVER_CLUSTER_ANY_H
#define TRIBUTARY_DISCOVER_CLUSTER_ANY_H

#include "base/log.h"
#include "tributary/cluster.h"

#include <stddef.h>

enum { CLUSTER_ANY_BYTES_MAX = 256 << 20 };

/* As cluster_read; this_host as in lldp_read. Pure. *diag's line is 0 where there is no place to name. */
int cluster_any_read(const char *text, size_t bytes, const char *this_host, struct cluster **ret, struct diag *diag);
/* As cluster_file_load. */
int cluster_any_load(const char *path, struct cluster **ret, struct diag *why);

#endif
