/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built library's profiler tables, versions 1 to 6, as NCCL drives them: random programs on several threads, with another
 * one that tells what channels did, as NCCL's proxy does. Each program runs in a process of its own, with a clock that only
 * it moves, and compares the operations file with a model; what is kept of a process that ends, or is killed, is looked at
 * from outside.
 */
#include "plugin_ops.h"
#include "profiler_ops.h"

#include "plugin/profiler.h"
#include "profile/operations.h"
#include "profile/tuning.h"
#include "support/runtime.h"
#include "support/tree.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { OLDEST = 1, NEWEST = 6, THREADS = 3, GROUPS = 150, GROUP_MOST = 6, COMMS = 3, SHAPES = 4 };
enum { POOL = 24, CHANNELS_MOST = 4, FLIGHTS = 64, ROWS = 1024, WINDOW_OPERATIONS = 40 };
#define GPU_NS      UINT64_C(1234567890)
#define TAKES_NS    UINT64_C(700)
#define BASE(v)     (NCCL_PROFILER_COLL | NCCL_PROFILER_P2P | ((v) == 6 ? NCCL_PROFILER_CE_COLL : 0))
#define NOBODY_ASKS 0xffffffffffff0000 /* for types that no version has */

/* ------------------------------------------------------------------------------------------------------------ the clock */

static _Atomic uint64_t clock_ns; /* 0: the machine's */

/* In place of the C library's, for the library under test too. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
	const uint64_t now_ns = atomic_load(&clock_ns);

	if (clock != CLOCK_MONOTONIC || !now_ns)
		return (int)syscall(SYS_clock_gettime, clock, ret);
	*ret = (struct timespec){ .tv_sec = (time_t)(now_ns / NS_PER_S), .tv_nsec = (long)(now_ns % NS_PER_S) };
	return 0;
}

/* --------------------------------------------------------------------------------------- in the process of one program */

static const struct profiler_ops_kind kinds[] = {
	{ "AllReduce", 4, PREDICT_ALLREDUCE, false },
	{ "AllGather", 2, PREDICT_ALLGATHER, false },
	{ "ReduceScatter", 3, PREDICT_REDUCESCATTER, false },
	{ "Broadcast", 0, PREDICT_BROADCAST, false },
	{ "Reduce", 1, PREDICT_REDUCE, false },
	{ "AlltoAll", 9, OPERATIONS_OTHER, false },
	{ "Send", 6, OPERATIONS_SEND, true },
	{ "Recv", 7, OPERATIONS_RECV, true },
};
static const struct profiler_ops_word algorithms[] = { { "TREE", 0, PREDICT_TREE },
						       { "RING", 1, PREDICT_RING },
						       { "COLLNET_CHAIN", 3, PREDICT_COLLNET_CHAIN },
						       { "PAT", 6, PREDICT_PAT },
						       { "SPIRAL", 9, -1 } },
				      protocols[] = { { "LL", 0, PREDICT_LL },
						      { "LL128", 1, PREDICT_LL128 },
						      { "SIMPLE", 2, PREDICT_SIMPLE },
						      { "LL256", 3, -1 } },
				      types[] = { { "ncclFloat32", NCCL_FLOAT32, 4 },
						  { "ncclBfloat16", NCCL_BFLOAT16, 2 },
						  { "ncclInt64", NCCL_INT64, 8 },
						  { "Unknown", NCCL_UINT8, 1 },
						  { "ncclFloat4", 200, 1 } };
static const size_t counts[] = { 0, 1, 3, 1000, 4096, 1 << 20, (size_t)1 << 40 };

struct shape {
	int ranks, nodes, rank;
};
struct comm {
	void *context;
	const struct shape *shape;
};
/* An operation of which channels may still be told. */
struct flight {
	void *context, *handle;
	unsigned channels;
};
struct row {
	struct operations_line line;
	uint64_t count, bytes;
};

static struct {
	bool captures, takes_times;
	int mask; /* NCCL's: one for all communicators */
	struct profiler_ops_operation pool[POOL];
	struct shape shapes[SHAPES];
	pthread_mutex_t lock; /* of what follows */
	struct flight flights[FLIGHTS];
	size_t flight_count, row_count;
	struct row rows[ROWS]; /* the model: what must have been counted */
	uint64_t captured;
	bool over;
} program = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t bytes_of(const struct profiler_ops_operation *operation)
{
	return (uint64_t)operation->count * (uint64_t)operation->type->value;
}

static void expect_line(const struct operations_line *line, int times, uint64_t bytes)
{
	size_t i = 0;

	pthread_mutex_lock(&program.lock);
	while (i < program.row_count && memcmp(&program.rows[i].line, line, sizeof(*line)) != 0)
		i++;
	PROFILER_OPS_MUST(i < ROWS);
	program.row_count += i == program.row_count;
	program.rows[i].line = *line;
	program.rows[i].count += (uint64_t)(int64_t)times;
	program.rows[i].bytes += (uint64_t)(int64_t)times * bytes;
	pthread_mutex_unlock(&program.lock);
}

/* Of an operation of so many bytes in a communicator of that shape, without what is the operation's own. */
static struct operations_line line_of(const struct shape *shape, uint64_t bytes)
{
	struct operations_line line;

	memset(&line, 0, sizeof(line)); /* compared as bytes */
	line.algorithm = line.protocol = line.rank = -1;
	line.size_class = (unsigned)tuning_size_class(bytes);
	if (profiler_ops_version >= 4) {
		line.rank_count = (unsigned)shape->ranks;
		line.node_count = (unsigned)shape->nodes;
		line.rank = shape->rank;
	}
	return line;
}

static void expect(const struct shape *shape, const struct profiler_ops_operation *operation, bool by_copy_engines)
{
	const int collective = operation->kind->collective;
	const bool all = collective == PREDICT_ALLGATHER || collective == PREDICT_REDUCESCATTER;
	const uint64_t bytes = bytes_of(operation) * (profiler_ops_version >= 4 && all ? (uint64_t)shape->ranks : 1);
	struct operations_line line = line_of(shape, bytes);

	line.collective = collective;
	if (!operation->kind->is_p2p && !by_copy_engines) {
		line.algorithm = operation->algorithm->value;
		line.protocol = operation->protocol->value;
	}
	if (!by_copy_engines && (!operation->kind->is_p2p || profiler_ops_version >= 4))
		line.channels = operation->channels;
	expect_line(&line, 1, bytes);
}

static void expect_broadcast_call(const struct shape *shape, const struct profiler_ops_operation *operation, int times)
{
	struct operations_line line = line_of(shape, bytes_of(operation));

	line.collective = PREDICT_BROADCAST;
	line.algorithm = PREDICT_RING;
	expect_line(&line, times, bytes_of(operation));
}

static void expect_captured(void)
{
	pthread_mutex_lock(&program.lock);
	program.captured++;
	pthread_mutex_unlock(&program.lock);
}

/* ----------------------------------------------------------------------------------------------------- what NCCL says */

static void mask_check(void)
{
	const int mask = __atomic_load_n(&program.mask, __ATOMIC_RELAXED);
	const int more = program.takes_times && profiler_ops_version >= PROFILER_OPS_WITH_CALLS
				 ? NCCL_PROFILER_KERNEL_CH
				 : 0;

	PROFILER_OPS_MUST((mask & ~more) == BASE(profiler_ops_version));
}

static void comm_open(struct comm *comm, uint64_t id, const struct shape *shape)
{
	comm->shape = shape;
	comm->context = profiler_ops_init(id, shape->ranks, shape->nodes, shape->rank, &program.mask);
	PROFILER_OPS_MUST(comm->context);
	mask_check();
}

/* -------------------------------------------------------------------------------------------------- what happens in NCCL */

/* As NCCL's proxy tells it, or up to an abort. All of an operation's channels take TAKES_NS together. */
static void fly(uint64_t *random, const struct flight *flight, bool breaks)
{
	const unsigned channels = flight->channels ? flight->channels
						   : 1 + (unsigned)random_below(random, CHANNELS_MOST);
	void *handles[CHANNELS_MOST];

	for (unsigned i = 0; i < channels; i++)
		handles[i] = profiler_ops_channel(flight->context, flight->handle,
						  GPU_NS + (i ? random_below(random, TAKES_NS) : 0));
	for (unsigned i = 0; i < channels - breaks; i++) {
		const uint64_t ns = i == channels - 1 ? TAKES_NS : random_below(random, TAKES_NS);
		union nccl_profiler_args_v5 args = { .kernelCh = { GPU_NS + ns } };

		profiler_ops_record(handles[i], NCCL_PROFILER_KERNEL_CH_STOP, &args);
		profiler_ops_stop(handles[i]);
	}
	mask_check();
}

static void *proxy(void *arg)
{
	uint64_t random = *(const uint64_t *)arg;

	for (;;) {
		struct flight flight = { .handle = NULL };
		bool over;

		pthread_mutex_lock(&program.lock);
		over = program.over && !program.flight_count;
		if (program.flight_count) {
			struct flight *at = &program.flights[random_below(&random, program.flight_count)];

			flight = *at;
			*at = program.flights[--program.flight_count];
		}
		pthread_mutex_unlock(&program.lock);
		if (over)
			return NULL;
		if (flight.context)
			fly(&random, &flight, random_below(&random, 16) == 0);
		else
			runtime_nap();
	}
}

static void take_off(uint64_t *random, struct comm *comm, void *handle, unsigned channels)
{
	const struct flight flight = { comm->context, handle, channels };
	bool is_taken;

	pthread_mutex_lock(&program.lock);
	is_taken = program.flight_count < FLIGHTS;
	if (is_taken)
		program.flights[program.flight_count++] = flight;
	pthread_mutex_unlock(&program.lock);
	if (!is_taken)
		fly(random, &flight, random_below(random, 16) == 0);
}

/* Types that this library asks for in no version, or that the version has not got. */
static void say_what_nobody_asked_for(uint64_t *random, void *context)
{
	static const uint64_t others[] = { 1,       1 << 3,  1 << 4,     1 << 5, 1 << 7, 0, NCCL_PROFILER_GROUP_API,
					   1 << 11, 1 << 13, NOBODY_ASKS };
	const size_t known = profiler_ops_version < PROFILER_OPS_WITH_CALLS ? 6 : sizeof(others) / sizeof(others[0]);
	void *handle = profiler_ops_start(context, others[random_below(random, known)], NULL, NULL);

	PROFILER_OPS_MUST(!handle);
	profiler_ops_record(handle, (unsigned)random_below(random, 40), NULL);
	profiler_ops_stop(handle);
}

/* What NCCL runs for a call. */
static void run_operation(uint64_t *random, struct comm *comm, const struct profiler_ops_operation *operation,
			  void *call, bool captured)
{
	const bool is_broadcast = operation->kind->collective == PREDICT_BROADCAST &&
				  profiler_ops_version >= PROFILER_OPS_WITH_CALLS;
	const bool by_copy_engines = profiler_ops_version == 6 && !operation->kind->is_p2p &&
				     random_below(random, 8) == 0;
	void *parent = profiler_ops_version >= PROFILER_OPS_WITH_CALLS && random_below(random, 16) == 0
			       ? NULL
			       : call; /* NCCL may not know it */
	void *handle = profiler_ops_start(comm->context,
					  by_copy_engines           ? NCCL_PROFILER_CE_COLL
					  : operation->kind->is_p2p ? NCCL_PROFILER_P2P
								    : NCCL_PROFILER_COLL,
					  parent, operation);

	if (parent && captured) {
		if (!is_broadcast)
			expect_captured();
		PROFILER_OPS_MUST(!handle);
	} else {
		if (parent && is_broadcast)
			expect_broadcast_call(comm->shape, operation, -1);
		expect(comm->shape, operation, by_copy_engines);
	}
	if (random_below(random, 2))
		profiler_ops_stop(handle);
	if (!by_copy_engines)
		take_off(random, comm, handle, operation->channels);
	if (random_below(random, 4) == 0)
		profiler_ops_stop(handle);
}

static void run_group(uint64_t *random, struct comm *comm)
{
	const bool captured = program.captures && random_below(random, 8) == 0;
	const size_t size = 1 + random_below(random, GROUP_MOST);
	const struct profiler_ops_operation *operations[GROUP_MOST];
	void *calls[GROUP_MOST];

	if (random_below(random, 4) == 0)
		say_what_nobody_asked_for(random, comm->context);
	for (size_t i = 0; i < size; i++) {
		operations[i] = &program.pool[random_below(random, POOL)];
		calls[i] = NULL;
		if (profiler_ops_version < PROFILER_OPS_WITH_CALLS)
			continue;
		calls[i] = profiler_ops_call(comm->context, operations[i], captured);
		profiler_ops_stop(calls[i]);
		if (operations[i]->kind->collective != PREDICT_BROADCAST)
			continue;
		if (captured)
			expect_captured();
		else
			expect_broadcast_call(comm->shape, operations[i], 1);
		if (random_below(random, 2))
			operations[i] = NULL; /* as in 2.30: nothing is told of how it runs */
	}
	/* NCCL sorts them. */
	for (size_t i = size; i-- > 0;) {
		if (operations[i])
			run_operation(random, comm, operations[i], calls[i], captured);
	}
	mask_check();
}

/* A data loader that was forked from the application's thread. */
static void fork_and_be_quiet(uint64_t *random, struct comm *comm)
{
	const pid_t child = fork();
	int status = -1;

	PROFILER_OPS_MUST(child >= 0);
	if (child == 0) {
		const struct profiler_ops_operation operation = { &kinds[0], &algorithms[0], &protocols[0],
								  &types[0], 1000,           2 };
		void *handle = profiler_ops_start(comm->context, NCCL_PROFILER_COLL, NULL, &operation);
		int mask = 0;

		PROFILER_OPS_MUST(!handle);
		PROFILER_OPS_MUST(!profiler_ops_channel(comm->context, comm->context, 1));
		say_what_nobody_asked_for(random, comm->context);
		PROFILER_OPS_MUST(!profiler_ops_init(1, 1, 2, 0, &mask) && !mask);
		profiler_ops_finalize(comm->context);
		profiler_ops_finalize(NULL);
		_exit(0);
	}
	PROFILER_OPS_MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct worker {
	uint64_t random;
	unsigned number;
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	uint64_t *random = &worker->random;
	struct comm comms[COMMS] = { { .context = NULL } };

	for (uint64_t i = 0; i < GROUPS; i++) {
		struct comm *comm = &comms[random_below(random, COMMS)];

		if (comm->context && random_below(random, 30) == 0) { /* with events under way */
			profiler_ops_finalize(comm->context);
			comm->context = NULL;
		}
		if (!comm->context)
			comm_open(comm, i * THREADS + worker->number, &program.shapes[random_below(random, SHAPES)]);
		run_group(random, comm);
		if (random_below(random, 15) == 0)
			atomic_fetch_add(&clock_ns, random_below(random, 25) * NS_PER_S);
		if (i == GROUPS / 2 && worker->number == 0)
			fork_and_be_quiet(random, comm);
	}
	for (unsigned i = 0; i < COMMS; i++) {
		if (comms[i].context)
			profiler_ops_finalize(comms[i].context);
	}
	return NULL;
}

/* ---------------------------------------------------------------------------------------------------------- the outcome */

static struct operations *operations_file(const char *folder)
{
	static struct operations *operations;
	char pattern[256];
	size_t bytes;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/tributary-%u/o-*", folder, (unsigned)getuid());
	PROFILER_OPS_MUST(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
	operations = (struct operations *)(void *)tree_read(found.gl_pathv[0], &bytes);
	PROFILER_OPS_MUST(operations && operations_is_whole(operations, bytes));
	globfree(&found);
	return operations;
}

static uint64_t sampled_count;

static void take_line(void *arg, const struct operations_line *line)
{
	const struct shape shape = { (int)line->rank_count, (int)line->node_count, line->rank };
	struct operations_line key = line_of(&shape, 0);

	(void)arg;
	PROFILER_OPS_MUST(line->sampled <= line->count && line->sampled_ns == line->sampled * TAKES_NS);
	PROFILER_OPS_MUST(!line->sampled || (line->least_ns == TAKES_NS && line->most_ns == TAKES_NS));
	sampled_count += line->sampled;
	key.collective = line->collective;
	key.algorithm = line->algorithm;
	key.protocol = line->protocol;
	key.channels = line->channels;
	key.size_class = line->size_class;
	for (size_t i = 0; i < program.row_count; i++) {
		struct row *row = &program.rows[i];

		if (memcmp(&row->line, &key, sizeof(key)) != 0)
			continue;
		row->count -= line->count;
		row->bytes -= line->bytes;
		return;
	}
	PROFILER_OPS_MUST(line->count == 0);
}

/* Everything that was told is in the file, and nothing else is. Prints what an end must keep. */
static void compare(const char *folder)
{
	const struct operations *operations = operations_file(folder);
	struct operations_head head;
	uint64_t told = 0;

	for (size_t i = 0; i < program.row_count; i++)
		told += program.rows[i].count;
	operations_head(operations, &head);
	operations_each(operations, take_line, NULL);
	PROFILER_OPS_MUST(head.lost == 0 && head.captured == program.captured);
	for (size_t i = 0; i < program.row_count; i++)
		PROFILER_OPS_MUST(program.rows[i].count == 0 && program.rows[i].bytes == 0);
	PROFILER_OPS_MUST(head.times == (!program.takes_times                             ? OPERATIONS_TIMES_OFF
					 : profiler_ops_version < PROFILER_OPS_WITH_CALLS ? OPERATIONS_TIMES_OLD
					 : program.captures && program.captured           ? OPERATIONS_TIMES_GRAPHS
											  : OPERATIONS_TIMES_ON));
	PROFILER_OPS_MUST(sampled_count == 0 || head.times >= OPERATIONS_TIMES_ON);
	printf("%" PRIu64 " %" PRIu64 "\n", told, program.captured);
	fflush(stdout);
}

/* A window in which nothing else runs: all of it is timed but for the two in which NCCL connects. */
static void fill_a_window(uint64_t *random)
{
	const struct profiler_ops_operation operation = { &kinds[0], &algorithms[1], &protocols[2],
							  &types[0], 1 << 20,        2 };
	struct comm comm;

	comm_open(&comm, 999, &program.shapes[0]);
	for (unsigned i = 0; i < 2 && !(i && program.mask & NCCL_PROFILER_KERNEL_CH);
	     i++) { /* the first may close one */
		atomic_fetch_add(&clock_ns, PLUGIN_PROFILER_PERIOD_NS);
		profiler_ops_stop(profiler_ops_call(comm.context, &operation, false));
	}
	for (unsigned i = 0; i < WINDOW_OPERATIONS; i++) {
		void *call = profiler_ops_call(comm.context, &operation, false);
		const struct flight flight = { comm.context,
					       profiler_ops_start(comm.context, NCCL_PROFILER_COLL, call, &operation),
					       operation.channels };

		PROFILER_OPS_MUST((flight.handle == NULL) == (i < 2));
		expect(comm.shape, &operation, false);
		fly(random, &flight, false);
	}
	profiler_ops_finalize(comm.context);
}

static void program_make(void *library, int version, const char *choice, uint64_t *random)
{
	profiler_ops_load(library, version);
	program.takes_times = strcmp(choice, "time") == 0;
	program.captures = version >= PROFILER_OPS_WITH_CALLS && random_below(random, 2);
#define ANY(of) (&(of)[random_below(random, sizeof(of) / sizeof((of)[0]))])
	for (unsigned i = 0; i < POOL; i++)
		program.pool[i] = (struct profiler_ops_operation){
			ANY(kinds), ANY(algorithms), ANY(protocols),
			ANY(types), *ANY(counts),    (unsigned)random_below(random, CHANNELS_MOST + 1)
		};
#undef ANY
	for (int i = 0; i < SHAPES; i++)
		program.shapes[i] = (struct shape){ 2 << i, 1 + i / 2, i % 2 };
}

/* PATH VERSION CHOICE SEED END: a program, in a process of its own, which ends so. */
static int program_main(char **args)
{
	uint64_t random = strtoull(args[3], NULL, 10), of_proxy;
	struct worker workers[THREADS];
	pthread_t threads[THREADS + 1];

	runtime_watchdog(60);
	atomic_store(&clock_ns, runtime_now_ns());
	program_make(dlopen(args[0], RTLD_NOW | RTLD_LOCAL), atoi(args[1]), args[2], &random);
	of_proxy = random_next(&random);
	PROFILER_OPS_MUST(pthread_create(&threads[THREADS], NULL, proxy, &of_proxy) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ random_next(&random), i };
		PROFILER_OPS_MUST(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
	}
	for (unsigned i = 0; i <= THREADS; i++) {
		if (i == THREADS) {
			pthread_mutex_lock(&program.lock);
			program.over = true;
			pthread_mutex_unlock(&program.lock);
		}
		PROFILER_OPS_MUST(pthread_join(threads[i], NULL) == 0);
	}
	if (program.takes_times && profiler_ops_version >= PROFILER_OPS_WITH_CALLS && !program.captured)
		fill_a_window(&random);
	PROFILER_OPS_MUST(program.mask == BASE(profiler_ops_version)); /* no communicator is open */
	compare(getenv("TRIBUTARY_SHARED_DIR"));
	if (strcmp(args[4], "kill") == 0)
		raise(SIGKILL);
	return 0;
}

/* ------------------------------------------------------------------------------------------------------------- outside */

struct counted {
	uint64_t told, captured;
};

/* Another program, in this folder; what it says that it was told. */
static struct counted run(const struct tree *place, int version, const char *choice, uint64_t seed, const char *end)
{
	struct counted counted = { 0 };
	char text[4][64] = { "" };
	int out[2], status = -1;
	ssize_t got;
	pid_t pid;

	snprintf(text[0], sizeof(text[0]), "%d", version);
	snprintf(text[1], sizeof(text[1]), "%" PRIu64, seed);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(out[1], STDOUT_FILENO);
		setenv("TRIBUTARY_PROFILER", choice, 1);
		setenv("TRIBUTARY_SHARED_DIR", place->root, 1);
		setenv("TRIBUTARY_STATE_DIR", place->root, 1);
		execl("/proc/self/exe", "profiler_test", "program", plugin_ops_path(), text[0], choice, text[1], end,
		      (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	do
		got = read(out[0], text[2], sizeof(text[2]) - 1);
	while (got < 0 && errno == EINTR);
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(strcmp(end, "kill") == 0 ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
	assert_int_equal(sscanf(text[2], "%" SCNu64 " %" SCNu64, &counted.told, &counted.captured), 2);
	return counted;
}

/* What is kept among the recent jobs. */
static struct counted kept(const struct tree *place)
{
	struct counted counted = { 0 };
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/jobs-*", place->root);
	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			char *text = tree_read(found.gl_pathv[i], NULL);
			struct operations_line line;
			struct operations_head head;

			for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n")) {
				if (operations_read_line(at, &line))
					counted.told += line.count;
				if (!operations_read_head(at, &head))
					continue;
				counted.told += head.lost; /* rows for which there is no line */
				counted.captured += head.captured;
			}
			free(text);
		}
		globfree(&found);
	}
	return counted;
}

static unsigned files(const struct tree *place)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "%s/tributary-%u", place->root, (unsigned)getuid());
	return tree_count(folder, "o-");
}

static void what_was_told_is_counted_and_kept(void **state)
{
	uint64_t random = runtime_seed();

	(void)state;
	for (int version = OLDEST; version <= NEWEST; version++) {
		for (int i = 0; i < (runtime_long() ? 200 : 10); i++) {
			struct tree place;
			struct counted told, left;

			tree_open(&place);
			told = run(&place, version, i % 2 ? "time" : "count", random_next(&random), "exit");
			left = kept(&place);
			assert_int_equal(left.told, told.told);
			assert_int_equal(left.captured, told.captured);
			assert_int_equal(files(&place), 0);
			tree_close(&place);
		}
	}
}

/* The next process of the user finds what it had counted. */
static void a_killed_process_loses_nothing(void **state)
{
	const struct tree *place = *state;
	uint64_t random = runtime_seed();
	const struct counted killed = run(place, 5, "time", random_next(&random), "kill");
	struct counted next, left = kept(place);

	assert_int_equal(left.told, 0);
	assert_int_equal(files(place), 1);
	next = run(place, 6, "time", random_next(&random), "exit");
	left = kept(place);
	assert_int_equal(left.told, killed.told + next.told);
	assert_int_equal(left.captured, killed.captured + next.captured);
	assert_int_equal(files(place), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_told_is_counted_and_kept),
		cmocka_unit_test_setup_teardown(a_killed_process_loses_nothing, tree_new, tree_free),
	};

	if (argc == 7 && strcmp(argv[1], "program") == 0)
		return program_main(argv + 2);
	runtime_start("profiler", 120);
	return cmocka_run_group_tests_name("conformance/profiler", tests, NULL, NULL);
}
