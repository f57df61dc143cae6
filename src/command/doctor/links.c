/* Links that are narrower or slower than they ought to be. */
#include "command/doctor/doctor.h"

#include "command/print/units.h"

#include <stdio.h>
#include <string.h>

/*
 * Below this part of its nominal rate a measured link wants an explanation: headers and flow control take 10 to 20 %.
 */
static const double LOW = 0.7;

static void subject_of(const struct topology *topology, const struct topology_link *link, char *text, size_t text_bytes)
{
	snprintf(text, text_bytes, "%s", topology->vertices[link->lower].name);
}

static void port_words(const struct topology_link *link, char *text, size_t text_bytes)
{
	snprintf(text, text_bytes, "%s%s", link->pci.port[0] ? ", at port " : "", link->pci.port);
}

/* Once for all links: that there are none, or that of none of them both values are known. */
static void say_if_unknown(struct doctor *doctor, size_t known, const char *what)
{
	size_t count = 0;

	for (size_t i = 0; i < doctor->topology->link_count; i++)
		count += doctor->topology->links[i].kind == TOPOLOGY_LINK_PCI;
	if (!count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is no PCIe link");
	else if (!known)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine",
			   "of none of %zu PCIe links the present and the greatest %s are known", count, what);
}

void doctor_link_width(struct doctor *doctor)
{
	const struct topology *topology = doctor->topology;
	char subject[TOPOLOGY_NAME_BYTES], port[64];
	size_t known = 0;

	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];
		const struct topology_pci_link *pci = &link->pci;

		if (link->kind != TOPOLOGY_LINK_PCI || !pci->lanes || !pci->most_lanes ||
		    topology_is_later_slice(topology, link->lower))
			continue;
		known++;
		if (pci->lanes >= pci->most_lanes)
			continue;
		subject_of(topology, link, subject, sizeof(subject));
		port_words(link, port, sizeof(port));
		/* Half of the lanes is what a slot with shared lanes gives; less is a fault. */
		doctor_add(doctor, 2 * pci->lanes >= pci->most_lanes ? DOCTOR_WARNING : DOCTOR_ERROR, subject,
			   "x%u of x%u lanes to %s%s", pci->lanes, pci->most_lanes,
			   topology->vertices[link->upper].name, port);
	}
	say_if_unknown(doctor, known, "width");
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
	char subject[TOPOLOGY_NAME_BYTES], port[64];
	size_t known = 0;

	for (size_t i = 0; i < topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i];
		const struct topology_pci_link *pci = &link->pci;
		bool gpu = topology->vertices[link->lower].kind == TOPOLOGY_GPU;

		if (link->kind != TOPOLOGY_LINK_PCI || !pci->generation || !pci->most_generation ||
		    topology_is_later_slice(topology, link->lower))
			continue;
		known++;
		if (pci->generation >= pci->most_generation || only_idles(topology, link))
			continue;
		subject_of(topology, link, subject, sizeof(subject));
		port_words(link, port, sizeof(port));
		if (gpu && !is_measured(link))
			doctor_add(doctor, DOCTOR_NOTE, subject,
				   "generation %u of %u to %s%s; GPUs lower it when idle: a measurement tells",
				   pci->generation, pci->most_generation, topology->vertices[link->upper].name, port);
		else
			doctor_add(doctor, DOCTOR_WARNING, subject, "generation %u of %u to %s%s", pci->generation,
				   pci->most_generation, topology->vertices[link->upper].name, port);
	}
	say_if_unknown(doctor, known, "generation");
}

/* The words of checks that already explain why PCIe is slow here; "" when none does. */
static void known_causes(struct doctor *doctor, const char *subject, char *text, size_t text_bytes)
{
	text[0] = '\0';
	for (size_t i = 0; i < doctor->report.count; i++) {
		const struct doctor_finding *at = &doctor->report.at[i];

		if (at->severity >= DOCTOR_WARNING && !strcmp(at->subject, subject) && at->check != doctor->check)
			snprintf(text, text_bytes, "%s", at->check->word);
	}
}

static bool iommu_translates(const struct doctor *doctor)
{
	struct doctor_fact fact;
	const char *at = NULL;
	char state[32];

	return doctor_next_fact(doctor, "iommu", &at, &fact) &&
	       doctor_fact_value(&fact, "state", state, sizeof(state)) &&
	       (!strcmp(state, "translated") || !strcmp(state, "mixed"));
}

void doctor_measured_low(struct doctor *doctor)
{
	char rate[UNITS_BYTES], other[UNITS_BYTES];
	const struct topology *topology = doctor->topology;
	char name[2 * TOPOLOGY_NAME_BYTES + 16], cause[32];
	size_t measured = 0, compared = 0;

	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		const struct topology_link *link = &topology->links[i / 2];
		const struct topology_capacity *capacity = &link->capacity[i % 2];
		double share;

		if (capacity->provenance != TOPOLOGY_MEASURED)
			continue;
		measured++;
		/* What a memory or a socket link ought to carry is a rule of thumb. */
		if (!link->nominal_Bps || link->kind == TOPOLOGY_LINK_MEMORY || link->kind == TOPOLOGY_LINK_SOCKET)
			continue;
		compared++;
		share = (double)capacity->rate_Bps / (double)link->nominal_Bps;
		if (share >= LOW || topology_directed_name(topology, i, name, sizeof(name)) < 0)
			continue;
		known_causes(doctor, topology->vertices[link->lower].name, cause, sizeof(cause));
		if (!*cause && link->kind == TOPOLOGY_LINK_PCI && iommu_translates(doctor))
			snprintf(cause, sizeof(cause), "iommu");
		if (*cause)
			doctor_add(doctor, DOCTOR_NOTE, name, "%s of %s GB/s, %.0f %%: see %s",
				   units_GBps(capacity->rate_Bps, rate), units_GBps(link->nominal_Bps, other),
				   share * 100, cause);
		else
			doctor_add(doctor, DOCTOR_WARNING, name, "%s of %s GB/s, %.0f %%, and no known cause",
				   units_GBps(capacity->rate_Bps, rate), units_GBps(link->nominal_Bps, other),
				   share * 100);
	}
	if (!topology->link_count)
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "nothing was measured: there is no link");
	else if (!measured)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "nothing was measured: run `tributary measure`");
	else if (!compared)
		doctor_add(doctor, DOCTOR_UNKNOWN, "machine", "no link that was measured has a nominal rate");
}
