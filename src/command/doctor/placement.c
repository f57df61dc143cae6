/* Where devices sit. */
#include "command/doctor/doctor.h"

#include "command/print/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Above this, devices below a switch ask for more than its uplink has even when only half of them send. */
static const double OVERSUBSCRIBED_NOTE = 1.5, OVERSUBSCRIBED_WARNING = 4;
/* NICs together may ask for this part of the uplink, or more, before it is said. */
static const double SHARED = 1.1;

/* What was asked for GPUs and NICs. */
static void sources(const struct doctor *doctor, char *text, size_t text_bytes)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char state[16] = "";

	if (!doctor_has_facts(doctor)) {
		snprintf(text, text_bytes, "in the file, which is all that there is");
		return;
	}
	if (doctor_next_fact(doctor, "nvml", &at, &fact))
		(void)doctor_fact_value(&fact, "state", state, sizeof(state));
	snprintf(text, text_bytes, "among the PCI devices that /sys %s; NVML, the driver's library, %s",
		 doctor->from_file ? "showed there" : "shows here",
		 !strcmp(state, "works") ? "works" : "is not there or finds no driver");
}

void doctor_devices(struct doctor *doctor)
{
	size_t gpus = doctor_count(doctor->topology, TOPOLOGY_GPU), nics = doctor_count(doctor->topology, TOPOLOGY_NIC);
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

			if (topology->vertices[nic].kind != TOPOLOGY_NIC || !doctor_is_fast_nic(topology, nic))
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

static uint64_t nic_wants(const struct topology *topology, uint32_t nic)
{
	uint32_t link = topology_uplink(topology, nic);
	uint64_t speed_Bps = topology->vertices[nic].nic.speed_Bps, pci_Bps;

	pci_Bps = link == TOPOLOGY_NONE ? 0 : doctor_rate(topology, link, TOPOLOGY_UP);
	return pci_Bps && pci_Bps < speed_Bps ? pci_Bps : speed_Bps;
}

/* Two functions of one card have one slot: what they share is not the uplink above. */
static size_t count_cards(const struct topology *topology, uint32_t above)
{
	size_t count = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		bool seen = false;

		if (topology->vertices[i].kind != TOPOLOGY_NIC || i == above || !doctor_is_above(topology, above, i))
			continue;
		for (uint32_t j = 0; j < i; j++)
			seen |= topology->vertices[j].kind == TOPOLOGY_NIC && doctor_is_above(topology, above, j) &&
				!strncmp(topology->vertices[i].bus_id, topology->vertices[j].bus_id,
					 strcspn(topology->vertices[i].bus_id, "."));
		count += !seen || !topology->vertices[i].bus_id[0];
	}
	return count;
}

void doctor_shared_uplink(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t link = topology_uplink(topology, i);
		uint64_t sum_Bps = 0, uplink_Bps;
		size_t count;

		if (topology->vertices[i].kind != TOPOLOGY_SWITCH || link == TOPOLOGY_NONE)
			continue;
		for (uint32_t nic = 0; nic < topology->vertex_count; nic++) {
			if (topology->vertices[nic].kind == TOPOLOGY_NIC && doctor_is_above(topology, i, nic))
				sum_Bps += nic_wants(topology, nic);
		}
		count = count_cards(topology, i);
		uplink_Bps = doctor_rate(topology, link, TOPOLOGY_UP);
		if (count < 2 || !uplink_Bps || (double)sum_Bps < SHARED * (double)uplink_Bps)
			continue;
		doctor_add(doctor, DOCTOR_WARNING, topology->vertices[i].name,
			   "%zu NICs with %s GB/s together behind an uplink of %s GB/s", count,
			   units_GBps(sum_Bps, rate), units_GBps(uplink_Bps, other));
	}
}

void doctor_oversubscribed(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;

	for (uint32_t i = 0; i < topology->vertex_count; i++) {
		uint32_t link = topology_uplink(topology, i);
		uint64_t sum_Bps = 0, uplink_Bps;
		size_t count = 0;
		double ratio;

		if (topology->vertices[i].kind != TOPOLOGY_SWITCH || link == TOPOLOGY_NONE)
			continue;
		for (uint32_t below = 0; below < topology->vertex_count; below++) {
			uint32_t own = topology_uplink(topology, below);

			if (topology->vertices[below].kind != TOPOLOGY_GPU || own == TOPOLOGY_NONE ||
			    !doctor_is_above(topology, i, below) || topology_is_later_slice(topology, below))
				continue;
			sum_Bps += doctor_rate(topology, own, TOPOLOGY_UP);
			count++;
		}
		uplink_Bps = doctor_rate(topology, link, TOPOLOGY_UP);
		ratio = uplink_Bps ? (double)sum_Bps / (double)uplink_Bps : 0;
		if (count < 2 || ratio < OVERSUBSCRIBED_NOTE)
			continue;
		doctor_add(doctor, ratio < OVERSUBSCRIBED_WARNING ? DOCTOR_NOTE : DOCTOR_WARNING,
			   topology->vertices[i].name,
			   "%zu GPUs with %s GB/s together over an uplink of %s GB/s: %.1f to 1", count,
			   units_GBps(sum_Bps, rate), units_GBps(uplink_Bps, other), ratio);
	}
}

static size_t count_below(const struct topology *topology, uint32_t above, enum topology_kind kind)
{
	size_t count = 0;

	for (uint32_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == kind && doctor_is_above(topology, above, i) &&
			 !topology_is_later_slice(topology, i) &&
			 (kind != TOPOLOGY_NIC || doctor_is_fast_nic(topology, i));
	return count;
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
	if (doctor_count(doctor->topology, TOPOLOGY_CPU) < 2 && doctor_count(doctor->topology, TOPOLOGY_SWITCH) < 2) {
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there are no two NUMA nodes or switches to compare");
		return;
	}
	compare(doctor, TOPOLOGY_CPU, TOPOLOGY_GPU, "NUMA node", "GPU");
	compare(doctor, TOPOLOGY_CPU, TOPOLOGY_NIC, "NUMA node", "NIC");
	compare(doctor, TOPOLOGY_SWITCH, TOPOLOGY_GPU, "switch", "GPU");
}
