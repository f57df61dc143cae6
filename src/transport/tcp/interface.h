/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network interfaces that TCP may use, best first, from getifaddrs and sysfs.
 *
 * Choice: TRIBUTARY_IF, in NCCL_SOCKET_IFNAME's syntax ("eth" prefix, "=eth0" exact, "^docker" exclusion, comma list;
 * the order of a positive list is kept, and what it names is used whatever it is). Without it, or with an exclusion,
 * the interfaces that are up, have a link and an address of the wanted family, fastest first; of the kinds of
 * interface.c (a physical port, then what is less likely to lead to the other hosts) the first that there is one of.
 */
#ifndef TRIBUTARY_TRANSPORT_TCP_INTERFACE_H
#define TRIBUTARY_TRANSPORT_TCP_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct diag;
struct ifaddrs;
struct params;

enum { TCP_INTERFACE_MAX = 32, TCP_INTERFACE_PATH_BYTES = 256 };

struct tcp_interface {
	char name[IFNAMSIZ];
	char pci_path[TCP_INTERFACE_PATH_BYTES]; /* real path of the PCI function, "" when there is none */
	struct sockaddr_storage address;         /* port 0 */
	socklen_t address_bytes;
	unsigned prefix_bits; /* of the subnet that the address is in; 0: not known */
	struct sockaddr_storage other; /* its best address of the other family, if any, which is no link-local one */
	socklen_t other_bytes;         /* 0: none */
	unsigned other_prefix_bits;
	_Atomic bool address_gone, other_gone; /* the interface has another one in its place by now */
	uint64_t speed_Bps;   /* sum of a bond's live members; a VLAN's or bridge's from below; 10 Gbit/s if unknown */
	bool speed_assumed;   /* it was unknown */
	uint64_t guid;        /* from the permanent MAC address of the card's first port; never 0 */
	int port;             /* of the card, from 1; interfaces with the same guid and port share a wire */
	int rail;             /* position among the interfaces chosen; -1 if there is one only */
	unsigned path_count;  /* links that a hash may spread streams over: live bond members, else 1 */
	unsigned mtu_bytes;
	int index;         /* the kernel's; 0 if unknown */
	bool address_only; /* loopback or a dummy: it holds the host's address, and any port may carry the traffic */
	const char *why;   /* why it was chosen, for people; static text */
};

/* Whether TRIBUTARY_IF allows an interface of this name. Without one all are allowed. */
bool tcp_interfaces_fit(const struct params *params, const char *name);

/* Where to look: the real system, or a test's. sysfs_fd is a descriptor of "/sys"; addresses is a getifaddrs list. */
struct tcp_interface_source {
	int sysfs_fd;
	const struct ifaddrs *addresses;
};

/*
 * At most `max` interfaces into ret. 0 with *ret_count 0: none fits, and *diag says what was asked for and what there
 * is. A positive TRIBUTARY_IF entry that matches nothing is reported in *diag although others matched (-ENODEV only if
 * none did). Other errors as the system gave.
 */
int tcp_interfaces_choose(const struct params *params, const struct tcp_interface_source *source,
			  struct tcp_interface *ret, size_t max, size_t *ret_count, struct diag *diag);
/* The same with the real system. */
int tcp_interfaces_find(const struct params *params, struct tcp_interface *ret, size_t max, size_t *ret_count,
			struct diag *diag);

#endif
