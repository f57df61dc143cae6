/*
 * What hosts and switches hear by LLDP, as `lldpctl -f json` (or json0) prints it, made into a cluster: one host's, or
 * those of many in one file. docs/format/cluster-file.md says in which forms. Pure.
 */
#ifndef TRIBUTARY_CLUSTER_READ_LLDP_H
#define TRIBUTARY_CLUSTER_READ_LLDP_H

#include <stddef.h>

struct cluster;
struct diag;
struct wiring_options;

/*
 * -EINVAL: *diag has the reason, and line and column where it is no JSON; -ENOMEM. *ret_notes as wiring_take_notes, NULL
 * where nothing was understood.
 */
int lldp_read(const char *text, size_t bytes, const struct wiring_options *options, struct cluster **ret,
	      char **ret_notes, struct diag *diag);

#endif
