/* SPDX-License-Identifier: Apache-2.0 */
/* A sound machine with its facts, and what can be broken in it. */
#ifndef TESTS_UNIT_COMMAND_DOCTOR_FIXTURES_H
#define TESTS_UNIT_COMMAND_DOCTOR_FIXTURES_H

#include "command/doctor/doctor.h"

#include <stddef.h>

#define SOCKET(n, bridge, switch_, gpu_a, bus_a, port_a, gpu_b, bus_b, port_b, nic, bus_n, port_n)                   \
	"vertex cpu cpu" n " numa=" n "\n"                                                                           \
	"vertex memory memory" n " numa=" n " memory_bytes=274877906944\n"                                           \
	"vertex bridge bridge:" bridge " bus=" bridge "\n"                                                           \
	"vertex switch switch:" switch_ " bus=" switch_ "\n"                                                         \
	"vertex gpu " gpu_a " bus=" bus_a " bar1_bytes=34359738368 memory_bytes=25769803776\n"                       \
	"vertex gpu " gpu_b " bus=" bus_b " bar1_bytes=34359738368 memory_bytes=25769803776\n"                       \
	"vertex nic nic:" nic " bus=" bus_n " interface=" nic "f0 port=1 speed_Bps=12500000000 rdma=1\n"             \
	"link memory memory" n " cpu" n " nominal_Bps=200000000000\n"                                                \
	"link internal bridge:" bridge " cpu" n "\n"                                                                 \
	"link pci switch:" switch_ " bridge:" bridge                                                                 \
	" generation=5 lanes=16 most_generation=5 most_lanes=16 nominal_Bps=48000000000\n"                           \
	"link pci " gpu_a " switch:" switch_ " generation=4 lanes=16 most_generation=4 most_lanes=16 port=" port_a   \
	" nominal_Bps=24000000000\n"                                                                                 \
	"link pci " gpu_b " switch:" switch_ " generation=4 lanes=16 most_generation=4 most_lanes=16 port=" port_b   \
	" nominal_Bps=24000000000\n"                                                                                 \
	"link pci nic:" nic " switch:" switch_ " generation=4 lanes=16 most_generation=4 most_lanes=16 port=" port_n \
	" nominal_Bps=24000000000\n"

#define RATES(lower, upper, rate) \
	"rate " lower ">" upper " " rate " measured\nrate " upper ">" lower " " rate " measured\n"

/* Of GPUs of two sockets, both ways. */
#define ACROSS(a, b, p2p)                                                          \
	"pair " a " " b " p2p_works=1 p2p_Bps=" p2p                                \
	" p2p_provenance=measured host_Bps=11000000000 host_provenance=measured\n" \
	"pair " b " " a " p2p_works=1 p2p_Bps=" p2p                                \
	" p2p_provenance=measured host_Bps=11000000000 host_provenance=measured\n"
#define ALL_ACROSS(p2p) \
	ACROSS("gpu0", "gpu2", p2p) ACROSS("gpu0", "gpu3", p2p) ACROSS("gpu1", "gpu2", p2p) ACROSS("gpu1", "gpu3", p2p)

static const char sound_machine[] = "tributary-topology 1\n" SOCKET(
	"0", "0000:20", "0000:21:00.0", "gpu0", "0000:23:00.0", "0000:22:00.0", "gpu1", "0000:24:00.0", "0000:22:01.0",
	"mlx5_0", "0000:25:00.0", "0000:22:02.0")
	SOCKET("1", "0000:80", "0000:81:00.0", "gpu2", "0000:83:00.0", "0000:82:00.0", "gpu3", "0000:84:00.0",
	       "0000:82:01.0", "mlx5_1", "0000:85:00.0",
	       "0000:82:02.0") "link socket cpu0 cpu1 nominal_Bps=40000000000\n" RATES("switch:0000:21:00.0",
										       "bridge:0000:20", "44000000000")
		RATES("switch:0000:81:00.0", "bridge:0000:80",
		      "44000000000") RATES("gpu0", "switch:0000:21:00.0",
					   "23000000000") RATES("gpu1", "switch:0000:21:00.0", "23000000000")
			RATES("gpu2", "switch:0000:81:00.0", "23000000000") RATES(
				"gpu3", "switch:0000:81:00.0",
				"23000000000") "pair gpu0 gpu1 p2p_works=1 p2p_Bps=22000000000 p2p_provenance=measured "
					       "host_Bps=11000000000 host_provenance=measured\n"
					       "pair gpu2 gpu3 p2p_works=1 p2p_Bps=22000000000 p2p_provenance=measured "
					       "host_Bps=11000000000 host_provenance=measured\n";

static const char sound_facts[] =
	"acs 0000:22:00.0 state=known SrcValid=1 TransBlk=0 ReqRedir=0 CmpltRedir=0 UpstreamFwd=0 EgressCtrl=0 "
	"DirectTrans=0\n"
	"device 0000:25:00.0 name=nic:mlx5_0 driver=mlx5_core relaxed_ordering=1\n"
	"device 0000:85:00.0 name=nic:mlx5_1 driver=mlx5_core relaxed_ordering=1\n"
	"gids nic:mlx5_0 v1=2 v2=2 ipv4=3\n"
	"gids nic:mlx5_1 v1=2 v2=2 ipv4=3\n"
	"governor performance policies=64\n"
	"gpudirect dmabuf=1 peermem=0\n"
	"interface mlx5_0f0 nic=nic:mlx5_0 mtu=9000 speed_Mbps=100000 most_Mbps=100000 state=up\n"
	"interface mlx5_1f0 nic=nic:mlx5_1 mtu=9000 speed_Mbps=100000 most_Mbps=100000 state=up\n"
	"iommu state=identity translated=0 identity=6 unknown=0\n"
	"memlock soft=unlimited hard=unlimited\n"
	"obstacle none\n"
	"p2p gpu0 gpu1 status=works\n"
	"rdma nic:mlx5_0 device=mlx5_0 port=1 soft=0 state=ACTIVE link_layer=Ethernet packet_bytes=4096 max_qp=131072 "
	"max_mr=16777216\n"
	"rdma nic:mlx5_1 device=mlx5_1 port=1 soft=0 state=ACTIVE link_layer=Ethernet packet_bytes=4096 max_qp=131072 "
	"max_mr=16777216\n"
	"roce mlx5_0f0 pfc=00010000 ecn_notify=unknown ecn_react=unknown trust=dscp dscp=10:1,26:3\n"
	"roce mlx5_1f0 pfc=00000000 ecn_notify=00010000 ecn_react=00010000\n"
	"sysctl kernel.numa_balancing value=0\n"
	"sysctl net.ipv4.tcp_rmem value=4096,131072,16777216\n"
	"sysctl net.ipv4.tcp_rto_min_us value=5000\n"
	"sysctl net.ipv4.tcp_wmem value=4096,16384,16777216\n";

/* The first occurrence of `from` in the machine or in the facts becomes `to`. */
struct change {
	const char *from, *to;
};

struct fixture {
	const char *check;
	enum doctor_severity severity;
	const char *subject, *evidence; /* a part of it */
	struct change machine[3], facts[2];
	const char *also; /* a check that rightly sees it, too */
};

#define ROOT_PORT                                                                                  \
	{                                                                                          \
		"link pci switch:0000:21:00.0 bridge:0000:20 generation",                          \
			"link pci switch:0000:21:00.0 bridge:0000:20 port=0000:20:01.0 generation" \
	}
#define ROOT_ACS(state)                                            \
	{                                                          \
		"governor", "acs 0000:20:01.0 " state "\ngovernor" \
	}

static const struct fixture fixtures[] = {
	{ "devices",
	  DOCTOR_WARNING,
	  "machine",
	  "no GPU and no NIC was found among the PCI devices that /sys shows here; NVML, the driver's library, is not "
	  "there",
	  { { "", "tributary-topology 1\nvertex cpu cpu0 numa=0\n" } },
	  { { 0 } },
	  "*" },
	{ "devices",
	  DOCTOR_NOTE,
	  "machine",
	  "no GPU was found among the PCI devices that /sys shows here; NVML, the driver's library, works",
	  { { "", "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex nic nic:eth0 interface=eth0 port=1\n" } },
	  { { "governor", "nvml state=works gpus=0\ngovernor" } },
	  "*" },
	{ "link-width",
	  DOCTOR_WARNING,
	  "gpu1",
	  "x8 of x16",
	  { { "link pci gpu1 switch:0000:21:00.0 generation=4 lanes=16",
	      "link pci gpu1 switch:0000:21:00.0 generation=4 lanes=8" } },
	  { { 0 } },
	  NULL },
	{ "link-width",
	  DOCTOR_WARNING,
	  "switch:0000:21:00.0",
	  "x8 of x16 lanes to bridge:0000:20",
	  { { "generation=5 lanes=16", "generation=5 lanes=8" } },
	  { { 0 } },
	  NULL },
	{ "link-width",
	  DOCTOR_ERROR,
	  "nic:mlx5_0",
	  "x4 of x16",
	  { { "link pci nic:mlx5_0 switch:0000:21:00.0 generation=4 lanes=16",
	      "link pci nic:mlx5_0 switch:0000:21:00.0 generation=4 lanes=4" } },
	  { { 0 } },
	  NULL },
	{ "link-width",
	  DOCTOR_UNKNOWN,
	  "machine",
	  "of none of 1 PCIe links",
	  { { "", "tributary-topology 1\nvertex cpu cpu0 numa=0\nvertex nic nic:eth0 interface=eth0 port=1\nlink pci "
		  "nic:eth0 cpu0\n" } },
	  { { 0 } },
	  "*" },
	{ "link-speed",
	  DOCTOR_WARNING,
	  "nic:mlx5_1",
	  "generation 3 of 4",
	  { { "link pci nic:mlx5_1 switch:0000:81:00.0 generation=4",
	      "link pci nic:mlx5_1 switch:0000:81:00.0 generation=3" } },
	  { { 0 } },
	  NULL },
	{ "link-speed",
	  DOCTOR_WARNING,
	  "switch:0000:21:00.0",
	  "generation 4 of 5",
	  { { "generation=5", "generation=4" } },
	  { { 0 } },
	  NULL },
	{ "link-speed",
	  DOCTOR_WARNING,
	  "gpu0",
	  "generation 3 of 4",
	  { { "link pci gpu0 switch:0000:21:00.0 generation=4", "link pci gpu0 switch:0000:21:00.0 generation=3" },
	    { "rate gpu0>switch:0000:21:00.0 23000000000", "rate gpu0>switch:0000:21:00.0 11500000000" },
	    { "rate switch:0000:21:00.0>gpu0 23000000000", "rate switch:0000:21:00.0>gpu0 11500000000" } },
	  { { 0 } },
	  "measured-low" },
	{ "unlike-links",
	  DOCTOR_NOTE,
	  "gpu3",
	  "(Gen4 x4) carries 6.00 GB/s, 26 % of the 23.0 GB/s of other GPUs, and sets the pace of every ring",
	  { { "link pci gpu3 switch:0000:81:00.0 generation=4 lanes=16 most_generation=4 most_lanes=16 port=0000:82:01.0 "
	      "nominal_Bps=24000000000",
	      "link pci gpu3 switch:0000:81:00.0 generation=4 lanes=4 most_generation=4 most_lanes=4 port=0000:82:01.0 "
	      "nominal_Bps=6000000000" },
	    { "rate gpu3>switch:0000:81:00.0 23000000000 measured\n", "" },
	    { "rate switch:0000:81:00.0>gpu3 23000000000 measured\n", "" } },
	  { { 0 } },
	  NULL },
	{ "measured-low",
	  DOCTOR_WARNING,
	  "gpu0>switch:0000:21:00.0",
	  "no known cause",
	  { { "rate gpu0>switch:0000:21:00.0 23000000000", "rate gpu0>switch:0000:21:00.0 11500000000" } },
	  { { 0 } },
	  NULL },
	{ "measured-low",
	  DOCTOR_NOTE,
	  "gpu0>switch:0000:21:00.0",
	  "see iommu",
	  { { "rate gpu0>switch:0000:21:00.0 23000000000", "rate gpu0>switch:0000:21:00.0 11500000000" } },
	  { { "state=identity translated=0", "state=translated translated=6" } },
	  "iommu" },
	{ "gpu-nic-distance",
	  DOCTOR_WARNING,
	  "gpu2",
	  "nic:mlx5_0, is on another socket (SYS)",
	  { { "link pci nic:mlx5_1 switch:0000:81:00.0 generation",
	      "link pci nic:mlx5_1 switch:0000:21:00.0 generation" } },
	  { { 0 } },
	  "asymmetric" },
	{ "shared-uplink",
	  DOCTOR_WARNING,
	  "switch:0000:21:00.0",
	  "2 NICs with 25.0 GB/s together behind an uplink of 20.0 GB/s",
	  { { "link pci nic:mlx5_1 switch:0000:81:00.0 generation",
	      "link pci nic:mlx5_1 switch:0000:21:00.0 generation" },
	    { "rate switch:0000:21:00.0>bridge:0000:20 44000000000",
	      "rate switch:0000:21:00.0>bridge:0000:20 20000000000" } },
	  { { 0 } },
	  "*" },
	{ "oversubscribed-uplink",
	  DOCTOR_NOTE,
	  "switch:0000:81:00.0",
	  "2 GPUs with 46.0 GB/s together over an uplink of 22.0 GB/s: 2.1 to 1",
	  { { "rate switch:0000:81:00.0>bridge:0000:80 44000000000",
	      "rate switch:0000:81:00.0>bridge:0000:80 22000000000" } },
	  { { 0 } },
	  "measured-low" },
	{ "oversubscribed-uplink",
	  DOCTOR_WARNING,
	  "switch:0000:81:00.0",
	  "4.6 to 1",
	  { { "rate switch:0000:81:00.0>bridge:0000:80 44000000000",
	      "rate switch:0000:81:00.0>bridge:0000:80 10000000000" } },
	  { { 0 } },
	  "*" },
	{ "asymmetric",
	  DOCTOR_WARNING,
	  "cpu1",
	  "1 GPU, cpu0 has 3",
	  { { "link pci gpu3 switch:0000:81:00.0 generation", "link pci gpu3 switch:0000:21:00.0 generation" },
	    { "rate gpu3>switch:0000:81:00.0 ", "rate gpu3>switch:0000:21:00.0 " },
	    { "rate switch:0000:81:00.0>gpu3 ", "rate switch:0000:21:00.0>gpu3 " } },
	  { { 0 } },
	  "oversubscribed-uplink" },
	{ "acs",
	  DOCTOR_WARNING,
	  "0000:22:00.0",
	  "a port of switch:0000:21:00.0 redirects requests and completions to the root: so for P2P of gpu0 and gpu1",
	  { { 0 } },
	  { { "ReqRedir=0 CmpltRedir=0", "ReqRedir=1 CmpltRedir=1" } },
	  NULL },
	{ "acs",
	  DOCTOR_WARNING,
	  "0000:22:00.0",
	  "redirects completions to the root, and the IOMMU translates them: P2P of gpu0 and gpu1 is slow or hangs",
	  { { 0 } },
	  { { "CmpltRedir=0", "CmpltRedir=1" }, { "state=identity translated=0", "state=translated translated=6" } },
	  "iommu" },
	{ "acs",
	  DOCTOR_WARNING,
	  "0000:20:01.0",
	  "a root port redirects requests to the root, and the IOMMU translates them: P2P of gpu",
	  { ROOT_PORT },
	  { ROOT_ACS("state=known ReqRedir=1 CmpltRedir=0"),
	    { "state=identity translated=0", "state=translated translated=6" } },
	  "iommu" },
	{ "iommu",
	  DOCTOR_WARNING,
	  "machine",
	  "translates for 6 devices, and 1 ports send P2P through it (see acs)",
	  { ROOT_PORT },
	  { ROOT_ACS("state=known ReqRedir=1 CmpltRedir=1"),
	    { "state=identity translated=0", "state=translated translated=6" } },
	  "acs" },
	{ "acs",
	  DOCTOR_UNKNOWN,
	  "machine",
	  "ACS of 1 ports between GPUs, or a GPU and a NIC, cannot be read",
	  { ROOT_PORT },
	  { ROOT_ACS("state=unknown"), { "state=identity translated=0", "state=translated translated=6" } },
	  "iommu" },
	{ "acs",
	  DOCTOR_UNKNOWN,
	  "0000:20:01.0",
	  "if the IOMMU translates, which is not known",
	  { ROOT_PORT },
	  { ROOT_ACS("state=known ReqRedir=1 CmpltRedir=1"), { "state=identity", "state=unknown" } },
	  "iommu" },
	{ "acs",
	  DOCTOR_UNKNOWN,
	  "machine",
	  "ACS of 1 ports between GPUs, or a GPU and a NIC, cannot be read",
	  { { 0 } },
	  { { "state=known SrcValid=1 TransBlk=0 ReqRedir=0 CmpltRedir=0 UpstreamFwd=0 EgressCtrl=0 DirectTrans=0",
	      "state=unknown" } },
	  NULL },
	{ "iommu",
	  DOCTOR_WARNING,
	  "machine",
	  "translates for 6 devices",
	  { { 0 } },
	  { { "state=identity translated=0", "state=translated translated=6" } },
	  NULL },
	{ "iommu",
	  DOCTOR_WARNING,
	  "machine",
	  "translates for 2 devices",
	  { { 0 } },
	  { { "state=identity translated=0", "state=mixed translated=2" } },
	  NULL },
	{ "p2p-refused",
	  DOCTOR_WARNING,
	  "gpu0>gpu1",
	  "P2P is refused in 1 pairs of class PIX: the chipset does not support it",
	  { { "pair gpu0 gpu1 p2p_works=1 p2p_Bps=22000000000 p2p_provenance=measured",
	      "pair gpu0 gpu1 p2p_works=0" } },
	  { { "p2p gpu0 gpu1 status=works", "p2p gpu0 gpu1 status=chipset" } },
	  NULL },
	{ "p2p-slow",
	  DOCTOR_WARNING,
	  "gpu2>gpu3",
	  "P2P 8.00 GB/s, through host memory 11.0 GB/s; so in 1 of 2 pairs",
	  { { "pair gpu2 gpu3 p2p_works=1 p2p_Bps=22000000000", "pair gpu2 gpu3 p2p_works=1 p2p_Bps=8000000000" } },
	  { { 0 } },
	  NULL },
	{ "p2p-slow",
	  DOCTOR_NOTE,
	  "gpu0>gpu2",
	  "P2P 15.0 GB/s, through host memory 11.0 GB/s, which NCCL takes (class SYS); so in 8 pairs",
	  { { "pair gpu0 gpu1", ALL_ACROSS("15000000000") "pair gpu0 gpu1" } },
	  { { 0 } },
	  NULL },
	{ "bar1",
	  DOCTOR_WARNING,
	  "gpu0",
	  "BAR1 is 256 MiB for 24576 MiB of memory",
	  { { "bar1_bytes=34359738368", "bar1_bytes=268435456" } },
	  { { 0 } },
	  NULL },
	{ "hidden-gpu",
	  DOCTOR_WARNING,
	  "0000:86:00.0",
	  "the driver does not show it",
	  { { 0 } },
	  { { "governor", "hidden-gpu 0000:86:00.0\ngovernor" } },
	  NULL },
	{ "hidden-gpu",
	  DOCTOR_WARNING,
	  "0000:86:00.0",
	  "in MIG mode without a slice",
	  { { 0 } },
	  { { "governor", "hidden-gpu 0000:86:00.0 reason=no-slices\ngovernor" } },
	  NULL },
	{ "nic-speed",
	  DOCTOR_WARNING,
	  "mlx5_0f0",
	  "25 Gbit/s of 100 Gbit/s",
	  { { 0 } },
	  { { "speed_Mbps=100000 most_Mbps=100000", "speed_Mbps=25000 most_Mbps=100000" } },
	  NULL },
	{ "mtu",
	  DOCTOR_WARNING,
	  "mlx5_1f0",
	  "MTU 9000, mlx5_0f0 of the same speed has 4200",
	  { { 0 } },
	  { { "nic=nic:mlx5_0 mtu=9000", "nic=nic:mlx5_0 mtu=4200" } },
	  NULL },
	{ "mtu",
	  DOCTOR_NOTE,
	  "mlx5_0f0",
	  "MTU 1500 at 100 Gbit/s",
	  { { 0 } },
	  { { "nic=nic:mlx5_0 mtu=9000", "nic=nic:mlx5_0 mtu=1500" },
	    { "nic=nic:mlx5_1 mtu=9000", "nic=nic:mlx5_1 mtu=1500" } },
	  NULL },
	{ "tcp-buffers",
	  DOCTOR_NOTE,
	  "net.ipv4.tcp_rmem",
	  "at most 6 MiB",
	  { { 0 } },
	  { { "131072,16777216", "131072,6291456" } },
	  NULL },
	{ "tcp-buffers",
	  DOCTOR_WARNING,
	  "net.ipv4.tcp_wmem",
	  "at most 208 KiB",
	  { { 0 } },
	  { { "16384,16777216", "16384,212992" } },
	  NULL },
	{ "rto-min",
	  DOCTOR_NOTE,
	  "net.ipv4.tcp_rto_min_us",
	  "200 ms",
	  { { 0 } },
	  { { "value=5000", "value=200000" } },
	  NULL },
	{ "rto-min",
	  DOCTOR_NOTE,
	  "net.ipv4.tcp_rto_min_us",
	  "no such setting",
	  { { 0 } },
	  { { "value=5000", "value=unknown" } },
	  NULL },
	{ "roce",
	  DOCTOR_WARNING,
	  "nic:mlx5_1",
	  "neither PFC (00000000) nor ECN (00000000, 00010000)",
	  { { 0 } },
	  { { "ecn_notify=00010000", "ecn_notify=00000000" } },
	  NULL },
	{ "roce",
	  DOCTOR_UNKNOWN,
	  "nic:mlx5_0",
	  "the driver shows neither PFC nor ECN",
	  { { 0 } },
	  { { "pfc=00010000", "pfc=unknown" } },
	  "roce-trust" },
	{ "roce-gid",
	  DOCTOR_WARNING,
	  "nic:mlx5_1",
	  "2 addresses of RoCE v1, none of v2",
	  { { 0 } },
	  { { "gids nic:mlx5_1 v1=2 v2=2 ipv4=3", "gids nic:mlx5_1 v1=2 v2=0 ipv4=none" } },
	  NULL },
	{ "roce-gid",
	  DOCTOR_WARNING,
	  "nic:mlx5_0",
	  "2 addresses of RoCE v2, none of them made of an IPv4 address",
	  { { 0 } },
	  { { "gids nic:mlx5_0 v1=2 v2=2 ipv4=3", "gids nic:mlx5_0 v1=2 v2=2 ipv4=none" } },
	  NULL },
	{ "roce-gid",
	  DOCTOR_UNKNOWN,
	  "nic:mlx5_0",
	  "not known",
	  { { 0 } },
	  { { "gids nic:mlx5_0 v1=2 v2=2 ipv4=3\n", "" } },
	  NULL },
	{ "roce-packet",
	  DOCTOR_NOTE,
	  "nic:mlx5_1",
	  "packets of 1024 bytes; 4096 need an MTU of 4192, the interface has 9000",
	  { { 0 } },
	  { { "nic:mlx5_1 device=mlx5_1 port=1 soft=0 state=ACTIVE link_layer=Ethernet packet_bytes=4096",
	      "nic:mlx5_1 device=mlx5_1 port=1 soft=0 state=ACTIVE link_layer=Ethernet packet_bytes=1024" } },
	  NULL },
	{ "roce-packet", /* reckoned from the MTU */
	  DOCTOR_NOTE,
	  "nic:mlx5_0",
	  "packets of 1024 bytes; 4096 need an MTU of 4192, the interface has 1500",
	  { { 0 } },
	  { { "packet_bytes=4096", "packet_bytes=unknown" }, { "nic=nic:mlx5_0 mtu=9000", "nic=nic:mlx5_0 mtu=1500" } },
	  "mtu" },
	{ "roce-trust",
	  DOCTOR_WARNING,
	  "nic:mlx5_0",
	  "PFC is on (00010000), but the port trusts pcp",
	  { { 0 } },
	  { { "trust=dscp", "trust=pcp" } },
	  NULL },
	{ "roce-trust",
	  DOCTOR_WARNING,
	  "nic:mlx5_0",
	  "no DSCP leads to such a priority (10:1,26:4)",
	  { { 0 } },
	  { { "26:3", "26:4" } },
	  NULL },
	{ "roce-trust",
	  DOCTOR_UNKNOWN,
	  "nic:mlx5_0",
	  "does not show what it trusts",
	  { { 0 } },
	  { { "trust=dscp", "trust=unknown" } },
	  NULL },
	{ "relaxed-ordering",
	  DOCTOR_NOTE,
	  "nic:mlx5_1",
	  "may not use relaxed ordering",
	  { { 0 } },
	  { { "name=nic:mlx5_1 driver=mlx5_core relaxed_ordering=1",
	      "name=nic:mlx5_1 driver=mlx5_core relaxed_ordering=0" } },
	  NULL },
	{ "relaxed-ordering",
	  DOCTOR_UNKNOWN,
	  "machine",
	  "the settings of 1 RDMA devices cannot be read",
	  { { 0 } },
	  { { "relaxed_ordering=1", "relaxed_ordering=unknown" } },
	  NULL },
	{ "gpudirect",
	  DOCTOR_WARNING,
	  "machine",
	  "neither DMA-BUF (open kernel modules) nor nvidia_peermem",
	  { { 0 } },
	  { { "dmabuf=1", "dmabuf=0" } },
	  NULL },
	{ "rdma-limits",
	  DOCTOR_WARNING,
	  "nic:mlx5_0",
	  "at most 256 queue pairs",
	  { { 0 } },
	  { { "max_qp=131072", "max_qp=256" } },
	  NULL },
	{ "rdma-limits",
	  DOCTOR_NOTE,
	  "nic:mlx5_0",
	  "at most 4096 memory regions",
	  { { 0 } },
	  { { "max_mr=16777216", "max_mr=4096" } },
	  NULL },
	{ "memlock",
	  DOCTOR_WARNING,
	  "machine",
	  "at most 8192 KiB",
	  { { 0 } },
	  { { "soft=unlimited", "soft=8388608" } },
	  NULL },
	{ "numa-balancing",
	  DOCTOR_WARNING,
	  "kernel.numa_balancing",
	  "is 1",
	  { { 0 } },
	  { { "kernel.numa_balancing value=0", "kernel.numa_balancing value=1" } },
	  NULL },
	{ "governor",
	  DOCTOR_NOTE,
	  "powersave",
	  "64 groups",
	  { { 0 } },
	  { { "governor performance", "governor powersave" } },
	  NULL },
	{ "plans",
	  DOCTOR_WARNING,
	  "NCCL_GRAPH_FILE",
	  "its channels are used; unset it",
	  { { 0 } },
	  { { "obstacle none\n",
	      "obstacle none\nobstacle NCCL_GRAPH_FILE warning its channels are used; unset it\n" } },
	  NULL },
	{ "plans",
	  DOCTOR_NOTE,
	  "profile",
	  "there is none",
	  { { 0 } },
	  { { "obstacle none\n", "obstacle none\nobstacle profile note there is none\n" } },
	  NULL },
};

enum { FIXTURE_COUNT = sizeof(fixtures) / sizeof(fixtures[0]) };

#endif
