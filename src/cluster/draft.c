/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster as far as it has been read; and the whole of it, checked and in order. */
#include "cluster/text.h"

#include "base/hash.h"
#include "base/sys.h"
#include "topology/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cluster_draft_init(struct cluster_draft *draft, struct diag *diag)
{
	memset(draft, 0, sizeof(*draft));
	draft->diag = diag;
	draft->switches = sys_zalloc(CLUSTER_SWITCHES_MAX * sizeof(*draft->switches));
	draft->hosts = sys_zalloc(CLUSTER_HOSTS_MAX * sizeof(*draft->hosts));
	draft->aggregators = sys_zalloc(CLUSTER_AGGREGATORS_MAX * sizeof(*draft->aggregators));
	return draft->switches && draft->hosts && draft->aggregators ? 0 : -ENOMEM;
}

void cluster_draft_fini(struct cluster_draft *draft)
{
	sys_free(draft->names);
	sys_free(draft->switches);
	sys_free(draft->hosts);
	sys_free(draft->aggregators);
	memset(draft, 0, sizeof(*draft));
}

int cluster_draft_keep_name(struct cluster_draft *draft, const char *name, size_t bytes, size_t *ret)
{
	int r = sys_grow(&draft->names, draft->names_bytes, bytes + 1, 1);

	if (r < 0)
		return r;
	*ret = draft->names_bytes;
	memcpy(draft->names + draft->names_bytes, name, bytes);
	draft->names_bytes += bytes;
	draft->names[draft->names_bytes++] = '\0';
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- facts */

int cluster_draft_find_switch(const struct cluster_draft *draft, const char *name, size_t bytes)
{
	for (size_t i = 0; i < draft->switch_count; i++) {
		const char *other = draft->names + draft->switches[i].name;

		if (strlen(other) == bytes && !memcmp(other, name, bytes))
			return (int)i;
	}
	return CLUSTER_NONE;
}

int cluster_draft_switch(struct cluster_draft *draft, const struct cluster_word *name, int *ret)
{
	struct draft_switch at = { .parent = CLUSTER_NONE, .where = *name };
	int r = cluster_word_name(name, "a switch", draft->diag);

	if (r < 0)
		return r;
	if (cluster_draft_find_switch(draft, name->at, name->bytes) != CLUSTER_NONE)
		return cluster_fail(draft->diag, name, "a line above has the switch %.*s already: one line for each",
				    (int)name->bytes, name->at);
	if (draft->switch_count == CLUSTER_SWITCHES_MAX)
		return cluster_fail(draft->diag, name, "more than %d switches: leave out those that are not used",
				    CLUSTER_SWITCHES_MAX);
	r = cluster_draft_keep_name(draft, name->at, name->bytes, &at.name);
	if (r < 0)
		return r;
	*ret = (int)draft->switch_count;
	draft->switches[draft->switch_count++] = at;
	return 0;
}

struct host_of_list {
	struct cluster_draft *draft;
	struct draft_host host;
};

static int take_host(void *arg, const char *name, size_t bytes)
{
	struct host_of_list *of = arg;
	struct cluster_draft *draft = of->draft;
	int r;

	if (draft->host_count == CLUSTER_HOSTS_MAX)
		return cluster_fail(draft->diag, &of->host.where,
				    "more than %d hosts: leave out those that are not used", CLUSTER_HOSTS_MAX);
	r = cluster_draft_keep_name(draft, name, bytes, &of->host.name);
	if (r < 0)
		return r;
	draft->hosts[draft->host_count++] = of->host;
	return 0;
}

int cluster_draft_hosts(struct cluster_draft *draft, const struct cluster_word *list, int leaf, uint64_t rate_Bps)
{
	struct host_of_list of = { draft, { .leaf = leaf, .rate_Bps = rate_Bps, .where = *list } };

	return cluster_expand(list, "a host", draft->diag, take_host, &of);
}

int cluster_draft_aggregator(struct cluster_draft *draft, const struct cluster_word *where,
			     const struct cluster_word *address, uint16_t port, int leaf, uint64_t rate_Bps)
{
	struct draft_aggregator at = { .port = port, .leaf = leaf, .rate_Bps = rate_Bps, .where = *where };
	int r;

	if (draft->aggregator_count == CLUSTER_AGGREGATORS_MAX)
		return cluster_fail(draft->diag, where, "more than %d aggregators: leave out those that are not used",
				    CLUSTER_AGGREGATORS_MAX);
	for (size_t i = 0; i < draft->aggregator_count; i++)
		if (draft->aggregators[i].port == port &&
		    cluster_word_is(address, draft->names + draft->aggregators[i].address, false))
			return cluster_fail(draft->diag, where,
					    "a line above has this aggregator already: one line for each");
	r = cluster_draft_keep_name(draft, address->at, address->bytes, &at.address);
	if (r < 0)
		return r;
	draft->aggregators[draft->aggregator_count++] = at;
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- order */

struct ordered {
	const struct cluster_draft *draft;
	int depth[CLUSTER_SWITCHES_MAX];
	int order[CLUSTER_SWITCHES_MAX], place[CLUSTER_SWITCHES_MAX]; /* of switches, and back */
};

static int compare_switches(const void *a, const void *b, void *arg)
{
	const struct ordered *ordered = arg;
	int first = *(const int *)a, second = *(const int *)b;
	const struct cluster_draft *draft = ordered->draft;

	if (ordered->depth[first] != ordered->depth[second])
		return ordered->depth[first] < ordered->depth[second] ? -1 : 1;
	return topology_compare_names(draft->names + draft->switches[first].name,
				      draft->names + draft->switches[second].name);
}

static int compare_hosts(const void *a, const void *b, void *arg)
{
	const struct cluster_draft *draft = arg;
	const struct draft_host *first = a, *second = b;
	int order = topology_compare_names(draft->names + first->name, draft->names + second->name);

	if (order)
		return order;
	if (first->where.line != second->where.line)
		return first->where.line < second->where.line ? -1 : 1;
	return (first->where.column > second->where.column) - (first->where.column < second->where.column);
}

static int compare_aggregators(const void *a, const void *b, void *arg)
{
	const struct cluster_draft *draft = arg;
	const struct draft_aggregator *first = a, *second = b;
	int order = topology_compare_names(draft->names + first->address, draft->names + second->address);

	return order ? order : (first->port > second->port) - (first->port < second->port);
}

/* A switch is behind the one above it, and for the rest by name: the same whatever the order of the lines was. */
static void order_switches(const struct cluster_draft *draft, struct ordered *ordered)
{
	ordered->draft = draft;
	for (size_t i = 0; i < draft->switch_count; i++) {
		ordered->order[i] = (int)i;
		ordered->depth[i] = 0;
		for (int at = draft->switches[i].parent; at != CLUSTER_NONE; at = draft->switches[at].parent)
			ordered->depth[i]++;
	}
	qsort_r(ordered->order, draft->switch_count, sizeof(*ordered->order), compare_switches, ordered);
	for (size_t i = 0; i < draft->switch_count; i++)
		ordered->place[ordered->order[i]] = (int)i;
}

static int check_hosts(struct cluster_draft *draft)
{
	qsort_r(draft->hosts, draft->host_count, sizeof(*draft->hosts), compare_hosts, draft);
	for (size_t i = 1; i < draft->host_count; i++) {
		const char *name = draft->names + draft->hosts[i].name;

		if (!strcmp(draft->names + draft->hosts[i - 1].name, name))
			return cluster_fail(draft->diag, &draft->hosts[i].where,
					    "the host %.60s stands in a leaf already: take it out of one of the two",
					    name);
	}
	return 0;
}

/* -------------------------------------------------------------------------------------------------------- the cluster */

/* One piece of memory: the cluster, its arrays, its names. */
static struct cluster *cluster_new(const struct cluster_draft *draft)
{
	size_t switches = draft->switch_count * sizeof(struct cluster_switch);
	size_t hosts = draft->host_count * sizeof(struct cluster_host);
	size_t aggregators = draft->aggregator_count * sizeof(struct cluster_aggregator);
	char *memory = sys_zalloc(sizeof(struct cluster) + switches + hosts + aggregators + draft->names_bytes);
	struct cluster *cluster = (struct cluster *)memory;
	char *names;

	if (!memory)
		return NULL;
	memory += sizeof(*cluster);
	cluster->switches = (struct cluster_switch *)memory;
	cluster->hosts = (struct cluster_host *)(memory + switches);
	cluster->aggregators = (struct cluster_aggregator *)(memory + switches + hosts);
	cluster->switch_count = draft->switch_count;
	cluster->host_count = draft->host_count;
	cluster->aggregator_count = draft->aggregator_count;
	names = memory + switches + hosts + aggregators;
	if (draft->names_bytes)
		memcpy(names, draft->names, draft->names_bytes);
	return cluster;
}

static void fill(const struct cluster_draft *draft, const struct ordered *ordered, struct cluster *cluster)
{
	const char *names = (const char *)(cluster->aggregators + cluster->aggregator_count);

	for (size_t i = 0; i < draft->switch_count; i++) {
		const struct draft_switch *from = &draft->switches[ordered->order[i]];

		cluster->switches[i] = (struct cluster_switch){
			.name = names + from->name,
			.parent = from->parent == CLUSTER_NONE ? CLUSTER_NONE : ordered->place[from->parent],
			.up_rate_Bps = from->up_rate_Bps,
			.down_rate_Bps = from->down_rate_Bps,
		};
	}
	for (size_t i = 0; i < draft->host_count; i++)
		cluster->hosts[i] = (struct cluster_host){ .name = names + draft->hosts[i].name,
							   .leaf = ordered->place[draft->hosts[i].leaf],
							   .rate_Bps = draft->hosts[i].rate_Bps };
	for (size_t i = 0; i < draft->aggregator_count; i++)
		cluster->aggregators[i] =
			(struct cluster_aggregator){ .address = names + draft->aggregators[i].address,
						     .port = draft->aggregators[i].port,
						     .leaf = ordered->place[draft->aggregators[i].leaf],
						     .rate_Bps = draft->aggregators[i].rate_Bps };
}

int cluster_draft_finish(struct cluster_draft *draft, struct cluster **ret)
{
	struct ordered *ordered;
	struct cluster *cluster;
	size_t bytes = 0;
	char *text;
	int r = check_hosts(draft);

	if (r < 0)
		return r;
	qsort_r(draft->aggregators, draft->aggregator_count, sizeof(*draft->aggregators), compare_aggregators, draft);
	ordered = sys_zalloc(sizeof(*ordered));
	cluster = cluster_new(draft);
	if (!ordered || !cluster) {
		sys_free(ordered);
		sys_free(cluster);
		return -ENOMEM;
	}
	order_switches(draft, ordered);
	fill(draft, ordered, cluster);
	sys_free(ordered);
	r = cluster_format(cluster, &text, &bytes);
	if (r < 0) {
		sys_free(cluster);
		return r;
	}
	cluster->fingerprint = hash_bytes(HASH_START, text, bytes);
	sys_free(text);
	/* How a rate is known is nothing that hosts have to agree on: not in the fingerprint. */
	cluster->measured = draft->measured;
	*ret = cluster;
	return 0;
}
