/* SPDX-License-Identifier: Apache-2.0 */
/* What --rate says of the links that a cluster's file says no rate of, and which are left without one. */
#ifndef TRIBUTARY_COMMAND_CLUSTER_RATES_H
#define TRIBUTARY_COMMAND_CLUSTER_RATES_H

#include <stddef.h>

struct cluster;
struct command_call;

struct cluster_rates {
	size_t hosts, unknown_hosts, uplinks, unknown_uplinks;
};

/* By --rate of the call, [RATIO:1,]RATE, into the cluster. An exit status; what is wrong is said on stderr. */
int cluster_rates_fill(const struct command_call *call, struct cluster *cluster, struct cluster_rates *ret);
/* Says on stderr which rates are missing, and what follows: an uplink without a rate `means`. */
void cluster_rates_note(const struct cluster_rates *rates, const char *path, const char *means);

#define COMMAND_OPTION_RATE                                                                                           \
	{                                                                                                             \
		"rate", "[RATIO:1,]RATE",                                                                             \
			"of each host's NIC that the cluster's file has no rate of, as 100Gbit/s; RATIO, as 4:1, is " \
			"that of the hosts' rate to the uplink's, for uplinks without a rate",                        \
			NULL                                                                                          \
	}

#endif
