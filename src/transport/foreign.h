/* SPDX-License-Identifier: Apache-2.0 */
/* A handle that NCCL's own network made: the peer's host does not use Tributary. Pure. */
#ifndef TRIBUTARY_TRANSPORT_FOREIGN_H
#define TRIBUTARY_TRANSPORT_FOREIGN_H

#include "transport/transport.h"

enum { TRANSPORT_FOREIGN_BYTES = 384 };

/* False: NCCL did not make it. carrier: the TRIBUTARY_NET that this host uses. line: the message for the user. */
bool transport_handle_is_nccls(const uint8_t handle[static TRANSPORT_HANDLE_BYTES], const char *own_host,
			       const char *carrier, char line[static TRANSPORT_FOREIGN_BYTES]);

#endif
