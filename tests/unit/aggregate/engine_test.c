/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine knows of its host, and what it tells connections of who sends beside their peer. */
#include "aggregate/group.h"

#include "unit/aggregate/group_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <unistd.h>

enum { HOSTS = 7, LEAF_HOSTS = 4, TOLD_MOST = 8 };

static struct {
	struct transport_ops ops;
	void (*set)(struct transport_connection *connection, enum transport_setting setting, uint64_t value);
	unsigned counts[TOLD_MOST + 1]; /* connections that were told of so many hosts */
} recorder;

static void record(struct transport_connection *connection, enum transport_setting setting, uint64_t value)
{
	if (setting == TRANSPORT_SET_SPREAD) {
		assert_in_range(value, 0, TOLD_MOST);
		recorder.counts[value]++;
	}
	recorder.set(connection, setting, value);
}

/* What the first of seven hosts tells its connections: four hosts are on its leaf, three on another. */
static void gather_what_is_told(uint64_t rate_Bps, uint64_t uplink_Bps)
{
	struct harness harness;
	struct params params;

	memset(recorder.counts, 0, sizeof(recorder.counts));
	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, "aaaabbb"), 0);
	for (size_t i = 0; i < HOSTS; i++)
		harness.hosts[i].rate_Bps = rate_Bps;
	for (size_t i = 0; i < 2; i++)
		harness.switches[i].up_rate_Bps = harness.switches[i].down_rate_Bps = uplink_Bps;
	recorder.ops = *harness.ops;
	recorder.set = recorder.ops.set;
	recorder.ops.set = record;
	harness.members[0].engine->setup.ops = &recorder.ops;
	assert_int_equal(group_harness_connect(&harness), 0);
	group_harness_close(&harness);
}

/* Through narrow uplinks, or ones of which nothing is known, no more than from the own leaf. */
static void connections_are_told_how_many_hosts_send_at_once(void **state)
{
	(void)state;
	gather_what_is_told(1000000000, 0);
	assert_int_equal(recorder.counts[LEAF_HOSTS - 1], HOSTS - 1);
	gather_what_is_told(1000000000, 100000000);
	assert_int_equal(recorder.counts[LEAF_HOSTS - 1], HOSTS - 1);
	gather_what_is_told(1000000000, 100000000000);
	assert_int_equal(recorder.counts[LEAF_HOSTS], LEAF_HOSTS - 1);
	assert_int_equal(recorder.counts[TOLD_MOST], HOSTS - LEAF_HOSTS);
}

static void a_host_has_its_own_name_unless_it_is_given_one(void **state)
{
	char name[MEMBER_WIRE_NAME_BYTES] = "";
	struct aggregate_engine *engine;
	struct harness harness;
	struct params params;
	struct aggregate_setup setup;

	(void)state;
	group_harness_params(&params);
	assert_int_equal(group_harness_gather(&harness, &params, "a"), 0);
	assert_string_equal(harness.members[0].engine->host_name, "host00");
	setup = group_harness_setup(&harness, 0);
	setup.host_name = NULL;
	assert_int_equal(aggregate_open(&setup, &engine), 0);
	assert_int_equal(gethostname(name, sizeof(name) - 1), 0);
	assert_string_equal(engine->host_name, name);
	assert_int_not_equal(engine->host_id, harness.members[0].engine->host_id);
	aggregate_close(engine);
	group_harness_close(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_are_told_how_many_hosts_send_at_once),
		cmocka_unit_test(a_host_has_its_own_name_unless_it_is_given_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
