/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs says about one port of an RDMA device, and which of its addresses (GIDs) to use. Reads only below the root
 * given ("/sys", or a test's tree). Any thread; errno is kept.
 */
#ifndef TRIBUTARY_TRANSPORT_VERBS_FACTS_H
#define TRIBUTARY_TRANSPORT_VERBS_FACTS_H

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
 * How good an address is: 0 cannot be used, more is better. RoCE: version 2 before 1, an IPv4 address before an IPv6 one
 * (after it when `ipv6` is wished), link-local last. Of one version those of an interface that TRIBUTARY_IF allows (`fits`)
 * come first, whatever they are: an untagged port and its VLANs share a table. All zeroes is no address.
 */
unsigned verbs_facts_gid_worth(enum verbs_gid_type type, const uint8_t gid[static VERBS_GID_BYTES], bool ipv6,
			       bool fits);

/* Whether the device is a card, not software (rxe): no module of a GPU's driver knows such a one. */
bool verbs_facts_is_card(const char *root, const char *device);
/* Whether the kernel gives GPUs' memory to RDMA devices by its address alone (nvidia-peermem, or the older nv_peer_mem). */
bool verbs_facts_peermem(const char *root);

/* What the kernel calls the port's rate, in bytes a second; 0: it does not say. libibverbs' active_speed ends at NDR. */
uint64_t verbs_facts_rate(const char *root, const char *device, unsigned port);

#endif
