/*
 * One run of the stand-in: processes of jobs on simulated hosts, the communicators they make, and who may take the next
 * step. The controller is the test program's only thread; everything random comes from the seed.
 *
 * A communicator's ranks go through the steps of order.h. After each step the controller picks, at random, who goes on:
 * usually one rank, sometimes several at once. What a rank reads is judged when it reads it, and what all of them read
 * when NCCL would compare it (model.h). Failures are counted and said, never asserted here.
 */
#ifndef TESTS_STANDIN_PLAY_H
#define TESTS_STANDIN_PLAY_H

#include "board.h"
#include "model.h"
#include "order.h"
#include "support/runtime.h"
#include "world.h"

enum { PLAY_MEMBERS_MAX = 32, PLAY_HOSTS_MAX = 4, PLAY_THREAD_QUEUE_MAX = BOARD_COMMS_MAX, PLAY_EXTRA_MAX = 8 };

enum play_state {
	PLAY_ABSENT, /* never comes */
	PLAY_RUNS,
	PLAY_ORDERED, /* in a call of the plugin */
	PLAY_WAITS,   /* for others */
	PLAY_READY,   /* init is over */
	PLAY_ENDED,   /* finalized */
	PLAY_FAILED,  /* init was given up, and finalized */
	PLAY_DEAD,
};

struct play_member {
	unsigned process, thread;
	int gpu; /* of the world; below 0: none is current */
	enum play_state state;
	enum order_case program;
	size_t at;                     /* step */
	size_t reached;                /* the step at which init was given up */
	unsigned sub;                  /* within a step that takes several orders */
	bool has_context, gpu_missing; /* from the plugin's topology file */
	int linked;                    /* CONNECT: 1 listens, 2 connects */
	float search_latency_us;
	char *graph_text; /* what it read, NULL: nothing */
	size_t graph_bytes;
	struct model_graph graphs[MODEL_GRAPH_COUNT]; /* ring and tree always; chain and direct with collnet */
	int answers[4];                               /* of the tuner */
	uint64_t took_ns;                             /* in the plugin, until the graph file is read */
	char trace[512];                              /* in the words of order-*.txt */
};

/* What became of a communicator on one host, and on all. */
enum play_verdict { PLAY_NONE, PLAY_REST, PLAY_PLAN, PLAY_MIXED_HOSTS, PLAY_FAIL, PLAY_GIVEN_UP };

struct play_comm {
	uint64_t id;
	int parent; /* -1: none */
	bool shared;
	enum play_verdict verdict, on_host[PLAY_HOSTS_MAX];
	bool broken;           /* a member is gone: the others give up */
	bool give_up_late;     /* NCCL fails after the topology phase, before the graph file */
	bool given_up_quietly; /* nobody calls finalize for it when it is given up */
	unsigned member_count;
	struct play_member members[PLAY_MEMBERS_MAX];
};

/* How a process is started. */
struct play_launch {
	unsigned place;
	int host, job;                                /* host: as NCCL sees it */
	int rank, world_size, local_rank, local_size; /* local_size 0: not told */
	int net_version, tuner_version;               /* 0: 12 and 6; tuner -1: none */
	unsigned thread_count;                        /* 0: 1 */
	uid_t user;
	bool no_driver;
	const char *profile; /* NULL: the world's; "": none */
	const char *extra[PLAY_EXTRA_MAX];
};

struct play_process {
	bool alive, devices_known, fused, fuses, oob_chosen;
	int host, device_count, physical_count, plugin_owner, net_owner; /* owner: comm × members + member; -1 */
	bool proxy_ordered, user_topology, oob, dump, eager, collnet;
	unsigned proxy_asked;
	int cross_nic, net_version, tuner_version, job;
	char topology_name[64];
};

struct play_counts {
	unsigned communicators, planned, rested, mixed_hosts, given_up, failures, kills, steps, hosts_planned;
	uint64_t slowest_init_ns; /* in the plugin, up to the graph file */
	uint64_t slowest_step_ns;
};

struct play {
	struct board *board;
	struct random random;
	struct order order;
	const struct world *world;
	char plugin[256];
	bool tainted; /* somebody has put things into a registry since it was emptied */
	bool quiet;   /* failures are counted, not said */
	bool wants_plan_text;
	unsigned hang_ms;          /* a call that takes longer hangs */
	unsigned burst;            /* of 100 steps, how many are taken by several ranks at once */
	unsigned proxy;            /* of 100 steps, after how many NCCL's proxy thread asks for something, too */
	unsigned kill_after_steps; /* 0: nobody is killed */
	unsigned kill_process;
	bool kill_inside; /* while it is in a call */
	unsigned process_count, comm_count;
	struct play_process processes[BOARD_PROCESSES_MAX];
	struct play_comm comms[BOARD_COMMS_MAX];
	struct play_counts counts;
	char failure[512]; /* the first since play_reset; "": none */
};

/* Places are made once, for many runs; 0 or -errno (no namespaces here). */
int play_open(struct play *play, const struct board_place *places, unsigned place_count, const char *plugin);
void play_close(struct play *play);
/* Ends what runs, empties every /dev/shm if wanted, and begins anew. */
void play_reset(struct play *play, const struct world *world, const char *order_version, uint64_t seed, bool wipe);

unsigned play_process(struct play *play, const struct play_launch *launch);
/* count processes of one job on one host, ranks first_rank, ...; launch says the rest. Returns the first's number. */
unsigned play_processes(struct play *play, struct play_launch launch, unsigned count, int first_rank);

/*
 * A communicator. The members come with play_join, in order of rank; GPUs are those of the world. They run when play_run
 * is called. parent: its members must be ready.
 */
unsigned play_comm(struct play *play, int parent, bool shared);
struct play_member *play_join(struct play *play, unsigned comm, unsigned process, unsigned thread, int gpu);
/* Process i of the first one's row has GPU i. */
unsigned play_comm_of(struct play *play, unsigned first_process, const int *locals, unsigned count);

/* Until nobody can go on. */
void play_run(struct play *play);
void play_kill(struct play *play, unsigned process);
/* In all processes; nobody waits. */
void play_pass_time(struct play *play, unsigned milliseconds);
/* Holds the clocks of all processes where they are; or lets them go on, from the real time. */
void play_stop_time(struct play *play, bool stop);
/*
 * The clocks go on, and no thread of a process runs or waits for a processor or a disk: one that does is slow, and waits for
 * no time to pass.
 */
bool play_only_waits(const struct play *play);
/* Those that wait for ranks that never come are told to give up; play_run then lets them. */
void play_give_up(struct play *play, unsigned comm);
/* finalize, when all have init behind them. */
void play_end(struct play *play, unsigned comm);
/* One order to an idle thread, and its answer. */
const struct board_answer *play_order(struct play *play, unsigned process, unsigned thread,
				      const struct board_order *order);
int play_place_order(struct play *play, unsigned place, enum board_place_op op, unsigned argument);

void play_fail(struct play *play, const struct play_comm *comm, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* What the plugin said in a process; NUL-terminated, in a buffer of its own. */
const char *play_log(const struct play *play, unsigned process);

/* ---- play_steps.c ---- */

/* How many hosts a communicator has. */
int play_host_count(const struct play *play, const struct play_comm *comm);

enum play_can { PLAY_CAN_NOT, PLAY_CAN_ORDER, PLAY_CAN_PASS };
/* What the member's next step needs: an order to its thread (filled in), nothing, or that others come first. */
enum play_can play_next(const struct play *play, unsigned comm, unsigned member, struct board_order *ret);
/* The next step, when it needs no order. */
void play_pass(struct play *play, unsigned comm, unsigned member);
void play_answered(struct play *play, unsigned comm, unsigned member, const struct board_order *order,
		   const struct board_answer *answer);
/* Which slot of its process a member's next order goes to: connections are made in NCCL's proxy thread. */
unsigned play_slot(const struct play *play, const struct play_member *member);
void play_member_gives_up(struct play *play, unsigned comm, unsigned member);

/* ---- play_judge.c ---- */

/* The GPUs that the communicator has on the member's host, as its ranks see them. */
void play_host_describe(const struct play *play, const struct play_comm *comm, const struct play_member *m,
			struct model_host *ret);
/* When all have read: its verdict. */
void play_judge(struct play *play, struct play_comm *comm);
bool play_is_what_was_given_up(const struct play *play, const struct play_comm *comm, const struct play_member *of);

/* ---- trace.c ---- */

/* One more word in what the plugin has seen of the rank. */
void play_trace(struct play_member *member, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An order and its answer, in the words of order-*.txt. */
void play_trace_order(struct play_member *member, enum order_step step, const struct board_order *order,
		      const struct board_answer *answer);

#endif
