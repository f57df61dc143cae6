/*
 * What the processes of the stand-in share: one mapping, made before the first fork. A process of a job has threads, and
 * each of them takes orders from its slot, one at a time; places (a /dev/shm of their own) fork the processes.
 *
 * One controller at a time. An order is written, then its number; the answer is written, then the same number.
 */
#ifndef TESTS_STANDIN_BOARD_H
#define TESTS_STANDIN_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	BOARD_PLACES_MAX = 5,
	BOARD_PROCESSES_MAX = 20,
	BOARD_THREADS_MAX = 4, /* that initialise communicators; one more is NCCL's proxy thread */
	BOARD_SLOTS_OF_PROCESS = BOARD_THREADS_MAX + 1,
	BOARD_COMMS_MAX = 48,
	BOARD_ENVIRONMENT_MAX = 24,
	BOARD_VALUE_BYTES = 200,
	BOARD_TEXT_BYTES = 96 * 1024,
	BOARD_LOG_BYTES = 16 * 1024,
	BOARD_HANDLE_BYTES = 128,
	BOARD_BUS_ID_BYTES = 24,
};

enum board_op {
	BOARD_INIT,
	BOARD_DEVICES,
	BOARD_PROPERTIES,
	BOARD_JOIN,
	BOARD_READ_TOPOLOGY, /* as NCCL does: what the variable names now */
	BOARD_READ_GRAPH,
	BOARD_LISTEN,
	BOARD_CONNECT, /* one step of it */
	BOARD_CLOSE,
	BOARD_TUNER_INIT,
	BOARD_TUNER_ASK,
	BOARD_TUNER_END,
	BOARD_FINALIZE,
	BOARD_FORK_CHILD, /* a data loader: a child that touches the plugin and ends */
	BOARD_ENVIRONMENT, /* what the process would hand to a program that it starts: its NCCL_ and TRIBUTARY_ variables */
	BOARD_LEAVE,       /* the process ends by itself */
	BOARD_OP_COUNT
};

struct board_order {
	enum board_op op;
	unsigned comm;   /* place in the process' table of communicators */
	unsigned thread; /* whose communicator it is; the proxy thread also works for those of others */
	uint64_t comm_id;
	int device;                      /* PROPERTIES, LISTEN, CONNECT; TUNER_ASK: which question */
	int members[8], member_count;    /* JOIN */
	int rank_count, node_count;      /* TUNER_INIT */
	char bus_id[BOARD_BUS_ID_BYTES]; /* INIT: of the current CUDA device; "": none is */
	uint8_t handle[BOARD_HANDLE_BYTES];
};

struct board_answer {
	int result; /* NCCL's, or -1: the order made no sense */
	int value;  /* DEVICES: how many; JOIN: the new one; CONNECT: connected; PROPERTIES: members of the device */
	bool errno_changed;
	bool unset;   /* READ: the variable is not set */
	bool missing; /* READ: the file cannot be opened */
	uint64_t took_ns;
	int latency_us; /* PROPERTIES, truncated as NCCL does */
	int tuner_channels;
	unsigned tuner_refused; /* TUNER_ASK: entries that NCCL forbade and the tuner allowed */
	uint8_t handle[BOARD_HANDLE_BYTES];
	char name[64]; /* PROPERTIES: of the device; READ: the end of the path */
	size_t text_bytes;
	char text[BOARD_TEXT_BYTES];
};

struct board_slot {
	_Atomic uint32_t ordered, answered;
	struct board_order order;
	struct board_answer answer;
};

struct board_process {
	/* Set by the controller before the fork. */
	unsigned place;
	uid_t user; /* 0: as the tests */
	unsigned thread_count;
	int net_version, tuner_version; /* tuner 0: none or another's */
	unsigned environment_count;
	char environment[BOARD_ENVIRONMENT_MAX][BOARD_VALUE_BYTES]; /* NAME=value; NAME=: not set */
	char gpus[16][BOARD_BUS_ID_BYTES];                          /* that CUDA shows */
	unsigned gpu_count;
	bool no_driver;
	char plugin[256];
	/* Set by the place. */
	pid_t pid;
	_Atomic uint32_t dead; /* 1: and waited for */
	int status;
	/* Set by the process. */
	_Atomic uint32_t log_bytes;
	char log[BOARD_LOG_BYTES];
	struct board_slot slots[BOARD_SLOTS_OF_PROCESS];
};

enum board_place_op {
	BOARD_PLACE_FORK,
	BOARD_PLACE_WIPE,
	BOARD_PLACE_COUNT_FILES,
	BOARD_PLACE_FILL,
	BOARD_PLACE_HOSTILE,
	BOARD_PLACE_END
};

struct board_place {
	/* Set by the controller before it is made. */
	size_t shm_bytes; /* of its /dev/shm; 0: plenty */
	bool own_pids;    /* a PID namespace */
	bool shared;      /* the /dev/shm of place 0 */
	bool own_net; /* a network namespace, as another host has; without one it is a container on the tests' host */
	/* Orders. */
	_Atomic uint32_t ordered, answered;
	enum board_place_op op;
	unsigned argument; /* the process; which hostile thing; FILL: bytes that stay free */
	uint64_t seed;
	int result;
	pid_t pid;
};

struct board {
	_Atomic uint32_t bell;      /* counts answers and deaths */
	_Atomic uint64_t passed_ns; /* by so much the clocks of the processes are ahead */
	_Atomic uint64_t still_ns;  /* where these clocks stand still; 0: they go on */
	char driver[256];           /* libcuda.so.1 */
	struct board_place places[BOARD_PLACES_MAX];
	struct board_process processes[BOARD_PROCESSES_MAX];
};

/* The mapping; NULL: no memory. It stays until the process ends. */
struct board *board_make(void);
/* Wakes who waits for the word. */
void board_wake(_Atomic uint32_t *word);
/* Returns when *word is not `seen`, or after so long; spurious returns happen. */
void board_wait(_Atomic uint32_t *word, uint32_t seen, unsigned milliseconds);
void board_ring(struct board *board);

/* The life of a place, and of a process of a job in it; neither returns. */
_Noreturn void place_run(struct board *board, unsigned place);
_Noreturn void rank_run(struct board *board, unsigned process);

/* Things in a registry that no honest process put there; below /dev/shm, from the seed. Returns what it did. */
const char *hostile_plant(unsigned which, uint64_t seed);

#endif
