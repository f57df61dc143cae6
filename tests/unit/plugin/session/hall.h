/*
 * A host with a measured machine and processes on it that call the plugin as NCCL does: each rank a process, its lanes
 * threads that take orders one at a time. Every function fails the running test when it cannot do its work.
 *
 * The machine has eight GPUs, NVML's 0 to 7, behind two switches, and a NIC on each switch: fake0 and fake1.
 */
#ifndef TRIBUTARY_TESTS_UNIT_PLUGIN_SESSION_HALL_H
#define TRIBUTARY_TESTS_UNIT_PLUGIN_SESSION_HALL_H

#include "tributary/topology.h"
#include "unit/plan/box.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HALL_RANKS = 8, HALL_LANES = 3, HALL_TEXT_BYTES = 60000, HALL_INFO_BYTES = 3000 };

struct hall_reply {
	int result;
	int warnings;
	uint64_t took_ns;
	uint64_t cpu_ns;            /* of the thread: what other programs do does not add to it */
	char info[HALL_INFO_BYTES]; /* all that was said on this lane */
	char text[HALL_TEXT_BYTES];
};

struct hall_rank {
	pid_t pid; /* 0: none */
	int orders[HALL_LANES], replies[HALL_LANES];
};

struct hall {
	char root[64], shared[96], profile[96], dump[96];
	unsigned reading_ms; /* how long ranks that live have to read; of processes that are started from now on */
	struct hall_rank ranks[HALL_RANKS];
	struct hall_reply reply; /* the last one */
};

enum hall_order {
	HALL_BEGIN,      /* init of communicator `arg` */
	HALL_CHECK,      /* getProperties of device 0, right after init */
	HALL_PROPERTIES, /* of all devices, as in the topology phase */
	HALL_ONE,        /* of device `arg` */
	HALL_JOIN,       /* getProperties of all, makeVDevice of both devices, devices, getProperties of the new one */
	HALL_READ,       /* what NCCL_GRAPH_FILE has */
	HALL_TOPOLOGY,   /* what NCCL_TOPO_FILE has */
	HALL_CONNECT,    /* listen of communicator `arg` */
	HALL_END,        /* finalize of communicator `arg` */
	HALL_TUNER,      /* the tuner's init; result: 1 a plan was published, 0 not, -ENOENT */
	HALL_GPU,        /* `arg` is current on this lane from now on; -1: none is */
	HALL_FORK,       /* a forked child calls getProperties and exits; its result */
	HALL_LEAVE,      /* the thread ends (lanes above 0) */
	HALL_FAULT, /* with fault injection: HALL_FAULT_ARG(kind, nth); result: calls of that kind since the last one */
	HALL_TUNE,  /* the tuner's whole init; 0, or what it says */
	HALL_EXIT,  /* by hall_exit alone: the process ends by itself */
};

#define HALL_FAULT_ARG(kind, nth) ((int64_t)(kind) << 32 | (int64_t)(nth))

extern const struct box_spec hall_box;
/* With bus ids (GPUs 0000:10:00.0 and on, NICs 0000:40:00.0), interfaces fake0 and on, AMD's CPUs. */
void hall_machine(const struct box_spec *spec, struct topology *ret);

/* cmocka setup and teardown: *state is the hall, empty. */
int hall_open(void **state);
int hall_close(void **state);
/* From now on the profile says that this GPU is in MIG mode: for processes that are started later. -1: none is. */
void hall_slice(struct hall *hall, int gpu);

/* environment: "NAME=value" with '\n' between, on top of LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE; NULL: none more. */
void hall_start(struct hall *hall, unsigned rank, int gpu, unsigned local_size, unsigned world_size,
		const char *environment);
/* Ranks 0 to count - 1 with GPUs 0 to count - 1. */
void hall_start_all(struct hall *hall, unsigned count, const char *environment);
void hall_kill(struct hall *hall, unsigned rank);
/* Its process returns from main, without finalize. A leak checker would have its say then: not in sanitized builds. */
void hall_exit(struct hall *hall, unsigned rank);

void hall_send(struct hall *hall, unsigned rank, unsigned lane, enum hall_order order, int64_t arg);
/* The reply is in hall->reply; returns its result. */
int hall_wait(struct hall *hall, unsigned rank, unsigned lane);
bool hall_is_waiting(struct hall *hall, unsigned rank, unsigned lane, int ms); /* no reply came in that time */
int hall_do(struct hall *hall, unsigned rank, unsigned lane, enum hall_order order, int64_t arg);

/* Begin and check on lane 0 of those of the mask. */
void hall_begin(struct hall *hall, unsigned ranks, int64_t comm);
/* The topology phase on lane 0 of those of the mask, at once: they meet in it. */
void hall_phase(struct hall *hall, unsigned ranks);
/* The tuner's init of those of the mask; published: whether each knows of a plan. */
void hall_tuner(struct hall *hall, unsigned ranks, int64_t comm, int published);
/* All of a communicator's initialisation, and nothing is left of it; the mask of what was planned. */
unsigned hall_initialise(struct hall *hall, unsigned ranks, int64_t comm);
/* What they read now: the mask of GPUs of a plan, the same text for all; 0: the resting text for all. */
unsigned hall_read(struct hall *hall, unsigned ranks);
/* The GPUs of each channel; fails unless all channels have the same ones. 0: resting. */
unsigned hall_gpus(const char *text);
/* Files in the registry whose names begin so; 0 where there is no registry. */
unsigned hall_count(struct hall *hall, const char *prefix);
/* "tributary-UID" of the shared folder. */
void hall_registry(struct hall *hall, char path[static 160]);

#endif
