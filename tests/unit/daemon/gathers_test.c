/*
 * Gathers and reduce-scatters under way while aggregators are lost. They have no part in them; but what a lost one should
 * have made is made again over the same connections as the pieces, beside them. The moment is taken from the seed.
 */
#include "blow.h"
#include "server_hall.h"
#include "support/runtime.h"
#include "unit/aggregate/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HALLS = 2, TASKS = 60, ROUNDS = 3, ROUNDS_LONG = 60, DIRECT_BYTES = 1024 };

/* More large reductions than elsewhere, and every third a gather or a reduce-scatter of many pieces. */
static void tasks_make(struct task *tasks, size_t members, struct random *random)
{
	for (size_t i = 0; i < TASKS; i++) {
		task_any(&tasks[i], members, random);
		if (random_below(random, 3) == 0)
			tasks[i] = (struct task){ .kind = 1 + (unsigned)random_below(random, 2),
						  .count = 20000,
						  .offset = random_below(random, 1000),
						  .window = 20000 * members - 1000 };
		else if (random_below(random, 2))
			tasks[i] = (struct task){ .count = 20000 + random_below(random, 100000),
						  .in_place = random_below(random, 2) };
	}
}

static void lose(const char *leaves, size_t struck, uint64_t seed)
{
	struct cluster_aggregator aggregators[HALLS] = { 0 };
	struct server_hall halls[HALLS];
	struct task tasks[TASKS];
	struct aggregate_facts facts;
	struct random random;
	struct params params;
	struct party party;

	random_init(&random, seed);
	blow_set(STROKE_NONE, false, 0, 0);
	for (size_t i = 0; i < HALLS; i++) {
		server_hall_open_over(&halls[i], "", 60, i < struck ? &blow_ops : &transport_tcp);
		aggregators[i] = (struct cluster_aggregator){
			.address = "127.0.0.1", .port = halls[i].port, .leaf = (int)i, .rate_Bps = UINT64_C(1220000000)
		};
	}
	party_params(&params);
	params.aggregate_direct_bytes = DIRECT_BYTES;
	params.aggregate_segment_bytes = 16 << 10;
	snprintf(params.secret, sizeof(params.secret), "%s", server_hall_secret_path);
	assert_int_equal(party_gather(&party, &params, leaves), 0);
	party_slow_hosts(&party);
	party.cluster.aggregators = aggregators;
	party.cluster.aggregator_count = HALLS;
	assert_int_equal(party_connect(&party), 0);
	aggregate_facts(party.members[0].group, &facts);
	assert_int_equal(facts.servers, HALLS);
	tasks_make(tasks, party.count, &random);
	blow_set(STROKE_ANY, false, 1 + (int64_t)random_below(&random, 80), 0);
	tasks_run(&party, tasks, TASKS, &random);
	print_message("%s, seed %llu%s\n", leaves, (unsigned long long)seed, blow_has_fallen() ? "" : ": not struck");
	tasks_run(&party, tasks, TASKS, &random);
	party_close(&party);
	for (size_t i = 0; i < HALLS; i++)
		server_hall_close(&halls[i]);
}

static void gathers_go_through_when_an_aggregator_is_lost(void **state)
{
	static const char *const leaves[] = { "abab", "aaab", "aabb", "aa2bbb" };
	unsigned rounds = runtime_long() ? ROUNDS_LONG : ROUNDS;

	(void)state;
	for (unsigned round = 0; round < rounds; round++)
		lose(leaves[round % 4], 1 + round % 2, runtime_seed() + round);
}

static int hall_begin(void **state)
{
	if (server_hall_secret_make(state) < 0)
		return -1;
	blow_start();
	return 0;
}

static int hall_end(void **state)
{
	return server_hall_secret_remove(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gathers_go_through_when_an_aggregator_is_lost),
	};

	(void)argc;
	runtime_start(argv[0], 110);
	if (runtime_long())
		runtime_watchdog(3600);
	return cmocka_run_group_tests(tests, hall_begin, hall_end);
}
