/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of this process, as a file in the folder that TRIBUTARY_METRICS names; nothing without it. A thread of its own
 * reads counters and writes the file every PLUGIN_METRICS_PERIOD_MS, for as long as the transport is open or operations are
 * counted, and once more when that ends: a folder may hang, and neither heartbeats nor lines of the log shall wait for it, nor
 * NCCL's operations, whose counters it reads where they are. The file goes with the process; those of processes that were
 * killed are removed by the living.
 *
 * A rank answers no HTTP: its port would have to be found anew for each process and job, and would be one more way in.
 *
 * Threads: open and close under the lock of state.c, count and count_end under that of profiler.c; the rest any.
 */
#ifndef TRIBUTARY_PLUGIN_METRICS_H
#define TRIBUTARY_PLUGIN_METRICS_H

#include "base/metrics.h"

#include <stdbool.h>

struct aggregate_totals;
struct operations;
struct params;
struct transport;
struct transport_ops;

enum { PLUGIN_METRICS_PERIOD_MS = 5000, PLUGIN_METRICS_STALE_S = 60 };
#define PLUGIN_METRICS_PREFIX "tributary-process-"

void plugin_metrics_open(const struct params *params, const struct transport_ops *ops, struct transport *transport);
/* Before the transport is closed. Waits a second at most for the file. */
void plugin_metrics_close(void);
/* The operations are counted there, which stays until the process ends; more may come until count_end. */
void plugin_metrics_count(const struct params *params, const struct operations *operations);
void plugin_metrics_count_end(void);

/* All that the file has. */
extern const struct metrics_table plugin_metrics_tables[];

/* For the aggregation engine to count in. */
struct aggregate_totals *plugin_metrics_aggregation(void);
/* A communicator has planned channels, or has not. On the rank that counts it for all of its host. */
void plugin_metrics_communicator(bool planned);
/* Among the processes of the job on this host; negative: not known. */
void plugin_metrics_rank(int local_rank);

#endif
