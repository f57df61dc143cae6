/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collnet's contract through every version's table, between processes: what NCCL is told, how groups come to be, and that
 * every operation gives the exact result, in NCCL's own patterns and in all others that it may use.
 */
#include "collnet_crew.h"
#include "collnet_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_MS = 120000, WAIT_MS = 150000 };

/* Odd sizes, and from one element on, if nothing else is said. */
static const struct collnet_shape shapes[] = {
	{ .name = "all-types", .operations = 120, .max_bytes = 100000, .window = 8, .type = -1 },
	/* NCCL's: whole chunks of 32 KiB to 2 MiB, 8 in flight, slots apart, the oldest tested, naps. */
	{ .name = "staged",
	  .operations = 40,
	  .max_bytes = 2 << 20,
	  .window = 8,
	  .type = NCCL_FLOAT32,
	  .whole = true,
	  .oldest_only = true,
	  .nap_us = 50 },
	{ .name = "staged-small",
	  .operations = 300,
	  .max_bytes = 32 << 10,
	  .window = 8,
	  .type = NCCL_BFLOAT16,
	  .whole = true,
	  .oldest_only = true,
	  .nap_us = 50 },
	{ .name = "registered",
	  .operations = 6,
	  .max_bytes = 16 << 20,
	  .window = 2,
	  .type = NCCL_FLOAT32,
	  .in_place = true,
	  .whole = true },
	{ .name = "in-place", .operations = 120, .max_bytes = 300000, .window = 5, .type = -1, .in_place = true },
	{ .name = "32-outstanding", .operations = 200, .max_bytes = 60000, .window = 32, .type = NCCL_INT32 },
	/* One more slot than requests: a NULL request now and then. */
	{ .name = "33-slots", .operations = 200, .max_bytes = 4000, .window = 33, .type = NCCL_UINT8 },
	{ .name = "mixed", .operations = 100, .max_bytes = 4 << 20, .window = 16, .type = NCCL_FLOAT16, .nap_us = 500 },
	{ .name = NULL },
};

static const struct collnet_shape *shape_of(const char *name)
{
	for (const struct collnet_shape *shape = shapes; shape->name; shape++)
		if (!strcmp(shape->name, name))
			return shape;
	return NULL;
}

/* Joins and runs one shape, to whose name its words are. */
static int runner_role(int control, const char *argument)
{
	struct collnet_member member;
	const struct collnet_shape *shape;
	uint8_t byte;
	int r;

	collnet_member_open(control, argument, &member);
	shape = shape_of(member.words);
	if (!shape)
		return 2;
	collnet_member_meet(&member);
	r = collnet_member_connect(&member);
	if (r == NCCL_SUCCESS)
		r = collnet_ops_register(&member.ops, member.group, &byte, 1, NCCL_POINTER_HOST, &member.registration);
	if (r == NCCL_SUCCESS)
		r = collnet_member_run(&member, shape, RUN_MS);
	if (r == 0)
		r = collnet_ops_deregister(&member.ops, member.group, member.registration);
	collnet_member_close(&member);
	return r ? runtime_complain(1, "%s: member %u ends with %d", shape->name, member.index, r), 1 : 0;
}

static void run_crew(const char *role, unsigned count, int version, const char *words, unsigned case_number)
{
	uint64_t seed = runtime_seed() + case_number * UINT64_C(1000003);
	struct collnet_crew crew;
	int status;

	collnet_crew_start(role, count, version, seed, words, &crew);
	collnet_crew_introduce(&crew, seed);
	status = collnet_crew_wait(&crew, WAIT_MS);
	if (status)
		fail_msg("version %d, %u members, %s: status %d", version, count, words, status);
}

static void every_version_gives_exact_sums(void **state)
{
	(void)state;
	for (int version = COLLNET_OLDEST; version <= COLLNET_NEWEST; version++)
		run_crew("runner", 2 + (unsigned)version % 3, version, "all-types", (unsigned)version);
}

static void every_pattern_gives_exact_sums(void **state)
{
	static const unsigned counts[] = { 2, 4, 3, 2, 3, 4, 2, 3 };
	unsigned number = 0;

	(void)state;
	for (const struct collnet_shape *shape = shapes; shape->name; shape++, number++)
		run_crew("runner", counts[number % 8], number % 2 ? 12 : 11, shape->name, 100 + number);
}

static void one_member_and_many(void **state)
{
	(void)state;
	run_crew("runner", 1, 12, "all-types", 200);
	run_crew("runner", 8, 12, "all-types", 201);
	if (runtime_long())
		run_crew("runner", 12, 12, "mixed", 202);
}

/* ---- what NCCL is told, and what is refused ---- */

static int facts_role(int control, const char *argument)
{
	struct netplugin_properties net, collnet;
	struct collnet_member member;
	int count = 0, net_count = 0, supported;

	collnet_member_open(control, argument, &member);
	assert_string_equal(collnet_ops_name(&member.ops), "Tributary");
	assert_int_equal(collnet_ops_devices(&member.ops, &count), NCCL_SUCCESS);
	assert_int_equal(netplugin_devices(member.ops.net, &net_count), NCCL_SUCCESS);
	assert_int_equal(count, net_count);
	assert_true(count > 0);
	for (int i = 0; i < count; i++) {
		assert_int_equal(collnet_ops_properties(&member.ops, i, &collnet), NCCL_SUCCESS);
		assert_int_equal(netplugin_properties(member.ops.net, i, &net), NCCL_SUCCESS);
		assert_string_equal(collnet.name, net.name);
		assert_true(collnet.guid == net.guid && collnet.speed_Mbps == net.speed_Mbps);
		assert_int_equal(collnet.port, net.port);
		assert_int_equal(collnet.ptr_support, NCCL_POINTER_HOST);
		assert_int_equal(collnet.member_count, net.member_count);
		assert_int_equal(collnet.rail, net.rail);
		assert_int_equal(collnet.plane, net.plane);
		if (member.ops.version >= 9)
			assert_int_equal(collnet.max_coll_bytes, 1 << 30);
	}
	assert_int_equal(collnet_ops_properties(&member.ops, count, &collnet), NCCL_INVALID_ARGUMENT);
	assert_int_equal(collnet_ops_properties(&member.ops, -1, &collnet), NCCL_INVALID_ARGUMENT);
	for (int type = 0; type < NCCL_DATATYPE_COUNT; type++) {
		for (int operation = 0; operation < NCCL_REDOP_COUNT; operation++) {
			supported = -1;
			assert_int_equal(collnet_ops_support(&member.ops, type, operation, &supported), NCCL_SUCCESS);
			assert_int_equal(supported, type < COLLNET_TYPES && operation < COLLNET_OPERATIONS);
		}
	}
	assert_int_equal(collnet_ops_finalize(&member.ops, NULL), NCCL_SUCCESS);
	collnet_member_close(&member);
	return 0;
}

static int refusals_role(int control, const char *argument)
{
	void *listener = NULL, *registration = NULL, *request = NULL, *group = NULL, *handles[1];
	uint8_t handle[NCCL_HANDLE_BYTES], data[64] = { 0 };
	struct collnet_member member;

	collnet_member_open(control, argument, &member);
	assert_int_equal(collnet_ops_listen(&member.ops, 4711, handle, &listener), NCCL_INVALID_ARGUMENT);
	assert_int_equal(collnet_ops_listen(&member.ops, -1, handle, &listener), NCCL_INVALID_ARGUMENT);
	assert_null(listener);
	handles[0] = handle;
	memset(handle, 0, sizeof(handle));
	/* What NCCL does after a connect that failed. */
	assert_int_equal(collnet_ops_connect(&member.ops, handles, 1, 0, NULL, &group), NCCL_INVALID_ARGUMENT);
	assert_null(group);
	collnet_member_meet(&member);
	assert_int_equal(collnet_member_connect(&member), NCCL_SUCCESS);
	assert_int_equal(collnet_ops_register(&member.ops, member.group, data, 64, NCCL_POINTER_CUDA, &registration),
			 NCCL_INTERNAL_ERROR);
	assert_int_equal(collnet_ops_register_dmabuf(&member.ops, member.group, data, 64, &registration),
			 NCCL_INTERNAL_ERROR);
	assert_null(registration);
	assert_int_equal(collnet_ops_register(&member.ops, member.group, data, 64, NCCL_POINTER_HOST, &registration),
			 0);
	assert_non_null(registration);
	for (int type = COLLNET_TYPES; type < NCCL_DATATYPE_COUNT; type++)
		assert_int_equal(collnet_ops_reduce(&member.ops, member.group, data, data, 1, type, NCCL_SUM,
						    registration, &request),
				 NCCL_INVALID_ARGUMENT);
	assert_int_equal(collnet_ops_reduce(&member.ops, member.group, data, data, 1, NCCL_INT32, NCCL_AVG,
					    registration, &request),
			 NCCL_INVALID_ARGUMENT);
	if (member.ops.version <= 8) /* an int that was cut */
		assert_int_equal(collnet_ops_reduce(&member.ops, member.group, data, data, (size_t)INT_MAX + 2,
						    NCCL_INT8, NCCL_SUM, registration, &request),
				 NCCL_INVALID_ARGUMENT);
	assert_null(request);
	request = data; /* of an operation that is over */
	assert_int_equal(collnet_ops_flush(&member.ops, member.group, data, 64, registration, &request), NCCL_SUCCESS);
	assert_null(request);
	assert_int_equal(collnet_ops_deregister(&member.ops, member.group, registration), NCCL_SUCCESS);
	assert_true(collnet_ops_only_reduces(&member.ops));
	assert_int_equal(collnet_ops_close_listener(&member.ops, NULL), NCCL_SUCCESS);
	assert_int_equal(collnet_ops_close_group(&member.ops, NULL), NCCL_SUCCESS);
	collnet_member_close(&member);
	return 0;
}

static void for_all_versions(const char *role, bool introduce)
{
	for (int version = COLLNET_OLDEST; version <= COLLNET_NEWEST; version++) {
		struct collnet_crew crew;

		collnet_crew_start(role, 1, version, runtime_seed(), "-", &crew);
		if (introduce)
			collnet_crew_introduce(&crew, runtime_seed());
		assert_int_equal(collnet_crew_wait(&crew, WAIT_MS), 0);
	}
}

static void devices_are_those_of_the_net(void **state)
{
	(void)state;
	for_all_versions("facts", false);
}

static void what_it_cannot_do_is_refused(void **state)
{
	(void)state;
	for_all_versions("refusals", true);
}

int main(int argc, char **argv)
{
	static const struct peer_role roles[] = {
		{ "runner", runner_role },
		{ "facts", facts_role },
		{ "refusals", refusals_role },
		{ NULL, NULL },
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices_are_those_of_the_net),
		cmocka_unit_test(what_it_cannot_do_is_refused),
		cmocka_unit_test(every_version_gives_exact_sums),
		cmocka_unit_test(every_pattern_gives_exact_sums),
		cmocka_unit_test(one_member_and_many),
	};
	const char *filter;

	peer_main(argc, argv, roles, 110);
	runtime_start("collnet_contract_test", 118);
	runtime_set_streams(0);
	filter = runtime_setting("TEST_FILTER");
	if (filter)
		cmocka_set_test_filter(filter);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
