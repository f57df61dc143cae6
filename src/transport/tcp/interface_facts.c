/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/interface_facts.h"

#include "base/hash.h"
#include "base/parse.h"
#include "base/sys.h"
#include "base/text_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
	PATH_BYTES = TCP_INTERFACE_PATH_BYTES,
	DEPTH_MAX = 4, /* VLAN on bridge on bond on card; also ends a loop in a broken tree */
	MEMBERS_MAX = 16,
};
#define BPS_PER_MBPS UINT64_C(125000) /* sysfs gives megabits, we keep bytes */

/* -------- reading -------- */

/* Paths that do not fit are unknown, like everything that cannot be read in full. */
static int join(char out[static PATH_BYTES], const char *dir, const char *name)
{
	int bytes = snprintf(out, PATH_BYTES, "%s/%s", dir, name);

	return bytes < 0 || bytes >= PATH_BYTES ? -ENAMETOOLONG : 0;
}

static int read_text(int sysfs_fd, const char *dir, const char *name, char *text, size_t text_bytes)
{
	char path[PATH_BYTES];
	int r = join(path, dir, name);

	return r < 0 ? r : text_file_value(sysfs_fd, path, text, text_bytes);
}

static uint64_t read_number(int sysfs_fd, const char *dir, const char *name, uint64_t max, uint64_t otherwise)
{
	char text[32];
	uint64_t value;

	if (read_text(sysfs_fd, dir, name, text, sizeof(text)) < 0 || parse_u64(text, 0, max, &value) < 0)
		return otherwise;
	return value;
}

static bool reads(int sysfs_fd, const char *dir, const char *name, const char *expected)
{
	char text[64];

	return !read_text(sysfs_fd, dir, name, text, sizeof(text)) && !strcmp(text, expected);
}

static bool exists(int sysfs_fd, const char *dir, const char *name)
{
	char path[PATH_BYTES];

	return !join(path, dir, name) && !faccessat(sysfs_fd, path, F_OK, 0);
}

/*
 * The folder that the link dir/name points to, relative to sysfs like dir. By text alone: folders below devices/ are
 * real ones in sysfs, and nothing may lead out of the tree.
 */
static int follow(int sysfs_fd, const char *dir, const char *name, char ret[static PATH_BYTES])
{
	char path[PATH_BYTES], target[PATH_BYTES], out[PATH_BYTES];
	const char *rest = target, *item;
	size_t item_bytes, out_bytes;
	ssize_t bytes;
	int r = join(path, dir, name);

	if (r < 0)
		return r;
	bytes = readlinkat(sysfs_fd, path, target, sizeof(target));
	if (bytes < 0)
		return -errno;
	if ((size_t)bytes >= sizeof(target))
		return -ENAMETOOLONG;
	target[bytes] = '\0';
	if (target[0] == '/')
		return -EXDEV;
	out_bytes = strlen(dir);
	memcpy(out, dir, out_bytes + 1);
	while (parse_list_next(&rest, '/', &item, &item_bytes)) {
		if (item_bytes == 2 && !memcmp(item, "..", 2)) {
			char *slash = strrchr(out, '/');

			if (!out[0])
				return -EXDEV;
			*(slash ? slash : out) = '\0';
			out_bytes = strlen(out);
			continue;
		}
		if (out_bytes + item_bytes + 2 > sizeof(out))
			return -ENAMETOOLONG;
		if (out_bytes)
			out[out_bytes++] = '/';
		memcpy(out + out_bytes, item, item_bytes);
		out_bytes += item_bytes;
		out[out_bytes] = '\0';
	}
	memcpy(ret, out, out_bytes + 1);
	return 0;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Names in dir that begin with prefix, without it, in order of name; at most `max`. */
static size_t list_names(int sysfs_fd, const char *dir, const char *prefix, size_t max, char (*names)[IFNAMSIZ])
{
	int fd = openat(sysfs_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *listing = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t count = 0, at;

	if (!listing) {
		sys_close(&fd);
		return 0;
	}
	while ((entry = readdir(listing))) {
		const char *name = entry->d_name;
		size_t bytes = strlen(name), skip = strlen(prefix);

		if (name[0] == '.' || strncmp(name, prefix, skip) || bytes - skip >= IFNAMSIZ || bytes == skip)
			continue;
		if (count == max && strverscmp(name + skip, names[max - 1]) > 0)
			continue;
		if (count < max)
			count++;
		for (at = count - 1; at && strverscmp(names[at - 1], name + skip) > 0; at--)
			memcpy(names[at], names[at - 1], IFNAMSIZ);
		memcpy(names[at], name + skip, bytes - skip + 1);
	}
	closedir(listing);
	return count;
}

/* -------- guid -------- */

static uint64_t guid_of(const void *a, size_t a_bytes, const char *b)
{
	uint64_t value = hash_text(hash_bytes(HASH_START, a, a_bytes), b);

	return value ? value : 1;
}

/* "00:11:22…" of a file; number of bytes, 0 if it is no such text or all zeroes (loopback, TUN). */
static size_t read_mac(int sysfs_fd, const char *dir, const char *file, uint8_t mac[static TCP_INTERFACE_MAC_BYTES])
{
	char text[TCP_INTERFACE_MAC_BYTES * 3 + 2], byte_text[3] = "";
	const char *rest = text, *item;
	size_t bytes = 0, item_bytes;
	uint64_t byte, all = 0;

	if (read_text(sysfs_fd, dir, file, text, sizeof(text)) < 0)
		return 0;
	while (parse_list_next(&rest, ':', &item, &item_bytes)) {
		if (item_bytes != 2 || bytes == TCP_INTERFACE_MAC_BYTES)
			return 0;
		memcpy(byte_text, item, 2);
		if (parse_hex64(byte_text, &byte) < 0)
			return 0;
		mac[bytes++] = (uint8_t)byte;
		all |= byte;
	}
	return all ? bytes : 0;
}

/* A member of a bond shows the bond's address as its own. */
static size_t permanent_mac(int sysfs_fd, const char *net_dir, uint8_t mac[static TCP_INTERFACE_MAC_BYTES])
{
	size_t bytes = read_mac(sysfs_fd, net_dir, "bonding_slave/perm_hwaddr", mac);

	return bytes ? bytes : read_mac(sysfs_fd, net_dir, "address", mac);
}

/* The function of a PCI path, "…/0000:81:00.1" → 1, or -1. */
static int pci_function(const char *path)
{
	size_t bytes = strlen(path);

	if (bytes < 2 || path[bytes - 2] != '.' || path[bytes - 1] < '0' || path[bytes - 1] > '7')
		return -1;
	return path[bytes - 1] - '0';
}

/* Address of the first port of the card, its function 0 or the lowest that has an interface. */
static size_t card_mac(int sysfs_fd, const char *card, uint8_t mac[static TCP_INTERFACE_MAC_BYTES])
{
	char path[PATH_BYTES + 2], net[PATH_BYTES], names[1][IFNAMSIZ], port_dir[PATH_BYTES];
	size_t bytes = 0;

	for (int function = 0; function < 8 && !bytes; function++) {
		snprintf(path, sizeof(path), "%s.%d", card, function);
		if (join(net, path, "net") < 0 || !list_names(sysfs_fd, net, "", 1, names) ||
		    join(port_dir, net, names[0]) < 0)
			continue;
		bytes = permanent_mac(sysfs_fd, port_dir, mac);
	}
	return bytes;
}

/*
 * guid and port together are what NCCL takes for one wire. The ports of a card are its PCI functions, or have a
 * dev_port of their own within one function; a virtual function is on the wire of its physical one.
 */
static void identify_port(int sysfs_fd, const char *net_dir, const char *pci_dir, struct tcp_interface_facts *facts)
{
	uint8_t mac[TCP_INTERFACE_MAC_BYTES];
	char physical[PATH_BYTES];
	size_t mac_bytes;
	int function;

	facts->port = (int)read_number(sysfs_fd, net_dir, "dev_port", 254, 0) + 1;
	if (!pci_dir[0] || follow(sysfs_fd, pci_dir, "physfn", physical) < 0)
		snprintf(physical, sizeof(physical), "%s", pci_dir);
	function = pci_function(physical);
	if (function < 0) {
		mac_bytes = permanent_mac(sysfs_fd, net_dir, mac);
		facts->guid = mac_bytes ? guid_of(mac, mac_bytes, "") : guid_of("", 0, last_part(net_dir));
		return;
	}
	facts->port += function;
	physical[strlen(physical) - 2] = '\0';
	mac_bytes = card_mac(sysfs_fd, physical, mac);
	if (!mac_bytes) /* the first port may be another container's: then ours must do */
		mac_bytes = permanent_mac(sysfs_fd, net_dir, mac);
	facts->guid = guid_of(mac, mac_bytes, last_part(physical));
}

/* -------- one interface, then what is under it -------- */

/* The nearest PCI function at or above the interface's device: a virtio or USB device sits below one. */
static void find_pci(int sysfs_fd, const char *net_dir, char pci_dir[static PATH_BYTES])
{
	char at[PATH_BYTES], subsystem[PATH_BYTES], *slash;

	pci_dir[0] = '\0';
	if (follow(sysfs_fd, net_dir, "device", at) < 0)
		return;
	for (; (slash = strrchr(at, '/')); *slash = '\0') {
		if (!follow(sysfs_fd, at, "subsystem", subsystem) && !strcmp(last_part(subsystem), "pci")) {
			snprintf(pci_dir, PATH_BYTES, "%s", at);
			return;
		}
	}
}

static int net_dir_of(int sysfs_fd, const char *name, char ret[static PATH_BYTES])
{
	int r;

	if (!name[0] || name[0] == '.' || strchr(name, '/'))
		return -ENODEV;
	r = follow(sysfs_fd, "class/net", name, ret);
	return r < 0 || !exists(sysfs_fd, ret, "ifindex") ? -ENODEV : 0;
}

struct member_list {
	size_t count;
	char names[MEMBERS_MAX][IFNAMSIZ];
};

static bool bond_member_is_live(int sysfs_fd, const char *bond_dir, const char *member, bool lacp)
{
	char dir[PATH_BYTES];
	uint64_t ours, its;

	if (net_dir_of(sysfs_fd, member, dir) < 0)
		return false;
	if (exists(sysfs_fd, dir, "bonding_slave/mii_status")) {
		if (!reads(sysfs_fd, dir, "bonding_slave/mii_status", "up"))
			return false;
	} else if (!reads(sysfs_fd, dir, "operstate", "up")) {
		return false;
	}
	if (!lacp)
		return true;
	/* A member whose switch port speaks no LACP is in an aggregator of its own and carries nothing. */
	ours = read_number(sysfs_fd, bond_dir, "bonding/ad_aggregator", UINT16_MAX, 0);
	its = read_number(sysfs_fd, dir, "bonding_slave/ad_aggregator_id", UINT16_MAX, ours);
	return !ours || ours == its;
}

/* The members over which a bond's traffic goes now. */
static void bond_members(int sysfs_fd, const char *bond_dir, struct member_list *ret)
{
	char text[MEMBERS_MAX * IFNAMSIZ * 2], mode[32] = "", active[IFNAMSIZ + 1] = "";
	const char *rest = text, *item;
	bool one_only, lacp;
	size_t bytes;

	ret->count = 0;
	if (read_text(sysfs_fd, bond_dir, "bonding/slaves", text, sizeof(text)) < 0)
		return;
	if (read_text(sysfs_fd, bond_dir, "bonding/mode", mode, sizeof(mode)) < 0)
		mode[0] = '\0';
	lacp = !strncmp(mode, "802.3ad", 7);
	one_only = !strncmp(mode, "active-backup", 13) || !strncmp(mode, "broadcast", 9);
	if (one_only && read_text(sysfs_fd, bond_dir, "bonding/active_slave", active, sizeof(active)) < 0)
		active[0] = '\0';
	while (ret->count < MEMBERS_MAX && parse_list_next(&rest, ' ', &item, &bytes)) {
		char *name = ret->names[ret->count];

		if (bytes >= IFNAMSIZ)
			continue;
		memcpy(name, item, bytes);
		name[bytes] = '\0';
		if ((active[0] && strcmp(active, name)) || !bond_member_is_live(sysfs_fd, bond_dir, name, lacp))
			continue;
		ret->count++;
		if (one_only)
			return;
	}
}

static bool uevent_says(int sysfs_fd, const char *net_dir, const char *const *types, size_t count)
{
	char text[256], line[32];

	if (read_text(sysfs_fd, net_dir, "uevent", text, sizeof(text)) < 0)
		return false;
	for (size_t i = 0; i < count; i++) {
		const char *at;
		size_t bytes = (size_t)snprintf(line, sizeof(line), "DEVTYPE=%s", types[i]);

		at = strstr(text, line);
		if (at && (at == text || at[-1] == '\n') && (!at[bytes] || at[bytes] == '\n'))
			return true;
	}
	return false;
}
#define UEVENT_SAYS(sysfs_fd, net_dir, ...)                                  \
	uevent_says(sysfs_fd, net_dir, (const char *const[]){ __VA_ARGS__ }, \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *))

/* What the interface is by its own, not by what is below it. */
static void classify(int sysfs_fd, const char *net_dir, struct tcp_interface_facts *facts)
{
	uint64_t type = read_number(sysfs_fd, net_dir, "type", UINT16_MAX, ARPHRD_ETHER);
	uint64_t index = read_number(sysfs_fd, net_dir, "ifindex", INT32_MAX, 0);
	char path[PATH_BYTES];

	facts->tunnel = exists(sysfs_fd, net_dir, "tun_flags") ||
			(type != ARPHRD_ETHER && type != ARPHRD_INFINIBAND && type != ARPHRD_LOOPBACK) ||
			UEVENT_SAYS(sysfs_fd, net_dir, "vxlan", "geneve", "bareudp", "wireguard", "gretap", "l2tpeth",
				    "ppp", "gtp", "batadv", "netkit");
	facts->physical = exists(sysfs_fd, net_dir, "device") && !facts->tunnel;
	facts->wireless = facts->physical &&
			  (exists(sysfs_fd, net_dir, "wireless") || exists(sysfs_fd, net_dir, "phy80211") ||
			   UEVENT_SAYS(sysfs_fd, net_dir, "wlan", "wwan"));
	facts->usb = facts->physical && !follow(sysfs_fd, net_dir, "device", path) && strstr(path, "/usb");
	facts->enslaved = exists(sysfs_fd, net_dir, "brport") || exists(sysfs_fd, net_dir, "bonding_slave") ||
			  (!follow(sysfs_fd, net_dir, "master", path) && !strncmp(last_part(path), "ovs-", 4));
	facts->paired = read_number(sysfs_fd, net_dir, "iflink", INT32_MAX, index) != index;
}

/* sum: the traffic goes over all the members at once; else over the first, for a bridge the fastest, of them. */
enum shape { SHAPE_PLAIN, SHAPE_BRIDGE, SHAPE_SUM, SHAPE_FIRST };

static enum shape shape_of(int sysfs_fd, const char *net_dir, struct member_list *ret_members)
{
	char path[PATH_BYTES];

	ret_members->count = 0;
	if (exists(sysfs_fd, net_dir, "bonding")) {
		bond_members(sysfs_fd, net_dir, ret_members);
		return SHAPE_SUM;
	}
	if (exists(sysfs_fd, net_dir, "bridge")) {
		if (!join(path, net_dir, "brif"))
			ret_members->count = list_names(sysfs_fd, path, "", MEMBERS_MAX, ret_members->names);
		return SHAPE_BRIDGE;
	}
	ret_members->count = list_names(sysfs_fd, net_dir, "lower_", MEMBERS_MAX, ret_members->names);
	if (!ret_members->count)
		return SHAPE_PLAIN;
	return UEVENT_SAYS(sysfs_fd, net_dir, "team") ? SHAPE_SUM : SHAPE_FIRST;
}

static void read_own(int sysfs_fd, const char *net_dir, struct tcp_interface_facts *facts)
{
	char pci_dir[PATH_BYTES];

	memset(facts, 0, sizeof(*facts));
	find_pci(sysfs_fd, net_dir, pci_dir);
	if (pci_dir[0] && snprintf(facts->pci_path, PATH_BYTES, "/sys/%s", pci_dir) >= PATH_BYTES)
		facts->pci_path[0] = '\0';
	/* Unknown is -1, which is no unsigned number, or on old kernels 2^32 - 1. */
	facts->speed_Bps = read_number(sysfs_fd, net_dir, "speed", INT32_MAX, 0) * BPS_PER_MBPS;
	facts->mtu_bytes = (unsigned)read_number(sysfs_fd, net_dir, "mtu", 1 << 24, 0);
	facts->path_count = 1;
	facts->is_known = true;
	classify(sysfs_fd, net_dir, facts);
	identify_port(sysfs_fd, net_dir, pci_dir, facts);
}

static void read_facts(int sysfs_fd, const char *net_dir, int depth, struct tcp_interface_facts *facts);

/* Adds one member's facts to the interface above it. `first`: nothing has been taken from below yet. */
static void take_from(const struct tcp_interface_facts *below, enum shape shape, bool first,
		      struct tcp_interface_facts *facts)
{
	bool better = first || (shape == SHAPE_BRIDGE &&
				((!facts->pci_path[0] && below->pci_path[0]) ||
				 (!facts->pci_path[0] == !below->pci_path[0] && below->speed_Bps > facts->speed_Bps)));

	if (shape == SHAPE_SUM && !first) {
		facts->speed_Bps = facts->speed_Bps && below->speed_Bps ? facts->speed_Bps + below->speed_Bps : 0;
		facts->path_count += below->path_count;
	} else if (better) {
		facts->speed_Bps = below->speed_Bps;
		facts->path_count = below->path_count;
	}
	if (better) {
		memcpy(facts->pci_path, below->pci_path, sizeof(facts->pci_path));
		facts->guid = below->guid;
		facts->port = below->port;
	}
}

static void read_below(int sysfs_fd, const char *net_dir, const struct member_list *members, enum shape shape,
		       int depth, struct tcp_interface_facts *facts)
{
	bool first = true, physical = false, wireless = true, usb = true;
	uint64_t own_speed_Bps = facts->speed_Bps;

	for (size_t i = 0; i < members->count; i++) {
		struct tcp_interface_facts below;
		char dir[PATH_BYTES];

		if (net_dir_of(sysfs_fd, members->names[i], dir) < 0)
			continue; /* in another network namespace */
		read_facts(sysfs_fd, dir, depth + 1, &below);
		if (below.physical) {
			physical = true;
			wireless = wireless && below.wireless;
			usb = usb && below.usb;
		}
		take_from(&below, shape, first, facts);
		first = false;
		if (shape == SHAPE_FIRST)
			break;
	}
	facts->container_bridge = shape == SHAPE_BRIDGE && !physical;
	/* An interface of its own on a port's wire, for one container or VM, is not the port. */
	if (physical && !facts->tunnel && !UEVENT_SAYS(sysfs_fd, net_dir, "macvlan", "macvtap", "ipvlan", "ipvtap")) {
		facts->physical = true;
		facts->wireless = wireless;
		facts->usb = usb;
	}
	if (!facts->speed_Bps)
		facts->speed_Bps = own_speed_Bps;
}

static void read_facts(int sysfs_fd, const char *net_dir, int depth, struct tcp_interface_facts *facts)
{
	struct member_list members;
	enum shape shape;

	read_own(sysfs_fd, net_dir, facts);
	if (depth >= DEPTH_MAX)
		return;
	shape = shape_of(sysfs_fd, net_dir, &members);
	if (shape != SHAPE_PLAIN)
		read_below(sysfs_fd, net_dir, &members, shape, depth, facts);
}

int tcp_interface_facts_read(int sysfs_fd, const char *name, const struct tcp_interface_identity *identity,
			     struct tcp_interface_facts *ret)
{
	uint8_t mac[TCP_INTERFACE_MAC_BYTES];
	char net_dir[PATH_BYTES];
	size_t mac_bytes;
	uint64_t index;
	int r = net_dir_of(sysfs_fd, name, net_dir);

	if (r < 0)
		return r;
	index = read_number(sysfs_fd, net_dir, "ifindex", INT32_MAX, 0);
	if (identity->index > 0 && index != (uint64_t)identity->index)
		return -ENODEV;
	mac_bytes = read_mac(sysfs_fd, net_dir, "address", mac);
	if (identity->mac_bytes && mac_bytes &&
	    (mac_bytes != identity->mac_bytes || memcmp(mac, identity->mac, mac_bytes)))
		return -ENODEV;
	read_facts(sysfs_fd, net_dir, 0, ret);
	return 0;
}

/* -------- without sysfs -------- */

void tcp_interface_facts_none(const char *name, const struct tcp_interface_identity *identity,
			      struct tcp_interface_facts *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->port = 1;
	ret->path_count = 1;
	ret->guid = identity->mac_bytes ? guid_of(identity->mac, identity->mac_bytes, "") : guid_of("", 0, name);
}

void tcp_interface_facts_ask(int socket_fd, int sysfs_fd, const char *name, struct tcp_interface_facts *facts)
{
	struct ethtool_drvinfo driver = { .cmd = ETHTOOL_GDRVINFO };
	struct ethtool_cmd link = { .cmd = ETHTOOL_GSET };
	char pci_dir[PATH_BYTES], bus_info[sizeof(driver.bus_info) + 1] = "";
	struct ifreq request = { 0 };
	uint32_t speed_Mbps;

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (!ioctl(socket_fd, SIOCGIFMTU, &request) && request.ifr_mtu > 0)
		facts->mtu_bytes = (unsigned)request.ifr_mtu;
	request.ifr_data = (char *)&link;
	if (!ioctl(socket_fd, SIOCETHTOOL, &request)) {
		speed_Mbps = (uint32_t)link.speed_hi << 16 | link.speed; /* ethtool_cmd_speed() shifts an int */
		facts->speed_Bps = speed_Mbps <= INT32_MAX ? speed_Mbps * BPS_PER_MBPS : 0;
	}
	/* A PCI function is to be seen in every network namespace, only its interface is not. */
	request.ifr_data = (char *)&driver;
	if (ioctl(socket_fd, SIOCETHTOOL, &request))
		return;
	memcpy(bus_info, driver.bus_info, sizeof(driver.bus_info));
	if (bus_info[0] && !strchr(bus_info, '/') && !follow(sysfs_fd, "bus/pci/devices", bus_info, pci_dir) &&
	    snprintf(facts->pci_path, PATH_BYTES, "/sys/%s", pci_dir) >= PATH_BYTES)
		facts->pci_path[0] = '\0';
}

bool tcp_interface_facts_container(const char *name)
{
	static const char *const prefixes[] = {
		"docker", "virbr",   "cni",     "podman",  "flannel", "cilium",  "cali",         "kube-",
		"lxcbr",  "lxdbr",   "incusbr", "nerdctl", "weave",   "antrea-", "nodelocaldns", "ovn-k8s-",
		"vmnet",  "vboxnet", "genev_",  "vxlan",   "tunl0",   "wg",      "tailscale",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	}
	/* Docker's own networks: br- and twelve hexadecimal digits. */
	return !strncmp(name, "br-", 3) && strlen(name) == 15 && strspn(name + 3, "0123456789abcdef") == 12;
}
