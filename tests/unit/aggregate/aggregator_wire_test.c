/* SPDX-License-Identifier: Apache-2.0 */
/* What members and aggregators say to each other: it comes back as it was, and nonsense is refused. */
#include "aggregate/aggregator_wire.h"
#include "reduce/reduce.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void a_hello_comes_out_as_it_went_in(void **state)
{
	struct aggregator_wire_hello hello = { .id = { [0] = 1, [15] = 2 }, .from = 258, .rate_kBps = 0x12345678 },
				     again;
	uint8_t bytes[AGGREGATOR_WIRE_HELLO_BYTES], other[AGGREGATOR_WIRE_HELLO_BYTES];

	(void)state;
	aggregator_wire_hello(CODEC_TO(bytes), &hello);
	assert_int_equal(aggregator_wire_hello(CODEC_FROM(bytes, AGGREGATOR_WIRE_HELLO_BYTES), &again), 0);
	assert_memory_equal(again.id, hello.id, sizeof(hello.id));
	assert_int_equal(again.from, 258);
	assert_int_equal(again.rate_kBps, 0x12345678);
	memcpy(other, bytes, sizeof(other));
	other[8] ^= 1; /* the version */
	assert_int_equal(aggregator_wire_hello(CODEC_FROM(other, AGGREGATOR_WIRE_HELLO_BYTES), &again), -EPROTO);
	memcpy(other, bytes, sizeof(other));
	other[0] ^= 1; /* what it begins with */
	assert_int_equal(aggregator_wire_hello(CODEC_FROM(other, AGGREGATOR_WIRE_HELLO_BYTES), &again), -EBADMSG);
}

static void a_head_comes_out_as_it_went_in(void **state)
{
	struct aggregator_wire_head head = { .number = UINT64_C(1) << 40,
					     .previous = AGGREGATOR_WIRE_NONE,
					     .bytes = 4096,
					     .type = REDUCE_FLOAT32,
					     .operation = REDUCE_SUM,
					     .stage = AGGREGATOR_STAGE_ROOT,
					     .index = 1,
					     .leaf_inputs = 7,
					     .root_inputs = 3,
					     .own_index = 2,
					     .root = 9,
					     .aggregators = 5 },
				    again;
	uint8_t bytes[AGGREGATOR_WIRE_HEAD_BYTES];

	(void)state;
	aggregator_wire_head(CODEC_TO(bytes), &head);
	assert_int_equal(aggregator_wire_head(CODEC_FROM(bytes, AGGREGATOR_WIRE_HEAD_BYTES), &again), 0);
	assert_true(again.number == head.number && again.previous == head.previous && again.bytes == head.bytes &&
		    again.type == head.type && again.operation == head.operation && again.stage == head.stage &&
		    again.index == head.index && again.leaf_inputs == head.leaf_inputs &&
		    again.root_inputs == head.root_inputs && again.own_index == head.own_index &&
		    again.root == head.root && again.aggregators == head.aggregators);
	head.bytes = 4095; /* not whole elements */
	aggregator_wire_head(CODEC_TO(bytes), &head);
	assert_int_equal(aggregator_wire_head(CODEC_FROM(bytes, AGGREGATOR_WIRE_HEAD_BYTES), &again), -EBADMSG);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_comes_out_as_it_went_in),
		cmocka_unit_test(a_head_comes_out_as_it_went_in),
	};

	(void)argc;
	runtime_start(argv[0], 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
