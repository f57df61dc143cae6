/*
 * Heads for NCCL's CollNetDirect: each of them adds up a part of what all GPUs of the host have, has it added up with
 * other hosts' by its NIC, and hands it out again. A GPU is a head once or not at all, and all parts are equal.
 *
 * So there are no orders to look for, but sets of heads and a NIC for each. For every number of them, a depth-first
 * search over the GPUs, those near NICs first, looks for one that is better than the best so far until there is none.
 */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct heads {
	const struct plan_model *model;
	uint16_t *loads; /* of head h by NIC n on row e: [(h × NICs + n) × rows + e] */
	uint32_t *sums, *limits;
	uint8_t gpus[PLAN_GPUS_MAX];                   /* in the order in which they are tried */
	uint8_t nearest[PLAN_GPUS_MAX][PLAN_NICS_MAX]; /* NICs of each GPU */
	size_t near_count[PLAN_GPUS_MAX];              /* of them, that are as near as the first */
	bool near_only;                                /* no others for now */
	uint8_t nic_of[PLAN_GPUS_MAX];                 /* of those that are heads now */
	uint32_t chosen;                               /* mask */
	uint32_t best_chosen;
	uint8_t best_nic_of[PLAN_GPUS_MAX];
	struct plan_selection best; /* count, capacity and load alone */
	uint64_t work, work_limit;
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

static const uint16_t *loads_of(const struct heads *heads, size_t head, size_t nic)
{
	return &heads->loads[(head * heads->model->nics + nic) * heads->model->rows];
}

static int heads_init(struct heads *heads, const struct plan_model *model, uint64_t work_limit)
{
	uint32_t detours[PLAN_GPUS_MAX][PLAN_NICS_MAX] = { { 0 } };

	*heads = (struct heads){ .model = model, .work_limit = work_limit, .best.load = 1 };
	heads->loads = sys_zalloc((model->gpus * model->nics * model->rows + 1) * sizeof(*heads->loads));
	heads->sums = sys_zalloc((model->rows + 1) * sizeof(*heads->sums));
	heads->limits = sys_zalloc((model->rows + 1) * sizeof(*heads->limits));
	if (!heads->loads || !heads->sums || !heads->limits)
		return -ENOMEM;
	for (size_t head = 0; head < model->gpus; head++) {
		uint8_t *nearest = heads->nearest[head];
		size_t place = head;

		for (size_t nic = 0; nic < model->nics; nic++) {
			struct plan_channel channel = channel_of(model, head, nic);
			size_t at = nic;

			detours[head][nic] = plan_channel_loads(
				model, &channel, &heads->loads[(head * model->nics + nic) * model->rows]);
			for (; at && detours[head][nic] < detours[head][nearest[at - 1]]; at--)
				nearest[at] = nearest[at - 1];
			nearest[at] = (uint8_t)nic;
		}
		while (heads->near_count[head] < model->nics &&
		       detours[head][nearest[heads->near_count[head]]] == detours[head][nearest[0]])
			heads->near_count[head]++;
		for (; place && detours[head][nearest[0]] <
					detours[heads->gpus[place - 1]][heads->nearest[heads->gpus[place - 1]][0]];
		     place--)
			heads->gpus[place] = heads->gpus[place - 1];
		heads->gpus[place] = (uint8_t)head;
	}
	return 0;
}

static void heads_fini(struct heads *heads)
{
	sys_free(heads->loads);
	sys_free(heads->sums);
	sys_free(heads->limits);
}

/* What all rows may carry if `count` heads are to move more than the best so far. */
static void find_limits(struct heads *heads, size_t count)
{
	const struct plan_model *model = heads->model;
	unsigned __int128 per = (unsigned __int128)heads->best.count * heads->best.capacity_Bps;

	for (size_t row = 0; row < model->rows; row++) {
		unsigned __int128 most = (unsigned __int128)count * model->capacity_Bps[row] * heads->best.load;

		most = per ? (most - 1) / per : UINT16_MAX;
		heads->limits[row] = most > UINT16_MAX ? UINT16_MAX : (uint32_t)most;
	}
}

static bool fits(const struct heads *heads, const uint16_t *loads)
{
	for (size_t row = 0; row < heads->model->rows; row++)
		if (heads->sums[row] + loads[row] > heads->limits[row])
			return false;
	return true;
}

static void change(struct heads *heads, const uint16_t *loads, bool add)
{
	for (size_t row = 0; row < heads->model->rows; row++)
		heads->sums[row] += add ? loads[row] : (uint32_t)-loads[row];
}

/* 1: `left` more heads are found from the GPU at `place` on; 0: there are none; -EAGAIN: too much work. */
static int choose(struct heads *heads, size_t place, size_t left)
{
	const struct plan_model *model = heads->model;

	if (!left)
		return 1;
	for (; place + left <= model->gpus; place++) {
		size_t gpu = heads->gpus[place];

		for (size_t i = 0; i < (heads->near_only ? heads->near_count[gpu] : model->nics); i++) {
			const uint16_t *loads = loads_of(heads, gpu, heads->nearest[gpu][i]);
			int r;

			heads->work += model->rows;
			if (heads->work > heads->work_limit && heads->best.count)
				return -EAGAIN;
			if (!fits(heads, loads))
				continue;
			heads->chosen |= 1U << gpu;
			heads->nic_of[gpu] = heads->nearest[gpu][i];
			change(heads, loads, true);
			r = choose(heads, place + 1, left - 1);
			if (r == 1)
				return 1;
			change(heads, loads, false);
			heads->chosen &= ~(1U << gpu);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

static void take(struct heads *heads, size_t count)
{
	const struct plan_model *model = heads->model;

	heads->best = (struct plan_selection){ .count = count, .capacity_Bps = PLAN_UNBOUNDED_BPS };
	for (size_t row = 0; row < model->rows; row++) {
		if (!heads->sums[row] ||
		    (heads->best.load && (unsigned __int128)model->capacity_Bps[row] * heads->best.load >=
						 (unsigned __int128)heads->best.capacity_Bps * heads->sums[row]))
			continue;
		heads->best.capacity_Bps = model->capacity_Bps[row];
		heads->best.load = heads->sums[row];
	}
	heads->best.load += !heads->best.load;
	heads->best_chosen = heads->chosen;
	memcpy(heads->best_nic_of, heads->nic_of, sizeof(heads->best_nic_of));
}

static bool meets(const struct heads *heads, uint64_t bound_Bps)
{
	return heads->best.count && heads->best.count * (heads->best.capacity_Bps / heads->best.load + 1) > bound_Bps;
}

/* One that is better than the best, if it can be with NICs that are near. As choose(). */
static int find_better(struct heads *heads, size_t count)
{
	int r = 0;

	find_limits(heads, count);
	for (int far = 0; r != 1 && far < 2; far++) {
		memset(heads->sums, 0, heads->model->rows * sizeof(*heads->sums));
		heads->chosen = 0;
		heads->work = 0;
		heads->near_only = !far;
		r = choose(heads, 0, count);
	}
	return r;
}

/* True: no other set of heads moves more. */
static bool search_heads(struct heads *heads, uint64_t bound_Bps)
{
	size_t most = heads->model->gpus < heads->model->channels_max ? heads->model->gpus : heads->model->channels_max;
	bool proved = true;

	for (size_t count = 1; count <= most && !meets(heads, bound_Bps); count++) {
		int r = 1;

		while (r == 1 && heads->best.capacity_Bps < PLAN_UNBOUNDED_BPS) {
			r = find_better(heads, count);
			if (r == 1)
				take(heads, count);
		}
		proved = proved && r >= 0;
	}
	return proved || meets(heads, bound_Bps);
}

/* By the linear program over all heads and NICs: parts of any size, and a head by more than one NIC. */
static int find_bound(const struct plan_model *model, uint64_t work_limit, uint64_t *ret_Bps)
{
	struct plan_search search = { 0 };
	bool bounded = model->rows > 0;
	uint64_t cuts_Bps;
	int r = plan_cuts_bound(model, &cuts_Bps);

	if (r == 0)
		r = plan_search_init(&search, model, work_limit);
	for (size_t head = 0; r == 0 && head < model->gpus; head++) {
		for (size_t nic = 0; nic < model->nics; nic++) {
			struct plan_channel channel = channel_of(model, head, nic);
			uint32_t column;

			bounded = bounded && plan_columns_add(&search.columns, &channel, &column) == 0 &&
				  search.columns.touched_counts[column];
		}
	}
	if (r == 0) {
		search.bound_Bps = cuts_Bps < PLAN_UNBOUNDED_BPS ? (double)cuts_Bps : (double)PLAN_UNBOUNDED_BPS;
		search.columns.complete = true;
		if (bounded)
			plan_search_relax(&search);
		*ret_Bps = plan_search_bound(&search, cuts_Bps);
	}
	plan_search_fini(&search);
	return r;
}

static void store(const struct heads *heads, struct plan *plan)
{
	const struct plan_model *model = heads->model;

	for (size_t head = 0; head < model->gpus; head++) {
		size_t nic = heads->best_nic_of[head], in = plan_hop_in(model, nic, head);

		if (!(heads->best_chosen >> head & 1U))
			continue;
		plan->channels[plan->channel_count++] = channel_of(model, head, nic);
		if (model->network && model->path_class[in] > plan->inter_class)
			plan->inter_class = model->path_class[in];
		for (size_t gpu = 0; gpu < model->gpus; gpu++)
			if (gpu != head && model->path_class[plan_hop(model, head, gpu)] > plan->intra_class)
				plan->intra_class = model->path_class[plan_hop(model, head, gpu)];
	}
	plan->rate_Bps = heads->best.capacity_Bps / heads->best.load;
	plan->work = heads->work;
}

int plan_make_direct(const struct topology *topology, const struct plan_request *request, struct plan *ret)
{
	struct plan plan = { .pattern = PLAN_DIRECT, .gpu_count = request->gpu_count };
	struct plan_model model;
	struct heads heads = { 0 };
	int r = plan_model_init(&model, topology, request, PLAN_DIRECT);

	if (r < 0)
		return r;
	r = heads_init(&heads, &model, plan_work_limit(request) / 4);
	if (r == 0)
		r = find_bound(&model, plan_work_limit(request), &plan.bound_Bps);
	if (r == 0) {
		plan.exact = search_heads(&heads, plan.bound_Bps);
		store(&heads, &plan);
		*ret = plan;
	}
	heads_fini(&heads);
	plan_model_fini(&model);
	return r;
}
