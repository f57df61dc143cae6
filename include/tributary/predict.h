/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a collective takes on given channels: NCCL's own cost model (nccl: graph/tuning.cc, as facts), with rates that
 * were measured. time = latency + bytes / rate. docs/design/planner.md has the formulae.
 *
 * Ring, tree, collnet's chain and PAT are modelled; the other algorithms count as not run. Pure; any thread. Units:
 * microseconds, GB/s (10^9 bytes/s).
 */
#ifndef TRIBUTARY_PREDICT_H
#define TRIBUTARY_PREDICT_H

#include "tributary/plan.h"
#include "tributary/topology.h"

/* nccl: ncclFunc_t, NCCL_ALGO_*, NCCL_PROTO_*: the numbers are NCCL's. */
enum predict_collective {
	PREDICT_BROADCAST,
	PREDICT_REDUCE,
	PREDICT_ALLGATHER,
	PREDICT_REDUCESCATTER,
	PREDICT_ALLREDUCE,
	PREDICT_COLLECTIVE_COUNT
};
enum predict_algorithm {
	PREDICT_TREE,
	PREDICT_RING,
	PREDICT_COLLNET_DIRECT,
	PREDICT_COLLNET_CHAIN,
	PREDICT_NVLS,
	PREDICT_NVLS_TREE,
	PREDICT_PAT,
	PREDICT_ALGORITHM_COUNT
};
enum predict_protocol { PREDICT_LL, PREDICT_LL128, PREDICT_SIMPLE, PREDICT_PROTOCOL_COUNT };
enum predict_wire { PREDICT_NVLINK, PREDICT_PCI, PREDICT_NETWORK, PREDICT_WIRE_COUNT };

/* As NCCL spells them in NCCL_ALGO, NCCL_PROTO and its log: "AllReduce", "Ring", "LL128". */
const char *predict_collective_word(enum predict_collective collective);
const char *predict_algorithm_word(enum predict_algorithm algorithm);
const char *predict_protocol_word(enum predict_protocol protocol);

/* NCCL's constants, as its tuner interface hands them over. */
struct predict_constants {
	double base_latency_us[PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT];
	double wire_latency_us[PREDICT_WIRE_COUNT][PREDICT_ALGORITHM_COUNT][PREDICT_PROTOCOL_COUNT];
	/* By generation (Volta, Ampere, Hopper, Blackwell), by nodes (1, 2, 3 and more). */
	double ll_most_GBps[4][3];
	double ring_ll128_channel_most_GBps[4][3], tree_ll128_channel_most_GBps[4][3], tree_channel_most_GBps[4][3];
};
/* Those of NCCL 2.30.7, for who has not been handed any. 2.28.9 differs in LL128 of Blackwell GPUs alone. */
extern const struct predict_constants predict_constants_default;

/* What the model must know of one communicator. */
struct predict_graph { /* of rings, trees or chains */
	bool usable;
	size_t channel_count;          /* as in the graph; NCCL runs twice as many */
	double intra_GBps, inter_GBps; /* of each channel, as NCCL counts it: predict_speeds_of_set() */
	double inter_latency_us;       /* that the graph adds to each step over the network */
	enum topology_class intra_class, inter_class;
	/* NCCL is told that channels are alike: it then charges Broadcast and Reduce one step, though they take all. */
	bool same_channels;
	bool at_first_gpu; /* of trees: parent and children are all at the first GPU */
};
enum predict_cpu { PREDICT_CPU_OTHER, PREDICT_CPU_INTEL, PREDICT_CPU_AMD };
struct predict_communicator {
	size_t rank_count, node_count;
	size_t run_channel_count; /* channels that NCCL runs; 0: twice the rings' */
	int sm;                   /* the lowest compute capability × 10; LL128 is for GPUs that are all alike */
	enum predict_cpu cpu;     /* matters between nodes */
	/* On one host. The rate of large AllReduces over Tree/Simple follows the links' rates, not NCCL's table by size. */
	bool links_decide;
	struct predict_graph ring, tree, chain;
	struct predict_constants constants;
};

/* The line of one algorithm and protocol, before what the model adds for certain sizes. */
struct predict_cost {
	double latency_us, rate_GBps; /* rate: of the collective's bytes, nccl-tests' algbw without latency */
};
/* -ENOENT: NCCL would not run it. */
int predict_cost_of(const struct predict_communicator *communicator, enum predict_collective collective,
		    enum predict_algorithm algorithm, enum predict_protocol protocol, struct predict_cost *ret);

/* bytes as NCCL counts them: the larger of one rank's buffers. Below 0: NCCL would not run it. */
double predict_time_us(const struct predict_communicator *communicator, enum predict_collective collective,
		       enum predict_algorithm algorithm, enum predict_protocol protocol, uint64_t bytes);
/* The same for `operations` aggregated ones (at least 1), of `bytes` together. */
double predict_time_grouped_us(const struct predict_communicator *communicator, enum predict_collective collective,
			       enum predict_algorithm algorithm, enum predict_protocol protocol, uint64_t bytes,
			       unsigned operations);

struct predict_choice {
	enum predict_algorithm algorithm;
	enum predict_protocol protocol;
	double time_us, algbw_GBps, busbw_GBps; /* as nccl-tests counts them */
};
/* The quickest that NCCL would run. -ENOENT: none. */
int predict_best(const struct predict_communicator *communicator, enum predict_collective collective, uint64_t bytes,
		 struct predict_choice *ret);
/* busbw over algbw, as nccl-tests has it. */
double predict_bus_factor(enum predict_collective collective, size_t rank_count);

/*
 * What a graph file should say of a pattern's channels, so that NCCL's model is right. Two things are not obvious:
 * NCCL halves the speed of a tree or chain, so it is told twice our rate, and of a chain no more than one way carries; and
 * it believes the speed inside hosts alone when there are two, so that is what two hosts move unless there is only one. What
 * a communicator of one host could do beyond, NCCL learns from the tuner.
 */
struct predict_speeds {
	double intra_GBps, inter_GBps;
};

/*
 * Chains and direct heads are the exception: their file says a small part of the truth. Without our tuner NCCL then never
 * takes collnet for what is large, whatever it thinks of networks that can add; and the tuner knows by it that the
 * figure is ours. NCCL reduces it to the least of all ranks, so all see the same.
 */
#define PREDICT_CHAIN_VEIL 64
/* sm: the least compute capability × 10, for direct heads alone; 0: not known. */
void predict_speeds_of_set(const struct plan_set *set, enum plan_pattern pattern, int sm, struct predict_speeds *ret);

/*
 * A communicator of `node_count` hosts that all run the set's channels, at the rates that are true for so many: the
 * graphs, the counts, the default constants. predict_of_machine() adds what is not the set's.
 */
void predict_of_set(const struct plan_set *set, size_t node_count, struct predict_communicator *ret);
/* The same as NCCL takes it from the graph file: the rates are predict_speeds_of_set()'s. */
void predict_of_file(const struct plan_set *set, size_t node_count, struct predict_communicator *ret);
/* sm and cpu from the graph; the GPUs are the request's. */
void predict_of_machine(const struct topology *topology, const struct plan_request *request,
			struct predict_communicator *ret);

/* What all ranks of a communicator know of it without any agreement, for collnet's costs. */
struct predict_collnet {
	size_t node_count;
	double chain_latency_us, direct_latency_us; /* that the model adds, whatever the rate */
	bool sizes_chunks;                          /* NCCL goes by predict_chunk_bytes() */
	unsigned gain_permille; /* of a ring's rate, as the heads of all hosts agreed; 0: they did not, or it is none */
};
/* constants NULL: the default ones. sizes_chunks false. */
void predict_collnet_make(size_t rank_count, size_t node_count, const struct predict_constants *constants,
			  struct predict_collnet *ret);

/*
 * What the tuner makes of NCCL's table of costs. A rank that picks another algorithm than the others hangs the job, so
 * costs are changed only by what all ranks of the communicator share for certain, which is so on one host with one
 * published set. Its graph file had to tell NCCL what several hosts would move if there may be several; costs of rings
 * and trees become those of one host, large trees' by what links carry. All else is NCCL's.
 */
struct predict_tuner {
	struct predict_collnet collnet; /* node_count 0: its costs are left alone; else predict_collnet_edit()'s */
	bool edits;
	struct predict_communicator file;  /* as NCCL knows it */
	struct predict_communicator truth; /* as it is */
};
/* Raised whenever the tuner changes costs in another way: ranks of one host whose numbers differ get no plan. */
#define PREDICT_TUNER_RULES 2
/* The graph file's rates are not those of one host. */
bool predict_tuner_differs(const struct predict_tuner *tuner);
/* constants NULL: the default ones. */
void predict_tuner_make(const struct plan_set *set, size_t rank_count, size_t node_count, int sm,
			const struct predict_constants *constants, struct predict_tuner *ret);

/* Costs in microseconds, [algorithm][protocol] without gaps; below 0: not allowed, and stays so. */
struct predict_table {
	float *costs;
	int algorithm_count, protocol_count;
};
/*
 * For `operations` of `bytes` together. Says whether it changed the table; one that is not what the model makes of the
 * graph file is left alone: another version of NCCL's model, settings of the user's, a file that NCCL did not take. So is
 * one of an unknown shape or collective.
 */
bool predict_tuner_edit(const struct predict_tuner *tuner, int collective, uint64_t bytes, int operations,
			const struct predict_table *table);

/*
 * Collnet's costs of AllReduce, AllGather and ReduceScatter on several hosts, from what is the same on all ranks by
 * itself: the table, the numbers of nodes and ranks, and the interface's version; and from what they know to have agreed.
 *
 *   not an AllReduce             not taken: nothing is known to gain
 *   two nodes                    not taken: a ring moves as many bytes in as many steps
 *   up to 64 KiB, to 8 nodes     0.7 of the cheapest other, and no less than the latency; where NCCL's calls are as
 *                                long as the operation, because it asks for the size of chunks
 *   a gain that was agreed on    from 512 KiB on the cheapest other by that gain
 *   up to 4 MiB                  not taken: nothing that was measured says that it is faster
 *   more, a figure of ours       the figure, its rate without the veil
 *   more, any other figure       not taken: NCCL's own search means networks that can add
 *
 * Where nothing else is allowed, as with NCCL_ALGO=CollNetChain, the table stays as it is. Says whether it changed it.
 */
bool predict_collnet_edit(const struct predict_collnet *collnet, int collective, uint64_t bytes, int operations,
			  const struct predict_table *table);

/*
 * The same where a table is the model's at true rates: NCCL's model means networks that add, in one step. What hosts that
 * aggregate do in several is no cheaper than the others where nothing that was measured says that they gain.
 */
void predict_collnet_truth(const struct predict_collnet *collnet, int collective, uint64_t bytes,
			   const struct predict_table *table);

/*
 * The chunk of a collective of so many bytes, where NCCL would take chunk_bytes. CollNetChain posts whole chunks, so one
 * that is longer than the operation moves bytes that nobody wants; anything else stays as it is.
 */
size_t predict_chunk_bytes(int collective, int algorithm, int protocol, uint64_t bytes, size_t chunk_bytes);

#endif
