/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/steer/nets.h"

#include "base/parse.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool qualifies(const struct ifaddrs *at, int family)
{
	const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
	int own = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;

	if ((own != AF_INET && own != AF_INET6) || !(at->ifa_flags & IFF_RUNNING))
		return false;
	return (family == AF_UNSPEC || own == family) && (own == AF_INET || !IN6_IS_ADDR_LOOPBACK(&six->sin6_addr));
}

/* nccl: misc/socket.cc, findInterfaces. At most PLAN_NICS_MAX, which is NCCL's bound, too. */
static size_t find(const struct ifaddrs *at, int family, const char *pattern, char (*ret)[IFNAMSIZ])
{
	size_t count = 0, k;

	for (; at && count < PLAN_NICS_MAX; at = at->ifa_next) {
		if (!qualifies(at, family) || !parse_list_wants(pattern, at->ifa_name, 0))
			continue;
		for (k = 0; k < count && strcmp(ret[k], at->ifa_name) != 0; k++)
			;
		if (k == count)
			snprintf(ret[count++], IFNAMSIZ, "%.*s", IFNAMSIZ - 1, at->ifa_name);
	}
	return count;
}

/* nccl: misc/socket.cc, ncclFindInterfaces */
const char *steer_nets_sockets(const struct ifaddrs *list, const struct params_source *source, char (*ret)[IFNAMSIZ],
			       size_t *ret_count)
{
	static const char *const patterns[] = { "ib", "^docker,lo,virbr", "docker", "lo", "virbr" };
	const char *names = source->get("NCCL_SOCKET_IFNAME"), *of = source->get("NCCL_SOCKET_FAMILY");
	const char *id = source->get("NCCL_COMM_ID");
	int family = AF_UNSPEC;

	*ret_count = 0;
	if (of && !strcmp(of, "AF_INET"))
		family = AF_INET;
	else if (of && !strcmp(of, "AF_INET6"))
		family = AF_INET6;
	if (names && strlen(names) > 1) {
		*ret_count = find(list, family, names, ret);
	} else {
		for (size_t i = 0; !*ret_count && i < sizeof(patterns) / sizeof(patterns[0]); i++) {
			if (i == 1 && id && strlen(id) > 1)
				return "which interface NCCL takes by NCCL_COMM_ID is not known";
			*ret_count = find(list, family, patterns[i], ret);
		}
	}
	return *ret_count ? NULL : "NCCL finds no interface";
}
