#include "aggregate/aggregator_wire.h"

#include "base/bytes.h"
#include "reduce/reduce.h"

#include <errno.h>
#include <string.h>

static const uint8_t magic[8] = { 'T', 'r', 'i', 'b', 'S', 'r', 'v', 0x9e };

void aggregator_wire_put_hello(const struct aggregator_wire_hello *hello,
			       uint8_t bytes[static AGGREGATOR_WIRE_HELLO_BYTES])
{
	memset(bytes, 0, AGGREGATOR_WIRE_HELLO_BYTES);
	memcpy(bytes, magic, sizeof(magic));
	bytes_put(bytes + 8, AGGREGATOR_WIRE_VERSION, 2);
	bytes_put(bytes + 10, hello->from, 2);
	bytes_put(bytes + 12, hello->rate_kBps, 4);
	memcpy(bytes + 16, hello->id, AGGREGATOR_WIRE_ID_BYTES);
}

int aggregator_wire_get_hello(const uint8_t bytes[static AGGREGATOR_WIRE_HELLO_BYTES],
			      struct aggregator_wire_hello *ret)
{
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (bytes_get(bytes + 8, 2) != AGGREGATOR_WIRE_VERSION)
		return -EPROTO;
	ret->from = (uint16_t)bytes_get(bytes + 10, 2);
	ret->rate_kBps = (uint32_t)bytes_get(bytes + 12, 4);
	memcpy(ret->id, bytes + 16, AGGREGATOR_WIRE_ID_BYTES);
	return 0;
}

void aggregator_wire_put_head(const struct aggregator_wire_head *head, uint8_t bytes[static AGGREGATOR_WIRE_HEAD_BYTES])
{
	memset(bytes, 0, AGGREGATOR_WIRE_HEAD_BYTES);
	bytes_put(bytes, head->number, 8);
	bytes_put(bytes + 8, head->previous, 8);
	bytes_put(bytes + 16, head->bytes, 4);
	bytes_put(bytes + 20, head->type, 1);
	bytes_put(bytes + 21, head->operation, 1);
	bytes_put(bytes + 22, (uint64_t)head->stage, 1);
	bytes_put(bytes + 24, head->index, 2);
	bytes_put(bytes + 26, head->leaf_inputs, 2);
	bytes_put(bytes + 28, head->root_inputs, 2);
	bytes_put(bytes + 30, head->own_index, 2);
	bytes_put(bytes + 32, head->root, 2);
	bytes_put(bytes + 36, head->aggregators, 4);
}

static bool head_makes_sense(const struct aggregator_wire_head *head)
{
	size_t element;

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

int aggregator_wire_get_head(const uint8_t bytes[static AGGREGATOR_WIRE_HEAD_BYTES], struct aggregator_wire_head *ret)
{
	struct aggregator_wire_head head = {
		.number = bytes_get(bytes, 8),
		.previous = bytes_get(bytes + 8, 8),
		.bytes = (uint32_t)bytes_get(bytes + 16, 4),
		.type = bytes[20],
		.operation = bytes[21],
		.stage = (enum aggregator_stage)bytes[22],
		.index = (uint16_t)bytes_get(bytes + 24, 2),
		.leaf_inputs = (uint16_t)bytes_get(bytes + 26, 2),
		.root_inputs = (uint16_t)bytes_get(bytes + 28, 2),
		.own_index = (uint16_t)bytes_get(bytes + 30, 2),
		.root = (uint16_t)bytes_get(bytes + 32, 2),
		.aggregators = (uint32_t)bytes_get(bytes + 36, 4),
	};

	if (bytes[22] >= AGGREGATOR_STAGE_COUNT || bytes[23] || !head_makes_sense(&head))
		return -EBADMSG;
	for (size_t i = 34; i < AGGREGATOR_WIRE_HEAD_BYTES; i++)
		if ((i < 36 || i >= 40) && bytes[i])
			return -EBADMSG;
	*ret = head;
	return 0;
}

void aggregator_wire_put_lost(uint32_t aggregators, uint8_t bytes[static AGGREGATOR_WIRE_LOST_BYTES])
{
	bytes_put(bytes, aggregators, 4);
	bytes_put(bytes + 4, ~aggregators, 4);
}

int aggregator_wire_get_lost(const uint8_t bytes[static AGGREGATOR_WIRE_LOST_BYTES], uint32_t *ret)
{
	uint32_t aggregators = (uint32_t)bytes_get(bytes, 4);

	if (bytes_get(bytes + 4, 4) != (uint32_t)~aggregators)
		return -EBADMSG;
	*ret = aggregators;
	return 0;
}
