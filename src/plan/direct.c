/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads for NCCL's CollNetDirect: each of them adds up a part of what all GPUs of the host have, has it added up with
 * other hosts' by its NIC, and hands it out again. A GPU is a head once or not at all, and all parts are equal.
 *
 * So there are no orders to look for, but sets of heads and a NIC for each. For every number of them, a depth-first
 * search over the GPUs, those near NICs first, looks for one that is better than the best so far until there is none.
 */
#include "plan/search.h"

#include <errno.h>
#include <string.h>

struct heads {
	struct plan_search search; /* a column for each head and NIC; the bound */
	uint32_t column_of[PLAN_GPUS_MAX][PLAN_NICS_MAX];
	uint8_t gpus[PLAN_GPUS_MAX];                   /* in the order in which they are tried */
	uint8_t nearest[PLAN_GPUS_MAX][PLAN_NICS_MAX]; /* NICs of each GPU */
	size_t near_count[PLAN_GPUS_MAX];              /* of them, that are as near as the first */
	bool near_only;                                /* no others for now */
	struct plan_channel chosen[PLAN_GPUS_MAX], best[PLAN_GPUS_MAX];
	struct plan_selection selection; /* the chosen ones' columns */
	uint64_t work_limit;
};

static struct plan_channel channel_of(const struct plan_model *model, size_t head, size_t nic)
{
	struct plan_channel channel = { .order = { (uint8_t)head }, .nic_in = (uint8_t)nic, .nic_out = (uint8_t)nic };
	size_t count = 1;

	for (size_t gpu = 0; gpu < model->gpus; gpu++)
		if (gpu != head)
			channel.order[count++] = (uint8_t)gpu;
	return channel;
}

/* The nearest NICs of a GPU come first, and the GPUs that are nearest to theirs. */
static void order_heads(struct heads *heads)
{
	const struct plan_model *model = heads->search.model;
	uint32_t detours[PLAN_GPUS_MAX];

	for (size_t head = 0; head < model->gpus; head++) {
		const uint32_t *detour =
			&model->detour[plan_hop_in(model, 0, head)]; /* of the NICs, by steps of `gpus` */
		uint8_t *nearest = heads->nearest[head];
		size_t place = head;

		for (size_t nic = 0; nic < model->nics; nic++) {
			size_t at = nic;

			for (; at && detour[nic * model->gpus] < detour[nearest[at - 1] * model->gpus]; at--)
				nearest[at] = nearest[at - 1];
			nearest[at] = (uint8_t)nic;
		}
		detours[head] = detour[nearest[0] * model->gpus];
		while (heads->near_count[head] < model->nics &&
		       detour[nearest[heads->near_count[head]] * model->gpus] == detours[head])
			heads->near_count[head]++;
		for (size_t gpu = 0; gpu < model->gpus; gpu++)
			detours[head] += gpu != head ? model->detour[plan_hop(model, head, gpu)] : 0;
		for (; place && detours[head] < detours[heads->gpus[place - 1]]; place--)
			heads->gpus[place] = heads->gpus[place - 1];
		heads->gpus[place] = (uint8_t)head;
	}
}

/* Columns, and the bound: by the linear program over them, for parts of any size and heads by more than one NIC. */
static int heads_init(struct heads *heads, const struct plan_model *model, uint64_t work_limit, uint64_t *ret_bound_Bps)
{
	struct plan_search *search = &heads->search;
	bool bounded = model->rows > 0;
	uint64_t cuts_Bps;
	int r = plan_cuts_bound(model, &cuts_Bps);

	if (r == 0)
		r = plan_search_init(search, model, work_limit);
	for (size_t head = 0; r == 0 && head < model->gpus; head++) {
		for (size_t nic = 0; r == 0 && nic < model->nics; nic++) {
			struct plan_channel channel = channel_of(model, head, nic);
			uint32_t *column = &heads->column_of[head][nic];

			r = plan_columns_add(&search->columns, &channel, column);
			bounded = bounded && r == 0 && search->columns.touched_counts[*column];
		}
	}
	if (r < 0)
		return r;
	order_heads(heads);
	search->bound_Bps = cuts_Bps < PLAN_UNBOUNDED_BPS ? (double)cuts_Bps : (double)PLAN_UNBOUNDED_BPS;
	search->columns.complete = true;
	if (bounded)
		plan_search_relax(search);
	*ret_bound_Bps = plan_search_bound(search, cuts_Bps);
	return 0;
}

/* 1: `left` more heads are found from the GPU at `place` on; 0: there are none; -EAGAIN: too much work. */
static int choose(struct heads *heads, size_t place, size_t left)
{
	struct plan_search *search = &heads->search;
	const struct plan_model *model = search->model;

	if (!left)
		return 1;
	for (; place + left <= model->gpus; place++) {
		size_t gpu = heads->gpus[place];

		for (size_t i = 0; i < (heads->near_only ? heads->near_count[gpu] : model->nics); i++) {
			uint32_t column = heads->column_of[gpu][heads->nearest[gpu][i]];
			int r;

			search->columns.work += model->rows;
			if (search->columns.work > heads->work_limit && search->best.count)
				return -EAGAIN;
			if (!plan_search_fits(search, column))
				continue;
			heads->chosen[left - 1] = channel_of(model, gpu, heads->nearest[gpu][i]);
			heads->selection.columns[left - 1] = column;
			plan_search_load(search, column, true);
			r = choose(heads, place + 1, left - 1);
			plan_search_load(search, column, false);
			if (r)
				return r;
		}
	}
	return 0;
}

/* One that is better than the best, if it can be with NICs that are near. As choose(). */
static int find_better(struct heads *heads, size_t count, uint64_t work_limit)
{
	struct plan_search *search = &heads->search;
	int r = 0;

	plan_search_limits(search, count, 1000, true);
	heads->selection = (struct plan_selection){ .count = count };
	for (int far = 0; r != 1 && far < 2; far++) {
		memset(search->loads, 0, search->model->rows * sizeof(*search->loads));
		heads->work_limit = search->columns.work + work_limit;
		heads->near_only = !far;
		r = choose(heads, 0, count);
	}
	if (r != 1)
		return r;
	memcpy(heads->best, heads->chosen, sizeof(heads->best));
	return plan_search_take(search, &heads->selection);
}

/* True: no other set of heads moves more. */
static bool search_heads(struct heads *heads, uint64_t work_limit)
{
	struct plan_search *search = &heads->search;
	size_t most = search->model->gpus < search->model->channels_max ? search->model->gpus
									: search->model->channels_max;
	bool proved = true;

	for (size_t count = 1; count <= most && !plan_search_done(search); count++) {
		int r = 1;

		while (r == 1 && (!search->best.count || search->best.capacity_Bps < PLAN_UNBOUNDED_BPS))
			r = find_better(heads, count, work_limit);
		proved = proved && r >= 0;
	}
	return proved || plan_search_done(search);
}

int plan_make_direct(const struct topology *topology, const struct plan_request *request, struct plan *ret)
{
	struct plan plan = { .pattern = PLAN_DIRECT, .gpu_count = request->gpu_count };
	struct plan_model model = { 0 };
	struct heads heads = { .near_only = true, .search.model = &model };
	int r = plan_model_init(&model, topology, request, PLAN_DIRECT);

	if (r == 0)
		r = heads_init(&heads, &model, plan_work_limit(request), &plan.bound_Bps);
	if (r == 0) {
		plan.exact = search_heads(&heads, plan_work_limit(request) / 4);
		plan.channel_count = heads.search.best.count;
		for (size_t i = 0; i < plan.channel_count; i++) {
			size_t place = i;

			for (; place && heads.best[i].order[0] < plan.channels[place - 1].order[0]; place--)
				plan.channels[place] = plan.channels[place - 1];
			plan.channels[place] = heads.best[i];
		}
		plan_store_classes(&model, &plan);
		if (heads.search.best.load)
			plan.rate_Bps = heads.search.best.capacity_Bps / heads.search.best.load;
		plan.work = heads.search.columns.work;
		*ret = plan;
	}
	plan_search_fini(&heads.search);
	plan_model_fini(&model);
	return r;
}
