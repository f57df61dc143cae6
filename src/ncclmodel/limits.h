/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's numbers for topology files, as NCCL 2.28.9 and 2.30.7 have them; each says where (paths under NCCL's src/).
 * The rules behind them are in docs/format/nccl-files.md. Pure.
 */
#ifndef TRIBUTARY_NCCLMODEL_LIMITS_H
#define TRIBUTARY_NCCLMODEL_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

struct topology_cpu;

enum {
	NCCLMODEL_VERSION = 1, /* graph/xml.h, NCCL_TOPO_XML_VERSION */
	/*
	 * graph/topo.h, NCCL_TOPO_XML_MAX_NODES, is 256, but the parser gives up as soon as 256 are stored, even if
	 * only closing tags follow (graph/xml.cc, xmlLoadSub): 255 can be read.
	 */
	NCCLMODEL_NODE_MAX = 255,
	NCCLMODEL_GRAPH_NODE_MAX = 4095, /* graph/topo.h, NCCL_GRAPH_XML_MAX_NODES, is 4096 (65536 since 2.29) */
	NCCLMODEL_ATTRIBUTE_MAX = 16,    /* graph/xml.h, MAX_ATTR_COUNT; further ones are lost */
	/* graph/xml.h, MAX_STR_LEN, is 255, but the closing quote must come before the 255th place (xmlGetValue). */
	NCCLMODEL_VALUE_MAX = 253,
	NCCLMODEL_CHILD_MAX = 128,         /* graph/xml.h, MAX_SUBS, since 2.21; 640 since 2.29 */
	NCCLMODEL_GENERATION_MAX = 6,      /* the newest one whose string NCCL knows (graph/topo.cc, kvDictPciGen) */
	NCCLMODEL_GENERATION_FALLBACK = 3, /* what any other string means there */
	NCCLMODEL_LANES_FALLBACK = 16,     /* what width 0 means (graph/topo.cc, ncclTopoAddPci) */
	NCCLMODEL_LANES_MAX = INT32_MAX / 512, /* NCCL multiplies the width by up to 480 in an int */
	NCCLMODEL_NET_FALLBACK_MBPS = 10000,   /* what a speed of 0 or less means (graph/topo.cc, ncclTopoAddNet) */
};

/* Classes as NCCL compares them, by prefix (graph/topo.cc, kvDictPciClass). */
#define NCCLMODEL_CLASS_NVSWITCH "0x068000"
#define NCCLMODEL_CLASS_CPU      "0x068001" /* NVLink to a CPU */
#define NCCLMODEL_CLASS_GPU      "0x03"
#define NCCLMODEL_CLASS_NIC      "0x02"
/* What NVML calls an NVSwitch whose bus id it does not know (graph/xml.cc, ncclTopoGetXmlFromGpu). */
#define NCCLMODEL_UNKNOWN_TARGET "fffffff:ffff:ff"

/* Payload of one lane as NCCL counts it: 0.1875, 0.375, 0.75, 1.5, 3, 6 GB/s; 0 beyond its generations. */
uint64_t ncclmodel_lane_Bps(unsigned generation);
/* The generation that NCCL reads in a link_speed; *ret_known (may be NULL) is false for its fallback. */
unsigned ncclmodel_generation(const char *link_speed, bool *ret_known);
/* The string by which every NCCL knows the generation, 1 to NCCLMODEL_GENERATION_MAX. */
const char *ncclmodel_speed_text(unsigned generation);
/* A link's payload rate, each direction, by NCCL's rule; 0: a width with which NCCL would compute nonsense. */
uint64_t ncclmodel_pci_Bps(const char *link_speed, long link_width);
/* One NVLink, each direction, by compute capability × 10 (graph/topo.h). */
uint64_t ncclmodel_nvlink_Bps(int sm);
/*
 * Between CPUs, by the sending one (graph/topo.h; graph/topo.cc, ncclTopoGetInterCpuBw). 0: the file leaves out what
 * NCCL then asks the machine.
 */
uint64_t ncclmodel_socket_Bps(const struct topology_cpu *cpu);

#endif
