/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with a measured machine and processes on it that call the plugin as NCCL does: each rank a process, its threads
 * take orders one at a time. Every function fails the running test when it cannot do its work.
 *
 * The machine has eight GPUs, NVML's 0 to 7, behind two switches, and a NIC on each switch: fake0 and fake1.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_HOST_H
#define TRIBUTARY_TESTS_UNIT_PLUGIN_STEER_HOST_H

#include "tributary/topology.h"
#include "unit/plan/machine_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HOST_RANKS = 8, HOST_THREADS = 3, HOST_TEXT_BYTES = 60000, HOST_INFO_BYTES = 3000, HOST_NAME_BYTES = 48 };

struct host_reply {
	int result;
	int warnings;
	uint64_t took_ns;
	uint64_t cpu_ns;            /* of the thread: what other programs do does not add to it */
	char info[HOST_INFO_BYTES]; /* all that was logged on this thread */
	char text[HOST_TEXT_BYTES];
};

struct host_rank {
	pid_t pid; /* 0: none */
	int orders[HOST_THREADS], replies[HOST_THREADS];
};

struct host {
	char root[64], shared[96], profile[96], dump[96];
	struct host_rank ranks[HOST_RANKS];
	struct host_reply reply; /* the last one */
};

enum host_order {
	HOST_INIT,       /* NCCL_NET is asked, then the net plugin's init of communicator `arg` */
	HOST_DEVICES,    /* the number of devices */
	HOST_PROPERTIES, /* of device `arg` */
	HOST_JOIN,       /* makeVDevice of both devices */
	HOST_ASK,        /* a variable: reply.text; result: 1, or 0 if there is none */
	HOST_TOPOLOGY,   /* NCCL_TOPO_FILE is asked and read: -ENODATA: none; -ENOENT: no such file */
	HOST_GRAPH,      /* NCCL_GRAPH_FILE is asked and read */
	HOST_TUNER,      /* the tuner's init of communicator `arg`; result: 1 a plan was published, 0 not, -ENOENT */
	HOST_TUNE,       /* the tuner's whole init; 0, or its error */
	HOST_GPU,        /* `arg` is current on this thread from now on; -1: none is */
	HOST_FORK,       /* a forked child asks for everything and exits; 0: it got the environment alone */
	HOST_LEAVE,      /* the thread ends (threads above 0) */
	HOST_FILES,      /* result: descriptors that the process has open on files that are not the test's */
	HOST_FAULT, /* with fault injection: HOST_FAULT_ARG(kind, nth); result: calls of that kind since the last one */
	HOST_EXIT,  /* by host_exit alone: the process ends by itself */
};

#define HOST_FAULT_ARG(kind, nth) ((int64_t)(kind) << 32 | (int64_t)(nth))

extern const struct machine_spec host_spec;
/* With bus ids (GPUs 0000:10:00.0 and on, NICs 0000:40:00.0), interfaces fake0 and on, AMD's CPUs. */
void host_machine(const struct machine_spec *spec, struct topology *ret);

/* cmocka setup and teardown: *state is the host, empty. */
int host_open(void **state);
int host_close(void **state);
/* From now on the profile has this GPU in MIG mode: for processes that are started later. -1: none is. */
void host_slice(struct host *host, int gpu);

/*
 * environment: "NAME=value" with '\n' between, on top of LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE; NULL: none more.
 * HOST_WITHOUT_ENVIRONMENT_HALF=1: NCCL has not loaded it.
 */
void host_start(struct host *host, unsigned rank, int gpu, unsigned local_size, unsigned world_size,
		const char *environment);
/* Ranks 0 to count - 1 with GPUs 0 to count - 1. */
void host_start_all(struct host *host, unsigned count, const char *environment);
void host_kill(struct host *host, unsigned rank);
/* Its process returns from main, without finalize. A leak checker would complain then: not in sanitized builds. */
void host_exit(struct host *host, unsigned rank);

void host_send(struct host *host, unsigned rank, unsigned thread, enum host_order order, int64_t arg);
/* The reply is in host->reply; returns its result. */
int host_wait(struct host *host, unsigned rank, unsigned thread);
bool host_is_waiting(struct host *host, unsigned rank, unsigned thread, int ms); /* no reply came in that time */
int host_do(struct host *host, unsigned rank, unsigned thread, enum host_order order, int64_t arg);
/* The answer to a variable, in host->reply.text; NULL: none. */
const char *host_ask(struct host *host, unsigned rank, unsigned thread, const char *name);

/* On thread 0 of those of the mask: init, and NCCL_TOPO_FILE once all have begun. */
void host_begin(struct host *host, unsigned ranks, int64_t comm);
/* Then NCCL_GRAPH_FILE, by all at once: the mask of GPUs of a plan, the same text for all; 0: no file for any. */
unsigned host_graphs(struct host *host, unsigned ranks);
/* Then NCCL_PROTO, and the tuner's init, which knows whether there is a plan. */
void host_end(struct host *host, unsigned ranks, int64_t comm, int published);
/* All of a communicator's initialisation, and nothing is left of it; the mask of what was planned. */
unsigned host_initialise(struct host *host, unsigned ranks, int64_t comm);
/* A communicator of these ranks gets no plan, and the log of one of them says why. */
void host_expect_none(struct host *host, unsigned ranks, int64_t comm, const char *why);
/* The GPUs of each channel; fails unless all channels have the same ones. 0: no channels. */
unsigned host_gpus(const char *text);
/* Files in the registry whose names begin so; 0 where there is no registry. */
unsigned host_count(struct host *host, const char *prefix);
/* "tributary-UID" of the shared folder. */
void host_registry(struct host *host, char path[static 160]);

#endif
