/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members of a group say to each other, as bytes from anybody: hello, report with facts, verdict, and the words about
 * operations. What decodes is in range, and is the same after it was encoded and decoded once more. The first byte of an
 * input chooses which.
 */
#include "aggregate/member_wire.h"
#include "base/bytes.h"
#include "support/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void printable(const char *text, size_t room)
{
	fuzz_must(memchr(text, '\0', room) != NULL);
	for (; *text; text++)
		fuzz_must(*text >= ' ' && *text <= '~');
}

static void hello(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_HELLO_BYTES];
	struct member_wire_hello first, second;

	if (member_wire_hello(CODEC_FROM(bytes, MEMBER_WIRE_HELLO_BYTES), &first) < 0)
		return;
	printable(first.host, sizeof(first.host));
	fuzz_must(first.from < first.count);
	member_wire_hello(CODEC_TO(again), &first);
	fuzz_must(member_wire_hello(CODEC_FROM(again, MEMBER_WIRE_HELLO_BYTES), &second) == 0);
	fuzz_must(first.from == second.from && first.count == second.count && first.group == second.group &&
		  first.large == second.large && !strcmp(first.host, second.host));
}

static void facts_same(const struct member_wire_facts *a, const struct member_wire_facts *b)
{
	fuzz_must(a->host_id == b->host_id && a->process_id == b->process_id && a->index == b->index &&
		  a->leaf == b->leaf && a->rate_Bps == b->rate_Bps && a->up_rate_Bps == b->up_rate_Bps &&
		  a->down_rate_Bps == b->down_rate_Bps && a->cluster == b->cluster && a->flat_bytes == b->flat_bytes &&
		  a->segment_bytes == b->segment_bytes && a->eager_bytes == b->eager_bytes &&
		  a->timeout_ns == b->timeout_ns && a->verify == b->verify && a->as_said == b->as_said &&
		  !strcmp(a->host, b->host) && !strcmp(a->device, b->device));
}

static void report(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_REPORT_BYTES];
	struct member_wire_report first, second;

	if (member_wire_report(CODEC_FROM(bytes, MEMBER_WIRE_REPORT_BYTES), &first) < 0)
		return;
	printable(first.reason, sizeof(first.reason));
	printable(first.facts.host, sizeof(first.facts.host));
	printable(first.facts.device, sizeof(first.facts.device));
	fuzz_must(first.kind >= AGGREGATE_REPORT_FACTS && first.kind <= AGGREGATE_REPORT_FAILED);
	fuzz_must(first.facts.leaf >= AGGREGATE_LEAF_NO_CLUSTER);
	member_wire_report(CODEC_TO(again), &first);
	fuzz_must(member_wire_report(CODEC_FROM(again, MEMBER_WIRE_REPORT_BYTES), &second) == 0);
	fuzz_must(first.kind == second.kind && !strcmp(first.reason, second.reason));
	facts_same(&first.facts, &second.facts);
}

static void verdict(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_DECISION_BYTES];
	struct member_wire_decision first, second;

	if (member_wire_decision(CODEC_FROM(bytes, MEMBER_WIRE_DECISION_BYTES), &first) < 0)
		return;
	printable(first.reason, sizeof(first.reason));
	fuzz_must(first.kind >= AGGREGATE_DECISION_MEMBERS && first.kind <= AGGREGATE_DECISION_NO && first.error <= 0);
	member_wire_decision(CODEC_TO(again), &first);
	fuzz_must(member_wire_decision(CODEC_FROM(again, MEMBER_WIRE_DECISION_BYTES), &second) == 0);
	fuzz_must(first.kind == second.kind && first.error == second.error && first.count == second.count &&
		  first.settings.flat_bytes == second.settings.flat_bytes &&
		  first.settings.segment_bytes == second.settings.segment_bytes &&
		  first.settings.verify == second.settings.verify &&
		  first.settings.measures == second.settings.measures && !strcmp(first.reason, second.reason));
}

static void operation(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_OPERATION_BYTES];
	struct member_wire_operation first, second;

	if (member_wire_operation(CODEC_FROM(bytes, MEMBER_WIRE_OPERATION_BYTES), &first) < 0)
		return;
	member_wire_operation(CODEC_TO(again), &first);
	fuzz_must(member_wire_operation(CODEC_FROM(again, MEMBER_WIRE_OPERATION_BYTES), &second) == 0);
	fuzz_must(first.number == second.number && first.bytes == second.bytes && first.type == second.type &&
		  first.operation == second.operation && first.flat == second.flat);
}

static void verify(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_VERIFY_BYTES];
	struct member_wire_verify first, second;

	member_wire_verify(CODEC_FROM(bytes, MEMBER_WIRE_VERIFY_BYTES), &first);
	member_wire_verify(CODEC_TO(again), &first);
	member_wire_verify(CODEC_FROM(again, MEMBER_WIRE_VERIFY_BYTES), &second);
	fuzz_must(first.number == second.number && first.checksum == second.checksum);
}

static void confirm(const uint8_t *bytes)
{
	uint8_t again[MEMBER_WIRE_COMMIT_BYTES];
	struct member_wire_commit first;

	if (member_wire_commit(CODEC_FROM(bytes, MEMBER_WIRE_COMMIT_BYTES), &first) < 0)
		return;
	member_wire_commit(CODEC_TO(again), &first);
	fuzz_must(!memcmp(bytes, again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct {
		size_t bytes;
		void (*run)(const uint8_t *bytes);
	} kinds[] = {
		{ MEMBER_WIRE_HELLO_BYTES, hello },      { MEMBER_WIRE_REPORT_BYTES, report },
		{ MEMBER_WIRE_DECISION_BYTES, verdict }, { MEMBER_WIRE_OPERATION_BYTES, operation },
		{ MEMBER_WIRE_VERIFY_BYTES, verify },    { MEMBER_WIRE_COMMIT_BYTES, confirm },
	};
	size_t kind = bytes ? data[0] % (sizeof(kinds) / sizeof(kinds[0])) : 0;
	uint8_t *exact;

	if (bytes < 1 + kinds[kind].bytes)
		return 0;
	exact = malloc(kinds[kind].bytes); /* so that a byte read beyond it is seen */
	if (!exact)
		return 0;
	memcpy(exact, data + 1, kinds[kind].bytes);
	kinds[kind].run(exact);
	/* Stored inputs may be of old versions. A report has a second head, before its facts. */
	bytes_put(exact + 4, MEMBER_WIRE_VERSION, 2);
	if (kinds[kind].run == report)
		bytes_put(exact + 8 + 4, MEMBER_WIRE_VERSION, 2);
	kinds[kind].run(exact);
	free(exact);
	return 0;
}
