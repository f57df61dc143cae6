/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/facts_internal.h"
#include "discover/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIDS_MOST = 64 }; /* rows looked at; they are taken from the first one on */

#define UNKNOWN DISCOVER_UNKNOWN

/* ---------------------------------------------------------------------------------------------------------------- RoCE */

/* Vendors' drivers show here, a file for each priority, whether congestion is marked and answered. */
static void ecn_of(struct discover_collector *from, const char *interface, const char *side, char digits[static 16])
{
	for (unsigned i = 0; i < 8; i++) {
		int64_t value;

		if (discover_root_number(from->root, &value, "sys/class/net/%s/ecn/%s/enable/%u", interface, side, i) <
		    0) {
			snprintf(digits, 16, UNKNOWN);
			return;
		}
		digits[i] = value ? '1' : '0';
	}
	digits[8] = '\0';
}

void discover_facts_roce(struct discover_collector *to, const char *interface, const char *answer)
{
	char pfc[16], np[16], rp[16], trust[16], dscp[64], cnp[16];

	discover_facts_value(answer, "pfc", pfc, sizeof(pfc));
	discover_facts_value(answer, "dscp", dscp, sizeof(dscp));
	ecn_of(to, interface, "roce_np", np);
	ecn_of(to, interface, "roce_rp", rp);
	discover_facts_word(to, cnp, sizeof(cnp), "sys/class/net/", interface, "/ecn/roce_np/cnp_dscp");
	/* Drivers of vendors have a file; else what the kernel's table of priorities says. */
	discover_facts_word(to, trust, sizeof(trust), "sys/class/net/", interface, "/qos/trust");
	if (!strcmp(trust, UNKNOWN))
		discover_facts_value(answer, "trust", trust, sizeof(trust));
	discover_facts_add(to, "roce %s pfc=%s ecn_notify=%s ecn_react=%s cnp_dscp=%s trust=%s dscp=%s", interface, pfc,
			   np, rp, cnp, trust, dscp);
}

/*
 * RoCE's addresses of a port: how many of version 1 and 2, and the first of version 2 that is made of an IPv4 address,
 * which is the one to use.
 */
static void add_gids(struct discover_collector *to, const char *nic, const char *device, int port)
{
	unsigned versions[3] = { 0 };
	char first[16] = "none";

	for (unsigned i = 0; i < GIDS_MOST; i++) {
		char type[32], kind[16];
		unsigned version;

		if (discover_root_read(to->root, type, sizeof(type),
				       "sys/class/infiniband/%s/ports/%d/gid_attrs/types/%u", device, port, i) < 0 ||
		    discover_root_show(to->root, DISCOVER_SHOWN_GID, kind, sizeof(kind),
				       "sys/class/infiniband/%s/ports/%d/gids/%u", device, port, i) < 0 ||
		    !strcmp(kind, "none"))
			continue;
		version = strcmp(type, "RoCE v2") != 0 ? 1 : 2;
		versions[version]++;
		if (version == 2 && !strcmp(kind, "ipv4") && !strcmp(first, "none"))
			snprintf(first, sizeof(first), "%u", i);
	}
	if (versions[1] || versions[2])
		discover_facts_add(to, "gids %s v1=%u v2=%u ipv4=%s", nic, versions[1], versions[2], first);
}

/* --------------------------------------------------------------------------------------------------------------- ports */

static void add_port(struct discover_collector *to, const struct topology_vertex *vertex)
{
	char device[TOPOLOGY_NAME_BYTES], port[96], state[64], layer[64], rate[64], firmware[64], name[96], key[32];
	char packet[16], max_qp[16], max_mr[16], *answer = NULL;
	const char *comma;
	size_t bytes;
	bool soft;

	snprintf(device, sizeof(device), "%s", vertex->name + strlen("nic:"));
	device[strcspn(device, ":")] = '\0';
	snprintf(port, sizeof(port), "%s/ports/%d", device, vertex->nic.port);
	discover_facts_word(to, state, sizeof(state), "sys/class/infiniband/", port, "/state");
	discover_facts_word(to, layer, sizeof(layer), "sys/class/infiniband/", port, "/link_layer");
	discover_facts_word(to, rate, sizeof(rate), "sys/class/infiniband/", port, "/rate");
	discover_facts_word(to, firmware, sizeof(firmware), "sys/class/infiniband/", device, "/fw_ver");
	soft = !discover_root_exists(to->root, "sys/class/infiniband/%s/device", device);
	snprintf(name, sizeof(name), "verbs/%.64s", device);
	if (discover_root_answer(to->root, name, discover_verbs_ask, device, &answer, &bytes) < 0)
		answer = NULL;
	snprintf(key, sizeof(key), "packet%d", vertex->nic.port);
	discover_facts_value(answer, key, packet, sizeof(packet));
	discover_facts_value(answer, "max_qp", max_qp, sizeof(max_qp));
	discover_facts_value(answer, "max_mr", max_mr, sizeof(max_mr));
	free(answer);
	/* "4: ACTIVE" and "200 Gb/sec (4X HDR)". */
	comma = strchr(state, ',');
	rate[strcspn(rate, ",")] = '\0';
	discover_facts_add(to,
			   "rdma %s device=%s port=%d soft=%d state=%s link_layer=%s rate_Gbps=%s firmware=%s "
			   "packet_bytes=%s max_qp=%s max_mr=%s",
			   vertex->name, device, vertex->nic.port, soft, comma ? comma + 1 : state, layer, rate,
			   firmware, packet, max_qp, max_mr);
	if (!strcmp(layer, "Ethernet"))
		add_gids(to, vertex->name, device, vertex->nic.port);
}

/* How the driver lets NICs reach the GPUs' memory. No line: there is no driver. */
static void add_gpudirect(struct discover_collector *to)
{
	char text[1024];
	bool dmabuf, peermem;

	if (discover_root_read(to->root, text, sizeof(text), "proc/driver/nvidia/version") < 0)
		return;
	dmabuf = strstr(text, "Open Kernel Module") != NULL;
	peermem = discover_root_exists(to->root, "sys/module/nvidia_peermem") ||
		  discover_root_exists(to->root, "sys/module/nv_peer_mem");
	discover_facts_add(to, "gpudirect dmabuf=%d peermem=%d", dmabuf, peermem);
}

void discover_facts_rdma(struct discover_collector *to)
{
	for (uint32_t i = 0; i < to->topology->vertex_count; i++)
		if (to->topology->vertices[i].kind == TOPOLOGY_NIC && to->topology->vertices[i].nic.rdma)
			add_port(to, &to->topology->vertices[i]);
	add_gpudirect(to);
}
