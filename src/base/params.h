/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every TRIBUTARY_* environment variable, in one table. The table parses, prints `tributary params` and generates the
 * section of the man page. The environment is read once, by params_load(); nothing else in the library calls getenv.
 */
#ifndef TRIBUTARY_BASE_PARAMS_H
#define TRIBUTARY_BASE_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum net_choice { NET_CHOICE_AUTO, NET_CHOICE_TCP, NET_CHOICE_VERBS, NET_CHOICE_OFF, NET_CHOICE_COUNT };
enum join_choice { JOIN_AUTO, JOIN_ALWAYS, JOIN_NEVER, JOIN_CHOICE_COUNT };
enum steer_choice { STEER_OFF, STEER_TOPOLOGY, STEER_FULL, STEER_COUNT };
enum profiler_choice { PROFILER_OFF, PROFILER_COUNT, PROFILER_TIME, PROFILER_CHOICE_COUNT };
enum family_choice { FAMILY_AUTO, FAMILY_IPV4, FAMILY_IPV6, FAMILY_COUNT };
enum simd_choice { SIMD_AUTO, SIMD_SCALAR, SIMD_AVX2, SIMD_AVX512, SIMD_NEON, SIMD_COUNT };

#define PARAMS_STRING_BYTES 256 /* longest value of a text variable, with its NUL; longer is invalid */

enum { PARAMS_TUNING_OFF, PARAMS_TUNING_AUTO }; /* no hash is one of these (parse_digest) */

struct params {
	enum net_choice net;                  /* TRIBUTARY_NET */
	bool disable;                         /* TRIBUTARY_DISABLE */
	char interfaces[PARAMS_STRING_BYTES]; /* TRIBUTARY_IF, else NCCL_SOCKET_IFNAME, else "" (choose) */
	enum family_choice family;            /* TRIBUTARY_FAMILY, else NCCL_SOCKET_FAMILY (AF_INET, AF_INET6) */
	enum join_choice join;                /* TRIBUTARY_JOIN */
	uint16_t port_low, port_high;         /* TRIBUTARY_PORTS=low-high; 0, 0: any */
	unsigned streams;                     /* TRIBUTARY_STREAMS: active streams a rail; 0: choose */
	int movers;                           /* TRIBUTARY_MOVERS: threads; -1: auto */
	uint64_t timeout_ns;                  /* TRIBUTARY_TIMEOUT, given in seconds */
	uint64_t report_after_ns;             /* TRIBUTARY_REPORT_AFTER, given in seconds: say who waits for whom */
	size_t eager_bytes;                   /* TRIBUTARY_EAGER_BYTES: the longest message sent without a grant */
	size_t segment_bytes;                 /* TRIBUTARY_SEGMENT_BYTES: the longest frame of an announced message */
	bool pace;                            /* TRIBUTARY_PACE */
	size_t pace_budget_bytes;             /* TRIBUTARY_PACE_BUDGET: 0: measured */
	enum steer_choice steer;              /* TRIBUTARY_STEER */
	unsigned local_processes; /* TRIBUTARY_LOCAL_PROCESSES: of the job on this host; 0: ask the launcher */
	char shared_dir[PARAMS_STRING_BYTES]; /* TRIBUTARY_SHARED_DIR: where the processes of a host meet */
	char dump_dir[PARAMS_STRING_BYTES];   /* TRIBUTARY_DUMP_DIR, "" for none */
	char metrics[PARAMS_STRING_BYTES];    /* TRIBUTARY_METRICS: a folder, "" for none */
	uint64_t given;                       /* bit i: row i has a value that somebody set */
	uint64_t from_nccl;                   /* bit i: the value of row i is that of NCCL's own variable */
	uint64_t tuning_told;                 /* no row: what connections tell of tuning (plugin/steer/tuning.h) */
	enum profiler_choice profiler;        /* TRIBUTARY_PROFILER */
	bool tuner;                           /* TRIBUTARY_TUNER */
	uint64_t tuning;                      /* TRIBUTARY_TUNING: a table's hash, PARAMS_TUNING_OFF or _AUTO */
	bool collnet;                         /* TRIBUTARY_COLLNET */
	size_t aggregate_flat_bytes;          /* TRIBUTARY_AGGREGATE_DIRECT: 0: chosen */
	size_t aggregate_segment_bytes;       /* TRIBUTARY_AGGREGATE_SEGMENT: the least; 0: chosen */
	bool aggregate_measure;               /* TRIBUTARY_AGGREGATE_MEASURE */
	bool verify;                          /* TRIBUTARY_VERIFY */
	char profile[PARAMS_STRING_BYTES];    /* TRIBUTARY_PROFILE: a file; "": look in the state directory */
	char cluster[PARAMS_STRING_BYTES];    /* TRIBUTARY_CLUSTER: a file; "": the profile's, or none */
	char state_dir[PARAMS_STRING_BYTES];  /* TRIBUTARY_STATE_DIR, "": choose */
	char secret[PARAMS_STRING_BYTES];     /* TRIBUTARY_SECRET: a file, "": none */
	enum simd_choice simd;                /* TRIBUTARY_SIMD */
	char hca[PARAMS_STRING_BYTES];        /* TRIBUTARY_HCA, else NCCL_IB_HCA, else "" (all) */
	int gid_index;                        /* TRIBUTARY_GID_INDEX, else NCCL_IB_GID_INDEX; -1: choose */
	int traffic_class;                    /* TRIBUTARY_TRAFFIC_CLASS, else NCCL_IB_TC; -1: none */
	int service_level;                    /* TRIBUTARY_SERVICE_LEVEL, else NCCL_IB_SL; -1: the traffic class's */
	unsigned qps;                         /* TRIBUTARY_QPS, else NCCL_IB_QPS_PER_CONNECTION: queue pairs a rail */
	bool rdma_reserve;                    /* TRIBUTARY_RDMA_RESERVE */
	/* No row: XDG_STATE_HOME, else .local/state below HOME; "" when neither is an absolute path of that length. */
	char state_home[PARAMS_STRING_BYTES];
	/* No row: of a TCP transport that serves another one, which says itself what the loss of a connection means. */
	bool quiet;
};

/* getenv-like: value or NULL; and the whole environment, to find misspelt names. Both must be given. */
struct params_source {
	const char *(*get)(const char *name);
	char *const *environ_list; /* "NAME=value" strings, NULL-terminated */
};

/*
 * Reads *source into *ret. Never fails: each invalid value and each TRIBUTARY_* name that is no row of the table is
 * reported by one call of `complain` (a whole sentence: name, value, what was expected, the default now used; for a
 * misspelt name the nearest real one), and the default is used.
 */
void params_load(const struct params_source *source, void (*complain)(void *arg, const char *sentence), void *arg,
		 struct params *ret);

/*
 * What another can replace (a stream, a queue pair, an aggregator) is given up after this or parts of it; a peer, whose loss
 * ends the job, only after timeout_ns. A third of that, but no less than 10 s, or all of it where it is shorter.
 */
uint64_t params_replace_ns(uint64_t timeout_ns);

/* The hash of the table that TRIBUTARY_TUNING names; 0: none. */
static inline uint64_t params_tuning_named(const struct params *params)
{
	return params->tuning > PARAMS_TUNING_AUTO ? params->tuning : 0;
}

/* The process environment as a source. */
struct params_source params_from_environment(void);

/* All defaults. */
void params_defaults(struct params *ret);

/* The table, for `tributary params` and the man page. */
struct param_info {
	const char *name, *type, *unit, *range, *default_text, *meaning;
};
size_t params_count(void);
void params_info(size_t index, struct param_info *ret);
/* Whether its value is one that somebody set, and a valid one; else it is the default. */
bool params_is_given(const struct params *params, size_t index);
/* The variable that the value of row `index` came from: its own, or NCCL's in its place. */
const char *params_origin(const struct params *params, size_t index);
/* The same of the row that has this name. */
static inline const char *params_origin_of(const struct params *params, const char *name)
{
	struct param_info info = { .name = "" };
	size_t i = params_count();

	while (i && strcmp(info.name, name) != 0)
		params_info(--i, &info);
	return params_origin(params, i);
}
/* The present value of row `index` as text, NUL-terminated; -ENOSPC when it does not fit. */
int params_format(const struct params *params, size_t index, char *text, size_t text_bytes);

#endif
