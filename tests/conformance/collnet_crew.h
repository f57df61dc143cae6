/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A communicator of several processes over collnet. The test starts the members and carries their handles, in an order
 * that is not that of their numbers, as NCCL does; each member loads the plugin and lives by its role.
 *
 * One thread in each process. All waits are bounded.
 */
#ifndef TESTS_CONFORMANCE_COLLNET_CREW_H
#define TESTS_CONFORMANCE_COLLNET_CREW_H

#include "collnet_ops.h"
#include "support/peer.h"
#include "support/runtime.h"

enum { COLLNET_CREW_MAX = 12, COLLNET_WORDS_BYTES = 64 };

/* ---- the test ---- */

struct collnet_crew {
	unsigned count;
	struct peer peers[COLLNET_CREW_MAX];
	uint8_t handles[COLLNET_CREW_MAX][NCCL_HANDLE_BYTES]; /* by index */
};

/* Starts `count` peers of that role; words, without spaces, reach each of them. Asserts. */
void collnet_crew_start(const char *role, unsigned count, int version, uint64_t seed, const char *words,
			struct collnet_crew *ret);
/* Collects the handles of all members and hands them out. `but`: a member that gives none, or one above the last. */
void collnet_crew_introduce(struct collnet_crew *crew, uint64_t seed);
/* Member `index`'s number in the communicator, and its place among the handles. */
unsigned collnet_crew_rank(unsigned count, uint64_t seed, unsigned index);
/* 0: all members have ended with status 0. Else the first other status, or -ETIMEDOUT. */
int collnet_crew_wait(struct collnet_crew *crew, unsigned milliseconds);
/* Ends those that still run. */
void collnet_crew_stop(struct collnet_crew *crew);

/* ---- a member ---- */

struct collnet_member {
	unsigned index, count, rank;
	uint64_t seed;
	char words[COLLNET_WORDS_BYTES];
	int control;
	uint64_t random; /* of this member alone */
	struct collnet_ops ops;
	uint8_t handles[COLLNET_CREW_MAX][NCCL_HANDLE_BYTES]; /* as NCCL gives them */
	void *listener, *group, *registration;
};

/* Reads its argument and loads the plugin. Exits on failure. */
void collnet_member_open(int control, const char *argument, struct collnet_member *ret);
/* Listens, gives its handle away, takes those of all. Exits on failure. */
void collnet_member_meet(struct collnet_member *member);
/* NCCL's result of connect, with closeListen where NCCL calls it. */
int collnet_member_connect(struct collnet_member *member);
void collnet_member_close(struct collnet_member *member);

/* What all members post, from the seed. */
struct collnet_shape {
	const char *name;
	unsigned operations;
	size_t max_bytes;
	unsigned window;  /* outstanding at once; a slot of its own for each */
	int type;         /* -1: all of them in turn, with all operations */
	bool in_place;    /* input and output are the same memory */
	bool whole;       /* every operation has max_bytes; else from one element on */
	bool oldest_only; /* test the oldest alone, as NCCL does */
	unsigned nap_us;  /* between polls: at most that */
};
/*
 * All operations of the shape, each result checked: 0. Else NCCL's result of the call that failed, or -EBADMSG after a
 * line that says what was wrong, or -ETIMEDOUT.
 */
int collnet_member_run(struct collnet_member *member, const struct collnet_shape *shape, unsigned milliseconds);
/* Posts up to `count` operations of `bytes` and forgets about them; memory stays until the process ends. */
int collnet_member_leave(struct collnet_member *member, unsigned count, size_t bytes);

#endif
