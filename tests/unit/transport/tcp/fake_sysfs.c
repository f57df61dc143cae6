/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/transport/tcp/fake_sysfs.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fake_sysfs_new(void **state)
{
	struct fake_sysfs *fake = calloc(1, sizeof(*fake));

	assert_non_null(fake);
	tree_open(&fake->tree);
	tree_text(&fake->tree, "bus/pci/uevent", "");
	tree_text(&fake->tree, "bus/virtio/uevent", "");
	*state = fake;
	return 0;
}

int fake_sysfs_free(void **state)
{
	struct fake_sysfs *fake = *state;

	tree_close(&fake->tree);
	free(fake);
	return 0;
}

static size_t depth_of(const char *path)
{
	size_t depth = 0;

	for (; *path; path++)
		depth += *path == '/';
	return depth;
}

/* A link at path to target, which is given relative to the root: as many ".." as path is deep. */
static void link_to_root(struct fake_sysfs *fake, const char *path, const char *target)
{
	char text[512] = "";

	for (size_t i = depth_of(path); i; i--)
		strncat(text, "../", sizeof(text) - strlen(text) - 1);
	strncat(text, target, sizeof(text) - strlen(text) - 1);
	tree_link(&fake->tree, path, text);
}

/* The subsystem link of every part of a device path, and for PCI devices the bus's link to them. */
static void make_device(struct fake_sysfs *fake, const char *device)
{
	char dir[400], path[512];

	for (const char *part = strchr(device, '/'); part; part = strchr(part + 1, '/')) {
		size_t bytes = strcspn(part + 1, "/");
		bool pci = bytes == 12 && part[11] == '.';

		snprintf(dir, sizeof(dir), "devices/%.*s", (int)((size_t)(part + 1 - device) + bytes), device);
		snprintf(path, sizeof(path), "%s/subsystem", dir);
		link_to_root(fake, path, pci ? "bus/pci" : "bus/virtio");
		snprintf(path, sizeof(path), "bus/pci/devices/%.12s", part + 1);
		if (pci)
			link_to_root(fake, path, dir);
	}
}

void fake_interface(struct fake_sysfs *fake, const char *name, const char *device, int index, const char *mac,
		    const char *speed_mbps)
{
	char dir[400], path[512], text[32];

	if (device)
		snprintf(dir, sizeof(dir), "devices/%s/net/%s", device, name);
	else
		snprintf(dir, sizeof(dir), "devices/virtual/net/%s", name);
	snprintf(path, sizeof(path), "%s/ifindex", dir);
	snprintf(text, sizeof(text), "%d\n", index);
	tree_text(&fake->tree, path, text);
	snprintf(path, sizeof(path), "class/net/%s", name);
	link_to_root(fake, path, dir);
	if (device) {
		make_device(fake, device);
		snprintf(path, sizeof(path), "%s/device", dir);
		snprintf(text, sizeof(text), "%s", strrchr(device, '/') + 1);
		snprintf(dir, sizeof(dir), "../../../%s", text);
		tree_link(&fake->tree, path, dir);
	}
	snprintf(text, sizeof(text), "%s\n", mac);
	fake_attribute(fake, name, "address", text);
	snprintf(text, sizeof(text), "%s\n", speed_mbps);
	fake_attribute(fake, name, "speed", text);
	fake_attribute(fake, name, "mtu", "9000\n");
	fake_attribute(fake, name, "type", "1\n");
	fake_attribute(fake, name, "dev_port", "0\n");
	fake_attribute(fake, name, "operstate", "up\n");
}

void fake_attribute(struct fake_sysfs *fake, const char *name, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "class/net/%s/%s", name, file);
	tree_text(&fake->tree, path, text);
}

void fake_lower(struct fake_sysfs *fake, const char *upper, const char *lower)
{
	char path[256];

	snprintf(path, sizeof(path), "class/net/%s/lower_%s", upper, lower);
	tree_link(&fake->tree, path, "../anything");
}

static struct sockaddr_storage *add(struct fake_sysfs *fake, const char *name, unsigned flags)
{
	size_t at = fake->address_count++;

	assert_true(at < FAKE_ADDRESSES_MAX);
	snprintf(fake->names[at], IFNAMSIZ, "%s", name);
	fake->addresses[at].ifa_name = fake->names[at];
	fake->addresses[at].ifa_flags = flags;
	if (at)
		fake->addresses[at - 1].ifa_next = &fake->addresses[at];
	fake->addresses[at].ifa_addr = (struct sockaddr *)&fake->storage[at];
	return &fake->storage[at];
}

void fake_address(struct fake_sysfs *fake, const char *name, unsigned flags, const char *address)
{
	struct sockaddr_storage *storage = add(fake, name, flags), *mask = &fake->masks[fake->address_count - 1];
	char text[64];
	char *scope, *prefix;

	snprintf(text, sizeof(text), "%s", address);
	prefix = strchr(text, '/');
	if (prefix)
		*prefix = '\0';
	fake->addresses[fake->address_count - 1].ifa_netmask = (struct sockaddr *)mask;
	mask->ss_family = strchr(text, ':') ? AF_INET6 : AF_INET;
	if (mask->ss_family == AF_INET6)
		memset(&((struct sockaddr_in6 *)(void *)mask)->sin6_addr, 0xff, prefix ? 16 : 8);
	else
		((struct sockaddr_in *)(void *)mask)->sin_addr.s_addr = htonl(prefix ? 0xffffffff : 0xffffff00);
	scope = strchr(text, '%');
	if (scope)
		*scope++ = '\0';
	if (strchr(text, ':')) {
		struct sockaddr_in6 *v6 = (void *)storage;

		v6->sin6_family = AF_INET6;
		v6->sin6_scope_id = scope ? (uint32_t)strtoul(scope, NULL, 10) : 0;
		assert_int_equal(inet_pton(AF_INET6, text, &v6->sin6_addr), 1);
	} else {
		struct sockaddr_in *v4 = (void *)storage;

		v4->sin_family = AF_INET;
		v4->sin_port = 0xffff; /* must not be taken over */
		assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
	}
}

void fake_packet(struct fake_sysfs *fake, const char *name, unsigned flags, int index, const char *mac)
{
	struct sockaddr_ll *link = (void *)add(fake, name, flags);
	unsigned byte[6];

	assert_int_equal(sscanf(mac, "%x:%x:%x:%x:%x:%x", &byte[0], &byte[1], &byte[2], &byte[3], &byte[4], &byte[5]),
			 6);
	link->sll_family = AF_PACKET;
	link->sll_ifindex = index;
	link->sll_halen = 6;
	for (size_t i = 0; i < 6; i++)
		link->sll_addr[i] = (unsigned char)byte[i];
}

struct fake_choice fake_choose_of(struct fake_sysfs *fake, const char *list, enum family_choice family, int sysfs_fd)
{
	struct tcp_interface_source source = { sysfs_fd, fake->address_count ? &fake->addresses[0] : NULL };
	struct fake_choice choice;
	struct params params;

	memset(&choice, 0xee, sizeof(choice));
	params_defaults(&params);
	snprintf(params.interfaces, sizeof(params.interfaces), "%s", list);
	params.family = family;
	errno = ENOTTY;
	choice.result = tcp_interfaces_choose(&params, &source, choice.at, TCP_INTERFACE_MAX, &choice.count,
					      &choice.diag);
	assert_int_equal(errno, ENOTTY);
	return choice;
}

struct fake_choice fake_choose(struct fake_sysfs *fake, const char *list)
{
	return fake_choose_of(fake, list, FAMILY_AUTO, fake->tree.fd);
}

void fake_assert_chosen(const struct fake_choice *choice, const char *names)
{
	char text[TCP_INTERFACE_MAX * (IFNAMSIZ + 1)] = "";

	assert_int_equal(choice->result, 0);
	assert_true(choice->count <= TCP_INTERFACE_MAX);
	for (size_t i = 0; i < choice->count; i++) {
		strncat(text, i ? " " : "", sizeof(text) - strlen(text) - 1);
		strncat(text, choice->at[i].name, sizeof(text) - strlen(text) - 1);
		assert_int_equal(choice->at[i].rail, choice->count > 1 ? (int)i : -1);
		assert_true(choice->at[i].guid != 0);
		assert_true(choice->at[i].speed_Bps != 0);
		assert_true(choice->at[i].path_count >= 1);
		assert_true(choice->at[i].port >= 1);
		assert_true(choice->at[i].why && choice->at[i].why[0]);
	}
	assert_string_equal(text, names);
}

void fake_assert_address(const struct tcp_interface *interface, const char *expected)
{
	char text[INET6_ADDRSTRLEN];
	const void *at;

	if (interface->address.ss_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)&interface->address;

		assert_int_equal(interface->address_bytes, sizeof(*v4));
		assert_int_equal(v4->sin_port, 0);
		at = &v4->sin_addr;
	} else {
		const struct sockaddr_in6 *v6 = (const void *)&interface->address;

		assert_int_equal(interface->address.ss_family, AF_INET6);
		assert_int_equal(interface->address_bytes, sizeof(*v6));
		assert_int_equal(v6->sin6_port, 0);
		at = &v6->sin6_addr;
	}
	assert_non_null(inet_ntop(interface->address.ss_family, at, text, sizeof(text)));
	assert_string_equal(text, expected);
}

void fake_loopback(struct fake_sysfs *fake)
{
	fake_interface(fake, "lo", NULL, 1, "00:00:00:00:00:00", "-1");
	fake_attribute(fake, "lo", "type", "772\n");
	fake_address(fake, "lo", FAKE_UP | IFF_LOOPBACK, "127.0.0.1");
}

void fake_nic(struct fake_sysfs *fake, const char *name, const char *device, int index, const char *mbps,
	      const char *address)
{
	char mac[32];

	snprintf(mac, sizeof(mac), "02:00:00:00:00:%02x", (unsigned)index);
	fake_interface(fake, name, device, index, mac, mbps);
	if (address)
		fake_address(fake, name, FAKE_UP, address);
}
