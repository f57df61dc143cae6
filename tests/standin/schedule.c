#include "schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct board_place schedule_places[SCHEDULE_PLACES] = {
	[SCHEDULE_HOST_0] = { .own_net = true },
	[SCHEDULE_HOST_1] = { .own_net = true },
	[SCHEDULE_SMALL] = { .shm_bytes = 96 * 1024, .own_net = true },
};

enum { SEATS_MAX = 24, JOBS_MAX = 2 };

/* A thread of a process that initialises communicators, and its GPU. */
struct seat {
	unsigned process, thread;
	int gpu, job;
};

struct schedule {
	struct play *play;
	struct random random;
	struct seat seats[SEATS_MAX];
	unsigned seat_count;
	bool clean; /* a communicator gets a plan when nothing else is wrong with it */
	bool several_hosts;
	unsigned threads;
};

static bool one_in(struct schedule *schedule, unsigned n)
{
	return random_below(&schedule->random, n) == 0;
}

static unsigned below(struct schedule *schedule, unsigned n)
{
	return (unsigned)random_below(&schedule->random, n);
}

static void shuffle(struct schedule *schedule, int *list, unsigned count)
{
	for (unsigned i = count; i > 1; i--) {
		unsigned other = below(schedule, i);
		int value = list[i - 1];

		list[i - 1] = list[other];
		list[other] = value;
	}
}

/* ---- the jobs ---- */

/* Another environment than the usual one; what is in the way of a plan makes the schedule unclean. */
static void oddities_choose(struct schedule *schedule, struct play_launch *launch)
{
	static const char *const harmless[] = { "NCCL_CROSS_NIC=0", "STANDIN_EAGER=1",
						"NCCL_TOPO_DUMP_FILE=/dev/null" };
	static const char *const others[] = { "NCCL_OOB_NET_ENABLE=1", "TRIBUTARY_STEER=topology",
					      "TRIBUTARY_STEER=off", "NCCL_TOPO_FILE=/nonexistent" };

	if (one_in(schedule, 6))
		launch->extra[0] = harmless[below(schedule, 3)];
	if (one_in(schedule, 10)) {
		launch->extra[1] = others[below(schedule, 4)];
		schedule->clean = false;
	}
	if (launch->extra[0] && strstr(launch->extra[0], "DUMP"))
		schedule->clean = false;
	if (one_in(schedule, 5))
		launch->tuner_version = -1;
	if (one_in(schedule, 3))
		launch->extra[2] = "NCCL_COLLNET_ENABLE=1";
	if (one_in(schedule, 16)) {
		launch->net_version = 6 + (int)below(schedule, 5);
		launch->tuner_version = 2 + (int)below(schedule, 3);
		schedule->clean = false;
	}
}

static void process_start(struct schedule *schedule, const struct schedule_worlds *worlds, struct play_launch launch,
			  const int *gpus)
{
	unsigned process;

	if (one_in(schedule, 40)) {
		launch.profile = one_in(schedule, 2) ? "" : worlds->foreign->profile;
		schedule->clean = false;
	}
	if (one_in(schedule, 40)) {
		launch.no_driver = true;
		schedule->clean = false;
	}
	process = play_process(schedule->play, &launch);
	for (unsigned t = 0; t < schedule->threads && schedule->seat_count < SEATS_MAX; t++)
		schedule->seats[schedule->seat_count++] = (struct seat){ process, t, gpus[t], launch.job };
}

/* What a launcher says of the number of local processes: usually the truth. */
static int told(struct schedule *schedule, unsigned truth)
{
	if (!one_in(schedule, 12))
		return (int)truth;
	schedule->clean = false;
	return one_in(schedule, 2) ? 0 : (int)(truth + 1 + below(schedule, 3));
}

static void jobs_start(struct schedule *schedule, const struct schedule_worlds *worlds)
{
	struct play *play = schedule->play;
	unsigned jobs = one_in(schedule, 5) ? 2 : 1, hosts = one_in(schedule, 3) ? 2 : 1,
		 gpu_count = play->world->gpu_count;
	struct play_launch usual = { .net_version = 11 + (int)below(schedule, 2),
				     .tuner_version = 5 + (int)below(schedule, 2) };
	bool small = one_in(schedule, 25);

	schedule->several_hosts = hosts > 1;
	schedule->threads = one_in(schedule, 5) && gpu_count > 4 ? 2 : 1;
	usual.thread_count = schedule->threads;
	oddities_choose(schedule, &usual);
	if (small) {
		schedule->clean = false;
		play_place_order(play, SCHEDULE_SMALL, BOARD_PLACE_FILL, below(schedule, 20) * 4096);
	}
	if (one_in(schedule, 15)) {
		schedule->clean = false;
		play->tainted = true;
		play_place_order(play, SCHEDULE_HOST_0, BOARD_PLACE_HOSTILE, below(schedule, 7));
	}
	for (unsigned host = 0; host < hosts; host++) {
		int gpus[WORLD_GPUS_MAX];
		unsigned at = 0, room = gpu_count / jobs / schedule->threads;

		for (unsigned i = 0; i < gpu_count; i++)
			gpus[i] = (int)i;
		shuffle(schedule, gpus, gpu_count);
		for (unsigned job = 0; job < jobs; job++) {
			unsigned count = 1 + below(schedule, room < 5 ? room : 5);
			struct play_launch launch = usual;

			launch.host = (int)host;
			launch.place = host ? SCHEDULE_HOST_1 : small ? SCHEDULE_SMALL : SCHEDULE_HOST_0;
			launch.job = (int)job;
			launch.local_size = told(schedule, count);
			launch.world_size = (int)count * (int)hosts; /* about; nobody who is told depends on it */
			for (unsigned i = 0; i < count; i++, at += schedule->threads) {
				launch.local_rank = (int)i;
				launch.rank = (int)(host * count + i);
				process_start(schedule, worlds, launch, &gpus[at]);
			}
		}
	}
}

/* ---- the communicators ---- */

static bool is_busy(const struct schedule *schedule, const struct seat *seat, unsigned from_comm)
{
	const struct play *play = schedule->play;

	for (unsigned c = from_comm; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++)
			if (play->comms[c].members[i].process == seat->process &&
			    play->comms[c].members[i].thread == seat->thread)
				return true;
	return false;
}

/* Some threads of one job that have nothing to do yet in this round. */
static int new_comm(struct schedule *schedule, unsigned from_comm)
{
	struct play *play = schedule->play;
	int order[SEATS_MAX], job = (int)below(schedule, JOBS_MAX), comm;
	unsigned wanted = 1 + below(schedule, SEATS_MAX), count = 0;

	for (unsigned i = 0; i < schedule->seat_count; i++)
		order[i] = (int)i;
	shuffle(schedule, order, schedule->seat_count);
	comm = (int)play_comm(play, -1, false);
	for (unsigned i = 0; i < schedule->seat_count && count < wanted; i++) {
		const struct seat *seat = &schedule->seats[order[i]];

		if (seat->job != job || !play->processes[seat->process].alive || is_busy(schedule, seat, from_comm))
			continue;
		play_join(play, (unsigned)comm, seat->process, seat->thread, seat->gpu);
		count++;
	}
	if (count)
		return comm;
	play->comm_count--;
	return -1;
}

/* A part of a communicator that is there, with its resources. */
static int shared_split(struct schedule *schedule, unsigned from_comm)
{
	struct play *play = schedule->play;
	unsigned parent = below(schedule, from_comm), count = 0;
	int comm;

	if (play->comms[parent].shared)
		return -1;
	for (unsigned i = 0; i < play->comms[parent].member_count; i++)
		if (play->comms[parent].members[i].state != PLAY_READY)
			return -1; /* all of the parent take part in a split */
	comm = (int)play_comm(play, (int)parent, true);
	for (unsigned i = 0; i < play->comms[parent].member_count; i++) {
		const struct play_member *m = &play->comms[parent].members[i];
		struct seat seat = { m->process, m->thread, m->gpu, 0 };

		if (m->state != PLAY_READY || is_busy(schedule, &seat, from_comm) || one_in(schedule, 3))
			continue;
		play_join(play, (unsigned)comm, m->process, m->thread, m->gpu);
		count++;
	}
	if (count)
		return comm;
	play->comm_count--;
	return -1;
}

static void faults_choose(struct schedule *schedule, unsigned number)
{
	struct play_comm *comm = &schedule->play->comms[number];

	if (one_in(schedule, 14) && comm->member_count > 1)
		comm->members[below(schedule, comm->member_count)].state = PLAY_ABSENT;
	comm->give_up_late = one_in(schedule, 14);
	comm->given_up_quietly = one_in(schedule, 2);
}

/* All on one host, one to a process, and the whole job had been there before: then it is in a plugin's power. */
static bool plan_is_due(const struct schedule *schedule, const struct play_comm *comm,
			const bool known[BOARD_PROCESSES_MAX])
{
	const struct play *play = schedule->play;

	if (!schedule->clean || schedule->several_hosts || comm->shared || comm->broken || comm->member_count < 2)
		return false;
	for (unsigned i = 0; i < comm->member_count; i++)
		for (unsigned j = 0; j < i; j++)
			if (comm->members[i].process == comm->members[j].process)
				return false;
	for (unsigned p = 0; p < play->process_count; p++) {
		bool is_member = false;

		for (unsigned i = 0; i < comm->member_count; i++)
			is_member |= comm->members[i].process == p;
		if (!play->processes[p].alive ||
		    (!known[p] && !is_member &&
		     play->processes[p].job == play->processes[comm->members[0].process].job))
			return false;
	}
	return true;
}

/* Who waits for somebody who does not come usually has patience; only then is the communicator aborted. */
static void give_up_waiting(struct schedule *schedule, unsigned from_comm)
{
	struct play *play = schedule->play;
	bool waits = false;

	for (unsigned c = from_comm; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++)
			if (play->comms[c].members[i].state == PLAY_ABSENT) {
				play_give_up(play, c);
				waits = true;
			}
	if (waits && !one_in(schedule, 3))
		play_pass_time(play, 5000);
	play_run(play);
}

/* An older one is destroyed, if no part of it is in use. */
static void end_one(struct schedule *schedule)
{
	struct play *play = schedule->play;
	unsigned number = below(schedule, play->comm_count);

	for (unsigned c = 0; c < play->comm_count; c++)
		if (play->comms[c].parent == (int)number)
			return;
	play_end(play, number);
	play_run(play);
}

/*
 * Ranks that get to their topology phase, and then never read, look like ranks that are about to: what is planned on the
 * same host meanwhile may be a communicator that they are all done with (docs/session.md, "Meeting"). So it rests.
 */
static bool others_are_given_up(const struct play *play, unsigned from_comm, unsigned number)
{
	for (unsigned c = from_comm; c < play->comm_count; c++)
		if (c != number && play->comms[c].verdict == PLAY_GIVEN_UP)
			return true;
	return false;
}

static void round_run(struct schedule *schedule, struct schedule_counts *counts)
{
	struct play *play = schedule->play;
	unsigned from = play->comm_count, wanted = one_in(schedule, 3) ? 2 : 1;
	bool known[BOARD_PROCESSES_MAX];

	for (unsigned p = 0; p < BOARD_PROCESSES_MAX; p++)
		known[p] = p < play->process_count && play->processes[p].devices_known;

	for (unsigned i = 0; i < wanted && play->comm_count + 1 < BOARD_COMMS_MAX; i++) {
		int comm = from && one_in(schedule, 4) ? shared_split(schedule, from) : new_comm(schedule, from);

		if (comm >= 0)
			faults_choose(schedule, (unsigned)comm);
	}
	if (one_in(schedule, 4)) {
		play->kill_after_steps = 1 + below(schedule, 40);
		play->kill_inside = one_in(schedule, 2);
		play->kill_process = below(schedule, play->process_count);
	}
	play_run(play);
	play->kill_after_steps = 0;
	give_up_waiting(schedule, from);
	for (unsigned c = from; c < play->comm_count; c++) {
		const struct play_comm *comm = &play->comms[c];

		/* Two in one process at a time may both rest. */
		if (play->comm_count - from > 1 && schedule->threads > 1)
			continue;
		if (!plan_is_due(schedule, comm, known) || others_are_given_up(play, from, c))
			continue;
		counts->due++;
		counts->missed += comm->verdict != PLAY_PLAN;
		if (comm->verdict != PLAY_PLAN && !play->quiet && counts->missed < 4) {
			fprintf(stderr, "communicator %u should have got a plan\n", c);
			for (unsigned m = 0; m < comm->member_count; m++)
				fprintf(stderr, "process %u logged:\n%s", comm->members[m].process,
					play_log(play, comm->members[m].process));
		}
	}
	if (play->comm_count && one_in(schedule, 4))
		end_one(schedule);
}

void schedule_run(struct play *play, const struct schedule_worlds *worlds, uint64_t seed,
		  struct schedule_counts *counts)
{
	struct schedule schedule = { .play = play, .clean = true };
	unsigned rounds, failures = play->counts.failures, missed = counts->missed;
	bool wipe;

	random_init(&schedule.random, seed * 0x9e3779b97f4a7c15ULL + 1);
	wipe = !one_in(&schedule, 4);
	play_reset(play, worlds->usual[below(&schedule, 3)], one_in(&schedule, 2) ? "2.28.9" : "2.30.7", seed, wipe);
	play->tainted = play->tainted && !wipe;
	schedule.clean = !play->tainted;
	play->burst = below(&schedule, 4) * 20;
	play->proxy = one_in(&schedule, 3) ? 10 : 0;
	jobs_start(&schedule, worlds);
	rounds = 1 + below(&schedule, 4);
	for (unsigned i = 0; i < rounds && play->counts.failures == failures; i++)
		round_run(&schedule, counts);
	if (play->counts.failures != failures || counts->missed != missed)
		fprintf(stderr, "that was schedule TRIBUTARY_TEST_SEED=%#" PRIx64 " TRIBUTARY_TEST_SEEDS=1%s\n", seed,
			wipe ? "" : " (with what the ones before it left)");
}
