/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for the tests of the writer: two sockets, on each a switch with two GPUs and one NIC, as NCCL would dump
 * it.
 */
#ifndef TRIBUTARY_TESTS_UNIT_NCCLXML_MACHINE_H
#define TRIBUTARY_TESTS_UNIT_NCCLXML_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ncclxml/topology_xml.h"
#include "tributary/topology.h"

#define MACHINE_GPU(bus, dev)                                                                                  \
	"<pci busid=\"0000:" bus ":00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" \
	"<gpu dev=\"" dev "\" sm=\"86\" rank=\"" dev "\" gdr=\"1\"/></pci>\n"
#define MACHINE_NIC(bus, name)                                                                                       \
	"<pci busid=\"0000:" bus ":00.0\" class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\"><nic>"  \
	"<net name=\"" name "\" dev=\"0\" speed=\"100000\" port=\"1\" guid=\"0x" bus "\" maxconn=\"64\" gdr=\"1\"/>" \
	"</nic></pci>\n"
#define MACHINE_SWITCH(bus, inside) \
	"<pci busid=\"0000:" bus    \
	":00.0\" class=\"0x060400\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n" inside "</pci>\n"
#define MACHINE_CPU(numa, mask, inside)                                                                           \
	"<cpu numaid=\"" numa "\" affinity=\"" mask "\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" " \
	"modelid=\"1\">\n" inside "</cpu>\n"

static const char machine_text[] = "<system version=\"1\">\n" MACHINE_CPU(
	"0", "0000ffff", MACHINE_SWITCH("01", MACHINE_GPU("02", "0") MACHINE_GPU("03", "1") MACHINE_NIC("04", "eth0")))
	MACHINE_CPU("1", "ffff0000",
		    MACHINE_SWITCH("81", MACHINE_GPU("82", "2") MACHINE_GPU("83", "3")
						 MACHINE_NIC("84", "eth1"))) "</system>\n";

static inline void machine_read(const char *text, struct topology *ret)
{
	struct diag diag = { .text = "" };

	if (topology_xml_read(text, strlen(text), ret, &diag) != 0)
		fail_msg("line %d: %s", diag.line, diag.text);
}

/* Both directions of the link between two vertices. */
static inline void machine_set(struct topology *topology, const char *a, const char *b, uint64_t rate_Bps,
			       enum topology_provenance provenance)
{
	uint32_t link = topology_find_link(topology, topology_find(topology, a), topology_find(topology, b));

	assert_int_not_equal(link, TOPOLOGY_NONE);
	for (unsigned i = 0; i < 2; i++) {
		topology->links[link].capacity[i].rate_Bps = rate_Bps;
		topology->links[link].capacity[i].provenance = provenance;
	}
}

/* What is known of every pair of GPUs; p2p: 0 never, 1 inside a socket alone, 2 always. */
static inline void machine_pairs(struct topology *topology, unsigned p2p)
{
	uint32_t *gpus, index;
	size_t count;

	assert_int_equal(topology_list(topology, TOPOLOGY_GPU, &gpus, &count), 0);
	for (size_t a = 0; a < count; a++) {
		for (size_t b = 0; b < count; b++) {
			struct topology_pair pair = { .from = gpus[a], .to = gpus[b] };
			bool same = topology_cpu_of(topology, gpus[a]) == topology_cpu_of(topology, gpus[b]);

			pair.p2p_works = p2p == 2 || (p2p == 1 && same);
			if (a != b)
				assert_int_equal(topology_add_pair(topology, &pair, &index), 0);
		}
	}
	free(gpus);
}

/* What was measured of all pairs of GPUs of one class: by P2P, and through host memory. */
static inline void machine_pair_rates(struct topology *topology, enum topology_class of, uint64_t p2p_Bps,
				      uint64_t host_Bps)
{
	for (size_t i = 0; i < topology->pair_count; i++) {
		struct topology_pair *pair = &topology->pairs[i];

		if (topology_class_of(topology, pair->from, pair->to) != of)
			continue;
		pair->p2p = (struct topology_capacity){ .rate_Bps = p2p_Bps, .provenance = TOPOLOGY_MEASURED };
		pair->host = (struct topology_capacity){ .rate_Bps = host_Bps, .provenance = TOPOLOGY_MEASURED };
	}
}

#endif
