/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/simulated_probe.h"

#include "base/random.h"
#include "base/sys.h"
#include "base/text_file.h"
#include "measure/simulated_machine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 4 << 20, PATH_BYTES = 4096 };

/* A set of flows that was solved already: an experiment is repeated many times. */
struct solved {
	struct solved *next;
	struct probe_flow *flows;
	double *rates;
	size_t count;
	unsigned neighbours;
};

struct simulated {
	struct probe probe; /* first */
	struct simulated_machine machine;
	uint64_t random;
	uint64_t now_ns;
	struct solved *solved;
};

/* In (0, 1). */
static double random_part(uint64_t *state)
{
	return ((double)(random_next(state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Box and Muller 1958. */
static double random_normal(uint64_t *state)
{
	double radius = sqrt(-2 * log(random_part(state)));

	return radius * cos(2 * 3.14159265358979323846 * random_part(state));
}

/* ------------------------------------------------------------------------------------------------------------ rates */

static bool same_flows(const struct solved *solved, const struct probe_flow *flows, size_t count, unsigned neighbours)
{
	if (solved->count != count || solved->neighbours != neighbours)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!measure_experiments_same_flow(&solved->flows[i], &flows[i]))
			return false;
	return true;
}

static int solve_anew(struct simulated *simulated, const struct probe_flow *flows, size_t count, unsigned neighbours,
		      struct solved **ret)
{
	struct probe_simulated_rows rows = { 0 };
	struct solved *solved;
	struct probe_flow *kept;
	double *rates;
	int r = simulated_rows_of(&simulated->machine, flows, count, neighbours, &rows);

	if (r < 0)
		return r;
	solved = sys_zalloc_arrays(
		(struct sys_array[]){ SYS_ARRAY(solved, 1), SYS_ARRAY(kept, count), SYS_ARRAY(rates, count) }, 3);
	r = solved ? simulated_solve(&rows, rates) : -ENOMEM;
	simulated_rows_fini(&rows);
	if (r < 0) {
		sys_free(solved);
		return r;
	}
	memcpy(kept, flows, count * sizeof(*flows));
	*solved = (struct solved){ .flows = kept, .rates = rates, .count = count, .neighbours = neighbours };
	*ret = solved;
	return 0;
}

static int solve(struct simulated *simulated, const struct probe_flow *flows, size_t count, unsigned neighbours,
		 const double **ret)
{
	struct solved *solved = simulated->solved;
	int r;

	while (solved && !same_flows(solved, flows, count, neighbours))
		solved = solved->next;
	if (!solved) {
		r = solve_anew(simulated, flows, count, neighbours, &solved);
		if (r < 0)
			return r;
		solved->next = simulated->solved;
		simulated->solved = solved;
	}
	*ret = solved->rates;
	return 0;
}

/* Which neighbours are there at a time, and when that changes next. */
static unsigned neighbours_at(const struct probe_rules *rules, uint64_t now_ns, uint64_t *ret_until_ns)
{
	unsigned neighbours = 0;

	*ret_until_ns = UINT64_MAX;
	for (size_t i = 0; i < rules->neighbour_count; i++) {
		const struct probe_rules_neighbour *neighbour = &rules->neighbours[i];

		if (now_ns >= neighbour->from_ns && now_ns < neighbour->to_ns)
			neighbours |= 1u << i;
		if (neighbour->from_ns > now_ns && neighbour->from_ns < *ret_until_ns)
			*ret_until_ns = neighbour->from_ns;
		if (neighbour->to_ns > now_ns && neighbour->to_ns < *ret_until_ns)
			*ret_until_ns = neighbour->to_ns;
	}
	return neighbours;
}

/* The rates over a time, weighted by how long each set of neighbours was there. */
static int average(struct simulated *simulated, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		   double *ret_Bps)
{
	uint64_t at_ns = simulated->now_ns, end_ns = at_ns + duration_ns;

	for (size_t i = 0; i < count; i++)
		ret_Bps[i] = 0;
	while (at_ns < end_ns) {
		uint64_t until_ns;
		unsigned neighbours = neighbours_at(&simulated->machine.rules, at_ns, &until_ns);
		const double *rates;
		int r = solve(simulated, flows, count, neighbours, &rates);

		if (r < 0)
			return r;
		if (until_ns > end_ns)
			until_ns = end_ns;
		for (size_t i = 0; i < count; i++)
			ret_Bps[i] += rates[i] * (double)(until_ns - at_ns) / (double)duration_ns;
		at_ns = until_ns;
	}
	return 0;
}

/* Rates rise as 1 - exp(-t / ramp), so a short run reads low. */
static double ramp(const struct probe_rules *rules, uint64_t duration_ns)
{
	double part = (double)rules->ramp_ns / (double)duration_ns;

	return part > 0 ? 1 - part * (1 - exp(-1 / part)) : 1;
}

static double outlier(struct simulated *simulated)
{
	if (random_part(&simulated->random) >= simulated->machine.rules.outliers)
		return 1;
	return random_part(&simulated->random) < 0.1 ? 1.1 + 0.2 * random_part(&simulated->random)
						     : 0.5 + 0.4 * random_part(&simulated->random);
}

/* ------------------------------------------------------------------------------------------------------------ probe */

static struct simulated *simulated_of(struct probe *probe)
{
	return (struct simulated *)probe;
}

static bool simulated_can(struct probe *probe, const struct probe_flow *flow)
{
	return simulated_machine_can(&simulated_of(probe)->machine, flow);
}

static int simulated_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
			 struct probe_rates *ret, struct diag *diag)
{
	struct simulated *simulated = simulated_of(probe);
	const struct probe_rules *rules = &simulated->machine.rules;
	double factor;
	int r;

	if (probe_stopped(probe)) {
		diag_set(diag, 0, 0, "stopped");
		return -EINTR;
	}
	if (!duration_ns)
		duration_ns = 1;
	simulated->now_ns += rules->overhead_ns;
	r = average(simulated, flows, count, duration_ns, ret->rate_Bps);
	if (r < 0) {
		simulated->now_ns -= rules->overhead_ns;
		diag_set(diag, 0, 0, "the simulated machine cannot move one of these flows");
		return r;
	}
	factor = ramp(rules, duration_ns) * outlier(simulated) *
		 (1 + 0.5 * rules->noise * random_normal(&simulated->random));
	for (size_t i = 0; i < count; i++)
		ret->rate_Bps[i] *= factor * (1 + sqrt(0.75) * rules->noise * random_normal(&simulated->random));
	simulated->now_ns += duration_ns;
	ret->time_ns = rules->overhead_ns + duration_ns;
	return 0;
}

static int simulated_latency(struct probe *probe, const struct probe_flow *flow, uint64_t *ret_ns, struct diag *diag)
{
	struct simulated *simulated = simulated_of(probe);
	struct topology_route route;

	if (!simulated_machine_can(&simulated->machine, flow) ||
	    measure_experiments_route(&simulated->machine.truth, &flow->flow, &route) < 0) {
		diag_set(diag, 0, 0, "the simulated machine cannot move this flow");
		return -ENOTSUP;
	}
	/* A way through the host is two copies. */
	*ret_ns = route.latency_ns +
		  simulated->machine.rules.latency_ns * (flow->flow.way == TOPOLOGY_WAY_HOST ? 2 : 1);
	return 0;
}

static void simulated_close(struct probe *probe)
{
	struct simulated *simulated = simulated_of(probe);

	while (simulated->solved) {
		struct solved *next = simulated->solved->next;

		sys_free(simulated->solved);
		simulated->solved = next;
	}
	simulated_machine_fini(&simulated->machine);
	sys_free(simulated);
}

static const struct probe_ops simulated_ops = {
	.name = "simulated",
	.can = simulated_can,
	.run = simulated_run,
	.latency = simulated_latency,
	.close = simulated_close,
};

int simulated_probe_open(const struct topology *truth, const struct probe_rules *rules, uint64_t seed,
			 struct probe **ret)
{
	struct simulated *simulated = sys_zalloc(sizeof(*simulated));
	int r;

	if (!simulated)
		return -ENOMEM;
	r = simulated_machine_init(&simulated->machine, truth, rules);
	if (r < 0) {
		sys_free(simulated);
		return r;
	}
	simulated->probe = (struct probe){ .ops = &simulated_ops, .topology = &simulated->machine.truth };
	simulated->random = seed;
	*ret = &simulated->probe;
	return 0;
}

int simulated_probe_solve(struct probe *probe, const struct probe_flow *flows, size_t count, double *ret_Bps)
{
	const double *rates;
	int r = solve(simulated_of(probe), flows, count, 0, &rates);

	if (r == 0)
		memcpy(ret_Bps, rates, count * sizeof(*rates));
	return r;
}

int simulated_probe_constraints(struct probe *probe, const struct probe_flow *flows, size_t count,
				struct probe_simulated_rows *ret)
{
	return simulated_rows_of(&simulated_of(probe)->machine, flows, count, 0, ret);
}

/* ------------------------------------------------------------------------------------------------------------ files */

int simulated_probe_hide(const struct topology *truth, struct topology *ret)
{
	struct topology hidden;
	uint32_t index;
	int r = 0;

	topology_init(&hidden);
	memcpy(hidden.name, truth->name, sizeof(hidden.name));
	memcpy(hidden.driver, truth->driver, sizeof(hidden.driver));
	for (size_t i = 0; r == 0 && i < truth->vertex_count; i++)
		r = topology_add_vertex(&hidden, &truth->vertices[i], &index);
	for (size_t i = 0; r == 0 && i < truth->link_count; i++) {
		struct topology_link link = truth->links[i];

		for (size_t j = 0; j < 2; j++)
			link.capacity[j] = (struct topology_capacity){
				.rate_Bps = link.nominal_Bps,
				.latency_ns = truth->links[i].capacity[j].latency_ns,
				.provenance = link.nominal_Bps ? TOPOLOGY_NOMINAL : TOPOLOGY_UNKNOWN,
			};
		r = topology_add_link(&hidden, &link, &index);
	}
	if (r < 0) {
		topology_fini(&hidden);
		return r;
	}
	*ret = hidden;
	return 0;
}

/* *ret is freed by sys_free. */
static int read_file(const char *folder, const char *name, char **ret, size_t *ret_bytes, struct diag *diag)
{
	static const struct text_file kind = { .kind = "simulated machine", .limit_bytes = FILE_BYTES_MAX };
	char path[PATH_BYTES];
	int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	return text_file_read(&kind, path, FILE_BYTES_MAX, ret, ret_bytes, diag);
}

int simulated_probe_read(const char *folder, struct topology *ret_truth, struct probe_rules *ret_rules,
			 struct diag *diag)
{
	char *text = NULL;
	size_t bytes = 0;
	struct probe_rules rules;
	int r = read_file(folder, "rules", &text, &bytes, diag);

	if (r == 0)
		r = simulated_rules_read(text, bytes, &rules, diag);
	sys_free(text);
	text = NULL;
	if (r == 0)
		r = read_file(folder, "machine.topology", &text, &bytes, diag);
	if (r == 0)
		r = topology_read(text, bytes, ret_truth, diag);
	if (r == 0)
		*ret_rules = rules;
	sys_free(text);
	return r;
}
