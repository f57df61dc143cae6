/* What a plan's channels carry where they are crossed in other ways than those that they were searched for. */
#include "plan/search.h"

#include "base/sys.h"

#include <errno.h>
#include <string.h>

struct weighed {
	struct plan_model model;
	const struct plan *plan;
	uint32_t *sums; /* of each row */
};

/* weighed_fini is due after an error, too. */
static int weighed_init(struct weighed *ret, const struct topology *topology, const struct plan_request *request,
			const struct plan *plan, enum plan_pattern pattern, unsigned hosts)
{
	struct plan_request here = *request;
	int r;

	here.hosts = hosts;
	*ret = (struct weighed){ .plan = plan };
	r = plan_model_init(&ret->model, topology, &here, pattern);
	if (r < 0)
		return r;
	ret->sums = sys_zalloc((ret->model.rows + 1) * sizeof(*ret->sums));
	return ret->sums ? 0 : -ENOMEM;
}

static void weighed_fini(struct weighed *weighed)
{
	sys_free(weighed->sums);
	plan_model_fini(&weighed->model);
}

static void weigh_hop(struct weighed *weighed, size_t hop, uint32_t times)
{
	const struct plan_model *model = &weighed->model;

	for (uint32_t i = model->first[hop]; i < model->first[hop + 1]; i++)
		weighed->sums[model->crossings[i].row] += times * model->crossings[i].count;
}

/* The rate at which the fullest row is full, if a sum counts 1/parts of it. The sums begin anew. */
static uint64_t rate_of(struct weighed *weighed, uint64_t parts)
{
	uint64_t rate_Bps = PLAN_UNBOUNDED_BPS;

	for (size_t row = 0; row < weighed->model.rows; row++) {
		uint64_t row_Bps = weighed->sums[row] ? parts * weighed->model.capacity_Bps[row] / weighed->sums[row]
						      : PLAN_UNBOUNDED_BPS;

		rate_Bps = row_Bps < rate_Bps ? row_Bps : rate_Bps;
		weighed->sums[row] = 0;
	}
	return rate_Bps;
}

/* By halves of an edge to another host, at each channel's first and second GPU. */
static uint64_t tree_rate(struct weighed *weighed, uint32_t first_halves, uint32_t second_halves)
{
	const struct plan_model *model = &weighed->model;

	for (size_t i = 0; i < weighed->plan->channel_count; i++) {
		const struct plan_channel *channel = &weighed->plan->channels[i];

		for (size_t j = 1; j < model->gpus; j++)
			weigh_hop(weighed, plan_hop(model, channel->order[j - 1], channel->order[j]), 2);
		weigh_hop(weighed, plan_hop_in(model, channel->nic_in, channel->order[0]), first_halves);
		weigh_hop(weighed, plan_hop_in(model, channel->nic_in, channel->order[1]), second_halves);
	}
	return rate_of(weighed, 2);
}

int plan_tree_balanced(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		       bool *ret)
{
	struct weighed weighed;
	int r = weighed_init(&weighed, topology, request, plan, PLAN_TREE, 2);

	if (r == 0)
		*ret = tree_rate(&weighed, 3, 1) >= tree_rate(&weighed, 4, 0);
	weighed_fini(&weighed);
	return r;
}

static uint64_t one_way_rate(struct weighed *weighed, unsigned back)
{
	const struct plan_model *model = &weighed->model;

	for (size_t i = 0; i < weighed->plan->channel_count; i++) {
		const uint8_t *order = weighed->plan->channels[i].order;

		for (size_t j = 1; j < model->gpus; j++)
			weigh_hop(weighed, plan_hop(model, order[j - !back], order[j - back]), 1);
	}
	return rate_of(weighed, 1);
}

int plan_one_way_rate(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		      uint64_t *ret_rate_Bps)
{
	struct weighed weighed;
	int r = weighed_init(&weighed, topology, request, plan, PLAN_RING, 1);

	if (r == 0) {
		uint64_t there_Bps = one_way_rate(&weighed, 0), back_Bps = one_way_rate(&weighed, 1);

		*ret_rate_Bps = there_Bps < back_Bps ? there_Bps : back_Bps;
	}
	weighed_fini(&weighed);
	return r;
}
