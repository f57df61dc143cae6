/*
 * Handing the plan of each communicator to NCCL: the topology file once, and for each communicator whose local GPUs are
 * known for certain a graph file, present from the topology phase's getProperties until that phase is over.
 *
 * All state is in session.c and in the registry (session/registry.h). Threads: any. No call fails for want of a plan:
 * without one NCCL searches by itself. docs/session.md has the states, and what happens when what.
 */
#ifndef TRIBUTARY_PLUGIN_SESSION_H
#define TRIBUTARY_PLUGIN_SESSION_H

#include "tributary/plan.h"
#include "tributary/predict.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct params_source;
struct session_patience;

/* From init of version 11 on, on the thread that initialises the communicator, its CUDA device current. */
void session_begin(uint64_t comm_id);
/* From init up to version 10: the topology file alone. */
void session_begin_process(void);
/*
 * From getProperties, which may come at any time, from any thread. -EIO, logged: the other processes of this communicator
 * use a plan that this one cannot have; going on would hang.
 */
int session_properties(int device);
/* After makeVDevice and devices: how devices are numbered may have changed. Errors as session_properties. */
int session_devices(void);
/* From listen and connect: unless it is the thread that initialises it, that communicator's topology phase is over. */
void session_connects(uint64_t comm_id);
/* From finalize. */
void session_end(uint64_t comm_id);

/* What the tuner may know of a communicator. */
struct session_facts {
	bool published; /* NCCL has read this plan, on this host */
	struct plan_set set;
	int sm; /* the lowest */
	size_t local_gpu_count;
};
/*
 * From the tuner's init, which also ends the topology phase. comm_id 0: this thread's last communicator. -ENOENT: nothing
 * is known of it.
 */
int session_tuner(uint64_t comm_id, struct session_facts *ret);

/*
 * Only for tests, with nothing else running: everything is forgotten, files removed, the environment put back. source:
 * in place of the environment (NULL: the real one); root: in place of this machine's ("": it); both are kept.
 * patience: in place of the real one, NULL.
 */
void session_reset(const struct params_source *source, const char *root, const struct session_patience *patience);

#endif
