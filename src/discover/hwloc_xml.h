/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hwloc's XML, as its versions 1.x, 2.x and 3.x write it: what a machine graph needs of it. Read here rather than by hwloc,
 * whose reader trusts its input, and which of one version refuses another's files. Pure.
 */
#ifndef TRIBUTARY_DISCOVER_HWLOC_XML_H
#define TRIBUTARY_DISCOVER_HWLOC_XML_H

#include "base/log.h"
#include "tributary/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HWLOC_XML_MOST = 8 << 20,   /* bytes of a file */
	HWLOC_OBJECTS_MOST = 20000, /* of those that are kept */
	HWLOC_DEPTH_MOST = 128,
	HWLOC_NVLINKS_MOST = 256, /* ends of the matrix of NVLink rates */
};
#define HWLOC_NONE UINT32_MAX

enum hwloc_xml_type { HWLOC_XML_PACKAGE, HWLOC_XML_NODE, HWLOC_XML_BRIDGE, HWLOC_XML_PCI, HWLOC_XML_DEVICE };
enum hwloc_xml_device {
	HWLOC_XML_OTHER_DEVICE,
	HWLOC_XML_NETWORK, /* an interface */
	HWLOC_XML_RDMA,
	HWLOC_XML_FABRIC, /* what BXI and Slingshot have beside the interface, if there is one */
	HWLOC_XML_NVML
};

struct discover_object {
	enum hwloc_xml_type type;
	uint32_t parent;                    /* the nearest one that is kept; HWLOC_NONE */
	uint32_t number;                    /* hwloc's gp_index */
	int os_index;                       /* of a NUMA node: the kernel's; -1: not known */
	int node;                           /* the lowest NUMA node with cores that it is near to; -1: not known */
	bool several_nodes;                 /* it is as near to others */
	char cpus[TOPOLOGY_AFFINITY_BYTES]; /* of a NUMA node: a mask as NCCL has it; "" none, or too long */
	bool has_cpus;                      /* of a NUMA node: cores of its own */
	uint64_t memory_bytes;
	char name[TOPOLOGY_NAME_BYTES]; /* of a device: "eth0", "mlx5_0", "nvml3" */
	enum hwloc_xml_device device;
	bool host_bridge;
	unsigned domain, secondary; /* of a bridge: the bus below it */
	char bus_id[TOPOLOGY_BUS_ID_BYTES];
	struct topology_pci pci;
	double link_GBps; /* of PCI devices and bridges: bytes/s without encoding, all lanes; 0: not known */
	char model[TOPOLOGY_TEXT_BYTES];
	char vendor[24]; /* of a package's CPU */
	int family, cpu_model;
};

/* Objects in the order of the file: a parent before its children. Document order is hwloc's order of bus ids. */
struct discover_tree {
	char architecture[16];
	struct discover_object *at;
	uint32_t count;
	uint32_t *nvlink_ends; /* objects: devices "nvmlN" and PCI devices; HWLOC_NONE: not kept */
	uint64_t *nvlink_MBps; /* [from × nvlink_count + to], each direction */
	size_t nvlink_count;
};

/* -EINVAL: not hwloc's XML, or beyond the limits above; line and reason in *diag; *ret is empty then. */
int discover_hwloc_read(const char *text, size_t bytes, struct discover_tree *ret, struct diag *diag);
void discover_tree_fini(struct discover_tree *tree);

/*
 * The same file without what discover_hwloc_read does not look at: serial numbers, addresses, host names, command lines; names
 * of devices as `alias` shows them. *ret is malloc'ed and NUL-terminated; the caller frees it.
 */
int discover_hwloc_filter(const char *text, size_t bytes, const char *(*alias)(void *arg, const char *name), void *arg,
			  char **ret, size_t *ret_bytes, struct diag *diag);

#endif
