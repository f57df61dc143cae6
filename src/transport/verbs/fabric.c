/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/fabric.h"

#include "base/parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "NCCL_IB_";

/* As NCCL reads a number: letters are 0, and what is too large is as if it were not there. */
static int number(const char *name, int most, int otherwise)
{
	const char *text = getenv(name);
	const int saved_errno = errno;
	long long value;

	if (!text || !text[0])
		return otherwise;
	errno = 0;
	value = strtoll(text, NULL, 0);
	if (errno || value < 0 || value > most)
		value = otherwise;
	errno = saved_errno;
	return (int)value;
}

/* ADDRESS/BITS of the wished family. */
static void load_range(struct verbs_address_wish *wish)
{
	static const uint8_t mapped[] = { [10] = 0xff, [11] = 0xff };
	const char *text = getenv("NCCL_IB_ADDR_RANGE"), *slash = text ? strchr(text, '/') : NULL;
	const unsigned before = wish->ipv6 ? 0 : 8 * sizeof(mapped);
	char address[INET6_ADDRSTRLEN];
	uint64_t bits;

	if (!slash || parse_u64(slash + 1, 0, 128 - before, &bits) < 0)
		return;
	snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
	memcpy(wish->range, mapped, wish->ipv6 ? 0 : sizeof(mapped));
	if (inet_pton(wish->ipv6 ? AF_INET6 : AF_INET, address, wish->range + before / 8) == 1)
		wish->range_bits = before + (unsigned)bits;
}

void verbs_fabric_load(struct verbs_fabric *ret)
{
	const char *family = getenv("NCCL_IB_ADDR_FAMILY");

	*ret = (struct verbs_fabric){
		.wish = { .ipv6 = family && strcmp(family, "AF_INET6") == 0,
			  .version = (unsigned)number("NCCL_IB_ROCE_VERSION_NUM", 2, 2) },
		.pkey_index = number("NCCL_IB_PKEY", UINT16_MAX, 0),
		.receivers_class = number("NCCL_IB_FIFO_TC", UINT8_MAX, VERBS_FABRIC_UNSET),
		.flid_gid_index = number("NCCL_IB_ROUTABLE_FLID_GID_INDEX", UINT8_MAX, 1),
		.timeout = number("NCCL_IB_TIMEOUT", 31, VERBS_FABRIC_UNSET),
		.retry_count = number("NCCL_IB_RETRY_CNT", 7, VERBS_FABRIC_UNSET),
		.relaxed = number("NCCL_IB_PCI_RELAXED_ORDERING", 2, 2) != 0,
		.adaptive = number("NCCL_IB_ADAPTIVE_ROUTING", INT_MAX, VERBS_FABRIC_UNSET),
		.adaptive_above = (uint32_t)number("NCCL_IB_AR_THRESHOLD", INT_MAX, 8192),
		.ece = number("NCCL_IB_ECE_ENABLE", INT_MAX, 1) != 0,
	};
	load_range(&ret->wish);
}

/* By this file, by base/params.c and by plugin/choose.c. */
static const char *const known[] = { "DISABLE",
				     "HCA",
				     "GID_INDEX",
				     "TC",
				     "SL",
				     "PKEY",
				     "FIFO_TC",
				     "ADDR_FAMILY",
				     "ADDR_RANGE",
				     "ROCE_VERSION_NUM",
				     "TIMEOUT",
				     "RETRY_CNT",
				     "QPS_PER_CONNECTION",
				     "ROUTABLE_FLID_GID_INDEX",
				     "PCI_RELAXED_ORDERING",
				     "ADAPTIVE_ROUTING",
				     "AR_THRESHOLD",
				     "ECE_ENABLE" };

static bool is_known(const char *variable)
{
	const char *name = variable + sizeof(prefix) - 1;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strncmp(name, known[i], strlen(known[i])) == 0 && name[strlen(known[i])] == '=')
			return true;
	return false;
}

const char *verbs_fabric_unread(char *text, size_t bytes)
{
	size_t length = 0;

	text[0] = '\0';
	for (char *const *variable = environ; *variable; variable++) {
		if (strncmp(*variable, prefix, sizeof(prefix) - 1) != 0 || is_known(*variable) || length >= bytes)
			continue;
		length += (size_t)snprintf(text + length, bytes - length, "%s%.*s", length ? ", " : "",
					   (int)strcspn(*variable, "="), *variable);
	}
	return text;
}
