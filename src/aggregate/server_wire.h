/*
 * What members and servers (aggregators without data) say to each other, apart from payload (docs/aggregation.md,
 * Servers). Little-endian, encoded byte by byte; this file and server_wire.c are the only place that knows an offset.
 * Pure. Decoders: -EPROTO for another version, -EBADMSG for anything else; *ret is written on success only.
 */
#ifndef TRIBUTARY_AGGREGATE_SERVER_WIRE_H
#define TRIBUTARY_AGGREGATE_SERVER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SERVER_WIRE_VERSION = 5,
	SERVER_WIRE_ID_BYTES = 16,
	SERVER_WIRE_HELLO_BYTES = 32, /* no other first message of a connection is that long */
	SERVER_WIRE_HEAD_BYTES = 48,
	SERVER_WIRE_LOST_BYTES = 8, /* under the tag of a HEAD */
	/*
	 * Nothing longer is sent before it is asked for: data of a segment that the other end has not begun would keep out
	 * what an older one needs.
	 */
	SERVER_WIRE_UNASKED_BYTES = SERVER_WIRE_HEAD_BYTES,
	SERVER_WIRE_SEGMENT_BYTES_MAX = 512 << 10,
	SERVER_WIRE_INPUTS_MAX = 256,
	SERVER_WIRE_WINDOW = 256, /* segments from the oldest that is not through to the newest: no more may be open */
};

/* The first message on every connection that begins or ends at a server. */
struct server_wire_hello {
	uint8_t id[SERVER_WIRE_ID_BYTES]; /* of the group */
	uint16_t from;                    /* node: members by position, then the servers */
	uint32_t
		rate_kBps; /* of a member: what its network card takes, by its cluster file, in 1000 B/s; 0: not said */
};
void server_wire_put_hello(const struct server_wire_hello *hello, uint8_t bytes[static SERVER_WIRE_HELLO_BYTES]);
int server_wire_get_hello(const uint8_t bytes[static SERVER_WIRE_HELLO_BYTES], struct server_wire_hello *ret);

/* Where an input belongs. */
enum server_stage { SERVER_STAGE_LEAF, SERVER_STAGE_ROOT, SERVER_STAGE_COUNT };

#define SERVER_WIRE_NONE UINT64_MAX

/*
 * Goes to a server before each input, in the order of segments on each connection. From the first one of a member the
 * server knows all about the segment but the data. A server says less to another, which is the root: it knows no
 * schedule, so leaf_inputs and root_inputs are 0 and previous is SERVER_WIRE_NONE.
 */
struct server_wire_head {
	uint64_t number;
	uint64_t previous; /* the last segment before it in which this server has any part; SERVER_WIRE_NONE */
	uint32_t bytes;
	uint8_t type, operation; /* enum reduce_type, reduce_operation */
	enum server_stage stage; /* this input's */
	uint16_t index;          /* its place among the inputs of that stage */
	uint16_t leaf_inputs;    /* hosts of the leaf for which the server aggregates */
	uint16_t root_inputs;    /* leaves, where the server is the root; else 0 */
	uint16_t own_index;      /* the place of that leaf's sum among the root's inputs */
	uint16_t root;           /* the node that is */
	uint32_t servers;        /* bit i: server i aggregates a leaf or is the root; 0 in a server's own */
};
void server_wire_put_head(const struct server_wire_head *head, uint8_t bytes[static SERVER_WIRE_HEAD_BYTES]);
int server_wire_get_head(const uint8_t bytes[static SERVER_WIRE_HEAD_BYTES], struct server_wire_head *ret);

/*
 * From a member to a server: other servers that are lost to it, bit i: server i. One may wait for another that is only
 * silent, and may have more patience than the members.
 */
void server_wire_put_lost(uint32_t servers, uint8_t bytes[static SERVER_WIRE_LOST_BYTES]);
int server_wire_get_lost(const uint8_t bytes[static SERVER_WIRE_LOST_BYTES], uint32_t *ret);

/*
 * Tags of the connections between members and servers: the same numbers as between members, so that members send and
 * receive as they always do. HEAD takes the place of the word about operations, which servers never get.
 */
enum server_tag {
	SERVER_TAG_UP_LEAF = 1,
	SERVER_TAG_UP_ROOT = 2,
	SERVER_TAG_DOWN = 3,
	SERVER_TAG_HEAD = 4,
	SERVER_TAG_HELLO = 7,
};
static inline int server_tag(enum server_tag kind, uint64_t number)
{
	return (int)((number << 3 | (uint64_t)kind) & 0x7fffffff);
}

#endif
