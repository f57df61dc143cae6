/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Against NCCL itself: real machines, and the channels that NCCL 2.28.9 chose for them (nccl_chose.h). Both are verified by
 * the verifier's arithmetic on the same capacities: nominal, and with links that are not what NCCL takes them for. The table
 * is the record.
 */
#include "tributary/plan.h"

#include "base/log.h"
#include "ncclxml/graph_xml.h"
#include "unit/plan/nccl_chose.h"
#include "base/random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 3 };

enum deviation { NOMINAL, UPLINK_HALF, SOCKET_MORE, SLOT_X8, ALL_THREE, DEVIATION_COUNT };
static const char *const deviation_words[] = { "nominal", "uplink x0.5", "sockets x1.5", "a slot at x8", "all three" };

struct comparison {
	struct topology topology;
	struct plan_request request;
	struct graph_xml_numbers numbers;
	struct graph_xml graphs; /* NCCL's */
};

struct outcome {
	struct plan nccls, best;
	struct plan_set set, either;
	bool has_either;
};

/* What of the possible gain is reached, of all cases of one kind of plan of ours. */
struct gains {
	const char *name;
	unsigned cases, worse, possible, less, none; /* less: than nine tenths of what is possible */
	double least_ratio, least_share, least_of_best[2];
};

/*
 * What is reached of the possible gain, so that less fails. Nine tenths are sought everywhere; where a set has less, ring
 * and tree would need unequal numbers of channels (docs/design/planner.md). "Others" are the cases of "either" but for one machine,
 * whose search for either number of hosts runs out of work.
 */
static const char search_ends_early[] = "oci-h100-2n";
static const struct {
	double least_share;
	unsigned less_permille; /* of the cases in which more than a tenth could be gained, those with less than 0.9 */
} gain_floors[4] = { { 0.97, 0 }, { 0.7, 50 }, { 0.44, 142 }, { 0.7, 131 } };

/* The value of an attribute in [at, end), or NULL. */
static const char *attribute(const char *at, const char *end, const char *name)
{
	size_t bytes = strlen(name);

	for (; at + bytes + 2 < end; at++)
		if (at[0] == ' ' && !strncmp(at + 1, name, bytes) && at[1 + bytes] == '=' && at[2 + bytes] == '"')
			return at + bytes + 3;
	return NULL;
}

/* Which NIC is which of NCCL's devices: by its `dev`, else in the order of the file. */
static void find_nets(struct comparison *comparison, const char *text)
{
	unsigned long next = 0;

	for (size_t i = 0; i < PLAN_NICS_MAX; i++)
		comparison->numbers.net_devices[i] = -1;
	for (const char *at = strstr(text, "<net "); at; at = strstr(at + 1, "<net ")) {
		const char *end = strchr(at, '>'), *name = attribute(at, end, "name"), *dev = attribute(at, end, "dev");
		unsigned long device = dev ? strtoul(dev, NULL, 10) : next;
		char copy[TOPOLOGY_NAME_BYTES];
		uint32_t nic;

		next = device + 1;
		if (!name)
			continue;
		snprintf(copy, sizeof(copy), "nic:%.*s", (int)strcspn(name, "\""), name);
		nic = topology_find(&comparison->topology, copy);
		for (size_t i = 0; i < comparison->request.nic_count; i++)
			if (comparison->request.nics[i] == nic)
				comparison->numbers.net_devices[i] = (int)device;
	}
}

/* How many of a list of vertices have a lesser bus id: in that order NCCL numbers what the file does not. */
static int bus_place(const struct topology *topology, const uint32_t *list, size_t count, uint32_t vertex)
{
	int place = 0;

	for (size_t i = 0; i < count; i++)
		place += strcmp(topology->vertices[list[i]].bus_id, topology->vertices[vertex].bus_id) < 0;
	return place;
}

/* What the file does not number NCCL numbers by bus id. */
static void number_the_rest(struct comparison *comparison, bool nets)
{
	struct plan_request *request = &comparison->request;

	for (size_t i = 0; nets && i < request->nic_count; i++)
		comparison->numbers.net_devices[i] = bus_place(&comparison->topology, request->nics, request->nic_count,
							       request->nics[i]);
	for (size_t i = 0; i < request->gpu_count; i++) {
		struct topology_gpu *gpu = &comparison->topology.vertices[request->gpus[i]].gpu;

		if (gpu->index < 0)
			gpu->index = bus_place(&comparison->topology, request->gpus, request->gpu_count,
					       request->gpus[i]);
	}
}

static bool load(const char *folder, const struct nccl_chose *which, struct comparison *ret)
{
	struct diag diag;
	size_t bytes;
	char *text = nccl_chose_machine_text(folder, which, &bytes);

	if (!text)
		return false;
	nccl_chose_load(which, text, bytes, &ret->topology, &ret->request);
	find_nets(ret, text);
	free(text);
	number_the_rest(ret, which->told);
	text = nccl_chose_graph_text(folder, which, &bytes);
	if (!text) {
		topology_fini(&ret->topology);
		return false;
	}
	if (graph_xml_read(text, bytes, &ret->graphs, &diag) < 0)
		fail_msg("%s:%d: %s", which->graph, diag.line, diag.text);
	free(text);
	return true;
}

/* ------------------------------------------------------------------------------------------------------- deviations */

static void scale(struct topology_link *link, double factor)
{
	for (int i = 0; i < 2; i++) {
		link->capacity[i].rate_Bps = (uint64_t)((double)link->capacity[i].rate_Bps * factor);
		link->capacity[i].provenance = TOPOLOGY_MEASURED;
	}
}

/* One link of those that a test accepts, if there is any. */
static void scale_one(struct topology *topology, uint64_t *seed, double factor,
		      bool (*accepts)(const struct topology *, const struct topology_link *))
{
	size_t count = 0, wanted;

	for (size_t i = 0; i < topology->link_count; i++)
		count += accepts(topology, &topology->links[i]);
	wanted = count ? random_below(seed, count) : 0;
	for (size_t i = 0; i < topology->link_count; i++)
		if (accepts(topology, &topology->links[i]) && !wanted--)
			scale(&topology->links[i], factor);
}

static bool is_uplink(const struct topology *topology, const struct topology_link *link)
{
	return link->kind == TOPOLOGY_LINK_PCI && topology->vertices[link->lower].kind == TOPOLOGY_SWITCH;
}

static bool is_socket_link(const struct topology *topology, const struct topology_link *link)
{
	(void)topology;
	return link->kind == TOPOLOGY_LINK_SOCKET;
}

static bool is_slot(const struct topology *topology, const struct topology_link *link)
{
	return link->kind == TOPOLOGY_LINK_PCI && topology->vertices[link->lower].kind == TOPOLOGY_GPU;
}

static void deviate(struct topology *topology, enum deviation deviation, uint64_t seed)
{
	if (deviation == UPLINK_HALF || deviation == ALL_THREE)
		scale_one(topology, &seed, 0.5, is_uplink);
	if (deviation == SOCKET_MORE || deviation == ALL_THREE)
		scale_one(topology, &seed, 1.5, is_socket_link);
	if (deviation == SLOT_X8 || deviation == ALL_THREE)
		scale_one(topology, &seed, 0.5, is_slot);
}

/* ------------------------------------------------------------------------------------------------------- comparison */

static const struct graph_xml_graph *graph_of(const struct comparison *comparison, enum plan_pattern pattern)
{
	enum graph_xml_id id = pattern == PLAN_RING ? GRAPH_XML_RING : GRAPH_XML_TREE;

	for (size_t i = 0; i < comparison->graphs.graph_count; i++)
		if (comparison->graphs.graphs[i].id == id && comparison->graphs.graphs[i].channel_count)
			return &comparison->graphs.graphs[i];
	return NULL;
}

static void count_case(struct gains *gains, const struct outcome *outcome, uint64_t ours_Bps)
{
	uint64_t nccls_Bps = plan_total_Bps(&outcome->nccls), bound_Bps = outcome->best.bound_Bps;
	double of_best = (double)ours_Bps / (double)plan_total_Bps(&outcome->best);
	double *least_of_best = &gains->least_of_best[outcome->best.pattern];
	double ratio = (double)ours_Bps / (double)nccls_Bps, share;

	gains->cases++;
	*least_of_best = of_best < *least_of_best ? of_best : *least_of_best;
	/* A rate is rounded down to whole bytes/s, for each channel. */
	gains->worse += ours_Bps + PLAN_CHANNELS_MAX < nccls_Bps;
	gains->least_ratio = ratio < gains->least_ratio ? ratio : gains->least_ratio;
	if ((double)bound_Bps < 1.1 * (double)nccls_Bps)
		return;
	share = ((double)ours_Bps - (double)nccls_Bps) / (double)(bound_Bps - nccls_Bps);
	gains->possible++;
	gains->least_share = share < gains->least_share ? share : gains->least_share;
	gains->less += share < 0.9;
}

/* Of a set's plan what it moves on the hosts of this case. */
static uint64_t set_total(const struct comparison *comparison, const struct plan_set *set, enum plan_pattern pattern)
{
	return set->channel_count * (comparison->request.hosts > 1 ? set->inter_Bps[pattern] : set->intra_Bps[pattern]);
}

static void plan_all(struct comparison *comparison, const char *name, enum plan_pattern pattern, struct outcome *ret)
{
	struct plan_request *request = &comparison->request;
	struct diag diag = { .text = "" };
	int r;

	request->crossnic = ret->nccls.crossnic;
	if (plan_verify_rate(&comparison->topology, request, &ret->nccls, &ret->nccls.rate_Bps, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	assert_int_equal(plan_make(&comparison->topology, request, pattern, &ret->best), 0);
	if (plan_verify(&comparison->topology, request, &ret->best, &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	assert_int_equal(plan_make_set(&comparison->topology, request,
				       request->hosts > 1 ? PLAN_SEVERAL_HOSTS : PLAN_ONE_HOST, &ret->set),
			 0);
	if (plan_verify(&comparison->topology, request, &ret->set.plans[pattern], &diag) < 0)
		fail_msg("%s: %s", name, diag.text);
	r = request->nic_count ? plan_make_set(&comparison->topology, request, PLAN_EITHER, &ret->either) : -ENODATA;
	assert_true(r == 0 || r == -ENODATA);
	ret->has_either = r == 0;
}

static void print_case(const struct comparison *comparison, const char *name, enum plan_pattern pattern,
		       enum deviation deviation, unsigned seed, const struct outcome *outcome)
{
	char either[32] = "none";

	if (outcome->has_either)
		snprintf(either, sizeof(either), "%2zu %8.3f", outcome->either.channel_count,
			 (double)set_total(comparison, &outcome->either, pattern) / 1e9);
	print_message("%-20s %s %-12s %u | %2zu %8.3f | %2zu %8.3f | %2zu %8.3f | %-11s | %8.3f\n", name,
		      pattern == PLAN_RING ? "ring" : "tree", deviation_words[deviation], seed,
		      outcome->nccls.channel_count, (double)plan_total_Bps(&outcome->nccls) / 1e9,
		      outcome->best.channel_count, (double)plan_total_Bps(&outcome->best) / 1e9,
		      outcome->set.channel_count, (double)set_total(comparison, &outcome->set, pattern) / 1e9, either,
		      (double)outcome->best.bound_Bps / 1e9);
}

static void compare(struct comparison *comparison, const char *name, enum plan_pattern pattern,
		    enum deviation deviation, unsigned seed, struct gains gains[4])
{
	const struct graph_xml_graph *graph = graph_of(comparison, pattern);
	struct diag diag = { .text = "" };
	struct outcome outcome;

	if (!graph || graph_xml_to_plan(&comparison->topology, &comparison->request, &comparison->numbers, graph,
					&outcome.nccls, &diag) < 0) {
		fail_msg("%s %s: %s", name, pattern == PLAN_RING ? "rings" : "trees", diag.text);
		return;
	}
	plan_all(comparison, name, pattern, &outcome);
	print_case(comparison, name, pattern, deviation, seed, &outcome);
	count_case(&gains[0], &outcome, plan_total_Bps(&outcome.best));
	count_case(&gains[1], &outcome, set_total(comparison, &outcome.set, pattern));
	if (outcome.has_either)
		count_case(&gains[2], &outcome, set_total(comparison, &outcome.either, pattern));
	if (outcome.has_either && strcmp(name, search_ends_early) != 0)
		count_case(&gains[3], &outcome, set_total(comparison, &outcome.either, pattern));
	gains[2].none += !outcome.has_either;
}

static void compare_machine(const char *folder, size_t at, struct gains gains[4])
{
	for (int deviation = 0; deviation < DEVIATION_COUNT; deviation++) {
		for (unsigned seed = 0; seed < (deviation == NOMINAL ? 1 : SEEDS); seed++) {
			for (int pattern = PLAN_RING; pattern <= PLAN_TREE; pattern++) {
				struct comparison comparison;

				if (!load(folder, &nccl_chose_cases[at], &comparison))
					return;
				deviate(&comparison.topology, (enum deviation)deviation, 101 + at + 1000 * seed);
				compare(&comparison, nccl_chose_cases[at].graph, (enum plan_pattern)pattern,
					(enum deviation)deviation, seed, gains);
				topology_fini(&comparison.topology);
			}
		}
	}
}

static void never_worse_than_what_nccl_chose(void **state)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	struct gains gains[4] = { { .name = "plan" }, { .name = "set" }, { .name = "either" }, { .name = "others" } };

	(void)state;
	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder\n");
		skip();
	}
	print_message("channels and GB/s of all together\n%-20s %s %-12s   | %-11s | %-11s | %-11s | %-11s | %8s\n",
		      "machine, hosts", "    ", "deviation", "NCCL", "best plan", "set", "set, either", "bound");
	for (int i = 0; i < 4; i++)
		gains[i] = (struct gains){ gains[i].name, .least_ratio = 9, .least_share = 9,
					   .least_of_best = { 9, 9 } };
	for (size_t i = 0; i < nccl_chose_count; i++)
		compare_machine(folder, i, gains);
	for (int i = 0; i < 4; i++)
		print_message(
			"%-6s: %u cases, %u without; %u below NCCL's, least %.4f of it; in %u more than 10 %% could "
			"be gained, of which at least %.1f %% were, and in %u less than 90 %%\n",
			gains[i].name, gains[i].cases, gains[i].none, gains[i].worse, gains[i].least_ratio,
			gains[i].possible, 100 * gains[i].least_share, gains[i].less);
	assert_true(gains[0].cases > 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(gains[i].worse, 0);
		assert_true(gains[i].least_share >= gain_floors[i].least_share);
		assert_true(gains[i].less * 1000 <= gains[i].possible * gain_floors[i].less_permille);
	}
	/* Few channels may cost a set 1 % of the best. */
	assert_true(gains[1].least_of_best[PLAN_RING] >= 0.93 && gains[1].least_of_best[PLAN_TREE] >= 0.93);
	/* Channels for either number of hosts: within a tenth of what was found for each in the same time. */
	assert_int_equal(gains[2].none, 0);
	assert_true(gains[3].least_of_best[PLAN_RING] >= 0.89 && gains[3].least_of_best[PLAN_TREE] >= 0.89);
	assert_true(gains[2].least_of_best[PLAN_RING] >= 0.78 && gains[2].least_of_best[PLAN_TREE] >= 0.89);
}

/* ------------------------------------------------------------------------------------------------ hosts that differ */

/* A host of two, and what it is given: a set for either number of hosts, or NCCL's channels where there is none. */
struct host {
	struct comparison comparison;
	struct plan nccls, given, best;
	bool rests;
};

static void plan_host(struct host *host, enum plan_pattern pattern)
{
	struct comparison *comparison = &host->comparison;
	struct diag diag = { .text = "" };
	struct plan_set set;
	int r;

	if (graph_xml_to_plan(&comparison->topology, &comparison->request, &comparison->numbers,
			      graph_of(comparison, pattern), &host->nccls, &diag) < 0)
		fail_msg("%s", diag.text);
	comparison->request.crossnic = host->nccls.crossnic;
	assert_int_equal(plan_make(&comparison->topology, &comparison->request, pattern, &host->best), 0);
	r = plan_make_set(&comparison->topology, &comparison->request, PLAN_EITHER, &set);
	assert_true(r == 0 || r == -ENODATA);
	host->rests = r != 0;
	host->given = host->rests ? host->nccls : set.plans[pattern];
}

/* What the first `count` channels move; NCCL drops the others. */
static uint64_t first_ones(const struct host *host, const struct plan *plan, size_t count)
{
	struct plan first = *plan;
	struct diag diag = { .text = "" };
	uint64_t rate_Bps = 0;

	first.channel_count = count;
	if (plan_verify_rate(&host->comparison.topology, &host->comparison.request, &first, &rate_Bps, &diag) < 0)
		fail_msg("%s", diag.text);
	return rate_Bps * count;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t moved(const struct host *a, const struct plan *of_a, const struct host *b, const struct plan *of_b)
{
	size_t count = (size_t)lesser(of_a->channel_count, of_b->channel_count);

	return lesser(first_ones(a, of_a, count), first_ones(b, of_b, count));
}

struct pairs {
	unsigned worse_early;              /* of worse: the machine whose search ends early */
	unsigned cases, worse, unequal;    /* worse: than NCCL's channels on both; unequal: in number */
	unsigned rests, worse_beside_rest; /* where one host has NCCL's channels */
	double sum, least;                 /* of the lesser of both hosts' best plans */
};

static void take_pair(struct host *a, struct host *b, enum plan_pattern pattern, struct pairs *pairs)
{
	uint64_t ours_Bps, nccls_Bps;
	bool is_worse, rests;
	double share;

	plan_host(a, pattern);
	plan_host(b, pattern);
	ours_Bps = moved(a, &a->given, b, &b->given);
	nccls_Bps = moved(a, &a->nccls, b, &b->nccls);
	share = (double)ours_Bps / (double)lesser(plan_total_Bps(&a->best), plan_total_Bps(&b->best));
	pairs->cases++;
	is_worse = ours_Bps + PLAN_CHANNELS_MAX < nccls_Bps;
	rests = a->rests || b->rests;
	pairs->worse += is_worse && !rests;
	pairs->rests += rests;
	pairs->worse_beside_rest += is_worse && rests;
	pairs->unequal += a->given.channel_count != b->given.channel_count;
	pairs->sum += share;
	pairs->least = share < pairs->least ? share : pairs->least;
}

/* The other host is as NCCL takes it for, or has another link of the same kind at another rate. */
static void try_pair(const char *folder, size_t at, enum deviation deviation, unsigned seed, bool nominal,
		     struct pairs pairs[2])
{
	for (int pattern = PLAN_RING; pattern <= PLAN_TREE; pattern++) {
		static struct host a, b;
		unsigned worse;

		if (!load(folder, &nccl_chose_cases[at], &a.comparison))
			return;
		assert_true(load(folder, &nccl_chose_cases[at], &b.comparison));
		deviate(&b.comparison.topology, deviation, 101 + at + 1000 * seed);
		if (!nominal)
			deviate(&a.comparison.topology, deviation, 101 + at + 1000 * (seed + 1));
		worse = pairs[pattern].worse;
		if (a.comparison.request.hosts > 1)
			take_pair(&a, &b, (enum plan_pattern)pattern, &pairs[pattern]);
		if (!strcmp(nccl_chose_cases[at].graph, search_ends_early))
			pairs[pattern].worse_early += pairs[pattern].worse - worse;
		topology_fini(&a.comparison.topology);
		topology_fini(&b.comparison.topology);
	}
}

/*
 * Each host plans for itself, and NCCL takes the least number of channels that any has: of many slow ones on one host few
 * are left. What that costs where hosts deviate.
 */
static void hosts_that_differ_move_no_less_than_nccls(void **state)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	struct pairs pairs[2] = { { .least = 9 }, { .least = 9 } };

	(void)state;
	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder\n");
		skip();
	}
	for (size_t i = 0; i < nccl_chose_count; i++)
		for (int deviation = UPLINK_HALF; deviation < DEVIATION_COUNT; deviation++)
			for (unsigned seed = 0; seed < SEEDS; seed++)
				for (int nominal = 0; nominal < 2; nominal++)
					try_pair(folder, i, (enum deviation)deviation, seed, nominal, pairs);
	for (int pattern = PLAN_RING; pattern <= PLAN_TREE; pattern++)
		print_message(
			"two hosts that differ, %s: %u cases, %u below NCCL's; %u with unequal numbers of "
			"channels; %u where a host has NCCL's own, %u of them below NCCL's on both; of the slower "
			"host's best plan %.1f %% on average, %.1f %% at least\n",
			pattern == PLAN_RING ? "rings" : "trees", pairs[pattern].cases, pairs[pattern].worse,
			pairs[pattern].unequal, pairs[pattern].rests, pairs[pattern].worse_beside_rest,
			100 * pairs[pattern].sum / pairs[pattern].cases, 100 * pairs[pattern].least);
	for (int pattern = PLAN_RING; pattern <= PLAN_TREE; pattern++) {
		assert_true(pairs[pattern].cases > 0);
		assert_int_equal(pairs[pattern].worse - pairs[pattern].worse_early, 0);
		assert_true(pairs[pattern].worse_early <= (pattern == PLAN_TREE));
		assert_int_equal(pairs[pattern].worse_beside_rest, 0);
		assert_true(pairs[pattern].sum >= 0.97 * pairs[pattern].cases && pairs[pattern].least >= 0.49);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_worse_than_what_nccl_chose),
		cmocka_unit_test(hosts_that_differ_move_no_less_than_nccls),
	};

	return cmocka_run_group_tests_name("plan/chosen", tests, NULL, NULL);
}
