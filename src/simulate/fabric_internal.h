/* SPDX-License-Identifier: Apache-2.0 */
/* What fabric.c and fabric_make.c share. */
#ifndef TRIBUTARY_SIMULATE_FABRIC_INTERNAL_H
#define TRIBUTARY_SIMULATE_FABRIC_INTERNAL_H

#include "simulate/fabric.h"

#include <stdbool.h>

/* Empty tables of these sizes. -ENOMEM. */
int simulate_fabric_init(struct simulate_fabric *fabric, size_t hosts, size_t rails, size_t switches);
/* False: switches stand too deep, or in a circle. */
bool simulate_fabric_set_depths(struct simulate_fabric *fabric);

/* Of at least one, which are sorted; of two the lesser. */
double simulate_median(double *rates, size_t count);

#endif
