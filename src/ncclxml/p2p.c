/* SPDX-License-Identifier: Apache-2.0 */
/* How far P2P should reach, by measurement. */
#include "ncclxml/topology_xml.h"

#include <errno.h>
#include <stdlib.h>

#include "ncclxml/sockets.h"
#include "tributary/topology.h"

/* P2P's rate over that through host memory: least of no pair, reached by one. */
#define LEAST_RATIO 1.0
#define GAIN_RATIO  1.05

static bool is_measured(const struct topology_capacity *capacity)
{
	return capacity->provenance == TOPOLOGY_MEASURED && capacity->rate_Bps;
}

/* *ret_any: there are pairs of this class. True: for all of them P2P is right, or there are none. */
static bool class_agrees(const struct topology *topology, const uint32_t *gpus, size_t count, enum topology_class of,
			 bool *ret_any)
{
	double most = 0;

	*ret_any = false;
	for (size_t a = 0; a < count; a++) {
		for (size_t b = 0; b < count; b++) {
			const struct topology_pair *pair;
			uint32_t index;
			double ratio;

			if (a == b || topology_class_of(topology, gpus[a], gpus[b]) != of)
				continue;
			*ret_any = true;
			index = topology_find_pair(topology, gpus[a], gpus[b]);
			pair = index == TOPOLOGY_NONE ? NULL : &topology->pairs[index];
			if (!pair || !pair->p2p_works || !is_measured(&pair->p2p) || !is_measured(&pair->host))
				return false;
			ratio = (double)pair->p2p.rate_Bps / (double)pair->host.rate_Bps;
			if (ratio < LEAST_RATIO)
				return false;
			most = ratio > most ? ratio : most;
		}
	}
	return !*ret_any || most >= GAIN_RATIO;
}

static bool any_slice(const struct topology *topology, const uint32_t *gpus, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (topology->vertices[gpus[i]].gpu.mig >= 0)
			return true;
	return false;
}

enum topology_class topology_xml_p2p(const struct topology *topology)
{
	static const enum topology_class classes[] = { TOPOLOGY_CLASS_PHB, TOPOLOGY_CLASS_SYS };
	enum topology_class farthest = TOPOLOGY_CLASS_PXB;
	uint32_t *gpus;
	size_t count;

	if (topology_list(topology, TOPOLOGY_GPU, &gpus, &count) < 0)
		return farthest;
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]) && !any_slice(topology, gpus, count); i++) {
		bool any;

		if (!class_agrees(topology, gpus, count, classes[i], &any))
			break;
		if (!any)
			continue;
		if (ncclxml_sockets_bring_nics_nearer(topology, classes[i]) ||
		    (classes[i] == TOPOLOGY_CLASS_SYS && !ncclxml_sockets_allow_p2p(topology)))
			break;
		farthest = classes[i];
	}
	free(gpus);
	return farthest;
}
