/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's graph files (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): channels as text and back. Pure. The writer is in the
 * plugin; the reader needs a library for XML and is in the command alone.
 *
 * NCCL's rules (nccl: graph/search.cc): `dev` is hexadecimal, and the `rank` that 2.30 adds wins over it unchecked, so it
 * is never written; the attribute nchannels counts, not the elements; the file must list exactly the GPUs that the
 * communicator has on this host; a graph that is not in the file is searched for by NCCL.
 */
#ifndef TRIBUTARY_NCCLXML_GRAPH_XML_H
#define TRIBUTARY_NCCLXML_GRAPH_XML_H

#include "tributary/plan.h"
#include "tributary/topology.h"

struct diag;

enum graph_xml_id { /* nccl: graph.h */
		    GRAPH_XML_RING = 0,
		    GRAPH_XML_TREE = 1,
		    GRAPH_XML_CHAIN = 2,
		    GRAPH_XML_NVLS = 3,
		    GRAPH_XML_DIRECT = 4,
};
enum graph_xml_pattern {
	GRAPH_XML_PATTERN_BALANCED_TREE = 1,
	GRAPH_XML_PATTERN_SPLIT_TREE = 2,
	GRAPH_XML_PATTERN_TREE = 3, /* the first GPU has parent and children */
	GRAPH_XML_PATTERN_RING = 4,
	GRAPH_XML_PATTERN_NVLS = 5,
	GRAPH_XML_PATTERN_DIRECT = 6,
};
enum { GRAPH_XML_GPUS_MAX = 16, GRAPH_XML_CHANNELS_MAX = 64, GRAPH_XML_GRAPHS_MAX = 5 };

struct graph_xml_channel {
	int gpus[GRAPH_XML_GPUS_MAX]; /* NVML's indices (<gpu dev> of the topology file), in order */
	size_t gpu_count;
	int nets[2]; /* net devices, in and out, as the net plugin numbers them */
	size_t net_count;
};

/* In any order. */
bool graph_xml_same_gpus(const struct graph_xml_channel *a, const struct graph_xml_channel *b);

struct graph_xml_graph {
	enum graph_xml_id id;
	enum graph_xml_pattern pattern;
	int crossnic;
	bool same_channels;
	double intra_GBps, inter_GBps; /* of each channel; NCCL believes them */
	double inter_latency_us;       /* the same on every host of a communicator, or their choices differ */
	enum topology_class intra_class, inter_class;
	size_t channel_count;
	struct graph_xml_channel channels[GRAPH_XML_CHANNELS_MAX];
};

struct graph_xml {
	size_t graph_count;
	struct graph_xml_graph graphs[GRAPH_XML_GRAPHS_MAX];
};

/* What of a plan's NICs and GPUs NCCL calls by what number. */
struct graph_xml_numbers {
	int net_devices[PLAN_NICS_MAX]; /* of request.nics; after NCCL has fused NICs, the device that holds each */
	double inter_latency_us;
};
/*
 * The graphs of a set of plans: rings and trees, and where there may be several hosts chains with the heads that go with
 * them, or where an NVSwitch joins all GPUs the heads of the set's direct plan. (Where one joins some, NCCL's own are
 * left to it.) What NCCL believes of the rates is what the verifier
 * found: inside a host the lesser of one host and several, as NCCL takes that also for two hosts. -EINVAL with the reason
 * in *diag: a GPU without an index, a NIC without a device, rings and trees that differ, nothing known of the rates.
 */
int graph_xml_of_set(const struct topology *topology, const struct plan_request *request, const struct plan_set *set,
		     const struct graph_xml_numbers *numbers, struct graph_xml *ret, struct diag *diag);

/* *ret is malloc'ed and NUL-terminated; the caller frees it. -EINVAL: no file that NCCL would take; the reason in *diag. */
int graph_xml_write(const struct graph_xml *graphs, char **ret, size_t *ret_bytes, struct diag *diag);

/*
 * -EINVAL: not such a file, or one that NCCL would refuse or misread; line and reason in *diag. `rank` is accepted and
 * ignored. *ret needs no freeing.
 */
int graph_xml_read(const char *text, size_t bytes, struct graph_xml *ret, struct diag *diag);

/*
 * A read graph as a plan for a request whose GPUs and NICs it names, so that plan_verify_rate can check it. -ENOENT: it
 * names a GPU or a NIC that the request has not; -EINVAL: a GPU is missing or there twice; -E2BIG: more channels than
 * a plan holds.
 */
int graph_xml_to_plan(const struct topology *topology, const struct plan_request *request,
		      const struct graph_xml_numbers *numbers, const struct graph_xml_graph *graph, struct plan *ret,
		      struct diag *diag);

#endif
