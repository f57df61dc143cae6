/* What each step of NCCL's init asks for, and what follows from the answer. */
#include "play.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum order_step step_of(const struct play *play, const struct play_member *m)
{
	return m->at < play->order.counts[m->program] ? play->order.steps[m->program][m->at] : ORDER_STEP_COUNT;
}

unsigned play_slot(const struct play *play, const struct play_member *m)
{
	return step_of(play, m) == ORDER_CONNECT ? BOARD_THREADS_MAX : m->thread;
}

static int owner_of(unsigned comm, unsigned member)
{
	return (int)(comm * PLAY_MEMBERS_MAX + member);
}

/* ---- waiting for others ---- */

static bool all_are_there(const struct play *play, const struct play_comm *comm, const struct play_member *m,
			  bool host_only)
{
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *other = &comm->members[i];

		if (host_only && play->processes[other->process].host != play->processes[m->process].host)
			continue;
		if (other->state == PLAY_READY || other->state == PLAY_ENDED)
			continue;
		if (other->program == ORDER_ABORT && other->reached > m->at)
			continue; /* it has been here, and gave up later */
		if (other->state == PLAY_ABSENT || other->program != m->program || other->at < m->at ||
		    (other->at == m->at && other->state != PLAY_WAITS))
			return false;
	}
	return true;
}

static enum play_can can_gather(const struct play *play, const struct play_comm *comm, const struct play_member *m,
				bool host_only)
{
	if (m->state != PLAY_WAITS || all_are_there(play, comm, m, host_only) || comm->broken ||
	    comm->verdict == PLAY_FAIL)
		return PLAY_CAN_PASS;
	return PLAY_CAN_NOT;
}

/* ---- what comes next ---- */

static enum play_can ask_properties(int device, struct board_order *ret)
{
	ret->op = BOARD_PROPERTIES;
	ret->device = device;
	return PLAY_CAN_ORDER;
}

/* The devices, then the one that is made of them, then how many there are now. */
static enum play_can next_fuse(const struct play_process *process, unsigned sub, struct board_order *ret)
{
	if (process->fused || process->net_version < 9)
		return PLAY_CAN_PASS;
	if (sub < (unsigned)process->physical_count)
		return ask_properties((int)sub, ret);
	if (sub == (unsigned)process->physical_count && process->fuses && process->physical_count >= 2) {
		ret->op = BOARD_JOIN;
		ret->member_count = 2;
		ret->members[1] = 1;
		return PLAY_CAN_ORDER;
	}
	ret->op = BOARD_DEVICES;
	return PLAY_CAN_ORDER;
}

/* Three for each: itself and two members. */
static enum play_can next_fused(const struct play_process *process, unsigned sub, struct board_order *ret)
{
	int fused = process->physical_count + (int)(sub / 3);

	if (fused >= process->device_count)
		return PLAY_CAN_PASS;
	return ask_properties(sub % 3 ? (int)(sub % 3) - 1 : fused, ret);
}

static enum play_can next_lock(int owner, int self)
{
	return owner < 0 || owner == self ? PLAY_CAN_PASS : PLAY_CAN_NOT;
}

static enum play_can next_listen(const struct play_member *m, bool wanted, struct board_order *ret)
{
	if (!wanted || !m->has_context || m->linked > 1 || m->linked < 0)
		return PLAY_CAN_PASS;
	ret->op = m->linked == 0 ? BOARD_LISTEN : BOARD_CLOSE;
	return PLAY_CAN_ORDER;
}

static enum play_can next_init(const struct play *play, const struct play_comm *comm, const struct play_member *m,
			       struct board_order *ret)
{
	ret->op = BOARD_INIT;
	ret->comm_id = comm->id;
	if (m->gpu >= 0)
		snprintf(ret->bus_id, sizeof(ret->bus_id), "%s", play->world->bus_ids[m->gpu]);
	return PLAY_CAN_ORDER;
}

int play_host_count(const struct play *play, const struct play_comm *comm)
{
	unsigned hosts = 0;

	for (unsigned i = 0; i < comm->member_count; i++)
		hosts |= 1U << play->processes[comm->members[i].process].host;
	return __builtin_popcount(hosts);
}

/* Others of the process are in init: what they have published may be in place. */
static bool is_alone(const struct play *play, const struct play_member *m)
{
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			const struct play_member *other = &play->comms[c].members[i];

			if (other != m && other->process == m->process &&
			    (other->state == PLAY_RUNS || other->state == PLAY_ORDERED || other->state == PLAY_WAITS))
				return false;
		}
	return true;
}

static enum play_can next_tuner(const struct play *play, const struct play_comm *comm, const struct play_member *m,
				enum order_step step, struct board_order *ret)
{
	int version = play->processes[m->process].tuner_version;

	if (!version || comm->verdict == PLAY_FAIL)
		return PLAY_CAN_PASS;
	ret->comm_id = comm->id;
	ret->rank_count = (int)comm->member_count;
	ret->node_count = play_host_count(play, comm);
	ret->device = (int)m->sub;
	ret->op = step == ORDER_TUNER_INIT  ? BOARD_TUNER_INIT
		  : step == ORDER_TUNER_ASK ? BOARD_TUNER_ASK
					    : BOARD_TUNER_END;
	if (step == ORDER_TUNER_INIT && m->sub == 1) {
		/* Not a step of NCCL: has the tuner's init taken back what was published for this one? */
		if (version < 5 || !is_alone(play, m))
			return PLAY_CAN_PASS;
		ret->op = BOARD_READ_GRAPH;
	}
	return PLAY_CAN_ORDER;
}

enum play_can play_next(const struct play *play, unsigned number, unsigned index, struct board_order *ret)
{
	const struct play_comm *comm = &play->comms[number];
	const struct play_member *m = &comm->members[index];
	const struct play_process *process = &play->processes[m->process];
	enum order_step step = step_of(play, m);

	switch (step) {
	case ORDER_LOCK_PLUGIN:
		return next_lock(process->plugin_owner, owner_of(number, index));
	case ORDER_LOCK_NET:
		return next_lock(process->net_owner, owner_of(number, index));
	case ORDER_GATHER_ALL:
	case ORDER_AGREE:
		return can_gather(play, comm, m, false);
	case ORDER_GATHER_HOST:
		return can_gather(play, comm, m, true);
	case ORDER_INIT:
		return next_init(play, comm, m, ret);
	case ORDER_DEVICES:
		ret->op = BOARD_DEVICES;
		return process->devices_known ? PLAY_CAN_PASS : PLAY_CAN_ORDER;
	case ORDER_PROPERTIES_0:
		return ask_properties(0, ret);
	case ORDER_PROPERTIES_EACH:
		return (int)m->sub >= process->physical_count ? PLAY_CAN_PASS : ask_properties((int)m->sub, ret);
	case ORDER_FUSE:
		return next_fuse(process, m->sub, ret);
	case ORDER_PROPERTIES_FUSED:
		return next_fused(process, m->sub, ret);
	case ORDER_DEVICES_AGAIN:
		ret->op = BOARD_DEVICES;
		return PLAY_CAN_ORDER;
	case ORDER_TOPOLOGY_FILE:
		ret->op = BOARD_READ_TOPOLOGY;
		return PLAY_CAN_ORDER;
	case ORDER_GRAPH_RING:
	case ORDER_GRAPH_TREE:
		ret->op = BOARD_READ_GRAPH;
		return PLAY_CAN_ORDER;
	case ORDER_GRAPH_CHAIN:
	case ORDER_GRAPH_DIRECT:
		ret->op = BOARD_READ_GRAPH;
		return process->collnet ? PLAY_CAN_ORDER : PLAY_CAN_PASS;
	case ORDER_OOB:
		if (process->oob && m->has_context && !process->oob_chosen)
			return ask_properties(0, ret);
		return next_listen(m, process->oob, ret);
	case ORDER_CONNECT:
		return next_listen(m, process->eager && play_host_count(play, comm) > 1, ret);
	case ORDER_TUNER_INIT:
	case ORDER_TUNER_ASK:
	case ORDER_TUNER_END:
		return next_tuner(play, comm, m, step, ret);
	case ORDER_FINALIZE:
		ret->op = BOARD_FINALIZE;
		return m->has_context ? PLAY_CAN_ORDER : PLAY_CAN_PASS;
	default:
		return PLAY_CAN_PASS; /* the end, and locks that are given back */
	}
}

/* ---- what follows ---- */

static void locks_leave(struct play *play, unsigned comm, unsigned member)
{
	struct play_process *process = &play->processes[play->comms[comm].members[member].process];

	if (process->plugin_owner == owner_of(comm, member))
		process->plugin_owner = -1;
	if (process->net_owner == owner_of(comm, member))
		process->net_owner = -1;
}

void play_member_gives_up(struct play *play, unsigned number, unsigned index)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];

	locks_leave(play, number, index);
	comm->broken = true;
	if (comm->verdict == PLAY_NONE) {
		comm->verdict = PLAY_GIVEN_UP;
		play->counts.given_up++;
	}
	m->reached = m->at;
	m->program = ORDER_ABORT;
	m->at = m->sub = 0;
	m->state = m->has_context && !comm->given_up_quietly ? PLAY_RUNS : PLAY_FAILED;
}

static void next_step(struct play_member *m)
{
	m->at++;
	m->sub = 0;
	m->state = PLAY_RUNS;
}

static void finished(struct play *play, unsigned number, unsigned index)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];

	m->state = m->program == ORDER_END ? PLAY_ENDED : m->program == ORDER_ABORT ? PLAY_FAILED : PLAY_READY;
	for (unsigned i = 0; m->state == PLAY_READY && i < comm->member_count; i++)
		for (unsigned q = 0; q < 4; q++)
			if (comm->members[i].state == PLAY_READY && comm->members[i].answers[q] != m->answers[q])
				play_fail(play, comm, "the tuner answers %d on rank %u and %d on rank %u: they hang",
					  m->answers[q], index, comm->members[i].answers[q], i);
}

static void pass_gather(struct play *play, unsigned number, unsigned index, enum order_step step)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];
	bool host_only = step == ORDER_GATHER_HOST;

	if (m->state != PLAY_WAITS) {
		m->state = PLAY_WAITS;
		play_trace(m, "%s", host_only ? "@local" : "@all");
		return;
	}
	if (!all_are_there(play, comm, m, host_only) || comm->verdict == PLAY_FAIL ||
	    (comm->give_up_late && step == ORDER_GATHER_HOST)) {
		play_member_gives_up(play, number, index);
		return;
	}
	if (step == ORDER_AGREE && comm->verdict == PLAY_NONE) {
		play_judge(play, comm);
		if (comm->verdict == PLAY_FAIL) {
			play_member_gives_up(play, number, index);
			return;
		}
	}
	next_step(m);
}

void play_pass(struct play *play, unsigned number, unsigned index)
{
	struct play_member *m = &play->comms[number].members[index];
	struct play_process *process = &play->processes[m->process];
	enum order_step step = step_of(play, m);

	switch (step) {
	case ORDER_STEP_COUNT:
		finished(play, number, index);
		return;
	case ORDER_GATHER_ALL:
	case ORDER_GATHER_HOST:
	case ORDER_AGREE:
		pass_gather(play, number, index, step);
		return;
	case ORDER_LOCK_PLUGIN:
		process->plugin_owner = owner_of(number, index);
		break;
	case ORDER_LOCK_NET:
		process->net_owner = owner_of(number, index);
		break;
	case ORDER_UNLOCK_PLUGIN:
	case ORDER_UNLOCK_NET:
		locks_leave(play, number, index);
		break;
	case ORDER_OOB:
		m->linked = 0;
		break;
	default:
		break;
	}
	next_step(m);
}

/* ---- answers ---- */

static void text_keep(struct play_member *m, const struct board_answer *answer)
{
	free(m->graph_text);
	m->graph_bytes = answer->text_bytes;
	m->graph_text = malloc(answer->text_bytes + 1);
	if (!m->graph_text)
		abort();
	memcpy(m->graph_text, answer->text, answer->text_bytes);
	/* What NCCL does not look at may differ between processes. */
	while (m->graph_bytes && m->graph_text[m->graph_bytes - 1] == '\n')
		m->graph_bytes--;
	m->graph_text[m->graph_bytes] = '\0';
}

static bool is_same_text(const struct play_member *m, const struct board_answer *answer)
{
	size_t bytes = answer->text_bytes;

	while (bytes && answer->text[bytes - 1] == '\n')
		bytes--;
	return bytes == m->graph_bytes && !memcmp(m->graph_text, answer->text, bytes);
}

/* What another rank of the host has made of the same text, so that it need not be read again. */
static const struct play_member *same_text(const struct play *play, const struct play_comm *comm,
					   const struct play_member *m, enum model_graph_id id)
{
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *other = &comm->members[i];

		if (other != m && other->graph_text && other->graph_bytes == m->graph_bytes &&
		    other->graphs[id].channel_count && other->search_latency_us == m->search_latency_us &&
		    play->processes[other->process].host == play->processes[m->process].host &&
		    play->processes[other->process].cross_nic == play->processes[m->process].cross_nic &&
		    !memcmp(other->graph_text, m->graph_text, m->graph_bytes))
			return other;
	}
	return NULL;
}

static enum model_graph_id graph_of(enum order_step step)
{
	return step == ORDER_GRAPH_RING    ? MODEL_RING
	       : step == ORDER_GRAPH_TREE  ? MODEL_TREE
	       : step == ORDER_GRAPH_CHAIN ? MODEL_CHAIN
					   : MODEL_DIRECT;
}

static void graph_answered(struct play *play, unsigned number, unsigned index, const struct board_answer *answer,
			   enum order_step step)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];
	enum model_graph_id id = graph_of(step);
	struct model_graph *graph = &m->graphs[id];
	const struct play_member *same;
	char why[MODEL_WHY_BYTES] = "";
	struct model_host host;
	int r = 0;

	play_host_describe(play, comm, m, &host);
	if (step == ORDER_GRAPH_RING && m->took_ns > play->counts.slowest_init_ns)
		play->counts.slowest_init_ns = m->took_ns;
	if (id != MODEL_RING && m->graph_text && !is_same_text(m, answer))
		play_fail(play, comm, "rank %u reads another file for graph %d than for its rings", index, id);
	if (answer->unset) {
		model_search(id, &host, graph);
	} else if (answer->missing) {
		snprintf(why, sizeof(why), "the graph file ...%s cannot be opened", answer->name);
		r = -1;
	} else {
		text_keep(m, answer);
		same = same_text(play, comm, m, id);
		if (same)
			*graph = same->graphs[id];
		else
			r = model_read(id, answer->text, answer->text_bytes, &host,
				       play->processes[m->process].cross_nic, graph, why);
	}
	if (r == 0 && graph->from_file && m->gpu_missing) {
		snprintf(why, sizeof(why), "a plan, and its GPU is not in the topology file under that number");
		r = -1;
	}
	if (r == 0 && graph->from_file && comm->shared && !play_is_what_was_given_up(play, comm, m)) {
		snprintf(why, sizeof(why), "a plan was left behind, and a split that calls no init finds it");
		r = -1;
	}
	if (r < 0) {
		play_fail(play, comm, "rank %u: %s", index, why);
		comm->verdict = PLAY_FAIL;
		play_member_gives_up(play, number, index);
		return;
	}
	next_step(m);
}

static void topology_answered(struct play *play, unsigned number, unsigned index, const struct board_answer *answer)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];
	struct play_process *process = &play->processes[m->process];
	char why[MODEL_WHY_BYTES] = "";
	static struct { /* the last file that was looked at */
		size_t bytes;
		float latency;
		int result;
		char nic[64], text[BOARD_TEXT_BYTES];
	} last;

	next_step(m);
	if (answer->unset || answer->missing)
		return; /* NCCL says so and goes on */
	if (last.bytes != answer->text_bytes || memcmp(last.text, answer->text, last.bytes) != 0 ||
	    strcmp(last.nic, process->topology_name) != 0) {
		last.bytes = answer->text_bytes;
		memcpy(last.text, answer->text, last.bytes);
		snprintf(last.nic, sizeof(last.nic), "%s", process->topology_name);
		last.latency = model_topology_latency(answer->text, answer->text_bytes, last.nic, &last.result, why);
	}
	if (last.latency >= 0)
		m->search_latency_us = last.latency;
	if (process->user_topology)
		return;
	if (last.result < 0)
		play_fail(play, comm, "rank %u: the topology file is refused: %s", index, why);
	else if (m->gpu >= 0)
		m->gpu_missing = !model_topology_has(answer->text, answer->text_bytes, play->world->bus_ids[m->gpu],
						     play->world->devs[m->gpu]);
}

static bool more_of_it(const struct play *play, unsigned number, unsigned index)
{
	struct board_order order;

	return play_next(play, number, index, &order) == PLAY_CAN_ORDER;
}

static void net_answered(struct play *play, unsigned number, unsigned index, const struct board_answer *answer,
			 enum order_step step)
{
	struct play_member *m = &play->comms[number].members[index];
	struct play_process *process = &play->processes[m->process];

	switch (step) {
	case ORDER_INIT:
		m->has_context = true;
		break;
	case ORDER_DEVICES:
		process->devices_known = true;
		process->physical_count = process->device_count = answer->value;
		break;
	case ORDER_FUSE:
		if (m->sub == (unsigned)process->physical_count + (process->fuses && process->physical_count >= 2)) {
			process->device_count = answer->value;
			process->fused = true;
		}
		break;
	case ORDER_PROPERTIES_0:
		snprintf(process->topology_name, sizeof(process->topology_name), "%s", answer->name);
		m->search_latency_us = (float)answer->latency_us;
		break;
	case ORDER_PROPERTIES_EACH:
		m->took_ns += answer->took_ns;
		break;
	case ORDER_OOB:
		if (!process->oob_chosen) {
			process->oob_chosen = true;
			break;
		}
		m->linked++;
		break;
	case ORDER_CONNECT:
		m->linked++;
		break;
	case ORDER_FINALIZE:
		m->has_context = false;
		break;
	default:
		break;
	}
	m->sub++;
	if (step == ORDER_INIT || step == ORDER_DEVICES || step == ORDER_PROPERTIES_0 || step == ORDER_FINALIZE ||
	    step == ORDER_DEVICES_AGAIN || !more_of_it(play, number, index))
		next_step(m);
}

static void tuner_answered(struct play *play, unsigned number, unsigned index, const struct board_answer *answer,
			   enum order_step step)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];

	if (step == ORDER_TUNER_INIT && m->sub == 0) {
		m->sub = 1;
		if (answer->result < 0) { /* the library has no tuner of that version */
			next_step(m);
			return;
		}
		if (!more_of_it(play, number, index))
			next_step(m);
		return;
	}
	if (step == ORDER_TUNER_INIT && m->graphs[MODEL_RING].from_file && is_same_text(m, answer))
		play_fail(play, comm, "rank %u: the plan is still there after the tuner's init", index);
	if (step == ORDER_TUNER_ASK) {
		m->answers[m->sub] = answer->value * 1000 + answer->tuner_channels;
		if (answer->tuner_refused)
			play_fail(play, comm, "rank %u: the tuner allows what NCCL forbade, or the reverse", index);
		if (++m->sub < 4)
			return;
	}
	next_step(m);
}

/* A tuner that is not there is no failure. */
static bool is_failure(const struct board_answer *answer, enum order_step step, const struct play_process *process)
{
	if (answer->errno_changed)
		return true;
	if (step == ORDER_TUNER_INIT || step == ORDER_TUNER_ASK || step == ORDER_TUNER_END)
		return answer->result > 0;
	if (step == ORDER_FUSE && process->fuses)
		return false;
	return answer->result != 0;
}

void play_answered(struct play *play, unsigned number, unsigned index, const struct board_order *order,
		   const struct board_answer *answer)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[index];
	enum order_step step = step_of(play, m);

	play_trace_order(m, step, order, answer);
	if (answer->took_ns > play->counts.slowest_step_ns)
		play->counts.slowest_step_ns = answer->took_ns;
	if (is_failure(answer, step, &play->processes[m->process])) {
		play_fail(play, comm, "rank %u: %s gives %d%s", index, order_step_word(step), answer->result,
			  answer->errno_changed ? " and changes errno" : "");
		play_member_gives_up(play, number, index);
		return;
	}
	switch (step) {
	case ORDER_TOPOLOGY_FILE:
		topology_answered(play, number, index, answer);
		return;
	case ORDER_GRAPH_RING:
	case ORDER_GRAPH_TREE:
	case ORDER_GRAPH_CHAIN:
	case ORDER_GRAPH_DIRECT:
		graph_answered(play, number, index, answer, step);
		return;
	case ORDER_TUNER_INIT:
	case ORDER_TUNER_ASK:
	case ORDER_TUNER_END:
		tuner_answered(play, number, index, answer, step);
		return;
	default:
		net_answered(play, number, index, answer, step);
		return;
	}
}

static bool process_computes(pid_t pid)
{
	char path[64], text[512], *state;
	const struct dirent *thread;
	bool computes = false;
	DIR *threads;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	threads = opendir(path);
	while (threads && !computes && (thread = readdir(threads))) {
		if (thread->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/stat", (int)pid, thread->d_name);
		file = fopen(path, "re");
		if (!file)
			continue; /* it has ended */
		state = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
		computes = state && (state[2] == 'R' || state[2] == 'D');
		fclose(file);
	}
	if (threads)
		closedir(threads);
	return computes;
}

bool play_only_waits(const struct play *play)
{
	if (atomic_load(&play->board->still_ns))
		return false;
	/* In a PID namespace of its own a process has another number here. */
	for (unsigned i = 0; i < play->process_count; i++)
		if (play->processes[i].alive && !play->board->places[play->board->processes[i].place].own_pids &&
		    process_computes(play->board->processes[i].pid))
			return false;
	return true;
}
