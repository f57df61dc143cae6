/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/infer.h"

#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define TOP           0.015 /* experiments this close to the most that a resource carried say the same */
#define FULL          0.985 /* of its most, and SURE_ERRORS less: full */
#define NEARLY_FULL   0.975 /* and ERRORS_APART less: it may have been full; below, surely not */
#define PAIR_FULL     0.95  /* of what one flow between the same ends gets */
#define SLOWED        0.95  /* of what a flow gets alone: surely */
#define SLOWED_A_BIT  0.97  /* enough to suspect something */
#define SURE_ERRORS   2.0   /* standard errors */
#define ERRORS_APART  4.0
#define LONELY_ERRORS 4.0   /* of the highest experiment above the next ones */
#define ERRORS        3.0   /* standard errors that make a difference */
#define SYSTEMATIC    0.003 /* no experiment is more precise than this, over the rate */
#define NARROWER      0.6   /* of nominal rates: surely the narrower one */
#define PLAUSIBLE     0.5   /* of its nominal rate: less is another bottleneck */

struct inference {
	const struct measure_resources *resources;
	void *arrays; /* all that follow */
	double *most; /* of each resource */
	bool *limiting, *suspected;
	bool *evidence;  /* of each result and resource: this experiment shows it */
	uint32_t *alone; /* of each flow of each result: the experiment with that flow alone; TOPOLOGY_NONE */
};

/* Resources that a flow may have been held up by. */
struct suspects {
	uint32_t full[MEASURE_USES_MAX], nearly[MEASURE_USES_MAX];
	size_t full_count, nearly_count;
	bool explained; /* one of them is known to be a bottleneck */
};

static const struct measure_experiment *experiment_of(const struct inference *inference, size_t result)
{
	return inference->resources->results[result].experiment;
}

static const struct measure_load *load_of(const struct inference *inference, size_t result, size_t resource)
{
	return measure_resources_load(inference->resources, result, resource);
}

static double weight_of(const struct measure_load *load)
{
	double error = fmax(load->error_Bps, SYSTEMATIC * load->rate_Bps);

	return 1 / (error * error + SYSTEMATIC * SYSTEMATIC * load->rate_Bps * load->rate_Bps);
}

/* ------------------------------------------------------------------------------------------------------------- most */

/* Experiments that say the same of a resource, the highest of those not above `below`. */
struct top {
	double rate_Bps, error_Bps; /* of their mean */
	double lowest_Bps;
	size_t count;
};

static bool counts(const struct inference *inference, size_t result, size_t resource, bool evidence)
{
	return load_of(inference, result, resource)->rate_Bps > 0 &&
	       (!evidence || inference->evidence[result * inference->resources->count + resource]);
}

/*
 * The highest is the one that surely reached most, not the one that an imprecise repetition put there. The mean of it
 * and those close to it, as the largest of many alike would be too large.
 */
static struct top find_top(const struct inference *inference, size_t resource, double below, bool evidence)
{
	const struct measure_resources *resources = inference->resources;
	double highest = 0, surest = 0, sum = 0, weights = 0;
	struct top top = { .lowest_Bps = INFINITY };

	for (size_t i = 0; i < resources->result_count; i++) {
		const struct measure_load *load = load_of(inference, i, resource);

		if (!counts(inference, i, resource, evidence) || load->rate_Bps >= below ||
		    load->rate_Bps - SURE_ERRORS * load->error_Bps <= surest)
			continue;
		surest = load->rate_Bps - SURE_ERRORS * load->error_Bps;
		highest = load->rate_Bps;
	}
	for (size_t i = 0; i < resources->result_count; i++) {
		const struct measure_load *load = load_of(inference, i, resource);

		if (!counts(inference, i, resource, evidence) || load->rate_Bps >= below ||
		    load->rate_Bps < highest * (1 - TOP))
			continue;
		sum += weight_of(load) * load->rate_Bps;
		weights += weight_of(load);
		top.lowest_Bps = fmin(top.lowest_Bps, load->rate_Bps);
		top.count++;
	}
	if (top.count) {
		top.rate_Bps = sum / weights;
		top.error_Bps = 1 / sqrt(weights);
	}
	return top;
}

/*
 * Among many experiments there is always one that is high by accident. One alone above all others is believed if it is
 * surely above the next ones; otherwise it is one of them. evidence: only experiments that the resource held up.
 */
static struct top believed_top(const struct inference *inference, size_t resource, bool evidence)
{
	struct top top = find_top(inference, resource, INFINITY, evidence), next;
	double weight, next_weight;

	if (top.count != 1)
		return top;
	next = find_top(inference, resource, top.lowest_Bps, evidence);
	if (!next.count || top.rate_Bps - next.rate_Bps > LONELY_ERRORS * hypot(top.error_Bps, next.error_Bps))
		return top;
	weight = 1 / (top.error_Bps * top.error_Bps);
	next_weight = 1 / (next.error_Bps * next.error_Bps);
	return (struct top){
		.rate_Bps = (weight * top.rate_Bps + next_weight * next.rate_Bps) / (weight + next_weight),
		.error_Bps = 1 / sqrt(weight + next_weight),
		.lowest_Bps = next.lowest_Bps,
		.count = next.count + 1,
	};
}

static void find_most(struct inference *inference)
{
	for (size_t i = 0; i < inference->resources->count; i++)
		inference->most[i] = believed_top(inference, i, false).rate_Bps;
}

static uint32_t *alone_of(const struct inference *inference, size_t result, size_t flow)
{
	return &inference->alone[inference->resources->first_flow[result] + flow];
}

static void find_alone(struct inference *inference)
{
	const struct measure_resources *resources = inference->resources;

	for (size_t i = 0; i < resources->result_count; i++)
		for (size_t j = 0; j < experiment_of(inference, i)->count; j++) {
			uint32_t *alone = alone_of(inference, i, j);

			*alone = TOPOLOGY_NONE;
			for (uint32_t k = 0; *alone == TOPOLOGY_NONE && k < resources->result_count; k++)
				if (experiment_of(inference, k)->count == 1 && resources->results[k].usable &&
				    measure_experiments_same_flow(experiment_of(inference, k)->flows,
								  &experiment_of(inference, i)->flows[j]))
					*alone = k;
		}
}

/* --------------------------------------------------------------------------------------------------------- suspects */

/* Clearly slower than alone: something that it shares with the others was full. */
static bool is_slowed(const struct inference *inference, size_t result, size_t flow, double part)
{
	const struct measure_result *results = inference->resources->results;
	uint32_t single = *alone_of(inference, result, flow);
	double rate, error, alone, alone_error;

	if (single == TOPOLOGY_NONE)
		return false;
	rate = measure_series_flow(results[result].series, flow, &error);
	alone = measure_series_flow(results[single].series, 0, &alone_error);
	return rate < part * alone && alone - rate > ERRORS * hypot(error, alone_error);
}

static bool is_full(const struct measure_load *load, double most)
{
	return load->rate_Bps + SURE_ERRORS * load->error_Bps >= FULL * most;
}

static bool may_be_full(const struct measure_load *load, double most)
{
	return load->rate_Bps + ERRORS_APART * load->error_Bps >= NEARLY_FULL * most;
}

/*
 * Where an engine fills its device's link, the two are the same from outside, and the link gets the figure. Otherwise
 * the engine alone was full, and says nothing about links; so do cores.
 */
static bool engine_is_link(const struct inference *inference, size_t result, uint32_t engine)
{
	const struct measure_resource *item = &inference->resources->items[engine];

	return item->kind != MEASURE_RESOURCE_CORES &&
	       may_be_full(load_of(inference, result, item->subject), inference->most[item->subject]);
}

/*
 * Two flows between the same two devices may be held up by what that pair gets. (What a device and a memory get is
 * what the device can do.)
 */
static bool pair_is_full(const struct inference *inference, size_t result, size_t flow)
{
	const struct measure_experiment *experiment = experiment_of(inference, result);
	const struct topology *topology = inference->resources->topology;
	const struct topology_flow *of = &experiment->flows[flow].flow;
	double together = 0, alone = 0, error;
	size_t count = 0;

	if (!measure_experiments_is_device(topology, of->from) || !measure_experiments_is_device(topology, of->to))
		return false;
	for (size_t i = 0; i < experiment->count; i++) {
		const struct topology_flow *other = &experiment->flows[i].flow;
		uint32_t single = *alone_of(inference, result, i);

		if (other->from != of->from || other->to != of->to || other->way != of->way)
			continue;
		count++;
		together += measure_series_flow(inference->resources->results[result].series, i, &error);
		if (single != TOPOLOGY_NONE)
			alone = fmax(alone, inference->resources->results[single].series->mean_Bps);
	}
	return count > 1 && together >= PAIR_FULL * alone;
}

/* What was full on the way of a flow; shared: only what others used too. */
static void find_suspects(const struct inference *inference, size_t result, size_t flow, bool shared,
			  struct suspects *ret)
{
	struct measure_use uses[MEASURE_USES_MAX];
	size_t count = measure_resources_of_flow(inference->resources, result, flow, uses);

	*ret = (struct suspects){ .explained = shared && pair_is_full(inference, result, flow) };
	for (size_t i = 0; i < count; i++) {
		uint32_t resource = uses[i].resource;
		const struct measure_load *load = load_of(inference, result, resource);
		enum measure_resource_kind kind = inference->resources->items[resource].kind;
		double most = inference->most[resource];

		if (!load->active || !may_be_full(load, most) || (shared && load->users < 2))
			continue;
		if (!shared && kind != MEASURE_RESOURCE_LINK)
			continue;
		if (kind >= MEASURE_RESOURCE_CORES) {
			ret->explained = ret->explained || !engine_is_link(inference, result, resource);
			continue;
		}
		if (is_full(load, most))
			ret->full[ret->full_count++] = resource;
		else
			ret->nearly[ret->nearly_count++] = resource;
	}
	for (size_t i = 0; i < ret->full_count; i++)
		ret->explained = ret->explained || inference->limiting[ret->full[i]];
	for (size_t i = 0; i < ret->nearly_count && !ret->full_count; i++)
		ret->explained = ret->explained || inference->limiting[ret->nearly[i]];
}

/* A flow whose way through one device link was measured by itself: the link, or what the device can do. */
static bool ends_at_device(const struct inference *inference, uint32_t directed)
{
	const struct topology *topology = inference->resources->topology;
	const struct topology_link *link = &topology->links[directed / 2];

	return measure_experiments_is_device(topology, link->lower) ||
	       measure_experiments_is_device(topology, link->upper);
}

static bool is_direct(const struct measure_experiment *experiment)
{
	return experiment->flows->flow.way == TOPOLOGY_WAY_DIRECT;
}

/* Whether a flow is fit to show what held it up, and what did. */
static bool find_witness(const struct inference *inference, size_t result, size_t flow, double slowed,
			 struct suspects *ret)
{
	const struct measure_experiment *experiment = experiment_of(inference, result);
	const struct topology *topology = inference->resources->topology;

	if (!inference->resources->results[result].usable)
		return false;
	if (experiment->count > 1) {
		if (!is_slowed(inference, result, flow, slowed))
			return false;
		find_suspects(inference, result, flow, true, ret);
		return true;
	}
	/* Cores may be what limits a copy that runs alone, and staging one through the host. */
	if (!is_direct(experiment) || (!measure_experiments_is_device(topology, experiment->flows->flow.from) &&
				       !measure_experiments_is_device(topology, experiment->flows->flow.to)))
		return false;
	find_suspects(inference, result, 0, false, ret);
	return true;
}

/* ----------------------------------------------------------------------------------------------------------- groups */

/* The nominal rate; INFINITY for what is by convention wider than a device's slot; 0: cannot be compared. */
static double nominal_of(const struct inference *inference, uint32_t resource)
{
	const struct measure_resource *item = &inference->resources->items[resource];
	const struct topology *topology = inference->resources->topology;
	const struct topology_link *link;

	if (item->kind != MEASURE_RESOURCE_LINK && item->kind != MEASURE_RESOURCE_BOTH)
		return 0;
	link = &topology->links[item->kind == MEASURE_RESOURCE_LINK ? item->subject / 2 : item->subject];
	if (link->kind == TOPOLOGY_LINK_INTERNAL || link->kind == TOPOLOGY_LINK_MEMORY)
		return INFINITY;
	return link->kind == TOPOLOGY_LINK_PCI || link->kind == TOPOLOGY_LINK_NETWORK ? (double)link->nominal_Bps : 0;
}

/*
 * Links in a row that every experiment filled alike cannot be told apart by any experiment. By their nominal rates they
 * can, if one is far narrower than the others and carried what such a link may. TOPOLOGY_NONE: they cannot.
 */
static uint32_t narrowest(const struct inference *inference, const struct suspects *suspects)
{
	const struct measure_resource *items = inference->resources->items;
	uint32_t best = TOPOLOGY_NONE;
	double least = INFINITY, next = INFINITY;

	for (size_t i = 0; i < suspects->full_count + suspects->nearly_count; i++) {
		uint32_t resource = i < suspects->full_count ? suspects->full[i]
							     : suspects->nearly[i - suspects->full_count];
		double nominal = nominal_of(inference, resource);

		if (nominal <= 0 || items[resource].kind != items[suspects->full[0]].kind)
			return TOPOLOGY_NONE;
		if (nominal < least) {
			next = least;
			least = nominal;
			best = i < suspects->full_count ? resource : TOPOLOGY_NONE;
		} else if (nominal < next) {
			next = nominal;
		}
	}
	if (best == TOPOLOGY_NONE || least > NARROWER * next)
		return TOPOLOGY_NONE;
	if (items[best].kind == MEASURE_RESOURCE_LINK && inference->most[best] < PLAUSIBLE * least)
		return TOPOLOGY_NONE;
	return best;
}

/* ----------------------------------------------------------------------------------------------------------- decide */

enum pass {
	PASS_SHARED, /* slowed flows with one suspect */
	PASS_ALONE,  /* single flows with one suspect, the device's own link */
	PASS_GROUPS, /* several suspects, told apart by their nominal rates */
	PASS_COUNT
};

/* The resource that this flow shows to be a bottleneck; TOPOLOGY_NONE. */
static uint32_t shown_by(const struct inference *inference, enum pass pass, size_t result, size_t flow)
{
	bool single = experiment_of(inference, result)->count == 1;
	struct suspects suspects;

	if ((pass == PASS_SHARED && single) || (pass == PASS_ALONE && !single) ||
	    !find_witness(inference, result, flow, SLOWED, &suspects) || suspects.explained || !suspects.full_count)
		return TOPOLOGY_NONE;
	if (pass == PASS_GROUPS)
		return narrowest(inference, &suspects);
	if (suspects.full_count > 1 || suspects.nearly_count)
		return TOPOLOGY_NONE;
	if (single && !ends_at_device(inference, suspects.full[0]))
		return TOPOLOGY_NONE;
	return suspects.full[0];
}

static bool decide(struct inference *inference, enum pass pass)
{
	const struct measure_resources *resources = inference->resources;
	bool more = false;

	for (size_t i = 0; i < resources->result_count; i++)
		for (size_t j = 0; j < experiment_of(inference, i)->count; j++) {
			uint32_t shown = shown_by(inference, pass, i, j);

			if (shown == TOPOLOGY_NONE)
				continue;
			inference->limiting[shown] = true;
			more = true;
		}
	return more;
}

/* From the surest kind of evidence to the least; whatever is new may explain what the surer kinds could not use. */
static void decide_all(struct inference *inference)
{
	for (unsigned pass = 0; pass < PASS_COUNT;)
		pass = decide(inference, (enum pass)pass) ? 0 : pass + 1;
}

/* Of a flow that nothing known explains: what was full, or else nearly so. */
static size_t candidates_of(const struct suspects *suspects, const uint32_t **ret)
{
	*ret = suspects->full_count ? suspects->full : suspects->nearly;
	return suspects->full_count ? suspects->full_count : suspects->nearly_count;
}

/*
 * Flows that are still not explained: any of what was full may have been it. Those with the fewest candidates come first: what
 * they leave suspected explains others, too.
 */
static void find_suspected(struct inference *inference)
{
	const struct measure_resources *resources = inference->resources;

	for (size_t most = 1; most <= MEASURE_USES_MAX; most++)
		for (size_t i = 0; i < resources->result_count; i++)
			for (size_t j = 0; j < experiment_of(inference, i)->count; j++) {
				struct suspects suspects;
				const uint32_t *candidates;
				size_t count;
				bool known = false;

				if (!find_witness(inference, i, j, SLOWED_A_BIT, &suspects) || suspects.explained)
					continue;
				count = candidates_of(&suspects, &candidates);
				for (size_t k = 0; k < count; k++)
					known = known || inference->suspected[candidates[k]];
				for (size_t k = 0; k < count && count == most && !known; k++)
					inference->suspected[candidates[k]] = true;
			}
}

/* Every experiment that a bottleneck held up, for its figure. */
static void find_evidence(struct inference *inference)
{
	const struct measure_resources *resources = inference->resources;

	for (size_t i = 0; i < resources->result_count; i++)
		for (size_t j = 0; j < experiment_of(inference, i)->count; j++) {
			struct suspects suspects;
			uint32_t only = TOPOLOGY_NONE;
			size_t known = 0;

			if (!find_witness(inference, i, j, SLOWED, &suspects))
				continue;
			for (size_t k = 0; k < suspects.full_count; k++)
				if (inference->limiting[suspects.full[k]]) {
					only = suspects.full[k];
					known++;
				}
			if (known == 1)
				inference->evidence[i * resources->count + only] = true;
		}
}

/* ---------------------------------------------------------------------------------------------------------- figures */

static struct measure_figure figure_of(const struct inference *inference, size_t resource)
{
	const struct measure_resources *resources = inference->resources;
	struct measure_figure figure = { .rate_Bps = inference->most[resource],
					 .limiting = inference->limiting[resource],
					 .suspected = inference->suspected[resource] };
	struct top top = believed_top(inference, resource, true);
	double squares = 0, weights = 0;

	if (!top.count)
		return figure;
	figure.rate_Bps = top.rate_Bps;
	for (size_t i = 0; i < resources->result_count; i++) {
		const struct measure_load *load = load_of(inference, i, resource);

		if (!counts(inference, i, resource, true) || load->rate_Bps < top.lowest_Bps ||
		    load->rate_Bps > (2 * top.rate_Bps - top.lowest_Bps) * (1 + TOP))
			continue;
		squares += weight_of(load) * pow(load->rate_Bps - top.rate_Bps, 2);
		weights += weight_of(load);
	}
	/* What the repetitions scatter, or the experiments among each other, whichever is more. */
	figure.spread = 1.96 * top.error_Bps;
	if (top.count > 1)
		figure.spread = fmax(figure.spread, 1.96 * sqrt(squares / weights / (double)(top.count - 1)));
	figure.spread /= figure.rate_Bps;
	return figure;
}

int measure_infer(const struct measure_resources *resources, struct measure_figure *ret)
{
	struct inference inference = { .resources = resources };
	size_t count = resources->count, results = resources->result_count;

	inference.arrays = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(inference.most, count), SYS_ARRAY(inference.limiting, count),
				      SYS_ARRAY(inference.suspected, count),
				      SYS_ARRAY(inference.evidence, count * results),
				      SYS_ARRAY(inference.alone, resources->first_flow[results]) },
		5);
	if (!inference.arrays)
		return -ENOMEM;
	find_alone(&inference);
	find_most(&inference);
	decide_all(&inference);
	find_suspected(&inference);
	find_evidence(&inference);
	for (size_t i = 0; i < count; i++)
		ret[i] = figure_of(&inference, i);
	sys_free(inference.arrays);
	return 0;
}
