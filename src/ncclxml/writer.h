/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the writer share: topology_write.c (the tree), write_device.c (GPUs and NICs), tree.c. Pure. */
#ifndef TRIBUTARY_NCCLXML_WRITER_H
#define TRIBUTARY_NCCLXML_WRITER_H

#include "ncclxml/link_value.h"
#include "ncclxml/sockets.h"
#include "ncclxml/text.h"
#include "tributary/topology.h"

/* The PCI tree of a graph, as the writer walks it: each vertex under the one that its first PCI link leads up to. */
struct ncclxml_branch {
	uint32_t parent, vertex, link; /* link: vertex to parent */
	const struct topology_vertex *at;
};

/* By parent, then bus id (NCCL wants that order), then name. Points into the graph, which must not change meanwhile. */
struct ncclxml_tree {
	const struct topology *topology;
	struct ncclxml_branch *branches;
	size_t count;
};

int ncclxml_tree_init(const struct topology *topology, struct ncclxml_tree *ret);
void ncclxml_tree_fini(struct ncclxml_tree *tree);
/* What hangs under a vertex; *ret_count 0: nothing. */
const struct ncclxml_branch *ncclxml_tree_under(const struct ncclxml_tree *tree, uint32_t parent, size_t *ret_count);
bool ncclxml_tree_has_gpu(const struct ncclxml_tree *tree, const struct ncclxml_branch *branch);
/*
 * What the links of all that hangs under a vertex carry together, a card with several ports once; 0: not known of all.
 */
uint64_t ncclxml_tree_sum(const struct ncclxml_tree *tree, uint32_t parent);

/* Which of the branches below a CPU are written: GPUs may be brought below one switch, and the NICs beside them not. */
enum ncclxml_part { NCCLXML_ALL, NCCLXML_WITH_GPUS, NCCLXML_WITHOUT_GPUS };

struct ncclxml_writer {
	const struct topology *topology;
	const struct topology_xml_shape *shape;
	enum ncclxml_part part;
	struct ncclxml_tree tree;
	struct ncclxml_sockets sockets;
	struct ncclxml_text text;
	uint64_t cap_Bps; /* of the bridge above the next element, 0: none */
	const char *cap_name;
	unsigned made_up; /* bus ids handed out so far */
	unsigned depth;   /* bridges have no element, so their depth is counted here */
	size_t gpus_written;
	double worst_error_Bps;
};

/* `at`: the first branch of `count` that share one bus id, and so one element. */
void ncclxml_write_gpu(struct ncclxml_writer *writer, const struct ncclxml_branch *at, size_t count);
void ncclxml_write_nic(struct ncclxml_writer *writer, const struct ncclxml_branch *at, size_t count);
/* One <nic> with the NICs that are no PCI devices, of one CPU; TOPOLOGY_NONE: of all. */
void ncclxml_write_virtual_nics(struct ncclxml_writer *writer, uint32_t cpu);
/* Opens <pci> with the vertex's facts and that value; `name` is for the comment. */
void ncclxml_write_pci(struct ncclxml_writer *writer, const struct topology_vertex *vertex, const char *bus_id,
		       const char *name, const struct ncclxml_link_value *value);
/* The value of a link, not above the bridge above it. */
struct ncclxml_link_value ncclxml_write_value(struct ncclxml_writer *writer, const struct topology_link *link);

/*
 * Whether a host bridge may be written as a PCI switch, which makes P2P and GPUDirect RDMA through it what NCCL does by
 * default: only if no two GPUs are under different ports, or p2p_farthest lets them use P2P, and no GPU and NIC under
 * different ports both have GPUDirect.
 */
bool ncclxml_bridge_allows(const struct ncclxml_tree *tree, uint32_t bridge, enum topology_class p2p_farthest);

#endif
