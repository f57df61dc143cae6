/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/facts.h"

#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "transport/tcp/interface_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 64 };

static bool read_row(const char *root, const char *device, unsigned port, const char *what, unsigned index,
		     char text[static TEXT_BYTES])
{
	char path[PATH_MAX];
	int saved_errno = errno;
	int bytes = snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/gid_attrs/%s/%u", root, device, port,
			     what, index);
	bool ok = bytes > 0 && (size_t)bytes < sizeof(path) && text_file_value(AT_FDCWD, path, text, TEXT_BYTES) == 0;

	errno = saved_errno;
	return ok;
}

enum verbs_gid_type verbs_facts_gid_type(const char *root, const char *device, unsigned port, unsigned index)
{
	char text[TEXT_BYTES];

	if (!read_row(root, device, port, "types", index, text))
		return VERBS_GID_UNKNOWN;
	if (!strcmp(text, "RoCE v2"))
		return VERBS_GID_ROCE_V2;
	/* The kernel has one descriptor for both: on Ethernet it is RoCE v1. */
	return strcmp(text, "IB/RoCE v1") == 0 ? VERBS_GID_ROCE_V1 : VERBS_GID_UNKNOWN;
}

void verbs_facts_netdev(const char *root, const char *device, unsigned port, unsigned index, char ret[static IFNAMSIZ])
{
	char text[TEXT_BYTES];
	size_t bytes;

	ret[0] = '\0';
	if (!read_row(root, device, port, "ndevs", index, text))
		return;
	bytes = strlen(text);
	if (bytes < IFNAMSIZ)
		memcpy(ret, text, bytes + 1);
}

/* "800 Gb/sec (4X XDR)". */
uint64_t verbs_facts_rate(const char *root, const char *device, unsigned port)
{
	char path[PATH_MAX], text[TEXT_BYTES], rate[TEXT_BYTES + 8];
	int saved_errno = errno;
	int bytes = snprintf(path, sizeof(path), "%s/class/infiniband/%s/ports/%u/rate", root, device, port);
	uint64_t Bps = 0;
	bool ok = bytes > 0 && (size_t)bytes < sizeof(path) && text_file_value(AT_FDCWD, path, text, sizeof(text)) == 0;
	size_t digits = ok ? strcspn(text, " ") : 0;

	errno = saved_errno;
	if (!ok || strncmp(text + digits, " Gb/sec", strlen(" Gb/sec")) != 0)
		return 0;
	snprintf(rate, sizeof(rate), "%.*sGbit/s", (int)digits, text);
	return parse_rate(rate, 1, UINT64_C(12500000000000), &Bps) == 0 ? Bps : 0;
}

/* The last ".3" of a PCI path. */
static int function_of(const char *path)
{
	size_t bytes = strlen(path);

	if (bytes < 2 || path[bytes - 2] != '.' || path[bytes - 1] < '0' || path[bytes - 1] > '7')
		return -1;
	return path[bytes - 1] - '0';
}

static void own_card(const char *root, const char *device, struct verbs_place *place)
{
	char path[PATH_MAX], real[PATH_MAX], real_root[PATH_MAX];
	int bytes = snprintf(path, sizeof(path), "%s/class/infiniband/%s/device", root, device);
	size_t root_bytes;

	if (bytes < 0 || (size_t)bytes >= sizeof(path) || !realpath(path, real) || !realpath(root, real_root))
		return;
	root_bytes = strlen(real_root);
	if (strncmp(real, real_root, root_bytes) != 0 || function_of(real) < 0)
		return;
	bytes = snprintf(path, sizeof(path), "/sys%s", real + root_bytes);
	if (bytes < 0 || bytes >= VERBS_PATH_BYTES)
		return;
	memcpy(place->pci_path, path, (size_t)bytes + 1);
}

bool verbs_facts_is_card(const char *root, const char *device)
{
	struct verbs_place place = { 0 };
	int saved_errno = errno;

	own_card(root, device, &place);
	errno = saved_errno;
	return place.pci_path[0] != '\0';
}

bool verbs_facts_peermem(const char *root)
{
	static const char *const paths[] = { "module/nvidia_peermem", "module/nv_peer_mem",
					     "kernel/mm/memory_peers/nv_mem", "kernel/mm/memory_peers/nv_mem_nc" };
	bool found = false;
	int saved_errno = errno;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]) && !found; i++) {
		char path[PATH_MAX];
		int bytes = snprintf(path, sizeof(path), "%s/%s", root, paths[i]);

		found = bytes > 0 && (size_t)bytes < sizeof(path) && access(path, F_OK) == 0;
	}
	errno = saved_errno;
	return found;
}

static void card_of_netdev(const char *root, const char *netdev, struct verbs_place *place)
{
	struct tcp_interface_identity identity = { 0 };
	struct tcp_interface_facts facts;
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (tcp_interface_facts_read(fd, netdev, &identity, &facts) == 0) {
		memcpy(place->pci_path, facts.pci_path, sizeof(place->pci_path));
		place->speed_Bps = facts.speed_Bps;
	}
	sys_close(&fd);
}

void verbs_facts_place(const char *root, const char *device, const char *netdev, struct verbs_place *ret)
{
	int saved_errno = errno;

	_Static_assert((int)VERBS_PATH_BYTES == (int)TCP_INTERFACE_PATH_BYTES, "the same paths");
	memset(ret, 0, sizeof(*ret));
	own_card(root, device, ret);
	if (!ret->pci_path[0] && netdev[0])
		card_of_netdev(root, netdev, ret);
	ret->function = function_of(ret->pci_path);
	if (ret->function < 0)
		ret->function = 0;
	errno = saved_errno;
}

unsigned verbs_facts_gid_alike(const uint8_t a[static VERBS_GID_BYTES], const uint8_t b[static VERBS_GID_BYTES])
{
	unsigned bits = 0;

	while (bits < 8 * VERBS_GID_BYTES && !((a[bits / 8] ^ b[bits / 8]) >> (7 - bits % 8) & 1))
		bits++;
	return bits;
}

unsigned verbs_facts_gid_worth(enum verbs_gid_type type, const uint8_t gid[static VERBS_GID_BYTES],
			       const struct verbs_address_wish *wish, bool fits)
{
	const bool in_range = wish->range_bits && verbs_facts_gid_alike(gid, wish->range) >= wish->range_bits;
	static const uint8_t none[VERBS_GID_BYTES], mapped[12] = { [10] = 0xff, [11] = 0xff };
	unsigned worth;

	if (memcmp(gid, none, sizeof(none)) == 0 || type == VERBS_GID_UNKNOWN)
		return 0;
	if (gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80)
		worth = 1;
	else if (memcmp(gid, mapped, sizeof(mapped)) == 0)
		worth = wish->ipv6 ? 2 : 3;
	else
		worth = wish->ipv6 ? 3 : 2;
	return worth + (fits ? 10 : 0) + ((type == VERBS_GID_ROCE_V2) == (wish->version != 1) ? 20 : 0) +
	       (in_range ? 40 : 0);
}
