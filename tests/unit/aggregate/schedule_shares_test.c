/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What crosses each link. The schedule is run and every transfer counted, for all splits of up to 32 hosts into leaves,
 * and compared with the formulas of schedule.h; and the time of the slowest link with a linear program's optimum.
 */
#include "account.h"

#include "support/runtime.h"

#include <glpk.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HOSTS_MOST = 32, SEGMENT_MOST = 64 << 10 };

/* A sanitized build takes many times as long and looks for other mistakes. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SPLIT_STEP = 40, RANDOM_CASES = 40, RANDOM_SEGMENTS = 1000 };
#else
enum { SPLIT_STEP = 1, RANDOM_CASES = 400, RANDOM_SEGMENTS = 4000 };
#endif

static struct schedule_group group;
static struct account account;

/* ------------------------------------------------------------------------------------------------- the linear program */

struct counts {
	unsigned hosts[SCHEDULE_NODES_MAX]; /* of members in each leaf */
	unsigned leaves;                    /* with members */
	bool first[SCHEDULE_NODES_MAX];     /* of each member: the first of its host */
	uint64_t rate_Bps[SCHEDULE_NODES_MAX];
};

static void count_all(const struct schedule_group *of, struct counts *ret)
{
	bool seen[SCHEDULE_NODES_MAX] = { false };

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < of->node_count; i++) {
		const struct schedule_node *node = &of->nodes[i];

		if (node->rate_Bps > ret->rate_Bps[node->host])
			ret->rate_Bps[node->host] = node->rate_Bps;
		if (node->aggregator || seen[node->host])
			continue;
		seen[node->host] = ret->first[i] = true;
		if (!ret->hosts[node->leaf]++)
			ret->leaves++;
	}
}

static void add_row(glp_prob *lp, int kind, double bound, int count, const int *columns, const double *values)
{
	int row = glp_add_rows(lp, 1);

	glp_set_row_bnds(lp, row, kind, bound, bound);
	glp_set_mat_row(lp, row, count, columns, values);
}

/*
 * Seconds of the slowest link for each byte. Columns: the time; then for each node what it aggregates for roots
 * elsewhere, and as the root (both 0 for all but the first member of a host). A host sends its own 1 up when another
 * aggregates; as an aggregator it takes in all others of its leaf, and sends one on or, as the root, to each other leaf.
 */
static double optimum_s(const struct schedule_group *of)
{
	glp_prob *lp = glp_create_prob();
	int nodes = (int)of->node_count, columns[2 * SCHEDULE_NODES_MAX + 2], count;
	double values[2 * SCHEDULE_NODES_MAX + 2], scale = 1, result;
	static struct counts counts;
	glp_smcp how;

	count_all(of, &counts);
	for (int i = 0; i < nodes; i++) /* rates about 1, for the solver's sake */
		scale = (double)of->nodes[i].rate_Bps > scale ? (double)of->nodes[i].rate_Bps : scale;
	glp_term_out(GLP_OFF);
	glp_set_obj_dir(lp, GLP_MIN);
	glp_add_cols(lp, 1 + 2 * nodes);
	glp_set_col_bnds(lp, 1, GLP_LO, 0, 0);
	glp_set_obj_coef(lp, 1, 1);
	for (int i = 0; i < nodes; i++) {
		const struct schedule_node *node = &of->nodes[i];
		double n = counts.hosts[node->leaf], m = counts.leaves, rest, root;
		bool can = node->aggregator ? !node->lost : counts.first[i];
		bool apart = counts.hosts[node->leaf] == 0;

		glp_set_col_bnds(lp, 2 + 2 * i, can && !apart && m > 1 ? GLP_LO : GLP_FX, 0, 0);
		glp_set_col_bnds(lp, 3 + 2 * i, can && !(apart && m < 2) ? GLP_LO : GLP_FX, 0, 0);
		if (!can)
			continue;
		rest = node->aggregator ? n + 1 : n - 1;
		root = apart ? m : node->aggregator ? n + m - 1 : n - 1 + (m - 1) - 1;
		columns[1] = 1;
		values[1] = -(double)counts.rate_Bps[node->host] / scale;
		columns[2] = 2 + 2 * i;
		values[2] = rest;
		columns[3] = 3 + 2 * i;
		values[3] = root;
		if (!node->aggregator && n == 1 && m < 2) /* there is nobody to send to */
			values[3] = 0;
		add_row(lp, GLP_UP, node->aggregator || (n == 1 && m < 2) ? 0 : -1, 3, columns, values);
	}
	for (size_t leaf = 0; leaf < of->leaf_count; leaf++) {
		uint64_t out_Bps = of->uplink_out_Bps[leaf], in_Bps = of->uplink_in_Bps[leaf];
		double uplink = (double)(out_Bps && (!in_Bps || out_Bps < in_Bps) ? out_Bps : in_Bps);
		double m = counts.leaves;

		count = 0;
		for (int i = 0; i < nodes && counts.hosts[leaf]; i++) {
			if (of->nodes[i].leaf != leaf)
				continue;
			columns[++count] = 2 + 2 * i;
			values[count] = 1;
			columns[++count] = 3 + 2 * i;
			values[count] = 1;
		}
		if (count)
			add_row(lp, GLP_FX, 1, count, columns, values);
		if (uplink == 0 || m < 2)
			continue;
		columns[1] = 1;
		values[1] = -uplink / scale;
		count = 1;
		for (int i = 0; i < nodes; i++) {
			if (of->nodes[i].leaf != leaf)
				continue;
			columns[++count] = 3 + 2 * i;
			values[count] = counts.hosts[leaf] ? m - 2 : m;
		}
		add_row(lp, GLP_UP, counts.hosts[leaf] ? -1 : 0, count, columns, values);
	}
	count = 0;
	for (int i = 0; i < nodes; i++) {
		columns[++count] = 3 + 2 * i;
		values[count] = 1;
	}
	add_row(lp, GLP_FX, 1, count, columns, values);
	glp_init_smcp(&how);
	how.msg_lev = GLP_MSG_OFF;
	assert_int_equal(glp_simplex(lp, &how), 0);
	assert_int_equal(glp_get_status(lp), GLP_OPT);
	result = glp_get_obj_val(lp) / scale;
	glp_delete_prob(lp);
	return result;
}

/* -------------------------------------------------------------------------------------------------------- all splits */

struct splits {
	void (*check)(const unsigned *hosts, size_t leaf_count, void *arg);
	void *arg;
	unsigned hosts[HOSTS_MOST];
	size_t seen;
	unsigned step;
};

/* All ways to write `left` as a sum of parts that do not grow. */
static void split(struct splits *splits, unsigned left, unsigned most, size_t leaves)
{
	if (!left) {
		if (splits->seen++ % splits->step == 0)
			splits->check(splits->hosts, leaves, splits->arg);
		return;
	}
	for (unsigned part = left < most ? left : most; part > 0; part--) {
		splits->hosts[leaves] = part;
		split(splits, left - part, part, leaves + 1);
	}
}

static void run(struct schedule *schedule, size_t segments, size_t bytes)
{
	struct schedule_segment segment;

	memset(&account, 0, sizeof(account));
	for (size_t i = 0; i < segments; i++) {
		schedule_next(schedule, bytes, &segment);
		account_segment(&account, &group, &segment, bytes);
	}
}

static void check_near(double is, double expected, double slack, const char *what, const unsigned *hosts, size_t leaves)
{
	char text[256] = "";

	if (is <= expected + slack && is >= expected - slack)
		return;
	for (size_t i = 0; i < leaves && strlen(text) < 200; i++)
		sprintf(text + strlen(text), " %u", hosts[i]);
	fail_msg("leaves%s: %s %g, expected %g +- %g", text, what, is, expected, slack);
}

struct worst {
	double host, uplink; /* deviation in segments */
};

/*
 * The formula counts fractions of segments; the schedule gives whole ones. A host may be behind or ahead by two turns,
 * of n−1 segments as an aggregator and m−2 more as the root, whatever has been before; an uplink by one root.
 */
static void follows_the_formula(const unsigned *hosts, size_t leaf_count, void *arg)
{
	struct worst *worst = arg;
	struct schedule *schedule;
	size_t node = 0, segments;
	double m = (double)leaf_count;

	account_group(&group, hosts, leaf_count, 1, 1000000);
	schedule = account_schedule(&group);
	segments = 2 * group.host_count + 3;
	run(schedule, segments, 1);
	for (size_t leaf = 0; leaf < leaf_count; leaf++) {
		double n = hosts[leaf], share = schedule_leaf_share(schedule, (unsigned)leaf), s = (double)segments;
		double host = s * (2 * (n - 1) + (1 - share) + (m - 1) * share) / n;
		double uplink = s * ((1 - share) + (m - 1) * share);

		if (leaf_count == 1)
			host = s * 2 * (n - 1) / n;
		for (unsigned i = 0; i < hosts[leaf]; i++, node++) {
			double turn = n - 1 + (m > 2 ? m - 2 : 0);

			check_near((double)account.host_in[node], host, turn + 1e-6 * s, "host in", hosts, leaf_count);
			assert_int_equal(account.host_in[node], account.host_out[node]);
			if (turn > 0 && ((double)account.host_in[node] - host) / turn > worst->host)
				worst->host = ((double)account.host_in[node] - host) / turn;
		}
		if (leaf_count < 2)
			continue;
		check_near((double)account.uplink_in[leaf], uplink, m - 2 + 1e-6 * s, "uplink in", hosts, leaf_count);
		assert_int_equal(account.uplink_in[leaf], account.uplink_out[leaf]);
		if (m > 2 && ((double)account.uplink_in[leaf] - uplink) / (m - 2) > worst->uplink)
			worst->uplink = ((double)account.uplink_in[leaf] - uplink) / (m - 2);
	}
	schedule_free(schedule);
}

static void every_split_of_32_hosts_follows_the_formula(void **state)
{
	struct worst worst = { 0 };
	struct splits splits = { .check = follows_the_formula, .arg = &worst, .step = SPLIT_STEP };

	(void)state;
	for (unsigned hosts = 1; hosts <= HOSTS_MOST; hosts++)
		split(&splits, hosts, hosts, 0);
	print_message("%zu splits; ahead by %.2f turns of a host, %.2f of an uplink at most\n", splits.seen, worst.host,
		      worst.uplink);
}

/* Equal leaves and equal links: the figures that the design gives, the ring's minimum at the NICs. */
static void equal_leaves_move_what_the_design_says(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= 32; n++) {
		for (unsigned m = 2; n * m <= 32; m++) {
			unsigned hosts[32];
			struct schedule *schedule;
			struct schedule_loads loads;
			double total = n * m;

			for (unsigned i = 0; i < m; i++)
				hosts[i] = n;
			account_group(&group, hosts, m, 1, 1000);
			schedule = account_schedule(&group);
			schedule_loads(schedule, &loads);
			check_near(loads.host, 2 * (total - 1) / total, 1e-9, "host", hosts, m);
			check_near(loads.uplink, 2.0 * (m - 1) / m, 1e-9, "uplink", hosts, m);
			check_near(loads.slowest_s_per_B, 2 * (total - 1) / total / 1000, 1e-9, "time", hosts, m);
			run(schedule, n * m * 3, 7);
			for (size_t i = 0; i < n * m; i++)
				assert_int_equal(account.host_in[i], 7 * 3 * 2 * (n * m - 1));
			for (size_t i = 0; i < m; i++)
				assert_int_equal(account.uplink_out[i], 7 * 3 * 2 * (m - 1) * n);
			schedule_free(schedule);
		}
	}
}

static void is_optimal(const unsigned *hosts, size_t leaf_count, void *arg)
{
	struct schedule_loads loads;
	struct schedule *schedule;
	double optimum;

	account_group(&group, hosts, leaf_count, 1, 1000000);
	if (arg) { /* uplinks as wide as a host's NIC, which is narrow for leaves of many */
		for (size_t i = 0; i < leaf_count; i++)
			group.uplink_out_Bps[i] = group.uplink_in_Bps[i] = 1000000;
	}
	schedule = account_schedule(&group);
	schedule_loads(schedule, &loads);
	optimum = optimum_s(&group);
	check_near(loads.slowest_s_per_B / optimum, 1, 1e-7, "time over the optimum", hosts, leaf_count);
	schedule_free(schedule);
}

static void no_shares_are_better_for_any_small_split(void **state)
{
	struct splits splits = { .check = is_optimal, .step = SPLIT_STEP };
	struct splits narrow = { .check = is_optimal, .arg = &narrow, .step = SPLIT_STEP };

	(void)state;
	for (unsigned hosts = 2; hosts <= 14; hosts++) {
		split(&splits, hosts, hosts, 0);
		split(&narrow, hosts, hosts, 0);
	}
	print_message("%zu splits, twice\n", splits.seen);
}

/* ---------------------------------------------------------------------------------------------------------- at random */

static uint64_t random_rate(uint64_t *random)
{
	static const uint64_t rates[] = { 125000000, 1250000000, 3125000000, 12500000000 };

	if (random_below(random, 2))
		return rates[random_below(random, 4)];
	return 1000000000 + random_below(random, 3000000000);
}

/* Several members on a host, aggregators in leaves and apart, uplinks of any rate, some not known. */
static void make_random(uint64_t *random)
{
	unsigned hosts[HOSTS_MOST], leaves = 1 + (unsigned)random_below(random, 6);
	unsigned members = random_below(random, 4) ? 1 : 1 + (unsigned)random_below(random, 3);
	uint64_t rate_Bps = random_rate(random);
	bool even = random_below(random, 2);

	for (unsigned i = 0; i < leaves; i++)
		hosts[i] = (leaves == 1 ? 2 : 1) + (unsigned)random_below(random, 8);
	account_group(&group, hosts, leaves, members, rate_Bps);
	for (size_t i = 0; !even && i < group.member_count; i++)
		group.nodes[i].rate_Bps = rate_Bps / 2 + random_below(random, rate_Bps);
	for (uint64_t i = random_below(random, 5); i > 0; i--)
		account_add_aggregator(&group, (uint16_t)random_below(random, leaves + 1), random_rate(random));
	for (size_t i = 0; i < group.leaf_count; i++) {
		if (random_below(random, 3))
			group.uplink_out_Bps[i] = random_rate(random) * (1 + random_below(random, 4));
		if (random_below(random, 3))
			group.uplink_in_Bps[i] = random_rate(random) * (1 + random_below(random, 4));
	}
}

static uint64_t median_of_hosts(void)
{
	static struct counts counts;
	uint64_t rates[SCHEDULE_NODES_MAX];
	size_t count = 0;

	count_all(&group, &counts);
	for (size_t i = 0; i < group.member_count; i++)
		if (counts.first[i])
			rates[count++] = counts.rate_Bps[group.nodes[i].host];
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++)
			if (rates[j] < rates[i]) {
				uint64_t rate = rates[i];

				rates[i] = rates[j];
				rates[j] = rate;
			}
	return rates[(count - 1) / 2];
}

/* Aggregators that are too slow are left out; for the optimum they are lost. */
static void lose_slow_aggregators(void)
{
	uint64_t median_Bps = median_of_hosts();

	for (size_t i = group.member_count; i < group.node_count; i++)
		group.nodes[i].lost = group.nodes[i].rate_Bps * 4 < median_Bps;
}

static void fail_group(double ratio)
{
	for (size_t i = 0; i < group.node_count; i++)
		print_message("node %zu: host %u leaf %u rate %llu%s%s\n", i, group.nodes[i].host, group.nodes[i].leaf,
			      (unsigned long long)group.nodes[i].rate_Bps,
			      group.nodes[i].aggregator ? " aggregator" : "", group.nodes[i].lost ? " lost" : "");
	for (size_t i = 0; i < group.leaf_count; i++)
		print_message("leaf %zu: uplink %llu, %llu\n", i, (unsigned long long)group.uplink_out_Bps[i],
			      (unsigned long long)group.uplink_in_Bps[i]);
	fail_msg("the time is %.9f of the optimum", ratio);
}

/* A place may be ahead by one turn (docs/design/aggregation.md): each host of its leaf and each leaf, with the longest of segments. */
static double turn_s(void)
{
	uint64_t least_Bps = UINT64_MAX;

	for (size_t i = 0; i < group.node_count; i++)
		if (group.nodes[i].rate_Bps && group.nodes[i].rate_Bps < least_Bps)
			least_Bps = group.nodes[i].rate_Bps;
	for (size_t i = 0; i < group.leaf_count; i++) {
		if (group.uplink_out_Bps[i] && group.uplink_out_Bps[i] < least_Bps)
			least_Bps = group.uplink_out_Bps[i];
		if (group.uplink_in_Bps[i] && group.uplink_in_Bps[i] < least_Bps)
			least_Bps = group.uplink_in_Bps[i];
	}
	return (double)((group.host_count + group.leaf_count) * SEGMENT_MOST) / (double)least_Bps;
}

static void random_groups_are_as_fast_as_any_shares_allow(void **state)
{
	uint64_t random = runtime_seed();
	double worst = 0, worst_run = 0;

	(void)state;
	for (unsigned i = 0; i < RANDOM_CASES; i++) {
		struct schedule_segment segment;
		struct schedule_loads loads;
		struct schedule *schedule;
		double optimum, run_s;

		make_random(&random);
		schedule = account_schedule(&group);
		schedule_loads(schedule, &loads);
		lose_slow_aggregators();
		optimum = optimum_s(&group);
		memset(&account, 0, sizeof(account));
		for (unsigned j = 0; j < RANDOM_SEGMENTS; j++) {
			uint64_t bytes = 4096 * (1 + random_below(&random, SEGMENT_MOST / 4096));

			schedule_next(schedule, bytes, &segment);
			account_segment(&account, &group, &segment, bytes);
		}
		schedule_free(schedule);
		worst = loads.slowest_s_per_B / optimum > worst ? loads.slowest_s_per_B / optimum : worst;
		run_s = account_slowest_s(&account, &group) / (double)account.bytes / optimum;
		worst_run = run_s > worst_run ? run_s : worst_run;
		if (loads.slowest_s_per_B > optimum * (1 + 1e-6) || loads.slowest_s_per_B < optimum * (1 - 1e-6))
			fail_group(loads.slowest_s_per_B / optimum);
		if (run_s > 1 + turn_s() / ((double)account.bytes * optimum))
			fail_msg("case %u: %zu members, %zu leaves: the run took %.4f of the optimum", i,
				 group.member_count, group.leaf_count, run_s);
	}
	print_message("%d groups: %.7f of the optimum at worst, %.5f over %d segments\n", RANDOM_CASES, worst,
		      worst_run, RANDOM_SEGMENTS);
}

static void a_aggregator_never_makes_it_slower(void **state)
{
	uint64_t random = runtime_seed() + 1;

	(void)state;
	for (unsigned i = 0; i < RANDOM_CASES; i++) {
		struct schedule_loads with, without;
		struct schedule *schedule;
		size_t nodes;

		make_random(&random);
		nodes = group.node_count;
		account_add_aggregator(&group, (uint16_t)random_below(&random, group.leaf_count), random_rate(&random));
		schedule = account_schedule(&group);
		schedule_loads(schedule, &with);
		schedule_free(schedule);
		group.node_count = nodes;
		schedule = account_schedule(&group);
		schedule_loads(schedule, &without);
		schedule_free(schedule);
		assert_true(with.slowest_s_per_B <= without.slowest_s_per_B * (1 + 1e-9));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_of_32_hosts_follows_the_formula),
		cmocka_unit_test(equal_leaves_move_what_the_design_says),
		cmocka_unit_test(no_shares_are_better_for_any_small_split),
		cmocka_unit_test(random_groups_are_as_fast_as_any_shares_allow),
		cmocka_unit_test(a_aggregator_never_makes_it_slower),
	};

	runtime_start("schedule_shares_test", 110);
	return cmocka_run_group_tests_name("schedule shares", tests, NULL, NULL);
}
