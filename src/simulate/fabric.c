/* SPDX-License-Identifier: Apache-2.0 */
/* A fabric's links, their names, and the ways over them. */
#include "simulate/fabric.h"

#include "base/log.h"
#include "base/sys.h"
#include "simulate/fabric_internal.h"
#include "tributary/cluster.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int simulate_fabric_init(struct simulate_fabric *fabric, size_t hosts, size_t rails, size_t switches)
{
	*fabric = (struct simulate_fabric){ .host_count = hosts, .rail_count = rails, .switch_count = switches };
	fabric->host_names = sys_zalloc((hosts + 1) * sizeof(*fabric->host_names));
	fabric->switches = sys_zalloc((switches + 1) * sizeof(*fabric->switches));
	fabric->nics = sys_zalloc((hosts * rails + 1) * sizeof(*fabric->nics));
	if (fabric->host_names && fabric->switches && fabric->nics)
		return 0;
	simulate_fabric_fini(fabric);
	return -ENOMEM;
}

void simulate_fabric_fini(struct simulate_fabric *fabric)
{
	sys_free(fabric->host_names);
	sys_free(fabric->aggregator_names);
	sys_free(fabric->switches);
	sys_free(fabric->nics);
	sys_free(fabric->aggregators);
	sys_free(fabric->rows);
	*fabric = (struct simulate_fabric){ .host_count = 0 };
}

static double known(uint64_t rate_Bps)
{
	return rate_Bps ? (double)rate_Bps : INFINITY;
}

static struct simulate_port port_of(int leaf, double rate_Bps)
{
	return (struct simulate_port){ (uint32_t)leaf, { rate_Bps, rate_Bps } };
}

static int compare_rates(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

double simulate_median(double *rates, size_t count)
{
	qsort(rates, count, sizeof(*rates), compare_rates);
	return rates[(count - 1) / 2];
}

/* Of the hosts that say theirs; INFINITY: none does. */
static int median_rate(const struct cluster *cluster, double *ret_Bps)
{
	double *rates = sys_zalloc(cluster->host_count * sizeof(*rates));
	size_t said = 0;

	if (!rates)
		return -ENOMEM;
	for (size_t i = 0; i < cluster->host_count; i++)
		if (cluster->hosts[i].rate_Bps)
			rates[said++] = (double)cluster->hosts[i].rate_Bps;
	*ret_Bps = said ? simulate_median(rates, said) : INFINITY;
	sys_free(rates);
	return 0;
}

/* Depths from the roots down; parents may come after their children. False: deeper than the tables. */
bool simulate_fabric_set_depths(struct simulate_fabric *fabric)
{
	for (size_t i = 0; i < fabric->switch_count; i++) {
		uint32_t depth = 0;

		for (uint32_t at = fabric->switches[i].parent; at != SIMULATE_NONE; at = fabric->switches[at].parent)
			if (++depth >= SIMULATE_DEPTH_MAX)
				return false;
		fabric->switches[i].depth = depth;
	}
	return true;
}

static int take_aggregators(const struct cluster *cluster, double median_Bps, struct simulate_fabric *fabric)
{
	size_t count = cluster->aggregator_count;

	fabric->aggregators = sys_zalloc((count + 1) * sizeof(*fabric->aggregators));
	fabric->aggregator_names = sys_zalloc((count + 1) * sizeof(*fabric->aggregator_names));
	if (!fabric->aggregators || !fabric->aggregator_names)
		return -ENOMEM;
	fabric->aggregator_count = count;
	for (size_t i = 0; i < count; i++) {
		const struct cluster_aggregator *at = &cluster->aggregators[i];

		fabric->aggregators[i] = port_of(at->leaf, at->rate_Bps ? (double)at->rate_Bps : median_Bps);
		snprintf(fabric->aggregator_names[i], SIMULATE_NAME_BYTES, "%.240s:%u", at->address, at->port);
	}
	return 0;
}

int simulate_fabric_of_cluster(const struct cluster *cluster, struct simulate_fabric *ret, struct diag *diag)
{
	struct simulate_fabric fabric;
	double median_Bps = 0;
	int r;

	if (!cluster->host_count) {
		diag_set(diag, 0, 0, "the cluster has no hosts");
		return -EINVAL;
	}
	r = median_rate(cluster, &median_Bps);
	if (r == 0)
		r = simulate_fabric_init(&fabric, cluster->host_count, 1, cluster->switch_count);
	if (r)
		return r;
	for (size_t i = 0; i < cluster->switch_count; i++) {
		const struct cluster_switch *from = &cluster->switches[i];
		struct simulate_switch *to = &fabric.switches[i];

		snprintf(to->name, sizeof(to->name), "%s", from->name);
		to->parent = from->parent == CLUSTER_NONE ? SIMULATE_NONE : (uint32_t)from->parent;
		to->capacity_Bps[SIMULATE_UP] = known(from->up_rate_Bps);
		to->capacity_Bps[SIMULATE_DOWN] = known(from->down_rate_Bps);
	}
	for (size_t i = 0; i < cluster->host_count; i++) {
		const struct cluster_host *host = &cluster->hosts[i];

		snprintf(fabric.host_names[i], SIMULATE_NAME_BYTES, "%s", host->name);
		fabric.nics[i] = port_of(host->leaf, host->rate_Bps ? (double)host->rate_Bps : median_Bps);
	}
	fabric.measured = cluster->measured;
	r = take_aggregators(cluster, median_Bps, &fabric);
	if (r == 0 && !simulate_fabric_set_depths(&fabric)) {
		diag_set(diag, 0, 0, "more than %d switches stand above each other", SIMULATE_DEPTH_MAX);
		r = -EINVAL;
	}
	if (r < 0)
		simulate_fabric_fini(&fabric);
	else
		*ret = fabric;
	return r;
}

int simulate_fabric_add_aggregators(struct simulate_fabric *fabric, size_t each, double rate_Bps)
{
	char(*names)[SIMULATE_NAME_BYTES];
	struct simulate_port *ports;
	size_t old = fabric->aggregator_count, count = old, room;
	bool *leaf;

	if (!each || each > 64 || !(rate_Bps > 0))
		return -EINVAL;
	room = old + each * fabric->switch_count + 1;
	leaf = sys_zalloc(fabric->switch_count + 1);
	ports = sys_zalloc(room * sizeof(*ports));
	names = sys_zalloc(room * sizeof(*names));
	if (!leaf || !ports || !names) {
		sys_free(leaf);
		sys_free(ports);
		sys_free(names);
		return -ENOMEM;
	}
	for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++)
		leaf[fabric->nics[i].leaf] = true;
	if (old) {
		memcpy(ports, fabric->aggregators, old * sizeof(*ports));
		memcpy(names, fabric->aggregator_names, old * sizeof(*names));
	}
	for (size_t i = 0; i < fabric->switch_count; i++)
		for (size_t j = 0; leaf[i] && j < each; j++) {
			ports[count] = port_of((int)i, rate_Bps);
			snprintf(names[count++], SIMULATE_NAME_BYTES, "agg%zu.%.230s", j, fabric->switches[i].name);
		}
	sys_free(leaf);
	sys_free(fabric->aggregators);
	sys_free(fabric->aggregator_names);
	fabric->aggregators = ports;
	fabric->aggregator_names = names;
	fabric->aggregator_count = count;
	return 0;
}

void simulate_fabric_scale(struct simulate_fabric *fabric, double by)
{
	for (int way = 0; way < 2; way++) {
		for (size_t i = 0; i < fabric->host_count * fabric->rail_count; i++)
			fabric->nics[i].capacity_Bps[way] *= by;
		for (size_t i = 0; i < fabric->switch_count; i++)
			fabric->switches[i].capacity_Bps[way] *= by;
		for (size_t i = 0; i < fabric->aggregator_count; i++)
			fabric->aggregators[i].capacity_Bps[way] *= by;
	}
}

static bool is_unknown(const double capacity_Bps[2])
{
	return isinf(capacity_Bps[SIMULATE_UP]) || isinf(capacity_Bps[SIMULATE_DOWN]);
}

size_t simulate_fabric_unknown_hosts(const struct simulate_fabric *fabric)
{
	size_t count = 0;

	for (size_t i = 0; i < fabric->host_count; i++) {
		bool unknown = false;

		for (size_t rail = 0; rail < fabric->rail_count; rail++)
			unknown |= is_unknown(fabric->nics[i * fabric->rail_count + rail].capacity_Bps);
		count += unknown;
	}
	return count;
}

/* A root's link leads nowhere. */
size_t simulate_fabric_unknown_uplinks(const struct simulate_fabric *fabric)
{
	size_t count = 0;

	for (size_t i = 0; i < fabric->switch_count; i++)
		count += fabric->switches[i].parent != SIMULATE_NONE && is_unknown(fabric->switches[i].capacity_Bps);
	return count;
}

int simulate_fabric_set_rows(struct simulate_fabric *fabric, const struct simulate_row *rows, size_t count)
{
	struct simulate_row *copy = sys_zalloc((count + 1) * sizeof(*copy));

	if (!copy)
		return -ENOMEM;
	memcpy(copy, rows, count * sizeof(*copy));
	sys_free(fabric->rows);
	fabric->rows = copy;
	fabric->row_count = count;
	return 0;
}

/* -------------------------------------------------------------------------------------------------------------- links */

static size_t nic_links(const struct simulate_fabric *fabric)
{
	return 2 * fabric->host_count * fabric->rail_count;
}

size_t simulate_link_count(const struct simulate_fabric *fabric)
{
	return nic_links(fabric) + 2 * fabric->switch_count + 2 * fabric->aggregator_count +
	       fabric->host_count * fabric->row_count;
}

uint32_t simulate_nic_link(const struct simulate_fabric *fabric, size_t host, size_t rail, enum simulate_direction way)
{
	return (uint32_t)(2 * (host * fabric->rail_count + rail) + way);
}

uint32_t simulate_switch_link(const struct simulate_fabric *fabric, size_t of, enum simulate_direction way)
{
	return (uint32_t)(nic_links(fabric) + 2 * of + way);
}

uint32_t simulate_aggregator_link(const struct simulate_fabric *fabric, size_t of, enum simulate_direction way)
{
	return (uint32_t)(nic_links(fabric) + 2 * (fabric->switch_count + of) + way);
}

uint32_t simulate_row_link(const struct simulate_fabric *fabric, size_t host, size_t row)
{
	return (uint32_t)(nic_links(fabric) + 2 * (fabric->switch_count + fabric->aggregator_count) +
			  host * fabric->row_count + row);
}

struct simulate_link simulate_link_of(const struct simulate_fabric *fabric, uint32_t link)
{
	enum simulate_direction way = link % 2 ? SIMULATE_DOWN : SIMULATE_UP;
	size_t at = link, nics = nic_links(fabric), switches = 2 * fabric->switch_count;

	if (at < nics)
		return (struct simulate_link){ SIMULATE_LINK_NIC, way, at / 2 / fabric->rail_count,
					       at / 2 % fabric->rail_count };
	at -= nics;
	if (at < switches)
		return (struct simulate_link){ SIMULATE_LINK_UPLINK, way, at / 2, 0 };
	at -= switches;
	if (at < 2 * fabric->aggregator_count)
		return (struct simulate_link){ SIMULATE_LINK_AGGREGATOR, way, at / 2, 0 };
	at -= 2 * fabric->aggregator_count;
	return (struct simulate_link){ SIMULATE_LINK_ROW, SIMULATE_UP, at / fabric->row_count, at % fabric->row_count };
}

void simulate_link_name(const struct simulate_fabric *fabric, uint32_t link, char *ret, size_t ret_bytes)
{
	struct simulate_link at = simulate_link_of(fabric, link);
	const char *way = at.direction == SIMULATE_UP ? "up" : "down";

	switch (at.kind) {
	case SIMULATE_LINK_NIC:
		if (fabric->rail_count > 1)
			snprintf(ret, ret_bytes, "%s.%zu %s", fabric->host_names[at.of], at.sub,
				 at.direction == SIMULATE_UP ? "out" : "in");
		else
			snprintf(ret, ret_bytes, "%s %s", fabric->host_names[at.of],
				 at.direction == SIMULATE_UP ? "out" : "in");
		break;
	case SIMULATE_LINK_UPLINK:
		snprintf(ret, ret_bytes, "%s %s", fabric->switches[at.of].name, way);
		break;
	case SIMULATE_LINK_AGGREGATOR:
		snprintf(ret, ret_bytes, "%s %s", fabric->aggregator_names[at.of],
			 at.direction == SIMULATE_UP ? "out" : "in");
		break;
	case SIMULATE_LINK_ROW:
		snprintf(ret, ret_bytes, "%s %s", fabric->host_names[at.of], fabric->rows[at.sub].name);
		break;
	}
}

static double capacity_of(const struct simulate_fabric *fabric, uint32_t link)
{
	struct simulate_link at = simulate_link_of(fabric, link);

	switch (at.kind) {
	case SIMULATE_LINK_NIC:
		return fabric->nics[at.of * fabric->rail_count + at.sub].capacity_Bps[at.direction];
	case SIMULATE_LINK_UPLINK:
		return fabric->switches[at.of].capacity_Bps[at.direction];
	case SIMULATE_LINK_AGGREGATOR:
		return fabric->aggregators[at.of].capacity_Bps[at.direction];
	case SIMULATE_LINK_ROW:
		return fabric->rows[at.sub].capacity_Bps;
	}
	return INFINITY;
}

int simulate_capacities(const struct simulate_fabric *fabric, double **ret_Bps)
{
	size_t count = simulate_link_count(fabric);
	double *capacity_Bps = sys_zalloc((count + 1) * sizeof(*capacity_Bps));

	if (!capacity_Bps)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		capacity_Bps[i] = capacity_of(fabric, i);
	*ret_Bps = capacity_Bps;
	return 0;
}

/* --------------------------------------------------------------------------------------------------------------- ways */

static uint32_t end_link(const struct simulate_fabric *fabric, struct simulate_end end, enum simulate_direction way,
			 uint32_t *ret_leaf)
{
	if (end.host == SIMULATE_NONE) {
		*ret_leaf = fabric->aggregators[end.aggregator].leaf;
		return simulate_aggregator_link(fabric, end.aggregator, way);
	}
	*ret_leaf = fabric->nics[end.host * fabric->rail_count + end.rail].leaf;
	return simulate_nic_link(fabric, end.host, end.rail, way);
}

size_t simulate_way(const struct simulate_fabric *fabric, struct simulate_end from, struct simulate_end to,
		    struct flow_crossing ret[static SIMULATE_WAY_MAX])
{
	const struct simulate_switch *switches = fabric->switches;
	uint32_t up, down, out = end_link(fabric, from, SIMULATE_UP, &up),
			   in = end_link(fabric, to, SIMULATE_DOWN, &down);
	size_t count = 0, back = 0;
	uint32_t downward[SIMULATE_DEPTH_MAX + 1];

	ret[count++] = (struct flow_crossing){ out, 1 };
	while (up != down) {
		bool climb = up != SIMULATE_NONE &&
			     (down == SIMULATE_NONE || switches[up].depth >= switches[down].depth);
		bool descend = down != SIMULATE_NONE &&
			       (up == SIMULATE_NONE || switches[down].depth >= switches[up].depth);

		if (climb && switches[up].parent != SIMULATE_NONE)
			ret[count++] = (struct flow_crossing){ simulate_switch_link(fabric, up, SIMULATE_UP), 1 };
		if (descend && switches[down].parent != SIMULATE_NONE)
			downward[back++] = simulate_switch_link(fabric, down, SIMULATE_DOWN);
		up = climb ? switches[up].parent : up;
		down = descend ? switches[down].parent : down;
	}
	while (back)
		ret[count++] = (struct flow_crossing){ downward[--back], 1 };
	ret[count++] = (struct flow_crossing){ in, 1 };
	return count;
}
