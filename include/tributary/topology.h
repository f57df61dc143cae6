/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine graph: what is in a machine (or a cluster), how it is joined, and how much each link carries. Pure: no
 * I/O, no clock, no log. One thread at a time for each struct topology.
 *
 * Vertices are GPUs, NICs, PCIe switches, host bridges, CPUs (a NUMA domain's cores and I/O), their memories, NVSwitches,
 * hosts and networks. A link joins two vertices and has a capacity for each direction. Bytes travel along directed links:
 *
 *     gpu0 --up--> switch:0000:17:00.0 --up--> bridge:0000:16 --up--> cpu0 --down--> memory0
 *
 * "Up" is from the vertex farther from the CPU (`lower`) to the nearer one (`upper`); of links between equals (CPU to
 * CPU, NVLink) it is from the lower index to the higher. What two or more directed links cannot carry at once (both
 * directions of a slot, a device's engines, a memory) is a limit: a capacity over a set of directed links. What one pair
 * of GPUs gets, whatever the links could, is a pair.
 *
 * Units: bytes/s (1 GB/s = 10^9), nanoseconds, seconds since 1970. Errors: 0 or -errno; -ENOMEM unless said otherwise.
 */
#ifndef TRIBUTARY_TOPOLOGY_H
#define TRIBUTARY_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TOPOLOGY_NAME_BYTES = 64,
	TOPOLOGY_BUS_ID_BYTES = 24, /* "0000:17:00.0"; a domain may have up to eight digits */
	TOPOLOGY_TEXT_BYTES = 96,
	TOPOLOGY_AFFINITY_BYTES = 256, /* what NCCL can read: 900 CPUs */
	TOPOLOGY_ROUTE_MAX = 32,       /* directed links on one way */
};
#define TOPOLOGY_NONE UINT32_MAX /* no such vertex, link, limit or pair */

enum topology_kind {
	TOPOLOGY_GPU,
	TOPOLOGY_NIC,
	TOPOLOGY_SWITCH, /* a PCIe switch, by its upstream port */
	TOPOLOGY_BRIDGE, /* a host bridge: PCIe root ports that share a way to the CPU */
	TOPOLOGY_CPU,    /* a NUMA domain: where its bridges, its memory and other domains meet */
	TOPOLOGY_MEMORY, /* of one NUMA domain */
	TOPOLOGY_NVSWITCH,
	TOPOLOGY_NETWORK, /* a leaf or spine switch, or "whatever is at the other end of the wire" */
	TOPOLOGY_HOST,    /* in a cluster: a whole machine */
	TOPOLOGY_KIND_COUNT
};

enum topology_link_kind {
	TOPOLOGY_LINK_PCI,
	TOPOLOGY_LINK_NVLINK,
	TOPOLOGY_LINK_C2C,
	TOPOLOGY_LINK_SOCKET,   /* between CPUs */
	TOPOLOGY_LINK_MEMORY,   /* CPU to its memory */
	TOPOLOGY_LINK_INTERNAL, /* bridge to CPU */
	TOPOLOGY_LINK_NETWORK,  /* NIC, host or switch to network */
	TOPOLOGY_LINK_KIND_COUNT
};

/* In order of trust: a later one replaces an earlier one. */
enum topology_provenance {
	TOPOLOGY_UNKNOWN,  /* no figure: the rate is 0 and bounds nothing */
	TOPOLOGY_ASSUMED,  /* a rule of thumb, as NCCL's constants for sockets */
	TOPOLOGY_NOMINAL,  /* from the link's speed and width */
	TOPOLOGY_AT_LEAST, /* measured, but something else was the bottleneck: a lower bound */
	TOPOLOGY_MEASURED, /* the link itself was the bottleneck */
	TOPOLOGY_PROVENANCE_COUNT
};

enum topology_direction { TOPOLOGY_UP, TOPOLOGY_DOWN };

struct topology_capacity {
	uint64_t rate_Bps;   /* payload */
	uint64_t latency_ns; /* 0: not known */
	double spread;       /* of a measured rate: half of the 95 % interval over the rate; 0: not known */
	int64_t date_s;      /* of a measurement; 0: none */
	enum topology_provenance provenance;
};

struct topology_pci {        /* of devices and switches; zero: not known */
	uint32_t class_code; /* as sysfs has it: 0x030200 */
	uint16_t vendor, device, subsystem_vendor, subsystem_device;
};

struct topology_gpu {
	int index;           /* NVML's, which NCCL calls dev; -1: not known */
	int sm;              /* compute capability × 10: 86; 0: not known */
	bool gdr;            /* NICs may read and write its memory */
	int mig;             /* slice of a GPU in MIG mode; -1: a whole GPU. Slices share one link and have no P2P */
	uint64_t bar1_bytes; /* 0: not known */
};

struct topology_nic {
	char interface[TOPOLOGY_NAME_BYTES]; /* "ens1f0np0" or ""; the vertex is named by the RDMA device where there is one */
	int port;                            /* on the card, from 1 */
	uint64_t guid;                       /* the same for two NICs only if they are one card; 0: not known */
	uint64_t speed_Bps;                  /* of the wire, one direction; 0: not known */
	uint64_t latency_ns;                 /* 0: not known */
	int max_connections;                 /* 0: not known */
	bool gdr, collnet, rdma;
};

struct topology_cpu {
	int numa;                          /* the kernel's number of the domain */
	char architecture[16], vendor[24]; /* "x86_64", "GenuineIntel" */
	int family, model;                 /* -1: not known */
	char affinity
		[TOPOLOGY_AFFINITY_BYTES]; /* hexadecimal mask, as NCCL writes it: "ffff0000,0000ffff"; "" not known */
};

struct topology_vertex {
	enum topology_kind kind;
	char name[TOPOLOGY_NAME_BYTES];     /* unique in the graph: topology_name_*; no spaces */
	char bus_id[TOPOLOGY_BUS_ID_BYTES]; /* PCI devices, switches, bridges ("0000:16"); "" otherwise */
	char model[TOPOLOGY_TEXT_BYTES];    /* what it says it is; "" not known */
	struct topology_pci pci;
	struct topology_gpu gpu; /* GPUs */
	struct topology_nic nic; /* NICs */
	struct topology_cpu cpu; /* CPUs, memories (numa) and hosts */
	uint64_t memory_bytes;   /* memories and GPUs; 0: not known */
};

/* How a PCIe link was trained. Generation 1 to 7, lanes 1 to 32; 0: not known. */
struct topology_pci_link {
	unsigned generation, lanes;           /* now */
	unsigned most_generation, most_lanes; /* what both ends could */
	char port[TOPOLOGY_BUS_ID_BYTES];     /* the root port or downstream port at its upper end; "" not known */
};

struct topology_link {
	enum topology_link_kind kind;
	uint32_t lower, upper; /* vertices */
	unsigned count;        /* parallel links that it stands for (NVLinks of a pair), at least 1 */
	struct topology_pci_link pci;
	uint64_t nominal_Bps;                 /* all of `count`, each direction; 0: not known */
	struct topology_capacity capacity[2]; /* by enum topology_direction */
};

/* Directed link `2 × link + direction`. */
static inline uint32_t topology_directed(uint32_t link, enum topology_direction direction)
{
	return 2 * link + (uint32_t)direction;
}

/* Not all at once: the bytes over all members together. */
struct topology_limit {
	char name[TOPOLOGY_NAME_BYTES]; /* unique: "gpu0.both", "memory0" */
	struct topology_capacity capacity;
	uint32_t *members; /* directed links, ascending */
	size_t member_count;
};

/* The way of data between two GPUs, or from a memory to a GPU and back. */
enum topology_way {
	TOPOLOGY_WAY_NONE, /* not possible */
	TOPOLOGY_WAY_DIRECT, /* by the links between them: P2P over PCIe or NVLink, DMA from or to a memory, GPUDirect RDMA */
	TOPOLOGY_WAY_HOST, /* written to a host memory and read from there */
	TOPOLOGY_WAY_COUNT
};

/* What is known of data from one GPU to another. A rate 0 of either way: not measured, bounded by its links alone. */
struct topology_pair {
	uint32_t from, to;
	bool p2p_works; /* the driver allows it */
	struct topology_capacity p2p, host;
};

struct topology {
	char name[TOPOLOGY_NAME_BYTES];   /* of the machine or file; "" none */
	char driver[TOPOLOGY_TEXT_BYTES]; /* of the GPUs: "nvidia 550.54.15"; "" none */
	struct topology_vertex *vertices;
	struct topology_link *links;
	struct topology_limit *limits;
	struct topology_pair *pairs;
	size_t vertex_count, link_count, limit_count, pair_count;
};

/* ------------------------------------------------------------------------------------------------------------ make */

/* topology_init leaves an empty graph; topology_fini accepts any graph that was initialised, and empties it. */
void topology_init(struct topology *topology);
void topology_fini(struct topology *topology);
int topology_copy(const struct topology *from, struct topology *ret);

/*
 * Adds a copy; *ret (NULL: not wanted) is its index, which stays valid. -EEXIST: a vertex or limit of that name, a pair
 * of those vertices; -EINVAL: a link's end or a limit's member does not exist, both ends are one vertex, a count is 0, a
 * name is empty or has a space, a quote, a backslash or (of a vertex) any of > # and comma; -E2BIG: more vertices, links,
 * limits or pairs than the text form holds (4096, and 16384 of each).
 */
int topology_add_vertex(struct topology *topology, const struct topology_vertex *vertex, uint32_t *ret);
int topology_add_link(struct topology *topology, const struct topology_link *link, uint32_t *ret);
int topology_add_limit(struct topology *topology, const char *name, const struct topology_capacity *capacity,
		       const uint32_t *members, size_t member_count, uint32_t *ret);
int topology_add_pair(struct topology *topology, const struct topology_pair *pair, uint32_t *ret);

/* Empty values: everything unknown (-1 where 0 means something). */
struct topology_vertex topology_vertex_of(enum topology_kind kind, const char *name);
struct topology_link topology_link_of(enum topology_link_kind kind, uint32_t lower, uint32_t upper);

/*
 * Payload bytes/s of a PCIe link, each direction, as NCCL counts it (lanes × 0.1875, 0.375, 0.75, 1.5, 3, 6 GB/s for
 * generations 1 to 6); 0 if either is not known.
 */
uint64_t topology_pci_Bps(unsigned generation, unsigned lanes);

/* The kind's word in names and in the text form: "gpu", "nic", "switch", ... */
const char *topology_kind_word(enum topology_kind kind);
const char *topology_link_kind_word(enum topology_link_kind kind);
const char *topology_provenance_word(enum topology_provenance provenance);

/* -------------------------------------------------------------------------------------------------------------- find */

/* As strcmp, but runs of digits by their value, so that gpu2 comes before gpu10. 0 only for the same text. */
int topology_compare_names(const char *a, const char *b);
/* By name or bus id; TOPOLOGY_NONE when there is none. */
uint32_t topology_find(const struct topology *topology, const char *name);
uint32_t topology_find_bus_id(const struct topology *topology, const char *bus_id);
/*
 * Whether a GPU is a slice (MIG) of a card of which an earlier vertex is one, too: what is counted by card has been counted,
 * and NCCL would refuse a job with both.
 */
bool topology_is_later_slice(const struct topology *topology, uint32_t gpu);
/* The link that joins two vertices, in either order; the first of several. */
uint32_t topology_find_link(const struct topology *topology, uint32_t a, uint32_t b);
uint32_t topology_find_limit(const struct topology *topology, const char *name);
uint32_t topology_find_pair(const struct topology *topology, uint32_t from, uint32_t to);
/* The link towards the CPU: the one whose `lower` end it is (PCI, C2C, internal or memory); TOPOLOGY_NONE for a CPU. */
uint32_t topology_uplink(const struct topology *topology, uint32_t vertex);
/* The link of a NIC to its network; the first of several; TOPOLOGY_NONE: there is none. */
uint32_t topology_wire_of(const struct topology *topology, uint32_t nic);
/* The CPU above a vertex (itself, if it is one), and that CPU's memory. */
uint32_t topology_cpu_of(const struct topology *topology, uint32_t vertex);
uint32_t topology_memory_of(const struct topology *topology, uint32_t vertex);
size_t topology_count(const struct topology *topology, enum topology_kind kind);
/* All vertices of one kind, in order of their names (numbers in them by value); *ret is malloc'ed, the caller frees it. */
int topology_list(const struct topology *topology, enum topology_kind kind, uint32_t **ret, size_t *ret_count);
/* "gpu0>switch:0000:17:00.0", or "gpu0>gpu1#2" for the second of parallel links: the name of a directed link. */
int topology_directed_name(const struct topology *topology, uint32_t directed, char *text, size_t text_bytes);
uint32_t topology_find_directed(const struct topology *topology, const char *name);

/* ------------------------------------------------------------------------------------------------------------- paths */

/* NCCL's classes of a way between two vertices, nearest first (nccl: PATH_LOC .. PATH_DIS). */
enum topology_class {
	TOPOLOGY_CLASS_LOC, /* the same */
	TOPOLOGY_CLASS_NVL, /* NVLink */
	TOPOLOGY_CLASS_NVB, /* NVLink by way of another GPU */
	TOPOLOGY_CLASS_C2C,
	TOPOLOGY_CLASS_PIX, /* one PCIe switch */
	TOPOLOGY_CLASS_PXB, /* several PCIe switches */
	TOPOLOGY_CLASS_P2C, /* C2C, then PCIe */
	TOPOLOGY_CLASS_PXN, /* NVLink to a GPU that is near the NIC */
	TOPOLOGY_CLASS_PHB, /* a host bridge (NCCL: the CPU) */
	TOPOLOGY_CLASS_SYS, /* the link between sockets */
	TOPOLOGY_CLASS_NET,
	TOPOLOGY_CLASS_DIS, /* none */
	TOPOLOGY_CLASS_COUNT
};
const char *topology_class_word(enum topology_class path_class); /* "PIX" */

/* Bytes from one vertex to another. via: the memory of a way through the host; TOPOLOGY_NONE: that of the sender's CPU. */
struct topology_flow {
	uint32_t from, to;
	enum topology_way way;
	uint32_t via;
};

struct topology_route {
	uint32_t links[TOPOLOGY_ROUTE_MAX]; /* directed, in order; one may be there twice (a way through the host) */
	size_t count;
	enum topology_class path_class;
	uint64_t latency_ns; /* the sum of what is known */
};
/*
 * The links that a flow charges, each once for every time it crosses it. Of several ways the one with the nearest class,
 * then the fewest links, then the first by index. -ENOENT: there is no such way; -EINVAL: an end does not exist;
 * -E2BIG: longer than TOPOLOGY_ROUTE_MAX.
 */
int topology_route(const struct topology *topology, const struct topology_flow *flow, struct topology_route *ret);
/* The class NCCL would give the way from a to b: that of the direct route, whether or not the driver allows P2P. */
enum topology_class topology_class_of(const struct topology *topology, uint32_t a, uint32_t b);

/*
 * Max-min fair rates of flows that run at once: each directed link, limit and pair is filled until none can grow
 * (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2). Capacities that are unknown bound nothing; a flow
 * bounded by nothing gets UINT64_MAX. ret_Bps has flow_count places. Errors: those of topology_route.
 */
int topology_share(const struct topology *topology, const struct topology_flow *flows, size_t flow_count,
		   uint64_t *ret_Bps);

/* -------------------------------------------------------------------------------------------------------------- text */

struct diag;

/*
 * The canonical text form, one fact a line, sorted; the same graph gives the same text whatever order it was built in.
 * docs/format/graph.md describes it. *ret is malloc'ed, NUL-terminated; the caller frees it.
 */
int topology_write(const struct topology *topology, char **ret, size_t *ret_bytes);
/* -EINVAL with line, column and reason in *diag; nothing is left behind then. `text` need not end with a NUL. */
int topology_read(const char *text, size_t bytes, struct topology *ret, struct diag *diag);

#endif
