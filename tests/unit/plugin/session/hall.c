#include "unit/plugin/session/hall.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/params.h"
#include "base/sys.h"
#include "gpu/current.h"
#include "ncclxml/graph_xml.h"
#include "plugin/net.h"
#include "plugin/session.h"
#include "plugin/session/flights.h"
#include "plugin/state.h"
#include "plugin/tuner.h"
#include "profile/store_places.h"
#include "support/tree.h"
#include "unit/plan/box.h"
#include "unit/plugin/fake_transport.h"

enum { COMMS = 64, JOINED = 2, MEETING_MS = 2000, READING_MS = 2000, GRAPHS_MS = 1000, WAIT_MS = 90000 };

struct order {
	enum hall_order order;
	int64_t arg;
};

/* ---------------------------------------------------------------------------------------------------------- the machine */

const struct box_spec hall_box = {
	.name = "hall",
	.gpus = 8,
	.nics = 2,
	.sockets = 2,
	.switches = 2,
	.p2p = BOX_P2P_ALL,
	.gpu_rate = 240,
	.uplink_rate = 220,
	.socket_rate = 160,
	.memory_rate = 1000,
	.nic_rate = 120,
	.wire_rate = 60,
};

static void name_vertices(struct topology *topology)
{
	unsigned nic = 0;

	for (size_t i = 0; i < topology->vertex_count; i++) {
		struct topology_vertex *vertex = &topology->vertices[i];

		if (vertex->kind == TOPOLOGY_GPU) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x10 + vertex->gpu.index);
			vertex->gpu.sm = 86;
		} else if (vertex->kind == TOPOLOGY_NIC) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x40 + nic);
			snprintf(vertex->nic.interface, sizeof(vertex->nic.interface), "fake%u", nic++);
			vertex->nic.latency_ns = 1500;
		} else if (vertex->kind == TOPOLOGY_SWITCH) {
			snprintf(vertex->bus_id, sizeof(vertex->bus_id), "0000:%02x:00.0", 0x80 + (unsigned)i);
		} else if (vertex->kind == TOPOLOGY_CPU) {
			vertex->cpu.numa = vertex->name[3] - '0';
			snprintf(vertex->cpu.architecture, sizeof(vertex->cpu.architecture), "x86_64");
			snprintf(vertex->cpu.vendor, sizeof(vertex->cpu.vendor), "AuthenticAMD");
			vertex->cpu.family = 25;
			vertex->cpu.model = 1;
		}
	}
}

void hall_machine(const struct box_spec *spec, struct topology *ret)
{
	box_build(spec, 1, ret);
	name_vertices(ret);
}

/* sliced: the GPU in MIG mode; -1: none. */
static void profile_make(const struct hall *hall, int sliced)
{
	char path[STORE_PATH_BYTES];
	struct profile profile;
	struct params params;
	struct diag why;

	params_defaults(&params);
	profile_init(&profile);
	hall_machine(&hall_box, &profile.topology);
	for (size_t i = 0; i < profile.topology.vertex_count; i++)
		if (profile.topology.vertices[i].kind == TOPOLOGY_GPU &&
		    profile.topology.vertices[i].gpu.index == sliced)
			profile.topology.vertices[i].gpu.mig = 0;
	assert_int_equal(fingerprint_take(hall->root, &profile.fingerprint), 0);
	profile.date_s = 1763700000;
	snprintf(profile.measured_by, sizeof(profile.measured_by), "test");
	assert_int_equal(store_save(&params, &profile, hall->profile, path, sizeof(path), &why), 0);
	profile_fini(&profile);
}

void hall_slice(struct hall *hall, int gpu)
{
	profile_make(hall, gpu);
}

int hall_open(void **state)
{
	struct hall *hall = calloc(1, sizeof(*hall));

	assert_non_null(hall);
	snprintf(hall->root, sizeof(hall->root), "/dev/shm/tributary-hall-XXXXXX");
	assert_non_null(mkdtemp(hall->root));
	snprintf(hall->shared, sizeof(hall->shared), "%s/shared", hall->root);
	snprintf(hall->profile, sizeof(hall->profile), "%s/machine.profile", hall->root);
	snprintf(hall->dump, sizeof(hall->dump), "%s/dump", hall->root);
	assert_int_equal(mkdir(hall->shared, 0755), 0);
	assert_int_equal(mkdir(hall->dump, 0755), 0);
	profile_make(hall, -1);
	hall->reading_ms = READING_MS;
	*state = hall;
	return 0;
}

int hall_close(void **state)
{
	struct hall *hall = *state;

	for (unsigned i = 0; i < HALL_RANKS; i++)
		if (hall->ranks[i].pid)
			hall_kill(hall, i);
	tree_remove(hall->root);
	free(hall);
	return 0;
}

/* -------------------------------------------------------------------------------------------------------- in the process */

struct lane {
	int orders, replies, gpu;
};

static _Thread_local int lane_gpu;
static _Thread_local char lane_info[HALL_INFO_BYTES];
static atomic_int warnings;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int64_t comm;
	pthread_t thread;
	struct plugin_net_context *context;
} contexts[COMMS];

static void __attribute__((format(printf, 5, 6)))
lane_sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	size_t used = strlen(lane_info);
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	va_start(args, fmt);
	vsnprintf(lane_info + used, sizeof(lane_info) - used, fmt, args);
	va_end(args);
	if (level == LOG_LEVEL_WARN)
		warnings++;
	if (getenv("HALL_VERBOSE"))
		fprintf(stderr, "[%d] %s\n", (int)getpid(), lane_info + used);
}

static int lane_device(int *ret)
{
	*ret = lane_gpu;
	return lane_gpu < 0 ? 201 : 0;
}

static int lane_bus_id(char *ret, int bytes, int device)
{
	snprintf(ret, (size_t)bytes, "00000000:%02X:00.0", 0x10 + device);
	return 0;
}

static const struct gpu_current_driver lane_driver = { lane_device, lane_bus_id, NULL };

static int order_begin(int64_t comm)
{
	struct plugin_net_context *context;
	int r = plugin_net_init((uint64_t)comm, -1, lane_sink, &context);

	if (r < 0)
		return r;
	pthread_mutex_lock(&contexts_lock);
	for (size_t i = 0; i < COMMS; i++) {
		if (contexts[i].context)
			continue;
		contexts[i].comm = comm;
		contexts[i].thread = pthread_self();
		contexts[i].context = context;
		break;
	}
	pthread_mutex_unlock(&contexts_lock);
	return 0;
}

static int order_end(int64_t comm)
{
	struct plugin_net_context *context = NULL;

	pthread_mutex_lock(&contexts_lock);
	for (size_t i = 0; i < COMMS && !context; i++) {
		if (!contexts[i].context || contexts[i].comm != comm)
			continue;
		context = contexts[i].context;
		contexts[i].context = NULL;
	}
	pthread_mutex_unlock(&contexts_lock);
	return context ? plugin_net_finalize(context) : -ENOENT;
}

static int order_properties(int from)
{
	struct plugin_net_properties properties;
	int count, r = plugin_state_device_count(&count);

	for (int i = from; r == 0 && i < count; i++)
		r = plugin_net_properties(i, &properties);
	return r;
}

static int order_join(void)
{
	const int members[] = { 0, 1 };
	int device, count, r = order_properties(0);

	if (r == 0)
		r = plugin_net_join(JOINED, members, &device);
	if (r == 0)
		r = plugin_net_devices(&count);
	return r < 0 ? r : order_properties(JOINED);
}

static int order_read(const char *variable, struct hall_reply *reply)
{
	const char *path = getenv(variable);
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
	while (used && reply->text[used - 1] == '\n')
		reply->text[--used] = '\0'; /* a file that was longer before is padded */
	return 0;
}

static int order_tuner(int64_t comm)
{
	static _Thread_local struct session_facts facts;
	int r = session_tuner((uint64_t)comm, &facts);

	return r < 0 ? r : facts.published;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool can_exit = false;
#else
static const bool can_exit = true;
#endif

/* With all that a library does at exit, but without what the test has in its buffers. */
static void process_exit(int status)
{
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	if (can_exit)
		exit(status);
	_exit(status);
}

static int order_fork(void)
{
	struct plugin_net_properties properties;
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		process_exit(plugin_net_properties(0, &properties) == -ECHILD ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINVAL;
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
	int r = plugin_tuner_init((uint64_t)comm, 2, 1, NULL, lane_sink, &tuner);

	plugin_tuner_fini(tuner);
	return r;
}

static int order_run(const struct order *order, struct hall_reply *reply)
{
	struct plugin_net_properties properties;

	switch (order->order) {
	case HALL_BEGIN:
		return order_begin(order->arg);
	case HALL_CHECK:
		return plugin_net_properties(0, &properties);
	case HALL_PROPERTIES:
		return order_properties(0);
	case HALL_ONE:
		return plugin_net_properties((int)order->arg, &properties);
	case HALL_JOIN:
		return order_join();
	case HALL_READ:
		return order_read("NCCL_GRAPH_FILE", reply);
	case HALL_TOPOLOGY:
		return order_read("NCCL_TOPO_FILE", reply);
	case HALL_CONNECT:
		session_connects((uint64_t)order->arg);
		return 0;
	case HALL_END:
		return order_end(order->arg);
	case HALL_TUNER:
		return order_tuner(order->arg);
	case HALL_GPU:
		lane_gpu = (int)order->arg;
		return 0;
	case HALL_FORK:
		return order_fork();
	case HALL_FAULT:
		return order_fault(order->arg);
	case HALL_TUNE:
		return order_tune(order->arg);
	case HALL_EXIT:
		process_exit(0);
		return 0;
	default:
		return 0;
	}
}

static bool whole(ssize_t (*move)(int, void *, size_t), int fd, void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t part = move(fd, (char *)data + done, bytes - done);

		if (part <= 0)
			return false;
		done += (size_t)part;
	}
	return true;
}

static ssize_t put(int fd, void *data, size_t bytes)
{
	return write(fd, data, bytes);
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) < 0
		       ? 0
		       : (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void *lane_main(void *arg)
{
	const struct lane *lane = arg;
	struct hall_reply *reply = calloc(1, sizeof(*reply));
	struct order order = { .order = HALL_BEGIN };

	lane_gpu = lane->gpu;
	while (reply && order.order != HALL_LEAVE && whole(read, lane->orders, &order, sizeof(order))) {
		uint64_t start_ns = clock_now_ns(), start_cpu_ns = thread_cpu_ns();

		reply->text[0] = lane_info[0] = '\0';
		log_collect();
		reply->result = order_run(&order, reply);
		log_flush();
		reply->took_ns = clock_elapsed_ns(start_ns, clock_now_ns());
		reply->cpu_ns = thread_cpu_ns() - start_cpu_ns;
		reply->warnings = warnings;
		memcpy(reply->info, lane_info, sizeof(reply->info));
		if (!whole(put, lane->replies, reply, sizeof(*reply)))
			break;
	}
	free(reply);
	return NULL;
}

static void environment_set(char *text)
{
	static const char *const cleared[] = { "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_HOSTID", "TRIBUTARY_DISABLE",
					       "_TRIBUTARY_FILES" };
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

static void process_main(const struct hall *hall, struct lane lanes[static HALL_LANES], char *environment)
{
	const struct session_patience patience = { .meeting_ns = MEETING_MS * NS_PER_MS,
						   .reading_ns = hall->reading_ms * NS_PER_MS,
						   .graphs_ns = GRAPHS_MS * NS_PER_MS };
	pthread_t threads[HALL_LANES];

	signal(SIGPIPE, SIG_IGN);
	environment_set(environment);
	log_set_sink(lane_sink);
	gpu_current_set_driver(&lane_driver);
	fake_transport_reset();
	fake_transport.devices[1].pci_path = "/sys/devices/pci0000:00/0000:00:02.0"; /* so that they may be joined */
	session_reset(NULL, hall->root, &patience);
	plugin_state_reset(&fake_transport_ops, NULL);
	for (size_t i = 1; i < HALL_LANES; i++)
		if (pthread_create(&threads[i], NULL, lane_main, &lanes[i]))
			_exit(3);
	lane_main(&lanes[0]);
	_exit(0);
}

/* ----------------------------------------------------------------------------------------------------------- in the test */

void hall_start(struct hall *hall, unsigned rank, int gpu, unsigned local_size, unsigned world_size,
		const char *environment)
{
	struct hall_rank *at = &hall->ranks[rank];
	struct lane lanes[HALL_LANES];
	char text[2048];

	assert_int_equal(at->pid, 0);
	snprintf(text, sizeof(text),
		 "TRIBUTARY_NET=tcp\nTRIBUTARY_PROFILE=%s\nTRIBUTARY_SHARED_DIR=%s\nTRIBUTARY_DUMP_DIR=%s\n"
		 "LOCAL_RANK=%u\nLOCAL_WORLD_SIZE=%u\nWORLD_SIZE=%u\nTORCHELASTIC_RUN_ID=%s\n%s",
		 hall->profile, hall->shared, hall->dump, rank, local_size, world_size, hall->root,
		 environment ? environment : "");
	for (size_t i = 0; i < HALL_LANES; i++) {
		int down[2], up[2];

		assert_int_equal(pipe2(down, O_CLOEXEC), 0);
		assert_int_equal(pipe2(up, O_CLOEXEC), 0);
		lanes[i] = (struct lane){ down[0], up[1], gpu };
		at->orders[i] = down[1];
		at->replies[i] = up[0];
	}
	at->pid = fork();
	assert_true(at->pid >= 0);
	if (!at->pid) {
		for (unsigned other = 0; other < HALL_RANKS; other++)
			for (size_t i = 0; i < HALL_LANES && (hall->ranks[other].pid || other == rank); i++) {
				close(hall->ranks[other].orders[i]);
				close(hall->ranks[other].replies[i]);
			}
		process_main(hall, lanes, text);
	}
	for (size_t i = 0; i < HALL_LANES; i++) {
		close(lanes[i].orders);
		close(lanes[i].replies);
	}
}

void hall_start_all(struct hall *hall, unsigned count, const char *environment)
{
	for (unsigned i = 0; i < count; i++)
		hall_start(hall, i, (int)i, count, count, environment);
}

static void rank_ended(struct hall_rank *at)
{
	assert_int_equal(waitpid(at->pid, NULL, 0), at->pid);
	for (size_t i = 0; i < HALL_LANES; i++) {
		close(at->orders[i]);
		close(at->replies[i]);
	}
	memset(at, 0, sizeof(*at));
}

void hall_kill(struct hall *hall, unsigned rank)
{
	kill(hall->ranks[rank].pid, SIGKILL);
	rank_ended(&hall->ranks[rank]);
}

void hall_exit(struct hall *hall, unsigned rank)
{
	if (!can_exit)
		skip();
	hall_send(hall, rank, 0, HALL_EXIT, 0);
	rank_ended(&hall->ranks[rank]);
}

void hall_send(struct hall *hall, unsigned rank, unsigned lane, enum hall_order order, int64_t arg)
{
	struct order text = { .order = order, .arg = arg };

	assert_true(whole(put, hall->ranks[rank].orders[lane], &text, sizeof(text)));
}

bool hall_is_waiting(struct hall *hall, unsigned rank, unsigned lane, int ms)
{
	struct pollfd reply = { .fd = hall->ranks[rank].replies[lane], .events = POLLIN };

	return poll(&reply, 1, ms) == 0;
}

int hall_wait(struct hall *hall, unsigned rank, unsigned lane)
{
	assert_false(hall_is_waiting(hall, rank, lane, WAIT_MS));
	assert_true(whole(read, hall->ranks[rank].replies[lane], &hall->reply, sizeof(hall->reply)));
	return hall->reply.result;
}

int hall_do(struct hall *hall, unsigned rank, unsigned lane, enum hall_order order, int64_t arg)
{
	hall_send(hall, rank, lane, order, arg);
	return hall_wait(hall, rank, lane);
}

void hall_begin(struct hall *hall, unsigned ranks, int64_t comm)
{
	for (unsigned i = 0; i < HALL_RANKS; i++) {
		if (!(ranks & 1u << i))
			continue;
		assert_int_equal(hall_do(hall, i, 0, HALL_BEGIN, comm), 0);
		assert_int_equal(hall_do(hall, i, 0, HALL_CHECK, 0), 0);
	}
}

void hall_phase(struct hall *hall, unsigned ranks)
{
	for (unsigned i = 0; i < HALL_RANKS; i++)
		if (ranks & 1u << i)
			hall_send(hall, i, 0, HALL_PROPERTIES, 0);
	for (unsigned i = 0; i < HALL_RANKS; i++)
		if (ranks & 1u << i)
			assert_int_equal(hall_wait(hall, i, 0), 0);
}

void hall_tuner(struct hall *hall, unsigned ranks, int64_t comm, int published)
{
	for (unsigned i = 0; i < HALL_RANKS; i++)
		if (ranks & 1u << i)
			assert_int_equal(hall_do(hall, i, 0, HALL_TUNER, comm), published);
}

unsigned hall_initialise(struct hall *hall, unsigned ranks, int64_t comm)
{
	unsigned gpus;

	hall_begin(hall, ranks, comm);
	assert_int_equal(hall_read(hall, ranks), 0);
	hall_phase(hall, ranks);
	gpus = hall_read(hall, ranks);
	hall_tuner(hall, ranks, comm, gpus != 0);
	assert_int_equal(hall_read(hall, ranks), 0);
	return gpus;
}

unsigned hall_gpus(const char *text)
{
	const char *channel = strstr(text, "<channel>");
	unsigned first = 0;

	while (channel) {
		const char *end = strstr(channel, "</channel>"), *gpu = channel;
		unsigned gpus = 0;

		assert_non_null(end);
		while ((gpu = strstr(gpu, "<gpu dev=\"")) && gpu < end) {
			unsigned bit = 1u << strtoul(gpu + strlen("<gpu dev=\""), NULL, 16);

			assert_false(gpus & bit);
			gpus |= bit;
			gpu++;
		}
		assert_true(gpus);
		assert_true(!first || first == gpus);
		first = gpus;
		channel = strstr(end, "<channel>");
	}
	return first;
}

unsigned hall_read(struct hall *hall, unsigned ranks)
{
	static char first[HALL_TEXT_BYTES];
	bool is_first = true;

	for (unsigned i = 0; i < HALL_RANKS; i++) {
		if (!(ranks & 1u << i))
			continue;
		assert_int_equal(hall_do(hall, i, 0, HALL_READ, 0), 0);
		if (is_first)
			memcpy(first, hall->reply.text, sizeof(first));
		is_first = false;
		assert_string_equal(hall->reply.text, first);
	}
	return hall_gpus(first);
}

void hall_registry(struct hall *hall, char path[static 160])
{
	snprintf(path, 160, "%s/tributary-%u", hall->shared, (unsigned)geteuid());
}

unsigned hall_count(struct hall *hall, const char *prefix)
{
	struct dirent *entry;
	unsigned count = 0;
	char path[160];
	DIR *dir;

	hall_registry(hall, path);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		count += !strncmp(entry->d_name, prefix, strlen(prefix));
	if (dir)
		closedir(dir);
	return count;
}
