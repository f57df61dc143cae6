/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of containers in docs/guide/install.md: two ranks of one host go through NCCL's init and send each other a
 * message, in one container or in one each. Which get a plan, and what the others are told.
 */
#include "board.h"
#include "container.h"
#include "place.h"
#include "world.h"

#include "nccl/env.h"
#include "nccl/v11.h"
#include "support/runtime.h"
#include "support/tree.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RANKS = 2,
	HANDLE_BYTES = 128,
	MESSAGE_BYTES = 3 << 20,
	LOG_BYTES = 16 * 1024,
	NOT_HERE = 77,
	SHOWN_BYTES = 200
};

/* What the ranks of a row share with the test. */
struct shared {
	pthread_barrier_t barrier;
	char handles[RANKS][HANDLE_BYTES];
	struct told {
		bool planned;
		size_t log_bytes;
		char log[LOG_BYTES];
	} told[RANKS];
};

/* A line of the table, and what it says. */
struct row {
	const char *line;
	unsigned kinds; /* of enum container */
	bool apart;     /* a container for each rank */
	bool elsewhere; /* TRIBUTARY_SHARED_DIR is a folder that all have */
	bool has_plan;
	const char *says; /* in a rank's log; NULL: no matter */
};

static struct world world;
static struct shared *shared;
static pthread_barrierattr_t between;
static struct told *told; /* the calling rank's */
static const char *plugin, *folder;

/* --------------------------------------------------------------------------------------------------------------- a rank */

__attribute__((format(printf, 5, 6))) static void log_line(int level, unsigned long flags, const char *file, int line,
							   const char *fmt, ...)
{
	size_t room = LOG_BYTES - told->log_bytes;
	va_list args;
	int bytes;

	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	va_start(args, fmt);
	bytes = vsnprintf(told->log + told->log_bytes, room, fmt, args);
	va_end(args);
	if (bytes > 0 && (size_t)bytes + 2 < room) {
		told->log_bytes += (size_t)bytes;
		told->log[told->log_bytes++] = '\n';
	}
}

static bool use_gpu(const char *bus_id)
{
	int (*use)(const char *bus_id);
	char path[512];
	void *driver, *symbol;

	world_library("libcuda.so.1", path, sizeof(path));
	if (rank_open_driver(path, (const char(*)[BOARD_BUS_ID_BYTES])world.bus_ids, world.gpu_count) < 0)
		return false;
	driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = driver ? dlsym(driver, "standin_driver_use") : NULL;
	memcpy(&use, &symbol, sizeof(use));
	return symbol && use(bus_id) == 0;
}

/* A message to the other rank while one comes from it. */
static int exchange(const struct nccl_net_v11 *net, void *context, unsigned rank)
{
	void *listening = NULL, *sender = NULL, *receiver = NULL, *handles[2] = { NULL }, *sending = NULL,
	     *coming = NULL;
	char *out = malloc(MESSAGE_BYTES), *in = calloc(1, MESSAGE_BYTES);
	void *buffers[1] = { in };
	size_t sizes[1] = { MESSAGE_BYTES };
	int tags[1] = { 0 }, done = 0, size, is_sent = 0;
	bool bad = !out || !in || net->listen(context, 0, shared->handles[rank], &listening) != NCCL_SUCCESS;

	pattern_fill(out, MESSAGE_BYTES, rank);
	pthread_barrier_wait(&shared->barrier);
	while (!bad && (!sender || !receiver)) {
		bad = (!sender && net->connect(context, 0, shared->handles[1 - rank], &sender, NULL) != NCCL_SUCCESS) ||
		      (!receiver && net->accept(listening, &receiver, NULL) != NCCL_SUCCESS);
		runtime_nap();
	}
	bad = bad || net->regMr(sender, out, MESSAGE_BYTES, NCCL_POINTER_HOST, &handles[0]) != NCCL_SUCCESS ||
	      net->regMr(receiver, in, MESSAGE_BYTES, NCCL_POINTER_HOST, &handles[1]) != NCCL_SUCCESS;
	while (!bad && (!done || !is_sent)) {
		if (!coming)
			bad = net->irecv(receiver, 1, buffers, sizes, tags, &handles[1], NULL, &coming) != NCCL_SUCCESS;
		else if (!done)
			bad = net->test(coming, &done, &size) != NCCL_SUCCESS;
		if (!bad && !sending)
			bad = net->isend(sender, out, MESSAGE_BYTES, 0, handles[0], NULL, &sending) != NCCL_SUCCESS;
		else if (!bad && !is_sent)
			bad = net->test(sending, &is_sent, NULL) != NCCL_SUCCESS;
		runtime_nap();
	}
	bad = bad || pattern_wrong_at(in, MESSAGE_BYTES, 1 - rank) != SIZE_MAX;
	pthread_barrier_wait(&shared->barrier);
	if (!bad)
		bad = net->closeSend(sender) != NCCL_SUCCESS || net->closeRecv(receiver) != NCCL_SUCCESS ||
		      net->closeListen(listening) != NCCL_SUCCESS;
	free(out);
	free(in);
	return bad ? -1 : 0;
}

/* In NCCL's order. */
static int rank_run_here(const struct row *row, unsigned rank)
{
	struct nccl_net_comm_config config = { .trafficClass = -1 };
	const struct nccl_env_v2 *env;
	const struct nccl_net_v11 *net;
	struct nccl_net_properties_v11 properties;
	void *library, *context = NULL;
	const char *graph;
	char text[16];
	int count = 0;

	told = &shared->told[rank];
	snprintf(text, sizeof(text), "%u", rank);
	setenv("LOCAL_RANK", text, 1);
	if (row->elsewhere)
		setenv("TRIBUTARY_SHARED_DIR", folder, 1);
	library = use_gpu(world.bus_ids[rank]) ? dlopen(plugin, RTLD_NOW | RTLD_LOCAL) : NULL;
	env = library ? dlsym(library, "ncclEnvPlugin_v2") : NULL;
	net = library ? dlsym(library, "ncclNetPlugin_v11") : NULL;
	if (!env || !net || env->init(2, 30, 7, "", log_line) != NCCL_SUCCESS)
		return 1;
	(void)env->getEnv("NCCL_NET");
	if (net->init(&context, 7, &config, log_line, NULL) != NCCL_SUCCESS || net->devices(&count) != NCCL_SUCCESS ||
	    count < 1 || net->getProperties(0, &properties) != NCCL_SUCCESS)
		return 2;
	pthread_barrier_wait(&shared->barrier);
	(void)env->getEnv("NCCL_TOPO_FILE");
	pthread_barrier_wait(&shared->barrier);
	graph = env->getEnv("NCCL_GRAPH_FILE");
	told->planned = graph && *graph;
	pthread_barrier_wait(&shared->barrier);
	(void)env->getEnv("NCCL_PROTO");
	if (exchange(net, context, rank) < 0)
		return 3;
	pthread_barrier_wait(&shared->barrier);
	return net->finalize(context) == NCCL_SUCCESS && env->finalize() == NCCL_SUCCESS ? 0 : 4;
}

/* ------------------------------------------------------------------------------------------------------------- the table */

#define NO_ENVIRONMENT (CONTAINER_PIDS | CONTAINER_USERS | CONTAINER_READ_ONLY | CONTAINER_POWERLESS)
#define ONE            "| one for the host: private `/dev/shm`, process ids, users; no capabilities | yes | |"
#define ONE_READ_ONLY \
	"| one for the host: read-only root | yes | a volume at `/var/lib/tributary`, for profiles and records |"
#define ONE_SHM                                                                                                \
	"| one for the host: read-only `/dev/shm` | no | `TRIBUTARY_SHARED_DIR`, a folder in memory that can " \
	"be written |"
#define EACH     "| one for each rank: private process ids, users; no capabilities; read-only root | yes | |"
#define EACH_SHM "| one for each rank: private `/dev/shm` | no | `--ipc=host`, as NCCL itself needs it |"

static const struct row rows[] = {
	{ ONE, CONTAINER_SHM, false, false, true, NULL },
	{ ONE, CONTAINER_PIDS, false, false, true, NULL },
	{ ONE, CONTAINER_USERS, false, false, true, NULL },
	{ ONE, CONTAINER_POWERLESS, false, false, true, NULL },
	{ ONE, CONTAINER_SHM | NO_ENVIRONMENT, false, false, true, NULL },
	{ ONE_READ_ONLY, CONTAINER_READ_ONLY, false, false, true, "cannot be kept for `tributary status`" },
	{ ONE_SHM, CONTAINER_SHM_READ_ONLY, false, false, false, ": Read-only file system" },
	{ ONE_SHM, CONTAINER_SHM_READ_ONLY, false, true, true, NULL },
	{ EACH, CONTAINER_PIDS, true, false, true, NULL },
	{ EACH, CONTAINER_USERS, true, false, true, NULL },
	{ EACH, NO_ENVIRONMENT, true, false, true, NULL },
	{ EACH_SHM, CONTAINER_SHM, true, false, false,
	  "have another shared folder: give all the same /dev/shm (--ipc=host)" },
	{ EACH_SHM, CONTAINER_SHM, true, true, false, "different profiles, settings, versions or /dev/shm" },
};

static pid_t start(unsigned kinds, const struct row *row, unsigned rank)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (kinds && container_enter(kinds) < 0)
		_exit(NOT_HERE);
	_exit(rank_run_here(row, rank));
}

static int end(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The status of the first that failed; the other one would wait for it. */
static int ranks_run(const struct row *row, unsigned kinds)
{
	pid_t pids[RANKS];
	int status = 0;

	for (unsigned i = 0; i < RANKS; i++)
		pids[i] = start(kinds, row, i);
	for (unsigned i = 0; i < RANKS; i++) {
		siginfo_t first = { .si_pid = 0 };
		int r;

		while (waitid(P_ALL, 0, &first, WEXITED | WNOWAIT) < 0 && errno == EINTR)
			;
		r = end(first.si_pid);
		for (unsigned k = 0; k < RANKS; k++) {
			pids[k] = pids[k] == first.si_pid ? 0 : pids[k];
			if (r && pids[k])
				kill(pids[k], SIGKILL);
		}
		status = status ? status : r;
	}
	return status;
}

static int row_run(const struct row *row)
{
	pid_t pid;

	if (row->apart)
		return ranks_run(row, row->kinds);
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return end(pid);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	_exit(container_enter(row->kinds) < 0 ? NOT_HERE : ranks_run(row, 0));
}

static bool is_as_said(const struct row *row)
{
	bool is_said = !row->says;

	for (unsigned i = 0; i < RANKS; i++) {
		is_said |= row->says && strstr(shared->told[i].log, row->says);
		if (shared->told[i].planned != row->has_plan)
			return false;
	}
	return is_said;
}

static void each_row_is_as_the_table_says(void **state)
{
	unsigned bad = 0, absent = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *row = &rows[i];
		int status;

		memset(shared->told, 0, sizeof(shared->told));
		pthread_barrier_init(&shared->barrier, &between, RANKS);
		status = row_run(row);
		absent += status == NOT_HERE;
		if (status == NOT_HERE || (status == 0 && is_as_said(row)))
			continue;
		bad++;
		fprintf(stderr, "%s (%u, %d): status %d\n", row->line, row->kinds, row->elsewhere, status);
		for (unsigned k = 0; k < RANKS; k++)
			fprintf(stderr, "rank %u, plan %d:\n%s", k, shared->told[k].planned, shared->told[k].log);
	}
	assert_int_equal(bad, 0);
	if (absent) {
		printf("skipped: %u of %zu containers cannot be made here\n", absent, sizeof(rows) / sizeof(rows[0]));
		skip();
	}
}

static void the_table_has_these_lines(void **state)
{
	const char *source = runtime_setting("SOURCE");
	char path[512], *page;

	(void)state;
	snprintf(path, sizeof(path), "%s/docs/guide/install.md", source ? source : ".");
	page = tree_read(path, NULL);
	assert_non_null(page);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!strstr(page, rows[i].line))
			fail_msg("%s has not: %s", path, rows[i].line);
		if (!rows[i].elsewhere)
			assert_non_null(strstr(rows[i].line, rows[i].has_plan ? "| yes |" : "| no |"));
	}
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_row_is_as_the_table_says),
		cmocka_unit_test(the_table_has_these_lines),
	};
	char name[] = "/tmp/containers-XXXXXX";
	int r;

	runtime_start("standin/containers_test", 60);
	plugin = runtime_setting("PLUGIN");
	r = places_begin();
	if (r == 0 && mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777"))
		r = -errno;
	if (r < 0) {
		printf("skipped: no namespaces here: %s\n", strerror(-r));
		return NOT_HERE;
	}
	world_make("single-root-4gpu", &world);
	folder = mkdtemp(name);
	if (!plugin || !folder || places_show_gpus(&world) < 0)
		return 1;
	world_measure(folder, "single-root-4gpu", &world);
	setenv("TRIBUTARY_PROFILE", world.profile, 1);
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_PORT", "29500", 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_barrierattr_init(&between);
	pthread_barrierattr_setpshared(&between, PTHREAD_PROCESS_SHARED);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	tree_remove(folder);
	return r;
}
