/* SPDX-License-Identifier: Apache-2.0 */
/* A process of a job: it has the plugin as NCCL has it, and its actors do what they are ordered. */
#include "board.h"

#include "nccl/env.h"
#include "nccl/v11.h"
#include "nccl/v12.h"
#include "support/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_ERRNO = 4242, CONTEXTS_MAX = 64, TUNER_QUESTIONS = 4 };

static struct {
	struct board *board;
	struct board_process *process;
	void *library; /* NULL: the process has no plugin */
	struct tuner_table tuner;
	const char *(*get)(const char *name);
	void *contexts[CONTEXTS_MAX]; /* of communicators whose network we are */
	unsigned context_count;
	pthread_key_t ending;
} rank;

static int (*driver_use)(const char *bus_id);

__attribute__((format(printf, 5, 6))) static void log_line(int level, unsigned long flags, const char *file, int line,
							   const char *fmt, ...)
{
	struct board_process *process = rank.process;
	size_t room = BOARD_LOG_BYTES - process->log_bytes;
	int saved_errno = errno, bytes;
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	if (room > 1) {
		va_start(args, fmt);
		bytes = vsnprintf(process->log + process->log_bytes, room - 1, fmt, args);
		va_end(args);
		process->log_bytes += bytes < 0 ? 0 : bytes > (int)room - 2 ? (uint32_t)room - 2 : (uint32_t)bytes;
		process->log[process->log_bytes++] = '\n';
		process->warnings += level <= NCCL_LEVEL_WARN;
	}
	errno = saved_errno;
}

static const void *table(const char *name, int version)
{
	char symbol[40];

	snprintf(symbol, sizeof(symbol), "%s_v%d", name, version);
	return rank.library ? dlsym(rank.library, symbol) : NULL;
}

/* ---- the net plugin ---- */

/* The slots are where version 11 has them. */
static const struct nccl_net_v11 *net_v11(void)
{
	return table("ncclNetPlugin", 11);
}

static int init_context(uint64_t comm_id, void **ret)
{
	const struct nccl_net_v12 *v12 = rank.process->net_version == 12 ? table("ncclNetPlugin", 12) : NULL;
	struct nccl_net_comm_config config = { .trafficClass = -1 };

	*ret = NULL;
	if (v12)
		return (int)v12->init(ret, comm_id, &config, log_line, NULL);
	return (int)net_v11()->init(ret, comm_id, &config, log_line, NULL);
}

/* NCCL takes its own network, and says so to finalize at once, when the properties of device 0 cannot be had. */
static int net_init(const struct board_order *order)
{
	struct nccl_net_properties_v11 properties;
	void *context;
	int r, count = 0;

	if (driver_use(order->bus_id[0] ? order->bus_id : NULL))
		return -1;
	if (!rank.library)
		return 0;
	r = init_context(order->comm_id, &context);
	if (r == NCCL_SUCCESS)
		r = (int)net_v11()->devices(&count);
	if (r != NCCL_SUCCESS)
		return r;
	if (count > 0 && net_v11()->getProperties(0, &properties) == NCCL_SUCCESS) {
		if (rank.context_count < CONTEXTS_MAX)
			rank.contexts[rank.context_count++] = context;
		return 0;
	}
	return (int)net_v11()->finalize(context);
}

/* ---- the environment ---- */

static const char *ask(const char *name)
{
	return rank.get ? rank.get(name) : getenv(name);
}

static void environment_half_open(void)
{
	const struct nccl_env_v1 *v1 = table("ncclEnvPlugin", 1);
	const struct nccl_env_v2 *v2 = table("ncclEnvPlugin", 2);

	if (rank.process->kind == BOARD_NO_ENV || !v1 || !v2)
		return;
	if (rank.process->env_version == 2)
		(void)v2->init(2, 30, 7, "", log_line);
	else
		(void)v1->init(2, 28, 9, "");
	rank.get = rank.process->env_version == 2 ? v2->getEnv : v1->getEnv;
}

/* What it names, whole, as it is at this moment. */
static void read_named(const char *path, struct board_answer *answer)
{
	int fd;

	if (!path || !*path)
		return;
	snprintf(answer->path, sizeof(answer->path), "%s", path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	answer->missing = fd < 0;
	while (fd >= 0 && answer->text_bytes < BOARD_TEXT_BYTES - 1) {
		ssize_t got = read(fd, answer->text + answer->text_bytes, BOARD_TEXT_BYTES - 1 - answer->text_bytes);

		if (got <= 0)
			break;
		answer->text_bytes += (size_t)got;
	}
	/* Reserved bytes behind the text are NULs, at which NCCL stops, too. One is always there. */
	answer->text[answer->text_bytes] = '\0';
	answer->text_bytes = strlen(answer->text);
	if (fd >= 0)
		close(fd);
}

/* ---- orders ---- */

static int tuner(const struct board_order *order, struct board_answer *answer)
{
	const int version = rank.tuner.version < 5 || rank.process->has_other_profiler ? 0
			    : rank.process->env_version == 2                           ? 6
										       : 5;
	struct tuner_choice choice = { .choice = 0 };
	struct tuner_profiler profiler = { .table = NULL };
	void *context = NULL;
	int r;

	if (!rank.tuner.version) {
		tuner_table_follow(&rank.tuner, NULL, &profiler, &answer->answers);
		return 0;
	}
	tuner_profiler_open(rank.library, version, order->comm_id, order->rank_count, order->node_count, log_line,
			    &profiler);
	r = tuner_table_init(&rank.tuner, order->comm_id, order->rank_count, order->node_count, log_line, &context);
	if (r == NCCL_SUCCESS)
		tuner_table_follow(&rank.tuner, context, &profiler, &answer->answers);
	for (int i = 0; r == NCCL_SUCCESS && i < TUNER_QUESTIONS; i++) {
		r = tuner_table_ask(&rank.tuner, context, order->comm_id, i, &choice);
		answer->tuner_choices = answer->tuner_choices * 31 + (uint32_t)(choice.choice * 64 + choice.channels);
	}
	if (r == NCCL_SUCCESS)
		r = tuner_table_end(&rank.tuner, context);
	tuner_profiler_close(&profiler);
	return r;
}

/* Nothing must come of what a child calls, and nothing happen to its parent. */
static int fork_child(void)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		void *context = NULL;
		int done = 0;

		hooks_become(rank.board, NULL);
		if (rank.library) {
			const char *graph = ask("NCCL_GRAPH_FILE"), *real = getenv("NCCL_GRAPH_FILE");

			done += init_context(77, &context) == NCCL_SUCCESS;
			done += graph != real;
		}
		_exit(done);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *worker(void *arg);

static int thread_start(unsigned number)
{
	struct board_actor *actor = &rank.process->actors[number];
	pthread_t thread;

	return pthread_create(&thread, NULL, worker, actor) || pthread_detach(thread) ? -1 : 0;
}

_Noreturn static void end_process(bool at_once)
{
	hooks_become(rank.board, NULL); /* the controller waits for the end */
	if (at_once)
		_exit(0);
	for (unsigned i = 0; i < rank.context_count; i++)
		(void)net_v11()->finalize(rank.contexts[i]);
	exit(0);
}

static int obey(const struct board_order *order, struct board_answer *answer)
{
	const char *path;

	switch (order->op) {
	case BOARD_ASK_NET:
		(void)ask("NCCL_NET");
		(void)ask("NCCL_COLLNET_ENABLE");
		return 0;
	case BOARD_THREAD:
		return thread_start((unsigned)order->value);
	case BOARD_INIT:
		return net_init(order);
	case BOARD_DUMP:
		(void)ask("NCCL_TOPO_DUMP_FILE");
		return 0;
	case BOARD_TOPOLOGY:
	case BOARD_GRAPH:
		path = ask(order->op == BOARD_GRAPH ? "NCCL_GRAPH_FILE" : "NCCL_TOPO_FILE");
		answer->errno_changed = errno != NO_ERRNO;
		read_named(path, answer);
		return 0;
	case BOARD_TUNER:
		return tuner(order, answer);
	case BOARD_PROTO:
		(void)ask("NCCL_PROTO");
		return 0;
	case BOARD_ALGO:
		(void)ask("NCCL_ALGO");
		return 0;
	case BOARD_FORK:
		answer->value = fork_child();
		return 0;
	case BOARD_EXIT:
		end_process(order->value);
	case BOARD_END:
		break;
	}
	return 0;
}

static void serve(struct board_actor *actor)
{
	hooks_become(rank.board, actor);
	for (;;) {
		enum board_op op;

		hooks_give(BOARD_IDLE);
		op = actor->order.op;
		memset(&actor->answer, 0, offsetof(struct board_answer, text));
		if (op == BOARD_END)
			return;
		errno = NO_ERRNO;
		actor->answer.result = obey(&actor->order, &actor->answer);
		/* The C library and this file may change it in these. */
		actor->answer.errno_changed |= errno != NO_ERRNO && op != BOARD_TOPOLOGY && op != BOARD_GRAPH &&
					       op != BOARD_FORK && op != BOARD_THREAD;
	}
}

/* Called again in the next round of destructors, behind the plugin's. */
static void thread_ended(void *arg)
{
	static _Thread_local bool again;
	struct board_actor *actor = arg;

	if (!again) {
		again = true;
		pthread_setspecific(rank.ending, arg);
		return;
	}
	hooks_become(rank.board, NULL);
	atomic_store(&actor->state, BOARD_ABSENT);
	atomic_fetch_add(&rank.board->bell, 1);
	board_wake(&rank.board->bell);
}

static void *worker(void *arg)
{
	struct board_actor *actor = arg;

	pthread_setspecific(rank.ending, actor);
	serve(actor);
	return NULL;
}

int rank_open_driver(const char *path, const char (*bus_ids)[BOARD_BUS_ID_BYTES], unsigned count)
{
	void (*show)(const char(*)[BOARD_BUS_ID_BYTES], int);
	void *driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbols[2] = { driver ? dlsym(driver, "standin_driver_show") : NULL,
			     driver ? dlsym(driver, "standin_driver_use") : NULL };

	if (!symbols[0] || !symbols[1]) {
		fprintf(stderr, "standin: %s: %s\n", path, dlerror());
		return -1;
	}
	memcpy(&show, &symbols[0], sizeof(show));
	memcpy(&driver_use, &symbols[1], sizeof(driver_use));
	show(bus_ids, (int)count);
	return 0;
}

_Noreturn void rank_run(struct board *board, unsigned process, void *library, void *other_build)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS };

	rank.board = board;
	rank.process = &board->processes[process];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		signal(faults[i], SIG_DFL); /* cmocka has its own */
	for (unsigned i = 0; i < rank.process->variable_count; i++) {
		char *name = rank.process->variables[i], *value = strchr(name, '=');

		*value = '\0';
		setenv(name, value + 1, 1);
		*value = '=';
	}
	if (rank.process->kind != BOARD_NO_PLUGIN)
		rank.library = rank.process->kind == BOARD_OTHER_BUILD ? other_build : library;
	if (rank.library)
		tuner_table_find(rank.library, rank.process->tuner_version, &rank.tuner);
	environment_half_open();
	if (pthread_key_create(&rank.ending, thread_ended))
		_exit(3);
	for (unsigned i = 1; i < BOARD_CALLERS; i++)
		if (thread_start(i) < 0)
			_exit(3);
	serve(&rank.process->actors[0]);
	_exit(3);
}
