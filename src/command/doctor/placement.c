/* SPDX-License-Identifier: Apache-2.0 */
/* Where devices sit. */
#include "command/doctor/doctor.h"

#include "command/print/reach.h"
#include "command/print/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this, devices below a switch ask for more than its uplink has even when only half of them send. */
static const double OVERSUBSCRIBED_NOTE = 1.5, OVERSUBSCRIBED_WARNING = 4;
/* NICs together may ask for this part of the uplink, or more, before it is said. */
static const double SHARED = 1.1;

/* Whether `above` is on the way from vertex to its CPU, or is it. */
static bool is_above(const struct topology *topology, uint32_t above, uint32_t vertex)
{
	/* A graph from a file may be a ring where a tree is meant. */
	for (size_t steps = 0; vertex != TOPOLOGY_NONE && steps <= topology->vertex_count; steps++) {
		if (vertex == above)
			return true;
		vertex = doctor_above(topology, vertex);
	}
	return false;
}

static bool is_fast(const struct topology_vertex *vertex)
{
	return vertex->kind == TOPOLOGY_NIC && (vertex->nic.rdma || vertex->nic.speed_Bps >= 1250000000);
}

/* The NICs that carry traffic between hosts: RDMA, or at least 10 Gbit/s; where there are none, all of them. */
static bool is_fast_nic(const struct topology *topology, uint32_t vertex)
{
	if (is_fast(&topology->vertices[vertex]))
		return true;
	for (size_t i = 0; i < topology->vertex_count; i++) {
		if (is_fast(&topology->vertices[i]))
			return false;
	}
	return topology->vertices[vertex].kind == TOPOLOGY_NIC;
}

/* What was asked for GPUs and NICs. */
static void sources(const struct doctor *doctor, char *text, size_t text_bytes)
{
	struct doctor_fact fact;
	bool works = doctor_find_fact(doctor, "nvml", NULL, &fact) && doctor_fact_is(&fact, "state", "works");

	if (!doctor_has_facts(doctor))
		snprintf(text, text_bytes, "in the file, which is all that there is");
	else
		snprintf(text, text_bytes, "among the PCI devices that /sys %s; NVML, the driver's library, %s",
			 doctor->from_file ? "showed there" : "shows here",
			 works ? "works" : "is not there or finds no driver");
}

void doctor_devices(struct doctor *doctor)
{
	size_t gpus = topology_count(doctor->topology, TOPOLOGY_GPU),
	       nics = topology_count(doctor->topology, TOPOLOGY_NIC);
	char looked[160];

	sources(doctor, looked, sizeof(looked));
	if (!gpus && !nics)
		doctor_add(doctor, DOCTOR_WARNING, "machine", "no GPU and no NIC was found %s", looked);
	else if (!gpus || !nics)
		doctor_add(doctor, DOCTOR_NOTE, "machine", "no %s was found %s", gpus ? "NIC" : "GPU", looked);
	else
		doctor_add(doctor, DOCTOR_GOOD, "machine", "%zu GPU%s and %zu NIC%s", gpus, gpus == 1 ? "" : "s", nics,
			   nics == 1 ? "" : "s");
	if (doctor->from_file && doctor->result >= 0)
		doctor->report.at[doctor->report.count - 1].remedy =
			"See whether the file is the right one: `tributary capture` on the machine itself writes one "
			"with all that doctor reads.";
}

void doctor_gpu_nic(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;

	for (uint32_t gpu = 0; gpu < topology->vertex_count; gpu++) {
		enum topology_class best = TOPOLOGY_CLASS_DIS;
		uint32_t nearest = TOPOLOGY_NONE;

		if (topology->vertices[gpu].kind != TOPOLOGY_GPU || topology_is_later_slice(topology, gpu))
			continue;
		for (uint32_t nic = 0; nic < topology->vertex_count; nic++) {
			enum topology_class path_class;

			if (topology->vertices[nic].kind != TOPOLOGY_NIC || !is_fast_nic(topology, nic))
				continue;
			path_class = topology_class_of(topology, gpu, nic);
			if (path_class < best) {
				best = path_class;
				nearest = nic;
			}
		}
		if (nearest == TOPOLOGY_NONE || best < TOPOLOGY_CLASS_PHB)
			continue;
		doctor_add(doctor, best >= TOPOLOGY_CLASS_SYS ? DOCTOR_WARNING : DOCTOR_NOTE,
			   topology->vertices[gpu].name, "the nearest NIC, %s, is %s (%s)",
			   topology->vertices[nearest].name,
			   best >= TOPOLOGY_CLASS_SYS ? "on another socket"
						      : "on its socket, but not below the same switch",
			   topology_class_word(best));
	}
}

/* What a device sends at most: by its own link, and by a NIC's speed. */
static uint64_t sends(const struct topology *topology, uint32_t vertex)
{
	uint32_t link = topology_uplink(topology, vertex);
	uint64_t speed_Bps = topology->vertices[vertex].nic.speed_Bps,
		 pci_Bps = link == TOPOLOGY_NONE ? 0 : reach_rate_Bps(&topology->links[link], TOPOLOGY_UP);

	if (topology->vertices[vertex].kind != TOPOLOGY_NIC)
		return pci_Bps;
	return pci_Bps && pci_Bps < speed_Bps ? pci_Bps : speed_Bps;
}

/* Two functions of one card have one slot: what they share is not the uplink above. */
static size_t count_cards(const struct topology *topology, uint32_t above)
{
	size_t count = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		bool seen = false;

		if (topology->vertices[i].kind != TOPOLOGY_NIC || i == above || !is_above(topology, above, i))
			continue;
		for (uint32_t j = 0; j < i; j++)
			seen |= topology->vertices[j].kind == TOPOLOGY_NIC && is_above(topology, above, j) &&
				!strncmp(topology->vertices[i].bus_id, topology->vertices[j].bus_id,
					 strcspn(topology->vertices[i].bus_id, "."));
		count += !seen || !topology->vertices[i].bus_id[0];
	}
	return count;
}

static size_t count_below(const struct topology *topology, uint32_t above, enum topology_kind kind)
{
	size_t count = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == kind && is_above(topology, above, i) &&
			 !topology_is_later_slice(topology, i) && (kind != TOPOLOGY_NIC || is_fast_nic(topology, i));
	return count;
}

/*
 * The next switch at or after *at whose uplink has a known rate, and what the devices of a kind below it can send together.
 * False: no more.
 */
static bool next_switch(const struct topology *topology, enum topology_kind kind, uint32_t *at, uint64_t *ret_sum_Bps,
			uint64_t *ret_uplink_Bps)
{
	for (; *at < topology->vertex_count; (*at)++) {
		uint32_t link = topology_uplink(topology, *at);

		*ret_uplink_Bps = link == TOPOLOGY_NONE ? 0 : reach_rate_Bps(&topology->links[link], TOPOLOGY_UP);
		if (topology->vertices[*at].kind != TOPOLOGY_SWITCH || !*ret_uplink_Bps)
			continue;
		*ret_sum_Bps = 0;
		for (uint32_t i = 0; i < topology->vertex_count; i++)
			if (topology->vertices[i].kind == kind && is_above(topology, *at, i) &&
			    !topology_is_later_slice(topology, i))
				*ret_sum_Bps += sends(topology, i);
		return true;
	}
	return false;
}

void doctor_shared_uplink(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	uint64_t sum_Bps, uplink_Bps;

	for (uint32_t at = 0; next_switch(topology, TOPOLOGY_NIC, &at, &sum_Bps, &uplink_Bps); at++) {
		size_t count = count_cards(topology, at);

		if (count >= 2 && (double)sum_Bps >= SHARED * (double)uplink_Bps)
			doctor_add(doctor, DOCTOR_WARNING, topology->vertices[at].name,
				   "%zu NICs with %s GB/s together behind an uplink of %s GB/s", count,
				   units_GBps(sum_Bps, rate), units_GBps(uplink_Bps, other));
	}
}

void doctor_oversubscribed(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	uint64_t sum_Bps, uplink_Bps;

	for (uint32_t at = 0; next_switch(topology, TOPOLOGY_GPU, &at, &sum_Bps, &uplink_Bps); at++) {
		size_t count = count_below(topology, at, TOPOLOGY_GPU);
		double ratio = (double)sum_Bps / (double)uplink_Bps;

		if (count >= 2 && ratio >= OVERSUBSCRIBED_NOTE)
			doctor_add(doctor, ratio < OVERSUBSCRIBED_WARNING ? DOCTOR_NOTE : DOCTOR_WARNING,
				   topology->vertices[at].name,
				   "%zu GPUs with %s GB/s together over an uplink of %s GB/s: %.1f to 1", count,
				   units_GBps(sum_Bps, rate), units_GBps(uplink_Bps, other), ratio);
	}
}

/* GPUs below each of a kind that has any; differing numbers are said. */
static void compare(struct doctor *doctor, enum topology_kind above, enum topology_kind below, const char *above_word,
		    const char *below_word)
{
	const struct topology *topology = doctor->topology;
	uint32_t least = TOPOLOGY_NONE, most = TOPOLOGY_NONE;
	size_t least_count = 0, most_count = 0, total = 0, with = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		size_t count;

		if (topology->vertices[i].kind != above)
			continue;
		count = count_below(topology, i, below);
		total++;
		/* A switch above other switches has more, of course; and one without GPUs has another purpose. */
		if (!count || (above == TOPOLOGY_SWITCH && count_below(topology, i, TOPOLOGY_SWITCH) > 1))
			continue;
		with++;
		if (least == TOPOLOGY_NONE || count < least_count) {
			least = i;
			least_count = count;
		}
		if (count > most_count) {
			most = i;
			most_count = count;
		}
	}
	if (with > 1 && least_count != most_count)
		doctor_add(doctor, below == TOPOLOGY_GPU ? DOCTOR_WARNING : DOCTOR_NOTE, topology->vertices[least].name,
			   "%zu %s%s, %s has %zu", least_count, below_word, least_count == 1 ? "" : "s",
			   topology->vertices[most].name, most_count);
	if (above == TOPOLOGY_CPU && with == 1 && total > 1 && most_count > 1)
		doctor_add(doctor, DOCTOR_NOTE, topology->vertices[most].name, "all %zu %ss are on one of %zu %ss",
			   most_count, below_word, total, above_word);
}

void doctor_asymmetric(struct doctor *doctor)
{
	if (topology_count(doctor->topology, TOPOLOGY_CPU) < 2 &&
	    topology_count(doctor->topology, TOPOLOGY_SWITCH) < 2) {
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there are no two NUMA nodes or switches to compare");
		return;
	}
	compare(doctor, TOPOLOGY_CPU, TOPOLOGY_GPU, "NUMA node", "GPU");
	compare(doctor, TOPOLOGY_CPU, TOPOLOGY_NIC, "NUMA node", "NIC");
	compare(doctor, TOPOLOGY_SWITCH, TOPOLOGY_GPU, "switch", "GPU");
}
