/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels for NCCL, planned from link capacities. Pure and deterministic: the same graph and request give the same plan
 * in every process. Any thread; nothing is kept between calls.
 *
 * Model. A plan has `channel_count` channels with equal shares; each moves `rate_Bps`. Every hop of a channel charges
 * every directed link it crosses once for each crossing, by the way its data goes: P2P over the links between the GPUs;
 * through the host into a memory and out of it again; a NIC straight to a GPU with GPUDirect RDMA, else by a memory. The
 * plan's rate is the largest for which no link, limit or pair is over its capacity:
 *
 *     rate = min over constraints c of capacity(c) / load(c),   load(c) = crossings of c by all channels
 *     total = channel_count × rate
 *
 * Sought, in this order: the largest total; the fewest crossings of switches and sockets; the shortest ways; the fewest
 * channels. docs/design/planner.md has the formulae, the search and the bound.
 */
#ifndef TRIBUTARY_PLAN_H
#define TRIBUTARY_PLAN_H

#include "tributary/topology.h"

enum {
	PLAN_GPUS_MAX = 16,
	PLAN_NICS_MAX = 16,
	PLAN_CHANNELS_MAX = 16, /* NCCL doubles them (nccl: MAXCHANNELS 64) */
};

/* The rate of channels that cross nothing of known capacity; times PLAN_CHANNELS_MAX it does not overflow. */
#define PLAN_UNBOUNDED_BPS (UINT64_MAX / PLAN_CHANNELS_MAX)

enum plan_pattern {
	PLAN_RING,  /* on one host a cycle; on several a way from the NIC it comes in by to the NIC it goes out by */
	PLAN_TREE,  /* a chain inside the host; parent and children of other hosts at its first GPU(s) */
	PLAN_CHAIN, /* for collnet: a chain whose first GPU talks to the network */
	/*
	 * For collnet where all GPUs reach all (NVSwitch): the first GPU of a channel, its head, adds up a part of what
	 * all others hand it, talks to the network, and hands the sum out. Each GPU is the head of one channel at most;
	 * the others are listed in order.
	 */
	PLAN_DIRECT,
	PLAN_PATTERN_COUNT
};

struct plan_request {
	uint32_t gpus[PLAN_GPUS_MAX];     /* vertices */
	size_t gpu_count;                 /* 1 to PLAN_GPUS_MAX */
	uint32_t nics[PLAN_NICS_MAX];     /* vertices, in the order of NCCL's net devices */
	size_t nic_count;                 /* 0 is fine for one host */
	unsigned hosts;                   /* that all look like this one; 1: no network */
	unsigned channels_max;            /* 0: PLAN_CHANNELS_MAX */
	bool crossnic;                    /* a ring may leave by another NIC than it came in by */
	enum topology_class p2p_farthest; /* NCCL uses P2P up to here (default PXB), the host beyond */
	uint64_t work_limit;              /* steps of the search; 0: what 10 ms allow for 8 GPUs, 100 ms for 16 */
};
/* How far NCCL uses P2P among these GPUs unless it is told: up to PXB; with at most two on AMD's CPUs anywhere. */
enum topology_class plan_p2p_default(const struct topology *topology, const uint32_t *gpus, size_t count);
/* All GPUs and NICs of the graph, in order of index and name; one host; NCCL's defaults. */
int plan_request_all(const struct topology *topology, struct plan_request *ret);

/* The way NCCL would take between two GPUs of the request: P2P where the class allows and the driver works, else host. */
enum topology_way plan_way(const struct topology *topology, const struct plan_request *request, uint32_t from,
			   uint32_t to);

struct plan_channel {
	uint8_t order[PLAN_GPUS_MAX]; /* indices into request.gpus */
	uint8_t nic_in, nic_out;      /* indices into request.nics; with one host both 0 */
};

struct plan {
	enum plan_pattern pattern;
	size_t gpu_count, channel_count;
	struct plan_channel channels[PLAN_CHANNELS_MAX];
	uint64_t rate_Bps;  /* of each channel */
	uint64_t bound_Bps; /* no plan's total is above */
	bool exact;         /* no plan of at most channels_max channels has a larger total: the search was complete */
	bool crossnic;
	enum topology_class intra_class, inter_class; /* the farthest GPU to GPU, and GPU to NIC, in NCCL's sense */
	uint64_t work;                                /* steps taken */
};
static inline uint64_t plan_total_Bps(const struct plan *plan)
{
	return plan->rate_Bps * plan->channel_count;
}

/*
 * -EINVAL: no GPU, too many, a vertex of another kind, several hosts without a NIC; -ENOENT: two GPUs that no data can
 * pass between; -ENOMEM.
 */
int plan_make(const struct topology *topology, const struct plan_request *request, enum plan_pattern pattern,
	      struct plan *ret);

struct diag;
/*
 * The verifier, which shares no code with the planner: every GPU once in every channel, closed rings, every hop a way that
 * exists, NIC rules, and no constraint over its capacity at the plan's rate (to one byte/s a channel). 0, or -EINVAL with
 * the reason in *diag.
 */
int plan_verify(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		struct diag *diag);
/* The largest rate that the channels allow, by the verifier's own arithmetic; for plans of others (NCCL's). */
int plan_verify_rate(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		     uint64_t *ret_rate_Bps, struct diag *diag);

/* What channels charge, and how much of it: one directed link, one limit, one pair by one way, one NIC one way. */
enum plan_load_kind {
	PLAN_LOAD_LINK,    /* index: a directed link */
	PLAN_LOAD_LIMIT,   /* a limit */
	PLAN_LOAD_P2P,     /* a pair, by P2P */
	PLAN_LOAD_HOST,    /* a pair, by the host */
	PLAN_LOAD_NIC_IN,  /* a NIC's vertex; where the rate of its wire is not known, its own speed */
	PLAN_LOAD_NIC_OUT, /* the same */
	PLAN_LOAD_KIND_COUNT
};
struct plan_load {
	enum plan_load_kind kind;
	uint32_t index;
	uint64_t crossings;    /* by all channels together; of a limit, of all its members */
	uint64_t capacity_Bps; /* 0: not known, and it bounds nothing */
};
/*
 * All that the channels cross, by the verifier's own arithmetic: what they fill first comes first, what has no known
 * capacity last. *ret is malloc'ed; the caller frees it. Errors: those of plan_verify_rate.
 */
int plan_verify_loads(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		      struct plan_load **ret, size_t *ret_count, struct diag *diag);
/* "gpu0>switch:0000:17:00.0", "gpu0 to gpu1 by P2P", "mlx5_0 out". */
void plan_load_name(const struct topology *topology, const struct plan_load *load, char *text, size_t text_bytes);

/*
 * The plans of one communicator as NCCL takes them: rings, trees and chains with the same number of channels, the
 * smallest with which the ring moves 99 % of what the best ring does and the tree 99 % of what the best tree does. At
 * least two, and copies where a channel would have to move more than PLAN_CHANNEL_MOST_BPS. Channels are in an order in
 * which the first few of them use the links evenly too.
 */
#define PLAN_CHANNEL_MOST_BPS 25000000000 /* nccl: graph/search.cc doubles channels that are to move as much */

enum { PLAN_DIRECT_GPUS_MAX = 8 }; /* of a host, in one communicator: more is beyond NCCL's collnet */

enum plan_where {
	PLAN_ONE_HOST,
	PLAN_SEVERAL_HOSTS,
	PLAN_EITHER, /* nobody can tell: channels that are good rings inside one host and good ways between several */
	PLAN_WHERE_COUNT
};
struct plan_set {
	enum plan_where where;
	size_t channel_count;
	/*
	 * Rings and trees always; chains where there may be several hosts; direct heads there too if an NVSwitch joins 2 to
	 * PLAN_DIRECT_GPUS_MAX GPUs: as many channels as there are heads, and the chains then begin at those.
	 */
	bool has[PLAN_PATTERN_COUNT];
	struct plan plans[PLAN_PATTERN_COUNT]; /* where has[]; rate_Bps is that of intra_Bps or, if less, inter_Bps */
	uint64_t
		intra_Bps[PLAN_PATTERN_COUNT]; /* of each channel when the communicator has one host; 0: not verified */
	uint64_t inter_Bps[PLAN_PATTERN_COUNT]; /* when it has several; 0: not verified */
	uint64_t many_Bps[PLAN_PATTERN_COUNT];  /* when it has three or more; 0: not verified */
	uint64_t one_way_Bps; /* of each chain inside a host if its hops, the tree's, were crossed one way alone */
	/*
	 * How many times as fast as a ring the hosts aggregate what is large, on the job's leaves and aggregators. 0: no
	 * faster, or not known. Set by whoever knows the cluster, after plan_make_set.
	 */
	unsigned chain_gain_permille;
	bool tree_balanced; /* trees move no less if the second GPU has one of the children (NCCL's balanced trees) */
};
/*
 * request.hosts says how many there are where there are several (2 if it says less); request.channels_max, if not 0, is
 * the most channels. Errors: those of plan_make; -ENODATA: PLAN_EITHER, and no channels reach 85 % of the best
 * that was found for both.
 */
int plan_make_set(const struct topology *topology, const struct plan_request *request, enum plan_where where,
		  struct plan_set *ret);

/*
 * Whether such a set can be used for that request, wherever its bytes come from: every count is in its bounds, every GPU is
 * in every channel once, and no index leads astray but to the vertices, which are the request's. What it carries is not
 * verified.
 */
bool plan_set_fits(const struct plan_request *request, const struct plan_set *set);

/*
 * What each channel of a tree or chain could carry inside a host if its hops were crossed one way alone, whichever is
 * worse. Errors: those of plan_make.
 */
int plan_one_way_rate(const struct topology *topology, const struct plan_request *request, const struct plan *plan,
		      uint64_t *ret_rate_Bps);

#endif
