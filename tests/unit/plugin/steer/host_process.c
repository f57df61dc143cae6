/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/plugin/steer/host_process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "plugin/env.h"
#include "plugin/net.h"
#include "plugin/state.h"
#include "plugin/steer.h"
#include "plugin/tuner.h"
#include "unit/plugin/fake_transport.h"

enum { NCCL_VERSION = 22809 };

static _Thread_local int current_gpu;
static _Thread_local char thread_info[HOST_INFO_BYTES];
static atomic_int warnings;

static void __attribute__((format(printf, 5, 6)))
thread_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	size_t used = strlen(thread_info);
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	va_start(args, fmt);
	vsnprintf(thread_info + used, sizeof(thread_info) - used, fmt, args);
	va_end(args);
	if (level == LOG_LEVEL_WARN)
		warnings++;
	if (getenv("HOST_VERBOSE"))
		fprintf(stderr, "[%d] %s\n", (int)getpid(), thread_info + used);
}

static int thread_device(int *ret)
{
	*ret = current_gpu;
	return current_gpu < 0 ? 201 : 0;
}

static int thread_bus_id(char *ret, int bytes, int device)
{
	snprintf(ret, (size_t)bytes, "00000000:%02X:00.0", 0x10 + device);
	return 0;
}

static const struct gpu_current_driver driver = { thread_device, thread_bus_id };

static int order_init(int64_t comm)
{
	void *context;

	(void)plugin_env_get("NCCL_NET");
	return plugin_net_init((uint64_t)comm, -1, thread_sink, &context) ? -EIO : 0;
}

static int order_devices(void)
{
	int count = -1;

	return plugin_net_devices(&count) ? -EIO : count;
}

/* NCCL joins both devices after it has asked for their properties. */
static int order_join(void)
{
	const int members[] = { 0, 1 };
	struct plugin_net_properties properties;
	int device;
	int r = plugin_net_properties(0, &properties);

	if (r == 0)
		r = plugin_net_properties(1, &properties);
	return r < 0 ? r : plugin_net_join(2, members, &device) ? -EIO : 0;
}

static int order_ask(const char *name, struct host_reply *reply)
{
	const char *value = plugin_env_get(name);

	snprintf(reply->text, sizeof(reply->text), "%s", value ? value : "");
	return value != NULL;
}

static int order_read(const char *variable, struct host_reply *reply)
{
	const char *path = plugin_env_get(variable);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	size_t used = 0;
	ssize_t got = 1;

	if (!path || fd < 0)
		return path ? -ENOENT : -ENODATA;
	while (got > 0 && used < sizeof(reply->text) - 1) {
		got = read(fd, reply->text + used, sizeof(reply->text) - 1 - used);
		used += got > 0 ? (size_t)got : 0;
	}
	close(fd);
	reply->text[used] = '\0';
	return 0;
}

static int order_tuner(int64_t comm)
{
	static _Thread_local struct steer_facts facts;
	int r = steer_tuner((uint64_t)comm, &facts);

	return r < 0 ? r : facts.published;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool host_process_can_exit = false;
#else
const bool host_process_can_exit = true;
#endif

/* With all that a library does at exit, but without what the test has in its buffers. */
static void process_exit(int status)
{
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	if (host_process_can_exit)
		exit(status);
	_exit(status);
}

/* Every answer is getenv's, the net half does nothing, and what the library does at exit removes nothing. */
static int order_fork(void)
{
	static const char *const names[] = { "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_NET",
					     "NCCL_PROTO",     "NCCL_NET_PLUGIN", "NCCL_NET_PLUGIN_REF_COUNT" };
	struct plugin_net_properties properties;
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (plugin_env_get(names[i]) != getenv(names[i]))
				process_exit(2 + (int)i);
		process_exit(plugin_net_properties(0, &properties) == -ECHILD ? 0 : 1);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINVAL;
}

static const char *host_root;

/* Those below the host's root: all others are the harness's and the log's. */
static int order_files(void)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (dir && (entry = readdir(dir))) {
		char path[PATH_MAX], target[PATH_MAX];
		ssize_t bytes;

		snprintf(path, sizeof(path), "/proc/self/fd/%.16s", entry->d_name);
		bytes = readlink(path, target, sizeof(target) - 1);
		target[bytes > 0 ? bytes : 0] = '\0';
		count += !strncmp(target, host_root, strlen(host_root));
	}
	if (dir)
		closedir(dir);
	return count;
}

static int order_fault(int64_t arg)
{
#ifdef TRIBUTARY_FAULTS
	static const int errors[SYS_FAULT_KIND_COUNT] = { [SYS_FAULT_MEMORY] = ENOMEM };
	static enum sys_fault_kind last;
	enum sys_fault_kind kind = (enum sys_fault_kind)(arg >> 32);
	uint64_t calls = sys_fault_calls(last);

	last = kind;
	sys_fault_set(kind, (uint64_t)(uint32_t)arg, errors[kind] ? errors[kind] : EIO);
	return calls > INT_MAX ? INT_MAX : (int)calls;
#else
	(void)arg;
	return -ENOTSUP;
#endif
}

static int order_tune(int64_t comm)
{
	struct plugin_tuner *tuner;
	int r = plugin_tuner_init((uint64_t)comm, 2, 1, NULL, thread_sink, &tuner);

	plugin_tuner_fini(tuner);
	return r;
}

static int order_run(const struct host_command *order, struct host_reply *reply)
{
	struct plugin_net_properties properties;

	switch (order->order) {
	case HOST_INIT:
		return order_init(order->arg);
	case HOST_DEVICES:
		return order_devices();
	case HOST_PROPERTIES:
		return plugin_net_properties((int)order->arg, &properties);
	case HOST_JOIN:
		return order_join();
	case HOST_ASK:
		return order_ask(order->name, reply);
	case HOST_TOPOLOGY:
		return order_read("NCCL_TOPO_FILE", reply);
	case HOST_GRAPH:
		return order_read("NCCL_GRAPH_FILE", reply);
	case HOST_TUNER:
		return order_tuner(order->arg);
	case HOST_TUNE:
		return order_tune(order->arg);
	case HOST_GPU:
		current_gpu = (int)order->arg;
		return 0;
	case HOST_FORK:
		return order_fork();
	case HOST_FILES:
		return order_files();
	case HOST_FAULT:
		return order_fault(order->arg);
	case HOST_EXIT:
		process_exit(0);
		return 0;
	default:
		return 0;
	}
}

bool host_process_read(int fd, void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t part = read(fd, (char *)data + done, bytes - done);

		if (part <= 0)
			return false;
		done += (size_t)part;
	}
	return true;
}

bool host_process_write(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t part = write(fd, (const char *)data + done, bytes - done);

		if (part <= 0)
			return false;
		done += (size_t)part;
	}
	return true;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) < 0
		       ? 0
		       : (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool reply_put(int fd, struct host_reply *reply)
{
	reply->warnings = warnings;
	memcpy(reply->info, thread_info, sizeof(reply->info));
	return host_process_write(fd, reply, sizeof(*reply));
}

/* A thread that leaves answers when it has ended: by the one that waits for it. */
static void *thread_main(void *arg)
{
	const struct host_thread *thread = arg;
	struct host_reply *reply = calloc(1, sizeof(*reply));
	struct host_command order;

	current_gpu = thread->gpu;
	while (reply && host_process_read(thread->orders, &order, sizeof(order)) && order.order != HOST_LEAVE) {
		uint64_t start_ns = clock_now_ns(), start_cpu_ns = thread_cpu_ns();

		reply->text[0] = thread_info[0] = '\0';
		log_collect();
		reply->result = order_run(&order, reply);
		log_flush();
		reply->took_ns = clock_elapsed_ns(start_ns, clock_now_ns());
		reply->cpu_ns = thread_cpu_ns() - start_cpu_ns;
		if (!reply_put(thread->replies, reply))
			break;
	}
	free(reply);
	return NULL;
}

static void *thread_supervise(void *arg)
{
	struct host_thread *thread = arg;
	struct host_reply *reply = calloc(1, sizeof(*reply));
	pthread_t worker;

	if (!reply || pthread_create(&worker, NULL, thread_main, thread) || pthread_join(worker, NULL))
		_exit(3);
	thread_info[0] = '\0';
	(void)reply_put(thread->replies, reply);
	free(reply);
	return NULL;
}

static void environment_set(char *text)
{
	static const char *const cleared[] = { "NCCL_TOPO_FILE",  "NCCL_GRAPH_FILE", "NCCL_HOSTID", "TRIBUTARY_DISABLE",
					       "TRIBUTARY_STEER", "_TRIBUTARY_FILE", "NCCL_NET",    "NCCL_NET_PLUGIN" };
	char *rest = text;

	for (size_t i = 0; i < sizeof(cleared) / sizeof(cleared[0]); i++)
		unsetenv(cleared[i]);
	for (char *entry = strsep(&rest, "\n"); entry; entry = strsep(&rest, "\n")) {
		char *value = strchr(entry, '=');

		if (!value)
			continue;
		*value = '\0';
		if (value[1])
			setenv(entry, value + 1, 1);
		else
			unsetenv(entry);
	}
}

void host_process_main(const struct host *host, struct host_thread threads[static HOST_THREADS], char *environment)
{
	pthread_t supervisors[HOST_THREADS];

	host_root = host->root;
	signal(SIGPIPE, SIG_IGN);
	environment_set(environment);
	log_set_sink(thread_sink);
	gpu_current_set_driver(&driver);
	fake_transport_reset();
	fake_transport.devices[1].pci_path = "/sys/devices/pci0000:00/0000:00:02.0"; /* so that they may be joined */
	steer_reset(NULL, host->root);
	plugin_state_reset(&fake_transport_ops, NULL);
	if (!getenv("HOST_WITHOUT_ENVIRONMENT_HALF"))
		plugin_env_init(NCCL_VERSION);
	unsetenv("HOST_WITHOUT_ENVIRONMENT_HALF");
	for (size_t i = 1; i < HOST_THREADS; i++)
		if (pthread_create(&supervisors[i], NULL, thread_supervise, &threads[i]))
			_exit(3);
	thread_main(&threads[0]);
	_exit(0);
}
