/* SPDX-License-Identifier: Apache-2.0 */
#include "aggregate/aggregator_wire.h"

#include "reduce/reduce.h"

#include <errno.h>

int aggregator_wire_hello(struct codec *codec, struct aggregator_wire_hello *hello)
{
	codec_magic(codec, "TribSrv\x9e", 8);
	codec_version(codec, AGGREGATOR_WIRE_VERSION);
	CODEC_NUMBER(codec, hello->from, 2);
	CODEC_NUMBER(codec, hello->rate_kBps, 4);
	codec_block(codec, hello->id, sizeof(hello->id));
	return codec_end(codec);
}

static bool head_makes_sense(const struct aggregator_wire_head *head)
{
	size_t element;

	if (head->stage >= AGGREGATOR_STAGE_COUNT)
		return false;
	if (head->type >= REDUCE_TYPE_COUNT || head->operation >= REDUCE_OPERATION_COUNT)
		return false;
	element = reduce_type_bytes((enum reduce_type)head->type);
	if (!head->bytes || head->bytes > AGGREGATOR_WIRE_SEGMENT_BYTES_MAX || head->bytes % element)
		return false;
	if (head->leaf_inputs > AGGREGATOR_WIRE_INPUTS_MAX || head->root_inputs > AGGREGATOR_WIRE_INPUTS_MAX)
		return false;
	if (!head->leaf_inputs) /* of an aggregator */
		return head->stage == AGGREGATOR_STAGE_ROOT && head->index < AGGREGATOR_WIRE_INPUTS_MAX &&
		       !head->root_inputs && !head->own_index && !head->aggregators &&
		       head->previous == AGGREGATOR_WIRE_NONE;
	if (head->own_index >= AGGREGATOR_WIRE_INPUTS_MAX)
		return false;
	if (head->previous != AGGREGATOR_WIRE_NONE && head->previous >= head->number)
		return false;
	if (head->root_inputs && head->own_index >= head->root_inputs)
		return false;
	if (head->stage == AGGREGATOR_STAGE_LEAF)
		return head->index < head->leaf_inputs;
	return head->index < head->root_inputs && head->index != head->own_index;
}

int aggregator_wire_head(struct codec *codec, struct aggregator_wire_head *head)
{
	CODEC_NUMBER(codec, head->number, 8);
	CODEC_NUMBER(codec, head->previous, 8);
	CODEC_NUMBER(codec, head->bytes, 4);
	CODEC_NUMBER(codec, head->type, 1);
	CODEC_NUMBER(codec, head->operation, 1);
	CODEC_NUMBER(codec, head->stage, 1);
	codec_zeros(codec, 1);
	CODEC_NUMBER(codec, head->index, 2);
	CODEC_NUMBER(codec, head->leaf_inputs, 2);
	CODEC_NUMBER(codec, head->root_inputs, 2);
	CODEC_NUMBER(codec, head->own_index, 2);
	CODEC_NUMBER(codec, head->root, 2);
	codec_zeros(codec, 2);
	CODEC_NUMBER(codec, head->aggregators, 4);
	codec_zeros(codec, 8);
	codec_check(codec, head_makes_sense(head));
	return codec_end(codec);
}

int aggregator_wire_lost(struct codec *codec, uint32_t *aggregators)
{
	uint32_t others = ~*aggregators;

	CODEC_NUMBER(codec, *aggregators, 4);
	CODEC_NUMBER(codec, others, 4);
	codec_check(codec, others == ~*aggregators);
	return codec_end(codec);
}
