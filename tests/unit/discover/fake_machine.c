/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/discover/fake_machine.h"
#include "support/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fake_machine_secrets[] = { "secrethost",   "0a:1b:2c:3d:4e:5f", "0a1b2c3d4e5f", "0011223344ff",
					     "SN0123456789", "7a6b5c4d-",         "10.99.88.77",  "secretcookie",
					     "feedc0de",     "0a63:584d",         "2cff:fe3d",    NULL };

static const char identity[] = "0a1b:2c3d:4e5f:feed";

__attribute__((format(printf, 3, 4))) static void put(struct tree *machine, const char *text, const char *fmt, ...)
{
	char path[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	tree_text(machine, path, text);
}

/* ---------------------------------------------------------------------------------------------------------------- CPUs */

static void put_cpu(struct tree *machine, unsigned cpu)
{
	char text[64];

	snprintf(text, sizeof(text), "%u\n", cpu / 2);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/physical_package_id", cpu);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/die_id", cpu);
	snprintf(text, sizeof(text), "%u\n", cpu);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/core_id", cpu);
	snprintf(text, sizeof(text), "%x\n", 1U << cpu);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/core_cpus", cpu);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/thread_siblings", cpu);
	snprintf(text, sizeof(text), "%x\n", 3U << cpu / 2 * 2);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/package_cpus", cpu);
	put(machine, text, "sys/devices/system/cpu/cpu%u/topology/core_siblings", cpu);
	put(machine, cpu < 2 ? "performance\n" : "powersave\n",
	    "sys/devices/system/cpu/cpufreq/policy%u/scaling_governor", cpu);
}

static void put_cpus(struct tree *machine)
{
	char cpuinfo[2048] = "", text[256];

	for (unsigned cpu = 0; cpu < 4; cpu++) {
		put_cpu(machine, cpu);
		snprintf(text, sizeof(text),
			 "processor\t: %u\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
			 "model name\t: Fake Xeon\nphysical id\t: %u\ncore id\t\t: %u\n\n",
			 cpu, cpu / 2, cpu);
		strncat(cpuinfo, text, sizeof(cpuinfo) - strlen(cpuinfo) - 1);
	}
	put(machine, cpuinfo, "proc/cpuinfo");
	/* Where hwloc looks for what uname says of a machine that it is not on. */
	put(machine, "OSName: Linux\nArchitecture: x86_64\nHostName: secrethost\n", "proc/hwloc-nofile-info");
	put(machine, "0-3\n", "sys/devices/system/cpu/online");
	put(machine, "0-3\n", "sys/devices/system/cpu/possible");
	put(machine, "0-1\n", "sys/devices/system/node/online");
	put(machine, "0-1\n", "sys/devices/system/node/possible");
	for (unsigned node = 0; node < 2; node++) {
		snprintf(text, sizeof(text), "%x\n", 3U << 2 * node);
		put(machine, text, "sys/devices/system/node/node%u/cpumap", node);
		snprintf(text, sizeof(text), "Node %u MemTotal:       %u kB\n", node, 4194304 + node * 1024);
		put(machine, text, "sys/devices/system/node/node%u/meminfo", node);
		put(machine, node ? "21 10\n" : "10 21\n", "sys/devices/system/node/node%u/distance", node);
	}
}

/* ----------------------------------------------------------------------------------------------------------------- PCI */

struct device {
	const char *path; /* below sys/devices */
	unsigned class_code, vendor, device;
	unsigned first, last; /* of a bridge: buses below */
	unsigned kind;        /* PCI Express: 0 endpoint, 4 root port, 5 upstream, 6 downstream */
	unsigned generation, lanes, most_generation, most_lanes;
	const char *driver;
};

#define ROOT0 "pci0000:16/0000:16:01.0/"
#define ROOT1 "pci0000:97/0000:97:01.0/"
#define DOWN0 ROOT0 "0000:17:00.0/0000:18:"
#define DOWN1 ROOT1 "0000:98:00.0/0000:99:"

static const struct device devices[] = {
	{ "pci0000:16/0000:16:01.0", 0x060400, 0x8086, 0x352a, 0x17, 0x1b, 4, 4, 16, 5, 16, "pcieport" },
	{ ROOT0 "0000:17:00.0", 0x060400, 0x1000, 0xc030, 0x18, 0x1b, 5, 4, 16, 4, 16, "pcieport" },
	{ DOWN0 "00.0", 0x060400, 0x1000, 0xc030, 0x19, 0x19, 6, 1, 16, 4, 16, "pcieport" },
	{ DOWN0 "01.0", 0x060400, 0x1000, 0xc030, 0x1a, 0x1a, 6, 4, 8, 4, 16, "pcieport" },
	{ DOWN0 "02.0", 0x060400, 0x1000, 0xc030, 0x1b, 0x1b, 6, 4, 16, 4, 16, "pcieport" },
	{ DOWN0 "00.0/0000:19:00.0", 0x030200, 0x10de, 0x20f1, 0, 0, 0, 1, 16, 4, 16, "nvidia" },
	{ DOWN0 "01.0/0000:1a:00.0", 0x030200, 0x10de, 0x20f1, 0, 0, 0, 4, 8, 4, 16, "nvidia" },
	{ DOWN0 "02.0/0000:1b:00.0", 0x020000, 0x15b3, 0x101d, 0, 0, 0, 4, 16, 4, 16, "mlx5_core" },
	{ DOWN0 "02.0/0000:1b:00.1", 0x020000, 0x15b3, 0x101d, 0, 0, 0, 4, 16, 4, 16, "mlx5_core" },
	{ "pci0000:97/0000:97:01.0", 0x060400, 0x8086, 0x352a, 0x98, 0x9b, 4, 4, 16, 5, 16, "pcieport" },
	{ ROOT1 "0000:98:00.0", 0x060400, 0x1000, 0xc030, 0x99, 0x9b, 5, 4, 16, 4, 16, "pcieport" },
	{ DOWN1 "00.0", 0x060400, 0x1000, 0xc030, 0x9a, 0x9a, 6, 4, 16, 4, 16, "pcieport" },
	{ DOWN1 "01.0", 0x060400, 0x1000, 0xc030, 0x9b, 0x9b, 6, 4, 16, 4, 16, "pcieport" },
	{ DOWN1 "00.0/0000:9a:00.0", 0x030200, 0x10de, 0x20f1, 0, 0, 0, 4, 16, 4, 16, "nvidia" },
	{ DOWN1 "01.0/0000:9b:00.0", 0x030200, 0x10de, 0x20f1, 0, 0, 0, 4, 16, 4, 16, "nvidia" },
	{ "pci0000:97/0000:97:02.0", 0x060400, 0x8086, 0x352b, 0x9c, 0x9c, 4, 3, 8, 5, 8, "pcieport" },
	{ "pci0000:97/0000:97:02.0/0000:9c:00.0", 0x020000, 0x8086, 0x1593, 0, 0, 0, 3, 8, 4, 8, "ice" },
	{ "pci0000:97/0000:97:03.0", 0x030000, 0x1a03, 0x2000, 0, 0, 0, 0, 0, 0, 0, "ast" },
};

static void put16(unsigned char *at, unsigned value)
{
	at[0] = (unsigned char)value;
	at[1] = (unsigned char)(value >> 8);
}

static void put32(unsigned char *at, unsigned value)
{
	put16(at, value & 0xffff);
	put16(at + 2, value >> 16);
}

/* As root reads it: header, PCI Express at 0x40, then serial number at 0x100 and, for ports, ACS at 0x148. */
static void make_config(const struct device *device, unsigned char config[static 4096])
{
	bool port = device->kind == 4 || device->kind == 6;

	memset(config, 0, 4096);
	put16(config, device->vendor);
	put16(config + 2, device->device);
	put16(config + 4, 0x0147);
	put16(config + 6, 0x0010);
	config[0x09] = (unsigned char)device->class_code;
	config[0x0a] = (unsigned char)(device->class_code >> 8);
	config[0x0b] = (unsigned char)(device->class_code >> 16);
	put32(config + 0x10, 0xfeedc0de);
	if (device->last) {
		config[0x0e] = 1;
		config[0x18] = (unsigned char)strtoul(strrchr(device->path, '/') + 6, NULL, 16);
		config[0x19] = (unsigned char)device->first;
		config[0x1a] = (unsigned char)device->last;
	}
	config[0x34] = 0x40;
	config[0x40] = 0x10;
	put16(config + 0x42, 2 | device->kind << 4);
	put32(config + 0x44, 2);                         /* payload up to 512 */
	put16(config + 0x48, 1 << 4 | 1 << 5 | 5 << 12); /* relaxed ordering, payload 256, reads of 4096 */
	put32(config + 0x4c, device->most_generation | device->most_lanes << 4);
	put16(config + 0x52, device->generation | device->lanes << 4);
	put32(config + 0x100, 0x0003 | 1 << 16 | (port ? 0x148U << 20 : 0));
	memcpy(config + 0x104, "\x0a\x1b\x2c\x3d\x4e\x5f\xfe\xed", 8);
	if (port) {
		put32(config + 0x148, 0x000d | 1 << 16);
		put16(config + 0x14e, device->kind == 6 ? 0x1d : 0);
	}
}

static const char *speed_text(unsigned generation)
{
	static const char *const texts[] = { "Unknown\n",       "2.5 GT/s PCIe\n",  "5.0 GT/s PCIe\n",
					     "8.0 GT/s PCIe\n", "16.0 GT/s PCIe\n", "32.0 GT/s PCIe\n" };

	return texts[generation];
}

static void put_device(struct tree *machine, const struct device *device)
{
	const char *bus_id = strrchr(device->path, '/') + 1, *at = device->path;
	bool second = !strncmp(at, "pci0000:97", 10);
	unsigned char config[4096];
	char text[256], path[512], folder[256];

	snprintf(folder, sizeof(folder), "sys/devices/%s", at);
	snprintf(text, sizeof(text), "0x%06x\n", device->class_code);
	put(machine, text, "%s/class", folder);
	snprintf(text, sizeof(text), "0x%04x\n", device->vendor);
	put(machine, text, "%s/vendor", folder);
	put(machine, text, "%s/subsystem_vendor", folder);
	snprintf(text, sizeof(text), "0x%04x\n", device->device);
	put(machine, text, "%s/device", folder);
	put(machine, "0x0001\n", "%s/subsystem_device", folder);
	put(machine, second ? "c\n" : "3\n", "%s/local_cpus", folder);
	put(machine, second ? "1\n" : "0\n", "%s/numa_node", folder);
	put(machine, speed_text(device->generation), "%s/current_link_speed", folder);
	put(machine, speed_text(device->most_generation), "%s/max_link_speed", folder);
	snprintf(text, sizeof(text), "%u\n", device->lanes);
	put(machine, text, "%s/current_link_width", folder);
	snprintf(text, sizeof(text), "%u\n", device->most_lanes);
	put(machine, text, "%s/max_link_width", folder);
	put(machine, "SN0123456789\n", "%s/vpd", folder);
	put(machine,
	    "0x00000000fa000000 0x00000000faffffff 0x0000000000040200\n"
	    "0x0000180000000000 0x0000180fffffffff 0x000000000014220c\n",
	    "%s/resource", folder);
	make_config(device, config);
	snprintf(path, sizeof(path), "%s/config", folder);
	tree_write(machine->fd, path, config, sizeof(config));
	snprintf(path, sizeof(path), "%s/driver", folder);
	snprintf(text, sizeof(text), "/sys/bus/pci/drivers/%s", device->driver);
	tree_link(machine, path, text);
	snprintf(path, sizeof(path), "%s/iommu_group", folder);
	tree_link(machine, path, second ? "/sys/kernel/iommu_groups/7" : "/sys/kernel/iommu_groups/3");
	snprintf(path, sizeof(path), "sys/bus/pci/devices/%s", bus_id);
	snprintf(text, sizeof(text), "../../../devices/%s", at);
	tree_link(machine, path, text);
}

/* -------------------------------------------------------------------------------------------------------------- network */

static void put_interface(struct tree *machine, const char *name, const char *device, const char *speed)
{
	char path[512], text[512], folder[400];

	snprintf(folder, sizeof(folder), "sys/devices/%s/net/%s", device, name);
	put(machine, "0a:1b:2c:3d:4e:5f\n", "%s/address", folder);
	put(machine, "1\n", "%s/type", folder);
	put(machine, speed, "%s/speed", folder);
	put(machine, "9000\n", "%s/mtu", folder);
	put(machine, "up\n", "%s/operstate", folder);
	put(machine, "full\n", "%s/duplex", folder);
	put(machine, "0\n", "%s/dev_port", folder);
	snprintf(path, sizeof(path), "sys/class/net/%s", name);
	snprintf(text, sizeof(text), "../../devices/%s/net/%s", device, name);
	tree_link(machine, path, text);
	if (strncmp(device, "pci", 3) != 0)
		return;
	snprintf(path, sizeof(path), "%s/device", folder);
	snprintf(text, sizeof(text), "../../../%s", strrchr(device, '/') + 1);
	tree_link(machine, path, text);
}

static void put_rdma(struct tree *machine, const char *name, const char *device)
{
	char path[512], text[512], folder[400];

	snprintf(folder, sizeof(folder), "sys/devices/%s/infiniband/%s", device, name);
	put(machine, identity, "%s/sys_image_guid", folder);
	put(machine, identity, "%s/node_guid", folder);
	put(machine, "22.41.1000\n", "%s/fw_ver", folder);
	put(machine, "200 Gb/sec (4X HDR)\n", "%s/ports/1/rate", folder);
	put(machine, "4: ACTIVE\n", "%s/ports/1/state", folder);
	put(machine, "Ethernet\n", "%s/ports/1/link_layer", folder);
	/* As the driver of that card has them: link-local, then the address, each of both versions; then an empty row. */
	for (unsigned i = 0; i < 4; i++) {
		put(machine,
		    i < 2 ? "fe80:0000:0000:0000:0a1b:2cff:fe3d:4e5f\n" : "0000:0000:0000:0000:0000:ffff:0a63:584d\n",
		    "%s/ports/1/gids/%u", folder, i);
		put(machine, i % 2 ? "RoCE v2\n" : "IB/RoCE v1\n", "%s/ports/1/gid_attrs/types/%u", folder, i);
	}
	put(machine, "0000:0000:0000:0000:0000:0000:0000:0000\n", "%s/ports/1/gids/4", folder);
	put(machine, "RoCE v2\n", "%s/ports/1/gid_attrs/types/4", folder);
	snprintf(path, sizeof(path), "sys/class/infiniband/%s", name);
	snprintf(text, sizeof(text), "../../devices/%s/infiniband/%s", device, name);
	tree_link(machine, path, text);
	snprintf(path, sizeof(path), "%s/device", folder);
	snprintf(text, sizeof(text), "../../../%s", strrchr(device, '/') + 1);
	tree_link(machine, path, text);
}

static void put_network(struct tree *machine)
{
	put_interface(machine, "ens1f0np0", DOWN0 "02.0/0000:1b:00.0", "200000\n");
	put_interface(machine, "enx0011223344ff", DOWN0 "02.0/0000:1b:00.1", "200000\n");
	put_rdma(machine, "mlx5_0", DOWN0 "02.0/0000:1b:00.0");
	put_interface(machine, "ens5", "pci0000:97/0000:97:02.0/0000:9c:00.0", "25000\n");
	put_interface(machine, "docker0", "virtual", "10000\n");
	put_interface(machine, "lo", "virtual", "-1\n");
	put(machine, "most_Mbps=100000 pause_rx=off pause_tx=on", "ethtool/ens5");
	put(machine, "most_Mbps=200000 pause_rx=off pause_tx=off pfc=00010000 trust=dscp dscp=26:3",
	    "ethtool/ens1f0np0");
	put(machine, "max_qp=131072 max_mr=16777216 packet1=4096", "verbs/mlx5_0");
	put(machine, "48\n", "sys/class/net/ens1f0np0/ecn/roce_np/cnp_dscp");
	for (unsigned i = 0; i < 8; i++) {
		put(machine, i == 3 ? "1\n" : "0\n", "sys/class/net/ens1f0np0/ecn/roce_np/enable/%u", i);
		put(machine, "0\n", "sys/class/net/ens1f0np0/ecn/roce_rp/enable/%u", i);
	}
}

/* --------------------------------------------------------------------------------------------------------------- system */

#define FAKE_GPU(index, bus, generation, lanes)                                                           \
	"gpu " #index " bus=" bus " device=0x20f110de subsystem=0x000110de sm=80 generation=" #generation \
	" lanes=" #lanes " most_generation=4 most_lanes=16 memory=42949672960 bar1=68719476736 mig=0 "    \
	"name=NVIDIA A100-PCIE-40GB\n"

static const char nvml[] = "nvml 1\ndriver 550.54.15\n" FAKE_GPU(0, "0000:19:00.0", 1, 16)
	FAKE_GPU(1, "0000:1a:00.0", 4, 8) FAKE_GPU(2, "0000:9a:00.0", 4, 16)
		FAKE_GPU(3, "0000:9b:00.0", 4,
			 16) "nvlink 2 link=0 active=1 version=3 rate=25000000000 remote=0 bus=0000:9b:00.0\n"
			     "nvlink 2 link=1 active=1 version=3 rate=25000000000 remote=0 bus=0000:9b:00.0\n"
			     "nvlink 3 link=0 active=1 version=3 rate=25000000000 remote=0 bus=0000:9a:00.0\n"
			     "nvlink 3 link=1 active=1 version=3 rate=25000000000 remote=0 bus=0000:9a:00.0\n"
			     "p2p 0 to=1 status=works\np2p 0 to=2 status=bridges\np2p 0 to=3 status=bridges\n"
			     "p2p 1 to=0 status=works\np2p 1 to=2 status=bridges\np2p 1 to=3 status=bridges\n"
			     "p2p 2 to=0 status=bridges\np2p 2 to=1 status=bridges\np2p 2 to=3 status=works\n"
			     "p2p 3 to=0 status=bridges\np2p 3 to=1 status=bridges\np2p 3 to=2 status=works\n";

static void put_system(struct tree *machine)
{
	put(machine, nvml, "nvml.txt");
	put(machine, "DMA-FQ\n", "sys/kernel/iommu_groups/3/type");
	put(machine, "identity\n", "sys/kernel/iommu_groups/7/type");
	put(machine, "live\n", "sys/module/nvidia_peermem/initstate");
	put(machine, "1\n", "proc/sys/kernel/numa_balancing");
	put(machine, "4096\t131072\t6291456\n", "proc/sys/net/ipv4/tcp_rmem");
	put(machine, "212992\n", "proc/sys/net/core/rmem_max");
	put(machine,
	    "Limit                     Soft Limit           Hard Limit           Units     \n"
	    "Max locked memory         65536                unlimited            bytes     \n",
	    "proc/self/limits");
	/* What must not be taken along. */
	put(machine, "secrethost\n", "proc/sys/kernel/hostname");
	put(machine, "secrethost\n", "etc/hostname");
	put(machine, "7a6b5c4d-0000-4000-8000-000000000001\n", "sys/class/dmi/id/product_uuid");
	put(machine, "SN0123456789\n", "sys/class/dmi/id/product_serial");
	put(machine, "SN0123456789\n", "sys/class/dmi/id/board_serial");
	put(machine, "7a6b5c4d-0000-4000-8000-000000000002\n", "etc/machine-id");
	put(machine, "7a6b5c4d-0000-4000-8000-000000000003\n", "proc/sys/kernel/random/boot_id");
	put(machine, "ip=10.99.88.77 token=secretcookie\n", "proc/cmdline");
	put(machine, "Linux version 6.1.0 (root@secrethost)\n", "proc/version");
	put(machine, "MemTotal:        8389632 kB\n", "proc/meminfo");
}

int fake_machine_new(void **state)
{
	(void)tree_new(state);
	put_cpus(*state);
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
		put_device(*state, &devices[i]);
	put_network(*state);
	put_system(*state);
	return 0;
}
