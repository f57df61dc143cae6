/* SPDX-License-Identifier: Apache-2.0 */
/* Links that are narrower or slower than they ought to be. */
#include "command/doctor/doctor.h"

#include "command/print/reach.h"
#include "command/print/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The next PCIe link at or after *at of a device that is no later slice of one. */
static const struct topology_link *next_link(const struct topology *topology, size_t *at)
{
	for (; *at < topology->link_count; (*at)++)
		if (topology->links[*at].kind == TOPOLOGY_LINK_PCI &&
		    !topology_is_later_slice(topology, topology->links[*at].lower))
			return &topology->links[(*at)++];
	return NULL;
}

/* Below what its ends can. severity, and what is said before the ends of the link and behind them. */
static void add_link(struct doctor *doctor, const struct topology_link *link, enum doctor_severity severity,
		     const char *what, const char *more)
{
	const struct topology_vertex *vertices = doctor->topology->vertices;

	doctor_add(doctor, severity, vertices[link->lower].name, "%s to %s%s%s%s", what, vertices[link->upper].name,
		   link->pci.port[0] ? ", at port " : "", link->pci.port, more);
}

/* Once for all links: that there are none, or that of none of them both values are known. */
static void say_if_unknown(struct doctor *doctor, const char *what)
{
	size_t count = 0, at = 0;

	while (next_link(doctor->topology, &at))
		count++;
	if (!count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no PCIe link");
	else if (!doctor->known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "of none of %zu PCIe links the present and the greatest %s are known", count, what);
}

void doctor_link_width(struct doctor *doctor)
{
	const struct topology_link *link;
	char what[48];

	for (size_t at = 0; (link = next_link(doctor->topology, &at));) {
		unsigned lanes = link->pci.lanes, most = link->pci.most_lanes;

		if (!lanes || !most)
			continue;
		doctor->known++;
		if (lanes >= most)
			continue;
		snprintf(what, sizeof(what), "x%u of x%u lanes", lanes, most);
		/* Half of the lanes is what a slot with shared lanes gives; less is a fault. */
		add_link(doctor, link, 2 * lanes >= most ? DOCTOR_WARNING : DOCTOR_ERROR, what, "");
	}
	say_if_unknown(doctor, "width");
}

/* A GPU that has nothing to do runs its link slowly, and a measurement shows that it can do better. */
static bool only_idles(const struct topology *topology, const struct topology_link *link)
{
	uint64_t now_Bps = topology_pci_Bps(link->pci.generation, link->pci.lanes);

	if (topology->vertices[link->lower].kind != TOPOLOGY_GPU)
		return false;
	for (int d = 0; d < 2; d++) {
		const struct topology_capacity *capacity = &link->capacity[d];

		if (capacity->provenance >= TOPOLOGY_AT_LEAST && (double)capacity->rate_Bps > 1.1 * (double)now_Bps)
			return true;
	}
	return false;
}

static bool is_measured(const struct topology_link *link)
{
	return link->capacity[0].provenance >= TOPOLOGY_AT_LEAST || link->capacity[1].provenance >= TOPOLOGY_AT_LEAST;
}

void doctor_link_speed(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;
	const struct topology_link *link;
	char what[48];

	for (size_t at = 0; (link = next_link(topology, &at));) {
		const struct topology_pci_link *pci = &link->pci;

		if (!pci->generation || !pci->most_generation)
			continue;
		doctor->known++;
		if (pci->generation >= pci->most_generation || only_idles(topology, link))
			continue;
		snprintf(what, sizeof(what), "generation %u of %u", pci->generation, pci->most_generation);
		if (topology->vertices[link->lower].kind == TOPOLOGY_GPU && !is_measured(link))
			add_link(doctor, link, DOCTOR_NOTE, what, "; GPUs lower it when idle: a measurement tells");
		else
			add_link(doctor, link, DOCTOR_WARNING, what, "");
	}
	say_if_unknown(doctor, "generation");
}

/* The word of a check that already explains why PCIe is slow here; "" when none does. */
static const char *known_cause(const struct doctor *doctor, const struct topology_link *link)
{
	const char *word = link->kind == TOPOLOGY_LINK_PCI && doctor_iommu_translates(doctor) ? "iommu" : "";

	for (size_t i = 0; i < doctor->report.count; i++) {
		const struct doctor_finding *at = &doctor->report.at[i];

		if (at->severity >= DOCTOR_WARNING && at->check != doctor->check &&
		    !strcmp(at->subject, doctor->topology->vertices[link->lower].name))
			word = at->check->word;
	}
	return word;
}

double doctor_measured_share(const struct topology *topology, uint32_t directed)
{
	const struct topology_link *link = &topology->links[directed / 2];
	const struct topology_capacity *capacity = &link->capacity[directed % 2];

	/* What a memory or a socket link ought to carry is a rule of thumb. */
	if (capacity->provenance != TOPOLOGY_MEASURED || !link->nominal_Bps || link->kind == TOPOLOGY_LINK_MEMORY ||
	    link->kind == TOPOLOGY_LINK_SOCKET)
		return -1;
	return (double)capacity->rate_Bps / (double)link->nominal_Bps;
}

void doctor_measured_low(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	char name[2 * TOPOLOGY_NAME_BYTES + 16];
	size_t measured = 0, bounded = 0, compared = 0;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i / 2];
		const struct topology_capacity *capacity = &link->capacity[i % 2];
		const char *cause;
		double share = doctor_measured_share(topology, i);

		measured += capacity->provenance == TOPOLOGY_MEASURED;
		bounded += capacity->provenance == TOPOLOGY_AT_LEAST;
		compared += share >= 0;
		if (share < 0 || share >= DOCTOR_LOW_SHARE ||
		    topology_directed_name(topology, i, name, sizeof(name)) < 0)
			continue;
		cause = known_cause(doctor, link);
		doctor_add(doctor, *cause ? DOCTOR_NOTE : DOCTOR_WARNING, name, "%s of %s GB/s, %.0f %%%s%s",
			   units_GBps(capacity->rate_Bps, rate), units_GBps(link->nominal_Bps, other), share * 100,
			   *cause ? ": see " : ", and no known cause", cause);
	}
	if (!topology->link_count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "nothing was measured: there is no link");
	else if (!measured && bounded)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "of no link is more known than a lower bound");
	else if (!measured)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "nothing was measured: run `tributary measure`");
	else if (!compared)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "no link that was measured has a nominal rate");
}

/* link-width, link-speed or measured-low tells of it already. */
static bool is_told(const struct doctor *doctor, uint32_t link)
{
	const struct topology *topology = doctor->topology;
	char names[2][2 * TOPOLOGY_NAME_BYTES + 16] = { "", "" };

	for (uint32_t i = 0; i < 2; i++)
		(void)topology_directed_name(topology, 2 * link + i, names[i], sizeof(names[i]));
	for (size_t i = 0; i < doctor->report.count; i++) {
		const char *subject = doctor->report.at[i].subject;

		if (!strcmp(subject, topology->vertices[topology->links[link].lower].name) ||
		    !strcmp(subject, names[0]) || !strcmp(subject, names[1]))
			return true;
	}
	return false;
}

/* Of slots that cannot do more, which is no fault: link-width and link-speed tell of those that can. */
void doctor_unlike_links(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES], slot[40];
	const struct topology *topology = doctor->topology;
	struct reach *list;
	uint64_t usual_Bps;
	size_t count;

	if (reach_list(topology, &list, &count) < 0) {
		doctor->result = -ENOMEM;
		return;
	}
	usual_Bps = reach_usual_Bps(list, count);
	for (size_t i = 0; i < count && reach_is_narrow(&list[i], usual_Bps); i++) {
		const struct topology_link *link = &topology->links[list[i].link];

		if (is_told(doctor, list[i].link)) {
			doctor_add(doctor, DOCTOR_SKIPPED, topology->vertices[list[i].gpu].name,
				   "why %s is slower than others is told above", topology->vertices[list[i].gpu].name);
			continue;
		}
		if (link->pci.generation && link->pci.lanes)
			snprintf(slot, sizeof(slot), " (Gen%u x%u)", link->pci.generation, link->pci.lanes);
		else if (link->pci.lanes)
			snprintf(slot, sizeof(slot), " (x%u)", link->pci.lanes);
		else
			slot[0] = '\0';
		doctor_add(doctor, DOCTOR_NOTE, topology->vertices[list[i].gpu].name,
			   "the link from %s to %s%s carries %s GB/s, %.0f %% of the %s GB/s of other GPUs%s",
			   topology->vertices[link->lower].name, topology->vertices[link->upper].name, slot,
			   units_GBps(list[i].rate_Bps, rate), 100.0 * (double)list[i].rate_Bps / (double)usual_Bps,
			   units_GBps(usual_Bps, other),
			   list[i].rate_Bps == list[0].rate_Bps ? ", and sets the pace of every ring" : "");
	}
	if (count < 2)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine",
			   "no rates of GPUs' links to compare, or NVLink joins them");
	free(list);
}
