/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of messages between members, and between members and aggregators: what it is, and of which segment or operation. */
#ifndef TRIBUTARY_AGGREGATE_TAGS_H
#define TRIBUTARY_AGGREGATE_TAGS_H

#include <stdint.h>

enum aggregate_tag {
	AGGREGATE_TAG_UP_HOST,
	AGGREGATE_TAG_UP_LEAF,
	AGGREGATE_TAG_UP_ROOT,
	AGGREGATE_TAG_DOWN,
	AGGREGATE_TAG_OPERATION,
	AGGREGATE_TAG_VERIFY = 6,
	AGGREGATE_TAG_AGREE, /* of the bootstrap, without a number; then, about a large operation, what is agreed of it */
	/* On the connections of large operations, which have no messages about operations and no checksums. */
	AGGREGATE_TAG_RECOMPUTE_INPUT = AGGREGATE_TAG_OPERATION,
	AGGREGATE_TAG_RECOMPUTE_RESULT = AGGREGATE_TAG_VERIFY,
	AGGREGATE_TAG_HEAD = AGGREGATE_TAG_OPERATION, /* to an aggregator, without a number */
};
static inline int aggregate_tag(enum aggregate_tag kind, uint64_t number)
{
	return (int)((number << 3 | (uint64_t)kind) & 0x7fffffff);
}

#endif
