/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's variables ask of an RDMA fabric, read as NCCL 2.30 reads them.
 * nccl: transport/net_ib/connect.cc, misc/param.cc
 *
 * Any thread that does not change the environment.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_FABRIC_H
#define TRIBUTARY_TRANSPORT_VERBS_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERBS_FABRIC_UNSET = -1 };

/* Addresses that are liked best on RoCE ports. */
struct verbs_address_wish {
	bool ipv6;           /* NCCL_IB_ADDR_FAMILY=AF_INET6 */
	unsigned version;    /* NCCL_IB_ROCE_VERSION_NUM */
	uint8_t range[16];   /* NCCL_IB_ADDR_RANGE, as a GID has it */
	unsigned range_bits; /* 0: none */
};

struct verbs_fabric {
	struct verbs_address_wish wish;
	int pkey_index;      /* NCCL_IB_PKEY: row of each port's table of partition keys */
	int receivers_class; /* NCCL_IB_FIFO_TC: of what receivers send over Ethernet; UNSET: the sender's */
	int flid_gid_index;  /* NCCL_IB_ROUTABLE_FLID_GID_INDEX: row of an address across subnets */
	int timeout;         /* NCCL_IB_TIMEOUT: of a packet, 4096 ns << it; or UNSET */
	int retry_count;     /* NCCL_IB_RETRY_CNT, or UNSET */
	bool relaxed;        /* NCCL_IB_PCI_RELAXED_ORDERING: payload may be written in any order */
	int adaptive; /* NCCL_IB_ADAPTIVE_ROUTING: packets may take several paths; UNSET: over InfiniBand alone */
	uint32_t
		adaptive_above; /* NCCL_IB_AR_THRESHOLD: bytes; there a longer message's notice is a write of its own */
	bool ece;               /* NCCL_IB_ECE_ENABLE: cards agree on what they can beyond the standard */
};

/* How long a queue pair tries with the time-out that the user has set; 0: none is set. */
static inline uint64_t verbs_fabric_retries_ns(const struct verbs_fabric *fabric)
{
	const unsigned tries = fabric->retry_count >= 0 ? (unsigned)fabric->retry_count + 1 : 8;

	return fabric->timeout > 0 ? (UINT64_C(4096) << fabric->timeout) * tries : 0;
}

void verbs_fabric_load(struct verbs_fabric *ret);
/* The variables NCCL_IB_… that are set and that nothing here reads, as "A, B"; "": none. */
const char *verbs_fabric_unread(char *text, size_t bytes);

#endif
