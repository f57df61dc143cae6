/* An InfiniBand fabric as `ibnetdiscover` prints it, made into a cluster. docs/cluster-file.md says how. Pure. */
#ifndef TRIBUTARY_DISCOVER_IBNETDISCOVER_H
#define TRIBUTARY_DISCOVER_IBNETDISCOVER_H

#include <stdbool.h>
#include <stddef.h>

struct cluster;
struct diag;

/* Whether a text looks like that. */
bool ibnetdiscover_is(const char *text, size_t bytes);
/* -EINVAL: *diag has the reason, and line and column where a line is wrong; -ENOMEM. */
int ibnetdiscover_read(const char *text, size_t bytes, struct cluster **ret, struct diag *diag);

#endif
