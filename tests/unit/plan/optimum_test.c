/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing beats the planner where everything can be tried: all multisets of channels for up to four GPUs, each verified by
 * plan_verify_rate; and for up to six an integer program over all channels (GLPK). Of the subsets of each machine's GPUs some
 * are taken.
 */
#include "machine_spec.h"

#include "base/log.h"
#include "plan/model.h"
#include "support/runtime.h"

#include <glpk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CHANNELS_MOST = 4096 };

static struct plan_channel channels[CHANNELS_MOST];
static size_t channel_count;

static void permute(const struct plan_request *request, enum plan_pattern pattern, struct plan_channel *channel,
		    size_t place, unsigned used)
{
	size_t nics = request->hosts > 1 ? request->nic_count : 1;
	bool crosses = pattern == PLAN_RING && request->crossnic;

	if (place == request->gpu_count) {
		for (size_t nic = 0; nic < nics * nics; nic++) {
			channel->nic_in = (uint8_t)(nic % nics);
			channel->nic_out = (uint8_t)(nic / nics);
			if (channel->nic_in != channel->nic_out && !crosses)
				continue;
			assert_true(channel_count < CHANNELS_MOST);
			channels[channel_count++] = *channel;
		}
		return;
	}
	for (unsigned i = 0; i < request->gpu_count; i++) {
		/* A ring on one host may as well begin at the first. */
		if ((used & (1U << i)) || (!place && i && pattern == PLAN_RING && request->hosts == 1))
			continue;
		channel->order[place] = (uint8_t)i;
		permute(request, pattern, channel, place + 1, used | 1U << i);
	}
}

static void list_channels(const struct plan_request *request, enum plan_pattern pattern)
{
	struct plan_channel channel = { 0 };

	channel_count = 0;
	permute(request, pattern, &channel, 0, 0);
}

/* Where a communicator may be, and whether its rings may change NICs. */
static const struct {
	unsigned hosts;
	bool crossnic;
} places[] = { { 1, false }, { 2, false }, { 2, true }, { 3, false }, { 3, true } };
enum { PLACES = sizeof(places) / sizeof(places[0]) };

/* The next of a subset's requests; false: that it makes no difference to this pattern. */
static bool take_place(const struct plan_request *all, unsigned mask, unsigned at, size_t nics,
		       struct plan_request *ret)
{
	*ret = machine_subset(all, mask, places[at % PLACES].hosts);
	ret->crossnic = places[at % PLACES].crossnic;
	ret->nic_count = ret->nic_count > nics ? nics : ret->nic_count;
	return !ret->crossnic || (at / PLACES == PLAN_RING && ret->nic_count > 1);
}

/* A sanitized build takes twenty times as long and looks for other mistakes: it takes every eighth case. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { CASE_STEP = 8 };
#else
enum { CASE_STEP = 1 };
#endif

static void plan_and_verify(const struct topology *topology, const struct plan_request *request,
			    enum plan_pattern pattern, const char *name, struct plan *ret)
{
	struct diag diag;
	uint64_t rate_Bps;

	assert_int_equal(plan_make(topology, request, pattern, ret), 0);
	if (plan_verify(topology, request, ret, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	/* The planner's rate is all that its channels allow. */
	assert_int_equal(plan_verify_rate(topology, request, ret, &rate_Bps, &diag), 0);
	assert_int_equal(rate_Bps, ret->rate_Bps);
}

/* ------------------------------------------------------------------------------------------------------ brute force */

static uint64_t best_of_all(const struct topology *topology, const struct plan_request *request, struct plan *plan,
			    size_t first)
{
	uint64_t best_Bps = 0;

	if (plan->channel_count) {
		uint64_t rate_Bps;

		assert_int_equal(plan_verify_rate(topology, request, plan, &rate_Bps, NULL), 0);
		best_Bps = rate_Bps * plan->channel_count;
	}
	if (plan->channel_count == request->channels_max)
		return best_Bps;
	for (size_t i = first; i < channel_count; i++) {
		uint64_t total_Bps;

		plan->channels[plan->channel_count++] = channels[i];
		total_Bps = best_of_all(topology, request, plan, i);
		plan->channel_count--;
		best_Bps = total_Bps > best_Bps ? total_Bps : best_Bps;
	}
	return best_Bps;
}

static void try_everything(const struct machine_spec *spec, const struct topology *topology,
			   struct plan_request *request, enum plan_pattern pattern)
{
	struct plan plan;
	struct plan tried = { .pattern = pattern, .gpu_count = request->gpu_count, .crossnic = request->crossnic };
	uint64_t best_Bps, total_Bps;

	list_channels(request, pattern);
	request->channels_max = channel_count <= 6 ? 5 : channel_count <= 24 ? 3 : 2;
	plan_and_verify(topology, request, pattern, spec->name, &plan);
	if (plan.rate_Bps == PLAN_UNBOUNDED_BPS)
		return; /* one GPU, one host */
	best_Bps = best_of_all(topology, request, &tried, 0);
	total_Bps = plan_total_Bps(&plan);
	/* Where rates of different numbers of channels are equal, rounding down each may differ. */
	if (total_Bps + PLAN_CHANNELS_MAX < best_Bps)
		fail_msg("%s: %llu instead of %llu", spec->name, (unsigned long long)total_Bps,
			 (unsigned long long)best_Bps);
	assert_true(plan.exact);
	assert_true(best_Bps <= plan.bound_Bps);
}

static void four_gpus_get_the_best_of_all_plans(void **state)
{
	unsigned cases = 0, step = CASE_STEP * (runtime_long() || runtime_sanitized() ? 1 : 3);

	(void)state;
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct plan_request all;
		struct topology topology;

		machine_spec_build(&machine_specs[i], 3, &topology);
		assert_int_equal(plan_request_all(&topology, &all), 0);
		for (unsigned mask = 1; mask < 1U << all.gpu_count; mask++) {
			unsigned count = (unsigned)__builtin_popcount(mask);

			if (count > 4 || (mask + i) % (step * (count < 3 ? 11 : 37)) || mask > 255)
				continue;
			for (unsigned j = 0; j < 3 * PLACES; j++) {
				struct plan_request request;

				/* Of four that is a hundred channels, and ten thousand plans to verifier. */
				if (places[j % PLACES].crossnic && count > 3)
					continue;
				if (!take_place(&all, mask, j, 2, &request))
					continue;
				try_everything(&machine_specs[i], &topology, &request, (enum plan_pattern)(j / PLACES));
				cases++;
			}
		}
		topology_fini(&topology);
	}
	print_message("%u cases\n", cases);
}

/* ------------------------------------------------------------------------------------------------- integer program */

static void load_of(const struct plan_model *model, const struct plan_channel *channel, unsigned *ret_loads)
{
	size_t hops[PLAN_GPUS_MAX + 2], count = 0, last = model->gpus - 1;

	memset(ret_loads, 0, model->rows * sizeof(*ret_loads));
	for (size_t i = 0; i < last; i++)
		hops[count++] = plan_hop(model, channel->order[i], channel->order[i + 1]);
	if (model->closed && last)
		hops[count++] = plan_hop(model, channel->order[last], channel->order[0]);
	if (!model->closed) {
		hops[count++] = plan_hop_in(model, channel->nic_in, channel->order[0]);
		hops[count++] = plan_hop_out(model, channel->nic_out, channel->order[last]);
	}
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = model->first[hops[i]]; j < model->first[hops[i] + 1]; j++)
			ret_loads[model->crossings[j].row] += model->crossings[j].count;
}

/* The loads of all channels, each once; *ret is freed by the caller. */
static size_t list_loads(const struct plan_model *model, unsigned **ret)
{
	unsigned *loads = calloc(channel_count * model->rows + 1, sizeof(*loads));
	size_t count = 0;

	assert_non_null(loads);
	for (size_t i = 0; i < channel_count; i++) {
		bool known = false;

		load_of(model, &channels[i], &loads[count * model->rows]);
		for (size_t j = 0; j < count && !known; j++)
			known = !memcmp(&loads[j * model->rows], &loads[count * model->rows],
					model->rows * sizeof(*loads));
		count += !known;
	}
	*ret = loads;
	return count;
}

/*
 * K channels have a total above T if and only if there are whole numbers n(c) >= 0 with
 *
 *     sum n(c) = K        sum load(c, e) n(c) <= K capacity(e) / (T + 16), rounded down
 *
 * where 16 bytes/s are what rounding a rate down may have cost the plan's T.
 */
static bool beaten_with(const struct plan_model *model, const unsigned *loads, size_t count, size_t number,
			uint64_t total_Bps)
{
	glp_prob *program = glp_create_prob();
	int rows = (int)model->rows, columns = (int)count, status, indices[2048];
	double values[2048];
	glp_iocp options;

	assert_true(rows + 2 < 2048);
	glp_add_rows(program, rows + 1);
	glp_add_cols(program, columns);
	glp_set_obj_dir(program, GLP_MAX);
	for (int row = 1; row <= rows; row++) {
		uint64_t most = number * model->capacity_Bps[row - 1] / (total_Bps + PLAN_CHANNELS_MAX);

		glp_set_row_bnds(program, row, GLP_UP, 0, (double)most);
	}
	glp_set_row_bnds(program, rows + 1, GLP_UP, 0, (double)number);
	for (int column = 1; column <= columns; column++) {
		int used = 0;

		glp_set_obj_coef(program, column, 1);
		glp_set_col_kind(program, column, GLP_IV);
		glp_set_col_bnds(program, column, GLP_DB, 0, (double)number);
		for (int row = 1; row <= rows; row++) {
			unsigned load = loads[(size_t)(column - 1) * model->rows + (size_t)(row - 1)];

			if (!load)
				continue;
			indices[++used] = row;
			values[used] = load;
		}
		indices[++used] = rows + 1;
		values[used] = 1;
		glp_set_mat_col(program, column, used, indices, values);
	}
	glp_init_iocp(&options);
	options.presolve = GLP_ON;
	options.msg_lev = GLP_MSG_OFF;
	options.tm_lim = 60000;
	status = glp_intopt(program, &options);
	if (status)
		fail_msg("the integer program was not solved: %d", status);
	assert_int_equal(glp_mip_status(program), GLP_OPT); /* none at all is a solution, too */
	status = glp_mip_obj_val(program) > (double)number - 0.5;
	glp_delete_prob(program);
	return status;
}

/* True: the planner has said so itself, that it ran out of work before it had looked at everything. */
static bool try_program(const struct machine_spec *spec, const struct topology *topology, struct plan_request *request,
			enum plan_pattern pattern)
{
	struct plan_model model;
	struct plan plan;
	unsigned *loads;
	size_t count;

	plan_and_verify(topology, request, pattern, spec->name, &plan);
	if (!plan.exact) {
		assert_true((double)plan_total_Bps(&plan) >= 0.9 * (double)plan.bound_Bps);
		return true;
	}
	assert_int_equal(plan_model_init(&model, topology, request, pattern), 0);
	list_channels(request, pattern);
	count = list_loads(&model, &loads);
	for (size_t number = 1; number <= model.channels_max; number++)
		if (beaten_with(&model, loads, count, number, plan_total_Bps(&plan)))
			fail_msg("%s, pattern %d, %u hosts: %zu channels are better than %llu bytes/s", spec->name,
				 (int)pattern, request->hosts, number, (unsigned long long)plan_total_Bps(&plan));
	free(loads);
	plan_model_fini(&model);
	return false;
}

static void no_integer_program_finds_better_channels(void **state)
{
	unsigned step = (runtime_long() ? 7 : 61) * CASE_STEP;
	unsigned cases = 0, incomplete = 0;

	(void)state;
	glp_term_out(GLP_OFF);
	for (size_t i = 0; i < machine_spec_count; i++) {
		struct plan_request all;
		struct topology topology;

		machine_spec_build(&machine_specs[i], 5, &topology);
		assert_int_equal(plan_request_all(&topology, &all), 0);
		for (unsigned mask = 1; mask < 1U << all.gpu_count && mask < 256; mask++) {
			unsigned count = (unsigned)__builtin_popcount(mask);

			if (count < 2 || count > 6 || (mask * 5 + i) % step)
				continue;
			for (unsigned j = 0; j < 3 * PLACES; j++) {
				struct plan_request request;

				/* Three hosts and pairs of NICs take GLPK many minutes: bound_test has them. */
				if (j % PLACES > 1 || !take_place(&all, mask, j, 4, &request))
					continue;
				incomplete += try_program(&machine_specs[i], &topology, &request,
							  (enum plan_pattern)(j / PLACES));
				cases++;
			}
		}
		topology_fini(&topology);
	}
	glp_free_env();
	print_message("%u cases, %u of which the search did not finish\n", cases, incomplete);
	assert_true(incomplete * 50 <= cases);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(four_gpus_get_the_best_of_all_plans),
		cmocka_unit_test(no_integer_program_finds_better_channels),
	};

	runtime_start("optimum_test", 110);
	return cmocka_run_group_tests_name("plan/optimum", tests, NULL, NULL);
}
