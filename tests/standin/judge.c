/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All local ranks of a communicator get the same answer, and it fits exactly them. There is no plan where a plan would be
 * wrong, and one where the plugin can know enough.
 */
#include "graph.h"
#include "play.h"
#include "tables.h"

#include <string.h>

/* ----------------------------------------------------------------------------------------------------- what must be */

static const struct play_process *process_of(const struct play *play, const struct play_member *member)
{
	return &play->processes[member->process];
}

static uint32_t gpus_on(const struct play *play, const struct play_comm *comm, unsigned host)
{
	uint32_t gpus = 0;

	for (unsigned i = 0; i < comm->member_count; i++)
		if (process_of(play, &comm->members[i])->host == host)
			gpus |= 1u << comm->members[i].gpu;
	return gpus;
}

static const struct play_process *first_on(const struct play *play, const struct play_comm *comm, unsigned host)
{
	for (unsigned i = 0; i < comm->member_count; i++)
		if (process_of(play, &comm->members[i])->host == host)
			return process_of(play, &comm->members[i]);
	return NULL;
}

static bool all_are_willing_and_alike(const struct play *play, const struct play_comm *comm, unsigned host)
{
	const struct play_process *first = first_on(play, comm, host);

	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_process *process = process_of(play, &comm->members[i]);

		if (process->host == host && (process->unwilling || process->dead || process->place != first->place ||
					      process->settings != first->settings))
			return false;
	}
	return true;
}

/* Neither an earlier communicator with this id nor another one of now has left anything. */
static bool id_is_clean(const struct play *play, const struct play_comm *comm, unsigned host)
{
	const struct play_process *first = first_on(play, comm, host);
	unsigned records = 0;

	for (const struct play_comm *other = play->comms; other < comm; other++)
		if (other->id == comm->id && (other->abandoned || other->hurt))
			return false;
	for (unsigned p = 0; p < play->process_count; p++)
		for (unsigned a = 0; a < BOARD_ACTORS_MAX; a++)
			records += play->processes[p].place == first->place && play->processes[p].host == host &&
				   play->processes[p].records[a] == comm->id;
	return records == (unsigned)__builtin_popcount(gpus_on(play, comm, host));
}

static bool has_whole_machine(const struct play *play, const struct play_comm *comm, unsigned host)
{
	for (unsigned i = 0; i < comm->member_count; i++)
		if (process_of(play, &comm->members[i])->shares_gpus)
			return false;
	return (unsigned)__builtin_popcount(gpus_on(play, comm, host)) == play->worlds[play->world].gpu_count;
}

static bool has_rank_in(const struct play *play, const struct play_comm *comm, const struct play_process *process)
{
	for (unsigned i = 0; i < comm->member_count; i++)
		if (process_of(play, &comm->members[i]) == process)
			return true;
	return false;
}

/* Every process that the launcher started where these are has told of itself. */
static bool launcher_knows(const struct play *play, const struct play_comm *comm, unsigned host)
{
	const struct play_process *first = first_on(play, comm, host);
	const enum play_launcher launcher = play->jobs[comm->job].launcher;

	if (launcher == PLAY_NOBODY)
		return false;
	for (unsigned p = 0; p < play->process_count; p++) {
		const struct play_process *process = &play->processes[p];
		bool is_of_job = process->job == comm->job && !process->is_helper;

		/* Where no variable tells the job from others, only the members of the communicator count. */
		if (launcher == PLAY_USER &&
		    (!is_of_job || (process->place == first->place &&
				    (process->host != first->host || !has_rank_in(play, comm, process)))))
			return false;
		/* The other container's processes are seen, but not what they do. */
		if (is_of_job && process->place != first->place &&
		    (process->place == PLAY_HOST_1) == (first->place == PLAY_HOST_1))
			return false;
		if (is_of_job && process->place == first->place && (!process->registered || process->dead))
			return false;
	}
	return true;
}

/* Somebody may have died since the first rank asked, and before the one that decides has looked. */
void judge_evidence(struct play *play, struct play_comm *comm, unsigned host, bool is_decided)
{
	struct play_plan *plan = &comm->plans[host];

	if (is_decided ? plan->is_decided : plan->is_known)
		return;
	plan->is_due = (comm->kind == PLAY_NEW || comm->kind == PLAY_SPLIT) && (!is_decided || plan->is_due) &&
		       !(play->has_foreigner && first_on(play, comm, host)->place == PLAY_HOST_0) &&
		       all_are_willing_and_alike(play, comm, host) && id_is_clean(play, comm, host) &&
		       (has_whole_machine(play, comm, host) || launcher_knows(play, comm, host));
	plan->is_known = true;
	plan->is_decided = is_decided;
}

/* ---------------------------------------------------------------------------------------------------------- what is */

static void judge_topology(struct play *play, const struct play_process *process, const struct board_answer *answer,
			   struct play_member *member)
{
	if (process->silent)
		return;
	if (answer->missing || !answer->text_bytes || !strstr(answer->text, "\n<system version=\"1\">"))
		play_fail(play, "the topology file \"%s\" cannot be read, or is none", answer->path);
	member->topology = graph_hash(answer->text, answer->text_bytes);
}

static void judge_graph(struct play *play, const struct play_comm *comm, const struct play_process *process,
			const struct board_answer *answer, struct play_member *member)
{
	const char *users = process->graph ? process->graph : "";
	uint64_t hash = 0;
	char why[GRAPH_WHY_BYTES];

	if (!process->graph && answer->path[0] && !process->silent) {
		hash = graph_hash(answer->text, answer->text_bytes);
		if (answer->missing) {
			play_fail(play, "the graph file \"%s\" cannot be read", answer->path);
			return;
		}
		if (!graph_fits(answer->text, answer->text_bytes, gpus_on(play, comm, process->host), why))
			play_fail(play, "a plan that does not fit: %s", why);
	} else if (strcmp(answer->path, users) != 0) {
		play_fail(play, "NCCL_GRAPH_FILE is \"%s\" where the user has \"%s\"", answer->path, users);
	}
	if (member->graphs > 1 && hash != member->graph)
		play_fail(play, "the plan is another one for the second graph");
	member->graph = hash;
}

void judge_answer(struct play *play, const struct play_comm *comm, struct play_member *member)
{
	const unsigned actor = member->step <= PLAY_START ? member->caller : member->actor;
	const struct board_answer *answer = &play->board->processes[member->process].actors[actor].answer;
	const struct play_process *process = process_of(play, member);

	member->refused |= member->step == PLAY_TUNER && answer->result && tables_may_refuse(process);
	if (answer->result && !member->refused)
		play_fail(play, "process %u, step %d: a call failed with %d", member->process, (int)member->step,
			  answer->result);
	if (answer->errno_changed)
		play_fail(play, "process %u, step %d: errno was changed", member->process, (int)member->step);
	if (answer->value)
		play_fail(play, "process %u: a call in a forked child had an effect", member->process);
	/* NCCL fails without their ranks, whatever they read. */
	if (comm->abandoned || comm->hurt)
		return;
	if (member->step == PLAY_TOPOLOGY || member->step == PLAY_TOPOLOGY_AGAIN)
		judge_topology(play, process, answer, member);
	if (member->step == PLAY_GRAPH || member->step == PLAY_GRAPHS)
		judge_graph(play, comm, process, answer, member);
	if (member->step == PLAY_TUNER) {
		member->tuner = answer->tuner_choices;
		member->answers = answer->answers;
	}
}

static void judge_pair(struct play *play, const struct play_comm *comm, const struct play_member *one,
		       const struct play_member *other)
{
	const struct play_process *first = process_of(play, one), *second = process_of(play, other);
	const unsigned number = (unsigned)(comm - play->comms);

	if (first->host == second->host && one->graph != other->graph)
		play_fail(play, "communicator %u: processes %u and %u have different plans, or one has none", number,
			  one->process, other->process);
	if (first->unwilling || second->unwilling || first->settings != second->settings)
		return;
	if (one->topology != other->topology)
		play_fail(play, "communicator %u: processes %u and %u have different topology files", number,
			  one->process, other->process);
	if (!one->refused && !other->refused && !one->graph == !other->graph && one->tuner != other->tuner)
		play_fail(play, "communicator %u: the tuners of processes %u and %u choose differently", number,
			  one->process, other->process);
}

/* No init, or an id that several communicators have at once. Of a parent without init the plugin knows no id. */
static bool is_without_plan(const struct play *play, const struct play_comm *comm)
{
	return comm->kind == PLAY_SHARED ||
	       (comm->kind == PLAY_SHRINK && play->comms[comm->parent].kind != PLAY_SHARED);
}

void judge_comm(struct play *play, struct play_comm *comm)
{
	tables_judge(play, comm);
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *member = &comm->members[i];

		for (unsigned k = 0; k < i; k++)
			judge_pair(play, comm, member, &comm->members[k]);
		if (member->graph && is_without_plan(play, comm))
			play_fail(play, "communicator %u, which shares resources or was shrunk, has a plan",
				  (unsigned)(comm - play->comms));
		comm->plans[process_of(play, member)->host].graph = member->graph;
	}
}

/* -------------------------------------------------------------------------------------------- compared with the calm */

struct finding {
	unsigned comm, host, gpus;
	bool is_whole, ours, is_due;
	uint64_t graph;
};

static uint64_t reference(struct play *play, const struct finding *of)
{
	struct play_reference *ret = &play->references[play->world][of->gpus][of->is_whole][of->ours];

	if (!ret->is_known) {
		schedule_calm(play, play->world, of->gpus, of->is_whole, of->ours);
		ret->graph = play->comms[0].plans[0].graph;
		ret->is_known = true;
		if (!play->failed && of->is_whole && of->gpus & (of->gpus - 1) && !ret->graph)
			play_fail(play, "GPUs %#x, all of a job, have no plan even in a calm schedule", of->gpus);
	}
	return ret->graph;
}

static void judge_finding(struct play *play, const struct finding *finding)
{
	const uint64_t wanted = reference(play, finding);

	if (play->failed)
		return;
	if (finding->is_due && wanted) {
		play->counts.due++;
		if (!finding->graph)
			play_fail(play, "communicator %u has no plan on host %u, where one is due", finding->comm,
				  finding->host);
	}
	play->counts.planned += finding->graph != 0;
	if (finding->graph && finding->graph != wanted)
		play_fail(play, "communicator %u of GPUs %#x%s has the plan %016llx on host %u, in calm %016llx",
			  finding->comm, finding->gpus, finding->is_whole ? ", all of its job" : "",
			  (unsigned long long)finding->graph, finding->host, (unsigned long long)wanted);
}

void judge_plans(struct play *play)
{
	struct finding findings[PLAY_COMMS_MAX * PLAY_HOSTS];
	unsigned count = 0;

	for (unsigned c = 0; c < play->comm_count; c++) {
		const struct play_comm *comm = &play->comms[c];

		play->counts.communicators += comm->judged;
		play->counts.given_up += !comm->judged;
		for (unsigned host = 0; host < PLAY_HOSTS && comm->judged; host++) {
			const struct play_process *first = first_on(play, comm, host);

			if (first)
				findings[count++] = (struct finding){ .comm = c,
								      .host = host,
								      .gpus = gpus_on(play, comm, host),
								      .is_whole = play->jobs[comm->job].is_whole,
								      .ours = first->ours,
								      .is_due = comm->plans[host].is_due,
								      .graph = comm->plans[host].graph };
		}
	}
	for (unsigned i = 0; i < count && !play->failed; i++)
		judge_finding(play, &findings[i]);
}
