/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays what NCCL does on a few hosts: processes, and communicators that their threads initialise. Which thread takes the
 * next step, and how far it comes, is random. What the plugin answers is judged at the end of each communicator (judge.c).
 *
 * One controller at a time in a process.
 */
#ifndef TESTS_STANDIN_PLAY_H
#define TESTS_STANDIN_PLAY_H

#include "board.h"
#include "place.h"
#include "world.h"

#include "support/runtime.h"

enum {
	PLAY_WORLDS = 2,
	PLAY_PLACES = 3,
	PLAY_HOSTS = 3,
	PLAY_JOBS = 2,
	PLAY_SETS = 16, /* of the GPUs of a world */
	PLAY_COMMS_MAX = 16,
	PLAY_MEMBERS_MAX = 8,
	PLAY_WHY_BYTES = 400,
};

/* Who has told the processes how many they are: torchrun, mpirun, the user, or nobody. */
enum play_launcher { PLAY_TORCHRUN, PLAY_MPIRUN, PLAY_USER, PLAY_NOBODY };
enum play_place { PLAY_HOST_0, PLAY_CONTAINER, PLAY_HOST_1 };

struct play_process {
	/* What it is, by the schedule. */
	enum play_place place;
	unsigned host; /* as NCCL counts them */
	unsigned job;
	unsigned settings;           /* that must be equal for a plan */
	bool unwilling;              /* its settings or its kind speak against plans */
	bool shares_gpus;            /* NCCL_MULTI_RANK_GPU_ENABLE */
	bool ours;                   /* the network is */
	bool silent;                 /* it tells the others nothing: no plugin, or steering is off */
	bool is_helper;              /* no rank of its job, but with the variables of one */
	const char *graph;           /* NCCL_GRAPH_FILE of the user, NULL: unset */
	unsigned gpu_count, gpus[4]; /* its ranks: indices of the world's GPUs */
	uint64_t named;              /* the tuning table that TRIBUTARY_TUNING names and its tuner follows; 0: none */
	bool is_of_named;            /* its job names one */
	/* What it does. */
	pid_t pid;
	bool dead, stopped, registered;
	struct play_member *net_lock;       /* who is in NCCL's lock over the net plugin's init */
	uint64_t records[BOARD_ACTORS_MAX]; /* id whose record each actor has; 0: none */
};

enum play_step {
	PLAY_ASK,
	PLAY_START,
	PLAY_INIT,
	PLAY_FORK,
	PLAY_DUMP,
	PLAY_TOPOLOGY,
	PLAY_TOPOLOGY_AGAIN,
	PLAY_GRAPH, /* the first of them */
	PLAY_GRAPHS,
	PLAY_TUNER,
	PLAY_PROTO,
	PLAY_ALGO,
	PLAY_END,
	PLAY_DONE
};

/* A rank of a communicator. */
struct play_member {
	unsigned process, gpu, caller, actor; /* gpu: index of the world's; actor: that initialises */
	enum play_step step;
	unsigned graphs;          /* asked */
	bool running;             /* within the step */
	uint64_t graph, topology; /* hashes of what it read; 0: it was answered no file of the plugin */
	uint32_t tuner;           /* of its choices */
	struct tuner_answers answers;
	bool refused; /* the tuner's init failed */
};

enum play_kind { PLAY_NEW, PLAY_SPLIT, PLAY_SHARED, PLAY_SHRINK };

struct play_comm {
	/* By the schedule. */
	uint64_t id;
	enum play_kind kind;
	int parent; /* -1: none */
	unsigned job;
	bool in_workers, non_blocking, dumps, forks;
	unsigned graph_count, caller;
	unsigned abandon_after; /* so many steps; 0: never */
	unsigned member_count;
	struct play_member members[PLAY_MEMBERS_MAX];
	/* What becomes of it. */
	unsigned steps;
	bool begun, abandoned, hurt, judged; /* hurt: a member has died */
	struct play_plan {
		bool is_known, is_decided; /* judged at the first question; again at the first answer */
		bool is_due;               /* by what the plugin can know at both */
		uint64_t graph;            /* what all ranks read; 0: none */
	} plans[PLAY_HOSTS];
};

/* The plan that a communicator has where nothing disturbs it. */
struct play_reference {
	bool is_known;
	uint64_t graph;
};

struct play_counts {
	uint64_t schedules, communicators, due, planned, given_up, kills, waits, turns, followed, refused;
};

/* tables.h. */
enum play_tables_kind {
	PLAY_TABLES_NONE,
	PLAY_TABLES_SOME,
	PLAY_TABLES_OTHERS,
	PLAY_TABLES_CHANGING,
	PLAY_TABLES_NAMED, /* for one that is named */
	PLAY_TABLES_KINDS
};
struct play_tables {
	char folders[PLAY_TABLES_KINDS][WORLD_PATH_BYTES], here[WORLD_PATH_BYTES + 8], gone[WORLD_PATH_BYTES + 8];
	uint64_t hashes[2][9][4]; /* of version, ranks and hosts */
	uint64_t random;
	unsigned change_at;
	bool is_away;
	/* Of the job whose processes are made. */
	bool are_alike, is_named;
	unsigned odd, odd_host, ranks, hosts; /* odd: without the named table; UINT32_MAX: none */
	int old_tuner;                        /* its version, 3 or 4; 0: as the schedule has it */
};

struct play {
	struct board *board;
	struct play_tables tables;
	struct world worlds[PLAY_WORLDS];
	struct place places[PLAY_WORLDS][PLAY_PLACES];
	void *library, *other_build;
	uint64_t random;
	unsigned world;
	bool calm;  /* every step in one go */
	bool trace; /* to stderr */
	struct play_process processes[BOARD_PROCESSES_MAX];
	unsigned process_count;
	struct play_comm comms[PLAY_COMMS_MAX];
	unsigned comm_count;
	struct play_job {
		enum play_launcher launcher;
		bool is_whole; /* on one host, and known to be */
	} jobs[PLAY_JOBS];
	/* When, in turns; 0: never. Which process is killed, or stands still for a while. */
	unsigned kill_at, kill_which, stop_at, stop_which, stop_turns;
	bool has_foreigner; /* in PLAY_HOST_0 */
	int foreigner;
	unsigned turns, idle_leaps;
	bool failed;
	char why[PLAY_WHY_BYTES];
	struct play_reference references[PLAY_WORLDS][PLAY_SETS][2][2]; /* whole job; network ours */
	struct play_counts counts;
};

/* Once. -errno: namespaces cannot be made. mutant: a wrong plugin, NULL: the one that is tested. */
int play_open(struct play *play, const char *folder, const char *mutant);
/* Everything is as if nothing had been. */
void play_begin(struct play *play, unsigned world, uint64_t seed);
/* The next process, whose fields and whose board fields are filled in. */
void play_fork(struct play *play);
/* All communicators, and then all processes end. */
void play_run(struct play *play);
/* Ends what is left of it. */
void play_end(struct play *play);

__attribute__((format(printf, 2, 3))) void play_fail(struct play *play, const char *fmt, ...);

/* ---- judge.c ---- */

/* Whether there must be a plan: before the first local rank asks for a graph, and again when the first one has its answer. */
void judge_evidence(struct play *play, struct play_comm *comm, unsigned host, bool is_decided);
/* The answer of a call that has ended. */
void judge_answer(struct play *play, const struct play_comm *comm, struct play_member *member);
/* All its ranks are through. */
void judge_comm(struct play *play, struct play_comm *comm);
/* The schedule is over: its plans are those that a calm schedule has. It begins and plays these. */
void judge_plans(struct play *play);

/* ---- schedule.c ---- */

/* Begins, plays and judges the schedule of this seed. */
void schedule_run(struct play *play, uint64_t seed);
/* One communicator of these GPUs on one host, calmly. */
void schedule_calm(struct play *play, unsigned world, unsigned gpus, bool is_whole, bool ours);

#endif
