/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/foreign.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Its own networks' handles begin alike. nccl: transport/net_socket.cc, transport/net_ib, include/socket.h */
struct nccl_handle {
	union {
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} address;
	uint64_t magic;
	int32_t socket_count; /* 0: of InfiniBand */
};
#define NCCL_MAGIC UINT64_C(0x564ab9f2fc4b9d6c)

_Static_assert(sizeof(struct nccl_handle) <= TRANSPORT_HANDLE_BYTES, "it begins a handle");
_Static_assert(offsetof(struct nccl_handle, magic) == 32, "as NCCL has it");

bool transport_handle_is_nccls(const uint8_t handle[static TRANSPORT_HANDLE_BYTES], const char *own_host,
			       const char *carrier, char line[static TRANSPORT_FOREIGN_BYTES])
{
	char host[INET6_ADDRSTRLEN] = "?";
	struct nccl_handle nccls;

	memcpy(&nccls, handle, sizeof(nccls));
	if (nccls.magic != NCCL_MAGIC)
		return false;
	if (nccls.address.in.sin_family == AF_INET)
		inet_ntop(AF_INET, &nccls.address.in.sin_addr, host, sizeof(host));
	else if (nccls.address.in.sin_family == AF_INET6)
		inet_ntop(AF_INET6, &nccls.address.in6.sin6_addr, host, sizeof(host));
	else
		return false;
	if (nccls.socket_count)
		snprintf(
			line, TRANSPORT_FOREIGN_BYTES,
			"host %s uses NCCL's own sockets, and this host (%.64s) Tributary: give all hosts the plugin, and the same "
			"TRIBUTARY_NET",
			host, own_host);
	else
		snprintf(
			line, TRANSPORT_FOREIGN_BYTES,
			"host %s uses NCCL's own RDMA, and this host (%.64s) Tributary: give all hosts the plugin, and set "
			"TRIBUTARY_NET=%s on all",
			host, own_host, carrier);
	return true;
}
