/* SPDX-License-Identifier: Apache-2.0 */
/* How the two ends of a connection find each other. Lock: the transport's. */
#ifndef TRIBUTARY_TRANSPORT_VERBS_HANDSHAKE_H
#define TRIBUTARY_TRANSPORT_VERBS_HANDSHAKE_H

#include "transport/verbs/verbs.h"

/* Lock held. One step. *ret stays as it is until the connection stands. */
int verbs_handshake_connect(struct verbs_transport *transport, int device, int traffic_class,
			    uint8_t handle[static TRANSPORT_HANDLE_BYTES], struct verbs_connection **ret);
void verbs_handshake_expire(struct verbs_transport *transport, uint64_t now_ns, bool all); /* lock held */
int verbs_handshake_accept(struct verbs_listener *listener, struct verbs_connection **ret);
void verbs_handshake_end(struct verbs_listener *listener);

#endif
