/* SPDX-License-Identifier: Apache-2.0 */
/*
 * railpairs: what rings that leave a host by another NIC than they came in by would bring on two hosts, if they went in
 * pairs (one comes in by A and leaves by B, the other the other way round), as NCCL plans them by default. By the planner
 * and its judge alone, for machines in the text form of `tributary discover`. Needs no network.
 *
 * A pair is a ring of the planner's, made without the rule that it leaves as it came, and the same ring backwards.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tributary/plan.h"
#include "tributary/topology.h"

enum {
	TEXT_BYTES = 1 << 20,
	DEVIATIONS = 5,
	STRIDE = 5, /* of the subsets of eight GPUs */
};

struct outcome {
	unsigned cases, above_1, above_10; /* per cent more */
	double sum, most, all;             /* of the gain; all: of all GPUs */
};

/* Links are as they are, or 60 to 100 % of that, by a seed. */
static void deviate(struct topology *topology, unsigned seed)
{
	uint64_t state = seed;

	for (size_t i = 0; seed && i < topology->link_count; i++)
		for (int k = 0; k < 2; k++) {
			uint64_t *rate_Bps = &topology->links[i].capacity[k].rate_Bps;

			state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			*rate_Bps = *rate_Bps / 100 * (60 + (state >> 33) % 41);
		}
}

/* In all by all rings; 0: there are none, or too many to be doubled. */
static double paired_Bps(const struct topology *topology, const struct plan_request *request, const struct plan *plan)
{
	struct plan pairs = *plan;
	uint64_t rate_Bps = 0;
	struct diag diag;

	if (plan->channel_count * 2 > PLAN_CHANNELS_MAX)
		return 0;
	for (size_t i = 0; i < plan->channel_count; i++) {
		const struct plan_channel *from = &plan->channels[i];
		struct plan_channel *back = &pairs.channels[2 * i + 1];

		pairs.channels[2 * i] = *from;
		*back = *from;
		back->nic_in = from->nic_out;
		back->nic_out = from->nic_in;
		for (size_t k = 0; k < request->gpu_count; k++)
			back->order[k] = from->order[request->gpu_count - 1 - k];
	}
	pairs.channel_count *= 2;
	pairs.crossnic = true;
	if (plan_verify_rate(topology, request, &pairs, &rate_Bps, &diag) < 0)
		return 0;
	return (double)rate_Bps * (double)pairs.channel_count;
}

static void compare(const struct topology *topology, struct plan_request *request, struct outcome *outcome)
{
	static struct plan same, other;
	double gain;

	request->p2p_farthest = plan_p2p_default(topology, request->gpus, request->gpu_count);
	request->crossnic = false;
	if (plan_make(topology, request, PLAN_RING, &same) < 0)
		return;
	request->crossnic = true;
	if (plan_make(topology, request, PLAN_RING, &other) < 0)
		return;
	gain = paired_Bps(topology, request, &other) / (double)plan_total_Bps(&same);
	gain = gain > 1 ? gain : 1;
	outcome->cases++;
	outcome->above_1 += gain > 1.01;
	outcome->above_10 += gain > 1.1;
	outcome->sum += gain;
	outcome->most = gain > outcome->most ? gain : outcome->most;
	outcome->all = gain;
}

static int machine(const char *path, const char *text, size_t bytes, unsigned seed)
{
	static struct topology topology;
	struct outcome outcome = { .cases = 0 };
	struct plan_request all, request;
	struct diag diag;
	unsigned whole;

	if (topology_read(text, bytes, &topology, &diag) < 0) {
		fprintf(stderr, "%s: %s\n", path, diag.text);
		return 1;
	}
	deviate(&topology, seed);
	if (plan_request_all(&topology, &all) < 0 || all.nic_count < 2 || all.gpu_count > 8)
		return 0;
	all.hosts = 2;
	whole = (1U << all.gpu_count) - 1;
	for (unsigned set = 3; set <= whole; set++) {
		if (all.gpu_count == 8 && set != whole && set % STRIDE)
			continue;
		request = all;
		request.gpu_count = 0;
		for (size_t i = 0; i < all.gpu_count; i++)
			if (set >> i & 1U)
				request.gpus[request.gpu_count++] = all.gpus[i];
		if (request.gpu_count > 1)
			compare(&topology, &request, &outcome);
	}
	printf("%-56s %-9s %5u %9u %9u %9.3f %9.3f %9.3f\n", path, seed ? "deviates" : "as it is", outcome.cases,
	       outcome.above_1, outcome.above_10, outcome.all, outcome.sum / outcome.cases, outcome.most);
	return 0;
}

int main(int argc, char **argv)
{
	static char text[TEXT_BYTES];
	int failed = argc < 2;

	if (argc < 2)
		fprintf(stderr, "railpairs TOPOLOGY...: machines of up to 8 GPUs with two NICs or more\n");
	else
		printf("%-56s %-9s %5s %9s %9s %9s %9s %9s\n",
		       "two hosts, rings in pairs over rings that leave as they came", "links", "sets", "> 1.01",
		       "> 1.1", "all GPUs", "mean", "most");
	for (int i = 1; i < argc; i++) {
		FILE *file = fopen(argv[i], "r");
		size_t bytes;

		if (!file) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
			failed = 1;
			continue;
		}
		bytes = fread(text, 1, sizeof(text), file);
		fclose(file);
		for (unsigned seed = 0; seed <= DEVIATIONS; seed++)
			failed |= machine(argv[i], text, bytes, seed);
	}
	return failed ? 2 : 0;
}
