/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of topo/ (TRIBUTARY_SOURCE is the folder in which that is). */
#include "tributary/plan.h"

#include "set_check.h"

#include "base/log.h"
#include "support/machines.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_BYTES = 1024, SET_STEP = 3 };

/* -------------------------------------------------------------------------------------------------------------- topo */

struct tally {
	unsigned cases, below_98, below_90;
};

static void plan_subset(const char *name, const struct topology *topology, const struct plan_request *request,
			enum plan_pattern pattern, struct tally *tally)
{
	struct plan plan;
	struct diag diag;
	double share;

	assert_int_equal(plan_make(topology, request, pattern, &plan), 0);
	if (plan_verify(topology, request, &plan, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	share = (double)plan_total_Bps(&plan) / (double)plan.bound_Bps;
	tally->cases++;
	tally->below_98 += share < 0.98;
	tally->below_90 += share < 0.90;
}

/* Sets of plans, for each way that a communicator may lie. */
static void plan_sets(const char *name, const struct topology *topology, const struct plan_request *request,
		      struct tally *sets)
{
	for (int where = 0; where < PLAN_WHERE_COUNT; where++) {
		struct plan_set set;
		double ring, tree;
		int r;

		if (where != PLAN_ONE_HOST && !request->nic_count)
			continue;
		r = plan_make_set(topology, request, (enum plan_where)where, &set);
		assert_true(r == 0 || (r == -ENODATA && where == PLAN_EITHER));
		if (r < 0)
			continue;
		set_check(name, topology, request, &set, &ring, &tree);
		sets->cases++;
		sets->below_98 += ring < 0.98 - 1e-6 || tree < (where == PLAN_EITHER ? 0.9 : 0.95) - 1e-6;
		sets->below_90 += ring < 0.9 - 1e-6 || tree < 0.85;
	}
}

static void plan_subsets(void *arg, const char *name, const struct topology *topology)
{
	struct tally *tally = arg, *sets = tally + 1;
	struct plan_request all;
	unsigned last, step;

	assert_int_equal(plan_request_all(topology, &all), 0);
	last = (1U << all.gpu_count) - 1;
	step = all.gpu_count > 8 ? 6007 : 1;
	for (unsigned mask = 1, number = 0; mask <= last;
	     number++, mask = mask < last && mask + step > last ? last : mask + step) {
		struct plan_request request = all;

		request.gpu_count = 0;
		for (size_t i = 0; i < all.gpu_count; i++)
			if (mask & (1U << i))
				request.gpus[request.gpu_count++] = all.gpus[i];
		for (request.hosts = 1; request.hosts <= (all.nic_count ? 2U : 1U); request.hosts++)
			for (int pattern = 0; pattern <= PLAN_CHAIN; pattern++)
				plan_subset(name, topology, &request, (enum plan_pattern)pattern, tally);
		request.hosts = 2;
		if (number % SET_STEP == 0)
			plan_sets(name, topology, &request, sets);
	}
}

static void every_subset_of_the_reference_machines_gets_a_good_plan(void **state)
{
	struct tally tallies[2] = { 0 }, *plans = &tallies[0], *sets = &tallies[1];

	(void)state;
	(void)machines_each(plan_subsets, tallies);
	print_message("%u plans, %u below 98 %% of the bound, %u below 90 %%\n", plans->cases, plans->below_98,
		      plans->below_90);
	assert_true(plans->below_98 * 20 <= plans->cases);
	assert_int_equal(plans->below_90, 0);
	print_message("%u sets, %u lose more than they may, %u more than a tenth of a ring\n", sets->cases,
		      sets->below_98, sets->below_90);
	assert_true(sets->below_98 * 50 <= sets->cases);
	assert_int_equal(sets->below_90, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_subset_of_the_reference_machines_gets_a_good_plan),
	};

	return cmocka_run_group_tests_name("plan/machines", tests, NULL, NULL);
}
