/*
 * The probe between two hosts: TCP through plain sockets, for the links of a cluster. One end serves, the other measures.
 * A flow goes from the vertex that is this host to the one that is the peer, or back; both at once is two flows. Each runs
 * on as many connections as it takes until no more is gained.
 *
 * What counts as moved: of bytes that we send, those that the peer's kernel has acknowledged; of others, those received.
 *
 * The server sends zeros to, and takes bytes from, whoever connects: it is for a network that is trusted, as long as the
 * measurement lasts. It holds at most PROBE_TCP_CONNECTIONS_MAX connections and closes one that is silent.
 */
#ifndef TRIBUTARY_MEASURE_PROBE_TCP_H
#define TRIBUTARY_MEASURE_PROBE_TCP_H

#include "measure/probe.h"

#include <sys/socket.h>

enum { PROBE_TCP_CONNECTIONS_MAX = 64 };

struct probe_tcp_options {
	uint32_t here, peer;             /* vertices of the topology */
	unsigned connections_max;        /* of one flow; 0: 16 */
	struct sockaddr_storage address; /* of the peer's server */
	socklen_t address_bytes;
};

/*
 * Does not connect yet. Closed by its ops->close. -EINVAL: here or peer is no vertex, or both are one; -ENOMEM. A run gives
 * -EIO when the peer cannot be reached, says something else, or goes away.
 */
int probe_tcp_open(const struct topology *topology, const _Atomic bool *stop, const struct probe_tcp_options *options,
		   struct probe **ret, struct diag *diag);

/* "192.0.2.1:7000" or "[2001:db8::1]:7000". -EINVAL: not such an address. */
int probe_tcp_parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_bytes);

struct probe_tcp_server;

/* Listens from now on (port 0: any), in threads of its own. *ret_bound (may be NULL): the address with its port. */
int probe_tcp_server_start(const struct sockaddr *address, socklen_t address_bytes, struct probe_tcp_server **ret,
			   struct sockaddr_storage *ret_bound, struct diag *diag);
/* Closes all connections and waits for the threads. NULL is fine. */
void probe_tcp_server_stop(struct probe_tcp_server *server);

#endif
