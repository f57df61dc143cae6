/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How groups share an aggregator's network card: by bytes, in equal parts, whatever the sizes of their segments. Each group
 * has a clock that counts what it was let begin; of those that wait, the one whose clock is the least behind may go, and
 * all that was begun together is bounded: where several groups have something, more closely, for who comes waits behind it.
 * A group that had nothing to begin saves up no more than AGGREGATOR_SHARE_SAVED times that bound: so one whose operations are
 * short, and which has nothing to begin from the end of one to the beginning of the next, can catch up.
 *
 * What a group's members do not deliver stops counting after AGGREGATOR_SHARE_STALL_NS, so a dead member holds up its own
 * group alone. Pure but for a lock; any thread.
 */
#ifndef TRIBUTARY_AGGREGATE_AGGREGATOR_SHARE_H
#define TRIBUTARY_AGGREGATE_AGGREGATOR_SHARE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGGREGATOR_SHARE_STALL_NS    UINT64_C(100000000)
#define AGGREGATOR_SHARE_SAVED       4
#define AGGREGATOR_SHARE_AHEAD_NS    UINT64_C(4000000)
#define AGGREGATOR_SHARE_LEAST_BYTES (UINT64_C(2) << 20)

struct aggregator_share;
/* One group's part. In the group; zeros, then aggregator_share_join. */
struct aggregator_share_user {
	struct aggregator_share *share;
	struct aggregator_share_user *next;
	uint64_t served_bytes; /* its clock */
	uint64_t rate_Bps;     /* of its members' cards together; 0: not known */
	bool waits;            /* it has something that it may not begin yet */
	bool busy;             /* it has had something to begin since it rested */
	void (*wake)(void *arg);
	void *arg;
};
struct aggregator_share {
	pthread_mutex_t lock;
	struct aggregator_share_user *users;
	uint64_t under_way_bytes, most_bytes, quantum_bytes;
	uint64_t clock_bytes; /* of the group that was furthest when it last began something */
};

/*
 * most_bytes: begun and not through, of all groups; where several have had something of late, what the members of the
 * fastest send in AGGREGATOR_SHARE_AHEAD_NS, if that is known and less, but two segments and AGGREGATOR_SHARE_LEAST_BYTES at least.
 * quantum_bytes: so far may one group be ahead of another that waits.
 */
void aggregator_share_init(struct aggregator_share *share, uint64_t most_bytes, uint64_t quantum_bytes);
void aggregator_share_fini(struct aggregator_share *share);

/* wake: called from any thread, under the share's lock, when it may be worth trying again. */
void aggregator_share_join(struct aggregator_share *share, struct aggregator_share_user *user, void (*wake)(void *arg),
			   void *arg);
/* What its members' cards send together. */
void aggregator_share_rate(struct aggregator_share_user *user, uint64_t rate_Bps);
/* What it had under way was given back before. */
void aggregator_share_leave(struct aggregator_share_user *user);

/* May it begin so many bytes now? True: they count. False: it waits, and is woken. */
bool aggregator_share_begin(struct aggregator_share_user *user, uint64_t bytes);
/* It has nothing to begin any more. */
void aggregator_share_rest(struct aggregator_share_user *user);
/* So many bytes are through, or have stalled. */
void aggregator_share_end(struct aggregator_share_user *user, uint64_t bytes);

#endif
