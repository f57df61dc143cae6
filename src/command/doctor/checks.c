/* SPDX-License-Identifier: Apache-2.0 */
/* The table of checks, which run one after the other. docs/guide/doctor.md has a section for each; a test sees to it. */
#include "command/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>

const struct doctor_check doctor_checks[] = {
	{ "devices", "the machine has GPUs and NICs",
	  "What is not found is not examined: that nothing is wrong with it means nothing.",
	  "See whether lspci and nvidia-smi show the devices here: a container must be given them, a virtual machine "
	  "must have them assigned. --from FILE examines another machine.",
	  .run = doctor_devices },
	{ "link-width", "PCIe links have all the lanes that both ends can",
	  "Everything that crosses the link is slowed in proportion, at all times.",
	  "Reseat the card or riser, try another slot, look at the slot's width and bifurcation in the firmware setup.",
	  .run = doctor_link_width },
	{ "link-speed", "PCIe links run at the generation that both ends can",
	  "Each generation less halves what the link carries.",
	  "Look at the slot's speed in the firmware setup and at the riser or cable; corrected PCIe errors in the "
	  "kernel's log point to a bad signal.",
	  .run = doctor_link_speed },
	{ "measured-low", "measured rates are near to nominal ones, or another check says why not",
	  "The link gives less than it was bought for, and nothing that can be read explains it.",
	  "Measure again on an idle machine; then compare with a like link of the machine, and look for PCIe "
	  "errors, a small maximum payload, power or thermal limits.",
	  .run = doctor_measured_low },
	{ "unlike-links", "all GPUs reach their CPU at the same rate",
	  "Every ring through all GPUs goes at the pace of the slowest, and the wider slots wait.",
	  "Move the GPU to a slot of the CPU with as many lanes and the same generation as the others' (the board's manual "
	  "says which share lanes or hang on the chipset), or leave it out: `tributary place` names the best others.",
	  .run = doctor_unlike_links, .needs = { .gpus = 2 } },
	{ "gpu-nic-distance", "each GPU has a NIC on its own PCIe switch, or at least on its own socket",
	  "Traffic to other hosts crosses the host bridge or the link between sockets, and shares it with all else.",
	  "Move a NIC to a slot of the GPU's switch or socket, or let ranks use the NIC that is near.",
	  .run = doctor_gpu_nic, .needs = { .gpus = 1, .nics = 1 } },
	{ "shared-uplink", "NICs behind one uplink get their speed at the same time",
	  "Together the NICs reach the uplink's rate, not the sum of their own.",
	  "Move one of the NICs to another switch or root port.", .run = doctor_shared_uplink,
	  .needs = { .nics = 2, .switches = 1 } },
	{ "oversubscribed-uplink", "a switch's uplink carries what the devices below it can send at once",
	  "Devices below the switch share the uplink whenever they all talk to memory or to the other side.",
	  "Keep traffic below the switch: neighbouring ranks on one switch; `tributary export` tells NCCL what the "
	  "uplink carries.",
	  .run = doctor_oversubscribed, .needs = { .gpus = 2, .switches = 1 } },
	{ "asymmetric", "sockets and switches have the same devices",
	  "The narrower side sets the pace of every collective operation.",
	  "Spread GPUs and NICs evenly over sockets and switches.", .run = doctor_asymmetric, .needs = { .gpus = 1 } },
	{ "acs", "no port between GPUs, or a GPU and a NIC, redirects their traffic (ACS)",
	  "Traffic between devices of one switch goes up to the host bridge and back, and loads the uplink twice; "
	  "what the IOMMU translates on the way is slower still, and P2P may hang.",
	  "Switch ACS off in the firmware setup, or clear it on each listed port (setpci -s PORT ECAP_ACS+6.w=0), "
	  "unless virtual machines need it; at root ports iommu=pt cures it as well, and one of the two is enough.",
	  .run = doctor_acs, .needs = { .gpus = 1 } },
	{ "iommu", "the IOMMU does not translate the devices' addresses",
	  "Every access of a device to memory goes through the IOMMU, and so does P2P where ACS redirects it: "
	  "slower, and P2P may hang.",
	  "Boot with iommu=pt (or with the IOMMU off), unless virtual machines need it; switches that redirect (see "
	  "acs) stay slow until ACS is cleared there, too.",
	  .run = doctor_iommu, .needs = { .gpus = 1 }, .unknown = "the state of the IOMMU is not known" },
	{ "p2p-refused", "the driver allows P2P between GPUs",
	  "Data between these GPUs goes through host memory: two copies, and twice the load on the uplinks.",
	  "Put GPUs that talk most under one switch; see acs and iommu; some GPUs have no P2P over PCIe at all.",
	  .run = doctor_p2p_refused, .needs = { .gpus = 2 },
	  .unknown = "the driver was not asked, or nothing was measured" },
	{ "p2p-slow", "NCCL takes the faster of P2P and host memory",
	  "NCCL takes P2P up to a class of distance and host memory beyond, whatever is faster.",
	  "Set NCCL_P2P_LEVEL, alike on all ranks, so that NCCL takes the faster way between these GPUs.",
	  .run = doctor_p2p_slow, .needs = { .gpus = 2 }, .unknown = "no pair of GPUs was measured both ways" },
	{ "bar1", "the GPUs show all their memory to the bus (BAR1)",
	  "NICs and other GPUs reach a part of the GPU's memory only: GPUDirect RDMA runs out of room.",
	  "Enable \"above 4G decoding\" and resizable BARs in the firmware setup.", .run = doctor_bar1,
	  .needs = { .gpus = 1 }, .unknown = "the driver did not say how large BAR1 is" },
	{ "hidden-gpu", "every GPU on the bus is usable", "A GPU that is in the machine does not take part.",
	  "Look at the kernel's log for the driver's reason, and at the limits of the container.",
	  .run = doctor_hidden_gpu },
	{ "nic-speed", "NICs negotiated their full speed", "Traffic to other hosts is held to the negotiated speed.",
	  "Look at the cable or transceiver, the switch port's speed and forward error correction; ethtool shows both "
	  "sides.",
	  .run = doctor_nic_speed, .needs = { .nics = 1 }, .unknown = "no driver says how fast its NIC could be" },
	{ "mtu", "fast interfaces use large packets, all the same ones",
	  "Small packets cost CPU time for each byte of TCP, and RDMA messages are cut into more pieces.",
	  "Set the MTU to 9000 (or 4200 and more for RoCE) on hosts and switches alike.", .run = doctor_mtu,
	  .needs = { .nics = 1 }, .unknown = "no interface's MTU and speed are known" },
	{ "tcp-buffers", "TCP may keep as many bytes in flight as a fast link needs",
	  "One stream does not fill the link when the round trip is long; several streams help in part.",
	  "Raise the third value of net.ipv4.tcp_rmem and net.ipv4.tcp_wmem to 16 MiB or more.",
	  .run = doctor_tcp_buffers, .needs = { .nics = 1 },
	  .unknown = "the limits of TCP's buffers or the NICs' speeds are not known" },
	{ "rto-min", "a lost packet at the end of a message is sent again soon",
	  "A tail that is lost is repeated after 200 ms or more; all ranks wait for it.",
	  "Set net.ipv4.tcp_rto_min_us (Linux 6.11 and later), or rto_min on the route: ip route change ... rto_min "
	  "5ms.",
	  .run = doctor_rto_min, .needs = { .nics = 1 }, .unknown = "nothing is known of the kernel's settings" },
	{ "roce", "RoCE ports have flow control (PFC) or congestion marks (ECN)",
	  "When a switch port overflows, whole RDMA messages are sent again: rates collapse under load.",
	  "Enable ECN (DCQCN) for RoCE's priority on hosts and switches, and PFC for that priority where ECN is not "
	  "enough.",
	  .run = doctor_roce, .needs = { .rdma = 1 } },
	{ "roce-gid", "RoCE ports have an address of RoCE v2 that is made of an IPv4 address",
	  "Packets of RoCE v1 pass no router; without an IPv4 address the port can be reached on its own wire alone.",
	  "Give the interface an IPv4 address, and choose RoCE v2 (NCCL_IB_GID_INDEX) where both are there.",
	  .run = doctor_roce_gid, .needs = { .rdma = 1 } },
	{ "roce-packet", "RoCE packets are as long as they can be",
	  "Messages are cut into more packets, and each costs the cards and the switches time.",
	  "Set the MTU of hosts and switches to 4200 or more.", .run = doctor_roce_packet, .needs = { .rdma = 1 } },
	{ "roce-trust", "RoCE packets have the priority that flow control is for",
	  "The packets are of a priority without flow control: they are dropped where it should have held them back.",
	  "Let the port trust DSCP (mlnx_qos --trust=dscp, or dcb app), and mark RoCE with the DSCP of that priority.",
	  .run = doctor_roce_trust, .needs = { .rdma = 1 } },
	{ "relaxed-ordering", "RDMA devices may use relaxed ordering on PCIe",
	  "Writes to memory wait for one another: on machines with several sockets a fast card does not reach its "
	  "rate.",
	  "Enable relaxed ordering in the firmware setup, or in the card's own configuration.",
	  .run = doctor_relaxed_ordering, .needs = { .rdma = 1 } },
	{ "gpudirect", "RDMA devices reach the GPUs' memory",
	  "Each byte from or to a GPU is copied through host memory.",
	  "Use the open kernel modules of the driver (DMA-BUF), or load nvidia_peermem.", .run = doctor_gpudirect,
	  .needs = { .gpus = 1, .rdma = 1 }, .unknown = "the GPU driver does not say which modules it has" },
	{ "rdma-limits", "RDMA devices have queue pairs and memory regions enough for a large job",
	  "Connections cannot be made when a job has many peers.",
	  "Give the virtual function or the container more of them, or use fewer channels (NCCL_MAX_NCHANNELS).",
	  .run = doctor_rdma_limits, .needs = { .rdma = 1 },
	  .unknown = "no RDMA device could be asked (libibverbs, and the right to open it)" },
	{ "memlock", "memory for RDMA may be locked",
	  "Registering buffers for RDMA fails, or NCCL falls back to sockets.",
	  "Set memlock to unlimited in /etc/security/limits.conf, and LimitMEMLOCK=infinity for services (Slurm).",
	  .run = doctor_memlock, .needs = { .rdma = 1 }, .unknown = "the limit is not known" },
	{ "numa-balancing", "the kernel does not move pages between NUMA nodes by itself",
	  "Faults and moved pages make host buffers slower and rates uneven.", "sysctl kernel.numa_balancing=0",
	  .run = doctor_numa_balancing, .needs = { .nodes = 2 },
	  .unknown = "the kernel does not say, or has no such setting" },
	{ "governor", "CPUs keep their clock up",
	  "Threads that poll and copy start slowly after each pause; latency grows.",
	  "Set the scaling governor to performance (cpupower frequency-set -g performance).", .run = doctor_governor,
	  .unknown = "the kernel does not control the clock, or does not show it" },
	{ "plans", "nothing keeps NCCL jobs from getting planned channels",
	  "NCCL searches its channels itself, by nominal rates.",
	  "Do what the evidence says after the semicolon; `tributary status` names the reason for each communicator.",
	  .run = doctor_plans, .needs = { .gpus = 1 }, .unknown = "the environment of its jobs is not known" },
	{ .word = NULL },
};

/* ---------------------------------------------------------------------------------------------------------- examine */

static size_t count_rdma(const struct topology *topology)
{
	size_t count = 0;

	for (size_t i = 0; i < topology->vertex_count; i++)
		count += topology->vertices[i].kind == TOPOLOGY_NIC && topology->vertices[i].nic.rdma;
	return count;
}

/* Says so where the machine lacks what the check is about. */
static bool applies(struct doctor *doctor)
{
	const struct doctor_check *check = doctor->check;
	const struct topology *topology = doctor->topology;
	const struct {
		unsigned needed;
		size_t count;
		const char *word;
	} needs[] = {
		{ check->needs.nodes, topology_count(topology, TOPOLOGY_CPU), "NUMA node" },
		{ check->needs.gpus, topology_count(topology, TOPOLOGY_GPU), "GPU" },
		{ check->needs.nics, topology_count(topology, TOPOLOGY_NIC), "NIC" },
		{ check->needs.rdma, count_rdma(topology), "RDMA device" },
		{ check->needs.switches, topology_count(topology, TOPOLOGY_SWITCH), "PCIe switch" },
	};

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		if (needs[i].count >= needs[i].needed)
			continue;
		doctor_add(doctor, DOCTOR_SKIPPED, "machine", "there is %s %s", needs[i].count ? "only one" : "no",
			   needs[i].word);
		return false;
	}
	return true;
}

/* The worst first; of two alike the order of the checks stays. */
static void sort(struct doctor_report *report)
{
	for (size_t i = 1; i < report->count; i++) {
		struct doctor_finding moved = report->at[i];
		size_t at = i;

		for (; at && report->at[at - 1].severity < moved.severity; at--)
			report->at[at] = report->at[at - 1];
		report->at[at] = moved;
	}
}

int doctor_examine(const struct topology *topology, const struct discover_facts *facts, bool from_file,
		   struct doctor_report *ret)
{
	struct doctor doctor = { .topology = topology, .facts = facts, .from_file = from_file };

	for (doctor.check = doctor_checks; doctor.check->word && doctor.result >= 0; doctor.check++) {
		size_t before = doctor.report.count;

		doctor.known = 0;
		if (applies(&doctor)) {
			doctor.check->run(&doctor);
			if (!doctor.known && doctor.check->unknown)
				doctor_add(&doctor, DOCTOR_UNKNOWN, "machine", "%s", doctor.check->unknown);
		}
		if (doctor.report.count == before)
			doctor_add(&doctor, DOCTOR_GOOD, "machine", "%s", doctor.check->title);
	}
	if (doctor.result < 0) {
		doctor_report_fini(&doctor.report);
		return doctor.result;
	}
	sort(&doctor.report);
	*ret = doctor.report;
	return 0;
}

void doctor_report_fini(struct doctor_report *report)
{
	free(report->at);
	memset(report, 0, sizeof(*report));
}

enum doctor_severity doctor_worst(const struct doctor_report *report)
{
	return report->count ? report->at[0].severity : DOCTOR_SKIPPED;
}
