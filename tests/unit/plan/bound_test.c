/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound against the same linear program by other means, where there are too many channels to list: GLPK solves it over
 * candidates, and a dynamic program over subsets of the GPUs, of this file's own, finds each next one. What GLPK's shares
 * move is possible, so no bound may be below it; and where the dynamic program finds no more channels, nothing moves more,
 * so a bound far above says too little. Hops and what they charge are the planner's model, which make_test holds to the
 * verifier. All machines of topo/ (TRIBUTARY_SOURCE), rings, trees and chains.
 */
#include "machine_spec.h"

#include "base/log.h"
#include "plan/model.h"
#include "support/machines.h"

#include <dirent.h>
#include <float.h>
#include <glpk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_BYTES = 1024, ROUNDS = 2000, ROWS_MAX = 2048, FEW = 7 /* up to six: optimum_test */ };

/* A sanitized build takes twenty times as long and looks for other mistakes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASE_STEP = 16, GPUS_MOST = 8 };
#else
enum { CASE_STEP = 1, GPUS_MOST = 10 };
#endif

/* ---------------------------------------------------------------------------------------------------- next candidate */

struct pricing {
	const struct plan_model *model;
	const double *row_price; /* 1 to rows, as GLPK counts */
	double hop[PLAN_HOPS_MAX];
	double *least; /* [subset][last] */
	uint8_t *from;
};

static void price_hops(struct pricing *pricing)
{
	const struct plan_model *model = pricing->model;

	for (size_t hop = 0; hop < model->hops; hop++) {
		pricing->hop[hop] = 0;
		for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
			pricing->hop[hop] += model->crossings[i].count *
					     pricing->row_price[model->crossings[i].row + 1];
	}
}

/* The cheapest ways through each subset, from the first GPU of a closed ring, or in by one NIC. */
static void fill(struct pricing *pricing, size_t nic)
{
	const struct plan_model *model = pricing->model;
	size_t gpus = model->gpus;

	for (size_t i = 0; i < gpus << gpus; i++)
		pricing->least[i] = DBL_MAX;
	for (size_t gpu = 0; gpu < (model->closed ? 1 : gpus); gpu++)
		pricing->least[((size_t)1 << gpu) * gpus + gpu] = model->closed
									  ? 0
									  : pricing->hop[plan_hop_in(model, nic, gpu)];
	for (size_t set = 1; set < (size_t)1 << gpus; set++) {
		for (size_t last = 0; last < gpus; last++) {
			double cost = pricing->least[set * gpus + last];

			for (size_t next = 0; cost < DBL_MAX && next < gpus; next++) {
				size_t to = (set | (size_t)1 << next) * gpus + next;
				double more = cost + pricing->hop[plan_hop(model, last, next)];

				if (set & (size_t)1 << next || more >= pricing->least[to])
					continue;
				pricing->least[to] = more;
				pricing->from[to] = (uint8_t)last;
			}
		}
	}
}

static double close_price(const struct pricing *pricing, size_t nic, size_t last)
{
	const struct plan_model *model = pricing->model;

	if (model->closed)
		return model->gpus > 1 ? pricing->hop[plan_hop(model, last, 0)] : 0;
	return pricing->hop[plan_hop_out(model, nic, last)];
}

static void follow(const struct pricing *pricing, size_t last, struct plan_channel *ret)
{
	size_t gpus = pricing->model->gpus, set = ((size_t)1 << gpus) - 1;

	for (size_t place = gpus; place-- > 0;) {
		uint8_t before = pricing->from[set * gpus + last];

		ret->order[place] = (uint8_t)last;
		set &= ~((size_t)1 << last);
		last = before;
	}
}

/* The cheapest channel at these prices, and its price. */
static double cheapest(struct pricing *pricing, struct plan_channel *ret)
{
	const struct plan_model *model = pricing->model;
	size_t gpus = model->gpus, all = ((size_t)1 << gpus) - 1;
	bool crosses = model->crossnic && !model->mirrored && !model->closed;
	double least = DBL_MAX;

	price_hops(pricing);
	for (size_t in = 0; in < model->nics; in++) {
		fill(pricing, in);
		for (size_t out = 0; out < model->nics; out++) {
			for (size_t last = 0; (out == in || crosses) && last < gpus; last++) {
				double cost = pricing->least[all * gpus + last];

				if (cost < DBL_MAX)
					cost += close_price(pricing, out, last);
				if (cost >= least)
					continue;
				least = cost;
				follow(pricing, last, ret);
				ret->nic_in = (uint8_t)in;
				ret->nic_out = (uint8_t)out;
			}
		}
	}
	return least;
}

/* ---------------------------------------------------------------------------------------------------- linear program */

static void charge(const struct plan_model *model, size_t hop, double loads[ROWS_MAX])
{
	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		loads[model->crossings[i].row] += model->crossings[i].count;
}

static void add_column(glp_prob *program, const struct plan_model *model, const struct plan_channel *channel)
{
	int indices[ROWS_MAX + 1], used = 0, column = glp_add_cols(program, 1);
	double loads[ROWS_MAX] = { 0 }, values[ROWS_MAX + 1];
	size_t last = model->gpus - 1;

	for (size_t i = 0; i < last; i++)
		charge(model, plan_hop(model, channel->order[i], channel->order[i + 1]), loads);
	if (model->closed && last)
		charge(model, plan_hop(model, channel->order[last], channel->order[0]), loads);
	if (!model->closed) {
		charge(model, plan_hop_in(model, channel->nic_in, channel->order[0]), loads);
		charge(model, plan_hop_out(model, channel->nic_out, channel->order[last]), loads);
	}
	for (size_t row = 0; row < model->rows; row++) {
		if (!(loads[row] > 0))
			continue;
		indices[++used] = (int)row + 1;
		values[used] = loads[row];
	}
	glp_set_obj_coef(program, column, 1);
	glp_set_col_bnds(program, column, GLP_LO, 0, 0);
	glp_set_mat_col(program, column, used, indices, values);
}

/* In GB/s: what the shares of the candidates move, and what no shares of any channels can move more than. */
struct optimum {
	double least, most;
};

static struct optimum optimum_of(const struct plan_model *model)
{
	glp_prob *program = glp_create_prob();
	double prices[ROWS_MAX + 1];
	struct optimum optimum = { 0, DBL_MAX };
	struct pricing pricing = { .model = model, .row_price = prices };
	struct plan_channel channel = { 0 };
	glp_smcp options;

	assert_true(model->rows < ROWS_MAX);
	pricing.least = calloc(model->gpus << model->gpus, sizeof(*pricing.least));
	pricing.from = calloc(model->gpus << model->gpus, 1);
	assert_true(pricing.least && pricing.from);
	glp_set_obj_dir(program, GLP_MAX);
	glp_add_rows(program, (int)model->rows);
	for (size_t row = 0; row < model->rows; row++) {
		glp_set_row_bnds(program, (int)row + 1, GLP_UP, 0, (double)model->capacity_Bps[row] / 1e9);
		prices[row + 1] = 1e9 / (double)model->capacity_Bps[row];
	}
	glp_init_smcp(&options);
	options.msg_lev = GLP_MSG_OFF;
	for (unsigned round = 0; round < ROUNDS && optimum.most > optimum.least * (1 + 1e-7); round++) {
		double price = cheapest(&pricing, &channel), sum = 0;

		/* Any prices say so: sum of price × capacity over the cheapest channel's price. */
		for (size_t row = 1; row <= model->rows; row++)
			sum += prices[row] * (double)model->capacity_Bps[row - 1] / 1e9;
		if (price > 0 && sum / price < optimum.most)
			optimum.most = sum / price;
		if (price >= 1 - 1e-9 && round)
			break;
		add_column(program, model, &channel);
		assert_int_equal(glp_simplex(program, &options), 0);
		assert_int_equal(glp_get_status(program), GLP_OPT);
		optimum.least = glp_get_obj_val(program);
		for (size_t row = 1; row <= model->rows; row++) {
			double dual = glp_get_row_dual(program, (int)row);

			prices[row] = dual > 0 ? dual : 0;
		}
	}
	glp_delete_prob(program);
	free(pricing.least);
	free(pricing.from);
	return optimum;
}

/* ------------------------------------------------------------------------------------------------------------- cases */

struct tally {
	unsigned cases, above; /* above: the bound by more than 1 in 10^4 */
	double most;           /* of the bound over the optimum */
};

static void try_case(const char *name, const struct topology *topology, const struct plan_request *request,
		     enum plan_pattern pattern, struct tally *tally)
{
	struct plan_model model;
	struct optimum optimum;
	uint64_t cuts_Bps;
	struct plan plan;
	double bound;

	assert_int_equal(plan_make(topology, request, pattern, &plan), 0);
	assert_int_equal(plan_model_init(&model, topology, request, pattern), 0);
	optimum = optimum_of(&model);
	assert_int_equal(plan_cuts_bound(&model, &cuts_Bps), 0);
	plan_model_fini(&model);
	bound = (double)plan.bound_Bps / 1e9;
	if ((double)cuts_Bps / 1e9 < optimum.least * (1 - 1e-7) || bound < optimum.least * (1 - 1e-7) ||
	    optimum.most < optimum.least * (1 - 1e-7) ||
	    (double)plan_total_Bps(&plan) / 1e9 > optimum.most * (1 + 1e-7))
		fail_msg("%s, %zu GPUs, pattern %d, %u hosts%s: plan %.6f, bound %.6f, by GLPK %.6f to %.6f GB/s", name,
			 request->gpu_count, (int)pattern, request->hosts, request->crossnic ? " crossing" : "",
			 (double)plan_total_Bps(&plan) / 1e9, bound, optimum.least, optimum.most);
	tally->cases++;
	tally->above += bound > optimum.least * 1.0001;
	/* Up to eight the bound is the optimum; beyond, what the work limit leaves of it. */
	if (bound > optimum.least * (request->gpu_count > 8 ? 1.1 : 1.0001))
		fail_msg("%s, %zu GPUs, pattern %d, %u hosts%s: bound %.6f GB/s, by GLPK %.6f", name,
			 request->gpu_count, (int)pattern, request->hosts, request->crossnic ? " crossing" : "", bound,
			 optimum.least);
	tally->most = bound / optimum.least > tally->most ? bound / optimum.least : tally->most;
}

static void try_subset(const char *name, const struct topology *topology, const struct plan_request *all, unsigned mask,
		       struct tally *tally)
{
	for (unsigned hosts = 1; hosts <= (all->nic_count ? 3U : 1U); hosts++) {
		struct plan_request request = machine_subset(all, mask, hosts);

		for (int pattern = PLAN_RING; pattern <= PLAN_CHAIN; pattern++)
			try_case(name, topology, &request, (enum plan_pattern)pattern, tally);
		request.crossnic = hosts > 1 && request.nic_count > 1;
		if (request.crossnic)
			try_case(name, topology, &request, PLAN_RING, tally);
	}
}

static void print_tally(const char *name, const struct tally *tally)
{
	print_message("%-24s %4u cases, in %u the bound is above GLPK's optimum, by %.2f %% at most\n", name,
		      tally->cases, tally->above, 100 * (tally->most - 1));
}

static void try_machine(void *arg, const char *name, const struct topology *topology)
{
	bool is_long = getenv("TRIBUTARY_TEST_LONG") != NULL;
	unsigned most = is_long ? 12 : GPUS_MOST, step = is_long ? 3001 : 9001, fit = 0;
	struct tally tally = { .most = 1 }, *sum = arg;
	struct plan_request all;

	assert_int_equal(plan_request_all(topology, &all), 0);
	for (unsigned mask = 1; mask < 1U << all.gpu_count; mask++) {
		unsigned count = (unsigned)__builtin_popcount(mask);

		if (count < FEW || count > most || (all.gpu_count > 8 && mask % step))
			continue;
		if (fit++ % CASE_STEP == 0)
			try_subset(name, topology, &all, mask, &tally);
	}
	if (tally.cases)
		print_tally(name, &tally);
	sum->cases += tally.cases;
	sum->above += tally.above;
	sum->most = tally.most > sum->most ? tally.most : sum->most;
}

static void no_bound_is_below_the_optimum_nor_far_above(void **state)
{
	struct tally sum = { .most = 1 };

	(void)state;
	glp_term_out(GLP_OFF);
	(void)machines_each(try_machine, &sum);
	glp_free_env();
	print_tally("all", &sum);
	assert_true(sum.cases > 0);
}

static void the_same_for_machines_that_nobody_has(void **state)
{
	struct tally sum = { .most = 1 };
	unsigned fit = 0;

	(void)state;
	glp_term_out(GLP_OFF);
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct tally tally = { .most = 1 };
		struct plan_request all;
		struct topology topology;
		bool is_large;

		machine_spec_build(&machine_specs[i], 7, &topology);
		assert_int_equal(plan_request_all(&topology, &all), 0);
		is_large = all.gpu_count > 8;
		if (all.gpu_count >= FEW && (!is_large || GPUS_MOST > 8) && fit++ % CASE_STEP == 0)
			try_subset(machine_specs[i].name, &topology, &all,
				   is_large ? 0x5757 : (1U << all.gpu_count) - 1, &tally);
		topology_fini(&topology);
		if (tally.cases)
			print_tally(machine_specs[i].name, &tally);
		sum.cases += tally.cases;
	}
	glp_free_env();
	assert_true(sum.cases > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_bound_is_below_the_optimum_nor_far_above),
		cmocka_unit_test(the_same_for_machines_that_nobody_has),
	};

	return cmocka_run_group_tests_name("plan/bound", tests, NULL, NULL);
}
