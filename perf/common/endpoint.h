/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank's use of a plugin: a context on one device, and the connections to other ranks that a benchmark needs.
 * Set-up and tear-down only; data goes through netplugin.h directly.
 *
 * One thread. Errors are said on stderr once, with the plugin's name and the call, and given as -EIO (the plugin),
 * -ETIMEDOUT or the oob's.
 */
#ifndef TRIBUTARY_PERF_ENDPOINT_H
#define TRIBUTARY_PERF_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "netplugin.h"

struct oob;

enum { ENDPOINT_MAX_LINKS = 16 }; /* incoming connections of one rank in one endpoint_link() */

struct endpoint_options {
	const char *plugin;
	int version; /* 0: the newest */
	int device;
	const char *devices; /* "0,1": a virtual device of these, which is then used; NULL: none */
	double timeout_s;
};

struct endpoint {
	struct netplugin *plugin;
	struct netplugin_context *context;
	struct netplugin_properties properties;
	int device;
	double timeout_s;
	int connections; /* how many are open, in all links */
};

int endpoint_open(const struct endpoint_options *options, uint64_t comm_id, struct endpoint *ret_endpoint);
void endpoint_close(struct endpoint *endpoint); /* connections closed before; half-built is fine */

/*
 * Makes a set of one-way connections. Every rank of the oob calls it; to[] are the ranks it sends to, from[] those it
 * receives from, and the two lists of all ranks must agree (the n-th `to` b at a is the n-th `from` a at b).
 */
int endpoint_link(struct endpoint *endpoint, struct oob *oob, int to_count, const int *to, int from_count,
		  const int *from, void **ret_send_comms, void **ret_receive_comms);

/* Says which call failed; returns -EIO. */
int endpoint_failed(const struct endpoint *endpoint, const char *call, int result);

#endif
