/* What the files that its ranks have read make of a communicator. */
#include "play.h"

#include <string.h>

/* The GPUs that the communicator has on a host, as that host's ranks see them. */
void play_host_describe(const struct play *play, const struct play_comm *comm, const struct play_member *m,
			struct model_host *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->search_latency_us = m->search_latency_us;
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *other = &comm->members[i];

		if (play->processes[other->process].host != play->processes[m->process].host ||
		    ret->gpu_count == MODEL_GPUS_MAX)
			continue;
		ret->rank_of[ret->gpu_count] = (int)i;
		ret->dev_of[ret->gpu_count++] = other->gpu < 0 ? 99 : play->world->devs[other->gpu];
	}
}

/* Does everybody on a host use a plan, and the same? */
static void host_judge(struct play *play, struct play_comm *comm, int host)
{
	const struct play_member *first = NULL;

	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *m = &comm->members[i];

		if (play->processes[m->process].host != host)
			continue;
		if (!first) {
			first = m;
			comm->on_host[host] = m->graphs[MODEL_RING].from_file ? PLAY_PLAN : PLAY_REST;
			continue;
		}
		if (m->graphs[MODEL_RING].from_file != first->graphs[MODEL_RING].from_file) {
			play_fail(play, comm, "rank %u %s and another one of its host does not", i,
				  m->graphs[MODEL_RING].from_file ? "has a plan" : "searches");
			comm->on_host[host] = PLAY_FAIL;
			return;
		}
		if (m->graphs[MODEL_RING].from_file &&
		    (m->graph_bytes != first->graph_bytes ||
		     memcmp(m->graph_text, first->graph_text, m->graph_bytes) != 0)) {
			play_fail(play, comm, "rank %u has another plan than another one of its host", i);
			comm->on_host[host] = PLAY_FAIL;
			return;
		}
	}
}

static void verdict_of_hosts(struct play *play, struct play_comm *comm)
{
	unsigned plans = 0, rests = 0;

	comm->verdict = PLAY_REST;
	for (int host = 0; host < PLAY_HOSTS_MAX; host++) {
		host_judge(play, comm, host);
		plans += comm->on_host[host] == PLAY_PLAN;
		rests += comm->on_host[host] == PLAY_REST;
		if (comm->on_host[host] == PLAY_FAIL)
			comm->verdict = PLAY_FAIL;
	}
	if (comm->verdict != PLAY_FAIL && plans)
		comm->verdict = rests ? PLAY_MIXED_HOSTS : PLAY_PLAN;
	play->counts.hosts_planned += plans;
}

void play_judge(struct play *play, struct play_comm *comm)
{
	struct model_rank ranks[PLAY_MEMBERS_MAX];
	char why[MODEL_WHY_BYTES];
	struct model_host host;
	int nets = 0;

	verdict_of_hosts(play, comm);
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *m = &comm->members[i];

		play_host_describe(play, comm, m, &host);
		ranks[i] = (struct model_rank){ .host = play->processes[m->process].host,
						.local_count = host.gpu_count,
						.ring = &m->graphs[MODEL_RING],
						.tree = &m->graphs[MODEL_TREE] };
		if (play->processes[m->process].collnet) {
			ranks[i].chain = &m->graphs[MODEL_CHAIN];
			ranks[i].direct = &m->graphs[MODEL_DIRECT];
		}
		nets = play->processes[m->process].device_count;
	}
	if (comm->verdict != PLAY_FAIL && model_agree(ranks, (int)comm->member_count, nets, why) < 0) {
		play_fail(play, comm, "%s", why);
		comm->verdict = PLAY_FAIL;
	}
	play->counts.communicators++;
	play->counts.planned += comm->verdict == PLAY_PLAN;
	play->counts.rested += comm->verdict == PLAY_REST;
	play->counts.mixed_hosts += comm->verdict == PLAY_MIXED_HOSTS;
}

static unsigned count_on_host(const struct play *play, const struct play_comm *comm, int host)
{
	unsigned count = 0;

	for (unsigned i = 0; i < comm->member_count; i++)
		count += play->processes[comm->members[i].process].host == host;
	return count;
}

/*
 * A split whose threads on this host are just those of a communicator that they have given up last, without a word: the
 * plugin sees the same calls as if that one went on. Its plan is for the same GPUs, so nothing goes wrong.
 */
bool play_is_what_was_given_up(const struct play *play, const struct play_comm *comm, const struct play_member *of)
{
	int host = play->processes[of->process].host;

	for (const struct play_comm *past = play->comms; past < comm; past++) {
		unsigned same = 0;

		if (past->shared || !past->given_up_quietly || past->verdict != PLAY_GIVEN_UP)
			continue;
		for (unsigned i = 0; i < past->member_count; i++)
			for (unsigned k = 0; k < comm->member_count; k++)
				same += past->members[i].process == comm->members[k].process &&
					past->members[i].thread == comm->members[k].thread &&
					past->members[i].state == PLAY_FAILED && past->members[i].has_context &&
					play->processes[comm->members[k].process].host == host;
		if (same && same == count_on_host(play, past, host) && same == count_on_host(play, comm, host))
			return true;
	}
	return false;
}
