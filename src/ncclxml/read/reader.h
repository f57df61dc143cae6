/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the reader share (reader.c): topology_read.c (CPUs and the PCI tree), read_nics.c, read_gpu_links.c. Pure. */
#ifndef TRIBUTARY_NCCLXML_READ_READER_H
#define TRIBUTARY_NCCLXML_READ_READER_H

#include <stdbool.h>

#include "base/log.h"
#include "tributary/topology.h"

struct ncclxml_element;

/* Far more than NCCL reads; enough for what it writes when it joins the machines of a large NVLink domain. */
enum { NCCLXML_READER_ELEMENTS_MAX = 4096 };

struct ncclxml_reader {
	struct topology topology;
	struct diag *diag;
	int twice_line; /* of the first that has the bus id or the name of another; 0: none has */
	char twice[TOPOLOGY_NAME_BYTES];
	size_t classless_count; /* devices of which only the machine knows what they are */
	int classless_line;     /* of the first */
};

/* -EINVAL, with the element's line and the reason in the diag. */
int ncclxml_reader_fail(struct ncclxml_reader *reader, const struct ncclxml_element *element, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Of what is there twice: the first one is enough to look at the file again. */
void ncclxml_reader_twice(struct ncclxml_reader *reader, const struct ncclxml_element *element, const char *what);
/* A name that is there already gets a number: "gpu0~2". */
int ncclxml_reader_vertex(struct ncclxml_reader *reader, const struct ncclxml_element *element,
			  const struct topology_vertex *vertex, uint32_t *ret);
int ncclxml_reader_link(struct ncclxml_reader *reader, const struct topology_link *link);
/* The nominal rate of both directions; 0: unknown. */
void ncclxml_reader_nominal(struct topology_link *link, uint64_t rate_Bps);
/* Lower case, and four digits of the domain where that is enough. False: it is none. */
bool ncclxml_reader_bus_id(const char *text, char bus_id[TOPOLOGY_BUS_ID_BYTES]);

/*
 * The NICs of one PCI device: the <net>s in `holder`, or one NIC without a <net>. facts: bus id and PCI facts; slot:
 * the link to the parent, its lower end to be filled in.
 */
int ncclxml_reader_nics(struct ncclxml_reader *reader, const struct ncclxml_element *holder,
			const struct topology_vertex *facts, const struct topology_link *slot);
/* The <net>s in a <nic> right below a CPU: no PCI devices. */
int ncclxml_reader_virtual_nics(struct ncclxml_reader *reader, const struct ncclxml_element *nic, uint32_t cpu);
/* When all NICs are there: limits for the wires that several share. */
int ncclxml_reader_wires(struct ncclxml_reader *reader);
/* When all GPUs are there (their elements' `user` is the vertex): <nvlink> and <c2c>. */
int ncclxml_reader_gpu_links(struct ncclxml_reader *reader, const struct ncclxml_element *system);

#endif
