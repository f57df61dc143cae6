/*
 * What hosts and switches hear by LLDP, as `lldpctl -f json` (or json0) prints it, made into a cluster: one host's, or
 * those of many in one file. docs/cluster-file.md says in which forms. Pure.
 */
#ifndef TRIBUTARY_DISCOVER_LLDP_H
#define TRIBUTARY_DISCOVER_LLDP_H

#include <stddef.h>

struct cluster;
struct diag;

/*
 * this_host: whose the text is where it does not say whose, and is one machine's alone; NULL: nobody's. -EINVAL: *diag has
 * the reason, and line and column where it is no JSON; -ENOMEM.
 */
int lldp_read(const char *text, size_t bytes, const char *this_host, struct cluster **ret, struct diag *diag);

#endif
