/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/tcp/confined.h"

#include "base/log.h"
#include "base/params.h"
#include "transport/tcp/interface.h"

#include <stdio.h>
#include <string.h>

const struct tcp_interface *tcp_confined_faster(const struct tcp_interface *at, size_t count,
						const struct tcp_interface *all, size_t all_count)
{
	uint64_t most_Bps = 0;

	for (size_t i = 0; i < count; i++) {
		if (at[i].speed_assumed)
			return NULL;
		most_Bps = at[i].speed_Bps > most_Bps ? at[i].speed_Bps : most_Bps;
	}
	for (size_t i = 0; i < all_count; i++)
		if (!all[i].speed_assumed && all[i].speed_Bps > most_Bps)
			return &all[i];
	return NULL;
}

static bool is_nccls(const struct params *params)
{
	return strcmp(params_origin_of(params, "TRIBUTARY_IF"), "TRIBUTARY_IF") != 0;
}

bool tcp_confined(const struct params *params, const struct tcp_interface *at, size_t count,
		  char ret[static TCP_CONFINED_BYTES])
{
	struct tcp_interface all[TCP_INTERFACE_MAX];
	const struct tcp_interface *faster = NULL;
	struct params free = *params;
	size_t all_count = 0;
	struct diag diag;

	if (!count || !is_nccls(params))
		return false;
	free.interfaces[0] = '\0';
	if (tcp_interfaces_find(&free, all, TCP_INTERFACE_MAX, &all_count, &diag) == 0)
		faster = tcp_confined_faster(at, count, all, all_count);
	if (faster)
		snprintf(
			ret, TCP_CONFINED_BYTES,
			"NCCL_SOCKET_IFNAME=%.200s keeps Tributary from %s of %.3g Gbit/s, which is up and faster than %s",
			params->interfaces, faster->name, 8e-9 * (double)faster->speed_Bps, at[0].name);
	return faster != NULL;
}
