/* SPDX-License-Identifier: Apache-2.0 */
/* What is found is put into the graph. */
#include "discover/build.h"

#include <errno.h>

int discover_add_vertex(struct discover_build *build, const struct topology_vertex *vertex, uint32_t *ret)
{
	int r = topology_add_vertex(build->topology, vertex, ret);

	if (r == -EEXIST)
		diag_set(build->diag, 0, 0, "two things are called %.80s", vertex->name);
	else if (r == -EINVAL)
		diag_set(build->diag, 0, 0, "a thing cannot be called \"%.80s\"", vertex->name);
	else if (r == -E2BIG)
		diag_set(build->diag, 0, 0, "more devices than a graph can hold");
	return r == -ENOMEM || !r ? r : -EINVAL;
}

/* The rate that is known so far is the nominal one. */
int discover_add_link(struct discover_build *build, const struct topology_link *link)
{
	struct topology_link filled = *link;
	int r;

	for (size_t i = 0; i < 2 && link->capacity[i].provenance == TOPOLOGY_UNKNOWN && link->nominal_Bps; i++) {
		filled.capacity[i].rate_Bps = link->nominal_Bps;
		filled.capacity[i].provenance = TOPOLOGY_NOMINAL;
	}
	r = topology_add_link(build->topology, &filled, NULL);
	if (r < 0 && r != -ENOMEM)
		diag_set(build->diag, 0, 0, "more links than a graph can hold");
	return r == -ENOMEM || !r ? r : -EINVAL;
}

int discover_add_limit(struct discover_build *build, const char *name, const struct topology_capacity *capacity,
		       const uint32_t *members, size_t member_count)
{
	int r = topology_add_limit(build->topology, name, capacity, members, member_count, NULL);

	/* A bus id that is there twice. */
	if (r < 0 && r != -ENOMEM)
		diag_set(build->diag, 0, 0, "two things are called %.80s", name);
	return r == -ENOMEM || !r ? r : -EINVAL;
}
