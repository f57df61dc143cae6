/* SPDX-License-Identifier: Apache-2.0 */
/* A rate as PCIe width × speed, the only way to tell NCCL. Pure. */
#ifndef TRIBUTARY_NCCLXML_LINK_VALUE_H
#define TRIBUTARY_NCCLXML_LINK_VALUE_H

#include <stdbool.h>
#include <stdint.h>

/* In remarks: the switch below which GPUs are brought together, which the machine does not have. */
#define NCCLXML_GPUS "gpus"

struct topology;
struct topology_link;

struct ncclxml_link_value {
	unsigned generation; /* for ncclmodel_speed_text; 0: nothing is known of the link, NCCL shall look itself */
	uint64_t lanes;
	uint64_t wanted_Bps; /* the graph's rate */
	uint64_t value_Bps;  /* what NCCL makes of generation × lanes */
	const char *of;      /* what that is the rate of, if not of the element itself; NULL: that */
	const char
		*word; /* of the provenance of wanted_Bps, if no slot has this width or it is not nominal; else NULL */
};

/*
 * The nearest that NCCL can express: its smallest step is 0.1875 GB/s, so the error is at most 0.094 GB/s (a rate below
 * half a step becomes one step: width 0 would be 16 lanes). Of equal values the one with the fewest lanes, in a
 * generation not above `most_generation` (0: any).
 */
struct ncclxml_link_value ncclxml_link_value_of(uint64_t rate_Bps, unsigned most_generation);

/*
 * For a link of the graph. NCCL has one value for both directions: the smaller. A direction that was measured counts
 * with its measurement, one that has only a lower bound with the larger of bound and nominal rate, any other with its
 * nominal or assumed rate.
 */
struct ncclxml_link_value ncclxml_link_value_for(const struct topology_link *link);

/*
 * The same choice of rate for any link, without a value; 0: unknown. ret_measured may be NULL: a measurement decided.
 */
uint64_t ncclxml_link_rate(const struct topology_link *link, bool *ret_measured);

/* Of a NIC's wire, as NCCL is told; 0: unknown. */
uint64_t ncclxml_wire_rate(const struct topology *topology, uint32_t nic);

/* A width that slots have: 1, 2, 4, 8, 12, 16, 32. */
bool ncclxml_lanes_natural(uint64_t lanes);

#endif
