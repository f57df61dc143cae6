/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs says about one port of an RDMA device, and which of its addresses (GIDs) to use. Reads only below the root
 * given ("/sys", or a test's tree). Any thread; errno is kept.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_FACTS_H
#define TRIBUTARY_TRANSPORT_VERBS_FACTS_H

#include "transport/verbs/fabric.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

enum { VERBS_PATH_BYTES = 256, VERBS_GID_BYTES = 16, VERBS_GIDS_LOOKED_AT = 256 };

enum verbs_gid_type { VERBS_GID_UNKNOWN, VERBS_GID_INFINIBAND, VERBS_GID_ROCE_V1, VERBS_GID_ROCE_V2 };

/* ports/<port>/gid_attrs of that row; UNKNOWN where the row is empty. */
enum verbs_gid_type verbs_facts_gid_type(const char *root, const char *device, unsigned port, unsigned index);
/* The network interface of that row; "" when it has none. */
void verbs_facts_netdev(const char *root, const char *device, unsigned port, unsigned index, char ret[static IFNAMSIZ]);

struct verbs_place {
	char pci_path[VERBS_PATH_BYTES]; /* "/sys/devices/…" of the PCI function, "" when there is none */
	int function;                    /* of that, 0 to 7 */
	uint64_t speed_Bps; /* of the network interface of a device that has no card of its own; 0: unknown */
};
/* A software device (rxe) has no card: then that of its network interface. */
void verbs_facts_place(const char *root, const char *device, const char *netdev, struct verbs_place *ret);

/*
 * How good an address is: 0 cannot be used, more is better. RoCE, by weight: the range that is wished, the version, an
 * interface that TRIBUTARY_IF allows (`fits`; an untagged port and its VLANs share a table), the family. Link-local
 * comes last. All zeroes is no address.
 */
unsigned verbs_facts_gid_worth(enum verbs_gid_type type, const uint8_t gid[static VERBS_GID_BYTES],
			       const struct verbs_address_wish *wish, bool fits);
/* The part of an InfiniBand address by which routers find its port; 0: it has none. */
static inline uint16_t verbs_facts_gid_flid(const uint8_t gid[static VERBS_GID_BYTES])
{
	return (uint16_t)(gid[4] << 8 | gid[5]);
}
/* How many bits two addresses begin with alike. */
unsigned verbs_facts_gid_alike(const uint8_t a[static VERBS_GID_BYTES], const uint8_t b[static VERBS_GID_BYTES]);

/* Whether the device is a card, not software (rxe): no module of a GPU's driver knows such a one. */
bool verbs_facts_is_card(const char *root, const char *device);
/* Whether the kernel gives GPUs' memory to RDMA devices by its address alone (nvidia-peermem, or the older nv_peer_mem). */
bool verbs_facts_peermem(const char *root);

/* What the kernel calls the port's rate, in bytes a second; 0: it does not say. libibverbs' active_speed ends at NDR. */
uint64_t verbs_facts_rate(const char *root, const char *device, unsigned port);

#endif
