/* An InfiniBand fabric as `ibnetdiscover` prints it, made into a cluster. docs/format/cluster-file.md says how. Pure. */
#ifndef TRIBUTARY_CLUSTER_READ_IBNETDISCOVER_H
#define TRIBUTARY_CLUSTER_READ_IBNETDISCOVER_H

#include <stdbool.h>
#include <stddef.h>

struct cluster;
struct diag;
struct wiring_options;

/* Whether a text looks like that. */
bool ibnetdiscover_is(const char *text, size_t bytes);
/* -EINVAL: *diag has the reason, and line and column where a line is wrong; -ENOMEM. *ret_notes as in lldp_read. */
int ibnetdiscover_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
		       char **ret_notes, struct diag *diag);

#endif
