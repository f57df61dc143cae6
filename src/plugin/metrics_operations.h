/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the profiler half counts (profile/operations.h), as metrics. Communicators and channels are added up, and sizes are
 * in steps of 16, so that the series of each metric are bounded (PLUGIN_METRICS_OPERATIONS_SERIES); NCCL has not each
 * algorithm for each collective, and a job not each size. The counters are only read, without a lock. Pure; any thread.
 */
#ifndef TRIBUTARY_PLUGIN_METRICS_OPERATIONS_H
#define TRIBUTARY_PLUGIN_METRICS_OPERATIONS_H

#include "base/metrics.h"
#include "profile/operations.h"
#include "tributary/predict.h"

enum {
	PLUGIN_METRICS_OPERATIONS_SIZES = 7,
	PLUGIN_METRICS_OPERATIONS_SERIES = OPERATIONS_KINDS * (PREDICT_ALGORITHM_COUNT + 1) *
					   (PREDICT_PROTOCOL_COUNT + 1) * PLUGIN_METRICS_OPERATIONS_SIZES,
};

/* For the man page, as parts of plugin_metrics_tables: with the labels of an operation, and of a process alone. */
#define PLUGIN_METRICS_OPERATION_LABELS \
	"process, collective, algorithm, protocol, up_to (4K, 64K, 1M, 16M, 256M, 4G, +Inf: bytes)"
extern const struct metrics_row plugin_metrics_operations_counts[], plugin_metrics_operations_times[],
	plugin_metrics_operations_rest[];

/* The labels collective, algorithm, protocol: "" where NCCL did not say. */
void plugin_metrics_label_operation(char labels[static METRICS_LABELS_BYTES], int collective, int algorithm,
				    int protocol);
/* process: the value of that label. Series for times are there from the start where any are taken, so that rates see them grow. */
void plugin_metrics_operations_print(const struct operations *operations, const char *process, struct text *out);

#endif
