/* SPDX-License-Identifier: Apache-2.0 */
/* What each GPU's way to its CPU carries: unlike slots (x4 beside x16, a slot behind the chipset). Pure. */
#ifndef TRIBUTARY_COMMAND_PRINT_REACH_H
#define TRIBUTARY_COMMAND_PRINT_REACH_H

#include "tributary/topology.h"

struct reach {
	uint32_t gpu, link; /* link: the narrowest of the way */
	uint64_t rate_Bps;
};

/* Measured, else nominal; 0: not known, or made up. */
uint64_t reach_rate_Bps(const struct topology_link *link, enum topology_direction direction);
/*
 * The GPUs whose rate is known, cards in MIG mode once, the narrowest first; none where GPUs are joined by NVLink, which
 * carries their rings. *ret is malloc'ed. -ENOMEM.
 */
int reach_list(const struct topology *topology, struct reach **ret, size_t *ret_count);
/* What half of them have at least; 0: there are none. */
uint64_t reach_usual_Bps(const struct reach *list, size_t count);
/* Far below that. */
bool reach_is_narrow(const struct reach *reach, uint64_t usual_Bps);

#endif
