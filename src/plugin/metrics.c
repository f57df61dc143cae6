/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/metrics.h"

#include "aggregate/aggregate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/params.h"
#include "base/process.h"
#include "base/sys.h"
#include "base/text.h"
#include "plugin/metrics_operations.h"
#include "transport/devices.h"
#include "transport/metrics.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_TRIES = 1000, LEAVE_TRIES = 5000, HOST_BYTES = 65, NAME_BYTES = 160 };

/* A device by its name: its index may be another one when the transport is opened again. */
struct device {
	char name[sizeof(((struct transport_device *)NULL)->name)];
	struct transport_totals past; /* of transports that were closed */
	struct transport_counters now;
};

static struct {
	pthread_mutex_t lock; /* guards all that is not atomic */
	const struct params *params;
	const struct transport_ops *ops;
	struct transport *transport;         /* NULL: closed */
	const struct operations *operations; /* NULL: nobody counts */
	bool counting;                       /* communicators of the profiler half are open */
	struct device devices[TRANSPORT_DEVICES_MAX];
	size_t device_count;
	char host[HOST_BYTES], process[48], name[NAME_BYTES]; /* name: of the file; "": nothing was written yet */
	uint64_t start_ns;                                    /* of this process's metrics, since 1970 */
	pid_t pid;                                            /* whose name it is */
	_Atomic bool left;                                    /* the process ends: no file any more */
	_Atomic bool runs;                                    /* the thread */
	int wake_fd;
	unsigned writes;
	struct aggregate_totals aggregation;
	_Atomic uint64_t planned, unplanned;
	_Atomic int local_rank;
} metrics = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1, .local_rank = -1 };

/* Held while the file is written, and for good when the process ends. */
static pthread_mutex_t file_lock = PTHREAD_MUTEX_INITIALIZER;

/* Of one process, as it is written. */
struct figures {
	uint64_t one, start_ns, updated_ns;
	uint64_t operations, bytes, sent_bytes, ring_sent_bytes, uplink_bytes, ring_uplink_bytes;
	uint64_t communicators;
};

#define ROW(name, kind, field, help)                               \
	{                                                          \
		name, kind, offsetof(struct figures, field), help, \
	}

static const struct metrics_row info_rows[] = {
	ROW("tributary_info", METRICS_GAUGE, one, "Always 1; what is known of the process."),
	{ .name = NULL },
};
static const struct metrics_row process_rows[] = {
	ROW("tributary_start_time_seconds", METRICS_GAUGE_NS, start_ns, "When counting began, since 1970."),
	ROW("tributary_updated_timestamp_seconds", METRICS_GAUGE_NS, updated_ns,
	    "When these figures were read, since 1970."),
	ROW("tributary_collnet_operations_total", METRICS_COUNTER, operations, "AllReduces that were aggregated."),
	ROW("tributary_collnet_bytes_total", METRICS_COUNTER, bytes, "Bytes of these AllReduces."),
	ROW("tributary_collnet_sent_bytes_total", METRICS_COUNTER, sent_bytes, "Bytes sent for them from here."),
	ROW("tributary_collnet_ring_sent_bytes_total", METRICS_COUNTER, ring_sent_bytes,
	    "Bytes that a ring would have sent from here."),
	ROW("tributary_collnet_uplink_bytes_total", METRICS_COUNTER, uplink_bytes,
	    "Their bytes in each direction on the busiest uplink, by the schedule."),
	ROW("tributary_collnet_ring_uplink_bytes_total", METRICS_COUNTER, ring_uplink_bytes,
	    "Bytes of a ring in the order of the leaves in each direction on an uplink."),
	{ .name = NULL },
};
static const struct metrics_row communicator_rows[] = {
	ROW("tributary_communicators_total", METRICS_COUNTER, communicators,
	    "Communicators, counted once a host, by who chose their channels."),
	{ .name = NULL },
};

const struct metrics_table plugin_metrics_tables[] = {
	{ "process, pid, local_rank, host, command, version, transport", info_rows },
	{ "process", process_rows },
	{ "process", plugin_metrics_operations_rest },
	{ "process, channels (planned or nccl)", communicator_rows },
	{ PLUGIN_METRICS_OPERATION_LABELS, plugin_metrics_operations_counts },
	{ PLUGIN_METRICS_OPERATION_LABELS, plugin_metrics_operations_times },
	{ "process, device", transport_metrics },
	{ .rows = NULL },
};

struct aggregate_totals *plugin_metrics_aggregation(void)
{
	return &metrics.aggregation;
}

void plugin_metrics_communicator(bool planned)
{
	atomic_fetch_add_explicit(planned ? &metrics.planned : &metrics.unplanned, 1, memory_order_relaxed);
}

void plugin_metrics_rank(int local_rank)
{
	atomic_store_explicit(&metrics.local_rank, local_rank, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------------------------------- reading */

static uint64_t since_1970_ns(void)
{
	struct timespec now = { .tv_sec = 0 };

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct device *device_of(const char *name)
{
	size_t i = 0;

	while (i < metrics.device_count && strcmp(metrics.devices[i].name, name) != 0)
		i++;
	if (i == TRANSPORT_DEVICES_MAX)
		return NULL;
	if (i == metrics.device_count)
		snprintf(metrics.devices[metrics.device_count++].name, sizeof(metrics.devices[i].name), "%s", name);
	return &metrics.devices[i];
}

static void read_devices_locked(void)
{
	int count = metrics.transport && metrics.ops->device_counters ? metrics.ops->device_count(metrics.transport)
								      : 0;

	for (int i = 0; i < count; i++) {
		struct transport_properties properties;
		struct device *device;

		if (metrics.ops->device_properties(metrics.transport, i, &properties) < 0)
			continue;
		device = device_of(properties.name);
		if (device)
			metrics.ops->device_counters(metrics.transport, i, &device->now);
	}
}

/* What was counted stays, and what stood is over. */
static void forget_transport_locked(void)
{
	for (size_t i = 0; i < metrics.device_count; i++) {
		struct device *device = &metrics.devices[i];
		const uint64_t speed_Bps = device->now.speed_Bps;

		transport_totals_add(&device->past, &device->now.totals);
		device->now = (struct transport_counters){ .speed_Bps = speed_Bps };
	}
	metrics.transport = NULL;
}

/* ------------------------------------------------------------------------------------------------------------- writing */

static void print_devices_locked(struct text *out)
{
	struct metrics_sample samples[TRANSPORT_DEVICES_MAX];
	struct {
		struct transport_counters counters;
		char labels[METRICS_LABELS_BYTES];
	} *each = sys_zalloc(TRANSPORT_DEVICES_MAX * sizeof(*each));

	for (size_t i = 0; each && i < metrics.device_count; i++) {
		each[i].counters = metrics.devices[i].now;
		transport_totals_add(&each[i].counters.totals, &metrics.devices[i].past);
		metrics_label(each[i].labels, "process", metrics.process);
		metrics_label(each[i].labels, "device", metrics.devices[i].name);
		samples[i] = (struct metrics_sample){ &each[i].counters, each[i].labels };
	}
	if (each)
		metrics_print(transport_metrics, samples, metrics.device_count, out);
	sys_free(each);
}

static void print_info_locked(const struct figures *figures, struct text *out)
{
	int rank = atomic_load_explicit(&metrics.local_rank, memory_order_relaxed);
	char labels[METRICS_LABELS_BYTES] = "", text[16];

	metrics_label(labels, "process", metrics.process);
	snprintf(text, sizeof(text), "%ld", (long)getpid());
	metrics_label(labels, "pid", text);
	snprintf(text, sizeof(text), "%d", rank);
	metrics_label(labels, "local_rank", rank < 0 ? "" : text);
	metrics_label(labels, "host", metrics.host);
	metrics_label(labels, "command", program_invocation_short_name);
	metrics_label(labels, "version", TRIBUTARY_VERSION);
	metrics_label(labels, "transport", metrics.ops ? metrics.ops->name : "nccl");
	metrics_print(info_rows, &(struct metrics_sample){ figures, labels }, 1, out);
}

static void print_process_locked(struct text *out)
{
	struct aggregate_totals *totals = &metrics.aggregation;
	struct figures figures = { .one = 1,
				   .start_ns = metrics.start_ns,
				   .updated_ns = since_1970_ns(),
				   .operations = atomic_load(&totals->operations),
				   .bytes = atomic_load(&totals->bytes),
				   .sent_bytes = atomic_load(&totals->sent_bytes),
				   .ring_sent_bytes = atomic_load(&totals->ring_sent_bytes),
				   .uplink_bytes = atomic_load(&totals->uplink_bytes),
				   .ring_uplink_bytes = atomic_load(&totals->ring_uplink_bytes) };
	struct figures planned = { .communicators = atomic_load(&metrics.planned) };
	struct figures unplanned = { .communicators = atomic_load(&metrics.unplanned) };
	char labels[3][METRICS_LABELS_BYTES] = { "", "", "" };

	for (unsigned i = 0; i < 3; i++)
		metrics_label(labels[i], "process", metrics.process);
	metrics_label(labels[1], "channels", "planned");
	metrics_label(labels[2], "channels", "nccl");
	print_info_locked(&figures, out);
	metrics_print(process_rows, &(struct metrics_sample){ &figures, labels[0] }, 1, out);
	metrics_print(communicator_rows,
		      (struct metrics_sample[]){ { &planned, labels[1] }, { &unplanned, labels[2] } }, 2, out);
}

/* NULL: no memory; freed by sys_free. */
static char *make_text(size_t *ret_bytes)
{
	struct text out = { .bytes = 0 };
	char *text = NULL;

	pthread_mutex_lock(&metrics.lock);
	read_devices_locked();
	print_process_locked(&out);
	print_devices_locked(&out);
	if (metrics.operations)
		plugin_metrics_operations_print(metrics.operations, metrics.process, &out);
	pthread_mutex_unlock(&metrics.lock);
	return text_take(&out, &text, ret_bytes) < 0 ? NULL : text;
}

static void write_file(void)
{
	enum { SWEEP_EVERY = PLUGIN_METRICS_STALE_S * 1000 / PLUGIN_METRICS_PERIOD_MS };
	static atomic_flag said = ATOMIC_FLAG_INIT;
	const char *folder = metrics.params->metrics;
	size_t bytes = 0;
	char *text = make_text(&bytes);
	int r = text ? 0 : -ENOMEM;

	pthread_mutex_lock(&file_lock);
	if (r == 0 && !atomic_load(&metrics.left))
		r = metrics_file_write(folder, metrics.name, text, bytes);
	pthread_mutex_unlock(&file_lock);
	sys_free(text);
	if (r < 0 && log_once(&said))
		log_warn("Metrics cannot be written to %s (TRIBUTARY_METRICS): %s", folder, strerror(-r));
	if (r == 0 && metrics.writes++ % SWEEP_EVERY == 0)
		metrics_file_sweep(folder, metrics.name, PLUGIN_METRICS_PREFIX, PLUGIN_METRICS_STALE_S);
}

static bool is_open_locked(void)
{
	return metrics.transport || metrics.counting;
}

/* False: nobody wants more. The last file was written after everything was closed. */
static bool goes_on(bool was_closed)
{
	bool more;

	pthread_mutex_lock(&metrics.lock);
	more = is_open_locked() || !was_closed;
	if (!more)
		atomic_store(&metrics.runs, false);
	pthread_mutex_unlock(&metrics.lock);
	return more;
}

static void *run(void *arg)
{
	struct pollfd fd = { .fd = metrics.wake_fd, .events = POLLIN };
	bool closed;

	(void)arg;
	do {
		uint64_t drained;

		pthread_mutex_lock(&metrics.lock);
		closed = !is_open_locked();
		pthread_mutex_unlock(&metrics.lock);
		write_file();
		if (!closed && poll(&fd, 1, PLUGIN_METRICS_PERIOD_MS) > 0 && read(fd.fd, &drained, sizeof(drained)) < 0)
			continue;
	} while (goes_on(closed));
	return NULL;
}

/* --------------------------------------------------------------------------------------------------------- begin and end */

/* Of a process of this user's only its number and start tell it from others, also where containers share the folder. */
static void name_locked(void)
{
	struct process_identity identity = { .pid = (uint32_t)getpid() };

	(void)process_identity(&identity);
	if (gethostname(metrics.host, sizeof(metrics.host) - 1) < 0)
		snprintf(metrics.host, sizeof(metrics.host), "?");
	snprintf(metrics.process, sizeof(metrics.process), "%u-%llx", identity.pid,
		 (unsigned long long)identity.start_ticks);
	snprintf(metrics.name, sizeof(metrics.name), PLUGIN_METRICS_PREFIX "%.64s-%s.prom", metrics.host,
		 metrics.process);
	metrics.start_ns = since_1970_ns();
	metrics.pid = getpid();
}

static int start_locked(void)
{
	pthread_t thread;
	int r;

	if (atomic_load(&metrics.runs))
		return 0; /* it was hung up when it was to end */
	if (metrics.wake_fd < 0)
		metrics.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (metrics.wake_fd < 0)
		return -errno;
	atomic_store(&metrics.runs, true);
	r = sys_thread_start(run, NULL, "tributary-stat", &thread);
	if (r < 0)
		atomic_store(&metrics.runs, false);
	else
		pthread_detach(thread);
	return r;
}

/* Whether there are metrics at all; says once why there are none that somebody wants. */
static bool is_wanted(const struct params *params)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (params->metrics[0] && params->metrics[0] != '/' && log_once(&said))
		log_warn(
			"TRIBUTARY_METRICS=%s is no folder's path from /: there are no metrics. Only tributaryd answers "
			"on a port (--metrics)",
			params->metrics);
	return params->metrics[0] == '/';
}

static void begin_locked(const struct params *params)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	int r;

	if (!metrics.name[0]) {
		metrics.params = params;
		name_locked();
	}
	r = start_locked();
	if (r < 0 && log_once(&said))
		log_warn("There are no metrics (TRIBUTARY_METRICS), for their thread cannot be started: %s",
			 strerror(-r));
}

void plugin_metrics_open(const struct params *params, const struct transport_ops *ops, struct transport *transport)
{
	if (!is_wanted(params))
		return;
	pthread_mutex_lock(&metrics.lock);
	metrics.ops = ops;
	metrics.transport = transport;
	begin_locked(params);
	pthread_mutex_unlock(&metrics.lock);
}

void plugin_metrics_count(const struct params *params, const struct operations *operations)
{
	if (!is_wanted(params))
		return;
	pthread_mutex_lock(&metrics.lock);
	metrics.operations = operations;
	metrics.counting = true;
	begin_locked(params);
	pthread_mutex_unlock(&metrics.lock);
}

static void wake(void)
{
	uint64_t one = 1;

	if (metrics.wake_fd >= 0 && write(metrics.wake_fd, &one, sizeof(one)) < 0)
		return; /* full: it is awake anyway */
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)NS_PER_MS }, NULL);
}

void plugin_metrics_count_end(void)
{
	pthread_mutex_lock(&metrics.lock);
	metrics.counting = false;
	pthread_mutex_unlock(&metrics.lock);
	wake();
}

void plugin_metrics_close(void)
{
	bool ends;

	pthread_mutex_lock(&metrics.lock);
	read_devices_locked();
	forget_transport_locked();
	ends = !is_open_locked();
	pthread_mutex_unlock(&metrics.lock);
	wake();
	for (unsigned i = 0; ends && i < CLOSE_TRIES && atomic_load(&metrics.runs); i++)
		nap();
}

/* The end of the process: the library is never unloaded. The thread may be at work, or hang in its folder. */
__attribute__((destructor)) static void leave(void)
{
	int r;

	if (!metrics.name[0] || metrics.pid != getpid()) /* a forked child's copy */
		return;
	atomic_store(&metrics.left, true);
	for (unsigned i = 0; (r = pthread_mutex_trylock(&file_lock)) != 0 && i < LEAVE_TRIES; i++)
		nap();
	if (r == 0)
		metrics_file_remove(metrics.params->metrics, metrics.name);
}
