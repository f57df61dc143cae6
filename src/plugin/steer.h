/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving each communicator its channels: the measured topology, and, where all GPUs that a communicator has on this host
 * are known for certain, a plan for exactly these.
 *
 * NCCL asks its environment plugin (env.h) for each variable at the moment of use, on the thread that uses it, so the
 * answers are per thread. Every thread has a state:
 *
 *     state        event                              next state
 *     any          NCCL_NET is asked                  idle         a communicator or split begins: what was before is over
 *     any          the net plugin's init(comm)        registered   a record in the registry tells the other ranks
 *     registered   NCCL_TOPO_FILE is asked            topology     all local ranks have their records when it is asked
 *     topology     NCCL_TOPO_FILE is asked            topology     the second time after a dump
 *     topology     NCCL_GRAPH_FILE is asked           decided
 *     decided      NCCL_GRAPH_FILE is asked           decided      the same answer for the other graphs
 *     decided      NCCL_TOPO_FILE or NCCL_PROTO       idle         all ranks have read their graphs: record and decision go
 *
 * The first local rank that needs the decision makes it for all (registry.h): at NCCL_GRAPH_FILE, or at NCCL_TOPO_FILE
 * where the measurement wants a topology file of another shape, which only ranks that are all known may get (machine.h).
 *
 * A split that shares its parent's resources calls no init: its thread is idle, and NCCL searches by itself, over the
 * measured topology. Without the environment half a process gets the topology file alone, through its own environment.
 *
 * No call fails for want of a plan. In a forked child all calls do nothing, and the environment is the user's.
 *
 * errno is kept. Threads: any. Locks: steer.c's own, under which no other thread of the process and no other process is
 * waited for.
 */
#ifndef TRIBUTARY_PLUGIN_STEER_H
#define TRIBUTARY_PLUGIN_STEER_H

#include "tributary/plan.h"
#include "tributary/predict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diag;
struct params_source;
struct steer_table;

/* From the environment plugin's init. nccl_version: 22809. */
void steer_environment_half(unsigned nccl_version);
/*
 * What NCCL gets for a variable: the user's value wherever there is one. The text is valid until this thread asks for the
 * same name again. Of no effect before the process's first communicator.
 */
const char *steer_get(const char *name);

/* From the net plugin's init of version 11 on, on the thread that initialises the communicator, its CUDA device current. */
void steer_begin(uint64_t comm_id);
/* Whether it plans for communicators, so NCCL must go on telling of them. After steer_begin. */
bool steer_wants_communicators(void);
/* From init up to version 10, which NCCL calls once for the process. */
void steer_begin_process(void);

/* What the tuner may know of a communicator. */
struct steer_facts {
	bool published; /* NCCL was given this plan, on this host */
	struct plan_set set;
	int sm; /* the lowest */
	size_t local_gpu_count;
};
/* From the tuner's init. comm_id 0: this thread's last communicator. -ENOENT: nothing is known of it. */
int steer_tuner(uint64_t comm_id, struct steer_facts *ret);

/* Where this process's operations are counted, for as long as it lives. NULL: no memory, or a forked child. */
struct operations;
struct operations *steer_operations(void);

/*
 * What the heads of a communicator agree on about collnet (steer/agreed.h). NCCL sets collnet up behind every rank's init
 * of the net plugin and ahead of its tuner's, and only on the heads. comm_id 0: nobody is told.
 */
struct steer_audience;
struct steer_agreed;
void steer_collnet_audience(uint64_t comm_id, struct steer_audience *ret);
int steer_collnet_tell(const struct steer_audience *audience, const struct steer_agreed *agreed);
/*
 * From the tuner's init: what all rank_count ranks know of, or zeros for all of them. An error: others may know, and
 * this rank does not.
 */
int steer_collnet_agreed(uint64_t comm_id, size_t rank_count, struct steer_agreed *ret);

/*
 * From the tuner's init: the table that the communicator follows, which all its ranks are known to have (steer/tuning.h).
 * agreed: what steer_collnet_agreed said. An error: this rank cannot do as others may do; why in *why, a sentence.
 */
struct steer_shape {
	uint64_t comm_id;
	size_t rank_count, host_count;
};
struct steer_tuned {
	const struct steer_table *table; /* lives as long as the process; NULL: NCCL's own choices */
	/* Which of the communicator's questions is the first that it is followed in. */
	enum steer_tuned_from {
		STEER_TUNED_FROM_FIRST,
		STEER_TUNED_FROM_SECOND_GROUP, /* the first group is left to NCCL, and shows who lacks it */
		STEER_TUNED_FROM_COLLNET, /* the first one in which NCCL allows collnet: it was set up on all hosts */
	} from;
};
int steer_tuning_of(const struct steer_shape *shape, const struct steer_agreed *agreed, struct steer_tuned *ret,
		    struct diag *why);

/* The id that NCCL gives to every child that ncclCommShrink makes of this communicator. Pure. */
uint64_t steer_shrink_id(uint64_t parent_id);

/*
 * Only for tests, with nothing else running: everything is forgotten, files removed. source: in place of the environment
 * (NULL: the real one); root: in place of this machine's ("": it); both are kept.
 */
void steer_reset(const struct params_source *source, const char *root);

#endif
