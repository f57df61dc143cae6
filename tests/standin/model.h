/*
 * What NCCL makes of a graph file, and whether the ranks of a communicator then agree: the rings close and hold every rank,
 * neighbours know each other, and what the choice of algorithms rests on is the same everywhere. Pure; any thread.
 */
#ifndef TESTS_STANDIN_MODEL_H
#define TESTS_STANDIN_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum {
	MODEL_GPUS_MAX = 16, /* of one host */
	MODEL_RANKS_MAX = 64,
	MODEL_CHANNELS_MAX = 64, /* MAXCHANNELS */
	MODEL_WHY_BYTES = 240,
};

enum model_graph_id { MODEL_RING, MODEL_TREE, MODEL_CHAIN, MODEL_NVLS, MODEL_DIRECT, MODEL_GRAPH_COUNT };
enum model_class { MODEL_LOC, MODEL_NVL, MODEL_NVB, MODEL_PIX, MODEL_PXB, MODEL_P2C, MODEL_PXN, MODEL_PHB, MODEL_SYS };

/* The GPUs that a communicator has on this host. */
struct model_host {
	int rank_of[MODEL_GPUS_MAX]; /* in ascending order of rank */
	int dev_of[MODEL_GPUS_MAX];  /* NVML's index of each */
	size_t gpu_count;
	float search_latency_us; /* what a search would take from the NIC */
};

struct model_graph {
	bool from_file;
	int pattern, crossnic, channel_count, same_channels;
	float intra_GBps, inter_GBps, inter_latency_us;
	enum model_class intra_class, inter_class;
	int intra[MODEL_CHANNELS_MAX][MODEL_GPUS_MAX]; /* ranks */
	int inter[MODEL_CHANNELS_MAX][2];              /* net devices */
	bool has_net[MODEL_CHANNELS_MAX];
};

/*
 * One graph of a file. 0, also when NCCL searches by itself (from_file is false then); -1: NCCL's init fails, or it would
 * read beyond its arrays; the reason is in why. NCCL_CROSS_NIC 0 refuses crossnic 1.
 */
int model_read(enum model_graph_id id, const char *text, size_t bytes, const struct model_host *host, int cross_nic,
	       struct model_graph *ret, char why[MODEL_WHY_BYTES]);
/* A search of its own: the GPUs in the order of their indices. */
void model_search(enum model_graph_id id, const struct model_host *host, struct model_graph *ret);

struct model_rank {
	int host;
	size_t local_count;
	const struct model_graph *ring, *tree;
	const struct model_graph *chain, *direct; /* NULL: no collnet */
};
/* 0, or -1 with the reason: init fails on some rank, or they would wait for each other for ever. */
int model_agree(const struct model_rank *ranks, int rank_count, int net_count, char why[MODEL_WHY_BYTES]);

/* The latency that a topology file gives a NIC; below 0: none. -1 in *ret_result: NCCL's init would fail. */
float model_topology_latency(const char *text, size_t bytes, const char *nic, int *ret_result,
			     char why[MODEL_WHY_BYTES]);
/* Whether each of these GPUs has an element with exactly that index. */
bool model_topology_has(const char *text, size_t bytes, const char *bus_id, int dev);

#endif
