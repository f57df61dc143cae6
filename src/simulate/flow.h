/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flows over links, at max-min fair rates. A network has directed links with capacities; a flow moves bytes over several
 * of them, from when all flows that it waits for have ended. Whenever a flow starts or ends, only the flows whose
 * bottleneck that changes get new rates. Pure and deterministic: the same calls give the same figures to the last bit.
 *
 * Fair: a flow has a rate x and puts weight × x on each of its links (weight: how many times it crosses it, or the part
 * of it that does). No rate can rise without that of another falling that is not higher; every flow has a link that is
 * full on which no flow has a higher rate.
 *
 * A pipeline (a ring whose hosts pass on what they get) is one flow with all the links of its edges: its edges go at one
 * rate, that of the slowest.
 *
 * Times are seconds from the start. One thread at a time for each network. Errors: 0 or -errno.
 */
#ifndef TRIBUTARY_SIMULATE_FLOW_H
#define TRIBUTARY_SIMULATE_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct flow_network;

/* capacity_Bps: INFINITY bounds nothing, 0 lets nothing through. Copied. -EINVAL: negative or NaN; -ENOMEM. */
int flow_network_new(const double *capacity_Bps, size_t link_count, struct flow_network **ret);
void flow_network_free(struct flow_network *network); /* NULL is fine */

/* Bytes that a flow of weight 1 puts on a link. A link may be named several times: weights add up. */
struct flow_crossing {
	uint32_t link;
	float weight; /* above 0 */
};
/* Starts start_s after time 0 or, where it waits for others, after the last of these. *ret: from 0. -EINVAL, -ENOMEM. */
int flow_add(struct flow_network *network, const struct flow_crossing *way, size_t way_count, double bytes,
	     double start_s, uint32_t *ret);
/* Flows that are added from now on bear this mark, which means nothing here; before the first call: 0. */
void flow_mark(struct flow_network *network, uint8_t mark);
/* flow may start lag_s after the end of another. Before flow_run. */
int flow_after(struct flow_network *network, uint32_t flow, uint32_t before, double lag_s);
/* What a link carries is kept for flow_watched. Before flow_run. */
int flow_watch(struct flow_network *network, uint32_t link);

/*
 * What starts or ends within this part of the time that has passed does so at once, instead of what is equal but for
 * rounding: fewer events, times are too early by as much. 0 to 0.1. Before flow_run.
 */
int flow_coarsen(struct flow_network *network, double part);

/* Once. -EDEADLK: flows are left that never end, as they wait for each other or have a link of no capacity; -ENOMEM. */
int flow_run(struct flow_network *network);

/* ------------------------------------------------------------------------------------------------------------ results */

struct flow_result {
	double start_s, end_s; /* INFINITY: never */
};
struct flow_result flow_result(const struct flow_network *network, uint32_t flow);
size_t flow_count(const struct flow_network *network);
uint8_t flow_marked(const struct flow_network *network, uint32_t flow);
double flow_bytes(const struct flow_network *network, uint32_t flow);
/* The nth link of its way, in no order, and the nth flow that waits for it. False: there are not so many. */
bool flow_crosses(const struct flow_network *network, uint32_t flow, size_t nth, struct flow_crossing *ret);
bool flow_is_awaited(const struct flow_network *network, uint32_t flow, size_t nth, uint32_t *ret, double *ret_lag_s);
double flow_end_s(const struct flow_network *network); /* of the last flow */

struct flow_link {
	double bytes;  /* of the flows that ended */
	double busy_s; /* with at least one flow on it */
	double capacity_Bps;
};
struct flow_link flow_link(const struct flow_network *network, uint32_t link);

/* From then on the link carries so much. Belongs to the network. */
struct flow_point {
	double time_s, rate_Bps;
};
const struct flow_point *flow_watched(const struct flow_network *network, uint32_t link, size_t *ret_count);

/* How much work it was: events (times at which something started or ended), and rates worked out. */
struct flow_work {
	uint64_t events, rates;
};
struct flow_work flow_work(const struct flow_network *network);
/* The rate that a flow has now; for tests, from within flow_step. */
double flow_rate_Bps(const struct flow_network *network, uint32_t flow);
/* One event of flow_run: 1 there are more, 0 none. -errno as flow_run. */
int flow_step(struct flow_network *network);

#endif
