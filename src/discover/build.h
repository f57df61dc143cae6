/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that build the graph share. One graph, one thread. */
#ifndef TRIBUTARY_DISCOVER_BUILD_H
#define TRIBUTARY_DISCOVER_BUILD_H

#include "discover/discover.h"
#include "discover/hwloc_xml.h"
#include "discover/root.h"
#include "gpu/inventory.h"

enum { DISCOVER_NICS_MOST = 512 };

struct discover_build {
	struct discover_root *root;
	const struct discover_tree *tree;
	const struct gpu_inventory *gpus; /* NULL: NVML is not there */
	struct topology *topology;
	struct diag *diag;
	uint32_t *first_child, *next_sibling; /* of each object; HWLOC_NONE */
	bool *wanted;                         /* a GPU or NIC, or something above one */
	int *gpu_index;                       /* of each object; -1: no GPU of the graph */
	bool gdr;                             /* the driver lets NICs reach the GPUs' memory */
	struct {
		uint32_t vertex;
		uint64_t identity; /* the same for one card; 0: not known */
	} nics[DISCOVER_NICS_MOST];
	size_t nic_count;
};

/* add.c: as topology_add_vertex, but what is wrong is said in *diag, and an impossible graph is -EINVAL. */
int discover_add_vertex(struct discover_build *build, const struct topology_vertex *vertex, uint32_t *ret);
int discover_add_link(struct discover_build *build, const struct topology_link *link);
int discover_add_limit(struct discover_build *build, const char *name, const struct topology_capacity *capacity,
		       const uint32_t *members, size_t member_count);

/* The whole graph: build.c. */
int discover_graph(struct discover_root *root, const struct discover_tree *tree, const struct gpu_inventory *gpus,
		   struct topology *ret, struct diag *diag);

/* pci.c: the link from `lower` up to `upper`, whose upper end is `port` ("" none), as it is trained. */
int discover_pci_link(struct discover_build *build, uint32_t lower, uint32_t upper, const char *port,
		      const struct discover_object *object, const struct gpu_inventory_device *gpu);
/* What is behind one port shares its link: a limit for each direction. */
int discover_shared_slots(struct discover_build *build);

/* gpus.c */
int discover_number_gpus(struct discover_build *build);
int discover_add_gpu(struct discover_build *build, uint32_t object, uint32_t upper, const char *port);
int discover_gpu_links(struct discover_build *build);
/* NVML's device of that bus id; NULL. */
const struct gpu_inventory_device *discover_gpu_device(const struct gpu_inventory *gpus, const char *bus_id);

/* nics.c */
bool discover_is_nic(const struct discover_build *build, uint32_t object);
int discover_add_nics(struct discover_build *build, uint32_t object, uint32_t upper, const char *port);
void discover_number_cards(struct discover_build *build);

/* facts.c: the facts of what is in the graph, and of the system. root NULL: what the tree alone says; none: *ret stays. */
int discover_facts_read(struct discover_root *root, const struct topology *topology, const struct discover_tree *tree,
			const struct gpu_inventory *gpus, struct discover_facts *ret);

/* machine.c: graph and facts of whatever root a machine is looked at through. ret_facts may be NULL. Errors: discover()'s. */
int discover_machine(struct discover_root *root, struct topology *ret, struct discover_facts *ret_facts,
		     struct diag *diag);
/* What is not a file on this machine: told apart by what is in it. `data` need not end with a NUL. */
int discover_bytes(const char *data, size_t bytes, struct topology *ret, struct discover_facts *ret_facts,
		   enum discover_source *ret_source, struct diag *diag);

#endif
