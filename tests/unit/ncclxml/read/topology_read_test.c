/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/tree.h"
#include "unit/ncclxml/machine.h"

#define GBPS(x) ((uint64_t)((x)*1000) * 1000000ULL)

static const struct topology_link *link_between(const struct topology *topology, const char *a, const char *b)
{
	uint32_t link = topology_find_link(topology, topology_find(topology, a), topology_find(topology, b));

	if (link == TOPOLOGY_NONE)
		fail_msg("no link between %s and %s", a, b);
	return &topology->links[link];
}

static void refuse(const char *text, int line, const char *part)
{
	struct diag diag = { .text = "" };
	struct topology topology;

	assert_int_equal(topology_xml_read(text, strlen(text), &topology, &diag), -EINVAL);
	if (!strstr(diag.text, part))
		fail_msg("\"%s\" does not say \"%s\"", diag.text, part);
	assert_int_equal(diag.line, line);
	assert_int_equal(topology.vertex_count, 0);
}

static void the_tree_is_that_of_the_file(void **state)
{
	const struct topology_vertex *vertex;
	struct topology topology;

	(void)state;
	machine_read(machine_text, &topology);
	assert_int_equal(topology.vertex_count, 2 * (2 + 1 + 2 + 2));
	vertex = &topology.vertices[topology_find(&topology, "gpu3")];
	assert_string_equal(vertex->bus_id, "0000:83:00.0");
	assert_int_equal(vertex->gpu.index, 3);
	assert_int_equal(vertex->gpu.sm, 86);
	assert_int_equal(vertex->pci.class_code, 0x030200);
	assert_true(vertex->gpu.gdr);
	vertex = &topology.vertices[topology_find(&topology, "nic:eth1")];
	assert_int_equal(vertex->nic.guid, 0x84);
	assert_int_equal(vertex->nic.port, 1);
	assert_int_equal(vertex->nic.speed_Bps, GBPS(12.5));
	assert_int_equal(vertex->nic.max_connections, 64);
	vertex = &topology.vertices[topology_find(&topology, "cpu1")];
	assert_int_equal(vertex->cpu.numa, 1);
	assert_string_equal(vertex->cpu.vendor, "AuthenticAMD");
	assert_string_equal(vertex->cpu.affinity, "ffff0000");
	assert_int_equal(vertex->cpu.family, 25);
	assert_int_equal(link_between(&topology, "gpu3", "switch:0000:81:00.0")->nominal_Bps, GBPS(24));
	assert_int_equal(link_between(&topology, "gpu3", "switch:0000:81:00.0")->pci.lanes, 16);
	assert_int_equal(link_between(&topology, "nic:eth1", "net:0x84/1")->nominal_Bps, GBPS(12.5));
	assert_int_equal(link_between(&topology, "cpu1", "memory1")->kind, TOPOLOGY_LINK_MEMORY);
	assert_int_equal(topology_class_of(&topology, 0, 1) == TOPOLOGY_CLASS_DIS, 0);
	assert_int_equal(
		topology_class_of(&topology, topology_find(&topology, "gpu2"), topology_find(&topology, "gpu3")),
		TOPOLOGY_CLASS_PIX);
	assert_int_equal(
		topology_class_of(&topology, topology_find(&topology, "gpu1"), topology_find(&topology, "gpu3")),
		TOPOLOGY_CLASS_SYS);
	topology_fini(&topology);
}

static void sockets_carry_nccls_constant_of_the_sender(void **state)
{
	static const char text[] =
		"<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\"/>"
		"<cpu numaid=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"/>"
		"<cpu numaid=\"2\" arch=\"other\"/></system>";
	const struct topology_link *link;
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	link = link_between(&topology, "cpu0", "cpu1");
	assert_int_equal(link->kind, TOPOLOGY_LINK_SOCKET);
	assert_int_equal(link->capacity[TOPOLOGY_UP].rate_Bps, GBPS(16));
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].rate_Bps, GBPS(22));
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].provenance, TOPOLOGY_ASSUMED);
	link = link_between(&topology, "cpu1", "cpu2");
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].provenance, TOPOLOGY_UNKNOWN);
	topology_fini(&topology);
}

static const struct topology_cpu *cpu_of(const struct topology *topology, const char *name)
{
	return &topology->vertices[topology_find(topology, name)].cpu;
}

/* NCCL asks the machine, whose CPUs are alike. */
static void what_a_cpu_lacks_is_what_the_others_have(void **state)
{
	static const char text[] =
		"<system version=\"1\"><cpu numaid=\"0\"/>"
		"<cpu numaid=\"1\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\"/>"
		"<cpu numaid=\"2\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\"/>"
		"<cpu numaid=\"3\" arch=\"arm64\"/></system>";
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const names[] = { "cpu0", "cpu1", "cpu2" };

		assert_string_equal(cpu_of(&topology, names[i])->architecture, "x86_64");
		assert_string_equal(cpu_of(&topology, names[i])->vendor, "GenuineIntel");
		assert_int_equal(cpu_of(&topology, names[i])->family, 6);
		assert_int_equal(cpu_of(&topology, names[i])->model, 143);
	}
	assert_string_equal(cpu_of(&topology, "cpu3")->vendor, "");
	assert_int_equal(link_between(&topology, "cpu0", "cpu1")->capacity[TOPOLOGY_UP].rate_Bps, GBPS(22));
	topology_fini(&topology);
	machine_read("<system version=\"1\"><cpu numaid=\"0\" vendor=\"GenuineIntel\"/>"
		     "<cpu numaid=\"1\" familyid=\"6\" modelid=\"143\"/></system>", &topology);
	assert_int_equal(cpu_of(&topology, "cpu0")->model, 143);
	topology_fini(&topology);
	machine_read("<system version=\"1\"><cpu numaid=\"0\"/><cpu numaid=\"1\"/></system>", &topology);
	assert_string_equal(cpu_of(&topology, "cpu1")->architecture, "");
	topology_fini(&topology);
}

static void rates_are_those_that_nccl_computes(void **state)
{
	static const struct {
		const char *attributes;
		double GBps;
		unsigned generation, lanes;
		enum topology_provenance provenance;
	} cases[] = {
		{ "link_speed=\"\" link_width=\"0\"", 12, 0, 0, TOPOLOGY_ASSUMED },
		{ "link_speed=\"\" link_width=\"4\"", 3, 0, 4, TOPOLOGY_ASSUMED },
		{ "link_speed=\"8 GT/s\" link_width=\"0\"", 12, 3, 0, TOPOLOGY_ASSUMED },
		{ "link_speed=\"16.0 GT/s\" link_width=\"16\"", 12, 0, 16, TOPOLOGY_ASSUMED },
		{ "link_speed=\"16 GT/s\" link_width=\"8\"", 12, 4, 8, TOPOLOGY_NOMINAL },
		{ "link_speed=\"2.5 GT/s PCIe\" link_width=\"120\"", 22.5, 1, 0, TOPOLOGY_NOMINAL },
		{ "link_speed=\"64.0 GT/s PCIe\" link_width=\"16\"", 96, 6, 16, TOPOLOGY_NOMINAL },
		{ "link_speed=\"16 GT/s\"", 0, 0, 0, TOPOLOGY_UNKNOWN },
		{ "link_width=\"16\"", 0, 0, 0, TOPOLOGY_UNKNOWN },
		{ "", 0, 0, 0, TOPOLOGY_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct topology_link *link;
		struct topology topology;
		char text[256];

		snprintf(text, sizeof(text),
			 "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" "
			 "class=\"0x030000\" %s/></cpu></system>",
			 cases[i].attributes);
		machine_read(text, &topology);
		link = link_between(&topology, "gpu:0000:01:00.0", "cpu0");
		assert_int_equal(link->capacity[0].rate_Bps, GBPS(cases[i].GBps));
		assert_int_equal(link->capacity[1].provenance, cases[i].provenance);
		assert_int_equal(link->nominal_Bps, link->capacity[0].rate_Bps);
		assert_int_equal(link->pci.generation, cases[i].generation);
		assert_int_equal(link->pci.lanes, cases[i].lanes);
		topology_fini(&topology);
	}
}

static void devices_without_gpu_or_net_are_told_by_their_class(void **state)
{
	static const char text[] = "<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/>"
				   "<pci busid=\"0001:00:00.0\" class=\"0x030200\"/>"
				   "<pci busid=\"0002:00:00.0\" class=\"0x020700\"/>"
				   "<pci busid=\"0003:00:00.0\" class=\"0x068000\"/>"
				   "<pci busid=\"00000000:0A:00.0\" class=\"0x060400\"/></cpu></system>";
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	assert_int_not_equal(topology_find(&topology, "switch:0000:00:16.0"), TOPOLOGY_NONE);
	assert_int_not_equal(topology_find(&topology, "gpu:0001:00:00.0"), TOPOLOGY_NONE);
	assert_int_equal(topology.vertices[topology_find(&topology, "gpu:0001:00:00.0")].gpu.index, -1);
	assert_int_not_equal(topology_find(&topology, "nic:0002:00:00.0"), TOPOLOGY_NONE);
	assert_int_not_equal(topology_find(&topology, "switch:0000:0a:00.0"), TOPOLOGY_NONE);
	assert_int_equal(topology.vertex_count, 2 + 4 + 1);
	topology_fini(&topology);
}

static void ports_of_a_card_share_its_slot_and_nics_of_one_guid_and_port_a_wire(void **state)
{
	static const char text[] =
		"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x020000\" "
		"link_speed=\"8 GT/s\" link_width=\"16\"><nic><net name=\"a\" speed=\"100000\" port=\"1\" "
		"guid=\"0x5\"/><net name=\"b\" speed=\"-1\" port=\"2\" guid=\"0x5\"/></nic></pci><nic><net "
		"name=\"c\" speed=\"40000\" port=\"1\" guid=\"0x5\"/><net name=\"d\" "
		"guid=\"0x0\"/></nic></cpu></system>";
	const struct topology_limit *limit;
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	limit = &topology.limits[topology_find_limit(&topology, "0000:01:00.0.slot.up")];
	assert_int_equal(limit->member_count, 2);
	assert_int_equal(limit->capacity.rate_Bps, GBPS(12));
	limit = &topology.limits[topology_find_limit(&topology, "net:0x5/1.down")];
	assert_int_equal(limit->member_count, 2);
	assert_int_equal(limit->capacity.rate_Bps, GBPS(12.5));
	assert_int_equal(topology.limit_count, 4);
	assert_int_equal(link_between(&topology, "nic:b", "net:0x5/2")->nominal_Bps, GBPS(1.25));
	assert_int_equal(link_between(&topology, "nic:c", "cpu0")->kind, TOPOLOGY_LINK_INTERNAL);
	assert_int_equal(link_between(&topology, "nic:d", "net:d")->nominal_Bps, 0);
	topology_fini(&topology);
}

#define GPU_WITH(bus, dev, inside) \
	"<pci busid=\"0000:" bus ":00.0\" class=\"0x030200\"><gpu dev=\"" dev "\" sm=\"90\">" inside "</gpu></pci>"

static void nvlinks_join_gpus_the_switch_and_the_cpu(void **state)
{
	static const char text[] = "<system version=\"1\"><cpu numaid=\"0\">" GPU_WITH(
		"01", "0",
		"<nvlink target=\"0000:02:00.0\" count=\"4\" tclass=\"0x030200\"/>"
		"<nvlink target=\"0000:f1:00.0\" count=\"5\" tclass=\"0x068000\"/>"
		"<nvlink target=\"fffffff:ffff:ff\" count=\"3\" tclass=\"0x068000\"/>"
		"<nvlink target=\"0000:01:00.0\" count=\"9\" tclass=\"0x030200\"/>"
		"<nvlink target=\"0000:99:00.0\" count=\"9\" tclass=\"0x030200\"/>")
		GPU_WITH("02", "1",
			 "<nvlink target=\"0000:01:00.0\" count=\"4\"/>"
			 "<nvlink target=\"\" count=\"2\" tclass=\"0x068001\"/><c2c bw=\"25000\" "
			 "count=\"18\"/>") "</cpu></system>";
	const struct topology_link *link;
	struct topology topology;
	uint32_t c2c = TOPOLOGY_NONE;

	(void)state;
	machine_read(text, &topology);
	link = link_between(&topology, "gpu0", "gpu1");
	assert_int_equal(link->kind, TOPOLOGY_LINK_NVLINK);
	assert_int_equal(link->count, 4);
	assert_int_equal(link->capacity[TOPOLOGY_UP].rate_Bps, GBPS(82.4));
	assert_int_equal(link->capacity[TOPOLOGY_DOWN].rate_Bps, GBPS(82.4));
	link = link_between(&topology, "gpu0", "nvswitch0");
	assert_int_equal(link->count, 8);
	assert_int_equal(link->nominal_Bps, GBPS(164.8));
	assert_string_equal(topology.vertices[topology_find(&topology, "nvswitch0")].bus_id, "0000:f1:00.0");
	for (uint32_t i = 0; i < topology.link_count; i++)
		if (topology.links[i].kind == TOPOLOGY_LINK_C2C)
			c2c = i;
	assert_int_not_equal(c2c, TOPOLOGY_NONE);
	assert_int_equal(topology.links[c2c].nominal_Bps, GBPS(450));
	assert_int_equal(topology.links[c2c].count, 18);
	assert_int_equal(
		topology_class_of(&topology, topology_find(&topology, "gpu0"), topology_find(&topology, "gpu1")),
		TOPOLOGY_CLASS_NVL);
	topology_fini(&topology);
}

static void what_is_no_topology_is_named(void **state)
{
	(void)state;
	refuse("\n<graphs version=\"1\"/>", 2, "this is an NCCL graph file, not a topology");
	refuse("<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"3.0\"/>", 3,
	       "this is hwloc's own format");
	refuse("<html/>", 1, "<html> is no NCCL topology");
	refuse("<system version=\"2\"/>", 1, "version \"2\" of the format: NCCL has 1, RCCL 2");
	refuse("<system/>", 1, "version");
}

static void impossible_facts_are_refused_with_their_line(void **state)
{
	(void)state;
	refuse("<system version=\"1\">\n<cpu/></system>", 2, "numaid");
	refuse("<system version=\"1\">\n<cpu numaid=\"0\" host_hash=\"0x1\"/>\n<cpu numaid=\"0\" "
	       "host_hash=\"0x2\"/></system>",
	       3, "joined several hosts");
	refuse("<system version=\"1\"><cpu numaid=\"0\">\n<pci/></cpu></system>", 2, "busid \"\" is not like");
	refuse("<system version=\"1\"><cpu numaid=\"0\">\n<pci busid=\"0000:1:00.0\"/></cpu></system>", 2,
	       "is not like");
	refuse("<system version=\"1\"><cpu numaid=\"0\">\n" GPU_WITH("01", "0",
								     "\n<nvlink target=\"\"/>") "</cpu></system>",
	       3, "count \"\" of <nvlink>");
	refuse("<system version=\"1\"><cpu numaid=\"0\">\n" GPU_WITH("01", "0",
								     "\n<c2c count=\"1\"/>") "</cpu></system>",
	       3, "bw \"\" of <c2c>");
	refuse("<system version=\"1\"><cpu numaid=\"0\"><nic>\n<net name=\"a b\"/></nic></cpu></system>", 2,
	       "is no name");
	refuse("<system version=\"1\"><cpu numaid=\"0\"><nic>\n<net name=\"0123456789012345678901234567890123456789"
	       "012345678901234567890123456789\"/></nic></cpu></system>",
	       2, "longer than");
	refuse("<system version=\"1\">\n<cpu numaid=\"0\">\n</system>", 3, "not XML");
}

/* The graph of a file, and the warning that comes with it ("" none). */
static void read_with_warning(const char *text, int line, const char *part, struct topology *ret)
{
	struct diag diag = { .line = -1, .text = "left from before" };

	if (topology_xml_read(text, strlen(text), ret, &diag) != 0)
		fail_msg("line %d: %s", diag.line, diag.text);
	if (*part ? !strstr(diag.text, part) : diag.text[0] != '\0')
		fail_msg("\"%s\" does not say \"%s\"", diag.text, part);
	assert_int_equal(diag.line, line);
}

static void what_is_there_twice_is_shown_with_a_warning(void **state)
{
	static const char switches[] =
		"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:05:00.0\" "
		"class=\"0x060400\">" GPU_WITH(
			"01", "0",
			"<nvlink target=\"0000:02:00.0\" count=\"1\" "
			"tclass=\"0x03\"/>") "</pci>\n"
					     "<pci busid=\"0000:05:00.0\" "
					     "class=\"0x060400\">" GPU_WITH(
						     "02", "1", "") "</pci>\n"
								    "<pci "
								    "busid=\"0000:05:00.0\" "
								    "class=\"0x060400\">" GPU_WITH("03", "1",
												   "") "</pci></"
												       "cpu></system>";
	static const char devices[] = "<system version=\"1\"><cpu numaid=\"0\">" GPU_WITH("01", "0", "") "\n" GPU_WITH(
		"01", "1",
		"<nvlink target=\"0000:01:00.0\" count=\"1\" "
		"tclass=\"0x03\"/>") "<pci busid=\"0000:07:00.0\" class=\"0x02\" link_speed=\"16.0 GT/s PCIe\" "
				     "link_width=\"16\"><nic><net name=\"a\"/><net name=\"b\"/></nic></pci><pci "
				     "busid=\"0000:07:00.0\" class=\"0x02\" link_speed=\"16.0 GT/s PCIe\" "
				     "link_width=\"16\"><nic><net name=\"a\"/><net "
				     "name=\"c\"/></nic></pci></cpu></system>";
	static const char cpus[] = "<system version=\"1\">\n<cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>";
	struct topology topology;

	(void)state;
	read_with_warning(switches, 2, "0000:05:00.0 is there twice", &topology);
	link_between(&topology, "gpu0", "switch:0000:05:00.0");
	link_between(&topology, "gpu1", "switch:0000:05:00.0~2");
	link_between(&topology, "gpu1~2", "switch:0000:05:00.0~3");
	link_between(&topology, "gpu0", "gpu1");
	assert_int_equal(topology.vertex_count, 2 + 3 + 3);
	topology_fini(&topology);

	read_with_warning(devices, 2, "0000:01:00.0 is there twice", &topology);
	assert_int_not_equal(topology_find(&topology, "gpu0"), TOPOLOGY_NONE);
	assert_int_not_equal(topology_find(&topology, "gpu1"), TOPOLOGY_NONE);
	/* A bus id is of the first that has it, so this link is one from a GPU to itself. */
	assert_int_equal(
		topology_find_link(&topology, topology_find(&topology, "gpu0"), topology_find(&topology, "gpu1")),
		TOPOLOGY_NONE);
	link_between(&topology, "nic:a~2", "net:a~2");
	assert_int_not_equal(topology_find_limit(&topology, "0000:07:00.0.slot.up"), TOPOLOGY_NONE);
	assert_int_not_equal(topology_find_limit(&topology, "0000:07:00.0.slot~2.down"), TOPOLOGY_NONE);
	topology_fini(&topology);

	read_with_warning(cpus, 3, "cpu0 is there twice", &topology);
	link_between(&topology, "cpu0~2", "memory0~2");
	topology_fini(&topology);

	read_with_warning("<system version=\"1\"><cpu numaid=\"0\"/></system>", 0, "", &topology);
	topology_fini(&topology);
}

/* Clouds' files have such devices, and NCCL looks in sysfs. */
static void devices_that_only_the_machine_knows_are_said_to_be_unknown(void **state)
{
	struct topology topology;

	(void)state;
	read_with_warning("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:00:10.0\">\n<pci "
			  "busid=\"0000:00:16.0\"/><pci busid=\"0000:00:17.0\"/></pci><pci busid=\"0000:00:18.0\" "
			  "class=\"0x060400\"/></cpu></system>",
			  2, "2 <pci> without class and without children", &topology);
	topology_fini(&topology);
}

/* What NCCL 2.30 writes of the parts of a virtual device, and of devices that its other plugins have. */
static void a_net_that_carries_no_messages_is_no_nic(void **state)
{
	static const char text[] =
		"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic><net "
		"name=\"mlx5_0\" net=\"0\" gin=\"1\"/></nic></pci><pci busid=\"0000:02:00.0\" class=\"0x020000\"><nic>"
		"<net name=\"mlx5_1\" net=\"0\"/><net name=\"mlx5_2\" net=\"1\" gin=\"1\"/></nic></pci>"
		"<pci busid=\"0000:03:00.0\" class=\"0x020000\"><nic/></pci><nic><net name=\"shm\" net=\"0\" "
		"coll=\"1\"/><net name=\"mlx5_0+mlx5_1\"/></nic></cpu></system>";
	static const char *const nics[] = { "nic:mlx5_2", "nic:0000:03:00.0", "nic:mlx5_0+mlx5_1" };
	struct topology topology;
	size_t count = 0;

	(void)state;
	machine_read(text, &topology);
	for (size_t i = 0; i < topology.vertex_count; i++)
		count += topology.vertices[i].kind == TOPOLOGY_NIC;
	assert_int_equal(count, sizeof(nics) / sizeof(nics[0]));
	for (size_t i = 0; i < count; i++)
		assert_int_not_equal(topology_find(&topology, nics[i]), TOPOLOGY_NONE);
	topology_fini(&topology);
}

static void classes_are_beginnings(void **state)
{
	static const char text[] =
		"<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"0000:01:00.0\" class=\"0x03\"/>"
		"<pci busid=\"0000:02:00.0\" class=\"0x2604\"/>"
		"<pci busid=\"0000:03:00.0\" class=\"030200\"/></cpu></system>";
	struct topology topology;

	(void)state;
	machine_read(text, &topology);
	assert_int_equal(topology.vertices[topology_find(&topology, "gpu:0000:01:00.0")].pci.class_code, 0x030000);
	assert_int_equal(topology.vertices[topology_find(&topology, "switch:0000:02:00.0")].pci.class_code, 0x260400);
	assert_int_equal(topology.vertices[topology_find(&topology, "switch:0000:03:00.0")].pci.class_code, 0);
	topology_fini(&topology);
}

static void more_than_a_graph_can_hold_is_refused(void **state)
{
	size_t room = 1 << 20, used;
	char *text = malloc(room);

	(void)state;
	assert_non_null(text);
	used = (size_t)snprintf(text, room, "<system version=\"1\">\n");
	for (unsigned i = 0; i < 256; i++)
		used += (size_t)snprintf(text + used, room - used, "<cpu numaid=\"%u\"/>\n", i);
	snprintf(text + used, room - used, "</system>\n");
	refuse(text, 257, "more than 255 CPUs");
	used = (size_t)snprintf(text, room, "<system version=\"1\">\n<cpu numaid=\"0\">");
	for (unsigned i = 0; i < 4096; i++)
		used += (size_t)snprintf(text + used, room - used, "<pci busid=\"%04x:00:00.0\"/>", i);
	snprintf(text + used, room - used, "</cpu></system>\n");
	refuse(text, 1, "4098 elements, NCCL reads 255");
	free(text);
}

/* The path classes and rates of real files cannot be known here; that they load, and as trees, can. */
static void check_file(const char *path, const char *name)
{
	struct diag diag = { .text = "" };
	struct topology topology;
	size_t bytes;
	char *text = tree_read(path, &bytes);
	int r;

	assert_non_null(text);
	r = topology_xml_read(text, bytes, &topology, &diag);
	free(text);
	if (strstr(name, "hwloc")) {
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(diag.text, "hwloc"));
		return;
	}
	if (strstr(name, "graph")) {
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(diag.text, "graph file"));
		return;
	}
	if (r != 0)
		fail_msg("%s: line %d: %s", name, diag.line, diag.text);
	assert_true(topology.vertex_count > 2);
	for (uint32_t i = 0; i < topology.vertex_count; i++) {
		enum topology_kind kind = topology.vertices[i].kind;

		if (kind == TOPOLOGY_GPU || kind == TOPOLOGY_NIC || kind == TOPOLOGY_SWITCH)
			assert_int_not_equal(topology_cpu_of(&topology, i), TOPOLOGY_NONE);
	}
	topology_fini(&topology);
}

static void real_files_load(void **state)
{
	const char *folder = getenv("TRIBUTARY_TEST_TOPOLOGIES");
	const struct dirent *entry;
	unsigned count = 0;
	DIR *directory;

	(void)state;
	if (!folder) {
		print_message("skipped: TRIBUTARY_TEST_TOPOLOGIES names no folder\n");
		skip();
		return;
	}
	directory = opendir(folder);
	if (!directory) {
		fail_msg("%s is no folder", folder);
		return;
	}
	while ((entry = readdir(directory))) {
		char path[4096];

		if (!strstr(entry->d_name, ".xml"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		check_file(path, entry->d_name);
		count++;
	}
	closedir(directory);
	assert_true(count > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tree_is_that_of_the_file),
		cmocka_unit_test(sockets_carry_nccls_constant_of_the_sender),
		cmocka_unit_test(what_a_cpu_lacks_is_what_the_others_have),
		cmocka_unit_test(rates_are_those_that_nccl_computes),
		cmocka_unit_test(devices_without_gpu_or_net_are_told_by_their_class),
		cmocka_unit_test(ports_of_a_card_share_its_slot_and_nics_of_one_guid_and_port_a_wire),
		cmocka_unit_test(nvlinks_join_gpus_the_switch_and_the_cpu),
		cmocka_unit_test(what_is_no_topology_is_named),
		cmocka_unit_test(impossible_facts_are_refused_with_their_line),
		cmocka_unit_test(what_is_there_twice_is_shown_with_a_warning),
		cmocka_unit_test(devices_that_only_the_machine_knows_are_said_to_be_unknown),
		cmocka_unit_test(a_net_that_carries_no_messages_is_no_nic),
		cmocka_unit_test(classes_are_beginnings),
		cmocka_unit_test(more_than_a_graph_can_hold_is_refused),
		cmocka_unit_test(real_files_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
