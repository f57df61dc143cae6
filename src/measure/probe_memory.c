/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/probe_memory.h"

#include "base/sys.h"
#include "measure/probe_memory_streams.h"
#include "measure/probe_numa.h"
#include "measure/probe_window.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
	LINE_BYTES = 64,
	CHUNK_BYTES = 64 << 10,        /* what a thread moves between two counts: microseconds */
	BUFFER_LEAST_BYTES = 64 << 20, /* where the kernel does not tell the cache */
	FREE_SHARE = 8,                /* at most this part of a memory's free bytes, for each of its two buffers */
};

/* More threads must bring more than this to be worth their cores. */
#define GAIN 1.02

/* A NUMA domain: its cores and what we hold of its memory. */
struct domain {
	int numa;
	bool exists;
	struct probe_numa_cpus cores;
	char *source, *sink; /* what flows read from and write to; NULL: not asked for yet */
	size_t source_bytes, sink_bytes;
};

/* A flow, resolved: domains by index, -1 none. */
struct stream {
	enum probe_memory_kind kind;
	int home, from, to; /* home: whose cores do the work */
};

struct chosen_threads {
	struct stream stream;
	unsigned threads;
};

struct memory_probe {
	struct probe probe; /* first */
	struct probe_memory_options options;
	struct domain *domains;
	size_t domain_count;
	struct chosen_threads *chosen;
	size_t chosen_count;
};

struct worker {
	_Alignas(2 * LINE_BYTES) _Atomic uint64_t moved_bytes; /* alone in its lines: others are written all the time */
	_Alignas(2 * LINE_BYTES) enum probe_memory_kind kind;
	const char *from;
	char *to;
	size_t from_bytes, to_bytes; /* multiples of CHUNK_BYTES */
	unsigned cpu;
	size_t flow;
	atomic_bool *stop;
	_Atomic uint64_t seen; /* keeps the compiler from leaving the loads out */
	pthread_t thread;
	bool started;
};

/* One run: its workers, by flow. */
struct team {
	struct worker *workers;
	size_t worker_count;
	atomic_bool stop;
};

static struct memory_probe *probe_of(struct probe *probe)
{
	return (struct memory_probe *)probe;
}

/* ----------------------------------------------------------------------------------------------------------- resolve */

static int domain_find(const struct memory_probe *memory, int numa)
{
	for (size_t i = 0; i < memory->domain_count; i++)
		if (memory->domains[i].numa == numa)
			return (int)i;
	return -1;
}

/* The domain of a CPU's or memory's vertex, if this machine has it. */
static int domain_of(const struct memory_probe *memory, uint32_t vertex, enum topology_kind kind)
{
	const struct topology *topology = memory->probe.topology;
	int index;

	if (vertex >= topology->vertex_count || topology->vertices[vertex].kind != kind)
		return -1;
	index = domain_find(memory, topology->vertices[vertex].cpu.numa);
	return index >= 0 && memory->domains[index].exists ? index : -1;
}

static bool has_cores(const struct memory_probe *memory, int domain)
{
	return domain >= 0 && memory->domains[domain].cores.count > 0;
}

static int stream_of(const struct memory_probe *memory, const struct probe_flow *flow, struct stream *ret)
{
	uint32_t from = flow->flow.from, to = flow->flow.to;
	struct stream stream = { .from = domain_of(memory, from, TOPOLOGY_MEMORY),
				 .to = domain_of(memory, to, TOPOLOGY_MEMORY) };

	if (flow->engine != PROBE_ENGINE_DEFAULT || flow->flow.way == TOPOLOGY_WAY_HOST)
		return -ENOTSUP;
	if (stream.from >= 0 && stream.to >= 0) {
		stream.kind = PROBE_MEMORY_COPY;
		stream.home = has_cores(memory, stream.from) ? stream.from : stream.to;
	} else if (stream.from >= 0) {
		stream.kind = PROBE_MEMORY_READ;
		stream.home = domain_of(memory, to, TOPOLOGY_CPU);
	} else if (stream.to >= 0) {
		stream.kind = PROBE_MEMORY_WRITE;
		stream.home = domain_of(memory, from, TOPOLOGY_CPU);
	} else {
		return -ENOTSUP;
	}
	if (!has_cores(memory, stream.home))
		return -ENOTSUP;
	*ret = stream;
	return 0;
}

static bool memory_can(struct probe *probe, const struct probe_flow *flow)
{
	struct stream stream;

	return !stream_of(probe_of(probe), flow, &stream);
}

/* ----------------------------------------------------------------------------------------------------------- buffers */

static size_t chunks_down(size_t bytes)
{
	return bytes / CHUNK_BYTES * CHUNK_BYTES;
}

/*
 * Larger than any domain's cache, so that no line is still there when its turn comes again. What is only written needs
 * that only where stores go through the cache.
 */
static size_t buffer_bytes_of(const struct memory_probe *memory, const struct domain *domain, bool sink)
{
	size_t bytes = BUFFER_LEAST_BYTES, free_bytes = probe_numa_free_bytes(domain->numa);

	if (memory->options.buffer_bytes)
		bytes = memory->options.buffer_bytes;
	for (size_t i = 0; i < memory->domain_count && !memory->options.buffer_bytes; i++) {
		size_t cache_bytes = probe_numa_cache_bytes(&memory->domains[i].cores);

		if (2 * cache_bytes > bytes && !(sink && probe_memory_stores_pass_caches))
			bytes = 2 * cache_bytes;
	}
	if (free_bytes && bytes > free_bytes / FREE_SHARE)
		bytes = free_bytes / FREE_SHARE;
	return bytes < CHUNK_BYTES ? CHUNK_BYTES : chunks_down(bytes);
}

static int buffer_get(struct memory_probe *memory, int index, bool sink, struct diag *diag)
{
	struct domain *domain = &memory->domains[index];
	char **buffer = sink ? &domain->sink : &domain->source;
	size_t *bytes = sink ? &domain->sink_bytes : &domain->source_bytes;
	void *pages;
	int r;

	if (*buffer)
		return 0;
	*bytes = buffer_bytes_of(memory, domain, sink);
	r = probe_numa_alloc(domain->numa, *bytes, &pages, diag);
	if (r < 0)
		return r;
	*buffer = pages;
	return 0;
}

static int buffers_get(struct memory_probe *memory, const struct stream *streams, size_t count, struct diag *diag)
{
	for (size_t i = 0; i < count; i++) {
		int r = streams[i].from >= 0 ? buffer_get(memory, streams[i].from, false, diag) : 0;

		if (!r && streams[i].to >= 0)
			r = buffer_get(memory, streams[i].to, true, diag);
		if (r < 0)
			return r;
	}
	return 0;
}

/*
 * The piece of a domain's buffer for one thread of a flow: the buffer is divided among the flows that use it, and among the
 * threads of each, so that none reads what another has just brought into a cache. With small buffers threads share pieces.
 */
static char *piece_of(const struct memory_probe *memory, const struct stream *streams, const unsigned *threads,
		      size_t count, size_t flow, unsigned thread, bool sink, size_t *ret_bytes)
{
	int index = sink ? streams[flow].to : streams[flow].from;
	const struct domain *domain = index >= 0 ? &memory->domains[index] : NULL;
	size_t users = 1, before = 0, bytes, at; /* itself */

	*ret_bytes = CHUNK_BYTES;
	if (!domain)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (i == flow || (sink ? streams[i].to : streams[i].from) != index)
			continue;
		before += i < flow;
		users++;
	}
	bytes = chunks_down((sink ? domain->sink_bytes : domain->source_bytes) / users);
	at = before * bytes;
	bytes = chunks_down(bytes / threads[flow]);
	at += thread * bytes;
	if (bytes)
		*ret_bytes = bytes;
	return (sink ? domain->sink : domain->source) + at;
}

/* ----------------------------------------------------------------------------------------------------------- threads */

static size_t step(size_t at, size_t bytes)
{
	return at + CHUNK_BYTES < bytes ? at + CHUNK_BYTES : 0;
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	size_t from_at = 0, to_at = 0;
	uint64_t seen = 0;

	/* A core of that domain that has gone offline meanwhile: the thread then runs where it may. */
	probe_numa_pin(worker->cpu);
	while (!atomic_load_explicit(worker->stop, memory_order_relaxed)) {
		seen ^= probe_memory_stream(worker->kind, worker->to ? worker->to + to_at : NULL,
					    worker->from ? worker->from + from_at : NULL, CHUNK_BYTES);
		from_at = step(from_at, worker->from_bytes);
		to_at = step(to_at, worker->to_bytes);
		atomic_store_explicit(&worker->moved_bytes, worker->moved_bytes + CHUNK_BYTES, memory_order_relaxed);
	}
	atomic_store_explicit(&worker->seen, seen, memory_order_relaxed);
	return NULL;
}

static uint64_t team_moved(void *arg, size_t flow)
{
	const struct team *team = arg;
	uint64_t bytes = 0;

	for (size_t i = 0; i < team->worker_count; i++)
		if (team->workers[i].flow == flow)
			bytes += atomic_load_explicit(&team->workers[i].moved_bytes, memory_order_relaxed);
	return bytes;
}

static void team_end(struct team *team)
{
	atomic_store(&team->stop, true);
	for (size_t i = 0; i < team->worker_count; i++)
		if (team->workers[i].started)
			pthread_join(team->workers[i].thread, NULL);
	sys_free(team->workers);
	team->workers = NULL;
}

/* Which of the domain's cores the next of `total` threads gets: spread over all, for caches come in groups of cores. */
static unsigned core_of(const struct domain *domain, size_t turn, size_t total)
{
	size_t count = domain->cores.count;

	if (total <= 1)
		return domain->cores.cpu[0];
	return total > count ? domain->cores.cpu[turn % count] : domain->cores.cpu[turn * count / total];
}

static size_t threads_at_home(const struct stream *streams, const unsigned *threads, size_t count, int home)
{
	size_t total = 0;

	for (size_t i = 0; i < count; i++)
		if (streams[i].home == home)
			total += threads[i];
	return total;
}

/* The workers of one flow, from *next on. Their turns at the cores follow those of the flows before it. */
static void workers_fill(const struct memory_probe *memory, struct team *team, const struct stream *streams,
			 const unsigned *threads, size_t count, size_t flow, size_t *next)
{
	const struct stream *stream = &streams[flow];
	size_t total = threads_at_home(streams, threads, count, stream->home);
	size_t turn = threads_at_home(streams, threads, flow, stream->home);

	for (unsigned i = 0; i < threads[flow]; i++) {
		struct worker *worker = &team->workers[(*next)++];

		worker->kind = stream->kind;
		worker->from = piece_of(memory, streams, threads, count, flow, i, false, &worker->from_bytes);
		worker->to = piece_of(memory, streams, threads, count, flow, i, true, &worker->to_bytes);
		worker->cpu = core_of(&memory->domains[stream->home], turn + i, total);
		worker->flow = flow;
		worker->stop = &team->stop;
	}
}

/* Measures once, with so many threads for each flow. */
static int team_measure(struct memory_probe *memory, const struct stream *streams, const unsigned *threads,
			size_t count, uint64_t duration_ns, struct probe_rates *ret)
{
	struct team team = { 0 };
	struct probe_window window = { &memory->probe, team_moved, NULL, &team, count };
	size_t next = 0;
	int r = -ENOMEM;

	for (size_t i = 0; i < count; i++)
		team.worker_count += threads[i];
	team.workers = sys_zalloc_aligned(_Alignof(struct worker), team.worker_count * sizeof(*team.workers));
	if (!team.workers) {
		team.worker_count = 0;
		goto out;
	}
	for (size_t i = 0; i < count; i++)
		workers_fill(memory, &team, streams, threads, count, i, &next);
	for (size_t i = 0; i < team.worker_count; i++) {
		r = sys_thread_start(work, &team.workers[i], "memory", &team.workers[i].thread);
		if (r < 0)
			goto out;
		team.workers[i].started = true;
	}
	r = probe_window_measure(&window, duration_ns, ret);
out:
	team_end(&team);
	return r;
}

static unsigned most_threads(const struct memory_probe *memory, const struct stream *stream)
{
	size_t most = memory->domains[stream->home].cores.count;

	if (memory->options.threads_max && most > memory->options.threads_max)
		most = memory->options.threads_max;
	return (unsigned)most;
}

static bool same_stream(const struct stream *a, const struct stream *b)
{
	return a->kind == b->kind && a->home == b->home && a->from == b->from && a->to == b->to;
}

static const struct chosen_threads *chosen_find(const struct memory_probe *memory, const struct stream *stream)
{
	for (size_t i = 0; i < memory->chosen_count; i++)
		if (same_stream(&memory->chosen[i].stream, stream))
			return &memory->chosen[i];
	return NULL;
}

/*
 * How many threads a flow needs when it is alone: the fewest that get what any number gets. All powers of two are tried,
 * for the gain may pause while one group of cores is full.
 */
static int threads_choose(struct memory_probe *memory, const struct stream *stream, uint64_t duration_ns)
{
	unsigned most = most_threads(memory, stream), best = 1;
	double best_Bps = 0;

	if (chosen_find(memory, stream))
		return 0;
	for (unsigned threads = 1; most > 1; threads = 2 * threads < most ? 2 * threads : most) {
		double rate_Bps = 0;
		struct probe_rates rates = { &rate_Bps, 0 };
		int r = team_measure(memory, stream, &threads, 1, duration_ns / 4, &rates);

		if (r < 0)
			return r;
		if (rate_Bps > best_Bps * GAIN) {
			best_Bps = rate_Bps;
			best = threads;
		}
		if (threads == most)
			break;
	}
	if (sys_grow(&memory->chosen, memory->chosen_count, 1, sizeof(*memory->chosen)) < 0)
		return -ENOMEM;
	memory->chosen[memory->chosen_count++] = (struct chosen_threads){ *stream, best };
	return 0;
}

/* Flows of one domain share its cores evenly; none gets more than it needs alone. */
static void threads_share(const struct memory_probe *memory, const struct stream *streams, size_t count,
			  unsigned *ret_threads)
{
	for (size_t i = 0; i < count; i++) {
		const struct chosen_threads *chosen = chosen_find(memory, &streams[i]);
		size_t sharing = 1, most; /* with itself */

		for (size_t k = 0; k < count; k++)
			sharing += k != i && streams[k].home == streams[i].home;
		most = memory->domains[streams[i].home].cores.count / sharing;
		ret_threads[i] = chosen ? chosen->threads : 1;
		if (ret_threads[i] > most)
			ret_threads[i] = most ? (unsigned)most : 1;
	}
}

/* --------------------------------------------------------------------------------------------------------------- ops */

static int memory_run(struct probe *probe, const struct probe_flow *flows, size_t count, uint64_t duration_ns,
		      struct probe_rates *ret, struct diag *diag)
{
	struct memory_probe *memory = probe_of(probe);
	struct stream *streams = calloc(count ? count : 1, sizeof(*streams));
	unsigned *threads = calloc(count ? count : 1, sizeof(*threads));
	int r = streams && threads ? 0 : -ENOMEM;

	for (size_t i = 0; !r && i < count; i++) {
		r = stream_of(memory, &flows[i], &streams[i]);
		if (r < 0)
			diag_set(diag, 0, 0, "flow %zu is not between memories and cores of this machine", i);
	}
	if (!r)
		r = buffers_get(memory, streams, count, diag);
	for (size_t i = 0; !r && i < count; i++)
		r = threads_choose(memory, &streams[i], duration_ns);
	if (!r) {
		threads_share(memory, streams, count, threads);
		r = team_measure(memory, streams, threads, count, duration_ns, ret);
	}
	if (r == -EINTR)
		diag_set(diag, 0, 0, "stopped");
	else if (r < 0 && r != -ENOTSUP)
		diag_set(diag, 0, 0, "memory copies: %s", strerror(-r));
	free(threads);
	free(streams);
	return r;
}

static void memory_close(struct probe *probe)
{
	struct memory_probe *memory = probe_of(probe);

	for (size_t i = 0; memory->domains && i < memory->domain_count; i++) {
		probe_numa_free(memory->domains[i].source, memory->domains[i].source_bytes);
		probe_numa_free(memory->domains[i].sink, memory->domains[i].sink_bytes);
	}
	free(memory->domains);
	free(memory->chosen);
	free(memory);
}

static const struct probe_ops memory_ops = {
	.name = "memory", .can = memory_can, .run = memory_run, .close = memory_close
};

int probe_memory_open(const struct topology *topology, const _Atomic bool *stop,
		      const struct probe_memory_options *options, struct probe **ret, struct diag *diag)
{
	struct memory_probe *memory = calloc(1, sizeof(*memory));

	if (!memory)
		goto fail;
	memory->probe = (struct probe){ &memory_ops, topology, stop };
	if (options)
		memory->options = *options;
	memory->domains = calloc(topology->vertex_count ? topology->vertex_count : 1, sizeof(*memory->domains));
	if (!memory->domains)
		goto fail;
	for (size_t i = 0; i < topology->vertex_count; i++) {
		const struct topology_vertex *vertex = &topology->vertices[i];
		struct domain *domain = &memory->domains[memory->domain_count];

		if ((vertex->kind != TOPOLOGY_CPU && vertex->kind != TOPOLOGY_MEMORY) ||
		    domain_find(memory, vertex->cpu.numa) >= 0)
			continue;
		domain->numa = vertex->cpu.numa;
		domain->exists = probe_numa_exists(domain->numa);
		if (domain->exists && probe_numa_cpus(domain->numa, &domain->cores) < 0)
			domain->cores.count = 0;
		probe_numa_cores_only(&domain->cores);
		memory->domain_count++;
	}
	*ret = &memory->probe;
	return 0;
fail:
	diag_set(diag, 0, 0, "no memory for the probe");
	if (memory)
		memory_close(&memory->probe);
	return -ENOMEM;
}
