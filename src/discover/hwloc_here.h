/* hwloc itself: its view of this machine, or of a folder that holds a machine's sys/ and proc/, as XML. One thread. */
#ifndef TRIBUTARY_DISCOVER_HWLOC_HERE_H
#define TRIBUTARY_DISCOVER_HWLOC_HERE_H

#include "base/log.h"

#include <stddef.h>

/* folder "": this machine. *ret is malloc'ed and NUL-terminated; the caller frees it. */
int discover_hwloc_export(const char *folder, char **ret, size_t *ret_bytes, struct diag *diag);

#endif
