/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placements of jobs, verified at max-min fair rates. plan_place takes every job to send all that it can; one that is held up
 * elsewhere leaves room to others. Pure, deterministic.
 */
#ifndef TRIBUTARY_SIMULATE_PLACES_H
#define TRIBUTARY_SIMULATE_PLACES_H

#include "plan/place.h"

/* What each job's slowest slot has when all run. -ENOMEM. */
int places_rates(const struct plan_place_tree *tree, const struct plan_place_job *jobs, size_t job_count,
		 double *ret_Bps);
/*
 * As plan_place; but of its 20 best another one than the first where that lets the job be 5 % faster, or the one among the
 * others that loses most keep 5 % more, and neither be less. Its shared and share are then those of these rates.
 */
int places_find(const struct plan_place_tree *tree, const struct plan_place_job *running, size_t running_count,
		const bool *busy, const struct plan_place_job *job, uint32_t *ret_slots, struct plan_place_result *ret);

#endif
