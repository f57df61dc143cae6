/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/build.h"

#include "discover/ask.h"
#include "ncclxml/topology_xml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                  \
	"<topology version=\"2.0\"><object type=\"Machine\" nodeset=\"0x1\">" \
	"<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\" local_memory=\"1024\"/>"
#define TAIL        "</object></topology>"
#define HOST(buses) "<object type=\"Bridge\" bridge_type=\"0-1\" bridge_pci=\"0000:[" buses "]\">"
#define BRIDGE(bus, buses)                                                                                        \
	"<object type=\"Bridge\" bridge_type=\"1-1\" bridge_pci=\"0000:[" buses "]\" pci_busid=\"0000:" bus "\" " \
	"pci_type=\"0604 [10b5:9781] [10b5:9781] b0\">"
#define GPU(bus) "<object type=\"PCIDev\" pci_busid=\"0000:" bus "\" pci_type=\"0302 [10de:20f1] [10de:1] a1\"/>"
#define NIC(bus, devices)                                                                                       \
	"<object type=\"PCIDev\" pci_busid=\"0000:" bus "\" pci_type=\"0200 [15b3:101d] [15b3:1] 00\">" devices \
	"</object>"
#define NET(name)  "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"2\"/>"
#define RDMA(name) "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"3\"/>"
#define END        "</object>"

#define NVML(index, bus, mig)                                                                             \
	"gpu " #index " bus=0000:" bus " device=0x20f110de subsystem=0x10de sm=80 generation=4 lanes=16 " \
	"most_generation=4 most_lanes=16 memory=1024 bar1=256 mig=" #mig " name=A100\n"

/* A graph from hwloc's XML, files (path, text, ..., NULL) and NVML's answers (NULL: none). */
static int build(const char *xml, const char *const *files, const char *nvml, struct topology *ret, struct diag *diag)
{
	struct gpu_inventory gpus;
	struct discover_root *root;
	struct discover_tree tree;
	int r;

	memset(diag, 0, sizeof(*diag));
	assert_int_equal(discover_root_empty(&root), 0);
	for (; files && *files; files += 2)
		assert_int_equal(discover_root_put(root, files[0], DISCOVER_FILE, files[1], strlen(files[1])), 0);
	if (discover_hwloc_read(xml, strlen(xml), &tree, diag) < 0)
		fail_msg("line %d: %s", diag->line, diag->text);
	if (nvml)
		assert_int_equal(discover_nvml_read(nvml, strlen(nvml), &gpus, diag), 0);
	r = discover_graph(root, &tree, nvml ? &gpus : NULL, ret, diag);
	if (nvml)
		gpu_inventory_fini(&gpus);
	discover_tree_fini(&tree);
	discover_root_close(root);
	return r;
}

static uint32_t must_find(const struct topology *topology, const char *name)
{
	uint32_t vertex = topology_find(topology, name);

	if (vertex == TOPOLOGY_NONE)
		fail_msg("there is no %s", name);
	return vertex;
}

/* The link up from a vertex, which must lead to `upper` through `port`. */
static const struct topology_link *uplink(const struct topology *topology, const char *name, const char *upper,
					  const char *port)
{
	uint32_t link = topology_uplink(topology, must_find(topology, name));

	assert_int_not_equal(link, TOPOLOGY_NONE);
	assert_string_equal(topology->vertices[topology->links[link].upper].name, upper);
	assert_string_equal(topology->links[link].pci.port, port);
	return &topology->links[link];
}

static void a_switch_is_its_upstream_port_and_links_name_the_downstream_ones(void **state)
{
	static const char xml[] = HEAD HOST("16-1b") BRIDGE("16:01.0", "17-1b") BRIDGE("17:00.0", "18-1b")
		BRIDGE("18:00.0", "19-19") GPU("19:00.0") END BRIDGE("18:04.0", "1a-1b") BRIDGE("1a:00.0", "1b-1b")
			GPU("1b:00.0") END END END END END TAIL;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, NULL, &topology, &diag), 0);
	uplink(&topology, "gpu0", "switch:0000:17:00.0", "0000:18:00.0");
	/* The second GPU is on the bus inside a switch: no downstream port. */
	uplink(&topology, "gpu1", "switch:0000:1a:00.0", "");
	uplink(&topology, "switch:0000:1a:00.0", "switch:0000:17:00.0", "0000:18:04.0");
	uplink(&topology, "switch:0000:17:00.0", "bridge:0000:16", "0000:16:01.0");
	uplink(&topology, "bridge:0000:16", "cpu0", "");
	assert_int_equal(topology_class_of(&topology, must_find(&topology, "gpu0"), must_find(&topology, "gpu1")),
			 TOPOLOGY_CLASS_PXB);
	topology_fini(&topology);
}

static void what_has_no_gpu_and_no_nic_below_is_left_out(void **state)
{
	static const char xml[] = HEAD HOST("00-02")
		BRIDGE("00:01.0", "01-01") "<object type=\"PCIDev\" pci_busid=\"0000:01:00.0\" pci_type=\"0108 "
					   "[144d:a80a] [144d:1] 00\"/>" END
					   "<object type=\"PCIDev\" pci_busid=\"0000:00:02.0\" pci_type=\"0300 "
					   "[1a03:2000] [1a03:1] 00\"/>" END TAIL;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, NULL, &topology, &diag), 0);
	assert_int_equal(topology.vertex_count, 2);
	must_find(&topology, "cpu0");
	must_find(&topology, "memory0");
	topology_fini(&topology);
}

static void a_file_without_bridges_still_gives_a_tree(void **state)
{
	static const char xml[] = HEAD GPU("19:00.0") NIC("1a:00.0", NET("eth0")) TAIL;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, NULL, &topology, &diag), 0);
	uplink(&topology, "gpu0", "bridge:0000:19", "");
	uplink(&topology, "nic:eth0", "bridge:0000:1a", "");
	topology_fini(&topology);
}

static void links_take_the_least_of_both_ends_and_idle_gpus_their_most(void **state)
{
	static const char xml[] = HEAD HOST("16-1b") BRIDGE("16:01.0", "17-17") GPU("17:00.0")
		END BRIDGE("16:02.0", "18-18") NIC("18:00.0", NET("eth0")) END END TAIL;
	static const char *const files[] = {
		"sys/bus/pci/devices/0000:17:00.0/current_link_speed",
		"2.5 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:17:00.0/current_link_width",
		"16\n",
		"sys/bus/pci/devices/0000:17:00.0/max_link_speed",
		"32.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:16:01.0/max_link_speed",
		"16.0 GT/s PCIe\n",
		"sys/bus/pci/devices/0000:17:00.0/max_link_width",
		"16\n",
		"sys/bus/pci/devices/0000:16:01.0/max_link_width",
		"8\n",
		"sys/bus/pci/devices/0000:18:00.0/current_link_speed",
		"Unknown\n",
		"sys/bus/pci/devices/0000:16:02.0/current_link_speed",
		"8 GT/s\n",
		"sys/bus/pci/devices/0000:18:00.0/current_link_width",
		"255\n",
		"sys/bus/pci/devices/0000:16:02.0/current_link_width",
		"4\n",
		NULL,
	};
	const struct topology_link *link;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, files, NULL, &topology, &diag), 0);
	link = uplink(&topology, "gpu0", "bridge:0000:16", "0000:16:01.0");
	assert_int_equal(link->pci.generation, 1);
	assert_int_equal(link->pci.most_generation, 4);
	assert_int_equal(link->pci.lanes, 16);
	assert_int_equal(link->pci.most_lanes, 8);
	assert_int_equal(link->nominal_Bps, topology_pci_Bps(4, 16));
	link = uplink(&topology, "nic:eth0", "bridge:0000:16", "0000:16:02.0");
	assert_int_equal(link->pci.generation, 3);
	assert_int_equal(link->pci.lanes, 4);
	assert_int_equal(link->pci.most_generation, 0);
	assert_int_equal(link->nominal_Bps, topology_pci_Bps(3, 4));
	assert_int_equal(link->capacity[0].provenance, TOPOLOGY_NOMINAL);
	topology_fini(&topology);
}

static void hwlocs_speed_gives_the_rate_that_nccl_counts(void **state)
{
	static const struct {
		const char *speed;
		uint64_t rate_Bps;
	} cases[] = {
		{ "15.753846", 12000000000 },
		{ "3.938462", 3000000000 },
		{ "1.000000", 750000000 },
		{ "0.250000", 187500000 },
		{ "31.507692", 24000000000 },
		{ "0.000000", 0 },
		{ "nan", 0 },
		{ "1e99", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct topology topology;
		struct diag diag;
		char xml[1024];

		snprintf(xml, sizeof(xml),
			 HEAD HOST("16-17") "<object type=\"PCIDev\" pci_busid=\"0000:16:00.0\" "
					    "pci_type=\"0302 [10de:1] [10de:1] a1\" pci_link_speed=\"%s\"/>" END TAIL,
			 cases[i].speed);
		assert_int_equal(build(xml, NULL, NULL, &topology, &diag), 0);
		assert_int_equal(uplink(&topology, "gpu0", "bridge:0000:16", "")->nominal_Bps, cases[i].rate_Bps);
		topology_fini(&topology);
	}
}

static void functions_of_one_card_share_their_slot(void **state)
{
	static const char xml[] = HEAD HOST("16-17") BRIDGE("16:01.0", "17-17")
		NIC("17:00.0", RDMA("mlx5_0") NET("ens1f0")) NIC("17:00.1", RDMA("mlx5_1") NET("ens1f1"))
			END BRIDGE("16:02.0", "18-18") NIC("18:00.0", NET("eth0")) END END TAIL;
	const struct topology_limit *limit;
	struct topology topology;
	uint32_t first, second, other;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, NULL, &topology, &diag), 0);
	assert_int_equal(topology.limit_count, 2);
	limit = &topology.limits[topology_find_limit(&topology, "slot:0000:16:01.0.up")];
	first = must_find(&topology, "nic:mlx5_0");
	second = must_find(&topology, "nic:mlx5_1");
	other = must_find(&topology, "nic:eth0");
	assert_int_equal(limit->member_count, 2);
	assert_int_equal(limit->members[0], topology_directed(topology_uplink(&topology, first), TOPOLOGY_UP));
	assert_int_equal(limit->members[1], topology_directed(topology_uplink(&topology, second), TOPOLOGY_UP));
	assert_string_equal(topology.vertices[first].nic.interface, "ens1f0");
	assert_true(topology.vertices[first].nic.guid == topology.vertices[second].nic.guid);
	assert_true(topology.vertices[first].nic.guid != topology.vertices[other].nic.guid);
	topology_fini(&topology);
}

static void two_devices_with_one_image_guid_are_one_card(void **state)
{
	static const char xml[] = HEAD HOST("16-16") NIC("16:00.0", RDMA("mlx5_0")) END HOST("97-97")
		NIC("97:00.0", RDMA("mlx5_1")) END TAIL;
	static const char *const files[] = { "sys/class/infiniband/mlx5_0/sys_image_guid", "0a1b:2c3d\n",
					     "sys/class/infiniband/mlx5_1/sys_image_guid", "0a1b:2c3d\n", NULL };
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, files, NULL, &topology, &diag), 0);
	assert_true(topology.vertices[must_find(&topology, "nic:mlx5_0")].nic.guid ==
		    topology.vertices[must_find(&topology, "nic:mlx5_1")].nic.guid);
	topology_fini(&topology);
}

static void one_device_with_two_ports_is_two_nics_and_representors_are_none(void **state)
{
	static const char xml[] = HEAD HOST("16-16") NIC("16:00.0", RDMA("mlx4_0") NET("eth1") NET("eth0") NET("rep0"))
		END TAIL;
	static const char *const files[] = { "sys/class/infiniband/mlx4_0/ports/1/rate",
					     "40 Gb/sec (4X QDR)\n",
					     "sys/class/infiniband/mlx4_0/ports/2/rate",
					     "nonsense\n",
					     "sys/class/net/eth1/dev_port",
					     "1\n",
					     "sys/class/net/eth0/dev_port",
					     "0\n",
					     "sys/class/net/eth0/speed",
					     "25000\n",
					     "sys/class/net/eth1/speed",
					     "10000\n",
					     "sys/class/net/rep0/phys_port_name",
					     "pf0vf1\n",
					     NULL };
	const struct topology_nic *nic;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, files, NULL, &topology, &diag), 0);
	nic = &topology.vertices[must_find(&topology, "nic:mlx4_0")].nic;
	assert_string_equal(nic->interface, "eth0");
	assert_int_equal(nic->speed_Bps, 5000000000);
	nic = &topology.vertices[must_find(&topology, "nic:mlx4_0:2")].nic;
	assert_string_equal(nic->interface, "eth1");
	assert_int_equal(nic->port, 2);
	assert_int_equal(nic->speed_Bps, 1250000000);
	must_find(&topology, "net:mlx4_0:2");
	assert_int_equal(topology_find(&topology, "nic:rep0"), TOPOLOGY_NONE);
	topology_fini(&topology);
}

/* hwloc 2 and 3 number the types of devices differently; the machine is the same. */
#define DEVICES(network, rdma, version)                                                                              \
	"<topology version=\"" #version ".0\"><object type=\"Machine\" nodeset=\"0x1\">"                             \
	"<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\" local_memory=\"1024\"/>" HOST(      \
		"16-19") NIC("16:00.0", OS("ibp22", network) OS("mlx5_0", rdma))                                     \
		NIC("17:00.0", OS("mlx4_0", rdma) OS("ibp23d1", network) OS("ens3", network))                        \
			NIC("18:00.0", OS("qib0", rdma)) NIC("19:00.0", OS("ens5f0", network) OS("ens5f1", network)) \
				END TAIL
#define OS(name, type) "<object type=\"OSDev\" name=\"" name "\" osdev_type=\"" #type "\"/>"

static void the_devices_of_one_function_are_one_nic_in_every_version_of_hwloc(void **state)
{
	static const char *const files[] = { DEVICES(2, 3, 2), DEVICES(16, 48, 3), DEVICES(16, 32, 3) };
	static const struct {
		const char *name, *interface;
		bool rdma;
	} expected[] = { { "nic:mlx5_0", "ibp22", true },
			 { "nic:mlx4_0", "ens3", true },
			 { "nic:qib0", "", true },
			 /* A card without RDMA may have two ports in one function. */
			 { "nic:ens5f0", "ens5f0", false },
			 { "nic:ens5f1", "ens5f1", false } };

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct topology topology;
		struct diag diag;
		size_t nics = 0;

		assert_int_equal(build(files[i], NULL, NULL, &topology, &diag), 0);
		for (size_t k = 0; k < topology.vertex_count; k++)
			nics += topology.vertices[k].kind == TOPOLOGY_NIC;
		assert_int_equal(nics, sizeof(expected) / sizeof(expected[0]));
		for (size_t k = 0; k < sizeof(expected) / sizeof(expected[0]); k++) {
			const struct topology_nic *nic = &topology.vertices[must_find(&topology, expected[k].name)].nic;

			assert_string_equal(nic->interface, expected[k].interface);
			assert_int_equal(nic->rdma, expected[k].rdma);
		}
		topology_fini(&topology);
	}
}

/* On a machine that shows its ports, too: a partition of IPoIB is no NIC, the second port of a card without RDMA is. */
static void a_second_interface_of_an_rdma_port_is_no_nic(void **state)
{
	static const char xml[] = HEAD HOST("16-18") NIC("16:00.0", NET("ib0.8001") NET("ib0") RDMA("mlx5_0"))
		NIC("17:00.0", NET("hsn0") NET("cxi0")) NIC("18:00.0", NET("bxi0")) END TAIL;
	static const char *const files[] = { "sys/class/infiniband/mlx5_0/ports/1/rate",
					     "200 Gb/sec (4X HDR)\n",
					     "sys/class/net/ib0/dev_port",
					     "0\n",
					     "sys/class/net/ib0.8001/dev_port",
					     "0\n",
					     NULL };
	struct topology topology;
	struct diag diag;
	size_t nics = 0;

	(void)state;
	assert_int_equal(build(xml, files, NULL, &topology, &diag), 0);
	for (size_t k = 0; k < topology.vertex_count; k++)
		nics += topology.vertices[k].kind == TOPOLOGY_NIC;
	assert_int_equal(nics, 3);
	assert_string_equal(topology.vertices[must_find(&topology, "nic:mlx5_0")].nic.interface, "ib0");
	must_find(&topology, "nic:hsn0");
	must_find(&topology, "nic:bxi0");
	topology_fini(&topology);
}

static void nvmls_numbers_count_and_what_it_does_not_show_is_left_out(void **state)
{
	static const char xml[] = HEAD HOST("16-19") GPU("16:00.0") GPU("17:00.0") GPU("18:00.0") END TAIL;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(
		build(xml, NULL, "nvml 1\ndriver 1.2\n" NVML(1, "16:00.0", 0) NVML(0, "18:00.0", 0), &topology, &diag),
		0);
	assert_string_equal(topology.vertices[must_find(&topology, "gpu0")].bus_id, "0000:18:00.0");
	assert_string_equal(topology.vertices[must_find(&topology, "gpu1")].bus_id, "0000:16:00.0");
	assert_int_equal(topology_find_bus_id(&topology, "0000:17:00.0"), TOPOLOGY_NONE);
	assert_string_equal(topology.driver, "nvidia 1.2");
	topology_fini(&topology);
}

/* How often a file for NCCL has a bus id. */
static size_t times_written(const struct topology *topology, const char *bus_id)
{
	const struct topology_xml_shape shape = { .bridges = true, .p2p_farthest = TOPOLOGY_CLASS_PXB };
	struct diag diag = { .text = "" };
	size_t bytes, count = 0;
	char *text;

	if (topology_xml_write(topology, &shape, &text, &bytes, NULL, &diag) < 0)
		fail_msg("%s", diag.text);
	for (const char *at = text; (at = strstr(at, bus_id)); at++)
		count++;
	free(text);
	return count;
}

static void slices_share_their_cards_slot_and_have_no_p2p(void **state)
{
	static const char xml[] = HEAD HOST("16-1c") BRIDGE("16:01.0", "17-1b") BRIDGE("17:00.0", "18-1b")
		BRIDGE("18:00.0", "19-19") GPU("19:00.0") END BRIDGE("18:01.0", "1a-1a") GPU("1a:00.0")
			END BRIDGE("18:02.0", "1b-1b") NIC("1b:00.0", RDMA("mlx5_0"))
				END END END BRIDGE("16:02.0", "1c-1c") GPU("1c:00.0") END END TAIL;
	static const char nvml[] = "nvml 1\n" NVML(0, "19:00.0", 1) NVML(1, "1a:00.0", 0)
		NVML(2, "1c:00.0", 1) "slice 0 index=0 gi=1 ci=0 memory=512 name=A100 MIG 3g\nslice 0 index=4 gi=2 "
				      "ci=0 memory=256 name=A100 MIG 1g\n"
				      "p2p 0 to=1 status=works\np2p 1 to=0 status=works\n";
	uint32_t first, second, whole, nic, limit;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, nvml, &topology, &diag), 0);
	first = must_find(&topology, "gpu0.0");
	second = must_find(&topology, "gpu0.4");
	whole = must_find(&topology, "gpu1");
	nic = must_find(&topology, "nic:mlx5_0");
	assert_int_equal(uplink(&topology, "gpu0.0", "switch:0000:17:00.0", "0000:18:00.0")->nominal_Bps,
			 topology_pci_Bps(4, 16));
	uplink(&topology, "gpu0.4", "switch:0000:17:00.0", "0000:18:00.0");
	limit = topology_find_limit(&topology, "slot:0000:18:00.0.up");
	assert_int_not_equal(limit, TOPOLOGY_NONE);
	assert_int_equal(topology.limits[limit].member_count, 2);
	assert_int_equal(topology.limits[limit].capacity.rate_Bps, topology_pci_Bps(4, 16));
	assert_int_equal(topology.vertices[second].gpu.mig, 4);
	assert_int_equal(topology.vertices[second].memory_bytes, 256);
	assert_int_equal(topology.vertices[whole].gpu.mig, -1);
	assert_false(topology.pairs[topology_find_pair(&topology, first, second)].p2p_works);
	assert_false(topology.pairs[topology_find_pair(&topology, first, whole)].p2p_works);
	/* As near to a NIC as the card is; and one device in NCCL's file, not one inside itself. */
	assert_int_equal(topology_class_of(&topology, first, nic), TOPOLOGY_CLASS_PIX);
	assert_int_equal(topology_class_of(&topology, whole, nic), TOPOLOGY_CLASS_PIX);
	assert_int_equal(times_written(&topology, "\"0000:19:00.0\""), 1);
	assert_true(topology_is_later_slice(&topology, second));
	assert_false(topology_is_later_slice(&topology, first));
	assert_false(topology_is_later_slice(&topology, whole));
	assert_false(topology_is_later_slice(&topology, nic));
	/* A card in MIG mode without a slice is used by nobody. */
	assert_int_equal(topology_find_bus_id(&topology, "0000:1c:00.0"), TOPOLOGY_NONE);
	topology_fini(&topology);
}

/* As in a guest, where devices are on the bus of the host bridge itself. */
static void slices_without_a_port_share_their_slot_too(void **state)
{
	static const char xml[] = HEAD HOST("00-00") GPU("00:05.0") GPU("00:06.0") END TAIL;
	static const char nvml[] = "nvml 1\n" NVML(0, "00:05.0", 1) NVML(1, "00:06.0", 0) "slice 0 index=0 gi=1 ci=0 "
											  "memory=512 name=A\n"
											  "slice 0 index=1 gi=2 ci=0 "
											  "memory=512 name=A\n";
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, nvml, &topology, &diag), 0);
	assert_int_equal(topology.limit_count, 2);
	assert_int_not_equal(topology_find_limit(&topology, "slot:0000:00:05.0.down"), TOPOLOGY_NONE);
	topology_fini(&topology);
}

static void nvlinks_are_counted_once_and_switches_are_one(void **state)
{
	static const char xml[] = HEAD HOST("16-18") GPU("16:00.0") GPU("17:00.0") GPU("18:00.0") END TAIL;
#define LINK(gpu, number, active, remote, bus)                                                                       \
	"nvlink " #gpu " link=" #number " active=" #active " version=3 rate=25000000000 remote=" #remote " bus=" bus \
	"\n"
	static const char nvml[] = "nvml 1\n" NVML(0, "16:00.0", 0) NVML(1, "17:00.0", 0) NVML(2, "18:00.0", 0)
		LINK(0, 0, 1, 0, "0000:17:00.0") LINK(0, 1, 1, 0, "0000:17:00.0") LINK(1, 0, 1, 0, "0000:16:00.0")
			LINK(1, 1, 1, 0, "0000:16:00.0") LINK(0, 2, 1, 2, "0000:60:00.0")
				LINK(0, 3, 1, 2, "0000:61:00.0") LINK(0, 4, 0, 2, "0000:61:00.0") LINK(2, 0, 1, 2, "")
					LINK(2, 1, 1, 1, "") /* and one from a GPU to itself, which joins nothing */
		LINK(1, 2, 1, 0, "0000:17:00.0") "";
	const struct topology_link *link;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, NULL, nvml, &topology, &diag), 0);
	link = &topology.links[topology_find_link(&topology, must_find(&topology, "gpu0"),
						  must_find(&topology, "gpu1"))];
	assert_int_equal(link->count, 2);
	assert_int_equal(link->nominal_Bps, 2 * 20000000000);
	for (uint32_t i = 0; i < topology.link_count; i++)
		assert_int_not_equal(topology.links[i].lower, topology.links[i].upper);
	link = &topology.links[topology_find_link(&topology, must_find(&topology, "gpu0"),
						  must_find(&topology, "nvswitch0"))];
	assert_int_equal(link->count, 2);
	link = &topology.links[topology_find_link(&topology, must_find(&topology, "gpu2"),
						  must_find(&topology, "nvswitch0"))];
	assert_int_equal(link->count, 1);
	link = &topology.links[topology_find_link(&topology, must_find(&topology, "gpu2"),
						  must_find(&topology, "cpu0"))];
	assert_int_equal(link->kind, TOPOLOGY_LINK_NVLINK);
	assert_int_equal(topology_class_of(&topology, must_find(&topology, "gpu0"), must_find(&topology, "gpu2")),
			 TOPOLOGY_CLASS_NVL);
	topology_fini(&topology);
}

static void an_impossible_machine_is_refused_with_a_reason(void **state)
{
	static const char *const cases[] = {
		HEAD HOST("16-16") NIC("16:00.0", NET("eth0")) NIC("16:01.0", NET("eth0")) END TAIL,
		HEAD HOST("16-16") NIC("16:00.0", NET("a b")) END TAIL,
		/* One root port's bus id below two host bridges. */
		HEAD HOST("16-16") BRIDGE("16:01.0", "17-17") NIC("17:00.0", NET("a")) NIC("17:00.1", NET("b"))
			END END HOST("97-97") BRIDGE("16:01.0", "98-98") NIC("98:00.0", NET("c"))
				NIC("98:00.1", NET("d")) END END TAIL,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct topology topology;
		struct diag diag;

		assert_int_equal(build(cases[i], NULL, NULL, &topology, &diag), -EINVAL);
		assert_true(strlen(diag.text) > 10);
	}
}

static void nodes_without_cores_are_no_cpus_and_none_at_all_is_one(void **state)
{
	static const char far[] = HEAD "<object type=\"NUMANode\" os_index=\"2\" local_memory=\"5\"/>" TAIL;
	static const char none[] = "<topology><object type=\"Machine\">" HOST("16-16") GPU("16:00.0") END TAIL;
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(far, NULL, NULL, &topology, &diag), 0);
	assert_int_equal(topology.vertex_count, 2);
	topology_fini(&topology);
	assert_int_equal(build(none, NULL, NULL, &topology, &diag), 0);
	uplink(&topology, "bridge:0000:16", "cpu0", "");
	topology_fini(&topology);
}

static void gpudirect_is_what_the_driver_offers(void **state)
{
	static const char xml[] = HEAD HOST("16-16") GPU("16:00.0") NIC("16:01.0", RDMA("mlx5_0"))
		NIC("16:02.0", NET("eth0")) END TAIL;
	static const char *const closed[] = {
		"proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n", NULL
	};
	static const char *const open[] = {
		"proc/driver/nvidia/version",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build\n", NULL
	};
	struct topology topology;
	struct diag diag;

	(void)state;
	assert_int_equal(build(xml, closed, NULL, &topology, &diag), 0);
	assert_string_equal(topology.driver, "nvidia 550.54.15");
	assert_false(topology.vertices[must_find(&topology, "gpu0")].gpu.gdr);
	topology_fini(&topology);
	assert_int_equal(build(xml, open, NULL, &topology, &diag), 0);
	assert_string_equal(topology.driver, "nvidia 565.57.01");
	assert_true(topology.vertices[must_find(&topology, "gpu0")].gpu.gdr);
	assert_true(topology.vertices[must_find(&topology, "nic:mlx5_0")].nic.gdr);
	assert_false(topology.vertices[must_find(&topology, "nic:eth0")].nic.gdr);
	topology_fini(&topology);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_is_its_upstream_port_and_links_name_the_downstream_ones),
		cmocka_unit_test(what_has_no_gpu_and_no_nic_below_is_left_out),
		cmocka_unit_test(a_file_without_bridges_still_gives_a_tree),
		cmocka_unit_test(links_take_the_least_of_both_ends_and_idle_gpus_their_most),
		cmocka_unit_test(hwlocs_speed_gives_the_rate_that_nccl_counts),
		cmocka_unit_test(functions_of_one_card_share_their_slot),
		cmocka_unit_test(two_devices_with_one_image_guid_are_one_card),
		cmocka_unit_test(one_device_with_two_ports_is_two_nics_and_representors_are_none),
		cmocka_unit_test(the_devices_of_one_function_are_one_nic_in_every_version_of_hwloc),
		cmocka_unit_test(a_second_interface_of_an_rdma_port_is_no_nic),
		cmocka_unit_test(nvmls_numbers_count_and_what_it_does_not_show_is_left_out),
		cmocka_unit_test(slices_share_their_cards_slot_and_have_no_p2p),
		cmocka_unit_test(slices_without_a_port_share_their_slot_too),
		cmocka_unit_test(nvlinks_are_counted_once_and_switches_are_one),
		cmocka_unit_test(an_impossible_machine_is_refused_with_a_reason),
		cmocka_unit_test(nodes_without_cores_are_no_cpus_and_none_at_all_is_one),
		cmocka_unit_test(gpudirect_is_what_the_driver_offers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
