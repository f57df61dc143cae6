/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of this process, as a file in the folder that TRIBUTARY_METRICS names; nothing without it. A thread of its own
 * reads counters and writes the file every PLUGIN_METRICS_PERIOD_MS, for as long as the transport is open, and once more when
 * it is closed: a folder may hang, and neither heartbeats nor lines of the log shall wait for it. The file goes with the
 * process; those of processes that were killed are removed by the living.
 *
 * A rank answers no HTTP: its port would have to be found anew for each process and job, and would be one more way in.
 *
 * Threads: open and close under the lock of state.c; the rest any.
 */
#ifndef TRIBUTARY_PLUGIN_METRICS_H
#define TRIBUTARY_PLUGIN_METRICS_H

#include "base/metrics.h"

#include <stdbool.h>

struct aggregate_totals;
struct params;
struct transport;
struct transport_ops;

enum { PLUGIN_METRICS_PERIOD_MS = 5000, PLUGIN_METRICS_STALE_S = 60 };
#define PLUGIN_METRICS_PREFIX "tributary-process-"

void plugin_metrics_open(const struct params *params, const struct transport_ops *ops, struct transport *transport);
/* Before the transport is closed. Waits a second at most for the file. */
void plugin_metrics_close(void);

/* For the aggregation engine to count in. */
/* All that the file has. */
extern const struct metrics_table plugin_metrics_tables[];

struct aggregate_totals *plugin_metrics_aggregation(void);
/* A communicator has planned channels, or has not. On the rank that counts it for all of its host. */
void plugin_metrics_communicator(bool planned);
/* Among the processes of the job on this host; negative: not known. */
void plugin_metrics_rank(int local_rank);

#endif
