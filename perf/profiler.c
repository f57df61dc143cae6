/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profiler: what the plugin's profiler half costs on the thread that enqueues, of this core's time for each collective: the
 * events that NCCL sends for one (a group's, its call's, its plan's, and its own), through the built library's table.
 *
 *     profiler --plugin FILE
 */
#include "nccl/profiler.h"

#include "common/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 2000000, PASSES = 9, GROUP = 1, SIZES = 20 };

static void quiet(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

/* As NCCL fills them in: a descriptor of zeroes for each event. */
static void collective(const struct nccl_profiler_v5 *table, void *context, size_t count)
{
	struct nccl_profiler_event_v5 group = { .type = NCCL_PROFILER_GROUP_API };
	struct nccl_profiler_event_v5 call = { .type = NCCL_PROFILER_COLL_API };
	struct nccl_profiler_event_v5 plan = { .type = GROUP };
	struct nccl_profiler_event_v5 run = { .type = NCCL_PROFILER_COLL };
	void *handles[4] = { NULL };

	(void)table->startEvent(context, &handles[0], &group);
	call.collApi.func = run.coll.func = "AllReduce";
	call.collApi.datatype = run.coll.datatype = "ncclBfloat16";
	call.collApi.count = run.coll.count = count;
	(void)table->startEvent(context, &handles[1], &call);
	(void)table->startEvent(context, &handles[2], &plan);
	run.parentObj = handles[1];
	run.coll.algo = "RING";
	run.coll.proto = "SIMPLE";
	run.coll.nChannels = 2;
	(void)table->startEvent(context, &handles[3], &run);
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

	(void)table->init(&context, 1, &mask, NULL, 1, 8, 0, quiet);
	for (unsigned pass = 0; pass < PASSES; pass++) {
		double start_s = perf_cpu_s();

		for (unsigned i = 0; i < ROUNDS; i++)
			collective(table, context, (size_t)1 << (i % SIZES));
		ns[pass] = (perf_cpu_s() - start_s) / ROUNDS * 1e9;
	}
	(void)table->finalize(context);
	qsort(ns, PASSES, sizeof(ns[0]), by_value);
	printf("TRIBUTARY_PROFILER=%s: %.0f ns a collective (median of %d passes; %.0f to %.0f)\n", choice,
	       ns[PASSES / 2], PASSES, ns[0], ns[PASSES - 1]);
}

int main(int argc, char **argv)
{
	const char *file = argc == 3 ? argv[2] : "build/libnccl-net-tributary.so",
		   *choice = getenv("TRIBUTARY_PROFILER");
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	const struct nccl_profiler_v5 *table = library ? dlsym(library, "ncclProfiler_v6") : NULL;

	if (!table) {
		fprintf(stderr, "profiler: %s\n", dlerror());
		return 1;
	}
	measure(table, choice ? choice : "count");
	return 0;
}
