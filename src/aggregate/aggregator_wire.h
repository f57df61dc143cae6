/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between members and aggregators, apart from payload, as base/codec.h describes them. aggregator_wire.c alone
 * knows the layout; another layout raises AGGREGATOR_WIRE_VERSION, and docs/format/aggregation-protocol.md has both. Pure.
 * A read: -EPROTO for another version, -EBADMSG for anything else.
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATOR_WIRE_H
#define TRIBUTARY_AGGREGATE_AGGREGATOR_WIRE_H

#include "base/codec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	AGGREGATOR_WIRE_VERSION = 6,
	AGGREGATOR_WIRE_ID_BYTES = 16,
	AGGREGATOR_WIRE_HELLO_BYTES = 32, /* no other first message of a connection is that long */
	AGGREGATOR_WIRE_HEAD_BYTES = 48,
	AGGREGATOR_WIRE_LOST_BYTES = 8, /* under the tag of a HEAD */
	/*
	 * Nothing longer is sent before it is asked for: data of a segment that the other end has not begun would keep out
	 * what an older one needs.
	 */
	AGGREGATOR_WIRE_UNASKED_BYTES = AGGREGATOR_WIRE_HEAD_BYTES,
	AGGREGATOR_WIRE_SEGMENT_BYTES_MAX = 512 << 10,
	AGGREGATOR_WIRE_INPUTS_MAX = 256,
	AGGREGATOR_WIRE_WINDOW =
		256, /* segments from the oldest that is not through to the newest: no more may be open */
};

/* The first message on every connection that begins or ends at an aggregator. */
struct aggregator_wire_hello {
	uint8_t id[AGGREGATOR_WIRE_ID_BYTES]; /* of the group */
	uint16_t from;                        /* node: members by position, then the aggregators */
	uint32_t
		rate_kBps; /* of a member: what its network card takes, by its cluster file, in 1000 B/s; 0: not said */
};
int aggregator_wire_hello(struct codec *codec, struct aggregator_wire_hello *hello);

/* Where an input belongs. */
enum aggregator_stage { AGGREGATOR_STAGE_LEAF, AGGREGATOR_STAGE_ROOT, AGGREGATOR_STAGE_COUNT };

#define AGGREGATOR_WIRE_NONE UINT64_MAX

/*
 * Goes to an aggregator before each input, in the order of segments on each connection. From the first one of a member the
 * aggregator knows all about the segment but the data. An aggregator says less to another, which is the root: it knows no
 * schedule, so leaf_inputs and root_inputs are 0 and previous is AGGREGATOR_WIRE_NONE.
 */
struct aggregator_wire_head {
	uint64_t number;
	uint64_t previous; /* the last segment before it in which this aggregator has any part; AGGREGATOR_WIRE_NONE */
	uint32_t bytes;
	uint8_t type, operation;     /* enum reduce_type, reduce_operation */
	enum aggregator_stage stage; /* this input's */
	uint16_t index;              /* its place among the inputs of that stage */
	uint16_t leaf_inputs;        /* hosts of the leaf for which the aggregator aggregates */
	uint16_t root_inputs;        /* leaves, where the aggregator is the root; else 0 */
	uint16_t own_index;          /* the place of that leaf's sum among the root's inputs */
	uint16_t root;               /* the node that is */
	uint32_t aggregators; /* bit i: aggregator i aggregates a leaf or is the root; 0 in an aggregator's own */
};
int aggregator_wire_head(struct codec *codec, struct aggregator_wire_head *head);

/*
 * From a member to an aggregator: other aggregators that are lost to it, bit i: aggregator i. One may wait for another that is only
 * silent, and may have more patience than the members.
 */
int aggregator_wire_lost(struct codec *codec, uint32_t *aggregators);

#endif
