/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How every rank of a host learns what its heads agreed on with those of the other hosts: a symbolic link for each rank in
 * the registry's folder, which a head makes before any head has its group (struct aggregate_terms).
 *
 *     a-ID-SERIAL   for the record with that serial of the process with that ID: GAIN-RANKS-TUNING
 *
 * RANKS is how many ranks were told so on all hosts. A rank of a communicator of as many ranks knows that all others know;
 * nobody else may act on it. TUNING is that of every record, if all have the same (steer/tuning.h). Two heads of one host,
 * with a network card each, come one after the other (NCCL's set-up of collnet is in lock-step); the lesser gain counts. A
 * link goes with its record.
 *
 * Threads: under the lock of steer.c. Errors: -errno.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_AGREED_H
#define TRIBUTARY_PLUGIN_STEER_AGREED_H

#include "plugin/steer/registry.h"

struct steer_agreed {
	unsigned gain_permille; /* aggregate/gain.h */
	unsigned rank_count;
	uint64_t tuning; /* 0: not the same, or none */
};

/* Those who are to be told. */
struct steer_audience {
	size_t count;    /* 0: not all ranks of this host would follow, or nobody can tell */
	uint64_t tuning; /* of the records of all, for several hosts; 0: not the same, or none */
	struct {
		char id[STEER_ID_BYTES];
		uint64_t serial;
		char bus_id[STEER_BUS_ID_BYTES]; /* in this order */
	} at[STEER_MEMBERS_MAX];
};

/* Pure. */
void steer_agreed_audience(const struct steer_snapshot *snapshot, struct steer_audience *ret);

int steer_agreed_tell(int directory, const struct steer_audience *audience, const struct steer_agreed *agreed);
/* -ENOENT: this record was told nothing. */
int steer_agreed_hear(int directory, const char *id, uint64_t serial, struct steer_agreed *ret);
void steer_agreed_forget(int directory, const char *id, uint64_t serial);

#endif
