/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built plugin, through one version's table, in the shape of a transport: so that one suite drives both. The
 * library is the one that TRIBUTARY_PLUGIN names.
 *
 * The ops' open makes a communicator of its own (a context); several may be open. One library and version at a time in
 * a process. ncclResult_t becomes an errno: remote error -EREMOTEIO, invalid argument and usage -EINVAL, system error
 * -EIO, anything else -ENOTRECOVERABLE.
 */
#ifndef TESTS_CONFORMANCE_PLUGIN_OPS_H
#define TESTS_CONFORMANCE_PLUGIN_OPS_H

#include "common/netplugin.h"
#include "transport/transport.h"

extern const struct transport_ops plugin_ops;

/* Before plugin_ops.open: which table. 0: the newest. */
void plugin_ops_choose(int version);
/* Whether the library has that table. */
bool plugin_ops_has(int version);
const char *plugin_ops_path(void);

/* What is below a transport or connection that plugin_ops gave. */
struct netplugin *plugin_ops_plugin(struct transport *transport);
void *plugin_ops_comm(struct transport_connection *connection);

/* Warnings and lines that the plugin logged since the last call, in all threads. The first ones of the process are on stderr. */
struct plugin_ops_log {
	unsigned warnings, lines;
	char last_warning[512];
};
void plugin_ops_log_take(struct plugin_ops_log *ret);

#endif
