/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tuning tables that this process may follow: read once, with the setup, so that what others do to the files meanwhile
 * changes nothing. A rank that follows another table than the others hangs the job. So each rank says in its record which
 * tables it has, as a number; the decision about its communicator (registry.h) has it if all members have the same, and
 * between hosts the heads agree on it (agreed.h). What is picked then follows from number and shape.
 *
 *   one host, any setting       all ranks are members of the decision: as many as NCCL has
 *   several hosts               the heads of collnet have agreed, and then NCCL allows collnet, as it does on all ranks
 *                               where the heads' groups stand: then all were told
 *   several hosts, named table  each host's ranks have it, each connection of Tributary's network is with a peer
 *                               that tells the same number (net.c), and NCCL connects all hosts for its first group,
 *                               whose choices are left to it: where a rank lacks the table, that one fails. Not from
 *                               the second operation on: hosts that choose differently within a group make different
 *                               connections, and wait for each other before any of them has come about
 */
#ifndef TRIBUTARY_PLUGIN_STEER_TUNING_H
#define TRIBUTARY_PLUGIN_STEER_TUNING_H

#include "plugin/steer/machine.h"
#include "plugin/steer/registry.h"
#include "profile/tuning.h"

enum { STEER_TABLES_MAX = 32 }; /* the newest */

struct steer_table {
	uint64_t hash;
	struct tuning_table table;
};

struct steer_tuning {
	bool is_named; /* TRIBUTARY_TUNING has the hash of one */
	uint64_t named;
	struct diag why; /* why there is no table, though it is named; a sentence */
	size_t count;
	struct steer_table *at; /* [STEER_TABLES_MAX], newest first, of this version of NCCL */
	uint64_t numbers[STEER_TUNING_KINDS];
};

/* The network as tables name it, "tcp 50 Gbit/s": its kind and what its devices carry together; "" where it is not ours. */
void steer_tuning_network(const struct steer_nets *nets, const char *kind, char ret[static TUNING_NAME_BYTES]);
/*
 * Tables for other GPUs and, between hosts, another network are followed only where they are named. root: "" for this machine.
 * network: see above. nccl_version 0: there is no environment half, and so no table. Never fails.
 */
void steer_tuning_load(const struct params *params, const struct params_source *source, const char *root,
		       const char *network, unsigned nccl_version, struct steer_tuning *ret);
void steer_tuning_fini(struct steer_tuning *tuning);
/* Whether there is something to agree on. */
bool steer_tuning_is_there(const struct steer_tuning *tuning);

/* What peers on other hosts are told (params.tuning_told): the number for several hosts of a named table; 0: none is followed. */
uint64_t steer_tuning_told(const struct steer_tuning *tuning);
/* NULL: no table is for this shape. */
const struct steer_table *steer_tuning_find(const struct steer_tuning *tuning, size_t rank_count, size_t host_count);

#endif
