#include "aggregate/wire.h"

#include "base/bytes.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[4] = { 'T', 'R', 'B', 'A' };

/* Text is cut to its room, and all bytes are defined. */
static void put_text(uint8_t *at, size_t room, const char *text)
{
	size_t bytes = strnlen(text, room - 1);

	memset(at, 0, room);
	memcpy(at, text, bytes);
}

static bool get_text(const uint8_t *at, size_t room, char *ret)
{
	if (!memchr(at, 0, room))
		return false;
	for (size_t i = 0; i < room && at[i]; i++)
		if (at[i] < ' ' || at[i] == 0x7f)
			return false;
	memcpy(ret, at, room);
	return true;
}

static bool settings_in_range(uint64_t flat_bytes, uint64_t segment_bytes)
{
	return flat_bytes <= AGGREGATE_WIRE_FLAT_BYTES_MAX && segment_bytes <= AGGREGATE_WIRE_SEGMENT_BYTES_MAX;
}

static void put_head(uint8_t *bytes, size_t count)
{
	memset(bytes, 0, count);
	memcpy(bytes, magic, sizeof(magic));
	bytes_put(bytes + 4, AGGREGATE_WIRE_VERSION, 2);
}

static int check_head(const uint8_t *bytes)
{
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	return bytes_get(bytes + 4, 2) == AGGREGATE_WIRE_VERSION ? 0 : -EPROTO;
}

void aggregate_wire_put_hello(const struct aggregate_wire_hello *hello,
			      uint8_t bytes[static AGGREGATE_WIRE_HELLO_BYTES])
{
	put_head(bytes, AGGREGATE_WIRE_HELLO_BYTES);
	bytes_put(bytes + 8, hello->from, 2);
	bytes_put(bytes + 10, hello->count, 2);
	bytes_put(bytes + 12, hello->large, 1);
	bytes_put(bytes + 16, hello->group, 8);
	put_text(bytes + 24, AGGREGATE_WIRE_NAME_BYTES, hello->host);
}

int aggregate_wire_get_hello(const uint8_t bytes[static AGGREGATE_WIRE_HELLO_BYTES], struct aggregate_wire_hello *ret)
{
	struct aggregate_wire_hello hello = { .large = bytes[12] == 1,
					      .from = (uint16_t)bytes_get(bytes + 8, 2),
					      .count = (uint16_t)bytes_get(bytes + 10, 2),
					      .group = bytes_get(bytes + 16, 8) };
	int r = check_head(bytes);

	if (r < 0)
		return r;
	if (bytes[12] > 1 || hello.from >= hello.count || !get_text(bytes + 24, AGGREGATE_WIRE_NAME_BYTES, hello.host))
		return -EBADMSG;
	*ret = hello;
	return 0;
}

void aggregate_wire_put_facts(const struct aggregate_wire_facts *facts,
			      uint8_t bytes[static AGGREGATE_WIRE_FACTS_BYTES])
{
	put_head(bytes, AGGREGATE_WIRE_FACTS_BYTES);
	bytes_put(bytes + 6, facts->index, 2);
	bytes_put(bytes + 8, facts->host_id, 8);
	bytes_put(bytes + 16, facts->process_id, 4);
	bytes_put(bytes + 20, (uint32_t)facts->leaf, 4);
	bytes_put(bytes + 24, facts->rate_Bps, 8);
	bytes_put(bytes + 32, facts->up_rate_Bps, 8);
	bytes_put(bytes + 40, facts->down_rate_Bps, 8);
	bytes_put(bytes + 48, facts->cluster, 8);
	bytes_put(bytes + 56, facts->flat_bytes, 8);
	bytes_put(bytes + 64, facts->segment_bytes, 8);
	bytes_put(bytes + 72, facts->eager_bytes, 8);
	bytes_put(bytes + 80, facts->timeout_ns, 8);
	bytes_put(bytes + 88, facts->verify, 1);
	bytes_put(bytes + 89, facts->as_said, 1);
	bytes_put(bytes + 92, facts->rank_count, 4);
	put_text(bytes + 96, AGGREGATE_WIRE_NAME_BYTES, facts->host);
	put_text(bytes + 160, AGGREGATE_WIRE_NAME_BYTES, facts->device);
}

int aggregate_wire_get_facts(const uint8_t bytes[static AGGREGATE_WIRE_FACTS_BYTES], struct aggregate_wire_facts *ret)
{
	struct aggregate_wire_facts facts = {
		.index = (uint16_t)bytes_get(bytes + 6, 2),
		.host_id = bytes_get(bytes + 8, 8),
		.process_id = (uint32_t)bytes_get(bytes + 16, 4),
		.leaf = (int32_t)(uint32_t)bytes_get(bytes + 20, 4),
		.rate_Bps = bytes_get(bytes + 24, 8),
		.up_rate_Bps = bytes_get(bytes + 32, 8),
		.down_rate_Bps = bytes_get(bytes + 40, 8),
		.cluster = bytes_get(bytes + 48, 8),
		.flat_bytes = bytes_get(bytes + 56, 8),
		.segment_bytes = bytes_get(bytes + 64, 8),
		.eager_bytes = bytes_get(bytes + 72, 8),
		.timeout_ns = bytes_get(bytes + 80, 8),
		.verify = bytes[88] == 1,
		.as_said = bytes[89] == 1,
		.rank_count = (uint32_t)bytes_get(bytes + 92, 4),
	};
	int r = check_head(bytes);

	if (r < 0)
		return r;
	if (bytes[88] > 1 || bytes[89] > 1 || facts.leaf < AGGREGATE_LEAF_NO_CLUSTER ||
	    !settings_in_range(facts.flat_bytes, facts.segment_bytes) ||
	    !get_text(bytes + 96, AGGREGATE_WIRE_NAME_BYTES, facts.host) ||
	    !get_text(bytes + 160, AGGREGATE_WIRE_NAME_BYTES, facts.device))
		return -EBADMSG;
	*ret = facts;
	return 0;
}

enum { REPORT_AGGREGATORS_AT = 8 + AGGREGATE_WIRE_FACTS_BYTES + AGGREGATE_WIRE_REASON_BYTES };
_Static_assert(REPORT_AGGREGATORS_AT + 8 == AGGREGATE_WIRE_REPORT_BYTES, "a report");

void aggregate_wire_put_report(const struct aggregate_wire_report *report,
			       uint8_t bytes[static AGGREGATE_WIRE_REPORT_BYTES])
{
	put_head(bytes, AGGREGATE_WIRE_REPORT_BYTES);
	bytes_put(bytes + 6, (uint64_t)report->kind, 1);
	aggregate_wire_put_facts(&report->facts, bytes + 8);
	put_text(bytes + 8 + AGGREGATE_WIRE_FACTS_BYTES, AGGREGATE_WIRE_REASON_BYTES, report->reason);
	bytes_put(bytes + REPORT_AGGREGATORS_AT, report->aggregators, 4);
	bytes_put(bytes + REPORT_AGGREGATORS_AT + 4, report->gain_permille, 4);
}

int aggregate_wire_get_report(const uint8_t bytes[static AGGREGATE_WIRE_REPORT_BYTES],
			      struct aggregate_wire_report *ret)
{
	struct aggregate_wire_report report = { .kind = (enum aggregate_report)bytes[6],
						.aggregators = (uint32_t)bytes_get(bytes + REPORT_AGGREGATORS_AT, 4),
						.gain_permille = (uint32_t)bytes_get(bytes + REPORT_AGGREGATORS_AT + 4,
										     4) };
	int r = check_head(bytes);

	if (r < 0)
		return r;
	if (report.kind < AGGREGATE_REPORT_FACTS || report.kind > AGGREGATE_REPORT_FAILED ||
	    !get_text(bytes + 8 + AGGREGATE_WIRE_FACTS_BYTES, AGGREGATE_WIRE_REASON_BYTES, report.reason))
		return -EBADMSG;
	r = aggregate_wire_get_facts(bytes + 8, &report.facts);
	if (r < 0)
		return r;
	*ret = report;
	return 0;
}

void aggregate_wire_put_decision(const struct aggregate_wire_decision *decision,
				 uint8_t bytes[static AGGREGATE_WIRE_DECISION_BYTES])
{
	put_head(bytes, AGGREGATE_WIRE_DECISION_BYTES);
	bytes_put(bytes + 6, (uint64_t)decision->kind, 1);
	bytes_put(bytes + 7, decision->settings.verify, 1);
	bytes_put(bytes + 8, (uint32_t)decision->error, 4);
	bytes_put(bytes + 12, decision->count, 2);
	bytes_put(bytes + 14, decision->settings.measures, 1);
	bytes_put(bytes + 16, decision->settings.flat_bytes, 8);
	bytes_put(bytes + 24, decision->settings.segment_bytes, 8);
	bytes_put(bytes + 32, decision->aggregators, 8);
	put_text(bytes + 40, AGGREGATE_WIRE_REASON_BYTES, decision->reason);
}

int aggregate_wire_get_decision(const uint8_t bytes[static AGGREGATE_WIRE_DECISION_BYTES],
				struct aggregate_wire_decision *ret)
{
	struct aggregate_wire_decision decision = {
		.kind = (enum aggregate_decision)bytes[6],
		.error = (int32_t)(uint32_t)bytes_get(bytes + 8, 4),
		.count = (uint16_t)bytes_get(bytes + 12, 2),
		.aggregators = (uint32_t)bytes_get(bytes + 32, 4),
		.settings = { .flat_bytes = bytes_get(bytes + 16, 8),
			      .segment_bytes = bytes_get(bytes + 24, 8),
			      .verify = bytes[7] == 1,
			      .measures = bytes[14] == 1 },
	};
	int r = check_head(bytes);

	if (r < 0)
		return r;
	if (decision.kind < AGGREGATE_DECISION_MEMBERS || decision.kind > AGGREGATE_DECISION_NO || bytes[7] > 1 ||
	    bytes[14] > 1 || decision.error > 0 || decision.error < -4095 ||
	    !settings_in_range(decision.settings.flat_bytes, decision.settings.segment_bytes) ||
	    !get_text(bytes + 40, AGGREGATE_WIRE_REASON_BYTES, decision.reason))
		return -EBADMSG;
	*ret = decision;
	return 0;
}

void aggregate_wire_put_operation(const struct aggregate_wire_operation *operation,
				  uint8_t bytes[static AGGREGATE_WIRE_OPERATION_BYTES])
{
	put_head(bytes, AGGREGATE_WIRE_OPERATION_BYTES);
	bytes_put(bytes + 8, operation->number, 8);
	bytes_put(bytes + 16, operation->bytes, 8);
	bytes_put(bytes + 41, operation->type, 1);
	bytes_put(bytes + 42, operation->operation, 1);
	bytes_put(bytes + 43, operation->flat, 1);
}

int aggregate_wire_get_operation(const uint8_t bytes[static AGGREGATE_WIRE_OPERATION_BYTES],
				 struct aggregate_wire_operation *ret)
{
	int r = check_head(bytes);

	if (r < 0)
		return r;
	*ret = (struct aggregate_wire_operation){
		.number = bytes_get(bytes + 8, 8),
		.bytes = bytes_get(bytes + 16, 8),
		.type = bytes[41],
		.operation = bytes[42],
		.flat = bytes[43] != 0,
	};
	return 0;
}

void aggregate_wire_put_verify(const struct aggregate_wire_verify *verify,
			       uint8_t bytes[static AGGREGATE_WIRE_VERIFY_BYTES])
{
	bytes_put(bytes, verify->number, 8);
	bytes_put(bytes + 8, verify->checksum, 4);
	bytes_put(bytes + 12, 0, 4);
}

void aggregate_wire_get_verify(const uint8_t bytes[static AGGREGATE_WIRE_VERIFY_BYTES],
			       struct aggregate_wire_verify *ret)
{
	ret->number = bytes_get(bytes, 8);
	ret->checksum = (uint32_t)bytes_get(bytes + 8, 4);
}

void aggregate_wire_put_commit(const struct aggregate_wire_commit *commit,
			       uint8_t bytes[static AGGREGATE_WIRE_COMMIT_BYTES])
{
	bytes_put(bytes, commit->number, 8);
	bytes_put(bytes + 8, commit->lost, 4);
	bytes_put(bytes + 12, commit->leaves, 4);
	bytes_put(bytes + 16, commit->poisoned, 8);
}

int aggregate_wire_get_commit(const uint8_t bytes[static AGGREGATE_WIRE_COMMIT_BYTES],
			      struct aggregate_wire_commit *ret)
{
	if (bytes_get(bytes + 16, 8) > 1)
		return -EBADMSG;
	*ret = (struct aggregate_wire_commit){
		.number = bytes_get(bytes, 8),
		.lost = (uint32_t)bytes_get(bytes + 8, 4),
		.leaves = (uint32_t)bytes_get(bytes + 12, 4),
		.poisoned = bytes[16] != 0,
	};
	return 0;
}
