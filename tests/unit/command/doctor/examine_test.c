/*
 * A sound machine, of which every check has only good to say; and for each check something broken in it, which that
 * check finds and no other.
 */
#include "command/doctor/doctor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	enum doctor_verdict verdict;
	const char *subject, *evidence; /* a part of it */
	struct change machine[3], facts[2];
	const char *also; /* a check that rightly sees it, too */
};

static const struct fixture fixtures[] = {
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
	  "a port of switch:0000:21:00.0 redirects requests completions to the root",
	  { { 0 } },
	  { { "ReqRedir=0 CmpltRedir=0", "ReqRedir=1 CmpltRedir=1" } },
	  NULL },
	{ "acs",
	  DOCTOR_UNKNOWN,
	  "machine",
	  "ACS of 1 switch ports cannot be read",
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
	  "P2P 8.0 GB/s, through host memory 11.0 GB/s; so in 1 of 2 pairs",
	  { { "pair gpu2 gpu3 p2p_works=1 p2p_Bps=22000000000", "pair gpu2 gpu3 p2p_works=1 p2p_Bps=8000000000" } },
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
	{ "nic-speed",
	  DOCTOR_WARNING,
	  "mlx5_0f0",
	  "25 of 100 Gbit/s",
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
	  "at most 6144 KiB",
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
};

enum { FIXTURE_COUNT = sizeof(fixtures) / sizeof(fixtures[0]) };

/*
 * A copy with the changes; a change from "" replaces all. A change whose text is not there is a mistake of the
 * fixture.
 */
static char *changed(const char *text, const struct change *changes, size_t count)
{
	char *now = strdup(text), *next;

	assert_non_null(now);
	for (size_t i = 0; i < count && changes[i].from; i++) {
		const char *at = strstr(now, changes[i].from);
		size_t rest = strlen(changes[i].from);

		if (!at)
			fail_msg("\"%s\" is not there", changes[i].from);
		if (!rest)
			rest = strlen(now);
		assert_return_code(asprintf(&next, "%.*s%s%s", (int)(at - now), now, changes[i].to, at + rest), 0);
		free(now);
		now = next;
	}
	return now;
}

static void examine(const char *machine, const char *facts_text, struct doctor_report *ret)
{
	struct discover_facts facts = { 0 };
	struct topology topology;
	struct diag diag = { 0 };

	if (topology_read(machine, strlen(machine), &topology, &diag) < 0)
		fail_msg("line %d: %s", diag.line, diag.text);
	facts.text = strdup(facts_text);
	facts.bytes = strlen(facts_text);
	assert_int_equal(doctor_examine(&topology, &facts, ret), 0);
	free(facts.text);
	topology_fini(&topology);
}

static const struct doctor_finding *find(const struct doctor_report *report, const struct fixture *fixture)
{
	for (size_t i = 0; i < report->count; i++) {
		const struct doctor_finding *at = &report->at[i];

		if (!strcmp(at->check->word, fixture->check) && at->verdict == fixture->verdict &&
		    !strcmp(at->subject, fixture->subject) && strstr(at->evidence, fixture->evidence))
			return at;
	}
	return NULL;
}

static void print(const struct doctor_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		if (report->at[i].verdict > DOCTOR_GOOD)
			print_message("%s %s %s %s\n", report->at[i].check->word,
				      doctor_verdict_word(report->at[i].verdict), report->at[i].subject,
				      report->at[i].evidence);
	}
}

static void sound_machine_is_good_in_every_check(void **state)
{
	struct doctor_report report;
	size_t checks = 0;

	(void)state;
	examine(sound_machine, sound_facts, &report);
	for (const struct doctor_check *check = doctor_checks; check->word; check++)
		checks++;
	print(&report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	assert_int_equal(report.count, checks);
	doctor_report_fini(&report);
}

static void each_fault_is_found_by_its_check_and_by_no_other(void **state)
{
	(void)state;
	for (size_t i = 0; i < FIXTURE_COUNT; i++) {
		const struct fixture *fixture = &fixtures[i];
		char *machine = changed(sound_machine, fixture->machine, 3),
		     *facts = changed(sound_facts, fixture->facts, 2);
		struct doctor_report report;

		examine(machine, facts, &report);
		if (!find(&report, fixture)) {
			print(&report);
			fail_msg("fixture %zu: no %s %s: %s", i, fixture->check, fixture->subject, fixture->evidence);
		}
		for (size_t j = 0; j < report.count; j++) {
			const char *word = report.at[j].check->word;
			bool meant = !strcmp(word, fixture->check) ||
				     (fixture->also && (!strcmp(fixture->also, "*") || !strcmp(word, fixture->also)));

			if (report.at[j].verdict > DOCTOR_GOOD && !meant)
				fail_msg("fixture %zu, of %s: %s says %s", i, fixture->check, word,
					 report.at[j].evidence);
		}
		doctor_report_fini(&report);
		free(machine);
		free(facts);
	}
}

static void every_check_has_a_fault_that_it_finds(void **state)
{
	(void)state;
	for (const struct doctor_check *check = doctor_checks; check->word; check++) {
		bool found = false;

		for (size_t i = 0; i < FIXTURE_COUNT; i++)
			found |= !strcmp(fixtures[i].check, check->word) && fixtures[i].verdict >= DOCTOR_NOTE;
		if (!found)
			fail_msg("no fixture for %s", check->word);
	}
}

static void a_device_made_of_software_has_no_ordering_on_pcie(void **state)
{
	struct change changes[] = { { "relaxed_ordering=1", "relaxed_ordering=0" }, { "soft=0", "soft=1" } };
	char *facts = changed(sound_facts, changes, 2);
	struct doctor_report report;

	(void)state;
	examine(sound_machine, facts, &report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	doctor_report_fini(&report);
	free(facts);
}

static void idle_gpu_link_is_no_fault_once_it_was_measured(void **state)
{
	struct change change = { "link pci gpu0 switch:0000:21:00.0 generation=4",
				 "link pci gpu0 switch:0000:21:00.0 generation=1" };
	char *machine = changed(sound_machine, &change, 1);
	struct doctor_report report;

	(void)state;
	examine(machine, sound_facts, &report);
	assert_int_equal(doctor_worst(&report), DOCTOR_GOOD);
	doctor_report_fini(&report);
	free(machine);
}

static void empty_machine_without_facts_crashes_nothing(void **state)
{
	struct doctor_report report;

	(void)state;
	examine("tributary-topology 1\n", "", &report);
	assert_in_range(doctor_worst(&report), DOCTOR_GOOD, DOCTOR_UNKNOWN);
	doctor_report_fini(&report);
}

static void check_of_what_is_not_there_is_skipped_and_not_good(void **state)
{
	static const char *const about_gpus[] = {
		"gpu-nic-distance", "acs", "iommu", "p2p-refused", "p2p-slow", "bar1"
	};
	struct doctor_report report;
	size_t found = 0;

	(void)state;
	examine("tributary-topology 1\nvertex nic eth0\n", "", &report);
	for (size_t i = 0; i < report.count; i++) {
		for (size_t j = 0; j < sizeof(about_gpus) / sizeof(about_gpus[0]); j++) {
			if (strcmp(report.at[i].check->word, about_gpus[j]) != 0)
				continue;
			assert_int_equal(report.at[i].verdict, DOCTOR_SKIPPED);
			assert_string_equal(report.at[i].evidence, "there is no GPU");
			found++;
		}
	}
	assert_int_equal(found, sizeof(about_gpus) / sizeof(about_gpus[0]));
	doctor_report_fini(&report);
}

static void facts_with_control_characters_do_not_reach_the_terminal(void **state)
{
	struct doctor_report report;

	(void)state;
	examine(sound_machine, "governor \033[2Jx policies=3\n", &report);
	for (size_t i = 0; i < report.count; i++) {
		assert_null(strchr(report.at[i].subject, '\033'));
		assert_null(strchr(report.at[i].evidence, '\033'));
		assert_null(strchr(report.at[i].subject, ' '));
	}
	doctor_report_fini(&report);
}

/* Lines of a document are broken where they are full. */
static void join_lines(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		bool heading = at[0] == '\n' && (at[1] == '#' || at[1] == '\n' || to == text || to[-1] == '\n');

		*to++ = *at == '\n' && !heading ? ' ' : *at;
	}
	*to = '\0';
}

/* A check that nobody can look up is of little help. */
static void every_check_is_documented_with_its_remedy(void **state)
{
	const char *source = getenv("TRIBUTARY_SOURCE");
	char path[512], heading[128], *text = calloc(1, 1 << 17);
	FILE *file;

	(void)state;
	assert_non_null(text);
	if (!source) {
		free(text);
		print_message("skipped: TRIBUTARY_SOURCE is not set\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/docs/doctor.md", source);
	file = fopen(path, "re");
	assert_non_null(file);
	assert_in_range(fread(text, 1, (1 << 17) - 1, file), 1, (1 << 17) - 2);
	fclose(file);
	join_lines(text);
	for (const struct doctor_check *check = doctor_checks; check->word; check++) {
		snprintf(heading, sizeof(heading), "\n## %s\n", check->word);
		if (!strstr(text, heading))
			fail_msg("docs/doctor.md has no section %s", check->word);
		if (!strstr(text, check->remedy) || !strstr(text, check->cost))
			fail_msg(
				"docs/doctor.md does not have the cost and the remedy of %s as the command prints them",
				check->word);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound_machine_is_good_in_every_check),
		cmocka_unit_test(each_fault_is_found_by_its_check_and_by_no_other),
		cmocka_unit_test(every_check_has_a_fault_that_it_finds),
		cmocka_unit_test(a_device_made_of_software_has_no_ordering_on_pcie),
		cmocka_unit_test(idle_gpu_link_is_no_fault_once_it_was_measured),
		cmocka_unit_test(empty_machine_without_facts_crashes_nothing),
		cmocka_unit_test(check_of_what_is_not_there_is_skipped_and_not_good),
		cmocka_unit_test(facts_with_control_characters_do_not_reach_the_terminal),
		cmocka_unit_test(every_check_is_documented_with_its_remedy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
