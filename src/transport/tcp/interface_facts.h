/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sysfs says about one network interface: its place on PCI, its speed, its card; for a bond, a VLAN or a bridge
 * what its members say. Reads only below the descriptor given, so that tests use trees of their own. Any thread.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_INTERFACE_FACTS_H
#define TRIBUTARY_TRANSPORT_TCP_INTERFACE_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/tcp/interface.h"

enum { TCP_INTERFACE_MAC_BYTES = 20 }; /* InfiniBand's, the longest */

/* What the kernel says of an interface in our own network namespace; from getifaddrs' AF_PACKET entries. */
struct tcp_interface_identity {
	int index;        /* 0: unknown */
	size_t mac_bytes; /* 0: unknown */
	uint8_t mac[TCP_INTERFACE_MAC_BYTES];
};

struct tcp_interface_facts {
	char pci_path[TCP_INTERFACE_PATH_BYTES]; /* "/sys/devices/...", "" when there is none */
	uint64_t speed_Bps;                      /* 0: unknown */
	uint64_t guid;                           /* never 0 */
	int port;                                /* from 1; guid and port together name the wire */
	unsigned path_count;
	unsigned mtu_bytes;    /* 0: unknown */
	bool is_known;         /* the next ones were read: sysfs shows the interface */
	bool physical;         /* a device on some bus carries it, itself or below a bond, a VLAN or a bridge */
	bool wireless, usb;    /* physical, and every port below it is a Wi-Fi or cellular, or a USB adapter */
	bool container_bridge; /* a bridge with no physical member */
	bool tunnel;   /* a TUN or TAP device, an overlay, or anything that is neither Ethernet nor InfiniBand */
	bool enslaved; /* to a bridge, a bond or a virtual switch: its own address reaches nobody */
	bool paired;   /* its other end is another interface: a veth or a macvlan, seen from inside */
};

/*
 * 0, or -ENODEV when this sysfs does not show the interface: it is not there, or sysfs was mounted in another network
 * namespace and shows another one of the same name, which the identity tells. A fact that cannot be read is unknown.
 */
int tcp_interface_facts_read(int sysfs_fd, const char *name, const struct tcp_interface_identity *identity,
			     struct tcp_interface_facts *ret);

/* What is left without sysfs: guid from the identity, everything else unknown. */
void tcp_interface_facts_none(const char *name, const struct tcp_interface_identity *identity,
			      struct tcp_interface_facts *ret);

/*
 * The same by ioctl on a socket, for what sysfs did not show: speed, MTU and place on PCI of the interface in our own
 * network namespace. Fills in what it learns.
 */
void tcp_interface_facts_ask(int socket_fd, int sysfs_fd, const char *name, struct tcp_interface_facts *facts);

/* Whether the name is one that container software gives to its bridges and to the host's end of its overlays. */
bool tcp_interface_facts_container(const char *name);

#endif
