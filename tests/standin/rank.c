/* A process of a job: it loads the plugin as NCCL does and does, thread by thread, what its slots order. */
#include "board.h"
#include "tuner_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/netplugin.h"
#include "common/netplugin_table.h"

struct rank_comm {
	struct netplugin_context *context;
	void *listener, *send_comm, *tuner;
};

static struct {
	struct board *board;
	struct board_process *process;
	struct netplugin *plugin;
	struct tuner_table tuner;
	int (*use)(const char *bus_id);
	_Atomic unsigned calls;
	struct rank_comm comms[BOARD_SLOTS_OF_PROCESS][BOARD_COMMS_MAX];
} rank;

static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static void log_line(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	int saved = errno, bytes;
	char text[600];
	uint32_t at;
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	va_start(args, fmt);
	bytes = vsnprintf(text, sizeof(text) - 4, fmt, args);
	va_end(args);
	if (bytes > 0) {
		if (bytes > (int)sizeof(text) - 5)
			bytes = (int)sizeof(text) - 5;
		text[bytes++] = level <= NCCL_LEVEL_WARN ? '!' : ' ';
		text[bytes++] = '\n';
		at = atomic_fetch_add(&rank.process->log_bytes, (uint32_t)bytes);
		if (at + (uint32_t)bytes < BOARD_LOG_BYTES)
			memcpy(rank.process->log + at, text, (size_t)bytes);
	}
	errno = saved;
}

/* In place of libc's, also for the plugin: time passes when the controller says so, and nobody has to wait for it. */
__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int r = (int)syscall(SYS_clock_gettime, clock, ret);

	if (r == 0 && rank.board && (clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME)) {
		uint64_t now_ns = (uint64_t)ret->tv_sec * 1000000000 + (uint64_t)ret->tv_nsec;
		uint64_t still_ns = atomic_load(&rank.board->still_ns);

		now_ns = (still_ns ? still_ns : now_ns) + atomic_load(&rank.board->passed_ns);
		ret->tv_sec = (time_t)(now_ns / 1000000000);
		ret->tv_nsec = (long)(now_ns % 1000000000);
	}
	return r;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What a variable names, whole, as it is at this moment. */
static void read_named(const char *variable, struct board_answer *answer)
{
	const char *path = getenv(variable);
	size_t length;
	int fd;

	answer->unset = !path || !*path;
	if (answer->unset)
		return;
	length = strlen(path);
	snprintf(answer->name, sizeof(answer->name), "%s", path + (length > 63 ? length - 63 : 0));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	answer->missing = fd < 0;
	if (fd < 0)
		return;
	while (answer->text_bytes < BOARD_TEXT_BYTES) {
		ssize_t got = read(fd, answer->text + answer->text_bytes, BOARD_TEXT_BYTES - answer->text_bytes);

		if (got <= 0)
			break;
		answer->text_bytes += (size_t)got;
	}
	close(fd);
}

static void environment_tell(struct board_answer *answer)
{
	for (char **at = environ; *at; at++) {
		size_t bytes = strlen(*at) + 1;

		if ((strncmp(*at, "NCCL_", 5) != 0 && !strstr(*at, "TRIBUTARY")) ||
		    answer->text_bytes + bytes > BOARD_TEXT_BYTES)
			continue;
		memcpy(answer->text + answer->text_bytes, *at, bytes);
		answer->text_bytes += bytes;
	}
}

static int properties(const struct board_order *order, struct board_answer *answer)
{
	struct netplugin_properties properties;
	int r = netplugin_properties(rank.plugin, order->device, &properties);

	if (r == NCCL_SUCCESS) {
		answer->value = properties.member_count;
		answer->latency_us = (int)properties.latency_us;
		snprintf(answer->name, sizeof(answer->name), "%s", properties.name);
	}
	return r;
}

/* What a data loader does to us: nothing, it must not get anything done. Its status: calls that succeeded. */
static int fork_child(void)
{
	int status, value;
	pid_t pid = fork();

	if (pid == 0) {
		struct netplugin_context *context = NULL;
		struct netplugin_properties got;
		int done = 0;

		done += netplugin_init(rank.plugin, 77, -1, log_line, &context) == NCCL_SUCCESS &&
			netplugin_version(rank.plugin) >= 11;
		done += netplugin_properties(rank.plugin, 0, &got) == NCCL_SUCCESS;
		done += netplugin_devices(rank.plugin, &value) == NCCL_SUCCESS;
		_exit(done);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int obey_tuner(const struct board_order *order, struct board_answer *answer, struct rank_comm *comm)
{
	if (!rank.tuner.version)
		return order->op == BOARD_TUNER_END ? NCCL_SUCCESS : -1;
	if (order->op == BOARD_TUNER_INIT)
		return tuner_table_init(&rank.tuner, order->comm_id, (size_t)order->rank_count,
					(size_t)order->node_count, log_line, &comm->tuner);
	if (order->op == BOARD_TUNER_ASK) {
		struct tuner_choice choice;
		int r = tuner_table_ask(&rank.tuner, comm->tuner, order->comm_id, order->device, &choice);

		answer->value = choice.choice;
		answer->tuner_channels = choice.channels;
		answer->tuner_refused = choice.refused;
		return r;
	}
	return tuner_table_end(&rank.tuner, comm->tuner);
}

static int obey_net(const struct board_order *order, struct board_answer *answer, struct rank_comm *comm)
{
	int r;

	switch (order->op) {
	case BOARD_INIT:
		if (rank.use && rank.use(order->bus_id[0] ? order->bus_id : NULL))
			return -1;
		return netplugin_init(rank.plugin, order->comm_id, -1, log_line, &comm->context);
	case BOARD_DEVICES:
		return netplugin_devices(rank.plugin, &answer->value);
	case BOARD_PROPERTIES:
		return properties(order, answer);
	case BOARD_JOIN:
		return netplugin_make_vdevice(rank.plugin, order->member_count, order->members, &answer->value);
	case BOARD_LISTEN:
		return comm->context ? netplugin_listen(comm->context, order->device, answer->handle, &comm->listener)
				     : -1;
	case BOARD_CONNECT: {
		uint8_t handle[BOARD_HANDLE_BYTES];

		memcpy(handle, order->handle, sizeof(handle));
		r = comm->context ? netplugin_connect(comm->context, order->device, handle, &comm->send_comm) : -1;
		answer->value = comm->send_comm != NULL;
		return r;
	}
	case BOARD_CLOSE:
		r = comm->send_comm ? netplugin_close_send(rank.plugin, comm->send_comm) : 0;
		if (r == 0 && comm->listener)
			r = netplugin_close_listen(rank.plugin, comm->listener);
		comm->send_comm = comm->listener = NULL;
		return r;
	case BOARD_FINALIZE:
		r = netplugin_finalize(comm->context);
		comm->context = NULL;
		return r;
	default:
		return -1;
	}
}

static void obey(const struct board_order *order, struct board_answer *answer)
{
	struct rank_comm *comm = &rank.comms[order->thread][order->comm];
	uint64_t start_ns = now_ns();

	memset(answer, 0, offsetof(struct board_answer, text));
	errno = 4242; /* no errno has this value */
	switch (order->op) {
	case BOARD_READ_TOPOLOGY:
		read_named("NCCL_TOPO_FILE", answer);
		errno = 4242;
		break;
	case BOARD_READ_GRAPH:
		read_named("NCCL_GRAPH_FILE", answer);
		errno = 4242;
		break;
	case BOARD_TUNER_INIT:
	case BOARD_TUNER_ASK:
	case BOARD_TUNER_END:
		answer->result = obey_tuner(order, answer, comm);
		break;
	case BOARD_FORK_CHILD:
		answer->value = fork_child();
		errno = 4242;
		break;
	case BOARD_ENVIRONMENT:
		environment_tell(answer);
		errno = 4242;
		break;
	case BOARD_LEAVE:
		_exit(0);
	default:
		answer->result = obey_net(order, answer, comm);
		break;
	}
	answer->errno_changed = errno != 4242 && answer->result >= 0;
	answer->took_ns = now_ns() - start_ns;
}

static void *serve(void *arg)
{
	unsigned number = (unsigned)(uintptr_t)arg;
	struct board_slot *slot = &rank.process->slots[number];
	uint32_t done = 0;

	for (;;) {
		while (atomic_load(&slot->ordered) == done)
			board_wait(&slot->ordered, done, 1000);
		/* What was called before is over: the controller knows, and ThreadSanitizer learns it here. */
		atomic_load(&rank.calls);
		obey(&slot->order, &slot->answer);
		atomic_fetch_add(&rank.calls, 1);
		atomic_store(&slot->answered, ++done);
		board_ring(rank.board);
	}
	return NULL;
}

static void environment_set(const struct board_process *process)
{
	char text[BOARD_VALUE_BYTES];
	char *value;

	for (unsigned i = 0; i < process->environment_count; i++) {
		snprintf(text, sizeof(text), "%s", process->environment[i]);
		value = strchr(text, '=');
		if (!value)
			continue;
		*value++ = '\0';
		if (*value)
			setenv(text, value, 1);
		else
			unsetenv(text);
	}
}

static void driver_load(const struct board *board, const struct board_process *process)
{
	void (*show)(const char(*)[BOARD_BUS_ID_BYTES], int);
	void *driver, *symbol;

	if (process->no_driver)
		return;
	driver = dlopen(board->driver, RTLD_NOW | RTLD_LOCAL);
	symbol = driver ? dlsym(driver, "standin_driver_show") : NULL;
	memcpy(&show, &symbol, sizeof(show));
	symbol = driver ? dlsym(driver, "standin_driver_use") : NULL;
	memcpy(&rank.use, &symbol, sizeof(rank.use));
	if (!driver || !show || !rank.use) {
		fprintf(stderr, "standin: %s: %s\n", board->driver, dlerror());
		_exit(3);
	}
	show((const char(*)[BOARD_BUS_ID_BYTES])process->gpus, (int)process->gpu_count);
}

_Noreturn void rank_run(struct board *board, unsigned number)
{
	struct board_process *process = &board->processes[number];
	pthread_t thread;

	rank.board = board;
	rank.process = process;
	if (process->user && (setresgid(process->user, process->user, process->user) ||
			      setresuid(process->user, process->user, process->user)))
		_exit(4);
	environment_set(process);
	driver_load(board, process);
	if (netplugin_open(process->plugin, process->net_version, &rank.plugin) < 0)
		_exit(5);
	tuner_table_find(rank.plugin->library, process->tuner_version, &rank.tuner);
	for (unsigned i = 0; i < BOARD_SLOTS_OF_PROCESS; i++)
		if ((i < process->thread_count || i == BOARD_THREADS_MAX) &&
		    pthread_create(&thread, NULL, serve, (void *)(uintptr_t)i))
			_exit(6);
	for (;;)
		pause();
}
