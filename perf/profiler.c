/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler: what the plugin's profiler half costs on the thread that enqueues, of this core's time for each collective: the
 * events that NCCL sends for one (a group's, its call's, its plan's, and its own), through the built library's table.
 *
 *     profiler --plugin FILE
 *     profiler --plugin FILE --play NS
 *
 * --play measures nothing: it sends the events of a rank until it is killed, AllReduces of NS each and AllGathers, and where
 * samples are asked for those of their channels (tests/metrics).
 */
#include "nccl/profiler.h"

#include "common/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 2000000, PASSES = 9, GROUP = 1, SIZES = 20, CHANNELS = 2, RANKS = 8 };

static void quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

/* Its kernel on one of them, by the GPU's clock. */
static void channel(const struct nccl_profiler_v5 *table, void *context, void *parent, uint64_t ns)
{
	struct nccl_profiler_event_v5 event = { .type = NCCL_PROFILER_KERNEL_CH, .parentObj = parent };
	union nccl_profiler_args_v5 args = { .kernelCh = { 1 + ns } };
	void *handle = NULL;

	event.kernelCh.pTimer = 1;
	(void)table->startEvent(context, &handle, &event);
	if (!handle)
		return;
	(void)table->recordEventState(handle, NCCL_PROFILER_KERNEL_CH_STOP, &args);
	(void)table->stopEvent(handle);
}

/* As NCCL fills them in: a descriptor of zeroes for each event. */
static void collective(const struct nccl_profiler_v5 *table, void *context, const char *func, size_t count, uint64_t ns)
{
	struct nccl_profiler_event_v5 group = { .type = NCCL_PROFILER_GROUP_API };
	struct nccl_profiler_event_v5 call = { .type = NCCL_PROFILER_COLL_API };
	struct nccl_profiler_event_v5 plan = { .type = GROUP };
	struct nccl_profiler_event_v5 run = { .type = NCCL_PROFILER_COLL };
	void *handles[4] = { NULL };

	(void)table->startEvent(context, &handles[0], &group);
	call.collApi.func = run.coll.func = func;
	call.collApi.datatype = run.coll.datatype = "ncclBfloat16";
	call.collApi.count = run.coll.count = count;
	(void)table->startEvent(context, &handles[1], &call);
	(void)table->startEvent(context, &handles[2], &plan);
	run.parentObj = handles[1];
	run.coll.algo = "RING";
	run.coll.proto = "SIMPLE";
	run.coll.nChannels = CHANNELS;
	(void)table->startEvent(context, &handles[3], &run);
	for (unsigned i = 0; i < CHANNELS && ns && handles[3]; i++)
		channel(table, context, handles[3], ns);
	for (unsigned i = 0; i < 4; i++)
		if (handles[i])
			(void)table->stopEvent(handles[i]);
}

static int by_value(const void *left, const void *right)
{
	const double *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

static void measure(const struct nccl_profiler_v5 *table, const char *choice)
{
	double ns[PASSES];
	void *context = NULL;
	int mask = 0;

	(void)table->init(&context, 1, &mask, NULL, 1, RANKS, 0, quiet);
	for (unsigned pass = 0; pass < PASSES; pass++) {
		double start_s = perf_cpu_s();

		for (unsigned i = 0; i < ROUNDS; i++)
			collective(table, context, "AllReduce", (size_t)1 << (i % SIZES), 0);
		ns[pass] = (perf_cpu_s() - start_s) / ROUNDS * 1e9;
	}
	(void)table->finalize(context);
	qsort(ns, PASSES, sizeof(ns[0]), by_value);
	printf("TRIBUTARY_PROFILER=%s: %.0f ns a collective (median of %d passes; %.0f to %.0f)\n", choice,
	       ns[PASSES / 2], PASSES, ns[0], ns[PASSES - 1]);
}

static void play(const struct nccl_profiler_v5 *table, uint64_t ns)
{
	enum { COUNT = 1 << 20, NAP_NS = 10000000 };
	void *context = NULL;
	int mask = 0;

	(void)table->init(&context, 1, &mask, NULL, 1, RANKS, 0, quiet);
	for (;;) {
		collective(table, context, "AllReduce", COUNT, ns);
		collective(table, context, "AllGather", COUNT, ns / 2);
		nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
	}
}

int main(int argc, char **argv)
{
	const char *file = argc >= 3 ? argv[2] : "build/lib/libnccl-net-tributary.so",
		   *choice = getenv("TRIBUTARY_PROFILER");
	void *library = setenv("TRIBUTARY_STATE_DIR", "/dev/null", 0) == 0 /* it is no job to be recorded */
				? dlopen(file, RTLD_NOW | RTLD_LOCAL)
				: NULL;
	const struct nccl_profiler_v5 *table = library ? dlsym(library, "ncclProfiler_v6") : NULL;

	if (!table) {
		fprintf(stderr, "profiler: %s\n", dlerror());
		return 1;
	}
	if (argc == 5 && !strcmp(argv[3], "--play"))
		play(table, strtoull(argv[4], NULL, 10));
	measure(table, choice ? choice : "count");
	return 0;
}
