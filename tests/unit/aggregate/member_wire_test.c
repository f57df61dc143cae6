/* SPDX-License-Identifier: Apache-2.0 */
/* What members say to each other: it comes back as it was, and nonsense is refused. tests/fuzz/members_fuzz.c does more. */
#include "aggregate/member_wire.h"
#include "aggregate/tags.h"
#include "support/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static struct member_wire_hello hello = { .from = 3, .count = 8, .large = true, .group = 1ULL << 63, .host = "a" };
static struct member_wire_report report = {
	.kind = AGGREGATE_REPORT_FAILED,
	.facts = { .host_id = 1,
		   .process_id = 2,
		   .index = 3,
		   .leaf = -2,
		   .rate_Bps = 4,
		   .up_rate_Bps = 5,
		   .down_rate_Bps = 6,
		   .cluster = 7,
		   .flat_bytes = 8,
		   .segment_bytes = 9,
		   .eager_bytes = 10,
		   .timeout_ns = 11,
		   .rank_count = 14,
		   .tuning = UINT64_MAX - 2,
		   .wiring = UINT64_MAX - 3,
		   .verify = true,
		   .as_said = true,
		   .host = "host",
		   .device = "device" },
	.aggregators = 15,
	.gain_permille = 1750,
	.reason = "because",
};

static void what_goes_in_comes_out(void **state)
{
	uint8_t bytes[MEMBER_WIRE_REPORT_BYTES];
	struct member_wire_decision decision = { .kind = AGGREGATE_DECISION_NO,
						 .error = -ETIMEDOUT,
						 .count = 9,
						 .settings = { 1, 2, true, true },
						 .reason = "no" },
				    decision_again;
	struct member_wire_operation operation = { 1, 2, 7, 8, true }, operation_again;
	struct member_wire_commit commit = { UINT64_MAX - 1, 1U << 31, 5, true }, commit_again;
	struct member_wire_report report_again;
	struct member_wire_hello hello_again;

	(void)state;
	member_wire_hello(CODEC_TO(bytes), &hello);
	assert_int_equal(member_wire_hello(CODEC_FROM(bytes, MEMBER_WIRE_HELLO_BYTES), &hello_again), 0);
	assert_true(hello_again.from == 3 && hello_again.count == 8 && hello_again.large &&
		    hello_again.group == hello.group && !strcmp(hello_again.host, "a"));
	member_wire_report(CODEC_TO(bytes), &report);
	assert_int_equal(member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &report_again), 0);
	assert_int_equal(report_again.kind, AGGREGATE_REPORT_FAILED);
	assert_string_equal(report_again.reason, "because");
	assert_int_equal(report_again.facts.leaf, -2);
	assert_int_equal(report_again.facts.timeout_ns, 11);
	assert_int_equal(report_again.facts.rank_count, 14);
	assert_int_equal(report_again.facts.tuning, UINT64_MAX - 2);
	assert_int_equal(report_again.facts.wiring, UINT64_MAX - 3);
	assert_int_equal(report_again.aggregators, 15);
	assert_int_equal(report_again.gain_permille, 1750);
	assert_true(report_again.facts.verify);
	assert_true(report_again.facts.as_said);
	assert_string_equal(report_again.facts.device, "device");
	member_wire_decision(CODEC_TO(bytes), &decision);
	assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again), 0);
	assert_true(decision_again.error == -ETIMEDOUT && decision_again.count == 9 && decision_again.settings.verify &&
		    decision_again.settings.flat_bytes == 1 && decision_again.settings.segment_bytes == 2 &&
		    decision_again.settings.measures);
	decision.settings.verify = decision.settings.measures = false;
	member_wire_decision(CODEC_TO(bytes), &decision);
	assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again), 0);
	assert_false(decision_again.settings.measures);
	bytes[14] = 2;
	assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again),
			 -EBADMSG);
	member_wire_operation(CODEC_TO(bytes), &operation);
	assert_int_equal(member_wire_operation(CODEC_FROM(bytes, MEMBER_WIRE_OPERATION_BYTES), &operation_again), 0);
	assert_true(operation_again.number == 1 && operation_again.bytes == 2 && operation_again.type == 7 &&
		    operation_again.operation == 8 && operation_again.flat);
	member_wire_commit(CODEC_TO(bytes), &commit);
	assert_int_equal(member_wire_commit(CODEC_FROM(bytes, MEMBER_WIRE_COMMIT_BYTES), &commit_again), 0);
	assert_true(commit_again.number == UINT64_MAX - 1 && commit_again.lost == 1U << 31 &&
		    commit_again.leaves == 5 && commit_again.poisoned);
	bytes[16] = 2;
	assert_int_equal(member_wire_commit(CODEC_FROM(bytes, MEMBER_WIRE_COMMIT_BYTES), &commit_again), -EBADMSG);
}

static void nonsense_is_refused(void **state)
{
	enum { AT_REASON = 8 + MEMBER_WIRE_FACTS_BYTES };
	static const uint8_t no_text[] = { 033, 0x7f, 0x80, 0xff };
	uint8_t bytes[MEMBER_WIRE_REPORT_BYTES], whole[MEMBER_WIRE_REPORT_BYTES];
	struct member_wire_report report_again;
	struct member_wire_hello hello_again;

	(void)state;
	member_wire_hello(CODEC_TO(bytes), &hello);
	bytes[0] ^= 1;
	assert_int_equal(member_wire_hello(CODEC_FROM(bytes, MEMBER_WIRE_HELLO_BYTES), &hello_again), -EBADMSG);
	bytes[0] ^= 1;
	bytes[4]++;
	assert_int_equal(member_wire_hello(CODEC_FROM(bytes, MEMBER_WIRE_HELLO_BYTES), &hello_again), -EPROTO);
	bytes[4]--;
	bytes[8] = bytes[10]; /* an index that is the count */
	assert_int_equal(member_wire_hello(CODEC_FROM(bytes, MEMBER_WIRE_HELLO_BYTES), &hello_again), -EBADMSG);
	member_wire_report(CODEC_TO(whole), &report);
	memcpy(bytes, whole, sizeof(bytes));
	bytes[6] = 99; /* the kind */
	assert_int_equal(member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &report_again), -EBADMSG);
	memcpy(bytes, whole, sizeof(bytes));
	memset(bytes + AT_REASON, 'x', MEMBER_WIRE_REASON_BYTES); /* text without an end */
	assert_int_equal(member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &report_again), -EBADMSG);
	memcpy(bytes, whole, sizeof(bytes));
	for (size_t i = 0; i < sizeof(no_text); i++) {
		bytes[AT_REASON] = no_text[i];
		assert_int_equal(member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &report_again),
				 -EBADMSG);
	}
	memcpy(bytes, whole, sizeof(bytes));
	bytes[8 + 89] = 2; /* neither yes nor no */
	assert_int_equal(member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &report_again), -EBADMSG);
}

/* Buffers are made by them: what wraps around when a header is added would be written beyond their end. */
static void lengths_are_bounded(void **state)
{
	struct member_wire_decision decision = { .kind = AGGREGATE_DECISION_MEMBERS, .count = 2 }, decision_again;
	struct member_wire_facts facts = report.facts, facts_again;
	static const uint64_t too_long[] = { (64 << 10) + 1, UINT32_MAX, INT64_MAX, UINT64_MAX - 62, UINT64_MAX };
	uint8_t bytes[MEMBER_WIRE_REPORT_BYTES];

	(void)state;
	facts.flat_bytes = decision.settings.flat_bytes = 64 << 10;
	facts.segment_bytes = decision.settings.segment_bytes = 512 << 10;
	member_wire_facts(CODEC_TO(bytes), &facts);
	assert_int_equal(member_wire_facts(CODEC_FROM(bytes, MEMBER_WIRE_FACTS_BYTES), &facts_again), 0);
	member_wire_decision(CODEC_TO(bytes), &decision);
	assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again), 0);
	for (size_t i = 0; i < sizeof(too_long) / sizeof(too_long[0]); i++) {
		facts.flat_bytes = decision.settings.flat_bytes = too_long[i];
		facts.segment_bytes = decision.settings.segment_bytes = 0;
		member_wire_facts(CODEC_TO(bytes), &facts);
		assert_int_equal(member_wire_facts(CODEC_FROM(bytes, MEMBER_WIRE_FACTS_BYTES), &facts_again), -EBADMSG);
		member_wire_decision(CODEC_TO(bytes), &decision);
		assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again),
				 -EBADMSG);
		facts.flat_bytes = decision.settings.flat_bytes = 0;
		facts.segment_bytes = decision.settings.segment_bytes = too_long[i] + (512 << 10);
		if (facts.segment_bytes < too_long[i])
			facts.segment_bytes = decision.settings.segment_bytes = too_long[i];
		member_wire_facts(CODEC_TO(bytes), &facts);
		assert_int_equal(member_wire_facts(CODEC_FROM(bytes, MEMBER_WIRE_FACTS_BYTES), &facts_again), -EBADMSG);
		member_wire_decision(CODEC_TO(bytes), &decision);
		assert_int_equal(member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &decision_again),
				 -EBADMSG);
	}
}

static void a_tag_is_never_negative(void **state)
{
	(void)state;
	for (uint64_t number = 1; number; number <<= 1)
		assert_true(aggregate_tag(AGGREGATE_TAG_AGREE, number) >= 0);
	assert_int_not_equal(aggregate_tag(AGGREGATE_TAG_DOWN, 1), aggregate_tag(AGGREGATE_TAG_DOWN, 2));
	assert_int_not_equal(aggregate_tag(AGGREGATE_TAG_DOWN, 1), aggregate_tag(AGGREGATE_TAG_UP_LEAF, 1));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_goes_in_comes_out),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(a_tag_is_never_negative),
	};

	(void)argc;
	runtime_start(argv[0], 30);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
