/* SPDX-License-Identifier: Apache-2.0 */
/* What every set of plans must keep, whatever the machine: asserted with the verifier, and the shares of the best plans. */
#ifndef TRIBUTARY_TESTS_UNIT_PLAN_SET_CHECK_H
#define TRIBUTARY_TESTS_UNIT_PLAN_SET_CHECK_H

#include "tributary/plan.h"

/*
 * The verifier accepts all plans of a set, on one host and on several as the set says, at the rates that it says; rings,
 * trees and chains have the same number of channels, whose NICs have their turns by their numbers. *ret_ring, *ret_tree: of
 * what the best plan moves, on whichever number of hosts that is less.
 */
void set_check(const char *name, const struct topology *topology, const struct plan_request *request,
	       const struct plan_set *set, double *ret_ring, double *ret_tree);
/* Of one pattern. */
double set_check_part(const char *name, const struct topology *topology, const struct plan_request *request,
		      const struct plan_set *set, enum plan_pattern pattern);

#endif
