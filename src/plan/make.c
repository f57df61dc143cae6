#include "plan/search.h"

#include <errno.h>
#include <string.h>

int plan_channel_compare(const struct plan_channel *a, const struct plan_channel *b, size_t gpus)
{
	if (a->nic_in != b->nic_in)
		return a->nic_in < b->nic_in ? -1 : 1;
	if (a->nic_out != b->nic_out)
		return a->nic_out < b->nic_out ? -1 : 1;
	return memcmp(a->order, b->order, gpus);
}

struct plan_channel plan_channel_turned(const struct plan_model *model, const struct plan_channel *channel)
{
	struct plan_channel turned = *channel;
	size_t first = 0;

	if (!model->closed)
		return turned;
	while (channel->order[first])
		first++;
	for (size_t i = 0; i < model->gpus; i++)
		turned.order[i] = channel->order[(first + i) % model->gpus];
	return turned;
}

static void store_channels(const struct plan_search *search, struct plan *plan)
{
	const struct plan_model *model = search->model;

	for (size_t i = 0; i < search->best.count; i++) {
		struct plan_channel channel = plan_channel_turned(model,
								  &search->columns.channels[search->best.columns[i]]);
		size_t place = plan->channel_count++;

		plan->crossnic = plan->crossnic || channel.nic_in != channel.nic_out;
		for (; place && plan_channel_compare(&channel, &plan->channels[place - 1], model->gpus) < 0; place--)
			plan->channels[place] = plan->channels[place - 1];
		plan->channels[place] = channel;
	}
}

void plan_store_classes(const struct plan_model *model, struct plan *plan)
{
	for (size_t i = 0; i < plan->channel_count; i++) {
		const struct plan_channel *channel = &plan->channels[i];
		size_t last = model->gpus - 1, back = plan_hop_back(model, channel->order[last], channel->order[0]);

		if (model->returns && last && model->path_class[back] > plan->intra_class)
			plan->intra_class = model->path_class[back];

		for (size_t j = 0; j < model->gpus; j++) {
			size_t hop = plan_hop(model, channel->order[j], channel->order[(j + 1) % model->gpus]);

			if ((j < last || model->closed) && model->path_class[hop] > plan->intra_class)
				plan->intra_class = model->path_class[hop];
		}
		if (model->path_class[plan_hop_in(model, channel->nic_in, channel->order[0])] > plan->inter_class)
			plan->inter_class = model->path_class[plan_hop_in(model, channel->nic_in, channel->order[0])];
		if (model->path_class[plan_hop_out(model, channel->nic_out, channel->order[last])] > plan->inter_class)
			plan->inter_class =
				model->path_class[plan_hop_out(model, channel->nic_out, channel->order[last])];
	}
}

int plan_search_run(struct plan_search *search, uint64_t bound_Bps)
{
	search->bound_Bps = bound_Bps >= PLAN_UNBOUNDED_BPS ? (double)PLAN_UNBOUNDED_BPS : (double)bound_Bps;
	if (plan_search_seed(search)) {
		search->exact = true;
		return 0;
	}
	plan_search_pack(search);
	if (!plan_search_done(search))
		plan_search_relax(search);
	return plan_search_equal(search);
}

int plan_make(const struct topology *topology, const struct plan_request *request, enum plan_pattern pattern,
	      struct plan *ret)
{
	struct plan plan = { .pattern = pattern, .gpu_count = request->gpu_count };
	struct plan_search search = { 0 };
	struct plan_model model;
	uint64_t cuts_Bps;
	int r;

	if (pattern == PLAN_DIRECT)
		return plan_make_direct(topology, request, ret);
	r = plan_model_init(&model, topology, request, pattern);
	if (r < 0)
		return r;
	r = plan_cuts_bound(&model, &cuts_Bps);
	if (r == 0)
		r = plan_search_init(&search, &model, plan_work_limit(request));
	if (r == 0)
		r = plan_search_run(&search, cuts_Bps);
	if (r == 0) {
		plan_search_polish(&search, 1, model.channels_max);
		store_channels(&search, &plan);
		plan_store_classes(&model, &plan);
		plan.rate_Bps = search.best.capacity_Bps / search.best.load;
		plan.bound_Bps = plan_search_bound(&search, cuts_Bps);
		plan.exact = search.exact;
		plan.work = search.columns.work;
		*ret = plan;
	}
	plan_search_fini(&search);
	plan_model_fini(&model);
	return r;
}
