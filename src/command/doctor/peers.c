/* What stands between two GPUs, or a GPU and a NIC. */
#include "command/doctor/doctor.h"

#include "command/plan/channels.h"
#include "command/print/units.h"
#include "tributary/plan.h"

#include <stdio.h>
#include <string.h>

/* P2P must be slower by more than what two measurements differ. */
static const double SLOWER = 1.05;

void doctor_iommu(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	uint64_t translated = 0;
	size_t redirecting;
	char state[32];

	if (!doctor_next_fact(doctor, "iommu", &at, &fact) ||
	    !doctor_fact_value(&fact, "state", state, sizeof(state))) {
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the state of the IOMMU is not known");
		return;
	}
	(void)doctor_fact_number(&fact, "translated", &translated);
	if (strcmp(state, "translated") != 0 && strcmp(state, "mixed") != 0)
		return;
	redirecting = doctor_acs_into_iommu(doctor);
	if (redirecting)
		doctor_add(doctor, DOCTOR_WARNING, "machine",
			   "the IOMMU translates for %llu devices, and %zu ports send P2P through it (see acs)",
			   (unsigned long long)translated, redirecting);
	else
		doctor_add(doctor, DOCTOR_WARNING, "machine", "the IOMMU translates for %llu devices",
			   (unsigned long long)translated);
}

/* What the driver said of a pair; "" when nothing. */
static void p2p_status(struct doctor *doctor, const char *from, const char *to, char *ret, size_t ret_bytes)
{
	char begin[2 * TOPOLOGY_NAME_BYTES + 8];
	struct doctor_fact fact;
	const char *at = NULL;
	size_t bytes = (size_t)snprintf(begin, sizeof(begin), "p2p %s %s ", from, to);

	ret[0] = '\0';
	while (doctor_next_fact(doctor, "p2p", &at, &fact)) {
		if (bytes < sizeof(begin) && !strncmp(fact.line, begin, bytes) &&
		    doctor_fact_value(&fact, "status", ret, ret_bytes))
			return;
	}
}

static const char *reason_of(const char *status)
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

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		if (!strcmp(reasons[i].word, status))
			return reasons[i].reason;
	}
	return "the driver refuses it";
}

struct refusal {
	size_t count;
	char first[2 * TOPOLOGY_NAME_BYTES + 8], status[32];
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
	size_t total = 0, slices = 0;

	for (size_t i = 0; i < topology->pair_count; i++) {
		const struct topology_pair *pair = &topology->pairs[i];
		const char *from = topology->vertices[pair->from].name, *to = topology->vertices[pair->to].name;
		struct refusal *at = &refused[topology_class_of(topology, pair->from, pair->to)];

		total++;
		if (has_slice(topology, pair)) {
			slices++;
			continue;
		}
		if (pair->p2p_works || at->count++)
			continue;
		snprintf(at->first, sizeof(at->first), "%s>%s", from, to);
		p2p_status(doctor, from, to, at->status, sizeof(at->status));
	}
	for (int c = 0; c < TOPOLOGY_CLASS_COUNT; c++) {
		/* Across host bridges it often is by design; below one switch it is a loss. */
		enum doctor_severity severity = c < TOPOLOGY_CLASS_PHB ? DOCTOR_WARNING : DOCTOR_NOTE;

		if (refused[c].count)
			doctor_add(doctor, severity, refused[c].first, "P2P is refused in %zu pairs of class %s: %s",
				   refused[c].count, topology_class_word((enum topology_class)c),
				   reason_of(refused[c].status));
	}
	if (slices)
		doctor_add(doctor, DOCTOR_NOTE, "machine",
			   "in %zu pairs a GPU is a slice (MIG): slices have no P2P, and NCCL refuses a job with two "
			   "of one GPU",
			   slices);
	if (!total && doctor_count(topology, TOPOLOGY_GPU) > 1)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the driver was not asked, or nothing was measured");
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
	size_t measured = 0, count = 0, worst = 0;
	enum topology_class farthest;
	struct plan_request all;
	double worst_ratio = 1;

	if (plan_request_all(topology, &all) < 0)
		return;
	farthest = channels_p2p(topology, all.gpus, all.gpu_count);
	for (size_t i = 0; i < topology->pair_count; i++) {
		const struct topology_pair *pair = &topology->pairs[i];
		double ratio = p2p_ratio(pair);

		measured += ratio > 0;
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
			   measured);
	} else if (!measured && doctor_count(topology, TOPOLOGY_GPU) > 1) {
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "no pair of GPUs was measured both ways");
	}
	for (enum topology_class of = TOPOLOGY_CLASS_PHB; of <= TOPOLOGY_CLASS_SYS; of++)
		if (of > farthest)
			p2p_unused(doctor, &all, of);
}

void doctor_bar1(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;
	size_t known = 0;

	for (size_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *gpu = &topology->vertices[i];

		if (gpu->kind != TOPOLOGY_GPU || !gpu->gpu.bar1_bytes || !gpu->memory_bytes)
			continue;
		known++;
		if (gpu->gpu.bar1_bytes < gpu->memory_bytes / 2)
			doctor_add(doctor, DOCTOR_WARNING, gpu->name, "BAR1 is %llu MiB for %llu MiB of memory",
				   (unsigned long long)(gpu->gpu.bar1_bytes >> 20),
				   (unsigned long long)(gpu->memory_bytes >> 20));
	}
	if (!known && doctor_count(topology, TOPOLOGY_GPU))
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the driver did not say how large BAR1 is");
}

void doctor_hidden_gpu(struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char bus_id[64], reason[16];
	size_t hidden = 0;

	while (doctor_next_fact(doctor, "hidden-gpu", &at, &fact)) {
		hidden++;
		doctor_fact_subject(&fact, bus_id, sizeof(bus_id));
		if (doctor_fact_value(&fact, "reason", reason, sizeof(reason)) && !strcmp(reason, "no-slices"))
			doctor_add(doctor, DOCTOR_WARNING, bus_id,
				   "in MIG mode without a slice: make some (nvidia-smi mig), or leave the mode");
		else
			doctor_add(doctor, DOCTOR_WARNING, bus_id, "on the bus, but the driver does not show it");
	}
	if (hidden)
		return;
	if (!doctor_count(doctor->topology, TOPOLOGY_GPU))
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no GPU");
	else if (!doctor_has_facts(doctor))
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "the file does not say what else is on the bus");
}
