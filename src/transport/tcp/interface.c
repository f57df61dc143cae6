/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/interface.h"

#include "base/log.h"
#include "base/params.h"
#include "base/sys.h"
#include "transport/tcp/interface_facts.h"
#include "transport/tcp/interface_wish.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEED_UNKNOWN_BPS UINT64_C(1250000000) /* 10 Gbit/s, which is what NCCL assumes too */

enum { MTU_UNKNOWN_BYTES = 1500 };

/*
 * What a choice without a positive list goes by: only the best kind present is used. A host's address on loopback or a
 * dummy (BGP to the host) counts more than a virtual interface where there is a physical port to carry it, and less in
 * a container, whose only port is virtual.
 */
enum kind {
	KIND_PHYSICAL,
	KIND_WIRELESS,
	KIND_HOST_ADDRESS,
	KIND_VIRTUAL,
	KIND_HOST_ADDRESS_ALONE,
	KIND_VIRTUAL_ALONE, /* with an address that has no subnet: a pod's only port, or an overlay's end */
	KIND_LINK_LOCAL,
	KIND_CONTAINER,
	KIND_LOOPBACK,
	KIND_UNUSABLE,
	KIND_COUNT
};

static const char *const kind_reasons[KIND_COUNT] = {
	[KIND_PHYSICAL] = "up, with an address",
	[KIND_WIRELESS] = "wireless or USB; there is no other",
	[KIND_HOST_ADDRESS] = "the host's address; no port has one",
	[KIND_VIRTUAL] = "up, with an address",
	[KIND_HOST_ADDRESS_ALONE] = "the host's address; no port has one",
	[KIND_VIRTUAL_ALONE] = "virtual, address without a subnet; there is no other",
	[KIND_LINK_LOCAL] = "link-local address; there is no other",
	[KIND_CONTAINER] = "container bridge, tunnel or overlay; there is no other",
	[KIND_LOOPBACK] = "loopback; there is no other",
	[KIND_UNUSABLE] = "",
};

struct candidate {
	struct tcp_interface interface;
	struct tcp_interface_identity identity;
	unsigned flags;
	unsigned address_rank; /* of interface.address: lower is better; ADDRESS_NONE: has none of the family wanted */
	size_t order;          /* the first thing to sort by: the list's item, or the kind */
	bool no_subnet;        /* interface.address is a /32 or /128 */
	bool container;
	struct tcp_interface_facts facts;
};

enum {
	ADDRESS_GLOBAL_4,
	ADDRESS_GLOBAL_6,
	ADDRESS_LOCAL_4,
	ADDRESS_LOCAL_6,
	ADDRESS_LOOPBACK_4,
	ADDRESS_LOOPBACK_6,
	ADDRESS_NONE
};

struct candidates {
	struct candidate *at;
	size_t count;
};

bool tcp_interfaces_fit(const struct params *params, const char *name)
{
	struct tcp_interface_wish wish;

	tcp_interface_wish_parse(params->interfaces, &wish);
	return !wish.item_count || (tcp_interface_wish_match(&wish, name) < wish.item_count) != wish.exclude;
}

/* -------- from the address list to candidates -------- */

static unsigned rank_address(const struct sockaddr *address, enum family_choice family, size_t *ret_bytes)
{
	if (address->sa_family == AF_INET && family != FAMILY_IPV6) {
		const struct sockaddr_in *v4 = (const void *)address;
		uint32_t value = ntohl(v4->sin_addr.s_addr);

		*ret_bytes = sizeof(*v4);
		if (value >> 24 == IN_LOOPBACKNET)
			return ADDRESS_LOOPBACK_4;
		/* 169.254/16: often a BMC, the same on each host */
		return value >> 16 == 0xa9fe ? ADDRESS_LOCAL_4 : ADDRESS_GLOBAL_4;
	}
	if (address->sa_family == AF_INET6 && family != FAMILY_IPV4) {
		const struct sockaddr_in6 *v6 = (const void *)address;

		*ret_bytes = sizeof(*v6);
		if (IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
			return ADDRESS_LOOPBACK_6;
		return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) ? ADDRESS_LOCAL_6 : ADDRESS_GLOBAL_6;
	}
	return ADDRESS_NONE;
}

static unsigned prefix_bits(const struct sockaddr *mask)
{
	const unsigned most = mask->sa_family == AF_INET ? 32 : mask->sa_family == AF_INET6 ? 128 : 0;
	const uint8_t *bytes = most == 32 ? (const void *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr
					  : (const void *)&((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr;
	unsigned bits = 0;

	while (bits < most && bytes[bits / 8] >> (7 - bits % 8) & 1)
		bits++;
	return bits;
}

static void clear_port(struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET)
		((struct sockaddr_in *)(void *)address)->sin_port = 0;
	else
		((struct sockaddr_in6 *)(void *)address)->sin6_port = 0;
}

/* Returns the bits of its prefix; 0: not known. */
static unsigned keep_address(struct sockaddr_storage *ret, socklen_t *ret_bytes, const struct ifaddrs *entry,
			     size_t bytes)
{
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, entry->ifa_addr, bytes);
	clear_port(ret);
	*ret_bytes = (socklen_t)bytes;
	return entry->ifa_netmask ? prefix_bits(entry->ifa_netmask) : 0;
}

static void add_address(struct candidate *candidate, const struct ifaddrs *entry, enum family_choice family)
{
	const struct sockaddr *address = entry->ifa_addr;
	unsigned rank;
	size_t bytes = 0;

	if (address->sa_family == AF_PACKET) {
		const struct sockaddr_ll *link = (const void *)address;
		struct tcp_interface_identity *identity = &candidate->identity;

		identity->index = link->sll_ifindex;
		identity->mac_bytes = link->sll_halen <= TCP_INTERFACE_MAC_BYTES ? link->sll_halen : 0;
		/* libc gives more room than sll_addr's 8 bytes where the address (InfiniBand's) is longer. */
		memcpy(identity->mac, (const char *)address + offsetof(struct sockaddr_ll, sll_addr),
		       identity->mac_bytes);
		for (size_t i = 0; i < identity->mac_bytes; i++) {
			if (identity->mac[i])
				return;
		}
		identity->mac_bytes = 0;
		return;
	}
	rank = rank_address(address, family, &bytes);
	if (rank == ADDRESS_NONE)
		return;
	if (rank >= candidate->address_rank) { /* the first of equal rank is the interface's primary address */
		if (rank <= ADDRESS_GLOBAL_6 && !candidate->interface.other_bytes &&
		    address->sa_family != candidate->interface.address.ss_family)
			candidate->interface.other_prefix_bits = keep_address(
				&candidate->interface.other, &candidate->interface.other_bytes, entry, bytes);
		return;
	}
	if (candidate->address_rank <= ADDRESS_GLOBAL_6 &&
	    address->sa_family != candidate->interface.address.ss_family) {
		candidate->interface.other = candidate->interface.address;
		candidate->interface.other_bytes = candidate->interface.address_bytes;
		candidate->interface.other_prefix_bits = candidate->interface.prefix_bits;
	}
	candidate->address_rank = rank;
	candidate->interface.prefix_bits = keep_address(&candidate->interface.address,
							&candidate->interface.address_bytes, entry, bytes);
	candidate->no_subnet = candidate->interface.prefix_bits == (address->sa_family == AF_INET ? 32 : 128);
}

static struct candidate *candidate_named(struct candidates *candidates, const char *label)
{
	size_t bytes = strcspn(label, ":"); /* "eth0:1" is a second address of eth0 */
	struct candidate *new;

	if (!bytes || bytes >= IFNAMSIZ)
		return NULL;
	for (size_t i = 0; i < candidates->count; i++) {
		const char *name = candidates->at[i].interface.name;

		if (!strncmp(name, label, bytes) && !name[bytes])
			return &candidates->at[i];
	}
	new = &candidates->at[candidates->count++];
	memcpy(new->interface.name, label, bytes);
	new->address_rank = ADDRESS_NONE;
	return new;
}

static int collect(const struct ifaddrs *addresses, enum family_choice family, struct candidates *ret)
{
	size_t most = 0;

	for (const struct ifaddrs *at = addresses; at; at = at->ifa_next)
		most++;
	ret->count = 0;
	ret->at = sys_zalloc(most * sizeof(*ret->at));
	if (!ret->at)
		return -ENOMEM;
	for (const struct ifaddrs *at = addresses; at; at = at->ifa_next) {
		struct candidate *candidate = at->ifa_name ? candidate_named(ret, at->ifa_name) : NULL;

		if (!candidate)
			continue;
		candidate->flags |= at->ifa_flags;
		if (at->ifa_addr)
			add_address(candidate, at, family);
	}
	return 0;
}

/* -------- choosing -------- */

/* An address that all ports share: the traffic does not go through this interface. */
static bool holds_address_only(const struct candidate *candidate)
{
	const struct tcp_interface_facts *facts = &candidate->facts;

	if (candidate->container)
		return false;
	if (candidate->flags & IFF_LOOPBACK)
		return true;
	return (candidate->flags & (IFF_NOARP | IFF_BROADCAST)) == (IFF_NOARP | IFF_BROADCAST) && facts->is_known &&
	       !facts->physical && !facts->paired;
}

/* socket_fd: asked about what sysfs does not show; negative: not asked. */
static void learn(struct candidate *candidate, int sysfs_fd, int socket_fd)
{
	struct tcp_interface *interface = &candidate->interface;
	struct tcp_interface_facts *facts = &candidate->facts;

	if (tcp_interface_facts_read(sysfs_fd, interface->name, &candidate->identity, facts) < 0) {
		tcp_interface_facts_none(interface->name, &candidate->identity, facts);
		if (socket_fd >= 0)
			tcp_interface_facts_ask(socket_fd, sysfs_fd, interface->name, facts);
	}
	memcpy(interface->pci_path, facts->pci_path, sizeof(interface->pci_path));
	interface->speed_Bps = facts->speed_Bps ? facts->speed_Bps : SPEED_UNKNOWN_BPS;
	interface->speed_assumed = !facts->speed_Bps;
	interface->mtu_bytes = facts->mtu_bytes ? facts->mtu_bytes : MTU_UNKNOWN_BYTES;
	interface->guid = facts->guid;
	interface->port = facts->port;
	interface->path_count = facts->path_count;
	interface->index = candidate->identity.index;
	interface->rail = -1;
	candidate->container = facts->container_bridge || facts->tunnel || (candidate->flags & IFF_POINTOPOINT) ||
			       tcp_interface_facts_container(interface->name);
	interface->address_only = holds_address_only(candidate);
}

static bool is_linked(const struct candidate *candidate)
{
	return (candidate->flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
}

/* A port that can carry traffic for an address elsewhere. */
static bool is_port(const struct candidate *candidate)
{
	return is_linked(candidate) && !candidate->interface.address_only && !candidate->container &&
	       !candidate->facts.enslaved;
}

static enum kind kind_of(const struct candidate *candidate, bool physical_port)
{
	const struct tcp_interface_facts *facts = &candidate->facts;

	if (!is_linked(candidate) || candidate->address_rank == ADDRESS_NONE)
		return KIND_UNUSABLE;
	if (candidate->address_rank >= ADDRESS_LOOPBACK_4)
		return candidate->flags & IFF_LOOPBACK ? KIND_LOOPBACK : KIND_UNUSABLE;
	if (candidate->address_rank >= ADDRESS_LOCAL_4)
		return is_port(candidate) ? KIND_LINK_LOCAL : KIND_UNUSABLE;
	if (candidate->container)
		return KIND_CONTAINER;
	if (candidate->interface.address_only)
		return physical_port ? KIND_HOST_ADDRESS : KIND_HOST_ADDRESS_ALONE;
	if (facts->wireless || facts->usb)
		return KIND_WIRELESS;
	if (facts->physical || !facts->is_known)
		return KIND_PHYSICAL;
	return candidate->no_subnet ? KIND_VIRTUAL_ALONE : KIND_VIRTUAL;
}

static int compare(const void *a, const void *b)
{
	const struct candidate *left = a, *right = b;

	if (left->order != right->order)
		return left->order < right->order ? -1 : 1;
	if (left->interface.speed_Bps != right->interface.speed_Bps)
		return left->interface.speed_Bps > right->interface.speed_Bps ? -1 : 1;
	return strverscmp(left->interface.name, right->interface.name); /* eth2 before eth10 */
}

/* Takes out what `order` SIZE_MAX marks and sorts the rest. */
static void keep_marked(struct candidates *candidates)
{
	size_t kept = 0;

	for (size_t i = 0; i < candidates->count; i++) {
		if (candidates->at[i].order != SIZE_MAX)
			candidates->at[kept++] = candidates->at[i];
	}
	candidates->count = kept;
	if (kept)
		qsort(candidates->at, kept, sizeof(*candidates->at), compare);
}

static void choose_listed(struct tcp_interface_wish *wish, struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++) {
		struct candidate *candidate = &candidates->at[i];
		size_t item = tcp_interface_wish_match(wish, candidate->interface.name);

		candidate->order = SIZE_MAX;
		if (item == wish->item_count || !(candidate->flags & IFF_UP) || candidate->address_rank == ADDRESS_NONE)
			continue;
		candidate->order = item;
		candidate->interface.why = wish->items[item].exact ? "named in TRIBUTARY_IF or NCCL_SOCKET_IFNAME"
								   : "matches TRIBUTARY_IF or NCCL_SOCKET_IFNAME";
	}
	/* "eth,=eth0": the second is not left without a match because the first came before it. */
	for (size_t i = 0; i < wish->item_count; i++) {
		struct tcp_interface_wish one = { .item_count = 1 };

		one.items[0] = wish->items[i];
		for (size_t j = 0; j < candidates->count; j++) {
			if (candidates->at[j].order != SIZE_MAX &&
			    !tcp_interface_wish_match(&one, candidates->at[j].interface.name))
				wish->items[i].matched = true;
		}
	}
	keep_marked(candidates);
}

/* The ports that carry the traffic of an address on loopback or a dummy: together they are the device. */
static void take_ports(struct candidate *holder, const struct candidates *all)
{
	struct tcp_interface *out = &holder->interface;
	const struct candidate *first = NULL;

	for (size_t i = 0; i < all->count; i++) {
		const struct candidate *port = &all->at[i];

		/* A port that has an address of its own leads elsewhere; of the rest the fastest count. */
		if (!is_port(port) || port->address_rank < ADDRESS_LOCAL_4 || port->facts.wireless || port->facts.usb)
			continue;
		if (first && (port->facts.physical < first->facts.physical ||
			      (port->facts.physical == first->facts.physical &&
			       port->interface.speed_Bps < first->interface.speed_Bps)))
			continue;
		if (first && port->facts.physical == first->facts.physical &&
		    port->interface.speed_Bps == first->interface.speed_Bps) {
			out->speed_Bps += port->interface.speed_Bps;
			out->path_count += port->interface.path_count;
			continue;
		}
		first = port;
		memcpy(out->pci_path, port->interface.pci_path, sizeof(out->pci_path));
		out->speed_Bps = port->interface.speed_Bps;
		out->speed_assumed = port->interface.speed_assumed;
		out->path_count = port->interface.path_count;
		out->mtu_bytes = port->interface.mtu_bytes;
		out->guid = port->interface.guid;
		out->port = port->interface.port;
	}
}

static void find_ports(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++) {
		struct candidate *candidate = &candidates->at[i];

		if (candidate->interface.address_only && candidate->address_rank < ADDRESS_LOCAL_4)
			take_ports(candidate, candidates);
	}
}

static void choose_freely(const struct tcp_interface_wish *wish, struct candidates *candidates)
{
	enum kind best = KIND_UNUSABLE;
	bool physical_port = false;

	for (size_t i = 0; i < candidates->count; i++)
		physical_port |= is_port(&candidates->at[i]) && candidates->at[i].facts.physical;
	for (size_t i = 0; i < candidates->count; i++) {
		struct candidate *candidate = &candidates->at[i];
		enum kind kind = kind_of(candidate, physical_port);

		if (wish->exclude && tcp_interface_wish_match(wish, candidate->interface.name) < wish->item_count)
			kind = KIND_UNUSABLE;
		candidate->order = (size_t)kind;
		candidate->interface.why = kind_reasons[kind];
		if (kind < best)
			best = kind;
	}
	for (size_t i = 0; i < candidates->count; i++) {
		if (candidates->at[i].order != (size_t)best || best == KIND_UNUSABLE)
			candidates->at[i].order = SIZE_MAX;
	}
	keep_marked(candidates);
}

/* -------- saying what was not found -------- */

static const char *family_text(enum family_choice family)
{
	return family == FAMILY_IPV4 ? "IPv4 address" : family == FAMILY_IPV6 ? "IPv6 address" : "address";
}

/* "lo, eth0 (down), eth1 (no IPv4 address)": every interface there is, before any is taken out. */
static void describe_all(const struct candidates *candidates, enum family_choice family, char *text, size_t text_bytes)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < candidates->count && used < text_bytes; i++) {
		const struct candidate *candidate = &candidates->at[i];
		bool up = candidate->flags & IFF_UP, linked = candidate->flags & IFF_RUNNING;
		bool addressed = candidate->address_rank != ADDRESS_NONE;
		int bytes = snprintf(text + used, text_bytes - used, "%s%s%s%s%s", i ? ", " : "",
				     candidate->interface.name,
				     !up          ? " (down)"
				     : !addressed ? " (no "
						  : "",
				     up && !addressed ? family_text(family) : "",
				     !up          ? ""
				     : !addressed ? ")"
				     : !linked    ? " (no link)"
						  : "");

		if (bytes < 0)
			return;
		used += (size_t)bytes;
	}
	if (!candidates->count)
		snprintf(text, text_bytes, "none at all");
}

static void report(const struct tcp_interface_wish *wish, const struct candidates *chosen, const char *all,
		   enum family_choice family, struct diag *diag)
{
	if (!wish->item_count || wish->exclude) {
		if (!chosen->count)
			diag_set(diag, 0, 0, "no interface is up with an %s%s%s; there are: %s", family_text(family),
				 wish->exclude ? " and allowed by " : "", wish->exclude ? wish->text : "", all);
		return;
	}
	for (size_t i = 0; i < wish->item_count; i++) {
		if (wish->items[i].matched)
			continue;
		diag_set(diag, 0, (int)(wish->items[i].text - wish->text) + 1,
			 "no usable interface matches \"%.*s\" of TRIBUTARY_IF or NCCL_SOCKET_IFNAME; there are: %s",
			 (int)wish->items[i].bytes, wish->items[i].text, all);
		return;
	}
}

/* -------- the whole -------- */

static int choose(const struct params *params, const struct tcp_interface_source *source, int socket_fd,
		  struct tcp_interface *ret, size_t max, size_t *ret_count, struct diag *diag)
{
	struct candidates candidates;
	struct tcp_interface_wish wish;
	char all[160];
	int r;

	diag_set(diag, 0, 0, "%s", "");
	r = collect(source->addresses, params->family, &candidates);
	if (r < 0)
		return r;
	describe_all(&candidates, params->family, all, sizeof(all));
	tcp_interface_wish_parse(params->interfaces, &wish);
	for (size_t i = 0; i < candidates.count; i++)
		learn(&candidates.at[i], source->sysfs_fd, socket_fd);
	find_ports(&candidates);
	if (wish.item_count && !wish.exclude)
		choose_listed(&wish, &candidates);
	else
		choose_freely(&wish, &candidates);
	report(&wish, &candidates, all, params->family, diag);
	if (wish.item_count && !wish.exclude && !candidates.count)
		r = -ENODEV;
	if (candidates.count > max)
		candidates.count = max;
	for (size_t i = 0; i < candidates.count; i++) {
		ret[i] = candidates.at[i].interface;
		ret[i].rail = candidates.count > 1 ? (int)i : -1;
	}
	if (!r)
		*ret_count = candidates.count;
	sys_free(candidates.at);
	return r;
}

int tcp_interfaces_choose(const struct params *params, const struct tcp_interface_source *source,
			  struct tcp_interface *ret, size_t max, size_t *ret_count, struct diag *diag)
{
	int saved_errno = errno, r = choose(params, source, -1, ret, max, ret_count, diag);

	errno = saved_errno;
	return r;
}

int tcp_interfaces_find(const struct params *params, struct tcp_interface *ret, size_t max, size_t *ret_count,
			struct diag *diag)
{
	int saved_errno = errno, socket_fd, sysfs_fd, r;
	struct ifaddrs *addresses;

	diag_set(diag, 0, 0, "%s", "");
	if (getifaddrs(&addresses) < 0) {
		r = -errno;
		diag_set(diag, 0, 0, "the interfaces of this host cannot be listed: %s", strerror(-r));
		errno = saved_errno;
		return r;
	}
	/* Both may be missing in a tight container: then fewer facts are known, which is no error. */
	sysfs_fd = open("/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	socket_fd = sys_socket(AF_INET, SOCK_DGRAM, 0);
	if (socket_fd < 0)
		socket_fd = sys_socket(AF_INET6, SOCK_DGRAM, 0);
	r = choose(params, &(struct tcp_interface_source){ sysfs_fd, addresses }, socket_fd, ret, max, ret_count, diag);
	sys_close(&socket_fd);
	sys_close(&sysfs_fd);
	freeifaddrs(addresses);
	errno = saved_errno;
	return r;
}
