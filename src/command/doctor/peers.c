/* SPDX-License-Identifier: Apache-2.0 */
/* What stands between two GPUs, or a GPU and a NIC. */
#include "command/doctor/doctor.h"

#include "command/plan/channels.h"
#include "command/print/units.h"
#include "tributary/plan.h"

#include <stdio.h>
#include <string.h>

/* P2P must be slower by more than what two measurements differ. */
static const double SLOWER = 1.05;

/* Why the driver refuses P2P between two GPUs, a clause. */
static const char *reason_of(const struct doctor *doctor, const char *from, const char *to)
{
	static const struct {
		const char *word, *reason;
	} reasons[] = {
		{ "chipset", "the chipset does not support it" },
		{ "gpu", "the GPU does not support it" },
		{ "bridges", "the host bridges do not support it" },
		{ "setting", "a setting of the driver forbids it" },
		{ "unsupported", "it is not supported" },
	};
	struct doctor_fact fact = { .what = "p2p" };

	while (doctor_next_fact(doctor, &fact)) {
		/* The line begins with both. */
		if (strcmp(fact.subject, from) != 0 || strcmp(fact.subject + strlen(from) + 1, to) != 0)
			continue;
		for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
			if (doctor_fact_is(&fact, "status", reasons[i].word))
				return reasons[i].reason;
	}
	return "the driver refuses it";
}

struct refusal {
	size_t count;
	char first[2 * TOPOLOGY_NAME_BYTES];
	const char *reason;
};

static bool has_slice(const struct topology *topology, const struct topology_pair *pair)
{
	return topology->vertices[pair->from].gpu.mig >= 0 || topology->vertices[pair->to].gpu.mig >= 0;
}

/* One finding for all pairs of a class: with eight GPUs there are 56 of them. */
void doctor_p2p_refused(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;
	struct refusal refused[TOPOLOGY_CLASS_COUNT] = { 0 };
	size_t slices = 0;

	doctor->known = topology->pair_count;
	for (size_t i = 0; i < topology->pair_count; i++) {
		const struct topology_pair *pair = &topology->pairs[i];
		const char *from = topology->vertices[pair->from].name, *to = topology->vertices[pair->to].name;
		struct refusal *at = &refused[topology_class_of(topology, pair->from, pair->to)];

		if (has_slice(topology, pair)) {
			slices++;
			continue;
		}
		if (pair->p2p_works || at->count++)
			continue;
		snprintf(at->first, sizeof(at->first), "%s>%s", from, to);
		at->reason = reason_of(doctor, from, to);
	}
	for (int c = 0; c < TOPOLOGY_CLASS_COUNT; c++) {
		/* Across host bridges it often is by design; below one switch it is a loss. */
		enum doctor_severity severity = c < TOPOLOGY_CLASS_PHB ? DOCTOR_WARNING : DOCTOR_NOTE;

		if (refused[c].count)
			doctor_add(doctor, severity, refused[c].first, "P2P is refused in %zu pairs of class %s: %s",
				   refused[c].count, topology_class_word((enum topology_class)c), refused[c].reason);
	}
	if (slices)
		doctor_add(doctor, DOCTOR_NOTE, "machine",
			   "in %zu pairs a GPU is a slice (MIG): slices have no P2P, and NCCL refuses a job with two "
			   "of one GPU",
			   slices);
}

/* By the measurement of one pair: how many times as fast P2P is as host memory; 0: not known. */
static double p2p_ratio(const struct topology_pair *pair)
{
	if (!pair->p2p_works || !pair->p2p.rate_Bps || !pair->host.rate_Bps)
		return 0;
	return (double)pair->p2p.rate_Bps / (double)pair->host.rate_Bps;
}

/* GPUs that NCCL joins through host memory although P2P is faster, and that no topology file of ours brings together. */
static void p2p_unused(struct doctor *doctor, const struct plan_request *all, enum topology_class path_class)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	const struct topology_pair *first = NULL;
	char name[2 * TOPOLOGY_NAME_BYTES];
	size_t faster = 0;

	for (size_t i = 0; i < all->gpu_count * all->gpu_count; i++) {
		uint32_t from = all->gpus[i / all->gpu_count], to = all->gpus[i % all->gpu_count], index;
		double ratio;

		if (from == to || topology_class_of(topology, from, to) != path_class)
			continue;
		index = topology_find_pair(topology, from, to);
		ratio = index == TOPOLOGY_NONE ? 0 : p2p_ratio(&topology->pairs[index]);
		if (ratio < 1)
			return;
		if (ratio > SLOWER && !faster++)
			first = &topology->pairs[index];
	}
	if (!first)
		return;
	snprintf(name, sizeof(name), "%s>%s", topology->vertices[first->from].name, topology->vertices[first->to].name);
	doctor_add(doctor, DOCTOR_NOTE, name,
		   "P2P %s GB/s, through host memory %s GB/s, which NCCL takes (class %s); so in %zu pairs",
		   units_GBps(first->p2p.rate_Bps, rate), units_GBps(first->host.rate_Bps, other),
		   topology_class_word(path_class), faster);
}

void doctor_p2p_slow(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	size_t count = 0, worst = 0;
	enum topology_class farthest;
	struct plan_request all;
	double worst_ratio = 1;

	if (plan_request_all(topology, &all) < 0)
		return;
	farthest = channels_p2p(topology, all.gpus, all.gpu_count);
	for (size_t i = 0; i < topology->pair_count; i++) {
		const struct topology_pair *pair = &topology->pairs[i];
		double ratio = p2p_ratio(pair);

		doctor->known += ratio > 0;
		/* Beyond, NCCL goes through host memory anyway. */
		if (ratio <= 0 || topology_class_of(topology, pair->from, pair->to) > farthest)
			continue;
		count += ratio * SLOWER < 1;
		if (ratio < worst_ratio) {
			worst_ratio = ratio;
			worst = i;
		}
	}
	if (count) {
		const struct topology_pair *pair = &topology->pairs[worst];
		char name[2 * TOPOLOGY_NAME_BYTES];

		snprintf(name, sizeof(name), "%s>%s", topology->vertices[pair->from].name,
			 topology->vertices[pair->to].name);
		doctor_add(doctor, DOCTOR_WARNING, name,
			   "P2P %s GB/s, through host memory %s GB/s; so in %zu of %zu pairs",
			   units_GBps(pair->p2p.rate_Bps, rate), units_GBps(pair->host.rate_Bps, other), count,
			   doctor->known);
	}
	for (enum topology_class of = TOPOLOGY_CLASS_PHB; of <= TOPOLOGY_CLASS_SYS; of++)
		if (of > farthest)
			p2p_unused(doctor, &all, of);
}

void doctor_bar1(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;

	for (size_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *gpu = &topology->vertices[i];

		if (gpu->kind != TOPOLOGY_GPU || !gpu->gpu.bar1_bytes || !gpu->memory_bytes)
			continue;
		doctor->known++;
		if (gpu->gpu.bar1_bytes < gpu->memory_bytes / 2)
			doctor_add(doctor, DOCTOR_WARNING, gpu->name, "BAR1 is %llu MiB for %llu MiB of memory",
				   (unsigned long long)(gpu->gpu.bar1_bytes >> 20),
				   (unsigned long long)(gpu->memory_bytes >> 20));
	}
}

void doctor_hidden_gpu(struct doctor *doctor)
{
	struct doctor_fact fact = { .what = "hidden-gpu" };
	size_t hidden = 0;

	for (; doctor_next_fact(doctor, &fact); hidden++)
		doctor_add(doctor, DOCTOR_WARNING, fact.subject, "%s",
			   doctor_fact_is(&fact, "reason", "no-slices")
				   ? "in MIG mode without a slice: make some (nvidia-smi mig), or leave the mode"
				   : "on the bus, but the driver does not show it");
	if (hidden)
		return;
	if (!topology_count(doctor->topology, TOPOLOGY_GPU))
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no GPU");
	else if (!doctor_has_facts(doctor))
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the file does not say what else is on the bus");
}
