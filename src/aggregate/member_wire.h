/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that members of a group exchange, apart from payload. member_wire.c alone knows their layout; another layout
 * raises MEMBER_WIRE_VERSION, and docs/format/aggregation-protocol.md has both. Pure.
 *
 * A read checks what can be checked without a group: magic, version, ranges, text. -EPROTO: another version; -EBADMSG:
 * anything else.
 */
#ifndef TRIBUTARY_AGGREGATE_MEMBER_WIRE_H
#define TRIBUTARY_AGGREGATE_MEMBER_WIRE_H

#include "aggregate/aggregator_wire.h"
#include "base/codec.h"
#include "transport/transport.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MEMBER_WIRE_VERSION = 12,
	MEMBER_WIRE_NAME_BYTES = 64, /* with its NUL */
	MEMBER_WIRE_REASON_BYTES = 256,
	MEMBER_WIRE_HELLO_BYTES = 96,
	MEMBER_WIRE_FACTS_BYTES = 256,
	MEMBER_WIRE_REPORT_BYTES = 528,
	MEMBER_WIRE_DECISION_BYTES = 296, /* before the facts of the members */
	MEMBER_WIRE_OPERATION_BYTES = 64,
	MEMBER_WIRE_VERIFY_BYTES = 16,
	MEMBER_WIRE_COMMIT_BYTES = 24,
	MEMBER_WIRE_AGGREGATORS_MAX = 32,
	MEMBER_WIRE_AGGREGATOR_BYTES = TRANSPORT_HANDLE_BYTES + 16,
	MEMBER_WIRE_AGGREGATORS_BYTES = AGGREGATOR_WIRE_ID_BYTES + 8 +
					MEMBER_WIRE_AGGREGATORS_MAX * MEMBER_WIRE_AGGREGATOR_BYTES,
	/* What settings may come to: the ranges of their parameters (base/params.c). Buffers are as large as they say. */
	MEMBER_WIRE_FLAT_BYTES_MAX = 64 << 10,
	MEMBER_WIRE_SEGMENT_BYTES_MAX = 512 << 10,
};

/* The first message on every connection. */
struct member_wire_hello {
	uint16_t from, count; /* of the handles in ascending order */
	bool large;           /* for large operations */
	uint64_t group;       /* hash of all handles */
	char host[MEMBER_WIRE_NAME_BYTES];
};

/* Leaves as the cluster file numbers them. */
enum { AGGREGATE_LEAF_UNKNOWN = -1, AGGREGATE_LEAF_NO_CLUSTER = -2 };
struct member_wire_facts {
	uint64_t host_id; /* equal for processes of one host */
	uint32_t process_id;
	uint16_t index; /* in the handles as this member was given them */
	int32_t leaf;
	uint64_t rate_Bps, up_rate_Bps, down_rate_Bps; /* NIC; uplink of the leaf; 0: not known */
	uint64_t cluster;                              /* fingerprint; 0: none */
	uint64_t flat_bytes, segment_bytes;            /* as set; 0: to be chosen */
	uint64_t eager_bytes, timeout_ns;
	uint32_t rank_count; /* struct aggregate_terms, as the next two */
	uint64_t tuning, wiring;
	bool verify;
	bool as_said; /* wants aggregators to count as they are said to be */
	char host[MEMBER_WIRE_NAME_BYTES], device[MEMBER_WIRE_NAME_BYTES];
};

/* Member to coordinator. */
enum aggregate_report { AGGREGATE_REPORT_FACTS = 1, AGGREGATE_REPORT_READY, AGGREGATE_REPORT_FAILED };
struct member_wire_report {
	enum aggregate_report kind;
	struct member_wire_facts facts;
	uint32_t aggregators;                  /* READY: bit i: aggregator i stands */
	uint32_t gain_permille;                /* READY: as this member works it out */
	char reason[MEMBER_WIRE_REASON_BYTES]; /* FAILED */
};

/* Coordinator to member. */
enum aggregate_decision { AGGREGATE_DECISION_MEMBERS = 1, AGGREGATE_DECISION_GO, AGGREGATE_DECISION_NO };
struct member_wire_settings {
	uint64_t flat_bytes;    /* operations up to this size are exchanged directly */
	uint64_t segment_bytes; /* least of a segment */
	bool verify;
	bool measures; /* what aggregators can do */
};
struct member_wire_decision {
	enum aggregate_decision kind;
	int32_t error;                         /* NO: -errno */
	uint32_t aggregators;                  /* GO: bit i: aggregator i is used */
	uint16_t count;                        /* MEMBERS: facts that follow, in the order of their positions */
	struct member_wire_settings settings;  /* MEMBERS */
	char reason[MEMBER_WIRE_REASON_BYTES]; /* NO */
};

/* MEMBERS: behind the facts. The cluster file's aggregators that the coordinator has for the group. */
struct member_wire_aggregators {
	uint8_t id[AGGREGATOR_WIRE_ID_BYTES]; /* of the group */
	uint16_t count;
	struct member_wire_aggregator {
		uint8_t handle[TRANSPORT_HANDLE_BYTES];
		uint64_t rate_Bps;
		int32_t leaf;    /* of the cluster file */
		uint32_t listed; /* which of the cluster file */
	} each[MEMBER_WIRE_AGGREGATORS_MAX];
};

/* At the head of each flat message, and alone for a segmented operation. */
struct member_wire_operation {
	uint64_t number;
	uint64_t bytes;
	uint8_t type, operation;
	bool flat; /* the payload follows */
};
struct member_wire_verify {
	uint64_t number;
	uint32_t checksum;
};
/* Groups with aggregators, of each large operation: what its sender, and all of whom it has heard, know. */
struct member_wire_commit {
	uint64_t number;
	uint32_t lost, leaves; /* bit i: aggregator i */
	bool poisoned;         /* somebody lacks a part of the result */
};

/* As base/codec.h has it: each writes its message, or reads and checks it. */
int member_wire_hello(struct codec *codec, struct member_wire_hello *hello);
int member_wire_facts(struct codec *codec, struct member_wire_facts *facts);
int member_wire_report(struct codec *codec, struct member_wire_report *report);
int member_wire_decision(struct codec *codec, struct member_wire_decision *decision);
int member_wire_aggregators(struct codec *codec, struct member_wire_aggregators *aggregators);
int member_wire_operation(struct codec *codec, struct member_wire_operation *operation);
int member_wire_verify(struct codec *codec, struct member_wire_verify *verify);
int member_wire_commit(struct codec *codec, struct member_wire_commit *commit);

#endif
