/* SPDX-License-Identifier: Apache-2.0 */
/* The words of pictures, the same in all of them. */
#include "command/show/view.h"

#include "command/print/reach.h"
#include "command/print/units.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void view_rate_of(const struct topology_capacity *capacity, bool utf8, char *text, size_t text_bytes)
{
	char number[24];

	units_GBps(capacity->rate_Bps, number);
	if (!capacity->rate_Bps || capacity->provenance == TOPOLOGY_UNKNOWN)
		snprintf(text, text_bytes, "?");
	else if (capacity->provenance == TOPOLOGY_ASSUMED)
		snprintf(text, text_bytes, "~%s", number);
	else if (capacity->provenance == TOPOLOGY_NOMINAL)
		snprintf(text, text_bytes, "(%s)", number);
	else if (capacity->provenance == TOPOLOGY_AT_LEAST)
		snprintf(text, text_bytes, "%s%s", utf8 ? "≥" : ">=", number);
	else
		snprintf(text, text_bytes, "%s", number);
}

/* A GPU lowers its generation, never its width, when it has nothing to do. */
static bool idles(const struct topology *topology, const struct topology_link *link)
{
	return topology->vertices[link->lower].kind == TOPOLOGY_GPU;
}

void view_link_words(const struct topology *topology, const struct topology_link *link, char *text, size_t text_bytes)
{
	static const char *const words[TOPOLOGY_LINK_KIND_COUNT] = {
		[TOPOLOGY_LINK_PCI] = "PCIe",        [TOPOLOGY_LINK_NVLINK] = "NVLink",
		[TOPOLOGY_LINK_C2C] = "C2C",         [TOPOLOGY_LINK_SOCKET] = "socket",
		[TOPOLOGY_LINK_MEMORY] = "memory",   [TOPOLOGY_LINK_INTERNAL] = "internal",
		[TOPOLOGY_LINK_NETWORK] = "network",
	};

	unsigned generation = link->pci.generation;

	if (idles(topology, link) && link->pci.most_generation > generation)
		generation = link->pci.most_generation;
	if (link->kind == TOPOLOGY_LINK_PCI && generation && link->pci.lanes)
		snprintf(text, text_bytes, "Gen%u x%u", generation, link->pci.lanes);
	else if (link->kind == TOPOLOGY_LINK_NVLINK && link->count > 1)
		snprintf(text, text_bytes, "%u NVLinks", link->count);
	else
		snprintf(text, text_bytes, "%s", words[link->kind]);
}

void view_degraded(const struct topology *topology, const struct topology_link *link, char *text, size_t text_bytes)
{
	const struct topology_pci_link *pci = &link->pci;
	bool narrow = pci->lanes && pci->lanes < pci->most_lanes;
	bool slow = pci->generation && pci->generation < pci->most_generation && !idles(topology, link);
	char lanes[32] = "", generation[32] = "";

	if (narrow)
		snprintf(lanes, sizeof(lanes), "x%u of x%u", pci->lanes, pci->most_lanes);
	if (slow)
		snprintf(generation, sizeof(generation), "Gen%u of Gen%u", pci->generation, pci->most_generation);
	snprintf(text, text_bytes, "%s%s%s", lanes, narrow && slow ? ", " : "", generation);
}

void view_model(const struct topology_vertex *vertex, char *text, size_t text_bytes)
{
	static const char *const dull[] = { "NVIDIA ",   "GeForce ", "Tesla ",
					    "Intel(R) ", "AMD ",     "Mellanox Technologies " };
	const char *model = vertex->model, *opening = strchr(model, '['),
		   *closing = opening ? strchr(opening, ']') : NULL;

	/* "MT2892 Family [ConnectX-6 Dx]": people know the name in brackets. */
	if (opening && closing && closing > opening + 1) {
		snprintf(text, text_bytes, "%.*s", (int)(closing - opening - 1), opening + 1);
		return;
	}
	for (size_t i = 0; i < sizeof(dull) / sizeof(dull[0]); i++) {
		if (!strncmp(model, dull[i], strlen(dull[i])))
			model += strlen(dull[i]);
	}
	snprintf(text, text_bytes, "%s", model);
}

void view_more(const struct topology_vertex *vertex, char *text, size_t text_bytes)
{
	char words[UNITS_BYTES];

	text[0] = '\0';
	if (vertex->kind == TOPOLOGY_GPU && vertex->gpu.mig >= 0)
		snprintf(text, text_bytes, "MIG slice %d", vertex->gpu.mig);
	else if ((vertex->kind == TOPOLOGY_MEMORY || vertex->kind == TOPOLOGY_GPU) && vertex->memory_bytes)
		snprintf(text, text_bytes, "%s", units_size((double)vertex->memory_bytes, words));
	else if (vertex->kind == TOPOLOGY_CPU && vertex->cpu.numa >= 0)
		snprintf(text, text_bytes, "NUMA %d", vertex->cpu.numa);
	else if (vertex->kind == TOPOLOGY_NIC && vertex->nic.speed_Bps)
		snprintf(text, text_bytes, "%s", units_bits((double)vertex->nic.speed_Bps, words));
}

void view_vertex_words(const struct topology_vertex *vertex, char *text, size_t text_bytes)
{
	char model[TOPOLOGY_TEXT_BYTES], more[64];

	view_model(vertex, model, sizeof(model));
	view_more(vertex, more, sizeof(more));
	snprintf(text, text_bytes, "%s%s%s", model, *model && *more ? ", " : "", more);
}

static size_t snapshot_words(const struct topology *topology, char *text, size_t text_bytes)
{
	static const struct {
		enum topology_kind kind;
		const char *one, *many;
	} words[] = {
		{ TOPOLOGY_HOST, "host", "hosts" },
		{ TOPOLOGY_CPU, "NUMA node", "NUMA nodes" },
		{ TOPOLOGY_SWITCH, "PCIe switch", "PCIe switches" },
		{ TOPOLOGY_GPU, "GPU", "GPUs" },
		{ TOPOLOGY_NIC, "NIC", "NICs" },
	};
	size_t count, at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && at < text_bytes; i++) {
		count = topology_count(topology, words[i].kind);
		/* That there is no GPU is worth a word; that there is no host is not. */
		if (count || words[i].kind == TOPOLOGY_GPU)
			at += (size_t)snprintf(text + at, text_bytes - at, "%s%zu %s", at ? ", " : "", count,
					       count == 1 ? words[i].one : words[i].many);
	}
	return at < text_bytes ? at : text_bytes - 1;
}

static void date_words(int64_t date_s, char *text, size_t text_bytes)
{
	time_t when = (time_t)date_s;
	struct tm parts;

	text[0] = '\0';
	if (date_s > 0 && gmtime_r(&when, &parts))
		(void)strftime(text, text_bytes, "%Y-%m-%d", &parts);
}

void view_summary(const struct view *view, char *text, size_t text_bytes)
{
	const struct topology *topology = view->topology;
	size_t at = snapshot_words(topology, text, text_bytes);
	bool known = false;
	char date[24];

	text += at;
	text_bytes -= at;
	date_words(view->date_s, date, sizeof(date));
	for (size_t i = 0; i < 2 * topology->link_count; i++)
		known |= view->lanes[i].rate_Bps > 0;
	if (view->measured_links)
		snprintf(text, text_bytes, "; %zu of %zu links measured%s%s", view->measured_links,
			 topology->link_count, *date ? ", " : "", date);
	else
		snprintf(text, text_bytes, "; nothing measured, %s", known ? "rates are nominal" : "no rate is known");
}

static void directed_words(const struct topology *topology, uint32_t directed, bool utf8, char *text, size_t text_bytes)
{
	const struct topology_link *link = &topology->links[directed / 2];
	const char *lower = topology->vertices[link->lower].name, *upper = topology->vertices[link->upper].name;
	bool up = directed % 2 == TOPOLOGY_UP;

	snprintf(text, text_bytes, "%s %s %s", up ? lower : upper, utf8 ? "→" : "->", up ? upper : lower);
}

/* GPUs' own links are the limit: of unlike slots the narrowest is. */
static void narrowest_words(const struct topology *topology, char *text, size_t text_bytes)
{
	char rate[24], other[24];
	struct reach *list;
	uint64_t usual_Bps;
	size_t count;

	if (reach_list(topology, &list, &count) < 0)
		return;
	usual_Bps = reach_usual_Bps(list, count);
	if (count && reach_is_narrow(&list[0], usual_Bps)) {
		units_GBps(list[0].rate_Bps, rate);
		units_GBps(usual_Bps, other);
		snprintf(text, text_bytes,
			 ". The link of %s carries %s GB/s where others carry %s: it sets the pace of every ring",
			 topology->vertices[list[0].gpu].name, rate, other);
	}
	free(list);
}

void view_bottleneck(const struct view *view, bool utf8, char *text, size_t text_bytes)
{
	const struct topology *topology = view->topology;
	char pair[24], rate[24], name[2 * TOPOLOGY_NAME_BYTES + 16] = "";
	uint64_t rate_Bps = 0;

	text[0] = '\0';
	if (!view->bottleneck_pair_Bps)
		return;
	units_GBps(view->bottleneck_pair_Bps, pair);
	if (view->bottleneck_is_own) {
		snprintf(text, text_bytes,
			 "No bottleneck between GPUs: when all exchange data with all others, their own links are "
			 "the limit, %s GB/s for each pair",
			 pair);
		narrowest_words(topology, text + strlen(text), text_bytes - strlen(text));
		return;
	}
	if (view->bottleneck != TOPOLOGY_NONE) {
		directed_words(topology, view->bottleneck, utf8, name, sizeof(name));
		rate_Bps = view->lanes[view->bottleneck].rate_Bps;
	} else {
		snprintf(name, sizeof(name), "%s", topology->limits[view->bottleneck_limit].name);
		rate_Bps = topology->limits[view->bottleneck_limit].capacity.rate_Bps;
	}
	units_GBps(rate_Bps, rate);
	snprintf(text, text_bytes,
		 "Bottleneck: %s, %s GB/s. When all GPUs exchange data with all others, it leaves each pair %s GB/s",
		 name, rate, pair);
}

const char *view_band_words(enum view_band band)
{
	static const char *const words[VIEW_BAND_COUNT] = {
		[VIEW_FULL] = "90 % or more",
		[VIEW_GOOD] = "75 to 90 %",
		[VIEW_FAIR] = "60 to 75 %",
		[VIEW_POOR] = "40 to 60 %",
		[VIEW_BAD] = "under 40 %",
		[VIEW_BOUND] = "lower bound",
		[VIEW_NO_NOMINAL] = "measured, no nominal rate",
		[VIEW_UNMEASURED] = "not measured",
	};

	return words[band];
}

const char *view_band_colour(enum view_band band)
{
	/*
	 * Blue to vermilion, after Okabe and Ito: lightness alone does not carry it, and no red is set against a
	 * green.
	 */
	static const char *const colours[VIEW_BAND_COUNT] = {
		[VIEW_FULL] = "#0072b2",       [VIEW_GOOD] = "#56b4e9",       [VIEW_FAIR] = "#f0c419",
		[VIEW_POOR] = "#e68a00",       [VIEW_BAD] = "#c43c00",        [VIEW_BOUND] = "#8f7cb8",
		[VIEW_NO_NOMINAL] = "#3f4c5c", [VIEW_UNMEASURED] = "#a9b3bf",
	};

	return colours[band];
}
