/* SPDX-License-Identifier: Apache-2.0 */
#include "command/cluster_rates.h"

#include "base/parse.h"
#include "command/command.h"
#include "tributary/cluster.h"

#include <stdlib.h>
#include <string.h>

enum { RATIO_MAX = 10000 };

struct given {
	uint64_t rate_Bps, ratio; /* ratio 0: not given */
};

/* "100Gbit/s", "4:1,100Gbit/s" */
static int read_given(const struct command_call *call, const char *text, struct given *ret)
{
	const char *comma = strchr(text, ','), *rate = comma ? comma + 1 : text;
	char ratio[16];

	*ret = (struct given){ .ratio = 0 };
	if (comma && comma - text < (ptrdiff_t)sizeof(ratio)) {
		size_t bytes = (size_t)(comma - text);

		memcpy(ratio, text, bytes);
		ratio[bytes] = '\0';
		if (bytes > 2 && !strcmp(ratio + bytes - 2, ":1")) {
			ratio[bytes - 2] = '\0';
			(void)parse_u64(ratio, 1, RATIO_MAX, &ret->ratio);
		}
	}
	if ((comma && !ret->ratio) || parse_rate(rate, 1, UINT64_C(1000000000000000), &ret->rate_Bps) < 0)
		return command_wrong_value(call, "rate", "a rate with its unit, as 100Gbit/s or 4:1,100Gbit/s");
	return COMMAND_OK;
}

/* Of all hosts below each switch: [switch_count], freed by the caller; NULL: no memory. */
static uint64_t *sum_hosts(const struct cluster *cluster)
{
	uint64_t *below_Bps = calloc(cluster->switch_count + 1, sizeof(*below_Bps));

	for (size_t i = 0; below_Bps && i < cluster->host_count; i++)
		for (int at = cluster->hosts[i].leaf; at != CLUSTER_NONE; at = cluster->switches[at].parent)
			below_Bps[at] += cluster->hosts[i].rate_Bps;
	return below_Bps;
}

static int fill_uplinks(struct cluster *cluster, uint64_t ratio)
{
	uint64_t *below_Bps = sum_hosts(cluster);

	if (!below_Bps)
		return command_failed(NULL, 0, "there is no memory for the cluster's rates");
	for (size_t i = 0; i < cluster->switch_count; i++) {
		struct cluster_switch *at = &cluster->switches[i];

		if (at->parent == CLUSTER_NONE)
			continue; /* its link leads nowhere */
		if (!at->up_rate_Bps)
			at->up_rate_Bps = below_Bps[i] / ratio;
		if (!at->down_rate_Bps)
			at->down_rate_Bps = below_Bps[i] / ratio;
	}
	free(below_Bps);
	return COMMAND_OK;
}

static void count(const struct cluster *cluster, struct cluster_rates *ret)
{
	*ret = (struct cluster_rates){ .hosts = cluster->host_count };
	for (size_t i = 0; i < cluster->host_count; i++)
		ret->unknown_hosts += !cluster->hosts[i].rate_Bps;
	for (size_t i = 0; i < cluster->switch_count; i++) {
		const struct cluster_switch *at = &cluster->switches[i];

		if (at->parent == CLUSTER_NONE)
			continue;
		ret->uplinks++;
		ret->unknown_uplinks += !at->up_rate_Bps || !at->down_rate_Bps;
	}
}

int cluster_rates_fill(const struct command_call *call, struct cluster *cluster, struct cluster_rates *ret)
{
	const char *text = command_value(call, "rate");
	struct given given;
	int status = text ? read_given(call, text, &given) : COMMAND_OK;

	if (text && status == COMMAND_OK) {
		for (size_t i = 0; i < cluster->host_count; i++)
			if (!cluster->hosts[i].rate_Bps)
				cluster->hosts[i].rate_Bps = given.rate_Bps;
		if (given.ratio)
			status = fill_uplinks(cluster, given.ratio);
	}
	count(cluster, ret);
	return status;
}

void cluster_rates_note(const struct cluster_rates *rates, const char *path, const char *means)
{
	if (rates->unknown_hosts)
		command_say("\"%s\" has no rate for %zu of its %zu hosts: each counts like the others (--rate "
			    "RATE says otherwise)",
			    path, rates->unknown_hosts, rates->hosts);
	if (rates->unknown_uplinks)
		command_say("\"%s\" has no rate for %zu of its %zu uplinks: one without %s (--rate RATIO:1,RATE "
			    "gives them one)",
			    path, rates->unknown_uplinks, rates->uplinks, means);
}
