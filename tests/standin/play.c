#include "play.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	PATIENCE_MS = 5, /* a call that takes longer waits for others, probably */
	STILL_MS = 250,  /* and when all do: for time to pass */
	LEAP_MS = 1000,
	PLACE_MS = 60000, /* for a hang alone: the kernel may take long to end a namespace */
	MEMBERS = PLAY_MEMBERS_MAX,
};

/* ---- places ---- */

/* 0, or -ETIMEDOUT. */
static int word_reaches(_Atomic uint32_t *word, uint32_t value, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);

	for (uint32_t now = atomic_load(word); now != value; now = atomic_load(word)) {
		if (runtime_past(deadline_ns))
			return -ETIMEDOUT;
		board_wait(word, now, 50);
	}
	return 0;
}

int play_place_order(struct play *play, unsigned number, enum board_place_op op, unsigned argument)
{
	struct board_place *place = &play->board->places[number];
	uint32_t next = atomic_load(&place->ordered) + 1;

	place->op = op;
	place->argument = argument;
	place->seed = random_next(&play->random);
	atomic_store(&place->ordered, next);
	board_wake(&place->ordered);
	if (op == BOARD_PLACE_END)
		return 0;
	while (atomic_load(&place->answered) != next + 1) {
		uint32_t bell = atomic_load(&play->board->bell);

		if (atomic_load(&place->answered) != next + 1)
			board_wait(&play->board->bell, bell, 50);
		if (kill(place->pid, 0))
			fail_msg("a simulated host ended");
	}
	return place->result;
}

int play_open(struct play *play, const struct board_place *places, unsigned place_count, const char *plugin)
{
	memset(play, 0, sizeof(*play));
	play->board = board_make();
	if (!play->board)
		return -ENOMEM;
	snprintf(play->plugin, sizeof(play->plugin), "%s", plugin);
	world_library("libcuda.so.1", play->board->driver, sizeof(play->board->driver));
	for (unsigned i = 0; i < place_count; i++) {
		struct board_place *place = &play->board->places[i];
		pid_t pid;

		*place = places[i];
		pid = fork();
		if (pid == 0)
			place_run(play->board, i);
		place->pid = pid;
		if (pid < 0 || word_reaches(&place->answered, 1, PLACE_MS) < 0)
			return -EAGAIN;
		if (place->result < 0)
			return place->result;
	}
	return 0;
}

void play_close(struct play *play)
{
	for (unsigned i = 0; i < BOARD_PLACES_MAX; i++) {
		pid_t pid = play->board->places[i].pid;

		if (pid > 0) {
			kill(pid, SIGKILL); /* its processes go with it */
			waitpid(pid, NULL, 0);
		}
	}
}

/* ---- saying what went wrong ---- */

const char *play_log(const struct play *play, unsigned process)
{
	static char text[BOARD_LOG_BYTES + 1];
	const struct board_process *shared = &play->board->processes[process];
	uint32_t bytes = atomic_load(&shared->log_bytes);

	if (bytes > BOARD_LOG_BYTES)
		bytes = BOARD_LOG_BYTES;
	memcpy(text, shared->log, bytes);
	text[bytes] = '\0';
	return text;
}

static void say_comm(const struct play *play, const struct play_comm *comm)
{
	fprintf(stderr, "  communicator %" PRIx64 ":", comm->id);
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *m = &comm->members[i];
		const struct play_process *process = &play->processes[m->process];

		fprintf(stderr, " r%u=p%u.t%u@host%d,gpu%d,%s%s", i, m->process, m->thread, process->host,
			m->gpu < 0 ? -1 : play->world->devs[m->gpu],
			order_step_word(play->order.steps[m->program][m->at]), m->state == PLAY_DEAD ? "(dead)" : "");
	}
	fprintf(stderr, "\n");
	for (unsigned i = 0; i < comm->member_count; i++)
		fprintf(stderr, "  rank %u saw: %s\n", i, comm->members[i].trace);
}

/* What the processes of a communicator have done before it. */
static void say_history(const struct play *play, const struct play_comm *comm)
{
	for (const struct play_comm *c = play->comms; c < comm; c++)
		say_comm(play, c);
}

void play_fail(struct play *play, const struct play_comm *comm, const char *fmt, ...)
{
	char text[512];
	va_list args;

	play->counts.failures++;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!play->failure[0])
		memcpy(play->failure, text, sizeof(text));
	if (play->quiet)
		return;
	fprintf(stderr, "FAILURE: %s\n", text);
	if (!comm)
		return;
	say_history(play, comm);
	say_comm(play, comm);
	for (unsigned i = 0; i < comm->member_count; i++) {
		const struct play_member *m = &comm->members[i];

		fprintf(stderr, "  rank %u read: %.*s\n", i, m->graph_text ? (int)m->graph_bytes : 7,
			m->graph_text ? m->graph_text : "nothing");
		if (m->thread == 0)
			fprintf(stderr, "  and its process logged:\n%s", play_log(play, m->process));
	}
}

/* ---- processes ---- */

static void environment_add(struct board_process *process, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void environment_add(struct board_process *process, const char *fmt, ...)
{
	va_list args;
	int bytes;

	assert_true(process->environment_count < BOARD_ENVIRONMENT_MAX);
	va_start(args, fmt);
	bytes = vsnprintf(process->environment[process->environment_count++], BOARD_VALUE_BYTES, fmt, args);
	va_end(args);
	assert_true(bytes > 0 && bytes < BOARD_VALUE_BYTES);
}

static bool has_extra(const struct play_launch *launch, const char *name)
{
	for (unsigned i = 0; i < PLAY_EXTRA_MAX; i++)
		if (launch->extra[i] && !strncmp(launch->extra[i], name, strlen(name)) &&
		    launch->extra[i][strlen(name)] == '=' && launch->extra[i][strlen(name) + 1])
			return true;
	return false;
}

static void environment_fill(const struct play *play, const struct play_launch *launch, struct board_process *process)
{
	environment_add(process, "RANK=%d", launch->rank);
	environment_add(process, "WORLD_SIZE=%d", launch->world_size);
	environment_add(process, "LOCAL_RANK=%d", launch->local_rank);
	if (launch->local_size)
		environment_add(process, "LOCAL_WORLD_SIZE=%d", launch->local_size);
	else
		environment_add(process, "LOCAL_WORLD_SIZE=");
	environment_add(process, "MASTER_ADDR=127.0.0.1");
	environment_add(process, "MASTER_PORT=%d", 29500 + launch->job);
	environment_add(process, "TORCHELASTIC_RUN_ID=job%d", launch->job);
	/* NCCL tells hosts apart by their names, which simulated ones share; and other tests may run beside this one. */
	environment_add(process, "NCCL_HOSTID=host%d-of-%d", launch->host, (int)getpid());
	environment_add(process, "NCCL_TOPO_FILE=");
	environment_add(process, "NCCL_GRAPH_FILE=");
	environment_add(process, "TRIBUTARY_STATE_DIR=/nonexistent");
	environment_add(process, "TRIBUTARY_PROFILE=%s", launch->profile ? launch->profile : play->world->profile);
	for (unsigned i = 0; i < PLAY_EXTRA_MAX; i++)
		if (launch->extra[i])
			environment_add(process, "%s", launch->extra[i]);
}

unsigned play_process(struct play *play, const struct play_launch *launch)
{
	unsigned number = play->process_count++;
	struct board_process *shared;
	struct play_process *process;

	assert_true(number < BOARD_PROCESSES_MAX);
	shared = &play->board->processes[number];
	process = &play->processes[number];
	memset(process, 0, sizeof(*process));
	process->alive = true;
	process->host = launch->host;
	process->job = launch->job;
	process->plugin_owner = process->net_owner = -1;
	process->net_version = launch->net_version ? launch->net_version : 12;
	process->tuner_version = launch->tuner_version < 0 ? 0 : launch->tuner_version ? launch->tuner_version : 6;
	process->user_topology = has_extra(launch, "NCCL_TOPO_FILE");
	process->oob = has_extra(launch, "NCCL_OOB_NET_ENABLE");
	process->collnet = has_extra(launch, "NCCL_COLLNET_ENABLE");
	process->dump = has_extra(launch, "NCCL_TOPO_DUMP_FILE");
	process->eager = has_extra(launch, "STANDIN_EAGER");
	process->fuses = has_extra(launch, "NCCL_NET_FORCE_MERGE");
	process->cross_nic = has_extra(launch, "NCCL_CROSS_NIC") ? 0 : 2;
	shared->place = launch->place;
	shared->user = launch->user;
	shared->thread_count = launch->thread_count ? launch->thread_count : 1;
	shared->net_version = process->net_version;
	shared->tuner_version = process->tuner_version;
	shared->no_driver = launch->no_driver;
	snprintf(shared->plugin, sizeof(shared->plugin), "%s", play->plugin);
	memcpy(shared->gpus, play->world->bus_ids, sizeof(shared->gpus));
	shared->gpu_count = play->world->gpu_count;
	environment_fill(play, launch, shared);
	assert_int_equal(play_place_order(play, launch->place, BOARD_PLACE_FORK, number), 0);
	return number;
}

unsigned play_processes(struct play *play, struct play_launch launch, unsigned count, int first_rank)
{
	unsigned first = play->process_count;

	for (unsigned i = 0; i < count; i++) {
		launch.rank = first_rank + (int)i;
		launch.local_rank = (int)i;
		play_process(play, &launch);
	}
	return first;
}

static void wait_for_death(struct play *play, unsigned number)
{
	struct board_process *shared = &play->board->processes[number];

	if (word_reaches(&shared->dead, 1, PLACE_MS) < 0)
		fail_msg("process %u does not die", number);
}

/* Its ranks are gone; the others of its communicators will notice. */
static void bury(struct play *play, unsigned number)
{
	play->processes[number].alive = false;
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			struct play_member *m = &play->comms[c].members[i];

			if (m->process == number && m->state != PLAY_ENDED && m->state != PLAY_FAILED) {
				m->state = PLAY_DEAD;
				play->comms[c].broken = true;
			}
		}
}

void play_kill(struct play *play, unsigned number)
{
	if (!play->processes[number].alive)
		return;
	kill(play->board->processes[number].pid, SIGKILL);
	wait_for_death(play, number);
	bury(play, number);
	play->counts.kills++;
}

void play_reset(struct play *play, const struct world *world, const char *order_version, uint64_t seed, bool wipe)
{
	const char *source = runtime_setting("SOURCE");
	char path[512];

	for (unsigned i = 0; i < play->process_count; i++) {
		if (play->processes[i].alive) {
			kill(play->board->processes[i].pid, SIGKILL);
			wait_for_death(play, i);
		}
		/* The large texts need not be emptied. */
		memset(&play->board->processes[i], 0, offsetof(struct board_process, log));
		for (unsigned s = 0; s < BOARD_SLOTS_OF_PROCESS; s++)
			memset(&play->board->processes[i].slots[s], 0, offsetof(struct board_slot, answer));
	}
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++)
			free(play->comms[c].members[i].graph_text);
	play->process_count = play->comm_count = 0;
	atomic_store(&play->board->passed_ns, 0);
	play->burst = play->proxy = play->kill_after_steps = 0;
	play->kill_inside = false;
	play->failure[0] = '\0';
	play->hang_ms = 25000;
	play->world = world;
	random_init(&play->random, seed);
	for (unsigned i = 0; wipe && i < BOARD_PLACES_MAX; i++)
		if (play->board->places[i].pid && !play->board->places[i].shared)
			assert_int_equal(play_place_order(play, i, BOARD_PLACE_WIPE, 0), 0);
	snprintf(path, sizeof(path), "%s/tests/standin/steps-%s.txt", source ? source : ".", order_version);
	order_read(path, &play->order);
}

/* ---- communicators ---- */

unsigned play_comm(struct play *play, int parent, bool shared)
{
	unsigned number = play->comm_count++;
	struct play_comm *comm;

	assert_true(number < BOARD_COMMS_MAX);
	comm = &play->comms[number];
	memset(comm, 0, sizeof(*comm));
	comm->id = random_next(&play->random);
	comm->parent = parent;
	comm->shared = shared;
	return number;
}

struct play_member *play_join(struct play *play, unsigned number, unsigned process, unsigned thread, int gpu)
{
	struct play_comm *comm = &play->comms[number];
	struct play_member *m = &comm->members[comm->member_count++];

	assert_true(comm->member_count <= PLAY_MEMBERS_MAX);
	memset(m, 0, sizeof(*m));
	m->process = process;
	m->thread = thread;
	m->gpu = gpu;
	m->state = play->processes[process].alive ? PLAY_RUNS : PLAY_DEAD;
	m->program = comm->shared ? ORDER_SHARED : play->processes[process].dump ? ORDER_DUMP : ORDER_NEW;
	comm->broken |= m->state == PLAY_DEAD;
	for (int i = 0; i < 4; i++)
		m->answers[i] = -2;
	return m;
}

unsigned play_comm_of(struct play *play, unsigned first_process, const int *locals, unsigned count)
{
	unsigned comm = play_comm(play, -1, false);

	for (unsigned i = 0; i < count; i++)
		play_join(play, comm, first_process + (unsigned)locals[i], 0, locals[i]);
	return comm;
}

void play_pass_time(struct play *play, unsigned milliseconds)
{
	atomic_fetch_add(&play->board->passed_ns, (uint64_t)milliseconds * 1000000);
}

void play_stop_time(struct play *play, bool stop)
{
	atomic_store(&play->board->still_ns, stop ? runtime_now_ns() : 0);
}

void play_give_up(struct play *play, unsigned comm)
{
	play->comms[comm].broken = true;
}

void play_end(struct play *play, unsigned number)
{
	struct play_comm *comm = &play->comms[number];

	for (unsigned i = 0; i < comm->member_count; i++) {
		struct play_member *m = &comm->members[i];

		if (m->state != PLAY_READY)
			continue;
		m->state = comm->shared ? PLAY_ENDED : PLAY_RUNS;
		m->program = ORDER_END;
		m->at = m->sub = 0;
	}
}

/* ---- orders and answers ---- */

static struct board_slot *slot_of(struct play *play, unsigned process, unsigned thread)
{
	return &play->board->processes[process].slots[thread];
}

static void order_give(struct play *play, unsigned process, unsigned thread, const struct board_order *order)
{
	struct board_slot *slot = slot_of(play, process, thread);

	slot->order = *order;
	atomic_fetch_add(&slot->ordered, 1);
	board_wake(&slot->ordered);
	play->counts.steps++;
}

static bool is_answered(struct play *play, unsigned process, unsigned thread)
{
	struct board_slot *slot = slot_of(play, process, thread);

	return atomic_load(&slot->answered) == atomic_load(&slot->ordered);
}

const struct board_answer *play_order(struct play *play, unsigned process, unsigned thread,
				      const struct board_order *order)
{
	struct board_slot *slot = slot_of(play, process, thread);

	assert_true(play->processes[process].alive && is_answered(play, process, thread));
	order_give(play, process, thread, order);
	if (word_reaches(&slot->answered, atomic_load(&slot->ordered), play->hang_ms) < 0)
		fail_msg("process %u does not answer order %d", process, (int)order->op);
	return &slot->answer;
}

static void notice_deaths(struct play *play)
{
	for (unsigned i = 0; i < play->process_count; i++) {
		int status = play->board->processes[i].status;

		if (!play->processes[i].alive || !atomic_load(&play->board->processes[i].dead))
			continue;
		bury(play, i);
		play_fail(play, NULL, "process %u ended by itself: %s %d\n%s", i,
			  WIFSIGNALED(status) ? "signal" : "status",
			  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), play_log(play, i));
	}
}

static void notice_answers(struct play *play)
{
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			struct play_member *m = &play->comms[c].members[i];
			const struct board_slot *slot;

			if (m->state != PLAY_ORDERED || !is_answered(play, m->process, play_slot(play, m)))
				continue;
			m->state = PLAY_RUNS;
			slot = slot_of(play, m->process, play_slot(play, m));
			play_answered(play, c, i, &slot->order, &slot->answer);
		}
	for (unsigned p = 0; p < play->process_count; p++) {
		struct play_process *process = &play->processes[p];
		const struct board_answer *answer = &slot_of(play, p, BOARD_THREADS_MAX)->answer;

		if (!process->alive || !process->proxy_ordered || !is_answered(play, p, BOARD_THREADS_MAX))
			continue;
		process->proxy_ordered = false;
		/* -1: the communicator was finalized before the thread came to it. */
		if (answer->result > 0 || answer->errno_changed)
			play_fail(play, NULL, "the proxy thread of process %u got %d%s", p, answer->result,
				  answer->errno_changed ? ", and errno changed" : "");
	}
}

/* ---- who goes on ---- */

/* An earlier communicator is still in init on the same thread. */
static bool thread_is_busy(const struct play *play, unsigned number, const struct play_member *m)
{
	for (unsigned c = 0; c < number; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			const struct play_member *other = &play->comms[c].members[i];

			if (other->process == m->process && other->thread == m->thread &&
			    (other->state == PLAY_RUNS || other->state == PLAY_ORDERED || other->state == PLAY_WAITS))
				return true;
		}
	return false;
}

struct candidate {
	unsigned comm, member;
};

static unsigned candidates_find(struct play *play, struct candidate *ret, unsigned most, bool *ret_outstanding)
{
	unsigned count = 0;
	struct board_order order;

	*ret_outstanding = false;
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			const struct play_member *m = &play->comms[c].members[i];

			*ret_outstanding |= m->state == PLAY_ORDERED;
			if ((m->state != PLAY_RUNS && m->state != PLAY_WAITS) || thread_is_busy(play, c, m) ||
			    !is_answered(play, m->process, play_slot(play, m)) ||
			    play_next(play, c, i, &order) == PLAY_CAN_NOT)
				continue;
			if (count < most)
				ret[count++] = (struct candidate){ c, i };
		}
	return count;
}

/* Steps without an order, until there is one or others must come first. */
static bool go_on(struct play *play, const struct candidate *who, struct board_order *ret)
{
	struct play_member *m = &play->comms[who->comm].members[who->member];

	while (m->state == PLAY_RUNS || m->state == PLAY_WAITS) {
		enum play_can can;

		memset(ret, 0, sizeof(*ret));
		can = play_next(play, who->comm, who->member, ret);
		if (can == PLAY_CAN_NOT)
			return false;
		if (can == PLAY_CAN_ORDER && !is_answered(play, m->process, play_slot(play, m)))
			return false;
		if (can == PLAY_CAN_ORDER) {
			ret->comm = who->comm;
			ret->thread = m->thread;
			return true;
		}
		play_pass(play, who->comm, who->member);
	}
	return false;
}

static void nap_us(uint64_t microseconds)
{
	struct timespec time = { .tv_nsec = (long)microseconds * 1000 };

	nanosleep(&time, NULL);
}

/* A communicator of several hosts that the process has: NCCL connects it late, in its proxy thread. */
static bool proxy_comm(const struct play *play, unsigned process, struct board_order *ret)
{
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			const struct play_member *m = &play->comms[c].members[i];

			if (m->process != process || m->state != PLAY_READY || !m->has_context ||
			    play_host_count(play, &play->comms[c]) < 2)
				continue;
			ret->comm = c;
			ret->thread = m->thread;
			return true;
		}
	return false;
}

/* First the device's properties, then a listener, which is closed again. */
static void proxy_asks(struct play *play)
{
	static const enum board_op ops[] = { BOARD_PROPERTIES, BOARD_LISTEN, BOARD_CLOSE };
	struct board_order order = { .op = BOARD_PROPERTIES };
	struct play_process *process;
	unsigned p;

	if (!play->proxy || !play->process_count || random_below(&play->random, 100) >= play->proxy)
		return;
	p = (unsigned)random_below(&play->random, play->process_count);
	process = &play->processes[p];
	if (!process->alive || !is_answered(play, p, BOARD_THREADS_MAX) || !proxy_comm(play, p, &order))
		return;
	order.op = ops[process->proxy_asked++ % 3];
	process->proxy_ordered = true;
	order_give(play, p, BOARD_THREADS_MAX, &order);
}

static bool kill_is_due(struct play *play)
{
	return play->kill_after_steps && --play->kill_after_steps == 0 && play->processes[play->kill_process].alive;
}

static void answers_wait(struct play *play, const struct candidate *issued, unsigned count, unsigned milliseconds)
{
	uint64_t deadline_ns = runtime_deadline_ns(milliseconds);

	for (;;) {
		uint32_t bell = atomic_load(&play->board->bell);
		bool all = true;

		for (unsigned i = 0; i < count; i++) {
			const struct play_member *m = &play->comms[issued[i].comm].members[issued[i].member];

			all &= m->state != PLAY_ORDERED || is_answered(play, m->process, play_slot(play, m)) ||
			       atomic_load(&play->board->processes[m->process].dead);
		}
		if (all || runtime_past(deadline_ns))
			return;
		board_wait(&play->board->bell, bell, 10);
	}
}

static void give_orders(struct play *play, struct candidate *candidates, unsigned count)
{
	unsigned wanted = 1, issued = 0;
	struct candidate chosen[MEMBERS];
	bool dies = kill_is_due(play);

	if (random_below(&play->random, 100) < play->burst)
		wanted = 1 + (unsigned)random_below(&play->random, count < MEMBERS ? count : MEMBERS);
	if (dies && !play->kill_inside) {
		play_kill(play, play->kill_process);
		return;
	}
	while (count && issued < wanted) {
		unsigned at = (unsigned)random_below(&play->random, count);
		struct play_member *m = &play->comms[candidates[at].comm].members[candidates[at].member];
		struct board_order order;

		if (go_on(play, &candidates[at], &order)) {
			order_give(play, m->process, play_slot(play, m), &order);
			m->state = PLAY_ORDERED;
			chosen[issued++] = candidates[at];
			proxy_asks(play);
		} else {
			wanted -= wanted > 1;
			if (!issued && wanted == 1)
				wanted = 0; /* it has passed a step: look anew who can go on */
		}
		candidates[at] = candidates[--count];
	}
	if (dies) {
		nap_us(random_below(&play->random, 2000));
		play_kill(play, play->kill_process);
	}
	answers_wait(play, chosen, issued, PATIENCE_MS);
}

static void name_the_hanging(struct play *play)
{
	for (unsigned c = 0; c < play->comm_count; c++)
		for (unsigned i = 0; i < play->comms[c].member_count; i++) {
			const struct play_member *m = &play->comms[c].members[i];

			if (m->state == PLAY_ORDERED) {
				play_fail(play, &play->comms[c], "rank %u hangs in %s", i,
					  order_step_word(play->order.steps[m->program][m->at]));
				play_kill(play, m->process);
			}
		}
}

/* Nobody can go on but when some time has passed: it need not be waited for. Not where a call may just be slow. */
static void hasten(struct play *play, uint64_t *leap_ns)
{
	if (runtime_sanitized() || !runtime_past(*leap_ns) || !play_only_waits(play))
		return;
	play_pass_time(play, LEAP_MS);
	*leap_ns = runtime_deadline_ns(STILL_MS);
}

void play_run(struct play *play)
{
	uint64_t deadline_ns = runtime_deadline_ns(play->hang_ms), leap_ns = runtime_deadline_ns(STILL_MS);
	struct candidate candidates[BOARD_COMMS_MAX * 4];

	for (;;) {
		bool outstanding;
		unsigned count;

		notice_deaths(play);
		notice_answers(play);
		count = candidates_find(play, candidates, BOARD_COMMS_MAX * 4, &outstanding);
		if (count) {
			deadline_ns = runtime_deadline_ns(play->hang_ms);
			leap_ns = runtime_deadline_ns(STILL_MS);
			give_orders(play, candidates, count);
			continue;
		}
		if (!outstanding)
			return;
		if (runtime_past(deadline_ns)) {
			name_the_hanging(play);
			deadline_ns = runtime_deadline_ns(play->hang_ms);
			continue;
		}
		hasten(play, &leap_ns);
		board_wait(&play->board->bell, atomic_load(&play->board->bell), 5);
	}
}
