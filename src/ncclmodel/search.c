/* SPDX-License-Identifier: Apache-2.0 */
#include "ncclmodel/search.h"

#include "base/log.h"
#include "ncclmodel/paths.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	CHANNELS_MOST = 32,  /* nccl: half of MAXCHANNELS */
	TRIES_SAME = 1 << 8, /* GPUs placed for channels that are all alike, and for others; nccl has as many */
	TRIES_DIFFERENT = 1 << 14,
};

static const double TOLERANCE_GBps = 0.0005; /* nccl rounds to a thousandth */
static const double SLOWEST_WORTH = 0.49;    /* of the speed that was found: slower ones are not tried */
static const double FALLBACK_GBps = 0.1;

/* nccl: graph/search.cc, speedArray*; fastest first, 0 ends. By compute capability, inside a host and between hosts. */
static const double speeds[3][2][20] = {
	{ { 40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3 },
	  { 48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12 } },
	{ { 60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3 },
	  { 48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12 } },
	{ { 90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18 },
	  { 96, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12 } },
};

struct search {
	struct ncclmodel_paths paths;
	enum plan_pattern pattern;
	size_t gpu_count, least, most; /* channels: at least, at most */
	bool inter, same;              /* same: all channels are copies of one */
	bool balanced;                 /* trees: one child hangs at the second GPU */
	bool crossing; /* channels may leave by another NIC than they came by; the next ring goes back */
	double intra_GBps, inter_GBps;
	enum topology_class farthest;
	unsigned tries; /* left */
	struct plan_channel channels[CHANNELS_MOST];
	size_t channel_count;
	uint32_t used; /* GPUs of the channel at hand */
	/* The best at these speeds. */
	struct plan_channel best[CHANNELS_MOST];
	size_t best_count, best_copies;
};

/* ----------------------------------------------------------------------------------------------------------- charge */

static void give_back(struct search *search, const struct ncclmodel_hop *hop, size_t count, double GBps)
{
	for (size_t i = 0; i < count; i++)
		search->paths.residual_GBps[hop->rows[i]] += hop->parts[i] * GBps;
}

static bool take(struct search *search, const struct ncclmodel_hop *hop, double GBps)
{
	for (size_t i = 0; i < hop->count; i++) {
		double *room = &search->paths.residual_GBps[hop->rows[i]];

		if (*room + TOLERANCE_GBps < hop->parts[i] * GBps) {
			give_back(search, hop, i, GBps);
			return false;
		}
		*room -= hop->parts[i] * GBps;
	}
	return true;
}

/* One hop of a channel and what it moves. */
struct step {
	const struct ncclmodel_hop *hop;
	double GBps;
};

/* From the last GPU on: back to the first, or to the NIC. NCCL charges a tree's way down alone, and half of it back. */
static size_t closing_steps(const struct search *search, const struct plan_channel *channel, struct step *steps)
{
	const struct ncclmodel_paths *paths = &search->paths;
	size_t last = search->gpu_count - 1;

	if (search->pattern == PLAN_RING && !search->inter && last) {
		steps[0] = (struct step){ &paths->between[channel->order[last]][channel->order[0]],
					  search->intra_GBps };
		return 1;
	}
	if (!search->inter)
		return 0;
	if (search->pattern == PLAN_RING || !search->balanced || !last) {
		size_t end = search->pattern == PLAN_RING ? last : 0;

		steps[0] = (struct step){ &paths->out[channel->order[end]][channel->nic_out], search->inter_GBps };
		return 1;
	}
	for (size_t i = 0; i < 2; i++)
		steps[i] = (struct step){ &paths->out[channel->order[i]][channel->nic_out], search->inter_GBps / 2 };
	return 2;
}

static size_t all_steps(const struct search *search, const struct plan_channel *channel, struct step *steps)
{
	const struct ncclmodel_paths *paths = &search->paths;
	size_t count = 0;

	if (search->inter)
		steps[count++] = (struct step){ &paths->in[channel->nic_in][channel->order[0]], search->inter_GBps };
	for (size_t i = 0; i + 1 < search->gpu_count; i++)
		steps[count++] = (struct step){ &paths->between[channel->order[i]][channel->order[i + 1]],
						search->intra_GBps };
	return count + closing_steps(search, channel, steps + count);
}

static void give_back_steps(struct search *search, const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++)
		give_back(search, steps[i].hop, steps[i].hop->count, steps[i].GBps);
}

static bool take_steps(struct search *search, const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (steps[i].hop->path_class != TOPOLOGY_CLASS_DIS && take(search, steps[i].hop, steps[i].GBps))
			continue;
		give_back_steps(search, steps, i);
		return false;
	}
	return true;
}

/* ----------------------------------------------------------------------------------------------------------- search */

enum { STEPS_MAX = PLAN_GPUS_MAX + 4 };

static bool finished(const struct search *search)
{
	return !search->tries || search->best_count * search->best_copies >= search->most;
}

static void keep(struct search *search, size_t copies)
{
	if (search->channel_count * copies <= search->best_count * search->best_copies ||
	    search->channel_count * copies < search->least)
		return;
	memcpy(search->best, search->channels, sizeof(search->best));
	search->best_count = search->channel_count;
	search->best_copies = copies;
}

/* How often the whole channel at hand fits once more. */
static size_t fits_again(struct search *search, const struct plan_channel *channel)
{
	struct step steps[STEPS_MAX];
	size_t count = all_steps(search, channel, steps), copies = 0;

	while (copies + 1 < search->most && take_steps(search, steps, count))
		copies++;
	for (size_t i = 0; i < copies; i++)
		give_back_steps(search, steps, count);
	return copies;
}

static void begin_channel(struct search *search);

/* All GPUs are in the channel at hand: close it, and see what else fits. */
static void close_channel(struct search *search)
{
	struct plan_channel *channel = &search->channels[search->channel_count];
	uint32_t used = search->used;
	struct step steps[STEPS_MAX];
	size_t count = closing_steps(search, channel, steps);

	if (!take_steps(search, steps, count))
		return;
	search->channel_count++;
	/* A copy of one that crosses would begin at the other NIC. */
	keep(search, search->same && !search->crossing ? 1 + fits_again(search, channel) : 1);
	if (!search->same && search->channel_count < search->most) {
		search->used = 0;
		begin_channel(search);
		search->used = used;
	}
	search->channel_count--;
	give_back_steps(search, steps, count);
}

/* By which NICs the channel at hand comes and goes is decided by the one before. */
static bool goes_back(const struct search *search)
{
	return search->crossing && search->pattern == PLAN_RING && search->channel_count % 2;
}

/* By the NIC that it came by, or by each, the nearest first. */
static void end_channel(struct search *search)
{
	struct plan_channel *channel = &search->channels[search->channel_count];
	uint8_t end = channel->order[search->pattern == PLAN_RING ? search->gpu_count - 1 : 0];

	if (!search->crossing) {
		close_channel(search);
		return;
	}
	for (int path_class = 0; path_class < TOPOLOGY_CLASS_DIS; path_class++) {
		for (size_t i = 0; i < search->paths.request->nic_count; i++) {
			if ((int)search->paths.out[end][i].path_class != path_class ||
			    (goes_back(search) && i != channel[-1].nic_in))
				continue;
			channel->nic_out = (uint8_t)i;
			close_channel(search);
		}
	}
}

/* Places a GPU in the channel at hand and goes on. What it takes is checked at once, to cut the search. */
static void grow(struct search *search, size_t place, uint8_t gpu, bool in_order)
{
	struct plan_channel *channel = &search->channels[search->channel_count];
	struct step step = { NULL, place ? search->intra_GBps : search->inter_GBps };

	if (finished(search))
		return;
	if (place)
		step.hop = &search->paths.between[channel->order[place - 1]][gpu];
	else if (search->inter)
		step.hop = &search->paths.in[channel->nic_in][gpu];
	if (step.hop && ((place && step.hop->path_class > search->farthest) || !take_steps(search, &step, 1)))
		return;
	search->tries -= !(in_order && search->inter);
	channel->order[place] = gpu;
	search->used |= 1U << gpu;
	if (place + 1 == search->gpu_count)
		end_channel(search);
	else if (in_order)
		grow(search, place + 1, (uint8_t)(gpu + 1), true);
	for (size_t i = 0; i < search->paths.next_count && !in_order && place + 1 < search->gpu_count; i++)
		if (!(search->used & (1U << search->paths.next[gpu][i])))
			grow(search, place + 1, search->paths.next[gpu][i], false);
	search->used &= ~(1U << gpu);
	if (step.hop)
		give_back_steps(search, &step, 1);
}

/* The GPUs by which a channel may begin at its NIC, the nearest first. */
static void begin_at_nic(struct search *search, uint8_t nic)
{
	struct plan_channel *channel = &search->channels[search->channel_count];

	channel->nic_in = channel->nic_out = nic;
	if (!search->channel_count)
		grow(search, 0, 0, true);
	for (int path_class = 0; path_class < TOPOLOGY_CLASS_DIS; path_class++)
		for (size_t i = 0; i < search->gpu_count; i++)
			if ((int)search->paths.in[nic][i].path_class == path_class)
				grow(search, 0, (uint8_t)i, false);
}

/* The GPUs in order first, as they are numbered; each channel of several hosts begins at the next NIC. */
static void begin_channel(struct search *search)
{
	size_t nics = search->paths.request->nic_count;
	struct plan_channel *channel = &search->channels[search->channel_count];

	memset(channel, 0, sizeof(*channel));
	for (size_t i = 0; search->inter && i < nics; i++) {
		size_t nic = (search->channel_count + i) % nics;

		if (!goes_back(search) || nic == channel[-1].nic_out)
			begin_at_nic(search, (uint8_t)nic);
	}
	if (search->inter)
		return;
	if (!search->channel_count)
		grow(search, 0, 0, true);
	for (size_t i = 0; i < (search->pattern == PLAN_RING ? 1 : search->gpu_count); i++)
		grow(search, 0, (uint8_t)i, false);
}

/* --------------------------------------------------------------------------------------------------------- speeds */

static size_t channels_of(const struct search *search)
{
	return search->best_count * search->best_copies;
}

/* The most channels at these speeds; kept in best. */
static void try_speeds(struct search *search, double intra_GBps, double inter_GBps)
{
	bool crosses = search->inter && search->paths.request->nic_count > 1 &&
		       (search->pattern == PLAN_RING || search->balanced);

	search->intra_GBps = intra_GBps;
	search->inter_GBps = inter_GBps;
	search->best_count = search->best_copies = 0;
	for (int way = 0; way < (crosses ? 4 : 2); way++) {
		bool different = way % 2 == 1;

		search->crossing = way > 1;
		search->same = !different;
		/* nccl: channels that differ are not tried across the sockets of AMD's CPUs. */
		search->farthest = different && search->paths.amd && search->paths.farthest > TOPOLOGY_CLASS_PHB
					   ? TOPOLOGY_CLASS_PHB
					   : search->paths.farthest;
		search->tries = different ? TRIES_DIFFERENT : TRIES_SAME;
		search->channel_count = 0;
		search->used = 0;
		begin_channel(search);
	}
}

static void take_best(const struct search *search, struct ncclmodel_graph *graph)
{
	size_t count = search->best_count < PLAN_CHANNELS_MAX ? search->best_count : PLAN_CHANNELS_MAX;

	graph->copies = search->best_copies;
	graph->intra_GBps = search->intra_GBps;
	graph->inter_GBps = search->inter_GBps;
	graph->plan.channel_count = count;
	memcpy(graph->plan.channels, search->best, count * sizeof(search->best[0]));
}

static size_t graph_channels(const struct ncclmodel_graph *graph)
{
	return graph->plan.channel_count * graph->copies;
}

static const double *speeds_for(const struct search *search)
{
	return speeds[search->paths.sm >= 100 ? 2 : search->paths.sm >= 90 ? 1 : 0][search->inter];
}

/* From the fastest on that the machine could have, to the slowest that could still be better; returns its place. */
static void slow_down(struct search *search, struct ncclmodel_graph *best)
{
	const double *list = speeds_for(search);
	double own_GBps = search->paths.gpu_GBps;
	size_t at = 0;

	if (search->pattern != PLAN_RING && search->gpu_count > 1)
		own_GBps *= (double)search->gpu_count / (double)(search->gpu_count - 1);
	while (list[at + 1] > 0 && (list[at] > search->paths.most_GBps || list[at] * (double)search->least > own_GBps))
		at++;
	for (; list[at] > 0; at++) {
		double total = (double)graph_channels(best) * best->intra_GBps;

		if (graph_channels(best) && list[at] <= SLOWEST_WORTH * best->inter_GBps)
			return;
		try_speeds(search, list[at], list[at]);
		if ((double)channels_of(search) * list[at] > total)
			take_best(search, best);
		if (graph_channels(best) >= search->most ||
		    (double)graph_channels(best) * best->inter_GBps >= search->paths.gpu_GBps)
			return;
	}
}

/* nccl: fast channels are doubled at half the speed, where there are not many yet. */
static void double_fast(const struct search *search, struct ncclmodel_graph *best)
{
	size_t channels = graph_channels(best), factor = channels * 2 <= search->most ? 2 : 1;

	if (best->intra_GBps < 25 || (search->paths.sm > 80 && best->intra_GBps < 50 && channels > 4))
		return;
	best->copies *= factor;
	best->intra_GBps /= (double)factor;
	best->inter_GBps /= (double)factor;
}

/* As many channels a little faster; of trees between hosts, inside the host alone. */
static void speed_up(struct search *search, struct ncclmodel_graph *best)
{
	const double *list = speeds_for(search);
	size_t at = 0;

	while (list[at + 1] > 0 && list[at] > best->inter_GBps)
		at++;
	while (at-- > 0) {
		bool ring = search->pattern == PLAN_RING;

		if (!ring && best->intra_GBps >= 2 * best->inter_GBps)
			return;
		try_speeds(search, list[at], ring ? list[at] : best->inter_GBps);
		if (channels_of(search) >= graph_channels(best) &&
		    (double)channels_of(search) * list[at] > (double)graph_channels(best) * best->intra_GBps)
			take_best(search, best);
		else if (!ring)
			return;
	}
}

static void fall_back(struct search *search, struct ncclmodel_graph *graph)
{
	graph->fallback = true;
	graph->copies = graph->plan.channel_count = 1;
	graph->intra_GBps = graph->inter_GBps = FALLBACK_GBps;
	for (size_t i = 0; i < search->gpu_count; i++)
		graph->plan.channels[0].order[i] = (uint8_t)i;
}

/* The farthest hops of the channels, in NCCL's sense. */
static void set_classes(const struct search *search, struct plan *plan)
{
	const struct ncclmodel_paths *paths = &search->paths;

	plan->intra_class = plan->inter_class = TOPOLOGY_CLASS_LOC;
	for (size_t c = 0; c < plan->channel_count; c++) {
		const struct plan_channel *channel = &plan->channels[c];
		size_t end = plan->pattern == PLAN_RING ? search->gpu_count - 1 : 0;

		for (size_t i = 0; i < search->gpu_count; i++) {
			size_t next = (i + 1) % search->gpu_count;
			enum topology_class at = paths->between[channel->order[i]][channel->order[next]].path_class;

			if ((next || (plan->pattern == PLAN_RING && !search->inter)) && at > plan->intra_class)
				plan->intra_class = at;
		}
		if (search->inter && paths->in[channel->nic_in][channel->order[0]].path_class > plan->inter_class)
			plan->inter_class = paths->in[channel->nic_in][channel->order[0]].path_class;
		if (search->inter && paths->out[channel->order[end]][channel->nic_out].path_class > plan->inter_class)
			plan->inter_class = paths->out[channel->order[end]][channel->nic_out].path_class;
	}
}

static void run(struct search *search, struct ncclmodel_graph *ret)
{
	struct ncclmodel_graph best = { .plan = { .pattern = search->pattern, .gpu_count = search->gpu_count } };

	slow_down(search, &best);
	if (graph_channels(&best)) {
		double_fast(search, &best);
		speed_up(search, &best);
	} else {
		fall_back(search, &best);
	}
	best.plan.rate_Bps = (uint64_t)(fmin(best.intra_GBps, best.inter_GBps) * 1e9);
	set_classes(search, &best.plan);
	*ret = best;
}

/* By the verifier, which says what a request may be. */
static bool is_good(const struct topology *topology, const struct plan_request *request)
{
	struct plan plan = { .pattern = PLAN_TREE, .gpu_count = request->gpu_count, .channel_count = 1 };
	struct diag diag;
	uint64_t rate_Bps;

	for (size_t i = 0; i < request->gpu_count && i < PLAN_GPUS_MAX; i++)
		plan.channels[0].order[i] = (uint8_t)i;
	return plan_verify_rate(topology, request, &plan, &rate_Bps, &diag) == 0;
}

/* Two groups of GPUs that NVLink joins: trees need two channels there, and NCCL wants as many rings. */
static bool has_two_groups(const struct ncclmodel_paths *paths)
{
	size_t gpu_count = paths->request->gpu_count, group[PLAN_GPUS_MAX], size[PLAN_GPUS_MAX] = { 0 }, groups = 0;

	for (size_t i = 0; i < gpu_count; i++)
		group[i] = i;
	for (size_t i = 0; i < gpu_count; i++)
		for (size_t j = i + 1; j < gpu_count; j++)
			if (paths->between[i][j].path_class == TOPOLOGY_CLASS_NVL)
				group[j] = group[i];
	for (size_t i = 0; i < gpu_count; i++)
		groups += ++size[group[i]] == 2;
	return groups == 2;
}

static int find(const struct topology *topology, const struct plan_request *request, enum plan_pattern pattern,
		size_t least, size_t most, struct ncclmodel_graph *ret)
{
	struct search *search = calloc(1, sizeof(*search));
	int r;

	if (!search)
		return -ENOMEM;
	r = ncclmodel_paths_init(topology, request, &search->paths);
	if (r == 0) {
		search->pattern = pattern;
		search->gpu_count = request->gpu_count;
		search->inter = request->hosts > 1;
		search->least = pattern == PLAN_RING && has_two_groups(&search->paths) ? 2 : least;
		search->most = most;
		search->balanced = pattern == PLAN_TREE && request->gpu_count > 1;
		run(search, ret);
		ncclmodel_paths_fini(&search->paths);
	}
	free(search);
	return r;
}

/* The first `count` channels, as NCCL leaves them when another graph has fewer. */
static void cut(struct ncclmodel_graph *graph, size_t count)
{
	struct plan *plan = &graph->plan;

	if (count >= graph_channels(graph))
		return;
	if (count % plan->channel_count == 0) {
		graph->copies = count / plan->channel_count;
		return;
	}
	for (size_t i = plan->channel_count; i < count && i < PLAN_CHANNELS_MAX; i++)
		plan->channels[i] = plan->channels[i - plan->channel_count];
	plan->channel_count = count < PLAN_CHANNELS_MAX ? count : PLAN_CHANNELS_MAX;
	graph->copies = 1;
}

int ncclmodel_choose(const struct topology *topology, const struct plan_request *request, struct ncclmodel_choice *ret)
{
	struct ncclmodel_choice choice;
	int r;

	if (!is_good(topology, request))
		return -EINVAL;
	r = find(topology, request, PLAN_RING, 1, CHANNELS_MOST, &choice.ring);
	/* nccl: init.cc; as many trees as rings. */
	if (r == 0)
		r = find(topology, request, PLAN_TREE, graph_channels(&choice.ring), graph_channels(&choice.ring),
			 &choice.tree);
	if (r != 0)
		return r;
	choice.channel_count = graph_channels(&choice.ring) < graph_channels(&choice.tree)
				       ? graph_channels(&choice.ring)
				       : graph_channels(&choice.tree);
	cut(&choice.ring, choice.channel_count);
	cut(&choice.tree, choice.channel_count);
	*ret = choice;
	return 0;
}
