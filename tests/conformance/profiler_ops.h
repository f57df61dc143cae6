/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built library's profiler tables as NCCL calls them, one version in a process. Whatever does not hold for every call
 * (success, errno, a handle that is written) ends the process. Threads: any, after profiler_ops_load.
 */
#ifndef TESTS_CONFORMANCE_PROFILER_OPS_H
#define TESTS_CONFORMANCE_PROFILER_OPS_H

#include "nccl/profiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { PROFILER_OPS_WITH_CALLS = 5 }; /* the first version that tells of an application's calls */

extern int profiler_ops_version;

#define PROFILER_OPS_MUST(condition)                                                                                 \
	do {                                                                                                         \
		if (!(condition)) {                                                                                  \
			fprintf(stderr, "%s:%d: version %d: not so: %s\n", __FILE__, __LINE__, profiler_ops_version, \
				#condition);                                                                         \
			_exit(1);                                                                                    \
		}                                                                                                    \
	} while (0)

/* As NCCL names and, in version 1, numbers them; with what they are here. */
struct profiler_ops_kind {
	const char *name;
	uint8_t number;
	int collective;
	bool is_p2p;
};
struct profiler_ops_word {
	const char *name;
	uint8_t number;
	int value;
};
struct profiler_ops_operation {
	const struct profiler_ops_kind *kind;
	const struct profiler_ops_word *algorithm, *protocol, *type;
	size_t count;
	unsigned channels;
};

/* Environment and network come first, as in NCCL. */
void profiler_ops_load(void *library, int version);
/* The context. */
void *profiler_ops_init(uint64_t id, int ranks, int nodes, int rank, int *mask);
void profiler_ops_finalize(void *context);

/* The handle. An event of an operation, or (NULL) of a type that says nothing of one. */
void *profiler_ops_start(void *context, uint64_t type, void *parent, const struct profiler_ops_operation *operation);
/* An application's call, and a channel's kernel. */
void *profiler_ops_call(void *context, const struct profiler_ops_operation *operation, bool captured);
void *profiler_ops_channel(void *context, void *parent, uint64_t gpu_ns);
void profiler_ops_stop(void *handle);
void profiler_ops_record(void *handle, unsigned state, union nccl_profiler_args_v5 *args);

#endif
