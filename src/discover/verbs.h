/* What an RDMA device says by verbs alone: its limits, and the packets that its ports use. */
#ifndef TRIBUTARY_DISCOVER_VERBS_H
#define TRIBUTARY_DISCOVER_VERBS_H

#include <stddef.h>

/*
 * Of this machine's RDMA device `name`, one line: "max_qp=262144 max_mr=16777216 packet1=4096"; packetN is of port N.
 * libibverbs is opened for it at run time, as for the transport. *ret is malloc'ed; the caller frees it. -ENOENT: no library, no such device, or
 * no right to open it.
 */
int discover_verbs_ask(void *name, char **ret, size_t *ret_bytes);

#endif
