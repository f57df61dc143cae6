/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclxml/link_value.h"

#include <stddef.h>

#include "ncclmodel/limits.h"
#include "tributary/topology.h"

/* Of one direction: the rate to tell NCCL. */
static uint64_t direction_rate(const struct topology_link *link, enum topology_direction direction, bool *ret_measured)
{
	const struct topology_capacity *capacity = &link->capacity[direction];
	uint64_t nominal_Bps = link->nominal_Bps;

	*ret_measured = false;
	if (capacity->provenance == TOPOLOGY_MEASURED ||
	    (capacity->provenance == TOPOLOGY_AT_LEAST && capacity->rate_Bps > nominal_Bps)) {
		*ret_measured = capacity->rate_Bps > 0;
		return capacity->rate_Bps;
	}
	return nominal_Bps || capacity->provenance == TOPOLOGY_UNKNOWN ? nominal_Bps : capacity->rate_Bps;
}

uint64_t ncclxml_link_rate(const struct topology_link *link, bool *ret_measured)
{
	bool measured_up, measured_down;
	uint64_t up_Bps = direction_rate(link, TOPOLOGY_UP, &measured_up);
	uint64_t down_Bps = direction_rate(link, TOPOLOGY_DOWN, &measured_down);
	bool down = down_Bps && (!up_Bps || down_Bps < up_Bps);

	if (ret_measured)
		*ret_measured = down ? measured_down : measured_up;
	return down ? down_Bps : up_Bps;
}

bool ncclxml_lanes_natural(uint64_t lanes)
{
	return lanes == 1 || lanes == 2 || lanes == 4 || lanes == 8 || lanes == 12 || lanes == 16 || lanes == 32;
}

struct ncclxml_link_value ncclxml_link_value_of(uint64_t rate_Bps, unsigned most_generation)
{
	const uint64_t step_Bps = ncclmodel_lane_Bps(1);
	uint64_t lanes = rate_Bps / step_Bps + (rate_Bps % step_Bps >= (step_Bps + 1) / 2);
	struct ncclxml_link_value value = { .generation = 1, .wanted_Bps = rate_Bps };

	if (!most_generation || most_generation > NCCLMODEL_GENERATION_MAX)
		most_generation = NCCLMODEL_GENERATION_MAX;
	lanes = lanes < 1 ? 1 : lanes;
	for (; lanes % 2 == 0 && value.generation < most_generation; lanes /= 2)
		value.generation++;
	lanes = lanes > NCCLMODEL_LANES_MAX ? NCCLMODEL_LANES_MAX : lanes;
	value.lanes = lanes;
	value.value_Bps = lanes * ncclmodel_lane_Bps(value.generation);
	return value;
}

static bool use_if(struct ncclxml_link_value *value, unsigned generation, unsigned lanes)
{
	if (!lanes || lanes * ncclmodel_lane_Bps(generation) != value->wanted_Bps)
		return false;
	value->generation = generation;
	value->lanes = lanes;
	value->value_Bps = value->wanted_Bps;
	return true;
}

struct ncclxml_link_value ncclxml_link_value_for(const struct topology_link *link)
{
	const struct topology_pci_link *pci = &link->pci;
	struct ncclxml_link_value value = { 0 };
	uint64_t rate_Bps;
	bool measured;

	rate_Bps = ncclxml_link_rate(link, &measured);
	if (!rate_Bps)
		return value;
	value = ncclxml_link_value_of(rate_Bps, pci->most_generation ? pci->most_generation : pci->generation);
	if (measured) {
		value.word = topology_provenance_word(TOPOLOGY_MEASURED);
		return value;
	}
	/* As the link is, at its best, or as NCCL takes one of which it knows nothing, if that is its rate. */
	(void)(use_if(&value, pci->generation, pci->lanes) || use_if(&value, pci->most_generation, pci->most_lanes) ||
	       use_if(&value, NCCLMODEL_GENERATION_FALLBACK, NCCLMODEL_LANES_FALLBACK));
	if (!ncclxml_lanes_natural(value.lanes))
		value.word = topology_provenance_word(link->nominal_Bps ? TOPOLOGY_NOMINAL : TOPOLOGY_ASSUMED);
	return value;
}

uint64_t ncclxml_wire_rate(const struct topology *topology, uint32_t nic)
{
	uint32_t wire = topology_wire_of(topology, nic);
	uint64_t rate_Bps = wire == TOPOLOGY_NONE ? 0 : ncclxml_link_rate(&topology->links[wire], NULL);

	return rate_Bps ? rate_Bps : topology->vertices[nic].nic.speed_Bps;
}
