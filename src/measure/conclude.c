/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/infer.h"

#include "base/log.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FINDINGS_MAX = 64, SLOW_MAX = 8 };

#define ONE_FLOW  0.975 /* of the narrowest link on its way: less is a matter of the pair of ends */
#define MUCH_LESS 0.85  /* of what the links allow */

/* --------------------------------------------------------------------------------------------------------- findings */

int measure_conclude_find(struct measure_report *report, enum measure_finding_kind kind, const char *subject,
			  const char *format, ...)
{
	struct measure_finding *finding;
	va_list args;

	if (report->finding_count == FINDINGS_MAX)
		return 0;
	if (sys_grow(&report->findings, report->finding_count, 1, sizeof(*finding)) < 0)
		return -ENOMEM;
	finding = &report->findings[report->finding_count++];
	*finding = (struct measure_finding){ .kind = kind };
	snprintf(finding->subject, sizeof(finding->subject), "%s", subject);
	va_start(args, format);
	log_sentence_v(finding->text, sizeof(finding->text), format, args);
	va_end(args);
	return 0;
}

void measure_report_fini(struct measure_report *report)
{
	free(report->findings);
	*report = (struct measure_report){ 0 };
}

/* ------------------------------------------------------------------------------------------------- links and limits */

static struct topology_capacity capacity_of(const struct measure_figure *figure, uint64_t latency_ns, int64_t date_s)
{
	return (struct topology_capacity){
		.rate_Bps = (uint64_t)llround(figure->rate_Bps),
		.latency_ns = latency_ns,
		.spread = figure->spread,
		.date_s = date_s,
		.provenance = figure->limiting ? TOPOLOGY_MEASURED : TOPOLOGY_AT_LEAST,
	};
}

static void write_links(struct topology *topology, const struct measure_figure *figures, bool complete, int64_t date_s)
{
	for (uint32_t i = 0; i < 2 * topology->link_count; i++) {
		struct topology_capacity *capacity = &topology->links[i / 2].capacity[i % 2];

		if (figures[i].rate_Bps <= 0 ||
		    (!complete && !figures[i].limiting && figures[i].rate_Bps < (double)capacity->rate_Bps))
			continue;
		*capacity = capacity_of(&figures[i], capacity->latency_ns, date_s);
	}
}

/* "gpu0.both" for the link of a vertex towards the CPU; otherwise the names of both ends. */
static void name_limit(const struct topology *topology, const struct measure_resource *item, char *ret,
		       size_t ret_bytes)
{
	static const char *const words[MEASURE_RESOURCE_KIND_COUNT] = {
		[MEASURE_RESOURCE_DEVICE] = "all",
		[MEASURE_RESOURCE_OUT] = "out",
		[MEASURE_RESOURCE_IN] = "in",
	};
	const struct topology_vertex *vertices = topology->vertices;
	const struct topology_link *link;
	int length;

	if (item->kind != MEASURE_RESOURCE_BOTH) {
		length = snprintf(ret, ret_bytes, "%s.%s", vertices[item->subject].name, words[item->kind]);
	} else {
		link = &topology->links[item->subject];
		if (link->kind == TOPOLOGY_LINK_MEMORY)
			length = snprintf(ret, ret_bytes, "%s", vertices[link->lower].name);
		else if (topology_uplink(topology, link->lower) == item->subject)
			length = snprintf(ret, ret_bytes, "%s.both", vertices[link->lower].name);
		else
			length = snprintf(ret, ret_bytes, "%s-%s.both", vertices[link->lower].name,
					  vertices[link->upper].name);
	}
	if (length < 0 || (size_t)length >= ret_bytes)
		snprintf(ret, ret_bytes, "limit%u.%d", (unsigned)item->subject, (int)item->kind);
}

static bool same_members(const struct topology_limit *limit, const uint32_t *members, size_t count)
{
	return limit->member_count == count && memcmp(limit->members, members, count * sizeof(*members)) == 0;
}

static int write_limit(struct topology *topology, const struct measure_resources *resources, size_t resource,
		       const struct measure_figure *figure, uint32_t *members, int64_t date_s)
{
	struct topology_capacity capacity = capacity_of(figure, 0, date_s);
	size_t count = measure_resources_members(resources, resource, members);
	char name[TOPOLOGY_NAME_BYTES], base[TOPOLOGY_NAME_BYTES];
	uint32_t index;

	name_limit(topology, &resources->items[resource], base, sizeof(base));
	memcpy(name, base, sizeof(name));
	for (unsigned number = 2; (index = topology_find_limit(topology, name)) != TOPOLOGY_NONE; number++) {
		if (same_members(&topology->limits[index], members, count)) {
			capacity.latency_ns = topology->limits[index].capacity.latency_ns;
			topology->limits[index].capacity = capacity;
			return 0;
		}
		/* A parallel link. */
		snprintf(name, sizeof(name), "%.*s#%u", (int)sizeof(name) - 12, base, number);
	}
	return topology_add_limit(topology, name, &capacity, members, count, &index);
}

static int write_limits(struct topology *topology, const struct measure_resources *resources,
			const struct measure_figure *figures, int64_t date_s)
{
	uint32_t *members = sys_zalloc((2 * topology->link_count + 1) * sizeof(*members));
	int r = members ? 0 : -ENOMEM;

	for (size_t i = 2 * topology->link_count; r == 0 && i < resources->count; i++)
		if ((figures[i].limiting || figures[i].suspected) && resources->items[i].kind < MEASURE_RESOURCE_CORES)
			r = write_limit(topology, resources, i, &figures[i], members, date_s);
	sys_free(members);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ pairs */

static bool is_gpu(const struct topology *topology, uint32_t vertex)
{
	return topology->vertices[vertex].kind == TOPOLOGY_GPU;
}

/* What the links of a single flow carry, the narrowest of them. */
static double narrowest(const struct measure_resources *resources, const struct measure_figure *figures, size_t result)
{
	const struct topology_route *route = measure_resources_route(resources, result, 0);
	double least = INFINITY;

	for (size_t i = 0; i < route->count; i++)
		least = fmin(least, figures[route->links[i]].rate_Bps);
	return least;
}

static int find_pair(struct topology *topology, const struct measure_experiment *experiment, struct topology_pair **ret)
{
	const struct topology_flow *flow = &experiment->flows->flow;
	uint32_t index = topology_find_pair(topology, flow->from, flow->to);
	int r = 0;

	if (index == TOPOLOGY_NONE) {
		struct probe_flow direct = { .flow = { flow->from, flow->to, TOPOLOGY_WAY_DIRECT, TOPOLOGY_NONE } };
		struct topology_pair pair = {
			.from = flow->from,
			.to = flow->to,
			.p2p_works = experiment->probe->ops->can(experiment->probe, &direct),
		};

		r = topology_add_pair(topology, &pair, &index);
	}
	if (r < 0)
		return r;
	*ret = &topology->pairs[index];
	return 0;
}

static void write_rate(struct topology_capacity *capacity, const struct measure_result *result, int64_t date_s)
{
	struct measure_figure figure = { .rate_Bps = result->series->mean_Bps,
					 .spread = result->series->half,
					 .limiting = true };

	if (result->latency_ns)
		capacity->latency_ns = result->latency_ns;
	/* Of a copy engine's and a kernel's rate, the better. */
	if (!result->usable || (capacity->provenance == TOPOLOGY_MEASURED && capacity->date_s == date_s &&
				figure.rate_Bps <= (double)capacity->rate_Bps))
		return;
	*capacity = capacity_of(&figure, capacity->latency_ns, date_s);
}

static int write_pair(struct topology *topology, const struct measure_resources *resources,
		      const struct measure_figure *figures, size_t index, int64_t date_s)
{
	const struct measure_result *result = &resources->results[index];
	const struct probe_flow *of = result->experiment->flows;
	const struct topology_flow *flow = &of->flow;
	struct topology_pair *pair = NULL;
	int r;

	if (result->experiment->count != 1)
		return 0;
	if (is_gpu(topology, flow->from) && is_gpu(topology, flow->to)) {
		r = find_pair(topology, result->experiment, &pair);
		if (r < 0)
			return r;
		if (flow->way == TOPOLOGY_WAY_DIRECT && of->engine == PROBE_ENGINE_DEFAULT)
			pair->p2p_works = !result->refused || result->series->count;
		if (!result->refused)
			write_rate(flow->way == TOPOLOGY_WAY_HOST ? &pair->host : &pair->p2p, result, date_s);
		return 0;
	}
	if (!result->usable || of->engine != PROBE_ENGINE_DEFAULT || flow->way != TOPOLOGY_WAY_DIRECT ||
	    (!measure_experiments_is_device(topology, flow->from) &&
	     !measure_experiments_is_device(topology, flow->to)) ||
	    result->series->mean_Bps >= ONE_FLOW * narrowest(resources, figures, index))
		return 0;
	r = find_pair(topology, result->experiment, &pair);
	if (r < 0)
		return r;
	pair->p2p_works = true;
	write_rate(&pair->p2p, result, date_s);
	return 0;
}

static void forget_pairs(struct topology *topology, const struct measure_resources *resources)
{
	for (size_t i = 0; i < resources->result_count; i++) {
		const struct measure_experiment *experiment = resources->results[i].experiment;
		const struct topology_flow *flow = &experiment->flows->flow;
		uint32_t index = experiment->count == 1 ? topology_find_pair(topology, flow->from, flow->to)
							: TOPOLOGY_NONE;
		struct topology_capacity *capacity;

		if (index == TOPOLOGY_NONE)
			continue;
		capacity = flow->way == TOPOLOGY_WAY_HOST ? &topology->pairs[index].host : &topology->pairs[index].p2p;
		if (resources->results[i].usable)
			*capacity = (struct topology_capacity){ .latency_ns = capacity->latency_ns };
	}
}

int measure_conclude(struct topology *topology, const struct measure_resources *resources,
		     const struct measure_figure *figures, bool complete, int64_t date_s)
{
	int r;

	/* An earlier measurement's figures must not be taken for a second engine's of this one. */
	forget_pairs(topology, resources);
	write_links(topology, figures, complete, date_s);
	r = write_limits(topology, resources, figures, date_s);
	for (size_t i = 0; r == 0 && i < resources->result_count; i++)
		r = write_pair(topology, resources, figures, i, date_s);
	return r;
}

/* ------------------------------------------------------------------------------------------------------------ check */

/* What the finished graph says of an experiment; 0: nothing. */
static int predict(const struct topology *topology, const struct measure_experiment *experiment, double *ret_Bps)
{
	struct topology_flow *flows = sys_zalloc((experiment->count + 1) * sizeof(*flows));
	uint64_t *rates = sys_zalloc((experiment->count + 1) * sizeof(*rates));
	double sum = 0;
	bool known = true;
	int r = -ENOMEM;

	if (flows && rates) {
		for (size_t i = 0; i < experiment->count; i++)
			flows[i] = experiment->flows[i].flow;
		r = topology_share(topology, flows, experiment->count, rates);
	}
	for (size_t i = 0; r == 0 && i < experiment->count; i++) {
		known = known && rates[i] != UINT64_MAX;
		sum += (double)rates[i];
	}
	sys_free(flows);
	sys_free(rates);
	if (r == -ENOMEM)
		return r;
	*ret_Bps = r == 0 && known ? sum : 0;
	return 0;
}

/* Cores have limits that no link has. */
static bool has_cores(const struct topology *topology, const struct measure_experiment *experiment)
{
	for (size_t i = 0; i < experiment->count; i++)
		if (!measure_experiments_is_device(topology, experiment->flows[i].flow.from) &&
		    !measure_experiments_is_device(topology, experiment->flows[i].flow.to))
			return true;
	return false;
}

static int check_results(const struct topology *topology, const struct measure_resources *resources,
			 struct measure_report *report)
{
	size_t found = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && found < SLOW_MAX && i < resources->result_count; i++) {
		const struct measure_result *result = &resources->results[i];
		double predicted;

		if (!result->usable || result->experiment->count < 2 || has_cores(topology, result->experiment))
			continue;
		r = predict(topology, result->experiment, &predicted);
		if (r < 0 || predicted <= 0 || result->series->mean_Bps >= MUCH_LESS * predicted)
			continue;
		found++;
		r = measure_conclude_find(
			report, MEASURE_CONTRADICTION, result->experiment->what,
			"these %zu flows got %.1f GB/s together, but their links and pairs by themselves "
			"allow %.1f GB/s: something that the graph does not know limits them",
			result->experiment->count, result->series->mean_Bps / 1e9, predicted / 1e9);
	}
	return r;
}

int measure_conclude_check(const struct topology *topology, const struct measure_resources *resources,
			   const struct measure_figure *figures, struct measure_report *report)
{
	const char *why = report->stopped || report->out_of_time
				  ? "nothing moved bytes over this link before the measurement ended"
				  : "no probe can move bytes over this link";
	int r = check_results(topology, resources, report);

	for (uint32_t i = 0; r == 0 && i < topology->link_count; i++) {
		char name[2 * TOPOLOGY_NAME_BYTES];

		if (figures[2 * i].rate_Bps > 0 || figures[2 * i + 1].rate_Bps > 0)
			continue;
		r = topology_directed_name(topology, 2 * i, name, sizeof(name));
		if (r == 0)
			r = measure_conclude_find(report, MEASURE_NOT_MEASURABLE, name, "%s", why);
	}
	return r;
}
