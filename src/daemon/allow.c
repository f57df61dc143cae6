/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/allow.h"

#include "base/log.h"
#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { ITEM_BYTES = 64, V4_BITS = 96 };

static const uint8_t v4_prefix[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

/* What never leaves a site: RFC 1918, loopback, link-local, unique local. */
static const char private_networks[] = "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,127.0.0.0/8,169.254.0.0/16,::1/128,"
				       "fe80::/10,fc00::/7";

static bool text_to_bytes(const char *text, uint8_t ret[static 16], unsigned *ret_bits)
{
	if (inet_pton(AF_INET, text, ret + sizeof(v4_prefix)) == 1) {
		memcpy(ret, v4_prefix, sizeof(v4_prefix));
		*ret_bits = 32;
		return true;
	}
	*ret_bits = 128;
	return inet_pton(AF_INET6, text, ret) == 1;
}

/* No bit may be set behind the prefix: 10.1.0.0/8 is most likely a slip. */
static bool only_prefix(const struct daemon_network *network)
{
	for (unsigned bit = network->prefix_bits; bit < 128; bit++)
		if (network->address[bit / 8] & 0x80 >> bit % 8)
			return false;
	return true;
}

static int add_network(const char *item, struct daemon_allow *allow, struct diag *diag)
{
	struct daemon_network network;
	char text[ITEM_BYTES];
	uint64_t prefix = 0;
	unsigned bits;
	char *slash;

	if (allow->count == DAEMON_ALLOW_MAX) {
		diag_set(diag, 0, 0, "more than %d networks", DAEMON_ALLOW_MAX);
		return -EINVAL;
	}
	snprintf(text, sizeof(text), "%s", item);
	slash = strchr(text, '/');
	if (slash)
		*slash++ = '\0';
	if (!text_to_bytes(text, network.address, &bits) || (slash && parse_u64(slash, 0, bits, &prefix) < 0)) {
		diag_set(diag, 0, 0,
			 "\"%s\" is no network: expected an address and a prefix, as 10.0.0.0/8 or fd00::/8", item);
		return -EINVAL;
	}
	network.prefix_bits = (slash ? (unsigned)prefix : bits) + 128 - bits;
	if (!only_prefix(&network)) {
		diag_set(diag, 0, 0, "\"%s\" has bits behind its prefix of %u", item, (unsigned)prefix);
		return -EINVAL;
	}
	allow->networks[allow->count++] = network;
	return 0;
}

static int add_list(const char *text, struct daemon_allow *allow, struct diag *diag)
{
	const char *item;
	size_t bytes;
	int r = 0;

	while (!r && parse_list_next(&text, ',', &item, &bytes)) {
		char copy[ITEM_BYTES];

		if (bytes >= sizeof(copy)) {
			diag_set(diag, 0, 0, "\"%.*s\" is no network", ITEM_BYTES, item);
			return -EINVAL;
		}
		memcpy(copy, item, bytes);
		copy[bytes] = '\0';
		if (!strcmp(copy, "any")) {
			r = add_network("0.0.0.0/0", allow, diag);
			if (!r)
				r = add_network("::/0", allow, diag);
		} else if (!strcmp(copy, "private")) {
			r = add_list(private_networks, allow, diag);
		} else {
			r = add_network(copy, allow, diag);
		}
	}
	return r;
}

int daemon_allow_parse(const char *text, struct daemon_allow *ret, struct diag *diag)
{
	struct daemon_allow allow = { .count = 0 };
	int r = add_list(text, &allow, diag);

	if (!r && !allow.count) {
		diag_set(diag, 0, 0, "no network is named, so nobody could connect");
		r = -EINVAL;
	}
	if (!r)
		*ret = allow;
	return r;
}

void daemon_address_bytes(const struct sockaddr_storage *address, uint8_t ret[static 16])
{
	memset(ret, 0, 16);
	if (address->ss_family == AF_INET6) {
		memcpy(ret, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	} else if (address->ss_family == AF_INET) {
		memcpy(ret, v4_prefix, sizeof(v4_prefix));
		memcpy(ret + sizeof(v4_prefix), &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
}

static bool in_network(const struct daemon_network *network, const uint8_t address[static 16])
{
	unsigned bytes = network->prefix_bits / 8, bits = network->prefix_bits % 8;

	if (memcmp(network->address, address, bytes) != 0)
		return false;
	return !bits || !((network->address[bytes] ^ address[bytes]) >> (8 - bits));
}

bool daemon_allow_has(const struct daemon_allow *allow, const struct sockaddr_storage *address)
{
	uint8_t bytes[16];

	if (address->ss_family != AF_INET && address->ss_family != AF_INET6)
		return false;
	daemon_address_bytes(address, bytes);
	for (size_t i = 0; i < allow->count; i++)
		if (in_network(&allow->networks[i], bytes))
			return true;
	return false;
}

int daemon_address_parse(const char *text, struct sockaddr_storage *ret, socklen_t *ret_bytes, struct diag *diag)
{
	const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in in = { .sin_family = AF_INET };
	char host[ITEM_BYTES];
	uint64_t port = 0;
	bool brackets = text[0] == '[' && colon && colon > text + 1 && colon[-1] == ']';

	memset(ret, 0, sizeof(*ret));
	if (brackets) {
		begin++;
		end--;
	}
	if (!colon || (size_t)(end - begin) >= sizeof(host) || parse_u64(colon + 1, 0, 65535, &port) < 0)
		goto wrong;
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	in.sin_port = htons((uint16_t)port);
	in6.sin6_port = htons((uint16_t)port);
	if (brackets && inet_pton(AF_INET6, host, &in6.sin6_addr) == 1) {
		memcpy(ret, &in6, sizeof(in6));
		*ret_bytes = sizeof(in6);
		return 0;
	}
	if (!brackets && inet_pton(AF_INET, host, &in.sin_addr) == 1) {
		memcpy(ret, &in, sizeof(in));
		*ret_bytes = sizeof(in);
		return 0;
	}
wrong:
	diag_set(diag, 0, 0, "\"%.80s\" is no address and port, as 10.0.0.9:7471 or [fd00::9]:7471", text);
	return -EINVAL;
}

bool daemon_address_is_loopback(const struct sockaddr_storage *address)
{
	struct daemon_allow loopback;
	struct diag diag;

	return !daemon_allow_parse("127.0.0.0/8,::1/128", &loopback, &diag) && daemon_allow_has(&loopback, address);
}

const char *daemon_address_text(const struct sockaddr_storage *address, char text[static DAEMON_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(text, DAEMON_ADDRESS_TEXT, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else {
		const struct sockaddr_in *in = (const struct sockaddr_in *)address;

		if (address->ss_family == AF_INET)
			inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, DAEMON_ADDRESS_TEXT, "%s:%u", host, ntohs(in->sin_port));
	}
	return text;
}
