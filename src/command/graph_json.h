/* SPDX-License-Identifier: Apache-2.0 */
/* `tributary export --graph-json`: machine, cluster, channels and flows as one typed graph; docs/format/graph.schema.json. */
#ifndef TRIBUTARY_COMMAND_GRAPH_JSON_H
#define TRIBUTARY_COMMAND_GRAPH_JSON_H

#include <stdio.h>

struct command_call;

/* By the call's from and profile, cluster or fabric, algo, order and size. An exit status. */
int graph_json_write(const struct command_call *call, FILE *out);

#endif
