/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The aggregators (tributaryd) of a group as its members see them: asked for by the coordinator during the agreement, reached
 * by every member, watched over by the coordinator afterwards. docs/design/aggregation.md, Aggregators.
 *
 * An aggregator that cannot be had is left out, by all members alike: the coordinator's "go" says which ones are used.
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATORS_H
#define TRIBUTARY_AGGREGATE_AGGREGATORS_H

#include "aggregate/control/client.h"
#include "aggregate/group.h"
#include "aggregate/bootstrap.h"
#include "aggregate/aggregator_wire.h"

enum {
	AGGREGATORS_MAX = MEMBER_WIRE_AGGREGATORS_MAX,
};
_Static_assert((int)AGGREGATORS_MAX <= (int)SCHEDULE_AGGREGATORS_MAX &&
		       (int)AGGREGATORS_MAX <= (int)CONTROL_AGGREGATORS_MAX,
	       "aggregators");

/* One of a group. */
struct group_aggregator {
	uint64_t rate_Bps;
	int32_t leaf;    /* of the cluster file */
	uint32_t listed; /* which of the cluster file */
	uint64_t excluded_at;
	char why[160]; /* it is suspected */
	/* To it, of others that are lost: what was said so far, and what is on its way. */
	uint32_t told;
	bool telling;
	struct transfer message;
	uint8_t message_bytes[AGGREGATOR_WIRE_LOST_BYTES];
	uint64_t previous;             /* number of the last segment in which it had a part; AGGREGATOR_WIRE_NONE */
	struct control_client *client; /* at the coordinator */
};

/*
 * Sets of aggregators, bit i: aggregator i. One is in more of them as time goes on, and leaves none:
 *
 *   its connections                       set        then
 *   all members have them                 used
 *   they failed, or are not needed        suspected  closed before the next poll
 *   they are closed here                  lost       logged, once an operation is under way for which it matters
 *
 *   its part in operations                set        then
 *   it told the coordinator that it ends  leaving    the next commit says so
 *   all members know that                 draining   its end is no loss
 *   the schedule has no part for it       excluded   from large operation excluded_at on
 *   nothing of its is open anywhere       dismissed  suspected, and nothing was lost with it
 */
struct group_aggregators {
	size_t count;
	uint32_t used, suspected, lost, logged;
	uint32_t leaving, draining, excluded, dismissed;
	bool ready; /* something is to be carried out */
	struct group_aggregator aggregators[AGGREGATORS_MAX];
	/* At the coordinator. */
	struct control_answer answer;
	uint64_t looked_ns;
};
static inline uint32_t aggregators_bit(size_t index)
{
	return UINT32_C(1) << index;
}
/* Those that the schedule counts with. It changes with operations alone, so it is the same at all members. */
static inline uint32_t aggregators_usable(const struct group *group)
{
	return group->aggregators ? group->aggregators->used & ~group->aggregators->excluded : 0;
}

/* During the bootstrap. */
struct bootstrap_aggregators {
	struct member_wire_aggregators list;
	struct bootstrap_way ways[AGGREGATORS_MAX];
	uint32_t lost, ready; /* cannot be had; their own connections stand (at the coordinator) */
	uint64_t since_ns, looked_ns; /* clock_waited_ns() of reaching them */
};

/* aggregators_join.c */
/* Coordinator: asks the cluster's aggregators for bootstrap.group, whose members are in order, and waits a part of the time. */
void aggregators_ask(struct bootstrap *bootstrap, const struct group *group,
		     uint8_t bytes[static MEMBER_WIRE_AGGREGATORS_BYTES]);
/* Everybody: what the coordinator has found, into bootstrap.group. */
int aggregators_learn(struct bootstrap *bootstrap, const uint8_t bytes[static MEMBER_WIRE_AGGREGATORS_BYTES]);
/* One step towards all of them. True: each is reached, or given up. */
bool aggregators_reach(struct bootstrap *bootstrap);
/* A connection that came, and its first message. */
enum aggregators_incoming_result {
	AGGREGATORS_INCOMING_NONE,  /* no aggregator's, as far as can be told */
	AGGREGATORS_INCOMING_TAKEN, /* the connection is taken */
	AGGREGATORS_INCOMING_LATER, /* an aggregator's that was faster than the coordinator's decision: ask again */
};
enum aggregators_incoming_result aggregators_incoming(struct bootstrap *bootstrap,
						      struct transport_connection *connection, const uint8_t *bytes,
						      size_t count);
/* Bit i: aggregator i stands, as this member sees it. */
uint32_t aggregators_standing(const struct bootstrap *bootstrap);
/* Those that all have agreed on; the connections become the group's, and the schedule counts with them. */
int aggregators_settle(struct bootstrap *bootstrap, uint32_t used);
void aggregators_bootstrap_fini(struct bootstrap *bootstrap);

/* aggregators.c: the engine's thread, under the group's lock; `set` has bit i for aggregator i. */
void aggregators_poll(struct group *group, uint64_t now_ns);
/* The coordinator has nothing to say to them any more. */
void aggregators_hang_up(struct group *group);
void aggregators_close(struct group *group);
/* The node of an aggregator, or of a member? */
static inline bool node_is_aggregator(const struct group *group, size_t node)
{
	return node >= group->count;
}
/* Of every segment that is cut, in order: which aggregators have a part in it. */
void aggregators_of_segment(struct group *group, const struct schedule_segment *plan, struct segment *segment);
/* What goes ahead of this node's input to an aggregator, and to which node. False: none of them gets one. */
bool aggregators_head(const struct group *group, const struct segment *segment, struct aggregator_wire_head *ret,
		      uint16_t *ret_node);

/* As the cluster file calls it. */
void aggregators_name(const struct group *group, size_t index, char *text, size_t bytes);
/* The coordinator logs which ones all members do without, because they are too slow. */
void aggregators_log_slow(const struct group *group, uint32_t set, const char *how_known);
/* From anywhere in the engine's thread. `why` is for people; the first one counts. */
void aggregators_suspect(struct group *group, uint32_t set, const char *why);
/* The schedule will have no part for these, from that large operation on. */
void aggregators_exclude(struct group *group, uint32_t set, uint64_t number);
/* All large operations before that one are through at every member: whoever was excluded by then may go. */
void aggregators_dismiss(struct group *group, uint64_t number);
/* Between polls, never within a connection's: closes the connections with those that are suspected. */
void aggregators_carry_out(struct group *group);

#endif
