/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of a transport's devices, for the plugin and for tributaryd. Any thread. */
#ifndef TRIBUTARY_TRANSPORT_METRICS_H
#define TRIBUTARY_TRANSPORT_METRICS_H

#include "base/metrics.h"
#include "transport/transport.h"

/* Of struct transport_counters. */
extern const struct metrics_row transport_metrics[];

void transport_totals_add(struct transport_totals *to, const struct transport_totals *from);
void transport_totals_subtract(struct transport_totals *from, const struct transport_totals *part);

#endif
