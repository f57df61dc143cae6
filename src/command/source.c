/* SPDX-License-Identifier: Apache-2.0 */
#include "command/source.h"

#include "base/params.h"
#include "command/command.h"
#include "command/file.h"
#include "profile/profile.h"
#include "profile/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PROFILE_BYTES_MAX = 64 << 20 };

void source_fini(struct source *source)
{
	topology_fini(&source->topology);
	discover_facts_fini(&source->facts);
}

static void merge_capacity(const struct topology_capacity *from, struct topology_capacity *to)
{
	if (from->provenance >= to->provenance && from->rate_Bps)
		*to = *from;
}

/* Whether what is in the place of a vertex can be it. */
static bool same_thing(const struct topology_vertex *a, const struct topology_vertex *b)
{
	bool known = a->pci.vendor && a->pci.device && b->pci.vendor && b->pci.device;

	return a->kind == b->kind && (!known || (a->pci.vendor == b->pci.vendor && a->pci.device == b->pci.device));
}

/* The same vertex: by bus id where it has one, since names are numbers that move when a card is added. */
static uint32_t same_vertex(const struct topology *from, uint32_t vertex, const struct topology *to)
{
	const struct topology_vertex *at = &from->vertices[vertex];
	uint32_t found = TOPOLOGY_NONE;

	if (at->bus_id[0] && at->kind != TOPOLOGY_NIC && (at->kind != TOPOLOGY_GPU || at->gpu.mig < 0))
		found = topology_find_bus_id(to, at->bus_id);
	if (found == TOPOLOGY_NONE)
		found = topology_find(to, at->name);
	return found != TOPOLOGY_NONE && same_thing(at, &to->vertices[found]) ? found : TOPOLOGY_NONE;
}

static uint32_t same_link(const struct topology *from, const struct topology_link *link, const struct topology *to)
{
	uint32_t lower = same_vertex(from, link->lower, to), upper = same_vertex(from, link->upper, to), found;

	if (lower == TOPOLOGY_NONE || upper == TOPOLOGY_NONE)
		return TOPOLOGY_NONE;
	found = topology_find_link(to, lower, upper);
	if (found == TOPOLOGY_NONE || to->links[found].kind != link->kind || to->links[found].lower != lower)
		return TOPOLOGY_NONE;
	return found;
}

static uint32_t same_directed(const struct topology *from, uint32_t directed, const struct topology *to)
{
	uint32_t link = same_link(from, &from->links[directed / 2], to);

	return link == TOPOLOGY_NONE ? TOPOLOGY_NONE : 2 * link + directed % 2;
}

static void merge_limit(const struct topology *from, const struct topology_limit *limit, struct topology *to)
{
	uint32_t *members, index = topology_find_limit(to, limit->name);
	size_t count = 0;

	if (index != TOPOLOGY_NONE) {
		merge_capacity(&limit->capacity, &to->limits[index].capacity);
		return;
	}
	members = calloc(limit->member_count + 1, sizeof(*members));
	if (!members)
		return;
	while (count < limit->member_count) {
		uint32_t mine = same_directed(from, limit->members[count], to);

		if (mine == TOPOLOGY_NONE)
			break;
		members[count++] = mine;
	}
	/* Half of a limit would be another limit. */
	if (count && count == limit->member_count)
		(void)topology_add_limit(to, limit->name, &limit->capacity, members, count, &index);
	free(members);
}

static void merge_pair(const struct topology *from, const struct topology_pair *pair, struct topology *to)
{
	struct topology_pair mine = *pair;
	uint32_t index;

	mine.from = same_vertex(from, pair->from, to);
	mine.to = same_vertex(from, pair->to, to);
	if (mine.from == TOPOLOGY_NONE || mine.to == TOPOLOGY_NONE)
		return;
	index = topology_find_pair(to, mine.from, mine.to);
	if (index == TOPOLOGY_NONE) {
		(void)topology_add_pair(to, &mine, &index);
		return;
	}
	merge_capacity(&mine.p2p, &to->pairs[index].p2p);
	merge_capacity(&mine.host, &to->pairs[index].host);
}

size_t source_merge(const struct topology *measured, struct topology *topology)
{
	size_t count = 0;

	for (size_t i = 0; i < measured->link_count; i++) {
		uint32_t mine = same_link(measured, &measured->links[i], topology);

		for (int d = 0; mine != TOPOLOGY_NONE && d < 2; d++) {
			merge_capacity(&measured->links[i].capacity[d], &topology->links[mine].capacity[d]);
			count += measured->links[i].capacity[d].provenance >= TOPOLOGY_AT_LEAST;
		}
	}
	for (size_t i = 0; i < measured->limit_count; i++)
		merge_limit(measured, &measured->limits[i], topology);
	for (size_t i = 0; i < measured->pair_count; i++)
		merge_pair(measured, &measured->pairs[i], topology);
	return count;
}

static int read_profile(const char *path, struct profile *ret)
{
	struct diag diag = { 0 };
	size_t bytes;
	char *text;
	int r, status = file_load(path, PROFILE_BYTES_MAX, "`tributary measure --output FILE` writes one", &text,
				  &bytes);

	if (status != COMMAND_OK)
		return status;
	profile_init(ret);
	r = profile_read(text, bytes, ret, &diag);
	free(text);
	return r < 0 ? command_failed(&diag, r, "\"%s\" is not a profile that can be used", path) : COMMAND_OK;
}

/* The profile in the store that fits this machine; that there is none is no error. */
static void find_profile(struct source *source)
{
	struct fingerprint now;
	struct profile profile = { 0 };
	struct params params;
	int r;

	command_load_params(&params);
	r = fingerprint_take("", &now);
	if (r < 0) {
		diag_set(&source->no_profile, 0, 0, "the machine's fingerprint cannot be taken: %s", strerror(-r));
		return;
	}
	profile_init(&profile);
	r = store_find(&params, &now, &profile, source->profile_path, sizeof(source->profile_path),
		       &source->no_profile);
	if (!r) {
		source_merge(&profile.topology, &source->topology);
		source->profiled = true;
		source->date_s = profile.date_s;
	} else if (!source->no_profile.text[0]) {
		diag_set(&source->no_profile, 0, 0, "this machine was not measured yet");
	}
	profile_fini(&profile);
	fingerprint_fini(&now);
}

/* The rates that were measured of links to cards, or of all; `in`: of those that are in that graph. */
static size_t count_rates(const struct topology *measured, const struct topology *in, bool cards)
{
	size_t count = 0;

	for (size_t i = 0; i < measured->link_count; i++) {
		const struct topology_link *link = &measured->links[i];
		bool of_card = link->kind == TOPOLOGY_LINK_PCI || link->kind == TOPOLOGY_LINK_NVLINK ||
			       link->kind == TOPOLOGY_LINK_C2C;

		if ((cards && !of_card) || same_link(measured, link, in) == TOPOLOGY_NONE)
			continue;
		for (int d = 0; d < 2; d++)
			count += link->capacity[d].provenance >= TOPOLOGY_AT_LEAST;
	}
	return count;
}

/*
 * What tells that a profile is of another machine: the fingerprint of this one; of a file's machine, that none of its cards
 * was measured (every machine has a cpu0). *ret_why: "" it fits.
 */
static bool is_foreign(const struct profile *profile, const struct source *source, bool here, struct diag *ret_why)
{
	const struct topology *measured = &profile->topology;
	size_t cards = count_rates(measured, measured, true);
	struct fingerprint now;

	ret_why->text[0] = '\0';
	if (here && fingerprint_take("", &now) == 0) {
		enum fingerprint_change change = fingerprint_compare(&profile->fingerprint, &now, ret_why);

		fingerprint_fini(&now);
		if (change == FINGERPRINT_FOREIGN)
			return true;
	} else if (cards && !count_rates(measured, &source->topology, true)) {
		diag_set(ret_why, 0, 0, "none of the cards that were measured is there");
		return true;
	}
	if (count_rates(measured, &source->topology, false))
		return false;
	diag_set(ret_why, 0, 0, "it is of another machine: none of its links is here");
	return true;
}

static int merge_profile(const char *path, const struct profile *profile, bool here, struct source *source)
{
	size_t all = count_rates(&profile->topology, &profile->topology, false), used;
	struct diag why;

	if (is_foreign(profile, source, here, &why)) {
		command_say("\"%s\" does not belong to this machine: %s", path, why.text);
		return COMMAND_FAILED;
	}
	used = source_merge(&profile->topology, &source->topology);
	if (why.text[0])
		command_say("warning: \"%s\" was measured before this machine changed: %s", path, why.text);
	if (used < all)
		command_say("warning: \"%s\": %zu of %zu measured rates are of links that are not here, and "
			    "are left out",
			    path, all - used, all);
	return COMMAND_OK;
}

static int use_profile(const char *path, bool alone, bool here, struct source *source)
{
	struct profile profile = { 0 };
	int status = read_profile(path, &profile);

	if (status != COMMAND_OK)
		return status;
	if (alone) {
		topology_fini(&source->topology);
		source->topology = profile.topology;
		topology_init(&profile.topology);
		source->from = DISCOVER_TEXT;
	} else {
		status = merge_profile(path, &profile, here, source);
	}
	source->profiled = true;
	source->date_s = profile.date_s;
	snprintf(source->profile_path, sizeof(source->profile_path), "%s", path);
	profile_fini(&profile);
	return status;
}

int source_profile(const char *path, struct source *ret)
{
	int status;

	memset(ret, 0, sizeof(*ret));
	topology_init(&ret->topology);
	status = use_profile(path, true, false, ret);
	if (status != COMMAND_OK)
		source_fini(ret);
	return status;
}

int source_failed(const char *from, int error, const struct diag *diag)
{
	if (!from)
		return command_failed(diag, error, "this machine cannot be looked at");
	return diag->text[0] ? command_failed(diag, error, "\"%s\" cannot be used", from)
			     : file_unreadable(from, error, NULL);
}

int source_load(const struct command_call *call, enum source_alone alone, struct source *ret)
{
	const char *from = command_value(call, "from"), *profile = command_value(call, "profile");
	struct diag diag = { 0 };
	int status = COMMAND_OK, r = 0;
	bool only_profile = profile && !from && alone == SOURCE_PROFILE_ALONE;

	memset(ret, 0, sizeof(*ret));
	topology_init(&ret->topology);
	if (!only_profile)
		r = discover(from, &ret->topology, &ret->facts, &ret->from, &diag);
	if (r < 0)
		status = source_failed(from, r, &diag);
	else if (from && diag.text[0])
		command_warn(&diag, "\"%s\"", from);
	if (status == COMMAND_OK && profile)
		status = use_profile(profile, only_profile, !from, ret);
	else if (status == COMMAND_OK && !from)
		find_profile(ret);
	if (status != COMMAND_OK)
		source_fini(ret);
	return status;
}

/* A title: the graph's own name, or that of the file it is from. path: NULL none. */
static void source_name(const char *path, struct topology *topology)
{
	const char *slash;

	if (!path || topology->name[0])
		return;
	slash = strrchr(path, '/');
	snprintf(topology->name, sizeof(topology->name), "%s", slash ? slash + 1 : path);
}

bool source_is_measured(const struct topology *topology)
{
	for (size_t i = 0; i < topology->link_count; i++)
		for (int d = 0; d < 2; d++)
			if (topology->links[i].capacity[d].provenance >= TOPOLOGY_AT_LEAST)
				return true;
	return false;
}

void source_note_rates(const struct source *source)
{
	bool known = false;

	for (size_t i = 0; i < source->topology.link_count; i++)
		known |= source->topology.links[i].nominal_Bps ||
			 source->topology.links[i].capacity[TOPOLOGY_UP].rate_Bps;
	if (source->no_profile.text[0])
		command_say("%s: %s", known ? "rates are nominal" : "no rate is known", source->no_profile.text);
}

int source_run(const struct command_call *call, FILE *out,
	       int (*run)(const struct command_call *call, struct source *source, FILE *out))
{
	struct source source;
	int status = source_load(call, SOURCE_PROFILE_ALONE, &source);

	if (status != COMMAND_OK)
		return status;
	source_name(command_value(call, "from"), &source.topology);
	status = run(call, &source, out);
	if (status == COMMAND_OK)
		source_note_rates(&source);
	source_fini(&source);
	return status;
}
