/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the controller of a schedule and the processes that it plays share: one mapping, made before the first fork.
 *
 * A process has actors, which are threads that do one order at a time. Only one actor of all processes runs at any time,
 * so a schedule is the same each time it is played. An actor gives the turn back when its order is done, and, once its
 * budget is used up, before any call that other processes can see (hooks.c). Time is the board's: it passes when the
 * controller says so.
 */
#ifndef TESTS_STANDIN_BOARD_H
#define TESTS_STANDIN_BOARD_H

#include "tuner_table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	BOARD_PROCESSES_MAX = 12,
	BOARD_ACTORS_MAX = 16,
	BOARD_CALLERS = 2, /* actors that live as long as the process; the others are worker threads of NCCL */
	BOARD_VARIABLES_MAX = 16,
	BOARD_VALUE_BYTES = 160,
	BOARD_BUS_ID_BYTES = 24,
	BOARD_PATH_BYTES = 64,
	BOARD_TEXT_BYTES = 96 * 1024,
	BOARD_LOG_BYTES = 8 * 1024,
};

enum board_op {
	BOARD_ASK_NET,  /* NCCL_NET, NCCL_COLLNET_ENABLE */
	BOARD_THREAD,   /* starts the actor `value` */
	BOARD_INIT,     /* the net plugin's init, devices, getProperties(0) */
	BOARD_DUMP,     /* NCCL_TOPO_DUMP_FILE */
	BOARD_TOPOLOGY, /* NCCL_TOPO_FILE, and reads it */
	BOARD_GRAPH,    /* NCCL_GRAPH_FILE, and reads it */
	BOARD_TUNER,    /* the tuner's init, and some questions */
	BOARD_PROTO,    /* NCCL_PROTO */
	BOARD_ALGO,     /* NCCL_ALGO */
	BOARD_FORK,     /* a data loader: a child that asks and calls what it must get nothing from */
	BOARD_END,      /* the worker thread ends */
	BOARD_EXIT,     /* the process ends by exit; value 1: by _exit */
};

struct board_order {
	enum board_op op;
	uint64_t comm_id;
	int value;
	unsigned rank_count, node_count;
	char bus_id[BOARD_BUS_ID_BYTES]; /* INIT: of the current CUDA device; "": none is */
};

struct board_answer {
	int result; /* NCCL's */
	int value;  /* FORK: calls that had an effect */
	bool errno_changed;
	bool waited;                  /* for more than a second */
	bool missing;                 /* the file cannot be read */
	char path[BOARD_PATH_BYTES];  /* TOPOLOGY, GRAPH: "": unset */
	uint32_t tuner_choices;       /* hash */
	struct tuner_answers answers; /* TUNER: where tables choose */
	size_t text_bytes;
	char text[BOARD_TEXT_BYTES];
};

enum board_state {
	BOARD_ABSENT,  /* or ended */
	BOARD_IDLE,    /* ready for an order */
	BOARD_RUNNING, /* it has the turn */
	BOARD_STOPPED, /* within an order */
	BOARD_BLOCKED, /* within an order, by another thread's mutex */
	BOARD_ASLEEP,  /* within an order, until wake_ns */
};

struct board_actor {
	_Atomic uint32_t turn; /* grows when it gets the turn */
	_Atomic uint32_t state;
	uint64_t wake_ns;
	uint32_t budget; /* calls until it gives the turn back */
	struct board_order order;
	struct board_answer answer;
};

enum board_kind {
	BOARD_WHOLE,  /* net, tuner and environment half */
	BOARD_NO_ENV, /* NCCL_NET_PLUGIN alone */
	BOARD_NO_PLUGIN,
	BOARD_OTHER_BUILD, /* another version of the library */
};

struct board_process {
	/* Set by the controller before the fork. */
	enum board_kind kind;
	int env_version, net_version, tuner_version;
	bool has_other_profiler; /* than the plugin */
	unsigned variable_count;
	char variables[BOARD_VARIABLES_MAX][BOARD_VALUE_BYTES]; /* NAME=value */
	/* Set by the process. */
	uint32_t log_bytes, warnings;
	char log[BOARD_LOG_BYTES];
	struct board_actor actors[BOARD_ACTORS_MAX];
};

struct board {
	_Atomic uint32_t bell; /* grows when an actor gives the turn back */
	uint64_t now_ns;       /* of CLOCK_MONOTONIC for actors */
	struct board_process processes[BOARD_PROCESSES_MAX];
};

/* NULL: no memory. */
struct board *board_make(void);
/* Waits until the word is not `seen` any more, or so many milliseconds. */
void board_wait(_Atomic uint32_t *word, uint32_t seen, unsigned milliseconds);
void board_wake(_Atomic uint32_t *word);

/* ---- hooks.c: in the processes ---- */

/* This thread is that actor from now on; NULL: none, whose calls go straight to the C library. */
void hooks_become(struct board *board, struct board_actor *actor);
/* Gives the turn back, and waits for the next. */
void hooks_give(enum board_state state);

/* ---- rank.c ---- */

/* Opens the driver that the processes have, before they are forked, with these GPUs. 0 or -1, the reason on stderr. */
int rank_open_driver(const char *path, const char (*bus_ids)[BOARD_BUS_ID_BYTES], unsigned count);
/* The rest of a forked process's life. library, other_build: handles of dlopen, from before the fork. */
_Noreturn void rank_run(struct board *board, unsigned process, void *library, void *other_build);

#endif
