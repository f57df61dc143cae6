/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/member_wire.h"

#include <errno.h>

static void head_codec(struct codec *codec)
{
	codec_magic(codec, "TRBA", 4);
	codec_version(codec, MEMBER_WIRE_VERSION);
}

static void settings_check(struct codec *codec, uint64_t flat_bytes, uint64_t segment_bytes)
{
	codec_check(codec, flat_bytes <= MEMBER_WIRE_FLAT_BYTES_MAX);
	codec_check(codec, segment_bytes <= MEMBER_WIRE_SEGMENT_BYTES_MAX);
}

int member_wire_hello(struct codec *codec, struct member_wire_hello *hello)
{
	head_codec(codec);
	codec_zeros(codec, 2);
	CODEC_NUMBER(codec, hello->from, 2);
	CODEC_NUMBER(codec, hello->count, 2);
	codec_bool(codec, &hello->large, 1);
	codec_zeros(codec, 3);
	CODEC_NUMBER(codec, hello->group, 8);
	codec_text(codec, hello->host, sizeof(hello->host));
	codec_zeros(codec, 8);
	codec_check(codec, hello->from < hello->count);
	return codec_end(codec);
}

static void facts_codec(struct codec *codec, struct member_wire_facts *facts)
{
	head_codec(codec);
	CODEC_NUMBER(codec, facts->index, 2);
	CODEC_NUMBER(codec, facts->host_id, 8);
	CODEC_NUMBER(codec, facts->process_id, 4);
	CODEC_NUMBER(codec, facts->leaf, 4);
	CODEC_NUMBER(codec, facts->rate_Bps, 8);
	CODEC_NUMBER(codec, facts->up_rate_Bps, 8);
	CODEC_NUMBER(codec, facts->down_rate_Bps, 8);
	CODEC_NUMBER(codec, facts->cluster, 8);
	CODEC_NUMBER(codec, facts->flat_bytes, 8);
	CODEC_NUMBER(codec, facts->segment_bytes, 8);
	CODEC_NUMBER(codec, facts->eager_bytes, 8);
	CODEC_NUMBER(codec, facts->timeout_ns, 8);
	codec_bool(codec, &facts->verify, 1);
	codec_bool(codec, &facts->as_said, 1);
	codec_zeros(codec, 2);
	CODEC_NUMBER(codec, facts->rank_count, 4);
	codec_text(codec, facts->host, sizeof(facts->host));
	codec_text(codec, facts->device, sizeof(facts->device));
	CODEC_NUMBER(codec, facts->tuning, 8);
	CODEC_NUMBER(codec, facts->wiring, 8);
	codec_zeros(codec, 16);
	codec_check(codec, facts->leaf >= AGGREGATE_LEAF_NO_CLUSTER);
	settings_check(codec, facts->flat_bytes, facts->segment_bytes);
}

int member_wire_facts(struct codec *codec, struct member_wire_facts *facts)
{
	facts_codec(codec, facts);
	return codec_end(codec);
}

int member_wire_report(struct codec *codec, struct member_wire_report *report)
{
	head_codec(codec);
	CODEC_NUMBER(codec, report->kind, 1);
	codec_zeros(codec, 1);
	facts_codec(codec, &report->facts);
	codec_text(codec, report->reason, sizeof(report->reason));
	CODEC_NUMBER(codec, report->aggregators, 4);
	CODEC_NUMBER(codec, report->gain_permille, 4);
	codec_check(codec, report->kind >= AGGREGATE_REPORT_FACTS && report->kind <= AGGREGATE_REPORT_FAILED);
	return codec_end(codec);
}

int member_wire_decision(struct codec *codec, struct member_wire_decision *decision)
{
	struct member_wire_settings *settings = &decision->settings;

	head_codec(codec);
	CODEC_NUMBER(codec, decision->kind, 1);
	codec_bool(codec, &settings->verify, 1);
	CODEC_NUMBER(codec, decision->error, 4);
	CODEC_NUMBER(codec, decision->count, 2);
	codec_bool(codec, &settings->measures, 1);
	codec_zeros(codec, 1);
	CODEC_NUMBER(codec, settings->flat_bytes, 8);
	CODEC_NUMBER(codec, settings->segment_bytes, 8);
	CODEC_NUMBER(codec, decision->aggregators, 8);
	codec_text(codec, decision->reason, sizeof(decision->reason));
	codec_check(codec, decision->kind >= AGGREGATE_DECISION_MEMBERS && decision->kind <= AGGREGATE_DECISION_NO);
	codec_check(codec, decision->error <= 0 && decision->error >= -4095);
	settings_check(codec, settings->flat_bytes, settings->segment_bytes);
	return codec_end(codec);
}

int member_wire_aggregators(struct codec *codec, struct member_wire_aggregators *aggregators)
{
	codec_block(codec, aggregators->id, sizeof(aggregators->id));
	CODEC_NUMBER(codec, aggregators->count, 2);
	codec_zeros(codec, 6);
	codec_check(codec, aggregators->count <= MEMBER_WIRE_AGGREGATORS_MAX);
	for (size_t i = 0; i < aggregators->count && !codec->error; i++) {
		codec_block(codec, aggregators->each[i].handle, TRANSPORT_HANDLE_BYTES);
		CODEC_NUMBER(codec, aggregators->each[i].rate_Bps, 8);
		CODEC_NUMBER(codec, aggregators->each[i].leaf, 4);
		CODEC_NUMBER(codec, aggregators->each[i].listed, 4);
	}
	if (!codec->error)
		codec_zeros(codec,
			    (size_t)(MEMBER_WIRE_AGGREGATORS_MAX - aggregators->count) * MEMBER_WIRE_AGGREGATOR_BYTES);
	return codec_end(codec);
}

int member_wire_operation(struct codec *codec, struct member_wire_operation *operation)
{
	head_codec(codec);
	codec_zeros(codec, 2);
	CODEC_NUMBER(codec, operation->number, 8);
	CODEC_NUMBER(codec, operation->bytes, 8);
	codec_zeros(codec, 17);
	CODEC_NUMBER(codec, operation->type, 1);
	CODEC_NUMBER(codec, operation->operation, 1);
	codec_bool(codec, &operation->flat, 1);
	codec_zeros(codec, 20);
	return codec_end(codec);
}

int member_wire_verify(struct codec *codec, struct member_wire_verify *verify)
{
	CODEC_NUMBER(codec, verify->number, 8);
	CODEC_NUMBER(codec, verify->checksum, 4);
	codec_zeros(codec, 4);
	return codec_end(codec);
}

int member_wire_commit(struct codec *codec, struct member_wire_commit *commit)
{
	CODEC_NUMBER(codec, commit->number, 8);
	CODEC_NUMBER(codec, commit->lost, 4);
	CODEC_NUMBER(codec, commit->leaves, 4);
	codec_bool(codec, &commit->poisoned, 8);
	return codec_end(codec);
}
