/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `plan` and `explain` have in common: for which GPUs, NICs and hosts; the channels of a machine, ours and others';
 * what each makes of the graph's capacities, by the verifier; and how it is printed. One thread. Strings in ret_* belong to
 * the caller. The graph must outlive all of it.
 */
#ifndef TRIBUTARY_COMMAND_PLAN_CHANNELS_H
#define TRIBUTARY_COMMAND_PLAN_CHANNELS_H

#include "base/log.h"
#include "command/term.h"
#include "tributary/plan.h"
#include "tributary/predict.h"

#include <jansson.h>
#include <stdio.h>

struct command_call;

/* Channels of one pattern, whoever made them, on the graph's capacities. */
struct channels_graph {
	struct plan plan; /* the channels that differ; rate_Bps is what their maker says of each */
	size_t copies;    /* of each; at least 1 */
	uint64_t
		rate_Bps; /* what each can really move, by the verifier, copies counted; PLAN_UNBOUNDED_BPS: no limit */
	struct plan_load *loads; /* the fullest first; crossings with copies counted */
	size_t load_count;
	bool fallback; /* NCCL's, for want of anything better */
	/* What NCCL believes of each channel, as it counts (of a tree, one way of a hop); 0: not NCCL's. */
	double believed_intra_GBps, believed_inter_GBps;
	bool believed_same; /* all channels have the same order of GPUs */
};

static inline size_t channels_count(const struct channels_graph *graph)
{
	return graph->plan.channel_count * graph->copies;
}
/* All of them, really. */
uint64_t channels_total_Bps(const struct channels_graph *graph);
/* Bytes/s on a load at the graph's own rate, and its share of the capacity; negative: not known. */
double channels_load_Bps(const struct channels_graph *graph, const struct plan_load *load);
double channels_load_share(const struct channels_graph *graph, const struct plan_load *load);
/* Full: the channels could not be any faster for it. */
bool channels_load_is_full(const struct channels_graph *graph, const struct plan_load *load);

/* Channels of several patterns by one maker, all for the same request. */
struct channels {
	const struct topology *topology;
	struct plan_request request;
	enum plan_where where;
	bool has[PLAN_PATTERN_COUNT];
	struct channels_graph graphs[PLAN_PATTERN_COUNT];
	struct plan_set set; /* of ours alone */
	char maker[96];      /* "Tributary", "NCCL (estimate)", "NCCL (dump.xml)" */
};
void channels_fini(struct channels *channels);

/* How far NCCL uses P2P among these GPUs with the plugin: its default, or farther where that was measured to be faster. */
enum topology_class channels_p2p(const struct topology *topology, const uint32_t *gpus, size_t count);
/*
 * The request of --gpus, --nets and --hosts; NICs without --nets in order of their names. GPUs without a number get one,
 * in order of their places. Says on stderr what is wrong. Returns an exit status.
 */
int channels_request(const struct command_call *call, struct topology *topology, struct plan_request *ret,
		     enum plan_where *ret_where);
/* Plans, and has the verifier verify every plan. Says on stderr what went wrong. Returns an exit status. */
int channels_plan(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		  struct channels *ret);
/* What NCCL's search would choose by nominal rates. */
int channels_estimate(const struct topology *topology, const struct plan_request *request, struct channels *ret);
/* What NCCL wrote to NCCL_GRAPH_DUMP_FILE. */
int channels_read(const struct topology *topology, const struct plan_request *request, const char *path,
		  struct channels *ret);

/*
 * Why NCCL takes the network between GPUs of a host, unless NCCL_NET_DISABLE_INTRA=1; "": it does not. By itself it goes by
 * nominal rates, with the plugin by the measured ones of its topology file.
 */
struct channels_splits {
	struct diag nccl, ours;
};
/* nccls is the request by NCCL's own rules. Prints an error on stderr; returns an exit status. */
int channels_find_splits(const struct channels *ours, const struct plan_request *nccls, struct channels_splits *ret);

/*
 * Whether a time can be said of them: a link that they cross inside the machine has a known rate. Says on stderr if not.
 * Returns an exit status.
 */
int channels_need_rates(const struct channels *channels);

/* "ring", "tree", "chain". */
const char *channels_pattern_word(enum plan_pattern pattern);
/* "20.5 of (24.0)": GB/s, with the signs of where a capacity is from. */
void channels_load_words(const struct channels *channels, const struct channels_graph *graph,
			 const struct plan_load *load, bool utf8, char *text, size_t text_bytes);
void channels_capacity_words(const struct topology *topology, const struct plan_load *load, bool utf8, char *text,
			     size_t text_bytes);
/* "2 channels × 20.4 = 40.9 GB/s". */
void channels_sum_words(const struct channels_graph *graph, bool utf8, char *text, size_t text_bytes);
/* "8 GPUs on one host", "GPUs 0-3 on each of 2 hosts". */
void channels_request_words(const struct channels *channels, char *text, size_t text_bytes);
/* No channels could move more. */
bool channels_is_optimal(const struct channels_graph *graph);
/* "optimal", "at least 98.7 % of optimal"; "" where nothing bounds it. */
void channels_share_words(const struct channels_graph *graph, char *text, size_t text_bytes);

/* One hop of a channel. */
struct channels_hop {
	uint32_t from, to; /* vertices */
	enum topology_class path_class;
	bool host; /* through host memory */
};
enum { CHANNELS_HOPS_MAX = PLAN_GPUS_MAX + 1 };
/* In order, NICs included; returns how many. A tree's are those from its first GPU on. */
size_t channels_hops(const struct channels *channels, enum plan_pattern pattern, size_t channel,
		     struct channels_hop ret[CHANNELS_HOPS_MAX]);

/*
 * What a communicator of these channels is to NCCL's cost model: at the rates that are true, or that NCCL believes. Ours
 * go through the tuner: channels_tuner().
 */
void channels_predict(const struct channels *channels, bool believed, struct predict_communicator *ret);

/* Whether NCCL has our collnet, and how many thousandths of the rate of NCCL's ring or tree it then has (aggregate/gain.h). */
struct channels_collnet {
	bool on;        /* --collnet, or the file promises a gain, as for `tributary env` and the plugin */
	bool has_file;  /* --cluster */
	bool loses_gdr; /* some NIC has GPUDirect RDMA, which NCCL does not use beside collnet */
	unsigned gain_permille;
};
/* --collnet and --cluster, for a communicator on so many hosts. Says on stderr what is wrong. Returns an exit status. */
int channels_collnet(const struct command_call *call, const struct channels *channels, size_t node_count,
		     struct channels_collnet *ret);
/* What the user has to set for it, where NCCL takes it for anything; "no setting is needed". */
const char *channels_to_set(const struct channels_collnet *collnet, bool is_taken);
/* What the plugin's tuner is for our channels on so many hosts. */
void channels_tuner(const struct channels *channels, size_t node_count, const struct channels_collnet *collnet,
		    struct predict_tuner *ret);

struct channels_taken {
	int algorithm, protocol; /* -1: none */
};
struct channels_costs {
	float us[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT]; /* below 0: NCCL would not run it */
};
/* One size of one collective. */
struct channels_tuned {
	uint64_t bytes;
	struct channels_costs truth;
	struct channels_taken tuned, alone; /* with the tuner, and by NCCL from the graph file */
	double tuned_us, alone_us, best_us; /* in truth; below 0: none */
};
void channels_tune(const struct predict_tuner *tuner, enum predict_collective collective, uint64_t bytes,
		   struct channels_tuned *ret);

/* text.c */
void channels_print(const struct channels *channels, const struct channels *other, const struct term *term, FILE *out);
/* json.c: NULL: no memory. */
json_t *channels_json(const struct channels *channels);

#endif
