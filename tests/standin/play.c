/* SPDX-License-Identifier: Apache-2.0 */
#include "tables.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	HANG_MS = 60000,
	POLL_MS = 50,
	BLOCKED_MAX = 1000, /* turns one after the other that only met a locked mutex */
	CHOICES_MAX = PLAY_COMMS_MAX * PLAY_MEMBERS_MAX,
	FEW_CALLS = 60,
	LEAP_NS = 250000000,
};
#define START_NS UINT64_C(1000000000000)

/*
 * Threads of the played processes wait for their turn where LeakSanitizer cannot stop them; it ends the process then. What
 * it calls has a reserved name.
 */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return 1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static const char *const machines[PLAY_WORLDS] = { "single-root-4gpu", "nvlink-pairs-4gpu" };

/* ------------------------------------------------------------------------------------------------------------- places */

static void *library_open(const char *path)
{
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!library)
		fprintf(stderr, "standin: %s\n", path ? dlerror() : "TRIBUTARY_PLUGIN is not set");
	return library;
}

int play_open(struct play *play, const char *folder, const char *mutant)
{
	char path[512];
	int r;

	memset(play, 0, sizeof(*play));
	play->trace = runtime_setting("TEST_TRACE") != NULL;
	play->board = board_make();
	if (mutant)
		setenv("STANDIN_MUTANT", mutant, 1);
	world_library(mutant ? "libmutant.so" : "libother.so", path, sizeof(path));
	play->other_build = library_open(path);
	play->library = mutant ? play->other_build : library_open(runtime_setting("PLUGIN"));
	if (!play->board || !play->library || !play->other_build)
		return -ENOENT;
	tables_make(folder, &play->tables);
	r = places_begin();
	for (unsigned w = 0; w < PLAY_WORLDS && r == 0; w++) {
		world_make(machines[w], &play->worlds[w]);
		r = places_show_gpus(&play->worlds[w]);
		if (r == 0)
			world_measure(folder, machines[w], &play->worlds[w]);
		for (unsigned i = 0; i < PLAY_PLACES && r == 0; i++)
			r = place_make(i == PLAY_HOST_1, &play->places[w][i]);
	}
	return r;
}

void play_begin(struct play *play, unsigned world, uint64_t seed)
{
	char path[512];

	play->world = world;
	play->random = seed;
	play->process_count = play->comm_count = 0;
	memset(play->processes, 0, sizeof(play->processes));
	memset(play->comms, 0, sizeof(play->comms));
	memset(play->jobs, 0, sizeof(play->jobs));
	play->kill_at = play->stop_at = play->turns = play->idle_leaps = 0;
	play->calm = play->failed = play->has_foreigner = false;
	play->why[0] = '\0';
	play->board->now_ns = START_NS;
	for (unsigned i = 0; i < BOARD_PROCESSES_MAX; i++) {
		struct board_process *shared = &play->board->processes[i];

		memset(shared, 0, offsetof(struct board_process, log));
		for (unsigned k = 0; k < BOARD_ACTORS_MAX; k++)
			atomic_store(&shared->actors[k].state, BOARD_ABSENT);
	}
	for (unsigned i = 0; i < PLAY_PLACES; i++)
		place_wipe(&play->places[world][i]);
	world_library("libcuda.so.1", path, sizeof(path));
	if (rank_open_driver(path, (const char(*)[BOARD_BUS_ID_BYTES])play->worlds[world].bus_ids,
			     play->worlds[world].gpu_count) < 0)
		play_fail(play, "the driver cannot be opened");
}

void play_fail(struct play *play, const char *fmt, ...)
{
	va_list args;

	if (play->failed)
		return;
	play->failed = true;
	va_start(args, fmt);
	vsnprintf(play->why, sizeof(play->why), fmt, args);
	va_end(args);
}

/* -------------------------------------------------------------------------------------------------------------- turns */

static struct board_actor *actor_of(struct play *play, unsigned process, unsigned actor)
{
	return &play->board->processes[process].actors[actor];
}

static void process_dies(struct play *play, unsigned number)
{
	struct play_process *process = &play->processes[number];

	process->dead = true;
	process->net_lock = NULL;
	memset(process->records, 0, sizeof(process->records));
	for (unsigned i = 0; i < BOARD_ACTORS_MAX; i++)
		atomic_store(&actor_of(play, number, i)->state, BOARD_ABSENT);
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned m = 0; m < play->comms[c].member_count; m++) {
			struct play_member *member = &play->comms[c].members[m];

			if (member->process != number)
				continue;
			play->comms[c].hurt |= member->step != PLAY_DONE;
			member->step = PLAY_DONE;
			member->running = false;
		}
}

static void process_kill(struct play *play, unsigned number)
{
	kill(play->processes[number].pid, SIGKILL);
	waitpid(play->processes[number].pid, NULL, 0);
	process_dies(play, number);
}

/* Until the actor is in any other state. */
static void state_leave(struct play *play, unsigned process, unsigned actor, enum board_state state)
{
	struct board_actor *shared = actor_of(play, process, actor);
	uint64_t deadline_ns = 0;

	for (;;) {
		uint32_t bell = atomic_load(&play->board->bell);
		int status;

		if (atomic_load(&shared->state) != state)
			return;
		board_wait(&play->board->bell, bell, POLL_MS);
		if (atomic_load(&play->board->bell) != bell)
			continue;
		if (waitpid(play->processes[process].pid, &status, WNOHANG) > 0) {
			play_fail(play, "process %u ends (status %#x) within a call", process, (unsigned)status);
			process_dies(play, process);
			return;
		}
		if (!deadline_ns)
			deadline_ns = runtime_deadline_ns(HANG_MS);
		if (runtime_past(deadline_ns)) {
			play_fail(play, "process %u hangs in a call", process);
			return;
		}
	}
}

static uint32_t budget(struct play *play)
{
	if (play->calm || random_below(&play->random, 4))
		return UINT32_MAX;
	return (uint32_t)random_below(&play->random, FEW_CALLS);
}

static void turn(struct play *play, unsigned process, unsigned actor)
{
	struct board_actor *shared = actor_of(play, process, actor);

	shared->budget = budget(play);
	atomic_store(&shared->state, BOARD_RUNNING);
	atomic_fetch_add(&shared->turn, 1);
	board_wake(&shared->turn);
	state_leave(play, process, actor, BOARD_RUNNING);
	play->turns++;
	play->counts.turns++;
}

void play_fork(struct play *play)
{
	const unsigned number = play->process_count++;
	struct play_process *process = &play->processes[number];

	fflush(NULL);
	process->pid = fork();
	if (process->pid == 0) {
		if (place_enter(&play->places[play->world][process->place]) < 0)
			_exit(4);
		rank_run(play->board, number, play->library, play->other_build);
	}
	/* Of one that died as it began no other caller comes. */
	for (unsigned i = 0; i < BOARD_CALLERS && !process->dead; i++)
		state_leave(play, number, i, BOARD_ABSENT);
}

/* ---------------------------------------------------------------------------------------------------------------- steps */

static const enum board_op op_of[PLAY_DONE] = {
	[PLAY_ASK] = BOARD_ASK_NET,
	[PLAY_START] = BOARD_THREAD,
	[PLAY_INIT] = BOARD_INIT,
	[PLAY_FORK] = BOARD_FORK,
	[PLAY_DUMP] = BOARD_DUMP,
	[PLAY_TOPOLOGY] = BOARD_TOPOLOGY,
	[PLAY_TOPOLOGY_AGAIN] = BOARD_TOPOLOGY,
	[PLAY_GRAPH] = BOARD_GRAPH,
	[PLAY_GRAPHS] = BOARD_GRAPH,
	[PLAY_TUNER] = BOARD_TUNER,
	[PLAY_PROTO] = BOARD_PROTO,
	[PLAY_ALGO] = BOARD_ALGO,
	[PLAY_END] = BOARD_END,
};

static bool is_skipped(const struct play_comm *comm, const struct play_member *member)
{
	switch (member->step) {
	case PLAY_START:
		return !comm->in_workers;
	case PLAY_INIT:
		return comm->kind == PLAY_SHARED;
	case PLAY_FORK:
		return !comm->forks;
	case PLAY_DUMP:
	case PLAY_TOPOLOGY_AGAIN:
		return !comm->dumps;
	case PLAY_GRAPHS:
		return member->graphs >= comm->graph_count;
	default:
		return false;
	}
}

static void step_on(const struct play_comm *comm, struct play_member *member)
{
	if (member->step != PLAY_GRAPHS || member->graphs >= comm->graph_count)
		member->step++;
	while (member->step < PLAY_DONE && is_skipped(comm, member))
		member->step++;
}

/* Whether all ranks, or those of one host, are at that step or behind it. */
static bool have_reached(const struct play *play, const struct play_comm *comm, enum play_step step, int host)
{
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_process *process = &play->processes[comm->members[i].process];

		if ((host < 0 || process->host == (unsigned)host) &&
		    (comm->members[i].step < step || (process->dead && comm->hurt)))
			return false;
	}
	return true;
}

/* NCCL's exchanges among the ranks. */
static bool may_pass(const struct play *play, const struct play_comm *comm, const struct play_member *member)
{
	switch (member->step) {
	case PLAY_DUMP:
	case PLAY_TOPOLOGY:
		return have_reached(play, comm, PLAY_DUMP, -1);
	case PLAY_GRAPH:
		return have_reached(play, comm, PLAY_GRAPH, (int)play->processes[member->process].host);
	case PLAY_TUNER:
		return have_reached(play, comm, PLAY_TUNER, -1);
	case PLAY_END:
		return have_reached(play, comm, PLAY_END, -1);
	default:
		return true;
	}
}

static bool calls_from(const struct play_member *member, const struct play_member *other)
{
	return member->process == other->process && member->caller == other->caller;
}

/* What the calling thread has to finish before it begins with this communicator. */
static bool caller_is_free(const struct play *play, const struct play_comm *comm, const struct play_member *member)
{
	for (const struct play_comm *before = play->comms; before < comm; before++)
		for (unsigned i = 0; i < before->member_count; i++) {
			const struct play_member *other = &before->members[i];
			bool is_parent = comm->parent == (int)(before - play->comms);

			if (is_parent ? other->process == member->process && other->step != PLAY_DONE
				      : calls_from(member, other) &&
						other->step <= (before->non_blocking ? PLAY_START : PLAY_END))
				return false;
		}
	for (const struct play_member *other = comm->members; other < member; other++)
		if (calls_from(member, other) && other->step <= PLAY_START)
			return false;
	return true;
}

/* Children of what was never finished do not come to be. */
static bool is_orphan(const struct play *play, const struct play_comm *comm)
{
	const struct play_comm *parent = comm->parent < 0 || comm->kind == PLAY_NEW ? NULL : &play->comms[comm->parent];

	return parent && (parent->abandoned || parent->hurt || is_orphan(play, parent));
}

/* 0: all are at work. */
static unsigned worker_find(const struct play *play, unsigned process)
{
	for (unsigned i = BOARD_CALLERS; i < BOARD_ACTORS_MAX; i++)
		if (atomic_load(&play->board->processes[process].actors[i].state) == BOARD_ABSENT)
			return i;
	return 0;
}

static bool can_start(const struct play *play, const struct play_comm *comm, const struct play_member *member)
{
	const struct play_process *process = &play->processes[member->process];
	unsigned actor = member->step <= PLAY_START ? member->caller : member->actor;

	if (member->step == PLAY_DONE || member->running || process->dead || process->stopped)
		return false;
	if (member->step == PLAY_END)
		return comm->abandoned || may_pass(play, comm, member);
	if (comm->abandoned)
		return false;
	if (atomic_load(&play->board->processes[member->process].actors[actor].state) != BOARD_IDLE)
		return false;
	if (member->step == PLAY_ASK && !caller_is_free(play, comm, member))
		return false;
	if (member->step == PLAY_START && !worker_find(play, member->process))
		return false;
	if (member->step == PLAY_INIT && process->net_lock)
		return false;
	return may_pass(play, comm, member);
}

/* What the plugin must make of it. */
static void records_follow(struct play *play, const struct play_comm *comm, const struct play_member *member,
			   bool begins)
{
	uint64_t *record =
		&play->processes[member->process].records[member->step <= PLAY_START ? member->caller : member->actor];

	if (begins && member->step == PLAY_INIT)
		*record = comm->id;
	else if ((begins && member->step == PLAY_ASK) ||
		 (!begins && (member->step == PLAY_PROTO || member->step == PLAY_END)))
		*record = 0;
}

static void step_ends(struct play *play, struct play_comm *comm, struct play_member *member)
{
	struct play_process *process = &play->processes[member->process];

	member->running = false;
	if (process->net_lock == member)
		process->net_lock = NULL;
	if (play->failed || process->dead)
		return;
	if (member->step == PLAY_START)
		state_leave(play, member->process, member->actor, BOARD_ABSENT);
	if (member->step == PLAY_INIT)
		process->registered = !process->silent;
	if (member->step == PLAY_GRAPH)
		judge_evidence(play, comm, process->host, true);
	if (member->step != PLAY_END)
		judge_answer(play, comm, member);
	records_follow(play, comm, member, false);
	step_on(comm, member);
	if (comm->abandoned && member->step != PLAY_DONE)
		member->step = comm->in_workers && member->step > PLAY_START ? PLAY_END : PLAY_DONE;
}

static void go_on(struct play *play, struct play_comm *comm, struct play_member *member)
{
	const unsigned actor = member->step <= PLAY_START ? member->caller : member->actor;
	enum board_state state;

	turn(play, member->process, actor);
	state = atomic_load(&actor_of(play, member->process, actor)->state);
	if (play->trace)
		fprintf(stderr, "%5u: comm %u, process %u gpu %u, actor %u: step %d, state %d\n", play->turns,
			(unsigned)(comm - play->comms), member->process, member->gpu, actor, (int)member->step,
			(int)state);
	if (actor_of(play, member->process, actor)->answer.waited)
		play_fail(play, "process %u, step %d: a wait of more than a second", member->process,
			  (int)member->step);
	else if (state == BOARD_IDLE || state == BOARD_ABSENT)
		step_ends(play, comm, member);
}

static void abandon(struct play_comm *comm)
{
	comm->abandoned = true;
	for (unsigned i = 0; i < comm->member_count; i++) {
		struct play_member *member = &comm->members[i];

		if (!member->running && member->step != PLAY_DONE)
			member->step = comm->in_workers && member->step > PLAY_START ? PLAY_END : PLAY_DONE;
	}
}

static void begin(struct play *play, struct play_comm *comm, struct play_member *member)
{
	struct play_process *process = &play->processes[member->process];
	struct board_order *order;
	unsigned hosts = 0;

	if (member->step == PLAY_END && !comm->in_workers) {
		member->step = PLAY_DONE;
		return;
	}
	if (member->step == PLAY_START)
		member->actor = worker_find(play, member->process);
	order = &actor_of(play, member->process, member->step <= PLAY_START ? member->caller : member->actor)->order;
	if (member->step == PLAY_GRAPH)
		judge_evidence(play, comm, process->host, false);
	for (unsigned i = 0; i < comm->member_count; i++)
		hosts |= 1u << play->processes[comm->members[i].process].host;
	*order = (struct board_order){
		.op = op_of[member->step],
		.comm_id = comm->id,
		.value = (int)member->actor,
		.rank_count = comm->member_count,
		.node_count = (unsigned)__builtin_popcount(hosts),
	};
	snprintf(order->bus_id, sizeof(order->bus_id), "%s", play->worlds[play->world].bus_ids[member->gpu]);
	if (member->step == PLAY_INIT)
		process->net_lock = member;
	member->graphs += member->step == PLAY_GRAPH || member->step == PLAY_GRAPHS;
	records_follow(play, comm, member, true);
	member->running = comm->begun = true;
	comm->steps++;
	go_on(play, comm, member);
	if (comm->abandon_after && comm->steps == comm->abandon_after)
		abandon(comm);
}

/* ------------------------------------------------------------------------------------------------------------- choosing */

struct choices {
	unsigned count;
	struct play_comm *comms[CHOICES_MAX];
	struct play_member *members[CHOICES_MAX];
	unsigned sleeping; /* ranks that are not among the choices */
	uint64_t wake_ns;  /* the first of them */
	bool all_blocked, unfinished;
};

static void choice_add(struct choices *choices, struct play_comm *comm, struct play_member *member)
{
	choices->comms[choices->count] = comm;
	choices->members[choices->count++] = member;
}

static void choices_collect(struct play *play, struct choices *ret)
{
	*ret = (struct choices){ .wake_ns = UINT64_MAX, .all_blocked = true };
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned m = 0; m < play->comms[c].member_count; m++) {
			struct play_comm *comm = &play->comms[c];
			struct play_member *member = &comm->members[m];
			const struct board_actor *actor = actor_of(
				play, member->process, member->step <= PLAY_START ? member->caller : member->actor);
			const uint32_t state = atomic_load(&actor->state);

			ret->unfinished |= member->step != PLAY_DONE;
			if (member->running && !play->processes[member->process].stopped) {
				if (state == BOARD_ASLEEP && actor->wake_ns > play->board->now_ns) {
					ret->sleeping++;
					if (actor->wake_ns < ret->wake_ns)
						ret->wake_ns = actor->wake_ns;
					continue;
				}
				ret->all_blocked &= state == BOARD_BLOCKED;
				choice_add(ret, comm, member);
			} else if (can_start(play, comm, member)) {
				ret->all_blocked = false;
				choice_add(ret, comm, member);
			}
		}
}

static void time_passes(struct play *play, const struct choices *choices)
{
	play->board->now_ns = choices->wake_ns;
	if (!choices->count && play->idle_leaps++ > 4)
		play->board->now_ns += LEAP_NS;
	play->counts.waits++;
}

static void events(struct play *play)
{
	struct play_process *stops = &play->processes[play->stop_which];

	tables_change(play);
	if (play->kill_at && play->turns >= play->kill_at) {
		play->kill_at = 0;
		play->counts.kills++;
		if (!play->processes[play->kill_which].dead)
			process_kill(play, play->kill_which);
	}
	if (play->stop_at && play->turns >= play->stop_at) {
		play->stop_at = 0;
		stops->stopped = true;
	}
	if (stops->stopped && (!play->stop_turns || --play->stop_turns == 0))
		stops->stopped = false;
}

/* Nothing can go on: somebody stands still, or who the others wait for is dead. False: nobody knows why. */
static bool unstick(struct play *play)
{
	bool found = false;

	if (play->processes[play->stop_which].stopped) {
		play->processes[play->stop_which].stopped = false;
		return true;
	}
	for (unsigned c = 0; c < play->comm_count; c++) {
		struct play_comm *comm = &play->comms[c];

		if (comm->hurt && !comm->abandoned) {
			abandon(comm);
			found = true;
		}
	}
	return found;
}

/* Whole communicators that are over, or cannot begin. */
static void sort_out(struct play *play)
{
	for (unsigned c = 0; c < play->comm_count; c++) {
		struct play_comm *comm = &play->comms[c];

		if (!comm->begun && !comm->abandoned && is_orphan(play, comm))
			abandon(comm);
		if (comm->judged || !have_reached(play, comm, PLAY_DONE, -1) || comm->abandoned || comm->hurt)
			continue;
		comm->judged = true;
		judge_comm(play, comm);
	}
}

static void communicators_run(struct play *play)
{
	unsigned blocked = 0;

	while (!play->failed) {
		struct choices choices;
		unsigned which;

		events(play);
		sort_out(play);
		choices_collect(play, &choices);
		if (!choices.unfinished)
			break;
		blocked = choices.count && choices.all_blocked ? blocked + 1 : 0;
		if (blocked > BLOCKED_MAX) {
			play_fail(play, "threads wait for each other's mutexes");
		} else if (choices.count + choices.sleeping == 0) {
			if (!unstick(play))
				play_fail(play, "nothing goes on after %u turns", play->turns);
		} else {
			which = (unsigned)random_below(&play->random, choices.count + (choices.sleeping > 0));
			if (which == choices.count)
				time_passes(play, &choices);
			else if (choices.members[which]->running)
				go_on(play, choices.comms[which], choices.members[which]);
			else
				begin(play, choices.comms[which], choices.members[which]);
		}
	}
	sort_out(play);
}

static void communicators_show(const struct play *play)
{
	for (unsigned c = 0; c < play->comm_count; c++) {
		const struct play_comm *comm = &play->comms[c];

		fprintf(stderr, "communicator %u, kind %d of %d, id %016llx%s%s:", c, (int)comm->kind, comm->parent,
			(unsigned long long)comm->id, comm->abandoned ? ", given up" : "", comm->hurt ? ", hurt" : "");
		for (unsigned m = 0; m < comm->member_count; m++)
			fprintf(stderr, " process %u at %d%s", comm->members[m].process, (int)comm->members[m].step,
				comm->members[m].running ? " within" : "");
		fprintf(stderr, "\n");
	}
}

/* -------------------------------------------------------------------------------------------------------------- ends */

static bool any_record(const struct play *play)
{
	for (unsigned i = 0; i < play->process_count; i++)
		for (unsigned k = 0; k < BOARD_ACTORS_MAX; k++)
			if (play->processes[i].records[k])
				return true;
	return false;
}

static bool any_died(const struct play *play)
{
	for (unsigned i = 0; i < play->process_count; i++)
		if (play->processes[i].dead)
			return true;
	return false;
}

static void process_exit(struct play *play, unsigned number)
{
	struct play_process *process = &play->processes[number];
	struct board_actor *actor = actor_of(play, number, 0);
	int status = 0;

	actor->order = (struct board_order){ .op = BOARD_EXIT };
	atomic_fetch_add(&actor->turn, 1);
	board_wake(&actor->turn);
	if (waitpid(process->pid, &status, 0) != process->pid || status)
		play_fail(play, "process %u does not end as it should (status %#x)", number, (unsigned)status);
	process->dead = true;
}

/* Who comes next removes what the dead have left. */
static void sweep(struct play *play)
{
	const unsigned number = play->process_count;
	struct board_process *shared = &play->board->processes[number];
	struct board_actor *actor = actor_of(play, number, 0);

	if (number == BOARD_PROCESSES_MAX)
		return;
	shared->kind = BOARD_WHOLE;
	shared->net_version = 11;
	shared->variable_count = 1;
	snprintf(shared->variables[0], BOARD_VALUE_BYTES, "TRIBUTARY_PROFILE=%.120s",
		 play->worlds[play->world].profile);
	play_fork(play);
	actor->order = (struct board_order){ .op = BOARD_INIT, .comm_id = 1 };
	play->calm = true;
	turn(play, number, 0);
	process_exit(play, number);
}

void play_run(struct play *play)
{
	bool killed;

	communicators_run(play);
	if (play->trace)
		communicators_show(play);
	killed = any_died(play);
	if (!play->failed && !killed && !any_record(play))
		for (unsigned i = 0; i < PLAY_PLACES; i++)
			if (place_count(&play->places[play->world][i], true))
				play_fail(play,
					  "files of communicators are left in place %u, though none is in its init", i);
	for (unsigned i = 0; i < play->process_count && !play->failed; i++)
		if (!play->processes[i].dead)
			process_exit(play, i);
	if (play->has_foreigner)
		close(play->foreigner);
	if (!play->failed && (killed || play->has_foreigner))
		sweep(play);
	for (unsigned i = 0; i < PLAY_PLACES && !play->failed; i++)
		if ((!killed || i == play->processes[play->process_count - 1].place) &&
		    place_count(&play->places[play->world][i], false))
			play_fail(play, "%u files are left in place %u after all processes have ended",
				  place_count(&play->places[play->world][i], false), i);
}

void play_end(struct play *play)
{
	for (unsigned i = 0; i < play->process_count; i++)
		if (!play->processes[i].dead)
			process_kill(play, i);
}
