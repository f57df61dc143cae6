/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who aggregates what: a pure function of the group and of the operations so far. Every member works it out by itself and
 * comes to the same result, whatever machine it runs on.
 *
 * A group has members (hosts' processes that have data) and aggregators (tributaryd: no data). Members of one host are a
 * host group; hosts of one leaf a leaf group; leaves meet at the root. An operation is cut in segments; each segment has
 * in every host group, in every leaf group and at the root one leader. Data goes up from leader to leader and
 * the result down the same way. A level with a single child passes it on unchanged.
 *
 *   Sums: level by level, children in ascending order of position, rounded to the operation's type after every level. This
 *   association depends on the group alone, never on who aggregates, so every schedule gives the same bits.
 *
 *   Shares: a leaf of n hosts (m leaves) that roots the share ρ of all bytes S moves, each direction,
 *     S [2(n−1) + (1−ρ) + (m−1)ρ] / n  at a host's NIC   and   S [(1−ρ) + (m−1)ρ]  on its uplink;
 *   shares even out the slowest of all links (equal links: ρ = 1/m). In a leaf one place after the other leads,
 *   in proportion to their shares; an aggregator's share follows from its rate. Shares are counted in bytes, across operations.
 *
 * docs/design/aggregation.md derives the shares. Threads: one at a time for each schedule.
 */
#ifndef TRIBUTARY_AGGREGATE_SCHEDULE_H
#define TRIBUTARY_AGGREGATE_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SCHEDULE_MEMBERS_MAX = 256,
	SCHEDULE_AGGREGATORS_MAX = 32,
	SCHEDULE_NODES_MAX = SCHEDULE_MEMBERS_MAX + SCHEDULE_AGGREGATORS_MAX,
	SCHEDULE_NONE = 0xffff
};

/* Positions are indices into group.nodes: members first, in the order of their ids, then aggregators. */
struct schedule_node {
	uint16_t host, leaf; /* dense, from 0, numbered by first appearance; an aggregator has a host of its own */
	uint64_t rate_Bps;   /* of its NIC, one direction; 0: not known, taken for the members' median */
	bool aggregator;
	bool lost; /* an aggregator that is not to be used */
};
/*
 * Members of one host share its NIC (the fastest that one of them names) and are in one leaf. A leaf may have aggregators
 * alone: then these can be roots, nothing else.
 */
struct schedule_group {
	size_t member_count, node_count; /* aggregators: node_count - member_count */
	struct schedule_node nodes[SCHEDULE_NODES_MAX];
	size_t host_count, leaf_count;
	uint64_t uplink_out_Bps[SCHEDULE_NODES_MAX], uplink_in_Bps[SCHEDULE_NODES_MAX]; /* by leaf; 0: not known */
};

struct schedule;
/* The group is copied. -EINVAL: no member, or numbers out of range; -ENOMEM. */
int schedule_new(const struct schedule_group *group, struct schedule **ret);
void schedule_free(struct schedule *schedule);

/* One segment: who does what. Arrays by host and leaf; valid until the next call on the schedule. */
struct schedule_segment {
	uint64_t number;    /* running, from 0 */
	uint16_t root;      /* node */
	uint16_t root_leaf; /* whose leader is the root; a root aggregator may be in any leaf */
	/*
	 * [leaf_count] leader of each leaf; root_leaf's is the root. SCHEDULE_NONE for a leaf of aggregators alone that
	 * is not root_leaf.
	 */
	const uint16_t *leaf_node;
	/*
	 * [host_count] of each host of members: always one of its members, and its leaf's leader if that is one of
	 * them. SCHEDULE_NONE for an aggregator's host.
	 */
	const uint16_t *host_node;
};
/* The next segment, of so many bytes. Every member calls it with the same bytes in the same order. */
void schedule_next(struct schedule *schedule, size_t bytes, struct schedule_segment *ret);

/*
 * How many bytes a segment of an operation should have, if it is one of several in flight: enough segments that all
 * leaders have work, none below least_bytes unless the operation is. The last one has the rest. docs/design/aggregation.md, Lengths.
 */
size_t schedule_segment_bytes(const struct schedule *schedule, size_t operation_bytes, size_t least_bytes);
/* That least: what the slowest card carries in a millisecond, within bounds; 0: no rate is known. */
size_t schedule_segment_least_bytes(uint64_t slowest_Bps);

/* The share of all bytes that each leaf roots, and each node aggregates in its leaf; sums to 1. For people and tests. */
double schedule_leaf_share(const struct schedule *schedule, unsigned leaf);
double schedule_node_share(const struct schedule *schedule, unsigned node);
/* What the schedule takes the NIC of a node's host to carry: what its members say, or the hosts' median. */
double schedule_node_rate_Bps(const struct schedule *schedule, unsigned node);

/*
 * Marks all aggregators lost if they are together too slow to be worth what they cost (docs/design/aggregation.md, Shares); none if
 * members are in several leaves, the rate of an aggregator is not known, or no member's is.
 */
void schedule_leave_aggregators(struct schedule_group *group);

/* What an operation's bytes become on the links, each direction: bytes on the busiest of each kind, over its bytes. */
struct schedule_loads {
	double host, aggregator, uplink; /* 0: there is none, or nothing crosses it */
	double slowest_s_per_B; /* time of the slowest link for each byte of an operation; 0: no rate is known */
};
void schedule_loads(const struct schedule *schedule, struct schedule_loads *ret);

#endif
