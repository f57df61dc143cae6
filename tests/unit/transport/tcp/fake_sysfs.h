/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sysfs tree in a temporary folder and a getifaddrs list to go with it, for tests of the interface choice. Every
 * function fails the running test when it cannot do its work. One thread.
 */
#ifndef TRIBUTARY_TESTS_UNIT_TRANSPORT_TCP_FAKE_SYSFS_H
#define TRIBUTARY_TESTS_UNIT_TRANSPORT_TCP_FAKE_SYSFS_H

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/params.h"
#include "support/tree.h"
#include "transport/tcp/interface.h"

enum { FAKE_ADDRESSES_MAX = 64, FAKE_UP = IFF_UP | IFF_RUNNING };

struct fake_sysfs {
	struct tree tree; /* what "/sys" would be */
	size_t address_count;
	struct ifaddrs addresses[FAKE_ADDRESSES_MAX]; /* linked in order; &addresses[0] is the list if count > 0 */
	struct sockaddr_storage storage[FAKE_ADDRESSES_MAX], masks[FAKE_ADDRESSES_MAX];
	char names[FAKE_ADDRESSES_MAX][IFNAMSIZ];
};

/* cmocka setup and teardown: *state is the tree. */
int fake_sysfs_new(void **state);
int fake_sysfs_free(void **state);

/*
 * An interface as the kernel shows it. device: the folder of its device relative to devices/, on PCI the path of the
 * function ("pci0000:80/0000:80:01.0/0000:81:00.0"); NULL: a virtual one. Every part of `device` that is a PCI address
 * becomes a PCI device. speed_mbps: as text, "-1" for unknown.
 */
void fake_interface(struct fake_sysfs *fake, const char *name, const char *device, int index, const char *mac,
		    const char *speed_mbps);
/* class/net/NAME/file */
void fake_attribute(struct fake_sysfs *fake, const char *name, const char *file, const char *text);
/* upper stands on lower: the lower_ link that VLANs and their like have. */
void fake_lower(struct fake_sysfs *fake, const char *upper, const char *lower);

/*
 * Adds to the list: an address as text (IPv4 or IPv6, "%7" for a scope, "/32" or "/128" at its end for one without a
 * subnet), or with fake_packet the AF_PACKET entry.
 */
void fake_address(struct fake_sysfs *fake, const char *name, unsigned flags, const char *address);
void fake_packet(struct fake_sysfs *fake, const char *name, unsigned flags, int index, const char *mac);

/* What tcp_interfaces_choose says of the tree and the list. */
struct fake_choice {
	struct tcp_interface at[TCP_INTERFACE_MAX];
	size_t count;
	struct diag diag;
	int result;
};

/* list: the value of TRIBUTARY_IF. Also asserts that errno is kept. */
struct fake_choice fake_choose_of(struct fake_sysfs *fake, const char *list, enum family_choice family, int sysfs_fd);
struct fake_choice fake_choose(struct fake_sysfs *fake, const char *list);
/* The names chosen are exactly these, in order, separated by spaces; success, and every field has a value. */
void fake_assert_chosen(const struct fake_choice *choice, const char *names);
void fake_assert_address(const struct tcp_interface *interface, const char *expected);

/* lo with 127.0.0.1, and an ordinary NIC with an address (NULL: none) and a MAC that ends with its index. */
void fake_loopback(struct fake_sysfs *fake);
void fake_nic(struct fake_sysfs *fake, const char *name, const char *device, int index, const char *mbps,
	      const char *address);

#endif
