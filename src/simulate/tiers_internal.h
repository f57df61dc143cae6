/* What tiers.c and tiers_steps.c share. */
#ifndef TRIBUTARY_SIMULATE_TIERS_INTERNAL_H
#define TRIBUTARY_SIMULATE_TIERS_INTERNAL_H

#include "simulate/job_internal.h"
#include "simulate/tiers.h"

/* The places of one rail, hosts first; leaves are numbered by first appearance. */
int simulate_tiers_by_steps(struct simulate_build *build, const struct simulate_place *places,
			    const struct simulate_end *ends, size_t place_count, const struct simulate_leaf *leaves,
			    size_t leaf_count);
/*
 * What it takes alone, worked out from as many calls as fill the links and go on for a while: the cost does not depend on
 * the bytes. The build's network stays as it is.
 */
int simulate_tiers_by_window(struct simulate_build *build, const struct simulate_place *places,
			     const struct simulate_end *ends, size_t place_count, const struct simulate_leaf *leaves,
			     size_t leaf_count, double *ret_s);

#endif
