/* SPDX-License-Identifier: Apache-2.0 */
/* What a schedule is made of, by its seed. */
#include "tables.h"

#include "plugin/steer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Something that one process of a job has and the others have not. */
enum oddity {
	ODD_NO_PLUGIN,
	ODD_NO_ENV,
	ODD_BUILD,
	ODD_TOPOLOGY_ONLY,
	ODD_OFF,
	ODD_GRAPH,
	ODD_TOPOLOGY,
	ODD_P2P,
	ODD_NO_SHM,
	ODD_NO_PROFILE,
	ODD_SHARES_GPUS,
	ODD_COUNT,
	ODD_NONE = ODD_COUNT
};

struct job {
	unsigned number;
	enum play_launcher launcher;
	unsigned gpus[PLAY_PLACES]; /* in each place, as bits */
	unsigned gpus_each;         /* of a process */
	unsigned elsewhere;         /* processes on hosts that are not played */
	unsigned world_size;        /* processes */
	bool ours, two_host_ids;
	int env_version, net_version, tuner_version;
	enum oddity odd;
	unsigned odd_which;
};

static unsigned below(struct play *play, unsigned bound)
{
	return (unsigned)random_below(&play->random, bound);
}

static bool one_in(struct play *play, unsigned times)
{
	return below(play, times) == 0;
}

/* ------------------------------------------------------------------------------------------------------------ processes */

__attribute__((format(printf, 2, 3))) static void set(struct board_process *shared, const char *fmt, ...)
{
	va_list args;

	if (shared->variable_count == BOARD_VARIABLES_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(shared->variables[shared->variable_count++], BOARD_VALUE_BYTES, fmt, args);
	va_end(args);
}

static void launcher_set(const struct job *job, struct board_process *shared, unsigned rank, unsigned size,
			 unsigned place)
{
	switch (job->launcher) {
	case PLAY_TORCHRUN:
		set(shared, "LOCAL_WORLD_SIZE=%u", size);
		set(shared, "LOCAL_RANK=%u", rank);
		set(shared, "WORLD_SIZE=%u", job->world_size);
		set(shared, "MASTER_PORT=%u", 29500 + job->number);
		set(shared, "GROUP_RANK=%u", place);
		break;
	case PLAY_MPIRUN:
		set(shared, "OMPI_COMM_WORLD_LOCAL_SIZE=%u", size);
		set(shared, "OMPI_COMM_WORLD_LOCAL_RANK=%u", rank);
		set(shared, "OMPI_COMM_WORLD_SIZE=%u", job->world_size);
		set(shared, "PMIX_NAMESPACE=job-%u", job->number);
		break;
	case PLAY_USER:
		set(shared, "TRIBUTARY_LOCAL_PROCESSES=%u", size);
		break;
	case PLAY_NOBODY:
		break;
	}
}

static void oddity_set(enum oddity odd, struct play_process *process, struct board_process *shared)
{
	static const char *const variables[ODD_COUNT] = {
		[ODD_TOPOLOGY_ONLY] = "TRIBUTARY_STEER=topology",
		[ODD_OFF] = "TRIBUTARY_STEER=off",
		[ODD_GRAPH] = "NCCL_GRAPH_FILE=/proc/version",
		[ODD_TOPOLOGY] = "NCCL_TOPO_FILE=/proc/version",
		[ODD_P2P] = "NCCL_P2P_LEVEL=PXB",
		[ODD_NO_SHM] = "NCCL_SHM_DISABLE=1",
		[ODD_NO_PROFILE] = "TRIBUTARY_PROFILE=/nowhere",
		[ODD_SHARES_GPUS] = "NCCL_MULTI_RANK_GPU_ENABLE=1",
	};

	if (variables[odd])
		set(shared, "%s", variables[odd]);
	process->unwilling |= odd != ODD_BUILD && odd != ODD_P2P && odd != ODD_SHARES_GPUS;
	process->settings = odd == ODD_BUILD || odd == ODD_P2P ? 1 + (unsigned)odd : 0;
	process->shares_gpus = odd == ODD_SHARES_GPUS;
	process->silent = odd == ODD_NO_PLUGIN || odd == ODD_NO_ENV || odd == ODD_OFF || odd == ODD_TOPOLOGY ||
			  odd == ODD_NO_PROFILE;
	process->graph = odd == ODD_GRAPH ? "/proc/version" : NULL;
	shared->kind = odd == ODD_NO_PLUGIN ? BOARD_NO_PLUGIN
		       : odd == ODD_NO_ENV  ? BOARD_NO_ENV
		       : odd == ODD_BUILD   ? BOARD_OTHER_BUILD
					    : BOARD_WHOLE;
}

/* The next process, with the GPUs of these bits. */
static void process_add(struct play *play, const struct job *job, enum play_place place, unsigned gpus, unsigned rank,
			unsigned size)
{
	struct play_process *process = &play->processes[play->process_count];
	struct board_process *shared = &play->board->processes[play->process_count];

	process->place = place;
	process->host = place == PLAY_HOST_1 ? 1 : 0;
	process->job = job->number;
	process->ours = job->ours;
	for (unsigned gpu = 0; gpu < 4; gpu++)
		if (gpus & 1u << gpu)
			process->gpus[process->gpu_count++] = gpu;
	shared->env_version = job->env_version;
	shared->net_version = job->net_version;
	shared->tuner_version = job->tuner_version;
	set(shared, "TRIBUTARY_NET=%s", job->ours ? "tcp" : "off");
	set(shared, "TRIBUTARY_PROFILE=%s", play->worlds[play->world].profile);
	if (job->two_host_ids) {
		process->host = rank < size / 2 ? 0 : 2;
		set(shared, "NCCL_HOSTID=host-%u", process->host);
	}
	launcher_set(job, shared, rank, size, place);
	tables_give(play, play->process_count, shared);
	if (job->odd != ODD_NONE && job->odd_which == play->process_count)
		oddity_set(job->odd, process, shared);
	play_fork(play);
}

static unsigned processes_in(const struct job *job, unsigned place)
{
	return ((unsigned)__builtin_popcount(job->gpus[place]) + job->gpus_each - 1) / job->gpus_each;
}

static void processes_add(struct play *play, struct job *job)
{
	struct play_job *known = &play->jobs[job->number];
	unsigned places = 0, ranks = 0;

	job->world_size = job->elsewhere;
	for (unsigned place = 0; place < PLAY_PLACES; place++) {
		job->world_size += processes_in(job, place);
		places += job->gpus[place] != 0;
		ranks += (unsigned)__builtin_popcount(job->gpus[place]);
	}
	if (job->odd != ODD_NONE)
		job->odd_which = play->process_count + below(play, job->world_size - job->elsewhere);
	tables_choose(play, job->number, ranks, job->two_host_ids || job->gpus[PLAY_HOST_1] ? 2 : 1,
		      job->world_size - job->elsewhere);
	for (unsigned place = 0; place < PLAY_PLACES; place++) {
		unsigned left = job->gpus[place], size = processes_in(job, place);

		for (unsigned rank = 0; rank < size; rank++) {
			unsigned gpus = 0;

			for (unsigned i = 0; i < job->gpus_each && left; i++) {
				gpus |= left & (0u - left);
				left &= left - 1;
			}
			process_add(play, job, (enum play_place)place, gpus, rank, size);
		}
	}
	known->launcher = job->launcher;
	known->is_whole = (job->launcher == PLAY_TORCHRUN || job->launcher == PLAY_MPIRUN) && places == 1 &&
			  !job->elsewhere && (!job->two_host_ids || job->world_size < 2);
}

/* --------------------------------------------------------------------------------------------------------- communicators */

static struct play_comm *comm_add(struct play *play, unsigned job)
{
	struct play_comm *comm = &play->comms[play->comm_count++];

	comm->id = random_next(&play->random);
	comm->job = job;
	comm->parent = -1;
	comm->graph_count = 2 + below(play, 3);
	comm->dumps = one_in(play, 6);
	comm->forks = one_in(play, 40);
	comm->caller = one_in(play, 5);
	return comm;
}

static void member_add(struct play_comm *comm, unsigned process, unsigned gpu)
{
	struct play_member *member = &comm->members[comm->member_count];

	if (comm->member_count == PLAY_MEMBERS_MAX)
		return;
	for (unsigned i = 0; i < comm->member_count; i++)
		if (comm->members[i].process == process) /* one thread cannot wait for itself */
			comm->in_workers = true;
	*member = (struct play_member){ .process = process, .gpu = gpu };
	comm->member_count++;
}

/* The threads that do it. Without `in_workers` the calling one initialises. */
static void threads_choose(struct play *play, struct play_comm *comm)
{
	comm->in_workers = comm->in_workers || one_in(play, 4);
	comm->non_blocking = comm->in_workers && one_in(play, 3);
	for (unsigned i = 0; i < comm->member_count; i++)
		comm->members[i].caller = comm->members[i].actor = comm->caller;
}

static struct play_comm *comm_of_job(struct play *play, unsigned job)
{
	struct play_comm *comm = comm_add(play, job);

	for (unsigned p = 0; p < play->process_count; p++)
		for (unsigned i = 0; i < play->processes[p].gpu_count; i++)
			if (play->processes[p].job == job && !play->processes[p].is_helper)
				member_add(comm, p, play->processes[p].gpus[i]);
	threads_choose(play, comm);
	return comm;
}

/* Those of the parent for which keep has a bit. */
static void comm_of_parent(struct play *play, enum play_kind kind, unsigned parent, unsigned keep)
{
	struct play_comm *comm = comm_add(play, play->comms[parent].job);
	const struct play_comm *of = &play->comms[parent];

	comm->kind = kind;
	comm->parent = (int)parent;
	for (unsigned i = 0; i < of->member_count; i++)
		if (keep & 1u << i)
			member_add(comm, of->members[i].process, of->members[i].gpu);
	if (kind == PLAY_SHRINK)
		comm->id = steer_shrink_id(of->id);
	threads_choose(play, comm);
}

/* Of two children of a communicator without init, shrunk at the same time, even the plugin cannot know that they are two. */
static bool is_shrunk_unheard(const struct play *play, unsigned parent)
{
	bool found = false;

	for (unsigned c = 0; c < play->comm_count; c++)
		found |= play->comms[c].kind == PLAY_SHRINK && play->comms[c].parent == (int)parent;
	return found && play->comms[parent].kind == PLAY_SHARED;
}

static void comms_add(struct play *play, unsigned count)
{
	for (unsigned i = 0; i < count && play->comm_count + 2 < PLAY_COMMS_MAX; i++) {
		const unsigned parent = below(play, play->comm_count), kind = below(play, 8);
		const unsigned all = (1u << play->comms[parent].member_count) - 1;
		unsigned keep = one_in(play, 3) ? all : 1 + below(play, all);

		if (kind < 3) {
			comm_of_parent(play, PLAY_SPLIT, parent, keep);
			if (keep != all && one_in(play, 2)) /* the other colour */
				comm_of_parent(play, PLAY_SPLIT, parent, all & ~keep);
		} else if (kind < 5) {
			comm_of_parent(play, PLAY_SHARED, parent, keep);
		} else if (kind == 5 && keep != all && !is_shrunk_unheard(play, parent)) {
			comm_of_parent(play, PLAY_SHRINK, parent, keep);
			if (one_in(play, 2) && play->comms[parent].kind != PLAY_SHARED)
				comm_of_parent(play, PLAY_SHRINK, parent, all & ~keep);
		} else if (kind == 6 && play->comms[parent].kind == PLAY_NEW) { /* NCCL_COMM_ID gives all the same id */
			comm_of_parent(play, PLAY_NEW, parent, all);
			play->comms[play->comm_count - 1].id = play->comms[parent].id;
		} else {
			comm_of_job(play, 0);
		}
	}
}

/* A process that a rank has started, and that has a communicator of its own. */
static void helper_add(struct play *play, const struct job *job)
{
	const unsigned of = below(play, play->process_count), number = play->process_count;
	struct job like = *job;
	struct play_comm *comm;

	if (play->processes[of].unwilling || play->processes[of].place != PLAY_HOST_0 || job->odd != ODD_NONE)
		return;
	memcpy(&play->board->processes[number], &play->board->processes[of], offsetof(struct board_process, log_bytes));
	play->processes[number] = play->processes[of];
	play->processes[number].registered = false;
	play->processes[number].is_helper = true;
	play_fork(play);
	comm = comm_add(play, like.number);
	member_add(comm, number, play->processes[of].gpus[0]);
	threads_choose(play, comm);
}

/* ------------------------------------------------------------------------------------------------------------- schedules */

static void places_choose(struct play *play, struct job *job)
{
	const unsigned layout = below(play, 10);

	job->gpus[PLAY_HOST_0] = one_in(play, 3) ? 1 + below(play, 15) : 15;
	if (layout == 7) {
		job->gpus[PLAY_HOST_0] = 3;
		job->gpus[PLAY_HOST_1] = one_in(play, 2) ? 3 : 15;
	} else if (layout == 8) {
		job->gpus[PLAY_HOST_0] = 3;
		job->gpus[PLAY_CONTAINER] = 12;
	} else if (layout == 9) {
		job->two_host_ids = true;
	}
	/* Alike on both hosts: what a named tuning table asks for. */
	if (job->ours && one_in(play, 5)) {
		job->gpus[PLAY_HOST_0] = job->gpus[PLAY_HOST_1] = one_in(play, 2) ? 3 : 15;
		job->gpus[PLAY_CONTAINER] = job->elsewhere = 0;
		job->two_host_ids = false;
	}
}

static void job_choose(struct play *play, unsigned number, struct job *job)
{
	static const enum play_launcher launchers[] = { PLAY_TORCHRUN, PLAY_TORCHRUN, PLAY_TORCHRUN, PLAY_TORCHRUN,
							PLAY_MPIRUN,   PLAY_USER,     PLAY_NOBODY,   PLAY_NOBODY };

	*job = (struct job){ .number = number, .gpus_each = 1, .odd = ODD_NONE };
	job->launcher = launchers[below(play, sizeof(launchers) / sizeof(launchers[0]))];
	job->ours = !one_in(play, 3);
	job->env_version = 1 + (int)below(play, 2);
	job->net_version = 11 + (int)below(play, 2);
	job->tuner_version = 5 + (int)below(play, 2);
	job->elsewhere = one_in(play, 6);
	if (one_in(play, 4))
		job->gpus_each = one_in(play, 2) ? 2 : 4;
}

static void disturb(struct play *play)
{
	if (one_in(play, 6))
		play->comms[below(play, play->comm_count)].abandon_after = 1 + below(play, 60);
	if (one_in(play, 8)) {
		play->kill_at = 1 + below(play, 200);
		play->kill_which = below(play, play->process_count);
	}
	if (one_in(play, 8)) {
		play->stop_at = 1 + below(play, 150);
		play->stop_which = below(play, play->process_count);
		play->stop_turns = 1 + below(play, 200);
	}
	if (one_in(play, 40)) {
		play->foreigner = place_put_foreigner(&play->places[play->world][PLAY_HOST_0]);
		play->has_foreigner = play->foreigner >= 0;
	}
}

void schedule_run(struct play *play, uint64_t seed)
{
	struct job job, other;

	play_begin(play, (unsigned)(seed % PLAY_WORLDS), seed);
	job_choose(play, 0, &job);
	places_choose(play, &job);
	/* Of a container without the plugin nobody can know, if it has the name of the other one. */
	if (one_in(play, 3) && !job.gpus[PLAY_CONTAINER])
		job.odd = (enum oddity)below(play, ODD_COUNT);
	processes_add(play, &job);
	comm_of_job(play, 0);
	comms_add(play, below(play, 4));
	if (one_in(play, 12))
		helper_add(play, &job);
	if (one_in(play, 4) && job.gpus[PLAY_HOST_0] != 15 && !job.gpus[PLAY_CONTAINER]) {
		job_choose(play, 1, &other);
		other.gpus[PLAY_HOST_0] = 15 & ~job.gpus[PLAY_HOST_0];
		processes_add(play, &other);
		comm_of_job(play, 1);
	}
	disturb(play);
	play_run(play);
	play_end(play);
	if (!play->failed)
		judge_plans(play);
	play->counts.schedules++;
}

void schedule_calm(struct play *play, unsigned world, unsigned gpus, bool is_whole, bool ours)
{
	struct job job = { .gpus = { gpus }, .gpus_each = 1, .ours = ours, .odd = ODD_NONE };

	play_begin(play, world, 1);
	play->calm = true;
	job.elsewhere = is_whole ? 0 : 1;
	job.env_version = 2;
	job.net_version = 11;
	processes_add(play, &job);
	comm_of_job(play, 0);
	play_run(play);
	play_end(play);
}
